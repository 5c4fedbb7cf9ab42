package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Values of Filter.Type.
const (
	ofCustomer     = "CUSTOMER"
	ofOrganization = "ORGANIZATION"
)

// Filter narrows a list. A zero field does not narrow it.
type Filter struct {
	Type           string // CUSTOMER or ORGANIZATION
	CustomerID     string
	Status         string
	MintID         *int
	Chain          string
	CreatedAfter   time.Time // exclusive
	CreatedBefore  time.Time // exclusive
	TxHash         string    // current or replaced, in any letter case of hexadecimal digits
	Address        string    // the destination, in any letter case with the same meaning
	Reference      string
	IdempotencyKey string
}

// orgQuery returns the query for an organization's withdrawals that match the filter.
func (s *Service) orgQuery(org string, f Filter) *pagination.Query {
	return s.addConditions(pagination.NewQuery(selectWithdrawals+` WHERE w.org_id = ?`, org), f)
}

// addConditions adds a condition for every field of the filter that is set. Rule WD-30.
func (s *Service) addConditions(q *pagination.Query, f Filter) *pagination.Query {
	equal := func(column, value string) {
		if value != "" {
			q.AddCondition(column+" = ?", value)
		}
	}
	switch f.Type {
	case ofCustomer:
		q.AddCondition("w.customer_id IS NOT NULL")
	case ofOrganization:
		// The condition of the partial index for these lists.
		q.AddCondition("w.customer_id IS NULL")
	}
	equal("w.customer_id", f.CustomerID)
	equal("w.status", f.Status)
	equal("w.chain", f.Chain)
	equal("w.reference", f.Reference)
	if f.IdempotencyKey != "" {
		// The hash is compared: a payment that was restored from the signer's journal has no other
		// trace of its key.
		q.AddCondition("w.key_hash = ?", keyHash(&f.IdempotencyKey))
	}
	if f.MintID != nil {
		q.AddCondition("w.mint_id = ?", *f.MintID)
	}
	q.SetTimeRange(f.CreatedAfter, f.CreatedBefore)
	if f.TxHash != "" {
		hashSpellings := []string{f.TxHash, strings.ToLower(f.TxHash)}
		// Every hash that a payment ever had belongs to one of its attempts, and each hash has one
		// row there. An index on replaced_tx_hashes would not be used: behind the row-level
		// security policies an array operator may not run first. The members of a batch have the
		// attempts of its lead.
		q.AddCondition(`w.withdrawal_id IN (SELECT a.order_id FROM dispatch_attempts a WHERE a.tx_hash = ANY (?)
			UNION ALL SELECT r.order_id FROM dispatch_attempts a JOIN dispatch_orders r ON r.tx_lead_id = a.order_id WHERE a.tx_hash = ANY (?))`, hashSpellings, hashSpellings)
	}
	if f.Address != "" {
		addresses := []string{f.Address}
		for _, c := range s.Chains {
			if a, err := c.AddressCodec.Parse(f.Address); err == nil && !slices.Contains(addresses, string(a)) {
				addresses = append(addresses, string(a))
			}
		}
		q.Among("w.to_address", "?::text[]", addresses)
	}
	return q
}

// List returns a page of an organization's withdrawals in the order of (creation time, id).
func (s *Service) List(
	ctx context.Context, org string, f Filter, p pagination.Page,
) (pagination.Result[Withdrawal], error) {
	q := s.orgQuery(org, f)
	sql, args := q.BuildPage(p, "w.created_at", "w.withdrawal_id")
	var page pagination.Result[Withdrawal]
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, scanWithdrawal)
		if err != nil {
			return err
		}
		page = pagination.CutPage(p, found, func(w Withdrawal) pagination.Cursor {
			return pagination.Cursor{CreatedAt: w.CreatedAt, ID: w.ID}
		})
		return nil
	})
	if err != nil {
		return pagination.Result[Withdrawal]{}, fmt.Errorf("list withdrawals: %w", err)
	}
	return page, nil
}

// ForEach calls fn for all of an organization's withdrawals that match the filter, in list order
// and from one snapshot. The first error of fn ends it.
func (s *Service) ForEach(
	ctx context.Context, org string, f Filter, desc bool, fn func(Withdrawal) error,
) error {
	sql, args := s.orgQuery(org, f).BuildAll(desc, "w.created_at", "w.withdrawal_id")
	err := s.DB.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanWithdrawal, fn)
	})
	if err != nil {
		return fmt.Errorf("read the withdrawals of %s: %w", org, err)
	}
	return nil
}
