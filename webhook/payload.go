package webhook

import (
	"bytes"
	"encoding/json"
)

// Type names the kind of an event. Types are added without notice.
type Type string

// Events of the interface. An endpoint that names none receives exactly these.
const (
	// CustomerDeposit has a Deposit: it is credited, or held with IsFlagged.
	CustomerDeposit Type = "CUSTOMER_DEPOSIT"
	// CustomerDepositApproved has a Deposit with its Resolution: it is credited now.
	CustomerDepositApproved Type = "CUSTOMER_DEPOSIT_APPROVED"
	// CustomerDepositRejected has a Deposit with its Resolution: its return is final on the chain.
	CustomerDepositRejected Type = "CUSTOMER_DEPOSIT_REJECTED"
	// CustomerDepositRedirected has a Deposit with its Resolution: its redirection is final on the
	// chain.
	CustomerDepositRedirected Type = "CUSTOMER_DEPOSIT_REDIRECTED"
	// CustomerWithdrawAwaitingApproval has a Withdrawal that is held until a person decides.
	CustomerWithdrawAwaitingApproval Type = "CUSTOMER_WITHDRAW_AWAITING_APPROVAL"
	// CustomerWithdraw has a Withdrawal that was broadcast; its TxHash is set.
	CustomerWithdraw Type = "CUSTOMER_WITHDRAW"
	// CustomerSwapFailed has a SwapFailed.
	CustomerSwapFailed Type = "CUSTOMER_SWAP_FAILED"
)

// Extension events. Only an endpoint that names them receives them.
const (
	// CustomerDepositReversed has a Deposit with its Reversal: finality itself broke, and the
	// credit is reversed.
	CustomerDepositReversed Type = "CUSTOMER_DEPOSIT_REVERSED"
	// CustomerWithdrawBlocked has a Withdrawal that risk screening refused.
	CustomerWithdrawBlocked Type = "CUSTOMER_WITHDRAW_BLOCKED"
	// CustomerWithdrawApproved has a Withdrawal that a person approved.
	CustomerWithdrawApproved Type = "CUSTOMER_WITHDRAW_APPROVED"
	// CustomerWithdrawRejected has a Withdrawal that a person removed.
	CustomerWithdrawRejected Type = "CUSTOMER_WITHDRAW_REJECTED"
	// CustomerWithdrawCancelled has a Withdrawal that was taken back before its approval.
	CustomerWithdrawCancelled Type = "CUSTOMER_WITHDRAW_CANCELLED"
	// CustomerWithdrawFailed has a Withdrawal that will never be paid; the money is available
	// again.
	CustomerWithdrawFailed Type = "CUSTOMER_WITHDRAW_FAILED"
	// CustomerWithdrawCompleted has a Withdrawal that is final on the chain.
	CustomerWithdrawCompleted Type = "CUSTOMER_WITHDRAW_COMPLETED"

	// CustomerDepositSeen has a Deposit in a block that is not final. It is no money yet, and may
	// never be.
	CustomerDepositSeen Type = "CUSTOMER_DEPOSIT_SEEN"

	// OrganizationDeposit has a Deposit that is credited to a product of the organization.
	OrganizationDeposit Type = "ORGANIZATION_DEPOSIT"
	// OrganizationDepositReversed has a Deposit with its Reversal: finality itself broke, and the
	// credit is reversed.
	OrganizationDepositReversed Type = "ORGANIZATION_DEPOSIT_REVERSED"

	// OrganizationWithdraw has a Withdrawal of the organization's own money that was broadcast; its
	// TxHash is set.
	OrganizationWithdraw Type = "ORGANIZATION_WITHDRAW"
	// OrganizationWithdrawAwaitingApproval has a Withdrawal that is held until a person decides.
	OrganizationWithdrawAwaitingApproval Type = "ORGANIZATION_WITHDRAW_AWAITING_APPROVAL"
	// OrganizationWithdrawBlocked has a Withdrawal that risk screening refused.
	OrganizationWithdrawBlocked Type = "ORGANIZATION_WITHDRAW_BLOCKED"
	// OrganizationWithdrawApproved has a Withdrawal that a person approved.
	OrganizationWithdrawApproved Type = "ORGANIZATION_WITHDRAW_APPROVED"
	// OrganizationWithdrawRejected has a Withdrawal that a person removed.
	OrganizationWithdrawRejected Type = "ORGANIZATION_WITHDRAW_REJECTED"
	// OrganizationWithdrawCancelled has a Withdrawal that was taken back before its approval.
	OrganizationWithdrawCancelled Type = "ORGANIZATION_WITHDRAW_CANCELLED"
	// OrganizationWithdrawFailed has a Withdrawal that will never be paid; the money is available
	// again.
	OrganizationWithdrawFailed Type = "ORGANIZATION_WITHDRAW_FAILED"
	// OrganizationWithdrawCompleted has a Withdrawal that is final on the chain.
	OrganizationWithdrawCompleted Type = "ORGANIZATION_WITHDRAW_COMPLETED"

	// TransferCompleted has a Transfer. It is done; a transfer has no other state.
	TransferCompleted Type = "TRANSFER_COMPLETED"
)

// Envelope is the body of every webhook.
type Envelope struct {
	ID             string `json:"id"` // evt_…; the same over all attempts: a receiver drops what it has seen
	Type           Type   `json:"type"`
	Timestamp      Time   `json:"timestamp"`      // when the change happened, not when it was sent
	APIVersion     string `json:"apiVersion"`     // the date of the version that Data follows
	Environment    string `json:"environment"`    // LIVE or TEST
	OrganizationID string `json:"organizationId"` // org_…
	// Sequence is 1, 2, … within the organization, without gaps. A requested sample has none.
	Sequence int64           `json:"sequence,omitempty"`
	Data     json.RawMessage `json:"data"` // decode by Type
}

// Values of Environment. TEST is everything that moves no money of the main networks: a test
// network, the local world, a requested sample.
const (
	Live = "LIVE"
	Test = "TEST"
)

// Mint is a token on a chain, as it is embedded in other objects.
type Mint struct {
	ID              int     `json:"id"`
	Symbol          string  `json:"symbol"`
	Name            string  `json:"name"`
	Chain           string  `json:"chain"`
	Decimals        int     `json:"decimals"`
	ContractAddress *string `json:"contractAddress"` // null for a chain's native coin
}

// Deposit is a transfer to one of the organization's deposit addresses: of a customer, or of a
// product of its own. It has one of CustomerID and Product.
//
// Credit a user on CUSTOMER_DEPOSIT with IsFlagged false, or on CUSTOMER_DEPOSIT_APPROVED; never on
// both. IsFlagged stays true after an approval: it is history, and Status is the current state in
// the ledger.
//
// CUSTOMER_DEPOSIT_REVERSED is sent at most once for a deposit, to endpoints that name it, and only
// if the finality of its chain itself broke. The credit is reversed, see Reversal. Debit the user,
// and expect the customer to be frozen.
//
// CUSTOMER_DEPOSIT_SEEN is sent at most once for a deposit, before any other event of it, to
// endpoints that name it. Show it, but never credit it. No event is sent if a fork removes the
// deposit again; a request with DepositID shows its Status.
//
// ORGANIZATION_DEPOSIT and ORGANIZATION_DEPOSIT_REVERSED announce deposits to a product. No event
// of the interface does.
type Deposit struct {
	// DepositID is always the same for the same transfer, and so is the id of its event.
	DepositID     string  `json:"depositId"`
	CustomerID    *string `json:"customerId"`        // null for the organization's own, which has a Product
	Product       *string `json:"product,omitempty"` // CUSTODIAL, CHECKOUT, BATCH_PAYOUT; absent from a customer's
	CustomerEmail *string `json:"customerEmail"`
	MintID        *int    `json:"mintId"` // null when the token is not in the catalogue
	Mint          *Mint   `json:"mint"`   // likewise
	Chain         string  `json:"chain"`
	Amount        string  `json:"amount"`        // atomic units
	AmountDecimal *string `json:"amountDecimal"` // whole tokens; null when the decimals are not known
	USDValue      *string `json:"usdValue"`      // for display
	Address       string  `json:"address"`
	// Memo is the text that the payer wrote into the transaction, so do not trust it. It is null if
	// there is none or it was not read yet.
	Memo *string `json:"memo"`

	FromAddresses List[string] `json:"fromAddresses"`
	TxHash        string       `json:"txHash"`
	LogIndex      *int64       `json:"logIndex"` // null for a transfer of the native coin
	// OutputIndex is the position among the transaction's outputs; null on chains without outputs.
	OutputIndex           *int64 `json:"outputIndex"`
	BlockNumber           *int64 `json:"blockNumber"`
	Confirmations         int64  `json:"confirmations"`
	ConfirmationsRequired int64  `json:"confirmationsRequired"`

	Source      string `json:"source"`      // EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL, CHECKOUT
	Status      string `json:"status"`      // what the books say
	ChainStatus string `json:"chainStatus"` // what the chain says: PENDING, INCLUDED, FINALIZED, REORGED

	IsFlagged   bool      `json:"isFlagged"`
	RiskOfFunds *string   `json:"riskOfFunds"` // the severity that flagged it
	Screening   Screening `json:"screening"`
	// FreshScreening is null unless the deposit is flagged and its sender was screened again. It
	// decides nothing.
	FreshScreening     *FreshScreening         `json:"freshScreening"`
	FlagReason         *FlagReason             `json:"flagReason"`
	Resolution         *Resolution             `json:"resolution"`
	ResolutionAttempts List[ResolutionAttempt] `json:"resolutionAttempts"`
	// Present only for what is flagged: how safe it is to send it back to its sender.
	// NONE, MULTIPLE_INPUTS, CONTRACT, KNOWN_EXCHANGE, SWAP_SOLVER.
	ReturnAddressRisk *string `json:"returnAddressRisk,omitempty"`

	Swap          *SwapSummary `json:"swap"` // the customer swap that this credit completes
	DepositSwapID *string      `json:"depositSwapId"`
	SweepTxHash   *string      `json:"sweepTxHash"`

	// These two are present only for a token that is not in the catalogue.
	ContractAddress   *string `json:"contractAddress,omitempty"`
	UnsupportedReason *string `json:"unsupportedReason,omitempty"`

	// Present only for what is REVERSED.
	Reversal *Reversal `json:"reversal,omitempty"`

	DetectedAt  *Time `json:"detectedAt"`
	ConfirmedAt *Time `json:"confirmedAt"`
	CreditedAt  *Time `json:"creditedAt"`
	CreatedAt   Time  `json:"createdAt"`
}

// Reversal is how a credit was taken back because the chain's finality itself
// broke and the transfer is not on it any more. TakenBack and Loss are the
// deposit's amount together.
type Reversal struct {
	ReversedAt Time   `json:"reversedAt"`
	TakenBack  string `json:"takenBack"` // atomic units, taken from the balance that was credited
	Loss       string `json:"loss"`      // atomic units that were not there any more
}

// Screening is what risk screening said about where a deposit came from.
type Screening struct {
	Status     string  `json:"status"` // NOT_CONFIGURED, PENDING, PASSED, …
	Provider   *string `json:"provider"`
	Severity   *string `json:"severity"`
	Score      *int    `json:"score"`
	ScreenedAt *Time   `json:"screenedAt"`
	Reference  *string `json:"reference"`
}

// FreshScreening is what screening says of a flagged deposit's sender since it was
// flagged. It stands beside Screening and FlagReason, and nothing follows from it.
type FreshScreening struct {
	Severity   string       `json:"severity"` // NONE to SEVERE, or UNKNOWN
	Score      *int         `json:"score"`
	Entity     *string      `json:"entity"`
	Categories List[string] `json:"categories"`
	Provider   string       `json:"provider"`
	Reference  *string      `json:"reference"`
	ScreenedAt Time         `json:"screenedAt"`
}

// FlagReason is why a deposit is held.
type FlagReason struct {
	Code       string       `json:"code"`
	Score      *int         `json:"score"`
	Severity   *string      `json:"severity"`
	Entity     *string      `json:"entity"`
	Categories List[string] `json:"categories"`
	Provider   *string      `json:"provider"`
	// Sanctioned says that the sender itself, and not a party that it dealt with, is on a
	// sanctions list. To return blocked property may itself be forbidden.
	Sanctioned bool `json:"sanctioned,omitempty"`
}

// Resolution is how a held deposit was decided, and the transfer that carried it out.
type Resolution struct {
	Decision   string  `json:"decision"` // APPROVED, REJECTED, REDIRECTED
	Reason     *string `json:"reason"`
	Reference  *string `json:"reference"`
	Note       *string `json:"note"`
	DecidedAt  Time    `json:"decidedAt"`
	DecidedBy  Actor   `json:"decidedBy"`
	ToAddress  *string `json:"toAddress"`
	TxHash     *string `json:"txHash"`
	Amount     *string `json:"amount"`
	NetworkFee *string `json:"networkFee"`
}

// Actor is who decided.
type Actor struct {
	Type string  `json:"type"` // USER, API_KEY, OPERATOR, SYSTEM
	ID   string  `json:"id"`
	Name *string `json:"name"`
}

// ResolutionAttempt is an attempt that failed before anything reached the chain.
type ResolutionAttempt struct {
	At      Time   `json:"at"`
	Action  string `json:"action"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// The types of withdrawals.
const (
	OfCustomer     = "CUSTOMER"
	OfOrganization = "ORGANIZATION"
)

// Withdrawal is a payment to an address: from a customer's balance, or from one of the
// organization's own to an address on its list. It has one of CustomerID and Product,
// and Type says which.
type Withdrawal struct {
	WithdrawalID   string  `json:"withdrawalId"`
	Type           string  `json:"type"` // CUSTOMER, ORGANIZATION
	IdempotencyKey *string `json:"idempotencyKey"`
	CustomerID     *string `json:"customerId"`        // null for the organization's own, which has a Product
	Product        *string `json:"product,omitempty"` // CUSTODIAL, CHECKOUT, BATCH_PAYOUT; absent from a customer's
	// WhitelistedAddressID is the entry of the organization's list that is paid; absent
	// from a customer's.
	WhitelistedAddressID *string `json:"whitelistedAddressId,omitempty"`

	MintID int  `json:"mintId"`
	Mint   Mint `json:"mint"`
	// Amount is in atomic units. The customer pays it, and the destination receives it unless
	// FeeMode is DEDUCTED. For the organization's own money, the destination receives it.
	Amount        string  `json:"amount"`
	AmountDecimal string  `json:"amountDecimal"`
	USDValue      *string `json:"usdValue"` // for display
	ToAddress     string  `json:"toAddress"`
	Memo          *string `json:"memo"`

	// NetworkFee is in atomic units of NetworkFeeMintID. It is null until it is final, or decided
	// with DEDUCTED. For the organization's own native coin, it is taken from the same balance in
	// addition to Amount, and decided at the request.
	NetworkFee       *string `json:"networkFee"`
	NetworkFeeMintID *int    `json:"networkFeeMintId"` // the chain's native coin
	// FeeMode is ORGANIZATION or DEDUCTED. With DEDUCTED the destination receives Amount less
	// NetworkFee.
	FeeMode       string  `json:"feeMode"`
	MaxNetworkFee *string `json:"maxNetworkFee,omitempty"` // what the caller allowed the network to take
	// CustomerCharge is what the customer pays of what the payment costs, beside Amount.
	// Absent where the organization charged nothing when it was requested.
	CustomerCharge *CustomerCharge `json:"customerCharge,omitempty"`

	Status           string              `json:"status"`      // what the books say
	ChainStatus      string              `json:"chainStatus"` // what the chain says
	RequiresApproval bool                `json:"requiresApproval"`
	ApprovalReasons  List[string]        `json:"approvalReasons"`
	Approvals        Approvals           `json:"approvals"`
	Screening        WithdrawalScreening `json:"screening"`

	TxHash *string `json:"txHash"`
	// ReplacedTxHashes are earlier versions in the same slot: at most one of all versions pays.
	ReplacedTxHashes List[string] `json:"replacedTxHashes"`
	ExplorerURL      *string      `json:"explorerUrl"`
	FailureReason    *string      `json:"failureReason"`
	RejectedReason   *string      `json:"rejectedReason"`

	// What the caller gave along, to find its own record before it has stored our id.
	Reference *string  `json:"reference"`
	Metadata  Metadata `json:"metadata"`
	// TravelRule is what the caller said of the parties, as it said it. Events do not carry it.
	TravelRule json.RawMessage `json:"travelRule,omitempty"`

	CreatedAt   Time  `json:"createdAt"`
	ApprovedAt  *Time `json:"approvedAt"`
	BroadcastAt *Time `json:"broadcastAt"`
	CompletedAt *Time `json:"completedAt"`
}

// CustomerCharge is what a customer pays of what a withdrawal costs the organization, by the
// setting and the prices of its request. Amounts are atomic units of MintID.
type CustomerCharge struct {
	Costs  string `json:"costs"`  // RENT, RENT_AND_FAILURES
	MintID int    `json:"mintId"` // the mint that is withdrawn
	// RentMax is held in addition to the amount for an account of the payee. The unused part is
	// given back.
	RentMax string `json:"rentMax"`
	// FailureMax is the most that is taken out of the hold if the payment fails because of its
	// payee; null: nothing.
	FailureMax *string `json:"failureMax"`
	Charged    *string `json:"charged"` // what was taken; null while the payment has not ended
}

// Approvals is how far the approval of a withdrawal has come.
type Approvals struct {
	Required  int   `json:"required"`
	Received  int   `json:"received"`
	ExpiresAt *Time `json:"expiresAt"`
}

// WithdrawalScreening is what risk screening said about a destination.
type WithdrawalScreening struct {
	Status   string  `json:"status"`
	Severity *string `json:"severity"`
	Provider *string `json:"provider"`
}

// Transfer moves an amount between two balances of one organization, at once and
// without a chain. It is there or it is not: it has no states.
type Transfer struct {
	TransferID     string `json:"transferId"`
	IdempotencyKey string `json:"idempotencyKey"`
	MintID         int    `json:"mintId"`
	Mint           Mint   `json:"mint"`
	Amount         string `json:"amount"` // atomic units
	AmountDecimal  string `json:"amountDecimal"`
	From           Party  `json:"from"`
	To             Party  `json:"to"`

	// What the caller gave along.
	Reference *string  `json:"reference"`
	Metadata  Metadata `json:"metadata"`

	CreatedAt Time `json:"createdAt"`
}

// Party is one side of a transfer: a customer, or a product of the organization.
type Party struct {
	CustomerID *string `json:"customerId,omitempty"`
	Product    *string `json:"product,omitempty"` // CUSTODIAL, CHECKOUT, BATCH_PAYOUT
}

// SwapSummary is a customer swap as events carry it. It has neither a status nor a
// failure reason, in contrast to the object of the API: the event's type says both.
type SwapSummary struct {
	CustomerSwapID     string  `json:"customerSwapId"`
	IdempotencyKey     string  `json:"idempotencyKey"`
	FromMint           Mint    `json:"fromMint"`
	ToMint             Mint    `json:"toMint"`
	AmountIn           string  `json:"amountIn"`
	EstimatedAmountOut string  `json:"estimatedAmountOut"`
	AmountOut          *string `json:"amountOut"`
	OriginTxHash       *string `json:"originTxHash"`
	DestinationTxHash  *string `json:"destinationTxHash"`
	CreatedAt          Time    `json:"createdAt"`
}

// SwapFailed is the data of CUSTOMER_SWAP_FAILED.
type SwapFailed struct {
	CustomerID     string      `json:"customerId"`
	Swap           SwapSummary `json:"swap"`
	RefundedAmount *string     `json:"refundedAmount"` // null when nothing had come back yet
}

// List is a slice that prints as [] and never as null.
type List[T any] []T

// MarshalJSON prints the list.
func (l List[T]) MarshalJSON() ([]byte, error) {
	if len(l) == 0 {
		return []byte("[]"), nil
	}
	return plain([]T(l))
}

// Metadata is the caller's own keys and values. It prints as {} and never as null.
type Metadata map[string]string

// MarshalJSON prints the keys in their order.
func (m Metadata) MarshalJSON() ([]byte, error) {
	if len(m) == 0 {
		return []byte("{}"), nil
	}
	return plain(map[string]string(m))
}

// plain prints v as it is: &, < and > are no danger in a webhook, and a person reads it.
func plain(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n")), nil
}
