package transfer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

const columns = `t.transfer_id, t.idempotency_key, t.request_digest, t.mint_id, m.symbol, m.name, m.chain, m.decimals, m.contract,
	t.amount, t.from_customer, t.from_product, t.to_customer, t.to_product, t.reference, t.metadata, t.created_at`

const selectTransfers = `SELECT ` + columns + ` FROM transfers t JOIN mints m ON m.mint_id = t.mint_id`

// renderedRow pairs a rendered row with its exact sort key. The object shows milliseconds; created
// has the microseconds that the table sorts by.
type renderedRow struct {
	object  webhook.Transfer
	digest  []byte
	created time.Time
}

func scanTransfer(row pgx.CollectableRow) (renderedRow, error) {
	var (
		l        renderedRow
		amount   money.Amount
		contract string
		metadata map[string]string
		t        = &l.object
	)
	err := row.Scan(&t.TransferID, &t.IdempotencyKey, &l.digest, &t.MintID, &t.Mint.Symbol, &t.Mint.Name,
		&t.Mint.Chain, &t.Mint.Decimals, &contract,
		&amount, &t.From.CustomerID, &t.From.Product, &t.To.CustomerID, &t.To.Product, &t.Reference, &metadata,
		&l.created)
	if err != nil {
		return l, err
	}
	t.Mint.ID = t.MintID
	if contract != "" {
		t.Mint.ContractAddress = &contract
	}
	t.Amount, t.AmountDecimal = amount.String(), amount.Decimal(t.Mint.Decimals)
	t.Metadata, t.CreatedAt = metadata, webhook.At(l.created)
	return l, nil
}

// ByID returns a transfer. Error: fault NOT_FOUND, also for the id of another organization.
func (s *Service) ByID(ctx context.Context, org, transferID string) (webhook.Transfer, error) {
	notFound := fault.New(fault.NotFound, fault.CodeNotFound, fault.ReadOnly,
		"Your organization has no transfer with this id.")
	if !id.IsValid("tr", transferID) {
		return webhook.Transfer{}, notFound
	}
	var l renderedRow
	err := s.db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectTransfers+` WHERE t.org_id = $1 AND t.transfer_id = $2`, org, transferID)
		if err != nil {
			return err
		}
		l, err = pgx.CollectExactlyOneRow(rows, scanTransfer)
		return err
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return l.object, notFound
	}
	if err != nil {
		return l.object, fmt.Errorf("read transfer %s: %w", transferID, err)
	}
	return l.object, nil
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
) (pagination.Result[webhook.Transfer], error) {
	q := f.orgQuery(org)
	sql, args := q.BuildPage(p, "t.created_at", "t.transfer_id")
	var found pagination.Result[renderedRow]
	err := s.db.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		rendered, err := pgx.CollectRows(rows, scanTransfer)
		found = pagination.CutPage(
			p, rendered,
			func(l renderedRow) pagination.Cursor {
				return pagination.Cursor{CreatedAt: l.created, ID: l.object.TransferID}
			},
		)
		return err
	})
	if err != nil {
		return pagination.Result[webhook.Transfer]{}, fmt.Errorf("list transfers: %w", err)
	}
	result := pagination.Result[webhook.Transfer]{
		Items: make([]webhook.Transfer, 0, len(found.Items)), NextCursor: found.NextCursor,
	}
	for _, l := range found.Items {
		result.Items = append(result.Items, l.object)
	}
	return result, nil
}

// ForEach calls fn for all of an organization's transfers that match the filter, in list order and
// from one snapshot. The first error of fn ends it.
func (s *Service) ForEach(ctx context.Context, org string, f Filter, desc bool, fn func(webhook.Transfer) error) error {
	sql, args := f.orgQuery(org).BuildAll(desc, "t.created_at", "t.transfer_id")
	err := s.db.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanTransfer, func(l renderedRow) error { return fn(l.object) })
	})
	if err != nil {
		return fmt.Errorf("read the transfers of %s: %w", org, err)
	}
	return nil
}
