package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// newSettledEnv makes a testEnv in which payments of 400 and 100, eve's and bob's, ended as paid.
// Everything proven since is about to be taken back.
func newSettledEnv(t *testing.T) *testEnv {
	t.Helper()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.mineAndProve(4)
	for _, p := range []struct {
		id, customer string
		units        uint64
	}{{"wd_1", "eve", 400}, {"wd_2", "bob", 100}} {
		o := b.newOrder(p.id, sim.Address(p.id), p.units)
		o.CustomerID = p.customer
		b.submitOrder(o)
		b.runRounds() // one after the other, so that their nonces are in this order
	}
	return b
}

// reorgAway breaks finality below everything that ended. The new fork has none of it, unless keep
// says that it is in the mempool again.
func (b *testEnv) reorgAway(keep bool) {
	b.Helper()
	latest := b.chain.Latest().Height
	var dropped []chain.TxHash
	if !keep {
		for h := uint64(4); h <= latest; h++ {
			for _, m := range b.chain.BlockAt(h).Transfers {
				dropped = append(dropped, m.Tx)
			}
		}
	}
	tip := b.chain.BlockAt(b.proven)
	b.chain.Fork(int(latest-4), dropped...)
	at := b.chain.BlockAt(4)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
			SELECT $6, coalesce(max(fork), 0) + 1, $1, $2, $3, $4, $3, 'test', 'op', $5 FROM finality_breaks`,
			at.Height, at.Hash, tip.Height, tip.Hash, tx.Now, b.name)
		return err
	})
	b.proven = at.Height
	b.clock.advance(time.Minute)
}

// mineAgain mines and proves blocks on the chosen fork.
func (b *testEnv) mineAgain(n int) {
	b.Helper()
	b.chain.Mine(n)
	heads, err := b.chain.Heads(b.ctx)
	b.must(err)
	for ; b.proven < heads.Final.Height; b.proven++ {
		c, err := b.chain.Final(b.ctx, b.proven+1)
		b.must(err)
		b.inSystem(func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx,
				`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, fork)
				SELECT $5, $1, $2, $3, $4, 1, 'sim', $4, coalesce(max(fork), 0) FROM finality_breaks`,
				c.Height, c.Hash, c.Parent, tx.Now, b.name)
			return err
		})
	}
	b.clock.advance(time.Minute)
}

func (b *testEnv) wantReorged(want int) {
	b.Helper()
	if n := b.queryCount(`SELECT count(*) FROM dispatch_reorged`); n != want {
		b.Errorf("got %d orders in question, want %d", n, want)
	}
}

func (b *testEnv) wantWaiting(id string, want dispatch.WaitReason) {
	b.Helper()
	if _, waits := b.orderStatus(id); waits != string(want) {
		b.Errorf("order %s: got it waiting for %q, want %q", id, waits, want)
	}
}

// endHashes returns the transactions that ended the two payments, by nonce.
func (b *testEnv) endHashes() (ended []chain.TxHash) {
	b.Helper()
	b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx, `SELECT array_agg(tx_hash ORDER BY order_id) FROM dispatch_orders WHERE status IN ('PAID', 'FAILED')`,
		).Scan(&ended)
	}))
	return ended
}

func (b *testEnv) putFreeze(f freeze.Freeze) {
	b.Helper()
	f.Reason = "test"
	b.inSystem(func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
}

func (b *testEnv) liftFreezes() {
	b.Helper()
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.List(ctx, tx)
		for _, f := range all {
			if err == nil {
				err = freeze.Lift(ctx, tx, f.ID, audit.Operator("op"))
			}
		}
		return err
	})
	b.clock.advance(time.Minute)
}

// Rule WD-18.
func TestWhatABrokenFinalityTookBackGoesOutAgainAsTheSameBytes(t *testing.T) {
	t.Parallel()
	for name, baseFee := range map[string]uint64{
		"at the same fee": 1_000_000_000, "cheaper": 500_000_000, "dearer": 1_700_000_000,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newSettledEnv(t)
			b.mineAndProve(6)
			b.runRounds()
			b.checkBooks(b.treasury)
			was, said := b.endHashes(), fmt.Sprint(b.feature.lines)
			b.putFreeze(freeze.Freeze{Scope: freeze.ScopeChain, Chain: chain.Ethereum, Source: freeze.SourceFinality})
			b.submitOrder(b.newOrder("wd_3", sim.Address("wd_3"), 50))
			b.reorgAway(false)
			b.runRounds()
			b.wantReorged(2)
			b.wantWaiting("wd_1", dispatch.WaitFreeze)
			if n := len(b.chain.Mempool()); n != 0 {
				t.Fatalf("got %d sent while the chain is frozen, want none", n)
			}
			b.liftFreezes()
			b.runRounds()
			if got := b.chain.Mempool(); fmt.Sprint(got) != fmt.Sprint(was) {
				t.Fatalf("got %v sent, want %v", got, was)
			}
			if s, _ := b.orderStatus("wd_3"); s != dispatch.Queued {
				t.Errorf("got %s, want a new payment to wait for the earlier nonces", s)
			}
			b.chain.SetBaseFee(baseFee)
			b.mineAgain(1)
			b.runRounds()
			b.wantReorged(2) // in a block, not final
			b.mineAgain(6)
			b.runRounds()
			b.wantReorged(0)
			if fmt.Sprint(b.feature.lines) != said &&
				fmt.Sprint(b.feature.lines) != said[:len(said)-1]+" broadcast wd_3]" {
				t.Errorf("the feature heard %v, want nothing more than %s", b.feature.lines, said)
			}
			b.clock.advance(time.Minute)
			b.runRounds()
			b.mineAgain(6)
			b.runRounds()
			b.wantStatus("wd_3", dispatch.Paid)
			for id, units := range map[string]uint64{"wd_1": 400, "wd_2": 100, "wd_3": 50} {
				b.wantReceived(sim.Address(id), units)
			}
			b.checkBooks(b.treasury)
			want := 2 * 3
			if baseFee != 1_000_000_000 {
				want += 2 * 2
			}
			if n := b.queryCount(
				`SELECT count(*) FROM ledger_transfers WHERE cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE')`,
			); n != want {
				t.Errorf("got %d postings of fees, want %d", n, want)
			}
			if n := b.queryCount(`SELECT sum(CASE a.kind WHEN 'GAS' THEN t.amount ELSE -t.amount END) - (SELECT sum(fee) FROM dispatch_orders)
				FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id = t.debit_account
				WHERE cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE') AND a.kind IN ('GAS', 'CUSTODY')`); n != 0 {
				t.Errorf("got %d posted beside the fees of the orders, want nothing", n)
			}
			if n := b.queryCount(`SELECT count(*) FROM dispatch_attempts WHERE order_id <> 'wd_3'`); n != 2 {
				t.Errorf("got %d transactions, want the same bytes each time", n)
			}
		})
	}
}

// Rule WD-19: the reorg may have removed the deposit that the payment was made of.
func TestAPaymentOfAFrozenCustomerIsNotSentAgain(t *testing.T) {
	t.Parallel()
	b := newSettledEnv(t)
	b.mineAndProve(6)
	b.runRounds()
	was := b.endHashes()
	b.reorgAway(false)
	b.putFreeze(freeze.Freeze{
		Scope: freeze.ScopeCustomer, OrgID: b.org, CustomerID: "eve", Source: freeze.SourceFinality,
	})
	for range 3 {
		b.runRounds()
		b.clock.advance(time.Minute)
	}
	if n := len(b.chain.Mempool()); n != 0 {
		t.Fatalf("got %d sent, want none", n)
	}
	b.wantWaiting("wd_1", dispatch.WaitFreeze)
	b.wantWaiting("wd_2", dispatch.WaitEarlierNonce)
	b.liftFreezes()
	b.runRounds()
	if got := b.chain.Mempool(); fmt.Sprint(got) != fmt.Sprint(was) {
		t.Errorf("got %v sent once the person let go, want %v", got, was)
	}
}

// Rule WD-18: no person has decided yet, and the blocks may come back.
func TestNothingIsSentAgainWhileAChainHasParted(t *testing.T) {
	t.Parallel()
	b := newSettledEnv(t)
	b.mineAndProve(6)
	b.runRounds()
	b.reorgAway(false)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(
			ctx,
			`INSERT INTO scan_cursors (chain, height, hash, updated_at, forked_above) VALUES ('ETHEREUM', 4, 'h', $1, 2)`,
			tx.Now,
		)
		return err
	})
	b.runRounds()
	if n := len(b.chain.Mempool()); n != 0 {
		t.Errorf("got %d sent, want none", n)
	}
	b.wantWaiting("wd_1", dispatch.WaitNone)
}

// Rule WD-20: another outcome than the one in the books is never settled.
func TestAnotherOutcomeAfterABreakIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		keep bool
		do   func(b *testEnv, versions [][]byte)
	}{
		"it reverts now": {
			true, func(b *testEnv, _ [][]byte) { b.chain.RefuseTransfers(b.token, sim.Address("wd_1"), "blacklisted") },
		},
		"another of its nonce":  {false, func(b *testEnv, v [][]byte) { b.chain.Send(b.ctx, v[0]) }},
		"somebody else's nonce": {false, func(b *testEnv, _ [][]byte) { b.chain.SubmitForeign(b.treasury.Address) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newTestEnv(t, openPolicy())
			b.fundWallet(b.treasury, coin, 1000)
			b.mineAndProve(4)
			b.submitOrder(b.newOrder("wd_1", sim.Address("wd_1"), 400))
			b.runRounds()
			b.clock.advance(2 * time.Minute)
			b.runRounds() // a second version, at a higher fee
			b.mineAndProve(6)
			b.runRounds()
			b.wantStatus("wd_1", dispatch.Paid)
			var versions [][]byte
			b.must(b.db.ReadSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
				return tx.QueryRow(ctx, `SELECT array_agg(raw ORDER BY version) FROM dispatch_attempts`).Scan(&versions)
			}))
			books := func() int {
				return b.queryCount(`SELECT count(*) + coalesce(sum(leg), 0) FROM ledger_transfers`) + b.queryCount(
					`SELECT sum(credited - swept) FROM address_funds`,
				)
			}
			b.submitOrder(b.newOrder("wd_2", sim.Address("wd_2"), 100))
			before, said := books(), fmt.Sprint(b.feature.lines)
			b.reorgAway(c.keep)
			c.do(b, versions)
			b.mineAgain(6)
			for range 3 {
				b.runRounds()
				b.clock.advance(time.Minute)
			}
			b.wantWaiting("wd_1", dispatch.WaitOperator)
			b.wantStatus("wd_2", dispatch.Queued)
			if n := b.queryCount(`SELECT count(*) FROM freezes WHERE scope = 'WALLET' AND lifted_at IS NULL`); n != 1 {
				t.Errorf("got %d freezes of its wallet, want one", n)
			}
			b.liftFreezes()
			b.runRounds()
			if n := b.queryCount(`SELECT count(*) FROM freezes WHERE lifted_at IS NULL`); n != 0 {
				t.Errorf("got %d freezes after a person lifted it, want none", n)
			}
			b.wantStatus("wd_1", dispatch.Paid)
			b.wantReorged(1)
			// The later payment goes on.
			said = said[:len(said)-1] + " broadcast wd_2]"
			if after := books(); after != before || fmt.Sprint(b.feature.lines) != said {
				t.Errorf("got the books at %d and %v, want %d and %s", after, b.feature.lines, before, said)
			}
		})
	}
}

// Rule WD-20: an amount that was released is not paid as well.
func TestAPaymentThatFailedIsNotSentAgainWhereItWouldPay(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.mineAndProve(4)
	b.submitOrder(b.newOrder("wd_1", sim.Address("wd_1"), 400))
	b.runRounds()
	b.chain.RefuseTransfers(b.token, sim.Address("wd_1"), "blacklisted")
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Failed)
	was := b.endHashes()
	b.reorgAway(false)
	b.chain.RefuseTransfers(b.token, sim.Address("wd_1"), "")
	for _, h := range was {
		b.chain.DropTx(h)
	}
	b.runRounds()
	if n := len(b.chain.Mempool()); n != 0 {
		t.Fatalf("got %d sent, want none", n)
	}
	b.wantWaiting("wd_1", dispatch.WaitSimulation)
	b.chain.RefuseTransfers(b.token, sim.Address("wd_1"), "blacklisted")
	b.clock.advance(time.Minute)
	b.runRounds()
	b.mineAgain(6)
	b.runRounds()
	b.wantReorged(0)
	b.wantReceived(sim.Address("wd_1"), 0)
	b.checkBooks(b.treasury)
}

// dyingSender is a chain that accepts bytes while the process ends before it gets the answer.
type dyingSender struct {
	chain.Sender
	die context.CancelFunc
}

func (d dyingSender) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	defer d.die()
	return d.Sender.Send(ctx, raw)
}

// Rule WD-18.
func TestACrashBetweenSendingAgainAndTheRowSendsNothingElse(t *testing.T) {
	t.Parallel()
	b := newSettledEnv(t)
	b.mineAndProve(6)
	b.runRounds()
	was := b.endHashes()
	b.reorgAway(false)
	ctx, die := context.WithCancel(b.ctx)
	on := b.chain.ToChain()
	on.Sender = dyingSender{on.Sender, die}
	dead := dispatch.New(
		b.db, on, b.signer, journal.RecordEntry, map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
		dispatch.Config{}, slog.New(slog.DiscardHandler),
	)
	if _, err := dead.RunRound(ctx); err == nil {
		t.Fatal("got no error, want the process to die")
	}
	if got := b.chain.Mempool(); fmt.Sprint(got) != fmt.Sprint(was[:1]) {
		t.Fatalf("got %v out, want %v", got, was[:1])
	}
	for range 2 {
		b.clock.advance(time.Minute)
		b.runRounds()
	}
	if got := b.chain.Mempool(); fmt.Sprint(got) != fmt.Sprint(was) {
		t.Errorf("got %v out, want %v", got, was)
	}
	b.chain.SetBaseFee(1_700_000_000)
	b.mineAgain(6)
	// Two processes at once: the higher fee is posted once.
	other := dispatch.New(
		b.db, b.chain.ToChain(), b.signer, journal.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature}, dispatch.Config{},
		slog.New(slog.DiscardHandler),
	)
	var wg sync.WaitGroup
	for _, d := range []*dispatch.Worker{b.worker, other} {
		wg.Go(func() {
			if _, err := d.RunRound(b.ctx); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	b.runRounds()
	b.wantReorged(0)
	b.checkBooks(b.treasury)
	if n := b.queryCount(`SELECT count(*) FROM ledger_transfers WHERE cause_id IN ('wd_1/1', 'wd_2/1')`); n != 4 {
		t.Errorf("got %d postings of what it has cost more, want 4", n)
	}
}

// Rule WD-18: finality breaks a second time, below the first break.
func TestASecondBreakAsksAgain(t *testing.T) {
	t.Parallel()
	b := newSettledEnv(t)
	b.mineAndProve(6)
	b.runRounds()
	was := b.endHashes()
	for range 2 {
		b.reorgAway(false)
		b.wantReorged(2)
		b.runRounds()
		if got := b.chain.Mempool(); fmt.Sprint(got) != fmt.Sprint(was) {
			t.Fatalf("got %v sent, want %v", got, was)
		}
		b.mineAgain(6)
		b.runRounds()
		b.wantReorged(0)
		b.checkBooks(b.treasury)
	}
}

// Rule WD-18.
func TestTheTableLetsAnEndBeProvenAgainInOneWayOnly(t *testing.T) {
	t.Parallel()
	b := newSettledEnv(t)
	b.mineAndProve(6)
	b.runRounds()
	refused := func(what, set string) {
		t.Helper()
		err := b.db.InSystem(b.ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE dispatch_orders SET `+set+` WHERE order_id = 'wd_1'`)
			return err
		})
		if !pg.ViolatesConstraint(err, "dispatch_orders_end_fixed") {
			t.Errorf("%s: got %v, want a violation of dispatch_orders_end_fixed", what, err)
		}
	}
	const alive = `proof_id = (SELECT max(proof_id) FROM finality_live)`
	refused("another proof while the first is alive", alive)
	dead := fmt.Sprintf("proof_id = %d", b.queryCount(`SELECT max(proof_id) FROM finality_proofs`))
	b.reorgAway(false)
	b.mineAgain(6)
	refused("another fee alone", `fee = fee + 1`)
	refused("another transaction", `tx_hash = '0xother', `+alive)
	refused("another proof that is dead", dead)
	refused("no proof", `proof_id = NULL`)
}

// A nonce that a reorg took back is not a foreign use, however long ago it was first missed.
func TestANonceThatAForkTookBackIsMissedAnew(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.mineAndProve(4)
	b.submitOrder(b.newOrder("wd_1", sim.Address("wd_1"), 400))
	b.runRounds()
	for _, h := range b.chain.Mempool() {
		b.chain.DropTx(h)
	}
	b.chain.SubmitForeign(b.treasury.Address)
	b.mineAndProve(6)
	b.runRounds() // missed for the first time
	b.reorgAway(false)
	for _, h := range b.chain.Mempool() {
		b.chain.DropTx(h)
	}
	b.runRounds()
	b.clock.advance(time.Hour)
	b.chain.SubmitForeign(b.treasury.Address)
	b.mineAgain(6)
	b.runRounds()
	if n := b.queryCount(`SELECT count(*) FROM freezes`); n != 0 {
		t.Errorf("got %d freezes at once, want the nonce to be missed for a while first", n)
	}
}
