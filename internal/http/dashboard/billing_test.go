package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/billing/billingtest"
	"github.com/cofferpay/coffer/internal/billing/document"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/wire"
)

// longName is a name as long as a party may have, of several alphabets and directions.
var longName = "Müller & Söhne <b>GmbH</b> شركة المثال " + strings.Repeat("Beteiligungsverwaltungs", 5)

// nextOf matches the link to the next page of a list.
var nextOf = regexp.MustCompile(`href="([^"]*)">Next page`)

func (h *testEnv) billing() *billing.Service {
	return &billing.Service{DB: h.db, Events: wire.NewRecorder()}
}

// lastMonth returns the month before the present one, with its first moment.
func (h *testEnv) lastMonth() (month string, start time.Time) {
	now := h.now().UTC()
	start = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC).AddDate(0, -1, 0)
	return start.Format(fee.MonthLayout), start
}

// newFees returns n network fees of a half thousandth of a coin, a minute apart, each with a price.
func (h *testEnv) newFees(who tenant, n int, from time.Time) (fees []billingtest.Fee) {
	for i := range n {
		fees = append(fees, billingtest.Fee{
			OrgID: who.id, SourceID: fmt.Sprintf("wd_%s%04d", from.Format("0102"), i), MintID: eth,
			Amount: 416_666_666_666_666, Price: "3000.123456789012345678", TxHash: firstHash,
			IncurredAt: from.Add(time.Duration(i) * time.Minute),
		})
	}
	return fees
}

func (h *testEnv) addFees(fees ...billingtest.Fee) {
	h.t.Helper()
	h.insertRows(func(ctx context.Context, tx pgx.Tx) error { return billingtest.InsertFees(ctx, tx, fees...) })
}

// bill issues the invoice of the month before for fees.
func (h *testEnv) bill(who tenant, fees ...billingtest.Fee) billing.Invoice {
	h.t.Helper()
	h.addFees(fees...)
	ctx, s := h.t.Context(), h.billing()
	month, _ := h.lastMonth()
	seller := document.Party{Name: "Operator Ltd", Address: []string{"1 Street", "London"}}
	err := billingtest.SaveTerms(ctx, s, "", seller)
	if err == nil {
		err = billingtest.SaveTerms(ctx, s, who.id, document.Party{
			Name: longName, Address: []string{"شارع 12", strings.Repeat("Langestraße", 8)}, TaxID: "DE 123456789",
			Email: "billing@" + strings.Repeat("long", 20) + ".example",
		})
	}
	var inv billing.Invoice
	if err == nil {
		inv, err = billingtest.Issue(ctx, s, who.id, month)
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return inv
}

// credit gives a fee of an invoice back.
func (h *testEnv) credit(inv billing.Invoice, key, feeLineID string) billing.CreditNote {
	h.t.Helper()
	note, err := h.billing().IssueCreditNote(h.t.Context(), billing.CreditRequest{
		InvoiceID: inv.ID, IdempotencyKey: key, Reason: "Billed for a <b>test</b>",
		Lines: []billing.CreditLine{{FeeLineID: feeLineID}},
	}, audit.System("test"))
	if err != nil {
		h.t.Fatal(err)
	}
	return note
}

// fillBilling gives an organization at least n fees of this month, of which one has no price, an invoice with n fees,
// and n credit notes of it, of which it returns the last one.
func (h *testEnv) fillBilling(who tenant, n int) (billing.Invoice, billing.CreditNote) {
	h.t.Helper()
	_, start := h.lastMonth()
	fees := h.newFees(who, n+3, start)
	prepaid := fees[0]
	prepaid.SourceKind, prepaid.IsCredit = "FEE_PREPAID", true
	inv := h.bill(who, append(fees, prepaid)...)
	var note billing.CreditNote
	for i := range n {
		note = h.credit(inv, fmt.Sprint("key-", who.id, i), fees[i].ID())
	}
	current := h.newFees(who, n+1, h.now().Add(-time.Hour))
	current[n].Price = ""
	h.addFees(current...)
	return inv, note
}

// The current month has the sums of the fees that are on no invoice and each of these fees, those of earlier months
// included, and says how many have no price. Rules BI-22, PAGE-6 and PAGE-96.
func TestBillingShowsWhatTheNextInvoiceWouldHave(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer := h.signIn(h.one, identity.Viewer)
	page := Prefix + "/billing"
	h.get(viewer, page).want(t, http.StatusOK, "No fee yet", "$0.00", `href="`+page+`" aria-current="page"`,
		"/v1/billing/current")
	_, start := h.lastMonth()
	late := h.newFees(h.one, 1, start.Add(time.Hour))[0]
	prepaid := late
	prepaid.SourceKind, prepaid.SourceID, prepaid.IsCredit = "FEE_PREPAID", "wd_prepaid", true
	prepaid.Amount = 16_666_666_666_666
	unpriced := late
	unpriced.SourceID, unpriced.Price, unpriced.IncurredAt = "ord_unpriced", "", h.now().Add(-time.Minute)
	h.addFees(late, prepaid, unpriced)
	got := h.get(viewer, page).want(t, http.StatusOK,
		"$1.20", "Prepaid or reduced network fees", "-$0.05", "1 fee without a price", "ord_unpriced", "no price yet",
		"0.000416666666666666", "-0.000016666666666666", "$3\u202f000.123456789012345678", "COINGECKO",
		`href="https://explorer.example/tx/`+firstHash, `/transactions/withdrawals/`+late.SourceID)
	if strings.Index(got.body, "ord_unpriced") > strings.Index(got.body, late.SourceID) {
		t.Error("got an older fee before a newer one")
	}
	h.get(h.signIn(h.two, identity.Owner), page).want(t, http.StatusOK, "No fee yet").wantNo(t, late.SourceID)
	h.get(h.signIn(h.one, identity.Finance), page+".csv").want(t, http.StatusOK, late.ID(), prepaid.ID(), unpriced.ID())
	h.get(viewer, page+".csv").want(t, http.StatusForbidden)
}

// The list shows what its filter selects, and nothing of another organization. Rules PAGE-6 and PAGE-96.
func TestInvoicesAreListedByTheirStatus(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer, list := h.signIn(h.one, identity.Viewer), Prefix+"/billing/invoices"
	h.get(viewer, list).want(t, http.StatusOK, "No invoice yet", "/v1/billing/invoices")
	_, start := h.lastMonth()
	inv := h.bill(h.one, h.newFees(h.one, 2, start)...)
	h.get(viewer, list).want(t, http.StatusOK, inv.Number, "Unpaid", "$2.98", monthText(inv.Month),
		`href="`+list+"/"+inv.ID+`"`)
	h.get(viewer, list+"?status=PAID").want(t, http.StatusOK, "No invoice of this status").wantNo(t, inv.ID)
	if _, err := h.billing().MarkPaid(t.Context(), inv.ID, "bank 4711", audit.System("test")); err != nil {
		t.Fatal(err)
	}
	h.get(viewer, list+"?status=PAID").want(t, http.StatusOK, inv.Number, "Paid", "$0.00")
	h.get(viewer, list+"?status=ISSUED").want(t, http.StatusOK).wantNo(t, inv.ID)
	h.get(viewer, list+"?status=OLD").want(t, http.StatusBadRequest)
	h.get(h.signIn(h.two, identity.Owner), list).want(t, http.StatusOK, "No invoice yet").wantNo(t, inv.Number)
	h.get(h.signIn(h.one, identity.Finance), list+".csv").want(t, http.StatusOK, inv.ID, "bank 4711", "PAID")
}

// An invoice has its sums, both parties, each fee with transaction, price, source and time in pages, and the credit
// notes that correct it; and every text of it is text. Rules PAGE-6 and PAGE-96.
func TestThePageOfAnInvoiceHasEachFee(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer := h.signIn(h.one, identity.Viewer)
	inv, note := h.fillBilling(h.one, fullList)
	page, notePage := Prefix+"/billing/invoices/"+inv.ID, Prefix+"/billing/credit-notes/"+note.ID
	got := h.get(viewer, page).want(t, http.StatusOK, "Invoice", inv.Number, monthText(inv.Month), "Unpaid",
		"$"+inv.Subtotal.Cents(), "Tax, 19 %", "$"+inv.Tax.Cents(), "$"+inv.Total.Cents(), "$"+inv.Outstanding.Cents(),
		"Operator Ltd", "Müller &amp; Söhne &lt;b&gt;GmbH&lt;/b&gt; شركة المثال", "شارع 12", "DE 123456789",
		"VAT 19 %",
		`href="`+notePage+`"`, "Show all credit notes", "COINGECKO", "0.000416666666666666", "Next page",
		`href="`+page+`.pdf"`, `href="`+page+`.html"`)
	got.wantNo(t, "<b>GmbH", page+".csv")
	rows := strings.Count(got.body, "$3\u202f000.123456789012345678")
	following := nextOf.FindStringSubmatch(got.body)
	if following == nil {
		t.Fatal("got a page without a next one")
	}
	got = h.get(viewer, following[1]).want(t, http.StatusOK, "First page")
	rows += strings.Count(got.body, "$3\u202f000.123456789012345678")
	if want := fullList + 4; rows != want {
		t.Errorf("got %d fees on both pages, want %d", rows, want)
	}
	h.get(viewer, notePage).want(t, http.StatusOK, note.Number, "Billed for a &lt;b&gt;test&lt;/b&gt;", inv.Number,
		"$"+note.Total.Cents(), `href="`+notePage+`.pdf"`)
	h.get(viewer, Prefix+"/billing/credit-notes").want(t, http.StatusOK, note.Number, inv.Number, "Next page")
	stranger := h.signIn(h.two, identity.Owner)
	for _, path := range []string{page, page + ".pdf", page + ".html", page + ".csv", notePage, notePage + ".pdf"} {
		h.get(stranger, path).want(t, http.StatusNotFound)
	}
	h.get(stranger, Prefix+"/billing/credit-notes").want(t, http.StatusOK, "No credit note yet").wantNo(t, note.Number)
	h.get(viewer, Prefix+"/billing/invoices/inv_unknown").want(t, http.StatusNotFound)
}

// The files of a page have the bytes of the document, and no style or script but its own. The table of the fees needs
// the right to export records. Rules BI-21 and PAGE-97.
func TestTheFilesOfAnInvoiceAreItsDocument(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer, finance := h.signIn(h.one, identity.Viewer), h.signIn(h.one, identity.Finance)
	inv, note := h.fillBilling(h.one, 2)
	page := Prefix + "/billing/invoices/" + inv.ID
	var pdf, html, noteHTML bytes.Buffer
	for _, err := range []error{inv.Document.PDF(&pdf), inv.Document.HTML(&html), note.Document.HTML(&noteHTML)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for path, file := range map[string]struct{ text, kind, disposition string }{
		page + ".pdf": {pdf.String(), "application/pdf", `attachment; filename="` + inv.Number + `.pdf"`},
		page + ".html": {
			html.String(), "text/html; charset=utf-8", `inline; filename="` + inv.Number + `.html"`,
		},
		Prefix + "/billing/credit-notes/" + note.ID + ".html": {
			noteHTML.String(), "text/html; charset=utf-8", `inline; filename="` + note.Number + `.html"`,
		},
	} {
		got := h.get(viewer, path).want(t, http.StatusOK)
		if got.body != file.text {
			t.Errorf("%s: got %d bytes, want the %d of the document", path, len(got.body), len(file.text))
		}
		if kind := got.header.Get("Content-Type"); kind != file.kind {
			t.Errorf("%s: got the type %s, want %s", path, kind, file.kind)
		}
		if text := got.header.Get("Content-Disposition"); text != file.disposition {
			t.Errorf("%s: got %s, want %s", path, text, file.disposition)
		}
		policy := got.header.Get("Content-Security-Policy")
		if strings.HasSuffix(path, ".html") != strings.HasPrefix(policy, document.PagePolicy) ||
			!strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("%s: got the policy %s", path, policy)
		}
	}
	table := h.get(finance, page+".csv").want(t, http.StatusOK, "feeLineId", firstHash)
	if text := table.header.Get("Content-Disposition"); text != `attachment; filename="`+inv.Number+`.csv"` {
		t.Errorf("got %s, want the number of the invoice as the name", text)
	}
	if n := strings.Count(table.body, "\r\n"); n != 7 {
		t.Errorf("got %d lines, want a head and six fees", n)
	}
	h.get(viewer, page+".csv").want(t, http.StatusForbidden)
}

// A person reads an invoice on the screen and its page to print, in a real browser: nothing complains, nothing is wider
// than the screen, and the style of the page to print is in force. Rules PAGE-60 and PAGE-97.
func TestAnInvoiceIsReadAndPrintedInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	inv, _ := h.fillBilling(h.one, 2)
	base := "http://localhost:" + strings.Split(h.server.Listener.Addr().String(), ":")[1]
	tab := browser.Open(t)
	tab.SetCookie(base, pages.SessionCookie, h.signIn(h.one, identity.Finance))
	for _, look := range []browser.Appearance{{Width: 1280, Height: 900}, {Width: 390, Height: 844, Dark: true}} {
		tab.OpenURL(base+Prefix+"/billing", look)
		tab.Click(`nav.tabs a[href$="/billing/invoices"]`)
		tab.Click(`main td a[href$="` + inv.ID + `"]`)
		tab.WaitUntil("document.querySelector('h1').innerText.includes('" + inv.Number + "')")
		if problems := tab.ListAccessibilityProblems(); len(problems) > 0 {
			t.Errorf("got %q, want an accessible page", problems)
		}
		tab.OpenURL(base+Prefix+"/billing/invoices/"+inv.ID+".html", look)
		tab.WaitUntil("document.body.innerText.includes('" + inv.Number + "')")
		if browser.Evaluate[bool](tab, "document.documentElement.scrollWidth > innerWidth") {
			t.Errorf("the page to print is wider than %d", look.Width)
		}
		if n := browser.Evaluate[int](tab, "document.styleSheets[0].cssRules.length"); n == 0 {
			t.Error("the style of the page to print is not in force")
		}
	}
	for _, complaint := range tab.ListComplaints() {
		t.Errorf("the browser complained: %s", complaint)
	}
}
