package service

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/contenthash"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/signer/signpolicy"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/internal/withdrawal"
)

const (
	payoutUSDC  = 1
	payoutFunds = 100_000
)

var payees = []chain.Address{
	"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
}

var (
	batchMaker    = audit.Actor{Kind: "USER", ID: "usr_maker"}
	firstApprover = audit.Actor{Kind: "USER", ID: "usr_first"}
)

// payoutEnv is an organization with USDC in BATCH_PAYOUT, all of it at its treasury, and a signer that requires
// grants.
type payoutEnv struct {
	*testing.T
	*payout.Service
	withdrawals *withdrawal.Service
	signer      signer.Signer
	treasury    wallet.Wallet
	org         string
}

func newPayoutEnv(t *testing.T) *payoutEnv {
	t.Helper()
	return newUnapprovedEnv(t, nil)
}

// newUnapprovedEnv is newPayoutEnv with a signer that pays batches without a person within limits.
func newUnapprovedEnv(t *testing.T, limits map[chain.Address]signpolicy.UnapprovedLimit) *payoutEnv {
	t.Helper()
	grants := newPayoutGrants(t)
	sign, attest := signertest.NewWithUnapproved(t, grants, limits)
	return newPayoutEnvOf(t, grants, sign, attest)
}

func newPayoutGrants(t *testing.T) *signer.GrantKey {
	t.Helper()
	grants, err := signer.NewGrantKey(slices.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	return grants
}

// newPayoutEnvOf is newPayoutEnv with a signer that has the key of grants.
func newPayoutEnvOf(t *testing.T, grants *signer.GrantKey, sign signer.Signer, attest ed25519.PublicKey) *payoutEnv {
	t.Helper()
	db := pgtest.New(t)
	token := mint.Mint{
		ID: payoutUSDC, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: signertest.Token,
		Symbol: "USDC", Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
		MinDeposit: money.Units(1), MinWithdraw: money.Units(10), Finality: "FINALIZED",
	}
	native := token
	native.ID, native.Kind, native.Contract, native.Symbol, native.Name, native.Decimals = 2, mint.Native, "", "ETH",
		"Ether", 18
	if err := mint.Sync(t.Context(), db, []mint.Mint{token, native}); err != nil {
		t.Fatal(err)
	}
	made, _, err := org.Create(t.Context(), db, "house")
	if err != nil {
		t.Fatal(err)
	}
	wallets := wallet.New(db, sign, attest)
	if err := journal.Import(t.Context(), db, sign, wallets); err != nil {
		t.Fatal(err)
	}
	chains := chain.Chains{chain.Ethereum: {
		Name: chain.Ethereum, Network: chain.Local, AddressCodec: evmtx.AddressCodec{ChainID: signertest.ChainID},
	}}
	h := &payoutEnv{T: t, signer: sign, org: made.ID, withdrawals: &withdrawal.Service{
		DB: db, Chains: chains, Wallets: wallets, Events: wire.NewRecorder(), GrantKey: grants,
		Prices: price.Fixed{Prices: map[int]money.USD{payoutUSDC: money.MustParseUSD("1")}},
		Voider: &dispatch.Voider{DB: db, Signer: sign, Grants: grants, Log: slog.New(slog.DiscardHandler)},
	}}
	h.withdrawals.Voider.Listeners = map[signer.Purpose]dispatch.VoidListener{signer.Payment: h.withdrawals}
	h.Service = &payout.Service{
		DB: db, Chains: chains, Payments: batchPayments{h.withdrawals}, GrantKey: grants,
		Log: slog.New(slog.DiscardHandler),
	}
	h.withdrawals.Batches = batchBook{h.Service}
	if h.treasury, err = wallets.Treasury(t.Context(), h.org, chain.EVM); err != nil {
		t.Fatal(err)
	}
	err = db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		err := wallet.MoveFunds(ctx, tx, wallet.Movement{
			WalletID: h.treasury.ID, OrgID: h.org, MintID: payoutUSDC, Part: wallet.Credited,
			Plus: money.Units(payoutFunds),
		})
		if err != nil {
			return err
		}
		if _, _, err := customer.Ensure(ctx, tx, h.org, "payer", ""); err != nil {
			return err
		}
		return ledgertest.PostWithCauses(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Deposit, ID: "dep_batch"},
			Legs: []ledger.Leg{{
				Debit:  ledger.Account{OrgID: h.org, MintID: payoutUSDC, Kind: ledger.Custody},
				Credit: ledger.CustomerOwner("payer").SpendingAccount(h.org, payoutUSDC),
				Amount: money.Units(payoutFunds),
			}},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.InOrg(t.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO transfers (transfer_id, org_id, idempotency_key, request_digest, mint_id, amount, from_customer,
				to_product, created_at) VALUES ('tr_batch', $1, 'k', '', $2, $3, 'payer', 'BATCH_PAYOUT', $4)`,
			h.org, payoutUSDC, money.Units(payoutFunds), tx.Now)
		if err != nil {
			return err
		}
		return ledger.Post(ctx, tx, ledger.Posting{
			Cause: ledger.Cause{Kind: ledger.Transfer, ID: "tr_batch"},
			Legs: []ledger.Leg{{
				Debit:  ledger.CustomerOwner("payer").SpendingAccount(h.org, payoutUSDC),
				Credit: ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(h.org, payoutUSDC),
				Amount: money.Units(payoutFunds),
			}},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// list returns three rows as JSON; the amounts are 1000, 2000 and 3000.
func list(t *testing.T) []rowfile.Line {
	t.Helper()
	var rows []string
	for i, to := range payees {
		rows = append(rows, fmt.Sprintf(`{"reference":"inv-%d","mintId":1,"toAddress":%q,"amount":"%d"}`, i+1, to,
			1000*(i+1)))
	}
	lines, err := rowfile.ReadJSON([]byte("[" + strings.Join(rows, ",") + "]"))
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func (h *payoutEnv) must(b payout.Batch, err error) payout.Batch {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
	return b
}

func (h *payoutEnv) create() payout.Batch {
	h.Helper()
	return h.must(h.Create(h.Context(), h.org, payout.CreateRequest{Lines: list(h.T), Actor: batchMaker}))
}

// submit submits a batch and acknowledges the last one of the same list, if there is one.
func (h *payoutEnv) submit(batchID string, hash contenthash.Hash, actor audit.Actor) (payout.Batch, error) {
	h.Helper()
	r := payout.SubmitRequest{ContentHash: hash, Actor: actor}
	b, err := h.Submit(h.Context(), h.org, batchID, r)
	if fault.HasCode(err, fault.DuplicateBatch) {
		r.AcknowledgeDuplicateOf, _ = fault.Find(err).Extra["existingId"].(string)
		return h.Submit(h.Context(), h.org, batchID, r)
	}
	return b, err
}

// submitted returns a batch that waits for approval.
func (h *payoutEnv) submitted() payout.Batch {
	h.Helper()
	b := h.create()
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	if err := h.Validate(h.Context(), h.org, b.ID); err != nil {
		h.Fatal(err)
	}
	return h.must(h.ByID(h.Context(), h.org, b.ID))
}

func (h *payoutEnv) approved() payout.Batch {
	h.Helper()
	b := h.submitted()
	return h.must(h.Approve(h.Context(), h.org, b.ID, b.ContentHash, firstApprover))
}

// wantBalances checks what BATCH_PAYOUT may spend, what is held for batches and what for its withdrawals.
func (h *payoutEnv) wantBalances(name string, want ...string) {
	h.Helper()
	var got []string
	err := h.DB.ReadOrg(h.Context(), h.org, func(ctx context.Context, tx pg.Tx) error {
		got = nil
		for _, a := range []ledger.Account{
			ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(h.org, payoutUSDC),
			ledger.BatchOwner().SpendingAccount(h.org, payoutUSDC), ledger.BatchOwner().HeldAccount(h.org, payoutUSDC),
		} {
			balance, err := ledger.Balance(ctx, tx, a)
			if err != nil {
				return err
			}
			got = append(got, balance.String())
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		h.Errorf("%s: got %v, %v, want %v", name, got, err, want)
	}
}

func (h *payoutEnv) wantStatus(batchID string, want payout.Status) {
	h.Helper()
	if b := h.must(h.ByID(h.Context(), h.org, batchID)); b.Status != want {
		h.Errorf("got %s, %q, want %s", b.Status, b.Problem, want)
	}
}

// intents returns the intents of the orders of a batch, as dispatch makes them, in the order of the rows.
func (h *payoutEnv) intents(b payout.Batch) (intents []signer.Intent) {
	h.Helper()
	for row := range b.Header.Rows {
		i := signer.Intent{Purpose: signer.Payment, From: h.treasury.Ref()}
		err := pgtest.OwnerPool(h.T, h.DB).QueryRow(h.Context(), `
			SELECT order_id, chain, to_address, contract, amount, mint_id, coalesce(product, ''), key_hash,
				authority, batch
			FROM dispatch_orders WHERE batch->>'batchId' = $1 AND (batch->>'row')::int = $2`, b.ID, row+1).
			Scan(&i.ID, &i.Chain, &i.To, &i.Contract, &i.Amount, &i.MintID, &i.Product, &i.IdempotencyKeyHash,
				&i.Grant, &i.Batch)
		if err != nil {
			h.Fatalf("the order of row %d: %v", row+1, err)
		}
		intents = append(intents, i)
	}
	return intents
}

// endWithdrawals writes an end of the withdrawals of a batch, by row, as their orders do.
func (h *payoutEnv) endWithdrawals(b payout.Batch, statuses ...string) {
	h.Helper()
	tamper(h, `UPDATE withdrawals SET status = s.status, tx_hash = CASE s.status WHEN 'COMPLETED' THEN 'h' END,
		completed_at = now() FROM unnest($2::text[]) WITH ORDINALITY AS s (status, row)
		WHERE batch_id = $1 AND batch_row = s.row`, b.ID, statuses)
}

// wantAudited checks what the audit log has of a batch, in order: who did what.
func (h *payoutEnv) wantAudited(batchID string, want ...string) {
	h.Helper()
	rows, err := pgtest.OwnerPool(h.T, h.DB).Query(h.Context(), `
		SELECT actor_id || ' ' || action FROM audit_log WHERE resource_id = $1 ORDER BY audit_id`, batchID)
	if err != nil {
		h.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || !slices.Equal(got, want) {
		h.Errorf("got %v, %v, want %v", got, err, want)
	}
}

// tamper changes rows like one who has the database and stops its triggers.
func tamper(h *payoutEnv, sql string, args ...any) {
	h.Helper()
	tx, err := pgtest.OwnerPool(h.T, h.DB).Begin(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.Context())) }()
	if _, err := tx.Exec(h.Context(), `SET LOCAL session_replication_role = replica`); err != nil {
		h.Fatal(err)
	}
	if _, err := tx.Exec(h.Context(), sql, args...); err != nil {
		h.Fatalf("%.80s: %v", sql, err)
	}
	if err := tx.Commit(h.Context()); err != nil {
		h.Fatal(err)
	}
}

// A list becomes three withdrawals that the signer admits, once another person has approved its hash. Rules BP-4 to
// BP-6.
func TestABatchIsHeldApprovedAndPaidRowByRow(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.create()
	h.wantBalances("a draft holds nothing", "100000", "0", "0")
	other := b.ContentHash
	other[0] ^= 1
	if _, err := h.submit(b.ID, other, batchMaker); !fault.HasCode(err, fault.ApprovalRefused) {
		t.Errorf("another hash: got %v", err)
	}
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	if again := h.must(h.submit(b.ID, b.ContentHash, firstApprover)); again.Version != b.Version {
		t.Errorf("the submission again: got version %d, want %d", again.Version, b.Version)
	}
	h.wantBalances("a submitted batch holds its sum", "94000", "6000", "0")
	if err := h.WorkDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.wantStatus(b.ID, payout.AwaitingApproval)

	for name, c := range map[string]struct {
		actor audit.Actor
		hash  contenthash.Hash
	}{
		"the maker":    {batchMaker, b.ContentHash},
		"a program":    {audit.APIKey(h.org), b.ContentHash},
		"another hash": {firstApprover, other},
	} {
		if _, err := h.Approve(t.Context(), h.org, b.ID, c.hash, c.actor); !fault.HasCode(err, fault.ApprovalRefused) {
			t.Errorf("%s: got %v, want %s", name, err, fault.ApprovalRefused)
		}
	}
	b = h.must(h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover))
	if b.Status != payout.Processing {
		t.Fatalf("got %s, want %s", b.Status, payout.Processing)
	}
	for range 2 { // the second round finds the withdrawals of the first one
		if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
			t.Fatal(err)
		}
	}
	h.wantBalances("the rows are withdrawals", "94000", "0", "6000")
	for i, intent := range h.intents(b) {
		if intent.ID != signer.BatchWithdrawalID(h.org, b.ID, i+1) || intent.To != payees[i] {
			t.Errorf("row %d: got %s to %s", i+1, intent.ID, intent.To)
		}
		if _, err := h.signer.AdmitIntent(t.Context(), intent); err != nil {
			t.Errorf("row %d: %v", i+1, err)
		}
	}
	h.endWithdrawals(b, "COMPLETED", "COMPLETED", "PROCESSING")
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	h.wantStatus(b.ID, payout.Processing)
	h.endWithdrawals(b, "COMPLETED", "COMPLETED", "COMPLETED")
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	h.wantStatus(b.ID, payout.Completed)
	h.wantAudited(b.ID, "usr_maker payout.created", "usr_maker payout.submitted", "payout payout.checked",
		"usr_first payout.approved", "payout payout.completed")
}

// Whatever is changed in the database after the approval, the signer refuses. Rule BP-3.
func TestTheSignerPaysNoRowThatWasChangedAfterTheApproval(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	items := func(sql string) string {
		return `UPDATE payout_items SET ` + sql + ` WHERE batch_id = $1 AND row_no = 2`
	}
	for name, sql := range map[string]string{
		"the address":   items(`to_address = '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb'`),
		"the amount":    items(`amount = 1999`),
		"the reference": items(`reference = 'other'`),
		"the label":     items(`customer_id = 'other'`),
		"the salt":      items(`salt = '0123456789abcdef'`),
		"the rows swapped": `UPDATE payout_items SET to_address = CASE row_no WHEN 2
			THEN '` + string(payees[2]) + `' ELSE '` +
			string(payees[1]) + `' END, amount = 5000 - amount, reference = 'inv-' || (5 - row_no)
			WHERE batch_id = $1 AND row_no IN (2, 3)`,
		"the maker": `UPDATE payout_batches SET header = jsonb_set(header, '{madeBy}',
			'"USER usr_other"') WHERE batch_id = $1`,
		"the approver":                 `UPDATE payout_approvals SET approver_id = 'usr_other' WHERE batch_id = $1`,
		"the approval of another hash": `UPDATE payout_approvals SET mac = sha256(mac) WHERE batch_id = $1`,
		"no approval":                  `DELETE FROM payout_approvals WHERE batch_id = $1`,
	} {
		b := h.approved()
		tamper(h, sql, b.ID)
		if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, err := h.signer.AdmitIntent(t.Context(), h.intents(b)[1])
		var refusal *signer.Refusal
		if !errors.As(err, &refusal) || refusal.Code != signer.RefusedGrant {
			t.Errorf("%s: got %v, want %s", name, err, signer.RefusedGrant)
		}
	}
}

// A content hash that was changed after the approval gets no grant, so the signer is not even asked. Rule BP-67.
func TestAChangedContentHashIsNotGranted(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	tamper(h, `UPDATE payout_batches SET content_hash = sha256(content_hash) WHERE batch_id = $1`, b.ID)
	if err := h.Expand(t.Context(), h.org, b.ID); err == nil ||
		!strings.Contains(err.Error(), "were changed in the database: nothing of it is granted") {
		t.Errorf("got %v, want no grant", err)
	}
	var orders int
	err := pgtest.OwnerPool(t, h.DB).QueryRow(t.Context(), `SELECT count(*) FROM dispatch_orders
		WHERE batch->>'batchId' = $1`, b.ID).Scan(&orders)
	if err != nil || orders != 0 {
		t.Errorf("got %d orders, %v, want none", orders, err)
	}
}

// A row that was added after the approval leads to no approved hash, and the others are paid no more either.
func TestTheSignerPaysNoRowThatWasAdded(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.approved()
	tamper(h, `INSERT INTO payout_items SELECT batch_id, 4, org_id, line, salt, mint_id, chain, contract, to_address,
		amount,
		customer_id, reference, checked_at FROM payout_items WHERE batch_id = $1 AND row_no = 1`, b.ID)
	err := h.Expand(t.Context(), h.org, b.ID)
	if err == nil || !strings.Contains(err.Error(), "row 4") {
		t.Errorf("got %v: what is held does not cover row 4", err)
	}
	for i, intent := range h.intents(b) {
		_, err := h.signer.AdmitIntent(t.Context(), intent)
		var refusal *signer.Refusal
		if !errors.As(err, &refusal) || refusal.Code != signer.RefusedGrant {
			t.Errorf("row %d: got %v, want %s", i+1, err, signer.RefusedGrant)
		}
	}
}

// No person approves what the database shows differently from what was submitted. Rule BP-6.
func TestNoPersonApprovesRowsThatWereChanged(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	for name, sql := range map[string]string{
		"an amount":  `UPDATE payout_items SET amount = 1999 WHERE batch_id = $1 AND row_no = 2`,
		"the quorum": `UPDATE payout_batches SET approvals_required = 2 WHERE batch_id = $1`,
	} {
		b := h.submitted()
		tamper(h, sql, b.ID)
		if _, err := h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover); !fault.HasCode(err,
			fault.ApprovalRefused) {
			t.Errorf("%s: got %v, want %s", name, err, fault.ApprovalRefused)
		}
	}
}

// What is not paid is spendable again, once. Rule BP-5.
func TestWhatABatchDoesNotPayIsSpendableAgain(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	b := h.submitted()
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	h.must(h.Cancel(t.Context(), h.org, b.ID, batchMaker))
	h.wantBalances("cancelled", "100000", "0", "0")
	h.wantAudited(b.ID, "usr_maker payout.created", "usr_maker payout.submitted", "payout payout.checked",
		"usr_maker payout.cancelled")
	b = h.submitted()
	h.must(h.Reject(t.Context(), h.org, b.ID, "not this month", firstApprover))
	h.wantBalances("rejected", "100000", "0", "0")
	h.wantAudited(b.ID, "usr_maker payout.created", "usr_maker payout.submitted", "payout payout.checked",
		"usr_first payout.rejected")
	if _, err := h.Approve(t.Context(), h.org, b.ID, b.ContentHash, firstApprover); !fault.HasCode(err,
		fault.InvalidState) {
		t.Errorf("approved after its rejection: got %v", err)
	}

	b = h.approved()
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	tamper(h, `UPDATE dispatch_orders SET waiting_for = 'SIGNER' WHERE batch->>'batchId' = $1`, b.ID)
	for row := range 3 {
		_, err := h.withdrawals.Cancel(t.Context(), h.org, signer.BatchWithdrawalID(h.org, b.ID, row+1), firstApprover)
		if err != nil {
			t.Fatal(err)
		}
	}
	h.wantBalances("every withdrawal cancelled", "100000", "0", "0")
	if err := h.Expand(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	h.wantStatus(b.ID, payout.Failed)
	h.wantBalances("no row is paid again", "100000", "0", "0")
}

// A row that cannot be paid makes the batch invalid, and says why. Rule BP-4.
func TestABatchWithARowThatCannotBePaidIsInvalid(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	lines := list(t)
	own, err := rowfile.ReadJSON(fmt.Appendf(nil, `[{"mintId":1,"toAddress":%q,"amount":"50"}]`, h.treasury.Address))
	if err != nil {
		t.Fatal(err)
	}
	lines[1] = own[0]
	lines[1].Number = 2
	b := h.must(h.Create(t.Context(), h.org, payout.CreateRequest{Lines: lines, Actor: batchMaker}))
	b = h.must(h.submit(b.ID, b.ContentHash, batchMaker))
	if err := h.Validate(t.Context(), h.org, b.ID); err != nil {
		t.Fatal(err)
	}
	b = h.must(h.ByID(t.Context(), h.org, b.ID))
	if b.Status != payout.Invalid || !strings.HasPrefix(b.Problem, "Row 2: Payouts to this address are not allowed") {
		t.Errorf("got %s, %q", b.Status, b.Problem)
	}
	h.wantBalances("invalid", "100000", "0", "0")
}

func TestABatchNeedsItsWholeSum(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	lines, err := rowfile.ReadJSON(fmt.Appendf(nil, `[{"mintId":1,"toAddress":%q,"amount":"99000"},
		{"mintId":1,"toAddress":%q,"amount":"1001"}]`, payees[0], payees[1]))
	if err != nil {
		t.Fatal(err)
	}
	key := "k1"
	request := payout.CreateRequest{Lines: lines, IdempotencyKey: &key, Actor: batchMaker}
	b := h.must(h.Create(t.Context(), h.org, request))
	if again := h.must(h.Create(t.Context(), h.org, request)); again.ID != b.ID || again.ContentHash != b.ContentHash {
		t.Errorf("the key again: got %s, %v", again.ID, again.ContentHash)
	}
	other := request
	other.Lines = list(t)
	if _, err := h.Create(t.Context(), h.org, other); !fault.HasCode(err, fault.IdempotencyConflict) {
		t.Errorf("another list under the key: got %v", err)
	}
	_, err = h.submit(b.ID, b.ContentHash, batchMaker)
	if !fault.HasCode(err, fault.InsufficientBalance) {
		t.Fatalf("got %v, want %s", err, fault.InsufficientBalance)
	}
	want := []payout.Shortfall{{
		MintID: payoutUSDC, Needed: money.Units(100_001), Available: money.Units(payoutFunds), Missing: money.Units(1),
	}}
	if got := fault.Find(err).Details["shortfall"]; !slices.Equal(got.([]payout.Shortfall), want) {
		t.Errorf("got %v, want %v", got, want)
	}
	h.wantStatus(b.ID, payout.Draft)
	h.wantBalances("nothing is held", "100000", "0", "0")
}

func TestAListWithoutAReadableRowMakesNoBatch(t *testing.T) {
	t.Parallel()
	h := newPayoutEnv(t)
	lines, err := rowfile.ReadJSON([]byte(`[
		{"mintId":1,"toAddress":"0x12","amount":"5"},{"mintId":9,"toAddress":"x","amount":"1"},
		{"mintId":1,"toAddress":"` + string(payees[0]) + `","amount":"1,000"}]`))
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.Create(t.Context(), h.org, payout.CreateRequest{Lines: lines, Actor: batchMaker})
	if !fault.HasCode(err, fault.InvalidRequest) {
		t.Fatalf("got %v, want %s", err, fault.InvalidRequest)
	}
	rows := map[int]string{}
	for _, p := range fault.Find(err).Details[payout.ProblemsDetail].([]rowfile.Problem) {
		rows[p.Row] = p.Column
	}
	if want := map[int]string{1: "toAddress", 2: "mintId", 3: "amount"}; !maps.Equal(rows, want) {
		t.Errorf("got %v, want %v", rows, want)
	}
}
