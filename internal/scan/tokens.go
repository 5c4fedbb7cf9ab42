package scan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/pg"
)

const (
	reviewInterval   = 10 * time.Minute // between two looks at the whole catalogue
	reviewRetryAfter = time.Minute      // after one that did not come about
)

// inspectMints asks about the tokens of a final block that came to us. While nobody says, the
// block is not taken in.
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
			return nil, fmt.Errorf("whether mint %d is what it was: %w", f.Mint.ID, err)
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

// quarantineMints stops mints, in the order of their ids.
func quarantineMints(ctx context.Context, tx pg.Tx, unusable map[int]string) error {
	for _, id := range slices.Sorted(maps.Keys(unusable)) {
		if err := mint.Quarantine(ctx, tx, id, unusable[id]); err != nil {
			return err
		}
	}
	return nil
}

// reviewCatalogue looks at all tokens of the chain in the catalogue, when it is time to. One
// that turns out to be no money is stopped before anything of it comes. It stops no walk:
// what comes is asked about again.
func (w *Walker) reviewCatalogue(ctx context.Context) {
	now := w.db.Clock()()
	if w.tokens == nil || now.Unix() < w.nextReview.Load() {
		return
	}
	nextReview := now.Add(reviewInterval)
	unusable, err := w.inspectCatalogue(ctx)
	if len(unusable) > 0 {
		err = errors.Join(err, w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return quarantineMints(ctx, tx, unusable) }))
	}
	for _, id := range slices.Sorted(maps.Keys(unusable)) {
		w.log.Error("scan: a mint is not the money that the catalogue takes it for, and is under quarantine", "mint", id, "why", unusable[id], "error", err)
	}
	if err != nil {
		nextReview = now.Add(reviewRetryAfter)
		w.log.Warn("scan: nobody says whether the tokens of the catalogue are what they were", "error", err)
	}
	w.nextReview.Store(nextReview.Unix())
}

// inspectCatalogue asks about every token of the chain. Those that nobody can tell anything of
// hide no other.
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
