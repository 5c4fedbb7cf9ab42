package verify

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/id"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// automaticRefundChecks are those of refunds that the policies of checkouts made.
var automaticRefundChecks = []Check{
	{
		ID: "I-83-automatic",
		Promise: "a policy makes one refund for each checkout, coin and cause, of the checkout whose terms ask for " +
			"it; no person asks for it, and no other refund is the service's; every completed checkout with such " +
			"terms is looked at",
		breachSQL: `
		SELECT m.org_id, 'automatic refund ' || m.refund_id,
			format('of checkout %s in mint %s because of %s is of checkout %s in mint %s, asked for by %s',
				m.checkout_id, m.mint_id, m.cause, r.checkout_id, r.mint_id, r.requester_kind || ' ' || r.requester_id)
		FROM automatic_refunds m LEFT JOIN refunds r ON r.refund_id = m.refund_id
		WHERE (r.org_id, r.checkout_id, r.mint_id, r.requester_kind) IS DISTINCT FROM
			(m.org_id, m.checkout_id, m.mint_id, 'SYSTEM') OR r.idempotency_key IS NOT NULL
		UNION ALL
		SELECT m.org_id, 'automatic refund ' || m.refund_id,
			format('is because of %s, and checkout %s of %s asks for %s and %s', m.cause, m.checkout_id,
			 c.org_id, c.over_policy, c.late_policy)
		FROM automatic_refunds m LEFT JOIN checkouts c ON c.checkout_id = m.checkout_id
		WHERE c.org_id IS DISTINCT FROM m.org_id
			OR CASE m.cause WHEN 'OVERPAID' THEN c.over_policy ELSE c.late_policy END <> 'REFUND_LINK'
		UNION ALL
		SELECT min(m.org_id), 'checkout ' || m.checkout_id, format('has %s automatic refunds in mint %s because of %s',
			count(*), m.mint_id, m.cause)
		FROM automatic_refunds m GROUP BY m.checkout_id, m.mint_id, m.cause HAVING count(*) > 1
		UNION ALL
		SELECT r.org_id, 'refund ' || r.refund_id, format('is asked for by %s, and no policy made it',
			r.requester_kind || ' ' || r.requester_id)
		FROM refunds r
		WHERE r.requester_kind = 'SYSTEM'
			AND NOT EXISTS (SELECT FROM automatic_refunds m WHERE m.refund_id = r.refund_id)
		UNION ALL
		SELECT t.org_id, 'checkout ' || t.checkout_id, format('of %s is looked at, and its terms are %s and %s',
			c.org_id, c.over_policy, c.late_policy)
		FROM refund_turns t LEFT JOIN checkouts c ON c.checkout_id = t.checkout_id
		WHERE c.org_id IS DISTINCT FROM t.org_id OR 'REFUND_LINK' NOT IN (c.over_policy, c.late_policy)
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id, 'is completed, and no one looks whether something is given back'
		FROM checkouts c
		WHERE c.status = 'COMPLETED' AND 'REFUND_LINK' IN (c.over_policy, c.late_policy)
			AND NOT EXISTS (SELECT FROM refund_turns t WHERE t.checkout_id = c.checkout_id)`,
	},

	{
		ID: "I-83-automatic-parts",
		Promise: "a refund by a policy takes payments of its cause alone: a surplus no more than the payments " +
			"counted above the amount due, a late one what was late, and a part what was in time",
		breachSQL: `
		SELECT m.org_id, 'automatic refund ' || m.refund_id,
			format('because of %s takes %s of payment %s, which is %s', m.cause, t.amount, t.deposit_id,
				concat_ws(' and ', CASE WHEN p.in_time THEN 'in time' WHEN NOT p.in_time THEN 'late' END,
					CASE WHEN p.is_accepted IS NOT TRUE THEN 'in a coin that is not accepted' END,
					CASE WHEN p.counted IS NULL THEN 'not valued' END))
		FROM automatic_refunds m JOIN refund_parts t ON t.refund_id = m.refund_id
		JOIN checkout_payments p ON p.deposit_id = t.deposit_id
		WHERE p.counted IS NULL OR CASE m.cause WHEN 'UNDERPAID' THEN (p.is_accepted AND p.in_time) IS NOT TRUE
			WHEN 'PAID_LATE' THEN (p.is_accepted AND NOT p.in_time) IS NOT TRUE ELSE false END
		UNION ALL
		SELECT m.org_id, 'automatic refund ' || m.refund_id,
			format('gives back %s %s as a surplus, and its payments counted %s of %s', g.given, c.currency, n.counted,
				c.due)
		FROM automatic_refunds m JOIN checkouts c ON c.checkout_id = m.checkout_id
		CROSS JOIN LATERAL (SELECT coalesce(sum(p.counted * t.amount / p.amount), 0) AS given FROM refund_parts t
			JOIN checkout_payments p ON p.deposit_id = t.deposit_id WHERE t.refund_id = m.refund_id) g
		-- What was reversed had counted.
		CROSS JOIN LATERAL (SELECT coalesce(sum(p.counted), 0) AS counted FROM checkout_payments p
			WHERE p.checkout_id = m.checkout_id AND (p.counts OR p.status = 'REVERSED')) n
		WHERE m.cause = 'OVERPAID' AND g.given > n.counted - c.due + 1e-12`,
	},

	{
		ID: "I-83-automatic-id",
		Promise: "the id of a refund by a policy follows from checkout, coin and cause, so a restored database makes " +
			"no second one",
		inspect: checkAutomaticRefundIDs,
	},
}

// checkAutomaticRefundIDs derives the id of each refund that a policy made.
func checkAutomaticRefundIDs(ctx context.Context, tx pg.Tx) (found []Breach, err error) {
	rows, err := tx.Query(ctx, `SELECT org_id, checkout_id, mint_id, cause, refund_id FROM automatic_refunds
		ORDER BY checkout_id, mint_id, cause`)
	if err != nil {
		return nil, err
	}
	var orgID, checkoutID, cause, refundID string
	var mintID int
	_, err = pgx.ForEachRow(rows, []any{&orgID, &checkoutID, &mintID, &cause, &refundID}, func() error {
		if want := id.Derive("ref", orgID, checkoutID, strconv.Itoa(mintID), cause); refundID != want {
			found = append(found, Breach{
				OrgID: orgID, Subject: "automatic refund " + refundID,
				Detail: fmt.Sprintf("is the one of checkout %s in mint %d because of %s, whose id is %s", checkoutID,
					mintID, cause, want),
			})
		}
		return nil
	})
	return found, err
}
