package forks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/scan"
)

// Rules DEP-3 and DEP-9, at every depth below finality.
func TestADepositThatAForkOfAnyDepthRemovesIsNeverCredited(t *testing.T) {
	t.Parallel()
	w := newForkEnv(t, confirmations)
	ann := *addressOf(w.ann.Address)
	w.walkAll()
	var paid []*types.Transaction
	for i := range confirmations {
		paid = append(paid, w.sendPayment(i%outsiders, w.token, 0, transferData(ann, int64(1000+i))))
		w.mineBlocks(1)
	}
	w.walkAll()
	for depth := 1; depth <= confirmations; depth++ {
		w.replaceBlocks(depth)
		if moved, err := w.Walker.StepHead(w.ctx); err != nil || !moved {
			t.Fatalf("depth %d: got %v, %v, want the fork to be followed", depth, moved, err)
		}
		gone := w.depositsByTx(paid[confirmations-depth].Hash())
		if len(gone) != 1 || gone[0].Status != "ORPHANED" || gone[0].ChainStatus != "REORGED" {
			t.Errorf("depth %d: got %+v, want it ORPHANED", depth, gone)
		}
		if n := w.queryNumber(`SELECT count(*) FROM deposits WHERE status = 'CONFIRMING'`); n != confirmations-depth {
			t.Errorf("depth %d: got %d still CONFIRMING, want %d", depth, n, confirmations-depth)
		}
	}
	w.mineBlocks(confirmations)
	w.walkAll()
	if n := w.queryNumber(`SELECT count(*) FROM deposits WHERE status = 'ORPHANED'`); n != confirmations {
		t.Errorf("got %d ORPHANED, want all %d", n, confirmations)
	}
	if n := w.queryNumber(`SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
	if n := w.queryNumber(`SELECT count(*) FROM events`); n != 0 {
		t.Errorf("got %d events, want none: nobody is told of what never was", n)
	}
	w.checkBooks()
}

// Rules DEP-4, DEP-5 and DEP-9: one fork, and seven things that it may do to a transfer. A credit
// has the attributes of the transfer's last position.
func TestAForkMayRemoveMoveOrReplaceADeposit(t *testing.T) {
	t.Parallel()
	w := newForkEnv(t, confirmations)
	ann, elsewhere := *addressOf(w.ann.Address), w.node.FaucetAddress()
	w.walkAll()
	for _, depth := range []int{1, 9, confirmations} {
		units := int64(depth) * 100_000
		removed := w.sendPayment(0, w.token, 0, transferData(ann, units+1))
		stays := w.sendPayment(1, w.token, 0, transferData(ann, units+2))
		later := w.sendPayment(2, w.token, 0, transferData(ann, units+3))
		less := w.sendPayment(3, w.token, 0, transferData(ann, units+4))
		away := w.sendPayment(4, w.token, 0, transferData(ann, units+5))
		inside := w.sendPayment(5, w.batch, units+6, evmtoken.Batch.CallData("forward", ann))
		behind := w.sendPayment(6, w.token, 0, transferData(ann, units+7))
		noise := w.signTransaction(w.payers[7], w.pendingNonce(w.payers[7]), w.token, 0, transferData(elsewhere, 1))
		w.mineBlocks(depth)
		w.walkHead()
		was := w.depositsByTx(behind.Hash())
		if len(was) != 1 {
			t.Fatalf("depth %d: got %+v, want it shown", depth, was)
		}

		paysLess := w.signTransaction(w.payers[3], less.Nonce(), w.token, 0, transferData(ann, units+3))
		paysElsewhere := w.signTransaction(w.payers[4], away.Nonce(), w.token, 0, transferData(elsewhere, units+5))
		w.replaceBlocks(
			depth, reorgTransaction(noise, 0), reorgTransaction(stays, 0), reorgTransaction(behind, 0),
			reorgTransaction(paysLess, 0), reorgTransaction(paysElsewhere, 0), reorgTransaction(later, depth-1),
			reorgTransaction(inside, depth-1),
		)
		w.walkHead()
		w.mineBlocks(confirmations)
		w.walkAll()
		for tx, what := range map[*types.Transaction]string{
			removed: "removed", less: "replaced by less", away: "replaced by another payment",
		} {
			if got := w.depositsByTx(tx.Hash()); len(got) != 1 || got[0].Status != "ORPHANED" {
				t.Errorf("depth %d, %s: got %+v, want it ORPHANED", depth, what, got)
			}
		}
		for tx, want := range map[*types.Transaction]int64{
			stays: units + 2, later: units + 3, inside: units + 6, behind: units + 7, paysLess: units + 3,
		} {
			w.wantCredited(tx, want)
		}
		if is := w.depositsByTx(behind.Hash()); is[0].ID != was[0].ID ||
			*is[0].LogIndex == *was[0].LogIndex {
			t.Errorf("depth %d: got %+v, want %+v at another place of its block", depth, is[0], was[0])
		}
	}
	w.checkBooks()
}

// wantCredited checks that a transaction's deposit is credited once, with the attributes of the
// block that has the transaction now.
func (w *forkEnv) wantCredited(tx *types.Transaction, units int64) {
	w.Helper()
	receipt, err := w.node.WaitReceipt(w.ctx, tx.Hash())
	w.mustSucceed(err)
	got := w.depositsByTx(tx.Hash())
	if len(got) != 1 || got[0].Status != "CREDITED" || got[0].Amount.String() != fmt.Sprint(units) ||
		got[0].BlockNumber != receipt.BlockNumber.Uint64() {
		w.Errorf("%s: got %+v, want %d CREDITED in block %v", tx.Hash(), got, units, receipt.BlockNumber)
		return
	}
	if len(receipt.Logs) > 0 && *got[0].LogIndex != uint64(receipt.Logs[0].Index) {
		w.Errorf("%s: got log %d, want %d", tx.Hash(), *got[0].LogIndex, receipt.Logs[0].Index)
	}
	if n := w.queryNumber(`SELECT count(*) FROM deposits d JOIN finality_proofs p USING (proof_id) WHERE tx_hash = $1 AND p.hash = $2 AND d.block_hash = p.hash`,
		tx.Hash().Hex(), receipt.BlockHash.Hex()); n != 1 {
		w.Errorf("%s: got %d deposits with the proof of its block, want one", tx.Hash(), n)
	}
}

// Rules WD-7 and WD-9, step W25: our own payment, in a block that a fork removes.
func TestAPaymentThatAForkTakesBackIsPaidOnce(t *testing.T) {
	t.Parallel()
	w := newFundedEnv(t, confirmations)
	for _, depth := range []int{2, confirmations} {
		dropped, _ := w.requestWithdrawal(1_000_000)
		moved, _ := w.requestWithdrawal(2_000_000)
		w.runSteps()
		if n := w.queryNumber(`SELECT count(*) FROM dispatch_orders WHERE status = 'BROADCAST'`); n != 2 {
			t.Fatalf("depth %d: got %d out, want both", depth, n)
		}
		w.mineBlocks(depth)
		w.runSteps()
		// Both payments are removed, and the second one is in another block without the first: the
		// node refuses it, because its nonce is too high.
		w.replaceBlocks(depth)
		w.mineBlocks(1)
		w.runSteps()
		if got := w.loadWithdrawal(dropped).Status; got != "BROADCAST" {
			t.Errorf("depth %d: got %s, want it still BROADCAST", depth, got)
		}
		w.advanceClock(20 * time.Second) // time to send the same bytes again
		w.runSteps()
		w.mineBlocks(1)
		w.runSteps()
		// And once more, at another position.
		var again []anvil.ReorgTx
		noise := w.signTransaction(
			w.payers[0], w.pendingNonce(w.payers[0]), w.token, 0, transferData(w.node.FaucetAddress(), 1),
		)
		again = append(again, reorgTransaction(noise, 0))
		for _, tx := range w.ourLatest(2) {
			again = append(again, reorgTransaction(tx, 0))
		}
		w.replaceBlocks(1, again...)
		w.runSteps()
		w.mineBlocks(confirmations)
		w.runSteps()
		for _, id := range []string{dropped, moved} {
			if got := w.loadWithdrawal(id); got.Status != "COMPLETED" {
				t.Errorf("depth %d: got %+v, want it COMPLETED", depth, got)
			}
		}
		w.checkOracle()
	}
	if n := w.queryNumber(
		`SELECT count(*) FROM dispatch_attempts a JOIN dispatch_orders o USING (order_id) WHERE o.purpose = 'PAYMENT'`,
	); n != 4 {
		t.Errorf("got %d transactions signed for 4 payments, want the same bytes each time", n)
	}
	w.checkBooks()
}

// ourLatest returns the last transactions of the treasury, in the order of their nonces.
func (w *forkEnv) ourLatest(n int) (txs []*types.Transaction) {
	w.Helper()
	b, err := w.node.Eth.BlockByNumber(w.ctx, nil)
	w.mustSucceed(err)
	for _, tx := range b.Transactions() {
		from, err := types.Sender(types.LatestSignerForChainID(w.node.ChainID), tx)
		w.mustSucceed(err)
		if from == *addressOf(w.treasury.Address) {
			txs = append(txs, tx)
		}
	}
	if len(txs) != n {
		w.Fatalf("got %d transactions of ours in the last block, want %d", len(txs), n)
	}
	return txs
}

// Rule WD-7. Two versions of a payment are each mined on their own fork. The final one has paid,
// and the other one never does.
func TestOfTwoVersionsOfAPaymentOneIsFinal(t *testing.T) {
	t.Parallel()
	w := newFundedEnv(t, 8)
	for _, last := range []int{0, 1} {
		id, _ := w.requestWithdrawal(3_000_000)
		w.runSteps()
		w.advanceClock(2 * time.Minute)
		w.runSteps() // a higher fee
		versions := w.signedVersions(id)
		if len(versions) != 2 {
			t.Fatalf("got %d versions, want 2", len(versions))
		}
		w.mineBlocks(1)
		w.runSteps()
		for i := range 4 {
			w.replaceBlocks(1, anvil.ReorgTx{Raw: versions[(last+i+1)%2]})
			w.runSteps()
		}
		w.mineBlocks(8)
		w.runSteps()
		var tx types.Transaction
		w.mustSucceed(tx.UnmarshalBinary(versions[last]))
		got := w.loadWithdrawal(id)
		if got.Status != "COMPLETED" || string(*got.TxHash) != tx.Hash().Hex() {
			t.Errorf("got %+v, want it COMPLETED by %s", got, tx.Hash())
		}
		w.checkOracle()
	}
	w.checkBooks()
}

// signedVersions returns the signed transactions of a withdrawal.
func (w *forkEnv) signedVersions(id string) (raws [][]byte) {
	w.Helper()
	for v := 1; ; v++ {
		var b []byte
		if w.queryNumber(
			`SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND version = $2 AND raw IS NOT NULL`, id, v,
		) == 0 {
			return raws
		}
		w.mustSucceed(pgOwner(w).QueryRow(
			w.ctx, `SELECT raw FROM dispatch_attempts WHERE order_id = $1 AND version = $2`, id, v,
		).Scan(&b))
		raws = append(raws, b)
	}
}

// Rule DEP-11. A fork is 1 to 64 blocks deeper than finality. The service reverses nothing by
// itself, and credits and pays nothing more.
func TestAForkBelowACreditStopsTheChain(t *testing.T) {
	t.Parallel()
	const final = 4
	w := newFundedEnv(t, final)
	ann := *addressOf(w.ann.Address)
	var paid []*types.Transaction
	for i := range confirmations {
		paid = append(paid, w.sendPayment(i%outsiders, w.token, 0, transferData(ann, int64(1000+i))))
		w.mineBlocks(1)
	}
	w.mineBlocks(final)
	out, _ := w.requestWithdrawal(1_000_000)
	w.runSteps()
	w.mineBlocks(1)
	w.runSteps()
	// And the gas and the million.
	if n := w.queryNumber(`SELECT count(*) FROM deposits WHERE status = 'CREDITED'`); n != confirmations+2 {
		t.Fatalf("got %d credited, want all", n)
	}
	waits, _ := w.requestWithdrawal(2_000_000)
	before := w.dumpMoney()
	for depth := 1; depth <= confirmations; depth++ {
		// The fork has some of the same transfers again, in other blocks, as a double credit would
		// need.
		var again []anvil.ReorgTx
		for i := confirmations - depth; i < min(confirmations-depth+outsiders, confirmations); i++ {
			again = append(again, reorgTransaction(paid[i], 0))
		}
		w.replaceBlocks(final+1+depth, again...)
		w.mineBlocks(2)
		err := w.walkFinal()
		if !errors.Is(err, scan.ErrFinalityBroken) {
			t.Fatalf("depth %d: got %v, want ErrFinalityBroken", depth, err)
		}
		w.restHead()
		if depth%9 == 1 {
			w.runOtherSteps()
			w.advanceClock(time.Minute)
		}
		if after := w.dumpMoney(); after != before {
			t.Fatalf("depth %d: the books were\n%s\nand are\n%s", depth, before, after)
		}
		if got := w.loadWithdrawal(waits).Status; got != "PROCESSING" {
			t.Fatalf("depth %d: got %s, want the payment to wait", depth, got)
		}
	}
	if got := w.loadWithdrawal(out).Status; got != "BROADCAST" {
		t.Errorf("got %s, want what was out to stay so: no proof counts now", got)
	}
	if n := w.queryNumber(
		`SELECT count(*) FROM freezes WHERE scope = 'CHAIN' AND source = 'FINALITY' AND lifted_at IS NULL`,
	); n != 1 {
		t.Errorf("got %d freezes of the chain, want one", n)
	}
	if n := w.queryNumber(`SELECT count(*) FROM scan_findings WHERE kind = 'FINALITY_BROKEN'`); n == 0 {
		t.Error("got no finding for the operator")
	}
	if n := w.queryNumber(`SELECT count(*) FROM ledger_balances WHERE balance < 0`); n != 0 {
		t.Errorf("got %d balances below zero", n)
	}
}

// restHead lets the head walk report the contradiction, and runs it until nothing changes.
func (w *forkEnv) restHead() {
	w.Helper()
	for range 4 * confirmations {
		if moved, _ := w.Walker.StepHead(w.ctx); !moved {
			return
		}
	}
	w.Fatal("the head walk does not come to rest")
}

// runOtherSteps runs every part but the walks, which have stopped.
func (w *forkEnv) runOtherSteps() {
	w.Helper()
	for _, step := range w.ListSteps(nil) {
		if step.Name == "final walk" || step.Name == "head walk" {
			continue
		}
		if err := step.Run(w.ctx); err != nil {
			w.Fatalf("%s: %v", step.Name, err)
		}
	}
}

// TestRandomForksNeitherLoseNorDouble plays random forks, below finality, over deposits and
// payments. -v prints its seed; -forks.seed plays it again.
func TestRandomForksNeitherLoseNorDouble(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf(
		"seed %d (again: go test ./internal/testing/trial/forks -run Random -forks.seed %d -forks.rounds %d)", seed,
		seed,
		*roundsFlag,
	)
	const final = 6
	w := newFundedEnv(t, final)
	ann := *addressOf(w.ann.Address)
	for range *roundsFlag {
		for range rng.IntN(4) {
			switch payer, units := rng.IntN(outsiders), 1+rng.Int64N(1_000_000); rng.IntN(4) {
			case 0:
				w.sendPayment(payer, ann, units, nil)
			case 1:
				w.sendPayment(payer, w.batch, units, evmtoken.Batch.CallData("forward", ann))
			default:
				w.sendPayment(payer, w.token, 0, transferData(ann, units))
			}
		}
		if rng.IntN(2) == 0 {
			w.requestWithdrawal(1 + rng.Int64N(1_000_000))
		}
		if rng.IntN(4) == 0 {
			w.advanceClock(time.Duration(rng.IntN(90)) * time.Second)
		}
		w.runSteps()
		w.mineBlocks(1 + rng.IntN(4))
		if rng.IntN(3) > 0 {
			w.runSteps()
		}
		if rng.IntN(2) == 0 {
			w.shuffleBlocks(rng, 1+rng.IntN(final))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for range 40 {
		w.advanceClock(20 * time.Second)
		w.runSteps()
		w.mineBlocks(2)
		if w.queryNumber(`SELECT count(*) FROM dispatch_orders WHERE status NOT IN ('PAID', 'FAILED')`) == 0 &&
			w.queryNumber(`SELECT count(*) FROM deposits WHERE status IN ('CONFIRMING', 'SCREENING')`) == 0 {
			break
		}
	}
	if n := w.queryNumber(`SELECT count(*) FROM dispatch_orders WHERE status <> 'PAID'`); n != 0 {
		t.Errorf("seed %d: got %d orders that did not end, want all paid", seed, n)
	}
	w.checkBooks()
	w.checkOracle()
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
	t.Logf("%d deposits credited, %d orphaned, %d payments", w.queryNumber(
		`SELECT count(*) FROM deposits WHERE status = 'CREDITED'`,
	),
		w.queryNumber(`SELECT count(*) FROM deposits WHERE status = 'ORPHANED'`),
		w.queryNumber(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`))
}

// shuffleBlocks replaces the last blocks. Each of their transactions stays, moves to another block
// or is dropped. One of an external account may also get another transaction with its nonce.
func (w *forkEnv) shuffleBlocks(rng *rand.Rand, depth int) {
	w.Helper()
	head, err := w.node.Eth.BlockNumber(w.ctx)
	w.mustSucceed(err)
	type placed struct {
		anvil.ReorgTx
		order int
	}
	var txs []placed
	gone, last := map[common.Address]bool{}, map[common.Address]int{}
	signer := types.LatestSignerForChainID(w.node.ChainID)
	for offset := range depth {
		b, err := w.node.Eth.BlockByNumber(w.ctx, newInt(head-uint64(depth)+1+uint64(offset)))
		w.mustSucceed(err)
		for _, tx := range b.Transactions() {
			from, err := types.Sender(signer, tx)
			w.mustSucceed(err)
			to := max(offset, last[from])
			switch what := rng.IntN(10); {
			case gone[from]:
				continue
			case what < 3:
				gone[from] = true // its later nonces cannot be mined either
				continue
			case what < 6:
				to += rng.IntN(depth - to)
			case what < 7:
				if key := w.payerOf(from); key != nil {
					tx = w.signTransaction(
						key, tx.Nonce(), w.token, 0, transferData(*addressOf(w.ann.Address), 1+rng.Int64N(1_000_000)),
					)
				}
			}
			last[from] = to
			txs = append(txs, placed{reorgTransaction(tx, to), len(txs)})
		}
	}
	slices.SortFunc(txs, func(a, b placed) int {
		if a.Offset != b.Offset {
			return a.Offset - b.Offset
		}
		return a.order - b.order
	})
	var order []anvil.ReorgTx
	for _, tx := range txs {
		order = append(order, tx.ReorgTx)
	}
	w.replaceBlocks(depth, order...)
}
