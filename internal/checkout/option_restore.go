package checkout

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// lostOption is an option of a checkout that a database from a backup lacks.
type lostOption struct {
	checkoutID, orgID  string
	mintID             int
	walletID, sharedID string
	address            string
}

// RestoreOptions opens the options of Solana again that were opened after the backup: the signer's journal gave the
// database the address of their checkouts back, and their references follow from organization, checkout and mint. So a
// payment that names a checkout of the backup is matched. The journal does not say which mints were opened, so all
// accepted ones of the chain are. Quotes are lost: a payment of such an option counts at the price of the market. It
// looks at the addresses that the database has got since a moment, and may be repeated. Rule CO-106.
func (s *Service) RestoreOptions(ctx context.Context, oldest time.Time) error {
	var lost []lostOption
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT c.checkout_id, c.org_id, m.mint_id, w.wallet_id, x.wallet_id, w.address
			FROM wallets w
			JOIN checkouts c ON c.org_id = w.org_id AND c.checkout_id = w.subject
			JOIN mints m ON m.mint_id = ANY (c.accepted_mint_ids) AND m.chain = 'SOLANA'
			JOIN wallets x ON x.org_id = w.org_id AND x.family = w.family AND x.purpose = 'CHECKOUT_SHARED'
				AND x.subject = $1
			WHERE w.purpose = 'CHECKOUT' AND w.family = 'SOLANA' AND w.created_at >= $2 AND NOT EXISTS (
				SELECT FROM checkout_options o WHERE o.checkout_id = c.checkout_id AND o.mint_id = m.mint_id)
			ORDER BY c.checkout_id, m.mint_id`, sharedSubject, oldest)
		if err != nil {
			return err
		}
		lost, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o lostOption, err error) {
			err = row.Scan(&o.checkoutID, &o.orgID, &o.mintID, &o.walletID, &o.sharedID, &o.address)
			return o, err
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("look for options that a restored database lacks: %w", err)
	}
	for _, o := range lost {
		err := s.DB.InOrg(ctx, o.orgID, func(ctx context.Context, tx pg.Tx) error { return restoreOption(ctx, tx, o) })
		if err != nil {
			return fmt.Errorf("restore the option of checkout %s in mint %d: %w", o.checkoutID, o.mintID, err)
		}
	}
	return nil
}

// restoreOption writes an option, unless a request opened it meanwhile. No one says when it was opened, so it counts as
// opened with its checkout: a payment is never later than it was.
func restoreOption(ctx context.Context, tx pg.Tx, o lostOption) error {
	c, err := lockCheckout(ctx, tx, o.checkoutID)
	if err != nil {
		return err
	}
	if _, isOpened := c.optionOf(o.mintID); isOpened {
		return nil
	}
	reference := payuri.Reference(o.orgID, o.checkoutID, o.mintID)
	_, err = tx.Exec(ctx, `
		INSERT INTO checkout_options (checkout_id, mint_id, org_id, wallet_id, reference, shared_wallet_id, opened_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		o.checkoutID, o.mintID, o.orgID, o.walletID, reference[:], o.sharedID, c.CreatedAt)
	if err != nil {
		return err
	}
	if err := bumpVersion(ctx, tx, c); err != nil {
		return err
	}
	return audit.Record(ctx, tx, newCheckoutEntry(c, restoreActor, "option_opened", map[string]any{
		"mintId": o.mintID, "address": o.address, "restored": true,
	}))
}
