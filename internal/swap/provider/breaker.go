package provider

import (
	"slices"
	"sync"
	"time"
)

const (
	breakerFailures = 5
	breakerWindow   = time.Minute
	pauseFirst      = 30 * time.Second
	pauseMax        = 10 * time.Minute
)

// breaker stops the questions to a provider that fails. It opens after breakerFailures within breakerWindow, and
// lets one call through after each pause. A success of that call closes it. It is safe for concurrent use.
type breaker struct {
	mu        sync.Mutex
	failures  []time.Time
	openedAt  time.Time     // zero: closed
	openUntil time.Time     // when the next trial may start
	pause     time.Duration // the current one
	isTried   bool          // a trial is under way
}

// result is how a call ended.
type result int

const (
	answered result = iota
	failed
	abandoned // the caller gave up: it says nothing about the provider
)

// start reports whether a call may start. The caller reports its result to finish.
func (b *breaker) start(now time.Time) (finish func(now time.Time, r result), isAllowed bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	isTrial := !b.openedAt.IsZero()
	if isTrial && (b.isTried || now.Before(b.openUntil)) {
		return nil, false
	}
	b.isTried = isTrial
	return func(now time.Time, r result) { b.endCall(now, r, isTrial) }, true
}

func (b *breaker) endCall(now time.Time, r result, isTrial bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case isTrial:
		b.isTried = false
		switch r {
		case answered:
			b.failures, b.openedAt, b.openUntil, b.pause = nil, time.Time{}, time.Time{}, 0
		case failed:
			b.pause = min(2*b.pause, pauseMax)
			b.openUntil = now.Add(b.pause)
		}
	case r != failed || !b.openedAt.IsZero():
		// A call that began before the breaker opened changes nothing any more.
	default:
		b.failures = slices.DeleteFunc(b.failures, func(t time.Time) bool { return now.Sub(t) > breakerWindow })
		if b.failures = append(b.failures, now); len(b.failures) >= breakerFailures {
			b.openedAt, b.pause = now, pauseFirst
			b.openUntil = now.Add(b.pause)
		}
	}
}

// openSince returns when the breaker opened, or zero.
func (b *breaker) openSince() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.openedAt
}
