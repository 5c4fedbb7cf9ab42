package solana_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// deposits returns payments from new addresses to a treasury that pays their fees, of each contract
// in turn.
func (l *lab) deposits(t testing.TB, treasury chain.Address, contracts ...chain.Address) (ps []chain.Payment) {
	t.Helper()
	for i, contract := range contracts {
		p := chain.Payment{
			From: l.Account(t), To: treasury, Payer: treasury, Contract: contract,
			Amount: money.Units(uint64(2_000_000 + i)),
		}
		var err error
		if contract == "" {
			err = l.node.SetLamports(t.Context(), p.From, p.Amount.Big().Uint64())
		} else {
			m := usdc
			m.Address = contract
			err = l.node.MintTo(t.Context(), m, p.From, p.Amount.Big().Uint64())
		}
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
	}
	l.Mine(t, 1)
	return ps
}

func TestOnlyWhatComesToItsPayerGoesTogether(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury, other := l.Account(t), l.Account(t)
	sweep := func(contract chain.Address) chain.Payment {
		return chain.Payment{
			From: l.Account(t), To: treasury, Payer: treasury, Contract: contract,
			Amount: money.Units(1),
		}
	}
	repeat := func(contract chain.Address, n int) (ps []chain.Payment) {
		for range n {
			ps = append(ps, sweep(contract))
		}
		return ps
	}
	with := func(change func(*chain.Payment)) []chain.Payment {
		p := sweep(usdc.Address)
		change(&p)
		return []chain.Payment{sweep(""), sweep(usdc.Address), p, sweep("")}
	}
	one := sweep(usdc.Address)
	coin := one
	coin.Contract = ""
	for what, tt := range map[string]struct {
		ps   []chain.Payment
		want int
	}{
		"sweeps of a token": {repeat(usdc.Address, 30), 5},
		"sweeps of SOL":     {repeat("", 30), 8},
		"of both":           {append(repeat(usdc.Address, 3), repeat("", 30)...), 6},
		"what a treasury pays": {[]chain.Payment{
			{From: treasury, To: l.Account(t), Amount: money.Units(1)}, {
				From: treasury, To: l.Account(t),
				Amount: money.Units(1),
			},
		}, 1},
		"a return among them": {with(func(p *chain.Payment) { p.To = other }), 2},
		"a payment of the treasury's": {with(func(p *chain.Payment) {
			p.From, p.To, p.Payer = treasury, other, ""
		}), 2},
		"the treasury to itself":         {with(func(p *chain.Payment) { p.From = treasury }), 2},
		"another treasury's":             {with(func(p *chain.Payment) { p.To, p.Payer = other, other }), 2},
		"nothing":                        {with(func(p *chain.Payment) { p.Amount = money.Zero }), 2},
		"a token that is not configured": {with(func(p *chain.Payment) { p.Contract = surfpool.USDT }), 2},
		"two tokens of one address":      {[]chain.Payment{one, coin}, 2},
		"the same of one address":        {[]chain.Payment{one, coin, one}, 2},
		"a place":                        {with(func(p *chain.Payment) { p.CreatesNonceAccount = true }), 2},
		"a return before": {append([]chain.Payment{{
			From: other, To: l.Account(t), Payer: treasury,
			Amount: money.Units(1),
		}}, repeat("", 3)...), 1},
		"what nobody can build, in front":  {[]chain.Payment{sweep(surfpool.USDT), sweep("")}, 1},
		"one, and none of them is a sweep": {[]chain.Payment{{From: treasury, To: other, Amount: money.Units(1)}}, 1},
	} {
		if got := l.chain.Sender.BatchSize(tt.ps); got != tt.want {
			t.Errorf("%s: got %d together, want %d", what, got, tt.want)
			continue
		}
		if len(tt.ps) == tt.want {
			continue
		}
		if fees, err := l.chain.Sender.Quote(t.Context(), tt.ps...); err == nil {
			t.Errorf("%s: got %+v for all of them, want an error", what, fees)
		}
	}
}

func TestSweepsThatGoTogetherMakeTheTreasurysAccountsOnceAndCostAPart(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	treasury := l.Payer(t)
	second := usdc
	second.Address = surfpool.AddressOf(newKey(t))
	if err := l.node.PlaceMint(ctx, second); err != nil {
		t.Fatal(err)
	}
	cfg := config(l.front.URL)
	cfg.Mints[second.Address] = solana.Mint{Program: second.Program, Decimals: second.Decimals}
	l.chain = open(t, cfg)

	// Two of one token, one of another and one of SOL, to a treasury that has neither.
	ps := l.deposits(t, treasury, usdc.Address, "", usdc.Address, second.Address)
	asked := map[string]int{}
	for _, method := range []string{"getMultipleAccounts", "simulateTransaction", "getRecentPrioritizationFees"} {
		l.front.SetRule(method, func(*exchange) { asked[method]++ })
	}
	fees, err := l.chain.Sender.Quote(ctx, ps...)
	if err != nil {
		t.Fatal(err)
	}
	for method, n := range asked {
		if n > 2 || n != 1 && method != "getMultipleAccounts" { // and the nonce accounts
			t.Errorf("%s: got it asked %d times, want once for all", method, n)
		}
		l.front.SetRule(method, nil)
	}
	at := l.slot(t, treasury, 0)
	payload, err := l.chain.Sender.Build(treasury, at, fees, ps...)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := solanatx.Decode(payload)
	if err != nil || tx.CheckPayments(ps...) != nil || tx.Rent() != money.Units(2*solanatx.TokenAccountRent) ||
		tx.MaxCost() != fees.NonGas {
		t.Fatalf("got %+v, %v, want the payments and two accounts made", tx, err)
	}
	before := l.holds(t, treasury, "")
	raw, hash := l.Sign(t, treasury, payload)
	l.take(t, raw)
	l.Mine(t, 1)
	outcome := func(ps ...chain.Payment) *chain.Outcome {
		t.Helper()
		o, err := l.chain.Sender.Outcome(ctx, []chain.TxHash{hash}, ps...)
		if err != nil || o == nil || !o.Succeeded {
			t.Fatalf("Outcome: got %+v, %v, want it mined", o, err)
		}
		return o
	}
	o := outcome(ps...)
	if !o.Paid || fees.NonGas.Less(o.Fee) {
		t.Errorf("got %+v, want it paid for at most %v", o, fees.NonGas)
	}
	// The rent of the accounts is part of the cost, although the treasury has more coin than
	// before.
	all, err := before.Add(ps[1].Amount)
	if err != nil {
		t.Fatal(err)
	}
	if left, err := all.Sub(o.Fee); err != nil || left != l.holds(t, treasury, "") {
		t.Errorf("got %v lamports and then %v, want %v in and %v gone", before, l.holds(t, treasury, ""), ps[1].Amount,
			o.Fee)
	}
	for what, other := range map[string][]chain.Payment{
		"fewer":                  ps[:3],
		"one instead of another": {ps[0], ps[1], ps[2], ps[2]},
		"shared in another way": {{
			From: ps[0].From, To: treasury, Payer: treasury, Contract: usdc.Address,
			Amount: ps[2].Amount,
		}, ps[1], {
			From: ps[2].From, To: treasury, Payer: treasury, Contract: usdc.Address,
			Amount: ps[0].Amount,
		}, ps[3]},
		"the coin to somebody else": {
			ps[0],
			{From: ps[1].From, To: ps[0].From, Payer: treasury, Amount: ps[1].Amount},
			ps[2], ps[3],
		},
	} {
		if o := outcome(other...); o.Paid {
			t.Errorf("%s: got %+v, want it unpaid", what, o)
		}
	}
	// All senders are returned, so that ours get the whole sum.
	l.Finalize(t)
	c, err := l.chain.Reader.Final(ctx, o.Block.Height)
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, tr := range c.Transfers {
		if tr.To != treasury || tr.Contract != usdc.Address {
			continue
		}
		found++
		want := []chain.Address{min(ps[0].From, ps[2].From), max(ps[0].From, ps[2].From)}
		if got, err := l.chain.Reader.Senders(ctx, c.Block, []chain.Transfer{tr}); err != nil || tr.From != "" ||
			!slices.Equal(got[0], want) {
			t.Errorf("%+v: got it from %v, %v, want it from %v", tr, got, err, want)
		}
		one, two := newProxy(t, l.node.URL, l.settled(t)), newProxy(t, l.node.URL, l.settled(t))
		both := open(t, config(one.URL, two.URL)).Reader
		if got, err := both.Senders(ctx, c.Block, []chain.Transfer{tr}); err != nil || !slices.Equal(got[0], want) {
			t.Errorf("two providers: got it from %v, %v, want it from %v", got, err, want)
		}
		two.SetRule("getBlock", func(e *exchange) { e.SetError(`{"code":-32004,"message":"Block not available"}`) })
		if got, err := both.Senders(ctx, c.Block, []chain.Transfer{tr}); err == nil {
			t.Errorf("one of two does not tell: got it from %v, want an error", got)
		}
		stranger := tr
		stranger.Position = string(treasury)
		if got, err := l.chain.Reader.Senders(ctx, c.Block, []chain.Transfer{stranger}); err == nil {
			t.Errorf("a movement that is not there: got it from %v, want an error", got)
		}
		elsewhere := c.Block
		elsewhere.Hash = c.Parent
		if got, err := l.chain.Reader.Senders(ctx, elsewhere, []chain.Transfer{tr}); err == nil {
			t.Errorf("another block in its slot: got it from %v, want an error", got)
		}
	}
	if found != 1 {
		t.Errorf("got %d movements of the token to the treasury, want one sum", found)
	}

	// The accounts exist now, and each sweep costs a part of what it would cost alone.
	next := l.deposits(t, treasury, usdc.Address, usdc.Address, usdc.Address, "", "")
	var alone uint64
	for _, p := range next {
		alone += l.quote(t, p).NonGas.Big().Uint64()
	}
	fees, err = l.chain.Sender.Quote(ctx, next...)
	if err != nil {
		t.Fatal(err)
	}
	if together := fees.NonGas.Big().Uint64(); together*100 > alone*75 {
		t.Errorf("got up to %d lamports together and %d alone, want a quarter less at least", together, alone)
	}
	t.Logf("five sweeps: up to %v lamports together, %d one by one", fees.NonGas, alone)
}

func TestARefusalOfSeveralNamesTheOneThatIsToBlame(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury := l.Payer(t)
	ps := l.deposits(t, treasury, usdc.Address, "", usdc.Address, "")
	refused := func(what, word string, ps ...chain.Payment) {
		t.Helper()
		fees, err := l.chain.Sender.Quote(t.Context(), ps...)
		var reverted *chain.RevertedError
		if !errors.As(err, &reverted) || !strings.Contains(reverted.Reason, word) {
			t.Errorf("%s: got %+v, %v, want a refusal with %q", what, fees, err, word)
		}
	}
	more := slices.Clone(ps)
	more[2].Amount = money.Units(3_000_000)
	refused("more than the balance", "payment 3 of 4", more...)
	for what, tt := range map[string]struct{ said, word string }{
		"the second, behind an account that is made": {`{"InstructionError":[5,{"Custom":1}]}`, "payment 2 of 4"},
		"the account that is made":                   {`{"InstructionError":[3,{"Custom":1}]}`, "payment 1 of 4"},
		"the last":                                   {`{"InstructionError":[7,{"Custom":1}]}`, "payment 4 of 4"},
		"a payer that is left with too little": {
			`{"InsufficientFundsForRent":{"account_index":1}}`,
			"payment 2 of 4",
		},
		"an account of nobody who pays": {
			`{"InsufficientFundsForRent":{"account_index":9}}`,
			"one of its accounts",
		},
		"behind all of them": {`{"InstructionError":[12,{"Custom":1}]}`, "Custom"},
	} {
		l.front.SetRule("simulateTransaction", func(e *exchange) {
			e.SetResult(`{"context":{"slot":1},"value":{"err":` + tt.said + `,"logs":[],"unitsConsumed":1}}`)
		})
		refused(what, tt.word, ps...)
	}
	l.front.SetRule("simulateTransaction", nil)
	l.RefusePayments(t, ps[2].From)
	refused("a frozen account", "payment 3 of 4", ps...)
	if _, err := l.chain.Sender.Quote(t.Context(), ps[0], ps[1], ps[3]); err != nil {
		t.Errorf("the others: got %v, want fees", err)
	}
}
