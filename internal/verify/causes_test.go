package verify

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The key of a payment compares each of its terms with the withdrawal, and that of a return with the
// resolution. It holds for both roles of the program and for the owner.
func TestAnOrderSaysWhatItsCauseSays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.insertCauses()
	for name, c := range map[string]struct{ cause, values, constraint string }{
		"a payment as it was accepted": {"wd_new", `{}`, ""},
		"of no withdrawal":             {"wd_new", `{"order_id": "wd_none"}`, "dispatch_orders_as_accepted"},
		"of a resolution":              {"wd_new", `{"order_id": "res_new"}`, "dispatch_orders_as_accepted"},
		"for another organization": {
			"wd_new", `{"org_id": "org_other", "wallet_id": "we_other"}`, "dispatch_orders_as_accepted",
		},
		"of another mint": {
			"wd_new", `{"mint_id": 1, "contract": "` + tokenContract + `", "amount": 50, "fee_deducted": 0}`,
			"dispatch_orders_as_accepted",
		},
		"on another chain": {"wd_new", `{"chain": "BITCOIN", "mint_id": 3}`, "dispatch_orders_as_accepted"},
		"of more":          {"wd_new", `{"amount": 46}`, "dispatch_orders_as_accepted"},
		"of the whole, with its fee": {
			"wd_new", `{"amount": 50, "fee_deducted": 0}`, "dispatch_orders_as_accepted",
		},
		"to another address":    {"wd_new", `{"to_address": "0xmallory"}`, "dispatch_orders_as_accepted"},
		"of another customer":   {"wd_new", `{"customer_id": "bob"}`, "dispatch_orders_as_accepted"},
		"of no customer":        {"wd_new", `{"customer_id": null}`, "dispatch_orders_as_accepted"},
		"with another limit":    {"wd_new", `{"fee_max": 13}`, "dispatch_orders_as_accepted"},
		"without its limit":     {"wd_new", `{"fee_max": null}`, "dispatch_orders_as_accepted"},
		"with another kept fee": {"wd_new", `{"amount": 44, "fee_deducted": 6}`, "dispatch_orders_as_accepted"},
		"with the same words in other places": {
			"wd_new", `{"customer_id": null, "product": "ann", "whitelisted_address_id": "5", "amount": 38,
				"fee_deducted": 12, "fee_max": null}`, "dispatch_orders_as_accepted",
		},
		"a product's as accepted": {"wd_prod", `{}`, ""},
		"of another product":      {"wd_prod", `{"product": "CHECKOUT"}`, "dispatch_orders_as_accepted"},
		"to another entry":        {"wd_prod", `{"whitelisted_address_id": "wla_2"}`, "dispatch_orders_as_accepted"},
		"of a customer in place of a product": {
			"wd_prod", `{"customer_id": "ann", "product": null, "whitelisted_address_id": null}`,
			"dispatch_orders_as_accepted",
		},
		"of one that waits for approval": {"wd_wait", `{}`, "dispatch_orders_in_step"},

		"a return as it was decided": {"res_new", `{}`, ""},
		"a return that the treasury pays for": {
			"res_new", `{"wallet_id": "we_tre", "from_wallet_id": "we_dep"}`, "",
		},
		"a return of nothing decided": {"res_new", `{"order_id": "res_none"}`, "dispatch_orders_as_decided"},
		"a return of an approval":     {"res_kept", `{}`, "dispatch_orders_as_decided"},
		"a return by a payment's id":  {"res_new", `{"order_id": "wd_new"}`, "dispatch_orders_as_decided"},
		"a return of another organization": {
			"res_new", `{"org_id": "org_other", "wallet_id": "we_other"}`, "dispatch_orders_as_decided",
		},
		"a return on another chain": {
			"res_new", `{"chain": "BITCOIN", "mint_id": 3}`, "dispatch_orders_as_decided",
		},
		"a return from another address": {"res_new", `{"wallet_id": "we_own"}`, "dispatch_orders_as_decided"},
		"a return from another address, at the treasury's fee": {
			"res_new", `{"wallet_id": "we_tre", "from_wallet_id": "we_own"}`, "dispatch_orders_as_decided",
		},
		"a return of another mint": {
			"res_new", `{"mint_id": 1, "contract": "` + tokenContract + `"}`, "dispatch_orders_as_decided",
		},
		"a return of more":            {"res_new", `{"amount": 8}`, "dispatch_orders_as_decided"},
		"a return to another address": {"res_new", `{"to_address": "0xmallory"}`, "dispatch_orders_as_decided"},
		"a return that failed":        {"res_gone", `{}`, "dispatch_orders_in_step"},
		"a return that ended before":  {"res_new", `{"status": "WITHDRAWN"}`, "dispatch_orders_in_step"},
		"a return that was called a PAYMENT": {
			"res_new", `{"purpose": "PAYMENT"}`, "dispatch_orders_as_accepted",
		},
	} {
		for _, writer := range slices.Sorted(maps.Keys(h.writers())) {
			if writer == "coffer_app" && strings.Contains(c.values, "org_other") {
				continue // row level security refuses that
			}
			err := h.writers()[writer](h.insertOrderOf(c.cause, c.values))
			if c.constraint == "" && err != nil || c.constraint != "" && !pg.ViolatesConstraint(err, c.constraint) {
				t.Errorf("%s, by %s: got %v, want a violation of %q", name, writer, err, c.constraint)
			}
		}
	}
	// Nor does a withdrawal keep another fee than the order that was refused once.
	for writer, exec := range h.writers() {
		err := exec(`UPDATE withdrawals SET fee_deducted = 5 WHERE withdrawal_id = 'wd_refused'`)
		if !pg.ViolatesConstraint(err, "dispatch_orders_as_accepted") {
			t.Errorf("another fee, by %s: got %v, want a violation of dispatch_orders_as_accepted", writer, err)
		}
	}
}

// errKept rolls a change back that the tables let pass.
var errKept = fmt.Errorf("let pass")

// writers returns what executes a statement with its deferred checks and rolls it back: as each role
// of the program and as the owner.
func (h *testEnv) writers() map[string]func(sql string) error {
	run := func(in func(context.Context, func(context.Context, pg.Tx) error) error) func(string) error {
		return func(sql string) error {
			err := in(h.t.Context(), func(ctx context.Context, tx pg.Tx) error {
				if _, err := tx.Exec(ctx, sql); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
					return err
				}
				return errKept
			})
			if err == errKept {
				return nil
			}
			return err
		}
	}
	return map[string]func(string) error{
		"coffer_system": run(h.db.InSystem),
		"coffer_app": run(func(ctx context.Context, fn func(context.Context, pg.Tx) error) error {
			return h.db.InOrg(ctx, h.org, fn)
		}),
		"the owner": func(sql string) error {
			_, err := h.owner.Exec(h.t.Context(), `BEGIN; `+sql+`; SET CONSTRAINTS ALL IMMEDIATE; ROLLBACK`)
			return err
		},
	}
}

// insertCauses inserts withdrawals and resolutions that no order has yet.
func (h *testEnv) insertCauses() {
	h.t.Helper()
	h.strangers()
	h.exec(`INSERT INTO wallets VALUES ('we_other', 'org_other', 'EVM', 'TREASURY', '', 'x', '0xwe_other', '', now())`)
	h.exec(`INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, product, whitelisted_address_id, mint_id,
			chain, amount, to_address, request_digest, status, requires_approval, approval_reasons, created_at,
			fee_mode, fee_deducted, max_network_fee)
		SELECT id, $1, CASE WHEN id <> 'wd_prod' THEN 'ann' END, CASE id WHEN 'wd_prod' THEN 'CUSTODIAL' END,
			CASE id WHEN 'wd_prod' THEN 'wla_1' END, 2, 'ETHEREUM', 50, '0xsomebody', '',
			CASE WHEN id IN ('wd_wait', 'wd_refused') THEN 'AWAITING_APPROVAL' ELSE 'PROCESSING' END, false, '{TEST}',
			now(), 'DEDUCTED', CASE WHEN id <> 'wd_refused' THEN 5 END, CASE id WHEN 'wd_new' THEN 12 END
		FROM unnest(ARRAY['wd_new', 'wd_prod', 'wd_wait', 'wd_refused']) id`, h.org)
	h.exec(`INSERT INTO deposit_resolutions (resolution_id, org_id, deposit_id, decision, status, decided_at,
			decided_by_kind, decided_by, chain, wallet_id, mint_id, to_address, sent, ended_at, failure)
		SELECT id, $1, id, CASE id WHEN 'res_kept' THEN 'APPROVED' ELSE 'REJECTED' END, status, now(),
			'USER', 'usr_1', 'ETHEREUM', 'we_dep', 2, CASE WHEN id <> 'res_kept' THEN '0xsomebody' END,
			CASE WHEN id <> 'res_kept' THEN 7 END, CASE WHEN status <> 'OPEN' THEN now() END,
			CASE status WHEN 'FAILED' THEN 'TEST' END
		FROM (VALUES ('res_new', 'OPEN'), ('res_kept', 'DONE'), ('res_gone', 'FAILED')) r (id, status)`, h.org)
	h.exec(h.insertOrderOf("wd_refused", `{"status": "REFUSED", "amount": 50, "fee_deducted": 0}`))
}

// insertOrderOf returns the statement that inserts the order of one of these causes, as it has to be
// except for some values.
func (h *testEnv) insertOrderOf(cause, values string) string {
	order := map[string]string{
		"wd_new":  `{"amount": 45, "fee_deducted": 5, "fee_max": 12, "customer_id": "ann"}`,
		"wd_prod": `{"amount": 45, "fee_deducted": 5, "product": "CUSTODIAL", "whitelisted_address_id": "wla_1"}`,
		"wd_wait": `{"amount": 45, "fee_deducted": 5, "customer_id": "ann"}`, "wd_refused": `{"customer_id": "ann"}`,
	}[cause]
	if order == "" {
		order = `{"purpose": "RETURN", "wallet_id": "we_dep", "amount": 7}`
	}
	columns := pgtest.WrittenColumns(h.t, h.db, "dispatch_orders")
	return fmt.Sprintf(`INSERT INTO dispatch_orders (%[1]s) SELECT %[1]s FROM jsonb_populate_record(
		(SELECT o FROM dispatch_orders o WHERE order_id = 'wd_queued'),
		'{"order_id": "%[2]s", "customer_id": null, "mint_id": 2, "contract": ""}'::jsonb || '%[3]s' || '%[4]s')`,
		columns, cause, order, values)
}

// A cause and its order are in the states that belong together, and both have posted what these
// states cost, for the system's role and for the owner.
func TestAnOrderAndItsCauseAreInStep(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.insertCauses()
	// Payments whose ends keep a fee are out, and a return has ended in its deposit alone.
	for nonce, id := range []string{"wd_new", "wd_prod"} {
		h.exec(h.insertOrderOf(id, `{"status": "BROADCAST", "tx_hash": "hash_`+id+`"}`))
		h.exec(`UPDATE withdrawals SET status = 'BROADCAST', tx_hash = 'x' WHERE withdrawal_id = $1`, id)
		h.exec(`INSERT INTO dispatch_slots SELECT wallet_id, chain, 800 + $1, org_id, order_id, 0, now()
			FROM dispatch_orders WHERE order_id = $2`, nonce, id)
	}
	h.exec(`UPDATE withdrawals SET restored_at = now(), owed = 5 WHERE withdrawal_id = 'wd_wait'`)
	h.exec(`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount,
			address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status,
			chain_status, created_at, is_flagged, flagged_at, risk_of_funds, flag_reason, return_to)
		SELECT 'res_new', org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, 7,
			address, from_address, 'tx_res', kind, position, log_index, height, block_hash, proof_id, 'REJECTED',
			chain_status, created_at, true, now(), 'HIGH', '{}', '0xsomebody'
		FROM deposits WHERE deposit_id = 'dep_coin'`)
	withdrawn := func(columns, values string) string {
		return `INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address,
				request_digest, requires_approval, approval_reasons, created_at, ` + columns + `)
			SELECT 'wd_lie', org_id, customer_id, mint_id, chain, 1, to_address, '', true, '{TEST}', now(),
				` + values + `
			FROM withdrawals WHERE withdrawal_id = 'wd_held';` +
			moved("WITHDRAWAL_HOLD", "wd_lie", "1", "CUSTOMER", "WITHDRAWING", "1", "0") + ` AND c.subject = d.subject`
	}
	const paid = `UPDATE dispatch_orders SET status = 'PAID', fee = 0,
		proof_id = (SELECT max(proof_id) FROM finality_live WHERE chain = 'ETHEREUM') WHERE order_id = `
	columns := pgtest.WrittenColumns(t, h.db, "dispatch_orders")
	for name, c := range map[string]struct{ sql, constraint string }{
		"a withdrawal in progress without an order": {
			withdrawn(`status, approved_at`, `'PROCESSING', now()`), "withdrawals_as_ordered",
		},
		"a debt that was not posted": {
			`UPDATE withdrawals SET owed = 4, collections = 1 WHERE withdrawal_id = 'wd_wait'`,
			"withdrawals_owed_posted",
		},
		"a restored debt that was not posted": {
			withdrawn(`status, restored_at, owed`, `'AWAITING_APPROVAL', now(), 1`), "withdrawals_owed_posted",
		},
		"a paid order that was not charged": {
			insertOrder + `(SELECT o FROM dispatch_orders o WHERE order_id = 'gas_done'),
				'{"order_id": "gas_lie", "trigger": "RESTORED"}');
			INSERT INTO internal_orders SELECT order_id, org_id, purpose, trigger FROM dispatch_orders
				WHERE order_id = 'gas_lie';
			INSERT INTO dispatch_slots SELECT wallet_id, chain, next_nonce, org_id, 'gas_lie', 0, now()
				FROM dispatch_accounts WHERE wallet_id = 'we_tre';
			UPDATE dispatch_accounts SET next_nonce = next_nonce + 1 WHERE wallet_id = 'we_tre'`,
			"dispatch_orders_charged",
		},
		"a payment whose kept fee was not posted": {paid + `'wd_new'`, "dispatch_orders_fee_kept"},
		"a payment whose own fee was not prepaid": {
			paid + `'wd_prod'; UPDATE withdrawals SET status = 'COMPLETED' WHERE withdrawal_id = 'wd_prod';` +
				moved("WITHDRAWAL_FEE", "wd_prod", "2", "CUSTODY", "GAS", "5", "0"), "dispatch_orders_fee_prepaid",
		},
		"a return that is done without its order": {
			`UPDATE deposit_resolutions SET status = 'DONE', ended_at = now() WHERE resolution_id = 'res_new'`,
			"deposit_resolutions_as_decided",
		},
	} {
		for writer, exec := range h.writers() {
			if writer == "coffer_app" {
				continue // it has no right to some of these columns
			}
			err := exec(strings.ReplaceAll(c.sql, "written_columns", columns))
			if !pg.ViolatesConstraint(err, c.constraint) {
				t.Errorf("%s, by %s: got %v, want a violation of %s", name, writer, err, c.constraint)
			}
		}
	}
}

// Each state of a withdrawal with each state of its order, or without one.
func TestTheStatesOfAWithdrawalAndItsOrderThatBelongTogether(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	const none, decided = "none", "WITHDRAWN as decided"
	together := map[string][]string{
		"AWAITING_APPROVAL": {none, "REFUSED", "WITHDRAWN", decided},
		"PROCESSING":        {"QUEUED", "SLOTTED", "SIGNED", "BROADCAST", "STUCK", decided},
		"BROADCAST":         {"BROADCAST", "STUCK"},
		"COMPLETED":         {none, "PAID"},
		"FAILED":            {"FAILED"},
		"REJECTED":          {none, "WITHDRAWN", decided},
		"CANCELLED":         {none, "WITHDRAWN", decided},
		"BLOCKED":           {none},
	}
	for status, orders := range together {
		for _, order := range []string{
			none, "QUEUED", "SLOTTED", "SIGNED", "BROADCAST", "STUCK", "PAID", "FAILED", "REFUSED", "WITHDRAWN",
			decided,
		} {
			var end *string
			orderStatus, isDecided := strings.CutSuffix(order, " as decided")
			if isDecided {
				end = &status
			}
			var got bool
			if err := h.owner.QueryRow(
				t.Context(), `SELECT withdrawal_in_step($1, $2, nullif($3, 'none')) IS TRUE`, status, end, orderStatus,
			).Scan(&got); err != nil {
				t.Fatal(err)
			}
			if want := slices.Contains(orders, order); got != want {
				t.Errorf("%s with an order %s: got %v, want %v", status, order, got, want)
			}
		}
	}
}
