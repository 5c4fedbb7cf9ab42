package swaps

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// withoutPrices also swaps a mint that has no price.
var withoutPrices = service.SwapConfig{WithoutPrices: true, MaxLossBps: 300}

// limit gives a provider a limit in dollars.
func (e *testEnv) limit(d *desk, dollars string) {
	e.limits = map[string]money.USD{d.name: money.MustParseUSD(dollars)}
	e.Harness = e.open(e.db)
}

// addDesk adds a provider whose offers are worse than those of the first one.
func (e *testEnv) addDesk() *desk {
	d := &desk{
		t: e.T, name: "WORSE", clock: e.clock, lifetime: 24 * time.Hour,
		price: func(ask provider.Ask) uint64 { return ask.AmountIn.Big().Uint64() * 99 / 100 },
	}
	e.others = append(e.others, d)
	return d
}

// small is a request for a hundred dollars.
func small(key string) swap.Request {
	r := request(key)
	r.AmountIn = fmt.Sprint(100 * million)
	return r
}

// outstanding returns what the list of providers shows of one.
func (e *testEnv) outstanding(d *desk) swap.ProviderState {
	e.Helper()
	states, err := e.Swaps.ListProviders(e.ctx)
	e.must(err)
	for _, p := range states {
		if p.Name == d.name {
			return p
		}
	}
	e.Fatalf("the list has no provider %s", d.name)
	return swap.ProviderState{}
}

func (e *testEnv) wantOutstanding(d *desk, dollars string, isAtLimit bool) {
	e.Helper()
	p := e.outstanding(d)
	if p.Outstanding.USD != money.MustParseUSD(dollars) || p.Outstanding.Unvalued != 0 || p.IsAtLimit() != isAtLimit {
		e.Errorf("with %s are %s dollars and %d without value, at its limit %v; want %s, 0 and %v", d.name,
			p.Outstanding.USD, p.Outstanding.Unvalued, p.IsAtLimit(), dollars, isAtLimit)
	}
}

// What was requested counts from the request until the delivery or the refund is final. Up to the limit a provider
// gets swaps; above it the answer is that of a provider that does not answer. Rule SWAP-40.
func TestAProviderGetsSwapsUpToItsLimit(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.limit(e.desk, "300")
	w := e.requestSwap(small("one")) // below
	e.wantOutstanding(e.desk, "100", false)
	r := small("two")
	r.AmountIn = fmt.Sprint(200*million + 1) // above, by the smallest unit
	_, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.CodeUnavailable)
	if e.desk.asked != 1 || e.number(`SELECT count(*) FROM swaps`) != 1 {
		t.Errorf("%d firm quotes were asked for, want one: the limit is known before", e.desk.asked)
	}
	r.AmountIn = fmt.Sprint(200 * million) // at it, with the key that was refused
	second := e.requestSwap(r)
	e.wantOutstanding(e.desk, "300", true)
	if _, err := e.Swaps.Quote(e.ctx, e.org, swap.QuoteRequest{
		FromMintID: dollars, ToMintID: euros, AmountIn: fmt.Sprint(100 * million),
	}); !fault.HasCode(err, fault.CodeUnavailable) {
		t.Errorf("a quote at the limit: got %v, want that no provider can be asked", err)
	}
	e.pay(w.ID)
	e.wantOutstanding(e.desk, "300", true)
	_, _, err = e.Swaps.Request(e.ctx, e.org, small("three"))
	e.wantFault(err, fault.CodeUnavailable)
	// A known key is answered at the limit, too.
	again, isReplayed, err := e.Swaps.Request(e.ctx, e.org, small("one"))
	if err != nil || !isReplayed || again.ID != w.ID {
		t.Errorf("the known key: got %s, replayed %v, %v", again.ID, isReplayed, err)
	}
	e.deliver(w, 99_500_000)
	e.want(w.ID, swap.Completed, swap.RefundNone)
	e.wantOutstanding(e.desk, "200", false)
	e.pay(second.ID)
	e.refund(e.load(second.ID), 150*million)
	e.wantOutstanding(e.desk, "50", false)
	e.requestSwap(small("three"))
	e.look("the requests")
}

// requestSwap makes a swap.
func (e *testEnv) requestSwap(r swap.Request) swap.Swap {
	e.Helper()
	w, isReplayed, err := e.Swaps.Request(e.ctx, e.org, r)
	e.must(err)
	if isReplayed {
		e.Fatalf("key %s is known", r.IdempotencyKey)
	}
	return w
}

// A provider at its limit leaves its swaps to the next one, which has no limit. Rule SWAP-40.
func TestTheNextProviderGetsTheSwapsAboveALimit(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	worse := e.addDesk()
	e.limit(e.desk, "150")
	for i, want := range []*desk{e.desk, worse, worse} {
		if w := e.requestSwap(small(fmt.Sprint("key", i))); w.Provider != want.name {
			t.Errorf("swap %d is with %s, want %s", i, w.Provider, want.name)
		}
	}
	e.wantOutstanding(e.desk, "100", false)
	e.wantOutstanding(worse, "200", false)
	// If the next one refuses, a provider at its limit might have made an offer: it is no refusal.
	worse.set(func() { worse.dry = func(provider.Ask) error { return provider.Refused(worse.name, "no") } })
	r := small("refused")
	r.AmountIn = fmt.Sprint(90 * million)
	_, _, err := e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.CodeUnavailable)
	worse.set(func() {
		worse.dry = nil
		worse.firm = func(provider.Ask) error { return provider.Refused(worse.name, "no") }
	})
	r.AmountIn = fmt.Sprint(80 * million)
	_, _, err = e.Swaps.Request(e.ctx, e.org, r)
	e.wantFault(err, fault.CodeUnavailable)
	e.look("the requests")
}

// What is with a provider is worth what it is worth now. Rule SWAP-40.
func TestALimitIsOfTheValueOfNow(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		now       *price.Quote // of dollars; nil: no price
		amount    uint64       // of the second swap
		isRefused bool
		shown     string
	}{
		"as before":              {&price.Quote{Price: money.MustParseUSD("1"), Source: "fixed"}, 100, false, "200"},
		"the price has risen":    {&price.Quote{Price: money.MustParseUSD("2"), Source: "fixed"}, 100, true, "200"},
		"a new one has no value": {nil, 100, true, "100"},
		"the price is an hour too old": {&price.Quote{
			Price: money.MustParseUSD("1"), Source: "fixed", QuotedAt: time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC),
		}, 100, true, "100"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnvWith(t, withoutPrices)
			e.limit(e.desk, "250")
			e.requestSwap(small("one"))
			e.prices.set(dollars, c.now)
			e.prices.set(euros, c.now)
			_, _, err := e.Swaps.Request(e.ctx, e.org, small("two"))
			if c.isRefused {
				e.wantFault(err, fault.CodeUnavailable)
			} else {
				e.must(err)
			}
			e.wantOutstanding(e.desk, c.shown, false)
		})
	}
}

// A claim that never had a value fills a limit, and does nothing where there is none. Rule SWAP-40.
func TestAClaimWithoutAnyValueIsTooMuch(t *testing.T) {
	t.Parallel()
	e := newTestEnvWith(t, withoutPrices)
	known := price.Quote{Price: money.MustParseUSD("1"), Source: "fixed"}
	e.prices.set(dollars, nil)
	e.requestSwap(small("one"))
	e.requestSwap(small("two")) // no limit, no question
	e.limit(e.desk, "1000000")
	p := e.outstanding(e.desk)
	if p.Outstanding.Unvalued != 2 || !p.IsAtLimit() {
		t.Errorf("%d swaps have no value, at the limit %v; want 2 and true", p.Outstanding.Unvalued, p.IsAtLimit())
	}
	_, _, err := e.Swaps.Request(e.ctx, e.org, small("three"))
	e.wantFault(err, fault.CodeUnavailable)
	e.prices.set(dollars, &known) // with a price all of them have a value
	e.requestSwap(small("three"))
	e.wantOutstanding(e.desk, "300", false)
}

// Swaps that are written at one moment do not exceed a limit together, and the next provider gets the others.
// Rule SWAP-40.
func TestSwapsOfOneMomentKeepALimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		limit         string
		units         uint64
		callers, want int
	}{
		"each is a large part": {"300", 100 * million, 8, 3},
		// Up to half of the limit they are written side by side, and one by one above it.
		"each is a hundredth": {"10", million / 10, 110, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnfunded(t, service.SwapConfig{})
			e.quick = true
			e.fund("ann", funded)
			worse := e.addDesk()
			e.limit(e.desk, c.limit)
			other := e.open(pgtest.Open(t, e.database, e.clock))
			made, errs := make([]swap.Swap, c.callers), make([]error, c.callers)
			var wg sync.WaitGroup
			for i := range c.callers {
				wg.Go(func() {
					s, r := e.Swaps, request(fmt.Sprint("key", i))
					if i%2 == 1 {
						s = other.Swaps
					}
					r.AmountIn = fmt.Sprint(c.units)
					made[i], _, errs[i] = s.Request(e.ctx, e.org, r)
				})
			}
			wg.Wait()
			with := map[string]int{}
			for i, err := range errs {
				e.must(err)
				with[made[i].Provider]++
			}
			if with[e.desk.name] != c.want || with[worse.name] != c.callers-c.want {
				t.Errorf("the providers have %v, want %d with the one that has the limit", with, c.want)
			}
			e.wantOutstanding(e.desk, c.limit, true)
		})
	}
}

// beforeFirm runs a function before the desk answers the next firm question. The desk answers others meanwhile.
func (d *desk) beforeFirm(act func() error) {
	hasActed := false
	d.firm = func(provider.Ask) error {
		if hasActed {
			return nil
		}
		hasActed = true
		d.mu.Unlock()
		defer d.mu.Lock()
		return act()
	}
}

// A swap whose provider reaches its limit after the firm quote goes to the next provider. Rule SWAP-40.
func TestALimitThatIsReachedMeanwhileMovesASwapOn(t *testing.T) {
	t.Parallel()
	for name, hasNext := range map[string]bool{"there is a next provider": true, "there is none": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newTestEnv(t)
			if hasNext {
				e.addDesk()
			}
			e.limit(e.desk, "150")
			other := e.open(pgtest.Open(t, e.database, e.clock))
			e.desk.beforeFirm(func() error {
				_, _, err := other.Swaps.Request(e.ctx, e.org, small("first"))
				return err
			})
			w, _, err := e.Swaps.Request(e.ctx, e.org, small("second"))
			if hasNext {
				e.must(err)
				if w.Provider != "WORSE" {
					t.Errorf("the swap is with %s, want the next provider", w.Provider)
				}
			} else {
				e.wantFault(err, fault.CodeUnavailable)
			}
			e.wantOutstanding(e.desk, "100", false)
			e.look("the requests")
		})
	}
}

// suspendBeforeFirm suspends the desk once the panel has looked who is suspended, before it answers.
func (e *testEnv) suspendBeforeFirm() {
	e.desk.beforeFirm(func() error {
		return e.Swaps.SuspendProvider(e.ctx, e.desk.name, "a person saw something", audit.Operator("op"))
	})
}

// A provider that is suspended between its firm quote and the commit gets no swap: the next provider gets it. Rule
// SWAP-28.
func TestASuspensionAfterTheFirmQuoteMovesASwapOn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ hasNext, hasLimit, isOwn bool }{
		"there is a next provider":                {hasNext: true},
		"there is none":                           {},
		"it has a limit":                          {hasNext: true, hasLimit: true},
		"the money of an organization":            {hasNext: true, isOwn: true},
		"the money of an organization, and alone": {isOwn: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newUnswept(t)
			if c.hasNext {
				e.addDesk()
			}
			e.Harness = e.open(e.db)
			if c.hasLimit {
				e.limit(e.desk, "5000")
			}
			var made swap.Swap
			var err error
			if c.isOwn {
				o := newOwnEnvOf(t, e)
				e.suspendBeforeFirm()
				made, _, err = e.Swaps.RequestOrganization(e.ctx, e.org, o.ownRequest("key"))
			} else {
				e.suspendBeforeFirm()
				made, _, err = e.Swaps.Request(e.ctx, e.org, small("key"))
			}
			if c.hasNext {
				e.must(err)
				if made.Provider != "WORSE" {
					t.Errorf("the swap is with %s, want the next provider", made.Provider)
				}
			} else {
				e.wantFault(err, fault.CodeUnavailable)
				e.wantNothing()
			}
			if e.suspension() != "a person saw something" || e.desk.asked != 1 {
				t.Errorf("suspended for %q after %d firm quotes", e.suspension(), e.desk.asked)
			}
			e.look("the request")
		})
	}
}

// An approved swap whose provider is suspended after the firm quote waits, and takes the next offer. Rule SWAP-28.
func TestAnApprovedSwapTakesNoOfferOfASuspendedProvider(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	w := o.awaiting()
	o.suspendBeforeFirm()
	o.approve(w.ID, o.ben, o.cyd)
	o.turn()
	if got := o.own(w.ID); got.Status != swap.Pending || got.Provider != "" || o.desk.asked != 1 {
		t.Fatalf("the approved swap is %s with %q after %d firm quotes, want it without a provider after one",
			got.Status, got.Provider, o.desk.asked)
	}
	o.must(o.Swaps.ResumeProvider(o.ctx, o.desk.name, "it was nothing", audit.Operator("op")))
	o.wait(time.Minute)
	if got := o.own(w.ID); got.Provider != o.desk.name {
		t.Errorf("the approved swap is with %q once the provider is resumed", got.Provider)
	}
}

// The limit counts the swaps of all organizations and of both kinds, and holds for a swap that was approved. Rule
// SWAP-40.
func TestALimitHoldsForSwapsOfOrganizations(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.limit(o.desk, "350")
	o.connect()
	awaiting := o.awaiting() // 300 dollars: not with a provider yet
	o.wantOutstanding(o.desk, "0", false)
	o.setting("twoFactorUsdThreshold", "null")
	r := o.ownRequest("another")
	o.requestOwn(r)
	o.wantOutstanding(o.desk, "300", false)
	r.IdempotencyKey = "above"
	_, _, err := o.Swaps.RequestOrganization(o.ctx, o.org, r)
	o.wantFault(err, fault.CodeUnavailable)
	approved := o.approve(awaiting.ID, o.ben, o.cyd)
	o.turn()
	if w := o.own(approved.ID); w.Status != swap.Pending || w.Provider != "" {
		t.Fatalf("the approved swap is %s with %q, want it to wait for an offer", w.Status, w.Provider)
	}
	o.limit(o.desk, "600")
	o.connect()
	o.wait(time.Minute)
	if w := o.own(approved.ID); w.Provider != o.desk.name {
		t.Errorf("the approved swap is with %q once the limit allows it", w.Provider)
	}
	o.wantOutstanding(o.desk, "600", true)
}

// An approved swap whose provider reaches its limit after the firm quote waits for another offer. Rule SWAP-40.
func TestAnApprovedSwapKeepsALimit(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.limit(o.desk, "350")
	o.connect()
	awaiting := o.awaiting()
	o.setting("twoFactorUsdThreshold", "null")
	o.desk.beforeFirm(func() error {
		_, _, err := o.Swaps.RequestOrganization(o.ctx, o.org, o.ownRequest("between"))
		return err
	})
	approved := o.approve(awaiting.ID, o.ben, o.cyd)
	o.turn()
	if w := o.own(approved.ID); w.Status != swap.Pending || w.Provider != "" || o.desk.asked != 2 {
		t.Errorf("the approved swap is %s with %q after %d firm quotes, want it without a provider after 2", w.Status,
			w.Provider, o.desk.asked)
	}
	o.wantOutstanding(o.desk, "300", false)
}

// An organization's swap whose provider reaches its limit after the firm quote is not written. Rule SWAP-40.
func TestASwapOfAnOrganizationKeepsALimitThatIsReachedMeanwhile(t *testing.T) {
	t.Parallel()
	o := newOwnEnv(t)
	o.limit(o.desk, "350")
	o.connect()
	o.desk.beforeFirm(func() error {
		_, _, err := o.Swaps.RequestOrganization(o.ctx, o.org, o.ownRequest("first"))
		return err
	})
	_, _, err := o.Swaps.RequestOrganization(o.ctx, o.org, o.ownRequest("second"))
	o.wantFault(err, fault.CodeUnavailable)
	o.wantOutstanding(o.desk, "300", false)
	o.look("the requests")
}

// What a provider keeps of a swap that failed counts until it has come back. Rule SWAP-40.
func TestWhatAProviderKeepsOfAFailedSwapCounts(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.limit(e.desk, "350")
	w := e.paid()
	e.desk.says(provider.Failed, provider.RefundPending)
	for range 3 {
		e.wait(3 * time.Minute)
	}
	e.turn()
	e.want(w.ID, swap.FailedStatus, swap.RefundPending)
	e.wantOutstanding(e.desk, "300", false)
	_, _, err := e.Swaps.Request(e.ctx, e.org, small("another"))
	e.wantFault(err, fault.CodeUnavailable)
	e.refund(w, 100*million)
	e.wantOutstanding(e.desk, "200", false)
	e.requestSwap(small("another"))
}

// The role of an organization counts the claims of all of them, and sees no other row.
func TestAnOrganizationsTransactionCountsAllClaims(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.requestSwap(small("one"))
	const stranger = "org_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	var claims, rows int64
	e.must(e.db.ReadOrg(e.ctx, stranger, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(ctx, `SELECT count(*) FROM swap_claims(ARRAY[$1])`, e.desk.name).Scan(&claims)
		if err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT count(*) FROM swaps`).Scan(&rows)
	}))
	if claims != 1 || rows != 0 {
		t.Errorf("another organization counts %d claims in %d rows, want 1 in none", claims, rows)
	}
}
