// Package fault has the refusals that a caller may see. A refusal has a kind that a surface maps to
// a status, a stable code, the parameter at fault, and a sentence. The sentence says what happened
// to the money and what to do.
//
// Only a Fault may reach a caller with its text. Every other error is internal: a surface answers
// it with INTERNAL and logs it.
package fault

import (
	"errors"
	"fmt"
)

// Kind is the class of a refusal. A surface maps each kind to one status.
type Kind int

// Kinds of refusals. Invalid to Blocked are final for that request; the last three say "not now".
const (
	Invalid       Kind = iota + 1 // the request itself is wrong (400)
	Unauthorized                  // no or wrong credential (401)
	Forbidden                     // the credential does not allow it (403)
	NotFound                      // no such thing for this caller (404)
	Conflict                      // the thing is in another state (409)
	Unprocessable                 // understood, and not possible now (422)
	Blocked                       // blocked by risk screening (451)
	Limited                       // too many requests (429)
	Unavailable                   // a dependency is down or halted (503)
)

// Code is the stable machine-readable name of a refusal, as listed in the API
// document.
type Code string

// Codes that this installation can return.
const (
	InvalidJSON            Code = "INVALID_JSON"
	InvalidRequest         Code = "INVALID_REQUEST"
	UnknownField           Code = "UNKNOWN_FIELD"
	InvalidAmount          Code = "INVALID_AMOUNT"
	AmountBelowMinimum     Code = "AMOUNT_BELOW_MINIMUM"
	InvalidAddress         Code = "INVALID_ADDRESS"
	MintNotFound           Code = "MINT_NOT_FOUND"
	InvalidCursor          Code = "INVALID_CURSOR"
	IdempotencyKeyMismatch Code = "IDEMPOTENCY_KEY_MISMATCH"
	SameAccount            Code = "SAME_ACCOUNT"
	CodeUnauthorized       Code = "UNAUTHORIZED"
	IPNotAllowed           Code = "IP_NOT_ALLOWED"
	ScopeMissing           Code = "SCOPE_MISSING"
	CustomerFrozen         Code = "CUSTOMER_FROZEN"
	OrganizationFrozen     Code = "ORGANIZATION_FROZEN"
	FeatureDisabled        Code = "FEATURE_DISABLED"
	OperatorOnly           Code = "OPERATOR_ONLY"
	CodeNotFound           Code = "NOT_FOUND"
	MethodNotAllowed       Code = "METHOD_NOT_ALLOWED"
	NotAcceptable          Code = "NOT_ACCEPTABLE"
	BodyTooLarge           Code = "BODY_TOO_LARGE"
	UnsupportedMediaType   Code = "UNSUPPORTED_MEDIA_TYPE"
	IdempotencyConflict    Code = "IDEMPOTENCY_CONFLICT"
	ApprovalRefused        Code = "APPROVAL_REFUSED"
	InvalidState           Code = "INVALID_STATE"
	DepositNotFlagged      Code = "DEPOSIT_NOT_FLAGGED"
	ResolutionInProgress   Code = "RESOLUTION_IN_PROGRESS"
	ResolutionStuckCode    Code = "RESOLUTION_STUCK"
	RejectBlockedSanctions Code = "REJECT_BLOCKED_SANCTIONS"
	InsufficientGas        Code = "INSUFFICIENT_GAS"
	InsufficientBalance    Code = "INSUFFICIENT_BALANCE"
	DestinationNotAllowed  Code = "DESTINATION_NOT_ALLOWED"
	AddressNotWhitelisted  Code = "ADDRESS_NOT_WHITELISTED"
	DepositsSuspended      Code = "DEPOSITS_SUSPENDED"
	WithdrawalsSuspended   Code = "WITHDRAWALS_SUSPENDED"
	WithdrawalRiskBlocked  Code = "WITHDRAWAL_RISK_BLOCKED"
	RateLimited            Code = "RATE_LIMITED"
	Internal               Code = "INTERNAL"
	CodeUnavailable        Code = "UNAVAILABLE"
)

// Fault is a refusal that a caller may see.
type Fault struct {
	Kind    Kind
	Code    Code
	Message string         // a sentence for a person: what happened to the money, what to do
	Param   string         // the request field at fault, or ""
	Details map[string]any // small, caller-visible facts, or nil
	Extra   map[string]any // top-level members of the answer in addition to error and code, or nil
}

// Error returns the code and the sentence.
func (f *Fault) Error() string { return string(f.Code) + ": " + f.Message }

// New makes a refusal. The message may use fmt verbs.
func New(kind Kind, code Code, format string, args ...any) *Fault {
	return &Fault{Kind: kind, Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithParam names the request field at fault.
func (f *Fault) WithParam(param string) *Fault { f.Param = param; return f }

// WithDetail adds a fact to the details.
func (f *Fault) WithDetail(key string, value any) *Fault {
	if f.Details == nil {
		f.Details = map[string]any{}
	}
	f.Details[key] = value
	return f
}

// WithExtra adds a top-level member to the answer, such as withdrawalId.
func (f *Fault) WithExtra(key string, value any) *Fault {
	if f.Extra == nil {
		f.Extra = map[string]any{}
	}
	f.Extra[key] = value
	return f
}

// Find returns the fault in an error chain, or nil.
func Find(err error) *Fault {
	var f *Fault
	if errors.As(err, &f) {
		return f
	}
	return nil
}

// HasCode reports whether an error is a fault with that code.
func HasCode(err error, code Code) bool {
	f := Find(err)
	return f != nil && f.Code == code
}
