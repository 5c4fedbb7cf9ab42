package payout

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// FindByKey returns the batch that an idempotency key made, if there is one. Rule BP-17.
func (s *Service) FindByKey(ctx context.Context, org, key string) (b Batch, isKnown bool, err error) {
	b, err = s.ByID(ctx, org, id.Derive(batchPrefix, org, key))
	if fault.HasCode(err, fault.CodeNotFound) {
		return Batch{}, false, nil
	}
	return b, err == nil, err
}

// ForEach passes all batches of an organization to fn, as of one moment.
func (s *Service) ForEach(
	ctx context.Context, org string, f Filter, desc bool, fn func(Batch) error,
) error {
	err := s.DB.SnapshotOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		p := pagination.Page{Limit: pagination.LimitMax, Desc: desc}
		for {
			page, err := readPage(ctx, tx, org, f, p)
			if err != nil {
				return err
			}
			for _, b := range page.Items {
				if err := fn(b); err != nil {
					return err
				}
			}
			if p.Cursor = page.NextCursor; p.Cursor == nil {
				return nil
			}
		}
	})
	if err != nil {
		return fmt.Errorf("read the batches of %s: %w", org, err)
	}
	return nil
}
