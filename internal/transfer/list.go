package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const columns = `t.transfer_id, t.idempotency_key, t.request_digest, t.mint_id, m.symbol, m.name, m.chain, m.decimals, m.contract,
	t.amount, t.from_customer, t.from_product, t.to_customer, t.to_product, t.reference, t.metadata, t.created_at`

const selectTransfers = `SELECT ` + columns + ` FROM transfers t JOIN mints m ON m.mint_id = t.mint_id`

// storedTransfer is a transfer with the digest of its request.
type storedTransfer struct {
	Transfer
	digest []byte
}

func scanTransfer(row pgx.CollectableRow) (t storedTransfer, err error) {
	err = row.Scan(&t.ID, &t.IdempotencyKey, &t.digest, &t.Mint.ID, &t.Mint.Symbol, &t.Mint.Name,
		&t.Mint.Chain, &t.Mint.Decimals, &t.Mint.Contract,
		&t.Amount, &t.From.CustomerID, &t.From.Product, &t.To.CustomerID, &t.To.Product, &t.Reference, &t.Metadata,
		&t.CreatedAt)
	return t, err
}

// ByID returns a transfer. Error: fault NOT_FOUND, also for the id of another organization.
func (s *Service) ByID(ctx context.Context, org, transferID string) (Transfer, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly,
		"Your organization has no transfer with this id.")
	if !id.IsValid("tr", transferID) {
		return Transfer{}, notFound
	}
	var t storedTransfer
	err := s.db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectTransfers+` WHERE t.org_id = $1 AND t.transfer_id = $2`, org, transferID)
		if err != nil {
			return err
		}
		t, err = pgx.CollectExactlyOneRow(rows, scanTransfer)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Transfer{}, notFound
	}
	if err != nil {
		return Transfer{}, fmt.Errorf("read transfer %s: %w", transferID, err)
	}
	return t.Transfer, nil
}

// Filter narrows a list. A zero field does not narrow it.
type Filter struct {
	CustomerID     string // on either side
	Product        string // on either side
	MintID         *int
	Chain          string
	Reference      string
	IdempotencyKey string
	CreatedAfter   time.Time // exclusive
	CreatedBefore  time.Time // exclusive
}

func (f Filter) orgQuery(org string) *pagination.Query {
	q := pagination.NewQuery(selectTransfers+` WHERE t.org_id = ?`, org)
	if f.CustomerID != "" {
		// A transfer has two different accounts, so it matches at most one of the two conditions.
		q.Either(f.CustomerID, "t.from_customer = ?", "t.to_customer = ?")
	}
	switch {
	case f.Product != "" && f.CustomerID != "":
		q.AddCondition("t.from_product = ? OR t.to_product = ?", f.Product, f.Product)
	case f.Product != "":
		q.Either(f.Product, "t.from_product = ?", "t.to_product = ?")
	}
	if f.MintID != nil {
		q.AddCondition("t.mint_id = ?", *f.MintID)
	}
	switch {
	case f.Chain == "":
	case f.CustomerID != "" || f.Product != "" || f.MintID != nil:
		q.AddCondition("m.chain = ?", f.Chain)
	default:
		q.Among("t.mint_id", "ARRAY(SELECT mint_id FROM mints WHERE chain = ?)", f.Chain)
	}
	if f.Reference != "" {
		q.AddCondition("t.reference = ?", f.Reference)
	}
	if f.IdempotencyKey != "" {
		q.AddCondition("t.idempotency_key = ?", f.IdempotencyKey)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// List returns a page of an organization's transfers in the order of (creation time, id).
func (s *Service) List(
	ctx context.Context, org string, f Filter, p pagination.Page,
) (pagination.Result[Transfer], error) {
	q := f.orgQuery(org)
	sql, args := q.BuildPage(p, "t.created_at", "t.transfer_id")
	var found pagination.Result[storedTransfer]
	err := s.db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		stored, err := pgx.CollectRows(rows, scanTransfer)
		found = pagination.CutPage(p, stored, func(t storedTransfer) pagination.Cursor {
			return pagination.Cursor{CreatedAt: t.CreatedAt, ID: t.ID}
		})
		return err
	})
	if err != nil {
		return pagination.Result[Transfer]{}, fmt.Errorf("list transfers: %w", err)
	}
	result := pagination.Result[Transfer]{
		Items: make([]Transfer, 0, len(found.Items)), NextCursor: found.NextCursor,
	}
	for _, t := range found.Items {
		result.Items = append(result.Items, t.Transfer)
	}
	return result, nil
}

// ForEach calls fn for all of an organization's transfers that match the filter, in list order and
// from one snapshot. The first error of fn ends it.
func (s *Service) ForEach(ctx context.Context, org string, f Filter, desc bool, fn func(Transfer) error) error {
	sql, args := f.orgQuery(org).BuildAll(desc, "t.created_at", "t.transfer_id")
	err := s.db.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanTransfer, func(t storedTransfer) error { return fn(t.Transfer) })
	})
	if err != nil {
		return fmt.Errorf("read the transfers of %s: %w", org, err)
	}
	return nil
}
