// Package deposit records money that arrives: from the first block that shows it, through finality
// and screening, to the customer's balance and the event that announces it.
//
// Everything that reaches one of our addresses is a deposit, except what our own wallets send:
//   - An address of a customer credits the customer.
//   - An address of a product credits the organization.
//   - Native coin at a treasury is the operator's, for fees.
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

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/trace"
	"github.com/cofferpay/coffer/internal/wallet"
)

// systemActor is the audit actor of changes that no person makes.
var systemActor = audit.System("deposit")

// resourceKind names deposits in events and in the audit log.
const resourceKind = "DEPOSIT"

// WalletVerifier verifies that our signer issued a wallet. wallet.Service implements it.
type WalletVerifier interface{ VerifyAttestation(wallet.Wallet) error }

// WalletService also loads the treasury of an organization. *wallet.Service implements it.
type WalletService interface {
	WalletVerifier
	Treasury(ctx context.Context, org string, f chain.Family) (wallet.Wallet, error)
}

// Service records deposits and credits them. It implements scan.Listener. It is safe for concurrent
// use, by any number of processes.
type Service struct {
	db           *pg.DB
	wallets      WalletVerifier
	prices       price.Source
	policy       risk.Policy
	grantKey     *signer.GrantKey // nil in tests of other subjects
	log          *slog.Logger
	pollInterval time.Duration
	ageOf        func(mintID int) time.Duration
	chains       chain.Chains
	lastDecided  sync.Map // chain.Name -> hash of the block that decideBlock saw last
}

var _ scan.Listener = (*Service)(nil)

// defaultPollInterval is the pause between two searches for deposits to credit.
const defaultPollInterval = 500 * time.Millisecond

// Option configures a Service.
type Option func(*Service)

// WithFlagKey adds a MAC to each flag, with a key that is not in the database. Resolutions has the
// same key and returns no deposit whose sender was changed after it was flagged.
func WithFlagKey(k *signer.GrantKey) Option { return func(d *Service) { d.grantKey = k } }

// WithPriceAge sets the maximum age of a mint's price for decisions and for display. The default is
// five minutes.
func WithPriceAge(ageOf func(mintID int) time.Duration) Option {
	return func(d *Service) { d.ageOf = ageOf }
}

// WithChains sets the chains that are asked whether a sender is a contract. If the chain does not
// answer or is not among them, the sender counts as a contract.
func WithChains(chains chain.Chains) Option {
	return func(d *Service) { d.chains = chains }
}

// New returns a Service. A missing price counts as above every threshold. Where no threshold is
// set, the price is for display only.
func New(
	db *pg.DB, wallets WalletVerifier, prices price.Source, policy risk.Policy, log *slog.Logger, options ...Option,
) *Service {
	d := &Service{
		db: db, wallets: wallets, prices: prices, policy: policy, log: log, pollInterval: defaultPollInterval,
		ageOf: func(int) time.Duration { return priceAgeMax },
	}
	for _, apply := range options {
		apply(d)
	}
	return d
}

// Run credits final deposits and settles those whose finality broke, until ctx ends. It returns
// nil.
func (d *Service) Run(ctx context.Context) error {
	timer := time.NewTimer(d.pollInterval)
	defer timer.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		n, err := d.CreditWaiting(ctx)
		if n > 0 || err != nil {
			trace.StartSince(ctx, "deposit credit", began).End(err)
		}
		if err != nil && ctx.Err() == nil {
			d.log.Warn("deposit: crediting stopped early", "error", err)
		}
		if err := d.SettleReorgs(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("deposit: settling a finality break stopped early", "error", err)
		}
		timer.Reset(d.pollInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}
