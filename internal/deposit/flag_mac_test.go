package deposit_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// execAsTableOwner changes rows past every trigger, which no role of the program can do.
func (w *testEnv) execAsTableOwner(t *testing.T, sql string, args ...any) {
	t.Helper()
	owner := pgtest.OwnerPool(t, w.db)
	for _, table := range []string{"deposits", "deposit_resolutions", "dispatch_orders"} {
		if _, err := owner.Exec(t.Context(), `ALTER TABLE `+table+` DISABLE TRIGGER USER`); err != nil {
			t.Fatal(err)
		}
	}
	if tag, err := owner.Exec(t.Context(), sql, args...); err != nil || tag.RowsAffected() == 0 {
		t.Fatalf("%s: got %v, %v, want a row changed", sql, tag, err)
	}
	for _, table := range []string{"deposits", "deposit_resolutions", "dispatch_orders"} {
		if _, err := owner.Exec(t.Context(), `ALTER TABLE `+table+` ENABLE TRIGGER USER`); err != nil {
			t.Fatal(err)
		}
	}
}

func (w *testEnv) redirectDeposit(id string) error {
	_, err := w.service.Redirect(
		context.Background(), id, operatorActor(),
		deposit.Redirection{ToAddress: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"},
	)
	return err
}

// Rule DEP-35: the owner of the database cannot have a deposit returned to another address.
func TestAFlagThatWasChangedInTheDatabaseSendsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]string{
		"sender":            `UPDATE deposits SET return_to = 'thief' WHERE is_flagged`,
		"sender, both":      `UPDATE deposits SET return_to = 'thief', from_address = 'thief' WHERE is_flagged`,
		"amount":            `UPDATE deposits SET amount = amount + 1 WHERE is_flagged`,
		"wallet":            `UPDATE deposits SET wallet_id = 'adr_bob' WHERE is_flagged`,
		"risk of return":    `UPDATE deposits SET return_risk = 'KNOWN_EXCHANGE' WHERE is_flagged`,
		"list of sanctions": `UPDATE deposits SET flag_reason = flag_reason || '{"sanctioned": true}' WHERE is_flagged`,
		"MAC":               `UPDATE deposits SET return_mac = '\x00' WHERE is_flagged`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newScreenedEnv(t)
			id := w.flagDeposit(t, o, 500)
			w.execAsTableOwner(t, change)
			for who, actor := range map[string]deposit.Actor{
				"a person": {Actor: audit.User("usr_1"), OrgID: w.org}, "the operator": operatorActor(),
			} {
				if _, err := w.service.Reject(
					t.Context(), id, actor, "",
				); !fault.HasCode(err, fault.InvalidState) {
					t.Errorf("rejected by %s: got %v, want INVALID_STATE", who, err)
				}
				if _, err := w.service.Approve(
					t.Context(), id, actor, "",
				); !fault.HasCode(err, fault.InvalidState) {
					t.Errorf("approved by %s: got %v, want INVALID_STATE", who, err)
				}
			}
			if n := w.queryCount(t, `SELECT count(*) FROM dispatch_orders`) + w.queryCount(
				t, `SELECT count(*) FROM deposit_resolutions`,
			); n != 0 {
				t.Errorf("got %d orders and resolutions, want none", n)
			}
			if !strings.Contains(w.logs.String(), "the database was changed by hand") {
				t.Error("nobody was told")
			}
		})
	}
}

// Rule DEP-35, for a deposit that was flagged before there was a key for its MAC.
func TestAFlagFromBeforeItWasBoundIsTheOperatorsToRedirect(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	w.execAsTableOwner(t, `UPDATE deposits SET return_mac = NULL WHERE is_flagged`)
	r := w.service
	if _, err := r.Reject(
		t.Context(), id, deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org}, "",
	); !fault.HasCode(err, fault.OperatorOnly) {
		t.Errorf("a person rejects: got %v, want OPERATOR_ONLY", err)
	}
	if _, err := r.Reject(t.Context(), id, operatorActor(), ""); !fault.HasCode(err, fault.InvalidState) {
		t.Errorf("the operator rejects: got %v, want INVALID_STATE", err)
	}
	if err := w.redirectDeposit(id); err != nil {
		t.Errorf("redirect: got %v, want it ordered", err)
	}
}

// Rule DEP-35: the table accepts no flag without a MAC.
func TestTheTableTakesNoFlagThatNothingBinds(t *testing.T) {
	t.Parallel()
	w, o := newScreenedEnv(t)
	id := w.flagDeposit(t, o, 500)
	for name, sql := range map[string]string{
		"taken away": `UPDATE deposits SET return_mac = NULL WHERE deposit_id = $1`,
		"another":    `UPDATE deposits SET return_mac = '\x01' WHERE deposit_id = $1`,
	} {
		if _, err := pgtest.OwnerPool(t, w.db).Exec(
			t.Context(), sql, id,
		); !pg.ViolatesConstraint(err, "deposits_flag_fixed") {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	delete(o.says, payer) // no provider answers, and the next deposit waits
	w.c.Pay(payer, alice, usdcAt, 700)
	w.c.Mine(4)
	w.walkBlocks(t)
	_, err := pgtest.OwnerPool(t, w.db).Exec(t.Context(), `
		UPDATE deposits SET status = 'FLAGGED', is_flagged = true, risk_of_funds = 'SEVERE', flag_reason = '{}', flagged_at = now(), return_to = from_address, return_risk = 'NONE'
		WHERE status = 'SCREENING'`)
	if !pg.ViolatesConstraint(err, "deposits_flag_fixed") {
		t.Errorf("a flag without: got %v, want it refused", err)
	}
}

// Rule DEP-35: a completed transfer goes to the address that was decided.
func TestACompletionGoesWhereItWasDecided(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		redirected bool
		change     string
		refused    bool
	}{
		"as it was":           {true, "", false},
		"redirected, changed": {true, `UPDATE deposit_resolutions SET to_address = 'thief'`, true},
		"no word of it left":  {true, `UPDATE dispatch_orders SET authority = NULL`, true},
		"rejected, restored":  {false, `UPDATE dispatch_orders SET authority = NULL`, false},
		"rejected, changed":   {false, `UPDATE deposit_resolutions SET to_address = 'thief'`, true},
		"and so its flag": {
			false,
			`WITH d AS (UPDATE deposits SET return_to = 'thief', from_address = 'thief' WHERE is_flagged)
			UPDATE deposit_resolutions SET to_address = 'thief'`, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newScreenedEnv(t)
			id := w.flagDeposit(t, o, 500)
			err := error(nil)
			if c.redirected {
				err = w.redirectDeposit(id)
			} else {
				_, err = w.service.Reject(t.Context(), id, operatorActor(), "")
			}
			if err != nil {
				t.Fatal(err)
			}
			w.wantStuck(t)
			if c.change != "" {
				w.execAsTableOwner(t, c.change)
			}
			_, err = w.service.Complete(t.Context(), id, operatorActor(), "")
			if c.refused != fault.HasCode(err, fault.InvalidState) || !c.refused && err != nil {
				t.Errorf("got %v, want refused: %t", err, c.refused)
			}
			if n := w.queryCount(t, `SELECT count(*) FROM dispatch_orders`); n != 1 && c.refused ||
				n != 2 && !c.refused {
				t.Errorf("got %d orders, want one more only where it may be", n)
			}
		})
	}
}

// wantStuck lets the only transfer of a resolution fail on the chain, finally.
func (w *testEnv) wantStuck(t *testing.T) {
	t.Helper()
	w.execAsTableOwner(t, `
		UPDATE dispatch_orders SET status = 'FAILED', tx_hash = 'hash', fee = 1, proof_id = (SELECT max(proof_id) FROM finality_proofs), broadcast_at = now(), ended_at = now()
		WHERE purpose = 'RETURN'`)
	w.execAsTableOwner(t, `UPDATE address_funds SET reserved = 0, held = credited WHERE reserved > 0`)
	w.endTransfer(t, false)
}
