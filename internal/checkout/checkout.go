// Package checkout keeps the products that an organization sells.
//
// Invariants:
//
//   - A product is valid as a whole after every change, whichever members the change names.
//   - No change overwrites one that its author did not see: every write compares the version that it changes.
//   - A product is archived and never deleted, and its key never makes another one.
//   - An image is fetched only when a request names its address, once, past the guard of package outbound, and what
//     is stored was decoded and encoded here.
//
// A product moves no money. A crash before the one transaction of a request leaves nothing; the same key makes the
// product then, or finds it.
package checkout

import (
	"context"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// ImageSource reads images at addresses that callers name. *outbound.Transport implements it.
type ImageSource interface {
	Get(ctx context.Context, url, accept string, bytesMax int64) ([]byte, error)
}

// Service keeps products. It is safe for concurrent use, by any number of processes.
type Service struct {
	DB     *pg.DB
	Images ImageSource
	// IsLocal also allows URLs with http: the installation is a local network.
	IsLocal bool

	decoding sync.Mutex // one image at a time: a decoded one may take 128 MB
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

	USD = pricing.USD // the currency of a product that is not the symbol of a mint
)

// PriceTypes, OverpaymentPolicies and LatePaymentPolicies are the words of their fields.
var (
	PriceTypes          = []string{FixedPrice, OpenPrice}
	OverpaymentPolicies = []string{CreditSurplus, RefundLinkSurplus}
	LatePaymentPolicies = []string{AcceptLate, HoldLate}
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
