package payout

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
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
// later round, and so does a batch that another process has locked. Two processes may take one batch: each step finds
// what the other one did.
func (s *Service) WorkDue(ctx context.Context) error {
	var batches []Batch
	err := s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// A batch that another process has locked is left for a later round: who waited for it, with others claimed,
		// could be waited for by that process.
		rows, err := tx.Query(ctx, selectBatches+`WHERE b.look_at <= $1 ORDER BY b.look_at, b.batch_id LIMIT $2
			FOR NO KEY UPDATE OF b SKIP LOCKED`, tx.Now, batchesMax)
		if err != nil {
			return fmt.Errorf("find batches: %w", err)
		}
		if batches, err = pgx.CollectRows(rows, scanBatch); err != nil {
			return fmt.Errorf("find batches: %w", err)
		}
		for _, b := range batches {
			_, err := tx.Exec(ctx, `UPDATE payout_batches SET look_at = $2 WHERE batch_id = $1`, b.ID,
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

// Validate checks the rows of a submitted batch that were not checked yet, each as its withdrawal will be. In a STRICT
// batch a row that cannot be paid makes the batch INVALID, and its sum is spendable again. A PARTIAL one leaves such
// rows out: its hash changes once, before people may approve it, and the amounts of those rows are spendable again. A
// freeze of more than a customer leaves the batch waiting. Rules BP-4 and BP-8.
func (s *Service) Validate(ctx context.Context, orgID, batchID string) error {
	b, items, err := s.load(ctx, orgID, batchID)
	if err != nil || b.Status != Validating {
		return err
	}
	frozen, isStopped, err := s.findFrozen(ctx, orgID, items)
	if err != nil || isStopped {
		return err
	}
	if items, err = s.checkChunks(ctx, b, items, frozen); err != nil {
		return err
	}
	for _, i := range items {
		refused := frozen[i.CustomerID]
		if refused == "" {
			if refused, err = s.Payments.CheckRow(ctx, b.payment(i)); err != nil {
				return fmt.Errorf("check row %d: %w", i.Number, err)
			}
			if refused != "" { // perhaps by a freeze that came since, which says nothing about the row
				if frozen, isStopped, err = s.findFrozen(ctx, orgID, items); err != nil || isStopped {
					return err
				}
			}
		}
		if refused != "" && b.Header.Mode == contenthash.Strict {
			return s.invalidate(ctx, b, i, cutSentence(refused))
		}
		err = s.DB.InOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
			if b, err = lockBatch(ctx, tx, orgID, batchID); err != nil || b.Status != Validating {
				return err
			}
			_, err := tx.Exec(ctx, `
				UPDATE payout_items SET checked_at = CASE WHEN $4 = '' THEN $3::timestamptz END,
					refused = nullif($4, '')
				WHERE batch_id = $1 AND row_no = $2 AND checked_at IS NULL AND refused IS NULL`,
				batchID, i.Number, tx.Now, cutSentence(refused))
			return err
		})
		if err != nil {
			return fmt.Errorf("note the check of row %d: %w", i.Number, err)
		}
	}
	return s.finishValidation(ctx, b)
}

// findFrozen returns why the rows of frozen customers cannot be paid, by the label of the customer. isStopped says
// that a freeze stops more than customers.
func (s *Service) findFrozen(
	ctx context.Context, orgID string, items []Item,
) (frozen map[string]string, isStopped bool, err error) {
	var labels []string
	for _, i := range items {
		if i.CustomerID != "" && !slices.Contains(labels, i.CustomerID) {
			labels = append(labels, i.CustomerID)
		}
	}
	var active *freeze.ActiveSet
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		queue := &pgx.Batch{}
		active = freeze.QueueLook(queue, orgID, labels)
		return tx.SendBatch(ctx, queue).Close()
	})
	if err != nil {
		return nil, false, fmt.Errorf("look for freezes of %s: %w", orgID, err)
	}
	frozen, isStopped = sortFreezes(orgID, active, items)
	return frozen, isStopped, nil
}

// sortFreezes returns what findFrozen says of some freezes.
func sortFreezes(orgID string, active *freeze.ActiveSet, items []Item) (frozen map[string]string, isStopped bool) {
	frozen = map[string]string{}
	for _, i := range items {
		f := active.FindFor(freeze.Target{OrgID: orgID, CustomerID: i.CustomerID, Chain: i.Chain})
		switch {
		case f == nil:
		case f.Scope == freeze.ScopeCustomer:
			frozen[i.CustomerID] = fmt.Sprintf("Customer %s is frozen.", i.CustomerID)
		default:
			return nil, true
		}
	}
	return frozen, false
}

// finishValidation writes the state that follows from the verdicts about all rows: a batch waits for people, or is
// paid without one (see judge). That is one commit, with the hash and the releases of a PARTIAL batch.
func (s *Service) finishValidation(ctx context.Context, b Batch) error {
	prices, err := s.loadPrices(ctx, b)
	if err != nil {
		return err
	}
	var isExcluded bool
	err = s.DB.InOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
		settings, active, err := lockRules(ctx, tx, b.OrgID)
		if err != nil {
			return err
		}
		b, err := lockBatch(ctx, tx, b.OrgID, b.ID)
		if err != nil || b.Status != Validating {
			return err
		}
		items, err := loadItems(ctx, tx, b.ID)
		if err != nil {
			return err
		}
		excluded, first := 0, ""
		for _, i := range items {
			if i.Refused != "" {
				excluded++
				first = cmp.Or(first, fmt.Sprintf("Row %d: %s", i.Number, i.Refused))
			}
		}
		if excluded == len(items) {
			return s.endUnpaid(ctx, tx, b, Invalid, cutSentence("No row can be paid. "+first), workActor)
		}
		c := newChecked(b)
		if excluded > 0 {
			isExcluded = true
			if err := s.exclude(ctx, tx, b, items, &c); err != nil {
				return err
			}
		}
		if err := s.judge(ctx, tx, b, items, settings, active, prices, &c); err != nil {
			return err
		}
		if err := s.writeChecked(ctx, tx, b, items, c); err != nil {
			return err
		}
		if isExcluded {
			failpoint.HitBeforeCommit("B04")
		}
		return nil
	})
	if errors.Is(err, errFrozen) {
		return nil
	}
	if isExcluded {
		failpoint.Hit("B04")
	}
	return err
}

// checked is what a batch becomes with its last verdict.
type checked struct {
	header   contenthash.Header
	hash     contenthash.Hash
	excluded []int // rows that it leaves out
	// auto says that it needs no person; nil: people says why it needs one, or is "" where the operator set no amount.
	auto   *autoApproval
	people string
}

func newChecked(b Batch) checked { return checked{header: b.Header, hash: b.ContentHash} }

// exclude leaves the refused rows of a locked PARTIAL batch out. The header and the hash follow from the rows, which
// are compared with what was submitted before: a row that was changed since gets no new hash.
func (s *Service) exclude(ctx context.Context, tx pg.Tx, b Batch, items []Item, c *checked) error {
	if !s.isIntact(b, items) {
		return fmt.Errorf("the rows of batch %s differ from what was submitted: it gets no other hash", b.ID)
	}
	for k := range items {
		if items[k].Refused != "" {
			items[k].IsIncluded = false
			c.excluded = append(c.excluded, items[k].Number)
		}
	}
	var err error
	if c.header, err = b.sealStored(items); err != nil {
		return fmt.Errorf("leave rows of batch %s out: %w", b.ID, err)
	}
	c.hash = c.header.ComputeHash()
	_, err = tx.Exec(ctx, `UPDATE payout_items SET included = false WHERE batch_id = $1 AND row_no = ANY ($2)`, b.ID,
		c.excluded)
	if err != nil {
		return fmt.Errorf("leave rows of batch %s out: %w", b.ID, err)
	}
	return nil
}

// writeChecked writes what a locked batch becomes with its last verdict.
func (s *Service) writeChecked(ctx context.Context, tx pg.Tx, b Batch, items []Item, c checked) error {
	header, err := json.Marshal(c.header)
	if err != nil {
		return fmt.Errorf("write the header of batch %s: %w", b.ID, err)
	}
	status, required, set := AwaitingApproval, b.Required, `look_at = NULL`
	var limit, value *money.USD
	if c.auto != nil {
		status, required, set = Processing, 0, `look_at = $4, approved_at = $4`
		limit, value = &c.auto.limit, &c.auto.value
	}
	if c.auto != nil || len(c.excluded) > 0 {
		err = setStatus(ctx, tx, b, status, set+`, content_hash = $5, header = CASE WHEN content_hash = $5 THEN header
			ELSE $6::jsonb END, approvals_required = $7, request_mac = $8, auto_below = $9, auto_value = $10`,
			c.hash[:], string(header), required, s.GrantKey.BatchRequestMAC(c.hash, required), limit, value)
	} else {
		err = setStatus(ctx, tx, b, status, set)
	}
	if err != nil {
		return err
	}
	postings, err := b.newExclusions(items)
	if err != nil {
		return err
	}
	if len(postings) > 0 {
		if err := ledger.Post(ctx, tx, postings...); err != nil {
			return fmt.Errorf("release what batch %s leaves out: %w", b.ID, err)
		}
	}
	detail := map[string]any{"contentHash": c.hash}
	if len(c.excluded) > 0 {
		detail["formerContentHash"], detail["excluded"], detail["totals"] = b.ContentHash, c.excluded, c.header.Totals
	}
	if c.auto == nil {
		if c.people != "" {
			detail["people"] = c.people
		}
		return s.announce(ctx, tx, b, workActor, "checked", detail)
	}
	detail["setting"], detail["below"], detail["value"] = autoSetting, c.auto.limit, c.auto.value
	detail["prices"], detail["totals"], detail["required"] = c.auto.prices, c.header.Totals, required
	return s.announce(ctx, tx, b, workActor, "approved", detail)
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
		return s.endUnpaid(ctx, tx, current, Invalid, cutSentence(fmt.Sprintf("Row %d: %s", i.Number, refused)),
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
// open. A row that has no answer waits, and the rows behind it go on. A paused batch gets no withdrawals, and one that
// was cancelled loses those that have no slot. Rules BP-5, BP-11, BP-12, BP-34.
func (s *Service) Expand(ctx context.Context, orgID, batchID string) error {
	b, items, err := s.load(ctx, orgID, batchID)
	if err != nil || b.Status != Processing {
		return err
	}
	var problems []error
	if b.StoppedAt == nil && b.PausedAt == nil {
		items, problems = s.requestChunks(ctx, b, items)
	}
	for _, i := range items {
		if i.Refused != "" || !i.IsIncluded {
			continue
		}
		hasPayment := i.WithdrawalID != "" && i.WithdrawalStatus != "BLOCKED"
		switch {
		case b.StoppedAt != nil && hasPayment:
			err = s.recallRow(ctx, b, i)
		case b.StoppedAt != nil:
			err = s.releaseRow(ctx, b, i, "The batch payout was cancelled before this row had a payment.")
		case hasPayment || b.PausedAt != nil:
			continue
		default:
			err = s.requestRow(ctx, b, i)
		}
		if pg.ViolatesConstraint(err, "withdrawals_batch_approved") {
			break // the batch was paused or cancelled since it was read
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("row %d: %w", i.Number, err))
		}
	}
	return errors.Join(append(problems, s.settle(ctx, orgID, batchID))...)
}

// requestRow requests the withdrawal of a row. A refusal that may end leaves the row waiting, and the row says why.
func (s *Service) requestRow(ctx context.Context, b Batch, i Item) error {
	refused, err := s.Payments.RequestRow(ctx, b.payment(i))
	if err == nil && refused != "" {
		return s.releaseRow(ctx, b, i, cutSentence(refused))
	}
	f := fault.Find(err)
	if f == nil {
		return err
	}
	noteErr := s.DB.InOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			UPDATE payout_items SET waits_for = $3
			WHERE batch_id = $1 AND row_no = $2 AND refused IS NULL AND waits_for IS DISTINCT FROM $3`,
			b.ID, i.Number, cutSentence(f.Reason))
		return err
	})
	return errors.Join(err, noteErr)
}

// recallRow takes back the withdrawal of a row of a cancelled batch if it has not ended and has no slot.
func (s *Service) recallRow(ctx context.Context, b Batch, i Item) error {
	if i.WithdrawalStatus != "PROCESSING" && i.WithdrawalStatus != "AWAITING_APPROVAL" {
		return nil
	}
	return s.Payments.RecallRow(ctx, b.payment(i), *b.Stopper)
}

// releaseRow notes that a row is never paid, and gives its amount back, once. Rule BP-70.
func (s *Service) releaseRow(ctx context.Context, b Batch, i Item, refused string) error {
	return s.DB.InOrg(ctx, b.OrgID, func(ctx context.Context, tx pg.Tx) error {
		current, err := lockBatch(ctx, tx, b.OrgID, b.ID)
		if err != nil || current.Status != Processing {
			return err
		}
		err = refuseRow(ctx, tx, b.ID, i.Number, refused)
		if errors.Is(err, errLostRace) {
			return nil // another worker has given it back
		}
		if err != nil {
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
		return s.announce(ctx, tx, b, workActor, "row_refused", map[string]any{
			"row": i.Number, "amount": i.Amount, "reason": refused,
		})
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
		included, paid := 0, 0
		for _, i := range items {
			if i.IsIncluded {
				included++
			}
			switch {
			case i.Refused != "":
			case i.WithdrawalStatus == "COMPLETED":
				paid++
			case i.WithdrawalStatus == "FAILED", i.WithdrawalStatus == "REJECTED", i.WithdrawalStatus == "CANCELLED":
			default:
				return nil
			}
		}
		status := EndStatus(included, paid, b.StoppedAt != nil)
		failpoint.Hit("B12")
		if err := setStatus(ctx, tx, b, status, `ended_at = $4, look_at = NULL`); err != nil {
			return err
		}
		return s.announce(ctx, tx, b, workActor, string(status), map[string]any{
			"rows": len(items), "included": included, "paid": paid,
		})
	})
}

// cutSentence cuts a sentence to what a row can keep.
func cutSentence(text string) string {
	if utf8.RuneCountInString(text) <= refusalRunesMax {
		return text
	}
	return string([]rune(text)[:refusalRunesMax])
}
