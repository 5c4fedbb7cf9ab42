package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

var person = audit.User("usr_1")

// Rule WD-4.
func TestApproveOrdersThePayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.requestHeld()
	w, err := h.Approve(t.Context(), h.org, held.ID, person)
	if err != nil || w.Status != "PROCESSING" || w.ApprovedAt == nil || w.Approvals.Received != 1 {
		t.Fatalf("got %+v %v, want it processing", w, err)
	}
	h.wantBalances("999000", "1000")
	if got := h.orderStatus(w.ID); got != "QUEUED" {
		t.Errorf("order: got %v, want QUEUED", got)
	}
	_, err = h.Approve(t.Context(), h.org, held.ID, person)
	wantFault(t, err, fault.InvalidState)
	if fault.Find(err).Extra["currentStatus"] != "PROCESSING" {
		t.Errorf("got %v, want the current status", fault.Find(err).Extra)
	}
	h.wantEvents(
		w.ID, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL",
		"CUSTOMER_WITHDRAW_APPROVED PROCESSING",
	)
}

// Rule WD-5.
func TestRemoveGivesTheMoneyBack(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.requestHeld()
	w, err := h.Remove(t.Context(), h.org, held.ID, person, "not ours")
	if err != nil || w.Status != "REJECTED" || *w.RejectedReason != "not ours" {
		t.Fatalf("got %+v %v, want it rejected", w, err)
	}
	h.wantBalances("1000000", "0")
	_, err = h.Remove(t.Context(), h.org, held.ID, person, "")
	wantFault(t, err, fault.InvalidState)
	h.wantBalances("1000000", "0")
	h.wantEvents(
		w.ID, "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL",
		"CUSTOMER_WITHDRAW_REJECTED REJECTED",
	)
}

// Rule WD-6.
func TestApproveAndRemoveHaveOneWinner(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.requestHeld()
	won := make([]string, 64)
	runParallel(len(won), func(i int) {
		var err error
		if i%2 == 0 {
			_, err = h.Approve(t.Context(), h.org, held.ID, person)
		} else {
			_, err = h.Remove(t.Context(), h.org, held.ID, person, "")
		}
		switch {
		case err == nil:
			won[i] = []string{"PROCESSING", "REJECTED"}[i%2]
		case !fault.HasCode(err, fault.InvalidState):
			t.Errorf("loser: got %v, want %v", err, fault.InvalidState)
		case !slices.Contains([]any{"PROCESSING", "REJECTED"}, fault.Find(err).Extra["currentStatus"]):
			t.Errorf("loser: got %v, want the state that won", fault.Find(err).Extra)
		}
	})
	var winners []string
	for _, s := range won {
		if s != "" {
			winners = append(winners, s)
		}
	}
	if len(winners) != 1 {
		t.Fatalf("winners: got %v, want one", winners)
	}
	w, err := h.ByID(t.Context(), h.org, held.ID)
	if err != nil || string(w.Status) != winners[0] {
		t.Fatalf("got %v %v, want %v", w.Status, err, winners[0])
	}
	if w.Status == "PROCESSING" {
		h.wantBalances("999000", "1000")
	} else {
		h.wantBalances("1000000", "0")
	}
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("deadlocks: got %v, want 0", n)
	}
}

// Rule AUTH-2.
func TestVerbsKnowOnlyTheirOrganization(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.requestHeld()
	other, _, err := org.Create(t.Context(), h.DB, "other")
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Approve(t.Context(), other.ID, held.ID, person)
	wantFault(t, err, fault.CodeNotFound)
	_, err = h.Remove(t.Context(), other.ID, held.ID, person, "")
	wantFault(t, err, fault.CodeNotFound)
	_, err = h.ByID(t.Context(), other.ID, held.ID)
	wantFault(t, err, fault.CodeNotFound)
	h.wantBalances("999000", "1000")
}

// setOrderStatus acts as dispatch: it sets the status of a withdrawal's order, past the triggers
// that require its slot and its fee.
func (h *testEnv) setOrderStatus(orderID, status string) {
	h.t.Helper()
	h.execAsOwner(`UPDATE dispatch_orders SET status = '` + status +
		`', proof_id = 1, fee = 0, tx_hash = 'test' WHERE order_id = '` + orderID + `'`)
}

// execAsOwner writes as the owner of the database, past every trigger.
func (h *testEnv) execAsOwner(sql ...string) {
	h.t.Helper()
	tx, err := pgtest.OwnerPool(h.t, h.DB).Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.t.Context())) }()
	for _, s := range append([]string{`SET LOCAL session_replication_role = replica`}, sql...) {
		if _, err := tx.Exec(h.t.Context(), s); err != nil {
			h.t.Fatal(err)
		}
	}
	if err := tx.Commit(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// endOrder acts as dispatch: it reports the end of an order and posts the returned postings.
func (h *testEnv) endOrder(o dispatch.Order, e dispatch.End) error {
	to := "FAILED"
	if e.Paid {
		to = "PAID"
	}
	h.setOrderStatus(o.ID, to)
	if e.PayeeFailed || !e.Rent.IsZero() {
		h.endWithCost(o.ID, e)
	}
	return h.tryEndOrder(o, e)
}

// endWithCost sets the costs of a payment in its order.
func (h *testEnv) endWithCost(orderID string, e dispatch.End) {
	h.t.Helper()
	h.execAsOwner(
		fmt.Sprintf(
			`UPDATE dispatch_orders SET rent = %v, fee = %v, payee_failed = %v WHERE order_id = '%s'`, e.Rent,
			e.Fee, e.PayeeFailed, orderID,
		),
	)
}

func (h *testEnv) tryEndOrder(o dispatch.Order, e dispatch.End) error {
	return h.DB.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		postings, err := h.OnEnded(ctx, tx, o, e)
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, postings...)
	})
}

// Rule WD-8.
func TestPaidWithdrawalSettlesOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	o := h.loadOrder(w)
	h.setOrderStatus(o.ID, "BROADCAST")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, o, "0xaa") })
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, o, "0xaa") })
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, o, "0xbb") })
	h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnIncluded(ctx, tx, o, "0xaa") })
	got, err := h.ByID(t.Context(), h.org, w.ID)
	if err != nil || got.Status != "BROADCAST" || got.ChainStatus != "INCLUDED" || *got.TxHash != "0xaa" ||
		len(got.ReplacedTxHashes) != 1 || got.ReplacedTxHashes[0] != "0xbb" {
		t.Fatalf("got %+v %v, want 0xaa included, 0xbb replaced", got, err)
	}
	e := dispatch.End{Paid: true, Hash: "0xaa", Replaced: nil, Fee: money.Units(21000)}
	if err := h.endOrder(o, e); err != nil {
		t.Fatal(err)
	}
	got, err = h.ByID(t.Context(), h.org, w.ID)
	if err != nil || got.Status != "COMPLETED" || got.ChainStatus != "FINALIZED" ||
		got.NetworkFee.String() != "21000" || got.CompletedAt == nil {
		t.Fatalf("got %+v %v, want it completed", got, err)
	}
	h.wantBalances("999000", "0")
	if err := h.endOrder(o, e); err == nil {
		t.Error("a second end: got no error, want one")
	}
	h.wantBalances("999000", "0")
	h.wantEvents(w.ID, "CUSTOMER_WITHDRAW BROADCAST", "CUSTOMER_WITHDRAW_COMPLETED COMPLETED")
	var hash string
	err = pgtest.OwnerPool(t, h.DB).QueryRow(
		t.Context(),
		`SELECT convert_from(data, 'UTF8')::jsonb->>'txHash' FROM events WHERE type = 'CUSTOMER_WITHDRAW'`,
	).Scan(&hash)
	if err != nil || hash != "0xaa" {
		t.Errorf("the event's hash: got %q %v, want 0xaa", hash, err)
	}
}

func TestPaymentThatNobodyAnnouncedIsToldOfInOrder(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	if err := h.endOrder(h.loadOrder(w), dispatch.End{Paid: true, Hash: "0xaa"}); err != nil {
		t.Fatal(err)
	}
	h.wantEvents(w.ID, "CUSTOMER_WITHDRAW BROADCAST", "CUSTOMER_WITHDRAW_COMPLETED COMPLETED")
}

// Rule WD-9.
func TestFailedWithdrawalGivesTheMoneyBackOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, c := range []struct {
		name      string
		broadcast bool
		end       dispatch.End
		chain     string
		reason    string
	}{
		{"cancelled before it was out", false, dispatch.End{Hash: "0xbb", Cancelled: true}, "REPLACED", "CANCELLED"},
		{"reverted", true, dispatch.End{Hash: "0xaa"}, "REVERTED", "REVERTED"},
	} {
		w := h.mustRequest(h.newRequest())
		o := h.loadOrder(w)
		want := []string{"CUSTOMER_WITHDRAW_FAILED FAILED"}
		h.setOrderStatus(o.ID, "BROADCAST")
		if c.broadcast {
			h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, o, "0xaa") })
			want = append([]string{"CUSTOMER_WITHDRAW BROADCAST"}, want...)
		}
		if err := h.endOrder(o, c.end); err != nil {
			t.Fatal(err)
		}
		got, err := h.ByID(t.Context(), h.org, w.ID)
		if err != nil || got.Status != "FAILED" || got.ChainStatus != c.chain || *got.FailureReason != c.reason {
			t.Errorf("%s: got %+v %v, want it failed", c.name, got, err)
		}
		h.wantBalances("1000000", "0")
		if err := h.endOrder(o, c.end); err == nil {
			t.Errorf("%s, a second end: got no error, want one", c.name)
		}
		h.wantBalances("1000000", "0")
		h.wantEvents(w.ID, want...)
	}
}

// H-78.
func TestPolicyRefusalGoesBackToAPerson(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, remove := range []bool{false, true} {
		w := h.mustRequest(h.newRequest())
		h.inSystem(func(ctx context.Context, tx pg.Tx) error {
			// Dispatch does this to its order at that moment.
			if _, err := tx.Exec(
				ctx, `UPDATE dispatch_orders SET status = 'REFUSED' WHERE order_id = $1`, w.ID,
			); err != nil {
				return err
			}
			return h.OnRefused(ctx, tx, h.loadOrder(w), &signer.Refusal{Code: signer.PolicyLimit})
		})
		got, err := h.ByID(t.Context(), h.org, w.ID)
		if err != nil || got.Status != "AWAITING_APPROVAL" || !got.RequiresApproval ||
			got.ApprovalReasons[0] != "POLICY_LIMIT" {
			t.Fatalf("got %+v %v, want it to wait with POLICY_LIMIT", got, err)
		}
		if remove {
			if _, err := h.Remove(t.Context(), h.org, w.ID, person, ""); err != nil {
				t.Fatal(err)
			}
			if got := h.orderStatus(w.ID); got != "WITHDRAWN" {
				t.Errorf("order: got %v, want WITHDRAWN", got)
			}
			h.wantBalances("999000", "1000") // the first one's hold alone
			continue
		}
		if _, err := h.Approve(t.Context(), h.org, w.ID, person); err != nil {
			t.Fatal(err)
		}
		if got := h.orderStatus(w.ID); got != "QUEUED" {
			t.Errorf("order: got %v, want QUEUED", got)
		}
	}
}

// A repeated request on a database that has lost the first one: nothing is paid, and a person sees
// why.
func TestAPaymentOfAKeyThatTheJournalKnowsWaitsForAPerson(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		if _, err := tx.Exec(
			ctx, `UPDATE dispatch_orders SET status = 'REFUSED' WHERE order_id = $1`, w.ID,
		); err != nil {
			return err
		}
		return h.OnRefused(ctx, tx, h.loadOrder(w), &signer.Refusal{Code: signer.RefusedKey})
	})
	got, err := h.ByID(t.Context(), h.org, w.ID)
	if err != nil || got.Status != "AWAITING_APPROVAL" || got.ApprovalReasons[0] != "DUPLICATE_KEY" {
		t.Fatalf("got %+v %v, want it to wait with DUPLICATE_KEY", got, err)
	}
	h.wantBalances("999000", "1000")
}

// Rule WD-5.
func TestRemoveNeverGivesBackWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	// A row that was tampered with: it waits for approval, and its order has a slot.
	h.execAsOwner(`UPDATE dispatch_orders SET status = 'SLOTTED' WHERE order_id = '`+w.ID+`'`,
		`UPDATE withdrawals SET status = 'AWAITING_APPROVAL', approval_reasons = '{POLICY_LIMIT}' WHERE withdrawal_id = '`+w.ID+`'`)
	if _, err := h.Remove(t.Context(), h.org, w.ID, person, ""); err == nil || fault.Find(err) != nil {
		t.Errorf("got %v, want an error of ours", err)
	}
	h.wantBalances("999000", "1000")
}

// Rule LIST-1.
func TestListWalksAndFilters(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key, reference := "k", "order-77"
	var ids []string
	for i := range 5 {
		r := h.newRequest()
		if i == 3 {
			r.IdempotencyKey, r.Reference, r.RequireApproval = &key, &reference, true
		}
		ids = append(ids, h.mustRequest(r).ID)
	}
	var walked []string
	for at := (pagination.Page{Limit: 2}); ; {
		found, err := h.List(t.Context(), h.org, Filter{}, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range found.Items {
			walked = append(walked, w.ID)
		}
		if found.NextCursor == nil {
			break
		}
		at.Cursor = found.NextCursor
	}
	if len(walked) != 5 || walked[0] != ids[0] || walked[4] != ids[4] {
		t.Errorf("got %v, want %v", walked, ids)
	}
	mintID, other := usdc, eth
	for name, c := range map[string]struct {
		f    Filter
		want int
	}{
		"customer":       {Filter{CustomerID: alice}, 5},
		"other customer": {Filter{CustomerID: "bob"}, 0},
		"status":         {Filter{Status: "AWAITING_APPROVAL"}, 1},
		"mint":           {Filter{MintID: &mintID}, 5},
		"other mint":     {Filter{MintID: &other}, 0},
		"key":            {Filter{IdempotencyKey: key}, 1},
		"reference":      {Filter{Reference: reference}, 1},
		"address":        {Filter{Address: "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"}, 5},
		"hash":           {Filter{TxHash: "0xaa"}, 0},
		"chain":          {Filter{Chain: "ETHEREUM"}, 5},
	} {
		found, err := h.List(t.Context(), h.org, c.f, pagination.Page{})
		if err != nil || len(found.Items) != c.want {
			t.Errorf("%s: got %v %v, want %v", name, len(found.Items), err, c.want)
		}
	}
}

// A payment is found by its current or a replaced hash, without a scan of all the others. Rule
// LIST-1.
func TestAHashFindsItsPaymentAmongMany(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.mustRequest(h.newRequest()).ID
	super, err := pgx.Connect(t.Context(), pgtest.DatabaseOf(t, h.DB).SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	const many = 20_000
	if _, err := super.Exec(t.Context(), fmt.Sprintf(`
		SET session_replication_role = replica;
		INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval, approval_reasons, decision, created_at, tx_hash, replaced_tx_hashes)
		SELECT 'wd_many' || n, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, 'COMPLETED', requires_approval, approval_reasons, decision, created_at,
			'0x' || n, CASE WHEN n %% 2 = 0 THEN ARRAY['0xold' || n] ELSE '{}' END
		FROM withdrawals, generate_series(1, %[2]d) n WHERE withdrawal_id = '%[1]s';
		INSERT INTO dispatch_orders SELECT (jsonb_populate_record(o, jsonb_build_object('order_id', 'wd_many' || n, 'key_hash', ''))).*
		FROM dispatch_orders o, generate_series(1, %[2]d) n WHERE order_id = '%[1]s';
		INSERT INTO dispatch_attempts (order_id, version, org_id, act, gas_limit, tip_cap, fee_cap, payload, raw, tx_hash, created_at, signed_at)
		SELECT withdrawal_id, v, org_id, 'PAY', 1, 1, 1, '', '', CASE v WHEN 1 THEN tx_hash ELSE replaced_tx_hashes[1] END, created_at, created_at
		FROM withdrawals, generate_series(1, 2) v WHERE withdrawal_id <> '%[1]s' AND v <= 1 + cardinality(replaced_tx_hashes);
		ANALYZE withdrawals, dispatch_attempts`, id, many)); err != nil {
		t.Fatal(err)
	}
	for hash, want := range map[string]string{
		"0x777": "wd_many777", "0xold888": "wd_many888", "0xOLD888": "wd_many888", "0xold777": "",
	} {
		f := Filter{TxHash: hash}
		found, err := h.List(t.Context(), h.org, f, pagination.Page{})
		if err != nil || len(found.Items) > 1 || len(found.Items) == 1 != (want != "") ||
			want != "" && found.Items[0].ID != want {
			t.Errorf("%s: got %v and %v, want %s alone", hash, found.Items, err, want)
		}
		sql, args := h.orgQuery(h.org, f).BuildPage(pagination.Page{}, "w.created_at", "w.withdrawal_id")
		err = h.DB.ReadOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
			rows, err := tx.Query(ctx, "EXPLAIN "+sql, args...)
			if err != nil {
				return err
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if all := strings.Join(plan, "\n"); !strings.Contains(all, "dispatch_attempts_hash_unique") ||
				strings.Contains(all, "withdrawals_listed") || strings.Contains(all, "Seq Scan") {
				t.Errorf("%s: got the plan\n%s\nwant it entered by the hash", hash, all)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestARepetitionThatWasOvertakenNeverHoldsUpARemoval(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner := pgtest.OwnerPool(t, h.DB)
	key := "one-key"
	r := Request{
		MintID: usdc, CustomerID: alice, Amount: "10", ToAddress: stranger, RequireApproval: true,
		IdempotencyKey: &key, Actor: audit.APIKey(h.org),
	}
	first := r
	var made Withdrawal
	removal, err := owner.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = removal.Rollback(context.WithoutCancel(t.Context())) }()
	r.Limit = func() (err error) {
		// The key was new when the repetition looked. Now it is taken, and a removal has locked its
		// row.
		if made, _, err = h.Request(t.Context(), h.org, first); err != nil {
			return err
		}
		_, err = removal.Exec(
			t.Context(), `UPDATE withdrawals SET status = status WHERE withdrawal_id = $1`, made.ID,
		)
		return err
	}
	answered := make(chan error, 1)
	go func() {
		again, replayed, err := h.Request(t.Context(), h.org, r)
		if err == nil && (!replayed || again.ID != made.ID) {
			t.Errorf("got %s, replayed %v, want %s again", again.ID, replayed, made.ID)
		}
		answered <- err
	}()
	pgtest.Eventually(t, func() bool {
		if len(answered) > 0 {
			t.Fatalf("the repetition: %v, before the removal ended", <-answered)
		}
		var waiting bool
		err := owner.QueryRow(
			t.Context(),
			`SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`,
		).Scan(&waiting)
		return err == nil && waiting
	}, "the repetition waits for the removal")
	// The next lock of the removal: the balance that it releases.
	if _, err := removal.Exec(t.Context(), `SELECT FROM ledger_balances FOR NO KEY UPDATE`); err != nil {
		t.Errorf("the removal: %v", err)
	}
	if err := removal.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-answered; err != nil {
		t.Errorf("the repetition: %v", err)
	}
	if n := h.DB.Counts().Deadlocks; n != 0 {
		t.Errorf("got %d deadlocks, want 0", n)
	}
}
