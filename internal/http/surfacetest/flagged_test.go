package surfacetest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wire"
)

// sanctions reports every address as listed.
type sanctions struct{}

func (sanctions) Name() string { return "SANCTIONS" }

func (sanctions) Covers(chain.Name) bool { return true }

func (sanctions) Screen(context.Context, risk.Subject) (risk.Verdict, error) {
	score := 98
	return risk.Verdict{
		Provider: "SANCTIONS", Severity: risk.Severe, IsKnown: true, Score: &score, Entity: "OFAC SDN: a bank",
		Categories: []string{"SANCTIONS"}, Direct: true, GivenAt: time.Now(),
	}, nil
}

// delayedScreener returns the test's verdict for every address.
type delayedScreener struct{ severity risk.Severity }

func (*delayedScreener) Name() string { return "LATER" }

func (*delayedScreener) Covers(chain.Name) bool { return true }

func (l *delayedScreener) Screen(context.Context, risk.Subject) (risk.Verdict, error) {
	if l.severity == "" {
		return risk.Verdict{}, risk.Unavailable("nobody is there")
	}
	return risk.Verdict{
		Provider: "LATER", Severity: l.severity, IsKnown: true, Categories: []string{}, GivenAt: time.Now(),
	}, nil
}

// queue is an office whose first organization has flagged deposits.
type queue struct {
	*office
	payer chain.Address
	held  []string         // of bob's, of one dollar each
	later *delayedScreener // whose sender is screened again
	pays  func()           // makes one more deposit, which is flagged
}

func newQueue(t *testing.T, n int, configure ...func(*deposit.Service)) *queue {
	t.Helper()
	q := &queue{office: newOffice(t), payer: chain.Address(stranger)}
	for _, apply := range configure {
		apply(q.conf.Deposits)
	}
	q.later = &delayedScreener{}
	q.rescreens = deposit.NewRescreener(q.db, risk.Policy{Providers: q.later, UnknownAs: risk.TreatUnknownAsHold},
		deposit.RescreenConfig{}, newLogger(q.logs))
	q.restart()
	q.desk = q.opened(t, here, kernel.Limits{})
	address := chain.Address(q.wantStatus(
		q.call(q.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "bob"}), 200,
	).text("address"))
	q.setting(q.one, "screeningSeverityThreshold", "HIGH")
	q.setting(q.one, "screeningUsdThreshold", "0.5")
	c := sim.New(sim.Config{FinalityDepth: 3})
	c.Mint(q.payer, usdcAddress, money.Units(1_000_000_000))
	desk := &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     q.db, Chains: chain.Chains{chain.Ethereum: c.ToChain()}, Wallets: q.book,
		Owners: depositOwners(),
		Prices: price.Fixed{Prices: map[int]money.USD{usdc: money.MustParseUSD("1")}},
		Risk:   risk.Policy{Providers: sanctions{}, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour},
		Log:    newLogger(q.logs),
	}
	start := uint64(0)
	walker := scan.New(q.db, scan.Config{Chain: chain.Ethereum, Reader: c, Start: &start}, desk, newLogger(q.logs))
	finish := func() {
		c.MineEmpty(5)
		for moved := true; moved; {
			var err error
			if moved, err = walker.StepFinal(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := desk.CreditWaiting(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	pay := func() {
		c.Pay(q.payer, address, usdcAddress, 1_000_000)
		c.Mine(1)
	}
	q.pays = func() { pay(); finish() }
	for range n {
		pay()
	}
	finish()
	for _, d := range q.wantStatus(q.call(q.one, "GET", "/deposits?status=FLAGGED&order=asc", nil), 200).list() {
		q.held = append(q.held, d["depositId"].(string))
	}
	if len(q.held) != n {
		t.Fatalf("got %d flagged, want %d", len(q.held), n)
	}
	return q
}

func (q *queue) setting(who tenant, name string, value any) {
	q.t.Helper()
	q.desk.wantStatus(q.desk.call(q.ann, "PATCH", "/organizations/"+who.id+"/settings", map[string]any{name: value}),
		200)
}

// decided counts everything that a decision about a deposit writes.
func (q *queue) decided() string {
	q.t.Helper()
	var text string
	err := pgtest.OwnerPool(q.t, q.db).QueryRow(q.t.Context(), `
		SELECT format('deposits %s, resolutions %s, orders %s, transfers %s, events %s, audit %s',
			(SELECT string_agg(deposit_id || status, ',' ORDER BY deposit_id) FROM deposits), (SELECT count(*) FROM deposit_resolutions),
			(SELECT count(*) FROM dispatch_orders), (SELECT count(*) FROM ledger_transfers), (SELECT count(*) FROM events),
			(SELECT count(*) FROM audit_log WHERE action <> 'operator.called'))`).Scan(&text)
	if err != nil {
		q.t.Fatal(err)
	}
	return text
}

func (q *queue) refusedWith(name string, r reply, status int, code, current string) {
	q.t.Helper()
	q.wantRefusal(name, r, status, code, "")
	if r.text("currentStatus") != current {
		q.t.Errorf("%s: got currentStatus %q, want %q", name, r.text("currentStatus"), current)
	}
}

// Rules DEP-28, DEP-29, DEP-30, DEP-33, DEP-55.
func TestAnOrganizationDecidesAboutFlaggedDepositsWhereThatIsSwitchedOn(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 3)
	first, second, third := q.held[0], q.held[1], q.held[2]
	before := q.decided()
	for _, verb := range []string{"approve", "reject"} {
		for _, id := range []string{first, "dep_none", "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC"} {
			q.wantRefusal(verb+" while it is off", q.call(q.one, "POST", "/deposits/"+id+"/"+verb, map[string]any{}),
				403, "FEATURE_DISABLED", "")
		}
		q.wantRefusal("before the body is read", q.call(q.one, "POST", "/deposits/"+first+"/"+verb, `{"x":1}`), 403,
			"FEATURE_DISABLED", "")
	}
	if got := q.decided(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	q.setting(q.one, "flaggedDepositApiEnabled", true)

	shown := q.wantStatus(q.call(q.one, "GET", "/deposits/"+first, nil), 200)
	reason, _ := shown.body["flagReason"].(map[string]any)
	if shown.body["isFlagged"] != true || shown.text("riskOfFunds") != "SEVERE" ||
		shown.text("returnAddressRisk") != "NONE" || reason["sanctioned"] != true ||
		reason["entity"] != "OFAC SDN: a bank" || shown.body["resolution"] != nil || shown.body["creditedAt"] != nil {
		t.Errorf("got %s, want it flagged with its reason", shown.raw)
	}
	balance := func() map[string]any {
		return q.wantStatus(q.call(q.one, "GET", "/customers/bob/balances", nil), 200).list()[0]
	}
	if b := balance(); b["held"] != "3000000" || b["available"] != "0" || b["total"] != "0" ||
		b["pendingDeposit"] != "0" {
		t.Errorf("got %v, want all of it held and outside the total", b)
	}

	approved := q.wantStatus(q.call(q.one, "POST", "/deposits/"+first+"/approve", map[string]any{"note": "known"}), 200)
	resolution, _ := approved.body["resolution"].(map[string]any)
	decider, _ := resolution["decidedBy"].(map[string]any)
	if approved.text("status") != "CREDITED" || approved.body["isFlagged"] != true ||
		resolution["decision"] != "APPROVED" || resolution["note"] != "known" ||
		decider["type"] != "API_KEY" || decider["id"] != q.one.id {
		t.Errorf("got %s, want it credited by the key", approved.raw)
	}
	if b := balance(); b["held"] != "2000000" || b["available"] != "1000000" || b["total"] != "1000000" {
		t.Errorf("got %v, want one of them available", b)
	}
	again := q.wantStatus(q.call(q.one, "POST", "/deposits/"+first+"/approve", nil), 200)
	if again.text("status") != "CREDITED" {
		t.Errorf("again: got %s, want the same", again.raw)
	}
	q.refusedWith("rejected afterwards", q.call(q.one, "POST", "/deposits/"+first+"/reject", nil), 409,
		"DEPOSIT_NOT_FLAGGED", "CREDITED")

	rejected := q.wantStatus(q.call(q.one, "POST", "/deposits/"+second+"/reject", nil), 202)
	resolution, _ = rejected.body["resolution"].(map[string]any)
	if rejected.text("status") != "REJECTING" || resolution["toAddress"] != string(q.payer) ||
		resolution["amount"] != "1000000" || resolution["txHash"] != nil {
		t.Errorf("got %s, want it on its way back", rejected.raw)
	}
	q.wantStatus(q.call(q.one, "POST", "/deposits/"+second+"/reject", map[string]any{"note": "again"}), 202)
	q.refusedWith("approved afterwards", q.call(q.one, "POST", "/deposits/"+second+"/approve", nil), 409,
		"RESOLUTION_IN_PROGRESS", "REJECTING")
	if b := balance(); b["held"] != "2000000" {
		t.Errorf("got %v, want what is on its way held until it is gone", b)
	}
	for query, want := range map[string]int{
		"isFlagged=true":  3,
		"isFlagged=false": 1, "isFlagged=true&status=CREDITED": 1, "status=FLAGGED": 1, "status=REJECTING": 1,
		"status=RESOLUTION_STUCK": 0, "status=REDIRECTED": 0,
	} {
		if got := q.wantStatus(q.call(q.one, "GET", "/deposits?"+query, nil), 200).list(); len(got) != want {
			t.Errorf("%s: got %d, want %d", query, len(got), want)
		}
		if got := q.desk.wantStatus(q.desk.call(q.ann, "GET", "/deposits?"+query, nil), 200).list(); len(got) != want {
			t.Errorf("the operator's %s: got %d, want %d", query, len(got), want)
		}
		if got := q.cells(q.one, "/deposits?"+query); len(got) != want {
			t.Errorf("%s as a table: got %d, want %d", query, len(got), want)
		}
	}
	q.wantRefusal("isFlagged=1", q.call(q.one, "GET", "/deposits?isFlagged=1", nil), 400, "INVALID_REQUEST",
		"isFlagged")
	q.desk.wantRefusal("isFlagged=yes", q.desk.call(q.ann, "GET", "/deposits?isFlagged=yes", nil), 400,
		"INVALID_REQUEST", "isFlagged")

	h := q.testEnv
	h.sequenced()
	types := map[string]int{}
	for _, e := range h.wantStatus(h.call(q.one, "GET", "/events", nil), 200).list() {
		if data, _ := e["data"].(map[string]any); data["depositId"] == first || data["depositId"] == third {
			types[e["type"].(string)]++
		}
	}
	if fmt.Sprint(types) != "map[CUSTOMER_DEPOSIT:2 CUSTOMER_DEPOSIT_APPROVED:1]" {
		t.Errorf("events: got %v, want one when it was flagged and one when it was approved", types)
	}
}

// Rules DEP-31, DEP-33, DEP-55.
func TestNobodyButTheOperatorSendsAFlaggedDepositElsewhere(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	id := q.held[0]
	target := map[string]any{
		"toAddress": "0x71C7656EC7ab88b098defB751B7401B5f6d8976F", "reason": "LAW_ENFORCEMENT", "reference": "case 77",
	}
	before := q.decided()
	for _, on := range []bool{false, true} {
		q.setting(q.one, "flaggedDepositApiEnabled", on)
		before = q.decided()
		for _, who := range []tenant{q.one, q.two} {
			for _, at := range []string{id, "dep_none", "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC"} {
				for _, body := range []any{target, map[string]any{}, `{"x":`, nil} {
					q.wantRefusal("redirect", q.call(who, "POST", "/deposits/"+at+"/redirect", body), 403,
						"OPERATOR_ONLY", "")
					q.wantRefusal("complete", q.call(who, "POST", "/deposits/"+at+"/complete", body), 403,
						"OPERATOR_ONLY", "")
				}
			}
		}
		if got := q.decided(); got != before {
			t.Errorf("rows: got %v, want %v", got, before)
		}
	}
	q.wantRefusal("without a key", q.call(tenant{}, "POST", "/deposits/"+id+"/redirect", target), 401, "UNAUTHORIZED",
		"")
	q.wantRefusal("an operator's key at the organizations' listener",
		q.call(q.ann, "POST", "/deposits/"+id+"/redirect", target), 401, "UNAUTHORIZED", "")
	for _, verb := range []string{"approve", "reject", "redirect", "complete"} {
		q.desk.wantRefusal("an organization's key at the operators' listener",
			q.desk.call(q.one, "POST", "/deposits/"+id+"/"+verb, target), 401, "UNAUTHORIZED", "")
	}

	gone := q.desk.wantStatus(q.desk.call(q.ann, "POST", "/deposits/"+id+"/redirect", target), 202)
	resolution, _ := gone.body["resolution"].(map[string]any)
	decider, _ := resolution["decidedBy"].(map[string]any)
	if gone.text("status") != "REDIRECTING" || gone.text("organizationId") != q.one.id ||
		resolution["reason"] != "LAW_ENFORCEMENT" || resolution["reference"] != "case 77" ||
		resolution["toAddress"] != target["toAddress"] || decider["type"] != "OPERATOR" || decider["id"] != q.key.ID ||
		decider["name"] != "ann" {
		t.Errorf("got %s, want it on its way elsewhere", gone.raw)
	}
	q.desk.wantStatus(q.desk.call(q.ann, "POST", "/deposits/"+id+"/redirect", target), 202)
	for _, verb := range []string{"approve", "reject"} {
		q.refusedWith("afterwards", q.call(q.one, "POST", "/deposits/"+id+"/"+verb, nil), 409, "RESOLUTION_IN_PROGRESS",
			"REDIRECTING")
		r := q.desk.call(q.ann, "POST", "/deposits/"+id+"/"+verb, nil)
		q.desk.wantRefusal("afterwards", r, 409, "RESOLUTION_IN_PROGRESS", "")
	}
	r := q.desk.call(q.ann, "POST", "/deposits/"+id+"/complete", nil)
	if q.desk.wantRefusal(
		"complete what is not stuck", r, 409, "INVALID_STATE", "",
	); r.text("currentStatus") != "REDIRECTING" {
		t.Errorf("got %s, want the status beside it", r.raw)
	}
	// Only the operator can act on a stuck deposit.
	if _, err := pgtest.OwnerPool(t, q.db).Exec(t.Context(), `
		WITH r AS (UPDATE deposit_resolutions SET status = 'STUCK') UPDATE deposits SET status = 'RESOLUTION_STUCK' WHERE is_flagged`); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"approve", "reject"} {
		q.refusedWith("stuck", q.call(q.one, "POST", "/deposits/"+id+"/"+verb, nil), 409, "RESOLUTION_STUCK",
			"RESOLUTION_STUCK")
	}
	q.desk.wantRefusal("complete what may still become final",
		q.desk.call(q.ann, "POST", "/deposits/"+id+"/complete", nil), 409, "RESOLUTION_IN_PROGRESS", "")
}

// Rule RISK-12.
func TestAnOperatorAsksAgainAndNothingFollowsFromIt(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	at := "/deposits/" + q.held[0]
	if d := q.wantStatus(q.call(q.one, "GET", at, nil), 200); d.body["freshScreening"] != nil {
		t.Errorf("got %s, want null before anybody asked", d.raw)
	}
	before := q.decided()
	q.later.severity = risk.Low
	asked := q.desk.wantStatus(q.desk.call(q.ann, "POST", at+"/rescreen", nil), 200)
	for what, d := range map[string]reply{
		"the answer": asked, "the deposit": q.wantStatus(q.call(q.one, "GET", at, nil), 200),
	} {
		fresh, _ := d.body["freshScreening"].(map[string]any)
		if fresh["severity"] != "LOW" || fresh["provider"] != "LATER" || fresh["score"] != nil ||
			fresh["screenedAt"] == nil ||
			d.text("status") != "FLAGGED" || d.text("riskOfFunds") != "SEVERE" {
			t.Errorf("%s: got %s, want what is said now beside what flagged it", what, d.raw)
		}
	}
	if got := q.decided(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	for _, odd := range []string{
		"dep_none", "%00", "'--", "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC", "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC",
	} {
		q.desk.wantRefusal(odd, q.desk.call(q.ann, "POST", "/deposits/"+odd+"/rescreen", nil), 404, "NOT_FOUND", "")
	}
	q.wantRefusal("an organization", q.call(q.one, "POST", at+"/rescreen", nil), 404, "NOT_FOUND", "")
	q.desk.wantStatus(q.desk.call(q.ann, "POST", at+"/approve", nil), 200)
	q.desk.wantRefusal("once it is decided", q.desk.call(q.ann, "POST", at+"/rescreen", nil), 409,
		"DEPOSIT_NOT_FLAGGED", "")
}

// Rule DEP-33.
func TestAFlaggedDepositOfAnotherIsNotThere(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	for _, who := range []tenant{q.one, q.two} {
		q.setting(who, "flaggedDepositApiEnabled", true)
	}
	before := q.decided()
	const absent = "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC"
	for _, verb := range []string{"approve", "reject"} {
		foreign, none := q.call(q.two, "POST", "/deposits/"+q.held[0]+"/"+verb, nil),
			q.call(q.two, "POST", "/deposits/"+absent+"/"+verb, nil)
		q.wantRefusal("another's", foreign, 404, "NOT_FOUND", "")
		strip := func(r reply) string { return strings.ReplaceAll(string(r.raw), r.text("requestId"), "") }
		if strip(foreign) != strip(none) {
			t.Errorf("%s: got %s, want %s", verb, foreign.raw, none.raw)
		}
		for _, odd := range []string{
			"dep_none", "%00", "%FF", "'--", "wd_01J9ZW3M8Q4S5T6V7W8X9YZABC", strings.Repeat("a", 3000),
		} {
			q.wantRefusal(odd, q.call(q.one, "POST", "/deposits/"+odd+"/"+verb, nil), 404, "NOT_FOUND", "")
		}
	}
	for _, verb := range []string{"approve", "reject", "complete"} {
		q.desk.wantRefusal("absent", q.desk.call(q.ann, "POST", "/deposits/"+absent+"/"+verb, nil), 404, "NOT_FOUND",
			"")
		q.desk.wantRefusal("no id", q.desk.call(q.ann, "POST", "/deposits/%00/"+verb, nil), 404, "NOT_FOUND", "")
	}
	if got := q.decided(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
}

// Rules REQ-1, REQ-2, DEP-33.
func TestHostileDecisionsAboutFlaggedDepositsDecideNothing(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.setting(q.one, "flaggedDepositApiEnabled", true)
	path := "/deposits/" + q.held[0]
	before := q.decided()
	for _, c := range []struct{ name, body, code, param string }{
		{"unknown field", `{"note":"x","notes":"y"}`, "UNKNOWN_FIELD", "notes"},
		{"another's decision", `{"orgId":"org_1"}`, "UNKNOWN_FIELD", "orgId"},
		{"a destination", `{"toAddress":"` + stranger + `"}`, "UNKNOWN_FIELD", "toAddress"},
		{"note that is a number", `{"note":1}`, "INVALID_REQUEST", "note"},
		{"note that is a list", `{"note":[]}`, "INVALID_REQUEST", "note"},
		{"note of a zero byte", `{"note":"\u0000"}`, "INVALID_REQUEST", "note"},
		{"note with an escape", `{"note":"\u001b[2J"}`, "INVALID_REQUEST", "note"},
		{"note of 501 characters", `{"note":"` + strings.Repeat("ä", 501) + `"}`, "INVALID_REQUEST", "note"},
		{"note twice", `{"note":"a","note":"b"}`, "INVALID_JSON", "note"},
		{"list", `[]`, "INVALID_REQUEST", ""},
		{"null", `null`, "INVALID_REQUEST", ""},
		{"half", `{`, "INVALID_JSON", ""},
	} {
		for _, verb := range []string{"approve", "reject"} {
			q.wantRefusal(verb+", "+c.name, q.call(q.one, "POST", path+"/"+verb, c.body), 400, c.code, c.param)
		}
		for _, verb := range []string{"approve", "reject", "complete"} {
			q.desk.wantRefusal("operator, "+verb+", "+c.name, q.desk.call(q.ann, "POST", path+"/"+verb, c.body), 400,
				c.code, c.param)
		}
	}
	const good = `"toAddress":"0x71C7656EC7ab88b098defB751B7401B5f6d8976F","reason":"COMPLIANCE_HOLD","reference":"case 1"`
	own := q.wantStatus(q.call(q.one, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": alice}), 200).
		text("address")
	for _, c := range []struct {
		name, body  string
		status      int
		code, param string
	}{
		{"nothing", `{}`, 400, "INVALID_REQUEST", "toAddress"},
		{"no body", ``, 400, "INVALID_JSON", ""},
		{"no reason", `{"toAddress":"` + stranger + `","reference":"case 1"}`, 400, "INVALID_REQUEST", "reason"},
		{
			"no reference",
			`{"toAddress":"` + stranger + `","reason":"COMPLIANCE_HOLD"}`, 400, "INVALID_REQUEST", "reference",
		},
		{
			"reference of nothing",
			`{"toAddress":"` + stranger + `","reason":"COMPLIANCE_HOLD","reference":""}`, 400, "INVALID_REQUEST",
			"reference",
		},
		{
			"reference of a zero byte",
			`{"toAddress":"` + stranger + `","reason":"COMPLIANCE_HOLD","reference":"\u0000"}`, 400, "INVALID_REQUEST",
			"reference",
		},
		{
			"reason in other case",
			`{"toAddress":"` + stranger + `","reason":"compliance_hold","reference":"case 1"}`, 400, "INVALID_REQUEST",
			"reason",
		},
		{
			"another reason",
			`{"toAddress":"` + stranger + `","reason":"BECAUSE","reference":"case 1"}`, 400, "INVALID_REQUEST",
			"reason",
		},
		{"amount", `{` + good + `,"amount":"1"}`, 400, "UNKNOWN_FIELD", "amount"},
		{"note of a number", `{` + good + `,"note":7}`, 400, "INVALID_REQUEST", "note"},
		{
			"address of nothing",
			`{"toAddress":"","reason":"COMPLIANCE_HOLD","reference":"case 1"}`, 400, "INVALID_ADDRESS", "toAddress",
		},
		{
			"address with a wrong checksum",
			`{"toAddress":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAeD","reason":"COMPLIANCE_HOLD","reference":"case 1"}`,
			400, "INVALID_ADDRESS", "toAddress",
		},
		{
			"name",
			`{"toAddress":"vitalik.eth","reason":"COMPLIANCE_HOLD","reference":"case 1"}`, 400, "INVALID_ADDRESS",
			"toAddress",
		},
		{
			"unspendable",
			`{"toAddress":"0x0000000000000000000000000000000000000000","reason":"COMPLIANCE_HOLD","reference":"case 1"}`,
			422, "DESTINATION_NOT_ALLOWED", "toAddress",
		},
		{
			"the token",
			`{"toAddress":"` + string(usdcAddress) + `","reason":"COMPLIANCE_HOLD","reference":"case 1"}`, 422,
			"DESTINATION_NOT_ALLOWED", "toAddress",
		},
		{
			"ours",
			`{"toAddress":"` + own + `","reason":"COMPLIANCE_HOLD","reference":"case 1"}`, 422,
			"DESTINATION_NOT_ALLOWED", "toAddress",
		},
	} {
		q.desk.wantRefusal("redirect, "+c.name, q.desk.call(q.ann, "POST", path+"/redirect", c.body), c.status, c.code,
			c.param)
	}
	for _, verb := range []string{"approve", "reject"} {
		q.wantRefusal("text", q.call(q.one, "POST", path+"/"+verb, `{}`, "Content-Type", "text/plain"), 415,
			"UNSUPPORTED_MEDIA_TYPE", "")
		q.wantRefusal("query", q.call(q.one, "POST", path+"/"+verb+"?force=true", `{}`), 400, "UNKNOWN_FIELD", "force")
	}
	if got := q.decided(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	q.refusedWith("never flagged", q.call(q.one, "POST", "/deposits/"+q.never()+"/approve", nil), 409,
		"DEPOSIT_NOT_FLAGGED", "UNSUPPORTED")
}

// never returns a deposit of bob's that was never flagged.
func (q *queue) never() string {
	q.t.Helper()
	const id = "dep_01J9ZW3M8Q4S5T6V7W8X9YZABD"
	_, err := pgtest.OwnerPool(q.t, q.db).Exec(q.t.Context(), `
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, chain, contract, address, from_address, amount, tx_hash, kind, position, log_index,
			height, block_hash, proof_id, status, chain_status, reason, screening, created_at, confirmed_at)
		SELECT $1, org_id, wallet_id, purpose, customer_id, chain, '0x01', address, from_address, amount, '0x02', kind, position, log_index,
			height, block_hash, proof_id, 'UNSUPPORTED', chain_status, 'UNKNOWN_TOKEN', '{"status":"NOT_CONFIGURED"}', created_at, confirmed_at FROM deposits WHERE deposit_id = $2`,
		id, q.held[0])
	if err != nil {
		q.t.Fatal(err)
	}
	return id
}

// Rule DEP-34.
func TestWhatASanctionedAddressSentIsNotSentBackWhereThatIsBlocked(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 2, func(s *deposit.Service) { s.BlockSanctioned = true })
	q.setting(q.one, "flaggedDepositApiEnabled", true)
	before := q.decided()
	q.refusedWith("the organization", q.call(q.one, "POST", "/deposits/"+q.held[0]+"/reject", nil), 409,
		"REJECT_BLOCKED_SANCTIONS", "FLAGGED")
	q.desk.wantRefusal("the operator", q.desk.call(q.ann, "POST", "/deposits/"+q.held[0]+"/reject", nil), 409,
		"REJECT_BLOCKED_SANCTIONS", "")
	if got := q.decided(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	q.desk.wantStatus(q.desk.call(q.ann, "POST", "/deposits/"+q.held[0]+"/redirect", map[string]any{
		"toAddress": "0x71C7656EC7ab88b098defB751B7401B5f6d8976F", "reason": "COMPLIANCE_HOLD", "reference": "case 1",
	}), 202)
}

// Rule DEP-30.
func TestOfDecisionsThroughBothInterfacesOneComesAbout(t *testing.T) {
	t.Parallel()
	q := newQueue(t, 1)
	q.setting(q.one, "flaggedDepositApiEnabled", true)
	path := "/deposits/" + q.held[0]
	var mu sync.Mutex
	won := map[string]int{}
	crowd(16, func(i int) {
		verb, want := "approve", 200
		if i%2 == 1 {
			verb, want = "reject", 202
		}
		var got reply
		if i%4 < 2 {
			got = q.call(q.one, "POST", path+"/"+verb, nil)
		} else {
			got = q.desk.call(q.ann, "POST", path+"/"+verb, nil)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case got.status == want:
			won[verb]++
		case got.status != 409:
			t.Errorf("%s: got %v %s, want %v or 409", verb, got.status, got.raw, want)
		}
	})
	if len(won) != 1 {
		t.Errorf("got %v, want one decision that comes about", won)
	}
	server := httptest.NewServer(api.New(q.conf)) // another process answers the same
	t.Cleanup(server.Close)
	other := *q.testEnv
	other.server = server
	if got := other.wantStatus(other.call(q.one, "GET", path, nil), 200); got.body["resolution"] == nil {
		t.Errorf("got %s, want it decided", got.raw)
	}
}
