package delivery

import (
	"sync"
	"time"
)

const (
	inFlightMax     = 1024 // posts of one process at a time
	windowSizeStart = 4    // posts in flight to an endpoint without a history
	windowSizeMax   = 256  // posts in flight to one endpoint
	quickAnswerMax  = time.Second
)

// windows bounds the posts in flight, for the process and for each endpoint. A quick success adds
// one to an endpoint's window, so the window doubles with each round. A slow success moves it back
// towards the start. A failure halves it, down to one. A dead receiver therefore holds one slot for
// as long as an attempt lasts, and is quick again soon after it recovers. The state is in memory
// and may be lost.
type windows struct {
	mu         sync.Mutex
	byEndpoint map[string]*window
	total      int
}

type window struct{ size, inFlight int }

// freeSlots returns the endpoints that have a window, their free slots, and the free slots of the
// process.
func (f *windows) freeSlots() (endpoints []string, free []int32, left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for endpoint, current := range f.byEndpoint {
		endpoints = append(endpoints, endpoint)
		free = append(free, int32(max(current.size-current.inFlight, 0)))
	}
	return endpoints, free, inFlightMax - f.total
}

func (f *windows) addInFlight(endpoint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byEndpoint == nil {
		f.byEndpoint = map[string]*window{}
	}
	if f.byEndpoint[endpoint] == nil {
		f.byEndpoint[endpoint] = &window{size: windowSizeStart}
	}
	f.byEndpoint[endpoint].inFlight++
	f.total++
}

func (f *windows) finishPost(endpoint string, o outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	current := f.byEndpoint[endpoint]
	current.inFlight--
	f.total--
	switch {
	case o.abandoned:
	case !o.isDelivered():
		current.size = max(current.size/2, 1)
	case o.took < quickAnswerMax:
		current.size = min(current.size+1, windowSizeMax)
	case current.size > windowSizeStart:
		current.size--
	}
	if current.inFlight == 0 && current.size == windowSizeStart {
		delete(f.byEndpoint, endpoint)
	}
}
