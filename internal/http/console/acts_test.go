package console

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/platform/jobs"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// A redirect takes its address, reason, reference and factor, each click after the first shows the
// decision, and the fields that are wrong come back with what the operator typed. Rules DEP-55, PAGE-3.
func TestAFlaggedDepositIsRedirectedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	id := h.flag()
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	h.get(ann, Prefix+"/flagged?status=FLAGGED").want(t, http.StatusOK, id)
	path := Prefix + "/flagged/" + id
	h.get(ann, path).want(t, http.StatusOK, "Redirect 1 USDC", "A bank")
	fields := func(code string) []string {
		return []string{
			"toAddress", elsewhere, "reason", "LAW_ENFORCEMENT", "reference", "case 77", "note", hostile, "code", code,
		}
	}
	h.post(
		ann, path+"/redirect", "toAddress", "0x1", "reason", "LAW_ENFORCEMENT", "reference", "case 77", "note", "",
		"code",
		rightCode+"1").want(t, http.StatusBadRequest, `value="case 77"`)
	h.post(
		ann, path+"/redirect", "toAddress", elsewhere, "reason", "LAW_ENFORCEMENT", "reference", "", "note", "", "code",
		rightCode+"2").want(t, http.StatusUnprocessableEntity, "Enter the reference")
	h.post(ann, path+"/redirect", fields("wrong")...).want(t, http.StatusUnauthorized, "This code is wrong")
	if n := h.count(`SELECT count(*) FROM deposit_resolutions`); n != 0 {
		t.Fatalf("got %d resolutions of refused forms, want none", n)
	}
	var wg sync.WaitGroup
	for _, code := range []string{"3", "4"} { // a double click
		wg.Go(func() { h.post(ann, path+"/redirect", fields(rightCode+code)...) })
	}
	wg.Wait()
	if to := h.post(bob, path+"/approve", "note", "", "code", rightCode+"5").location(t); to != path {
		t.Errorf("got %s, want the page with the colleague's decision", to)
	}
	h.get(bob, path).want(t, http.StatusOK, "Being redirected", "Ann Operator", "case 77")
	if n := h.count(`SELECT count(*) FROM deposit_resolutions`); n != 1 {
		t.Errorf("got %d resolutions, want 1", n)
	}
	if n := h.count(`SELECT count(*) FROM dispatch_orders`); n != 1 {
		t.Errorf("got %d orders, want 1", n)
	}
	h.get(ann, Prefix+"/orders").want(t, http.StatusOK, "In the queue")
	h.get(ann, Prefix+"/flagged/dep_01J9ZW3M8Q4S5T6V7W8X9YZABC").want(t, http.StatusNotFound)
}

// A return to a contract needs a tick for the risk that the page shows. A forgotten tick, and one for another risk,
// use no code up and send nothing. The page shows the whole address of the return. Rule PAGE-71.
func TestARiskyReturnNeedsATick(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.chain.DeployContract(sender)
	path := Prefix + "/flagged/" + h.flag()
	ann := h.signInAs(h.ann)
	h.get(ann, path).want(
		t, http.StatusOK, "The sender is a contract", "It goes back to", "Return it in spite of that",
		`value="CONTRACT"`, "Redirect 1 USDC", "Approve 1 USDC", "Screen the sender again")
	code := rightCode + "1"
	body := h.post(ann, path+"/reject", "note", "seen", "code", code).want(
		t, http.StatusBadRequest, "Confirm that you have read", `value="seen"`).body
	_, rest, _ := strings.Cut(body, `id="reject-returnRisk"`)
	if box, _, _ := strings.Cut(rest, ">"); strings.Contains(box, "checked") {
		t.Error("a page ticked the risk for the operator")
	}
	h.post(ann, path+"/reject", "note", "", "returnRisk", "KNOWN_EXCHANGE", "code", code).want(t, http.StatusBadRequest)
	if n := h.count(`SELECT count(*) FROM deposit_resolutions`); n != 0 {
		t.Fatalf("got %d resolutions of refused forms, want none", n)
	}
	for _, code := range []string{code, rightCode + "2"} { // the code of the refused form still counts
		if to := h.post(
			ann, path+"/reject", "note", "", "returnRisk", "CONTRACT", "code", code,
		).location(t); to != path {
			t.Errorf("got %s, want the page of the deposit", to)
		}
	}
	h.get(ann, path).want(t, http.StatusOK, "Being returned", "Ann Operator")
	if n := h.count(
		`SELECT count(*) FROM dispatch_orders WHERE purpose = 'RETURN' AND to_address = $1`, string(sender),
	); n != 1 {
		t.Errorf("got %d returns to the sender, want 1", n)
	}
}

// Where the installation returns nothing to sanctioned senders, the page says so and has no rejection.
func TestABlockedReturnHasNoForm(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := Prefix + "/flagged/" + h.flag()
	ann := h.signInAs(h.ann)
	h.get(ann, path).want(t, http.StatusOK, "Reject this deposit")
	h.deposits.BlockSanctioned = true
	body := h.get(ann, path).want(t, http.StatusOK, "returns nothing to such a sender", "Redirect 1 USDC").body
	if strings.Contains(body, "Reject this deposit") {
		t.Error("got a form that would be refused")
	}
	h.post(ann, path+"/reject", "note", "", "code", rightCode).want(t, http.StatusConflict)
	if n := h.count(`SELECT count(*) FROM dispatch_orders`); n != 0 {
		t.Errorf("got %d orders, want none", n)
	}
}

// The sender of a flagged deposit is screened again without a decision.
func TestTheSenderIsScreenedAgain(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	path := Prefix + "/flagged/" + h.flag()
	ann := h.signInAs(h.ann)
	if to := h.post(ann, path+"/rescreen").location(t); to != path {
		t.Errorf("got %s, want the page of the deposit", to)
	}
	h.get(ann, path).want(t, http.StatusOK, "Screened again", "Waits for a decision")
}

// A freeze takes the fields of its scope, a second click finds the first one, and lifting it twice lifts it
// once. Rule OP-5.
func TestAFreezeIsCreatedAndLiftedOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.signInAs(h.ann)
	create := func(code string, fields ...string) reply {
		values := map[string]string{
			"scope": "ORGANIZATION", "organizationId": h.orgID, "customerId": "", "chain": "", "reason": hostile,
			"code": rightCode + code,
		}
		for i := 0; i < len(fields); i += 2 {
			values[fields[i]] = fields[i+1]
		}
		var all []string
		for name, value := range values {
			all = append(all, name, value)
		}
		return h.post(ann, Prefix+"/freezes/create", all...)
	}
	create("1", "organizationId", "").want(t, http.StatusBadRequest, "This is needed for what you stop.")
	create("2", "customerId", "bob").want(t, http.StatusBadRequest, "What you stop is more than this.")
	create("3", "scope", "WALLET").want(t, http.StatusBadRequest, "Choose one of the list.")
	create("4", "scope", "CHAIN", "organizationId", "", "chain", "MARS").
		want(t, http.StatusBadRequest, "This network does not run here.")
	create("5", "organizationId", "org_01J9ZW3M8Q4S5T6V7W8X9YZABC").want(t, http.StatusNotFound)
	create("6", "reason", "").want(t, http.StatusUnprocessableEntity, "Say why")
	if n := h.count(`SELECT count(*) FROM freezes`); n != 0 {
		t.Fatalf("got %d freezes of refused forms, want none", n)
	}
	first, second := create("7").location(t), create("8").location(t)
	if first != second || !strings.HasPrefix(first, Prefix+"/freezes/frz_") {
		t.Errorf("got %s and %s, want one freeze", first, second)
	}
	h.get(ann, Prefix+"/freezes?active=true").want(t, http.StatusOK, "In force", `\u{202e}`)
	h.get(ann, Prefix+"/organizations").want(t, http.StatusOK, "Frozen")
	h.post(ann, first+"/lift", "code", "wrong").want(t, http.StatusUnauthorized)
	for _, code := range []string{"9", "10"} {
		if to := h.post(ann, first+"/lift", "code", rightCode+code).location(t); to != first {
			t.Errorf("got %s, want the page of the freeze", to)
		}
	}
	h.get(ann, first).want(t, http.StatusOK, "Lifted", "Ann Operator", "It was lifted")
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action IN ('freeze.put', 'freeze.lifted') AND actor_id = $1`,
		h.ann.ID); n != 2 {
		t.Errorf("got %d rows of the audit log, want one for each act", n)
	}
}

// A change that loosens a control waits for another operator, whether that one signs in or has a key. Its
// author approves it neither in the own session nor with a key of the own e-mail. Rules OP-7, OP-9, PAGE-42.
func TestAnOperatorNeverApprovesTheOwnChange(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	id := h.requestChange(ann)
	path := Prefix + "/changes/" + id
	if again := h.requestChange(ann); again != id {
		t.Errorf("got another request, %s, want that of the first click", again)
	}
	h.get(ann, path).want(t, http.StatusOK, "Retract my request", "Ann Operator")
	h.post(ann, path+"/approve").want(t, http.StatusConflict, "cannot approve it")
	h.post(bob, path+"/retract").want(t, http.StatusConflict, "can withdraw this change request")
	if n := h.count(`SELECT count(*) FROM organization_settings WHERE flagged_deposit_api_enabled`); n != 0 {
		t.Fatal("a change took effect before another operator approved it")
	}
	h.get(bob, path).want(t, http.StatusOK, "Approve this change", "off", "on")
	var wg sync.WaitGroup
	for range 2 { // a double click
		wg.Go(func() {
			if to := h.post(bob, path+"/approve").location(t); to != path {
				t.Errorf("got %s, want the page of the request", to)
			}
		})
	}
	wg.Wait()
	h.get(ann, path).want(t, http.StatusOK, "Approved", "Bob Operator")
	if n := h.count(`SELECT count(*) FROM organization_settings WHERE flagged_deposit_api_enabled`); n != 1 {
		t.Error("got the setting without effect after the approval")
	}
	if n := h.count(
		`SELECT count(*) FROM audit_log WHERE action = 'change.approved' AND actor_id = $1`, h.bob.ID,
	); n != 1 {
		t.Errorf("got %d approvals in the audit log, want 1", n)
	}
}

// A key that is named by the e-mail of a person belongs to that person.
func TestAKeyOfThePersonIsNoSecondOperator(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key, _, err := operator.CreateKey(t.Context(), h.db, audit.System("test"), "ANN@example.test")
	if err != nil {
		t.Fatal(err)
	}
	err = h.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		n, err := operator.CountHolders(ctx, tx)
		if n != 2 { // ann, whose key it is, and bob; eve only reads
			t.Errorf("got %d operators, want 2", n)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !operator.IsSameHolder(h.ann.Holder().Name, key.Name) || operator.IsSameHolder(h.bob.Holder().Name, key.Name) {
		t.Error("the key of ann's e-mail is not hers alone")
	}
	for _, action := range []identity.Action{identity.RequestChange, identity.ApproveChange, identity.RetractChange} {
		if h.eve.Holder().IsAllowed(action) || !h.ann.Holder().IsAllowed(action) {
			t.Errorf("%s: an auditor may take it, or an operator may not", action)
		}
	}
}

// A change that needs a second factor of the last ten minutes is refused without one.
func TestSettingsNeedARecentFactor(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	old := h.open(session.Session{Operator: h.ann})
	path := Prefix + "/organizations/" + h.orgID + "/settings/approvalQuorum"
	h.post(old, path+"/change", "value", "2", "before", "1").want(t, http.StatusForbidden, "second factor")
	ann := h.signInAs(h.ann)
	h.post(ann, path+"/change", "value", "many", "before", "1").want(t, http.StatusBadRequest, "Enter a whole number.")
	h.post(ann, path+"/change", "value", "11", "before", "1").want(t, http.StatusBadRequest, "1 to 10")
	h.post(ann, path+"/change", "value", "2", "before", "7").want(
		t, http.StatusConflict, "was changed after you opened",
	)
	for range 2 { // what tightens a control holds at once, and a second click changes nothing
		if to := h.post(
			ann, path+"/change", "value", "2", "before", "1",
		).location(t); to != Prefix+"/organizations/"+h.orgID {
			t.Errorf("got %s, want the page of the organization", to)
		}
	}
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'settings.changed'`); n != 1 {
		t.Errorf("got %d changes, want 1", n)
	}
	h.get(ann, Prefix+"/organizations/org_01J9ZW3M8Q4S5T6V7W8X9YZABC").want(t, http.StatusNotFound)
	h.get(ann, Prefix+"/organizations/"+h.orgID+"/settings/nothing").want(t, http.StatusNotFound)
}

// The whitelist and the IP list change under dual control. Rules OP-8 and OP-11.
func TestAddressesAreAddedWithTwoOperators(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann, bob := h.signInAs(h.ann), h.signInAs(h.bob)
	path := Prefix + "/organizations/" + h.orgID + "/addresses"
	h.post(ann, path+"/add", "chain", "ETHEREUM", "address", "0x1", "label", "Bank").want(t, http.StatusBadRequest)
	request := h.post(ann, path+"/add", "chain", "ETHEREUM", "address", elsewhere, "label", "Bank <b>").location(t)
	if again := h.post(
		ann, path+"/add", "chain", "ETHEREUM", "address", elsewhere, "label", "Bank <b>",
	).location(t); again != request {
		t.Errorf("got %s, want the request of the first click, %s", again, request)
	}
	h.get(bob, request).want(t, http.StatusOK, "Add an address to the whitelist", "Approve this change")
	h.post(bob, request+"/approve").want(t, http.StatusSeeOther)
	body := h.get(ann, path).want(t, http.StatusOK, "Cools off", "Bank &lt;b&gt;", "Bob Operator").body
	_, rest, _ := strings.Cut(body, `name="entry" value="`)
	entry, _, _ := strings.Cut(rest, `"`)
	for range 2 {
		h.post(ann, path+"/remove", "entry", entry).want(t, http.StatusSeeOther)
	}
	h.get(ann, path).want(t, http.StatusOK, "Removed")
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'whitelist.removed'`); n != 1 {
		t.Errorf("got %d removals, want 1", n)
	}
	// The first entry of the IP list tightens it, and a second one loosens it.
	h.post(ann, path+"/add-ip", "network", "everywhere").want(t, http.StatusBadRequest)
	if to := h.post(ann, path+"/add-ip", "network", "203.0.113.7").location(t); to != path {
		t.Errorf("got %s, want the list", to)
	}
	loosening := h.post(ann, path+"/add-ip", "network", "203.0.113.8").location(t)
	if !strings.HasPrefix(loosening, Prefix+"/changes/") {
		t.Errorf("got %s, want a change request", loosening)
	}
	h.get(ann, path).want(t, http.StatusOK, "203.0.113.7")
}

// A key is rolled once by a double click, and a page shows it once.
func TestAKeyIsRolledOnceAndShownOnce(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.signInAs(h.ann)
	h.post(ann, Prefix+"/organizations/create", "name", "").want(t, http.StatusUnprocessableEntity, "Enter the name")
	h.post(ann, Prefix+"/organizations/create", "name", "Second").want(t, http.StatusOK, "The key is shown once", "ck_")
	path := Prefix + "/organizations/" + h.orgID
	body := h.get(ann, path).want(t, http.StatusOK, "Roll the API key").body
	_, rest, _ := strings.Cut(body, `name="keyMadeAt" value="`)
	madeAt, _, _ := strings.Cut(rest, `"`)
	h.post(ann, path+"/roll-key", "keyMadeAt", madeAt).want(t, http.StatusOK, "The key is shown once")
	h.post(ann, path+"/roll-key", "keyMadeAt", madeAt).want(t, http.StatusConflict, "was rolled after you opened")
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action = 'api_key.rolled'`); n != 1 {
		t.Errorf("got %d rolls, want 1", n)
	}
	if strings.Contains(h.get(ann, path).body, "shown once,") || strings.Contains(h.logs.String(), "ck_") {
		t.Error("the key is on a page or in the log again")
	}
}

// chore is a job of this test.
type chore struct {
	Name string `json:"name"`
}

func (chore) Kind() string { return "chore" }

// addJobs makes jobs that are due.
func (h *testEnv) addJobs(n int) {
	h.t.Helper()
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for range n {
			if err := jobs.Insert(ctx, tx, chore{hostile}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// ticked are the fields of a form with ticked jobs.
func ticked(numbers ...string) (fields []string) {
	for _, number := range numbers {
		fields = append(fields, "jobs", number)
	}
	return append(fields, "state", "")
}

// Jobs are ticked, repeated and cancelled, many at once, and the audit log has who did it. A job that does not
// exist stops the whole act, a second click changes nothing more, and what the page does not have is refused.
// Rules PAGE-44 and PAGE-49.
func TestJobsAreRepeatedAndCancelled(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.signInAs(h.ann)
	h.get(ann, Prefix+"/jobs").want(t, http.StatusOK, "No job here")
	h.addJobs(3)
	h.get(ann, Prefix+"/jobs").want(t, http.StatusOK, "chore", "Due", `aria-label="Job 1"`, "Cancel the ticked jobs")
	if body := h.get(h.signInAs(h.eve), Prefix+"/jobs").want(t, http.StatusOK, "chore").body; strings.Contains(
		body, `type="checkbox"`,
	) {
		t.Error("an auditor sees boxes")
	}
	cancel := Prefix + "/jobs/cancel"
	h.post(ann, cancel, ticked("one")...).want(t, http.StatusBadRequest, "names something that is no job")
	h.post(ann, cancel, ticked("1,2")...).want(t, http.StatusBadRequest, "not one of this page")
	h.post(ann, cancel, ticked("1", "1")...).want(t, http.StatusBadRequest, "twice")
	h.post(ann, cancel, ticked()...).want(t, http.StatusUnprocessableEntity, "Tick at least one job.")
	h.post(ann, cancel, "jobs", "1", "state", "", "state", "").want(t, http.StatusBadRequest, "twice")
	body := h.post(ann, cancel, ticked("2", "99")...).want(t, http.StatusNotFound, "There is no job 99").body
	if _, rest, _ := strings.Cut(body, `aria-label="Job 2"`); !strings.HasPrefix(strings.TrimSpace(rest), "checked") {
		t.Errorf("got a page that forgot what was ticked: %s", body)
	}
	if !strings.Contains(body, Prefix+`/jobs.csv"`) {
		t.Errorf("got a refused form whose page does not lead to its table: %s", body)
	}
	var many []string
	for n := range 51 {
		many = append(many, strconv.Itoa(n+1))
	}
	h.post(ann, cancel, ticked(many...)...).want(t, http.StatusBadRequest, "Choose 1 to 50 jobs")
	if n := h.count(`SELECT count(*) FROM river_job WHERE state = 'cancelled'`); n != 0 {
		t.Fatalf("got %d cancelled jobs of refused forms, want none", n)
	}
	var wg sync.WaitGroup
	for range 2 { // a double click
		wg.Go(func() { h.post(ann, cancel, ticked("1", "2")...).want(t, http.StatusSeeOther) })
	}
	wg.Wait()
	h.post(h.signInAs(h.bob), cancel, ticked("1", "2")...).want(t, http.StatusSeeOther)
	h.get(ann, Prefix+"/jobs?state=cancelled").want(t, http.StatusOK, "Cancelled")
	to := h.post(ann, Prefix+"/jobs/retry", "jobs", "1", "jobs", "2", "jobs", "3", "state", "cancelled").location(t)
	if to != Prefix+"/jobs?state=cancelled" {
		t.Errorf("got %s, want the list with its filter", to)
	}
	if n := h.count(`SELECT count(*) FROM river_job WHERE state = 'available'`); n != 3 {
		t.Errorf("got %d jobs that are due, want 3", n)
	}
	if n := h.count(`SELECT count(*) FROM audit_log WHERE action IN ('job.retried', 'job.cancelled') AND actor_id = $1`,
		h.ann.ID); n != 4 {
		t.Errorf("got %d rows of the audit log, want one for each job that changed", n)
	}
	// The question for a second factor carries each ticked job.
	h.post(h.open(session.Session{Operator: h.bob}), cancel, ticked("1", "3")...).want(
		t, http.StatusForbidden, `name="jobs" value="1"`, `name="jobs" value="3"`)
}

// The audit log is read by rows and by the thing that they are about.
func TestTheAuditLogIsReadInPages(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	eve := h.signInAs(h.eve)
	err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		for range 60 {
			entry := audit.Entry{
				Actor: h.ann.Actor(), Action: "test.done", ResourceKind: "TEST", ResourceID: "thing " + hostile,
				Detail: map[string]string{"note": hostile},
			}
			if err := audit.Record(ctx, tx, entry); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	body := h.get(eve, Prefix+"/audit").want(t, http.StatusOK, "test.done", "Ann Operator", "Next page").body
	_, rest, _ := strings.Cut(body, "/audit?before=")
	before, _, _ := strings.Cut(rest, `"`)
	h.get(eve, Prefix+"/audit?before="+before).want(t, http.StatusOK, "First page")
	h.get(eve, Prefix+"/audit?resourceId="+h.orgID).want(t, http.StatusOK, "organization.created")
	if n := strings.Count(h.get(eve, Prefix+"/audit.csv").body, "test.done"); n != 60 {
		t.Errorf("got %d rows in the table, want 60", n)
	}
}

// An order without a slot has nothing to do by hand. The forms of its acts reach the worker of the chain,
// which refuses them, and an old page shows the order as it is. Rule PAGE-43.
func TestTheActsOfAnOrderReachItsWorker(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	ann := h.signInAs(h.ann)
	h.post(
		ann, Prefix+"/flagged/"+h.flag()+"/redirect", "toAddress", elsewhere, "reason", "LAW_ENFORCEMENT",
		"reference", "case 77", "note", "", "code", rightCode,
	).want(t, http.StatusSeeOther)
	var id string
	err := pgtest.OwnerPool(t, h.db).QueryRow(t.Context(), `SELECT order_id FROM dispatch_orders`).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	path := Prefix + "/orders/" + id
	h.get(ann, path).want(t, http.StatusOK, "nothing to do by hand", "none: nothing is signed")
	h.get(h.signInAs(h.eve), path).want(t, http.StatusOK, "Your role shows this order")
	for code, act := range []string{"raise-fee", "resolve"} {
		h.post(h.signInAs(h.eve), path+"/"+act, "code", rightCode+strconv.Itoa(code)).want(t, http.StatusForbidden)
	}
	h.post(ann, path+"/raise-fee", "version", "0", "code", rightCode+"2").
		want(t, http.StatusServiceUnavailable, "does not run in this process")
	h.worker = h.newWorker(h.running)
	h.post(ann, path+"/raise-fee", "version", "0", "code", rightCode+"3").want(t, http.StatusConflict)
	if to := h.post(ann, path+"/raise-fee", "version", "7", "code", rightCode+"4").location(t); to != path {
		t.Errorf("an old page: got %s, want the page of the order", to)
	}
	if to := h.post(ann, path+"/resolve", "code", rightCode+"5").location(t); to != path {
		t.Errorf("an order that is not stuck: got %s, want its page", to)
	}
	h.get(ann, Prefix+"/orders/wd_01J9ZW3M8Q4S5T6V7W8X9YZABC").want(t, http.StatusNotFound)
}
