package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/oasdiff/yaml3"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
)

// scrape returns the values of /metrics by name and labels.
func scrape(t *testing.T, m *Metrics) map[string]float64 {
	t.Helper()
	w := httptest.NewRecorder()
	NewHandler(nil, m).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("got %d %s, want the metrics", w.Code, w.Body)
	}
	got := map[string]float64{}
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		at := strings.LastIndex(line, " ")
		v, err := strconv.ParseFloat(strings.TrimSpace(line[at:]), 64)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got[line[:at]] = v
	}
	return got
}

// badDay has the rows of a day with many faults; rows with an age are one and a half hours old.
// Triggers and foreign keys are off: the metrics depend on the rows alone.
const badDay = `
SET session_replication_role = replica;
INSERT INTO organizations (org_id, name, created_at) VALUES ('org_1', 'Acme', $T);
INSERT INTO mints (mint_id, chain, network, kind, contract, symbol, name, decimals, deposit_enabled, withdraw_enabled, min_deposit, min_withdraw, confirmations_required, finality, quarantined_at, quarantine_reason)
	VALUES (1, 'ETHEREUM', 'LOCAL', 'NATIVE', '', 'ETH', 'Ether', 18, true, true, 1, 1, 1, 'FINALIZED', $T, 'BALANCE_DELTA');
INSERT INTO wallets (wallet_id, org_id, family, purpose, subject, path, address, proof, created_at) VALUES ('adr_1', 'org_1', 'EVM', 'TREASURY', '', 'm', '0x1', '', $T);
INSERT INTO address_funds (wallet_id, mint_id, org_id, gas, gas_reserved) VALUES ('adr_1', 1, 'org_1', 1300, 100);
INSERT INTO scan_cursors (chain, height, hash, updated_at) VALUES ('ETHEREUM', 100, '0xa', $T);
INSERT INTO scan_heads (chain, height, hash, parent) VALUES ('ETHEREUM', 170, '0xb', '0xc');
INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at) VALUES ('ETHEREUM', 100, '0xa', '0x', $T, 2, 'header', $T);
INSERT INTO scan_untraced (proof_id, tx_hash, attempts, last_error, next_attempt_at, created_at) SELECT max(proof_id), '0xd3', 1, 'answer is longer than is allowed', $T, $T FROM finality_proofs;
INSERT INTO transaction_memos (chain, tx_hash, status, attempts, next_attempt_at, created_at, ended_at) VALUES ('SOLANA', 'a', 'DUE', 3, $T, $T, NULL), ('SOLANA', 'b', 'ABANDONED', 20, $T, $T, $T), ('SOLANA', 'c', 'READ', 1, $T, $T, $T);
INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, created_at, confirmed_at)
	VALUES ('dep_1', 'org_1', 'adr_1', 'CUSTOMER_DEPOSIT', 'c', 1, 'ETHEREUM', '', 1, '0x1', '0x2', '0xd1', 'NATIVE', '0', 0, 101, '0xe', NULL, 'CONFIRMING', 'INCLUDED', $T, NULL),
	       ('dep_2', 'org_1', 'adr_1', 'CUSTOMER_DEPOSIT', 'c', 1, 'ETHEREUM', '', 1, '0x1', '0x2', '0xd2', 'NATIVE', '0', 0, 100, '0xa', (SELECT max(proof_id) FROM finality_proofs), 'SCREENING', 'FINALIZED', $T, $T);
INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at) VALUES ('evt_1', 'org_1', 'X', 'DEPOSIT', 'dep_1', 1, '{}', $T);
INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at, updated_at)
	VALUES ('we_1', 'org_1', 'https://a.example', '{}', 'ENABLED', '1', $T, $T), ('we_2', 'org_1', 'https://b.example', '{}', 'DISABLED_GONE', '1', $T, $T);
INSERT INTO deliveries (org_id, endpoint_id, event_id, resource_id, resource_seq, status, attempts, created_at, attempt_after) VALUES ('org_1', 'we_1', 'evt_1', 'dep_1', 1, 'PENDING', 2, $T, $T);
INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval, approval_reasons, decision, created_at, tx_hash)
	VALUES ('wd_1', 'org_1', 'c', 1, 'ETHEREUM', 1, '0x3', '', 'AWAITING_APPROVAL', true, '{REQUIRE_APPROVAL}', '{}', $T, NULL),
	       ('wd_2', 'org_1', 'c', 1, 'ETHEREUM', 1, '0x3', '', 'BROADCAST', false, '{}', '{}', $T, '0xf');
INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, contract, amount, status, waiting_for, missing_amount, attempt_after, created_at, ended_at, tx_hash, fee, proof_id, trigger)
	VALUES ('wd_1', 'org_1', 'PAYMENT', 'ETHEREUM', 'adr_1', NULL, '0x3', 1, '', 1, 'QUEUED', 'GAS', 5, $T, $T, NULL, NULL, NULL, NULL, NULL),
	       ('wd_2', 'org_1', 'PAYMENT', 'ETHEREUM', 'adr_1', NULL, '0x3', 1, '', 1, 'STUCK', NULL, NULL, $T, $T, NULL, NULL, NULL, NULL, NULL),
	       ('wd_3', 'org_1', 'PAYMENT', 'ETHEREUM', 'adr_1', NULL, '0x3', 1, '', 1, 'PAID', NULL, NULL, $T, $T, $T, '0x9', 100, 1, NULL),
	       ('gas_1', 'org_1', 'GAS', 'ETHEREUM', 'adr_1', 'adr_2', '0x4', 1, '', 1000, 'PAID', NULL, NULL, $T, $T, $T, '0x8', 100, 1, 'DEMAND');
INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, from_wallet_id, to_wallet_id,
	to_address, mint_id, contract, amount, status, waiting_for, attempt_after, created_at, trigger)
	VALUES ('cl_1', 'org_1', 'CLOSE', 'SOLANA', 'adr_1', 'adr_2', 'adr_1',
		'0x1', 2, 'x', 1, 'QUEUED', 'ERROR', $T, $T, 'VALUE'),
	('dr_1', 'org_1', 'RETURN', 'ETHEREUM', 'adr_2', NULL, NULL,
		'0x3', 1, '', 1, 'STUCK', NULL, $T, $T, NULL);
INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount,
	product, batch, status, waiting_for, attempt_after, created_at)
	SELECT 'wd_batch_' || n, 'org_1', 'PAYMENT', 'ETHEREUM', 'adr_1', '0x3', 1, '', 1, 'BATCH_PAYOUT',
		jsonb_build_object('batchId', 'bp_2', 'row', n), 'QUEUED', w, $T, $T
	FROM (VALUES (1, 'FEE_LIMIT'), (2, NULL)) AS q (n, w);
INSERT INTO unknown_token_counts (wallet_id, chain, recorded, dropped, dropped_first, dropped_last, dropped_at) VALUES ('adr_2', 'ETHEREUM', 20, 5, 100, 100, $T);
INSERT INTO freezes (freeze_id, scope, source, reason, created_at) VALUES ('frz_1', 'ALL', 'VERIFY', 'x', $T);
INSERT INTO mails (mail_id, kind, to_address, sealed, status, attempts, created_at, first_attempt_at, attempt_after,
	last_error, ended_at)
	VALUES ('mail_1', 'INVITATION', 'ann@example.com', 'x', 'QUEUED', 1, $T, $T, $T, 'SMTP 451', NULL),
	       ('mail_2', 'INVITATION', 'ann@example.com', NULL, 'GIVEN_UP', 11, $T, $T, $T, 'x', $T),
	       ('mail_3', 'INVITATION', 'ann@example.com', NULL, 'SUPPRESSED', 0, $T, NULL, $T, 'x', $T),
	       ('mail_4', 'INVITATION', 'ann@example.com', NULL, 'SENT', 1, $T, $T, $T, NULL, $T);
INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id, to_mint_id,
	from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address, delivery_wallet_id,
	refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status, paid_at, refunded, created_at, updated_at)
	SELECT 'cs_' || n, 'org_1', 'c', 'k' || n, repeat(n::text, 64), '', 1, 2, 'ETHEREUM', 'SOLANA', 100, 90, 80,
		provider, '0x' || n, 'd' || n, 'r' || n, $T, $T, 0, 0, status, paid_at, refunded, $T, $T
	FROM (VALUES (1, 'ONE', 'PROCESSING', $T, 99), (2, 'ONE', 'PROCESSING', now(), 0),
		(3, 'ONE', 'PROCESSING', $T, 100), (4, 'TWO', 'PENDING', NULL, 0))
		AS s (n, provider, status, paid_at, refunded);
INSERT INTO swap_providers (provider, state, reason, since, changed_by)
	VALUES ('ONE', 'SUSPENDED', 'a signature', $T, 'SYSTEM swap'),
	       ('TWO', 'SUSPENDED', 'an incident', $T, 'OPERATOR opk_1'),
	       ('THREE', 'ACTIVE', 'a new key', $T, 'OPERATOR opk_1');
INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at, decision, note, decided_by,
	decided_at)
	VALUES ('dep_1', 'org_1', 'cs_1', 'STRAY', 'AFTER_END', $T, NULL, NULL, NULL, NULL),
	       ('dep_2', 'org_1', 'cs_1', 'REFUND', '', $T, NULL, NULL, NULL, NULL),
	       ('dep_3', 'org_1', 'cs_1', 'STRAY', 'AFTER_END', $T, 'KEPT', 'x', 'OPERATOR opk_1', $T);
INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at) VALUES (1, 3000, 'x', $T, $T);
INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, usd_value,
	price_mark_id, incurred_at, tx_hash)
	VALUES ('fee_1', 'org_1', 'NETWORK_FEE', 'NETWORK_FEE', 'wd_3', 1, 100, 0, NULL, NULL, $T, '0x9'),
	       ('fee_2', 'org_1', 'NETWORK_FEE', 'NETWORK_FEE', 'gas_1', 1, 100, 0, NULL, NULL, now(), '0x8'),
	       ('fee_3', 'org_1', 'NETWORK_FEE', 'NETWORK_FEE', 'wd_4', 1, 100, 0, 1, 1, $T, '0x7');
INSERT INTO invoices (invoice_id, org_id, month, ends_at, series, sequence, tax_rate_bps, subtotal, tax, total,
	document, document_hash, status, issued_at, paid_at, paid_reference, paid_by)
	VALUES ('inv_1', 'org_1', '2020-01', '2020-02-01Z', 'INV', 1, 0, 12.50, 0, 12.50, '{}', sha256(''), 'ISSUED', $T,
			NULL, NULL, NULL),
	       ('inv_2', 'org_1', '2020-02', '2020-03-01Z', 'INV', 2, 0, 99, 0, 99, '{}', sha256(''), 'PAID',
			'2020-03-03Z', $T, 'bank', 'OPERATOR x');
INSERT INTO credit_notes (credit_note_id, org_id, invoice_id, idempotency_key, request_digest, series, sequence, reason,
	lowers_debt, subtotal, tax, total, document, document_hash, issued_at, issued_by)
	VALUES ('crn_1', 'org_1', 'inv_1', 'k', sha256(''), 'CN', 1, 'x', true, 2.25, 0, 2.25, '{}', sha256(''), $T,
		'OPERATOR x');
INSERT INTO payout_batches (batch_id, org_id, version, mode, row_count, content_hash, list_hash, header,
	request_digest, maker_kind, maker_id, created_at, status, updated_at, paused_at, approved_at, look_at,
	submitter_kind, submitter_id, submitted_at, request_mac, approvals_required)
	SELECT 'bp_' || n, 'org_1', 1, 'STRICT', 2, sha256('a'), sha256('a'), '{}', '', 'API_KEY', 'org_1',
		CASE n WHEN 3 THEN $T - interval '1 hour' ELSE $T END, status,
		CASE n WHEN 3 THEN $T - interval '1 hour' ELSE $T END, CASE n WHEN 3 THEN now() END,
		CASE status WHEN 'PROCESSING' THEN now() END,
		CASE status WHEN 'PROCESSING' THEN now() END, s.kind, s.kind, s.at, s.mac, s.required
	FROM (VALUES (1, 'DRAFT', NULL, NULL, NULL, 0), (2, 'PROCESSING', 'USER', now(), sha256('a'), 1),
		(3, 'PROCESSING', 'USER', now(), sha256('a'), 1)) AS s (n, status, kind, at, mac, required);
INSERT INTO payout_items (batch_id, row_no, org_id, line, salt, mint_id, chain, contract, to_address, amount,
	customer_id, reference, refused)
	SELECT 'bp_' || b, n, 'org_1', n, substring(sha256('a') FROM 1 FOR 16), 1, 'ETHEREUM', '', '0x3', 1, '', '',
		CASE WHEN b = 2 AND n = 1 THEN 'x' END FROM generate_series(1, 3) b, generate_series(1, 2) n;
INSERT INTO approver_keys (key_id, org_id, person, email, key_right, credential_id, public_key, rp_id, origin,
	possession, possession_until, created_at, usable_from, proof, journal_id, journal_seq, refusal, retired_at,
	retired_by)
	SELECT 'apk_' || n, 'org_1', person, person || '@example.com', 'APPROVE', convert_to(n::text, 'UTF8'), 'x', 'x',
		'x', '{}', now(), $T, usable_from,
		CASE WHEN usable_from IS NOT NULL THEN 'x'::bytea END,
		CASE WHEN usable_from IS NOT NULL THEN 'j' END, CASE WHEN usable_from IS NOT NULL THEN n END, refusal,
		retired_at,
		CASE WHEN retired_at IS NOT NULL THEN 'x' END
	FROM (VALUES (1, 'ann', $T, NULL, NULL::timestamptz), (2, 'ann', $T, NULL, NULL), (3, 'ben', $T, NULL, NULL),
		(4, 'cay', now() + interval '1 hour', NULL, NULL), (5, 'dan', NULL, NULL, NULL),
		(6, 'eve', NULL, 'late', NULL),
		(7, 'fay', $T, 'retired', NULL), (8, 'gil', $T, NULL, $T)) AS k (n, person, usable_from, refusal, retired_at);
INSERT INTO approval_rules (proposal_id, org_id, version, rule, proposed_by, proposed_at, asked_at, refusal)
	VALUES ('apr_1', 'org_1', 1, '{"orgId": "org_1", "version": 1}', 'x', $T, $T, 'x');
INSERT INTO river_job (kind, queue, args, max_attempts, state, created_at, scheduled_at, finalized_at)
	VALUES ('verify', 'default', '{}', 1, 'completed', $T, $T, $T), ('mail', 'default', '{}', 1, 'discarded', $T, $T, $T);
`

// Rules SA-16 and BP-93, among others.
func TestEveryProcessTellsWhatTheRowsSay(t *testing.T) {
	t.Parallel()
	d := pgtest.NewDatabase(t)
	m := NewMetrics(pgtest.Open(t, d, time.Now), []string{"api", "scan"}, slog.New(slog.DiscardHandler))
	calm := scrape(t, m)
	for name, want := range map[string]float64{
		"coffer_events_unnumbered_oldest_seconds": 0, "coffer_events_undelivered_oldest_seconds": 0,
		"coffer_approver_keys_retired": 0, "coffer_approver_keys_kept_oldest_seconds": 0,
		"coffer_approval_rules_refused": 0,
		"coffer_swap_arrivals_open":     0, "coffer_swap_arrivals_open_oldest_seconds": 0,
		"coffer_invoices_issued": 0, "coffer_invoices_unpaid": 0, "coffer_invoices_unpaid_usd": 0,
		"coffer_invoices_unpaid_oldest_seconds": 0, "coffer_fee_lines_unpriced": 0,
		"coffer_fee_lines_unpriced_oldest_seconds": 0,
		"coffer_verify_breached":                   0, "coffer_mints_quarantined": 0,
		"coffer_mails_queued_oldest_seconds": 0,
		"coffer_db_look_ok":                  1, `coffer_role{role="api"}`: 1,
		`coffer_db_transactions_rerun_total{cause="deadlock"}`: 0,
		"coffer_db_commits_unknown_total":                      0, "coffer_deposit_swaps_tampered_total": 0,
	} {
		if got, ok := calm[name]; !ok || got != want {
			t.Errorf("a calm day: %s: got %v %v, want %v", name, got, ok, want)
		}
	}

	super, err := pgx.Connect(t.Context(), d.SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	const age, old = 5400, 9000
	if _, err := super.Exec(
		t.Context(), strings.ReplaceAll(badDay, "$T", fmt.Sprintf("now() - interval '%d seconds'", age)),
	); err != nil {
		t.Fatal(err)
	}
	m.readAt = time.Time{} // otherwise the values may be some seconds old
	m.CountRequest("POST", "/v1/withdraw", 503, time.Second)
	m.CountRequest("BREW", "", 404, time.Second)
	m.CountScanError(chain.Ethereum, "final", fmt.Errorf("block 7: %w", chain.ErrDisagreement))
	m.CountWebhookAttempt("5xx")
	m.CountWebhookAttempt("5xx")
	m.CountTamperedDepositSwap("ds_1")
	m.RegisterCertificates(func() []Certificate {
		return []Certificate{
			{"server", "signer.internal", time.Now().Add(60 * time.Hour)},
			{"client", "coffer-dispatch", time.Now().Add(-12 * time.Hour)},
			{"authority", "ours", time.Now().Add(365 * 24 * time.Hour)},
		}
	})
	m.RegisterSwapProviders(func() map[string]time.Time {
		return map[string]time.Time{"ONE": {}, "TWO": time.Now().Add(-age * time.Second)}
	})
	m.RegisterSwapExposures(func(context.Context) ([]SwapExposure, error) {
		limit, small := money.MustParseUSD("1000"), money.MustParseUSD("10")
		return []SwapExposure{
			{Provider: "ONE", USD: money.MustParseUSD("850.5"), USDMax: &limit},
			{Provider: "TWO", Unvalued: 1},
			{Provider: "THREE", Unvalued: 2, USDMax: &small},
		}, nil
	})
	no := m.WrapSigner(refuses{})
	_, _ = no.AdmitIntent(t.Context(), signer.Intent{})
	_, _ = no.Sign(t.Context(), signer.SignRequest{})
	// What is asked again and again is no refusal, as long as people have not signed.
	_, _ = no.EnrolKey(t.Context(), signer.EnrolRequest{})
	_, _ = no.EndorseAddress(t.Context(), signer.Endorsement{})
	_, _ = no.RetireKey(t.Context(), signer.RetireRequest{})
	_, _ = no.RetireKey(t.Context(), signer.RetireRequest{MAC: []byte("by the server")})
	_, _ = no.SetRule(t.Context(), signer.RuleRequest{})
	_, _ = no.SetRule(t.Context(), signer.RuleRequest{SignedBy: make([]signer.KeySignature, 1)})
	got := scrape(t, m)
	for name, want := range map[string]float64{
		`coffer_deposits_unfinal_oldest_seconds{chain="ETHEREUM"}`:    age,
		`coffer_deposits_uncredited_oldest_seconds{chain="ETHEREUM"}`: age,
		"coffer_events_unnumbered_oldest_seconds":                     age,
		"coffer_events_undelivered_oldest_seconds":                    age,
		`coffer_webhook_deliveries_pending{failing="yes"}`:            1,
		`coffer_webhook_endpoints{status="DISABLED_GONE"}`:            1,
		`coffer_scan_cursor_age_seconds{chain="ETHEREUM"}`:            age,
		`coffer_scan_block_age_seconds{chain="ETHEREUM"}`:             age,
		`coffer_scan_blocks_behind_head{chain="ETHEREUM"}`:            70,
		`coffer_scan_untraced{chain="ETHEREUM"}`:                      1,
		`coffer_scan_untraced_oldest_seconds{chain="ETHEREUM"}`:       age,
		`coffer_memos_due{chain="SOLANA"}`:                            1,
		`coffer_memos_due_oldest_seconds{chain="SOLANA"}`:             age,
		`coffer_memos_abandoned{chain="SOLANA"}`:                      1,
		// 1200 are free, and 1200 are used per day.
		`coffer_gas_hours_left{chain="ETHEREUM",wallet="adr_1"}`:                                                  24,
		`coffer_orders_open{chain="ETHEREUM",purpose="payment",status="STUCK",waiting_for=""}`:                    1,
		`coffer_orders_open{chain="ETHEREUM",purpose="payment",status="QUEUED",waiting_for="GAS"}`:                1,
		`coffer_orders_open{chain="ETHEREUM",purpose="return",status="STUCK",waiting_for=""}`:                     1,
		`coffer_orders_open{chain="SOLANA",purpose="close",status="QUEUED",waiting_for="ERROR"}`:                  1,
		`coffer_orders_open_oldest_seconds{chain="ETHEREUM",purpose="payment",status="QUEUED",waiting_for="GAS"}`: age,
		`coffer_withdrawals_open{status="AWAITING_APPROVAL"}`:                                                     1,
		`coffer_withdrawals_open_oldest_seconds{status="AWAITING_APPROVAL"}`:                                      age,
		`coffer_freezes{scope="all",source="VERIFY"}`:                                                             1,
		`coffer_batch_payouts{paused="no",status="PROCESSING"}`:                                                   1,
		`coffer_batch_payouts{paused="yes",status="PROCESSING"}`:                                                  1,
		`coffer_batch_payouts_oldest_seconds{status="PROCESSING"}`:                                                old,
		`coffer_batch_payout_progress_age_seconds{status="PROCESSING"}`:                                           age,
		`coffer_batch_payout_orders_waiting_oldest_seconds{chain="ETHEREUM",waiting_for="FEE_LIMIT"}`:             age,
		`coffer_batch_payout_rows_waiting{paused="no"}`:                                                           1,
		`coffer_batch_payout_rows_waiting{paused="yes"}`:                                                          2,
		"coffer_verify_breached":                                                             1,
		"coffer_verify_age_seconds":                                                          age,
		"coffer_mints_quarantined":                                                           1,
		`coffer_swap_claims{provider="ONE"}`:                                                 2,
		`coffer_swap_claims_oldest_seconds{provider="ONE"}`:                                  age,
		`coffer_swap_providers_suspended{provider="ONE",source="service"}`:                   1,
		`coffer_swap_providers_suspended{provider="TWO",source="operator"}`:                  1,
		`coffer_approver_keys{right="approve",status="usable"}`:                              3,
		`coffer_approver_keys{right="approve",status="cooling_off"}`:                         1,
		`coffer_approver_keys{right="approve",status="waiting"}`:                             1,
		`coffer_approver_keys{right="approve",status="refused"}`:                             1,
		`coffer_approver_keys{right="approve",status="contradicted"}`:                        1,
		"coffer_approver_keys_retired":                                                       1,
		"coffer_approver_keys_kept_oldest_seconds":                                           age,
		`coffer_approvers_with_one_key{right="approve"}`:                                     2,
		"coffer_approval_rules_refused":                                                      1,
		"coffer_swap_arrivals_open":                                                          1,
		"coffer_swap_arrivals_open_oldest_seconds":                                           age,
		"coffer_invoices_issued":                                                             1,
		"coffer_invoices_unpaid":                                                             1,
		"coffer_invoices_unpaid_usd":                                                         10.25,
		"coffer_invoices_unpaid_oldest_seconds":                                              age,
		"coffer_fee_lines_unpriced":                                                          1,
		"coffer_fee_lines_unpriced_oldest_seconds":                                           age,
		`coffer_price_mark_age_seconds{chain="ETHEREUM"}`:                                    age,
		"coffer_deposit_swaps_tampered_total":                                                1,
		`coffer_swap_breaker_open_seconds{provider="ONE"}`:                                   0,
		`coffer_swap_breaker_open_seconds{provider="TWO"}`:                                   age,
		`coffer_swap_outstanding_usd{provider="ONE"}`:                                        850.5,
		`coffer_swap_outstanding_usd_max{provider="ONE"}`:                                    1000,
		`coffer_swap_outstanding_usd{provider="TWO"}`:                                        0,
		`coffer_swap_outstanding_unvalued{provider="THREE"}`:                                 2,
		`coffer_unknown_tokens_dropped{chain="ETHEREUM"}`:                                    1,
		`coffer_jobs_given_up{kind="mail"}`:                                                  1,
		`coffer_mails_queued{failing="yes"}`:                                                 1,
		"coffer_mails_queued_oldest_seconds":                                                 age,
		`coffer_mails_unsent{kind="INVITATION",status="given_up"}`:                           1,
		`coffer_mails_unsent{kind="INVITATION",status="suppressed"}`:                         1,
		`coffer_http_request_seconds_count{method="POST",route="/v1/withdraw",status="503"}`: 1,
		`coffer_http_request_seconds_count{method="any",route="none",status="404"}`:          1,
		`coffer_scan_errors_total{chain="ETHEREUM",kind="disagreement",walk="final"}`:        1,
		`coffer_signer_refusals_total{code="POLICY_LIMIT"}`:                                  1,
		`coffer_signer_calls_total{call="admit",outcome="refused"}`:                          1,
		`coffer_signer_calls_total{call="enrol",outcome="waits"}`:                            1,
		`coffer_signer_calls_total{call="endorse",outcome="waits"}`:                          1,
		`coffer_signer_calls_total{call="retire",outcome="waits"}`:                           1,
		`coffer_signer_calls_total{call="rule",outcome="waits"}`:                             1,
		`coffer_signer_refusals_total{code="APPROVER"}`:                                      2,
		`coffer_signer_calls_total{call="sign",outcome="error"}`:                             1,
		`coffer_webhook_attempts_total{result="5xx"}`:                                        2,
	} {
		if v, ok := got[name]; !ok || math.Abs(v-want) > 60 || want < age && v != want {
			t.Errorf("%s: got %v %v, want %v", name, v, ok, want)
		}
	}

	for name := range got {
		if strings.HasPrefix(name, "coffer_swap_claims") && strings.Contains(name, "TWO") ||
			strings.HasPrefix(name, "coffer_swap_outstanding_u") && strings.Contains(name, "TWO") &&
				name != `coffer_swap_outstanding_usd{provider="TWO"}` ||
			strings.HasPrefix(name, "coffer_swap_providers_suspended") && strings.Contains(name, "THREE") {
			t.Errorf("got %s, want nothing of a provider without claims, limit or suspension", name)
		}
	}
	// Rule BP-93.
	for name := range got {
		if strings.HasPrefix(name, "coffer_batch_payout_orders_waiting") && !strings.Contains(name, "FEE_LIMIT") {
			t.Errorf("got %s, want nothing of a payment of no batch", name)
		}
	}
	for name, want := range map[string]float64{`of="server"`: 2.5, `of="client"`: -0.5, `of="authority"`: 365} {
		i := slices.IndexFunc(slices.Collect(maps.Keys(got)), func(key string) bool {
			return strings.HasPrefix(key, "coffer_signer_certificate_days_left{") && strings.Contains(key, name) &&
				math.Abs(got[key]-want) < 0.01
		})
		if i < 0 {
			t.Errorf("certificates: got none with %s and %v days", name, want)
		}
	}

	// An alert about a metric that does not exist never fires.
	names := map[string]bool{"up": true}
	for name := range got {
		name, _, _ = strings.Cut(name, "{")
		names[name] = true
	}
	inRules(t, func(rule, name string) {
		// The rows of a finality break come from a view over five tables, and the state of the replica has a test of
		// its own.
		if !names[name] && name != "coffer_orders_in_question" && name != "coffer_db_replica_state" {
			t.Errorf("%s: got %s, which is in no scrape", rule, name)
		}
	})

	super.Close(t.Context())
	m.db.Close()
	m.readAt = time.Time{}
	if got := scrape(t, m); got["coffer_db_look_ok"] != 0 {
		t.Errorf("no database: got %v, want it told and the rest left out", got["coffer_db_look_ok"])
	} else if _, old := got["coffer_verify_breached"]; old {
		t.Error("no database: got an old figure, want none")
	}
}

// refuses is a signer that refuses, and then cannot be reached.
type refuses struct{ signer.Signer }

func (refuses) AdmitIntent(context.Context, signer.Intent) (signer.Entry, error) {
	return signer.Entry{}, &signer.Refusal{Code: "POLICY_LIMIT"}
}

func (refuses) Sign(context.Context, signer.SignRequest) (signer.SignedTx, error) {
	return signer.SignedTx{}, errors.New("nobody there")
}

func (refuses) EnrolKey(context.Context, signer.EnrolRequest) (signer.EnrolledKey, error) {
	return signer.EnrolledKey{}, &signer.Refusal{Code: signer.RefusedApprover}
}

func (refuses) EndorseAddress(context.Context, signer.Endorsement) (signer.EndorsedAddress, error) {
	return signer.EndorsedAddress{}, &signer.Refusal{Code: signer.RefusedSignature}
}

func (refuses) RetireKey(context.Context, signer.RetireRequest) (signer.Entry, error) {
	return signer.Entry{}, &signer.Refusal{Code: signer.RefusedApprover}
}

func (refuses) SetRule(context.Context, signer.RuleRequest) (signer.RecordedRule, error) {
	return signer.RecordedRule{}, &signer.Refusal{Code: signer.RefusedApprover}
}

// Only a process with a replica has the metrics of one.
func TestTheMetricsSayWhoAnswersReads(t *testing.T) {
	t.Parallel()
	const prefix = "coffer_db_replica_"
	cluster := pgtest.StartCluster(t, nil)
	log := slog.New(slog.DiscardHandler)
	for name := range scrape(t, NewMetrics(pgtest.OpenReplicated(t, cluster, "", time.Now), nil, log)) {
		if strings.HasPrefix(name, prefix) {
			t.Errorf("without a replica: got %s", name)
		}
	}
	db := pgtest.OpenReplicated(t, cluster, cluster.URL(""), time.Now) // a replica that is none
	m := NewMetrics(db, nil, log)
	before := scrape(t, m)
	if before[prefix+`state{state="UNCHECKED"}`] != 1 || before[prefix+`state{state="FOLLOWS"}`] != 0 {
		t.Errorf("got %v, want a replica that was not checked", before)
	}
	if state, err := db.CheckReplica(t.Context()); state != pg.ReplicaPromoted {
		t.Fatalf("got %s %v, want a server that takes writes", state, err)
	}
	err := db.ReadOrg(db.BeginReads(t.Context()), "org_1", func(context.Context, pg.Tx) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	after := scrape(t, m)
	for name, want := range map[string]float64{
		`state{state="UNCHECKED"}`: 0, `state{state="NO_REPLICA"}`: 1, `lag_seconds`: 0, `wait_seconds_total`: 0,
		`reads_total{answered_by="replica",reason=""}`: 0, `reads_total{answered_by="primary",reason="unproven"}`: 1,
		`reads_total{answered_by="primary",reason="behind"}`: 0,
	} {
		if got, ok := after[prefix+name]; !ok || got != want {
			t.Errorf("%s: got %v %v, want %v", name, got, ok, want)
		}
	}
}

// rule is an alert of deploy/alerts.yaml.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) (all []rule) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatal("got no rules")
	}
	return all
}

var (
	quoted = regexp.MustCompile(`"[^"]*"`)
	inside = regexp.MustCompile(`\{[^}]*\}`)
	word   = regexp.MustCompile(`[a-zA-Z_][a-zA-Z0-9_]*`)
	metric = regexp.MustCompile(`\bcoffer_[a-z_]+\b`)
	// known are the functions and words of the query language that the rules use.
	known = regexp.MustCompile(
		`^(absent|min|of|name|increase|rate|sum|by|on|or|offset|histogram_quantile|le|route|chain|code|kind|scope|source|instance|waiting_for|[0-9]*[smhd])$`,
	)
)

func inRules(t *testing.T, each func(rule, name string)) {
	t.Helper()
	for _, r := range rules(t) {
		for _, name := range metric.FindAllString(quoted.ReplaceAllString(r.Expr, ""), -1) {
			each(r.Alert, name)
		}
	}
}

func TestTheRulesAreWholeAndTheirRunbooksAreThere(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range rules(t) {
		if seen[r.Alert] {
			t.Errorf("%s: got it twice", r.Alert)
		}
		seen[r.Alert] = true
		bare := quoted.ReplaceAllString(r.Expr, `""`)
		for _, pair := range []string{"()", "{}", "[]"} {
			if strings.Count(bare, pair[:1]) != strings.Count(bare, pair[1:]) {
				t.Errorf("%s: got %s, want every bracket closed", r.Alert, r.Expr)
			}
		}
		for _, w := range word.FindAllString(inside.ReplaceAllString(bare, ""), -1) {
			if !metric.MatchString(w) && !known.MatchString(w) {
				t.Errorf("%s: got the word %s, which is neither a metric nor of the language", r.Alert, w)
			}
		}
		if r.For != "" {
			if _, err := time.ParseDuration(r.For); err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s: got severity %q", r.Alert, s)
		}
		if r.Annotations["summary"] == "" || r.Annotations["do"] == "" {
			t.Errorf("%s: got %v, want a summary and what to do", r.Alert, r.Annotations)
		}
		file, heading, _ := strings.Cut(r.Annotations["runbook"], "#")
		text, err := os.ReadFile("../../" + file)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
		} else if heading != "" && !strings.Contains(strings.ToLower(string(text)), "\n## "+heading+"\n") {
			t.Errorf("%s: got no section %s in %s", r.Alert, heading, file)
		}
	}
}
