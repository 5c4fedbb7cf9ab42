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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
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

// ear is a listener that remembers what it was told.
type ear struct {
	mu       sync.Mutex
	seen     []uint64
	orphaned []uint64
	observed []scan.Proof
	found    []scan.Found // of final blocks
	fail     func(p scan.Proof) error
}

func (e *ear) Seen(_ context.Context, _ pg.Tx, _ chain.Name, b chain.Block, _ []scan.Found) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.seen = append(e.seen, b.Height)
	return nil
}

func (e *ear) Orphaned(_ context.Context, _ pg.Tx, _ chain.Name, from uint64) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orphaned = append(e.orphaned, from)
	return nil
}

func (e *ear) Observe(_ context.Context, _ chain.Name, _ chain.Block, f []scan.Found) scan.Taking {
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

type world struct {
	db  *pg.DB
	c   *sim.Chain
	ear *ear
	w   *scan.Walker
}

func open(t *testing.T, conf sim.Config, depth uint64) *world {
	t.Helper()
	db := pgtest.New(t)
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatalf("create an organization: %v", err)
	}
	err = mint.Sync(t.Context(), db, []mint.Mint{
		{
			ID: eth, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18,
			MinDeposit: money.Units(10), MinWithdraw: money.Units(10), Finality: "FINALIZED",
		},
		{
			ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: usdcAt, Symbol: "USDC", Name: "USD Coin", Decimals: 6,
			MinDeposit: money.Units(10), MinWithdraw: money.Units(10), Finality: "FINALIZED",
		},
	})
	if err != nil {
		t.Fatalf("sync the mints: %v", err)
	}
	super := pgtest.Owner(t, db)
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
	e := &ear{}
	return &world{db: db, c: c, ear: e, w: walker(db, c, e, depth)}
}

func walker(db *pg.DB, c *sim.Chain, l scan.Listener, depth uint64) *scan.Walker {
	start := uint64(0)
	return scan.New(db, scan.Config{Chain: chain.Ethereum, Reader: c, Start: &start, HeadDepth: depth}, l,
		slog.New(slog.NewTextHandler(io.Discard, nil)))
}

// final walks until nothing is new.
func (w *world) final(t *testing.T) {
	t.Helper()
	for {
		moved, err := w.w.Final(t.Context())
		if err != nil {
			t.Fatalf("final walk: %v", err)
		}
		if !moved {
			return
		}
	}
}

func (w *world) head(t *testing.T) {
	t.Helper()
	for {
		moved, err := w.w.Head(t.Context())
		if err != nil {
			t.Fatalf("head walk: %v", err)
		}
		if !moved {
			return
		}
	}
}

func (w *world) cursor(t *testing.T) (height uint64, hash string) {
	t.Helper()
	err := pgtest.Owner(t, w.db).QueryRow(t.Context(), `SELECT height, hash FROM scan_cursors WHERE chain = 'ETHEREUM'`).Scan(&height, &hash)
	if err != nil {
		t.Fatalf("read the cursor: %v", err)
	}
	return height, hash
}

func (w *world) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	if err := pgtest.Owner(t, w.db).QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
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
			w := open(t, sim.Config{Behind: 3}, 0)
			w.c.Mine(10)
			first := scan.New(w.db, scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: tt.start}, w.ear, slog.New(slog.DiscardHandler))
			if moved, err := first.Final(t.Context()); !moved || err != nil {
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
	w := open(t, sim.Config{Behind: 3}, 0)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(10)
	w.final(t)
	w.final(t)
	var heights []uint64
	for i, p := range w.ear.observed {
		heights = append(heights, p.Height)
		if i > 0 && p.Parent != w.ear.observed[i-1].Hash {
			t.Errorf("block %d: got parent %s, want %s", p.Height, p.Parent, w.ear.observed[i-1].Hash)
		}
	}
	if want := []uint64{1, 2, 3, 4, 5, 6, 7}; !slices.Equal(heights, want) {
		t.Errorf("got %v, want %v", heights, want)
	}
	if len(w.ear.found) != 1 || w.ear.found[0].Wallet.ID != "adr_0" || w.ear.found[0].Mint.ID != usdc || w.ear.found[0].Doubt != "" {
		t.Errorf("got %+v, want the one transfer", w.ear.found)
	}
	if n := w.count(t, `SELECT count(*) FROM finality_proofs`); n != 7 {
		t.Errorf("proofs: got %d, want 7", n)
	}
}

func TestWhatComesFromAWalletOfOursIsMarked(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{}, 0)
	w.c.Mint(ours2, usdcAt, money.Units(500))
	w.c.Pay(ours2, ours, usdcAt, 100)
	w.c.Pay(payer, ours, sim.Address("unknown token"), 0)
	w.c.Mine(4)
	w.final(t)
	if len(w.ear.found) != 1 || !w.ear.found[0].FromOurs {
		t.Errorf("got %+v, want the one transfer, from ours", w.ear.found)
	}
}

func TestAListenerThatFailsKeepsTheCursorWhereItWas(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{}, 0)
	w.c.Mine(8)
	boom := errors.New("boom")
	for _, panics := range []bool{false, true} {
		w.ear.fail = func(p scan.Proof) error {
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
				_, _ = w.w.Final(t.Context())
			}()
		}
		if height, _ := w.cursor(t); height != 2 {
			t.Errorf("panics %v: got cursor %d, want 2", panics, height)
		}
		if n := w.count(t, `SELECT count(*) FROM finality_proofs WHERE height = 3`); n != 0 {
			t.Errorf("panics %v: got %d proofs of the block, want none", panics, n)
		}
	}
	w.ear.fail = nil
	w.final(t)
	if height, _ := w.cursor(t); height != 5 {
		t.Errorf("mended: got cursor %d, want 5", height)
	}
}

func TestTwoWalkersTakeEachBlockOnce(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{}, 0)
	w.c.Mine(40)
	var running sync.WaitGroup
	for range 2 {
		second := walker(w.db, w.c, w.ear, 0)
		running.Go(func() {
			for {
				final, err := second.Final(t.Context())
				if err != nil {
					t.Errorf("final walk: %v", err)
					return
				}
				head, err := second.Head(t.Context())
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
	for i, p := range w.ear.observed {
		if p.Height != uint64(i+1) {
			t.Fatalf("observed %d: got height %d, want %d", i, p.Height, i+1)
		}
	}
	if len(w.ear.observed) != 37 {
		t.Errorf("got %d blocks observed, want 37", len(w.ear.observed))
	}
	if got := w.db.Counts().Deadlocks; got != 0 {
		t.Errorf("got %d deadlocks, want none", got)
	}
}

func TestRunWalksAndAnotherTakesOverWhenItEnds(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{}, 0)
	start := uint64(0)
	var ends []context.CancelFunc
	var running sync.WaitGroup
	for range 2 {
		ctx, end := context.WithCancel(t.Context())
		ends = append(ends, end)
		walker := scan.New(w.db, scan.Config{Chain: chain.Ethereum, Reader: w.c, Start: &start, Poll: 5 * time.Millisecond}, w.ear, slog.New(slog.DiscardHandler))
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

// await waits until the final walk stands at a height.
func (w *world) await(t *testing.T, height uint64) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	super := pgtest.Owner(t, w.db)
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
			w := open(t, sim.Config{Providers: 2}, 0)
			w.c.MineEmpty(2)
			w.c.Pay(payer, ours, usdcAt, 100)
			w.c.Mine(6)
			tt.spoil(w.c, true)
			var err error
			for range 10 {
				_, err = w.w.Final(t.Context())
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
			w.final(t)
			if height, _ := w.cursor(t); height != 5 || len(w.ear.found) != 1 {
				t.Errorf("mended: got cursor %d and %v, want 5 and the transfer", height, w.ear.found)
			}
		})
	}
}

func TestAProviderThatIsBehindStopsNothingForGood(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{Providers: 2}, 0)
	w.c.Mine(10)
	w.c.Provider(1).Lag(4)
	w.final(t)
	w.head(t)
	if height, _ := w.cursor(t); height != 3 {
		t.Errorf("cursor: got %d, want 3", height)
	}
	w.c.Provider(0).PinHead(4) // the head goes backwards
	w.final(t)
	w.head(t)
	if len(w.ear.orphaned) != 0 {
		t.Errorf("got %v orphaned, want nothing", w.ear.orphaned)
	}
	w.c.Provider(0).UnpinHead()
	w.c.Provider(1).Lag(0)
	w.final(t)
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
			w := open(t, sim.Config{Behind: 3}, 0)
			w.c.Mine(8)
			w.final(t)
			w.c.Fork(5)
			w.c.Mine(tt.mine)
			for range 2 {
				if moved, err := w.w.Final(t.Context()); moved || !errors.Is(err, scan.ErrFinalityBroken) {
					t.Fatalf("got %v, %v, want ErrFinalityBroken", moved, err)
				}
			}
			if height, _ := w.cursor(t); height != 5 {
				t.Errorf("cursor: got %d, want 5", height)
			}
			err := w.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				f, err := freeze.Standing(ctx, tx, freeze.Of{Chain: chain.Ethereum})
				if err == nil && (f == nil || f.Source != freeze.ByFinality) {
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
	w := open(t, sim.Config{Behind: 3}, 0)
	w.c.Mine(8)
	w.final(t)
	if err := w.w.Rewind(t.Context(), 2, audit.Operator("op")); err != nil {
		t.Fatalf("Rewind: %v", err)
	}
	w.c.Fork(5) // blocks 4 and 5 were final
	w.c.Mine(9)
	var err error
	for range 4 {
		_, err = w.w.Final(t.Context())
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
	w := open(t, sim.Config{Providers: 3, Agree: 2}, 0)
	w.c.Mine(8)
	w.final(t)
	w.c.Provider(0).LieHash(5, true) // about the block that the cursor stands on
	if moved, err := w.w.Final(t.Context()); moved || !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("got %v, %v, want ErrDisagreement", moved, err)
	}
	w.c.Mine(2)
	w.final(t)
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
		{"less arrives", []sim.Move{{Contract: usdcAt, To: ours, Amount: money.Units(100), Moves: &half}}, scan.BalanceDelta, scan.BalanceDelta, 1},
		{"nothing arrives", []sim.Move{{Contract: usdcAt, To: ours, Amount: money.Units(100), Moves: &nothing}}, scan.BalanceDelta, scan.BalanceDelta, 1},
		{"more arrives", []sim.Move{
			{Contract: usdcAt, To: ours, Amount: money.Units(100)},
			{Contract: usdcAt, To: ours, Amount: money.Units(7), Silent: true},
		}, "", "UNATTRIBUTED", 0},
		{"native coin that nothing explains", []sim.Move{
			{To: ours, Amount: money.Units(100)},
			{Kind: chain.Internal, To: ours, Amount: money.Units(7)},
		}, "", "UNATTRIBUTED", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := open(t, sim.Config{Untraced: true}, 0)
			w.c.Do(payer, tt.moves...)
			w.c.Mine(4)
			w.final(t)
			if len(w.ear.found) != 1 || w.ear.found[0].Doubt != tt.doubt {
				t.Errorf("got %+v, want doubt %q", w.ear.found, tt.doubt)
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
	w := open(t, sim.Config{}, 0)
	w.c.Silence(usdcAt, true)
	w.c.Do(payer, sim.Move{Contract: usdcAt, To: ours, Amount: money.Units(100)}, sim.Move{To: ours2, Amount: money.Units(70)})
	w.c.Mine(4)
	w.final(t)
	if len(w.ear.found) != 2 {
		t.Fatalf("got %+v, want both movements", w.ear.found)
	}
	for _, f := range w.ear.found {
		want := ""
		if f.Contract == usdcAt {
			want = scan.BalanceDelta
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
	w := open(t, sim.Config{}, 0)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(4)
	w.c.Provider(0).Prune(true)
	if _, err := w.w.Final(t.Context()); err != nil {
		t.Fatalf("open: %v", err)
	}
	moved, err := w.w.Final(t.Context())
	if moved || !errors.Is(err, chain.ErrStateGone) || !strings.Contains(err.Error(), "chains.ETHEREUM.archives") {
		t.Errorf("got %v, %v, want an error that says which setting mends it", moved, err)
	}
	w.c.Provider(0).Prune(false)
	w.final(t)
	if len(w.ear.found) != 1 {
		t.Errorf("got %v, want the transfer", w.ear.found)
	}
}

func TestARewoundWalkFindsTheSameProofs(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{}, 0)
	w.c.Pay(payer, ours, usdcAt, 100)
	w.c.Mine(8)
	w.final(t)
	before := slices.Clone(w.ear.observed)
	if err := w.w.Rewind(t.Context(), 1, audit.Operator("op")); err != nil {
		t.Fatalf("Rewind: %v", err)
	}
	w.final(t)
	if got, want := w.ear.observed[len(before):], before[1:]; !slices.Equal(ids(got), ids(want)) {
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
	w := open(t, sim.Config{Behind: 8}, 0)
	w.c.Mine(6)
	w.final(t)
	w.head(t)
	if want := []uint64{1, 2, 3, 4, 5, 6}; !slices.Equal(w.ear.seen, want) {
		t.Fatalf("got %v seen, want %v", w.ear.seen, want)
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
		w.ear.seen, w.ear.orphaned = nil, nil
		w.c.Fork(tt.depth)
		w.c.Mine(tt.add)
		w.head(t)
		if want := []uint64{tt.orphaned}; !slices.Equal(w.ear.orphaned, want) {
			t.Errorf("%s: got orphaned from %v, want %v", tt.name, w.ear.orphaned, want)
		}
		if !slices.Equal(w.ear.seen, tt.seen) {
			t.Errorf("%s: got %v seen, want %v", tt.name, w.ear.seen, tt.seen)
		}
	}
}

func TestTheHeadWalkJumpsWhenFinalityIsFarBehind(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{Behind: 50}, 5)
	w.c.Mine(20)
	w.final(t)
	w.head(t)
	if want := []uint64{15, 16, 17, 18, 19, 20}; !slices.Equal(w.ear.seen, want[1:]) && !slices.Equal(w.ear.seen, want) {
		t.Errorf("got %v seen, want %v", w.ear.seen, want)
	}
	w.ear.seen = nil
	w.c.Mine(30)
	w.head(t)
	if len(w.ear.seen) < 5 || w.ear.seen[len(w.ear.seen)-1] != 50 || len(w.ear.seen) > 6 {
		t.Errorf("got %v seen, want the last few", w.ear.seen)
	}
	if n := w.count(t, `SELECT count(*) FROM scan_heads`); n != 6 {
		t.Errorf("got %d blocks remembered, want 6", n)
	}
	w.ear.orphaned = nil
	w.c.Fork(10) // deeper than what is remembered
	w.c.Mine(11)
	w.head(t)
	if len(w.ear.orphaned) != 1 || w.ear.orphaned[0] != 45 {
		t.Errorf("got orphaned from %v, want from 45", w.ear.orphaned)
	}
}

func TestTheHeadWalkGivesWayToWhatBecameFinal(t *testing.T) {
	t.Parallel()
	w := open(t, sim.Config{Behind: 3}, 0)
	w.c.Mine(8)
	w.final(t)
	w.head(t)
	w.c.Fork(3)
	w.c.Mine(4)
	w.final(t) // before the head walk notices the fork
	w.head(t)
	if len(w.ear.orphaned) == 0 {
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
