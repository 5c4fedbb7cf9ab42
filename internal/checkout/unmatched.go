package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	depositPrefix = "dep"
	// suggestedMax is how many checkouts are suggested for a payment.
	suggestedMax = 5
	// suggestedAge is how old the quotes are at most that suggest a checkout. One that is still open is no older.
	suggestedAge = 2 * 24 * time.Hour
)

// Unmatched is a deposit at a wallet of checkouts that was the payment of none. The organization has the money: it is
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
	// SuggestedIDs are open checkouts that asked for just this amount in this mint, the likeliest first. An equal
	// amount proves nothing. A whole list and an assigned payment have none.
	SuggestedIDs []string

	AssignedTo string // the checkout whose payment it is; "" while it is unmatched
	AssignedBy string // kind and id of the one who said so
	AssignedAt *time.Time

	mintID *int
}

const selectUnmatched = `
	SELECT u.deposit_id, d.status, coalesce(u.checkout_id, ''), d.mint_id, d.chain, d.amount, d.tx_hash, u.reason,
		u.seen_at, coalesce(u.assigned_to, ''), coalesce(u.assigned_by, ''), u.assigned_at
	FROM checkout_unmatched u JOIN deposits d ON d.deposit_id = u.deposit_id`

// UnmatchedFilter narrows a list of unmatched payments. A zero field does not narrow it.
type UnmatchedFilter struct {
	SeenAfter  time.Time // exclusive
	SeenBefore time.Time // exclusive
}

// query selects what no checkout has got.
func (f UnmatchedFilter) query(orgID string) *pagination.Query {
	return pagination.NewQuery(selectUnmatched+` WHERE u.org_id = ? AND u.assigned_to IS NULL`, orgID).
		SetTimeRange(f.SeenAfter, f.SeenBefore)
}

func scanUnmatched(row pgx.CollectableRow) (u Unmatched, err error) {
	err = row.Scan(&u.DepositID, &u.DepositStatus, &u.CheckoutID, &u.mintID, &u.Chain, &u.Amount, &u.Tx, &u.Reason,
		&u.SeenAt, &u.AssignedTo, &u.AssignedBy, &u.AssignedAt)
	return u, err
}

func (u *Unmatched) setMint(mints mint.Catalogue) {
	if u.mintID == nil {
		return
	}
	if m, isKnown := mints.ByID(*u.mintID); isKnown {
		u.Mint = &m
	}
}

func newUnmatchedGone() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such unmatched payment.")
}

// ListUnmatched returns a page of what arrived for the checkouts of an organization and belongs to none of them, in the
// order of (time, id), with the checkouts that it may belong to. Rules CO-100 and CO-101.
func (s *Service) ListUnmatched(
	ctx context.Context, orgID string, f UnmatchedFilter, p pagination.Page,
) (page pagination.Result[Unmatched], err error) {
	sql, args := f.query(orgID).BuildPage(p, "u.seen_at", "u.deposit_id")
	found, err := s.loadUnmatched(ctx, orgID, sql, args...)
	if err != nil {
		return page, fmt.Errorf("list what arrived for no checkout of %s: %w", orgID, err)
	}
	return pagination.CutPage(p, found, func(u Unmatched) pagination.Cursor {
		return pagination.Cursor{CreatedAt: u.SeenAt, ID: u.DepositID}
	}), nil
}

// UnmatchedByID returns what arrived for no checkout as it is now, also once it is assigned. Error: fault NOT_FOUND,
// also for the id of another organization, and for a deposit that named its checkout. Rule CO-100.
func (s *Service) UnmatchedByID(ctx context.Context, orgID, depositID string) (u Unmatched, err error) {
	if !id.IsValid(depositPrefix, depositID) {
		return u, newUnmatchedGone()
	}
	found, err := s.loadUnmatched(ctx, orgID, selectUnmatched+` WHERE u.org_id = $1 AND u.deposit_id = $2`, orgID,
		depositID)
	switch {
	case err != nil:
		return u, fmt.Errorf("read unmatched payment %s: %w", depositID, err)
	case len(found) == 0:
		return u, newUnmatchedGone()
	}
	return found[0], nil
}

// loadUnmatched returns the rows of a query with their mints and suggestions.
func (s *Service) loadUnmatched(ctx context.Context, orgID, sql string, args ...any) (found []Unmatched, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, args...)
		if err != nil {
			return err
		}
		if found, err = pgx.CollectRows(rows, scanUnmatched); err != nil {
			return err
		}
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		for i := range found {
			found[i].setMint(mints)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return found, s.suggest(ctx, orgID, found)
}

// suggest adds the open checkouts that asked for just what arrived. It reads in a system transaction: row level
// security lets no index compare amounts. Rule CO-101.
func (s *Service) suggest(ctx context.Context, orgID string, payments []Unmatched) error {
	byID := map[string]*Unmatched{}
	var ids, amounts []string
	var mintIDs []int
	var seenAt []time.Time
	for i := range payments {
		u := &payments[i]
		if u.Mint == nil || u.AssignedTo != "" {
			continue
		}
		byID[u.DepositID] = u
		ids, amounts, mintIDs = append(ids, u.DepositID), append(amounts, u.Amount.String()), append(mintIDs, u.Mint.ID)
		seenAt = append(seenAt, u.SeenAt)
	}
	if len(ids) == 0 {
		return nil
	}
	oldest := s.DB.Clock()().Add(-suggestedAge)
	err := s.DB.ReadSystemBatch(ctx, func(b *pgx.Batch) {
		pg.QueueKeyPlans(b)
		b.Queue(`
			SELECT a.deposit_id, f.checkout_id
			FROM unnest($2::text[], $3::integer[], $4::numeric[], $5::timestamptz[])
				AS a (deposit_id, mint_id, amount, seen_at)
			CROSS JOIN LATERAL (
				SELECT q.checkout_id, bool_or(a.seen_at BETWEEN q.valid_from AND q.expires_at) AS was_valid,
					max(q.valid_from) AS valid_from
				FROM checkout_quotes q
				WHERE q.org_id = $1 AND q.mint_id = a.mint_id AND q.amount = a.amount AND q.valid_from >= $6
					-- A join would begin with all open checkouts.
					AND (SELECT c.status FROM checkouts c WHERE c.checkout_id = q.checkout_id) = 'OPEN'
				GROUP BY q.checkout_id
				ORDER BY was_valid DESC, valid_from DESC, q.checkout_id LIMIT $7) f
			ORDER BY a.deposit_id, f.was_valid DESC, f.valid_from DESC, f.checkout_id`,
			orgID, ids, mintIDs, amounts, seenAt, oldest, suggestedMax).Query(func(rows pgx.Rows) error {
			for _, u := range byID {
				u.SuggestedIDs = nil
			}
			var depositID, checkoutID string
			_, err := pgx.ForEachRow(rows, []any{&depositID, &checkoutID}, func() error {
				byID[depositID].SuggestedIDs = append(byID[depositID].SuggestedIDs, checkoutID)
				return nil
			})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("look for checkouts of %d amounts: %w", len(ids), err)
	}
	return nil
}

// ForEachUnmatched calls fn for everything that arrived for the checkouts of an organization and belongs to none of
// them, in list order and from one snapshot, without suggestions. The first error ends it.
func (s *Service) ForEachUnmatched(
	ctx context.Context, orgID string, f UnmatchedFilter, desc bool, fn func(Unmatched) error,
) error {
	sql, args := f.query(orgID).BuildAll(desc, "u.seen_at", "u.deposit_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		return pg.ForEachRow(ctx, tx, sql, args, scanUnmatched, func(u Unmatched) error {
			u.setMint(mints)
			return fn(u)
		})
	})
	if err != nil {
		return fmt.Errorf("read what arrived for no checkout of %s: %w", orgID, err)
	}
	return nil
}

// hasCheckout reports whether an organization has a checkout.
func (s *Service) hasCheckout(ctx context.Context, orgID, checkoutID string) (exists bool, err error) {
	if !id.IsValid(checkoutPrefix, checkoutID) {
		return false, nil
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM checkouts WHERE org_id = $1 AND checkout_id = $2)`, orgID,
			checkoutID).Scan(&exists)
	})
	if err != nil {
		return false, fmt.Errorf("look for checkout %s: %w", checkoutID, err)
	}
	return exists, nil
}

// isAbsent reports whether an error says that a row does not exist.
func isAbsent(err error) bool { return errors.Is(err, pgx.ErrNoRows) }
