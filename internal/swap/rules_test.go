package swap

import (
	"errors"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/testing/statediagram"
)

func TestTheStatesAreDrawnAsTheTableSays(t *testing.T) {
	t.Parallel()
	var moves []statediagram.Transition
	for _, m := range transitions {
		told := string(m.Event)
		if m.OwnEvent != "" {
			told += ", of an organization's swap " + string(m.OwnEvent)
		}
		moves = append(moves, statediagram.Transition{
			From: string(m.From), To: string(m.To), Cause: m.Cause, Event: told,
		})
	}
	statediagram.CheckDiagram(t, "states.md", "a swap", moves)
}

func TestNoStatusIsReachedOnAnotherWay(t *testing.T) {
	t.Parallel()
	allowed := map[[2]Status]bool{
		{"", Pending}: true, {Pending, Depositing}: true, {Pending, Processing}: true, {Pending, FailedStatus}: true,
		{Depositing, Processing}: true, {Depositing, FailedStatus}: true, {Processing, Completed}: true,
		{Processing, FailedStatus}: true,
		{"", AwaitingApproval}:     true, {AwaitingApproval, Pending}: true, {AwaitingApproval, Rejected}: true,
		{AwaitingApproval, CancelledStatus}: true,
	}
	if len(transitions) != len(allowed) {
		t.Errorf("the table has %d ways, want %d", len(transitions), len(allowed))
	}
	for _, from := range append([]Status{""}, OrganizationStatuses...) {
		for _, to := range OrganizationStatuses {
			if isThere := findsWay(from, to); isThere != allowed[[2]Status{from, to}] {
				t.Errorf("from %q to %s: got %v, want %v", from, to, isThere, !isThere)
			}
		}
	}
}

func findsWay(from, to Status) (isThere bool) {
	defer func() { isThere = recover() == nil }()
	findTransition(from, to)
	return
}

// Rule SWAP-3 over every pair of mints, with what each mint is.
func TestThePairRulesApplyInTheirOrder(t *testing.T) {
	t.Parallel()
	type kind struct {
		mint.Mint
		isDollarElsewhere bool // USDC or USDT that is not on Solana
		isRefused         bool // it is not swappable
	}
	newMint := func(id int, symbol string, name chain.Name, k mint.Kind) mint.Mint {
		return mint.Mint{ID: id, Symbol: symbol, Chain: name, Kind: k}
	}
	kinds := []kind{
		{Mint: newMint(1, "USDC", chain.Solana, mint.Token)},
		{Mint: newMint(2, "USDC", chain.Ethereum, mint.Token), isDollarElsewhere: true},
		{Mint: newMint(3, "USDT", chain.Polygon, mint.Token), isDollarElsewhere: true},
		{Mint: newMint(4, "USDT", chain.Solana, mint.Token)},
		{Mint: newMint(5, "ETH", chain.Ethereum, mint.Native)},
		{Mint: newMint(6, "ETH", chain.Polygon, mint.Token)},                    // the same currency on another chain
		{Mint: newMint(7, "POL", chain.Polygon, mint.Native), isRefused: true},  // no node traces
		{Mint: newMint(8, "BTC", chain.Bitcoin, mint.Native), isRefused: true},  // its chain does not run
		{Mint: newMint(9, "WBTC", chain.Ethereum, mint.Token), isRefused: true}, // quarantined
		{Mint: newMint(10, "DAI", chain.Ethereum, mint.Token), isRefused: true}, // not in the list
		{Mint: newMint(11, "SOL", chain.Solana, mint.Native)},
		{Mint: newMint(12, "USDC", chain.Bitcoin, mint.Token), isDollarElsewhere: true, isRefused: true},
	}
	kinds[8].Quarantined = true
	settings := org.Settings{CustomerSwapsEnabled: true}
	for _, k := range kinds {
		if k.ID != 10 {
			settings.SwappableMintIDs = append(settings.SwappableMintIDs, k.ID)
		}
	}
	s := NewService(Config{})
	s.Chains = chain.Chains{
		chain.Solana: {Name: chain.Solana}, chain.Ethereum: {
			Name:         chain.Ethereum,
			SeesInternal: func() bool { return true },
		},
		chain.Polygon: {Name: chain.Polygon, SeesInternal: func() bool { return false }},
	}
	for _, from := range kinds {
		if got := s.IsSwappable(from.Mint, settings); got != (!from.isRefused && !from.isDollarElsewhere) {
			t.Errorf("mint %d is swappable: %v", from.ID, got)
		}
		if s.IsSwappable(from.Mint, org.Settings{SwappableMintIDs: settings.SwappableMintIDs}) {
			t.Errorf("mint %d is swappable while swaps are switched off", from.ID)
		}
		for _, to := range kinds {
			want := ""
			switch {
			case from.Symbol == to.Symbol:
				want = "a"
			case from.isDollarElsewhere || to.isDollarElsewhere:
				want = "b"
			case from.isRefused || to.isRefused:
				want = "c"
			}
			got := ""
			if f := fault.Find(s.checkPair(from.Mint, to.Mint, settings)); f != nil {
				got, _ = f.Details["rule"].(string)
				if f.Code != fault.InvalidPair {
					t.Errorf("%d for %d: got the code %s, want INVALID_PAIR", from.ID, to.ID, f.Code)
				}
			}
			if got != want {
				t.Errorf("%s on %s for %s on %s: got rule %q, want %q", from.Symbol, from.Chain, to.Symbol, to.Chain,
					got, want)
			}
		}
	}
}

// Rules SWAP-20 to SWAP-23: what a report means.
func TestAReportMeansNoMoreThanItMay(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { moment := now.Add(-d); return &moment }
	conf := Config{}.withDefaults()
	base := func(change func(*followed)) followed {
		f := followed{Swap: Swap{
			ID: "cs_1", Status: Processing, PaidAt: ago(10 * time.Minute), CreatedAt: now.Add(-12 * time.Minute),
			AmountIn: money.Units(100), MinOut: money.Units(90), RefundReport: provider.RefundNone,
		}, destinationAt: ago(0)}
		if change != nil {
			change(&f)
		}
		return f
	}
	report := func(s provider.Status, refund provider.RefundReport) provider.Report {
		return provider.Report{Status: s, Refund: refund}
	}
	for name, c := range map[string]struct {
		followed     followed
		report       provider.Report
		isUnanswered bool
		want         func(end conclusion) bool
	}{
		"no answer changes nothing": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.RefundReport = provider.RefundPending }),
			provider.Report{},
			true,
			func(end conclusion) bool {
				return !end.hasPayment && !end.isFailed && end.failureSaidAt != nil &&
					end.refundReport == provider.RefundPending &&
					end.lookAt != nil
			},
		},
		"processing": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour) }), report(provider.Processing,
				provider.RefundNone), false,
			func(end conclusion) bool { return end.hasPayment && end.failureSaidAt == nil && !end.isFailed },
		},
		"waiting takes a failure back": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour) }), report(provider.Waiting,
				provider.RefundNone), false,
			func(end conclusion) bool { return !end.hasPayment && end.failureSaidAt == nil && !end.isFailed },
		},
		"the first success": {
			base(nil), report(provider.Success, provider.RefundNone), false,
			func(end conclusion) bool { return end.hasPayment && end.successSaidAt.Equal(now) && !end.isFailed },
		},
		"a later success keeps its time": {
			base(func(f *followed) { f.successSaidAt = ago(time.Minute) }), report(provider.Success,
				provider.RefundNone), false,
			func(end conclusion) bool { return end.successSaidAt.Equal(now.Add(-time.Minute)) },
		},
		"the first failure": {
			base(nil), report(provider.Failed, provider.RefundPending), false,
			func(end conclusion) bool {
				return !end.isFailed && end.failureSaidAt.Equal(now) && end.lookAt.Equal(now.Add(lookSlow)) &&
					end.refundReport == provider.RefundPending
			},
		},
		"a failure within a minute": {
			base(func(f *followed) { f.failureSaidAt = ago(59 * time.Second); f.Refunded = money.Units(1) }),
			report(provider.Failed, provider.RefundNone), false, func(end conclusion) bool { return !end.isFailed },
		},
		"a failure after a minute with a refund": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Minute); f.Refunded = money.Units(1) }),
			report(provider.Failed, provider.RefundNone), false,
			func(end conclusion) bool { return end.isFailed && end.reason == ProviderFailed },
		},
		"a failure after a minute without a refund": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Minute) }),
			report(provider.Refunded,
				provider.RefundPending), false, func(end conclusion) bool { return !end.isFailed },
		},
		"a failure after its grace": {
			base(func(f *followed) { f.failureSaidAt = ago(5 * time.Minute) }),
			report(provider.Refunded, provider.RefundPending), false,
			func(end conclusion) bool { return end.isFailed && end.reason == ProviderRefunded && end.lookAt != nil },
		},
		"a failure while a whole delivery waits": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.arriving = money.Units(90) }),
			report(provider.Failed, provider.RefundNone), false, func(end conclusion) bool { return !end.isFailed },
		},
		"a failure while less than a delivery waits": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.arriving = money.Units(89) }),
			report(provider.Failed, provider.RefundNone), false, func(end conclusion) bool { return end.isFailed },
		},
		"a person of the provider holds it": {
			base(func(f *followed) { f.failureSaidAt = ago(5 * time.Minute) }),
			report(provider.Failed, provider.RefundManual), false,
			func(end conclusion) bool { return end.isFailed && end.reason == ProviderCompliance },
		},
		"a failure that the walk has not passed": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.destinationAt = ago(time.Hour) }),
			report(provider.Failed, provider.RefundNone), false, func(end conclusion) bool { return !end.isFailed },
		},
		"a failure while nothing is walked": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.destinationAt = nil }),
			report(provider.Failed, provider.RefundNone), false, func(end conclusion) bool { return !end.isFailed },
		},
		"a failure before the payment is final": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.PaidAt = nil; f.Status = Depositing }),
			report(provider.Failed, provider.RefundNone), false,
			func(end conclusion) bool { return !end.isFailed && !end.hasPayment },
		},
		"a failure of what arrived in part before the payment is final": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.PaidAt = nil }),
			report(provider.Failed, provider.RefundNone), false, func(end conclusion) bool { return !end.isFailed },
		},
		"a failure of a failed swap": {
			base(func(f *followed) { f.failureSaidAt = ago(time.Hour); f.Status = FailedStatus }),
			report(provider.Failed, provider.RefundUnavailable), false,
			func(end conclusion) bool {
				return !end.isFailed && end.refundReport == provider.RefundUnavailable && end.lookAt != nil
			},
		},
		"nothing is left at the provider": {
			base(func(f *followed) {
				f.Status, f.Refunded, f.Short = FailedStatus, money.Units(90), money.Units(10)
			}),
			report(provider.Refunded,
				provider.RefundPending), false, func(end conclusion) bool { return end.lookAt == nil },
		},
		"it takes long": {
			base(func(f *followed) { f.PaidAt = ago(31 * time.Minute) }), report(provider.Processing,
				provider.RefundNone), false,
			func(end conclusion) bool { return end.isDelayed && !end.isFailed },
		},
		"it takes long, and was told": {
			base(func(f *followed) { f.PaidAt = ago(31 * time.Minute); f.DelayedAt = ago(time.Minute) }),
			report(provider.Processing,
				provider.RefundNone), false, func(end conclusion) bool { return !end.isDelayed },
		},
		"it takes long as was said": {
			base(func(f *followed) { f.PaidAt = ago(31 * time.Minute); f.EstimatedSeconds = new(700) }),
			report(provider.Processing,
				provider.RefundNone), false, func(end conclusion) bool { return !end.isDelayed },
		},
		"it takes long without an answer": {
			base(func(f *followed) { f.PaidAt = ago(31 * time.Minute) }),
			provider.Report{},
			true,
			func(end conclusion) bool { return end.isDelayed },
		},
		"a success of an hour ago": {
			base(func(f *followed) { f.successSaidAt = ago(61 * time.Minute) }), report(provider.Success,
				provider.RefundNone), false,
			func(end conclusion) bool { return end.suspends != "" && !end.isFailed },
		},
		"a success that a person has seen": {
			base(func(f *followed) {
				f.successSaidAt, f.providerSince = ago(61*time.Minute), ago(30*time.Second)
			}),
			report(provider.Success,
				provider.RefundNone), false, func(end conclusion) bool { return end.suspends == "" },
		},
		"an old swap is looked at rarely": {
			base(func(f *followed) { f.CreatedAt = now.Add(-2 * time.Hour) }), report(provider.Processing,
				provider.RefundNone), false,
			func(end conclusion) bool { return end.lookAt.Equal(now.Add(lookRare)) },
		},
		"a young swap is looked at often": {
			base(nil), report(provider.Processing, provider.RefundNone), false,
			func(end conclusion) bool { return end.lookAt.Equal(now.Add(lookFirst)) },
		},
		"a swap that was looked at a while": {
			base(func(f *followed) { f.lookCount = 1000 }), report(provider.Processing, provider.RefundNone), false,
			func(end conclusion) bool { return end.lookAt.Equal(now.Add(lookSlow)) },
		},
	} {
		if end := conf.conclude(c.followed, c.report, !c.isUnanswered, now); !c.want(end) {
			t.Errorf("%s: got %+v", name, end)
		}
	}
}

// Rule SWAP-8: a loss is rounded down, and a gain is none.
func TestALossIsInBasisPoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expected, out uint64
		want          int
	}{
		{10_000, 10_000, 0},
		{10_000, 10_001, 0},
		{10_000, 9_999, 1},
		{10_000, 9_600, 400},
		{10_000, 0, 10_000},
		{0, 5, 0},
		{3, 2, 3333},
		{1_000_000, 999_950, 0},
	} {
		if got := lossBps(money.Units(c.expected), money.Units(c.out)); got != c.want {
			t.Errorf("%d of %d: got %d, want %d", c.out, c.expected, got, c.want)
		}
	}
}

// Rule SWAP-8: a dry offer is believed up to the limit above the price of other sources.
func TestAnOfferFarAboveThePriceIsNotBelieved(t *testing.T) {
	t.Parallel()
	dollars, euros := mint.Mint{ID: 1, Decimals: 6}, mint.Mint{ID: 2, Decimals: 6}
	known := secondPrice{inUSD: money.MustParseUSD("2"), outUSD: money.MustParseUSD("1"), isKnown: true}
	for name, c := range map[string]struct {
		second     secondPrice
		lossMax    int
		in, out    uint64
		isBelieved bool
	}{
		"as expected":               {known, 300, 10_000, 20_000, true},
		"far below":                 {known, 300, 10_000, 1, true}, // checkPrice refuses it
		"at the limit":              {known, 300, 10_000, 20_600, true},
		"a unit above the limit":    {known, 300, 10_000, 20_601, false},
		"no loss is allowed":        {known, 0, 10_000, 20_001, false},
		"without another price":     {secondPrice{}, 300, 10_000, 1_000_000, true},
		"the price of many dollars": {known, 300, 1_000_000_000_000, 3_000_000_000_000, false},
	} {
		s := &Service{conf: Config{MaxLossBps: &c.lossMax}.withDefaults()}
		offer := provider.Offer{AmountIn: money.Units(c.in), MinAmountOut: money.Units(c.out)}
		if err := s.checkBelievable(c.second, offer, dollars, euros); errors.Is(err, errTooHigh) == c.isBelieved ||
			c.isBelieved && err != nil {
			t.Errorf("%s: got %v, want believed %v", name, err, c.isBelieved)
		}
	}
}

// Rule SWAP-9: a firm offer keeps the dry one of its provider, within the slippage that was asked for.
func TestAFirmOfferKeepsTheDryOne(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dry, firm uint64
		slippage  int
		isKept    bool
	}{
		{10_000, 10_000, 0, true},
		{10_000, 9_999, 0, false},
		{10_000, 9_900, 100, true},
		{10_000, 9_899, 100, false},
		{10_000, 20_000, 100, true},
	} {
		dry := judgedOffer{Offer: provider.Offer{AmountOut: money.Units(c.dry)}}
		err := dry.withFirm(provider.Offer{AmountOut: money.Units(c.firm)}).checkKept(c.slippage)
		if (err == nil) != c.isKept || err != nil && !errors.Is(err, provider.ErrUnavailable) {
			t.Errorf("%d after %d with a slippage of %d: got %v, want kept %v", c.firm, c.dry, c.slippage, err,
				c.isKept)
		}
	}
}

func TestARateIsThatOfWholeTokens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in, out                 uint64
		inDecimals, outDecimals int
		want                    string
	}{
		{300_000_000, 298_500_000, 6, 6, "0.995"},
		{1_000_000, 1_000_000, 6, 6, "1"},
		{3_000_000_000, 1_000_000_000_000_000_000, 6, 18, "0.000333333333"},
		{1_000_000_000_000_000_000, 3_000_000_000, 18, 6, "3000"},
		{1, 1, 18, 0, "1000000000000000000"},
		{1_000_000_000_000_000_000, 1, 0, 18, "0"},
		{3, 2, 0, 0, "0.666666666666"},
	} {
		got := provider.FormatRate(money.Units(c.in), money.Units(c.out), c.inDecimals, c.outDecimals)
		if got != c.want {
			t.Errorf("%d for %d: got %s, want %s", c.in, c.out, got, c.want)
		}
	}
}

// Rule SWAP-1: e-mail and metadata make no other request, and a number may be written in two ways.
func TestARequestDiffersByItsParameters(t *testing.T) {
	t.Parallel()
	usual := func() Request {
		return Request{IdempotencyKey: "k", CustomerID: "ann", FromMintID: 1, ToMintID: 2, AmountIn: "100"}
	}
	same := map[string]func(*Request){
		"e-mail":               func(r *Request) { r.CustomerEmail = new("a@b.example") },
		"metadata":             func(r *Request) { r.Metadata = map[string]string{"a": "b"} },
		"the default slippage": func(r *Request) { r.SlippageBps = new(slippageBpsDefault) },
	}
	other := map[string]func(*Request){
		"customer":         func(r *Request) { r.CustomerID = "bob" },
		"source":           func(r *Request) { r.FromMintID = 3 },
		"destination":      func(r *Request) { r.ToMintID = 3 },
		"amount":           func(r *Request) { r.AmountIn = "101" },
		"minimum":          func(r *Request) { r.MinAmountOut = new("1") },
		"slippage":         func(r *Request) { r.SlippageBps = new(50) },
		"no amount at all": func(r *Request) { r.AmountIn = "" },
	}
	w := Swap{digest: usual().digest()}
	for name, change := range same {
		r := usual()
		change(&r)
		if w.Differs(r) {
			t.Errorf("%s makes it another request", name)
		}
	}
	seen := map[string]string{}
	for name, change := range other {
		r := usual()
		change(&r)
		if !w.Differs(r) {
			t.Errorf("%s makes it no other request", name)
		}
		if twin, isKnown := seen[string(r.digest())]; isKnown {
			t.Errorf("%s and %s have one digest", name, twin)
		}
		seen[string(r.digest())] = name
	}
	if (Swap{}).Differs(usual()) {
		t.Error("a restored swap differs from its request")
	}
}

func TestAProviderIsNotJudgedByItsOwnPrices(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		source, name string
		want         bool
	}{
		{"one_click", "ONE_CLICK", true},
		{"oneclick", "ONE_CLICK", true},
		{"RELAY", "RELAY", true},
		{"coingecko", "ONE_CLICK", false},
		{"", "ONE_CLICK", false},
	} {
		if got := isOwnSource(c.source, c.name); got != c.want {
			t.Errorf("%s of %s: got %v, want %v", c.source, c.name, got, c.want)
		}
	}
}

// The payment window ends before the provider stops taking the payment.
func TestTheDefaultsAreThoseOfTheDesign(t *testing.T) {
	t.Parallel()
	c := Config{}.withDefaults()
	for name, pair := range map[string][2]time.Duration{
		"a payment": {c.payWindow(chain.Ethereum), 30 * time.Minute}, "a payment in " +
			"Bitcoin": {c.payWindow(chain.Bitcoin), 90 * time.Minute},
		"a delay": {c.DelayedAfter, 30 * time.Minute}, "a refund": {c.RefundGrace, 5 * time.Minute},
		"an end by a person": {c.StuckAfter, 24 * time.Hour}, "settling": {
			settleMargin(chain.Ethereum),
			30 * time.Minute,
		},
		"settling in Bitcoin": {settleMargin(chain.Bitcoin), 3 * time.Hour},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: got %v, want %v", name, pair[0], pair[1])
		}
	}
	if *c.MaxLossBps != 300 {
		t.Errorf("got a greatest loss of %d, want 300", *c.MaxLossBps)
	}
	if set := (Config{
		PayWindow:  time.Hour,
		MaxLossBps: new(int),
	}).withDefaults(); set.PayWindow != time.Hour || *set.MaxLossBps != 0 {
		t.Error("a setting is replaced by its default")
	}
}

// People approve a swap above the threshold, and one without a value while there is a threshold. Rule SWAP-35.
func TestPeopleApproveASwapAboveTheThreshold(t *testing.T) {
	t.Parallel()
	threshold, equal, more := money.MustParseUSD("100"), money.MustParseUSD("100.00"), money.MustParseUSD("100.01")
	for name, c := range map[string]struct {
		threshold, value *money.USD
		want             bool
	}{
		"below":             {&more, &threshold, false},
		"equal":             {&threshold, &equal, false},
		"above":             {&threshold, &more, true},
		"no value":          {&threshold, nil, true},
		"no threshold":      {nil, &more, false},
		"neither":           {nil, nil, false},
		"a threshold of 0":  {new(money.USD), &equal, true},
		"zero, and no more": {new(money.USD), new(money.USD), false},
	} {
		if got := needsApproval(org.Settings{TwoFactorUSDThreshold: c.threshold}, c.value); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
