// Package withdrawal is the life of a payment from a customer's balance to an
// address, or from a product's to an address on the organization's list: the request with its gates, the approval, and what dispatch tells of
// the payment until it is final.
//
// What never happens here: a row without its hold or a hold without its row, a
// refused request that wrote anything, a second row for a key, money given back
// because of a time-out. What a crash leaves: the whole request (row, hold,
// decision, order or event, audit) or none of it; a caller that saw no answer
// sends the same key again and gets the row that is there.
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

// priceAgeMax is how old a price may be and still decide about a threshold.
const priceAgeMax = 5 * time.Minute

// AddressIssuer gives the address of a wallet of ours, issued or read back and
// proven. *wallet.Service is the real one. It may be called again after any error.
type AddressIssuer interface {
	Address(ctx context.Context, w signer.WalletRef) (wallet.Wallet, error)
}

// Service takes withdrawals in. It is safe for concurrent use.
type Service struct {
	DB      *pg.DB
	Chains  chain.Chains
	Wallets AddressIssuer
	Prices  price.Source
	// Risk says who is asked about destinations; its zero value asks nobody.
	Risk risk.Policy
	// Whitelist says where an organization's own money may go; nil: nowhere.
	Whitelist Whitelist
	// GrantKey binds what was decided to the words of the payment, for the signer; nil
	// where the signer asks for nothing of the kind.
	GrantKey *signer.GrantKey
	// Voider has the signer void payments that were taken back after they had been let go.
	Voider *dispatch.Voider
	// PriceAge is how old a price of a mint may be where a dollar threshold decides;
	// nil means five minutes.
	PriceAge func(mintID int) time.Duration
	// HasPriceSource tells whether there is a source of a mint's price, whether it answers now or
	// not. Costs in a coin without one cannot be valued, and have no limit in dollars. nil:
	// there is none of any.
	HasPriceSource func(mintID int) bool
}

// The service hears of its payments from dispatch.
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
