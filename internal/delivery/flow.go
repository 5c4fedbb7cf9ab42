package delivery

import (
	"sync"
	"time"
)

const (
	inFlightMax = 1024 // posts of one process at a time
	flowStart   = 4    // posts to an endpoint that nothing is known of
	flowMax     = 256  // posts to one endpoint
	quick       = time.Second
)

// flows bounds what is in flight: for the process, and for each endpoint by what it
// showed. A quick success gives an endpoint one more place, so its places double with
// each round; a slow success takes it back towards the start; a failure halves them, to
// one. A dead receiver therefore holds one place for as long as an attempt lasts, and
// is quick again soon after it recovers. It is memory that may be lost.
type flows struct {
	mu    sync.Mutex
	of    map[string]*flow
	total int
}

type flow struct{ places, taken int }

// room lists the endpoints whose room is not the start's, and the places left in all.
func (f *flows) room() (endpoints []string, rooms []int32, left int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for endpoint, flow := range f.of {
		endpoints = append(endpoints, endpoint)
		rooms = append(rooms, int32(max(flow.places-flow.taken, 0)))
	}
	return endpoints, rooms, inFlightMax - f.total
}

func (f *flows) take(endpoint string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.of == nil {
		f.of = map[string]*flow{}
	}
	if f.of[endpoint] == nil {
		f.of[endpoint] = &flow{places: flowStart}
	}
	f.of[endpoint].taken++
	f.total++
}

func (f *flows) give(endpoint string, o outcome) {
	f.mu.Lock()
	defer f.mu.Unlock()
	flow := f.of[endpoint]
	flow.taken--
	f.total--
	switch {
	case o.abandoned:
	case !o.delivered():
		flow.places = max(flow.places/2, 1)
	case o.took < quick:
		flow.places = min(flow.places+1, flowMax)
	case flow.places > flowStart:
		flow.places--
	}
	if flow.taken == 0 && flow.places == flowStart {
		delete(f.of, endpoint)
	}
}
