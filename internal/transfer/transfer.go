// Package transfer moves money between customers and products of one
// organization, at once and without a chain. It is called often and is small, so
// requests that come at the same time are written together: one writer for each
// organization takes what has arrived while it was committing, looks at each
// request by itself, and commits those that hold in one transaction. Who is
// refused is refused alone.
//
// What never happens here: a row without its posting or a posting without its
// row, a second row for a key, a refused request that wrote anything, an answer
// before the commit, a balance that decides from memory: what was read is only a
// reason to try, and the books refuse what it does not cover. What a crash
// leaves: each transfer whole (row, posting, event, audit) or absent. A caller
// that saw no answer sends the same key again and gets the row, or makes it.
package transfer

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/group"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// The bounds of the writers.
const (
	groupMax    = 256              // requests in one transaction
	parallelMin = 16               // requests that are worth a second transaction beside the one that runs
	waitingMax  = 1024             // requests of one organization that may wait
	writersMax  = 6                // organizations that are written at a moment: connections that are used
	workTimeout = 30 * time.Second // for a group, its second tries included
)

// Request is a transfer as a surface hands it over: the caller's own words.
type Request struct {
	MintID         int
	Amount         string // atomic units; whole tokens with UseDecimal
	UseDecimal     bool
	From, To       Party
	IdempotencyKey string
	Reference      *string
	Metadata       map[string]string
	Actor          audit.Actor // who asks, for the audit log
	// Limit, unless nil, is asked once the key is known to be new, before
	// anything else can refuse. It is called from another goroutine, before
	// Request returns.
	Limit func() error
}

// Party is one side: exactly one of its members is given.
type Party struct{ CustomerID, Product *string }

// Outcome is a transfer as it is, and whether its key was known before.
type Outcome struct {
	Transfer webhook.Transfer
	Replayed bool
}

// Service takes transfers in. It is safe for concurrent use.
type Service struct {
	db      *pg.DB
	slots   chan struct{} // one place for each writer that is at work
	mu      sync.Mutex
	writers map[string]*group.Writer[*pendingRequest, Outcome] // by organization
}

// New makes the service. It starts nothing: a writer works while requests wait.
func New(db *pg.DB) *Service {
	return &Service{db: db, slots: make(chan struct{}, writersMax), writers: map[string]*group.Writer[*pendingRequest, Outcome]{}}
}

// orgWriter is the line of an organization. One writer an organization keeps row
// level security between them: a transaction acts for one. See decision 0022.
func (s *Service) orgWriter(org string) *group.Writer[*pendingRequest, Outcome] {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[org]
	if w == nil {
		w = &group.Writer[*pendingRequest, Outcome]{
			GroupMax: groupMax, SecondGroupMin: parallelMin, WaitingMax: waitingMax, WorkMax: workTimeout,
			ProcessGroup: func(ctx context.Context, requests []*pendingRequest) []group.Answer[Outcome] {
				return s.serveGroup(ctx, org, requests)
			},
		}
		s.writers[org] = w
	}
	return w
}

// Request makes a transfer, or shows the one that its key has made. Errors: a
// fault, after which this request moved nothing; UNAVAILABLE among them when too
// many wait. Anything else leaves open whether the transfer exists, and the same
// request with the same key tells.
func (s *Service) Request(ctx context.Context, org string, r Request) (Outcome, error) {
	a, err := parseRequest(org, r)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := s.orgWriter(org).SubmitAndWait(ctx, a)
	if errors.Is(err, group.ErrFull) || errors.Is(err, group.ErrAbandoned) {
		return outcome, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"More transfers of your organization are waiting than can be taken in, and it was not this one's turn. Nothing was moved. Repeat the request with the same idempotencyKey after the seconds that Retry-After names.")
	}
	return outcome, err
}
