package coins

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/wallet"
)

const depth = 3 // blocks until final

// node is the house on a real chain, with the signer that a service has.
type node struct {
	*house
	*btcd.Node
}

func openNode(t *testing.T) node {
	t.Helper()
	n := btcdtest.Start(t, btcd.Config{})
	u, err := url.Parse(n.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword(btcd.User, n.Password)
	on, err := bitcoin.New(t.Context(), bitcoin.Config{Network: chain.Local, Endpoints: []string{u.String()}, Agree: 1, Confirmations: depth, CostMax: money.Units(200_000)})
	if err != nil {
		t.Fatal(err)
	}
	height, err := n.Height(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := build(t, on, uint64(height), local.Policy{WhitelistCoolingOff: "0s", Chains: map[chain.Name]local.ChainPolicy{
		chain.Bitcoin: {SignerID: chaincfg.RegressionNetParams.GenesisHash.String(), FeeMax: money.Units(200_000), GasMax: money.Units(200_000), Unlimited: true},
	}}, func(s *local.Signer, _ signer.Entry) signer.Signer { return s })
	return node{h, n}
}

// final makes what waits final.
func (n node) final() {
	n.Helper()
	for range depth {
		if _, err := n.Mine(n.ctx, 1); err != nil {
			n.Fatal(err)
		}
		n.step()
	}
}

func (n node) pay(to wallet.Wallet, satoshi int64) {
	n.Helper()
	_, err := n.Pay(n.ctx, to.Address, satoshi)
	n.must(err)
}

// spends are the amounts of the coins of an order's slot.
func (n node) spends(id string) (all []money.Amount) {
	n.Helper()
	var lease string
	n.must(pgtest.Owner(n.T, n.db).QueryRow(n.ctx, `SELECT lease FROM dispatch_slots WHERE order_id = $1`, id).Scan(&lease))
	coins, err := n.plan.Chain.Pool.Spends(lease)
	n.must(err)
	for _, c := range coins {
		all = append(all, c.Amount)
	}
	return all
}

// has is what an address holds finally.
func (n node) has(a chain.Address) money.Amount {
	n.Helper()
	heads, err := n.plan.Chain.Reader.Heads(n.ctx)
	n.must(err)
	has, err := n.plan.Chain.Reader.Balances(n.ctx, heads.Final, []chain.Holding{{Address: a}})
	n.must(err)
	return has[0]
}

func payee(t *testing.T) chain.Address {
	t.Helper()
	k, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return btcd.KeyAddress(k)
}

// Rules COIN-1, COIN-4 and COIN-5, on a real chain with the real signer, and a payment
// whose fee is raised while it waits.
func TestOnARealChainADepositsOutputPaysAndItsRestPaysTheNext(t *testing.T) {
	t.Parallel()
	n := openNode(t)
	n.pay(n.treasury, 100_000) // fees
	n.pay(n.alice, 25_000_000)
	n.final()
	n.coins("FREE 100000", "FREE 25000000")
	n.sound()

	to := payee(t)
	first := n.withdrawTo(10_000_000, to)
	n.step()
	n.want(first, "BROADCAST")
	if got := n.spends(first); !slices.Contains(got, money.Units(25_000_000)) {
		t.Errorf("the first payment spends %v, want the customer's deposit", got)
	}
	n.later(2 * time.Hour) // nobody mines
	n.step()
	if got := count(n.house, `SELECT count(*) FROM dispatch_attempts WHERE tx_hash IS NOT NULL`); got < 2 {
		t.Errorf("got %d transactions after two hours without a block, want a dearer one", got)
	}
	n.final()
	n.want(first, "PAID")
	if got := n.has(to); got != money.Units(10_000_000) {
		t.Errorf("the first payee has %v, want 10000000", got)
	}
	if got := count(n.house, `SELECT count(*) FROM coins WHERE status = 'FREE' AND amount > 14000000`); got != 1 {
		t.Errorf("got %d free coins of the rest, want one", got)
	}
	n.sound()

	to = payee(t)
	second := n.withdrawTo(12_000_000, to)
	n.step()
	n.want(second, "BROADCAST")
	n.final()
	n.want(second, "PAID")
	if got := n.has(to); got != money.Units(12_000_000) {
		t.Errorf("the second payee has %v, want 12000000", got)
	}
	if got := count(n.house, `SELECT count(*) FROM coins WHERE order_id = $1 AND status = 'SPENT'`, second); got == 0 {
		t.Error("no coin is the second payment's")
	}
	n.sound()
	if got := count(n.house, `SELECT count(*) FROM deposits`); got != 2 {
		t.Errorf("got %d deposits, want the two that came from outside: what comes back is none", got)
	}
}
