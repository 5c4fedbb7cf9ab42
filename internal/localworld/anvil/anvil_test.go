package anvil_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/localworld/anvil/anviltest"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
)

// orphanMaker makes the test binary start a chain, print its address and wait
// to be killed.
const orphanMaker = "COFFER_TEST_ANVIL_ORPHAN"

func TestMain(m *testing.M) {
	if os.Getenv(orphanMaker) == "" {
		os.Exit(m.Run())
	}
	n, err := anvil.Start(context.Background(), anvil.Config{Manual: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(n.URL)
	<-n.Done()
}

var somebody = common.HexToAddress("0x00000000000000000000000000000000000c0ffe")

// eventually polls until the condition holds.
func eventually(t *testing.T, what string, yes func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); <-tick.C {
		if yes() {
			return
		}
	}
	t.Fatalf("got no sign of it in time, want %s", what)
}

func listens(url string) bool {
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func TestFinalityFollowsTheEpochs(t *testing.T) {
	t.Parallel()
	n := anviltest.Start(t, anvil.Config{Manual: true, SlotsInEpoch: 3})
	if err := n.MineBlocks(t.Context(), 20); err != nil {
		t.Fatal(err)
	}
	for number, want := range map[rpc.BlockNumber]uint64{
		rpc.LatestBlockNumber: 20, rpc.SafeBlockNumber: 17, rpc.FinalizedBlockNumber: 14,
	} {
		head := must(n.HeaderAt(t.Context(), int64(number)))(t)
		if got := head.Number.Uint64(); got != want {
			t.Errorf("%v block: got %d, want %d", number, got, want)
		}
	}
	if got := must(n.Eth.ChainID(t.Context()))(t); got.Uint64() != anvil.DefaultChainID {
		t.Errorf("got chain %v, want %d", got, anvil.DefaultChainID)
	}
}

func TestBlocksComeOnTheClock(t *testing.T) {
	t.Parallel()
	n := anviltest.Start(t, anvil.Config{BlockTime: 50 * time.Millisecond})
	eventually(t, "three blocks without a transaction", func() bool {
		return must(n.Eth.BlockNumber(t.Context()))(t) >= 3
	})
}

func TestMiningCanBeSwitched(t *testing.T) {
	t.Parallel()
	n := anviltest.Start(t, anvil.Config{})
	if _, err := n.PayCoin(t.Context(), somebody, big.NewInt(1)); err != nil {
		t.Fatal(err)
	}
	if err := n.SetAutomine(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	hash := must(n.SendTx(t.Context(), &somebody, big.NewInt(1), nil))(t)
	if _, err := n.Eth.TransactionReceipt(t.Context(), hash); !errors.Is(err, ethereum.NotFound) {
		t.Errorf("got %v, want the transaction to wait", err)
	}
	if err := n.SetIntervalMining(t.Context(), time.Second); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WaitReceipt(t.Context(), hash); err != nil {
		t.Error(err)
	}
}

func TestReorgRemovesAndMovesTransactions(t *testing.T) {
	t.Parallel()
	n := anviltest.Start(t, anvil.Config{})
	first := must(n.PayCoin(t.Context(), somebody, big.NewInt(5)))(t)
	moved := must(n.PayCoin(t.Context(), somebody, big.NewInt(7)))(t)
	if err := n.MineBlocks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	// Both are the faucet's, so only the later one can move behind the earlier one.
	rawFirst := must(n.RawTransaction(t.Context(), first.TxHash))(t)
	raw := must(n.RawTransaction(t.Context(), moved.TxHash))(t)
	if err := n.ReplaceBlocks(t.Context(), 3, anvil.ReorgTx{Raw: rawFirst, Offset: 1}, anvil.ReorgTx{
		Raw: raw, Offset: 2,
	}); err != nil {
		t.Fatal(err)
	}
	got := must(n.WaitReceipt(t.Context(), moved.TxHash))(t)
	if got.BlockHash == moved.BlockHash || got.BlockNumber.Uint64() != moved.BlockNumber.Uint64()+1 {
		t.Errorf("got block %v, want the one after %v", got.BlockNumber, moved.BlockNumber)
	}
	if err := n.ReplaceBlocks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Eth.TransactionReceipt(t.Context(), moved.TxHash); !errors.Is(err, ethereum.NotFound) {
		t.Errorf("got %v, want the receipt to be gone", err)
	}
	if got := must(n.Eth.BalanceAt(t.Context(), somebody, nil))(t); got.Uint64() != 5 {
		t.Errorf("got a balance of %v, want 5", got)
	}
}

func TestSnapshotBringsTheChainBack(t *testing.T) {
	t.Parallel()
	n := anviltest.Start(t, anvil.Config{})
	snapshot := must(n.TakeSnapshot(t.Context()))(t)
	if _, err := n.PayCoin(t.Context(), somebody, big.NewInt(5)); err != nil {
		t.Fatal(err)
	}
	if err := n.RevertTo(t.Context(), snapshot); err != nil {
		t.Fatal(err)
	}
	if got := must(n.Eth.BalanceAt(t.Context(), somebody, nil))(t); got.Sign() != 0 {
		t.Errorf("got a balance of %v, want none", got)
	}
	if err := n.RevertTo(t.Context(), snapshot); err == nil {
		t.Error("got no error, want a used snapshot to be refused")
	}
}

func TestPoolAndFeesCanBeSet(t *testing.T) {
	t.Parallel()
	n := anviltest.Start(t, anvil.Config{Manual: true})
	hash := must(n.SendTx(t.Context(), &somebody, big.NewInt(5), nil))(t)
	if err := n.DropTransaction(t.Context(), hash); err != nil {
		t.Fatal(err)
	}
	if err := n.DropTransaction(t.Context(), hash); err == nil {
		t.Error("got no error, want a transaction that does not wait to be refused")
	}
	if err := n.SetBalance(t.Context(), somebody, big.NewInt(3)); err != nil {
		t.Fatal(err)
	}
	fee := big.NewInt(42 * params.GWei)
	if err := n.SetNextBlockBaseFee(t.Context(), fee); err != nil {
		t.Fatal(err)
	}
	if err := n.MineBlocks(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if got := must(n.HeaderAt(t.Context(), int64(rpc.LatestBlockNumber)))(t).BaseFee; got.Cmp(fee) != 0 {
		t.Errorf("got a base fee of %v, want %v", got, fee)
	}
	if got := must(n.Eth.BalanceAt(t.Context(), somebody, nil))(t); got.Uint64() != 3 {
		t.Errorf("got a balance of %v, want 3 and nothing of the dropped payment", got)
	}
}

func TestFaucetHasPlentyOfEveryToken(t *testing.T) {
	t.Parallel()
	n, tokens := anviltest.StartWithTokens(t, anvil.Config{BlockTime: time.Hour})
	for _, token := range tokens.List() {
		if got, want := must(
			n.TokenBalance(t.Context(), token.Address, n.FaucetAddress()),
		)(t), token.AtomicUnits(1_000_000_000); got.Cmp(want) != 0 {
			t.Errorf("%s: got %v, want %v", token.Symbol, got, want)
		}
		decimals := must(n.CallContract(t.Context(), token.Address, token.Contract, "decimals"))(t)
		if got := decimals[0].(uint8); got != token.Decimals {
			t.Errorf("%s: got %d decimals, want %d", token.Symbol, got, token.Decimals)
		}
		symbol := must(n.CallContract(t.Context(), token.Address, token.Contract, "symbol"))(t)
		if got := symbol[0].(string); got != token.Symbol {
			t.Errorf("got symbol %s, want %s", got, token.Symbol)
		}
		hash := must(n.SendTx(
			t.Context(), &token.Address, nil, evmtoken.Token.CallData("transfer", somebody, token.AtomicUnits(2)),
		))(t)
		if err := n.MineBlocks(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		if receipt := must(n.WaitReceipt(t.Context(), hash))(t); receipt.Status != 1 || len(receipt.Logs) != 1 {
			t.Errorf("%s: got status %d and %d logs, want a transfer", token.Symbol, receipt.Status, len(receipt.Logs))
		}
		if got, want := must(
			n.TokenBalance(t.Context(), token.Address, somebody),
		)(t), token.AtomicUnits(2); got.Cmp(want) != 0 {
			t.Errorf("%s: got %v at the receiver, want %v", token.Symbol, got, want)
		}
	}
}

func TestStateIsKeptWhereAFileIsNamed(t *testing.T) {
	t.Parallel()
	cfg := anvil.Config{Manual: true, State: filepath.Join(t.TempDir(), "chain.json")}
	first := must(anvil.Start(t.Context(), cfg))(t)
	tokens, err := first.DeployTokens(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	again := anviltest.Start(t, cfg)
	if got := must(again.TokenBalance(t.Context(), tokens.DAI.Address, again.FaucetAddress()))(t); got.Sign() == 0 {
		t.Error("got an empty faucet, want what it had before")
	}
	if got := must(again.Eth.BlockNumber(t.Context()))(t); got != 1 {
		t.Errorf("got block %d, want 1", got)
	}
}

func TestStopLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	n := must(anvil.Start(t.Context(), anvil.Config{}))(t)
	for range 2 {
		if err := n.Stop(); err != nil {
			t.Errorf("got %v, want a clean stop", err)
		}
	}
	if listens(n.URL) {
		t.Error("got a chain that listens, want none")
	}
}

func TestChainEndsWithTheContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	n := must(anvil.Start(ctx, anvil.Config{}))(t)
	cancel()
	select {
	case <-n.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("got a chain that runs on, want it to end with its context")
	}
	if err := n.Stop(); err != nil {
		t.Errorf("got %v, want an end that was asked for to be none", err)
	}
}

func TestChainThatEndsByItselfIsAnError(t *testing.T) {
	t.Parallel()
	n := must(anvil.Start(t.Context(), anvil.Config{}))(t)
	process := must(os.FindProcess(n.PID()))(t)
	if err := process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-n.Done()
	if err := n.Stop(); err == nil || !strings.Contains(err.Error(), "ended by itself") {
		t.Errorf("got %v, want an error that says it ended by itself", err)
	}
}

// Only Linux ends the chain with its parent, and CI runs there.
func TestChainDiesWithItsParent(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), must(os.Executable())(t))
	// The files that the killed parent cannot remove stay in a folder of the test.
	cmd.Env = append(os.Environ(), orphanMaker+"=1", "TMPDIR="+t.TempDir())
	stdout := must(cmd.StdoutPipe())(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	url, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	url = strings.TrimSpace(url)
	if !listens(url) {
		t.Fatalf("got nothing at %s, want a chain", url)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("got a clean exit, want the parent to be killed")
	}
	eventually(t, "the chain to be gone", func() bool { return !listens(url) })
}

func TestStartSaysWhyItCannot(t *testing.T) {
	t.Parallel()
	taken := anviltest.Start(t, anvil.Config{})
	_, port, err := net.SplitHostPort(strings.TrimPrefix(taken.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	var number int
	if _, err := fmt.Sscan(port, &number); err != nil {
		t.Fatal(err)
	}
	if _, err := anvil.Start(t.Context(), anvil.Config{Port: number}); err == nil ||
		!strings.Contains(err.Error(), "in use") {
		t.Errorf("got %v, want it to say that the port is in use", err)
	}
	if _, err := anvil.Start(t.Context(), anvil.Config{Program: filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("got no error, want one for a program that is not there")
	}
}
