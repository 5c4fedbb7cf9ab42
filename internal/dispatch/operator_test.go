package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

var operatorActor = audit.Operator("op")

func (b *testEnv) loadView(id string) (s dispatch.OrderView) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		s, err = dispatch.LoadView(ctx, tx, id)
		return err
	}))
	return s
}

// wantFault expects a fault with this effect, and with these words in its reason.
func (b *testEnv) wantFault(what string, err error, code fault.Code, effect fault.Effect, words ...string) {
	b.Helper()
	f := fault.Find(err)
	if f == nil || f.Code != code || f.Effect != effect {
		b.Errorf("%s: got %v, want %s and the effect %d", what, err, code, effect)
		return
	}
	for _, w := range words {
		if !strings.Contains(f.Reason, w) {
			b.Errorf("%s: got %q, want it to say %q", what, f.Reason, w)
		}
	}
}

func (b *testEnv) wantAudit(action, actor string, want int) {
	b.Helper()
	if n := b.queryCount(
		`SELECT count(*) FROM audit_log WHERE action = $1 AND actor_kind = $2`, action, actor,
	); n != want {
		b.Errorf("got %d rows of %s by %s, want %d", n, action, actor, want)
	}
}

func TestAnOperatorRaisesAFeeWithinTheCap(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	_, err := b.worker.BumpFee(b.ctx, "wd_0", dispatch.AnyVersion, operatorActor)
	b.wantFault("an unknown order", err, fault.CodeNotFound, fault.NothingWritten)
	b.submitOrder(b.newOrder("wd_1", to, 400))
	_, err = b.worker.BumpFee(b.ctx, "wd_1", dispatch.AnyVersion, operatorActor)
	b.wantFault(
		"an order without a slot", err, fault.InvalidState, fault.NothingWritten, "nothing of it was signed or sent",
		"QUEUED",
	)
	b.runRounds()
	before := b.loadView("wd_1").Transactions[0].Fees
	fees, err := b.worker.BumpFee(b.ctx, "wd_1", dispatch.AnyVersion, operatorActor)
	b.must(err)
	if !before.FeeCap.Less(fees.FeeCap) {
		t.Errorf("got a fee of %v after %v, want more", fees.FeeCap, before.FeeCap)
	}
	_, err = b.worker.BumpFee(b.ctx, "wd_1", dispatch.AnyVersion, operatorActor)
	b.wantFault("before the first is signed", err, fault.InvalidState, fault.NothingWritten, "not signed yet")
	b.clock.advance(time.Second)
	b.runRounds()
	_, err = b.worker.BumpFee(b.ctx, "wd_1", 1, operatorActor)
	b.wantFault("for the first transaction", err, fault.InvalidState, fault.NothingWritten, "changed in the meantime")
	b.wantAudit("order.replaced", "OPERATOR", 1)
	for range 200 {
		if _, err = b.worker.BumpFee(b.ctx, "wd_1", dispatch.AnyVersion, operatorActor); err != nil {
			break
		}
		b.runRounds()
	}
	b.wantFault("at the cap", err, fault.InvalidState, fault.TransactionKept, "fee_cap")
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots`); n != 1 {
		t.Errorf("got %d slots, want 1", n)
	}
	b.clock.advance(20 * time.Second)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(to, 400)
	b.checkBooks(b.treasury)
	_, err = b.worker.BumpFee(b.ctx, "wd_1", dispatch.AnyVersion, operatorActor)
	b.wantFault("a paid order", err, fault.InvalidState, fault.NothingWritten, "PAID")
}

// A slot that was never signed gets a cancel, and its payment is not signed any more.
func TestACancelBeforeTheFirstSignatureLeavesNoPayment(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	to := sim.Address("customer")
	b.bringToSlot(b.newOrder("wd_1", to, 400))
	for range 2 { // requested twice, made once
		if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", operatorActor); err != nil || !ok {
			t.Fatalf("cancel: got %v %v, want true", ok, err)
		}
	}
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Failed)
	if got, want := strings.Join(b.feature.lines, "; "), "ended wd_1 paid=false cancelled=true"; got != want {
		t.Errorf("the feature heard %q, want %q", got, want)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE raw IS NOT NULL`); n != 1 {
		t.Errorf("got %d signed transactions, want the cancel alone", n)
	}
	b.wantAudit("order.replaced", "OPERATOR", 1)
	b.wantReceived(to, 0)
	b.checkBooks(b.treasury)
	if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", operatorActor); ok || err != nil {
		t.Errorf("cancel of what has ended: got %v %v, want false", ok, err)
	}
}

// skewedReader is a chain that returns other balances in one block.
type skewedReader struct {
	chain.Reader
	height        uint64
	payer         chain.Address
	kept, missing uint64 // parts of the amount: kept by the payer, missing at the payee
}

func (w *skewedReader) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	got, err := w.Reader.Balances(ctx, at, of)
	if err != nil || at.Height != w.height {
		return got, err
	}
	for i, h := range of {
		if h.Address == w.payer {
			got[i], err = got[i].Add(money.Units(w.kept))
		} else {
			got[i], err = got[i].Sub(money.Units(w.missing))
		}
	}
	return got, err
}

// Rule WD-9: a stuck order ends by what its block's balances prove, or not at all.
func TestAStuckOrderEndsByTheBalancesOfItsBlock(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		kept, missing uint64
		short         bool
		want          dispatch.Status
		words         string
	}{
		"all of it moved":                    {0, 0, false, dispatch.Paid, ""},
		"nothing moved":                      {400, 400, false, dispatch.Failed, ""},
		"less arrived":                       {0, 8, false, dispatch.Stuck, "--short"},
		"less arrived and a person takes it": {0, 8, true, dispatch.Paid, ""},
		"less left":                          {8, 8, true, dispatch.Stuck, "took 392"},
		"it left and nothing arrived":        {0, 400, false, dispatch.Stuck, "the payee received 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, openPolicy())
			b.fundWallet(b.treasury, coin, 1000)
			on := b.chain.ToChain()
			reader := &skewedReader{Reader: on.Reader, payer: b.treasury.Address, kept: c.kept, missing: c.missing}
			on.Sender, on.Reader = silentToken{on.Sender}, reader
			b.worker = dispatch.New(b.db, on, b.signer, journal.RecordEntry,
				map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
				dispatch.Config{}, slog.New(slog.DiscardHandler))
			to := sim.Address("customer")
			b.submitOrder(b.newOrder("wd_0", to, 50)) // moves the same token in the same block
			b.submitOrder(b.newOrder("wd_1", to, 400))
			_, err := b.worker.ResolveStuck(b.ctx, "wd_1", operatorActor, false)
			b.wantFault("before it has a slot", err, fault.InvalidState, fault.NothingWritten)
			b.runRounds()
			_, err = b.worker.ResolveStuck(b.ctx, "wd_1", operatorActor, false)
			b.wantFault("before it is stuck", err, fault.InvalidState, fault.NothingWritten, "BROADCAST")
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Stuck)
			_, err = b.worker.BumpFee(b.ctx, "wd_1", dispatch.AnyVersion, operatorActor)
			b.wantFault("a bump", err, fault.InvalidState, fault.StillStuck, "STUCK")
			if f := fault.Find(err); f.Step != fault.ResolveOrder || f.Subject != "wd_1" {
				t.Errorf("a bump: got the step %v of %q, want to resolve the order", f.Step, f.Subject)
			}
			reader.height = uint64(b.queryCount(
				`SELECT p.height FROM dispatch_orders JOIN finality_proofs p USING (proof_id) WHERE order_id = 'wd_1'`,
			))

			b.chain.Provider(0).Prune(true)
			_, err = b.worker.ResolveStuck(b.ctx, "wd_1", operatorActor, c.short)
			b.wantFault("without old state", err, fault.CodeUnavailable, fault.StillStuck)
			b.wantStatus("wd_1", dispatch.Stuck)
			b.chain.Provider(0).Prune(false)

			got, err := b.worker.ResolveStuck(b.ctx, "wd_1", operatorActor, c.short)
			b.wantStatus("wd_1", c.want)
			if c.want == dispatch.Stuck {
				b.wantFault("resolve", err, fault.InvalidState, fault.Stated, "stays held", c.words)
			} else if err != nil || got != c.want {
				t.Fatalf("got %v %v, want %v", got, err, c.want)
			}
			f := b.funds(b.treasury, usdc)
			want := map[dispatch.Status][2]uint64{
				dispatch.Paid: {50, 400}, dispatch.Failed: {50, 0}, dispatch.Stuck: {450, 0},
			}[c.want]
			if f.Reserved != money.Units(want[0]) || f.Swept != money.Units(want[1]) {
				t.Errorf("got %v reserved and %v gone, want %v", f.Reserved, f.Swept, want)
			}
			fees := map[bool]int{true: 0, false: 2}[c.want == dispatch.Stuck]
			if n := b.queryCount(
				`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = 'wd_1'`,
			); n != fees {
				t.Errorf("got %d postings of the fee, want %d", n, fees)
			}
			b.wantAudit("order.resolved", "OPERATOR", map[bool]int{true: 0, false: 1}[c.want == dispatch.Stuck])
			if c.want != dispatch.Stuck {
				_, err = b.worker.ResolveStuck(b.ctx, "wd_1", operatorActor, c.short)
				b.wantFault("a second time", err, fault.InvalidState, fault.NothingWritten, string(c.want))
			}
		})
	}
}

func TestTheListSaysWhatEachOrderWaitsFor(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 500)
	to := sim.Address("customer")
	b.submitOrder(b.newOrder("wd_1", to, 100))
	b.runRounds()
	b.clock.advance(time.Second)
	b.chain.Provider(0).RefuseSend("the node is busy")
	b.submitOrder(b.newOrder("wd_2", to, 100))
	b.runRounds()
	b.chain.Provider(0).RefuseSend("")
	b.submitOrder(b.newOrder("wd_4", to, 5000))
	b.runRounds()
	b.bringToSlot(b.newOrder("wd_3", to, 100))
	list := func(limit int) (open []dispatch.OrderView, more bool) {
		t.Helper()
		b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			open, more, err = dispatch.ListOpen(ctx, tx, limit)
			return err
		}))
		return open, more
	}
	got, more := list(10)
	want := []struct{ id, waits string }{
		{"wd_1", "a final block"},
		{"wd_2", "a provider that accepts it: the node is busy"},
		{"wd_3", "a signature"},
		{"wd_4", "funds on its wallet"},
	}
	if more || len(got) != len(want) {
		t.Fatalf("got %d orders and more %v, want %d", len(got), more, len(want))
	}
	for i, w := range want {
		s := got[i]
		if s.ID != w.id || !strings.HasPrefix(s.DescribeWait(), w.waits) {
			t.Errorf("got %s waiting for %q, want %s for %q", s.ID, s.DescribeWait(), w.id, w.waits)
		}
		if slotted := i < 3; (s.ChainSlot != nil) != slotted || slotted &&
			(*s.ChainSlot != chain.Slot{Nonce: uint64(i)} || len(s.Transactions) != 1) {
			t.Errorf("%s: got nonce %v and %d transactions, want nonce %d", s.ID, s.ChainSlot, len(s.Transactions), i)
		}
		if signed := i < 2; (s.Hash != "") != signed {
			t.Errorf("%s: got hash %q, want one %v", s.ID, s.Hash, signed)
		}
	}
	if got, more := list(2); !more || len(got) != 2 {
		t.Errorf("got %d and more %v, want 2 and that there are more", len(got), more)
	}
	err := b.db.ReadSystem(
		b.ctx, func(ctx context.Context, tx pg.Tx) error { _, err := dispatch.LoadView(ctx, tx, "wd_9"); return err },
	)
	b.wantFault("an unknown order", err, fault.CodeNotFound, fault.NothingWritten)
}

// Rule WD-43. If the providers do not answer for a sent payment, those behind it wait for the
// chain, so that people can end them.
func TestWhatIsBehindAPaymentThatIsOutWaitsForTheChainToo(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("first"), 400))
	b.runRounds()
	b.submitOrder(b.newOrder("wd_2", sim.Address("second"), 400))
	b.chain.Provider(0).SetDown(errors.New("no route"))
	if _, err := b.worker.RunRound(b.ctx); err == nil {
		t.Error("a round without providers: got no error")
	}
	if s := b.loadView("wd_2"); s.WaitingFor != dispatch.WaitProviders || !strings.Contains(s.LastError, "no route") {
		t.Errorf("got %q because of %q, want it to wait for the chain", s.WaitingFor, s.LastError)
	}
	if s := b.loadView("wd_1"); s.Status != dispatch.Broadcast {
		t.Errorf("got %s, want what is out to be out", s.Status)
	}
	b.chain.Provider(0).SetDown(nil)
	b.clock.advance(time.Minute)
	b.runRounds()
	if s := b.loadView("wd_2"); s.Status != dispatch.Broadcast {
		t.Errorf("once they answer: got %s, waiting for %q", s.Status, s.WaitingFor)
	}
}

// silentVoidSigner is a signer that does not answer a void.
type silentVoidSigner struct{ signer.Signer }

func (silentVoidSigner) VoidIntent(context.Context, signer.Void) (signer.Entry, error) {
	return signer.Entry{}, errors.New("connection refused")
}

// Rule WD-43. While the signer does not answer, a person who ends an order learns that its amount
// is still held. A repeated call voids it, and the amount is released once.
func TestAnOrderThatIsNotVoidYetIsEndedByAskingAgain(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	answering := b.worker
	b.newWorkerWith(silentVoidSigner{b.signer}, dispatch.Config{})
	for range 2 {
		_, err := b.worker.CancelOrder(b.ctx, "wd_1", operatorActor)
		b.wantFault("a signer that is silent", err, fault.CodeUnavailable, fault.Stated)
		if s := b.loadView("wd_1"); s.Status != dispatch.Recalled || !s.VoidPending ||
			!strings.Contains(s.DescribeWait(), "held") {
			t.Errorf(
				"got %s, open %v, waiting for %q, want it withdrawn and held", s.Status, s.VoidPending,
				s.DescribeWait(),
			)
		}
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			open, _, err := dispatch.ListOpen(ctx, tx, 10)
			if len(open) != 1 || open[0].ID != "wd_1" {
				t.Errorf("got %d open orders, want the one that is held", len(open))
			}
			return err
		})
	}
	b.worker = answering
	if ok, err := b.worker.CancelOrder(b.ctx, "wd_1", operatorActor); err != nil || !ok {
		t.Fatalf("asked again: got %v %v, want it ended", ok, err)
	}
	if s := b.loadView("wd_1"); s.VoidPending || s.DescribeWait() != "nothing" {
		t.Errorf("got open %v, waiting for %q, want it void", s.VoidPending, s.DescribeWait())
	}
	if ok, _ := b.worker.CancelOrder(b.ctx, "wd_1", operatorActor); ok {
		t.Error("once void: got true, want nothing done")
	}
	if got, want := strings.Join(b.feature.lines, "; "), "withdrawn wd_1 by op; voided wd_1"; got != want {
		t.Errorf("the feature heard %q, want %q", got, want)
	}
	if n := b.queryCount(
		`SELECT count(*) FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = 'wd_1'`,
	); n != 1 {
		t.Errorf("got %d releases, want one", n)
	}
	b.wantAudit("order.withdrawn", "OPERATOR", 1)
}

// An order that gets its slot first is not ended, and one that ends first gets no slot.
func TestEndingAnOrderAndItsSlotAtOnce(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 100_000)
	for i := range 16 {
		id := fmt.Sprintf("wd_%d", i)
		b.submitOrder(b.newOrder(id, sim.Address(id), 100))
		var wg sync.WaitGroup
		var ended bool
		wg.Go(func() {
			if _, err := b.worker.RunRound(b.ctx); err != nil {
				t.Errorf("round: %v", err)
			}
		})
		wg.Go(func() {
			var err error
			if ended, err = b.worker.CancelOrder(b.ctx, id, operatorActor); err != nil && fault.Find(err) == nil {
				t.Errorf("end: %v", err)
			}
		})
		wg.Wait()
		status, _ := b.orderStatus(id)
		slotted := b.queryCount(`SELECT count(*) FROM dispatch_slots WHERE order_id = $1`, id) == 1
		if slotted == (status == dispatch.Recalled) || !slotted && !ended {
			t.Fatalf("order %s is %s, slotted %v, ended %v", id, status, slotted, ended)
		}
		b.runRounds()
		b.mineAndProve(6)
		b.runRounds()
		b.clock.advance(20 * time.Second)
	}
}
