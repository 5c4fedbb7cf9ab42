// Code generated from internal/api/openapi.json by make generate. DO NOT EDIT.

package client

import (
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// The codes of refusals. Codes are added without notice.
const (
	AmountBelowMinimum     Code = "AMOUNT_BELOW_MINIMUM"
	BodyTooLarge           Code = "BODY_TOO_LARGE"
	CustomerFrozen         Code = "CUSTOMER_FROZEN"
	DepositsSuspended      Code = "DEPOSITS_SUSPENDED"
	DepositNotFlagged      Code = "DEPOSIT_NOT_FLAGGED"
	DestinationNotAllowed  Code = "DESTINATION_NOT_ALLOWED"
	FeatureDisabled        Code = "FEATURE_DISABLED"
	IdempotencyConflict    Code = "IDEMPOTENCY_CONFLICT"
	IdempotencyKeyMismatch Code = "IDEMPOTENCY_KEY_MISMATCH"
	InsufficientBalance    Code = "INSUFFICIENT_BALANCE"
	InsufficientGas        Code = "INSUFFICIENT_GAS"
	Internal               Code = "INTERNAL"
	InvalidAddress         Code = "INVALID_ADDRESS"
	InvalidAmount          Code = "INVALID_AMOUNT"
	InvalidCursor          Code = "INVALID_CURSOR"
	InvalidJSON            Code = "INVALID_JSON"
	InvalidRequest         Code = "INVALID_REQUEST"
	InvalidState           Code = "INVALID_STATE"
	IPNotAllowed           Code = "IP_NOT_ALLOWED"
	MintNotFound           Code = "MINT_NOT_FOUND"
	NotAcceptable          Code = "NOT_ACCEPTABLE"
	NotFound               Code = "NOT_FOUND"
	OperatorOnly           Code = "OPERATOR_ONLY"
	OrganizationFrozen     Code = "ORGANIZATION_FROZEN"
	RateLimited            Code = "RATE_LIMITED"
	RejectBlockedSanctions Code = "REJECT_BLOCKED_SANCTIONS"
	ResolutionInProgress   Code = "RESOLUTION_IN_PROGRESS"
	ResolutionStuck        Code = "RESOLUTION_STUCK"
	SameAccount            Code = "SAME_ACCOUNT"
	ScopeMissing           Code = "SCOPE_MISSING"
	Unauthorized           Code = "UNAUTHORIZED"
	Unavailable            Code = "UNAVAILABLE"
	UnknownField           Code = "UNKNOWN_FIELD"
	UnsupportedMediaType   Code = "UNSUPPORTED_MEDIA_TYPE"
	WithdrawalsSuspended   Code = "WITHDRAWALS_SUSPENDED"
	WithdrawalRiskBlocked  Code = "WITHDRAWAL_RISK_BLOCKED"
)

// What webhooks carry too.
type (
	Actor               = webhook.Actor
	Approvals           = webhook.Approvals
	CustomerCharge      = webhook.CustomerCharge
	Deposit             = webhook.Deposit
	EmbeddedMint        = webhook.Mint
	Envelope            = webhook.Envelope
	FlagReason          = webhook.FlagReason
	FreshScreening      = webhook.FreshScreening
	Party               = webhook.Party
	Resolution          = webhook.Resolution
	ResolutionAttempt   = webhook.ResolutionAttempt
	Reversal            = webhook.Reversal
	Screening           = webhook.Screening
	SwapFailed          = webhook.SwapFailed
	SwapSummary         = webhook.SwapSummary
	Transfer            = webhook.Transfer
	Withdrawal          = webhook.Withdrawal
	WithdrawalScreening = webhook.WithdrawalScreening
)

// Balance: What a customer has of one mint.
type Balance struct {
	// May be spent.
	Available string `json:"available"`
	// The chain. Chains are added without notice.
	Chain string `json:"chain"`
	// Arrived and held by risk screening; stands outside the total.
	Held string `json:"held"`
	// Held for swaps that have not ended.
	InSwap string `json:"inSwap"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Seen on the chain and not credited yet; stands outside the total.
	PendingDeposit string `json:"pendingDeposit"`
	// Held for withdrawals that have not ended.
	PendingWithdraw string `json:"pendingWithdraw"`
	// For people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
	// available + pendingWithdraw + inSwap.
	Total string `json:"total"`
	// Its value in dollars, for display; null when there is no price.
	USDValue *string `json:"usdValue"`
}

// Balances: A customer's balances, by mint.
type Balances struct {
	// The items, in order.
	Data []Balance `json:"data"`
}

// Customer: One of your customers.
type Customer struct {
	// When it was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// The customer's e-mail. It is written when none is known and never changed by this
	// field.
	CustomerEmail *string `json:"customerEmail"`
	// Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e): URL libraries would make another path of
	// it. An id with / stands in paths as %2F, and does not work behind a proxy that
	// decodes it.
	CustomerID string `json:"customerId"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata"`
	// FROZEN: deposits are credited as usual, nothing leaves.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
}

// The values of Customer.Status.
const (
	CustomerStatusActive = "ACTIVE"
	CustomerStatusFrozen = "FROZEN"
)

// CustomerChange: Changes a customer. What is not named stays.
type CustomerChange struct {
	// The customer's e-mail from now on. One that is not the known one does not count for
	// an allowlist for 24 hours.
	CustomerEmail *string `json:"customerEmail,omitzero"`
	// Your own keys and values from now on, in place of all there were: at most 20 keys of
	// up to 40 characters, values of up to 500.
	Metadata map[string]string `json:"metadata,omitzero"`
}

// The values of CustomerCharge.Costs.
const (
	CustomerChargeCostsRent            = "RENT"
	CustomerChargeCostsRentAndFailures = "RENT_AND_FAILURES"
)

// CustomerPage: A page of customers.
type CustomerPage struct {
	// The items, in order.
	Data []Customer `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// Decision: One decision about a withdrawal. Nobody can change it.
type Decision struct {
	// REQUESTED, APPROVED, APPROVAL_ADDED (a person approves, and it needs more of them),
	// APPROVAL_REFUSED (what was asked again spoke against it), RETURNED (the signer or
	// the chain sent it back), REMOVED or CANCELLED. Acts are added without notice.
	Act string `json:"act"`
	// Who decided; null for a request that was made before this was kept.
	Actor *Actor `json:"actor"`
	// Why it waits for a person by this decision.
	ApprovalReasons []string `json:"approvalReasons"`
	// When.
	At webhook.Time `json:"at"`
	// Every rule that was asked, in order.
	Gates []GateResult `json:"gates"`
	// What the person wrote, or the signer said; null without one.
	Note *string `json:"note"`
	// What the withdrawal became by it.
	Status string `json:"status"`
}

// DecisionNote: What is kept with a decision.
type DecisionNote struct {
	// Why, in a sentence or two, for the record. It stands in resolution.
	Note string `json:"note,omitzero"`
}

// Decisions: What was decided about a withdrawal, oldest first.
type Decisions struct {
	// The items, in order.
	Data []Decision `json:"data"`
}

// DeliveryAttempt: One attempt to deliver an event to an endpoint.
type DeliveryAttempt struct {
	// 1, 2, …: how often this event was sent to this endpoint.
	Attempt int `json:"attempt"`
	// When the attempt was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// What became of the event at this endpoint: PENDING while it is tried, DELIVERED,
	// FAILED after the whole schedule, or CANCELLED with its endpoint.
	DeliveryStatus string `json:"deliveryStatus"`
	// How long it took, in milliseconds.
	DurationMs int `json:"durationMs"`
	// In plain words why it failed; null when it was delivered.
	Error *string `json:"error"`
	// The event.
	EventID string `json:"eventId"`
	// When it is tried again at the earliest; null when it is not, or when there was a
	// later attempt.
	NextAttemptAt *webhook.Time `json:"nextAttemptAt"`
	// What was sent.
	Request DeliveryRequest `json:"request"`
	// What came back; null when nothing did.
	Response *DeliveryResponse `json:"response"`
	// DELIVERED, or FAILED with the error.
	Status string `json:"status"`
	// Whether it was a sample that was asked for.
	Test bool `json:"test"`
	// What the event tells.
	Type string `json:"type"`
}

// The values of DeliveryAttempt.DeliveryStatus.
const (
	DeliveryAttemptDeliveryStatusPending   = "PENDING"
	DeliveryAttemptDeliveryStatusDelivered = "DELIVERED"
	DeliveryAttemptDeliveryStatusFailed    = "FAILED"
	DeliveryAttemptDeliveryStatusCancelled = "CANCELLED"
)

// The values of DeliveryAttempt.Status.
const (
	DeliveryAttemptStatusDelivered = "DELIVERED"
	DeliveryAttemptStatusFailed    = "FAILED"
)

// DeliveryAttemptPage: A page of attempts.
type DeliveryAttemptPage struct {
	// The items, in order.
	Data []DeliveryAttempt `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// DeliveryRequest: What was sent.
type DeliveryRequest struct {
	// The body, byte for byte; null once the event is older than 90 days.
	Body *string `json:"body"`
	// The headers, without webhook-signature.
	Headers map[string]string `json:"headers"`
	// Where it was sent.
	URL string `json:"url"`
}

// DeliveryResponse: What came back.
type DeliveryResponse struct {
	// The first 1024 bytes, as text.
	Body string `json:"body"`
	// The HTTP status.
	StatusCode int `json:"statusCode"`
}

// The values of Deposit.ChainStatus.
const (
	DepositChainStatusPending   = "PENDING"
	DepositChainStatusIncluded  = "INCLUDED"
	DepositChainStatusFinalized = "FINALIZED"
	DepositChainStatusReorged   = "REORGED"
)

// The values of Deposit.Product.
const (
	DepositProductCustodial   = "CUSTODIAL"
	DepositProductCheckout    = "CHECKOUT"
	DepositProductBatchPayout = "BATCH_PAYOUT"
)

// The values of Deposit.ReturnAddressRisk.
const (
	DepositReturnAddressRiskNone           = "NONE"
	DepositReturnAddressRiskMultipleInputs = "MULTIPLE_INPUTS"
	DepositReturnAddressRiskContract       = "CONTRACT"
	DepositReturnAddressRiskKnownExchange  = "KNOWN_EXCHANGE"
	DepositReturnAddressRiskSwapSolver     = "SWAP_SOLVER"
)

// The values of Deposit.Status.
const (
	DepositStatusDetected        = "DETECTED"
	DepositStatusConfirming      = "CONFIRMING"
	DepositStatusScreening       = "SCREENING"
	DepositStatusCredited        = "CREDITED"
	DepositStatusFlagged         = "FLAGGED"
	DepositStatusApproving       = "APPROVING"
	DepositStatusRejecting       = "REJECTING"
	DepositStatusRedirecting     = "REDIRECTING"
	DepositStatusResolutionStuck = "RESOLUTION_STUCK"
	DepositStatusRejected        = "REJECTED"
	DepositStatusRedirected      = "REDIRECTED"
	DepositStatusOrphaned        = "ORPHANED"
	DepositStatusUnsupported     = "UNSUPPORTED"
	DepositStatusBelowMinimum    = "BELOW_MINIMUM"
	DepositStatusReversed        = "REVERSED"
)

// DepositAddress: Where a customer pays in. The address belongs to the customer and
// the chain.
type DepositAddress struct {
	// The address, in the canonical spelling of its chain.
	Address string `json:"address"`
	// The chain. Chains are added without notice.
	Chain string `json:"chain"`
	// Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e): URL libraries would make another path of
	// it. An id with / stands in paths as %2F, and does not work behind a proxy that
	// decodes it.
	CustomerID string `json:"customerId"`
	// A memo that belongs to the address; null where the chain has none.
	Memo *string `json:"memo"`
	// Less is recorded and not credited. In atomic units.
	MinDepositAmount string `json:"minDepositAmount"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// A link that wallets open, for a QR code.
	PaymentURI string `json:"paymentUri"`
}

// DepositPage: A page of deposits.
type DepositPage struct {
	// The items, in order.
	Data []Deposit `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// DepositRequest: Asks for a deposit address.
type DepositRequest struct {
	// The customer's e-mail. It is written when none is known and never changed by this
	// call.
	CustomerEmail string `json:"customerEmail,omitzero"`
	// Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e): URL libraries would make another path of
	// it. An id with / stands in paths as %2F, and does not work behind a proxy that
	// decodes it.
	CustomerID string `json:"customerId"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
}

// Endpoint: Where events are sent.
type Endpoint struct {
	// The date of the version that payloads follow.
	APIVersion string `json:"apiVersion"`
	// When it was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// For people.
	Description string `json:"description"`
	// The webhook endpoint.
	EndpointID string `json:"endpointId"`
	// Which events it receives. Empty means the seven events of the interface and no
	// extension; * alone means all, also those that are added later.
	Events []string `json:"events"`
	// The first of the failed attempts since one succeeded; null when the last succeeded.
	// After five days of nothing else the endpoint is DISABLED_BY_FAILURE.
	FailingSince *webhook.Time `json:"failingSince"`
	// What leaves out events.
	Filters Filters `json:"filters"`
	// ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
	// Where events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// The values of Endpoint.Status.
const (
	EndpointStatusEnabled           = "ENABLED"
	EndpointStatusPaused            = "PAUSED"
	EndpointStatusDisabledGone      = "DISABLED_GONE"
	EndpointStatusDisabledByFailure = "DISABLED_BY_FAILURE"
)

// EndpointChange: Changes a webhook endpoint; what is left out stays.
type EndpointChange struct {
	// For people.
	Description *string `json:"description,omitzero"`
	// Which events it receives. Empty for the seven events of the interface and no
	// extension; * alone for all, also those that are added later.
	Events []string `json:"events,omitzero"`
	// What leaves out events.
	Filters *EndpointFilters `json:"filters,omitzero"`
	// ENABLED or PAUSED.
	Status *string `json:"status,omitzero"`
	// Where events are posted from now on: HTTPS, and no address inside a private network.
	URL *string `json:"url,omitzero"`
}

// EndpointFilters: Leaves out events. What is not given leaves out nothing.
type EndpointFilters struct {
	// Only events of this chain.
	Chain *string `json:"chain,omitzero"`
	// Only events that concern this customer, compared byte for byte; of a transfer those
	// that the customer pays.
	CustomerID *string `json:"customerId,omitzero"`
}

// EndpointPage: A page of webhook endpoints.
type EndpointPage struct {
	// The items, in order.
	Data []Endpoint `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// EndpointRequest: Registers a webhook endpoint.
type EndpointRequest struct {
	// For people.
	Description string `json:"description,omitzero"`
	// Which events it receives. Leave it out, or empty, for the seven events of the
	// interface and no extension; * alone is all of them, also those that are added later.
	Events []string `json:"events,omitzero"`
	// What leaves out events.
	Filters *EndpointFilters `json:"filters,omitzero"`
	// Where events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// EndpointWithSecret: A new endpoint with its secret, which is shown this once.
type EndpointWithSecret struct {
	// The date of the version that payloads follow.
	APIVersion string `json:"apiVersion"`
	// When it was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// For people.
	Description string `json:"description"`
	// The webhook endpoint.
	EndpointID string `json:"endpointId"`
	// Which events it receives. Empty means the seven events of the interface and no
	// extension; * alone means all, also those that are added later.
	Events []string `json:"events"`
	// The first of the failed attempts since one succeeded; null when the last succeeded.
	// After five days of nothing else the endpoint is DISABLED_BY_FAILURE.
	FailingSince *webhook.Time `json:"failingSince"`
	// What leaves out events.
	Filters Filters `json:"filters"`
	// Verifies the v1 signatures. Shown this once; keep it.
	Secret string `json:"secret"`
	// ENABLED.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
	// Where events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// Entry: One movement of a balance, with what caused it.
type Entry struct {
	// Whose balance moved.
	Account Party `json:"account"`
	// Atomic units.
	Amount string `json:"amount"`
	// The amount in whole tokens.
	AmountDecimal string `json:"amountDecimal"`
	// Which of the balances: AVAILABLE, or PENDING_WITHDRAW for what is held for a
	// customer's withdrawals.
	Balance string `json:"balance"`
	// What happened: DEPOSIT, DEPOSIT_REVERSAL, WITHDRAWAL_HOLD, WITHDRAWAL_END,
	// WITHDRAWAL_FEE, WITHDRAWAL_CHARGE, WITHDRAWAL_CHARGE_RETURN, TRANSFER, RESTORE.
	// Causes are added without notice.
	Cause string `json:"cause"`
	// The chain. Chains are added without notice.
	Chain string `json:"chain"`
	// When it was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// CREDIT raised the balance, DEBIT lowered it.
	Direction string `json:"direction"`
	// The movement.
	EntryID string `json:"entryId"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// The deposit, withdrawal or transfer that moved it.
	ResourceID string `json:"resourceId"`
	// For people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
}

// The values of Entry.Balance.
const (
	EntryBalanceAvailable       = "AVAILABLE"
	EntryBalancePendingWithdraw = "PENDING_WITHDRAW"
)

// The values of Entry.Direction.
const (
	EntryDirectionCredit = "CREDIT"
	EntryDirectionDebit  = "DEBIT"
)

// EntryPage: A page of movements.
type EntryPage struct {
	// The items, in order.
	Data []Entry `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// The values of Envelope.Environment.
const (
	EnvelopeEnvironmentLive = "LIVE"
	EnvelopeEnvironmentTest = "TEST"
)

// EnvelopePage: A stretch of the event feed.
type EnvelopePage struct {
	// The items, in order.
	Data []Envelope `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page, with the same types; null at the end. The
	// last sequence as after leads to the same place.
	NextCursor *string `json:"nextCursor"`
}

// Estimate: What a withdrawal would cost, and how much could be asked for.
type Estimate struct {
	// What the customer pays of what the payment costs, in the token that is withdrawn and
	// beside the amount. Absent where your organization charges nothing
	// (chargeCustomerCosts).
	CustomerCharge *CustomerCharge `json:"customerCharge,omitempty"`
	// Ask again after this.
	ExpiresAt webhook.Time `json:"expiresAt"`
	// What the customer could withdraw now; null when no customer was named. With either
	// feeMode the fee comes not on top of it; what customerCharge holds is left out.
	MaxAmount *string `json:"maxAmount"`
	// The most that the network would take, in atomic units of its own coin.
	NetworkFee string `json:"networkFee"`
	// The mint of networkFee: the chain's native coin.
	NetworkFeeMintID *int `json:"networkFeeMintId"`
	// The same in dollars, exactly; null without a fresh price of the coin.
	NetworkFeeUSD *string `json:"networkFeeUsd"`
}

// EstimateRequest: Asks what a withdrawal would cost: the body of POST /withdraw, of
// which only mintId is needed.
type EstimateRequest struct {
	// As in POST /withdraw.
	Amount string `json:"amount,omitzero"`
	// Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e): URL libraries would make another path of
	// it. An id with / stands in paths as %2F, and does not work behind a proxy that
	// decodes it.
	CustomerID string `json:"customerId,omitzero"`
	// Who pays the network fee. ORGANIZATION is billed for it, and the destination
	// receives the whole amount. DEDUCTED, for a chain's own coin only: the customer pays
	// amount and the destination receives amount less networkFee, which is decided when
	// the payment is ordered and stays; what the network takes more or less than that is
	// the organization's.
	FeeMode string `json:"feeMode,omitzero"`
	// Your name for the payment you mean: 1 to 255 printable ASCII characters without a
	// space. It never expires.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The most that the network may take, in atomic units of the chain's own coin,
	// whatever useDecimal says. While the network asks for more the withdrawal is
	// AWAITING_APPROVAL with NETWORK_FEE, and no transaction that pays is made above it.
	MaxNetworkFee string `json:"maxNetworkFee,omitzero"`
	// A memo that belongs to the address; null where the chain has none.
	Memo string `json:"memo,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference, shown again and searchable.
	Reference string `json:"reference,omitzero"`
	// Waits for a person before anything is sent.
	RequireApproval bool `json:"requireApproval,omitzero"`
	// The destination, in the canonical spelling of its chain.
	ToAddress string `json:"toAddress,omitzero"`
	// What you have to say of the parties: any object of up to 4096 bytes. It is kept and
	// shown with the withdrawal, is not checked, and no event carries it.
	TravelRule json.RawMessage `json:"travelRule,omitzero"`
	// Reads amount as whole tokens.
	UseDecimal bool `json:"useDecimal,omitzero"`
}

// Filters: Leave out events.
type Filters struct {
	// Only events of this chain; null: all.
	Chain *string `json:"chain"`
	// Only events that concern this customer, of a transfer those that the customer pays;
	// null: all.
	CustomerID *string `json:"customerId"`
}

// FreezeRequest: Says why a customer is frozen.
type FreezeRequest struct {
	// For your own records: who did it and why stands in the audit log.
	Reason string `json:"reason,omitzero"`
}

// GateResult: What one rule said, with what it looked at. Amounts are in atomic units,
// values in dollars.
type GateResult struct {
	// What the customer could spend.
	Available *string `json:"available,omitempty"`
	// The refusal of the signer or of the chain.
	Code *string `json:"code,omitempty"`
	// What the network takes at most, or took, for the customer's other withdrawals of the
	// last 24 hours, in dollars.
	CostsUSD *string `json:"costsUsd,omitempty"`
	// The withdrawal to the same destination that the chain reverted, since which no
	// approved one was paid.
	FailedWithdrawalID *string `json:"failedWithdrawalId,omitempty"`
	// The most that a payment which fails because of its payee is charged.
	FailureMax *string `json:"failureMax,omitempty"`
	// What is stopped.
	Freeze *string `json:"freeze,omitempty"`
	// The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK,
	// REQUIRE_APPROVAL, USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE,
	// CUSTOMER_COSTS, CUSTOMER_CHARGE or SIGNER. Rules are added without notice.
	Gate string `json:"gate"`
	// What your addresses could pay, as far as it was counted.
	Liquid *string `json:"liquid,omitempty"`
	// What the request allowed it to take.
	MaxNetworkFee *string `json:"maxNetworkFee,omitempty"`
	// The smallest amount that may be asked for: the mint's, or what reaches the
	// destination with the fee that comes out of it.
	Minimum *string `json:"minimum,omitempty"`
	// The most that the network would have taken.
	NetworkFee *string `json:"networkFee,omitempty"`
	// Dollars for one whole token.
	Price *string `json:"price,omitempty"`
	// How old that was when it was asked.
	PriceAgeSeconds *string `json:"priceAgeSeconds,omitempty"`
	// When that was the price, by its source.
	PriceAt *string `json:"priceAt,omitempty"`
	// Who said so.
	PriceSource *string `json:"priceSource,omitempty"`
	// Who said it.
	Provider *string `json:"provider,omitempty"`
	// The approvalReason that it gave.
	Reason *string `json:"reason,omitempty"`
	// What is held beside the amount for an account of the payee.
	RentMax *string `json:"rentMax,omitempty"`
	// The known address that the destination could be mistaken for.
	Resembles *string `json:"resembles,omitempty"`
	// PASS, HOLD, REFUSE, BLOCK (answered 451), SKIPPED (it would hold, and the approval
	// allowlist has the customer), or NOT_CONFIGURED where nothing is set for the rule to
	// ask. Results are added without notice.
	Result string `json:"result"`
	// How far that reaches.
	Scope *string `json:"scope,omitempty"`
	// What risk screening said.
	Severity *string `json:"severity,omitempty"`
	// What it was compared with.
	Threshold *string `json:"threshold,omitempty"`
	// What the amount was worth.
	USDValue *string `json:"usdValue,omitempty"`
	// A sentence for a person.
	Why *string `json:"why,omitempty"`
}

// KeyRoll: Says how long the former value of a key works after its roll.
type KeyRoll struct {
	// How long the former value works; 0, which it is when it is left out, ends it at
	// once, with every value before it. More is refused while an earlier former value
	// works.
	OverlapSeconds int `json:"overlapSeconds,omitzero"`
}

// Mint: A token on a chain.
type Mint struct {
	// The network by its CAIP-2 name; null for a chain that is not running here.
	CAIP2 *string `json:"caip2"`
	// The chain. Chains are added without notice.
	Chain string `json:"chain"`
	// How many confirmations to show people until a deposit counts; finality decides.
	ConfirmationsRequired int `json:"confirmationsRequired"`
	// The token's contract; null for the chain's own coin.
	ContractAddress *string `json:"contractAddress"`
	// Decimals of the atomic unit. Read it before converting an amount.
	Decimals int `json:"decimals"`
	// Whether deposit addresses are given out.
	DepositEnabled bool `json:"depositEnabled"`
	// What makes a block final here.
	Finality string `json:"finality"`
	// The mint's id: mintId elsewhere.
	ID int `json:"id"`
	// NATIVE is the chain's own coin.
	Kind string `json:"kind"`
	// A picture for people, or null.
	LogoURL *string `json:"logoUrl"`
	// Whether deposits need a memo beside the address.
	MemoRequired bool `json:"memoRequired"`
	// Less is recorded and not credited. In atomic units.
	MinDepositAmount string `json:"minDepositAmount"`
	// The smallest withdrawal, in atomic units.
	MinWithdrawAmount string `json:"minWithdrawAmount"`
	// For people.
	Name string `json:"name"`
	// Which network of the chain this installation talks to.
	Network string `json:"network"`
	// Whether the mint takes part in customer swaps of this organization.
	Swappable bool `json:"swappable"`
	// For people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
	// Dollars for one whole token, for display; null when unknown.
	USDPrice *string `json:"usdPrice"`
	// When that was the price.
	USDPriceAt *webhook.Time `json:"usdPriceAt"`
	// Whether withdrawals are taken.
	WithdrawEnabled bool `json:"withdrawEnabled"`
}

// The values of Mint.Kind.
const (
	MintKindNative = "NATIVE"
	MintKindToken  = "TOKEN"
)

// The values of Mint.Network.
const (
	MintNetworkMainnet = "MAINNET"
	MintNetworkTestnet = "TESTNET"
	MintNetworkLocal   = "LOCAL"
)

// MintPage: A page of mints.
type MintPage struct {
	// The items, in order.
	Data []Mint `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// The values of Party.Product.
const (
	PartyProductCustodial   = "CUSTODIAL"
	PartyProductCheckout    = "CHECKOUT"
	PartyProductBatchPayout = "BATCH_PAYOUT"
)

// Preview: What would become of a withdrawal.
type Preview struct {
	// Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS,
	// RISK_REVIEW, PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more
	// than maxNetworkFee), DUPLICATE_KEY (the signer remembers another payment with its
	// idempotency key; nothing was sent) or RESTORED (made again from the signer's journal
	// after a restore; nothing was sent).
	ApprovalReasons []string `json:"approvalReasons"`
	// What the customer pays of what the payment costs, in the token that is withdrawn and
	// beside the amount. Absent where your organization charges nothing
	// (chargeCustomerCosts).
	CustomerCharge *CustomerCharge `json:"customerCharge,omitempty"`
	// The withdrawal that has the idempotencyKey already. Present only then.
	ExistingID *string `json:"existingId,omitempty"`
	// Every rule that was asked, in order.
	Gates []GateResult `json:"gates"`
	// The most that the network would take, in atomic units of its own coin; null when the
	// chain does not say. With feeMode DEDUCTED it comes out of the amount.
	NetworkFee *string `json:"networkFee"`
	// The mint of networkFee: the chain's native coin.
	NetworkFeeMintID *int `json:"networkFeeMintId"`
	// The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL, or that
	// of the one that has the idempotencyKey.
	WouldBe string `json:"wouldBe"`
}

// ProductAddress: Where your organization pays in for one of its products. The address
// belongs to the product and the chain.
type ProductAddress struct {
	// The address, in the canonical spelling of its chain.
	Address string `json:"address"`
	// The chain. Chains are added without notice.
	Chain string `json:"chain"`
	// A memo that belongs to the address; null where the chain has none.
	Memo *string `json:"memo"`
	// Less is recorded and not credited. In atomic units.
	MinDepositAmount string `json:"minDepositAmount"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// A link that wallets open, for a QR code.
	PaymentURI string `json:"paymentUri"`
	// A balance of your own organization.
	Product string `json:"product"`
}

// The values of ProductAddress.Product.
const (
	ProductAddressProductCustodial   = "CUSTODIAL"
	ProductAddressProductCheckout    = "CHECKOUT"
	ProductAddressProductBatchPayout = "BATCH_PAYOUT"
)

// ProductBalance: What your organization has of one mint in one product.
type ProductBalance struct {
	// May be moved.
	Available string `json:"available"`
	// The chain. Chains are added without notice.
	Chain string `json:"chain"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// What your customers have of the mint, available or being withdrawn. Present for
	// CUSTODIAL alone; it is theirs, and stands outside the total.
	OwedToCustomers *string `json:"owedToCustomers,omitempty"`
	// Of the product, held for payments of its own that have not ended.
	Pending string `json:"pending"`
	// Seen on the chain and not credited yet; stands outside the total.
	PendingDeposit string `json:"pendingDeposit"`
	// A balance of your own organization.
	Product string `json:"product"`
	// For people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
	// available + pending.
	Total string `json:"total"`
	// Its value in dollars, for display; null when there is no price.
	USDValue *string `json:"usdValue"`
}

// The values of ProductBalance.Product.
const (
	ProductBalanceProductCustodial   = "CUSTODIAL"
	ProductBalanceProductCheckout    = "CHECKOUT"
	ProductBalanceProductBatchPayout = "BATCH_PAYOUT"
)

// ProductBalances: Your organization's own balances, by mint and product.
type ProductBalances struct {
	// The items, in order.
	Data []ProductBalance `json:"data"`
}

// ProductDepositRequest: Asks for a deposit address of your own.
type ProductDepositRequest struct {
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// A balance of your own organization.
	Product string `json:"product"`
}

// RecoverRequest: Asks for what an endpoint missed.
type RecoverRequest struct {
	// true, the default: only what was never delivered there. false: everything once more.
	OnlyFailed *bool `json:"onlyFailed,omitzero"`
	// Events of this time and later, by when the change happened.
	Since webhook.Time `json:"since"`
	// And before this time; up to now when it is left out.
	Until webhook.Time `json:"until,omitzero"`
}

// ResendRequest: Asks for an event to be sent again.
type ResendRequest struct {
	// Only to this endpoint. Leave it out for every one that wants the event.
	EndpointID string `json:"endpointId,omitzero"`
}

// RotatedSecret: An endpoint with a new secret, which is shown this once.
type RotatedSecret struct {
	// The date of the version that payloads follow.
	APIVersion string `json:"apiVersion"`
	// When it was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// For people.
	Description string `json:"description"`
	// The webhook endpoint.
	EndpointID string `json:"endpointId"`
	// Which events it receives. Empty means the seven events of the interface and no
	// extension; * alone means all, also those that are added later.
	Events []string `json:"events"`
	// The first of the failed attempts since one succeeded; null when the last succeeded.
	// After five days of nothing else the endpoint is DISABLED_BY_FAILURE.
	FailingSince *webhook.Time `json:"failingSince"`
	// What leaves out events.
	Filters Filters `json:"filters"`
	// Until when the former secret signs beside the new one.
	FormerSecretUntil webhook.Time `json:"formerSecretUntil"`
	// Verifies the v1 signatures. Shown this once; keep it.
	Secret string `json:"secret"`
	// ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
	// Where events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// The values of RotatedSecret.Status.
const (
	RotatedSecretStatusEnabled           = "ENABLED"
	RotatedSecretStatusPaused            = "PAUSED"
	RotatedSecretStatusDisabledGone      = "DISABLED_GONE"
	RotatedSecretStatusDisabledByFailure = "DISABLED_BY_FAILURE"
)

// ScopedKey: An API key of the organization, without what is sent in the header.
type ScopedKey struct {
	// The key; key_main is the main one.
	APIKeyID string `json:"apiKeyId"`
	// When the key was made; of the main key, when the organization was.
	CreatedAt webhook.Time `json:"createdAt"`
	// When it stops working, by the clock of the database; null: never.
	ExpiresAt *webhook.Time `json:"expiresAt"`
	// When a request by the value before was last let in, to the minute: before
	// formerKeyUntil, whether something still uses it.
	FormerKeyLastUsedAt *webhook.Time `json:"formerKeyLastUsedAt"`
	// Until when the value before works; null: it does not.
	FormerKeyUntil *webhook.Time `json:"formerKeyUntil"`
	// Whether it is the main key, which has every right and manages the others.
	IsMain bool `json:"isMain"`
	// When a request by its present value was last let in, to the minute; null: not yet.
	LastUsedAt *webhook.Time `json:"lastUsedAt"`
	// For people.
	Name string `json:"name"`
	// When its value was last replaced; null: never.
	RolledAt *webhook.Time `json:"rolledAt"`
	// What the key may do. READ: every GET. NO_MONEY_OUT: also what changes something and
	// lets no money out. FULL: also what lets money out. Only the main key manages API
	// keys.
	Scope string `json:"scope"`
	// EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
	// additionalApiKeys off; the key works again when it is on. REVOKED: the operator
	// ended the main key and has not rolled it. Statuses are added without notice.
	Status string `json:"status"`
}

// The values of ScopedKey.Scope.
const (
	ScopedKeyScopeRead       = "READ"
	ScopedKeyScopeNoMoneyOut = "NO_MONEY_OUT"
	ScopedKeyScopeFull       = "FULL"
)

// ScopedKeyPage: A page of API keys.
type ScopedKeyPage struct {
	// The items, in order.
	Data []ScopedKey `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// ScopedKeyRequest: Makes an additional API key.
type ScopedKeyRequest struct {
	// When it stops working; null or left out: never.
	ExpiresAt webhook.Time `json:"expiresAt,omitzero"`
	// For people: what uses it. 1 to 200 bytes without control characters or space around
	// it.
	Name string `json:"name"`
	// What the key may do. Give each program what it needs and no more.
	Scope string `json:"scope"`
}

// ScopedKeyWithValue: An API key with what is sent in the header x-api-key, which is
// shown this once.
type ScopedKeyWithValue struct {
	// The value, for the header x-api-key. It is not shown again.
	APIKey string `json:"apiKey"`
	// The key; key_main is the main one.
	APIKeyID string `json:"apiKeyId"`
	// When the key was made; of the main key, when the organization was.
	CreatedAt webhook.Time `json:"createdAt"`
	// When it stops working, by the clock of the database; null: never.
	ExpiresAt *webhook.Time `json:"expiresAt"`
	// When a request by the value before was last let in, to the minute: before
	// formerKeyUntil, whether something still uses it.
	FormerKeyLastUsedAt *webhook.Time `json:"formerKeyLastUsedAt"`
	// Until when the value before works; null: it does not.
	FormerKeyUntil *webhook.Time `json:"formerKeyUntil"`
	// Whether it is the main key, which has every right and manages the others.
	IsMain bool `json:"isMain"`
	// When a request by its present value was last let in, to the minute; null: not yet.
	LastUsedAt *webhook.Time `json:"lastUsedAt"`
	// For people.
	Name string `json:"name"`
	// When its value was last replaced; null: never.
	RolledAt *webhook.Time `json:"rolledAt"`
	// What the key may do. READ: every GET. NO_MONEY_OUT: also what changes something and
	// lets no money out. FULL: also what lets money out. Only the main key manages API
	// keys.
	Scope string `json:"scope"`
	// EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
	// additionalApiKeys off; the key works again when it is on. REVOKED: the operator
	// ended the main key and has not rolled it. Statuses are added without notice.
	Status string `json:"status"`
}

// The values of ScopedKeyWithValue.Scope.
const (
	ScopedKeyWithValueScopeRead       = "READ"
	ScopedKeyWithValueScopeNoMoneyOut = "NO_MONEY_OUT"
	ScopedKeyWithValueScopeFull       = "FULL"
)

// TestRequest: Asks for a sample.
type TestRequest struct {
	// Which event.
	Type string `json:"type"`
}

// TransferPage: A page of transfers.
type TransferPage struct {
	// The items, in order.
	Data []Transfer `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// TransferParty: One side: exactly one of a customer and a product.
type TransferParty struct {
	// Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e): URL libraries would make another path of
	// it. An id with / stands in paths as %2F, and does not work behind a proxy that
	// decodes it.
	CustomerID string `json:"customerId,omitzero"`
	// A balance of your own organization.
	Product string `json:"product,omitzero"`
}

// TransferRequest: Asks for money to move between two balances.
type TransferRequest struct {
	// Whole atomic units; whole tokens with useDecimal, with no more digits after the
	// point than the mint has decimals. ASCII digits, no sign, no exponent, no leading
	// zero.
	Amount string `json:"amount"`
	// Who pays.
	From TransferParty `json:"from"`
	// Your name for the transfer you mean: 1 to 255 printable ASCII characters without a
	// space. It never expires. Required, here or in the header Idempotency-Key.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference, shown again and searchable.
	Reference string `json:"reference,omitzero"`
	// Who receives.
	To TransferParty `json:"to"`
	// Reads amount as whole tokens.
	UseDecimal bool `json:"useDecimal,omitzero"`
}

// UnfreezeRequest: Has no fields.
type UnfreezeRequest struct{}

// WebhookJob: What was asked to be sent again, and how far it has come.
type WebhookJob struct {
	// When everything had been made due.
	CompletedAt *webhook.Time `json:"completedAt"`
	// When it was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// Of those queued, delivered since.
	Delivered int `json:"delivered"`
	// The endpoint; null for every one that wants the event.
	EndpointID *string `json:"endpointId"`
	// Of a RESEND: the event.
	EventID *string `json:"eventId"`
	// Events that were looked at and that the endpoint wants.
	Examined int `json:"examined"`
	// Of those queued, failed after the whole schedule, or cancelled with their endpoint.
	Failed int `json:"failed"`
	// The job.
	JobID string `json:"jobId"`
	// RESEND or RECOVER.
	Kind string `json:"kind"`
	// Whether only what was never delivered is sent.
	OnlyFailed bool `json:"onlyFailed"`
	// Of those queued, not ended yet. One that a later job queued again is counted there.
	Pending int `json:"pending"`
	// Of them, made due. The others are on their way already, or were delivered.
	Queued int `json:"queued"`
	// Of a RECOVER: events of this time and later.
	Since *webhook.Time `json:"since"`
	// COMPLETED when everything has been made due.
	Status string `json:"status"`
	// Of a RECOVER: and before this time; null for no end.
	Until *webhook.Time `json:"until"`
}

// The values of WebhookJob.Kind.
const (
	WebhookJobKindResend  = "RESEND"
	WebhookJobKindRecover = "RECOVER"
)

// The values of WebhookJob.Status.
const (
	WebhookJobStatusRunning   = "RUNNING"
	WebhookJobStatusCompleted = "COMPLETED"
)

// WebhookKeys: The public keys that sign webhooks.
type WebhookKeys struct {
	// The keys, newest first.
	Keys []string `json:"keys"`
}

// WithdrawRequest: Asks for a payment from a customer's balance.
type WithdrawRequest struct {
	// Whole atomic units; whole tokens with useDecimal, with no more digits after the
	// point than the mint has decimals. ASCII digits, no sign, no exponent, no leading
	// zero.
	Amount string `json:"amount"`
	// Your own id of the customer, 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e): URL libraries would make another path of
	// it. An id with / stands in paths as %2F, and does not work behind a proxy that
	// decodes it.
	CustomerID string `json:"customerId"`
	// Who pays the network fee. ORGANIZATION is billed for it, and the destination
	// receives the whole amount. DEDUCTED, for a chain's own coin only: the customer pays
	// amount and the destination receives amount less networkFee, which is decided when
	// the payment is ordered and stays; what the network takes more or less than that is
	// the organization's.
	FeeMode string `json:"feeMode,omitzero"`
	// Your name for the payment you mean: 1 to 255 printable ASCII characters without a
	// space. It never expires.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The most that the network may take, in atomic units of the chain's own coin,
	// whatever useDecimal says. While the network asks for more the withdrawal is
	// AWAITING_APPROVAL with NETWORK_FEE, and no transaction that pays is made above it.
	MaxNetworkFee string `json:"maxNetworkFee,omitzero"`
	// Leave it out: no chain of this installation has memos.
	Memo string `json:"memo,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference, shown again and searchable.
	Reference string `json:"reference,omitzero"`
	// Waits for a person before anything is sent.
	RequireApproval bool `json:"requireApproval,omitzero"`
	// Where the money goes. An EVM address with mixed case has to carry its EIP-55
	// checksum.
	ToAddress string `json:"toAddress"`
	// What you have to say of the parties: any object of up to 4096 bytes. It is kept and
	// shown with the withdrawal, is not checked, and no event carries it.
	TravelRule json.RawMessage `json:"travelRule,omitzero"`
	// Reads amount as whole tokens.
	UseDecimal bool `json:"useDecimal,omitzero"`
}

// The values of Withdrawal.ChainStatus.
const (
	WithdrawalChainStatusNone      = "NONE"
	WithdrawalChainStatusPending   = "PENDING"
	WithdrawalChainStatusIncluded  = "INCLUDED"
	WithdrawalChainStatusFinalized = "FINALIZED"
	WithdrawalChainStatusReverted  = "REVERTED"
	WithdrawalChainStatusDropped   = "DROPPED"
	WithdrawalChainStatusReplaced  = "REPLACED"
)

// The values of Withdrawal.FeeMode.
const (
	WithdrawalFeeModeOrganization = "ORGANIZATION"
	WithdrawalFeeModeDeducted     = "DEDUCTED"
)

// The values of Withdrawal.Product.
const (
	WithdrawalProductCustodial   = "CUSTODIAL"
	WithdrawalProductCheckout    = "CHECKOUT"
	WithdrawalProductBatchPayout = "BATCH_PAYOUT"
)

// The values of Withdrawal.Status.
const (
	WithdrawalStatusAwaitingApproval = "AWAITING_APPROVAL"
	WithdrawalStatusProcessing       = "PROCESSING"
	WithdrawalStatusBroadcast        = "BROADCAST"
	WithdrawalStatusCompleted        = "COMPLETED"
	WithdrawalStatusFailed           = "FAILED"
	WithdrawalStatusRejected         = "REJECTED"
	WithdrawalStatusCancelled        = "CANCELLED"
	WithdrawalStatusBlocked          = "BLOCKED"
)

// The values of Withdrawal.Type.
const (
	WithdrawalTypeCustomer     = "CUSTOMER"
	WithdrawalTypeOrganization = "ORGANIZATION"
)

// WithdrawalPage: A page of withdrawals.
type WithdrawalPage struct {
	// The items, in order.
	Data []Withdrawal `json:"data"`
	// Whether something follows.
	HasMore bool `json:"hasMore"`
	// What to give as cursor for the next page; null at the end.
	NextCursor *string `json:"nextCursor"`
}

// GetMint: Read a mint. One token of the catalogue.
//
// GET /mints/{mintId}. It is repeated when no answer comes.
func (c *Client) GetMint(ctx context.Context, mintID int, opts ...CallOption) (out Mint, err error) {
	k := call{method: "GET", path: "/mints/" + strconv.Itoa(mintID), repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListMintsParams are the parameters of ListMints. What is zero is not sent.
type ListMintsParams struct {
	// Only on this chain.
	Chain string
	// Only with exactly this symbol.
	Symbol string
	// Only mints that can, or cannot, be swapped.
	Swappable *bool
	// Only mints for which addresses are, or are not, given out.
	DepositEnabled *bool
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
	// An ETag of an earlier answer: 304 when it still holds.
	IfNoneMatch string
}

// ListMints: List mints. The tokens of this installation, by id. Without limit the
// whole catalogue is one page. Read decimals before converting an amount, and
// swappable before offering a swap.
//
// GET /mints. It is repeated when no answer comes.
func (c *Client) ListMints(ctx context.Context, p ListMintsParams, opts ...CallOption) (out MintPage, err error) {
	k := call{method: "GET", path: "/mints", repeat: always}
	q := params{}
	q.text("chain", p.Chain)
	q.text("symbol", p.Symbol)
	q.flag("swappable", p.Swappable)
	q.flag("depositEnabled", p.DepositEnabled)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	if p.IfNoneMatch != "" {
		k.header = http.Header{"If-None-Match": {p.IfNoneMatch}}
	}
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Mints: every item of ListMints, page after page.
func (c *Client) Mints(ctx context.Context, p ListMintsParams, opts ...CallOption) iter.Seq2[Mint, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Mint, *string, error) {
		p.Cursor = cursor
		page, err := c.ListMints(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// FreezeCustomer: Freeze a customer. Nothing leaves the customer's balances from now
// on: withdrawals and transfers out are 403 CUSTOMER_FROZEN, and a payment that is not
// on its way yet waits. What arrives is credited and told as usual. Again it changes
// nothing. The body may be left out.
//
// POST /customers/{customerId}/freeze. It is repeated when no answer comes.
func (c *Client) FreezeCustomer(ctx context.Context, customerID string, body FreezeRequest, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/customers/" + customerIDPart + "/freeze", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetCustomer: Read a customer. One customer, by your own id of it, escaped for a URL.
//
// GET /customers/{customerId}. It is repeated when no answer comes.
func (c *Client) GetCustomer(ctx context.Context, customerID string, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/customers/" + customerIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCustomerBalances: Read a customer's balances. One row for each mint that
// anything of the customer's has touched. total is available + pendingWithdraw +
// inSwap; pendingDeposit and held stand outside it.
//
// GET /customers/{customerId}/balances. It is repeated when no answer comes.
func (c *Client) ListCustomerBalances(ctx context.Context, customerID string, opts ...CallOption) (out Balances, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/customers/" + customerIDPart + "/balances", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCustomersParams are the parameters of ListCustomers. What is zero is not sent.
type ListCustomersParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only in this status.
	Status string
	// Only what was created after this time, which is excluded.
	CreatedAfter time.Time
	// Only what was created before this time, which is excluded.
	CreatedBefore time.Time
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListCustomers: List customers. The organization's customers. They are made by their
// first POST /deposit, or by a transfer to them. With Accept: text/csv everything that
// the filters leave comes as one table, as of one moment, without limit and cursor;
// one that breaks off is cut, never ended. A cell that a spreadsheet would take for a
// formula has an apostrophe before it.
//
// GET /customers. It is repeated when no answer comes.
func (c *Client) ListCustomers(ctx context.Context, p ListCustomersParams, opts ...CallOption) (out CustomerPage, err error) {
	k := call{method: "GET", path: "/customers", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("status", p.Status)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Customers: every item of ListCustomers, page after page.
func (c *Client) Customers(ctx context.Context, p ListCustomersParams, opts ...CallOption) iter.Seq2[Customer, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Customer, *string, error) {
		p.Cursor = cursor
		page, err := c.ListCustomers(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListCustomersCSV: what ListCustomers has as one table, without limit and cursor. It
// is read while it arrives; the caller closes it. An error while reading means that
// the table is not complete.
func (c *Client) ListCustomersCSV(ctx context.Context, p ListCustomersParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/customers", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("status", p.Status)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// UnfreezeCustomer: Lift your freeze of a customer. Lifts the freeze that your
// organization put on the customer. A freeze of the operator's, or of the service
// itself after the finality of a chain broke, is another one and stays: the customer
// is then still FROZEN, and 403 OPERATOR_ONLY when there was none of yours. Again it
// changes nothing. The body may be left out.
//
// POST /customers/{customerId}/unfreeze. It is repeated when no answer comes.
func (c *Client) UnfreezeCustomer(ctx context.Context, customerID string, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/customers/" + customerIDPart + "/unfreeze", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UpdateCustomer: Change a customer. Changes the e-mail, the metadata or both; what is
// not named stays, and metadata is replaced whole. An e-mail decides whose withdrawals
// an allowlist lets pass, so a changed one does not count there for 24 hours. The same
// e-mail in other letters is no change.
//
// PATCH /customers/{customerId}. It is repeated when no answer comes.
func (c *Client) UpdateCustomer(ctx context.Context, customerID string, body CustomerChange, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "PATCH", path: "/customers/" + customerIDPart, repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ApproveDeposit: Approve a flagged deposit. Credits what screening holds: it is your
// customer's at once, and CUSTOMER_DEPOSIT_APPROVED is sent. No second
// CUSTOMER_DEPOSIT is. Off until the operator of this service switches
// flaggedDepositApiEnabled on for your organization. Of all decisions about a deposit
// one comes about; the same one again is answered the same, every other 409 with
// currentStatus. The body may be left out.
//
// POST /deposits/{depositId}/approve. It is repeated when no answer comes.
func (c *Client) ApproveDeposit(ctx context.Context, depositID string, body DecisionNote, opts ...CallOption) (out Deposit, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/deposits/" + depositIDPart + "/approve", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateDepositAddress: Get a deposit address. The address for a customer on the
// mint's chain: the same one on every call, for every mint of that chain. The customer
// is made on first use. What arrives is credited when its block is final, and told
// with CUSTOMER_DEPOSIT.
//
// POST /deposit. It is repeated when no answer comes.
func (c *Client) CreateDepositAddress(ctx context.Context, body DepositRequest, opts ...CallOption) (out DepositAddress, err error) {
	k := call{method: "POST", path: "/deposit", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateOrganizationDepositAddress: Get an address of your own. The address of one of
// your products on the mint's chain: the same one on every call, for every mint of
// that chain. What arrives there is your organization's own. It is credited to the
// product when its block is final, under the same guards as a customer's deposit, and
// told with ORGANIZATION_DEPOSIT to endpoints that name it.
//
// POST /organization-deposit. It is sent once.
func (c *Client) CreateOrganizationDepositAddress(ctx context.Context, body ProductDepositRequest, opts ...CallOption) (out ProductAddress, err error) {
	k := call{method: "POST", path: "/organization-deposit", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetDeposit: Read a deposit. One deposit as it is now.
//
// GET /deposits/{depositId}. It is repeated when no answer comes.
func (c *Client) GetDeposit(ctx context.Context, depositID string, opts ...CallOption) (out Deposit, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/deposits/" + depositIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListDepositsParams are the parameters of ListDeposits. What is zero is not sent.
type ListDepositsParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only to this product of yours.
	Product string
	// Only in this status.
	Status string
	// Only what was, or was not, held by risk screening, resolved or not. With status
	// CREDITED, REJECTED or REDIRECTED it is the history of what was decided.
	IsFlagged *bool
	// Only of this mint.
	MintID int
	// Only on this chain.
	Chain string
	// Only of this transaction.
	TxHash string
	// Only of this address.
	Address string
	// Only what was created after this time, which is excluded.
	CreatedAfter time.Time
	// Only what was created before this time, which is excluded.
	CreatedBefore time.Time
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListDeposits: List deposits. What arrived at the addresses of customers and of your
// own products, also what is not final yet. A deposit has one of customerId and
// product. With Accept: text/csv everything that the filters leave comes as one table,
// as of one moment, without limit and cursor; one that breaks off is cut, never ended.
// A cell that a spreadsheet would take for a formula has an apostrophe before it.
//
// GET /deposits. It is repeated when no answer comes.
func (c *Client) ListDeposits(ctx context.Context, p ListDepositsParams, opts ...CallOption) (out DepositPage, err error) {
	k := call{method: "GET", path: "/deposits", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("product", p.Product)
	q.text("status", p.Status)
	q.flag("isFlagged", p.IsFlagged)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.text("txHash", p.TxHash)
	q.text("address", p.Address)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Deposits: every item of ListDeposits, page after page.
func (c *Client) Deposits(ctx context.Context, p ListDepositsParams, opts ...CallOption) iter.Seq2[Deposit, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Deposit, *string, error) {
		p.Cursor = cursor
		page, err := c.ListDeposits(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListDepositsCSV: what ListDeposits has as one table, without limit and cursor. It is
// read while it arrives; the caller closes it. An error while reading means that the
// table is not complete.
func (c *Client) ListDepositsCSV(ctx context.Context, p ListDepositsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/deposits", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("product", p.Product)
	q.text("status", p.Status)
	q.flag("isFlagged", p.IsFlagged)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.text("txHash", p.TxHash)
	q.text("address", p.Address)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// RejectDeposit: Reject a flagged deposit. Sends what screening holds back to the
// address that it came from, a native coin less the network's fee (SOL whole, but for
// what the network wants to stay on the address). It is REJECTING until the transfer
// is final; then it is REJECTED, resolution has the hash, and
// CUSTOMER_DEPOSIT_REJECTED is sent. An attempt that fails before anything could reach
// the chain is kept in resolutionAttempts, and the deposit is FLAGGED again; after
// that only the operator completes it. Look at returnAddressRisk and flagReason first.
// Off until the operator of this service switches flaggedDepositApiEnabled on for your
// organization. Of all decisions about a deposit one comes about; the same one again
// is answered the same, every other 409 with currentStatus. The body may be left out.
// To send it elsewhere is the operator's alone: POST /deposits/{depositId}/redirect is
// 403 OPERATOR_ONLY.
//
// POST /deposits/{depositId}/reject. It is repeated when no answer comes.
func (c *Client) RejectDeposit(ctx context.Context, depositID string, body DecisionNote, opts ...CallOption) (out Deposit, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/deposits/" + depositIDPart + "/reject", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CancelWithdrawal: Take a withdrawal back. Ends a withdrawal that is
// AWAITING_APPROVAL, or PROCESSING and waits before anything of it is signed: it is
// CANCELLED, its amount may be spent again, and CUSTOMER_WITHDRAW_CANCELLED is sent,
// or ORGANIZATION_WITHDRAW_CANCELLED for one of your organization's own. One that had
// been let go is first voided by the signer: while that does not answer, 503 says that
// the withdrawal is taken back, is never paid, and has its amount held until it is
// CANCELLED without another call. Of a cancel, an approval and a removal that race one
// wins; the others are answered 409 with currentStatus. So is a repetition:
// currentStatus CANCELLED says that it is done.
//
// POST /withdrawals/{withdrawalId}/cancel. It is sent once.
func (c *Client) CancelWithdrawal(ctx context.Context, withdrawalID string, opts ...CallOption) (out Withdrawal, err error) {
	withdrawalIDPart, err := segment("withdrawalId", withdrawalID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/withdrawals/" + withdrawalIDPart + "/cancel", repeat: never}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateWithdrawal: Withdraw from a customer's balance. Holds the amount and pays it
// to an address, or waits for a person to approve. Give an idempotencyKey for each
// payment you mean: the same key and parameters again show the same withdrawal and pay
// nothing more. A key never expires. Every field but metadata is such a parameter,
// also reference: another value under a known key is 409 IDEMPOTENCY_CONFLICT. A 4xx
// means that this request held nothing and sent nothing. A 451 says that risk
// screening refuses the destination: nothing is held, a record that is BLOCKED is
// kept, and the same key always gets that answer. After a 5xx or no answer, repeat
// with the same key.
//
// POST /withdraw. It is repeated when no answer comes and it has an IdempotencyKey; without one it is sent once.
func (c *Client) CreateWithdrawal(ctx context.Context, body WithdrawRequest, opts ...CallOption) (out Withdrawal, err error) {
	k := call{method: "POST", path: "/withdraw", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// EstimateWithdrawal: Ask what a withdrawal would cost. What the network would take at
// most, as the chain stands, and how much the customer could withdraw. Takes the body
// of POST /withdraw, of which only mintId is needed; customerId, amount, toAddress and
// feeMode make the answer better, the other fields are read over. It holds nothing and
// promises nothing: ask again after expiresAt.
//
// POST /withdraw/estimate. It is repeated when no answer comes.
func (c *Client) EstimateWithdrawal(ctx context.Context, body EstimateRequest, opts ...CallOption) (out Estimate, err error) {
	k := call{method: "POST", path: "/withdraw/estimate", repeat: always, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetWithdrawal: Read a withdrawal. One withdrawal as it is now.
//
// GET /withdrawals/{withdrawalId}. It is repeated when no answer comes.
func (c *Client) GetWithdrawal(ctx context.Context, withdrawalID string, opts ...CallOption) (out Withdrawal, err error) {
	withdrawalIDPart, err := segment("withdrawalId", withdrawalID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/withdrawals/" + withdrawalIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListWithdrawalDecisions: Read what was decided about a withdrawal. Every decision,
// oldest first: the request with all its gates and what they looked at, approval,
// removal, cancellation, and what the signer or the chain sent back. Each was written
// with what it decided, and nobody can change it.
//
// GET /withdrawals/{withdrawalId}/decisions. It is repeated when no answer comes.
func (c *Client) ListWithdrawalDecisions(ctx context.Context, withdrawalID string, opts ...CallOption) (out Decisions, err error) {
	withdrawalIDPart, err := segment("withdrawalId", withdrawalID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/withdrawals/" + withdrawalIDPart + "/decisions", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListWithdrawalsParams are the parameters of ListWithdrawals. What is zero is not sent.
type ListWithdrawalsParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only customers' withdrawals, or only the organization's own.
	Type string
	// Only in this status.
	Status string
	// Only of this mint.
	MintID int
	// Only on this chain.
	Chain string
	// Only of this transaction.
	TxHash string
	// Only of this address.
	Address string
	// Only with this reference of yours.
	Reference string
	// Only the one with this key.
	IdempotencyKey string
	// Only what was created after this time, which is excluded.
	CreatedAfter time.Time
	// Only what was created before this time, which is excluded.
	CreatedBefore time.Time
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListWithdrawals: List withdrawals. The organization's withdrawals: its customers'
// and its own, unless type says which. With idempotencyKey the one that has the key.
// With Accept: text/csv everything that the filters leave comes as one table, as of
// one moment, without limit and cursor; one that breaks off is cut, never ended. A
// cell that a spreadsheet would take for a formula has an apostrophe before it.
//
// GET /withdrawals. It is repeated when no answer comes.
func (c *Client) ListWithdrawals(ctx context.Context, p ListWithdrawalsParams, opts ...CallOption) (out WithdrawalPage, err error) {
	k := call{method: "GET", path: "/withdrawals", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("type", p.Type)
	q.text("status", p.Status)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.text("txHash", p.TxHash)
	q.text("address", p.Address)
	q.text("reference", p.Reference)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Withdrawals: every item of ListWithdrawals, page after page.
func (c *Client) Withdrawals(ctx context.Context, p ListWithdrawalsParams, opts ...CallOption) iter.Seq2[Withdrawal, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Withdrawal, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWithdrawals(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWithdrawalsCSV: what ListWithdrawals has as one table, without limit and cursor.
// It is read while it arrives; the caller closes it. An error while reading means that
// the table is not complete.
func (c *Client) ListWithdrawalsCSV(ctx context.Context, p ListWithdrawalsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/withdrawals", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("type", p.Type)
	q.text("status", p.Status)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.text("txHash", p.TxHash)
	q.text("address", p.Address)
	q.text("reference", p.Reference)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// PreviewWithdrawal: Ask what would become of a withdrawal. Takes the body of POST
// /withdraw, asks the same gates on the same facts and moves nothing: the answer is
// what POST /withdraw would make of it now. What POST /withdraw would refuse is
// refused here with the same status and code; details.gates has the gates up to the
// one that refused. What it would answer 451 is 200 here, wouldBe is BLOCKED and the
// gate RISK says BLOCK. The gate RISK is NOT_CONFIGURED, and passes, as long as this
// installation screens nobody and your organization has set no threshold. With a known
// idempotencyKey nothing would be made: wouldBe is then the status of the withdrawal
// that has it.
//
// POST /withdraw/preview. It is repeated when no answer comes.
func (c *Client) PreviewWithdrawal(ctx context.Context, body WithdrawRequest, opts ...CallOption) (out Preview, err error) {
	k := call{method: "POST", path: "/withdraw/preview", repeat: always, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateTransfer: Move money between balances. Moves an amount between a customer and
// a product of yours, two customers or two products: at once, without a chain. An
// unknown customer who receives is made. The idempotencyKey is required: the same key
// and parameters again show the same transfer and move nothing more. A key never
// expires. Every field but metadata is such a parameter, also reference: another value
// under a known key is 409 IDEMPOTENCY_CONFLICT. A 4xx means that this request moved
// nothing. After a 5xx or no answer, repeat with the same key.
//
// POST /transfers. It is repeated when no answer comes and it has an IdempotencyKey; without one it is sent once.
func (c *Client) CreateTransfer(ctx context.Context, body TransferRequest, opts ...CallOption) (out Transfer, err error) {
	k := call{method: "POST", path: "/transfers", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetTransfer: Read a transfer. One transfer.
//
// GET /transfers/{transferId}. It is repeated when no answer comes.
func (c *Client) GetTransfer(ctx context.Context, transferID string, opts ...CallOption) (out Transfer, err error) {
	transferIDPart, err := segment("transferId", transferID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/transfers/" + transferIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListBalances: Read your own balances. One row for each product and mint that
// anything has touched. What customers have is not yours: it stands beside CUSTODIAL
// as owedToCustomers and in no total. total is available + pending.
//
// GET /balances. It is repeated when no answer comes.
func (c *Client) ListBalances(ctx context.Context, opts ...CallOption) (out ProductBalances, err error) {
	k := call{method: "GET", path: "/balances", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListLedgerEntriesParams are the parameters of ListLedgerEntries. What is zero is not sent.
type ListLedgerEntriesParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only of this product.
	Product string
	// Only of this mint.
	MintID int
	// Only on this chain.
	Chain string
	// Only what was created after this time, which is excluded.
	CreatedAfter time.Time
	// Only what was created before this time, which is excluded.
	CreatedBefore time.Time
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListLedgerEntries: Read what moved balances. Every movement of a customer's or
// product's balance with the resource that caused it: a statement. A transfer between
// two of them is two entries, a withdrawal moves from AVAILABLE to PENDING_WITHDRAW
// and then away. With Accept: text/csv everything that the filters leave comes as one
// table, as of one moment, without limit and cursor; one that breaks off is cut, never
// ended. A cell that a spreadsheet would take for a formula has an apostrophe before
// it.
//
// GET /ledger/entries. It is repeated when no answer comes.
func (c *Client) ListLedgerEntries(ctx context.Context, p ListLedgerEntriesParams, opts ...CallOption) (out EntryPage, err error) {
	k := call{method: "GET", path: "/ledger/entries", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("product", p.Product)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// LedgerEntries: every item of ListLedgerEntries, page after page.
func (c *Client) LedgerEntries(ctx context.Context, p ListLedgerEntriesParams, opts ...CallOption) iter.Seq2[Entry, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Entry, *string, error) {
		p.Cursor = cursor
		page, err := c.ListLedgerEntries(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListLedgerEntriesCSV: what ListLedgerEntries has as one table, without limit and
// cursor. It is read while it arrives; the caller closes it. An error while reading
// means that the table is not complete.
func (c *Client) ListLedgerEntriesCSV(ctx context.Context, p ListLedgerEntriesParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/ledger/entries", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("product", p.Product)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// ListTransfersParams are the parameters of ListTransfers. What is zero is not sent.
type ListTransfersParams struct {
	// Only from or to this customer, compared byte for byte.
	CustomerID string
	// Only from or to this product.
	Product string
	// Only of this mint.
	MintID int
	// Only on this chain.
	Chain string
	// Only with this reference of yours.
	Reference string
	// Only the one with this key.
	IdempotencyKey string
	// Only what was created after this time, which is excluded.
	CreatedAfter time.Time
	// Only what was created before this time, which is excluded.
	CreatedBefore time.Time
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListTransfers: List transfers. The organization's transfers. With idempotencyKey the
// one that has the key. With Accept: text/csv everything that the filters leave comes
// as one table, as of one moment, without limit and cursor; one that breaks off is
// cut, never ended. A cell that a spreadsheet would take for a formula has an
// apostrophe before it.
//
// GET /transfers. It is repeated when no answer comes.
func (c *Client) ListTransfers(ctx context.Context, p ListTransfersParams, opts ...CallOption) (out TransferPage, err error) {
	k := call{method: "GET", path: "/transfers", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("product", p.Product)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.text("reference", p.Reference)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Transfers: every item of ListTransfers, page after page.
func (c *Client) Transfers(ctx context.Context, p ListTransfersParams, opts ...CallOption) iter.Seq2[Transfer, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Transfer, *string, error) {
		p.Cursor = cursor
		page, err := c.ListTransfers(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListTransfersCSV: what ListTransfers has as one table, without limit and cursor. It
// is read while it arrives; the caller closes it. An error while reading means that
// the table is not complete.
func (c *Client) ListTransfersCSV(ctx context.Context, p ListTransfersParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/transfers", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("product", p.Product)
	q.number("mintId", int64(p.MintID))
	q.text("chain", p.Chain)
	q.text("reference", p.Reference)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// CreateApiKey: Make an additional API key. Makes a key beside the main one, which is
// shown in this answer and never again. Off until the operator of this service
// switches additionalApiKeys on for your organization. READ reads; NO_MONEY_OUT also
// writes what lets no money out; FULL makes every call but those about API keys. At
// most 20 keys that have not expired. If the answer is lost, GET /api-keys shows the
// key: delete or roll it.
//
// POST /api-keys. It is sent once.
func (c *Client) CreateApiKey(ctx context.Context, body ScopedKeyRequest, opts ...CallOption) (out ScopedKeyWithValue, err error) {
	k := call{method: "POST", path: "/api-keys", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// DeleteApiKey: Delete an additional API key. Every value of the key is refused by
// every request that starts after this one is answered. The main key is not deleted:
// 409.
//
// DELETE /api-keys/{apiKeyId}. It is repeated when no answer comes.
func (c *Client) DeleteApiKey(ctx context.Context, aPIKeyID string, opts ...CallOption) error {
	aPIKeyIDPart, err := segment("apiKeyId", aPIKeyID)
	if err != nil {
		return err
	}
	k := call{method: "DELETE", path: "/api-keys/" + aPIKeyIDPart, repeat: always}
	return c.do(ctx, k, nil, opts)
}

// ListApiKeysParams are the parameters of ListApiKeys. What is zero is not sent.
type ListApiKeysParams struct {
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListApiKeys: List API keys. The main key and every additional one that was not
// deleted, without what is sent in the header.
//
// GET /api-keys. It is repeated when no answer comes.
func (c *Client) ListApiKeys(ctx context.Context, p ListApiKeysParams, opts ...CallOption) (out ScopedKeyPage, err error) {
	k := call{method: "GET", path: "/api-keys", repeat: always}
	q := params{}
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ApiKeys: every item of ListApiKeys, page after page.
func (c *Client) ApiKeys(ctx context.Context, p ListApiKeysParams, opts ...CallOption) iter.Seq2[ScopedKey, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]ScopedKey, *string, error) {
		p.Cursor = cursor
		page, err := c.ListApiKeys(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// RollApiKey: Replace an API key. Makes a new value of the key, which is shown in this
// answer and never again. The former value is refused by every request that starts
// after this one is answered, or works for overlapSeconds more. An overlap of the main
// key needs additionalApiKeys, like every roll of another key. Of two rolls at once
// one is done and the other is 409. If the answer is lost, roll again: of the main key
// by its former value in its overlap, and without an overlap the operator of this
// service rolls it. The body may be left out.
//
// POST /api-keys/{apiKeyId}/roll. It is sent once.
func (c *Client) RollApiKey(ctx context.Context, aPIKeyID string, body KeyRoll, opts ...CallOption) (out ScopedKeyWithValue, err error) {
	aPIKeyIDPart, err := segment("apiKeyId", aPIKeyID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/api-keys/" + aPIKeyIDPart + "/roll", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateWebhookEndpoint: Register a webhook endpoint. Events are sent to this URL from
// now on, signed with a secret that is shown in this answer and never again. Without
// events it receives the seven events of the interface; extension events are sent only
// where they are named. With filters only what concerns that customer, or happened on
// that chain, is sent. At most 10 endpoints.
//
// POST /webhook-endpoints. It is sent once.
func (c *Client) CreateWebhookEndpoint(ctx context.Context, body EndpointRequest, opts ...CallOption) (out EndpointWithSecret, err error) {
	k := call{method: "POST", path: "/webhook-endpoints", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// DeleteWebhookEndpoint: Delete a webhook endpoint. Nothing more is sent there. What
// was not delivered stays readable with GET /events.
//
// DELETE /webhook-endpoints/{endpointId}. It is repeated when no answer comes.
func (c *Client) DeleteWebhookEndpoint(ctx context.Context, endpointID string, opts ...CallOption) error {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return err
	}
	k := call{method: "DELETE", path: "/webhook-endpoints/" + endpointIDPart, repeat: always}
	return c.do(ctx, k, nil, opts)
}

// GetWebhookEndpoint: Read a webhook endpoint. One endpoint, without its secret.
//
// GET /webhook-endpoints/{endpointId}. It is repeated when no answer comes.
func (c *Client) GetWebhookEndpoint(ctx context.Context, endpointID string, opts ...CallOption) (out Endpoint, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/webhook-endpoints/" + endpointIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetWebhookJob: Read how far a resend or recovery has come. It is COMPLETED when
// everything has been made due; pending, delivered and failed tell what came of it
// since.
//
// GET /webhook-jobs/{jobId}. It is repeated when no answer comes.
func (c *Client) GetWebhookJob(ctx context.Context, jobID string, opts ...CallOption) (out WebhookJob, err error) {
	jobIDPart, err := segment("jobId", jobID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/webhook-jobs/" + jobIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListEventsParams are the parameters of ListEvents. What is zero is not sent.
type ListEventsParams struct {
	// The last sequence that you have; 0, unless given, starts at the first.
	After int64
	// Only events of these types, separated by commas.
	Types string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same types. It goes
	// before after.
	Cursor string
}

// ListEvents: Read the event feed. The bodies that webhooks carry, byte for byte, in
// sequence from after on, for 90 days. Without types it has every event and the
// sequences have no gap, so that a consumer can prove that it missed nothing; a first
// sequence above after + 1 tells that something older has left the feed. Continue with
// the last sequence you have seen.
//
// GET /events. It is repeated when no answer comes.
func (c *Client) ListEvents(ctx context.Context, p ListEventsParams, opts ...CallOption) (out EnvelopePage, err error) {
	k := call{method: "GET", path: "/events", repeat: always}
	q := params{}
	q.number("after", int64(p.After))
	q.text("types", p.Types)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Events: every item of ListEvents, page after page.
func (c *Client) Events(ctx context.Context, p ListEventsParams, opts ...CallOption) iter.Seq2[Envelope, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Envelope, *string, error) {
		p.Cursor = cursor
		page, err := c.ListEvents(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWebhookDeliveriesParams are the parameters of ListWebhookDeliveries. What is zero is not sent.
type ListWebhookDeliveriesParams struct {
	// Only attempts with this outcome.
	Status string
	// Only attempts to send this event.
	EventID string
	// Only attempts to send events of this type.
	Type string
	// Only attempts made at this time or later.
	Since time.Time
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListWebhookDeliveries: Read what was sent to a webhook endpoint. Every attempt with
// its request, without the signature, and what came back: the status and the first
// 1024 bytes. Attempts are kept for 30 days.
//
// GET /webhook-endpoints/{endpointId}/deliveries. It is repeated when no answer comes.
func (c *Client) ListWebhookDeliveries(ctx context.Context, endpointID string, p ListWebhookDeliveriesParams, opts ...CallOption) (out DeliveryAttemptPage, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/webhook-endpoints/" + endpointIDPart + "/deliveries", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.text("eventId", p.EventID)
	q.text("type", p.Type)
	q.time("since", p.Since)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// WebhookDeliveries: every item of ListWebhookDeliveries, page after page.
func (c *Client) WebhookDeliveries(ctx context.Context, endpointID string, p ListWebhookDeliveriesParams, opts ...CallOption) iter.Seq2[DeliveryAttempt, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]DeliveryAttempt, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWebhookDeliveries(ctx, endpointID, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWebhookEndpointsParams are the parameters of ListWebhookEndpoints. What is zero is not sent.
type ListWebhookEndpointsParams struct {
	// By time of creation: newest first (desc, unless given) or oldest first.
	Order string
	// How many items a page has; 50 unless given.
	Limit int
	// Where to continue: the nextCursor of the page before, with the same filters and
	// order.
	Cursor string
}

// ListWebhookEndpoints: List webhook endpoints. Where this organization's events go,
// without the secrets.
//
// GET /webhook-endpoints. It is repeated when no answer comes.
func (c *Client) ListWebhookEndpoints(ctx context.Context, p ListWebhookEndpointsParams, opts ...CallOption) (out EndpointPage, err error) {
	k := call{method: "GET", path: "/webhook-endpoints", repeat: always}
	q := params{}
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// WebhookEndpoints: every item of ListWebhookEndpoints, page after page.
func (c *Client) WebhookEndpoints(ctx context.Context, p ListWebhookEndpointsParams, opts ...CallOption) iter.Seq2[Endpoint, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Endpoint, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWebhookEndpoints(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWebhookKeys: Read the keys that sign webhooks. The public keys of the v1a
// signatures, newest first. A signature by any of them is good.
//
// GET /.well-known/webhook-keys. It is repeated when no answer comes.
func (c *Client) ListWebhookKeys(ctx context.Context, opts ...CallOption) (out WebhookKeys, err error) {
	k := call{method: "GET", path: "/.well-known/webhook-keys", repeat: always, open: true}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// RecoverWebhookEndpoint: Send a webhook endpoint what it missed. Makes the events
// since that time due again, in their order: with onlyFailed, which is the default,
// those that were never delivered there, also because the endpoint was disabled or did
// not exist; without it all of them once more. What the endpoint wants is decided by
// its events and filters as they are now. The job runs behind the answer; the same
// request within ten minutes answers the same job, and one recovery of an endpoint
// runs at a time.
//
// POST /webhook-endpoints/{endpointId}/recover. It is sent once.
func (c *Client) RecoverWebhookEndpoint(ctx context.Context, endpointID string, body RecoverRequest, opts ...CallOption) (out WebhookJob, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/webhook-endpoints/" + endpointIDPart + "/recover", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ResendEvent: Send an event again. Sends the same bytes under the same webhook-id
// again: to the endpoint that is named, or to every one that wants the event. The same
// request within five seconds answers the same job, and what is on its way is not sent
// twice.
//
// POST /events/{eventId}/resend. It is sent once.
func (c *Client) ResendEvent(ctx context.Context, eventID string, body ResendRequest, opts ...CallOption) (out WebhookJob, err error) {
	eventIDPart, err := segment("eventId", eventID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/events/" + eventIDPart + "/resend", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// RotateWebhookSecret: Give a webhook endpoint a new secret. The new secret is shown
// in this answer and never again. Every message carries a v1 signature by it from now
// on, and beside it one by the former secret for 24 hours: replace it at your receiver
// meanwhile. If the answer is lost, ask again: every secret signs on for 24 hours from
// its own replacement, at most 4 at once.
//
// POST /webhook-endpoints/{endpointId}/rotate-secret. It is sent once.
func (c *Client) RotateWebhookSecret(ctx context.Context, endpointID string, opts ...CallOption) (out RotatedSecret, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/webhook-endpoints/" + endpointIDPart + "/rotate-secret", repeat: never}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// TestWebhookEndpoint: Send a sample to a webhook endpoint. Posts a realistic sample
// of that type to this endpoint alone, also while it is paused or disabled, and
// answers what came back within 15 seconds. The sample has environment TEST, no
// sequence, and tells of nothing that happened. It is not tried again, does not count
// for or against the endpoint, and stands in the log.
//
// POST /webhook-endpoints/{endpointId}/test. It is sent once.
func (c *Client) TestWebhookEndpoint(ctx context.Context, endpointID string, body TestRequest, opts ...CallOption) (out DeliveryAttempt, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/webhook-endpoints/" + endpointIDPart + "/test", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UpdateWebhookEndpoint: Change a webhook endpoint. Changes what is given and nothing
// else; filters are replaced as a whole, and {} takes them away. While PAUSED its
// deliveries wait. With ENABLED, which also brings a disabled endpoint back, and with
// another url, everything that waits is due at once, in the order of each resource and
// with the whole schedule before it. Other events and filters decide about what
// happens from now on; what waits is still sent. What happened while an endpoint was
// disabled was not queued for it: ask for that with recover.
//
// PATCH /webhook-endpoints/{endpointId}. It is repeated when no answer comes.
func (c *Client) UpdateWebhookEndpoint(ctx context.Context, endpointID string, body EndpointChange, opts ...CallOption) (out Endpoint, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "PATCH", path: "/webhook-endpoints/" + endpointIDPart, repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetOpenAPI: Read this document. This description of every call, OpenAPI 3.1.
//
// GET /openapi.json. It is repeated when no answer comes.
func (c *Client) GetOpenAPI(ctx context.Context, opts ...CallOption) (out json.RawMessage, err error) {
	k := call{method: "GET", path: "/openapi.json", repeat: always, open: true}
	err = c.do(ctx, k, &out, opts)
	return out, err
}
