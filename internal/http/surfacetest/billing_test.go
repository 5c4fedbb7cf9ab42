package surfacetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/wire"
)

func newBilling(db *pg.DB) *billing.Service {
	return &billing.Service{DB: db, Events: wire.NewRecorder()}
}

// insertBillableFee writes a valued network fee of three dollars into a past month without an invoice, makes
// sure of billing terms, and returns the month.
func (h *testEnv) insertBillableFee(of tenant) (month string) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for _, org := range []string{"", of.id} {
			_, err := newBilling(h.db).SaveTerms(ctx, tx, operator.Key{}, changerequest.Rule{}, billing.Terms{
				OrgID: org, Party: document.Party{Name: "Party", Address: []string{"1 Street"}},
			})
			if err != nil {
				return err
			}
		}
		var billed int
		err := tx.QueryRow(ctx, `SELECT count(*) FROM invoices`).Scan(&billed)
		month = tx.Now.AddDate(0, 0, 1-tx.Now.Day()).AddDate(0, -2-billed, 0).Format("2006-01")
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	first, err := time.Parse("2006-01", month)
	if err != nil {
		h.t.Fatal(err)
	}
	// The ledger has no such fee: these tests are about the calls.
	err = pgx.BeginFunc(h.t.Context(), pgtest.Superuser(h.t, h.db), func(tx pgx.Tx) error {
		_, err := tx.Exec(h.t.Context(), `SET LOCAL session_replication_role = replica`)
		if err == nil {
			_, err = tx.Exec(h.t.Context(), `
				WITH mark AS (INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
					VALUES ($1, 3000, 'test', $2, $2) RETURNING price_mark_id)
				INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps,
					usd_value,
					price_mark_id, incurred_at, tx_hash)
				SELECT 'fee_' || $3, $4, 'NETWORK_FEE', 'NETWORK_FEE', 'ord_' || $3, $1, 1000000000000000, 0, 3,
					price_mark_id,
					$2, '0xab' FROM mark`, eth, first.Add(36*time.Hour), fmt.Sprint(month, of.id), of.id)
		}
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return month
}

// issueInvoice issues an invoice of three dollars and returns its id.
func (h *testEnv) issueInvoice(of tenant) string {
	h.t.Helper()
	r, err := newBilling(h.db).IssueInvoices(h.t.Context(), h.insertBillableFee(of), of.id, audit.Operator("test"))
	if err != nil || len(r.Invoices) != 1 {
		h.t.Fatalf("got %+v, %v", r, err)
	}
	return r.Invoices[0].ID
}

// Rules BI-20 and BI-21: an organization reads its own invoices, also as files that always have the same bytes.
func TestAnOrganizationReadsItsInvoices(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	h := o.testEnv
	id := h.issueInvoice(h.one)
	inv := h.wantStatus(h.call(h.one, "GET", "/billing/invoices/"+id, nil), 200).body
	if inv["total"] != "3.00" || inv["status"] != "ISSUED" {
		t.Errorf("got %v", inv)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/billing/invoices?status=ISSUED", nil), 200).list(); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	for suffix, head := range map[string]string{".pdf": "%PDF-", ".html": "<!doctype html>", ".csv": ""} {
		first := h.file(h.one, "/billing/invoices/"+id+suffix, 200)
		if len(first) == 0 || !strings.HasPrefix(strings.ToLower(string(first)), strings.ToLower(head)) {
			t.Errorf("%s begins with %.40q", suffix, first)
		}
		if again := h.file(h.one, "/billing/invoices/"+id+suffix, 200); !bytes.Equal(first, again) {
			t.Errorf("%s has other bytes the second time", suffix)
		}
		h.file(h.two, "/billing/invoices/"+id+suffix, 404)
	}
	h.wantRefusal("of another", h.call(h.two, "GET", "/billing/invoices/"+id, nil), 404, "NOT_FOUND", "")
	if got := h.wantStatus(h.call(h.two, "GET", "/billing/invoices", nil), 200).list(); len(got) != 0 {
		t.Errorf("another organization sees %v", got)
	}
	if got := h.wantStatus(h.call(h.two, "GET", "/billing/credit-notes", nil), 200).list(); len(got) != 0 {
		t.Errorf("another organization sees %v", got)
	}
	bill := h.wantStatus(h.call(h.one, "GET", "/billing/current", nil), 200).body
	if bill["subtotal"] != "0.00" {
		t.Errorf("got %v", bill)
	}
	o.desk.wantStatus(o.desk.call(o.ann, "GET", "/billing/invoices/"+id+"/verification", nil), 200)
	o.desk.wantStatus(o.desk.call(o.ann, "POST", "/billing/invoices/"+id+"/paid",
		map[string]any{"reference": "bank"}), 200)
	o.desk.wantRefusal("another reference", o.desk.call(o.ann, "POST", "/billing/invoices/"+id+"/paid",
		map[string]any{"reference": "other"}), 409, "INVALID_STATE", "")
	month := time.Now().UTC().AddDate(0, 2, 0).Format("2006-01")
	o.desk.wantRefusal("a month that is not over", o.desk.call(o.ann, "POST", "/billing/run",
		map[string]any{"month": month}), 409, "INVALID_STATE", "")
}

// file reads a file with a key and expects a status.
func (h *testEnv) file(who tenant, path string, status int) []byte {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodGet, h.server.URL+"/v1"+path, nil)
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set(h.face.Header, who.key)
	answer, err := h.server.Client().Do(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != status {
		h.t.Errorf("GET %s: got %d %v, want %d: %.200s", path, answer.StatusCode, err, status, body)
	}
	return body
}
