package pages

import "sync"

// sessionQueues lets the acts of each session run one after another in this process. Of a double click
// the second act therefore finds the first one done.
type sessionQueues struct {
	mu     sync.Mutex
	queues map[string]*sessionQueue
}

type sessionQueue struct {
	mu      sync.Mutex
	waiting int
}

// enter waits for the other acts of a session; leave lets the next one run.
func (q *sessionQueues) enter(session string) (leave func()) {
	q.mu.Lock()
	if q.queues == nil {
		q.queues = map[string]*sessionQueue{}
	}
	own := q.queues[session]
	if own == nil {
		own = &sessionQueue{}
		q.queues[session] = own
	}
	own.waiting++
	q.mu.Unlock()
	own.mu.Lock()
	return func() {
		own.mu.Unlock()
		q.mu.Lock()
		defer q.mu.Unlock()
		if own.waiting--; own.waiting == 0 {
			delete(q.queues, session)
		}
	}
}
