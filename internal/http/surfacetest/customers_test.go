package surfacetest

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Rules CUS-2, CUS-4, CUS-5.
func TestACustomerIsChangedOnPurposeAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	body := map[string]any{"mintId": usdc, "customerId": "a/b c?", "customerEmail": "a@example.com"}
	h.wantStatus(h.call(h.one, "POST", "/deposit", body), 200)
	const path = "/customers/a%2Fb%20c%3F"
	got := h.wantStatus(h.call(
		h.one, "PATCH", path,
		map[string]any{"customerEmail": "b@example.com", "metadata": map[string]string{"tier": "gold"}},
	), 200)
	if got.text("customerEmail") != "b@example.com" || got.body["metadata"].(map[string]any)["tier"] != "gold" ||
		got.text("customerId") != "a/b c?" {
		t.Errorf("got %s, want both changed", got.raw)
	}
	if read := h.wantStatus(h.call(h.one, "GET", path, nil), 200); string(read.raw) != string(got.raw) {
		t.Errorf("read: got %s, want %s", read.raw, got.raw)
	}
	if again := h.wantStatus(
		h.call(h.one, "POST", "/deposit", body), 200,
	); again.header.Get("Warning") != "customerEmail ignored" {
		t.Errorf("the old e-mail: got the warning %q, want one", again.header.Get("Warning"))
	}
	if kept := h.wantStatus(
		h.call(h.one, "PATCH", path, `{"metadata":{}}`), 200,
	); kept.text("customerEmail") != "b@example.com" || len(kept.body["metadata"].(map[string]any)) != 0 {
		t.Errorf("got %s, want the metadata gone and the e-mail kept", kept.raw)
	}
	before := h.rowCounts()
	for _, c := range []struct{ name, body, code, param string }{
		{"another's field", `{"customerId":"bob"}`, "UNKNOWN_FIELD", "customerId"},
		{"the status", `{"status":"ACTIVE"}`, "UNKNOWN_FIELD", "status"},
		{"another casing", `{"customeremail":"c@example.com"}`, "UNKNOWN_FIELD", "customeremail"},
		{"null for an e-mail", `{"customerEmail":null}`, "INVALID_REQUEST", "customerEmail"},
		{"no e-mail", `{"customerEmail":""}`, "INVALID_REQUEST", "customerEmail"},
		{"no address", `{"customerEmail":"nothing"}`, "INVALID_REQUEST", "customerEmail"},
		{"a header in it", `{"customerEmail":"a@b.example\r\nBcc: c@d.example"}`, "INVALID_REQUEST", "customerEmail"},
		{"full-width letters", `{"customerEmail":"\uff42@example.com"}`, "INVALID_REQUEST", "customerEmail"},
		{"a letter like l", `{"customerEmail":"b@examp\u2113e.com"}`, "INVALID_REQUEST", "customerEmail"},
		{"a joiner", `{"customerEmail":"b\u200d@example.com"}`, "INVALID_REQUEST", "customerEmail"},
		{"a number", `{"customerEmail":1}`, "INVALID_REQUEST", "customerEmail"},
		{"null for metadata", `{"metadata":null}`, "INVALID_REQUEST", "metadata"},
		{"metadata of numbers", `{"metadata":{"a":1}}`, "INVALID_REQUEST", "metadata"},
		{"metadata of nulls", `{"metadata":{"a":null}}`, "INVALID_REQUEST", "metadata"},
		{"metadata of metadata", `{"metadata":{"a":{}}}`, "INVALID_REQUEST", "metadata"},
		{"metadata as a list", `{"metadata":[]}`, "INVALID_REQUEST", "metadata"},
		{"twice", `{"customerEmail":"c@example.com","customerEmail":"d@example.com"}`, "INVALID_JSON", "customerEmail"},
		{
			"one good and one bad",
			`{"customerEmail":"c@example.com","metadata":{"":"x"}}`, "INVALID_REQUEST", "metadata",
		},
		{"a list", `[]`, "INVALID_REQUEST", ""},
		{"nothing", ``, "INVALID_JSON", ""},
	} {
		h.wantRefusal(c.name, h.call(h.one, "PATCH", path, c.body), 400, c.code, c.param)
	}
	for _, absent := range []string{"/customers/bob", "/customers/%00", "/customers/%FF", "/customers/%20"} {
		h.wantRefusal(absent, h.call(h.one, "PATCH", absent, `{"metadata":{}}`), 404, "NOT_FOUND", "")
		h.wantRefusal(absent, h.call(h.one, "POST", absent+"/freeze", nil), 404, "NOT_FOUND", "")
		h.wantRefusal(absent, h.call(h.one, "POST", absent+"/unfreeze", nil), 404, "NOT_FOUND", "")
	}
	h.wantRefusal("another's", h.call(h.two, "PATCH", path, `{"metadata":{}}`), 404, "NOT_FOUND", "")
	h.wantRefusal("another's", h.call(h.two, "POST", path+"/freeze", nil), 404, "NOT_FOUND", "")
	h.wantRefusal("a form", h.call(h.one, "PATCH", path, `{}`, "Content-Type", "application/merge-patch+json"), 415,
		"UNSUPPORTED_MEDIA_TYPE", "")
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	// Nothing to change is no mistake, and writes nothing.
	h.wantStatus(h.call(h.one, "PATCH", path, `{}`), 200)
	h.wantStatus(h.call(h.one, "PATCH", path, `{"customerEmail":"B@EXAMPLE.com"}`), 200)
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

// Rule CUS-6.
func TestAFrozenCustomerReceivesAndPaysNothing(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	held := h.wantStatus(
		h.call(h.one, "POST", "/withdraw", payment("requireApproval", true, "idempotencyKey", "before")), 202,
	)
	for _, body := range []any{nil, `{"reason":"reported"}`, `{}`} {
		if got := h.wantStatus(
			h.call(h.one, "POST", "/customers/alice/freeze", body), 200,
		); got.text("status") != "FROZEN" {
			t.Fatalf("got %s, want alice frozen", got.raw)
		}
	}
	for query, want := range map[string]int{"?status=FROZEN": 1, "?status=ACTIVE": 0} {
		if got := h.wantStatus(h.call(h.one, "GET", "/customers"+query, nil), 200).list(); len(got) != want {
			t.Errorf("%s: got %v, want %d", query, got, want)
		}
	}
	before := h.rowCounts()
	h.wantRefusal("withdrawal", h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 403,
		"CUSTOMER_FROZEN", "customerId")
	h.wantRefusal("transfer", h.call(h.one, "POST", "/transfers", charge("k")), 403, "CUSTOMER_FROZEN",
		"from.customerId")
	for _, c := range []struct{ body, code, param string }{
		{`{"note":"x"}`, "UNKNOWN_FIELD", "note"},
		{`{"reason":1}`, "INVALID_REQUEST", "reason"},
		{`{"reason":"\u0000"}`, "INVALID_REQUEST", "reason"},
		{`{"reason":"` + strings.Repeat("x", 501) + `"}`, "INVALID_REQUEST", "reason"},
		{`[]`, "INVALID_REQUEST", ""},
		{`{`, "INVALID_JSON", ""},
	} {
		h.wantRefusal(c.body, h.call(h.one, "POST", "/customers/alice/freeze", c.body), 400, c.code, c.param)
	}
	h.wantRefusal("a field", h.call(h.one, "POST", "/customers/alice/unfreeze", `{"customerId":"bob"}`), 400,
		"UNKNOWN_FIELD", "customerId")
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	// Earlier rows are shown as they are, and nothing else of alice's stops.
	if got := h.wantStatus(
		h.call(h.one, "POST", "/withdraw", payment("requireApproval", true, "idempotencyKey", "before")), 202,
	); got.text("withdrawalId") != held.text("withdrawalId") {
		t.Errorf("replay: got %s, want %v", got.raw, held.text("withdrawalId"))
	}
	h.wantStatus(h.call(h.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": alice}), 200)
	h.deposit(h.one, "bob", 500)
	h.wantStatus(h.call(h.one, "POST", "/transfers", charge(
		"to-alice",
		"from", map[string]any{"customerId": "bob"}, "to", map[string]any{"customerId": alice}, "amount", "500",
	)), 201)
	h.wantStatus(h.call(h.one, "PATCH", "/customers/alice", `{"metadata":{"case":"7"}}`), 200)

	// The operator's freeze stays when the organization lifts its own.
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: h.one.id, CustomerID: alice, Source: freeze.SourceOperator,
			Reason: "secret of the operator", Actor: audit.Operator("op"),
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.wantStatus(
		h.call(h.one, "POST", "/customers/alice/unfreeze", nil), 200,
	); got.text("status") != "FROZEN" {
		t.Errorf("got %s, want alice frozen by the operator", got.raw)
	}
	h.wantRefusal("withdrawal", h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 403,
		"CUSTOMER_FROZEN", "customerId")
	got := h.call(h.one, "POST", "/customers/alice/unfreeze", nil)
	h.wantRefusal("the operator's", got, 403, "OPERATOR_ONLY", "")
	if strings.Contains(string(got.raw), "secret") {
		t.Errorf("got %s, want nothing of what the operator wrote", got.raw)
	}
	err = h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		all, err := freeze.ListOfCustomer(ctx, tx, h.one.id, alice)
		if err != nil {
			return err
		}
		return freeze.Lift(ctx, tx, all[0].ID, audit.Operator("op"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := h.wantStatus(
			h.call(h.one, "POST", "/customers/alice/unfreeze", nil), 200,
		); got.text("status") != "ACTIVE" {
			t.Errorf("got %s, want alice free", got.raw)
		}
	}
	h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
}

// The answer that a customer is frozen is reliable: no later request goes through, however many run
// at that moment. Rules CUS-6, TR-8.
func TestNothingLeavesAfterAFreezeWasAnswered(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	var frozen atomic.Bool
	var late, taken, stopped atomic.Int64
	crowd(9, func(i int) {
		if i == 8 {
			for taken.Load() < 40 && stopped.Load() == 0 {
				h.call(h.one, "GET", "/customers/alice", nil)
			}
			if got := h.call(h.one, "POST", "/customers/alice/freeze", nil); got.text("status") != "FROZEN" {
				t.Errorf("got %v %s, want alice frozen", got.status, got.raw)
				stopped.Add(40)
			}
			frozen.Store(true)
			return
		}
		for n := 0; stopped.Load() < 40; n++ {
			asked := frozen.Load()
			path, body, done := "/transfers", charge(fmt.Sprint(i, "-", n), "amount", "10"), 201
			if i%2 == 0 {
				path, body, done = "/withdraw", payment("idempotencyKey", fmt.Sprint(i, "-", n), "amount", "10"), 202
			}
			switch got := h.call(h.one, "POST", path, body); {
			case got.status == done:
				taken.Add(1)
				if asked {
					late.Add(1)
				}
			case got.status == 403 && got.text("code") == "CUSTOMER_FROZEN":
				stopped.Add(1)
			default:
				t.Errorf("got %v %s, want it taken or refused", got.status, got.raw)
				stopped.Add(40)
			}
		}
	})
	if late.Load() != 0 {
		t.Errorf("got %d that went through after the freeze was answered, want none", late.Load())
	}
}
