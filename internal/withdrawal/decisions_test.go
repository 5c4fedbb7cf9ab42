package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
)

func (h *testEnv) loadDecisions(withdrawalID string) []DecisionRecord {
	h.t.Helper()
	all, err := h.ListDecisions(h.t.Context(), h.org, withdrawalID)
	if err != nil {
		h.t.Fatal(err)
	}
	return all
}

// findStep returns one gate of a decision in the form of FlattenSteps.
func findStep(t *testing.T, d DecisionRecord, name Gate) map[string]string {
	t.Helper()
	i := slices.IndexFunc(d.Gates, func(s Step) bool { return s.Gate == name })
	if i < 0 {
		t.Fatalf("the decision %s has no gate %s", d.Act, name)
	}
	return FlattenSteps(d.Gates)[i]
}

// Rule WD-25.
func TestEveryDecisionIsKeptWithWhatItWasMadeOn(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	limit := money.MustParseUSD("0.0005")
	h.inSystem(func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.Operator("test"), h.org, &limit)
	})
	old := h.DB.Clock()().Add(-90 * time.Second)
	h.Prices = price.Fixed{
		Prices: map[int]money.USD{usdc: money.MustParseUSD("0.9998")}, Clock: func() time.Time { return old },
	}

	w := h.mustRequest(h.newRequest())
	if _, err := h.Approve(t.Context(), h.org, w.ID, person); err != nil {
		t.Fatal(err)
	}
	h.returnOrder(w, &signer.Refusal{Code: signer.PolicyLimit, Message: "one payment may be at most 5"})
	if _, err := h.Remove(t.Context(), h.org, w.ID, person, "too much"); err != nil {
		t.Fatal(err)
	}

	all := h.loadDecisions(w.ID)
	var acts []string
	for _, d := range all {
		acts = append(
			acts,
			fmt.Sprint(d.Act, " ", d.Status, " ", d.Actor.Kind, " ", d.Actor.ID, " ", d.Reasons, " ", d.Note),
		)
		if d.DecidedAt.IsZero() {
			t.Errorf("%s: got no time", d.Act)
		}
	}
	want := []string{
		"REQUESTED AWAITING_APPROVAL API_KEY " + h.org + " [USD_THRESHOLD] ",
		"APPROVED PROCESSING USER usr_1 [] ",
		"RETURNED AWAITING_APPROVAL SYSTEM dispatch [POLICY_LIMIT] one payment may be at most 5",
		"REMOVED REJECTED USER usr_1 [] too much",
	}
	if !slices.Equal(acts, want) {
		t.Fatalf("got %q, want %q", acts, want)
	}
	if n := len(all[0].Gates); n != 14 {
		t.Errorf("got %d gates, want 14", n)
	}
	priced := findStep(t, all[0], GateUSDThreshold)
	if priced["result"] != "HOLD" || priced["threshold"] != "0.0005" || priced["usdValue"] != "0.0009998" ||
		priced["price"] != "0.9998" ||
		priced["priceAt"] != old.UTC().Format(time.RFC3339Nano) || priced["priceSource"] != "fixed" ||
		len(priced["priceAgeSeconds"]) != 2 {
		t.Errorf("got %v, want the threshold, the value, and the price with its age", priced)
	}
	if got := findStep(t, all[0], GateRisk); got["result"] != "NOT_CONFIGURED" {
		t.Errorf("got %v, want a record that nobody was screened", got)
	}
	if got := findStep(t, all[0], GateBalance); got["available"] != "1000000" {
		t.Errorf("got %v, want what was available", got)
	}
	if got := findStep(t, all[1], GateAddress); got["result"] != "PASS" {
		t.Errorf("got %v, want what the approval asked again", got)
	}
	if got := findStep(t, all[2], GateSigner); got["code"] != signer.PolicyLimit {
		t.Errorf("got %v, want the signer's code", got)
	}
}

// Rule WD-25.
func TestADecisionCannotBeChanged(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.requestHeld()
	owner := pgtest.OwnerPool(t, h.DB)
	for _, sql := range []string{
		`UPDATE withdrawal_decisions SET note = 'other'`,
		`DELETE FROM withdrawal_decisions`,
		`TRUNCATE withdrawal_decisions`,
	} {
		if _, err := owner.Exec(t.Context(), sql); !pg.ViolatesConstraint(err, "withdrawal_decisions_append_only") {
			t.Errorf("%s: got %v, want a violation of withdrawal_decisions_append_only", sql, err)
		}
	}
	if all := h.loadDecisions(w.ID); len(all) != 1 || all[0].Note != "" {
		t.Errorf("got %+v, want it as it was", all)
	}
}

// An upgraded installation has withdrawals whose decision is in the row itself.
func TestADecisionFromBeforeTheRecordIsShown(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.requestHeld()
	h.execAsOwner(`DELETE FROM withdrawal_decisions`, `UPDATE withdrawals SET decision =
		'{"status": "AWAITING_APPROVAL", "reasons": ["REQUIRE_APPROVAL"], "gates": [{"gate": "MINIMUM", "result": "PASS", "inputs": {"minimum": "10"}}]}'`)
	if _, err := h.Cancel(t.Context(), h.org, w.ID, audit.APIKey(h.org)); err != nil {
		t.Fatal(err)
	}
	all := h.loadDecisions(w.ID)
	if len(all) != 2 || all[0].Act != ActRequested || all[0].Status != AwaitingApproval ||
		all[0].Reasons[0] != ReasonRequireApproval ||
		findStep(t, all[0], GateMinimum)["minimum"] != "10" || all[1].Act != ActCancelled {
		t.Errorf("got %+v, want the request from before and the cancellation", all)
	}
	_, err := pgtest.OwnerPool(t, h.DB).Exec(t.Context(), `UPDATE withdrawals SET decision = '{}'`)
	if !pg.ViolatesConstraint(err, "withdrawals_terms_fixed") {
		t.Errorf("got %v, want a violation of withdrawals_terms_fixed", err)
	}
}

// The progress of a payment after its order adds no decision.
func TestAPaymentThatIsMadeAddsNoDecision(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.mustRequest(h.newRequest())
	if err := h.endOrder(h.loadOrder(w), dispatch.End{Paid: true, Hash: "0xaa"}); err != nil {
		t.Fatal(err)
	}
	if all := h.loadDecisions(w.ID); len(all) != 1 || all[0].Status != Processing ||
		len(all[0].Reasons) != 0 {
		t.Errorf("got %+v, want the request alone", all)
	}
}
