package scan_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/scan"
)

const (
	eth  = 1
	usdc = 2
)

var (
	usdcAt   = sim.Address("usdc")
	payer    = sim.Address("payer")
	ours     = sim.Address("ours")
	ours2    = sim.Address("ours 2")
	treasury = sim.Address("treasury")
)

// recordingListener is a listener that records its calls.
type recordingListener struct {
	mu       sync.Mutex
	seen     []uint64
	orphaned []uint64
	observed []scan.Proof
	found    []scan.Arrival // of final blocks
	fail     func(p scan.Proof) error
}

func (e *recordingListener) OnRecent(_ context.Context, _ pg.Tx, _ chain.Name, b chain.Block, _ []scan.Arrival) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, b.Height)
	return nil
}

func (e *recordingListener) OnOrphaned(_ context.Context, _ pg.Tx, _ chain.Name, from uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orphaned = append(e.orphaned, from)
	return nil
}

func (e *recordingListener) OnFinal(_ context.Context, _ chain.Name, _ chain.Block, f []scan.Arrival) scan.Apply {
	return func(_ context.Context, _ pg.Tx, p scan.Proof) error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if e.fail != nil {
			if err := e.fail(p); err != nil {
				return err
			}
		}
		e.observed = append(e.observed, p)
		e.found = append(e.found, f...)
		return nil
	}
}

type testEnv struct {
	db       *pg.DB
	c        *sim.Chain
	listener *recordingListener
	w        *scan.Walker
}

func newTestEnv(t *testing.T, conf sim.Config, depth uint64) *testEnv {
	t.Helper()
	db := pgtest.New(t)
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatalf("create an organization: %v", err)
	}
	err = mint.Sync(t.Context(), db, []mint.Mint{
		{
			ID: eth, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether",
			Decimals:   18,
			MinDeposit: money.Units(10), MinWithdraw: money.Units(10), Finality: "FINALIZED",
		},
		{
			ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAt,
			Symbol: "USDC", Name: "USD Coin", Decimals: 6,
			MinDeposit: money.Units(10), MinWithdraw: money.Units(10), Finality: "FINALIZED",
		},
	})
	if err != nil {
		t.Fatalf("sync the mints: %v", err)
	}
	super := pgtest.OwnerPool(t, db)
	for i, a := range []chain.Address{ours, ours2, treasury} {
		purpose, subject := "CUSTOMER_DEPOSIT", fmt.Sprint("customer ", i)
		if a == treasury {
			purpose, subject = "TREASURY", ""
		}
		_, err := super.Exec(t.Context(), `
			INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			VALUES ($1, $2, 'EVM', $3, $4, '', $5, '', now())`, fmt.Sprint("adr_", i), o.ID, purpose, subject, a)
		if err != nil {
			t.Fatalf("insert a wallet: %v", err)
		}
	}
	c := sim.New(conf)
	c.Mint(payer, "", money.Units(1_000_000))
	c.Mint(payer, usdcAt, money.Units(1_000_000))
	e := &recordingListener{}
	return &testEnv{db: db, c: c, listener: e, w: newWalker(db, c, e, depth)}
}

func newWalker(db *pg.DB, c *sim.Chain, l scan.Listener, depth uint64) *scan.Walker {
	start := uint64(0)
	return scan.New(db, scan.Config{Chain: chain.Ethereum, Reader: c, Start: &start, HeadDepth: depth}, l,
		slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// walkFinal walks until there is no new final block.
func (w *testEnv) walkFinal(t *testing.T) {
	t.Helper()
	for {
		moved, err := w.w.StepFinal(t.Context())
		if err != nil {
			t.Fatalf("final walk: %v", err)
		}
		if !moved {
			return
		}
	}
}

func (w *testEnv) walkHead(t *testing.T) {
	t.Helper()
	for {
		moved, err := w.w.StepHead(t.Context())
		if err != nil {
			t.Fatalf("head walk: %v", err)
		}
		if !moved {
			return
		}
	}
}

func (w *testEnv) cursor(t *testing.T) (height uint64, hash string) {
	t.Helper()
	err := pgtest.OwnerPool(t, w.db).QueryRow(
		t.Context(), `SELECT height, hash FROM scan_cursors WHERE chain = 'ETHEREUM'`,
	).Scan(&height, &hash)
	if err != nil {
		t.Fatalf("read the cursor: %v", err)
	}
	return height, hash
}

func (w *testEnv) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := pgtest.OwnerPool(t, w.db).QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func TestTheFirstStartBeginsAtTheFinalHeadOrWhereItIsTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		start *uint64
		want  uint64
	}{
		{"not told", nil, 7},
		{"told", func() *uint64 { n := uint64(2); return &n }(), 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
			w.c.Mine(10)
			first := scan.New(
				w.db, scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: tt.start}, w.listener,
				slog.New(slog.DiscardHandler),
			)
			if moved, err := first.StepFinal(t.Context()); !moved || err != nil {
				t.Fatalf("got %v, %v, want the cursor opened", moved, err)
			}
			if height, _ := w.cursor(t); height != tt.want {
				t.Errorf("cursor: got %d, want %d", height, tt.want)
			}
		})
	}
}

func TestEveryFinalBlockIsObservedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(10)
	w.walkFinal(t)
	w.walkFinal(t)
	var heights []uint64
	for i, p := range w.listener.observed {
		heights = append(heights, p.Height)
		if i > 0 && p.Parent != w.listener.observed[i-1].Hash {
			t.Errorf("block %d: got parent %s, want %s", p.Height, p.Parent, w.listener.observed[i-1].Hash)
		}
	}
	if want := []uint64{1, 2, 3, 4, 5, 6, 7}; !slices.Equal(heights, want) {
		t.Errorf("got %v, want %v", heights, want)
	}
	if len(w.listener.found) != 1 || w.listener.found[0].Wallet.ID != "adr_0" ||
		w.listener.found[0].Mint.ID != usdc || w.listener.found[0].Doubt != "" {
		t.Errorf("got %+v, want the one transfer", w.listener.found)
	}
	if n := w.count(t, `SELECT count(*) FROM finality_proofs`); n != 7 {
		t.Errorf("proofs: got %d, want 7", n)
	}
}

func TestWhatComesFromAWalletOfOursIsMarked(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.Mint(ours2, usdcAt, money.Units(500))
	w.c.Pay(ours2, ours, usdcAt, 100)
	w.c.Pay(payer, ours, sim.Address("unknown token"), 0)
	w.c.Mine(4)
	w.walkFinal(t)
	if len(w.listener.found) != 1 || !w.listener.found[0].FromOwnWallets {
		t.Errorf("got %+v, want the one transfer, from ours", w.listener.found)
	}
}

func TestAListenerThatFailsKeepsTheCursorWhereItWas(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.Mine(8)
	boom := errors.New("boom")
	for _, panics := range []bool{false, true} {
		w.listener.fail = func(p scan.Proof) error {
			if p.Height != 3 {
				return nil
			}
			if panics {
				panic(boom)
			}
			return boom
		}
		for range 5 {
			func() {
				defer func() { _ = recover() }()
				_, _ = w.w.StepFinal(t.Context())
			}()
		}
		if height, _ := w.cursor(t); height != 2 {
			t.Errorf("panics %v: got cursor %d, want 2", panics, height)
		}
		if n := w.count(t, `SELECT count(*) FROM finality_proofs WHERE height = 3`); n != 0 {
			t.Errorf("panics %v: got %d proofs of the block, want none", panics, n)
		}
	}
	w.listener.fail = nil
	w.walkFinal(t)
	if height, _ := w.cursor(t); height != 5 {
		t.Errorf("mended: got cursor %d, want 5", height)
	}
}

func TestTwoWalkersTakeEachBlockOnce(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.Mine(40)
	var running sync.WaitGroup
	for range 2 {
		second := newWalker(w.db, w.c, w.listener, 0)
		running.Go(func() {
			for {
				final, err := second.StepFinal(t.Context())
				if err != nil {
					t.Errorf("final walk: %v", err)
					return
				}
				head, err := second.StepHead(t.Context())
				if err != nil {
					t.Errorf("head walk: %v", err)
					return
				}
				if !final && !head {
					return
				}
			}
		})
	}
	running.Wait()
	for i, p := range w.listener.observed {
		if p.Height != uint64(i+1) {
			t.Fatalf("observed %d: got height %d, want %d", i, p.Height, i+1)
		}
	}
	if len(w.listener.observed) != 37 {
		t.Errorf("got %d blocks observed, want 37", len(w.listener.observed))
	}
	if got := w.db.Counts().Deadlocks; got != 0 {
		t.Errorf("got %d deadlocks, want none", got)
	}
}

func TestRunWalksAndAnotherTakesOverWhenItEnds(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	start := uint64(0)
	var ends []context.CancelFunc
	var running sync.WaitGroup
	for range 2 {
		ctx, end := context.WithCancel(t.Context())
		ends = append(ends, end)
		walker := scan.New(
			w.db,
			scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: &start, PollInterval: 5 * time.Millisecond},
			w.listener, slog.New(slog.DiscardHandler),
		)
		running.Go(func() {
			if err := walker.Run(ctx); err != nil {
				t.Errorf("Run: got %v, want nil", err)
			}
		})
	}
	defer running.Wait()
	defer ends[1]()
	w.c.Mine(8)
	w.await(t, 5)
	ends[0]()
	w.c.SetUndecodable(9, true)
	w.c.Mine(8)
	w.await(t, 8)
	w.c.SetUndecodable(9, false)
	w.await(t, 13)
}

// await waits until the final walk has reached a height.
func (w *testEnv) await(t *testing.T, height uint64) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	super := pgtest.OwnerPool(t, w.db)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		var at uint64
		if err := super.QueryRow(ctx, `SELECT coalesce(max(height), 0) FROM scan_cursors`).Scan(&at); err != nil {
			t.Fatalf("wait for height %d: %v", height, err)
		}
		if at == height {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("got height %d, want %d", at, height)
		}
	}
}

// Rule DEP-10.
func TestABlockThatCannotBeReadStopsTheWalkThere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spoil func(*sim.Chain, bool)
		want  error
	}{
		{"undecodable", func(c *sim.Chain, on bool) { c.SetUndecodable(3, on) }, chain.ErrUndecodable},
		{"providers disagree", func(c *sim.Chain, on bool) { c.Provider(1).LieHash(3, on) }, chain.ErrDisagreement},
		{"both leave the movements out", func(c *sim.Chain, on bool) {
			c.Provider(0).LieEmpty(3, on)
			c.Provider(1).LieEmpty(3, on)
		}, chain.ErrDisagreement},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, sim.Config{Providers: 2}, 0)
			w.c.MineEmpty(2)
			w.c.Pay(payer, ours, usdcAt, 100)
			w.c.Mine(6)
			tt.spoil(w.c, true)
			var err error
			for range 10 {
				_, err = w.w.StepFinal(t.Context())
			}
			if !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
			if height, _ := w.cursor(t); height != 2 {
				t.Errorf("cursor: got %d, want 2", height)
			}
			if n := w.count(t, `SELECT count(*) FROM freezes`); n != 0 {
				t.Errorf("got %d freezes, want none", n)
			}
			tt.spoil(w.c, false)
			w.walkFinal(t)
			if height, _ := w.cursor(t); height != 5 || len(w.listener.found) != 1 {
				t.Errorf("mended: got cursor %d and %v, want 5 and the transfer", height, w.listener.found)
			}
		})
	}
}

func TestAProviderThatIsBehindStopsNothingForGood(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{Providers: 2}, 0)
	w.c.Mine(10)
	w.c.Provider(1).SetLag(4)
	w.walkFinal(t)
	w.walkHead(t)
	if height, _ := w.cursor(t); height != 3 {
		t.Errorf("cursor: got %d, want 3", height)
	}
	w.c.Provider(0).PinHead(4) // the head goes backwards
	w.walkFinal(t)
	w.walkHead(t)
	if len(w.listener.orphaned) != 0 {
		t.Errorf("got %v orphaned, want nothing", w.listener.orphaned)
	}
	w.c.Provider(0).UnpinHead()
	w.c.Provider(1).SetLag(0)
	w.walkFinal(t)
	if height, _ := w.cursor(t); height != 7 {
		t.Errorf("cursor: got %d, want 7", height)
	}
}

// Rule DEP-11.
func TestABrokenFinalityFreezesTheChain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		mine int
	}{{"seen at the same height", 5}, {"seen at the next block", 9}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
			w.c.Mine(8)
			w.walkFinal(t)
			w.c.Fork(5)
			w.c.Mine(tt.mine)
			for range 2 {
				if moved, err := w.w.StepFinal(t.Context()); moved || !errors.Is(err, scan.ErrFinalityBroken) {
					t.Fatalf("got %v, %v, want ErrFinalityBroken", moved, err)
				}
			}
			if height, _ := w.cursor(t); height != 5 {
				t.Errorf("cursor: got %d, want 5", height)
			}
			err := w.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				f, err := freeze.Active(ctx, tx, freeze.Target{Chain: chain.Ethereum})
				if err == nil && (f == nil || f.Source != freeze.SourceFinality) {
					t.Errorf("got %+v, want the chain frozen", f)
				}
				return err
			})
			if err != nil {
				t.Fatalf("look for the freeze: %v", err)
			}
			if n := w.count(t, `SELECT count(*) FROM scan_findings WHERE kind = 'FINALITY_BROKEN'`); n != 1 {
				t.Errorf("got %d findings, want 1", n)
			}
			if n := w.count(t, `SELECT count(*) FROM freezes`); n != 1 {
				t.Errorf("got %d freezes, want 1", n)
			}
		})
	}
}

func TestAForkBelowAProofIsABrokenFinalityTooWhenBlocksAreReadAgain(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	w.c.Mine(8)
	w.walkFinal(t)
	if err := w.w.Rewind(t.Context(), 2, audit.Operator("op")); err != nil {
		t.Fatalf("Rewind: %v", err)
	}
	w.c.Fork(5) // blocks 4 and 5 were final
	w.c.Mine(9)
	var err error
	for range 4 {
		_, err = w.w.StepFinal(t.Context())
	}
	if !errors.Is(err, scan.ErrFinalityBroken) {
		t.Errorf("got %v, want ErrFinalityBroken", err)
	}
	if height, _ := w.cursor(t); height != 3 {
		t.Errorf("cursor: got %d, want 3", height)
	}
	if n := w.count(t, `SELECT count(*) FROM freezes WHERE scope = 'CHAIN' AND source = 'FINALITY'`); n != 1 {
		t.Errorf("got %d freezes, want 1", n)
	}
}

func TestOneLiarDoesNotFreezeTheChain(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{Providers: 3, Quorum: 2}, 0)
	w.c.Mine(8)
	w.walkFinal(t)
	w.c.Provider(0).LieHash(5, true) // about the block that the cursor stands on
	if moved, err := w.w.StepFinal(t.Context()); moved || !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("got %v, %v, want ErrDisagreement", moved, err)
	}
	w.c.Mine(2)
	w.walkFinal(t)
	if height, _ := w.cursor(t); height != 7 {
		t.Errorf("cursor: got %d, want 7", height)
	}
	if n := w.count(t, `SELECT count(*) FROM freezes`); n != 0 {
		t.Errorf("got %d freezes, want none", n)
	}
}

// Rule DEP-5.
func TestATokenWhoseEventsLieIsQuarantined(t *testing.T) {
	t.Parallel()
	half, nothing := money.Units(50), money.Zero
	for _, tt := range []struct {
		name       string
		moves      []sim.Move
		doubt      string
		kind       string // of the finding
		quarantine int
	}{
		{"true", []sim.Move{{Contract: usdcAt, To: ours, Amount: money.Units(100)}}, "", "", 0},
		{
			"less arrives",
			[]sim.Move{{Contract: usdcAt, To: ours, Amount: money.Units(100), ActualAmount: &half}},
			scan.DoubtBalanceDelta, scan.DoubtBalanceDelta, 1,
		},
		{
			"nothing arrives",
			[]sim.Move{{Contract: usdcAt, To: ours, Amount: money.Units(100), ActualAmount: &nothing}},
			scan.DoubtBalanceDelta, scan.DoubtBalanceDelta, 1,
		},
		{"more arrives", []sim.Move{
			{Contract: usdcAt, To: ours, Amount: money.Units(100)},
			{Contract: usdcAt, To: ours, Amount: money.Units(7), NoEvent: true},
		}, "", "UNATTRIBUTED", 0},
		{"native coin that nothing explains", []sim.Move{
			{To: ours, Amount: money.Units(100)},
			{Kind: chain.Internal, To: ours, Amount: money.Units(7)},
		}, "", "UNATTRIBUTED", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newTestEnv(t, sim.Config{TracesOff: true}, 0)
			w.c.SubmitTx(payer, tt.moves...)
			w.c.Mine(4)
			w.walkFinal(t)
			if len(w.listener.found) != 1 || w.listener.found[0].Doubt != tt.doubt {
				t.Errorf("got %+v, want doubt %q", w.listener.found, tt.doubt)
			}
			if n := w.count(t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`); n != tt.quarantine {
				t.Errorf("got %d mints in quarantine, want %d", n, tt.quarantine)
			}
			want := 1
			if tt.kind == "" {
				want = 0
			}
			if n := w.count(t, `SELECT count(*) FROM scan_findings WHERE kind = $1`, tt.kind); n != want {
				t.Errorf("got %d findings %q, want %d", n, tt.kind, want)
			}
		})
	}
}

// Rule DEP-5.
func TestATokenWithoutBalancesStopsOnlyItself(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.SilenceBalance(usdcAt, true)
	w.c.SubmitTx(
		payer, sim.Move{Contract: usdcAt, To: ours, Amount: money.Units(100)},
		sim.Move{To: ours2, Amount: money.Units(70)},
	)
	w.c.Mine(4)
	w.walkFinal(t)
	if len(w.listener.found) != 2 {
		t.Fatalf("got %+v, want both movements", w.listener.found)
	}
	for _, f := range w.listener.found {
		want := ""
		if f.Contract == usdcAt {
			want = scan.DoubtBalanceDelta
		}
		if f.Doubt != want {
			t.Errorf("%s to %s: got doubt %q, want %q", f.Contract, f.To, f.Doubt, want)
		}
	}
	if n := w.count(t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL AND mint_id = $1`, usdc); n != 1 {
		t.Errorf("got %d quarantines of the token, want 1", n)
	}
	if n := w.count(t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`); n != 1 {
		t.Errorf("got %d quarantines, want 1", n)
	}
}

func TestWithoutTheStateOfABlockItIsNotTakenIn(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(4)
	w.c.Provider(0).Prune(true)
	if _, err := w.w.StepFinal(t.Context()); err != nil {
		t.Fatalf("open: %v", err)
	}
	moved, err := w.w.StepFinal(t.Context())
	if moved || !errors.Is(err, chain.ErrStateGone) || !strings.Contains(err.Error(), "chains.ETHEREUM.archives") {
		t.Errorf("got %v, %v, want an error that says which setting mends it", moved, err)
	}
	w.c.Provider(0).Prune(false)
	w.walkFinal(t)
	if len(w.listener.found) != 1 {
		t.Errorf("got %v, want the transfer", w.listener.found)
	}
}

func TestARewoundWalkFindsTheSameProofs(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{}, 0)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(8)
	w.walkFinal(t)
	before := slices.Clone(w.listener.observed)
	if err := w.w.Rewind(t.Context(), 1, audit.Operator("op")); err != nil {
		t.Fatalf("Rewind: %v", err)
	}
	w.walkFinal(t)
	if got, want := w.listener.observed[len(before):], before[1:]; !slices.Equal(ids(got), ids(want)) {
		t.Errorf("got proofs %v, want %v", ids(got), ids(want))
	}
	if err := w.w.Rewind(t.Context(), 100, audit.Operator("op")); err == nil {
		t.Error("got no error for a block that was not walked")
	}
}

func ids(proofs []scan.Proof) (ids []int64) {
	for _, p := range proofs {
		ids = append(ids, p.ID)
	}
	return ids
}

func TestTheHeadWalkFollowsForksToTheirRoot(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 8}, 0)
	w.c.Mine(6)
	w.walkFinal(t)
	w.walkHead(t)
	if want := []uint64{1, 2, 3, 4, 5, 6}; !slices.Equal(w.listener.seen, want) {
		t.Fatalf("got %v seen, want %v", w.listener.seen, want)
	}
	for _, tt := range []struct {
		name       string
		depth, add int
		orphaned   uint64
		seen       []uint64
	}{
		{"longer", 2, 4, 5, []uint64{5, 6, 7, 8}},
		{"as long", 1, 1, 8, []uint64{8}},
		{"shorter", 3, 1, 6, []uint64{6}},
	} {
		w.listener.seen, w.listener.orphaned = nil, nil
		w.c.Fork(tt.depth)
		w.c.Mine(tt.add)
		w.walkHead(t)
		if want := []uint64{tt.orphaned}; !slices.Equal(w.listener.orphaned, want) {
			t.Errorf("%s: got orphaned from %v, want %v", tt.name, w.listener.orphaned, want)
		}
		if !slices.Equal(w.listener.seen, tt.seen) {
			t.Errorf("%s: got %v seen, want %v", tt.name, w.listener.seen, tt.seen)
		}
	}
}

func TestTheHeadWalkJumpsWhenFinalityIsFarBehind(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 50}, 5)
	w.c.Mine(20)
	w.walkFinal(t)
	w.walkHead(t)
	if want := []uint64{15, 16, 17, 18, 19, 20}; !slices.Equal(w.listener.seen, want[1:]) &&
		!slices.Equal(w.listener.seen, want) {
		t.Errorf("got %v seen, want %v", w.listener.seen, want)
	}
	w.listener.seen = nil
	w.c.Mine(30)
	w.walkHead(t)
	if len(w.listener.seen) < 5 || w.listener.seen[len(w.listener.seen)-1] != 50 || len(w.listener.seen) > 6 {
		t.Errorf("got %v seen, want the last few", w.listener.seen)
	}
	if n := w.count(t, `SELECT count(*) FROM scan_heads`); n != 6 {
		t.Errorf("got %d blocks remembered, want 6", n)
	}
	w.listener.orphaned = nil
	w.c.Fork(10) // deeper than HeadDepth
	w.c.Mine(11)
	w.walkHead(t)
	if len(w.listener.orphaned) != 1 || w.listener.orphaned[0] != 45 {
		t.Errorf("got orphaned from %v, want from 45", w.listener.orphaned)
	}
}

func TestTheHeadWalkGivesWayToWhatBecameFinal(t *testing.T) {
	t.Parallel()
	w := newTestEnv(t, sim.Config{FinalityDepth: 3}, 0)
	w.c.Mine(8)
	w.walkFinal(t)
	w.walkHead(t)
	w.c.Fork(3)
	w.c.Mine(4)
	w.walkFinal(t) // before the head walk notices the fork
	w.walkHead(t)
	if len(w.listener.orphaned) == 0 {
		t.Error("got nothing orphaned, want the old branch")
	}
	_, hash := w.cursor(t)
	if n := w.count(t, `SELECT count(*) FROM scan_heads WHERE hash = $1 OR parent = $1`, hash); n == 0 {
		t.Error("got a head walk that does not stand on what is final")
	}
	if n := w.count(t, `SELECT count(*) FROM scan_heads h WHERE height > 6 AND NOT EXISTS
		(SELECT FROM scan_heads p WHERE p.height = h.height - 1 AND p.hash = h.parent)`); n != 0 {
		t.Errorf("got %d remembered blocks without their parent, want none", n)
	}
}
