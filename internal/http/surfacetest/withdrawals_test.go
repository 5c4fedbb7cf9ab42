package surfacetest

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

// threshold sets the amount up to which a tenant's customers withdraw without a person.
func (h *testEnv) threshold(who tenant, usd string) {
	h.t.Helper()
	limit := money.MustParseUSD(usd)
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.Operator("test"), who.id, &limit)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

func gatesOf(r map[string]any) map[string]map[string]any {
	out := map[string]map[string]any{}
	list, _ := r["gates"].([]any)
	for _, g := range list {
		g := g.(map[string]any)
		out[g["gate"].(string)] = g
	}
	return out
}

// Rule WD-28.
func TestAPreviewShowsEveryGateAndMovesNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.threshold(h.one, "0.0009")
	before := h.rowCounts()
	got := h.wantStatus(h.call(h.one, "POST", "/withdraw/preview", payment()), 200)
	gates := gatesOf(got.body)
	if got.text("wouldBe") != "AWAITING_APPROVAL" || got.body["approvalReasons"].([]any)[0] != "USD_THRESHOLD" ||
		got.text("networkFee") == "" || got.body["networkFeeMintId"] != float64(eth) {
		t.Errorf("got %s, want it to wait because of its value", got.raw)
	}
	if g := gates["USD_THRESHOLD"]; g["result"] != "HOLD" || g["usdValue"] != "0.0009998" ||
		g["threshold"] != "0.0009" || g["price"] != "0.9998" {
		t.Errorf("got %v, want the value and the threshold", g)
	}
	for gate, result := range map[string]string{
		"ADDRESS": "PASS", "RISK": "NOT_CONFIGURED", "LIQUIDITY": "PASS", "BALANCE": "PASS",
	} {
		if gates[gate]["result"] != result {
			t.Errorf("%s: got %v, want %s", gate, gates[gate], result)
		}
	}
	refused := h.call(h.one, "POST", "/withdraw/preview", payment("amount", "5000000"))
	h.wantRefusal("too much", refused, 422, "INSUFFICIENT_BALANCE", "amount")
	details, _ := refused.body["details"].(map[string]any)
	if g := gatesOf(details)["BALANCE"]; g["result"] != "REFUSE" || g["available"] != "1000000" {
		t.Errorf("got %s, want the gates up to the one that refused", refused.raw)
	}
	if after := h.rowCounts(); after != before {
		t.Errorf("rows: got %v, want %v", after, before)
	}
	made := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
	if made.text("status") != got.text("wouldBe") {
		t.Errorf("got %v, want what the preview said", made.text("status"))
	}
	again := h.wantStatus(h.call(h.one, "POST", "/withdraw/preview", payment(), "Idempotency-Key", "k"), 200)
	if again.text("existingId") != made.text("withdrawalId") || again.text("wouldBe") != "AWAITING_APPROVAL" {
		t.Errorf("got %s, want the withdrawal that has the key", again.raw)
	}
	h.wantRefusal(
		"another request with the key",
		h.call(h.one, "POST", "/withdraw/preview", payment("amount", "2000"), "Idempotency-Key", "k"), 409,
		"IDEMPOTENCY_CONFLICT", "idempotencyKey",
	)
	h.wantRefusal(
		"two keys",
		h.call(h.one, "POST", "/withdraw/preview", payment("idempotencyKey", "a"), "Idempotency-Key", "k"), 400,
		"IDEMPOTENCY_KEY_MISMATCH", "idempotencyKey",
	)
}

func TestAnEstimateIsAnswered(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	before := h.rowCounts()
	got := h.wantStatus(
		h.call(h.one, "POST", "/withdraw/estimate", map[string]any{"mintId": usdc, "customerId": alice}), 200,
	)
	if got.text("networkFee") == "" || got.text("networkFee") == "0" || got.text("maxAmount") != "1000000" ||
		got.text("expiresAt") == "" || got.body["networkFeeUsd"] != nil {
		t.Errorf("got %s, want the fee, all that alice has, and no value without a price of the coin", got.raw)
	}
	// The whole body of a withdrawal may be sent.
	whole := payment("requireApproval", true, "idempotencyKey", "k", "reference", "r", "metadata",
		map[string]string{"a": "b"}, "maxNetworkFee", "7", "feeMode", "ORGANIZATION", "useDecimal", false, "memo", nil)
	h.wantStatus(h.call(h.one, "POST", "/withdraw/estimate", whole), 200)
	h.wantStatus(h.call(h.two, "POST", "/withdraw/estimate", map[string]any{"mintId": eth}), 200)
	if after := h.rowCounts(); after != before {
		t.Errorf("rows: got %v, want %v", after, before)
	}
}

// Rules WD-24, WD-25.
func TestACancelledWithdrawalIsShownWithItsDecisions(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("requireApproval", true)), 202).text("withdrawalId")
	path := "/withdrawals/" + held
	h.wantRefusal("another tenant's", h.call(h.two, "POST", path+"/cancel", nil), 404, "NOT_FOUND", "")
	h.wantRefusal("another tenant's decisions", h.call(h.two, "GET", path+"/decisions", nil), 404, "NOT_FOUND", "")
	for _, id := range []string{
		"wd_1", "wd_" + strings.Repeat("0", 26), "%00", "%27", "dep_" + strings.Repeat("0", 26),
	} {
		h.wantRefusal(id, h.call(h.one, "POST", "/withdrawals/"+id+"/cancel", nil), 404, "NOT_FOUND", "")
		h.wantRefusal(id, h.call(h.one, "GET", "/withdrawals/"+id+"/decisions", nil), 404, "NOT_FOUND", "")
	}
	h.wantRefusal("a query", h.call(h.one, "POST", path+"/cancel?now=true", nil), 400, "UNKNOWN_FIELD", "now")

	var won, lost int
	answers := make([]reply, 8)
	crowd(len(answers), func(i int) { answers[i] = h.call(h.one, "POST", path+"/cancel", nil) })
	for _, a := range answers {
		switch {
		case a.status == 200 && a.text("status") == "CANCELLED":
			won++
		case a.status == 409 && a.text("code") == "INVALID_STATE" && a.text("currentStatus") == "CANCELLED":
			lost++
		default:
			t.Errorf("got %v %s, want it cancelled or told so", a.status, a.raw)
		}
	}
	if won != 1 || lost != len(answers)-1 {
		t.Errorf("got %d that won and %d that lost, want 1 and %d", won, lost, len(answers)-1)
	}
	if got := h.wantStatus(
		h.call(h.one, "GET", "/customers/alice/balances", nil), 200,
	).list()[0]; got["available"] != "1000000" || got["pendingWithdraw"] != "0" {
		t.Errorf("got %v, want all of it back", got)
	}
	all := h.wantStatus(h.call(h.one, "GET", path+"/decisions", nil), 200).list()
	if len(all) != 2 || all[0]["act"] != "REQUESTED" || all[0]["status"] != "AWAITING_APPROVAL" ||
		all[1]["act"] != "CANCELLED" ||
		all[1]["actor"].(map[string]any)["type"] != "API_KEY" ||
		gatesOf(all[0])["REQUIRE_APPROVAL"]["result"] != "HOLD" {
		t.Errorf("got %v, want the request and the cancellation", all)
	}
	out := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment()), 202).text("withdrawalId")
	late := h.call(h.one, "POST", "/withdrawals/"+out+"/cancel", nil)
	h.wantRefusal("under way", late, 409, "INVALID_STATE", "")
	if late.text("currentStatus") != "PROCESSING" {
		t.Errorf("got %s, want the current status", late.raw)
	}
}

// Rules WD-27, WD-29.
func TestWhatAWithdrawalSaysOfItsFee(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.coins(h.one, alice, 1_000_000_000_000_000)
	rule := map[string]any{"beneficiary": map[string]any{"name": "Ann", "country": nil}}
	got := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment(
		"mintId",
		eth, "amount", "900000000000000", "feeMode", "DEDUCTED", "maxNetworkFee", "900000000000000", "travelRule", rule,
	)), 202)
	if got.text("status") != "PROCESSING" || got.text("feeMode") != "DEDUCTED" || got.text("networkFee") == "" ||
		got.text("maxNetworkFee") != "900000000000000" {
		t.Errorf("got %s, want the fee that is deducted", got.raw)
	}
	if said, _ := got.body["travelRule"].(map[string]any); said["beneficiary"].(map[string]any)["name"] != "Ann" {
		t.Errorf("got %s, want what was said of the parties", got.raw)
	}
	small := h.call(h.one, "POST", "/withdraw", payment("mintId", eth, "amount", "1000", "feeMode", "DEDUCTED"))
	h.wantRefusal("less than the fee", small, 400, "AMOUNT_BELOW_MINIMUM", "amount")
	if details, _ := small.body["details"].(map[string]any); details["networkFee"] == nil {
		t.Errorf("got %s, want the fee in the details", small.raw)
	}
	plain := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment()), 202)
	for _, name := range []string{"maxNetworkFee", "travelRule"} {
		if _, there := plain.body[name]; there {
			t.Errorf("got %s in %s, want none", name, plain.raw)
		}
	}
	if plain.body["networkFee"] != nil || plain.text("feeMode") != "ORGANIZATION" {
		t.Errorf("got %s, want a fee that is not known yet", plain.raw)
	}
}

// coins credits a customer with the chain's own coin, on the treasury.
func (h *testEnv) coins(who tenant, customerID string, n uint64) {
	h.t.Helper()
	treasury, err := h.book.Treasury(h.t.Context(), who.id, "EVM")
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		if err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: treasury.ID, OrgID: who.id, MintID: eth, Part: wallet.Credited, Plus: money.Units(n),
		}); err != nil {
			return err
		}
		return postDeposit(ctx, tx, who.id, customerID, n)
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// Rule WD-30.
func TestWithdrawalsAreFoundByEveryFilter(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.wantStatus(h.call(
		h.one, "POST", "/withdraw", payment("customerId", alice, "idempotencyKey", "first", "reference", "order-1"),
	), 202)
	h.deposit(h.one, "bob", 5000)
	second := h.wantStatus(h.call(h.one, "POST", "/withdraw",
		payment("customerId", "bob", "idempotencyKey", "second", "reference", "order-2",
			"toAddress", "0xfb6916095ca1df60bb79ce92ce3ea74c37c5d358", "requireApproval", true)), 202)
	for query, want := range map[string]int{
		"":                                     2,
		"customerId=bob":                       1,
		"customerId=Bob":                       0,
		"status=AWAITING_APPROVAL":             1,
		"status=CANCELLED":                     0,
		"mintId=1":                             2,
		"mintId=2":                             0,
		"chain=ETHEREUM":                       2,
		"chain=BASE":                           0,
		"createdAfter=2000-01-01T00:00:00Z":    2,
		"createdBefore=2000-01-01T00:00:00Z":   0,
		"txHash=0xAA":                          0,
		"reference=order-2":                    1,
		"reference=order":                      0,
		"idempotencyKey=second":                1,
		"idempotencyKey=Second":                0,
		"address=" + stranger:                  1,
		"address=" + strings.ToLower(stranger): 1,
		"address=0x" + strings.ToUpper("fB6916095ca1df60bB79Ce92cE3Ea74c37c5d358"):          1,
		"customerId=bob&status=AWAITING_APPROVAL&reference=order-2&mintId=1&chain=ETHEREUM": 1,
		"customerId=bob&reference=order-1":                                                  0,
	} {
		found := h.wantStatus(h.call(h.one, "GET", "/withdrawals?"+query, nil), 200).list()
		if len(found) != want {
			t.Errorf("%s: got %d, want %d", query, len(found), want)
		}
		if query == "idempotencyKey=second" && want == 1 && found[0]["withdrawalId"] != second.text("withdrawalId") {
			t.Errorf("%s: got %v, want %v", query, found[0]["withdrawalId"], second.text("withdrawalId"))
		}
		if n := len(h.wantStatus(h.call(h.two, "GET", "/withdrawals?"+query, nil), 200).list()); n != 0 {
			t.Errorf("%s, by another tenant: got %d, want 0", query, n)
		}
	}
	up, down := ids(h, "asc"), ids(h, "desc")
	slices.Reverse(down)
	if len(up) != 2 || !slices.Equal(up, down) {
		t.Errorf("got %v and, the other way, %v", up, down)
	}
}

func ids(h *testEnv, order string) (out []string) {
	for _, w := range h.wantStatus(h.call(h.one, "GET", "/withdrawals?order="+order, nil), 200).list() {
		out = append(out, w["withdrawalId"].(string))
	}
	return out
}

// A later requirement of keys does not refuse a request whose key is known. Rule IDEM-6.
func TestAWithdrawalWithoutAKeyIsRefusedWhereOneIsDemanded(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	with := payment("idempotencyKey", "k")
	h.wantStatus(h.call(h.one, "POST", "/withdraw", with), 202)
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return org.SetRequireWithdrawIdempotency(ctx, tx, audit.Operator("test"), h.one.id, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	before := h.rowCounts()
	h.wantRefusal("without", h.call(h.one, "POST", "/withdraw", payment()), 400, "INVALID_REQUEST", "idempotencyKey")
	h.wantRefusal("preview without", h.call(h.one, "POST", "/withdraw/preview", payment()), 400, "INVALID_REQUEST",
		"idempotencyKey")
	if got := h.wantStatus(
		h.call(h.one, "POST", "/withdraw", with), 202,
	); got.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("got %v, want the first one again", maps.Clone(got.header))
	}
	if after := h.rowCounts(); after != before {
		t.Errorf("rows: got %v, want %v", after, before)
	}
	h.wantStatus(h.call(h.one, "POST", "/withdraw", payment(), "Idempotency-Key", "another"), 202)
	h.wantStatus(h.call(h.two, "POST", "/withdrawals/wd_1/cancel", nil), 404)
}

// postDeposit posts the credit of a customer's coin.
func postDeposit(ctx context.Context, tx pg.Tx, orgID, customerID string, n uint64) error {
	account := func(k ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: orgID, MintID: eth, Kind: k, Subject: subject}
	}
	return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
		Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_coin_" + customerID},
		Legs: []ledger.Leg{
			{Debit: account(ledger.Custody, ""), Credit: account(ledger.Customer, customerID), Amount: money.Units(n)},
		},
	})
}
