package tron_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

// payout is a signed payment that was not sent.
type payout struct {
	*lab
	c    *tron.Client
	p    chain.Payment
	slot chain.Slot
	raw  []byte
	tx   chain.TxHash
}

func newPayout(t *testing.T, agree int, nodes ...*node) *payout {
	t.Helper()
	f := newFake(t)
	c := f.open(t, agree, nil, nodes...)
	l := &lab{f, c.Chain()}
	o := &payout{lab: l, c: c}
	o.p = chain.Payment{From: l.Payer(t), To: l.Account(t), Contract: l.token, Amount: money.Units(500)}
	l.Fund(t, o.p.From, l.token, money.Units(5000))
	acct, err := c.Account(t.Context(), o.p.From)
	if err != nil || len(acct.Slots) < 5 {
		t.Fatalf("got %+v, %v, want places", acct, err)
	}
	o.slot = chain.Slot{Key: acct.Slots[0].Latest}
	fees, err := c.Quote(t.Context(), o.p)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := c.Build(o.p.From, o.slot, fees, o.p)
	if err != nil {
		t.Fatal(err)
	}
	o.raw, o.tx = l.Sign(t, o.p.From, payload)
	return o
}

func (o *payout) place(t *testing.T) trontx.SlotRef {
	t.Helper()
	at, err := trontx.ParseSlotKey(o.slot.Key)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// until adds blocks while the newest one is older than the expiry by more than so much.
func (o *payout) until(t *testing.T, before int64) {
	at := o.place(t)
	o.locked(func() {
		for o.head().at < at.Expiration-before {
			o.mine(1)
		}
	})
}

func (o *payout) lapsed(t *testing.T, want bool, when string) chain.Block {
	t.Helper()
	proof, got, err := o.c.ProveExpired(t.Context(), o.slot)
	if err != nil || got != want {
		t.Errorf("%s: got lapsed %v, %v, want %v", when, got, err, want)
	}
	return proof
}

func (o *payout) uses(t *testing.T, latest, final bool, when string) {
	t.Helper()
	acct, err := o.c.Account(t.Context(), o.p.From, o.slot)
	if err != nil {
		t.Fatal(err)
	}
	if l, f := acct.IsUsed(o.slot); l != latest || f != final {
		t.Errorf("%s: got the place used: %v, finally: %v, want %v, %v", when, l, f, latest, final)
	}
}

func (o *payout) paid(t *testing.T, want uint64) {
	t.Helper()
	var got money.Amount
	o.locked(func() { got = o.head().after.tokens[o.p.To] })
	if got != money.Units(want) {
		t.Errorf("got %v at the payee, want %d", got, want)
	}
}

func TestASlotThatExpiredIsNeverPaid(t *testing.T) {
	t.Parallel()
	o := newPayout(t, 1, &node{})
	o.uses(t, false, false, "at first")
	o.lapsed(t, false, "at first")
	o.until(t, blockTime)
	o.uses(t, false, false, "one block before the end")
	o.lapsed(t, false, "one block before the end")
	o.Mine(t, 1)
	last := o.head()
	o.uses(t, true, false, "when the newest block is as late")
	o.lapsed(t, false, "when the newest block is as late")
	o.Mine(t, solidBehind-1)
	o.lapsed(t, false, "one block before that is final")
	o.Mine(t, 1)
	o.uses(t, true, true, "when it is final")
	if proof := o.lapsed(t, true, "when it is final"); proof.Hash != last.id {
		t.Errorf("got block %+v for a proof, want %s", proof, last.id)
	}
	if a, said := o.c.Send(t.Context(), o.raw); a != chain.Unknown || !strings.Contains(said, "EXPIRATION") {
		t.Errorf("sent: got %v %q, want no answer that means anything", a, said)
	}
	o.locked(func() {
		o.pending = append(o.pending, &fakeTx{raw: payloadOf(t, o.raw), sig: o.raw[:65], hash: string(o.tx)})
	})
	o.Mine(t, 3)
	o.paid(t, 0)
	if proof := o.lapsed(t, true, "much later"); proof.Hash != last.id {
		t.Errorf("much later: got block %+v for a proof, want %s still", proof, last.id)
	}
	if out, err := o.c.Outcome(t.Context(), []chain.TxHash{o.tx}, o.p); err != nil || out != nil {
		t.Errorf("got %+v, %v, want it nowhere", out, err)
	}
}

func payloadOf(t *testing.T, raw []byte) []byte {
	t.Helper()
	x, _, err := trontx.DecodeSigned(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := x.Payload()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The last block that can contain the transaction is later than its expiry, if the block before is
// not: blocks were missed.
func TestWhatTheLastBlockTookHasNotLapsed(t *testing.T) {
	t.Parallel()
	for _, gap := range []int64{0, 3 * 3600_000} {
		o := newPayout(t, 1, &node{})
		o.until(t, blockTime)
		if a, said := o.c.Send(t.Context(), o.raw); a != chain.Accepted {
			t.Fatalf("got %v %q, want it taken", a, said)
		}
		o.locked(func() { o.gap = gap })
		o.Mine(t, 1)
		if late := o.head().at >= o.place(t).Expiration; !late {
			t.Fatalf("got a block of %d, want one at or past the expiry", o.head().at)
		}
		o.paid(t, 500)
		o.Mine(t, 40)
		o.uses(t, true, true, "mined")
		o.lapsed(t, false, "mined")
		out, err := o.c.Outcome(t.Context(), []chain.TxHash{o.tx}, o.p)
		if err != nil || out == nil || !out.Paid || !out.Succeeded {
			t.Errorf("got %+v, %v, want it paid", out, err)
		}
		if a, _ := o.c.Send(t.Context(), o.raw); a != chain.Known {
			t.Errorf("sent again: got %v, want Known", a)
		}
		o.Mine(t, 2)
		o.paid(t, 500)
	}
}

func TestNoProviderAloneMakesASlotExpiredOrUsed(t *testing.T) {
	t.Parallel()
	blind := func(o **payout) *node { // shows the block of the payment without the payment
		return &node{lie: func(_, m string, _ map[string]any, a any) any {
			if m == "getblock" && *o != nil {
				for i := range list(at(a)["transactions"]) {
					if tx(a, i)["txID"] == string((*o).tx) {
						delete(at(a), "transactions")
						break
					}
				}
			}
			return a
		}}
	}
	down := false
	flaky := &node{lie: func(_, _ string, _ map[string]any, a any) any {
		if down {
			return nil
		}
		return a
	}}
	var mined *payout
	mined = newPayout(t, 2, &node{}, blind(&mined), flaky)
	mined.c.Send(t.Context(), mined.raw)
	mined.Mine(t, 1)
	mined.paid(t, 500)
	mined.until(t, 0)
	mined.Mine(t, solidBehind)
	mined.lapsed(t, false, "one hides it")
	mined.locked(func() { down = true })
	if _, lapsed, err := mined.c.ProveExpired(t.Context(), mined.slot); lapsed {
		t.Errorf("one hides it and one is down: got lapsed, %v, want it not", err)
	}

	behind := &node{}
	o := newPayout(t, 2, behind, &node{}, &node{})
	o.until(t, 0)
	o.Mine(t, solidBehind)
	o.lapsed(t, true, "all have seen the end")
	o.uses(t, true, true, "all have seen the end")
	silent := func() *node {
		return &node{lie: func(string, string, map[string]any, any) any { return nil }}
	}
	if proof, lapsed, err := o.open(
		t, 2, nil, &node{}, silent(), silent(),
	).ProveExpired(t.Context(), o.slot); lapsed || err == nil {
		t.Errorf("by the word of one: got lapsed %v, %+v, %v, want an error", lapsed, proof, err)
	}
	o.locked(func() { behind.lag = solidBehind + 2 })
	o.lapsed(t, false, "one has not seen the end")
	o.uses(t, false, false, "one has not seen the end")

	ahead := &node{lie: func(view, m string, asked map[string]any, a any) any {
		if m == "getblock" && asked["id_or_num"] == nil {
			at(a, "block_header", "raw_data")["timestamp"] = genesisTime * 2
		}
		return a
	}}
	early := newPayout(t, 1, &node{})
	early.c = early.open(t, 1, nil, ahead, &node{})
	early.lapsed(t, false, "one invents a time")
	early.uses(t, false, false, "one invents a time")
}

func TestSlotsFollowFromTheFinalHeadAlone(t *testing.T) {
	t.Parallel()
	o := newPayout(t, 1, &node{})
	first, err := o.c.Account(t.Context(), o.p.From)
	if err != nil {
		t.Fatal(err)
	}
	again, err := o.open(t, 1, nil, &node{}, &node{lag: 1}).Account(t.Context(), o.p.From)
	if err != nil || len(again.Slots) != len(first.Slots) || again.Slots[0] != first.Slots[0] {
		t.Errorf("another client: got %+v, %v, want the same places", again, err)
	}
	seen := map[string]bool{}
	for _, l := range first.Slots {
		if l.Latest != l.Final || seen[l.Final] {
			t.Errorf("got place %+v, want it free and there once", l)
		}
		seen[l.Final] = true
	}
	o.Mine(t, 1)
	later, err := o.c.Account(t.Context(), o.p.From)
	if err != nil || len(later.Slots) == 0 || seen[later.Slots[0].Final] {
		t.Errorf("a block later: got %+v, %v, want others", later, err)
	}
	for name, s := range map[string]chain.Slot{
		"of another": {Key: strings.Replace(o.slot.Key, string(o.p.From), string(o.p.To), 1)}, "none": {Key: "x"},
		"a number": {Nonce: 1},
	} {
		if got, err := o.c.Account(t.Context(), o.p.From, s); err == nil {
			t.Errorf("a place %s: got %+v, want an error", name, got)
		}
		if _, lapsed, err := o.c.ProveExpired(t.Context(), s); lapsed || err == nil && name != "of another" {
			t.Errorf("a place %s: got lapsed %v, %v, want it not", name, lapsed, err)
		}
		if got, err := o.c.Build(
			o.p.From, s, chain.Fees{GasLimit: 1, TipCap: money.Units(1), NonGas: money.Units(1)}, o.p,
		); err == nil {
			t.Errorf("a place %s: built %x, want an error", name, got)
		}
	}
	// A reference to a block of another branch is found nowhere.
	foreign := o.place(t)
	foreign.RefBlockHash[0] ^= 1
	if got, err := o.c.Account(t.Context(), o.p.From, chain.Slot{Key: foreign.SlotKey()}); err == nil {
		t.Errorf("a place on no block: got %+v, want an error", got)
	}
}

func TestAQuoteSaysWhyAPaymentIsHopelessOrOnlyWaits(t *testing.T) {
	t.Parallel()
	o := newPayout(t, 1, &node{})
	poor := o.Account(t)
	o.Fund(t, poor, "", money.Units(2_000_000))
	o.Fund(t, poor, o.token, money.Units(50))
	pay := func(from, to, contract chain.Address, amount uint64) chain.Payment {
		return chain.Payment{From: from, To: to, Contract: contract, Amount: money.Units(amount)}
	}
	says := func(message string) *node {
		return &node{lie: func(_, m string, asked map[string]any, a any) any {
			if m == "triggerconstantcontract" && asked["function_selector"] != "balanceOf(address)" {
				return object{"result": object{"code": "OTHER_ERROR", "message": hex.EncodeToString([]byte(message))}}
			}
			return a
		}}
	}
	energy := func(n uint64) *node {
		return &node{lie: func(_, m string, _ map[string]any, a any) any {
			if m == "triggerconstantcontract" {
				at(a)["energy_used"] = n
			}
			return a
		}}
	}
	prices := func(key string, value int64) *node {
		return &node{lie: func(_, m string, _ map[string]any, a any) any {
			if m == "getchainparameters" {
				for _, x := range list(at(a)["chainParameter"]) {
					if x.(object)["key"] == key {
						x.(object)["value"] = value
					}
				}
			}
			return a
		}}
	}
	with := func(n *node) *tron.Client { return o.open(t, 1, nil, n) }
	for name, c := range map[string]struct {
		c        *tron.Client
		p        chain.Payment
		hopeless bool
	}{
		"to where nobody has a key": {o.c, pay(o.p.From, "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb", "", 5), true},
		"TRX to a contract":         {o.c, pay(o.p.From, o.token, "", 5), true},
		"TRX to a contract of which nothing is known but what it is": {o.c, pay(o.p.From, o.router, "", 5), true},
		"a token to itself":             {o.c, pay(o.p.From, o.token, o.token, 5), true},
		"a token that is none":          {o.c, pay(o.p.From, o.p.To, o.p.To, 5), true},
		"more than the balance":         {o.c, pay(o.p.From, o.p.To, "", plenty), true},
		"more of a token than there is": {o.c, pay(o.p.From, o.p.To, o.token, 5001), true},
		"what the contract throws at": {
			with(says("class org.tron.core.vm.program.Program$IllegalOperationException : Invalid operation code")),
			o.p, true,
		},
		"what took the node too long": {
			with(says("class org.tron.core.vm.program.Program$OutOfTimeException : CPU timeout")), o.p, false,
		},
		"what the node cannot try":       {with(says("this node does not support constant")), o.p, false},
		"a trial that used nothing":      {with(energy(0)), o.p, false},
		"energy beyond the cost":         {with(energy(2_000_000)), o.p, false},
		"energy beyond reason":           {with(energy(1 << 62)), o.p, false},
		"a price above the cap":          {with(prices("getEnergyFee", 2001)), o.p, false},
		"a price beyond reason":          {with(prices("getTransactionFee", 1<<50)), o.p, false},
		"no price":                       {with(prices("getEnergyFee", 0)), o.p, false},
		"from no account":                {o.c, pay(o.p.To, o.p.From, "", 5), false},
		"with less than the fee":         {o.c, pay(poor, o.p.To, o.token, 5), false},
		"with less than the fee, in TRX": {o.c, pay(poor, o.p.From, "", 1_900_000), false},
		"with less than an activation":   {o.c, pay(poor, o.p.To, "", 600_000), false},
		"with a node that knows another": {with(&node{lie: func(_, m string, _ map[string]any, a any) any {
			if m == "getaccount" {
				return object{"address": "41" + strings.Repeat("00", 20), "balance": plenty}
			}
			return a
		}}), o.p, false},
	} {
		fees, err := c.c.Quote(t.Context(), c.p)
		var reverted *chain.RevertedError
		if err == nil || errors.As(err, &reverted) != c.hopeless {
			t.Errorf("%s: got %+v, %v, want an error, hopeless: %v", name, fees, err, c.hopeless)
		}
	}
	known, err := o.c.Quote(t.Context(), pay(poor, o.p.From, "", 600_000))
	if err != nil {
		t.Fatalf("to an account: got %v, want fees", err)
	}
	fresh, err := o.c.Quote(t.Context(), pay(o.p.From, o.p.To, "", 5))
	if more, _ := fresh.NonGas.Sub(known.NonGas); err != nil || more != money.Units(1_100_000) {
		t.Errorf("to a new account: got %+v, %v, want 1.1 TRX above %+v", fresh, err, known)
	}
	if _, err := o.c.Quote(t.Context(), o.p, o.p); err == nil {
		t.Error("two payments: got fees, want an error")
	}
}

func TestWhatIsBuiltCostsNoMoreThanItsFees(t *testing.T) {
	t.Parallel()
	o := newPayout(t, 1, &node{})
	fees, err := o.c.Quote(t.Context(), o.p)
	if err != nil {
		t.Fatal(err)
	}
	payload, err := o.c.Build(o.p.From, o.slot, fees, o.p)
	if err != nil {
		t.Fatal(err)
	}
	x, err := trontx.Decode(payload)
	if limit, _ := fees.TipCap.Mul(fees.GasLimit); err != nil || money.Units(x.FeeLimit) != limit ||
		fees.NonGas.Less(x.MaxCost()) {
		t.Errorf("got %+v, %v, want a fee limit of %v within %v", x, err, limit, fees.NonGas)
	}
	for name, change := range map[string]func(f *chain.Fees){
		"a fee cap":                   func(f *chain.Fees) { f.FeeCap = money.Units(1) },
		"energy beyond the cost":      func(f *chain.Fees) { f.GasLimit *= 2 },
		"a price above the cap":       func(f *chain.Fees) { f.TipCap, f.GasLimit = money.Units(2001), 1 },
		"no energy":                   func(f *chain.Fees) { f.GasLimit = 0 },
		"numbers that wrap around":    func(f *chain.Fees) { f.GasLimit = 1 << 62 },
		"more than the configuration": func(f *chain.Fees) { f.NonGas = money.Units(100_000_001) },
	} {
		bad := fees
		change(&bad)
		if b, err := o.c.Build(o.p.From, o.slot, bad, o.p); err == nil {
			t.Errorf("%s: built %x, want an error", name, b)
		}
	}
	if b, err := o.c.Build(o.p.From, o.slot, fees); !errors.Is(err, chain.ErrExpires) {
		t.Errorf("a cancel: got %x, %v, want none", b, err)
	}
	if b, err := o.c.Build(o.p.From, o.slot, fees, o.p, o.p); err == nil {
		t.Errorf("two payments: got %x, want an error", b)
	}
	if next, ok, err := o.c.Bump(t.Context(), fees); ok || err != nil {
		t.Errorf("Bump: got %+v, %v, want nothing", next, err)
	}
}

func TestAPaymentThatRanOutOfEnergyPaidNothing(t *testing.T) {
	t.Parallel()
	o := newPayout(t, 1, &node{})
	fees := chain.Fees{GasLimit: 1000, TipCap: money.Units(energyPrice), NonGas: money.Units(1_000_000)}
	payload, err := o.c.Build(o.p.From, o.slot, fees, o.p)
	if err != nil {
		t.Fatal(err)
	}
	raw, hash := o.Sign(t, o.p.From, payload)
	if a, said := o.c.Send(t.Context(), raw); a != chain.Accepted {
		t.Fatalf("got %v %q, want it taken", a, said)
	}
	o.Mine(t, 1)
	out, err := o.c.Outcome(t.Context(), []chain.TxHash{hash}, o.p)
	if err != nil || out == nil || out.Succeeded || out.Paid || out.Fee.IsZero() || fees.NonGas.Less(out.Fee) {
		t.Errorf("got %+v, %v, want it failed for a fee within %v", out, err, fees.NonGas)
	}
	o.paid(t, 0)
	o.uses(t, true, false, "failed")
}

func TestAnOutcomeIsNoOnesWordAlone(t *testing.T) {
	t.Parallel()
	var o *payout
	// The node shows the log of another token for a payment that succeeded.
	fake := &node{lie: func(_, m string, _ map[string]any, a any) any {
		if o != nil && m == "gettransactioninfobyblocknum" {
			for i := range list(a) {
				if info(a, i)["id"] == string(o.tx) {
					list(info(a, i)["log"])[0].(object)["address"] = strings.Repeat("77", 20)
				}
			}
		}
		return a
	}}
	elsewhere := &node{lie: func(_, m string, _ map[string]any, a any) any {
		if m == "gettransactioninfobyid" && at(a)["id"] != nil {
			at(a)["blockNumber"] = 2
		}
		return a
	}}
	another := &node{lie: func(_, m string, _ map[string]any, a any) any {
		if m == "gettransactioninfobyid" && at(a)["id"] != nil {
			at(a)["id"] = strings.Repeat("77", 32)
		}
		return a
	}}
	late := &node{lie: func(_, m string, _ map[string]any, a any) any {
		if m == "gettransactioninfobyblocknum" {
			return []any{}
		}
		return a
	}}
	o = newPayout(t, 2, &node{}, &node{}, fake)
	if a, said := o.c.Send(t.Context(), o.raw); a != chain.Accepted {
		t.Fatalf("got %v %q, want it taken", a, said)
	}
	o.Mine(t, 1)
	with := func(agree int, nodes ...*node) (*chain.Outcome, error) {
		return o.open(t, agree, nil, nodes...).Outcome(t.Context(), []chain.TxHash{o.tx}, o.p)
	}
	if out, err := o.c.Outcome(t.Context(), []chain.TxHash{o.tx}, o.p); err != nil || out == nil || !out.Paid {
		t.Errorf("two of three: got %+v, %v, want it paid", out, err)
	}
	if out, err := with(2, &node{}, fake); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("one against one: got %+v, %v, want a disagreement", out, err)
	}
	if out, err := with(2, &node{}, &node{lag: 1}); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("one has it: got %+v, %v, want not yet", out, err)
	}
	if out, err := with(1, fake); err != nil || out == nil || out.Paid || !out.Succeeded {
		t.Errorf("the log of another token: got %+v, %v, want it unpaid", out, err)
	}
	for name, n := range map[string]*node{"a block without it": elsewhere, "another's result": another} {
		if out, err := with(1, n); err == nil {
			t.Errorf("%s: got %+v, want an error", name, out)
		}
	}
	if out, err := with(1, late); !errors.Is(err, chain.ErrNotYet) {
		t.Errorf("its results are to come: got %+v, %v, want not yet", out, err)
	}
	if out, err := with(2, &node{lag: 1}, &node{lag: 1}); err != nil || out != nil {
		t.Errorf("nobody has it: got %+v, %v, want nothing", out, err)
	}
	down := &node{lie: func(_, m string, _ map[string]any, a any) any {
		if m == "gettransactioninfobyid" {
			return nil
		}
		return a
	}}
	if out, err := with(2, &node{lag: 1}, down); err == nil {
		t.Errorf("one has not, one is down: got %+v, want an error", out)
	}
}

func TestWhatIsSentIsBelievedByItsIdentifierOnly(t *testing.T) {
	t.Parallel()
	o := newPayout(t, 1, &node{})
	answer := func(change func(a object)) *tron.Client {
		return o.open(t, 1, nil, &node{lie: func(_, m string, _ map[string]any, a any) any {
			if m == "broadcasthex" {
				change(at(a))
			}
			return a
		}})
	}
	if a, said := answer(
		func(a object) { a["txid"] = strings.Repeat("00", 32) },
	).Send(t.Context(), o.raw); a != chain.Unknown || said == "" {
		t.Errorf("another identifier: got %v %q, want Unknown", a, said)
	}
	for code, want := range map[string]chain.Answer{
		"DUP_TRANSACTION_ERROR": chain.Known, "SERVER_BUSY": chain.Unknown, "TAPOS_ERROR": chain.Unknown,
		"CONTRACT_VALIDATE_ERROR": chain.Unknown, "": chain.Unknown,
	} {
		c := answer(func(a object) { a["result"], a["code"] = false, code })
		if a, said := c.Send(t.Context(), o.raw); a != want || said == "" {
			t.Errorf("%q: got %v %q, want %v", code, a, said, want)
		}
	}
	o.Mine(t, 1)
	o.paid(t, 500) // each of them had accepted it, whatever it answered
}
