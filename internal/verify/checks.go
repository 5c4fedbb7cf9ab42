package verify

import (
	"slices"

	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
)

// The meaning of the tables for the checks. A change of how an order reserves changes these lines
// too.
const (
	// An order in one of these states has a slot and has not ended.
	openOrders      = `('SLOTTED', 'SIGNED', 'BROADCAST', 'STUCK')`
	flaggedStatuses = `'FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK', 'REJECTED', 'REDIRECTED'`
	// An order in one of these states never had a slot, or has none yet.
	statusesWithoutSlot = `('QUEUED', 'REFUSED', 'WITHDRAWN')`
	// No event tells of a deposit at a wallet of one of these purposes: the operator's, and those of checkouts, which
	// have events of their own.
	untoldPurposes = `('TREASURY', 'CHANGE', 'CHECKOUT', 'CHECKOUT_SHARED')`
	// A withdrawal in one of these states holds its amount.
	openWithdrawals = `('AWAITING_APPROVAL', 'PROCESSING', 'BROADCAST')`
	// The owner of a withdrawal: the kinds of the accounts from which it takes and in which it is
	// held, and their subject.
	debitKindSQL = `CASE WHEN product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END`
	// A refund of a checkout is paid out of what is owed to payers, and a row of a batch out of what is held for
	// batches. What a withdrawal did not pay goes back to where it came from, of a row to the product.
	withdrawalDebitKindSQL = `CASE WHEN refund_id IS NOT NULL THEN 'REFUND_OWED'
		WHEN batch_id IS NOT NULL THEN 'BATCH_HELD' ELSE ` +
		debitKindSQL + ` END`
	withdrawalReturnKindSQL = `CASE WHEN refund_id IS NOT NULL THEN 'REFUND_OWED' ELSE ` + debitKindSQL + ` END`
	holdKindSQL             = `CASE WHEN product IS NULL THEN 'WITHDRAWING' ELSE 'PRODUCT_WITHDRAWING' END`
	withdrawalOwnerSQL      = `coalesce(product, customer_id)`
	// The wallet at which deposit d counts. On UTXO chains a credited deposit counts at the
	// treasury, at whatever address it is.
	creditWalletSQL = `CASE WHEN is_utxo(d.chain) AND d.status IN ('CREDITED', 'REVERSED') THEN (
					SELECT t.wallet_id FROM wallets t JOIN wallets a ON a.wallet_id = d.wallet_id
					WHERE t.org_id = d.org_id AND t.family = a.family AND t.purpose = 'TREASURY' AND t.subject = '') ELSE d.wallet_id END`
	// The kind and subject of the account to which deposit d is credited. An arrival for a swap is
	// credited by its role.
	creditKindSQL = `CASE d.purpose WHEN 'CUSTOMER_DEPOSIT' THEN 'CUSTOMER' WHEN 'DEPOSIT_SWAP' THEN 'CUSTOMER'
					WHEN 'ORGANIZATION_DEPOSIT' THEN 'PRODUCT'
					WHEN 'CHECKOUT' THEN 'PRODUCT' WHEN 'CHECKOUT_SHARED' THEN 'PRODUCT'
					ELSE CASE WHEN d.arrival_role = 'DELIVERY'
						THEN CASE WHEN d.product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END
						WHEN d.arrival_role = 'REFUND' THEN 'AT_PROVIDER'
						WHEN d.swap_id IS NULL AND d.contract = '' THEN 'GAS' ELSE 'SUSPENSE' END END`
	creditSubjectSQL = `CASE d.arrival_role
					WHEN 'REFUND' THEN coalesce((SELECT s.provider FROM swaps s WHERE s.swap_id = d.swap_id), '')
					WHEN 'STRAY' THEN '' ELSE coalesce(d.customer_id, d.product, '') END`
	// The type of the event that tells of the credit of deposit d, and NULL for a hidden one.
	creditEventSQL = `CASE WHEN d.deposit_swap_id IS NOT NULL THEN 'CUSTOMER_DEPOSIT'
					WHEN d.swap_id IS NULL THEN d.purpose
					WHEN NOT d.is_hidden
					THEN CASE WHEN d.product IS NULL THEN 'CUSTOMER_DEPOSIT' ELSE 'ORGANIZATION_DEPOSIT' END END`
)

// checks are all checks of RunChecks, in the order of the report.
var checks = slices.Concat(
	bookChecks, swapChecks, depositSwapChecks, checkoutChecks, linkChecks, refundChecks, automaticRefundChecks,
	billingChecks, payoutChecks, approverChecks,
)

// bookChecks are those of everything but swaps and checkouts.
var bookChecks = []Check{
	{ID: "I-01", Promise: "every ledger transfer joins two accounts of its own organization and mint", breachSQL: `
		SELECT t.org_id, 'transfer ' || t.transfer_id,
			format('%s of mint %s from account %s (%s, mint %s) to account %s (%s, mint %s)',
				t.amount, t.mint_id, t.debit_account, d.org_id, d.mint_id, t.credit_account, c.org_id, c.mint_id)
		FROM ledger_transfers t
		LEFT JOIN ledger_accounts d ON d.account_id = t.debit_account
		LEFT JOIN ledger_accounts c ON c.account_id = t.credit_account
		WHERE (d.org_id, d.mint_id, c.org_id, c.mint_id) IS DISTINCT FROM (t.org_id, t.mint_id, t.org_id, t.mint_id)
			OR t.amount <= 0 OR t.debit_account = t.credit_account`},

	{
		ID:        "I-02-triggers",
		Promise:   "triggers, functions, views and rules are as the migrations made them, and the triggers are enabled",
		guardKind: kindTrigger,
	},

	{
		ID: "I-02-rights", Promise: "the program's roles have the grants of the migrations, and no others",
		guardKind: kindPrivilege,
	},

	{
		ID: "I-02-constraints", Promise: "constraints and unique indexes are as the migrations made them",
		guardKind: kindConstraint,
	},

	{ID: "I-03", Promise: "no account with a minimum is below it", breachSQL: `
		SELECT a.org_id, format('%s %s in mint %s', a.kind, a.subject, a.mint_id), 'holds ' || b.balance
		FROM ledger_balances b JOIN ledger_accounts a USING (account_id)
		WHERE b.balance < 0`},

	{ID: "I-04", Promise: "every balance is the sum of its ledger transfers", breachSQL: `
		WITH sums AS (
			SELECT account_id, sum(delta) AS total
			FROM (SELECT credit_account AS account_id, amount AS delta FROM ledger_transfers
				UNION ALL
				SELECT debit_account, -amount FROM ledger_transfers) moved
			GROUP BY account_id)
		SELECT coalesce(a.org_id, b.org_id), format('%s %s in mint %s', a.kind, a.subject, coalesce(a.mint_id, b.mint_id)),
			format('the balance says %s, the transfers %s', coalesce(b.balance::text, 'nothing'), coalesce(s.total, 0))
		FROM (SELECT * FROM ledger_accounts WHERE floored) a
		FULL JOIN ledger_balances b ON b.account_id = a.account_id AND b.org_id = a.org_id AND b.mint_id = a.mint_id
		LEFT JOIN sums s ON s.account_id = coalesce(a.account_id, b.account_id)
		WHERE a.account_id IS NULL OR b.balance IS DISTINCT FROM coalesce(s.total, 0)`},

	{
		ID: "I-04-totals",
		Promise: "an organization's totals, with the differences that are not folded yet, are the sums of its " +
			"customers' balances and of its addresses' funds", breachSQL: `
		WITH kept AS (
			SELECT org_id, mint_id, sum(available) AS available, sum(withdrawing) AS withdrawing, sum(in_swap) AS in_swap,
				sum(addresses) AS addresses, sum(treasuries) AS treasuries, sum(dust) AS dust
			FROM (SELECT org_id, mint_id, available, withdrawing, in_swap, addresses, treasuries, dust FROM organization_totals
				UNION ALL
				SELECT org_id, mint_id, available, withdrawing, in_swap, addresses, treasuries, dust FROM organization_total_changes) parts
			GROUP BY 1, 2),
		customers AS (
			SELECT a.org_id, a.mint_id, coalesce(sum(b.balance) FILTER (WHERE a.kind = 'CUSTOMER'), 0) AS available,
				coalesce(sum(b.balance) FILTER (WHERE a.kind = 'WITHDRAWING'), 0) AS withdrawing,
				coalesce(sum(b.balance) FILTER (WHERE a.kind = 'IN_SWAP'), 0) AS in_swap
			FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			WHERE a.kind IN ('CUSTOMER', 'WITHDRAWING', 'IN_SWAP') GROUP BY 1, 2),
		held AS (
			SELECT f.org_id, f.mint_id, coalesce(sum(f.credited - f.swept + f.gas + f.dust) FILTER (WHERE w.purpose <> 'TREASURY'), 0) AS addresses,
				coalesce(sum(f.credited - f.swept + f.gas + f.dust) FILTER (WHERE w.purpose = 'TREASURY'), 0) AS treasuries, sum(f.dust) AS dust
			FROM address_funds f JOIN wallets w USING (wallet_id) GROUP BY 1, 2)
		SELECT org_id, 'total of mint ' || mint_id,
			format('available %s, withdrawing %s, in swaps %s, on addresses %s, on treasuries %s, dust %s; the balances and addresses say %s, %s, %s, %s, %s and %s',
				coalesce(k.available, 0), coalesce(k.withdrawing, 0), coalesce(k.in_swap, 0), coalesce(k.addresses, 0), coalesce(k.treasuries, 0), coalesce(k.dust, 0),
				coalesce(c.available, 0), coalesce(c.withdrawing, 0), coalesce(c.in_swap, 0), coalesce(h.addresses, 0), coalesce(h.treasuries, 0), coalesce(h.dust, 0))
		FROM kept k FULL JOIN customers c USING (org_id, mint_id) FULL JOIN held h USING (org_id, mint_id)
		WHERE (coalesce(k.available, 0), coalesce(k.withdrawing, 0), coalesce(k.in_swap, 0), coalesce(k.addresses, 0), coalesce(k.treasuries, 0), coalesce(k.dust, 0))
			IS DISTINCT FROM (coalesce(c.available, 0), coalesce(c.withdrawing, 0), coalesce(c.in_swap, 0), coalesce(h.addresses, 0), coalesce(h.treasuries, 0), coalesce(h.dust, 0))`,
	},

	{
		ID:      "I-18-held",
		Promise: "what is held for withdrawals is the sum of the open ones, by customer or product and mint",
		breachSQL: `
		SELECT coalesce(h.org_id, w.org_id), format('%s %s in mint %s', coalesce(h.kind, w.kind), coalesce(h.subject, w.subject), coalesce(h.mint_id, w.mint_id)),
			format('%s held, %s in open withdrawals', coalesce(h.balance, 0), coalesce(w.amount, 0))
		FROM (SELECT a.org_id, a.kind, a.subject, a.mint_id, b.balance
			FROM ledger_accounts a JOIN ledger_balances b USING (account_id) WHERE a.kind IN ('WITHDRAWING', 'PRODUCT_WITHDRAWING')) h
		FULL JOIN (SELECT org_id, ` + holdKindSQL + ` AS kind, ` + withdrawalOwnerSQL + ` AS subject, mint_id, sum(amount + charge_held) AS amount
			FROM withdrawals WHERE status IN ` + openWithdrawals + ` GROUP BY 1, 2, 3, 4) w
			ON w.org_id = h.org_id AND w.kind = h.kind AND w.subject = h.subject AND w.mint_id = h.mint_id
		WHERE coalesce(h.balance, 0) <> coalesce(w.amount, 0)`,
	},

	{
		ID: "I-18-ended", Promise: "every withdrawal was held once and, if it ended, ended once and as it says",
		breachSQL: `
		WITH posted AS (
			SELECT t.cause_kind, t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id, min(t.mint_id) AS mint_id,
				min(d.kind) AS from_kind, min(d.subject) AS from_subject, min(c.kind) AS to_kind, min(c.subject) AS to_subject
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('WITHDRAWAL_HOLD', 'WITHDRAWAL_END')
			GROUP BY 1, 2),
		due AS (
			SELECT 'WITHDRAWAL_HOLD' AS cause_kind, withdrawal_id AS cause_id, org_id, mint_id, amount + charge_held AS amount, status,
				` + withdrawalDebitKindSQL + ` AS from_kind, ` + withdrawalOwnerSQL + ` AS from_subject, ` + holdKindSQL + ` AS to_kind, ` + withdrawalOwnerSQL + ` AS to_subject
			FROM withdrawals WHERE status <> 'BLOCKED'
			UNION ALL
			SELECT 'WITHDRAWAL_END', withdrawal_id, org_id, mint_id, CASE status WHEN 'COMPLETED' THEN amount ELSE amount + charge_held - charged END, status,
				` + holdKindSQL + `, ` + withdrawalOwnerSQL + `,
				CASE status WHEN 'COMPLETED' THEN 'CUSTODY' ELSE ` + withdrawalReturnKindSQL + ` END,
				CASE status WHEN 'COMPLETED' THEN '' ELSE ` + withdrawalOwnerSQL + ` END
			FROM withdrawals WHERE status <> 'BLOCKED' AND status NOT IN ` + openWithdrawals + `
				AND (status = 'COMPLETED' OR amount + charge_held > charged)) -- of one of which all was charged nothing is left
		SELECT coalesce(w.org_id, p.org_id), 'withdrawal ' || coalesce(w.cause_id, p.cause_id),
			CASE WHEN p.cause_id IS NULL THEN format('is %s and has no %s', w.status, w.cause_kind)
				WHEN w.cause_id IS NULL THEN format('has a %s that its status does not explain', p.cause_kind)
				ELSE format('%s moved %s of mint %s from %s %s to %s %s, and it is %s of %s of mint %s', p.cause_kind, p.amount, p.mint_id,
					p.from_kind, p.from_subject, p.to_kind, p.to_subject, w.status, w.amount, w.mint_id) END
		FROM due w FULL JOIN posted p ON p.cause_kind = w.cause_kind AND p.cause_id = w.cause_id
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.from_kind, p.from_subject, p.to_kind, p.to_subject)
			IS DISTINCT FROM (1::bigint, w.org_id, w.mint_id, w.amount, w.from_kind, w.from_subject, w.to_kind, w.to_subject)`,
	},

	{
		ID: "I-18-fee",
		Promise: "the fee that was held of a paid withdrawal belongs to the organization, or for its own withdrawal " +
			"to the operator and off its bill, and nothing else was posted in that way", breachSQL: `
		WITH posted AS (
			SELECT t.cause_kind, t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id, min(t.mint_id) AS mint_id,
				min(d.kind) AS from_kind, min(c.kind) AS to_kind, min(c.subject) AS to_subject
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('WITHDRAWAL_FEE', 'FEE_PREPAID')
			GROUP BY 1, 2),
		due AS (
			SELECT 'WITHDRAWAL_FEE' AS cause_kind, withdrawal_id AS cause_id, org_id, mint_id, fee_deducted, 'CUSTODY' AS from_kind,
				CASE WHEN product IS NULL THEN 'PRODUCT' ELSE 'GAS' END AS to_kind, CASE WHEN product IS NULL THEN 'CUSTODIAL' ELSE '' END AS to_subject
			FROM withdrawals WHERE status = 'COMPLETED' AND fee_deducted > 0
			UNION ALL
			SELECT 'FEE_PREPAID', withdrawal_id, org_id, mint_id, fee_deducted, 'FEES_BILLED', 'FEES_DUE', ''
			FROM withdrawals WHERE status = 'COMPLETED' AND fee_deducted > 0 AND product IS NOT NULL)
		SELECT coalesce(w.org_id, p.org_id), 'withdrawal ' || coalesce(w.cause_id, p.cause_id),
			CASE WHEN p.cause_id IS NULL THEN format('%s was held of it for the fee, and no %s says who has it', w.fee_deducted, w.cause_kind)
				WHEN w.cause_id IS NULL THEN format('%s was posted as %s for a fee that it did not pay', p.amount, p.cause_kind)
				ELSE format('%s of mint %s was held of it for the fee; posted as %s in %s legs were %s of mint %s from %s to %s %s',
					w.fee_deducted, w.mint_id, p.cause_kind, p.legs, p.amount, p.mint_id, p.from_kind, p.to_kind, p.to_subject) END
		FROM due w FULL JOIN posted p ON p.cause_kind = w.cause_kind AND p.cause_id = w.cause_id
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.from_kind, p.to_kind, p.to_subject)
			IS DISTINCT FROM (1::bigint, w.org_id, w.mint_id, w.fee_deducted, w.from_kind, w.to_kind, w.to_subject)`,
	},

	{
		ID: "I-18-charge",
		Promise: "a customer paid the costs of a withdrawal that were shown and that it had, and they were posted " +
			"once with the rest of its hold", breachSQL: `
		WITH posted AS (
			SELECT t.cause_kind, t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id, min(t.mint_id) AS mint_id,
				min(d.kind) AS from_kind, min(d.subject) AS from_subject, min(c.kind) AS to_kind, min(c.subject) AS to_subject
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind IN ('WITHDRAWAL_CHARGE', 'WITHDRAWAL_CHARGE_RETURN')
			GROUP BY 1, 2),
		due AS (
			SELECT 'WITHDRAWAL_CHARGE' AS cause_kind, withdrawal_id AS cause_id, org_id, mint_id, charged AS amount, customer_id, 'PRODUCT' AS to_kind, 'CUSTODIAL' AS to_subject
			FROM withdrawals WHERE charged > 0
			UNION ALL
			SELECT 'WITHDRAWAL_CHARGE_RETURN', withdrawal_id, org_id, mint_id, charge_held - charged, customer_id, 'CUSTOMER', customer_id
			FROM withdrawals WHERE status = 'COMPLETED' AND charge_held > charged)
		SELECT coalesce(w.org_id, p.org_id), 'withdrawal ' || coalesce(w.cause_id, p.cause_id),
			CASE WHEN p.cause_id IS NULL THEN format('%s was to be moved as %s, and nothing was', w.amount, w.cause_kind)
				WHEN w.cause_id IS NULL THEN format('%s was posted as %s, and its withdrawal says nothing of that', p.amount, p.cause_kind)
				ELSE format('%s of mint %s was to be moved as %s; posted in %s legs were %s of mint %s from %s %s to %s %s',
					w.amount, w.mint_id, p.cause_kind, p.legs, p.amount, p.mint_id, p.from_kind, p.from_subject, p.to_kind, p.to_subject) END
		FROM due w FULL JOIN posted p ON p.cause_kind = w.cause_kind AND p.cause_id = w.cause_id
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.from_kind, p.from_subject, p.to_kind, p.to_subject)
			IS DISTINCT FROM (1::bigint, w.org_id, w.mint_id, w.amount, 'WITHDRAWING', w.customer_id, w.to_kind, w.to_subject)
		UNION ALL
		SELECT org_id, 'withdrawal ' || withdrawal_id, format('is %s and charged %s for a cost of %s, of which %s is held beside it and %s may be charged when it fails',
			status, charged, charge_cost, charge_held, coalesce(charge_failure_max, 0))
		FROM (
			SELECT w.*, CASE WHEN m.kind = 'NATIVE' THEN charge_cost WHEN charge_cost = 0 THEN 0 ELSE
				div(charge_cost * trunc(charge_coin_price * 1e18) * ('1e' || m.decimals)::numeric + trunc(charge_mint_price * 1e18) * ('1e' || n.decimals)::numeric - 1,
					trunc(charge_mint_price * 1e18) * ('1e' || n.decimals)::numeric) END AS worth
			FROM withdrawals w JOIN mints m USING (mint_id) JOIN mints n ON n.chain = w.chain AND n.kind = 'NATIVE') w
		WHERE charged <> least(worth, CASE status WHEN 'COMPLETED' THEN charge_held WHEN 'FAILED' THEN coalesce(charge_failure_max, 0) ELSE 0 END)`,
	},

	{
		ID:      "I-18-transfers",
		Promise: "every transfer was posted once and completely, between the balances that it names, and has one event",
		breachSQL: `
		WITH posted AS (
			SELECT t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id, min(t.mint_id) AS mint_id,
				min(d.kind) AS from_kind, min(d.subject) AS from_subject, min(c.kind) AS to_kind, min(c.subject) AS to_subject
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind = 'TRANSFER'
			GROUP BY 1),
		due AS (
			SELECT transfer_id, org_id, mint_id, amount,
				CASE WHEN from_product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AS from_kind, coalesce(from_product, from_customer) AS from_subject,
				CASE WHEN to_product IS NULL THEN 'CUSTOMER' ELSE 'PRODUCT' END AS to_kind, coalesce(to_product, to_customer) AS to_subject
			FROM transfers)
		SELECT coalesce(d.org_id, p.org_id), 'transfer ' || coalesce(d.transfer_id, p.cause_id),
			CASE WHEN p.cause_id IS NULL THEN 'was not posted'
				WHEN d.transfer_id IS NULL THEN 'was posted and is not there'
				ELSE format('%s of mint %s from %s %s to %s %s; posted in %s legs were %s of mint %s from %s %s to %s %s', d.amount, d.mint_id,
					d.from_kind, d.from_subject, d.to_kind, d.to_subject, p.legs, p.amount, p.mint_id, p.from_kind, p.from_subject, p.to_kind, p.to_subject) END
		FROM due d FULL JOIN posted p ON p.cause_id = d.transfer_id
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.from_kind, p.from_subject, p.to_kind, p.to_subject)
			IS DISTINCT FROM (1::bigint, d.org_id, d.mint_id, d.amount, d.from_kind, d.from_subject, d.to_kind, d.to_subject)
		UNION ALL
		SELECT coalesce(d.org_id, e.org_id), 'transfer ' || coalesce(d.transfer_id, e.resource_id), format('was told of %s times', coalesce(e.times, 0))
		FROM transfers d
		FULL JOIN (SELECT org_id, resource_id, count(*) AS times FROM events WHERE type = 'TRANSFER_COMPLETED' GROUP BY 1, 2) e
			ON e.org_id = d.org_id AND e.resource_id = d.transfer_id
		WHERE d.transfer_id IS NULL OR e.times IS DISTINCT FROM 1`,
	},

	{
		ID: "I-06-custody", Promise: "what the books own is what the addresses hold, by organization and mint",
		breachSQL: `
		SELECT coalesce(b.org_id, f.org_id), 'mint ' || coalesce(b.mint_id, f.mint_id),
			format('the books own %s, the addresses hold %s', coalesce(b.owned, 0), coalesce(f.holds, 0))
		FROM (SELECT a.org_id, a.mint_id, sum(moved.delta) AS owned
			FROM (SELECT debit_account AS account_id, amount AS delta FROM ledger_transfers
				UNION ALL
				SELECT credit_account, -amount FROM ledger_transfers) moved
			JOIN ledger_accounts a USING (account_id)
			WHERE a.kind = 'CUSTODY' GROUP BY 1, 2) b
		FULL JOIN (SELECT org_id, mint_id, sum(credited - swept + gas) AS holds FROM address_funds GROUP BY 1, 2) f
			ON f.org_id = b.org_id AND f.mint_id = b.mint_id
		WHERE coalesce(b.owned, 0) <> coalesce(f.holds, 0)`,
	},

	{ID: "I-06-funds", Promise: "the funds of each address follow from its deposits and its ended orders", breachSQL: `
		WITH native AS (SELECT chain, mint_id FROM mints WHERE contract = ''),
		moved (wallet_id, mint_id, org_id, credited, swept, gas, dust) AS (
			SELECT ` + creditWalletSQL + `, d.mint_id, d.org_id, d.amount, 0, 0, 0
			FROM deposits d WHERE d.status IN (` + flaggedStatuses + `, 'CREDITED') AND NOT (d.purpose = 'TREASURY' AND d.contract = '')
			UNION ALL
			SELECT d.wallet_id, d.mint_id, d.org_id, 0, 0, d.amount, 0
			FROM deposits d WHERE d.status = 'CREDITED' AND d.purpose = 'TREASURY' AND d.contract = ''
			UNION ALL
			SELECT d.wallet_id, d.mint_id, d.org_id, 0, 0, 0, d.amount
			FROM deposits d WHERE d.status = 'BELOW_MINIMUM'
			UNION ALL
			SELECT coalesce(o.from_wallet_id, o.wallet_id), o.mint_id, o.org_id, 0, o.amount, 0, 0
			FROM dispatch_orders o WHERE o.status = 'PAID' AND o.purpose IN ('PAYMENT', 'SWAP', 'SWEEP', 'RETURN')
			UNION ALL
			SELECT o.to_wallet_id, o.mint_id, o.org_id, o.amount, 0, 0, 0
			FROM dispatch_orders o WHERE o.status = 'PAID' AND o.purpose = 'SWEEP'
			UNION ALL
			SELECT o.wallet_id, o.mint_id, o.org_id, 0, 0, -o.amount, 0
			FROM dispatch_orders o WHERE o.status = 'PAID' AND o.purpose = 'GAS'
			UNION ALL
			SELECT o.to_wallet_id, o.mint_id, o.org_id, 0, 0, o.amount, 0
			FROM dispatch_orders o WHERE o.status = 'PAID' AND o.purpose = 'GAS'
			UNION ALL
			SELECT o.wallet_id, n.mint_id, o.org_id, 0, 0, -o.fee, 0
			FROM dispatch_orders o JOIN native n USING (chain) WHERE o.status IN ('PAID', 'FAILED')),
		due AS (
			SELECT wallet_id, mint_id, org_id, sum(credited) AS credited, sum(swept) AS swept, sum(gas) AS gas, sum(dust) AS dust
			FROM moved GROUP BY 1, 2, 3)
		SELECT coalesce(f.org_id, m.org_id), format('wallet %s in mint %s', coalesce(f.wallet_id, m.wallet_id), coalesce(f.mint_id, m.mint_id)),
			format('credited %s swept %s gas %s dust %s, and what happened comes to %s, %s, %s and %s',
				coalesce(f.credited, 0), coalesce(f.swept, 0), coalesce(f.gas, 0), coalesce(f.dust, 0),
				coalesce(m.credited, 0), coalesce(m.swept, 0), coalesce(m.gas, 0), coalesce(m.dust, 0))
		FROM address_funds f FULL JOIN due m ON m.wallet_id = f.wallet_id AND m.mint_id = f.mint_id AND m.org_id = f.org_id
		WHERE (coalesce(f.credited, 0), coalesce(f.swept, 0), coalesce(f.gas, 0), coalesce(f.dust, 0))
			IS DISTINCT FROM (coalesce(m.credited, 0), coalesce(m.swept, 0), coalesce(m.gas, 0), coalesce(m.dust, 0))`},

	{
		ID: "I-06-reserved", Promise: "what is reserved is reserved for open payments and sweeps, by address and mint",
		breachSQL: `
		SELECT coalesce(f.org_id, o.org_id), format('wallet %s in mint %s', coalesce(f.wallet_id, o.wallet_id), coalesce(f.mint_id, o.mint_id)),
			format('%s reserved, %s promised', coalesce(f.reserved, 0), coalesce(o.amount, 0))
		FROM address_funds f
		FULL JOIN (
			SELECT wallet_id, mint_id, org_id, sum(amount) AS amount
			FROM (SELECT coalesce(from_wallet_id, wallet_id) AS wallet_id, mint_id, org_id, amount FROM dispatch_orders
				WHERE (purpose IN ('PAYMENT', 'SWAP', 'RETURN') AND status IN ` + openOrders + ` OR purpose = 'RETURN' AND status = 'QUEUED') AND NOT funds_pending
				UNION ALL
				SELECT s.wallet_id, s.mint_id, s.org_id, s.amount FROM sweeps s
				WHERE s.status = 'OPEN' AND NOT EXISTS (SELECT FROM dispatch_orders o WHERE o.order_id = s.sweep_id AND o.funds_pending)) promised
			GROUP BY 1, 2, 3) o
			ON o.wallet_id = f.wallet_id AND o.mint_id = f.mint_id AND o.org_id = f.org_id
		WHERE coalesce(f.reserved, 0) <> coalesce(o.amount, 0)`,
	},

	{ID: "I-25", Promise: "what is flagged is held on its address, by address and mint", breachSQL: `
		SELECT coalesce(f.org_id, d.org_id), format('wallet %s in mint %s', coalesce(f.wallet_id, d.wallet_id), coalesce(f.mint_id, d.mint_id)),
			format('%s held, %s flagged', coalesce(f.held, 0), coalesce(d.amount, 0))
		FROM (SELECT * FROM address_funds WHERE held <> 0) f
		FULL JOIN (
			SELECT d.wallet_id, d.mint_id, d.org_id, sum(CASE WHEN (d.status IN ('REJECTING', 'REDIRECTING') OR d.status = 'RESOLUTION_STUCK' AND o.status <> 'FAILED') AND NOT o.funds_pending
				THEN r.fee_kept ELSE d.amount END) AS amount
			FROM deposits d
			LEFT JOIN deposit_resolutions r ON r.deposit_id = d.deposit_id AND r.status <> 'FAILED'
			LEFT JOIN dispatch_orders o ON o.order_id = r.resolution_id
			WHERE d.status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK')
			GROUP BY 1, 2, 3) d
			ON d.wallet_id = f.wallet_id AND d.mint_id = f.mint_id AND d.org_id = f.org_id
		WHERE coalesce(f.held, 0) <> coalesce(d.amount, 0)`},

	{
		ID: "I-27",
		Promise: "every flagged deposit has the one resolution that its state requires, and is in the books " +
			"accordingly",
		breachSQL: `
		SELECT d.org_id, 'deposit ' || d.deposit_id,
			format('is %s, resolved %s times, held %s times in the books and released %s times', d.status, n.resolved, n.holds, n.releases)
		FROM deposits d
		CROSS JOIN LATERAL (SELECT
			(SELECT count(*) FROM deposit_resolutions r WHERE r.deposit_id = d.deposit_id AND r.status <> 'FAILED') AS resolved,
			(SELECT count(*) FROM ledger_transfers t WHERE t.cause_kind = 'DEPOSIT_HOLD' AND t.cause_id = d.deposit_id AND t.amount = d.amount) AS holds,
			(SELECT count(*) FROM ledger_transfers t WHERE t.cause_kind = 'DEPOSIT_RELEASE' AND t.cause_id = d.deposit_id AND t.amount = d.amount) AS releases) n
		WHERE d.is_flagged AND (n.holds <> 1 OR n.resolved <> CASE WHEN d.status IN ('FLAGGED', 'ORPHANED') THEN 0 ELSE 1 END
			OR n.releases <> CASE WHEN d.status IN ('ORPHANED', 'CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED') THEN 1 ELSE 0 END)`,
	},

	{ID: "I-30", Promise: "a flagged deposit goes back to its sender", breachSQL: `
		SELECT org_id, 'deposit ' || deposit_id, format('came from %s and would go back to %s', from_address, return_to)
		FROM deposits WHERE is_flagged AND return_to <> from_address`, openSQL: `
		SELECT org_id, 'deposit ' || deposit_id, 'was flagged before its sender was bound by a key: only the operator redirects it'
		FROM deposits WHERE is_flagged AND return_mac IS NULL AND status IN ('FLAGGED', 'REJECTING', 'REDIRECTING', 'RESOLUTION_STUCK')`},

	{ID: "I-06-gas", Promise: "the reserved gas is reserved for open slots and top-ups, by address", breachSQL: `
		WITH native AS (SELECT chain, mint_id FROM mints WHERE contract = '')
		SELECT coalesce(f.org_id, o.org_id), format('wallet %s in mint %s', coalesce(f.wallet_id, o.wallet_id), coalesce(f.mint_id, o.mint_id)),
			format('%s reserved, %s promised', coalesce(f.gas_reserved, 0), coalesce(o.amount, 0))
		FROM address_funds f
		FULL JOIN (
			SELECT wallet_id, mint_id, org_id, sum(amount) AS amount
			-- Each order of a slot has its share, and the one that leads what cannot be divided.
			FROM (SELECT s.wallet_id, n.mint_id, s.org_id, div(s.gas_reserved, s.orders) + CASE WHEN o.tx_lead_id IS NULL THEN s.gas_reserved % s.orders ELSE 0 END AS amount
				FROM dispatch_slots s JOIN dispatch_orders o ON s.order_id = coalesce(o.tx_lead_id, o.order_id) JOIN native n ON n.chain = s.chain
				WHERE o.status IN ` + openOrders + ` AND NOT o.funds_pending
				UNION ALL
				SELECT wallet_id, mint_id, org_id, amount FROM dispatch_orders
				WHERE purpose = 'GAS' AND status IN ` + openOrders + ` AND NOT funds_pending) promised
			GROUP BY 1, 2, 3) o
			ON o.wallet_id = f.wallet_id AND o.mint_id = f.mint_id AND o.org_id = f.org_id
		WHERE coalesce(f.gas_reserved, 0) <> coalesce(o.amount, 0)`},

	{
		ID:      "I-47",
		Promise: "on UTXO chains, the outputs of an organization are together the funds of its addresses in the books", breachSQL: `
		WITH counted AS (
			SELECT c.org_id, c.mint_id, sum(CASE
				WHEN c.status = 'SPENT' THEN CASE WHEN d.status = 'REVERSED' OR d.lost_at IS NOT NULL THEN -c.amount ELSE 0 END
				-- What is in question stands in the books until it is found again or is taken back.
				WHEN c.status = 'GONE' THEN CASE WHEN d.chain_status = 'REORGED' AND d.status IN (` + flaggedStatuses + `, 'CREDITED') AND d.lost_at IS NULL THEN c.amount ELSE 0 END
				-- Until its order ends the books have what was spent, and not what came back.
				WHEN c.change_of IS NOT NULL THEN CASE WHEN o.status IN ('PAID', 'FAILED') THEN c.amount ELSE 0 END
				WHEN d.status IN (` + flaggedStatuses + `, 'CREDITED', 'BELOW_MINIMUM') THEN c.amount
				ELSE 0 END) AS amount
			FROM utxos c LEFT JOIN deposits d ON d.deposit_id = c.deposit_id LEFT JOIN dispatch_orders o ON o.order_id = c.change_of
			GROUP BY 1, 2)
		SELECT coalesce(f.org_id, c.org_id), 'mint ' || coalesce(f.mint_id, c.mint_id), format('the books have %s, the coins are %s', coalesce(f.amount, 0), coalesce(c.amount, 0))
		FROM (SELECT f.org_id, f.mint_id, sum(f.credited - f.swept + f.gas + f.dust) AS amount
			FROM address_funds f JOIN mints m USING (mint_id) WHERE is_utxo(m.chain) GROUP BY 1, 2) f
		FULL JOIN counted c ON c.org_id = f.org_id AND c.mint_id = f.mint_id
		WHERE coalesce(f.amount, 0) <> coalesce(c.amount, 0)
			AND NOT EXISTS (SELECT FROM dispatch_reorged q WHERE q.org_id = coalesce(f.org_id, c.org_id) AND is_utxo(q.chain))`,
	},

	{
		ID:      "I-47-state",
		Promise: "every final output of an organization can be used for what its deposit or its order says",
		breachSQL: `
		SELECT d.org_id, 'deposit ' || d.deposit_id, format('is %s, and its coin is %s', d.status, coalesce(c.status, 'not there'))
		FROM deposits d LEFT JOIN utxos c ON c.deposit_id = d.deposit_id
		WHERE is_utxo(d.chain) AND d.mint_id IS NOT NULL AND d.chain_status = 'FINALIZED'
			AND CASE d.status WHEN 'CREDITED' THEN c.status IN ('FREE', 'RESERVED', 'SPENT')
				WHEN 'REJECTED' THEN c.status = 'SPENT' WHEN 'REDIRECTED' THEN c.status = 'SPENT'
				WHEN 'REJECTING' THEN c.status IN ('HELD', 'RESERVED', 'SPENT') WHEN 'REDIRECTING' THEN c.status IN ('HELD', 'RESERVED', 'SPENT')
				WHEN 'RESOLUTION_STUCK' THEN c.status IN ('HELD', 'RESERVED', 'SPENT')
				ELSE c.status = 'HELD' END IS NOT TRUE
		UNION ALL
		SELECT c.org_id, 'coin ' || c.outpoint, format('is %s, and order %s, whose rest it is, is %s', c.status, c.change_of, o.status)
		FROM utxos c JOIN dispatch_orders o ON o.order_id = c.change_of
		WHERE c.status NOT IN ('HELD', 'GONE') AND o.status NOT IN ('PAID', 'FAILED')
			-- A slot that a restore took from the signer's journal is as old as its signature, and
			-- the block of its coin is proven here after that. Its coin may be the change of an
			-- order that this database has not ended yet.
			AND NOT (c.status IN ('RESERVED', 'SPENT') AND EXISTS (
				SELECT FROM dispatch_slots s JOIN finality_proofs p ON (p.chain, p.proof_id) = (c.chain, c.proof_id)
				WHERE s.order_id = c.order_id AND strpos(s.slot_key, c.outpoint || ':') > 0 AND s.created_at < p.created_at))
		UNION ALL
		SELECT c.org_id, 'coin ' || c.outpoint, format('is %s and stands on a block that is not proven', c.status)
		FROM utxos c LEFT JOIN finality_live p ON p.proof_id = c.proof_id
		WHERE c.proof_id IS NOT NULL AND c.status IN ('HELD', 'FREE') AND (p.chain, p.height) IS DISTINCT FROM (c.chain, c.height)`,
	},

	{ID: "I-47-slot", Promise: "every output of an order is in its slot, and is spent once the order has ended", breachSQL: `
		SELECT c.org_id, 'coin ' || c.outpoint, format('is %s for order %s, which is %s%s', c.status, c.order_id, o.status,
			CASE WHEN coalesce(strpos(s.slot_key, c.outpoint || ':'), 0) = 0 THEN ' and has another slot' ELSE '' END)
		FROM utxos c JOIN dispatch_orders o USING (order_id) LEFT JOIN dispatch_slots s ON s.order_id = c.order_id
		WHERE c.status IN ('RESERVED', 'SPENT') AND (coalesce(strpos(s.slot_key, c.outpoint || ':'), 0) = 0
			OR c.status = 'RESERVED' AND o.status NOT IN ` + openOrders + `
			OR c.status = 'SPENT' AND (o.status NOT IN ('PAID', 'FAILED') OR c.spent_tx_hash <> o.tx_hash))
		UNION ALL
		SELECT s.org_id, 'order ' || s.order_id, 'has a slot and no coin in it'
		FROM dispatch_slots s WHERE is_utxo(s.chain) AND NOT EXISTS (SELECT FROM utxos c WHERE c.order_id = s.order_id)`},

	{
		ID:      "I-47-rest",
		Promise: "every change output goes to a change wallet of its own, which the seed and a number determine",
		breachSQL: `
		WITH rests AS (
			SELECT s.org_id, s.order_id, split_part(s.slot_key, ' ', -1) AS address FROM dispatch_slots s WHERE is_utxo(s.chain))
		SELECT r.org_id, 'order ' || r.order_id, format('its rest comes back to %s, which is no wallet of its organization for change', r.address)
		FROM rests r LEFT JOIN wallets w ON w.family = 'BITCOIN' AND w.address = r.address
		WHERE (w.org_id, w.purpose) IS DISTINCT FROM (r.org_id, 'CHANGE')
		UNION ALL
		SELECT min(org_id), 'address ' || address, 'gets the rests of orders ' || string_agg(order_id, ', ' ORDER BY order_id) FROM rests GROUP BY address HAVING count(*) > 1
		UNION ALL
		SELECT c.org_id, 'coin ' || c.outpoint, format('is called the rest of order %s, and came to another address', c.change_of)
		FROM utxos c JOIN wallets w USING (wallet_id) LEFT JOIN rests r ON r.order_id = c.change_of
		WHERE c.change_of IS NOT NULL AND r.address IS DISTINCT FROM w.address
		UNION ALL
		-- Those of before have an order as their subject.
		SELECT org_id, 'wallets for change', format('are %s, and the last is number %s', count(*), max(subject::bigint))
		FROM wallets WHERE purpose = 'CHANGE' AND subject ~ '^[1-9][0-9]{0,17}$' GROUP BY org_id, family HAVING count(*) <> max(subject::bigint)`,
	},

	{ID: "I-09", Promise: "nothing counts whose block is not proven final", breachSQL: `
		SELECT d.org_id, 'deposit ' || d.deposit_id,
			format('is %s in block %s %s of %s, proven is %s', d.status, d.height, d.block_hash, d.chain,
				coalesce(format('%s %s of %s', p.height, p.hash, p.chain), 'none'))
		FROM deposits d LEFT JOIN finality_live p ON p.proof_id = d.proof_id
		WHERE (d.status IN ('SCREENING', 'BELOW_MINIMUM') OR d.status = 'CREDITED' AND d.chain_status <> 'REORGED' OR d.chain_status = 'FINALIZED')
			AND (p.chain, p.height, p.hash) IS DISTINCT FROM (d.chain, d.height, d.block_hash)`},

	{
		ID: "I-10", Promise: "every credited deposit was posted once, completely, to its owner, and nothing else was " +
			"posted",
		breachSQL: `
		WITH posted AS (
			SELECT t.cause_id, count(*) AS legs, sum(t.amount) AS amount, min(t.org_id) AS org_id, min(t.mint_id) AS mint_id,
				min(d.kind) AS from_kind, min(c.kind) AS to_kind, min(c.subject) AS to_subject
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind = 'DEPOSIT' GROUP BY 1),
		due AS (
			SELECT deposit_id, org_id, mint_id, amount,
				` + creditKindSQL + ` AS to_kind, ` + creditSubjectSQL + ` AS to_subject
			FROM deposits d WHERE status IN ('CREDITED', 'REVERSED'))
		SELECT coalesce(d.org_id, p.org_id), 'deposit ' || coalesce(d.deposit_id, p.cause_id),
			CASE WHEN p.cause_id IS NULL THEN 'is credited and was not posted'
				WHEN d.deposit_id IS NULL THEN format('was posted (%s of mint %s to %s %s) and is not credited', p.amount, p.mint_id, p.to_kind, p.to_subject)
				ELSE format('posted %s of mint %s to %s %s in %s legs, arrived %s of mint %s for %s %s',
					p.amount, p.mint_id, p.to_kind, p.to_subject, p.legs, d.amount, d.mint_id, d.to_kind, d.to_subject) END
		FROM due d FULL JOIN posted p ON p.cause_id = d.deposit_id
		WHERE (p.legs, p.org_id, p.mint_id, p.amount, p.from_kind, p.to_kind, p.to_subject)
			IS DISTINCT FROM (1::bigint, d.org_id, d.mint_id, d.amount, 'CUSTODY', d.to_kind, d.to_subject)`,
	},

	{
		ID: "I-14-question", Promise: "exactly the credits whose blocks the chain replaced are disputed",
		breachSQL: `
		SELECT d.org_id, 'deposit ' || d.deposit_id,
			format('is %s and %s, and its proof is %s', d.status, d.chain_status, CASE WHEN p.proof_id IS NULL THEN 'dead' ELSE 'alive' END)
		FROM deposits d LEFT JOIN finality_live p ON p.proof_id = d.proof_id
		WHERE d.status IN ('CREDITED', 'REVERSED') AND (p.proof_id IS NULL) <> (d.chain_status = 'REORGED')`,
	},

	{
		ID:      "I-14-reversed",
		Promise: "every reversed deposit was posted back completely, from its owner and as a loss",
		breachSQL: `
		WITH posted AS (
			SELECT split_part(t.cause_id, '/', 1) AS deposit_id, min(t.org_id) AS org_id, min(t.mint_id) AS mint_id, count(DISTINCT t.mint_id) AS mints,
				coalesce(sum(t.amount) FILTER (
					WHERE d.kind IN ('CUSTOMER', 'PRODUCT', 'GAS', 'SUSPENSE', 'AT_PROVIDER')), 0) AS taken,
				coalesce(sum(t.amount) FILTER (WHERE c.kind = 'CUSTODY'), 0) AS back,
				coalesce(sum(t.amount) FILTER (WHERE d.kind = 'REORG_LOSS'), 0) - coalesce(sum(t.amount) FILTER (WHERE c.kind = 'REORG_LOSS'), 0) AS lost,
				array_agg(DISTINCT d.kind || ' ' || d.subject) FILTER (WHERE d.kind <> 'REORG_LOSS') AS owners,
				count(DISTINCT t.cause_id) AS causes
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			WHERE t.cause_kind = 'DEPOSIT_REVERSAL' GROUP BY 1),
		due AS (
			SELECT deposit_id, org_id, mint_id, amount, taken_back, claim_count,
				-- A person may have credited a stray to its customer.
				CASE WHEN d.arrival_role = 'STRAY' AND NOT d.is_hidden THEN 'CUSTOMER ' || d.customer_id
					ELSE ` + creditKindSQL + ` || ' ' || ` + creditSubjectSQL + ` END AS owner
			FROM deposits d WHERE status = 'REVERSED'
			UNION ALL SELECT deposit_id, org_id, mint_id, amount, 0, 0, NULL FROM deposits WHERE lost_at IS NOT NULL)
		SELECT coalesce(d.org_id, p.org_id), 'deposit ' || coalesce(d.deposit_id, p.deposit_id),
			CASE WHEN p.deposit_id IS NULL THEN 'is reversed and was not posted back'
				WHEN d.deposit_id IS NULL THEN 'was posted back and is not reversed'
				ELSE format('%s arrived, %s was taken back; posted were %s taken from %s, %s lost, %s out of custody in %s causes',
					d.amount, d.taken_back, p.taken, p.owners, p.lost, p.back, p.causes) END
		FROM due d FULL JOIN posted p ON p.deposit_id = d.deposit_id
		WHERE (p.org_id, p.mint_id, p.mints, p.taken, p.lost, p.back, p.causes)
				IS DISTINCT FROM (d.org_id, d.mint_id, 1::bigint, d.taken_back, d.amount - d.taken_back, d.amount, d.claim_count + 1::bigint)
			OR p.owners <> ARRAY[d.owner]`,
	},

	{
		ID: "I-14-short", Promise: "what addresses lack is what the chain reversed, and is counted", openSQL: `
		SELECT org_id, format('wallet %s in mint %s', wallet_id, mint_id), format('lacks %s of %s', open, part) FROM reorg_shortfalls`,
		breachSQL: `
		SELECT f.org_id, format('wallet %s in mint %s', f.wallet_id, f.mint_id),
			format('lacks %s and gas %s; %s and gas %s were taken back, of deposits %s',
				f.short, f.gas_short, f.reversed, f.gas_reversed, coalesce(d.amount, 0))
		FROM address_funds f
		LEFT JOIN (SELECT ` + creditWalletSQL + ` AS wallet_id, mint_id, sum(amount) AS amount FROM deposits d WHERE status = 'REVERSED' OR lost_at IS NOT NULL OR is_flagged AND status = 'ORPHANED' GROUP BY 1, 2) d USING (wallet_id, mint_id)
		WHERE f.short <> greatest(0, f.reserved + f.swept + f.held - f.credited) OR f.gas_short <> greatest(0, f.gas_reserved - f.gas)
			OR f.short > f.reversed OR f.gas_short > f.gas_reversed OR f.reversed + f.gas_reversed < coalesce(d.amount, 0)`,
	},

	{ID: "I-10-once", Promise: "one transfer on a chain is one deposit at a time", breachSQL: `
		SELECT min(org_id), format('%s %s %s of %s', chain, kind, position, tx_hash), 'is deposits ' || string_agg(deposit_id, ', ' ORDER BY deposit_id)
		FROM deposits WHERE chain_status <> 'REORGED'
		GROUP BY chain, tx_hash, kind, position HAVING count(*) > 1`},

	{ID: "I-12", Promise: "every deposit has the mint of its contract, and the wallet that received it", breachSQL: `
		SELECT d.org_id, 'deposit ' || d.deposit_id,
			format('mint %s, contract %s on %s; wallet %s %s of %s', d.mint_id, d.contract, d.chain, d.wallet_id, d.address,
				coalesce(d.swap_id, d.deposit_swap_id, d.checkout_id, d.customer_id, d.product, d.purpose))
		FROM deposits d LEFT JOIN mints m ON m.mint_id = d.mint_id LEFT JOIN wallets w ON w.wallet_id = d.wallet_id
		WHERE d.mint_id IS NOT NULL AND (m.chain, m.contract) IS DISTINCT FROM (d.chain, d.contract)
			OR (w.org_id, w.address, w.purpose, CASE w.purpose WHEN 'CHANGE' THEN '' ELSE w.subject END)
				IS DISTINCT FROM (d.org_id, d.address, d.purpose,
					coalesce(d.swap_id, d.deposit_swap_id, d.checkout_id, d.customer_id, d.product, ''))`},

	{ID: "I-13", Promise: "every final block was read, each one on top of the one before", breachSQL: `
		SELECT NULL::text, format('%s block %s', p.chain, p.height),
			format('stands on %s, and the proof before it is of block %s, %s', p.parent, p.before, p.below)
		FROM (SELECT chain, height, parent, lag(height) OVER w AS before, lag(hash) OVER w AS below, row_number() OVER w AS nth
			FROM finality_live WINDOW w AS (PARTITION BY chain ORDER BY height)) p
		WHERE p.nth > 1 AND (p.below IS DISTINCT FROM p.parent OR p.chain <> 'SOLANA' AND p.before <> p.height - 1)
		UNION ALL
		SELECT NULL, format('%s cursor', c.chain), format('stands on block %s %s, proven is %s', c.height, c.hash, p.hash)
		FROM scan_cursors c JOIN finality_live p ON p.chain = c.chain AND p.height = c.height
		WHERE p.hash <> c.hash
		UNION ALL
		SELECT NULL, format('%s block %s', p.chain, max(p.height)), 'is proven and the chain has no cursor'
		FROM finality_proofs p WHERE NOT EXISTS (SELECT FROM scan_cursors c WHERE c.chain = p.chain) GROUP BY p.chain`},

	{
		ID: "I-16-slot", Promise: "every order has one slot from the moment it may be signed, and no payment has two",
		breachSQL: `
		SELECT o.org_id, 'order ' || o.order_id,
			CASE WHEN s.order_id IS NULL AND o.status NOT IN ` + statusesWithoutSlot + ` THEN format('is %s without a slot', o.status)
				WHEN s.order_id IS NOT NULL AND o.status IN ` + statusesWithoutSlot + ` THEN format('is %s with slot %s', o.status, s.nonce)
				ELSE format('has slot %s of wallet %s on %s, which is not its wallet or not counted', s.nonce, s.wallet_id, s.chain) END
		FROM dispatch_orders o LEFT JOIN dispatch_slots s ON s.order_id = coalesce(o.tx_lead_id, o.order_id)
		LEFT JOIN dispatch_accounts a ON a.wallet_id = s.wallet_id AND a.chain = s.chain
		WHERE (s.order_id IS NULL) <> (o.status IN ` + statusesWithoutSlot + `)
			OR s.order_id IS NOT NULL AND ((s.wallet_id, s.chain, s.org_id) IS DISTINCT FROM (o.wallet_id, o.chain, o.org_id)
				OR a.next_nonce IS NULL OR s.nonce >= a.next_nonce)
		UNION ALL
		SELECT min(org_id), format('slot %s of wallet %s on %s', nonce, wallet_id, chain), count(*) || ' orders'
		FROM dispatch_slots GROUP BY wallet_id, chain, nonce HAVING count(*) > 1
		UNION ALL
		SELECT min(org_id), 'order ' || order_id, count(*) || ' slots'
		FROM dispatch_slots GROUP BY order_id HAVING count(*) > 1
		UNION ALL
		SELECT min(s.org_id), 'order ' || s.order_id, format('leads %s orders in a slot of %s, which are %s', count(*), min(s.orders), string_agg(DISTINCT o.status, ', '))
		FROM dispatch_slots s JOIN dispatch_orders o ON s.order_id = coalesce(o.tx_lead_id, o.order_id)
		GROUP BY s.order_id
		HAVING count(*) <> min(s.orders) OR count(DISTINCT o.status) > 1 AND NOT bool_and(o.status IN ('PAID', 'FAILED', 'STUCK'))
			OR count(DISTINCT (o.tx_hash, o.purpose)) > 1
		UNION ALL
		SELECT s.org_id, 'order ' || s.order_id, format('has a slot, and is in the transaction of %s', o.tx_lead_id)
		FROM dispatch_slots s JOIN dispatch_orders o USING (order_id) WHERE o.tx_lead_id IS NOT NULL`,
	},

	{ID: "I-16-bytes", Promise: "every broadcast transaction has its bytes stored", breachSQL: `
		SELECT o.org_id, 'order ' || o.order_id,
			CASE WHEN a.attempts IS NULL THEN format('is %s without an unsigned transaction', o.status)
				ELSE format('is %s, %s of %s attempts are stored, %s', o.status, a.stored, a.attempts, coalesce('it names ' || o.tx_hash, 'it names none')) END
		FROM dispatch_orders o
		LEFT JOIN (SELECT order_id, count(*) AS attempts, count(raw) AS stored, array_agg(tx_hash) AS hashes,
				bool_or(sent_at IS NOT NULL AND raw IS NULL) AS unstored,
				array_agg(tx_hash) FILTER (WHERE act = 'PAY') AS payments
			FROM dispatch_attempts GROUP BY order_id) a ON a.order_id = coalesce(o.tx_lead_id, o.order_id)
		WHERE o.status NOT IN ` + statusesWithoutSlot + ` AND (a.attempts IS NULL OR a.unstored
			OR o.status <> 'SLOTTED' AND a.stored = 0
			OR o.status IN ('BROADCAST', 'PAID', 'FAILED', 'STUCK') AND (o.tx_hash = ANY (a.hashes)) IS NOT TRUE
			OR o.status = 'PAID' AND (o.tx_hash = ANY (a.payments)) IS NOT TRUE)`},

	{ID: "I-16-payment", Promise: "every payment is the withdrawal that was accepted, and ended with it", breachSQL: `
		SELECT coalesce(w.org_id, o.org_id), 'withdrawal ' || coalesce(w.withdrawal_id, o.order_id),
			CASE WHEN w.withdrawal_id IS NULL THEN format('there is none, and its order is %s', o.status)
				WHEN o.order_id IS NULL THEN format('is %s and has no order', w.status)
				ELSE format('%s of mint %s to %s is %s, its order of %s of mint %s to %s is %s; %s and %s are kept for the fee, of %s and %s at most',
					w.amount, w.mint_id, w.to_address, w.status, o.amount, o.mint_id, o.to_address, o.status,
					coalesce(w.fee_deducted, 0), o.fee_deducted, coalesce(w.max_network_fee::text, 'any'), coalesce(o.fee_max::text, 'any')) END
		FROM withdrawals w
		FULL JOIN (SELECT * FROM dispatch_orders WHERE purpose = 'PAYMENT') o ON o.order_id = w.withdrawal_id
		WHERE w.withdrawal_id IS NULL
			OR o.order_id IS NULL AND w.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')
			OR o.order_id IS NOT NULL AND (w.status = 'BLOCKED' OR
				(w.org_id, w.chain, w.mint_id, w.amount - coalesce(w.fee_deducted, 0), w.to_address, w.customer_id, w.product, w.whitelisted_address_id, coalesce(w.fee_deducted, 0), w.max_network_fee)
					IS DISTINCT FROM (o.org_id, o.chain, o.mint_id, o.amount, o.to_address, o.customer_id, o.product, o.whitelisted_address_id, o.fee_deducted, o.fee_max)
				OR (w.status = 'COMPLETED') <> (o.status = 'PAID')
				OR (w.status = 'FAILED') <> (o.status = 'FAILED')
				OR w.status = 'BROADCAST' AND o.status NOT IN ('BROADCAST', 'STUCK')
				OR w.status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED') AND o.status NOT IN ('REFUSED', 'WITHDRAWN'))`},

	{
		ID:      "I-16-void",
		Promise: "every cancelled payment is void in the signer's journal before its hold ends, and stays void",
		breachSQL: `
		SELECT v.org_id, 'order ' || v.order_id, format('was taken back and is %s, its withdrawal is %s, and its void is in entry %s',
			o.status, coalesce(w.status, 'missing'), coalesce(v.journal_seq::text, 'none'))
		FROM dispatch_voids v JOIN dispatch_orders o USING (order_id) LEFT JOIN withdrawals w ON w.withdrawal_id = v.order_id
		WHERE o.status <> 'WITHDRAWN' OR v.journal_seq IS NULL AND coalesce(w.status, 'AWAITING_APPROVAL') NOT IN ('AWAITING_APPROVAL', 'PROCESSING')
			OR w.status = 'PROCESSING' AND w.end_status IS NULL
			OR v.journal_seq IS NOT NULL AND w.end_status IS NOT NULL AND w.status <> w.end_status`,
	},

	{
		ID: "I-16-sweep", Promise: "every sweep and top-up was planned, and goes to or comes from a treasury",
		breachSQL: unplannedOrders(`'SWEEP', 'GAS'`, `CASE o.purpose WHEN 'SWEEP' THEN receives ELSE pays END`),
	},

	{
		ID: "I-16-place", Promise: "every nonce account creation was planned, for a treasury",
		breachSQL: unplannedOrders(`'PLACE'`, `pays`),
	},

	{ID: "I-16-merge", Promise: "every consolidation was planned and makes no payment", breachSQL: unplannedOrders(`'MERGE'`, `pays`) + `
		UNION ALL
		SELECT o.org_id, 'order ' || o.order_id, format('consolidates outputs, and sends %s to %s', o.amount, o.to_address)
		FROM dispatch_orders o LEFT JOIN wallets w ON w.wallet_id = o.to_wallet_id
		WHERE o.purpose = 'MERGE' AND (o.amount <> 0
			OR (w.org_id, w.purpose, w.address) IS DISTINCT FROM (o.org_id, 'CHANGE', o.to_address)
			OR o.status NOT IN ('REFUSED', 'WITHDRAWN') AND EXISTS (SELECT FROM dispatch_slots s
				WHERE s.chain = o.chain AND is_utxo(s.chain) AND split_part(s.slot_key, ' ', -1) = o.to_address AND s.order_id <> o.order_id)
			OR EXISTS (SELECT FROM dispatch_slots s WHERE s.order_id = o.order_id AND split_part(s.slot_key, ' ', -1) <> o.to_address))`},

	{
		ID: "I-16-close", Promise: "every close was planned, and goes from an address to its treasury",
		breachSQL: unplannedOrders(`'CLOSE'`,
			`receives AND NOT EXISTS (SELECT FROM wallets f WHERE f.wallet_id = o.from_wallet_id AND f.purpose = 'TREASURY')`),
	},

	{
		ID: "I-16-token-account",
		Promise: "every creation of a token account was planned and pays nothing, and each is of the address that " +
			"the checkouts of its organization share",
		breachSQL: unplannedOrders(`'TOKEN_ACCOUNT'`,
			`pays AND o.amount = 0 AND EXISTS (SELECT FROM wallets s WHERE s.wallet_id = o.to_wallet_id
				AND (s.org_id, s.purpose, s.address) = (o.org_id, 'CHECKOUT_SHARED', o.to_address))`) + `
		UNION ALL
		SELECT a.org_id, format('token account of wallet %s for mint %s', a.wallet_id, a.mint_id),
			format('is of a wallet for %s of %s, and of a mint of %s', coalesce(w.purpose, 'nothing'),
				coalesce(w.org_id, 'no one'), coalesce(m.chain, 'no chain'))
		FROM token_accounts a LEFT JOIN wallets w ON w.wallet_id = a.wallet_id
		LEFT JOIN mints m ON m.mint_id = a.mint_id
		WHERE (w.org_id, w.family, w.purpose) IS DISTINCT FROM (a.org_id, 'SOLANA', 'CHECKOUT_SHARED')
			OR m.chain IS DISTINCT FROM 'SOLANA' OR m.contract = ''`,
	},

	{
		ID: "I-16-allowance",
		Promise: "every allowance of the payout contract and every revocation was planned, is of a treasury and of " +
			"that contract's address, and moves nothing",
		breachSQL: unplannedOrders(`'ALLOWANCE', 'REVOCATION'`,
			`pays AND o.amount = 0 AND o.contract <> '' AND o.to_address = '`+string(evmtx.PayoutContract)+`'`),
	},

	{ID: "I-17", Promise: "an order ended on a proven block, and its fee was posted once", breachSQL: `
		WITH posted AS (
			-- With /1, /2, … what it has cost more or less after its block was gone.
			SELECT split_part(t.cause_id, '/', 1) AS cause_id, min(t.org_id) AS org_id,
				count(*) - 2 * (count(DISTINCT t.cause_id) - 1) AS legs,
				sum(CASE WHEN (d.kind, c.kind) = ('GAS', 'CUSTODY') THEN t.amount WHEN (d.kind, c.kind) = ('CUSTODY', 'GAS') THEN -t.amount END)
					FILTER (WHERE m.contract = '') AS paid,
				sum(CASE WHEN (d.kind, c.kind) = ('FEES_DUE', 'FEES_BILLED') THEN t.amount
					WHEN (d.kind, c.kind) = ('FEES_BILLED', 'FEES_DUE') THEN -t.amount END)
					FILTER (WHERE m.contract = '') AS due,
				min(m.chain) AS chain
			FROM ledger_transfers t
			JOIN ledger_accounts d ON d.account_id = t.debit_account
			JOIN ledger_accounts c ON c.account_id = t.credit_account
			JOIN mints m ON m.mint_id = t.mint_id
			WHERE t.cause_kind IN ('NETWORK_FEE', 'FEE_CHANGE') GROUP BY 1),
		ended AS (SELECT * FROM dispatch_orders WHERE status IN ('PAID', 'FAILED'))
		SELECT coalesce(o.org_id, p.org_id), 'order ' || coalesce(o.order_id, p.cause_id),
			CASE WHEN o.order_id IS NULL THEN 'a fee was posted and the order has not ended'
				WHEN f.proof_id IS NULL THEN format('is %s without a proof', o.status)
				ELSE format('its fee is %s, posted were %s and %s', o.fee, coalesce(p.paid, 0), coalesce(p.due, 0)) END
		FROM ended o
		FULL JOIN posted p ON p.cause_id = o.order_id
		LEFT JOIN finality_proofs f ON f.proof_id = o.proof_id AND f.chain = o.chain
		WHERE o.order_id IS NULL OR f.proof_id IS NULL
			OR o.fee <> coalesce(p.paid, 0) OR o.fee <> coalesce(p.due, 0)
			OR p.cause_id IS NOT NULL AND (p.legs, p.org_id, p.chain) IS DISTINCT FROM (2::bigint, o.org_id, o.chain)`},

	{
		ID: "I-17-question", Promise: "an order that ended on a replaced block is listed until a block proves it again",
		openSQL: `
		SELECT o.org_id, 'order ' || o.order_id, format('is %s on a block that is gone and waits for %s: %s', o.status, coalesce(o.waiting_for, 'a look'), coalesce(o.last_error, ''))
		FROM dispatch_reorged q JOIN dispatch_orders o USING (order_id)`, breachSQL: `
		SELECT o.org_id, 'order ' || o.order_id, format('is %s on a block that is gone, and nothing lists it', o.status)
		FROM dispatch_orders o LEFT JOIN finality_live p ON p.proof_id = o.proof_id LEFT JOIN dispatch_reorged q ON q.order_id = o.order_id
		WHERE o.status IN ('PAID', 'FAILED') AND o.proof_id IS NOT NULL AND p.proof_id IS NULL AND q.order_id IS NULL
		UNION ALL
		SELECT q.org_id, 'order ' || q.order_id, 'is listed as in question, and its proof is alive'
		FROM dispatch_reorged q JOIN dispatch_orders o USING (order_id) JOIN finality_live p ON p.proof_id = o.proof_id`,
	},

	// The names of the events are derived from the purpose, so that an organization's own deposit
	// is never announced as a customer's.
	{
		ID: "I-36-deposit",
		Promise: "every credit to a customer or product has one event of its own kind, and no deposit has such an " +
			"event without a credit", breachSQL: `
		SELECT coalesce(d.org_id, e.org_id), 'deposit ' || coalesce(d.deposit_id, e.resource_id),
			CASE WHEN d.deposit_id IS NULL THEN format('was told of by %s and is not credited so', e.type) ELSE format('was told of by %s %s times', d.purpose, coalesce(e.times, 0)) END
		FROM (SELECT org_id, deposit_id, ` + creditEventSQL + ` AS purpose,
				-- What is flagged is told then; an organization's is told by the same type again when it is approved.
				CASE WHEN is_flagged AND purpose = 'ORGANIZATION_DEPOSIT' AND status IN ('CREDITED', 'REVERSED') THEN 2 ELSE 1 END AS times
			FROM deposits d WHERE (status IN ('CREDITED', 'REVERSED') OR is_flagged) AND purpose NOT IN ` + untoldPurposes + ` AND NOT is_hidden) d
		FULL JOIN (SELECT org_id, resource_id, type, count(*) AS times FROM events WHERE type IN ('CUSTOMER_DEPOSIT', 'ORGANIZATION_DEPOSIT') GROUP BY 1, 2, 3) e
			ON e.org_id = d.org_id AND e.resource_id = d.deposit_id AND e.type = d.purpose
		WHERE d.deposit_id IS NULL OR e.times IS DISTINCT FROM d.times
		UNION ALL
		SELECT coalesce(d.org_id, e.org_id), 'deposit ' || coalesce(d.deposit_id, e.resource_id),
			CASE WHEN d.deposit_id IS NULL THEN format('its reversal was told of by %s and it is not reversed so', e.type)
				ELSE format('its reversal was told of %s times', coalesce(e.times, 0)) END
		FROM (SELECT org_id, deposit_id, ` + creditEventSQL + ` || '_REVERSED' AS type FROM deposits d WHERE status = 'REVERSED' AND purpose NOT IN ` + untoldPurposes + ` AND NOT is_hidden) d
		FULL JOIN (SELECT org_id, resource_id, type, count(*) AS times FROM events
			WHERE type IN ('CUSTOMER_DEPOSIT_REVERSED', 'ORGANIZATION_DEPOSIT_REVERSED') GROUP BY 1, 2, 3) e
			ON e.org_id = d.org_id AND e.resource_id = d.deposit_id AND e.type = d.type
		WHERE d.deposit_id IS NULL OR e.times IS DISTINCT FROM 1`,
	},

	{
		ID:      "I-31",
		Promise: "a flagged deposit has no event before its resolution, and one event for its resolution", breachSQL: `
		SELECT coalesce(d.org_id, e.org_id), 'deposit ' || coalesce(d.deposit_id, e.resource_id),
			format('is %s; was told of by %s', coalesce(d.status, 'not resolved so'), coalesce(e.types, 'nothing'))
		FROM (SELECT org_id, deposit_id, status, CASE status WHEN 'REJECTED' THEN 'CUSTOMER_DEPOSIT_REJECTED' WHEN 'REDIRECTED' THEN 'CUSTOMER_DEPOSIT_REDIRECTED'
				ELSE 'CUSTOMER_DEPOSIT_APPROVED' END AS types
			FROM deposits WHERE is_flagged AND status IN ('CREDITED', 'REVERSED', 'REJECTED', 'REDIRECTED')
				AND purpose IN ('CUSTOMER_DEPOSIT', 'DEPOSIT_SWAP')) d
		FULL JOIN (SELECT org_id, resource_id, string_agg(type, ' ') AS types FROM events
			WHERE type IN ('CUSTOMER_DEPOSIT_APPROVED', 'CUSTOMER_DEPOSIT_REJECTED', 'CUSTOMER_DEPOSIT_REDIRECTED') GROUP BY 1, 2) e
			ON e.org_id = d.org_id AND e.resource_id = d.deposit_id
		WHERE e.types IS DISTINCT FROM d.types`,
	},

	{
		ID: "I-36-seen", Promise: "every event before finality was sent once, first, and for a customer's deposit",
		breachSQL: `
		SELECT e.org_id, 'deposit ' || e.resource_id, format('was told of as seen %s times, at place %s', e.times, e.place)
		FROM (SELECT org_id, resource_id, count(*) AS times, max(resource_seq) AS place FROM events WHERE type = 'CUSTOMER_DEPOSIT_SEEN' GROUP BY 1, 2) e
		LEFT JOIN deposits d ON d.org_id = e.org_id AND d.deposit_id = e.resource_id
			AND d.purpose IN ('CUSTOMER_DEPOSIT', 'DEPOSIT_SWAP')
		WHERE d.deposit_id IS NULL OR (e.times, e.place) <> (1, 1)`,
	},

	{
		ID: "I-36-withdrawal", Promise: "every broadcast, end and wait of a withdrawal has its event, for its owner",
		breachSQL: `
		SELECT w.org_id, 'withdrawal ' || w.withdrawal_id, format('is %s; %s was told of %s times', w.status, w.prefix || due.type, due.told)
		FROM (SELECT *, CASE WHEN product IS NULL THEN 'CUSTOMER' ELSE 'ORGANIZATION' END AS prefix FROM withdrawals) w
		LEFT JOIN (SELECT org_id, resource_id, split_part(type, '_', 1) AS prefix,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW', 'ORGANIZATION_WITHDRAW')) AS broadcast,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW_AWAITING_APPROVAL', 'ORGANIZATION_WITHDRAW_AWAITING_APPROVAL')) AS awaiting,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW_COMPLETED', 'ORGANIZATION_WITHDRAW_COMPLETED')) AS completed,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW_FAILED', 'ORGANIZATION_WITHDRAW_FAILED')) AS failed,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW_REJECTED', 'ORGANIZATION_WITHDRAW_REJECTED')) AS rejected,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW_CANCELLED', 'ORGANIZATION_WITHDRAW_CANCELLED')) AS cancelled,
				count(*) FILTER (WHERE type IN ('CUSTOMER_WITHDRAW_BLOCKED', 'ORGANIZATION_WITHDRAW_BLOCKED')) AS blocked
			FROM events GROUP BY 1, 2, 3) e ON e.org_id = w.org_id AND e.resource_id = w.withdrawal_id AND e.prefix = w.prefix
		CROSS JOIN LATERAL (VALUES
			('_WITHDRAW', coalesce(e.broadcast, 0), coalesce(e.broadcast, 0) = (w.broadcast_at IS NOT NULL)::int
				AND (w.broadcast_at IS NOT NULL OR w.status NOT IN ('BROADCAST', 'COMPLETED'))),
			('_WITHDRAW_AWAITING_APPROVAL', coalesce(e.awaiting, 0), coalesce(e.awaiting, 0) > 0 OR w.status <> 'AWAITING_APPROVAL' AND w.approved_at IS NULL),
			('_WITHDRAW_COMPLETED', coalesce(e.completed, 0), coalesce(e.completed, 0) = (w.status = 'COMPLETED')::int),
			('_WITHDRAW_FAILED', coalesce(e.failed, 0), coalesce(e.failed, 0) = (w.status = 'FAILED')::int),
			('_WITHDRAW_REJECTED', coalesce(e.rejected, 0), coalesce(e.rejected, 0) = (w.status = 'REJECTED')::int),
			('_WITHDRAW_CANCELLED', coalesce(e.cancelled, 0), coalesce(e.cancelled, 0) = (w.status = 'CANCELLED')::int),
			('_WITHDRAW_BLOCKED', coalesce(e.blocked, 0), coalesce(e.blocked, 0) = (w.status = 'BLOCKED')::int)) AS due (type, told, kept)
		WHERE NOT due.kept
		UNION ALL
		SELECT e.org_id, 'withdrawal ' || e.resource_id, format('was told of by %s, and is not such a one', e.type)
		FROM events e LEFT JOIN withdrawals w ON w.org_id = e.org_id AND w.withdrawal_id = e.resource_id
		WHERE e.type LIKE ANY (ARRAY['CUSTOMER\_WITHDRAW%', 'ORGANIZATION\_WITHDRAW%'])
			AND (w.withdrawal_id IS NULL OR (w.product IS NULL) <> starts_with(e.type, 'CUSTOMER'))`,
	},

	{
		ID: "I-45-owed", Promise: "the debts of customers and products for restored payments are those of their " +
			"withdrawals and swaps",
		breachSQL: `
		SELECT coalesce(l.org_id, w.org_id), format('%s %s in mint %s', coalesce(l.kind, w.kind), coalesce(l.subject, w.subject), coalesce(l.mint_id, w.mint_id)),
			format('the books say %s, the withdrawals and swaps %s', coalesce(l.owed, 0), coalesce(w.owed, 0))
		FROM (SELECT a.org_id, a.kind, a.subject, a.mint_id, sum(m.delta) AS owed
			FROM ledger_accounts a JOIN (
				SELECT debit_account AS account_id, amount AS delta FROM ledger_transfers WHERE cause_kind = 'RESTORE'
				UNION ALL
				SELECT credit_account, -amount FROM ledger_transfers WHERE cause_kind = 'RESTORE') m USING (account_id)
			WHERE a.kind IN ('RESTORED', 'PRODUCT_RESTORED') GROUP BY 1, 2, 3, 4) l
		FULL JOIN (SELECT org_id, CASE WHEN product IS NULL THEN 'RESTORED' ELSE 'PRODUCT_RESTORED' END AS kind,
				subject, mint_id, sum(owed) AS owed
			FROM (SELECT org_id, product, ` + withdrawalOwnerSQL + ` AS subject, mint_id, owed FROM withdrawals
				UNION ALL
				SELECT org_id, product, ` + withdrawalOwnerSQL + `, from_mint_id, owed FROM swaps) restored
			WHERE owed > 0 GROUP BY 1, 2, 3, 4) w
			ON w.org_id = l.org_id AND w.kind = l.kind AND w.subject = l.subject AND w.mint_id = l.mint_id
		WHERE coalesce(l.owed, 0) <> coalesce(w.owed, 0)`,
	},

	{ID: "I-36-order", Promise: "events are numbered without gaps, by resource and by organization", breachSQL: `
		SELECT org_id, 'resource ' || resource_id, format('%s events, numbered %s to %s', count(*), min(resource_seq), max(resource_seq))
		FROM events GROUP BY org_id, resource_id HAVING (count(*), 1) <> (max(resource_seq)::bigint, min(resource_seq))
		UNION ALL
		SELECT coalesce(e.org_id, s.org_id), 'sequence', format('%s events, numbered %s to %s, %s numbers are marked as lost in a restore, the counter is at %s',
			coalesce(e.n, 0), e.first, e.last, coalesce(g.lost, 0), s.last)
		FROM (SELECT org_id, count(*) AS n, min(sequence) AS first, max(sequence) AS last FROM events WHERE sequence IS NOT NULL GROUP BY 1) e
		FULL JOIN event_sequences s ON s.org_id = e.org_id
		LEFT JOIN (SELECT org_id, sum(resumed_at - after) AS lost, max(resumed_at) AS resumed, min(after) AS before FROM event_gaps GROUP BY 1) g
			ON g.org_id = coalesce(e.org_id, s.org_id)
		WHERE (coalesce(e.n, 0) + coalesce(g.lost, 0), greatest(e.last, g.resumed, 0)) IS DISTINCT FROM (s.last::numeric, s.last)
			OR e.first <> 1 AND coalesce(g.before, 1) <> 0
		UNION ALL
		SELECT e.org_id, 'sequence', format('event %s has number %s, which was marked as lost', e.event_id, e.sequence)
		FROM event_gaps g JOIN events e ON e.org_id = g.org_id AND e.sequence > g.after AND e.sequence <= g.resumed_at
		UNION ALL
		SELECT org_id, 'resource ' || resource_id, format('event %s has sequence %s, a later one %s', resource_seq, sequence, later)
		FROM (SELECT org_id, resource_id, resource_seq, sequence,
				lead(sequence) OVER (PARTITION BY org_id, resource_id ORDER BY resource_seq) AS later FROM events) o
		WHERE later < sequence OR later IS NOT NULL AND sequence IS NULL`},

	// Rule AUDIT-5.
	{ID: "I-40", Promise: "every change of state has its row in the audit log", breachSQL: `
		WITH due (org_id, resource_id, action) AS (
			SELECT org_id, deposit_id, 'deposit.' || CASE WHEN status = 'SCREENING' THEN 'finalized' WHEN status = 'CONFIRMING' THEN 'seen'
				WHEN status = 'CREDITED' AND is_flagged THEN 'approved' ELSE lower(status) END
			FROM deposits
			UNION ALL SELECT org_id, deposit_id, 'deposit.flagged' FROM deposits WHERE is_flagged
			UNION ALL SELECT org_id, deposit_id, 'deposit.lost' FROM deposits WHERE lost_at IS NOT NULL
			UNION ALL SELECT org_id, deposit_id, 'deposit.' || CASE WHEN status = 'DONE' THEN lower(decision)
					WHEN status = 'STUCK' OR failure = 'REVERTED' THEN 'resolution_stuck' WHEN status = 'FAILED' THEN 'resolution_failed'
					WHEN decision = 'REJECTED' THEN 'rejecting' ELSE 'redirecting' END
				FROM deposit_resolutions
			UNION ALL SELECT org_id, withdrawal_id, 'withdrawal.' || CASE status WHEN 'BLOCKED' THEN 'blocked' ELSE 'requested' END FROM withdrawals
			UNION ALL SELECT org_id, withdrawal_id, 'withdrawal.approved' FROM withdrawals WHERE approved_at IS NOT NULL
			UNION ALL SELECT org_id, withdrawal_id, 'withdrawal.broadcast' FROM withdrawals WHERE broadcast_at IS NOT NULL
			UNION ALL SELECT org_id, withdrawal_id, 'withdrawal.' || CASE status WHEN 'REJECTED' THEN 'removed' ELSE lower(status) END
			FROM withdrawals WHERE status IN ('BROADCAST', 'COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')
			UNION ALL SELECT org_id, transfer_id, 'transfer.made' FROM transfers
			UNION ALL SELECT org_id, swap_id, 'swap.requested' FROM swaps
			UNION ALL SELECT org_id, deposit_swap_id, 'deposit_swap.requested' FROM deposit_swaps
			UNION ALL SELECT org_id, deposit_swap_id, 'deposit_swap.completed' FROM deposit_swaps
				WHERE status = 'COMPLETED'
			UNION ALL SELECT org_id, product_id, 'product.created' FROM products
			UNION ALL SELECT org_id, product_id, 'product.archived' FROM products WHERE status = 'ARCHIVED'
			UNION ALL SELECT org_id, refund_id, 'refund.requested' FROM refunds
			UNION ALL SELECT org_id, invoice_id, 'invoice.issued' FROM invoices
			UNION ALL SELECT org_id, invoice_id, 'invoice.paid' FROM invoices WHERE status = 'PAID'
			UNION ALL SELECT org_id, credit_note_id, 'credit_note.issued' FROM credit_notes
			UNION ALL SELECT org_id, refund_id, 'refund.addressed' FROM refunds WHERE attempt > 1
			UNION ALL SELECT org_id, refund_id, 'refund.' || lower(status) FROM refunds
			WHERE status IN ('SENT', 'COMPLETED', 'CANCELLED', 'EXPIRED')
			UNION ALL SELECT org_id, batch_id, 'payout.created' FROM payout_batches
			UNION ALL SELECT org_id, batch_id, 'payout.submitted' FROM payout_batches WHERE submitted_at IS NOT NULL
			UNION ALL SELECT org_id, batch_id, 'payout.approved' FROM payout_batches WHERE approved_at IS NOT NULL
			UNION ALL SELECT org_id, batch_id, 'payout.' || lower(status) FROM payout_batches WHERE ended_at IS NOT NULL
			UNION ALL SELECT org_id, checkout_id, 'checkout.created' FROM checkouts
			UNION ALL SELECT org_id, link_id, 'payment_link.created' FROM payment_links
			UNION ALL SELECT org_id, link_id, 'payment_link.ended' FROM payment_links WHERE status = 'ENDED'
			UNION ALL SELECT org_id, checkout_id, 'checkout.cancelled' FROM checkouts WHERE cancelled_at IS NOT NULL
			UNION ALL SELECT org_id, checkout_id, 'checkout.option_opened' FROM checkout_options
			UNION ALL SELECT org_id, swap_id, 'swap.ending' FROM swaps WHERE end_reason IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.paid' FROM swaps WHERE paid_at IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.delayed' FROM swaps WHERE delayed_at IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.' || lower(status) FROM swaps
			WHERE status IN ('COMPLETED', 'FAILED', 'REJECTED', 'CANCELLED')
			UNION ALL SELECT org_id, swap_id, 'swap.approved' FROM swaps WHERE approved_at IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.offered' FROM swaps
				WHERE approved_at IS NOT NULL AND provider IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.delivered' FROM swaps WHERE delivered_at IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.payout_requested' FROM swaps WHERE payout_id IS NOT NULL
			UNION ALL SELECT org_id, swap_id, 'swap.stray_arrival' FROM swap_arrivals WHERE role = 'STRAY'
			UNION ALL SELECT org_id, swap_id, 'swap.arrival_decided' FROM swap_arrivals WHERE decision IS NOT NULL
			UNION ALL SELECT org_id, deposit_id, 'deposit.stray_credited' FROM swap_arrivals WHERE decision = 'CREDITED'
			UNION ALL
			SELECT NULL, provider, 'swap_provider.' || CASE state WHEN 'SUSPENDED' THEN 'suspended' ELSE 'resumed' END
			FROM swap_providers
			UNION ALL SELECT org_id, order_id, 'order.slotted' FROM dispatch_slots
			UNION ALL SELECT org_id, order_id, 'order.slotted' FROM dispatch_orders WHERE tx_lead_id IS NOT NULL
			UNION ALL SELECT org_id, order_id, 'order.ended' FROM dispatch_orders WHERE status IN ('PAID', 'FAILED')
			UNION ALL SELECT org_id, wallet_id, 'wallet.issued' FROM wallets
			UNION ALL SELECT org_id, freeze_id, 'freeze.put' FROM freezes
			UNION ALL SELECT org_id, freeze_id, 'freeze.lifted' FROM freezes WHERE lifted_at IS NOT NULL
			UNION ALL SELECT NULL, mint_id::text, 'mint.quarantined' FROM mints WHERE quarantined_at IS NOT NULL
			UNION ALL SELECT org_id, endpoint_id, 'webhook_endpoint.created' FROM webhook_endpoints
			UNION ALL SELECT org_id, endpoint_id, 'webhook_endpoint.deleted' FROM webhook_endpoints WHERE deleted_at IS NOT NULL
			UNION ALL SELECT org_id, user_id, 'person.added' FROM people
			UNION ALL SELECT org_id, change_id, 'change.requested' FROM change_requests
			UNION ALL SELECT org_id, change_id, 'change.' || lower(status) FROM change_requests WHERE status <> 'PENDING'
			UNION ALL SELECT org_id, change_id, 'member_change.requested' FROM member_changes
			UNION ALL SELECT org_id, change_id, 'member_change.' || lower(status) FROM member_changes
			WHERE status <> 'PENDING')
		SELECT d.org_id, d.resource_id, 'has no row ' || d.action
		FROM due d LEFT JOIN audit_log a ON a.resource_id = d.resource_id AND a.action = d.action AND a.org_id IS NOT DISTINCT FROM d.org_id
		WHERE a.audit_id IS NULL`},

	{
		ID: "I-40-checkouts", Promise: "every checkout has the status that the last row of the audit log gave it",
		breachSQL: `
		SELECT c.org_id, 'checkout ' || c.checkout_id, format('is %s, and the audit log says %s', c.status,
			coalesce(l.status, 'nothing'))
		FROM checkouts c
		LEFT JOIN LATERAL (
			SELECT CASE a.action WHEN 'checkout.created' THEN 'OPEN' WHEN 'checkout.cancelled' THEN 'CANCELLED'
				ELSE a.detail ->> 'to' END AS status
			FROM audit_log a
			WHERE a.resource_id = c.checkout_id AND a.org_id = c.org_id
				AND a.action IN ('checkout.created', 'checkout.cancelled', 'checkout.changed')
			ORDER BY a.audit_id DESC LIMIT 1) l ON true
		WHERE c.status IS DISTINCT FROM l.status`,
	},

	// An operator's key is created or revoked by one row of the audit log. A roll has one row that
	// names both keys.
	{ID: "I-40-keys", Promise: "every key that was made or ended has its row in the audit log", breachSQL: `
		SELECT NULL::text, 'operator key ' || k.key_id, 'was made and the audit log does not say so'
		FROM operator_keys k
		WHERE NOT EXISTS (SELECT FROM audit_log a WHERE a.resource_id = k.key_id AND a.action IN ('operator_key.created', 'operator_key.rolled'))
		UNION ALL
		SELECT NULL, 'operator key ' || k.key_id, 'was ended and the audit log does not say so'
		FROM operator_keys k
		WHERE k.revoked_at IS NOT NULL
			AND NOT EXISTS (SELECT FROM audit_log a WHERE a.resource_id = k.key_id AND a.action = 'operator_key.revoked')
			AND NOT EXISTS (SELECT FROM operator_keys n JOIN audit_log a ON a.resource_id = n.key_id AND a.action = 'operator_key.rolled'
				WHERE n.name = k.name AND a.detail ->> 'replaced' = k.key_id)
		UNION ALL
		SELECT k.org_id, 'API key ' || k.key_id, 'is not as the audit log says that it was made'
		FROM additional_api_keys k
		WHERE NOT EXISTS (SELECT FROM audit_log a WHERE a.resource_id = k.key_id AND a.org_id = k.org_id AND a.action = 'api_key.created'
			AND (a.detail ->> 'name', a.detail ->> 'scope') = (k.name, k.scope) AND (a.detail ->> 'expiresAt')::timestamptz IS NOT DISTINCT FROM k.expires_at)
		UNION ALL
		SELECT k.org_id, 'API key ' || k.key_id, format('was rolled %s times, the audit log has %s', k.rolls, a.n)
		FROM additional_api_keys k
		CROSS JOIN LATERAL (SELECT count(*) AS n FROM audit_log a WHERE a.resource_id = k.key_id AND a.org_id = k.org_id AND a.action = 'api_key.rolled') a
		WHERE k.rolls <> a.n
		UNION ALL
		SELECT k.org_id, 'API key ' || k.key_id, CASE WHEN k.deleted_at IS NULL THEN 'was ended by the audit log, and works' ELSE 'was ended, and the audit log does not say so' END
		FROM additional_api_keys k
		WHERE (k.deleted_at IS NOT NULL) <> EXISTS (
			SELECT FROM audit_log a WHERE a.resource_id = k.key_id AND a.org_id = k.org_id AND a.action IN ('api_key.deleted', 'api_key.revoked'))
		UNION ALL
		SELECT k.org_id, 'API keys', format('%s were rolled, the audit log has %s', k.n, coalesce(a.n, 0))
		FROM (SELECT org_id, count(*) AS n FROM api_keys WHERE rolled_at IS NOT NULL GROUP BY org_id) k
		LEFT JOIN LATERAL (SELECT count(*) AS n FROM audit_log a WHERE a.resource_id = k.org_id AND a.org_id = k.org_id AND a.action IN ('api_key.rolled', 'api_key.revoked')) a ON true
		WHERE k.n > coalesce(a.n, 0)`},

	{
		ID:      "I-40-whitelist",
		Promise: "every whitelisted address is in the audit log as it was added, and so is its removal", breachSQL: `
		SELECT w.org_id, 'whitelisted address ' || w.whitelisted_address_id, 'was added, and the audit log does not say so'
		FROM whitelisted_addresses w
		WHERE NOT EXISTS (SELECT FROM audit_log a WHERE a.resource_id = w.whitelisted_address_id AND a.org_id = w.org_id AND a.action = 'whitelist.added'
			AND (a.detail ->> 'chain', a.detail ->> 'address', a.detail ->> 'label') = (w.chain, w.address, w.label))
		UNION ALL
		SELECT w.org_id, 'whitelisted address ' || w.whitelisted_address_id, CASE WHEN w.removed_at IS NULL THEN 'was removed by the audit log, and is on the list' ELSE 'was removed, and the audit log does not say so' END
		FROM whitelisted_addresses w
		WHERE (w.removed_at IS NOT NULL) <> EXISTS (SELECT FROM audit_log a WHERE a.resource_id = w.whitelisted_address_id AND a.org_id = w.org_id AND a.action = 'whitelist.removed')`,
	},

	{ID: "I-40-settings", Promise: "every setting is as the audit log says that an actor set it", breachSQL: `
		SELECT s.org_id, 'setting ' || n.name, format('is %s, and the audit log says %s', n.is_now, coalesce(l.value::text, 'that nobody set it'))
		FROM organization_settings s
		CROSS JOIN LATERAL (VALUES
			('screeningSeverityThreshold', to_jsonb(s.screening_severity_threshold), 'null'::jsonb),
			('screeningUsdThreshold', to_jsonb(s.screening_usd_threshold), 'null'),
			('customerWithdrawUsdThreshold', to_jsonb(s.customer_withdraw_usd_threshold), 'null'),
			('twoFactorUsdThreshold', to_jsonb(s.two_factor_usd_threshold), 'null'),
			('withdrawSeverityThreshold', to_jsonb(s.withdraw_severity_threshold), 'null'),
			('approvalAllowlist', s.approval_allowlist, '[]'),
			('approvalQuorum', to_jsonb(s.approval_quorum), '1'),
			('ipAllowlist', to_jsonb(s.ip_allowlist), '[]'),
			('customerSwapsEnabled', to_jsonb(s.customer_swaps_enabled), 'false'),
			('organizationSwapsEnabled', to_jsonb(s.organization_swaps_enabled), 'false'),
			('swappableMintIds', to_jsonb(s.swappable_mint_ids), '[]'),
			('swapFeeBps', to_jsonb(s.swap_fee_bps), '0'),
			('flaggedDepositApiEnabled', to_jsonb(s.flagged_deposit_api_enabled), 'false'),
			('autoRestoreFailedSwaps', to_jsonb(s.auto_restore_failed_swaps), 'false'),
			('requireWithdrawIdempotency', to_jsonb(s.require_withdraw_idempotency), 'false'),
			('customerFeeDayUsd', to_jsonb(s.customer_fee_day_usd), '"50"'),
			('chargeCustomerCosts', to_jsonb(s.charge_customer_costs), '"NONE"'),
			('additionalApiKeys', to_jsonb(s.additional_api_keys), 'false'),
			('batchAutoApproveUsd', to_jsonb(s.batch_auto_approve_usd), 'null')
		) AS n (name, is_now, unset)
		LEFT JOIN LATERAL (
			SELECT a.detail -> 'to' AS value FROM audit_log a
			WHERE a.resource_id = s.org_id AND a.org_id = s.org_id AND a.action = 'settings.changed' AND a.detail ->> 'setting' = n.name
			ORDER BY a.audit_id DESC LIMIT 1) l ON true
		CROSS JOIN LATERAL (SELECT coalesce(l.value, n.unset) AS should, coalesce(n.is_now, 'null'::jsonb) AS is_now) w
		WHERE CASE
			WHEN n.name LIKE '%Usd%' AND jsonb_typeof(w.should) = 'string' AND jsonb_typeof(w.is_now) = 'number'
				THEN (w.should #>> '{}')::numeric <> (w.is_now #>> '{}')::numeric
			WHEN n.name = 'ipAllowlist' AND jsonb_typeof(w.should) = 'array'
				THEN ARRAY(SELECT x::cidr FROM jsonb_array_elements_text(w.should) x) <> s.ip_allowlist
			ELSE w.should <> w.is_now END`},

	{
		ID: "I-40-chain", Promise: "the audit log is the chain that was sealed, and the signer's anchors agree with it",
		inspect: checkAuditChain, openSQL: `
		SELECT a.org_id, 'row ' || a.audit_id, format('of the audit log was written at %s and has no place in the chain yet', a.at)
		FROM audit_log a
		WHERE a.at < now() - interval '1 minute' AND ` + audit.Unsealed("(SELECT sealed_through FROM audit_chain)") + `
		ORDER BY a.audit_id LIMIT 1000`,
	},

	{ID: "I-40-decided", Promise: "every withdrawal has the state that the last decision gave it", breachSQL: `
		SELECT w.org_id, 'withdrawal ' || w.withdrawal_id, format('is %s, and the last decision about it made it %s', w.status, coalesce(d.status, 'nothing'))
		FROM withdrawals w
		LEFT JOIN LATERAL (SELECT status FROM withdrawal_decisions d WHERE d.withdrawal_id = w.withdrawal_id ORDER BY decision_id DESC LIMIT 1) d ON true
		-- A row from before there was this record has its decision in itself.
		WHERE CASE WHEN d.status IS NULL THEN w.decision IS NULL
			ELSE d.status <> CASE WHEN w.status IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED') THEN w.status ELSE 'PROCESSING' END END`},

	{
		ID:      "I-40-approved",
		Promise: "every approved withdrawal had as many approvals as it needed, and none of its requester", breachSQL: `
		SELECT w.org_id, 'withdrawal ' || w.withdrawal_id, format('was let go by %s of %s people', a.people, greatest(w.approvals_required, 1))
		FROM withdrawals w
		CROSS JOIN LATERAL (SELECT count(DISTINCT (a.approver_kind, a.approver_id)) FILTER (WHERE a.approver_kind IN ('USER', 'OPERATOR') AND NOT EXISTS (
				SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = w.withdrawal_id AND d.act = 'REQUESTED'
					AND (d.actor_kind, d.actor_id) = (a.approver_kind, a.approver_id))) AS people
			FROM withdrawal_approvals a WHERE a.withdrawal_id = w.withdrawal_id AND a.org_id = w.org_id AND a.round = w.approval_round) a
		WHERE w.requires_approval AND w.status NOT IN ('AWAITING_APPROVAL', 'REJECTED', 'CANCELLED', 'BLOCKED')
			-- Held before approvals had rows.
			AND (w.request_mac IS NOT NULL OR w.approvals_required > 0 OR w.approval_round > 0)
			-- Restored from the journal, where it was signed: who let it go is not remembered.
			AND NOT EXISTS (SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = w.withdrawal_id AND d.act = 'APPROVED'
				AND (d.actor_kind, d.actor_id) = ('SYSTEM', 'restore'))
			AND a.people < greatest(w.approvals_required, 1)
		UNION ALL
		SELECT a.org_id, 'withdrawal ' || a.withdrawal_id, format('was approved by %s %s, who asked for it', a.approver_kind, a.approver_id)
		FROM withdrawal_approvals a JOIN withdrawal_decisions d ON d.withdrawal_id = a.withdrawal_id AND d.act = 'REQUESTED'
			AND (d.actor_kind, d.actor_id) = (a.approver_kind, a.approver_id)`,
	},

	{ID: "I-41", Promise: "every table with an organization's rows has row level security", breachSQL: `
		SELECT NULL::text, 'table ' || c.relname, 'has no row level security, or not for its owner'
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'org_id' AND NOT a.attisdropped
		WHERE c.relkind IN ('r', 'p') AND c.relnamespace = 'public'::regnamespace AND NOT (c.relrowsecurity AND c.relforcerowsecurity)
		UNION ALL
		SELECT NULL, 'role ' || rolname, 'may log in, or sees past row level security'
		FROM pg_roles WHERE rolname IN ('coffer_app', 'coffer_system', 'coffer_reader') AND (rolsuper OR rolbypassrls OR rolcanlogin)`},

	{ID: "I-41-policies", Promise: "row level security is as the migrations made it", guardKind: kindPolicy},

	{
		ID: "I-45-journal", Promise: "the mirror of the signer's journal is complete up to the last imported entry",
		inspect: checkJournal,
	},

	{
		ID:      "I-45-whitelist",
		Promise: "every whitelist entry is what the signer endorsed, and is on the list until it was revoked",
		inspect: checkWhitelist,
	},
}

// unplannedOrders selects the internal orders of some purposes that do not agree with their causes
// in internal_orders, or whose treasury does not do what sound says. There, pays means that the
// wallet with the slot is a treasury of the organization, and receives that the payee is.
func unplannedOrders(purposes, sound string) string {
	return `
		SELECT coalesce(o.org_id, i.org_id), 'order ' || coalesce(o.order_id, i.order_id),
			CASE WHEN i.order_id IS NULL THEN format('is a %s that was not planned', o.purpose)
				WHEN o.order_id IS NULL THEN format('was planned as a %s and does not exist', i.purpose)
				ELSE format('was planned as a %s by %s, and is a %s by %s of %s to %s', i.purpose, i.trigger, o.purpose, o.trigger,
					coalesce(o.from_wallet_id, o.wallet_id), o.to_address) END
		FROM (SELECT * FROM internal_orders WHERE purpose IN (` + purposes + `)) i
		FULL JOIN (SELECT * FROM dispatch_orders WHERE purpose IN (` + purposes + `)) o ON o.order_id = i.order_id
		CROSS JOIN LATERAL (SELECT
			EXISTS (SELECT FROM wallets w WHERE w.wallet_id = o.wallet_id AND (w.org_id, w.purpose) = (o.org_id, 'TREASURY')) AS pays,
			EXISTS (SELECT FROM wallets w WHERE w.wallet_id = o.to_wallet_id
				AND (w.org_id, w.purpose, w.address) = (o.org_id, 'TREASURY', o.to_address)) AS receives) t
		WHERE i.order_id IS NULL OR o.order_id IS NULL
			OR (i.org_id, i.purpose, i.trigger) IS DISTINCT FROM (o.org_id, o.purpose, o.trigger)
			OR (` + sound + `) IS NOT TRUE`
}
