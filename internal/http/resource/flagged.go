package resource

import (
	"context"

	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
)

// DecisionNote is the optional body of a decision about a flagged deposit.
type DecisionNote struct {
	Note *string `json:"note,omitempty" doc:"The reason, in a sentence or two, for the record. resolution shows it."`
}

// ResolveFunc is a decision about a flagged deposit that takes a note.
type ResolveFunc func(s *deposit.Service, ctx context.Context, depositID string, decider deposit.Actor,
	note string) (
	deposit.Deposit, error,
)

// The refusals of decisions about a flagged deposit.
var (
	ApprovalFaults = []fault.Code{
		fault.CodeNotFound, fault.InvalidState, fault.DepositNotFlagged, fault.ResolutionInProgress,
		fault.ResolutionStuckCode, fault.DepositsSuspended,
	}

	ReturnFaults = append(
		[]fault.Code{fault.RejectBlockedSanctions, fault.InsufficientGas, fault.DestinationNotAllowed},
		ApprovalFaults...,
	)
)

// DecidedOnceText says that the first decision about a deposit counts.
const DecidedOnceText = " The first decision about a deposit wins. Repeating it returns the same answer; every other " +
	"decision is refused with 409 and currentStatus."
