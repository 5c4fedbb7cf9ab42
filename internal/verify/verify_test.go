package verify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/control/audit/audittest"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// unaudited are status columns that the checks of the audit log do not read, each with what checks
// it instead.
var unaudited = map[string]string{
	"sweeps.status":                  "its order, by I-16",
	"swap_reports.status":            "what a provider said is a row of its own, written once; no money hangs on it",
	"gas_top_ups.status":             "its order, by I-16",
	"closes.status":                  "its order, by I-16",
	"nonce_accounts.status":          "its order, by I-16",
	"token_account_creations.status": "its order, by I-16",
	"payout_allowances.status":       "its order, by I-16",
	"consolidations.status":          "its order, by I-16",
	"utxos.status":                   "its deposit or its order, by I-47-state and I-47-slot",
	"deliveries.status":              "what was tried is a row of its own; no money and no right hangs on it",
	"webhook_jobs.status":            "asked for by one row of the audit log, then counted by its deliveries",
	"scan_untraced.status":           "done without its deposit it is a surplus on the chain, by I-06",
	"transaction_memos.status": "a payer's text, proven by the transaction's id; no money and no right hangs on " +
		"it",
	"checkout_payments.status":      "its deposit, by I-80",
	"deposit_resolutions.status":    "its deposit moves with it, and that is looked for",
	"return_requests.status":        "signed it is a resolution of the same id; else its deposit stays flagged",
	"withdrawal_decisions.status":   "written once; I-40-decided",
	"mails.status":                  "a mail tells of a change that the log has; no right hangs on its arrival",
	"sessions.state":                "told by session.opened; a right that ends by itself within 12 hours",
	"organization_settings":         "I-40-settings",
	"dispatch_slots.released_at":    "its order, by I-06-gas",
	"webhook_endpoints.disabled_at": "told by webhook_endpoint.disabled or .changed; it is in no balance",
}

// Rule AUDIT-5. Every table with a status is one whose changes the checks look for in the log. A
// new one has to be added to a check, or name here what checks it.
func TestEveryTableWithAStateIsLookedForInTheAuditLog(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	rows, err := h.owner.Query(t.Context(), `
		SELECT table_name || '.' || column_name, table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'public' AND table_name NOT LIKE 'river%' AND table_name IN (SELECT relname FROM pg_class WHERE relkind = 'r')
			AND column_name ~ '^(status|state|(rolled|revoked|lifted|quarantined|deleted|disabled|released)_at)$'
		ORDER BY 1`)
	if err != nil {
		t.Fatal(err)
	}
	looked := ""
	for _, c := range AllChecks() {
		if strings.HasPrefix(c.ID, "I-40") {
			looked += c.breachSQL
		}
	}
	var name, table, column string
	seen := 0
	_, err = pgx.ForEachRow(rows, []any{&name, &table, &column}, func() error {
		seen++
		if _, vouched := unaudited[name]; !vouched &&
			!(strings.Contains(looked, " "+table) && strings.Contains(looked, column)) {
			t.Errorf("%s: no check looks for its changes in the audit log", name)
		}
		return nil
	})
	if err != nil || seen < 10 {
		t.Errorf("got %d columns and %v, want all there are", seen, err)
	}
}

func TestASoundHouseHasNoBreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r, err := RunChecks(t.Context(), h.db)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	if !r.IsIntact() || len(r.Outcomes) != len(AllChecks()) || !strings.Contains(b.String(), "checks hold") {
		t.Errorf("got\n%s\nwant no breach in %d checks", b.String(), len(AllChecks()))
	}
}

// tampering changes one thing, as an attacker with the whole database could, and names the check that
// has to detect it.
type tampering struct {
	check string
	name  string
	sql   []string
}

// tamperings are those of everything but swaps and checkouts.
var tamperings = []tampering{
	{
		"I-01",
		"a transfer to another mint",
		[]string{`UPDATE ledger_transfers SET mint_id = 2 WHERE cause_id = 'dep_token'`},
	},
	{
		"I-01",
		"a transfer from nowhere",
		[]string{`UPDATE ledger_transfers SET debit_account = 999 WHERE cause_id = 'dep_token'`},
	},
	{"I-01", "a transfer to itself", []string{
		`ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_two_accounts`,
		`UPDATE ledger_transfers SET debit_account = credit_account WHERE cause_id = 'dep_token'`,
	}},
	{
		"I-02-triggers",
		"a trigger switched off",
		[]string{`ALTER TABLE audit_log DISABLE TRIGGER audit_log_append_only`},
	},
	{"I-02-triggers", "a trigger dropped", []string{`DROP TRIGGER ledger_transfers_move_balances ON ledger_transfers`}},
	{"I-02-triggers", "a trigger that nobody listed before", []string{`ALTER TABLE wallets DISABLE TRIGGER USER`}},
	{"I-02-triggers", "a trigger that says yes to everything", []string{
		`CREATE OR REPLACE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
	}},
	{"I-02-triggers", "a trigger that asks rarely", []string{
		`DROP TRIGGER dispatch_attempts_keep ON dispatch_attempts`,
		`CREATE TRIGGER dispatch_attempts_keep BEFORE UPDATE ON dispatch_attempts FOR EACH ROW WHEN (OLD.raw IS NULL) EXECUTE FUNCTION dispatch_attempts_keep()`,
	}},
	{"I-02-triggers", "a trigger that calls a function of the same name", []string{
		`CREATE SCHEMA "$user"; ALTER SCHEMA "$user" RENAME TO other; CREATE FUNCTION other.dispatch_attempts_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
		`SET LOCAL search_path = other, public`,
		`DROP TRIGGER dispatch_attempts_keep ON public.dispatch_attempts`,
		`CREATE TRIGGER dispatch_attempts_keep BEFORE UPDATE OR DELETE ON public.dispatch_attempts FOR EACH ROW EXECUTE FUNCTION other.dispatch_attempts_keep()`,
		`GRANT USAGE ON SCHEMA other TO coffer_reader`,
	}},
	{"I-02-triggers", "a trigger behind the others", []string{
		`CREATE FUNCTION zzz() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.to_address = ''0xmallory''; RETURN NEW; END'`,
		`CREATE TRIGGER zzz BEFORE INSERT ON withdrawals FOR EACH ROW EXECUTE FUNCTION zzz()`,
	}},
	{
		"I-02-triggers",
		"a function that hides another",
		[]string{`CREATE FUNCTION is_utxo(chain varchar) RETURNS boolean LANGUAGE sql AS 'SELECT false'`},
	},
	{"I-02-triggers", "a rule", []string{`CREATE RULE nothing AS ON INSERT TO audit_log DO INSTEAD NOTHING`}},
	{"I-02-triggers", "dead proofs that live", []string{
		`CREATE OR REPLACE VIEW finality_live AS SELECT proof_id, chain, height, hash, parent, block_time, providers, verified, created_at, fork, depth FROM finality_proofs`,
	}},
	{
		"I-41-policies",
		"a policy that shows everything",
		[]string{`CREATE POLICY open ON deposits TO coffer_app USING (true)`},
	},
	{"I-41-policies", "a policy that shows more", []string{`ALTER POLICY tenant ON deposits USING (true)`}},
	{"I-41-policies", "a fence that is down", []string{`ALTER TABLE deposits DISABLE ROW LEVEL SECURITY`}},
	{"I-02-constraints", "a floor at another height", []string{
		`ALTER TABLE ledger_balances DROP CONSTRAINT ledger_balances_not_overdrawn`,
		`ALTER TABLE ledger_balances ADD CONSTRAINT ledger_balances_not_overdrawn CHECK (balance > -1000000)`,
	}},
	{"I-02-constraints", "a foreign key that is not looked at", []string{`ALTER TABLE deposits DISABLE TRIGGER ALL`}},
	{
		"I-02-constraints", "a key of what a writer says",
		[]string{`ALTER TABLE dispatch_orders ALTER COLUMN payment_terms DROP EXPRESSION`},
	},
	{
		"I-02-constraints",
		"a column that may be empty",
		[]string{`ALTER TABLE withdrawals ALTER COLUMN to_address DROP NOT NULL`},
	},
	{"I-02-rights", "a role within a role", []string{`GRANT coffer_system TO coffer_app`}},
	{
		"I-02-rights",
		"a role that another may take",
		[]string{`ALTER ROLE coffer_app NOINHERIT`, `GRANT coffer_system TO coffer_app`},
	},
	{"I-02-rights", "a right to change a payment", []string{`GRANT UPDATE (to_address) ON withdrawals TO coffer_app`}},
	{"I-02-rights", "a right to everybody", []string{`GRANT UPDATE ON utxos TO PUBLIC`}},
	{"I-02-rights", "a right to call", []string{`GRANT EXECUTE ON FUNCTION ledger_move_balances() TO coffer_app`}},
	{
		"I-02-triggers",
		"a guard that looks where its caller says",
		[]string{`ALTER FUNCTION finality_proofs_on_fork() RESET search_path`},
	},
	{"I-02-rights", "a right too many", []string{`GRANT UPDATE ON ledger_balances TO coffer_system`}},
	{"I-02-rights", "a right on a column", []string{`GRANT UPDATE (amount) ON ledger_transfers TO coffer_app`}},
	{"I-02-rights", "a right to empty", []string{`GRANT TRUNCATE ON audit_log TO coffer_system`}},
	{
		"I-02-constraints",
		"a floor dropped",
		[]string{`ALTER TABLE ledger_balances DROP CONSTRAINT ledger_balances_not_overdrawn`},
	},
	{"I-02-constraints", "a unique key dropped", []string{`DROP INDEX deposits_movement_once`}},
	{"I-03", "a balance below zero", []string{
		`ALTER TABLE ledger_balances DROP CONSTRAINT ledger_balances_not_overdrawn`,
		`UPDATE ledger_balances SET balance = -1 WHERE account_id = (SELECT account_id FROM ledger_accounts WHERE kind = 'CUSTOMER' AND mint_id = 1)`,
	}},
	{"I-04", "a balance raised by one", []string{
		`UPDATE ledger_balances SET balance = balance + 1 WHERE account_id = (SELECT account_id FROM ledger_accounts WHERE kind = 'CUSTOMER' AND mint_id = 1)`,
	}},
	{"I-04", "a balance removed", []string{
		`DELETE FROM ledger_balances WHERE account_id = (SELECT account_id FROM ledger_accounts WHERE kind = 'GAS' AND mint_id = 2)`,
	}},
	{"I-04", "a transfer removed", []string{`DELETE FROM ledger_transfers WHERE cause_id = 'wd_held'`}},
	{"I-04", "a balance where none belongs", []string{
		`INSERT INTO ledger_balances SELECT account_id, org_id, mint_id, 5 FROM ledger_accounts WHERE kind = 'CUSTODY' AND mint_id = 1`,
	}},
	{"I-18-held", "an open withdrawal removed", []string{`DELETE FROM withdrawals WHERE withdrawal_id = 'wd_held'`}},
	{
		"I-18-held",
		"an open withdrawal raised",
		[]string{`UPDATE withdrawals SET amount = amount + 1 WHERE withdrawal_id = 'wd_held'`},
	},
	{
		"I-18-ended",
		"an end without its posting",
		[]string{`UPDATE withdrawals SET status = 'REJECTED' WHERE withdrawal_id = 'wd_held'`},
	},
	{"I-18-ended", "a posting without its end", []string{
		`UPDATE withdrawals SET status = 'PROCESSING', approved_at = now() WHERE withdrawal_id = 'wd_removed'`,
	}},
	{"I-18-ended", "a refund that was a payment", []string{
		`UPDATE withdrawals SET status = 'COMPLETED', tx_hash = 'x', approved_at = now() WHERE withdrawal_id = 'wd_removed'`,
	}},
	{
		"I-18-ended",
		"a hold removed",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = 'wd_held'`},
	},
	{"I-18-ended", "a hold of another amount", []string{
		`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = 'wd_held'`,
	}},
	{"I-18-ended", "a hold without a withdrawal", []string{
		`UPDATE ledger_transfers SET cause_id = 'wd_none' WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = 'wd_held'`,
	}},
	{"I-18-ended", "an end in two legs", []string{
		`ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_legs`,
		`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
		 SELECT org_id, mint_id, debit_account, credit_account, 1, cause_kind, cause_id, 1, created_at FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_END' AND cause_id = 'wd_paid'`,
	}},
	{"I-18-held", "a rent that nothing holds", []string{
		`UPDATE withdrawals SET charge_costs = 'RENT', charge_rent = 1, charge_held = 1 WHERE withdrawal_id = 'wd_held'`,
	}},
	{
		"I-04-totals",
		"a total raised by one",
		[]string{`UPDATE organization_totals SET available = available + 1 WHERE mint_id = 1`},
	},
	{
		"I-04-totals",
		"a total of what is held raised by one",
		[]string{`UPDATE organization_totals SET withdrawing = withdrawing + 1 WHERE mint_id = 1`},
	},
	{"I-04-totals", "a difference removed", []string{
		`DELETE FROM organization_total_changes WHERE change_id = (SELECT min(change_id) FROM organization_total_changes WHERE available <> 0)`,
	}},
	{"I-04-totals", "a difference that was folded and stayed", []string{
		`CREATE TEMP TABLE kept AS SELECT * FROM organization_total_changes`,
		`SELECT fold_organization_totals(1000000)`,
		`INSERT INTO organization_total_changes OVERRIDING SYSTEM VALUE SELECT * FROM kept`,
	}},
	{"I-04-totals", "what is held counted as available", []string{
		`UPDATE organization_total_changes SET available = available + withdrawing, withdrawing = 0`,
	}},
	{"I-04-totals", "an address that counts as the treasury's", []string{
		`UPDATE organization_totals SET treasuries = treasuries + 1, addresses = addresses - 1 WHERE mint_id = 1`,
	}},
	{
		"I-04-totals",
		"dust that is forgotten",
		[]string{`UPDATE organization_totals SET dust = dust + 1 WHERE mint_id = 1`},
	},
	{
		"I-18-charge",
		"a charge that no account has",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_CHARGE'`},
	},
	{
		"I-18-charge",
		"a charge of more than is said",
		[]string{`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_kind = 'WITHDRAWAL_CHARGE'`},
	},
	{"I-18-charge", "a charge of less than it cost", []string{
		`UPDATE withdrawals SET charged = 2 WHERE withdrawal_id = 'wd_failed'`,
		`UPDATE ledger_transfers SET amount = 2 WHERE cause_kind = 'WITHDRAWAL_CHARGE'`,
	}},
	{"I-18-charge", "a charge of what did not fail", []string{
		`UPDATE withdrawals SET status = 'REJECTED', charged = 0, charge_cost = 0 WHERE withdrawal_id = 'wd_failed'`,
	}},
	{"I-18-charge", "a rest that was not given back", []string{
		`UPDATE withdrawals SET charge_costs = 'RENT', charge_rent = 1, charge_held = 1 WHERE withdrawal_id = 'wd_paid'`,
	}},
	{
		"I-18-fee",
		"a fee that was paid and that nobody has",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'WITHDRAWAL_FEE'`},
	},
	{
		"I-18-fee",
		"a fee of more than was paid",
		[]string{`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_kind = 'WITHDRAWAL_FEE'`},
	},
	{"I-18-fee", "a fee that nobody paid", []string{
		`UPDATE withdrawals SET fee_mode = 'ORGANIZATION', fee_deducted = NULL WHERE withdrawal_id = 'wd_less'`,
	}},
	{
		"I-18-fee",
		"a fee kept of what was given back",
		[]string{`UPDATE withdrawals SET status = 'FAILED' WHERE withdrawal_id = 'wd_less'`},
	},
	{
		"I-18-fee",
		"a fee for another product",
		[]string{`UPDATE ledger_accounts SET subject = 'CHECKOUT' WHERE kind = 'PRODUCT' AND mint_id = 2`},
	},
	{
		"I-16-payment",
		"a payment of more than the fee leaves",
		[]string{`UPDATE dispatch_orders SET amount = amount + 1 WHERE order_id = 'wd_less'`},
	},
	{
		"I-16-payment",
		"a payment for which another fee is kept",
		[]string{`UPDATE dispatch_orders SET fee_deducted = 9, amount = 91 WHERE order_id = 'wd_less'`},
	},
	{
		"I-16-payment",
		"a payment with another limit of its fee",
		[]string{`UPDATE dispatch_orders SET fee_max = NULL WHERE order_id = 'wd_less'`},
	},
	{
		"I-18-fee",
		"a fee of its own that is billed all the same",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'FEE_PREPAID'`},
	},
	{
		"I-18-ended",
		"paid by another product",
		[]string{`UPDATE withdrawals SET product = 'CHECKOUT' WHERE withdrawal_id = 'wd_own'`},
	},
	{
		"I-16-payment",
		"to another entry of the list",
		[]string{`UPDATE dispatch_orders SET whitelisted_address_id = 'wla_2' WHERE order_id = 'wd_own'`},
	},
	{
		"I-36-withdrawal",
		"its own told as a customer's",
		[]string{`UPDATE events SET type = 'CUSTOMER_WITHDRAW' WHERE type = 'ORGANIZATION_WITHDRAW'`},
	},
	{
		"I-36-withdrawal",
		"told once more as a customer's",
		[]string{`UPDATE events SET type = 'CUSTOMER_WITHDRAW_APPROVED' WHERE type = 'ORGANIZATION_WITHDRAW_APPROVED'`},
	},
	{
		"I-40-approved",
		"an approval that is not there",
		[]string{`DELETE FROM withdrawal_approvals WHERE approver_id = 'usr_b'`},
	},
	{
		"I-40-approved",
		"approved by who asked",
		[]string{`UPDATE withdrawal_approvals SET approver_id = 'usr_maker' WHERE approver_id = 'usr_b'`},
	},
	{
		"I-40-approved",
		"let go by fewer than it needed",
		[]string{`UPDATE withdrawals SET approvals_required = 3 WHERE withdrawal_id = 'wd_own'`},
	},
	{
		"I-40-approved",
		"approved in another round",
		[]string{`UPDATE withdrawal_approvals SET round = 1 WHERE approver_id = 'usr_b'`},
	},
	{
		"I-40-decided",
		"a withdrawal that nobody decided about",
		[]string{`DELETE FROM withdrawal_decisions WHERE withdrawal_id = 'wd_less'`},
	},
	{
		"I-40-decided",
		"a withdrawal that another thing was decided about",
		[]string{`DELETE FROM withdrawal_decisions WHERE withdrawal_id = 'wd_back' AND act = 'CANCELLED'`},
	},
	{
		"I-36-withdrawal",
		"a cancellation that was not told",
		[]string{`DELETE FROM events WHERE type = 'CUSTOMER_WITHDRAW_CANCELLED'`},
	},
	{"I-40", "a cancellation without its row", []string{`DELETE FROM audit_log WHERE action = 'withdrawal.cancelled'`}},
	{
		"I-02-triggers",
		"decisions that may be changed",
		[]string{`ALTER TABLE withdrawal_decisions DISABLE TRIGGER withdrawal_decisions_append_only`},
	},
	{"I-02-rights", "a right to forget a decision", []string{`GRANT DELETE ON withdrawal_decisions TO coffer_system`}},
	{
		"I-18-transfers",
		"a transfer that was not posted",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'TRANSFER'`},
	},
	{"I-18-transfers", "a posting that is no transfer", []string{`DELETE FROM transfers`}},
	{"I-18-transfers", "a transfer of more than was posted", []string{`UPDATE transfers SET amount = amount + 1`}},
	{"I-18-transfers", "a transfer to another product", []string{
		`UPDATE transfers SET to_product = 'CHECKOUT' WHERE transfer_id = 'tr_made'`,
	}},
	{
		"I-18-transfers",
		"a transfer that was not told",
		[]string{`DELETE FROM events WHERE type = 'TRANSFER_COMPLETED'`},
	},
	{
		"I-06-custody",
		"funds that the books do not own",
		[]string{`UPDATE address_funds SET credited = credited + 1 WHERE wallet_id = 'we_dep' AND mint_id = 1`},
	},
	{
		"I-06-custody",
		"gas that the books do not own",
		[]string{`UPDATE address_funds SET gas = gas - 1 WHERE wallet_id = 'we_dep' AND mint_id = 2`},
	},
	{"I-06-custody", "books without funds", []string{`DELETE FROM address_funds`}},
	{"I-06-funds", "funds moved to another wallet", []string{
		`UPDATE address_funds SET credited = credited + CASE wallet_id WHEN 'we_dep' THEN 10 ELSE -10 END
			WHERE mint_id = 1 AND wallet_id IN ('we_dep', 'we_own')`,
	}},
	{"I-06-funds", "swept and credited more", []string{
		`UPDATE address_funds SET credited = credited + 7, swept = swept + 7 WHERE wallet_id = 'we_tre' AND mint_id = 1`,
	}},
	{
		"I-06-funds",
		"dust that never arrived",
		[]string{`UPDATE address_funds SET dust = dust + 1 WHERE wallet_id = 'we_dep' AND mint_id = 1`},
	},
	{
		"I-06-funds",
		"gas that was not spent",
		[]string{`UPDATE dispatch_orders SET fee = fee + 1 WHERE order_id = 'sw_done'`},
	},
	{
		"I-06-reserved",
		"more reserved than promised",
		[]string{`UPDATE address_funds SET reserved = reserved + 1 WHERE wallet_id = 'we_tre' AND mint_id = 1`},
	},
	{
		"I-06-reserved",
		"a promise without its reserve",
		[]string{`UPDATE address_funds SET reserved = 0 WHERE wallet_id = 'we_tre' AND mint_id = 1`},
	},
	{
		"I-06-reserved",
		"a sweep without its reserve",
		[]string{`UPDATE address_funds SET reserved = 0 WHERE wallet_id = 'we_dep' AND mint_id = 1`},
	},
	{
		"I-06-gas",
		"gas reserved and not promised",
		[]string{`UPDATE address_funds SET gas_reserved = gas_reserved + 1 WHERE wallet_id = 'we_tre' AND mint_id = 2`},
	},
	{
		"I-06-gas",
		"a slot's gas not reserved",
		[]string{`UPDATE dispatch_slots SET gas_reserved = gas_reserved + 1 WHERE order_id = 'wd_out'`},
	},
	{
		"I-06-gas",
		"a top-up not reserved",
		[]string{`UPDATE dispatch_orders SET amount = amount + 1 WHERE order_id = 'gas_open'`},
	},
	{"I-09", "a credit on another block's proof", []string{
		`UPDATE deposits SET proof_id = (SELECT proof_id FROM finality_proofs WHERE height = 12 AND chain = 'ETHEREUM') WHERE deposit_id = 'dep_token'`,
	}},
	{
		"I-09",
		"a credit on a proof of another fork",
		[]string{`UPDATE finality_proofs SET hash = 'other' WHERE height = 11`},
	},
	{"I-09", "a credit without a proof", []string{
		`ALTER TABLE deposits DROP CONSTRAINT deposits_final_before_credit, DROP CONSTRAINT deposits_final_has_proof`,
		`UPDATE deposits SET proof_id = NULL WHERE deposit_id = 'dep_token'`,
	}},
	{
		"I-10",
		"a credit that was not posted",
		[]string{`UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = 'dep_waits'`},
	},
	{
		"I-10",
		"a posting that was not credited",
		[]string{`UPDATE deposits SET status = 'SCREENING', credited_at = NULL WHERE deposit_id = 'dep_token'`},
	},
	{
		"I-10",
		"a posting of more than arrived",
		[]string{`UPDATE deposits SET amount = amount - 1 WHERE deposit_id = 'dep_token'`},
	},
	{"I-10", "a posting to another customer", []string{
		`INSERT INTO customers SELECT org_id, 'eve', NULL, NULL, '{}', now(), now() FROM customers`,
		`UPDATE deposits SET customer_id = 'eve' WHERE deposit_id = 'dep_token'`,
	}},
	{"I-10", "a posting twice", []string{
		`ALTER TABLE ledger_transfers DROP CONSTRAINT ledger_transfers_legs`,
		`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
		 SELECT org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, 1, created_at FROM ledger_transfers WHERE cause_id = 'dep_token'`,
	}},
	{"I-10", "a posting of no deposit", []string{`DELETE FROM deposits WHERE deposit_id = 'dep_gas'`}},
	{"I-10-once", "a movement taken in twice", []string{
		`DROP INDEX deposits_movement_once`,
		`UPDATE deposits SET tx_hash = 'tx_dep_token' WHERE deposit_id = 'dep_dust'`,
	}},
	{
		"I-25",
		"something held that nobody flagged",
		[]string{`UPDATE address_funds SET held = held + 1 WHERE wallet_id = 'we_dep' AND mint_id = 1`},
	},
	{"I-27", "a flag without its hold in the books", []string{
		`UPDATE deposits SET is_flagged = true, flagged_at = now(), risk_of_funds = 'HIGH', flag_reason = '{}' WHERE deposit_id = 'dep_token'`,
	}},
	{"I-30", "a flag that goes back to somebody else", []string{
		`UPDATE deposits SET is_flagged = true, flagged_at = now(), risk_of_funds = 'HIGH', flag_reason = '{}', return_to = 'thief' WHERE deposit_id = 'dep_token'`,
	}},
	{"I-12", "a deposit of another mint", []string{`UPDATE deposits SET mint_id = 2 WHERE deposit_id = 'dep_waits'`}},
	{
		"I-12",
		"two wallets swapped",
		[]string{`UPDATE deposits SET wallet_id = 'we_tre' WHERE deposit_id = 'dep_waits'`},
	},
	{"I-12", "an address altered", []string{`UPDATE wallets SET address = '0xmallory' WHERE wallet_id = 'we_dep'`}},
	{"I-02-triggers", "dead proofs let through", []string{`ALTER TABLE deposits DISABLE TRIGGER deposits_proof_live`}},
	{"I-02-rights", "a right to take back a break", []string{`GRANT DELETE ON finality_breaks TO coffer_system`}},
	{"I-14-question", "a credit on a proof that is dead", []string{
		`UPDATE deposits SET proof_id = (SELECT proof_id FROM finality_proofs WHERE hash = 'h10gone'), height = 10, block_hash = 'h10gone' WHERE deposit_id = 'dep_token'`,
	}},
	{"I-09", "a deposit to be credited on a proof that is dead", []string{
		`UPDATE deposits SET proof_id = (SELECT proof_id FROM finality_proofs WHERE hash = 'h10gone'), height = 10, block_hash = 'h10gone' WHERE deposit_id = 'dep_waits'`,
	}},
	{
		"I-14-question",
		"a credit in question without a break",
		[]string{`UPDATE deposits SET chain_status = 'REORGED' WHERE deposit_id = 'dep_token'`},
	},
	{
		"I-14-reversed",
		"a reversal that was not posted",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_REVERSAL'`},
	},
	{
		"I-14-reversed",
		"a reversal whose loss was not posted",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'DEPOSIT_REVERSAL' AND leg = 1`},
	},
	{
		"I-14-reversed",
		"more taken back than was posted",
		[]string{`UPDATE deposits SET taken_back = 30 WHERE deposit_id = 'dep_back'`},
	},
	{"I-14-reversed", "a reversal of what is credited", []string{
		`UPDATE deposits SET status = 'CREDITED', reversed_at = NULL, taken_back = NULL WHERE deposit_id = 'dep_back'`,
	}},
	{
		"I-14-short",
		"an address that lacks what nothing took",
		[]string{`UPDATE address_funds SET short = 5 WHERE wallet_id = 'we_dep' AND mint_id = 1`},
	},
	{
		"I-14-short",
		"a reversal that its address does not know",
		[]string{`UPDATE address_funds SET reversed = 0 WHERE wallet_id = 'we_dep'`},
	},
	{
		"I-10",
		"an organization's deposit posted to another product",
		[]string{`UPDATE ledger_accounts SET subject = 'BATCH_PAYOUT', mint_id = 2
			WHERE kind = 'PRODUCT' AND subject = 'CHECKOUT' AND mint_id = 1`},
	},
	{
		"I-12",
		"an organization's deposit of another product",
		[]string{`UPDATE deposits SET product = 'BATCH_PAYOUT' WHERE deposit_id = 'dep_own'`},
	},
	{"I-12", "a deposit of another checkout than its wallet's", []string{
		`UPDATE deposits SET checkout_id = 'co_lie' WHERE deposit_id = 'dep_co'`,
	}},
	{"I-12", "a deposit of one checkout at the shared wallet", []string{
		`UPDATE deposits SET purpose = 'CHECKOUT', checkout_id = 'co_paid' WHERE deposit_id = 'dep_shared'`,
	}},
	{"I-36-deposit", "a checkout's deposit told as the organization's", []string{
		`UPDATE events SET resource_id = 'dep_co' WHERE resource_id = 'dep_own'`,
	}},
	{
		"I-36-deposit",
		"an organization's deposit told as a customer's",
		[]string{`UPDATE events SET type = 'CUSTOMER_DEPOSIT' WHERE resource_id = 'dep_own'`},
	},
	{
		"I-36-deposit",
		"an organization's deposit that nobody heard of",
		[]string{`DELETE FROM events WHERE resource_id = 'dep_own'`},
	},
	{
		"I-36-deposit",
		"an organization's reversal told of what stands",
		[]string{`UPDATE events SET type = 'ORGANIZATION_DEPOSIT_REVERSED' WHERE type = 'CUSTOMER_DEPOSIT_REVERSED'`},
	},
	{
		"I-31",
		"a deposit that was never flagged told as approved",
		[]string{`UPDATE events SET type = 'CUSTOMER_DEPOSIT_APPROVED' WHERE type = 'CUSTOMER_DEPOSIT_REVERSED'`},
	},
	{"I-36-deposit", "a flag that nobody heard of", []string{
		`UPDATE deposits SET is_flagged = true, flagged_at = now(), risk_of_funds = 'HIGH', flag_reason = '{}' WHERE deposit_id = 'dep_token'`,
		`DELETE FROM events WHERE resource_id = 'dep_token'`,
	}},
	{"I-40", "a flag without its row", []string{
		`UPDATE deposits SET is_flagged = true, flagged_at = now(), risk_of_funds = 'HIGH', flag_reason = '{}' WHERE deposit_id = 'dep_token'`,
	}},
	{
		"I-36-seen",
		"a deposit told as seen after its credit",
		[]string{`UPDATE events SET type = 'CUSTOMER_DEPOSIT_SEEN' WHERE type = 'CUSTOMER_DEPOSIT_REVERSED'`},
	},
	{
		"I-36-seen",
		"an organization's deposit told as seen",
		[]string{`UPDATE events SET type = 'CUSTOMER_DEPOSIT_SEEN' WHERE resource_id = 'dep_own'`},
	},
	{
		"I-36-deposit",
		"a reversal that was not told",
		[]string{`DELETE FROM events WHERE type = 'CUSTOMER_DEPOSIT_REVERSED'`},
	},
	{"I-13", "a block skipped", []string{`DELETE FROM finality_proofs WHERE height = 12`}},
	{"I-13", "a height left out", []string{
		`UPDATE finality_proofs SET height = height + 7 WHERE height = (SELECT max(height) FROM finality_proofs)`,
	}},
	{"I-13", "a block on another one", []string{`UPDATE finality_proofs SET parent = 'other' WHERE height = 13`}},
	{"I-13", "a cursor on another block", []string{`UPDATE scan_cursors SET hash = 'other'`}},
	{"I-13", "no cursor", []string{`DELETE FROM scan_cursors`}},
	{"I-16-slot", "a slot removed", []string{`DELETE FROM dispatch_slots WHERE order_id = 'wd_out'`}},
	{
		"I-16-slot",
		"a slot given back",
		[]string{`UPDATE dispatch_orders SET status = 'QUEUED' WHERE order_id = 'wd_out'`},
	},
	{
		"I-16-slot",
		"a slot that is not counted",
		[]string{`UPDATE dispatch_accounts SET next_nonce = 0 WHERE wallet_id = 'we_tre'`},
	},
	{"I-16-slot", "a slot of another wallet", []string{
		`UPDATE dispatch_slots SET wallet_id = 'we_dep', nonce = 5 WHERE order_id = 'wd_out'`,
		`UPDATE dispatch_accounts SET next_nonce = 9`,
	}},
	{"I-16-slot", "two orders in a slot", []string{
		`ALTER TABLE dispatch_slots DROP CONSTRAINT dispatch_slots_pkey CASCADE`,
		`UPDATE dispatch_slots SET nonce = 0 WHERE wallet_id = 'we_tre'`,
	}},
	{"I-16-slot", "two slots of an order", []string{
		`ALTER TABLE dispatch_slots DROP CONSTRAINT dispatch_slots_order_once CASCADE`,
		`UPDATE dispatch_accounts SET next_nonce = 9`,
		`INSERT INTO dispatch_slots SELECT wallet_id, chain, 80, org_id, order_id, 0, now() FROM dispatch_slots WHERE order_id = 'wd_paid'`,
	}},
	{"I-16-bytes", "sent and not stored", []string{
		`ALTER TABLE dispatch_attempts DROP CONSTRAINT dispatch_attempts_stored_before_sent, DROP CONSTRAINT dispatch_attempts_signed_whole`,
		`UPDATE dispatch_attempts SET raw = NULL WHERE order_id = 'wd_out'`,
	}},
	{"I-16-bytes", "no transaction in the slot", []string{`DELETE FROM dispatch_attempts WHERE order_id = 'gas_open'`}},
	{
		"I-16-bytes",
		"ended by a foreign transaction",
		[]string{`UPDATE dispatch_orders SET tx_hash = 'foreign' WHERE order_id = 'wd_paid'`},
	},
	{
		"I-16-bytes",
		"paid by its cancel",
		[]string{`UPDATE dispatch_attempts SET act = 'CANCEL' WHERE order_id = 'wd_paid'`},
	},
	{
		"I-16-payment",
		"another destination",
		[]string{`UPDATE withdrawals SET to_address = '0xmallory' WHERE withdrawal_id = 'wd_queued'`},
	},
	{
		"I-16-payment",
		"another amount",
		[]string{`UPDATE dispatch_orders SET amount = amount + 1 WHERE order_id = 'wd_queued'`},
	},
	{
		"I-16-payment",
		"a payment without a withdrawal",
		[]string{`DELETE FROM withdrawals WHERE withdrawal_id = 'wd_queued'`},
	},
	{
		"I-16-payment",
		"a withdrawal without its order",
		[]string{`DELETE FROM dispatch_orders WHERE order_id = 'wd_queued'`},
	},
	{"I-16-void", "an order that was taken back is in the queue", []string{
		`INSERT INTO dispatch_voids (order_id, org_id, asked_at) SELECT order_id, org_id, now() FROM dispatch_orders WHERE order_id = 'wd_queued'`,
	}},
	{
		"I-16-payment",
		"paid and not completed",
		[]string{`UPDATE withdrawals SET status = 'BROADCAST' WHERE withdrawal_id = 'wd_paid'`},
	},
	{
		"I-16-payment",
		"failed and on its way",
		[]string{`UPDATE dispatch_orders SET status = 'BROADCAST', payee_failed = false WHERE order_id = 'wd_failed'`},
	},
	{"I-16-payment", "paid without approval", []string{
		`UPDATE withdrawals SET status = 'AWAITING_APPROVAL', approval_reasons = '{REQUIRE_APPROVAL}' WHERE withdrawal_id = 'wd_out'`,
	}},
	{"I-16-sweep", "a sweep that nobody planned", []string{`DELETE FROM internal_orders WHERE order_id = 'sw_open'`}},
	{"I-16-sweep", "a top-up that nobody planned", []string{`DELETE FROM internal_orders WHERE order_id = 'gas_open'`}},
	{
		"I-16-sweep",
		"a sweep that was planned as a top-up",
		[]string{`UPDATE internal_orders SET purpose = 'GAS' WHERE order_id = 'sw_done'`},
	},
	{
		"I-16-sweep",
		"a sweep that was planned for another reason",
		[]string{`UPDATE internal_orders SET trigger = 'PERSON' WHERE order_id = 'sw_open'`},
	},
	{"I-16-sweep", "a sweep without its order", []string{`DELETE FROM dispatch_orders WHERE order_id = 'sw_open'`}},
	{
		"I-16-sweep",
		"a top-up from an address",
		[]string{`UPDATE dispatch_orders SET wallet_id = 'we_dep' WHERE order_id = 'gas_open'`},
	},
	{
		"I-16-sweep",
		"a sweep to another wallet",
		[]string{`UPDATE dispatch_orders SET to_wallet_id = 'we_dep' WHERE order_id = 'sw_open'`},
	},
	{"I-16-place", "a place that nobody planned", []string{`DELETE FROM internal_orders
		WHERE order_id = 'pl_open'`}},
	{"I-16-place", "a place without its order", []string{`DELETE FROM dispatch_orders WHERE order_id = 'pl_open'`}},
	{
		"I-16-place",
		"a place of another treasury's",
		[]string{`UPDATE dispatch_orders SET wallet_id = 'we_dep' WHERE order_id = 'pl_open'`},
	},
	{
		"I-16-place",
		"a place that was planned as a close",
		[]string{`UPDATE internal_orders SET purpose = 'CLOSE' WHERE order_id = 'pl_open'`},
	},
	{"I-16-allowance", "an allowance that was not planned", []string{`DELETE FROM internal_orders
		WHERE order_id = 'al_open'`}},
	{"I-16-allowance", "an allowance of another address", []string{`UPDATE dispatch_orders
		SET to_address = '0xother' WHERE order_id = 'al_open'`}},
	{"I-16-allowance", "an allowance of a customer's address", []string{`UPDATE dispatch_orders SET wallet_id = 'we_dep'
		WHERE order_id = 'al_open'`}},
	{"I-16-token-account", "an account that was not planned", []string{`DELETE FROM internal_orders
		WHERE order_id = 'ta_open'`}},
	{"I-16-token-account", "an account of another address", []string{`UPDATE dispatch_orders
		SET to_wallet_id = 'we_own', to_address = '0xwe_own' WHERE order_id = 'ta_open'`}},
	{"I-16-token-account", "an account that an address pays", []string{`UPDATE dispatch_orders SET wallet_id = 'we_dep'
		WHERE order_id = 'ta_open'`}},
	{"I-16-token-account", "an account of a wallet that nothing is paid to", []string{`INSERT INTO token_accounts
		SELECT 'we_cosol', mint_id, org_id, now() FROM token_accounts`}},
	{"I-16-token-account", "an account of another organization", []string{`UPDATE token_accounts
		SET org_id = 'org_other'`}},
	{"I-16-token-account", "an account of another chain", []string{`UPDATE token_accounts SET mint_id = 1`}},
	{"I-16-merge", "a merge that nobody planned", []string{`DELETE FROM internal_orders
		WHERE order_id = 'mg_open'`}},
	{"I-16-merge", "a merge without its order", []string{`DELETE FROM dispatch_orders WHERE order_id = 'mg_open'`}},
	{
		"I-16-merge",
		"a merge that was planned as a sweep",
		[]string{`UPDATE internal_orders SET purpose = 'SWEEP' WHERE order_id = 'mg_open'`},
	},
	{"I-16-merge", "a merge to the change of another", []string{
		`UPDATE dispatch_orders SET to_wallet_id = 'we_brest', to_address = '0xwe_brest' WHERE order_id = 'mg_open'`,
	}},
	{
		"I-16-merge",
		"a merge to somebody else",
		[]string{`UPDATE dispatch_orders SET to_address = '0xmallory' WHERE order_id = 'mg_open'`},
	},
	{"I-16-close", "a close that nobody planned", []string{`DELETE FROM internal_orders WHERE order_id = 'cl_open'`}},
	{"I-16-close", "a close without its order", []string{`DELETE FROM dispatch_orders WHERE order_id = 'cl_open'`}},
	{
		"I-16-close",
		"a close of another address",
		[]string{`UPDATE dispatch_orders SET from_wallet_id = 'we_tre', wallet_id = 'we_dep'
			WHERE order_id = 'cl_open'`},
	},
	{
		"I-16-close",
		"a close that was planned as a sweep",
		[]string{`UPDATE internal_orders SET purpose = 'SWEEP' WHERE order_id = 'cl_open'`},
	},
	{
		"I-17",
		"a fee not posted",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = 'wd_paid'`},
	},
	{
		"I-17",
		"a fee not billed",
		[]string{`DELETE FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = 'wd_paid' AND leg = 1`},
	},
	{
		"I-17",
		"another fee than was paid",
		[]string{`UPDATE dispatch_orders SET fee = fee + 1 WHERE order_id = 'wd_paid'`},
	},
	{"I-17", "a fee of an order that goes on", []string{
		`UPDATE ledger_transfers SET cause_id = 'wd_out' WHERE cause_kind = 'NETWORK_FEE' AND cause_id = 'wd_paid'`,
	}},
	{"I-17-question", "an end on a dead proof that nothing lists", []string{
		`UPDATE dispatch_orders SET proof_id = (SELECT proof_id FROM finality_proofs WHERE hash = 'h10gone') WHERE order_id = 'wd_paid'`,
		`UPDATE finality_breaks SET tip_height = 9, ancestor_height = 8`,
	}},
	{"I-17", "an end without a proof", []string{`DELETE FROM finality_proofs WHERE height = 13`}},
	{"I-36-deposit", "a credit that nobody heard of", []string{`DELETE FROM events WHERE resource_id = 'dep_token'`}},
	{"I-36-deposit", "a credit told twice", []string{
		`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at)
		 SELECT 'evt_again', org_id, type, resource_kind, resource_id, 2, data, created_at FROM events WHERE resource_id = 'dep_token'`,
	}},
	{
		"I-36-deposit",
		"told and not credited",
		[]string{`UPDATE deposits SET status = 'SCREENING', credited_at = NULL WHERE deposit_id = 'dep_token'`},
	},
	{
		"I-36-withdrawal",
		"a broadcast that nobody heard of",
		[]string{`DELETE FROM events WHERE resource_id = 'wd_out'`},
	},
	{"I-36-withdrawal", "a wait that nobody heard of", []string{`DELETE FROM events WHERE resource_id = 'wd_held'`}},
	{
		"I-36-withdrawal",
		"an end that nobody heard of",
		[]string{`DELETE FROM events WHERE type = 'CUSTOMER_WITHDRAW_COMPLETED'`},
	},
	{
		"I-36-withdrawal",
		"a failure that nobody heard of",
		[]string{`DELETE FROM events WHERE type = 'CUSTOMER_WITHDRAW_FAILED'`},
	},
	{
		"I-36-withdrawal",
		"a removal that nobody heard of",
		[]string{`DELETE FROM events WHERE type = 'CUSTOMER_WITHDRAW_REJECTED'`},
	},
	{
		"I-36-withdrawal",
		"told of a broadcast that was not",
		[]string{`UPDATE events SET type = 'CUSTOMER_WITHDRAW' WHERE resource_id = 'wd_held'`},
	},
	{
		"I-36-order",
		"a gap in a resource",
		[]string{`UPDATE events SET resource_seq = 9 WHERE resource_id = 'wd_paid' AND resource_seq = 2`},
	},
	{"I-36-order", "a gap in the sequence", []string{`DELETE FROM events WHERE sequence = 1`}},
	{"I-36-order", "a counter that lags", []string{`UPDATE event_sequences SET last = last - 1`}},
	{"I-36-order", "no counter", []string{`DELETE FROM event_sequences`}},
	{"I-36-order", "two of a resource the wrong way round", []string{
		`UPDATE events SET resource_seq = resource_seq + 100 WHERE resource_id = 'wd_paid'`,
		`UPDATE events SET resource_seq = 105 - resource_seq WHERE resource_id = 'wd_paid'`,
	}},
	{
		"I-36-order",
		"a number in a gap",
		[]string{`INSERT INTO event_gaps SELECT org_id, 0, last, now() FROM event_sequences`},
	},
	{
		"I-45-owed",
		"a debt that the books do not know",
		[]string{`UPDATE withdrawals SET restored_at = now(), owed = 1 WHERE withdrawal_id = 'wd_held'`},
	},
	{"I-40", "a credit without its row", []string{`DELETE FROM audit_log WHERE resource_id = 'dep_token'`}},
	{"I-40", "an approval without its row", []string{`DELETE FROM audit_log WHERE action = 'withdrawal.approved'`}},
	{
		"I-40",
		"a slot without its row",
		[]string{`DELETE FROM audit_log WHERE action = 'order.slotted' AND resource_id = 'gas_open'`},
	},
	{"I-40", "a wallet without its row", []string{`DELETE FROM audit_log WHERE action = 'wallet.issued'`}},
	{"I-40", "a freeze without its row", []string{`DELETE FROM audit_log WHERE action = 'freeze.put'`}},
	{
		"I-40",
		"a freeze lifted behind everybody's back",
		[]string{`UPDATE freezes SET lifted_at = now(), lifted_by = 'x'`},
	},
	{
		"I-40",
		"a row of another organization",
		[]string{`UPDATE audit_log SET org_id = NULL WHERE resource_id = 'dep_token'`},
	},
	{
		"I-40",
		"a product without the row of its making",
		[]string{`DELETE FROM audit_log WHERE action = 'product.created'`},
	},
	{
		"I-40",
		"a product archived without a row",
		[]string{`DELETE FROM audit_log WHERE action = 'product.archived'`},
	},
	{"I-40", "a person whom nobody added", []string{`DELETE FROM audit_log WHERE action = 'person.added'`}},
	{
		"I-40",
		"an endpoint that nobody made",
		[]string{`DELETE FROM audit_log WHERE action = 'webhook_endpoint.created'`},
	},
	{
		"I-40",
		"an endpoint that nobody took away",
		[]string{`DELETE FROM audit_log WHERE action = 'webhook_endpoint.deleted'`},
	},
	{
		"I-40",
		"a quarantine that nobody put",
		[]string{`UPDATE mints SET quarantined_at = now(), quarantine_reason = 'x' WHERE mint_id = 1`},
	},
	{"I-40", "a change that nobody asked for", []string{`DELETE FROM audit_log WHERE action = 'change.requested'`}},
	{
		"I-40",
		"a change approved behind everybody's back",
		[]string{`UPDATE change_requests SET status = 'APPROVED', decided_by = 'bob', decided_key = 'opk_2'`},
	},
	{
		"I-40",
		"a change of settings that no person asked for",
		[]string{`DELETE FROM audit_log WHERE action = 'member_change.requested'`},
	},
	{
		"I-40",
		"a change of settings approved without a trace",
		[]string{`DELETE FROM audit_log WHERE action = 'member_change.approved'`},
	},
	{
		"I-40-keys",
		"an operator's key that nobody made",
		[]string{`INSERT INTO operator_keys VALUES ('opk_x', 'mallory', sha256('x'), now())`},
	},
	{
		"I-40-keys",
		"an operator's key that nobody ended",
		[]string{`UPDATE operator_keys SET revoked_at = now() WHERE revoked_at IS NULL`},
	},
	{
		"I-40-keys",
		"an operator's key whose roll is forgotten",
		[]string{`DELETE FROM audit_log WHERE action = 'operator_key.rolled'`},
	},
	{
		"I-40-keys",
		"an API key that nobody rolled",
		[]string{`DELETE FROM audit_log WHERE action = 'api_key.rolled' AND resource_kind = 'ORGANIZATION'`},
	},
	{
		"I-40-keys",
		"a main API key that nobody revoked",
		[]string{`UPDATE api_keys SET rolled_at = now() WHERE rolled_at IS NULL`},
	},
	{"I-40-keys", "an additional API key that nobody made", []string{
		`INSERT INTO additional_api_keys (key_id, org_id, name, scope, hash) SELECT 'key_x', org_id, 'mallory', 'FULL', sha256('x') FROM organizations LIMIT 1`,
	}},
	{
		"I-40-keys",
		"an additional API key with a wider scope",
		[]string{`UPDATE additional_api_keys SET scope = 'FULL'`},
	},
	{
		"I-40-keys",
		"an additional API key that never expires",
		[]string{`UPDATE additional_api_keys SET expires_at = now() + interval '100 years' WHERE expires_at IS NULL`},
	},
	{
		"I-40-keys",
		"an additional API key that nobody rolled",
		[]string{`DELETE FROM audit_log WHERE action = 'api_key.rolled' AND resource_kind = 'API_KEY'`},
	},
	{
		"I-40-keys",
		"an additional API key that nobody deleted",
		[]string{`UPDATE additional_api_keys SET deleted_at = now()`},
	},
	{"I-40-keys", "a deleted API key that works", []string{`UPDATE additional_api_keys SET deleted_at = NULL`}},
	{
		"I-40-settings",
		"a threshold raised",
		[]string{`UPDATE organization_settings SET customer_withdraw_usd_threshold = 21`},
	},
	{
		"I-40-settings",
		"a threshold taken away",
		[]string{`UPDATE organization_settings SET customer_withdraw_usd_threshold = NULL`},
	},
	{
		"I-40-settings",
		"a threshold that nobody set",
		[]string{`UPDATE organization_settings SET two_factor_usd_threshold = 1`},
	},
	{"I-40-settings", "a severity", []string{`UPDATE organization_settings SET screening_severity_threshold = 'HIGH'`}},
	{"I-40-settings", "an entry more on the allowlist", []string{
		`UPDATE organization_settings SET approval_allowlist = approval_allowlist || '[{"email":"m@example.com","active":true}]'`,
	}},
	{"I-40-settings", "a threshold out of reach", []string{
		`UPDATE organization_settings SET customer_withdraw_usd_threshold = 1000000000, screening_usd_threshold = 1000000000`,
	}},
	{"I-40-settings", "a smaller quorum", []string{`UPDATE organization_settings SET approval_quorum = 1`}},
	{
		"I-40-settings",
		"a network more",
		[]string{`UPDATE organization_settings SET ip_allowlist = ip_allowlist || '192.0.2.0/24'::cidr`},
	},
	{"I-40-settings", "a list taken away", []string{`UPDATE organization_settings SET ip_allowlist = '{}'`}},
	{"I-40-settings", "a flag", []string{`UPDATE organization_settings SET flagged_deposit_api_enabled = true`}},
	{
		"I-40-settings",
		"a row of the log that says less",
		[]string{`DELETE FROM audit_log WHERE detail ->> 'setting' = 'approvalQuorum'`},
	},
	{"I-40-chain", "a row altered", []string{`UPDATE audit_log SET actor_id = 'x' WHERE audit_id = 5`}},
	{"I-40-chain", "a row deleted", []string{`DELETE FROM audit_log WHERE audit_id = 5`}},
	{"I-40-chain", "a row deleted with its place", audittest.Tamper(
		`DELETE FROM audit_log WHERE audit_id = 5`, `DELETE FROM audit_seal WHERE audit_id = 5`,
	)},
	{"I-40-chain", "two places exchanged", audittest.Tamper(
		`UPDATE audit_seal SET audit_id = -audit_id WHERE audit_id IN (5, 6)`,
		`UPDATE audit_seal SET audit_id = 11 + audit_id WHERE audit_id < 0`,
	)},
	{"I-40-chain", "the end cut off", audittest.Tamper(
		`DELETE FROM audit_log WHERE audit_id = (SELECT audit_id FROM audit_seal ORDER BY position DESC LIMIT 1)`,
		`DELETE FROM audit_seal WHERE position = (SELECT max(position) FROM audit_seal)`,
		`UPDATE audit_chain SET position = position - 1, hash = (SELECT hash FROM audit_seal ORDER BY position DESC LIMIT 1)`,
	)},
	{"I-40-chain", "the end cut off and its note left", audittest.Tamper(
		`DELETE FROM audit_seal WHERE position = (SELECT max(position) FROM audit_seal)`,
	)},
	{"I-40-chain", "a link of a run altered", []string{
		`UPDATE audit_runs SET hashes = set_byte(hashes, 40, 255 - get_byte(hashes, 40)) WHERE last > first`,
	}},
	{"I-40-chain", "another hash at the anchor", []string{`UPDATE audit_anchors SET hash = repeat('0', 64)`}},
	{"I-40-chain", "another chain", []string{`UPDATE audit_chain SET chain_id = 'aud_other'`}},
	{"I-47", "a coin made of nothing", []string{
		`INSERT INTO utxos SELECT chain, 'made:0', org_id, wallet_id, mint_id, 7, 'FREE', deposit_id, NULL, NULL, NULL, proof_id, height, now() FROM utxos WHERE status = 'FREE'`,
	}},
	{"I-47", "a coin of more", []string{`UPDATE utxos SET amount = amount + 1 WHERE status = 'RESERVED'`}},
	{"I-47", "a coin taken away", []string{`DELETE FROM utxos WHERE status = 'HELD'`}},
	{"I-47-state", "dust that may be chosen", []string{`UPDATE utxos SET status = 'FREE' WHERE status = 'HELD'`}},
	{
		"I-47-state",
		"a coin of a block that nobody proved",
		[]string{`UPDATE utxos SET height = height + 1 WHERE status = 'FREE'`},
	},
	{"I-47-state", "a credited coin held back", []string{`UPDATE utxos SET status = 'HELD' WHERE status = 'FREE'`}},
	{
		"I-47-slot",
		"a coin let go before its order ended",
		[]string{`UPDATE utxos SET status = 'FREE', order_id = NULL WHERE status = 'RESERVED'`},
	},
	{
		"I-47-slot",
		"a coin spent before its order ended",
		[]string{`UPDATE utxos SET status = 'SPENT', spent_tx_hash = 'hash_wd_coin' WHERE status = 'RESERVED'`},
	},
	{"I-47-rest", "a rest that comes back to a customer", []string{
		`UPDATE dispatch_slots SET slot_key = 'tx_dep_btc:0:1000:0xwe_bdep 0xwe_bdep' WHERE order_id = 'wd_coin'`,
	}},
	{"I-47-rest", "a rest that comes back to a stranger", []string{
		`UPDATE dispatch_slots SET slot_key = 'tx_dep_btc:0:1000:0xwe_bdep 0xmallory' WHERE order_id = 'wd_coin'`,
	}},
	{"I-47-rest", "an address that gets two rests", []string{
		`DROP INDEX dispatch_slots_change_once`,
		`INSERT INTO dispatch_slots SELECT wallet_id, 'BITCOIN', 77, org_id, 'wd_queued', 0, now(), NULL, 'tx_dep_sats:0:100:0xwe_btre 0xwe_brest' FROM dispatch_slots WHERE order_id = 'wd_coin'`,
	}},
	{"I-47-rest", "a coin called the rest of an order that it is not of", []string{
		`INSERT INTO utxos SELECT chain, 'made:0', org_id, 'we_bnext', mint_id, 7, 'HELD', NULL, 'wd_coin', NULL, NULL, proof_id, height, now() FROM utxos WHERE status = 'FREE'`,
	}},
	{
		"I-47-rest",
		"a number that was left out",
		[]string{`UPDATE wallets SET subject = '4' WHERE wallet_id = 'we_bnext'`},
	},
	{
		"I-47-slot",
		"a coin in another order's slot",
		[]string{`UPDATE utxos SET status = 'RESERVED', order_id = 'wd_coin' WHERE status = 'FREE'`},
	},
	{"I-41", "a fence taken down", []string{`ALTER TABLE deposits NO FORCE ROW LEVEL SECURITY`}},
	{
		"I-41",
		"a table without a fence",
		[]string{`CREATE TABLE notes (org_id text NOT NULL)`, `GRANT SELECT ON notes TO coffer_reader`},
	},
	{
		"I-45-whitelist",
		"another address",
		[]string{`UPDATE whitelisted_addresses SET address = '0xMallory' WHERE whitelisted_address_id = 'wla_cools'`},
	},
	{
		"I-45-whitelist",
		"another chain",
		[]string{`UPDATE whitelisted_addresses SET chain = 'BASE' WHERE whitelisted_address_id = 'wla_cools'`},
	},
	{
		"I-45-whitelist",
		"another label",
		[]string{`UPDATE whitelisted_addresses SET label = 'mine' WHERE whitelisted_address_id = 'wla_cools'`},
	},
	{"I-45-whitelist", "usable earlier", []string{
		`UPDATE whitelisted_addresses SET usable_from = not_before WHERE whitelisted_address_id = 'wla_cools'`,
	}},
	{
		"I-45-whitelist",
		"another proof",
		[]string{`UPDATE whitelisted_addresses SET proof = 'x' WHERE whitelisted_address_id = 'wla_cools'`},
	},
	{
		"I-45-whitelist",
		"an endorsement of nobody",
		[]string{`UPDATE whitelisted_addresses SET journal_seq = 9 WHERE whitelisted_address_id = 'wla_cools'`},
	},
	{"I-45-whitelist", "what was revoked, on the list", []string{
		`DELETE FROM whitelisted_addresses WHERE whitelisted_address_id = 'wla_cools'`,
		`UPDATE whitelisted_addresses SET removed_at = NULL, removed_by = NULL, revoked_seq = NULL`,
	}},
	{"I-45-whitelist", "a removal that the signer has not", []string{`DELETE FROM signer_journal WHERE seq = 6`}},
	{
		"I-45-whitelist",
		"an entry that is none",
		[]string{`UPDATE signer_journal SET body = '{"kind":"ENDORSE"' WHERE seq = 5`},
	},
	{
		"I-40-whitelist", "an address that nobody added",
		[]string{`INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, not_before, request_mac)
		SELECT 'wla_lie', org_id, chain, '0xMallory', label, created_at, created_by, not_before, request_mac FROM whitelisted_addresses WHERE whitelisted_address_id = 'wla_cools'`},
	},
	{"I-40-whitelist", "a removal of nobody's", []string{
		`UPDATE whitelisted_addresses SET removed_at = now(), removed_by = 'x' WHERE whitelisted_address_id = 'wla_cools'`,
	}},
	{"I-71", "a deposit for a deposit swap that there is not", []string{
		`UPDATE deposits SET purpose = 'DEPOSIT_SWAP', deposit_swap_id = 'ds_lie' WHERE purpose = 'CUSTOMER_DEPOSIT'`,
	}},
	{"I-45-journal", "an entry altered", []string{`UPDATE signer_journal SET body = '{}' WHERE seq = 2`}},
	{"I-45-journal", "an entry removed", []string{`DELETE FROM signer_journal WHERE seq = 2`}},
	{"I-45-journal", "the tail removed", []string{`DELETE FROM signer_journal WHERE seq >= 3`}},
	{"I-45-journal", "the head removed", []string{`DELETE FROM signer_journal WHERE seq = 1`}},
	{"I-45-journal", "a chain broken", []string{`UPDATE signer_journal SET prev = 'x' WHERE seq = 3`}},
	{"I-45-journal", "another last entry", []string{`UPDATE signer_identity SET imported_hash = 'x'`}},
	{"I-45-journal", "a copy that belongs to nobody", []string{`DELETE FROM signer_identity`}},
}

func TestEveryTamperingIsSeen(t *testing.T) {
	t.Parallel()
	wantSeen(t, func(c Check) bool {
		// Those of approvers have a test of their own, with a signer behind it.
		isOfApprovers := slices.ContainsFunc(approverChecks, func(o Check) bool { return o.ID == c.ID })
		return !isSchemaCheck(c) && !isOfApprovers
	})
}

// Tamperings with the schema have their own test: they are few, and the others take minutes.
func TestEveryTamperingWithTheSchemaIsSeen(t *testing.T) {
	t.Parallel()
	wantSeen(t, isSchemaCheck)
}

// wantSeen tries the tamperings that the chosen checks have to detect. For each it runs the check that
// has to detect it: a breach that another check finds counts for nothing here.
func wantSeen(t *testing.T, chosen func(Check) bool) {
	t.Helper()
	h := newTestEnv(t)
	shown := map[string]bool{}
	for _, c := range slices.Concat(tamperings, swapTamperings, ownSwapTamperings, checkoutTamperings, linkTamperings,
		refundTamperings, automaticRefundTamperings, billingTamperings, payoutTamperings) {
		i := slices.IndexFunc(checks, func(known Check) bool { return known.ID == c.check })
		if i < 0 {
			t.Errorf("%s: there is no check %s", c.name, c.check)
			continue
		}
		if !chosen(checks[i]) {
			continue
		}
		r, err := h.runTamperedFor(checks[i:i+1], c.sql...)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !slices.ContainsFunc(
			r.Breaches, func(b Breach) bool { return b.Check == c.check && b.Subject != "" && b.Detail != "" },
		) {
			t.Errorf("%s: got %+v, want a breach of %s", c.name, r.Breaches, c.check)
		}
		shown[c.check] = true
	}
	for _, c := range checks {
		if chosen(c) && !shown[c.ID] {
			t.Errorf("%s is never shown to fail", c.ID)
		}
	}
	if r, err := h.runTampered(); err != nil || !r.IsIntact() {
		t.Errorf("untouched: got %+v %v, want no breach", r.Breaches, err)
	}
}

// A restored database has outputs reserved for the journal's signed orders. One of them may be the
// change of an order that is final on the chain and that dispatch has not ended yet. A breach here
// would stop everything in that moment, after each restore with such payments.
func TestTheChangeOfAnOpenOrderInARestoredSlotIsNoBreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for name, c := range map[string]struct {
		status, slotKey, signed string
		breach                  bool
	}{
		"reserved by a restored slot": {
			"RESERVED", "hash_wd_coin:1:580:0xwe_brest 0xwe_bnext", "p.created_at - interval '1 hour'", false,
		},
		"spent by a restored slot": {
			"SPENT", "hash_wd_coin:1:580:0xwe_brest 0xwe_bnext", "p.created_at - interval '1 hour'", false,
		},
		"reserved by a slot that was given here": {
			"RESERVED", "hash_wd_coin:1:580:0xwe_brest 0xwe_bnext", "p.created_at + interval '1 second'", true,
		},
		"reserved, and in no slot": {
			"RESERVED", "tx_dep_sats:0:100:0xwe_btre 0xwe_bnext", "p.created_at - interval '1 hour'", true,
		},
		"free": {
			"FREE", "hash_wd_coin:1:580:0xwe_brest 0xwe_bnext", "p.created_at - interval '1 hour'", true,
		},
	} {
		r, err := h.runTampered(
			`INSERT INTO utxos (chain, outpoint, org_id, wallet_id, mint_id, amount, status, change_of, order_id, spent_tx_hash, proof_id, height, created_at)
				SELECT chain, 'hash_wd_coin:1', org_id, 'we_brest', mint_id, 580, '`+c.status+`', 'wd_coin', CASE '`+c.status+`' WHEN 'FREE' THEN NULL ELSE 'wd_queued' END,
					CASE '`+c.status+`' WHEN 'SPENT' THEN 'x' END, proof_id, height, now() FROM utxos WHERE status = 'FREE'`,
			`INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, org_id, order_id, gas_reserved, created_at, orders)
				SELECT s.wallet_id, 'BITCOIN', 78, '`+c.slotKey+`', s.org_id, 'wd_queued', 0, `+c.signed+`, 1
				FROM dispatch_slots s, utxos c JOIN finality_proofs p USING (chain, proof_id) WHERE s.order_id = 'wd_coin' AND c.outpoint = 'hash_wd_coin:1'`)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		seen := slices.ContainsFunc(r.Breaches, func(b Breach) bool {
			return b.Check == "I-47-state" && b.Subject == "coin hash_wd_coin:1"
		})
		if seen != c.breach {
			t.Errorf("%s: got a breach of I-47-state: %v, want %v: %+v", name, seen, c.breach, r.Breaches)
		}
	}
}

func TestABreachStopsEverythingAndStaysStopped(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	var log bytes.Buffer
	watch := func() (Report, error) {
		return CheckAndFreeze(t.Context(), h.db, nil, slog.New(slog.NewTextHandler(&log, nil)))
	}
	standing := func() (f *freeze.Freeze) {
		h.system(func(ctx context.Context, tx pg.Tx) (err error) {
			f, err = freeze.Active(ctx, tx, freeze.Target{OrgID: h.org})
			return err
		})
		return f
	}
	if r, err := watch(); err != nil || !r.IsIntact() || standing() != nil {
		t.Fatalf("sound: got %+v %v and a freeze %v, want neither", r.Breaches, err, standing())
	}
	tamper := func(by string) {
		h.exec(
			`UPDATE ledger_balances SET balance = balance ` + by +
				` WHERE account_id = (SELECT account_id FROM ledger_accounts WHERE kind = 'CUSTOMER' AND mint_id = 1)`,
		)
	}
	tamper("+ 1")
	for range 2 {
		r, err := watch()
		if err != nil || r.IsIntact() {
			t.Fatalf("got %+v %v, want a breach", r.Breaches, err)
		}
		f := standing()
		if f == nil || f.Scope != freeze.ScopeAll || f.Source != freeze.SourceVerify ||
			!strings.Contains(f.Reason, "I-04") {
			t.Fatalf("got %+v, want a freeze of all that names I-04", f)
		}
		var b bytes.Buffer
		if _, err := r.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"BREACH  I-04 ", "CUSTOMER ann in mint 1", "BREACH  I-04-totals", "2 of "} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("got\n%s\nwant %q in it", b.String(), want)
			}
		}
	}
	if !strings.Contains(log.String(), "level=ERROR") || !strings.Contains(log.String(), "check=I-04") {
		t.Errorf("got %q, want an error that names I-04", log.String())
	}
	tamper("- 1")
	if r, err := watch(); err != nil || !r.IsIntact() {
		t.Fatalf("repaired: got %+v %v, want no breach", r.Breaches, err)
	}
	if standing() == nil {
		t.Error("the freeze was lifted by itself")
	}
}

// Rule COIN-4.
func TestAnAddressHoldsTheOutputsThatLieThere(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	net := sim.New(sim.Config{Name: chain.Bitcoin})
	at := map[string]chain.Address{}
	for _, id := range []string{"we_bdep", "we_btre", "we_brest"} {
		at[id] = sim.Address(id)
		h.exec(`UPDATE wallets SET address = $2 WHERE wallet_id = $1`, id, string(at[id]))
	}
	net.Mint(at["we_btre"], "", money.Units(100))
	net.MineEmpty(20)
	head, err := net.Final(t.Context(), 14)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(`UPDATE scan_cursors SET hash = $1 WHERE chain = 'BITCOIN'`, head.Hash)
	h.exec(`UPDATE finality_proofs SET hash = $1 WHERE chain = 'BITCOIN' AND height = 14`, head.Hash)
	// A payment that spends an output of 1000 is broadcast: the output may be unspent still or
	// spent. A unit is dust.
	for _, step := range []struct {
		more  uint64
		sound bool
	}{{0, false}, {1, true}, {500, true}, {500, true}, {1, false}} {
		net.Mint(at["we_bdep"], "", money.Units(step.more))
		r, err := CompareWithChains(t.Context(), h.db, chain.Chains{chain.Bitcoin: net.ToChain()})
		if err != nil {
			t.Fatal(err)
		}
		if r.IsIntact() != step.sound {
			t.Errorf("%d more on the address: got %+v, want sound=%v", step.more, r.Breaches, step.sound)
		}
	}
}

func TestOnlyAnUnexplainedBalanceOnChainIsABreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	net := sim.New(sim.Config{})
	token, dep, tre, own := sim.Address("token"), sim.Address("we_dep"), sim.Address("we_tre"), sim.Address("we_own")
	h.exec(`ALTER TABLE mints DISABLE TRIGGER USER`)
	h.exec(`UPDATE mints SET contract = $1 WHERE mint_id = 1`, string(token))
	for _, id := range []string{
		"we_dep", "we_tre", "we_own", "we_dl_cs_done", "we_rf_cs_fail", "we_dl_cs_fail",
		"we_dl_os_done", "we_ds_done", "we_ds_lost", "we_co", "we_shared",
	} {
		h.exec(`UPDATE wallets SET address = $2 WHERE wallet_id = $1`, id, string(sim.Address(id)))
	}
	// The deposit address has 1000 - 600, a unit of dust and 300 that wait for their credit. Its
	// coin is 2 of fees that were held, not taken and not swapped, and 40 of gas. Of the treasury's balance, 100
	// and a fee of 20 may be gone: a payment is broadcast.
	net.Mint(dep, token, money.Units(701))
	net.Mint(dep, "", money.Units(42))
	net.Mint(tre, token, money.Units(202))
	net.Mint(own, token, money.Units(70))
	net.Mint(sim.Address("we_co"), token, money.Units(20))
	net.Mint(sim.Address("we_shared"), token, money.Units(19))
	net.Mint(tre, "", money.Units(420))
	// What is with a provider is on none of our addresses.
	net.Mint(sim.Address("we_dl_cs_done"), "", money.Units(95))
	net.Mint(sim.Address("we_dl_cs_done"), token, money.Units(7))
	net.Mint(sim.Address("we_rf_cs_fail"), token, money.Units(50))
	net.Mint(sim.Address("we_dl_cs_fail"), "", money.Units(5))
	net.Mint(sim.Address("we_dl_os_done"), token, money.Units(25))
	net.Mint(sim.Address("we_ds_done"), token, money.Units(12))
	net.Mint(sim.Address("we_ds_lost"), token, money.Units(12))
	net.MineEmpty(20)
	heads, err := net.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h.exec(`UPDATE scan_cursors SET height = $1, hash = $2`, heads.Final.Height, heads.Final.Hash)
	chains := chain.Chains{chain.Ethereum: net.ToChain()}
	want := func(name string, breaches int, note string) {
		t.Helper()
		r, err := CompareWithChains(t.Context(), h.db, chains)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if len(r.Breaches) != breaches || !strings.Contains(r.Outcomes[0].Note, note) {
			t.Errorf("%s: got %+v, want %d breaches and %q", name, r, breaches, note)
		}
	}
	want("sound", 0, "14 balances in block 17, 2 within bounds")
	// The top-up from the treasury to the other wallet is signed.
	h.exec(
		`UPDATE dispatch_attempts SET raw = 'r', tx_hash = 'hash_gas_open', signed_at = now() WHERE order_id = 'gas_open'`,
	)
	want("more under way", 0, "14 balances in block 17, 3 within bounds")
	busy := func(name, sql string, breaches int) {
		t.Helper()
		h.exec(`UPDATE address_funds SET ` + sql)
		want(name, breaches, "")
		h.exec(`UPDATE address_funds SET ` + strings.NewReplacer("+", "-", "-", "+").Replace(sql))
	}
	busy("all that was signed is gone", `credited = credited + 100 WHERE wallet_id = 'we_tre' AND mint_id = 1`, 0)
	busy("more than was signed is gone", `credited = credited + 101 WHERE wallet_id = 'we_tre' AND mint_id = 1`, 1)
	busy("more has come than was signed", `credited = credited - 1 WHERE wallet_id = 'we_tre' AND mint_id = 1`, 1)
	busy("all fees and a top-up are gone", `gas = gas + 66 WHERE wallet_id = 'we_tre' AND mint_id = 2`, 0)
	busy("more than fees and a top-up is gone", `gas = gas + 67 WHERE wallet_id = 'we_tre' AND mint_id = 2`, 1)
	busy("the top-up has come", `gas = gas - 40 WHERE wallet_id = 'we_dep' AND mint_id = 2`, 0)
	busy("more than the top-up has come",
		`gas = gas - 40, credited = credited - 1 WHERE wallet_id = 'we_dep' AND mint_id = 2`, 1)
	busy("what pays for the top-up is missing", `gas = gas + 1 WHERE wallet_id = 'we_dep' AND mint_id = 2`, 1)
	h.exec(`UPDATE dispatch_attempts SET raw = NULL, tx_hash = NULL, signed_at = NULL WHERE order_id = 'gas_open'`)
	// The books keep the walked deposits when the walk is set back to read the blocks again.
	early, err := net.Final(t.Context(), heads.Final.Height-4)
	if err != nil {
		t.Fatal(err)
	}
	h.exec(`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, fork)
		VALUES ('ETHEREUM', $1, $2, 'parent', now(), 1, 'test', now(), 1)`, heads.Final.Height, heads.Final.Hash)
	h.exec(`UPDATE scan_cursors SET height = $1, hash = $2`, early.Height, early.Hash)
	want("the walk set back", 0, "14 balances in block 17, 2 within bounds")

	net.Mint(dep, token, money.Units(1))
	want("a unit too many", 1, "")
	h.exec(`UPDATE address_funds SET dust = dust + 1 WHERE wallet_id = 'we_dep' AND mint_id = 1`)
	want("explained", 0, "")

	net.Mint(dep, "", money.Units(5))
	want("native coin too many", 1, "")
	h.exec(`INSERT INTO scan_untraced (proof_id, tx_hash, addresses, attempts, last_error, next_attempt_at, created_at)
		SELECT max(proof_id), '0xd3', ARRAY['0xother'], 1, 'x', now(), now() FROM finality_proofs`)
	want("another address is to be traced", 1, "")
	h.exec(`UPDATE scan_untraced SET addresses = ARRAY[$1]`, string(dep))
	want("native coin that is to be traced", 0, "")
	h.exec(`UPDATE scan_untraced SET status = 'DONE', done_at = now()`)
	want("traced, and not that", 1, "")
	h.exec(
		`INSERT INTO scan_findings (chain, kind, height, hash, address, contract, detail, created_at) VALUES ('ETHEREUM', 'UNATTRIBUTED', 1, 'x', $1, '', 'x', now())`,
		string(dep),
	)
	want("native coin that a finding explains", 0, "")

	h.exec(`UPDATE address_funds SET dust = dust + 2 WHERE wallet_id = 'we_dep' AND mint_id = 1`)
	want("a token missing", 1, "")
	net.SilenceBalance(token, true)
	want("a token that gives no balance", 0, "2 within bounds as orders are in progress, 10 left out")
	if _, err := CheckAndFreeze(t.Context(), h.db, chains, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatalf("Watch: %v", err)
	}
	net.SilenceBalance(token, false)
	want("a token in doubt", 0, "4 balances")

	down := errors.New("no provider answers")
	net.Provider(0).SetDown(down)
	if _, err := CompareWithChains(t.Context(), h.db, chains); !errors.Is(err, down) {
		t.Errorf("got %v, want %v", err, down)
	}
	if r, err := CheckAndFreeze(t.Context(), h.db, chains, slog.New(slog.DiscardHandler)); !errors.Is(err, down) ||
		slices.ContainsFunc(r.Breaches, func(b Breach) bool { return strings.HasPrefix(b.Check, "I-06-ETH") }) {
		t.Errorf("got %+v %v, want no breach on chain and %v", r.Breaches, err, down)
	}
}

// What is missing after a broken finality is no breach: it waits for money, and is listed.
func TestWhatIsMissingIsCountedAndIsNoBreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	// The trigger of the table says what is missing.
	_, err := h.owner.Exec(
		t.Context(),
		`UPDATE address_funds SET credited = credited - 500, reversed = reversed + 500 WHERE wallet_id = 'we_dep' AND mint_id = 1`,
	)
	if err != nil {
		t.Fatal(err)
	}
	r, err := RunChecks(t.Context(), h.db)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.ID == "I-14-short" })
	if o := r.Outcomes[i]; o.Breaches != 0 || !strings.Contains(o.Note, "1 open") ||
		!strings.Contains(o.Note, "lacks 200") {
		t.Errorf("got %+v, want no breach and 200 that are missing", o)
	}
}

// Rule WD-18. An order that ended on a removed block is no breach while it is listed, and what it
// costs in addition later belongs to its fee.
func TestAnOrderInQuestionIsListedAndIsNoBreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r, err := h.runTampered(
		`UPDATE dispatch_orders SET proof_id = (SELECT proof_id FROM finality_proofs WHERE hash = 'h10gone'), waiting_for = 'FREEZE' WHERE order_id = 'wd_paid'`,
		`UPDATE dispatch_orders SET fee = fee + 1 WHERE order_id = 'wd_paid'`,
		`UPDATE address_funds SET gas = gas - 1 WHERE wallet_id = 'we_tre' AND mint_id = 2`,
		`UPDATE organization_totals SET treasuries = treasuries - 1 WHERE mint_id = 2`,
		`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
			SELECT org_id, mint_id, debit_account, credit_account, 1, 'FEE_CHANGE', cause_id || '/1', leg, created_at
			FROM ledger_transfers WHERE cause_kind = 'NETWORK_FEE' AND cause_id = 'wd_paid'`,
		`UPDATE ledger_balances SET balance = balance - 1 WHERE account_id = (SELECT account_id FROM ledger_accounts WHERE kind = 'GAS' AND mint_id = 2)`,
	)
	if err != nil || !r.IsIntact() {
		t.Errorf("got %+v %v, want no breach", r.Breaches, err)
	}
	i := slices.IndexFunc(r.Outcomes, func(o Outcome) bool { return o.ID == "I-17-question" })
	if o := r.Outcomes[i]; !strings.Contains(o.Note, "1 open") ||
		!strings.Contains(o.Note, "wd_paid is PAID on a block that is gone and waits for FREEZE") {
		t.Errorf("got %+v, want wd_paid listed", o)
	}
}
