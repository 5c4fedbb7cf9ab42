package pg

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoTurn is the answer to a caller whose share of the connections stayed in use by
// its own other requests: the request has not begun anything in the database.
var ErrNoTurn = errors.New("the caller's share of the connections is in use")

// shares are how many connections each caller has at a time: one place each. They hold
// for each process alone, as the pool does.
type shares struct {
	mu sync.Mutex
	of map[string]chan struct{}
}

// shareOf is a caller's share of so many connections: half of them less one. Transfers
// are written together, on two connections of an organization at most, beside its
// share; whatever the size, one caller leaves some to the others.
func shareOf(conns int) int { return max(1, conns/2-1) }

// turn is one request of a caller that has a share.
type turn struct {
	places   chan struct{}
	patience time.Duration
	begun    atomic.Bool // it has had a connection
}

type turnKey struct{}

// Shared is a context of one request of a caller. Its transactions take their connection
// out of the caller's share, and wait while the share is in use: the first of them for
// patience at most, and then it is ErrNoTurn. Later ones wait as long as the context
// lasts, because what the request did before cannot be taken back.
//
// A transaction takes its place in the share before its connection and has it no longer
// than that, so a request that waits for something else delays no other.
func (db *DB) Shared(ctx context.Context, caller string, patience time.Duration) context.Context {
	db.shares.mu.Lock()
	defer db.shares.mu.Unlock()
	places := db.shares.of[caller]
	if places == nil {
		if db.shares.of == nil {
			db.shares.of = map[string]chan struct{}{}
		}
		places = make(chan struct{}, shareOf(db.conf.MaxConns))
		db.shares.of[caller] = places
	}
	return context.WithValue(ctx, turnKey{}, &turn{places: places, patience: patience})
}

// place waits for a place in the share that a context has, if it has one. done gives it
// back.
func place(ctx context.Context) (done func(), err error) {
	t, _ := ctx.Value(turnKey{}).(*turn)
	if t == nil {
		return func() {}, nil
	}
	done = func() { <-t.places }
	select {
	case t.places <- struct{}{}:
		t.begun.Store(true)
		return done, nil
	default:
	}
	var late <-chan time.Time // never, once it has begun
	if !t.begun.Load() {
		timer := time.NewTimer(t.patience)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case t.places <- struct{}{}:
		t.begun.Store(true)
		return done, nil
	case <-late:
		return nil, ErrNoTurn
	case <-ctx.Done():
		return nil, noConnection(ctx, context.Cause(ctx))
	}
}
