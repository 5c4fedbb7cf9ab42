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
	reviewEvery = 10 * time.Minute // between two looks at the whole catalogue
	reviewAgain = time.Minute      // after one that did not come about
)

// inspect asks about the tokens of a final block that came to us. While nobody says, the
// block is not taken in.
func (w *Walker) inspect(ctx context.Context, found []Found) (unsound map[int]string, err error) {
	if w.tokens == nil {
		return nil, nil
	}
	asked := map[int]bool{}
	for _, f := range found {
		if f.Mint == nil || f.Mint.Contract == "" || f.Mint.Quarantined || asked[f.Mint.ID] {
			continue
		}
		asked[f.Mint.ID] = true
		why, err := w.tokens.Unsound(ctx, f.Mint.Contract)
		if err != nil {
			return nil, fmt.Errorf("whether mint %d is what it was: %w", f.Mint.ID, err)
		}
		if why != "" {
			if unsound == nil {
				unsound = map[int]string{}
			}
			unsound[f.Mint.ID] = why
		}
	}
	return unsound, nil
}

// quarantine stops mints, in the order of their ids.
func quarantine(ctx context.Context, tx pg.Tx, unsound map[int]string) error {
	for _, id := range slices.Sorted(maps.Keys(unsound)) {
		if err := mint.Quarantine(ctx, tx, id, unsound[id]); err != nil {
			return err
		}
	}
	return nil
}

// reviewed looks at all tokens of the chain in the catalogue, when it is time to. One
// that turns out to be no money is stopped before anything of it comes. It stops no walk:
// what comes is asked about again.
func (w *Walker) reviewed(ctx context.Context) {
	now := w.db.Clock()()
	if w.tokens == nil || now.Unix() < w.review.Load() {
		return
	}
	next := now.Add(reviewEvery)
	unsound, err := w.catalogue(ctx)
	if len(unsound) > 0 {
		err = errors.Join(err, w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error { return quarantine(ctx, tx, unsound) }))
	}
	for _, id := range slices.Sorted(maps.Keys(unsound)) {
		w.log.Error("scan: a mint is not the money that the catalogue takes it for, and is under quarantine", "mint", id, "why", unsound[id], "error", err)
	}
	if err != nil {
		next = now.Add(reviewAgain)
		w.log.Warn("scan: nobody says whether the tokens of the catalogue are what they were", "error", err)
	}
	w.review.Store(next.Unix())
}

// catalogue asks about every token of the chain. Those that nobody can tell anything of
// hide no other.
func (w *Walker) catalogue(ctx context.Context) (unsound map[int]string, err error) {
	var all mint.Catalogue
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		all, err = mint.All(ctx, tx)
		return err
	})
	unsound = map[int]string{}
	for _, m := range all.List(mint.Filter{Chain: w.conf.Chain}) {
		one, e := w.inspect(ctx, []Found{{Mint: &m}})
		maps.Copy(unsound, one)
		err = errors.Join(err, e)
	}
	return unsound, err
}
