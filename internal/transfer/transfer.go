// Package transfer moves money between customers and products of one organization, at once and
// without a chain. Transfers are frequent and small, so concurrent requests are written together by
// group commit. One writer for each organization takes the requests that arrived during the last
// commit, decides about each by itself, and commits the accepted ones in one transaction. A refused
// request does not affect the others of its group.
//
// Invariants:
//
//   - A row has its posting, and a posting has its row.
//   - A key has at most one row.
//   - A refused request writes nothing.
//   - The answer comes after the commit.
//   - A balance in memory never decides: a balance that was read is only a reason to try, and the
//     ledger refuses what the balance does not cover.
//
// After a crash each transfer is whole (row, posting, event, audit) or absent. A caller that saw no
// answer sends the same key again and gets the row, or creates it.
package transfer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// Limits of the writers.
const (
	groupMax    = 256              // requests in one transaction
	parallelMin = 16               // waiting requests that start a second transaction in parallel
	waitingMax  = 1024             // waiting requests of one organization
	writersMax  = 6                // groups that are written at a moment, and so connections in use
	workTimeout = 30 * time.Second // for a group with its repetitions
)

// Request holds a transfer as the API hands it over, in the caller's own words.
type Request struct {
	MintID         int
	Amount         string // atomic units; whole tokens with UseDecimal
	UseDecimal     bool
	From, To       Party
	IdempotencyKey string
	Reference      *string
	Metadata       map[string]string
	Actor          audit.Actor // who asks, for the audit log
	// Limit, unless nil, is called once the key is known to be new, before anything else can refuse
	// the request. Another goroutine calls it, before Request returns.
	Limit func() error
	// Unlimit, unless nil, takes back what Limit counted when the key turns out to be known: a replay is free. It is
	// called like Limit.
	Unlimit func()
}

// Party names one side of a transfer: exactly one member is set.
type Party struct{ CustomerID, Product *string }

// Transfer is an amount that was moved. It has no states: it is there or it is not.
type Transfer struct {
	ID             string
	IdempotencyKey string
	Mint           mint.Mint // id, chain, contract, symbol, name and decimals; lists read nothing else of it
	Amount         money.Amount
	From, To       Party
	Reference      *string
	Metadata       map[string]string
	CreatedAt      time.Time
}

// Outcome holds a transfer as it is now, and whether its key was known before.
type Outcome struct {
	Transfer Transfer
	Replayed bool
}

// Service accepts transfers. It is safe for concurrent use.
type Service struct {
	db      *pg.DB
	events  event.Recorder
	slots   chan struct{} // one token for each writer at work
	mu      sync.Mutex
	writers map[string]*orgWriter // by organization

	premises premises
}

// orgWriter is the writer of one organization.
type orgWriter struct {
	groupcommit.Writer[*pendingRequest, Outcome]
	org      string
	shortcut shortcut
}

// New returns a Service. It starts nothing: a writer runs only while requests wait.
func New(db *pg.DB, events event.Recorder) *Service {
	return &Service{
		db: db, events: events, slots: make(chan struct{}, writersMax),
		writers: map[string]*orgWriter{},
	}
}

// writerOf returns the writer of an organization. One writer for each organization keeps row-level
// security between organizations, because a transaction acts for one of them. See decision 0022.
func (s *Service) writerOf(org string) *orgWriter {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.writers[org]
	if w == nil {
		w = &orgWriter{org: org}
		w.GroupMax, w.SecondGroupMin, w.WaitingMax, w.WorkMax = groupMax, parallelMin, waitingMax, workTimeout
		w.ProcessGroup = func(ctx context.Context, requests []*pendingRequest) []groupcommit.Answer[Outcome] {
			return s.serveGroup(ctx, w, requests)
		}
		s.writers[org] = w
	}
	return w
}

// Request makes a transfer, or returns the one that its key has made. After a fault this request
// moved nothing; UNAVAILABLE is the fault when too many requests wait. After any other error the
// transfer may exist or not; the same request with the same key resolves that. Rule TR-1.
func (s *Service) Request(ctx context.Context, org string, r Request) (Outcome, error) {
	a, err := parseRequest(org, r)
	if err != nil {
		return Outcome{}, err
	}
	outcome, err := s.writerOf(org).SubmitAndWait(ctx, a)
	// Rule TR-10.
	if errors.Is(err, groupcommit.ErrFull) || errors.Is(err, groupcommit.ErrAbandoned) {
		return outcome, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingWritten,
			"More transfers of your organization are waiting than the service can accept, and this one "+
				"waited too long.").
			WithStep(fault.RepeatWithSameKey)
	}
	return outcome, err
}

// Preview decides about a request as Request would now, by the same checks on the same facts, and writes
// nothing. It returns the refusal of Request, or nil for a transfer that would be made or that the key
// has made. A request without a key is previewed as one with a new key. Rule TR-11.
func (s *Service) Preview(ctx context.Context, org string, r Request) error {
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = id.New("key", s.db.Clock()())
	}
	a, err := parseRequest(org, r)
	if err != nil {
		return err
	}
	group := []*pendingRequest{a}
	var f groupFacts
	err = s.db.InOrgPipelined(ctx, org,
		func(b *pgx.Batch) { f = queueLookups(b, org, group) },
		func(_ context.Context, tx pg.Tx, _ *pgx.Batch) error {
			decideGroup(f, group, tx.Now)
			return nil
		})
	if err != nil {
		return fmt.Errorf("preview a transfer of %s: %w", org, err)
	}
	return a.err
}
