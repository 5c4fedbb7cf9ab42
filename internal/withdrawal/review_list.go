package withdrawal

import (
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// ordinaryReasons are those of a withdrawal that a setting or the rule of the organization holds, and nothing else.
// Every other reason asks a person to look at this one withdrawal.
var ordinaryReasons = []Reason{ReasonRequireApproval, ReasonUSDThreshold, ReasonApprovalRule}

// ReviewList is withdrawals that a person reviews together and signs at once. Rule SA-23.
type ReviewList struct {
	Reviews []Review // in the order in which they were named
	People  int      // how many people have to sign them: the most of any of them
	// context completes statements; it is that of the service.
	context func(person, notAfter string) signer.StatementContext
}

// PaymentList returns what one signature of a person covers. Error: a total above the largest amount.
func (v ReviewList) PaymentList(person, notAfter string) (signer.PaymentList, error) {
	var payments []signer.PaymentWords
	for _, r := range v.Reviews {
		payments = append(payments, *r.payment)
	}
	return signer.NewPaymentList(payments, v.context(person, notAfter))
}

// MayBeOrdinary reports whether a withdrawal may be signed together with others, as far as its own row says.
// LoadReviewList also compares it with other withdrawals.
func (w Withdrawal) MayBeOrdinary() bool {
	return w.Status == AwaitingApproval && w.ApprovalFingerprint != "" && whyAlone(w) == ""
}

// whyAlone says by its row why a withdrawal is reviewed by itself, or "".
func whyAlone(w Withdrawal) string {
	switch {
	case w.Owner.IsOrganization() || w.Owner.IsRefund() || w.Owner.IsBatch() || w.SwapID != "":
		return "it is no customer's withdrawal"
	case w.USDValue == nil:
		return "its value in dollars is not known"
	}
	for _, reason := range w.ApprovalReasons {
		if !slices.Contains(ordinaryReasons, reason) {
			return "it waits for another reason than the settings and the rule of your organization"
		}
	}
	return ""
}

// whyAlone says why a withdrawal is reviewed by itself, or "".
func (r Review) whyAlone() string {
	switch reason := whyAlone(r.Withdrawal); {
	case reason != "":
		return reason
	case !r.NeedsSignature() || r.payment == nil:
		return "the rule of your organization asks for no signature of it"
	case r.IsReturned:
		return "it was approved before and came back"
	case r.IsFirstPayment:
		return "your organization has never paid its address before"
	case r.IsLargest:
		return "it is the largest of its token in 30 days"
	}
	return ""
}

// LoadReviewList returns withdrawals that a person reviews together: at least two and at most twenty, each of which
// waits and has nothing unusual. Errors: faults NOT_FOUND, INVALID_REQUEST for another number, INVALID_STATE for one
// that was decided, and APPROVAL_REFUSED for one that is reviewed by itself.
func (s *Service) LoadReviewList(ctx context.Context, org string, ids []string) (ReviewList, error) {
	if len(ids) < signer.PaymentListMin || len(ids) > signer.PaymentListMax {
		return ReviewList{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"You chose %d withdrawals, and one signature is of %d to %d.", len(ids), signer.PaymentListMin,
			signer.PaymentListMax).
			WithAdvice("Choose others in the list.")
	}
	var found ReviewList
	for i, id := range ids {
		if slices.Contains(ids[:i], id) {
			return ReviewList{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"Withdrawal %s is named twice.", id).WithAdvice("Choose them again in the list.")
		}
		r, err := s.LoadReview(ctx, org, id)
		if err != nil {
			return ReviewList{}, err
		}
		if r.Withdrawal.Status != AwaitingApproval {
			return ReviewList{}, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"Withdrawal %s does not wait any more, so none of them was approved.", id).
				WithAdvice("Choose the others again in the list.").
				WithExtra("currentStatus", string(r.Withdrawal.Status))
		}
		if reason := r.whyAlone(); reason != "" {
			return ReviewList{}, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
				"Withdrawal %s is reviewed by itself, because %s. None of them was approved.", id, reason).
				WithAdvice("Review it on its own page, and choose the others again in the list.")
		}
		found.Reviews, found.People = append(found.Reviews, r), max(found.People, r.People)
	}
	found.context = s.Approvers.Context
	return found, nil
}

// Shown is a withdrawal with the digest of the terms that a person saw.
type Shown struct{ ID, Digest string }

// Approved is what became of one withdrawal of several. Err is nil for one with the approval, and a fault for one that
// was refused meanwhile. Of any other error it is open whether the approval was written.
type Approved struct {
	ID         string
	Withdrawal Withdrawal
	Err        error
}

// ApproveReviewList records a person's approval of several withdrawals with one signature over the list of all of them.
//
// Everything that can be known before is checked first: each withdrawal waits, is ordinary and has the terms that were
// shown, the person has approved none of them, and the signature is valid for each. Otherwise nothing is written. Then
// each one is approved by itself, as by ApproveSigned: a withdrawal that another person decides meanwhile, or that
// screening refuses, is refused alone, and the others have their approval. The same signature stands with each. An
// error that is no fault ends the act; the withdrawals after it are not in the answer. Rule SA-23.
//
// Errors: faults as of LoadReviewList, INVALID_STATE, APPROVAL_REFUSED, and those of the signature.
func (s *Service) ApproveReviewList(
	ctx context.Context, org string, actor audit.Actor, shown []Shown, signature signer.KeySignature,
) ([]Approved, error) {
	var ids []string
	for _, w := range shown {
		ids = append(ids, w.ID)
	}
	reviews, err := s.LoadReviewList(ctx, org, ids)
	if err != nil {
		return nil, err
	}
	person := approverName(actor)
	list, err := reviews.PaymentList(person, signature.NotAfter)
	if err != nil {
		return nil, fmt.Errorf("list the withdrawals: %w", err)
	}
	signature.List = &list
	for i, r := range reviews.Reviews {
		if r.Digest != shown[i].Digest {
			return nil, fault.New(fault.Conflict, fault.ApprovalRefused, fault.StillHeld,
				"Withdrawal %s differs from what was shown, so none of them was approved.", r.Withdrawal.ID).
				WithAdvice("Look at them again. If the error stays, review it by itself and find out who changed it.")
		}
		if slices.ContainsFunc(r.Approvals, func(a Approval) bool { return approverName(a.Approver) == person }) {
			return nil, fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"You have already approved withdrawal %s, so none of the others was approved.", r.Withdrawal.ID).
				WithAdvice("Choose the others again in the list.").
				WithExtra("currentStatus", string(AwaitingApproval))
		}
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		for _, r := range reviews.Reviews {
			statement := func(c signer.StatementContext) signer.Statement {
				return signer.PaymentStatement(*r.payment, c)
			}
			err := s.Approvers.CheckSignature(ctx, tx, org, person, signer.RightApprove, signature, statement)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var results []Approved
	for _, w := range shown {
		approved, err := s.ApproveSigned(ctx, org, w.ID, actor, w.Digest, &signature)
		results = append(results, Approved{ID: w.ID, Withdrawal: approved, Err: err})
		if err != nil && fault.Find(err) == nil {
			break
		}
	}
	return results, nil
}
