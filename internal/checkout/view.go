package checkout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const selectProducts = `
	SELECT p.product_id, p.org_id, p.version, p.status, p.name, p.description, p.image_url, coalesce(p.image_id, ''),
		p.price_type, p.currency, p.price, p.min_price, p.max_price, p.accepted_mint_ids, p.settlement_mint_id,
		p.max_quantity, p.under_bps, p.over_policy, p.late_policy, p.success_url, p.cancel_url, p.one_per_reference,
		p.metadata, coalesce(p.idempotency_key, ''), p.request_digest, p.created_at, p.updated_at, p.archived_at
	FROM products p`

func scanProduct(row pgx.CollectableRow) (p Product, err error) {
	var metadata []byte
	err = row.Scan(&p.ID, &p.OrgID, &p.Version, &p.Status, &p.Name, &p.Description, &p.ImageURL, &p.ImageID,
		&p.PriceType, &p.Currency, &p.Price, &p.MinPrice, &p.MaxPrice, &p.AcceptedMintIDs, &p.SettlementMintID,
		&p.MaxQuantity, &p.UnderpaymentToleranceBps, &p.OverpaymentPolicy, &p.LatePaymentPolicy, &p.SuccessURL,
		&p.CancelURL, &p.OnePerReference, &metadata, &p.IdempotencyKey, &p.digest, &p.CreatedAt, &p.UpdatedAt,
		&p.ArchivedAt)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(metadata, &p.Metadata); err != nil {
		return p, fmt.Errorf("read the metadata of product %s: %w", p.ID, err)
	}
	return p, nil
}

// load returns a product of an organization. Error: fault NOT_FOUND, also for a string that is no id.
func load(ctx context.Context, tx pg.Tx, orgID, productID string) (Product, error) {
	absent := fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly, "There is no such product.")
	if !id.IsValid(idPrefix, productID) {
		return Product{}, absent
	}
	rows, err := tx.Query(ctx, selectProducts+` WHERE p.org_id = $1 AND p.product_id = $2`, orgID, productID)
	if err != nil {
		return Product{}, fmt.Errorf("read product %s: %w", productID, err)
	}
	p, err := pgx.CollectExactlyOneRow(rows, scanProduct)
	if errors.Is(err, pgx.ErrNoRows) {
		return Product{}, absent
	}
	if err != nil {
		return Product{}, fmt.Errorf("read product %s: %w", productID, err)
	}
	return p, nil
}

// ByID returns a product as it is now. Error: fault NOT_FOUND, also for the id of another organization. Rule PROD-10.
func (s *Service) ByID(ctx context.Context, orgID, productID string) (p Product, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		p, err = load(ctx, tx, orgID, productID)
		return err
	})
	return p, err
}

// Filter narrows a list. A zero field does not narrow it.
type Filter struct {
	Status        string
	CreatedAfter  time.Time // exclusive
	CreatedBefore time.Time // exclusive
}

func (f Filter) query(orgID string) *pagination.Query {
	q := pagination.NewQuery(selectProducts+` WHERE p.org_id = ?`, orgID)
	if f.Status != "" {
		q.AddCondition("p.status = ?", f.Status)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	return q
}

// List returns a page of an organization's products in the order of (creation time, id).
func (s *Service) List(
	ctx context.Context, orgID string, f Filter, p pagination.Page,
) (page pagination.Result[Product], err error) {
	q := f.query(orgID)
	sql, args := q.BuildPage(p, "p.created_at", "p.product_id")
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return fmt.Errorf("list the products of %s: %w", orgID, err)
		}
		found, err := pgx.CollectRows(rows, scanProduct)
		if err != nil {
			return fmt.Errorf("list the products of %s: %w", orgID, err)
		}
		page = pagination.CutPage(p, found, func(p Product) pagination.Cursor {
			return pagination.Cursor{CreatedAt: p.CreatedAt, ID: p.ID}
		})
		return nil
	})
	return page, err
}

// ForEach calls fn for all of an organization's products that match the filter, in list order and from one snapshot.
// The first error ends it.
func (s *Service) ForEach(ctx context.Context, orgID string, f Filter, desc bool, fn func(Product) error) error {
	sql, args := f.query(orgID).BuildAll(desc, "p.created_at", "p.product_id")
	err := s.DB.SnapshotOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanProduct, fn)
	})
	if err != nil {
		return fmt.Errorf("read the products of %s: %w", orgID, err)
	}
	return nil
}
