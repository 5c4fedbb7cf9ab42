package tokens

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/transfer"
)

const rowUnits = 1000 // of the first row of a batch; each further one has a unit more

// newBatchEnv creates a service whose product BATCH_PAYOUT has 400,000, and whose signer checks grants.
func newBatchEnv(t *testing.T) *testEnv {
	t.Helper()
	grants, err := signer.NewGrantKey(slices.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	h := newGrantedEnv(t, grants, tokenList{usdc: newFiatToken})
	h.fundTreasury(usdc, evmtoken.FiatToken)
	_, err = h.Transfers.Request(h.ctx, h.org, transfer.Request{
		MintID: usdc, Amount: "400000", From: transfer.Party{CustomerID: new("ann")},
		To:             transfer.Party{Product: new(string(ledger.BatchProduct))},
		IdempotencyKey: "fund", Actor: audit.APIKey(h.org),
	})
	h.mustSucceed(err)
	return h
}

// deployPayouts deploys the payout contract, as an operator does.
func (h *testEnv) deployPayouts() {
	h.Helper()
	h.sendTransaction(payoutcontract.Deployer, 0, payoutcontract.DeploymentData())
	h.mine(1)
}

// usdcMint returns the token of the catalogue in which batches pay.
func (h *testEnv) usdcMint() (m mint.Mint) {
	h.Helper()
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		all, err := mint.LoadCatalogue(ctx, tx)
		m, _ = all.ByID(usdc)
		return err
	}))
	return m
}

// setAllowance grants or revokes the allowance of the treasury and waits for its end.
func (h *testEnv) setAllowance(isGranted bool) {
	h.Helper()
	id, err := h.Sweeper.SetAllowance(h.ctx, h.org, h.usdcMint(), isGranted, audit.Operator("op"))
	h.mustSucceed(err)
	n := h.number(`SELECT count(*) FROM audit_log WHERE action = 'allowance.requested' AND resource_id = $1`, id)
	if n != 1 {
		h.Errorf("got %d rows of the audit log for allowance %s, want 1", n, id)
	}
	h.settleAll()
	if got := h.orderStatus(id); got != "PAID" {
		h.Fatalf("got the allowance %s, want PAID", got)
	}
}

func batchPayee(row int) common.Address {
	return common.BigToAddress(big.NewInt(int64(0xba7c4000 + row)))
}

// approvedBatch returns the id of a batch that people approved and whose rows are orders.
func (h *testEnv) approvedBatch(rows int) string {
	h.Helper()
	var list []string
	var ticked []int // the addresses look alike
	for row := 1; row <= rows; row++ {
		ticked = append(ticked, row)
		list = append(list, fmt.Sprintf(`{"mintId":%d,"toAddress":%q,"amount":"%d"}`, usdc, batchPayee(row).Hex(),
			rowUnits+row))
	}
	lines, err := rowfile.ReadJSON([]byte("[" + strings.Join(list, ",") + "]"))
	h.mustSucceed(err)
	b, err := h.Payouts.Create(h.ctx, h.org, payout.CreateRequest{Lines: lines, Actor: audit.User("usr_maker")})
	h.mustSucceed(err)
	_, err = h.Payouts.Submit(h.ctx, h.org, b.ID, payout.SubmitRequest{
		ContentHash: b.ContentHash, Ticked: ticked, Actor: audit.User("usr_maker"),
	})
	h.mustSucceed(err)
	h.mustSucceed(h.Payouts.Validate(h.ctx, h.org, b.ID))
	_, err = h.Payouts.Approve(h.ctx, h.org, b.ID, b.ContentHash, audit.User("usr_approver"))
	h.mustSucceed(err)
	h.mustSucceed(h.Payouts.Expand(h.ctx, h.org, b.ID))
	return b.ID
}

func (h *testEnv) rowID(batchID string, row int) string {
	return signer.BatchWithdrawalID(h.org, batchID, row)
}

// wantSlots checks how many payments the slots of a batch make, the largest first.
func (h *testEnv) wantSlots(batchID string, want ...int) {
	h.Helper()
	var got []int
	h.mustSucceed(h.db.ReadSystem(h.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce(array_agg(s.orders ORDER BY s.orders DESC), '{}')
			FROM dispatch_slots s JOIN dispatch_orders o USING (order_id)
			WHERE o.batch->>'batchId' = $1`, batchID).Scan(&got)
	}))
	if !slices.Equal(got, want) {
		h.Errorf("got slots of %v payments, want %v", got, want)
	}
}

// wantRows checks that each row received its amount, except for some that received nothing, and that the contract
// holds nothing.
func (h *testEnv) wantRows(batchID string, rows int, unpaid ...int) {
	h.Helper()
	for row := 1; row <= rows; row++ {
		want, status := int64(rowUnits+row), "COMPLETED"
		if slices.Contains(unpaid, row) {
			want, status = 0, ""
		}
		h.wantChainBalance(usdc, batchPayee(row), want)
		if got := h.loadWithdrawal(h.rowID(batchID, row)).Status; status != "" && got != status {
			h.Errorf("row %d: got %s, want %s", row, got, status)
		}
	}
	h.wantChainBalance(usdc, payoutcontract.Address, 0)
	h.wantChainBalance(eth, payoutcontract.Address, 0)
}

// Rows of a batch leave together once the contract is deployed and allowed, and bear the fee in equal parts.
// Rules BP-20 and BP-22.
func TestRowsOfABatchShareATransactionOfThePayoutContract(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	h.setAllowance(true)
	b := h.approvedBatch(30)
	single := h.mustWithdraw("ann", usdc, "5000", shop) // a customer's payment is always alone
	h.settleAll()
	h.wantSlots(b, 24, 6)
	h.wantRows(b, 30)
	h.wantWithdrawal(single, "COMPLETED")
	if n := h.number(`SELECT orders FROM dispatch_slots WHERE order_id = $1`, single); n != 1 {
		t.Errorf("got a customer's payment with %d others, want it alone", n-1)
	}
	if n := h.number(`
		SELECT count(*) FROM dispatch_orders l
		JOIN dispatch_orders r ON r.tx_lead_id = l.order_id AND r.tx_hash = l.tx_hash
		WHERE r.fee <= l.fee AND l.fee < r.fee + 24`); n != 28 {
		t.Errorf("got %d rows that share the fee of their transaction evenly, want 28", n)
	}
	h.checkBooks()
}

// Where the contract is absent, has other code or is not allowed anything, rows are paid one by one and nothing else
// changes. Rules BP-22 and BP-25.
func TestWithoutTheContractRowsArePaidOneByOne(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(h *testEnv){
		"it is not deployed": func(*testEnv) {},
		"it is not allowed anything": func(h *testEnv) {
			h.deployPayouts()
			h.setAllowance(true)
			h.setAllowance(false)
		},
		"other code is at its address": func(h *testEnv) {
			h.deployPayouts()
			h.setAllowance(true)
			code := payoutcontract.RuntimeCode()
			code[len(code)-1] ^= 1
			h.mustSucceed(h.node.SetCode(h.ctx, payoutcontract.Address, code))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newBatchEnv(t)
			prepare(h)
			b := h.approvedBatch(4)
			h.settleAll()
			h.wantSlots(b, 1, 1, 1, 1)
			h.wantRows(b, 4)
			n := h.number(`SELECT count(*) FROM dispatch_orders WHERE purpose = 'ALLOWANCE' AND trigger = 'DEMAND'`)
			if n != 0 {
				t.Errorf("got %d allowances that no person asked for, want none", n)
			}
			h.checkBooks()
		})
	}
}

// The first batch of a token has the service grant the allowance, once. Rule BP-25.
func TestABatchHasTheAllowanceGrantedOnce(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	first := h.approvedBatch(3)
	h.settleAll()
	h.wantRows(first, 3)
	allowances := func() int64 {
		return h.number(`
			SELECT count(*) FROM payout_allowances WHERE is_granted AND status = 'DONE' AND trigger = 'DEMAND'`)
	}
	if n := allowances(); n != 1 {
		t.Fatalf("got %d allowances, want 1", n)
	}
	h.setAllowance(false)
	second := h.approvedBatch(4) // of three rows it would be the same list again
	h.settleAll()
	h.wantSlots(second, 1, 1, 1, 1)
	if n := allowances(); n != 1 {
		t.Errorf("after a person revoked it: got %d allowances, want 1", n)
	}
	h.checkBooks()
}

// A group that the chain would refuse is tried in halves before anything is signed: the row that fails
// holds up no other one. Rule BP-22.
func TestARowThatATokenRefusesHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	h.setAllowance(true)
	h.callToken(usdc, evmtoken.FiatToken, "blacklist", batchPayee(5))
	h.mine(1)
	b := h.approvedBatch(8)
	h.settleAll()
	h.wantRows(b, 8, 5)
	if n := h.number(`SELECT max(orders) FROM dispatch_slots`); n < 2 {
		t.Errorf("got at most %d rows together, want some that share a transaction", n)
	}
	h.checkBooks()
}

// A payee that is refused between the trial and the block fails all rows of the transaction, with the proof of the
// block. Their amounts are spendable again. Rule BP-26.
func TestAGroupThatRevertsFailsAsAWhole(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	h.setAllowance(true)
	b := h.approvedBatch(6)
	h.runAllSteps()
	h.wantSlots(b, 6)
	lead := h.word(`SELECT order_id FROM dispatch_slots JOIN dispatch_orders USING (order_id) WHERE orders = 6`)
	h.overtakePayment(lead, func() { h.callToken(usdc, evmtoken.FiatToken, "blacklist", batchPayee(4)) })
	h.settleAll()
	h.wantRows(b, 6, 1, 2, 3, 4, 5, 6)
	if n := h.number(`SELECT count(*) FROM dispatch_orders
		WHERE batch IS NOT NULL AND status = 'FAILED' AND proof_id IS NOT NULL AND NOT payee_failed`); n != 6 {
		t.Errorf("got %d rows that failed with a proof, want 6", n)
	}
	h.mustSucceed(h.db.ReadOrg(h.ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		got, err := ledger.Balance(ctx, tx, ledger.ProductOwner(ledger.BatchProduct).SpendingAccount(h.org, usdc))
		if err == nil && got.String() != "400000" {
			t.Errorf("got a balance of %v, want all of it spendable again", got)
		}
		return err
	}))
	h.checkBooks()
}

// forgetAllowance takes what the payout contract may move out of the token, as a token can whose contract is changed.
// The treasury sends nothing.
func (h *testEnv) forgetAllowance() {
	h.Helper()
	token := h.tokenAddresses[usdc]
	found := 0
	for slot := range int64(32) {
		at := crypto.Keccak256(common.LeftPadBytes(payoutcontract.Address[:], 32), crypto.Keccak256(
			common.LeftPadBytes(raw(h.treasury.Address).Bytes(), 32), common.BigToHash(big.NewInt(slot)).Bytes()))
		value, err := h.node.Eth.StorageAt(h.ctx, token, common.BytesToHash(at), nil)
		h.mustSucceed(err)
		if new(big.Int).SetBytes(value).Sign() == 0 {
			continue
		}
		found++
		h.mustSucceed(h.node.RPC.CallContext(h.ctx, nil, "anvil_setStorageAt", token, common.BytesToHash(at),
			common.Hash{}))
	}
	if found != 1 {
		h.Fatalf("got %d allowances in the token, want 1", found)
	}
}

// An allowance that is gone when the transaction of a group is mined fails all rows, with the proof of the block. Their
// amounts are spendable again, and what comes later is paid one by one. Rule BP-56.
func TestAnAllowanceThatDisappearsFailsItsGroupAndNothingElse(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	h.setAllowance(true)
	b := h.approvedBatch(6)
	h.runAllSteps()
	h.wantSlots(b, 6)
	lead := h.word(`SELECT order_id FROM dispatch_slots JOIN dispatch_orders USING (order_id) WHERE orders = 6`)
	h.overtakePayment(lead, h.forgetAllowance)
	h.settleAll()
	h.wantRows(b, 6, 1, 2, 3, 4, 5, 6)
	if n := h.number(`SELECT count(*) FROM dispatch_orders
		WHERE batch IS NOT NULL AND status = 'FAILED' AND proof_id IS NOT NULL AND NOT payee_failed`); n != 6 {
		t.Errorf("got %d rows that failed with a proof, want 6", n)
	}
	if n := h.number(`SELECT count(*) FROM withdrawals WHERE batch_id = $1 AND status = 'FAILED'`, b); n != 6 {
		t.Errorf("got %d withdrawals that failed, want 6", n)
	}
	if got := h.productBalance(string(ledger.BatchProduct), usdc); got != "400000" {
		t.Errorf("got a balance of %s, want all of it spendable again", got)
	}
	later := h.approvedBatch(4)
	for row := 1; row <= 4; row++ { // it looks like a payee of the first list, whom nothing reached
		_, err := h.Withdrawals.Approve(h.ctx, h.org, h.rowID(later, row), audit.User("usr_approver"))
		h.mustSucceed(err)
	}
	h.settleAll()
	h.wantSlots(later, 1, 1, 1, 1)
	h.wantRows(later, 4)
	h.checkBooks()
}

// Rows that come while a revocation is under way are paid one by one: the chain would revert their group. Rule BP-56.
func TestNoGroupIsMadeBehindARevocation(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	h.setAllowance(true)
	id, err := h.Sweeper.SetAllowance(h.ctx, h.org, h.usdcMint(), false, audit.Operator("op"))
	h.mustSucceed(err)
	h.runAllSteps()
	if got := h.orderStatus(id); got != "BROADCAST" {
		t.Fatalf("got the revocation %s, want BROADCAST", got)
	}
	b := h.approvedBatch(4)
	h.settleAll()
	h.wantSlots(b, 1, 1, 1, 1)
	h.wantRows(b, 4)
	h.checkBooks()
}

// The signer refuses a row that was changed in the database after the approval; the other rows are paid together.
// Rules BP-3 and BP-23.
func TestARowThatWasChangedIsNotPaidWithTheOthers(t *testing.T) {
	t.Parallel()
	h := newBatchEnv(t)
	h.deployPayouts()
	h.setAllowance(true)
	b := h.approvedBatch(5)
	tx, err := pgtest.OwnerPool(t, h.db).Begin(h.ctx)
	h.mustSucceed(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(h.ctx)) }()
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`,
		fmt.Sprintf(`UPDATE dispatch_orders SET to_address = '%s' WHERE order_id = '%s'`, shop.Hex(), h.rowID(b, 2)),
	} {
		_, err := tx.Exec(h.ctx, sql)
		h.mustSucceed(err)
	}
	h.mustSucceed(tx.Commit(h.ctx))
	h.settleAll()
	h.wantSlots(b, 4)
	h.wantRows(b, 5, 2)
	h.wantChainBalance(usdc, shop, 0)
	if got := h.orderStatus(h.rowID(b, 2)); got != "REFUSED" {
		t.Errorf("got the changed row %s, want REFUSED", got)
	}
}
