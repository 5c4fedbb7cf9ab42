package solana_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

// slot returns the nth nonce account of a treasury.
func (l *lab) slot(t testing.TB, treasury chain.Address, n int) chain.Slot {
	t.Helper()
	acct, err := l.chain.Sender.Account(t.Context(), treasury)
	if err != nil || !acct.KeyedSlots || len(acct.Slots) <= n {
		t.Fatalf("got %+v, %v, want more than %d nonce accounts", acct, err, n)
	}
	return chain.Slot{Nonce: uint64(n), Key: acct.Slots[n].Latest}
}

func (l *lab) quote(t testing.TB, ps ...chain.Payment) chain.Fees {
	t.Helper()
	f, err := l.chain.Sender.Quote(t.Context(), ps...)
	if err != nil {
		t.Fatalf("Quote(%+v): got %v, want fees", ps, err)
	}
	return f
}

func only(p *chain.Payment) []chain.Payment {
	if p == nil {
		return nil
	}
	return []chain.Payment{*p}
}

// signed returns a payment with a nonce account, ready to send.
func (l *lab) signed(
	t testing.TB, p *chain.Payment, by chain.Address, s chain.Slot, f chain.Fees,
) ([]byte, chain.TxHash) {
	t.Helper()
	payload, err := l.chain.Sender.Build(by, s, f, only(p)...)
	if err != nil {
		t.Fatalf("Build(%+v): got %v, want a payload", p, err)
	}
	return l.Sign(t, by, payload)
}

func (l *lab) take(t testing.TB, raw []byte) {
	t.Helper()
	if a, said := l.chain.Sender.Send(t.Context(), raw); a != chain.Accepted {
		t.Fatalf("Send: got %v %q, want Accepted", a, said)
	}
}

func (l *lab) outcome(t testing.TB, p *chain.Payment, of ...chain.TxHash) *chain.Outcome {
	t.Helper()
	o, err := l.chain.Sender.Outcome(t.Context(), of, only(p)...)
	if err != nil {
		t.Fatalf("Outcome(%v): got %v, want an answer", of, err)
	}
	return o
}

func (l *lab) holds(t testing.TB, a, contract chain.Address) money.Amount {
	t.Helper()
	h, err := l.chain.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := l.chain.Reader.Balances(t.Context(), h.Latest, []chain.Holding{{Address: a, Contract: contract}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func (l *lab) used(t testing.TB, a chain.Address, s chain.Slot, latest, final bool) {
	t.Helper()
	acct, err := l.chain.Sender.Account(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if l, f := acct.IsUsed(s); l != latest || f != final {
		t.Errorf("%v of %+v: got used %v, finally %v, want %v, %v", s, acct, l, f, latest, final)
	}
}

func TestANonceIsUsedOnceAndOnlyByTheTransactionThatTookIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	one := chain.Payment{From: from, To: l.Account(t), Amount: money.Units(1_000_000)}
	two := chain.Payment{From: from, To: l.Account(t), Amount: money.Units(1_000_000)}
	fees := l.quote(t, one)

	// The chain refuses a second payment with the same nonce.
	at := l.slot(t, from, 0)
	first, h1 := l.signed(t, &one, from, at, fees)
	second, h2 := l.signed(t, &two, from, at, fees)
	l.take(t, first)
	l.chain.Sender.Send(t.Context(), second)
	l.Mine(t, 1)
	l.used(t, from, at, true, false)
	l.Finalize(t)
	l.chain.Sender.Send(t.Context(), second)
	l.Mine(t, 1)
	if o := l.outcome(t, &one, h1); o == nil || !o.Paid {
		t.Errorf("the first: got %+v, want it paid", o)
	}
	if o := l.outcome(t, &two, h2); o != nil {
		t.Errorf("the second: got %+v, want it nowhere", o)
	}
	if got := l.holds(t, two.To, ""); !got.IsZero() {
		t.Errorf("the second's payee: got %v, want nothing", got)
	}
	l.used(t, from, at, true, true)

	// Another transaction there is seen as a use, and not as one of ours.
	at = l.slot(t, from, 1)
	_, ours := l.signed(t, &two, from, at, fees)
	dearer, ok, err := l.chain.Sender.Bump(t.Context(), fees)
	if err != nil || !ok {
		t.Fatalf("Bump: got %v, %v, want fees", ok, err)
	}
	foreign, _ := l.signed(t, nil, from, at, dearer)
	l.take(t, foreign)
	l.Mine(t, 1)
	l.Finalize(t)
	l.used(t, from, at, true, true)
	if o := l.outcome(t, &two, ours); o != nil {
		t.Errorf("ours: got %+v, want it nowhere", o)
	}

	// A lost answer leaves the result open, and sending again pays once.
	at = l.slot(t, from, 2)
	raw, hash := l.signed(t, &two, from, at, fees)
	l.front.SetRule("sendTransaction", func(e *exchange) { e.DropConnection() })
	if a, said := l.chain.Sender.Send(t.Context(), raw); a != chain.Unknown || said == "" {
		t.Errorf("lost: got %v %q, want Unknown and what was said", a, said)
	}
	l.front.SetRule("sendTransaction", nil)
	if a, said := l.chain.Sender.Send(t.Context(), raw); a != chain.Known {
		t.Errorf("again: got %v %q, want Known", a, said)
	}
	l.Mine(t, 1)
	l.chain.Sender.Send(t.Context(), raw)
	l.Mine(t, 1)
	if got := l.holds(t, two.To, ""); got != two.Amount {
		t.Errorf("got %v, want %v once", got, two.Amount)
	}
	if o := l.outcome(t, &two, hash); o == nil || !o.Paid {
		t.Errorf("got %+v, want it paid", o)
	}
}

func TestTheTreasuryPaysForWhatLeavesADepositAddress(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury, deposit := l.Payer(t), l.Account(t)
	l.Fund(t, deposit, "", money.Units(2_000_000))
	l.Fund(t, deposit, usdc.Address, money.Units(700))
	for i, p := range []chain.Payment{
		{From: deposit, To: treasury, Payer: treasury, Contract: usdc.Address, Amount: money.Units(700)},
		{From: deposit, To: treasury, Payer: treasury, Amount: money.Units(2_000_000)}, // all of it
	} {
		fees := l.quote(t, p)
		raw, hash := l.signed(t, &p, treasury, l.slot(t, treasury, i), fees)
		if tx, _, err := solanatx.DecodeSigned(raw); err != nil || tx.Payer != treasury || tx.Moves[0].From != deposit {
			t.Errorf("got %+v, %v, want the treasury to pay", tx, err)
		}
		if _, err := l.chain.Sender.Build(deposit, l.slot(t, treasury, i), fees, p); err == nil {
			t.Error("got a payload in a place of the deposit address, want an error")
		}
		l.take(t, raw)
		l.Mine(t, 1)
		if o := l.outcome(t, &p, hash); o == nil || !o.Paid || o.Fee.Less(money.Units(2*solanatx.SignatureFee)) ||
			fees.NonGas.Less(o.Fee) {
			t.Errorf("got %+v, want it paid for two signatures and at most %v", o, fees.NonGas)
		}
		if got := l.holds(t, deposit, p.Contract); !got.IsZero() {
			t.Errorf("got %v left, want nothing", got)
		}
	}
}

func TestAPaymentMakesTheAccountThatIsMissingAndABuilderRemembersNothing(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	l.Fund(t, from, usdc.Address, money.Units(1000))
	p := chain.Payment{From: from, To: l.Account(t), Contract: usdc.Address, Amount: money.Units(10)}
	makes := func(payload []byte) bool {
		t.Helper()
		tx, err := solanatx.Decode(payload)
		if err != nil || tx.CheckPayments(p) != nil {
			t.Fatalf("got %+v, %v, want the payment", tx, err)
		}
		return tx.Moves[0].Owner != ""
	}
	fees := l.quote(t, p)
	at := l.slot(t, from, 0)
	dearer, ok, err := l.chain.Sender.Bump(t.Context(), fees)
	if err != nil || !ok {
		t.Fatalf("Bump: got %v, %v, want fees", ok, err)
	}
	for _, f := range []chain.Fees{fees, dearer} {
		first, err := l.chain.Sender.Build(from, at, f, p)
		if err != nil {
			t.Fatal(err)
		}
		// After a restart the adapter has no state, and no provider answers anything but its first
		// question.
		deaf := newProxy(t, l.node.URL, nil)
		again := open(t, config(deaf.URL))
		deaf.SetRule("*", (*exchange).HangUntilCancelled)
		if got, err := again.Sender.Build(from, at, f, p); err != nil || !bytes.Equal(got, first) {
			t.Errorf("after a restart: got %x, %v, want %x", got, err, first)
		}
		if !makes(first) {
			t.Errorf("%+v: got no account made, want one", f)
		}
	}
	raw, hash := l.signed(t, &p, from, at, fees)
	l.take(t, raw)
	l.Mine(t, 1)
	if o := l.outcome(t, &p, hash); o == nil || !o.Paid {
		t.Errorf("got %+v, want it paid", o)
	}
	next := l.quote(t, p)
	if rent, err := fees.NonGas.Sub(next.NonGas); err != nil || rent.Less(money.Units(solanatx.TokenAccountRent/2)) {
		t.Errorf("got costs of %v and then %v, want the rent counted once", fees.NonGas, next.NonGas)
	}
	for range 3 {
		payload, err := l.chain.Sender.Build(from, l.slot(t, from, 1), next, p)
		if err != nil || makes(payload) {
			t.Fatalf("%+v: got %x, %v, want no account made", next, payload, err)
		}
		if next, ok, err = l.chain.Sender.Bump(t.Context(), next); err != nil || !ok {
			t.Fatalf("Bump: got %v, %v, want fees", ok, err)
		}
	}
}

func TestAQuoteSaysWhyAPaymentIsHopeless(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	ctx := t.Context()
	from, other := l.Payer(t), l.Account(t)
	l.Fund(t, from, usdc.Address, money.Units(1000))
	l.Fund(t, other, usdc.Address, money.Units(1))
	place := func(m surfpool.Mint) surfpool.Mint {
		m.Address = surfpool.AddressOf(newKey(t))
		if m.Program == "" {
			m.Program = solanatx.Token2022Program
		}
		if err := l.node.PlaceMint(ctx, m); err != nil {
			t.Fatal(err)
		}
		if err := l.node.MintTo(ctx, m, from, 1000); err != nil {
			t.Fatal(err)
		}
		return m
	}
	taxed := place(surfpool.Mint{Decimals: 6, Extensions: []surfpool.Extension{surfpool.TransferFee(100, 50)}})
	watched := place(surfpool.Mint{Decimals: 6, Extensions: []surfpool.Extension{surfpool.PermanentDelegate(other)}})
	// As much text as is read hides what follows it.
	long := place(surfpool.Mint{
		Decimals:   6,
		Extensions: []surfpool.Extension{{Type: 18, Data: make([]byte, 8192-166-4)}, surfpool.TransferFee(100, 50)},
	})
	pictured := place(surfpool.Mint{Decimals: 6, Extensions: []surfpool.Extension{{Type: 18, Data: make([]byte, 64)}}})
	nine := place(surfpool.Mint{Decimals: 9, Program: solanatx.TokenProgram})
	nowhere := surfpool.AddressOf(newKey(t))
	blocked, given := l.Account(t), l.Account(t)
	l.RefusePayments(t, blocked)
	l.Fund(t, given, usdc.Address, money.Units(1))
	l.keys[l.node.FaucetAddress()] = l.node.FaucetPrivateKey()
	if _, err := l.node.SendAndCheck(ctx, surfpool.Transaction{
		Keys:         []ed25519.PrivateKey{l.payer, l.keys[given]},
		Instructions: []surfpool.Instruction{usdc.SetOwner(usdc.AssociatedAccount(given), given, other)},
	}); err != nil {
		t.Fatal(err)
	}
	nonce, err := solanatx.NonceAccount(from, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	cfg := config(l.front.URL)
	for _, m := range []surfpool.Mint{taxed, watched, pictured, long} {
		cfg.Mints[m.Address] = solana.Mint{Program: m.Program, Decimals: m.Decimals}
	}
	cfg.Mints[nine.Address] = solana.Mint{Program: nine.Program, Decimals: 6}
	cfg.Mints[nowhere] = solana.Mint{Program: nine.Program, Decimals: 6}
	cfg.Mints[surfpool.USDT] = solana.Mint{Program: solanatx.Token2022Program, Decimals: 6}
	c := open(t, cfg)
	to := l.Account(t)
	for what, tt := range map[string]struct {
		p    chain.Payment
		word string
	}{
		"a token account": {chain.Payment{
			To:     usdc.AssociatedAccount(other),
			Amount: money.Units(1_000_000),
		}, "token account of " + string(other)},
		"a token account, of a token": {chain.Payment{
			To: usdc.AssociatedAccount(other), Contract: usdc.Address,
			Amount: money.Units(1),
		}, "token account of " + string(other)},
		"a program": {
			chain.Payment{To: solanatx.TokenProgram, Amount: money.Units(1_000_000)},
			"has no holder",
		},
		"a mint": {
			chain.Payment{To: usdc.Address, Amount: money.Units(1_000_000)},
			"the mint of a token",
		},
		"a mint of Token-2022": {
			chain.Payment{To: taxed.Address, Amount: money.Units(1_000_000)},
			"the mint of a token",
		},
		"a nonce account": {chain.Payment{To: nonce, Amount: money.Units(1_000_000)}, "nonce account"},
		"a frozen account": {
			chain.Payment{To: blocked, Contract: usdc.Address, Amount: money.Units(1)},
			"frozen",
		},
		"an account handed over": {
			chain.Payment{To: given, Contract: usdc.Address, Amount: money.Units(1)},
			"another owner",
		},
		"a fee on transfers": {
			chain.Payment{To: to, Contract: taxed.Address, Amount: money.Units(1)},
			"a fee on transfers",
		},
		"a permanent delegate": {
			chain.Payment{To: to, Contract: watched.Address, Amount: money.Units(1)},
			"delegate",
		},
		"a fee behind much text": {
			chain.Payment{To: to, Contract: long.Address, Amount: money.Units(1)},
			"cannot be read",
		},
		"other decimals": {
			chain.Payment{To: to, Contract: nine.Address, Amount: money.Units(1)},
			"9 decimals",
		},
		"another program": {
			chain.Payment{To: to, Contract: surfpool.USDT, Amount: money.Units(1)},
			"configured to belong",
		},
		"no mint": {
			chain.Payment{To: to, Contract: nowhere, Amount: money.Units(1)},
			"no token at",
		},
		"more tokens than there are": {
			chain.Payment{To: to, Contract: usdc.Address, Amount: money.Units(1001)},
			"less than the amount",
		},
		"more SOL than there is": {
			chain.Payment{To: to, Amount: money.Units(math.MaxUint64)},
			"less than the amount",
		},
	} {
		tt.p.From = from
		fees, err := c.Sender.Quote(ctx, tt.p)
		var reverted *chain.RevertedError
		if !errors.As(err, &reverted) || !strings.Contains(reverted.Reason, tt.word) {
			t.Errorf("%s: got %+v, %v, want a refusal with %q", what, fees, err, tt.word)
		}
	}
	for what, p := range map[string]chain.Payment{
		"a token with a picture":     {From: from, To: to, Contract: pictured.Address, Amount: money.Units(1)},
		"a token to itself":          {From: from, To: from, Contract: usdc.Address, Amount: money.Units(1)},
		"SOL to itself":              {From: from, To: from, Amount: money.Units(1)},
		"nothing, which is a cancel": {From: from, To: from},
	} {
		if fees, err := c.Sender.Quote(ctx, p); err != nil || fees.GasLimit == 0 {
			t.Errorf("%s: got %+v, %v, want fees", what, fees, err)
		}
	}
	var reverted *chain.RevertedError
	if fees, err := c.Sender.Quote(ctx, chain.Payment{
		From: from, To: to, Contract: l.Account(t),
		Amount: money.Units(1),
	}); err == nil || errors.As(err, &reverted) {
		t.Errorf("a token that is not configured: got %+v, %v, want an error that is no refusal", fees, err)
	}
	if fees, err := c.Sender.Quote(ctx, chain.Payment{From: other, To: to, Amount: money.Units(1)}); err == nil {
		t.Errorf("a payer without a nonce account: got %+v, want an error", fees)
	}
	// A failing provider proves nothing about a payment.
	for _, method := range []string{
		"getMultipleAccounts", "getMinimumBalanceForRentExemption", "simulateTransaction",
		"getRecentPrioritizationFees",
	} {
		for _, answer := range []string{`{"context":{"slot":1},"value":null}`, `"?"`, ``} {
			l.front.SetRule(method, func(e *exchange) {
				if answer == "" {
					e.SetError(`{"code":-32005,"message":"Node is behind"}`)
				} else {
					e.SetResult(answer)
				}
			})
			fees, err := c.Sender.Quote(ctx, chain.Payment{
				From: from, To: to, Contract: usdc.Address,
				Amount: money.Units(1),
			})
			if err == nil || errors.As(err, &reverted) {
				t.Errorf("%s says %q: got %+v, %v, want an error that is no refusal", method, answer, fees, err)
			}
		}
		l.front.SetRule(method, nil)
	}
}

func TestWhatTheChainKeepsForRentIsNotPaidAway(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	const least = 890_880
	l.front.SetRule("getMinimumBalanceForRentExemption", func(e *exchange) { e.SetResult(fmt.Sprint(least)) })
	from, poor, deposit := l.Payer(t), l.Payer(t), l.Account(t)
	l.Fund(t, deposit, "", money.Units(2_000_000))
	l.Fund(t, poor, "", money.Units(2_000_000))
	l.Fund(t, poor, usdc.Address, money.Units(5))
	known := l.Account(t)
	l.Fund(t, known, "", money.Units(least))
	var reverted *chain.RevertedError
	for what, tt := range map[string]struct {
		p       chain.Payment
		ok, say bool
	}{
		"more than the balance": {
			chain.Payment{From: from, To: known, Amount: money.Units(1 << 62)},
			false,
			true,
		},
		"too little for a new account": {
			chain.Payment{From: from, To: l.Account(t), Amount: money.Units(least - 1)},
			false, true,
		},
		"enough for a new account": {
			chain.Payment{From: from, To: l.Account(t), Amount: money.Units(least)},
			true,
			false,
		},
		"a little to one that is there": {chain.Payment{From: from, To: known, Amount: money.Units(1)}, true, false},
		"all of a deposit": {chain.Payment{
			From: deposit, Payer: from, To: from,
			Amount: money.Units(2_000_000),
		}, true, false},
		"nearly all of a deposit": {chain.Payment{
			From: deposit, Payer: from, To: from,
			Amount: money.Units(1_999_999),
		}, false, true},
		"rent that the payer lacks": {chain.Payment{
			From: poor, To: l.Account(t), Contract: usdc.Address,
			Amount: money.Units(1),
		}, false, false},
		"all, and nothing for the fee": {
			chain.Payment{From: poor, To: known, Amount: money.Units(2_000_000)},
			false,
			false,
		},
		"what the payer lives on": {
			chain.Payment{From: poor, To: known, Amount: money.Units(1_500_000)},
			false,
			false,
		},
	} {
		fees, err := l.chain.Sender.Quote(t.Context(), tt.p)
		if (err == nil) != tt.ok || errors.As(err, &reverted) != tt.say {
			t.Errorf("%s: got %+v, %v, want fees: %v, refused: %v", what, fees, err, tt.ok, tt.say)
		}
		if want := map[string]chain.Cause{"more than the balance": chain.CauseFunds}[what]; tt.say &&
			reverted.Cause != want && (want != "" || reverted.Cause != chain.CauseAmount) {
			t.Errorf("%s: got it refused for %q", what, reverted.Cause)
		}
	}
	for a, want := range map[chain.Address]uint64{l.Account(t): least, known: 1} {
		if got, err := l.chain.MinPaymentTo(t.Context(), "", a); err != nil || got != money.Units(want) {
			t.Errorf("the smallest payment to %s: got %v, %v, want %d", a, got, err, want)
		}
		if got, err := l.chain.MinPaymentTo(t.Context(), usdc.Address, a); err != nil || got != money.Units(1) {
			t.Errorf("the smallest payment of a token to %s: got %v, %v, want 1", a, got, err)
		}
	}
}

func TestAPriceFollowsTheMarketWithinItsBounds(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	p := chain.Payment{From: from, To: l.Account(t), Amount: money.Units(1_000_000)}
	for asked, want := range map[string]uint64{
		`[]`:                                 10_000,
		`[{"slot":1,"prioritizationFee":1}]`: 10_000,
		`[{"slot":1,"prioritizationFee":90000},{"slot":2,"prioritizationFee":20000},{"slot":3,"prioritizationFee":30000},{"slot":4,"prioritizationFee":40000},{"slot":5,"prioritizationFee":0}]`: 40_000,
		`[{"slot":1,"prioritizationFee":18446744073709551615}]`: priceMax,
	} {
		l.front.SetRule("getRecentPrioritizationFees", func(e *exchange) { e.SetResult(asked) })
		f := l.quote(t, p)
		if f.TipCap != money.Units(want) || !f.FeeCap.IsZero() {
			t.Errorf("%s: got %+v, want a price of %d", asked, f, want)
		}
		payload, err := l.chain.Sender.Build(from, l.slot(t, from, 0), f, p)
		if err != nil {
			t.Fatal(err)
		}
		if tx, err := solanatx.Decode(payload); err != nil || tx.MaxCost() != f.NonGas || tx.Price != want {
			t.Errorf("%s: got %+v, %v, want it to cost %v", asked, tx, err, f.NonGas)
		}
	}
	cfg := config(l.front.URL)
	cfg.CostMax = money.Units(5_000)
	dear := open(t, cfg)
	var reverted *chain.RevertedError
	if f, err := dear.Sender.Quote(t.Context(), p); err == nil || errors.As(err, &reverted) {
		t.Errorf("above the cost that is allowed: got %+v, %v, want an error that is no refusal", f, err)
	}
	f := l.quote(t, p)
	at := l.slot(t, from, 0)
	less, more, gas, other := f, f, f, at
	less.NonGas = money.Units(5_000)
	more.TipCap = money.Units(priceMax + 1)
	gas.FeeCap = money.Units(1)
	other.Key = l.slot(t, l.Payer(t), 0).Key
	for what, tt := range map[string]struct {
		f chain.Fees
		s chain.Slot
	}{
		"less than it may cost": {less, at}, "a price above the bound": {more, at}, "a fee cap": {gas, at},
		"another nonce account": {f, other}, "no nonce account": {f, chain.Slot{}},
	} {
		if got, err := l.chain.Sender.Build(from, tt.s, tt.f, p); err == nil {
			t.Errorf("%s: got %x, want an error", what, got)
		}
	}
}

// edited changes the nth nonce account in a provider's answers at a commitment.
func edited(t testing.TB, n int, commitment string, change func(any) any) rule {
	return func(e *exchange) {
		var how struct{ Commitment string }
		if json.Unmarshal(e.Params[1], &how) != nil || commitment != "" && how.Commitment != commitment {
			return
		}
		e.EditResult(t, func(m map[string]any) {
			list := m["value"].([]any)
			list[n] = change(list[n])
		})
	}
}

// valued returns a nonce account with another value.
func valued(t testing.TB, value byte) func(any) any {
	return withData(t, func(b []byte) { copy(b[40:72], bytes.Repeat([]byte{value}, 32)) })
}

func withData(t testing.TB, change func([]byte)) func(any) any {
	return func(a any) any {
		b, err := json.Marshal(a)
		var m map[string]any
		if err == nil {
			err = json.Unmarshal(b, &m)
		}
		var data []byte
		if err == nil {
			data, err = base64.StdEncoding.DecodeString(m["data"].([]any)[0].(string))
		}
		if err != nil {
			t.Error(err)
			return a
		}
		change(data)
		m["data"] = []any{base64.StdEncoding.EncodeToString(data), "base64"}
		return m
	}
}

func free(a chain.Account) (values []string) {
	for _, l := range a.Slots {
		if l.Latest == l.Final && l.Final != "" {
			values = append(values, l.Final)
		}
	}
	return values
}

func TestANonceAccountIsFreeByTheWordOfEnoughAndUsedByTheWordOfAll(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury := l.Payer(t)
	one, two, three := newProxy(t, l.node.URL, l.settled(t)), newProxy(t, l.node.URL, l.settled(t)), newProxy(t,
		l.node.URL, l.settled(t))
	cfg := config(one.URL, two.URL, three.URL)
	cfg.Quorum, cfg.Timeout = 2, 2*time.Second
	c := open(t, cfg)
	truth, err := c.Sender.Account(t.Context(), treasury)
	if err != nil || len(truth.Slots) != nonces || len(free(truth)) != nonces {
		t.Fatalf("got %+v, %v, want %d free nonce accounts", truth, err, nonces)
	}
	at := chain.Slot{Key: truth.Slots[0].Final}
	gone := func(any) any { return nil }
	stopped := func(e *exchange) { e.SetError(`{"code":-32005,"message":"Node is behind"}`) }
	hour := withData(t, func(b []byte) {
		binary.LittleEndian.PutUint64(b[32:], uint64(time.Now().Add(-time.Hour).Unix()))
	})
	for _, tt := range []struct {
		what            string
		one, two, three rule
		free            int  // nonce accounts; -1: an error
		still           bool // a transaction with the nonce may be mined still
	}{
		{"no provider differs", nil, nil, nil, nonces, true},
		{"one shows another value", nil, edited(t, 0, "", valued(t, 9)), nil, nonces, true},
		{"two show another value", nil, edited(t, 0, "", valued(t, 9)), edited(t, 0, "", valued(t, 9)), nonces, true},
		{
			"each shows another value", nil, edited(t, 0, "", valued(t, 8)), edited(t, 0, "", valued(t, 9)), nonces - 1,
			true,
		},
		{"one has it taken", nil, edited(t, 0, "confirmed", valued(t, 9)), nil, nonces - 1, true},
		{
			"all have it taken", edited(t, 0, "confirmed", valued(t, 9)), edited(t, 0, "confirmed", valued(t, 9)),
			edited(t, 0, "confirmed", valued(t, 9)), nonces - 1, false,
		},
		{"one has no such account", nil, edited(t, 0, "", gone), nil, nonces, true},
		{
			"two have none that is final", nil, edited(t, 4, "finalized", gone), edited(t, 4, "finalized", gone),
			nonces - 1, true,
		},
		{"one is silent", nil, stopped, nil, nonces, true},
		{"two are silent", nil, stopped, stopped, -1, true},
	} {
		one.SetRule("getMultipleAccounts", tt.one)
		two.SetRule("getMultipleAccounts", tt.two)
		three.SetRule("getMultipleAccounts", tt.three)
		got, err := c.Sender.Account(t.Context(), treasury)
		if tt.free < 0 {
			if err == nil {
				t.Errorf("%s: got %+v, want an error", tt.what, got)
			}
			continue
		}
		if err != nil || len(free(got)) != tt.free {
			t.Errorf("%s: got %+v, %v, want %d free", tt.what, got, err, tt.free)
		}
		if used, _ := got.IsUsed(at); used == tt.still {
			t.Errorf("%s: got %+v, want the nonce used: %v", tt.what, got, !tt.still)
		}
	}

	// An account that differs from ours is named in the error, and is no nonce account.
	single := open(t, config(one.URL))
	address, err := solanatx.NonceAccount(treasury, 1)
	if err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(any) any{
		"of another authority": withData(t, func(b []byte) { b[8]++ }),
		"not initialized":      withData(t, func(b []byte) { b[4] = 0 }),
		"of another program": func(a any) any {
			b, _ := json.Marshal(a)
			return json.RawMessage(bytes.Replace(b, []byte(solanatx.SystemProgram), []byte(solanatx.TokenProgram), 1))
		},
	} {
		one.SetRule("getMultipleAccounts", edited(t, 1, "", change))
		if got, err := single.Sender.Account(t.Context(), treasury); err == nil ||
			!strings.Contains(err.Error(), string(address)) {
			t.Errorf("%s: got %+v, %v, want an error with its address", what, got, err)
		}
	}

	// A provider with an old state does not count: a value that it does not know yet looks used.
	cfg = config(one.URL)
	cfg.LagMax = 10 * time.Minute
	timed := open(t, cfg)
	one.SetRule("getMultipleAccounts", nil)
	if got, err := timed.Sender.Account(t.Context(), treasury); err != nil || len(free(got)) != nonces {
		t.Errorf("of this moment: got %+v, %v, want %d nonce accounts", got, err, nonces)
	}
	one.SetRule("getMultipleAccounts", edited(t, solana.NonceAccountsMax, "", hour))
	if got, err := timed.Sender.Account(t.Context(), treasury); err == nil {
		t.Errorf("an hour old: got %+v, want an error", got)
	}
}

func TestAStrangersGiftStopsNoNonceAccountBehindIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	treasury := l.Payer(t)
	gift, err := solanatx.NonceAccount(treasury, nonces)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.node.SetLamports(t.Context(), gift, 1_000_000); err != nil {
		t.Fatal(err)
	}
	l.nonce(t, treasury, nonces+1)
	l.Mine(t, 1)
	l.Finalize(t)
	got, err := l.chain.Sender.Account(t.Context(), treasury)
	if err != nil || len(free(got)) != nonces+1 || slices.ContainsFunc(got.Slots, func(l chain.SlotState) bool {
		return strings.HasPrefix(l.Final, string(gift))
	}) {
		t.Errorf("got %+v, %v, want %d nonce accounts, none of them the stranger's", got, err, nonces+1)
	}
}

func TestAnOutcomeIsNoOnesWordAlone(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, two := newProxy(t, l.node.URL, l.settled(t)), newProxy(t, l.node.URL, l.settled(t))
	c := open(t, config(one.URL, two.URL)).Sender
	from := l.Payer(t)
	p := chain.Payment{From: from, To: l.Account(t), Amount: money.Units(1_000_000)}
	raw, hash := l.signed(t, &p, from, l.slot(t, from, 0), l.quote(t, p))
	txs := []chain.TxHash{hash}
	const none = `{"context":{"slot":1},"value":[null]}`
	if o, err := c.Outcome(t.Context(), txs, p); err != nil || o != nil {
		t.Errorf("not sent: got %+v, %v, want nothing", o, err)
	}
	two.SetRule("getSignatureStatuses", func(e *exchange) { e.DropConnection() })
	if o, err := c.Outcome(t.Context(), txs, p); err == nil {
		t.Errorf("one has not looked: got %+v, want an error", o)
	}
	two.SetRule("getSignatureStatuses", nil)
	l.take(t, raw)
	l.Mine(t, 1)
	if o, err := c.Outcome(t.Context(), txs, p); err != nil || o == nil || !o.Paid {
		t.Errorf("both have it: got %+v, %v, want it paid", o, err)
	}
	two.SetRule("getSignatureStatuses", func(e *exchange) { e.SetResult(none) })
	if o, err := c.Outcome(t.Context(), txs, p); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("one has it: got %+v, %v, want ErrNotYet", o, err)
	}
	both := func(r rule) {
		one.SetRule("getSignatureStatuses", r)
		two.SetRule("getSignatureStatuses", r)
	}
	// A node that is not asked to search its history knows the last minutes alone.
	both(func(e *exchange) {
		var asked struct{ SearchTransactionHistory bool }
		if len(e.Params) != 2 || json.Unmarshal(e.Params[1], &asked) != nil || !asked.SearchTransactionHistory {
			e.SetResult(none)
		}
	})
	if o, err := c.Outcome(t.Context(), txs, p); err != nil || o == nil || !o.Paid {
		t.Errorf("long ago: got %+v, %v, want it paid", o, err)
	}
	both(func(e *exchange) {
		e.SetResult(strings.Replace(none, "null", `{"slot":1,"confirmationStatus":"processed","err":null}`, 1))
	})
	if o, err := c.Outcome(t.Context(), txs, p); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("it is only processed: got %+v, %v, want ErrNotYet", o, err)
	}
	both(nil)
	two.SetRule("getBlock", func(e *exchange) { e.SetError(`{"code":-32004,"message":"Block not available"}`) })
	if o, err := c.Outcome(t.Context(), txs, p); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("one does not give its block: got %+v, %v, want ErrNotYet", o, err)
	}
	two.SetRule("getBlock", func(e *exchange) {
		e.EditResult(t,
			editTx(
				func(m map[string]any) { m["meta"].(map[string]any)["err"] = map[string]any{"InstructionError": 3} },
			))
	})
	if o, err := c.Outcome(t.Context(), txs, p); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("one says that it failed: got %+v, %v, want ErrDisagreement", o, err)
	}
	both(func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			m["value"].([]any)[0].(map[string]any)["slot"] = l.node.CurrentSlot() - 20
		})
	})
	two.SetRule("getBlock", nil)
	if o, err := c.Outcome(t.Context(), txs, p); err == nil {
		t.Errorf("in another block: got %+v, want an error", o)
	}
}

// The creation of a nonce account is valid for some blocks, and no single provider decides that it
// has expired.
func TestANonceAccountIsCreatedAgainWhenAQuorumSaysThatItExpired(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	one, two := newProxy(t, l.node.URL, l.settled(t)), newProxy(t, l.node.URL, l.settled(t))
	c := open(t, config(one.URL, two.URL))
	treasury := l.Account(t)
	l.Fund(t, treasury, "", money.Units(1_000_000_000))
	p, err := c.NonceAccounts.Creation(treasury, 0)
	if err != nil {
		t.Fatal(err)
	}
	site := chain.Slot{Key: string(p.To)}
	if a, err := c.Sender.Account(t.Context(), treasury); err != nil || len(a.Creatable) != solana.NonceAccountsMax ||
		!a.IsNext(site) {
		t.Errorf("before: got %+v, %v, want every number free", a, err)
	}
	one.SetRule("getBlockHeight", func(e *exchange) { e.SetResult("9000000000000000000") })
	f, err := c.Sender.Quote(t.Context(), p)
	if at := l.node.CurrentSlot() - 1 + 150; err != nil || f.LastValidBlock != at ||
		f.NonGas != money.Units(solanatx.NonceRent+solanatx.SignatureFee) {
		t.Fatalf("with a height that one makes up: got %+v, %v, want it good until %d", f, err, at)
	}
	one.SetRule("getBlockHeight", nil)
	payload, err := c.Sender.Build(treasury, site, f, p)
	if err != nil {
		t.Fatal(err)
	}
	raw, hash := l.Sign(t, treasury, payload)
	txs := []chain.TxHash{hash}
	lapsed := func(what string, want bool) {
		t.Helper()
		if got, err := c.NonceAccounts.Expired(t.Context(), txs, f.LastValidBlock); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", what, got, err, want)
		}
	}
	lapsed("at once", false)
	l.Mine(t, 200)
	lapsed("when it is too old", true)
	two.SetRule("getBlockHeight", func(e *exchange) { e.SetResult("100") })
	lapsed("one is behind", false)
	two.SetRule("getBlockHeight", func(e *exchange) { e.DropConnection() })
	if got, err := c.NonceAccounts.Expired(t.Context(), txs, f.LastValidBlock); err == nil {
		t.Errorf("one does not answer: got %v, want an error", got)
	}
	two.SetRule("getBlockHeight", nil)
	two.SetRule("getSignatureStatuses", func(e *exchange) {
		e.SetResult(`{"context":{"slot":1},"value":[{"slot":1,"confirmationStatus":"processed","err":null}]}`)
	})
	lapsed("one has it", false)
	two.SetRule("getSignatureStatuses", nil)
	l.take(t, raw) // and it is not mined
	l.Mine(t, 1)
	if o, err := c.Sender.Outcome(t.Context(), txs, p); err != nil || o != nil {
		t.Errorf("too old and sent: got %+v, %v, want it nowhere", o, err)
	}
	for n := range 2 { // the second fails, and costs its fee all the same
		fees, err := c.Sender.Quote(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		if payload, err = c.Sender.Build(treasury, site, fees, p); err != nil {
			t.Fatal(err)
		}
		raw, hash := l.Sign(t, treasury, payload)
		l.take(t, raw)
		l.Mine(t, 1)
		want := fees.NonGas
		if n == 1 {
			want = money.Units(solanatx.SignatureFee)
		}
		if o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{hash}, p); err != nil || o == nil ||
			o.Paid != (n == 0) || o.Fee != want {
			t.Errorf("creation %d: got %+v, %v, want it to cost %v", n, o, err, want)
		}
	}
	if a, err := c.Sender.Account(t.Context(), treasury); err != nil || len(a.Slots) != 1 || a.IsNext(site) {
		t.Errorf("after: got %+v, %v, want one nonce account, and its key used", a.Slots, err)
	}
	for what, try := range map[string]func() error{
		"another slot": func() error { _, err := c.Sender.Build(treasury, chain.Slot{Key: "other"}, f, p); return err },
		"no block": func() error {
			g := f
			g.RecentBlockhash = ""
			_, err := c.Sender.Build(treasury, site, g, p)
			return err
		},
		"more in it": func() error {
			q := p
			q.Amount = money.Units(solanatx.NonceRent + 1)
			_, err := c.Sender.Quote(t.Context(), q)
			return err
		},
		"too little allowed": func() error {
			g := f
			g.NonGas = money.Units(solanatx.NonceRent)
			_, err := c.Sender.Build(treasury, site, g, p)
			return err
		},
		"beyond the last": func() error {
			_, err := c.NonceAccounts.Creation(treasury, solana.NonceAccountsMax)
			return err
		},
		"without coin": func() error {
			q, err := c.NonceAccounts.Creation(l.Account(t), 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Sender.Quote(t.Context(), q)
			return err
		},
	} {
		if try() == nil {
			t.Errorf("%s: got no error, want one", what)
		}
	}
}

// A failed transaction has used its nonce and costs what its payer lost; no other transaction uses
// that nonce. surfpool by itself leaves the nonce unchanged, and executes and charges a
// replacement, too: AfterFailure does what it lacks.
func TestAFailedTransactionHasUsedItsNonce(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from, to := l.Payer(t), l.Account(t)
	l.Fund(t, from, surfpool.USDC, money.Units(10))
	p := chain.Payment{From: from, To: to, Contract: surfpool.USDC, Amount: money.Units(5)}
	l.Fund(t, to, surfpool.USDC, money.Units(1)) // the payee's account exists: no rent
	fees := l.quote(t, p)
	dearer, ok, err := l.chain.Sender.Bump(t.Context(), fees)
	if err != nil || !ok {
		t.Fatalf("Bump: got %v, %v, want fees", ok, err)
	}
	l.Finalize(t)
	type sent struct {
		at           chain.Slot
		first, other []byte
		hash         chain.TxHash
	}
	var both [2]sent
	for i := range both {
		s := &both[i]
		s.at = l.slot(t, from, i)
		s.first, s.hash = l.signed(t, &p, from, s.at, fees)
		s.other, _ = l.signed(t, &p, from, s.at, dearer)
	}
	l.RefusePayments(t, to)
	for i, s := range both {
		alone := i == 1
		has := l.holds(t, from, "")
		l.take(t, s.first)
		if alone {
			if err := l.node.AdvanceFailedNonce(t.Context(), s.hash, s.at.Key); err != nil {
				t.Fatal(err)
			}
		}
		l.Mine(t, 1)
		l.used(t, from, s.at, alone, false)
		o := l.outcome(t, &p, s.hash)
		cost, err := has.Sub(l.holds(t, from, ""))
		if err != nil || o == nil || o.Succeeded || o.Paid || o.Fee != cost || cost.IsZero() {
			t.Errorf("got %+v, %v, want it failed at a cost of %v", o, err, cost)
		}
		l.chain.Sender.Send(t.Context(), s.other)
		l.Mine(t, 1)
		again, err := has.Sub(l.holds(t, from, ""))
		if err != nil || (again == cost) != alone {
			t.Errorf("place %d: both cost %v, and the first %v, %v", i, again, cost, err)
		}
		l.Finalize(t)
		l.used(t, from, s.at, alone, alone)
	}
}
