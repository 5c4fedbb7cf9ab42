package solana_test

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"maps"
	"slices"
	"sync"
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

const (
	priceMax = 1_000_000
	nonces   = 5 // nonce accounts of the payer
)

var usdc = surfpool.Mint{Address: surfpool.USDC, Program: solanatx.TokenProgram, Decimals: 6}

func TestSolanaKeepsThePromises(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab { return newLab(t) })
}

// lab is a surfpool that makes blocks only when told.
type lab struct {
	node  *surfpool.Node
	front *proxy
	chain chain.Chain
	keys  map[chain.Address]ed25519.PrivateKey
	waits atomic.Bool // a transaction waits for a block

	mu     sync.Mutex
	nonces map[chain.Address][]accountState // nonce accounts, oldest first

	// The fee payer is not the sender.
	payer, stranger ed25519.PrivateKey
}

// accountState is the state of an account from a slot on.
type accountState struct {
	slot    uint64
	account json.RawMessage
}

var _ chaintest.Lab = (*lab)(nil)

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{
		node: surfpooltest.Borrow(t), keys: map[chain.Address]ed25519.PrivateKey{},
		nonces: map[chain.Address][]accountState{},
	}
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

// settled corrects an effect of stopping the clock: the node returns balances of the slot that it
// is filling, which elsewhere becomes a block at once.
func (l *lab) settled(t testing.TB) rule {
	return func(e *exchange) {
		switch e.Method {
		case "sendTransaction":
			l.waits.Store(true)
		case "getMultipleAccounts":
			l.past(t, e)
		}
		var about struct {
			Context struct{ Slot uint64 }
		}
		if json.Unmarshal(e.Result, &about) != nil || l.waits.Load() || about.Context.Slot != l.node.CurrentSlot() {
			return
		}
		e.EditResult(t, func(m map[string]any) { m["context"].(map[string]any)["slot"] = about.Context.Slot - 1 })
	}
}

// past answers about nonce accounts with their state at the slot that the question names: the node
// itself returns the present state for every slot.
func (l *lab) past(t testing.TB, e *exchange) {
	t.Helper()
	var of []chain.Address
	var how struct{ Commitment string }
	if json.Unmarshal(e.Params[0], &of) != nil || json.Unmarshal(e.Params[1], &how) != nil {
		return
	}
	at := l.node.CurrentSlot() - 1
	if how.Commitment == "finalized" {
		at = l.node.CurrentSlot() - surfpool.Finality
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e.EditResult(t, func(m map[string]any) {
		list := m["value"].([]any)
		for i, a := range of {
			history, known := l.nonces[a]
			if !known {
				continue
			}
			list[i] = nil
			for _, h := range history {
				if h.slot <= at {
					list[i] = h.account
				}
			}
		}
	})
}

// remember records the state of the nonce accounts in the newest block.
func (l *lab) remember(t testing.TB) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	of := slices.Sorted(maps.Keys(l.nonces))
	for part := range slices.Chunk(of, 100) {
		var now struct{ Value []json.RawMessage }
		if err := l.node.RPC.CallContext(t.Context(), &now, "getMultipleAccounts", part,
			map[string]string{"encoding": "base64"}); err != nil {
			t.Fatal(err)
		}
		for i, a := range part {
			l.nonces[a] = append(l.nonces[a], accountState{l.node.CurrentSlot() - 1, now.Value[i]})
		}
	}
}

// free sets the rent to almost nothing, so that accounts can have balances as small as the suite
// needs.
func (l *lab) free(t testing.TB) {
	t.Helper()
	rent := make([]byte, 17) // lamports per byte and year, years, burnt share
	if err := l.node.SetAccount(t.Context(), "SysvarRent111111111111111111111111111111111", 1,
		"Sysvar1111111111111111111111111111111111111", rent); err != nil {
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
	return solana.Config{
		Network: chain.Local, Endpoints: endpoints, Quorum: len(endpoints), PriceMax: priceMax,
		Mints: map[chain.Address]solana.Mint{usdc.Address: {Program: usdc.Program, Decimals: usdc.Decimals}},
	}
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
func (l *lab) FeeCap() money.Amount { return money.Units(priceMax) }
func (l *lab) Kinds() []chain.Kind  { return []chain.Kind{chain.Native, chain.Token} }
func (l *lab) Token() chain.Address { return surfpool.USDC }

func (l *lab) Account(t testing.TB) chain.Address {
	t.Helper()
	for {
		k := newKey(t)
		a := surfpool.AddressOf(k)
		// There is no checksum: for some addresses the beginning is an address too, and the suite
		// wants it refused.
		if _, err := solanatx.Parse(string(a[:len(a)-1])); err != nil {
			l.keys[a] = k
			return a
		}
	}
}

func (l *lab) Fund(t testing.TB, to, contract chain.Address, amount money.Amount) {
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

// moves returns the instructions of a payment from an external account.
func (l *lab) moves(kind chain.Kind, to chain.Address, units uint64) []surfpool.Instruction {
	from := surfpool.AddressOf(l.stranger)
	if kind == chain.Native {
		return []surfpool.Instruction{surfpool.TransferLamports(from, to, units)}
	}
	return []surfpool.Instruction{
		usdc.CreateAccount(surfpool.AddressOf(l.payer), to), usdc.TransferTokens(usdc.AssociatedAccount(from),
			usdc.AssociatedAccount(to), from, units),
	}
}

func (l *lab) Pay(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	return l.do(t, l.moves(kind, to, amount.Big().Uint64())...)
}

func (l *lab) PayReverted(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	t.Helper()
	ins := append(l.moves(kind, to, amount.Big().Uint64()),
		surfpool.TransferLamports(surfpool.AddressOf(l.stranger), to, 1<<60))
	return l.send(t, surfpool.Transaction{Keys: []ed25519.PrivateKey{l.payer, l.stranger}, Instructions: ins})
}

// do sends a transaction of the external account that has to succeed.
func (l *lab) do(t testing.TB, ins ...surfpool.Instruction) chain.TxHash {
	t.Helper()
	l.waits.Store(true)
	h, err := l.node.SendAndCheck(context.WithoutCancel(t.Context()),
		surfpool.Transaction{Keys: []ed25519.PrivateKey{l.payer, l.stranger}, Instructions: ins})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (l *lab) send(t testing.TB, tx surfpool.Transaction) chain.TxHash {
	t.Helper()
	l.waits.Store(true)
	h, err := l.node.SendTx(context.WithoutCancel(t.Context()), tx)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (l *lab) RefusePayments(t testing.TB, to chain.Address) {
	t.Helper()
	_, err := l.node.SendAndCheck(t.Context(),
		surfpool.Transaction{
			Keys: []ed25519.PrivateKey{l.node.FaucetPrivateKey()},
			Instructions: []surfpool.Instruction{
				usdc.CreateAccount(l.node.FaucetAddress(), to), usdc.FreezeAccount(usdc.AssociatedAccount(to),
					l.node.FaucetAddress()),
			},
		})
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
}

func (l *lab) Sign(t testing.TB, _ chain.Address, payload []byte) ([]byte, chain.TxHash) {
	t.Helper()
	by, err := solanatx.Signers(payload)
	if err != nil {
		t.Fatal(err)
	}
	var signatures [][ed25519.SignatureSize]byte
	for _, a := range by {
		signatures = append(signatures, [ed25519.SignatureSize]byte(ed25519.Sign(l.keys[a], payload)))
	}
	raw, tx, err := solanatx.AttachSignatures(payload, signatures...)
	if err != nil {
		t.Fatal(err)
	}
	return raw, tx
}

func (l *lab) Payer(t testing.TB) chain.Address {
	t.Helper()
	a := l.Account(t)
	if err := l.node.SetLamports(t.Context(), a, 1000*surfpool.LamportsPerSOL); err != nil {
		t.Fatal(err)
	}
	for n := range uint32(nonces) {
		l.nonce(t, a, n)
	}
	l.Mine(t, 1)
	l.Finalize(t)
	return a
}

// nonce creates a nonce account, which exists from the next block on.
func (l *lab) nonce(t testing.TB, treasury chain.Address, n uint32) {
	t.Helper()
	p, err := l.chain.NonceAccounts.Creation(treasury, int(n))
	if err != nil {
		t.Fatal(err)
	}
	payload, err := l.chain.Sender.Build(treasury, chain.Slot{Key: string(p.To)}, l.quote(t, p), p)
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := l.Sign(t, treasury, payload)
	if a, said := l.chain.Sender.Send(t.Context(), raw); a != chain.Accepted {
		t.Fatalf("the creation of nonce account %d: got %v %q, want it accepted", n, a, said)
	}
	at, err := solanatx.NonceAccount(treasury, n)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nonces[at] = nil
}

func (l *lab) Mine(t testing.TB, blocks int) {
	t.Helper()
	if l.waits.Load() && blocks > 0 {
		if err := l.node.MineBlocks(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		l.remember(t)
		l.waits.Store(false)
		blocks--
	}
	if err := l.node.MineBlocks(t.Context(), blocks); err != nil {
		t.Fatal(err)
	}
}

func (l *lab) Finalize(t testing.TB) {
	t.Helper()
	l.Mine(t, surfpool.Finality-1)
}

func (*lab) CanFork() bool    { return false }
func (*lab) CanReplace() bool { return false }

func (l *lab) Fork(t testing.TB, _ int, _ ...chain.TxHash) {
	t.Helper()
	t.Fatal("got asked for a fork, want none: surfpool cannot")
}
