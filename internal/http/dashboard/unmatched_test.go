package dashboard

import (
	"net/http"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pagination"
)

// strayPayment pays the address of a checkout that the database lacks, and returns the deposit once it is credited.
func (h *testEnv) strayPayment(who tenant, n uint64) string {
	h.t.Helper()
	before := h.listUnmatched(who)
	h.addUnmatched(who, n)
	h.walk()
	h.settle()
	for _, u := range h.listUnmatched(who) {
		isNew := true
		for _, b := range before {
			isNew = isNew && b.DepositID != u.DepositID
		}
		if isNew {
			return u.DepositID
		}
	}
	h.t.Fatal("got no new unmatched payment")
	return ""
}

func (h *testEnv) listUnmatched(who tenant) []checkout.Unmatched {
	h.t.Helper()
	found, err := h.checkouts.ListUnmatched(h.t.Context(), who.id, checkout.UnmatchedFilter{},
		pagination.Page{Limit: 50})
	if err != nil {
		h.t.Fatal(err)
	}
	return found.Items
}

func unmatchedAddress(depositID string) string { return Prefix + "/unmatched-payments/" + depositID }

// Those who may give a payment to a checkout, with a factor of the act, after the page said what it does. The checkouts
// that asked for just this amount come first. Rules PAGE-93 and PAGE-94.
func TestAPersonGivesAnUnmatchedPaymentToACheckout(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	wanted := h.openCheckout(h.one, h.addCheckout(h.one, "order-wanted").ID)
	other := h.addCheckout(h.one, "order-other")
	theirs := h.addCheckout(h.two, "order-theirs")
	depositID := h.strayPayment(h.one, 10*dollar)
	page := unmatchedAddress(depositID)
	assign := page + "/" + assignAct
	owner := h.signIn(h.one, identity.Owner)
	h.get(owner, Prefix+"/checkouts/unmatched").want(t, http.StatusOK, checkoutAddress(wanted), page, "status=OPEN")
	h.get(owner, page).want(t, http.StatusOK, "Checkouts that asked for just this amount", wanted.ID, "order-wanted",
		"An equal amount proves nothing", "Choose checkout "+wanted.ID, "the payment never goes to another checkout",
		"/v1/unmatched-payments/"+depositID+"/assign").wantNo(t, other.ID)
	h.get(owner, page+"?checkoutId="+wanted.ID).want(t, http.StatusOK, `value="`+wanted.ID+`"`, "chosen")
	for i, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		token := h.signIn(h.one, role)
		h.get(token, page).want(t, http.StatusOK, "An owner, an admin or finance decides whose payment it is.").
			wantNo(t, "Give it to this checkout", "Refund all of it")
		h.post(token, assign, "checkoutId", wanted.ID, "code", rightCode+string(rune('a'+i))).
			want(t, http.StatusForbidden)
	}
	stranger := h.signIn(h.two, identity.Owner)
	h.get(stranger, page).want(t, http.StatusNotFound)
	h.post(stranger, assign, "checkoutId", theirs.ID, "code", rightCode+"s").want(t, http.StatusNotFound)
	finance := h.signIn(h.one, identity.Finance)
	h.post(finance, assign, "checkoutId", wanted.ID, "code", "000000").want(t, http.StatusUnauthorized,
		"This code is wrong")
	h.post(finance, assign, "checkoutId", "", "code", rightCode+"1").
		want(t, http.StatusUnprocessableEntity, "Enter the checkout.")
	h.post(finance, assign, "checkoutId", theirs.ID, "code", rightCode+"2").
		want(t, http.StatusBadRequest, "There is no such checkout.")
	for i := range 2 { // a second click finds the checkout
		h.post(finance, assign, "checkoutId", wanted.ID, "code", rightCode+"f"+string(rune('0'+i))).
			want(t, http.StatusSeeOther)
	}
	h.post(owner, assign, "checkoutId", other.ID, "code", rightCode+"3").want(t, http.StatusSeeOther)
	h.settle()
	if n := h.count(`SELECT count(*) FROM audit_log WHERE resource_id = $1 AND action = 'checkout.payment_assigned'
		AND actor_kind = 'USER'`, wanted.ID); n != 1 {
		t.Errorf("got %d rows of the assignment, want one", n)
	}
	h.get(owner, page).want(t, http.StatusOK, "It is the payment of a checkout", checkoutAddress(wanted),
		"Assigned by").wantNo(t, "Give it to this checkout", "Refund all of it")
	h.get(owner, checkoutAddress(wanted)).want(t, http.StatusOK, "Completed",
		"A payment that named no checkout was given to it")
	h.get(owner, Prefix+"/checkouts/unmatched").want(t, http.StatusOK, "No payment is unmatched")
}

// Those who may give a payment back, with a factor of the act. The link of the payer is shown once, and a form counts
// once. Rule PAGE-95.
func TestAPersonGivesAnUnmatchedPaymentBack(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	claimed, addressed := h.strayPayment(h.one, 10*dollar), h.strayPayment(h.one, 20*dollar)
	refund := func(depositID string) string { return unmatchedAddress(depositID) + "/" + refundUnmatchedAct }
	admin := h.signIn(h.one, identity.Admin)
	shownKey := h.get(admin, unmatchedAddress(claimed)).want(t, http.StatusOK).hidden(t, ui.KeyName)
	send := func(token, depositID, key, address, reason, code string) reply {
		t.Helper()
		return h.post(token, refund(depositID), ui.KeyName, key, "toAddress", address, "reason", reason, "code",
			rightCode+code)
	}
	for i, role := range []identity.Role{identity.Approver, identity.Developer, identity.Viewer} {
		send(h.signIn(h.one, role), claimed, shownKey, "", "", string(rune('a'+i))).want(t, http.StatusForbidden)
	}
	h.get(h.signIn(h.two, identity.Owner), unmatchedAddress(claimed)).want(t, http.StatusNotFound)
	key := h.get(admin, unmatchedAddress(claimed)).want(t, http.StatusOK, "Refund all of it",
		"The payment gets a cancelled checkout of its own").hidden(t, ui.KeyName)
	send(admin, claimed, key, "mars", "", "1").want(t, http.StatusBadRequest, "This is not an address")
	first := send(admin, claimed, key, "", "no order", "2").want(t, http.StatusOK, "This is shown once")
	made := h.listRefunds(h.one, h.ownCheckoutOf(claimed))
	if len(made) != 1 || made[0].Status != checkout.RefundAwaitingAddress || *made[0].Reason != "no order" {
		t.Fatalf("got %+v, want one refund that waits for its payer", made)
	}
	claimLinkOf(t, first.body, made[0].ID)
	send(admin, claimed, key, "", "no order", "3").want(t, http.StatusSeeOther).wantNo(t, "#k=")
	key = h.get(admin, unmatchedAddress(addressed)).want(t, http.StatusOK).hidden(t, ui.KeyName)
	send(admin, addressed, key, recipient, "", "4").want(t, http.StatusSeeOther)
	if made := h.listRefunds(h.one, h.ownCheckoutOf(addressed)); len(made) != 1 ||
		string(made[0].ToAddress) != recipient || made[0].Kind != checkout.FullRefund {
		t.Errorf("got %+v, want one refund of all to the address", made)
	}
	h.get(admin, unmatchedAddress(addressed)).want(t, http.StatusOK, "It is the payment of a checkout").
		wantNo(t, "Refund all of it")
}

// ownCheckoutOf returns the checkout to which a payment was assigned.
func (h *testEnv) ownCheckoutOf(depositID string) string {
	h.t.Helper()
	u, err := h.checkouts.UnmatchedByID(h.t.Context(), h.one.id, depositID)
	if err != nil || u.AssignedTo == "" {
		h.t.Fatalf("got %+v, %v, want an assigned payment", u, err)
	}
	return u.AssignedTo
}
