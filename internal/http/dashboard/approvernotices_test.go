package dashboard

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/signer"
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
