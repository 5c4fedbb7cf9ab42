package kernel

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
)

// Rate limits how often something may happen: Burst at once, and then one every Period divided by
// Count. The zero Rate sets no limit.
type Rate struct {
	Count  int
	Period time.Duration
	Burst  int
}

// Limits are the rates of requests. They apply to each process alone, in memory: they protect the
// service from a caller's loop, and do not protect money.
type Limits struct {
	Reads  Rate // per organization
	Writes Rate // per organization
	// Per organization, for calls that ask a chain or a provider and store nothing.
	Quotes  Rate
	Exports Rate // per organization, for lists as tables
	// Failures counts wrong keys from one address. A right key from there still works.
	Failures Rate
}

// UsualLimits are the default limits. Rule LIM-4.
var UsualLimits = Limits{
	Reads:    Rate{Count: 200, Period: time.Second, Burst: 400},
	Writes:   Rate{Count: 100, Period: time.Second, Burst: 200},
	Quotes:   Rate{Count: 20, Period: time.Second, Burst: 40},
	Exports:  Rate{Count: 5, Period: time.Second, Burst: 5},
	Failures: Rate{Count: 20, Period: time.Minute, Burst: 20},
}

// bucketsMax bounds the callers that a limiter remembers. Rule LIM-2.
const bucketsMax = 10_000

// limiter stores for each caller the time at which its bucket is full again. That is one value per
// caller and never a fraction.
type limiter struct {
	rate  Rate
	clock func() time.Time
	mu    sync.Mutex
	// A caller is in recent, or in older if it has not called since recent was started. When recent
	// has half of bucketsMax, older is dropped completely. No request therefore pays for a scan of
	// all callers, however many addresses one party uses.
	recent, older map[string]time.Time
}

func newLimiter(r Rate, clock func() time.Time) *limiter {
	return &limiter{rate: r, clock: clock, recent: map[string]time.Time{}}
}

// rateResult is a limiter's answer to one request.
type rateResult struct {
	allowed   bool
	remaining int
	reset     time.Duration // until the bucket is full
	retry     time.Duration // until the next request is allowed
}

// countRequest counts a request of a caller, unless it exceeds the rate.
func (l *limiter) countRequest(caller string) rateResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	current := l.clock()
	interval := l.rate.Period / time.Duration(l.rate.Count)
	full, ok := l.recent[caller]
	if !ok {
		full = l.older[caller]
	}
	if full.Before(current) {
		full = current
	}
	fullAfter := full.Add(interval)
	room := current.Add(interval * time.Duration(l.rate.Burst))
	if fullAfter.After(room) {
		l.storeFullAt(caller, full)
		return rateResult{reset: full.Sub(current), retry: fullAfter.Sub(room)}
	}
	l.storeFullAt(caller, fullAfter)
	return rateResult{allowed: true, remaining: int(room.Sub(fullAfter) / interval), reset: fullAfter.Sub(current)}
}

// uncountRequest takes back one request of a caller that was counted and allowed.
func (l *limiter) uncountRequest(caller string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if full, ok := l.recent[caller]; ok {
		l.recent[caller] = full.Add(-l.rate.Period / time.Duration(l.rate.Count))
	}
}

func (l *limiter) storeFullAt(caller string, full time.Time) {
	if _, isRecent := l.recent[caller]; !isRecent && len(l.recent) >= bucketsMax/2 {
		l.older, l.recent = l.recent, make(map[string]time.Time)
	}
	l.recent[caller] = full
}

// Limiter counts the requests of callers, each by the same rate, in memory.
type Limiter struct{ inner *limiter }

// NewLimiter makes a Limiter. The zero Rate sets no limit.
func NewLimiter(r Rate, clock func() time.Time) *Limiter { return &Limiter{newLimiter(r, clock)} }

// CountRequest counts a request of a caller and returns 0, or how long the caller has to wait if the
// request exceeds the rate.
func (l *Limiter) CountRequest(caller string) (wait time.Duration) {
	if l.inner.rate.Count == 0 {
		return 0
	}
	return l.inner.countRequest(caller).retry
}

// FormatWait writes a wait in whole seconds, so that a caller that waits that long is not refused again.
func FormatWait(d time.Duration) string { return formatSeconds(d) }

// formatSeconds rounds up, so that a caller that waits that long is not refused again.
func formatSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}

// limiterSet has one limiter for each class of requests.
type limiterSet struct{ reads, writes, quotes, exports, failures *limiter }

func newLimiters(l Limits, clock func() time.Time) limiterSet {
	return limiterSet{
		newLimiter(l.Reads, clock), newLimiter(l.Writes, clock), newLimiter(l.Quotes, clock),
		newLimiter(l.Exports, clock), newLimiter(l.Failures, clock),
	}
}

// limiterFor returns the limiter of a request's class.
func (s *server) limiterFor(c *Request) *limiter {
	switch {
	case c.table:
		return s.rates.exports
	case c.route.CountsAsQuote:
		return s.rates.quotes
	case c.Method == http.MethodGet:
		return s.rates.reads
	}
	return s.rates.writes
}

// checkRate counts a request of an organization and reports the state of the rate in the headers.
// It counts a request once. A withdrawal checks its rate after its key was looked up, so that a
// replay is answered at any rate. Rule LIM-1.
func (s *server) checkRate(c *Request) error {
	l := s.limiterFor(c)
	if l.rate.Count == 0 || c.counted {
		return nil
	}
	c.counted = true
	v := l.countRequest(c.caller.CallerID())
	c.allowed = v.allowed
	c.AnswerHeader.Set("RateLimit-Limit", strconv.Itoa(l.rate.Burst))
	c.AnswerHeader.Set("RateLimit-Remaining", strconv.Itoa(v.remaining))
	c.AnswerHeader.Set("RateLimit-Reset", formatSeconds(v.reset))
	return v.toFault(c.AnswerHeader)
}

// UncountRate takes back what CheckScopeAndRate counted, for a request whose key turned out to be known: a replay is
// free. Rule LIM-1.
func (c *Request) UncountRate() {
	l := c.server.limiterFor(c)
	if l.rate.Count == 0 || !c.counted {
		return
	}
	if c.allowed {
		l.uncountRequest(c.caller.CallerID())
	}
	c.counted, c.allowed = false, false
	for _, name := range []string{"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset", "Retry-After"} {
		c.AnswerHeader.Del(name)
	}
}

func (v rateResult) toFault(h http.Header) error {
	if v.allowed {
		return nil
	}
	h.Set("Retry-After", formatSeconds(v.retry))
	return fault.New(fault.Limited, fault.RateLimited, fault.Unprocessed,
		"Too many requests.").
		WithAdvice("Wait %s seconds and repeat the request; repeat a payment with the same "+
			"idempotencyKey.", formatSeconds(
			v.retry,
		))
}

// checkFailureRate counts a wrong key by the address from which it came. An address that a client
// claims for itself is not used: see Proxies. Rule LIM-2.
func (s *server) checkFailureRate(r *http.Request, h http.Header) error {
	if s.rates.failures.rate.Count == 0 {
		return nil
	}
	return s.rates.failures.countRequest(s.conf.Proxies.RateKey(r)).toFault(h)
}
