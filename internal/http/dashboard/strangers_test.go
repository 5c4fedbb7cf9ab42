package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
)

// Every name that a stranger chooses (customer id, label, memo, token symbol, webhook answer, reference,
// reason) is text on the pages that show it: a browser makes no element of it, runs nothing of it, and shows
// each of its characters. Rules PAGE-4 and PAGE-5.
func TestNamesOfStrangersAreTextInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, stranger, evil, 50_000_000)
	h.fundProduct(h.one, "CUSTODIAL", usdc, 7_000_000)
	w := h.request(h.one, stranger, evil, "1000000")
	arrived := h.seeDeposits(h.one, stranger, evil, 1, firstHash)
	h.exec(`INSERT INTO transaction_memos (chain, tx_hash, next_attempt_at, created_at)
		VALUES ('ETHEREUM', $1, now(), now())`, firstHash)
	h.exec(`UPDATE transaction_memos SET status = 'READ', memo = $2, attempts = 1, ended_at = now()
		WHERE tx_hash = $1`, firstHash, hostile)
	moved := h.transfer(h.one, stranger, evil, "key-1", hostile)
	label := "<b>Аlice</b>"
	h.allow(h.one, recipient, label)
	h.freeze(h.one, stranger, freeze.SourceOrganization, h.one.people[identity.Owner].Actor(), "<b>odd</b>")
	token := h.signIn(h.one, identity.Owner)
	endpointID := h.register(h.one, h.receiver(http.StatusBadGateway, hostile))
	sample := h.post(token, EndpointPath+endpointID+"/"+testEndpointAct, "type", "CUSTOMER_DEPOSIT").
		want(t, http.StatusSeeOther).header.Get("Location")

	shownCustomer := `=<script>alert("x")</script>\u{410}lice`
	shownText := `<script>alert("x")</script>\u{202e}\u{410}lice`
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)
	tab := browser.Open(t)
	tab.SetCookie(base, pages.SessionCookie, token)
	for path, texts := range map[string][]string{
		Prefix + "/approvals":                             {shownCustomer, "<b>U</b>"},
		Prefix + "/approvals/withdrawals/" + w.ID:         {shownCustomer, "<b>U</b>"},
		Prefix + "/customers":                             {shownCustomer},
		Prefix + "/customers/" + url.PathEscape(stranger): {shownCustomer, "<b>U</b>", "<b>odd</b>"},
		Prefix + "/transactions/deposits/" + arrived:      {shownCustomer, "<b>U</b>", shownText},
		Prefix + "/transactions/transfers/" + moved.ID:    {shownCustomer, "<b>U</b>", shownText},
		Prefix + "/transactions?kind=WITHDRAWAL":          {shownCustomer, "<b>U</b>"},
		Prefix + "/withdraw":                              {`<b>\u{410}lice</b>`},
		Prefix + "/developers/webhooks/" + endpointID:     {},
		sample: {shownText},
		Prefix + "/transactions/search?q=" + url.QueryEscape(hostile): {},
	} {
		tab.OpenURL(base+path, desk)
		tab.WaitUntil("document.readyState === 'complete'")
		text := browser.Evaluate[string](tab, "document.body.textContent")
		for _, want := range texts {
			if !strings.Contains(text, want) {
				t.Errorf("%s: got no %q in the text of the page:\n%s", path, want, text)
			}
		}
		if strings.ContainsAny(text, "\u202eА") {
			t.Errorf("%s: the page shows a character of a stranger that hides or looks like another one", path)
		}
		made := browser.Evaluate[int](tab, `[...document.querySelectorAll('body script, main b, main i')].filter(
			(e) => !e.src && !e.closest('.address, .address-text')).length`)
		if made != 0 {
			t.Errorf("%s: got %d elements of texts of strangers", path, made)
		}
	}
	for _, complaint := range tab.ListComplaints() {
		t.Errorf("the browser complained: %s", complaint)
	}
}
