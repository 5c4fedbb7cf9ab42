package payerpages

import (
	"context"
	"time"
)

// Checkouts is what the pages need of the feature. The methods return faults for what a payer may see, and other
// errors for what went wrong here.
type Checkouts interface {
	// View returns what every holder of the path may see, with quotes of the moment. Error: the fault NOT_FOUND.
	View(ctx context.Context, checkoutID string) (View, error)
	// Open opens the option of a mint, and changes nothing for one that is open. Errors: the faults
	// OPTION_UNAVAILABLE, INVALID_STATE, MINT_NOT_FOUND and NOT_FOUND.
	Open(ctx context.Context, checkoutID string, mintID int) error
	// Versions returns the versions of some checkouts, cheaply: the service asks for all that are open on pages all the
	// time. A version changes with everything that View returns, except quotes that ended. A checkout that does not
	// exist has none.
	Versions(ctx context.Context, checkoutIDs []string) (map[string]int64, error)
	// Find says where the payment of a transaction is, and only as far as it concerns this checkout. Errors: the
	// faults NOT_FOUND, and INVALID_REQUEST for a text that is no hash of any accepted chain.
	Find(ctx context.Context, checkoutID, txHash string) (Finding, error)
	// RequestPayment makes the transaction with which the wallet of a payer pays an option of Solana. A problem says
	// why it made none. Error: the fault NOT_FOUND.
	RequestPayment(ctx context.Context, checkoutID string, w WalletRequest) (WalletTransaction, *WalletProblem, error)
	// Image returns an image of an item of this checkout. Error: the fault NOT_FOUND.
	Image(ctx context.Context, checkoutID, imageID string) (mediaType string, content []byte, err error)
	// Receipt returns the receipt of a completed checkout, as a signed file. Errors: the faults NOT_FOUND and
	// INVALID_STATE.
	Receipt(ctx context.Context, checkoutID string) (file []byte, err error)
}

// Status is the state of a checkout.
type Status string

// States of checkouts.
const (
	Open       Status = "OPEN"
	Processing Status = "PROCESSING"
	Completed  Status = "COMPLETED"
	Expired    Status = "EXPIRED"
	Cancelled  Status = "CANCELLED"
)

// Exception is what differs from a checkout that is paid exactly and in time.
type Exception string

// Exceptions of checkouts.
const (
	Flagged    Exception = "FLAGGED"
	Reversed   Exception = "REVERSED"
	WrongToken Exception = "WRONG_TOKEN"
	Overpaid   Exception = "OVERPAID"
	PaidLate   Exception = "PAID_LATE"
	Underpaid  Exception = "UNDERPAID"
	Refunded   Exception = "REFUNDED"
)

// View is everything that a page shows of a checkout. Every holder of the path sees it, so the type has no field of a
// customer, an e-mail address, a reference or metadata. Rule CO-40.
type View struct {
	CheckoutID string
	Version    int64
	Status     Status
	Exceptions []Exception

	ShopName string
	Accent   string // a color such as #1b4fd1, or ""
	Items    []Item

	// Figures with a point and without a unit, in Currency. A surplus of nothing is "".
	Currency        string
	AmountDue       string
	AmountPaid      string
	AmountRemaining string
	AmountSurplus   string

	ExpiresAt time.Time
	IsLocal   bool // the local world: no real money moves

	// ReturnURL leads back to the shop with the signed statement; "" while nothing was paid. CancelURL leads back
	// without one, and is "" if the shop gave none. Both are checked URLs with https, or http in the local world.
	ReturnURL string
	CancelURL string
	// HasRefund says that a refund waits for an address, which the holder of the key can give.
	HasRefund bool
	// HasReceipt says that Receipt returns one.
	HasReceipt bool

	// AfterText is what the shop tells who has paid, with line breaks; "" for nothing.
	AfterText string

	Options  []Option // in the order in which the payer sees them
	Payments []Payment

	// EmbedOrigins are the origins whose pages may show this one in a frame.
	EmbedOrigins []string
}

// Item is a line of the checkout.
type Item struct {
	Name      string
	Quantity  int
	UnitPrice string // a figure in the currency of the checkout
	ImageID   string // "" without an image
}

// Unavailability is why an option is not offered now.
type Unavailability string

// Reasons for which an option is not offered.
const (
	Available    Unavailability = ""
	Paused       Unavailability = "PAUSED"        // closed for deposits, or quarantined
	Unpriced     Unavailability = "UNPRICED"      // no price that is certain
	BelowMinimum Unavailability = "BELOW_MINIMUM" // the amount is below the smallest deposit
	TooCostly    Unavailability = "TOO_COSTLY"    // the network's fee is too high for the amount
)

// Option is one way to pay. What follows IsOpen is empty before the option is open.
type Option struct {
	MintID       int
	Symbol       string
	Name         string
	ChainName    string
	PayerFeeText string // what the payer's network costs about, such as "0.04 USD"; "" if that is unknown
	IsNative     bool   // the coin of its chain, not a token
	IsPegged     bool   // counts at par, so its rate does not change
	Reason       Unavailability
	IsOpen       bool

	Address string // of this checkout alone
	// SharedAddress is the address of QRText and WalletLink if it is not Address. A payment there is found by the
	// reference in the link, so the page never shows this address by itself.
	SharedAddress string
	Memo          string
	Amount        string // in whole coins, as a person types it
	AtomicAmount  string
	RateText      string    // such as "1 ETH = 2,512.40 USD"; "" for a pegged coin
	RateExpiresAt time.Time // zero for an amount that does not change
	QRText        string
	WalletLink    string // bitcoin:, solana: or ethereum:
	EVM           *EVMPayment
	Solana        *SolanaPayment
}

// EVMPayment is what a wallet of a browser needs in addition to pay an option of an EVM chain. The script asks a wallet
// for nothing that is not here or in the option. Rules CO-50 and CO-131.
type EVMPayment struct {
	ChainID  int64
	Contract string // of the token; "" for the coin of the chain
}

// SolanaPayment is what a wallet of a browser needs in addition to pay an option of Solana. The transaction itself
// comes from RequestPayment, and the script compares its amount with that of the option. Rules CO-118 and CO-131.
type SolanaPayment struct {
	Network string // as wallets name it, such as solana:mainnet
	IsToken bool
}

// WalletRequest is what a wallet asks for.
type WalletRequest struct {
	MintID  int    // 0: the first opened option of Solana
	Account string // which pays
	Amount  string // atomic, as the page showed it; "" if the wallet shows the amount itself
}

// WalletTransaction is a transaction without signatures, with what it pays.
type WalletTransaction struct {
	Transaction []byte
	Amount      string // in whole coins
	Symbol      string
	ShopName    string
}

// WalletProblem says why there is no transaction for a wallet. Each has a text.
type WalletProblem string

// Problems of wallets.
const (
	AccountProblem WalletProblem = "ACCOUNT" // no account that can pay
	ClosedProblem  WalletProblem = "CLOSED"  // the checkout is not open
	OptionProblem  WalletProblem = "OPTION"  // this way to pay is not available now
	AmountProblem  WalletProblem = "AMOUNT"  // the page shows another amount than the present one
	FundsProblem   WalletProblem = "FUNDS"   // the account lacks the amount or the fee
	UnreadyProblem WalletProblem = "UNREADY" // the chain would refuse the payment
	NodeProblem    WalletProblem = "NODE"    // no provider answers
)

// PaymentStatus is the state of a payment.
type PaymentStatus string

// States of payments.
const (
	PaymentSeen     PaymentStatus = "SEEN"
	PaymentCredited PaymentStatus = "CREDITED"
	PaymentFlagged  PaymentStatus = "FLAGGED"
	PaymentReturned PaymentStatus = "RETURNED"
	PaymentOrphaned PaymentStatus = "ORPHANED"
	PaymentReversed PaymentStatus = "REVERSED"
	PaymentUnusable PaymentStatus = "UNUSABLE"
)

// Payment is what arrived for a checkout.
type Payment struct {
	Symbol    string // "" for a coin that is not in the catalogue
	ChainName string
	Amount    string // in whole coins
	ValueText string // a figure in the currency of the checkout; "" while it is not known
	TxHash    string
	Status    PaymentStatus
	IsLate    bool
	// IsAcceptedCoin is false for a coin in which this checkout is not paid: it counts for nothing by itself.
	IsAcceptedCoin bool
	// IsOtherNetwork is true for an accepted coin that arrived on a network that was not offered, and counts.
	IsOtherNetwork    bool
	BlocksMissing     *int // nil if the chain has no such number, or it is not known
	IsWaitingForPrice bool
}

// Outcome is what is known of a transaction that a payer asks for.
type Outcome string

// Outcomes of a search.
const (
	FoundPayment      Outcome = "PAYMENT"       // it is a payment of this checkout
	FoundWrongCoin    Outcome = "WRONG_COIN"    // it pays here with a coin that does not count
	FoundWrongNetwork Outcome = "WRONG_NETWORK" // it pays this address on a network that is not watched
	FoundFailed       Outcome = "FAILED"        // the chain refused it, so nothing moved
	FoundPending      Outcome = "PENDING"       // it is in no block yet
	FoundElsewhere    Outcome = "ELSEWHERE"     // it does not pay this checkout
	FoundNowhere      Outcome = "NOWHERE"       // no provider knows it
	FoundUnclear      Outcome = "UNCLEAR"       // the providers could not be asked, or disagree
)

// Finding is the answer to the question where a payment is.
type Finding struct {
	Outcome   Outcome
	ChainName string   // where it was found, or ""
	Payment   *Payment // of FoundPayment and FoundWrongCoin
}
