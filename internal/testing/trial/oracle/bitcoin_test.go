package oracle_test

import (
	"math/big"
	"net/url"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/testing/trial/oracle"
)

// A change output is no payment, what the outputs lack is the fee, and after a fork the new branch
// counts.
func TestTheOracleJudgesABitcoinChain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	n := btcdtest.Start(t, btcd.Config{})
	u, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(btcd.User, n.Password)
	from, err := n.TipHeight(ctx)
	if err != nil {
		t.Fatal(err)
	}
	c := oracle.OpenBitcoin(u.String(), uint64(from)+1)
	us := map[string]bool{string(btcd.FaucetAddress()): true}
	var to [4]string
	for i := range to {
		key, err := btcec.NewPrivateKey()
		if err != nil {
			t.Fatal(err)
		}
		to[i] = string(btcd.KeyAddress(key))
	}
	once, twice, never, unasked := to[0], to[1], to[2], to[3]
	sent := map[string]string{}
	for _, who := range []string{once, twice, twice, unasked} {
		tx, err := n.PayAddress(ctx, chain.Address(who), 50_001)
		if err != nil {
			t.Fatal(err)
		}
		sent[who] = tx.TxID()
	}
	if _, err := n.MineBlocks(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	claims := []oracle.Claim{
		{ID: "once", To: once, Amount: big.NewInt(50_001), Paid: true, Tx: sent[once]},
		{ID: "twice", To: twice, Amount: big.NewInt(50_001), Paid: true, Tx: sent[twice]},
		{ID: "never", To: never, Amount: big.NewInt(50_001), Paid: true, Tx: sent[once]},
	}
	wrong := strings.Join(c.Judge(claims, us), "\n")
	for want, times := range map[string]int{"once: ": 0, "twice: ": 1, "never: ": 1, "without a request": 1} {
		if got := strings.Count(wrong, want); got != times {
			t.Errorf("%q: got %d times, want %d, in:\n%s", want, got, times, wrong)
		}
	}
	if has, err := c.Holds(ctx, twice); err != nil || has.Cmp(big.NewInt(100_002)) != 0 {
		t.Errorf("balance: got %v %v, want 100002", has, err)
	}
	all := c.SentBy(us)
	if len(all) != 4 || all[0].Fee.Sign() <= 0 {
		t.Errorf("got %+v, want four transactions that cost something", all)
	}
	if err := n.ForkChain(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Walk(ctx); err != nil {
		t.Fatal(err)
	}
	if got := c.ReceivedBy("", twice); len(got) != 0 {
		t.Errorf("after the fork: got %v, want nothing", got)
	}
	if has, err := c.Holds(ctx, twice); err != nil || has.Sign() != 0 {
		t.Errorf("balance after the fork: got %v %v, want 0", has, err)
	}
}
