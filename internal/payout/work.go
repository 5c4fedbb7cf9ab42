package payout

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	workInterval = time.Second
	// claimPause is how long a batch is not looked at again after a round, and after a row had no answer.
	claimPause = 5 * time.Second
	batchesMax = 20 // of one round
	// refusalRunesMax bounds the sentence that a row keeps.
	refusalRunesMax = 1000
)

var workActor = audit.System("payout")

// Run checks and pays the rows of batches until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ticker := time.NewTicker(workInterval)
	defer ticker.Stop()
	for {
		if err := s.WorkDue(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "payout: a step failed and is taken again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// WorkDue takes one round: every batch that is due is checked, or its rows are paid. What has no answer waits for a
// later round. Two processes may take one batch: each step finds what the other one did.
func (s *Service) WorkDue(ctx context.Context) error {
	var batches []Batch
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, selectBatches+`WHERE b.look_at <= $1 ORDER BY b.look_at, b.batch_id LIMIT $2`,
			tx.Now, batchesMax)
		if err != nil {
			return fmt.Errorf("find batches: %w", err)
		}
		if batches, err = pgx.CollectRows(rows, scanBatch); err != nil {
			return fmt.Errorf("find batches: %w", err)
		}
		for _, b := range batches {
			_, err := tx.Exec(ctx, `UPDATE payout_batches SET look_at = $2 WHERE batch_id = $1 AND look_at
				IS NOT NULL`, b.ID,
				tx.Now.Add(claimPause))
			if err != nil {
				return fmt.Errorf("claim batch %s: %w", b.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var problems []error
	for _, b := range batches {
		switch b.Status {
		case Validating:
			err = s.Validate(ctx, b.OrgID, b.ID)
		case Processing:
			err = s.Expand(ctx, b.OrgID, b.ID)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("batch %s: %w", b.ID, err))
		}
	}
	return errors.Join(problems...)
}

// load returns a batch and its rows.
func (s *Service) load(ctx context.Context, orgID, batchID string) (b Batch, items []Item, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) (err error) {
		if b, err = readBatch(ctx, tx, orgID, batchID, ""); err != nil {
			return err
		}
		items, err = loadItems(ctx, tx, batchID)
		return err
	})
	return b, items, err
}

// Validate checks the rows of a submitted batch that were not checked yet, each as its withdrawal will be. A row that
// cannot be paid makes the batch INVALID, and its sum is spendable again.
func (s *Service) Validate(ctx context.Context, orgID, batchID string) error {
	b, items, err := s.load(ctx, orgID, batchID)
	if err != nil || b.Status != Validating {
		return err
	}
	if items, err = s.checkChunks(ctx, b, items); err != nil {
		return err
	}
	for _, i := range items {
		refused, err := s.Payments.CheckRow(ctx, b.payment(i))
		if err != nil {
			return fmt.Errorf("check row %d: %w", i.Number, err)
		}
		if refused != "" {
			return s.invalidate(ctx, b, i, cutSentence(refused))
		}
		err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			if b, err = lockBatch(ctx, tx, orgID, batchID); err != nil || b.Status != Validating {
				return err
			}
			_, err := tx.Exec(ctx, `UPDATE payout_items SET checked_at = $3 WHERE batch_id = $1 AND row_no = $2
				AND checked_at IS NULL`,
				batchID, i.Number, tx.Now)
			return err
		})
		if err != nil {
			return fmt.Errorf("note the check of row %d: %w", i.Number, err)
		}
	}
	return s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		if b, err = lockBatch(ctx, tx, orgID, batchID); err != nil || b.Status != Validating {
			return err
		}
		if err := setStatus(ctx, tx, b, AwaitingApproval, `look_at = NULL`); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(b, workActor, "checked", map[string]any{"contentHash": b.ContentHash}))
	})
}

func (s *Service) invalidate(ctx context.Context, b Batch, i Item, refused string) error {
	return s.DB.InOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
		current, err := lockBatch(ctx, tx, b.OrgID, b.ID)
		if err != nil || current.Status != Validating {
			return err
		}
		if err := refuseRow(ctx, tx, b.ID, i.Number, refused); err != nil {
			return err
		}
		return endUnpaid(ctx, tx, current, Invalid, cutSentence(fmt.Sprintf("Row %d: %s", i.Number, refused)),
			workActor)
	})
}

func refuseRow(ctx context.Context, tx pg.Tx, batchID string, row int, refused string) error {
	tag, err := tx.Exec(ctx, `UPDATE payout_items SET refused = $3 WHERE batch_id = $1 AND row_no = $2 AND refused
		IS NULL`,
		batchID, row, refused)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil {
		return fmt.Errorf("refuse row %d of batch %s: %w", row, batchID, err)
	}
	return nil
}

// Expand requests the withdrawal of each row of an approved batch that has none, and ends the batch once no row is
// open. A row that has no answer waits, and the rows behind it go on.
func (s *Service) Expand(ctx context.Context, orgID, batchID string) error {
	b, items, err := s.load(ctx, orgID, batchID)
	if err != nil || b.Status != Processing {
		return err
	}
	items, problems := s.requestChunks(ctx, b, items)
	for _, i := range items {
		refused, err := s.Payments.RequestRow(ctx, b.payment(i))
		if err == nil && refused != "" {
			err = s.releaseRow(ctx, b, i, cutSentence(refused))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("pay row %d: %w", i.Number, err))
		}
	}
	return errors.Join(append(problems, s.settle(ctx, orgID, batchID))...)
}

// releaseRow notes that a row is never paid, and gives its amount back.
func (s *Service) releaseRow(ctx context.Context, b Batch, i Item, refused string) error {
	return s.DB.InOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
		current, err := lockBatch(ctx, tx, b.OrgID, b.ID)
		if err != nil || current.Status != Processing {
			return err
		}
		if err := refuseRow(ctx, tx, b.ID, i.Number, refused); err != nil {
			return err
		}
		err = ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.BatchRelease, ID: fmt.Sprintf("%s/row/%d", b.ID, i.Number)},
			Legs: []ledger.Leg{{
				Debit:  ledger.BatchOwner().SpendingAccount(b.OrgID, i.MintID),
				Credit: ledger.BatchOwner().ReturnAccount(b.OrgID, i.MintID), Amount: i.Amount,
			}},
		})
		if err != nil {
			return fmt.Errorf("release the hold of row %d: %w", i.Number, err)
		}
		return audit.Record(ctx, tx, newEntry(b, workActor, "row_refused", map[string]any{
			"row": i.Number, "amount": i.Amount, "reason": refused,
		}))
	})
}

// settle ends a batch whose rows have all ended. Its status follows from them.
func (s *Service) settle(ctx context.Context, orgID, batchID string) error {
	return s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		b, err := lockBatch(ctx, tx, orgID, batchID)
		if err != nil || b.Status != Processing {
			return err
		}
		items, err := loadItems(ctx, tx, batchID)
		if err != nil {
			return err
		}
		paid := 0
		for _, i := range items {
			switch {
			case i.Refused != "":
			case i.WithdrawalStatus == "COMPLETED":
				paid++
			case i.WithdrawalStatus == "FAILED", i.WithdrawalStatus == "REJECTED", i.WithdrawalStatus == "CANCELLED":
			default:
				return nil
			}
		}
		status := EndStatus(len(items), paid)
		if err := setStatus(ctx, tx, b, status, `ended_at = $4, look_at = NULL`); err != nil {
			return err
		}
		return audit.Record(ctx, tx, newEntry(b, workActor, string(status), map[string]any{
			"rows": len(items),
			"paid": paid,
		}))
	})
}

// cutSentence cuts a sentence to what a row can keep.
func cutSentence(text string) string {
	if utf8.RuneCountInString(text) <= refusalRunesMax {
		return text
	}
	return string([]rune(text)[:refusalRunesMax])
}
