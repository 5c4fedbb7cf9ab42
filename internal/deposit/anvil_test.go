package deposit_test

import (
	"context"
	"log/slog"
	"math/big"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/journal"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/scan"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/signertest"
	"github.com/cofferpay/coffer/internal/wallet"
	"github.com/cofferpay/coffer/internal/wire"
)

const (
	slots      = 2
	untilFinal = 2 * slots // blocks from the latest to the final one
	usdt       = 3
	dai        = 4
	feeToken   = 5
	liar       = 6
)

// anvilEnv is a customer's address of the real signer on a real chain.
type anvilEnv struct {
	testEnv
	node          *anvil.Node
	mintAddresses map[int]common.Address // mints
	to            common.Address

	reader chain.Reader
	spent  bool // an amount left the ledger without leaving the chain
}

func newAnvilEnv(t *testing.T) *anvilEnv {
	t.Helper()
	node, tokens := anviltest.StartWithTokens(t, anvil.Config{Manual: true, SlotsInEpoch: slots})
	fees, err := node.DeployContract(t.Context(), evmtoken.FeeToken, "Fee", "FEE", uint8(6))
	if err != nil {
		t.Fatal(err)
	}
	lies, err := node.DeployContract(t.Context(), evmtoken.LyingToken, "Liar", "LIE", uint8(6))
	if err != nil {
		t.Fatal(err)
	}
	r := &anvilEnv{node: node, mintAddresses: map[int]common.Address{
		usdc: tokens.USDC.Address, usdt: tokens.USDT.Address, dai: tokens.DAI.Address, feeToken: fees, liar: lies,
	}}
	r.mineBlocks(t, untilFinal)
	c, err := evm.New(t.Context(), evm.Config{
		Name: chain.Ethereum, Network: chain.Local, ChainID: anvil.DefaultChainID, Endpoints: []string{node.URL},
		Quorum: 1,
		FeeCap: money.Units(100 * params.GWei), TipCap: money.Units(params.GWei),
		Timeout: 5 * time.Minute, // a long trace occupies the node, and other tests the machine
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
	for id, contract := range r.mintAddresses {
		mints = append(
			mints,
			mint.Mint{
				ID: id, Kind: mint.Token, Contract: evmtx.Canonical(contract), Symbol: "T", Name: "Token", Decimals: 6,
			},
		)
	}
	for i := range mints {
		m := &mints[i]
		m.Chain, m.Network, m.MinDeposit, m.MinWithdraw, m.Finality = chain.Ethereum, chain.Local, money.Units(1),
			money.Units(1), "FINALIZED"
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
	if err := journal.Import(t.Context(), r.db, s, book); err != nil {
		t.Fatal(err)
	}
	a, err := book.Address(
		t.Context(),
		signer.WalletRef{OrgID: r.org, Family: chain.EVM, Purpose: wallet.CustomerDeposit, Subject: "alice"},
	)
	if err != nil {
		t.Fatal(err)
	}
	r.to = common.HexToAddress(string(a.Address))
	log := slog.New(slog.DiscardHandler)
	r.service = &deposit.Service{
		Events: wire.NewRecorder(),
		DB:     r.db, Wallets: book, Owners: deposit.NewOwners(owners()), Prices: price.Fixed{}, Log: log,
	}
	r.reader = c.Reader
	r.w = scan.New(r.db, scan.Config{
		Chain: chain.Ethereum, Reader: c.Reader, TraceTimeout: 5 * time.Minute,
	}, r.service, log)
	r.walkBlocks(t)
	return r
}

func (r *anvilEnv) mineBlocks(t *testing.T, blocks int) {
	t.Helper()
	if err := r.node.MineBlocks(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
}

// sendTx sends a transaction of the faucet to the mempool.
func (r *anvilEnv) sendTx(t *testing.T, to common.Address, value int64, data []byte) common.Hash {
	t.Helper()
	hash, err := r.node.SendTx(t.Context(), &to, big.NewInt(value), data)
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func (r *anvilEnv) transferToken(t *testing.T, mintID int, units int64) common.Hash {
	t.Helper()
	return r.sendTx(t, r.mintAddresses[mintID], 0, evmtoken.Token.CallData("transfer", r.to, big.NewInt(units)))
}

func (r *anvilEnv) rawTx(t *testing.T, hash common.Hash) []byte {
	t.Helper()
	raw, err := r.node.RawTransaction(t.Context(), hash)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestOnARealChainEveryKindOfArrivalIsCreditedAtFinality(t *testing.T) {
	t.Parallel()
	r := newAnvilEnv(t)
	batch, err := r.node.DeployContract(t.Context(), evmtoken.Batch)
	if err != nil {
		t.Fatal(err)
	}
	r.sendTx(t, r.to, 1000, nil)
	r.sendTx(t, batch, 300, evmtoken.Batch.CallData("forward", r.to))
	r.sendTx(t, batch, 50, evmtoken.Batch.CallData("payAndUndo", r.to))
	r.sendTx(t, batch, 50, evmtoken.Batch.CallData("payThenRevert", r.to))
	for _, mintID := range []int{usdc, usdt, dai} {
		r.transferToken(t, mintID, int64(mintID)*1_000_000)
	}
	r.mineBlocks(t, untilFinal)
	r.walkBlocks(t)
	if n := r.queryCount(t, `SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("before finality: got %d postings, want none", n)
	}
	if got := r.listDeposits(t, deposit.Filter{Status: "CONFIRMING"}); len(got) != 5 {
		t.Errorf("before finality: got %d CONFIRMING, want 5", len(got))
	}
	r.mineBlocks(t, 1)
	r.walkBlocks(t)
	for mintID, want := range map[int]uint64{eth: 1300, usdc: 2_000_000, usdt: 3_000_000, dai: 4_000_000} {
		if got := r.loadBalance(t, ledger.Customer, "alice", mintID); got != money.Units(want) {
			t.Errorf("mint %d: got %v, want %d", mintID, got, want)
		}
	}
	if got := r.listDeposits(t, deposit.Filter{Status: "CREDITED"}); len(got) != 5 {
		t.Errorf("got %d CREDITED, want 5", len(got))
	}
	if n := r.queryCount(t, `SELECT count(*) FROM scan_findings`); n != 0 {
		t.Errorf("got %d findings, want none", n)
	}
}

// Rule DEP-9.
func TestOnARealChainADepositThatAReorganizationRemovesIsNeverCredited(t *testing.T) {
	t.Parallel()
	r := newAnvilEnv(t)
	r.transferToken(t, usdc, 1_000_000)
	r.sendTx(t, r.to, 1000, nil)
	r.mineBlocks(t, untilFinal)
	r.walkBlocks(t)
	if got := r.listDeposits(t, deposit.Filter{Status: "CONFIRMING"}); len(got) != 2 {
		t.Fatalf("got %d CONFIRMING, want 2", len(got))
	}
	if err := r.node.ReplaceBlocks(t.Context(), untilFinal); err != nil {
		t.Fatal(err)
	}
	r.mineBlocks(t, 3*untilFinal)
	r.walkBlocks(t)
	if n := r.queryCount(t, `SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
	if n := r.queryCount(t, `SELECT count(*) FROM events`); n != 0 {
		t.Errorf("got %d events, want none", n)
	}
	if got := r.listDeposits(t, deposit.Filter{Status: "ORPHANED"}); len(got) != 2 {
		t.Errorf("got %d ORPHANED, want 2", len(got))
	}
}

// Rule DEP-4.
func TestOnARealChainADepositThatMovesToAnotherBlockIsCreditedOnce(t *testing.T) {
	t.Parallel()
	r := newAnvilEnv(t)
	first := r.sendTx(
		t, r.mintAddresses[usdc], 0, evmtoken.Token.CallData("transfer", r.node.FaucetAddress(), big.NewInt(1)),
	)
	hash := r.transferToken(t, usdc, 1_000_000)
	r.mineBlocks(t, 2)
	r.walkBlocks(t)
	before := r.onlyDeposit(t)
	err := r.node.ReplaceBlocks(
		t.Context(), 2, anvil.ReorgTx{Raw: r.rawTx(t, first)}, anvil.ReorgTx{Raw: r.rawTx(t, hash), Offset: 1},
	)
	if err != nil {
		t.Fatal(err)
	}
	r.walkBlocks(t)
	r.mineBlocks(t, untilFinal)
	r.walkBlocks(t)
	after := r.onlyDeposit(t)
	if after.Status != "CREDITED" || after.DepositID != before.DepositID || after.TxHash != before.TxHash ||
		*after.BlockNumber != *before.BlockNumber+1 || *after.LogIndex == *before.LogIndex {
		t.Errorf("got %+v, want %+v credited in the next block", after, before)
	}
	if got := r.loadBalance(t, ledger.Customer, "alice", usdc); got != money.Units(1_000_000) {
		t.Errorf("got %v, want 1000000", got)
	}
	if n := r.queryCount(t, `SELECT count(*) FROM ledger_transfers`); n != 1 {
		t.Errorf("got %d postings, want 1", n)
	}
}

// Rule DEP-5.
func TestOnARealChainATokenThatLiesIsNotCredited(t *testing.T) {
	t.Parallel()
	r := newAnvilEnv(t)
	r.sendTx(
		t, r.mintAddresses[feeToken], 0, evmtoken.Token.CallData("mint", r.node.FaucetAddress(), big.NewInt(1_000_000)),
	)
	r.transferToken(t, feeToken, 1_000_000)
	r.transferToken(t, liar, 1_000_000)
	r.mineBlocks(t, untilFinal+1)
	r.walkBlocks(t)
	for _, mintID := range []int{feeToken, liar} {
		got := r.listDeposits(t, deposit.Filter{MintID: mintID})
		if len(got) != 1 || got[0].Status != "UNSUPPORTED" || *got[0].UnsupportedReason != scan.DoubtBalanceDelta {
			t.Errorf("mint %d: got %+v, want it UNSUPPORTED", mintID, got)
		}
	}
	if n := r.queryCount(t, `SELECT count(*) FROM mints WHERE quarantined_at IS NOT NULL`); n != 2 {
		t.Errorf("got %d mints in quarantine, want 2", n)
	}
	if n := r.queryCount(t, `SELECT count(*) FROM ledger_transfers`); n != 0 {
		t.Errorf("got %d postings, want none", n)
	}
}
