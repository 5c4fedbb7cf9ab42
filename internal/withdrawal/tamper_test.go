package withdrawal

import (
	"errors"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/signer"
)

// The owner of the database cannot make one approval enough where two are required. Rules WD-36,
// WD-37.
func TestAQuorumThatWasLoweredInTheDatabaseLetsNothingGo(t *testing.T) {
	t.Parallel()
	h, _ := newGrantedEnv(t)
	h.setSetting("approvalQuorum", "2")
	for name, set := range map[string]string{
		"one":        `approvals_required = 1`,
		"none":       `approvals_required = 0`,
		"not at all": `approvals_required = 0, requires_approval = false`,
	} {
		w := h.requestHeld()
		h.execAsOwner(`UPDATE withdrawals SET ` + set + ` WHERE withdrawal_id = '` + w.ID + `'`)
		_, err := h.Approve(t.Context(), h.org, w.ID, userActor(1))
		wantFault(t, err, fault.ApprovalRefused)
		if got := h.orderStatus(w.ID); got != "none" {
			t.Errorf("%s: order: got %v, want none", name, got)
		}
		h.execAsOwner(
			`UPDATE withdrawals SET approvals_required = 2, requires_approval = true WHERE withdrawal_id = '` + w.ID + `'`,
		)
		if got := approvalCount(
			h.requestApproved(w.ID, userActor(1), userActor(2)),
		); got != "PROCESSING 2 of 2" {
			t.Errorf("%s: as it was: got %s, want it approved by two", name, got)
		}
	}
}

// An approval that only the owner of the database has made pays nothing: it counts for the tables
// and not for the signer. Rules WD-36, I-22.
func TestAnApprovalThatWasForgedInTheDatabasePaysNothing(t *testing.T) {
	t.Parallel()
	h, s := newGrantedEnv(t)
	const forge = `INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac)
		SELECT org_id, withdrawal_id, round, 'USER', 'usr_9', at, digest, mac FROM withdrawal_approvals WHERE withdrawal_id = `
	for name, c := range map[string]struct {
		before func(id string) string // after the first of two has approved
		ok     bool
	}{
		"nothing":             {func(string) string { return `SELECT 1` }, true},
		"one more, by a copy": {func(id string) string { return forge + `'` + id + `'` }, false},
		"the approver renamed": {func(id string) string {
			return `UPDATE withdrawal_approvals SET approver_id = 'usr_9' WHERE withdrawal_id = '` + id + `'`
		}, false},
		"another's MAC of words": {func(id string) string {
			return `UPDATE withdrawal_approvals SET mac = '\x00' WHERE withdrawal_id = '` + id + `'`
		}, false},
	} {
		h.setSetting("approvalQuorum", "2")
		w := h.requestHeld()
		h.requestApproved(w.ID, userActor(1))
		h.execAsOwner(c.before(w.ID))
		_, err := h.Approve(t.Context(), h.org, w.ID, userActor(2))
		if err == nil {
			_, err = s.AdmitIntent(t.Context(), h.newIntent(w.ID))
		}
		var no *signer.Refusal
		if c.ok && err != nil || !c.ok && (err == nil || errors.As(err, &no) && no.Code != signer.RefusedGrant) {
			t.Errorf("%s: got %v, want it paid: %t", name, err, c.ok)
		}
	}
}
