package scan_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/scan"
)

// tokens is a chain whose tokens can be unusable.
type tokens struct {
	*sim.Chain
	mu    sync.Mutex
	aside string // the position of what came aside
	why   string
	err   error
}

func (o *tokens) IsAuxiliaryAccount(t chain.Transfer) bool {
	return t.Kind == chain.Token && t.Position == o.aside
}

func (o *tokens) InspectToken(_ context.Context, token chain.Address) (string, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if token != usdcAt {
		return "", errors.New("got asked about another token, want the only one")
	}
	return o.why, o.err
}

func (o *tokens) say(why string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.why, o.err = why, err
}

// Rules DEP-41 and DEP-42.
func TestATokenIsAskedAboutWhenItComesAndWhereItLies(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	odd := &tokens{Chain: w.c, aside: "1"}
	start := uint64(0)
	w.w = scan.New(
		w.db, scan.Config{Chain: chain.Ethereum, Reader: odd, Start: &start}, w.listener, slog.New(slog.DiscardHandler),
	)
	quarantined := func() int {
		return w.count(t, `SELECT count(*) FROM mints WHERE mint_id = $1 AND quarantine_reason = 'a fee'`, usdc)
	}

	w.c.SubmitTx(
		payer, sim.Move{To: ours, Contract: usdcAt, Amount: money.Units(100)},
		sim.Move{To: ours2, Contract: usdcAt, Amount: money.Units(100)},
	)
	w.c.Mine(4)
	w.walkFinal(t)
	var doubts []string
	for _, f := range w.listener.found {
		doubts = append(doubts, f.Doubt)
	}
	if len(doubts) != 2 || doubts[0] != "" || doubts[1] != scan.DoubtTokenAccount {
		t.Errorf("got doubts %q, want one about the second", doubts)
	}

	// While no provider answers, blocks with that token are not written, and others are.
	odd.say("", errors.New("nobody is there"))
	w.c.Pay(payer, ours, "", 100)
	w.c.Mine(4)
	w.walkFinal(t)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(4)
	for moved, err := true, error(nil); moved || err == nil; {
		if moved, err = w.w.StepFinal(t.Context()); err == nil && !moved {
			t.Fatal("got a block taken in with a token that nobody knows, want an error")
		}
	}
	if got := len(w.listener.found); got != 3 || quarantined() != 0 {
		t.Errorf("got %d movements and %d mints stopped, want 3 and none", got, quarantined())
	}

	// The mint is quarantined in the transaction that writes its arrivals.
	odd.say("a fee", nil)
	w.walkFinal(t)
	if got := len(w.listener.found); got != 4 || quarantined() != 1 {
		t.Errorf("got %d movements and %d mints stopped, want 4 and one", got, quarantined())
	}
}

// Rule DEP-42.
func TestTheCatalogueIsLookedAtBeforeAnythingComes(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	odd := &tokens{Chain: w.c, why: "a fee"}
	w.w = scan.New(w.db, scan.Config{Chain: chain.Ethereum, Reader: odd}, w.listener, slog.New(slog.DiscardHandler))
	w.c.Mine(4)
	w.walkFinal(t)
	if n := w.count(t, `SELECT count(*) FROM mints WHERE quarantine_reason = 'a fee'`); n != 1 {
		t.Errorf("got %d mints stopped, want the one", n)
	}
}
