package solana_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

func TestAnEmptyAccountIsClosedForItsPayerAndAFullOneForNobody(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	treasury, one, two, full, none := l.Payer(t), l.Account(t), l.Account(t), l.Account(t), l.Account(t)
	newer := surfpool.Mint{Address: surfpool.AddressOf(newKey(t)), Program: solanatx.Token2022Program, Decimals: 6}
	if err := l.node.PlaceMint(ctx, newer); err != nil {
		t.Fatal(err)
	}
	cfg := config(l.front.URL)
	cfg.Mints[newer.Address] = solana.Mint{Program: newer.Program, Decimals: newer.Decimals}
	l.chain = open(t, cfg)
	// The account as on a real network, with its rent.
	for of, m := range map[chain.Address]surfpool.Mint{one: usdc, two: newer, full: usdc} {
		l.do(t, m.CreateAccount(surfpool.AddressOf(l.payer), of))
		l.do(t, surfpool.TransferLamports(surfpool.AddressOf(l.stranger), m.AssociatedAccount(of),
			solanatx.TokenAccountRent))
	}
	if err := l.node.MintTo(ctx, usdc, full, 5); err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	l.Finalize(t)
	of := []chain.Holding{
		{Address: one, Contract: usdc.Address},
		{Address: two, Contract: newer.Address},
		{Address: full, Contract: usdc.Address},
		{Address: none, Contract: usdc.Address},
		{
			Address:  one,
			Contract: newer.Address,
		},
	}
	lies, err := l.chain.TokenAccounts.ReclaimableRent(ctx, of)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false, false, false} {
		if got := !lies[i].IsZero(); got != want {
			t.Errorf("account %d: got %v in it, want any (%v)", i, lies[i], want)
		}
	}
	exist, err := l.chain.TokenAccounts.Existing(ctx, of)
	if want := []bool{true, true, true, false, false}; err != nil || !slices.Equal(exist, want) {
		t.Errorf("got %v, %v to exist, want %v", exist, err, want)
	}
	doubts := newProxy(t, l.node.URL, l.settled(t))
	both := cfg
	both.Endpoints, both.Quorum = append(both.Endpoints, doubts.URL), 2
	doubts.SetRule("getMultipleAccounts", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) { m["value"].([]any)[0] = nil })
	})
	if got, err := open(t, both).TokenAccounts.ReclaimableRent(ctx, of); err != nil || !got[0].IsZero() ||
		got[1] != lies[1] {
		t.Errorf("one that has it otherwise: got %v, %v, want only the second", got, err)
	}
	// Two of two providers have to show an account. Rule CO-138.
	got, err := open(t, both).TokenAccounts.Existing(ctx, of)
	if want := []bool{false, true, true, false, false}; err != nil || !slices.Equal(got, want) {
		t.Errorf("one that lacks it: got %v, %v, want %v", got, err, want)
	}
	shut := func(of chain.Address, m surfpool.Mint) chain.Payment {
		return chain.Payment{
			From: of, To: treasury, Payer: treasury, Contract: m.Address, Amount: money.Units(1),
			ClosesTokenAccount: true,
		}
	}
	ps := []chain.Payment{shut(one, usdc), shut(two, newer)}
	sweep := shut(full, usdc)
	sweep.ClosesTokenAccount = false
	if n := l.chain.Sender.BatchSize(append(ps, sweep)); n != 2 {
		t.Errorf("got %d together, want the two closes alone", n)
	}
	var reverted *chain.RevertedError
	for what, p := range map[string]chain.Payment{"a full one": shut(full, usdc), "none": shut(none, usdc)} {
		if f, err := l.chain.Sender.Quote(ctx, p); !errors.As(err, &reverted) {
			t.Errorf("%s: got %+v, %v, want the chain's no", what, f, err)
		}
	}
	elsewhere := shut(one, usdc)
	elsewhere.To = l.Account(t)
	if f, err := l.chain.Sender.Quote(ctx, elsewhere); err == nil {
		t.Errorf("to somebody else: got %+v, want an error", f)
	}
	fees, err := l.chain.Sender.Quote(ctx, ps...)
	if err != nil {
		t.Fatal(err)
	}
	send := func(nth int, ps ...chain.Payment) *chain.Outcome {
		t.Helper()
		payload, err := l.chain.Sender.Build(treasury, l.slot(t, treasury, nth), fees, ps...)
		if err != nil {
			t.Fatal(err)
		}
		raw, hash := l.Sign(t, treasury, payload)
		l.take(t, raw)
		l.Mine(t, 1)
		o, err := l.chain.Sender.Outcome(ctx, []chain.TxHash{hash}, ps...)
		if err != nil || o == nil {
			t.Fatalf("got %+v, %v, want an outcome", o, err)
		}
		return o
	}
	before := l.holds(t, treasury, "")
	o := send(0, ps...)
	if !o.Paid || !o.Succeeded || o.Fee.Less(money.Units(3*solanatx.SignatureFee)) || fees.NonGas.Less(o.Fee) {
		t.Errorf("got %+v, want it done for three signatures and at most %v", o, fees.NonGas)
	}
	came, err := lies[0].Add(lies[1])
	if err != nil {
		t.Fatal(err)
	}
	after, err := before.Add(came)
	if err == nil {
		after, err = after.Sub(o.Fee)
	}
	if got := l.holds(t, treasury, ""); err != nil || got != after {
		t.Errorf("the treasury: got %v, want %v", got, after)
	}
	l.Finalize(t)
	c, err := l.chain.Reader.Final(ctx, o.Block.Height)
	if err != nil {
		t.Fatal(err)
	}
	freed := money.Zero
	for _, tr := range c.Transfers {
		if tr.Tx == o.Tx && tr.To == treasury && tr.Freed {
			freed = tr.Amount
		}
	}
	if freed != came {
		t.Errorf("the block: got %v freed, want %v", freed, came)
	}
	// A deposit arrived between the simulation and the block.
	if o := send(1, shut(full, usdc)); o.Paid || o.Succeeded || o.Fee.IsZero() {
		t.Errorf("a full one: got %+v, want it failed, for its fee", o)
	}
	if got := l.holds(t, full, usdc.Address); got != money.Units(5) {
		t.Errorf("a full one: got %v in it, want 5", got)
	}
}
