package deposit_test

import (
	"context"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/webhook"
)

// turnedAway lets the signer refuse the only transfer, before anything reached the chain.
func (w *testEnv) turnedAway(t *testing.T) {
	t.Helper()
	err := w.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var o dispatch.Order
		err := tx.QueryRow(
			ctx,
			`UPDATE dispatch_orders SET status = 'REFUSED' WHERE purpose = 'RETURN' RETURNING order_id, org_id, wallet_id, mint_id, amount`,
		).
			Scan(&o.ID, &o.OrgID, &o.WalletID, &o.MintID, &o.Amount)
		if err != nil {
			return err
		}
		return w.service.OnRefused(
			ctx, tx, o, &signer.Refusal{Code: signer.PolicyLimit, Message: "too much for today"},
		)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// confirms makes the only transfer final.
func (w *testEnv) confirms(t *testing.T) {
	t.Helper()
	w.execAsTableOwner(t, `
		UPDATE dispatch_orders SET status = 'PAID', tx_hash = 'hash', fee = 1, proof_id = (SELECT max(proof_id) FROM finality_proofs), broadcast_at = now(), ended_at = now()
		WHERE purpose = 'RETURN'`)
	w.execAsTableOwner(t, `UPDATE address_funds SET reserved = 0, swept = 500 WHERE reserved = 500`)
	w.endTransfer(t, true)
}

// This is the interface's table of deposits and flagged deposits, with a line each. Rules DEP-3,
// DEP-12, DEP-28 to DEP-32, RISK-1.
func TestDepositsBecomeWhatTheInterfaceSays(t *testing.T) {
	t.Parallel()
	organization := func(w *testEnv) deposit.Actor { return deposit.Actor{Actor: audit.User("usr_1"), OrgID: w.org} }
	reject := func(t *testing.T, w *testEnv, id string, actor deposit.Actor) {
		t.Helper()
		if _, err := w.service.Reject(t.Context(), id, actor, ""); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		severity risk.Severity // "" if the organization has no thresholds
		then     func(t *testing.T, w *testEnv, id string)
		status   string
		balance  uint64
		held     uint64   // on its address
		told     []string // event types, in order
		flagged  bool
	}{
		"no screening":    {"", nil, "CREDITED", 500, 0, []string{"CUSTOMER_DEPOSIT"}, false},
		"below":           {risk.Low, nil, "CREDITED", 500, 0, []string{"CUSTOMER_DEPOSIT"}, false},
		"at the severity": {risk.Medium, nil, "CREDITED", 500, 0, []string{"CUSTOMER_DEPOSIT"}, false},
		"above it":        {risk.High, nil, "FLAGGED", 0, 500, []string{"CUSTOMER_DEPOSIT"}, true},
		"approved by the organization": {risk.High, func(t *testing.T, w *testEnv, id string) {
			if _, err := w.service.Approve(t.Context(), id, organization(w), ""); err != nil {
				t.Error(err)
			}
		}, "CREDITED", 500, 0, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_APPROVED"}, true},
		"approved by the operator": {risk.High, func(t *testing.T, w *testEnv, id string) {
			if _, err := w.service.Approve(t.Context(), id, operatorActor(), ""); err != nil {
				t.Error(err)
			}
		}, "CREDITED", 500, 0, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_APPROVED"}, true},
		"rejected, not final": {
			risk.High, func(t *testing.T, w *testEnv, id string) { reject(t, w, id, organization(w)) },
			"REJECTING", 0, 0,
			[]string{"CUSTOMER_DEPOSIT"},
			true,
		},
		"rejected by the organization": {risk.High, func(t *testing.T, w *testEnv, id string) {
			reject(t, w, id, organization(w))
			w.confirms(t)
		}, "REJECTED", 0, 0, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED"}, true},
		"rejected by the operator": {risk.High, func(t *testing.T, w *testEnv, id string) {
			reject(t, w, id, operatorActor())
			w.confirms(t)
		}, "REJECTED", 0, 0, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REJECTED"}, true},
		"redirected": {risk.High, func(t *testing.T, w *testEnv, id string) {
			if err := w.redirectDeposit(id); err != nil {
				t.Error(err)
			}
			w.confirms(t)
		}, "REDIRECTED", 0, 0, []string{"CUSTOMER_DEPOSIT", "CUSTOMER_DEPOSIT_REDIRECTED"}, true},
		"redirected by the organization": {risk.High, func(t *testing.T, w *testEnv, id string) {
			_, err := w.service.Redirect(
				t.Context(), id, organization(w),
				deposit.Redirection{ToAddress: string(payer), Reason: deposit.ComplianceHold, Reference: "case 1"},
			)
			if !fault.HasCode(err, fault.OperatorOnly) {
				t.Errorf("got %v, want OPERATOR_ONLY", err)
			}
		}, "FLAGGED", 0, 500, []string{"CUSTOMER_DEPOSIT"}, true},
		"an action that fails before the chain": {risk.High, func(t *testing.T, w *testEnv, id string) {
			reject(t, w, id, organization(w))
			w.turnedAway(t)
			if d := w.onlyDeposit(t); len(d.ResolutionAttempts) != 1 ||
				d.ResolutionAttempts[0].Reason != signer.PolicyLimit ||
				d.ResolutionAttempts[0].At == (webhook.Time{}) {
				t.Errorf("got %+v, want the attempt kept with time and reason", d.ResolutionAttempts)
			}
		}, "FLAGGED", 0, 500, []string{"CUSTOMER_DEPOSIT"}, true},
		"and is tried again": {risk.High, func(t *testing.T, w *testEnv, id string) {
			reject(t, w, id, organization(w))
			w.turnedAway(t)
			reject(t, w, id, organization(w))
		}, "REJECTING", 0, 0, []string{"CUSTOMER_DEPOSIT"}, true},
		"an action that fails on the chain": {risk.High, func(t *testing.T, w *testEnv, id string) {
			reject(t, w, id, organization(w))
			w.wantStuck(t)
			if _, err := w.service.Reject(
				t.Context(), id, organization(w), "",
			); !fault.HasCode(err, fault.ResolutionStuckCode) {
				t.Errorf("the organization, again: got %v, want RESOLUTION_STUCK", err)
			}
			if _, err := w.service.Complete(
				t.Context(), id, organization(w), "",
			); !fault.HasCode(err, fault.OperatorOnly) {
				t.Errorf("the organization completes: got %v, want OPERATOR_ONLY", err)
			}
		}, "RESOLUTION_STUCK", 0, 500, []string{"CUSTOMER_DEPOSIT"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, o := newScreenedEnv(t)
			o.setSeverity(payer, c.severity)
			if c.severity == "" {
				if _, err := pgtest.OwnerPool(t, w.db).Exec(
					t.Context(),
					`UPDATE organization_settings SET screening_severity_threshold = NULL, screening_usd_threshold = NULL`,
				); err != nil {
					t.Fatal(err)
				}
			}
			w.c.Pay(payer, alice, usdcAt, 500)
			w.c.Mine(4)
			w.walkBlocks(t)
			id := w.onlyDeposit(t).DepositID
			if c.then != nil {
				c.then(t, w, id)
			}
			d := w.onlyDeposit(t)
			if d.Status != c.status || d.IsFlagged != c.flagged ||
				c.flagged && (d.RiskOfFunds == nil || *d.RiskOfFunds != string(c.severity) || d.FlagReason == nil) {
				t.Errorf(
					"got %s, flagged %t with %v, want %s, %t", d.Status, d.IsFlagged, d.FlagReason, c.status, c.flagged,
				)
			}
			if got := w.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(c.balance) {
				t.Errorf("balance: got %v, want %d", got, c.balance)
			}
			f := w.loadFunds(t, "adr_alice", usdc)
			if f.Held != money.Units(c.held) || f.Spendable() != money.Units(c.balance) {
				t.Errorf(
					"on its address: got %v held and %v for a sweep, want %d and %d", f.Held, f.Spendable(), c.held,
					c.balance,
				)
			}
			var told []string
			w.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
				rows, err := tx.Query(ctx, `SELECT type FROM events WHERE resource_id = $1 ORDER BY resource_seq`, id)
				if err != nil {
					return err
				}
				defer rows.Close()
				for rows.Next() {
					var kind string
					if err := rows.Scan(&kind); err != nil {
						return err
					}
					told = append(told, kind)
				}
				return rows.Err()
			})
			if !slices.Equal(told, c.told) {
				t.Errorf("told: got %v, want %v", told, c.told)
			}
		})
	}
}
