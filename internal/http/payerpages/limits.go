package payerpages

import (
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

// Limits are the rates of one client, which is an IPv4 address or the /64 network of an IPv6 address, in each process
// alone. They protect the service and move no money. A zero sets no limit.
type Limits struct {
	Views   kernel.Rate // pages, and beginnings of live streams
	Opens   kernel.Rate // choices of an option, and transactions for wallets
	Finds   kernel.Rate // searches for a transaction
	Buys    kernel.Rate // forms of payment links
	Claims  kernel.Rate // claims of a refund, and new keys of refunds
	Images  kernel.Rate
	Streams int // live streams at the same time

	// Actions is the rate of one checkout, by all clients together: everything but reading its page.
	Actions kernel.Rate
}

// UsualLimits are the default limits. Rules CO-46, CO-68, CO-94 and CO-122.
var UsualLimits = Limits{
	Views:   kernel.Rate{Count: 60, Period: time.Minute, Burst: 60},
	Opens:   kernel.Rate{Count: 20, Period: time.Minute, Burst: 20},
	Finds:   kernel.Rate{Count: 6, Period: time.Minute, Burst: 6},
	Buys:    kernel.Rate{Count: 10, Period: time.Minute, Burst: 10},
	Claims:  kernel.Rate{Count: 10, Period: time.Minute, Burst: 10},
	Images:  kernel.Rate{Count: 600, Period: time.Minute, Burst: 600},
	Streams: 10,
	Actions: kernel.Rate{Count: 30, Period: time.Hour, Burst: 30},
}

// limiters has one limiter for each kind of request. Beginnings of streams are counted apart from pages: a page that
// is open in some tabs would otherwise take the views of the next one.
type limiters struct{ views, lives, opens, finds, buys, claims, keys, images, actions *kernel.Limiter }

func newLimiters(l Limits, clock func() time.Time) limiters {
	return limiters{
		views: kernel.NewLimiter(l.Views, clock), lives: kernel.NewLimiter(l.Views, clock),
		opens: kernel.NewLimiter(l.Opens, clock), finds: kernel.NewLimiter(l.Finds, clock),
		buys: kernel.NewLimiter(l.Buys, clock), claims: kernel.NewLimiter(l.Claims, clock),
		keys: kernel.NewLimiter(l.Claims, clock), images: kernel.NewLimiter(l.Images, clock),
		actions: kernel.NewLimiter(l.Actions, clock),
	}
}

// streamsMax bounds the live streams of all clients together, in each process.
const streamsMax = 10_000

// streams counts the open live streams.
type streams struct {
	mu          sync.Mutex
	ofClientMax int // 0 for no limit
	total       int
	byClient    map[string]int
}

// enter counts a stream of a client, if there is room for it.
func (s *streams) enter(client string) (leave func(), ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.total >= streamsMax || s.ofClientMax > 0 && s.byClient[client] >= s.ofClientMax {
		return nil, false
	}
	s.total++
	s.byClient[client]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.total--
		if s.byClient[client]--; s.byClient[client] == 0 {
			delete(s.byClient, client)
		}
	}, true
}
