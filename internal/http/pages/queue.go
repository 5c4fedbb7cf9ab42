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
	queue := q.queues[session]
	if queue == nil {
		queue = &sessionQueue{}
		q.queues[session] = queue
	}
	queue.waiting++
	q.mu.Unlock()
	queue.mu.Lock()
	return func() {
		queue.mu.Unlock()
		q.mu.Lock()
		defer q.mu.Unlock()
		if queue.waiting--; queue.waiting == 0 {
			delete(q.queues, session)
		}
	}
}
