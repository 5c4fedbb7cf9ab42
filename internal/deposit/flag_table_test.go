package deposit_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
)

// Rules DEP-28, DEP-30 and DEP-31: the tables protect a flag, its sender and its only resolution,
// even against their owner.
func TestTheTablesKeepAFlagAndItsResolution(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	owner := pgtest.OwnerPool(t, w.db)
	refused := func(name, constraint, sql string, args ...any) {
		t.Helper()
		if _, err := owner.Exec(t.Context(), sql, args...); !pg.ViolatesConstraint(err, constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, constraint)
		}
	}
	refused("lifted", "deposits_flag_fixed",
		`UPDATE deposits SET is_flagged = false, flagged_at = NULL, risk_of_funds = NULL, flag_reason = NULL, status = 'SCREENING' WHERE deposit_id = $1`,
		id)
	refused(
		"of less risk", "deposits_flag_fixed", `UPDATE deposits SET risk_of_funds = 'LOW' WHERE deposit_id = $1`, id,
	)
	refused(
		"of another sender", "deposits_flag_fixed", `UPDATE deposits SET return_to = $2 WHERE deposit_id = $1`, id,
		string(bob),
	)
	refused(
		"credited by nobody", "deposits_posted",
		`UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = $1`, id,
	)
	refused(
		"on its way by nobody", "deposits_resolved",
		`UPDATE deposits SET status = 'REJECTING' WHERE deposit_id = $1`, id,
	)
	if _, err := w.service.Reject(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatalf("Reject: %v", err)
	}
	refused("decided twice", "deposit_resolutions_one", `
		INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, decided_at, decided_by_kind, decided_by, chain, wallet_id, mint_id, ended_at)
		SELECT 'res_2', org_id, deposit_id, 'APPROVED', 'DONE', now(), 'USER', 'usr_1', chain, wallet_id, mint_id, now() FROM deposits WHERE deposit_id = $1`,
		id)
	refused(
		"sent elsewhere", "deposit_resolutions_fixed",
		`UPDATE deposit_resolutions SET to_address = $2 WHERE deposit_id = $1`, id, string(bob),
	)
	refused(
		"done without its order", "deposit_resolutions_as_decided",
		`UPDATE deposit_resolutions SET status = 'DONE', ended_at = now() WHERE deposit_id = $1`, id,
	)
	refused(
		"back in the queue by nobody", "deposits_resolved",
		`UPDATE deposits SET status = 'FLAGGED' WHERE deposit_id = $1`, id,
	)
	if _, err := owner.Exec(t.Context(), `DELETE FROM deposit_resolutions WHERE deposit_id = $1`, id); err == nil {
		t.Error("a resolution was deleted, want it to stand for ever")
	}
}

// Rule DEP-31.
func TestOnlyTheOperatorSendsAFlaggedDepositElsewhere(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	_, err := w.service.Redirect(t.Context(), id, deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org},
		deposit.Redirection{ToAddress: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"})
	if !fault.HasCode(err, fault.OperatorOnly) {
		t.Errorf("got %v, want OPERATOR_ONLY", err)
	}
	if n := w.queryCount(t, `SELECT count(*) FROM deposit_resolutions`); n != 0 {
		t.Errorf("got %d resolutions, want none", n)
	}
}

// hookedScreener is a provider that runs a hook while it is asked.
type hookedScreener struct {
	fakeScreener
	happens func()
}

func (a *hookedScreener) Screen(ctx context.Context, s risk.Subject) (risk.Verdict, error) {
	if a.happens != nil {
		do := a.happens
		a.happens = nil
		do()
	}
	return a.fakeScreener.Screen(ctx, s)
}

// Rule RISK-3: settings that are changed between the question and the credit count.
func TestADepositIsDecidedByTheSettingsOfItsCredit(t *testing.T) {
	t.Parallel()
	a := &hookedScreener{fakeScreener: fakeScreener{says: map[chain.Address]risk.Severity{payer: risk.Medium}}}
	w := newTestEnvWith(t, risk.Policy{Providers: a, UnknownAs: risk.TreatUnknownAsHold, Grace: time.Hour})
	set := func(severity string) {
		t.Helper()
		err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := org.ChangeSettings(ctx, tx, audit.Operator("op"), w.org, org.Changes{
				"screeningSeverityThreshold": json.RawMessage(severity),
				"screeningUsdThreshold":      json.RawMessage(`"0.0001"`),
			})
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	set(`"MEDIUM"`)
	a.happens = func() { set(`"LOW"`) }
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Mine(4)
	w.walkBlocks(t)
	if a.happens != nil {
		t.Fatal("nobody was asked")
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
		t.Errorf("credited by settings that were changed: got %v, want nothing", got)
	}
	w.walkBlocks(t)
	if got := w.listDeposits(t, deposit.Filter{Status: "FLAGGED"}); len(got) != 1 {
		t.Errorf("got %d flagged, want it decided by what is set now", len(got))
	}
}

// Rules DEP-20 and DEP-28: a flagged deposit survives a broken finality. No decision about it is
// possible until the new fork shows it.
func TestAFlaggedDepositInQuestionIsDecidedWhenItIsProvenAgain(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	w.w = w.reorgWalker()
	o.setSeverity(payer, risk.Severe)
	w.c.Pay(payer, alice, usdcAt, 500)
	w.c.Mine(9)
	w.walkBlocks(t)
	id := w.onlyDeposit(t).DepositID
	if got := w.onlyDeposit(t).Status; got != "FLAGGED" {
		t.Fatalf("got %s, want FLAGGED", got)
	}
	r := w.service
	undecided := func(when string) {
		t.Helper()
		for name, act := range map[string]func() error{
			"approve": func() error { _, err := r.Approve(t.Context(), id, operatorActor(), ""); return err },
			"reject":  func() error { _, err := r.Reject(t.Context(), id, operatorActor(), ""); return err },
			"redirect": func() error {
				_, err := r.Redirect(
					t.Context(), id, operatorActor(),
					deposit.Redirection{ToAddress: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"},
				)
				return err
			},
		} {
			if err := act(); !fault.HasCode(err, fault.DepositsSuspended) {
				t.Errorf("%s %s: got %v, want DEPOSITS_SUSPENDED", name, when, err)
			}
		}
	}
	w.c.Fork(9)
	w.c.MineEmpty(2)
	w.c.Mine(10)
	w.partChain(t)
	undecided("while nobody has looked at the break")
	b := w.repointChain(t)
	if d := w.onlyDeposit(t); d.Status != "FLAGGED" || d.ChainStatus != "REORGED" {
		t.Errorf("got %s, %s, want FLAGGED, REORGED", d.Status, d.ChainStatus)
	}
	undecided("in question")
	for _, status := range []string{"CREDITED", "REJECTING"} {
		_, err := pgtest.OwnerPool(t, w.db).Exec(
			t.Context(),
			`UPDATE deposits SET status = $1, credited_at = CASE $1 WHEN 'CREDITED' THEN now() END WHERE deposit_id = $2`,
			status, id,
		)
		if !pg.ViolatesConstraint(err, "deposits_decided_when_final") {
			t.Errorf("%s in question: got %v, want the table to refuse it", status, err)
		}
	}
	w.walkFinal(t)
	w.settleReorgs(t)
	if d := w.onlyDeposit(t); d.DepositID != id || d.Status != "FLAGGED" || d.ChainStatus != "FINALIZED" {
		t.Errorf("got %s %s %s, want the same deposit, FLAGGED and FINALIZED", d.DepositID, d.Status, d.ChainStatus)
	}
	w.c.MineEmpty(int(b.SettleHeight))
	w.walkFinal(t)
	w.settleReorgs(t)
	w.liftFreezes(t)
	if _, err := r.Approve(t.Context(), id, operatorActor(), ""); err != nil {
		t.Fatalf("Approve: %v", err)
	}
	if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(500) {
		t.Errorf("alice: got %v, want 500", got)
	}
	w.checkBooks(t)
}

// Rule DEP-32, after the restore of an old backup. A return that only the signer's journal has
// belongs to the flagged deposit. The deposit stays held until it is reserved again, and is in no
// queue while the return may be on its way.
func TestAReturnThatOnlyTheJournalKnowsIsThatOfItsDeposit(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name         string
		to           chain.Address
		signed       bool
		amount       uint64
		status, what string
	}{
		{"back to its sender", payer, true, 500, "REJECTING", "REJECTED OPEN"},
		{"elsewhere", "elsewhere", true, 500, "REDIRECTING", "REDIRECTED OPEN"},
		{"never signed", payer, false, 500, "FLAGGED", "REJECTED FAILED"},
		{"of another amount", payer, true, 400, "FLAGGED", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, o := newScreenedEnv(t)
			id := w.flagDeposit(t, o, 500)
			err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				order := dispatch.Order{
					ID: "res_lost", OrgID: w.org, Purpose: signer.Return, Chain: chain.Ethereum,
					WalletID: "adr_alice", To: c.to, MintID: usdc,
					Contract: usdcAt, Amount: money.Units(c.amount), CreatedAt: tx.Now,
				}
				if err := dispatch.Submit(ctx, tx, order); err != nil {
					return err
				}
				if !c.signed {
					if _, err := tx.Exec(
						ctx, `UPDATE dispatch_orders SET status = 'REFUSED' WHERE order_id = 'res_lost'`,
					); err != nil {
						return err
					}
				}
				_, err := w.service.OnRestored(
					ctx, tx, []dispatch.RestoredOrder{{Order: order, IsNew: true, Signed: c.signed}},
				)
				return err
			})
			if (err != nil) != (c.what == "") {
				t.Fatalf("Restored: got %v, want an error only when no such deposit is flagged", err)
			}
			if d := w.onlyDeposit(t); d.DepositID != id || d.Status != c.status {
				t.Errorf("got %s, want %s", d.Status, c.status)
			}
			if c.what != "" &&
				w.queryCount(
					t,
					`SELECT count(*) FROM deposit_resolutions WHERE deposit_id = $1 AND decision || ' ' || status = $2 AND to_address = $3`,
					id, c.what, string(c.to),
				) != 1 {
				t.Errorf("want one resolution %s", c.what)
			}
			if f := w.loadFunds(t, "adr_alice", usdc); f.Held != money.Units(500) || !f.Spendable().IsZero() {
				t.Errorf("got %+v, want all of it held", f)
			}
		})
	}
}
