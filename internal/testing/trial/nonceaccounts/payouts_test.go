package nonceaccounts

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/payout"
	"github.com/cofferpay/coffer/internal/payout/rowfile"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/transfer"
)

// What the product BATCH_PAYOUT has.
const (
	batchLamports = surfpool.LamportsPerSOL
	batchUnits    = 50_000_000
)

var usdcMint = surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}

// payRow is a row of a batch. Its payee had a balance before.
type payRow struct {
	key    ed25519.PrivateKey
	units  uint64
	before uint64
}

func (r payRow) to() chain.Address { return surfpool.AddressOf(r.key) }

// newBatchEnv creates a service whose product BATCH_PAYOUT has both coins, and whose signer checks grants.
func newBatchEnv(t *testing.T) *testEnv {
	t.Helper()
	grants, err := signer.NewGrantKey(slices.Repeat([]byte{7}, signer.GrantKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	w := newGrantedEnv(t, 4, grants)
	w.fundTreasury()
	_, err = w.node.PayToken(w.ctx, surfpool.USDC, w.ann.Address, 2*batchUnits)
	w.mustSucceed(err)
	w.settleAll()
	w.settleAll()
	for mintID, amount := range map[int]uint64{sol: batchLamports, usdc: batchUnits} {
		_, err = w.Transfers.Request(w.ctx, w.org, transfer.Request{
			MintID: mintID, Amount: fmt.Sprint(amount), From: transfer.Party{CustomerID: new("ann")},
			To:             transfer.Party{Product: new(string(ledger.BatchProduct))},
			IdempotencyKey: fmt.Sprint("fund-", mintID), Actor: audit.APIKey(w.org),
		})
		w.mustSucceed(err)
	}
	return w
}

// newRows returns rows to new payees. Those of the token have an account with a unit in it.
func (w *testEnv) newRows(mintID, n int, units uint64) (rows []payRow) {
	w.Helper()
	for range n {
		k, err := surfpool.NewKey()
		w.mustSucceed(err)
		r := payRow{key: k, units: units + uint64(len(rows))}
		if mintID == usdc {
			_, err := w.node.PayLamports(w.ctx, r.to(), surfpool.LamportsPerSOL)
			w.mustSucceed(err)
			_, err = w.node.PayToken(w.ctx, surfpool.USDC, r.to(), 1)
			w.mustSucceed(err)
			r.before = 1
		}
		rows = append(rows, r)
	}
	w.mineBlocks(2)
	return rows
}

// approvedBatch returns the id of a batch that people approved and whose rows are orders.
func (w *testEnv) approvedBatch(mintID int, rows []payRow) string {
	w.Helper()
	var list []string
	var ticked []int
	for i, r := range rows {
		ticked = append(ticked, i+1)
		list = append(list, fmt.Sprintf(`{"mintId":%d,"toAddress":%q,"amount":"%d"}`, mintID, r.to(), r.units))
	}
	lines, err := rowfile.ReadJSON([]byte("[" + strings.Join(list, ",") + "]"))
	w.mustSucceed(err)
	b, err := w.Payouts.Create(w.ctx, w.org, payout.CreateRequest{Lines: lines, Actor: audit.User("usr_maker")})
	w.mustSucceed(err)
	_, err = w.Payouts.Submit(w.ctx, w.org, b.ID, payout.SubmitRequest{
		ContentHash: b.ContentHash, Ticked: ticked, Actor: audit.User("usr_maker"),
	})
	w.mustSucceed(err)
	w.mustSucceed(w.Payouts.Validate(w.ctx, w.org, b.ID))
	_, err = w.Payouts.Approve(w.ctx, w.org, b.ID, b.ContentHash, audit.User("usr_approver"))
	w.mustSucceed(err)
	w.mustSucceed(w.Payouts.Expand(w.ctx, w.org, b.ID))
	return b.ID
}

func (w *testEnv) rowID(batchID string, row int) string {
	return signer.BatchWithdrawalID(w.org, batchID, row)
}

// readSlots returns how many payments the slots of a batch make, the largest first.
func (w *testEnv) readSlots(batchID string) (sizes []int) {
	w.Helper()
	w.mustSucceed(w.db.ReadSystem(w.ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `
			SELECT coalesce(array_agg(s.orders ORDER BY s.orders DESC), '{}')
			FROM dispatch_slots s JOIN dispatch_orders o USING (order_id)
			WHERE o.batch->>'batchId' = $1`, batchID).Scan(&sizes)
	}))
	return sizes
}

func (w *testEnv) wantSlots(batchID string, want ...int) {
	w.Helper()
	if got := w.readSlots(batchID); !slices.Equal(got, want) {
		w.Errorf("got slots of %v payments, want %v", got, want)
	}
}

// wantRows checks that each payee received the amount once, except for some that received nothing.
func (w *testEnv) wantRows(mintID int, batchID string, rows []payRow, unpaid ...int) {
	w.Helper()
	for i, r := range rows {
		want, status := r.before+r.units, "COMPLETED"
		if slices.Contains(unpaid, i+1) {
			want, status = r.before, "FAILED"
		}
		if got := w.chainBalance(r.to(), mintID); got != want {
			w.Errorf("row %d: its payee has %d, want %d", i+1, got, want)
		}
		w.wantText(fmt.Sprint("row ", i+1), status, `SELECT status FROM withdrawals WHERE withdrawal_id = $1`,
			w.rowID(batchID, i+1))
	}
}

// Rows of a batch in SOL leave together, and so do rows in a token whose payees have accounts for it. What needs an
// account, what is less than an account has to hold, and a customer's payment are alone.
// Rules BP-20, BP-40, BP-41 and BP-42.
func TestRowsOfABatchShareATransactionOnSolana(t *testing.T) {
	t.Parallel()
	w := newBatchEnv(t)
	coins := w.newRows(sol, 20, solanatx.WalletRent)
	coins[4].units = 1000 // too little for others to depend on its payee
	_, err := w.node.PayLamports(w.ctx, coins[4].to(), solanatx.WalletRent)
	w.mustSucceed(err)
	coins[4].before = solanatx.WalletRent
	tokens := w.newRows(usdc, 18, 1000)
	key, err := surfpool.NewKey() // without an account
	w.mustSucceed(err)
	tokens[7] = payRow{key: key, units: 5000}
	w.mineBlocks(2)
	paidCoins, paidTokens := w.approvedBatch(sol, coins), w.approvedBatch(usdc, tokens)
	single, _ := w.requestWithdrawal(sol, 900_000)
	other, _ := w.requestWithdrawal(sol, 900_001)
	for range 4 {
		w.settleAll()
	}
	w.wantSlots(paidCoins, 19, 1)
	w.wantSlots(paidTokens, 17, 1)
	w.wantRows(sol, paidCoins, coins)
	w.wantRows(usdc, paidTokens, tokens)
	for _, id := range []string{single, other} {
		w.wantText("a customer's payment", "PAID 1",
			`SELECT o.status || ' ' || s.orders
			FROM dispatch_orders o JOIN dispatch_slots s USING (order_id) WHERE order_id = $1`, id)
	}
	for name, c := range map[string]struct {
		batchID        string
		row, orders    int
		lamportsAtMost int
	}{
		"SOL together":  {paidCoins, 1, 19, 350},
		"SOL alone":     {paidCoins, 5, 1, 5_060},
		"USDC together": {paidTokens, 1, 17, 350},
		"a new account": {paidTokens, 8, 1, 5_400 + solanatx.TokenAccountRent},
	} {
		n := w.queryNumber(`SELECT fee::int FROM dispatch_orders WHERE order_id = $1`, w.rowID(c.batchID, c.row))
		t.Logf("%s: %d lamports", name, n)
		if n == 0 || n > c.lamportsAtMost {
			t.Errorf("%s: got a fee of %d lamports, want at most %d", name, n, c.lamportsAtMost)
		}
	}
	if n := w.queryNumber(`
		SELECT count(*) FROM dispatch_orders l
		JOIN dispatch_orders r ON r.tx_lead_id = l.order_id AND r.tx_hash = l.tx_hash
		WHERE r.fee <= l.fee AND l.fee < r.fee + 19 AND l.batch IS NOT NULL`); n != 18+16 {
		t.Errorf("got %d rows that share the fee of their transaction evenly, want 34", n)
	}
	w.checkBooks()
}

// A payee whose account is frozen or closed between the simulation and the block fails all rows of the transaction,
// with the proof of the block and for one fee. Their amounts are spendable again. Rule BP-26.
func TestAGroupThatFailsOnSolanaFailsAsAWhole(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(w *testEnv, r payRow){
		"frozen": func(w *testEnv, r payRow) {
			_, err := w.node.SendAndCheck(w.ctx, surfpool.Transaction{
				Keys: []ed25519.PrivateKey{w.node.FaucetPrivateKey()},
				Instructions: []surfpool.Instruction{
					usdcMint.FreezeAccount(usdcMint.AssociatedAccount(r.to()), w.node.FaucetAddress()),
				},
			})
			w.mustSucceed(err)
		},
		"closed": func(w *testEnv, r payRow) { w.closeTokenAccount(r.key) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newBatchEnv(t)
			rows := w.newRows(usdc, 6, 1000)
			w.crashPlan.silent = true
			b := w.approvedBatch(usdc, rows)
			w.mustRunAll()
			w.wantSlots(b, 6)
			change(w, rows[3])
			if name == "closed" {
				rows[3].before = 0
			}
			w.mineBlocks(1)
			w.crashPlan.silent = false
			w.advanceClock(10 * time.Second)
			w.mustRunAll()
			const group = `SELECT %s FROM dispatch_orders o JOIN dispatch_slots s USING (order_id) WHERE s.orders = 6`
			lead, key := w.queryText(fmt.Sprintf(group, "order_id")), w.queryText(fmt.Sprintf(group, "slot_key"))
			hash := w.queryText(`SELECT tx_hash FROM dispatch_attempts WHERE order_id = $1`, lead)
			w.mustSucceed(w.node.AdvanceFailedNonce(w.ctx, chain.TxHash(hash), key))
			for range 2 {
				w.settleAll()
			}
			w.wantRows(usdc, b, rows, 1, 2, 3, 4, 5, 6)
			w.wantText("failed with a proof", "6", `
				SELECT count(*) FROM dispatch_orders
				WHERE batch IS NOT NULL AND status = 'FAILED' AND proof_id IS NOT NULL AND NOT payee_failed`)
			w.wantText("one transaction", "1", `
				SELECT count(*) FROM dispatch_attempts a JOIN dispatch_orders USING (order_id) WHERE batch IS NOT NULL`)
			w.wantBalance("PRODUCT", string(ledger.BatchProduct), fmt.Sprint(batchUnits))
			w.checkBooks()
		})
	}
}

// A payee who closes the account after the look at it and before the simulation is paid alone, in a new account. The
// group was halved before anything was admitted, and its other rows are paid together. Rule BP-44.
func TestAGroupThatTheSimulationRefusesIsHalved(t *testing.T) {
	t.Parallel()
	w := newBatchEnv(t)
	rows := w.newRows(usdc, 8, 1000)
	b := w.approvedBatch(usdc, rows)
	rows[4].before = 0
	calls := len(w.crashPlan.calls)
	w.afterLook = func() { w.closeTokenAccount(rows[4].key); w.mineBlocks(1) }
	w.mustRunAll()
	made := w.crashPlan.calls[calls:]
	if first := slices.Index(made, "admit"); first < 2 || made[0] != "quote" || made[1] != "quote" {
		t.Errorf("got the calls %v, want two quotes before the first row is admitted", made)
	}
	for range 3 {
		w.settleAll()
	}
	sizes := w.readSlots(b)
	if sizes[0] != 4 || len(sizes) < 3 || sizes[len(sizes)-1] != 1 {
		t.Errorf("got slots of %v payments, want four together and one alone", sizes)
	}
	w.wantRows(usdc, b, rows)
	w.checkBooks()
}

// The signer refuses a row that was changed in the database after the approval; the other rows are paid together.
// Rules BP-3 and BP-43.
func TestARowThatWasChangedIsNotPaidWithTheOthers(t *testing.T) {
	t.Parallel()
	w := newBatchEnv(t)
	rows := w.newRows(usdc, 6, 1000)
	thief := rows[5]
	rows = rows[:5]
	b := w.approvedBatch(usdc, rows)
	tx, err := pgtest.OwnerPool(t, w.db).Begin(w.ctx)
	w.mustSucceed(err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(w.ctx)) }()
	for _, sql := range []string{
		`SET LOCAL session_replication_role = replica`,
		fmt.Sprintf(`UPDATE dispatch_orders SET to_address = '%s' WHERE order_id = '%s'`, thief.to(), w.rowID(b, 2)),
	} {
		_, err := tx.Exec(w.ctx, sql)
		w.mustSucceed(err)
	}
	w.mustSucceed(tx.Commit(w.ctx))
	for range 2 {
		w.settleAll()
	}
	w.wantSlots(b, 4)
	w.wantText("the changed row", "REFUSED", `SELECT status FROM dispatch_orders WHERE order_id = $1`, w.rowID(b, 2))
	for i, r := range append(slices.Clone(rows), thief) {
		want := r.before + r.units
		if i == 1 || i == 5 {
			want = r.before
		}
		if got := w.chainBalance(r.to(), usdc); got != want {
			t.Errorf("row %d: its payee has %d, want %d", i+1, got, want)
		}
	}
}
