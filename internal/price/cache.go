package price

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// CachedTable is a source that fetches many prices at once and keeps them for TTL. The age of a
// price counts from the time of its source, so a cached price ages as it would there.
type CachedTable struct {
	// Fetch returns all prices, by mint.
	Fetch func(ctx context.Context) (map[int]Quote, error)
	TTL   time.Duration

	flight    singleflight.Group
	mu        sync.Mutex
	quotes    map[int]Quote
	err       error
	expiresAt time.Time
}

// failureTTL is how long a failure is kept, so that concurrent callers do not all ask a source that
// is down.
const failureTTL = time.Second

// USD returns the cached price, or a new one. Error: ErrUnavailable.
func (t *CachedTable) USD(ctx context.Context, mintID int) (Quote, error) {
	t.mu.Lock()
	quotes, err, isFresh := t.quotes, t.err, time.Now().Before(t.expiresAt)
	t.mu.Unlock()
	if !isFresh {
		// Concurrent callers wait for the same answer. A caller that gives up does not cancel it
		// for the others.
		pending := t.flight.DoChan("", func() (any, error) {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTimeout)
			defer cancel()
			fetched, err := t.Fetch(ctx)
			t.mu.Lock()
			defer t.mu.Unlock()
			t.quotes, t.err, t.expiresAt = fetched, err, time.Now().Add(t.TTL)
			if err != nil {
				t.quotes, t.expiresAt = nil, time.Now().Add(failureTTL)
			}
			return fetched, err
		})
		select {
		case <-ctx.Done():
			return Quote{}, fmt.Errorf("%w: %w", context.Cause(ctx), ErrUnavailable)
		case got := <-pending:
			quotes, _ = got.Val.(map[int]Quote)
			err = got.Err
		}
	}
	if err != nil {
		return Quote{}, fmt.Errorf("%w: %w", err, ErrUnavailable)
	}
	q, ok := quotes[mintID]
	if !ok {
		return Quote{}, fmt.Errorf("it has no price of mint %d: %w", mintID, ErrUnavailable)
	}
	return q, nil
}

// Coalesce returns a source whose concurrent callers share one answer for a mint, which is kept for
// a second. The age of a price counts from the time of its source.
func Coalesce(source Source) Source {
	return &coalescedSource{source: source, tables: map[int]*CachedTable{}}
}

type coalescedSource struct {
	source Source
	mu     sync.Mutex
	tables map[int]*CachedTable // by mint; one for each configured mint
}

const (
	coalesceTTL       = time.Second
	coalesceTablesMax = 10_000
)

// USD returns the shared answer. Error: ErrUnavailable.
func (o *coalescedSource) USD(ctx context.Context, mintID int) (Quote, error) {
	o.mu.Lock()
	t := o.tables[mintID]
	if t == nil && len(o.tables) < coalesceTablesMax {
		t = &CachedTable{TTL: coalesceTTL, Fetch: func(ctx context.Context) (map[int]Quote, error) {
			q, err := o.source.USD(ctx, mintID)
			return map[int]Quote{mintID: q}, err
		}}
		o.tables[mintID] = t
	}
	o.mu.Unlock()
	if t == nil {
		return o.source.USD(ctx, mintID)
	}
	return t.USD(ctx, mintID)
}
