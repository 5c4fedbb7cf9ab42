package sweep

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/pg"
)

// ByRestore is the trigger of a sweep that was made again from the signer's journal.
const ByRestore Trigger = "RESTORED"

var (
	_ dispatch.Restorer = Sweeps{}
	_ dispatch.Restorer = TopUps{}
	_ dispatch.Restorer = Places{}
	_ dispatch.Restorer = Merges{}
	_ dispatch.Restorer = Closes{}
)

// Restored implements dispatch.Restorer. A sweep that was never signed has moved
// nothing and is not made again: what it wanted to move is planned anew.
func (Sweeps) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	return nil, restored(orders, "sweep", "FAILED", func(o dispatch.Restored, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO sweeps (sweep_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, trigger, status, created_at, ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $9 = 'FAILED' THEN $11::timestamptz END)`,
			o.ID, o.OrgID, o.Chain, o.Holder(), o.ToWalletID, o.MintID, o.Amount, ByRestore, status, o.CreatedAt, tx.Now)
		return err
	})
}

// Restored implements dispatch.Restorer, likewise.
func (TopUps) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	return nil, restored(orders, "top-up", "FAILED", func(o dispatch.Restored, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO gas_top_ups (top_up_id, org_id, chain, wallet_id, amount, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $6 = 'FAILED' THEN $8::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.ToWalletID, o.Amount, status, o.CreatedAt, tx.Now)
		return err
	})
}

// Restored implements dispatch.Restorer, likewise: what was never signed is no place, and
// the next plan makes one there.
func (Places) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	return nil, restored(orders, "place", "REFUSED", func(o dispatch.Restored, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO places (place_id, org_id, chain, wallet_id, address, amount, status, created_at, ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $7 = 'REFUSED' THEN $9::timestamptz END)`,
			o.ID, o.OrgID, o.Chain, o.WalletID, o.To, o.Amount, status, o.CreatedAt, tx.Now)
		return err
	})
}

// Restored implements dispatch.Restorer, likewise.
func (Merges) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	return nil, restored(orders, "merge", "REFUSED", func(o dispatch.Restored, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO merges (merge_id, org_id, chain, wallet_id, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $5 = 'REFUSED' THEN $7::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.WalletID, status, o.CreatedAt, tx.Now)
		return err
	})
}

// Restored implements dispatch.Restorer, likewise: what was never signed closed nothing.
func (Closes) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	return nil, restored(orders, "close", "FAILED", func(o dispatch.Restored, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO closes (close_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $8 = 'FAILED' THEN $10::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.Holder(), o.ToWalletID, o.MintID, o.Amount, status, o.CreatedAt, tx.Now)
		return err
	})
}

// restored makes again what the backup lacks: open where it was signed, and ended as what
// was never signed ends.
func restored(orders []dispatch.Restored, what, unsigned string, insert func(o dispatch.Restored, status string) error) error {
	for _, o := range orders {
		if !o.New {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = unsigned
		}
		if err := insert(o, status); err != nil {
			return fmt.Errorf("restore %s %s: %w", what, o.ID, err)
		}
	}
	return nil
}
