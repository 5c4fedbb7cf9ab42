package bitcoin_test

import (
	"bytes"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/localworld/btcd/btcdtest"
	"github.com/cofferpay/coffer/internal/money"
)

const confirmations = 3

func TestBitcoinKeepsThePromises(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab { return newLab(t) })
}

func TestBitcoinKeepsThePromisesWithEsplora(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab {
		l := newLab(t)
		l.chain = open(t, config(endpoint(l.node), newExplorer(t, l.node, nil)))
		return l
	})
}

// This configuration is unsafe beyond a local network, but it can do all that a node can.
func TestBitcoinKeepsThePromisesWithEsploraAlone(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab {
		l := newLab(t)
		l.chain = open(t, config(newExplorer(t, l.node, nil)))
		return l
	})
}

// lab is a btcd that makes blocks only when told.
type lab struct {
	node  *btcd.Node
	chain chain.Chain

	mu    sync.Mutex
	keys  map[chain.Address]*btcec.PrivateKey
	coins map[chain.Address][]chain.Output
}

var _ chaintest.UTXOLab = (*lab)(nil)

// endpoint returns a node's URL, with its password.
func endpoint(n *btcd.Node) string {
	u, err := url.Parse(n.URL)
	if err != nil {
		panic(err)
	}
	u.User = url.UserPassword(btcd.User, n.Password)
	return u.String()
}

// rateMax is the most that the tests pay for a thousand virtual bytes.
const rateMax = 100_000

func config(endpoints ...string) bitcoin.Config {
	return bitcoin.Config{
		Network: chain.Local, Endpoints: endpoints, Quorum: len(endpoints),
		Confirmations: confirmations, RateMax: rateMax,
	}
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
	return &lab{
		node: n, chain: open(t, config(endpoint(n))), keys: map[chain.Address]*btcec.PrivateKey{},
		coins: map[chain.Address][]chain.Output{},
	}
}

func (l *lab) Chain() chain.Chain   { return l.chain }
func (l *lab) FeeCap() money.Amount { return money.Units(rateMax) }
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
	k := newKey(t)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.keys[btcd.KeyAddress(k)] = k
	return btcd.KeyAddress(k)
}

// Payer returns an address with five outputs.
func (l *lab) Payer(t testing.TB) chain.Address {
	t.Helper()
	a := l.Account(t)
	l.fund(t, a, 200_000_000, 200_000_000, 200_000_000, 200_000_000, 200_000_000)
	return a
}

// fund creates outputs of an address.
func (l *lab) fund(t testing.TB, a chain.Address, amounts ...uint64) []chain.Output {
	t.Helper()
	var made []chain.Output
	for _, amount := range amounts {
		tx := l.pay(t, a, money.Units(amount))
		out, err := btcd.NewOutput(a, int64(amount))
		if err != nil {
			t.Fatal(err)
		}
		n := slices.IndexFunc(tx.TxOut, func(o *wire.TxOut) bool { return bytes.Equal(o.PkScript, out.PkScript) })
		made = append(made, chain.Output{
			Outpoint: bitcointx.FormatOutpoint(chain.TxHash(tx.TxHash().String()),
				uint32(n)), Owner: a, Amount: money.Units(amount),
		})
	}
	l.Mine(t, 1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.coins[a] = append(l.coins[a], made...)
	return made
}

func (l *lab) Outputs(_ testing.TB, of chain.Address) []chain.Output {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.coins[of])
}

func (l *lab) Fund(t testing.TB, to, _ chain.Address, amount money.Amount) {
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
	tx, err := l.node.PayAddress(t.Context(), to, int64(n))
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func (l *lab) Pay(t testing.TB, _ chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	return chain.TxHash(l.pay(t, to, amount).TxHash().String())
}

// PayReverted replaces the payment by another before a block has it: no Bitcoin chain has a
// transaction that failed.
func (l *lab) PayReverted(t testing.TB, _ chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	tx := l.pay(t, to, amount)
	if _, err := l.node.ReplacePayment(t.Context(), tx); err != nil {
		t.Fatal(err)
	}
	return chain.TxHash(tx.TxHash().String())
}

func (l *lab) RefusePayments(t testing.TB, _ chain.Address) {
	t.Fatal("nobody can refuse a payment in bitcoins")
}

func (l *lab) Sign(t testing.TB, _ chain.Address, payload []byte) ([]byte, chain.TxHash) {
	t.Helper()
	spends, err := bitcointx.SigningInputs(payload)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var signatures [][]byte
	for _, s := range spends {
		compact := ecdsa.SignCompact(l.keys[s.Owner], s.Hash[:], true)
		signatures = append(signatures, append(compact[1:], compact[0]-27-4))
	}
	raw, hash, err := bitcointx.AttachSignatures(payload, signatures...)
	if err != nil {
		t.Fatal(err)
	}
	return raw, hash
}

func (l *lab) Mine(t testing.TB, blocks int) {
	t.Helper()
	if _, err := l.node.MineBlocks(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) Finalize(t testing.TB) {
	t.Helper()
	l.Mine(t, confirmations-1)
}

func (l *lab) CanFork() bool    { return true }
func (l *lab) CanReplace() bool { return true }

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
	if err := l.node.ForkChain(t.Context(), depth, kept...); err != nil {
		t.Fatal(err)
	}
}
