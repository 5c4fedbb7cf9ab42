package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

// silentToken is a chain whose tokens report transfers that they did not make.
type silentToken struct{ chain.Sender }

func (s silentToken) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	o, err := s.Sender.Outcome(ctx, txs, ps...)
	if o != nil {
		o.Paid = false
	}
	return o, err
}

// Rule WD-9: a contradictory payment is neither settled nor released.
func TestAPaymentThatSucceededWithoutItsTransferIsLeftToAPerson(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	on := b.chain.ToChain()
	on.Sender = silentToken{on.Sender}
	b.worker = dispatch.New(b.db, on, b.signer, mirror.RecordEntry,
		map[signer.Purpose]dispatch.Listener{signer.Payment: b.feature},
		dispatch.Config{}, slog.New(slog.DiscardHandler))
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.mineAndProve(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Stuck)
	if got := fmt.Sprint(b.feature.lines); got != "[broadcast wd_1]" {
		t.Errorf("the feature heard %s, want nothing of an end", got)
	}
	if f := b.funds(b.treasury, usdc); f.Reserved != money.Units(400) || !f.Swept.IsZero() {
		t.Errorf("got %v reserved and %v gone, want 400 and 0", f.Reserved, f.Swept)
	}
	if n := b.queryCount(`SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`); n != 1 {
		t.Errorf("got %d mints under quarantine, want the payment's", n)
	}
	if n := b.queryCount(
		`SELECT count(*) FROM ledger_transfers WHERE cause_id = 'wd_1' AND cause_kind <> 'WITHDRAWAL_HOLD'`,
	); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
}

// Rule WD-9.
func TestTheProofOfAnotherBlockEndsNothing(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.chain.Mine(6)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx,
			`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at)
			SELECT 'ETHEREUM', h, '0xother' || h, '0xother' || h - 1, $1, 1, 'sim', $1 FROM generate_series(1, 10) h`,
			tx.Now)
		return err
	})
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Broadcast)
	if n := b.queryCount(
		`SELECT count(*) FROM ledger_transfers WHERE cause_id = 'wd_1' AND cause_kind <> 'WITHDRAWAL_HOLD'`,
	); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
}

// Found by the soak, seed 20261224. Rule WD-9.
func TestAHeadThatGoesBackBehindAProofMakesAnOrderWait(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.mineAndProve(6)
	b.chain.Fork(5)
	if h, err := b.chain.Heads(b.ctx); err != nil || h.Final.Height >= h.Latest.Height || b.proven < h.Latest.Height {
		t.Fatalf(
			"got heads %+v, %v with %d proven, want the payment in the last block, proven and not final now", h, err,
			b.proven,
		)
	}
	b.runRounds() // fails when that is an error
	b.wantStatus("wd_1", dispatch.Broadcast)
	b.chain.Mine(6)
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Paid)
	b.wantReceived(sim.Address("customer"), 400)
}

func TestAFreezeAlsoStopsWhatIsSignedAndNotOut(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.chain.Provider(0).RefuseSend("the node is busy")
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	b.wantStatus("wd_1", dispatch.Signed)
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeAll, Source: freeze.SourceVerify, Reason: "test",
		})
	})
	b.chain.Provider(0).RefuseSend("")
	for range 3 {
		b.clock.advance(time.Minute)
		b.runRounds()
	}
	if n := len(b.chain.Mempool()); n != 0 {
		t.Fatalf("got %d transactions sent during a freeze, want none", n)
	}
	b.inSystem(func(ctx context.Context, tx pg.Tx) error {
		standing, err := freeze.List(ctx, tx)
		if err != nil {
			return err
		}
		return freeze.Lift(ctx, tx, standing[0].ID, audit.Operator("op"))
	})
	b.clock.advance(time.Minute)
	b.runRounds()
	if n := len(b.chain.Mempool()); n != 1 {
		t.Errorf("got %d transactions once it was lifted, want the one that was signed", n)
	}
	b.wantStatus("wd_1", dispatch.Broadcast)
}

func TestEveryEntryOfTheSignersJournalIsCopiedWithItsStep(t *testing.T) {
	t.Parallel()
	b := newTestEnv(t, openPolicy())
	b.fundWallet(b.treasury, coin, 1000)
	b.submitOrder(b.newOrder("wd_1", sim.Address("customer"), 400))
	b.runRounds()
	entries, err := b.signer.EntriesAfter(b.ctx, 0, 0)
	b.must(err)
	for _, e := range entries[1:] { // the first entry belongs to no step
		if n := b.queryCount(
			`SELECT count(*) FROM signer_journal WHERE seq = $1 AND hash = $2`, int64(e.Seq), e.Hash,
		); n != 1 {
			t.Errorf("entry %d: got %d copies, want one: %s", e.Seq, n, e.Body)
		}
	}
	if len(entries) != 4 {
		t.Errorf("got %d entries, want the beginning, the treasury, the admission and the signature", len(entries))
	}
}
