package solana_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/localworld/surfpool/surfpooltest"
	"github.com/cofferpay/coffer/internal/money"
)

var usdc = surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}

func TestSolanaKeepsThePromisesOfAReader(t *testing.T) {
	t.Parallel()
	chaintest.RunReader(t, func(t *testing.T) chaintest.Lab { return newLab(t) })
}

// lab is a surfpool that makes blocks only when told.
type lab struct {
	node  *surfpool.Node
	front *proxy
	chain chain.Chain
	keys  map[chain.Address]ed25519.PrivateKey
	waits atomic.Bool // a transaction waits for a block

	// Whoever pays the fee is not who sends.
	payer, stranger ed25519.PrivateKey
}

var _ chaintest.Lab = (*lab)(nil)

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{node: surfpooltest.Borrow(t), keys: map[chain.Address]ed25519.PrivateKey{}}
	l.free(t)
	l.payer, l.stranger = l.rich(t), l.rich(t)
	if err := l.node.MintTo(t.Context(), usdc, surfpool.AddressOf(l.stranger), 1_000_000_000_000); err != nil {
		t.Fatal(err)
	}
	l.Finalize(t)
	l.front = newProxy(t, l.node.URL, l.settled(t))
	l.chain = open(t, config(l.front.URL))
	return l
}

// settled mends what comes of stopping the clock: the node tells balances of the slot
// that it is filling, which elsewhere is a block in no time.
func (l *lab) settled(t testing.TB) rule {
	return func(e *exchange) {
		var about struct {
			Context struct{ Slot uint64 }
		}
		if json.Unmarshal(e.Result, &about) != nil || l.waits.Load() || about.Context.Slot != l.node.Slot() {
			return
		}
		e.Edit(t, func(m map[string]any) { m["context"].(map[string]any)["slot"] = about.Context.Slot - 1 })
	}
}

// free takes the rent away, so that accounts can hold as little as the suite likes.
func (l *lab) free(t testing.TB) {
	t.Helper()
	rent := make([]byte, 17) // lamports a byte and year, years, part that is burnt
	if err := l.node.SetAccount(t.Context(), "SysvarRent111111111111111111111111111111111", 1, "Sysvar1111111111111111111111111111111111111", rent); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) rich(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	k := newKey(t)
	if err := l.node.SetLamports(t.Context(), surfpool.AddressOf(k), 1000*surfpool.LamportsPerSOL); err != nil {
		t.Fatal(err)
	}
	return k
}

func config(endpoints ...string) solana.Config {
	return solana.Config{Network: chain.Local, Endpoints: endpoints, Agree: len(endpoints)}
}

func open(t testing.TB, cfg solana.Config) chain.Chain {
	t.Helper()
	c, err := solana.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c.Chain()
}

func newKey(t testing.TB) ed25519.PrivateKey {
	t.Helper()
	k, err := surfpool.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func (l *lab) Chain() chain.Chain   { return l.chain }
func (l *lab) FeeCap() money.Amount { return money.Units(1_000_000) }
func (l *lab) Kinds() []chain.Kind  { return []chain.Kind{chain.Native, chain.Token} }
func (l *lab) Token() chain.Address { return surfpool.USDC }

func (l *lab) Account(t testing.TB) chain.Address {
	t.Helper()
	for {
		k := newKey(t)
		a := surfpool.AddressOf(k)
		// There is no checksum: of some addresses the beginning is one too, and the suite
		// wants it refused.
		if _, err := solanatx.Parse(string(a[:len(a)-1])); err != nil {
			l.keys[a] = k
			return a
		}
	}
}

func (l *lab) Give(t testing.TB, to, contract chain.Address, amount money.Amount) {
	t.Helper()
	units := amount.Big().Uint64()
	var err error
	if contract == "" {
		err = l.node.SetLamports(t.Context(), to, units)
	} else {
		_, err = l.node.PayToken(t.Context(), contract, to, units)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
}

// moves are the instructions of a payment of the stranger's.
func (l *lab) moves(kind chain.Kind, to chain.Address, units uint64) []surfpool.Instruction {
	from := surfpool.AddressOf(l.stranger)
	if kind == chain.Native {
		return []surfpool.Instruction{surfpool.Transfer(from, to, units)}
	}
	return []surfpool.Instruction{
		usdc.Create(surfpool.AddressOf(l.payer), to), usdc.Transfer(usdc.Account(from), usdc.Account(to), from, units),
	}
}

func (l *lab) Pay(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	return l.do(t, l.moves(kind, to, amount.Big().Uint64())...)
}

func (l *lab) PayInVain(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	ins := append(l.moves(kind, to, amount.Big().Uint64()), surfpool.Transfer(surfpool.AddressOf(l.stranger), to, 1<<60))
	return l.send(t, surfpool.Transaction{Keys: []ed25519.PrivateKey{l.payer, l.stranger}, Instructions: ins})
}

// do sends a transaction of the stranger's that has to succeed.
func (l *lab) do(t testing.TB, ins ...surfpool.Instruction) chain.TxHash {
	t.Helper()
	l.waits.Store(true)
	h, err := l.node.Do(context.WithoutCancel(t.Context()), surfpool.Transaction{Keys: []ed25519.PrivateKey{l.payer, l.stranger}, Instructions: ins})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (l *lab) send(t testing.TB, tx surfpool.Transaction) chain.TxHash {
	t.Helper()
	l.waits.Store(true)
	h, err := l.node.Send(context.WithoutCancel(t.Context()), tx)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (l *lab) Refuse(t testing.TB, to chain.Address) {
	t.Helper()
	_, err := l.node.Do(t.Context(), surfpool.Transaction{Keys: []ed25519.PrivateKey{l.node.Faucet()}, Instructions: []surfpool.Instruction{
		usdc.Create(l.node.FaucetAddress(), to), usdc.Freeze(usdc.Account(to), l.node.FaucetAddress()),
	}})
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
}

func (l *lab) Sign(t testing.TB, _ chain.Address, _ []byte) ([]byte, chain.TxHash) {
	t.Helper()
	t.Fatal("got a payload to sign, want none: nothing builds one yet")
	return nil, ""
}

func (l *lab) Mine(t testing.TB, blocks int) {
	t.Helper()
	if err := l.node.Mine(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
	l.waits.Store(false)
}

func (l *lab) Finalize(t testing.TB) {
	t.Helper()
	l.Mine(t, surfpool.Finality-1)
}

func (*lab) Forks() bool { return false }

func (l *lab) Fork(t testing.TB, _ int, _ ...chain.TxHash) {
	t.Helper()
	t.Fatal("got asked for a fork, want none: surfpool cannot")
}
