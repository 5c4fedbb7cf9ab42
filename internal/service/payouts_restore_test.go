package service_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/transfer"
)

const restoredRows = 6

// approvedBatch makes a batch of rows to as many payees, which people have approved, and returns its id.
func (s *restoredService) approvedBatch() string {
	s.Helper()
	product, payer := "BATCH_PAYOUT", "ann"
	_, err := s.Transfers.Request(s.ctx, s.org, transfer.Request{
		MintID: 1, Amount: "70000000", From: transfer.Party{CustomerID: &payer}, To: transfer.Party{Product: &product},
		IdempotencyKey: "batch", Actor: audit.APIKey(s.org),
	})
	s.must(err)
	var rows []string
	for n := range restoredRows {
		rows = append(rows, fmt.Sprintf(`{"mintId":1,"toAddress":%q,"amount":"1000000%d"}`, rowPayee(n), n))
	}
	lines, err := rowfile.ReadJSON([]byte("[" + strings.Join(rows, ",") + "]"))
	s.must(err)
	maker := audit.User("usr_maker")
	b, err := s.Payouts.Create(s.ctx, s.org, payout.CreateRequest{Lines: lines, Actor: maker})
	s.must(err)
	_, err = s.Payouts.Submit(s.ctx, s.org, b.ID, payout.SubmitRequest{ContentHash: b.ContentHash, Actor: maker})
	s.must(err)
	s.must(s.Payouts.Validate(s.ctx, s.org, b.ID))
	_, err = s.Payouts.Approve(s.ctx, s.org, b.ID, b.ContentHash, audit.User("usr_approver"))
	s.must(err)
	return b.ID
}

func rowPayee(n int) string { return string(sim.Address(fmt.Sprint("payee of row ", n))) }

// paidRows returns how often each payee of the batch was paid, by the withdrawals that the database has.
func (s *restoredService) paidRows(batchID string) (paid, open int) {
	s.Helper()
	items, err := s.Payouts.Items(s.ctx, s.org, batchID)
	s.must(err)
	for _, i := range items {
		switch i.WithdrawalStatus {
		case "COMPLETED":
			paid++
		case "":
			open++
		}
		if i.WithdrawalID != "" && i.WithdrawalID != signer.BatchWithdrawalID(s.org, batchID, i.Number) {
			s.Errorf("row %d has the withdrawal %s", i.Number, i.WithdrawalID)
		}
	}
	return paid, open
}

// A backup from before half of a batch was paid is restored. The rows that were signed come back under the same ids,
// the batch waits for a person, and in the end each payee has the amount once. Crash point B14. Rule BP-32.
func TestARestoredBatchPaysNoRowTwiceAndWaits(t *testing.T) {
	t.Parallel()
	live, d := start(t)
	batchID := live.approvedBatch()
	backup := pgtest.CopyDatabase(t, d)

	// The signer's limit ends after half of the rows.
	live.signer.mu.Lock()
	live.signer.full = map[string]bool{}
	for row := restoredRows/2 + 1; row <= restoredRows; row++ {
		live.signer.full[signer.BatchWithdrawalID(live.org, batchID, row)] = true
	}
	live.signer.mu.Unlock()
	live.must(live.Payouts.Expand(live.ctx, live.org, batchID))
	live.pass(8)
	if paid, _ := live.paidRows(batchID); paid != restoredRows/2 {
		t.Fatalf("got %d rows paid, want half of %d", paid, restoredRows)
	}
	live.db.Close()

	s := live.on(backup, live.org)
	s.signer.mu.Lock()
	s.signer.full = nil
	s.signer.mu.Unlock()
	_, err := journal.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(audit.Operator("op")), false)
	s.must(err)
	s.must(journal.Check(s.ctx, s.db, s.signer, s.Wallets))
	s.look("the import")
	s.steps = append(s.steps, s.Payouts.WorkDue)
	s.pass(6)
	b, err := s.Payouts.ByID(s.ctx, s.org, batchID)
	s.must(err)
	if b.Status != payout.Processing || b.PausedAt == nil || !strings.Contains(b.PauseReason, "restored from") {
		t.Errorf("got %s, paused at %v because of %q, want it paused", b.Status, b.PausedAt, b.PauseReason)
	}
	if paid, open := s.paidRows(batchID); paid != restoredRows/2 || open != restoredRows/2 {
		t.Errorf("paused: got %d rows paid and %d open, want half of %d each", paid, open, restoredRows)
	}
	_, err = s.Payouts.Resume(s.ctx, s.org, batchID, audit.User("usr_approver"))
	s.must(err)
	s.pass(10)
	if b, err = s.Payouts.ByID(s.ctx, s.org, batchID); err != nil || b.Status != payout.Completed {
		t.Errorf("resumed: got %s, %v, want %s", b.Status, err, payout.Completed)
	}
	if n := s.number(`SELECT count(*) FROM withdrawals WHERE to_address = ANY (
			SELECT to_address FROM payout_items WHERE batch_id = $1)`, batchID); n != restoredRows {
		t.Errorf("got %d withdrawals of %d rows", n, restoredRows)
	}
	for n := range restoredRows {
		want := money.Units(uint64(10_000_000 + n))
		if got := s.net.Balance(chain.Address(rowPayee(n)), signertest.Token); got != want {
			t.Errorf("row %d: its payee received %v, want %v once", n+1, got, want)
		}
	}
}

// oneRowBatch makes a draft of one row.
func (s *restoredService) oneRowBatch(payee string, units int) payout.Batch {
	s.Helper()
	lines, err := rowfile.ReadJSON(fmt.Appendf(nil, `[{"mintId":1,"toAddress":%q,"amount":"%d"}]`,
		string(sim.Address(payee)), units))
	s.must(err)
	b, err := s.Payouts.Create(s.ctx, s.org, payout.CreateRequest{Lines: lines, Actor: audit.User("usr_maker")})
	s.must(err)
	return b
}

func (s *restoredService) submitBatch(b payout.Batch) error {
	_, err := s.Payouts.Submit(s.ctx, s.org, b.ID, payout.SubmitRequest{
		ContentHash: b.ContentHash, Actor: audit.User("usr_maker"),
	})
	return err
}

// A payment that the backup lacks took money that the backup holds for a batch, so the product owes it. When that batch
// is cancelled, its sum pays the debt first: no other batch gets it. Rule BP-71.
func TestABatchDoesNotTakeWhatItsProductOwesForRestoredPayments(t *testing.T) {
	t.Parallel()
	live, d := start(t)
	held := live.approvedBatch() // of 70,000,000 it holds 60,000,015
	backup := pgtest.CopyDatabase(t, d)

	maker := audit.User("usr_maker")
	_, err := live.Payouts.Cancel(live.ctx, live.org, held, maker)
	live.must(err)
	live.must(live.Payouts.Expand(live.ctx, live.org, held))
	lost := live.oneRowBatch("payee of the lost hour", 50_000_000)
	live.must(live.submitBatch(lost))
	live.must(live.Payouts.Validate(live.ctx, live.org, lost.ID))
	_, err = live.Payouts.Approve(live.ctx, live.org, lost.ID, lost.ContentHash, audit.User("usr_approver"))
	live.must(err)
	live.must(live.Payouts.Expand(live.ctx, live.org, lost.ID))
	live.pass(8)
	live.db.Close()

	s := live.on(backup, live.org)
	_, err = journal.RestoreDatabase(s.ctx, s.db, s.signer, s.Wallets, s.NewRestorer(audit.Operator("op")), false)
	s.must(err)
	_, err = s.Payouts.Cancel(s.ctx, s.org, held, maker)
	s.must(err)
	s.must(s.Payouts.Expand(s.ctx, s.org, held))
	err = s.submitBatch(s.oneRowBatch("a later payee", 20_000_001))
	f := fault.Find(err)
	if f == nil || f.Code != fault.InsufficientBalance {
		t.Fatalf("a batch of more than the product has without its debt: got %v, want %s", err,
			fault.InsufficientBalance)
	}
	short, _ := f.Details["shortfall"].([]payout.Shortfall)
	if len(short) != 1 || short[0].Available != money.Units(20_000_000) || short[0].Missing != money.Units(1) {
		t.Errorf("got the shortfall %+v, want 20000000 available and 1 missing", short)
	}
	s.must(s.submitBatch(s.oneRowBatch("the last payee", 20_000_000)))
	if _, err := s.Withdrawals.CollectOwed(s.ctx); err != nil {
		t.Error(err)
	}
	if n := s.number(`SELECT count(*) FROM withdrawals WHERE owed > 0`); n != 0 {
		t.Errorf("got %d payments that are owed, want none", n)
	}
}
