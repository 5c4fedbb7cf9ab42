package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/platform/failpoint"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	voidInterval     = 2 * time.Second
	voidTimeout      = 10 * time.Second // for one call of the signer
	voidPollInterval = 100 * time.Millisecond
	voidBatchSize    = 200
)

// ErrVoidPending says that the signer has not journaled yet that an order is void. The order can no
// longer get a slot. The process that runs the Voider asks again until the signer has done so.
var ErrVoidPending = errors.New("the signer has not journaled the void of the payment yet")

// VoidListener is a feature whose orders have grants.
type VoidListener interface {
	// OnVoided reports that a recalled order is never paid, so its hold may be released. It runs in
	// the transaction that stores the signer's entry.
	OnVoided(ctx context.Context, tx pg.Tx, orgID, orderID string) error
}

// Voider has the signer journal that a recalled order with a grant is void, and notifies its
// feature. It is the only way from WITHDRAWN to a released hold. A crash leaves a row without its
// journal entry, which Run finishes. A Voider is safe for concurrent use, also by several
// processes. Rule WD-50.
type Voider struct {
	DB        *pg.DB
	Signer    signer.Signer
	Grants    *signer.GrantKey // nil where the signer requires no grants
	Listeners map[signer.Purpose]VoidListener
	// WaitMax is how long FinishVoid waits for another process to void the order, where this
	// process cannot ask the signer; 0 where it can.
	WaitMax time.Duration
	Log     *slog.Logger
}

// requestVoid records, in the transaction that recalls an order, that the signer has to void it.
func requestVoid(ctx context.Context, tx pg.Tx, orderID string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO dispatch_voids (order_id, org_id, asked_at)
		SELECT order_id, org_id, $2 FROM dispatch_orders WHERE order_id = $1 AND status = 'WITHDRAWN' AND purpose = ANY ($3)`,
		orderID, tx.Now, grantedPurposes())
	if err != nil {
		return fmt.Errorf("request the void of order %s: %w", orderID, err)
	}
	return nil
}

// VoidState is the state of an order's grant.
type VoidState string

// The states of an order's grant.
const (
	NotOrdered VoidState = "NOT_ORDERED" // there is no order, so there never was a grant
	NotVoided  VoidState = "NOT_VOIDED"  // the signer has not journaled that it is void
	Voided     VoidState = "VOIDED"
)

// LoadVoidState returns the state of an order's grant.
func LoadVoidState(ctx context.Context, tx pg.Tx, orderID string) (state VoidState, err error) {
	err = tx.QueryRow(ctx, `
		SELECT CASE WHEN EXISTS (SELECT FROM dispatch_voids WHERE order_id = $1 AND journal_seq IS NOT NULL) THEN 'VOIDED'
			WHEN EXISTS (SELECT FROM dispatch_orders WHERE order_id = $1) THEN 'NOT_VOIDED' ELSE 'NOT_ORDERED' END`,
		orderID).Scan(&state)
	if err != nil {
		return state, fmt.Errorf("read whether order %s is void: %w", orderID, err)
	}
	return state, nil
}

// FinishVoid has the signer void a recalled order and notifies its feature. A repeated call changes
// nothing. Error: ErrVoidPending if the signer has not answered; then the order stays recalled, its
// hold stays, and Run asks again. After any other error the hold may have been released: the
// database did not answer, and Run does the rest.
func (v *Voider) FinishVoid(ctx context.Context, orderID string) error {
	err := v.tryFinishVoid(ctx, orderID)
	if err == nil || v.WaitMax == 0 {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, v.WaitMax)
	defer cancel()
	for patient.Err() == nil {
		sleep(patient, voidPollInterval)
		state := VoidState("")
		if v.DB.ReadSystem(patient, func(ctx context.Context, tx pg.Tx) (err error) {
			state, err = LoadVoidState(ctx, tx, orderID)
			return err
		}) == nil && state == Voided {
			return nil
		}
	}
	return err
}

func (v *Voider) tryFinishVoid(ctx context.Context, orderID string) error {
	var orgID string
	var purpose signer.Purpose
	var voided bool
	err := v.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(
			ctx,
			`SELECT v.org_id, o.purpose, v.journal_seq IS NOT NULL FROM dispatch_voids v JOIN dispatch_orders o USING (order_id) WHERE order_id = $1`,
			orderID,
		).
			Scan(&orgID, &purpose, &voided)
	})
	if err != nil {
		return fmt.Errorf("read what of order %s has to be voided: %w", orderID, err)
	}
	if voided {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, voidTimeout)
	defer cancel()
	entry, err := v.Signer.VoidIntent(patient, v.Grants.MakeVoid(orgID, orderID))
	if err != nil {
		return v.handleSignerError(ctx, orderID, err)
	}
	failpoint.Hit("V04")
	err = v.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The order's lock comes first, as in every transaction that ends it.
		if _, err := lockOrder(ctx, tx, orderID); err != nil {
			return err
		}
		if err := journal.RecordEntry(ctx, tx, entry); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx,
			`UPDATE dispatch_voids SET journal_id = $2, journal_seq = $3, voided_at = $4 WHERE order_id = $1 AND journal_seq IS NULL`,
			orderID, entry.JournalID, int64(entry.Seq), tx.Now)
		if err != nil {
			return fmt.Errorf("record that order %s is void: %w", orderID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil // another process was first
		}
		if err := v.Listeners[purpose].OnVoided(ctx, tx, orgID, orderID); err != nil {
			return err
		}
		failpoint.HitBeforeCommit("V05")
		return nil
	})
	if err != nil {
		return err
	}
	failpoint.Hit("V05")
	return nil
}

// handleSignerError returns why an order is not void yet. A signer that knows a slot of the order,
// or another owner, contradicts the database; then it freezes everything.
func (v *Voider) handleSignerError(ctx context.Context, orderID string, err error) error {
	var refusal *signer.Refusal
	if !errors.As(err, &refusal) {
		return fmt.Errorf("%w: order %s: %w", ErrVoidPending, orderID, err)
	}
	v.Log.ErrorContext(
		ctx, "the signer refuses to void a cancelled order; its amount stays held",
		"order", orderID, "code", refusal.Code, "why", refusal.Message,
	)
	if refusal.Code == signer.RefusedSlot || refusal.Code == signer.RefusedIntent ||
		refusal.Code == signer.RefusedVoid {
		if freezeErr := freezeAll(ctx, v.DB, refusal.Message); freezeErr != nil {
			err = errors.Join(err, freezeErr)
		}
	}
	return fmt.Errorf("%w: order %s: %w", ErrVoidPending, orderID, err)
}

// RunPass finishes the voids that were interrupted or that the signer did not answer.
func (v *Voider) RunPass(ctx context.Context) error {
	var errs error
	for lastID := ""; ; {
		var open []string
		err := v.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(
				ctx,
				`SELECT order_id FROM dispatch_voids WHERE journal_seq IS NULL AND order_id > $1 ORDER BY order_id LIMIT $2`,
				lastID, voidBatchSize,
			)
			if err != nil {
				return err
			}
			open, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err != nil {
			return fmt.Errorf("read which orders have to be voided: %w", err)
		}
		for _, orderID := range open {
			lastID = orderID
			errs = errors.Join(errs, v.tryFinishVoid(ctx, orderID))
		}
		if len(open) < voidBatchSize || ctx.Err() != nil {
			return errs
		}
	}
}

// Run finishes open voids until ctx ends; it returns nil. Any number of processes may run it.
func (v *Voider) Run(ctx context.Context) error {
	tick := time.NewTicker(voidInterval)
	defer tick.Stop()
	for {
		if err := v.RunPass(ctx); err != nil && ctx.Err() == nil {
			v.Log.Warn("cancelled payments are not void yet; their amounts stay held", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
