package withdrawal

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/id"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/people"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// owner is whose balance pays: a customer's, or that of a product, which pays to an entry
// of the organization's list. One of the first two is set.
type owner struct {
	customerID string
	product    string
	listedID   string
}

// spendingAccount is the account that may be spent from.
func (o owner) spendingAccount(org string, mintID int) ledger.Account {
	if o.product != "" {
		return ledger.Account{OrgID: org, MintID: mintID, Kind: ledger.Product, Subject: o.product}
	}
	return ledger.Account{OrgID: org, MintID: mintID, Kind: ledger.Customer, Subject: o.customerID}
}

// heldAccount is the account of what is held for withdrawals.
func (o owner) heldAccount(org string, mintID int) ledger.Account {
	if o.product != "" {
		return ledger.Account{OrgID: org, MintID: mintID, Kind: ledger.ProductWithdrawing, Subject: o.product}
	}
	return ledger.Account{OrgID: org, MintID: mintID, Kind: ledger.Withdrawing, Subject: o.customerID}
}

// WhitelistEntry is an entry of an organization's list of addresses that may be paid now.
type WhitelistEntry struct {
	Chain   chain.Name
	Address chain.Address // in its canonical form
}

// Whitelist says where an organization's own money may go.
type Whitelist interface {
	// Usable is an entry that may be paid as the transaction sees it, its address proven by
	// the signer. It stays usable until the transaction ends. Errors: a fault says why it
	// may not be paid, and the transaction goes on; anything else leaves that open.
	Usable(ctx context.Context, tx pg.Tx, org, listedID string) (WhitelistEntry, error)
}

// loadEntry looks an entry up; why it may not be paid is no error.
func (s *Service) loadEntry(ctx context.Context, tx pg.Tx, org, listedID string) (WhitelistEntry, *fault.Fault, error) {
	if s.Whitelist == nil || !id.IsValid("wla", listedID) {
		return WhitelistEntry{}, newUnlisted(), nil
	}
	l, err := s.Whitelist.Usable(ctx, tx, org, listedID)
	switch f := fault.Find(err); {
	case f != nil && f.Code == fault.CodeNotFound:
		return WhitelistEntry{}, newUnlisted(), nil
	case f != nil:
		return WhitelistEntry{}, f, nil
	}
	if err != nil {
		return WhitelistEntry{}, nil, fmt.Errorf("look up entry %s of the list of %s: %w", listedID, org, err)
	}
	return l, nil, nil
}

func newUnlisted() *fault.Fault {
	return fault.New(fault.Unprocessable, fault.AddressNotWhitelisted,
		"Your organization's own money goes only to addresses on its list, and this is none of them. Nothing was held and nothing was sent. Choose an address of the list, or ask the operator of this service to add one.").
		WithParam("whitelistedAddressId")
}

// OrganizationRequest is a withdrawal of the organization's own money, as a person asks
// for it.
type OrganizationRequest struct {
	Product              string // CUSTODIAL, CHECKOUT, BATCH_PAYOUT: whose balance pays
	MintID               int
	WhitelistedAddressID string // the entry of the organization's list that is paid
	Amount               string // what the destination receives: atomic units; whole tokens with UseDecimal; "" with Max
	UseDecimal           bool
	Max                  bool    // all of the balance, less the network fee where the mint is the chain's own coin
	IdempotencyKey       *string // nil: every call is a payment of its own
	Reference            *string
	Metadata             map[string]string
	// Limit, unless nil, is asked once the key is known to be new.
	Limit func() error
}

// orgRequest is what makes a Request one of the organization's own.
type orgRequest struct {
	owner
	isMax bool
}

// toRequest is the request as the verbs of customers' withdrawals take it.
func (r OrganizationRequest) toRequest(p people.Person) (Request, error) {
	if !p.IsAllowed(people.RequestWithdrawal) {
		return Request{}, fault.New(fault.Forbidden, fault.ScopeMissing,
			"To withdraw the organization's own money takes the role OWNER, ADMIN or FINANCE. Nothing was held and nothing was sent. Ask somebody who has one of them.")
	}
	return Request{
		MintID: r.MintID, Amount: r.Amount, UseDecimal: r.UseDecimal, IdempotencyKey: r.IdempotencyKey,
		Reference: r.Reference, Metadata: r.Metadata, Actor: p.Actor(), Limit: r.Limit,
		orgRequest: &orgRequest{owner: owner{product: r.Product, listedID: r.WhitelistedAddressID}, isMax: r.Max},
	}, nil
}

// RequestOrganization takes a withdrawal of the organization's own money in, for a person
// of it. It is held, decided, paid and told like a customer's, by events of its own; what
// a person asked for another one approves. replayed and errors as of Request, and faults
// SCOPE_MISSING, ADDRESS_NOT_WHITELISTED.
func (s *Service) RequestOrganization(ctx context.Context, person people.Person, r OrganizationRequest) (w webhook.Withdrawal, replayed bool, err error) {
	request, err := r.toRequest(person)
	if err != nil {
		return w, false, err
	}
	return s.Request(ctx, person.OrgID, request)
}

// PreviewOrganization is Preview of a withdrawal of the organization's own money.
func (s *Service) PreviewOrganization(ctx context.Context, person people.Person, r OrganizationRequest) (Preview, error) {
	request, err := r.toRequest(person)
	if err != nil {
		return Preview{}, err
	}
	return s.Preview(ctx, person.OrgID, request)
}

// EstimateOrganization is Estimate for a product: MaxAmount is what a withdrawal of all of
// its balance would pay now. to is an entry of the list, or "" for none in particular.
func (s *Service) EstimateOrganization(ctx context.Context, person people.Person, product string, mintID int, to string) (Estimate, error) {
	if err := checkProduct(product); err != nil {
		return Estimate{}, err
	}
	r := EstimateRequest{MintID: mintID, productOwner: &owner{product: product, listedID: to}}
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
		return fault.New(fault.Invalid, fault.InvalidRequest,
			"A product is CUSTODIAL, CHECKOUT or BATCH_PAYOUT. Nothing was held and nothing was sent. Name the one whose balance is to pay.").WithParam("product")
	}
	return nil
}

// parseOrgRequest is parse of a request for the organization's own money. Its address is not
// the caller's to say, and so no part of what makes it another payment.
func parseOrgRequest(r Request, mints mint.Catalogue, chains chain.Chains) (parsed, error) {
	var p parsed
	if err := checkProduct(r.orgRequest.product); err != nil {
		return p, err
	}
	m, err := parseMint(r.MintID, mints)
	if err != nil {
		return p, err
	}
	p.mint, p.isMax, p.deductsFee = m, r.orgRequest.isMax, m.Kind == mint.Native
	amount := "MAX"
	switch {
	case p.isMax && r.Amount != "":
		return p, fault.New(fault.Invalid, fault.InvalidAmount,
			"An amount and the maximum were asked for at once. Nothing was held and nothing was sent. Ask for one of them.").WithParam("amount")
	case !p.isMax:
		if p.amount, err = parseAmount(r.Amount, r.UseDecimal, m); err != nil {
			return p, err
		}
		amount = p.amount.String()
	}
	if err := checkHandles(r); err != nil {
		return p, err
	}
	_, p.chainRuns = chains[m.Chain]
	p.digest = orgRequestDigest(r.orgRequest.owner, m.ID, amount)
	p.restorableDigest = p.digest
	return p, nil
}

// orgRequestDigest covers what makes a request for the organization's own money another payment;
// the signer's journal knows all of it. The maximum is asked for by its name.
func orgRequestDigest(o owner, mintID int, amount string) []byte {
	h := sha256.New()
	for _, s := range []string{"coffer-withdraw-own-1", o.product, o.listedID, fmt.Sprint(mintID), amount} {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return h.Sum(nil)
}

// maxPayable is what a withdrawal of all of a product's balance pays: less the fee where that
// comes out of the same balance.
func maxPayable(balance money.Amount, m mint.Mint, fee money.Amount) money.Amount {
	if m.Kind != mint.Native {
		return balance
	}
	return subOrZero(balance, fee)
}
