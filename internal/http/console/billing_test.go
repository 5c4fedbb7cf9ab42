package console

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/billingtest"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/wire"
)

const etherID = 2

func (h *testEnv) newBilling() *billing.Service {
	return &billing.Service{DB: h.db, Events: wire.NewRecorder(), Log: slog.New(slog.DiscardHandler)}
}

// lastMonthStart returns the first moment of the month before the present one.
func (h *testEnv) lastMonthStart() time.Time {
	now := h.now().UTC()
	return time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -1, 0)
}

// addFees adds n network fees of the month before, each worth 1.25 dollars, and returns them.
func (h *testEnv) addFees(n int) (fees []billingtest.Fee) {
	h.t.Helper()
	for i := range n {
		fees = append(fees, billingtest.Fee{
			OrgID: h.orgID, SourceID: fmt.Sprintf("wd_of_month_%04d", i), MintID: etherID, Amount: 416_666_666_666_666,
			Price: "3000.0000000000048", TxHash: originHash,
			IncurredAt: h.lastMonthStart().Add(time.Duration(i) * time.Minute),
		})
	}
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error { return billingtest.InsertFees(ctx, tx, fees...) })
	return fees
}

// addToBooks posts a network fee, with the order that a final block ended.
func (h *testEnv) addToBooks(f billingtest.Fee) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		for _, sql := range []string{
			`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract,
				amount, status, attempt_after, created_at, ended_at, tx_hash, fee, proof_id, trigger)
			SELECT $2, $1, 'PLACE', chain, 'wal', $2, mint_id, '', 1, 'PAID', $5, $5, $5, $2, $4, 1, 'VALUE'
			FROM mints WHERE mint_id = $3`,
			`INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, floored, created_at)
			SELECT $1, $3, kind, '', false, $5 FROM unnest('{FEES_DUE,FEES_BILLED}'::text[]) kind
			WHERE ($2::text, $4::numeric) IS NOT NULL ON CONFLICT DO NOTHING`,
			`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id,
				leg, created_at)
			SELECT $1, $3, d.account_id, c.account_id, $4::numeric, 'NETWORK_FEE', $2, 1, $5
			FROM ledger_accounts d, ledger_accounts c
			WHERE (d.org_id, d.mint_id, d.kind, c.org_id, c.mint_id, c.kind) =
				($1, $3, 'FEES_DUE', $1, $3, 'FEES_BILLED')`,
		} {
			_, err := tx.Exec(ctx, sql, f.OrgID, f.SourceID, f.MintID, fmt.Sprint(f.Amount), f.IncurredAt)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// addUnpriced adds a fee without a price.
func (h *testEnv) addUnpriced() {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error {
		return billingtest.InsertFees(ctx, tx, billingtest.Fee{
			OrgID: h.orgID, SourceID: "ord_unpriced", MintID: etherID, Amount: 416_666_666_666_666, TxHash: originHash,
			IncurredAt: h.lastMonthStart().Add(20 * 24 * time.Hour),
		})
	})
}

// saveTerms gives the installation and the organization billing terms.
func (h *testEnv) saveTerms() {
	h.t.Helper()
	s := h.newBilling()
	seller := document.Party{Name: "Operator Ltd", Address: []string{"1 Street"}}
	err := billingtest.SaveTerms(h.t.Context(), s, "", seller)
	if err == nil {
		err = billingtest.SaveTerms(h.t.Context(), s, h.orgID, document.Party{
			Name:    "Müller & Söhne <b>GmbH</b> شركة",
			Address: []string{"شارع 12", strings.Repeat("Langestraße", 8)},
			TaxID:   "DE 123456789", Email: "billing@" + strings.Repeat("long", 20) + ".example",
		})
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// bill gives the organization an invoice with n fees.
func (h *testEnv) bill(n int) (billing.Invoice, []billingtest.Fee) {
	h.t.Helper()
	h.saveTerms()
	fees := h.addFees(n)
	inv, err := billingtest.Issue(h.t.Context(), h.newBilling(), h.orgID, h.lastMonthStart().Format(fee.MonthLayout))
	if err != nil {
		h.t.Fatal(err)
	}
	return inv, fees
}

// fillBilling makes an invoice with fees and n credit notes of it, and a fee without a price.
func (h *testEnv) fillBilling(n int) (billing.Invoice, billing.CreditNote) {
	h.t.Helper()
	inv, fees := h.bill(n + 1)
	h.addUnpriced()
	var note billing.CreditNote
	for i := range n {
		var err error
		note, err = h.newBilling().IssueCreditNote(h.t.Context(), billing.CreditRequest{
			InvoiceID: inv.ID, IdempotencyKey: fmt.Sprint("key-", i), Reason: "Billed for a <b>test</b> شركة",
			Lines: []billing.CreditLine{{FeeLineID: fees[i].ID()}},
		}, h.ann.Actor())
		if err != nil {
			h.t.Fatal(err)
		}
	}
	return inv, note
}

func (h *testEnv) loadInvoice(invoiceID string) billing.Invoice {
	h.t.Helper()
	inv, err := h.newBilling().InvoiceByID(h.t.Context(), invoiceID)
	if err != nil {
		h.t.Fatal(err)
	}
	return inv
}

// countActs counts the entries of the log of what an operator did.
func (h *testEnv) countActs(p operator.Person, action string) int {
	h.t.Helper()
	return h.count(`SELECT count(*) FROM audit_log WHERE action = $1 AND actor_id = $2`, action, p.ID)
}

var formKey = regexp.MustCompile(`name="formKey" value="([^"]+)"`)

// keyOf returns the key of the form that a page shows.
func (r reply) keyOf(t testing.TB) string {
	t.Helper()
	found := formKey.FindStringSubmatch(r.body)
	if found == nil {
		t.Fatalf("got a page without a key: %s", r.body)
	}
	return found[1]
}

// A month's run is shown before and after: what is due, whose terms are missing, and which invoices there are. It is
// done with a factor, and a second run changes nothing. Rules BI-7 and PAGE-98.
func TestABillingRunIsDoneOnItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, page := h.signInAs(h.ann), Prefix+"/billing"
	month := h.lastMonthStart().Format(fee.MonthLayout)
	h.get(ann, page).want(t, http.StatusOK, "Nothing is billed yet", "No organization has fees here",
		`value="`+month+`"`)
	h.addFees(3)
	h.addUnpriced()
	h.get(ann, page).want(t, http.StatusOK, "Not billed: no terms", "$3.75", "4 fees", "1 fee", "/billing-terms")
	h.saveTerms()
	h.get(ann, page).want(t, http.StatusOK, "Due", "by itself from", "06:00 UTC")
	h.get(h.signInAs(h.eve), page).want(t, http.StatusOK, "Your role shows what is due and issues no invoice.")
	present := h.now().UTC().Format(fee.MonthLayout)
	h.get(ann, page+"?month="+present).want(t, http.StatusOK, "The month is not over", "Month is not over")
	h.get(ann, page+"?month=2026-13").want(t, http.StatusBadRequest)
	h.post(ann, page+"/run", "month", present, "organizationId", "").want(t, http.StatusConflict, "is not over")
	h.post(ann, page+"/run", "month", "soon", "organizationId", "").want(t, http.StatusBadRequest)
	h.post(ann, page+"/run", "month", month, "organizationId", "org_01J9ZW3M8Q4S5T6V7W8X9YZABC").
		want(t, http.StatusBadRequest, "There is no such organization.")
	if n := h.count(`SELECT count(*) FROM invoices`); n != 0 {
		t.Fatalf("got %d invoices of refused runs, want none", n)
	}
	for range 2 {
		to := h.post(ann, page+"/run", "month", month, "organizationId", "").location(t)
		if to != page+"?month="+month {
			t.Errorf("got %s, want the page of the month", to)
		}
		h.get(ann, to).want(t, http.StatusOK, "Issued", "$4.46", "INV-000001", "1 fee")
	}
	if n := h.countActs(h.ann, "invoice.issued"); n != 1 {
		t.Errorf("got %d entries of the log by the operator, want one", n)
	}
}

// An invoice is marked as paid with a reference, a factor and the amount that the person saw. A second form shows the
// first reference. Rules BI-11, PAGE-3 and PAGE-98.
func TestAnInvoiceIsMarkedAsPaidOnItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	inv, fees := h.bill(3)
	ann, page := h.signInAs(h.ann), Prefix+"/billing/invoices/"+inv.ID
	left := inv.Outstanding.Cents()
	h.get(ann, Prefix+"/billing/invoices?status=ISSUED").want(t, http.StatusOK, inv.Number, "Unpaid", "$"+left)
	h.get(ann, page).want(t, http.StatusOK, "Left to pay", "$"+left+" arrived", "Tax, 19 %", originHash, "COINGECKO",
		"Müller &amp; Söhne &lt;b&gt;GmbH", fees[0].SourceID)
	h.get(h.signInAs(h.eve), page).
		want(t, http.StatusOK, "does not mark it as paid", "Your role issues no credit note.")
	h.post(ann, page+"/paid", "reference", "bank 1", "code", rightCode+"1").
		want(t, http.StatusUnprocessableEntity, "Tick that the amount arrived.")
	h.post(ann, page+"/paid", "reference", "", "arrived", left, "code", rightCode+"2").
		want(t, http.StatusUnprocessableEntity, "Enter which payment it was.")
	h.post(ann, page+"/paid", "reference", "bank 1", "arrived", left, "code", "000000").want(t, http.StatusUnauthorized)
	h.post(ann, page+"/paid", "reference", "bank 1", "arrived", "9.99", "code", rightCode+"3").
		want(t, http.StatusConflict, "less is left to pay")
	if h.loadInvoice(inv.ID).Status != billing.Issued {
		t.Fatal("a refused form marked the invoice as paid")
	}
	to := h.post(ann, page+"/paid", "reference", "bank <1>", "arrived", left, "code", rightCode+"4").location(t)
	if to != page {
		t.Errorf("got %s, want the page of the invoice", to)
	}
	bob := h.signInAs(h.bob)
	to = h.post(bob, page+"/paid", "reference", "bank 2", "arrived", left, "code", rightCode+"5").location(t)
	if to != page {
		t.Errorf("a second mark: got %s, want the page of the invoice", to)
	}
	h.get(ann, page).want(t, http.StatusOK, "bank &lt;1&gt;", "It is paid.", "Left to pay", "$0.00")
	if n := h.countActs(h.ann, "invoice.paid"); n != 1 {
		t.Errorf("got %d entries of the log, want one by the first operator", n)
	}
	h.get(ann, Prefix+"/billing/invoices.csv?status=PAID").want(t, http.StatusOK, inv.ID, "bank <1>", "0.00")
}

// A credit note gives back ticked fees, an amount of one fee, or all that is left, and never more. Its form counts
// once. Rules BI-13, BI-14, PAGE-15 and PAGE-99.
func TestACreditNoteIsIssuedOnItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	inv, fees := h.bill(4)
	ann, page := h.signInAs(h.ann), Prefix+"/billing/invoices/"+inv.ID+"/credit"
	const unknownFee = "fee_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	code := 0
	send := func(key string, fields ...string) reply {
		code++
		return h.post(ann, page+"/issue", append(fields, "formKey", key, "code", fmt.Sprint(rightCode, code))...)
	}
	shown := h.get(ann, page).want(t, http.StatusOK, "Credit note for "+inv.Number, fees[0].ID(), "Give back")
	h.get(h.signInAs(h.eve), page).want(t, http.StatusOK, "issues no credit note")
	key := shown.keyOf(t)
	for text, fields := range map[string][]string{
		"Tick the fees that are given back.": {"extent", "TICKED", "amount", "", "reason", "x"},
		"You chose all of the invoice":       {"extent", "INVOICE", "amount", "", "reason", "x", "lines", fees[0].ID()},
		"An amount is of one fee.": {
			"extent", "TICKED", "amount", "0.0001", "reason", "x", "lines", fees[0].ID(), "lines", fees[1].ID(),
		},
		"Say why":                 {"extent", "TICKED", "amount", "", "reason", "", "lines", fees[0].ID()},
		"The invoice has no line": {"extent", "TICKED", "amount", "", "reason", "x", "lines", unknownFee},
	} {
		got := send(key, fields...)
		if got.status != http.StatusBadRequest && got.status != http.StatusUnprocessableEntity ||
			!strings.Contains(got.body, text) {
			t.Errorf("got %d, want a refusal with %q: %s", got.status, text, got.body)
		}
	}
	if got := send(key, "extent", "TICKED", "amount", "5", "reason", "x", "lines", fees[0].ID()); got.status <
		http.StatusBadRequest || h.count(`SELECT count(*) FROM credit_notes`) != 0 {
		t.Fatalf("got %d for more than the fee, want a refusal", got.status)
	}
	part := []string{
		"extent", "TICKED", "amount", "0.000208333333333333", "reason", "Half <b>of</b> it", "lines", fees[0].ID(),
	}
	to := send(key, part...).location(t)
	if again := send(key, part...).location(t); again != to {
		t.Errorf("a second click: got %s, want %s", again, to)
	}
	send(key, "extent", "INVOICE", "amount", "", "reason", "x").want(t, http.StatusConflict, "CN-000001")
	h.get(ann, to).want(t, http.StatusOK, "Credit note CN-000001", "Half &lt;b&gt;of&lt;/b&gt; it", inv.Number, "$0.62")
	two := h.get(ann, page).keyOf(t)
	send(two, "extent", "TICKED", "amount", "", "reason", "Two", "lines", fees[1].ID(), "lines", fees[2].ID()).
		location(t)
	three := h.get(ann, page).keyOf(t)
	send(three, "extent", "INVOICE", "amount", "", "reason", "All").location(t)
	if left := h.loadInvoice(inv.ID).Outstanding.Cents(); left != "0.00" && left != "0.01" {
		t.Errorf("got %s left, want nothing but what rounding leaves", left)
	}
	four := h.get(ann, page).keyOf(t)
	send(four, "extent", "INVOICE", "amount", "", "reason", "More").want(t, http.StatusConflict)
	h.get(ann, Prefix+"/billing/credit-notes").want(t, http.StatusOK, "CN-000001", "CN-000002", "CN-000003")
	h.get(ann, Prefix+"/billing/invoices/"+inv.ID).want(t, http.StatusOK, "CN-000003")
	if n := h.countActs(h.ann, "credit_note.issued"); n != 3 {
		t.Errorf("got %d entries of the log, want three", n)
	}
}

// Billing terms wait for another operator where there are two. The same change again finds the first request, and an
// older page saves nothing. Rules BI-15, OP-7 and PAGE-99.
func TestBillingTermsNeedASecondOperator(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	seller, own := Prefix+"/billing/terms", Prefix+"/organizations/"+h.orgID+"/billing-terms"
	fields := func(version, name, rate string) []string {
		return []string{
			"version", version, "legalName", name, "address", "1 Street\r\n\r\nLondon", "taxId", "", "email", "",
			"taxRateBps", rate, "taxNote", "", "invoiceSeries", "", "creditNoteSeries", "", "billingDay", "5",
			"language", "",
		}
	}
	h.get(ann, seller).want(t, http.StatusOK, "There are no seller&#39;s terms", `name="version" value="0"`)
	h.get(ann, own).want(t, http.StatusOK, "This organization is not billed")
	h.get(h.signInAs(h.eve), seller).want(t, http.StatusOK, "does not change them")
	for name, text := range map[string]string{
		"taxRateBps": "Enter a rate from 0 to 100 percent", "billingDay": "Enter a day from 1 to 28.",
		"invoiceSeries": "Enter 1 to 12 letters A to Z and digits.",
		"legalName":     "Enter a name of at most 200 characters",
	} {
		wrong := fields("0", "Operator Ltd", "19")
		for i := 0; i < len(wrong); i += 2 {
			if wrong[i] == name {
				wrong[i+1] = map[string]string{
					"billingDay": "31", "taxRateBps": "19.001", "invoiceSeries": "inv",
					"legalName": strings.Repeat("x", 201),
				}[name]
			}
		}
		h.post(ann, seller+"/save", wrong...).want(t, http.StatusBadRequest, text, "1 Street")
	}
	to := h.post(ann, seller+"/save", fields("0", "Operator Ltd", "19.5")...).location(t)
	if !strings.HasPrefix(to, Prefix+"/changes/chg_") {
		t.Fatalf("got %s, want a change request", to)
	}
	if again := h.post(ann, seller+"/save", fields("0", "Operator Ltd", "19.50")...).location(t); again != to {
		t.Errorf("the same change again: got %s, want %s", again, to)
	}
	h.get(ann, seller).want(t, http.StatusOK, "A change waits for another operator", to)
	h.get(bob, to).want(t, http.StatusOK, "Change billing terms", "the installation", "19.5 %", "1 Street", "London",
		"Series of invoices")
	h.get(bob, Prefix+"/changes").want(t, http.StatusOK, "the installation")
	h.post(bob, to+"/approve").want(t, http.StatusSeeOther)
	h.get(ann, seller).want(t, http.StatusOK, "Terms in force", "Operator Ltd", "19.5 %", "Bob Operator",
		"5 of the month after", `name="version" value="1"`)
	h.post(ann, seller+"/save", fields("0", "Other Ltd", "7")...).
		want(t, http.StatusConflict, "These terms were changed after you opened the page.")
	to = h.post(ann, own+"/save", fields("0", "Müller شركة", "")...).location(t)
	h.post(bob, to+"/approve").want(t, http.StatusSeeOther)
	h.get(ann, own).want(t, http.StatusOK, "Müller شركة", "as the seller&#39;s")
	h.get(ann, Prefix+"/organizations/"+h.orgID).want(t, http.StatusOK, `href="`+own+`"`)
	requested, saved := h.countActs(h.ann, "change.requested"), h.countActs(h.bob, "billing_terms.saved")
	if requested != 2 || saved != 2 {
		t.Errorf("got %d requests and %d saved terms in the log, want two of each", requested, saved)
	}
	h.get(ann, Prefix+"/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC/billing-terms").want(t, http.StatusNotFound)
}

// An organization without a tax note is not one that has the seller's. Rule PAGE-99.
func TestBillingTermsCanHaveNoTaxNote(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	own := Prefix + "/organizations/" + h.orgID + "/billing-terms"
	h.saveTerms()
	save := func(version, note string) {
		t.Helper()
		change := h.post(ann, own+"/save", "version", version, "legalName", "Buyer Ltd", "address", "1 Street",
			"taxId", "", "email", "", "taxRateBps", "", "taxNote", note, "invoiceSeries", "", "creditNoteSeries", "",
			"billingDay", "", "language", "").location(t)
		h.post(bob, change+"/approve").want(t, http.StatusSeeOther)
	}
	want := func(when string, note *string, typed string) {
		t.Helper()
		got, err := h.newBilling().TermsByOrg(t.Context(), h.orgID)
		if err != nil || (got.TaxNote == nil) != (note == nil) || note != nil && *got.TaxNote != *note {
			t.Errorf("%s: got %+v, %v, want the note %v", when, got, err, note)
		}
		h.get(ann, own).want(t, http.StatusOK, `name="taxNote" type="text" value="`+typed+`"`)
	}
	want("as saved", new("VAT 19 %"), "VAT 19 %")
	save("1", "-")
	want("a dash", new(""), "-")
	save("2", "")
	want("empty", nil, "")
}

// A fee without a price stands in its list until an operator states the price of its time, with where it is from. Rules
// BI-5 and PAGE-98.
func TestAPriceIsStatedOnItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, page := h.signInAs(h.ann), Prefix+"/billing/prices"
	h.get(ann, page).want(t, http.StatusOK, "Every fee has its price")
	h.addUnpriced()
	at := h.lastMonthStart().Add(20 * 24 * time.Hour).Format(momentLayout)
	h.get(ann, page).want(t, http.StatusOK, "ord_unpriced", "ETH on Ethereum", `value="`+at+`"`)
	h.get(h.signInAs(h.eve), page).want(t, http.StatusOK, "states no price")
	for i, wrong := range [][]string{
		{"mintId", "2", "price", "much", "source", "x", "at", at},
		{"mintId", "2", "price", "3000", "source", "x", "at", "noon"},
		{"mintId", "coin", "price", "3000", "source", "x", "at", at},
		{"mintId", "2", "price", "0", "source", "x", "at", at},
	} {
		h.post(ann, page+"/add", append(wrong, "code", fmt.Sprint(rightCode, i))...).
			want(t, http.StatusBadRequest, "ord_unpriced")
	}
	to := h.post(ann, page+"/add", "mintId", "2", "price", "3000", "source", "an exchange", "at", at,
		"code", rightCode+"x").location(t)
	h.get(ann, to).want(t, http.StatusOK, "Every fee has its price")
	if n := h.countActs(h.ann, "price_mark.added"); n != 1 {
		t.Errorf("got %d entries of the log, want one", n)
	}
}

// An invoice is computed again on its page, which names the first fee that the books do not have. Its files have the
// bytes of its document. Rules BI-16, BI-21 and PAGE-97.
func TestAnInvoiceIsComputedAgainOnItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	inv, fees := h.bill(2)
	eve, page := h.signInAs(h.eve), Prefix+"/billing/invoices/"+inv.ID
	h.get(eve, page+"?verify=true").want(t, http.StatusOK, "The invoice differs from the books",
		"line "+fees[0].ID()+": the ledger has no such fee")
	if got := h.get(eve, page).want(t, http.StatusOK); strings.Contains(got.body, "differs from the books") {
		t.Error("the page computes the invoice again without being asked")
	}
	for _, f := range fees {
		h.addToBooks(f)
	}
	h.get(eve, page+"?verify=true").want(t, http.StatusOK, "The invoice is what the books say",
		"were computed again from the ledger, the proven transactions and the prices.")
	var pdf bytes.Buffer
	if err := inv.Document.PDF(&pdf); err != nil {
		t.Fatal(err)
	}
	if got := h.get(eve, page+".pdf").want(t, http.StatusOK); got.body != pdf.String() {
		t.Errorf("got %d bytes, want the %d of the document", len(got.body), pdf.Len())
	}
	html := h.get(eve, page+".html").want(t, http.StatusOK, inv.Number)
	if policy := html.header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, document.PagePolicy) {
		t.Errorf("got the policy %s", policy)
	}
	h.get(eve, page+".csv").want(t, http.StatusOK, fees[1].ID())
	h.get(eve, Prefix+"/billing/invoices/inv_01J9ZW3M8Q4S5T6V7W8X9YZABC.pdf").want(t, http.StatusNotFound)
}

// An operator bills a month, marks its invoice as paid and gives a fee back, in a real browser with the mistakes that
// people make. Rules PAGE-98 and PAGE-99.
func TestAMonthIsClosedInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.saveTerms()
	h.addFees(2)
	if _, _, err := org.Create(t.Context(), h.db, "Another"); err != nil {
		t.Fatal(err)
	}
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)
	tab := browser.Open(t)
	tab.SetCookie(base, pages.OperatorSessionCookie, h.signInAs(h.ann))
	tab.OpenURL(base+Prefix+"/billing", looks["light"])
	tab.Click("form[action$=run] button[type=submit]")
	wantText(t, tab, "Issued", "INV-000001")
	tab.Click(`main td a[href*="/billing/invoices/inv_"]`)
	wantText(t, tab, "Invoice INV-000001", "Unpaid")
	tab.Type("#paid-reference", "bank 4711")
	tab.Type("#paid-code", rightCode)
	tab.Click("form[action$=paid] button[type=submit]")
	wantText(t, tab, "Tick that the amount arrived.")
	tab.Click(`a[href$="/credit"]`)
	tick := func(name string) {
		browser.Evaluate[bool](tab, "(document.querySelector('input[name="+name+"]').click(), true)")
	}
	tick("lines")
	tab.Type("#issue-reason", "Billed twice")
	tab.Type("#issue-code", rightCode+"2")
	tab.DoubleClick("form[action$=issue] button[type=submit]")
	wantText(t, tab, "Credit note CN-000001", "Billed twice")
	tab.Click(`main dd a[href*="/billing/invoices/inv_"]`)
	tick("arrived")
	tab.Type("#paid-reference", "bank 4711")
	tab.Type("#paid-code", rightCode+"3")
	tab.Click("form[action$=paid] button[type=submit]")
	wantText(t, tab, "It is paid.", "bank 4711")
	for _, complaint := range tab.ListComplaints() {
		if !strings.Contains(complaint, "status of 422") {
			t.Errorf("the browser complained: %s", complaint)
		}
	}
}
