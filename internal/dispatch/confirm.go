package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/wallet"
)

// settleSlot looks for a slot's transaction in a block and ends the order once that block is proven
// final. Rules WD-7 and WD-9.
func (d *Worker) settleSlot(
	ctx context.Context, payer wallet.Wallet, s slot, acct chain.Account,
) (busy bool, err error) {
	payments := s.chainPayments(payer.Address)
	outcome, err := d.chain.Sender.Outcome(ctx, s.signedHashes(), payments...)
	if errors.Is(err, chain.ErrNotYet) {
		return false, nil // no provider has the results of its block yet
	}
	if err != nil {
		return false, fmt.Errorf("look up its transaction: %w", err)
	}
	if outcome == nil && s.Kind().Expires {
		return d.slots.followExpiring(ctx, payer, s)
	}
	if outcome == nil {
		return false, d.checkUnknownUse(ctx, payer, s, acct)
	}
	if err := d.noteMissing(ctx, s, nil); err != nil {
		return false, err
	}
	if s.Status == Signed {
		return true, d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return d.markBroadcast(ctx, tx, s, s.findAttempt(outcome.Tx))
		})
	}
	var (
		proof  int64
		broken bool
	)
	err = d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if broken, err = freeze.IsFinalityBroken(ctx, tx, d.chain.Name); err != nil {
			return err
		}
		err = tx.QueryRow(ctx, `SELECT proof_id FROM finality_live WHERE chain = $1 AND height = $2 AND hash = $3`,
			d.chain.Name, outcome.Block.Height, outcome.Block.Hash).Scan(&proof)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("look up the proof of its block: %w", err)
	}
	if broken {
		// The proven block may not be on the chain any more, and neither a settlement nor a release
		// can be taken back.
		return false, nil
	}
	if proof == 0 {
		failpoint.Hit("W22")
		err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			orders, err := lockSlot(ctx, tx, s.ID)
			if err != nil || orders[0].Status != Broadcast {
				return err
			}
			for _, o := range orders {
				if err := d.listeners[o.Purpose].OnIncluded(ctx, tx, o, outcome.Tx); err != nil {
					return err
				}
			}
			return nil
		})
		if err == nil {
			d.see(s.ID, &inclusion{outcome.Block.Height, outcome.Block.Hash})
		}
		return false, err
	}
	d.see(s.ID, nil)
	if s.FundsPending {
		return false, nil // its funds are not reserved again yet
	}
	if s.findAttempt(outcome.Tx).Act == signer.Pay && outcome.Succeeded {
		reasons, err := d.findContradictions(ctx, payments, *outcome)
		if errors.Is(err, chain.ErrNotYet) {
			return false, nil // the head fell behind a proven block and will grow again
		}
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(reasons, func(reason string) bool { return reason != "" }) {
			return true, d.markStuck(ctx, s, *outcome, proof, reasons)
		}
	}
	hitAfterProof(s.Order, outcome.Succeeded)
	return true, d.endSlot(ctx, payer, s, *outcome, proof)
}

// guardNonce freezes a wallet whose account has used a nonce that Coffer never assigned. Either a
// third party signs with its key, or this database is older than the chain.
func (d *Worker) guardNonce(ctx context.Context, payer wallet.Wallet, acct chain.Account) error {
	var nextNonce uint64
	err := d.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		err := tx.QueryRow(
			ctx, `SELECT next_nonce FROM dispatch_accounts WHERE wallet_id = $1 AND chain = $2`, payer.ID, d.chain.Name,
		).Scan(&nextNonce)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("read the next nonce: %w", err)
	}
	// Where the chain does not number, the order that has a slot notices that it is used.
	if !d.slots.isSequential() || acct.Latest <= nextNonce {
		return nil
	}
	return d.freezeWallet(
		ctx, payer,
		fmt.Sprintf(
			"the chain is at nonce %d, and no order of this installation has a nonce above %d",
			acct.Latest, nextNonce,
		),
	)
}

// checkUnknownUse freezes the wallet if its used nonce belongs to no transaction of Coffer.
func (d *Worker) checkUnknownUse(ctx context.Context, payer wallet.Wallet, s slot, acct chain.Account) error {
	if foreign, err := d.isForeignUse(ctx, s, acct); err != nil || !foreign {
		return err
	}
	return d.freezeWallet(
		ctx, payer,
		fmt.Sprintf("%v is used on the chain, and by none of the transactions of order %s", s.ChainSlot, s.ID),
	)
}

// isForeignUse reports whether a used nonce without a transaction of Coffer counts as foreign. A
// provider may lag, so this has to last for ForeignAfter, at a final nonce. The row stores since
// when it lasts; otherwise a service that restarts again and again would never reach the end of
// that time.
func (d *Worker) isForeignUse(ctx context.Context, s slot, acct chain.Account) (bool, error) {
	if _, used := acct.IsUsed(s.ChainSlot); !used {
		return false, d.noteMissing(ctx, s, nil)
	}
	now := d.db.Clock()().UTC()
	if s.MissingSince == nil {
		return false, d.noteMissing(ctx, s, &now)
	}
	return now.Sub(*s.MissingSince) >= d.conf.ForeignAfter, nil
}

// noteMissing stores since when a slot's transaction is missing; nil says that it is not.
func (d *Worker) noteMissing(ctx context.Context, s slot, missingSince *time.Time) error {
	if missingSince == nil && s.MissingSince == nil {
		return nil
	}
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE dispatch_slots SET missing_since = $2 WHERE order_id = $1`, s.ID, missingSince)
		return err
	})
	if err != nil {
		return fmt.Errorf("record that no transaction of the order is in the slot of order %s: %w", s.ID, err)
	}
	return nil
}
