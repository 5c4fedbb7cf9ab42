// Package checkout keeps the products that an organization sells, and the checkouts in which payers buy them.
//
// Invariants of checkouts:
//
//   - What a payer agreed to never changes: a checkout is a copy of its products.
//   - Nothing is posted for a checkout. Its state follows from its credited payments, so the books and the states
//     agree.
//   - An address belongs to one checkout permanently. What arrives at it is credited in every state.
//   - A payment is priced once, by the quote of its own moment or by a fresh price of the market. No price is guessed.
//   - A payment belongs to one checkout and never goes to another. A person assigns what names none.
//   - A refund takes no more than what was credited and is not refunded, and is paid once, to one address.
//   - A policy makes a refund once for each checkout, mint and cause, and never within a settlement.
//   - The walk of a chain writes only payments. A defect here delays no block.
//
// A crash leaves payments that their checkout does not know; any process tells it later, and sends each event once.
//
// Invariants of payment links:
//
//   - The address of a link and what it sells never change, and its end is final.
//   - One form of its page makes one checkout at most, however often it is sent.
//   - A link makes a checkout only in a transaction that sees it selling. Checkouts that exist are paid further on.
//
// Invariants of products:
//
//   - A product is valid as a whole after every change, whichever members the change names.
//   - No change overwrites one that its author did not see: every write compares the version that it changes.
//   - A product is archived and never deleted, and its key never makes another one.
//   - An image is fetched only when a request names its address, once, past the guard of package outbound, and what is
//     stored was decoded and encoded here.
//
// A product moves no money. A crash before the one transaction of a request leaves nothing; the same key makes the
// product then, or finds it.
package checkout

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// ImageSource reads images at addresses that callers name. *outbound.Transport implements it.
type ImageSource interface {
	Get(ctx context.Context, url, accept string, bytesMax int64) ([]byte, error)
}

// Service keeps products and checkouts. It is safe for concurrent use, by any number of processes.
type Service struct {
	DB     *pg.DB
	Images ImageSource
	// IsLocal also allows URLs with http: the installation is a local network.
	IsLocal bool

	// The following are for checkouts.
	Wallets WalletService
	Chains  chain.Chains
	Prices  price.Source
	// PriceAge returns the greatest age of a mint's price; nil: five minutes.
	PriceAge func(mintID int) time.Duration
	// IsPegged reports whether a mint is meant to be worth a dollar; nil: none is.
	IsPegged func(mintID int) bool
	Costs    Costs         // nil: no cost is known
	Payouts  RefundPayouts // nil: no refund is paid
	// PaymentStatuses are the statuses of payments by those of their deposits.
	PaymentStatuses map[string]outcome.PaymentStatus
	Events          event.Recorder
	// PageURL returns where payers pay a checkout, with the key that allows actions; nil without pages.
	PageURL func(checkoutID string) string
	// ClaimURL returns where a payer claims a refund, with its key; nil without pages.
	ClaimURL func(refundID, claimKey string) string
	// LinkURL returns the address of a payment link; nil without pages. NonceSecret is the secret of its forms.
	LinkURL     func(slug string) string
	NonceSecret []byte
	// CountOpening counts an opening of an option by a payer for an organization, and reports whether it may be; nil:
	// every one may.
	CountOpening func(orgID string) bool
	// LinkCheckoutsMax is how many open checkouts without a payment the payment links of an organization may have
	// together. Each costs a row, and everyone who has the address of a link makes them. 0: no limit. Rule CO-68.
	LinkCheckoutsMax int
	// IsPageKey reports whether a text is the key of a checkout's page; nil without pages.
	IsPageKey func(checkoutID, key string) bool
	// ProofSecret is the secret of the texts that payers sign with their addresses, and PayerHost the host that they
	// name; without a secret no address is proven.
	ProofSecret []byte
	PayerHost   string
	// Risk says whose an address is that a payer gives. What it may be paid is decided with the payment.
	Risk risk.Policy
	// NewID makes the ids of checkouts and refunds; nil: random ones, which no one can guess. A trial that plays a day
	// again gives ids that follow from its seed, because the address of a checkout follows from its id.
	NewID func(prefix string, createdAt time.Time) string
	Log   *slog.Logger

	decoding sync.Mutex // one image at a time: a decoded one may take 128 MB

	creating sync.Mutex
	creators map[string]*creationWriter // by organization
}

// Status says whether a product is for sale.
type Status string

// The statuses of a product.
const (
	Active   Status = "ACTIVE"
	Archived Status = "ARCHIVED"
)

// Statuses are the statuses of a product.
var Statuses = []Status{Active, Archived}

// The words of the terms of a product.
const (
	FixedPrice = "FIXED"
	OpenPrice  = "OPEN" // the payer chooses between the bounds

	CreditSurplus     = "CREDIT"
	RefundLinkSurplus = "REFUND_LINK"

	AcceptLate = "ACCEPT_IF_WITHIN_TOLERANCE"
	HoldLate   = "HOLD" // a person decides
	// RefundLinkLate gives back what was paid in part or too late.
	RefundLinkLate = "REFUND_LINK"

	USD = pricing.USD // the currency of a product that is not the symbol of a mint
)

// PriceTypes, OverpaymentPolicies and LatePaymentPolicies are the words of their fields.
var (
	PriceTypes          = []string{FixedPrice, OpenPrice}
	OverpaymentPolicies = []string{CreditSurplus, RefundLinkSurplus}
	LatePaymentPolicies = []string{AcceptLate, HoldLate, RefundLinkLate}
)

// Terms are what an organization decides about a product. Every combination that package checkout returns is valid.
type Terms struct {
	Name                     string
	Description              *string
	ImageURL                 *string // from which the image was fetched
	PriceType                string
	Currency                 string // USD, or the symbol of an accepted mint
	Price                    *Price // of a FIXED product
	MinPrice, MaxPrice       *Price // of an OPEN product
	AcceptedMintIDs          []int  // in the order of the organization
	SettlementMintID         *int   // nil: what is paid stays what it is
	MaxQuantity              int    // in one checkout
	UnderpaymentToleranceBps int
	OverpaymentPolicy        string
	LatePaymentPolicy        string
	SuccessURL, CancelURL    *string
	OnePerReference          bool // one order reference is paid once
	Metadata                 map[string]string
}

// Product is a product as its organization sees it.
type Product struct {
	Terms

	ID             string
	OrgID          string
	Version        int64 // counts the changes
	Status         Status
	IdempotencyKey string // "" if the caller gave none
	ImageID        string // "" without an image

	CreatedAt, UpdatedAt time.Time
	ArchivedAt           *time.Time

	digest []byte // of the parameters of the request that made it
}

// resourceKind names products in the audit log.
const resourceKind = "PRODUCT"

func newEntry(p Product, requester audit.Actor, verb string, detail map[string]any) audit.Entry {
	return audit.Entry{
		OrgID: p.OrgID, Actor: requester, Action: "product." + verb, ResourceKind: resourceKind, ResourceID: p.ID,
		Detail: detail,
	}
}
