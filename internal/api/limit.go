package api

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
)

// Rate is how often something may happen: Burst at once, and then one every
// Period divided by Count. The zero Rate sets no limit.
type Rate struct {
	Count  int
	Period time.Duration
	Burst  int
}

// Limits are how many requests are taken. They hold for each process alone, in
// memory: they protect the service from a caller's loop, not money from anyone.
type Limits struct {
	Reads   Rate // of an organization
	Writes  Rate // of an organization
	Quotes  Rate // of an organization: what asks a chain or a provider and keeps nothing
	Exports Rate // of an organization: lists as tables
	// Failures are wrong keys from one address. A right key from there still works.
	Failures Rate
}

// UsualLimits are the ones to start with.
var UsualLimits = Limits{
	Reads:    Rate{Count: 200, Period: time.Second, Burst: 400},
	Writes:   Rate{Count: 100, Period: time.Second, Burst: 200},
	Quotes:   Rate{Count: 20, Period: time.Second, Burst: 40},
	Exports:  Rate{Count: 5, Period: time.Second, Burst: 5},
	Failures: Rate{Count: 20, Period: time.Minute, Burst: 20},
}

// bucketsMax is how many callers a limiter remembers at most.
const bucketsMax = 10_000

// limiter counts by the time at which a caller's bucket is full again, which is
// one value a caller and never a fraction.
type limiter struct {
	rate  Rate
	clock func() time.Time
	mu    sync.Mutex
	// A caller stands in recent, or in older if it did not come since recent was begun.
	// When recent has half of bucketsMax, older is forgotten whole: no request pays for a
	// look at all of them, however many addresses somebody has.
	recent, older map[string]time.Time
}

func newLimiter(r Rate, clock func() time.Time) *limiter {
	return &limiter{rate: r, clock: clock, recent: map[string]time.Time{}}
}

// verdict is what a limiter says of one request.
type verdict struct {
	taken     bool
	remaining int
	reset     time.Duration // until the bucket is full
	retry     time.Duration // until the next request is taken
}

// take counts a request of a caller, unless it is one too many.
func (l *limiter) take(caller string) verdict {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock()
	each := l.rate.Period / time.Duration(l.rate.Count)
	full, ok := l.recent[caller]
	if !ok {
		full = l.older[caller]
	}
	if full.Before(now) {
		full = now
	}
	after := full.Add(each)
	room := now.Add(each * time.Duration(l.rate.Burst))
	if after.After(room) {
		l.remember(caller, full)
		return verdict{reset: full.Sub(now), retry: after.Sub(room)}
	}
	l.remember(caller, after)
	return verdict{taken: true, remaining: int(room.Sub(after) / each), reset: after.Sub(now)}
}

func (l *limiter) remember(caller string, full time.Time) {
	if _, known := l.recent[caller]; !known && len(l.recent) >= bucketsMax/2 {
		l.older, l.recent = l.recent, make(map[string]time.Time)
	}
	l.recent[caller] = full
}

// seconds rounds up: who waits that long is not turned away again.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// limiters are one for each class of requests.
type limiters struct{ reads, writes, quotes, exports, failures *limiter }

func newLimiters(l Limits, clock func() time.Time) limiters {
	return limiters{
		newLimiter(l.Reads, clock), newLimiter(l.Writes, clock), newLimiter(l.Quotes, clock),
		newLimiter(l.Exports, clock), newLimiter(l.Failures, clock),
	}
}

// class is what a request counts as.
func (a *api) class(c *call) *limiter {
	switch {
	case c.table:
		return a.rates.exports
	case c.route.quote:
		return a.rates.quotes
	case c.Method == http.MethodGet:
		return a.rates.reads
	}
	return a.rates.writes
}

// limit counts a request of an organization and says in the headers how it
// stands. It counts once: a withdrawal asks after its key has been looked up, so
// that a replay is answered whatever the rate.
func (a *api) limit(c *call) error {
	l := a.class(c)
	if l.rate.Count == 0 || c.counted {
		return nil
	}
	c.counted = true
	v := l.take(c.caller())
	c.warn.Set("RateLimit-Limit", strconv.Itoa(l.rate.Burst))
	c.warn.Set("RateLimit-Remaining", strconv.Itoa(v.remaining))
	c.warn.Set("RateLimit-Reset", seconds(v.reset))
	return v.refusal(c.warn)
}

func (v verdict) refusal(h http.Header) error {
	if v.taken {
		return nil
	}
	h.Set("Retry-After", seconds(v.retry))
	return fault.New(fault.Limited, fault.RateLimited,
		"Too many requests. Nothing was done, which says nothing about earlier attempts. Wait %s seconds and repeat the request, a withdrawal with the same idempotencyKey.", seconds(v.retry))
}

// failed counts a wrong key by the address that it came from. What a client says
// of its own address limits nobody: see Proxies.
func (a *api) failed(r *http.Request, h http.Header) error {
	if a.rates.failures.rate.Count == 0 {
		return nil
	}
	return a.rates.failures.take(a.neighborhood(r)).refusal(h)
}
