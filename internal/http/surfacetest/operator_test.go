package surfacetest

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

var here = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// office is an environment with its operators' listener.
type office struct {
	*testEnv          // the listener of organizations
	desk     *testEnv // the listener of operators
	key      operator.Key
	ann      tenant // an operator, with her key
}

func newOffice(t testing.TB, limits ...kernel.Limits) *office {
	t.Helper()
	o := &office{testEnv: newTestEnv(t)}
	key, secret, err := operator.CreateKey(t.Context(), o.db, audit.Operator("test"), "ann")
	if err != nil {
		t.Fatal(err)
	}
	o.key, o.ann = key, tenant{key: secret.Reveal()}
	o.desk = o.opened(t, here, append(limits, kernel.Limits{})[0])
	return o
}

// opened starts an operators' listener of another process, on the same database.
func (o *office) opened(t testing.TB, from []netip.Prefix, limits kernel.Limits) *testEnv {
	t.Helper()
	desk := *o.testEnv
	desk.t, desk.face = t, operators
	desk.server = httptest.NewServer(operatorapi.New(operatorapi.Config{
		DB: o.db, Chains: o.conf.Chains, Withdrawals: o.conf.Withdrawals, Deposits: o.conf.Deposits,
		Rescreens: o.rescreens, Whitelist: o.white, Swaps: o.conf.Swaps, DepositSwaps: o.conf.DepositSwaps,
		Billing:         newBilling(o.db),
		AllowedPrefixes: from, CursorKey: o.conf.CursorKey,
		BaseURL: "http://127.0.0.1/v1", Limits: limits, LocalRisk: true, Log: newLogger(o.logs),
	}))
	t.Cleanup(desk.server.Close)
	return &desk
}

// written counts everything that an operator's call could have changed.
func (o *office) written() string {
	o.t.Helper()
	var text string
	err := pgtest.OwnerPool(o.t, o.db).QueryRow(o.t.Context(), `
		SELECT format('organizations %s, keys %s, settings %s, freezes %s, operators %s, audit %s',
			(SELECT count(*) FROM organizations), (SELECT string_agg(k::text, ',' ORDER BY k.api_key_id) FROM api_keys k),
			(SELECT string_agg(s::text, ',' ORDER BY s.org_id) FROM organization_settings s),
			(SELECT string_agg(f::text, ',' ORDER BY f.freeze_id) FROM freezes f) || (SELECT count(*) FROM local_risk), (SELECT string_agg(k::text, ',' ORDER BY k.key_id) FROM operator_keys k),
			(SELECT count(*) FROM audit_log WHERE action <> 'operator.called'))`).Scan(&text)
	if err != nil {
		o.t.Fatal(err)
	}
	return text
}

// Rule OP-1.
func TestTheTwoListenersTakeNothingOfEachOther(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	before := o.written()
	for _, path := range []string{
		"/organizations", "/organizations/" + o.one.id, "/deposits", "/freezes", "/reserves", "/mints", "/nothing",
	} {
		o.desk.wantRefusal("no key "+path, o.desk.call(tenant{}, "GET", path, nil), 401, "UNAUTHORIZED", "")
		o.desk.wantRefusal("an organization's key "+path, o.desk.call(o.one, "GET", path, nil), 401, "UNAUTHORIZED", "")
		o.desk.wantRefusal("in its own header "+path, o.desk.call(tenant{}, "GET", path, nil, "x-api-key", o.one.key),
			401, "UNAUTHORIZED", "")
		o.desk.wantRefusal("an operator's key there "+path,
			o.desk.call(tenant{}, "GET", path, nil, "x-api-key", o.ann.key), 401, "UNAUTHORIZED", "")
		o.desk.wantRefusal("twice "+path, o.desk.call(o.ann, "GET", path, nil, "x-operator-key", o.ann.key), 401,
			"UNAUTHORIZED", "")
		o.testEnv.wantRefusal("an operator's key to an organization's listener",
			o.testEnv.call(o.ann, "GET", path, nil), 401, "UNAUTHORIZED", "")
		o.testEnv.wantRefusal("in its own header, to an organization's listener",
			o.testEnv.call(tenant{}, "GET", path, nil, "x-operator-key", o.ann.key), 401, "UNAUTHORIZED", "")
	}
	for _, r := range organizations.Routes {
		if slices.ContainsFunc(operators.Routes, func(of kernel.Route) bool { return of.Path == r.Path }) {
			continue // read across organizations there
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		o.desk.wantRefusal("an organization's call", o.desk.call(o.ann, r.Method, path, nil), 404, "NOT_FOUND", "")
	}
	for _, r := range operators.Routes {
		if slices.ContainsFunc(
			slices.Concat(organizations.Routes, organizations.Forbidden),
			func(of kernel.Route) bool { return of.Path == r.Path },
		) {
			continue
		}
		path := strings.NewReplacer("{", "", "}", "").Replace(r.Path)
		o.testEnv.wantRefusal("an operator's call", o.testEnv.call(o.one, r.Method, path, nil), 404, "NOT_FOUND", "")
	}
	if got := o.written(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	o.desk.wantStatus(o.desk.call(o.ann, "GET", "/organizations", nil), 200)
	o.desk.wantStatus(o.desk.call(tenant{}, "GET", "/openapi.json", nil), 200)
}

// Rule OP-1.
func TestOperatorsAreTakenFromTheirListAlone(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for name, from := range map[string][]netip.Prefix{
		"an empty list": nil, "another network": {netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("::1/128")},
	} {
		desk := o.opened(t, from, kernel.Limits{})
		for _, who := range []tenant{o.ann, {}, o.one} {
			desk.wantRefusal(
				name,
				desk.call(who, "GET", "/organizations", nil, "X-Forwarded-For", "10.0.0.1", "X-Real-IP", "10.0.0.1"),
				403, "IP_NOT_ALLOWED", "",
			)
		}
		desk.wantRefusal(name+" reads the document", desk.call(o.ann, "GET", "/openapi.json", nil), 403,
			"IP_NOT_ALLOWED", "")
	}
	// Behind a named proxy, the caller's address is the one that the proxy reports; behind any
	// other, it is the proxy's.
	behind := *o.testEnv
	behind.t, behind.face = t, operators
	behind.server = httptest.NewServer(operatorapi.New(operatorapi.Config{
		DB: o.db, Chains: o.conf.Chains, Withdrawals: o.conf.Withdrawals, Whitelist: o.white,
		AllowedPrefixes: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")},
		Proxies:         kernel.Proxies{netip.MustParsePrefix("127.0.0.0/8")}, CursorKey: o.conf.CursorKey,
		BaseURL: "http://127.0.0.1/v1", Log: newLogger(o.logs),
	}))
	t.Cleanup(behind.server.Close)
	behind.wantStatus(behind.call(o.ann, "GET", "/organizations", nil, "X-Forwarded-For", "203.0.113.7, 10.0.0.1"), 200)
	for _, said := range []string{"203.0.113.7", "10.0.0.1, 203.0.113.7", "10.0.0.1, unknown", "127.0.0.1"} {
		behind.wantRefusal("forwarded for "+said,
			behind.call(o.ann, "GET", "/organizations", nil, "X-Forwarded-For", said), 403, "IP_NOT_ALLOWED", "")
	}
	behind.wantRefusal("without a forwarded address", behind.call(o.ann, "GET", "/organizations", nil), 403, "IP_NOT_ALLOWED",
		"")
	pages := []string{
		"/openapi.json", "/docs", "/docs/", "/docs/openapi.json", "/docs/start.js", "/docs/" + kernel.Renderer,
	}
	// An IPv4 address in the form of IPv6 is the same address.
	handler := operatorapi.New(
		operatorapi.Config{DB: o.db, AllowedPrefixes: here, CursorKey: []byte("k"), Log: newLogger(o.logs)},
	)
	for peer, want := range map[string]int{
		"[::ffff:127.0.0.1]:9": 200, "127.9.9.9:9": 200, "[::1]:9": 403, "127.0.0.1": 403, "": 403, "@": 403,
	} {
		for _, page := range pages {
			w := newRecorder()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, page, nil)
			r.RemoteAddr = peer
			if handler.ServeHTTP(w, r); w.Code != want {
				t.Errorf("%s for %q: got %v, want %v", page, peer, w.Code, want)
			}
		}
	}
}

// Rule OP-1.
func TestWrongOperatorKeysAreLimited(t *testing.T) {
	t.Parallel()
	o := newOffice(t, kernel.Limits{Failures: kernel.Rate{Count: 1, Period: time.Hour, Burst: 2}})
	for range 2 {
		o.desk.wantRefusal("wrong", o.desk.call(tenant{key: "cok_wrong"}, "GET", "/freezes", nil), 401, "UNAUTHORIZED",
			"")
	}
	o.desk.wantRefusal(
		"too many",
		o.desk.call(tenant{key: "cok_wrong"}, "GET", "/freezes", nil, "X-Forwarded-For", "10.0.0.1"), 429,
		"RATE_LIMITED", "",
	)
	o.desk.wantStatus(o.desk.call(o.ann, "GET", "/freezes", nil), 200)
}

// Rule OP-2.
func TestARevokedOperatorKeyIsRefusedFromThenOn(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	other := o.opened(t, here, kernel.Limits{})
	for _, desk := range []*testEnv{o.desk, other} {
		desk.wantStatus(desk.call(o.ann, "GET", "/organizations", nil), 200)
	}
	_, rolled, err := operator.RollKey(t.Context(), o.db, audit.Operator("test"), "ann")
	if err != nil {
		t.Fatal(err)
	}
	for _, desk := range []*testEnv{o.desk, other} {
		desk.wantRefusal("rolled", desk.call(o.ann, "GET", "/organizations", nil), 401, "UNAUTHORIZED", "")
		desk.wantStatus(desk.call(tenant{key: rolled.Reveal()}, "GET", "/organizations", nil), 200)
	}
	if _, err := operator.RevokeKey(t.Context(), o.db, audit.Operator("test"), "ann"); err != nil {
		t.Fatal(err)
	}
	for _, desk := range []*testEnv{o.desk, other} {
		desk.wantRefusal("revoked", desk.call(tenant{key: rolled.Reveal()}, "GET", "/organizations", nil), 401,
			"UNAUTHORIZED", "")
	}
}

// Rules OP-2, OP-3.
func TestOperatorsMakeOrganizationsAndRollTheirKeys(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	made := o.desk.wantStatus(o.desk.call(o.ann, "POST", "/organizations", map[string]any{"name": "  Third "}), 201)
	third := tenant{made.text("organizationId"), made.text("apiKey")}
	if made.text("name") != "Third" || made.text("status") != "ACTIVE" || !strings.HasPrefix(third.key, "ck_") {
		t.Errorf("got %s, want Third with its key", made.raw)
	}
	if got := o.desk.wantStatus(
		o.desk.call(o.ann, "GET", "/organizations/"+third.id, nil), 200,
	); got.text("organizationId") != third.id || got.body["apiKey"] != nil {
		t.Errorf("read: got %s, want it without its key", got.raw)
	}
	o.testEnv.wantStatus(
		o.testEnv.call(third, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "first"}), 200,
	)

	another := *o.testEnv // another process, which has seen the old key
	another.server = httptest.NewServer(api.New(o.conf))
	t.Cleanup(another.server.Close)
	another.wantStatus(another.call(third, "GET", "/mints", nil), 200)
	rolled := o.desk.wantStatus(o.desk.call(o.ann, "POST", "/organizations/"+third.id+"/api-key/roll", nil), 201)
	for _, h := range []*testEnv{o.testEnv, &another} {
		h.wantRefusal("the old key", h.call(third, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
		h.wantStatus(h.call(tenant{key: rolled.text("apiKey")}, "GET", "/mints", nil), 200)
	}

	var names []string
	for path := "/organizations?order=asc&limit=2"; ; {
		page := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
		for _, item := range page.list() {
			names = append(names, item["name"].(string))
		}
		if page.body["hasMore"] != true {
			break
		}
		path = "/organizations?order=asc&limit=2&cursor=" + page.text("nextCursor")
	}
	if want := []string{"house", "house", "Third"}; !slices.Equal(names, want) {
		t.Errorf("pages: got %v, want %v", names, want)
	}
	if got := o.desk.wantStatus(
		o.desk.call(o.ann, "GET", "/organizations?name=Third", nil), 200,
	).list(); len(got) != 1 {
		t.Errorf("by name: got %v, want one", got)
	}
	for _, path := range []string{
		"/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		"/organizations/%00", "/organizations/org_x%2F..", "/organizations/" + strings.ToLower(third.id),
	} {
		o.desk.wantRefusal(path, o.desk.call(o.ann, "GET", path, nil), 404, "NOT_FOUND", "")
		o.desk.wantRefusal(path, o.desk.call(o.ann, "POST", path+"/api-key/roll", nil), 404, "NOT_FOUND", "")
		o.desk.wantRefusal(path, o.desk.call(o.ann, "GET", path+"/settings", nil), 404, "NOT_FOUND", "")
		o.desk.wantRefusal(
			path, o.desk.call(o.ann, "PATCH", path+"/settings", map[string]any{"requireWithdrawIdempotency": true}),
			404, "NOT_FOUND", "",
		)
	}
	// Every call is logged with its key, and what it changed as well.
	for action, want := range map[string]int{"organization.created": 1, "api_key.rolled": 1} {
		var n int
		if err := pgtest.OwnerPool(
			t, o.db,
		).QueryRow(t.Context(),
			`SELECT count(*) FROM audit_log WHERE action = $1 AND org_id = $2 AND actor_kind = 'OPERATOR' AND actor_id = $3`,
			action, third.id, o.key.ID).Scan(&n); err != nil || n != want {
			t.Errorf("%s: got %v %v rows of hers, want %v", action, n, err, want)
		}
	}
	var calls, told int
	refused := o.desk.call(o.ann, "GET", "/organizations?nmae=x", nil)
	o.desk.wantRefusal("refused", refused, 400, "UNKNOWN_FIELD", "nmae")
	if err := pgtest.OwnerPool(t, o.db).QueryRow(t.Context(), `
		SELECT count(*), count(*) FILTER (WHERE resource_id = $2 AND detail->>'call' = 'listOrganizations' AND detail->>'key' = 'ann')
		FROM audit_log WHERE action = 'operator.called' AND actor_id = $1 AND org_id IS NULL`,
		o.key.ID, refused.header.Get("X-Request-Id")).Scan(&calls, &told); err != nil || calls != 23 || told != 1 {
		t.Errorf("calls: got %v and %v of the last %v, want all of them and 1", calls, told, err)
	}
}

// Rule OP-4.
func TestSettingsAreChangedWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	path := "/organizations/" + o.one.id + "/settings"
	first := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
	if first.body["customerWithdrawUsdThreshold"] != nil || first.body["requireWithdrawIdempotency"] != false ||
		first.body["approvalQuorum"] != 1.0 {
		t.Errorf("at first: got %s", first.raw)
	}
	set := o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{
		"customerWithdrawUsdThreshold": "0.0005",
		"swapFeeBps":                   0, "customerSwapsEnabled": false, "screeningUsdThreshold": nil,
		"swappableMintIds": []int{},
	}), 200)
	if set.text("customerWithdrawUsdThreshold") != "0.0005" {
		t.Errorf("set: got %s", set.raw)
	}
	if got := o.testEnv.wantStatus(
		o.testEnv.call(o.one, "POST", "/withdraw", payment("idempotencyKey", "held")), 202,
	); got.text("status") != "AWAITING_APPROVAL" {
		t.Errorf("above the threshold: got %s, want it held", got.raw)
	}
	all := map[string]any{
		"screeningSeverityThreshold": "LOW", "screeningUsdThreshold": "1000.5", "twoFactorUsdThreshold": "0",
		"withdrawSeverityThreshold": "SEVERE",
		"approvalAllowlist": []any{
			map[string]any{"email": "zo\u00eb@example.com", "customerId": "user_42", "active": true},
		}, "approvalQuorum": 2.0,
		"customerSwapsEnabled": true, "organizationSwapsEnabled": true, "swappableMintIds": []any{1.0},
		"swapFeeBps":               25.0,
		"flaggedDepositApiEnabled": true, "autoRestoreFailedSwaps": true, "chargeCustomerCosts": "RENT_AND_FAILURES",
	}
	o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, all), 200)
	kept := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
	for name, want := range all {
		if got := kept.body[name]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	// A setting that is stored and has no effect yet is reported as such.
	if got := fmt.Sprint(kept.body["unavailable"]); got != fmt.Sprint(
		slices.Sorted(maps.Keys(org.UnavailableSettings)),
	) {
		t.Errorf("got %v, want what belongs to later", got)
	}
	before := o.written()
	for _, c := range []struct {
		name, body string
		status     int
		code       string
		param      string
	}{
		{"number", `{"customerWithdrawUsdThreshold":10}`, 400, "INVALID_REQUEST", "customerWithdrawUsdThreshold"},
		{"flag as text", `{"requireWithdrawIdempotency":"true"}`, 400, "INVALID_REQUEST", "requireWithdrawIdempotency"},
		{"flag as null", `{"requireWithdrawIdempotency":null}`, 400, "INVALID_REQUEST", "requireWithdrawIdempotency"},
		{"flag as number", `{"requireWithdrawIdempotency":1}`, 400, "INVALID_REQUEST", "requireWithdrawIdempotency"},
		{"list as null", `{"ipAllowlist":null}`, 400, "INVALID_REQUEST", "ipAllowlist"},
		{"list with null", `{"ipAllowlist":[null]}`, 400, "INVALID_REQUEST", "ipAllowlist"},
		{"list as text", `{"ipAllowlist":"10.0.0.0/8"}`, 400, "INVALID_REQUEST", "ipAllowlist"},
		{"no address", `{"ipAllowlist":["office"]}`, 400, "INVALID_REQUEST", "ipAllowlist"},
		{"everybody", `{"ipAllowlist":["0.0.0.0/0"]}`, 400, "INVALID_REQUEST", "ipAllowlist"},
		{"mints as text", `{"swappableMintIds":["1"]}`, 400, "INVALID_REQUEST", "swappableMintIds"},
		{"basis points with a point", `{"swapFeeBps":10.0}`, 400, "INVALID_REQUEST", "swapFeeBps"},
		{"negative", `{"customerWithdrawUsdThreshold":"-1"}`, 400, "INVALID_REQUEST", "customerWithdrawUsdThreshold"},
		{"exponent", `{"customerWithdrawUsdThreshold":"1e3"}`, 400, "INVALID_REQUEST", "customerWithdrawUsdThreshold"},
		{
			"leading zero",
			`{"customerWithdrawUsdThreshold":"01"}`, 400, "INVALID_REQUEST", "customerWithdrawUsdThreshold",
		},
		{"empty", `{"customerWithdrawUsdThreshold":""}`, 400, "INVALID_REQUEST", "customerWithdrawUsdThreshold"},
		{
			"too precise",
			`{"customerWithdrawUsdThreshold":"0.0000000000000000001"}`, 400, "INVALID_REQUEST",
			"customerWithdrawUsdThreshold",
		},
		{
			"too large",
			`{"customerWithdrawUsdThreshold":"` + strings.Repeat("9", 40) + `"}`, 400, "INVALID_REQUEST",
			"customerWithdrawUsdThreshold",
		},
		{
			"no severity",
			`{"screeningSeverityThreshold":"UNKNOWN"}`, 400, "INVALID_REQUEST", "screeningSeverityThreshold",
		},
		{"unknown", `{"customerWithdrawUsdTreshold":"10"}`, 400, "UNKNOWN_FIELD", "customerWithdrawUsdTreshold"},
		{"another case", `{"CustomerWithdrawUsdThreshold":"10"}`, 400, "UNKNOWN_FIELD", "CustomerWithdrawUsdThreshold"},
		{
			"twice",
			`{"requireWithdrawIdempotency":true,"requireWithdrawIdempotency":false}`, 400, "INVALID_JSON",
			"requireWithdrawIdempotency",
		},
		{
			"what cannot be and what can",
			`{"requireWithdrawIdempotency":true,"customerWithdrawUsdThreshold":"x"}`, 400, "INVALID_REQUEST",
			"customerWithdrawUsdThreshold",
		},
		{
			"screening and what cannot be",
			`{"screeningUsdThreshold":"10","approvalQuorum":11}`, 400, "INVALID_REQUEST", "approvalQuorum",
		},
		{
			"severity in lower case",
			`{"withdrawSeverityThreshold":"high"}`, 400, "INVALID_REQUEST", "withdrawSeverityThreshold",
		},
		{"severity as number", `{"withdrawSeverityThreshold":3}`, 400, "INVALID_REQUEST", "withdrawSeverityThreshold"},
		{"dollars as number", `{"twoFactorUsdThreshold":10}`, 400, "INVALID_REQUEST", "twoFactorUsdThreshold"},
		{"a mint that is not there", `{"swappableMintIds":[1,999999]}`, 400, "INVALID_REQUEST", "swappableMintIds"},
		{"a mint below", `{"swappableMintIds":[-1]}`, 400, "INVALID_REQUEST", "swappableMintIds"},
		{"a mint above", `{"swappableMintIds":[9223372036854775807]}`, 400, "INVALID_REQUEST", "swappableMintIds"},
		{"a large fee", `{"swapFeeBps":1001}`, 400, "INVALID_REQUEST", "swapFeeBps"},
		{"a negative fee", `{"swapFeeBps":-1}`, 400, "INVALID_REQUEST", "swapFeeBps"},
		{"no quorum", `{"approvalQuorum":0}`, 400, "INVALID_REQUEST", "approvalQuorum"},
		{"quorum as null", `{"approvalQuorum":null}`, 400, "INVALID_REQUEST", "approvalQuorum"},
		{"allowlist as null", `{"approvalAllowlist":null}`, 400, "INVALID_REQUEST", "approvalAllowlist"},
		{
			"allowlist of texts",
			`{"approvalAllowlist":["a@example.com"]}`, 400, "INVALID_REQUEST", "approvalAllowlist[0]",
		},
		{
			"allowlist without an e-mail",
			`{"approvalAllowlist":[{"customerId":"user_42"}]}`, 400, "INVALID_REQUEST", "approvalAllowlist[0].email",
		},
		{
			"allowlist with an empty e-mail",
			`{"approvalAllowlist":[{"email":""}]}`, 400, "INVALID_REQUEST", "approvalAllowlist",
		},
		{
			"allowlist with a name",
			`{"approvalAllowlist":[{"email":"Ann <a@example.com>"}]}`, 400, "INVALID_REQUEST", "approvalAllowlist",
		},
		{
			"allowlist with what folds to two",
			`{"approvalAllowlist":[{"email":"a@example＠.com"}]}`, 400, "INVALID_REQUEST", "approvalAllowlist",
		},
		{
			"allowlist with an invisible",
			`{"approvalAllowlist":[{"email":"a​@example.com"}]}`, 400, "INVALID_REQUEST", "approvalAllowlist",
		},
		{
			"allowlist with full-width letters",
			`{"approvalAllowlist":[{"email":"ａ@example.com"}]}`, 400, "INVALID_REQUEST", "approvalAllowlist",
		},
		{
			"allowlist with an empty customer",
			`{"approvalAllowlist":[{"email":"a@example.com","customerId":""}]}`, 400, "INVALID_REQUEST",
			"approvalAllowlist",
		},
		{
			"allowlist with a stranger's member",
			`{"approvalAllowlist":[{"email":"a@example.com","note":"x"}]}`, 400, "UNKNOWN_FIELD",
			"approvalAllowlist[0].note",
		},
		{
			"allowlist with active as text",
			`{"approvalAllowlist":[{"email":"a@example.com","active":"true"}]}`, 400, "INVALID_REQUEST",
			"approvalAllowlist[0].active",
		},
		{
			"allowlist with the same twice",
			`{"approvalAllowlist":[{"email":"a@example.com"},{"email":"A@Example.com","active":false}]}`, 400,
			"INVALID_REQUEST", "approvalAllowlist",
		},
		{"list", `[]`, 400, "INVALID_REQUEST", ""},
		{"null", `null`, 400, "INVALID_REQUEST", ""},
		{"nothing", ``, 400, "INVALID_JSON", ""},
	} {
		o.desk.wantRefusal(c.name, o.desk.call(o.ann, "PATCH", path, c.body), c.status, c.code, c.param)
	}
	if got := o.written(); got != before {
		t.Errorf("refused: got %v, want %v", got, before)
	}
	off := o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{
		"customerWithdrawUsdThreshold": nil,
		"chargeCustomerCosts":          "NONE", "withdrawSeverityThreshold": nil, "requireWithdrawIdempotency": true,
	}), 200)
	if off.body["customerWithdrawUsdThreshold"] != nil || off.body["requireWithdrawIdempotency"] != true {
		t.Errorf("off: got %s", off.raw)
	}
	listed := o.desk.wantStatus(
		o.desk.call(o.ann, "PATCH", path, map[string]any{"ipAllowlist": []string{"203.0.113.7", "10.1.2.3/8"}}), 200,
	)
	if got := fmt.Sprint(listed.body["ipAllowlist"]); got != "[10.0.0.0/8 203.0.113.7/32]" {
		t.Errorf("list: got %v, want both, sorted", got)
	}
	o.testEnv.wantRefusal("from elsewhere", o.testEnv.call(o.one, "GET", "/mints", nil), 403, "IP_NOT_ALLOWED", "")
	off = o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"ipAllowlist": []string{}}), 200)
	same := o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{}), 200)
	if string(same.raw) != string(off.raw) {
		t.Errorf("nothing named: got %s, want %s", same.raw, off.raw)
	}
	if got := o.testEnv.wantStatus(
		o.testEnv.call(o.one, "POST", "/withdraw", payment("idempotencyKey", "goes")), 202,
	); got.text("status") != "PROCESSING" {
		t.Errorf("without a threshold: got %s, want it to go out", got.raw)
	}
}

// Rule OP-5.
func TestAFreezeOfTheOperatorsStopsWhatItNames(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	for _, c := range []struct {
		freeze map[string]any
		status int
		code   string
	}{
		{
			map[string]any{"scope": "CUSTOMER", "organizationId": o.one.id, "customerId": alice, "reason": "case 77"},
			403, "CUSTOMER_FROZEN",
		},
		{map[string]any{"scope": "ORGANIZATION", "organizationId": o.one.id}, 403, "ORGANIZATION_FROZEN"},
		{map[string]any{"scope": "CHAIN", "chain": "ETHEREUM", "reason": ""}, 422, "WITHDRAWALS_SUSPENDED"},
		{map[string]any{"scope": "ALL"}, 422, "WITHDRAWALS_SUSPENDED"},
	} {
		name := fmt.Sprint(c.freeze["scope"])
		put := o.desk.wantStatus(o.desk.call(o.ann, "POST", "/freezes", c.freeze), 201)
		id := put.text("freezeId")
		again := map[string]any{}
		for k, v := range c.freeze {
			again[k] = v
		}
		again["reason"] = "another"
		if got := o.desk.wantStatus(o.desk.call(o.ann, "POST", "/freezes", again), 200); got.text("freezeId") != id ||
			got.text("reason") != put.text("reason") {
			t.Errorf("%s again: got %s, want %s", name, got.raw, put.raw)
		}
		if got := o.testEnv.call(o.one, "POST", "/withdraw", payment()); got.status != c.status ||
			got.text("code") != c.code {
			t.Errorf("%s: got %s, want %v", name, got.raw, c.code)
		}
		if got := o.desk.wantStatus(
			o.desk.call(o.ann, "GET", "/organizations/"+o.one.id, nil), 200,
		); (got.text("status") == "FROZEN") != (name == "ORGANIZATION") {
			t.Errorf("%s: got the organization %s", name, got.raw)
		}
		if got := o.desk.wantStatus(
			o.desk.call(o.ann, "GET", "/freezes?standing=true&scope="+name, nil), 200,
		).list(); len(got) != 1 || got[0]["source"] != "OPERATOR" {
			t.Errorf("%s: got the freezes %v, want one", name, got)
		}
		lifted := o.desk.wantStatus(o.desk.call(o.ann, "DELETE", "/freezes/"+id, nil), 200)
		if lifted.text("liftedBy") != "OPERATOR "+o.key.ID || lifted.body["liftedAt"] == nil {
			t.Errorf("%s lifted: got %s, want by whom and when", name, lifted.raw)
		}
		o.desk.wantRefusal(name+" lifted twice", o.desk.call(o.ann, "DELETE", "/freezes/"+id, nil), 409,
			"INVALID_STATE", "")
		o.testEnv.wantStatus(o.testEnv.call(o.one, "POST", "/withdraw", payment()), 202)
	}
	for query, want := range map[string]int{
		"":                4,
		"?standing=false": 4, "?standing=true": 0, "?organizationId=" + o.one.id: 2, "?chain=ETHEREUM": 1,
		"?source=VERIFY": 0, "?createdBefore=2020-01-01T00:00:00Z": 0,
	} {
		if got := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/freezes"+query, nil), 200).list(); len(got) != want {
			t.Errorf("freezes%s: got %v, want %v", query, len(got), want)
		}
	}
	// An organization's own stays its own.
	var own freeze.Freeze
	err := o.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		own, _, err = freeze.CreateOrFind(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeCustomer, OrgID: o.one.id, CustomerID: alice, Source: freeze.SourceOrganization,
			Actor: audit.APIKey(o.one.id),
		})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	before := o.written()
	o.desk.wantRefusal("an organization's own", o.desk.call(o.ann, "DELETE", "/freezes/"+own.ID, nil), 409,
		"INVALID_STATE", "")
	for _, id := range []string{"frz_01J9ZW3M8Q4S5T6V7W8X9YZABC", "%00", "x"} {
		o.desk.wantRefusal(id, o.desk.call(o.ann, "DELETE", "/freezes/"+id, nil), 404, "NOT_FOUND", "")
	}
	if got := o.written(); got != before {
		t.Errorf("refused: got %v, want %v", got, before)
	}
}

// Rules REQ-1, REQ-2, REQ-3.
func TestHostileBodiesOfOperatorsWriteNothing(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	before := o.written()
	one := `"organizationId":"` + o.one.id + `"`
	for _, c := range []struct {
		name, path, body string
		status           int
		code             string
		param            string
	}{
		{"no name", "/organizations", `{}`, 400, "INVALID_REQUEST", "name"},
		{"empty", "/organizations", `{"name":""}`, 400, "INVALID_REQUEST", "name"},
		{"spaces", "/organizations", `{"name":"  "}`, 400, "INVALID_REQUEST", "name"},
		{"NUL", "/organizations", `{"name":"a\u0000b"}`, 400, "INVALID_REQUEST", "name"},
		{"line break", "/organizations", `{"name":"a\nb"}`, 400, "INVALID_REQUEST", "name"},
		{"long", "/organizations", `{"name":"` + strings.Repeat("a", 201) + `"}`, 400, "INVALID_REQUEST", "name"},
		{"number", "/organizations", `{"name":5}`, 400, "INVALID_REQUEST", "name"},
		{"null", "/organizations", `{"name":null}`, 400, "INVALID_REQUEST", "name"},
		{"half a character", "/organizations", `{"name":"\ud800"}`, 400, "INVALID_JSON", ""},
		{"unknown", "/organizations", `{"name":"a","apiKey":"ck_mine"}`, 400, "UNKNOWN_FIELD", "apiKey"},
		{"no scope", "/freezes", `{}`, 400, "INVALID_REQUEST", "scope"},
		{"other scope", "/freezes", `{"scope":"WALLET"}`, 400, "INVALID_REQUEST", "scope"},
		{"case", "/freezes", `{"scope":"all"}`, 400, "INVALID_REQUEST", "scope"},
		{"more than is meant", "/freezes", `{"scope":"ALL",` + one + `}`, 400, "INVALID_REQUEST", "organizationId"},
		{
			"all of an organization for a customer",
			"/freezes", `{"scope":"ORGANIZATION",` + one + `,"customerId":"alice"}`, 400, "INVALID_REQUEST",
			"customerId",
		},
		{
			"chain beside",
			"/freezes", `{"scope":"ORGANIZATION",` + one + `,"chain":"ETHEREUM"}`, 400, "INVALID_REQUEST", "chain",
		},
		{"no organization", "/freezes", `{"scope":"ORGANIZATION"}`, 400, "INVALID_REQUEST", "organizationId"},
		{"no customer", "/freezes", `{"scope":"CUSTOMER",` + one + `}`, 400, "INVALID_REQUEST", "customerId"},
		{
			"empty customer",
			"/freezes", `{"scope":"CUSTOMER",` + one + `,"customerId":""}`, 400, "INVALID_REQUEST", "customerId",
		},
		{
			"NUL customer",
			"/freezes", `{"scope":"CUSTOMER",` + one + `,"customerId":"\u0000"}`, 400, "INVALID_REQUEST", "customerId",
		},
		{
			"unknown customer",
			"/freezes", `{"scope":"CUSTOMER",` + one + `,"customerId":"Alice"}`, 404, "NOT_FOUND", "customerId",
		},
		{
			"another's customer",
			"/freezes", `{"scope":"CUSTOMER","organizationId":"` + o.two.id + `","customerId":"alice"}`, 404,
			"NOT_FOUND", "customerId",
		},
		{
			"unknown organization",
			"/freezes", `{"scope":"ORGANIZATION","organizationId":"org_1"}`, 404, "NOT_FOUND", "organizationId",
		},
		{
			"NUL organization",
			"/freezes", `{"scope":"ORGANIZATION","organizationId":"\u0000"}`, 404, "NOT_FOUND", "organizationId",
		},
		{"no chain", "/freezes", `{"scope":"CHAIN"}`, 400, "INVALID_REQUEST", "chain"},
		{"a chain that does not run", "/freezes", `{"scope":"CHAIN","chain":"BASE"}`, 400, "INVALID_REQUEST", "chain"},
		{"no chain at all", "/freezes", `{"scope":"CHAIN","chain":"\u0000"}`, 400, "INVALID_REQUEST", "chain"},
		{
			"long reason",
			"/freezes", `{"scope":"ALL","reason":"` + strings.Repeat("a", 501) + `"}`, 400, "INVALID_REQUEST", "reason",
		},
		{"NUL reason", "/freezes", `{"scope":"ALL","reason":"\u0000"}`, 400, "INVALID_REQUEST", "reason"},
		{"other source", "/freezes", `{"scope":"ALL","source":"VERIFY"}`, 400, "UNKNOWN_FIELD", "source"},
		{"twice", "/freezes", `{"scope":"CUSTOMER","scope":"ALL"}`, 400, "INVALID_JSON", "scope"},
		{"not whole", "/freezes", `{"scope":"ALL"`, 400, "INVALID_JSON", ""},
		{"two documents", "/freezes", `{"scope":"ALL"}{}`, 400, "INVALID_JSON", ""},
	} {
		o.desk.wantRefusal(c.name, o.desk.call(o.ann, "POST", c.path, c.body), c.status, c.code, c.param)
	}
	o.desk.wantRefusal(
		"form",
		o.desk.call(o.ann, "POST", "/freezes", `scope=ALL`, "Content-Type", "application/x-www-form-urlencoded"), 415,
		"UNSUPPORTED_MEDIA_TYPE", "",
	)
	o.desk.wantRefusal(
		"large",
		o.desk.call(o.ann, "POST", "/organizations", `{"name":"`+strings.Repeat("a", kernel.BodyBytesMax)+`"}`), 413,
		"BODY_TOO_LARGE", "",
	)
	for path, params := range map[string]map[string]string{
		"/organizations": {"limit=0": "limit", "name=%00": "name", "createdAfter=x": "createdAfter"},
		"/freezes": {
			"standing=1": "standing",
			"scope=all":  "scope", "source=x": "source", "chain=ethereum": "chain",
			"organizationId=%00": "organizationId",
		},
		"/deposits":    {"status=X": "status", "organizationId=": "organizationId", "mintId=0": "mintId"},
		"/withdrawals": {"status=X": "status", "reference=%0A": "reference"},
		"/reserves":    {"organizationId=%FF": "organizationId"},
	} {
		for query, param := range params {
			o.desk.wantRefusal(path+query, o.desk.call(o.ann, "GET", path+"?"+query, nil), 400, "INVALID_REQUEST",
				param)
		}
		o.desk.wantRefusal(path, o.desk.call(o.ann, "GET", path+"?x=1", nil), 400, "UNKNOWN_FIELD", "x")
	}
	for _, path := range []string{"/organizations", "/freezes", "/deposits", "/withdrawals"} {
		o.desk.wantRefusal(path, o.desk.call(o.ann, "GET", path+"?cursor=AAAA", nil), 400, "INVALID_CURSOR", "cursor")
	}
	// A cursor of an organization's list is not one of an operator's.
	for range 2 {
		o.testEnv.wantStatus(o.testEnv.call(o.one, "POST", "/withdraw", payment()), 202)
	}
	theirs := o.testEnv.wantStatus(o.testEnv.call(o.one, "GET", "/withdrawals?limit=1", nil), 200).text("nextCursor")
	o.desk.wantRefusal("an organization's cursor", o.desk.call(o.ann, "GET", "/withdrawals?cursor="+theirs, nil), 400,
		"INVALID_CURSOR", "cursor")
	o.desk.wantRefusal("unknown organization", o.desk.call(o.ann, "GET", "/reserves?organizationId=org_1", nil), 404,
		"NOT_FOUND", "organizationId")
	if got := o.written(); strings.Split(got, ", audit")[0] != strings.Split(before, ", audit")[0] {
		t.Errorf("refused: got %v, want %v", got, before)
	}
}

// Rule OP-6.
func TestOperatorsReadAcrossOrganizations(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.testEnv.deposit(o.two, "bob", 1_000_000)
	var want []string
	for i := range 7 {
		who, customerID := o.one, alice
		if i%3 == 0 {
			who, customerID = o.two, "bob"
		}
		w := o.testEnv.wantStatus(o.testEnv.call(
			who, "POST", "/withdraw", payment("customerId", customerID, "reference", fmt.Sprintf("r%d", i%2)),
		), 202)
		want = append(want, who.id+" "+w.text("withdrawalId"))
	}
	read := func(query string) (got []string) {
		t.Helper()
		for path := "/withdrawals" + query; ; {
			page := o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
			for _, item := range page.list() {
				got = append(got, fmt.Sprint(item["organizationId"], " ", item["withdrawalId"]))
			}
			if page.body["hasMore"] != true {
				return got
			}
			path = "/withdrawals" + query + "&cursor=" + page.text("nextCursor")
		}
	}
	if got := read("?order=asc&limit=2"); !slices.Equal(got, want) {
		t.Errorf("oldest first: got %v, want %v", got, want)
	}
	backwards := slices.Clone(want)
	slices.Reverse(backwards)
	if got := read("?limit=3"); !slices.Equal(got, backwards) {
		t.Errorf("newest first: got %v, want %v", got, backwards)
	}
	for query, n := range map[string]int{
		"?organizationId=" + o.two.id + "&limit=2": 3, "?organizationId=org_1&limit=2": 0,
		"?customerId=alice&limit=2": 4, "?reference=r0&limit=2": 4,
		"?status=PROCESSING&mintId=1&chain=ETHEREUM&limit=200": 7, "?status=FAILED&limit=2": 0,
		"?txHash=0xaa&limit=2": 0, "?address=" + strings.ToLower(stranger) + "&limit=2": 7,
	} {
		if got := read(query); len(got) != n {
			t.Errorf("%s: got %v, want %v", query, len(got), n)
		}
	}
	for query, owners := range map[string][]string{
		"": {o.two.id, o.one.id}, "?order=asc": {o.one.id, o.two.id}, "?status=FLAGGED": nil,
		"?organizationId=" + o.one.id + "&limit=1&order=asc": {o.one.id},
		"?limit=1": {o.two.id}, "?customerId=alice&mintId=1&chain=ETHEREUM&status=CREDITED": {o.one.id},
		"?txHash=0xaa&address=0xbb": nil,
	} {
		var got []string
		for _, item := range o.desk.wantStatus(o.desk.call(o.ann, "GET", "/deposits"+query, nil), 200).list() {
			got = append(got, item["organizationId"].(string))
		}
		if !slices.Equal(got, owners) {
			t.Errorf("deposits%s: got %v, want %v", query, got, owners)
		}
	}

	reserve := func(query string) map[string]any {
		t.Helper()
		data := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/reserves"+query, nil), 200).list()
		if len(data) != 1 {
			t.Fatalf("reserves%s: got %v, want one mint", query, data)
		}
		return data[0]
	}
	for query, sums := range map[string][3]string{
		"": {"2000000", "1993000", "7000"}, "?organizationId=" + o.two.id: {"1000000", "997000", "3000"},
	} {
		r := reserve(query)
		held, owed := r["holdings"].(map[string]any), r["liabilities"].(map[string]any)
		if held["total"] != sums[0] || held["treasuries"] != sums[0] || owed["customersAvailable"] != sums[1] ||
			owed["customersWithdrawing"] != sums[2] || owed["total"] != sums[0] || r["difference"] != "0" {
			t.Errorf("reserves%s: got %v, want %v", query, r, sums)
		}
	}
}
