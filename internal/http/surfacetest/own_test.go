package surfacetest

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const vault = "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC"

// onlyVault is a list of one address.
type onlyVault struct{}

func (onlyVault) Usable(context.Context, pg.Tx, string, string) (withdrawal.WhitelistEntry, error) {
	return withdrawal.WhitelistEntry{Chain: chain.Ethereum, Address: stranger}, nil
}

// The API key shows what a person withdraws, and creates no withdrawal itself. Rules OW-1, BAL-1,
// BAL-2.
func TestAnOrganizationsOwnWithdrawalIsShownAndNotMadeByAKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.conf.Withdrawals.Whitelist = onlyVault{}
	h.wantStatus(h.call(
		h.one, "POST", "/transfers", charge("k", "amount", "100000", "to", map[string]any{"product": "CHECKOUT"}),
	), 201)
	var ann member.Member
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		if _, err = org.ChangeSettings(
			ctx, tx, audit.Operator("test"), h.one.id, org.Changes{"twoFactorUsdThreshold": []byte(`"0"`)},
		); err != nil {
			return err
		}
		ann, err = member.Add(ctx, tx, audit.Operator("test"), h.one.id, "ann@example.com", "Ann", identity.Owner)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	before := h.rowCounts()
	for _, field := range []string{"type", "product", "whitelistedAddressId"} {
		for _, path := range []string{"/withdraw", "/withdraw/preview", "/withdraw/estimate"} {
			h.wantRefusal(path+" with "+field, h.call(h.one, "POST", path, payment(field, "CHECKOUT")), 400,
				"UNKNOWN_FIELD", field)
		}
	}
	for _, path := range []string{"/withdraw", "/withdraw/preview"} {
		h.wantRefusal(
			path+" of a product", h.call(h.one, "POST", path, payment("customerId", "CHECKOUT", "toAddress", stranger)),
			422, "INSUFFICIENT_BALANCE", "amount",
		)
		h.wantRefusal(path+" without a customer", h.call(h.one, "POST", path, payment("customerId", nil)), 400,
			"INVALID_REQUEST", "customerId")
		h.wantRefusal(path+" to an entry", h.call(h.one, "POST", path, payment("toAddress", vault)), 400,
			"INVALID_ADDRESS", "toAddress")
	}
	if after := h.rowCounts(); after != before {
		t.Errorf("rows: got %v, want %v", after, before)
	}

	made, _, err := h.conf.Withdrawals.RequestOrganization(t.Context(), ann, withdrawal.OrganizationRequest{
		Product: "CHECKOUT", MintID: usdc, WhitelistedAddressID: vault, Amount: "40000",
	})
	if err != nil {
		t.Fatal(err)
	}
	customers := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment()), 202)
	if swapID, isThere := customers.body["organizationSwapId"]; !isThere || swapID != nil {
		t.Errorf("got %s, want a customer's withdrawal of no swap", customers.raw)
	}
	got := h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+made.ID, nil), 200)
	if id, there := got.body["customerId"]; !there || id != nil || got.text("type") != "ORGANIZATION" ||
		got.text("product") != "CHECKOUT" ||
		got.text("whitelistedAddressId") != vault || got.text("status") != "AWAITING_APPROVAL" {
		t.Errorf("got %s, want the organization's own", got.raw)
	}
	for query, want := range map[string]int{
		"": 2, "?type=ORGANIZATION": 1, "?type=CUSTOMER": 1, "?customerId=CHECKOUT": 0,
	} {
		found := h.wantStatus(h.call(h.one, "GET", "/withdrawals"+query, nil), 200).list()
		if len(found) != want {
			t.Errorf("%q: got %d, want %d", query, len(found), want)
		}
		if query == "?type=CUSTOMER" && (found[0]["type"] != "CUSTOMER" || found[0]["product"] != nil) {
			t.Errorf("%q: got %v, want a customer's", query, found[0])
		}
	}
	const swapID = "os_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	paid, err := h.conf.Withdrawals.RequestSwapPayout(t.Context(), h.one.id, withdrawal.SwapPayoutRequest{
		SwapID: swapID, Product: "CHECKOUT", MintID: usdc, Total: money.Units(1000), WhitelistedID: vault,
		Key: "swap " + swapID,
	})
	if err != nil {
		t.Fatal(err)
	}
	for withdrawalID, want := range map[string]any{made.ID: nil, paid.ID: swapID} {
		shown := h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+withdrawalID, nil), 200)
		if got := shown.body["organizationSwapId"]; got != want {
			t.Errorf("withdrawal %s pays the output of %v, want %v", withdrawalID, got, want)
		}
		if key := shown.body["idempotencyKey"]; key != nil {
			t.Errorf("withdrawal %s shows the key %v, which no caller gave", withdrawalID, key)
		}
	}
	h.wantStatus(h.call(h.one, "POST", "/withdrawals/"+paid.ID+"/cancel", nil), 200)
	h.wantRefusal("another type", h.call(h.one, "GET", "/withdrawals?type=product", nil), 400, "INVALID_REQUEST",
		"type")
	h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+made.ID+"/decisions", nil), 200)

	balance := func() (row map[string]any) {
		for _, b := range h.wantStatus(h.call(h.one, "GET", "/balances", nil), 200).list() {
			if b["product"] == "CHECKOUT" {
				row = b
			}
		}
		return row
	}
	if b := balance(); b["available"] != "60000" || b["pending"] != "40000" || b["total"] != "100000" {
		t.Errorf("got %v, want 40000 of it pending", b)
	}
	held := 0
	for _, e := range h.wantStatus(h.call(h.one, "GET", "/ledger/entries?product=CHECKOUT", nil), 200).list() {
		if e["cause"] == "WITHDRAWAL_HOLD" && e["resourceId"] == made.ID {
			held++
		}
	}
	if held != 2 {
		t.Errorf("got %d entries of the hold, want one of each balance", held)
	}
	h.wantStatus(h.call(h.two, "POST", "/withdrawals/"+made.ID+"/cancel", nil), 404)
	h.wantStatus(h.call(h.one, "POST", "/withdrawals/"+made.ID+"/cancel", nil), 200)
	if b := balance(); b["available"] != "100000" || b["pending"] != "0" {
		t.Errorf("got %v, want all of it back", b)
	}
}
