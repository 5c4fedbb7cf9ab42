package swap

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// OpenClaim returns what the provider has of the payment and still owes. It is zero before the payment
// is final, and after a delivery.
func (w Swap) OpenClaim() money.Amount {
	if w.PaidAt == nil || w.isDelivered() {
		return money.Amount{}
	}
	return money.SubOrZero(money.SubOrZero(w.AmountIn, w.Refunded), w.Short)
}

// WriteOffOutcome is the result of a request to write a claim off.
type WriteOffOutcome struct {
	Swap Swap
	// PendingChange is the change request for the second operator; nil if the claim is written off.
	PendingChange *changerequest.Request
}

// The members of a change request that writes a claim off.
const (
	writeOffSwap  = "swapId"
	writeOffClaim = "openClaim"
	writeOffNote  = "note"
)

// RequestWriteOff gives up what a provider owes of a failed swap, or creates a change request where dual
// control is on. A swap whose claim waits for a second operator keeps its request. Errors: faults
// NOT_FOUND, INVALID_STATE, and those of changerequest.CreateRequest. Rules OP-7 and SWAP-25.
func (s *Service) RequestWriteOff(
	ctx context.Context, tx pg.Tx, key operator.Key, rule changerequest.Rule, swapID, note string,
) (outcome WriteOffOutcome, err error) {
	if err := checkNote(note); err != nil {
		return outcome, err
	}
	needsSecond, err := rule.IsActive(ctx, tx, identity.WriteOffSwap)
	if err != nil {
		return outcome, err
	}
	if !needsSecond {
		outcome.Swap, err = s.WriteOff(ctx, tx, swapID, note, key.Actor())
		return outcome, err
	}
	if outcome.Swap, err = lock(ctx, tx, swapID); err != nil {
		return outcome, err
	}
	if err := outcome.Swap.requireClaim(); err != nil {
		return outcome, err
	}
	waiting, err := changerequest.ListPending(ctx, tx, outcome.Swap.OrgID)
	if err != nil {
		return outcome, err
	}
	for _, r := range waiting {
		if r.Kind == changerequest.SwapWriteOff && readWriteOff(r, writeOffSwap) == swapID {
			outcome.PendingChange = &r
			return outcome, nil
		}
	}
	r, err := changerequest.CreateRequest(ctx, tx, key, outcome.Swap.OrgID, changerequest.SwapWriteOff,
		changerequest.Values{writeOffClaim: quote(outcome.Swap.OpenClaim().String())},
		changerequest.Values{writeOffClaim: quote("0"), writeOffSwap: quote(swapID), writeOffNote: quote(note)})
	outcome.PendingChange = &r
	return outcome, err
}

// ApplyApproved returns the function that writes the claim of an approved change request off. Error:
// INVALID_STATE if the claim has changed since the request, because the approver then saw another
// amount.
func (s *Service) ApplyApproved(approver operator.Key) func(context.Context, pg.Tx, changerequest.Request) error {
	return func(ctx context.Context, tx pg.Tx, r changerequest.Request) error {
		w, err := lock(ctx, tx, readWriteOff(r, writeOffSwap))
		if err != nil {
			return err
		}
		var requested string
		if err := json.Unmarshal(r.Before[writeOffClaim], &requested); err != nil {
			return fmt.Errorf("read %s of %s: %w", writeOffClaim, r.ID, err)
		}
		if w.OpenClaim().String() != requested {
			return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
				"The claim of swap %s has changed since this change request.", w.ID).
				WithAdvice("The requester has to withdraw the request and make a new one.")
		}
		_, err = s.WriteOff(ctx, tx, w.ID, readWriteOff(r, writeOffNote), approver.Actor())
		return err
	}
}

// requireClaim refuses a swap of which no provider owes anything that could be given up.
func (w Swap) requireClaim() error {
	if w.Status == FailedStatus && !w.OpenClaim().IsZero() {
		return nil
	}
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten,
		"Only a claim of a failed swap can be written off, and this swap has none.").
		WithExtra("currentStatus", string(w.Status))
}

// readWriteOff returns a text of a change request, or "" if it has none.
func readWriteOff(r changerequest.Request, name string) (text string) {
	if json.Unmarshal(r.Wanted[name], &text) != nil {
		return ""
	}
	return text
}

func quote(text string) json.RawMessage {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic("swap: a text cannot be encoded: " + err.Error())
	}
	return quoted
}

// WriteOff gives up what a provider owes of a failed swap: the held amount of its owner ends with the
// claim. The organization pays its customer from its own balance if it wants to. The caller has the
// approval of a second person. Errors: faults NOT_FOUND, INVALID_STATE. Rule SWAP-25.
func (s *Service) WriteOff(ctx context.Context, tx pg.Tx, swapID, note string, operator audit.Actor) (Swap, error) {
	w, err := lock(ctx, tx, swapID)
	if err != nil {
		return w, err
	}
	if err := w.requireClaim(); err != nil {
		return w, err
	}
	open := w.OpenClaim()
	postings, err := s.keepShort(ctx, tx, swapID, open)
	if err != nil {
		return w, err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return w, fmt.Errorf("write off the claim of swap %s: %w", swapID, err)
	}
	if w, err = loadAny(ctx, tx, swapID); err != nil {
		return w, err
	}
	return w, audit.Record(ctx, tx, newEntry(w, operator, "written_off", map[string]any{"amount": open, "note": note}))
}
