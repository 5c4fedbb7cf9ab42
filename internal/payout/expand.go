package payout

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// chunkRows is how many rows become withdrawals in one transaction. More would save little, and would keep other
// payments of the organization waiting for its balance.
const chunkRows = 200

// isOpen reports whether a row of a batch that is being paid still needs its withdrawal, or an answer about it.
func (i Item) isOpen() bool {
	return i.IsIncluded && i.Refused == "" && (i.WithdrawalID == "" || i.WithdrawalStatus == "BLOCKED")
}

// requestChunks requests the withdrawals of the open rows, chunk by chunk, and returns the rows that are left: each of
// them is asked for by itself, which says why it cannot be paid or who has to look at it. A row never keeps the others
// of its chunk from being paid: a chunk that the database refuses is left as a whole. Rule BP-31.
func (s *Service) requestChunks(ctx context.Context, b Batch, items []Item) (left []Item, problems []error) {
	var open []Item
	for _, i := range items {
		switch {
		case !i.isOpen():
		case i.WithdrawalID != "":
			left = append(left, i)
		default:
			open = append(open, i)
		}
	}
	for chunk := range slices.Chunk(open, chunkRows) {
		rows := make([]RowPayment, 0, len(chunk))
		for _, i := range chunk {
			rows = append(rows, b.payment(i))
		}
		accepted, err := s.Payments.RequestRows(ctx, rows)
		switch {
		case errors.Is(err, pg.ErrCommitUnknown) || ctx.Err() != nil:
			// The rows have their withdrawals, or none has. The next round sees which.
			problems = append(problems, fmt.Errorf("pay rows %d to %d: %w", chunk[0].Number,
				chunk[len(chunk)-1].Number, err))
			continue
		case pg.ViolatesConstraint(err, "withdrawals_batch_approved"):
			return nil, problems // the batch was paused or cancelled since it was read
		case err != nil:
			s.Log.WarnContext(ctx, "payout: a chunk was refused, and each of its rows is asked for by itself",
				"batch", b.ID, "rows", len(chunk), "error", err)
		}
		failpoint.Hit("B06")
		for _, i := range chunk {
			if !slices.Contains(accepted, i.Number) {
				left = append(left, i)
			}
		}
	}
	return left, problems
}

// checkChunks checks the rows that were not checked yet, chunk by chunk, and notes those that can be paid. It returns
// the rows that are left, which are checked one by one; so are those of frozen customers. Rule BP-31.
func (s *Service) checkChunks(
	ctx context.Context, b Batch, items []Item, frozen map[string]string,
) (left []Item, err error) {
	var open []Item
	for _, i := range items {
		switch {
		case i.isChecked || i.Refused != "":
		case frozen[i.CustomerID] != "":
			left = append(left, i)
		default:
			open = append(open, i)
		}
	}
	for chunk := range slices.Chunk(open, chunkRows) {
		rows := make([]RowPayment, 0, len(chunk))
		for _, i := range chunk {
			rows = append(rows, b.payment(i))
		}
		passed, err := s.Payments.CheckRows(ctx, rows)
		if err != nil {
			return nil, fmt.Errorf("check rows %d to %d: %w", chunk[0].Number, chunk[len(chunk)-1].Number, err)
		}
		err = s.DB.InOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
			current, err := lockBatch(ctx, tx, b.OrgID, b.ID)
			if err != nil || current.Status != Validating || len(passed) == 0 {
				return err
			}
			_, err = tx.Exec(ctx, `
				UPDATE payout_items SET checked_at = $3
				WHERE batch_id = $1 AND row_no = ANY ($2) AND checked_at IS NULL AND refused IS NULL`,
				b.ID, passed, tx.Now)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("note the check of %d rows: %w", len(passed), err)
		}
		failpoint.Hit("B03")
		for _, i := range chunk {
			if !slices.Contains(passed, i.Number) {
				left = append(left, i)
			}
		}
	}
	return left, nil
}
