package surfacetest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// watched is an office that requires dual control, with the named additional operators.
func watched(t testing.TB, names ...string) (o *office, others []tenant) {
	t.Helper()
	o = newOffice(t)
	desk := *o.desk
	desk.server = httptest.NewServer(operatorapi.New(operatorapi.Config{
		DB: o.db, Chains: o.conf.Chains, Withdrawals: o.conf.Withdrawals, Whitelist: o.white, Swaps: o.conf.Swaps,
		DepositSwaps:    o.conf.DepositSwaps,
		Billing:         newBilling(o.db),
		AllowedPrefixes: here,
		CursorKey:       o.conf.CursorKey,
		BaseURL:         "http://127.0.0.1/v1", FourEyes: changerequest.Rule{Enabled: true}, Log: newLogger(o.logs),
	}))
	t.Cleanup(desk.server.Close)
	o.desk = &desk
	for _, name := range names {
		_, secret, err := operator.CreateKey(t.Context(), o.db, audit.Operator("test"), name)
		if err != nil {
			t.Fatal(err)
		}
		others = append(others, tenant{key: secret.Reveal()})
	}
	return o, others
}

// waiting returns the change requests in an answer with settings.
func waiting(r reply) (all []map[string]any) {
	list, _ := r.body["changeRequests"].([]any)
	for _, one := range list {
		all = append(all, one.(map[string]any))
	}
	return all
}

// Rules OP-7, OP-9, OP-10.
func TestWhatLoosensAControlNeedsASecondOperator(t *testing.T) {
	t.Parallel()
	o, others := watched(t, "bob")
	bob := others[0]
	path := "/organizations/" + o.one.id + "/settings"
	tight := map[string]any{
		"customerWithdrawUsdThreshold": "10", "screeningUsdThreshold": "100", "twoFactorUsdThreshold": "5",
		"screeningSeverityThreshold": "LOW", "withdrawSeverityThreshold": "LOW",
		"approvalQuorum": 3, "ipAllowlist": []string{"127.0.0.0/8"}, "requireWithdrawIdempotency": true,
		"swapFeeBps": 10, "customerFeeDayUsd": "20", "chargeCustomerCosts": "RENT", "batchAutoApproveUsd": "0",
	}
	o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, tight), 200)
	if held := o.desk.wantStatus(o.desk.call(
		o.ann, "PATCH", path,
		map[string]any{"approvalAllowlist": []any{map[string]any{"email": "eve@example.com", "active": false}}},
	), 200); len(held.body["approvalAllowlist"].([]any)) != 1 {
		t.Errorf("an entry that does not count: got %s, want it to hold at once", held.raw)
	}
	for _, c := range []struct {
		name  string
		value any
		waits bool
	}{
		{"customerWithdrawUsdThreshold", "9.99", false},
		{"customerWithdrawUsdThreshold", "10.01", true},
		{"customerWithdrawUsdThreshold", nil, true},
		{"screeningUsdThreshold", "99", false},
		{"screeningUsdThreshold", nil, true},
		{"twoFactorUsdThreshold", "5.000000000000000001", true},
		{"screeningSeverityThreshold", "NONE", false},
		{"screeningSeverityThreshold", "SEVERE", true},
		{"screeningSeverityThreshold", nil, true},
		{"withdrawSeverityThreshold", "MEDIUM", true},
		{"approvalQuorum", 4, false},
		{"approvalQuorum", 2, true},
		{"ipAllowlist", []string{"127.0.0.1"}, false},
		{"ipAllowlist", []string{"127.0.0.1", "127.0.0.2"}, true},
		{"ipAllowlist", []string{}, true},
		{"approvalAllowlist", []any{map[string]any{"email": "eve@example.com"}}, true},
		{"approvalAllowlist", []any{}, false},
		{"approvalAllowlist", []any{map[string]any{"email": "eve@example.com", "customerId": "user_42"}}, true},
		{"flaggedDepositApiEnabled", true, true},
		{"requireWithdrawIdempotency", false, true},
		{"swapFeeBps", 20, false},
		{"customerFeeDayUsd", "19.99", false},
		{"customerFeeDayUsd", "50", true},
		{"customerFeeDayUsd", nil, true},
		{"chargeCustomerCosts", "RENT_AND_FAILURES", false},
		{"chargeCustomerCosts", "NONE", true},
		{"additionalApiKeys", true, true},
		{"batchAutoApproveUsd", "500", true},
		{"batchAutoApproveUsd", nil, false},
	} {
		before := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
		got := o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{c.name: c.value}), 200)
		after := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
		if same := fmt.Sprint(before.body[c.name]) == fmt.Sprint(after.body[c.name]); same != c.waits {
			t.Errorf("%s to %v: got %v after %v, want it to wait: %v", c.name, c.value, after.body[c.name],
				before.body[c.name], c.waits)
		}
		if want := map[bool]int{true: 1}[c.waits]; len(waiting(got)) != want || len(waiting(after)) != want {
			t.Errorf("%s to %v: got %v and %v, want %d to wait", c.name, c.value, waiting(got), waiting(after), want)
		}
		if !c.waits {
			continue
		}
		id := waiting(got)[0]["changeRequestId"].(string)
		o.desk.wantRefusal("her own", o.desk.call(o.ann, "POST", "/change-requests/"+id+"/approve", nil), 409,
			"APPROVAL_REFUSED", "")
		o.desk.wantRefusal("his", o.desk.call(bob, "POST", "/change-requests/"+id+"/withdraw", nil), 409,
			"APPROVAL_REFUSED", "")
		if w := o.desk.wantStatus(
			o.desk.call(o.ann, "POST", "/change-requests/"+id+"/withdraw", nil), 200,
		); w.text("status") != "WITHDRAWN" {
			t.Errorf("%s: got %s, want it withdrawn", c.name, w.raw)
		}
		o.desk.wantRefusal("withdrawn", o.desk.call(bob, "POST", "/change-requests/"+id+"/approve", nil), 409,
			"INVALID_STATE", "")
	}

	// Other settings in the request apply at once, and the change request has the requested values.
	waits := waiting(o.desk.wantStatus(
		o.desk.call(o.ann, "PATCH", path, map[string]any{"customerWithdrawUsdThreshold": "50.50", "approvalQuorum": 5}),
		200,
	))[0]
	if got := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200); got.body["approvalQuorum"] != 5.0 ||
		got.text("customerWithdrawUsdThreshold") != "9.99" {
		t.Errorf("got %s, want the quorum changed and the threshold not", got.raw)
	}
	changed := waits["changes"].([]any)
	if len(changed) != 1 || fmt.Sprint(changed[0]) != "map[from:9.99 setting:customerWithdrawUsdThreshold to:50.5]" {
		t.Errorf("got %v, want the threshold alone", changed)
	}
	id := waits["changeRequestId"].(string)
	// A new key leaves the operator's identity unchanged.
	_, rolled, err := operator.RollKey(t.Context(), o.db, audit.Operator("test"), "ann")
	if err != nil {
		t.Fatal(err)
	}
	ann := tenant{key: rolled.Reveal()}
	o.desk.wantRefusal("her own, by another key", o.desk.call(ann, "POST", "/change-requests/"+id+"/approve", nil), 409,
		"APPROVAL_REFUSED", "")
	// Many approvals at once decide it once.
	var wg sync.WaitGroup
	var mu sync.Mutex
	done := map[int]int{}
	for i := range 8 {
		wg.Go(func() {
			var r reply
			if i%2 == 0 {
				r = o.desk.call(bob, "POST", "/change-requests/"+id+"/approve", nil)
			} else {
				r = o.desk.call(ann, "POST", "/change-requests/"+id+"/withdraw", nil)
			}
			mu.Lock()
			defer mu.Unlock()
			done[r.status]++
		})
	}
	wg.Wait()
	if done[200] != 1 || done[409] != 7 {
		t.Errorf("at once: got %v, want one 200 and the others 409", done)
	}
	end := o.desk.wantStatus(o.desk.call(bob, "GET", "/change-requests/"+id, nil), 200)
	threshold := o.desk.wantStatus(o.desk.call(ann, "GET", path, nil), 200).text("customerWithdrawUsdThreshold")
	if want := map[string]string{"APPROVED": "50.5", "WITHDRAWN": "9.99"}[end.text("status")]; want == "" ||
		threshold != want {
		t.Errorf("%s: got %s, want %s", end.text("status"), threshold, want)
	}

	// Approved: the history names the author and the approver.
	waits = waiting(
		o.desk.wantStatus(o.desk.call(ann, "PATCH", path, map[string]any{"customerWithdrawUsdThreshold": nil}), 200),
	)[0]
	id = waits["changeRequestId"].(string)
	if got := o.desk.wantStatus(
		o.desk.call(bob, "GET", "/change-requests?status=PENDING&organizationId="+o.one.id, nil), 200,
	).list(); len(got) != 1 || got[0]["changeRequestId"] != id {
		t.Errorf("pending: got %v, want %s", got, id)
	}
	approved := o.desk.wantStatus(o.desk.call(bob, "POST", "/change-requests/"+id+"/approve", nil), 200)
	if decider, _ := approved.body["decidedBy"].(map[string]any); approved.text("status") != "APPROVED" ||
		decider["name"] != "bob" {
		t.Errorf("got %s, want it approved by bob", approved.raw)
	}
	history := o.desk.wantStatus(o.desk.call(bob, "GET", path+"/history?limit=1", nil), 200)
	last := history.list()[0]
	if who := last["changedBy"].(map[string]any); last["setting"] != "customerWithdrawUsdThreshold" ||
		last["to"] != nil || last["changeRequestId"] != id || who["name"] != "bob" || who["type"] != "OPERATOR" {
		t.Errorf("history: got %v, want the change that bob approved", last)
	}
	if history.body["hasMore"] != true {
		t.Errorf("got %s, want pages", history.raw)
	}
	if next := o.desk.wantStatus(
		o.desk.call(bob, "GET", path+"/history?limit=1&cursor="+history.text("nextCursor"), nil), 200,
	); len(next.list()) != 1 {
		t.Errorf("got %s, want one", next.raw)
	}

	// A setting that was changed meanwhile is not the agreed one.
	waits = waiting(o.desk.wantStatus(o.desk.call(ann, "PATCH", path, map[string]any{"approvalQuorum": 2}), 200))[0]
	o.desk.wantStatus(o.desk.call(bob, "PATCH", path, map[string]any{"approvalQuorum": 6}), 200)
	o.desk.wantRefusal(
		"changed since",
		o.desk.call(bob, "POST", "/change-requests/"+waits["changeRequestId"].(string)+"/approve", nil), 409,
		"INVALID_STATE", "approvalQuorum",
	)

	for _, name := range []string{"chg_01J9ZW3M8Q4S5T6V7W8X9YZABC", "%00", "chg_x%2F..", strings.ToLower(id)} {
		o.desk.wantRefusal(name, o.desk.call(bob, "GET", "/change-requests/"+name, nil), 404, "NOT_FOUND", "")
		o.desk.wantRefusal(name, o.desk.call(bob, "POST", "/change-requests/"+name+"/approve", nil), 404, "NOT_FOUND",
			"")
		o.desk.wantRefusal(name, o.desk.call(bob, "POST", "/change-requests/"+name+"/withdraw", nil), 404, "NOT_FOUND",
			"")
	}
	o.desk.wantRefusal("status", o.desk.call(bob, "GET", "/change-requests?status=pending", nil), 400,
		"INVALID_REQUEST", "status")
	o.desk.wantRefusal(
		"no organization",
		o.desk.call(bob, "GET", "/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC/settings/history", nil), 404,
		"NOT_FOUND", "",
	)
	o.desk.wantRefusal(
		"another's cursor",
		o.desk.call(bob, "GET", "/organizations/"+o.two.id+"/settings/history?cursor="+history.text("nextCursor"), nil),
		400, "INVALID_CURSOR", "cursor",
	)
}

// Where the threshold is not set, HIGH applies. SEVERE refuses nothing, with any earlier value.
// Rule OP-7.
func TestTheThresholdThatHoldsUnsetIsLoosenedByTwoOperators(t *testing.T) {
	t.Parallel()
	o, _ := watched(t, "bob")
	path := "/organizations/" + o.one.id + "/settings"
	for _, c := range []struct {
		value any
		waits int
	}{{"SEVERE", 1}, {"MEDIUM", 0}, {nil, 1}} {
		got := o.desk.wantStatus(
			o.desk.call(o.ann, "PATCH", path, map[string]any{"withdrawSeverityThreshold": c.value}), 200,
		)
		if len(waiting(got)) != c.waits || (got.body["withdrawSeverityThreshold"] == c.value) != (c.waits == 0) {
			t.Errorf("to %v: got %v and %v, want %d to wait", c.value, got.body["withdrawSeverityThreshold"],
				waiting(got), c.waits)
		}
		for _, w := range waiting(got) {
			o.desk.wantStatus(
				o.desk.call(o.ann, "POST", "/change-requests/"+w["changeRequestId"].(string)+"/withdraw", nil), 200,
			)
		}
	}
}

// Rules OP-7, OP-9.
func TestFourEyesNeedTwoOperators(t *testing.T) {
	t.Parallel()
	o, _ := watched(t)
	path := "/organizations/" + o.one.id + "/settings"
	o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"customerWithdrawUsdThreshold": "10"}), 200)
	// With one operator, none could approve.
	o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"customerWithdrawUsdThreshold": "20"}), 200)
	if _, _, err := operator.CreateKey(t.Context(), o.db, audit.Operator("test"), "bob"); err != nil {
		t.Fatal(err)
	}
	waits := waiting(
		o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"customerWithdrawUsdThreshold": "30"}), 200),
	)[0]
	// A request that is not approved expires by itself.
	super := pgtest.OwnerPool(t, o.db)
	if _, err := super.Exec(
		t.Context(),
		`ALTER TABLE change_requests DISABLE TRIGGER change_requests_keep; UPDATE change_requests SET created_at = created_at - interval '8 days', expires_at = expires_at - interval '8 days'; ALTER TABLE change_requests ENABLE TRIGGER change_requests_keep`,
	); err != nil {
		t.Fatal(err)
	}
	read := func(want string) {
		t.Helper()
		if got := o.desk.wantStatus(
			o.desk.call(o.ann, "GET", "/change-requests/"+waits["changeRequestId"].(string), nil), 200,
		); got.text("status") != want {
			t.Errorf("got %s, want %s", got.raw, want)
		}
	}
	read("EXPIRED")
	if _, err := operator.RevokeKey(t.Context(), o.db, audit.Operator("test"), "bob"); err != nil {
		t.Fatal(err)
	}
	_, secret, err := operator.CreateKey(t.Context(), o.db, audit.Operator("test"), "cid")
	if err != nil {
		t.Fatal(err)
	}
	o.desk.wantRefusal("too late", o.desk.call(
		tenant{key: secret.Reveal()}, "POST", "/change-requests/"+waits["changeRequestId"].(string)+"/approve", nil,
	), 409, "INVALID_STATE", "")
	if err := changerequest.Expire(context.WithoutCancel(t.Context()), o.db); err != nil {
		t.Fatal(err)
	}
	read("EXPIRED")
	var rows int
	if err := super.QueryRow(
		t.Context(), `SELECT count(*) FROM audit_log WHERE action = 'change.expired'`,
	).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("got %d rows %v, want one", rows, err)
	}
}

// Rules OP-7, OP-9. A program that writes the tables cannot be both operators either.
func TestTheDatabaseKeepsFourEyesApart(t *testing.T) {
	t.Parallel()
	o, _ := watched(t, "bob")
	path := "/organizations/" + o.one.id + "/settings"
	o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"approvalQuorum": 3}), 200)
	o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"approvalQuorum": 2}), 200)
	for name, c := range map[string]string{
		"by who asked":         `UPDATE change_requests SET status = 'APPROVED', decided_by = author, decided_key = 'opk_other', decided_at = now()`,
		"by the same key":      `UPDATE change_requests SET status = 'APPROVED', decided_by = 'bob', decided_key = author_key, decided_at = now()`,
		"by nobody":            `UPDATE change_requests SET status = 'APPROVED', decided_at = now()`,
		"edited":               `UPDATE change_requests SET wanted = '{"approvalQuorum": 1}'`,
		"asked by another":     `UPDATE change_requests SET author = 'bob'`,
		"made longer":          `UPDATE change_requests SET expires_at = expires_at + interval '1 day'`,
		"taken away":           `DELETE FROM change_requests`,
		"withdrawn by another": `UPDATE change_requests SET status = 'WITHDRAWN', decided_by = 'bob', decided_key = 'opk_2', decided_at = now()`,
		"expired too early":    `UPDATE change_requests SET status = 'EXPIRED', decided_at = now()`,
	} {
		if _, err := pgtest.OwnerPool(t, o.db).Exec(t.Context(), c); err == nil {
			t.Errorf("%s: got it done, want it refused", name)
		}
	}
}
