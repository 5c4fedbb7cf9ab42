package deposit

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
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
}

// Given is an address that was handed out.
type Given struct {
	Customer     customer.Customer
	EmailIgnored bool // another e-mail is known for the customer and stays
	Mint         mint.Mint
	Address      chain.Address
	PaymentURI   string // a link that wallets open
}

// Address is where a customer pays in a mint: one address for a customer and
// chain, the same on every call. The customer is made on first use; the e-mail
// ("" for none) is written where none is known. Errors: the faults of
// customer.CheckID and CheckEmail, MINT_NOT_FOUND, DEPOSITS_SUSPENDED, after
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
	var mints mint.Catalogue
	err := c.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		mints, err = mint.All(ctx, tx)
		return err
	})
	if err != nil {
		return none, err
	}
	m, ok := mints.ByID(mintID)
	if !ok {
		return none, fault.New(fault.Invalid, fault.MintNotFound,
			"There is no mint %d. No address was given out and no money moved. GET /mints lists the ones there are.", mintID).On("mintId")
	}
	on, runs := c.Chains[m.Chain]
	if !runs || !m.DepositEnabled || m.Quarantined {
		return none, fault.New(fault.Unprocessable, fault.DepositsSuspended,
			"No addresses are given out for %s on %s at the moment. No money moved, and addresses that were given out before are still watched. Use another mint, or ask the operator of this service.",
			m.Symbol, m.Chain).On("mintId")
	}
	given := Given{Mint: m}
	// The customer first: an address that somebody knows always has an owner.
	err = c.DB.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		given.Customer, given.EmailIgnored, err = customer.Ensure(ctx, tx, org, customerID, email)
		return err
	})
	if err != nil {
		return none, err
	}
	w, err := c.Wallets.Address(ctx, signer.WalletRef{
		OrgID: org, Family: m.Chain.Family(), Purpose: wallet.CustomerDeposit, Subject: customerID,
	})
	if err != nil {
		return none, fmt.Errorf("deposit address on %s: %w", m.Chain, err)
	}
	given.Address, given.PaymentURI = w.Address, on.Grammar.PaymentURI(w.Address, m.Contract)
	return given, nil
}
