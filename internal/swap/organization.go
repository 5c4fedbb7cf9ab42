package swap

import (
	"context"
	"errors"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/platform/pagination"
)

// Kind says whose balance a swap converts.
type Kind string

// The kinds.
const (
	CustomerSwap     Kind = "CUSTOMER"     // of a customer; the output is credited to it
	OrganizationSwap Kind = "ORGANIZATION" // of a product; the output is paid to an entry of the whitelist
)

// OrganizationQuoteRequest asks what a swap of the organization's own money would bring.
type OrganizationQuoteRequest struct {
	Product     string // whose balance would pay; "" for none in particular
	FromMintID  int
	ToMintID    int
	AmountIn    string
	SlippageBps *int
}

// OrganizationRequest is a swap of the organization's own money as the caller asks for it.
type OrganizationRequest struct {
	IdempotencyKey       string
	Product              string // CUSTODIAL, CHECKOUT or BATCH_PAYOUT: whose balance pays
	FromMintID           int
	ToMintID             int
	AmountIn             string  // atomic units of the source mint
	MinAmountOut         *string // atomic units of the destination mint: the least that the caller accepts
	SlippageBps          *int
	WhitelistedAddressID string         // the whitelist entry that the output is paid to
	Person               *member.Member // who asks; nil: a program with an API key
	Actor                audit.Actor    // who asks, for the audit log and the approvals
	// Limit, unless nil, is called once the key is known to be new, before anything else can refuse
	// the request.
	Limit func() error
}

// OrganizationFilter narrows a list of an organization's swaps of its own money. A zero field does not
// narrow it.
type OrganizationFilter struct {
	Status, Product, IdempotencyKey string
	AwaitingApproval                bool
	CreatedAfter                    time.Time // exclusive
	CreatedBefore                   time.Time // exclusive
}

var errUnfinished = errors.New("swaps of organizations are not served yet")

// CheckOrganizationEnabled refuses every call while swaps of the organization's own money are switched
// off, and while the organization is frozen. Errors: faults ORGANIZATION_SWAPS_DISABLED,
// ORGANIZATION_FROZEN.
func (s *Service) CheckOrganizationEnabled(context.Context, string) error { return errUnfinished }

// QuoteOrganization returns the best offer for a swap of the organization's own money. It writes nothing.
func (s *Service) QuoteOrganization(context.Context, string, OrganizationQuoteRequest) (Quote, error) {
	return Quote{}, errUnfinished
}

// FindOrganizationByKey returns the swap of an idempotency key.
func (s *Service) FindOrganizationByKey(context.Context, string, string) (Swap, bool, error) {
	return Swap{}, false, errUnfinished
}

// RequestOrganization makes a swap of the organization's own money.
func (s *Service) RequestOrganization(
	context.Context, string, OrganizationRequest,
) (w Swap, isReplayed bool, err error) {
	return Swap{}, false, errUnfinished
}

// DiffersOrganization reports whether a request has other parameters than the one that made the swap.
func (w Swap) DiffersOrganization(OrganizationRequest) bool { return false }

// OrganizationByID returns a swap of the organization's own money as it is now. Error: fault NOT_FOUND.
func (s *Service) OrganizationByID(context.Context, string, string) (Swap, error) {
	return Swap{}, errUnfinished
}

// ListOrganization returns a page of the swaps of an organization's own money.
func (s *Service) ListOrganization(
	context.Context, string, OrganizationFilter, pagination.Page,
) (page pagination.Result[Swap], err error) {
	return page, errUnfinished
}

// ForEachOrganization calls fn for all swaps of an organization's own money that match the filter.
func (s *Service) ForEachOrganization(context.Context, string, OrganizationFilter, bool, func(Swap) error) error {
	return errUnfinished
}

// PayoutDigest returns the digest of what an approver of a swap is shown.
func (s *Service) PayoutDigest(context.Context, string, string) (string, error) {
	return "", errUnfinished
}

// ApproveOrganization records a person's approval of a swap that waits for it.
func (s *Service) ApproveOrganization(
	_ context.Context, _, _, _ string, _ member.Member,
) (Swap, error) {
	return Swap{}, errUnfinished
}

// RejectOrganization ends a swap that waits for approval, because an approver refuses it.
func (s *Service) RejectOrganization(_ context.Context, _, _, _ string, _ member.Member) (Swap, error) {
	return Swap{}, errUnfinished
}

// CancelOrganization ends a swap that waits for approval, because its organization no longer wants it.
func (s *Service) CancelOrganization(_ context.Context, _, _ string, _ member.Member) (Swap, error) {
	return Swap{}, errUnfinished
}

// approvalWindow is how long after its creation a swap can be approved, and payoutWindow until when its
// approvals cover the payment of its output.
const (
	approvalWindow = 24 * time.Hour
	payoutWindow   = 48 * time.Hour
)

// ApprovableUntil returns until when the swap can be approved, or nil if it does not wait for approval.
func (w Swap) ApprovableUntil() *time.Time {
	if w.Status != AwaitingApproval {
		return nil
	}
	end := w.CreatedAt.Add(approvalWindow)
	return &end
}
