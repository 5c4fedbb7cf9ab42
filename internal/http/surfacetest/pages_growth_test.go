package surfacetest

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/pageset"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

// nextPage matches the link of a list to its next page.
var nextPage = regexp.MustCompile(`href="([^"]*[?&](?:amp;)?(?:cursor|before)=[^"]*)"`)

// unwatchedPages lists filters of pages whose statements are not compared, and why.
var unwatchedPages = map[string]string{
	"/developers/webhooks/{endpointId}/deliveries?type": "looks through the attempts of the endpoint, which are kept " +
		"for 30 days",
}

// countsOpen lists pages with the number of all freezes in force: the population has one for each fiftieth
// customer. TestWhatNeedsAnOperatorIsNamedOnce compares what they read.
var countsOpen = map[string]bool{"/console": true, "/console/signer": true}

// A full page reads at most so many rows and blocks, with all that belongs to its rows. What reads less may
// grow: with few customers the page was not full.
const (
	pageRowsMax   = 400
	pageBlocksMax = 1_600
)

// Rule PAGE-73. Every page of both surfaces is loaded with few customers and with ten times as many: as it
// is, with each value of each of its parameters, and the next page of a list. PostgreSQL tells what each
// statement read. A new page or parameter has to be given a value in package pageset.
func TestNoPageGrowsWithTheNumberOfTransactions(t *testing.T) {
	t.Parallel()
	cluster := pgtest.StartCluster(t, map[string]string{
		"shared_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0",
		"auto_explain.log_analyze": "on", "auto_explain.log_buffers": "on",
		"auto_explain.log_timing": "off", "auto_explain.log_format": "json", "auto_explain.log_nested_statements": "on",
	})
	db, err := pg.Open(
		t.Context(), pg.Config{URL: cluster.URL(local.Database), OwnerURL: cluster.OwnerURL(local.Database)}, time.Now,
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	token := mint.Mint{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0x1", Symbol: "USDC",
		Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(5),
		MinWithdraw: money.Units(10), ConfirmationsRequired: 2, Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = eth, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(t.Context(), db, []mint.Mint{token, coin}); err != nil {
		t.Fatal(err)
	}
	made, _, err := org.Create(t.Context(), db, "House")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), cluster.SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), `SET auto_explain.log_min_duration = -1`); err != nil {
		t.Fatal(err)
	}
	seed := func(from, to int) {
		if err := population.Seed(t.Context(), conn, made.ID, from, to); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Exec(t.Context(), `VACUUM ANALYZE`); err != nil {
			t.Fatal(err)
		}
	}
	seed(0, few)
	set, err := pageset.New(t.Context(), pageset.Config{
		DB: db, Super: conn, OrgID: made.ID, Customers: few, Dir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	look := func(rounds int) map[string]statements {
		found := map[string]statements{}
		for _, face := range set.Surfaces {
			server := httptest.NewServer(face.Handler)
			defer server.Close()
			read := func(path, name string) (body string) {
				seen := readBy(t, filepath.Join(cluster.Dir(), "log"), name, func() {
					status, text := loadPage(t, face, server.URL, path)
					// A list refuses a filter that its kind does not have.
					isRefused := strings.Contains(path, "/transactions?") && status == http.StatusBadRequest
					if body = text; status != http.StatusOK && !isRefused {
						t.Errorf("GET %s: got %d %.600s", path, status, text)
					}
				})
				if before := found[name]; seen.rows+seen.blocks > before.rows+before.blocks {
					found[name] = seen
				}
				return body
			}
			plain, err := face.ListVisits()
			if err != nil {
				t.Fatal(err)
			}
			filtered, err := face.ListFiltered()
			if err != nil {
				t.Fatal(err)
			}
			for _, visit := range slices.Concat(plain, filtered) {
				if isUnwatched(visit) {
					continue
				}
				for range rounds {
					body := read(visit.Path, visit.Path)
					for _, next := range nextPage.FindAllStringSubmatch(body, -1) {
						if !strings.Contains(next[1], ".csv") { // A table has all rows.
							read(strings.ReplaceAll(next[1], "&amp;", "&"), visit.Path+" (next page)")
						}
					}
				}
			}
		}
		return found
	}
	before := look(1)
	small := tableSizes(t, conn)
	seed(few, many)
	// PostgreSQL plans a statement for its values at first, and later for any values. Both plans count.
	after := look(2)
	growing := map[string]bool{}
	for name, n := range tableSizes(t, conn) {
		growing[name] = n > 2*small[name]+100 && n > few // Reading a smaller table is as quick as its index.
	}
	for _, name := range []string{"customers", "deposits", "withdrawals", "transfers", "audit_log", "deliveries"} {
		if !growing[name] {
			t.Fatalf("got growing tables %v, want %s among them", growing, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		b, a := before[name], after[name]
		// A tree of an index may become one level higher.
		isMore := a.rows > max(1.5*b.rows+20, pageRowsMax) || a.blocks > max(2*b.blocks+30, pageBlocksMax)
		if isMore && !countsOpen[name] {
			t.Errorf("%s: read %.0f rows and %.0f blocks with %d customers, %.0f and %.0f with %d. The dearest "+
				"statement read %.0f: %s", name, b.rows, b.blocks, few, a.rows, a.blocks, many, a.most, a.dearest)
		}
		for _, table := range a.whole {
			if growing[table] {
				t.Errorf("%s: reads all of %s", name, table)
			}
		}
	}
}

func isUnwatched(visit pageset.Visit) bool {
	_, query, _ := strings.Cut(visit.Path, "?")
	parameter, _, _ := strings.Cut(query, "=")
	return unwatchedPages[visit.Page.Path+"?"+parameter] != ""
}

// tableSizes returns how many rows each table has.
func tableSizes(t *testing.T, conn *pgx.Conn) map[string]int {
	t.Helper()
	rows, err := conn.Query(t.Context(),
		`SELECT relname, reltuples::int FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int{}
	var name string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&name, &n}, func() error { sizes[name] = n; return nil }); err != nil {
		t.Fatal(err)
	}
	return sizes
}

// loadPage loads a page and returns its status and text.
func loadPage(t *testing.T, face *pageset.Surface, base, path string) (status int, body string) {
	t.Helper()
	if u, err := url.Parse(path); err != nil || u.IsAbs() {
		t.Fatalf("the path %q is not one: %v", path, err)
	}
	r, err := face.NewRequest(t.Context(), base, path)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	got, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if err != nil {
		t.Fatal(err)
	}
	return got.StatusCode, string(text)
}
