package drill

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
)

// playSwap restores an older backup while the service runs, which the runbook forbids. The service
// has to notice, and must pay nothing twice until it does.
func playSwap(ctx context.Context, h *drillEnv) error {
	backup := filepath.Join(h.dir, "backup")
	held, err := h.setUpMoney(ctx)
	if err != nil {
		return err
	}
	if err := h.playStep(
		"PostgreSQL is backed up", func() error { return (baseBackup{}).backUpCluster(ctx, h, backup) },
	); err != nil {
		return err
	}
	if err := h.lostHour(ctx, held); err != nil {
		return err
	}
	return h.playSteps(
		"the backup is restored under the running service",
		func() error { return h.restoreBackup(ctx, baseBackup{}, backup) },
		"callers send everything again, until the service has stopped by itself", func() error {
			h.mining.Store(true)
			return h.resendUntilStopped(ctx)
		},
		"nothing was paid twice", func() error { return h.checkPaidOnce(ctx) },
		"the service is stopped, the backup restored again, the journal imported", func() error {
			if err := h.world.StopService(); err != nil {
				return fmt.Errorf("end the service: %w", err)
			}
			return errors.Join(
				h.restoreBackup(ctx, baseBackup{}, backup), h.checkStartRefused(ctx, notImported), h.importJournal(ctx),
			)
		},
		"the service starts", func() error { return h.world.RestartService(ctx) },
		"every key leads to its payment", func() error { return h.replayPayments(ctx) },
		"every payment and deposit comes to its end",
		func() error { return errors.Join(h.waitPaymentsDone(ctx), h.waitDepositsCredited(ctx)) },
		"books, chain, oracle and integrator agree", func() error { return h.checkEverything(ctx) },
		"the service goes on", func() error {
			return errors.Join(
				h.payIn(ctx, "dan", h.wholeUnits(900)), h.payAndWait(ctx, "after", "dan", h.wholeUnits(350)),
				h.checkEverything(ctx),
			)
		},
	)
}

// resendUntilStopped repeats every payment of the lost hour, as callers without an answer do, until
// the service has stopped. The database does not know them, so it may accept each as new; the chain
// decides whether the drill passes.
func (h *drillEnv) resendUntilStopped(ctx context.Context) error {
	return retryUntilDone(ctx, "the service stops", func(ctx context.Context) error {
		for _, p := range h.payments {
			_, _ = h.callOnce(ctx, http.MethodPost, "/withdraw", p.requestBody(h), nil)
		}
		return h.checkHalted(ctx)
	})
}

// checkHalted checks that the service has ended, or has frozen everything.
func (h *drillEnv) checkHalted(ctx context.Context) error {
	var n int
	if err := h.queryRow(
		ctx, `SELECT count(*) FROM freezes WHERE scope = 'ALL' AND lifted_at IS NULL`, nil, &n,
	); err != nil {
		return err
	}
	if n == 0 && h.checkClosed(ctx) != nil {
		return errors.New("the service runs, and nothing is frozen")
	}
	return nil
}

// checkPaidOnce asks the oracle about a chain while the books cannot be read.
func (h *drillEnv) checkPaidOnce(ctx context.Context) error {
	if _, err := h.oracle.Walk(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range h.payments {
		got := h.oracle.ReceivedBy(h.assetID(), toLower(p.recipient))
		if len(got) > 1 || len(got) == 1 && got[0].Amount.Cmp(p.units) != 0 {
			errs = append(errs, fmt.Errorf("%s was paid %v, want %s once at most", p.key, got, p.units))
		}
	}
	return errors.Join(errs...)
}
