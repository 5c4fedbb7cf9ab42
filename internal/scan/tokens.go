package scan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	reviewInterval   = 10 * time.Minute // between two reviews of the whole catalogue
	reviewRetryAfter = time.Minute      // after a failed review
)

// inspectMints inspects the mints that arrived in a final block. It returns the unusable ones with
// the reason. If no provider answers, the block is not written. Rule DEP-42.
func (w *Walker) inspectMints(ctx context.Context, arrivals []Arrival) (unusable map[int]string, err error) {
	if w.tokens == nil {
		return nil, nil
	}
	checked := map[int]bool{}
	for _, f := range arrivals {
		if f.Mint == nil || f.Mint.Contract == "" || f.Mint.Quarantined || checked[f.Mint.ID] {
			continue
		}
		checked[f.Mint.ID] = true
		reason, err := w.tokens.InspectToken(ctx, f.Mint.Contract)
		if err != nil {
			return nil, fmt.Errorf("check whether mint %d is unchanged: %w", f.Mint.ID, err)
		}
		if reason != "" {
			if unusable == nil {
				unusable = map[int]string{}
			}
			unusable[f.Mint.ID] = reason
		}
	}
	return unusable, nil
}

// quarantineMints quarantines mints, in the order of their ids.
func quarantineMints(ctx context.Context, tx pg.Tx, unusable map[int]string) error {
	for _, id := range slices.Sorted(maps.Keys(unusable)) {
		if err := mint.Quarantine(ctx, tx, id, unusable[id]); err != nil {
			return err
		}
	}
	return nil
}

// reviewCatalogue inspects all mints of the chain at intervals. A mint that turns out to be
// unusable is quarantined before any of it arrives. An error does not stop the walk, because
// arriving mints are inspected again. Rule DEP-42.
func (w *Walker) reviewCatalogue(ctx context.Context) {
	now := w.db.Clock()()
	if w.tokens == nil || now.Unix() < w.nextReview.Load() {
		return
	}
	nextReview := now.Add(reviewInterval)
	unusable, err := w.inspectCatalogue(ctx)
	if len(unusable) > 0 {
		err = errors.Join(
			err,
			w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return quarantineMints(ctx, tx, unusable) }),
		)
	}
	for _, id := range slices.Sorted(maps.Keys(unusable)) {
		w.log.Error(
			"scan: a mint differs from the catalogue, so it is quarantined", "mint", id,
			"why", unusable[id], "error", err,
		)
	}
	if err != nil {
		nextReview = now.Add(reviewRetryAfter)
		w.log.Warn("scan: no provider says whether the tokens of the catalogue are unchanged", "error", err)
	}
	w.nextReview.Store(nextReview.Unix())
}

// inspectCatalogue inspects every mint of the chain. An error of one mint does not hide the others.
func (w *Walker) inspectCatalogue(ctx context.Context) (unusable map[int]string, err error) {
	var catalogue mint.Catalogue
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		catalogue, err = mint.LoadCatalogue(ctx, tx)
		return err
	})
	unusable = map[int]string{}
	for _, m := range catalogue.List(mint.Filter{Chain: w.conf.Chain}) {
		reasons, e := w.inspectMints(ctx, []Arrival{{Mint: &m}})
		maps.Copy(unusable, reasons)
		err = errors.Join(err, e)
	}
	return unusable, err
}
