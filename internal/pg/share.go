package pg

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrShareExhausted is the answer to a caller whose share of the connections stayed in use by
// its own other requests: the request has not begun anything in the database.
var ErrShareExhausted = errors.New("the caller's share of the connections is in use")

// callerShares are how many connections each caller has at a time: one place each. They hold
// for each process alone, as the pool does.
type callerShares struct {
	mu       sync.Mutex
	byCaller map[string]chan struct{}
}

// shareSize is a caller's share of so many connections: half of them less one. Transfers
// are written together, on two connections of an organization at most, beside its
// share; whatever the size, one caller leaves some to the others.
func shareSize(conns int) int { return max(1, conns/2-1) }

// shareTurn is one request of a caller that has a share.
type shareTurn struct {
	slots   chan struct{}
	waitMax time.Duration
	begun   atomic.Bool // it has had a connection
}

type shareKey struct{}

// WithShare is a context of one request of a caller. Its transactions take their connection
// out of the caller's share, and wait while the share is in use: the first of them for
// patience at most, and then it is ErrShareExhausted. Later ones wait as long as the context
// lasts, because what the request did before cannot be taken back.
//
// A transaction takes its place in the share before its connection and has it no longer
// than that, so a request that waits for something else delays no other.
func (db *DB) WithShare(ctx context.Context, caller string, waitMax time.Duration) context.Context {
	db.shares.mu.Lock()
	defer db.shares.mu.Unlock()
	slots := db.shares.byCaller[caller]
	if slots == nil {
		if db.shares.byCaller == nil {
			db.shares.byCaller = map[string]chan struct{}{}
		}
		slots = make(chan struct{}, shareSize(db.conf.MaxConns))
		db.shares.byCaller[caller] = slots
	}
	return context.WithValue(ctx, shareKey{}, &shareTurn{slots: slots, waitMax: waitMax})
}

// acquireSlot waits for a place in the share that a context has, if it has one. done gives it
// back.
func acquireSlot(ctx context.Context) (release func(), err error) {
	t, _ := ctx.Value(shareKey{}).(*shareTurn)
	if t == nil {
		return func() {}, nil
	}
	release = func() { <-t.slots }
	select {
	case t.slots <- struct{}{}:
		t.begun.Store(true)
		return release, nil
	default:
	}
	var late <-chan time.Time // never, once it has begun
	if !t.begun.Load() {
		timer := time.NewTimer(t.waitMax)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case t.slots <- struct{}{}:
		t.begun.Store(true)
		return release, nil
	case <-late:
		return nil, ErrShareExhausted
	case <-ctx.Done():
		return nil, markNoConnection(ctx, context.Cause(ctx))
	}
}
