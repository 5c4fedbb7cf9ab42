package drill

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/identity"
)

// batchProduct is the product whose balance pays batches.
const batchProduct = "BATCH_PAYOUT"

// batch is a batch payout whose payees receive nothing else.
type batch struct {
	key, id, hash string
	rows          []*payment // under the row's position, from 0
	file          string
}

// aliveRows is how many rows of the first batch need no person. The others look like an address that was paid before.
const aliveRows = 3

// newBatch writes the list of a batch. alike is an address that the rows behind aliveRows look like.
func (h *drillEnv) newBatch(key string, rows int, alike string) (*batch, error) {
	b := &batch{key: key, file: filepath.Join(h.dir, key+".csv")}
	list := "reference,mintId,toAddress,amount\n"
	for n := range rows {
		p := &payment{
			key: fmt.Sprintf("row %d of %s", n+1, key), customer: batchProduct, units: h.wholeUnits(int64(20 + n)),
			recipient: h.net.unusedAddress(fmt.Appendf(nil, "%s%s row %d", h.dir, key, n)), held: n >= aliveRows,
		}
		if p.held {
			address := common.HexToAddress(alike)
			address[9] ^= byte(n + 1)
			p.recipient = address.Hex()
		}
		b.rows = append(b.rows, p)
		list += fmt.Sprintf("%s %d,%d,%s,%s\n", key, n+1, h.mint.ID, p.recipient, p.units)
	}
	h.payments = append(h.payments, b.rows...)
	return b, os.WriteFile(b.file, []byte(list), 0o600)
}

// person returns the email of the first person of the world with a role.
func (h *drillEnv) person(role identity.Role) string {
	for _, u := range h.world.Info.Users {
		if slices.Contains(u.Roles, string(role)) {
			return u.Email
		}
	}
	return ""
}

// submitBatch makes a batch with its key and submits it. Every row is compared that looks like another address.
func (h *drillEnv) submitBatch(ctx context.Context, b *batch) error {
	owner := h.person(identity.Owner)
	if _, err := h.runCoffer(ctx, 0, "payouts", "create", "--as", owner, "--key", b.key, b.file); err != nil {
		return err
	}
	former := b.id
	if err := h.loadBatch(ctx, b); err != nil {
		return err
	}
	if former != "" && former != b.id {
		return fmt.Errorf("key %s led to %s, and leads to %s now", b.key, former, b.id)
	}
	args := []string{"payouts", "submit", "--as", owner, "--hash", b.hash, b.id}
	for n, p := range b.rows {
		if p.held {
			args = append(args, "--tick", strconv.Itoa(n+1))
		}
	}
	_, err := h.runCoffer(ctx, 0, args...)
	return err
}

// approveBatch waits until a batch waits for approval, and approves it as another person than its maker.
func (h *drillEnv) approveBatch(ctx context.Context, b *batch) error {
	if err := h.waitBatch(ctx, b, "AWAITING_APPROVAL"); err != nil {
		return err
	}
	_, err := h.runCoffer(ctx, 0, "payouts", "approve", "--as", h.person(identity.Approver), "--hash", b.hash, b.id)
	return err
}

func (h *drillEnv) loadBatch(ctx context.Context, b *batch) error {
	return h.queryRow(ctx, `SELECT batch_id, 'sha256:' || encode(content_hash, 'hex') FROM payout_batches
		WHERE idempotency_key = $1`, []any{b.key}, &b.id, &b.hash)
}

// waitBatch waits until a batch has a status.
func (h *drillEnv) waitBatch(ctx context.Context, b *batch, status string) error {
	return retryUntilDone(ctx, b.key+" is "+status, func(ctx context.Context) error {
		var got, reason string
		err := h.queryRow(ctx, `
			SELECT status, coalesce(problem, pause_reason, '') || coalesce((SELECT ' ' || string_agg(row_no || ' ' ||
				coalesce(refused, waits_for), ' ') FROM payout_items i WHERE i.batch_id = b.batch_id), '')
			FROM payout_batches b WHERE batch_id = $1`, []any{b.id}, &got, &reason)
		if err == nil && got != status {
			err = fmt.Errorf("it is %s: %s", got, reason)
		}
		return err
	})
}

// waitRow waits until the withdrawal of a row has a status. Its id is that of the row from then on.
func (h *drillEnv) waitRow(ctx context.Context, b *batch, n int, status string) error {
	p := b.rows[n]
	return retryUntilDone(ctx, p.key+" is "+status, func(ctx context.Context) error {
		var id, got, tx string
		err := h.queryRow(ctx, `
			SELECT withdrawal_id, status, coalesce(tx_hash, '') FROM withdrawals
			WHERE batch_id = $1 AND batch_row = $2`, []any{b.id, n + 1}, &id, &got, &tx)
		switch {
		case err != nil:
			return err
		case p.id != "" && p.id != id:
			return fmt.Errorf("the withdrawal of %s was %s and is %s", p.key, p.id, id)
		case got != status:
			return fmt.Errorf("it is %s", got)
		}
		p.id, p.tx, p.completed = id, tx, status == "COMPLETED"
		return nil
	})
}

// approveRow approves the withdrawal of a row that waits for a person.
func (h *drillEnv) approveRow(ctx context.Context, b *batch, n int) error {
	if err := h.waitRow(ctx, b, n, "AWAITING_APPROVAL"); err != nil {
		return err
	}
	return h.approvePayment(ctx, b.rows[n])
}

// checkRestoredBatch checks what the import of the journal made of a batch: it is paused, the payments that the
// backup lacks have the ids of their rows, and no other row has a withdrawal.
func (h *drillEnv) checkRestoredBatch(ctx context.Context, b *batch, restored int) error {
	var status, reason, ids string
	var isPaused bool
	err := h.queryRow(ctx, `
		SELECT status, paused_at IS NOT NULL, coalesce(pause_reason, ''), (
			SELECT coalesce(string_agg(withdrawal_id, ' ' ORDER BY batch_row), '') FROM withdrawals w
			WHERE w.batch_id = b.batch_id)
		FROM payout_batches b WHERE batch_id = $1`, []any{b.id}, &status, &isPaused, &reason, &ids)
	if err != nil {
		return err
	}
	want := make([]string, 0, restored)
	for _, p := range b.rows[:restored] {
		want = append(want, p.id)
	}
	if status != "PROCESSING" || !isPaused || !strings.Contains(reason, "restored") ||
		ids != strings.Join(want, " ") {
		return fmt.Errorf("%s is %s, paused %v because of %q, with the payments %s, want it paused with %s", b.key,
			status, isPaused, reason, ids, want)
	}
	return nil
}

// checkBatches compares books, balance and chain with what batches were paid, when nothing is under way.
func (h *drillEnv) checkBatches(ctx context.Context) error {
	if err := h.waitDrained(ctx); err != nil {
		return err
	}
	_, verified := h.runCoffer(ctx, 0, "verify")
	return errors.Join(verified, h.checkBalances(ctx), h.checkOracle(ctx))
}

// liftFreeze lifts the one freeze.
func (h *drillEnv) liftFreeze(ctx context.Context) error {
	var id string
	err := h.queryRow(ctx, `SELECT freeze_id FROM freezes WHERE lifted_at IS NULL`, nil, &id)
	if err == nil {
		_, err = h.runCoffer(ctx, 0, "freezes", "lift", id)
	}
	return err
}

// playPayouts plays the restore of a backup that was made before the first row of a batch was paid. Half of the rows
// are paid when everything stops, and another batch has come and gone.
func playPayouts(ctx context.Context, h *drillEnv) error {
	backup := filepath.Join(h.dir, "backup")
	var half, lost *batch
	return h.playSteps(
		"a customer is paid, and the organization pays in for batches", func() error {
			return errors.Join(
				h.payIn(ctx, "ann", h.wholeUnits(5_000)), h.payAndWait(ctx, "early", "ann", h.wholeUnits(100)),
				h.payIn(ctx, batchProduct, h.wholeUnits(1_000)), h.waitDrained(ctx),
			)
		},
		"a batch is submitted, and approved while its organization is frozen", func() (err error) {
			if half, err = h.newBatch("half", 2*aliveRows, h.payments[0].recipient); err != nil {
				return err
			}
			if err := errors.Join(h.submitBatch(ctx, half), h.waitBatch(ctx, half, "AWAITING_APPROVAL")); err != nil {
				return err
			}
			_, err = h.runCoffer(ctx, 0, "freezes", "put", "--org", h.world.Info.OrganizationID, "--because",
				"the drill holds the batch up")
			return errors.Join(err, h.approveBatch(ctx, half), h.waitBatch(ctx, half, "PROCESSING"))
		},
		"PostgreSQL is backed up", func() error { return (baseBackup{}).backUpCluster(ctx, h, backup) },
		"after it: the freeze is lifted, and the rows that need no person are paid", func() error {
			if err := h.liftFreeze(ctx); err != nil {
				return err
			}
			for n := range aliveRows {
				if err := h.waitRow(ctx, half, n, "COMPLETED"); err != nil {
					return err
				}
			}
			return nil
		},
		"after it: another batch is made and paid", func() (err error) {
			if lost, err = h.newBatch("lost", 1, ""); err != nil {
				return err
			}
			if err := errors.Join(h.submitBatch(ctx, lost), h.approveBatch(ctx, lost)); err != nil {
				return err
			}
			return errors.Join(h.waitBatch(ctx, lost, "COMPLETED"), h.waitRow(ctx, lost, 0, "COMPLETED"))
		},
		"after it: a row that a person let go is in the pool when everything stops", func() error {
			h.mining.Store(false)
			return errors.Join(h.approveRow(ctx, half, aliveRows), h.waitRow(ctx, half, aliveRows, "BROADCAST"))
		},
		"the service is stopped, the backup restored, the journal imported", func() error {
			if err := h.world.StopService(); err != nil {
				return fmt.Errorf("end the service: %w", err)
			}
			return errors.Join(
				h.restoreBackup(ctx, baseBackup{}, backup), h.checkStartRefused(ctx, notImported), h.importJournal(ctx),
			)
		},
		"the payments that the backup lacks are those of their rows, and the batch is paused",
		func() error { return h.checkRestoredBatch(ctx, half, aliveRows+1) },
		"the service starts, and the freeze of the backup is lifted",
		func() error { return errors.Join(h.world.RestartService(ctx), h.liftFreeze(ctx)) },
		"blocks go on: the payments of the lost hour come to their end, and no other row is paid", func() error {
			h.mining.Store(true)
			for n := range aliveRows + 1 {
				if err := h.waitRow(ctx, half, n, "COMPLETED"); err != nil {
					return err
				}
			}
			return errors.Join(h.checkRestoredBatch(ctx, half, aliveRows+1), h.checkBatches(ctx))
		},
		"a person resumes the batch, and the other rows are let go and paid", func() error {
			_, err := h.runCoffer(ctx, 0, "payouts", "resume", "--as", h.person(identity.Owner), half.id)
			for n := aliveRows + 1; err == nil && n < len(half.rows); n++ {
				err = errors.Join(h.approveRow(ctx, half, n), h.waitRow(ctx, half, n, "COMPLETED"))
			}
			return errors.Join(err, h.waitBatch(ctx, half, "COMPLETED"))
		},
		"the batch that the backup lacks is made again with its key, and pays nothing again", func() error {
			return errors.Join(
				h.submitBatch(ctx, lost), h.approveBatch(ctx, lost), h.waitBatch(ctx, lost, "FAILED"),
			)
		},
		"books and chain agree: every payee was paid once", func() error { return h.checkBatches(ctx) },
	)
}
