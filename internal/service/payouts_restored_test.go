package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// restoreRow brings the signed payment of a row back, as the import of the signer's journal does.
func (h *payoutEnv) restoreRow(b payout.Batch, row int) {
	h.Helper()
	p := h.rowPayment(b, row)
	keyHash := sha256.Sum256(fmt.Appendf(nil, "batch %s:%d", b.ID, row))
	err := h.DB.InSystem(h.Context(), func(ctx context.Context, tx pg.Tx) error {
		o := dispatch.Order{
			ID: signer.BatchWithdrawalID(h.org, b.ID, row), OrgID: h.org, Purpose: signer.Payment,
			Chain: chain.Ethereum, WalletID: h.treasury.ID, To: p.ToAddress, MintID: p.MintID,
			Contract: signertest.Token, Amount: p.Amount, Product: signer.BatchProduct,
			KeyHash: hex.EncodeToString(keyHash[:]), Batch: &p.Row, Status: dispatch.Queued, CreatedAt: tx.Now,
		}
		if err := dispatch.Submit(ctx, tx, o); err != nil {
			return err
		}
		postings, err := h.withdrawals.OnRestored(ctx, tx, []dispatch.RestoredOrder{
			{Order: o, IsNew: true, Signed: true},
		})
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, postings...)
	})
	if err != nil {
		h.Fatalf("restore row %d: %v", row, err)
	}
}

// A payment that the backup lacks takes the amount that its batch holds for the row, once. If nothing is held for it,
// because the row was refused or its batch is not approved here, it takes the balance of the product. Rule BP-5.
func TestARestoredPaymentTakesTheAmountOfItsRowOnce(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	h.restoreRow(b, 1)
	h.wantBalances("an open row", "94000", "5000", "1000")
	b = h.must(h.Cancel(t.Context(), h.org, b.ID, firstApprover))
	h.expand(b)
	h.wantStatus(b.ID, payout.Processing) // row 1 may have a slot
	h.wantBalances("rows 2 and 3 are refused", "99000", "0", "1000")
	h.restoreRow(b, 2)
	h.wantBalances("a refused row", "97000", "0", "3000")

	waiting := h.submitted()
	h.wantBalances("another batch waits", "91000", "6000", "3000")
	h.restoreRow(waiting, 2)
	h.wantBalances("its batch is not approved here", "89000", "6000", "5000")
	waiting = h.must(h.Approve(t.Context(), h.org, waiting.ID, waiting.ContentHash, firstApprover))
	h.expand(waiting)
	h.wantBalances("the row that was paid gives its hold back", "91000", "0", "9000")
}

// A restored row that took more than its product had is owed, although the database has its batch. No other batch takes
// that part of the balance. Rule BP-71.
func TestABatchLeavesWhatIsOwedForARestoredRow(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	waiting := h.submitted()
	lines, err := rowfile.ReadJSON(fmt.Appendf(nil, `[{"mintId":1,"toAddress":%q,"amount":"93500"}]`, payees[0]))
	if err != nil {
		t.Fatal(err)
	}
	large := h.must(h.Create(t.Context(), h.org, payout.CreateRequest{Lines: lines, Actor: batchMaker}))
	h.must(h.submit(large.ID, large.ContentHash, batchMaker))
	h.wantBalances("two batches wait", "500", "99500", "0")
	h.restoreRow(waiting, 2)
	h.wantBalances("1500 of 2000 are owed", "0", "99500", "2000")
	h.must(h.Cancel(t.Context(), h.org, waiting.ID, batchMaker))
	h.wantBalances("its batch is cancelled", "6000", "93500", "2000")
	next := h.create()
	_, err = h.submit(next.ID, next.ContentHash, batchMaker)
	h.wantCode("a batch of 6000", err, fault.InsufficientBalance)
	want := []payout.Shortfall{{
		MintID: payoutUSDC, Needed: money.Units(6000), Available: money.Units(4500), Missing: money.Units(1500),
	}}
	if f := fault.Find(err); f == nil {
		t.Errorf("got %v, want a shortfall", err)
	} else if got, _ := f.Details["shortfall"].([]payout.Shortfall); !slices.Equal(got, want) {
		t.Errorf("got the shortfall %+v, want %+v", got, want)
	}
}
