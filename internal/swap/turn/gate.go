package turn

import (
	"context"
	"sync"
)

// Gate lets one request for an id run at a time in this process. The zero value is ready. It is safe for concurrent
// use.
type Gate struct {
	mu      sync.Mutex
	waiting map[[2]string]*gateTurn
}

type gateTurn struct {
	turn  chan struct{} // holds one value while a request runs
	count int           // requests that run or wait
}

// enter waits until no other request for the id runs. Error: the context's.
func (g *Gate) enter(ctx context.Context, org, madeID string) (release func(), err error) {
	k := [2]string{org, madeID}
	g.mu.Lock()
	if g.waiting == nil {
		g.waiting = map[[2]string]*gateTurn{}
	}
	t := g.waiting[k]
	if t == nil {
		t = &gateTurn{turn: make(chan struct{}, 1)}
		g.waiting[k] = t
	}
	t.count++
	g.mu.Unlock()
	leave := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if t.count--; t.count == 0 {
			delete(g.waiting, k)
		}
	}
	select {
	case t.turn <- struct{}{}:
		return func() { <-t.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
