// Package population fills a database with the customers of an organization and with what each of
// them leaves in it: an address, balances, a deposit, a withdrawal, a transfer, a swap, a product,
// a checkout with a refund, events and their deliveries. It serves to measure what reads cost with very many customers.
//
// The service itself writes none of these rows, and no trigger or foreign key checks them, so the
// checker may find fault with them. A crash leaves nothing that outlives a test or a benchmark.
package population

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Endpoint is the webhook endpoint that received the events.
const Endpoint = "we_00000000000000000000000000"

// Customer returns the id of a customer.
func Customer(n int) string { return "crowd_" + strconv.Itoa(n) }

// ID returns the id of a customer's row of a kind, such as "dep", "wd" or "tr".
func ID(kind string, n int) string { return fmt.Sprintf("%s_%026d", kind, n) }

// Address returns a customer's address.
func Address(n int) string { return fmt.Sprintf("0x%040x", n+1) }

// Hash returns the transaction of a customer's deposit or, with another mark, withdrawal.
func Hash(mark byte, n int) string { return fmt.Sprintf("0x%c%063x", mark, n) }

// Seed adds the customers from one number to another, the latter excluded, as a superuser. Most of
// their rows are in mint 1 on Ethereum; some things are rare, and some have not ended. Mint 2 is
// the coin of that chain.
func Seed(ctx context.Context, conn *pgx.Conn, org string, from, to int) error {
	return insert(ctx, conn, org, from, to, slices.Concat(organizationRows, customerRows, historyRows))
}

// SeedLists adds a deposit swap of each customer, a whitelist entry of every tenth one, and for every twentieth an
// invoice and a swap of the organization's own money, which a withdrawal of Seed pays out. No provider has signed these
// deposit swaps, no operator would keep such a whitelist, and no fee stands behind these invoices: they are for a
// service that verifies none of them.
func SeedLists(ctx context.Context, conn *pgx.Conn, org string, from, to int) error {
	return insert(ctx, conn, org, from, to, listRows)
}

// SeedDormant adds customers as Seed does, with an address and balances and nothing else. They take
// a quarter of the disk. The organization needs customers of Seed, too.
func SeedDormant(ctx context.Context, conn *pgx.Conn, org string, from, to int) error {
	return insert(ctx, conn, org, from, to, customerRows)
}

func insert(ctx context.Context, conn *pgx.Conn, org string, from, to int, statements []string) error {
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
		return err
	}
	fill := strings.NewReplacer("$ORG", "'"+org+"'", "$N", fmt.Sprintf("generate_series(%d, %d) AS n", from, to-1))
	for _, sql := range statements {
		if _, err := tx.Exec(ctx, fill.Replace(sql)); err != nil {
			return fmt.Errorf("add customers: %w\n%s", err, sql)
		}
	}
	return tx.Commit(ctx)
}

// The statements are filled in as text: the values are our own.
var organizationRows = []string{
	`INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
	VALUES ('adr_crowd_treasury', $ORG, 'EVM', 'CHANGE', 'crowd', '', '0xcrowd', '', '2026-01-01Z') ON CONFLICT DO NOTHING`,
	`INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at, updated_at)
	VALUES ('` + Endpoint + `', $ORG, 'https://crowd.example', '{*}', 'PAUSED', '2026-01-01', '2026-01-01Z', '2026-01-01Z') ON CONFLICT DO NOTHING`,
	`INSERT INTO event_sequences (org_id, last) VALUES ($ORG, 0) ON CONFLICT DO NOTHING`,
	`INSERT INTO ledger_accounts (account_id, org_id, mint_id, kind, subject, floored, created_at) OVERRIDING SYSTEM VALUE
	SELECT 1000000 + m * 10 + nth, $ORG, m, kind, subject, kind <> 'CUSTODY', '2026-01-01Z'
	FROM (VALUES (1, 'CUSTODY', ''), (2, 'PRODUCT', 'CUSTODIAL'), (3, 'PRODUCT', 'CHECKOUT'), (4, 'GAS', '')) AS k (nth, kind, subject), generate_series(1, 2) m
	ON CONFLICT DO NOTHING`,
	`INSERT INTO ledger_balances (account_id, org_id, mint_id, balance)
	SELECT account_id, org_id, mint_id, 1000000 FROM ledger_accounts WHERE account_id BETWEEN 1000000 AND 1000099 AND floored ON CONFLICT DO NOTHING`,
}

var customerRows = []string{
	`INSERT INTO customers (org_id, customer_id, created_at, updated_at)
	SELECT $ORG, 'crowd_' || n, '2026-01-01Z'::timestamptz + n * interval '1 second', '2026-01-01Z' FROM $N`,
	`INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
	SELECT 'adr_' || lpad(n::text, 26, '0'), $ORG, 'EVM', 'CUSTOMER_DEPOSIT', 'crowd_' || n, '', '0x' || lpad(to_hex(n + 1), 40, '0'), '', '2026-01-01Z' FROM $N`,
	`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited)
	SELECT 'adr_' || lpad(n::text, 26, '0'), 1, $ORG, 1000 FROM $N`,
	`INSERT INTO ledger_accounts (account_id, org_id, mint_id, kind, subject, floored, created_at) OVERRIDING SYSTEM VALUE
	SELECT 2000000 + n * 2 + k, $ORG, 1, CASE k WHEN 0 THEN 'CUSTOMER' ELSE 'WITHDRAWING' END, 'crowd_' || n, true, '2026-01-01Z' FROM $N, generate_series(0, 1) k`,
	`INSERT INTO ledger_balances (account_id, org_id, mint_id, balance)
	SELECT 2000000 + n * 2 + k, $ORG, 1, CASE k WHEN 0 THEN 900 ELSE 100 END FROM $N, generate_series(0, 1) k`,
	`INSERT INTO organization_totals (org_id, mint_id, available, withdrawing, addresses, treasuries, dust)
	SELECT $ORG, 1, count(*) * 900, count(*) * 100, count(*) * 1000, 0, 0 FROM $N
	ON CONFLICT ON CONSTRAINT organization_totals_pkey DO UPDATE SET available = organization_totals.available + excluded.available,
		withdrawing = organization_totals.withdrawing + excluded.withdrawing, addresses = organization_totals.addresses + excluded.addresses`,
}

var historyRows = []string{
	`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, product, mint_id, chain, contract, amount, address, from_address, tx_hash, kind, position, log_index,
		height, block_hash, proof_id, status, chain_status, created_at, confirmed_at, credited_at, is_flagged, flagged_at, risk_of_funds, flag_reason, return_risk)
	SELECT 'dep_' || lpad(n::text, 26, '0'), $ORG, 'adr_' || lpad(n::text, 26, '0'), CASE WHEN own THEN 'ORGANIZATION_DEPOSIT' ELSE 'CUSTOMER_DEPOSIT' END,
		CASE WHEN NOT own THEN 'crowd_' || n END, CASE WHEN own THEN 'CHECKOUT' END, CASE WHEN n % 100 = 7 THEN 2 ELSE 1 END, 'ETHEREUM', '0x1', 1000,
		'0x' || lpad(to_hex(n + 1), 40, '0'), '0xpayer', '0xd' || lpad(to_hex(n), 63, '0'), 'TOKEN', '1', 1,
		n / 100 + 1, 'h' || n / 100, CASE WHEN status <> 'DETECTED' THEN 1 END, status, CASE WHEN status = 'DETECTED' THEN 'INCLUDED' ELSE 'FINALIZED' END,
		made, made, CASE status WHEN 'CREDITED' THEN made END,
		status = 'REJECTED', CASE status WHEN 'REJECTED' THEN made END, CASE status WHEN 'REJECTED' THEN 'HIGH' END, CASE status WHEN 'REJECTED' THEN '{}'::jsonb END, CASE status WHEN 'REJECTED' THEN 'NONE' END
	FROM (SELECT n, n % 100 = 3 AS own, '2026-01-01Z'::timestamptz + n * interval '1 second' AS made, CASE WHEN n % 300 = 1 THEN 'REJECTED' WHEN n < 20 THEN 'DETECTED' ELSE 'CREDITED' END AS status FROM $N) s`,
	`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
	SELECT $ORG, 1, 1000011, 2000000 + n * 2, 1000, 'DEPOSIT', 'dep_' || lpad(n::text, 26, '0'), 0, '2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N`,
	`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
	SELECT $ORG, 1, 2000000 + n * 2, 2000001 + n * 2, 100, 'WITHDRAWAL_HOLD', 'wd_' || lpad(n::text, 26, '0'), 0, '2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N`,
	`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
	SELECT $ORG, 2, 1000021, 1000022, 10, 'DEPOSIT', 'own_' || n, 0, '2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N WHERE n % 100 = 7`,
	`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at)
	SELECT $ORG, 2, 1000024, 1000021, 1, 'NETWORK_FEE', 'wd_' || lpad(n::text, 26, '0'), 0, '2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N`,

	`INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, product, whitelisted_address_id, mint_id, chain, amount, to_address, idempotency_key, request_digest, reference, status,
		requires_approval, approval_reasons, tx_hash, created_at)
	SELECT 'wd_' || lpad(n::text, 26, '0'), $ORG, CASE WHEN NOT own THEN 'crowd_' || n END, CASE WHEN own THEN 'CUSTODIAL' END, CASE WHEN own THEN 'wla_x' END,
		CASE WHEN n % 100 = 7 THEN 2 ELSE 1 END, 'ETHEREUM', 100, CASE WHEN n % 4 = 0 THEN '0xexchange' ELSE '0x' || lpad(to_hex(n + 1), 40, 'a') END,
		'key_' || n, '', CASE WHEN n % 3 = 0 THEN 'monthly' END, CASE WHEN held THEN 'AWAITING_APPROVAL' ELSE 'COMPLETED' END,
		held, CASE WHEN held THEN '{POLICY}'::text[] ELSE '{}' END, CASE WHEN NOT held THEN '0xe' || lpad(to_hex(n), 63, '0') END, '2026-01-01Z'::timestamptz + n * interval '1 second'
	FROM (SELECT n, n % 100 = 5 AS own, n % 300 = 2 AS held FROM $N) s`,
	`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id)
	SELECT $ORG, 'wd_' || lpad(n::text, 26, '0'), '2026-01-01Z', 'REQUESTED', 'PROCESSING', '{}', '[]', 'API_KEY', $ORG FROM $N`,
	`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount, customer_id, status, attempt_after, created_at, tx_hash, fee, proof_id)
	SELECT 'wd_' || lpad(n::text, 26, '0'), $ORG, 'PAYMENT', 'ETHEREUM', 'adr_crowd_treasury', '0xexchange', 1, '0x1', 100, 'crowd_' || n,
		CASE WHEN n < 20 THEN 'BROADCAST' ELSE 'PAID' END, '2026-01-01Z', '2026-01-01Z', '0xe' || lpad(to_hex(n), 63, '0'), 1, 1 FROM $N`,
	`INSERT INTO dispatch_attempts (order_id, version, org_id, act, gas_limit, tip_cap, fee_cap, payload, raw, tx_hash, created_at, signed_at)
	SELECT 'wd_' || lpad(n::text, 26, '0'), 1, $ORG, 'PAY', 1, 1, 1, '', '', '0xe' || lpad(to_hex(n), 63, '0'), '2026-01-01Z', '2026-01-01Z' FROM $N`,

	`INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_customer, from_product, to_customer, to_product, reference, created_at)
	SELECT 'tr_' || lpad(n::text, 26, '0'), $ORG, 'key_' || n, '', CASE WHEN n % 100 = 7 THEN 2 ELSE 1 END, 5,
		CASE WHEN n % 3 > 0 THEN 'crowd_' || n END, CASE WHEN n % 3 = 0 THEN CASE WHEN n % 900 = 3 THEN 'CHECKOUT' ELSE 'CUSTODIAL' END END,
		CASE WHEN n % 3 <> 1 THEN 'crowd_' || n + 1 END, CASE WHEN n % 3 = 1 THEN 'CUSTODIAL' END,
		CASE WHEN n % 5 = 0 THEN 'monthly' END, '2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N`,

	// Of ten products one is archived.
	`INSERT INTO products (product_id, org_id, version, status, name, price_type, currency, price,
		accepted_mint_ids, max_quantity, under_bps, over_policy, late_policy, one_per_reference, metadata,
		request_digest, created_at, updated_at, archived_at)
	SELECT 'prod_' || lpad(n::text, 26, '0'), $ORG, 1, CASE WHEN n % 10 = 0 THEN 'ARCHIVED' ELSE 'ACTIVE' END,
		'Product ' || n, 'FIXED', 'USD', 10, '{1}', 1, 50, 'CREDIT', 'HOLD', false, '{}', '',
		timestamptz '2026-01-01Z' + n * interval '1 s', timestamptz '2026-01-01Z' + n * interval '1 s',
		CASE WHEN n % 10 = 0 THEN timestamptz '2026-06-01Z' END
	FROM $N`,
	// Of ten payment links one is paused and one is ended.
	`INSERT INTO payment_links (link_id, org_id, version, slug, status, line_items, request_digest, created_at,
		updated_at, ended_at)
	SELECT 'plink_' || lpad(n::text, 26, '0'), $ORG, 1, 'link-' || n,
		CASE n % 10 WHEN 0 THEN 'PAUSED' WHEN 1 THEN 'ENDED' ELSE 'ACTIVE' END,
		'[{"productId": "prod_x", "quantity": 1, "quantityMin": null, "quantityMax": null}]', '', made, made,
		CASE n % 10 WHEN 1 THEN made END
	FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '1 s' AS made FROM $N) s`,
	// Of ten checkouts one is open, one is cancelled, two are expired with an exception, and the others are completed.
	`INSERT INTO checkouts (checkout_id, org_id, version, line_items, currency, due, need, accepted_mint_ids, under_bps,
		under_usd, over_policy, late_policy, cost_max_bps, customer_id, reference, one_per_reference, metadata,
		request_digest, created_at, status, exceptions, seen, counted, expires_at, cancelled_at, completed_at,
		completed_with, updated_at, link_id)
	SELECT 'co_' || lpad(n::text, 26, '0'), $ORG, 1, '[{"name": "A plan", "unitPrice": "10", "quantity": 1}]', 'USD',
		10, 10, '{1}', 50, 0, 'CREDIT', 'HOLD', 300, 'crowd_' || n, CASE WHEN n % 5 = 0 THEN 'monthly' END, false, '{}',
		'', made, status,
		CASE WHEN status = 'EXPIRED' THEN '{UNDERPAID}' WHEN n % 100 = 4 THEN '{OVERPAID}' ELSE '{}' END::text[],
		CASE status WHEN 'COMPLETED' THEN 10 ELSE 0 END, CASE status WHEN 'COMPLETED' THEN 10 ELSE 0 END, made,
		CASE status WHEN 'CANCELLED' THEN made END, CASE status WHEN 'COMPLETED' THEN made END,
		CASE status WHEN 'COMPLETED' THEN 10 END, made, CASE WHEN n % 3 = 0 THEN 'plink_' || lpad(n::text, 26, '0') END
	FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '1 s' AS made,
		CASE n % 10 WHEN 0 THEN CASE WHEN n % 100 = 0 THEN 'PROCESSING' ELSE 'OPEN' END WHEN 1 THEN 'CANCELLED'
			WHEN 2 THEN 'EXPIRED' WHEN 7 THEN 'EXPIRED' ELSE 'COMPLETED' END AS status FROM $N) s`,
	`INSERT INTO checkout_payments (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time, seen_at,
		was_live, status, told_status)
	SELECT 'dep_' || lpad(n::text, 26, '0'), $ORG, 'co_' || lpad(n::text, 26, '0'), 1, 'ETHEREUM', 1000, '2026-01-01Z',
		'2026-01-01Z', true, 'CREDITED', 'CREDITED' FROM $N`,
	// Of ten refunds of checkouts one waits for an address, one is cancelled, one is expired, and the others are paid
	// or on their way.
	`INSERT INTO refunds (refund_id, org_id, version, checkout_id, mint_id, amount, kind, fee_mode, request_digest,
		requester_kind, requester_id, created_at, expires_at, status, to_address, attempt, withdrawal_id, look_at,
		completed_at, updated_at)
	SELECT 'ref_' || lpad(n::text, 26, '0'), $ORG, 1, 'co_' || lpad(n::text, 26, '0'), 1, 1000, 'FULL', 'ORGANIZATION',
		'', 'API_KEY', $ORG, made, made, status,
		CASE WHEN status IN ('REQUESTED', 'SENT', 'COMPLETED') THEN '0x5' || lpad(to_hex(n), 39, '0') END, 1,
		CASE WHEN status IN ('SENT', 'COMPLETED') THEN 'wd_' || lpad(n::text, 26, '0') END,
		CASE WHEN status IN ('AWAITING_ADDRESS', 'REQUESTED', 'SENT') THEN made END,
		CASE status WHEN 'COMPLETED' THEN made END, made
	FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '1 s' AS made,
		CASE n % 10 WHEN 0 THEN 'AWAITING_ADDRESS' WHEN 1 THEN 'CANCELLED' WHEN 2 THEN 'EXPIRED'
			ELSE CASE n % 100 WHEN 3 THEN 'REQUESTED' WHEN 13 THEN 'SENT' ELSE 'COMPLETED' END END AS status
		FROM $N) s`,
	// Of ten batch payouts one is a draft, and the others were cancelled. Each has one row.
	`INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
		request_digest, maker_kind, maker_id, created_at, status, ended_at, updated_at, list_columns)
	SELECT 'bp_' || lpad(n::text, 26, '0'), $ORG, 1, 'STRICT', 1, sha256(n::text::bytea), sha256(n::text::bytea),
		jsonb_build_object('orgId', $ORG, 'batchId', 'bp_' || lpad(n::text, 26, '0'), 'mode', 'STRICT', 'madeBy',
			'API_KEY ' || $ORG, 'rows', 1, 'included', 1, 'root', 'sha256:' || encode(sha256(n::text::bytea), 'hex'),
			'totals', jsonb_build_array(jsonb_build_object('mintId', 1, 'amount', '1000'))), '', 'API_KEY', $ORG, made,
		CASE n % 10 WHEN 0 THEN 'DRAFT' ELSE 'CANCELLED' END, CASE n % 10 WHEN 0 THEN NULL ELSE made END, made,
		'{mintId,toAddress,amount}'
	FROM (SELECT n, timestamptz '2026-01-01Z' + n * interval '1 s' AS made FROM $N) s`,
	`INSERT INTO payout_items (batch_id, row_no, org_id, line, salt, mint_id, chain, contract, to_address, amount,
		customer_id, reference)
	SELECT 'bp_' || lpad(n::text, 26, '0'), 1, $ORG, 2, substring(sha256(n::text::bytea) FROM 1 FOR 16), 1, 'ETHEREUM', '',
		'0x5' || lpad(to_hex(n), 39, '0'), 1000, '', '' FROM $N`,
	`INSERT INTO refund_parts (refund_id, deposit_id, org_id, amount)
	SELECT 'ref_' || lpad(n::text, 26, '0'), 'dep_' || lpad(n::text, 26, '0'), $ORG, 1000 FROM $N`,
	`INSERT INTO checkout_unmatched (deposit_id, org_id, mint_id, amount, reason, seen_at)
	SELECT 'dep_' || lpad(n::text, 26, '0'), $ORG, 1, 1000, 'NO_REFERENCE',
		timestamptz '2026-01-01Z' + n * interval '1 s' FROM $N WHERE n % 20 = 0`,
	`INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id,
		to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
		delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status, amount_out,
		origin_tx_hash, destination_tx_hash, failure_reason, created_at, updated_at, paid_at, completed_at, failed_at,
		refunded)
	SELECT 'cs_' || lpad(n::text, 26, '0'), $ORG, 'crowd_' || n, 'key_' || n,
		encode(sha256(convert_to('key_' || n, 'UTF8')), 'hex'), '', 1, 2,
		'ETHEREUM', 'ETHEREUM', 1000, 900, 890, 'ONE_CLICK', '0xb' || lpad(to_hex(n), 39, '0'), 'adr_delivery_' || n,
		'adr_refund_' || n, '2026-02-01Z', '2026-02-01Z', 25, 2, status,
		CASE status WHEN 'COMPLETED' THEN 900 END, '0xf' || lpad(to_hex(n), 63, '0'),
		CASE status WHEN 'COMPLETED' THEN '0xc' || lpad(to_hex(n), 63, '0') END,
		CASE status WHEN 'FAILED' THEN 'PROVIDER_FAILED' END, made, made, made,
		CASE status WHEN 'COMPLETED' THEN made END, CASE status WHEN 'FAILED' THEN made END,
		CASE status WHEN 'FAILED' THEN 1000 ELSE 0 END
	FROM (SELECT n, '2026-01-01Z'::timestamptz + n * interval '1 second' AS made,
		CASE WHEN n % 300 = 1 THEN 'FAILED' WHEN n < 20 THEN 'PROCESSING' ELSE 'COMPLETED' END AS status FROM $N) s`,
	`INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote, created_at)
	SELECT 'cs_' || lpad(n::text, 26, '0'), $ORG, 'ONE_CLICK_V0', '0xb' || lpad(to_hex(n), 39, '0'),
		convert_to('quote ' || n, 'UTF8'), '2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N`,
	`INSERT INTO swap_reports (swap_id, number, org_id, status, word, refund, reason, tx_hashes, created_at)
	SELECT 'cs_' || lpad(n::text, 26, '0'), 1, $ORG, 'PROCESSING', 'PROCESSING', 'NONE', '', '{}',
		'2026-01-01Z'::timestamptz + n * interval '1 second' FROM $N`,
	// All fees but some of the first customers' are on an invoice. Those have no price. A page that sums up what is
	// on no invoice reads them and no more, however many customers there are.
	`INSERT INTO price_marks (price_mark_id, mint_id, price, source, quoted_at, created_at) OVERRIDING SYSTEM VALUE
	VALUES (1000000000, 1, 1, 'crowd', '2026-01-01Z', '2026-01-01Z') ON CONFLICT DO NOTHING`,
	`INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, incurred_at,
		usd_value, price_mark_id, invoice_id)
	SELECT 'fee_' || lpad(n::text, 26, '0'), $ORG, 'SWAP_FEE', 'SWAP', 'cs_' || lpad(n::text, 26, '0'), 1, 2, 25,
		'2026-01-01Z'::timestamptz + n * interval '1 second', CASE WHEN billed THEN 0.000002 END,
		CASE WHEN billed THEN 1000000000 END,
		CASE WHEN billed THEN 'inv_' || lpad((n / 20 * 20 + 3)::text, 26, '0') END
	FROM (SELECT n, n % 50 <> 7 OR n > 2000 AS billed FROM $N) s WHERE n % 300 <> 1 AND n >= 20`,

	`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body)
	SELECT 'evt_' || lpad(n::text, 26, '0'), $ORG, CASE WHEN n % 100 = 3 THEN 'CUSTOMER_WITHDRAW_CANCELLED' ELSE 'CUSTOMER_DEPOSIT' END, 'DEPOSIT', 'dep_' || lpad(n::text, 26, '0'), 1, '{}',
		'2026-01-01Z', n + 1000, convert_to(format('{"id":"evt_%s","type":"CUSTOMER_DEPOSIT","timestamp":"2026-01-01T00:00:00.000Z","apiVersion":"2026-01-31","environment":"TEST","organizationId":%s,"data":{}}',
			lpad(n::text, 26, '0'), to_json($ORG::text)), 'UTF8') FROM $N`,
	`UPDATE event_sequences SET last = (SELECT max(n) + 1000 FROM $N) WHERE org_id = $ORG`,
	`INSERT INTO deliveries (delivery_id, org_id, endpoint_id, event_id, resource_id, resource_seq, status, attempts, created_at, attempt_after, ended_at) OVERRIDING SYSTEM VALUE
	SELECT n + 1000000, $ORG, '` + Endpoint + `', 'evt_' || lpad(n::text, 26, '0'), 'dep_' || lpad(n::text, 26, '0'), 1, 'DELIVERED', 1, '2026-01-01Z', '2026-01-01Z', '2026-01-01Z' FROM $N`,
	`INSERT INTO delivery_attempts (delivery_id, attempt, org_id, at, status_code, duration_ms, endpoint_id, url)
	SELECT n + 1000000, 1, $ORG, '2026-01-01Z'::timestamptz + n * interval '1 second', CASE WHEN n % 100 = 9 THEN 500 ELSE 200 END, 1, '` + Endpoint + `', 'https://crowd.example' FROM $N`,

	// No customer from 2000 to 12000 is frozen, so a list of the frozen customers that searches all
	// customers reads these too.
	`INSERT INTO freezes (freeze_id, scope, org_id, customer_id, source, reason, created_at, lifted_at, lifted_by, customer_created_at)
	SELECT 'frz_' || lpad(n::text, 26, '0'), 'CUSTOMER', $ORG, 'crowd_' || n, CASE n % 100 WHEN 0 THEN 'ORGANIZATION' ELSE 'OPERATOR' END, 'because', '2026-01-01Z'::timestamptz + n * interval '1 second',
		CASE WHEN lifted THEN '2026-02-01Z'::timestamptz END, CASE WHEN lifted THEN 'OPERATOR x' END, '2026-01-01Z'::timestamptz + n * interval '1 second'
	FROM (SELECT n, n % 50 = 25 OR n BETWEEN 2000 AND 12000 AS lifted FROM $N WHERE n % 25 = 0) s`,
	`INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id)
	SELECT $ORG, '2026-01-01Z', 'API_KEY', $ORG, 'customer.created', 'CUSTOMER', 'crowd_' || n FROM $N`,
}

var listRows = []string{
	`INSERT INTO billing_terms (org_id, version, legal_name, address, tax_id, email, tax_rate_bps, tax_note,
		invoice_series, credit_note_series, billing_day, language, created_at, changed_by)
	VALUES (NULL, 1, 'Seller', '{Street}', '', '', 0, '', 'INV', 'CN', 1, 'en', '2026-01-01Z', 'OPERATOR crowd'),
		($ORG, 1, 'Crowd', '{Street}', '', '', NULL, NULL, NULL, NULL, NULL, NULL, '2026-01-01Z', 'OPERATOR crowd')
	ON CONFLICT DO NOTHING`,
	// Each invoice is of another month, and has a credit note.
	`INSERT INTO invoices (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax, total,
		document, document_hash, status, issued_at, paid_at, paid_reference, paid_by)
	SELECT 'inv_' || lpad(n::text, 26, '0'), $ORG, to_char(ends - interval '1 month', 'YYYY-MM'),
		ends AT TIME ZONE 'UTC', 'INV', n, 0, 100, 0, 100, '{"sections":[]}', sha256(''), status, made,
		CASE status WHEN 'PAID' THEN made END, CASE status WHEN 'PAID' THEN 'crowd' END,
		CASE status WHEN 'PAID' THEN 'OPERATOR crowd' END
	FROM (SELECT n, '2026-01-01'::timestamp - make_interval(months => n / 20) AS ends,
		'2026-01-01Z'::timestamptz + n * interval '1 second' AS made,
		CASE WHEN n % 40 = 3 THEN 'PAID' ELSE 'ISSUED' END AS status FROM $N WHERE n % 20 = 3) s`,
	`INSERT INTO credit_notes (credit_note_id, org_id, invoice_id, idempotency_key, request_digest, series, sequence,
		reason, lowers_debt, subtotal, tax, total, document, document_hash, issued_at, issued_by)
	SELECT 'crn_' || lpad(n::text, 26, '0'), $ORG, 'inv_' || lpad(n::text, 26, '0'), 'key_' || n, sha256(''), 'CN', n,
		'crowd', true, 1, 0, 1, '{"sections":[]}', sha256(''), '2026-01-01Z'::timestamptz + n * interval '1 second',
		'OPERATOR crowd' FROM $N WHERE n % 20 = 3`,
	// Each checkout has one opened option.
	`INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
	SELECT 'adr_co_' || n, $ORG, 'EVM', 'CHECKOUT', 'co_' || lpad(n::text, 26, '0'), '',
		'0x7' || lpad(to_hex(n), 39, '0'), '', '2026-01-01Z' FROM $N`,
	`INSERT INTO checkout_options (checkout_id, mint_id, org_id, wallet_id, opened_at)
	SELECT 'co_' || lpad(n::text, 26, '0'), 1, $ORG, 'adr_co_' || n, '2026-01-01Z' FROM $N`,
	`INSERT INTO checkout_quotes (checkout_id, mint_id, seq, org_id, amount, price, currency_price, source, priced_at,
		covers, valid_from, expires_at)
	SELECT 'co_' || lpad(n::text, 26, '0'), 1, 1, $ORG, 1000, 1, 1, 'fixed', '2026-01-01Z', 10, '2026-01-01Z',
		'2026-02-01Z' FROM $N`,
	`INSERT INTO swaps (swap_id, org_id, kind, product, idempotency_key, key_hash, request_digest, from_mint_id,
		to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
		delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status, amount_out,
		origin_tx_hash, destination_tx_hash, failure_reason, created_at, updated_at, paid_at, completed_at, failed_at,
		refunded, whitelisted_address_id, payout_address, payout_max, payout_until, slippage_bps, request_mac,
		requester_kind, requester_id, delivered_at, payout_id)
	SELECT 'os_' || lpad(n::text, 26, '0'), $ORG, 'ORGANIZATION',
		CASE WHEN n % 200 = 105 THEN 'CHECKOUT' ELSE 'CUSTODIAL' END,
		'own_' || n, encode(sha256(convert_to('ORGANIZATION own_' || n, 'UTF8')), 'hex'), '', 1, 2,
		'ETHEREUM', 'ETHEREUM', 1000, 900, 890, 'ONE_CLICK', '0x6' || lpad(to_hex(n), 39, '0'), 'adr_own_' || n,
		'adr_own_back_' || n, '2026-02-01Z', '2026-02-01Z', 0, 0, status,
		CASE status WHEN 'COMPLETED' THEN 900 END, '0xf' || lpad(to_hex(n), 63, '1'),
		CASE status WHEN 'COMPLETED' THEN '0xc' || lpad(to_hex(n), 63, '1') END,
		CASE status WHEN 'FAILED' THEN 'PROVIDER_FAILED' END, made, made, made,
		CASE status WHEN 'COMPLETED' THEN made END, CASE status WHEN 'FAILED' THEN made END,
		CASE status WHEN 'FAILED' THEN 1000 ELSE 0 END, 'wla_x', '0xexchange', 990, made, 100, '', 'API_KEY', $ORG,
		CASE status WHEN 'COMPLETED' THEN made END,
		CASE status WHEN 'COMPLETED' THEN 'wd_' || lpad(n::text, 26, '0') END
	FROM (SELECT n, '2026-01-01Z'::timestamptz + n * interval '1 second' AS made,
		CASE WHEN n % 200 = 25 THEN 'FAILED' ELSE 'COMPLETED' END AS status FROM $N WHERE n % 20 = 5) s`,
	`INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at)
	SELECT 'adr_flex_' || n, $ORG, 'EVM', 'DEPOSIT_SWAP', 'ds_' || lpad(n::text, 26, '0'), '',
		'0x9' || lpad(to_hex(n), 39, '0'), '', '2026-01-01Z' FROM $N`,
	`INSERT INTO deposit_swaps (deposit_swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest,
		origin_chain, origin_contract, origin_symbol, origin_decimals, to_mint_id, to_chain, estimated_out, min_out,
		refund_address, wallet_id, provider, scheme, deposit_address, signed_quote, origin_asset, destination_asset,
		expires_at, mac, status, amount_out, created_at, updated_at, completed_at)
	SELECT 'ds_' || lpad(n::text, 26, '0'), $ORG, 'crowd_' || n, 'key_' || n,
		encode(sha256(convert_to('key_' || n, 'UTF8')), 'hex'), '', 'ETHEREUM', '', 'ETH', 18, 1, 'ETHEREUM', 900, 890,
		'0xpayer', 'adr_flex_' || n, 'ONE_CLICK', 'ONE_CLICK_V0', '0x8' || lpad(to_hex(n), 39, '0'),
		convert_to('crowd ' || n, 'UTF8'), 'eth', 'usdc', '2026-02-01Z', '', status,
		CASE status WHEN 'COMPLETED' THEN 900 END, made, made, CASE status WHEN 'COMPLETED' THEN made END
	FROM (SELECT n, '2026-01-01Z'::timestamptz + n * interval '1 second' AS made,
		CASE WHEN n % 300 = 1 THEN 'EXPIRED' WHEN n < 20 THEN 'PROCESSING' ELSE 'COMPLETED' END AS status FROM $N) s`,
	`INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by,
		not_before, request_mac)
	SELECT 'wla_' || lpad(n::text, 26, '0'), $ORG, 'ETHEREUM', '0x7' || lpad(to_hex(n), 39, '0'), 'crowd ' || n, made,
		'opk_x', made, ''
	FROM (SELECT n, '2026-01-01Z'::timestamptz + n * interval '1 second' AS made FROM $N WHERE n % 10 = 0) s`,
}
