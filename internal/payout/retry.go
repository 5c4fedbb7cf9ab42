package payout

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/request"
)

// Retry makes a draft of the rows of a batch that ended without their payment, also those that it left out. The draft
// has other salts, another hash and its own approvals: nothing is paid again under the old ones. A known key returns
// its batch. Errors: faults NOT_FOUND, INVALID_REQUEST, INVALID_STATE while the batch has not ended and for one of
// which every row was paid, and IDEMPOTENCY_CONFLICT. Rule BP-13.
func (s *Service) Retry(
	ctx context.Context, org, batchID string, key *string, actor audit.Actor,
) (Batch, error) {
	if key != nil && !request.IsKey(*key) {
		return Batch{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"An idempotency key has to have 1 to %d printable ASCII characters and no space.", request.KeyBytesMax).
			WithParam("idempotencyKey")
	}
	former, items, err := s.load(ctx, org, batchID)
	if err != nil {
		return Batch{}, err
	}
	if former.EndedAt == nil {
		return Batch{}, newState(former, "paid again: it has not ended")
	}
	d := draft{
		mode: former.Header.Mode, columns: former.Columns, isDecimal: former.UsesDecimal, retryOf: former.ID,
		actor: actor,
	}
	for _, i := range items {
		if i.WithdrawalStatus == "COMPLETED" {
			continue
		}
		row := Item{Row: i.Row, Line: i.Line, Position: len(d.items) + 1}
		row.Number, row.IsIncluded, row.Salt = len(d.items)+1, true, make([]byte, contenthash.SaltBytes)
		_, _ = rand.Read(row.Salt) // it never fails
		d.items = append(d.items, row)
	}
	if len(d.items) == 0 {
		return Batch{}, newState(former, "paid again: every row was paid")
	}
	listHash := contenthash.ComputeListHash(contentRows(d.items))
	d.digest = request.Digest("coffer-batch-retry-1", former.ID, string(listHash[:]))
	b, err := s.insertDraft(ctx, org, key, d)
	if err != nil && fault.Find(err) == nil {
		return Batch{}, fmt.Errorf("retry batch %s: %w", batchID, err)
	}
	return b, err
}
