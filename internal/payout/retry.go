package payout

import (
	"context"
	"crypto/rand"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
	"github.com/cofferpay/coffer/internal/signer"
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
	paid, err := s.findPaid(ctx, org, batchID, items)
	if err != nil {
		return Batch{}, err
	}
	for _, i := range items {
		if paid[i.Number] {
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

// findPaid returns the rows whose payment was made or may still be made, by their numbers. A payment that came back
// from the signer's journal may have lost its row, and has the id of the row's payment.
func (s *Service) findPaid(ctx context.Context, org, batchID string, items []Item) (map[int]bool, error) {
	numbers, ids := map[string]int{}, make([]string, 0, len(items))
	for _, i := range items {
		withdrawalID := signer.BatchWithdrawalID(org, batchID, i.Number)
		numbers[withdrawalID], ids = i.Number, append(ids, withdrawalID)
	}
	var made []string
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT withdrawal_id FROM withdrawals WHERE org_id = $1 AND withdrawal_id = ANY ($2)
				AND status NOT IN ('FAILED', 'REJECTED', 'CANCELLED', 'BLOCKED')`, org, ids)
		if err != nil {
			return err
		}
		made, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what batch %s paid: %w", batchID, err)
	}
	paid := map[int]bool{}
	for _, withdrawalID := range made {
		paid[numbers[withdrawalID]] = true
	}
	return paid, nil
}
