package verify

// The meaning of the tables of swaps for the checks.
const (
	// Whether nothing of swap s ever left us: it has no order, or its order ended without a payment.
	swapUnpaidSQL = `(s.paid_at IS NULL AND (s.provider IS NULL OR EXISTS (SELECT FROM dispatch_orders o
		WHERE o.order_id = s.swap_id AND o.status IN ('FAILED', 'WITHDRAWN'))))`
	// Whether the provider of swap s has something of ours, in the words of the list of open claims.
	swapClaimSQL = `(paid_at IS NOT NULL AND amount_out IS NULL AND refunded + short < amount_in)`
	// The kind of the account in which the amount of a swap is held.
	swapHoldKindSQL = `CASE WHEN product IS NULL THEN 'IN_SWAP' ELSE 'PRODUCT_IN_SWAP' END`
)

// swapChecks are the checks of swaps, of customers and of organizations.
var swapChecks = []Check{
	{
		ID: "I-60",
		Promise: "what a swap provider has of ours in the books is what it was paid, less what came back, was " +
			"delivered or was written off, by provider and mint", breachSQL: `
		WITH booked AS (
			SELECT a.org_id, a.subject AS provider, a.mint_id, sum(moved.delta) AS claim
			FROM (SELECT debit_account AS account_id, amount AS delta FROM ledger_transfers
				UNION ALL
				SELECT credit_account, -amount FROM ledger_transfers) moved
			JOIN ledger_accounts a USING (account_id)
			WHERE a.kind = 'AT_PROVIDER' GROUP BY 1, 2, 3),
		claims AS (
			SELECT org_id, provider, from_mint_id AS mint_id,
				CASE WHEN paid_at IS NULL THEN 0 ELSE amount_in END - CASE WHEN amount_out IS NULL THEN 0
					ELSE amount_in END - short AS claim
			FROM swaps WHERE provider IS NOT NULL
			UNION ALL
			-- What a broken finality took back is with the provider again.
			SELECT d.org_id, s.provider, d.mint_id, coalesce(d.taken_back, 0) - d.amount
			FROM deposits d JOIN swaps s USING (swap_id) WHERE d.arrival_role = 'REFUND'
				AND d.status IN ('CREDITED', 'REVERSED'))
		SELECT coalesce(b.org_id, c.org_id), format('%s in mint %s', coalesce(b.provider, c.provider),
			coalesce(b.mint_id, c.mint_id)),
			format('the books say that it has %s, its swaps %s', coalesce(b.claim, 0), coalesce(c.claim, 0))
		FROM booked b
		FULL JOIN (SELECT org_id, provider, mint_id, sum(claim) AS claim FROM claims GROUP BY 1, 2, 3) c
			ON c.org_id = b.org_id AND c.provider = b.provider AND c.mint_id = b.mint_id
		WHERE coalesce(b.claim, 0) <> coalesce(c.claim, 0)`,
	},

	{
		ID: "I-61",
		Promise: "what is held for swaps is the sum of the open ones and of what failed ones have not restored, " +
			"by customer or product and mint", breachSQL: `
		SELECT coalesce(h.org_id, s.org_id), format('%s %s in mint %s', coalesce(h.kind, s.kind),
			coalesce(h.owner, s.owner), coalesce(h.mint_id, s.mint_id)),
			format('%s held, %s in swaps', coalesce(h.balance, 0), coalesce(s.amount, 0))
		FROM (SELECT a.org_id, a.kind, a.subject AS owner, a.mint_id, b.balance
			FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			WHERE a.kind IN ('IN_SWAP', 'PRODUCT_IN_SWAP')) h
		FULL JOIN (SELECT org_id, ` + swapHoldKindSQL + ` AS kind, ` + withdrawalOwnerSQL + ` AS owner,
			from_mint_id AS mint_id,
			sum(CASE WHEN status IN ('FAILED', 'REJECTED', 'CANCELLED') THEN amount_in - restored - short
				ELSE amount_in END) AS amount
			FROM swaps WHERE amount_out IS NULL GROUP BY 1, 2, 3, 4) s
			ON s.org_id = h.org_id AND s.kind = h.kind AND s.owner = h.owner AND s.mint_id = h.mint_id
		WHERE coalesce(h.balance, 0) <> coalesce(s.amount, 0)`,
	},

	{
		ID:      "I-62",
		Promise: "every swap was held once, paid and ended at most once, and restored and written off as its row says",
		breachSQL: `
		WITH posted AS (
			SELECT t.cause_kind, split_part(t.cause_id, '/', 1) AS swap_id, count(*) AS legs, sum(t.amount) AS amount,
				min(t.org_id) AS org_id,
				min(t.mint_id) AS mint_id, count(DISTINCT t.mint_id) AS mints, min(d.kind) AS from_kind,
					min(d.subject) AS from_subject,
				min(c.kind) AS to_kind, min(c.subject) AS to_subject,
					count(DISTINCT (d.account_id, c.account_id)) AS pairs
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('SWAP_HOLD', 'SWAP_PAID', 'SWAP_END', 'SWAP_RESTORE', 'SWAP_SHORT')
			GROUP BY 1, 2),
		due AS (
			SELECT 'SWAP_HOLD' AS cause_kind, swap_id, org_id, from_mint_id AS mint_id, 1 AS legs,
				amount_in AS amount, status,
				` + debitKindSQL + ` AS from_kind, ` + withdrawalOwnerSQL + ` AS from_subject,
				` + swapHoldKindSQL + ` AS to_kind, ` + withdrawalOwnerSQL + ` AS to_subject
			FROM swaps
			UNION ALL
			SELECT 'SWAP_PAID', swap_id, org_id, from_mint_id, 1, amount_in, status, 'AT_PROVIDER', provider,
				'CUSTODY', ''
			FROM swaps WHERE paid_at IS NOT NULL
			UNION ALL
			SELECT 'SWAP_END', swap_id, org_id, from_mint_id, 1, amount_in, status,
				` + swapHoldKindSQL + `, ` + withdrawalOwnerSQL + `, 'AT_PROVIDER', provider
			FROM swaps WHERE amount_out IS NOT NULL
			UNION ALL
			SELECT 'SWAP_RESTORE', swap_id, org_id, from_mint_id, restore_count, restored, status,
				` + swapHoldKindSQL + `, ` + withdrawalOwnerSQL + `, ` + debitKindSQL + `, ` + withdrawalOwnerSQL + `
			FROM swaps WHERE restored > 0 OR restore_count > 0
			UNION ALL
			SELECT 'SWAP_SHORT', swap_id, org_id, from_mint_id, short_count, short, status,
				` + swapHoldKindSQL + `, ` + withdrawalOwnerSQL + `, 'AT_PROVIDER', provider
			FROM swaps WHERE short > 0 OR short_count > 0)
		SELECT coalesce(s.org_id, p.org_id), 'swap ' || coalesce(s.swap_id, p.swap_id),
			CASE WHEN p.swap_id IS NULL THEN format('is %s and has no %s', s.status, s.cause_kind)
				WHEN s.swap_id IS NULL THEN format('has a %s that its row does not explain', p.cause_kind)
				ELSE format('is %s; %s was to move %s of mint %s in %s postings, and moved %s of mint %s in %s, '
					|| 'from %s %s to %s %s', s.status, s.cause_kind,
					s.amount, s.mint_id, s.legs, p.amount, p.mint_id, p.legs, p.from_kind, p.from_subject, p.to_kind,
						p.to_subject) END
		FROM due s FULL JOIN posted p ON p.cause_kind = s.cause_kind AND p.swap_id = s.swap_id
		WHERE (p.legs, p.org_id, p.mint_id, p.mints, p.amount, p.from_kind, p.from_subject, p.to_kind, p.to_subject,
			p.pairs)
			IS DISTINCT FROM (s.legs::bigint, s.org_id, s.mint_id, 1::bigint, s.amount, s.from_kind, s.from_subject,
				s.to_kind, s.to_subject, 1::bigint)`,
	},

	{
		ID: "I-63",
		Promise: "an organization was told the end of every swap once, by the deposit that completes it, by the " +
			"payment of its output or by its failure, and of nothing else", breachSQL: `
		WITH told AS (
			SELECT org_id, swap_id, count(*) FILTER (WHERE type IN ('CUSTOMER_DEPOSIT',
				'ORGANIZATION_SWAP_COMPLETED'))
					AS completed,
				count(*) FILTER (WHERE type IN ('CUSTOMER_SWAP_FAILED', 'ORGANIZATION_SWAP_FAILED')) AS failed,
					count(*)
					FILTER (WHERE type = 'CUSTOMER_SWAP_DELAYED') AS delayed,
				count(*) FILTER (WHERE type = 'CUSTOMER_SWAP_REFUNDED') AS refunded,
				count(*) FILTER (WHERE type = 'ORGANIZATION_DEPOSIT') AS delivered,
				count(*) FILTER (WHERE starts_with(type, 'CUSTOMER')) AS of_customer
			FROM (SELECT org_id, resource_id AS swap_id, type FROM events
				WHERE type IN ('CUSTOMER_SWAP_FAILED', 'CUSTOMER_SWAP_DELAYED', 'CUSTOMER_SWAP_REFUNDED',
					'ORGANIZATION_SWAP_COMPLETED', 'ORGANIZATION_SWAP_FAILED')
				UNION ALL
				SELECT e.org_id, d.swap_id, e.type FROM events e JOIN deposits d ON d.org_id = e.org_id
					AND d.deposit_id = e.resource_id
				WHERE e.type IN ('CUSTOMER_DEPOSIT', 'ORGANIZATION_DEPOSIT') AND d.completes_swap) ends
			GROUP BY 1, 2)
		SELECT coalesce(s.org_id, t.org_id), 'swap ' || coalesce(s.swap_id, t.swap_id),
			format('is %s; its completion was told of %s times, its failure %s, its delay %s and refunds %s',
				coalesce(s.status, 'missing'),
				coalesce(t.completed, 0), coalesce(t.failed, 0), coalesce(t.delayed, 0), coalesce(t.refunded, 0))
		FROM swaps s FULL JOIN told t ON t.org_id = s.org_id AND t.swap_id = s.swap_id
		WHERE s.swap_id IS NULL
			OR (coalesce(t.completed, 0), coalesce(t.failed, 0), coalesce(t.delayed, 0))
				<> ((s.status = 'COMPLETED')::int, (s.status = 'FAILED')::int,
					(s.delayed_at IS NOT NULL AND s.kind = 'CUSTOMER')::int)
			OR coalesce(t.delivered, 0) <> (s.kind = 'ORGANIZATION' AND s.amount_out IS NOT NULL)::int
			OR t.of_customer > 0 AND s.kind <> 'CUSTOMER'
			OR t.refunded > 0 AND s.status <> 'FAILED'
		UNION ALL
		SELECT org_id, 'swap ' || swap_id, format('is completed by deposits %s',
			string_agg(deposit_id, ', ' ORDER BY deposit_id))
		FROM deposits WHERE completes_swap GROUP BY 1, 2 HAVING count(*) > 1`,
	},

	{
		ID: "I-64",
		Promise: "every payment to a swap provider is what its swap, its offer, its wallets and the signer's " +
			"journal say", inspect: newSwapTermsCheck(nil),
	},

	{
		ID: "I-65",
		Promise: "a deposit address of a provider, a delivery wallet and a refund wallet belong to one swap " +
			"permanently",
		breachSQL: `
		SELECT s.org_id, 'swap ' || s.swap_id, format('has wallet %s, which is a %s of %s', k.wallet_id,
			coalesce(w.purpose, 'missing one'), coalesce(w.subject, 'no one'))
		FROM swaps s
		CROSS JOIN LATERAL (VALUES (s.delivery_wallet_id, 'SWAP_DELIVERY'),
			(s.refund_wallet_id, 'SWAP_REFUND')) AS k (wallet_id, purpose)
		LEFT JOIN wallets w ON w.wallet_id = k.wallet_id
		WHERE (w.org_id, w.purpose, w.subject) IS DISTINCT FROM (s.org_id, k.purpose, s.swap_id COLLATE "C")
		UNION ALL
		SELECT min(org_id), 'wallet ' || wallet_id, 'is one of swaps ' || string_agg(swap_id, ', ' ORDER BY swap_id)
		FROM (SELECT org_id, swap_id, delivery_wallet_id AS wallet_id FROM swaps UNION ALL SELECT org_id, swap_id,
			refund_wallet_id FROM swaps) k
		GROUP BY wallet_id HAVING count(*) > 1
		UNION ALL
		SELECT min(org_id), format('deposit address %s on %s', deposit_address, from_chain),
			'is that of swaps ' || string_agg(swap_id, ', ' ORDER BY swap_id)
		FROM swaps WHERE provider IS NOT NULL GROUP BY from_chain, deposit_address HAVING count(*) > 1
		UNION ALL
		SELECT min(org_id), format('deposit address %s on %s', to_address, chain),
			'is paid by orders ' || string_agg(order_id, ', ' ORDER BY order_id)
		FROM dispatch_orders WHERE purpose = 'SWAP' GROUP BY chain, to_address HAVING count(*) > 1
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id, format('pays %s, which is our wallet %s', s.deposit_address,
			w.wallet_id)
		FROM swaps s JOIN wallets w ON w.address = s.deposit_address
		UNION ALL
		-- The journal remembers what a restored database forgot.
		SELECT NULL, format('deposit address %s on %s', j.admit ->> 'to', j.admit ->> 'chain'),
			'is that of journaled swaps ' || string_agg(DISTINCT j.admit ->> 'id', ', ')
		FROM (SELECT convert_from(body, 'UTF8')::jsonb -> 'admit' AS admit FROM signer_journal
			WHERE substr(body, 1, 15) = '{"kind":"ADMIT"' AND position('"purpose":"SWAP"'::bytea IN body) > 0) j
		GROUP BY j.admit ->> 'chain', j.admit ->> 'to' HAVING count(DISTINCT j.admit ->> 'id') > 1`,
	},

	{
		ID: "I-66",
		Promise: "a swap credited what final blocks show at its delivery wallet, and counts as refunded what they " +
			"show at its refund wallet, or all where no payment left us", breachSQL: `
		SELECT coalesce(d.org_id, a.org_id), 'deposit ' || coalesce(d.deposit_id, a.deposit_id),
			format('is %s of swap %s, and its arrival is %s of swap %s', coalesce(d.arrival_role, 'nothing'),
				d.swap_id, coalesce(a.role, 'nothing'), a.swap_id)
		FROM (SELECT * FROM deposits WHERE swap_id IS NOT NULL AND status IN ('CREDITED', 'REVERSED')) d
		FULL JOIN swap_arrivals a ON a.deposit_id = d.deposit_id
		WHERE (d.org_id, d.swap_id, d.arrival_role) IS DISTINCT FROM (a.org_id, a.swap_id, a.role)
		UNION ALL
		SELECT d.org_id, 'deposit ' || d.deposit_id,
			format('is a %s of mint %s at wallet %s for %s, and swap %s is %s with mint %s at %s for %s',
			d.arrival_role, d.mint_id, d.wallet_id,
			coalesce(d.product, d.customer_id), d.swap_id, coalesce(s.status, 'missing'), CASE d.arrival_role
				WHEN 'DELIVERY' THEN s.to_mint_id ELSE s.from_mint_id END,
			CASE d.arrival_role WHEN 'DELIVERY' THEN s.delivery_wallet_id ELSE s.refund_wallet_id END,
			coalesce(s.product, s.customer_id))
		FROM deposits d LEFT JOIN swaps s ON s.swap_id = d.swap_id
		WHERE d.status IN ('CREDITED', 'REVERSED') AND CASE d.arrival_role
			WHEN 'DELIVERY' THEN (s.org_id, s.to_mint_id, s.delivery_wallet_id) = (d.org_id, d.mint_id, d.wallet_id)
				AND (s.customer_id, s.product) IS NOT DISTINCT FROM (d.customer_id, d.product)
				AND s.amount_out IS NOT NULL
			WHEN 'REFUND' THEN (s.org_id, s.from_mint_id, s.refund_wallet_id) = (d.org_id, d.mint_id, d.wallet_id)
			ELSE true END IS NOT TRUE
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id,
			format('is %s with %s out, and %s arrived in %s deposits that complete it', s.status,
			coalesce(s.amount_out, 0), n.delivered, n.completing)
		FROM swaps s
		CROSS JOIN LATERAL (SELECT coalesce(sum(d.amount), 0) AS delivered, count(*)
			FILTER (WHERE d.completes_swap) AS completing
			FROM deposits d WHERE d.swap_id = s.swap_id AND d.arrival_role = 'DELIVERY'
				AND d.status IN ('CREDITED', 'REVERSED')) n
		WHERE (n.delivered, n.completing) <> (coalesce(s.amount_out, 0), (s.amount_out IS NOT NULL)::int)
			OR s.amount_out IS NULL AND s.status = 'COMPLETED'
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id,
			format('counts %s of %s as refunded and %s as restored, and %s arrived', s.refunded, s.amount_in,
			s.restored, n.arrived)
		FROM swaps s
		CROSS JOIN LATERAL (SELECT coalesce(sum(d.amount), 0) AS arrived
			FROM deposits d WHERE d.swap_id = s.swap_id AND d.arrival_role = 'REFUND'
				AND d.status IN ('CREDITED', 'REVERSED')) n
		WHERE s.restored > s.refunded OR s.refunded + s.short > s.amount_in
			OR s.refunded <> n.arrived AND NOT (s.status IN ('FAILED', 'REJECTED', 'CANCELLED') AND n.arrived = 0
				AND s.refunded = s.amount_in AND ` + swapUnpaidSQL + `)`,
	},

	{
		ID: "I-67",
		Promise: "every completed swap of a customer has one fee line, no other has one, and the lines are what was " +
			"posted as fees",
		breachSQL: `
		SELECT coalesce(s.org_id, l.org_id), 'swap ' || coalesce(s.swap_id, l.source_id),
			CASE WHEN l.source_id IS NULL THEN 'is completed and has no fee line'
				WHEN s.swap_id IS NULL THEN format('has a fee line of %s and is not completed', l.amount)
				ELSE format('has a fee of %s of mint %s, %s lines of %s and %s of mint %s, and %s was posted '
					|| 'in %s legs', s.fee_amount, s.from_mint_id, l.lines, l.amount,
					l.fee_bps, l.mint_id, coalesce(p.amount, 0), coalesce(p.legs, 0)) END
		FROM (SELECT * FROM swaps WHERE status = 'COMPLETED' AND kind = 'CUSTOMER') s
		FULL JOIN (SELECT source_id, count(*) AS lines, min(org_id) AS org_id, min(mint_id) AS mint_id,
			sum(amount) AS amount, min(fee_bps) AS fee_bps, min(incurred_at) AS incurred_at
			FROM fee_lines WHERE source_kind = 'SWAP' GROUP BY 1) l ON l.source_id = s.swap_id
		LEFT JOIN (SELECT t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.mint_id) AS mint_id,
			min(d.kind) AS from_kind, min(c.kind) AS to_kind
			FROM ledger_transfers t JOIN ledger_accounts d ON d.account_id = t.debit_account JOIN ledger_accounts c
				ON c.account_id = t.credit_account
			WHERE t.cause_kind = 'SWAP_FEE' GROUP BY 1) p ON p.cause_id = s.swap_id
		WHERE (l.lines, l.org_id, l.mint_id, l.amount, l.fee_bps, l.incurred_at) IS DISTINCT
			FROM (1::bigint, s.org_id, s.from_mint_id, s.fee_amount, s.fee_bps, s.completed_at)
			OR s.fee_amount > 0 AND (p.legs, p.mint_id, p.amount, p.from_kind, p.to_kind)
				IS DISTINCT FROM (1::bigint, s.from_mint_id, s.fee_amount, 'SWAP_FEES_DUE', 'SWAP_FEES_BILLED')
		UNION ALL
		SELECT coalesce(l.org_id, p.org_id), format('fees of swaps in mint %s', coalesce(l.mint_id, p.mint_id)),
			format('of %s: the lines say %s, the books %s', to_char(coalesce(l.month, p.month), 'YYYY-MM'),
				coalesce(l.amount, 0), coalesce(p.amount, 0))
		FROM (SELECT org_id, mint_id, date_trunc('month', incurred_at, 'UTC') AS month, sum(amount) AS amount
			FROM fee_lines WHERE kind = 'SWAP_FEE' GROUP BY 1, 2, 3) l
		FULL JOIN (SELECT org_id, mint_id, date_trunc('month', created_at, 'UTC') AS month, sum(amount) AS amount
			FROM ledger_transfers WHERE cause_kind = 'SWAP_FEE' GROUP BY 1, 2, 3) p
			ON p.org_id = l.org_id AND p.mint_id = l.mint_id AND p.month = l.month
		WHERE coalesce(l.amount, 0) <> coalesce(p.amount, 0)`,
	},

	{
		ID:      "I-68",
		Promise: "no payment to a swap provider was first signed after its time, by the signer's journal",
		inspect: checkSwapsInTime,
	},

	{
		ID:      "I-69",
		Promise: "every stray arrival for a swap is in suspense until a person decides about it once",
		openSQL: `
		SELECT a.org_id, 'deposit ' || a.deposit_id,
			format('is a stray arrival for swap %s (%s) and waits for a decision', a.swap_id, a.reason)
		FROM swap_arrivals a JOIN deposits d USING (deposit_id) WHERE a.role = 'STRAY' AND a.decision IS NULL
			AND d.status = 'CREDITED'`,
		breachSQL: `
		WITH moved AS (
			SELECT t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.mint_id) AS mint_id,
				min(t.org_id) AS org_id,
				min(d.kind) AS from_kind, min(c.kind) AS to_kind, min(c.subject) AS to_subject
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind = 'ARRIVAL' GROUP BY 1),
		strays AS (
			SELECT d.deposit_id, d.org_id, d.mint_id, d.amount, d.status, d.is_hidden, a.decision,
				coalesce(s.product, s.customer_id) AS owner,
				CASE WHEN s.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AS owner_kind
			FROM deposits d JOIN swap_arrivals a USING (deposit_id) LEFT JOIN swaps s ON s.swap_id = a.swap_id
			WHERE d.arrival_role = 'STRAY')
		SELECT coalesce(s.org_id, m.org_id), 'deposit ' || coalesce(s.deposit_id, m.cause_id),
			CASE WHEN s.deposit_id IS NULL THEN format('left suspense to %s %s and is no stray arrival', m.to_kind,
				m.to_subject)
				ELSE format('is a stray arrival of %s of mint %s, hidden %s, decided as %s; %s of mint %s left %s '
					|| 'for %s %s in %s legs', s.amount, s.mint_id, s.is_hidden,
					coalesce(s.decision, 'nothing'), coalesce(m.amount, 0), m.mint_id, m.from_kind, m.to_kind,
						m.to_subject, coalesce(m.legs, 0)) END
		FROM strays s FULL JOIN moved m ON m.cause_id = s.deposit_id
		WHERE s.deposit_id IS NULL
			OR s.is_hidden = (s.decision IS NOT DISTINCT FROM 'CREDITED')
			OR CASE WHEN s.decision IS NOT DISTINCT FROM 'CREDITED'
				THEN (m.legs, m.org_id, m.mint_id, m.amount, m.from_kind, m.to_kind, m.to_subject)
					IS DISTINCT FROM (1::bigint, s.org_id, s.mint_id, s.amount, 'SUSPENSE', s.owner_kind, s.owner)
				ELSE m.cause_id IS NOT NULL END
		UNION ALL
		SELECT s.org_id, 'suspense in mint ' || s.mint_id, format('holds %s, and strays of %s are in it',
			coalesce(h.balance, 0), s.amount)
		FROM (SELECT org_id, mint_id, sum(amount) AS amount FROM strays WHERE status = 'CREDITED' AND decision
			IS DISTINCT FROM 'CREDITED' GROUP BY 1, 2) s
		LEFT JOIN (SELECT a.org_id, a.mint_id, b.balance FROM ledger_accounts a
			JOIN ledger_balances b USING (account_id) WHERE a.kind = 'SUSPENSE') h
			ON h.org_id = s.org_id AND h.mint_id = s.mint_id
		WHERE coalesce(h.balance, 0) < s.amount`,
	},

	{
		ID: "I-70",
		Promise: "every swap that has an offer has its order, no order and no offer is without its swap, and the " +
			"swap is where its order is, or waits without both", breachSQL: `
		SELECT coalesce(s.org_id, o.org_id), 'swap ' || coalesce(s.swap_id, o.order_id),
			CASE WHEN s.swap_id IS NULL THEN format('there is none, and its order is %s', o.status)
				WHEN o.order_id IS NULL THEN format('is %s, of %s, and has no order', s.status,
					coalesce(s.provider, 'no provider'))
				ELSE format('is %s, paid %s, and its order is %s', s.status, coalesce(s.paid_at::text, 'never'),
					o.status) END
		FROM swaps s FULL JOIN (SELECT * FROM dispatch_orders WHERE purpose = 'SWAP') o ON o.order_id = s.swap_id
		WHERE s.swap_id IS NULL OR (o.order_id IS NULL) <> (s.provider IS NULL)
			OR (s.paid_at IS NOT NULL) <> (o.status IS NOT DISTINCT FROM 'PAID')
			OR s.provider IS NOT NULL AND CASE CASE WHEN s.amount_out IS NULL THEN s.status ELSE 'COMPLETED' END
				WHEN 'PENDING' THEN o.status IN ('QUEUED', 'SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')
					OR o.status IN ('REFUSED', 'WITHDRAWN') AND s.end_reason IS NOT NULL
				WHEN 'DEPOSITING' THEN o.status IN ('BROADCAST', 'STUCK')
				WHEN 'PROCESSING' THEN o.status NOT IN ('REFUSED', 'WITHDRAWN') OR s.end_reason IS NOT NULL
				WHEN 'COMPLETED' THEN o.status <> 'REFUSED'
				WHEN 'FAILED' THEN o.status IN ('PAID', 'FAILED', 'WITHDRAWN', 'BROADCAST', 'STUCK') END IS NOT TRUE
		UNION ALL
		SELECT coalesce(s.org_id, f.org_id), 'swap ' || coalesce(s.swap_id, f.swap_id), CASE
			WHEN f.swap_id IS NULL THEN 'has no offer' ELSE 'there is none, and its offer is stored' END
		FROM swaps s FULL JOIN swap_offers f ON f.swap_id = s.swap_id AND f.org_id = s.org_id
		WHERE s.swap_id IS NULL OR (f.swap_id IS NULL) <> (s.provider IS NULL)
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id,
			'failed without a payment, and the signer has not journaled that its payment is void'
		FROM swaps s JOIN dispatch_orders o ON o.order_id = s.swap_id LEFT JOIN dispatch_voids v
			ON v.order_id = s.swap_id
		WHERE s.status = 'FAILED' AND s.amount_out IS NULL AND o.status = 'WITHDRAWN' AND v.journal_seq IS NULL`,
	},

	{
		ID: "I-72",
		Promise: "the open claims on swap providers, of customers and of organizations, are the swaps that make up " +
			"what the books say that providers have, each with its amount",
		openSQL: `
		SELECT org_id, 'swap ' || swap_id, format('is %s: %s has %s of mint %s since %s', status, provider, claim,
			mint_id,
			to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
		FROM (SELECT org_id, swap_id, status, provider, amount_in - refunded - short AS claim, from_mint_id AS
			mint_id,
				created_at
			FROM swaps WHERE ` + swapClaimSQL + ` ORDER BY created_at, swap_id) claims`,
		breachSQL: `
		WITH moved AS (
			SELECT a.org_id, a.subject AS provider, a.mint_id, m.delta, CASE
				WHEN m.cause_kind IN ('SWAP_PAID', 'SWAP_END', 'SWAP_SHORT') THEN split_part(m.cause_id, '/', 1)
				WHEN m.cause_kind IN ('DEPOSIT', 'DEPOSIT_REVERSAL') THEN (SELECT d.swap_id FROM deposits d
					WHERE d.deposit_id = m.cause_id COLLATE "default") END AS swap_id
			FROM (SELECT debit_account AS account_id, cause_kind, cause_id, amount AS delta FROM ledger_transfers
				UNION ALL
				SELECT credit_account, cause_kind, cause_id, -amount FROM ledger_transfers) m
			JOIN ledger_accounts a USING (account_id) WHERE a.kind = 'AT_PROVIDER'),
		booked AS (SELECT swap_id, org_id, provider, mint_id, sum(delta) AS claim FROM moved GROUP BY 1, 2, 3, 4),
		listed AS (
			SELECT s.swap_id, s.org_id, s.provider, s.from_mint_id AS mint_id, n.taken_back,
				(CASE WHEN s.paid_at IS NULL THEN 0 ELSE s.amount_in END)
					- (CASE WHEN s.amount_out IS NULL THEN 0 ELSE s.amount_in END) - n.returned - s.short AS claim,
				` + swapClaimSQL + ` AS is_listed
			FROM swaps s
			-- What a broken finality took back is with the provider again.
			CROSS JOIN LATERAL (SELECT coalesce(sum(d.amount - coalesce(d.taken_back, 0)), 0) AS returned,
					coalesce(sum(d.taken_back), 0) AS taken_back
				FROM deposits d WHERE d.swap_id = s.swap_id AND d.arrival_role = 'REFUND'
					AND d.status IN ('CREDITED', 'REVERSED')) n
			WHERE s.provider IS NOT NULL)
		SELECT coalesce(b.org_id, l.org_id), 'swap ' || coalesce(b.swap_id, l.swap_id, 'of no id'),
			format('the books say that %s has %s of mint %s of it, its row %s, and it is %s the list of open claims',
				coalesce(b.provider, l.provider), coalesce(b.claim, 0), coalesce(b.mint_id, l.mint_id),
				coalesce(l.claim, 0), CASE WHEN l.is_listed THEN 'on' ELSE 'not on' END)
		FROM booked b FULL JOIN listed l ON l.swap_id = b.swap_id AND l.org_id = b.org_id AND l.provider = b.provider
			AND l.mint_id = b.mint_id
		-- What we may owe a provider is no claim on it.
		WHERE coalesce(b.claim, 0) <> coalesce(l.claim, 0) OR l.taken_back = 0 AND (l.claim > 0) <> l.is_listed`,
	},

	{
		ID: "I-73",
		Promise: "an organization's swap was let go by people other than its requester, and its output is paid once, " +
			"to the approved entry of the whitelist and within the approved bounds", breachSQL: `
		SELECT s.org_id, 'swap ' || s.swap_id, format('is %s with %s of %s approvals', s.status, n.approvals,
			s.approvals_required)
		FROM swaps s CROSS JOIN LATERAL (SELECT count(*) AS approvals FROM swap_approvals a
			WHERE a.swap_id = s.swap_id AND a.org_id = s.org_id AND a.nth = 0) n
		WHERE s.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED') AND n.approvals < s.approvals_required
			AND num_nonnulls(s.imported_at, s.adopted_at) = 0
		UNION ALL
		-- The journal has none of the approvals that the signer checked, so a swap that a restore let go has none
		-- here. It is one only if the signer admitted it with as many, and the restore wrote it down.
		SELECT s.org_id, 'swap ' || s.swap_id, format('is %s without its %s approvals as one of a restore, and was '
			|| 'admitted with %s, and restored %s times', s.status, s.approvals_required,
			coalesce(j.required::text, 'none'), n.restores)
		FROM swaps s LEFT JOIN (
			SELECT admit ->> 'id' AS swap_id, min((admit #>> '{grant,required}')::integer) AS required
			FROM (SELECT convert_from(body, 'UTF8')::jsonb -> 'admit' AS admit FROM signer_journal
				WHERE substr(body, 1, 15) = '{"kind":"ADMIT"' AND position('"swapPayout"'::bytea IN body) > 0)
					admitted
			WHERE admit ->> 'purpose' = 'SWAP' GROUP BY 1) j ON j.swap_id = s.swap_id
		CROSS JOIN LATERAL (SELECT count(*) AS restores FROM audit_log l
			WHERE (l.org_id, l.resource_id, l.actor_kind, l.actor_id) = (s.org_id, s.swap_id, 'SYSTEM', 'restore')
				AND l.action = CASE WHEN s.imported_at IS NULL THEN 'swap.offered' ELSE 'swap.requested' END) n
		WHERE s.kind = 'ORGANIZATION' AND num_nonnulls(s.imported_at, s.adopted_at) > 0
			AND (n.restores = 0 OR j.required IS NULL OR j.required < s.approvals_required)
		UNION ALL
		SELECT a.org_id, 'swap ' || a.swap_id, format('was requested by %s %s and approved by %s %s',
			coalesce(s.requester_kind, 'no'), coalesce(s.requester_id, 'one'), a.approver_kind, a.approver_id)
		FROM swap_approvals a LEFT JOIN swaps s ON s.swap_id = a.swap_id AND s.org_id = a.org_id
		WHERE s.swap_id IS NULL OR s.kind <> 'ORGANIZATION' OR a.approver_kind NOT IN ('USER', 'OPERATOR')
			OR (a.approver_kind, a.approver_id) IS NOT DISTINCT FROM (s.requester_kind, s.requester_id)
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id, format('pays %s on %s, and its entry %s is %s on %s', s.payout_address,
			s.to_chain, s.whitelisted_address_id, e.address, e.chain)
		FROM swaps s JOIN whitelisted_addresses e ON e.whitelisted_address_id = s.whitelisted_address_id
		WHERE s.kind = 'ORGANIZATION'
			AND (e.org_id, e.chain, e.address) IS DISTINCT FROM (s.org_id, s.to_chain, s.payout_address)
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id,
			format('is %s, and its payout %s is %s of %s of mint %s for %s from %s',
			s.status, coalesce(s.payout_id, 'of no id'), coalesce(w.status, 'missing'), w.amount, w.mint_id,
			w.to_address, w.product)
		FROM swaps s LEFT JOIN withdrawals w ON w.org_id = s.org_id AND w.withdrawal_id = s.payout_id
		WHERE s.payout_id IS NOT NULL AND (w.product, w.mint_id, w.amount, w.whitelisted_address_id, w.to_address)
				IS DISTINCT FROM (s.product, s.to_mint_id, s.amount_out, s.whitelisted_address_id, s.payout_address)
			OR s.kind = 'ORGANIZATION' AND s.status = 'COMPLETED' AND w.status IS DISTINCT FROM 'COMPLETED'
		UNION ALL
		SELECT min(org_id), 'withdrawal ' || payout_id, 'is the payout of swaps ' || string_agg(swap_id, ', ' ORDER
			BY swap_id)
		FROM swaps WHERE payout_id IS NOT NULL GROUP BY payout_id HAVING count(*) > 1
		UNION ALL
		SELECT w.org_id, 'withdrawal ' || w.withdrawal_id,
			format('has the key of the payout of swap %s, which has payout %s',
			s.swap_id, s.payout_id)
		FROM withdrawals w JOIN swaps s ON s.org_id = w.org_id AND w.idempotency_key = 'swap ' || s.swap_id COLLATE
			"C"
		WHERE s.payout_id <> w.withdrawal_id
		UNION ALL
		SELECT s.org_id, 'swap ' || s.swap_id, format('is %s, with %s of %s restored, provider %s and payout %s',
			s.status,
			s.restored, s.amount_in, coalesce(s.provider, 'none'), coalesce(s.payout_id, 'none'))
		FROM swaps s WHERE s.status IN ('REJECTED', 'CANCELLED')
			AND (s.restored <> s.amount_in OR num_nonnulls(s.provider, s.payout_id, s.paid_at, s.approved_at) > 0)
		UNION ALL
		-- The signer let these go by the approvals of their swap.
		SELECT s.org_id, 'swap ' || s.swap_id, format('was paid out by %s: %s with a fee of %s of mint %s '
			|| 'from %s to %s of entry %s, and %s to %s were approved', j.admit ->> 'id', j.admit ->> 'amount',
				j.fee, j.admit ->> 'mintId',
			j.admit ->> 'product', j.admit ->> 'to', j.admit ->> 'whitelistedId', s.min_out, s.payout_max)
		FROM (SELECT admit, admit #> '{grant,swapPayout}' AS payout, coalesce(admit ->> 'feeDeducted', '0')::numeric
			AS fee
			FROM (SELECT convert_from(body, 'UTF8')::jsonb -> 'admit' AS admit FROM signer_journal
				WHERE substr(body, 1, 15) = '{"kind":"ADMIT"' AND position('"swapPayout"'::bytea IN body) > 0)
					admitted
			WHERE admit ->> 'purpose' <> 'SWAP') j
		JOIN swaps s ON s.swap_id = j.payout ->> 'swapId'
		WHERE (j.payout ->> 'orgId', j.admit ->> 'product', j.admit ->> 'mintId', j.admit ->> 'to',
				j.admit ->> 'whitelistedId')
				IS DISTINCT FROM (s.org_id, s.product, s.to_mint_id::text, s.payout_address, s.whitelisted_address_id)
			OR (j.admit ->> 'amount')::numeric + j.fee NOT BETWEEN s.min_out AND s.payout_max
			OR j.admit ->> 'id' <> s.payout_id
		UNION ALL
		SELECT NULL, 'swap ' || swap_id, 'was paid out by ' || string_agg(order_id, ', ' ORDER BY order_id)
		FROM (SELECT DISTINCT admit #>> '{grant,swapPayout,swapId}' AS swap_id, admit ->> 'id' AS order_id
			FROM (SELECT convert_from(body, 'UTF8')::jsonb -> 'admit' AS admit FROM signer_journal
				WHERE substr(body, 1, 15) = '{"kind":"ADMIT"' AND position('"swapPayout"'::bytea IN body) > 0)
					admitted
			WHERE admit ->> 'purpose' <> 'SWAP') paid
		GROUP BY swap_id HAVING count(*) > 1`,
	},
}
