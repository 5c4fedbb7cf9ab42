package surfacetest

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/verify"
)

func adding(address, label string) map[string]any {
	return map[string]any{"chain": "ETHEREUM", "address": address, "label": label}
}

// Rules OP-8, OP-11.
func TestTheOperatorKeepsWhatOrganizationsMayBePaidOutTo(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	path, theirs := "/organizations/"+o.one.id+"/whitelisted-addresses",
		"/organizations/"+o.two.id+"/whitelisted-addresses"
	added := o.desk.wantStatus(o.desk.call(o.ann, "POST", path, adding(strings.ToLower(stranger), " our exchange ")),
		201)
	id := added.text("whitelistedAddressId")
	if added.text("status") != "COOLING_OFF" || added.text("address") != stranger ||
		added.text("label") != "our exchange" || added.text("createdBy") != o.key.ID ||
		added.text("organizationId") != o.one.id {
		t.Errorf("added: got %s", added.raw)
	}
	again := o.desk.call(o.ann, "POST", path, adding(stranger, "another name"))
	o.desk.wantRefusal("again", again, 409, "INVALID_STATE", "address")
	if !strings.Contains(string(again.raw), id) {
		t.Errorf("again: got %s, want it to name %s", again.raw, id)
	}
	// Another organization has its own list, and neither sees nor removes what is not on it.
	second := o.desk.wantStatus(o.desk.call(o.ann, "POST", theirs, adding(stranger, "x")), 201).
		text("whitelistedAddressId")
	o.desk.wantRefusal("removed from another list", o.desk.call(o.ann, "DELETE", theirs+"/"+id, nil), 404, "NOT_FOUND",
		"whitelistedAddressId")
	o.desk.wantStatus(o.desk.call(o.ann, "POST", path, adding(lazarus, "y")), 201)
	if got := o.desk.wantStatus(o.desk.call(o.ann, "GET", path+"?limit=1&order=asc", nil), 200); len(got.list()) != 1 ||
		got.body["nextCursor"] == nil || !strings.Contains(string(got.raw), id) {
		t.Errorf("a page: got %s, want the first of two", got.raw)
	}
	if got := o.desk.wantStatus(o.desk.call(o.ann, "GET", theirs, nil), 200); len(got.list()) != 1 ||
		!strings.Contains(string(got.raw), second) {
		t.Errorf("another list: got %s, want one", got.raw)
	}
	for range 2 {
		if got := o.desk.wantStatus(
			o.desk.call(o.ann, "DELETE", path+"/"+id, nil), 200,
		); got.text("status") != "REMOVED" || got.text("removedBy") != o.key.ID {
			t.Errorf("removed: got %s", got.raw)
		}
	}
	if next := o.desk.wantStatus(
		o.desk.call(o.ann, "POST", path, adding(stranger, "our exchange")), 201,
	); next.text("whitelistedAddressId") == id {
		t.Errorf("added again: got %s, want another id", next.raw)
	}
	var acts string
	err := pgtest.OwnerPool(t, o.db).QueryRow(
		t.Context(),
		`SELECT string_agg(action || ' ' || actor_id, ', ' ORDER BY audit_id) FROM audit_log WHERE resource_id = $1`,
		id,
	).Scan(&acts)
	if want := "whitelist.added " + o.key.ID + ", whitelist.endorsed whitelist, whitelist.removed " +
		o.key.ID; err != nil || acts != want {
		t.Errorf("audit: got %s %v, want %s", acts, err, want)
	}
	report, err := verify.RunChecks(t.Context(), o.db)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range report.Breaches {
		if strings.HasSuffix(b.Check, "whitelist") {
			t.Errorf("verify: got %+v, want no breach", b)
		}
	}
	// No key of an organization reaches any of it.
	for _, call := range []struct{ method, path string }{{"GET", path}, {"POST", path}, {"DELETE", path + "/" + id}} {
		o.testEnv.wantRefusal(call.method, o.testEnv.call(o.one, call.method, call.path, nil), 404, "NOT_FOUND", "")
	}
}

// Rule OP-8.
func TestTheWhitelistRefusesWhatNoPaymentMayGoTo(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	path := "/organizations/" + o.one.id + "/whitelisted-addresses"
	count := func() (n int) {
		if err := pgtest.OwnerPool(t, o.db).QueryRow(
			t.Context(), `SELECT count(*) FROM whitelisted_addresses`,
		).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	ours := o.testEnv.wantStatus(
		o.testEnv.call(o.one, "POST", "/deposit", map[string]any{"customerId": alice, "mintId": usdc}), 200,
	).text("address")
	x := strings.Repeat
	for _, c := range []struct {
		name   string
		body   string
		status int
		code   string
		param  string
	}{
		{"nothing", `{}`, 400, "INVALID_REQUEST", "chain"},
		{"null", `null`, 400, "INVALID_REQUEST", ""},
		{"a list", `[]`, 400, "INVALID_REQUEST", ""},
		{"no address", `{"chain":"ETHEREUM","label":"x"}`, 400, "INVALID_REQUEST", "address"},
		{"no label", `{"chain":"ETHEREUM","address":"` + stranger + `"}`, 400, "INVALID_REQUEST", "label"},
		{"another chain", `{"chain":"BASE","address":"` + stranger + `","label":"x"}`, 400, "INVALID_REQUEST", "chain"},
		{
			"a chain in lower case",
			`{"chain":"ethereum","address":"` + stranger + `","label":"x"}`, 400, "INVALID_REQUEST", "chain",
		},
		{
			"a number as a chain",
			`{"chain":1,"address":"` + stranger + `","label":"x"}`, 400, "INVALID_REQUEST", "chain",
		},
		{"a name", `{"chain":"ETHEREUM","address":"vitalik.eth","label":"x"}`, 400, "INVALID_ADDRESS", "address"},
		{
			"a wrong checksum",
			`{"chain":"ETHEREUM","address":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD","label":"x"}`, 400,
			"INVALID_ADDRESS", "address",
		},
		{
			"a long address",
			`{"chain":"ETHEREUM","address":"0x` + x("a", 200) + `","label":"x"}`, 400, "INVALID_ADDRESS", "address",
		},
		{"an address of null", `{"chain":"ETHEREUM","address":null,"label":"x"}`, 400, "INVALID_REQUEST", "address"},
		{
			"an empty label",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":""}`, 400, "INVALID_REQUEST", "label",
		},
		{
			"a label of spaces",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":"  "}`, 400, "INVALID_REQUEST", "label",
		},
		{
			"a long label",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":"` + x("é", 101) + `"}`, 400, "INVALID_REQUEST",
			"label",
		},
		{
			"a label that turns around",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":"a\u202eb"}`, 400, "INVALID_REQUEST", "label",
		},
		{
			"a zero in a label",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":"a\u0000b"}`, 400, "INVALID_REQUEST", "label",
		},
		{
			"half a rune",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":"a\ud800b"}`, 400, "INVALID_JSON", "",
		},
		{
			"an unknown field",
			`{"chain":"ETHEREUM","address":"` + stranger + `","label":"x","usableFrom":"2020-01-01T00:00:00Z"}`, 400,
			"UNKNOWN_FIELD", "usableFrom",
		},
		{
			"twice",
			`{"chain":"ETHEREUM","address":"` + stranger + `","address":"` + lazarus + `","label":"x"}`, 400,
			"INVALID_JSON", "address",
		},
		{
			"unspendable",
			`{"chain":"ETHEREUM","address":"0x0000000000000000000000000000000000000000","label":"x"}`, 422,
			"DESTINATION_NOT_ALLOWED", "address",
		},
		{
			"our own",
			`{"chain":"ETHEREUM","address":"` + ours + `","label":"x"}`, 422, "DESTINATION_NOT_ALLOWED", "address",
		},
		{
			"a token",
			`{"chain":"ETHEREUM","address":"` + string(usdcAddress) + `","label":"x"}`, 422, "DESTINATION_NOT_ALLOWED",
			"address",
		},
	} {
		o.desk.wantRefusal(c.name, o.desk.call(o.ann, "POST", path, c.body), c.status, c.code, c.param)
	}
	if got := count(); got != 0 {
		t.Errorf("rows: got %d, want none", got)
	}
	good := `{"chain":"ETHEREUM","address":"` + stranger + `","label":"` + x("é", 100) + `"}`
	o.desk.wantStatus(o.desk.call(o.ann, "POST", path, good), 201)
	for _, org := range []string{"org_nobody", "x", o.one.id + "x"} {
		o.desk.wantRefusal("of "+org, o.desk.call(o.ann, "POST", "/organizations/"+org+"/whitelisted-addresses", good),
			404, "NOT_FOUND", "")
		o.desk.wantRefusal("of "+org, o.desk.call(o.ann, "GET", "/organizations/"+org+"/whitelisted-addresses", nil),
			404, "NOT_FOUND", "")
	}
	for _, id := range []string{"x", "wla_", "wla_01J9ZW3M8Q4S5T6V7W8X9YZABC", "wla_%00", "%27%3B--"} {
		o.desk.wantRefusal("remove "+id, o.desk.call(o.ann, "DELETE", path+"/"+id, nil), 404, "NOT_FOUND",
			"whitelistedAddressId")
	}
	for _, query := range []string{"?limit=0", "?limit=x", "?order=up"} {
		o.desk.wantRefusal(query, o.desk.call(o.ann, "GET", path+query, nil), 400, "INVALID_REQUEST",
			strings.FieldsFunc(query, func(r rune) bool { return r == '?' || r == '=' })[0])
	}
	o.desk.wantRefusal("a cursor", o.desk.call(o.ann, "GET", path+"?cursor=x", nil), 400, "INVALID_CURSOR", "cursor")
}

// Rules OP-7, OP-11.
func TestAnAddressMoreNeedsASecondOperatorWhereFourEyesAreWanted(t *testing.T) {
	t.Parallel()
	o, others := watched(t, "bob")
	bob, desk := others[0], o.desk
	path := "/organizations/" + o.one.id + "/whitelisted-addresses"
	asked := desk.wantStatus(desk.call(o.ann, "POST", path, adding(stranger, "our exchange")), 201)
	request := asked.text("changeRequestId")
	if asked.text("status") != "AWAITING_APPROVAL" || asked.body["whitelistedAddressId"] != nil ||
		asked.body["usableFrom"] != nil {
		t.Errorf("asked: got %s", asked.raw)
	}
	if got := desk.wantStatus(desk.call(o.ann, "GET", path, nil), 200); len(got.list()) != 0 {
		t.Errorf("listed: got %s, want nothing yet", got.raw)
	}
	shown := desk.wantStatus(desk.call(bob, "GET", "/change-requests/"+request, nil), 200)
	if shown.text("kind") != "WHITELISTED_ADDRESS" || !strings.Contains(string(shown.raw), stranger) {
		t.Errorf("shown: got %s, want the address", shown.raw)
	}
	desk.wantRefusal("by who asked", desk.call(o.ann, "POST", "/change-requests/"+request+"/approve", nil), 409,
		"APPROVAL_REFUSED", "")
	desk.wantStatus(desk.call(bob, "POST", "/change-requests/"+request+"/approve", nil), 200)
	list := desk.wantStatus(desk.call(o.ann, "GET", path, nil), 200).list()
	if len(list) != 1 || list[0]["status"] != "COOLING_OFF" || list[0]["changeRequestId"] != request {
		t.Errorf("agreed: got %v, want it on the list", list)
	}
	// Removing tightens: one operator does.
	desk.wantStatus(desk.call(o.ann, "DELETE", path+"/"+list[0]["whitelistedAddressId"].(string), nil), 200)
}
