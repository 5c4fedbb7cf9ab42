package deposit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
)

// A swap provider delivers what arrives for a deposit swap. The row of the deposit swap says whose it is and who
// paid the provider. An arrival whose row is missing, as after a crash or in a restored database, waits: the
// caller repeats its request with its key, and the row then names the customer.

// payer is who paid a provider for a deposit swap.
type payer struct {
	chain     chain.Name
	addresses []chain.Address
	source    string
	knownAt   *time.Time // when every payment that the provider named had its payers; nil: they are not known
	// requestedAt is when the row was written. An arrival may have waited for it.
	requestedAt time.Time
}

// addTo adds the payers to a case that needs them. isWaiting says that they may still become known: what was
// known before the arrival may be of an earlier payment alone. After the grace they count as unknown. It is pure.
func (p payer) addTo(c risk.DepositCase) (result risk.DepositCase, isWaiting bool) {
	if c.WaitingSince.Before(p.requestedAt) {
		c.WaitingSince = p.requestedAt.UTC()
	}
	switch {
	case p.knownAt != nil && !p.knownAt.Before(c.WaitingSince):
		c.Subject.Chain, c.PayerSource = p.chain, p.source
		if len(p.addresses) == 1 {
			c.Subject.Address = p.addresses[0]
		} else {
			c.Senders = p.addresses
		}
	case c.Now.Sub(c.WaitingSince) < c.Grace:
		return c, true
	default:
		c.Answer, c.Lists = risk.NewUnknownPayer(c.Now), risk.NewUnknownPayer(c.Now)
	}
	return c, false
}

// loadPayers reads who paid for the deposit swaps of deposits, by deposit swap.
func loadPayers(ctx context.Context, tx pg.Tx, deposits []storedDeposit) (map[string]payer, error) {
	var ids []string
	for _, d := range deposits {
		if d.depositSwapID != "" {
			ids = append(ids, d.depositSwapID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT deposit_swap_id, origin_chain, coalesce(origin_payers, '{}'), coalesce(payer_source, ''), payers_at,
			created_at
		FROM deposit_swaps WHERE deposit_swap_id = ANY ($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("read the payers of deposit swaps: %w", err)
	}
	payers := map[string]payer{}
	var depositSwapID string
	var p payer
	columns := []any{&depositSwapID, &p.chain, &p.addresses, &p.source, &p.knownAt, &p.requestedAt}
	_, err = pgx.ForEachRow(rows, columns, func() error {
		found := p
		found.addresses = slices.Clone(p.addresses)
		payers[depositSwapID] = found
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the payers of deposit swaps: %w", err)
	}
	return payers, nil
}

// loadDepositSwapCustomers reads the customers of the deposit swaps at whose wallets something arrived, by deposit
// swap. One without a row is missing.
func (s *Service) loadDepositSwapCustomers(
	ctx context.Context, tx pg.Tx, found []scan.Arrival,
) (map[string]string, error) {
	var ids []string
	for _, f := range found {
		if owner := s.Owners.byPurpose[f.Wallet.Purpose]; owner != nil && owner.Terms().IsOfDepositSwap {
			ids = append(ids, f.Wallet.Subject)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := tx.Query(ctx, `
		SELECT deposit_swap_id, customer_id FROM deposit_swaps WHERE deposit_swap_id = ANY ($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("look up the customers of deposit swaps: %w", err)
	}
	customers := map[string]string{}
	var depositSwapID, customerID string
	_, err = pgx.ForEachRow(rows, []any{&depositSwapID, &customerID}, func() error {
		customers[depositSwapID] = customerID
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look up the customers of deposit swaps: %w", err)
	}
	return customers, nil
}

// adoptArrivals gives the arrivals that waited for the row of their deposit swap to its customer. It logs those
// that wait on. Rule DSW-5.
func (s *Service) adoptArrivals(ctx context.Context) error {
	var orphans, adoptable []string
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		orphans, adoptable = nil, nil
		rows, err := tx.Query(ctx, `
			SELECT d.deposit_id, s.deposit_swap_id IS NOT NULL
			FROM deposits d LEFT JOIN deposit_swaps s ON s.deposit_swap_id = d.deposit_swap_id
			WHERE d.status = 'SCREENING' AND d.deposit_swap_id IS NOT NULL AND d.customer_id IS NULL
			ORDER BY d.deposit_id LIMIT $1`, batchMax)
		if err != nil {
			return err
		}
		var depositID string
		var hasRow bool
		_, err = pgx.ForEachRow(rows, []any{&depositID, &hasRow}, func() error {
			if hasRow {
				adoptable = append(adoptable, depositID)
			} else {
				orphans = append(orphans, depositID)
			}
			return nil
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("look for arrivals without a deposit swap: %w", err)
	}
	s.warnOrphans(ctx, orphans)
	if len(adoptable) == 0 {
		return nil
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT `+columns+` FROM deposits
			WHERE status = 'SCREENING' AND deposit_swap_id IS NOT NULL AND customer_id IS NULL AND deposit_id = ANY ($1)
			ORDER BY deposit_id FOR UPDATE SKIP LOCKED`, adoptable)
		if err != nil {
			return err
		}
		locked, err := pgx.CollectRows(rows, scanDeposit)
		if err != nil || len(locked) == 0 {
			return err
		}
		var entries []audit.Entry
		for _, d := range locked {
			err := tx.QueryRow(ctx, `
				UPDATE deposits d SET customer_id = s.customer_id, is_hidden = false FROM deposit_swaps s
				WHERE d.deposit_id = $1 AND s.deposit_swap_id = d.deposit_swap_id RETURNING s.customer_id`,
				d.id).Scan(&d.customerID)
			if err != nil {
				return fmt.Errorf("deposit %s: %w", d.id, err)
			}
			entry := newStatusEntry(d)
			entry.Action = "deposit.customer_found"
			entries = append(entries, entry)
		}
		return recordAudit(ctx, tx, entries)
	})
	if err != nil {
		return fmt.Errorf("give arrivals to the customers of their deposit swaps: %w", err)
	}
	return nil
}

// orphanWarning is the pause between two warnings about an arrival that waits for its deposit swap.
const orphanWarning = 10 * time.Minute

// warnOrphans logs arrivals whose deposit swap has no row, each one again after a while.
func (s *Service) warnOrphans(ctx context.Context, orphans []string) {
	now := s.DB.Clock()()
	for _, depositID := range orphans {
		if last, isKnown := s.orphansWarned.Load(depositID); isKnown && now.Sub(last.(time.Time)) < orphanWarning {
			continue
		}
		s.orphansWarned.Store(depositID, now)
		s.Log.ErrorContext(ctx, "deposit: an arrival waits for the row of its deposit swap; the caller that made the "+
			"deposit swap repeats its request with its key", "deposit", depositID)
	}
}
