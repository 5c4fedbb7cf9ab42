package oracle_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// The oracle finds what is wrong: a payment that arrived twice, one that never arrived, and one
// without a request. After a fork it believes the new branch.
func TestTheOracleSeesWhatTheChainHas(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n, err := anvil.Start(ctx, anvil.Config{Manual: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	tokens, err := n.DeployTokens(ctx)
	if err != nil {
		t.Fatal(err)
	}
	us := map[string]bool{strings.ToLower(n.FaucetAddress().Hex()): true}
	usdc := strings.ToLower(tokens.USDC.Address.Hex())
	twice, never, coins := common.HexToAddress("0xa1"), common.HexToAddress("0xa2"), common.HexToAddress("0xa3")
	var hash common.Hash
	for range 2 {
		if hash, err = n.SendTx(
			ctx, &tokens.USDC.Address, nil, tokens.USDC.Contract.CallData("transfer", twice, big.NewInt(5)),
		); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.MineBlocks(ctx, 1); err != nil {
		t.Fatal(err)
	}
	paid, err := n.SendTx(ctx, &coins, big.NewInt(7), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.MineBlocks(ctx, 1); err != nil {
		t.Fatal(err)
	}

	c := oracle.Open(n.URL)
	height, err := c.Walk(ctx)
	if err != nil {
		t.Fatal(err)
	}
	claims := []oracle.Claim{
		{ID: "twice", Asset: usdc, To: twice.Hex(), Amount: big.NewInt(5), Paid: true, Tx: hash.Hex()},
		{ID: "never", Asset: usdc, To: never.Hex(), Amount: big.NewInt(5), Paid: true, Tx: hash.Hex()},
		{ID: "coins", To: coins.Hex(), Amount: big.NewInt(7), Paid: true, Tx: paid.Hex()},
	}
	wrong := strings.Join(c.Judge(claims, us), "\n")
	for want, times := range map[string]int{"twice: ": 1, "never: ": 1, "coins": 0, "without a request": 0} {
		if got := strings.Count(wrong, want); got != times {
			t.Errorf("%q: got %d times, want %d, in:\n%s", want, got, times, wrong)
		}
	}
	if wrong := c.Judge(claims[:2], us); !strings.Contains(strings.Join(wrong, "\n"), "without a request") {
		t.Errorf("a payment without a claim: got %q, want it named", wrong)
	}
	if got, err := c.Holds(ctx, usdc, strings.ToLower(twice.Hex()), height); err != nil ||
		got.Cmp(big.NewInt(10)) != 0 {
		t.Errorf("balance: got %v %v, want 10", got, err)
	}

	if err := n.ReplaceBlocks(ctx, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	if got := c.ReceivedBy("", strings.ToLower(coins.Hex())); len(got) != 0 {
		t.Errorf("after the fork: got %v, want nothing", got)
	}
}
