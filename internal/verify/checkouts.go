package verify

import (
	"bytes"
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/checkout/payuri"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// The meaning of the tables of checkouts for the checks. Prices are compared by multiplication, which PostgreSQL does
// exactly, so the checks share no arithmetic with the program.
const (
	// The status of the payment of deposit d. A credit whose finality is in question stays one until it is reversed.
	paymentStatusSQL = `CASE WHEN d.status IN ('DETECTED', 'CONFIRMING', 'SCREENING') THEN 'SEEN'
					WHEN d.status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK') THEN 'FLAGGED'
					WHEN d.status IN ('REJECTED', 'REDIRECTED') THEN 'RETURNED'
					WHEN d.status IN ('UNSUPPORTED', 'BELOW_MINIMUM') THEN 'UNUSABLE'
					ELSE d.status END`
	// What payment p of mint m counts at least, and less than which it counts, both times the price of the currency
	// and the units of a whole token.
	countedLowSQL  = `p.counted * p.currency_price * ('1e' || m.decimals)::numeric`
	countedHighSQL = `(p.counted + 1e-18) * p.currency_price * ('1e' || m.decimals)::numeric`
	// The most that a payment counts.
	countedMaxSQL = `1e18`
	// The tolerance of checkout c: a share or dollars, and at most a tenth.
	toleranceSQL = `trunc(least(greatest(c.due * c.under_bps * 0.0001, CASE c.currency WHEN 'USD'
		THEN c.under_usd ELSE 0 END), c.due * 0.1), 18)`
	// The time by which payment p is judged: that of its block, never after its first sight, and never long before it
	// if the walk was live. One that is before its address counts as one of the moment of the address.
	paymentMomentSQL = `greatest(least(p.block_time, p.seen_at), CASE WHEN p.was_live
					THEN p.seen_at - CASE p.chain WHEN 'BITCOIN'
						THEN interval '2 hours' ELSE interval '2 minutes' END END)`
	quoteGraceSQL = `CASE p.chain WHEN 'BITCOIN' THEN interval '30 minutes' ELSE interval '1 minute' END`
	// The family of the addresses of mint m.
	mintFamilySQL = `CASE m.chain WHEN 'BITCOIN' THEN 'BITCOIN' WHEN 'SOLANA' THEN 'SOLANA' ELSE 'EVM' END`
)

// checkoutChecks are the checks of checkouts.
var checkoutChecks = []Check{
	{
		ID: "I-80",
		Promise: "every deposit at a wallet of checkouts is the payment of one checkout or is listed as unmatched, " +
			"as the deposit says, and a credited one belongs to the organization's checkouts", breachSQL: `
		SELECT d.org_id, 'deposit ' || d.deposit_id, CASE
			WHEN p.deposit_id IS NULL AND u.deposit_id IS NULL
				THEN 'is no payment of a checkout, and is not listed as unmatched'
			WHEN p.deposit_id IS NULL THEN format('is listed as unmatched (%s) for checkout %s of %s', u.reason,
				coalesce(u.checkout_id, 'none'), u.org_id)
			ELSE format('is %s: %s of mint %s for checkout %s; its payment is %s: %s of mint %s for checkout %s%s',
				d.status,
				d.amount, d.mint_id, coalesce(d.checkout_id, 'none'), p.status, p.amount, p.mint_id, p.checkout_id,
				coalesce(', and it is unmatched: ' || u.reason, '')) END
		FROM deposits d
		LEFT JOIN checkout_payments p ON p.deposit_id = d.deposit_id
		LEFT JOIN checkout_unmatched u ON u.deposit_id = d.deposit_id
		LEFT JOIN checkouts c ON c.checkout_id = p.checkout_id
		WHERE d.purpose IN ('CHECKOUT', 'CHECKOUT_SHARED') AND (
			p.deposit_id IS NULL AND u.deposit_id IS NULL
			OR p.deposit_id IS NOT NULL AND (
				(p.org_id, p.chain, p.amount, c.org_id) IS DISTINCT FROM (d.org_id, d.chain, d.amount, d.org_id)
				OR p.checkout_id <> coalesce(u.assigned_to, d.checkout_id, p.checkout_id)
				-- The catalogue may have learned of the token since.
				OR p.mint_id IS DISTINCT FROM d.mint_id AND p.mint_id IS NOT NULL
				-- A payment whose final block names another checkout counts for none.
				OR p.status <> CASE WHEN u.deposit_id IS NULL OR u.assigned_to IS NOT NULL THEN ` +
			paymentStatusSQL + ` ELSE 'ORPHANED' END)
			OR u.deposit_id IS NOT NULL AND (
				u.org_id <> d.org_id
				OR (p.deposit_id IS NOT NULL) <> (u.reason = 'OTHER_REFERENCE' OR u.assigned_to IS NOT NULL)
				OR (u.reason = 'NO_CHECKOUT') <> (d.purpose = 'CHECKOUT')
				OR u.checkout_id IS DISTINCT FROM d.checkout_id))
		UNION ALL
		SELECT r.org_id, 'deposit ' || r.deposit_id, format('is %s, and did not arrive at a wallet of checkouts',
			r.what)
		FROM (SELECT org_id, deposit_id, 'the payment of checkout ' || checkout_id AS what FROM checkout_payments
			UNION ALL
			SELECT org_id, deposit_id, 'listed as unmatched' FROM checkout_unmatched) r
		LEFT JOIN deposits d ON d.deposit_id = r.deposit_id AND d.purpose IN ('CHECKOUT', 'CHECKOUT_SHARED')
		WHERE d.deposit_id IS NULL
		UNION ALL
		SELECT d.org_id, 'deposit ' || d.deposit_id, format('is %s, and %s of it belong to the checkouts', d.status,
			n.posted)
		FROM deposits d
		CROSS JOIN LATERAL (SELECT coalesce(sum(t.amount), 0) AS posted FROM ledger_transfers t
			JOIN ledger_accounts a ON a.account_id = t.credit_account
			WHERE t.cause_kind = 'DEPOSIT' AND t.cause_id = d.deposit_id AND t.org_id = d.org_id
				AND (a.kind, a.subject) = ('PRODUCT', 'CHECKOUT')) n
		WHERE d.purpose IN ('CHECKOUT', 'CHECKOUT_SHARED') AND d.status IN ('CREDITED', 'REVERSED')
			AND n.posted <> d.amount`,
	},

	{
		ID: "I-80-assigned",
		Promise: "a payment that named no checkout belongs to the one to which it was assigned, and the audit log " +
			"says by whom", breachSQL: `
		SELECT u.org_id, 'deposit ' || u.deposit_id, format('was given to checkout %s by %s, and the audit log says %s',
			u.assigned_to, u.assigned_by, coalesce(a.actor_kind || ' ' || a.actor_id, 'nothing'))
		FROM checkout_unmatched u
		LEFT JOIN audit_log a ON a.org_id = u.org_id AND a.resource_id = u.assigned_to
			AND a.action = 'checkout.payment_assigned' AND a.detail ->> 'deposit' = u.deposit_id
		WHERE u.assigned_to IS NOT NULL AND a.actor_kind || ' ' || a.actor_id IS DISTINCT FROM u.assigned_by`,
	},

	{
		ID: "I-81",
		Promise: "a checkout is completed with credited payments that count as much as it needs, or by a person's " +
			"decision; it needs what its terms say", breachSQL: `
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('needs %s, and %s due with a tolerance of %s make %s',
			c.need,
			c.due, t.tolerance, c.due - t.tolerance)
		FROM checkouts c CROSS JOIN LATERAL (SELECT ` + toleranceSQL + ` AS tolerance) t
		WHERE c.need <> c.due - t.tolerance
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('is %s with %s of %s, and %s was credited for it',
			c.status,
			coalesce(c.completed_with, 0), c.need, n.credited)
		FROM checkouts c
		CROSS JOIN LATERAL (
			-- What was reversed had been credited.
			SELECT coalesce(sum(p.counted) FILTER (WHERE (p.is_accepted OR c.decided_by IS NOT NULL)
					AND (p.counts OR p.status = 'REVERSED')), 0) AS credited,
				count(*) AS payments
			FROM checkout_payments p
			WHERE p.checkout_id = c.checkout_id AND p.status IN ('CREDITED', 'REVERSED')) n
		WHERE (c.status = 'COMPLETED') <> (c.completed_at IS NOT NULL)
			OR c.decided_by IS NOT NULL AND c.status <> 'COMPLETED'
			OR c.status = 'COMPLETED' AND (c.completed_with IS NULL OR c.completed_with > n.credited OR n.payments = 0
				OR c.decided_by IS NULL AND c.completed_with < c.need)
		UNION ALL
		-- A payment that waits for the worker is not in the sums yet.
		SELECT c.org_id, 'checkout ' || c.checkout_id,
			format('has %s in blocks and %s credited, and its payments make %s and %s',
			c.seen, c.counted, n.seen, n.credited)
		FROM checkouts c
		CROSS JOIN LATERAL (
			SELECT coalesce(sum(p.counted) FILTER (WHERE p.counts), 0) AS seen,
				coalesce(sum(p.counted) FILTER (WHERE p.counts AND p.status = 'CREDITED'), 0) AS credited,
				coalesce(bool_or(p.try_at IS NOT NULL OR p.told_status IS DISTINCT FROM p.status), false) AS is_waiting
			FROM checkout_payments p WHERE p.checkout_id = c.checkout_id) n
		WHERE NOT n.is_waiting AND (c.seen, c.counted) <> (n.seen, n.credited)
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('is decided by %s, and the audit log does not say so',
			c.decided_by)
		FROM checkouts c
		WHERE c.decided_by IS NOT NULL AND NOT EXISTS (
			SELECT FROM audit_log a WHERE a.org_id = c.org_id AND a.resource_id = c.checkout_id
				AND a.action = 'checkout.changed'
				AND a.actor_kind || ' ' || a.actor_id = c.decided_by AND a.actor_kind <> 'SYSTEM'
				AND (a.detail ->> 'to', a.detail ->> 'reason') = ('COMPLETED', c.decided_reason))`,
	},

	{
		ID: "I-81-counted",
		Promise: "every payment of a checkout counts its amount by the quote of its moment or by a price of the " +
			"market, rounded down, and counts only where the terms let it", breachSQL: `
		SELECT p.org_id, 'payment ' || p.deposit_id,
			format('counts %s, and is %s of mint %s with %s digits at %s by %s',
			p.counted, p.amount, p.mint_id, m.decimals, p.price, p.currency_price)
		FROM checkout_payments p JOIN mints m ON m.mint_id = p.mint_id
		WHERE p.counted IS NOT NULL
			AND NOT (p.amount * p.price >= ` + countedLowSQL + ` AND p.amount * p.price < ` + countedHighSQL + `)
			AND NOT (p.counted = ` + countedMaxSQL + ` AND p.amount * p.price >= ` + countedLowSQL + `)
		UNION ALL
		SELECT p.org_id, 'payment ' || p.deposit_id, format('was made at %s and has quote %s: %s by %s, from %s to %s',
			p.moment,
			p.quote_seq, q.price, q.currency_price, q.valid_from, q.expires_at)
		FROM checkout_payments p LEFT JOIN checkout_quotes q
			ON q.checkout_id = p.checkout_id AND q.mint_id = p.mint_id AND q.seq = p.quote_seq
		WHERE p.quote_seq IS NOT NULL AND (
			(q.price, q.currency_price, q.source, q.priced_at) IS DISTINCT FROM
				(p.price, p.currency_price, p.price_source, p.priced_at)
			OR p.moment < q.valid_from OR p.moment > q.expires_at + ` + quoteGraceSQL + `)
		UNION ALL
		SELECT p.org_id, 'payment ' || p.deposit_id, format('was made at %s, and its block is of %s, seen at %s',
			p.moment,
			p.block_time, p.seen_at)
		FROM checkout_payments p JOIN checkouts c ON c.checkout_id = p.checkout_id
		JOIN deposits d ON d.deposit_id = p.deposit_id JOIN wallets w ON w.wallet_id = d.wallet_id
		CROSS JOIN LATERAL (SELECT ` + paymentMomentSQL + ` AS moment) t
		WHERE p.moment IS NOT NULL AND p.moment <> t.moment
			-- No one knew the address before it was issued, whatever the clock of the block says.
			AND p.moment <> greatest(t.moment, c.created_at)
			AND p.moment <> greatest(t.moment, (SELECT min(o.opened_at) FROM checkout_options o
				JOIN wallets v ON v.wallet_id = o.wallet_id WHERE o.checkout_id = p.checkout_id
					AND v.family = w.family))
		UNION ALL
		-- The first part moves the end for those after it, also if it is noticed together with them.
		SELECT p.org_id, 'payment ' || p.deposit_id, format('of %s counts as one in time, and the checkout ended at %s',
			p.moment, least(n.ends_at, c.cancelled_at))
		FROM checkout_payments p JOIN checkouts c ON c.checkout_id = p.checkout_id
		CROSS JOIN LATERAL (SELECT greatest(c.expires_at, min(f.moment) + interval '30 minutes') AS ends_at
			FROM checkout_payments f WHERE f.checkout_id = p.checkout_id AND f.deposit_id <> p.deposit_id
				AND f.in_time AND f.is_accepted
				AND f.moment <= c.expires_at) n
		WHERE p.in_time AND (p.moment > n.ends_at OR p.counts AND p.moment > c.cancelled_at)
		UNION ALL
		SELECT p.org_id, 'payment ' || p.deposit_id,
			format('is %s and counts; it is %s, and the terms of late ones are %s',
			p.told_status, concat_ws(' and ', CASE WHEN p.in_time THEN 'in time' ELSE 'late' END,
				CASE WHEN p.is_accepted IS NOT TRUE THEN 'in a coin that is not accepted' END), c.late_policy)
		FROM checkout_payments p JOIN checkouts c ON c.checkout_id = p.checkout_id
		WHERE p.counts AND (p.counted IS NULL OR coalesce(p.told_status, '') NOT IN ('SEEN', 'CREDITED')
			OR c.decided_by IS NULL AND (p.is_accepted IS NOT TRUE OR p.in_time IS NOT TRUE
				AND c.late_policy <> 'ACCEPT_IF_WITHIN_TOLERANCE'))`,
	},

	{
		ID: "I-82",
		Promise: "the terms of every checkout are those of its creation, its items make the amount due, and its " +
			"quotes are numbered, in their order, and ask for what they are for", breachSQL: `
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('asks for %s %s, and its items make %s', c.due,
			c.currency,
			coalesce(n.items::text, 'nothing'))
		FROM checkouts c
		CROSS JOIN LATERAL (SELECT sum((item ->> 'unitPrice')::numeric * (item ->> 'quantity')::numeric) AS items
			FROM jsonb_array_elements(c.line_items) item) n
		WHERE c.due IS DISTINCT FROM n.items
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id,
			format('asks for %s %s with reference %s, and the audit log says %s',
			c.due, c.currency, coalesce(c.reference, 'none'), a.detail)
		FROM checkouts c JOIN audit_log a ON a.org_id = c.org_id AND a.resource_id = c.checkout_id
			AND a.action = 'checkout.created'
		WHERE ((a.detail ->> 'due')::numeric, a.detail ->> 'currency', a.detail ->> 'reference')
			IS DISTINCT FROM (c.due, c.currency, c.reference)
		UNION ALL
		SELECT q.org_id, format('quote %s of checkout %s in mint %s', q.seq, q.checkout_id, q.mint_id),
			format('asks for %s at %s by %s from %s to %s, for %s of %s; the one before is %s, from %s', q.amount,
				q.price,
				q.currency_price, q.valid_from, q.expires_at, q.covers, c.due, coalesce(q.seq_before::text, 'none'),
					q.from_before)
		FROM (SELECT *, lag(seq) OVER numbered AS seq_before, lag(valid_from) OVER numbered AS from_before
			FROM checkout_quotes
			WINDOW numbered AS (PARTITION BY checkout_id, mint_id ORDER BY seq)) q
		JOIN checkouts c ON c.checkout_id = q.checkout_id
		JOIN mints m ON m.mint_id = q.mint_id
		WHERE q.seq <> coalesce(q.seq_before, 0) + 1 OR q.valid_from < q.from_before
			OR q.org_id <> c.org_id OR q.covers > c.due OR q.expires_at > c.expires_at
			OR q.amount * q.price < q.covers * q.currency_price * ('1e' || m.decimals)::numeric`,
	},

	{
		ID: "I-85",
		Promise: "every way to pay a checkout has the address of this checkout alone, and on Solana also the one " +
			"that an organization's checkouts share", breachSQL: `
		SELECT o.org_id, format('option of checkout %s in mint %s', o.checkout_id, o.mint_id),
			format('has wallet %s, which is a %s of %s, and shares %s', o.wallet_id, coalesce(w.purpose, 'missing one'),
				coalesce(w.subject, 'no one'), coalesce(o.shared_wallet_id, 'none'))
		FROM checkout_options o
		JOIN mints m ON m.mint_id = o.mint_id
		LEFT JOIN wallets w ON w.wallet_id = o.wallet_id
		LEFT JOIN wallets x ON x.wallet_id = o.shared_wallet_id
		LEFT JOIN checkouts c ON c.checkout_id = o.checkout_id
		WHERE (w.org_id, w.purpose, w.subject, w.family, c.org_id) IS DISTINCT FROM
				(o.org_id, 'CHECKOUT', o.checkout_id COLLATE "C", ` + mintFamilySQL + `, o.org_id)
			OR (o.mint_id = ANY (c.accepted_mint_ids)) IS NOT TRUE
			OR (o.shared_wallet_id IS NOT NULL) <> (m.chain = 'SOLANA')
			OR o.shared_wallet_id IS NOT NULL AND (x.org_id, x.purpose, x.subject, x.family) IS DISTINCT FROM
				(o.org_id, 'CHECKOUT_SHARED', 'CHECKOUT', 'SOLANA')
		UNION ALL
		SELECT min(o.org_id), 'address ' || w.address,
			'is that of checkouts ' || string_agg(DISTINCT o.checkout_id, ', ' ORDER BY o.checkout_id)
		FROM checkout_options o JOIN wallets w ON w.wallet_id = o.wallet_id
		GROUP BY w.address HAVING count(DISTINCT o.checkout_id) > 1`,
	},

	{
		ID:      "I-85-reference",
		Promise: "the key that names a checkout and a mint in a payment to a shared address follows from them",
		inspect: checkReferences,
	},
}

// checkReferences derives the reference of each option again.
func checkReferences(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	rows, err := tx.Query(ctx, `
		SELECT org_id, checkout_id, mint_id, coalesce(reference, ''), shared_wallet_id IS NOT NULL FROM checkout_options
		WHERE reference IS NOT NULL OR shared_wallet_id IS NOT NULL ORDER BY checkout_id, mint_id`)
	if err != nil {
		return nil, err
	}
	var orgID, checkoutID string
	var mintID int
	var reference []byte
	var isShared bool
	_, err = pgx.ForEachRow(rows, []any{&orgID, &checkoutID, &mintID, &reference, &isShared}, func() error {
		want := payuri.Reference(orgID, checkoutID, mintID)
		if !isShared || !bytes.Equal(reference, want[:]) {
			found = append(found, Breach{
				OrgID: orgID, Subject: fmt.Sprintf("option of checkout %s in mint %d", checkoutID, mintID),
				Detail: fmt.Sprintf("has the reference %x, and its own is %s", reference, payuri.ReferenceText(want)),
			})
		}
		return nil
	})
	return found, err
}
