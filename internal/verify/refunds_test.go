package verify

import (
	"context"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// refunds adds a payment of a checkout, of which one refund waits for its address, one was paid and one was cancelled.
func (h *testEnv) refunds(
	ordered func(id, purpose, wallet string, to *string, mintID, amount int, status string, fee, gasReserved int),
) {
	h.t.Helper()
	u := func(n int) money.Amount { return money.Units(uint64(n)) }
	h.exec(`UPDATE checkout_payments SET refunding = 5, refunded = 6 WHERE deposit_id = 'dep_co'`)
	product, owed := h.account(1, ledger.Product, "CHECKOUT"), h.account(1, ledger.RefundOwed, "CHECKOUT")
	for _, r := range []struct {
		id, status string
		amount     int
	}{{"ref_open", "AWAITING_ADDRESS", 5}, {"ref_done", "COMPLETED", 6}, {"ref_gone", "CANCELLED", 4}} {
		h.exec(`
			INSERT INTO refunds (refund_id, org_id, version, checkout_id, mint_id, amount, kind, fee_mode,
				request_digest,
				requester_kind, requester_id, created_at, expires_at, status, to_address, attempt, withdrawal_id,
					key_hash,
				key_version, look_at, completed_at, updated_at)
			SELECT $1::text, $2, 1, 'co_paid', 1, $4, 'AMOUNT', 'ORGANIZATION', '', 'USER', 'usr_maker', now(),
				now(), $3,
				CASE WHEN c THEN '0xsomebody' END, 1, CASE WHEN c THEN 'wd_ref' END, sha256($1::bytea), 1,
				CASE WHEN $3 = 'AWAITING_ADDRESS' THEN now() END, CASE WHEN c THEN now() END, now()
			FROM (SELECT $3 = 'COMPLETED' AS c) x`, r.id, h.org, r.status, r.amount)
		h.exec(`INSERT INTO refund_parts (refund_id, deposit_id, org_id, amount) VALUES ($1, 'dep_co', $2,
			$3)`, r.id, h.org,
			r.amount)
		h.recordAudit("refund.requested", r.id)
		h.post(ledger.RefundHold, r.id, ledger.Leg{Debit: product, Credit: owed, Amount: u(r.amount)})
	}
	h.post(ledger.RefundRelease, "ref_gone", ledger.Leg{Debit: owed, Credit: product, Amount: u(4)})
	h.recordAudit("refund.cancelled", "ref_gone")
	h.exec(`
		INSERT INTO withdrawals (withdrawal_id, org_id, product, mint_id, chain, amount, to_address, idempotency_key,
			request_digest, status, requires_approval, approval_reasons, tx_hash, created_at, broadcast_at, fee_mode,
			approvals_required, request_mac, refund_id)
		VALUES ('wd_ref', $1, 'CHECKOUT', 1, 'ETHEREUM', 6, '0xsomebody', 'refund ref_done:1', '', 'COMPLETED',
			false, '{}',
			'hash_wd_ref', now(), now(), 'ORGANIZATION', 0, 'mac', 'ref_done')`, h.org)
	for _, act := range []string{"requested", "broadcast", "completed"} {
		h.recordAudit("withdrawal."+act, "wd_ref")
	}
	h.exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind,
		actor_id)
		VALUES ($1, 'wd_ref', now(), 'REQUESTED', 'PROCESSING', '{}', '[]', 'USER', 'usr_maker')`, h.org)
	for i, e := range []string{"", "_COMPLETED"} {
		h.insertEvent("ORGANIZATION_WITHDRAW"+e, "wd_ref", i+1, 0)
	}
	withdrawing := h.account(1, ledger.ProductWithdrawing, "CHECKOUT")
	h.post(ledger.WithdrawalHold, "wd_ref", ledger.Leg{Debit: owed, Credit: withdrawing, Amount: u(6)})
	h.post(ledger.WithdrawalEnd, "wd_ref", ledger.Leg{
		Debit: withdrawing, Credit: h.account(1, ledger.Custody, ""), Amount: u(6),
	})
	ordered("wd_ref", "PAYMENT", "we_tre", nil, 1, 6, "PAID", 3, 9)
	h.exec(`UPDATE dispatch_orders SET customer_id = NULL, product = 'CHECKOUT',
		refund = '{"refundId": "ref_done", "checkoutId": "co_paid"}' WHERE order_id = 'wd_ref'`)
	for _, act := range []string{"sent", "completed"} {
		h.recordAudit("refund."+act, "ref_done")
	}
	h.automaticRefunds()
}

// automaticRefunds adds the refund of the late payment that a person accepted afterwards, so that it was taken back.
func (h *testEnv) automaticRefunds() {
	h.t.Helper()
	refundID := id.Derive("ref", h.org, "co_less", "1", "PAID_LATE")
	h.exec(`UPDATE checkouts SET late_policy = 'REFUND_LINK' WHERE checkout_id = 'co_less'`)
	h.exec(`
		INSERT INTO refunds (refund_id, org_id, version, checkout_id, mint_id, amount, kind, fee_mode, request_digest,
			requester_kind, requester_id, created_at, expires_at, status, attempt, key_version, updated_at)
		VALUES ($1, $2, 1, 'co_less', 1, 4, 'FULL', 'ORGANIZATION', '', 'SYSTEM', 'checkout', now(), now(), 'CANCELLED',
			0, 0, now())`, refundID, h.org)
	h.exec(`INSERT INTO refund_parts (refund_id, deposit_id, org_id, amount) VALUES ($1, 'dep_tardy', $2, 4)`, refundID,
		h.org)
	h.exec(`INSERT INTO automatic_refunds (checkout_id, mint_id, cause, org_id, refund_id)
		VALUES ('co_less', 1, 'PAID_LATE', $2, $1)`, refundID, h.org)
	h.exec(`INSERT INTO refund_turns (checkout_id, org_id, updated_at) VALUES ('co_less', $1, now())`, h.org)
	product, owed := h.account(1, ledger.Product, "CHECKOUT"), h.account(1, ledger.RefundOwed, "CHECKOUT")
	h.post(ledger.RefundHold, refundID, ledger.Leg{Debit: product, Credit: owed, Amount: money.Units(4)})
	h.post(ledger.RefundRelease, refundID, ledger.Leg{Debit: owed, Credit: product, Amount: money.Units(4)})
	for _, act := range []string{"requested", "cancelled"} {
		h.recordAudit("refund."+act, refundID)
	}
}

// links adds a payment link, through which one of the checkouts was sold.
func (h *testEnv) links() {
	h.t.Helper()
	items := []map[string]any{{"productId": "prod_gold", "quantity": nil, "quantityMin": 1, "quantityMax": 2}}
	h.exec(`
		INSERT INTO payment_links (link_id, org_id, version, slug, status, line_items, max_completed, expires_at,
			request_digest, created_at, updated_at)
		VALUES ('link_tin', $1, 2, 'tin-can', 'ACTIVE', $2, 5, now() + interval '1 day', '', now() - interval '2 hours',
			now() - interval '2 hours')`, h.org, items)
	h.exec(`UPDATE checkouts SET link_id = 'link_tin' WHERE checkout_id = 'co_shared'`)
	for _, entry := range []struct {
		action string
		detail map[string]any
	}{
		{"created", map[string]any{"slug": "tin-can", "lineItems": items, "maxCompleted": 1}},
		{"changed", map[string]any{
			"from": map[string]any{"maxCompleted": 1}, "to": map[string]any{"maxCompleted": 5},
		}},
	} {
		h.system(func(ctx context.Context, tx pg.Tx) error {
			return audit.Record(ctx, tx, audit.Entry{
				OrgID: h.org, Actor: audit.Actor{Kind: "USER", ID: "usr_ann"}, Action: "payment_link." + entry.action,
				ResourceKind: "PAYMENT_LINK", ResourceID: "link_tin", Detail: entry.detail,
			})
		})
	}
}

// linkTamperings are the tamperings of payment links, see tamperings.
var linkTamperings = []tampering{
	{"I-82-links", "another address", []string{`UPDATE payment_links SET slug = 'tin-cap'`}},
	{"I-82-links", "another product behind an address", []string{
		`UPDATE payment_links SET line_items = jsonb_set(line_items, '{0,productId}', '"prod_old"')`,
	}},
	{"I-82-links", "a sale through another link", []string{
		`UPDATE checkouts SET link_id = 'link_tin' WHERE checkout_id = 'co_paid'`,
	}},
	{"I-82-links", "a sale that hides its link", []string{
		`UPDATE checkouts SET link_id = NULL WHERE checkout_id = 'co_shared'`,
	}},
	{"I-82-links", "a product that the link does not sell", []string{
		`UPDATE checkouts SET line_items = jsonb_set(line_items, '{0,productId}', '"prod_old"')
		 WHERE checkout_id = 'co_shared'`,
	}},
	{"I-82-links", "more than the link sells at once", []string{
		`UPDATE checkouts SET line_items = jsonb_set(line_items, '{0,quantity}', '3') WHERE checkout_id = 'co_shared'`,
	}},
	{"I-82-links", "less than the link sells at once", []string{
		`UPDATE checkouts SET line_items = jsonb_set(line_items, '{0,quantity}', '0') WHERE checkout_id = 'co_shared'`,
	}},
	{"I-82-links", "a further item", []string{
		`UPDATE checkouts SET line_items = line_items || line_items WHERE checkout_id = 'co_shared'`,
	}},
	{"I-82-links", "a part of what the link sells", []string{
		`UPDATE payment_links SET line_items = line_items || '[{"productId": "prod_old", "quantity": 1}]'`,
		`UPDATE audit_log SET detail = jsonb_set(detail, '{lineItems}', detail -> 'lineItems' ||
			'[{"productId": "prod_old", "quantity": 1}]')
		 WHERE resource_id = 'link_tin' AND action = 'payment_link.created'`,
	}},
	{"I-82-links", "a link of another organization", []string{`UPDATE payment_links SET org_id = 'org_other'`}},
	{"I-82-limits", "a higher limit", []string{`UPDATE payment_links SET max_completed = 6`}},
	{"I-82-limits", "no limit", []string{`UPDATE payment_links SET max_completed = NULL`}},
	{"I-82-limits", "a sale after the end", []string{
		`UPDATE payment_links SET status = 'ENDED', ended_at = now() - interval '70 minutes'`,
	}},
	{"I-82-limits", "a sale after the time of the link", []string{
		`UPDATE payment_links SET expires_at = now() - interval '70 minutes'`,
	}},
	{"I-82-limits", "a sale after the last one", []string{
		`UPDATE checkouts SET link_id = 'link_tin', completed_at = created_at + interval '1 minute'
		 WHERE checkout_id IN ('co_shared', 'co_paid', 'co_less')`,
		`UPDATE checkouts SET link_id = 'link_tin', created_at = created_at + interval '10 minutes'
		 WHERE checkout_id = 'co_ended'`,
		`UPDATE payment_links SET max_completed = 3`,
		`UPDATE audit_log SET detail = '{"slug": "tin-can", "maxCompleted": 3}' WHERE resource_id = 'link_tin'
			AND action = 'payment_link.created'`,
		`UPDATE audit_log SET detail = '{"to": {"maxCompleted": 3}}' WHERE resource_id = 'link_tin'
			AND action = 'payment_link.changed'`,
	}},
}

// automaticRefundTamperings are the tamperings of refunds by policies, see tamperings.
var automaticRefundTamperings = []tampering{
	{"I-83-automatic", "a refund that no policy made", []string{`DELETE FROM automatic_refunds`}},
	{"I-83-automatic", "a refund that is gone", []string{
		`UPDATE automatic_refunds SET refund_id = 'ref_none'`,
	}},
	{"I-83-automatic", "a refund in another coin", []string{`UPDATE automatic_refunds SET mint_id = 2`}},
	{"I-83-automatic", "a refund of another checkout", []string{
		`UPDATE automatic_refunds SET checkout_id = 'co_paid'`,
	}},
	{"I-83-automatic", "a refund of a person", []string{
		`UPDATE refunds SET requester_kind = 'USER' WHERE requester_kind = 'SYSTEM'`,
	}},
	{"I-83-automatic", "a refund for which the terms do not ask", []string{
		`UPDATE checkouts SET late_policy = 'HOLD', over_policy = 'REFUND_LINK' WHERE checkout_id = 'co_less'`,
	}},
	{"I-83-automatic", "a second one", []string{
		`ALTER TABLE automatic_refunds DROP CONSTRAINT automatic_refunds_pkey`,
		`ALTER TABLE automatic_refunds DROP CONSTRAINT automatic_refunds_one_cause`,
		`INSERT INTO automatic_refunds SELECT * FROM automatic_refunds`,
	}},
	{"I-83-automatic", "a person's refund that is the service's", []string{
		`UPDATE refunds SET requester_kind = 'SYSTEM' WHERE refund_id = 'ref_gone'`,
	}},
	{"I-83-automatic", "a checkout at which no one looks", []string{`DELETE FROM refund_turns`}},
	{"I-83-automatic", "a look at terms that ask for nothing", []string{
		`INSERT INTO refund_turns (checkout_id, org_id, updated_at) SELECT checkout_id, org_id, now() FROM checkouts
			WHERE checkout_id = 'co_paid'`,
	}},
	{"I-83-automatic", "a look for another organization", []string{`UPDATE refund_turns SET org_id = 'org_other'`}},
	{"I-83-automatic-parts", "a payment in time as a late one", []string{
		`UPDATE checkout_payments SET in_time = true WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-83-automatic-parts", "a late payment as a part", []string{`UPDATE automatic_refunds SET cause = 'UNDERPAID'`}},
	{"I-83-automatic-parts", "a surplus that is none", []string{`UPDATE automatic_refunds SET cause = 'OVERPAID'`}},
	{"I-83-automatic-parts", "another coin as a late payment", []string{
		`UPDATE checkout_payments SET is_accepted = false WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-83-automatic-parts", "a payment without a value", []string{
		`UPDATE checkout_payments SET counted = NULL, price = NULL, currency_price = NULL, price_source = NULL,
			priced_at = NULL, counts = false WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-83-automatic-id", "an id of no one", []string{`UPDATE automatic_refunds SET refund_id = 'ref_none'`}},
	{"I-83-automatic-id", "another cause", []string{`UPDATE automatic_refunds SET cause = 'UNDERPAID'`}},
}

// refundTamperings are the tamperings of refunds, see tamperings.
var refundTamperings = []tampering{
	{"I-83", "a payment that gives back more", []string{
		`UPDATE checkout_payments SET refunded = refunded + 1 WHERE deposit_id = 'dep_co'`,
	}},
	{"I-83", "a payment that forgot what it gave back", []string{
		`UPDATE checkout_payments SET refunded = 0 WHERE deposit_id = 'dep_co'`,
	}},
	{"I-83", "a payment that gives back more than arrived", []string{
		`ALTER TABLE checkout_payments DROP CONSTRAINT checkout_payments_refunds`,
		`UPDATE refund_parts SET amount = 16 WHERE refund_id = 'ref_open'`,
		`UPDATE refunds SET amount = 16 WHERE refund_id = 'ref_open'`,
		`UPDATE checkout_payments SET refunding = 16 WHERE deposit_id = 'dep_co'`,
	}},
	{"I-83", "a refund without its part", []string{`DELETE FROM refund_parts WHERE refund_id = 'ref_gone'`}},
	{"I-83", "a refund of another checkout", []string{`UPDATE refunds SET checkout_id = 'co_lie' WHERE refund_id =
		'ref_gone'`}},
	{"I-83-owed", "a refund that is owed no more", []string{`DELETE FROM refunds WHERE refund_id = 'ref_open'`}},
	{"I-83-owed", "a debt of another mint", []string{`UPDATE ledger_accounts SET mint_id = 2 WHERE kind =
		'REFUND_OWED'`}},
	{"I-83-owed", "a paid refund that is open", []string{
		`UPDATE withdrawals SET refund_id = NULL, whitelisted_address_id = 'wla_1' WHERE withdrawal_id = 'wd_ref'`,
		`UPDATE refunds SET status = 'SENT', completed_at = NULL, look_at = now() WHERE refund_id = 'ref_done'`,
	}},
	{"I-83-posted", "a hold removed", []string{`DELETE FROM ledger_transfers WHERE cause_kind = 'REFUND_HOLD'`}},
	{"I-83-posted", "a hold of another amount", []string{
		`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_kind = 'REFUND_HOLD' AND cause_id = 'ref_done'`,
	}},
	{"I-83-posted", "a release of an open refund", []string{
		`UPDATE ledger_transfers SET cause_id = 'ref_open' WHERE cause_kind = 'REFUND_RELEASE'
			AND cause_id = 'ref_gone'`,
	}},
	{"I-84", "a second payment", []string{
		`DROP INDEX withdrawals_refund_once`,
		`INSERT INTO withdrawals (withdrawal_id, org_id, product, mint_id, chain, amount, to_address,
			request_digest, status,
			requires_approval, approval_reasons, tx_hash, created_at, refund_id)
		 SELECT 'wd_lie', org_id, product, mint_id, chain, amount, to_address, request_digest, status,
			requires_approval,
			approval_reasons, tx_hash, created_at, refund_id FROM withdrawals WHERE withdrawal_id = 'wd_ref'`,
	}},
	{"I-84", "a payment to another address", []string{`UPDATE withdrawals SET to_address = '0xmallory' WHERE
		withdrawal_id = 'wd_ref'`}},
	{"I-84", "a payment of another amount", []string{`UPDATE withdrawals SET amount = 7 WHERE withdrawal_id =
		'wd_ref'`}},
	{"I-84", "a payment of a cancelled refund", []string{`UPDATE withdrawals SET refund_id = 'ref_gone' WHERE
		withdrawal_id = 'wd_ref'`}},
	{"I-84", "an order of another refund", []string{
		`UPDATE dispatch_orders SET refund = '{"refundId": "ref_gone", "checkoutId": "co_paid"}' WHERE order_id =
			'wd_ref'`,
	}},
	{"I-84", "an order of another checkout", []string{
		`UPDATE dispatch_orders SET refund = '{"refundId": "ref_done", "checkoutId": "co_lie"}' WHERE order_id =
			'wd_ref'`,
	}},
	{"I-84", "completed without a payment", []string{
		`UPDATE refunds SET status = 'COMPLETED', to_address = 'x', withdrawal_id = 'wd_x', completed_at = now(),
			look_at = NULL
		 WHERE refund_id = 'ref_open'`,
	}},
	{"I-40", "a refund that no one recorded", []string{`DELETE FROM audit_log WHERE resource_id = 'ref_open'`}},
	{"I-18-ended", "a refund paid by the product", []string{
		`UPDATE ledger_transfers SET debit_account = (SELECT account_id FROM ledger_accounts WHERE kind = 'PRODUCT'
			AND subject = 'CHECKOUT' AND mint_id = 1)
		 WHERE cause_kind = 'WITHDRAWAL_HOLD' AND cause_id = 'wd_ref'`,
	}},
}
