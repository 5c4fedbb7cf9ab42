package surfacetest

import (
	"context"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
)

// list puts a payment's destination on the local list, which screens.
func (h *testEnv) list(e risk.LocalListEntry) {
	h.t.Helper()
	h.conf.Withdrawals.Risk = risk.Policy{Providers: risk.LocalScreener{DB: h.db}, UnknownAs: risk.TreatUnknownAsHold}
	e.Address = payment()["toAddress"].(string)
	err := h.db.InSystem(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		_, err := risk.SetLocalEntry(ctx, tx, h.conf.Chains, audit.Operator("test"), e)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
}

// What the operator's document says about withdrawSeverityThreshold: a severity above it is
// refused, one equal to it passes, and null means HIGH, not no screening. Rule RISK-6.
func TestTheSeverityThresholdOfWithdrawalsRefuses(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	h := o.testEnv
	path := "/organizations/" + o.one.id + "/settings"
	for _, c := range []struct {
		threshold any
		severity  risk.Severity
		status    int
	}{
		{"MEDIUM", risk.Medium, 202}, {"MEDIUM", risk.High, 451}, {nil, risk.High, 202}, {nil, risk.Severe, 451},
	} {
		h.list(risk.LocalListEntry{Severity: c.severity})
		o.desk.wantStatus(o.desk.call(o.ann, "PATCH", path, map[string]any{"withdrawSeverityThreshold": c.threshold}),
			200)
		got := h.call(h.one, "POST", "/withdraw", payment())
		if got.status != c.status || c.status == 202 && got.text("status") != "PROCESSING" {
			t.Errorf("threshold %v, severity %s: got %d %s, want %d", c.threshold, c.severity, got.status, got.raw,
				c.status)
		}
	}
	for _, schema := range []string{"OrganizationSettings", "SettingsChange"} {
		doc, err := published[operators]()
		if err != nil {
			t.Fatal(err)
		}
		text := doc.Components.Schemas[schema].Value.Properties["withdrawSeverityThreshold"].Value.Description
		for _, word := range []string{"451", "null means HIGH"} {
			if !strings.Contains(text, word) {
				t.Errorf("%s: the document says %q, want %q in it", schema, text, word)
			}
		}
	}
}

// Rule WD-31.
func TestABlockedWithdrawalIsAnsweredAsTheInterfaceSays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.list(risk.LocalListEntry{Severity: risk.Severe, Categories: []string{"SANCTIONS"}})
	asked := h.wantStatus(h.call(h.one, "POST", "/withdraw/preview", payment()), 200)
	if g := gatesOf(asked.body)["RISK"]; asked.text("wouldBe") != "BLOCKED" || g["result"] != "BLOCK" ||
		g["severity"] != "SEVERE" || g["provider"] != "LOCAL" {
		t.Errorf("got %s, want it blocked by the gate of risk", asked.raw)
	}
	got := h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k"))
	h.wantRefusal("blocked", got, 451, "WITHDRAWAL_RISK_BLOCKED", "")
	details, _ := got.body["details"].(map[string]any)
	categories, _ := details["categories"].([]any)
	if details["severity"] != "SEVERE" || len(categories) != 1 || categories[0] != "SANCTIONS" || len(details) != 2 ||
		got.body["retryable"] != false {
		t.Errorf("got %s, want the severity and the categories", got.raw)
	}
	withdrawalID := got.text("withdrawalId")
	again := h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k"))
	h.wantRefusal("again", again, 451, "WITHDRAWAL_RISK_BLOCKED", "")
	if again.text("withdrawalId") != withdrawalID {
		t.Errorf("got %v, want the record of the first", again.text("withdrawalId"))
	}
	shown := h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+withdrawalID, nil), 200)
	screening, _ := shown.body["screening"].(map[string]any)
	if shown.text("status") != "BLOCKED" || screening["status"] != "BLOCKED" || screening["severity"] != "SEVERE" ||
		screening["provider"] != "LOCAL" {
		t.Errorf("got %s, want the record", shown.raw)
	}
	h.wantRefusal("another tenant's", h.call(h.two, "GET", "/withdrawals/"+withdrawalID, nil), 404, "NOT_FOUND", "")
	h.wantRefusal("cancelled", h.call(h.one, "POST", "/withdrawals/"+withdrawalID+"/cancel", nil), 409, "INVALID_STATE",
		"")
	listed := h.wantStatus(h.call(h.one, "GET", "/withdrawals?status=BLOCKED", nil), 200)
	if n := len(listed.body["data"].([]any)); n != 1 {
		t.Errorf("got %d that are BLOCKED, want 1", n)
	}
	h.wantStatus(h.call(h.one, "GET", "/withdrawals/"+withdrawalID+"/decisions", nil), 200)

	h.list(risk.LocalListEntry{Outage: true})
	held := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment()), 202)
	if reasons := held.body["approvalReasons"].([]any); held.text("status") != "AWAITING_APPROVAL" ||
		len(reasons) != 1 || reasons[0] != "RISK_REVIEW" {
		t.Errorf("got %s, want it to wait for RISK_REVIEW", held.raw)
	}
}
