package service

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// listOf reads a CSV list.
func (h *payoutEnv) listOf(rows ...string) []rowfile.Line {
	h.Helper()
	lines, err := rowfile.ReadCSV([]byte(strings.Join(rows, "\n") + "\n"))
	if err != nil {
		h.Fatal(err)
	}
	return lines
}

func (h *payoutEnv) createPartial(lines []rowfile.Line) payout.Batch {
	h.Helper()
	return h.must(h.Create(h.Context(), h.org, payout.CreateRequest{
		Lines: lines, Mode: contenthash.Partial, Actor: batchMaker,
	}))
}

// validated submits a batch and checks its rows.
func (h *payoutEnv) validated(b payout.Batch) payout.Batch {
	h.Helper()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	if err := h.Validate(h.Context(), h.org, b.ID); err != nil {
		h.Fatal(err)
	}
	return h.must(h.ByID(h.Context(), h.org, b.ID))
}

// wantCode checks the code of a fault.
func (h *payoutEnv) wantCode(name string, err error, want fault.Code) {
	h.Helper()
	if !fault.HasCode(err, want) {
		h.Errorf("%s: got %v, want %s", name, err, want)
	}
}

func (h *payoutEnv) expand(b payout.Batch) {
	h.Helper()
	if err := h.Expand(h.Context(), h.org, b.ID); err != nil {
		h.Fatal(err)
	}
}

// A list with mistakes is kept with all of them, and is not submitted as if they were not there. Rule BP-7.
func TestADraftKeepsTheRowsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	lines := h.listOf("amount;toAddress;mintId;reference",
		"1000;"+string(payees[0])+";1;first",
		"1,000;"+string(payees[1])+";1;zero\x00",
		"2000;"+string(payees[2])+";1;third",
		"5;0x12;1;fourth")
	b := h.must(h.Create(t.Context(), h.org, payout.CreateRequest{Lines: lines, Actor: batchMaker}))
	if b.BadRows != 2 || b.Header.Rows != 2 || b.Status != payout.Draft {
		t.Fatalf("got %d bad rows of %d, %s", b.BadRows, b.Header.Rows, b.Status)
	}
	bad, err := h.BadRows(t.Context(), h.org, b.ID)
	if err != nil || len(bad) != 2 {
		t.Fatalf("got %v, %v", bad, err)
	}
	if r := bad[0]; r.Position != 2 || r.Line != 3 || len(r.Problems) != 2 || r.Fields.Values()[5] != "1,000" {
		t.Errorf("got %+v", r)
	}
	if r := bad[1]; r.Position != 4 || r.Problems[0].Column != "toAddress" {
		t.Errorf("got %+v", r)
	}
	items, err := h.Items(t.Context(), h.org, b.ID)
	if err != nil || items[0].Position != 1 || items[1].Position != 3 || items[1].Number != 2 {
		t.Errorf("got %+v, %v", items, err)
	}
	_, err = h.submit(b.ID, b.ContentHash, batchMaker)
	h.wantCode("a STRICT batch", err, fault.InvalidState)
	h.wantBalances("nothing is held", "100000", "0", "0")

	partial := h.validated(h.createPartial(lines))
	if partial.Status != payout.AwaitingApproval || partial.Counts.Bad != 2 || partial.Counts.Included != 2 {
		t.Errorf("PARTIAL: got %s, %+v", partial.Status, partial.Counts)
	}
	key := "k"
	r := payout.CreateRequest{Lines: lines, Mode: contenthash.Partial, IdempotencyKey: &key, Actor: batchMaker}
	made := h.must(h.Create(t.Context(), h.org, r))
	if again := h.must(h.Create(t.Context(), h.org, r)); again.ID != made.ID {
		t.Errorf("the key again: got %s, want %s", again.ID, made.ID)
	}
	r.Lines = h.listOf("amount;toAddress;mintId;reference",
		"1000;"+string(payees[0])+";1;first", "1,001;"+string(payees[1])+";1;", "2000;"+string(payees[2])+";1;third")
	_, err = h.Create(t.Context(), h.org, r)
	h.wantCode("another bad row under the key", err, fault.IdempotencyConflict)
	page, err := h.List(t.Context(), h.org, payout.Filter{Status: "DRAFT"}, pagination.Page{})
	if err != nil || len(page.Items) != 2 || page.Items[0].Counts.Bad != 2 {
		t.Errorf("got %+v, %v", page.Items, err)
	}
}

// What cannot be paid is left out before anyone approves the rest, by another hash. Rule BP-8.
func TestAPartialBatchLeavesOutWhatCannotBePaid(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	lines := h.listOf("mintId,toAddress,amount,customerId",
		"1,"+string(payees[0])+",1000,", "1,"+string(h.treasury.Address)+",50,", "1,"+string(payees[1])+",2000,",
		"1,"+string(payees[2])+",3000,frozen")
	err := h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: h.org, CustomerID: "frozen", Source: freeze.SourceOperator,
			Reason: "test", Actor: audit.Operator("op"),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	draft := h.createPartial(lines)
	b := h.validated(draft)
	if b.Status != payout.AwaitingApproval || b.ContentHash == draft.ContentHash || b.Header.Included != 2 ||
		b.Header.Rows != 4 {
		t.Fatalf("got %s, %q, %+v", b.Status, b.Problem, b.Header)
	}
	h.wantBalances("only the rows that are left are held", "97000", "3000", "0")
	if again := h.must(h.submit(b.ID, draft.ContentHash, batchMaker)); again.ContentHash != b.ContentHash {
		t.Error("the submission again changes the hash")
	}
	_, err = h.Approve(t.Context(), h.org, b.ID, draft.ContentHash, firstApprover)
	h.wantCode("the hash that was submitted", err, fault.ApprovalRefused)
	b = h.must(h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover))
	h.expand(b)
	h.wantBalances("the rows are withdrawals", "97000", "0", "3000")
	items, err := h.Items(t.Context(), h.org, b.ID)
	if err != nil || items[1].State() != payout.RowExcluded || items[1].WithdrawalID != "" ||
		!strings.Contains(items[3].Reason(), "frozen") {
		t.Errorf("got %+v, %v", items, err)
	}
	tamper(h, `UPDATE withdrawals SET status = 'COMPLETED', tx_hash = 'h' || batch_row, broadcast_at = now()
		WHERE batch_id = $1`, b.ID)
	h.expand(b)
	h.wantStatus(b.ID, payout.Completed)

	rejected := h.validated(h.createPartial(lines))
	h.must(h.Reject(t.Context(), h.org, rejected.ID, "no", firstApprover))
	h.wantBalances("rejected", "97000", "0", "3000")

	none := h.validated(h.createPartial(h.listOf("mintId,toAddress,amount", "1,"+string(h.treasury.Address)+",50")))
	if none.Status != payout.Invalid || none.ContentHash != none.Header.ComputeHash() {
		t.Errorf("no row is left: got %s, %q", none.Status, none.Problem)
	}
	h.wantBalances("no row is left", "97000", "0", "3000")

	changed := h.createPartial(lines)
	changed = h.must(h.submit(changed.ID, changed.ContentHash, batchMaker))
	tamper(h, `UPDATE payout_items SET amount = 999 WHERE batch_id = $1 AND row_no = 1`, changed.ID)
	if err := h.Validate(t.Context(), h.org, changed.ID); err == nil {
		t.Error("a row that was changed got a new hash")
	}
	h.wantStatus(changed.ID, payout.Validating)
}

// The database itself refuses another content, another pause and another end than those of the states. Rules BP-8,
// BP-11 and BP-12.
func TestTheDatabaseKeepsWhatWasSubmitted(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.submitted()
	for sql, want := range map[string]string{
		`payout_batches SET content_hash = sha256('x'), version = version + 1`: "payout_batches_content_fixed",
		`payout_batches SET paused_at = now(), version = version + 1`:          "payout_batches_pausable",
		`payout_items SET included = false, refused = 'x', checked_at = NULL`:  "payout_items_fixed",
	} {
		_, err := pgtest.OwnerPool(t, h.DB).Exec(t.Context(), `UPDATE `+sql+` WHERE batch_id = $1`, b.ID)
		if !pg.ViolatesConstraint(err, want) {
			t.Errorf("%s: got %v, want %s", sql, err, want)
		}
	}
	_, err := pgtest.OwnerPool(t, h.DB).Exec(t.Context(), `INSERT INTO payout_bad_rows
		SELECT batch_id, 4, org_id, 5, '{a,b,c,d,e,f}', '[{}]' FROM payout_batches WHERE batch_id = $1`, b.ID)
	if !pg.ViolatesConstraint(err, "payout_notes_begin") {
		t.Errorf("a bad row of a submitted batch: got %v", err)
	}
}

// One list is not paid twice by mistake, and of two submissions one passes. Rule BP-9.
func TestAListIsSubmittedOnce(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	drafts := []payout.Batch{h.create(), h.create(), h.create()}
	errs := make([]error, len(drafts))
	var all sync.WaitGroup
	for i, b := range drafts {
		all.Go(func() {
			_, errs[i] = h.Submit(t.Context(), h.org, b.ID, payout.SubmitRequest{
				ContentHash: b.ContentHash, Actor: batchMaker,
			})
		})
	}
	all.Wait()
	first := slices.Index(errs, nil)
	if first < 0 {
		t.Fatalf("none passed: %v", errs)
	}
	for i, err := range errs {
		if i == first {
			continue
		}
		h.wantCode("a second submission", err, fault.DuplicateBatch)
		if f := fault.Find(err); f == nil || f.Extra["existingId"] != drafts[first].ID {
			t.Errorf("got %v, want %s named", err, drafts[first].ID)
		}
	}
	h.wantBalances("one is held", "94000", "6000", "0")
	second := drafts[(first+1)%3]
	for name, id := range map[string]string{"another batch": second.ID, "an unknown one": "bp_x"} {
		_, err := h.Submit(t.Context(), h.org, second.ID, payout.SubmitRequest{
			ContentHash: second.ContentHash, AcknowledgeDuplicateOf: id, Actor: batchMaker,
		})
		h.wantCode(name, err, fault.DuplicateBatch)
	}
	acknowledged := h.must(h.Submit(t.Context(), h.org, second.ID, payout.SubmitRequest{
		ContentHash: second.ContentHash, AcknowledgeDuplicateOf: drafts[first].ID, Actor: batchMaker,
	}))
	if acknowledged.DuplicateOf != drafts[first].ID {
		t.Errorf("got %q", acknowledged.DuplicateOf)
	}
	third := drafts[(first+2)%3]
	_, err := h.Submit(t.Context(), h.org, third.ID, payout.SubmitRequest{
		ContentHash: third.ContentHash, AcknowledgeDuplicateOf: drafts[first].ID, Actor: batchMaker,
	})
	h.wantCode("the first of two", err, fault.DuplicateBatch)
	for _, b := range []payout.Batch{drafts[first], second} {
		h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	}
	h.must(h.Submit(t.Context(), h.org, third.ID, payout.SubmitRequest{
		ContentHash: third.ContentHash, Actor: batchMaker,
	}))
}

// People are warned before they submit, and compare each look-alike by itself. Rule BP-10.
func TestABatchWarnsBeforeItIsSubmitted(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	paid := h.approved() // pays inv-1 to inv-3
	h.expand(paid)
	tamper(h, `UPDATE withdrawals SET status = 'COMPLETED', tx_hash = 'h' || batch_row, broadcast_at = now()
		WHERE batch_id = $1`, paid.ID)
	alike := strings.ToLower(string(payees[0]))
	alike = alike[:20] + strings.Repeat("1", 4) + alike[24:]
	b := h.must(h.Create(t.Context(), h.org, payout.CreateRequest{Lines: h.listOf(
		"mintId,toAddress,amount,reference", "1,"+string(payees[1])+",10,inv-2", "1,"+string(payees[1])+",10,other",
		"1,"+alike+",20,other",
	), Actor: batchMaker}))
	kinds := func() (found []string) {
		warnings, err := h.Warnings(t.Context(), h.org, b.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range warnings {
			found = append(found, fmt.Sprintf("%d %s %v", w.Row, w.Kind, w.IsTicked))
		}
		slices.Sort(found)
		return found
	}
	want := []string{
		"1 REFERENCE_SEEN false", "2 DUPLICATE_ROW false", "3 FIRST_PAYMENT false", "3 LOOK_ALIKE false",
		"3 REFERENCE_SEEN false",
	}
	if got := kinds(); !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	for _, ticked := range [][]int{nil, {1, 2}} {
		_, err := h.Submit(t.Context(), h.org, b.ID, payout.SubmitRequest{
			ContentHash: b.ContentHash, Ticked: ticked, Actor: batchMaker,
		})
		h.wantCode("without the tick", err, fault.InvalidState)
		if got, _ := fault.Find(err).Details[payout.UntickedDetail].([]int); !slices.Equal(got, []int{3}) {
			t.Errorf("got %v", fault.Find(err).Details)
		}
	}
	h.must(h.Submit(t.Context(), h.org, b.ID, payout.SubmitRequest{
		ContentHash: b.ContentHash, Ticked: []int{3}, Actor: batchMaker,
	}))
	want[3] = "3 LOOK_ALIKE true"
	if got := kinds(); !slices.Equal(got, want) {
		t.Errorf("kept: got %v, want %v", got, want)
	}
}

// A pause and a freeze stop the payments of rows, which say so, and the rows go on afterwards. Rule BP-11.
func TestABatchIsPausedAndGoesOn(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	events := &statusRecorder{}
	h.Events = events
	waiting := h.submitted()
	_, err := h.Pause(t.Context(), h.org, waiting.ID, firstApprover)
	h.wantCode("a batch that is not approved", err, fault.InvalidState)
	b := h.must(h.Approve(t.Context(), h.org, waiting.ID, waiting.ContentHash, firstApprover))
	b = h.must(h.Pause(t.Context(), h.org, b.ID, firstApprover))
	again := h.must(h.Pause(t.Context(), h.org, b.ID, firstApprover))
	if again.Version != b.Version || b.PausedAt == nil {
		t.Errorf("got version %d, want %d", again.Version, b.Version)
	}
	h.expand(b)
	h.wantBalances("paused", "94000", "6000", "0")
	items, err := h.Items(t.Context(), h.org, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	// The worker of another process read the batch before the pause.
	_, err = h.withdrawals.RequestBatchRow(t.Context(), h.org, newBatchRequest(payout.RowPayment{
		OrgID: h.org, Row: signer.BatchRow{BatchID: b.ID, Row: 1, ContentHash: b.ContentHash}, MintID: payoutUSDC,
		Amount: items[0].Amount, ToAddress: items[0].ToAddress, Reference: items[0].Reference,
	}))
	if !pg.ViolatesConstraint(err, "withdrawals_batch_approved") {
		t.Errorf("a payment of a paused batch: got %v", err)
	}

	b = h.must(h.Resume(t.Context(), h.org, b.ID, firstApprover))
	err = h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: h.org, Source: freeze.SourceOperator, Reason: "test",
			Actor: audit.Operator("op"),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Expand(t.Context(), h.org, b.ID); err == nil {
		t.Error("a frozen organization pays")
	}
	if items, err = h.Items(t.Context(), h.org, b.ID); err != nil || items[2].State() != payout.RowWaiting ||
		!strings.Contains(items[2].Reason(), "frozen") {
		t.Errorf("frozen: got %v, %v", items, err)
	}
	tamper(h, `UPDATE freezes SET lifted_at = now(), lifted_by = 'op' WHERE org_id = $1`, h.org)
	h.expand(b)
	h.wantBalances("resumed", "94000", "0", "6000")
	h.wantAudited(b.ID, "usr_maker payout.created", "usr_maker payout.submitted", "payout payout.checked",
		"usr_first payout.approved", "usr_first payout.paused", "usr_first payout.resumed")
	if want := []string{"VALIDATING 0 of 3", "AWAITING_APPROVAL 0 of 3", "PROCESSING 1 of 3"}; !slices.Equal(
		events.published, want) {
		t.Errorf("published: got %v, want %v", events.published, want)
	}
}

// A batch that is cancelled while it is paid loses what has no slot, and its amounts come back once. Rule BP-12.
func TestACancelledBatchPaysOnlyWhatHasASlot(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	h.expand(b)
	tamper(h, `UPDATE dispatch_orders SET waiting_for = 'SIGNER' WHERE batch->>'batchId' = $1`, b.ID)
	tamper(h, `UPDATE withdrawals SET status = 'COMPLETED', tx_hash = 'h', broadcast_at = now()
		WHERE batch_id = $1 AND batch_row = 1`, b.ID)
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	b = h.must(h.Cancel(t.Context(), h.org, b.ID, firstApprover))
	if b.Status != payout.Processing || b.StoppedAt == nil || b.Stopper.ID != batchMaker.ID {
		t.Fatalf("got %s, %v", b.Status, b.Stopper)
	}
	_, err := h.Resume(t.Context(), h.org, b.ID, batchMaker)
	h.wantCode("resumed", err, fault.InvalidState)
	for range 2 {
		h.expand(b)
	}
	h.wantStatus(b.ID, payout.PartiallyCompleted)
	h.wantBalances("two rows came back", "99000", "0", "1000")

	b = h.approved()
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	h.expand(b)
	h.wantStatus(b.ID, payout.Cancelled)
	h.wantBalances("no row was paid", "99000", "0", "1000")
	h.wantAudited(b.ID, "usr_maker payout.created", "usr_maker payout.submitted", "payout payout.checked",
		"usr_first payout.approved", "usr_maker payout.stopped", "payout payout.row_refused",
		"payout payout.row_refused", "payout payout.row_refused", "payout payout.cancelled")
}

// Approval, cancellation, pause and two workers at the same moment: no amount is lost, and none is held twice. Rule
// BP-12.
func TestPeopleAndWorkersOfABatchAtTheSameMoment(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	for round := range 4 {
		b := h.submitted()
		var all sync.WaitGroup
		for _, act := range []func() error{
			func() error { _, err := h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover); return err },
			func() error { _, err := h.Cancel(t.Context(), h.org, b.ID, batchMaker); return err },
			func() error { _, err := h.Pause(t.Context(), h.org, b.ID, batchMaker); return err },
			func() error { return h.Expand(t.Context(), h.org, b.ID) },
			func() error { return h.Expand(t.Context(), h.org, b.ID) },
		} {
			all.Go(func() {
				if err := act(); err != nil && fault.Find(err) == nil {
					t.Logf("round %d: %v", round, err)
				}
			})
		}
		all.Wait()
		tamper(h, `UPDATE dispatch_orders SET waiting_for = 'SIGNER' WHERE batch->>'batchId' = $1`, b.ID)
		current := h.must(h.ByID(t.Context(), h.org, b.ID))
		if current.Status == payout.Processing {
			h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
			for range 2 {
				h.expand(b)
			}
		}
		h.wantStatus(b.ID, payout.Cancelled)
		h.wantBalances(fmt.Sprintf("round %d", round), "100000", "0", "0")
	}
}

// What a batch did not pay is paid by another one, under its own approval. Rule BP-13.
func TestWhatABatchDidNotPayIsRetriedUnderAnotherApproval(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	_, err := h.Retry(t.Context(), h.org, b.ID, nil, batchMaker)
	h.wantCode("a batch that is being paid", err, fault.InvalidState)
	h.expand(b)
	tamper(h, `UPDATE dispatch_orders SET waiting_for = 'SIGNER' WHERE batch->>'batchId' = $1`, b.ID)
	tamper(h, `UPDATE withdrawals SET status = 'COMPLETED', tx_hash = 'h', broadcast_at = now()
		WHERE batch_id = $1 AND batch_row = 1`, b.ID)
	for row := 2; row <= 3; row++ {
		_, err := h.withdrawals.Cancel(t.Context(), h.org, signer.BatchWithdrawalID(h.org, b.ID, row), firstApprover)
		if err != nil {
			t.Fatal(err)
		}
	}
	h.expand(b)
	h.wantStatus(b.ID, payout.PartiallyCompleted)
	key := "again"
	r := h.must(h.Retry(t.Context(), h.org, b.ID, &key, batchMaker))
	if again := h.must(h.Retry(t.Context(), h.org, b.ID, &key, batchMaker)); again.ID != r.ID {
		t.Errorf("the key again: got %s, want %s", again.ID, r.ID)
	}
	if r.Status != payout.Draft || r.RetryOf != b.ID || r.Header.Rows != 2 || r.ContentHash == b.ContentHash {
		t.Fatalf("got %+v", r)
	}
	r = h.validated(r)
	_, err = h.Approve(t.Context(), h.org, r.ID, b.ContentHash, firstApprover)
	h.wantCode("the old approval", err, fault.ApprovalRefused)
	r = h.must(h.Approve(t.Context(), h.org, r.ID, r.ContentHash, firstApprover))
	h.expand(r)
	for i, intent := range h.intents(r) {
		if _, err := h.signer.AdmitIntent(t.Context(), intent); err != nil {
			t.Errorf("row %d: %v", i+1, err)
		}
	}
	// The payment of row 2 came back from the signer's journal without its row.
	tamper(h, `UPDATE withdrawals SET batch_id = NULL, batch_row = NULL, status = 'COMPLETED', tx_hash = 'r',
		broadcast_at = now(), restored_at = now(), end_status = NULL, end_note = NULL, end_actor_kind = NULL,
		end_actor = NULL WHERE batch_id = $1 AND batch_row = 2`, b.ID)
	tamper(h, `UPDATE payout_items SET refused = 'It was paid.' WHERE batch_id = $1 AND row_no = 2`, b.ID)
	if last := h.must(h.Retry(t.Context(), h.org, b.ID, nil, batchMaker)); last.Header.Rows != 1 {
		t.Errorf("a row that was paid before the restore is retried: got %d rows, want 1", last.Header.Rows)
	}

	done := h.approved()
	h.expand(done)
	tamper(h, `UPDATE withdrawals SET status = 'COMPLETED', tx_hash = 'd' || batch_row, broadcast_at = now()
		WHERE batch_id = $1`, done.ID)
	h.expand(done)
	_, err = h.Retry(t.Context(), h.org, done.ID, nil, batchMaker)
	h.wantCode("a batch that paid every row", err, fault.InvalidState)
}

// The result is the list with what became of it, and a payee's proof needs no service. Rules BP-14 and BP-15.
func TestTheResultOfABatchAndTheProofsOfItsRows(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.validated(h.createPartial(h.listOf("amount,toAddress,customerId,mintId,reference",
		"0.001,"+string(payees[0])+",c1,1,r1", "1000,"+string(payees[1])+",c2,1,=1+1",
		"1000,"+string(payees[1])+",c2,1,r2", "50,"+string(h.treasury.Address)+",c3,1,r3")))
	var out bytes.Buffer
	if err := h.WriteCSV(t.Context(), h.org, b.ID, &out); err != nil {
		t.Fatal(err)
	}
	records, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(records) != 5 {
		t.Fatalf("got %v, %v", records, err)
	}
	if want := "amount,toAddress,customerId,mintId,reference,withdrawalId,status,txHash,fee,reason"; strings.Join(
		records[0], ",") != want {
		t.Errorf("got %v, want %s", records[0], want)
	}
	for i, want := range []string{payout.RowUnreadable, payout.RowUnreadable, payout.RowWaiting, payout.RowExcluded} {
		if records[i+1][6] != want {
			t.Errorf("row %d: got %v, want %s", i+1, records[i+1], want)
		}
	}
	if records[2][4] != "'=1+1" || records[1][0] != "0.001" || records[4][9] == "" {
		t.Errorf("got %v", records)
	}

	for row := 1; row <= 2; row++ {
		proof, err := h.RowProof(t.Context(), h.org, b.ID, row)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(proof)
		if err != nil {
			t.Fatal(err)
		}
		var read contenthash.RowProof
		if err := errors.Join(json.Unmarshal(text, &read), read.VerifyRow()); err != nil {
			t.Errorf("row %s: %v", strconv.Itoa(row), err)
		}
		if read.ContentHash != b.ContentHash || read.Row.IsIncluded != (row == 1) {
			t.Errorf("row %d: got %+v", row, read)
		}
	}
	for _, row := range []int{0, 3} {
		_, err := h.RowProof(t.Context(), h.org, b.ID, row)
		h.wantCode("a row that is not there", err, fault.CodeNotFound)
	}
	list, err := h.ExportList(t.Context(), h.org, b.ID)
	if err := errors.Join(err, list.VerifyList()); err != nil {
		t.Error(err)
	}
	tamper(h, `UPDATE payout_items SET amount = 999 WHERE batch_id = $1 AND row_no = 1`, b.ID)
	if _, err := h.RowProof(t.Context(), h.org, b.ID, 1); err == nil {
		t.Error("a row that was changed has a proof")
	}
	if list, err = h.ExportList(t.Context(), h.org, b.ID); err != nil || list.VerifyList() == nil {
		t.Error("rows that were changed have the hash")
	}
}

// Another organization's batch is not there, whatever is asked of it.
func TestABatchOfAnotherOrganizationIsNotThere(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.create()
	other, _, err := org.Create(t.Context(), h.DB, "other")
	if err != nil {
		t.Fatal(err)
	}
	for name, call := range map[string]func() error{
		"show":     func() error { _, err := h.ByID(t.Context(), other.ID, b.ID); return err },
		"rows":     func() error { _, err := h.Items(t.Context(), other.ID, b.ID); return err },
		"bad rows": func() error { _, err := h.BadRows(t.Context(), other.ID, b.ID); return err },
		"warnings": func() error { _, err := h.Warnings(t.Context(), other.ID, b.ID); return err },
		"results":  func() error { return h.WriteCSV(t.Context(), other.ID, b.ID, io.Discard) },
		"proof":    func() error { _, err := h.RowProof(t.Context(), other.ID, b.ID, 1); return err },
		"retry":    func() error { _, err := h.Retry(t.Context(), other.ID, b.ID, nil, batchMaker); return err },
		"pause":    func() error { _, err := h.Pause(t.Context(), other.ID, b.ID, batchMaker); return err },
		"resume":   func() error { _, err := h.Resume(t.Context(), other.ID, b.ID, batchMaker); return err },
		"cancel":   func() error { _, err := h.Cancel(t.Context(), other.ID, b.ID, batchMaker); return err },
		"submit": func() error {
			_, err := h.Submit(t.Context(), other.ID, b.ID, payout.SubmitRequest{
				ContentHash: b.ContentHash, Actor: batchMaker,
			})
			return err
		},
	} {
		h.wantCode(name, call(), fault.CodeNotFound)
	}
	page, err := h.List(t.Context(), other.ID, payout.Filter{}, pagination.Page{})
	if err != nil || len(page.Items) != 0 {
		t.Errorf("got %v, %v", page.Items, err)
	}
}

// A row is checked as its withdrawal will be: what no withdrawal would pay is left out. Rule BP-8.
func TestRowsThatNoWithdrawalWouldPayAreLeftOut(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	lines := h.listOf("mintId,toAddress,amount", "1,"+string(payees[0])+",1000", "1,"+string(signertest.Token)+",1000",
		"1,"+string(payees[1])+",1", "1,0x0000000000000000000000000000000000000000,1000")
	b := h.validated(h.createPartial(lines))
	if b.Status != payout.AwaitingApproval || b.Header.Included != 1 {
		t.Errorf("got %s, %q, %d included", b.Status, b.Problem, b.Header.Included)
	}
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	err := h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return mint.Quarantine(ctx, tx, payoutUSDC, "its events lie")
	})
	if err != nil {
		t.Fatal(err)
	}
	b = h.validated(h.createPartial(lines))
	if b.Status != payout.Invalid || !strings.Contains(b.Problem, "quarantined") {
		t.Errorf("a quarantined coin: got %s, %q", b.Status, b.Problem)
	}
	h.wantBalances("nothing is held", "100000", "0", "0")
}

// statusRecorder records the statuses that are published.
type statusRecorder struct{ published []string }

// PublishBatch implements payout.Publisher.
func (r *statusRecorder) PublishBatch(_ context.Context, _ pg.Tx, b payout.Batch) error {
	r.published = append(r.published, fmt.Sprintf("%s %d of %d", b.Status, b.Approvals, b.Counts.Included))
	return nil
}
