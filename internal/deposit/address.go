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

// Issuer gives the address of a wallet of ours, issued or read back and proven.
// wallet.Book is one.
type Issuer interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
}

// Counter hands out deposit addresses. Safe for concurrent use.
type Counter struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets Issuer

	// By is in whose name customers are made; the zero value is the organization's main key. An
	// e-mail that comes with UntrustedEmail counts for no rule until its cooling-off is over.
	By             audit.Actor
	UntrustedEmail bool
}

// Given is an address that was handed out.
type Given struct {
	Customer     customer.Customer // none for a product
	EmailIgnored bool              // another e-mail is known for the customer and stays
	Mint         mint.Mint
	Address      chain.Address
	PaymentURI   string // a link that wallets open
}

// Address is where a customer pays in a mint: one address for a customer and
// chain, the same on every call. The customer is made on first use; the e-mail
// ("" for none) is written where none is known. Errors: the faults of
// customer.CheckNewID and CheckEmail, MINT_NOT_FOUND, DEPOSITS_SUSPENDED, after
// which nothing was written; anything else may be repeated.
func (c *Counter) Address(ctx context.Context, org string, mintID int, customerID, email string) (Given, error) {
	var none Given
	if err := customer.CheckID(customerID); err != nil {
		return none, err
	}
	if email != "" {
		if err := customer.CheckEmail(email); err != nil {
			return none, err
		}
	}
	m, err := c.open(ctx, org, mintID)
	if err != nil {
		return none, err
	}
	var given Given
	// The customer first: an address that somebody knows always has an owner.
	err = c.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if refused := customer.CheckNewID(customerID); refused != nil {
			if _, err := customer.ByID(ctx, tx, org, customerID); fault.Is(err, fault.CodeNotFound) {
				return refused
			} else if err != nil {
				return err
			}
		}
		given.Customer, given.EmailIgnored, err = customer.EnsureBy(ctx, tx, org, customerID, email, cmp.Or(c.By, audit.APIKey(org)), !c.UntrustedEmail)
		return err
	})
	if err != nil {
		return none, err
	}
	given, err = c.give(ctx, given, m, signer.WalletRef{OrgID: org, Purpose: wallet.CustomerDeposit, Subject: customerID})
	return given, err
}

// OfProduct is where an organization pays in a mint for a product of its own: one
// address for a product and chain, the same on every call. Errors: those of Address.
func (c *Counter) OfProduct(ctx context.Context, org string, mintID int, product string) (Given, error) {
	if !slices.Contains(ledger.Products, product) {
		return Given{}, fault.New(fault.Invalid, fault.InvalidRequest,
			"The products are %s. No address was given out and no money moved. Give one of them.", strings.Join(ledger.Products, ", ")).On("product")
	}
	m, err := c.open(ctx, org, mintID)
	if err != nil {
		return Given{}, err
	}
	return c.give(ctx, Given{}, m, signer.WalletRef{OrgID: org, Purpose: wallet.OrganizationDeposit, Subject: product})
}

// open is a mint that addresses are given out for.
func (c *Counter) open(ctx context.Context, org string, mintID int) (mint.Mint, error) {
	var mints mint.Catalogue
	err := c.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.All(ctx, tx)
		return err
	})
	if err != nil {
		return mint.Mint{}, err
	}
	m, ok := mints.ByID(mintID)
	if !ok {
		return m, fault.New(fault.Invalid, fault.MintNotFound,
			"There is no mint %d. No address was given out and no money moved. GET /mints lists the ones there are.", mintID).On("mintId")
	}
	if _, runs := c.Chains[m.Chain]; !runs || !m.DepositEnabled || m.Quarantined {
		return m, fault.New(fault.Unprocessable, fault.DepositsSuspended,
			"No addresses are given out for %s on %s at the moment. No money moved, and addresses that were given out before are still watched. Use another mint, or ask the operator of this service.",
			m.Symbol, m.Chain).On("mintId")
	}
	return m, nil
}

// give issues or reads back the address of a wallet on the mint's chain.
func (c *Counter) give(ctx context.Context, given Given, m mint.Mint, ref signer.WalletRef) (Given, error) {
	ref.Family, ref.Form = m.Chain.Family(), c.Chains[m.Chain].Addresses
	w, err := c.Wallets.Address(ctx, ref)
	if err != nil {
		return Given{}, fmt.Errorf("deposit address on %s: %w", m.Chain, err)
	}
	given.Mint, given.Address = m, w.Address
	given.PaymentURI = c.Chains[m.Chain].Grammar.PaymentURI(w.Address, m.Contract)
	return given, nil
}
