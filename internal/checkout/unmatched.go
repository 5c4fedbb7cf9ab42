package checkout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Unmatched is a deposit at a wallet of checkouts that is the payment of none. The organization has the money: it is
// credited to the balance of the product CHECKOUT as every payment is.
type Unmatched struct {
	DepositID     string
	DepositStatus string
	CheckoutID    string     // of the wallet, for NO_CHECKOUT; "" for the other reasons
	Mint          *mint.Mint // nil: the token is not in the catalogue
	Chain         chain.Name
	Amount        money.Amount
	Tx            chain.TxHash
	Reason        string
	SeenAt        time.Time

	mintID *int
}

const selectUnmatched = `
	SELECT u.deposit_id, d.status, coalesce(u.checkout_id, ''), u.mint_id, d.chain, u.amount, d.tx_hash, u.reason,
		u.seen_at
	FROM checkout_unmatched u JOIN deposits d ON d.deposit_id = u.deposit_id`

func scanUnmatched(row pgx.CollectableRow) (u Unmatched, err error) {
	err = row.Scan(&u.DepositID, &u.DepositStatus, &u.CheckoutID, &u.mintID, &u.Chain, &u.Amount, &u.Tx, &u.Reason,
		&u.SeenAt)
	return u, err
}

// ListUnmatched returns a page of what arrived for the checkouts of an organization and belongs to none of them, in the
// order of (time, id).
func (s *Service) ListUnmatched(
	ctx context.Context, orgID string, p pagination.Page,
) (page pagination.Result[Unmatched], err error) {
	sql, args := pagination.NewQuery(selectUnmatched+` WHERE u.org_id = ?`, orgID).
		BuildPage(p, "u.seen_at", "u.deposit_id")
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanUnmatched)
		if err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		for i := range found {
			if found[i].mintID == nil {
				continue
			}
			if m, isKnown := mints.ByID(*found[i].mintID); isKnown {
				found[i].Mint = &m
			}
		}
		page = pagination.CutPage(p, found, func(u Unmatched) pagination.Cursor {
			return pagination.Cursor{CreatedAt: u.SeenAt, ID: u.DepositID}
		})
		return nil
	})
	if err != nil {
		return page, fmt.Errorf("list what arrived for no checkout of %s: %w", orgID, err)
	}
	return page, nil
}
