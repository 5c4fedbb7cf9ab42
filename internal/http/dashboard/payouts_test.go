package dashboard

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// The addresses of payees. The last one looks like the second one.
var payees = []string{
	recipient, otherRecipient, "0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
	"0xde709f000000000000000000000000000000fb77",
}

// rowPayments pays rows of batch payouts as withdrawals, but for the addresses that a test rules out.
type rowPayments struct{ h *testEnv }

var _ payout.Payments = rowPayments{}

func newRowRequest(p payout.RowPayment) withdrawal.BatchRequest {
	return withdrawal.BatchRequest{
		Row: p.Row, MintID: p.MintID, Amount: p.Amount, ToAddress: string(p.ToAddress), Reference: p.Reference,
	}
}

// CheckRow implements payout.Payments.
func (p rowPayments) CheckRow(ctx context.Context, row payout.RowPayment) (string, error) {
	if reason := p.h.unpayable[row.ToAddress]; reason != "" {
		return reason, nil
	}
	return p.h.withdrawals.CheckBatchRow(ctx, row.OrgID, newRowRequest(row))
}

// CheckRows implements payout.Payments. These tests check rows one by one.
func (rowPayments) CheckRows(context.Context, []payout.RowPayment) ([]int, error) { return nil, nil }

// RequestRows implements payout.Payments. These tests request rows one by one.
func (rowPayments) RequestRows(context.Context, []payout.RowPayment) ([]int, error) { return nil, nil }

// RequestRow implements payout.Payments.
func (p rowPayments) RequestRow(ctx context.Context, row payout.RowPayment) (string, error) {
	_, err := p.h.withdrawals.RequestBatchRow(ctx, row.OrgID, newRowRequest(row))
	return "", err
}

// FreshPrice implements payout.Payments.
func (rowPayments) FreshPrice(context.Context, int) (price money.USD, isFresh bool) {
	return price, false
}

// RecallRow implements payout.Payments. A payment of these tests has its slot at once.
func (rowPayments) RecallRow(context.Context, payout.RowPayment, audit.Actor) error { return nil }

// rowProofs proves rows to withdrawals.
type rowProofs struct{ payouts *payout.Service }

// LoadProofs implements withdrawal.BatchBook.
func (b rowProofs) LoadProofs(
	ctx context.Context, tx pg.Tx, org, batchID string, rows ...int,
) (proofs []withdrawal.BatchProof, err error) {
	loaded, err := b.payouts.LoadProofs(ctx, tx, org, batchID, rows...)
	for _, p := range loaded {
		proofs = append(proofs, withdrawal.BatchProof(p))
	}
	return proofs, err
}

// newPayouts makes batch payouts, whose rows are paid by the withdrawals of the test.
func (h *testEnv) newPayouts(chains chain.Chains, log *slog.Logger) *payout.Service {
	h.t.Helper()
	made := &payout.Service{
		DB: h.db, Chains: chains, Payments: rowPayments{h}, GrantKey: h.swaps.GrantKey, Log: log,
		Approvers: h.approvers,
	}
	h.withdrawals.GrantKey, h.withdrawals.Batches = h.swaps.GrantKey, rowProofs{made}
	return made
}

// payList writes a list that pays some units of USDC to each payee; further rows follow as they are.
func payList(rows int, further ...string) string {
	lines := []string{"reference,customerId,mintId,toAddress,amount"}
	for i := range rows {
		lines = append(lines, fmt.Sprintf("salary-%d,employee %d,1,%s,%d.5", i+1, i+1, payees[i%3], i+1))
	}
	return strings.Join(append(lines, further...), "\n") + "\n"
}

// addPayout makes a draft of a list by a person of an organization.
func (h *testEnv) addPayout(who tenant, role identity.Role, list string, mode contenthash.Mode) payout.Batch {
	h.t.Helper()
	lines, err := rowfile.ReadCSV([]byte(list))
	if err != nil {
		h.t.Fatal(err)
	}
	b, err := h.payouts.Create(h.t.Context(), who.id, payout.CreateRequest{
		Lines: lines, UseDecimal: true, Mode: mode, Actor: who.people[role].Actor(),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// submitPayout submits a draft, with every tick, and has its rows checked.
func (h *testEnv) submitPayout(who tenant, role identity.Role, b payout.Batch) payout.Batch {
	h.t.Helper()
	r := payout.SubmitRequest{ContentHash: b.ContentHash, Actor: who.people[role].Actor()}
	for n := range b.Header.Rows {
		r.Ticked = append(r.Ticked, n+1)
	}
	if _, err := h.payouts.Submit(h.t.Context(), who.id, b.ID, r); err != nil {
		h.t.Fatal(err)
	}
	h.workPayouts()
	if b = h.payout(who, b.ID); b.Status != payout.AwaitingApproval {
		h.t.Fatalf("got %s, %s, want a batch payout that waits for approval", b.Status, b.Problem)
	}
	return b
}

// approvePayout approves a batch payout and has its rows paid as far as they are now.
func (h *testEnv) approvePayout(who tenant, role identity.Role, b payout.Batch) payout.Batch {
	h.t.Helper()
	_, err := h.payouts.Approve(h.t.Context(), who.id, b.ID, b.ContentHash, who.people[role].Actor())
	if err != nil {
		h.t.Fatal(err)
	}
	h.workPayouts()
	return h.payout(who, b.ID)
}

// workPayouts takes a round of the worker, which finds every batch due.
func (h *testEnv) workPayouts() {
	h.t.Helper()
	h.alter(`UPDATE payout_batches SET look_at = created_at WHERE look_at IS NOT NULL`)
	if err := h.payouts.WorkDue(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// alter changes rows past every trigger.
func (h *testEnv) alter(sql string, args ...any) {
	h.t.Helper()
	tx, err := pgtest.OwnerPool(h.t, h.db).Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.t.Context())) }()
	if _, err := tx.Exec(h.t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		h.t.Fatal(err)
	}
	if _, err := tx.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("%.80s: %v", sql, err)
	}
	if err := tx.Commit(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// endRows ends the payments of rows, as their orders do: the first ones have the statuses.
func (h *testEnv) endRows(b payout.Batch, statuses ...string) {
	h.t.Helper()
	h.alter(`UPDATE withdrawals SET status = s.status,
			approved_at = CASE WHEN requires_approval THEN now() ELSE approved_at END,
			tx_hash = CASE s.status WHEN 'COMPLETED' THEN $3 END,
		failure_reason = CASE s.status WHEN 'FAILED' THEN 'The token refused it.' END, completed_at = now()
		FROM unnest($2::text[]) WITH ORDINALITY AS s (status, row) WHERE batch_id = $1 AND batch_row = s.row`,
		b.ID, statuses, firstHash)
}

func (h *testEnv) payout(who tenant, batchID string) payout.Batch {
	h.t.Helper()
	b, err := h.payouts.ByID(h.t.Context(), who.id, batchID)
	if err != nil {
		h.t.Fatal(err)
	}
	return b
}

// listPayouts returns the batch payouts of an organization.
func (h *testEnv) listPayouts(who tenant) []payout.Batch {
	h.t.Helper()
	found, err := h.payouts.List(h.t.Context(), who.id, payout.Filter{}, pagination.Page{Limit: 100, Desc: true})
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

// addShownPayouts adds batch payouts in several states, with texts of strangers, and returns their ids.
func (h *testEnv) addShownPayouts(rows int) map[string]string {
	h.t.Helper()
	odd := strings.Repeat("A very long name ", 12) + "<script>alert(1)</script>"
	list := func(rows int, further ...string) string {
		lines := []string{"reference,customerId,mintId,toAddress,amount"}
		for i := range rows {
			lines = append(lines, fmt.Sprintf("salary-%d,%s,2,%s,0.00%d", i+1, odd, payees[i%len(payees)], i+1))
		}
		return strings.Join(append(lines, further...), "\n")
	}
	bad := []string{odd + ",,2," + payees[0] + `,"1,000.50"`, "a,b"}
	for range rows {
		bad = append(bad, "x,"+odd+",99,unknown,1e5")
	}
	ids := map[string]string{
		"unreadable": h.addPayout(h.one, identity.Finance, list(1, bad...), contenthash.Strict).ID,
	}
	ids["draft"] = h.addPayout(h.one, identity.Finance, list(rows+4, bad...), contenthash.Partial).ID
	made := map[string]payout.Batch{}
	for i, name := range []string{"waiting", "running", "paid"} {
		made[name] = h.submitPayout(h.one, identity.Finance,
			h.addPayout(h.one, identity.Finance, list(rows+i), contenthash.Partial))
		ids[name] = made[name].ID
	}
	for _, name := range []string{"running", "paid"} {
		made[name] = h.approvePayout(h.one, identity.Admin, made[name])
		made[name] = h.approvePayout(h.one, identity.Owner, made[name])
	}
	h.endRows(made["running"], "COMPLETED", "FAILED")
	h.endRows(made["paid"], slices.Repeat([]string{"COMPLETED", "FAILED"}, (rows+4)/2)...)
	h.workPayouts()
	return ids
}

// upload sends the form of a new payout as a browser does, with a file or a text.
func (h *testEnv) upload(token, key, file, text, unit, mode string) reply {
	h.t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreateFormFile(listFileName, "salaries.csv")
	if err == nil {
		_, err = part.Write([]byte(file))
	}
	if err != nil {
		h.t.Fatal(err)
	}
	for _, field := range [][2]string{{listTextName, text}, {unitName, unit}, {modeName, mode}, {"formKey", key}} {
		if err := form.WriteField(field[0], field[1]); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		h.t.Fatal(err)
	}
	return h.send(token, http.MethodPost, Prefix+"/payouts/new/"+uploadAct, &body, "Content-Type",
		form.FormDataContentType())
}

// openUpload opens the form of a new payout and returns its key.
func (h *testEnv) openUpload(token string) string {
	h.t.Helper()
	return h.get(token, Prefix+"/payouts/new").want(h.t, http.StatusOK, "Check the list").hidden(h.t, "formKey")
}

// A payout that needed no person says below which amount, and shows no approvals.
func TestAPayoutThatNeedsNoPersonSaysWhy(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 10_000_000)
	b := h.submitPayout(h.one, identity.Finance, h.addPayout(h.one, identity.Finance, payList(3), contenthash.Strict))
	h.alter(`UPDATE payout_batches
		SET status = 'PROCESSING', approvals_required = 0, auto_below = 500, auto_value = 7.5,
		approved_at = now(), look_at = now() + interval '1 hour' WHERE batch_id = $1`, b.ID)
	page := h.get(h.signIn(h.one, identity.Viewer), Prefix+"/payouts/"+b.ID).
		want(t, http.StatusOK, "No person needed: below 500 USD")
	if strings.Contains(page.body, "0 of 0") {
		t.Error("the page counts approvals that no one has to give")
	}
}

// A list is uploaded, shown with its totals, submitted with a second factor, approved by another person alone, and
// paid; the results are a table, and a row has its proof. Rules PAGE-15, PAGE-100, PAGE-101, PAGE-102, PAGE-103,
// PAGE-104 and PAGE-105.
func TestAPayoutIsUploadedApprovedByAnotherPersonAndPaid(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 10_000_000)
	finance, owner := h.signIn(h.one, identity.Finance), h.signIn(h.one, identity.Owner)
	h.get(finance, Prefix+"/payouts").want(t, http.StatusOK, "No payout yet", "Upload a list")
	key := h.openUpload(finance)
	made := h.upload(finance, key, payList(3), "", wholeUnit, "STRICT").want(t, http.StatusSeeOther).
		header.Get("Location")
	again := h.upload(finance, key, payList(3), "", wholeUnit, "STRICT").want(t, http.StatusSeeOther)
	if got := again.header.Get("Location"); got != made || len(h.listPayouts(h.one)) != 1 {
		t.Fatalf("got %q and %d drafts after a second click, want %q alone", got, len(h.listPayouts(h.one)), made)
	}
	h.upload(finance, key, payList(2), "", wholeUnit, "STRICT").
		want(t, http.StatusConflict, "That first request stands", made)
	batchID := made[strings.LastIndexByte(made, '/')+1:]

	shown := h.get(finance, made).want(t, http.StatusOK, "Payout of <span class=\"nobreak\">3 rows</span>", "7.5",
		"Nothing is held and nothing is paid yet.", "Submit 3 rows</button>", "available:", "network, at most:",
		"An address that was never paid before: 3 rows", "salary-2", "employee 3", "Nothing is paid (STRICT)")
	fields := []string{"digest", shown.hidden(t, "digest")}
	h.post(finance, made+"/submit", append(fields, "code", "000000")...).want(t, http.StatusUnauthorized)
	if b := h.payout(h.one, batchID); b.Status != payout.Draft {
		t.Fatalf("got %s after a wrong code", b.Status)
	}
	for range 2 {
		h.post(finance, made+"/submit", append(fields, "code", rightCode)...).want(t, http.StatusSeeOther)
	}
	h.get(finance, made).want(t, http.StatusOK, "Being checked")
	h.workPayouts()
	if b := h.payout(h.one, batchID); b.Status != payout.AwaitingApproval {
		t.Fatalf("got %s, %s", b.Status, b.Problem)
	}
	h.get(finance, made).want(t, http.StatusOK, "Waits for approval", "0 of 1 approvals",
		"You made this payout, so another person has to approve it.")
	h.post(finance, made+"/approve", append(fields, "code", rightCode+"x")...).want(t, http.StatusForbidden)
	h.post(owner, made+"/approve", "digest", strings.Repeat("0", 64), "code", rightCode+"y").
		want(t, http.StatusConflict)
	h.get(owner, Prefix+"/approvals/payouts").want(t, http.StatusOK, "Review", made, "7.5")
	h.get(owner, Prefix).want(t, http.StatusOK, "1 batch payout to approve")
	for _, code := range []string{rightCode + "z", "000000"} { // The second click finds the decision.
		h.post(owner, made+"/approve", append(fields, "code", code)...).want(t, http.StatusSeeOther)
	}
	h.workPayouts()
	h.get(owner, made).want(t, http.StatusOK, "Being paid", "0 of 3 rows paid", "3 on their way",
		"Show payment of row 1")
	b := h.payout(h.one, batchID)
	h.endRows(b, "COMPLETED", "FAILED", "COMPLETED")
	h.workPayouts()
	h.get(owner, made).want(t, http.StatusOK, "Paid in part", "2 of 3 rows paid", "1 not paid", "The token refused it.",
		"Make a new draft", "Owner Person", "Approved: its rows are paid")
	h.get(owner, made+"?state=NOT_PAID").want(t, http.StatusOK, "salary-2")
	table := h.get(finance, made+".csv").want(t, http.StatusOK,
		"reference,customerId,mintId,toAddress,amount,withdrawalId", "salary-1,employee 1,1,"+payees[0]+",1.5,wd_",
		"FAILED")
	if got := strings.Count(table.body, "\n"); got != 4 {
		t.Errorf("got %d lines of results, want a head and 3 rows", got)
	}
	h.get(owner, made+"/rows/1").want(t, http.StatusOK, "contentHash", "Copy the proof", firstHash)
	h.get(owner, made+"/rows/4").want(t, http.StatusNotFound)

	retryKey := h.get(finance, made).hidden(t, "formKey")
	draft := h.post(finance, made+"/retry", "formKey", retryKey, "code", rightCode+"r").want(t, http.StatusSeeOther).
		header.Get("Location")
	h.get(finance, draft).want(t, http.StatusOK, "Payout of <span class=\"nobreak\">1 row</span>", "salary-2",
		"The unpaid rows of an earlier payout", "Submit 1 row</button>")
	list := h.get(finance, Prefix+"/payouts").want(t, http.StatusOK, made, draft)
	if strings.Index(list.body, draft) > strings.Index(list.body, made) {
		t.Error("the newest payout does not stand first")
	}
	h.get(finance, Prefix+"/payouts?status=DRAFT").want(t, http.StatusOK, draft)
	h.get(finance, Prefix+"/payouts.csv?status=PARTIALLY_COMPLETED").want(t, http.StatusOK, batchID, "7500000")

	// A row that was changed since leads no row of the payout to the approved hash.
	h.alter(`UPDATE payout_items SET amount = amount + 1 WHERE batch_id = $1 AND row_no = 2`, batchID)
	broken := h.get(owner, made+"/rows/1").want(t, http.StatusOK, "This row is not what people approved")
	if strings.Contains(broken.body, "Copy the proof") {
		t.Error("got a proof of a payout whose rows were changed")
	}
}

// Each row that cannot be read stands on the page with its line, its text and what is wrong. A STRICT draft is not
// submitted, and a PARTIAL one leaves such rows out and says so. Rules PAGE-101 and PAGE-102.
func TestRowsThatCannotBeReadAreShownWithTheirLines(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 10_000_000)
	finance := h.signIn(h.one, identity.Finance)
	list := payList(2, `bonus,"x <script>alert(1)</script>",1,`+payees[0]+`,"1,000.50"`, "gift,,9,"+payees[1]+",7")
	strict := h.upload(finance, h.openUpload(finance), "", list, wholeUnit, "STRICT").want(t, http.StatusSeeOther).
		header.Get("Location")
	shown := h.get(finance, strict).want(t, http.StatusOK, "2 rows cannot be read", "<b>4</b>", "<b>5</b>", "1,000.50",
		"has a separator", "There is no mint 9.", "Correct these rows in your file", "Upload the list again",
		"x &lt;script&gt;alert(1)&lt;/script&gt;")
	if strings.Contains(shown.body, strict+"/submit") {
		t.Error("a STRICT draft with such rows has a form that submits it")
	}
	h.post(finance, strict+"/submit", "digest", payoutDigest(h.listPayouts(h.one)[0].ContentHash), "code", rightCode).
		want(t, http.StatusConflict)

	partial := h.upload(finance, h.openUpload(finance), list, "", wholeUnit, "PARTIAL").want(t, http.StatusSeeOther).
		header.Get("Location")
	h.get(finance, partial).want(t, http.StatusOK, "2 rows cannot be read", "they are not paid",
		"Submit 2 rows</button>")
	if b := h.listPayouts(h.one)[0]; b.Header.Rows != 2 || b.BadRows != 2 {
		t.Errorf("got %d rows and %d that cannot be read, want 2 and 2", b.Header.Rows, b.BadRows)
	}
	// A row that cannot be paid is left out of a PARTIAL payout: approvers see another hash.
	b := h.listPayouts(h.one)[0]
	h.unpayable[chain.Address(payees[1])] = "Screening refuses the address <b>."
	checked := h.submitPayout(h.one, identity.Finance, b)
	if checked.ContentHash == b.ContentHash || checked.Header.Included != 1 {
		t.Errorf("got %d rows under the same hash: %v", checked.Header.Included, checked.ContentHash == b.ContentHash)
	}
	h.get(finance, partial).want(t, http.StatusOK, "It leaves out 1 row that cannot be paid", "Left out",
		"Screening refuses the address &lt;b&gt;.", checked.ContentHash.String())
}

// A list that is none, or of which nothing can be read, comes back with what is wrong, and what was pasted stays.
// Rule PAGE-101.
func TestAListThatIsNoneComesBackWithWhatIsWrong(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	finance := h.signIn(h.one, identity.Finance)
	key := h.openUpload(finance)
	tooMany := "mintId,toAddress,amount\n" + strings.Repeat("1,"+payees[0]+",1\n", rowfile.RowsMax+1)
	for name, c := range map[string]struct {
		file, text string
		want       []string
	}{
		"nothing":       {want: []string{"Choose a file, or paste a list."}},
		"both":          {file: payList(1), text: payList(1), want: []string{"and not both"}},
		"another file":  {file: "PK\x03\x04\xff\xfe", want: []string{"not in UTF-8"}},
		"no columns":    {text: "hello", want: []string{"has to name the columns", ">hello</textarea>"}},
		"too many rows": {file: tooMany, want: []string{"more than 5000 rows"}},
		"too many bytes": {
			file: payList(1) + strings.Repeat("x", rowfile.BytesMax), want: []string{"at most 2000000"},
		},
		"no JSON":           {text: `[{"mintId":`, want: []string{"is not JSON"}},
		"an unclosed quote": {text: "mintId,toAddress,amount\n1,\"x,1", want: []string{"Line 2:", "never closed"}},
		"no row can be read": {text: "mintId,toAddress,amount\n1,unknown,1\n", want: []string{
			"No row of this list can be paid as it is written.", "1 row cannot be read",
			"is not an address on ETHEREUM",
			"<b>2</b>",
		}},
		"a formula": {text: "mintId,toAddress,amount,reference\n1," + payees[0] + ",1,=HYPERLINK(1)\n", want: []string{
			"makes a formula of it",
		}},
	} {
		got := h.upload(finance, key, c.file, c.text, wholeUnit, "STRICT")
		if got.status < 400 || got.status >= 500 {
			t.Errorf("%s: got %d, want a refusal", name, got.status)
		}
		for _, text := range c.want {
			if !strings.Contains(got.body, text) {
				t.Errorf("%s: got a page without %q", name, text)
			}
		}
	}
	h.upload(finance, key, payList(1), "", wholeUnit, "MAYBE").want(t, http.StatusBadRequest)
	if got := h.listPayouts(h.one); len(got) != 0 {
		t.Errorf("got %d drafts, want none", len(got))
	}
	huge := strings.Repeat("x", uploadBytesMax+1)
	h.upload(finance, key, huge, "", wholeUnit, "STRICT").want(t, http.StatusRequestEntityTooLarge)
	// A form without a file is none of parts.
	h.send(finance, http.MethodPost, Prefix+"/payouts/bp_01J9ZW3M8Q4S5T6V7W8X9YZABC/"+cancelPayoutAct,
		strings.NewReader("--x--\r\n"), "Content-Type", "multipart/form-data; boundary=x").
		want(t, http.StatusBadRequest, "another type than the forms of these pages")
	// The same form without a file, as a program sends it.
	h.post(finance, Prefix+"/payouts/new/"+uploadAct, listFileName, "", listTextName, payList(1), unitName, wholeUnit,
		modeName, "STRICT", "formKey", key).want(t, http.StatusSeeOther)
	for _, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		h.upload(h.signIn(h.one, role), key, payList(1), "", wholeUnit, "STRICT").want(t, http.StatusForbidden)
	}
	if got := h.listPayouts(h.one); len(got) != 1 {
		t.Errorf("got %d drafts, want the one of the last form", len(got))
	}
}

// A look-alike needs a tick, a list that was submitted before needs an acknowledgement, and a balance that is too
// small is named in whole coins. Rules BP-80 and PAGE-102.
func TestASubmissionNeedsTicksAndMoney(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 10_000_000)
	finance := h.signIn(h.one, identity.Finance)
	list := payList(2, "other,,1,"+payees[3]+",1")
	b := h.addPayout(h.one, identity.Finance, list, contenthash.Strict)
	path := Prefix + "/payouts/" + b.ID
	shown := h.get(finance, path).want(t, http.StatusOK, "Compare every character", `name="ticked" value="3"`,
		`name="ticked" value="2"`)
	if strings.Contains(shown.body, "The same list was submitted before") {
		t.Error("the first draft of a list says that the list was submitted before")
	}
	fields := []string{"digest", shown.hidden(t, "digest")}
	h.post(finance, path+"/submit", append(fields, "ticked", "3", "code", rightCode)...).
		want(t, http.StatusConflict, "The addresses of 1 row look like other ones and have no tick.",
			`name="ticked" value="3" checked`)
	ticked := append(fields, "ticked", "2", "ticked", "3")
	h.post(finance, path+"/submit", append(ticked, "code", rightCode+"b")...).want(t, http.StatusSeeOther)

	second := h.addPayout(h.one, identity.Finance, list, contenthash.Strict)
	path = Prefix + "/payouts/" + second.ID
	h.get(finance, path).want(t, http.StatusOK, "The same list was submitted before",
		`name="duplicateOf" value="`+b.ID+`"`, Prefix+"/payouts/"+b.ID)
	ticked[1] = payoutDigest(second.ContentHash)
	h.post(finance, path+"/submit", append(ticked, "code", rightCode+"c")...).
		want(t, http.StatusConflict, "The same list was submitted before", `name="duplicateOf" value="`+b.ID+`"`,
			Prefix+"/payouts/"+b.ID)
	h.post(finance, path+"/submit", append(ticked, "duplicateOf", b.ID, "code", rightCode+"d")...).
		want(t, http.StatusSeeOther)
	h.get(finance, path).want(t, http.StatusOK, "A payout that was submitted before")

	large := h.addPayout(h.one, identity.Finance, "mintId,toAddress,amount\n1,"+payees[0]+",5000\n", contenthash.Strict)
	path = Prefix + "/payouts/" + large.ID
	h.get(finance, path).want(t, http.StatusOK, "The balance is too small", "5\u202f000")
	h.post(finance, path+"/submit", "digest", payoutDigest(large.ContentHash), "code", rightCode+"e").
		want(t, http.StatusUnprocessableEntity, "The balance of batch payouts lacks 5000 USDC on Ethereum.")
}

// A payout that is being paid is paused, resumed and cancelled by those who may, and rejected before. Rule PAGE-103.
func TestAPayoutIsPausedResumedCancelledAndRejected(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fundProduct(h.one, "BATCH_PAYOUT", usdc, 100_000_000)
	finance, approver := h.signIn(h.one, identity.Finance), h.signIn(h.one, identity.Approver)
	viewer, stranger := h.signIn(h.one, identity.Viewer), h.signIn(h.two, identity.Owner)
	first := h.submitPayout(h.one, identity.Finance,
		h.addPayout(h.one, identity.Finance, payList(3), contenthash.Strict))
	path := Prefix + "/payouts/" + first.ID
	digest := payoutDigest(first.ContentHash)
	for _, act := range []string{"pause", "resume", "cancel"} {
		h.post(viewer, path+"/"+act, "code", rightCode).want(t, http.StatusForbidden)
		h.post(stranger, path+"/"+act, "code", rightCode).want(t, http.StatusNotFound)
	}
	h.post(stranger, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusNotFound)
	h.post(approver, path+"/reject", "reason", "", "code", rightCode).
		want(t, http.StatusUnprocessableEntity, "Enter why.")
	h.post(approver, path+"/reject", "reason", "Wrong <month>", "code", rightCode).want(t, http.StatusSeeOther)
	h.get(viewer, path).want(t, http.StatusOK, "Rejected", "Wrong &lt;month&gt;",
		"Its sum is in the balance of batch payouts again.")

	second := h.submitPayout(h.one, identity.Finance,
		h.addPayout(h.one, identity.Finance, payList(3), contenthash.Strict))
	path = Prefix + "/payouts/" + second.ID
	_, err := h.payouts.Approve(t.Context(), h.one.id, second.ID, second.ContentHash,
		h.one.people[identity.Approver].Actor())
	if err != nil {
		t.Fatal(err)
	}
	h.post(approver, path+"/pause", "code", rightCode+"p").want(t, http.StatusSeeOther)
	h.post(approver, path+"/pause", "code", "000000").want(t, http.StatusSeeOther) // It is done already.
	h.workPayouts()
	h.get(finance, path).want(t, http.StatusOK, "Paused", "Resume it", "3 waiting")
	h.post(approver, path+"/resume", "code", rightCode+"q").want(t, http.StatusForbidden)
	h.post(finance, path+"/resume", "code", rightCode+"r").want(t, http.StatusSeeOther)
	h.get(finance, path).want(t, http.StatusOK, "Being paid", "Pause it", "Resumed")
	h.post(finance, path+"/cancel", "code", rightCode+"s").want(t, http.StatusSeeOther)
	h.get(finance, path).want(t, http.StatusOK, "Being cancelled")
	h.workPayouts()
	h.get(finance, path).want(t, http.StatusOK, "Cancelled", "3 not paid", "3 rows got no payment",
		"cancelled before this row had a payment")
	if b := h.payout(h.one, second.ID); b.Status != payout.Cancelled {
		t.Errorf("got %s, want CANCELLED", b.Status)
	}
}

// A list of the largest size is shown in parts. Rule PAGE-104.
func TestTheLargestListIsShownInParts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	finance := h.signIn(h.one, identity.Finance)
	rows := make([]string, 0, rowfile.RowsMax)
	for n := range rowfile.RowsMax {
		address := fmt.Sprintf("0x%040x", n*7919+1)
		if n%10 == 0 {
			address = "unknown"
		}
		rows = append(rows, "r-"+strconv.Itoa(n)+",1,"+address+",1.25")
	}
	list := "reference,mintId,toAddress,amount\n" + strings.Join(rows, "\n")
	made := h.upload(finance, h.openUpload(finance), list, "", wholeUnit, "PARTIAL").want(t, http.StatusSeeOther).
		header.Get("Location")
	first := h.get(finance, made).want(t, http.StatusOK, "500 rows cannot be read", "1 to 50 of 500",
		"1 to 50 of 4\u202f500", "Submit 4500 rows</button>", "and 4480 rows more")
	if len(first.body) > 300_000 {
		t.Errorf("got a page of %d bytes", len(first.body))
	}
	last := h.get(finance, made+"?rows=90&unreadable=10").want(t, http.StatusOK, "4\u202f451 to 4\u202f500",
		"451 to 500 of 500", ">r-4999<")
	if strings.Contains(last.body, "Next page") {
		t.Error("the last part leads to a next one")
	}
}

// answeringContract is a payout contract that providers say stands on its chain or not.
type answeringContract struct {
	chain.PayoutContract
	isDeployed bool
}

// IsDeployed implements chain.PayoutContract.
func (c answeringContract) IsDeployed(context.Context) (bool, error) { return c.isDeployed, nil }

// The page of a draft shows what the network takes for its rows alone, and together only for a coin whose rows can
// share a transaction now: tokens once the payout contract is deployed, and not a single row. Rule BP-91.
func TestTheNetworkCostIsShownTogetherWhereRowsCanShare(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	finance := h.signIn(h.one, identity.Finance)
	answer := func(isDeployed bool) {
		ch := h.payouts.Chains[chain.Ethereum]
		ch.PayoutContract = answeringContract{isDeployed: isDeployed}
		h.payouts.Chains[chain.Ethereum] = ch
	}
	coins := fmt.Sprintf("x,,%d,", eth)
	three := Prefix + "/payouts/" + h.addPayout(h.one, identity.Finance,
		payList(3, coins+payees[0]+",0.1", coins+payees[1]+",0.2"), contenthash.Strict).ID
	one := Prefix + "/payouts/" + h.addPayout(h.one, identity.Finance, payList(1), contenthash.Strict).ID
	const together, condition = "network, rows together:", "Rows together share transactions"
	for _, c := range []struct {
		name       string
		path       string
		isDeployed bool
		shown      int // how many coins have the cost together
	}{
		{"no contract", three, false, 0}, {"a single row", one, true, 0}, {"three rows of a token", three, true, 1},
	} {
		answer(c.isDeployed)
		page := h.get(finance, c.path).want(t, http.StatusOK, "network, at most:", "for one transaction per row")
		if got := strings.Count(page.body, together); got != c.shown ||
			strings.Contains(page.body, condition) != (c.shown > 0) {
			t.Errorf("%s: got the cost together %d times, want %d: %s", c.name, got, c.shown, page.body)
		}
	}
	const alone, shared = `value="0.000495"`, `value="0.000336435"` // three of 165,000 gwei, and 2.039 of one
	h.get(finance, three).want(t, http.StatusOK, "network, at most: <data class=\"amount\" "+alone,
		together+" <data class=\"amount\" "+shared)
}
