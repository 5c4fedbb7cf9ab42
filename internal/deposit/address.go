package deposit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// AddressIssuer gives the address of a wallet of ours, issued or read back and proven.
// wallet.Service is one.
type AddressIssuer interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
}

// AddressService hands out deposit addresses. Safe for concurrent use.
type AddressService struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets AddressIssuer

	// Actor is in whose name customers are made; the zero value is the organization's main key. An
	// e-mail that comes with UntrustedEmail counts for no rule until its cooling-off is over.
	Actor          audit.Actor
	UntrustedEmail bool
}

// IssuedAddress is an address that was handed out.
type IssuedAddress struct {
	Customer     customer.Customer // none for a product
	EmailIgnored bool              // another e-mail is known for the customer and stays
	Mint         mint.Mint
	Address      chain.Address
	PaymentURI   string // a link that wallets open
}

// IssueForCustomer is where a customer pays in a mint: one address for a customer and
// chain, the same on every call. The customer is made on first use; the e-mail
// ("" for none) is written where none is known. Errors: the faults of
// customer.CheckNewID and CheckEmail, MINT_NOT_FOUND, DEPOSITS_SUSPENDED, after
// which nothing was written; anything else may be repeated.
func (c *AddressService) IssueForCustomer(ctx context.Context, org string, mintID int, customerID, email string) (IssuedAddress, error) {
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
	// The customer first: an address that somebody knows always has an owner.
	err = c.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if invalid := customer.CheckNewID(customerID); invalid != nil {
			if _, err := customer.ByID(ctx, tx, org, customerID); fault.HasCode(err, fault.CodeNotFound) {
				return invalid
			} else if err != nil {
				return err
			}
		}
		issued.Customer, issued.EmailIgnored, err = customer.EnsureBy(ctx, tx, org, customerID, email, cmp.Or(c.Actor, audit.APIKey(org)), !c.UntrustedEmail)
		return err
	})
	if err != nil {
		return empty, err
	}
	issued, err = c.issueAddress(ctx, issued, m, signer.WalletRef{OrgID: org, Purpose: wallet.CustomerDeposit, Subject: customerID})
	return issued, err
}

// IssueForProduct is where an organization pays in a mint for a product of its own: one
// address for a product and chain, the same on every call. Errors: those of Address.
func (c *AddressService) IssueForProduct(ctx context.Context, org string, mintID int, product string) (IssuedAddress, error) {
	if !slices.Contains(ledger.Products, product) {
		return IssuedAddress{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"The products are %s. No address was given out and no money moved. Give one of them.", strings.Join(ledger.Products, ", ")).WithParam("product")
	}
	m, err := c.loadOpenMint(ctx, org, mintID)
	if err != nil {
		return IssuedAddress{}, err
	}
	return c.issueAddress(ctx, IssuedAddress{}, m, signer.WalletRef{OrgID: org, Purpose: wallet.OrganizationDeposit, Subject: product})
}

// loadOpenMint is a mint that addresses are given out for.
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
		return m, fault.New(fault.Invalid, fault.MintNotFound,
			"There is no mint %d. No address was given out and no money moved. GET /mints lists the ones there are.", mintID).WithParam("mintId")
	}
	if _, isRunning := c.Chains[m.Chain]; !isRunning || !m.DepositEnabled || m.Quarantined {
		return m, fault.New(fault.Unprocessable, fault.DepositsSuspended,
			"No addresses are given out for %s on %s at the moment. No money moved, and addresses that were given out before are still watched. Use another mint, or ask the operator of this service.",
			m.Symbol, m.Chain).WithParam("mintId")
	}
	return m, nil
}

// issueAddress issues or reads back the address of a wallet on the mint's chain.
func (c *AddressService) issueAddress(ctx context.Context, issued IssuedAddress, m mint.Mint, ref signer.WalletRef) (IssuedAddress, error) {
	ref.Family, ref.Form = m.Chain.Family(), c.Chains[m.Chain].Addresses
	w, err := c.Wallets.Address(ctx, ref)
	if err != nil {
		return IssuedAddress{}, fmt.Errorf("deposit address on %s: %w", m.Chain, err)
	}
	issued.Mint, issued.Address = m, w.Address
	issued.PaymentURI = c.Chains[m.Chain].AddressCodec.PaymentURI(w.Address, m.Contract)
	return issued, nil
}
