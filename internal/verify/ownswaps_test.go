package verify

import (
	"bytes"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// payoutUntil is until when the approvals of the swaps of testEnv cover a payout.
var payoutUntil = time.Date(2026, 11, 3, 12, 0, 0, 0, time.UTC)

// newTestGrantKey returns the key of the MACs of testEnv.
func newTestGrantKey(t testing.TB) *signer.GrantKey {
	t.Helper()
	k, err := signer.NewGrantKey(bytes.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ownSwap is a swap of the organization's own money in testEnv.
type ownSwap struct {
	id, status, product      string
	from, to                 int
	amount, required         int
	approvers                []string
	isOffered, isWithoutHold bool
}

func (h *testEnv) ownPayout(s ownSwap) signer.SwapPayout {
	return signer.SwapPayout{
		OrgID: h.org, SwapID: s.id, Product: s.product, FromMintID: s.from, ToMintID: s.to,
		AmountIn: money.Units(uint64(s.amount)), MinOut: money.Units(20), MaxOut: money.Units(33),
		WhitelistedID: "wla_cools", To: "0xExchange", NotAfter: signer.FormatMicros(payoutUntil),
	}
}

// ownSwaps adds a swap of the organization's own coin that two people approved and whose output was paid out, one
// that waits for its second approval, and one that was cancelled.
func (h *testEnv) ownSwaps(
	ordered func(id, purpose, wallet string, to *string, mintID, amount int, status string, fee, gasReserved int),
) {
	h.t.Helper()
	u := func(n int) money.Amount { return money.Units(uint64(n)) }
	k := newTestGrantKey(h.t)
	for _, s := range []ownSwap{
		{
			id: "os_done", status: "COMPLETED", product: "CUSTODIAL", from: 2, to: 1, amount: 2, required: 2,
			approvers: []string{"usr_a", "usr_b"}, isOffered: true,
		},
		{
			id: "os_wait", status: "AWAITING_APPROVAL", product: "CHECKOUT", from: 1, to: 2, amount: 30, required: 2,
			approvers: []string{"usr_a"},
		},
		{
			id: "os_gone", status: "CANCELLED", product: "CHECKOUT", from: 1, to: 2, amount: 20, required: 1,
			isWithoutHold: true,
		},
	} {
		p := h.ownPayout(s)
		for prefix, purpose := range map[string]string{
			"we_dl_": signer.SwapDeliveryPurpose, "we_rf_": signer.SwapRefundPurpose,
		} {
			h.exec(`INSERT INTO wallets VALUES ($1, $2, 'EVM', $3, $4, $1, '0x' || $1, '', now())`, prefix+s.id,
				h.org, purpose, s.id)
			h.recordAudit("wallet.issued", prefix+s.id)
		}
		h.exec(`
			INSERT INTO swaps (swap_id, org_id, idempotency_key, key_hash, request_digest, from_mint_id, to_mint_id,
				from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
					delivery_wallet_id,
				refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status, created_at, updated_at, kind,
					product,
				whitelisted_address_id, payout_address, payout_max, payout_until, slippage_bps, approvals_required,
				request_mac, requester_kind, requester_id, approved_at, paid_at, amount_out, delivered_at,
					completed_at,
				origin_tx_hash, destination_tx_hash, payout_id, refunded, restored, restore_count, restored_at)
			SELECT $1::text, $2, $1::text, encode(sha256($1::text::bytea), 'hex'), '', $3, $4, 'ETHEREUM', 'ETHEREUM',
				$5::numeric, 30, 20, CASE WHEN $6 THEN 'ONE_CLICK' END, CASE WHEN $6 THEN $7 END, 'we_dl_' || $1,
				'we_rf_' || $1, CASE WHEN $6 THEN $8::timestamptz END,
				CASE WHEN $6 THEN $8::timestamptz + interval '1 hour' END, 0, 0, $9, now(), now(), 'ORGANIZATION',
					$10,
				'wla_cools', '0xExchange', 33, $11, 100, $12, $13, 'USER', 'usr_maker', CASE WHEN $6 THEN now() END,
				CASE WHEN $6 THEN now() END, CASE WHEN $6 THEN 25 END, CASE WHEN $6 THEN now() END,
				CASE WHEN $6 THEN now() END, CASE WHEN $6 THEN 'hash_' || $1 END, CASE WHEN $6 THEN 'tx_dep_os' END,
				CASE WHEN $6 THEN 'wd_os' END, n.back, n.back, n.count, CASE WHEN n.count = 1 THEN now() END
			FROM (SELECT CASE WHEN $14 THEN $5::numeric ELSE 0 END AS back, CASE WHEN $14 THEN 1 ELSE 0 END AS
				count) n`,
			s.id, h.org, s.from, s.to, s.amount, s.isOffered, swapDepositAddress(s.id), swapPayBy, s.status, s.product,
			payoutUntil, s.required, k.SwapRequestMAC(p, s.required), s.isWithoutHold)
		for _, person := range s.approvers {
			a := k.MakePayoutApproval(p, "USER "+person)
			h.exec(`INSERT INTO swap_approvals (org_id, swap_id, approver_kind, approver_id, at, digest, mac)
				VALUES ($1, $2, 'USER', $3, now(), $4, $5)`, h.org, s.id, person, p.ComputeDigest(), a.MAC)
		}
		h.recordAudit("swap.requested", s.id)
		free, held := h.account(s.from, ledger.Product, s.product), h.account(s.from, ledger.ProductInSwap, s.product)
		h.post(ledger.SwapHold, s.id, ledger.Leg{Debit: free, Credit: held, Amount: u(s.amount)})
		if s.isWithoutHold {
			h.post(ledger.SwapRestore, s.id+"/1", ledger.Leg{Debit: held, Credit: free, Amount: u(s.amount)})
			h.recordAudit("swap.cancelled", s.id)
		}
	}

	// The swap of coin: paid from where the coin is, delivered, and paid out by the treasury.
	terms := h.ownSwapTerms()
	h.exec(`INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote, created_at)
		VALUES ('os_done', $1, $2, $3, $4,
			now())`, h.org, terms.Scheme, swapDepositAddress("os_done"), terms.SignedQuote)
	ordered("os_done", "SWAP", "we_dep", nil, 2, 2, "PAID", 3, 9)
	h.exec(`UPDATE dispatch_orders SET customer_id = NULL, product = 'CUSTODIAL', swap = $1 WHERE order_id =
		'os_done'`,
		terms)
	provider := h.account(2, ledger.AtProvider, "ONE_CLICK")
	h.post(ledger.SwapPaid, "os_done", ledger.Leg{
		Debit: provider, Credit: h.account(2, ledger.Custody, ""), Amount: u(2),
	})
	h.exec(`
		INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, product, mint_id, chain, contract, amount,
			address,
			from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status,
			created_at, credited_at, swap_id, arrival_role, completes_swap, is_hidden)
		SELECT 'dep_os', $1, 'we_dl_os_done', 'SWAP_DELIVERY', 'CUSTODIAL', 1, 'ETHEREUM', $2, 25, '0xwe_dl_os_done',
			'0xsolver', 'tx_dep_os', 'TOKEN', '', 0, 12, 'h12', (SELECT proof_id FROM finality_live WHERE height = 12
			AND chain = 'ETHEREUM'), 'CREDITED', 'FINALIZED', now(), now(), 'os_done', 'DELIVERY', true, false`,
		h.org, tokenContract)
	h.exec(`INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at)
		VALUES ('dep_os', $1, 'os_done', 'DELIVERY', '', now())`, h.org)
	h.exec(`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, reserved, swept, gas, gas_reserved, dust)
		VALUES ('we_dl_os_done', 1, $1, 25, 0, 0, 0, 0, 0)`, h.org)
	h.recordAudit("deposit.credited", "dep_os")
	h.post(ledger.Deposit, "dep_os", ledger.Leg{
		Debit: h.account(1, ledger.Custody, ""), Credit: h.account(1, ledger.Product, "CUSTODIAL"), Amount: u(25),
	})
	h.post(ledger.SwapEnd, "os_done", ledger.Leg{
		Debit: h.account(2, ledger.ProductInSwap, "CUSTODIAL"), Credit: provider, Amount: u(2),
	})
	h.insertEvent("ORGANIZATION_DEPOSIT", "dep_os", 1, 0)
	h.exec(`
		INSERT INTO withdrawals (withdrawal_id, org_id, product, whitelisted_address_id, mint_id, chain, amount,
			to_address, idempotency_key, request_digest, status, requires_approval, approval_reasons, tx_hash,
			created_at, broadcast_at, fee_mode, approvals_required, request_mac)
		VALUES ('wd_os', $1, 'CUSTODIAL', 'wla_cools', 1, 'ETHEREUM', 25, '0xExchange', 'swap os_done', '',
			'COMPLETED',
			false, '{}', 'hash_wd_os', now(), now(), 'ORGANIZATION', 0,
			'mac')`, h.org)
	for _, act := range []string{"requested", "broadcast", "completed"} {
		h.recordAudit("withdrawal."+act, "wd_os")
	}
	h.exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind,
		actor_id)
		VALUES ($1, 'wd_os', now(), 'REQUESTED', 'PROCESSING', '{}', '[]', 'SYSTEM', 'swap')`, h.org)
	for i, e := range []string{"", "_COMPLETED"} {
		h.insertEvent("ORGANIZATION_WITHDRAW"+e, "wd_os", i+1, 0)
	}
	withdrawing := h.account(1, ledger.ProductWithdrawing, "CUSTODIAL")
	h.post(ledger.WithdrawalHold, "wd_os", ledger.Leg{
		Debit: h.account(1, ledger.Product, "CUSTODIAL"), Credit: withdrawing, Amount: u(25),
	})
	h.post(ledger.WithdrawalEnd, "wd_os", ledger.Leg{
		Debit: withdrawing, Credit: h.account(1, ledger.Custody, ""), Amount: u(25),
	})
	ordered("wd_os", "PAYMENT", "we_tre", nil, 1, 25, "PAID", 3, 9)
	h.exec(`UPDATE dispatch_orders SET customer_id = NULL, product = 'CUSTODIAL', whitelisted_address_id =
		'wla_cools',
		to_address = '0xExchange' WHERE order_id = 'wd_os'`)
	for _, act := range []string{"approved", "offered", "paid", "delivered", "payout_requested", "completed"} {
		h.recordAudit("swap."+act, "os_done")
	}
	h.insertEvent("ORGANIZATION_SWAP_COMPLETED", "os_done", 1, 0)
}

// ownSwapTerms returns the terms of the payment of os_done.
func (h *testEnv) ownSwapTerms() signer.SwapTerms {
	h.t.Helper()
	delivery, refund := signertest.SwapWallets(h.org, "os_done", chain.EVM, chain.EVM)
	quote := quotetest.OneClick{
		DepositAddress: swapDepositAddress("os_done"), OriginAsset: "coin", DestinationAsset: "token",
		AmountIn: money.Units(2), AmountOut: money.Units(30), MinAmountOut: money.Units(20),
		Recipient: "0xwe_dl_os_done", RefundTo: "0xwe_rf_os_done", SlippageBps: 1000,
		SignedAt: swapPayBy.Add(-time.Hour), Deadline: swapPayBy.Add(time.Hour),
	}
	return signer.SwapTerms{
		Provider: signertest.SwapProvider, Scheme: signedquote.OneClickV0,
		SignedQuote: quote.Sign(h.t, signertest.SwapProviderKey), Delivery: delivery, Refund: refund, ToMintID: 1,
		ToChain: chain.Ethereum, ToContract: tokenContract, EstimatedOut: money.Units(30), MinOut: money.Units(20),
		PayBy: signer.FormatMicros(swapPayBy),
	}
}

// listOwnIntents returns the payments of os_done as the signer admitted them: to the provider, and of its output.
func (h *testEnv) listOwnIntents() []signer.Intent {
	terms := h.ownSwapTerms()
	payout := h.ownPayout(ownSwap{id: "os_done", product: "CUSTODIAL", from: 2, to: 1, amount: 2})
	grant := (&signer.Grant{Required: 2, Payout: &payout}).Recorded()
	from := signertest.Treasury(h.org)
	return []signer.Intent{
		{
			ID: "os_done", Purpose: signer.SwapPayment, Chain: chain.Ethereum, From: from, Product: "CUSTODIAL",
			MintID: 2,
			To:     chain.Address(swapDepositAddress("os_done")), Amount: money.Units(2), Swap: &terms, Grant: grant,
		},
		{
			ID: "wd_os", Purpose: signer.Payment, Chain: chain.Ethereum, From: from, Product: "CUSTODIAL", MintID: 1,
			Contract: tokenContract, To: "0xExchange", Amount: money.Units(25), WhitelistedID: "wla_cools",
			Grant: grant,
		},
	}
}

// depositSwapTerms returns what binds ds_done to its request.
func (h *testEnv) depositSwapTerms() signer.DepositSwapTerms {
	h.t.Helper()
	return signer.DepositSwapTerms{
		OrgID: h.org, DepositSwapID: "ds_done", CustomerID: "ann", OriginChain: "BITCOIN", OriginAsset: "btc",
		DestinationAsset: "token", OriginDecimals: 8, ToMintID: 1, WalletID: "we_ds_done",
		WalletAddress: "0xwe_ds_done", RefundAddress: "bc1qpayer", Provider: signertest.SwapProvider,
		DepositAddress: "bc1qprovider", SignedQuote: h.depositSwapQuote("0xwe_ds_done", "bc1qpayer"),
	}
}

func (h *testEnv) depositSwapQuote(recipient, refundTo string) []byte {
	h.t.Helper()
	return quotetest.OneClick{
		DepositAddress: "bc1qprovider", OriginAsset: "btc", DestinationAsset: "token", AmountIn: money.Units(9),
		AmountOut: money.Units(12), MinAmountOut: money.Units(11), Recipient: recipient, RefundTo: refundTo,
		SlippageBps: 100, IsFlexible: true, SignedAt: swapPayBy.Add(-time.Hour), Deadline: swapPayBy,
	}.Sign(h.t, signertest.SwapProviderKey)
}

// products adds a product that is for sale and an archived one.
func (h *testEnv) products() {
	h.t.Helper()
	for _, id := range []string{"prod_gold", "prod_old"} {
		h.exec(`
			INSERT INTO products (product_id, org_id, version, status, name, price_type, currency, price,
				accepted_mint_ids, max_quantity, under_bps, over_policy, late_policy, one_per_reference, metadata,
				request_digest, created_at, updated_at)
			VALUES ($1, $2, 1, 'ACTIVE', 'Gold', 'FIXED', 'USD', 49.99, '{1}', 1, 50, 'CREDIT', 'HOLD', false, '{}', '',
				now(), now())`, id, h.org)
		h.recordAudit("product.created", id)
	}
	h.exec(`UPDATE products SET version = version + 1, status = 'ARCHIVED', archived_at = now()
		WHERE product_id = 'prod_old'`)
	h.recordAudit("product.archived", "prod_old")
}

// depositSwaps adds a deposit swap whose output was credited, and an arrival for one whose row is missing.
func (h *testEnv) depositSwaps() {
	h.t.Helper()
	for _, id := range []string{"ds_done", "ds_lost"} {
		h.exec(`INSERT INTO wallets VALUES ('we_' || $1, $2, 'EVM', 'DEPOSIT_SWAP', $1, 'we_' || $1, '0xwe_' || $1,
			'',
			now())`, id, h.org)
		h.recordAudit("wallet.issued", "we_"+id)
	}
	terms := h.depositSwapTerms()
	h.exec(`
		INSERT INTO deposit_swaps (deposit_swap_id, org_id, customer_id, request_digest, origin_chain,
			origin_contract,
			origin_symbol, origin_decimals, to_mint_id, to_chain, estimated_out, min_out, refund_address, wallet_id,
			provider, scheme, deposit_address, signed_quote, origin_asset, destination_asset, expires_at, mac, status,
			amount_out, destination_tx_hash, created_at, updated_at, completed_at)
		VALUES ('ds_done', $1, 'ann', '', 'BITCOIN', '', 'BTC', 8, 1, 'ETHEREUM', 12, 11, $2, 'we_ds_done', $3, $4,
			$5, $6,
			'btc', 'token', $7, $8, 'COMPLETED', 12, 'tx_dep_ds', now(), now(), now())`,
		h.org, terms.RefundAddress, terms.Provider, signedquote.OneClickV0, terms.DepositAddress, terms.SignedQuote,
		swapPayBy, newTestGrantKey(h.t).DepositSwapMAC(terms))
	h.recordAudit("deposit_swap.requested", "ds_done")
	h.recordAudit("deposit_swap.completed", "ds_done")
	ann := "ann"
	for _, d := range []struct {
		id, swap string
		customer *string
		status   string
	}{{"dep_ds", "ds_done", &ann, "CREDITED"}, {"dep_lost", "ds_lost", nil, "SCREENING"}} {
		h.exec(`
			INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract,
				amount,
				address, from_address, tx_hash, kind, position, log_index, height, block_hash, proof_id, status,
				chain_status, created_at, credited_at, deposit_swap_id, is_hidden)
			SELECT $1, $2, 'we_' || $3, 'DEPOSIT_SWAP', $4, 1, 'ETHEREUM', $5, 12, '0xwe_' || $3, '0xsolver', 'tx_'
				|| $1,
				'TOKEN', '', 0, 12, 'h12', (SELECT proof_id FROM finality_live WHERE height = 12 AND chain =
					'ETHEREUM'),
				$6, 'FINALIZED', now(), CASE $6 WHEN 'CREDITED' THEN now() END, $3, $4::text IS NULL`,
			d.id, h.org, d.swap, d.customer, tokenContract, d.status)
	}
	h.recordAudit("deposit.credited", "dep_ds")
	h.recordAudit("deposit.finalized", "dep_lost")
	h.post(ledger.Deposit, "dep_ds", ledger.Leg{
		Debit: h.account(1, ledger.Custody, ""), Credit: h.account(1, ledger.Customer, "ann"), Amount: money.Units(12),
	})
	h.exec(`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, reserved, swept, gas, gas_reserved, dust)
		VALUES ('we_ds_done', 1, $1, 12, 0, 0, 0, 0, 0)`, h.org)
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_ds", 1, 0)
}

// ownSwapTamperings are the tamperings of swaps of organizations and of deposit swaps, see tamperings.
var ownSwapTamperings = []tampering{
	{"I-61", "a hold of a product that no swap has", []string{`UPDATE swaps SET amount_in = amount_in - 1
		WHERE swap_id = 'os_wait'`}},
	{"I-61", "a hold that a cancelled swap kept", []string{`UPDATE swaps SET restored = 0, refunded = 0,
		restore_count = 0
		WHERE swap_id = 'os_gone'`}},
	{"I-61", "a hold of another product", []string{`UPDATE ledger_accounts SET subject = 'BATCH_PAYOUT'
		WHERE kind = 'PRODUCT_IN_SWAP'`}},
	{"I-62", "an end of a swap of a customer's", []string{`UPDATE ledger_transfers SET cause_id = 'cs_wait'
		WHERE cause_kind = 'SWAP_END' AND cause_id = 'os_done'`}},
	{"I-63", "a payment of an output that no one was told of", []string{`DELETE FROM events
		WHERE type = 'ORGANIZATION_SWAP_COMPLETED'`}},
	{"I-63", "a customer's event of an organization's swap", []string{`UPDATE events SET type = 'CUSTOMER_SWAP_FAILED'
		WHERE type = 'ORGANIZATION_SWAP_COMPLETED'`}},
	{"I-66", "a delivery for another product", []string{`UPDATE deposits SET product = 'CHECKOUT'
		WHERE deposit_id = 'dep_os'`}},
	{"I-66", "a delivery for a customer", []string{`UPDATE deposits SET product = NULL, customer_id = 'ann'
		WHERE deposit_id = 'dep_os'`}},
	{"I-70", "an order before the approval", []string{`UPDATE dispatch_orders SET order_id = 'os_wait'
		WHERE order_id = 'cs_wait'`}},
	{"I-71", "a deposit for another customer", []string{`UPDATE deposits SET customer_id = 'bob'
		WHERE deposit_id = 'dep_ds'`}},
	{"I-71", "a deposit swap of another customer", []string{`UPDATE deposit_swaps SET customer_id = 'bob'`}},
	{"I-71", "a deposit of no customer", []string{
		`ALTER TABLE deposits DROP CONSTRAINT deposits_subject`, `ALTER TABLE deposits DROP CONSTRAINT
			deposits_arrival`, `UPDATE deposits SET customer_id = NULL
			WHERE deposit_id = 'dep_ds'`,
	}},
	{"I-71", "a row that is gone", []string{`DELETE FROM deposit_swaps`}},
	{"I-71", "a wallet of a customer", []string{`UPDATE deposit_swaps SET wallet_id = 'we_dep'`}},
	{"I-71", "a deposit address that is ours", []string{`UPDATE deposit_swaps SET deposit_address = '0xwe_tre'`}},
	{"I-71", "a refund address that is ours", []string{`UPDATE deposit_swaps SET refund_address = '0xwe_tre'`}},
	{"I-71", "a deposit address of two deposit swaps", []string{
		`INSERT INTO wallets SELECT 'we_ds_two', org_id, family, purpose, 'ds_two', path, '0xwe_ds_two', proof,
			created_at
			FROM wallets WHERE wallet_id = 'we_ds_lost'`,
		`INSERT INTO deposit_swaps SELECT (jsonb_populate_record(s,
			'{"deposit_swap_id": "ds_two", "wallet_id": "we_ds_two",
			"provider": "RELAY", "status": "EXPIRED", "amount_out": null, "completed_at":
				null}')).* FROM deposit_swaps s`,
	}},
	{"I-71", "a deposit address of a swap", []string{`UPDATE swaps SET deposit_address = 'bc1qprovider',
		from_chain = 'BITCOIN' WHERE swap_id = 'cs_done'`}},
	{"I-71", "more out than arrived", []string{`UPDATE deposit_swaps SET amount_out = amount_out + 1`}},
	{"I-71", "a completion without an arrival", []string{`DELETE FROM deposits WHERE deposit_id = 'dep_ds'`}},
	{"I-12", "a deposit of another deposit swap than its wallet's", []string{`UPDATE deposits SET deposit_swap_id =
		'ds_lost' WHERE deposit_id = 'dep_ds'`}},
	{"I-72", "an open claim that is left out", []string{`UPDATE swaps SET short = amount_in - refunded
		WHERE swap_id = 'cs_fail'`}},
	{"I-72", "a claim of another swap", []string{`UPDATE ledger_transfers SET cause_id = 'cs_wait'
		WHERE cause_kind = 'SWAP_PAID' AND cause_id = 'cs_fail'`}},
	{"I-72", "a claim that no swap has", []string{`UPDATE ledger_transfers SET cause_kind = 'TRANSFER'
		WHERE cause_kind = 'SWAP_PAID' AND cause_id = 'cs_fail'`}},
	{"I-72", "an end that was not posted", []string{`DELETE FROM ledger_transfers WHERE cause_kind = 'SWAP_END'
		AND cause_id = 'os_done'`}},
	{"I-72", "a claim on another provider", []string{`UPDATE ledger_accounts SET subject = 'RELAY'
		WHERE kind = 'AT_PROVIDER' AND mint_id = 1`}},
	{"I-73", "a swap that one person too few approved", []string{`DELETE FROM swap_approvals WHERE swap_id = 'os_done'
		AND approver_id = 'usr_b'`}},
	{"I-73", "a swap let go before its last approval", []string{`UPDATE swaps SET status = 'PENDING', approved_at =
		now()
		WHERE swap_id = 'os_wait'`}},
	{"I-73", "approvals that are gone, as if a restore had imported the swap", []string{
		`DELETE FROM swap_approvals WHERE swap_id = 'os_done'`, markedAsImported,
	}},
	{"I-73", "approvals that are gone, as if a restore had adopted the offer", []string{
		`DELETE FROM swap_approvals WHERE swap_id = 'os_done'`,
		`UPDATE swaps SET adopted_at = now() WHERE swap_id = 'os_done'`,
	}},
	{"I-73", "a swap of a restore that the signer never admitted", []string{
		`DELETE FROM swap_approvals WHERE swap_id = 'os_wait'`,
		`UPDATE swaps SET status = 'PENDING', approved_at = now(), adopted_at = now() WHERE swap_id = 'os_wait'`,
		loggedAsRestored("os_wait", "swap.offered"),
	}},
	{"I-73", "a swap of a restore that the signer admitted with one approval less", []string{
		`DELETE FROM swap_approvals WHERE swap_id = 'os_done'`, markedAsImported,
		loggedAsRestored("os_done", "swap.requested"),
		journalChanged("os_done", "ADMIT", `"required":2`, `"required":1`),
	}},
	{"I-73", "an approval by the requester", []string{`UPDATE swap_approvals SET approver_id = 'usr_maker'
		WHERE swap_id = 'os_wait'`}},
	{"I-73", "an approval by a key", []string{
		`ALTER TABLE swap_approvals DROP CONSTRAINT swap_approvals_by_people`, `UPDATE swap_approvals SET
			approver_kind =
			'API_KEY' WHERE swap_id = 'os_wait'`,
	}},
	{"I-73", "another address than that of the entry", []string{`UPDATE swaps SET payout_address = '0xMallory'
		WHERE swap_id = 'os_wait'`}},
	{"I-73", "an entry of another chain", []string{`UPDATE whitelisted_addresses SET chain = 'BASE'
		WHERE whitelisted_address_id = 'wla_cools'`}},
	{"I-73", "a payout to an attacker", []string{`UPDATE withdrawals SET to_address = '0xMallory'
		WHERE withdrawal_id = 'wd_os'`}},
	{"I-73", "a payout of more than arrived", []string{`UPDATE withdrawals SET amount = amount + 1
		WHERE withdrawal_id = 'wd_os'`}},
	{"I-73", "a payout from another product", []string{`UPDATE withdrawals SET product = 'CHECKOUT'
		WHERE withdrawal_id = 'wd_os'`}},
	{"I-73", "a completed swap whose payout is not paid", []string{`UPDATE withdrawals SET status = 'BROADCAST'
		WHERE withdrawal_id = 'wd_os'`}},
	{"I-73", "a completed swap without a payout", []string{
		`ALTER TABLE swaps DROP CONSTRAINT swaps_ended`, `UPDATE swaps SET payout_id = NULL WHERE swap_id =
			'os_done'`,
	}},
	{"I-73", "a payout of two swaps", []string{
		`DROP INDEX swaps_payout_once`, `ALTER TABLE swaps DROP CONSTRAINT swaps_ended`,
		`UPDATE swaps SET payout_id = 'wd_os' WHERE swap_id = 'os_wait'`,
	}},
	{"I-73", "a second payout of a swap", []string{
		`ALTER TABLE withdrawals DROP CONSTRAINT withdrawals_idempotency_key_unique`, `ALTER TABLE withdrawals DROP
			CONSTRAINT
			withdrawals_key_hash_unique`,
		`UPDATE withdrawals SET idempotency_key = 'swap os_done' WHERE withdrawal_id = 'wd_own'`,
	}},
	{"I-73", "a cancelled swap that was paid", []string{
		`ALTER TABLE swaps DROP CONSTRAINT swaps_offered`, `UPDATE swaps SET paid_at = now() WHERE swap_id =
			'os_gone'`,
	}},
	{"I-73", "a cancelled swap that was not restored", []string{`UPDATE swaps SET restored = restored - 1
		WHERE swap_id = 'os_gone'`}},
	{"I-73", "an admitted payout above the bound", []string{`UPDATE swaps SET payout_max = 24 WHERE swap_id =
		'os_done'`}},
	{"I-73", "an admitted payout below the bound", []string{`UPDATE swaps SET min_out = 26 WHERE swap_id =
		'os_done'`}},
	{"I-73", "an admitted payout to another address", []string{journalChanged("wd_os", "ADMIT",
		`"to":"0xExchange","contract"`,
		`"to":"0xMallory","contract"`)}},
	{"I-73", "a second admitted payout", []string{journalChanged("wd_os", "ADMIT", `"id":"wd_os"`, `"id":"wd_own"`)}},
	{"I-40", "a cancelled swap that is not in the log", []string{`DELETE FROM audit_log WHERE action =
		'swap.cancelled'`}},
	{"I-40", "a payout that is not in the log", []string{`DELETE FROM audit_log
		WHERE action = 'swap.payout_requested'`}},
	{"I-40", "a deposit swap that is not in the log", []string{`DELETE FROM audit_log
		WHERE action = 'deposit_swap.requested'`}},
}

// markedAsImported gives os_done the form of a swap that a restore has imported.
const markedAsImported = `UPDATE swaps SET imported_at = now(), idempotency_key = NULL, request_digest = NULL,
	slippage_bps = NULL, requester_kind = NULL, requester_id = NULL WHERE swap_id = 'os_done'`

// loggedAsRestored is the row of the audit log that a restore writes.
func loggedAsRestored(swapID, action string) string {
	return fmt.Sprintf(`INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id)
		SELECT org_id, now(), 'SYSTEM', 'restore', '%s', 'SWAP', swap_id FROM swaps WHERE swap_id = '%s'`,
		action, swapID)
}

// A swap that a restore brought back has no approvals, and the signer admitted it with as many as it needed. Invariant
// I-73.
func TestARestoredSwapNeedsNoApprovalsThatTheSignerChecked(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	i := slices.IndexFunc(AllChecks(), func(c Check) bool { return c.ID == "I-73" })
	gone := `DELETE FROM swap_approvals WHERE swap_id = 'os_done'`
	for name, statements := range map[string][]string{
		"imported": {gone, markedAsImported, loggedAsRestored("os_done", "swap.requested")},
		"adopted": {
			gone, `UPDATE swaps SET adopted_at = now() WHERE swap_id = 'os_done'`,
			loggedAsRestored("os_done", "swap.offered"),
		},
	} {
		r, err := h.runTamperedFor(AllChecks()[i:i+1], statements...)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range r.Breaches {
			t.Errorf("%s: got %s %s", name, b.Subject, b.Detail)
		}
	}
}

// wantBound changes columns of a row one at a time and wants a breach of a check of the service's own key.
func wantBound(
	t *testing.T, h *testEnv, option Option, check, subject, table, where string, changes map[string]string,
) {
	t.Helper()
	listed := AllChecks()
	option(&listed)
	i := slices.IndexFunc(listed, func(c Check) bool { return c.ID == check })
	if i < 0 {
		t.Fatalf("there is no check %s", check)
	}
	isSeen := func(sql ...string) bool {
		t.Helper()
		r, err := h.runTamperedFor(listed[i:i+1], sql...)
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(r.Breaches, func(b Breach) bool { return b.Subject == subject })
	}
	if isSeen() {
		t.Errorf("as it was: got a breach of %s", check)
	}
	for name, set := range changes {
		if !isSeen("UPDATE " + table + " SET " + set + where) {
			t.Errorf("%s: got no breach of %s", name, check)
		}
	}
}

// Rule DSW-6. Invariant I-71.
func TestADepositSwapThatWasChangedIsSeenByWhoHasTheKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	wantBound(t, h, WithGrants(newTestGrantKey(t)), "I-71-bound", "deposit swap ds_done", "deposit_swaps", "",
		map[string]string{
			"address":  "deposit_address = 'bc1qmallory'",
			"refund":   "refund_address = 'bc1qmallory'",
			"customer": "customer_id = 'bob'",
			"wallet":   "wallet_id = 'we_ds_lost'",
			"provider": "provider = 'RELAY'",
			"quote":    "signed_quote = 'x'",
			"token":    "origin_contract = 'other'",
			"amount":   "amount_in = 9",
			"mac":      "mac = 'x'",
		})
}

// What the owner of the database writes into a row is not what the provider signed. Invariant I-71.
func TestADepositSwapThatTheProviderDidNotSignIsSeenByWhoHasItsKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := signertest.SwapProviderKey.Public().(ed25519.PublicKey)
	verify := func(provider string, scheme signedquote.Scheme, raw []byte) (signedquote.Quote, error) {
		if provider != signertest.SwapProvider || scheme != signedquote.OneClickV0 {
			return signedquote.Quote{}, errors.New("there is no such provider")
		}
		return signedquote.VerifyOneClick(raw, []ed25519.PublicKey{key})
	}
	changes := map[string]string{
		"address":     "deposit_address = 'bc1qmallory'",
		"refund":      "refund_address = 'bc1qmallory'",
		"wallet":      "wallet_id = 'we_ds_lost'",
		"provider":    "provider = 'RELAY'",
		"asset":       "origin_asset = 'other'",
		"destination": "destination_asset = 'other'",
		"estimate":    "estimated_out = 13",
		"minimum":     "min_out = 10",
		"end":         "expires_at = expires_at + interval '1 hour'",
		"no quote":    "signed_quote = 'x'",
	}
	for name, quote := range map[string][]byte{
		"a quote for another recipient": h.depositSwapQuote("0xmallory", "bc1qpayer"),
		"a quote with another refund":   h.depositSwapQuote("0xwe_ds_done", "bc1qmallory"),
	} {
		changes[name] = "signed_quote = '" + string(quote) + "'"
	}
	wantBound(t, h, WithQuotes(verify), "I-71-signed", "deposit swap ds_done", "deposit_swaps", "", changes)
}

// What people approved of an organization's swap is not changed afterwards. Invariant I-73.
func TestASwapOfAnOrganizationThatWasChangedIsSeenByWhoHasTheKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	changes := map[string]string{
		"product":   "product = 'BATCH_PAYOUT'",
		"amount":    "amount_in = amount_in + 1",
		"minimum":   "min_out = 1",
		"maximum":   "payout_max = payout_max * 10",
		"entry":     "whitelisted_address_id = 'wla_gone'",
		"address":   "payout_address = '0xMallory'",
		"time":      "payout_until = payout_until + interval '1 year'",
		"approvals": "approvals_required = 1",
		"mac":       "request_mac = 'x'",
	}
	wantBound(t, h, WithGrants(newTestGrantKey(t)), "I-73-bound", "swap os_done", "swaps",
		" WHERE swap_id = 'os_done'", changes)
	wantBound(t, h, WithGrants(newTestGrantKey(t)), "I-73-bound", "swap os_wait", "swap_approvals",
		" WHERE swap_id = 'os_wait'",
		map[string]string{
			"person": "approver_id = approver_id || '_other'",
			"digest": "digest = 'x'",
			"mac":    "mac = 'x'",
		})
}

// The report counts the claims on providers that are open. Invariant I-72.
func TestTheReportListsTheOpenClaims(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	i := slices.IndexFunc(checks, func(c Check) bool { return c.ID == "I-72" })
	r, err := h.runTamperedFor(checks[i : i+1])
	if err != nil {
		t.Fatal(err)
	}
	want := "1 open, such as swap cs_fail is FAILED: ONE_CLICK has 6 of mint 1 since " +
		time.Now().UTC().Format(time.DateOnly)
	if got := r.Outcomes[0].Note; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
