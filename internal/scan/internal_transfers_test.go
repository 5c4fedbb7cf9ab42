package scan_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
)

var contract = sim.Address("contract")

// submitInternal submits a transaction in which a contract pays units to each of several addresses.
func (w *testEnv) submitInternal(units uint64, to ...chain.Address) chain.TxHash {
	var moves []sim.Move
	for _, a := range to {
		moves = append(moves, sim.Move{Kind: chain.Internal, From: contract, To: a, Amount: money.Units(units)})
	}
	return w.c.SubmitTx(payer, moves...)
}

func newTracedEnv(t *testing.T, conf sim.Config) *testEnv {
	t.Helper()
	w := newTestEnv(t, conf, 0)
	w.c.Mint(contract, "", money.Units(1_000_000))
	return w
}

// arrivalTexts describes the arrivals of final blocks, in order: address, amount and doubt.
func (w *testEnv) arrivalTexts() (all []string) {
	w.listener.mu.Lock()
	defer w.listener.mu.Unlock()
	names := map[chain.Address]string{ours: "ours", ours2: "ours2", treasury: "treasury"}
	for _, f := range w.listener.found {
		all = append(all, fmt.Sprintf("%s %v %s%s", names[f.To], f.Amount, f.Kind, f.Doubt))
	}
	return all
}

func (w *testEnv) wantArrivals(t *testing.T, when string, want ...string) {
	t.Helper()
	if got := w.arrivalTexts(); !slices.Equal(got, want) {
		t.Errorf("%s: got %v, want %v", when, got, want)
	}
}

func (w *testEnv) wantPending(t *testing.T, when string, due, done int) {
	t.Helper()
	for status, want := range map[string]int{"DUE": due, "DONE": done} {
		if n := w.count(t, `SELECT count(*) FROM scan_untraced WHERE status = $1`, status); n != want {
			t.Errorf("%s: got %d transactions that are %s, want %d", when, n, status, want)
		}
	}
}

// wantNoFindings checks that no trace has caused a finding.
func (w *testEnv) wantNoFindings(t *testing.T) {
	t.Helper()
	if n := w.count(t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`); n != 0 {
		t.Errorf("got %d mints in quarantine, want none", n)
	}
	if n := w.count(t, `SELECT count(*) FROM scan_findings`); n != 0 {
		t.Errorf("got %d findings, want none", n)
	}
}

// traceLater makes all pending traces due and takes a step with each block of them.
func (w *testEnv) traceLater(t *testing.T, walker *scan.Walker) (err error) {
	t.Helper()
	if _, err := pgtest.OwnerPool(t, w.db).Exec(
		t.Context(), `UPDATE scan_untraced SET next_attempt_at = created_at WHERE status = 'DUE'`,
	); err != nil {
		t.Fatal(err)
	}
	for {
		moved, failed := walker.StepTraces(t.Context())
		if err = errors.Join(err, failed); !moved {
			return err
		}
	}
}

func TestWhatCannotBeTracedInTimeIsARowAndDelaysNothingElse(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	heavy := w.submitInternal(100, ours)
	w.submitInternal(7, ours)
	w.submitInternal(30, ours2)
	w.c.Pay(payer, ours, "", 50)
	w.c.Provider(0).SetTraceAttempts(heavy, 3)
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantArrivals(t, "with the block", "ours 50 NATIVE", "ours 7 INTERNAL", "ours2 30 INTERNAL")
	w.wantPending(t, "with the block", 1, 0)
	for range 2 {
		if err := w.traceLater(t, w.w); err != nil {
			t.Fatal(err)
		}
		w.wantPending(t, "too early", 1, 0)
	}
	if err := w.traceLater(t, w.w); err != nil {
		t.Fatal(err)
	}
	w.wantPending(t, "traced", 0, 1)
	if got := w.arrivalTexts(); !slices.Contains(got, "ours 100 INTERNAL") {
		t.Errorf("traced: got %v, want the 100 too", got)
	}
	w.wantNoFindings(t)
	if moved, err := w.w.StepTraces(t.Context()); moved || err != nil {
		t.Errorf("nothing is due: got %v, %v, want nothing", moved, err)
	}
}

func TestABlockAboutWhichNobodyTellsIsTakenInAndTracedLater(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	w.submitInternal(100, ours)
	w.c.Pay(payer, ours2, "", 50)
	w.c.Mine(1)
	w.submitInternal(30, ours2)
	w.c.Mine(5)
	w.c.Provider(0).FailTraces(errors.New("connection refused"))
	waited := 0
	for moved := true; moved || waited > 0 && w.count(t, `SELECT count(*) FROM scan_untraced`) == 0; {
		var err error
		if moved, err = w.w.StepFinal(t.Context()); err != nil {
			moved = false
			if waited++; waited > 10 {
				t.Fatalf("got a walk that stands: %v", err)
			}
		}
	}
	w.walkFinal(t)
	if waited != 4 {
		t.Errorf("got %d attempts that failed, want the outage waited for a little, and once", waited)
	}
	w.wantArrivals(t, "in an outage", "ours2 50 NATIVE")
	w.wantPending(t, "in an outage", 2, 0)
	if err := w.traceLater(t, w.w); err == nil {
		t.Error("still out: got no error")
	}
	w.wantPending(t, "still out", 2, 0)
	w.c.Provider(0).FailTraces(nil)
	if err := w.traceLater(t, w.w); err != nil {
		t.Fatal(err)
	}
	w.wantPending(t, "back", 0, 2)
	w.wantArrivals(t, "back", "ours2 50 NATIVE", "ours 100 INTERNAL", "ours2 30 INTERNAL")
	w.wantNoFindings(t)
}

// The error text of a provider does not stop the walk: neither invalid bytes nor a character that
// the limit cuts.
func TestAnErrorThatIsNoTextIsARowToo(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"away\x00", "away\xff", strings.Repeat("x", 490) + strings.Repeat("é", 100)} {
		w := newTracedEnv(t, sim.Config{})
		w.c.Provider(0).FailTraces(errors.New(said))
		w.submitInternal(100, ours)
		w.c.Mine(4)
		var stands error
		for failed := 0; failed <= 10 && w.count(t, `SELECT count(*) FROM scan_untraced`) == 0; {
			if _, stands = w.w.StepFinal(t.Context()); stands != nil {
				failed++
			}
		}
		if w.count(t, `SELECT count(*) FROM scan_untraced`) == 0 {
			t.Errorf("%.20q: got a walk that stands: %v", said, stands)
		}
	}
}

// After an outage has ended, the walk waits for the next outage again.
func TestASecondOutageIsWaitedForAgain(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	for _, round := range []string{"the first", "the second"} {
		w.c.Provider(0).FailTraces(nil)
		w.submitInternal(30, ours2)
		w.c.Mine(4)
		w.walkFinal(t)
		w.c.Provider(0).FailTraces(errors.New("connection refused"))
		had := w.count(t, `SELECT count(*) FROM scan_untraced`)
		w.submitInternal(100, ours)
		w.c.Mine(4)
		waited := 0
		for w.count(t, `SELECT count(*) FROM scan_untraced`) == had {
			if _, err := w.w.StepFinal(t.Context()); err == nil {
				continue
			}
			if waited++; waited > 10 {
				t.Fatalf("%s outage: got a walk that stands", round)
			}
		}
		if waited != 4 {
			t.Errorf(
				"%s outage: got %d attempts that failed before the block was taken in without, want 4", round, waited,
			)
		}
		w.walkFinal(t)
	}
}

func TestATransactionThatNobodyCanTellAboutIsARow(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	blind := w.submitInternal(100, ours)
	w.submitInternal(30, ours2)
	w.c.Pay(payer, ours, "", 50)
	w.c.Provider(0).HideChanges(blind, true)
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantArrivals(t, "with the block", "ours 50 NATIVE", "ours2 30 INTERNAL")
	if n := w.count(t, `SELECT count(*) FROM scan_untraced WHERE addresses IS NULL AND tx_hash = $1`, blind); n != 1 {
		t.Errorf("got %d rows of the transaction, want one of unknown addresses", n)
	}
	w.wantNoFindings(t)
	w.c.Provider(0).HideChanges(blind, false)
	if err := w.traceLater(t, w.w); err != nil {
		t.Fatal(err)
	}
	w.wantPending(t, "told", 0, 1)
	if got := w.arrivalTexts(); !slices.Contains(got, "ours 100 INTERNAL") {
		t.Errorf("told: got %v, want the 100 too", got)
	}
	w.wantNoFindings(t)
}

// A provider that lies about traces neither credits nor hides a transfer, and causes no doubt.
func TestAProviderThatLiesAboutTracesIsNotBelieved(t *testing.T) {
	t.Parallel()
	move := func(tx chain.TxHash, from, to chain.Address, units uint64) chain.Transfer {
		return chain.Transfer{
			Tx: tx, Kind: chain.Internal, Position: "0", From: from, To: to, Amount: money.Units(units),
		}
	}
	for name, lie := range map[string]func(p *sim.Provider, one, other chain.TxHash){
		"invents": func(p *sim.Provider, one, other chain.TxHash) {
			p.InventTransfers(other, []chain.Transfer{move(other, contract, ours2, 1000)})
		},
		"invents where something came": func(p *sim.Provider, one, other chain.TxHash) {
			p.InventTransfers(one, []chain.Transfer{move(one, contract, ours, 1000)})
		},
		"tells less": func(p *sim.Provider, one, other chain.TxHash) {
			p.InventTransfers(one, []chain.Transfer{move(one, contract, ours, 1)})
		},
		"hides calls": func(p *sim.Provider, one, other chain.TxHash) { p.InventTransfers(one, []chain.Transfer{}) },
		"hides whom":  func(p *sim.Provider, one, other chain.TxHash) { p.HideAddress(ours, true) },
		"names ours": func(p *sim.Provider, one, other chain.TxHash) {
			p.InventTransfers(one, []chain.Transfer{move(one, treasury, ours, 100)})
		},
		"another place": func(p *sim.Provider, one, other chain.TxHash) {
			p.InventTransfers(other, []chain.Transfer{move(other, contract, ours, 100)})
		},
	} {
		for _, agree := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d agree", name, agree), func(t *testing.T) {
				t.Parallel()
				w := newTracedEnv(t, sim.Config{Providers: 3, Quorum: agree})
				one := w.submitInternal(100, ours)
				other := w.submitInternal(5, sim.Address("somebody"))
				w.c.Pay(payer, ours, "", 50)
				lie(w.c.Provider(0), one, other)
				w.c.Mine(4)
				w.walkFinal(t)
				w.wantArrivals(t, "with a liar", "ours 50 NATIVE", "ours 100 INTERNAL")
				if n := len(w.listener.found); n != 2 ||
					w.listener.found[1].Tx != one && (name != "another place" || agree > 1) ||
					w.listener.found[1].FromOwnWallets {
					t.Errorf("got %+v, want the movement of %s by a contract", w.listener.found, one)
				}
				w.wantNoFindings(t)
				w.wantPending(t, "with a liar", 0, 0)
			})
		}
	}
}

func TestALiarAloneIsToBeTracedLaterAndQuarantinesNothing(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	one := w.submitInternal(100, ours)
	lie := chain.Transfer{
		Tx: one, Kind: chain.Internal, Position: "0", From: contract, To: ours, Amount: money.Units(1000),
	}
	w.c.Provider(0).InventTransfers(one, []chain.Transfer{lie})
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantArrivals(t, "with a liar alone")
	w.wantPending(t, "with a liar alone", 1, 0)
	for range 8 {
		if err := w.traceLater(t, w.w); err != nil {
			t.Fatal(err)
		}
	}
	w.wantArrivals(t, "with a liar alone, later")
	w.wantNoFindings(t)
	w.c.Provider(0).InventTransfers(one, nil)
	if err := w.traceLater(t, w.w); err != nil {
		t.Fatal(err)
	}
	w.wantArrivals(t, "when it tells the truth", "ours 100 INTERNAL")
	w.wantNoFindings(t)
}

func TestWhatIsTracedLaterIsTakenOnceWhateverHappens(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	heavy := w.submitInternal(100, ours)
	w.c.Provider(0).SetTraceAttempts(heavy, 1)
	w.c.Mine(4)
	boom := errors.New("boom")
	w.listener.fail = func(p scan.Proof) error {
		if p.Height == 1 {
			return boom
		}
		return nil
	}
	if _, err := w.w.StepFinal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.w.StepFinal(t.Context()); !errors.Is(err, boom) {
		t.Fatalf("got %v, want the listener's error", err)
	}
	w.wantPending(t, "the block was not taken in", 0, 0)
	w.listener.fail = nil
	w.walkFinal(t)
	w.wantPending(t, "the block was taken in", 1, 0)
	w.listener.fail = func(scan.Proof) error { return boom }
	if err := w.traceLater(t, w.w); !errors.Is(err, boom) {
		t.Fatalf("got %v, want the listener's error", err)
	}
	w.wantPending(t, "the listener failed", 1, 0)
	w.wantArrivals(t, "the listener failed")
	w.listener.fail = nil
	// Another process completes the row while this one traces.
	other := newWalker(w.db, w.c, w.listener, 0)
	start := uint64(0)
	late := &between{Chain: w.c, do: func() {
		if err := w.traceLater(t, other); err != nil {
			t.Error(err)
		}
	}}
	if err := w.traceLater(
		t, scan.New(w.db, scan.Config{Chain: chain.Ethereum, Reader: late, Start: &start}, w.listener, discard),
	); err != nil {
		t.Fatal(err)
	}
	if late.do != nil {
		t.Error("got no trace of the first process")
	}
	w.wantArrivals(t, "two at once", "ours 100 INTERNAL")
	w.wantPending(t, "two at once", 0, 1)
}

// A break ends the pending traces of the blocks that are gone.
func TestNothingIsTracedForABlockThatIsGone(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	heavy := w.submitInternal(100, ours)
	w.c.Provider(0).SetTraceAttempts(heavy, 1)
	w.c.Mine(8)
	w.walkFinal(t)
	w.wantPending(t, "walked", 1, 0)
	if _, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
		SELECT 'ETHEREUM', 1, 0, (SELECT parent FROM finality_proofs WHERE height = 1), 5, '', 6, '', '', now()`); err != nil {
		t.Fatal(err)
	}
	if err := w.traceLater(t, w.w); err != nil {
		t.Fatal(err)
	}
	w.wantArrivals(t, "after the break")
	w.wantPending(t, "after the break", 1, 0)
}

func TestTheHeadWalkNeverStandsOnTraces(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	w.c.Mine(4)
	w.walkFinal(t)
	heavy := w.submitInternal(100, ours)
	w.c.Provider(0).SetTraceAttempts(heavy, 100)
	w.c.Mine(1)
	w.walkHead(t)
	w.c.Provider(0).FailTraces(errors.New("connection refused"))
	w.submitInternal(100, ours2)
	w.c.Mine(1)
	w.walkHead(t)
	if n := len(w.listener.seen); n < 2 || w.listener.seen[n-1] != 6 {
		t.Errorf("got blocks %v, want the walk at 6", w.listener.seen)
	}
}

func TestWithTracesOffNothingIsCompletedUntraced(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	heavy := w.submitInternal(100, ours)
	w.c.Provider(0).SetTraceAttempts(heavy, 1)
	w.c.Mine(4)
	w.walkFinal(t)
	start := uint64(0)
	off := scan.New(w.db, scan.Config{Chain: chain.Ethereum, Reader: untraced{w.c}, Start: &start}, w.listener, discard)
	if err := w.traceLater(t, off); err == nil {
		t.Error("got no error, want one that nothing is traced")
	}
	w.wantPending(t, "off", 1, 0)
}

// untraced is a chain that is no longer asked for traces.
type untraced struct{ *sim.Chain }

func (untraced) BalanceChanges(context.Context, chain.Block, chain.ProviderCount) (chain.BalanceChanges, error) {
	return chain.BalanceChanges{}, nil
}

var discard = slog.New(slog.DiscardHandler)

func TestAnotherProviderAnswersWhatIsTooLongForOne(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{Providers: 2, Quorum: 1})
	heavy, blind := w.submitInternal(100, ours), w.submitInternal(30, ours2)
	w.c.Provider(0).SetTraceAttempts(heavy, 1000)
	w.c.Provider(0).HideChanges(blind, true)
	w.c.Mine(4)
	w.walkFinal(t)
	w.wantArrivals(t, "with the block", "ours 100 INTERNAL", "ours2 30 INTERNAL")
	w.wantPending(t, "with the block", 0, 0)
	w.wantNoFindings(t)
}

// These rules hold by the tables alone.
func TestTheTableKeepsWhatIsToBeTraced(t *testing.T) {
	t.Parallel()
	w := newTracedEnv(t, sim.Config{})
	heavy := w.submitInternal(100, ours)
	w.c.Provider(0).SetTraceAttempts(heavy, 1)
	w.c.Mine(4)
	w.walkFinal(t)
	super := pgtest.OwnerPool(t, w.db)
	refused := func(what, sql string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s: got no error, want it refused", what)
		}
	}
	refused("another transaction", `UPDATE scan_untraced SET tx_hash = 'other'`)
	refused("fewer attempts", `UPDATE scan_untraced SET attempts = attempts - 1`)
	refused("addresses forgotten", `UPDATE scan_untraced SET addresses = NULL`)
	refused("done without a time", `UPDATE scan_untraced SET status = 'DONE'`)
	refused("taken away", `DELETE FROM scan_untraced`)
	refused(
		"of no proof",
		`INSERT INTO scan_untraced (proof_id, tx_hash, attempts, last_error, next_attempt_at, created_at) VALUES (99999, 'x', 1, '', now(), now())`,
	)
	if err := w.traceLater(t, w.w); err != nil {
		t.Fatal(err)
	}
	w.wantPending(t, "traced", 0, 1)
	refused("due again", `UPDATE scan_untraced SET status = 'DUE', done_at = NULL`)
	refused("done again", `UPDATE scan_untraced SET done_at = now()`)
}

// between runs a hook once while calls are traced.
type between struct {
	*sim.Chain
	do func()
}

func (b *between) InternalTransfers(ctx context.Context, q chain.InternalTransfersQuery) ([]chain.Transfer, error) {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.Chain.InternalTransfers(ctx, q)
}
