package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/crash"
	"github.com/cofferpay/coffer/internal/freeze"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
)

const (
	voidEvery = 2 * time.Second
	voidMax   = 10 * time.Second // one call of the signer
	voidLook  = 100 * time.Millisecond
	voidBatch = 200
)

// ErrVoidOpen says that the signer has not journaled yet that an order is void. The order
// has no way to a slot any more; whoever runs the Voider asks again until it has.
var ErrVoidOpen = errors.New("the signer has not written down yet that the payment was taken back")

// VoidListener is a feature whose orders have grants.
type VoidListener interface {
	// Voided tells, in the transaction that keeps the signer's entry, that an order which was
	// withdrawn is never paid: what was held for it may be given back.
	Voided(ctx context.Context, tx pg.Tx, orgID, orderID string) error
}

// Voider has the signer journal that a payment or return which was withdrawn is void, and
// tells its feature. It is the only way from WITHDRAWN to money that is given back. What a
// crash leaves is a row without its entry, which Run finishes. Safe for concurrent use, also
// by several processes.
type Voider struct {
	DB        *pg.DB
	Signer    signer.Signer
	Grants    *signer.GrantKey // nil where the signer asks for none
	Listeners map[signer.Purpose]VoidListener
	// Wait is how long Finish waits for another process to do it where the signer cannot be
	// asked from here; 0 where it can.
	Wait time.Duration
	Log  *slog.Logger
}

// void remembers, in the transaction that withdraws an order, that the signer has to be told.
func void(ctx context.Context, tx pg.Tx, orderID string) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO dispatch_voids (order_id, org_id, asked_at)
		SELECT order_id, org_id, $2 FROM dispatch_orders WHERE order_id = $1 AND status = 'WITHDRAWN' AND purpose IN ('PAYMENT', 'RETURN')`, orderID, tx.Now)
	if err != nil {
		return fmt.Errorf("have order %s voided: %w", orderID, err)
	}
	return nil
}

// Void is how the authority of an order stands.
type Void string

// How it stands.
const (
	NotOrdered Void = "NOT_ORDERED" // there is no order, so there never was a grant
	NotVoided  Void = "NOT_VOIDED"  // the signer has not journaled that it is void
	Voided     Void = "VOIDED"
)

// VoidOf tells how the authority of an order stands.
func VoidOf(ctx context.Context, tx pg.Tx, orderID string) (v Void, err error) {
	err = tx.QueryRow(ctx, `
		SELECT CASE WHEN EXISTS (SELECT FROM dispatch_voids WHERE order_id = $1 AND journal_seq IS NOT NULL) THEN 'VOIDED'
			WHEN EXISTS (SELECT FROM dispatch_orders WHERE order_id = $1) THEN 'NOT_VOIDED' ELSE 'NOT_ORDERED' END`, orderID).Scan(&v)
	if err != nil {
		return v, fmt.Errorf("whether order %s is void: %w", orderID, err)
	}
	return v, nil
}

// Finish has the signer void an order that was withdrawn, and tells its feature. Again it
// changes nothing. Error: ErrVoidOpen when the signer has not answered; then the order stays
// withdrawn, nothing is given back, and Run asks again. After any other error it may have been
// given back: the database did not answer, and Run does the rest.
func (v *Voider) Finish(ctx context.Context, orderID string) error {
	err := v.finish(ctx, orderID)
	if err == nil || v.Wait == 0 {
		return err
	}
	patient, cancel := context.WithTimeout(ctx, v.Wait)
	defer cancel()
	for patient.Err() == nil {
		sleep(patient, voidLook)
		done := Void("")
		if v.DB.ReadSystem(patient, func(ctx context.Context, tx pg.Tx) (err error) {
			done, err = VoidOf(ctx, tx, orderID)
			return err
		}) == nil && done == Voided {
			return nil
		}
	}
	return err
}

func (v *Voider) finish(ctx context.Context, orderID string) error {
	var orgID string
	var purpose signer.Purpose
	var done bool
	err := v.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT v.org_id, o.purpose, v.journal_seq IS NOT NULL FROM dispatch_voids v JOIN dispatch_orders o USING (order_id) WHERE order_id = $1`, orderID).
			Scan(&orgID, &purpose, &done)
	})
	if err != nil {
		return fmt.Errorf("read what of order %s is to be voided: %w", orderID, err)
	}
	if done {
		return nil
	}
	patient, cancel := context.WithTimeout(ctx, voidMax)
	defer cancel()
	entry, err := v.Signer.Void(patient, v.Grants.Void(orgID, orderID))
	if err != nil {
		return v.unanswered(ctx, orderID, err)
	}
	crash.Point("V04")
	err = v.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		// The order's lock comes first, as whenever it ends.
		if _, err := lockOrder(ctx, tx, orderID); err != nil {
			return err
		}
		if err := mirror.Record(ctx, tx, entry); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `UPDATE dispatch_voids SET journal_id = $2, journal_seq = $3, voided_at = $4 WHERE order_id = $1 AND journal_seq IS NULL`,
			orderID, entry.JournalID, int64(entry.Seq), tx.Now)
		if err != nil {
			return fmt.Errorf("keep that order %s is void: %w", orderID, err)
		}
		if tag.RowsAffected() == 0 {
			return nil // another process was here first
		}
		if err := v.Listeners[purpose].Voided(ctx, tx, orgID, orderID); err != nil {
			return err
		}
		crash.Committing("V05")
		return nil
	})
	if err != nil {
		return err
	}
	crash.Point("V05")
	return nil
}

// unanswered says why an order is not void yet. A signer that knows a slot of it, or another
// owner, contradicts the database: everything is stopped.
func (v *Voider) unanswered(ctx context.Context, orderID string, err error) error {
	var no *signer.Refusal
	if !errors.As(err, &no) {
		return fmt.Errorf("%w: order %s: %w", ErrVoidOpen, orderID, err)
	}
	v.Log.ErrorContext(ctx, "the signer refuses to void an order that was taken back; what was held for it stays held", "order", orderID, "code", no.Code, "why", no.Message)
	if no.Code == signer.RefusedSlot || no.Code == signer.RefusedIntent || no.Code == signer.RefusedVoid {
		put := v.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return freeze.Put(ctx, tx, freeze.Freeze{Scope: freeze.All, Source: freeze.BySigner, Reason: no.Message})
		})
		if put != nil {
			err = errors.Join(err, fmt.Errorf("freeze everything: %w", put))
		}
	}
	return fmt.Errorf("%w: order %s: %w", ErrVoidOpen, orderID, err)
}

// Pass finishes what was cut off or what the signer had no answer to.
func (v *Voider) Pass(ctx context.Context) error {
	var failed error
	for after := ""; ; {
		var open []string
		err := v.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(ctx, `SELECT order_id FROM dispatch_voids WHERE journal_seq IS NULL AND order_id > $1 ORDER BY order_id LIMIT $2`, after, voidBatch)
			if err != nil {
				return err
			}
			open, err = pgx.CollectRows(rows, pgx.RowTo[string])
			return err
		})
		if err != nil {
			return fmt.Errorf("read which orders are to be voided: %w", err)
		}
		for _, orderID := range open {
			after = orderID
			failed = errors.Join(failed, v.finish(ctx, orderID))
		}
		if len(open) < voidBatch || ctx.Err() != nil {
			return failed
		}
	}
}

// Run finishes until ctx ends; it returns nil. Any number of processes may run it.
func (v *Voider) Run(ctx context.Context) error {
	tick := time.NewTicker(voidEvery)
	defer tick.Stop()
	for {
		if err := v.Pass(ctx); err != nil && ctx.Err() == nil {
			v.Log.Warn("payments that were taken back are not void yet; what was held for them stays held", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
