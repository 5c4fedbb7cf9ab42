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
	for _, o := range orders {
		if !o.New {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = "FAILED"
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO sweeps (sweep_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, trigger, status, created_at, ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $9 = 'FAILED' THEN $11::timestamptz END)`,
			o.ID, o.OrgID, o.Chain, o.Holder(), o.ToWalletID, o.MintID, o.Amount, ByRestore, status, o.CreatedAt, tx.Now)
		if err != nil {
			return nil, fmt.Errorf("restore sweep %s: %w", o.ID, err)
		}
	}
	return nil, nil
}

// Restored implements dispatch.Restorer, likewise.
func (TopUps) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	for _, o := range orders {
		if !o.New {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = "FAILED"
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO gas_top_ups (top_up_id, org_id, chain, wallet_id, amount, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $6 = 'FAILED' THEN $8::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.ToWalletID, o.Amount, status, o.CreatedAt, tx.Now)
		if err != nil {
			return nil, fmt.Errorf("restore top-up %s: %w", o.ID, err)
		}
	}
	return nil, nil
}

// Restored implements dispatch.Restorer, likewise: what was never signed is no place, and
// the next plan makes one there.
func (Places) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	for _, o := range orders {
		if !o.New {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = "REFUSED"
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO places (place_id, org_id, chain, wallet_id, address, amount, status, created_at, ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $7 = 'REFUSED' THEN $9::timestamptz END)`,
			o.ID, o.OrgID, o.Chain, o.WalletID, o.To, o.Amount, status, o.CreatedAt, tx.Now)
		if err != nil {
			return nil, fmt.Errorf("restore place %s: %w", o.ID, err)
		}
	}
	return nil, nil
}

// Restored implements dispatch.Restorer, likewise.
func (Merges) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	for _, o := range orders {
		if !o.New {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = "REFUSED"
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO merges (merge_id, org_id, chain, wallet_id, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $5 = 'REFUSED' THEN $7::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.WalletID, status, o.CreatedAt, tx.Now)
		if err != nil {
			return nil, fmt.Errorf("restore merge %s: %w", o.ID, err)
		}
	}
	return nil, nil
}

// Restored implements dispatch.Restorer, likewise: what was never signed closed nothing.
func (Closes) Restored(ctx context.Context, tx pg.Tx, orders []dispatch.Restored) ([]ledger.Posting, error) {
	for _, o := range orders {
		if !o.New {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = "FAILED"
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO closes (close_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $8 = 'FAILED' THEN $10::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.Holder(), o.ToWalletID, o.MintID, o.Amount, status, o.CreatedAt, tx.Now)
		if err != nil {
			return nil, fmt.Errorf("restore close %s: %w", o.ID, err)
		}
	}
	return nil, nil
}
