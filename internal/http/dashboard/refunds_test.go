package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func refundAddress(refundID string) string { return Prefix + "/refunds/" + refundID }

// requestRefund makes a refund of a checkout, without an address unless one is given.
func (h *testEnv) requestRefund(who tenant, checkoutID string, amount string, address *string) checkout.Refund {
	h.t.Helper()
	r, _, _, err := h.checkouts.RequestRefund(h.t.Context(), who.id, checkout.RefundRequest{
		CheckoutID: checkoutID, Amount: &amount, ToAddress: address, Reason: new("<b>sorry</b>"),
		Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// listRefunds returns the refunds of a checkout, the oldest first.
func (h *testEnv) listRefunds(who tenant, checkoutID string) []checkout.Refund {
	h.t.Helper()
	found, err := h.checkouts.ListRefunds(h.t.Context(), who.id, checkout.RefundFilter{CheckoutID: checkoutID},
		pagination.Page{Limit: 50})
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

// claimLinkOf returns the link that an answer shows.
func claimLinkOf(t *testing.T, body, refundID string) string {
	t.Helper()
	found := shownSecret.FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("got an answer without a link: %s", body)
	}
	key, isLink := strings.CutPrefix(found[1], "https://pay.example/r/"+refundID+"#k=")
	if !isLink || len(key) < 20 {
		t.Fatalf("got the link %s, want that of %s", found[1], refundID)
	}
	return key
}

// The list shows what its filters select, and nothing of another organization, and the table has the same rows.
// Rules PAGE-6 and PAGE-90.
func TestRefundsAreListedByTheirFilters(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer, foreigner := h.signIn(h.one, identity.Viewer), h.signIn(h.two, identity.Owner)
	list := Prefix + "/refunds"
	h.get(viewer, list).want(t, http.StatusOK, "No refund yet", "/v1/checkouts/co_…/refunds",
		`href="`+Prefix+`/checkouts" aria-current="page"`)
	c := h.addPaid(h.one, "order-1", contract, 12*dollar)
	h.walk()
	h.settle()
	waiting := h.requestRefund(h.one, c.ID, "1000000", nil)
	requested := h.requestRefund(h.one, c.ID, "2000000", new(recipient))
	tomorrow := h.now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for query, shown := range map[string][2]bool{
		"":                        {true, true},
		"status=AWAITING_ADDRESS": {true, false},
		"status=REQUESTED":        {false, true},
		"status=COMPLETED":        {false, false},
		"from=" + tomorrow:        {false, false},
	} {
		got := h.get(viewer, list+"?"+query).want(t, http.StatusOK)
		for i, r := range []checkout.Refund{waiting, requested} {
			if strings.Contains(got.body, r.ID) != shown[i] {
				t.Errorf("%s: shows refund %d: %v, want %v", query, i, !shown[i], shown[i])
			}
		}
	}
	h.get(viewer, list+"?status=OLD").want(t, http.StatusBadRequest)
	h.get(foreigner, list).want(t, http.StatusOK, "No refund yet")
	h.get(viewer, Prefix+"/checkouts").want(t, http.StatusOK, `href="`+list+`"`)
	table := h.get(h.signIn(h.one, identity.Finance), list+".csv?status=REQUESTED").
		want(t, http.StatusOK, requested.ID, "2000000", recipient)
	if strings.Contains(table.body, waiting.ID) || strings.Contains(table.body, "#k=") {
		t.Errorf("got a table with more than its filter selects: %s", table.body)
	}
	h.get(viewer, list+".csv").want(t, http.StatusForbidden)
}

// The page of a refund says where its money is, from which payments it comes, and what happened in its order. Rules
// PAGE-4, PAGE-6 and PAGE-91.
func TestThePageOfARefundSaysWhereTheMoneyIs(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	viewer := h.signIn(h.one, identity.Viewer)
	c := h.addPaid(h.one, "order-1", contract, 12*dollar)
	h.walk()
	h.settle()
	deposit := h.listPayments(h.one, c.ID)[0]
	r := h.requestRefund(h.one, c.ID, "2500000", nil)
	page := refundAddress(r.ID)
	h.get(viewer, page).want(t, http.StatusOK, "Refund of", "2.5 USDC", "Waits for an address",
		"Its amount left the balance of your checkout and is owed to the payer. Nothing is paid yet.",
		"its amount returns to your balance", "/transactions/deposits/"+deposit, "&lt;b&gt;sorry&lt;/b&gt;",
		"Made: the amount left the balance of your checkout", "An owner, an admin or finance can take it back",
		`href="`+checkoutAddress(c)+`"`).wantNo(t, "<b>sorry", "Issue a new link", "Cancel this refund", "#k=")
	h.get(viewer, checkoutAddress(c)).want(t, http.StatusOK, `href="`+page+`"`, "Waits for an address").
		wantNo(t, "Refund it")
	_, err := pgtest.OwnerPool(t, h.db).Exec(t.Context(), `
		INSERT INTO refund_turns (checkout_id, org_id, problem, updated_at)
		VALUES ($1, $2, 'Too <b>small</b>.', now())`,
		c.ID, h.one.id)
	if err != nil {
		t.Fatal(err)
	}
	h.get(viewer, checkoutAddress(c)).want(t, http.StatusOK, "Too &lt;b&gt;small&lt;/b&gt;.")
	h.get(h.signIn(h.two, identity.Owner), page).want(t, http.StatusNotFound)
	h.get(viewer, Prefix+"/refunds/ref_unknown").want(t, http.StatusNotFound)
	if _, err := h.checkouts.GiveRefundAddress(t.Context(), h.one.id, r.ID, recipient, audit.APIKey("k")); err != nil {
		t.Fatal(err)
	}
	got := h.get(viewer, page).want(t, http.StatusOK, "It has an address.", "Payment requested", recipient,
		"It got an address", "given by your organization, or typed by the payer")
	if made, addressed := strings.Index(got.body, ">Made: "), strings.Index(got.body, "It got an address"); made < 0 ||
		addressed < made {
		t.Errorf("got the steps at %d and %d, want them in the order of time", made, addressed)
	}
	if _, err := h.checkouts.CancelRefund(t.Context(), h.one.id, r.ID, audit.APIKey("k")); err != nil {
		t.Fatal(err)
	}
	h.get(viewer, page).want(t, http.StatusOK, "It was taken back before a payment. Its amount is in the balance of "+
		"your checkout again.", "Taken back: the amount is in the balance")
}

// Every status of a refund has words about its money. Rule PAGE-91.
func TestEveryStatusOfARefundSaysWhereItsMoneyIs(t *testing.T) {
	t.Parallel()
	known := map[string]checkout.RefundStatus{}
	for _, status := range checkout.RefundStatuses {
		now := describeRefund(checkout.Refund{Status: status}, "noon")
		if now.Whereabouts == "" || now.NextStep == "" {
			t.Errorf("%s: got %+v, want words", status, now)
		}
		if other := known[now.Whereabouts]; other != "" {
			t.Errorf("%s and %s have the same words", status, other)
		}
		known[now.Whereabouts] = status
	}
}

// OWNER, ADMIN and FINANCE refund with a factor of the act, once for each form. The link is shown once, and a new one
// makes it worthless. Rules PAGE-3, PAGE-15, PAGE-92, CO-81 and CO-87.
func TestARefundIsMadeOnceAndItsLinkIsShownOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	c := h.addPaid(h.one, "order-1", contract, 12*dollar)
	h.walk()
	h.settle()
	page := checkoutAddress(c)
	form := page + "/" + refundAct
	finance := h.signIn(h.one, identity.Finance)
	key := h.get(finance, page).want(t, http.StatusOK, "Give something back", "12 USDC on Ethereum").
		hidden(t, ui.KeyName)
	fields := func(key, code string, changes ...string) []string {
		values := []string{
			ui.KeyName, key, "mintId", "1", "what", "OVERPAID", "amount", "", "toAddress", "",
			"feeMode", "ORGANIZATION", "reason", "paid twice", "code", code,
		}
		for i := 0; i < len(changes); i += 2 {
			for j := 0; j < len(values); j += 2 {
				if values[j] == changes[i] {
					values[j+1] = changes[i+1]
				}
			}
		}
		return values
	}
	for _, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		token := h.signIn(h.one, role)
		h.get(token, page).want(t, http.StatusOK, "An owner, an admin or finance can give back what was paid.").
			wantNo(t, "Refund it")
		h.post(token, form, fields(key, rightCode+string(role))...).want(t, http.StatusForbidden)
	}
	for words, change := range map[string][]string{
		"Choose a coin that was paid.":  {"mintId", "2"},
		"Choose how much is refunded.":  {"what", "HALF"},
		"never rounds":                  {"what", "AMOUNT", "amount", "1.00000001"},
		"At most 12 USDC can":           {"what", "AMOUNT", "amount", "13"},
		"This is not an address":        {"toAddress", "mars"},
		"so it cannot be deducted from": {"feeMode", "DEDUCTED"},
	} {
		got := h.post(finance, form, fields(key, rightCode+words[:3]+change[1], change...)...)
		if got.status < 400 || !strings.Contains(got.body, words) {
			t.Errorf("%s: got %d, want the form with the reason: %s", words, got.status, got.body)
		}
	}
	h.post(finance, form, fields(key, "000000")...).
		want(t, http.StatusUnauthorized, "This code is wrong", `value="paid twice"`)
	if made := h.listRefunds(h.one, c.ID); len(made) != 0 {
		t.Fatalf("got %+v after refused forms, want no refund", made)
	}

	shown := h.post(finance, form, fields(key, rightCode+"1")...).
		want(t, http.StatusOK, "The refund is made", "This is shown once", `value="2"`, "who has the link says where")
	made := h.listRefunds(h.one, c.ID)
	if len(made) != 1 || made[0].Kind != checkout.OverpaidRefund || made[0].Requester.Kind != "USER" {
		t.Fatalf("got %+v, want one refund by a person", made)
	}
	first := claimLinkOf(t, shown.body, made[0].ID)
	again := h.post(finance, form, fields(key, rightCode+"2")...).want(t, http.StatusSeeOther)
	if got := again.header.Get("Location"); got != refundAddress(made[0].ID) {
		t.Errorf("got %s for the second click, want the page of the refund", got)
	}
	h.post(finance, form, fields(key, rightCode+"3", "reason", "", "what", "FULL")...).
		want(t, http.StatusConflict, "was sent before with other values")

	refund := refundAddress(made[0].ID)
	issue := refund + "/" + claimLinkAct
	h.get(finance, refund).want(t, http.StatusOK, "The link before becomes worthless").wantNo(t, "#k=", first)
	h.post(h.signIn(h.one, identity.Developer), issue, "code", rightCode+"d").want(t, http.StatusForbidden)
	h.post(h.signIn(h.two, identity.Owner), issue, "code", rightCode+"two").want(t, http.StatusNotFound)
	h.post(finance, issue, "code", "000000").want(t, http.StatusUnauthorized, "This code is wrong")
	if _, err := h.checkouts.ClaimableRefund(t.Context(), made[0].ID, first); err != nil {
		t.Errorf("got %v, want the first link to work until it is replaced", err)
	}
	second := claimLinkOf(t, h.post(finance, issue, "code", rightCode+"4").
		want(t, http.StatusOK, "The refund has a new link", "every link before it is worthless now").body, made[0].ID)
	if _, err := h.checkouts.ClaimableRefund(t.Context(), made[0].ID, first); err == nil || first == second {
		t.Error("the link before still works")
	}
	if _, err := h.checkouts.ClaimableRefund(t.Context(), made[0].ID, second); err != nil {
		t.Errorf("got %v, want the new link to work", err)
	}
}

// A refund is taken back once, and gets an address from those who may, with a factor of the act. Rules PAGE-92, CO-83
// and CO-88.
func TestARefundIsTakenBackOrAddressed(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	c := h.addPaid(h.one, "order-1", contract, 12*dollar)
	h.walk()
	h.settle()
	taken, given := h.requestRefund(h.one, c.ID, "1000000", nil), h.requestRefund(h.one, c.ID, "2000000", nil)
	cancel := refundAddress(taken.ID) + "/" + cancelRefundAct
	give := refundAddress(given.ID) + "/" + addressRefundAct
	for _, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		token := h.signIn(h.one, role)
		h.post(token, cancel, "code", rightCode+string(role)).want(t, http.StatusForbidden)
		h.post(token, give, "toAddress", recipient, "code", rightCode+"a"+string(role)).want(t, http.StatusForbidden)
	}
	stranger := h.signIn(h.two, identity.Owner)
	h.post(stranger, cancel, "code", rightCode+"s").want(t, http.StatusNotFound)
	h.post(stranger, give, "toAddress", recipient, "code", rightCode+"t").want(t, http.StatusNotFound)
	admin := h.signIn(h.one, identity.Admin)
	h.get(admin, refundAddress(taken.ID)).want(t, http.StatusOK, "Cancel this refund", "Pay this address",
		"Its amount returns to the balance of your checkout")
	h.post(admin, cancel, "code", "000000").want(t, http.StatusUnauthorized, "This code is wrong")
	h.post(admin, give, "toAddress", "", "code", rightCode+"1").
		want(t, http.StatusUnprocessableEntity, "Enter where the refund goes.")
	h.post(admin, give, "toAddress", "mars", "code", rightCode+"2").
		want(t, http.StatusBadRequest, "This is not an address")
	for i := range 2 {
		h.post(admin, cancel, "code", rightCode+"c"+string(rune('0'+i))).want(t, http.StatusSeeOther)
	}
	h.post(admin, give, "toAddress", recipient, "code", rightCode+"3").want(t, http.StatusSeeOther)
	h.post(admin, refundAddress(taken.ID)+"/"+claimLinkAct, "code", rightCode+"4").want(t, http.StatusConflict)
	refunds := h.listRefunds(h.one, c.ID)
	if refunds[0].Status != checkout.RefundCancelled || refunds[1].Status != checkout.RefundRequested ||
		string(refunds[1].ToAddress) != recipient {
		t.Errorf("got %+v, want one taken back and one with an address", refunds)
	}
	cancellations := `SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action = 'refund.cancelled'
		AND actor_kind = 'USER'`
	if n := h.count(cancellations, taken.ID); n != 1 {
		t.Errorf("got %d rows of the cancellation, want one", n)
	}
	h.get(admin, refundAddress(taken.ID)).want(t, http.StatusOK).wantNo(t, "Cancel this refund", "Issue a new link")
}
