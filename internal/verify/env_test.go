package verify

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/member"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

const tokenContract = "0xT"

// testEnv is a small installation in which everything has happened once and all of it adds up. The
// tests break one thing in it at a time.
type testEnv struct {
	t     testing.TB
	db    *pg.DB
	owner *pgxpool.Pool
	org   string
}

// exec writes rows one by one, past the triggers that require the others.
func (h *testEnv) exec(sql string, args ...any) {
	h.t.Helper()
	tx, err := h.owner.Begin(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.t.Context())) }()
	if _, err := tx.Exec(h.t.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		h.t.Fatal(err)
	}
	if _, err := tx.Exec(h.t.Context(), sql, args...); err != nil {
		h.t.Fatalf("%.60s: %v", sql, err)
	}
	if err := tx.Commit(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) system(fn func(context.Context, pg.Tx) error) {
	h.t.Helper()
	if err := h.db.InSystem(h.t.Context(), fn); err != nil {
		h.t.Fatal(err)
	}
}

func (h *testEnv) recordAudit(action, resource string) {
	h.t.Helper()
	h.system(func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, audit.Entry{
			OrgID: h.org, Actor: audit.System("test"), Action: action, ResourceKind: "TEST", ResourceID: resource,
		})
	})
}

func (h *testEnv) account(mintID int, k ledger.Kind, subject string) ledger.Account {
	return ledger.Account{OrgID: h.org, MintID: mintID, Kind: k, Subject: subject}
}

func (h *testEnv) post(kind ledger.CauseKind, id string, legs ...ledger.Leg) {
	h.t.Helper()
	h.system(func(ctx context.Context, tx pg.Tx) error {
		return ledger.Post(ctx, tx, ledger.Posting{Cause: ledger.Cause{Kind: kind, ID: id}, Legs: legs})
	})
}

func (h *testEnv) insertEvent(kind, resource string, seq, sequence int) {
	h.t.Helper()
	h.exec(`INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at, sequence, body)
		VALUES ($1, $2, $3, 'test', $4, $5, '{}', now(), $6::int, CASE WHEN $6::int IS NOT NULL THEN '{}'::bytea END)`,
		fmt.Sprintf("evt_%s_%d", resource, seq), h.org, kind, resource, seq, func() *int {
			if sequence == 0 {
				return nil
			}
			return &sequence
		}())
}

func newTestEnv(t testing.TB) *testEnv {
	t.Helper()
	db := pgtest.New(t)
	h := &testEnv{t: t, db: db, owner: pgtest.OwnerPool(t, db)}
	o, _, err := org.Create(t.Context(), db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	h.org = o.ID
	token := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: tokenContract, Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	bitcoin := coin
	bitcoin.ID, bitcoin.Chain, bitcoin.Symbol, bitcoin.Name, bitcoin.Decimals = 3, chain.Bitcoin, "BTC", "Bitcoin", 8
	solana := token
	solana.ID, solana.Chain, solana.Contract = 4, chain.Solana, "solT"
	if err := mint.Sync(t.Context(), db, []mint.Mint{token, coin, bitcoin, solana}); err != nil {
		t.Fatal(err)
	}
	h.system(func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, h.org, "ann", "")
		return err
	})
	for id, w := range map[string][2]string{
		"we_dep": {"CUSTOMER_DEPOSIT", "ann"},
		"we_tre": {"TREASURY", ""}, "we_own": {"ORGANIZATION_DEPOSIT", "CHECKOUT"},
		"we_co": {"CHECKOUT", "co_paid"}, "we_shared": {"CHECKOUT_SHARED", "CHECKOUT"},
	} {
		h.exec(`INSERT INTO wallets VALUES ($1, $2, 'EVM', $3, $4, $1, '0x' || $1, '', now())`, id, h.org, w[0], w[1])
		h.recordAudit("wallet.issued", id)
	}
	// Finality broke once: the blocks above block 9 were walked and are gone.
	h.exec(`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at)
		VALUES ('ETHEREUM', 10, 'h10gone', 'h9', now(), 1, 'test', now())`)
	h.exec(`INSERT INTO finality_breaks (chain, fork, ancestor_height, ancestor_hash, tip_height, tip_hash, settle_height, reason, decided_by, created_at)
		VALUES ('ETHEREUM', 1, 9, 'h9', 10, 'h10gone', 10, 'test', 'OPERATOR op', now())`)
	for height := 10; height <= 14; height++ {
		h.exec(`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, fork)
			VALUES ('ETHEREUM', $1::int, 'h' || $1::int, 'h' || ($1::int - 1), now(), 1, 'test', now(), 1)`, height)
	}
	h.exec(`INSERT INTO scan_cursors VALUES ('ETHEREUM', 14, 'h14', now())`)

	// Arrivals.
	arrived := func(id, wallet, purpose, contract string, mintID *int, amount, height int, status, chainStatus,
		action string,
	) {
		t.Helper()
		var who, product, checkoutID *string
		switch ann, checkout, paid := "ann", "CHECKOUT", "co_paid"; purpose {
		case "CUSTOMER_DEPOSIT":
			who = &ann
		case "ORGANIZATION_DEPOSIT", "CHECKOUT_SHARED":
			product = &checkout
		case "CHECKOUT":
			product, checkoutID = &checkout, &paid
		}
		kind := "NATIVE"
		if contract != "" {
			kind = "TOKEN"
		}
		h.exec(`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address,
				tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, created_at, credited_at, product, checkout_id)
			SELECT $1, $2, $3, $4, $5, $6, 'ETHEREUM', $7, $8, '0x' || $3, '0xsomebody', 'tx_' || $1, $9, '', 0, $10::int, 'h' || $10::int,
				CASE WHEN $12 = 'FINALIZED' THEN (SELECT proof_id FROM finality_live WHERE height = $10::int) END, $11, $12, now(),
				CASE WHEN $11 = 'CREDITED' THEN now() END, $13, $14`,
			id, h.org, wallet, purpose, who, mintID, contract, amount, kind, height, status, chainStatus, product,
			checkoutID)
		h.recordAudit("deposit."+action, id)
	}
	one, two := 1, 2
	arrived("dep_token", "we_dep", "CUSTOMER_DEPOSIT", tokenContract, &one, 1000, 11, "CREDITED", "FINALIZED",
		"credited")
	arrived("dep_gas", "we_tre", "TREASURY", "", &two, 500, 10, "CREDITED", "FINALIZED", "credited")
	arrived("dep_own", "we_own", "ORGANIZATION_DEPOSIT", tokenContract, &one, 70, 11, "CREDITED", "FINALIZED",
		"credited")
	arrived("dep_co", "we_co", "CHECKOUT", tokenContract, &one, 20, 11, "CREDITED", "FINALIZED", "credited")
	arrived("dep_shared", "we_shared", "CHECKOUT_SHARED", tokenContract, &one, 12, 11, "CREDITED", "FINALIZED",
		"credited")
	arrived("dep_tardy", "we_shared", "CHECKOUT_SHARED", tokenContract, &one, 4, 12, "CREDITED", "FINALIZED",
		"credited")
	arrived("dep_stranger", "we_shared", "CHECKOUT_SHARED", tokenContract, &one, 5, 15, "CONFIRMING", "INCLUDED",
		"seen")
	arrived("dep_other", "we_shared", "CHECKOUT_SHARED", tokenContract, &one, 3, 14, "SCREENING", "FINALIZED",
		"finalized")
	arrived("dep_dust", "we_dep", "CUSTOMER_DEPOSIT", tokenContract, &one, 1, 12, "BELOW_MINIMUM", "FINALIZED",
		"below_minimum")
	arrived("dep_waits", "we_dep", "CUSTOMER_DEPOSIT", tokenContract, &one, 300, 14, "SCREENING", "FINALIZED",
		"finalized")
	arrived("dep_alien", "we_dep", "CUSTOMER_DEPOSIT", "0xalien", nil, 9, 14, "UNSUPPORTED", "FINALIZED", "unsupported")
	arrived("dep_seen", "we_dep", "CUSTOMER_DEPOSIT", tokenContract, &one, 8, 15, "CONFIRMING", "INCLUDED", "seen")
	arrived("dep_gone", "we_dep", "CUSTOMER_DEPOSIT", tokenContract, &one, 8, 15, "ORPHANED", "REORGED", "orphaned")
	u := func(n int) money.Amount { return money.Units(uint64(n)) }
	h.post(ledger.Deposit, "dep_token", ledger.Leg{
		Debit: h.account(1, ledger.Custody, ""), Credit: h.account(1, ledger.Customer, "ann"), Amount: u(1000),
	})
	h.post(
		ledger.Deposit, "dep_gas",
		ledger.Leg{Debit: h.account(2, ledger.Custody, ""), Credit: h.account(2, ledger.Gas, ""), Amount: u(500)},
	)
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_token", 1, 1)
	h.post(ledger.Deposit, "dep_own", ledger.Leg{
		Debit: h.account(1, ledger.Custody, ""), Credit: h.account(1, ledger.Product, "CHECKOUT"), Amount: u(70),
	})
	h.insertEvent("ORGANIZATION_DEPOSIT", "dep_own", 1, 0)
	for id, units := range map[string]int{"dep_co": 20, "dep_shared": 12, "dep_tardy": 4} { // no event tells of them
		h.post(ledger.Deposit, id, ledger.Leg{
			Debit: h.account(1, ledger.Custody, ""), Credit: h.account(1, ledger.Product, "CHECKOUT"),
			Amount: u(units),
		})
	}
	// A part of a reversed deposit was spent before.
	h.exec(`INSERT INTO deposits (deposit_id, org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, amount, address, from_address,
			tx_hash, kind, position, log_index, height, block_hash, proof_id, status, chain_status, created_at, credited_at, reversed_at, taken_back)
		SELECT 'dep_back', org_id, wallet_id, purpose, customer_id, mint_id, chain, contract, 40, address, from_address,
			'tx_back', kind, position, log_index, 10, 'h10gone', (SELECT proof_id FROM finality_proofs WHERE hash = 'h10gone'), 'REVERSED', 'REORGED', now(), now(), now(), 25
		FROM deposits WHERE deposit_id = 'dep_token'`)
	h.recordAudit("deposit.reversed", "dep_back")
	h.post(ledger.Deposit, "dep_back", ledger.Leg{
		Debit: h.account(1, ledger.Custody, ""), Credit: h.account(1, ledger.Customer, "ann"), Amount: u(40),
	})
	h.post(ledger.DepositReversal, "dep_back",
		ledger.Leg{
			Debit: h.account(1, ledger.Customer, "ann"), Credit: h.account(1, ledger.Custody, ""), Amount: u(25),
		},
		ledger.Leg{Debit: h.account(1, ledger.ReorgLoss, ""), Credit: h.account(1, ledger.Custody, ""), Amount: u(15)})
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_back", 1, 0)
	h.insertEvent("CUSTOMER_DEPOSIT_REVERSED", "dep_back", 2, 0)

	// Outgoing payments.
	nonce := map[string]int{}
	ordered := func(id, purpose, wallet string, to *string, mintID, amount int, status string, fee, gasReserved int) {
		t.Helper()
		contract, address := "", "0xsomebody"
		if mintID == 1 {
			contract = tokenContract
		}
		if to != nil {
			address = "0x" + *to
		}
		if purpose == "SWAP" {
			address = swapDepositAddress(id)
		}
		ended := status == "PAID" || status == "FAILED"
		out := ended || status == "BROADCAST"
		h.exec(`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, contract, amount, customer_id,
				status, attempt_after, created_at, tx_hash, fee, proof_id, ended_at, trigger, pay_by, swap)
			SELECT $1, $2, $3, 'ETHEREUM', $4, $5, $6, $7, $8, $9, CASE WHEN $3 IN ('PAYMENT', 'SWAP') THEN 'ann' END, $10, now(), now(),
				CASE WHEN $11 THEN 'hash_' || $1 END, CASE WHEN $12 THEN $13::int END,
				CASE WHEN $12 THEN (SELECT proof_id FROM finality_proofs WHERE height = 13) END, CASE WHEN $12 THEN now() END, CASE WHEN $3 NOT IN ('PAYMENT', 'RETURN', 'SWAP') THEN 'VALUE' END,
				CASE WHEN $3 = 'SWAP' THEN $14::timestamptz END, CASE WHEN $3 = 'SWAP' THEN '{}'::jsonb END`,
			id, h.org, purpose, wallet, to, address, mintID, contract, amount, status, out, ended, fee, swapPayBy)
		h.insertCause(id)
		if status == "QUEUED" || status == "REFUSED" || status == "WITHDRAWN" {
			return
		}
		h.exec(`INSERT INTO dispatch_slots VALUES ($1, 'ETHEREUM', $2, $3, $4, $5, now())`, wallet, nonce[wallet],
			h.org, id, gasReserved)
		nonce[wallet]++
		h.exec(`INSERT INTO dispatch_attempts (order_id, version, org_id, act, gas_limit, tip_cap, fee_cap, payload, raw, tx_hash, created_at, signed_at, sent_at)
			VALUES ($1, 1, $2, 'PAY', 1, 1, 1, 'p', CASE WHEN $3 THEN 'r'::bytea END, CASE WHEN $3 THEN 'hash_' || $1 END, now(),
				CASE WHEN $3 THEN now() END, CASE WHEN $3 THEN now() END)`, id, h.org, status != "SLOTTED")
		h.recordAudit("order.slotted", id)
		if ended {
			h.recordAudit("order.ended", id)
			h.post(ledger.NetworkFee, id,
				ledger.Leg{
					Debit: h.account(2, ledger.Gas, ""), Credit: h.account(2, ledger.Custody, ""), Amount: u(fee),
				},
				ledger.Leg{
					Debit: h.account(2, ledger.FeesDue, ""), Credit: h.account(2, ledger.FeesBilled, ""),
					Amount: u(fee),
				})
		}
	}
	dep, tre := "we_dep", "we_tre"
	ordered("gas_done", "GAS", tre, &dep, 2, 53, "PAID", 3, 9)
	ordered("gas_open", "GAS", tre, &dep, 2, 40, "SLOTTED", 0, 6)
	ordered("sw_done", "SWEEP", dep, &tre, 1, 600, "PAID", 5, 9)
	ordered("sw_open", "SWEEP", dep, &tre, 1, 100, "QUEUED", 0, 0)
	ordered("pl_open", "PLACE", tre, nil, 2, 7, "QUEUED", 0, 0)

	h.exec(`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, from_wallet_id, to_wallet_id, to_address, mint_id, contract, amount, status, attempt_after, created_at, trigger)
		VALUES ('cl_open', $1, 'CLOSE', 'ETHEREUM', 'we_tre', 'we_dep', 'we_tre', '0xwe_tre', 1, $2, 8, 'QUEUED', now(), now(), 'VALUE')`,
		h.org, tokenContract)
	h.insertCause("cl_open")
	h.exec(`
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id,
			contract, amount, status, attempt_after, created_at, trigger)
		VALUES ('ta_open', $1, 'TOKEN_ACCOUNT', 'ETHEREUM', 'we_tre', 'we_shared', '0xwe_shared', 1,
			$2, 0, 'QUEUED', now(), now(), 'DEMAND')`, h.org, tokenContract)
	h.insertCause("ta_open")
	h.exec(`
		INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_address, mint_id, contract, amount,
			status, attempt_after, created_at, trigger)
		VALUES ('al_open', $1, 'ALLOWANCE', 'ETHEREUM', 'we_tre', $3, 1, $2, 0, 'QUEUED', now(), now(), 'DEMAND')`,
		h.org, tokenContract, evmtx.PayoutContract)
	h.insertCause("al_open")

	charged := map[string]int{"wd_failed": 3}
	withdrawnOf := func(mintID int, id string, amount int, status string, held bool, events ...string) {
		t.Helper()
		out := status == "BROADCAST" || status == "COMPLETED" || status == "FAILED"
		h.exec(`INSERT INTO withdrawals (withdrawal_id, org_id, customer_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval,
				approval_reasons, decision, tx_hash, created_at, approved_at, broadcast_at)
			VALUES ($1, $2, 'ann', $7, 'ETHEREUM', $3, '0xsomebody', '', $4, $5, CASE WHEN $5 THEN ARRAY['REQUIRE_APPROVAL'] ELSE ARRAY[]::text[] END, '{}',
				CASE WHEN $6 THEN 'hash_' || $1 END, now(), CASE WHEN $5 AND $6 THEN now() END, CASE WHEN $6 THEN now() END)`,
			id, h.org, amount, status, held, out, mintID)
		h.recordAudit("withdrawal.requested", id)
		h.post(ledger.WithdrawalHold, id, ledger.Leg{
			Debit: h.account(mintID, ledger.Customer, "ann"), Credit: h.account(mintID, ledger.Withdrawing, "ann"),
			Amount: u(amount),
		})
		if held && out {
			h.recordAudit("withdrawal.approved", id)
		}
		if out {
			h.recordAudit("withdrawal.broadcast", id)
		}
		to := h.account(mintID, ledger.Customer, "ann")
		if n := charged[id]; n > 0 {
			h.exec(
				`UPDATE withdrawals SET charge_costs = 'RENT_AND_FAILURES', charge_failure_max = $2, charge_coin_price = 1e15, charge_mint_price = 1, charge_cost = 2, charged = $2 WHERE withdrawal_id = $1`,
				id, n,
			)
			h.post(ledger.WithdrawalCharge, id, ledger.Leg{
				Debit:  h.account(mintID, ledger.Withdrawing, "ann"),
				Credit: h.account(mintID, ledger.Product, "CUSTODIAL"), Amount: u(n),
			})
		}
		switch status {
		case "COMPLETED":
			to = h.account(mintID, ledger.Custody, "")
			fallthrough
		case "FAILED", "REJECTED", "CANCELLED":
			h.post(ledger.WithdrawalEnd, id, ledger.Leg{
				Debit: h.account(mintID, ledger.Withdrawing, "ann"), Credit: to, Amount: u(amount - charged[id]),
			})
			h.recordAudit("withdrawal."+map[string]string{
				"COMPLETED": "completed", "FAILED": "failed", "REJECTED": "removed", "CANCELLED": "cancelled",
			}[status], id)
		}
		for i, e := range events {
			h.insertEvent("CUSTOMER_WITHDRAW"+e, id, i+1, 0)
		}
	}
	withdrawn := func(id string, amount int, status string, held bool, events ...string) {
		t.Helper()
		withdrawnOf(1, id, amount, status, held, events...)
	}
	withdrawn("wd_paid", 200, "COMPLETED", true, "_AWAITING_APPROVAL", "_APPROVED", "", "_COMPLETED")
	ordered("wd_paid", "PAYMENT", tre, nil, 1, 200, "PAID", 7, 9)
	withdrawn("wd_held", 50, "AWAITING_APPROVAL", true, "_AWAITING_APPROVAL")
	withdrawn("wd_out", 100, "BROADCAST", false, "")
	ordered("wd_out", "PAYMENT", tre, nil, 1, 100, "BROADCAST", 0, 20)
	withdrawn("wd_removed", 10, "REJECTED", true, "_AWAITING_APPROVAL", "_REJECTED")
	withdrawn("wd_failed", 20, "FAILED", false, "", "_FAILED")
	ordered("wd_failed", "PAYMENT", tre, nil, 1, 20, "FAILED", 2, 9)
	h.exec(`UPDATE dispatch_orders SET payee_failed = true WHERE order_id = 'wd_failed'`)
	withdrawn("wd_queued", 30, "PROCESSING", false)
	ordered("wd_queued", "PAYMENT", tre, nil, 1, 30, "QUEUED", 0, 0)

	// A withdrawal of coin whose customer paid the network fee, which was lower than the hold.
	arrived("dep_coin", "we_dep", "CUSTOMER_DEPOSIT", "", &two, 100, 12, "CREDITED", "FINALIZED", "credited")
	h.post(ledger.Deposit, "dep_coin", ledger.Leg{
		Debit: h.account(2, ledger.Custody, ""), Credit: h.account(2, ledger.Customer, "ann"), Amount: u(100),
	})
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_coin", 1, 0)
	withdrawnOf(2, "wd_less", 100, "COMPLETED", false, "", "_COMPLETED")
	ordered("wd_less", "PAYMENT", dep, nil, 2, 90, "PAID", 4, 9)
	h.exec(
		`UPDATE withdrawals SET fee_mode = 'DEDUCTED', fee_deducted = 10, max_network_fee = 12, decision = NULL WHERE withdrawal_id = 'wd_less'`,
	)
	h.exec(`UPDATE dispatch_orders SET fee_deducted = 10, fee_max = 12 WHERE order_id = 'wd_less'`)
	h.post(ledger.WithdrawalFee, "wd_less", ledger.Leg{
		Debit: h.account(2, ledger.Custody, ""), Credit: h.account(2, ledger.Product, "CUSTODIAL"), Amount: u(10),
	})
	h.exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id)
		VALUES ($1, 'wd_less', now(), 'REQUESTED', 'PROCESSING', '{}', '[]', 'API_KEY', $1)`, h.org)
	// A cancelled withdrawal.
	withdrawn("wd_back", 15, "CANCELLED", true, "_AWAITING_APPROVAL", "_CANCELLED")
	h.exec(`UPDATE withdrawals SET decision = NULL WHERE withdrawal_id = 'wd_back'`)
	h.exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id)
		VALUES ($1, 'wd_back', now(), 'REQUESTED', 'AWAITING_APPROVAL', '{REQUIRE_APPROVAL}', '[]', 'API_KEY', $1),
			($1, 'wd_back', now(), 'CANCELLED', 'CANCELLED', '{}', '[]', 'API_KEY', $1)`, h.org)
	// A withdrawal of the organization's own coin, whose fee came from the same balance, and which
	// two people approved.
	h.exec(`INSERT INTO withdrawals (withdrawal_id, org_id, product, whitelisted_address_id, mint_id, chain, amount, to_address, request_digest, status, requires_approval,
			approval_reasons, tx_hash, created_at, approved_at, broadcast_at, fee_mode, fee_deducted, approvals_required, request_mac)
		VALUES ('wd_own', $1, 'CUSTODIAL', 'wla_1', 2, 'ETHEREUM', 8, '0xsomebody', '', 'COMPLETED', true,
			'{USD_THRESHOLD}', 'hash_wd_own', now(), now(), now(), 'DEDUCTED', 2, 2, 'mac')`, h.org)
	for _, act := range []string{"requested", "approved", "broadcast", "completed"} {
		h.recordAudit("withdrawal."+act, "wd_own")
	}
	for i, e := range []string{"_AWAITING_APPROVAL", "_APPROVED", "", "_COMPLETED"} {
		h.insertEvent("ORGANIZATION_WITHDRAW"+e, "wd_own", i+1, 0)
	}
	h.post(ledger.WithdrawalHold, "wd_own", ledger.Leg{
		Debit: h.account(2, ledger.Product, "CUSTODIAL"), Credit: h.account(2, ledger.ProductWithdrawing, "CUSTODIAL"),
		Amount: u(8),
	})
	h.post(ledger.WithdrawalEnd, "wd_own", ledger.Leg{
		Debit: h.account(2, ledger.ProductWithdrawing, "CUSTODIAL"), Credit: h.account(2, ledger.Custody, ""),
		Amount: u(8),
	})
	h.post(ledger.WithdrawalFee, "wd_own",
		ledger.Leg{Debit: h.account(2, ledger.Custody, ""), Credit: h.account(2, ledger.Gas, ""), Amount: u(2)})
	h.post(
		ledger.FeePrepaid, "wd_own",
		ledger.Leg{Debit: h.account(2, ledger.FeesBilled, ""), Credit: h.account(2, ledger.FeesDue, ""), Amount: u(2)},
	)
	ordered("wd_own", "PAYMENT", dep, nil, 2, 6, "PAID", 1, 9)
	h.exec(
		`UPDATE dispatch_orders SET customer_id = NULL, product = 'CUSTODIAL', whitelisted_address_id = 'wla_1', fee_deducted = 2 WHERE order_id = 'wd_own'`,
	)
	h.exec(`INSERT INTO withdrawal_decisions (org_id, withdrawal_id, at, act, status, reasons, gates, actor_kind, actor_id)
		VALUES ($1, 'wd_own', now(), 'REQUESTED', 'AWAITING_APPROVAL', '{USD_THRESHOLD}', '[]', 'USER', 'usr_maker'),
			($1, 'wd_own', now(), 'APPROVAL_ADDED', 'AWAITING_APPROVAL', '{}', '[]', 'USER', 'usr_a'),
			($1, 'wd_own', now(), 'APPROVED', 'PROCESSING', '{}', '[]', 'USER', 'usr_b')`, h.org)
	h.exec(`INSERT INTO withdrawal_approvals (org_id, withdrawal_id, round, approver_kind, approver_id, at, digest, mac)
		VALUES ($1, 'wd_own', 0, 'USER', 'usr_a', now(), '', ''), ($1, 'wd_own', 0, 'USER', 'usr_b', now(), '', '')`,
		h.org)
	h.exec(`INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_customer, to_product, created_at)
		VALUES ('tr_made', $1, 'k', '', 1, 3, 'ann', 'CUSTODIAL', now())`, h.org)
	h.post(ledger.Transfer, "tr_made", ledger.Leg{
		Debit: h.account(1, ledger.Customer, "ann"), Credit: h.account(1, ledger.Product, "CUSTODIAL"), Amount: u(3),
	})
	h.insertEvent("TRANSFER_COMPLETED", "tr_made", 1, 0)
	h.recordAudit("transfer.made", "tr_made")

	h.swaps(ordered)
	h.ownSwaps(ordered)
	h.depositSwaps()
	h.products()
	h.checkouts()
	h.refunds(ordered)
	h.billing()
	h.payouts(ordered)
	h.coins(arrived, withdrawnOf, ordered)
	for wallet, next := range nonce {
		h.exec(`INSERT INTO dispatch_accounts VALUES ($1, 'ETHEREUM', $2, $3)`, wallet, h.org, next)
	}
	h.exec(`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, reserved, swept, gas, gas_reserved, dust) VALUES
		('we_dep', 1, $1, 1000, 100, 600, 0, 0, 1), ('we_dep', 2, $1, 100, 0, 98, 40, 0, 0),
		('we_own', 1, $1, 70, 0, 0, 0, 0, 0), ('we_co', 1, $1, 20, 0, 0, 0, 0, 0),
		('we_shared', 1, $1, 16, 0, 0, 0, 0, 0),
		('we_tre', 1, $1, 600, 100, 398, 0, 0, 0), ('we_tre', 2, $1, 0, 0, 0, 420, 66, 0)`,
		h.org)
	h.exec(`UPDATE dispatch_accounts SET chain = 'BITCOIN' WHERE wallet_id = 'we_btre'`)
	h.exec(`UPDATE address_funds SET reversed = 40 WHERE wallet_id = 'we_dep' AND mint_id = 1`)

	// Events of withdrawals are numbered from 2 on; the last ones wait for their number.
	h.exec(`UPDATE events SET sequence = n.nth + 1, body = '{}' FROM (
			SELECT event_id, row_number() OVER (ORDER BY resource_id, resource_seq) AS nth FROM events WHERE sequence IS NULL AND resource_id <> 'wd_removed') n
		WHERE n.event_id = events.event_id`)
	h.exec(`INSERT INTO event_sequences SELECT $1, max(sequence) FROM events`, h.org)

	h.system(func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeChain, Chain: chain.Base, Source: freeze.SourceOperator, Reason: "test",
			Actor: audit.Operator("op"),
		})
	})

	prev := ""
	for seq := uint64(1); seq <= 4; seq++ {
		e := signer.Entry{JournalID: "journal", Seq: seq, Prev: prev, Body: json.RawMessage(fmt.Sprintf(`{"n":%d}`,
			seq))}
		e.Hash = e.ComputeHash()
		h.exec(`INSERT INTO signer_journal VALUES ($1, $2, $3, $4, $5, now())`, e.JournalID, seq, e.Prev, e.Hash,
			[]byte(e.Body))
		if prev = e.Hash; seq == 3 {
			h.exec(`INSERT INTO signer_identity VALUES (true, 'journal', 3, $1)`, e.Hash)
		}
	}
	h.whitelisted(prev)
	h.journalSwaps()
	h.addDecisions()
	h.sealAudit()
	// The triggers that maintain the totals did not see the rows that were written past them.
	h.exec(`
		INSERT INTO organization_totals (org_id, mint_id, available, withdrawing, addresses, treasuries, dust, in_swap)
		SELECT org_id, mint_id, sum(available), sum(withdrawing), sum(addresses), sum(treasuries), sum(dust),
			sum(in_swap)
		FROM (SELECT a.org_id, a.mint_id, CASE a.kind WHEN 'CUSTOMER' THEN b.balance ELSE 0 END AS available, CASE a.kind WHEN 'WITHDRAWING' THEN b.balance ELSE 0 END AS withdrawing,
				0 AS addresses, 0 AS treasuries, 0 AS dust,
				CASE a.kind WHEN 'IN_SWAP' THEN b.balance ELSE 0 END AS in_swap
			FROM ledger_accounts a JOIN ledger_balances b USING (account_id)
			UNION ALL
			SELECT f.org_id, f.mint_id, 0, 0, CASE WHEN w.purpose <> 'TREASURY' THEN f.credited - f.swept + f.gas + f.dust ELSE 0 END,
				CASE WHEN w.purpose = 'TREASURY' THEN f.credited - f.swept + f.gas + f.dust ELSE 0 END, f.dust, 0
			FROM address_funds f JOIN wallets w USING (wallet_id)
			UNION ALL
			SELECT org_id, mint_id, -available, -withdrawing, -addresses, -treasuries, -dust,
				-in_swap FROM organization_total_changes) parts
		GROUP BY 1, 2`)
	return h
}

// whitelisted adds an address in its cooling-off and one that was removed, as the signer has them
// in the entries after prev.
func (h *testEnv) whitelisted(prev string) {
	h.t.Helper()
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	seq := int64(4)
	record := func(r signer.Record) int64 {
		body, err := json.Marshal(r)
		if err != nil {
			h.t.Fatal(err)
		}
		seq++
		e := signer.Entry{JournalID: "journal", Seq: uint64(seq), Prev: prev, Body: body}
		e.Hash = e.ComputeHash()
		prev = e.Hash
		h.exec(`INSERT INTO signer_journal VALUES ($1, $2, $3, $4, $5, now())`, e.JournalID, seq, e.Prev, e.Hash, body)
		return seq
	}
	for _, id := range []string{"wla_gone", "wla_cools"} {
		e := signer.EndorseBody{Endorsement: signer.Endorsement{
			OrgID: h.org, ID: id, Chain: chain.Ethereum, Address: "0xExchange", LabelHash: signer.HashLabel("exchange"),
			NotBefore: signer.FormatMicros(at),
		}, UsableFrom: signer.FormatMicros(at.Add(time.Hour)), Proof: []byte("proof of " + id)}
		told := []string{"whitelist.added"}
		h.exec(`INSERT INTO whitelisted_addresses (whitelisted_address_id, org_id, chain, address, label, created_at, created_by, not_before, request_mac,
				usable_from, proof, journal_id, journal_seq)
			VALUES ($1, $2, $3, $4, 'exchange', $5, 'opk_1', $5, '', $6, $7, 'journal', $8)`,
			id, h.org, e.Chain, e.Address, at, at.Add(time.Hour), e.Proof,
			record(signer.Record{Kind: signer.RecordEndorse, Endorse: &e}))
		if id == "wla_gone" {
			h.exec(`UPDATE whitelisted_addresses SET removed_at = $2, removed_by = 'opk_1', revoked_seq = $3 WHERE whitelisted_address_id = $1`,
				id, at,
				record(signer.Record{Kind: signer.RecordRevoke, Revoke: &signer.Revocation{OrgID: h.org, ID: id}}))
			told = append(told, "whitelist.removed")
		}
		h.system(func(ctx context.Context, tx pg.Tx) error {
			for _, action := range told {
				if err := audit.Record(ctx, tx, audit.Entry{
					OrgID: h.org, Actor: audit.Operator("opk_1"), Action: action, ResourceKind: "WHITELISTED_ADDRESS",
					ResourceID: id,
					Detail: map[string]string{
						"chain": string(e.Chain), "address": string(e.Address), "label": "exchange",
					},
				}); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

// addDecisions adds keys, settings and the other decisions of people.
func (h *testEnv) addDecisions() {
	h.t.Helper()
	ctx := h.t.Context()
	for _, name := range []string{"gil", "kim"} {
		if _, _, err := operator.CreateKey(ctx, h.db, audit.Operator("cli"), name); err != nil {
			h.t.Fatal(err)
		}
	}
	if _, _, err := operator.RollKey(ctx, h.db, audit.Operator("cli"), "gil"); err != nil {
		h.t.Fatal(err)
	}
	if _, err := operator.RevokeKey(ctx, h.db, audit.Operator("cli"), "kim"); err != nil {
		h.t.Fatal(err)
	}
	key, err := org.RollKey(ctx, h.db, audit.Operator("cli"), h.org)
	if err != nil {
		h.t.Fatal(err)
	}
	h.system(func(ctx context.Context, tx pg.Tx) error {
		_, err := org.ChangeSettings(ctx, tx, audit.Operator("cli"), h.org,
			org.Changes{"additionalApiKeys": []byte(`true`)})
		return err
	})
	main, err := apikey.NewAuthenticator(h.db).Authenticate(ctx, key.Reveal(), netip.Addr{})
	if err != nil {
		h.t.Fatal(err)
	}
	// Two keys, of which one is rolled and one deleted.
	for i := range 2 {
		made, _, err := apikey.Create(ctx, h.db, main, apikey.NewKey{Name: "reporting", Scope: identity.ScopeRead})
		if err == nil && i == 0 {
			_, _, err = apikey.Roll(ctx, h.db, main, made.ID, 60)
		} else if err == nil {
			err = apikey.Delete(ctx, h.db, main, made.ID)
		}
		if err != nil {
			h.t.Fatal(err)
		}
	}
	h.system(func(ctx context.Context, tx pg.Tx) error {
		if _, err := member.Add(
			ctx, tx, audit.Operator("cli"), h.org, "eve@example.com", "eve", identity.Owner,
		); err != nil {
			return err
		}
		for _, c := range []org.Changes{
			{
				"customerWithdrawUsdThreshold": []byte(`"10.50"`),
				"screeningSeverityThreshold":   []byte(`"LOW"`), "ipAllowlist": []byte(`["10.0.0.0/8", "::1.2.3.4"]`),
				"approvalQuorum": []byte(`3`),
			},
			{
				"customerWithdrawUsdThreshold": []byte(`"20"`),
				"approvalAllowlist": []byte(
					`[{"email":"Z@example.com"},{"email":"a@example.com","customerId":"ann"}]`,
				),
				"swappableMintIds": []byte(`[2,1]`), "screeningSeverityThreshold": []byte(`null`),
			},
		} {
			if _, err := org.ChangeSettings(ctx, tx, audit.Operator("cli"), h.org, c); err != nil {
				return err
			}
		}
		return nil
	})
	h.exec(`INSERT INTO webhook_endpoints (endpoint_id, org_id, url, events, status, api_version, created_at, updated_at, deleted_at)
		VALUES ('we_gone', $1, 'https://example.com', '{}', 'PAUSED', '1', now(), now(), now())`, h.org)
	h.recordAudit("webhook_endpoint.created", "we_gone")
	h.recordAudit("webhook_endpoint.deleted", "we_gone")
	h.exec(`INSERT INTO change_requests (change_id, org_id, kind, before, wanted, author, author_key, created_at, expires_at, status, decided_by, decided_key, decided_at)
		VALUES ('chg_1', $1, 'SETTINGS', '{"approvalQuorum": 3}', '{"approvalQuorum": 2}', 'ann', 'opk_1', now(), now() + interval '1 day', 'WITHDRAWN', 'ann', 'opk_1', now())`,
		h.org)
	h.recordAudit("change.requested", "chg_1")
	h.recordAudit("change.withdrawn", "chg_1")
	h.exec(`INSERT INTO people (user_id, org_id, email, name, roles, created_at) VALUES
		('usr_asks', $1, 'asks@example.com', 'Ann', '{OWNER}', now()),
		('usr_decides', $1, 'decides@example.com', 'Ben', '{ADMIN}', now())`, h.org)
	h.recordAudit("person.added", "usr_asks")
	h.recordAudit("person.added", "usr_decides")
	h.exec(`
		INSERT INTO member_changes (change_id, org_id, before, wanted, requested_by, created_at, expires_at, status,
			decided_by, decided_at)
		VALUES ('mch_1', $1, '{"approvalQuorum": 3}', '{"approvalQuorum": 2}', 'usr_asks', now(),
			now() + interval '7 days', 'APPROVED', 'usr_decides', now())`, h.org)
	h.recordAudit("member_change.requested", "mch_1")
	h.recordAudit("member_change.approved", "mch_1")
}

// sealAudit gives every row of the audit log its place in the chain, and anchors the end of the
// chain with a signer.
func (h *testEnv) sealAudit() {
	h.t.Helper()
	sealer := audit.Sealer{DB: h.db}
	for {
		n, err := sealer.Step(h.t.Context())
		if err != nil {
			h.t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	s, key := signertest.New(h.t)
	if err := (&audit.Anchorer{DB: h.db, Signer: s, Key: key}).Step(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// runTampered runs the checks in a transaction of a role that no trigger and no privilege stops,
// and rolls the changes back.
func (h *testEnv) runTampered(sql ...string) (Report, error) {
	return h.runTamperedFor(checks, sql...)
}

// runTamperedFor is runTampered with some of the checks.
func (h *testEnv) runTamperedFor(made []Check, sql ...string) (Report, error) {
	tx, err := h.owner.Begin(h.t.Context())
	if err != nil {
		return Report{}, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.t.Context())) }()
	for _, s := range append([]string{`SET LOCAL session_replication_role = replica`}, sql...) {
		if _, err := tx.Exec(h.t.Context(), s); err != nil {
			return Report{}, fmt.Errorf("%.80s: %w", s, err)
		}
	}
	if _, err := tx.Exec(
		h.t.Context(), `SET LOCAL session_replication_role = origin; SET LOCAL ROLE coffer_reader`,
	); err != nil {
		return Report{}, err
	}
	return examineSnapshot(h.t.Context(), pg.Tx{Tx: tx, Now: time.Now()}, made)
}

// coins adds what happened on a chain with unspent outputs. A credited output is in the slot of a
// broadcast payment, the operator's own is free, and one is dust.
func (h *testEnv) coins(arrived func(
	id, wallet, purpose, contract string, mintID *int, amount, height int, status, chainStatus, action string,
),
	withdrawn func(mintID int, id string, amount int, status string, held bool, events ...string),
	ordered func(id, purpose, wallet string, to *string, mintID, amount int, status string, fee, gasReserved int),
) {
	h.t.Helper()
	for id, w := range map[string][2]string{
		"we_bdep": {"CUSTOMER_DEPOSIT", "ann"},
		"we_btre": {"TREASURY", ""}, "we_brest": {"CHANGE", "1"}, "we_bone": {"CHANGE", "2"},
		"we_bnext": {"CHANGE", "3"},
	} {
		h.exec(`INSERT INTO wallets VALUES ($1, $2, 'BITCOIN', $3, $4, $1, '0x' || $1, '', now())`, id, h.org, w[0],
			w[1])
		h.recordAudit("wallet.issued", id)
	}
	three := 3
	arrived("dep_btc", "we_bdep", "CUSTOMER_DEPOSIT", "", &three, 1000, 11, "CREDITED", "FINALIZED", "credited")
	arrived("dep_sats", "we_btre", "TREASURY", "", &three, 100, 12, "CREDITED", "FINALIZED", "credited")
	arrived("dep_grain", "we_bdep", "CUSTOMER_DEPOSIT", "", &three, 1, 13, "BELOW_MINIMUM", "FINALIZED",
		"below_minimum")
	h.exec(`INSERT INTO finality_proofs (chain, height, hash, parent, block_time, providers, verified, created_at, fork)
		SELECT 'BITCOIN', height, hash, parent, block_time, providers, verified, created_at, 0 FROM finality_proofs WHERE fork = 1`)
	h.exec(`INSERT INTO scan_cursors VALUES ('BITCOIN', 14, 'h14', now())`)
	h.exec(
		`UPDATE deposits d SET chain = 'BITCOIN', position = '0', proof_id = p.proof_id FROM finality_proofs p WHERE p.chain = 'BITCOIN' AND p.height = d.height AND d.mint_id = 3`,
	)
	h.post(ledger.Deposit, "dep_btc", ledger.Leg{
		Debit: h.account(3, ledger.Custody, ""), Credit: h.account(3, ledger.Customer, "ann"),
		Amount: money.Units(1000),
	})
	h.post(ledger.Deposit, "dep_sats", ledger.Leg{
		Debit: h.account(3, ledger.Custody, ""), Credit: h.account(3, ledger.Gas, ""), Amount: money.Units(100),
	})
	h.insertEvent("CUSTOMER_DEPOSIT", "dep_btc", 1, 0)
	withdrawn(3, "wd_coin", 400, "BROADCAST", false, "")
	ordered("wd_coin", "PAYMENT", "we_btre", nil, 3, 400, "BROADCAST", 0, 20)
	h.exec(`UPDATE withdrawals SET chain = 'BITCOIN' WHERE withdrawal_id = 'wd_coin'`)
	h.exec(`UPDATE dispatch_orders SET chain = 'BITCOIN' WHERE order_id = 'wd_coin'`)
	h.exec(
		`UPDATE dispatch_slots SET chain = 'BITCOIN', slot_key = 'tx_dep_btc:0:1000:0xwe_bdep 0xwe_brest' WHERE order_id = 'wd_coin'`,
	)
	h.exec(`INSERT INTO utxos (chain, outpoint, org_id, wallet_id, mint_id, amount, status, deposit_id, order_id, proof_id, height, created_at)
		SELECT chain, tx_hash || ':0', org_id, wallet_id, mint_id, amount, CASE deposit_id WHEN 'dep_btc' THEN 'RESERVED' WHEN 'dep_sats' THEN 'FREE' ELSE 'HELD' END,
			deposit_id, CASE deposit_id WHEN 'dep_btc' THEN 'wd_coin' END, proof_id, height, now() FROM deposits WHERE mint_id = 3`)
	h.exec(`INSERT INTO address_funds (wallet_id, mint_id, org_id, credited, reserved, gas, gas_reserved, dust) VALUES
		('we_btre', 3, $1, 1000, 400, 100, 20, 0), ('we_bdep', 3, $1, 0, 0, 0, 0, 1)`, h.org)
	h.exec(`INSERT INTO dispatch_orders (order_id, org_id, purpose, chain, wallet_id, to_wallet_id, to_address, mint_id, contract, amount, status, attempt_after, created_at, trigger)
		VALUES ('mg_open', $1, 'MERGE', 'BITCOIN', 'we_btre', 'we_bone', '0xwe_bone', 3, '', 0, 'QUEUED', now(), now(), 'VALUE')`,
		h.org)
	h.insertCause("mg_open")
}

// insertCause inserts the row that planned an order, if the order is internal.
func (h *testEnv) insertCause(orderID string) {
	h.t.Helper()
	h.exec(`INSERT INTO internal_orders SELECT order_id, org_id, purpose, trigger FROM dispatch_orders WHERE order_id = $1 AND trigger IS NOT NULL`, orderID)
}
