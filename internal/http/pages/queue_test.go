package pages

import (
	"sync"
	"sync/atomic"
	"testing"
)

// Acts of one session run one after another, and nothing is kept of a session without acts.
func TestTheActsOfASessionRunOneAfterAnother(t *testing.T) {
	t.Parallel()
	var queues sessionQueues
	var running, most atomic.Int32
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			leave := queues.enter("ses_1")
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			running.Add(-1)
			leave()
		})
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("got %d acts at once, want 1", most.Load())
	}
	if len(queues.queues) != 0 {
		t.Errorf("got %d queues after all acts, want none", len(queues.queues))
	}
}
