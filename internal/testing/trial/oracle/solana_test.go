package oracle_test

import (
	"math/big"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// A payment to an owner without a token account creates one, whose rent is no payment; coin without
// a claim is one.
func TestTheOracleJudgesASolanaChain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := surfpooltest.Start(t, surfpool.Config{})
	if err := n.MineBlocks(ctx, 1); err != nil {
		t.Fatal(err)
	}
	c := oracle.OpenSolana(n.URL, n.CurrentSlot()-1)
	us := map[string]bool{string(n.FaucetAddress()): true}
	var to [4]string
	for i := range to {
		key, err := surfpool.NewKey()
		if err != nil {
			t.Fatal(err)
		}
		to[i] = string(surfpool.AddressOf(key))
	}
	once, twice, never, coins := to[0], to[1], to[2], to[3]
	sent := map[string]string{}
	for _, who := range []string{once, twice, twice} {
		tx, err := n.PayToken(ctx, surfpool.USDC, chain.Address(who), 5)
		if err != nil {
			t.Fatal(err)
		}
		sent[who] = string(tx)
	}
	tx, err := n.PayLamports(ctx, chain.Address(coins), 7_000_000)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.MineBlocks(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	claims := []oracle.Claim{
		{ID: "once", Asset: string(surfpool.USDC), To: once, Amount: big.NewInt(5), Paid: true, Tx: sent[once]},
		{ID: "twice", Asset: string(surfpool.USDC), To: twice, Amount: big.NewInt(5), Paid: true, Tx: sent[twice]},
		{ID: "never", Asset: string(surfpool.USDC), To: never, Amount: big.NewInt(5), Paid: true, Tx: sent[once]},
		{ID: "coins", To: coins, Amount: big.NewInt(7_000_000), Paid: true, Tx: string(tx)},
	}
	wrong := strings.Join(c.Judge(claims, us), "\n")
	for want, times := range map[string]int{
		"once: ": 0, "twice: ": 1, "never: ": 1, "coins": 0, "without a request": 0,
	} {
		if got := strings.Count(wrong, want); got != times {
			t.Errorf("%q: got %d times, want %d, in:\n%s", want, got, times, wrong)
		}
	}
	if wrong := strings.Join(c.Judge(claims[:3], us), "\n"); strings.Count(wrong, "without a request") != 1 {
		t.Errorf("coins without a claim: got %q, want them named", wrong)
	}
	if got, err := c.Holds(ctx, string(surfpool.USDC), twice); err != nil || got.Cmp(big.NewInt(10)) != 0 {
		t.Errorf("balance: got %v %v, want 10", got, err)
	}
	if got, err := c.Holds(ctx, string(surfpool.USDC), never); err != nil || got.Sign() != 0 {
		t.Errorf("balance of nobody: got %v %v, want 0", got, err)
	}
}
