// Package deposit is what becomes of money that arrives: from the first block
// that shows it, through finality and screening, to the customer's balance and
// the event that tells of it.
//
// Everything that reaches an address of ours is a deposit, except what our own
// wallets send. A customer's address credits the customer, a product's the
// organization; native coin on a treasury is the operator's, for fees; anything
// else waits in suspense.
//
// What never happens here: a credit of what is not proven final, of what the
// balance does not show, or to a wallet whose proof does not hold; a movement
// credited twice; a network call. What was credited is taken back only when
// finality itself broke: see broken.go. What a crash leaves: deposits in the state of
// their last commit; the next run goes on from there.
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

// systemActor is who changes deposits when no person does.
var systemActor = audit.System("deposit")

// resourceKind names deposits in events and in the audit log.
const resourceKind = "DEPOSIT"

// WalletVerifier says whether a wallet is one that our signer has issued.
// wallet.Service is one.
type WalletVerifier interface{ VerifyAttestation(wallet.Wallet) error }

// WalletService also knows an organization's treasury. It is a *wallet.Service.
type WalletService interface {
	WalletVerifier
	Treasury(ctx context.Context, org string, f chain.Family) (wallet.Wallet, error)
}

// Service takes deposits in and credits them. It is a scan.Listener. Safe for
// concurrent use, by any number of processes.
type Service struct {
	db           *pg.DB
	wallets      WalletVerifier
	prices       price.Source
	policy       risk.Policy
	grantKey     *signer.GrantKey // nil: none, as in tests of other things
	log          *slog.Logger
	pollInterval time.Duration
	ageOf        func(mintID int) time.Duration
	chains       chain.Chains
	lastDecided  sync.Map // chain.Name -> hash of the block that was observed last
}

var _ scan.Listener = (*Service)(nil)

// defaultPollInterval is the pause between two looks for what is to be credited.
const defaultPollInterval = 500 * time.Millisecond

// Option changes how deposits are taken in.
type Option func(*Service)

// WithFlagKey binds each flag to its words by a key that is not in the database: Resolutions,
// which have the same one, send nothing back whose sender was changed since.
func WithFlagKey(k *signer.GrantKey) Option { return func(d *Service) { d.grantKey = k } }

// WithPriceAge says how old a price of a mint may be and still decide, or be shown; without
// it, five minutes.
func WithPriceAge(ageOf func(mintID int) time.Duration) Option {
	return func(d *Service) { d.ageOf = ageOf }
}

// WithChains says where to ask whether a sender is a contract; of whom nobody can say, as
// on a chain that is not here, it is taken for one.
func WithChains(chains chain.Chains) Option {
	return func(d *Service) { d.chains = chains }
}

// New makes a desk. A missing price counts as above every threshold; where none is
// set it is for display only.
func New(db *pg.DB, wallets WalletVerifier, prices price.Source, policy risk.Policy, log *slog.Logger, options ...Option) *Service {
	d := &Service{
		db: db, wallets: wallets, prices: prices, policy: policy, log: log, pollInterval: defaultPollInterval,
		ageOf: func(int) time.Duration { return priceAgeMax },
	}
	for _, apply := range options {
		apply(d)
	}
	return d
}

// Run credits what is final, and takes back what is final no more, until ctx
// ends; it returns nil.
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
			d.log.Warn("deposit: crediting stopped short", "error", err)
		}
		if err := d.SettleReorgs(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("deposit: settling a broken finality stopped short", "error", err)
		}
		timer.Reset(d.pollInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}
