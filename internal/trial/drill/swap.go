package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
)

// swapped restores an older backup while the service runs, which the runbook
// forbids: the service has to notice, and nothing may be paid twice until it does.
func swapped(ctx context.Context, h *house) error {
	backup := filepath.Join(h.dir, "backup")
	held, err := h.before(ctx)
	if err != nil {
		return err
	}
	if err := h.step("PostgreSQL is backed up", func() error { return (baseBackup{}).backup(ctx, h, backup) }); err != nil {
		return err
	}
	if err := h.lostHour(ctx, held); err != nil {
		return err
	}
	return h.steps(
		"the backup is restored under the running service", func() error { return h.goBack(ctx, baseBackup{}, backup) },
		"callers send everything again, until the service has stopped by itself", func() error {
			h.mining.Store(true)
			return h.hammered(ctx)
		},
		"nothing was paid twice", func() error { return h.onceAtMost(ctx) },
		"the service is stopped, the backup restored again, the journal imported", func() error {
			if err := h.world.End(); err != nil {
				return fmt.Errorf("end the service: %w", err)
			}
			return errors.Join(h.goBack(ctx, baseBackup{}, backup), h.refused(ctx, notImported), h.imported(ctx))
		},
		"the service starts", func() error { return h.world.Restart(ctx) },
		"every key leads to its payment", func() error { return h.replayed(ctx) },
		"every payment and deposit comes to its end", func() error { return errors.Join(h.finished(ctx), h.known(ctx)) },
		"books, chain, oracle and integrator agree", func() error { return h.sound(ctx) },
		"the service goes on", func() error {
			return errors.Join(h.payIn(ctx, "dan", h.whole(900)), h.pay(ctx, "after", "dan", h.whole(350)), h.sound(ctx))
		},
	)
}

// hammered sends every payment of the lost hour again, as callers do who got no
// answer, until the service has stopped. The database does not know them, so it may
// take each as a new one; what counts is what the chain shows.
func (h *house) hammered(ctx context.Context) error {
	return until(ctx, "the service stops", func(ctx context.Context) error {
		for _, p := range h.payments {
			_, _ = h.try(ctx, http.MethodPost, "/withdraw", p.body(h), nil)
		}
		return h.halted(ctx)
	})
}

// halted tells whether the service has ended, or has frozen everything.
func (h *house) halted(ctx context.Context) error {
	var n int
	if err := h.query(ctx, `SELECT count(*) FROM freezes WHERE scope = 'ALL' AND lifted_at IS NULL`, nil, &n); err != nil {
		return err
	}
	if n == 0 && h.closed(ctx) != nil {
		return errors.New("the service runs, and nothing is frozen")
	}
	return nil
}

// onceAtMost is the oracle's look at a chain whose books are in no state to be asked.
func (h *house) onceAtMost(ctx context.Context) error {
	if _, err := h.oracle.Walk(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range h.payments {
		got := h.oracle.Received(h.asset(), lower(p.to))
		if len(got) > 1 || len(got) == 1 && got[0].Amount.Cmp(p.units) != 0 {
			errs = append(errs, fmt.Errorf("%s was paid %v, want %s once at most", p.key, got, p.units))
		}
	}
	return errors.Join(errs...)
}
