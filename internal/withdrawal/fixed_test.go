package withdrawal

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// No role of the program and not even the owner can make another payment of an accepted withdrawal,
// or reopen one that has ended.
func TestAnAcceptedWithdrawalCannotBecomeAnotherPayment(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	w := h.requestHeld()
	ended := h.requestHeld()
	if _, err := h.Remove(t.Context(), h.org, ended.ID, h.newRequest().Actor, ""); err != nil {
		t.Fatal(err)
	}
	owner := pgtest.OwnerPool(t, h.DB)
	for name, c := range map[string]struct{ set, id, constraint string }{
		"another amount": {`amount = amount * 10`, w.ID, "withdrawals_payment_fixed"},
		"another payee": {
			`to_address = '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359'`, w.ID, "withdrawals_payment_fixed",
		},
		"another token":    {`mint_id = 2`, w.ID, "withdrawals_payment_fixed"},
		"another customer": {`customer_id = 'bob'`, w.ID, "withdrawals_payment_fixed"},
		"another key":      {`idempotency_key = 'another'`, w.ID, "withdrawals_payment_fixed"},
		"another digest":   {`request_digest = '\x00'`, w.ID, "withdrawals_payment_fixed"},
		"out without a hash": {
			`status = 'BROADCAST', approved_at = now()`, w.ID, "withdrawals_broadcast_has_hash",
		},
		"unapproved":          {`status = 'PROCESSING'`, w.ID, "withdrawals_approved_before_payment"},
		"removed, then alive": {`status = 'PROCESSING'`, ended.ID, "withdrawals_terminal"},
	} {
		sql := `UPDATE withdrawals SET ` + c.set + ` WHERE withdrawal_id = $1`
		err := h.DB.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql, c.id)
			return err
		})
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s, by the system: got %v, want a violation of %s", name, err, c.constraint)
		}
		if _, err := owner.Exec(t.Context(), sql, c.id); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s, by the owner: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
	if got := h.loadBalance(ledger.Withdrawing); got != "1000" {
		t.Errorf("held: got %v, want 1000", got)
	}
}
