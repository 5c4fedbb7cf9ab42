package surfacetest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
	"github.com/cofferpay/coffer/internal/wallet"
)

// How many customers there are at the first look and at the second.
const (
	few  = 2_000
	many = 20_000
)

// statements is what the statements of one request read.
type statements struct {
	rows, blocks float64
	whole        []string // tables that were read completely
	dearest      string   // the statement that read the most rows
	most         float64
}

// Rule LIST-4. Every read is made with few customers and with ten times as many, with each of its
// parameters: a new one has to be given a value below. PostgreSQL tells what each statement
// read.
func TestNoReadGrowsWithTheNumberOfCustomers(t *testing.T) {
	t.Parallel()
	cluster := pgtest.StartCluster(t, map[string]string{
		"shared_preload_libraries": "auto_explain,pg_stat_statements", "pg_stat_statements.track_planning": "on",
		"auto_explain.log_min_duration": "0",
		"auto_explain.log_analyze":      "on", "auto_explain.log_buffers": "on",
		"auto_explain.log_timing": "off", "auto_explain.log_format": "json", "auto_explain.log_nested_statements": "on",
	})
	db, err := pg.Open(
		t.Context(), pg.Config{URL: cluster.URL(local.Database), OwnerURL: cluster.OwnerURL(local.Database)}, time.Now,
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	h := newHouseOn(t, db)
	flex := h.conf.DepositSwaps
	flex.GrantKey, flex.Wallets = nil, attestsAll{}
	h.conf.Checkouts.Wallets = attestsAllCheckouts{}
	h.swapper.verify = verifyCrowd
	_, secret, err := operator.CreateKey(t.Context(), db, audit.Operator("test"), "ann")
	if err != nil {
		t.Fatal(err)
	}
	o := &office{testEnv: h, ann: tenant{key: secret.Reveal()}}
	o.desk = o.opened(t, here, kernel.Limits{})

	conn, err := pgx.Connect(t.Context(), cluster.SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	if _, err := conn.Exec(t.Context(), `SET auto_explain.log_min_duration = -1`); err != nil {
		t.Fatal(err)
	}
	sizes := func() map[string]int {
		rows, err := conn.Query(
			t.Context(),
			`SELECT relname, reltuples::int FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace`,
		)
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
	look := func(from, to, rounds int) map[string]statements {
		for _, seed := range []func(context.Context, *pgx.Conn, string, int, int) error{
			population.Seed, population.SeedLists,
		} {
			if err := seed(t.Context(), conn, h.one.id, from, to); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := conn.Exec(t.Context(), `VACUUM ANALYZE`); err != nil {
			t.Fatal(err)
		}
		found := map[string]statements{}
		followed := map[string]bool{}
		for _, side := range []struct {
			house *testEnv
			who   tenant
		}{{h, h.one}, {o.desk, o.ann}} {
			for _, r := range side.house.face.Routes {
				if r.Method != http.MethodGet {
					continue
				}
				for _, path := range slices.Repeat(requests(t, h.one.id, r), rounds) {
					get := func(from, which string) (got reply) {
						name := side.house.face.Header + " " + path + which
						read := readBy(t, filepath.Join(cluster.Dir(), "log"), name, func() {
							if got = side.house.call(side.who, "GET", from, nil); got.status != 200 {
								t.Errorf("GET %s: got %d %.300s", name, got.status, got.raw)
							}
						})
						if was := found[name]; read.rows+read.blocks > was.rows+was.blocks {
							found[name] = read
						}
						return got
					}
					next := get(path, "").text("nextCursor")
					if next == "" {
						continue
					}
					followed[side.house.face.Header+" "+r.Path] = true
					start, _, _ := strings.Cut(path, "?")
					query, err := url.ParseQuery(path[len(start)+1:])
					if err != nil {
						t.Fatal(err)
					}
					query.Set("cursor", next)
					get(start+"?"+query.Encode(), " (second page)")
					// The events have the parameter after for that, and a cursor is before
					// createdBefore.
					if r.Path != "/events" && !query.Has("createdBefore") {
						query.Set("cursor", middle(t, h.conf.CursorKey, h.one.id, path, next, to/2))
						get(start+"?"+query.Encode(), " (page in the middle)")
					}
				}
			}
		}
		for _, list := range []string{
			"ledger/entries", "customers", "deposits", "withdrawals", "transfers", "customer-swaps", "events",
			"deposit-swaps", "organization-swaps", "whitelisted-addresses", "products", "checkouts",
			"payment-links", "refunds", "unmatched-payments", "billing/invoices", "batch-payouts",
			"billing/credit-notes",
		} {
			if !followed[h.face.Header+" /"+list] {
				t.Errorf("GET /%s: got one page, want a list that goes on", list)
			}
		}
		return found
	}

	before := look(0, few, 1)
	small := sizes()
	// PostgreSQL plans a statement for its values at first, and later for any values. Both plans
	// count: the second round is after the change, if there is one.
	after := look(few, many, 2)
	growing := map[string]bool{}
	for name, n := range sizes() {
		growing[name] = n > 2*small[name]+100
	}
	if !growing["customers"] || !growing["ledger_transfers"] || !growing["events"] {
		t.Fatalf("got growing tables %v, want those of the customers", growing)
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		b, a := before[name], after[name]
		// A tree of an index may become one level higher.
		if a.rows > 1.5*b.rows+20 || a.blocks > 2*b.blocks+30 {
			t.Errorf("GET %s: read %.0f rows and %.0f blocks with %d customers, %.0f and %.0f with %d. The dearest statement read %.0f: %s",
				name, b.rows, b.blocks, few, a.rows, a.blocks, many, a.most, a.dearest)
		}
		for _, table := range a.whole {
			if growing[table] {
				t.Errorf("GET %s: reads all of %s", name, table)
			}
		}
	}

	// What follows looks at no plan, and describing each costs more than running it.
	if _, err := conn.Exec(t.Context(), `ALTER SYSTEM SET auto_explain.log_min_duration = -1`); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `SELECT pg_reload_conf()`); err != nil {
		t.Fatal(err)
	}

	// Planning takes longer than running. PostgreSQL keeps the plan of a statement only if the
	// plans for given values are not much cheaper, as they are for a limit that is a parameter.
	if _, err := conn.Exec(t.Context(), `CREATE EXTENSION pg_stat_statements`); err != nil {
		t.Fatal(err)
	}
	for _, side := range []struct {
		house *testEnv
		who   tenant
	}{{h, h.one}, {o.desk, o.ann}} {
		for _, r := range side.house.face.Routes {
			if r.Method != http.MethodGet || strings.Contains(r.Path, "{") {
				continue
			}
			request := func(times int) {
				for range times {
					if got := side.house.call(side.who, "GET", r.Path, nil); got.status != 200 {
						t.Fatalf("GET %s: got %d %.300s", r.Path, got.status, got.raw)
					}
				}
			}
			request(12) // PostgreSQL plans a statement five times before it keeps the plan
			if _, err := conn.Exec(t.Context(), `SELECT pg_stat_statements_reset()`); err != nil {
				t.Fatal(err)
			}
			const times = 8
			request(times)
			rows, err := conn.Query(t.Context(), `
				SELECT query, plans FROM pg_stat_statements(true) s JOIN pg_roles r ON r.oid = s.userid
				WHERE r.rolname <> 'postgres' AND plans > $1 AND query !~ $2`, times/2, byIDs)
			if err != nil {
				t.Fatal(err)
			}
			var text string
			var plans int
			if _, err := pgx.ForEachRow(rows, []any{&text, &plans}, func() error {
				t.Errorf(
					"GET %s %s: %d plans for %d requests: %s", side.house.face.Header, r.Path, plans, times,
					strings.Join(strings.Fields(text), " "),
				)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// attestsAll is the wallets of the seeded deposit swaps, which no signer has attested.
type attestsAll struct{ depositswap.WalletService }

// VerifyAttestation implements depositswap.WalletService.
func (attestsAll) VerifyAttestation(wallet.Wallet) error { return nil }

// attestsAllCheckouts is the wallets of the seeded checkouts, which no signer has attested.
type attestsAllCheckouts struct{ checkout.WalletService }

// VerifyAttestation implements checkout.WalletService.
func (attestsAllCheckouts) VerifyAttestation(wallet.Wallet) error { return nil }

// verifyCrowd returns the quote of a seeded deposit swap, which no provider has signed.
func verifyCrowd(raw []byte) (signedquote.Quote, error) {
	var n int
	if _, err := fmt.Sscanf(string(raw), "crowd %d", &n); err != nil {
		return signedquote.Quote{}, provider.ErrUntrusted
	}
	return signedquote.Quote{
		Scheme: signedquote.OneClickV0, IsFlexible: true, DepositAddress: fmt.Sprintf("0x8%039x", n),
		OriginAsset: "eth", DestinationAsset: "usdc", AmountIn: money.Units(1000), MinAmountIn: money.Units(1000),
		AmountOut: money.Units(900), MinAmountOut: money.Units(890), Recipient: fmt.Sprintf("0x9%039x", n),
		RefundTo: []string{"0xpayer"}, SlippageBps: 100, Deadline: time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC),
	}, nil
}

// byIDs matches the statements that read the rows of one page by their ids. PostgreSQL plans them
// again for lists with few ids, with any number of customers.
const byIDs = `_id = ANY ?\(\$1\)`

// middle returns the cursor of a list in the middle of the seeded rows: the cursor of a second page
// with another time. A cursor names its list.
func middle(t *testing.T, key []byte, org, path, next string, n int) string {
	t.Helper()
	query, err := url.ParseQuery(path[strings.Index(path, "?")+1:])
	if err != nil {
		t.Fatal(err)
	}
	var filters []string
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if name != "limit" {
			filters = append(filters, name, query.Get(name))
		}
	}
	for _, list := range []string{
		"ledger entries", "customers", "deposits", "withdrawals", "transfers", "customer-swaps",
		"organization-swaps", "deposit-swaps", "products", "payment-links", "checkouts", "refunds",
		"unmatched-payments", "deposit swaps of all", "invoices", "invoices of all", "batch payouts",
		"credit notes", "credit notes of all",
		"whitelisted-addresses",
		"mints", "webhook-endpoints",
		"deliveries of " + population.Endpoint,
		"deposits of all", "withdrawals of all", "swaps of all", "fees", "fees of all", "freezes", "organizations",
		"API keys", "API keys of " + org, "whitelisted addresses of " + org,
	} {
		for _, of := range []string{org, ""} {
			scope := append([]string{of, list}, filters...)
			if at, err := pagination.DecodeCursor(next, key, scope...); err == nil {
				at.CreatedAt = time.Date(2026, 1, 1, 0, 0, n, 0, time.UTC)
				return pagination.EncodeCursor(at, key, scope...)
			}
		}
	}
	t.Fatalf("GET %s: name this list, so that its pages are looked at", path)
	return ""
}

// requests returns the paths of a read: bare, with each of its parameters and each value that one
// may have, and with a customer together with each of the others.
func requests(t *testing.T, org string, r kernel.Route) []string {
	t.Helper()
	if _, isSmall := unwatched[r.Path]; isSmall {
		return nil
	}
	const n = 1503
	values := map[string]string{
		"customerId": population.Customer(n), "symbol": "USDC", "mintId": "1", "txHash": population.Hash('d', n),
		"address": population.Address(n), "reference": "monthly",
		"linkId": population.ID("plink", n), "checkoutId": population.ID("co", n),
		"idempotencyKey": fmt.Sprint("key_", n), "createdAfter": "2026-01-01T00:10:00Z",
		"createdBefore": "2026-01-01T00:20:00Z", "since": "2026-01-01T00:10:00Z",
		"after": "1500", "eventId": population.ID("evt", n), "name": "house", "organizationId": org,
		"types": "CUSTOMER_WITHDRAW_CANCELLED", "chain": "ETHEREUM", "search": "USDC",
		"provider": "ONE_CLICK", "month": "2026-01", "invoiceId": population.ID("inv", n),
	}
	places := map[string]string{
		"mintId": "1", "depositId": population.ID("dep", n), "withdrawalId": population.ID("wd", n),
		"transferId": population.ID("tr", n), "swapId": population.ID("cs", n), "customerId": population.Customer(n),
		"depositSwapId": population.ID("ds", n), "productId": population.ID("prod", n),
		"checkoutId": population.ID("co", n), "linkId": population.ID("plink", n),
		"refundId": population.ID("ref", n), "invoiceId": population.ID("inv", n),
		"batchPayoutId": population.ID("bp", n),
		"endpointId":    population.Endpoint, "organizationId": org,
	}
	if strings.HasPrefix(r.Path, "/unmatched-payments/") {
		places["depositId"] = population.ID("dep", 1500) // every twentieth
	}
	path := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(r.Path, func(place string) string {
		value, ok := places[strings.Trim(place, "{}")]
		if !ok {
			value = "?"
		}
		return value
	})
	if strings.Contains(path, "?") {
		t.Errorf("GET %s: give %s a value, so that its statements are looked at", r.Path, path)
		return nil
	}
	// A page of two rows is full with few customers as well.
	start := path + "?"
	if slices.ContainsFunc(r.Query, func(p kernel.Parameter) bool { return p.Name == "limit" }) {
		start += "limit=2&"
	}
	paths, pairs := []string{start}, []string{}
	for _, p := range r.Query {
		var words []string
		switch {
		case p.Name == "cursor" || p.Name == "limit":
			continue
		case p.Kind == kernel.WordParameter:
			words = p.Enum
		case p.Kind == kernel.FlagParameter:
			words = []string{"true", "false"}
		default:
			value, ok := values[p.Name]
			if !ok {
				t.Errorf("GET %s: give the parameter %s a value, so that its statements are looked at", r.Path, p.Name)
			}
			words = []string{value}
		}
		if p.Name == "mintId" {
			words = append(words, "2")
		}
		if _, not := unwatched[r.Path+"?"+p.Name]; not {
			continue
		}
		for _, word := range words {
			q := p.Name + "=" + url.QueryEscape(word)
			paths = append(paths, start+q)
			if p.Name == "createdAfter" {
				pairs = append(pairs, start+"order=asc&"+q)
			}
			if p.Name != "customerId" && p.Name != "product" && p.Name != "type" &&
				slices.ContainsFunc(r.Query, func(p kernel.Parameter) bool { return p.Name == "customerId" }) {
				pairs = append(pairs, start+"customerId="+values["customerId"]+"&"+q)
			}
		}
	}
	return append(paths, pairs...)
}

// unwatched lists reads whose statements are not measured, and why.
var unwatched = map[string]string{
	"/webhook-jobs/{jobId}":              "one row by its key, and the organization's deliveries of that job",
	"/change-requests/{changeRequestId}": "one row by its key, of a table that operators write",
	"/local-risk/{address}":              "one row by its key, of a table that operators write",
	"/checkouts/{checkoutId}/receipt":    "one row by its key with its payments, as /checkouts/{checkoutId} reads",
	"/organization-swap/{swapId}":        "one row by its key, of a table that customers' swaps fill",

	"/batch-payouts/{batchPayoutId}/items/{row}/proof": "reads every row of one batch, at most 5000, which are its tree",

	"/billing/current":                           "adds up the fees that no invoice has, which are those of a month",
	"/billing/unpriced":                          "the fees without a price, at most 1000, until an operator states it",
	"/billing/invoices/{invoiceId}/verification": "computes every line of one invoice again",

	"/checkouts?exception": "looks through the checkouts with an exception, which a person looks at one by one",

	"/webhook-endpoints/{endpointId}/deliveries?type": "looks through the attempts of the endpoint, which are kept " +
		"for 30 days",
}

// readBy returns the rows and blocks that statements read, from PostgreSQL's log of that time.
func readBy(t *testing.T, log, name string, act func()) (s statements) {
	t.Helper()
	size := func() int64 {
		info, err := os.Stat(log)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	from := size()
	act()
	file, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	text := make([]byte, size()-from)
	if _, err := file.ReadAt(text, from); err != nil {
		t.Fatal(err)
	}
	for _, part := range bytes.Split(text, []byte("  plan:\n"))[1:] {
		var logged struct {
			Text string `json:"Query Text"`
			Plan plan
		}
		if err := json.NewDecoder(bytes.NewReader(part)).Decode(&logged); err != nil {
			t.Fatalf("GET %s: read a plan: %v", name, err)
		}
		rows := logged.Plan.read(&s)
		s.rows, s.blocks = s.rows+rows, s.blocks+logged.Plan.Hit+logged.Plan.Read
		if rows >= s.most {
			s.most, s.dearest = rows, strings.Join(strings.Fields(logged.Text), " ")
		}
	}
	return s
}

// plan is a node of a plan with its figures.
type plan struct {
	Node    string  `json:"Node Type"`
	Table   string  `json:"Relation Name"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Checked float64 `json:"Rows Removed by Index Recheck"`
	Hit     float64 `json:"Shared Hit Blocks"`
	Read    float64 `json:"Shared Read Blocks"`
	Plans   []plan
}

// read returns how many rows of tables the node and those below it read.
func (p plan) read(s *statements) (rows float64) {
	if p.Table != "" && strings.Contains(p.Node, "Scan") {
		rows = (p.Rows + p.Removed + p.Checked) * p.Loops
		// A join whose other side is empty looks at the first row and ends.
		if p.Node == "Seq Scan" && rows > p.Loops {
			s.whole = append(s.whole, p.Table)
		}
	}
	for _, below := range p.Plans {
		rows += below.read(s)
	}
	return rows
}
