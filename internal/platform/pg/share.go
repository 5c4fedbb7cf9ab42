package pg

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrShareExhausted is returned if other requests of the same caller used its whole share of the
// connections for too long. The request has not begun any work in the database.
var ErrShareExhausted = errors.New("the caller's share of the connections is in use")

// callerShares holds each caller's share of the connections, with one slot per connection. The
// shares apply to one process, as the pool does.
type callerShares struct {
	mu       sync.Mutex
	byCaller map[string]chan struct{}
}

// shareSize returns a caller's share of that many connections: half of them less one. Transfers are
// written in groups, on at most two more connections of an organization. In every size of pool, one
// caller leaves connections to the others.
func shareSize(conns int) int { return max(1, conns/2-1) }

// shareTurn is one request of a caller with a share.
type shareTurn struct {
	slots   chan struct{}
	waitMax time.Duration
	begun   atomic.Bool // the request has had a connection
}

type shareKey struct{}

// WithShare returns a context for one request of a caller. Its transactions take their connections
// from the caller's share, and wait while the share is in use. The first transaction waits at most
// waitMax and then fails with ErrShareExhausted. Later ones wait as long as the context lasts,
// because what the request did before cannot be undone.
//
// A transaction takes its slot of the share before its connection and holds it no longer than the
// connection. A request that waits for something else therefore delays no other. Rule LIM-3.
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

// acquireSlot waits for a slot of the context's share, if it has one. release gives it back.
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
	var late <-chan time.Time // stays nil, and so never fires, once the request has begun
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
