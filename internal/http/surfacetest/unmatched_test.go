package surfacetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// strayPayment lets USDC arrive at a shared address without a key, as the walk of the chain writes it, and CHECKOUT has
// the money. It returns the deposit.
func (h *testEnv) strayPayment(who tenant, key string, units uint64) string {
	h.t.Helper()
	depositID := id.Derive("dep", who.id, key)
	checkoutID := h.makeCheckout(who, "address-of-"+depositID)
	h.openOption(who, checkoutID, usdc)
	_, err := pgtest.OwnerPool(h.t, h.db).Exec(h.t.Context(), fmt.Sprintf(`
		BEGIN; SET LOCAL session_replication_role = replica;
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, product, mint_id, chain, contract, amount,
			address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status,
			chain_status, created_at, credited_at)
		SELECT '%[2]s', o.org_id, w.wallet_id, 'CHECKOUT_SHARED', 'CHECKOUT', %[3]d, 'ETHEREUM', '%[4]s', %[5]d,
			w.address, '0xpayer', '%[2]s', 'TOKEN', '1', 1, 1, 'h', 1, 'CREDITED', 'FINALIZED', now(), now()
		FROM checkout_options o JOIN wallets w ON w.wallet_id = o.wallet_id
		WHERE o.checkout_id = '%[1]s' AND o.mint_id = %[3]d;
		COMMIT`, checkoutID, depositID, usdc, usdcAddress, units))
	if err != nil {
		h.t.Fatal(err)
	}
	mintID := usdc
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return h.conf.Checkouts.OnArrivals(ctx, tx, []checkout.Arrival{{
			DepositID: depositID, OrgID: who.id, IsShared: true, MintID: &mintID, Chain: chain.Ethereum,
			Amount: money.Units(units), Tx: chain.TxHash(depositID), IsNew: true, Status: outcome.PaymentCredited,
			BlockTime: time.Now(),
		}})
	})
	if err != nil {
		h.t.Fatal(err)
	}
	h.fundShop(who, "payer-"+depositID, units)
	return depositID
}

// What named no checkout is listed until a key assigns it, with the checkouts that asked for just this amount. Rules
// CO-101 and CO-107.
func TestAKeyAssignsAnUnmatchedPayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	reads, _ := h.key(h.one, identity.ScopeRead)
	holds, _ := h.key(h.one, identity.ScopeNoMoneyOut)
	wanted := h.makeCheckout(h.one, "wanted")
	var asked struct {
		Amount string `json:"amount"`
	}
	if err := json.Unmarshal(h.openOption(h.one, wanted, usdc).raw, &asked); err != nil {
		t.Fatal(err)
	}
	units := money.MustParse(asked.Amount)
	n, _ := units.Uint64()
	depositID := h.strayPayment(h.one, "stray", n)
	path := "/unmatched-payments/" + depositID
	list := h.wantStatus(h.call(h.one, "GET", "/unmatched-payments", nil), 200).list()
	suggested, _ := list[0]["suggestedCheckoutIds"].([]any)
	if len(list) != 1 || list[0]["depositId"] != depositID || list[0]["reason"] != "NO_REFERENCE" ||
		list[0]["amount"] != asked.Amount || !slices.Contains(suggested, any(wanted)) {
		t.Fatalf("got the list %v, want the payment, which may be of %s", list, wanted)
	}
	if rows := h.cells(h.one, "/unmatched-payments"); len(rows) != 1 || rows[0]["depositId"] != depositID {
		t.Errorf("got the table %v, want the payment", rows)
	}
	for name, c := range map[string]struct {
		who    tenant
		path   string
		body   any
		status int
		code   fault.Code
		param  string
	}{
		"another's payment": {h.two, path, map[string]any{"checkoutId": wanted}, 404, fault.CodeNotFound, ""},
		"to no checkout":    {h.one, path, map[string]any{"checkoutId": "co_absent"}, 404, fault.CodeNotFound, ""},
		"a payment that is not": {
			h.one, "/unmatched-payments/dep_x", map[string]any{"checkoutId": wanted}, 404, fault.CodeNotFound, "",
		},
		"without a checkout": {h.one, path, map[string]any{}, 400, fault.InvalidRequest, "checkoutId"},
	} {
		h.wantRefusal(name, h.call(c.who, "POST", c.path+"/assign", c.body), c.status, string(c.code), c.param)
	}
	h.wantRefusal("by a key that reads", h.call(reads, "POST", path+"/assign",
		map[string]any{"checkoutId": wanted}), 403, string(fault.ScopeMissing), "")
	assigned := h.wantStatus(h.call(holds, "POST", path+"/assign", map[string]any{"checkoutId": wanted}), 200)
	if assigned.text("assignedCheckoutId") != wanted || len(assigned.body["suggestedCheckoutIds"].([]any)) != 0 {
		t.Errorf("got %s, want that it is of %s", assigned.raw, wanted)
	}
	again := h.wantStatus(h.call(holds, "POST", path+"/assign", map[string]any{"checkoutId": wanted}), 200)
	if string(again.raw) != string(assigned.raw) {
		t.Errorf("again: got %s, want %s", again.raw, assigned.raw)
	}
	if read := h.wantStatus(h.call(h.one, "GET", path, nil), 200); string(read.raw) != string(assigned.raw) {
		t.Errorf("read: got %s, want %s", read.raw, assigned.raw)
	}
	h.wantRefusal("to another checkout", h.call(h.one, "POST", path+"/assign",
		map[string]any{"checkoutId": h.makeCheckout(h.one, "other")}), 409, string(fault.InvalidState), "")
	if left := h.wantStatus(h.call(h.one, "GET", "/unmatched-payments", nil), 200).list(); len(left) != 0 {
		t.Errorf("got the list %v, want nothing", left)
	}
	if err := h.conf.Checkouts.Settle(t.Context(), wanted); err != nil {
		t.Fatal(err)
	}
	if got := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+wanted, nil), 200); got.text("status") != "COMPLETED" {
		t.Errorf("got the checkout %s, want it COMPLETED", got.raw)
	}
}

// An unmatched payment is given back as a whole, once for a key. Rule CO-108.
func TestAnUnmatchedPaymentIsRefundedOverHTTP(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	holds, _ := h.key(h.one, identity.ScopeNoMoneyOut)
	depositID := h.strayPayment(h.one, "stray", 40_000_000)
	path := "/unmatched-payments/" + depositID + "/refund"
	before := h.refundRows()
	h.wantRefusal("another's", h.call(h.two, "POST", path, map[string]any{}), 404, string(fault.CodeNotFound), "")
	h.wantRefusal("to nowhere", h.call(h.one, "POST", path, map[string]any{"toAddress": "nowhere"}), 400,
		string(fault.InvalidAddress), "toAddress")
	h.wantRefusal("by a key that moves nothing", h.call(holds, "POST", path,
		map[string]any{}), 403, string(fault.ScopeMissing), "")
	if after := h.refundRows(); after != before {
		t.Errorf("what was refused wrote rows: got %s, want %s", after, before)
	}
	body := map[string]any{"idempotencyKey": "back", "reason": "no order"}
	made := h.wantStatus(h.call(h.one, "POST", path, body), 201)
	if made.text("amount") != "40000000" || made.text("kind") != "FULL" || made.text("claimUrl") == "" ||
		made.text("status") != "AWAITING_ADDRESS" {
		t.Errorf("got %s, want a refund of all with the page of its payer", made.raw)
	}
	own := h.wantStatus(h.call(h.one, "GET", "/checkouts/"+made.text("checkoutId"), nil), 200)
	metadata, _ := own.body["metadata"].(map[string]any)
	if own.text("status") != "CANCELLED" || metadata["unmatchedDepositId"] != depositID {
		t.Errorf("got the checkout %s, want one of its own that is CANCELLED", own.raw)
	}
	again := h.wantStatus(h.call(h.one, "POST", path, body), 201)
	if again.text("refundId") != made.text("refundId") || again.text("claimUrl") != "" ||
		again.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("the same key: got %s, want the refund without its key", again.raw)
	}
	h.wantRefusal("the key with another address", h.call(h.one, "POST", path,
		map[string]any{"idempotencyKey": "back", "toAddress": stranger}), 409,
		string(fault.IdempotencyConflict), "idempotencyKey")
	h.wantRefusal("the rest", h.call(h.one, "POST", path, map[string]any{}), 422,
		string(fault.RefundExceedsPayment), "amount")
}
