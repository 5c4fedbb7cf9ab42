package payout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/approver"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
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

// announce records the event of a new status, and the audit entry of a change that is complete. b is as it was before.
func (s *Service) announce(
	ctx context.Context, tx pg.Tx, b Batch, actor audit.Actor, verb string, detail map[string]any,
) error {
	if s.Events != nil {
		changed, err := readBatch(ctx, tx, b.OrgID, b.ID)
		if err != nil {
			return err
		}
		if changed.Status == b.Status {
			return audit.Record(ctx, tx, newEntry(b, actor, verb, detail))
		}
		if err := loadCounts(ctx, tx, &changed); err != nil {
			return err
		}
		if err := s.Events.PublishBatch(ctx, tx, changed); err != nil {
			return fmt.Errorf("publish that batch %s is %s: %w", b.ID, changed.Status, err)
		}
	}
	return audit.Record(ctx, tx, newEntry(b, actor, verb, detail))
}

// newHolds returns the postings that hold the sum of a batch, one for each mint; newReleases those that give it back.
func (b Batch) newHolds() []ledger.Posting {
	return b.newPostings(ledger.BatchHold, ledger.ProductOwner(ledger.BatchProduct), ledger.BatchOwner())
}

func (b Batch) newReleases() []ledger.Posting {
	return b.newPostings(ledger.BatchRelease, ledger.BatchOwner(), ledger.ProductOwner(ledger.BatchProduct))
}

// newExclusions returns the postings that give back what rows take that are left out.
func (b Batch) newExclusions(items []Item) (postings []ledger.Posting, err error) {
	sums := map[int]money.Amount{}
	for _, i := range items {
		if i.IsIncluded {
			continue
		}
		if sums[i.MintID], err = sums[i.MintID].Add(i.Amount); err != nil {
			return nil, fmt.Errorf("add the rows that batch %s leaves out: %w", b.ID, err)
		}
	}
	for _, mintID := range slices.Sorted(maps.Keys(sums)) {
		postings = append(postings, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.BatchRelease, ID: fmt.Sprintf("%s/excluded/%d", b.ID, mintID)},
			Legs: []ledger.Leg{{
				Debit:  ledger.BatchOwner().SpendingAccount(b.OrgID, mintID),
				Credit: ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(b.OrgID, mintID), Amount: sums[mintID],
			}},
		})
	}
	return postings, nil
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

// SubmitRequest asks for the submission of a draft.
type SubmitRequest struct {
	ContentHash contenthash.Hash // what the caller saw
	// AcknowledgeDuplicateOf names the batch of the same list that was submitted before; "" for none.
	AcknowledgeDuplicateOf string
	// Ticked are the numbers of the rows whose look-alike a person has looked at.
	Ticked []int
	Actor  audit.Actor
}

// Submit submits a draft with the hash that the caller saw: its whole sum is held, and the worker checks its rows. A
// batch that was submitted before is returned as it is. Errors: faults NOT_FOUND, INVALID_STATE, also for a STRICT
// batch with rows that cannot be read and for a look-alike without a tick, APPROVAL_REFUSED for another hash,
// DUPLICATE_BATCH for a list that was submitted before, and INSUFFICIENT_BALANCE with what is missing of each mint.
// Rules BP-4, BP-7, BP-9 and BP-10.
func (s *Service) Submit(ctx context.Context, orgID, batchID string, r SubmitRequest) (b Batch, err error) {
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
		case b.Submitter != nil && string(b.submittedHash) == string(r.ContentHash[:]):
			return nil
		case b.ContentHash != r.ContentHash:
			return newOtherContent(b)
		case b.Submitter != nil:
			return nil
		case b.Status != Draft:
			return newState(b, "submitted")
		case b.BadRows > 0 && b.Header.Mode == contenthash.Strict:
			return newUnreadable(b)
		}
		if err := refuseDuplicate(ctx, tx, b, r.AcknowledgeDuplicateOf); err != nil {
			return err
		}
		err = s.submit(ctx, tx, b, r, max(settings.ApprovalQuorum, 1))
		failpoint.HitBeforeCommit("B02")
		return err
	})
	failpoint.Hit("B02")
	switch {
	case errors.Is(err, ledger.ErrOverdraft):
		return Batch{}, s.newShortfall(ctx, b)
	case pg.ViolatesConstraint(err, "payout_batches_list_once"):
		// Another submission of the same list was quicker.
		err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			return refuseDuplicate(ctx, tx, b, r.AcknowledgeDuplicateOf)
		})
		if err == nil { // and it has ended without a payment since
			return s.Submit(ctx, orgID, batchID, r)
		}
	}
	if err != nil {
		return Batch{}, err
	}
	return s.readChanged(ctx, orgID, batchID)
}

// submit writes the submission of a locked draft that nothing keeps from it but warnings and balances.
func (s *Service) submit(ctx context.Context, tx pg.Tx, b Batch, r SubmitRequest, required int) error {
	items, err := loadItems(ctx, tx, b.ID)
	if err != nil {
		return err
	}
	if sealed, err := b.sealStored(items); err != nil || sealed.ComputeHash() != r.ContentHash {
		return newOtherContent(b)
	}
	people, err := s.peopleByRule(ctx, tx, b, items)
	if err != nil {
		return err
	}
	required = max(required, people)
	warnings, err := findWarnings(ctx, tx, b, items)
	if err != nil {
		return err
	}
	if err := refuseUnticked(warnings, r.Ticked); err != nil {
		return err
	}
	err = setStatus(ctx, tx, b, Validating,
		`submitter_kind = $5, submitter_id = $6, submitted_at = $4, approvals_required = $7, request_mac = $8,
			look_at = $4, submitted_hash = content_hash, duplicate_of = nullif($9, '')`,
		r.Actor.Kind, r.Actor.ID, required, s.GrantKey.BatchRequestMAC(r.ContentHash, required),
		r.AcknowledgeDuplicateOf)
	if err != nil {
		return err
	}
	if err := keepWarnings(ctx, tx, b, warnings, r.Ticked); err != nil {
		return err
	}
	if err := ledger.Post(ctx, tx, b.newHolds()...); err != nil {
		return fmt.Errorf("hold for batch %s: %w", b.ID, err)
	}
	for _, t := range b.Header.Totals {
		// The hold has locked the balance, so nothing takes it while the debt is read.
		balance, owed, err := loadBalance(ctx, tx, b.OrgID, t.MintID)
		if err != nil {
			return err
		}
		if balance.Less(owed) {
			return fmt.Errorf("hold for batch %s: %w", b.ID, ledger.ErrOverdraft)
		}
	}
	detail := map[string]any{
		"contentHash": r.ContentHash, "totals": b.Header.Totals, "required": required, "ticked": r.Ticked,
	}
	if r.AcknowledgeDuplicateOf != "" {
		detail["duplicateOf"] = r.AcknowledgeDuplicateOf
	}
	return s.announce(ctx, tx, b, r.Actor, "submitted", detail)
}

func newUnreadable(b Batch) error {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingHeld,
		"%d rows of this batch payout cannot be read, and its mode is STRICT: every row is paid, or none.", b.BadRows).
		WithAdvice("Correct the rows that the draft names and make a batch of the whole list again, or use the mode "+
			"PARTIAL, which leaves them out.").
		WithExtra("currentStatus", string(b.Status))
}

// EarlierSubmission returns the newest other batch with the list of this one that was submitted and may have paid
// something, or "". A submission has to name it. Rules BP-9 and BP-80.
func (s *Service) EarlierSubmission(ctx context.Context, org, batchID string) (earlier string, err error) {
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		earlier, err = findEarlierSubmission(ctx, tx, org, batchID)
		return err
	})
	return earlier, err
}

func findEarlierSubmission(ctx context.Context, tx pg.Tx, org, batchID string) (earlier string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT o.batch_id FROM payout_batches o JOIN payout_batches b ON b.batch_id = $2 AND o.list_hash = b.list_hash
		WHERE o.org_id = $1 AND o.batch_id <> $2 AND o.submitted_at IS NOT NULL
			AND o.status NOT IN ('INVALID', 'CANCELLED', 'REJECTED', 'FAILED')
		ORDER BY o.submitted_at DESC, o.batch_id DESC LIMIT 1`, org, batchID).Scan(&earlier)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", fmt.Errorf("look for batches of the same list as %s: %w", batchID, err)
	}
	return earlier, nil
}

// refuseDuplicate refuses a list that another batch of the organization has, which was submitted and may have paid
// something, until the caller names that batch. Rule BP-9.
func refuseDuplicate(ctx context.Context, tx pg.Tx, b Batch, acknowledged string) error {
	earlier, err := findEarlierSubmission(ctx, tx, b.OrgID, b.ID)
	switch {
	case err != nil:
		return err
	case earlier == acknowledged:
		return nil
	case earlier == "":
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"%.64q is no batch payout of the same list that was submitted and may have paid something.",
			acknowledged).WithAdvice("Leave acknowledgeDuplicateOf out.").WithParam("acknowledgeDuplicateOf")
	}
	return fault.New(fault.Conflict, fault.DuplicateBatch, fault.NothingHeld,
		"Batch payout %s pays the same list and was submitted before.", earlier).
		WithAdvice("Look at it first. If the list has to be paid once more, submit this one again with "+
			"acknowledgeDuplicateOf and that id.").
		WithParam("acknowledgeDuplicateOf").WithExtra("existingId", earlier)
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
			balance, owed, err := loadBalance(ctx, tx, b.OrgID, t.MintID)
			if err != nil {
				return err
			}
			if available := money.SubOrZero(balance, owed); available.Less(t.Amount) {
				missing = append(missing, Shortfall{
					MintID: t.MintID, Needed: t.Amount, Available: available,
					Missing: money.SubOrZero(t.Amount, available),
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

// loadBalance returns what the product that pays batches has of a mint, and what it owes for payments that a restored
// backup lacked. The debt comes first, as with withdrawals. Rule BP-71.
func loadBalance(ctx context.Context, tx pg.Tx, orgID string, mintID int) (balance, owed money.Amount, err error) {
	balance, err = ledger.Balance(ctx, tx, ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(orgID, mintID))
	if err != nil {
		return balance, owed, err
	}
	err = tx.QueryRow(ctx, `
		SELECT coalesce(sum(owed), 0) FROM withdrawals
		WHERE org_id = $1 AND product = $2 AND mint_id = $3 AND owed > 0`,
		orgID, ledger.BatchProduct, mintID).Scan(&owed)
	if err != nil {
		return balance, owed, fmt.Errorf("read what %s of %s owes: %w", ledger.BatchProduct, orgID, err)
	}
	return balance, owed, nil
}

// Approve records a person's approval of the hash that the person saw. The last one that is required lets the rows
// go. The rows that the database has are compared with the hash once more. Errors: faults NOT_FOUND, INVALID_STATE,
// also for a second approval of a person, and APPROVAL_REFUSED. Rule BP-6.
func (s *Service) Approve(
	ctx context.Context, orgID, batchID string, hash contenthash.Hash, actor audit.Actor,
) (b Batch, err error) {
	return s.ApproveSigned(ctx, orgID, batchID, hash, actor, nil)
}

// ApproveSigned approves like Approve, with the signature of the person's passkey over the words of the batch. Where
// the organization's rule asks for people, an approval without one is refused. The approval and its signature are
// written together. Rules SA-1 and SA-7.
func (s *Service) ApproveSigned(
	ctx context.Context, orgID, batchID string, hash contenthash.Hash, actor audit.Actor,
	signature *signer.KeySignature,
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
		people, signedWords, err := s.checkSignature(ctx, tx, b, items, actorName(actor), signature)
		if err != nil {
			return err
		}
		counting, err := loadApprovals(ctx, tx, batchID)
		if err != nil {
			return err
		}
		if people > 0 {
			counting = approver.FindLasting(counting, tx.Now, approver.SignatureMargin)
		}
		isAgain := signature != nil && !slices.ContainsFunc(counting, func(a signer.Approval) bool {
			return a.Approver == actorName(actor)
		})
		approval := s.GrantKey.MakeBatchApproval(hash, actorName(actor))
		_, err = tx.Exec(ctx, `
			INSERT INTO payout_approvals (org_id, batch_id, approver_kind, approver_id, at, content_hash, mac,
				signature, nth)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $9 THEN (SELECT count(*) FROM payout_approvals
				WHERE batch_id = $2 AND (approver_kind, approver_id) = ($3, $4)) ELSE 0 END)`,
			orgID, batchID, actor.Kind, actor.ID, tx.Now, hash[:], approval.MAC, signature, isAgain)
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
		required, count := max(b.Required, people), len(counting)+1
		detail := map[string]any{"contentHash": hash, "approvals": count, "required": required}
		if people > 0 {
			detail["people"] = people
		}
		if signedWords != nil {
			detail["signed"] = signedWords
		}
		if count < required {
			return s.announce(ctx, tx, b, actor, "approval_added", detail)
		}
		if err := setStatus(ctx, tx, b, Processing, `approved_at = $4, look_at = $4`); err != nil {
			return err
		}
		err = s.announce(ctx, tx, b, actor, "approved", detail)
		failpoint.HitBeforeCommit("B05")
		return err
	})
	failpoint.Hit("B05")
	if err != nil {
		return Batch{}, err
	}
	return s.readChanged(ctx, orgID, batchID)
}

// Cancel takes back a batch. One that is not approved yet ends, and its sum is spendable again. Of one that is being
// paid, the worker takes back what has no slot and returns those amounts; what has a slot is paid, and the batch ends
// with it. A cancelled one stays as it is. Errors: faults NOT_FOUND and INVALID_STATE. Rule BP-12.
func (s *Service) Cancel(ctx context.Context, orgID, batchID string, actor audit.Actor) (Batch, error) {
	return s.change(ctx, orgID, batchID, func(ctx context.Context, tx pg.Tx, b Batch) error {
		switch {
		case b.Status == Cancelled, b.Status == Processing && b.StoppedAt != nil:
			return nil
		case b.Status == Processing:
			err := setStatus(ctx, tx, b, Processing,
				`stopped_at = $4, stopper_kind = $5, stopper_id = $6, look_at = $4`, actor.Kind, actor.ID)
			if err != nil {
				return err
			}
			return s.announce(ctx, tx, b, actor, "stopped", map[string]any{})
		case b.Status == Draft, b.Status == Validating, b.Status == AwaitingApproval:
			return s.endUnpaid(ctx, tx, b, Cancelled, "", actor)
		}
		return newState(b, "cancelled")
	})
}

// Reject ends a batch that waits for approval; its sum is spendable again. Errors: faults NOT_FOUND, INVALID_STATE
// and INVALID_REQUEST.
func (s *Service) Reject(ctx context.Context, orgID, batchID, reason string, actor audit.Actor) (Batch, error) {
	if utf8.RuneCountInString(reason) > reasonRunesMax || !request.IsPlainText(reason) {
		return Batch{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A reason may have at most %d characters of text.", reasonRunesMax).WithParam("reason")
	}
	return s.change(ctx, orgID, batchID, func(ctx context.Context, tx pg.Tx, b Batch) error {
		switch b.Status {
		case Rejected:
			return nil
		case AwaitingApproval:
			return s.endUnpaid(ctx, tx, b, Rejected, reason, actor)
		}
		return newState(b, "rejected")
	})
}

// Pause stops the payments of a batch that is being paid: no row gets a payment, and no payment without a slot gets
// one. What has a slot is paid. A paused one stays as it is. Errors: faults NOT_FOUND and INVALID_STATE. Rule BP-11.
func (s *Service) Pause(ctx context.Context, orgID, batchID string, actor audit.Actor) (Batch, error) {
	return s.change(ctx, orgID, batchID, func(ctx context.Context, tx pg.Tx, b Batch) error {
		switch {
		case b.Status != Processing || b.StoppedAt != nil:
			return newState(b, "paused")
		case b.PausedAt != nil:
			return nil
		}
		if err := setStatus(ctx, tx, b, Processing, `paused_at = $4`); err != nil {
			return err
		}
		return s.announce(ctx, tx, b, actor, "paused", map[string]any{})
	})
}

// Resume lets the payments of a paused batch go on. One that is not paused stays as it is. Errors: faults NOT_FOUND and
// INVALID_STATE.
func (s *Service) Resume(ctx context.Context, orgID, batchID string, actor audit.Actor) (Batch, error) {
	return s.change(ctx, orgID, batchID, func(ctx context.Context, tx pg.Tx, b Batch) error {
		switch {
		case b.Status != Processing || b.StoppedAt != nil:
			return newState(b, "resumed")
		case b.PausedAt == nil:
			return nil
		}
		if err := setStatus(ctx, tx, b, Processing, `paused_at = NULL, pause_reason = NULL, look_at = $4`); err != nil {
			return err
		}
		return s.announce(ctx, tx, b, actor, "resumed", map[string]any{"pausedAt": b.PausedAt})
	})
}

// change runs fn with a locked batch, and returns the batch as it is afterwards.
func (s *Service) change(
	ctx context.Context, orgID, batchID string, fn func(ctx context.Context, tx pg.Tx, b Batch) error,
) (Batch, error) {
	err := s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		b, err := lockBatch(ctx, tx, orgID, batchID)
		if err != nil {
			return err
		}
		return fn(ctx, tx, b)
	})
	if err != nil {
		return Batch{}, err
	}
	return s.readChanged(ctx, orgID, batchID)
}

// endUnpaid ends a locked batch before its approval and gives its sum back.
func (s *Service) endUnpaid(
	ctx context.Context, tx pg.Tx, b Batch, status Status, problem string, actor audit.Actor,
) error {
	err := setStatus(ctx, tx, b, status, `ended_at = $4, look_at = NULL, problem = nullif($5, '')`, problem)
	if err != nil {
		return err
	}
	if b.Submitter != nil {
		if err := ledger.Post(ctx, tx, b.newReleases()...); err != nil {
			return fmt.Errorf("release the hold of batch %s: %w", b.ID, err)
		}
	}
	return s.announce(ctx, tx, b, actor, string(status), map[string]any{"reason": problem})
}
