package deposit_test

import (
	"context"
	"log/slog"
	"math/big"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/risk"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/mirror"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	slots      = 2
	untilFinal = 2 * slots // blocks from the latest to the final one
	usdt       = 3
	dai        = 4
	feeToken   = 5
	liar       = 6
)

// ether is a customer's address of the real signer on a real chain.
type ether struct {
	world
	node *anvil.Node
	at   map[int]common.Address // mints
	to   common.Address

	reader chain.Reader
	spent  bool // something left the books without leaving the chain
}

func openEther(t *testing.T) *ether {
	t.Helper()
	node, tokens := anviltest.Tokens(t, anvil.Config{Manual: true, SlotsInEpoch: slots})
	fees, err := node.Deploy(t.Context(), evmtoken.FeeToken, "Fee", "FEE", uint8(6))
	if err != nil {
		t.Fatal(err)
	}
	lies, err := node.Deploy(t.Context(), evmtoken.LyingToken, "Liar", "LIE", uint8(6))
	if err != nil {
		t.Fatal(err)
	}
	r := &ether{node: node, at: map[int]common.Address{
		usdc: tokens.USDC.Address, usdt: tokens.USDT.Address, dai: tokens.DAI.Address, feeToken: fees, liar: lies,
	}}
	r.mine(t, untilFinal)
	c, err := evm.New(t.Context(), evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{node.URL}, Agree: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
	})
	if err != nil {
		t.Fatal(err)
	}

	r.db = pgtest.New(t)
	o, _, err := org.Create(t.Context(), r.db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	r.org = o.ID
	mints := []mint.Mint{{ID: eth, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18}}
	for id, contract := range r.at {
		mints = append(mints, mint.Mint{ID: id, Kind: mint.Token, Contract: evmtx.Canonical(contract), Symbol: "T", Name: "Token", Decimals: 6})
	}
	for i := range mints {
		m := &mints[i]
		m.Chain, m.Network, m.MinDeposit, m.MinWithdraw, m.Finality = chain.Ethereum, chain.Local, money.Units(1), money.Units(1), "FINALIZED"
	}
	if err := mint.Sync(t.Context(), r.db, mints); err != nil {
		t.Fatal(err)
	}
	err = r.db.InOrg(t.Context(), r.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, r.org, "alice", "")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	s, attest := signertest.New(t)
	book := wallet.New(r.db, s, attest)
	if err := mirror.Import(t.Context(), r.db, s, book); err != nil {
		t.Fatal(err)
	}
	a, err := book.Address(t.Context(), signer.WalletRef{OrgID: r.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: "alice"})
	if err != nil {
		t.Fatal(err)
	}
	r.to = common.HexToAddress(string(a.Address))
	log := slog.New(slog.DiscardHandler)
	r.desk = deposit.New(r.db, book, price.Fixed{}, risk.Policy{}, log)
	r.reader = c.Reader
	r.w = scan.New(r.db, scan.Config{Chain: chain.Ethereum, Reader: c.Reader}, r.desk, log)
	r.walk(t)
	return r
}

func (r *ether) mine(t *testing.T, blocks int) {
	t.Helper()
	if err := r.node.Mine(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
}

// send leaves a transaction of the faucet in the pool.
func (r *ether) send(t *testing.T, to common.Address, value int64, data []byte) common.Hash {
	t.Helper()
	hash, err := r.node.Send(t.Context(), &to, big.NewInt(value), data)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func (r *ether) transfer(t *testing.T, mintID int, units int64) common.Hash {
	t.Helper()
	return r.send(t, r.at[mintID], 0, evmtoken.Token.Call("transfer", r.to, big.NewInt(units)))
}

func (r *ether) raw(t *testing.T, hash common.Hash) []byte {
	t.Helper()
	raw, err := r.node.Raw(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestOnARealChainEveryKindOfArrivalIsCreditedAtFinality(t *testing.T) {
	t.Parallel()
	r := openEther(t)
	batch, err := r.node.Deploy(t.Context(), evmtoken.Batch)
	if err != nil {
		t.Fatal(err)
	}
	r.send(t, r.to, 1000, nil)
	r.send(t, batch, 300, evmtoken.Batch.Call("forward", r.to))
	r.send(t, batch, 50, evmtoken.Batch.Call("payAndUndo", r.to))
	r.send(t, batch, 50, evmtoken.Batch.Call("payThenRevert", r.to))
	for _, mintID := range []int{usdc, usdt, dai} {
		r.transfer(t, mintID, int64(mintID)*1_000_000)
	}
	r.mine(t, untilFinal)
	r.walk(t)
	if n := r.count(t, `SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("before finality: got %d postings, want none", n)
	}
	if got := r.list(t, deposit.Filter{Status: "CONFIRMING"}); len(got) != 5 {
		t.Errorf("before finality: got %d CONFIRMING, want 5", len(got))
	}
	r.mine(t, 1)
	r.walk(t)
	for mintID, want := range map[int]uint64{eth: 1300, usdc: 2_000_000, usdt: 3_000_000, dai: 4_000_000} {
		if got := r.balance(t, ledger.Customer, "alice", mintID); got != money.Units(want) {
			t.Errorf("mint %d: got %v, want %d", mintID, got, want)
		}
	}
	if got := r.list(t, deposit.Filter{Status: "CREDITED"}); len(got) != 5 {
		t.Errorf("got %d CREDITED, want 5", len(got))
	}
	if n := r.count(t, `SELECT count(*) FROM scan_findings`); n != 0 {
		t.Errorf("got %d findings, want none", n)
	}
}

// Rule DEP-9.
func TestOnARealChainADepositThatAReorganizationRemovesIsNeverCredited(t *testing.T) {
	t.Parallel()
	r := openEther(t)
	r.transfer(t, usdc, 1_000_000)
	r.send(t, r.to, 1000, nil)
	r.mine(t, untilFinal)
	r.walk(t)
	if got := r.list(t, deposit.Filter{Status: "CONFIRMING"}); len(got) != 2 {
		t.Fatalf("got %d CONFIRMING, want 2", len(got))
	}
	if err := r.node.Reorg(t.Context(), untilFinal); err != nil {
		t.Fatal(err)
	}
	r.mine(t, 3*untilFinal)
	r.walk(t)
	if n := r.count(t, `SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
	if n := r.count(t, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("got %d events, want none", n)
	}
	if got := r.list(t, deposit.Filter{Status: "ORPHANED"}); len(got) != 2 {
		t.Errorf("got %d ORPHANED, want 2", len(got))
	}
}

// Rule DEP-4.
func TestOnARealChainADepositThatMovesToAnotherBlockIsCreditedOnce(t *testing.T) {
	t.Parallel()
	r := openEther(t)
	first := r.send(t, r.at[usdc], 0, evmtoken.Token.Call("transfer", r.node.FaucetAddress(), big.NewInt(1)))
	hash := r.transfer(t, usdc, 1_000_000)
	r.mine(t, 2)
	r.walk(t)
	was := r.the(t)
	err := r.node.Reorg(t.Context(), 2, anvil.ReorgTx{Raw: r.raw(t, first)}, anvil.ReorgTx{Raw: r.raw(t, hash), Offset: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.walk(t)
	r.mine(t, untilFinal)
	r.walk(t)
	is := r.the(t)
	if is.Status != "CREDITED" || is.DepositID != was.DepositID || is.TxHash != was.TxHash || *is.BlockNumber != *was.BlockNumber+1 || *is.LogIndex == *was.LogIndex {
		t.Errorf("got %+v, want %+v credited in the next block", is, was)
	}
	if got := r.balance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Errorf("got %v, want 1000000", got)
	}
	if n := r.count(t, `SELECT count(*) FROM ledger_transfers`); n != 1 {
		t.Errorf("got %d postings, want 1", n)
	}
}

// Rule DEP-5.
func TestOnARealChainATokenThatLiesIsNotCredited(t *testing.T) {
	t.Parallel()
	r := openEther(t)
	r.send(t, r.at[feeToken], 0, evmtoken.Token.Call("mint", r.node.FaucetAddress(), big.NewInt(1_000_000)))
	r.transfer(t, feeToken, 1_000_000)
	r.transfer(t, liar, 1_000_000)
	r.mine(t, untilFinal+1)
	r.walk(t)
	for _, mintID := range []int{feeToken, liar} {
		got := r.list(t, deposit.Filter{MintID: mintID})
		if len(got) != 1 || got[0].Status != "UNSUPPORTED" || *got[0].UnsupportedReason != scan.BalanceDelta {
			t.Errorf("mint %d: got %+v, want it UNSUPPORTED", mintID, got)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`); n != 2 {
		t.Errorf("got %d mints in quarantine, want 2", n)
	}
	if n := r.count(t, `SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
}
