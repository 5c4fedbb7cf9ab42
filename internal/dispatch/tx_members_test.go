package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/wallet"
)

// rowSigner has its signer admit customers' payments as rows of one batch. The simulated chain lets any payments share
// a transaction, as Bitcoin does, and has the name of Solana, where a signer signs only rows together.
type rowSigner struct{ signer.Signer }

func (s rowSigner) AdmitIntent(ctx context.Context, i signer.Intent) (signer.Entry, error) {
	return s.Signer.AdmitIntent(ctx, asRow(i))
}

// rowsTo returns a signer for a Worker of the env.
func (b *testEnv) rowsTo(s signer.Signer) signer.Signer {
	if b.asRows {
		return rowSigner{s}
	}
	return s
}

// asRow returns a customer's payment as a row of a batch.
func asRow(i signer.Intent) signer.Intent {
	if i.Purpose == signer.Payment {
		i.CustomerID, i.Product, i.Batch = "", signer.BatchProduct, &signer.BatchRow{BatchID: "pb_1", Row: 1}
	}
	return i
}

// newGroupEnv makes a testEnv on a chain whose transactions make several payments.
func newGroupEnv(t *testing.T) *testEnv {
	t.Helper()
	b := newTestEnvOn(t, signpolicy.Chain{
		SignerID: string(sim.SolanaAddress("network")), FeeMax: money.Units(coin), GasMax: money.Units(coin),
		Unlimited: true,
	}, sim.Config{Name: chain.Solana, PaymentsPerTx: 8})
	b.asRows = true
	b.newWorker(dispatch.Config{})
	// These tests are about slots. Which payments may share one is in TestOnlyRowsOfOneBatchInOneTokenShareASlot.
	owner := pgtest.Superuser(t, b.db)
	for _, trigger := range []string{"dispatch_orders_tx_of_batch", "dispatch_orders_tx_of_batch_begin"} {
		if _, err := owner.Exec(t.Context(), `ALTER TABLE dispatch_orders DISABLE TRIGGER `+trigger); err != nil {
			t.Fatal(err)
		}
	}
	if err := owner.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.fundWallet(b.treasury, coin, 1000)
	b.mineAndProve(4)
	return b
}

func payeeAddress(id string) chain.Address { return sim.SolanaAddress(id) }

// submitThree submits three payments that may share a transaction.
func (b *testEnv) submitThree() {
	b.Helper()
	for i, customer := range []string{"ann", "bob", "eve"} {
		o := b.newOrder(fmt.Sprintf("wd_%d", i+1), payeeAddress(fmt.Sprintf("wd_%d", i+1)), uint64(100*(i+1)))
		o.CustomerID = customer
		b.submitOrder(o)
	}
}

func (b *testEnv) wantAll(want dispatch.Status) {
	b.Helper()
	for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
		b.wantStatus(id, want)
	}
}

// wantPaidOnce expects that one slot made each of three payments, and that the books agree.
func (b *testEnv) wantPaidOnce(attempts int) {
	b.Helper()
	for i := range uint64(3) {
		b.wantReceived(payeeAddress(fmt.Sprintf("wd_%d", i+1)), 100*(i+1))
	}
	b.wantOneSlot(attempts)
}

// wantOneSlot expects one slot with this many transactions, and its fee divided.
func (b *testEnv) wantOneSlot(attempts int) {
	b.Helper()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_slots WHERE order_id = 'wd_1' AND orders = 3`); n != 1 ||
		b.queryCount(`SELECT count(*) FROM dispatch_slots`) != 1 {
		b.Errorf("got %d slots of three led by wd_1, want that one alone", n)
	}
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts`); n != attempts {
		b.Errorf("got %d transactions, want %d", n, attempts)
	}
	if n := b.queryCount(
		`SELECT count(*) FROM dispatch_orders l JOIN dispatch_orders r ON r.tx_lead_id = l.order_id AND r.tx_hash = l.tx_hash AND r.fee <= l.fee AND l.fee < r.fee + 3`,
	); n != 2 {
		b.Errorf("got %d orders that share their lead's transaction and its fee evenly, want 2", n)
	}
	b.checkBooks(b.treasury)
}

func TestOrdersShareASlotAndEndTogether(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.submitThree()
	b.runRounds()
	b.wantAll(dispatch.Broadcast)
	if f := b.funds(b.treasury, usdc); f.Reserved != money.Units(600) {
		t.Errorf("reserved while they are out: got %v, want 600", f.Reserved)
	}
	b.mineAndProve(1)
	b.runRounds()
	b.wantAll(dispatch.Broadcast)
	b.mineAndProve(5)
	b.runRounds()
	b.wantAll(dispatch.Paid)
	b.wantPaidOnce(1)
	for _, sql := range []string{
		`UPDATE dispatch_orders SET tx_lead_id = NULL WHERE order_id = 'wd_2'`,
		`UPDATE dispatch_slots SET orders = 2`,
	} {
		if _, err := pgtest.OwnerPool(t, b.db).Exec(b.ctx, sql); !pg.ViolatesConstraint(
			err, "dispatch_orders_tx_lead_fixed",
		) && !pg.ViolatesConstraint(err, "dispatch_slots_orders_fixed") {
			t.Errorf("%s: got %v, want a refusal", sql, err)
		}
	}
}

// Of several payments that are due, one transaction makes those that the wallet has the amounts for.
// The others wait for funds, which a sweep brings. What the chain has and the books have not, as a
// deposit that is not credited, pays nothing.
func TestOneThatTheWalletLacksHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.chain.Mint(b.treasury.Address, b.token, money.Units(500))
	b.mineAndProve(1)
	for i, units := range []uint64{400, 300, 350} {
		id := fmt.Sprintf("wd_%d", i+1)
		b.submitOrder(b.newOrder(id, payeeAddress(id), units))
	}
	for range 2 {
		b.runRounds()
		b.clock.advance(time.Minute)
	}
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.wantStatus("wd_2", dispatch.Broadcast)
	b.wantWait("wd_3", dispatch.WaitFunds)
	if n := b.queryCount(`SELECT missing_amount FROM dispatch_orders WHERE order_id = 'wd_3'`); n != 50 {
		t.Errorf("wd_3 lacks %d, want 50", n)
	}
	b.fundWallet(b.treasury, 0, 50)
	b.clock.advance(time.Minute)
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Paid)
}

func TestOneThatWouldRevertHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.chain.RefuseTransfers(b.token, payeeAddress("wd_2"), "blacklisted")
	b.submitThree()
	b.runRounds()
	b.wantStatus("wd_2", dispatch.Refused)
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_3", dispatch.Paid)
	b.wantReceived(payeeAddress("wd_2"), 0)
	b.checkBooks(b.treasury)
}

func TestWhoIsFrozenBeforeTheSlotWaitsAlone(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.putFreeze(freeze.Freeze{
		Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "bob", Source: freeze.SourceOperator,
	})
	b.submitThree()
	b.runRounds()
	b.wantStatus("wd_2", dispatch.Queued)
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantStatus("wd_3", dispatch.Paid)
	b.wantStatus("wd_2", dispatch.Queued)
}

// lossySigner is a signer whose answer is lost.
type lossySigner struct {
	signer.Signer
	lost bool
}

func (s *lossySigner) Sign(ctx context.Context, r signer.SignRequest) (signer.SignedTx, error) {
	signed, err := s.Signer.Sign(ctx, r)
	if s.lost && err == nil {
		return signer.SignedTx{}, errors.New("connection reset")
	}
	return signed, err
}

func TestASlotOfSeveralSurvivesEveryStep(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.submitThree()
	s := &lossySigner{Signer: b.signer, lost: true}
	b.newWorkerWith(s, dispatch.Config{})
	for range 3 {
		_, _ = b.worker.RunRound(b.ctx) // the slot is there, and the journal has a signature that the database lacks
		b.wantAll(dispatch.Slotted)
	}
	b.putFreeze(freeze.Freeze{
		Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "bob", Source: freeze.SourceOperator,
	}) // too late
	b.chain.Provider(0).LoseAnswers(true)
	b.newWorker(dispatch.Config{})
	b.runRounds()
	b.wantAll(dispatch.Signed)
	b.chain.Provider(0).LoseAnswers(false)
	b.clock.advance(20 * time.Second)
	b.newWorker(dispatch.Config{})
	b.runRounds()
	b.wantAll(dispatch.Broadcast)
	b.mineAndProve(6)
	b.newWorker(dispatch.Config{})
	b.runRounds()
	b.wantAll(dispatch.Paid)
	b.wantPaidOnce(1)
}

func TestAReplacementPaysTheSameAndACancelNobody(t *testing.T) {
	t.Parallel()
	for _, act := range []signer.Act{signer.Pay, signer.Cancel} {
		t.Run(string(act), func(t *testing.T) {
			t.Parallel()
			b := newGroupEnv(t)
			b.submitThree()
			b.runRounds()
			b.chain.MineEmpty(1)
			b.clock.advance(time.Minute)
			if act == signer.Cancel {
				if ok, err := b.worker.CancelOrder(b.ctx, "wd_2", audit.Operator("test")); !ok || err != nil {
					t.Fatalf("got %v, %v, want a cancel", ok, err)
				}
			}
			b.runRounds()
			b.mineAndProve(6)
			b.runRounds()
			if act == signer.Pay {
				b.wantAll(dispatch.Paid)
				b.wantPaidOnce(2)
				return
			}
			b.wantAll(dispatch.Failed)
			for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
				b.wantReceived(payeeAddress(id), 0)
			}
			b.wantOneSlot(2)
		})
	}
}

func TestAForkTakesAllOfASlotAndGivesThemBack(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.submitThree()
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Paid)
	b.reorgAway(false)
	b.runRounds()
	if n := len(b.chain.Mempool()); n != 1 {
		t.Fatalf("the pool has %d transactions, want the same one again", n)
	}
	b.clock.advance(time.Minute)
	b.mineAgain(8)
	b.clock.advance(time.Minute)
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_reorged`); n != 0 {
		t.Errorf("got %d orders in question, want none", n)
	}
	b.wantAll(dispatch.Paid)
	b.wantPaidOnce(1)
}

// A contradiction on the chain makes all orders of its slot stuck. Each is decided separately: by
// the balances of its block, or by a person.
func TestEachOfASlotThatIsStuckIsDecidedByItself(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	on := b.chain.ToChain()
	on.Sender = silentToken{on.Sender}
	listeners := map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}
	b.worker = dispatch.New(
		b.db, on, b.rowsTo(b.signer), journal.RecordEntry, listeners, dispatch.Config{}, slog.New(slog.DiscardHandler),
	)
	b.submitThree()
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Stuck)
	b.must(dispatch.DecideStuck(b.ctx, b.db, listeners, "wd_2", true, operatorActor, "seen on the chain"))
	b.wantStatus("wd_2", dispatch.Paid)
	b.wantStatus("wd_1", dispatch.Stuck)
	for _, id := range []string{"wd_3", "wd_1"} {
		if got, err := b.worker.ResolveStuck(b.ctx, id, operatorActor, false); err != nil || got != dispatch.Paid {
			t.Fatalf("resolve %s: got %v, %v, want it paid", id, got, err)
		}
	}
	b.wantPaidOnce(1)
}

// sweepListener posts nothing for a sweep, as its feature does.
type sweepListener struct{ *recordingListener }

func (sweepListener) OnEnded(context.Context, pg.Tx, dispatch.Order, dispatch.End) ([]ledger.Posting, error) {
	return nil, nil
}

// submitSweeps submits three sweeps and returns their deposit wallets.
func (b *testEnv) submitSweeps() (from []wallet.Wallet) {
	b.Helper()
	b.newSweepWorker(b.signer)
	for i, customer := range []string{"ann", "bob", "eve"} {
		w, err := b.book.Address(b.ctx, signer.WalletRef{
			OrgID: b.org, Family: chain.SolanaFamily, Purpose: wallet.CustomerDeposit, Subject: customer,
		})
		b.must(err)
		b.fundWallet(w, 0, uint64(100*(i+1)))
		o := dispatch.Order{
			ID: fmt.Sprintf("wd_%d", i+1), OrgID: b.org, Purpose: signer.Sweep, Chain: b.name, WalletID: b.treasury.ID,
			FromWalletID: w.ID, ToWalletID: b.treasury.ID, To: b.treasury.Address, MintID: usdc, Contract: b.token,
			Amount: money.Units(uint64(100 * (i + 1))), Trigger: dispatch.TriggerValue,
		}
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			if err := dispatch.Submit(ctx, tx, o); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, `INSERT INTO internal_orders (order_id, org_id, purpose, trigger) VALUES ($1, $2, $3, $4)`,
				o.ID, o.OrgID, o.Purpose, o.Trigger)
			if err != nil {
				return err
			}
			return wallet.MoveFunds(ctx, tx, wallet.Movement{
				WalletID: w.ID, OrgID: b.org, MintID: usdc, Part: wallet.Reserved, Plus: o.Amount,
			})
		})
		from = append(from, w)
	}
	return from
}

func (b *testEnv) newSweepWorker(s signer.Signer) {
	b.worker = dispatch.New(b.db, b.chain.ToChain(), s, journal.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Sweep: sweepListener{b.feature}},
		dispatch.Config{}, slog.New(slog.DiscardHandler))
}

// One transaction, paid by the treasury, sweeps several deposit addresses.
func TestSweepsOfSeveralAddressesAreOneTransaction(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	b.submitSweeps()
	b.runRounds()
	b.wantAll(dispatch.Broadcast)
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Paid)
	b.wantOneSlot(1)
	if got := b.chain.Balance(b.treasury.Address, b.token); got != money.Units(1600) {
		t.Errorf("the treasury has %v, want 1600", got)
	}
}

// Rule WD-39. The transaction takes from each of the addresses.
func TestAFreezeOfAnyAddressInASlotStopsItsTransaction(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	from := b.submitSweeps()
	b.newSweepWorker(&lossySigner{Signer: b.signer, lost: true})
	_, _ = b.worker.RunRound(b.ctx)
	b.wantAll(dispatch.Slotted)
	b.newSweepWorker(b.signer)
	frozen := freeze.Freeze{
		Scope: freeze.ScopeWallet, OrgID: b.org, WalletID: from[2].ID, Chain: b.name, Source: freeze.SourceOperator,
	}
	b.putFreeze(frozen)
	for range 2 {
		b.runRounds()
		b.clock.advance(time.Minute)
	}
	b.wantAll(dispatch.Slotted)
	if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE raw IS NOT NULL`); n != 0 {
		t.Error("it was signed")
	}
	b.liftFreezes()
	b.chain.Provider(0).RefuseSend("too many requests")
	_, _ = b.worker.RunRound(b.ctx)
	b.wantAll(dispatch.Signed)
	b.chain.Provider(0).RefuseSend("")
	b.putFreeze(frozen)
	for range 2 {
		b.runRounds()
		b.clock.advance(time.Minute)
	}
	b.wantAll(dispatch.Signed)
	if n := len(b.chain.Mempool()); n != 0 {
		t.Error("it was sent")
	}
	b.liftFreezes()
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantAll(dispatch.Paid)
	if got := b.chain.Balance(b.treasury.Address, b.token); got != money.Units(1600) {
		t.Errorf("the treasury has %v, want 1600", got)
	}
}

// Rule WD-40. A customer's fee limit is compared with the highest possible share of the fee. An
// order above its limit goes alone, and is refused if that costs more still.
func TestACustomersLimitOnTheFeeIsComparedWithTheShare(t *testing.T) {
	t.Parallel()
	b := newGroupEnv(t)
	var ps []chain.Payment
	for _, id := range []string{"wd_1", "wd_2", "wd_3"} {
		ps = append(ps, chain.Payment{
			From: b.treasury.Address, To: payeeAddress(id), Contract: b.token, Amount: money.Units(100),
		})
	}
	fees, err := b.chain.ToChain().Sender.Quote(b.ctx, ps...)
	b.must(err)
	whole, err := fees.Max()
	b.must(err)
	part := signer.MaxFeeShare(whole, len(ps))
	less, err := part.Sub(money.Units(1))
	b.must(err)
	for name, c := range map[string]struct {
		most money.Amount
		want dispatch.Status
		with int
	}{"enough": {part, dispatch.Broadcast, 3}, "one too few": {less, dispatch.Refused, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newGroupEnv(t)
			for i, id := range []string{"wd_1", "wd_2", "wd_3"} {
				o := b.newOrder(id, payeeAddress(id), 100)
				if i == 1 {
					o.FeeMax = &c.most
				}
				b.submitOrder(o)
			}
			b.runRounds()
			b.wantStatus("wd_2", c.want)
			b.wantStatus("wd_1", dispatch.Broadcast)
			b.wantStatus("wd_3", dispatch.Broadcast)
			if n := b.queryCount(`SELECT max(orders) FROM dispatch_slots`); c.want == dispatch.Broadcast &&
				n != c.with {
				t.Errorf("got %d orders in a slot, want %d", n, c.with)
			}
			b.mineAndProve(6)
			b.runRounds()
			if n := b.queryCount(
				`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID' AND fee > $1 AND order_id = 'wd_2'`, c.most,
			); n != 0 {
				t.Errorf("wd_2 has cost more than the %v that it allows", c.most)
			}
		})
	}
}
