package deposit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// AddressIssuer returns the wallet of a reference, newly issued or read back, with a verified
// attestation. wallet.Service implements it.
type AddressIssuer interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
}

// AddressService issues deposit addresses. It is safe for concurrent use.
type AddressService struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets AddressIssuer

	// Actor is the audit actor under which customers are created; the zero value is the
	// organization's main key. An e-mail that comes with UntrustedEmail counts for no rule until
	// its cooling-off is over.
	Actor          audit.Actor
	UntrustedEmail bool
}

// IssuedAddress is an issued deposit address.
type IssuedAddress struct {
	Customer     customer.Customer // zero for a product
	EmailIgnored bool              // the customer keeps another, known e-mail
	Mint         mint.Mint
	Address      chain.Address
	PaymentURI   string // a link that wallets open
}

// IssueForCustomer returns the address at which a customer pays in a mint. A customer has one
// address for each chain, and every call returns the same one. The first use creates the customer.
// The e-mail ("" for none) is stored if the customer has none. Errors: the faults of
// customer.CheckNewID and CheckEmail, MINT_NOT_FOUND and DEPOSITS_SUSPENDED; these have written
// nothing. Any other error can be retried. Rule DEP-1.
func (c *AddressService) IssueForCustomer(
	ctx context.Context, org string, mintID int, customerID, email string,
) (IssuedAddress, error) {
	var empty IssuedAddress
	if err := customer.CheckID(customerID); err != nil {
		return empty, err
	}
	if email != "" {
		if err := customer.CheckEmail(email); err != nil {
			return empty, err
		}
	}
	m, err := c.loadOpenMint(ctx, org, mintID)
	if err != nil {
		return empty, err
	}
	var issued IssuedAddress
	// The customer is stored before the address is issued, so a known address always has an owner.
	err = c.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if invalid := customer.CheckNewID(customerID); invalid != nil {
			if _, err := customer.ByID(ctx, tx, org, customerID); fault.HasCode(err, fault.CodeNotFound) {
				return invalid
			} else if err != nil {
				return err
			}
		}
		issued.Customer, issued.EmailIgnored, err = customer.EnsureBy(
			ctx, tx, org, customerID, email, cmp.Or(c.Actor, audit.APIKey(org)), !c.UntrustedEmail,
		)
		return err
	})
	if err != nil {
		return empty, err
	}
	issued, err = c.issueAddress(
		ctx, issued, m, signer.WalletRef{OrgID: org, Purpose: wallet.CustomerDeposit, Subject: customerID},
	)
	return issued, err
}

// IssueForProduct returns the address at which an organization pays in a mint for a product of its
// own. A product has one address for each chain, and every call returns the same one. Errors:
// MINT_NOT_FOUND, DEPOSITS_SUSPENDED, and INVALID_REQUEST for an unknown product. Rule DEP-24.
func (c *AddressService) IssueForProduct(
	ctx context.Context, org string, mintID int, product string,
) (IssuedAddress, error) {
	if !slices.Contains(ledger.Products, product) {
		return IssuedAddress{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The products are %s.", strings.Join(ledger.Products, ", ")).
			WithAdvice("Give one of them.").WithParam("product")
	}
	m, err := c.loadOpenMint(ctx, org, mintID)
	if err != nil {
		return IssuedAddress{}, err
	}
	return c.issueAddress(
		ctx, IssuedAddress{}, m, signer.WalletRef{OrgID: org, Purpose: wallet.OrganizationDeposit, Subject: product},
	)
}

// loadOpenMint returns a mint for which addresses are issued. Errors: MINT_NOT_FOUND,
// DEPOSITS_SUSPENDED.
func (c *AddressService) loadOpenMint(ctx context.Context, org string, mintID int) (mint.Mint, error) {
	var mints mint.Catalogue
	err := c.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	if err != nil {
		return mint.Mint{}, err
	}
	m, ok := mints.ByID(mintID)
	if !ok {
		return m, fault.New(fault.Invalid, fault.MintNotFound, fault.NothingWritten,
			"Mint %d does not exist.", mintID).
			WithStep(fault.ListMints).WithParam("mintId")
	}
	if _, isRunning := c.Chains[m.Chain]; !isRunning || !m.DepositEnabled || m.Quarantined {
		return m, fault.New(fault.Unprocessable, fault.DepositsSuspended, fault.NothingWritten,
			"The service gives out no addresses for %s on %s now. Deposits to earlier addresses still "+
				"count.", m.Symbol, m.Chain).
			WithAdvice("Use another mint, or ask the operator of this service.").WithParam("mintId")
	}
	return m, nil
}

// issueAddress issues or reads back the address of a wallet on the mint's chain. Rule DEP-44.
func (c *AddressService) issueAddress(
	ctx context.Context, issued IssuedAddress, m mint.Mint, ref signer.WalletRef,
) (IssuedAddress, error) {
	ref.Family, ref.Form = m.Chain.Family(), c.Chains[m.Chain].Addresses
	w, err := c.Wallets.Address(ctx, ref)
	if err != nil {
		return IssuedAddress{}, fmt.Errorf("deposit address on %s: %w", m.Chain, err)
	}
	issued.Mint, issued.Address = m, w.Address
	issued.PaymentURI = c.Chains[m.Chain].AddressCodec.PaymentURI(w.Address, m.Contract)
	return issued, nil
}

// WalletLister lists wallets that were issued already, with verified attestations. wallet.Service
// implements it.
type WalletLister interface {
	ListBySubjects(
		ctx context.Context, tx pg.Tx, org, purpose string, families []chain.Family, subjects []string,
	) ([]wallet.Wallet, error)
}

// ProductAddress is an address at which a product of an organization receives a mint.
type ProductAddress struct {
	Product    string
	Mint       mint.Mint
	Address    chain.Address
	PaymentURI string
	// IsOpen reports whether IssueForProduct gives the address out now. What arrives counts in any case.
	IsOpen bool
}

// ListProductAddresses returns the addresses that IssueForProduct gave out, by product and mint. An
// address receives every mint on the chains of its family that run here. The function issues no address.
// Rules DEP-24 and PAGE-18.
func ListProductAddresses(
	ctx context.Context, tx pg.Tx, wallets WalletLister, chains chain.Chains, org string,
) ([]ProductAddress, error) {
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return nil, err
	}
	var families []chain.Family
	for name := range chains {
		if !slices.Contains(families, name.Family()) {
			families = append(families, name.Family())
		}
	}
	issued, err := wallets.ListBySubjects(ctx, tx, org, wallet.OrganizationDeposit, families, ledger.Products)
	if err != nil {
		return nil, err
	}
	var found []ProductAddress
	for _, w := range issued {
		for _, m := range mints.List(mint.Filter{}) {
			ch, isRunning := chains[m.Chain]
			if !isRunning || m.Chain.Family() != w.Family {
				continue
			}
			found = append(found, ProductAddress{
				Product: w.Subject, Mint: m, Address: w.Address,
				PaymentURI: ch.AddressCodec.PaymentURI(w.Address, m.Contract),
				IsOpen:     m.DepositEnabled && !m.Quarantined,
			})
		}
	}
	slices.SortFunc(found, func(a, b ProductAddress) int {
		return cmp.Or(cmp.Compare(a.Mint.ID, b.Mint.ID), cmp.Compare(a.Product, b.Product))
	})
	return found, nil
}
