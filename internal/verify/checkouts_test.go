package verify

import (
	"context"
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// checkouts adds two checkouts that were paid, one of them at the address that checkouts share, one that a person
// accepted with less than it needs, one that was cancelled, and two arrivals at the shared address that are no
// payments.
func (h *testEnv) checkouts() {
	h.t.Helper()
	record := func(checkoutID, action string, actor audit.Actor, detail map[string]any) {
		h.system(func(ctx context.Context, tx pg.Tx) error {
			return audit.Record(ctx, tx, audit.Entry{
				OrgID: h.org, Actor: actor, Action: "checkout." +
					action, ResourceKind: "CHECKOUT", ResourceID: checkoutID,
				Detail: detail,
			})
		})
	}
	worker, ann := audit.System("checkout"), audit.Actor{Kind: "USER", ID: "usr_ann"}
	for id, w := range map[string][2]string{
		"we_cosol": {"CHECKOUT", "co_shared"}, "we_solshared": {"CHECKOUT_SHARED", "CHECKOUT"},
	} {
		h.exec(`INSERT INTO wallets VALUES ($1, $2, 'SOLANA', $3, $4, $1, 'sol' || $1, '', now())`, id, h.org, w[0],
			w[1])
		h.recordAudit("wallet.issued", id)
	}
	for _, c := range []struct {
		id, due, need, items, status, counted string
		decided                               bool
	}{
		{
			"co_paid", "0.00002", "0.0000199", `[{"name":"Gold","unitPrice":"0.00001","quantity":2}]`, "COMPLETED",
			"0.00002", false,
		},
		{
			"co_shared", "0.000012", "0.00001194",
			`[{"productId":"prod_gold","name":"Tin","unitPrice":"0.000012","quantity":1}]`, "COMPLETED", "0.000012",
			false,
		},
		{"co_less", "10", "9.95", `[{"name":"Ore","unitPrice":"10","quantity":1}]`, "COMPLETED", "0.000004", true},
		{"co_ended", "5", "4.975", `[{"name":"Salt","unitPrice":"5","quantity":1}]`, "CANCELLED", "0", false},
	} {
		h.exec(`
			INSERT INTO checkouts (checkout_id, org_id, version, line_items, currency, due, need, accepted_mint_ids,
				under_bps,
				under_usd, over_policy, late_policy, cost_max_bps, reference, one_per_reference, metadata,
					request_digest,
				created_at, status, expires_at, seen, counted, decided_by, decided_reason, cancelled_at, completed_at,
				completed_with, updated_at)
			SELECT $1, $2, 3, $3::jsonb, 'USD', $4, $5, '{1,4}', 50, 0, 'CREDIT', 'HOLD', 5000, 'order of ' || $1,
				false, '{}', '',
				now() - interval '1 hour', $6, now() - interval '30 minutes', $7, $7, CASE WHEN $8
					THEN 'USER usr_ann' END,
				CASE WHEN $8 THEN 'a regular' END, CASE $6 WHEN 'CANCELLED' THEN now() - interval '40 minutes' END,
				CASE $6 WHEN 'COMPLETED' THEN now() - interval '40 minutes' END, CASE $6 WHEN 'COMPLETED'
					THEN $7::numeric END,
				now() - interval '40 minutes'`, c.id, h.org, c.items, c.due, c.need, c.status, c.counted, c.decided)
		detail := map[string]any{"due": c.due, "currency": "USD", "reference": "order of " + c.id}
		if c.id == "co_shared" {
			detail["linkId"] = "link_tin"
		}
		record(c.id, "created", audit.Actor{Kind: "API_KEY", ID: h.org}, detail)
		switch {
		case c.status == "CANCELLED":
			record(c.id, "cancelled", ann, nil)
		case c.decided:
			record(c.id, "changed", ann, map[string]any{"from": "EXPIRED", "to": "COMPLETED", "reason": "a regular"})
		default:
			record(c.id, "option_opened", worker, nil)
			record(c.id, "changed", worker, map[string]any{"from": "OPEN", "to": "PROCESSING", "reason": ""})
			record(c.id, "changed", worker, map[string]any{"from": "PROCESSING", "to": "COMPLETED", "reason": ""})
		}
	}
	h.links()
	reference := payuri.Reference(h.org, "co_shared", 4)
	h.exec(`
		INSERT INTO checkout_options (checkout_id, mint_id, org_id, wallet_id, reference, shared_wallet_id, opened_at)
		VALUES ('co_paid', 1, $1, 'we_co', NULL, NULL, now() - interval '1 hour'),
			('co_shared', 4, $1, 'we_cosol', $2, 'we_solshared', now() - interval '1 hour')`, h.org, reference[:])
	h.exec(`
		INSERT INTO token_accounts (wallet_id, mint_id, org_id, found_at) VALUES ('we_solshared', 4, $1, now())`, h.org)
	h.exec(`
		INSERT INTO checkout_quotes (checkout_id, mint_id, seq, org_id, amount, price, currency_price, source,
			priced_at, covers,
			valid_from, expires_at)
		SELECT 'co_paid', 1, seq, $1, 20, 1, 1, 'test', now() - interval '1 hour', 0.00002,
			now() - (61 - seq) * interval '1 minute', now() - (46 - seq) * interval '1 minute'
		FROM generate_series(1, 3) seq`, h.org)
	// The payment of the shared address and that of the accepted checkout have a price of the market.
	for _, p := range []struct {
		deposit, checkout, counted, status string
		quote                              *int
		units                              int
		inTime, counts                     bool
	}{
		{"dep_co", "co_paid", "0.00002", "CREDITED", new(2), 20, true, true},
		{"dep_shared", "co_shared", "0.000012", "CREDITED", nil, 12, true, true},
		{"dep_tardy", "co_less", "0.000004", "CREDITED", nil, 4, false, true},
		{"dep_other", "co_shared", "0.000003", "ORPHANED", nil, 3, true, false},
	} {
		h.exec(`
			INSERT INTO checkout_payments (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time,
				seen_at, was_live,
				status, told_status, moment, is_accepted, in_time, counts, quote_seq, price, currency_price,
					price_source,
				priced_at, counted)
			SELECT $1, $2, $3, 1, 'ETHEREUM', $4, b.paid_at, b.paid_at + interval '10 seconds', true, $5, $5,
				b.paid_at, true, $6, $7,
				$8, 1, 1, 'test', coalesce((SELECT priced_at FROM checkout_quotes WHERE seq = $8), now()), $9
			FROM (SELECT now() - CASE WHEN $6 THEN interval '50 minutes' ELSE interval '20 minutes' END AS paid_at) b`,
			p.deposit, h.org, p.checkout, p.units, p.status, p.inTime, p.counts, p.quote, p.counted)
	}
	h.exec(`
		INSERT INTO checkout_unmatched (deposit_id, org_id, mint_id, amount, reason, seen_at)
		VALUES ('dep_stranger', $1, 1, 5, 'NO_REFERENCE', now()), ('dep_other', $1, 1, 3, 'OTHER_REFERENCE',
			now())`, h.org)
	// The tardy payment named no checkout, and a person assigned it.
	h.exec(`
		INSERT INTO checkout_unmatched (deposit_id, org_id, mint_id, amount, reason, seen_at, assigned_to, assigned_by,
			assigned_at)
		SELECT deposit_id, org_id, mint_id, amount, 'NO_REFERENCE', now(), 'co_less', 'USER usr_ann', now()
		FROM deposits WHERE deposit_id = 'dep_tardy'`)
	record("co_less", "payment_assigned", ann, map[string]any{"deposit": "dep_tardy", "reason": "NO_REFERENCE"})
}

var checkoutTamperings = []tampering{
	{"I-80", "a payment that is gone", []string{`DELETE FROM checkout_payments WHERE deposit_id = 'dep_co'`}},
	{"I-80", "an arrival that no list has", []string{`DELETE FROM checkout_unmatched
		WHERE deposit_id = 'dep_stranger'`}},
	{"I-80", "a payment of more than arrived", []string{
		`UPDATE checkout_payments SET amount = amount + 1 WHERE deposit_id = 'dep_co'`,
	}},
	{"I-80", "a payment in another coin", []string{`UPDATE checkout_payments SET mint_id = 2
		WHERE deposit_id = 'dep_shared'`}},
	{"I-80", "a payment for another checkout than its address's", []string{
		`UPDATE checkout_payments SET checkout_id = 'co_less', quote_seq = NULL WHERE deposit_id = 'dep_co'`,
	}},
	{"I-80", "a payment of another organization", []string{`UPDATE checkout_payments SET org_id = 'org_other'`}},
	{"I-80", "a payment on another chain", []string{`UPDATE checkout_payments SET chain = 'BASE'`}},
	{"I-80", "a payment that was credited before its deposit", []string{
		`UPDATE deposits SET status = 'SCREENING', credited_at = NULL WHERE deposit_id = 'dep_co'`,
	}},
	{"I-80", "a payment that is held, of a credited deposit", []string{
		`UPDATE checkout_payments SET status = 'FLAGGED' WHERE deposit_id = 'dep_co'`,
	}},
	{"I-80", "a payment of another checkout that counts", []string{
		`UPDATE checkout_payments SET status = 'SEEN' WHERE deposit_id = 'dep_other'`,
	}},
	{"I-80", "a payment that is listed as unmatched", []string{
		`INSERT INTO checkout_unmatched (deposit_id, org_id, mint_id, amount, reason, seen_at)
		 SELECT 'dep_co', org_id, mint_id, amount, 'NO_REFERENCE', now() FROM checkout_payments
			WHERE deposit_id = 'dep_co'`,
	}},
	{"I-80", "a reference that is found without a payment", []string{
		`UPDATE checkout_unmatched SET reason = 'OTHER_REFERENCE'`,
	}},
	{"I-80", "a missing checkout of a shared address", []string{
		`UPDATE checkout_unmatched SET reason = 'NO_CHECKOUT', checkout_id = 'co_lie'
			WHERE deposit_id = 'dep_stranger'`,
	}},
	{"I-80", "an assigned payment that is gone", []string{`DELETE FROM checkout_payments
		WHERE deposit_id = 'dep_tardy'`}},
	{"I-80", "an assigned payment of another checkout", []string{
		`UPDATE checkout_payments SET checkout_id = 'co_paid' WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-80", "an assignment that no payment follows", []string{
		`UPDATE checkout_unmatched SET assigned_to = 'co_less', assigned_by = 'USER usr_ann', assigned_at = now()
			WHERE deposit_id = 'dep_stranger'`,
	}},
	{"I-80", "an assignment that counts as none", []string{
		`UPDATE checkout_payments SET status = 'ORPHANED' WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-80-assigned", "an assignment of no one", []string{
		`DELETE FROM audit_log WHERE action = 'checkout.payment_assigned'`,
	}},
	{"I-80-assigned", "an assignment of another person", []string{
		`UPDATE checkout_unmatched SET assigned_by = 'USER usr_eve' WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-80-assigned", "an assignment that the log gives to another payment", []string{
		`UPDATE audit_log SET detail = jsonb_set(detail, '{deposit}', '"dep_co"')
			WHERE action = 'checkout.payment_assigned'`,
	}},
	{"I-80", "a customer's deposit that pays a checkout", []string{
		`INSERT INTO checkout_payments (deposit_id, org_id, checkout_id, mint_id, chain, amount, block_time, seen_at,
			was_live, status)
		 SELECT 'dep_token', org_id, checkout_id, mint_id, chain, 1000, block_time, seen_at, was_live, status
		 FROM checkout_payments WHERE deposit_id = 'dep_co'`,
	}},
	{"I-80", "a credited payment that no one has", []string{`DELETE FROM ledger_transfers
		WHERE cause_id = 'dep_shared'`}},
	{"I-80", "a payment that a customer has", []string{
		`UPDATE ledger_transfers SET credit_account = (SELECT account_id FROM ledger_accounts WHERE kind = 'CUSTOMER'
			AND mint_id = 1)
		 WHERE cause_id = 'dep_co'`,
	}},

	{"I-81", "completed with more than was credited", []string{
		`UPDATE checkouts SET completed_with = completed_with * 2 WHERE checkout_id = 'co_paid'`,
	}},
	{"I-81", "completed with less than it needs", []string{
		`ALTER TABLE checkouts DROP CONSTRAINT checkouts_paid`,
		`UPDATE checkouts SET completed_with = 0.00001 WHERE checkout_id = 'co_paid'`,
	}},
	{"I-81", "completed by no payment", []string{
		`UPDATE checkouts SET status = 'COMPLETED', completed_at = now(), completed_with = due
			WHERE checkout_id = 'co_ended'`,
	}},
	{"I-81", "completed by what was only seen", []string{
		`UPDATE checkout_payments SET status = 'SEEN', told_status = 'SEEN' WHERE deposit_id = 'dep_co'`,
		`UPDATE checkouts SET counted = 0 WHERE checkout_id = 'co_paid'`,
	}},
	{"I-81", "a decision about what was not paid", []string{
		`UPDATE checkouts SET status = 'COMPLETED', completed_at = now(), completed_with = 0,
			decided_by = 'USER usr_ann',
			decided_reason = 'a regular', cancelled_at = NULL WHERE checkout_id = 'co_ended'`,
	}},
	{"I-81", "a need that was lowered", []string{`UPDATE checkouts SET need = due * 0.9
		WHERE checkout_id = 'co_paid'`}},
	{"I-81", "a tolerance that was raised", []string{`UPDATE checkouts SET under_bps = 51
		WHERE checkout_id = 'co_less'`}},
	{"I-81", "a tolerance in dollars", []string{`UPDATE checkouts SET under_usd = 1 WHERE checkout_id = 'co_less'`}},
	{"I-81", "a sum that its payments do not make", []string{
		`UPDATE checkouts SET seen = seen + 1, counted = counted + 1 WHERE checkout_id = 'co_paid'`,
	}},
	{"I-81", "a decision of no one", []string{
		`DELETE FROM audit_log WHERE resource_id = 'co_less' AND action = 'checkout.changed'`,
	}},
	{"I-81", "a decision of another person", []string{
		`UPDATE checkouts SET decided_by = 'USER usr_eve' WHERE checkout_id = 'co_less'`,
	}},
	{"I-81", "a decision for another reason", []string{
		`UPDATE checkouts SET decided_reason = 'paid in gold' WHERE checkout_id = 'co_less'`,
	}},

	{"I-81-counted", "a payment that counts more than it is worth", []string{
		`UPDATE checkout_payments SET counted = counted + 1e-18 WHERE deposit_id = 'dep_co'`,
	}},
	{"I-81-counted", "a payment that counts less than it is worth", []string{
		`UPDATE checkout_payments SET counted = counted - 1e-18 WHERE deposit_id = 'dep_shared'`,
	}},
	{"I-81-counted", "a payment at the greatest value", []string{
		`UPDATE checkout_payments SET counted = 1e18 WHERE deposit_id = 'dep_shared'`,
	}},
	{"I-81-counted", "a price that no quote has", []string{
		`UPDATE checkout_payments SET price = 2, counted = counted * 2 WHERE deposit_id = 'dep_co'`,
	}},
	{"I-81-counted", "a source that no quote has", []string{
		`UPDATE checkout_payments SET price_source = 'mallory' WHERE deposit_id = 'dep_co'`,
	}},
	{"I-81-counted", "a quote of a later moment", []string{
		`UPDATE checkout_payments SET block_time = block_time - interval '20 minutes',
			seen_at = seen_at - interval '20 minutes',
			moment = moment - interval '20 minutes' WHERE deposit_id = 'dep_co'`,
	}},
	{"I-81-counted", "a quote whose grace is over", []string{
		`UPDATE checkout_quotes SET expires_at = (SELECT moment FROM checkout_payments
			WHERE deposit_id = 'dep_co') - interval '61 seconds'
		 WHERE seq = 2`,
	}},
	{"I-81-counted", "a quote that is gone", []string{`DELETE FROM checkout_quotes WHERE seq = 2`}},
	{"I-81-counted", "an earlier moment", []string{
		`UPDATE checkout_payments SET moment = moment - interval '1 second' WHERE deposit_id = 'dep_shared'`,
	}},
	{"I-81-counted", "a block from long before it was seen", []string{
		`UPDATE checkout_payments SET block_time = block_time - interval '2 hours', moment = moment - interval '2 hours'
		 WHERE deposit_id = 'dep_shared'`,
	}},
	{"I-81-counted", "a moment of no address", []string{
		`UPDATE checkout_payments SET moment = moment + interval '1 second' WHERE deposit_id = 'dep_co'`,
	}},
	{"I-81-counted", "a late payment in time", []string{
		`UPDATE checkout_payments SET in_time = true WHERE deposit_id = 'dep_tardy'`,
	}},
	{"I-81-counted", "a payment after the cancellation in time", []string{
		`UPDATE checkouts SET cancelled_at = now() - interval '55 minutes' WHERE checkout_id = 'co_paid'`,
	}},
	{"I-81-counted", "a late payment that no one accepted", []string{
		`ALTER TABLE checkouts DROP CONSTRAINT checkouts_paid`,
		`UPDATE checkouts SET decided_by = NULL, decided_reason = NULL WHERE checkout_id = 'co_less'`,
	}},
	{"I-81-counted", "a coin that the checkout does not take", []string{
		`UPDATE checkout_payments SET is_accepted = false WHERE deposit_id = 'dep_co'`,
	}},
	{"I-81-counted", "an orphan that counts", []string{
		`UPDATE checkout_payments SET counts = true WHERE deposit_id = 'dep_other'`,
	}},

	{"I-82", "less due than the items make", []string{`UPDATE checkouts SET due = 9, need = 9
		WHERE checkout_id = 'co_less'`}},
	{"I-82", "a piece more", []string{
		`UPDATE checkouts SET line_items = jsonb_set(line_items, '{0,quantity}', '3') WHERE checkout_id = 'co_paid'`,
	}},
	{"I-82", "another sale", []string{
		`UPDATE checkouts SET due = 1, need = 1, line_items = '[{"name":"Ore","unitPrice":"1","quantity":1}]'
			WHERE checkout_id = 'co_less'`,
	}},
	{"I-82", "another currency", []string{`UPDATE checkouts SET currency = 'USDC' WHERE checkout_id = 'co_less'`}},
	{"I-82", "another order of the shop", []string{
		`UPDATE checkouts SET reference = 'order of co_paid' WHERE checkout_id = 'co_less'`,
	}},
	{"I-82", "a quote that is gone", []string{`DELETE FROM checkout_quotes WHERE seq = 1`}},
	{"I-82", "quotes out of their order", []string{
		`UPDATE checkout_quotes SET valid_from = valid_from - interval '10 minutes' WHERE seq = 3`,
	}},
	{"I-82", "a quote for less than it is for", []string{`UPDATE checkout_quotes SET amount = 19 WHERE seq = 3`}},
	{"I-82", "a quote at another price", []string{`UPDATE checkout_quotes SET price = 0.99 WHERE seq = 3`}},
	{"I-82", "a quote for more than is due", []string{`UPDATE checkout_quotes SET covers = 1, amount = 1000000
		WHERE seq = 3`}},
	{"I-82", "a quote that outlives its checkout", []string{
		`UPDATE checkout_quotes SET expires_at = now() WHERE seq = 3`,
	}},

	{"I-85", "an address of another checkout", []string{
		`UPDATE checkout_options SET wallet_id = 'we_cosol' WHERE checkout_id = 'co_paid'`,
	}},
	{"I-85", "an address of a customer", []string{`UPDATE checkout_options SET wallet_id = 'we_dep'
		WHERE checkout_id = 'co_paid'`}},
	{"I-85", "a wallet that was given to another checkout", []string{
		`UPDATE wallets SET subject = 'co_less' WHERE wallet_id = 'we_co'`,
	}},
	{"I-85", "an address of two checkouts", []string{
		`UPDATE wallets SET address = (SELECT address FROM wallets WHERE wallet_id = 'we_co')
			WHERE wallet_id = 'we_cosol'`,
	}},
	{"I-85", "a shared address of another purpose", []string{
		`UPDATE checkout_options SET shared_wallet_id = 'we_tre' WHERE shared_wallet_id IS NOT NULL`,
	}},
	{"I-85", "a shared address on an EVM chain", []string{
		`UPDATE checkout_options SET reference = sha256('x'), shared_wallet_id = 'we_shared'
			WHERE checkout_id = 'co_paid'`,
	}},
	{"I-85", "no shared address on Solana", []string{`UPDATE checkout_options SET reference = NULL,
		shared_wallet_id = NULL`}},
	{"I-85", "a coin that the checkout does not take", []string{
		`UPDATE checkouts SET accepted_mint_ids = '{2}' WHERE checkout_id = 'co_paid'`,
	}},
	{"I-85-reference", "the reference of another checkout", []string{
		`UPDATE checkout_options SET reference = sha256('another') WHERE reference IS NOT NULL`,
	}},
	{"I-85-reference", "a reference of another mint", []string{
		`UPDATE checkout_options SET mint_id = 1 WHERE reference IS NOT NULL`,
	}},

	{"I-40", "a checkout that no one made", []string{`DELETE FROM audit_log WHERE action = 'checkout.created'`}},
	{"I-40", "a cancellation of no one", []string{`DELETE FROM audit_log WHERE action = 'checkout.cancelled'`}},
	{"I-40", "an address that no one asked for", []string{`DELETE FROM audit_log
		WHERE action = 'checkout.option_opened'`}},
	{"I-40-checkouts", "a status that no one gave it", []string{
		`UPDATE checkouts SET status = 'EXPIRED' WHERE checkout_id = 'co_ended'`,
	}},
	{"I-40-checkouts", "a completion that the log does not have", []string{
		`DELETE FROM audit_log WHERE resource_id = 'co_paid' AND detail ->> 'to' = 'COMPLETED'`,
	}},
}

// A payment that waits for the worker is no breach: the sums of its checkout follow.
func TestACheckoutMayNotKnowItsPaymentYet(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	for name, sql := range map[string][]string{
		"an amount of another fork": {
			`UPDATE checkout_payments SET status = 'SEEN', told_status = 'SEEN', counts = false, counted = NULL,
				price = NULL,
				currency_price = NULL, price_source = NULL, priced_at = NULL, quote_seq = NULL, try_at = now()
			 WHERE deposit_id = 'dep_shared'`,
			`UPDATE deposits SET status = 'SCREENING', credited_at = NULL WHERE deposit_id = 'dep_shared'`,
			`UPDATE checkouts SET status = 'PROCESSING', completed_at = NULL, completed_with = NULL, counted = 0
			 WHERE checkout_id = 'co_shared'`,
		},
		"a reversal": {
			`UPDATE checkout_payments SET status = 'REVERSED', try_at = now() WHERE deposit_id = 'dep_co'`,
			`UPDATE deposits SET status = 'REVERSED', chain_status = 'REORGED', reversed_at = now(), taken_back = amount
			 WHERE deposit_id = 'dep_co'`,
		},
		"a reversal that the checkout knows": {
			`UPDATE checkout_payments SET status = 'REVERSED', told_status = 'REVERSED', counts = false
				WHERE deposit_id = 'dep_co'`,
			`UPDATE deposits SET status = 'REVERSED', chain_status = 'REORGED', reversed_at = now(), taken_back = amount
			 WHERE deposit_id = 'dep_co'`,
			`UPDATE checkouts SET seen = 0, counted = 0 WHERE checkout_id = 'co_paid'`,
		},
	} {
		i := slices.IndexFunc(checkoutChecks, func(c Check) bool { return c.ID == "I-85" })
		r, err := h.runTamperedFor(checkoutChecks[:i], sql...)
		if err != nil || !r.IsIntact() {
			t.Errorf("%s: got %+v %v, want no breach", name, r.Breaches, err)
		}
	}
}
