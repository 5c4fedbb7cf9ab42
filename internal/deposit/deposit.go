// Package deposit records money that arrives: from the first block that shows it, through finality
// and screening, to the customer's balance and the event that announces it.
//
// Everything that reaches one of our addresses is a deposit, except what our own wallets send:
//   - An address of a customer credits the customer.
//   - An address of a product credits the organization.
//   - Native coin at a treasury is the operator's, for fees.
//   - What reaches a wallet of a swap is what the rows of the swap say: see settle.go.
//   - Everything else waits in the suspense account.
//
// The package never
//   - credits a deposit whose block is not proven final
//   - credits a deposit that the balance does not show
//   - credits a wallet whose attestation does not hold
//   - credits a movement twice
//   - calls the network inside a transaction
//
// It takes a credit back only if finality itself broke: see reorg.go. A crash leaves deposits in
// the state of their last commit, and the next run continues from there.
package deposit

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/trace"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// systemActor is the audit actor of changes that no person makes.
var systemActor = audit.System("deposit")

// resourceKind names deposits in events and in the audit log.
const resourceKind = "DEPOSIT"

// WalletService verifies that our signer issued a wallet and loads the treasury of an organization.
// *wallet.Service implements it.
type WalletService interface {
	VerifyAttestation(wallet.Wallet) error
	Treasury(ctx context.Context, org string, f chain.Family) (wallet.Wallet, error)
}

// Service records deposits, credits them and resolves those that screening flags. The first
// decision about a flagged deposit wins. It is safe for concurrent use, by any number of processes.
type Service struct {
	DB      *pg.DB
	Chains  chain.Chains // if a sender's chain is missing or gives no answer, the sender counts as a contract
	Wallets WalletService
	Owners  Owners // of arrivals, by the purpose of the wallet; NewOwners makes them
	Events  event.Recorder
	// Prices value deposits for the thresholds; a missing price counts as above every threshold.
	// Where no threshold is set, the price is for display only. Decisions need no prices.
	Prices price.Source
	// PriceAge returns the maximum age of a mint's price for decisions and for display; nil: five
	// minutes for every mint.
	PriceAge func(mintID int) time.Duration
	// Risk configures the screening of deposits; its zero value screens nothing.
	Risk risk.Policy
	// GrantKey is not in the database. It adds a MAC to each flag, and no deposit returns whose
	// sender was changed after it was flagged. It also signs each decision together with the terms
	// of its transfer, so the signer can check it: write access to the database alone cannot send a
	// deposit anywhere. nil in a process that neither flags nor resolves deposits, and in tests of
	// other subjects.
	GrantKey *signer.GrantKey
	// Voider has the signer void earlier decisions that were refused, so no deposit is credited while
	// its return could still be paid; nil if there are none.
	Voider *dispatch.Voider
	// BlockSanctioned refuses every Reject of a deposit whose sender is itself on a sanctions list,
	// for all actors. Returning blocked property may be forbidden. Redirect stays possible.
	BlockSanctioned bool
	// Approvers says which returns people have to sign; nil: none.
	Approvers Approvers
	// ReturnPage returns the page on which people sign the return of a deposit; nil: unknown.
	ReturnPage func(depositID string) string
	// RedirectPage returns the page on which operators sign the redirect of a deposit; nil: unknown.
	RedirectPage func(depositID string) string
	Log          *slog.Logger

	lastDecided sync.Map // chain.Name -> hash of the block that decideBlock saw last
	// orphansWarned has when each arrival was last logged that waits for the row of its deposit swap, by deposit.
	orphansWarned sync.Map
	arrivals      arrivalsWake
}

// Service listens to the walks of the chains, to broken finality, and to the orders that send a
// flagged deposit away.
var (
	_ scan.Listener            = (*Service)(nil)
	_ finality.Listener        = (*Service)(nil)
	_ dispatch.Listener        = (*Service)(nil)
	_ dispatch.FundsListener   = (*Service)(nil)
	_ dispatch.VoidListener    = (*Service)(nil)
	_ dispatch.RestoreListener = (*Service)(nil)
)

// creditPollInterval is the pause between two searches for deposits to credit.
const creditPollInterval = 500 * time.Millisecond

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}

// Run credits final deposits and settles those whose finality broke, until ctx ends. It returns
// nil.
func (s *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(creditPollInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		n, err := s.CreditWaiting(ctx)
		if n > 0 || err != nil {
			trace.StartSince(ctx, "deposit credit", began).End(err)
		}
		if err != nil && ctx.Err() == nil {
			s.Log.Warn("deposit: crediting stopped early", "error", err)
		}
		if err := s.SettleReorgs(ctx); err != nil && ctx.Err() == nil {
			s.Log.Warn("deposit: settling a finality break stopped early", "error", err)
		}
		timer.Reset(creditPollInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}
