package verify

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/swap/signedquote"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// swapPayBy is when the payments of the swaps of testEnv end.
var swapPayBy = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func swapDepositAddress(swapID string) string { return "0xdeposit_" + swapID }

// swapTerms returns the terms of a swap of testEnv, with a genuine quote.
func (h *testEnv) swapTerms(swapID string, amount, estimated, minOut int) signer.SwapTerms {
	h.t.Helper()
	delivery, refund := signertest.SwapWallets(h.org, swapID, chain.EVM, chain.EVM)
	quote := quotetest.OneClick{
		DepositAddress: strings.ToUpper(swapDepositAddress(swapID)[:2]) + swapDepositAddress(swapID)[2:],
		OriginAsset:    "token", DestinationAsset: "coin", AmountIn: money.Units(uint64(amount)),
		AmountOut: money.Units(uint64(estimated)), MinAmountOut: money.Units(uint64(minOut)),
		Recipient: "0xwe_dl_" + swapID, RefundTo: "0xwe_rf_" + swapID, SlippageBps: 1000,
		SignedAt: swapPayBy.Add(-time.Hour), Deadline: swapPayBy.Add(time.Hour),
	}
	return signer.SwapTerms{
		Provider: signertest.SwapProvider, Scheme: signedquote.OneClickV0,
		SignedQuote: quote.Sign(h.t, signertest.SwapProviderKey), Delivery: delivery, Refund: refund, ToMintID: 2,
		ToChain: chain.Ethereum, EstimatedOut: money.Units(uint64(estimated)), MinOut: money.Units(uint64(minOut)),
		PayBy: signer.FormatMicros(swapPayBy),
	}
}

// swaps adds a completed swap, a failed one of which a part came back, and one that waits, with a stray
// arrival that no one has decided about and one that was credited.
func (h *testEnv) swaps(
	ordered func(id, purpose, wallet string, to *string, mintID, amount int, status string, fee, gasReserved int),
) {
	h.t.Helper()
	u := func(n int) money.Amount { return money.Units(uint64(n)) }
	for _, s := range []struct {
		id, status, order string
		amount            int
	}{{"cs_done", "COMPLETED", "PAID", 100}, {"cs_fail", "FAILED", "PAID", 60}, {"cs_wait", "PENDING", "QUEUED", 40}} {
		for prefix, purpose := range map[string]string{
			"we_dl_": signer.SwapDeliveryPurpose,
			"we_rf_": signer.SwapRefundPurpose,
		} {
			h.exec(`INSERT INTO wallets VALUES ($1, $2, 'EVM', $3, $4, $1, '0x' || $1, '', now())`, prefix+s.id,
				h.org, purpose, s.id)
			h.recordAudit("wallet.issued", prefix+s.id)
		}
		h.exec(`
			INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id,
				to_mint_id, from_chain, to_chain,
				amount_in, estimated_out, min_out, provider, deposit_address, delivery_wallet_id, refund_wallet_id,
					refund_fee, pay_by, expires_at, fee_bps,
				fee_amount, status, paid_at, amount_out, completed_at, failed_at, failure_reason, origin_tx_hash,
					destination_tx_hash,
				refunded, restored, restore_count, restored_at, short, short_count, created_at, updated_at)
			SELECT $1::text, $2, 'ann', $1::text, encode(sha256($1::text::bytea), 'hex'), '', 1, 2, 'ETHEREUM',
				'ETHEREUM', $3::numeric, 100, 90, 'ONE_CLICK', $4,
				'we_dl_' || $1, 'we_rf_' || $1, 4, $5, $5::timestamptz + interval '1 hour', 100, div($3::numeric,
					100), $6,
				CASE WHEN $7 THEN now() END, CASE WHEN $6 = 'COMPLETED' THEN 95 END,
					CASE WHEN $6 = 'COMPLETED' THEN now() END,
				CASE WHEN $6 = 'FAILED' THEN now() END, CASE WHEN $6 = 'FAILED' THEN 'PROVIDER_REFUNDED' END,
					CASE WHEN $7 THEN 'hash_' || $1 END,
				CASE WHEN $6 = 'COMPLETED' THEN 'tx_dep_dl' END, n.back, n.back, n.count,
					CASE WHEN n.count = 1 THEN now() END, n.short, n.count, now(), now()
			FROM (SELECT CASE WHEN $6 = 'FAILED' THEN 50 ELSE 0 END AS back,
				CASE WHEN $6 = 'FAILED' THEN 1 ELSE 0 END AS count,
				CASE WHEN $6 = 'FAILED' THEN 4 ELSE 0 END AS short) n`,
			s.id, h.org, s.amount, swapDepositAddress(s.id), swapPayBy, s.status, s.order == "PAID")
		terms := h.swapTerms(s.id, s.amount, 100, 90)
		h.exec(`INSERT INTO swap_offers (swap_id, org_id, scheme, deposit_address, signed_quote,
			created_at) VALUES ($1, $2, $3, $4, $5, now())`,
			s.id, h.org, terms.Scheme, swapDepositAddress(s.id), terms.SignedQuote)
		ordered(s.id, "SWAP", "we_tre", nil, 1, s.amount, s.order, 3, 9)
		h.exec(`UPDATE dispatch_orders SET swap = $2 WHERE order_id = $1`, s.id, terms)
		h.recordAudit("swap.requested", s.id)
		h.post(ledger.SwapHold, s.id, ledger.Leg{
			Debit: h.account(1, ledger.Customer, "ann"), Credit: h.account(1, ledger.InSwap, "ann"),
			Amount: u(s.amount),
		})
		if s.order == "PAID" {
			h.recordAudit("swap.paid", s.id)
			h.recordAudit("swap."+strings.ToLower(s.status), s.id)
			h.post(ledger.SwapPaid, s.id, ledger.Leg{
				Debit: h.account(1, ledger.AtProvider, "ONE_CLICK"), Credit: h.account(1, ledger.Custody, ""),
				Amount: u(s.amount),
			})
		}
	}
	for _, d := range []struct {
		id, wallet, purpose, swap, role string
		mint, amount                    int
		credit                          ledger.Account
	}{
		{"dep_dl", "we_dl_cs_done", "SWAP_DELIVERY", "cs_done", "DELIVERY", 2, 95, h.account(2, ledger.Customer,
			"ann")},
		{"dep_rf", "we_rf_cs_fail", "SWAP_REFUND", "cs_fail", "REFUND", 1, 50, h.account(1, ledger.AtProvider,
			"ONE_CLICK")},
		{"dep_stray", "we_dl_cs_done", "SWAP_DELIVERY", "cs_done", "STRAY", 1, 7, h.account(1, ledger.Suspense, "")},
		{"dep_late", "we_dl_cs_fail", "SWAP_DELIVERY", "cs_fail", "STRAY", 2, 5, h.account(2, ledger.Suspense, "")},
	} {
		h.exec(`
			INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract,
				amount, address, from_address, tx_hash, kind,
				position, log_index, height, block_hash, proof_id, status, chain_status, created_at, credited_at,
					swap_id, arrival_role, completes_swap, is_hidden)
			SELECT $1, $2, $3, $4, 'ann', mint_id, 'ETHEREUM', contract, $6, '0x' || $3, '0xsolver', 'tx_' || $1,
				CASE contract WHEN '' THEN 'NATIVE' ELSE 'TOKEN' END,
				'', 0, 12, 'h12', (SELECT proof_id FROM finality_live WHERE height = 12), 'CREDITED', 'FINALIZED',
					now(), now(), $7, $8,
				$8 = 'DELIVERY', $8 = 'REFUND' OR $1 = 'dep_stray'
			FROM mints WHERE mint_id = $5`, d.id, h.org, d.wallet, d.purpose, d.mint, d.amount, d.swap, d.role)
		h.exec(`INSERT INTO swap_arrivals (deposit_id, org_id, swap_id, role, reason, created_at) VALUES ($1, $2, $3,
			$4, CASE $4 WHEN 'STRAY' THEN 'AFTER_END' ELSE '' END, now())`,
			d.id, h.org, d.swap, d.role)
		h.exec(`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, reserved, swept, gas, gas_reserved,
			dust) VALUES ($1, $2, $3, $4, 0, 0, 0, 0, 0)`,
			d.wallet, d.mint, h.org, d.amount)
		h.recordAudit("deposit.credited", d.id)
		if d.role == "STRAY" {
			h.recordAudit("swap.stray_arrival", d.swap)
		}
		h.post(ledger.Deposit, d.id, ledger.Leg{
			Debit: h.account(d.mint, ledger.Custody, ""), Credit: d.credit,
			Amount: u(d.amount),
		})
	}
	h.exec(`UPDATE swap_arrivals SET decision = 'CREDITED', note = 'it is theirs', decided_by = 'OPERATOR op',
		decided_at = now() WHERE deposit_id = 'dep_late'`)
	h.recordAudit("swap.arrival_decided", "cs_fail")
	h.recordAudit("deposit.stray_credited", "dep_late")
	h.post(ledger.Arrival, "dep_late", ledger.Leg{
		Debit: h.account(2, ledger.Suspense, ""), Credit: h.account(2, ledger.Customer, "ann"), Amount: u(5),
	})
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_dl", 1, 0)
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_late", 1, 0)
	h.insertEvent("CUSTOMER_SWAP_FAILED", "cs_fail", 1, 0)

	inSwap, provider := h.account(1, ledger.InSwap, "ann"), h.account(1, ledger.AtProvider, "ONE_CLICK")
	h.post(ledger.SwapEnd, "cs_done", ledger.Leg{Debit: inSwap, Credit: provider, Amount: u(100)})
	h.post(ledger.SwapFee, "cs_done", ledger.Leg{
		Debit: h.account(1, ledger.SwapFeesDue, ""), Credit: h.account(1, ledger.SwapFeesBilled, ""), Amount: u(1),
	})
	h.post(ledger.SwapRestore, "cs_fail/1", ledger.Leg{
		Debit: inSwap, Credit: h.account(1, ledger.Customer, "ann"),
		Amount: u(50),
	})
	h.post(ledger.SwapShort, "cs_fail/1", ledger.Leg{Debit: inSwap, Credit: provider, Amount: u(4)})
	h.exec(`INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at) VALUES (1, 1, 'test', now(),
		now())`)
	h.exec(`
		INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id, amount, fee_bps, usd_value,
			price_mark_id, incurred_at)
		SELECT 'fee_1', $1, 'SWAP_FEE', 'SWAP', swap_id, 1, fee_amount, fee_bps, 1, (SELECT min(price_mark_id)
			FROM price_marks), completed_at
		FROM swaps WHERE swap_id = 'cs_done'`, h.org)
	h.exec(`INSERT INTO swap_reports (swap_id, number, org_id, status, word, refund, reason, tx_hashes, created_at)
		VALUES ('cs_done', 1, $1, 'SUCCESS', 'SUCCESS', 'NONE', '', '{}', now())`, h.org)
	h.exec(`INSERT INTO swap_providers VALUES ('RELAY', 'SUSPENDED', 'it lied', now(), 'SYSTEM swap')`)
	h.system(func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			Actor: audit.System("swap"), Action: "swap_provider.suspended", ResourceKind: "SWAP_PROVIDER",
			ResourceID: "RELAY",
		})
	})
}

// journalSwaps adds the payments of the swaps to the copy of the journal, as the signer admitted and
// signed them.
func (h *testEnv) journalSwaps() {
	h.t.Helper()
	var prev string
	var seq int64
	err := h.owner.QueryRow(h.t.Context(), `SELECT seq, hash FROM signer_journal ORDER BY seq DESC LIMIT
		1`).Scan(&seq, &prev)
	if err != nil {
		h.t.Fatal(err)
	}
	intents := h.listOwnIntents()
	for _, swapID := range []string{"cs_done", "cs_fail"} {
		intent := signer.Intent{
			ID: swapID, Purpose: signer.SwapPayment, Chain: chain.Ethereum, From: signertest.Treasury(h.org),
			To: chain.Address(swapDepositAddress(swapID)), Contract: tokenContract, CustomerID: "ann", MintID: 1,
		}
		var terms []byte
		if err := h.owner.QueryRow(h.t.Context(), `SELECT amount, swap FROM dispatch_orders WHERE order_id = $1`,
			swapID).
			Scan(&intent.Amount, &terms); err != nil {
			h.t.Fatal(err)
		}
		if err := json.Unmarshal(terms, &intent.Swap); err != nil {
			h.t.Fatal(err)
		}
		intents = append(intents, intent)
	}
	for _, intent := range intents {
		signed := signer.SignBody{IntentID: intent.ID, Act: signer.Pay, Payload: []byte("p")}
		for _, r := range []signer.Record{
			{Kind: signer.RecordAdmit, RecordedAt: "2026-11-01T11:00:00Z", Admit: &intent},
			{Kind: signer.RecordSign, RecordedAt: "2026-11-01T11:59:59Z", Sign: &signed},
			// A replacement may be later than the first signature.
			{Kind: signer.RecordSign, RecordedAt: "2026-11-01T12:30:00Z", Sign: &signed},
		} {
			body, err := json.Marshal(r)
			if err != nil {
				h.t.Fatal(err)
			}
			seq++
			e := signer.Entry{JournalID: "journal", Seq: uint64(seq), Prev: prev, Body: body}
			e.Hash = e.ComputeHash()
			prev = e.Hash
			h.exec(`INSERT INTO signer_journal VALUES ($1, $2, $3, $4, $5, now())`, e.JournalID, seq, e.Prev, e.Hash,
				body)
		}
	}
}

// journalChanged is SQL that changes the entries of the journal about a swap, as the owner of the database
// could. The hashes of the entries are another check's.
func journalChanged(swapID, kind, from, to string) string {
	return fmt.Sprintf(`UPDATE signer_journal SET body = convert_to(replace(convert_from(body, 'UTF8'), '%s', '%s'),
		'UTF8')
		WHERE substr(body, 1, 10 + length('%s')) = '{"kind":"%s"' AND position('%s'::bytea IN body) > 0`, from, to,
		kind, kind, swapID)
}

// swapTamperings are the tamperings of swaps, see tamperings.
var swapTamperings = []tampering{
	{"I-60", "a claim on a provider that is forgotten", []string{`DELETE FROM ledger_transfers
		WHERE cause_kind = 'SWAP_PAID' AND cause_id = 'cs_fail'`}},
	{"I-60", "a refund that is not one", []string{`UPDATE deposits SET arrival_role = 'STRAY'
		WHERE deposit_id = 'dep_rf'`}},
	{"I-60", "a swap of another provider", []string{`UPDATE swaps SET provider = 'RELAY' WHERE swap_id = 'cs_fail'`}},
	{"I-61", "a hold that no swap has", []string{`UPDATE swaps SET amount_in = amount_in - 1, fee_amount = 0
		WHERE swap_id = 'cs_wait'`}},
	{"I-61", "a restored amount that the books do not have", []string{`UPDATE swaps SET refunded = 51, restored = 51
		WHERE swap_id = 'cs_fail'`}},
	{"I-61", "a balance in swaps of another customer", []string{`UPDATE ledger_accounts SET subject = 'bob'
		WHERE kind = 'IN_SWAP'`}},
	{"I-62", "a hold removed", []string{`DELETE FROM ledger_transfers WHERE cause_kind = 'SWAP_HOLD'
		AND cause_id = 'cs_wait'`}},
	{"I-62", "a hold without a swap", []string{`UPDATE ledger_transfers SET cause_id = 'cs_none'
		WHERE cause_kind = 'SWAP_HOLD' AND cause_id = 'cs_wait'`}},
	{"I-62", "a payment that is not final", []string{`UPDATE swaps SET paid_at = NULL WHERE swap_id = 'cs_fail'`}},
	{"I-62", "an end of an open swap", []string{`UPDATE ledger_transfers SET cause_id = 'cs_wait'
		WHERE cause_kind = 'SWAP_END' AND cause_id = 'cs_done'`}},
	{"I-62", "an amount restored twice", []string{
		`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id,
			leg, created_at)
		 SELECT org_id, mint_id, debit_account, credit_account, amount, cause_kind, 'cs_fail/2', 0, created_at
			FROM ledger_transfers WHERE cause_kind = 'SWAP_RESTORE' AND cause_id = 'cs_fail/1'`,
	}},
	{"I-62", "more written off than the row says", []string{`UPDATE ledger_transfers SET amount = amount + 1
		WHERE cause_kind = 'SWAP_SHORT'`}},
	{"I-62", "a restore for someone else", []string{`UPDATE ledger_accounts SET subject = 'bob'
		WHERE kind = 'CUSTOMER' AND mint_id = 1`}},
	{"I-63", "a failure that no one was told of", []string{`DELETE FROM events WHERE type = 'CUSTOMER_SWAP_FAILED'`}},
	{"I-63", "a completed swap that is told as failed", []string{`UPDATE events SET resource_id = 'cs_done'
		WHERE type = 'CUSTOMER_SWAP_FAILED'`}},
	{"I-63", "an open swap that is told as failed", []string{`UPDATE events SET resource_id = 'cs_wait'
		WHERE type = 'CUSTOMER_SWAP_FAILED'`}},
	{"I-63", "a completion that no one was told of", []string{`DELETE FROM events WHERE resource_id = 'dep_dl'`}},
	{"I-63", "two deposits that complete a swap", []string{
		`DROP INDEX deposits_completing_swap`, `ALTER TABLE deposits DROP CONSTRAINT deposits_arrival`,
		`UPDATE deposits SET completes_swap = true WHERE deposit_id = 'dep_stray'`,
	}},
	{"I-64", "a payment to an attacker", []string{`UPDATE dispatch_orders SET to_address = '0xmallory'
		WHERE order_id = 'cs_done'`}},
	{"I-64", "a payment and a swap for an attacker", []string{
		`UPDATE dispatch_orders SET to_address = '0xmallory' WHERE order_id = 'cs_done'`,
		`UPDATE swaps SET deposit_address = '0xmallory' WHERE swap_id = 'cs_done'`,
	}},
	{"I-64", "everything for an attacker but the journal", []string{
		`UPDATE dispatch_orders SET to_address = '0xmallory' WHERE order_id = 'cs_done'`,
		`UPDATE swaps SET deposit_address = '0xmallory' WHERE swap_id = 'cs_done'`,
		`UPDATE swap_offers SET deposit_address = '0xmallory' WHERE swap_id = 'cs_done'`,
	}},
	{"I-64", "another amount", []string{`UPDATE dispatch_orders SET amount = amount + 1 WHERE order_id = 'cs_wait'`}},
	{"I-64", "another quote", []string{`UPDATE swap_offers SET signed_quote = 'x' WHERE swap_id = 'cs_wait'`}},
	{"I-64", "a delivery elsewhere", []string{`UPDATE swaps SET delivery_wallet_id = 'we_dep'
		WHERE swap_id = 'cs_done'`}},
	{"I-64", "a refund elsewhere", []string{`UPDATE dispatch_orders SET swap = jsonb_set(swap, '{refund,subject}',
		'"cs_done"') WHERE order_id = 'cs_wait'`}},
	{"I-64", "a lower least amount out", []string{`UPDATE swaps SET min_out = 1 WHERE swap_id = 'cs_wait'`}},
	{"I-64", "more time to pay", []string{`UPDATE swaps SET pay_by = pay_by + interval '1 hour'
		WHERE swap_id = 'cs_wait'`}},
	{"I-64", "terms that cannot be read", []string{`UPDATE dispatch_orders SET swap = '[]'
		WHERE order_id = 'cs_wait'`}},
	{"I-64", "another admitted amount", []string{journalChanged("cs_fail", "ADMIT", `"amount":"60"`, `"amount":"61"`)}},
	{"I-65", "a wallet of a customer as a delivery wallet", []string{`UPDATE swaps SET delivery_wallet_id = 'we_dep'
		WHERE swap_id = 'cs_wait'`}},
	{"I-65", "a wallet of two swaps", []string{
		`ALTER TABLE swaps DROP CONSTRAINT swaps_refund_once`, `UPDATE swaps SET refund_wallet_id = 'we_rf_cs_done'
			WHERE swap_id = 'cs_wait'`,
	}},
	{"I-65", "a deposit address of two swaps", []string{
		`ALTER TABLE swaps DROP CONSTRAINT swaps_deposit_address_once`, `UPDATE swaps SET deposit_address =
			'0xdeposit_cs_done' WHERE swap_id = 'cs_wait'`,
	}},
	{"I-65", "a deposit address of two payments", []string{`UPDATE dispatch_orders SET to_address =
		'0xdeposit_cs_done' WHERE order_id = 'cs_wait'`}},
	{"I-65", "a deposit address that is ours", []string{`UPDATE swaps SET deposit_address = '0xwe_tre'
		WHERE swap_id = 'cs_wait'`}},
	{"I-65", "a deposit address that the journal has twice", []string{journalChanged("cs_fail", "ADMIT",
		`"to":"0xdeposit_cs_fail"`, `"to":"0xdeposit_cs_done"`)}},
	{"I-66", "more out than arrived", []string{`UPDATE swaps SET amount_out = amount_out + 1
		WHERE swap_id = 'cs_done'`}},
	{"I-66", "a delivery for an open swap", []string{
		`UPDATE deposits SET swap_id = 'cs_wait' WHERE deposit_id = 'dep_dl'`,
		`UPDATE swap_arrivals SET swap_id = 'cs_wait' WHERE deposit_id = 'dep_dl'`,
	}},
	{"I-66", "a delivery that is not stored", []string{`DELETE FROM swap_arrivals WHERE deposit_id = 'dep_dl'`}},
	{"I-66", "an arrival of another role", []string{
		`UPDATE swap_arrivals SET role = 'STRAY', reason = 'AFTER_END' WHERE deposit_id = 'dep_rf'`,
	}},
	{"I-66", "a refund that did not arrive", []string{`UPDATE swaps SET refunded = refunded + 1
		WHERE swap_id = 'cs_fail'`}},
	{"I-66", "a paid swap that counts as refunded without an arrival", []string{
		`ALTER TABLE deposits DROP CONSTRAINT deposits_arrival`, `UPDATE swaps SET refunded = 60, short = 0,
			short_count = 0 WHERE swap_id = 'cs_fail'`,
		`UPDATE deposits SET arrival_role = NULL WHERE deposit_id = 'dep_rf'`, `DELETE FROM swap_arrivals
			WHERE deposit_id = 'dep_rf'`,
	}},
	{"I-66", "a deposit that completes nothing", []string{`UPDATE deposits SET completes_swap = false
		WHERE deposit_id = 'dep_dl'`}},
	{"I-67", "a fee line removed", []string{`DELETE FROM fee_lines`}},
	{"I-67", "a fee line of an open swap", []string{
		`INSERT INTO fee_lines SELECT (jsonb_populate_record(l, '{"fee_line_id": "fee_2", "source_id": "cs_wait"}')).*
			FROM fee_lines l WHERE source_kind = 'SWAP'`,
	}},
	{"I-67", "a fee of another amount", []string{`UPDATE fee_lines SET amount = amount + 1`}},
	{"I-67", "a fee that was not posted", []string{`DELETE FROM ledger_transfers WHERE cause_kind = 'SWAP_FEE'`}},
	{"I-67", "a fee posted in another month", []string{`UPDATE ledger_transfers SET created_at = created_at - interval
		'40 days' WHERE cause_kind = 'SWAP_FEE'`}},
	{"I-67", "a fee posted for no swap", []string{
		`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id,
			leg, created_at)
		 SELECT org_id, mint_id, debit_account, credit_account, amount, cause_kind, 'cs_wait', 0, created_at
			FROM ledger_transfers WHERE cause_kind = 'SWAP_FEE'`,
	}},
	{"I-68", "a first signature after its time", []string{journalChanged("cs_done", "SIGN", `2026-11-01T11:59:59Z`,
		`2026-11-01T12:00:01Z`)}},
	{"I-68", "a first signature after the time of an organization's swap", []string{journalChanged("os_done", "SIGN",
		`2026-11-01T11:59:59Z`, `2026-11-01T12:00:01Z`)}},
	{"I-68", "less time to pay", []string{`UPDATE dispatch_orders SET pay_by = pay_by - interval '1 hour'
		WHERE order_id = 'cs_done'`}},
	{"I-69", "a stray that left suspense by itself", []string{`UPDATE swap_arrivals SET decision = NULL, note = NULL,
		decided_by = NULL, decided_at = NULL WHERE deposit_id = 'dep_late'`}},
	{"I-69", "a stray that was credited and is in suspense", []string{
		`UPDATE swap_arrivals SET decision = 'CREDITED', note = 'x', decided_by = 'x', decided_at = now()
			WHERE deposit_id = 'dep_stray'`,
	}},
	{"I-69", "a stray that an organization sees", []string{`UPDATE deposits SET is_hidden = false
		WHERE deposit_id = 'dep_stray'`}},
	{"I-69", "a credit of what is no stray", []string{`UPDATE ledger_transfers SET cause_id = 'dep_token'
		WHERE cause_kind = 'ARRIVAL'`}},
	{"I-69", "a credit of more than arrived", []string{`UPDATE ledger_transfers SET amount = amount + 1
		WHERE cause_kind = 'ARRIVAL'`}},
	{"I-69", "suspense that is empty", []string{
		`UPDATE ledger_balances SET balance = 0 WHERE account_id IN (SELECT account_id FROM ledger_accounts
			WHERE kind = 'SUSPENSE')`,
	}},
	{"I-70", "a swap without its order", []string{`DELETE FROM dispatch_orders WHERE order_id = 'cs_wait'`}},
	{"I-70", "an order without its swap", []string{`DELETE FROM swaps WHERE swap_id = 'cs_wait'`}},
	{"I-70", "a swap without its offer", []string{`DELETE FROM swap_offers WHERE swap_id = 'cs_wait'`}},
	{"I-70", "a swap that waits for a payment that was made", []string{`UPDATE dispatch_orders SET status = 'FAILED'
		WHERE order_id = 'cs_done'`}},
	{"I-70", "a swap that waits for an order that was recalled", []string{`UPDATE dispatch_orders SET status =
		'WITHDRAWN' WHERE order_id = 'cs_wait'`}},
	{"I-70", "a swap that failed and may be paid", []string{
		`UPDATE dispatch_orders SET status = 'WITHDRAWN' WHERE order_id = 'cs_wait'`,
		`UPDATE swaps SET status = 'FAILED', failed_at = now(), failure_reason = 'UNKNOWN',
			end_reason = 'ORIGIN_TX_FAILED' WHERE swap_id = 'cs_wait'`,
	}},
	{"I-04-totals", "a total of what is in swaps raised by one", []string{`UPDATE organization_totals SET in_swap =
		in_swap + 1 WHERE mint_id = 1`}},
	{"I-10", "a refund credited to the customer", []string{
		`UPDATE ledger_transfers SET credit_account = (SELECT account_id FROM ledger_accounts WHERE kind = 'CUSTOMER'
			AND mint_id = 1 AND subject = 'ann') WHERE cause_id = 'dep_rf'`,
	}},
	{"I-10", "a stray credited to the customer at once", []string{
		`UPDATE ledger_transfers SET credit_account = (SELECT account_id FROM ledger_accounts WHERE kind = 'CUSTOMER'
			AND mint_id = 1 AND subject = 'ann') WHERE cause_id = 'dep_stray'`,
	}},
	{"I-12", "a deposit of another swap than its wallet's", []string{`UPDATE deposits SET swap_id = 'cs_wait'
		WHERE deposit_id = 'dep_stray'`}},
	{"I-36-deposit", "a stray that an organization is told of", []string{`UPDATE events SET resource_id = 'dep_stray'
		WHERE resource_id = 'dep_late'`}},
	{"I-40", "a swap that failed in silence", []string{`DELETE FROM audit_log WHERE action = 'swap.failed'`}},
	{"I-40", "a decision about a stray that is not in the log", []string{`DELETE FROM audit_log
		WHERE action = 'swap.arrival_decided'`}},
	{"I-40", "a provider that is suspended in silence", []string{`DELETE FROM audit_log
		WHERE action = 'swap_provider.suspended'`}},
	{"I-45-owed", "a debt of a swap that the books do not have", []string{`UPDATE swaps SET owed = 1,
		imported_at = now(), idempotency_key = NULL, request_digest = NULL WHERE swap_id = 'cs_wait'`}},
}

// What a database with a consistent lie says is seen with the keys of the provider.
func TestAQuoteThatTheProviderDidNotSignIsSeenByWhoHasItsKey(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	key := signertest.SwapProviderKey.Public().(ed25519.PublicKey)
	verify := func(provider string, scheme signedquote.Scheme, raw []byte) (signedquote.Quote, error) {
		if provider != signertest.SwapProvider || scheme != signedquote.OneClickV0 {
			return signedquote.Quote{}, errors.New("there is no such provider")
		}
		return signedquote.VerifyOneClick(raw, []ed25519.PublicKey{key})
	}
	listBreaches := func(options ...Option) []Breach {
		t.Helper()
		r, err := RunChecks(t.Context(), h.db, append(options, WithoutSchema)...)
		if err != nil {
			t.Fatal(err)
		}
		return slices.DeleteFunc(r.Breaches, func(b Breach) bool { return b.Check != "I-64" })
	}
	if found := listBreaches(WithQuotes(verify)); len(found) > 0 {
		t.Fatalf("as it was: got %+v, want no breach", found)
	}
	genuine := h.swapTerms("cs_wait", 40, 100, 90)
	for name, change := range map[string]func(q *signer.SwapTerms){
		"another key": func(q *signer.SwapTerms) {
			_, foreign, err := ed25519.GenerateKey(nil)
			if err != nil {
				t.Fatal(err)
			}
			q.SignedQuote = quotetest.OneClick{
				DepositAddress: swapDepositAddress("cs_wait"), OriginAsset: "token", DestinationAsset: "coin",
				AmountIn:  money.Units(40),
				AmountOut: money.Units(100), MinAmountOut: money.Units(90), Recipient: "0xwe_dl_cs_wait",
				RefundTo: "0xwe_rf_cs_wait",
				SignedAt: swapPayBy.Add(-time.Hour), Deadline: swapPayBy.Add(time.Hour),
			}.Sign(t, foreign)
		},
		"the quote of another swap": func(q *signer.SwapTerms) {
			q.SignedQuote = h.swapTerms("cs_other", 40, 100, 90).SignedQuote
		},
		"another amount": func(q *signer.SwapTerms) { q.SignedQuote = h.swapTerms("cs_wait", 41, 100, 90).SignedQuote },
		"a higher promise": func(q *signer.SwapTerms) {
			q.SignedQuote = h.swapTerms("cs_wait", 40, 100, 95).SignedQuote
		},
	} {
		terms := genuine
		change(&terms)
		h.exec(`UPDATE dispatch_orders SET swap = $1 WHERE order_id = 'cs_wait'`, terms)
		h.exec(`UPDATE swap_offers SET signed_quote = $1 WHERE swap_id = 'cs_wait'`, terms.SignedQuote)
		if found := listBreaches(); len(found) > 0 {
			t.Errorf("%s: without keys got %+v, want no breach", name, found)
		}
		if found := listBreaches(WithQuotes(verify)); len(found) == 0 || found[0].Subject != "swap cs_wait" {
			t.Errorf("%s: got %+v, want a breach of swap cs_wait", name, found)
		}
	}
}
