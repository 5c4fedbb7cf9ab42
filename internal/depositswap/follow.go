package depositswap

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

const (
	followPause    = time.Second
	followBatchMax = 64
	followParallel = 8
	followClaim    = time.Minute // for which one process looks at a row
	lookTimeout    = 45 * time.Second

	lookSoon      = 3 * time.Second  // while a payment is on its way
	lookSlow      = 15 * time.Second // while one is awaited
	lookRare      = 10 * time.Minute
	lookHourly    = time.Hour
	lookRareAfter = time.Hour
	// lookLast is for how long after its end a deposit swap is looked at that ended without a completion: a late
	// payment may still be delivered. What arrives later is credited, too.
	lookLast = 30 * 24 * time.Hour
	// payerWait is for how long after an arrival the payers and their payments are asked for.
	payerWait = time.Hour
	// silenceMax is how long after a provider's success an arrival may take before it is logged.
	silenceMax = time.Hour
)

// Run follows deposit swaps until ctx ends: it asks the providers, and finds who paid them. Any number of processes
// may run it. It returns nil.
func (s *Service) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		looked, err := s.Follow(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "depositswap: following stopped early", "error", err)
		}
		if looked == followBatchMax {
			continue
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
	return nil
}

// Follow looks at the deposit swaps that are due. It returns how many it looked at.
func (s *Service) Follow(ctx context.Context) (int, error) {
	ids, err := s.claimDue(ctx)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	errs := make([]error, len(ids))
	slots := make(chan struct{}, followParallel)
	var wg sync.WaitGroup
	for i, depositSwapID := range ids {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = s.Look(ctx, depositSwapID)
		})
	}
	wg.Wait()
	return len(ids), errors.Join(errs...)
}

// claimDue takes deposit swaps that are due, for the time of a lease.
func (s *Service) claimDue(ctx context.Context) (ids []string, err error) {
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE deposit_swaps SET look_at = $2 WHERE deposit_swap_id IN (
				SELECT deposit_swap_id FROM deposit_swaps WHERE look_at <= $1 ORDER BY look_at, deposit_swap_id LIMIT $3
				FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING deposit_swap_id`, tx.Now, tx.Now.Add(followClaim), followBatchMax)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim the deposit swaps that are due: %w", err)
	}
	slices.Sort(ids)
	return ids, nil
}

// Look asks the provider of one deposit swap, finds who paid it, and stores both.
func (s *Service) Look(ctx context.Context, depositSwapID string) error {
	var d DepositSwap
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		d, err = load(ctx, tx, depositSwapID)
		return err
	})
	if err != nil {
		return err
	}
	startedAt := s.DB.Clock()()
	lookCtx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	report, askErr := s.Panel.Status(lookCtx, d.Provider, provider.Ref{
		DepositAddress: d.DepositAddress, SignedQuote: d.stored.signedQuote,
	}, "")
	var found findings
	var findErr error
	if askErr == nil {
		found, findErr = s.findPayers(lookCtx, d, report)
	}
	for _, err := range []error{askErr, findErr} {
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "depositswap: a look found less than it should", "depositSwap", d.ID,
				"provider", d.Provider, "error", err)
		}
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		locked, err := lock(ctx, tx, depositSwapID)
		if err != nil {
			return err
		}
		return s.apply(ctx, tx, locked, report, askErr == nil, found, startedAt)
	})
	if err != nil {
		return fmt.Errorf("store what became of deposit swap %s: %w", depositSwapID, err)
	}
	return nil
}

// lock locks a deposit swap and returns it.
func lock(ctx context.Context, tx pg.Tx, depositSwapID string) (DepositSwap, error) {
	var locked string
	err := tx.QueryRow(ctx, `SELECT deposit_swap_id FROM deposit_swaps WHERE deposit_swap_id = $1 FOR NO KEY UPDATE`,
		depositSwapID).Scan(&locked)
	if errors.Is(err, pgx.ErrNoRows) {
		return DepositSwap{}, newGone()
	}
	if err != nil {
		return DepositSwap{}, fmt.Errorf("lock deposit swap %s: %w", depositSwapID, err)
	}
	return load(ctx, tx, depositSwapID)
}

// apply writes what a look found, under the lock of the row.
func (s *Service) apply(
	ctx context.Context, tx pg.Tx, d DepositSwap, r provider.Report, isAnswered bool, found findings,
	startedAt time.Time,
) error {
	before, after := d.Status, d.Status
	if isAnswered {
		after = nextStatus(d, r, tx.Now)
		if d.OriginTxHash == nil && len(r.OriginTxs) > 0 {
			d.OriginTxHash = &r.OriginTxs[0]
		}
		d.markSaid(r, tx.Now)
		d.FailureReason = nil
		if after == Failed || after == Refunded {
			d.FailureReason = failureReason(r)
		}
	}
	// Another look may have stored the same payments meanwhile.
	if !intersects(d.stored.knownPayments, found.payments) {
		d.Received = addTo(d.Received, found.received)
		d.stored.knownPayments = append(d.stored.knownPayments, found.payments...)
	}
	if !intersects(d.stored.knownRefunds, found.refunds) {
		d.Refunded = addTo(d.Refunded, found.refunded)
		d.stored.knownRefunds = append(d.stored.knownRefunds, found.refunds...)
	}
	payers := d.stored.payers
	for _, address := range found.payers {
		if !slices.Contains(payers, address) && len(payers) < payersMax {
			payers = append(payers, address)
		}
	}
	isKnown := found.isWhole && len(payers) > 0
	d.Status = after
	lookAt, err := s.findNextLook(ctx, tx, d, isKnown, startedAt)
	if err != nil {
		return err
	}
	tag, err := tx.Exec(ctx, `
		UPDATE deposit_swaps SET status = $2, origin_tx_hash = $3, success_said_at = $4, failure_said_at = $5,
			failure_reason = $6, received_amount = $7, refunded_amount = $8,
			known_payments = $9, known_refunds = $10,
			origin_payers = CASE WHEN $11 THEN $12::text[] ELSE origin_payers END,
			payer_source = CASE WHEN $11 THEN $13::text ELSE payer_source END,
			payers_at = CASE WHEN $11 THEN greatest(payers_at, $14::timestamptz) ELSE payers_at END,
			look_at = $15, look_count = look_count + 1,
			updated_at = CASE WHEN status <> $2 OR origin_tx_hash IS DISTINCT FROM $3
				OR received_amount IS DISTINCT FROM $7 OR refunded_amount IS DISTINCT FROM $8
				THEN $16 ELSE updated_at END
		WHERE deposit_swap_id = $1 AND status = $17`,
		d.ID, d.Status, d.OriginTxHash, d.stored.successSaidAt, d.stored.failureSaidAt, d.FailureReason, d.Received,
		d.Refunded, orEmpty(d.stored.knownPayments), orEmpty(d.stored.knownRefunds), isKnown, payers, found.source,
		startedAt, lookAt, tx.Now, before)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil || after == before {
		return err
	}
	return audit.Record(ctx, tx, newEntry(d, actor, "reported", map[string]any{
		"from": before, "to": after, "word": r.Word,
	}))
}

func orEmpty(hashes []chain.TxHash) []chain.TxHash {
	if hashes == nil {
		return []chain.TxHash{}
	}
	return hashes
}

func intersects(a, b []chain.TxHash) bool {
	return slices.ContainsFunc(a, func(hash chain.TxHash) bool { return slices.Contains(b, hash) })
}

// addTo adds to an amount that is nil while it is zero. An amount beyond the range stays what it is: it informs.
func addTo(total *money.Amount, added money.Amount) *money.Amount {
	if added.IsZero() {
		return total
	}
	if total == nil {
		return &added
	}
	if grown, err := total.Add(added); err == nil {
		return &grown
	}
	return total
}

// markSaid keeps since when a provider says that it delivered, and that it did not.
func (d *DepositSwap) markSaid(r provider.Report, now time.Time) {
	if r.Status == provider.Success && d.stored.successSaidAt == nil {
		d.stored.successSaidAt = &now
	}
	switch {
	case r.Status != provider.Refunded && r.Status != provider.Failed:
		d.stored.failureSaidAt = nil
	case d.stored.failureSaidAt == nil:
		d.stored.failureSaidAt = &now
	}
}

// failureReason returns why it failed, in the words of customer swaps.
func failureReason(r provider.Report) *string {
	reason := "PROVIDER_FAILED"
	switch {
	case r.Refund == provider.RefundManual:
		reason = "PROVIDER_COMPLIANCE"
	case r.Status == provider.Refunded:
		reason = "PROVIDER_REFUNDED"
	}
	return &reason
}

// findNextLook returns when a deposit swap is looked at next. It logs one whose provider reports a success that did
// not arrive.
func (s *Service) findNextLook(
	ctx context.Context, tx pg.Tx, d DepositSwap, isKnown bool, startedAt time.Time,
) (*time.Time, error) {
	var arrivedAt *time.Time // of the last arrival whose payers may be missing
	err := tx.QueryRow(ctx, `
		SELECT max(confirmed_at) FROM deposits WHERE deposit_swap_id = $1 AND status IN ('SCREENING', 'CONFIRMING')`,
		d.ID).Scan(&arrivedAt)
	if err != nil {
		return nil, fmt.Errorf("look for its arrivals: %w", err)
	}
	isOwed := arrivedAt != nil && !(isKnown && !startedAt.Before(*arrivedAt)) && tx.Now.Sub(*arrivedAt) < payerWait
	if saidAt := d.stored.successSaidAt; saidAt != nil && d.Status != Completed && arrivedAt == nil &&
		tx.Now.Sub(*saidAt) > silenceMax {
		s.Log.ErrorContext(ctx, "depositswap: a provider reports success, and nothing arrived", "depositSwap", d.ID,
			"provider", d.Provider, "since", saidAt.UTC().Format(time.RFC3339))
	}
	return nextLook(d, isOwed, tx.Now), nil
}

// nextLook returns when a deposit swap is looked at next; nil: nothing is expected any more. isOwed says that an
// arrival waits for its payers. It is pure.
func nextLook(d DepositSwap, isOwed bool, now time.Time) *time.Time {
	after := func(pause time.Duration) *time.Time {
		moment := now.Add(pause)
		return &moment
	}
	isOld := now.Sub(d.CreatedAt) > lookRareAfter
	switch {
	case isOwed:
		return after(lookSoon)
	case d.Status == Completed && d.OriginTxHash == nil && d.CompletedAt != nil && now.Sub(*d.CompletedAt) < payerWait:
		return after(lookSlow)
	case d.Status == Completed:
		return nil
	case now.After(d.ExpiresAt.Add(lookLast)):
		return nil
	case d.Status == AwaitingDeposit && !isOld:
		return after(lookSlow)
	case d.Status == AwaitingDeposit:
		return after(min(lookRare, lookSlow*time.Duration(1+d.stored.lookCount/20)))
	case d.Status == Processing || d.Status == Underpaid:
		return after(min(lookRare, lookSoon*time.Duration(1+d.stored.lookCount/5)))
	}
	return after(lookHourly)
}
