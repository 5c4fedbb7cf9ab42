package bitcoin_test

import (
	"net/url"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/money"
)

const confirmations = 3

func TestBitcoinKeepsThePromises(t *testing.T) {
	t.Parallel()
	chaintest.RunReader(t, func(t *testing.T) chaintest.Lab { return newLab(t) })
}

// lab is a btcd that makes blocks only when told.
type lab struct {
	node  *btcd.Node
	chain chain.Chain
}

var _ chaintest.Lab = (*lab)(nil)

// endpoint is where a node answers, with its password.
func endpoint(n *btcd.Node) string {
	u, err := url.Parse(n.URL)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(btcd.User, n.Password)
	return u.String()
}

func config(endpoints ...string) bitcoin.Config {
	return bitcoin.Config{Network: chain.Local, Endpoints: endpoints, Agree: len(endpoints), Confirmations: confirmations}
}

func open(t testing.TB, cfg bitcoin.Config) chain.Chain {
	t.Helper()
	c, err := bitcoin.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newLab(t testing.TB) *lab {
	t.Helper()
	n := btcdtest.Start(t, btcd.Config{})
	return &lab{n, open(t, config(endpoint(n)))}
}

func (l *lab) Chain() chain.Chain   { return l.chain }
func (l *lab) FeeCap() money.Amount { return money.Zero }
func (l *lab) Kinds() []chain.Kind  { return []chain.Kind{chain.Native} }
func (l *lab) Token() chain.Address { return "" }

func newKey(t testing.TB) *btcec.PrivateKey {
	t.Helper()
	k, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (l *lab) Account(t testing.TB) chain.Address {
	t.Helper()
	return btcd.KeyAddress(newKey(t))
}

func (l *lab) Payer(t testing.TB) chain.Address {
	t.Helper()
	a := l.Account(t)
	l.Give(t, a, "", money.Units(1_000_000_000))
	return a
}

func (l *lab) Give(t testing.TB, to, _ chain.Address, amount money.Amount) {
	t.Helper()
	l.Pay(t, chain.Native, to, amount)
	l.Mine(t, 1)
}

func (l *lab) pay(t testing.TB, to chain.Address, amount money.Amount) *wire.MsgTx {
	t.Helper()
	n, ok := amount.Uint64()
	if !ok {
		t.Fatalf("%v is more than there is", amount)
	}
	tx, err := l.node.Pay(t.Context(), to, int64(n))
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (l *lab) Pay(t testing.TB, _ chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	return chain.TxHash(l.pay(t, to, amount).TxHash().String())
}

// PayInVain replaces the payment by another before a block holds it: no chain of
// Bitcoin has a transaction that failed.
func (l *lab) PayInVain(t testing.TB, _ chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	tx := l.pay(t, to, amount)
	if _, err := l.node.Replace(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	return chain.TxHash(tx.TxHash().String())
}

func (l *lab) Refuse(t testing.TB, _ chain.Address) {
	t.Fatal("nobody can refuse a payment in bitcoins")
}

func (l *lab) Sign(t testing.TB, _ chain.Address, _ []byte) ([]byte, chain.TxHash) {
	t.Fatal("nothing is sent yet")
	return nil, ""
}

func (l *lab) Mine(t testing.TB, blocks int) {
	t.Helper()
	if _, err := l.node.Mine(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) Finalize(t testing.TB) {
	t.Helper()
	l.Mine(t, confirmations-1)
}

func (l *lab) Forks() bool    { return true }
func (l *lab) Replaces() bool { return true }

func (l *lab) Fork(t testing.TB, depth int, keep ...chain.TxHash) {
	t.Helper()
	var kept []chainhash.Hash
	for _, k := range keep {
		h, err := chainhash.NewHashFromStr(string(k))
		if err != nil {
			t.Fatal(err)
		}
		kept = append(kept, *h)
	}
	if err := l.node.Fork(t.Context(), depth, kept...); err != nil {
		t.Fatal(err)
	}
}
