package payout

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

const reasonRunesMax = 500

// errLostRace says that the batch changed under a compare-and-swap.
var errLostRace = errors.New("the batch has changed")

// setStatus changes the status of a locked batch. set continues the UPDATE; its parameters start at $5.
func setStatus(ctx context.Context, tx pg.Tx, b Batch, status Status, set string, args ...any) error {
	tag, err := tx.Exec(ctx, `
		UPDATE payout_batches SET version = version + 1, status = $3, updated_at = greatest(updated_at, $4), `+set+`
		WHERE batch_id = $1 AND version = $2`, append([]any{b.ID, b.Version, status, tx.Now}, args...)...)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil {
		return fmt.Errorf("batch %s from %s to %s: %w", b.ID, b.Status, status, err)
	}
	return nil
}

// newState returns the answer to a call that the state of a batch does not allow.
func newState(b Batch, act string) error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"This batch payout is %s, so it cannot be %s.",
		b.Status, act).WithExtra("currentStatus", string(b.Status))
}

// newOtherContent returns the answer to a hash that is not that of the batch.
func newOtherContent(b Batch) error {
	return fault.New(fault.Conflict, fault.ApprovalRefused, fault.NothingWritten,
		"This contentHash is not that of batch payout %s.", b.ID).
		WithAdvice("Look at the batch and its rows again, and name the hash that is shown with them.").
		WithParam("contentHash")
}

// newHolds returns the postings that hold the sum of a batch, one for each mint; newReleases those that give it back.
func (b Batch) newHolds() []ledger.Posting {
	return b.newPostings(ledger.BatchHold, ledger.ProductOwner(ledger.BatchProduct), ledger.BatchOwner())
}

func (b Batch) newReleases() []ledger.Posting {
	return b.newPostings(ledger.BatchRelease, ledger.BatchOwner(), ledger.ProductOwner(ledger.BatchProduct))
}

func (b Batch) newPostings(kind ledger.CauseKind, from, to ledger.Owner) (postings []ledger.Posting) {
	for _, t := range b.Header.Totals {
		postings = append(postings, ledger.Posting{
			Cause: ledger.Cause{Kind: kind, ID: fmt.Sprintf("%s/%d", b.ID, t.MintID)},
			Legs: []ledger.Leg{{
				Debit: from.SpendingAccount(b.OrgID, t.MintID), Credit: to.SpendingAccount(b.OrgID, t.MintID),
				Amount: t.Amount,
			}},
		})
	}
	return postings
}

// Submit submits a draft with the hash that the caller saw: its whole sum is held, and the worker checks its rows. A
// batch that was submitted before is returned as it is. Errors: faults NOT_FOUND, INVALID_STATE, APPROVAL_REFUSED for
// another hash, and INSUFFICIENT_BALANCE with what is missing of each mint. Rule BP-4.
func (s *Service) Submit(
	ctx context.Context, orgID, batchID string, hash contenthash.Hash, actor audit.Actor,
) (b Batch, err error) {
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		if err := org.LockSettingsShared(ctx, tx, orgID); err != nil {
			return err
		}
		settings, err := org.SettingsOf(ctx, tx, orgID)
		if err != nil {
			return fmt.Errorf("settings of %s: %w", orgID, err)
		}
		if b, err = lockBatch(ctx, tx, orgID, batchID); err != nil {
			return err
		}
		switch {
		case b.ContentHash != hash:
			return newOtherContent(b)
		case b.Submitter != nil:
			return nil
		case b.Status != Draft:
			return newState(b, "submitted")
		}
		items, err := loadItems(ctx, tx, batchID)
		if err != nil {
			return err
		}
		if sealed, err := b.sealStored(items); err != nil || sealed.ComputeHash() != hash {
			return newOtherContent(b)
		}
		required := max(settings.ApprovalQuorum, 1)
		err = setStatus(ctx, tx, b, Validating,
			`submitter_kind = $5, submitter_id = $6, submitted_at = $4, approvals_required = $7, request_mac = $8,
				look_at = $4`,
			actor.Kind, actor.ID, required, s.GrantKey.BatchRequestMAC(hash, required))
		if err != nil {
			return err
		}
		if err := ledger.Post(ctx, tx, b.newHolds()...); err != nil {
			return fmt.Errorf("hold for batch %s: %w", batchID, err)
		}
		return audit.Record(ctx, tx, newEntry(b, actor, "submitted", map[string]any{
			"contentHash": hash, "totals": b.Header.Totals, "required": required,
		}))
	})
	if errors.Is(err, ledger.ErrOverdraft) {
		return Batch{}, s.newShortfall(ctx, b)
	}
	if err != nil {
		return Batch{}, err
	}
	return s.ByID(ctx, orgID, batchID)
}

// Shortfall is what is missing of a mint for a batch.
type Shortfall struct {
	MintID    int          `json:"mintId"`
	Needed    money.Amount `json:"needed"`
	Available money.Amount `json:"available"`
	Missing   money.Amount `json:"missing"`
}

// newShortfall returns the answer to a balance that is too small.
func (s *Service) newShortfall(ctx context.Context, b Batch) error {
	missing := []Shortfall{}
	err := s.DB.ReadOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
		missing = missing[:0]
		for _, t := range b.Header.Totals {
			balance, err := ledger.Balance(ctx, tx, ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(b.OrgID,
				t.MintID))
			if err != nil {
				return err
			}
			if balance.Less(t.Amount) {
				missing = append(missing, Shortfall{
					MintID: t.MintID, Needed: t.Amount, Available: balance, Missing: money.SubOrZero(t.Amount, balance),
				})
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("what batch %s lacks: %w", b.ID, err)
	}
	return fault.New(fault.Unprocessable, fault.InsufficientBalance, fault.NothingHeld,
		"%s has less than the rows of this batch payout need.", ledger.BatchProduct).
		WithStep(fault.LookAtBalances).WithDetail("shortfall", missing)
}

// Approve records a person's approval of the hash that the person saw. The last one that is required lets the rows
// go. The rows that the database has are compared with the hash once more. Errors: faults NOT_FOUND, INVALID_STATE,
// also for a second approval of a person, and APPROVAL_REFUSED. Rule BP-6.
func (s *Service) Approve(
	ctx context.Context, orgID, batchID string, hash contenthash.Hash, actor audit.Actor,
) (b Batch, err error) {
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		if b, err = lockBatch(ctx, tx, orgID, batchID); err != nil {
			return err
		}
		if b.Status != AwaitingApproval {
			return newState(b, "approved")
		}
		items, err := loadItems(ctx, tx, batchID)
		if err != nil {
			return err
		}
		if b.ContentHash != hash {
			return newOtherContent(b)
		}
		if !s.isIntact(b, items) {
			return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
				"The rows of this batch payout differ from what was submitted: they were changed since.").
				WithAdvice("Do not approve it. Reject it, and find out who changed it.")
		}
		approval := s.GrantKey.MakeBatchApproval(hash, actorName(actor))
		_, err = tx.Exec(ctx, `
			INSERT INTO payout_approvals (org_id, batch_id, approver_kind, approver_id, at, content_hash, mac)
			VALUES ($1, $2, $3, $4, $5, $6, $7)`, orgID, batchID, actor.Kind, actor.ID, tx.Now, hash[:], approval.MAC)
		switch {
		case pg.ViolatesConstraint(err, "payout_approvals_pkey"):
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"You have already approved this batch payout, and each person counts once.").
				WithAdvice("Another person has to approve it, too.").WithExtra("currentStatus", string(b.Status))
		case pg.ViolatesConstraint(err, "payout_approvals_not_by_maker"),
			pg.ViolatesConstraint(err, "payout_approvals_by_people"):
			return fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
				"Who made or submitted a batch payout cannot approve it, and only people can.").
				WithAdvice("Another person has to approve it.")
		case err != nil:
			return fmt.Errorf("approve batch %s: %w", batchID, err)
		}
		detail := map[string]any{"contentHash": hash, "approvals": b.Approvals + 1, "required": b.Required}
		if b.Approvals+1 < b.Required {
			return audit.Record(ctx, tx, newEntry(b, actor, "approval_added", detail))
		}
		if err := setStatus(ctx, tx, b, Processing, `approved_at = $4, look_at = $4`); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(b, actor, "approved", detail))
	})
	if err != nil {
		return Batch{}, err
	}
	return s.ByID(ctx, orgID, batchID)
}

// Cancel takes back a batch that is not approved yet; its sum is spendable again. A cancelled one stays
// as it is. Errors: faults NOT_FOUND and INVALID_STATE.
func (s *Service) Cancel(ctx context.Context, orgID, batchID string, actor audit.Actor) (Batch, error) {
	return s.end(ctx, orgID, batchID, Cancelled, "", actor)
}

// Reject ends a batch that waits for approval; its sum is spendable again. Errors: faults NOT_FOUND, INVALID_STATE
// and INVALID_REQUEST.
func (s *Service) Reject(ctx context.Context, orgID, batchID, reason string, actor audit.Actor) (Batch, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !request.IsPlainText(reason) {
		return Batch{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A reason may have at most %d characters of text.", reasonRunesMax).WithParam("reason")
	}
	return s.end(ctx, orgID, batchID, Rejected, reason, actor)
}

func (s *Service) end(
	ctx context.Context, orgID, batchID string, status Status, problem string, actor audit.Actor,
) (b Batch, err error) {
	err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		if b, err = lockBatch(ctx, tx, orgID, batchID); err != nil || b.Status == status {
			return err
		}
		isOpen := b.Status == AwaitingApproval || status == Cancelled && (b.Status == Draft || b.Status == Validating)
		if !isOpen {
			return newState(b, map[Status]string{Cancelled: "cancelled", Rejected: "rejected"}[status])
		}
		return endUnpaid(ctx, tx, b, status, problem, actor)
	})
	if err != nil {
		return Batch{}, err
	}
	return s.ByID(ctx, orgID, batchID)
}

// endUnpaid ends a locked batch before its approval and gives its sum back.
func endUnpaid(ctx context.Context, tx pg.Tx, b Batch, status Status, problem string, actor audit.Actor) error {
	err := setStatus(ctx, tx, b, status, `ended_at = $4, look_at = NULL, problem = nullif($5, '')`, problem)
	if err != nil {
		return err
	}
	if b.Submitter != nil {
		if err := ledger.Post(ctx, tx, b.newReleases()...); err != nil {
			return fmt.Errorf("release the hold of batch %s: %w", b.ID, err)
		}
	}
	return audit.Record(ctx, tx, newEntry(b, actor, string(status), map[string]any{"reason": problem}))
}
