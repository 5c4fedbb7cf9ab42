package withdrawal

import (
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// WhitelistEntry is an address on an organization's whitelist that may be paid now.
type WhitelistEntry struct {
	Chain   chain.Name
	Address chain.Address // in its canonical form
}

// Whitelist says where an organization's own money may go.
type Whitelist interface {
	// Usable returns an entry that may be paid as the transaction sees it, with an address that the
	// signer has proven. The entry stays usable until the transaction ends. A fault says why the
	// entry may not be paid, and the transaction goes on. Any other error leaves that open.
	Usable(ctx context.Context, tx pg.Tx, org, listedID string) (WhitelistEntry, error)
}

func newUnlisted() *fault.Fault {
	return fault.New(fault.Unprocessable, fault.AddressNotWhitelisted, fault.NothingHeld,
		"Your organization's own money goes only to addresses on its whitelist, and this address is "+
			"not on it.").
		WithAdvice("Choose an address of the whitelist, or ask the operator of this service to add one.").
		WithParam("whitelistedAddressId")
}

// OrganizationRequest is a member's request for a withdrawal of the organization's own money.
type OrganizationRequest struct {
	Product              string // CUSTODIAL, CHECKOUT or BATCH_PAYOUT: whose balance pays
	MintID               int
	WhitelistedAddressID string // the whitelist entry that is paid
	// Amount is what the destination receives, in atomic units, or in whole tokens with UseDecimal;
	// "" with Max.
	Amount         string
	UseDecimal     bool
	Max            bool    // the whole balance, less the network fee where the mint is the native coin
	IdempotencyKey *string // nil: every call is a payment of its own
	Reference      *string
	Metadata       map[string]string
	// Limit, unless nil, is called once the key is known to be new.
	Limit func() error
}

// toRequest returns the Request for it. Error: fault SCOPE_MISSING. Rules OW-1 and OW-7.
func (r OrganizationRequest) toRequest(p member.Member) (Request, error) {
	if !p.IsAllowed(identity.WithdrawOwnMoney) {
		return Request{}, fault.New(fault.Forbidden, fault.ScopeMissing, fault.NothingHeld,
			"Only a person with the role OWNER, ADMIN or FINANCE can withdraw the organization's own "+
				"money.").
			WithAdvice("Ask a person with one of these roles.")
	}
	return Request{
		MintID: r.MintID, Amount: r.Amount, UseDecimal: r.UseDecimal, IdempotencyKey: r.IdempotencyKey,
		Reference: r.Reference, Metadata: r.Metadata, Actor: p.Actor(), Limit: r.Limit,
		owner: ledger.ProductOwner(r.Product), listedID: r.WhitelistedAddressID, isMax: r.Max,
	}, nil
}

// RequestOrganization accepts a withdrawal of the organization's own money from one of its members.
// It is held, decided and paid like a customer's and has its own events. Another member has to
// approve it. replayed and the errors are those of Request, plus the faults SCOPE_MISSING and
// ADDRESS_NOT_WHITELISTED.
func (s *Service) RequestOrganization(
	ctx context.Context, person member.Member, r OrganizationRequest,
) (w Withdrawal, replayed bool, err error) {
	request, err := r.toRequest(person)
	if err != nil {
		return w, false, err
	}
	return s.Request(ctx, person.OrgID, request)
}

// PreviewOrganization previews a withdrawal of the organization's own money, like Preview.
func (s *Service) PreviewOrganization(
	ctx context.Context, person member.Member, r OrganizationRequest,
) (Preview, error) {
	request, err := r.toRequest(person)
	if err != nil {
		return Preview{}, err
	}
	return s.Preview(ctx, person.OrgID, request)
}

// EstimateOrganization estimates a withdrawal of a product, like Estimate. MaxAmount is what a
// withdrawal of the whole balance would pay now. to is a whitelist entry, or "" for none in
// particular.
func (s *Service) EstimateOrganization(
	ctx context.Context, person member.Member, product string, mintID int, to string,
) (Estimate, error) {
	if err := checkProduct(product); err != nil {
		return Estimate{}, err
	}
	r := EstimateRequest{MintID: mintID, owner: ledger.ProductOwner(product)}
	if to != "" {
		var l WhitelistEntry
		err := s.DB.ReadOrg(ctx, person.OrgID, func(ctx context.Context, tx pg.Tx) error {
			found, refusal, err := s.loadEntry(ctx, tx, person.OrgID, to)
			if refusal != nil {
				return refusal
			}
			l = found
			return err
		})
		if err != nil {
			return Estimate{}, err
		}
		address := string(l.Address)
		r.ToAddress = &address
	}
	return s.Estimate(ctx, person.OrgID, r)
}

func checkProduct(product string) error {
	if !slices.Contains(ledger.Products, product) {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingHeld,
			"A product has to be CUSTODIAL, CHECKOUT or BATCH_PAYOUT.").
			WithAdvice("Name the product whose balance pays.").
			WithParam("product")
	}
	return nil
}

// parseOrgRequest parses a request for the organization's own money. The caller does not choose the
// address, so the address is not part of the digest.
func parseOrgRequest(r Request, mints mint.Catalogue, chains chain.Chains) (parsed, error) {
	p := parsed{owner: r.owner, listedID: r.listedID, isMax: r.isMax, isTotal: r.payout != nil}
	if err := checkProduct(r.owner.Subject); err != nil {
		return p, err
	}
	m, err := request.ParseMint(r.MintID, mints, fault.NothingHeld)
	if err != nil {
		return p, err
	}
	p.mint, p.deductsFee = m, m.Kind == mint.Native
	amount := "MAX"
	switch {
	case p.isMax && r.Amount != "":
		return p, fault.New(fault.Invalid, fault.InvalidAmount, fault.NothingHeld,
			"The request has both an amount and the maximum.").
			WithAdvice("Ask for one of them.").
			WithParam("amount")
	case !p.isMax:
		if p.amount, err = request.ParseAmount(r.Amount, r.UseDecimal, m, fault.NothingHeld); err != nil {
			return p, err
		}
		amount = p.amount.String()
	}
	if err := request.CheckHandles(r.Reference, r.Metadata, fault.NothingHeld); err != nil {
		return p, err
	}
	_, p.chainRuns = chains[m.Chain]
	p.digest = orgRequestDigest(p.owner, p.listedID, m.ID, amount)
	p.restorableDigest = p.digest
	return p, nil
}

// orgRequestDigest hashes what makes a request for the organization's own money another payment;
// the signer's journal knows all of it. A request for the maximum has "MAX" as its amount.
func orgRequestDigest(payer ledger.Owner, listedID string, mintID int, amount string) []byte {
	return request.Digest("coffer-withdraw-own-1", payer.Subject, listedID, fmt.Sprint(mintID), amount)
}

// maxPayable returns what a withdrawal of a product's whole balance pays: for a native coin the
// balance less the fee. Rule OW-4.
func maxPayable(balance money.Amount, m mint.Mint, fee money.Amount) money.Amount {
	if m.Kind != mint.Native {
		return balance
	}
	return money.SubOrZero(balance, fee)
}
