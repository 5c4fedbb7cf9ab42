package surfacetest

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
)

const lazarus = "0x098B716B8Aaf21512996dC57EB0615e2383E2f96"

func TestTheLocalListAnswersAsItWasTold(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	path := "/local-risk/" + lazarus
	severity := func() string {
		v, err := risk.LocalScreener{DB: o.db}.Screen(t.Context(),
			risk.Subject{Chain: chain.Ethereum, Address: lazarus})
		if err != nil {
			return "OUTAGE"
		}
		return string(v.Severity)
	}
	if got := severity(); got != "LOW" {
		t.Errorf("a fresh address: got %s, want LOW", got)
	}
	o.desk.wantRefusal("not listed", o.desk.call(o.ann, "GET", path, nil), 404, "NOT_FOUND", "")
	o.desk.wantRefusal("not listed", o.desk.call(o.ann, "DELETE", path, nil), 404, "NOT_FOUND", "")
	set := o.desk.wantStatus(o.desk.call(
		o.ann, "PUT", path, `{"severity":"SEVERE","score":98,"entity":"OFAC SDN: Lazarus","categories":["SANCTIONS"]}`,
	), 200)
	if set.text("severity") != "SEVERE" || set.text("address") != lazarus || set.body["score"] != 98.0 ||
		set.body["outage"] != false || severity() != "SEVERE" {
		t.Errorf("set: got %s and %s", set.raw, severity())
	}
	out := o.desk.wantStatus(o.desk.call(o.ann, "PUT", "/local-risk/"+strings.ToLower(lazarus), `{"outage":true}`), 200)
	if out.body["outage"] != true || out.body["severity"] != nil || severity() != "OUTAGE" {
		t.Errorf("an outage: got %s and %s", out.raw, severity())
	}
	o.desk.wantStatus(
		o.desk.call(o.ann, "PUT", "/local-risk/0x722122dF12D4e14e13Ac3b6895a86e84145b6967", `{"severity":"UNKNOWN"}`),
		200,
	)
	if got := o.desk.wantStatus(o.desk.call(o.ann, "GET", "/local-risk?limit=1", nil), 200); len(got.list()) != 1 ||
		got.body["nextCursor"] == nil {
		t.Errorf("a page: got %s, want one of two", got.raw)
	}
	o.desk.wantStatus(o.desk.call(o.ann, "GET", path, nil), 200)
	o.desk.wantStatus(o.desk.call(o.ann, "DELETE", path, nil), 200)
	if got := severity(); got != "LOW" {
		t.Errorf("taken off: got %s, want LOW", got)
	}
	var told int
	err := pgtest.OwnerPool(t, o.db).QueryRow(
		t.Context(),
		`SELECT count(*) FROM audit_log WHERE action IN ('local_risk.set', 'local_risk.cleared') AND actor_id = $1`,
		o.key.ID,
	).Scan(&told)
	if err != nil || told != 4 {
		t.Errorf("got %d audit rows %v, want 4", told, err)
	}
}

func TestTheLocalListRefusesWhatItCannotSay(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	x, before := strings.Repeat, o.written()
	for _, c := range []struct{ name, address, body, code, param string }{
		{"nothing", lazarus, `{}`, "INVALID_REQUEST", "severity"},
		{"null", lazarus, `null`, "INVALID_REQUEST", ""},
		{"another severity", lazarus, `{"severity":"severe"}`, "INVALID_REQUEST", "severity"},
		{"a number", lazarus, `{"severity":4}`, "INVALID_REQUEST", "severity"},
		{"no outage and nothing else", lazarus, `{"outage":false}`, "INVALID_REQUEST", "severity"},
		{"an outage as text", lazarus, `{"outage":"true"}`, "INVALID_REQUEST", "outage"},
		{"an outage and a severity", lazarus, `{"outage":true,"severity":"LOW"}`, "INVALID_REQUEST", "outage"},
		{"an outage and a score", lazarus, `{"outage":true,"score":1}`, "INVALID_REQUEST", "outage"},
		{"a score of 101", lazarus, `{"severity":"LOW","score":101}`, "INVALID_REQUEST", "score"},
		{"a score of -1", lazarus, `{"severity":"LOW","score":-1}`, "INVALID_REQUEST", "score"},
		{"a score with a point", lazarus, `{"severity":"LOW","score":1.0}`, "INVALID_REQUEST", "score"},
		{"a score as text", lazarus, `{"severity":"LOW","score":"1"}`, "INVALID_REQUEST", "score"},
		{"a long entity", lazarus, `{"severity":"LOW","entity":"` + x("e", 201) + `"}`, "INVALID_REQUEST", "entity"},
		{"an entity that turns around", lazarus, `{"severity":"LOW","entity":"a\u202eb"}`, "INVALID_REQUEST", "entity"},
		{"a zero in an entity", lazarus, `{"severity":"LOW","entity":"a\u0000b"}`, "INVALID_REQUEST", "entity"},
		{
			"many categories",
			lazarus, `{"severity":"LOW","categories":["a"` + x(`,"a"`, 20) + `]}`, "INVALID_REQUEST", "categories",
		},
		{"an empty category", lazarus, `{"severity":"LOW","categories":[""]}`, "INVALID_REQUEST", "categories"},
		{"a category of null", lazarus, `{"severity":"LOW","categories":[null]}`, "INVALID_REQUEST", "categories"},
		{"an unknown field", lazarus, `{"severity":"LOW","level":1}`, "UNKNOWN_FIELD", "level"},
		{"twice", lazarus, `{"severity":"LOW","severity":"SEVERE"}`, "INVALID_JSON", "severity"},
		{"a long address", x("a", 201), `{"severity":"LOW"}`, "INVALID_REQUEST", "address"},
		{"an address with a space", "0x%20", `{"severity":"LOW"}`, "INVALID_REQUEST", "address"},
		{"an address with a zero", "0x%00", `{"severity":"LOW"}`, "INVALID_REQUEST", "address"},
		{"no address", "nonsense", `{"severity":"LOW"}`, "INVALID_ADDRESS", "address"},
		{"a digit short", lazarus[:41], `{"severity":"LOW"}`, "INVALID_ADDRESS", "address"},
		{"a wrong checksum", strings.Replace(lazarus, "f", "F", 1), `{"severity":"LOW"}`, "INVALID_ADDRESS", "address"},
		{
			"of a chain that is not configured",
			"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", `{"severity":"LOW"}`, "INVALID_ADDRESS", "address",
		},
		{"of the longest that is looked at", x("a", 200), `{"severity":"LOW"}`, "INVALID_ADDRESS", "address"},
		{"an address of other letters", "%D0%B0", `{"severity":"LOW"}`, "INVALID_REQUEST", "address"},
	} {
		o.desk.wantRefusal(c.name, o.desk.call(o.ann, "PUT", "/local-risk/"+c.address, c.body), 400, c.code, c.param)
	}
	if got := o.written(); got != before {
		t.Errorf("refused: got %v, want %v", got, before)
	}
	for _, c := range []string{
		`{"severity":"LOW","score":0,"entity":"` + x("e", 200) + `","categories":["a"` + x(`,"a"`, 19) + `]}`,
		`{"severity":"LOW","score":100}`,
	} {
		o.desk.wantStatus(o.desk.call(o.ann, "PUT", "/local-risk/"+lazarus, c), 200) // Rule REQ-7.
	}
}

func TestAListThatNobodyAsksTakesNoEntry(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	other := *o.desk
	other.server = httptest.NewServer(operatorapi.New(operatorapi.Config{
		DB: o.db, Chains: o.conf.Chains, Withdrawals: o.conf.Withdrawals, AllowedPrefixes: here,
		CursorKey: o.conf.CursorKey, Log: newLogger(o.logs),
	}))
	t.Cleanup(other.server.Close)
	before := o.written()
	other.wantRefusal("an entry", other.call(o.ann, "PUT", "/local-risk/"+lazarus, `{"severity":"NONE"}`), 403,
		"FEATURE_DISABLED", "")
	if got := o.written(); got != before {
		t.Errorf("refused: got %v, want %v", got, before)
	}
}
