package dashboard

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/testing/trial/browser"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// keyStatus returns the state of a passkey.
func (h *testEnv) keyStatus(who tenant, keyID string) (status approver.Status) {
	h.t.Helper()
	err := h.db.ReadOrg(h.t.Context(), who.id, func(ctx context.Context, tx pg.Tx) error {
		k, err := h.approvers.ByID(ctx, tx, who.id, keyID)
		status = k.Status(tx.Now)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return status
}

// Once a rule holds, colleagues admit a passkey on its page: each signs the words of the enrolment, and as many as the
// signer asks for have to. Rules PAGE-109 and SA-2.
func TestColleaguesAdmitAPasskeyOnItsPage(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner := h.browse(identity.Owner)
	owner.AddAuthenticator()
	admin := h.addPasskey(h.one, identity.Admin, signer.RightEnrol)
	h.foundByHost(admin)
	h.foundByHost(h.addPasskey(h.one, identity.Admin, signer.RightApprove))
	h.pass(25 * time.Hour)
	h.setRule(h.one, signer.ApprovalRule{Quorum: 1}, admin)
	h.refreshSudo()
	h.enrol(owner, signer.RightEnrol)
	h.found(owner)
	h.pass(73 * time.Hour) // a founding where a rule exists is a recovery

	added := h.addPasskey(h.one, identity.Approver, signer.RightApprove)
	path := h.base() + Prefix + "/approvers/" + added.ID
	owner.OpenURL(path, desk)
	wantText(t, owner, "Waits to be admitted", "compare it with this one")
	browser.Evaluate[bool](owner, `((word) => {
		const group = word.querySelector('b, span') ?? word;
		group.textContent = (group.textContent.startsWith('0') ? '1' : '0') + group.textContent.slice(1);
	})(document.querySelector('form[action$=admit] [data-word=fingerprint]')), true`)
	owner.Click("form[action$=admit] button[type=submit]")
	wantText(t, owner, "it is of other words")

	owner.OpenURL(path, desk)
	owner.Click("form[action$=admit] button[type=submit]")
	wantText(t, owner, "Waits to be admitted", "the signatures of 2 people who may enrol are needed")
	if got := h.keyStatus(h.one, added.ID); got != approver.StatusWaiting {
		t.Errorf("admitted by one of two people: got %s, want %s", got, approver.StatusWaiting)
	}
	h.admit(added, admin)
	owner.OpenURL(path, desk)
	wantText(t, owner, "Cools off", "Colleagues")
	if got := h.keyStatus(h.one, added.ID); got != approver.StatusCoolingOff {
		t.Errorf("admitted by both: got %s, want %s", got, approver.StatusCoolingOff)
	}
	h.pass(25 * time.Hour)
	if got := h.keyStatus(h.one, added.ID); got != approver.StatusUsable {
		t.Errorf("after its cooling-off: got %s, want %s", got, approver.StatusUsable)
	}
}

// admit has a colleague's passkey sign the enrolment of another one.
func (h *testEnv) admit(added, by *signertest.Passkey) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		k, err := h.approvers.ByID(ctx, tx, added.OrgID, added.ID)
		if err != nil {
			return err
		}
		signature := by.Sign(h.t, h.approvers.Installation(), h.now().Add(time.Hour),
			func(c signer.StatementContext) signer.Statement { return signer.EnrolStatement(k.Request(), c) })
		return h.approvers.Admit(ctx, tx, h.one.people[identity.Admin].Actor(), added.OrgID, added.ID, signature)
	})
	if err == nil {
		err = h.approvers.FinishKey(h.t.Context(), added.ID)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// A passkey that a colleague retired on its page approves nothing, neither from a page that was open before nor from a
// new one. Rules PAGE-109, PAGE-110 and SA-3.
func TestAPasskeyThatWasRetiredOnItsPageApprovesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tab, owner := h.browse(identity.Approver), h.browse(identity.Owner)
	tab.AddAuthenticator()
	owner.AddAuthenticator()
	h.foundByHost(h.addPasskey(h.one, identity.Admin, signer.RightApprove)) // the rule keeps a person without the other
	h.enrol(owner, signer.RightEnrol)
	h.found(owner)
	path := h.enrol(tab, signer.RightApprove)
	h.found(tab)
	h.pass(25 * time.Hour)
	h.refreshSudo()
	owner.OpenURL(h.base()+Prefix+"/approvers/rule", desk)
	owner.Type("form[action$=propose] [name=quorum]", "1")
	owner.Click("form[action$=propose] button[type=submit]")
	owner.Click("form[action$=sign] button[type=submit]")
	wantText(t, owner, "Version 1. A payment needs the signatures of one person.")
	h.fund(h.one, "alice", usdc, 50_000_000_000)
	w := h.request(h.one, "alice", usdc, "12500000000")
	approval := h.base() + Prefix + "/approvals/withdrawals/" + w.ID
	tab.OpenURL(approval, desk)
	wantText(t, tab, "asks for the signatures of one person")

	owner.OpenURL(h.base()+path, desk)
	wantText(t, owner, "Counts")
	owner.Click("form[action$=retire] button[type=submit]")
	wantText(t, owner, "Retired")
	if got := h.keyStatus(h.one, path[strings.LastIndex(path, "/")+1:]); got != approver.StatusRetired {
		t.Errorf("got %s, want %s", got, approver.StatusRetired)
	}
	tab.Click("form[action$=sign] button[type=submit]")
	wantText(t, tab, "the passkey is retired")
	h.wantWithdrawal(h.one, w.ID, withdrawal.AwaitingApproval, 0)
	tab.OpenURL(approval, desk)
	wantText(t, tab, "You have no passkey for “Approve payments”")
}
