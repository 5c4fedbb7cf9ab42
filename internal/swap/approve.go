package swap

import (
	"context"
	"crypto/hmac"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// approverName returns the name that identifies a person among the approvers.
func approverName(a audit.Actor) string { return a.Kind + " " + a.ID }

func parseApprover(name string) audit.Actor {
	kind, actorID, _ := strings.Cut(name, " ")
	return audit.Actor{Kind: kind, ID: actorID}
}

// loadApprovals returns the approvals of a swap that the server's key confirms, the first one first.
func (s *Service) loadApprovals(ctx context.Context, tx pg.Tx, w Swap) (approvals []signer.Approval, err error) {
	rows, err := tx.Query(ctx, `
		SELECT approver_kind || ' ' || approver_id, mac, signature FROM (
			SELECT DISTINCT ON (approver_kind, approver_id) * FROM swap_approvals
			WHERE swap_id = $1 ORDER BY approver_kind, approver_id, nth DESC
		) a ORDER BY at, approver_kind, approver_id`, w.ID)
	if err != nil {
		return nil, fmt.Errorf("read the approvals of swap %s: %w", w.ID, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[signer.Approval])
	if err != nil {
		return nil, fmt.Errorf("read the approvals of swap %s: %w", w.ID, err)
	}
	payout := w.payout()
	for _, a := range found {
		if !hmac.Equal(s.GrantKey.MakePayoutApproval(payout, a.Approver).MAC, a.MAC) {
			s.Log.ErrorContext(ctx, "swap: an approval is of another content", "swap", w.ID, "approver", a.Approver)
			continue
		}
		approvals = append(approvals, a)
	}
	return approvals, nil
}

// loadCounting returns the approvals of a swap that count. Where people have to sign it, these are the ones whose
// signatures have time left.
func (s *Service) loadCounting(ctx context.Context, tx pg.Tx, w Swap, people int) ([]signer.Approval, error) {
	approvals, err := s.loadApprovals(ctx, tx, w)
	if err != nil || people == 0 {
		return approvals, err
	}
	return approver.FindLasting(approvals, tx.Now, signatureMargin), nil
}

// isAsRequested reports whether the row is what was requested, by the server's key.
func (s *Service) isAsRequested(w Swap) bool {
	return s.GrantKey.VerifySwapRequest(w.payout(), w.ApprovalsRequired, w.mac)
}

// PayoutDigest returns the digest of what an approver of a swap is shown: the swap, and the payment of its
// output. Error: fault NOT_FOUND.
func (s *Service) PayoutDigest(ctx context.Context, orgID, swapID string) (string, error) {
	w, err := s.OrganizationByID(ctx, orgID, swapID)
	if err != nil {
		return "", err
	}
	return w.payout().ComputeDigest(), nil
}

// ApproveOrganization records a person's approval of a swap that waits for it, for the swap with the digest
// that the person was shown; "" stands for the one that is read now. With the last approval that is required
// the worker takes an offer. The approvals cover the payment of the output, too. Rules SWAP-35 and SWAP-36.
//
// Errors: faults NOT_FOUND, SCOPE_MISSING, INVALID_STATE (also for a second approval of a person, and once
// its time is over), APPROVAL_REFUSED, ORGANIZATION_SWAPS_DISABLED, ORGANIZATION_FROZEN and
// WITHDRAWALS_SUSPENDED.
func (s *Service) ApproveOrganization(
	ctx context.Context, orgID, swapID, shownDigest string, person member.Member,
) (Swap, error) {
	return s.ApproveSigned(ctx, orgID, swapID, shownDigest, person, nil)
}

// ApproveSigned approves like ApproveOrganization, with the signature of the person's passkey over the words that were
// shown. Where the organization's rule asks for people, an approval without one is refused. The signer pays the output
// with these signatures, within the bounds that they name. Rules CO-148, SA-1 and SA-7.
func (s *Service) ApproveSigned(
	ctx context.Context, orgID, swapID, shownDigest string, person member.Member, signature *signer.KeySignature,
) (w Swap, err error) {
	if err := requireDecider(person, orgID); err != nil {
		return w, err
	}
	if _, err := s.OrganizationByID(ctx, orgID, swapID); err != nil {
		return w, err
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := s.lockApproval(ctx, tx, orgID, swapID); err != nil {
			return err
		}
		if w, err = s.lockAwaiting(ctx, tx, orgID, swapID, "approved"); err != nil {
			return err
		}
		w, err = s.approve(ctx, tx, w, shownDigest, person.Actor(), signature)
		return err
	})
	if err != nil {
		return Swap{}, err
	}
	return w, nil
}

// requireDecider refuses a person who may not decide about payments of the organization.
func requireDecider(person member.Member, orgID string) error {
	if person.OrgID != orgID || !person.IsAllowed(identity.DecideWithdrawal) {
		return fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingWritten,
			"Only a person with the role OWNER, ADMIN or APPROVER can decide about a swap that waits for approval.").
			WithAdvice("Ask a person with one of these roles.")
	}
	return nil
}

// lockApproval checks what may have changed for the worse since the request, under locks that come before
// that of the swap.
func (s *Service) lockApproval(ctx context.Context, tx pg.Tx, orgID, swapID string) error {
	if err := org.LockSettingsShared(ctx, tx, orgID); err != nil {
		return err
	}
	settings, err := org.SettingsOf(ctx, tx, orgID)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", orgID, err)
	}
	if err := checkOrganizationEnabled(settings); err != nil {
		return stillHeld(err)
	}
	w, err := loadOrganization(ctx, tx, orgID, swapID)
	if err != nil {
		return err
	}
	if w.Status == AwaitingApproval {
		if err := s.recheckEntry(ctx, tx, w); err != nil {
			return err
		}
	}
	if err := freeze.LockShared(ctx, tx); err != nil {
		return err
	}
	if err := checkFrozen(ctx, tx, orgID, ""); err != nil {
		return stillHeld(err)
	}
	return stillHeld(checkStopped(ctx, tx, orgID, "", w.From))
}

// stillHeld says of a refusal that the amount of the swap stays held.
func stillHeld(err error) error {
	if f := fault.Find(err); f != nil {
		f.Effect = fault.StillHeld
		return f
	}
	return err
}

// recheckEntry refuses a swap whose whitelist entry may not be paid any more, or has another address than
// when the swap was requested. Error: fault APPROVAL_REFUSED.
func (s *Service) recheckEntry(ctx context.Context, tx pg.Tx, w Swap) error {
	entry, err := s.loadEntry(ctx, tx, w.OrgID, w.WhitelistedID, w.To.Chain)
	f := fault.Find(err)
	switch {
	case err != nil && f == nil:
		return err
	case f == nil && entry.Address == w.PayoutAddress:
		return nil
	}
	return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
		"The organization's whitelist does not allow the destination of the output now.").
		WithAdvice("Cancel the swap, or approve it when the address is allowed.")
}

// lockAwaiting locks a swap that waits for approval. act says what is done with it.
func (s *Service) lockAwaiting(ctx context.Context, tx pg.Tx, orgID, swapID, act string) (Swap, error) {
	w, err := lock(ctx, tx, swapID)
	switch {
	case err != nil:
		return Swap{}, err
	case w.OrgID != orgID || !w.isOfOrganization():
		return Swap{}, newGone()
	case w.Status != AwaitingApproval:
		return Swap{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"Only a swap that is AWAITING_APPROVAL can be %s, and this one is %s.", act, w.Status).
			WithExtra("currentStatus", string(w.Status))
	}
	return w, nil
}

// approve writes an approval, and lets the swap go with the last one.
func (s *Service) approve(
	ctx context.Context, tx pg.Tx, w Swap, shownDigest string, person audit.Actor, signature *signer.KeySignature,
) (Swap, error) {
	payout := w.payout()
	digest := payout.ComputeDigest()
	switch {
	case shownDigest != "" && shownDigest != digest, !s.isAsRequested(w):
		return Swap{}, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"This swap differs from what was shown or requested.").
			WithAdvice("Look at it again. If the error stays, reject the swap and find out who changed it.")
	case !tx.Now.Before(w.CreatedAt.Add(approvalWindow)):
		return Swap{}, fault.New(fault.Conflict, fault.InvalidState, fault.StillHeld,
			"A swap can be approved for %s after its request, and this one is older.", approvalWindow).
			WithAdvice("Cancel it and make a new swap.").
			WithExtra("currentStatus", string(w.Status))
	}
	people, signed, err := s.checkSignature(ctx, tx, w, approverName(person), signature)
	if err != nil {
		return Swap{}, err
	}
	counting, err := s.loadCounting(ctx, tx, w, people)
	if err != nil {
		return Swap{}, err
	}
	isAgain := signature != nil && !slices.ContainsFunc(counting, func(a signer.Approval) bool {
		return a.Approver == approverName(person)
	})
	approval := s.GrantKey.MakePayoutApproval(payout, approverName(person))
	_, err = tx.Exec(ctx, `
		INSERT INTO swap_approvals (org_id, swap_id, approver_kind, approver_id, at, digest, mac, signature, nth)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $9 THEN (SELECT count(*) FROM swap_approvals
			WHERE swap_id = $2 AND (approver_kind, approver_id) = ($3, $4)) ELSE 0 END)`,
		w.OrgID, w.ID, person.Kind, person.ID, tx.Now, digest, approval.MAC, signature, isAgain)
	switch {
	case pg.ViolatesConstraint(err, "swap_approvals_pkey"):
		return Swap{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
			"You have already approved this swap, and each person counts once.").
			WithAdvice("Another person has to approve it, too.").
			WithExtra("currentStatus", string(w.Status))
	case pg.ViolatesConstraint(err, "swap_approvals_not_by_maker"),
		pg.ViolatesConstraint(err, "swap_approvals_by_people"):
		return Swap{}, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
			"The person who requested a swap cannot approve it, and only people can.").
			WithAdvice("Another person has to approve it.")
	case err != nil:
		return Swap{}, fmt.Errorf("approve swap %s: %w", w.ID, err)
	}
	verb, count := "approval_added", len(counting)+1
	if count >= w.ApprovalsRequired {
		verb = "approved"
		err := setStatus(ctx, tx, w.ID, AwaitingApproval, Pending, "approved_at = $4, look_at = $4")
		if err != nil {
			return Swap{}, err
		}
	}
	approved, err := loadAny(ctx, tx, w.ID)
	if err != nil {
		return Swap{}, err
	}
	detail := map[string]any{"digest": digest, "approvals": count, "required": w.ApprovalsRequired}
	if people > 0 {
		detail["people"] = people
	}
	if signed != nil {
		detail["signed"] = signed
	}
	return approved, audit.Record(ctx, tx, newEntry(approved, person, verb, detail))
}

// RejectOrganization ends a swap that waits for approval, because a person who decides refuses it. Its
// amount is available again. Errors: faults NOT_FOUND, SCOPE_MISSING, INVALID_REQUEST, INVALID_STATE.
func (s *Service) RejectOrganization(
	ctx context.Context, orgID, swapID, note string, person member.Member,
) (Swap, error) {
	if err := requireDecider(person, orgID); err != nil {
		return Swap{}, err
	}
	if err := checkNote(note); err != nil {
		return Swap{}, err
	}
	return s.release(ctx, orgID, swapID, Rejected, &note, person.Actor())
}

// CancelOrganization ends a swap that waits for approval, because its organization no longer wants it. Its
// amount is available again. Errors: faults NOT_FOUND, SCOPE_MISSING, INVALID_STATE.
func (s *Service) CancelOrganization(
	ctx context.Context, orgID, swapID string, person member.Member,
) (Swap, error) {
	if err := requireOwnMoney(person, orgID); err != nil {
		return Swap{}, err
	}
	return s.release(ctx, orgID, swapID, CancelledStatus, nil, person.Actor())
}

// release ends a swap that waits for approval and gives its amount back to the product.
func (s *Service) release(
	ctx context.Context, orgID, swapID string, status Status, note *string, requester audit.Actor,
) (w Swap, err error) {
	if _, err := s.OrganizationByID(ctx, orgID, swapID); err != nil {
		return w, err
	}
	verb := strings.ToLower(string(status))
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		locked, err := s.lockAwaiting(ctx, tx, orgID, swapID, verb)
		if err != nil {
			return err
		}
		err = setStatus(ctx, tx, swapID, AwaitingApproval, status,
			"refunded = amount_in, look_at = NULL, rejected_note = $5", note)
		if err != nil {
			return err
		}
		if locked, err = loadAny(ctx, tx, swapID); err != nil {
			return err
		}
		postings, released, err := s.restoreLocked(ctx, tx, locked)
		if err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, postings...); err != nil {
			return fmt.Errorf("release swap %s: %w", swapID, err)
		}
		w = released
		return audit.Record(ctx, tx, newEntry(released, requester, verb, map[string]any{"note": note}))
	})
	if err != nil {
		return Swap{}, err
	}
	return w, nil
}

// isApprovalOver reports whether the time in which approvals cover the payment of the output is over.
func (w Swap) isApprovalOver(now time.Time) bool {
	return w.PayoutUntil == nil || now.After(*w.PayoutUntil)
}
