package fee_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
)

// testEnv is a database with an organization, a mint of six decimals, and a clock.
type testEnv struct {
	*testing.T
	db  *pg.DB
	org string

	mu     sync.Mutex
	now    time.Time
	quotes map[int]price.Quote
}

func (e *testEnv) clock() time.Time { e.mu.Lock(); defer e.mu.Unlock(); return e.now }

// USD implements price.Source.
func (e *testEnv) USD(_ context.Context, mintID int) (price.Quote, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	q, ok := e.quotes[mintID]
	if !ok {
		return q, price.ErrUnavailable
	}
	return q, nil
}

func (e *testEnv) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	e := &testEnv{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), quotes: map[int]price.Quote{}}
	e.db = pgtest.NewWithClock(t, e.clock)
	dollars := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token,
		Contract: "0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		Symbol:   "DAI", Name: "Dollars", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit:  money.Units(1),
		MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	euros := dollars
	euros.ID, euros.Symbol, euros.Name = 2, "EURX", "Euros"
	euros.Contract = "0x71C7656EC7ab88b098defB751B7401B5f6d8976F"
	e.must(mint.Sync(t.Context(), e.db, []mint.Mint{dollars, euros}))
	made, _, err := org.Create(t.Context(), e.db, "Acme")
	e.must(err)
	e.org = made.ID
	return e
}

// insertLine writes the line of a swap that does not exist, as of now.
func (e *testEnv) insertLine(source string, amount uint64) {
	e.Helper()
	conn := pgtest.Superuser(e, e.db)
	_, err := conn.Exec(e.Context(), `
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at)
		VALUES ('fee_' || $1, $2, 'SWAP_FEE', 'SWAP', $1, 1, $3, 25, $4)`, source, e.org, int64(amount), e.clock())
	e.must(err)
	e.must(conn.Close(e.Context()))
}

func (e *testEnv) newPricer() *fee.Pricer {
	return &fee.Pricer{DB: e.db, Prices: e, Log: slog.New(slog.DiscardHandler)}
}

func (e *testEnv) setPrice(dollars string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.quotes[1] = price.Quote{Price: money.MustParseUSD(dollars), QuotedAt: e.now, Source: "fixed"}
}

func (e *testEnv) advance(d time.Duration) { e.mu.Lock(); defer e.mu.Unlock(); e.now = e.now.Add(d) }

func (e *testEnv) step(p *fee.Pricer, want int) {
	e.Helper()
	if n, err := p.Step(e.Context()); err != nil || n != want {
		e.Fatalf("priced %d %v, want %d", n, err, want)
	}
}

func (e *testEnv) lines() (found []fee.Line) {
	e.Helper()
	e.must(e.db.ReadSystem(e.Context(), func(ctx context.Context, tx pg.Tx) error {
		found = nil
		return fee.ForEach(ctx, tx, fee.Filter{OrgID: e.org}, false, func(l fee.Line) error {
			found = append(found, l)
			return nil
		})
	}))
	return found
}

// wantValue expects the value of a line; "" is none.
func (e *testEnv) wantValue(l fee.Line, want string) {
	e.Helper()
	got := ""
	if l.USDValue != nil {
		got = l.USDValue.String()
	}
	if want != "" {
		want = money.MustParseUSD(want).String()
	}
	if got != want || (l.Price == nil) != (want == "") {
		e.Errorf("line %s: got the value %q by %v, want %q", l.ID, got, l.Price, want)
	}
}

// Rule SWAP-14: a line gets its value once.
func TestALineGetsItsValueOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertLine("one", 750_000)
	e.step(e.newPricer(), 0) // there is no price
	e.wantValue(e.lines()[0], "")
	e.setPrice("2")
	e.step(e.newPricer(), 1)
	e.wantValue(e.lines()[0], "1.5")
	e.setPrice("3")
	e.step(e.newPricer(), 0)
	e.wantValue(e.lines()[0], "1.5")
	if l := e.lines()[0]; l.Price.Source != "fixed" || !l.Price.QuotedAt.Equal(e.clock()) ||
		l.Price.Price != money.MustParseUSD("2") {
		t.Errorf("got the price %+v, want 2 from fixed", l.Price)
	}
	err := e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE fee_lines SET usd_value = 9`)
		return err
	})
	if err == nil {
		t.Error("the value of a line can be changed")
	}
}

// A fee of nothing is worth nothing.
func TestAFeeOfNothingHasAValue(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertLine("one", 0)
	e.setPrice("2")
	e.step(e.newPricer(), 1)
	e.wantValue(e.lines()[0], "0")
}

// A price that is read too late says nothing about the moment of the fee.
func TestALineThatIsPricedTooLateStaysWithoutAValue(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertLine("old", 1_000_000)
	e.advance(15 * time.Minute)
	e.insertLine("young", 1_000_000)
	e.setPrice("1")
	e.step(e.newPricer(), 1)
	for _, l := range e.lines() {
		e.wantValue(l, map[string]string{"young": "1"}[l.SourceID])
	}
}

// A price that is old gives no value.
func TestAnOldPriceGivesNoValue(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setPrice("1")
	e.advance(6 * time.Minute)
	e.insertLine("one", 1_000_000)
	e.step(e.newPricer(), 0)
	p := e.newPricer()
	p.PriceAge = func(int) time.Duration { return time.Hour }
	e.step(p, 1)
}

// Lines that cannot be priced, however many they are, do not delay the others.
func TestLinesWithoutAPriceDelayNoOthers(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	conn := pgtest.Superuser(e, e.db)
	_, err := conn.Exec(e.Context(), `
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at)
		SELECT 'fee_00' || n, $1, 'SWAP_FEE', 'SWAP', 'e' || n, CASE n WHEN 0 THEN 1 ELSE 2 END,
			CASE n WHEN 0 THEN repeat('9', 76)::numeric ELSE 1 END, 25, $2 FROM generate_series(0, 250) n`,
		e.org, e.clock())
	e.must(err)
	e.must(conn.Close(e.Context()))
	e.insertLine("same moment", 1_000_000)
	e.advance(time.Second)
	e.insertLine("later", 1_000_000)
	e.setPrice("1")
	n, err := e.newPricer().Step(e.Context())
	if n != 2 || err == nil {
		t.Errorf("priced %d and %v, want two, and the error of the line that has no value in dollars", n, err)
	}
	for _, l := range e.lines() {
		e.wantValue(l, map[string]string{"same moment": "1", "later": "1"}[l.SourceID])
	}
}

// Two processes price one line: it has one value, and one price.
func TestTwoProcessesPriceALineOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	const lines = 20
	for i := range lines {
		e.insertLine(fmt.Sprint("line", i), 1_000_000)
	}
	e.setPrice("1")
	counts := make([]int, 4)
	errs := make([]error, len(counts))
	var wg sync.WaitGroup
	for i := range counts {
		wg.Go(func() { counts[i], errs[i] = e.newPricer().Step(t.Context()) })
	}
	wg.Wait()
	total := 0
	for i, n := range counts {
		e.must(errs[i])
		total += n
	}
	if total != lines {
		t.Errorf("the processes priced %d lines, want %d", total, lines)
	}
	var marks int
	e.must(e.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM price_marks`).Scan(&marks)
	}))
	if marks != lines {
		t.Errorf("got %d prices, want %d", marks, lines)
	}
}

func TestLinesAreListedByTheirTime(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	start := e.clock()
	for _, source := range []string{"c", "a", "b"} {
		e.insertLine(source, 1)
		e.advance(time.Hour)
	}
	read := func(f fee.Filter) (sources string) {
		t.Helper()
		e.must(e.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			sources = ""
			page, err := fee.List(ctx, tx, f, pagination.Page{Limit: 10})
			for _, l := range page.Items {
				sources += l.SourceID
			}
			return err
		}))
		return sources
	}
	for want, f := range map[string]fee.Filter{
		"cab": {}, "ab": {Start: start.Add(time.Hour)}, "ca": {End: start.Add(2 * time.Hour)},
		"":  {OrgID: "org_other"},
		"a": {OrgID: e.org, Start: start.Add(time.Hour), End: start.Add(2 * time.Hour)},
	} {
		if got := read(f); got != want {
			t.Errorf("%+v: got %q, want %q", f, got, want)
		}
	}
}
