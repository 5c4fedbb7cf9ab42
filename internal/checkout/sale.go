package checkout

import (
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/wallet"
)

// LineItem is one position of a checkout, as it was when the checkout was made.
type LineItem struct {
	ProductID string `json:"productId,omitempty"` // "" if the caller named no product
	Name      string `json:"name"`
	ImageID   string `json:"imageId,omitempty"`
	UnitPrice string `json:"unitPrice"` // of one piece, in the currency of the checkout
	Quantity  int    `json:"quantity"`
}

// Sale has what a payer agrees to. It never changes once its checkout exists.
type Sale struct {
	Items           []LineItem
	Currency        string // USD, or the symbol of an accepted mint
	AmountDue       Price
	Need            Price // from how much on it counts as paid
	AcceptedMintIDs []int // in the order of the organization
	UnderBps        int
	UnderUSD        money.USD // another tolerance, for an amount due in dollars
	OverPolicy      string
	LatePolicy      string
	CostMaxBps      int // how much of the amount due collecting a payment may cost
	SuccessURL      *string
	CancelURL       *string
}

// Checkout is one sale, as its organization sees it.
type Checkout struct {
	Sale

	ID              string
	OrgID           string
	Version         int64 // counts the changes
	Status          outcome.Status
	Exceptions      []outcome.Exception // the most severe first
	CustomerID      *string             // the caller's own words, which no payer sees
	CustomerEmail   *string
	Reference       *string
	OnePerReference bool
	Metadata        map[string]string
	IdempotencyKey  string  // "" if the caller gave none
	LinkID          *string // the payment link through which it was sold

	SeenSum Price // what counts of the payments in blocks
	Counted Price // what counts of the credited payments

	DecidedBy, DecidedReason string // of the person who accepted what was paid

	CreatedAt, UpdatedAt     time.Time
	ExpiresAt                time.Time
	CancelledAt, CompletedAt *time.Time

	// URL leads payers to the page, with the key that allows actions; "" without pages.
	URL string

	// Options are the opened ones, and Payments what arrived; both the oldest first. Refund is the newest one, or nil.
	// An export of all checkouts has none of them.
	Options  []Option
	Payments []Payment
	Refund   *Refund

	digest     []byte
	isExtended bool
}

// Remaining returns how much is still due, with what went back to its payers.
func (c Checkout) Remaining() Price { return pricing.SubOrZero(c.AmountDue, c.subtractRefunds()) }

// subtractRefunds returns what counts and does not go back to its payers. A completed checkout was covered before.
// Rule CO-135.
func (c Checkout) subtractRefunds() Price {
	sum := c.SeenSum
	if c.Status == outcome.Completed {
		return sum
	}
	for _, p := range c.Payments {
		if p.Counts {
			sum = pricing.SubOrZero(sum, p.givenBack(money.Zero))
		}
	}
	return sum
}

// givenBack returns the part of what a payment counts that its refunds take, without an amount that may still be
// taken back from them.
func (p Payment) givenBack(unclaimed money.Amount) Price {
	taken, err := p.Refunding.Add(p.Refunded)
	if err != nil || p.Counted == nil || p.Status != outcome.PaymentCredited {
		return Price{} // together they are at most the amount
	}
	return pricing.Worth(money.SubOrZero(taken, unclaimed), p.Amount, *p.Counted)
}

// Surplus returns how much more was credited than was due.
func (c Checkout) Surplus() Price { return pricing.SubOrZero(c.Counted, c.AmountDue) }

// Exception returns the most severe exception, or NONE.
func (c Checkout) Exception() outcome.Exception {
	if len(c.Exceptions) == 0 {
		return outcome.NoException
	}
	return c.Exceptions[0]
}

// Option is how a checkout can be paid in one mint. Its address belongs to this checkout permanently.
type Option struct {
	Mint     mint.Mint
	Wallet   wallet.Wallet
	Shared   *wallet.Wallet // of Solana: the shared address that wallets pay, with the reference
	Ref      []byte         // the key that names the checkout in a payment to the shared address
	OpenedAt time.Time
	Quotes   []pricing.Quote // the oldest first

	// Network is the chain's network by its CAIP-2 name; "" for a chain that does not run here.
	Network string
	// TakesWallets says that wallets can pay at Shared now: the chain has the account for the token there.
	TakesWallets bool
	hasAccount   bool // the account is known to exist
}

// Quote returns the newest quote; ok is false if there is none.
func (o Option) Quote() (q pricing.Quote, ok bool) {
	if len(o.Quotes) == 0 {
		return q, false
	}
	return o.Quotes[len(o.Quotes)-1], true
}

// Payment is what arrived for a checkout: one deposit.
type Payment struct {
	DepositID  string
	CheckoutID string
	Mint       *mint.Mint // nil: the token is not in the catalogue
	Chain      chain.Name
	Amount     money.Amount
	Tx         chain.TxHash
	BlockTime  time.Time
	Height     uint64
	SeenAt     time.Time
	WasLive    bool // it was seen before its block was final
	Status     outcome.PaymentStatus

	Moment     time.Time // when it was paid; zero until it is valued
	IsAccepted bool      // the checkout takes this coin
	IsInTime   bool
	Counts     bool
	QuoteSeq   *int // nil: the price of the market
	Rate       *pricing.Rate
	Counted    *Price // nil: it is not valued

	Refunding money.Amount // what its open refunds take
	Refunded  money.Amount // what was given back

	toldStatus outcome.PaymentStatus // "" if the checkout knows none
}

// PaidAt returns the moment by which a payment is judged. Rule CO-12.
func (p Payment) PaidAt() time.Time {
	if p.Moment.IsZero() {
		return p.momentOf()
	}
	return p.Moment
}

// IsLate reports whether a payment was made after the time of the checkout.
func (c Checkout) IsLate(p Payment) bool {
	if p.Counted != nil {
		return !p.IsInTime
	}
	return !c.isInTimeOf(p.PaidAt())
}

// Missing returns how much is still to be paid: nothing once what was seen is enough.
func (c Checkout) Missing() Price {
	if c.Status == outcome.Completed || c.subtractRefunds().Cmp(c.Need) >= 0 {
		return Price{}
	}
	return c.Remaining()
}

// resourceKindCheckout names checkouts in the audit log.
const resourceKindCheckout = "CHECKOUT"

// actor is this package as an actor of the audit log.
var actor = audit.System("checkout")

func newCheckoutEntry(c Checkout, requester audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: c.OrgID, Actor: requester, Action: "checkout." + verb, ResourceKind: resourceKindCheckout,
		ResourceID: c.ID, Detail: detail,
	}
}
