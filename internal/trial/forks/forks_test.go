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

// Rules DEP-3 and DEP-9: at every depth below finality.
func TestADepositThatAForkOfAnyDepthRemovesIsNeverCredited(t *testing.T) {
	t.Parallel()
	w := open(t, deepest)
	ann := *at(w.ann.Address)
	w.walk()
	var paid []*types.Transaction
	for i := range deepest {
		paid = append(paid, w.pay(i%outsiders, w.token, 0, dollars(ann, int64(1000+i))))
		w.mine(1)
	}
	w.walk()
	for depth := 1; depth <= deepest; depth++ {
		w.reorg(depth)
		if moved, err := w.Walk.Head(w.ctx); err != nil || !moved {
			t.Fatalf("depth %d: got %v, %v, want the fork to be followed", depth, moved, err)
		}
		gone := w.of(paid[deepest-depth].Hash())
		if len(gone) != 1 || gone[0].Status != "ORPHANED" || gone[0].ChainStatus != "REORGED" {
			t.Errorf("depth %d: got %+v, want it ORPHANED", depth, gone)
		}
		if n := w.number(`SELECT count(*) FROM deposits WHERE status = 'CONFIRMING'`); n != deepest-depth {
			t.Errorf("depth %d: got %d still CONFIRMING, want %d", depth, n, deepest-depth)
		}
	}
	w.mine(deepest)
	w.walk()
	if n := w.number(`SELECT count(*) FROM deposits WHERE status = 'ORPHANED'`); n != deepest {
		t.Errorf("got %d ORPHANED, want all %d", n, deepest)
	}
	if n := w.number(`SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
	if n := w.number(`SELECT count(*) FROM events`); n != 0 {
		t.Errorf("got %d events, want none: nobody is told of what never was", n)
	}
	w.agree()
}

// Rules DEP-4, DEP-5 and DEP-9: one fork, and seven things that it may do to a
// transfer. What is credited has the attributes of its last place.
func TestAForkMayRemoveMoveOrReplaceADeposit(t *testing.T) {
	t.Parallel()
	w := open(t, deepest)
	ann, elsewhere := *at(w.ann.Address), w.node.FaucetAddress()
	w.walk()
	for _, depth := range []int{1, 9, deepest} {
		units := int64(depth) * 100_000
		removed := w.pay(0, w.token, 0, dollars(ann, units+1))
		stays := w.pay(1, w.token, 0, dollars(ann, units+2))
		later := w.pay(2, w.token, 0, dollars(ann, units+3))
		less := w.pay(3, w.token, 0, dollars(ann, units+4))
		away := w.pay(4, w.token, 0, dollars(ann, units+5))
		inside := w.pay(5, w.batch, units+6, evmtoken.Batch.Call("forward", ann))
		behind := w.pay(6, w.token, 0, dollars(ann, units+7))
		noise := w.signed(w.payers[7], w.nonce(w.payers[7]), w.token, 0, dollars(elsewhere, 1))
		w.mine(depth)
		w.head()
		was := w.of(behind.Hash())
		if len(was) != 1 {
			t.Fatalf("depth %d: got %+v, want it shown", depth, was)
		}

		paysLess := w.signed(w.payers[3], less.Nonce(), w.token, 0, dollars(ann, units+3))
		paysElsewhere := w.signed(w.payers[4], away.Nonce(), w.token, 0, dollars(elsewhere, units+5))
		w.reorg(depth, raw(noise, 0), raw(stays, 0), raw(behind, 0), raw(paysLess, 0), raw(paysElsewhere, 0), raw(later, depth-1), raw(inside, depth-1))
		w.head()
		w.mine(deepest)
		w.walk()
		for tx, what := range map[*types.Transaction]string{removed: "removed", less: "replaced by less", away: "replaced by another payment"} {
			if got := w.of(tx.Hash()); len(got) != 1 || got[0].Status != "ORPHANED" {
				t.Errorf("depth %d, %s: got %+v, want it ORPHANED", depth, what, got)
			}
		}
		for tx, want := range map[*types.Transaction]int64{stays: units + 2, later: units + 3, inside: units + 6, behind: units + 7, paysLess: units + 3} {
			w.credited(tx, want)
		}
		if is := w.of(behind.Hash()); is[0].DepositID != was[0].DepositID || *is[0].LogIndex == *was[0].LogIndex {
			t.Errorf("depth %d: got %+v, want %+v at another place of its block", depth, is[0], was[0])
		}
	}
	w.agree()
}

// credited checks that a transaction's deposit is credited, once, as the block has it
// that the transaction is in now.
func (w *world) credited(tx *types.Transaction, units int64) {
	w.Helper()
	receipt, err := w.node.Receipt(w.ctx, tx.Hash())
	w.must(err)
	got := w.of(tx.Hash())
	if len(got) != 1 || got[0].Status != "CREDITED" || got[0].Amount != fmt.Sprint(units) || *got[0].BlockNumber != receipt.BlockNumber.Int64() {
		w.Errorf("%s: got %+v, want %d CREDITED in block %v", tx.Hash(), got, units, receipt.BlockNumber)
		return
	}
	if len(receipt.Logs) > 0 && *got[0].LogIndex != int64(receipt.Logs[0].Index) {
		w.Errorf("%s: got log %d, want %d", tx.Hash(), *got[0].LogIndex, receipt.Logs[0].Index)
	}
	if n := w.number(`SELECT count(*) FROM deposits d JOIN finality_proofs p USING (proof_id) WHERE tx_hash = $1 AND p.hash = $2 AND d.block_hash = p.hash`,
		tx.Hash().Hex(), receipt.BlockHash.Hex()); n != 1 {
		w.Errorf("%s: got %d deposits with the proof of its block, want one", tx.Hash(), n)
	}
}

// Rules WD-7 and WD-9, step W25: our own payment, in a block that a fork takes away.
func TestAPaymentThatAForkTakesBackIsPaidOnce(t *testing.T) {
	t.Parallel()
	w := furnish(t, deepest)
	for _, depth := range []int{2, deepest} {
		dropped, _ := w.ask(1_000_000)
		moved, _ := w.ask(2_000_000)
		w.work()
		if n := w.number(`SELECT count(*) FROM dispatch_orders WHERE status = 'BROADCAST'`); n != 2 {
			t.Fatalf("depth %d: got %d out, want both", depth, n)
		}
		w.mine(depth)
		w.work()
		// Both go, and the second one is back in another block without the first:
		// its nonce is not due, so that the node does not take it.
		w.reorg(depth)
		w.mine(1)
		w.work()
		if got := w.withdrawal(dropped).Status; got != "BROADCAST" {
			t.Errorf("depth %d: got %s, want it still BROADCAST", depth, got)
		}
		w.pass(20 * time.Second) // time to send the same bytes again
		w.work()
		w.mine(1)
		w.work()
		// And once more, at another place.
		var again []anvil.ReorgTx
		noise := w.signed(w.payers[0], w.nonce(w.payers[0]), w.token, 0, dollars(w.node.FaucetAddress(), 1))
		again = append(again, raw(noise, 0))
		for _, tx := range w.ourLatest(2) {
			again = append(again, raw(tx, 0))
		}
		w.reorg(1, again...)
		w.work()
		w.mine(deepest)
		w.work()
		for _, id := range []string{dropped, moved} {
			if got := w.withdrawal(id); got.Status != "COMPLETED" {
				t.Errorf("depth %d: got %+v, want it COMPLETED", depth, got)
			}
		}
		w.judge()
	}
	if n := w.number(`SELECT count(*) FROM dispatch_attempts a JOIN dispatch_orders o USING (order_id) WHERE o.purpose = 'PAYMENT'`); n != 4 {
		t.Errorf("got %d transactions signed for 4 payments, want the same bytes each time", n)
	}
	w.agree()
}

// ourLatest are the last transactions of the treasury, in the order of their nonces.
func (w *world) ourLatest(n int) (txs []*types.Transaction) {
	w.Helper()
	b, err := w.node.Eth.BlockByNumber(w.ctx, nil)
	w.must(err)
	for _, tx := range b.Transactions() {
		from, err := types.Sender(types.LatestSignerForChainID(w.node.ChainID), tx)
		w.must(err)
		if from == *at(w.treasury.Address) {
			txs = append(txs, tx)
		}
	}
	if len(txs) != n {
		w.Fatalf("got %d transactions of ours in the last block, want %d", len(txs), n)
	}
	return txs
}

// Rule WD-7: two versions of a payment, each mined on a fork of its own. Whichever
// is final has paid, and the other one never does.
func TestOfTwoVersionsOfAPaymentOneIsFinal(t *testing.T) {
	t.Parallel()
	w := furnish(t, 8)
	for _, last := range []int{0, 1} {
		id, _ := w.ask(3_000_000)
		w.work()
		w.pass(2 * time.Minute)
		w.work() // a higher fee
		versions := w.versions(id)
		if len(versions) != 2 {
			t.Fatalf("got %d versions, want 2", len(versions))
		}
		w.mine(1)
		w.work()
		for i := range 4 {
			w.reorg(1, anvil.ReorgTx{Raw: versions[(last+i+1)%2]})
			w.work()
		}
		w.mine(8)
		w.work()
		var tx types.Transaction
		w.must(tx.UnmarshalBinary(versions[last]))
		got := w.withdrawal(id)
		if got.Status != "COMPLETED" || *got.TxHash != tx.Hash().Hex() {
			t.Errorf("got %+v, want it COMPLETED by %s", got, tx.Hash())
		}
		w.judge()
	}
	w.agree()
}

// versions are the signed transactions of a withdrawal.
func (w *world) versions(id string) (raws [][]byte) {
	w.Helper()
	for v := 1; ; v++ {
		var b []byte
		if w.number(`SELECT count(*) FROM dispatch_attempts WHERE order_id = $1 AND version = $2 AND raw IS NOT NULL`, id, v) == 0 {
			return raws
		}
		w.must(pgOwner(w).QueryRow(w.ctx, `SELECT raw FROM dispatch_attempts WHERE order_id = $1 AND version = $2`, id, v).Scan(&b))
		raws = append(raws, b)
	}
}

// Rule DEP-11: deeper than what was final, by 1 to 64 blocks. Nothing is taken back
// on its own, nothing is credited or paid any more.
func TestAForkBelowACreditStopsTheChain(t *testing.T) {
	t.Parallel()
	const final = 4
	w := furnish(t, final)
	ann := *at(w.ann.Address)
	var paid []*types.Transaction
	for i := range deepest {
		paid = append(paid, w.pay(i%outsiders, w.token, 0, dollars(ann, int64(1000+i))))
		w.mine(1)
	}
	w.mine(final)
	out, _ := w.ask(1_000_000)
	w.work()
	w.mine(1)
	w.work()
	if n := w.number(`SELECT count(*) FROM deposits WHERE status = 'CREDITED'`); n != deepest+2 { // and the gas and the million
		t.Fatalf("got %d credited, want all", n)
	}
	waits, _ := w.ask(2_000_000)
	before := w.money()
	for depth := 1; depth <= deepest; depth++ {
		// The fork brings some of the same transfers again, in other blocks, as a
		// double credit would need.
		var again []anvil.ReorgTx
		for i := deepest - depth; i < min(deepest-depth+outsiders, deepest); i++ {
			again = append(again, raw(paid[i], 0))
		}
		w.reorg(final+1+depth, again...)
		w.mine(2)
		err := w.final()
		if !errors.Is(err, scan.ErrFinalityBroken) {
			t.Fatalf("depth %d: got %v, want ErrFinalityBroken", depth, err)
		}
		w.rest()
		if depth%9 == 1 {
			w.turn()
			w.pass(time.Minute)
		}
		if after := w.money(); after != before {
			t.Fatalf("depth %d: the books were\n%s\nand are\n%s", depth, before, after)
		}
		if got := w.withdrawal(waits).Status; got != "PROCESSING" {
			t.Fatalf("depth %d: got %s, want the payment to wait", depth, got)
		}
	}
	if got := w.withdrawal(out).Status; got != "BROADCAST" {
		t.Errorf("got %s, want what was out to stay so: no proof counts now", got)
	}
	if n := w.number(`SELECT count(*) FROM freezes WHERE scope = 'CHAIN' AND source = 'FINALITY' AND lifted_at IS NULL`); n != 1 {
		t.Errorf("got %d freezes of the chain, want one", n)
	}
	if n := w.number(`SELECT count(*) FROM scan_findings WHERE kind = 'FINALITY_BROKEN'`); n == 0 {
		t.Error("got no finding for the operator")
	}
	if n := w.number(`SELECT count(*) FROM ledger_balances WHERE balance < 0`); n != 0 {
		t.Errorf("got %d balances below zero", n)
	}
}

// rest lets the head walk complain of what does not fit, and come to rest.
func (w *world) rest() {
	w.Helper()
	for range 4 * deepest {
		if moved, _ := w.Walk.Head(w.ctx); !moved {
			return
		}
	}
	w.Fatal("the head walk does not come to rest")
}

// turn is a turn of every part but the walks, which stand.
func (w *world) turn() {
	w.Helper()
	for _, step := range w.Steps(nil) {
		if step.Name == "final walk" || step.Name == "head walk" {
			continue
		}
		if err := step.Do(w.ctx); err != nil {
			w.Fatalf("%s: %v", step.Name, err)
		}
	}
}

// TestRandomForksNeitherLoseNorDouble plays forks at random, below finality, over
// deposits and payments. Print its seed with -v; play it again with -forks.seed.
func TestRandomForksNeitherLoseNorDouble(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d (again: go test ./internal/trial/forks -run Random -forks.seed %d -forks.rounds %d)", seed, seed, *roundsFlag)
	const final = 6
	w := furnish(t, final)
	ann := *at(w.ann.Address)
	for range *roundsFlag {
		for range rng.IntN(4) {
			switch payer, units := rng.IntN(outsiders), 1+rng.Int64N(1_000_000); rng.IntN(4) {
			case 0:
				w.pay(payer, ann, units, nil)
			case 1:
				w.pay(payer, w.batch, units, evmtoken.Batch.Call("forward", ann))
			default:
				w.pay(payer, w.token, 0, dollars(ann, units))
			}
		}
		if rng.IntN(2) == 0 {
			w.ask(1 + rng.Int64N(1_000_000))
		}
		if rng.IntN(4) == 0 {
			w.pass(time.Duration(rng.IntN(90)) * time.Second)
		}
		w.work()
		w.mine(1 + rng.IntN(4))
		if rng.IntN(3) > 0 {
			w.work()
		}
		if rng.IntN(2) == 0 {
			w.shuffle(rng, 1+rng.IntN(final))
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	for range 40 {
		w.pass(20 * time.Second)
		w.work()
		w.mine(2)
		if w.number(`SELECT count(*) FROM dispatch_orders WHERE status NOT IN ('PAID', 'FAILED')`) == 0 &&
			w.number(`SELECT count(*) FROM deposits WHERE status IN ('CONFIRMING', 'SCREENING')`) == 0 {
			break
		}
	}
	if n := w.number(`SELECT count(*) FROM dispatch_orders WHERE status <> 'PAID'`); n != 0 {
		t.Errorf("seed %d: got %d orders that did not end, want all paid", seed, n)
	}
	w.agree()
	w.judge()
	if t.Failed() {
		t.Fatalf("seed %d", seed)
	}
	t.Logf("%d deposits credited, %d orphaned, %d payments", w.number(`SELECT count(*) FROM deposits WHERE status = 'CREDITED'`),
		w.number(`SELECT count(*) FROM deposits WHERE status = 'ORPHANED'`), w.number(`SELECT count(*) FROM dispatch_orders WHERE status = 'PAID'`))
}

// shuffle replaces the last blocks. Each of their transactions stays, moves to
// another block, is gone or, of a stranger's, has another one in its nonce.
func (w *world) shuffle(rng *rand.Rand, depth int) {
	w.Helper()
	head, err := w.node.Eth.BlockNumber(w.ctx)
	w.must(err)
	type placed struct {
		anvil.ReorgTx
		order int
	}
	var txs []placed
	gone, last := map[common.Address]bool{}, map[common.Address]int{}
	signer := types.LatestSignerForChainID(w.node.ChainID)
	for offset := range depth {
		b, err := w.node.Eth.BlockByNumber(w.ctx, newInt(head-uint64(depth)+1+uint64(offset)))
		w.must(err)
		for _, tx := range b.Transactions() {
			from, err := types.Sender(signer, tx)
			w.must(err)
			to := max(offset, last[from])
			switch what := rng.IntN(10); {
			case gone[from]:
				continue
			case what < 3:
				gone[from] = true // what follows in its nonces cannot be mined either
				continue
			case what < 6:
				to += rng.IntN(depth - to)
			case what < 7:
				if key := w.payerOf(from); key != nil {
					tx = w.signed(key, tx.Nonce(), w.token, 0, dollars(*at(w.ann.Address), 1+rng.Int64N(1_000_000)))
				}
			}
			last[from] = to
			txs = append(txs, placed{raw(tx, to), len(txs)})
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
	w.reorg(depth, order...)
}
