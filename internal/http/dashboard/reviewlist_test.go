package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// payLargest has the organization pay the address of the tests a large amount, so nothing about smaller ones is
// unusual.
func (h *testEnv) payLargest() {
	h.t.Helper()
	h.alter(`UPDATE withdrawals SET status = 'COMPLETED', approved_at = now(), completed_at = now(), tx_hash = $2
		WHERE withdrawal_id = $1`, h.request(h.one, "alice", usdc, "30000000000").ID, firstHash)
}

// requestOrdinary makes a withdrawal that waits and has a value in dollars. Prices are old where time has passed.
func (h *testEnv) requestOrdinary(amount string) withdrawal.Withdrawal {
	h.t.Helper()
	w := h.request(h.one, "alice", usdc, amount)
	h.alter(`UPDATE withdrawals SET usd_value = 1 WHERE withdrawal_id = $1`, w.ID)
	return w
}

// tick ticks boxes of the list and presses its button.
func tick(tab *browser.Page, ids ...string) {
	for _, id := range ids {
		browser.Evaluate[bool](tab, fmt.Sprintf(`(document.querySelector('input[value=%q]').checked = true)`, id))
	}
	tab.Click("form#" + chooseAct + " button")
}

// Ordinary withdrawals are chosen in the list, shown whole, and approved with one touch. Rules PAGE-125 and PAGE-129.
func TestAPasskeyApprovesSeveralWithdrawalsAtOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab := h.browse(identity.Approver)
	tab.AddAuthenticator()
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	h.foundByHost(enroller)
	h.enrol(tab, signer.RightApprove)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enroller)
	h.fund(h.one, "alice", usdc, 90_000_000_000)
	h.payLargest()
	first, second := h.requestOrdinary("12500000000"), h.requestOrdinary("7000000")
	largest := h.requestOrdinary("31000000000")
	nothing := func(name string) {
		t.Helper()
		for _, w := range []withdrawal.Withdrawal{first, second, largest} {
			h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
		}
		if t.Failed() {
			t.Fatalf("%s: something was approved", name)
		}
	}

	for _, c := range []struct {
		ids  []string
		want string
	}{
		{nil, "Choose at least two withdrawals."},
		{[]string{first.ID}, "You chose 1 withdrawals, and one signature is of 2 to 20."},
		{[]string{first.ID, largest.ID}, largest.ID + " is reviewed by itself, because it is the largest"},
	} {
		tab.OpenURL(h.base()+Prefix+"/approvals", desk)
		tick(tab, c.ids...)
		wantText(t, tab, c.want)
	}
	query := url.Values{"withdrawals": {first.ID + "," + second.ID}}.Encode()
	review := h.base() + Prefix + reviewListPath + "?" + query

	tab.OpenURL(h.base()+Prefix+"/approvals", desk)
	tick(tab, first.ID, second.ID)
	wantText(t, tab, "Review of 2 withdrawals", "units on ETHEREUM, contract ", "Payment 2 of 2: 7 USDC")
	got := browser.Evaluate[int](tab, "document.querySelectorAll('[data-payment] [data-word=to]').length")
	if got != 2 {
		t.Errorf("got %d addresses, want one of each payment", got)
	}

	// One character of one payment is changed on the screen.
	browser.Evaluate[bool](tab,
		`(document.querySelector('[data-payment]:last-of-type [data-word=to] b').append('0'), true)`)
	browser.Evaluate[bool](tab, "(document.querySelector('form[data-sign] button[type=submit]').click(), true)")
	tab.WaitUntil("document.querySelector('.passkey-problem')?.textContent.includes('Nothing was signed.')")
	nothing("a changed character")

	tab.OpenURL(review, desk)
	browser.Evaluate[bool](tab,
		`(document.querySelector('[data-word=total]').textContent = '1 unit', true)`)
	tab.Click("form[data-sign] button[type=submit]")
	wantText(t, tab, "it is of other words")
	nothing("a changed total")

	tab.OpenURL(review, desk)
	tab.Click("form[data-sign] button[type=submit]")
	wantText(t, tab, "Your approval of 2 of 2 withdrawals", first.ID, second.ID, "Your approval stands: 1 of 1.")
	for _, w := range []withdrawal.Withdrawal{first, second} {
		h.wantWithdrawal(h.one, w.ID, withdrawal.Processing, 1)
	}
	h.wantWithdrawal(h.one, largest.ID, withdrawal.AwaitingApproval, 0)

	tab.OpenURL(review, desk)
	wantText(t, tab, "does not wait any more")
}

// Without a passkey, without a rule, without withdrawals and without the right, nothing is offered and nothing is
// written. Rule PAGE-129.
func TestSeveralWithdrawalsAreNotApprovedByAFormAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	approver := h.addPasskey(h.one, identity.Approver, signer.RightApprove)
	h.foundByHost(enroller)
	h.foundByHost(approver)
	h.pass(25 * time.Hour)
	h.fund(h.one, "alice", usdc, 90_000_000_000)
	h.payLargest()
	first, second := h.requestOrdinary("12500000000"), h.requestOrdinary("7000000")
	owner, viewer := h.signIn(h.one, identity.Owner), h.signIn(h.one, identity.Viewer)
	list, box := Prefix+"/approvals", `name="`+chosenName+`"`
	query := "?" + url.Values{"withdrawals": {first.ID + "," + second.ID}}.Encode()

	if body := h.get(owner, list).want(t, http.StatusOK).body; strings.Contains(body, box) {
		t.Error("the list has boxes without a rule")
	}
	h.get(owner, Prefix+reviewListPath+query).want(t, http.StatusConflict, "asks for no signature of it")
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enroller)
	first, second = h.requestOrdinary("12500000000"), h.requestOrdinary("7000000") // which the rule holds
	query = "?" + url.Values{"withdrawals": {first.ID + "," + second.ID}}.Encode()
	h.get(owner, list).want(t, http.StatusOK, box, "Review together")
	if body := h.get(viewer, list).want(t, http.StatusOK).body; strings.Contains(body, box) {
		t.Error("the list has boxes for a role that does not decide")
	}
	h.get(owner, Prefix+reviewListPath).want(t, http.StatusOK, "No withdrawals are chosen")
	h.get(owner, Prefix+reviewListPath+query).want(t, http.StatusOK, "You have no passkey for")
	h.get(viewer, Prefix+reviewListPath+query).want(t, http.StatusOK, "do not decide about them")
	other := h.signIn(h.two, identity.Owner)
	h.get(other, Prefix+reviewListPath+query).want(t, http.StatusNotFound)
	fields := []string{
		"digests", strings.Repeat("0", 64) + "," + strings.Repeat("0", 64), "keyId", "apk_1", "notAfter", "",
		"credentialId", "", "authenticatorData", "", "clientDataJSON", "", "signature", "",
	}
	act := Prefix + reviewListPath + "/" + signAct + query
	if got := h.post(owner, act, fields...); !strings.Contains(got.body, "without the signature of a passkey") {
		t.Errorf("a form without a signature: got %d %s", got.status, got.body)
	}
	h.post(viewer, act, fields...).want(t, http.StatusForbidden)
	for _, w := range []withdrawal.Withdrawal{first, second} {
		h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
	}
}

// Where people sign at an address of their own, the dashboard has no boxes and no page for several. Rule PAGE-120.
func TestSeveralWithdrawalsAreSignedAtThePagesOfApprovalsAlone(t *testing.T) {
	t.Parallel()
	h := newApprovalsEnv(t)
	enroller := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	approver := h.addPasskey(h.one, identity.Approver, signer.RightApprove)
	h.foundByHost(enroller)
	h.foundByHost(approver)
	h.pass(25 * time.Hour)
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enroller)
	h.fund(h.one, "alice", usdc, 90_000_000_000)
	h.payLargest()
	first, second := h.requestOrdinary("12500000000"), h.requestOrdinary("7000000")
	token := h.openSession(h.one, identity.Owner, session.ForApprovals)
	for _, path := range []string{"/", "/approvals"} {
		got, _ := h.sendHere(token, http.MethodGet, path)
		if !strings.Contains(got.body, `action="/approvals/`+chooseAct+`"`) {
			t.Errorf("%s of the pages of approvals has no boxes:\n%s", path, got.body)
		}
	}
	got, headers := h.sendHere(token, http.MethodPost, "/approvals/"+chooseAct,
		chosenName, first.ID, chosenName, second.ID)
	if got.status != http.StatusSeeOther || !strings.HasPrefix(headers.Get("Location"), reviewListPath+"?") {
		t.Fatalf("got %d %s to %q", got.status, got.body, headers.Get("Location"))
	}
	if got, _ := h.sendHere(token, http.MethodGet, headers.Get("Location")); got.status != http.StatusOK ||
		!strings.Contains(got.body, "Review of 2 withdrawals") {
		t.Errorf("got %d %s", got.status, got.body)
	}
	dashboard := h.openSession(h.one, identity.Owner, session.ForPages)
	if body := h.get(dashboard, Prefix+"/approvals").want(t, http.StatusOK).body; strings.Contains(body, chooseAct) {
		t.Error("the dashboard has boxes where people sign elsewhere")
	}
	for _, path := range []string{Prefix + "/approvals/" + chooseAct, Prefix + reviewListPath + "/" + signAct} {
		if got := h.post(dashboard, path); got.status != http.StatusNotFound {
			t.Errorf("POST %s: got %d, want no such form", path, got.status)
		}
	}
}
