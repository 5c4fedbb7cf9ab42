package deposit_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/finality"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// broken opens a real chain on which alice is credited with a deposit, and then
// has depth blocks above the last one that it was not in become others, with
// these transactions in them.
func broken(t *testing.T, depth int) (r *ether, deposit, other common.Hash) {
	t.Helper()
	r = openEther(t)
	r.w = scan.New(r.db, scan.Config{Chain: chain.Ethereum, Reader: r.reader, Concerned: []finality.Concerned{r.desk}}, r.desk, slog.New(slog.DiscardHandler))
	other = r.send(t, r.at[usdc], 0, evmtoken.Token.Call("transfer", r.node.FaucetAddress(), big.NewInt(1)))
	deposit = r.transfer(t, usdc, 1_000_000)
	r.mine(t, depth)
	r.mine(t, untilFinal)
	r.walk(t)
	if got := r.balance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Fatalf("got %v, want it credited", got)
	}
	return r, deposit, other
}

func (r *ether) fork(t *testing.T, depth int, txs ...anvil.ReorgTx) {
	t.Helper()
	if err := r.node.Reorg(t.Context(), depth+untilFinal, txs...); err != nil {
		t.Fatal(err)
	}
	r.part(t)
	p, err := r.w.Parting(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.w.Repoint(t.Context(), p, wait, audit.Operator("op")); err != nil {
		t.Fatal(err)
	}
	r.final(t)
	r.mine(t, wait+2*untilFinal)
	r.final(t)
	r.settle(t)
}

// onChain compares the books with what the node itself says.
func (r *ether) onChain(t *testing.T) {
	t.Helper()
	have, err := r.node.TokenBalance(t.Context(), r.at[usdc], r.to)
	if err != nil {
		t.Fatal(err)
	}
	w := r.count(t, `SELECT credited - swept FROM address_funds f JOIN wallets w USING (wallet_id) WHERE f.mint_id = $1 AND w.subject = 'alice'`, usdc)
	if have.Int64() != int64(w) {
		t.Errorf("alice's address: got %d in the books, want %v as on the chain", w, have)
	}
	r.read(t, func(ctx context.Context, tx pg.Tx) error {
		custody, err := ledger.Sum(ctx, tx, ledger.Account{OrgID: r.org, MintID: usdc, Kind: ledger.Custody})
		if err == nil && new(big.Int).Neg(custody).Cmp(have) != 0 && !r.spent {
			t.Errorf("custody: got %v in the books, want %v as on the chain", custody, have)
		}
		return err
	})
}

// Rules DEP-20 to DEP-22, crash point S08.
func TestOnARealChainABreakOfAnyDepthIsSettledByTheNewFork(t *testing.T) {
	t.Parallel()
	for _, depth := range []int{1, 5, 64} {
		t.Run(fmt.Sprint("found again, depth ", depth), func(t *testing.T) {
			t.Parallel()
			r, hash, other := broken(t, depth)
			before := r.the(t)
			r.fork(t, depth, anvil.ReorgTx{Raw: r.raw(t, other)}, anvil.ReorgTx{Raw: r.raw(t, hash), Offset: untilFinal - 1})
			d := r.the(t)
			if d.DepositID != before.DepositID || d.Status != "CREDITED" || d.ChainStatus != "FINALIZED" || *d.BlockNumber == *before.BlockNumber {
				t.Errorf("got %+v, want %+v in its new block", d, before)
			}
			r.credited1(t)
			r.wantFrozen(t, "FINALITY CHAIN ETHEREUM")
			r.onChain(t)
		})
		t.Run(fmt.Sprint("double-spent, depth ", depth), func(t *testing.T) {
			t.Parallel()
			r, _, other := broken(t, depth)
			r.spent = true
			r.post(t, ledger.WithdrawalHold, "wd_1", ledger.Customer, ledger.Withdrawing, usdc, 400_000)
			r.post(t, ledger.WithdrawalEnd, "wd_1", ledger.Withdrawing, ledger.Custody, usdc, 400_000)
			// The payer's second nonce pays somebody else.
			r.fork(t, depth, anvil.ReorgTx{Raw: r.raw(t, other)})
			d := r.the(t)
			if d.Status != "REVERSED" || d.Reversal.TakenBack != "600000" || d.Reversal.Loss != "400000" {
				t.Errorf("got %+v, want it reversed", d)
			}
			if got := r.balance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
				t.Errorf("got %v, want nothing", got)
			}
			r.loss(t, usdc, 400_000)
			r.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER alice")
			r.onChain(t)
		})
	}
}

// credited1 checks that alice was credited with one USDC, once and told once.
func (r *ether) credited1(t *testing.T) {
	t.Helper()
	if got := r.balance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Errorf("got %v, want 1000000", got)
	}
	if n, told := r.count(t, `SELECT count(*) FROM ledger_transfers`), r.count(t, `SELECT count(*) FROM events`); n != 1 || told != 1 {
		t.Errorf("got %d postings and %d events, want one", n, told)
	}
}

// Rules DEP-21 and DEP-22.
func TestOnARealChainADepositThatComesBackLaterIsCreditedAnew(t *testing.T) {
	t.Parallel()
	r, hash, other := broken(t, 3)
	first := r.the(t).DepositID
	raw, again := r.raw(t, hash), r.raw(t, other)
	// It was swept before the break: what it lacks is counted.
	err := r.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var id string
		if err := tx.QueryRow(ctx, `SELECT wallet_id FROM wallets WHERE subject = 'alice'`).Scan(&id); err != nil {
			return err
		}
		return wallet.Move(ctx, tx, wallet.Movement{WalletID: id, OrgID: r.org, MintID: usdc, Part: wallet.Swept, Plus: money.Units(1_000_000)})
	})
	if err != nil {
		t.Fatal(err)
	}
	r.fork(t, 3)
	if n := r.count(t, `SELECT coalesce(sum(open), 0) FROM reorg_shortfalls`); n != 1_000_000 {
		t.Errorf("got %d missing, want 1000000", n)
	}
	r.letGo(t)
	r.mine(t, 1)
	if err := r.node.Reorg(t.Context(), 1, anvil.ReorgTx{Raw: again}, anvil.ReorgTx{Raw: raw}); err != nil {
		t.Fatal(err)
	}
	r.mine(t, untilFinal)
	r.walk(t)
	if n := r.count(t, `SELECT count(*) FROM deposits WHERE tx_hash = $1 AND status = 'CREDITED' AND deposit_id <> $2`, hash.Hex(), first); n != 1 {
		t.Errorf("got %d credited anew, want one under another id", n)
	}
	if got := r.balance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Errorf("got %v, want 1000000", got)
	}
	if n := r.count(t, `SELECT count(*) FROM reorg_shortfalls`); n != 0 {
		t.Errorf("got %d shortfalls, want none once the money is there", n)
	}
}
