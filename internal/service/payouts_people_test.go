package service

import (
	"errors"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

var secondApprover = audit.Actor{Kind: "USER", ID: "usr_second"}

// setQuorum sets how many people have to approve what the organization pays.
func (h *payoutEnv) setQuorum(people int) {
	h.Helper()
	tamper(h, `UPDATE organization_settings SET approval_quorum = $2 WHERE org_id = $1`, h.org, people)
}

// A batch waits for all people whom the organization requires, and each of them counts once. Rule BP-6.
func TestABatchWaitsForEveryPersonWhomItNeeds(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.setQuorum(2)
	b := h.submitted()
	h.must(h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover))
	h.wantStatus(b.ID, payout.AwaitingApproval)
	_, err := h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover)
	h.wantCode("the same person again", err, fault.InvalidState)
	h.wantStatus(b.ID, payout.AwaitingApproval)
	h.must(h.Approve(t.Context(), h.org, b.ID, b.ContentHash, secondApprover))
	h.wantStatus(b.ID, payout.Processing)
	h.expand(b)
	for i, intent := range h.intents(b) {
		if len(intent.Grant.Approvals) != 2 || intent.Grant.Required != 2 {
			t.Errorf("row %d: got %d approvals and %d required, want 2", i+1, len(intent.Grant.Approvals),
				intent.Grant.Required)
		}
		if _, err := h.signer.AdmitIntent(t.Context(), intent); err != nil {
			t.Errorf("row %d: %v", i+1, err)
		}
	}
}

// Two people who approve at the same moment are two people: the batch does not wait for a third one. Rule BP-6.
func TestPeopleWhoApproveAtTheSameMomentAllCount(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.setQuorum(2)
	b := h.submitted()
	holder := pgtest.BeginOwner(t, h.DB)
	if _, err := holder.Exec(t.Context(), `SELECT FROM payout_batches FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i, person := range []audit.Actor{firstApprover, secondApprover} {
		all.Go(func() { _, errs[i] = h.Approve(t.Context(), h.org, b.ID, b.ContentHash, person) })
	}
	pgtest.Eventually(t, func() bool {
		var waiting int
		err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == len(errs)
	}, "both people wait for the batch")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	h.wantStatus(b.ID, payout.Processing)
}

// Two workers that give back the rows of a cancelled batch at the same moment do that once, and neither reports an
// error. Rules BP-12 and BP-70.
func TestWorkersThatGiveARowBackAtTheSameMomentAgree(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	holder := pgtest.BeginOwner(t, h.DB)
	if _, err := holder.Exec(t.Context(), `SELECT FROM payout_batches FOR UPDATE`); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	errs := make([]error, 2)
	for i := range errs {
		all.Go(func() { errs[i] = h.Expand(t.Context(), h.org, b.ID) })
	}
	pgtest.Eventually(t, func() bool {
		var waiting int
		err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting)
		return err == nil && waiting == len(errs)
	}, "both workers wait for the batch")
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	h.wantStatus(b.ID, payout.Cancelled)
	h.wantBalances("given back", "100000", "0", "0")
}

// Two rounds that claimed the same batches in another order waited for one another. Rule BP-70.
func TestARoundLeavesABatchThatAnotherProcessHolds(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	held, free := h.approved(), h.approved()
	holder := pgtest.BeginOwner(t, h.DB)
	if _, err := holder.Exec(t.Context(), `SELECT FROM payout_batches WHERE batch_id = $1 FOR UPDATE`,
		held.ID); err != nil {
		t.Fatal(err)
	}
	if err := h.WorkDue(t.Context()); err != nil {
		t.Errorf("a round beside another process: got %v", err)
	}
	if err := holder.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		batch payout.Batch
		want  int
	}{{held, 0}, {free, free.Header.Rows}} {
		var paid int
		err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(), `SELECT count(*) FROM withdrawals WHERE batch_id = $1`,
			c.batch.ID).Scan(&paid)
		if err != nil || paid != c.want {
			t.Errorf("batch %s: got %d withdrawals, %v, want %d", c.batch.ID, paid, err, c.want)
		}
	}
}
