package dashboard

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

var desk = browser.Appearance{Width: 1280, Height: 900}

// signInWith signs a person in through the pages, and ends on the page that led to sign-in.
func (p *person) signInWith(tab *browser.Page, email string) {
	tab.Type("#password-email", email)
	tab.Type("#password-password", goodPassword)
	tab.Click("main button.primary")
	tab.Type("#confirm-code", p.code())
	tab.Click("main button.primary")
}

func wantText(t *testing.T, tab *browser.Page, texts ...string) {
	t.Helper()
	body := browser.Evaluate[string](tab, "document.body.innerText")
	for _, text := range texts {
		if !strings.Contains(body, text) {
			t.Errorf("got a page without %q:\n%s", text, body)
		}
	}
}

// Two people sign in, with the mistakes that people make, and approve one withdrawal; one of them
// removes another.
func TestTwoPeopleDecideInABrowser(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.realFactors = true
	h.setQuorum(h.one, "2")
	h.fund(h.one, "alice", usdc, 500_000_000_000)
	paid := h.request(h.one, "alice", usdc, "12500000000")
	removed := h.request(h.one, "alice", usdc, "7000000")
	first, second := h.join(h.one, identity.Approver), h.join(h.one, identity.Admin)
	base := strings.Replace(h.server.URL, "127.0.0.1", "localhost", 1)

	// The link of a page leads to sign-in and back. The wrong password and the wrong code say the same of
	// what they are, and the summary has the focus.
	tab := browser.Open(t)
	tab.OpenURL(base+Prefix+"/approvals", desk)
	tab.Type("#password-email", "approver@example.test")
	tab.Type("#password-password", "not the password")
	tab.Click("main button.primary")
	wantText(t, tab, "That did not match.")
	if !browser.Evaluate[bool](tab, "document.activeElement.hasAttribute('data-focus')") {
		t.Error("the summary of what was wrong does not have the focus")
	}
	typed := browser.Evaluate[string](tab, "document.querySelector('#password-email').value")
	if typed != "approver@example.test" {
		t.Errorf("got the e-mail %q, want what the user typed", typed)
	}
	tab.Type("#password-password", goodPassword)
	tab.Click("main button.primary")
	tab.Type("#confirm-code", "000000")
	tab.Click("main button.primary")
	used := first.code()
	tab.Type("#confirm-code", used)
	tab.Click("main button.primary")
	wantText(t, tab, "Transactions to approve", "12\u202f500")

	tab.Click(`a[href$="` + paid.ID + `"]`)
	wantText(t, tab, "Your organization has never paid this address before.", "Approve 12\u202f500 USDC")
	tab.Type("#approve-code", used) // the code of the sign-in
	tab.Click("form[action$=approve] button")
	h.wantWithdrawal(h.one, paid.ID, withdrawal.AwaitingApproval, 0)
	tab.Type("#approve-code", first.code())
	tab.Click("form[action$=approve] button")
	wantText(t, tab, "You approved it", "Another person has to approve it")
	h.wantWithdrawal(h.one, paid.ID, withdrawal.AwaitingApproval, 1)

	other := browser.Open(t)
	other.OpenURL(base+Prefix+"/approvals/withdrawals/"+paid.ID, desk)
	second.signInWith(other, "admin@example.test")
	other.Type("#approve-code", second.code())
	other.DoubleClick("form[action$=approve] button")
	wantText(t, other, "Being paid", "Approved and let go by You")
	h.wantWithdrawal(h.one, paid.ID, withdrawal.Processing, 2)

	// The first person's page is old by now. The decision of the colleague is shown.
	tab.Type("#remove-code", first.code())
	tab.Click("form[action$=remove] button")
	wantText(t, tab, "Being paid", "Admin Person", "No decision is needed")
	h.wantWithdrawal(h.one, paid.ID, withdrawal.Processing, 2)

	other.OpenURL(base+Prefix+"/approvals/withdrawals/"+removed.ID, desk)
	other.Type("#remove-reason", "Not a customer of ours")
	other.Type("#remove-code", second.code())
	other.Click("form[action$=remove] button")
	wantText(t, other, "Removed by You", "Not a customer of ours")
	h.wantWithdrawal(h.one, removed.ID, withdrawal.Rejected, 0)
	for _, page := range []*browser.Page{tab, other} {
		for _, complaint := range page.ListComplaints() {
			if !strings.Contains(complaint, "status of 401") {
				t.Errorf("the browser complained: %s", complaint)
			}
		}
	}
}
