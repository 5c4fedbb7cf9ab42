package service

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// hookedPayments runs a hook before each check of rows.
type hookedPayments struct {
	payout.Payments
	beforeCheck func()
}

func (p hookedPayments) CheckRows(ctx context.Context, rows []payout.RowPayment) ([]int, error) {
	p.beforeCheck()
	return p.Payments.CheckRows(ctx, rows)
}

func (h *payoutEnv) freeze(f freeze.Freeze) {
	h.Helper()
	f.Source, f.Reason, f.Actor = freeze.SourceOperator, "test", audit.Operator("op")
	err := h.DB.InSystem(h.Context(), func(ctx context.Context, tx pg.Tx) error { return freeze.Create(ctx, tx, f) })
	if err != nil {
		h.Fatal(err)
	}
}

func (h *payoutEnv) liftFreezes() {
	h.Helper()
	tamper(h, `UPDATE freezes SET lifted_at = now(), lifted_by = 'op' WHERE lifted_at IS NULL`)
}

func (h *payoutEnv) validate(b payout.Batch) {
	h.Helper()
	if err := h.Validate(h.Context(), h.org, b.ID); err != nil {
		h.Fatal(err)
	}
}

// A freeze says nothing about a row: the batch waits for its end, also if it comes while the rows are checked. Rules
// BP-8 and BP-11.
func TestAFreezeMakesNoBatchInvalid(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	for _, f := range []freeze.Freeze{
		{Scope: freeze.ScopeOrganization, OrgID: h.org},
		{Scope: freeze.ScopeChain, Chain: chain.Ethereum},
		{Scope: freeze.ScopeAll},
	} {
		b := h.create()
		b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
		h.freeze(f)
		h.validate(b)
		h.wantStatus(b.ID, payout.Validating)
		h.liftFreezes()
		h.validate(b)
		h.wantStatus(b.ID, payout.AwaitingApproval)
	}

	checked := h.Payments
	h.Payments = hookedPayments{checked, func() {
		h.freeze(freeze.Freeze{Scope: freeze.ScopeOrganization, OrgID: h.org})
	}}
	b := h.createPartial(list(t))
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	h.validate(b)
	h.wantStatus(b.ID, payout.Validating)
	h.Payments = checked
	h.liftFreezes()
	h.validate(b)
	if b = h.must(h.ByID(t.Context(), h.org, b.ID)); b.Status != payout.AwaitingApproval || b.Header.Included != 3 {
		t.Errorf("after the freeze: got %s, %q and %d rows included, want 3", b.Status, b.Problem, b.Header.Included)
	}
}

// severeScreener is a provider that knows one address as severe.
type severeScreener struct{ address chain.Address }

func (severeScreener) Name() string             { return "ORACLE" }
func (severeScreener) Covers(_ chain.Name) bool { return true }

func (s severeScreener) Screen(_ context.Context, subject risk.Subject) (risk.Verdict, error) {
	v := risk.Verdict{Provider: "ORACLE", Severity: risk.Low, IsKnown: true, GivenAt: time.Now()}
	if subject.Address == s.address {
		v.Severity, v.Categories = risk.Severe, []string{"SANCTIONS"}
	}
	return v, nil
}

// A row whose address screening blocks cannot be paid, and people learn that before they approve the others. Rules BP-4
// and BP-8.
func TestARowThatScreeningBlocksIsFoundBeforeTheApproval(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	h.withdrawals.Risk = risk.Policy{Providers: severeScreener{payees[1]}, UnknownAs: risk.TreatUnknownAsHold}
	b := h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	h.validate(b)
	b = h.must(h.ByID(t.Context(), h.org, b.ID))
	if b.Status != payout.Invalid || !strings.Contains(b.Problem, "Row 2") {
		t.Errorf("STRICT: got %s, %q", b.Status, b.Problem)
	}
	b = h.createPartial(list(t))
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	h.validate(b)
	if b = h.must(h.ByID(t.Context(), h.org, b.ID)); b.Status != payout.AwaitingApproval || b.Header.Included != 2 {
		t.Errorf("PARTIAL: got %s, %q and %d rows included, want 2", b.Status, b.Problem, b.Header.Included)
	}
}

// A wallet of the organization is one of the addresses that a look-alike imitates, and what a payment of the last 90
// days paid has its reference. Rule BP-10.
func TestWarningsKnowWalletsAndWhatWasPaid(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	paid := h.approved() // pays inv-1 to inv-3
	h.expand(paid)
	h.endWithdrawals(paid, "COMPLETED", "COMPLETED", "COMPLETED")
	h.expand(paid)
	h.wantStatus(paid.ID, payout.Completed)
	alike := strings.ToLower(string(h.treasury.Address))
	alike = alike[:20] + strings.Map(func(r rune) rune { return map[bool]rune{true: '1', false: '2'}[r != '1'] },
		alike[20:24]) + alike[24:]
	b := h.must(h.Create(t.Context(), h.org, payout.CreateRequest{Lines: h.listOf(
		"mintId,toAddress,amount,reference", "1,"+alike+",10,inv-1",
	), Actor: batchMaker}))
	warnings, err := h.Warnings(t.Context(), h.org, b.ID)
	if err != nil {
		t.Fatal(err)
	}
	found := map[payout.WarningKind]string{}
	for _, w := range warnings {
		found[w.Kind] = w.Text
	}
	if text := found[payout.LookAlike]; !strings.Contains(text, string(h.treasury.Address)) {
		t.Errorf("the address like that of the treasury: got %q", text)
	}
	if text := found[payout.ReferenceSeen]; !strings.HasPrefix(text, "Withdrawal ") {
		t.Errorf("the reference of a paid withdrawal: got %q", text)
	}
}

// A payment that came back from the signer's journal and is on its way is not made again by a retry. Rule BP-13.
func TestARetryLeavesOutWhatIsOnItsWay(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	h.expand(b)
	h.endWithdrawals(b, "FAILED", "FAILED", "FAILED")
	h.expand(b)
	h.wantStatus(b.ID, payout.Failed)
	for _, status := range []string{"PROCESSING", "BROADCAST"} {
		tamper(h, `UPDATE withdrawals SET batch_id = NULL, batch_row = NULL, status = $2, restored_at = now(),
			tx_hash = 'r', broadcast_at = now()
			WHERE withdrawal_id = $1`, signer.BatchWithdrawalID(h.org, b.ID, 2), status)
		r := h.must(h.Retry(t.Context(), h.org, b.ID, nil, batchMaker))
		if r.Header.Rows != 2 {
			t.Errorf("%s: got %d rows, want 2", status, r.Header.Rows)
		}
	}
}
