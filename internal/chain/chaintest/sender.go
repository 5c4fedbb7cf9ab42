package chaintest

import (
	"bytes"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// AmpleNative is enough native coin for any number of fees on a chain whose unit is small: 10^18
// units.
var AmpleNative = money.MustParse("1000000000000000000")

// newPayment returns a payment from a new account that can afford it to a new account. On some
// chains an amount below a thousand units is dust.
func (b labEnv) newPayment(t *testing.T, k chain.Kind, amount uint64) chain.Payment {
	t.Helper()
	p := chain.Payment{From: b.Payer(t), To: b.Account(t), Contract: b.contractOf(k), Amount: units(amount)}
	if k == chain.Token {
		b.Fund(t, p.From, p.Contract, units(10*amount))
	}
	return p
}

// payableKinds returns the kinds of transfers that Coffer's payments can have.
func (b labEnv) payableKinds() []chain.Kind {
	if b.hasKind(chain.Token) {
		return []chain.Kind{chain.Native, chain.Token}
	}
	return []chain.Kind{chain.Native}
}

type sentTx struct {
	raw  []byte
	tx   chain.TxHash
	fees chain.Fees
}

// paymentList returns one payment, or none for a cancel.
func paymentList(p *chain.Payment) []chain.Payment {
	if p == nil {
		return nil
	}
	return []chain.Payment{*p}
}

func (b labEnv) quoteFees(t *testing.T, p chain.Payment) chain.Fees {
	t.Helper()
	f, err := b.Chain().Sender.Quote(t.Context(), p)
	if err != nil {
		t.Fatalf("Quote(%+v): got %v, want fees", p, err)
	}
	return f
}

func (b labEnv) buildPayload(t *testing.T, from chain.Address, p *chain.Payment, nth uint64, f chain.Fees) []byte {
	t.Helper()
	payload, err := b.Chain().Sender.Build(from, b.nthSlot(t, from, nth), f, paymentList(p)...)
	if err != nil {
		t.Fatalf("Build(%+v): got %v, want a payload", p, err)
	}
	return payload
}

// signAndSend builds, signs and sends a transaction; p is nil for a cancel.
func (b labEnv) signAndSend(t *testing.T, from chain.Address, p *chain.Payment, nth uint64, f chain.Fees) sentTx {
	t.Helper()
	raw, tx := b.Sign(t, from, b.buildPayload(t, from, p, nth, f))
	if a, text := b.Chain().Sender.Send(t.Context(), raw); a != chain.Accepted {
		t.Fatalf("Send: got %v %q, want Accepted", a, text)
	}
	return sentTx{raw, tx, f}
}

func (b labEnv) quoteAndSend(t *testing.T, p chain.Payment, nth uint64) sentTx {
	t.Helper()
	return b.signAndSend(t, p.From, &p, nth, b.quoteFees(t, p))
}

// sendReplaceable sends a payment that another transaction in its slot will replace. Where no sent
// transaction can be replaced, it only signs the payment.
func (b labEnv) sendReplaceable(t *testing.T, p chain.Payment) sentTx {
	t.Helper()
	if b.CanReplace() {
		return b.quoteAndSend(t, p, 0)
	}
	fees := b.quoteFees(t, p)
	raw, tx := b.Sign(t, p.From, b.buildPayload(t, p.From, &p, 0, fees))
	return sentTx{raw, tx, fees}
}

// sendReplaced sends a payment that was only signed, after another transaction took its slot.
func (b labEnv) sendReplaced(t *testing.T, s sentTx) {
	t.Helper()
	if !b.CanReplace() {
		b.Chain().Sender.Send(t.Context(), s.raw)
	}
}

func (b labEnv) readOutcome(t *testing.T, p *chain.Payment, candidates ...sentTx) *chain.Outcome {
	t.Helper()
	var txs []chain.TxHash
	for _, s := range candidates {
		txs = append(txs, s.tx)
	}
	o, err := b.Chain().Sender.Outcome(t.Context(), txs, paymentList(p)...)
	if err != nil {
		t.Fatalf("Outcome(%v): got %v, want an answer", txs, err)
	}
	return o
}

func (b labEnv) paymentOutcome(t *testing.T, p chain.Payment, candidates ...sentTx) *chain.Outcome {
	t.Helper()
	return b.readOutcome(t, &p, candidates...)
}

func (b labEnv) readAccount(t *testing.T, a chain.Address, open ...chain.Slot) chain.Account {
	t.Helper()
	acc, err := b.Chain().Sender.Account(t.Context(), a, open...)
	if err != nil {
		t.Fatalf("Account(%s): got %v, want nonces", a, err)
	}
	return acc
}

var senderPromises = []promise{
	{"OneTransactionMakesOnePaymentAtLeast", func(t *testing.T, b labEnv) {
		var ps []chain.Payment
		p := b.newPayment(t, chain.Native, 1010)
		for range 3 {
			ps = append(ps, p)
			if n := b.Chain().Sender.BatchSize(ps); n < 1 || n > len(ps) {
				t.Errorf(
					"of %d payments: got %d in one transaction, want at least one and no more than there are", len(ps),
					n,
				)
			}
		}
	}},
	{"WhatGoesTogetherIsMadeTogetherAndPaidByOne", func(t *testing.T, b labEnv) {
		for _, ps := range b.batchablePayments(t) {
			ps = ps[:b.Chain().Sender.BatchSize(ps)]
			if len(ps) < 2 {
				continue
			}
			payer := feePayer(ps[0])
			start := b.readHeads(t).Final.Height
			fees, err := b.Chain().Sender.Quote(t.Context(), ps...)
			if err != nil {
				t.Fatalf("Quote(%+v): got %v, want fees", ps, err)
			}
			at, fees := b.batchSlot(t, payer, ps, fees)
			payload, err := b.Chain().Sender.Build(payer, at, fees, ps...)
			if err != nil {
				t.Fatalf("Build(%+v): got %v, want a payload", ps, err)
			}
			if again, err := b.Chain().Sender.Build(payer, at, fees, ps...); err != nil ||
				!bytes.Equal(again, payload) {
				t.Errorf("Build again: got %x, %v, want %x", again, err, payload)
			}
			raw, tx := b.Sign(t, payer, payload)
			if a, said := b.Chain().Sender.Send(t.Context(), raw); a != chain.Accepted {
				t.Fatalf("Send: got %v %q, want Accepted", a, said)
			}
			before := b.readHeads(t).Latest
			b.Mine(t, 1)
			after := b.readHeads(t).Latest
			outcome := func(ps ...chain.Payment) *chain.Outcome {
				t.Helper()
				o, err := b.Chain().Sender.Outcome(t.Context(), []chain.TxHash{tx}, ps...)
				if err != nil || o == nil {
					t.Fatalf("Outcome: got %+v, %v, want it mined", o, err)
				}
				return o
			}
			o := outcome(ps...)
			most, err := fees.Max()
			if !o.Succeeded || !o.Paid || o.Fee.IsZero() || err != nil || most.Less(o.Fee) {
				t.Errorf("got %+v, want all of it paid for a fee of at most %v", o, most)
			}
			other := slices.Clone(ps)
			other[1].Amount = addAmount(t, other[1].Amount, units(1))
			if o := outcome(other...); o.Paid {
				t.Errorf("another amount: got %+v, want it unpaid", o)
			}
			in, out := map[chain.Holding]money.Amount{}, map[chain.Holding]money.Amount{}
			out[chain.Holding{Address: payer}] = o.Fee
			for _, p := range ps {
				to, from := chain.Holding{
					Address: p.To, Contract: p.Contract,
				}, chain.Holding{Address: p.From, Contract: p.Contract}
				in[to], out[from] = addAmount(t, in[to], p.Amount), addAmount(t, out[from], p.Amount)
			}
			for h := range maps.Keys(out) {
				in[h] = addAmount(t, in[h], money.Zero)
			}
			for h, got := range in {
				original, current := b.readBalance(t, before, h.Address, h.Contract),
					b.readBalance(t, after, h.Address, h.Contract)
				if addAmount(t, original, got) != addAmount(t, current, out[h]) {
					t.Errorf("%+v: got %v and then %v, want %v in and %v out", h, original, current, got, out[h])
				}
			}
			// The transfer names its sender, so that Coffer recognizes it as its own.
			b.Finalize(t)
			blocks := b.readFinals(t, start)
			for _, tr := range transfersTo(blocks, ps[0].To) {
				if tr.Tx != tx {
					continue
				}
				senders := b.findSenders(t, blocks, tr)
				if len(senders) == 0 {
					t.Errorf("%+v: got nobody who sent it", tr)
				}
				for _, s := range senders {
					if !slices.ContainsFunc(
						ps, func(p chain.Payment) bool { return p.From == s && p.Contract == tr.Contract },
					) {
						t.Errorf("%+v: got it from %v, want it from those who paid", tr, senders)
					}
				}
			}
		}
	}},
	{"ARefusalSaysWhetherTheAmountOrThePayersFundsAreItsCause", func(t *testing.T, b labEnv) {
		ch := b.Chain()
		cause := func(p chain.Payment, want chain.Cause) {
			t.Helper()
			_, err := ch.Sender.Quote(t.Context(), p)
			var reverted *chain.RevertedError
			if !errors.As(err, &reverted) || reverted.Cause != want {
				t.Errorf("Quote(%+v): got %v, want it refused for %s", p, err, want)
			}
		}
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 12345)
			least, err := ch.MinPaymentTo(t.Context(), p.Contract, p.To)
			if err != nil {
				t.Fatalf("Minimum(%s): got %v, want an amount", p.To, err)
			}
			if p.Amount = least; !least.IsZero() {
				b.quoteFees(t, p)
			}
			if units(1).Less(least) {
				p.Amount = subAmount(t, least, units(1))
				cause(p, chain.CauseAmount)
			}
			if ch.UTXO == nil { // SelectOutputs says whether outputs suffice, not the quote
				p.Amount = addAmount(t, b.readBalance(t, b.readHeads(t).Latest, p.From, p.Contract), units(1))
				cause(p, chain.CauseFunds)
			}
		}
	}},
	{"AForkTakesAnOutcomeBack", func(t *testing.T, b labEnv) {
		if !b.CanFork() {
			return
		}
		p := b.newPayment(t, chain.Native, 1234)
		at := b.nthSlot(t, p.From, 0)
		sent := b.quoteAndSend(t, p, 0)
		b.Mine(t, 1)
		first := b.paymentOutcome(t, p, sent)
		if first == nil || !first.Paid {
			t.Fatalf("before the fork: got %+v, want it paid", first)
		}
		b.Fork(t, 1)
		if got := b.paymentOutcome(t, p, sent); got != nil {
			t.Errorf("after the fork: got %+v, want nothing", got)
		}
		if used, _ := b.readAccount(t, p.From, at).IsUsed(at); used {
			t.Error("after the fork: got its slot used, want it free")
		}
		if a, said := b.Chain().Sender.Send(t.Context(), sent.raw); a == chain.Unknown {
			t.Errorf("the same bytes again: got %v %q, want them taken", a, said)
		}
		b.Mine(t, 1)
		b.Finalize(t)
		if got := b.paymentOutcome(t, p, sent); got == nil || !got.Paid || got.Tx != sent.tx {
			t.Errorf("sent again: got %+v, want it paid", got)
		}
	}},
	{"APaymentArrivesOnceAndItsOutcomeSaysSo", func(t *testing.T, b labEnv) {
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 12345)
			start := b.readHeads(t).Final.Height
			s := b.quoteAndSend(t, p, 0)
			if got := b.paymentOutcome(t, p, s); got != nil {
				t.Fatalf("%s before a block: got %+v, want nothing", k, got)
			}
			before := b.readHeads(t).Latest
			b.Mine(t, 1)
			after := b.readHeads(t).Latest
			o := b.paymentOutcome(t, p, s)
			if o == nil || !o.Succeeded || !o.Paid || o.Tx != s.tx || o.Fee.IsZero() {
				t.Fatalf("%s: got %+v, want it paid in %s for a fee", k, o, s.tx)
			}
			if o.Block.Height != after.Height || o.Block.Hash != after.Hash {
				t.Errorf("%s: got block %+v, want %+v", k, o.Block, after)
			}
			if most, err := s.fees.Max(); err != nil || most.Less(o.Fee) {
				t.Errorf("%s: got a fee of %v, want at most %v", k, o.Fee, most)
			}
			spent := subAmount(t, b.readBalance(t, before, p.From, ""), b.readBalance(t, after, p.From, ""))
			want := o.Fee
			if k == chain.Native {
				want = addAmount(t, want, p.Amount)
			}
			if spent != want {
				t.Errorf("%s: got %v spent, want %v", k, spent, want)
			}
			if got := b.readBalance(t, after, p.To, p.Contract); got != p.Amount {
				t.Errorf("%s: got a balance of %v, want %v", k, got, p.Amount)
			}
			b.Finalize(t)
			blocks := b.readFinals(t, start)
			if in := transfersTo(blocks, p.To); len(in) != 1 || in[0].Tx != s.tx || in[0].Amount != p.Amount {
				t.Errorf("%s: got %v, want the one payment", k, in)
			} else if from := b.findSenders(t, blocks, in[0]); !slices.Equal(from, []chain.Address{p.From}) {
				t.Errorf("%s: got it from %v, want it from %s", k, from, p.From)
			}
			want = o.Fee
			if b.Chain().UTXO != nil {
				want = money.Zero // no account is charged: the outputs are worth less than the payments
			}
			if got := feesPaidBy(t, blocks, p.From); got != want {
				t.Errorf("%s: got fees of %v in the blocks, want %v", k, got, want)
			}
		}
	}},
	{"APaymentThatFailedCostAFeeAndPaidNothing", func(t *testing.T, b labEnv) {
		if !b.hasKind(chain.Token) {
			return
		}
		p := b.newPayment(t, chain.Token, 500)
		start := b.readHeads(t).Final.Height
		fees := b.quoteFees(t, p)
		b.RefusePayments(t, p.To)
		s := b.signAndSend(t, p.From, &p, 0, fees)
		b.Mine(t, 1)
		o := b.paymentOutcome(t, p, s)
		if o == nil || o.Succeeded || o.Paid || o.Fee.IsZero() {
			t.Fatalf("got %+v, want it failed for a fee", o)
		}
		b.Finalize(t)
		blocks := b.readFinals(t, start)
		if in := transfersTo(blocks, p.To); len(in) != 0 {
			t.Errorf("got %v, want no transfer", in)
		}
		if got := feesPaidBy(t, blocks, p.From); got != o.Fee {
			t.Errorf("got fees of %v in the blocks, want %v", got, o.Fee)
		}
	}},
	{"AHopelessPaymentIsRefusedBeforeItIsSent", func(t *testing.T, b labEnv) {
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 1100)
			p.Amount = units(math.MaxUint64)
			b.wantRefused(t, p)
		}
		if b.hasKind(chain.Token) {
			p := b.newPayment(t, chain.Token, 100)
			b.RefusePayments(t, p.To)
			b.Mine(t, 1)
			b.wantRefused(t, p)
		}
	}},
	{"FeesStayWithinTheCap", func(t *testing.T, b labEnv) {
		p := b.newPayment(t, chain.Native, 1100)
		f := b.quoteFees(t, p)
		for bumps := 0; ; bumps++ {
			if price := priceOf(f); b.FeeCap().Less(price) || price.Less(f.TipCap) || price.IsZero() ||
				f.GasLimit == 0 {
				t.Fatalf("after %d bumps: got %+v, want at most %v", bumps, f, b.FeeCap())
			}
			next, ok, err := b.Chain().Sender.Bump(t.Context(), f)
			if err != nil {
				t.Fatalf("Bump(%+v): got %v, want fees", f, err)
			}
			if !ok {
				break
			}
			if !priceOf(f).Less(priceOf(next)) || !f.TipCap.Less(next.TipCap) || next.GasLimit != f.GasLimit {
				t.Fatalf("Bump(%+v): got %+v, want more for the same gas", f, next)
			}
			if f = next; bumps > 1000 {
				t.Fatal("got a thousand bumps, want the cap to end them")
			}
		}
	}},
	{"AUsualTransferHasAPriceWithinTheCap", func(t *testing.T, b labEnv) {
		f, err := b.Chain().Sender.TransferFees(t.Context())
		if price := priceOf(f); err != nil || f.GasLimit == 0 || price.IsZero() || b.FeeCap().Less(price) {
			t.Errorf("TransferFees: got %+v, %v, want fees of at most %v", f, err, b.FeeCap())
		}
	}},
	{"TheSameInputBuildsTheSameBytes", func(t *testing.T, b labEnv) {
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 1100)
			f := b.quoteFees(t, p)
			first := b.buildPayload(t, p.From, &p, 3, f)
			if again := b.buildPayload(t, p.From, &p, 3, f); !bytes.Equal(first, again) {
				t.Errorf("%s: got %x, want %x", k, again, first)
			}
			if other := b.buildPayload(t, p.From, &p, 4, f); bytes.Equal(first, other) {
				t.Errorf("%s: got the same bytes for another slot", k)
			}
			if bytes.Equal(first, b.buildPayload(t, p.From, nil, 3, f)) {
				t.Errorf("%s: got the same bytes for a cancel", k)
			}
			if _, err := b.Chain().Sender.Build(p.To, chain.Slot{Nonce: 3}, f, p); err == nil {
				t.Errorf("%s: got a payload from another account than the payment's, want an error", k)
			}
		}
	}},
	{"SendingTheSameBytesAgainIsHarmless", func(t *testing.T, b labEnv) {
		p := b.newPayment(t, chain.Native, 1077)
		at := b.nthSlot(t, p.From, 0)
		s := b.quoteAndSend(t, p, 0)
		if a, said := b.Chain().Sender.Send(t.Context(), s.raw); a == chain.Unknown {
			t.Errorf("while it waits: got %v %q, want Known or Accepted", a, said)
		}
		b.Mine(t, 1)
		// Once the transaction is mined, a node may answer anything, and Send never reports a
		// refusal.
		b.Chain().Sender.Send(t.Context(), s.raw)
		b.Mine(t, 1)
		if got := b.readBalance(t, b.readHeads(t).Latest, p.To, ""); got != p.Amount {
			t.Errorf("got a balance of %v, want %v", got, p.Amount)
		}
		if used, _ := b.readAccount(t, p.From, at).IsUsed(at); !used {
			t.Error("got its slot free, want it used")
		}
	}},
	{"BytesThatNobodyTakesAreUnknown", func(t *testing.T, b labEnv) {
		if a, said := b.Chain().Sender.Send(t.Context(), []byte("no transaction")); a != chain.Unknown || said == "" {
			t.Errorf("got %v %q, want Unknown and what was said", a, said)
		}
	}},
	{"AReplacementTakesTheSlot", func(t *testing.T, b labEnv) {
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 1055)
			first := b.sendReplaceable(t, p)
			fees, ok, err := b.Chain().Sender.Bump(t.Context(), first.fees)
			if err != nil || !ok {
				t.Fatalf("Bump(%+v): got %v, %v, want fees below the cap", first.fees, ok, err)
			}
			second := b.signAndSend(t, p.From, &p, 0, fees)
			b.sendReplaced(t, first)
			b.Mine(t, 1)
			o := b.paymentOutcome(t, p, first, second)
			if o == nil || !o.Paid || o.Tx != second.tx {
				t.Errorf("%s: got %+v, want %s to have paid", k, o, second.tx)
			}
			if got := b.readBalance(t, b.readHeads(t).Latest, p.To, p.Contract); got != p.Amount {
				t.Errorf("%s: got a balance of %v, want %v", k, got, p.Amount)
			}
		}
	}},
	{"ACancelFillsTheSlotAndPaysNothing", func(t *testing.T, b labEnv) {
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 1066)
			at := b.nthSlot(t, p.From, 0)
			pay := b.sendReplaceable(t, p)
			fees, ok, err := b.Chain().Sender.Bump(t.Context(), pay.fees)
			if err != nil || !ok {
				t.Fatalf("Bump(%+v): got %v, %v, want fees below the cap", pay.fees, ok, err)
			}
			cancel := b.signAndSend(t, p.From, nil, 0, fees)
			b.sendReplaced(t, pay)
			b.Mine(t, 1)
			if o := b.paymentOutcome(t, p, pay, cancel); o == nil || o.Tx != cancel.tx || !o.Succeeded || o.Paid ||
				o.Fee.IsZero() {
				t.Errorf("%s: got %+v, want the cancel, unpaid", k, o)
			}
			if o := b.readOutcome(t, nil, cancel); o == nil || !o.Succeeded || o.Paid {
				t.Errorf("%s: got %+v, want the cancel to have succeeded", k, o)
			}
			if got := b.readBalance(t, b.readHeads(t).Latest, p.To, p.Contract); !got.IsZero() {
				t.Errorf("%s: got a balance of %v, want 0", k, got)
			}
			if used, _ := b.readAccount(t, p.From, at).IsUsed(at); !used {
				t.Errorf("%s: got its slot free, want it used", k)
			}
		}
	}},
	{"AnotherPaymentIsNotTheOneAskedFor", func(t *testing.T, b labEnv) {
		for _, k := range b.payableKinds() {
			p := b.newPayment(t, k, 1088)
			s := b.quoteAndSend(t, p, 0)
			b.Mine(t, 1)
			more, elsewhere := p, p
			more.Amount = units(1089)
			elsewhere.To = b.Account(t)
			for _, q := range []chain.Payment{more, elsewhere} {
				if o := b.paymentOutcome(t, q, s); o == nil || !o.Succeeded || o.Paid {
					t.Errorf("%s of %v to %s: got %+v, want it unpaid", k, q.Amount, q.To, o)
				}
			}
		}
	}},
	{"ASlotIsUsedWhenItsTransactionIsMinedThenFinally", func(t *testing.T, b labEnv) {
		p := b.newPayment(t, chain.Native, 1005)
		at := b.nthSlot(t, p.From, 0)
		want := func(when string, latest, final bool) {
			t.Helper()
			acct := b.readAccount(t, p.From, at)
			if l, f := acct.IsUsed(at); l != latest || f != final || acct.IsNext(at) == latest {
				t.Errorf("%s: got %+v, want the slot used: %v, finally: %v", when, acct, latest, final)
			}
		}
		want("new", false, false)
		b.quoteAndSend(t, p, 0)
		want("waiting", false, false)
		b.Mine(t, 1)
		want("mined", true, false)
		b.Finalize(t)
		want("final", true, true)
	}},
}

// priceOf returns the most that a unit of gas may cost.
func priceOf(f chain.Fees) money.Amount {
	if f.FeeCap.IsZero() {
		return f.TipCap
	}
	return f.FeeCap
}

// batchablePayments returns groups of payments that may share a transaction: payments of one payer
// to several payees, and, where the fee payer is separate, payments of several payers to the fee
// payer.
func (b labEnv) batchablePayments(t *testing.T) (groups [][]chain.Payment) {
	t.Helper()
	kinds := b.payableKinds()
	payer := b.Payer(t)
	var outgoing, incoming []chain.Payment
	for i := range 3 {
		outgoing = append(outgoing, chain.Payment{From: payer, To: b.Account(t), Amount: units(uint64(1100 + i))})
	}
	groups = append(groups, outgoing)
	if !b.Chain().SeparateFeePayer || b.Chain().UTXO != nil {
		return groups
	}
	for i := range 4 {
		p := chain.Payment{
			From: b.Account(t), To: payer, Payer: payer, Contract: b.contractOf(kinds[i%len(kinds)]),
			Amount: units(uint64(1200 + i)),
		}
		b.Fund(t, p.From, p.Contract, p.Amount)
		incoming = append(incoming, p)
	}
	return append(groups, incoming)
}

func feePayer(p chain.Payment) chain.Address {
	if p.Payer != "" {
		return p.Payer
	}
	return p.From
}

// batchSlot returns a slot for payments that share a transaction, with their fees there.
func (b labEnv) batchSlot(
	t *testing.T, payer chain.Address, ps []chain.Payment, fees chain.Fees,
) (chain.Slot, chain.Fees) {
	t.Helper()
	utxo := b.Chain().UTXO
	if utxo == nil {
		return b.nthSlot(t, payer, 0), fees
	}
	slotKey, fees, err := utxo.SelectOutputs(b.Lab.(UTXOLab).Outputs(t, payer), nil, payer, fees, ps...)
	if err != nil {
		t.Fatalf("Choose for %+v: got %v, want a slot", ps, err)
	}
	return chain.Slot{Key: slotKey}, fees
}

// nthSlot returns the nth slot of an account, from 0.
func (b labEnv) nthSlot(t *testing.T, account chain.Address, n uint64) chain.Slot {
	t.Helper()
	if utxo := b.Chain().UTXO; utxo != nil {
		coins := b.Lab.(UTXOLab).Outputs(t, account)
		if n >= uint64(len(coins)) {
			t.Fatalf("%s has %d coins, want more than %d", account, len(coins), n)
		}
		payment := chain.Payment{From: account, To: b.Account(t), Amount: units(1000)}
		slotKey, _, err := utxo.SelectOutputs(coins[n:n+1], nil, account, b.quoteFees(t, payment), payment)
		if err != nil {
			t.Fatalf("Choose(%+v): got %v, want a slot", coins[n], err)
		}
		return chain.Slot{Nonce: n, Key: slotKey}
	}
	acct := b.readAccount(t, account)
	if !acct.KeyedSlots {
		return chain.Slot{Nonce: n}
	}
	if n >= uint64(len(acct.Slots)) {
		t.Fatalf("%s has %d places, want more than %d", account, len(acct.Slots), n)
	}
	return chain.Slot{Nonce: n, Key: acct.Slots[n].Latest}
}

func (b labEnv) wantRefused(t *testing.T, p chain.Payment) {
	t.Helper()
	f, err := b.Chain().Sender.Quote(t.Context(), p)
	var reverted *chain.RevertedError
	if !errors.As(err, &reverted) || reverted.Reason == "" {
		t.Errorf("Quote(%+v): got %+v, %v, want it refused with a reason", p, f, err)
	}
}

// feesPaidBy returns the sum of the fees that an account paid in blocks. Each block names the
// account at most once.
func feesPaidBy(t *testing.T, blocks []chain.Contents, payer chain.Address) money.Amount {
	t.Helper()
	sum := money.Zero
	for _, c := range blocks {
		lines := 0
		for _, f := range c.Fees {
			if f.Payer == payer {
				sum = addAmount(t, sum, f.Amount)
				lines++
			}
		}
		if lines > 1 {
			t.Errorf("block %d: got %d fees of one payer, want one", c.Height, lines)
		}
	}
	return sum
}
