package verify

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// moved posts between two accounts, as if for a cause.
func moved(cause, id, mint, from, to, amount, leg string) string {
	return `INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
		SELECT d.org_id, d.mint_id, d.account_id, c.account_id, ` + amount + `, '` + cause + `', '` + id + `', ` + leg + `, now()
		FROM ledger_accounts d JOIN ledger_accounts c USING (org_id, mint_id)
		WHERE d.kind = '` + from + `' AND c.kind = '` + to + `' AND d.mint_id = ` + mint
}

// insertOrder inserts an order, of which it needs a row and the values that differ. The database
// computes the other columns.
const insertOrder = `INSERT INTO dispatch_orders (written_columns) SELECT written_columns FROM jsonb_populate_record(`

// ordered inserts an order like the waiting one, except for one column.
func ordered(id, column, value string) string {
	return insertOrder + `(SELECT o FROM dispatch_orders o WHERE order_id = 'wd_queued'), jsonb_build_object('order_id', '` +
		id + `', '` + column + `', ` + value + `))`
}

// planned adds the trigger of an internal order to the values of ordered.
func planned(values string) string { return values + `, 'trigger', 'VALUE'` }

// copied inserts another order like one, except for some values.
func copied(id, values string) string {
	return insertOrder + `(SELECT o FROM dispatch_orders o WHERE order_id = '` + id + `'),
		'{"order_id": "or_two", ` + values + `}')`
}

// Changes that the system role could make with a statement or two, on the database where everything
// has happened once.
func TestTheTablesKeepWhatTheProgramKeeps(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	columns := pgtest.WrittenColumns(t, h.db, "dispatch_orders")
	for name, c := range map[string]struct{ sql, constraint string }{
		"a deposit on the proof of another block": {
			`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount,
				address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, created_at)
			SELECT 'dep_lie', org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address, 'tx_lie', kind, position,
				log_index, 99, 'h99', proof_id, 'SCREENING', chain_status, created_at FROM deposits WHERE deposit_id = 'dep_waits'`,
			"deposits_proof",
		},
		"a final deposit of another mint": {
			`UPDATE deposits SET mint_id = 2 WHERE deposit_id = 'dep_waits'`, "deposits_final_fixed",
		},
		"an order of another customer": {
			`UPDATE dispatch_orders SET customer_id = NULL WHERE order_id = 'wd_queued'`,
			"dispatch_orders_payment_fixed",
		},
		"another fee after the end": {
			`UPDATE dispatch_orders SET fee = fee + 1 WHERE order_id = 'wd_paid'`, "dispatch_orders_end_fixed",
		},
		"a slot moved to a free nonce": {
			`UPDATE dispatch_slots SET nonce = 900 WHERE order_id = 'wd_out'`, "dispatch_slots_fixed",
		},
		"a slot that gets another key": {
			`UPDATE dispatch_slots SET slot_key = 'account value' WHERE order_id = 'wd_out'`, "dispatch_slots_fixed",
		},
		"an order of another wallet's money": {
			`UPDATE dispatch_orders SET from_wallet_id = 'we_dep' WHERE order_id = 'wd_out'`,
			"dispatch_orders_payment_fixed",
		},
		"a payment from a deposit address": {
			`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, from_wallet_id, to_address, mint_id, contract, amount, status, attempt_after, created_at)
			SELECT 'wd_x', org_id, purpose, chain, wallet_id, 'we_dep', to_address, mint_id, contract, amount, 'QUEUED', now(), now() FROM dispatch_orders WHERE order_id = 'wd_queued'`,
			"dispatch_orders_from_other",
		},
		"a slot key given out twice": {`INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, org_id, order_id, gas_reserved, created_at)
			SELECT wallet_id, chain, 901 + n, 'account value', org_id, CASE n WHEN 0 THEN order_id ELSE 'wd_lock' END, 0, created_at
			FROM dispatch_orders, generate_series(0, 1) n WHERE order_id = 'wd_queued'`, "dispatch_slots_key_once"},
		"a slot that gives its gas back": {
			`UPDATE dispatch_slots SET gas_reserved = 0 WHERE order_id = 'wd_out'`, "dispatch_slots_fixed",
		},
		"a slot on another wallet": {
			`INSERT INTO dispatch_slots SELECT 'we_dep', chain, 901, org_id, order_id, 0, created_at FROM dispatch_orders WHERE order_id = 'wd_queued'`,
			"dispatch_slots_wallet",
		},
		"a sequence of events that goes back": {
			`UPDATE event_sequences SET last = last - 1`, "event_sequences_forward",
		},
		"nonces that begin again": {
			`UPDATE dispatch_accounts SET next_nonce = 0`, "dispatch_accounts_forward",
		},
		"an open sweep of less": {
			`UPDATE dispatch_orders SET amount = 1 WHERE order_id = 'sw_open'`, "dispatch_orders_payment_fixed",
		},
		"a sweep that is open again": {
			`UPDATE dispatch_orders SET status = 'QUEUED' WHERE order_id = 'sw_done'`, "dispatch_orders_terminal",
		},
		"a refused sweep that is queued again": {
			`UPDATE dispatch_orders SET status = 'REFUSED', ended_at = now() WHERE order_id = 'sw_open';
			UPDATE dispatch_orders SET status = 'QUEUED', ended_at = NULL WHERE order_id = 'sw_open'`,
			"dispatch_orders_terminal",
		},
		"a refused sweep that is taken back": {
			`UPDATE dispatch_orders SET status = 'REFUSED', ended_at = now() WHERE order_id = 'sw_open';
			UPDATE dispatch_orders SET status = 'WITHDRAWN' WHERE order_id = 'sw_open'`,
			"dispatch_orders_terminal",
		},
		"a top-up that is open again": {
			`UPDATE dispatch_orders SET status = 'QUEUED' WHERE order_id = 'gas_done'`, "dispatch_orders_terminal",
		},
		"a place somewhere else": {
			`UPDATE dispatch_orders SET to_address = '0xmallory' WHERE order_id = 'pl_open'`,
			"dispatch_orders_payment_fixed",
		},
		"a second place at one address": {
			copied("pl_open", `"trigger": "PERSON"`), "nonce_accounts_address_once",
		},
		"a second place at one address, restored": {
			copied("pl_open", `"trigger": "RESTORED"`), "nonce_accounts_address_once",
		},
		"a second place at an address that another has": {
			`UPDATE dispatch_orders SET status = 'REFUSED', payee_failed = true, ended_at = now()
			WHERE order_id = 'pl_open';` +
				copied("pl_open", `"status": "QUEUED", "payee_failed": false, "ended_at": null`),
			"nonce_accounts_address_once",
		},
		"a second sweep at once":  {copied("sw_open", `"trigger": "PERSON"`), "sweeps_one_open"},
		"a second close at once":  {copied("cl_open", `"trigger": "PERSON"`), "closes_one_open"},
		"a second top-up at once": {copied("gas_open", `"status": "QUEUED"`), "gas_top_ups_one_open"},
		"a merge of another treasury's": {
			`UPDATE dispatch_orders SET wallet_id = 'we_bdep' WHERE order_id = 'mg_open'`,
			"dispatch_orders_payment_fixed",
		},
		"a second merge at once": {
			copied("mg_open", `"trigger": "PERSON"`), "consolidations_one_open",
		},
		"a merge where there are no coins": {
			copied("mg_open", `"chain": "ETHEREUM", "wallet_id": "we_tre"`), "dispatch_orders_purpose_known",
		},
		"a merge that pays": {
			copied("mg_open", `"amount": 1`), "dispatch_orders_positive",
		},
		"a top-up of more than was ordered": {
			`UPDATE dispatch_orders SET amount = amount + 1 WHERE order_id = 'gas_open'`,
			"dispatch_orders_payment_fixed",
		},

		"a hold for nobody's withdrawal": {
			moved("WITHDRAWAL_HOLD", "wd_none", "1", "CUSTOMER", "WITHDRAWING", "1", "0"), "ledger_transfers_of_cause",
		},
		"the release of a hold that goes on": {
			moved("WITHDRAWAL_END", "wd_held", "1", "WITHDRAWING", "CUSTOMER", "50", "0"), "ledger_transfers_of_cause",
		},
		"a refund of what is out": {
			moved("WITHDRAWAL_END", "wd_out", "1", "WITHDRAWING", "CUSTOMER", "100", "0"), "ledger_transfers_of_cause",
		},
		"a settlement of what is out": {
			moved("WITHDRAWAL_END", "wd_out", "1", "WITHDRAWING", "CUSTODY", "100", "0"), "ledger_transfers_of_cause",
		},
		"money for no deposit": {
			moved("DEPOSIT", "dep_none", "1", "CUSTODY", "CUSTOMER", "1000000", "0"), "ledger_transfers_of_cause",
		},
		"money for a deposit that waits": {
			moved("DEPOSIT", "dep_waits", "1", "CUSTODY", "CUSTOMER", "300", "0"), "ledger_transfers_of_cause",
		},
		"an organization's money to a customer": {
			`UPDATE deposits SET product = NULL WHERE deposit_id = 'dep_own'`, "deposits_identity_fixed",
		},
		"a deposit in another leg": {
			moved("DEPOSIT", "dep_token", "1", "CUSTODY", "CUSTOMER", "1000", "1"), "ledger_transfers_legs",
		},
		"a fee of an order that goes on": {
			moved("NETWORK_FEE", "wd_out", "2", "GAS", "CUSTODY", "1", "0"), "ledger_transfers_of_cause",
		},
		"a third leg of a fee": {
			moved("NETWORK_FEE", "wd_paid", "2", "GAS", "CUSTODY", "7", "2"), "ledger_transfers_legs",
		},
		"a fee that changes for nothing": {
			moved("FEE_CHANGE", "wd_paid/1", "2", "GAS", "CUSTODY", "1", "0"), "ledger_transfers_of_fee_change",
		},
		"an end on another proof": {
			`UPDATE dispatch_orders SET proof_id = (SELECT max(proof_id) FROM finality_live) WHERE order_id = 'wd_paid'`,
			"dispatch_orders_end_fixed",
		},
		"a debt of nobody": {
			moved("RESTORE", "wd_none", "1", "CUSTODY", "CUSTOMER", "5", "0"), "ledger_transfers_of_cause",
		},
		"a debt for what was not restored": {
			moved("RESTORE", "wd_out/1", "1", "CUSTOMER", "CUSTODY", "5", "0"), "ledger_transfers_of_cause",
		},

		"a charge of what was paid": {moved(
			"WITHDRAWAL_CHARGE", "wd_paid", "1", "WITHDRAWING", "PRODUCT", "1", "0",
		) + ` AND c.subject = 'CUSTODIAL'`, "ledger_transfers_of_charge"},
		"a charge of what is not paid yet": {moved(
			"WITHDRAWAL_CHARGE", "wd_out", "1", "WITHDRAWING", "PRODUCT", "1", "0",
		) + ` AND c.subject = 'CUSTODIAL'`, "ledger_transfers_of_charge"},
		"a rest of what was not charged": {
			moved("WITHDRAWAL_CHARGE_RETURN", "wd_failed", "1", "WITHDRAWING", "CUSTOMER", "17", "0"),
			"ledger_transfers_of_charge",
		},
		"a charge, again": {moved(
			"WITHDRAWAL_CHARGE", "wd_failed", "1", "WITHDRAWING", "PRODUCT", "3", "0",
		) + ` AND c.subject = 'CUSTODIAL'`, "ledger_transfers_cause_once"},
		"another charge than was shown": {
			`UPDATE withdrawals SET charge_failure_max = 4 WHERE withdrawal_id = 'wd_failed'`,
			"withdrawals_charge_fixed",
		},
		"a charge that grows": {
			`UPDATE withdrawals SET charge_cost = 3 WHERE withdrawal_id = 'wd_failed'`, "withdrawals_charge_fixed",
		},
		"a charge that was not shown": {
			`UPDATE withdrawals SET charge_costs = 'RENT' WHERE withdrawal_id = 'wd_held'`, "withdrawals_charge_fixed",
		},
		"a charge of a product": {
			`UPDATE withdrawals SET charge_costs = 'RENT' WHERE withdrawal_id = 'wd_own'`, "withdrawals_charge_fixed",
		},
		"a fee that nobody paid": {
			moved("WITHDRAWAL_FEE", "wd_paid", "2", "CUSTODY", "PRODUCT", "1", "0"),
			"ledger_transfers_of_withdrawal_fee",
		},
		"a fee of what is not paid yet": {
			moved("WITHDRAWAL_FEE", "wd_out", "2", "CUSTODY", "PRODUCT", "1", "0"),
			"ledger_transfers_of_withdrawal_fee",
		},
		"a fee that was paid, again": {
			moved("WITHDRAWAL_FEE", "wd_less", "2", "CUSTODY", "PRODUCT", "10", "0"), "ledger_transfers_cause_once",
		},
		"a fee that was paid, in two legs": {
			moved("WITHDRAWAL_FEE", "wd_less", "2", "CUSTODY", "PRODUCT", "10", "1"), "ledger_transfers_legs",
		},
		"another fee after the request": {
			`UPDATE withdrawals SET fee_deducted = 11 WHERE withdrawal_id = 'wd_less'`, "withdrawals_terms_fixed",
		},
		"a fee for a request that has none": {
			`UPDATE withdrawals SET fee_deducted = 5 WHERE withdrawal_id = 'wd_held'`,
			"withdrawals_fee_deducted_bounded",
		},
		"another limit of the fee": {
			`UPDATE withdrawals SET max_network_fee = 1 WHERE withdrawal_id = 'wd_held'`, "withdrawals_terms_fixed",
		},
		"another order's fee": {
			`UPDATE dispatch_orders SET fee_deducted = 9 WHERE order_id = 'wd_less'`, "dispatch_orders_payment_fixed",
		},
		"a decision that was never made": {
			`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id)
			SELECT org_id, withdrawal_id, now(), 'APPROVED', 'REJECTED', '{}', '[]', 'USER', 'u' FROM withdrawals WHERE withdrawal_id = 'wd_held'`,
			"withdrawal_decisions_act_known",
		},
		"a decision about no withdrawal": {
			`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates,
				actor_kind, actor_id)
			SELECT org_id, 'wd_none', now(), 'APPROVED', 'PROCESSING', '{}', '[]', 'USER', 'u'
			FROM withdrawals WHERE withdrawal_id = 'wd_held'`,
			"withdrawal_decisions_withdrawal",
		},
		"among many decisions one of another organization": {
			`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates,
				actor_kind, actor_id)
			SELECT CASE withdrawal_id WHEN 'wd_held' THEN 'org_b' ELSE org_id END, withdrawal_id, now(), 'APPROVED',
				'PROCESSING', '{}', '[]', 'USER', 'u' FROM withdrawals`,
			"withdrawal_decisions_withdrawal",
		},

		"a withdrawal that holds nothing": {`INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status,
				requires_approval, approval_reasons, decision, created_at)
			SELECT 'wd_free', org_id, customer_id, mint_id, chain, amount, to_address, '', status, true, approval_reasons, '{}', now()
			FROM withdrawals WHERE withdrawal_id = 'wd_held'`, "withdrawals_held"},
		"a removal that gives nothing back": {
			`UPDATE withdrawals SET status = 'REJECTED' WHERE withdrawal_id = 'wd_held'`, "withdrawals_ended",
		},
		"a failure that gives nothing back": {
			`UPDATE withdrawals SET status = 'FAILED' WHERE withdrawal_id = 'wd_out'`, "withdrawals_ended",
		},
		"a refund of what is out, with its status": {`UPDATE withdrawals SET status = 'FAILED' WHERE withdrawal_id = 'wd_out';` +
			moved("WITHDRAWAL_END", "wd_out", "1", "WITHDRAWING", "CUSTOMER", "100", "0"), "withdrawals_as_ordered"},
		"a settlement of what is out, with its status": {`UPDATE withdrawals SET status = 'COMPLETED' WHERE withdrawal_id = 'wd_out';` +
			moved("WITHDRAWAL_END", "wd_out", "1", "WITHDRAWING", "CUSTODY", "100", "0"), "withdrawals_as_ordered"},
		"a refund of another amount": {`UPDATE withdrawals SET status = 'REJECTED' WHERE withdrawal_id = 'wd_held';` +
			moved("WITHDRAWAL_END", "wd_held", "1", "WITHDRAWING", "CUSTOMER", "51", "0"), "ledger_transfers_of_cause"},
		"a removal into our own pocket": {`UPDATE withdrawals SET status = 'REJECTED' WHERE withdrawal_id = 'wd_held';` +
			moved("WITHDRAWAL_END", "wd_held", "1", "WITHDRAWING", "CUSTODY", "50", "0"), "ledger_transfers_of_cause"},
		"an approval without an order": {
			`UPDATE withdrawals SET status = 'PROCESSING', approved_at = now() WHERE withdrawal_id = 'wd_held'`,
			"withdrawals_as_ordered",
		},
		"a payment without approval": {
			`UPDATE withdrawals SET status = 'PROCESSING' WHERE withdrawal_id = 'wd_held'`,
			"withdrawals_approved_before_payment",
		},

		"a credit without its posting": {
			`UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = 'dep_waits'`,
			"deposits_posted",
		},
		"a worthless token as another": {`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_lie", "tx_hash": "x", "contract": "0xalien"}')).*
			FROM deposits d WHERE deposit_id = 'dep_waits'`, "deposits_mint"},

		"a deposit on nobody's wallet": {`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_lie", "tx_hash": "x", "wallet_id": "we_none"}')).*
			FROM deposits d WHERE deposit_id = 'dep_waits'`, "deposits_wallet"},
		"a deposit for nobody": {`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_lie", "tx_hash": "x", "customer_id": "nobody"}')).*
			FROM deposits d WHERE deposit_id = 'dep_waits'`, "deposits_customer"},

		"a payment that nobody asked for": {ordered("wd_lie", "to_address", `'0xmallory'`), "dispatch_orders_as_accepted"},
		"a payment that nobody approved":  {ordered("wd_held", "amount", `50`), "dispatch_orders_in_step"},
		"a payment in another token":      {ordered("wd_lie", "contract", `'0xalien'`), "dispatch_orders_mint"},
		"a sweep that nobody planned": {
			ordered("sw_lie", "purpose", planned(`'SWEEP', 'to_wallet_id', 'we_tre', 'to_address', '0xwe_tre'`)),
			"dispatch_orders_caused",
		},
		"a sweep to somebody else": {
			ordered("sw_lie", "purpose", planned(`'SWEEP', 'to_wallet_id', 'we_tre', 'to_address', '0xmallory'`)),
			"dispatch_orders_to_own",
		},
		"an order that has no slot": {
			`UPDATE dispatch_orders SET status = 'SLOTTED' WHERE order_id = 'wd_queued'`, "dispatch_orders_slotted",
		},
		"a failure that took no slot": {
			`UPDATE dispatch_orders SET status = 'FAILED', tx_hash = 'x', fee = 0,
				proof_id = (SELECT max(proof_id) FROM finality_live WHERE chain = 'ETHEREUM')
			WHERE order_id = 'wd_queued'`,
			"dispatch_orders_slotted",
		},
		"a payment that is called off": {
			`UPDATE dispatch_orders SET status = 'WITHDRAWN' WHERE order_id = 'wd_queued'`, "dispatch_orders_in_step",
		},
		"an end that its withdrawal lacks": {
			`UPDATE dispatch_orders SET status = 'FAILED', fee = 0, proof_id = (SELECT max(proof_id) FROM finality_live WHERE chain = 'ETHEREUM') WHERE order_id = 'wd_out'`,
			"dispatch_orders_in_step",
		},
		"an end that nobody is charged for": {`UPDATE dispatch_orders SET status = 'PAID', fee = 4, proof_id = (SELECT max(proof_id) FROM finality_live WHERE chain = 'ETHEREUM'), tx_hash = 'x', ended_at = now() WHERE order_id = 'gas_open'`, "dispatch_orders_charged"},
		"a cause of an order that may come": {
			`INSERT INTO internal_orders SELECT 'sw_lie', org_id, 'SWEEP', 'VALUE' FROM organizations`,
			"internal_orders_order",
		},
		"a second cause": {
			`INSERT INTO internal_orders SELECT order_id, org_id, purpose, 'PERSON' FROM internal_orders
			WHERE order_id = 'sw_open'`,
			"internal_orders_once",
		},
		"a sweep planned for another reason": {
			`UPDATE dispatch_orders SET trigger = 'RESTORED' WHERE order_id = 'sw_open'`,
			"dispatch_orders_payment_fixed",
		},
		"a sweep without a reason": {
			ordered("sw_lie", "purpose", `'SWEEP', 'to_wallet_id', 'we_tre', 'to_address', '0xwe_tre'`),
			"dispatch_orders_trigger_known",
		},
		"a sweep that was planned as a top-up": {
			ordered("sw_lie", "purpose", planned(`'SWEEP', 'to_wallet_id', 'we_tre', 'to_address', '0xwe_tre'`)) +
				`; INSERT INTO internal_orders SELECT order_id, org_id, 'GAS', trigger FROM dispatch_orders
				WHERE order_id = 'sw_lie'`,
			"dispatch_orders_caused",
		},
		"a sweep that was planned for another": {
			ordered("sw_lie", "purpose", planned(`'SWEEP', 'to_wallet_id', 'we_tre', 'to_address', '0xwe_tre'`)) +
				`; INSERT INTO internal_orders SELECT order_id, org_id, purpose, 'RESTORED' FROM dispatch_orders
				WHERE order_id = 'sw_lie'`,
			"dispatch_orders_caused",
		},
		"a top-up that nobody planned": {ordered(
			"gas_lie", "purpose",
			planned(`'GAS', 'mint_id', 2, 'contract', '', 'to_wallet_id', 'we_tre', 'to_address', '0xwe_tre'`),
		), "dispatch_orders_caused"},
		"a place that ended at no time": {
			`UPDATE dispatch_orders SET status = 'REFUSED' WHERE order_id = 'pl_open'`, "dispatch_orders_end_dated",
		},
		"a place that nobody planned": {
			ordered("pl_lie", "purpose",
				planned(`'PLACE', 'customer_id', NULL, 'mint_id', 2, 'contract', '', 'to_address', '0xother'`)),
			"dispatch_orders_caused",
		},
		"an allowance that was not planned": {copied("al_open", `"trigger": "RESTORED"`), "dispatch_orders_caused"},
		"an allowance twice at a time":      {copied("al_open", `"trigger": "PERSON"`), "payout_allowances_one_open"},
		"a revocation beside an allowance": {
			copied("al_open", `"trigger": "PERSON", "purpose": "REVOCATION"`), "payout_allowances_one_open",
		},
		"an allowance of an address of a customer": {
			copied("al_open", `"wallet_id": "we_dep", "trigger": "RESTORED"`), "dispatch_orders_allowance",
		},
		"an allowance with an amount": {
			copied("al_open", `"amount": 1, "trigger": "RESTORED"`), "dispatch_orders_positive",
		},
		"an allowance of no token": {
			copied("al_open", `"mint_id": 2, "contract": "", "trigger": "RESTORED"`), "dispatch_orders_purpose_known",
		},
		"a token account that was not planned": {
			copied("ta_open", `"trigger": "RESTORED"`), "dispatch_orders_caused",
		},
		"a token account twice at a time": {copied("ta_open", `"trigger": "PERSON"`), "token_accounts_one_open"},
		"a token account of an address of a customer": {
			copied("ta_open", `"to_wallet_id": "we_dep", "to_address": "0xwe_dep", "trigger": "RESTORED"`),
			"dispatch_orders_token_account",
		},
		"a token account of a stranger": {
			copied("ta_open", `"to_address": "0xstranger", "trigger": "RESTORED"`), "dispatch_orders_to_own",
		},
		"a token account that an address pays": {
			copied("ta_open", `"wallet_id": "we_dep", "trigger": "RESTORED"`), "dispatch_orders_token_account",
		},
		"a token account with an amount": {
			copied("ta_open", `"amount": 1, "trigger": "RESTORED"`), "dispatch_orders_positive",
		},
		"a token account of no token": {
			copied("ta_open", `"mint_id": 2, "contract": "", "trigger": "RESTORED"`), "dispatch_orders_purpose_known",
		},
		"a token account of a checkout's own address": {
			`INSERT INTO token_accounts SELECT 'we_cosol', mint_id, org_id, now() FROM token_accounts`,
			"token_accounts_shared",
		},
		"a token account of no token of its chain": {
			`INSERT INTO token_accounts SELECT wallet_id, 1, org_id, now() FROM token_accounts`,
			"token_accounts_shared",
		},
		"a merge that nobody planned": {
			copied("mg_open", `"to_wallet_id": "we_brest", "to_address": "0xwe_brest", "trigger": "RESTORED"`),
			"dispatch_orders_caused",
		},
		"a merge that gives its coins to others": {`INSERT INTO dispatch_slots (wallet_id, chain, nonce, slot_key, org_id, order_id, gas_reserved, created_at)
			SELECT wallet_id, chain, 1, 'tx_dep_sats:0:100:0xwe_btre 0xwe_bnext', org_id, order_id, 0, created_at FROM dispatch_orders WHERE order_id = 'mg_open';
			UPDATE dispatch_accounts SET next_nonce = 2 WHERE wallet_id = 'we_btre';
			UPDATE utxos SET status = 'RESERVED', order_id = 'mg_open' WHERE outpoint = 'tx_dep_sats:0';
			UPDATE dispatch_orders SET status = 'SLOTTED' WHERE order_id = 'mg_open'`, "dispatch_slots_consolidated"},
		"a merge into an address of a customer": {
			copied("mg_open", `"to_wallet_id": "we_bdep", "to_address": "0xwe_bdep", "trigger": "RESTORED"`),
			"dispatch_orders_to_role",
		},
		"a sweep to another address of ours": {
			copied("sw_open", `"to_wallet_id": "we_own", "to_address": "0xwe_own", "trigger": "RESTORED"`),
			"dispatch_orders_to_role",
		},
		"an order in the slot of an order that has none": {
			`UPDATE dispatch_orders SET status = 'SLOTTED', tx_lead_id = 'al_open' WHERE order_id = 'cl_open'`,
			"dispatch_orders_slotted",
		},
		"a close that nobody planned": {ordered(
			"cl_lie",
			"purpose",
			planned(`'CLOSE', 'customer_id', NULL, 'from_wallet_id', 'we_own', 'wallet_id', 'we_tre', 'to_wallet_id',
				'we_tre', 'to_address', '0xwe_tre', 'mint_id', 1, 'contract', '`+tokenContract+`'`),
		), "dispatch_orders_caused"},
		"a close of the treasury's own": {
			copied("cl_open", `"from_wallet_id": "we_tre", "wallet_id": "we_dep"`), "dispatch_orders_from_role",
		},
		"a sweep from another address": {
			`UPDATE dispatch_orders SET from_wallet_id = 'we_tre' WHERE order_id = 'sw_open'`,
			"dispatch_orders_payment_fixed",
		},
		"a close that somebody else gets": {
			copied("cl_open", `"to_wallet_id": "we_dep", "to_address": "0xwe_dep", "trigger": "RESTORED"`),
			"dispatch_orders_to_role",
		},
		"a slot of an order in the queue": {`INSERT INTO dispatch_slots SELECT wallet_id, chain, (SELECT max(next_nonce) FROM dispatch_accounts), org_id, order_id, 0, created_at
			FROM dispatch_orders WHERE order_id = 'wd_queued'`, "dispatch_slots_counted"},
		"a hole in the nonces": {
			`UPDATE dispatch_accounts SET next_nonce = next_nonce + 5`, "dispatch_accounts_slotted",
		},

		"an event told anew": {`UPDATE events SET data = ''`, "events_fixed"},
		"a freeze lifted behind everybody's back": {
			`UPDATE freezes SET lifted_at = now(), lifted_by = 'me'`, "freezes_lift_told",
		},
		"a key that was rolled": {
			`UPDATE api_keys SET rolled_at = now(); UPDATE api_keys SET rolled_at = NULL`, "api_keys_fixed",
		},
		"a journal that was not imported": {
			`UPDATE signer_identity SET imported_seq = 99`, "signer_identity_imported",
		},

		"a posting between two mints": {
			`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
			SELECT d.org_id, d.mint_id, d.account_id, c.account_id, 1, 'WITHDRAWAL_HOLD', 'wd_lie', 0, now()
			FROM ledger_accounts d, ledger_accounts c WHERE (d.mint_id, d.kind, c.mint_id, c.kind) = (1, 'CUSTODY', 2, 'CUSTODY')`,
			"ledger_transfers_accounts",
		},
		"a posting of somebody else's accounts": {
			`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
			SELECT 'org_none', d.mint_id, d.account_id, c.account_id, 1, 'WITHDRAWAL_HOLD', 'wd_lie', 0, now()
			FROM ledger_accounts d, ledger_accounts c WHERE (d.mint_id, d.kind, c.mint_id, c.kind) = (1, 'CUSTODY', 1, 'WITHDRAWING')`,
			"ledger_transfers_accounts",
		},
		"a credit out of the custody of another mint": {
			`UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = 'dep_waits';
			INSERT INTO ledger_transfers
				(org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
			SELECT p.org_id, p.mint_id, d.account_id, c.account_id, p.amount, 'DEPOSIT', p.deposit_id, 0, now()
			FROM deposits p, ledger_accounts d, ledger_accounts c
			WHERE p.deposit_id = 'dep_waits'
				AND (d.mint_id, d.kind) = (2, 'CUSTODY')
				AND (c.mint_id, c.kind, c.subject) = (p.mint_id, 'CUSTOMER', p.customer_id)`,
			"ledger_transfers_of_cause",
		},
		"a credit into another organization's account of the same name": {
			`UPDATE deposits SET status = 'CREDITED', credited_at = now() WHERE deposit_id = 'dep_waits';
			INSERT INTO organizations (org_id, name, created_at) VALUES ('org_alike', 'Alike', now());
			INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, created_at)
			SELECT 'org_alike', mint_id, 'CUSTOMER', customer_id, now() FROM deposits WHERE deposit_id = 'dep_waits';
			INSERT INTO ledger_transfers
				(org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
			SELECT p.org_id, p.mint_id, d.account_id, c.account_id, p.amount, 'DEPOSIT', p.deposit_id, 0, now()
			FROM deposits p, ledger_accounts d, ledger_accounts c
			WHERE p.deposit_id = 'dep_waits' AND (d.org_id, d.mint_id, d.kind) = (p.org_id, p.mint_id, 'CUSTODY')
				AND (c.org_id, c.mint_id, c.kind) = ('org_alike', p.mint_id, 'CUSTOMER')`,
			"ledger_transfers_of_cause",
		},
		"funds on a wallet that is missing": {
			`INSERT INTO address_funds (wallet_id, mint_id, org_id)
			SELECT 'we_none', 1, org_id FROM wallets LIMIT 1`,
			"address_funds_wallet",
		},
		"funds on a wallet that is missing, among those of all wallets": {
			`INSERT INTO address_funds (wallet_id, mint_id, org_id) SELECT wallet_id, 2, org_id FROM wallets
			UNION ALL SELECT 'we_none', 1, min(org_id) FROM wallets ON CONFLICT DO NOTHING`,
			"address_funds_wallet",
		},
		"funds of another organization": {
			`INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
			SELECT 'we_new', org_id, family, purpose, 'new', path, '0xnew', proof, now()
			FROM wallets WHERE wallet_id = 'we_dep';
			INSERT INTO address_funds (wallet_id, mint_id, org_id) VALUES ('we_new', 1, 'org_none')`,
			"address_funds_wallet",
		},
		"funds of a mint that does not exist": {
			`INSERT INTO address_funds (wallet_id, mint_id, org_id)
			SELECT wallet_id, 999, org_id FROM wallets WHERE wallet_id = 'we_dep'`,
			"address_funds_mint_id_fkey",
		},
		"an event for nobody": {
			`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at)
			VALUES ('evt_lie', 'org_none', 'CUSTOMER_DEPOSIT', 'DEPOSIT', 'dep_lie', 1, '', now())`,
			"events_organization",
		},
		"an entry of the audit log for nobody": {`INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id)
			VALUES ('org_none', now(), 'SYSTEM', 'me', 'lie', 'LIE', 'lie')`, "audit_log_organization"},
		"an operator's key for another": {`INSERT INTO operator_keys VALUES ('opk_1', 'ann', sha256('a'), now(), NULL), ('opk_2', 'bob', sha256('b'), now(), now());
			UPDATE operator_keys SET revoked_at = NULL WHERE key_id = 'opk_2'`, "operator_keys_fixed"},
		"two keys of one operator": {
			`INSERT INTO operator_keys VALUES ('opk_1', 'ann', sha256('a'), now(), NULL), ('opk_2', 'ann', sha256('b'), now(), NULL)`,
			"operator_keys_one_live",
		},
	} {
		sql := strings.ReplaceAll(c.sql, "written_columns", columns)
		err := h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want a violation of %s", name, err, c.constraint)
		}
	}
	if r, err := RunChecks(t.Context(), h.db); err != nil || !r.IsIntact() {
		t.Errorf("after all of it: got %+v %v, want no breach", r.Breaches, err)
	}
}

// No role deletes rows to which others refer without a foreign key.
func TestWhatIsReferredToStays(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	owner := pgtest.OwnerPool(t, h.db)
	for sql, constraint := range map[string]string{
		`DELETE FROM organizations`:                     "organizations_append_only",
		`DELETE FROM internal_orders`:                   "internal_orders_append_only",
		`UPDATE internal_orders SET trigger = 'PERSON'`: "internal_orders_append_only",
		`UPDATE organizations SET org_id = 'other'`:     "organizations_append_only",
		`DELETE FROM customers`:                         "customers_append_only",
		`UPDATE customers SET customer_id = 'x'`:        "customers_append_only",
		`DELETE FROM mints`:                             "mints_append_only",
		`DELETE FROM withdrawals`:                       "withdrawals_append_only",
		`UPDATE mints SET mint_id = mint_id + 1`:        "mints_append_only",
		`DELETE FROM ledger_accounts`:                   "ledger_accounts_append_only",
	} {
		if _, err := owner.Exec(t.Context(), sql); !pg.ViolatesConstraint(err, constraint) {
			t.Errorf("%s: got %v, want a violation of %s", sql, err, constraint)
		}
	}
	for _, lie := range []string{`mint_id, 1, 'CUSTODIAL', NULL, 'nobody'`, `9999, 1, 'CUSTODIAL', 'CHECKOUT', NULL`} {
		err := h.db.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_product, to_product, to_customer, created_at)
				SELECT 'tr_lie', org_id, 'key of a lie', '', `+lie+`, now() FROM withdrawals LIMIT 1`)
			return err
		})
		if !pg.ViolatesConstraint(err, "transfers_parties") {
			t.Errorf("a transfer of %s: got %v, want a violation of transfers_parties", lie, err)
		}
	}
}

// Rule TR-13. A transfer whose posting is missing, or belongs to another, is not committed.
func TestATransferIsCommittedOnlyWithItsPosting(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for _, posted := range []string{"", "tr_other"} {
		err := h.db.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount,
					from_product, to_product, created_at)
				VALUES ('tr_bare', $1, 'bare', '', 1, 1, 'CUSTODIAL', 'CHECKOUT', now())`, h.org)
			if err != nil || posted == "" {
				return err
			}
			_, err = tx.Exec(ctx, `
				INSERT INTO ledger_transfers
					(org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
				SELECT org_id, mint_id, debit_account, credit_account, 1, 'TRANSFER', $1, 0, now()
				FROM ledger_transfers WHERE cause_kind = 'TRANSFER' LIMIT 1`, posted)
			return err
		})
		if want := "transfers_posted"; posted == "" && !pg.ViolatesConstraint(err, want) {
			t.Errorf("without a posting: got %v, want a violation of %s", err, want)
		}
		if posted != "" && err == nil {
			t.Error("with the posting of another: got no error")
		}
	}
}

// A role may not write what it never writes.
func TestARoleMayWriteWhatItsWorkNeeds(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	app := func(ctx context.Context, fn func(context.Context, pg.Tx) error) error {
		return h.db.InOrg(ctx, h.org, fn)
	}
	for name, c := range map[string]struct {
		in  func(context.Context, func(context.Context, pg.Tx) error) error
		sql string
	}{
		"an organization settles a withdrawal": {app, `UPDATE withdrawals SET tx_hash = 'x'`},
		"an organization forgives a debt":      {app, `UPDATE withdrawals SET owed = 0`},
		"an organization proves an order": {
			app, `UPDATE dispatch_orders SET proof_id = (SELECT max(proof_id) FROM finality_live)`,
		},
		"an organization writes a deposit": {app, `UPDATE deposits SET amount = 1`},
		"an organization holds more":       {app, `UPDATE address_funds SET credited = 1`},
		"an organization rewords a freeze": {app, `UPDATE freezes SET reason = ''`},
		"an organization numbers an event": {
			app,
			`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body) SELECT 'e', org_id, type, resource_kind, 'r', 1, data, now(), 99, '' FROM events LIMIT 1`,
		},
		"the system gives funds to another": {h.db.InSystem, `UPDATE address_funds SET org_id = 'org_b'`},
		"the system begins with funds": {
			h.db.InSystem,
			`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited) SELECT wallet_id, 2, org_id, 5 FROM wallets`,
		},
		"the system narrows a freeze":           {h.db.InSystem, `UPDATE freezes SET chain = 'NONE'`},
		"the system gives a key to another":     {h.db.InSystem, `UPDATE api_keys SET org_id = 'org_b'`},
		"the system forgets what was withdrawn": {h.db.InSystem, `DELETE FROM withdrawals`},
		"an organization changes a decision":    {app, `UPDATE withdrawal_decisions SET note = 'x'`},
		"an organization numbers a decision": {
			app,
			`INSERT INTO withdrawal_decisions (decision_id, org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id) OVERRIDING SYSTEM VALUE SELECT 1, org_id, withdrawal_id, now(), 'CANCELLED', 'CANCELLED', '{}', '[]', 'USER', 'u' FROM withdrawals`,
		},
		"the system forgets a decision": {h.db.InSystem, `DELETE FROM withdrawal_decisions`},
		"the system forgets a slot":     {h.db.InSystem, `DELETE FROM dispatch_slots`},

		"an organization looks at the operators": {app, `SELECT hash FROM operator_keys`},
		"an organization makes an operator": {
			app, `INSERT INTO operator_keys VALUES ('opk_1', 'ann', sha256('a'), now(), NULL)`,
		},
		"the system renames an operator": {h.db.InSystem, `UPDATE operator_keys SET name = 'mallory'`},
		"the system forgets an operator": {h.db.InSystem, `DELETE FROM operator_keys`},
	} {
		err := c.in(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		if refused, ok := errors.AsType[*pgconn.PgError](err); !ok || refused.Code != "42501" {
			t.Errorf("%s: got %v, want no privilege", name, err)
		}
	}
}
