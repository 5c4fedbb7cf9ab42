package dashboard

import (
	"net/http"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
)

// addLink makes a payment link of a product, with a sale.
func (h *testEnv) addLink(who tenant, productID string) checkout.Link {
	h.t.Helper()
	l, _, err := h.checkouts.CreateLink(h.t.Context(), who.id, checkout.LinkRequest{
		Items: []checkout.LinkItem{{ProductID: productID}}, AfterText: new("<b>Thank you</b>\nAlice"),
		SuccessURL: new("https://shop.example/ok"), MaxCompleted: new(3), Actor: audit.APIKey(who.id),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	public, err := h.checkouts.PublicLink(h.t.Context(), l.Slug)
	if err != nil {
		h.t.Fatal(err)
	}
	if _, err := h.checkouts.CheckoutOfLink(h.t.Context(), l.Slug, nil, public.Nonce); err != nil {
		h.t.Fatal(err)
	}
	return l
}

// linkFieldsWith returns the fields of the form of a payment link, with some of them changed.
func linkFieldsWith(changes ...string) []string {
	values := map[string]string{
		"slug": "", "quantity": "1", "maxCompleted": "", "expiresAt": "", "afterText": "", "successUrl": "",
	}
	for i := 0; i < len(changes); i += 2 {
		values[changes[i]] = changes[i+1]
	}
	var fields []string
	for name, value := range values {
		fields = append(fields, name, value)
	}
	return fields
}

// A form makes one payment link, which is paused, resumed, changed and ended on its page. Rules PAGE-15, PAGE-89 and
// CO-65.
func TestAPaymentLinkIsMadePausedChangedAndEnded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	developer, viewer := h.signIn(h.one, identity.Developer), h.signIn(h.one, identity.Viewer)
	form := Prefix + "/payment-links/new"
	h.get(developer, Prefix+"/payment-links").want(t, http.StatusOK, "No payment link is active", "New payment link")
	h.get(developer, form).want(t, http.StatusOK, "No product is for sale")
	product := h.addProduct(h.one, "gold").ID
	key := h.get(developer, form).want(t, http.StatusOK, product).hidden(t, ui.KeyName)
	for words, changes := range map[string][]string{
		"slug is a reserved word":        {"slug", "admin", soldName, product},
		"Tick at least one product":      {},
		"Choose products of the list":    {soldName, "prod_x"},
		"A quantity of product":          {soldName, product, "quantity", "77"},
		"Give a whole number":            {soldName, product, "maxCompleted", "many"},
		"maxCompleted has to be 1 to":    {soldName, product, "maxCompleted", "0"},
		"Write a time such as":           {soldName, product, "expiresAt", "tomorrow"},
		"expiresAt is not in the future": {soldName, product, "expiresAt", "2020-01-01T00:00Z"},
		"successUrl has to be https":     {soldName, product, "successUrl", "javascript://x/%0aalert(1)"},
	} {
		status := http.StatusBadRequest
		if len(changes) == 0 {
			status = http.StatusUnprocessableEntity // the form itself says so
		}
		changes = append(changes, ui.KeyName, key)
		h.post(developer, form+"/"+createLinkAct, linkFieldsWith(changes...)...).want(t, status, words)
	}
	fields := linkFieldsWith(ui.KeyName, key, soldName, product, "slug", "gold-2026", "maxCompleted", "5",
		"expiresAt", "2999-01-31T12:00Z", "afterText", "line one\r\nline two")
	made := h.post(developer, form+"/"+createLinkAct, fields...).want(t, http.StatusSeeOther).header.Get("Location")
	if again := h.post(developer, form+"/"+createLinkAct, fields...).want(t, http.StatusSeeOther).header.
		Get("Location"); again != made || h.count(`SELECT count(*) FROM payment_links`) != 1 {
		t.Errorf("got %s and %s, want one payment link", made, again)
	}
	h.get(developer, made).want(t, http.StatusOK, "https://pay.example/p/gold-2026",
		"https://pay.example/p/gold-2026/poster.svg", "0 of 5", "Selling", "line one\nline two",
		"No one has bought here yet", `value="2999-01-31T12:00Z"`)
	h.get(developer, Prefix+"/payment-links").want(t, http.StatusOK, "gold-2026", "0 of 5")
	h.get(viewer, made).want(t, http.StatusOK, "gold-2026").wantNo(t, "Pause it", "End it for good", "Save the changes")
	h.get(viewer, form).want(t, http.StatusForbidden)
	for _, act := range []string{pauseLinkAct, resumeLinkAct, endLinkAct} {
		h.post(viewer, made+"/"+act).want(t, http.StatusForbidden)
	}

	seen := h.get(developer, made).hidden(t, seenName)
	change := []string{
		seenName, seen, "maxCompleted", "7", "expiresAt", "2999-01-31T12:00Z", "afterText", "", "successUrl", "",
	}
	h.post(developer, made+"/"+changeLinkAct, change...).want(t, http.StatusSeeOther)
	h.get(developer, made).want(t, http.StatusOK, "0 of 7").wantNo(t, "line one")
	h.post(developer, made+"/"+changeLinkAct, change...).want(t, http.StatusConflict, "changed since you opened it")

	h.post(developer, made+"/"+pauseLinkAct).want(t, http.StatusSeeOther)
	h.get(developer, made).want(t, http.StatusOK, "Paused", "Resume it")
	h.get(developer, Prefix+"/payment-links?status=PAUSED").want(t, http.StatusOK, "gold-2026")
	h.post(developer, made+"/"+resumeLinkAct).want(t, http.StatusSeeOther)
	for range 2 {
		h.post(developer, made+"/"+endLinkAct).want(t, http.StatusSeeOther)
	}
	h.get(developer, made).want(t, http.StatusOK, "Ended").
		wantNo(t, "Pause it", "Resume it", "poster.svg", "Save the changes")
	h.post(developer, made+"/"+resumeLinkAct).want(t, http.StatusConflict, "ended for good")
	h.get(developer, Prefix+"/payment-links?status=ENDED").want(t, http.StatusOK, "gold-2026")
	const ofPeople = `SELECT count(*) FROM audit_log WHERE resource_kind = 'PAYMENT_LINK' AND actor_kind = 'USER'`
	if n := h.count(ofPeople); n != 5 {
		t.Errorf("got %d rows in the audit log, want one for each change", n)
	}
}

// The page of a payment link shows its checkouts, and texts of others stay texts. Rule PAGE-89.
func TestAPaymentLinkShowsItsCheckouts(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	product := h.addProduct(h.one, "gold").ID
	l := h.addLink(h.one, product)
	path := Prefix + "/payment-links/" + l.ID
	h.get(h.signIn(h.one, identity.Finance), path).want(t, http.StatusOK, "Checkouts of this payment link", "49.50",
		"&lt;b&gt;Thank you").wantNo(t, "<b>Thank you")
	h.get(h.signIn(h.one, identity.Finance), Prefix+"/payment-links.csv").want(t, http.StatusOK, l.ID, product)
	h.get(h.signIn(h.two, identity.Owner), path).want(t, http.StatusNotFound)
	h.get(h.signIn(h.two, identity.Owner), Prefix+"/payment-links").want(t, http.StatusOK, "No payment link is active")
}
