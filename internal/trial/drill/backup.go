package drill

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

const notImported = "the database is older than the journal"

// before is what every backup of these drills has in it: two customers with money,
// one of it swept, a payment that is done and one that waits for a person.
func (h *house) before(ctx context.Context) (held *payment, err error) {
	err = h.steps(
		"customers pay in, one is paid out", func() error {
			return errors.Join(h.payIn(ctx, "ann", h.whole(5_000)), h.payIn(ctx, "bob", h.whole(300)), h.pay(ctx, "early", "ann", h.whole(100)))
		},
		"a payment waits for a person", func() (err error) {
			held, err = h.ask(ctx, "held", "bob", h.whole(20), true)
			return err
		},
		"nothing else is under way", func() error { return h.drained(ctx) },
	)
	return held, err
}

func (h *house) approve(ctx context.Context, p *payment) error {
	_, err := h.coffer(ctx, 0, "withdrawals", "approve", p.id, "--as", h.world.Info.Users[0].Email)
	return err
}

// lostHour is what happens after the backup.
func (h *house) lostHour(ctx context.Context, held *payment) error {
	return h.steps(
		"after it: deposits are credited, on a new customer's address and on the organization's own", func() error {
			return errors.Join(h.payIn(ctx, "ann", h.whole(700)), h.payIn(ctx, "cid", h.whole(4_000)), h.payIn(ctx, own, h.whole(60)))
		},
		"after it: payments are done, one of them approved, one with money that the backup lacks", func() error {
			return errors.Join(
				h.approve(ctx, held), h.reaches(ctx, held, "COMPLETED"),
				h.pay(ctx, "late", "ann", h.whole(5_200)), h.pay(ctx, "newcomer", "cid", h.whole(1_000)))
		},
		"after it: a payment is in the pool and a deposit in sight when everything stops", func() error {
			h.mining.Store(false)
			flying, err := h.ask(ctx, "flying", "bob", h.whole(150), false)
			if err != nil {
				return err
			}
			if err := h.reaches(ctx, flying, "BROADCAST"); err != nil {
				return err
			}
			d, err := h.sent(ctx, "bob", h.whole(40))
			if err != nil {
				return err
			}
			if err := h.net.mine(ctx); err != nil {
				return err
			}
			return h.stands(ctx, d, "CONFIRMING")
		},
	)
}

// imported brings the database up to the journal with the command.
func (h *house) imported(ctx context.Context) error {
	if _, err := h.coffer(ctx, 0, "migrate"); err != nil {
		return err
	}
	rehearsed, err := h.coffer(ctx, 1, "signer", "import")
	if err != nil {
		return err
	}
	for _, p := range h.payments {
		if p.key == "late" && !strings.Contains(rehearsed, p.id) {
			return fmt.Errorf("coffer signer import does not name %s:\n%s", p.id, rehearsed)
		}
	}
	if err := h.refused(ctx, notImported); err != nil {
		return fmt.Errorf("after a rehearsal: %w", err)
	}
	if _, err = h.coffer(ctx, 0, "signer", "import", "--yes"); err != nil {
		return err
	}
	// The audit log is as old as the backup, and the signer has signed more of it.
	_, err = h.coffer(ctx, 0, "audit", "restart", "--because", "the drill restored a backup", "--yes")
	return err
}

// oldBackup plays the restore of an older backup, an hour of payments after it.
func oldBackup(ctx context.Context, h *house, k keeper) error {
	backup := filepath.Join(h.dir, "backup")
	held, err := h.before(ctx)
	if err != nil {
		return err
	}
	if err := h.step("PostgreSQL is backed up", func() error { return k.backup(ctx, h, backup) }); err != nil {
		return err
	}
	if err := h.lostHour(ctx, held); err != nil {
		return err
	}
	var cid string
	var audited, lastNumber int64
	err = h.steps(
		"what the lost database knew is noted", func() (err error) {
			if cid, err = h.address(ctx, "cid"); err != nil {
				return err
			}
			return h.query(ctx, `SELECT (SELECT count(*) FROM audit_log), (SELECT max(sequence) FROM events)`, nil, &audited, &lastNumber)
		},
		"the service is stopped", h.world.End,
		"the backup is restored", func() error { return h.goBack(ctx, k, backup) },
		"the service refuses to start and the API stays closed", func() error { return h.refused(ctx, notImported) },
		"coffer signer import says what it would do, then does it", func() error { return h.imported(ctx) },
		"the service starts", func() error { return h.world.Restart(ctx) },
		"every key of the lost hour leads to its payment", func() error { return h.replayed(ctx) },
		"no address is handed to another customer", func() error {
			again, err := h.address(ctx, "cid")
			if err != nil {
				return err
			}
			dan, err := h.address(ctx, "dan")
			if err != nil {
				return err
			}
			if again != cid || dan == cid {
				return fmt.Errorf("cid's address was %s and is %s, dan's is %s", cid, again, dan)
			}
			return nil
		},
		"blocks go on: every payment of the lost hour comes to its end", func() error {
			h.mining.Store(true)
			return h.finished(ctx)
		},
		"every deposit is found again and credited once, under its id", func() error { return h.known(ctx) },
		"books, chain, oracle and integrator agree", func() error { return h.sound(ctx) },
		"event numbers go on past the lost ones", func() error {
			var first int64
			err := h.query(ctx, `SELECT min(sequence) FROM events WHERE sequence > (SELECT max(after) FROM event_gaps)`, nil, &first)
			if err == nil && first <= lastNumber {
				err = fmt.Errorf("they go on at %d, and %d was given", first, lastNumber)
			}
			return err
		},
		"the service goes on: old and new customers pay in and are paid", func() error {
			return errors.Join(
				h.payIn(ctx, "dan", h.whole(900)), h.payIn(ctx, "cid", h.whole(10)),
				h.pay(ctx, "after", "dan", h.whole(350)), h.pay(ctx, "after-too", "cid", h.whole(3_000)))
		},
		"books, chain, oracle and integrator still agree", func() error { return h.sound(ctx) },
	)
	return err
}
