package provider

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

const (
	assetsTTL      = 10 * time.Minute
	assetsAgeMax   = 24 * time.Hour
	assetsRetry    = 10 * time.Second
	assetsTimeout  = 20 * time.Second
	assetsCountMax = 20_000
)

// AssetCache keeps the assets of a provider. While the provider does not answer, a list of up to a day is
// used: it decides who is asked, and a quote for an asset that is gone is refused.
type AssetCache struct {
	Fetch func(ctx context.Context) ([]Asset, error)
	Clock func() time.Time // nil: the system's clock

	flight    singleflight.Group
	mu        sync.Mutex
	assets    []Asset
	err       error // of the last fetch
	fetchedAt time.Time
	triedAt   time.Time
}

// Assets returns the list. Error: ErrUnavailable.
func (c *AssetCache) Assets(ctx context.Context) ([]Asset, error) {
	if assets, isFresh, err := c.findFresh(); isFresh {
		return assets, err
	}
	// Concurrent callers wait for the same answer, and one that gives up does not cancel it for the others.
	pending := c.flight.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), assetsTimeout)
		defer cancel()
		assets, err := c.Fetch(ctx)
		if err == nil && len(assets) > assetsCountMax {
			err = Malformed("a list of %d assets", len(assets))
		}
		c.store(assets, err)
		return nil, nil
	})
	select {
	case <-ctx.Done():
		return nil, Unavailable("its assets: %w", context.Cause(ctx))
	case <-pending:
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.usable(c.now())
}

// findFresh returns what needs no new request.
func (c *AssetCache) findFresh() (assets []Asset, isFresh bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	if !c.triedAt.IsZero() && (c.err == nil && now.Sub(c.fetchedAt) < assetsTTL || now.Sub(c.triedAt) < assetsRetry) {
		assets, err = c.usable(now)
		return assets, true, err
	}
	return nil, false, nil
}

func (c *AssetCache) store(assets []Asset, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err, c.triedAt = err, c.now()
	if err == nil {
		c.assets, c.fetchedAt = assets, c.triedAt
	}
}

// usable returns the last list while it is not too old.
func (c *AssetCache) usable(now time.Time) ([]Asset, error) {
	if c.fetchedAt.IsZero() || c.err != nil && now.Sub(c.fetchedAt) > assetsAgeMax {
		return nil, Unavailable("its assets: %w", c.err)
	}
	return c.assets, nil
}

func (c *AssetCache) now() time.Time {
	if c.Clock != nil {
		return c.Clock()
	}
	return time.Now()
}
