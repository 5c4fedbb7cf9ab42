package surfacetest

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

const formula = "=cmd|' /C calc'!A0"

// table requests a list as CSV.
func (h *testEnv) table(who tenant, path string) (*http.Response, error) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL+kernel.PathPrefix+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("x-api-key", who.key)
	r.Header.Set("Accept", "text/csv")
	return h.server.Client().Do(r)
}

// cells returns the rows of a table, each by the names of its columns.
func (h *testEnv) cells(who tenant, path string) []map[string]string {
	h.t.Helper()
	got, err := h.table(who, path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer got.Body.Close()
	rows, err := csv.NewReader(got.Body).ReadAll()
	if err != nil || got.StatusCode != 200 || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/csv") ||
		len(rows) == 0 {
		h.t.Fatalf("%s: got %v %v %v, want a table", path, got.StatusCode, got.Header, err)
	}
	var out []map[string]string
	for _, row := range rows[1:] {
		named := map[string]string{}
		for i, cell := range row {
			named[rows[0][i]] = cell
			if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
				h.t.Errorf("%s: got the formula %q", path, cell)
			}
		}
		out = append(out, named)
	}
	return out
}

// crowded gives an organization more customers than fit a page.
func (h *testEnv) crowded(n int) {
	h.t.Helper()
	err := h.db.InOrg(h.t.Context(), h.one.id, func(ctx context.Context, tx pg.Tx) error {
		ids := make([]string, n)
		for i := range ids {
			ids[i] = fmt.Sprintf("customer %04d", i)
		}
		return customer.EnsureAll(ctx, tx, h.one.id, ids)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// A read without a table says so instead of answering with JSON; a write answers with JSON, like a
// payment that is known. Rule LIST-2.
func TestAReadWithoutATableRefusesTheWishForOne(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, r := range organizations.Routes {
		if r.Method != http.MethodGet || r.Table != nil || r.NeedsNoKey {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		o.testEnv.wantRefusal(path, o.testEnv.call(o.one, "GET", path, nil, "Accept", "text/csv"), 406,
			"NOT_ACCEPTABLE", "")
		o.testEnv.wantRefusal(path+" without a key", o.testEnv.call(tenant{}, "GET", path, nil, "Accept", "text/csv"),
			401, "UNAUTHORIZED", "")
	}
	o.desk.wantRefusal(
		"an operator's call",
		o.desk.call(o.ann, "GET", "/organizations", nil, "Accept", "text/csv; header=present"), 406, "NOT_ACCEPTABLE",
		"",
	)
	for _, accept := range []string{"", "*/*", "application/json", "text/csv, application/json", "text/html"} {
		o.testEnv.wantStatus(o.testEnv.call(o.one, "GET", "/mints", nil, "Accept", accept), 200)
	}
	first := o.testEnv.wantStatus(
		o.testEnv.call(o.one, "POST", "/withdraw", payment("idempotencyKey", "k"), "Accept", "text/csv"), 202,
	)
	again := o.testEnv.wantStatus(
		o.testEnv.call(o.one, "POST", "/withdraw", payment("idempotencyKey", "k"), "Accept", "text/csv"), 202,
	)
	if again.text("withdrawalId") != first.text("withdrawalId") {
		t.Errorf("repeated: got %s, want %s", again.text("withdrawalId"), first.text("withdrawalId"))
	}
}

// H-25.
// Rules BAL-3, LIST-2.
func TestEveryMoneyListComesWholeAndWithoutFormulas(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.crowded(450)
	h.wantStatus(h.call(
		h.one, "POST", "/deposit",
		map[string]any{"mintId": usdc, "customerId": formula, "customerEmail": "+a@example.com"},
	), 200)
	for i := range 3 {
		key := fmt.Sprint("-k", i)
		h.wantStatus(h.call(
			h.one, "POST", "/withdraw",
			payment("idempotencyKey", key, "reference", "@SUM(A1)", "metadata", map[string]string{"=a": "b"}),
		), 202)
		h.wantStatus(h.call(
			h.one, "POST", "/transfers", charge(key, "reference", "\t=1", "to", map[string]any{"customerId": formula}),
		), 201)
	}
	customers := h.cells(h.one, "/customers")
	if len(customers) != 452 || customers[0]["customerId"] != "'"+formula ||
		customers[0]["customerEmail"] != "'+a@example.com" {
		t.Errorf("customers: got %d, the first %v, want 452 and the newest first", len(customers), customers[0])
	}
	if got := h.cells(h.one, "/customers?order=asc"); got[0]["customerId"] != alice || got[0]["status"] != "ACTIVE" {
		t.Errorf("customers, oldest first: got %v, want alice", got[0])
	}
	withdrawals := h.cells(h.one, "/withdrawals?customerId=alice&status=PROCESSING")
	if len(withdrawals) != 3 || withdrawals[0]["idempotencyKey"] != "'-k2" ||
		withdrawals[0]["reference"] != "'@SUM(A1)" || withdrawals[0]["metadata"] != `{"=a":"b"}` ||
		withdrawals[0]["toAddress"] != stranger || withdrawals[0]["amountDecimal"] != "0.001" {
		t.Errorf("withdrawals: got %v, want three", withdrawals)
	}
	transfers := h.cells(h.one, "/transfers?chain=ETHEREUM&mintId=1&product=CHECKOUT")
	if len(transfers) != 0 {
		t.Errorf("transfers of a product: got %v, want none", transfers)
	}
	transfers = h.cells(h.one, "/transfers?customerId="+url.QueryEscape(formula))
	if len(transfers) != 3 || transfers[0]["reference"] != "'\t=1" || transfers[0]["toCustomerId"] != "'"+formula ||
		transfers[0]["fromCustomerId"] != alice {
		t.Errorf("transfers: got %v, want three", transfers)
	}
}

func TestTablesAreOfWhoAsks(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.wantStatus(h.call(h.one, "POST", "/withdraw", payment()), 202)
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge("k")), 201)
	for _, list := range []string{"/customers", "/deposits", "/withdrawals", "/transfers", "/ledger/entries"} {
		if got := h.cells(h.two, list); len(got) != 0 {
			t.Errorf("%s: got %v, want nothing of another organization", list, got)
		}
		for _, paging := range []string{"limit", "cursor"} {
			h.wantRefusal(list, h.call(h.one, "GET", list+"?"+paging+"=1", nil, "Accept", "text/csv"), 400,
				"INVALID_REQUEST", paging)
		}
		h.wantRefusal(list, h.call(h.one, "GET", list+"?nothing=1", nil, "Accept", "text/csv"), 400, "UNKNOWN_FIELD",
			"nothing")
	}
	h.wantRefusal("without a key", h.call(tenant{}, "GET", "/customers", nil, "Accept", "text/csv"), 401,
		"UNAUTHORIZED", "")
}

// A table that ends early must not look like one that is whole.
// Rule LIST-2.
func TestATableThatBreaksOffIsCut(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.crowded(2000)
	// The newest row cannot be shown, and stands last.
	if _, err := pgtest.OwnerPool(t, h.db).Exec(t.Context(), `
		UPDATE customers SET metadata = '{"a": 1}' WHERE customer_id = 'customer 1999'`); err != nil {
		t.Fatal(err)
	}
	got, err := h.table(h.one, "/customers?order=asc")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	if !errors.Is(err, io.ErrUnexpectedEOF) || got.StatusCode != 200 || len(text) == 0 {
		t.Errorf("got %v, %d bytes and %v, want the beginning and then an error", got.StatusCode, len(text), err)
	}
	// A table that fails before its first byte has an answer like any other failure.
	got, err = h.table(h.one, "/customers?customerId=customer%201999")
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != 500 || got.Header.Get("Content-Type") != "application/json" ||
		got.Header.Get("Content-Disposition") != "" {
		t.Errorf("got %v %v, want 500 in JSON", got.StatusCode, got.Header)
	}
}

// The older protocol cannot distinguish an end from a broken connection.
func TestATableNeedsAProtocolThatShowsItsEnd(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", h.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := fmt.Fprintf(
		conn, "GET /v1/customers HTTP/1.0\r\nx-api-key: %s\r\naccept: text/csv\r\n\r\n", h.one.key,
	); err != nil {
		t.Fatal(err)
	}
	got, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer got.Body.Close()
	if got.StatusCode != 400 {
		t.Errorf("got %v, want 400", got.StatusCode)
	}
}

// Rule LIST-2.
func TestATableIsOfOneMoment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.crowded(10)
	seen := 0
	err := h.db.SnapshotOrg(t.Context(), h.one.id, func(ctx context.Context, tx pg.Tx) error {
		return customer.ForEach(ctx, tx, h.one.id, customer.Filter{}, false, func(customer.Customer) error {
			if seen++; seen == 1 {
				// The newest one comes last, and another caller creates it meanwhile.
				return h.db.InOrg(t.Context(), h.one.id, func(ctx context.Context, tx pg.Tx) error {
					return customer.EnsureAll(ctx, tx, h.one.id, []string{"latecomer"})
				})
			}
			return nil
		})
	})
	if err != nil || seen != 11 {
		t.Errorf("got %d customers and %v, want 11", seen, err)
	}
}
