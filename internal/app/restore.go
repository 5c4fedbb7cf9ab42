package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/sweep"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

// ImportJournal brings a database that was restored from a backup up to the signer's
// journal: see mirror.Restore. Nothing else of the installation may run. A rehearsal
// writes nothing. The service can be started when it returns without an error.
func ImportJournal(ctx context.Context, conf Config, log *slog.Logger, by audit.Actor, rehearse bool) (done mirror.Restored, err error) {
	sign, attest, closeSigner, err := OpenSigner(conf)
	if err != nil {
		return done, err
	}
	a := newApp(conf, log, closeSigner)
	defer func() { err = errors.Join(err, a.Close()) }()
	if err := a.open(ctx, sign, attest); err != nil {
		return done, err
	}
	mints, err := conf.catalogue(a.chains)
	if err != nil {
		return done, err
	}
	if err := mint.Sync(ctx, a.db, mints); err != nil {
		return done, err
	}
	done, err = mirror.Restore(ctx, a.db, a.signer, a.book, restorer(a.withdraw, by), rehearse)
	if rehearse && errors.Is(err, mirror.ErrRehearsed) {
		err = nil
	}
	if err != nil {
		return done, fmt.Errorf("import the signer's journal: %w", err)
	}
	return done, nil
}

// restoring makes again what the journal remembers, in every package that has a part.
type restoring struct {
	dispatch.Journal
	by audit.Actor
}

// Restorer is what mirror.Restore needs of the features, by the wiring of the service.
func Restorer(pay *withdrawal.Service, by audit.Actor) mirror.Restorer { return restorer(pay, by) }

func restorer(pay *withdrawal.Service, by audit.Actor) restoring {
	return restoring{dispatch.Journal{
		Features: map[signer.Purpose]dispatch.Restorer{signer.Payment: pay, signer.Sweep: sweep.Sweeps{}, signer.Gas: sweep.TopUps{}, signer.Place: sweep.Places{}, signer.Close: sweep.Closes{}, signer.Merge: sweep.Merges{}, signer.Return: &deposit.Resolutions{}},
		FeesOf:   feesOf,
		Spends: func(name chain.Name, lease string) ([]chain.Coin, error) {
			pool := pay.Chains[name].Pool
			if pool == nil {
				return nil, fmt.Errorf("%s is not configured to send", name)
			}
			return pool.Spends(lease)
		},
	}, by}
}

// feesOf reads the fees of an unsigned transaction.
func feesOf(name chain.Name, payload []byte) (chain.Fees, error) {
	switch name.Family() {
	case chain.EVM:
		tx, err := evmtx.Decode(payload)
		return chain.Fees{GasLimit: tx.Gas, TipCap: tx.TipCap, FeeCap: tx.FeeCap}, err
	case chain.SolanaFamily:
		if made, err := solanatx.DecodeNonceCreation(payload); err == nil {
			return chain.Fees{Beside: made.MaxCost()}, nil
		}
		tx, err := solanatx.Decode(payload)
		if err != nil {
			return chain.Fees{}, err
		}
		return chain.Fees{GasLimit: uint64(tx.Limit), TipCap: money.Units(tx.Price), Beside: tx.MaxCost()}, nil
	}
	if name.Family() == chain.BitcoinFamily {
		tx, err := bitcointx.Decode(payload)
		if err != nil {
			return chain.Fees{}, err
		}
		// The rate is that of the whole fee: what replaces it has to pay more than that.
		fee, size := tx.Fee(), tx.Size()
		paid, _ := fee.Uint64()
		rate := min(paid*1000/max(size, 1), bitcointx.RateMax)
		return chain.Fees{GasLimit: size, TipCap: money.Units(rate), Beside: fee}, nil
	}
	return chain.Fees{}, fmt.Errorf("transactions of %s cannot be read", name)
}

// Organizations implements mirror.Restorer.
func (restoring) Organizations(ctx context.Context, tx pg.Tx, ids []string) error {
	return org.Restore(ctx, tx, ids)
}

// Orders implements mirror.Restorer.
func (r restoring) Orders(ctx context.Context, tx pg.Tx, all []mirror.Remembered) error {
	return r.Restore(ctx, tx, all)
}

// Reopen implements mirror.Restorer: events go on past every number that the lost
// database may have given, and what stopped because the database was older than the
// journal stops no longer.
func (r restoring) Reopen(ctx context.Context, tx pg.Tx, last time.Time) error {
	at := tx.Now
	if at.Before(last) {
		at = last // a clock that was set back
	}
	if err := event.Jump(ctx, tx, at); err != nil {
		return err
	}
	standing, err := freeze.List(ctx, tx)
	if err != nil {
		return err
	}
	for _, f := range standing {
		if f.Source == freeze.BySigner {
			if err := freeze.Lift(ctx, tx, f.ID, r.by); err != nil {
				return err
			}
		}
	}
	return audit.Record(ctx, tx, audit.Entry{
		Actor: r.by, Action: "journal.imported", ResourceKind: "JOURNAL", ResourceID: "signer", Detail: map[string]any{"resumedAt": at.UnixMicro()},
	})
}
