package checkout

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

const refundColumns = `
	r.refund_id, r.org_id, r.version, r.checkout_id, r.mint_id, r.amount, r.kind, r.fee_mode, r.reason, r.status,
	coalesce(r.to_address, ''), r.address_proven, r.key_hash IS NOT NULL, r.attempt, coalesce(r.withdrawal_id, ''),
	coalesce((SELECT w.tx_hash FROM withdrawals w WHERE w.withdrawal_id = r.withdrawal_id), ''),
	coalesce(r.problem, ''), coalesce(r.idempotency_key, ''), r.requester_kind, r.requester_id, r.created_at,
	r.updated_at, r.expires_at, r.completed_at, r.request_digest,
	coalesce((SELECT a.cause FROM automatic_refunds a WHERE a.refund_id = r.refund_id), '')`

const selectRefunds = `SELECT` + refundColumns + ` FROM refunds r`

// selectNewestRefunds selects the newest refund of each of some checkouts.
const selectNewestRefunds = `
	SELECT` + refundColumns + `
	FROM unnest($1::text[]) AS wanted (checkout_id) CROSS JOIN LATERAL (
		SELECT f.* FROM refunds f WHERE f.checkout_id = wanted.checkout_id
		ORDER BY f.created_at DESC, f.refund_id DESC LIMIT 1) r`

func scanRefund(row pgx.CollectableRow) (r Refund, err error) {
	err = row.Scan(&r.ID, &r.OrgID, &r.Version, &r.CheckoutID, &r.Mint.ID, &r.Amount, &r.Kind, &r.FeeMode, &r.Reason,
		&r.Status, &r.ToAddress, &r.IsAddressProven, &r.IsClaimable, &r.Attempt, &r.WithdrawalID, &r.Tx, &r.Problem,
		&r.IdempotencyKey, &r.Requester.Kind, &r.Requester.ID, &r.CreatedAt, &r.UpdatedAt, &r.ExpiresAt, &r.CompletedAt,
		&r.digest, &r.Cause)
	return r, err
}

// queryRefunds returns the refunds that a condition selects, without their parts and the names of their mints.
func queryRefunds(ctx context.Context, tx pg.Tx, condition string, args ...any) ([]Refund, error) {
	rows, err := tx.Query(ctx, selectRefunds+` WHERE `+condition, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanRefund)
}

// loadRefund returns the refund that a condition names, with its parts. Error: pgx.ErrNoRows.
func loadRefund(ctx context.Context, tx pg.Tx, condition string, args ...any) (Refund, error) {
	found, err := queryRefunds(ctx, tx, condition, args...)
	if err == nil && len(found) != 1 {
		err = pgx.ErrNoRows
	}
	if err != nil {
		return Refund{}, fmt.Errorf("read a refund: %w", err)
	}
	return found[0], loadRefundParts(ctx, tx, &found[0])
}

// refer returns pointers to refunds.
func refer(refunds []Refund) []*Refund {
	pointers := make([]*Refund, len(refunds))
	for i := range refunds {
		pointers[i] = &refunds[i]
	}
	return pointers
}

// loadRefundParts reads the parts and the mints of refunds.
func loadRefundParts(ctx context.Context, tx pg.Tx, refunds ...*Refund) error {
	if len(refunds) == 0 {
		return nil
	}
	byID, ids := map[string]*Refund{}, make([]string, len(refunds))
	for i, r := range refunds {
		byID[r.ID], ids[i] = r, r.ID
	}
	b := &pgx.Batch{}
	mints := mint.QueueAll(b)
	b.Queue(`
		SELECT refund_id, deposit_id, amount FROM refund_parts WHERE refund_id = ANY ($1)
		ORDER BY refund_id, deposit_id`, ids).
		Query(func(rows pgx.Rows) error {
			var refundID string
			var part RefundPart
			_, err := pgx.ForEachRow(rows, []any{&refundID, &part.DepositID, &part.Amount}, func() error {
				byID[refundID].Parts = append(byID[refundID].Parts, part)
				return nil
			})
			return err
		})
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return fmt.Errorf("read the parts of %d refunds: %w", len(ids), err)
	}
	for _, r := range refunds {
		r.Mint, _ = mints.ByID(r.Mint.ID)
	}
	return nil
}

func newRefundGone() error {
	return fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such refund.")
}

// RefundByID returns a refund as it is now. Error: fault NOT_FOUND, also for the id of another organization.
func (s *Service) RefundByID(ctx context.Context, orgID, refundID string) (r Refund, err error) {
	if !id.IsValid(refundPrefix, refundID) {
		return r, newRefundGone()
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = loadRefund(ctx, tx, `r.org_id = $1 AND r.refund_id = $2`, orgID, refundID)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, newRefundGone()
	}
	return r, err
}

// FindRefundByKey returns the refund of an idempotency key as it is now. Rule CO-82.
func (s *Service) FindRefundByKey(ctx context.Context, orgID, key string) (r Refund, isKnown bool, err error) {
	if !request.IsKey(key) {
		return r, false, nil
	}
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		r, err = loadRefund(ctx, tx, `r.org_id = $1 AND `+pg.ByKey("r.idempotency_key_hash", "$2"), orgID,
			keyHash(key))
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Refund{}, false, nil
	}
	return r, err == nil, err
}

// RefundFilter narrows a list of refunds. A zero field does not narrow it.
type RefundFilter struct {
	CheckoutID    string
	Status        string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

func (f RefundFilter) query(orgID string) *pagination.Query {
	q := pagination.NewQuery(selectRefunds+` WHERE r.org_id = ?`, orgID)
	if f.CheckoutID != "" {
		q.AddCondition("r.checkout_id = ?", f.CheckoutID)
	}
	if f.Status != "" {
		q.AddCondition("r.status = ?", f.Status)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// ListRefunds returns a page of an organization's refunds in the order of (creation time, id).
func (s *Service) ListRefunds(
	ctx context.Context, orgID string, f RefundFilter, p pagination.Page,
) (page pagination.Result[Refund], err error) {
	q := f.query(orgID)
	sql, args := q.BuildPage(p, "r.created_at", "r.refund_id")
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanRefund)
		if err != nil {
			return err
		}
		if err := loadRefundParts(ctx, tx, refer(found)...); err != nil {
			return err
		}
		page = pagination.CutPage(p, found, func(r Refund) pagination.Cursor {
			return pagination.Cursor{CreatedAt: r.CreatedAt, ID: r.ID}
		})
		return nil
	})
	if err != nil {
		return page, fmt.Errorf("list the refunds of %s: %w", orgID, err)
	}
	return page, nil
}

// ForEachRefund calls fn for all of an organization's refunds that match the filter, in list order and from one
// snapshot. They have no parts. The first error ends it.
func (s *Service) ForEachRefund(
	ctx context.Context, orgID string, f RefundFilter, desc bool, fn func(Refund) error,
) error {
	sql, args := f.query(orgID).BuildAll(desc, "r.created_at", "r.refund_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		mints, err := mint.LoadCatalogue(ctx, tx)
		if err != nil {
			return err
		}
		return pg.ForEachRow(ctx, tx, sql, args, scanRefund, func(r Refund) error {
			r.Mint, _ = mints.ByID(r.Mint.ID)
			return fn(r)
		})
	})
	if err != nil {
		return fmt.Errorf("read the refunds of %s: %w", orgID, err)
	}
	return nil
}
