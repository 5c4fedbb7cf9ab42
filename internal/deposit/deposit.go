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

// actor is who changes deposits when no person does.
var actor = audit.System("deposit")

// resourceKind names deposits in events and in the audit log.
const resourceKind = "DEPOSIT"

// Prover says whether a wallet is one that our signer has issued.
// wallet.Book is one.
type Prover interface{ Prove(wallet.Wallet) error }

// Book also knows an organization's treasury. It is a *wallet.Book.
type Book interface {
	Prover
	Treasury(ctx context.Context, org string, f chain.Family) (wallet.Wallet, error)
}

// Desk takes deposits in and credits them. It is a scan.Listener. Safe for
// concurrent use, by any number of processes.
type Desk struct {
	db      *pg.DB
	wallets Prover
	prices  price.Source
	screens risk.Policy
	grants  *signer.GrantKey // nil: none, as in tests of other things
	log     *slog.Logger
	poll    time.Duration
	ageOf   func(mintID int) time.Duration
	chains  chain.Chains
	tried   sync.Map // chain.Name -> hash of the block that was observed last
}

var _ scan.Listener = (*Desk)(nil)

// pollDefault is the pause between two looks for what is to be credited.
const pollDefault = 500 * time.Millisecond

// DeskOption changes how deposits are taken in.
type DeskOption func(*Desk)

// Bound binds each flag to its words by a key that is not in the database: Resolutions,
// which have the same one, send nothing back whose sender was changed since.
func Bound(k *signer.GrantKey) DeskOption { return func(d *Desk) { d.grants = k } }

// PriceAge says how old a price of a mint may be and still decide, or be shown; without
// it, five minutes.
func PriceAge(of func(mintID int) time.Duration) DeskOption {
	return func(d *Desk) { d.ageOf = of }
}

// Senders says where to ask whether a sender is a contract; of whom nobody can say, as
// on a chain that is not here, it is taken for one.
func Senders(on chain.Chains) DeskOption {
	return func(d *Desk) { d.chains = on }
}

// New makes a desk. A missing price counts as above every threshold; where none is
// set it is for display only.
func New(db *pg.DB, wallets Prover, prices price.Source, screens risk.Policy, log *slog.Logger, options ...DeskOption) *Desk {
	d := &Desk{
		db: db, wallets: wallets, prices: prices, screens: screens, log: log, poll: pollDefault,
		ageOf: func(int) time.Duration { return priceAgeMax },
	}
	for _, change := range options {
		change(d)
	}
	return d
}

// Run credits what is final, and takes back what is final no more, until ctx
// ends; it returns nil.
func (d *Desk) Run(ctx context.Context) error {
	timer := time.NewTimer(d.poll)
	defer timer.Stop()
	for ctx.Err() == nil {
		began := time.Now()
		n, err := d.Credit(ctx)
		if n > 0 || err != nil {
			trace.Since(ctx, "deposit credit", began).End(err)
		}
		if err != nil && ctx.Err() == nil {
			d.log.Warn("deposit: crediting stopped short", "error", err)
		}
		if err := d.Settle(ctx); err != nil && ctx.Err() == nil {
			d.log.Warn("deposit: settling a broken finality stopped short", "error", err)
		}
		timer.Reset(d.poll)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return nil
}
