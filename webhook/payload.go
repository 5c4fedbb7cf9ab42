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

	// CustomerSwapRefunded has a SwapFailed: a refund of a failed swap arrived after its
	// CUSTOMER_SWAP_FAILED.
	CustomerSwapRefunded Type = "CUSTOMER_SWAP_REFUNDED"
	// CustomerSwapDelayed has a SwapDelayed: a swap takes long. It is not failed.
	CustomerSwapDelayed Type = "CUSTOMER_SWAP_DELAYED"

	// OrganizationSwapCompleted has an OrganizationSwap whose output is paid to the whitelisted address.
	OrganizationSwapCompleted Type = "ORGANIZATION_SWAP_COMPLETED"
	// OrganizationSwapFailed has an OrganizationSwap that ended without that payment.
	OrganizationSwapFailed Type = "ORGANIZATION_SWAP_FAILED"

	// TransferCompleted has a Transfer. It is done; a transfer has no other state.
	TransferCompleted Type = "TRANSFER_COMPLETED"

	// These have a Checkout. CheckoutException tells of something unusual that changes no status.
	CheckoutProcessing Type = "CHECKOUT_PROCESSING"
	CheckoutCompleted  Type = "CHECKOUT_COMPLETED"
	CheckoutExpired    Type = "CHECKOUT_EXPIRED"
	CheckoutException  Type = "CHECKOUT_EXCEPTION"
	// CheckoutRefunded tells that one of its refunds was paid.
	CheckoutRefunded Type = "CHECKOUT_REFUNDED"

	// InvoiceIssued has an Invoice of a month.
	InvoiceIssued Type = "INVOICE_ISSUED"
	// CreditNoteIssued has a CreditNote, which gives back a part of an invoice.
	CreditNoteIssued Type = "CREDIT_NOTE_ISSUED"

	// These have a BatchPayout. BatchPayoutCompleted is also sent for one of which some rows were not paid: its Status
	// says so.
	BatchPayoutAwaitingApproval Type = "BATCH_PAYOUT_AWAITING_APPROVAL"
	BatchPayoutProcessing       Type = "BATCH_PAYOUT_PROCESSING"
	BatchPayoutCompleted        Type = "BATCH_PAYOUT_COMPLETED"
	BatchPayoutRejected         Type = "BATCH_PAYOUT_REJECTED"
	// BatchPayoutFailed tells that no row is paid: the batch is INVALID, or FAILED.
	BatchPayoutFailed Type = "BATCH_PAYOUT_FAILED"
)

// Envelope is the body of every webhook.
type Envelope struct {
	// evt_…; the same over all attempts: a receiver drops what it has seen
	ID   string `json:"id" doc:"The id of the event, which is the same in all attempts." example:"evt_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Type Type   `json:"type" doc:"The type of the event. Types may be added without notice." example:"CUSTOMER_DEPOSIT"`
	// when the change happened, not when it was sent
	Timestamp Time `json:"timestamp" doc:"When the change happened."`
	// the date of the version that Data follows
	APIVersion  string `json:"apiVersion"`
	Environment string `json:"environment" doc:"LIVE, or TEST for everything that moves no money of a main network." enum:"LIVE,TEST"`
	// org_…
	OrganizationID string `json:"organizationId"`
	// Sequence is 1, 2, … within the organization, without gaps. A requested sample has none.
	Sequence int64 `json:"sequence,omitempty" doc:"1, 2, … within your organization, without gaps. Only requested samples do not have it."`
	// decode by Type
	Data json.RawMessage `json:"data" doc:"The object of the event: a deposit, a withdrawal, a transfer, a swap, a checkout, a batch payout, an invoice or a credit note."`
}

// Values of Environment. TEST is everything that moves no money of the main networks: a test
// network, the local world, a requested sample.
const (
	Live = "LIVE"
	Test = "TEST"
)

// Mint is a token on a chain, as it is embedded in other objects.
type Mint struct {
	ID       int    `json:"id"`
	Symbol   string `json:"symbol"`
	Name     string `json:"name" doc:"The name, for people." example:"USD Coin"`
	Chain    string `json:"chain"`
	Decimals int    `json:"decimals"`
	// null for a chain's native coin
	ContractAddress *string `json:"contractAddress"`
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
	DepositID  string  `json:"depositId"`
	CustomerID *string `json:"customerId" doc:"The customer whose address received the deposit; null for a deposit of your own, which has a product." example:"user_42"`
	// CUSTODIAL, CHECKOUT, BATCH_PAYOUT; absent from a customer's
	Product       *string `json:"product,omitempty" doc:"The product of your own whose address received the deposit. Only a deposit of your own has it."`
	CustomerEmail *string `json:"customerEmail" doc:"The customer's e-mail, where one is known."`
	MintID        *int    `json:"mintId" doc:"The mint; null for a token that the catalogue does not list." example:"1"`
	// null when the token is not in the catalogue
	Mint  *Mint  `json:"mint"`
	Chain string `json:"chain"`
	// atomic units
	Amount string `json:"amount"`
	// whole tokens; null when the decimals are not known
	AmountDecimal *string `json:"amountDecimal"`
	// for display
	USDValue *string `json:"usdValue"`
	Address  string  `json:"address"`
	// Memo is the text that the payer wrote into the transaction, so do not trust it. It is null if
	// there is none or it was not read yet.
	Memo *string `json:"memo" doc:"The memo that the payer wrote into the transaction; null without a memo, before the service has read it, and on every chain but SOLANA. It is text of a stranger and proves nothing about the payer: escape it where you show it, and credit no customer by it. Several memos of a transaction are separated by line breaks. The service replaces control characters by U+FFFD."`

	FromAddresses List[string] `json:"fromAddresses" doc:"The senders. Empty when one of the senders is not known, or when there are more than 20."`
	TxHash        string       `json:"txHash" doc:"The hash of the transaction."`
	LogIndex      *int64       `json:"logIndex" doc:"The index of the token's log in its block; null for a transfer of the native coin. A reorganization can change it."`
	// OutputIndex is the position among the transaction's outputs; null on chains without outputs.
	OutputIndex           *int64 `json:"outputIndex" doc:"The index of the output in the transaction, from 0. Only BITCOIN has it, where two outputs to one customer are two deposits; null on every other chain."`
	BlockNumber           *int64 `json:"blockNumber" doc:"The number of the block. A reorganization can change it."`
	Confirmations         int64  `json:"confirmations" doc:"The number of confirmations."`
	ConfirmationsRequired int64  `json:"confirmationsRequired"`

	Source      string `json:"source" doc:"EXTERNAL, CUSTOMER_SWAP, DEPOSIT_SWAP, INTERNAL or CHECKOUT. Sources may be added without notice." example:"EXTERNAL"`
	Status      string `json:"status" doc:"The status in the service's books."`
	ChainStatus string `json:"chainStatus" doc:"The status on the chain." enum:"PENDING,INCLUDED,FINALIZED,REORGED"`

	IsFlagged   bool      `json:"isFlagged" doc:"Whether risk screening flagged the deposit. It stays true after an approval: status says whether the deposit is credited."`
	RiskOfFunds *string   `json:"riskOfFunds" doc:"The severity that flagged the deposit." example:"SEVERE"`
	Screening   Screening `json:"screening"`
	// FreshScreening is null unless the deposit is flagged and its sender was screened again. It
	// decides nothing.
	FreshScreening     *FreshScreening         `json:"freshScreening" doc:"The latest answer of screening about the sender between the flag and the decision; null if screening was not asked again. It decides nothing, and no decision waits for it."`
	FlagReason         *FlagReason             `json:"flagReason" doc:"Why the deposit is flagged; null unless it is."`
	Resolution         *Resolution             `json:"resolution" doc:"How it was resolved; null until it is."`
	ResolutionAttempts List[ResolutionAttempt] `json:"resolutionAttempts" doc:"Attempts that failed before anything reached the chain."`
	// Present only for what is flagged: how safe it is to send it back to its sender.
	// NONE, MULTIPLE_INPUTS, CONTRACT, KNOWN_EXCHANGE, SWAP_SOLVER.
	ReturnAddressRisk *string `json:"returnAddressRisk,omitempty" doc:"Only of a flagged deposit: the risks of sending it back to its sender. With MULTIPLE_INPUTS there is no single sender, and with SWAP_SOLVER the sender is a swap provider: the organization can approve such a deposit and not reject it. The other values are for the person who decides." enum:"NONE,MULTIPLE_INPUTS,CONTRACT,KNOWN_EXCHANGE,SWAP_SOLVER"`

	Swap          *SwapSummary `json:"swap" doc:"The customer swap that this credit completes, or null."`
	DepositSwapID *string      `json:"depositSwapId" doc:"The deposit swap that this credit completes, or null."`
	// Present only for what arrived at a checkout's own address.
	CheckoutID  *string `json:"checkoutId,omitempty" doc:"The checkout at whose own address it arrived. Only such a deposit has it: where checkouts share an address, the checkout names its payments."`
	SweepTxHash *string `json:"sweepTxHash" doc:"The hash of the sweep to the treasury; null until the sweep."`

	// These two are present only for a token that is not in the catalogue.
	ContractAddress   *string `json:"contractAddress,omitempty"`
	UnsupportedReason *string `json:"unsupportedReason,omitempty" doc:"Why the deposit is not credited. Only an UNSUPPORTED deposit has it. If very many transfers use tokens that the catalogue does not list, the service records only the first ones."`

	// Present only for what is REVERSED.
	Reversal *Reversal `json:"reversal,omitempty" doc:"How the service reversed the credit. Only a REVERSED deposit has it: the chain replaced final blocks and does not have the transfer any more."`

	DetectedAt  *Time `json:"detectedAt" doc:"When the service first saw it."`
	ConfirmedAt *Time `json:"confirmedAt" doc:"When its block became final."`
	CreditedAt  *Time `json:"creditedAt" doc:"When it was credited."`
	CreatedAt   Time  `json:"createdAt"`
}

// Reversal is how a credit was taken back because the chain's finality itself
// broke and the transfer is not on it any more. TakenBack and Loss are the
// deposit's amount together.
type Reversal struct {
	ReversedAt Time   `json:"reversedAt" doc:"When the credit was reversed."`
	TakenBack  string `json:"takenBack" doc:"The amount that was taken from the customer's balance, in atomic units." form:"amount"`
	Loss       string `json:"loss" doc:"The amount that was not in the customer's balance any more, in atomic units. Together with takenBack it is the amount of the deposit." form:"amount"`
}

// Screening is what risk screening said about where a deposit came from.
type Screening struct {
	Status     string  `json:"status" doc:"NOT_CONFIGURED, PENDING or PASSED, for example." example:"PASSED"`
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
	Code       string       `json:"code" doc:"A code for programs."`
	Score      *int         `json:"score"`
	Severity   *string      `json:"severity"`
	Entity     *string      `json:"entity"`
	Categories List[string] `json:"categories"`
	Provider   *string      `json:"provider"`
	// Sanctioned says that the sender itself, and not a party that it dealt with, is on a
	// sanctions list. To return blocked property may itself be forbidden.
	Sanctioned bool `json:"sanctioned,omitempty" doc:"Present and true when the sender itself is on a sanctions list. The law may forbid you to send blocked property back: ask before you reject."`
}

// Resolution is how a held deposit was decided, and the transfer that carried it out.
type Resolution struct {
	Decision   string  `json:"decision" doc:"APPROVED, REJECTED or REDIRECTED."`
	Reason     *string `json:"reason"`
	Reference  *string `json:"reference"`
	Note       *string `json:"note" doc:"The note of the person who decided."`
	DecidedAt  Time    `json:"decidedAt"`
	DecidedBy  Actor   `json:"decidedBy"`
	ToAddress  *string `json:"toAddress"`
	TxHash     *string `json:"txHash"`
	Amount     *string `json:"amount"`
	NetworkFee *string `json:"networkFee"`
}

// Actor is who decided.
type Actor struct {
	// USER, API_KEY, OPERATOR, SYSTEM
	Type string  `json:"type"`
	ID   string  `json:"id" doc:"The id of the actor: of the key for an additional API key, of the organization for the main key."`
	Name *string `json:"name" doc:"The name of the actor."`
}

// ResolutionAttempt is an attempt that failed before anything reached the chain.
type ResolutionAttempt struct {
	At      Time   `json:"at"`
	Action  string `json:"action" doc:"The decision that was attempted."`
	Reason  string `json:"reason"`
	Message string `json:"message" doc:"A sentence for a person."`
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
	WithdrawalID string `json:"withdrawalId"`
	// CUSTOMER, ORGANIZATION
	Type           string  `json:"type" doc:"Whose balance pays: a customer's, or the organization's own by request of one of its people."`
	IdempotencyKey *string `json:"idempotencyKey"`
	CustomerID     *string `json:"customerId" doc:"Your own id of the customer; null for your organization's own withdrawal, which has a product." bounds:"minLength=1,maxLength=128" example:"user_42"`
	// CUSTODIAL, CHECKOUT, BATCH_PAYOUT; absent from a customer's
	Product *string `json:"product,omitempty" doc:"The product whose balance pays. A customer's withdrawal does not have it."`
	// WhitelistedAddressID is the entry of the organization's list that is paid; absent
	// from a customer's.
	WhitelistedAddressID *string `json:"whitelistedAddressId,omitempty"`
	OrganizationSwapID   *string `json:"organizationSwapId" doc:"The swap of the organization's own money whose output it pays, or null." example:"os_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	RefundID             *string `json:"refundId" doc:"The refund of a checkout that it pays, or null." example:"ref_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	BatchPayoutID        *string `json:"batchPayoutId" doc:"The batch payout of which it pays a row, or null." example:"bp_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Row                  *int    `json:"row" doc:"The row of the batch payout that it pays, from 1, or null." bounds:"minimum=1" example:"7"`

	MintID int  `json:"mintId"`
	Mint   Mint `json:"mint"`
	// Amount is in atomic units. The customer pays it, and the destination receives it unless
	// FeeMode is DEDUCTED. For the organization's own money, the destination receives it.
	Amount        string `json:"amount"`
	AmountDecimal string `json:"amountDecimal"`
	// for display
	USDValue  *string `json:"usdValue"`
	ToAddress string  `json:"toAddress"`
	Memo      *string `json:"memo"`

	// NetworkFee is in atomic units of NetworkFeeMintID. It is null until it is final, or decided
	// with DEDUCTED. For the organization's own native coin, it is taken from the same balance in
	// addition to Amount, and decided at the request.
	NetworkFee *string `json:"networkFee"`
	// the chain's native coin
	NetworkFeeMintID *int `json:"networkFeeMintId"`
	// FeeMode is ORGANIZATION or DEDUCTED. With DEDUCTED the destination receives Amount less
	// NetworkFee.
	FeeMode string `json:"feeMode"`
	// what the caller allowed the network to take
	MaxNetworkFee *string `json:"maxNetworkFee,omitempty"`
	// CustomerCharge is what the customer pays of what the payment costs, beside Amount.
	// Absent where the organization charged nothing when it was requested.
	CustomerCharge *CustomerCharge `json:"customerCharge,omitempty"`

	Status           string              `json:"status" doc:"The status in the service's books."`
	ChainStatus      string              `json:"chainStatus" doc:"The status on the chain." enum:"NONE,PENDING,INCLUDED,FINALIZED,REVERTED,DROPPED,REPLACED"`
	RequiresApproval bool                `json:"requiresApproval" doc:"Whether a person has to approve it, or had to."`
	ApprovalReasons  List[string]        `json:"approvalReasons"`
	Approvals        Approvals           `json:"approvals" doc:"How many of the needed approvals it has."`
	Screening        WithdrawalScreening `json:"screening"`
	// ApprovalFingerprint is absent for a withdrawal that people need not sign.
	ApprovalFingerprint string `json:"approvalFingerprint,omitempty" doc:"The first digits of what people sign by the organization's rule on approvals. The page, the mail to the approvers and the signer's log have the same ones. Absent for a withdrawal that needs no signature." example:"3f2a9c0d1e4b5a687f90"`

	TxHash *string `json:"txHash"`
	// ReplacedTxHashes are earlier versions in the same slot: at most one of all versions pays.
	ReplacedTxHashes List[string] `json:"replacedTxHashes" doc:"Earlier transactions for the same payment. At most one of all of them pays."`
	ExplorerURL      *string      `json:"explorerUrl" doc:"A page that shows the transaction, if an explorer is configured."`
	FailureReason    *string      `json:"failureReason" doc:"Why it failed: REVERTED, CANCELLED, or POLICY_LIMIT (the signer's limits were lowered below it). The money is back in the balance." example:"REVERTED"`
	RejectedReason   *string      `json:"rejectedReason" doc:"The note of the person who removed it."`

	// What the caller gave along, to find its own record before it has stored our id.
	Reference *string  `json:"reference"`
	Metadata  Metadata `json:"metadata"`
	// TravelRule is what the caller said of the parties, as it said it. Events do not carry it.
	TravelRule json.RawMessage `json:"travelRule,omitempty"`

	CreatedAt   Time  `json:"createdAt"`
	ApprovedAt  *Time `json:"approvedAt" doc:"When it was approved."`
	BroadcastAt *Time `json:"broadcastAt" doc:"When it was first sent to the network."`
	CompletedAt *Time `json:"completedAt" doc:"When its outcome became final."`
}

// CustomerCharge is what a customer pays of what a withdrawal costs the organization, by the
// setting and the prices of its request. Amounts are atomic units of MintID.
type CustomerCharge struct {
	Costs  string `json:"costs" doc:"Which costs: the rent of an account that is created for the payee, or the rent and the network fee of a payment that failed because of its payee." enum:"RENT,RENT_AND_FAILURES"`
	MintID int    `json:"mintId" doc:"The mint of these amounts, which is the withdrawn one."`
	// RentMax is held in addition to the amount for an account of the payee. The unused part is
	// given back.
	RentMax string `json:"rentMax" doc:"What is held in addition to the amount for an account of the payee. The customer gets back what the payment did not cost." form:"amount"`
	// FailureMax is the most that is taken out of the hold if the payment fails because of its
	// payee; null: nothing.
	FailureMax *string `json:"failureMax" doc:"The most that the service takes out of the held amount when the payment fails because of its payee; null when it takes nothing." form:"amount"`
	Charged    *string `json:"charged" doc:"What was taken from the customer; null without a charge, and until the payment has ended." form:"amount"`
}

// Approvals is how far the approval of a withdrawal has come.
type Approvals struct {
	Required  int   `json:"required" doc:"How many approvals it needs."`
	Received  int   `json:"received" doc:"How many it has."`
	ExpiresAt *Time `json:"expiresAt"`
}

// WithdrawalScreening is what risk screening said about a destination.
type WithdrawalScreening struct {
	Status   string  `json:"status" doc:"PASSED, BLOCKED, UNAVAILABLE when too few providers answered, or NOT_CONFIGURED when no provider is configured." example:"NOT_CONFIGURED"`
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
	CustomerSwapID string `json:"customerSwapId" doc:"The customer swap."`
	// "" for a swap that was restored from the signer's journal, which has only the key's hash
	IdempotencyKey     string  `json:"idempotencyKey" doc:"The key of the request that made the swap; empty if the swap was restored from the signer's journal, which has only a hash of the key." example:"swap-7781"`
	FromMint           Mint    `json:"fromMint" doc:"The mint that the customer gave."`
	ToMint             Mint    `json:"toMint" doc:"The mint that the customer received."`
	AmountIn           string  `json:"amountIn" doc:"The amount in atomic units of the mint that was given." form:"amount"`
	EstimatedAmountOut string  `json:"estimatedAmountOut" doc:"The estimate, in atomic units of the mint that was received." form:"amount"`
	AmountOut          *string `json:"amountOut" doc:"The amount that arrived; null until it has." form:"amount"`
	OriginTxHash       *string `json:"originTxHash" doc:"The hash of the transaction that paid the swap provider."`
	DestinationTxHash  *string `json:"destinationTxHash" doc:"The hash of the transaction that delivered."`
	CreatedAt          Time    `json:"createdAt"`
}

// SwapFailed is the data of CUSTOMER_SWAP_FAILED and of CUSTOMER_SWAP_REFUNDED.
type SwapFailed struct {
	CustomerID     string      `json:"customerId"`
	Swap           SwapSummary `json:"swap" doc:"The swap."`
	RefundedAmount *string     `json:"refundedAmount" doc:"The amount that had come back when the event was sent, in atomic units of the mint that was given; null when nothing had." form:"amount"`
}

// SwapDelayed is the data of CUSTOMER_SWAP_DELAYED.
type SwapDelayed struct {
	CustomerID string      `json:"customerId"`
	Swap       SwapSummary `json:"swap" doc:"The swap."`
}

// CustomerSwap is a customer swap as the API answers it. Events carry the SwapSummary.
//
// Status COMPLETED and FAILED are final. A refund of a failed swap moves on RefundStatus alone, and
// what came back belongs to the customer's balance only once it is restored.
type CustomerSwap struct {
	SwapID         string `json:"swapId"`
	IdempotencyKey string `json:"idempotencyKey" doc:"The key of the request that made the swap; empty if the swap was restored from the signer's journal, which has only a hash of the key." example:"swap-7781"`
	CustomerID     string `json:"customerId"`
	FromMintID     int    `json:"fromMintId"`
	ToMintID       int    `json:"toMintId"`

	AmountIn           string `json:"amountIn"`
	EstimatedAmountOut string `json:"estimatedAmountOut"`
	MinAmountOut       string `json:"minAmountOut"`
	// what a final block shows, never what the provider says
	AmountOut         *string `json:"amountOut" doc:"The amount that arrived, in atomic units of the destination mint; null until the swap is COMPLETED." form:"amount"`
	OriginTxHash      *string `json:"originTxHash" doc:"The hash of the transaction that paid the swap provider; null until it is broadcast."`
	DestinationTxHash *string `json:"destinationTxHash" doc:"The hash of the transaction that delivered; null until the delivery is final."`
	FailureReason     *string `json:"failureReason" doc:"Why the swap failed: SLIPPAGE_EXCEEDED, DEADLINE_EXPIRED, INCOMPLETE_DEPOSIT, ORIGIN_TX_FAILED, NO_LIQUIDITY, PROVIDER_REFUNDED, PROVIDER_FAILED, PROVIDER_COMPLIANCE, DESTINATION_UNAVAILABLE, DEPOSIT_REORGED or UNKNOWN; null unless the swap is FAILED. Reasons may be added without notice." example:"PROVIDER_REFUNDED"`
	FailureMessage    *string `json:"failureMessage" doc:"A sentence about the failure for a person; null without one."`
	CompletedAt       *Time   `json:"completedAt" doc:"When the delivery was credited; null until the swap is COMPLETED."`
	Status            string  `json:"status" doc:"PENDING: the amount is held and the payment to the provider is not broadcast. DEPOSITING: the payment is broadcast. PROCESSING: the provider has the payment, or a part of the delivery arrived. COMPLETED: the delivery is final and credited. FAILED: no delivery is credited any more."`

	FeeAmount            string  `json:"feeAmount"`
	FeeBps               int     `json:"feeBps"`
	USDValue             *string `json:"usdValue" doc:"The value of amountIn in dollars when the swap was made, for display; null when there was no price." pattern:"^[0-9]+\\.[0-9]{2}$" example:"149.80"`
	EstimatedTimeSeconds *int    `json:"estimatedTimeSeconds"`

	RefundStatus   string  `json:"refundStatus" doc:"How far a refund has come, by final blocks. NONE: nothing came back. PENDING: the provider announces a refund. PARTIAL: a part came back. REFUNDED: all came back, less what the provider keeps. RESTORED: the customer's balance has what came back. UNAVAILABLE: the provider says that there will be no refund. MANUAL: a person at the provider decides."`
	RefundedAmount *string `json:"refundedAmount" doc:"The amount that came back, in atomic units of the source mint; null while nothing has. It is amountIn if the payment never left." form:"amount"`
	RefundTxHash   *string `json:"refundTxHash" doc:"The hash of the latest transaction that brought a refund; null without one."`
	RestoredAt     *Time   `json:"restoredAt" doc:"When all that came back was restored to the customer's balance; null before."`

	DepositID *string  `json:"depositId" doc:"The deposit that completes the swap; null until the swap is COMPLETED." example:"dep_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Provider  string   `json:"provider" doc:"The swap provider. Providers may be added without notice." example:"ONE_CLICK"`
	Metadata  Metadata `json:"metadata"`

	CreatedAt Time `json:"createdAt"`
	UpdatedAt Time `json:"updatedAt"`
}

// OrganizationSwap is a swap of the organization's own money: a balance of a product is converted, and the
// output is paid to an address of the whitelist.
//
// Status COMPLETED, FAILED, REJECTED and CANCELLED are final. What came back of a failed swap is in the
// product's balance again. There is no fee of the platform on such a swap.
type OrganizationSwap struct {
	SwapID         string `json:"swapId" doc:"The organization swap." example:"os_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	Type           string `json:"type" doc:"ORGANIZATION: your organization's own money." enum:"ORGANIZATION"`
	IdempotencyKey string `json:"idempotencyKey" doc:"The key of the request that made the swap; empty if the swap was restored from the signer's journal, which has only a hash of the key." example:"rebalance-12"`
	Product        string `json:"product" doc:"The product whose balance pays."`
	FromMintID     int    `json:"fromMintId" doc:"The mint that the product gives." bounds:"minimum=1" example:"7"`
	ToMintID       int    `json:"toMintId" doc:"The mint that the whitelisted address receives." bounds:"minimum=1" example:"1"`

	AmountIn             string `json:"amountIn" doc:"The amount that the product gives, in atomic units of the source mint." form:"amount"`
	EstimatedAmountOut   string `json:"estimatedAmountOut"`
	MinAmountOut         string `json:"minAmountOut" doc:"The least amount for which the swap is made, in atomic units of the destination mint." form:"amount"`
	WhitelistedAddressID string `json:"whitelistedAddressId" doc:"The entry of the whitelist that the output is paid to." example:"wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	ToAddress            string `json:"toAddress" doc:"The address of that entry when the swap was requested." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`
	// what a final block shows, never what the provider says
	AmountOut         *string `json:"amountOut" doc:"The amount that arrived, in atomic units of the destination mint; null until it has. The withdrawal pays it to the whitelisted address, for a native coin less the network fee." form:"amount"`
	OriginTxHash      *string `json:"originTxHash" doc:"The hash of the transaction that paid the swap provider; null until it is broadcast."`
	DestinationTxHash *string `json:"destinationTxHash" doc:"The hash of the transaction that delivered; null until the delivery is final."`
	// WithdrawalID is the payout of the output.
	WithdrawalID *string `json:"withdrawalId" doc:"The withdrawal that pays the output to the whitelisted address; null until it is requested." example:"wd_01J9ZW3M8Q4S5T6V7W8X9YZABC"`

	Status         string    `json:"status" doc:"AWAITING_APPROVAL: the amount is held until people approve. PENDING: the amount is held and the payment to the provider is not broadcast. DEPOSITING: the payment is broadcast. PROCESSING: the provider has the payment, or the output arrived and is not paid out yet. COMPLETED: the output is paid to the whitelisted address. FAILED: it is not paid; after DESTINATION_UNAVAILABLE with an amountOut the output is in the product's balance. REJECTED: a person refused it. CANCELLED: the organization took it back."`
	Approvals      Approvals `json:"approvals" doc:"How many of the needed approvals it has. Its expiresAt says until when it can be approved; null when it does not wait."`
	PayoutUntil    *Time     `json:"payoutUntil" doc:"Until when the approvals of the swap cover the withdrawal, too. A later withdrawal that needs approvals waits for its own."`
	RejectedReason *string   `json:"rejectedReason" doc:"The note of the person who rejected it; null otherwise."`
	FailureReason  *string   `json:"failureReason" doc:"Why the swap failed, in the words of a customer swap; null unless the swap is FAILED. Reasons may be added without notice." example:"DESTINATION_UNAVAILABLE"`
	FailureMessage *string   `json:"failureMessage" doc:"A sentence about the failure for a person; null without one."`

	USDValue             *string `json:"usdValue" doc:"The value of amountIn in dollars when the swap was made, for display; null when there was no price." pattern:"^[0-9]+\\.[0-9]{2}$" example:"149.80"`
	EstimatedTimeSeconds *int    `json:"estimatedTimeSeconds"`

	RefundStatus   string  `json:"refundStatus" doc:"How far a refund has come, by final blocks, in the words of a customer swap. RESTORED: the product's balance has what came back."`
	RefundedAmount *string `json:"refundedAmount" doc:"The amount that came back, in atomic units of the source mint; null while nothing has. It is amountIn if the payment never left." form:"amount"`
	RefundTxHash   *string `json:"refundTxHash" doc:"The hash of the latest transaction that brought a refund; null without one."`
	RestoredAt     *Time   `json:"restoredAt" doc:"When what came back was put into the product's balance again; null before."`

	Provider *string `json:"provider" doc:"The swap provider; null until one has made an offer. Providers may be added without notice." example:"ONE_CLICK"`

	CreatedAt   Time  `json:"createdAt"`
	UpdatedAt   Time  `json:"updatedAt"`
	DeliveredAt *Time `json:"deliveredAt" doc:"When the output arrived in the product's balance; null until it has."`
	CompletedAt *Time `json:"completedAt" doc:"When the payment to the whitelisted address was final; null until the swap is COMPLETED."`
}

// DepositSwap is an address of a swap provider that a customer pays in almost any token, so that the
// customer's balance is credited in USDC.
//
// Status informs: it follows what the provider says, except COMPLETED. Credit a user by the events of the
// deposits alone. What is paid to the address later, or a second time, becomes a further deposit.
type DepositSwap struct {
	DepositSwapID  string  `json:"depositSwapId" doc:"The deposit swap." example:"ds_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	IdempotencyKey *string `json:"idempotencyKey" doc:"The key of the request that made it; null if the request had none." example:"topup-55"`
	CustomerID     string  `json:"customerId"`
	OriginTokenID  string  `json:"originTokenId" doc:"The token that the customer pays." example:"ethereum:0x6b175474e89094c44da98b954eedeac495271d0f"`
	OriginChain    string  `json:"originChain" doc:"The chain on which the customer pays. Show it with the address: the address is of this chain alone." example:"ETHEREUM"`
	OriginSymbol   string  `json:"originSymbol" doc:"The symbol of the token, for people. It identifies nothing." example:"DAI"`
	OriginDecimals int     `json:"originDecimals" doc:"The number of decimals of the token." example:"18"`
	ToMintID       int     `json:"toMintId" doc:"The mint in which the customer is credited." bounds:"minimum=1" example:"1"`

	DepositAddress string  `json:"depositAddress" doc:"The address that the customer pays, of the swap provider. It is shown only while the provider's signature and this service's seal of it are right. Empty for a deposit swap that has ended, if the service has removed the keys of its provider since." example:"0x71C7656EC7ab88b098defB751B7401B5f6d8976F"`
	Memo           *string `json:"memo" doc:"Always null: an address that needs a memo is not offered."`

	AmountIn           *string `json:"amountIn" doc:"The amount of the request, in atomic units of the token; null if the request had none. The customer may pay another amount." form:"amount"`
	EstimatedAmountOut string  `json:"estimatedAmountOut" doc:"What amountIn would bring, or about 100 dollars of the token if the request had no amountIn; in atomic units of toMintId." form:"amount"`
	MinAmountOut       string  `json:"minAmountOut" doc:"The least amount that the provider's offer allows for it, in atomic units of toMintId." form:"amount"`
	Mode               string  `json:"mode" doc:"FLEXIBLE: the provider swaps the amount that arrives, also another one than amountIn." enum:"FLEXIBLE"`
	ExpiresAt          Time    `json:"expiresAt" doc:"Until when the provider takes a payment. Do not show the address afterwards."`
	RefundAddress      string  `json:"refundAddress" doc:"The address of the request, to which the provider sends back what it does not swap." example:"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"`

	Status string `json:"status" doc:"AWAITING_DEPOSIT: the provider has seen no payment. UNDERPAID: the provider says that the payment is too small. PROCESSING: the provider has a payment, or says that it paid. COMPLETED: a final block has the USDC, and depositId is credited or flagged. REFUNDED: the provider says that it paid refundAddress. FAILED: the provider says that it failed. EXPIRED: the time for a payment is over and none was seen. Every status can still become COMPLETED."`

	// what a final block shows to a node of this service, never what the provider says
	ReceivedAmount    *string      `json:"receivedAmount" doc:"The amount that a node of this service saw at depositAddress, in atomic units of the token; null before, and on a chain without such a node." form:"amount"`
	AmountOut         *string      `json:"amountOut" doc:"The sum of what arrived by final blocks, in atomic units of toMintId; null until something has." form:"amount"`
	RefundedAmount    *string      `json:"refundedAmount" doc:"The amount of a refund that a node of this service saw, in atomic units of the token; null before, and on a chain without such a node." form:"amount"`
	OriginTxHash      *string      `json:"originTxHash" doc:"The hash of the customer's transaction; null until it is known."`
	DestinationTxHash *string      `json:"destinationTxHash" doc:"The hash of the transaction that delivered; null until it is known."`
	FailureReason     *string      `json:"failureReason" doc:"Why it is FAILED, REFUNDED or UNDERPAID, for a person; null otherwise and without a reason." example:"INCOMPLETE_DEPOSIT"`
	DepositID         *string      `json:"depositId" doc:"The first deposit that arrived; null before." example:"dep_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	DepositIDs        List[string] `json:"depositIds" doc:"Every deposit that arrived, oldest first: more than one if the provider paid in parts, or if the customer paid again."`
	Provider          string       `json:"provider" doc:"The swap provider. Providers may be added without notice." example:"ONE_CLICK"`

	CreatedAt   Time  `json:"createdAt"`
	UpdatedAt   Time  `json:"updatedAt"`
	CompletedAt *Time `json:"completedAt" doc:"When the first deposit was credited or flagged; null until it is COMPLETED."`
}

// Product is what an organization sells through its checkout. No event has one.
type Product struct {
	ProductID                string    `json:"productId"`
	Name                     string    `json:"name" doc:"The name, for payers." example:"Gold plan"`
	Description              *string   `json:"description" doc:"The description, for payers; null for none." example:"1 month"`
	ImageURL                 *string   `json:"imageUrl" doc:"The address from which the image was fetched; null for none. Payers see a copy of it that this service serves." format:"uri" example:"https://shop.example.com/gold.png"`
	Status                   string    `json:"status" doc:"ACTIVE: it is for sale. ARCHIVED: it takes no new checkout."`
	PriceType                string    `json:"priceType"`
	Currency                 string    `json:"currency"`
	Price                    *string   `json:"price" doc:"The price of one piece; null if the payer chooses it." form:"decimal" example:"49.99"`
	MinPrice                 *string   `json:"minPrice" doc:"The lowest price that the payer can choose; null for a fixed price." form:"decimal"`
	MaxPrice                 *string   `json:"maxPrice" doc:"The highest price that the payer can choose; null for a fixed price." form:"decimal"`
	AcceptedMintIDs          List[int] `json:"acceptedMintIds"`
	SettlementMintID         *int      `json:"settlementMintId"`
	MaxQuantity              int       `json:"maxQuantity"`
	UnderpaymentToleranceBps int       `json:"underpaymentToleranceBps"`
	OverpaymentPolicy        string    `json:"overpaymentPolicy"`
	LatePaymentPolicy        string    `json:"latePaymentPolicy"`
	SuccessURL               *string   `json:"successUrl" doc:"Where the payer is led after the payment; null for nowhere." format:"uri" example:"https://shop.example.com/thanks"`
	CancelURL                *string   `json:"cancelUrl" doc:"Where the payer is led who gives up; null for nowhere." format:"uri" example:"https://shop.example.com/cart"`
	OnePerReference          bool      `json:"onePerReference"`
	Metadata                 Metadata  `json:"metadata" doc:"Your own keys and values."`
	IdempotencyKey           *string   `json:"idempotencyKey" doc:"The key of the request that made it; null if the request had none." example:"product-gold"`
	CreatedAt                Time      `json:"createdAt"`
	UpdatedAt                Time      `json:"updatedAt"`
	ArchivedAt               *Time     `json:"archivedAt" doc:"When it was archived; null while it is for sale."`
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
