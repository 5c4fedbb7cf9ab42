package withdrawal

import (
	"context"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// The interface's table of customers' withdrawals, with the real service and real rows: one case or
// more for each line, with its end, its events and its holds. Rules WD-3 to WD-5.
func TestCustomersWithdrawalsGoAsTheInterfacesTableSays(t *testing.T) {
	t.Parallel()
	const (
		waits    = "CUSTOMER_WITHDRAW_AWAITING_APPROVAL AWAITING_APPROVAL"
		approved = "CUSTOMER_WITHDRAW_APPROVED PROCESSING"
		sent     = "CUSTOMER_WITHDRAW BROADCAST"
	)
	asks := func(_ *testEnv, r *Request) { r.RequireApproval = true }
	large := func(h *testEnv, _ *Request) {
		limit := money.MustParseUSD("0.000999") // the request is worth 0.001
		h.inSystem(func(ctx context.Context, tx pg.Tx) error {
			return org.SetWithdrawThreshold(ctx, tx, audit.Operator("op"), h.org, &limit)
		})
	}
	trusted := func(h *testEnv, _ *Request) {
		email := "alice@example.com"
		h.inSystem(func(ctx context.Context, tx pg.Tx) error {
			_, err := customer.Edit(ctx, tx, h.org, alice, audit.APIKey(h.org), customer.Change{Email: &email})
			return err
		})
		h.setSetting("approvalAllowlist", `[{"email":"alice@example.com"}]`)
	}
	poor := func(h *testEnv, _ *Request) {
		h.execAsOwner(`UPDATE address_funds SET held = credited WHERE mint_id = 1`)
	}
	approve := func(h *testEnv, id string) (Withdrawal, error) {
		return h.Approve(h.t.Context(), h.org, id, person)
	}
	remove := func(h *testEnv, id string) (Withdrawal, error) {
		return h.Remove(h.t.Context(), h.org, id, person, "")
	}
	for name, c := range map[string]struct {
		before  []func(*testEnv, *Request)
		says    risk.Severity // of the destination, "" for LOW
		reasons []string      // why it waits; nil: it does not
		decide  func(*testEnv, string) (Withdrawal, error)
		goes    bool // to the chain
		told    []string
		left    string // available in the end
		held    string
	}{
		"blocked by risk screening": {
			says: risk.Severe, told: []string{"CUSTOMER_WITHDRAW_BLOCKED BLOCKED"}, left: "1000000", held: "0",
		},
		"blocked, whoever is trusted": {
			before: []func(*testEnv, *Request){trusted}, says: risk.Severe,
			told: []string{"CUSTOMER_WITHDRAW_BLOCKED BLOCKED"}, left: "1000000", held: "0",
		},
		"requireApproval": {
			before: []func(*testEnv, *Request){asks}, reasons: []string{"REQUIRE_APPROVAL"}, told: []string{waits},
			left: "999000", held: "1000",
		},
		"above the threshold": {
			before: []func(*testEnv, *Request){large}, reasons: []string{"USD_THRESHOLD"}, told: []string{waits},
			left: "999000", held: "1000",
		},
		"requireApproval of who is on the list": {
			before: []func(*testEnv, *Request){asks, trusted}, goes: true, told: []string{sent}, left: "999000",
			held: "1000",
		},
		"above the threshold, by who is on the list": {
			before: []func(*testEnv, *Request){large, trusted}, goes: true, told: []string{sent}, left: "999000",
			held: "1000",
		},
		"low liquidity holds who is on the list as well": {
			before: []func(*testEnv, *Request){asks, trusted, poor}, reasons: []string{"LOW_LIQUIDITY"},
			told: []string{waits}, left: "999000", held: "1000",
		},
		"no approval needed": {
			goes: true, told: []string{sent}, left: "999000", held: "1000",
		},
		"approved": {
			before: []func(*testEnv, *Request){asks}, reasons: []string{"REQUIRE_APPROVAL"}, decide: approve,
			goes: true, told: []string{waits, approved, sent}, left: "999000", held: "1000",
		},
		"removed": {
			before: []func(*testEnv, *Request){large}, reasons: []string{"USD_THRESHOLD"}, decide: remove,
			told: []string{waits, "CUSTOMER_WITHDRAW_REJECTED REJECTED"}, left: "1000000", held: "0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, o := newScreenedEnv(t)
			if c.says != "" {
				o.setAnswer(c.says, nil)
			}
			r := h.newRequest()
			for _, set := range c.before {
				set(h, &r)
			}
			w, _, err := h.Request(t.Context(), h.org, r)
			if c.says == risk.Severe {
				w.ID = wantBlocked(t, err, c.says)
				if _, err := approve(h, w.ID); !fault.HasCode(err, fault.InvalidState) {
					t.Errorf("approved although it is blocked: got %v, want %s", err, fault.InvalidState)
				}
			} else if err != nil || !slices.Equal(
				reasonTexts(w.ApprovalReasons), c.reasons,
			) || (w.Status == AwaitingApproval) != (c.reasons != nil) {
				t.Fatalf("got %s %v %v, want it to wait for %v", w.Status, w.ApprovalReasons, err, c.reasons)
			}
			if c.decide != nil {
				if _, err := c.decide(h, w.ID); err != nil {
					t.Fatal(err)
				}
			}
			if got := h.orderStatus(w.ID) == "QUEUED"; got != c.goes {
				t.Fatalf("got an order in the queue: %v, want %v", got, c.goes)
			}
			if c.goes {
				order := h.loadOrder(w)
				h.setOrderStatus(order.ID, "BROADCAST")
				h.inSystem(func(ctx context.Context, tx pg.Tx) error { return h.OnBroadcast(ctx, tx, order, "0xaa") })
			}
			h.wantEvents(w.ID, c.told...)
			h.wantBalances(c.left, c.held)
		})
	}
}
