package scan_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// lateListener commits an address after its block was matched, before the block is written.
type lateListener struct {
	*recordingListener
	commit  func()
	matched []int // the arrivals of each attempt at the block of that height
	height  uint64
}

func (l *lateListener) OnFinal(ctx context.Context, ch chain.Name, b chain.Block, f []scan.Arrival) scan.Apply {
	if b.Height == l.height {
		l.matched = append(l.matched, len(f))
		if len(l.matched) == 1 {
			l.commit()
		}
	}
	return l.recordingListener.OnFinal(ctx, ch, b, f)
}

// newMatcher returns a matcher with a filter of all addresses that are committed.
func (w *testEnv) newMatcher(t *testing.T) *wallet.Matcher {
	t.Helper()
	matcher := wallet.NewMatcher(w.db, slog.New(slog.DiscardHandler))
	if err := matcher.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return matcher
}

// Rule DEP-58.
func TestAnAddressThatIsCommittedWhileItsBlockIsPreparedGetsItsDeposit(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	late := sim.Address("late")
	listener := &lateListener{recordingListener: w.listener, height: 1, commit: func() {
		if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			SELECT 'adr_late', org_id, 'EVM', 'CUSTOMER_DEPOSIT', 'late', '', $1, '', now() FROM organizations`,
			late); err != nil {
			t.Error(err)
		}
	}}
	start := uint64(0)
	w.w = scan.New(w.db, scan.Config{
		Chain: chain.Ethereum, Reader: w.c, Matcher: w.newMatcher(t), Start: &start,
	}, listener, slog.New(slog.DiscardHandler))
	w.c.Pay(payer, late, usdcAt, 70)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(5)
	w.walkFinal(t)
	if len(listener.matched) != 2 || listener.matched[0] != 1 || listener.matched[1] != 2 {
		t.Errorf("got blocks with %v arrivals, want one with one, and then with two", listener.matched)
	}
	if len(w.listener.found) != 2 || w.listener.found[0].Wallet.ID != "adr_late" {
		t.Errorf("got %+v, want both transfers once", w.listener.found)
	}
	if n := w.count(t, `SELECT count(*) FROM finality_proofs WHERE height = 1`); n != 1 {
		t.Errorf("got %d proofs of the block, want one", n)
	}
}

// Rule DEP-58.
func TestAWalkWithAFilterFindsWhatOneWithoutFinds(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	matcher := w.newMatcher(t)
	start := uint64(0)
	w.w = scan.New(w.db, scan.Config{
		Chain: chain.Ethereum, Reader: w.c, Matcher: matcher, Start: &start, HeadDepth: 64,
	}, w.listener, slog.New(slog.DiscardHandler))
	w.c.Mint(ours2, usdcAt, money.Units(500))
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Pay(ours2, ours, usdcAt, 100)
	w.c.Pay(payer, sim.Address("stranger"), usdcAt, 100)
	w.c.Mine(10)
	w.walkFinal(t)
	w.walkHead(t)
	if len(w.listener.found) != 2 || w.listener.found[0].Wallet.ID != "adr_0" || w.listener.found[0].FromOwnWallets ||
		!w.listener.found[1].FromOwnWallets {
		t.Errorf("got %+v, want the two transfers to ours, the second from ours", w.listener.found)
	}
	if len(w.listener.seen) == 0 {
		t.Error("got no recent blocks")
	}
	if _, ok := matcher.Stats(); !ok {
		t.Error("got a discarded filter")
	}
}
