package surfacetest

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// allowKeys lets an organization have additional keys.
func (h *testEnv) allowKeys(who tenant, on bool) {
	h.t.Helper()
	text := map[bool]string{true: "true", false: "false"}[on]
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("test"), who.id,
			org.Changes{"additionalApiKeys": []byte(text)})
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// key creates an additional key, and returns its id.
func (h *testEnv) key(who tenant, scope identity.Scope) (tenant, string) {
	h.t.Helper()
	made := h.wantStatus(
		h.call(who, "POST", "/api-keys", map[string]any{"name": "of " + string(scope), "scope": scope}), 201,
	)
	return tenant{who.id, made.text("apiKey")}, made.text("apiKeyId")
}

// A new call has to say which keys may make it. Rule KEY-2.
func TestEveryCallOfAnOrganizationSaysItsScope(t *testing.T) {
	t.Parallel()
	full := []string{
		"createWithdrawal",
		"createTransfer", "createCustomerSwap", "createOrganizationSwap",
		"approveDeposit", "rejectDeposit", "redirectDeposit", "completeDeposit", "unfreezeCustomer",
		"rotateWebhookSecret", "createRefund", "replaceClaimKey", "refundUnmatchedPayment",
		"createBatchPayout", "submitBatchPayout", "resumeBatchPayout", "retryBatchPayout",
	}
	for _, r := range slices.Concat(organizations.Routes, organizations.Forbidden) {
		want := []identity.Scope{identity.ScopeNoMoneyOut}
		switch {
		case r.NeedsNoKey:
			want = []identity.Scope{""}
		case strings.HasPrefix(r.Path, "/api-keys"):
			want = []identity.Scope{identity.ScopeMainKey}
		case r.Method == http.MethodGet:
			want = []identity.Scope{identity.ScopeRead}
		case slices.Contains(full, r.Name):
			want = []identity.Scope{identity.ScopeFull}
		}
		scope := organizations.ScopeOf(r)
		if !slices.Contains(want, scope) {
			t.Errorf(
				"%s %s: got the scope %q, want %q. Decide which keys may make a new call, and say it here if it lets money out",
				r.Method, r.Path, scope, want,
			)
		}
		for field, action := range r.FieldActions {
			if scope := identity.PermissionOf(action).Key; !slices.Contains(identity.Scopes, scope) {
				t.Errorf("%s %s: got the scope %q for %s, want one of a key", r.Method, r.Path, scope, field)
			}
		}
	}
	for _, r := range operators.Routes {
		if scope := operators.ScopeOf(r); scope != "" || r.FieldActions != nil {
			t.Errorf("%s %s: got the scope %q on a call of an operator", r.Method, r.Path, scope)
		}
	}
}

// Every call with a key of every scope: refused without the scope, with nothing written, and
// otherwise not refused for it. Rules KEY-2, KEY-3.
func TestAKeyMakesTheCallsOfItsScopeAndNoOthers(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	for i, scope := range identity.Scopes {
		key, _ := h.key(h.one, scope)
		for _, r := range slices.Concat(organizations.Routes, organizations.Forbidden) {
			if r.NeedsNoKey {
				continue
			}
			path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
			var body any
			if r.HasBody() {
				body = map[string]any{}
			}
			before := h.rowCounts()
			got := h.call(key, r.Method, path, body)
			needed := slices.Index(identity.Scopes, organizations.ScopeOf(r))
			if may := needed >= 0 && needed <= i; may != (got.text("code") != "SCOPE_MISSING") {
				t.Errorf("%s: %s %s: got %v %s, want it let in: %v", scope, r.Method, r.Path, got.status, got.raw, may)
			} else if !may && (got.status != 403 || h.rowCounts() != before) {
				t.Errorf("%s: %s %s: got %v and %s after %s, want a refusal that writes nothing", scope, r.Method,
					r.Path, got.status, h.rowCounts(), before)
			}
		}
	}
}

// Rules KEY-2, KEY-3, KEY-4.
func TestAdditionalKeysThroughTheInterface(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	h := o.testEnv
	wanted := map[string]any{"name": "reporting", "scope": "READ"}
	h.wantRefusal("off", h.call(h.one, "POST", "/api-keys", wanted), 403, "FEATURE_DISABLED", "")
	if all := h.wantStatus(h.call(h.one, "GET", "/api-keys", nil), 200).list(); len(all) != 1 ||
		all[0]["apiKeyId"] != "key_main" || all[0]["isMain"] != true || all[0]["scope"] != "FULL" ||
		all[0]["status"] != "ACTIVE" {
		t.Errorf("off: got %v, want the main key", all)
	}
	h.wantRefusal(
		"an overlap of the main key",
		h.call(h.one, "POST", "/api-keys/key_main/roll", map[string]any{"overlapSeconds": 1}), 403, "FEATURE_DISABLED",
		"",
	)
	o.desk.wantStatus(
		o.desk.call(o.ann, "PATCH", "/organizations/"+h.one.id+"/settings", map[string]any{"additionalApiKeys": true}),
		200,
	)

	for _, c := range []struct {
		name, param, code string
		body              any
	}{
		{"no name", "name", "INVALID_REQUEST", `{"scope":"READ"}`},
		{"an empty name", "name", "INVALID_REQUEST", `{"name":"","scope":"READ"}`},
		{"space around it", "name", "INVALID_REQUEST", `{"name":" a","scope":"READ"}`},
		{"a long name", "name", "INVALID_REQUEST", map[string]any{"name": strings.Repeat("a", 201), "scope": "READ"}},
		{"a control character", "name", "INVALID_REQUEST", `{"name":"a\u0000","scope":"READ"}`},
		{"no scope", "scope", "INVALID_REQUEST", `{"name":"a"}`},
		{"another scope", "scope", "INVALID_REQUEST", `{"name":"a","scope":"MAIN_KEY"}`},
		{"in lower case", "scope", "INVALID_REQUEST", `{"name":"a","scope":"read"}`},
		{"no time", "expiresAt", "INVALID_REQUEST", `{"name":"a","scope":"READ","expiresAt":"tomorrow"}`},
		{"a number", "expiresAt", "INVALID_REQUEST", `{"name":"a","scope":"READ","expiresAt":4000000000}`},
		{
			"a time that has passed",
			"expiresAt", "INVALID_REQUEST", `{"name":"a","scope":"READ","expiresAt":"2020-01-01T00:00:00Z"}`,
		},
		{"another field", "expires", "UNKNOWN_FIELD", `{"name":"a","scope":"READ","expires":null}`},
	} {
		h.wantRefusal(c.name, h.call(h.one, "POST", "/api-keys", c.body), 400, c.code, c.param)
	}
	made := h.wantStatus(h.call(h.one, "POST", "/api-keys", map[string]any{
		"name": "reporting", "scope": "READ", "expiresAt": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	}), 201)
	id, key := made.text("apiKeyId"), tenant{h.one.id, made.text("apiKey")}
	if made.text("scope") != "READ" || made.text("status") != "ACTIVE" || made.body["isMain"] != false ||
		made.body["expiresAt"] == nil || made.body["lastUsedAt"] != nil {
		t.Errorf("made: got %s", made.raw)
	}
	h.wantStatus(h.call(key, "GET", "/customers", nil), 200)
	h.wantRefusal("a key that is not the main one", h.call(key, "GET", "/api-keys", nil), 403, "SCOPE_MISSING", "")
	all, _ := h.key(h.one, identity.ScopeFull)
	h.wantStatus(h.call(all, "POST", "/withdraw", payment()), 202)
	h.wantRefusal("a key with every scope", h.call(all, "POST", "/api-keys", wanted), 403, "SCOPE_MISSING", "")
	h.wantRefusal("rolls itself", h.call(key, "POST", "/api-keys/"+id+"/roll", nil), 403, "SCOPE_MISSING", "")
	h.wantRefusal("deletes itself", h.call(all, "DELETE", "/api-keys/"+id, nil), 403, "SCOPE_MISSING", "")

	for body, param := range map[string]string{
		`{"overlapSeconds":-1}`:    "overlapSeconds",
		`{"overlapSeconds":86401}`: "overlapSeconds", `{"overlapSeconds":"1"}`: "overlapSeconds",
		`{"overlapSeconds":9223372036854775807}`: "overlapSeconds", `{"overlapSeconds":1.5}`: "overlapSeconds",
	} {
		h.wantRefusal(body, h.call(h.one, "POST", "/api-keys/"+id+"/roll", body), 400, "INVALID_REQUEST", param)
	}
	rolled := h.wantStatus(h.call(h.one, "POST", "/api-keys/"+id+"/roll", map[string]any{"overlapSeconds": 86400}), 201)
	if rolled.text("apiKeyId") != id || rolled.body["formerKeyUntil"] == nil ||
		rolled.body["formerKeyLastUsedAt"] == nil {
		t.Errorf("rolled: got %s, want the same key and how long the former value works", rolled.raw)
	}
	h.wantStatus(h.call(key, "GET", "/mints", nil), 200)
	h.wantRefusal(
		"another overlap",
		h.call(h.one, "POST", "/api-keys/"+id+"/roll", map[string]any{"overlapSeconds": 60}), 409, "INVALID_STATE", "",
	)
	last := h.wantStatus(h.call(h.one, "POST", "/api-keys/"+id+"/roll", nil), 201)
	for name, value := range map[string]string{"the first value": key.key, "the second value": rolled.text("apiKey")} {
		h.wantRefusal(name, h.call(tenant{key: value}, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
	}
	h.wantStatus(h.call(tenant{key: last.text("apiKey")}, "GET", "/mints", nil), 200)
	for name, value := range map[string][]byte{
		"list": h.wantStatus(h.call(h.one, "GET", "/api-keys", nil), 200).raw, "log": []byte(h.logs.String()),
	} {
		if strings.Contains(string(value), last.text("apiKey")[3:]) {
			t.Errorf("%s: shows the key", name)
		}
	}
	// Pages of keys, in one order.
	first := h.wantStatus(h.call(h.one, "GET", "/api-keys?order=asc&limit=2", nil), 200)
	rest := h.wantStatus(h.call(h.one, "GET", "/api-keys?order=asc&limit=2&cursor="+first.text("nextCursor"), nil), 200)
	if len(first.list()) != 2 || first.list()[0]["apiKeyId"] != "key_main" || len(rest.list()) != 1 ||
		rest.body["hasMore"] != false {
		t.Errorf("pages: got %s and %s, want the main key first and three keys", first.raw, rest.raw)
	}

	// The other organization has no part in it.
	h.allowKeys(h.two, true)
	h.wantRefusal("another organization rolls", h.call(h.two, "POST", "/api-keys/"+id+"/roll", nil), 404, "NOT_FOUND",
		"")
	h.wantRefusal("another organization deletes", h.call(h.two, "DELETE", "/api-keys/"+id, nil), 404, "NOT_FOUND", "")

	path := "/organizations/" + h.one.id + "/api-keys"
	if seen := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200).list(); len(seen) != 3 {
		t.Errorf("the operator: got %v, want three keys", seen)
	}
	o.desk.wantRefusal("no organization",
		o.desk.call(o.ann, "GET", "/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC/api-keys", nil), 404, "NOT_FOUND", "")
	o.desk.wantStatus(o.desk.call(o.ann, "DELETE", path+"/"+id, nil), 204)
	o.desk.wantRefusal("twice", o.desk.call(o.ann, "DELETE", path+"/"+id, nil), 404, "NOT_FOUND", "")
	h.wantRefusal("revoked", h.call(tenant{key: last.text("apiKey")}, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")

	// The main key with an overlap: the former value repairs a lost answer.
	h.wantStatus(h.call(h.one, "POST", "/api-keys/key_main/roll", map[string]any{"overlapSeconds": 3600}), 201)
	again := h.wantStatus(h.call(h.one, "POST", "/api-keys/key_main/roll", map[string]any{"overlapSeconds": 0}), 201)
	h.wantRefusal("the former main key", h.call(h.one, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
	main := tenant{h.one.id, again.text("apiKey")}
	h.wantRefusal("the main key is kept", h.call(main, "DELETE", "/api-keys/key_main", nil), 409, "INVALID_STATE", "")

	h.allowKeys(h.one, false)
	h.wantRefusal("off again", h.call(all, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
	if suspended := h.wantStatus(h.call(main, "GET", "/api-keys", nil), 200).list(); len(suspended) != 2 ||
		suspended[0]["status"] != "SUSPENDED" {
		t.Errorf("off again: got %v, want one that is suspended", suspended)
	}
	h.wantStatus(h.call(
		main, "DELETE",
		"/api-keys/"+h.wantStatus(h.call(main, "GET", "/api-keys?limit=1", nil), 200).list()[0]["apiKeyId"].(string),
		nil,
	), 204)
	h.allowKeys(h.one, true)
	h.wantRefusal("deleted while it was off", h.call(all, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
}

// In this order: 401, the address, the replay, the scope, the rate, everything else. Rules KEY-3,
// LIM-1, IDEM-3, AUTH-3.
func TestTheScopeStandsBehindTheReplayAndBeforeTheRate(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, kernel.Limits{Writes: kernel.Rate{Count: 1, Period: time.Hour, Burst: 5}})
	h.allowKeys(h.one, true)
	read, _ := h.key(h.one, identity.ScopeRead)
	still, _ := h.key(h.one, identity.ScopeNoMoneyOut) // with alice's address, three writes are used
	first := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
	before := h.rowCounts()
	for _, key := range []tenant{read, still} {
		if got := h.wantStatus(
			h.call(key, "POST", "/withdraw", payment("idempotencyKey", "k")), 202,
		); got.text("withdrawalId") != first.text("withdrawalId") || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("replay: got %s, want the withdrawal", got.raw)
		}
		for range 3 { // more than the rate has left: none of them counts
			h.wantRefusal("another withdrawal", h.call(key, "POST", "/withdraw", payment("idempotencyKey", "l")), 403,
				"SCOPE_MISSING", "")
		}
		h.wantRefusal("one that cannot be read", h.call(key, "POST", "/withdraw", `{"mintId":`), 403, "SCOPE_MISSING",
			"")
		h.wantRefusal("one that cannot be", h.call(key, "POST", "/withdraw", payment("amount", "x")), 403,
			"SCOPE_MISSING", "")
		h.wantRefusal("a transfer", h.call(key, "POST", "/transfers", map[string]any{
			"mintId": usdc, "amount": "1", "from": map[string]any{"customerId": alice},
			"to": map[string]any{"customerId": "bob"}, "idempotencyKey": "t",
		}), 403, "SCOPE_MISSING", "")
		h.wantRefusal(
			"an e-mail",
			h.call(key, "PATCH", "/customers/alice", map[string]any{"customerEmail": "a@example.com"}), 403,
			"SCOPE_MISSING", map[bool]string{true: "customerEmail"}[key == still],
		)
		h.wantRefusal("lifting a freeze", h.call(key, "POST", "/customers/alice/unfreeze", nil), 403, "SCOPE_MISSING",
			"")
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	if got := h.wantStatus(
		h.call(still, "PATCH", "/customers/alice", map[string]any{"metadata": map[string]string{"a": "b"}}), 200,
	); got.header.Get("RateLimit-Remaining") != "0" {
		t.Errorf("metadata: got %v left, want the last write", got.header.Get("RateLimit-Remaining"))
	}
	// With the rate used up, the scope is still checked first, and a call that passes it is
	// answered 429.
	h.wantRefusal("without the scope", h.call(read, "POST", "/withdraw", payment("idempotencyKey", "m")), 403,
		"SCOPE_MISSING", "")
	h.wantRefusal(
		"an e-mail",
		h.call(still, "PATCH", "/customers/alice", map[string]any{"customerEmail": "a@example.com"}), 403,
		"SCOPE_MISSING", "customerEmail",
	)
	h.wantRefusal("a body that cannot be read", h.call(still, "PATCH", "/customers/alice", `{`), 429, "RATE_LIMITED",
		"")
	h.wantRefusal(
		"keys share the rate",
		h.call(still, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "new"}), 429, "RATE_LIMITED", "",
	)
	h.wantStatus(h.call(read, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)

	// The list of addresses applies to every key, and is checked before the scope and the replay.
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return org.SetIPAllowlist(ctx, tx, audit.Operator("test"), h.one.id,
			[]netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")})
	})
	if err != nil {
		t.Fatal(err)
	}
	var used int
	count := func() int {
		if err := pgtest.OwnerPool(t, h.db).QueryRow(
			t.Context(), `SELECT count(*) FROM api_key_uses`,
		).Scan(&used); err != nil {
			t.Fatal(err)
		}
		return used
	}
	if _, err := pgtest.OwnerPool(t, h.db).Exec(t.Context(), `DELETE FROM api_key_uses`); err != nil {
		t.Fatal(err)
	}
	for _, key := range []tenant{read, still, h.one} {
		h.wantRefusal("from elsewhere", h.call(key, "POST", "/withdraw", payment("idempotencyKey", "k")), 403,
			"IP_NOT_ALLOWED", "")
	}
	if got := count(); got != 0 {
		t.Errorf("refused by the list: got %d uses, want none", got)
	}
}

// Rules KEY-9, CUS-3.
func TestTheAuditLogNamesTheKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	key, id := h.key(h.one, identity.ScopeFull)
	h.wantStatus(h.call(
		key, "POST", "/deposit",
		map[string]any{"mintId": usdc, "customerId": "bob", "customerEmail": "bob@example.com"},
	), 200)
	h.wantStatus(h.call(key, "PATCH", "/customers/bob", map[string]any{"metadata": map[string]string{"a": "b"}}), 200)
	h.wantStatus(h.call(key, "POST", "/transfers", map[string]any{
		"mintId": usdc, "amount": "5", "from": map[string]any{"customerId": alice},
		"to": map[string]any{"customerId": "carl"}, "idempotencyKey": "t",
	}), 201)
	w := h.wantStatus(h.call(key, "POST", "/withdraw", payment("requireApproval", true)), 202)
	decided := h.wantStatus(h.call(key, "GET", "/withdrawals/"+w.text("withdrawalId")+"/decisions", nil), 200).list()
	if decider := decided[0]["actor"].(map[string]any); decider["type"] != "API_KEY" || decider["id"] != id {
		t.Errorf("decision: got %v, want %v", decider, id)
	}
	h.wantStatus(h.call(key, "POST", "/withdrawals/"+w.text("withdrawalId")+"/cancel", nil), 200)
	h.wantStatus(h.call(key, "POST", "/customers/bob/freeze", nil), 200)
	h.wantStatus(h.call(key, "POST", "/customers/bob/unfreeze", nil), 200)
	h.wantStatus(h.call(key, "POST", "/webhook-endpoints", map[string]any{"url": "https://example.com/hook"}), 201)
	var got string
	err := pgtest.OwnerPool(t, h.db).QueryRow(
		t.Context(),
		`SELECT string_agg(action, ' ' ORDER BY audit_id) FROM audit_log WHERE actor_kind = 'API_KEY' AND actor_id = $1`,
		id,
	).Scan(&got)
	if err != nil {
		t.Fatal(err)
	}
	for _, action := range []string{
		"customer.created",
		"customer.metadata_changed", "transfer.made", "withdrawal.requested", "withdrawal.cancelled", "freeze.",
		"webhook_endpoint.created",
	} {
		if !strings.Contains(got, action) {
			t.Errorf("got %s, want %s among them", got, action)
		}
	}
	if strings.Count(got, "customer.created") != 2 {
		t.Errorf("got %s, want both customers made by the key", got)
	}
}

// A key that may not change an e-mail may set the first one, which the allowlist trusts a day
// later. Rule KEY-10.
func TestAFirstEmailByAKeyThatMovesNoMoneyCoolsOff(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.allowKeys(h.one, true)
	still, _ := h.key(h.one, identity.ScopeNoMoneyOut)
	full, _ := h.key(h.one, identity.ScopeFull)
	for i, c := range []struct {
		key     tenant
		trusted bool
	}{{still, false}, {full, true}, {h.one, true}} {
		for _, first := range []map[string]any{
			{"mintId": usdc, "customerEmail": "boss@example.com"}, {"mintId": usdc},
		} {
			id := "user_" + string(rune('a'+i)) +
				map[bool]string{true: "_new", false: "_known"}[first["customerEmail"] != nil]
			first["customerId"] = id
			if first["customerEmail"] == nil { // the customer is known without an e-mail
				h.wantStatus(h.call(h.one, "POST", "/deposit", first), 200)
				first["customerEmail"] = "boss@example.com"
			}
			h.wantStatus(h.call(c.key, "POST", "/deposit", first), 200)
			err := h.db.ReadOrg(t.Context(), h.one.id, func(ctx context.Context, tx pg.Tx) error {
				found, err := customer.ByID(ctx, tx, h.one.id, id)
				if err != nil {
					return err
				}
				if got := found.TrustedEmail(tx.Now, customer.CoolingOff) != ""; got != c.trusted ||
					found.Email != "boss@example.com" {
					t.Errorf("%s: got %+v trusted %v, want %v", id, found, got, c.trusted)
				}
				if found.TrustedEmail(tx.Now.Add(customer.CoolingOff), customer.CoolingOff) == "" {
					t.Errorf("%s: a day later: got no trust", id)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A listener does not start with a call that the table of permissions lets none of its callers make.
// Rule OP-12.
func TestNoCallDoesWhatOnlyATerminalDoes(t *testing.T) {
	t.Parallel()
	for _, s := range []*kernel.Surface{organizations, operators} {
		for _, r := range slices.Concat(s.Routes, s.Forbidden) {
			if p := identity.PermissionOf(r.Action); !r.NeedsNoKey && p.Key == "" && !p.Operator {
				t.Errorf("%s %s: a terminal alone may do it", r.Method, r.Path)
			}
		}
		wrong := *s
		wrong.Routes = append(slices.Clone(s.Routes), kernel.Route{Name: "bumpOrder", Action: identity.SteerOrders})
		func() {
			defer func() {
				if reason := fmt.Sprint(recover()); !strings.Contains(reason, "bumpOrder") {
					t.Errorf("%s: got %q, want a refusal of the call", s.Title, reason)
				}
			}()
			kernel.New(&wrong, kernel.Config{})
		}()
	}
}
