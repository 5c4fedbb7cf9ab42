// Code generated from internal/http/api/openapi.json by make generate. DO NOT EDIT.

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
	AddressNotWhitelisted     Code = "ADDRESS_NOT_WHITELISTED"
	AmountBelowMinimum        Code = "AMOUNT_BELOW_MINIMUM"
	ApprovalRefused           Code = "APPROVAL_REFUSED"
	BodyTooLarge              Code = "BODY_TOO_LARGE"
	CustomerFrozen            Code = "CUSTOMER_FROZEN"
	DepositsSuspended         Code = "DEPOSITS_SUSPENDED"
	DepositNotFlagged         Code = "DEPOSIT_NOT_FLAGGED"
	DestinationNotAllowed     Code = "DESTINATION_NOT_ALLOWED"
	DuplicateBatch            Code = "DUPLICATE_BATCH"
	FeatureDisabled           Code = "FEATURE_DISABLED"
	IdempotencyConflict       Code = "IDEMPOTENCY_CONFLICT"
	IdempotencyKeyMismatch    Code = "IDEMPOTENCY_KEY_MISMATCH"
	InsufficientBalance       Code = "INSUFFICIENT_BALANCE"
	InsufficientGas           Code = "INSUFFICIENT_GAS"
	Internal                  Code = "INTERNAL"
	InvalidAddress            Code = "INVALID_ADDRESS"
	InvalidAmount             Code = "INVALID_AMOUNT"
	InvalidCursor             Code = "INVALID_CURSOR"
	InvalidJSON               Code = "INVALID_JSON"
	InvalidPair               Code = "INVALID_PAIR"
	InvalidRequest            Code = "INVALID_REQUEST"
	InvalidState              Code = "INVALID_STATE"
	IPNotAllowed              Code = "IP_NOT_ALLOWED"
	MintNotFound              Code = "MINT_NOT_FOUND"
	NotAcceptable             Code = "NOT_ACCEPTABLE"
	NotFound                  Code = "NOT_FOUND"
	OperatorOnly              Code = "OPERATOR_ONLY"
	OptionUnavailable         Code = "OPTION_UNAVAILABLE"
	OrganizationFrozen        Code = "ORGANIZATION_FROZEN"
	OrganizationSwapsDisabled Code = "ORGANIZATION_SWAPS_DISABLED"
	ProductArchived           Code = "PRODUCT_ARCHIVED"
	ProviderError             Code = "PROVIDER_ERROR"
	ProviderTimeout           Code = "PROVIDER_TIMEOUT"
	QuoteRejected             Code = "QUOTE_REJECTED"
	RateLimited               Code = "RATE_LIMITED"
	ReferencePaid             Code = "REFERENCE_PAID"
	RefundExceedsPayment      Code = "REFUND_EXCEEDS_PAYMENT"
	RefundNotReceived         Code = "REFUND_NOT_RECEIVED"
	RejectBlockedSanctions    Code = "REJECT_BLOCKED_SANCTIONS"
	ResolutionInProgress      Code = "RESOLUTION_IN_PROGRESS"
	ResolutionStuck           Code = "RESOLUTION_STUCK"
	SameAccount               Code = "SAME_ACCOUNT"
	ScopeMissing              Code = "SCOPE_MISSING"
	StatusNotPatchable        Code = "STATUS_NOT_PATCHABLE"
	SwapsDisabled             Code = "SWAPS_DISABLED"
	Unauthorized              Code = "UNAUTHORIZED"
	Unavailable               Code = "UNAVAILABLE"
	UnknownField              Code = "UNKNOWN_FIELD"
	UnsupportedMediaType      Code = "UNSUPPORTED_MEDIA_TYPE"
	WithdrawalsSuspended      Code = "WITHDRAWALS_SUSPENDED"
	WithdrawalRiskBlocked     Code = "WITHDRAWAL_RISK_BLOCKED"
)

// What webhooks carry too.
type (
	Actor               = webhook.Actor
	AddressProof        = webhook.AddressProof
	Approvals           = webhook.Approvals
	BatchPayout         = webhook.BatchPayout
	BatchPayoutCounts   = webhook.BatchPayoutCounts
	BatchPayoutTotal    = webhook.BatchPayoutTotal
	Checkout            = webhook.Checkout
	CheckoutDetails     = webhook.CheckoutDetails
	CheckoutPayment     = webhook.CheckoutPayment
	CreditNote          = webhook.CreditNote
	CustomerCharge      = webhook.CustomerCharge
	CustomerSwap        = webhook.CustomerSwap
	Deposit             = webhook.Deposit
	DepositSwap         = webhook.DepositSwap
	EmbeddedMint        = webhook.Mint
	Envelope            = webhook.Envelope
	FlagReason          = webhook.FlagReason
	FreshScreening      = webhook.FreshScreening
	Invoice             = webhook.Invoice
	InvoiceParty        = webhook.InvoiceParty
	InvoiceSection      = webhook.InvoiceSection
	LineItem            = webhook.LineItem
	LinkItem            = webhook.LinkItem
	OrganizationSwap    = webhook.OrganizationSwap
	Party               = webhook.Party
	PaymentLink         = webhook.PaymentLink
	PaymentOption       = webhook.PaymentOption
	Product             = webhook.Product
	Refund              = webhook.Refund
	RefundPart          = webhook.RefundPart
	Resolution          = webhook.Resolution
	ResolutionAttempt   = webhook.ResolutionAttempt
	Reversal            = webhook.Reversal
	Screening           = webhook.Screening
	SwapDelayed         = webhook.SwapDelayed
	SwapFailed          = webhook.SwapFailed
	SwapSummary         = webhook.SwapSummary
	Transfer            = webhook.Transfer
	Withdrawal          = webhook.Withdrawal
	WithdrawalScreening = webhook.WithdrawalScreening
)

// AcceptRequest: Says why what was paid is enough.
type AcceptRequest struct {
	// Why what was paid is enough: 1 to 1,000 characters. It is kept with the checkout and
	// in the audit log.
	Reason string `json:"reason"`
}

// The values of AddressProof.Purpose.
const (
	AddressProofPurposeCheckout       = "CHECKOUT"
	AddressProofPurposeCheckoutShared = "CHECKOUT_SHARED"
)

// AssignRequest: Names the checkout whose payment it is.
type AssignRequest struct {
	// The checkout.
	CheckoutID string `json:"checkoutId"`
}

// Balance: A customer's balance of one mint.
type Balance struct {
	// The amount that can be spent.
	Available string `json:"available"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// Deposits that risk screening flagged. The total does not include them.
	Held string `json:"held"`
	// Held for swaps that have not ended, and what came back from failed ones until you
	// restore it.
	InSwap string `json:"inSwap"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Deposits that are on the chain and not credited yet. The total does not include
	// them.
	PendingDeposit string `json:"pendingDeposit"`
	// Held for withdrawals that have not ended.
	PendingWithdraw string `json:"pendingWithdraw"`
	// The symbol, for people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
	// available + pendingWithdraw + inSwap.
	Total string `json:"total"`
	// The value in dollars, for display; null when there is no price.
	USDValue *string `json:"usdValue"`
}

// Balances: A customer's balances, by mint.
type Balances struct {
	// The items, in order.
	Data []Balance `json:"data"`
}

// The values of BatchPayout.Mode.
const (
	BatchPayoutModeStrict  = "STRICT"
	BatchPayoutModePartial = "PARTIAL"
)

// BatchPayoutItem: A row of a batch payout, with what became of it.
type BatchPayoutItem struct {
	// What the payee receives, in atomic units. In a row that cannot be read, the text as
	// it was given.
	Amount string `json:"amount"`
	// Your label, or null.
	CustomerID *string `json:"customerId"`
	// Whether the batch pays the row.
	Included bool `json:"included"`
	// Its line in the text of a CSV list, whose header is line 1; in a JSON list the
	// number of the row.
	Line int `json:"line"`
	// The memo that belongs to the address; null on a chain without memos.
	Memo *string `json:"memo"`
	// What is paid; null in a row whose mint cannot be read.
	MintID *int `json:"mintId"`
	// What the network took for it, in atomic units of the native coin of its chain; null
	// until that is final.
	NetworkFee *string `json:"networkFee"`
	// Its position in the list, from 1, which problems name.
	Position int `json:"position"`
	// Why it is not paid, or what it waits for, for a person; null if there is nothing to
	// say.
	Reason *string `json:"reason"`
	// Your own reference of the payment.
	Reference *string `json:"reference"`
	// The number of the row, which its withdrawal, its proof and its warnings name: from
	// 1, without those that cannot be read. null for a row that cannot be read.
	Row *int `json:"row"`
	// UNREADABLE: the row cannot be read, see problems of the batch. EXCLUDED: the batch
	// leaves it out. REFUSED: it is never paid by this batch. WAITING: it has no payment
	// yet. Otherwise the status of the withdrawal that pays it. After REFUSED, FAILED,
	// REJECTED and CANCELLED its amount is in the balance of BATCH_PAYOUT again. Statuses
	// may be added without notice.
	Status string `json:"status"`
	// Where it goes, in the canonical form of its chain. In a row that cannot be read, the
	// text as it was given.
	ToAddress string `json:"toAddress"`
	// The hash of its transaction; null before it has one.
	TxHash *string `json:"txHash"`
	// The withdrawal that pays it; null without one.
	WithdrawalID *string `json:"withdrawalId"`
}

// BatchPayoutItemPage: A page of rows.
type BatchPayoutItemPage struct {
	// The items, in order.
	Data []BatchPayoutItem `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// BatchPayoutPage: A page of batch payouts.
type BatchPayoutPage struct {
	// The items, in order.
	Data []BatchPayout `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// BatchPayoutProblem: What is wrong with one value of one row.
type BatchPayoutProblem struct {
	// The value; null for the row as a whole.
	Column *string `json:"column"`
	// Its line in the text of a CSV list, whose header is line 1; in a JSON list the
	// number of the row.
	Line int `json:"line"`
	// What is wrong, for a person.
	Message string `json:"message"`
	// The position of the row in the list, from 1.
	Position int `json:"position"`
}

// BatchPayoutProof: Proves that people approved a row of a batch payout.
type BatchPayoutProof struct {
	// What people approved.
	ContentHash string `json:"contentHash"`
	// What contentHash covers beside the rows.
	Header BatchPayoutProofHeader `json:"header"`
	// The hashes that lead from the leaf to the root, as RFC 6962 defines them.
	Path []string `json:"path"`
	// The row, whose hash is a leaf of the tree.
	Row BatchPayoutProofRow `json:"row"`
}

// BatchPayoutProofHeader: What the rows of a batch payout have in common.
type BatchPayoutProofHeader struct {
	// The batch payout.
	BatchID string `json:"batchId"`
	// How many of them it pays.
	Included int `json:"included"`
	// Who made it, and never approves it.
	MadeBy string `json:"madeBy"`
	// STRICT or PARTIAL.
	Mode string `json:"mode"`
	// Your organization.
	OrgID string `json:"orgId"`
	// The root of the tree of rows.
	Root string `json:"root"`
	// How many rows the list has.
	Rows int `json:"rows"`
	// What they pay together, by mint.
	Totals []BatchPayoutProofTotal `json:"totals"`
}

// BatchPayoutProofRow: A row as its hash covers it.
type BatchPayoutProofRow struct {
	// The amount in atomic units.
	Amount string `json:"amount"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// The token's contract; empty for the native coin of the chain.
	Contract string `json:"contract"`
	// Your label, or empty.
	CustomerID string `json:"customerId"`
	// Whether the batch pays the row.
	Included bool `json:"included"`
	// Empty: no chain of this installation has memos.
	Memo string `json:"memo"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference, or empty.
	Reference string `json:"reference"`
	// The row, from 1.
	Row int `json:"row"`
	// 16 random bytes in base64, so that the proof of one row says nothing about the row
	// beside it.
	Salt string `json:"salt"`
	// Where it goes, in the canonical form of its chain.
	ToAddress string `json:"toAddress"`
}

// BatchPayoutProofTotal: What a batch payout pays of one mint.
type BatchPayoutProofTotal struct {
	// The amount in atomic units.
	Amount string `json:"amount"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
}

// BatchPayoutReport: A batch payout with what is wrong with its rows, and what a
// person should look at.
type BatchPayoutReport struct {
	// How many of the needed approvals it has. Only people approve, and never the one who
	// made or submitted it.
	Approvals Approvals `json:"approvals"`
	// When it had every approval; null before.
	ApprovedAt *webhook.Time `json:"approvedAt"`
	// The id of the batch payout, bp_…
	BatchPayoutID string `json:"batchPayoutId"`
	// What is submitted and approved: one SHA-256 over every field of every row, with
	// mode, counts and totals. PARTIAL: it changes when a row is left out.
	ContentHash string `json:"contentHash"`
	// What became of the rows that it pays, as of now.
	Counts BatchPayoutCounts `json:"counts"`
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// When it came to its last status; null before.
	EndedAt *webhook.Time `json:"endedAt"`
	// What the networks would take for the rows that are not paid yet, in dollars, at most
	// and each row in a transaction of its own. null without an answer of a chain or a
	// recent price, once it was approved, and in every answer but those of POST and GET of
	// one batch.
	EstimatedNetworkFeeUSD *string `json:"estimatedNetworkFeeUsd"`
	// The key of the request that made it; null if the request had none.
	IdempotencyKey *string `json:"idempotencyKey"`
	// How many it does not pay, because they cannot be read or paid.
	InvalidCount int `json:"invalidCount"`
	// How many rows the list has.
	ItemCount int `json:"itemCount"`
	// STRICT: one row that cannot be paid makes the whole batch INVALID. PARTIAL: such
	// rows are left out.
	Mode string `json:"mode"`
	// Why the service paused it, for a person; null if a person did, or if it is not
	// paused.
	PauseReason *string `json:"pauseReason"`
	// Whether no further row is paid until the batch is resumed.
	Paused bool `json:"paused"`
	// When it was paused; null if it is not.
	PausedAt *webhook.Time `json:"pausedAt"`
	// Why it is INVALID or REJECTED, for a person; null otherwise.
	Problem *string `json:"problem"`
	// What is wrong with rows that cannot be read, all of it.
	Problems []BatchPayoutProblem `json:"problems"`
	// The batch payout whose unpaid rows it pays again; null if it is none.
	RetryOf *string `json:"retryOf"`
	// DRAFT: nothing is held. VALIDATING: its sum is held, and its rows are checked.
	// INVALID: it cannot be paid, see problem. AWAITING_APPROVAL: people look at its
	// contentHash. PROCESSING: its rows are being paid. COMPLETED: every row was paid.
	// PARTIALLY_COMPLETED: some were. FAILED: none was. REJECTED: a person refused it.
	// CANCELLED: you took it back, and no row was paid. After INVALID, REJECTED and
	// CANCELLED its sum is in the balance of BATCH_PAYOUT again, and so is the amount of
	// each row that ended unpaid.
	Status string `json:"status"`
	// When it was cancelled while its rows were being paid; null otherwise.
	StoppedAt *webhook.Time `json:"stoppedAt"`
	// When its sum was held; null before.
	SubmittedAt *webhook.Time `json:"submittedAt"`
	// What its rows pay together, by mint.
	Totals []BatchPayoutTotal `json:"totals"`
	// How many of them it pays.
	ValidCount int `json:"validCount"`
	// What a person should look at before the batch is submitted.
	Warnings []BatchPayoutWarning `json:"warnings"`
}

// The values of BatchPayoutReport.Mode.
const (
	BatchPayoutReportModeStrict  = "STRICT"
	BatchPayoutReportModePartial = "PARTIAL"
)

// BatchPayoutRequest: Makes a batch payout of a list of payments.
type BatchPayoutRequest struct {
	// Your name for this batch: 1 to 255 printable ASCII characters without a space. It
	// never expires. Without it every call makes another one.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// What one row that cannot be paid does. STRICT, also if it is left out: nothing is
	// paid. PARTIAL: the row is left out, and the others are paid.
	Mode string `json:"mode,omitzero"`
	// The payments, in the order in which they are numbered: 1 to 5,000.
	Rows []BatchPayoutRow `json:"rows"`
	// Whether amounts are in whole tokens, such as 1.5, instead of atomic units.
	UseDecimal bool `json:"useDecimal,omitzero"`
}

// BatchPayoutRetry: Makes a batch payout of the unpaid rows of another one.
type BatchPayoutRetry struct {
	// Your name for the new batch, as in POST /batch-payouts.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
}

// BatchPayoutRow: A payment of a list.
type BatchPayoutRow struct {
	// Whole atomic units, or whole tokens with useDecimal: ASCII digits without sign,
	// exponent and separator. Every row needs it.
	Amount string `json:"amount,omitzero"`
	// A label of your own. It makes no customer and moves no customer's money; of a
	// customer whom you know and who is frozen, the row is not paid.
	CustomerID string `json:"customerId,omitzero"`
	// Leave it out: no chain of this installation has memos.
	Memo string `json:"memo,omitzero"`
	// What is paid. Every row needs it.
	MintID *int `json:"mintId,omitzero"`
	// Your own reference of the payment, up to 255 bytes. Its events carry it.
	Reference string `json:"reference,omitzero"`
	// Where it goes, on the chain of the mint. Every row needs it.
	ToAddress string `json:"toAddress,omitzero"`
}

// BatchPayoutSubmission: Submits a batch payout by its contentHash.
type BatchPayoutSubmission struct {
	// The batch payout that existingId named, if the same list is meant to be paid once
	// more.
	AcknowledgeDuplicateOf string `json:"acknowledgeDuplicateOf,omitzero"`
	// The contentHash that you saw.
	ContentHash string `json:"contentHash"`
	// The rows whose warnings with needsTick a person has looked at.
	Ticked []int `json:"ticked,omitzero"`
}

// BatchPayoutWarning: Something about one row that a person should look at.
type BatchPayoutWarning struct {
	// DUPLICATE_ROW: an earlier row pays the same amount to the same address.
	// REFERENCE_SEEN: a payment of the last 90 days has the same reference. LOOK_ALIKE:
	// the address resembles a known one. FIRST_PAYMENT: your organization has never paid
	// the address. Kinds may be added without notice.
	Kind string `json:"kind"`
	// The warning, for a person.
	Message string `json:"message"`
	// Whether the submission has to name the row in ticked.
	NeedsTick bool `json:"needsTick"`
	// The number of the row.
	Row int `json:"row"`
}

// The values of Checkout.Exception.
const (
	CheckoutExceptionFlagged    = "FLAGGED"
	CheckoutExceptionReversed   = "REVERSED"
	CheckoutExceptionWrongToken = "WRONG_TOKEN"
	CheckoutExceptionOverpaid   = "OVERPAID"
	CheckoutExceptionPaidLate   = "PAID_LATE"
	CheckoutExceptionUnderpaid  = "UNDERPAID"
	CheckoutExceptionRefunded   = "REFUNDED"
	CheckoutExceptionNone       = "NONE"
)

// The values of Checkout.Status.
const (
	CheckoutStatusOpen       = "OPEN"
	CheckoutStatusProcessing = "PROCESSING"
	CheckoutStatusCompleted  = "COMPLETED"
	CheckoutStatusExpired    = "EXPIRED"
	CheckoutStatusCancelled  = "CANCELLED"
)

// The values of CheckoutDetails.Exceptions.
const (
	CheckoutDetailsExceptionsFlagged    = "FLAGGED"
	CheckoutDetailsExceptionsReversed   = "REVERSED"
	CheckoutDetailsExceptionsWrongToken = "WRONG_TOKEN"
	CheckoutDetailsExceptionsOverpaid   = "OVERPAID"
	CheckoutDetailsExceptionsPaidLate   = "PAID_LATE"
	CheckoutDetailsExceptionsUnderpaid  = "UNDERPAID"
	CheckoutDetailsExceptionsRefunded   = "REFUNDED"
)

// CheckoutPage: A page of checkouts.
type CheckoutPage struct {
	// The items, in order.
	Data []Checkout `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// The values of CheckoutPayment.Status.
const (
	CheckoutPaymentStatusSeen     = "SEEN"
	CheckoutPaymentStatusCredited = "CREDITED"
	CheckoutPaymentStatusFlagged  = "FLAGGED"
	CheckoutPaymentStatusReturned = "RETURNED"
	CheckoutPaymentStatusOrphaned = "ORPHANED"
	CheckoutPaymentStatusReversed = "REVERSED"
	CheckoutPaymentStatusUnusable = "UNUSABLE"
)

// CheckoutRequest: Makes a checkout of lineItems, of one productId, or of a name with
// a price.
type CheckoutRequest struct {
	// The mints in which it can be paid, in your order: some of those that the products
	// accept. If it is left out, all of them; for something that is no product, all that
	// take deposits.
	AcceptedMintIDs []int `json:"acceptedMintIds,omitzero"`
	// Where the payer is led who gives up; that of the first product with one if it is
	// left out.
	CancelURL string `json:"cancelUrl,omitzero"`
	// The currency of price: USD, or the symbol of an accepted mint; USD if it is left
	// out.
	Currency string `json:"currency,omitzero"`
	// The payer's e-mail, for you. Nothing is sent to it.
	CustomerEmail string `json:"customerEmail,omitzero"`
	// Your own name for the payer, in the form of a customer's id. It makes no customer,
	// and no payer sees it.
	CustomerID string `json:"customerId,omitzero"`
	// For how many seconds it can be paid; 1800 if it is left out.
	ExpiresInSeconds *int `json:"expiresInSeconds,omitzero"`
	// Your name for this checkout: 1 to 255 printable ASCII characters without a space. It
	// never expires. Without it every call makes another one.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The products that are sold, at most 50 positions of one currency. What all of them
	// accept can be paid.
	LineItems []LineItemRequest `json:"lineItems,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The name of something that is no product, for payers. It needs price.
	Name string `json:"name,omitzero"`
	// Whether no other checkout of this reference can be open or paid; as the products say
	// if it is left out. It needs reference.
	OnePerReference *bool `json:"onePerReference,omitzero"`
	// Accepted mints whose options are opened by this call. One that cannot be opened now
	// stays without an address, and the checkout exists: POST
	// /checkouts/{checkoutId}/options says why.
	OpenMintIDs []int `json:"openMintIds,omitzero"`
	// The price of what name says, in the form of a product's price.
	Price string `json:"price,omitzero"`
	// One product, instead of lineItems.
	ProductID string `json:"productId,omitzero"`
	// How many pieces of productId; 1 if it is left out.
	Quantity *int `json:"quantity,omitzero"`
	// Your own reference, such as the number of an order.
	Reference string `json:"reference,omitzero"`
	// Where the payer is led after the payment; that of the first product with one if it
	// is left out.
	SuccessURL string `json:"successUrl,omitzero"`
	// The price of one piece of productId that the payer chose. A product with an open
	// price needs it, and no other has it.
	UnitPrice string `json:"unitPrice,omitzero"`
}

// CreditNotePage: A page of credit notes.
type CreditNotePage struct {
	// The items, in order.
	Data []CreditNote `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// CurrentBill: What the next invoice would have, as of now.
type CurrentBill struct {
	// When the month ends.
	EndsAt webhook.Time `json:"endsAt"`
	// The current month in UTC.
	Month string `json:"month"`
	// The sums of the fees that are on no invoice, by kind and mint.
	Sections []InvoiceSection `json:"sections"`
	// The sum of the sections in dollars, without tax. With a minus sign while credits are
	// more.
	Subtotal string `json:"subtotal"`
	// How many fees have no price yet, and are in no sum.
	Unpriced int `json:"unpriced"`
}

// Customer: One of your customers.
type Customer struct {
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// The customer's e-mail. This field sets it while none is known, and never changes it.
	CustomerEmail *string `json:"customerEmail"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata"`
	// FROZEN: deposits are credited as usual, and no money leaves.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
}

// The values of Customer.Status.
const (
	CustomerStatusActive = "ACTIVE"
	CustomerStatusFrozen = "FROZEN"
)

// CustomerChange: Changes a customer. Fields that are left out stay as they are.
type CustomerChange struct {
	// The customer's new e-mail. If it differs from the known one, no allowlist counts it
	// for 24 hours.
	CustomerEmail *string `json:"customerEmail,omitzero"`
	// Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40
	// characters, values of up to 500.
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
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// The values of CustomerSwap.RefundStatus.
const (
	CustomerSwapRefundStatusNone        = "NONE"
	CustomerSwapRefundStatusPending     = "PENDING"
	CustomerSwapRefundStatusPartial     = "PARTIAL"
	CustomerSwapRefundStatusRefunded    = "REFUNDED"
	CustomerSwapRefundStatusRestored    = "RESTORED"
	CustomerSwapRefundStatusUnavailable = "UNAVAILABLE"
	CustomerSwapRefundStatusManual      = "MANUAL"
)

// The values of CustomerSwap.Status.
const (
	CustomerSwapStatusPending    = "PENDING"
	CustomerSwapStatusDepositing = "DEPOSITING"
	CustomerSwapStatusProcessing = "PROCESSING"
	CustomerSwapStatusCompleted  = "COMPLETED"
	CustomerSwapStatusFailed     = "FAILED"
)

// CustomerSwapPage: A page of customer swaps.
type CustomerSwapPage struct {
	// The items, in order.
	Data []CustomerSwap `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// Decision: One decision about a withdrawal. It cannot be changed.
type Decision struct {
	// REQUESTED, APPROVED, APPROVAL_ADDED (a person approved, and more approvals are
	// needed), APPROVAL_REFUSED (the rules refused it when they were evaluated again),
	// RETURNED (the signer or the chain sent it back), REMOVED or CANCELLED. Values may be
	// added without notice.
	Act string `json:"act"`
	// Who decided; null for a request from before the service recorded it.
	Actor *Actor `json:"actor"`
	// Why the withdrawal waits for a person after this decision.
	ApprovalReasons []string `json:"approvalReasons"`
	// When.
	At webhook.Time `json:"at"`
	// Every rule that was evaluated, in order.
	Gates []GateResult `json:"gates"`
	// The note of the person, or the error of the signer; null without one.
	Note *string `json:"note"`
	// The status of the withdrawal after the decision.
	Status string `json:"status"`
}

// DecisionNote: What the service records with a decision.
type DecisionNote struct {
	// The reason, in a sentence or two, for the record. resolution shows it.
	Note string `json:"note,omitzero"`
}

// Decisions: All decisions about a withdrawal, oldest first.
type Decisions struct {
	// The items, in order.
	Data []Decision `json:"data"`
}

// DeliveryAttempt: One attempt to deliver an event to an endpoint.
type DeliveryAttempt struct {
	// 1, 2, …: the number of attempts to deliver this event to this endpoint.
	Attempt int `json:"attempt"`
	// When the attempt was made.
	CreatedAt webhook.Time `json:"createdAt"`
	// The status of the delivery to this endpoint: PENDING while the service tries,
	// DELIVERED, FAILED after the whole schedule, or CANCELLED with its endpoint.
	DeliveryStatus string `json:"deliveryStatus"`
	// How long the attempt took, in milliseconds.
	DurationMs int `json:"durationMs"`
	// Why the attempt failed, in plain words; null when the event was delivered.
	Error *string `json:"error"`
	// The event.
	EventID string `json:"eventId"`
	// The earliest time of the next attempt; null when there is none, or when there was a
	// later attempt.
	NextAttemptAt *webhook.Time `json:"nextAttemptAt"`
	// The request.
	Request DeliveryRequest `json:"request"`
	// The answer; null without an answer.
	Response *DeliveryResponse `json:"response"`
	// DELIVERED, or FAILED with the error.
	Status string `json:"status"`
	// Whether the event is a sample that was requested.
	Test bool `json:"test"`
	// The type of the event.
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
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// DeliveryRequest: The request of the attempt.
type DeliveryRequest struct {
	// The body, byte for byte; null once the event is older than 90 days.
	Body *string `json:"body"`
	// The headers, without webhook-signature.
	Headers map[string]string `json:"headers"`
	// The URL of the request.
	URL string `json:"url"`
}

// DeliveryResponse: The answer of the receiver.
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
	// The address, in the canonical form of its chain.
	Address string `json:"address"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId"`
	// The memo that belongs to the address; null on a chain without memos.
	Memo *string `json:"memo"`
	// The smallest deposit that is credited, in atomic units. A smaller one is recorded
	// only.
	MinDepositAmount string `json:"minDepositAmount"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// A link that wallets can open, for a QR code.
	PaymentURI string `json:"paymentUri"`
}

// DepositPage: A page of deposits.
type DepositPage struct {
	// The items, in order.
	Data []Deposit `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// DepositRequest: Asks for a deposit address.
type DepositRequest struct {
	// The customer's e-mail. This call sets it while none is known, and never changes it.
	CustomerEmail string `json:"customerEmail,omitzero"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
}

// The values of DepositSwap.Status.
const (
	DepositSwapStatusAwaitingDeposit = "AWAITING_DEPOSIT"
	DepositSwapStatusUnderpaid       = "UNDERPAID"
	DepositSwapStatusProcessing      = "PROCESSING"
	DepositSwapStatusCompleted       = "COMPLETED"
	DepositSwapStatusRefunded        = "REFUNDED"
	DepositSwapStatusFailed          = "FAILED"
	DepositSwapStatusExpired         = "EXPIRED"
)

// DepositSwapPage: A page of deposit swaps.
type DepositSwapPage struct {
	// The items, in order.
	Data []DepositSwap `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// DepositSwapQuote: What a deposit swap would bring now. It binds no one.
type DepositSwapQuote struct {
	// The amount of the quote, in atomic units of the token.
	AmountIn string `json:"amountIn"`
	// What the customer would be credited, in atomic units of toMintId: the offer of the
	// provider less its fees.
	EstimatedAmountOut string `json:"estimatedAmountOut"`
	// How long the provider expects the swap to take; null if it does not say.
	EstimatedTimeSeconds *int `json:"estimatedTimeSeconds"`
	// Always 0: there is no fee of the platform on a deposit swap.
	FeeAmount string `json:"feeAmount"`
	// Always 0.
	FeeBps int `json:"feeBps"`
	// The least amount that the offer allows the provider to deliver, in atomic units of
	// toMintId.
	MinAmountOut string `json:"minAmountOut"`
	// The token: GET /deposit-swap/tokens lists them.
	OriginTokenID string `json:"originTokenId"`
	// The swap provider with the best offer. Providers may be added without notice.
	Provider string `json:"provider"`
	// When the provider was asked.
	QuotedAt webhook.Time `json:"quotedAt"`
	// Whole tokens of toMintId for one whole token, by estimatedAmountOut.
	Rate string `json:"rate"`
	// The mint in which the customer would be credited.
	ToMintID int `json:"toMintId"`
	// The value of estimatedAmountOut in dollars, for display; null when there is no
	// recent price.
	USDValue *string `json:"usdValue"`
}

// DepositSwapQuoteRequest: Asks what a deposit swap would bring.
type DepositSwapQuoteRequest struct {
	// The amount that the customer would pay, in atomic units of the token. Without it the
	// quote is about 100 dollars of the token.
	AmountIn string `json:"amountIn,omitzero"`
	// The token: GET /deposit-swap/tokens lists them.
	OriginTokenID string `json:"originTokenId"`
}

// DepositSwapRequest: Asks for a deposit swap.
type DepositSwapRequest struct {
	// The amount that the customer means to pay, in atomic units of the token. It binds no
	// one: another amount is swapped, too. Without it the estimate is of about 100
	// dollars.
	AmountIn string `json:"amountIn,omitzero"`
	// The customer's e-mail. This call sets it while none is known, and never changes it.
	CustomerEmail string `json:"customerEmail,omitzero"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId"`
	// Your name for this deposit swap: 1 to 255 printable ASCII characters without a
	// space. It never expires. Without it every call makes another one.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The token: GET /deposit-swap/tokens lists them.
	OriginTokenID string `json:"originTokenId"`
	// An address of the customer on the chain of the token, to which the provider sends
	// back what it does not swap. Ask your customer for it: an exchange may not credit
	// what comes back.
	RefundAddress string `json:"refundAddress"`
}

// DepositSwapToken: A token that a customer can pay a deposit swap in.
type DepositSwapToken struct {
	// The chain of the token. It may be a chain that this service has no mints on.
	Chain string `json:"chain"`
	// The token's contract; null for the native coin of the chain.
	ContractAddress *string `json:"contractAddress"`
	// The number of decimals of the atomic unit. Read it before you convert an amount.
	Decimals int `json:"decimals"`
	// The least amount that a provider takes, in atomic units of the token; null if none
	// says so.
	MinAmount *string `json:"minAmount"`
	// The token: GET /deposit-swap/tokens lists them.
	OriginTokenID string `json:"originTokenId"`
	// The symbol, for people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
}

// DepositSwapTokens: The tokens of deposit swaps, by chain and symbol.
type DepositSwapTokens struct {
	// The items, in order.
	Data []DepositSwapToken `json:"data"`
}

// Endpoint: A webhook endpoint.
type Endpoint struct {
	// The date of the payload version.
	APIVersion string `json:"apiVersion"`
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// A note for people.
	Description string `json:"description"`
	// The webhook endpoint.
	EndpointID string `json:"endpointId"`
	// The events that the endpoint receives. Empty means the seven events of the interface
	// and no extension. * alone means all events, including later ones.
	Events []string `json:"events"`
	// The first failed attempt since the last success; null when the last attempt
	// succeeded. After five days of failures the endpoint is DISABLED_BY_FAILURE.
	FailingSince *webhook.Time `json:"failingSince"`
	// Limits which events the endpoint receives.
	Filters Filters `json:"filters"`
	// ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
	// The URL to which events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// The values of Endpoint.Status.
const (
	EndpointStatusEnabled           = "ENABLED"
	EndpointStatusPaused            = "PAUSED"
	EndpointStatusDisabledGone      = "DISABLED_GONE"
	EndpointStatusDisabledByFailure = "DISABLED_BY_FAILURE"
)

// EndpointChange: Changes a webhook endpoint. Fields that are left out stay as they
// are.
type EndpointChange struct {
	// A note for people.
	Description *string `json:"description,omitzero"`
	// The events that the endpoint shall receive. Empty: the seven events of the interface
	// and no extension. * alone: all events, including later ones.
	Events []string `json:"events,omitzero"`
	// Limits which events the endpoint receives.
	Filters *EndpointFilters `json:"filters,omitzero"`
	// ENABLED or PAUSED.
	Status *string `json:"status,omitzero"`
	// The new URL to which events are posted: HTTPS, and no address inside a private
	// network.
	URL *string `json:"url,omitzero"`
}

// EndpointFilters: Limits the events of an endpoint. A filter that is left out limits
// nothing.
type EndpointFilters struct {
	// Only events of this chain.
	Chain *string `json:"chain,omitzero"`
	// Only events that concern this customer, compared byte for byte; of transfers, those
	// that the customer pays.
	CustomerID *string `json:"customerId,omitzero"`
}

// EndpointPage: A page of webhook endpoints.
type EndpointPage struct {
	// The items, in order.
	Data []Endpoint `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// EndpointRequest: Registers a webhook endpoint.
type EndpointRequest struct {
	// A note for people.
	Description string `json:"description,omitzero"`
	// The events that the endpoint shall receive. Empty or left out: the seven events of
	// the interface and no extension. * alone: all events, including later ones.
	Events []string `json:"events,omitzero"`
	// Limits which events the endpoint receives.
	Filters *EndpointFilters `json:"filters,omitzero"`
	// The URL to which events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// EndpointWithSecret: A new endpoint with its secret, which only this answer shows.
type EndpointWithSecret struct {
	// The date of the payload version.
	APIVersion string `json:"apiVersion"`
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// A note for people.
	Description string `json:"description"`
	// The webhook endpoint.
	EndpointID string `json:"endpointId"`
	// The events that the endpoint receives. Empty means the seven events of the interface
	// and no extension. * alone means all events, including later ones.
	Events []string `json:"events"`
	// The first failed attempt since the last success; null when the last attempt
	// succeeded. After five days of failures the endpoint is DISABLED_BY_FAILURE.
	FailingSince *webhook.Time `json:"failingSince"`
	// Limits which events the endpoint receives.
	Filters Filters `json:"filters"`
	// The secret that verifies v1 signatures. Only this answer shows it: store it.
	Secret string `json:"secret"`
	// ENABLED.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
	// The URL to which events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// Entry: One movement of a balance, with its cause.
type Entry struct {
	// Whose balance moved.
	Account Party `json:"account"`
	// The amount in atomic units.
	Amount string `json:"amount"`
	// The amount in whole tokens.
	AmountDecimal string `json:"amountDecimal"`
	// The kind of balance: AVAILABLE, PENDING_WITHDRAW for what is held for withdrawals or
	// owed to payers of checkouts, or IN_SWAP for what is held for swaps.
	Balance string `json:"balance"`
	// What happened: DEPOSIT, DEPOSIT_REVERSAL, WITHDRAWAL_HOLD, WITHDRAWAL_END,
	// WITHDRAWAL_FEE, WITHDRAWAL_CHARGE, WITHDRAWAL_CHARGE_RETURN, TRANSFER, RESTORE.
	// Causes may be added without notice.
	Cause string `json:"cause"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// CREDIT increased the balance, DEBIT decreased it.
	Direction string `json:"direction"`
	// The movement.
	EntryID string `json:"entryId"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// The deposit, withdrawal, transfer, swap or refund that caused the movement.
	ResourceID string `json:"resourceId"`
	// The symbol, for people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
}

// The values of Entry.Balance.
const (
	EntryBalanceAvailable       = "AVAILABLE"
	EntryBalancePendingWithdraw = "PENDING_WITHDRAW"
	EntryBalanceInSwap          = "IN_SWAP"
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
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// The values of Envelope.Environment.
const (
	EnvelopeEnvironmentLive = "LIVE"
	EnvelopeEnvironmentTest = "TEST"
)

// EnvelopePage: One page of the event feed.
type EnvelopePage struct {
	// The items, in order.
	Data []Envelope `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page, with the same types; null on the last page. The last
	// sequence, given as after, leads to the same page.
	NextCursor *string `json:"nextCursor"`
}

// Estimate: What a withdrawal would cost, and how much the customer can withdraw.
type Estimate struct {
	// The costs of the payment that the customer pays, in the withdrawn token and in
	// addition to the amount. Absent when your organization charges nothing
	// (chargeCustomerCosts).
	CustomerCharge *CustomerCharge `json:"customerCharge,omitempty"`
	// The end of the estimate's validity: ask again after it.
	ExpiresAt webhook.Time `json:"expiresAt"`
	// How much the customer can withdraw now; null when no customer was named. In either
	// feeMode no fee is added to it. It does not count what customerCharge holds.
	MaxAmount *string `json:"maxAmount"`
	// The highest network fee, in atomic units of the native coin.
	NetworkFee string `json:"networkFee"`
	// The mint of networkFee: the chain's native coin.
	NetworkFeeMintID *int `json:"networkFeeMintId"`
	// The same in dollars, exactly; null without a recent price of the coin.
	NetworkFeeUSD *string `json:"networkFeeUsd"`
}

// EstimateRequest: Asks what a withdrawal would cost. It has the body of POST
// /withdraw, of which only mintId is required.
type EstimateRequest struct {
	// As in POST /withdraw.
	Amount string `json:"amount,omitzero"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId,omitzero"`
	// Who pays the network fee. ORGANIZATION: your organization is billed, and the
	// destination receives the whole amount. DEDUCTED, for the native coin of a chain
	// only: the customer pays amount, and the destination receives amount less networkFee.
	// This networkFee is fixed when the payment is ordered; the organization bears or
	// keeps any difference to what the network takes.
	FeeMode string `json:"feeMode,omitzero"`
	// Your name for this payment: 1 to 255 printable ASCII characters without a space. It
	// never expires.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The highest network fee that you accept, in atomic units of the native coin,
	// whatever useDecimal says. While the network asks for more, the withdrawal is
	// AWAITING_APPROVAL with NETWORK_FEE, and the service makes no paying transaction
	// above the limit.
	MaxNetworkFee string `json:"maxNetworkFee,omitzero"`
	// The memo that belongs to the address; null on a chain without memos.
	Memo string `json:"memo,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference. The service shows it and can search for it.
	Reference string `json:"reference,omitzero"`
	// true: a person has to approve the withdrawal before anything is sent.
	RequireApproval bool `json:"requireApproval,omitzero"`
	// The destination, in the canonical form of its chain.
	ToAddress string `json:"toAddress,omitzero"`
	// Your statement about the parties: any object of up to 4096 bytes. The service stores
	// it and shows it with the withdrawal. It does not check it, and no event has it.
	TravelRule json.RawMessage `json:"travelRule,omitzero"`
	// true: amount is in whole tokens.
	UseDecimal bool `json:"useDecimal,omitzero"`
}

// FeeLine: A fee that an organization owes.
type FeeLine struct {
	// When the swap was completed, or the network fee was posted, which made the fee due.
	CompletedAt webhook.Time `json:"completedAt"`
	// The fee in atomic units of that mint. No balance pays it.
	FeeAmount string `json:"feeAmount"`
	// The rate of feeAmount, in basis points of the amount that was swapped; 0 for a
	// network fee.
	FeeBps int `json:"feeBps"`
	// The id of the fee.
	FeeLineID string `json:"feeLineId"`
	// The transaction that a network fee paid for; null for a swap.
	FeeTxHash *string `json:"feeTxHash"`
	// The mint of feeAmount: the source mint of the swap, or the coin of the network.
	FromMintID int `json:"fromMintId"`
	// The invoice that bills it; null until one does.
	InvoiceID *string `json:"invoiceId"`
	// Whether feeAmount is taken off what you owe: a fee that was prepaid, or became
	// lower.
	IsCredit bool `json:"isCredit"`
	// What the fee is for. Kinds may be added without notice.
	Kind string `json:"kind"`
	// The price of a whole token in dollars, close to the completion; null until it is
	// read, and for good if none was known within a quarter of an hour.
	Price *string `json:"price"`
	// Where the price is from; null without a price.
	PriceSource *string `json:"priceSource"`
	// The time of the price, by its source; null without a price.
	PricedAt *webhook.Time `json:"pricedAt"`
	// What the fee is of.
	SourceID string `json:"sourceId"`
	// What sourceId names. SWAP: the swap. NETWORK_FEE: the order whose transaction cost
	// it. FEE_CHANGE: that order and, after a slash, which later change of its cost it is.
	// FEE_PREPAID: the withdrawal that paid its fee itself. Kinds may be added without
	// notice.
	SourceKind string `json:"sourceKind"`
	// The swap; empty for a network fee.
	SwapID string `json:"swapId"`
	// The value of feeAmount in dollars by price; null without a price.
	USDValue *string `json:"usdValue"`
}

// FeeLinePage: A page of fees.
type FeeLinePage struct {
	// The items, in order.
	Data []FeeLine `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// Filters: Limits which events the endpoint receives.
type Filters struct {
	// Only events of this chain; null: all.
	Chain *string `json:"chain"`
	// Only events that concern this customer; of transfers, those that the customer pays;
	// null: all.
	CustomerID *string `json:"customerId"`
}

// FreezeRequest: Says why the customer is frozen.
type FreezeRequest struct {
	// For your own records: the audit log shows who froze the customer and why.
	Reason string `json:"reason,omitzero"`
}

// GateResult: The result of one rule, with the facts that it used. Amounts are in
// atomic units, values in dollars.
type GateResult struct {
	// What the customer could spend.
	Available *string `json:"available,omitempty"`
	// The error of the signer or of the chain.
	Code *string `json:"code,omitempty"`
	// The network fees of the customer's other withdrawals in the last 24 hours, in
	// dollars: what they cost, or can cost at most.
	CostsUSD *string `json:"costsUsd,omitempty"`
	// The withdrawal to the same destination that the chain reverted. No approved
	// withdrawal was paid to it since.
	FailedWithdrawalID *string `json:"failedWithdrawalId,omitempty"`
	// The most that the service charges for a payment that fails because of its payee.
	FailureMax *string `json:"failureMax,omitempty"`
	// What is stopped.
	Freeze *string `json:"freeze,omitempty"`
	// The rule: FREEZE, IDEMPOTENCY_KEY, MINIMUM, SUSPENDED, ADDRESS, BALANCE, RISK,
	// REQUIRE_APPROVAL, USD_THRESHOLD, DESTINATION_ADDRESS, LIQUIDITY, NETWORK_FEE,
	// CUSTOMER_COSTS, CUSTOMER_CHARGE or SIGNER. Rules may be added without notice.
	Gate string `json:"gate"`
	// What your addresses could pay, as far as the rule counted.
	Liquid *string `json:"liquid,omitempty"`
	// The highest network fee that the request accepted.
	MaxNetworkFee *string `json:"maxNetworkFee,omitempty"`
	// The smallest amount that can be requested: the minimum of the mint, or the least
	// amount that still reaches the destination when the fee comes out of it.
	Minimum *string `json:"minimum,omitempty"`
	// The highest network fee at the time.
	NetworkFee *string `json:"networkFee,omitempty"`
	// The dollar price of one whole token.
	Price *string `json:"price,omitempty"`
	// The age of the price when the rule used it.
	PriceAgeSeconds *string `json:"priceAgeSeconds,omitempty"`
	// The time of the price, by its source.
	PriceAt *string `json:"priceAt,omitempty"`
	// The source of the price.
	PriceSource *string `json:"priceSource,omitempty"`
	// The provider.
	Provider *string `json:"provider,omitempty"`
	// The approvalReason that the rule gave.
	Reason *string `json:"reason,omitempty"`
	// What would be held in addition to the amount for an account of the payee.
	RentMax *string `json:"rentMax,omitempty"`
	// The known address that looks like the destination.
	Resembles *string `json:"resembles,omitempty"`
	// PASS, HOLD, REFUSE, BLOCK (the call answers 451), SKIPPED (the rule would hold, and
	// the approval allowlist has the customer), or NOT_CONFIGURED when the rule has
	// nothing to check. Results may be added without notice.
	Result string `json:"result"`
	// How far it reaches.
	Scope *string `json:"scope,omitempty"`
	// The result of risk screening.
	Severity *string `json:"severity,omitempty"`
	// The limit that the value was compared with.
	Threshold *string `json:"threshold,omitempty"`
	// The value of the amount.
	USDValue *string `json:"usdValue,omitempty"`
	// A sentence for a person.
	Why *string `json:"why,omitempty"`
}

// The values of Invoice.Status.
const (
	InvoiceStatusIssued = "ISSUED"
	InvoiceStatusPaid   = "PAID"
)

// InvoicePage: A page of invoices.
type InvoicePage struct {
	// The items, in order.
	Data []Invoice `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// KeyRoll: Says how long the former value of a key works after a roll.
type KeyRoll struct {
	// How long the former value works. 0, the default, ends it at once, together with
	// every earlier value. While an earlier value still works, only 0 is allowed.
	OverlapSeconds int `json:"overlapSeconds,omitzero"`
}

// LineItemRequest: One position of a checkout.
type LineItemRequest struct {
	// The product.
	ProductID string `json:"productId"`
	// How many pieces; 1 if it is left out.
	Quantity *int `json:"quantity,omitzero"`
	// The price of one piece that the payer chose. A product with an open price needs it,
	// and no other has it.
	UnitPrice string `json:"unitPrice,omitzero"`
}

// LinkChange: Changes a payment link. Fields that are left out stay as they are.
type LinkChange struct {
	// The new text after the payment; null for none.
	AfterText *string `json:"afterText,omitzero"`
	// The new end, in the future; null for none.
	ExpiresAt *webhook.Time `json:"expiresAt,omitzero"`
	// The new limit of sales; null for none.
	MaxCompleted *int `json:"maxCompleted,omitzero"`
	// Where the payer is led after the payment; null for where the products lead.
	SuccessURL *string `json:"successUrl,omitzero"`
}

// LinkItemRequest: One product of a payment link.
type LinkItemRequest struct {
	// The product.
	ProductID string `json:"productId"`
	// How many pieces one checkout has; left out: the payer chooses.
	Quantity *int `json:"quantity,omitzero"`
	// The greatest quantity that the payer can choose; that of the product if it is left
	// out.
	QuantityMax *int `json:"quantityMax,omitzero"`
	// The least quantity that the payer can choose; 1 if it is left out.
	QuantityMin *int `json:"quantityMin,omitzero"`
}

// LinkRequest: Makes a payment link.
type LinkRequest struct {
	// What a payer reads on the page of a completed checkout: up to 1,000 characters, with
	// line breaks.
	AfterText string `json:"afterText,omitzero"`
	// From when on it sells nothing: a time in the future; left out: never.
	ExpiresAt webhook.Time `json:"expiresAt,omitzero"`
	// Your name for this payment link: 1 to 255 printable ASCII characters without a
	// space. It never expires. Without it every call makes another one.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// What it sells: up to 20 products of one currency that accept a mint in common, each
	// once.
	LineItems []LinkItemRequest `json:"lineItems"`
	// After so many sales it sells nothing more; left out: no limit.
	MaxCompleted *int `json:"maxCompleted,omitzero"`
	// The end of the address: 4 to 40 of a-z, 0-9 and the hyphen, which is neither first
	// nor last. It is unique in the installation. Left out: 22 random letters and digits.
	Slug string `json:"slug,omitzero"`
	// Where the payer is led after the payment: https, in ASCII, without a user name. Left
	// out: where the products lead.
	SuccessURL string `json:"successUrl,omitzero"`
}

// Mint: A token on a chain.
type Mint struct {
	// The network by its CAIP-2 name; null for a chain that does not run here.
	CAIP2 *string `json:"caip2"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// How many confirmations to show to people until a deposit counts. The service decides
	// by finality.
	ConfirmationsRequired int `json:"confirmationsRequired"`
	// The token's contract; null for the native coin of the chain.
	ContractAddress *string `json:"contractAddress"`
	// The number of decimals of the atomic unit. Read it before you convert an amount.
	Decimals int `json:"decimals"`
	// Whether deposit addresses are available.
	DepositEnabled bool `json:"depositEnabled"`
	// What makes a block final on this chain.
	Finality string `json:"finality"`
	// The id of the mint. Other objects name it mintId.
	ID int `json:"id"`
	// NATIVE is the native coin of the chain.
	Kind string `json:"kind"`
	// The address of a picture, or null.
	LogoURL *string `json:"logoUrl"`
	// Whether a deposit needs a memo besides the address.
	MemoRequired bool `json:"memoRequired"`
	// The smallest deposit that is credited, in atomic units. A smaller one is recorded
	// only.
	MinDepositAmount string `json:"minDepositAmount"`
	// The smallest withdrawal, in atomic units.
	MinWithdrawAmount string `json:"minWithdrawAmount"`
	// The name, for people.
	Name string `json:"name"`
	// The network of the chain that this installation uses.
	Network string `json:"network"`
	// Whether customer swaps of your organization may use the mint; false for every mint
	// while swaps are off.
	Swappable bool `json:"swappable"`
	// The symbol, for people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
	// The dollar price of one whole token, for display; null when it is not known.
	USDPrice *string `json:"usdPrice"`
	// The time of the price.
	USDPriceAt *webhook.Time `json:"usdPriceAt"`
	// Whether withdrawals are accepted.
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
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// OptionRequest: Names the mint in which a checkout is to be paid.
type OptionRequest struct {
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
}

// The values of OrganizationSwap.Product.
const (
	OrganizationSwapProductCustodial   = "CUSTODIAL"
	OrganizationSwapProductCheckout    = "CHECKOUT"
	OrganizationSwapProductBatchPayout = "BATCH_PAYOUT"
)

// The values of OrganizationSwap.RefundStatus.
const (
	OrganizationSwapRefundStatusNone        = "NONE"
	OrganizationSwapRefundStatusPending     = "PENDING"
	OrganizationSwapRefundStatusPartial     = "PARTIAL"
	OrganizationSwapRefundStatusRefunded    = "REFUNDED"
	OrganizationSwapRefundStatusRestored    = "RESTORED"
	OrganizationSwapRefundStatusUnavailable = "UNAVAILABLE"
	OrganizationSwapRefundStatusManual      = "MANUAL"
)

// The values of OrganizationSwap.Status.
const (
	OrganizationSwapStatusAwaitingApproval = "AWAITING_APPROVAL"
	OrganizationSwapStatusRejected         = "REJECTED"
	OrganizationSwapStatusCancelled        = "CANCELLED"
	OrganizationSwapStatusPending          = "PENDING"
	OrganizationSwapStatusDepositing       = "DEPOSITING"
	OrganizationSwapStatusProcessing       = "PROCESSING"
	OrganizationSwapStatusCompleted        = "COMPLETED"
	OrganizationSwapStatusFailed           = "FAILED"
)

// OrganizationSwapPage: A page of organization swaps.
type OrganizationSwapPage struct {
	// The items, in order.
	Data []OrganizationSwap `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// OrganizationSwapQuoteRequest: Asks what a swap of your own money would bring.
type OrganizationSwapQuoteRequest struct {
	// The amount to swap, in atomic units of the source mint.
	AmountIn string `json:"amountIn"`
	// The mint that the product gives.
	FromMintID int `json:"fromMintId"`
	// The product whose balance would pay. The balance is not looked at.
	Product string `json:"product,omitzero"`
	// How much less than the offer the provider may deliver, in basis points; 100 if it is
	// left out. The service asks providers for at most 300.
	SlippageBps *int `json:"slippageBps,omitzero"`
	// The mint that the whitelisted address receives.
	ToMintID int `json:"toMintId"`
}

// OrganizationSwapRequest: Asks for a swap of your own money.
type OrganizationSwapRequest struct {
	// The amount that the product gives, in atomic units of the source mint. ASCII digits
	// without sign, exponent and leading zero.
	AmountIn string `json:"amountIn"`
	// The mint that the product gives.
	FromMintID int `json:"fromMintId"`
	// Your name for this swap: 1 to 255 printable ASCII characters without a space, one
	// for each swap that you intend and not for each attempt. It never expires. The header
	// Idempotency-Key is not read.
	IdempotencyKey string `json:"idempotencyKey"`
	// The least amount that you accept, in atomic units of the destination mint. If no
	// provider offers at least this much, the request is refused with 422 QUOTE_REJECTED.
	MinAmountOut string `json:"minAmountOut,omitzero"`
	// The product whose balance pays. CUSTODIAL if it is left out.
	Product string `json:"product,omitzero"`
	// How much less than the offer the provider may deliver, in basis points; 100 if it is
	// left out. The service asks providers for at most 300.
	SlippageBps *int `json:"slippageBps,omitzero"`
	// The mint that the whitelisted address receives.
	ToMintID int `json:"toMintId"`
	// The entry of your whitelist that the output is paid to, on the chain of toMintId.
	// GET /whitelisted-addresses lists them.
	WhitelistedAddressID string `json:"whitelistedAddressId"`
}

// The values of Party.Product.
const (
	PartyProductCustodial   = "CUSTODIAL"
	PartyProductCheckout    = "CHECKOUT"
	PartyProductBatchPayout = "BATCH_PAYOUT"
)

// The values of PaymentLink.Status.
const (
	PaymentLinkStatusActive = "ACTIVE"
	PaymentLinkStatusPaused = "PAUSED"
	PaymentLinkStatusEnded  = "ENDED"
)

// PaymentLinkPage: A page of payment links.
type PaymentLinkPage struct {
	// The items, in order.
	Data []PaymentLink `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// Preview: What POST /withdraw would do now.
type Preview struct {
	// Why: REQUIRE_APPROVAL, USD_THRESHOLD, LOW_LIQUIDITY, DESTINATION_ADDRESS,
	// RISK_REVIEW, PRICE_UNAVAILABLE, POLICY_LIMIT, NETWORK_FEE (the network asks for more
	// than maxNetworkFee), DUPLICATE_KEY (the signer remembers another payment with this
	// idempotency key; nothing was sent), RESTORED (created again from the signer's
	// journal after a restore; nothing was sent) or APPROVAL_RULE (people sign it with
	// their passkeys, by the organization's rule).
	ApprovalReasons []string `json:"approvalReasons"`
	// The costs of the payment that the customer pays, in the withdrawn token and in
	// addition to the amount. Absent when your organization charges nothing
	// (chargeCustomerCosts).
	CustomerCharge *CustomerCharge `json:"customerCharge,omitempty"`
	// The withdrawal that already has the idempotencyKey. Present only then.
	ExistingID *string `json:"existingId,omitempty"`
	// Every rule that was evaluated, in order.
	Gates []GateResult `json:"gates"`
	// The highest network fee, in atomic units of the native coin; null when the chain
	// does not say. With feeMode DEDUCTED it comes out of the amount.
	NetworkFee *string `json:"networkFee"`
	// The mint of networkFee: the chain's native coin.
	NetworkFeeMintID *int `json:"networkFeeMintId"`
	// The status that the withdrawal would have: PROCESSING or AWAITING_APPROVAL. With a
	// known idempotencyKey, the status of the withdrawal that has the key.
	WouldBe string `json:"wouldBe"`
}

// The values of Product.LatePaymentPolicy.
const (
	ProductLatePaymentPolicyAcceptIfWithinTolerance = "ACCEPT_IF_WITHIN_TOLERANCE"
	ProductLatePaymentPolicyHold                    = "HOLD"
	ProductLatePaymentPolicyRefundLink              = "REFUND_LINK"
)

// The values of Product.OverpaymentPolicy.
const (
	ProductOverpaymentPolicyCredit     = "CREDIT"
	ProductOverpaymentPolicyRefundLink = "REFUND_LINK"
)

// The values of Product.PriceType.
const (
	ProductPriceTypeFixed = "FIXED"
	ProductPriceTypeOpen  = "OPEN"
)

// The values of Product.Status.
const (
	ProductStatusActive   = "ACTIVE"
	ProductStatusArchived = "ARCHIVED"
)

// ProductAddress: Where your organization pays in for one of its products. The address
// belongs to the product and the chain.
type ProductAddress struct {
	// The address, in the canonical form of its chain.
	Address string `json:"address"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// The memo that belongs to the address; null on a chain without memos.
	Memo *string `json:"memo"`
	// The smallest deposit that is credited, in atomic units. A smaller one is recorded
	// only.
	MinDepositAmount string `json:"minDepositAmount"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// A link that wallets can open, for a QR code.
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

// ProductBalance: Your organization's balance of one mint in one product.
type ProductBalance struct {
	// The amount that can be moved.
	Available string `json:"available"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// What your customers have of the mint, including what they are withdrawing. Only
	// CUSTODIAL has it. It belongs to the customers, and the total does not include it.
	OwedToCustomers *string `json:"owedToCustomers,omitempty"`
	// Held for unfinished payments of the product.
	Pending string `json:"pending"`
	// Deposits that are on the chain and not credited yet. The total does not include
	// them.
	PendingDeposit string `json:"pendingDeposit"`
	// A balance of your own organization.
	Product string `json:"product"`
	// The symbol, for people. It identifies nothing: two tokens may share it.
	Symbol string `json:"symbol"`
	// available + pending.
	Total string `json:"total"`
	// The value in dollars, for display; null when there is no price.
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

// ProductChange: Changes a product. Fields that are left out stay as they are.
type ProductChange struct {
	// The mints in which it can be paid, in your order.
	AcceptedMintIDs []int `json:"acceptedMintIds,omitzero"`
	// Where the payer is led who gives up; null for nowhere.
	CancelURL *string `json:"cancelUrl,omitzero"`
	// The currency of the prices: USD, or the symbol of one of acceptedMintIds.
	Currency *string `json:"currency,omitzero"`
	// The new description; null for none.
	Description *string `json:"description,omitzero"`
	// The address of a new image, which is fetched once by this call; null for none. Only
	// a change with this field fetches.
	ImageURL *string `json:"imageUrl,omitzero"`
	// What happens to a payment after the time for it. ACCEPT_IF_WITHIN_TOLERANCE: it
	// counts if it is enough at the price of its moment. HOLD: a person decides.
	// REFUND_LINK: it does not count, and a refund is made of it by itself, as of a part
	// that was paid when the time was over.
	LatePaymentPolicy *string `json:"latePaymentPolicy,omitzero"`
	// The new highest price; null for a product that becomes FIXED.
	MaxPrice *string `json:"maxPrice,omitzero"`
	// How many pieces one checkout may have.
	MaxQuantity *int `json:"maxQuantity,omitzero"`
	// Your own keys and values. They replace all earlier ones: at most 20 keys of up to 40
	// characters, values of up to 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The new lowest price; null for a product that becomes FIXED.
	MinPrice *string `json:"minPrice,omitzero"`
	// The new name, for payers.
	Name *string `json:"name,omitzero"`
	// Whether one reference of yours, such as the number of an order, is paid once.
	OnePerReference *bool `json:"onePerReference,omitzero"`
	// What happens to a surplus. CREDIT: it stays in your balance. REFUND_LINK: a refund
	// is made by itself, once for each coin, and the payer claims it on the page of the
	// checkout.
	OverpaymentPolicy *string `json:"overpaymentPolicy,omitzero"`
	// The new price; null for a product that becomes OPEN.
	Price *string `json:"price,omitzero"`
	// FIXED: the price is fixed. OPEN: the payer chooses it between minPrice and maxPrice.
	PriceType *string `json:"priceType,omitzero"`
	// Reserved for settlement in one mint: one of acceptedMintIds, or null, which keeps
	// what is paid as it is.
	SettlementMintID *int `json:"settlementMintId,omitzero"`
	// Where the payer is led after the payment; null for nowhere.
	SuccessURL *string `json:"successUrl,omitzero"`
	// How much less than the amount due counts as paid, in basis points.
	UnderpaymentToleranceBps *int `json:"underpaymentToleranceBps,omitzero"`
}

// ProductDepositRequest: Asks for a deposit address of your own.
type ProductDepositRequest struct {
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// A balance of your own organization.
	Product string `json:"product"`
}

// ProductPage: A page of products.
type ProductPage struct {
	// The items, in order.
	Data []Product `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// ProductRequest: Makes a product.
type ProductRequest struct {
	// The mints in which it can be paid, in your order.
	AcceptedMintIDs []int `json:"acceptedMintIds"`
	// Where the payer is led who gives up. It has the form of successUrl.
	CancelURL string `json:"cancelUrl,omitzero"`
	// The currency of the prices: USD, or the symbol of one of acceptedMintIds; USD if it
	// is left out.
	Currency string `json:"currency,omitzero"`
	// The description, for payers: up to 2,000 characters, with line breaks.
	Description string `json:"description,omitzero"`
	// Your name for this product: 1 to 255 printable ASCII characters without a space. It
	// never expires. Without it every call makes another one.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The address of an image: PNG, JPEG or WebP, at most 2 MB and 4,096 points on each
	// side. It is fetched once by this call, without following a redirect.
	ImageURL string `json:"imageUrl,omitzero"`
	// What happens to a payment after the time for it; ACCEPT_IF_WITHIN_TOLERANCE if it is
	// left out.
	LatePaymentPolicy string `json:"latePaymentPolicy,omitzero"`
	// The highest price that the payer can choose, which an OPEN product needs. It has the
	// form of price.
	MaxPrice string `json:"maxPrice,omitzero"`
	// How many pieces one checkout may have; 1 if it is left out.
	MaxQuantity *int `json:"maxQuantity,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The lowest price that the payer can choose, which an OPEN product needs. It has the
	// form of price.
	MinPrice string `json:"minPrice,omitzero"`
	// The name, for payers: 1 to 200 characters without control or bidirectional ones.
	Name string `json:"name"`
	// Whether one reference of yours, such as the number of an order, is paid once; false
	// if it is left out.
	OnePerReference *bool `json:"onePerReference,omitzero"`
	// What happens to a surplus; CREDIT if it is left out.
	OverpaymentPolicy string `json:"overpaymentPolicy,omitzero"`
	// The price of one piece, which a FIXED product needs: above zero, at most 18 digits,
	// two after the point for USD and those of the mint otherwise.
	Price string `json:"price,omitzero"`
	// FIXED: the price is fixed. OPEN: the payer chooses it between minPrice and maxPrice.
	PriceType string `json:"priceType"`
	// Reserved for settlement in one mint: one of acceptedMintIds, or null, which keeps
	// what is paid as it is.
	SettlementMintID *int `json:"settlementMintId,omitzero"`
	// Where the payer is led after the payment: https, in ASCII, without a user name.
	SuccessURL string `json:"successUrl,omitzero"`
	// How much less than the amount due counts as paid, in basis points; 50 if it is left
	// out.
	UnderpaymentToleranceBps *int `json:"underpaymentToleranceBps,omitzero"`
}

// ReceiptFile: A signed receipt, as a payer keeps it in a file.
type ReceiptFile struct {
	// A short name of the key that signed it.
	KeyID string `json:"keyId"`
	// The signed text, in base64url: JSON.
	Receipt string `json:"receipt"`
	// The ed25519 signature over it, in base64url.
	Signature string `json:"signature"`
}

// RecoverRequest: Asks the service to send the events that an endpoint missed.
type RecoverRequest struct {
	// true, the default: only events that were never delivered to the endpoint. false: all
	// events again.
	OnlyFailed *bool `json:"onlyFailed,omitzero"`
	// Only events of this time and later, by the time of the change.
	Since webhook.Time `json:"since"`
	// Only events before this time; left out: up to now.
	Until webhook.Time `json:"until,omitzero"`
}

// The values of Refund.FeeMode.
const (
	RefundFeeModeOrganization = "ORGANIZATION"
	RefundFeeModeDeducted     = "DEDUCTED"
)

// The values of Refund.Kind.
const (
	RefundKindFull     = "FULL"
	RefundKindOverpaid = "OVERPAID"
	RefundKindAmount   = "AMOUNT"
)

// The values of Refund.Status.
const (
	RefundStatusAwaitingAddress = "AWAITING_ADDRESS"
	RefundStatusRequested       = "REQUESTED"
	RefundStatusSent            = "SENT"
	RefundStatusCompleted       = "COMPLETED"
	RefundStatusCancelled       = "CANCELLED"
	RefundStatusExpired         = "EXPIRED"
)

// RefundPage: A page of refunds.
type RefundPage struct {
	// The items, in order.
	Data []Refund `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// RefundRequest: Asks for a refund of a checkout.
type RefundRequest struct {
	// What is given back: whole atomic units in ASCII digits without sign, exponent and
	// leading zero, or one of two words. FULL: all that is credited in the mint and not
	// refunded. OVERPAID: what is credited above the amount due, at the price of each
	// payment.
	Amount string `json:"amount"`
	// Who pays the network; ORGANIZATION if it is left out. DEDUCTED, for the native coin
	// of a chain only: the payer receives the amount less the fee.
	FeeMode string `json:"feeMode,omitzero"`
	// Your name for this refund: 1 to 255 printable ASCII characters without a space. It
	// never expires. Without it every call makes another one.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The mint that is given back, one that was paid. Needed where several can be
	// refunded.
	MintID *int `json:"mintId,omitzero"`
	// Why, in your own words, which no payer sees. It is kept with the refund and in the
	// audit log.
	Reason string `json:"reason,omitzero"`
	// Where it goes, on the chain of the payment. If it is left out, the answer has
	// claimUrl, on which the payer says it. An exchange pays from addresses that are not
	// its customer's, so ask the payer.
	ToAddress string `json:"toAddress,omitzero"`
}

// ResendRequest: Asks the service to send an event again.
type ResendRequest struct {
	// Only this endpoint. Leave it out for every endpoint that receives this event.
	EndpointID string `json:"endpointId,omitzero"`
}

// RotatedSecret: An endpoint with a new secret, which only this answer shows.
type RotatedSecret struct {
	// The date of the payload version.
	APIVersion string `json:"apiVersion"`
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// A note for people.
	Description string `json:"description"`
	// The webhook endpoint.
	EndpointID string `json:"endpointId"`
	// The events that the endpoint receives. Empty means the seven events of the interface
	// and no extension. * alone means all events, including later ones.
	Events []string `json:"events"`
	// The first failed attempt since the last success; null when the last attempt
	// succeeded. After five days of failures the endpoint is DISABLED_BY_FAILURE.
	FailingSince *webhook.Time `json:"failingSince"`
	// Limits which events the endpoint receives.
	Filters Filters `json:"filters"`
	// Until when the former secret signs besides the new one.
	FormerSecretUntil webhook.Time `json:"formerSecretUntil"`
	// The secret that verifies v1 signatures. Only this answer shows it: store it.
	Secret string `json:"secret"`
	// ENABLED, PAUSED, DISABLED_GONE or DISABLED_BY_FAILURE.
	Status string `json:"status"`
	// When it last changed.
	UpdatedAt webhook.Time `json:"updatedAt"`
	// The URL to which events are posted: HTTPS, and no address inside a private network.
	URL string `json:"url"`
}

// The values of RotatedSecret.Status.
const (
	RotatedSecretStatusEnabled           = "ENABLED"
	RotatedSecretStatusPaused            = "PAUSED"
	RotatedSecretStatusDisabledGone      = "DISABLED_GONE"
	RotatedSecretStatusDisabledByFailure = "DISABLED_BY_FAILURE"
)

// ScopedKey: An API key of the organization, without its value.
type ScopedKey struct {
	// The id of the key; key_main is the main key.
	APIKeyID string `json:"apiKeyId"`
	// When the key was made; for the main key, when the organization was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// When the key expires, by the clock of the database; null: never.
	ExpiresAt *webhook.Time `json:"expiresAt"`
	// When a request last used the former value, to the minute. Before formerKeyUntil it
	// shows whether a program still uses that value.
	FormerKeyLastUsedAt *webhook.Time `json:"formerKeyLastUsedAt"`
	// Until when the former value works; null: it does not work.
	FormerKeyUntil *webhook.Time `json:"formerKeyUntil"`
	// Whether it is the main key, which may make every call and manages the other keys.
	IsMain bool `json:"isMain"`
	// When a request last used the present value, to the minute; null: not yet.
	LastUsedAt *webhook.Time `json:"lastUsedAt"`
	// A name for people.
	Name string `json:"name"`
	// When the value was last replaced; null: never.
	RolledAt *webhook.Time `json:"rolledAt"`
	// What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money
	// out. FULL: also payments. Only the main key manages API keys.
	Scope string `json:"scope"`
	// EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
	// additionalApiKeys off; the key works again when the setting is on. REVOKED: the
	// operator ended the main key and has not rolled it. Statuses may be added without
	// notice.
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
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// ScopedKeyRequest: Makes an additional API key.
type ScopedKeyRequest struct {
	// When the key expires; null or left out: never.
	ExpiresAt webhook.Time `json:"expiresAt,omitzero"`
	// For people: which program uses the key. 1 to 200 bytes without control characters or
	// space around it.
	Name string `json:"name"`
	// What the key may do. Give each program only the scope that it needs.
	Scope string `json:"scope"`
}

// ScopedKeyWithValue: An API key with its value for the header x-api-key, which only
// this answer shows.
type ScopedKeyWithValue struct {
	// The value, for the header x-api-key. The service does not show it again.
	APIKey string `json:"apiKey"`
	// The id of the key; key_main is the main key.
	APIKeyID string `json:"apiKeyId"`
	// When the key was made; for the main key, when the organization was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// When the key expires, by the clock of the database; null: never.
	ExpiresAt *webhook.Time `json:"expiresAt"`
	// When a request last used the former value, to the minute. Before formerKeyUntil it
	// shows whether a program still uses that value.
	FormerKeyLastUsedAt *webhook.Time `json:"formerKeyLastUsedAt"`
	// Until when the former value works; null: it does not work.
	FormerKeyUntil *webhook.Time `json:"formerKeyUntil"`
	// Whether it is the main key, which may make every call and manages the other keys.
	IsMain bool `json:"isMain"`
	// When a request last used the present value, to the minute; null: not yet.
	LastUsedAt *webhook.Time `json:"lastUsedAt"`
	// A name for people.
	Name string `json:"name"`
	// When the value was last replaced; null: never.
	RolledAt *webhook.Time `json:"rolledAt"`
	// What the key may do. READ: every GET. NO_MONEY_OUT: also changes that send no money
	// out. FULL: also payments. Only the main key manages API keys.
	Scope string `json:"scope"`
	// EXPIRED: expiresAt has passed. SUSPENDED: the operator of this service has switched
	// additionalApiKeys off; the key works again when the setting is on. REVOKED: the
	// operator ended the main key and has not rolled it. Statuses may be added without
	// notice.
	Status string `json:"status"`
}

// The values of ScopedKeyWithValue.Scope.
const (
	ScopedKeyWithValueScopeRead       = "READ"
	ScopedKeyWithValueScopeNoMoneyOut = "NO_MONEY_OUT"
	ScopedKeyWithValueScopeFull       = "FULL"
)

// SwapQuote: What a swap would bring now. It binds no one.
type SwapQuote struct {
	// What would be received, in atomic units of the destination mint: the offer of the
	// provider less its fees and the cost of the delivery.
	EstimatedAmountOut string `json:"estimatedAmountOut"`
	// How long the provider expects the swap to take; null if it does not say.
	EstimatedTimeSeconds *int `json:"estimatedTimeSeconds"`
	// The fee of the platform, in atomic units of the source mint. Your organization is
	// billed for it when the swap is completed, and it is never taken from the swap.
	FeeAmount string `json:"feeAmount"`
	// The rate of feeAmount, in basis points.
	FeeBps int `json:"feeBps"`
	// The least amount that the offer allows the provider to deliver, in atomic units of
	// the destination mint.
	MinAmountOut string `json:"minAmountOut"`
	// How much estimatedAmountOut is below the price of other sources, in basis points;
	// null when there is no such price.
	PriceImpactBps *int `json:"priceImpactBps"`
	// The swap provider with the best offer. Providers may be added without notice.
	Provider string `json:"provider"`
	// When the provider was asked.
	QuotedAt webhook.Time `json:"quotedAt"`
	// Whole tokens of the destination mint for one whole token of the source mint, by
	// estimatedAmountOut.
	Rate string `json:"rate"`
	// The value of amountIn in dollars, for display; null when there is no recent price.
	USDValue *string `json:"usdValue"`
}

// SwapQuoteRequest: Asks what a customer swap would bring.
type SwapQuoteRequest struct {
	// The amount to swap, in atomic units of the source mint.
	AmountIn string `json:"amountIn"`
	// Your own id of the customer. The balance of the customer is not looked at.
	CustomerID string `json:"customerId,omitzero"`
	// The mint that the customer gives.
	FromMintID int `json:"fromMintId"`
	// How much less than the offer the provider may deliver, in basis points; 100 if it is
	// left out. The service asks providers for at most 300.
	SlippageBps *int `json:"slippageBps,omitzero"`
	// The mint that the customer receives.
	ToMintID int `json:"toMintId"`
}

// SwapRequest: Asks for a customer swap.
type SwapRequest struct {
	// The amount that the customer gives, in atomic units of the source mint. ASCII digits
	// without sign, exponent and leading zero.
	AmountIn string `json:"amountIn"`
	// The customer's e-mail, for a customer who does not exist yet. Such a customer has no
	// balance to swap, so it never changes anything.
	CustomerEmail string `json:"customerEmail,omitzero"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId"`
	// The mint that the customer gives.
	FromMintID int `json:"fromMintId"`
	// Your name for this swap: 1 to 255 printable ASCII characters without a space, one
	// for each swap that you intend and not for each attempt. It never expires. The header
	// Idempotency-Key is not read.
	IdempotencyKey string `json:"idempotencyKey"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The least amount that you accept, in atomic units of the destination mint. If no
	// provider offers at least this much, the request is refused with 422 QUOTE_REJECTED.
	MinAmountOut string `json:"minAmountOut,omitzero"`
	// How much less than the offer the provider may deliver, in basis points; 100 if it is
	// left out. The service asks providers for at most 300.
	SlippageBps *int `json:"slippageBps,omitzero"`
	// The mint that the customer receives.
	ToMintID int `json:"toMintId"`
}

// TestRequest: Asks for a sample event.
type TestRequest struct {
	// The type of the event.
	Type string `json:"type"`
}

// TransferPage: A page of transfers.
type TransferPage struct {
	// The items, in order.
	Data []Transfer `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// TransferParty: One side of a transfer: either a customer or a product.
type TransferParty struct {
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId,omitzero"`
	// A balance of your own organization.
	Product string `json:"product,omitzero"`
}

// TransferRequest: Asks for a transfer between two balances.
type TransferRequest struct {
	// Whole atomic units, or whole tokens with useDecimal: then at most as many digits
	// after the point as the mint has decimals. ASCII digits without sign, exponent and
	// leading zero.
	Amount string `json:"amount"`
	// Who pays.
	From TransferParty `json:"from"`
	// Your name for this transfer: 1 to 255 printable ASCII characters without a space. It
	// never expires. Required, here or in the header Idempotency-Key.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference. The service shows it and can search for it.
	Reference string `json:"reference,omitzero"`
	// Who receives.
	To TransferParty `json:"to"`
	// true: amount is in whole tokens.
	UseDecimal bool `json:"useDecimal,omitzero"`
}

// UnfreezeRequest: Has no fields.
type UnfreezeRequest struct{}

// UnmatchedPayment: A payment that arrived for your checkouts and named none of them,
// or several.
type UnmatchedPayment struct {
	// The amount in atomic units.
	Amount string `json:"amount"`
	// When it was assigned; null while it is unmatched.
	AssignedAt *webhook.Time `json:"assignedAt"`
	// Who assigned it: a person, a key, or SYSTEM once its final block named the checkout.
	// null while it is unmatched.
	AssignedBy *Actor `json:"assignedBy"`
	// The checkout whose payment it is; null while it is unmatched.
	AssignedCheckoutID *string `json:"assignedCheckoutId"`
	// The chain. Chains may be added without notice.
	Chain string `json:"chain"`
	// The checkout of the address, for NO_CHECKOUT. The database lacks it. null for every
	// other reason.
	CheckoutID *string `json:"checkoutId"`
	// When it was first seen.
	CreatedAt webhook.Time `json:"createdAt"`
	// The id of the deposit. The same transfer on the chain always has the same id.
	DepositID string `json:"depositId"`
	// The status of its deposit. Its amount is in the balance of CHECKOUT once it is
	// CREDITED.
	DepositStatus string `json:"depositStatus"`
	// The mint; null if the token is not in the catalogue.
	MintID *int `json:"mintId"`
	// NO_REFERENCE: it was paid to the address that your checkouts share on Solana, and
	// named none. SEVERAL_REFERENCES: it named several. NO_CHECKOUT: it was paid to the
	// address of a checkout that the database lacks, see checkoutId. OTHER_REFERENCE: its
	// final block named another checkout than the first block that showed it.
	Reason string `json:"reason"`
	// Up to five open checkouts that asked for just this amount in this mint, the
	// likeliest first. An equal amount proves nothing, so a person decides. Empty once it
	// is assigned.
	SuggestedCheckoutIDs []string `json:"suggestedCheckoutIds"`
	// Its symbol; null if the token is not in the catalogue.
	Symbol *string `json:"symbol"`
	// The hash of the transaction; null until there is one.
	TxHash string `json:"txHash"`
}

// The values of UnmatchedPayment.DepositStatus.
const (
	UnmatchedPaymentDepositStatusDetected        = "DETECTED"
	UnmatchedPaymentDepositStatusConfirming      = "CONFIRMING"
	UnmatchedPaymentDepositStatusScreening       = "SCREENING"
	UnmatchedPaymentDepositStatusCredited        = "CREDITED"
	UnmatchedPaymentDepositStatusFlagged         = "FLAGGED"
	UnmatchedPaymentDepositStatusApproving       = "APPROVING"
	UnmatchedPaymentDepositStatusRejecting       = "REJECTING"
	UnmatchedPaymentDepositStatusRedirecting     = "REDIRECTING"
	UnmatchedPaymentDepositStatusResolutionStuck = "RESOLUTION_STUCK"
	UnmatchedPaymentDepositStatusRejected        = "REJECTED"
	UnmatchedPaymentDepositStatusRedirected      = "REDIRECTED"
	UnmatchedPaymentDepositStatusOrphaned        = "ORPHANED"
	UnmatchedPaymentDepositStatusUnsupported     = "UNSUPPORTED"
	UnmatchedPaymentDepositStatusBelowMinimum    = "BELOW_MINIMUM"
	UnmatchedPaymentDepositStatusReversed        = "REVERSED"
)

// The values of UnmatchedPayment.Reason.
const (
	UnmatchedPaymentReasonNoReference       = "NO_REFERENCE"
	UnmatchedPaymentReasonSeveralReferences = "SEVERAL_REFERENCES"
	UnmatchedPaymentReasonNoCheckout        = "NO_CHECKOUT"
	UnmatchedPaymentReasonOtherReference    = "OTHER_REFERENCE"
)

// UnmatchedPaymentPage: A page of unmatched payments.
type UnmatchedPaymentPage struct {
	// The items, in order.
	Data []UnmatchedPayment `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// UnmatchedRefundRequest: Asks for a refund of a payment that named no checkout.
type UnmatchedRefundRequest struct {
	// Who pays the network; ORGANIZATION if it is left out. DEDUCTED, for the native coin
	// of a chain only: the payer receives the amount less the fee.
	FeeMode string `json:"feeMode,omitzero"`
	// Your name for this refund: 1 to 255 printable ASCII characters without a space. It
	// never expires. Without it every call refunds what is left.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// Why, in your own words, which no payer sees. It is kept with the refund and in the
	// audit log.
	Reason string `json:"reason,omitzero"`
	// Where it goes, on the chain of the payment. If it is left out, the answer has
	// claimUrl, on which the payer says it. An exchange pays from addresses that are not
	// its customer's, so ask the payer.
	ToAddress string `json:"toAddress,omitzero"`
}

// WebhookJob: A job that sends events again, and its progress.
type WebhookJob struct {
	// When the job had queued everything.
	CompletedAt *webhook.Time `json:"completedAt"`
	// When it was created.
	CreatedAt webhook.Time `json:"createdAt"`
	// The number of queued events that were delivered since.
	Delivered int `json:"delivered"`
	// The endpoint; null for every endpoint that receives the event.
	EndpointID *string `json:"endpointId"`
	// The event of a RESEND.
	EventID *string `json:"eventId"`
	// The number of events that the job looked at and that the endpoint receives.
	Examined int `json:"examined"`
	// The number of queued events that failed after the whole schedule, or that were
	// cancelled with their endpoint.
	Failed int `json:"failed"`
	// The job.
	JobID string `json:"jobId"`
	// RESEND or RECOVER.
	Kind string `json:"kind"`
	// Whether the job sends only events that were never delivered.
	OnlyFailed bool `json:"onlyFailed"`
	// The number of queued events that have not ended yet. An event that a later job
	// queued again counts for that job.
	Pending int `json:"pending"`
	// The number of them that the job queued. The others were already queued, or were
	// delivered.
	Queued int `json:"queued"`
	// The start of a RECOVER: events of this time and later.
	Since *webhook.Time `json:"since"`
	// COMPLETED when the job has queued everything.
	Status string `json:"status"`
	// The end of a RECOVER: events before this time; null without an end.
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

// WhitelistedAddress: An address that your organization's own money may be paid to.
type WhitelistedAddress struct {
	// The address, in the canonical form of its chain.
	Address string `json:"address"`
	// The chain of the address.
	Chain string `json:"chain"`
	// When the operator added it.
	CreatedAt webhook.Time `json:"createdAt"`
	// The owner of the address, for people.
	Label string `json:"label"`
	// WAITING: the signer has not endorsed it yet. COOLING_OFF: not usable before
	// usableFrom. USABLE. REFUSED: the signer refuses it; ask the operator of this
	// service. REMOVED.
	Status string `json:"status"`
	// From when it is usable.
	UsableFrom webhook.Time `json:"usableFrom"`
	// The entry.
	WhitelistedAddressID string `json:"whitelistedAddressId"`
}

// WhitelistedAddressPage: A page of whitelisted addresses.
type WhitelistedAddressPage struct {
	// The items, in order.
	Data []WhitelistedAddress `json:"data"`
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// WithdrawRequest: Asks for a payment from a customer's balance.
type WithdrawRequest struct {
	// Whole atomic units, or whole tokens with useDecimal: then at most as many digits
	// after the point as the mint has decimals. ASCII digits without sign, exponent and
	// leading zero.
	Amount string `json:"amount"`
	// Your own id of the customer: 1 to 128 bytes of UTF-8 in NFC without control
	// characters, compared byte for byte. No part of it between slashes or backslashes may
	// be a dot segment (. or .., also with %2e), because URL libraries change the path at
	// such a segment. A / in the id becomes %2F in a path, and a proxy that decodes it
	// breaks the path.
	CustomerID string `json:"customerId"`
	// Who pays the network fee. ORGANIZATION: your organization is billed, and the
	// destination receives the whole amount. DEDUCTED, for the native coin of a chain
	// only: the customer pays amount, and the destination receives amount less networkFee.
	// This networkFee is fixed when the payment is ordered; the organization bears or
	// keeps any difference to what the network takes.
	FeeMode string `json:"feeMode,omitzero"`
	// Your name for this payment: 1 to 255 printable ASCII characters without a space. It
	// never expires.
	IdempotencyKey string `json:"idempotencyKey,omitzero"`
	// The highest network fee that you accept, in atomic units of the native coin,
	// whatever useDecimal says. While the network asks for more, the withdrawal is
	// AWAITING_APPROVAL with NETWORK_FEE, and the service makes no paying transaction
	// above the limit.
	MaxNetworkFee string `json:"maxNetworkFee,omitzero"`
	// Leave it out: no chain of this installation has memos.
	Memo string `json:"memo,omitzero"`
	// Your own keys and values: at most 20 keys of up to 40 characters, values of up to
	// 500.
	Metadata map[string]string `json:"metadata,omitzero"`
	// The mint: a token on a chain.
	MintID int `json:"mintId"`
	// Your own reference. The service shows it and can search for it.
	Reference string `json:"reference,omitzero"`
	// true: a person has to approve the withdrawal before anything is sent.
	RequireApproval bool `json:"requireApproval,omitzero"`
	// Where the money goes. An EVM address with mixed case has to carry its EIP-55
	// checksum.
	ToAddress string `json:"toAddress"`
	// Your statement about the parties: any object of up to 4096 bytes. The service stores
	// it and shows it with the withdrawal. It does not check it, and no event has it.
	TravelRule json.RawMessage `json:"travelRule,omitzero"`
	// true: amount is in whole tokens.
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
	// Whether there are more items.
	HasMore bool `json:"hasMore"`
	// The cursor of the next page; null on the last page.
	NextCursor *string `json:"nextCursor"`
}

// GetMint: Read a mint. One token of the catalogue.
//
// GET /mints/{mintId}. The client repeats the call if no answer comes.
func (c *Client) GetMint(ctx context.Context, mintID int, opts ...CallOption) (out Mint, err error) {
	k := call{method: "GET", path: "/mints/" + strconv.Itoa(mintID), repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListMintsParams are the parameters of ListMints. Zero values are not sent.
type ListMintsParams struct {
	// Only on this chain.
	Chain string
	// Only mints with exactly this symbol.
	Symbol string
	// true: only mints that your customers can swap. false: only those that they cannot.
	Swappable *bool
	// true: only mints with deposit addresses. false: only those without.
	DepositEnabled *bool
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
	// The ETag of an earlier answer. If it is still valid, the answer is 304.
	IfNoneMatch string
}

// ListMints: List mints. The tokens of this installation, by id. Without limit the
// whole catalogue is one page. Read decimals before you convert an amount, and
// swappable before you offer a swap.
//
// GET /mints. The client repeats the call if no answer comes.
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

// Mints: every item of ListMints, over all pages.
func (c *Client) Mints(ctx context.Context, p ListMintsParams, opts ...CallOption) iter.Seq2[Mint, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Mint, *string, error) {
		p.Cursor = cursor
		page, err := c.ListMints(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// FreezeCustomer: Freeze a customer. Stops payments from the customer's balances:
// withdrawals and transfers out are refused with 403 CUSTOMER_FROZEN, and a payment
// that is not sent yet waits. The service still credits deposits and sends their
// events. A repeated call changes nothing. The body may be left out.
//
// POST /customers/{customerId}/freeze. The client repeats the call if no answer comes.
func (c *Client) FreezeCustomer(ctx context.Context, customerID string, body FreezeRequest, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/customers/" + customerIDPart + "/freeze", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetCustomer: Read a customer. One customer, by your own id, escaped for a URL.
//
// GET /customers/{customerId}. The client repeats the call if no answer comes.
func (c *Client) GetCustomer(ctx context.Context, customerID string, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/customers/" + customerIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCustomerBalances: Read a customer's balances. One row for each mint of which the
// customer had a movement. total is available + pendingWithdraw + inSwap; it does not
// include pendingDeposit and held.
//
// GET /customers/{customerId}/balances. The client repeats the call if no answer comes.
func (c *Client) ListCustomerBalances(ctx context.Context, customerID string, opts ...CallOption) (out Balances, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/customers/" + customerIDPart + "/balances", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCustomersParams are the parameters of ListCustomers. Zero values are not sent.
type ListCustomersParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only in this status.
	Status string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListCustomers: List customers. The organization's customers. The first POST /deposit
// for a customer creates it, or a transfer to it. With Accept: text/csv the call
// returns everything that the filters select as one table, as of one moment, without
// limit and cursor. If the table breaks off, the connection ends without the end of
// the answer. A cell that a spreadsheet would read as a formula has an apostrophe in
// front of it.
//
// GET /customers. The client repeats the call if no answer comes.
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

// Customers: every item of ListCustomers, over all pages.
func (c *Client) Customers(ctx context.Context, p ListCustomersParams, opts ...CallOption) iter.Seq2[Customer, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Customer, *string, error) {
		p.Cursor = cursor
		page, err := c.ListCustomers(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListCustomersCSV: everything that ListCustomers has as one table, without limit and
// cursor. The table is read as it arrives; the caller closes it. A read error means
// that the table is not complete.
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
// organization put on the customer. A freeze by the operator, or by the service after
// a finality break, is another freeze and stays: the customer is then still FROZEN. If
// your organization has no freeze on the customer, the call is refused with 403
// OPERATOR_ONLY. A repeated call changes nothing. The body may be left out.
//
// POST /customers/{customerId}/unfreeze. The client repeats the call if no answer comes.
func (c *Client) UnfreezeCustomer(ctx context.Context, customerID string, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/customers/" + customerIDPart + "/unfreeze", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UpdateCustomer: Change a customer. Changes the e-mail, the metadata or both. Fields
// that are left out stay as they are; metadata is replaced as a whole. Allowlists go
// by the e-mail, so a changed e-mail does not count there for 24 hours. The same
// e-mail in other letter case is no change.
//
// PATCH /customers/{customerId}. The client repeats the call if no answer comes.
func (c *Client) UpdateCustomer(ctx context.Context, customerID string, body CustomerChange, opts ...CallOption) (out Customer, err error) {
	customerIDPart, err := segment("customerId", customerID)
	if err != nil {
		return out, err
	}
	k := call{method: "PATCH", path: "/customers/" + customerIDPart, repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ApproveDeposit: Approve a flagged deposit. Credits the flagged deposit to your
// customer at once and sends CUSTOMER_DEPOSIT_APPROVED. It sends no second
// CUSTOMER_DEPOSIT. The call is available once the operator of this service switches
// flaggedDepositApiEnabled on for your organization. The first decision about a
// deposit wins. Repeating it returns the same answer; every other decision is refused
// with 409 and currentStatus. The body may be left out.
//
// POST /deposits/{depositId}/approve. The client repeats the call if no answer comes.
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
// mint's chain. Every call returns the same address, for every mint of that chain. The
// first call creates the customer. The service credits a deposit when its block is
// final, and sends CUSTOMER_DEPOSIT.
//
// POST /deposit. The client repeats the call if no answer comes.
func (c *Client) CreateDepositAddress(ctx context.Context, body DepositRequest, opts ...CallOption) (out DepositAddress, err error) {
	k := call{method: "POST", path: "/deposit", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateOrganizationDepositAddress: Get a deposit address of your own. The address of
// one of your products on the mint's chain. Every call returns the same address, for
// every mint of that chain. Deposits to it belong to your organization. The service
// credits them to the product when their block is final, under the same guards as a
// customer's deposit, and sends ORGANIZATION_DEPOSIT to endpoints that name it.
//
// POST /organization-deposit. The client sends the call once.
func (c *Client) CreateOrganizationDepositAddress(ctx context.Context, body ProductDepositRequest, opts ...CallOption) (out ProductAddress, err error) {
	k := call{method: "POST", path: "/organization-deposit", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetDeposit: Read a deposit. One deposit.
//
// GET /deposits/{depositId}. The client repeats the call if no answer comes.
func (c *Client) GetDeposit(ctx context.Context, depositID string, opts ...CallOption) (out Deposit, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/deposits/" + depositIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListDepositsParams are the parameters of ListDeposits. Zero values are not sent.
type ListDepositsParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only deposits to this product of yours.
	Product string
	// Only in this status.
	Status string
	// true: only deposits that screening flagged, resolved or not. false: only deposits
	// that it did not flag. With status CREDITED, REJECTED or REDIRECTED, true lists the
	// resolved ones.
	IsFlagged *bool
	// Only of this mint.
	MintID int
	// Only on this chain.
	Chain string
	// Only of this transaction.
	TxHash string
	// Only of this address.
	Address string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListDeposits: List deposits. Deposits to the addresses of customers and of your own
// products, including those that are not final yet. A deposit has either customerId or
// product. With Accept: text/csv the call returns everything that the filters select
// as one table, as of one moment, without limit and cursor. If the table breaks off,
// the connection ends without the end of the answer. A cell that a spreadsheet would
// read as a formula has an apostrophe in front of it.
//
// GET /deposits. The client repeats the call if no answer comes.
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

// Deposits: every item of ListDeposits, over all pages.
func (c *Client) Deposits(ctx context.Context, p ListDepositsParams, opts ...CallOption) iter.Seq2[Deposit, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Deposit, *string, error) {
		p.Cursor = cursor
		page, err := c.ListDeposits(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListDepositsCSV: everything that ListDeposits has as one table, without limit and
// cursor. The table is read as it arrives; the caller closes it. A read error means
// that the table is not complete.
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

// RejectDeposit: Reject a flagged deposit. Sends the flagged deposit back to the
// address that it came from. The network fee comes out of a native coin; of SOL the
// whole amount goes back, except what the network requires to stay on the address. The
// deposit is REJECTING until the transfer is final. Then it is REJECTED, resolution
// has the hash, and the service sends CUSTOMER_DEPOSIT_REJECTED. If an attempt fails
// before anything can reach the chain, the deposit is FLAGGED again and
// resolutionAttempts has the attempt. After that point only the operator can complete
// it. Look at returnAddressRisk and flagReason first. The call is available once the
// operator of this service switches flaggedDepositApiEnabled on for your organization.
// The first decision about a deposit wins. Repeating it returns the same answer; every
// other decision is refused with 409 and currentStatus. The body may be left out. Only
// the operator can redirect a deposit: POST /deposits/{depositId}/redirect answers 403
// OPERATOR_ONLY.
//
// POST /deposits/{depositId}/reject. The client repeats the call if no answer comes.
func (c *Client) RejectDeposit(ctx context.Context, depositID string, body DecisionNote, opts ...CallOption) (out Deposit, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/deposits/" + depositIDPart + "/reject", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CancelWithdrawal: Cancel a withdrawal. Ends a withdrawal that is AWAITING_APPROVAL,
// or that is PROCESSING and waits before the signer signs anything of it. The
// withdrawal becomes CANCELLED, its amount is available again, and the service sends
// CUSTOMER_WITHDRAW_CANCELLED, or ORGANIZATION_WITHDRAW_CANCELLED for a withdrawal of
// your organization's own. If the withdrawal was released for payment, the signer
// first voids it. If the signer does not answer, the call answers 503: the withdrawal
// will never be paid, and its amount stays held until it becomes CANCELLED, without
// another call. When a cancel, an approval and a removal race, one wins; the others
// are refused with 409 and currentStatus. So is a repeated cancel: currentStatus
// CANCELLED says that the withdrawal is cancelled.
//
// POST /withdrawals/{withdrawalId}/cancel. The client sends the call once.
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
// to an address, or waits for an approval. Send an idempotencyKey for each payment:
// the same key with the same parameters returns the same withdrawal and pays nothing
// more. A key never expires. Every field except metadata is a parameter, including
// reference: another value under a known key is refused with 409 IDEMPOTENCY_CONFLICT.
// A 4xx means that this request held nothing and sent nothing. A 451 means that risk
// screening refuses the destination: no amount is held, the service records the
// withdrawal as BLOCKED, and the same key always gets this answer. After a 5xx or no
// answer, repeat with the same key.
//
// POST /withdraw. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateWithdrawal(ctx context.Context, body WithdrawRequest, opts ...CallOption) (out Withdrawal, err error) {
	k := call{method: "POST", path: "/withdraw", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// EstimateWithdrawal: Ask what a withdrawal would cost. Returns the highest fee that
// the network would take now, and how much the customer could withdraw. It takes the
// body of POST /withdraw, of which only mintId is required. customerId, amount,
// toAddress and feeMode make the answer more precise; the call ignores the other
// fields. It holds nothing and promises nothing: ask again after expiresAt.
//
// POST /withdraw/estimate. The client repeats the call if no answer comes.
func (c *Client) EstimateWithdrawal(ctx context.Context, body EstimateRequest, opts ...CallOption) (out Estimate, err error) {
	k := call{method: "POST", path: "/withdraw/estimate", repeat: always, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetWithdrawal: Read a withdrawal. One withdrawal.
//
// GET /withdrawals/{withdrawalId}. The client repeats the call if no answer comes.
func (c *Client) GetWithdrawal(ctx context.Context, withdrawalID string, opts ...CallOption) (out Withdrawal, err error) {
	withdrawalIDPart, err := segment("withdrawalId", withdrawalID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/withdrawals/" + withdrawalIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListWithdrawalDecisions: Read the decisions about a withdrawal. Every decision,
// oldest first: the request with all its rules and the facts that they used,
// approvals, removal, cancellation, and what the signer or the chain sent back. The
// service wrote each decision together with its effect, and decisions cannot be
// changed.
//
// GET /withdrawals/{withdrawalId}/decisions. The client repeats the call if no answer comes.
func (c *Client) ListWithdrawalDecisions(ctx context.Context, withdrawalID string, opts ...CallOption) (out Decisions, err error) {
	withdrawalIDPart, err := segment("withdrawalId", withdrawalID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/withdrawals/" + withdrawalIDPart + "/decisions", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListWithdrawalsParams are the parameters of ListWithdrawals. Zero values are not sent.
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
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListWithdrawals: List withdrawals. The withdrawals of customers and of the
// organization itself, unless type selects one of them. idempotencyKey selects the
// withdrawal with this key. With Accept: text/csv the call returns everything that the
// filters select as one table, as of one moment, without limit and cursor. If the
// table breaks off, the connection ends without the end of the answer. A cell that a
// spreadsheet would read as a formula has an apostrophe in front of it.
//
// GET /withdrawals. The client repeats the call if no answer comes.
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

// Withdrawals: every item of ListWithdrawals, over all pages.
func (c *Client) Withdrawals(ctx context.Context, p ListWithdrawalsParams, opts ...CallOption) iter.Seq2[Withdrawal, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Withdrawal, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWithdrawals(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWithdrawalsCSV: everything that ListWithdrawals has as one table, without limit
// and cursor. The table is read as it arrives; the caller closes it. A read error
// means that the table is not complete.
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

// PreviewWithdrawal: Ask what a withdrawal request would do. Takes the body of POST
// /withdraw, evaluates the same rules on the same facts and moves nothing. The answer
// is what POST /withdraw would do now. A request that POST /withdraw would refuse is
// refused here with the same status and code; details.gates has the rules up to the
// one that refused. Where POST /withdraw would answer 451, this call answers 200,
// wouldBe is BLOCKED and the rule RISK says BLOCK. The rule RISK is NOT_CONFIGURED,
// and passes, while this installation has no risk provider and your organization has
// no threshold. With a known idempotencyKey no withdrawal would be made: wouldBe is
// the status of the withdrawal that has the key.
//
// POST /withdraw/preview. The client repeats the call if no answer comes.
func (c *Client) PreviewWithdrawal(ctx context.Context, body WithdrawRequest, opts ...CallOption) (out Preview, err error) {
	k := call{method: "POST", path: "/withdraw/preview", repeat: always, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateTransfer: Move money between balances. Moves an amount between a customer and
// a product of yours, two customers or two products: at once, without a chain. It
// creates an unknown customer who receives. The idempotencyKey is required: the same
// key with the same parameters returns the same transfer and moves nothing more. A key
// never expires. Every field except metadata is a parameter, including reference:
// another value under a known key is refused with 409 IDEMPOTENCY_CONFLICT. A 4xx
// means that this request moved nothing. After a 5xx or no answer, repeat with the
// same key.
//
// POST /transfers. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateTransfer(ctx context.Context, body TransferRequest, opts ...CallOption) (out Transfer, err error) {
	k := call{method: "POST", path: "/transfers", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetTransfer: Read a transfer. One transfer.
//
// GET /transfers/{transferId}. The client repeats the call if no answer comes.
func (c *Client) GetTransfer(ctx context.Context, transferID string, opts ...CallOption) (out Transfer, err error) {
	transferIDPart, err := segment("transferId", transferID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/transfers/" + transferIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListBalances: Read your own balances. One row for each product and mint that had a
// movement. Customers' balances are not yours: CUSTODIAL shows them as
// owedToCustomers, and no total includes them. total is available + pending.
//
// GET /balances. The client repeats the call if no answer comes.
func (c *Client) ListBalances(ctx context.Context, opts ...CallOption) (out ProductBalances, err error) {
	k := call{method: "GET", path: "/balances", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListLedgerEntriesParams are the parameters of ListLedgerEntries. Zero values are not sent.
type ListLedgerEntriesParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only of this product.
	Product string
	// Only of this mint.
	MintID int
	// Only on this chain.
	Chain string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListLedgerEntries: Read the movements of balances. A statement: every movement of a
// customer's or product's balance, with the resource that caused it. A transfer
// between two balances is two entries. A withdrawal first moves its amount from
// AVAILABLE to PENDING_WITHDRAW, and then out. With Accept: text/csv the call returns
// everything that the filters select as one table, as of one moment, without limit and
// cursor. If the table breaks off, the connection ends without the end of the answer.
// A cell that a spreadsheet would read as a formula has an apostrophe in front of it.
//
// GET /ledger/entries. The client repeats the call if no answer comes.
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

// LedgerEntries: every item of ListLedgerEntries, over all pages.
func (c *Client) LedgerEntries(ctx context.Context, p ListLedgerEntriesParams, opts ...CallOption) iter.Seq2[Entry, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Entry, *string, error) {
		p.Cursor = cursor
		page, err := c.ListLedgerEntries(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListLedgerEntriesCSV: everything that ListLedgerEntries has as one table, without
// limit and cursor. The table is read as it arrives; the caller closes it. A read
// error means that the table is not complete.
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

// ListTransfersParams are the parameters of ListTransfers. Zero values are not sent.
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
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListTransfers: List transfers. The organization's transfers. idempotencyKey selects
// the transfer with this key. With Accept: text/csv the call returns everything that
// the filters select as one table, as of one moment, without limit and cursor. If the
// table breaks off, the connection ends without the end of the answer. A cell that a
// spreadsheet would read as a formula has an apostrophe in front of it.
//
// GET /transfers. The client repeats the call if no answer comes.
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

// Transfers: every item of ListTransfers, over all pages.
func (c *Client) Transfers(ctx context.Context, p ListTransfersParams, opts ...CallOption) iter.Seq2[Transfer, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Transfer, *string, error) {
		p.Cursor = cursor
		page, err := c.ListTransfers(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListTransfersCSV: everything that ListTransfers has as one table, without limit and
// cursor. The table is read as it arrives; the caller closes it. A read error means
// that the table is not complete.
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

// CreateCustomerSwap: Swap a customer's balance. Holds the amount and swaps it through
// the provider with the best offer. The delivery is credited to the same customer, and
// CUSTOMER_DEPOSIT announces it with swap. A swap that fails later announces
// CUSTOMER_SWAP_FAILED instead; restore what comes back. A known key returns its swap
// as it is now, whatever else the request has, also while swaps are switched off: the
// header Idempotency-Parameters-Differ says if the parameters differ. Every other 4xx
// means that there is no swap with this key; 401, 403 IP_NOT_ALLOWED and
// SCOPE_MISSING, and 429 say nothing about earlier attempts. After a 5xx or no answer,
// repeat with the same key.
//
// POST /customer-swap. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateCustomerSwap(ctx context.Context, body SwapRequest, opts ...CallOption) (out CustomerSwap, err error) {
	k := call{method: "POST", path: "/customer-swap", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetCustomerSwap: Read a swap. One customer swap. The call works while swaps are
// switched off, and can be polled instead of webhooks.
//
// GET /customer-swap/{swapId}. The client repeats the call if no answer comes.
func (c *Client) GetCustomerSwap(ctx context.Context, swapID string, opts ...CallOption) (out CustomerSwap, err error) {
	swapIDPart, err := segment("swapId", swapID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/customer-swap/" + swapIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCustomerSwapsParams are the parameters of ListCustomerSwaps. Zero values are not sent.
type ListCustomerSwapsParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only in this status.
	Status string
	// Only the one with this key.
	IdempotencyKey string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListCustomerSwaps: List swaps. The organization's customer swaps. idempotencyKey
// selects the swap with this key. With Accept: text/csv the call returns everything
// that the filters select as one table, as of one moment, without limit and cursor. If
// the table breaks off, the connection ends without the end of the answer. A cell that
// a spreadsheet would read as a formula has an apostrophe in front of it.
//
// GET /customer-swaps. The client repeats the call if no answer comes.
func (c *Client) ListCustomerSwaps(ctx context.Context, p ListCustomerSwapsParams, opts ...CallOption) (out CustomerSwapPage, err error) {
	k := call{method: "GET", path: "/customer-swaps", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("status", p.Status)
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

// CustomerSwaps: every item of ListCustomerSwaps, over all pages.
func (c *Client) CustomerSwaps(ctx context.Context, p ListCustomerSwapsParams, opts ...CallOption) iter.Seq2[CustomerSwap, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]CustomerSwap, *string, error) {
		p.Cursor = cursor
		page, err := c.ListCustomerSwaps(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListCustomerSwapsCSV: everything that ListCustomerSwaps has as one table, without
// limit and cursor. The table is read as it arrives; the caller closes it. A read
// error means that the table is not complete.
func (c *Client) ListCustomerSwapsCSV(ctx context.Context, p ListCustomerSwapsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/customer-swaps", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("status", p.Status)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// ListFeesParams are the parameters of ListFees. Zero values are not sent.
type ListFeesParams struct {
	// Only fees of this month in UTC, such as 2026-01. All fees without it.
	Month string
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListFees: List the fees that you owe. One row for each completed swap and for each
// network fee. A fee of a swap is due at the completion and never for a failed swap.
// No balance pays a fee: the operator bills it, see GET /billing/invoices. With
// Accept: text/csv the call returns everything that the filters select as one table,
// as of one moment, without limit and cursor. If the table breaks off, the connection
// ends without the end of the answer. A cell that a spreadsheet would read as a
// formula has an apostrophe in front of it.
//
// GET /billing/fees. The client repeats the call if no answer comes.
func (c *Client) ListFees(ctx context.Context, p ListFeesParams, opts ...CallOption) (out FeeLinePage, err error) {
	k := call{method: "GET", path: "/billing/fees", repeat: always}
	q := params{}
	q.text("month", p.Month)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Fees: every item of ListFees, over all pages.
func (c *Client) Fees(ctx context.Context, p ListFeesParams, opts ...CallOption) iter.Seq2[FeeLine, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]FeeLine, *string, error) {
		p.Cursor = cursor
		page, err := c.ListFees(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListFeesCSV: everything that ListFees has as one table, without limit and cursor.
// The table is read as it arrives; the caller closes it. A read error means that the
// table is not complete.
func (c *Client) ListFeesCSV(ctx context.Context, p ListFeesParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/billing/fees", repeat: always}
	q := params{}
	q.text("month", p.Month)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// QuoteCustomerSwap: Ask what a swap would bring. Asks the swap providers and returns
// the best offer. It stores nothing and holds nothing, so a quote has no id: send
// minAmountOut with POST /customer-swap to be safe from a worse offer. The balance of
// the customer is not looked at.
//
// POST /customer-swap/quote. The client repeats the call if no answer comes.
func (c *Client) QuoteCustomerSwap(ctx context.Context, body SwapQuoteRequest, opts ...CallOption) (out SwapQuote, err error) {
	k := call{method: "POST", path: "/customer-swap/quote", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// RestoreCustomerSwap: Restore a failed swap. Moves what came back of a failed swap
// from inSwap to the available balance of its customer. A repeated call moves what has
// come back since, and does nothing when there is nothing more. It works while swaps
// are switched off and while the customer or the organization is frozen. While nothing
// has come back it is refused with 409 REFUND_NOT_RECEIVED, and POST /transfers can
// advance the amount from a balance of your own.
//
// POST /customer-swap/{swapId}/restore. The client repeats the call if no answer comes.
func (c *Client) RestoreCustomerSwap(ctx context.Context, swapID string, opts ...CallOption) (out CustomerSwap, err error) {
	swapIDPart, err := segment("swapId", swapID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/customer-swap/" + swapIDPart + "/restore", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateDepositSwap: Let a customer pay in another token. Returns an address of a swap
// provider that the customer pays until expiresAt. What arrives is swapped and
// credited in USDC, and CUSTOMER_DEPOSIT with source DEPOSIT_SWAP and depositSwapId
// announces it, once for each deposit. The first call for a customer creates the
// customer. With an idempotencyKey the same request returns the same deposit swap as
// it is now, and the same key with other parameters is refused with 409
// IDEMPOTENCY_CONFLICT; customerEmail is no parameter. A key never expires. Without a
// key every call makes another address. Nothing of the customer's or of yours is held
// by this call, and no refusal of it affects money. After a 5xx or no answer, repeat
// with the same key.
//
// POST /deposit-swap. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateDepositSwap(ctx context.Context, body DepositSwapRequest, opts ...CallOption) (out DepositSwap, err error) {
	k := call{method: "POST", path: "/deposit-swap", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetDepositSwap: Read a deposit swap. One deposit swap. Its status informs and
// credits nothing: credit your user by the events of the deposits.
//
// GET /deposit-swap/{depositSwapId}. The client repeats the call if no answer comes.
func (c *Client) GetDepositSwap(ctx context.Context, depositSwapID string, opts ...CallOption) (out DepositSwap, err error) {
	depositSwapIDPart, err := segment("depositSwapId", depositSwapID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/deposit-swap/" + depositSwapIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListDepositSwapTokensParams are the parameters of ListDepositSwapTokens. Zero values are not sent.
type ListDepositSwapTokensParams struct {
	// Only on this chain, in any case of letters. It may be a chain without mints.
	Chain string
	// Only tokens with this text in the symbol or the contract, in any case of letters.
	Search string
}

// ListDepositSwapTokens: List the tokens of deposit swaps. What a customer can pay in,
// by chain and symbol: the tokens that a healthy swap provider takes for the USDC that
// this service credits. The list changes with the providers.
//
// GET /deposit-swap/tokens. The client repeats the call if no answer comes.
func (c *Client) ListDepositSwapTokens(ctx context.Context, p ListDepositSwapTokensParams, opts ...CallOption) (out DepositSwapTokens, err error) {
	k := call{method: "GET", path: "/deposit-swap/tokens", repeat: always}
	q := params{}
	q.text("chain", p.Chain)
	q.text("search", p.Search)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListDepositSwapsParams are the parameters of ListDepositSwaps. Zero values are not sent.
type ListDepositSwapsParams struct {
	// Only of this customer, compared byte for byte.
	CustomerID string
	// Only in this status.
	Status string
	// Only the one with this key.
	IdempotencyKey string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListDepositSwaps: List deposit swaps. The organization's deposit swaps.
// idempotencyKey selects the deposit swap with this key. With Accept: text/csv the
// call returns everything that the filters select as one table, as of one moment,
// without limit and cursor. If the table breaks off, the connection ends without the
// end of the answer. A cell that a spreadsheet would read as a formula has an
// apostrophe in front of it.
//
// GET /deposit-swaps. The client repeats the call if no answer comes.
func (c *Client) ListDepositSwaps(ctx context.Context, p ListDepositSwapsParams, opts ...CallOption) (out DepositSwapPage, err error) {
	k := call{method: "GET", path: "/deposit-swaps", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("status", p.Status)
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

// DepositSwaps: every item of ListDepositSwaps, over all pages.
func (c *Client) DepositSwaps(ctx context.Context, p ListDepositSwapsParams, opts ...CallOption) iter.Seq2[DepositSwap, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]DepositSwap, *string, error) {
		p.Cursor = cursor
		page, err := c.ListDepositSwaps(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListDepositSwapsCSV: everything that ListDepositSwaps has as one table, without
// limit and cursor. The table is read as it arrives; the caller closes it. A read
// error means that the table is not complete.
func (c *Client) ListDepositSwapsCSV(ctx context.Context, p ListDepositSwapsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/deposit-swaps", repeat: always}
	q := params{}
	q.text("customerId", p.CustomerID)
	q.text("status", p.Status)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// QuoteDepositSwap: Ask what a deposit swap would bring. Asks the swap providers and
// returns the best offer. It stores nothing and binds no one: the amount that arrives
// is swapped at the price of its time.
//
// POST /deposit-swap/quote. The client repeats the call if no answer comes.
func (c *Client) QuoteDepositSwap(ctx context.Context, body DepositSwapQuoteRequest, opts ...CallOption) (out DepositSwapQuote, err error) {
	k := call{method: "POST", path: "/deposit-swap/quote", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateOrganizationSwap: Swap your own money and pay it out. Holds the amount of the
// product, swaps it through the provider with the best offer, and pays what arrived to
// the whitelisted address, as a withdrawal of your organization. Above the threshold
// of your organization the swap is AWAITING_APPROVAL until people approve it on the
// pages: their approvals cover the withdrawal, too, within the terms of the swap and
// until payoutUntil. ORGANIZATION_SWAP_COMPLETED or ORGANIZATION_SWAP_FAILED announces
// the end to endpoints that name it. What comes back of a failed swap is in the
// product's balance again at once. A known key returns its swap as it is now, also
// while these swaps are switched off; with other parameters it is refused with 409
// IDEMPOTENCY_CONFLICT. Every other 4xx means that there is no swap with this key;
// 401, 403 IP_NOT_ALLOWED and SCOPE_MISSING, and 429 say nothing about earlier
// attempts. After a 5xx or no answer, repeat with the same key.
//
// POST /organization-swap. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateOrganizationSwap(ctx context.Context, body OrganizationSwapRequest, opts ...CallOption) (out OrganizationSwap, err error) {
	k := call{method: "POST", path: "/organization-swap", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetOrganizationSwap: Read a swap of your own money. One organization swap. The call
// works while these swaps are switched off, and can be polled instead of webhooks.
//
// GET /organization-swap/{swapId}. The client repeats the call if no answer comes.
func (c *Client) GetOrganizationSwap(ctx context.Context, swapID string, opts ...CallOption) (out OrganizationSwap, err error) {
	swapIDPart, err := segment("swapId", swapID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/organization-swap/" + swapIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListOrganizationSwapsParams are the parameters of ListOrganizationSwaps. Zero values are not sent.
type ListOrganizationSwapsParams struct {
	// Only of this product.
	Product string
	// Only in this status.
	Status string
	// Only the one with this key.
	IdempotencyKey string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListOrganizationSwaps: List swaps of your own money. The organization's own swaps.
// idempotencyKey selects the swap with this key. With Accept: text/csv the call
// returns everything that the filters select as one table, as of one moment, without
// limit and cursor. If the table breaks off, the connection ends without the end of
// the answer. A cell that a spreadsheet would read as a formula has an apostrophe in
// front of it.
//
// GET /organization-swaps. The client repeats the call if no answer comes.
func (c *Client) ListOrganizationSwaps(ctx context.Context, p ListOrganizationSwapsParams, opts ...CallOption) (out OrganizationSwapPage, err error) {
	k := call{method: "GET", path: "/organization-swaps", repeat: always}
	q := params{}
	q.text("product", p.Product)
	q.text("status", p.Status)
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

// OrganizationSwaps: every item of ListOrganizationSwaps, over all pages.
func (c *Client) OrganizationSwaps(ctx context.Context, p ListOrganizationSwapsParams, opts ...CallOption) iter.Seq2[OrganizationSwap, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]OrganizationSwap, *string, error) {
		p.Cursor = cursor
		page, err := c.ListOrganizationSwaps(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListOrganizationSwapsCSV: everything that ListOrganizationSwaps has as one table,
// without limit and cursor. The table is read as it arrives; the caller closes it. A
// read error means that the table is not complete.
func (c *Client) ListOrganizationSwapsCSV(ctx context.Context, p ListOrganizationSwapsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/organization-swaps", repeat: always}
	q := params{}
	q.text("product", p.Product)
	q.text("status", p.Status)
	q.text("idempotencyKey", p.IdempotencyKey)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// ListWhitelistedAddressesParams are the parameters of ListWhitelistedAddresses. Zero values are not sent.
type ListWhitelistedAddressesParams struct {
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListWhitelistedAddresses: List your whitelist. The addresses to which your
// organization's own money may be paid, including removed ones. Only the operator of
// this service adds and removes them.
//
// GET /whitelisted-addresses. The client repeats the call if no answer comes.
func (c *Client) ListWhitelistedAddresses(ctx context.Context, p ListWhitelistedAddressesParams, opts ...CallOption) (out WhitelistedAddressPage, err error) {
	k := call{method: "GET", path: "/whitelisted-addresses", repeat: always}
	q := params{}
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// WhitelistedAddresses: every item of ListWhitelistedAddresses, over all pages.
func (c *Client) WhitelistedAddresses(ctx context.Context, p ListWhitelistedAddressesParams, opts ...CallOption) iter.Seq2[WhitelistedAddress, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]WhitelistedAddress, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWhitelistedAddresses(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// QuoteOrganizationSwap: Ask what a swap of your own money would bring. Asks the swap
// providers and returns the best offer. It stores nothing and holds nothing: send
// minAmountOut with POST /organization-swap to be safe from a worse offer. No balance
// is looked at.
//
// POST /organization-swap/quote. The client repeats the call if no answer comes.
func (c *Client) QuoteOrganizationSwap(ctx context.Context, body OrganizationSwapQuoteRequest, opts ...CallOption) (out SwapQuote, err error) {
	k := call{method: "POST", path: "/organization-swap/quote", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ArchiveProduct: Archive a product. Takes the product off sale. It is not deleted: it
// is read and changed as before. An archived product stays as it is. Checkouts that
// exist are not affected.
//
// DELETE /products/{productId}. The client repeats the call if no answer comes.
func (c *Client) ArchiveProduct(ctx context.Context, productID string, opts ...CallOption) (out Product, err error) {
	productIDPart, err := segment("productId", productID)
	if err != nil {
		return out, err
	}
	k := call{method: "DELETE", path: "/products/" + productIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateProduct: Make a product. Makes a product that is for sale. It makes no link to
// a checkout, moves no money and sends no event. An imageUrl is fetched once by this
// call. With an idempotencyKey the same request returns the same product as it is now,
// and the same key with other parameters is refused with 409 IDEMPOTENCY_CONFLICT;
// metadata is no parameter. A key never expires. Without a key every call makes
// another product. After a 5xx or no answer, repeat with the same key.
//
// POST /products. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateProduct(ctx context.Context, body ProductRequest, opts ...CallOption) (out Product, err error) {
	k := call{method: "POST", path: "/products", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetProduct: Read a product. One product.
//
// GET /products/{productId}. The client repeats the call if no answer comes.
func (c *Client) GetProduct(ctx context.Context, productID string, opts ...CallOption) (out Product, err error) {
	productIDPart, err := segment("productId", productID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/products/" + productIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListProductsParams are the parameters of ListProducts. Zero values are not sent.
type ListProductsParams struct {
	// Only in this status.
	Status string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListProducts: List products. The organization's products, archived ones included.
// With Accept: text/csv the call returns everything that the filters select as one
// table, as of one moment, without limit and cursor. If the table breaks off, the
// connection ends without the end of the answer. A cell that a spreadsheet would read
// as a formula has an apostrophe in front of it.
//
// GET /products. The client repeats the call if no answer comes.
func (c *Client) ListProducts(ctx context.Context, p ListProductsParams, opts ...CallOption) (out ProductPage, err error) {
	k := call{method: "GET", path: "/products", repeat: always}
	q := params{}
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

// Products: every item of ListProducts, over all pages.
func (c *Client) Products(ctx context.Context, p ListProductsParams, opts ...CallOption) iter.Seq2[Product, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Product, *string, error) {
		p.Cursor = cursor
		page, err := c.ListProducts(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListProductsCSV: everything that ListProducts has as one table, without limit and
// cursor. The table is read as it arrives; the caller closes it. A read error means
// that the table is not complete.
func (c *Client) ListProductsCSV(ctx context.Context, p ListProductsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/products", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// UnarchiveProduct: Put an archived product on sale again. Makes the product ACTIVE.
// An active product stays as it is. Checkouts that exist are not affected, and no
// event is sent.
//
// POST /products/{productId}/unarchive. The client repeats the call if no answer comes.
func (c *Client) UnarchiveProduct(ctx context.Context, productID string, opts ...CallOption) (out Product, err error) {
	productIDPart, err := segment("productId", productID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/products/" + productIDPart + "/unarchive", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UpdateProduct: Change a product. Replaces the fields that the body names, of an
// active or an archived product. null removes a description, an image, a settlement
// mint or a URL, and the prices that the other priceType has no use for. The result is
// checked as a whole: to make a FIXED product OPEN, send priceType, price null,
// minPrice and maxPrice together. Checkouts that exist keep what they were made of.
//
// PATCH /products/{productId}. The client repeats the call if no answer comes.
func (c *Client) UpdateProduct(ctx context.Context, productID string, body ProductChange, opts ...CallOption) (out Product, err error) {
	productIDPart, err := segment("productId", productID)
	if err != nil {
		return out, err
	}
	k := call{method: "PATCH", path: "/products/" + productIDPart, repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreatePaymentLink: Make a payment link. Makes a public page that sells products:
// everyone who has its address buys there, and each purchase is a checkout with
// linkId. Its poster is at url followed by /poster.svg. It makes no checkout by
// itself, moves no money and sends no event. With an idempotencyKey the same request
// returns the same payment link as it is now, and the same key with other parameters
// is refused with 409 IDEMPOTENCY_CONFLICT. A key never expires. Without a key every
// call makes another one. After a 5xx or no answer, repeat with the same key.
//
// POST /payment-links. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreatePaymentLink(ctx context.Context, body LinkRequest, opts ...CallOption) (out PaymentLink, err error) {
	k := call{method: "POST", path: "/payment-links", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// EndPaymentLink: End a payment link. It sells nothing, for good: no call makes it
// active again, and no other payment link gets its address. An ended one stays as it
// is. Checkouts that exist are not affected.
//
// POST /payment-links/{linkId}/end. The client repeats the call if no answer comes.
func (c *Client) EndPaymentLink(ctx context.Context, linkID string, opts ...CallOption) (out PaymentLink, err error) {
	linkIDPart, err := segment("linkId", linkID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/payment-links/" + linkIDPart + "/end", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetPaymentLink: Read a payment link. One payment link, with the number of its sales.
//
// GET /payment-links/{linkId}. The client repeats the call if no answer comes.
func (c *Client) GetPaymentLink(ctx context.Context, linkID string, opts ...CallOption) (out PaymentLink, err error) {
	linkIDPart, err := segment("linkId", linkID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/payment-links/" + linkIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListPaymentLinksParams are the parameters of ListPaymentLinks. Zero values are not sent.
type ListPaymentLinksParams struct {
	// Only in this status.
	Status string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListPaymentLinks: List payment links. The organization's payment links, ended ones
// included. With Accept: text/csv the call returns everything that the filters select
// as one table, as of one moment, without limit and cursor. If the table breaks off,
// the connection ends without the end of the answer. A cell that a spreadsheet would
// read as a formula has an apostrophe in front of it.
//
// GET /payment-links. The client repeats the call if no answer comes.
func (c *Client) ListPaymentLinks(ctx context.Context, p ListPaymentLinksParams, opts ...CallOption) (out PaymentLinkPage, err error) {
	k := call{method: "GET", path: "/payment-links", repeat: always}
	q := params{}
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

// PaymentLinks: every item of ListPaymentLinks, over all pages.
func (c *Client) PaymentLinks(ctx context.Context, p ListPaymentLinksParams, opts ...CallOption) iter.Seq2[PaymentLink, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]PaymentLink, *string, error) {
		p.Cursor = cursor
		page, err := c.ListPaymentLinks(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListPaymentLinksCSV: everything that ListPaymentLinks has as one table, without
// limit and cursor. The table is read as it arrives; the caller closes it. A read
// error means that the table is not complete.
func (c *Client) ListPaymentLinksCSV(ctx context.Context, p ListPaymentLinksParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/payment-links", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// PausePaymentLink: Pause a payment link. It sells nothing until it is resumed. A
// paused one stays as it is. Checkouts that exist are not affected.
//
// POST /payment-links/{linkId}/pause. The client repeats the call if no answer comes.
func (c *Client) PausePaymentLink(ctx context.Context, linkID string, opts ...CallOption) (out PaymentLink, err error) {
	linkIDPart, err := segment("linkId", linkID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/payment-links/" + linkIDPart + "/pause", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ResumePaymentLink: Resume a payment link. It sells again. An active one stays as it
// is.
//
// POST /payment-links/{linkId}/resume. The client repeats the call if no answer comes.
func (c *Client) ResumePaymentLink(ctx context.Context, linkID string, opts ...CallOption) (out PaymentLink, err error) {
	linkIDPart, err := segment("linkId", linkID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/payment-links/" + linkIDPart + "/resume", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UpdatePaymentLink: Change a payment link. Replaces the fields that the body names,
// unless the payment link is ended. null removes them. Its address and what it sells
// never change. Checkouts that exist keep their terms.
//
// PATCH /payment-links/{linkId}. The client repeats the call if no answer comes.
func (c *Client) UpdatePaymentLink(ctx context.Context, linkID string, body LinkChange, opts ...CallOption) (out PaymentLink, err error) {
	linkIDPart, err := segment("linkId", linkID)
	if err != nil {
		return out, err
	}
	k := call{method: "PATCH", path: "/payment-links/" + linkIDPart, repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// AcceptCheckout: Accept what was paid. Completes a checkout with what is credited: it
// is enough, in time and in the right coin by your decision. Something has to be
// credited, and nothing flagged. It moves no money and sends CHECKOUT_COMPLETED. A
// completed checkout stays as it is.
//
// POST /checkouts/{checkoutId}/accept. The client repeats the call if no answer comes.
func (c *Client) AcceptCheckout(ctx context.Context, checkoutID string, body AcceptRequest, opts ...CallOption) (out Checkout, err error) {
	checkoutIDPart, err := segment("checkoutId", checkoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/checkouts/" + checkoutIDPart + "/accept", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// AssignUnmatchedPayment: Assign an unmatched payment. Makes it a payment of a
// checkout, by your decision. It counts there by its own moment and its own rate, as
// every payment does, and may complete the checkout, be late, or be too much. The
// checkout may be in any status. It moves no money. A payment never goes from one
// checkout to another; the same checkout again changes nothing.
//
// POST /unmatched-payments/{depositId}/assign. The client repeats the call if no answer comes.
func (c *Client) AssignUnmatchedPayment(ctx context.Context, depositID string, body AssignRequest, opts ...CallOption) (out UnmatchedPayment, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/unmatched-payments/" + depositIDPart + "/assign", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CancelCheckout: Cancel a checkout. Ends an OPEN checkout for which no payment was
// seen. A cancelled one stays as it is. What arrives later is credited to your product
// CHECKOUT and counts as late, and only a person accepts it.
//
// POST /checkouts/{checkoutId}/cancel. The client repeats the call if no answer comes.
func (c *Client) CancelCheckout(ctx context.Context, checkoutID string, opts ...CallOption) (out Checkout, err error) {
	checkoutIDPart, err := segment("checkoutId", checkoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/checkouts/" + checkoutIDPart + "/cancel", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateCheckout: Make a checkout. Makes a checkout of lineItems, of one productId, or
// of a name with a price. It keeps the names, prices and terms of the moment, moves no
// money and sends no event. Lead the payer to url, or open an option and show its
// address yourself. With an idempotencyKey the same request returns the same checkout
// as it is now, and the same key with other parameters is refused with 409
// IDEMPOTENCY_CONFLICT; customerEmail and metadata are no parameters. A key never
// expires. Without a key every call makes another checkout. After a 5xx or no answer,
// repeat with the same key: that also opens what openMintIds names and the first call
// did not open.
//
// POST /checkouts. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateCheckout(ctx context.Context, body CheckoutRequest, opts ...CallOption) (out Checkout, err error) {
	k := call{method: "POST", path: "/checkouts", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetCheckout: Read a checkout. One checkout with its opened options, its payments and
// its newest refund. While it is OPEN, an opened option whose rate is over, or is for
// another amount, gets a new one.
//
// GET /checkouts/{checkoutId}. The client repeats the call if no answer comes.
func (c *Client) GetCheckout(ctx context.Context, checkoutID string, opts ...CallOption) (out Checkout, err error) {
	checkoutIDPart, err := segment("checkoutId", checkoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/checkouts/" + checkoutIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetCheckoutReceipt: Read the receipt of a checkout. The receipt of a completed
// checkout: what was sold, what was paid for it, and in which transactions, signed
// with the key of webhooks. It names neither the customer nor the reference. The payer
// has the same file on the page. webhook.VerifyReceipt and coffer receipt verify check
// it without a call.
//
// GET /checkouts/{checkoutId}/receipt. The client repeats the call if no answer comes.
func (c *Client) GetCheckoutReceipt(ctx context.Context, checkoutID string, opts ...CallOption) (out ReceiptFile, err error) {
	checkoutIDPart, err := segment("checkoutId", checkoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/checkouts/" + checkoutIDPart + "/receipt", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetUnmatchedPayment: Read an unmatched payment. One payment that named no checkout,
// also once it is assigned.
//
// GET /unmatched-payments/{depositId}. The client repeats the call if no answer comes.
func (c *Client) GetUnmatchedPayment(ctx context.Context, depositID string, opts ...CallOption) (out UnmatchedPayment, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/unmatched-payments/" + depositIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCheckoutsParams are the parameters of ListCheckouts. Zero values are not sent.
type ListCheckoutsParams struct {
	// Only in this status.
	Status string
	// Only with this exception, which may be one of several.
	Exception string
	// Only of this payer, compared byte for byte.
	CustomerID string
	// Only with this reference of yours.
	Reference string
	// Only of this payment link.
	LinkID string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListCheckouts: List checkouts. The organization's checkouts. exception=UNDERPAID and
// the other exceptions list those that a person may have to look at. The table has no
// options, no payments and no refund. With Accept: text/csv the call returns
// everything that the filters select as one table, as of one moment, without limit and
// cursor. If the table breaks off, the connection ends without the end of the answer.
// A cell that a spreadsheet would read as a formula has an apostrophe in front of it.
//
// GET /checkouts. The client repeats the call if no answer comes.
func (c *Client) ListCheckouts(ctx context.Context, p ListCheckoutsParams, opts ...CallOption) (out CheckoutPage, err error) {
	k := call{method: "GET", path: "/checkouts", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.text("exception", p.Exception)
	q.text("customerId", p.CustomerID)
	q.text("reference", p.Reference)
	q.text("linkId", p.LinkID)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Checkouts: every item of ListCheckouts, over all pages.
func (c *Client) Checkouts(ctx context.Context, p ListCheckoutsParams, opts ...CallOption) iter.Seq2[Checkout, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Checkout, *string, error) {
		p.Cursor = cursor
		page, err := c.ListCheckouts(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListCheckoutsCSV: everything that ListCheckouts has as one table, without limit and
// cursor. The table is read as it arrives; the caller closes it. A read error means
// that the table is not complete.
func (c *Client) ListCheckoutsCSV(ctx context.Context, p ListCheckoutsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/checkouts", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.text("exception", p.Exception)
	q.text("customerId", p.CustomerID)
	q.text("reference", p.Reference)
	q.text("linkId", p.LinkID)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// ListUnmatchedPaymentsParams are the parameters of ListUnmatchedPayments. Zero values are not sent.
type ListUnmatchedPaymentsParams struct {
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListUnmatchedPayments: List unmatched payments. What arrived for your checkouts and
// belongs to none of them. It is credited to your product CHECKOUT all the same. An
// assigned one is a payment of its checkout and in this list no more. The table has no
// suggestions. With Accept: text/csv the call returns everything that the filters
// select as one table, as of one moment, without limit and cursor. If the table breaks
// off, the connection ends without the end of the answer. A cell that a spreadsheet
// would read as a formula has an apostrophe in front of it.
//
// GET /unmatched-payments. The client repeats the call if no answer comes.
func (c *Client) ListUnmatchedPayments(ctx context.Context, p ListUnmatchedPaymentsParams, opts ...CallOption) (out UnmatchedPaymentPage, err error) {
	k := call{method: "GET", path: "/unmatched-payments", repeat: always}
	q := params{}
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UnmatchedPayments: every item of ListUnmatchedPayments, over all pages.
func (c *Client) UnmatchedPayments(ctx context.Context, p ListUnmatchedPaymentsParams, opts ...CallOption) iter.Seq2[UnmatchedPayment, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]UnmatchedPayment, *string, error) {
		p.Cursor = cursor
		page, err := c.ListUnmatchedPayments(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListUnmatchedPaymentsCSV: everything that ListUnmatchedPayments has as one table,
// without limit and cursor. The table is read as it arrives; the caller closes it. A
// read error means that the table is not complete.
func (c *Client) ListUnmatchedPaymentsCSV(ctx context.Context, p ListUnmatchedPaymentsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/unmatched-payments", repeat: always}
	q := params{}
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// OpenCheckoutOption: Open an option of a checkout. Issues the address of this
// checkout for an accepted mint and quotes the amount. The address belongs to this
// checkout permanently; the EVM chains share one. An opened option keeps its address,
// and its rate is renewed if it is over. A shop that shows the address itself checks
// addressProof first.
//
// POST /checkouts/{checkoutId}/options. The client repeats the call if no answer comes.
func (c *Client) OpenCheckoutOption(ctx context.Context, checkoutID string, body OptionRequest, opts ...CallOption) (out PaymentOption, err error) {
	checkoutIDPart, err := segment("checkoutId", checkoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/checkouts/" + checkoutIDPart + "/options", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CancelRefund: Cancel a refund. Takes a refund back before a withdrawal pays it. Its
// amount is in the balance of your product CHECKOUT again, and its claimUrl is worth
// nothing. A cancelled one stays as it is. 409 INVALID_STATE says what became of the
// money of any other.
//
// POST /refunds/{refundId}/cancel. The client repeats the call if no answer comes.
func (c *Client) CancelRefund(ctx context.Context, refundID string, opts ...CallOption) (out Refund, err error) {
	refundIDPart, err := segment("refundId", refundID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/refunds/" + refundIDPart + "/cancel", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateRefund: Refund a checkout. Gives back what was credited for a checkout, in the
// coin and on the network of the payment. The amount leaves the balance of your
// product CHECKOUT at once and is owed to the payer. With toAddress it is paid there,
// with the checks and approvals of your own withdrawals but without the whitelist.
// Without it the answer has claimUrl once: the payer says there where it goes, within
// 30 days. An address that cannot be paid brings the refund back to AWAITING_ADDRESS,
// and problem says why. CHECKOUT_REFUNDED announces the paid refund to endpoints that
// name it. With an idempotencyKey the same request returns the same refund as it is
// now, without claimUrl, and the same key with other parameters is refused with 409
// IDEMPOTENCY_CONFLICT; reason is no parameter. A key never expires. Without a key
// every call makes another refund. A 4xx means that this request held and sent
// nothing. After a 5xx or no answer, repeat with the same key, and get a new claimUrl
// from POST /refunds/{refundId}/claim-key.
//
// POST /checkouts/{checkoutId}/refunds. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateRefund(ctx context.Context, checkoutID string, body RefundRequest, opts ...CallOption) (out Refund, err error) {
	checkoutIDPart, err := segment("checkoutId", checkoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/checkouts/" + checkoutIDPart + "/refunds", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetRefund: Read a refund. One refund of a checkout. claimUrl is null: the service
// does not know the key of it.
//
// GET /refunds/{refundId}. The client repeats the call if no answer comes.
func (c *Client) GetRefund(ctx context.Context, refundID string, opts ...CallOption) (out Refund, err error) {
	refundIDPart, err := segment("refundId", refundID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/refunds/" + refundIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListRefundsParams are the parameters of ListRefunds. Zero values are not sent.
type ListRefundsParams struct {
	// Only of this checkout.
	CheckoutID string
	// Only in this status.
	Status string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListRefunds: List refunds. The organization's refunds of checkouts. The table has no
// parts. With Accept: text/csv the call returns everything that the filters select as
// one table, as of one moment, without limit and cursor. If the table breaks off, the
// connection ends without the end of the answer. A cell that a spreadsheet would read
// as a formula has an apostrophe in front of it.
//
// GET /refunds. The client repeats the call if no answer comes.
func (c *Client) ListRefunds(ctx context.Context, p ListRefundsParams, opts ...CallOption) (out RefundPage, err error) {
	k := call{method: "GET", path: "/refunds", repeat: always}
	q := params{}
	q.text("checkoutId", p.CheckoutID)
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

// Refunds: every item of ListRefunds, over all pages.
func (c *Client) Refunds(ctx context.Context, p ListRefundsParams, opts ...CallOption) iter.Seq2[Refund, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Refund, *string, error) {
		p.Cursor = cursor
		page, err := c.ListRefunds(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListRefundsCSV: everything that ListRefunds has as one table, without limit and
// cursor. The table is read as it arrives; the caller closes it. A read error means
// that the table is not complete.
func (c *Client) ListRefundsCSV(ctx context.Context, p ListRefundsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/refunds", repeat: always}
	q := params{}
	q.text("checkoutId", p.CheckoutID)
	q.text("status", p.Status)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// RefundUnmatchedPayment: Refund an unmatched payment. Gives back a credited payment
// that named no checkout, as a whole, in the coin and on the network of the payment.
// It gets a checkout of its own, which is CANCELLED and has
// metadata.unmatchedDepositId, and the refund is one of this checkout in everything.
// With toAddress it is paid there, with the checks and approvals of your own
// withdrawals but without the whitelist. Without it the answer has claimUrl once. With
// an idempotencyKey the same request returns the same refund as it is now, without
// claimUrl, and the same key with other parameters is refused with 409
// IDEMPOTENCY_CONFLICT; reason is no parameter. A key never expires. A 4xx means that
// this request held and sent nothing; after 422 INSUFFICIENT_BALANCE the payment has
// its checkout, and the same request goes on. After a 5xx or no answer, repeat with
// the same key, and get a new claimUrl from POST /refunds/{refundId}/claim-key.
//
// POST /unmatched-payments/{depositId}/refund. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) RefundUnmatchedPayment(ctx context.Context, depositID string, body UnmatchedRefundRequest, opts ...CallOption) (out Refund, err error) {
	depositIDPart, err := segment("depositId", depositID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/unmatched-payments/" + depositIDPart + "/refund", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ReplaceClaimKey: Give a refund a new claim key. Makes a new claimUrl for a refund
// that is AWAITING_ADDRESS, and makes the one before worthless. Only this answer has
// it. If the answer is lost, call again.
//
// POST /refunds/{refundId}/claim-key. The client sends the call once.
func (c *Client) ReplaceClaimKey(ctx context.Context, refundID string, opts ...CallOption) (out Refund, err error) {
	refundIDPart, err := segment("refundId", refundID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/refunds/" + refundIDPart + "/claim-key", repeat: never}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CancelBatchPayout: Cancel a batch payout. Takes a batch back. Before its approval
// its sum is in the balance of BATCH_PAYOUT again. While its rows are being paid, it
// stays PROCESSING with stoppedAt: the service takes back what has no transaction yet
// and returns those amounts, and the batch ends with the others. A cancelled one stays
// as it is.
//
// POST /batch-payouts/{batchPayoutId}/cancel. The client repeats the call if no answer comes.
func (c *Client) CancelBatchPayout(ctx context.Context, batchPayoutID string, opts ...CallOption) (out BatchPayout, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/batch-payouts/" + batchPayoutIDPart + "/cancel", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateBatchPayoutParams are the parameters of CreateBatchPayout. Zero values are not sent.
type CreateBatchPayoutParams struct {
	// The mode of a list in CSV. In JSON it is a member of the body.
	Mode string
	// Whether amounts of a list in CSV are in whole tokens. In JSON it is a member of the
	// body.
	UseDecimal *bool
}

// CreateBatchPayout: Make a batch payout. Makes a draft of a list of payments out of
// the balance of your product BATCH_PAYOUT. Nothing is held and nothing is paid before
// its submission. The list is JSON, or CSV with Content-Type: text/csv, whose first
// line names the columns reference, customerId, mintId, toAddress, memo and amount, in
// any order, of which mintId, toAddress and amount are needed; commas, semicolons or
// tabs separate them. A list of CSV has mode and useDecimal in the query and its key
// in the header Idempotency-Key. A list has at most 5,000 rows and 2,000,000 bytes.
// problems names everything that is wrong with a row, in one answer; nothing is
// guessed. STRICT refuses to be submitted with such a row, and PARTIAL leaves it out.
// Correct the list and send it as a new batch: a draft never changes. With an
// idempotencyKey the same list returns the same batch as it is now, and the same key
// with another one is refused with 409 IDEMPOTENCY_CONFLICT. A key never expires.
// Without a key every call makes another draft. A 4xx means that this request made
// none.
//
// POST /batch-payouts. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) CreateBatchPayout(ctx context.Context, body BatchPayoutRequest, p CreateBatchPayoutParams, opts ...CallOption) (out BatchPayoutReport, err error) {
	k := call{method: "POST", path: "/batch-payouts", repeat: withKey, body: body, key: body.IdempotencyKey}
	q := params{}
	q.text("mode", p.Mode)
	q.flag("useDecimal", p.UseDecimal)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetBatchPayout: Read a batch payout. One batch payout, with the problems of its rows
// and the warnings about them. Ask again to follow one that is being paid: counts says
// how far it is.
//
// GET /batch-payouts/{batchPayoutId}. The client repeats the call if no answer comes.
func (c *Client) GetBatchPayout(ctx context.Context, batchPayoutID string, opts ...CallOption) (out BatchPayoutReport, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/batch-payouts/" + batchPayoutIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetBatchPayoutProof: Prove a row of a batch payout. Proves that people approved a
// row, for its payee: who has the proof computes the leaf of the row, with path the
// root, and with the header the contentHash, without asking the service. It says
// nothing about any other row.
//
// GET /batch-payouts/{batchPayoutId}/items/{row}/proof. The client repeats the call if no answer comes.
func (c *Client) GetBatchPayoutProof(ctx context.Context, batchPayoutID string, row string, opts ...CallOption) (out BatchPayoutProof, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	rowPart, err := segment("row", row)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/batch-payouts/" + batchPayoutIDPart + "/items/" + rowPart + "/proof", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListBatchPayoutItemsParams are the parameters of ListBatchPayoutItems. Zero values are not sent.
type ListBatchPayoutItemsParams struct {
	// Only rows in this status.
	Status string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListBatchPayoutItems: List the rows of a batch payout. The rows of a batch payout in
// the order of the list, with what became of each. With .csv behind the path, the call
// returns all of them as a table: the columns of the list in its order, and the
// results behind them.
//
// GET /batch-payouts/{batchPayoutId}/items. The client repeats the call if no answer comes.
func (c *Client) ListBatchPayoutItems(ctx context.Context, batchPayoutID string, p ListBatchPayoutItemsParams, opts ...CallOption) (out BatchPayoutItemPage, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/batch-payouts/" + batchPayoutIDPart + "/items", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// BatchPayoutItems: every item of ListBatchPayoutItems, over all pages.
func (c *Client) BatchPayoutItems(ctx context.Context, batchPayoutID string, p ListBatchPayoutItemsParams, opts ...CallOption) iter.Seq2[BatchPayoutItem, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]BatchPayoutItem, *string, error) {
		p.Cursor = cursor
		page, err := c.ListBatchPayoutItems(ctx, batchPayoutID, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListBatchPayoutsParams are the parameters of ListBatchPayouts. Zero values are not sent.
type ListBatchPayoutsParams struct {
	// Only in this status.
	Status string
	// Only items created after this time; the time itself is excluded.
	CreatedAfter time.Time
	// Only items created before this time; the time itself is excluded.
	CreatedBefore time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListBatchPayouts: List batch payouts. The organization's batch payouts, without
// their rows. The table has no totals; items.csv has the rows of one. With Accept:
// text/csv the call returns everything that the filters select as one table, as of one
// moment, without limit and cursor. If the table breaks off, the connection ends
// without the end of the answer. A cell that a spreadsheet would read as a formula has
// an apostrophe in front of it.
//
// GET /batch-payouts. The client repeats the call if no answer comes.
func (c *Client) ListBatchPayouts(ctx context.Context, p ListBatchPayoutsParams, opts ...CallOption) (out BatchPayoutPage, err error) {
	k := call{method: "GET", path: "/batch-payouts", repeat: always}
	q := params{}
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

// BatchPayouts: every item of ListBatchPayouts, over all pages.
func (c *Client) BatchPayouts(ctx context.Context, p ListBatchPayoutsParams, opts ...CallOption) iter.Seq2[BatchPayout, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]BatchPayout, *string, error) {
		p.Cursor = cursor
		page, err := c.ListBatchPayouts(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListBatchPayoutsCSV: everything that ListBatchPayouts has as one table, without
// limit and cursor. The table is read as it arrives; the caller closes it. A read
// error means that the table is not complete.
func (c *Client) ListBatchPayoutsCSV(ctx context.Context, p ListBatchPayoutsParams, opts ...CallOption) (out io.ReadCloser, err error) {
	k := call{method: "GET", path: "/batch-payouts", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.time("createdAfter", p.CreatedAfter)
	q.time("createdBefore", p.CreatedBefore)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	return c.stream(ctx, k, opts)
}

// PauseBatchPayout: Pause a batch payout. Stops the payment of further rows: none gets
// a payment, and no payment without a transaction gets one. What is on its way to the
// chain goes on. A paused batch stays as it is.
//
// POST /batch-payouts/{batchPayoutId}/pause. The client repeats the call if no answer comes.
func (c *Client) PauseBatchPayout(ctx context.Context, batchPayoutID string, opts ...CallOption) (out BatchPayout, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/batch-payouts/" + batchPayoutIDPart + "/pause", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ResumeBatchPayout: Resume a batch payout. Goes on with the payment of a paused
// batch. One that is not paused stays as it is.
//
// POST /batch-payouts/{batchPayoutId}/resume. The client repeats the call if no answer comes.
func (c *Client) ResumeBatchPayout(ctx context.Context, batchPayoutID string, opts ...CallOption) (out BatchPayout, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/batch-payouts/" + batchPayoutIDPart + "/resume", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// RetryBatchPayout: Make a batch payout of unpaid rows. Makes a draft of the rows of
// an ended batch that were not paid, with approvals of its own: nothing is paid again
// under the old one. retryOf names the ended batch. With an idempotencyKey the same
// call returns the same draft.
//
// POST /batch-payouts/{batchPayoutId}/retry. The client repeats the call if no answer comes and it has an IdempotencyKey; without one it sends the call once.
func (c *Client) RetryBatchPayout(ctx context.Context, batchPayoutID string, body BatchPayoutRetry, opts ...CallOption) (out BatchPayout, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/batch-payouts/" + batchPayoutIDPart + "/retry", repeat: withKey, body: body, key: body.IdempotencyKey}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// SubmitBatchPayout: Submit a batch payout. Submits a draft with the contentHash that
// you saw. Its whole sum leaves the balance of your product BATCH_PAYOUT and is held,
// or nothing is held and 422 INSUFFICIENT_BALANCE has in details.shortfall what is
// missing of each mint. Then the service checks and screens each row, and the batch
// waits for the approval of people, never of its maker. A batch that was submitted
// before is returned as it is. 409 APPROVAL_REFUSED: contentHash is not that of the
// batch. 409 DUPLICATE_BATCH: the same list was submitted before, as existingId. Name
// it in acknowledgeDuplicateOf if it is meant to be paid once more.
//
// POST /batch-payouts/{batchPayoutId}/submit. The client repeats the call if no answer comes.
func (c *Client) SubmitBatchPayout(ctx context.Context, batchPayoutID string, body BatchPayoutSubmission, opts ...CallOption) (out BatchPayout, err error) {
	batchPayoutIDPart, err := segment("batchPayoutId", batchPayoutID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/batch-payouts/" + batchPayoutIDPart + "/submit", repeat: always, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetCurrentBill: Read what the next invoice would have. The fees of the current
// month, and of months before that no invoice has, with their provisional sum. GET
// /billing/fees?month= lists them.
//
// GET /billing/current. The client repeats the call if no answer comes.
func (c *Client) GetCurrentBill(ctx context.Context, opts ...CallOption) (out CurrentBill, err error) {
	k := call{method: "GET", path: "/billing/current", repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetInvoice: Read an invoice. One invoice. With .pdf, .html or .csv behind the
// invoiceId, the call returns the document as that file: the first two print it, and
// the table has every fee with its transaction, price and time. A file always has the
// same bytes.
//
// GET /billing/invoices/{invoiceId}. The client repeats the call if no answer comes.
func (c *Client) GetInvoice(ctx context.Context, invoiceID string, opts ...CallOption) (out Invoice, err error) {
	invoiceIDPart, err := segment("invoiceId", invoiceID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/billing/invoices/" + invoiceIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListCreditNotesParams are the parameters of ListCreditNotes. Zero values are not sent.
type ListCreditNotesParams struct {
	// Only of this invoice.
	InvoiceID string
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListCreditNotes: List your credit notes. The credit notes of the organization. Each
// gives back a part of one invoice.
//
// GET /billing/credit-notes. The client repeats the call if no answer comes.
func (c *Client) ListCreditNotes(ctx context.Context, p ListCreditNotesParams, opts ...CallOption) (out CreditNotePage, err error) {
	k := call{method: "GET", path: "/billing/credit-notes", repeat: always}
	q := params{}
	q.text("invoiceId", p.InvoiceID)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreditNotes: every item of ListCreditNotes, over all pages.
func (c *Client) CreditNotes(ctx context.Context, p ListCreditNotesParams, opts ...CallOption) iter.Seq2[CreditNote, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]CreditNote, *string, error) {
		p.Cursor = cursor
		page, err := c.ListCreditNotes(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListInvoicesParams are the parameters of ListInvoices. Zero values are not sent.
type ListInvoicesParams struct {
	// Only in this status.
	Status string
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListInvoices: List your invoices. The invoices of the organization, one for each
// month with at least a cent of fees.
//
// GET /billing/invoices. The client repeats the call if no answer comes.
func (c *Client) ListInvoices(ctx context.Context, p ListInvoicesParams, opts ...CallOption) (out InvoicePage, err error) {
	k := call{method: "GET", path: "/billing/invoices", repeat: always}
	q := params{}
	q.text("status", p.Status)
	q.text("order", p.Order)
	q.number("limit", int64(p.Limit))
	q.text("cursor", p.Cursor)
	k.query = url.Values(q)
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// Invoices: every item of ListInvoices, over all pages.
func (c *Client) Invoices(ctx context.Context, p ListInvoicesParams, opts ...CallOption) iter.Seq2[Invoice, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Invoice, *string, error) {
		p.Cursor = cursor
		page, err := c.ListInvoices(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// CreateApiKey: Make an additional API key. Makes a key in addition to the main key.
// Only this answer shows its value. The call is available once the operator of this
// service switches additionalApiKeys on for your organization. A READ key reads; a
// NO_MONEY_OUT key also makes changes that send no money out; a FULL key makes every
// call except those about API keys. An organization can have 20 keys that have not
// expired. If the answer is lost, GET /api-keys shows the key: delete or roll it.
//
// POST /api-keys. The client sends the call once.
func (c *Client) CreateApiKey(ctx context.Context, body ScopedKeyRequest, opts ...CallOption) (out ScopedKeyWithValue, err error) {
	k := call{method: "POST", path: "/api-keys", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// DeleteApiKey: Delete an additional API key. Every request that starts after this
// answer refuses each value of the key. The main key cannot be deleted: 409.
//
// DELETE /api-keys/{apiKeyId}. The client repeats the call if no answer comes.
func (c *Client) DeleteApiKey(ctx context.Context, aPIKeyID string, opts ...CallOption) error {
	aPIKeyIDPart, err := segment("apiKeyId", aPIKeyID)
	if err != nil {
		return err
	}
	k := call{method: "DELETE", path: "/api-keys/" + aPIKeyIDPart, repeat: always}
	return c.do(ctx, k, nil, opts)
}

// ListApiKeysParams are the parameters of ListApiKeys. Zero values are not sent.
type ListApiKeysParams struct {
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListApiKeys: List API keys. The main key and every additional key that is not
// deleted, without the values.
//
// GET /api-keys. The client repeats the call if no answer comes.
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

// ApiKeys: every item of ListApiKeys, over all pages.
func (c *Client) ApiKeys(ctx context.Context, p ListApiKeysParams, opts ...CallOption) iter.Seq2[ScopedKey, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]ScopedKey, *string, error) {
		p.Cursor = cursor
		page, err := c.ListApiKeys(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// RollApiKey: Replace an API key. Makes a new value of the key. Only this answer shows
// it. Every request that starts after this answer refuses the former value, unless
// overlapSeconds gives it more time. An overlap of the main key needs
// additionalApiKeys, and so does every roll of another key. Of two simultaneous rolls
// one succeeds and the other is refused with 409. If the answer is lost, roll again;
// with the main key you can do that with the former value during its overlap. Without
// an overlap, ask the operator of this service to roll the main key. The body may be
// left out.
//
// POST /api-keys/{apiKeyId}/roll. The client sends the call once.
func (c *Client) RollApiKey(ctx context.Context, aPIKeyID string, body KeyRoll, opts ...CallOption) (out ScopedKeyWithValue, err error) {
	aPIKeyIDPart, err := segment("apiKeyId", aPIKeyID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/api-keys/" + aPIKeyIDPart + "/roll", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// CreateWebhookEndpoint: Register a webhook endpoint. The service sends events to this
// URL from now on, signed with a secret that only this answer shows. Without events,
// the endpoint receives the seven events of the interface; it receives an extension
// event only if it names it. With filters, it receives only events of that customer or
// of that chain. An organization can have 10 endpoints.
//
// POST /webhook-endpoints. The client sends the call once.
func (c *Client) CreateWebhookEndpoint(ctx context.Context, body EndpointRequest, opts ...CallOption) (out EndpointWithSecret, err error) {
	k := call{method: "POST", path: "/webhook-endpoints", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// DeleteWebhookEndpoint: Delete a webhook endpoint. The service sends nothing more to
// the endpoint. GET /events still has the events that were not delivered.
//
// DELETE /webhook-endpoints/{endpointId}. The client repeats the call if no answer comes.
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
// GET /webhook-endpoints/{endpointId}. The client repeats the call if no answer comes.
func (c *Client) GetWebhookEndpoint(ctx context.Context, endpointID string, opts ...CallOption) (out Endpoint, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/webhook-endpoints/" + endpointIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// GetWebhookJob: Read the progress of a resend or recovery. The job is COMPLETED when
// it has queued everything; pending, delivered and failed count the outcomes since.
//
// GET /webhook-jobs/{jobId}. The client repeats the call if no answer comes.
func (c *Client) GetWebhookJob(ctx context.Context, jobID string, opts ...CallOption) (out WebhookJob, err error) {
	jobIDPart, err := segment("jobId", jobID)
	if err != nil {
		return out, err
	}
	k := call{method: "GET", path: "/webhook-jobs/" + jobIDPart, repeat: always}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// ListEventsParams are the parameters of ListEvents. Zero values are not sent.
type ListEventsParams struct {
	// The last sequence that you have. The default 0 starts at the first.
	After int64
	// Only events of these types, separated by commas.
	Types string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same types. It takes precedence over
	// after.
	Cursor string
}

// ListEvents: Read the event feed. The bodies of webhooks, byte for byte, in the order
// of sequence, from after on, for 90 days. Without types the feed has every event and
// the sequences have no gap, so a consumer can prove that it missed nothing. A first
// sequence above after + 1 means that older events have left the feed. Continue with
// the last sequence that you have seen.
//
// GET /events. The client repeats the call if no answer comes.
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

// Events: every item of ListEvents, over all pages.
func (c *Client) Events(ctx context.Context, p ListEventsParams, opts ...CallOption) iter.Seq2[Envelope, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Envelope, *string, error) {
		p.Cursor = cursor
		page, err := c.ListEvents(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWebhookDeliveriesParams are the parameters of ListWebhookDeliveries. Zero values are not sent.
type ListWebhookDeliveriesParams struct {
	// Only attempts with this outcome.
	Status string
	// Only attempts to send this event.
	EventID string
	// Only attempts to send events of this type.
	Type string
	// Only attempts of this time or later.
	Since time.Time
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListWebhookDeliveries: Read the delivery attempts of a webhook endpoint. Every
// attempt with its request, without the signature, and the answer: the status and the
// first 1024 bytes. The service keeps attempts for 30 days.
//
// GET /webhook-endpoints/{endpointId}/deliveries. The client repeats the call if no answer comes.
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

// WebhookDeliveries: every item of ListWebhookDeliveries, over all pages.
func (c *Client) WebhookDeliveries(ctx context.Context, endpointID string, p ListWebhookDeliveriesParams, opts ...CallOption) iter.Seq2[DeliveryAttempt, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]DeliveryAttempt, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWebhookDeliveries(ctx, endpointID, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWebhookEndpointsParams are the parameters of ListWebhookEndpoints. Zero values are not sent.
type ListWebhookEndpointsParams struct {
	// The order by time of creation: desc, the default, is newest first; asc is oldest
	// first.
	Order string
	// The number of items on a page; the default is 50.
	Limit int
	// The nextCursor of the previous page, with the same filters and order.
	Cursor string
}

// ListWebhookEndpoints: List webhook endpoints. The webhook endpoints of this
// organization, without their secrets.
//
// GET /webhook-endpoints. The client repeats the call if no answer comes.
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

// WebhookEndpoints: every item of ListWebhookEndpoints, over all pages.
func (c *Client) WebhookEndpoints(ctx context.Context, p ListWebhookEndpointsParams, opts ...CallOption) iter.Seq2[Endpoint, error] {
	return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]Endpoint, *string, error) {
		p.Cursor = cursor
		page, err := c.ListWebhookEndpoints(ctx, p, opts...)
		return page.Data, page.NextCursor, err
	})
}

// ListWebhookKeys: Read the keys that sign webhooks. The public keys of the v1a
// signatures, newest first. A signature by any of them is valid.
//
// GET /.well-known/webhook-keys. The client repeats the call if no answer comes.
func (c *Client) ListWebhookKeys(ctx context.Context, opts ...CallOption) (out WebhookKeys, err error) {
	k := call{method: "GET", path: "/.well-known/webhook-keys", repeat: always, open: true}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// RecoverWebhookEndpoint: Send a webhook endpoint the events that it missed. Queues
// the events since that time again, in their order. With onlyFailed, the default, it
// queues only events that were never delivered to the endpoint, also because it was
// disabled or did not exist; otherwise it queues all events again. The present events
// and filters of the endpoint decide which events it receives. The job runs after the
// answer. The same request within ten minutes returns the same job, and an endpoint
// has one running recovery at a time.
//
// POST /webhook-endpoints/{endpointId}/recover. The client sends the call once.
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
// again: to the named endpoint, or to every endpoint that receives the event. The same
// request within five seconds returns the same job, and an event that is already
// queued is not sent twice.
//
// POST /events/{eventId}/resend. The client sends the call once.
func (c *Client) ResendEvent(ctx context.Context, eventID string, body ResendRequest, opts ...CallOption) (out WebhookJob, err error) {
	eventIDPart, err := segment("eventId", eventID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/events/" + eventIDPart + "/resend", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// RotateWebhookSecret: Give a webhook endpoint a new secret. Only this answer shows
// the new secret. From now on every message has a v1 signature by it and, for 24
// hours, one by the former secret: replace the secret at your receiver in this time.
// If the answer is lost, call again: each secret signs for 24 hours after its own
// replacement, at most 4 at once.
//
// POST /webhook-endpoints/{endpointId}/rotate-secret. The client sends the call once.
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
// of that type to this endpoint alone, even while it is paused or disabled, and
// returns the answer if it comes within 15 seconds. The sample has environment TEST
// and no sequence, and describes nothing that happened. The service does not repeat it
// and does not count it for or against the endpoint; the log of attempts has it.
//
// POST /webhook-endpoints/{endpointId}/test. The client sends the call once.
func (c *Client) TestWebhookEndpoint(ctx context.Context, endpointID string, body TestRequest, opts ...CallOption) (out DeliveryAttempt, err error) {
	endpointIDPart, err := segment("endpointId", endpointID)
	if err != nil {
		return out, err
	}
	k := call{method: "POST", path: "/webhook-endpoints/" + endpointIDPart + "/test", repeat: never, body: body}
	err = c.do(ctx, k, &out, opts)
	return out, err
}

// UpdateWebhookEndpoint: Change a webhook endpoint. Changes the fields that the body
// has. filters are replaced as a whole, and {} removes them. While the endpoint is
// PAUSED, its deliveries wait. With ENABLED, which also enables a disabled endpoint,
// and with another url, all waiting deliveries are due at once, in the order of each
// resource and with the whole schedule. New events and filters apply to changes from
// now on; waiting deliveries are still sent. The service queued nothing for the
// endpoint while it was disabled: ask for those events with recover.
//
// PATCH /webhook-endpoints/{endpointId}. The client repeats the call if no answer comes.
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
// GET /openapi.json. The client repeats the call if no answer comes.
func (c *Client) GetOpenAPI(ctx context.Context, opts ...CallOption) (out json.RawMessage, err error) {
	k := call{method: "GET", path: "/openapi.json", repeat: always, open: true}
	err = c.do(ctx, k, &out, opts)
	return out, err
}
