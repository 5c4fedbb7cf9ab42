package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// Each page says to a person with one passkey alone that a second one is needed, and to everyone with a passkey what
// cools off. Rule PAGE-126.
func TestEachPageSaysThatAPasskeyIsAloneAndWhatCoolsOff(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	const alone, cools, ruleCools = "You have one passkey alone for", "A new passkey for approvals cools off",
		"A looser rule on approvals cools off"
	wantNotices := func(when string, role identity.Role, want ...string) {
		t.Helper()
		token := h.signIn(h.one, role)
		for _, path := range []string{"", "/balances", "/approvers"} {
			body := h.get(token, Prefix+path).want(t, http.StatusOK).body
			for _, text := range []string{alone, cools, ruleCools} {
				has, wants := strings.Contains(body, text), strings.Contains(strings.Join(want, "\n"), text)
				if has != wants {
					t.Errorf("%s, %s as %s: got %q %v, want %v", when, path, role, text, has, wants)
				}
			}
			for _, text := range want {
				if !strings.Contains(body, text) {
					t.Errorf("%s, %s as %s: got no %q", when, path, role, text)
				}
			}
		}
	}
	enrol := h.addPasskey(h.one, identity.Owner, signer.RightEnrol)
	wantNotices("not admitted yet", identity.Owner)
	h.foundByHost(enrol)
	wantNotices("cooling off", identity.Owner, alone+" “Change who approves”", cools,
		`href="/dashboard/approvers/new"`)
	wantNotices("a colleague without a passkey", identity.Admin)
	h.pass(25 * time.Hour)
	wantNotices("it counts", identity.Owner, alone)
	h.foundByHost(h.addPasskey(h.one, identity.Approver, signer.RightApprove))
	second := h.addPasskeyNamed(h.one, identity.Owner, signer.RightEnrol, "second")
	h.foundByHost(second)
	wantNotices("two passkeys", identity.Owner, "2 new passkeys for approvals cool off")
	wantNotices("another person", identity.Approver, alone+" “Approve payments”")
	h.pass(25 * time.Hour)
	wantNotices("all count", identity.Owner)
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, enrol)
	wantNotices("a rule that tightens", identity.Owner)
	h.setRule(h.one, signer.ApprovalRule{}, enrol)
	wantNotices("a rule that loosens", identity.Owner, ruleCools, `href="/dashboard/approvers"`)
	h.pass(25 * time.Hour)
	wantNotices("it holds", identity.Owner)
}

// The page of a withdrawal says to a person whose signature is about to end that it counts no more, and takes another
// one. Rules SA-7 and PAGE-110.
func TestThePageAsksAPersonWhoseSignatureEndsToSignAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	var approve, enrol []*signertest.Passkey
	for _, role := range []identity.Role{identity.Owner, identity.Approver} {
		approve = append(approve, h.addPasskey(h.one, role, signer.RightApprove))
		enrol = append(enrol, h.addPasskey(h.one, role, signer.RightEnrol))
	}
	for _, p := range append(approve, enrol...) {
		h.foundByHost(p)
	}
	h.pass(25 * time.Hour)
	h.setRule(h.one, signer.ApprovalRule{Quorum: 2}, enrol...)
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	path, token := Prefix+"/approvals/withdrawals/"+w.ID, h.signIn(h.one, identity.Approver)
	review, err := h.withdrawals.LoadReview(t.Context(), h.one.id, w.ID)
	if err != nil {
		t.Fatal(err)
	}
	statement := func(c signer.StatementContext) signer.Statement { return review.Statement(c.Approver, c.NotAfter) }
	signature := approve[1].Sign(t, h.approvers.Installation(), h.now().Add(10*time.Minute), statement)
	person := h.one.people[identity.Approver].Actor()
	if _, err := h.withdrawals.ApproveSigned(t.Context(), h.one.id, w.ID, person, "", &signature); err != nil {
		t.Fatal(err)
	}
	body := h.get(token, path).want(t, http.StatusOK, "You approved it", "1 of 2").body
	if strings.Contains(body, signAgainText) || strings.Contains(body, path+"/"+signAct) {
		t.Error("the page asks for another signature while the first one counts")
	}
	h.pass(9 * time.Minute)
	h.get(token, path).want(t, http.StatusOK, signAgainText, "0 of 2", path+"/"+signAct)
}
