package drill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const notImported = "the database is older than the journal"

// setUpMoney makes what every backup of these drills contains: two customers with money, a sweep, a
// completed payment and one that waits for a person.
func (h *drillEnv) setUpMoney(ctx context.Context) (held *payment, err error) {
	err = h.playSteps(
		"customers pay in, one is paid out", func() error {
			return errors.Join(
				h.payIn(ctx, "ann", h.wholeUnits(5_000)), h.payIn(ctx, "bob", h.wholeUnits(300)),
				h.payAndWait(ctx, "early", "ann", h.wholeUnits(100)),
			)
		},
		"a payment waits for a person", func() (err error) {
			held, err = h.requestPayment(ctx, "held", "bob", h.wholeUnits(20), true)
			return err
		},
		"nothing else is under way", func() error { return h.waitDrained(ctx) },
	)
	return held, err
}

func (h *drillEnv) approvePayment(ctx context.Context, p *payment) error {
	_, err := h.runCoffer(ctx, 0, "withdrawals", "approve", p.id, "--as", h.world.Info.Users[0].Email)
	return err
}

// lostHour plays the payments that happen after the backup.
func (h *drillEnv) lostHour(ctx context.Context, held *payment) error {
	return h.playSteps(
		"after it: deposits are credited, on a new customer's address and on the organization's own", func() error {
			return errors.Join(
				h.payIn(ctx, "ann", h.wholeUnits(700)), h.payIn(ctx, "cid", h.wholeUnits(4_000)),
				h.payIn(ctx, orgProduct, h.wholeUnits(60)),
			)
		},
		"after it: payments are done, one of them approved, one with money that the backup lacks", func() error {
			return errors.Join(
				h.approvePayment(ctx, held), h.waitPaymentStatus(ctx, held, "COMPLETED"),
				h.payAndWait(ctx, "late", "ann", h.wholeUnits(5_200)),
				h.payAndWait(ctx, "newcomer", "cid", h.wholeUnits(1_000)))
		},
		"after it: a payment is in the pool and a deposit in sight when everything stops", func() error {
			h.mining.Store(false)
			flying, err := h.requestPayment(ctx, "flying", "bob", h.wholeUnits(150), false)
			if err != nil {
				return err
			}
			if err := h.waitPaymentStatus(ctx, flying, "BROADCAST"); err != nil {
				return err
			}
			d, err := h.sendDeposit(ctx, "bob", h.wholeUnits(40))
			if err != nil {
				return err
			}
			if err := h.net.mineBlock(ctx); err != nil {
				return err
			}
			return h.waitDepositStatus(ctx, d, "CONFIRMING")
		},
	)
}

// importJournal brings the database up to the journal with the command.
func (h *drillEnv) importJournal(ctx context.Context) error {
	if _, err := h.runCoffer(ctx, 0, "migrate"); err != nil {
		return err
	}
	rehearsed, err := h.runCoffer(ctx, 1, "signer", "import")
	if err != nil {
		return err
	}
	for _, p := range h.payments {
		if p.key == "late" && !strings.Contains(rehearsed, p.id) {
			return fmt.Errorf("coffer signer import does not name %s:\n%s", p.id, rehearsed)
		}
	}
	if err := h.checkStartRefused(ctx, notImported); err != nil {
		return fmt.Errorf("after a rehearsal: %w", err)
	}
	if _, err = h.runCoffer(ctx, 0, "signer", "import", "--yes"); err != nil {
		return err
	}
	// The audit log is as old as the backup, and the signer has signed more of it.
	_, err = h.runCoffer(ctx, 0, "audit", "restart", "--because", "the drill restored a backup", "--yes")
	return err
}

// playOldBackup plays the restore of an older backup, an hour of payments after it.
func playOldBackup(ctx context.Context, h *drillEnv, k backupMethod) error {
	backup := filepath.Join(h.dir, "backup")
	held, err := h.setUpMoney(ctx)
	if err != nil {
		return err
	}
	if err := h.playStep(
		"PostgreSQL is backed up", func() error { return k.backUpCluster(ctx, h, backup) },
	); err != nil {
		return err
	}
	if err := h.lostHour(ctx, held); err != nil {
		return err
	}
	var cid string
	var audited, lastNumber int64
	err = h.playSteps(
		"what the lost database knew is noted", func() (err error) {
			if cid, err = h.depositAddress(ctx, "cid"); err != nil {
				return err
			}
			return h.queryRow(
				ctx, `SELECT (SELECT count(*) FROM audit_log), (SELECT max(sequence) FROM events)`, nil, &audited,
				&lastNumber,
			)
		},
		"the service is stopped", h.world.StopService,
		"the backup is restored", func() error { return h.restoreBackup(ctx, k, backup) },
		"the service refuses to start and the API stays closed",
		func() error { return h.checkStartRefused(ctx, notImported) },
		"coffer signer import says what it would do, then does it", func() error { return h.importJournal(ctx) },
		"the service starts", func() error { return h.world.RestartService(ctx) },
		"every key of the lost hour leads to its payment", func() error { return h.replayPayments(ctx) },
		"no address is handed to another customer", func() error {
			repeated, err := h.depositAddress(ctx, "cid")
			if err != nil {
				return err
			}
			dan, err := h.depositAddress(ctx, "dan")
			if err != nil {
				return err
			}
			if repeated != cid || dan == cid {
				return fmt.Errorf("cid's address was %s and is %s, dan's is %s", cid, repeated, dan)
			}
			return nil
		},
		"blocks go on: every payment of the lost hour comes to its end", func() error {
			h.mining.Store(true)
			return h.waitPaymentsDone(ctx)
		},
		"every deposit is found again and credited once, under its id",
		func() error { return h.waitDepositsCredited(ctx) },
		"books, chain, oracle and integrator agree", func() error { return h.checkEverything(ctx) },
		"event numbers go on past the lost ones", func() error {
			var first int64
			err := h.queryRow(
				ctx, `SELECT min(sequence) FROM events WHERE sequence > (SELECT max(after) FROM event_gaps)`, nil,
				&first,
			)
			if err == nil && first <= lastNumber {
				err = fmt.Errorf("they go on at %d, and %d was given", first, lastNumber)
			}
			return err
		},
		"the service goes on: old and new customers pay in and are paid", func() error {
			return errors.Join(
				h.payIn(ctx, "dan", h.wholeUnits(900)), h.payIn(ctx, "cid", h.wholeUnits(10)),
				h.payAndWait(ctx, "after", "dan", h.wholeUnits(350)),
				h.payAndWait(ctx, "after-too", "cid", h.wholeUnits(3_000)))
		},
		"books, chain, oracle and integrator still agree", func() error { return h.checkEverything(ctx) },
	)
	return err
}
