package verify

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
)

// payouts adds batches: one that is being paid, with a paid row, a row that waits and one that is refused; one
// that waits for its approval, and one that does so without a row that it leaves out; one that is invalid; one of
// which nothing could be paid; and one like it that needed no person.
func (h *testEnv) payouts(
	ordered func(id, purpose, wallet string, to *string, mintID, amount int, status string, fee, gasReserved int),
) {
	h.t.Helper()
	u := func(n int) money.Amount { return money.Units(uint64(n)) }
	product, held := h.account(1, ledger.Product, ledger.BatchProduct), h.account(1, ledger.BatchHeld,
		ledger.BatchProduct)
	h.exec(`INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_product,
		to_product, created_at) VALUES ('tr_batch', $1, 'kb', '', 1, 23, 'CHECKOUT', 'BATCH_PAYOUT', now())`, h.org)
	h.post(ledger.Transfer, "tr_batch", ledger.Leg{
		Debit: h.account(1, ledger.Product, "CHECKOUT"), Credit: product, Amount: u(23),
	})
	h.insertEvent("TRANSFER_COMPLETED", "tr_batch", 1, 0)
	h.recordAudit("transfer.made", "tr_batch")
	for _, b := range []struct {
		id, status string
		amounts    []int
	}{
		{"bp_run", "PROCESSING", []int{7, 5, 4}},
		{"bp_wait", "AWAITING_APPROVAL", []int{3}},
		{"bp_bad", "INVALID", []int{2}},
		{"bp_fail", "FAILED", []int{2}},
		{"bp_part", "AWAITING_APPROVAL", []int{3, 2}},
		{"bp_auto", "FAILED", []int{2}},
	} {
		sum := 0
		h.exec(`
			INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
				request_digest, maker_kind, maker_id, created_at, status, submitter_kind, submitter_id, submitted_at,
				approvals_required, request_mac, look_at, updated_at)
			VALUES ($1::text, $2, 2, 'STRICT', $3, sha256(convert_to($1, 'UTF8')), sha256(convert_to($1, 'UTF8')),
				'{}', '', 'API_KEY', 'key_1', now(),
				'VALIDATING', 'USER', 'usr_maker', now(), 1, 'mac', now(), now())`, b.id, h.org, len(b.amounts))
		for i, amount := range b.amounts {
			h.exec(`INSERT INTO payout_items (batch_id, row_no, org_id, line, salt, mint_id, chain, contract,
				to_address,
				amount, customer_id, reference, checked_at)
				VALUES ($1, $2, $3, $2, '0123456789abcdef', 1, 'ETHEREUM', $4, '0xsomebody', $5, '', '', now())`,
				b.id, i+1, h.org, tokenContract, amount)
			sum += amount
		}
		h.post(ledger.BatchHold, b.id+"/1", ledger.Leg{Debit: product, Credit: held, Amount: u(sum)})
		h.recordAudit("payout.created", b.id)
		h.recordAudit("payout.submitted", b.id)
		release := ledger.Leg{Debit: held, Credit: product}
		switch b.status {
		case "INVALID":
			h.exec(`UPDATE payout_items SET checked_at = NULL, refused = 'no' WHERE batch_id = $1`, b.id)
			h.exec(`UPDATE payout_batches SET version = 3, status = $2, look_at = NULL, ended_at = now(), problem = 'no'
				WHERE batch_id = $1`, b.id, b.status)
			release.Amount = u(sum)
			h.post(ledger.BatchRelease, b.id+"/1", release)
			h.recordAudit("payout.invalid", b.id)
		case "AWAITING_APPROVAL":
			h.exec(`UPDATE payout_batches SET version = 3, status = $2, look_at = NULL WHERE batch_id = $1`, b.id,
				b.status)
			if b.id == "bp_part" {
				h.exec(`UPDATE payout_batches SET mode = 'PARTIAL' WHERE batch_id = $1`, b.id)
				h.exec(`UPDATE payout_items SET included = false, refused = 'no', checked_at = NULL
					WHERE batch_id = $1 AND row_no = 2`, b.id)
				release.Amount = u(b.amounts[1])
				h.post(ledger.BatchRelease, b.id+"/excluded/1", release)
			}
		case "PROCESSING", "FAILED":
			h.exec(`INSERT INTO payout_approvals VALUES ($2, $1::text, 'USER', 'usr_a', now(), sha256(convert_to($1,
				'UTF8')), 'mac')`, b.id,
				h.org)
			h.exec(`UPDATE payout_batches SET version = 4, status = 'PROCESSING', approved_at = now()
				WHERE batch_id = $1`, b.id)
			h.recordAudit("payout.approved", b.id)
			if b.id == "bp_auto" {
				h.exec(`DELETE FROM payout_approvals WHERE batch_id = $1`, b.id)
				h.exec(`UPDATE payout_batches SET approvals_required = 0, auto_below = 500, auto_value = 2.5
					WHERE batch_id = $1`, b.id)
				h.exec(`UPDATE audit_log SET detail = '{"setting": "batchAutoApproveUsd", "below": "500.00",
					"value": "2.5"}' WHERE resource_id = $1 AND action = 'payout.approved'`, b.id)
			}
			last := len(b.amounts)
			h.exec(`UPDATE payout_items SET refused = 'no' WHERE batch_id = $1 AND row_no = $2`, b.id, last)
			release.Amount = u(b.amounts[last-1])
			h.post(ledger.BatchRelease, fmt.Sprintf("%s/row/%d", b.id, last), release)
		}
	}
	h.exec(`UPDATE payout_batches SET version = 5, status = 'FAILED', ended_at = now(), look_at = NULL
		WHERE batch_id IN ('bp_fail', 'bp_auto')`)
	h.recordAudit("payout.failed", "bp_fail")
	h.recordAudit("payout.failed", "bp_auto")
	h.exec(`
		INSERT INTO withdrawals (withdrawal_id, org_id, product, mint_id, chain, amount, to_address, idempotency_key,
			request_digest, status, requires_approval, approval_reasons, tx_hash, created_at, broadcast_at, fee_mode,
			approvals_required, request_mac, batch_id, batch_row)
		VALUES ('wd_bp', $1, 'BATCH_PAYOUT', 1, 'ETHEREUM', 7, '0xsomebody', 'batch bp_run:1', '', 'COMPLETED',
			false, '{}', 'hash_wd_bp', now(), now(), 'ORGANIZATION', 0, 'mac', 'bp_run', 1)`, h.org)
	for _, act := range []string{"requested", "broadcast", "completed"} {
		h.recordAudit("withdrawal."+act, "wd_bp")
	}
	h.exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind,
		actor_id)
		VALUES ($1, 'wd_bp', now(), 'REQUESTED', 'PROCESSING', '{}', '[]', 'SYSTEM', 'payout')`, h.org)
	for i, e := range []string{"", "_COMPLETED"} {
		h.insertEvent("ORGANIZATION_WITHDRAW"+e, "wd_bp", i+1, 0)
	}
	withdrawing := h.account(1, ledger.ProductWithdrawing, ledger.BatchProduct)
	h.post(ledger.WithdrawalHold, "wd_bp", ledger.Leg{Debit: held, Credit: withdrawing, Amount: u(7)})
	h.post(ledger.WithdrawalEnd, "wd_bp", ledger.Leg{
		Debit: withdrawing, Credit: h.account(1, ledger.Custody, ""), Amount: u(7),
	})
	ordered("wd_bp", "PAYMENT", "we_tre", nil, 1, 7, "PAID", 3, 9)
	h.exec(`UPDATE dispatch_orders SET customer_id = NULL, product = 'BATCH_PAYOUT',
		batch = jsonb_build_object('batchId',
		'bp_run', 'row', 1, 'contentHash', 'sha256:' || encode(sha256('bp_run'), 'hex')) WHERE order_id = 'wd_bp'`)
}

// payoutTamperings are the tamperings of batch payouts, see tamperings.
var payoutTamperings = []tampering{
	{"I-87", "a row that is missing", []string{`DELETE FROM payout_items WHERE batch_id = 'bp_run' AND row_no = 2`}},
	{"I-87", "a row that was added", []string{
		`INSERT INTO payout_items SELECT batch_id, 4, org_id, line, salt, mint_id, chain, contract, to_address, amount,
			customer_id, reference, checked_at, 'no' FROM payout_items WHERE batch_id = 'bp_run' AND row_no = 1`,
	}},
	{"I-87", "a row with another address", []string{
		`UPDATE payout_items SET to_address = '0xmallory' WHERE batch_id = 'bp_run' AND row_no = 1`,
	}},
	{"I-87", "a payment of another amount", []string{`UPDATE withdrawals SET amount = 8
		WHERE withdrawal_id = 'wd_bp'`}},
	{"I-87", "a payment of another product", []string{
		`ALTER TABLE withdrawals DROP CONSTRAINT withdrawals_of_one`,
		`UPDATE withdrawals SET product = 'CHECKOUT' WHERE withdrawal_id = 'wd_bp'`,
	}},
	{"I-87", "a payment of a row of another batch", []string{
		`UPDATE withdrawals SET batch_id = 'bp_wait' WHERE withdrawal_id = 'wd_bp'`,
	}},
	{"I-87", "a payment of a refused row", []string{
		`UPDATE payout_items SET refused = 'no' WHERE batch_id = 'bp_run' AND row_no = 1`,
	}},
	{"I-87", "a row that a STRICT batch leaves out", []string{
		`UPDATE payout_batches SET mode = 'STRICT' WHERE batch_id = 'bp_part'`,
	}},
	{"I-87", "a payment of a row that is left out", []string{
		`UPDATE payout_items SET included = false, refused = 'no', checked_at = NULL
			WHERE batch_id = 'bp_run' AND row_no = 1`,
	}},
	{"I-87", "a second payment", []string{
		`DROP INDEX withdrawals_batch_once`,
		`INSERT INTO withdrawals (withdrawal_id, org_id, product, mint_id, chain, amount, to_address, request_digest,
			status, requires_approval, approval_reasons, tx_hash, created_at, batch_id, batch_row)
		 SELECT 'wd_lie', org_id, product, mint_id, chain, amount, to_address, request_digest, status,
			requires_approval,
			approval_reasons, tx_hash, created_at, batch_id, batch_row FROM withdrawals WHERE withdrawal_id = 'wd_bp'`,
	}},
	{"I-87", "a batch without approvals", []string{`DELETE FROM payout_approvals WHERE batch_id = 'bp_run'`}},
	{"I-87", "a batch without approvals that needed some", []string{
		`DELETE FROM payout_approvals WHERE batch_id = 'bp_run'`,
		`UPDATE payout_batches SET approvals_required = 0, auto_below = 500, auto_value = 2.5
			WHERE batch_id = 'bp_run'`,
	}},
	{"I-87", "a batch that needed no person by another amount", []string{
		`UPDATE payout_batches SET auto_below = 600 WHERE batch_id = 'bp_auto'`,
	}},
	{"I-87", "an approval by the maker", []string{
		`UPDATE payout_batches SET maker_kind = 'USER', maker_id = 'usr_a' WHERE batch_id = 'bp_run'`,
	}},
	{"I-87", "an approval by who submitted it", []string{
		`INSERT INTO payout_approvals SELECT org_id, batch_id, 'USER', 'usr_maker', at, content_hash, mac
			FROM payout_approvals
		 WHERE batch_id = 'bp_run'`,
	}},
	{"I-87", "an approval of another hash", []string{
		`UPDATE payout_approvals SET content_hash = sha256('lie') WHERE batch_id = 'bp_run'`,
	}},
	{"I-87", "an order of another row", []string{
		`UPDATE dispatch_orders SET batch = jsonb_set(batch, '{row}', '2') WHERE order_id = 'wd_bp'`,
	}},
	{"I-87", "an order under another hash", []string{
		`UPDATE dispatch_orders SET batch = jsonb_set(batch, '{contentHash}', '"sha256:00"') WHERE order_id = 'wd_bp'`,
	}},
	{"I-87-together", "a payment of no batch in the transaction of another", []string{
		`UPDATE dispatch_orders SET tx_lead_id = 'wd_bp' WHERE order_id = (SELECT min(order_id) FROM dispatch_orders
			WHERE purpose = 'PAYMENT' AND chain = 'ETHEREUM' AND batch IS NULL AND order_id > 'wd_bp')`,
	}},
	{"I-87-together", "a row in the transaction of a payment of no batch", []string{
		`ALTER TABLE dispatch_orders DROP CONSTRAINT dispatch_orders_tx_lead_before`,
		`UPDATE dispatch_orders SET tx_lead_id = (SELECT min(order_id) FROM dispatch_orders
			WHERE purpose = 'PAYMENT' AND chain = 'ETHEREUM' AND batch IS NULL) WHERE order_id = 'wd_bp'`,
	}},
	{"I-87-ended", "completed, and a row is open", []string{
		`UPDATE payout_batches SET status = 'COMPLETED', ended_at = now(), look_at = NULL WHERE batch_id = 'bp_run'`,
	}},
	{"I-87-ended", "cancelled, and a row is open", []string{
		`UPDATE payout_batches SET status = 'CANCELLED', ended_at = now(), look_at = NULL, stopped_at = now(),
			stopper_kind = 'USER', stopper_id = 'usr_a' WHERE batch_id = 'bp_run'`,
	}},
	{"I-87-ended", "completed, and nothing is paid", []string{
		`UPDATE payout_batches SET status = 'COMPLETED' WHERE batch_id = 'bp_fail'`,
	}},
	{"I-88", "a row of another amount", []string{
		`UPDATE payout_items SET amount = 6 WHERE batch_id = 'bp_run' AND row_no = 2`,
	}},
	{"I-88", "a row that is left out and held", []string{
		`UPDATE payout_items SET included = false, refused = 'no', checked_at = NULL
			WHERE batch_id = 'bp_part' AND row_no = 1`,
	}},
	{"I-88", "a batch that ended and is held", []string{
		`UPDATE payout_batches SET status = 'CANCELLED', ended_at = now() WHERE batch_id = 'bp_wait'`,
	}},
	{"I-88-posted", "a hold removed", []string{`DELETE FROM ledger_transfers WHERE cause_kind = 'BATCH_HOLD'`}},
	{"I-88-posted", "a hold of another amount", []string{
		`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_kind = 'BATCH_HOLD' AND cause_id = 'bp_wait/1'`,
	}},
	{"I-88-posted", "a row that is left out without a release", []string{
		`DELETE FROM ledger_transfers WHERE cause_id = 'bp_part/excluded/1'`,
	}},
	{"I-88-posted", "a release of a waiting batch", []string{
		`UPDATE ledger_transfers SET cause_id = 'bp_wait/1' WHERE cause_kind = 'BATCH_RELEASE'
			AND cause_id = 'bp_bad/1'`,
	}},
	{"I-88-posted", "a release of a row that waits", []string{
		`UPDATE ledger_transfers SET cause_id = 'bp_run/row/2' WHERE cause_id = 'bp_run/row/3'`,
	}},
	{"I-40", "a batch that no one recorded", []string{`DELETE FROM audit_log WHERE resource_id = 'bp_wait'`}},
	{"I-18-ended", "a row paid by the product", []string{
		`UPDATE ledger_transfers SET debit_account = (SELECT account_id FROM ledger_accounts WHERE kind = 'PRODUCT'
			AND subject = 'BATCH_PAYOUT' AND mint_id = 1)
		 WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = 'wd_bp'`,
	}},
}
