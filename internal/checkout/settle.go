package checkout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/checkout/pricing"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	settlePause    = 200 * time.Millisecond
	settleBatchMax = 64
	settleParallel = 8
	settleClaim    = 30 * time.Second // for which one process looks at a payment
	expirePause    = 2 * time.Second
	expireBatchMax = 256
	// lookMargin is how long after the end of a checkout the walks of its chains have to have looked before it expires.
	lookMargin = time.Minute
	valueRetry = 5 * time.Second // the first pause before a price is asked for again; it doubles
	retryMax   = 10 * time.Minute
)

// errLostRace says that a row changed since it was read; the step is taken again.
var errLostRace = errors.New("the checkout changed meanwhile")

// Run keeps the states of checkouts until ctx ends: it values payments, completes checkouts, and ends those whose time
// is over. Any number of processes may run it. It returns nil.
func (s *Service) Run(ctx context.Context) error {
	var expireAt time.Time
	for ctx.Err() == nil {
		settled, err := s.SettleDue(ctx)
		if now := time.Now(); now.After(expireAt) {
			expireAt = now.Add(expirePause)
			err = errors.Join(err, s.ExpireDue(ctx))
		}
		err = errors.Join(err, s.RefundAutomatically(ctx), s.FollowRefunds(ctx))
		if err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "checkout: a step failed and is taken again", "error", err)
		}
		if settled == settleBatchMax {
			continue
		}
		select {
		case <-time.After(settlePause):
		case <-ctx.Done():
		}
	}
	return nil
}

// SettleDue settles the checkouts with payments that they do not know. It returns how many payments it claimed.
func (s *Service) SettleDue(ctx context.Context) (claimed int, err error) {
	var ids []string
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			UPDATE checkout_payments SET try_at = $2 WHERE deposit_id IN (
				SELECT deposit_id FROM checkout_payments WHERE try_at <= $1 ORDER BY try_at, deposit_id LIMIT $3
				FOR NO KEY UPDATE SKIP LOCKED)
			RETURNING checkout_id`, tx.Now, tx.Now.Add(settleClaim), settleBatchMax)
		if err != nil {
			return err
		}
		ids, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("claim the payments of checkouts: %w", err)
	}
	if claimed = len(ids); claimed > 0 {
		failpoint.Hit("C04")
	}
	slices.Sort(ids)
	return claimed, s.settleAll(ctx, slices.Compact(ids), true)
}

// ExpireDue ends the open checkouts whose time is over, except those whose chains are not walked that far. Rule CO-13.
func (s *Service) ExpireDue(ctx context.Context) error {
	var chains []string
	for name := range s.Chains {
		chains = append(chains, string(name))
	}
	var lastID string
	var lastEnd time.Time
	var failed error // of some, which does not keep the others open
	for {
		var ids []string
		err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(ctx, `
				SELECT c.checkout_id, c.expires_at FROM checkouts c
				WHERE c.status = 'OPEN' AND c.expires_at <= $1 AND (c.expires_at, c.checkout_id) > ($2, $3)
					AND NOT EXISTS (
						SELECT FROM checkout_options o JOIN mints m ON m.mint_id = o.mint_id
						LEFT JOIN scan_head_times t ON t.chain = m.chain
						WHERE o.checkout_id = c.checkout_id AND m.chain = ANY ($4)
							AND (t.caught_up_at >= c.expires_at + $5) IS NOT TRUE)
				ORDER BY c.expires_at, c.checkout_id LIMIT $6`,
				tx.Now, lastEnd, lastID, chains, lookMargin, expireBatchMax)
			if err != nil {
				return err
			}
			ids = nil
			_, err = pgx.ForEachRow(rows, []any{&lastID, &lastEnd}, func() error {
				ids = append(ids, lastID)
				return nil
			})
			return err
		})
		if err != nil {
			return errors.Join(failed, fmt.Errorf("look for checkouts whose time is over: %w", err))
		}
		failed = errors.Join(failed, s.settleAll(ctx, ids, false))
		if len(ids) < expireBatchMax || ctx.Err() != nil {
			return failed
		}
	}
}

// settleAll settles checkouts at the same time. One that fails does not stop the others. isTurn says that the payments
// were claimed, so one that waits for a price has asked in vain if it still has none.
func (s *Service) settleAll(ctx context.Context, ids []string, isTurn bool) error {
	errs := make([]error, len(ids))
	slots := make(chan struct{}, settleParallel)
	var wg sync.WaitGroup
	for i, checkoutID := range ids {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if errs[i] = s.settle(ctx, checkoutID, isTurn); errs[i] != nil {
				errs[i] = fmt.Errorf("settle checkout %s: %w", checkoutID, errs[i])
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Settle values the payments of a checkout and brings its state up to date. It may be repeated: a step that changes
// nothing writes nothing. Rules CO-12, CO-13, CO-14 and CO-15.
func (s *Service) Settle(ctx context.Context, checkoutID string) error {
	return s.settle(ctx, checkoutID, false)
}

func (s *Service) settle(ctx context.Context, checkoutID string, isTurn bool) error {
	var before Checkout
	var mints mint.Catalogue
	err := s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		before, err = loadCheckout(ctx, tx, `c.checkout_id = $1`, checkoutID)
		return err
	})
	if err != nil {
		return err
	}
	var values []valuation
	for _, p := range before.Payments {
		if !p.needsValue() {
			continue
		}
		if v, ok := s.value(ctx, before, p, mints); ok {
			values = append(values, v)
		}
	}
	if len(values) > 0 {
		failpoint.Hit("C05")
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		ids := make([]string, len(values))
		for i, v := range values {
			ids[i] = v.depositID
		}
		if err := lockDeposits(ctx, tx, ids); err != nil {
			return err
		}
		c, err := lockWithPayments(ctx, tx, checkoutID)
		if err != nil {
			return err
		}
		c.judgeTimes(values)
		if err := storeValues(ctx, tx, &c, values); err != nil {
			return err
		}
		err = s.settleLocked(ctx, tx, c, mints, actor, decision{}, isTurn)
		failpoint.HitBeforeCommit("C06")
		return err
	})
	failpoint.Hit("C06")
	return err
}

// lockDeposits locks deposits whose payments may be written twice, before their payments as the walk does: PostgreSQL
// looks at the deposit of such a payment at the end of the transaction.
func lockDeposits(ctx context.Context, tx pg.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `SELECT FROM deposits WHERE deposit_id = ANY ($1) ORDER BY deposit_id FOR KEY SHARE`, ids)
	if err != nil {
		return fmt.Errorf("lock %d deposits of checkouts: %w", len(ids), err)
	}
	return nil
}

// storeValues writes what payments count, unless another process did, or another fork has another amount.
func storeValues(ctx context.Context, tx pg.Tx, c *Checkout, values []valuation) error {
	for _, v := range values {
		tag, err := tx.Exec(ctx, `
			UPDATE checkout_payments SET moment = $3, is_accepted = $4, in_time = $5, quote_seq = $6, price = $7,
				currency_price = $8, price_source = $9, priced_at = $10, counted = $11
			WHERE deposit_id = $1 AND amount = $2::numeric AND counted IS NULL`,
			v.depositID, v.amount, v.moment, v.isAccepted, v.isInTime, v.quoteSeq, v.rate.Price, v.rate.CurrencyPrice,
			v.rate.Source, v.rate.PricedAt, v.counted)
		if err != nil {
			return fmt.Errorf("store the value of payment %s: %w", v.depositID, err)
		}
		i := slices.IndexFunc(c.Payments, func(p Payment) bool { return p.DepositID == v.depositID })
		if tag.RowsAffected() == 0 || i < 0 || c.Payments[i].Amount.String() != v.amount {
			continue
		}
		p := &c.Payments[i]
		p.Moment, p.IsAccepted, p.IsInTime, p.QuoteSeq = v.moment, v.isAccepted, v.isInTime, v.quoteSeq
		p.Rate, p.Counted = &v.rate, &v.counted
	}
	return nil
}

// decision is what a person decided about a checkout; the zero value is none.
type decision struct{ author, reason string }

// settleLocked brings the state of a locked checkout up to date with its payments: payments, checkout, event and audit
// row in this transaction.
func (s *Service) settleLocked(
	ctx context.Context, tx pg.Tx, c Checkout, mints mint.Catalogue, requester audit.Actor, d decision,
	isTurn bool,
) error {
	r, err := s.assess(ctx, tx, c, mints, d)
	if err != nil {
		return err
	}
	isTold, err := s.tellPayments(ctx, tx, c, r, isTurn)
	if err != nil {
		return err
	}
	if r.Status == c.Status && slices.Equal(r.Exceptions, c.Exceptions) && r.SeenSum == c.SeenSum &&
		r.FinalSum == c.Counted && r.ExpiresAt.Equal(c.ExpiresAt) && !isTold {
		return nil
	}
	after := c
	after.Version, after.Status, after.Exceptions = c.Version+1, r.Status, r.Exceptions
	after.SeenSum, after.Counted, after.ExpiresAt, after.isExtended = r.SeenSum, r.FinalSum, r.ExpiresAt, r.IsExtended
	var completedWith *Price
	if r.Status == outcome.Completed && c.Status != outcome.Completed {
		after.CompletedAt, completedWith = &tx.Now, &r.FinalSum
		after.DecidedBy, after.DecidedReason = d.author, d.reason
	}
	tag, err := tx.Exec(ctx, `
		UPDATE checkouts SET version = version + 1, status = $3, exceptions = $4, seen = $5, counted = $6,
			expires_at = $7, is_extended = $8, completed_at = coalesce(completed_at, $9),
			completed_with = coalesce(completed_with, $10), decided_by = coalesce(decided_by, nullif($11, '')),
			decided_reason = coalesce(decided_reason, nullif($12, '')), updated_at = greatest($13, updated_at)
		WHERE checkout_id = $1 AND version = $2`,
		c.ID, c.Version, after.Status, nonNilExceptions(after.Exceptions), after.SeenSum, after.Counted,
		after.ExpiresAt, after.isExtended, after.CompletedAt, completedWith, d.author, d.reason, tx.Now)
	if err == nil && tag.RowsAffected() != 1 {
		err = errLostRace
	}
	if err != nil {
		return fmt.Errorf("checkout %s from %s to %s: %w", c.ID, c.Status, after.Status, err)
	}
	after.UpdatedAt = tx.Now
	if err := beginRefundTurn(ctx, tx, after); err != nil {
		return err
	}
	return s.announce(ctx, tx, c, after, requester)
}

func nonNilExceptions(exceptions []outcome.Exception) []outcome.Exception {
	if exceptions == nil {
		return []outcome.Exception{}
	}
	return exceptions
}

// assess decides what a checkout is now.
func (s *Service) assess(
	ctx context.Context, tx pg.Tx, c Checkout, mints mint.Catalogue, d decision,
) (outcome.Result, error) {
	terms := outcome.Terms{
		AmountDue: c.AmountDue, Need: c.Need, ExpiresAt: c.ExpiresAt, IsExtended: c.isExtended,
		Surplus:     pricing.Tolerance(c.AmountDue, c.UnderBps, c.UnderUSD, pricing.Par),
		AcceptsLate: c.LatePolicy == AcceptLate,
		IsDecided:   d.author != "" || c.DecidedBy != "",
		IsRefunded:  c.isRefunded(),
	}
	payments := make([]outcome.Payment, len(c.Payments))
	for i, p := range c.Payments {
		payments[i] = c.outcomeOf(p, mints)
	}
	isLagging, err := s.isLagging(ctx, tx, c)
	if err != nil {
		return outcome.Result{}, err
	}
	r := outcome.Assess(c.Status, terms, payments, tx.Now, isLagging)
	if isActive(r.Status) && !isActive(c.Status) && c.OnePerReference {
		taken, err := isReferenceTaken(ctx, tx, c)
		if err != nil {
			return outcome.Result{}, err
		}
		if taken {
			// Another checkout of the reference is open or paid. A person decides what becomes of this payment, so
			// it is never without an exception.
			r.Status = c.Status
			if len(r.Exceptions) == 0 {
				r.Exceptions = []outcome.Exception{outcome.PaidLate}
			}
		}
	}
	return r, nil
}

// outcomeOf returns a payment as package outcome needs it.
func (c Checkout) outcomeOf(p Payment, mints mint.Catalogue) outcome.Payment {
	o := outcome.Payment{
		Status: p.Status, Counted: p.Counted, Moment: p.Moment, IsAccepted: p.IsAccepted, IsInTime: p.IsInTime,
	}
	if p.Counted == nil {
		o.Moment = p.momentOf()
		o.IsAccepted = p.Mint != nil && c.accepts(*p.Mint, mints)
		o.IsInTime = c.isInTimeOf(o.Moment)
	}
	o.IsWatched = !o.Moment.After(c.ExpiresAt.Add(watchTime))
	return o
}

func isActive(status outcome.Status) bool {
	return status == outcome.Open || status == outcome.Processing || status == outcome.Completed
}

// isReferenceTaken reports whether another checkout of the reference is open or paid. Rule CO-4.
func isReferenceTaken(ctx context.Context, tx pg.Tx, c Checkout) (taken bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM checkouts WHERE org_id = $1 AND reference = $2 AND one_per_reference
			AND status IN ('OPEN', 'PROCESSING', 'COMPLETED') AND checkout_id <> $3)`,
		c.OrgID, c.Reference, c.ID).Scan(&taken)
	if err != nil {
		return false, fmt.Errorf("look for another checkout of the reference of %s: %w", c.ID, err)
	}
	return taken, nil
}

// isLagging reports whether the walk of a chain on which the checkout can be paid has not looked since its end.
func (s *Service) isLagging(ctx context.Context, tx pg.Tx, c Checkout) (bool, error) {
	if c.Status != outcome.Open && c.Status != outcome.Processing || tx.Now.Before(c.ExpiresAt) {
		return false, nil
	}
	for _, o := range c.Options {
		if _, isRunning := s.Chains[o.Mint.Chain]; !isRunning {
			continue
		}
		var hasLooked bool
		err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM scan_head_times WHERE chain = $1 AND caught_up_at >= $2)`,
			string(o.Mint.Chain), c.ExpiresAt.Add(lookMargin)).Scan(&hasLooked)
		if err != nil {
			return false, fmt.Errorf("look how far %s is walked: %w", o.Mint.Chain, err)
		}
		if !hasLooked {
			return true, nil
		}
	}
	return false, nil
}

// tellPayments notes on the payments what the checkout knows of them. A payment whose status changed meanwhile is told
// in the next step. isTold says that something is new to the checkout.
func (s *Service) tellPayments(
	ctx context.Context, tx pg.Tx, c Checkout, r outcome.Result, isTurn bool,
) (isTold bool, err error) {
	for i, p := range c.Payments {
		var tryIn *time.Duration
		if p.needsValue() {
			tryIn = new(valueRetry)
		}
		isTold = isTold || p.toldStatus != p.Status || p.Counts != r.Counts[i]
		_, err := tx.Exec(ctx, `
			UPDATE checkout_payments SET told_status = status, counts = $3,
				tries = CASE WHEN $4::interval IS NULL THEN 0 WHEN $7 THEN tries + 1 ELSE tries END,
				try_at = CASE WHEN $4::interval IS NULL THEN NULL
					WHEN $7 THEN $5::timestamptz + least($4::interval * power(2, least(tries, 16)), $6::interval)
					ELSE try_at END
			WHERE deposit_id = $1 AND status = $2 AND (told_status IS DISTINCT FROM status OR counts <> $3
				OR try_at IS NOT NULL AND ($4::interval IS NULL OR $7))`,
			p.DepositID, p.Status, r.Counts[i], tryIn, tx.Now, retryMax, isTurn)
		if err != nil {
			return false, fmt.Errorf("note what checkout %s knows of payment %s: %w", c.ID, p.DepositID, err)
		}
	}
	return isTold, nil
}

// eventsOf are the events of statuses that a checkout reaches.
var eventsOf = map[outcome.Status]event.Type{
	outcome.Processing: event.CheckoutProcessing, outcome.Completed: event.CheckoutCompleted,
	outcome.Expired: event.CheckoutExpired,
}

// announce writes the event and the audit row of a change: the event of the new status, or that of a new exception.
// Rule CO-15.
func (s *Service) announce(ctx context.Context, tx pg.Tx, before, after Checkout, requester audit.Actor) error {
	// A refund has an event of its own.
	isNew := func(e outcome.Exception) bool {
		return e != outcome.Refunded && !slices.Contains(before.Exceptions, e)
	}
	var t event.Type
	switch {
	case before.Status != after.Status && eventsOf[after.Status] != "":
		t = eventsOf[after.Status]
	case slices.ContainsFunc(after.Exceptions, isNew):
		t = event.CheckoutException
	}
	if t != "" {
		loaded, err := loadCheckout(ctx, tx, `c.checkout_id = $1`, after.ID)
		if err != nil {
			return err
		}
		_, err = s.Events.Record(ctx, tx, event.Event{
			OrgID: after.OrgID, Type: t, ResourceKind: "checkout", ResourceID: after.ID,
			Data: s.withoutUnproven(s.complete(loaded)), FoundAgain: true,
		})
		if err != nil {
			return err
		}
	}
	if before.Status == after.Status && slices.Equal(before.Exceptions, after.Exceptions) {
		return nil
	}
	return audit.Record(ctx, tx, newCheckoutEntry(after, requester, "changed", map[string]any{
		"from": before.Status, "to": after.Status, "exceptions": after.Exceptions, "counted": after.Counted.Text(),
		"reason": after.DecidedReason,
	}))
}
