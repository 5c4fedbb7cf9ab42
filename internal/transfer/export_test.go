package transfer

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// WaitingMax is the limit of waiting requests of one organization.
const WaitingMax = waitingMax

// Waiting returns how many requests of an organization wait and are in no group yet.
func (s *Service) Waiting(org string) int { return s.writerOf(org).WaitingCount() }

// BesideMin is how many waiting requests start a second group in parallel.
const BesideMin = parallelMin

// DecideBetween looks up the facts of a request statement by statement, calls between after the first
// n of them, and returns the decision about the request. It returns false when there are no n
// statements.
func (s *Service) DecideBetween(
	ctx context.Context, org string, r Request, n int, between func() error,
) (Outcome, bool, error) {
	a, err := parseRequest(org, r)
	if err != nil {
		return Outcome{}, false, err
	}
	isReached := false
	err = s.db.InOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		b := &pgx.Batch{}
		f := queueLookups(b, org, []*pendingRequest{a})
		for i, q := range b.QueuedQueries {
			if i == n {
				isReached = true
				if err := between(); err != nil {
					return err
				}
			}
			one := &pgx.Batch{QueuedQueries: []*pgx.QueuedQuery{q}}
			if err := tx.SendBatch(ctx, one).Close(); err != nil {
				return fmt.Errorf("statement %d: %w", i, err)
			}
		}
		decideGroup(f, []*pendingRequest{a}, tx.Now)
		return nil
	})
	if err == nil {
		err = a.err
	}
	return a.outcome, isReached, err
}
