package swap

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
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/swap/provider"
	"github.com/cofferpay/coffer/internal/swap/turn"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	followPause     = 500 * time.Millisecond
	followBatchMax  = 50
	followParallel  = 8 // swaps of one provider that one process looks at, at a time
	statusTimeout   = 10 * time.Second
	followClaim     = time.Minute // for which one process looks at a row
	lookFirst       = 2 * time.Second
	lookSlow        = 15 * time.Second
	lookRare        = 10 * time.Minute
	lookRareAfter   = time.Hour
	delayedMax      = 3 // delayed swaps of a provider that suspend it
	successGraceMax = time.Hour
	reportsMax      = 1000 // stored reports of one swap
	turnPruning     = time.Hour
)

// Run follows swaps until ctx ends: it asks their providers, and draws the conclusions that no block
// draws. Any number of processes may run it. It returns nil.
func (s *Service) Run(ctx context.Context) error {
	// The swaps of each provider are followed by themselves, so a provider that hangs delays no other one.
	var followed sync.Map
	var rounds sync.WaitGroup
	defer rounds.Wait()
	var prunedAt, judgedAt time.Time
	for ctx.Err() == nil {
		if now := time.Now(); now.Sub(judgedAt) >= strayPause {
			judgedAt = now
			if err := s.JudgeStrays(ctx); err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "swap: strays are not judged", "error", err)
			}
		}
		if now := time.Now(); now.Sub(prunedAt) >= turnPruning {
			prunedAt = now
			if err := turn.Prune(ctx, s.DB); err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "swap: turns are not pruned", "error", err)
			}
		}
		names, err := s.listDue(ctx)
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "swap: following stopped early", "error", err)
		}
		for _, name := range names {
			if _, isFollowed := followed.LoadOrStore(name, true); isFollowed {
				continue
			}
			rounds.Go(func() {
				defer followed.Delete(name)
				for looked := followBatchMax; looked == followBatchMax && ctx.Err() == nil; {
					var err error
					if looked, err = s.followProvider(ctx, name); err != nil && ctx.Err() == nil {
						s.Log.WarnContext(ctx, "swap: following stopped early", "provider", name, "error", err)
					}
				}
			})
		}
		select {
		case <-time.After(followPause):
		case <-ctx.Done():
		}
	}
	return nil
}

// followed is a swap that the worker looks at, with the offer that names it at its provider.
type followed struct {
	Swap
	ref            provider.Ref
	lookCount      int
	failureSaidAt  *time.Time
	successSaidAt  *time.Time
	lastReport     *Report
	destinationAt  *time.Time // up to where the final walk of the destination has read
	providerSince  *time.Time // when its state changed last
	hasOpenPayment bool       // our payment may still be made
	// arriving is what of the destination mint is at the delivery wallet and not settled: it waits for
	// confirmations, for its mint, or for more.
	arriving money.Amount
}

// Follow judges the strays, and looks once at the swaps that are due, in a batch for each provider. It returns how many
// it looked at.
func (s *Service) Follow(ctx context.Context) (int, error) {
	if err := s.JudgeStrays(ctx); err != nil {
		return 0, err
	}
	names, err := s.listDue(ctx)
	if err != nil {
		return 0, err
	}
	counts, errs := make([]int, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { counts[i], errs[i] = s.followProvider(ctx, name) })
	}
	wg.Wait()
	looked := 0
	for _, n := range counts {
		looked += n
	}
	return looked, errors.Join(errs...)
}

// followProvider looks at a batch of the swaps of one provider that are due.
func (s *Service) followProvider(ctx context.Context, name string) (int, error) {
	ids, err := s.claimDue(ctx, name)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	errs := make([]error, len(ids))
	slots := make(chan struct{}, followParallel)
	var wg sync.WaitGroup
	for i, swapID := range ids {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			errs[i] = s.Look(ctx, swapID)
		})
	}
	wg.Wait()
	return len(ids), errors.Join(errs...)
}

// listDue returns the providers that have swaps to look at; "" stands for those that have no provider.
func (s *Service) listDue(ctx context.Context) (names []string, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT DISTINCT coalesce(provider, '') FROM swaps WHERE look_at <= $1 ORDER BY 1`, tx.Now)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the providers of swaps that are due: %w", err)
	}
	return names, nil
}

// claimDue takes swaps of a provider that are due, for the time of a lease. The lease saves work; what is
// decided is decided under the lock of the row.
func (s *Service) claimDue(ctx context.Context, name string) (ids []string, err error) {
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE swaps SET look_at = $2 WHERE swap_id IN (
				SELECT swap_id FROM swaps WHERE look_at <= $1 AND coalesce(provider, '') = $4
				ORDER BY look_at, swap_id LIMIT $3 FOR UPDATE SKIP LOCKED)
			RETURNING swap_id`, tx.Now, tx.Now.Add(followClaim), followBatchMax, name)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("claim the swaps of %s that are due: %w", name, err)
	}
	slices.Sort(ids)
	return ids, nil
}

// Look asks the provider of one swap and stores and applies what it says. An operator may cause it.
func (s *Service) Look(ctx context.Context, swapID string) error {
	f, err := s.loadFollowed(ctx, swapID)
	switch {
	case err != nil:
		return err
	case !f.hasOffer():
		return s.lookForOffer(ctx, f.Swap)
	case f.isOfOrganization() && f.isDelivered() && f.Status == Processing:
		return s.followPayout(ctx, f.Swap)
	}
	report, askErr := s.askStatus(ctx, f)
	failpoint.Hit("Q11")
	if askErr != nil {
		s.Log.InfoContext(ctx, "swap: no report of the provider", "swap", swapID, "provider", f.Provider, "error",
			askErr)
	}
	var hasFailed bool
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		hasFailed = false
		locked, err := lock(ctx, tx, swapID)
		if err != nil {
			return err
		}
		if locked.isDelivered() && locked.Status == Processing {
			return nil // its output has arrived since, and is paid out next
		}
		current := f
		current.Swap = locked
		if err := current.loadFacts(ctx, tx); err != nil {
			return err
		}
		if askErr == nil {
			if err := s.storeReport(ctx, tx, &current, report); err != nil {
				return err
			}
		}
		hasFailed, err = s.apply(ctx, tx, current, report, askErr == nil)
		return err
	})
	if err == nil && hasFailed {
		failpoint.Hit("Q16")
	}
	return err
}

func (s *Service) loadFollowed(ctx context.Context, swapID string) (f followed, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if f.Swap, err = loadAny(ctx, tx, swapID); err != nil || !f.hasOffer() {
			return err
		}
		err := tx.QueryRow(ctx, `SELECT deposit_address, signed_quote FROM swap_offers WHERE swap_id = $1`, swapID).
			Scan(&f.ref.DepositAddress, &f.ref.SignedQuote)
		if err != nil {
			return fmt.Errorf("read the offer of swap %s: %w", swapID, err)
		}
		return f.loadFacts(ctx, tx)
	})
	return f, err
}

// loadFacts reads what the decisions about a swap rest on, besides its row.
func (f *followed) loadFacts(ctx context.Context, tx pg.Tx) error {
	err := tx.QueryRow(ctx, `
		SELECT s.look_count, s.failure_said_at, s.success_said_at,
			(SELECT p.block_time FROM scan_cursors c JOIN finality_live p ON p.chain = c.chain
				AND p.height = c.height WHERE c.chain = s.to_chain),
			(SELECT p.since FROM swap_providers p WHERE p.provider = s.provider),
			EXISTS (SELECT FROM dispatch_orders o WHERE o.order_id = s.swap_id
				AND o.status NOT IN ('PAID', 'FAILED', 'WITHDRAWN')),
			(SELECT coalesce(sum(d.amount), 0) FROM deposits d WHERE d.swap_id = s.swap_id
				AND d.wallet_id = s.delivery_wallet_id AND d.mint_id = s.to_mint_id
				AND d.status IN ('DETECTED', 'CONFIRMING', 'SCREENING'))
		FROM swaps s WHERE s.swap_id = $1`, f.ID).
		Scan(&f.lookCount, &f.failureSaidAt, &f.successSaidAt, &f.destinationAt, &f.providerSince, &f.hasOpenPayment,
			&f.arriving)
	if err != nil {
		return fmt.Errorf("read the facts of swap %s: %w", f.ID, err)
	}
	rows, err := tx.Query(ctx, `
		SELECT number, status, word, refund, reason, tx_hashes, created_at FROM swap_reports
		WHERE swap_id = $1 ORDER BY number DESC LIMIT 1`, f.ID)
	if err != nil {
		return fmt.Errorf("read the last report of swap %s: %w", f.ID, err)
	}
	last, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByPos[Report])
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		f.lastReport = nil
	case err != nil:
		return fmt.Errorf("read the last report of swap %s: %w", f.ID, err)
	default:
		f.lastReport = &last
	}
	return nil
}

// askStatus asks the provider, with the hash of our payment.
func (s *Service) askStatus(ctx context.Context, f followed) (provider.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var payment chain.TxHash
	if f.OriginTxHash != nil {
		payment = *f.OriginTxHash
	}
	report, err := s.Panel.Status(ctx, f.Provider, f.ref, payment)
	failpoint.Hit("Q08")
	return report, err
}

// storeReport stores a report that differs from the one before.
func (s *Service) storeReport(ctx context.Context, tx pg.Tx, f *followed, r provider.Report) error {
	hashes := []string{}
	for _, list := range [][]chain.TxHash{r.OriginTxs, r.DestinationTxs, r.RefundTxs} {
		for _, h := range list {
			hashes = append(hashes, string(h))
		}
	}
	hashes = hashes[:min(len(hashes), 60)]
	report := Report{
		Number: 1, Status: r.Status, Word: cut(r.Word, 200), Refund: r.Refund, Reason: cut(r.Reason, 500),
		TxHashes: hashes, CreatedAt: tx.Now,
	}
	if last := f.lastReport; last != nil {
		if last.Status == report.Status && last.Word == report.Word && last.Refund == report.Refund &&
			last.Reason == report.Reason && slices.Equal(last.TxHashes, report.TxHashes) {
			return nil
		}
		if report.Number = last.Number + 1; report.Number > reportsMax {
			return nil
		}
	}
	var sealed []byte
	if s.Seal != nil {
		var err error
		binding := seal.Binding{Org: f.OrgID, Kind: "swap_report", ID: f.ID, Version: report.Number}
		if sealed, err = s.Seal.Seal(r.Raw, binding); err != nil {
			return fmt.Errorf("seal a report of swap %s: %w", f.ID, err)
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO swap_reports (swap_id, number, org_id, status, word, refund, reason, tx_hashes, sealed, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`,
		f.ID, report.Number, f.OrgID, report.Status, report.Word, report.Refund, report.Reason,
		report.TxHashes, sealed, tx.Now)
	if err != nil {
		return fmt.Errorf("store a report of swap %s: %w", f.ID, err)
	}
	f.lastReport = &report
	return nil
}

func cut(text string, runesMax int) string {
	if runes := []rune(text); len(runes) > runesMax {
		return string(runes[:runesMax])
	}
	return text
}

// conclusion is what a report means for a swap.
type conclusion struct {
	hasPayment    bool       // the provider has our payment
	failureSaidAt *time.Time // since when it stands by a failure
	successSaidAt *time.Time
	isFailed      bool
	reason        FailureReason
	isDelayed     bool // the organization is told now
	suspends      string
	refundReport  provider.RefundReport
	lookAt        *time.Time
}

// conclude decides what a report means. It is pure. Nothing here credits or returns anything: a report
// of success only says where to look. Rules SWAP-21, SWAP-22 and SWAP-23.
func (c Config) conclude(f followed, r provider.Report, isAnswered bool, now time.Time) conclusion {
	end := conclusion{
		failureSaidAt: f.failureSaidAt, successSaidAt: f.successSaidAt, refundReport: f.RefundReport,
	}
	if !isAnswered {
		end.lookAt = c.nextLook(f, now)
		return c.watchAge(f, end, now)
	}
	if r.Refund != provider.RefundNone || !f.Status.isOpen() {
		end.refundReport = r.Refund
	}
	switch r.Status {
	case provider.Processing, provider.Success:
		end.hasPayment, end.failureSaidAt = true, nil
		if r.Status == provider.Success && end.successSaidAt == nil {
			end.successSaidAt = &now
		}
	case provider.Refunded, provider.Failed:
		end.hasPayment = f.PaidAt != nil
		if end.failureSaidAt == nil {
			end.failureSaidAt = &now
		}
		end.isFailed, end.reason = c.isFailureConfirmed(f, *end.failureSaidAt, now), reasonOf(r)
	default:
		end.failureSaidAt = nil
	}
	end.lookAt = c.nextLook(f, now)
	if f.Status.isOpen() && end.failureSaidAt != nil && !end.isFailed {
		soon := now.Add(lookSlow)
		end.lookAt = &soon
	}
	return c.watchAge(f, end, now)
}

// isFailureConfirmed reports whether the word of a provider that the swap failed counts: our payment is
// final, the provider has stood by it for a minute, the walk of the destination is past the moment of
// the first such report, no whole delivery waits for its confirmations, and the refund has arrived or its
// time is over.
func (c Config) isFailureConfirmed(f followed, saidAt, now time.Time) bool {
	return f.PaidAt != nil && f.Status == Processing && !now.Before(saidAt.Add(failureConfirm)) &&
		f.destinationAt != nil && f.destinationAt.After(saidAt) && f.arriving.Less(f.MinOut) &&
		(!f.Refunded.IsZero() || !now.Before(saidAt.Add(c.RefundGrace)))
}

func reasonOf(r provider.Report) FailureReason {
	switch {
	case r.Refund == provider.RefundManual:
		return ProviderCompliance
	case r.Status == provider.Refunded:
		return ProviderRefunded
	}
	return ProviderFailed
}

// watchAge adds what follows from the age of a swap whose value is with its provider. It never fails
// for its age.
func (c Config) watchAge(f followed, end conclusion, now time.Time) conclusion {
	if f.Status != Processing || f.PaidAt == nil {
		return end
	}
	limit := c.DelayedAfter
	if f.EstimatedSeconds != nil {
		limit = max(limit, delayedFactor*time.Duration(*f.EstimatedSeconds)*time.Second)
	}
	if f.DelayedAt == nil && now.Sub(*f.PaidAt) > limit {
		end.isDelayed = true
	}
	if end.successSaidAt != nil && now.Sub(*end.successSaidAt) > successGraceMax &&
		(f.providerSince == nil || end.successSaidAt.Add(successGraceMax).After(*f.providerSince)) {
		end.suspends = "it reported success for swap " + f.ID + ", and nothing arrived for an hour"
	}
	return end
}

// nextLook returns when the worker looks at a swap again: often at first, rarely after an hour, and
// without an end while value is with the provider.
func (c Config) nextLook(f followed, now time.Time) *time.Time {
	if !f.Status.isOpen() && (f.PaidAt == nil || f.isSettled()) {
		return nil
	}
	pause := min(lookFirst*time.Duration(1+f.lookCount/5), lookSlow)
	if now.Sub(f.CreatedAt) > lookRareAfter {
		pause = lookRare
	}
	nextLook := now.Add(pause)
	return &nextLook
}

// isSettled reports whether the provider has nothing of ours any more.
func (w Swap) isSettled() bool {
	settled, err := w.Refunded.Add(w.Short)
	return w.isDelivered() || err == nil && settled == w.AmountIn
}

// apply writes what a report means, under the lock of the row. It reports whether the swap failed by it.
func (s *Service) apply(
	ctx context.Context, tx pg.Tx, f followed, r provider.Report, isAnswered bool,
) (hasFailed bool, err error) {
	end := s.conf.conclude(f, r, isAnswered, tx.Now)
	_, err = tx.Exec(ctx, `
		UPDATE swaps SET failure_said_at = $2, success_said_at = $3, refund_report = $4, look_at = $5,
			look_count = look_count + 1
		WHERE swap_id = $1`, f.ID, end.failureSaidAt, end.successSaidAt, end.refundReport, end.lookAt)
	if err != nil {
		return false, fmt.Errorf("store what a report of swap %s means: %w", f.ID, err)
	}
	w := f.Swap
	w.RefundReport = end.refundReport
	if end.hasPayment && w.Status == Depositing {
		if err := setStatus(ctx, tx, w.ID, Depositing, Processing, ""); err != nil {
			return false, err
		}
		w.Status = Processing
		if err := audit.Record(ctx, tx, newEntry(w, actor, "processing", map[string]any{"word": r.Word})); err != nil {
			return false, err
		}
	}
	if end.isDelayed {
		if err := s.markDelayed(ctx, tx, w); err != nil {
			return false, err
		}
	}
	if w.Status == Processing && w.DelayedAt != nil {
		if err := suspendDelayed(ctx, tx, w.Provider); err != nil {
			return false, err
		}
	}
	if end.suspends != "" {
		if err := suspend(ctx, tx, w.Provider, end.suspends, actor); err != nil {
			return false, err
		}
	}
	if !end.isFailed {
		return false, nil
	}
	postings, err := s.fail(ctx, tx, w, failure{
		reason: end.reason, message: r.Reason, refunded: w.Refunded, refundReport: end.refundReport, lookAt: end.lookAt,
	})
	if err != nil {
		return false, err
	}
	if err := ledger.Post(ctx, tx, postings...); err != nil {
		return false, fmt.Errorf("fail swap %s: %w", w.ID, err)
	}
	return true, nil
}

// markDelayed tells the organization once that a swap takes long.
func (s *Service) markDelayed(ctx context.Context, tx pg.Tx, w Swap) error {
	tag, err := tx.Exec(ctx, `
		UPDATE swaps SET delayed_at = $2, updated_at = $2 WHERE swap_id = $1 AND delayed_at IS NULL`,
		w.ID, tx.Now)
	if err != nil {
		return fmt.Errorf("mark swap %s as delayed: %w", w.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return nil
	}
	now := tx.Now
	w.DelayedAt = &now
	if !w.isOfOrganization() {
		if err := s.publish(ctx, tx, w, event.CustomerSwapDelayed, w); err != nil {
			return err
		}
	}
	return audit.Record(ctx, tx, newEntry(w, actor, "delayed", nil))
}

// suspendDelayed suspends a provider of which three swaps are delayed, since a person last changed its
// state. Swaps that are delayed at one moment do not see each other, so each look at a delayed one counts.
func suspendDelayed(ctx context.Context, tx pg.Tx, name string) error {
	var delayed int
	err := tx.QueryRow(ctx, `
		SELECT count(*) FROM swaps s WHERE s.provider = $1 AND s.paid_at IS NOT NULL AND s.status = 'PROCESSING'
			AND s.amount_out IS NULL AND s.delayed_at IS NOT NULL
			AND s.refunded + s.short < s.amount_in
			AND s.delayed_at > coalesce((SELECT p.since FROM swap_providers p WHERE p.provider = $1),
				'-infinity')`, name).Scan(&delayed)
	if err != nil {
		return fmt.Errorf("count the delayed swaps of %s: %w", name, err)
	}
	if delayed < delayedMax {
		return nil
	}
	return suspend(ctx, tx, name, fmt.Sprintf("%d of its swaps are delayed", delayed), actor)
}
