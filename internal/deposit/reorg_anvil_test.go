package deposit_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/finality"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/wallet"
)

// newReorgedAnvil opens a real chain on which alice is credited with a deposit. It then replaces
// depth blocks above the last one without the deposit by others with these transactions.
func newReorgedAnvil(t *testing.T, depth int) (r *anvilEnv, deposit, other common.Hash) {
	t.Helper()
	r = newAnvilEnv(t)
	r.w = scan.New(
		r.db,
		scan.Config{Chain: chain.Ethereum, Reader: r.reader, FinalityListeners: []finality.Listener{r.service}},
		r.service, slog.New(slog.DiscardHandler),
	)
	other = r.sendTx(
		t, r.mintAddresses[usdc], 0, evmtoken.Token.CallData("transfer", r.node.FaucetAddress(), big.NewInt(1)),
	)
	deposit = r.transferToken(t, usdc, 1_000_000)
	r.mineBlocks(t, depth)
	r.mineBlocks(t, untilFinal)
	r.walkBlocks(t)
	if got := r.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Fatalf("got %v, want it credited", got)
	}
	return r, deposit, other
}

func (r *anvilEnv) forkChain(t *testing.T, depth int, txs ...anvil.ReorgTx) {
	t.Helper()
	if err := r.node.ReplaceBlocks(t.Context(), depth+untilFinal, txs...); err != nil {
		t.Fatal(err)
	}
	r.partChain(t)
	p, err := r.w.FindFork(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.w.Repoint(t.Context(), p, wait, audit.Operator("op")); err != nil {
		t.Fatal(err)
	}
	r.walkFinal(t)
	r.mineBlocks(t, wait+2*untilFinal)
	r.walkFinal(t)
	r.settleReorgs(t)
}

// wantOnChain compares the ledger with the balances that the node shows.
func (r *anvilEnv) wantOnChain(t *testing.T) {
	t.Helper()
	have, err := r.node.TokenBalance(t.Context(), r.mintAddresses[usdc], r.to)
	if err != nil {
		t.Fatal(err)
	}
	w := r.queryCount(
		t,
		`SELECT credited - swept FROM address_funds f JOIN wallets w USING (wallet_id) WHERE f.mint_id = $1 AND w.subject = 'alice'`,
		usdc,
	)
	if have.Int64() != int64(w) {
		t.Errorf("alice's address: got %d in the books, want %v as on the chain", w, have)
	}
	r.readOrg(t, func(ctx context.Context, tx pg.Tx) error {
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
			r, hash, other := newReorgedAnvil(t, depth)
			before := r.onlyDeposit(t)
			r.forkChain(
				t, depth, anvil.ReorgTx{Raw: r.rawTx(t, other)},
				anvil.ReorgTx{Raw: r.rawTx(t, hash), Offset: untilFinal - 1},
			)
			d := r.onlyDeposit(t)
			if d.DepositID != before.DepositID || d.Status != "CREDITED" || d.ChainStatus != "FINALIZED" ||
				*d.BlockNumber == *before.BlockNumber {
				t.Errorf("got %+v, want %+v in its new block", d, before)
			}
			r.wantCreditedOnce(t)
			r.wantFrozen(t, "FINALITY CHAIN ETHEREUM")
			r.wantOnChain(t)
		})
		t.Run(fmt.Sprint("double-spent, depth ", depth), func(t *testing.T) {
			t.Parallel()
			r, _, other := newReorgedAnvil(t, depth)
			r.spent = true
			r.postLedger(t, ledger.WithdrawalHold, "wd_1", ledger.Customer, ledger.Withdrawing, usdc, 400_000)
			r.postLedger(t, ledger.WithdrawalEnd, "wd_1", ledger.Withdrawing, ledger.Custody, usdc, 400_000)
			// The payer's second nonce pays another address.
			r.forkChain(t, depth, anvil.ReorgTx{Raw: r.rawTx(t, other)})
			d := r.onlyDeposit(t)
			if d.Status != "REVERSED" || d.Reversal.TakenBack != "600000" || d.Reversal.Loss != "400000" {
				t.Errorf("got %+v, want it reversed", d)
			}
			if got := r.loadBalance(t, ledger.Customer, "alice", usdc); !got.IsZero() {
				t.Errorf("got %v, want nothing", got)
			}
			r.wantLoss(t, usdc, 400_000)
			r.wantFrozen(t, "FINALITY CHAIN ETHEREUM", "FINALITY CUSTOMER alice")
			r.wantOnChain(t)
		})
	}
}

// wantCreditedOnce checks that alice was credited with one USDC, with one posting and one event.
func (r *anvilEnv) wantCreditedOnce(t *testing.T) {
	t.Helper()
	if got := r.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Errorf("got %v, want 1000000", got)
	}
	if n, told := r.queryCount(t, `SELECT count(*) FROM ledger_transfers`),
		r.queryCount(t, `SELECT count(*) FROM events`); n != 1 ||
		told != 1 {
		t.Errorf("got %d postings and %d events, want one", n, told)
	}
}

// Rules DEP-21 and DEP-22.
func TestOnARealChainADepositThatComesBackLaterIsCreditedAnew(t *testing.T) {
	t.Parallel()
	r, hash, other := newReorgedAnvil(t, 3)
	first := r.onlyDeposit(t).DepositID
	raw, again := r.rawTx(t, hash), r.rawTx(t, other)
	// The deposit was swept before the break, so the shortfall is counted.
	err := r.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var id string
		if err := tx.QueryRow(ctx, `SELECT wallet_id FROM wallets WHERE subject = 'alice'`).Scan(&id); err != nil {
			return err
		}
		return wallet.MoveFunds(
			ctx, tx,
			wallet.Movement{WalletID: id, OrgID: r.org, MintID: usdc, Part: wallet.Swept, Plus: money.Units(1_000_000)},
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	r.forkChain(t, 3)
	if n := r.queryCount(t, `SELECT coalesce(sum(open), 0) FROM reorg_shortfalls`); n != 1_000_000 {
		t.Errorf("got %d missing, want 1000000", n)
	}
	r.liftFreezes(t)
	r.mineBlocks(t, 1)
	if err := r.node.ReplaceBlocks(t.Context(), 1, anvil.ReorgTx{Raw: again}, anvil.ReorgTx{Raw: raw}); err != nil {
		t.Fatal(err)
	}
	r.mineBlocks(t, untilFinal)
	r.walkBlocks(t)
	if n := r.queryCount(
		t, `SELECT count(*) FROM deposits WHERE tx_hash = $1 AND status = 'CREDITED' AND deposit_id <> $2`,
		hash.Hex(), first,
	); n != 1 {
		t.Errorf("got %d credited anew, want one under another id", n)
	}
	if got := r.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Errorf("got %v, want 1000000", got)
	}
	if n := r.queryCount(t, `SELECT count(*) FROM reorg_shortfalls`); n != 0 {
		t.Errorf("got %d shortfalls, want none once the money is there", n)
	}
}
