package sweep

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/pg"
)

// TriggerRestore is the trigger of a sweep that was restored from the signer's journal.
const TriggerRestore Trigger = "RESTORED"

var (
	_ dispatch.RestoreListener = SweepListener{}
	_ dispatch.RestoreListener = TopUpListener{}
	_ dispatch.RestoreListener = NonceAccountListener{}
	_ dispatch.RestoreListener = ConsolidationListener{}
	_ dispatch.RestoreListener = CloseListener{}
)

// OnRestored implements dispatch.RestoreListener. A sweep that was never signed moved nothing, so
// its row is inserted as ended, and its amount is planned anew.
func (SweepListener) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	return nil, restoreRows(orders, "sweep", "FAILED", func(o dispatch.RestoredOrder, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO sweeps (sweep_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, trigger, status, created_at, ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $9 = 'FAILED' THEN $11::timestamptz END)`,
			o.ID, o.OrgID, o.Chain, o.SourceWalletID(), o.ToWalletID, o.MintID, o.Amount, TriggerRestore, status,
			o.CreatedAt, tx.Now)
		return err
	})
}

// OnRestored implements dispatch.RestoreListener. A top-up that was never signed is inserted as
// ended.
func (TopUpListener) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	return nil, restoreRows(orders, "top-up", "FAILED", func(o dispatch.RestoredOrder, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO gas_top_ups (top_up_id, org_id, chain, wallet_id, amount, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, $7, CASE WHEN $6 = 'FAILED' THEN $8::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.ToWalletID, o.Amount, status, o.CreatedAt, tx.Now)
		return err
	})
}

// OnRestored implements dispatch.RestoreListener. An order that was never signed created no nonce
// account, so its row is inserted as refused, and the next plan creates the account there.
func (NonceAccountListener) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	return nil, restoreRows(orders, "place", "REFUSED", func(o dispatch.RestoredOrder, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO nonce_accounts (nonce_account_id, org_id, chain, wallet_id, address, amount, status, created_at,
				ended_at)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CASE WHEN $7 = 'REFUSED' THEN $9::timestamptz END)`,
			o.ID, o.OrgID, o.Chain, o.WalletID, o.To, o.Amount, status, o.CreatedAt, tx.Now)
		return err
	})
}

// OnRestored implements dispatch.RestoreListener. A consolidation that was never signed is inserted
// as refused.
func (ConsolidationListener) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	return nil, restoreRows(orders, "merge", "REFUSED", func(o dispatch.RestoredOrder, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO consolidations (consolidation_id, org_id, chain, wallet_id, status, created_at, ended_at,
				restored)
			VALUES ($1, $2, $3, $4, $5, $6, CASE WHEN $5 = 'REFUSED' THEN $7::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.WalletID, status, o.CreatedAt, tx.Now)
		return err
	})
}

// OnRestored implements dispatch.RestoreListener. A close that was never signed closed nothing and
// is inserted as ended.
func (CloseListener) OnRestored(
	ctx context.Context, tx pg.Tx, orders []dispatch.RestoredOrder,
) ([]ledger.Posting, error) {
	return nil, restoreRows(orders, "close", "FAILED", func(o dispatch.RestoredOrder, status string) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO closes (close_id, org_id, chain, wallet_id, to_wallet_id, mint_id, amount, status, created_at, ended_at, restored)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, CASE WHEN $8 = 'FAILED' THEN $10::timestamptz END, true)`,
			o.ID, o.OrgID, o.Chain, o.SourceWalletID(), o.ToWalletID, o.MintID, o.Amount, status, o.CreatedAt, tx.Now)
		return err
	})
}

// restoreRows inserts the rows that the backup lacks: open if the order was signed, else with
// unsignedStatus.
func restoreRows(
	orders []dispatch.RestoredOrder, name, unsignedStatus string,
	insertRow func(o dispatch.RestoredOrder, status string) error,
) error {
	for _, o := range orders {
		if !o.IsNew {
			continue
		}
		status := "OPEN"
		if !o.Signed {
			status = unsignedStatus
		}
		if err := insertRow(o, status); err != nil {
			return fmt.Errorf("restore %s %s: %w", name, o.ID, err)
		}
	}
	return nil
}
