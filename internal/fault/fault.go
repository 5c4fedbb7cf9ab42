// Package fault has the refusals that a caller may see. A refusal has a kind that a surface maps to
// a status, a stable code, the parameter at fault, the reason, its effect on data and money, and what
// to do next.
//
// A feature states the reason and advice in the terms of the domain. The effect and the next step are
// values: each surface has its own words for them (Words), because the interface names a call where
// the terminal names a command.
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

// Kinds of refusals. Invalid to Blocked are final for that request; the others say "not now".
const (
	Invalid        Kind = iota + 1 // the request itself is wrong (400)
	Unauthorized                   // no or wrong credential (401)
	Forbidden                      // the credential does not allow it (403)
	NotFound                       // no such thing for this caller (404)
	Conflict                       // the thing is in another state (409)
	Unprocessable                  // understood, and not possible now (422)
	Blocked                        // blocked by risk screening (451)
	Limited                        // too many requests (429)
	Unavailable                    // a dependency is down or halted (503)
	BadGateway                     // a third party answered what is no answer (502)
	GatewayTimeout                 // a third party did not answer in time (504)
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
	InvalidPair            Code = "INVALID_PAIR"
	InvalidCursor          Code = "INVALID_CURSOR"
	IdempotencyKeyMismatch Code = "IDEMPOTENCY_KEY_MISMATCH"
	SameAccount            Code = "SAME_ACCOUNT"
	StatusNotPatchable     Code = "STATUS_NOT_PATCHABLE"
	ProductArchived        Code = "PRODUCT_ARCHIVED"
	ReferencePaid          Code = "REFERENCE_PAID"
	OptionUnavailable      Code = "OPTION_UNAVAILABLE"
	RefundExceedsPayment   Code = "REFUND_EXCEEDS_PAYMENT"
	CodeUnauthorized       Code = "UNAUTHORIZED"
	IPNotAllowed           Code = "IP_NOT_ALLOWED"
	ScopeMissing           Code = "SCOPE_MISSING"
	SwapsDisabled          Code = "SWAPS_DISABLED"
	OrgSwapsDisabled       Code = "ORGANIZATION_SWAPS_DISABLED"
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
	DuplicateBatch         Code = "DUPLICATE_BATCH"
	ApprovalRefused        Code = "APPROVAL_REFUSED"
	InvalidState           Code = "INVALID_STATE"
	RefundNotReceived      Code = "REFUND_NOT_RECEIVED"
	DepositNotFlagged      Code = "DEPOSIT_NOT_FLAGGED"
	ResolutionInProgress   Code = "RESOLUTION_IN_PROGRESS"
	ResolutionStuckCode    Code = "RESOLUTION_STUCK"
	RejectBlockedSanctions Code = "REJECT_BLOCKED_SANCTIONS"
	InsufficientGas        Code = "INSUFFICIENT_GAS"
	InsufficientBalance    Code = "INSUFFICIENT_BALANCE"
	QuoteRejected          Code = "QUOTE_REJECTED"
	DestinationNotAllowed  Code = "DESTINATION_NOT_ALLOWED"
	AddressNotWhitelisted  Code = "ADDRESS_NOT_WHITELISTED"
	DepositsSuspended      Code = "DEPOSITS_SUSPENDED"
	WithdrawalsSuspended   Code = "WITHDRAWALS_SUSPENDED"
	WithdrawalRiskBlocked  Code = "WITHDRAWAL_RISK_BLOCKED"
	RateLimited            Code = "RATE_LIMITED"
	Internal               Code = "INTERNAL"
	CodeUnavailable        Code = "UNAVAILABLE"
	ProviderError          Code = "PROVIDER_ERROR"
	ProviderTimeout        Code = "PROVIDER_TIMEOUT"
)

// Codes are all codes.
var Codes = []Code{
	InvalidJSON,
	InvalidRequest,
	UnknownField,
	InvalidAmount,
	AmountBelowMinimum,
	InvalidAddress,
	MintNotFound,
	InvalidPair,
	InvalidCursor,
	IdempotencyKeyMismatch,
	SameAccount,
	StatusNotPatchable,
	ProductArchived,
	ReferencePaid,
	OptionUnavailable,
	RefundExceedsPayment,
	CodeUnauthorized,
	IPNotAllowed,
	ScopeMissing,
	SwapsDisabled,
	OrgSwapsDisabled,
	CustomerFrozen,
	OrganizationFrozen,
	FeatureDisabled,
	OperatorOnly,
	CodeNotFound,
	MethodNotAllowed,
	NotAcceptable,
	BodyTooLarge,
	UnsupportedMediaType,
	IdempotencyConflict,
	DuplicateBatch,
	ApprovalRefused,
	InvalidState,
	RefundNotReceived,
	DepositNotFlagged,
	ResolutionInProgress,
	ResolutionStuckCode,
	RejectBlockedSanctions,
	InsufficientGas,
	InsufficientBalance,
	QuoteRejected,
	DestinationNotAllowed,
	AddressNotWhitelisted,
	DepositsSuspended,
	WithdrawalsSuspended,
	WithdrawalRiskBlocked,
	RateLimited,
	Internal,
	CodeUnavailable,
	ProviderError,
	ProviderTimeout,
}

// Fault is a refusal that a caller may see.
type Fault struct {
	Kind    Kind
	Code    Code
	Effect  Effect
	Reason  string         // why the call was refused, as sentences in the terms of the domain
	Advice  string         // what to do, where the domain alone says it, or ""
	Step    Step           // what to do, where the words depend on the surface, or NoStep
	Subject string         // the id of the thing that Step is about, or ""
	Param   string         // the request field at fault, or ""
	Details map[string]any // small, caller-visible facts, or nil
	Extra   map[string]any // top-level members of the answer in addition to error and code, or nil
}

// Error returns the code and the reason, for logs.
func (f *Fault) Error() string { return string(f.Code) + ": " + f.Reason }

// New makes a refusal. The reason may use fmt verbs.
func New(kind Kind, code Code, effect Effect, reason string, args ...any) *Fault {
	return &Fault{Kind: kind, Code: code, Effect: effect, Reason: fmt.Sprintf(reason, args...)}
}

// WithAdvice says what to do in words that suit every surface. The advice may use fmt verbs.
func (f *Fault) WithAdvice(advice string, args ...any) *Fault {
	f.Advice = fmt.Sprintf(advice, args...)
	return f
}

// WithStep names the next step, for which each surface has its own words.
func (f *Fault) WithStep(step Step) *Fault { f.Step = step; return f }

// WithSubject names the thing that the next step is about by its id.
func (f *Fault) WithSubject(id string) *Fault { f.Subject = id; return f }

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
