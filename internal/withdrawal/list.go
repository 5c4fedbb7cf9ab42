package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Filter narrows a list; members at their zero value do not.
type Filter struct {
	Type           string // CUSTOMER or ORGANIZATION
	CustomerID     string
	Status         string
	MintID         *int
	Chain          string
	CreatedAfter   *time.Time // exclusive
	CreatedBefore  *time.Time // exclusive
	TxHash         string     // the current one or a replaced one, in any letter case of hexadecimal digits
	Address        string     // the destination, in any letter case that means the same
	Reference      string
	IdempotencyKey string
}

// orgQuery is what the filter leaves of an organization's withdrawals.
func (s *Service) orgQuery(org string, f Filter) *page.Query {
	return s.addConditions(page.NewQuery(selectObjects+` WHERE w.org_id = ?`, org), f)
}

// addConditions adds the conditions that were given.
func (s *Service) addConditions(q *page.Query, f Filter) *page.Query {
	equal := func(column, value string) {
		if value != "" {
			q.AddCondition(column+" = ?", value)
		}
	}
	switch f.Type {
	case webhook.OfCustomer:
		q.AddCondition("w.customer_id IS NOT NULL")
	case webhook.OfOrganization:
		// As it stands in the index that lists them.
		q.AddCondition("w.customer_id IS NULL")
	}
	equal("w.customer_id", f.CustomerID)
	equal("w.status", f.Status)
	equal("w.chain", f.Chain)
	equal("w.reference", f.Reference)
	if f.IdempotencyKey != "" {
		// By its hash: of a payment that was restored from the signer's journal nothing
		// else of its key is known.
		q.AddCondition("w.key_hash = ?", keyHash(&f.IdempotencyKey))
	}
	if f.MintID != nil {
		q.AddCondition("w.mint_id = ?", *f.MintID)
	}
	if f.CreatedAfter != nil {
		q.AddCondition("w.created_at > ?", *f.CreatedAfter)
	}
	if f.CreatedBefore != nil {
		q.AddCondition("w.created_at < ?", *f.CreatedBefore)
	}
	if f.TxHash != "" {
		hashSpellings := []string{f.TxHash, strings.ToLower(f.TxHash)}
		// Every hash that a payment ever had is one of its attempts', where each hash has
		// one row. An index on the list of replaced ones would be passed over: behind
		// the policies of organizations an operator on arrays may not be asked first.
		// Those that ride with another one have its transactions.
		q.AddCondition(`w.withdrawal_id IN (SELECT a.order_id FROM dispatch_attempts a WHERE a.tx_hash = ANY (?)
			UNION ALL SELECT r.order_id FROM dispatch_attempts a JOIN dispatch_orders r ON r.rides_id = a.order_id WHERE a.tx_hash = ANY (?))`, hashSpellings, hashSpellings)
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

// List reads a page of an organization's withdrawals in the order of (created
// at, id).
func (s *Service) List(ctx context.Context, org string, f Filter, p page.Page) (page.Result[webhook.Withdrawal], error) {
	q := s.orgQuery(org, f)
	sql, args := q.BuildPage(p, "w.created_at", "w.withdrawal_id")
	var found page.Result[renderedRow]
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, sql, pg.Planned(q.Filtered(), args)...)
		if err != nil {
			return err
		}
		rendered, err := pgx.CollectRows(rows, scanObject)
		if err != nil {
			return err
		}
		found = page.CutPage(p, rendered, func(l renderedRow) page.Cursor {
			return page.Cursor{CreatedAt: l.created, ID: l.object.WithdrawalID}
		})
		return nil
	})
	if err != nil {
		return page.Result[webhook.Withdrawal]{}, fmt.Errorf("list withdrawals: %w", err)
	}
	result := page.Result[webhook.Withdrawal]{Items: make([]webhook.Withdrawal, 0, len(found.Items)), NextCursor: found.NextCursor}
	for _, l := range found.Items {
		result.Items = append(result.Items, l.object)
	}
	return result, nil
}

// ForEach hands on all of an organization's withdrawals that the filter leaves, in
// the order of a list and as of one moment. The first error of fn ends it.
func (s *Service) ForEach(ctx context.Context, org string, f Filter, desc bool, fn func(webhook.Withdrawal) error) error {
	sql, args := s.orgQuery(org, f).BuildAll(desc, "w.created_at", "w.withdrawal_id")
	err := s.DB.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		return pg.ForEachRow(ctx, tx, sql, args, scanObject, func(l renderedRow) error { return fn(l.object) })
	})
	if err != nil {
		return fmt.Errorf("read the withdrawals of %s: %w", org, err)
	}
	return nil
}
