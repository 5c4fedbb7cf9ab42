package dispatch

import (
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// freezeReason returns the freeze that stops the sending for orders, or "". A freeze of one order
// stops the transaction of all of them. Rule WD-39.
func (d *Worker) freezeReason(ctx context.Context, tx pg.Tx, orders ...Order) (string, error) {
	var checked []freeze.Target
	for _, o := range orders {
		for _, id := range []string{o.WalletID, o.SourceWalletID()} {
			scope := freeze.Target{OrgID: o.OrgID, CustomerID: o.CustomerID, Chain: o.Chain, WalletID: id}
			if slices.Contains(checked, scope) {
				continue
			}
			checked = append(checked, scope)
			f, err := freeze.Active(ctx, tx, scope)
			if err != nil {
				return "", err
			}
			if f != nil {
				return fmt.Sprintf("frozen (%s): %s", f.Scope, f.Reason), nil
			}
		}
	}
	return "", nil
}

// checkStopped returns a stoppedError if something prevents an order from getting a slot: a freeze, the pause or the
// end of its batch, or the quarantine of its token, whose transfers may not do what they say.
func (d *Worker) checkStopped(ctx context.Context, tx pg.Tx, o Order) error {
	if detail, err := d.freezeReason(ctx, tx, o); err != nil {
		return err
	} else if detail != "" {
		return &stoppedError{o, WaitFreeze, detail}
	}
	if o.Batch != nil {
		var isStopped bool
		err := tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM payout_batches WHERE org_id = $1 AND batch_id = $2
				AND (paused_at IS NOT NULL OR stopped_at IS NOT NULL))`, o.OrgID, o.Batch.BatchID).Scan(&isStopped)
		if err != nil {
			return fmt.Errorf("look whether the batch of order %s is paused: %w", o.ID, err)
		}
		if isStopped {
			return &stoppedError{o, WaitFreeze, "batch payout " + o.Batch.BatchID + " is paused or cancelled"}
		}
	}
	var quarantine *string
	if err := tx.QueryRow(
		ctx, `SELECT quarantine_reason FROM mints WHERE mint_id = $1`, o.MintID,
	).Scan(&quarantine); err != nil {
		return fmt.Errorf("look for a quarantine of mint %d: %w", o.MintID, err)
	}
	if quarantine != nil {
		return &stoppedError{o, WaitQuarantine, "its token is quarantined: " + *quarantine}
	}
	return nil
}

// stoppedError says that a freeze or quarantine stopped an order on its way to a slot.
type stoppedError struct {
	order  Order
	reason WaitReason
	detail string
}

func (e *stoppedError) Error() string { return e.detail }

func (d *Worker) freezeWallet(ctx context.Context, payer wallet.Wallet, reason string) error {
	d.log.Error(
		"wallet frozen: a transaction of another program used its key", "wallet", payer.ID,
		"address", string(payer.Address), "why", reason,
	)
	err := d.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, d.newWalletFreeze(payer, reason))
	})
	if err != nil {
		return fmt.Errorf("freeze wallet %s: %w", payer.ID, err)
	}
	return nil
}

// newWalletFreeze returns a freeze of a wallet with this package as its source.
func (d *Worker) newWalletFreeze(target wallet.Wallet, reason string) freeze.Freeze {
	return freeze.Freeze{
		Scope: freeze.ScopeWallet, OrgID: target.OrgID, WalletID: target.ID, Chain: d.chain.Name,
		Source: freeze.SourceDispatch, Reason: reason,
	}
}

// freezeAll freezes everything, because the signer's journal contradicts this database.
// The journal watch would do the same some seconds later.
func freezeAll(ctx context.Context, db *pg.DB, reason string) error {
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeAll, Source: freeze.SourceSigner, Reason: reason,
		})
	})
	if err != nil {
		return fmt.Errorf("freeze everything: %w", err)
	}
	return nil
}
