package verify

// The clocks of the processes differ by less.
const linkSkewSQL = `interval '5 minutes'`

// linkChecks are those of payment links. How much a link has sold is counted and stands nowhere, so there is no number
// to compare: the checks look at what was sold, and when.
var linkChecks = []Check{
	{
		ID: "I-82-links",
		Promise: "a payment link sells what it was made for, and a checkout was sold through the link that the audit " +
			"log names, in quantities that it allows",
		breachSQL: `
		SELECT l.org_id, 'payment link ' || l.link_id,
			format('is %s and sells %s, and the audit log says %s and %s', l.slug, l.line_items, a.detail ->> 'slug',
				a.detail -> 'lineItems')
		FROM payment_links l JOIN audit_log a ON a.org_id = l.org_id AND a.resource_id = l.link_id
			AND a.action = 'payment_link.created'
		WHERE (a.detail ->> 'slug', a.detail -> 'lineItems') IS DISTINCT FROM (l.slug COLLATE "default", l.line_items)
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id,
			format('was sold through payment link %s, and the audit log says %s', coalesce(c.link_id, 'none'),
				coalesce(a.detail ->> 'linkId', 'none'))
		FROM checkouts c JOIN audit_log a ON a.org_id = c.org_id AND a.resource_id = c.checkout_id
			AND a.action = 'checkout.created'
		WHERE a.detail ->> 'linkId' IS DISTINCT FROM c.link_id
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('has the items %s, and payment link %s of %s sells %s',
			c.line_items, c.link_id, coalesce(l.org_id, 'no one'), l.line_items)
		FROM checkouts c LEFT JOIN payment_links l ON l.link_id = c.link_id
		WHERE c.link_id IS NOT NULL AND (l.org_id IS DISTINCT FROM c.org_id OR EXISTS (
			SELECT FROM jsonb_array_elements(c.line_items) WITH ORDINALITY bought (item, n)
			FULL JOIN jsonb_array_elements(l.line_items) WITH ORDINALITY sold (item, n) ON sold.n = bought.n
			CROSS JOIN LATERAL (SELECT (bought.item ->> 'quantity')::integer AS pieces) q
			WHERE (bought.item ->> 'productId' = sold.item ->> 'productId'
				AND q.pieces BETWEEN coalesce(sold.item ->> 'quantity', sold.item ->> 'quantityMin', '1')::integer
					AND coalesce((sold.item ->> 'quantity')::integer, (sold.item ->> 'quantityMax')::integer, q.pieces)
				) IS NOT TRUE))`,
	},

	{
		ID: "I-82-limits",
		Promise: "a payment link has the limit that the audit log says, and sells nothing after its end, nor once as " +
			"many checkouts are completed as it ever allowed: only those that were open are paid then",
		breachSQL: `
		WITH said AS (
			SELECT a.org_id, a.resource_id, a.audit_id, (CASE a.action WHEN 'payment_link.created'
				THEN a.detail -> 'maxCompleted' ELSE a.detail -> 'to' -> 'maxCompleted' END #>> '{}')::integer AS most
			FROM audit_log a
			WHERE a.action = 'payment_link.created' AND a.detail ? 'maxCompleted'
				OR a.action = 'payment_link.changed' AND a.detail -> 'to' ? 'maxCompleted'),
		limits AS (
			SELECT l.link_id, l.org_id, l.max_completed, count(s.audit_id) AS times,
				(array_agg(s.most ORDER BY s.audit_id DESC))[1] AS most_now,
				CASE WHEN count(s.most) = count(s.audit_id) THEN max(s.most) END AS most_ever
			FROM payment_links l LEFT JOIN said s ON s.org_id = l.org_id AND s.resource_id = l.link_id
			GROUP BY 1, 2, 3)
		SELECT org_id, 'payment link ' || link_id, format('has the limit %s, and the audit log says %s',
			coalesce(max_completed::text, 'none'), coalesce(most_now::text, 'none'))
		FROM limits WHERE times > 0 AND max_completed IS DISTINCT FROM most_now
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('was made at %s, and payment link %s ended at %s',
			c.created_at, c.link_id, least(l.ended_at, l.expires_at))
		FROM checkouts c JOIN payment_links l ON l.link_id = c.link_id
		WHERE c.created_at > least(l.ended_at, l.expires_at) + ` + linkSkewSQL + `
		UNION ALL
		SELECT c.org_id, 'checkout ' || c.checkout_id,
			format('was made at %s, and payment link %s had sold %s, which is all, at %s', c.created_at, c.link_id,
				l.most_ever, s.completed_at)
		FROM limits l
		CROSS JOIN LATERAL (SELECT completed_at FROM checkouts
			WHERE link_id = l.link_id AND completed_at IS NOT NULL AND l.most_ever IS NOT NULL
			ORDER BY completed_at OFFSET l.most_ever - 1 LIMIT 1) s
		JOIN checkouts c ON c.link_id = l.link_id AND c.created_at > s.completed_at + ` + linkSkewSQL,
	},
}
