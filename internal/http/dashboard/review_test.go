package dashboard

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/pages/ui"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

var digestInput = regexp.MustCompile(`name="digest" value="([0-9a-f]{64})"`)

// open returns the path of a withdrawal's page and the digest in its form.
func (h *testEnv) open(token, withdrawalID string) (path, digest string) {
	h.t.Helper()
	path = Prefix + "/approvals/withdrawals/" + withdrawalID
	found := digestInput.FindStringSubmatch(h.get(token, path).want(h.t, http.StatusOK).body)
	if found == nil {
		h.t.Fatal("got no form with a digest")
	}
	return path, found[1]
}

func (h *testEnv) wantWithdrawal(who tenant, id string, status withdrawal.Status, approvals int) {
	h.t.Helper()
	w, err := h.withdrawals.ByID(h.t.Context(), who.id, id)
	if err != nil {
		h.t.Fatal(err)
	}
	if w.Status != status || w.Approvals.Received != approvals {
		h.t.Errorf("got %s with %d approvals, want %s with %d", w.Status, w.Approvals.Received, status, approvals)
	}
}

// A page of a decision shows everything whole, and nothing of a stranger's text is markup or hidden.
// Rule PAGE-4.
func TestTheReviewShowsAllOfThePaymentAndNothingHidden(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	customer := strings.ReplaceAll(hostile, "\u202e", "") // A customer's id has no hidden character.
	h.fund(h.one, customer, evil, 50_000_000_000)
	w := h.request(h.one, customer, evil, "12500000001")
	token := h.signIn(h.one, identity.Approver)
	body := h.get(token, Prefix+"/approvals/withdrawals/"+w.ID).want(t, http.StatusOK,
		"12\u202f500.000001", `data-copy="`+recipient+`"`, "Your organization has never paid this address before.",
		ui.EscapeForeign(`Аlice`), `\u{202e}`, "There was no price").body
	for _, markup := range []string{"<script>alert", "\u202e", "<b>U</b>", "Аlice"} {
		if strings.Contains(body, markup) {
			t.Errorf("the page has %q as the stranger wrote it", markup)
		}
	}
	var words []string
	for _, m := range regexp.MustCompile(`data-word="(\w+)"`).FindAllStringSubmatch(body, -1) {
		words = append(words, m[1])
	}
	const want = "amount to network token contract feeMode act organization withdrawal"
	if got := strings.Join(words, " "); got != want {
		t.Errorf("got the words %q, want %q in this order", got, want)
	}
	h.get(token, Prefix+"/approvals").want(t, http.StatusOK, "Your backend asked for an approval", "&lt;script&gt;")
}

// Rule PAGE-3.
func TestTwoPeopleApproveAndADoubleClickCountsOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.setQuorum(h.one, "2")
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	first, second := h.signIn(h.one, identity.Approver), h.signIn(h.one, identity.Admin)
	path, digest := h.open(first, w.ID)

	// A wrong code writes nothing and comes back at the field.
	h.post(first, path+"/approve", "digest", digest, "code", "000000").
		want(t, http.StatusUnauthorized, "This code is wrong or was used.", `aria-invalid="true"`)
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)

	// The second of two clicks has the same code, and shows the approval instead of an error.
	for range 2 {
		got := h.post(first, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusSeeOther)
		if to := got.header.Get("Location"); to != path {
			t.Errorf("got a redirect to %q, want %q", to, path)
		}
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 1)
	h.get(first, path).want(t, http.StatusOK, "You approved it", "Another person has to approve it")

	// A code that was used by an act does not count for another.
	h.post(second, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusUnauthorized)
	h.post(second, path+"/approve", "digest", digest, "code", rightCode+"b").want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, w.ID, withdrawal.Processing, 2)
	// The first person's old tab removes nothing, and shows what was decided.
	h.post(first, path+"/remove", "reason", "", "code", rightCode+"c").want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, w.ID, withdrawal.Processing, 2)
	h.get(first, path).want(t, http.StatusOK, "Being paid", "Admin Person", "No decision is needed")
}

func TestARemovalReturnsTheAmountAndTellsTheReason(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	token := h.signIn(h.one, identity.Owner)
	path, _ := h.open(token, w.ID)
	long := strings.Repeat("ä", 501)
	h.post(token, path+"/remove", "reason", long, "code", rightCode).
		want(t, http.StatusBadRequest, "at most 500 characters", `value="`+long+`"`)
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
	h.post(token, path+"/remove", "reason", "Not our customer", "code", rightCode+"b").want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, w.ID, withdrawal.Rejected, 0)
	h.get(token, path).want(t, http.StatusOK, "Removed", "Not our customer")
}

// A person whose approval does not suffice may think again.
func TestAPersonWhoApprovedMayRemove(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.setQuorum(h.one, "2")
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	token := h.signIn(h.one, identity.Approver)
	path, digest := h.open(token, w.ID)
	h.post(token, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 1)
	h.get(token, path).want(t, http.StatusOK, "You approved it", path+"/remove")
	h.post(token, path+"/remove", "reason", "A second look", "code", rightCode+"b").want(t, http.StatusSeeOther)
	h.wantWithdrawal(h.one, w.ID, withdrawal.Rejected, 1)
	h.get(token, path).want(t, http.StatusOK, "Removed", "A second look")
}

// An approval is for the terms that were shown.
func TestTheApprovalOfOtherTermsIsRefused(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	token := h.signIn(h.one, identity.Owner)
	path, _ := h.open(token, w.ID)
	h.post(token, path+"/approve", "digest", strings.Repeat("0", 64), "code", rightCode).
		want(t, http.StatusConflict, "It was not approved.", "The withdrawal still waits")
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
}

// Rule PAGE-6.
func TestAPageShowsNothingOfAnotherOrganization(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	token, stranger := h.signIn(h.one, identity.Owner), h.signIn(h.two, identity.Owner)
	path, digest := h.open(token, w.ID)
	h.get(stranger, path).want(t, http.StatusNotFound)
	h.post(stranger, path+"/approve", "digest", digest, "code", rightCode).want(t, http.StatusNotFound)
	h.post(stranger, path+"/remove", "reason", "", "code", rightCode).want(t, http.StatusNotFound)
	list := h.get(stranger, Prefix+"/approvals").want(t, http.StatusOK, "No withdrawal waits")
	if strings.Contains(list.body, w.ID) {
		t.Error("the list shows a withdrawal of another organization")
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
}

// Every role sees, and only those that decide get a form. A form by hand gets 403 with the roles. Rule PAGE-6.
func TestOnlyRolesThatDecideAreOfferedADecision(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.fund(h.one, "alice", usdc, 50_000_000)
	w := h.request(h.one, "alice", usdc, "1000000")
	path := Prefix + "/approvals/withdrawals/" + w.ID
	for _, role := range roles {
		token := h.signIn(h.one, role)
		decides := role == identity.Owner || role == identity.Admin || role == identity.Approver
		body := h.get(token, path).want(t, http.StatusOK).body
		if got := strings.Contains(body, `action="`+path+`/approve"`); got != decides {
			t.Errorf("%s: got a form %v, want %v", role, got, decides)
		}
		if !decides {
			h.post(token, path+"/remove", "reason", "", "code", rightCode).
				want(t, http.StatusForbidden, "Owner, Admin or Approver")
		}
	}
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
}
