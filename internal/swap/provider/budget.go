package provider

import (
	"slices"
	"sync"
	"time"
)

const (
	budgetPeriod = time.Minute
	// reserveShare is the part of a budget that is kept for firm quotes: a swap whose wallets exist does not fail
	// because others looked at prices.
	reserveShare = 4
)

// budget counts the quotes that a provider was asked for. It is safe for concurrent use.
type budget struct {
	perMinute int // 0: no limit

	mu    sync.Mutex
	calls []time.Time // within the last period
}

// take counts one quote. It reports false if the budget is used up, for dry quotes as soon as it runs low.
func (b *budget) take(now time.Time, isFirm bool) bool {
	if b.perMinute <= 0 {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.calls = slices.DeleteFunc(b.calls, func(t time.Time) bool { return now.Sub(t) >= budgetPeriod })
	limit := b.perMinute
	if !isFirm {
		limit -= (b.perMinute + reserveShare - 1) / reserveShare
	}
	if len(b.calls) >= limit {
		return false
	}
	b.calls = append(b.calls, now)
	return true
}
