package deposit

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

// AskRedirect sends a flagged deposit to another address like Redirect. Where the operators have a rule, nothing
// leaves: the redirect waits for their signatures, and the operator who asked for it is none of them. Asking again for
// the same changes nothing. Errors: those of Redirect. Rule SA-17.
func (s *Service) AskRedirect(
	ctx context.Context, depositID string, actor Actor, redirection Redirection,
) (Deposit, error) {
	// A key of the API and its holder would count as two.
	return s.redirect(ctx, depositID, actor, redirection, id.IsValid("opr", actor.ID))
}

// LoadRedirect returns how many operators have to sign the redirect of a deposit, and the words of one that waits for
// signatures. Error: fault NOT_FOUND.
func (s *Service) LoadRedirect(ctx context.Context, depositID string) (r ReturnReview, err error) {
	d, err := s.findFlagged(ctx, depositID, Actor{}, "")
	if err != nil || d.status != Flagged || s.Approvers == nil {
		return r, err
	}
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		r = ReturnReview{}
		if r.People, err = s.countOperators(ctx, tx); err != nil {
			return err
		}
		return s.loadRequest(ctx, tx, d, true, &r)
	})
	if err != nil {
		return ReturnReview{}, fmt.Errorf("look at the redirect of deposit %s: %w", depositID, err)
	}
	return r, nil
}

// SignRedirect records an operator's signature of a redirect that waits for it. With the last one that the operators'
// rule asks for, the redirect leaves like one of Redirect. A repeated call after that returns the deposit as it is.
// Errors: those of Redirect, INVALID_STATE for a redirect that does not wait any more and for an operator's second
// signature, and INVALID_REQUEST for a signature that is not valid. Rules SA-7 and SA-17.
func (s *Service) SignRedirect(
	ctx context.Context, depositID, requestID string, actor Actor, signature signer.KeySignature,
) (Deposit, error) {
	if !actor.isOperator() {
		return Deposit{}, newOperatorOnly("Only operators of this service sign a redirect.")
	}
	return s.signRequest(ctx, depositID, requestID, actor, signature, decisionRedirected)
}

// countOperators returns how many operators have to sign a redirect by their rule; 0 without one.
func (s *Service) countOperators(ctx context.Context, tx pg.Tx) (int, error) {
	if s.Approvers == nil {
		return 0, nil
	}
	rule, err := s.Approvers.LoadRule(ctx, tx, signer.Operators)
	if err != nil || rule == nil {
		return 0, err
	}
	return rule.Quorum, nil
}

// holdForOperators keeps a redirect from leaving where the operators' rule asks for signatures: it writes the request,
// or refuses a caller that cannot ask. isHeld is false where no one has to sign. The deposit is locked and flagged.
func (s *Service) holdForOperators(
	ctx context.Context, tx pg.Tx, d storedDeposit, res resolution,
) (isHeld bool, err error) {
	people, err := s.countOperators(ctx, tx)
	if err != nil {
		return false, err
	}
	waiting, err := loadReturnRequest(ctx, tx, d.id, "")
	switch {
	case err != nil:
		return false, err
	case people > 0 && !res.mayAsk:
		return false, s.newUnsignedRedirect(d, people)
	case waiting != nil && people > 0 && waiting.IsRedirect && waiting.ToAddress == res.toAddress &&
		waiting.Reason == res.reason && waiting.Reference == res.reference:
		return true, nil
	case waiting != nil:
		return false, newReturnWaits(d, *waiting)
	case people == 0:
		return false, nil
	}
	return true, insertReturnRequest(ctx, tx, d, res, people)
}

// newUnsignedRedirect returns the answer to a redirect by a caller that cannot ask operators for signatures.
func (s *Service) newUnsignedRedirect(d storedDeposit, people int) *fault.Fault {
	advice := "Ask for the redirect on the deposit's page of the console, where other operators sign it."
	if s.RedirectPage != nil {
		advice = "Ask for the redirect on the page " + s.RedirectPage(d.id) + ", where other operators sign it."
	}
	return newConflict(d.status, fault.InvalidState, fault.NothingWritten,
		"The operators' rule asks for the signatures of %d operators for this redirect, and only the console takes "+
			"them.", people).WithAdvice("%s", advice)
}
