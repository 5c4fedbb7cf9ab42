// Package withdrawal takes a payment from a customer's balance to an address, or from a product's
// balance to an address on the organization's whitelist. It handles the request with its gates, the
// approval, and what dispatch reports about the payment until it is final.
//
// Invariants:
//
//   - A row has its hold, and a hold has its row.
//   - A refused request writes nothing.
//   - A key has at most one row.
//   - A time-out never releases a hold.
//
// After a crash the whole request is there (row, hold, decision, order or event, audit) or none of
// it. A caller that saw no answer sends the same key again and gets the existing row.
package withdrawal

import (
	"context"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// priceAgeMax is how old a price may be to decide about a threshold.
const priceAgeMax = 5 * time.Minute

// AddressIssuer returns the address of a wallet of this installation, issued or read back, and
// proven. *wallet.Service implements it. The call may be repeated after any error.
type AddressIssuer interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
}

// Service accepts withdrawals and carries them to their end. It is safe for concurrent use.
type Service struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets AddressIssuer
	Prices  price.Source
	// Risk configures the screening of destinations; its zero value screens nothing.
	Risk risk.Policy
	// Whitelist says where an organization's own money may go; nil: to no address.
	Whitelist Whitelist
	// GrantKey binds a decision to the terms of the payment, for the signer; nil if the signer
	// requires no grants.
	GrantKey *signer.GrantKey
	// Voider has the signer void payments that were taken back after they had been let go.
	Voider *dispatch.Voider
	// PriceAge returns the greatest age of a mint's price that decides about a threshold; nil: five
	// minutes for every mint.
	PriceAge func(mintID int) time.Duration
	// HasPriceSource reports whether a mint has a price source, which need not answer now. Costs in
	// a coin without a source have no value and no limit in dollars. nil: no mint has one.
	HasPriceSource func(mintID int) bool
}

// Service implements the listeners of dispatch.
var (
	_ dispatch.Listener          = (*Service)(nil)
	_ dispatch.FeeChangeListener = (*Service)(nil)
	_ dispatch.Reviewer          = (*Service)(nil)
	_ dispatch.VoidListener      = (*Service)(nil)
)

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}
