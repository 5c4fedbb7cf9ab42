package refunds

import (
	"context"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The tables refuse what the program does not try, also to the owner. Rules CO-80, CO-83 and CO-88.
func TestTheTablesKeepTheRulesOfRefunds(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	id := e.paid(100 * million)
	open, _ := e.refund(request(id, amount(30*million)))
	done, _ := e.refund(request(id, amount(20*million), to(home)))
	e.until(done.ID, checkout.RefundCompleted)
	sent, _ := e.refund(request(id, amount(10*million), to(home)))
	e.turn()
	e.is(sent.ID, checkout.RefundSent)
	owner := pgtest.OwnerPool(t, e.db)
	const next = `version = version + 1, updated_at = updated_at, `
	is := func(r checkout.Refund) string { return ` WHERE refund_id = '` + r.ID + `'` }
	deposit := e.texts(`SELECT deposit_id FROM checkout_payments WHERE checkout_id = $1`, id)[0]
	for _, c := range []struct{ name, constraint, sql string }{
		{"another amount", "refunds_append_only", `UPDATE refunds SET amount = amount + 1` + is(open)},
		{"another checkout", "refunds_append_only", `UPDATE refunds SET checkout_id = 'co_x'` + is(open)},
		{"deleting", "refunds_append_only", `DELETE FROM refunds` + is(open)},
		{
			"a change that does not count", "refunds_version_forward",
			`UPDATE refunds SET status = 'CANCELLED', look_at = NULL` + is(open),
		},
		{
			"completed without a payment", "refunds_transition_known",
			`UPDATE refunds SET ` + next + `status = 'COMPLETED', look_at = NULL, completed_at = now()` + is(open),
		},
		{
			"opened again", "refunds_transition_known",
			`UPDATE refunds SET ` + next + `status = 'AWAITING_ADDRESS', to_address = NULL, withdrawal_id = NULL,
				completed_at = NULL, look_at = now()` + is(done),
		},
		{"another address", "refunds_address_once", `UPDATE refunds SET to_address = '0x1'` + is(sent)},
		{
			"an address without an attempt", "refunds_address_once",
			`UPDATE refunds SET ` + next + `status = 'REQUESTED', to_address = '0x1'` + is(open),
		},
		{"another payment", "refunds_payment_once", `UPDATE refunds SET withdrawal_id = 'wd_x'` + is(sent)},
		{
			"completed before its payment", "refunds_paid",
			`UPDATE checkout_payments SET refunding = refunding - 10000000, refunded = refunded + 10000000;
				UPDATE refunds SET ` + next + `status = 'COMPLETED', look_at = NULL, completed_at = now()` + is(sent),
		},
		{
			"waiting while a withdrawal pays it", "refunds_unpaid",
			`UPDATE refunds SET ` + next + `status = 'AWAITING_ADDRESS', to_address = NULL,
				withdrawal_id = NULL` + is(sent),
		},
		{
			"sent without a withdrawal", "refunds_transition_known",
			`UPDATE refunds SET ` + next + `status = 'SENT', to_address = '0x1', withdrawal_id = 'wd_x'` + is(open),
		},
		{
			"cancelled without its posting", "refunds_summed",
			`UPDATE refunds SET ` + next + `status = 'CANCELLED', look_at = NULL` + is(open),
		},
		{
			"a key that does not count", "refunds_key_forward",
			`UPDATE refunds SET version = version + 1, key_hash = sha256('x')` + is(open),
		},
		{
			"parts above the payment", "checkout_payments_refunds",
			`UPDATE checkout_payments SET refunding = amount WHERE deposit_id = '` + deposit + `'`,
		},
		{
			"parts that no refund has", "refund_parts_summed",
			`UPDATE checkout_payments SET refunding = refunding + 1 WHERE deposit_id = '` + deposit + `'`,
		},
		{"a part less", "refund_parts_append_only", `DELETE FROM refund_parts`},
		{
			"a second part later", "refund_parts_of_credited",
			`INSERT INTO refund_parts SELECT '` + done.ID + `', deposit_id, org_id, 1 FROM refund_parts` + is(open),
		},
		{
			"a refund out of nothing", "refunds_parted",
			`INSERT INTO refunds SELECT (jsonb_populate_record(r,
				'{"refund_id": "ref_y", "key_hash": null, "key_version": 0}')).*
			FROM refunds r` + is(open),
		},
		{
			"a second withdrawal of an attempt", "withdrawals_refund_once",
			`INSERT INTO withdrawals (withdrawal_id, org_id, mint_id, chain, amount, to_address, request_digest, status,
				requires_approval, approval_reasons, created_at, product, refund_id)
			SELECT 'wd_y', org_id, mint_id, chain, amount, to_address, request_digest, 'AWAITING_APPROVAL', true,
				'{RISK_REVIEW}', created_at, product, refund_id FROM withdrawals` + is(sent),
		},
		{
			"a withdrawal of a refund that waits", "withdrawals_refund_requested",
			`INSERT INTO withdrawals (withdrawal_id, org_id, mint_id, chain, amount, to_address, request_digest, status,
				requires_approval, approval_reasons, created_at, product, refund_id)
			SELECT 'wd_y', org_id, mint_id, chain, amount, to_address, request_digest, 'AWAITING_APPROVAL', true,
				'{RISK_REVIEW}', created_at, product, '` + open.ID + `' FROM withdrawals` + is(sent),
		},
		{
			"a withdrawal with an entry and a refund", "withdrawals_of_one",
			`INSERT INTO withdrawals (withdrawal_id, org_id, mint_id, chain, amount, to_address, request_digest, status,
				requires_approval, approval_reasons, created_at, product, refund_id, whitelisted_address_id)
			SELECT 'wd_y', org_id, mint_id, chain, amount, to_address, request_digest, 'AWAITING_APPROVAL', true,
				'{RISK_REVIEW}', created_at, product, refund_id, 'wla_y' FROM withdrawals` + is(sent),
		},
		{
			"a withdrawal of another refund", "withdrawals_append_only",
			`UPDATE withdrawals SET refund_id = '` + open.ID + `'` + is(sent),
		},
		{
			"a release of an open refund", "ledger_transfers_of_refund",
			`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind,
				cause_id, leg, created_at)
			SELECT org_id, mint_id, credit_account, debit_account, amount, 'REFUND_RELEASE', cause_id, 0, created_at
			FROM ledger_transfers WHERE cause_kind = 'REFUND_HOLD' AND cause_id = '` + open.ID + `'`,
		},
		{
			"a hold of another amount", "ledger_transfers_of_refund",
			`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind,
				cause_id, leg, created_at)
			SELECT org_id, mint_id, debit_account, credit_account, 1, 'REFUND_HOLD', 'ref_y', 0, created_at
			FROM ledger_transfers WHERE cause_kind = 'REFUND_HOLD' AND cause_id = '` + open.ID + `'`,
		},
		{
			"an order of another refund", "dispatch_orders_append_only",
			`UPDATE dispatch_orders SET refund = '{"refundId": "ref_y", "checkoutId": "co_y"}' WHERE refund IS NOT
				NULL`,
		},
	} {
		if _, err := owner.Exec(t.Context(), c.sql); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.constraint)
		}
	}
	// The role of the service writes no column that the worker alone writes, and sees no other organization.
	for name, sql := range map[string]string{
		"the payment":     `UPDATE refunds SET withdrawal_id = withdrawal_id`,
		"the completion":  `UPDATE refunds SET completed_at = completed_at`,
		"the amount":      `UPDATE refunds SET amount = amount`,
		"a part":          `UPDATE refund_parts SET amount = amount`,
		"the refund":      `UPDATE withdrawals SET refund_id = refund_id`,
		"the expiry":      `UPDATE refunds SET expires_at = expires_at`,
		"what is refused": `UPDATE refunds SET problem = problem`,
	} {
		err := e.db.InOrg(e.ctx, e.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if err == nil {
			t.Errorf("%s: got no refusal", name)
		}
	}
	e.look()
}
