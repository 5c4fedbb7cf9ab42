package sim

import (
	"crypto/ecdsa"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
)

// TestTheSimulatedChainKeepsThePromisesOfEveryChain runs the suite that the real adapters pass, so
// that a proof on this chain is meaningful for them.
func TestTheSimulatedChainKeepsThePromisesOfEveryChain(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(*testing.T) chaintest.Lab {
		c := New(Config{})
		c.Mint(Address("nobody"), Address("token"), money.Zero) // it exists since the first block
		return &lab{c: c, keys: map[chain.Address]*ecdsa.PrivateKey{}}
	})
}

type lab struct {
	c         *Chain
	keys      map[chain.Address]*ecdsa.PrivateKey
	strangers int
}

func (l *lab) Chain() chain.Chain   { return l.c.ToChain() }
func (l *lab) FeeCap() money.Amount { return money.Units(l.c.conf.FeeCap) }
func (l *lab) Kinds() []chain.Kind  { return []chain.Kind{chain.Native, chain.Internal, chain.Token} }
func (l *lab) Token() chain.Address { return Address("token") }

func (l *lab) Account(t testing.TB) chain.Address {
	t.Helper()
	key, err := crypto.GenerateKey()
	if err != nil {
		t.Fatalf("make a key: %v", err)
	}
	a := evmtx.Canonical(crypto.PubkeyToAddress(key.PublicKey))
	l.keys[a] = key
	return a
}

func (l *lab) Payer(t testing.TB) chain.Address {
	t.Helper()
	a := l.Account(t)
	l.Fund(t, a, "", chaintest.AmpleNative)
	return a
}

func (l *lab) Fund(_ testing.TB, to, contract chain.Address, amount money.Amount) {
	l.c.Mint(to, contract, amount)
}

func (l *lab) move(k chain.Kind, to chain.Address, amount money.Amount) (chain.Address, Move) {
	l.strangers++
	from := Address(fmt.Sprintf("stranger %d", l.strangers))
	m := Move{Kind: k, To: to, Amount: amount}
	if k == chain.Token {
		m.Contract = l.Token()
	}
	l.c.Mint(from, m.Contract, amount)
	return from, m
}

func (l *lab) Pay(_ testing.TB, k chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	from, m := l.move(k, to, amount)
	return l.c.SubmitTx(from, m)
}

func (l *lab) PayReverted(_ testing.TB, k chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	from, m := l.move(k, to, amount)
	if k == chain.Internal {
		m.Reverted = true
		return l.c.SubmitTx(from, m)
	}
	return l.c.SubmitFailing(from, m)
}

func (l *lab) RefusePayments(_ testing.TB, to chain.Address) {
	l.c.RefuseTransfers(l.Token(), to, "blacklisted")
}

func (l *lab) Sign(t testing.TB, from chain.Address, payload []byte) ([]byte, chain.TxHash) {
	t.Helper()
	digest := evmtx.Digest(payload)
	signature, err := crypto.Sign(digest[:], l.keys[from])
	if err != nil {
		t.Fatalf("sign the payload: %v", err)
	}
	raw, hash, err := evmtx.AttachSignature(payload, signature, from)
	if err != nil {
		t.Fatalf("attach the signature: %v", err)
	}
	return raw, hash
}

func (*lab) CanFork() bool    { return true }
func (*lab) CanReplace() bool { return true }

func (l *lab) Mine(_ testing.TB, blocks int) { l.c.Mine(blocks) }
func (l *lab) Finalize(_ testing.TB)         { l.c.Mine(int(l.c.conf.FinalityDepth)) }

func (l *lab) Fork(_ testing.TB, depth int, keep ...chain.TxHash) {
	var dropped []chain.TxHash
	for _, b := range l.c.blocks[len(l.c.blocks)-depth:] {
		for _, x := range b.txs {
			if !slices.Contains(keep, x.hash) {
				dropped = append(dropped, x.hash)
			}
		}
	}
	l.c.Fork(depth, dropped...)
	l.c.MineEmpty(depth - 1)
	l.c.MineOnly(keep...)
}

func TestAProviderThatLiesAloneIsFoundOut(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		providers int
		lie       func(*Chain)
		want      error
	}{
		{"another hash, two asked", 2, func(c *Chain) { c.Provider(1).LieHash(1, true) }, chain.ErrDisagreement},
		{
			"all movements left out, one asked", 1, func(c *Chain) { c.Provider(0).LieEmpty(1, true) },
			chain.ErrDisagreement,
		},
		{"all movements left out, two asked", 2, func(c *Chain) { c.Provider(0).LieEmpty(1, true) }, nil},
		{"behind, two asked", 2, func(c *Chain) { c.Provider(1).SetLag(5) }, chain.ErrNotYet},
		{"down, two asked", 2, func(c *Chain) { c.Provider(1).SetDown(errors.New("no route")) }, chain.ErrNotYet},
		{"undecodable", 1, func(c *Chain) { c.SetUndecodable(1, true) }, chain.ErrUndecodable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := New(Config{Providers: tt.providers})
			c.Mint(Address("a"), "", money.Units(10))
			c.Pay(Address("a"), Address("b"), "", 10)
			c.Mine(4)
			tt.lie(c)
			got, err := c.Final(t.Context(), 1)
			if !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			if tt.want == nil && len(got.Transfers) != 1 {
				t.Errorf("got %v, want the movement", got.Transfers)
			}
		})
	}
}

func TestAnAnswerSaysNothingAboutWhatHappenedToTheBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fault func(*Provider)
		want  chain.Answer
		mined bool
	}{
		{"taken", func(*Provider) {}, chain.Accepted, true},
		{"taken and the answer lost", func(p *Provider) { p.LoseAnswers(true) }, chain.Unknown, true},
		{"accepted and swallowed", func(p *Provider) { p.Swallow(true) }, chain.Accepted, false},
		{"refused", func(p *Provider) { p.RefuseSend("nonce too low") }, chain.Unknown, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := &lab{c: New(Config{}), keys: map[chain.Address]*ecdsa.PrivateKey{}}
			from := l.Account(t)
			l.c.Mint(from, "", money.MustParse("1000000000000000000"))
			p := &chain.Payment{From: from, To: Address("b"), Amount: money.Units(5)}
			fees, err := l.c.Quote(t.Context(), *p)
			if err != nil {
				t.Fatalf("Quote: %v", err)
			}
			payload, err := l.c.Build(from, chain.Slot{}, fees, *p)
			if err != nil {
				t.Fatalf("Build: %v", err)
			}
			raw, hash := l.Sign(t, from, payload)
			tt.fault(l.c.Provider(0))
			if got, said := l.c.Send(t.Context(), raw); got != tt.want {
				t.Errorf("got %v %q, want %v", got, said, tt.want)
			}
			l.c.Mine(1)
			if got := !l.c.Balance(p.To, "").IsZero(); got != tt.mined {
				t.Errorf("mined: got %v, want %v", got, tt.mined)
			}
			if tt.name == "accepted and swallowed" {
				if !l.c.DeliverSwallowed(hash) {
					t.Fatal("got nothing swallowed, want the transaction")
				}
				l.c.Mine(1)
				if got := l.c.Balance(p.To, ""); got != p.Amount {
					t.Errorf("delivered late: got %v, want %v", got, p.Amount)
				}
			}
		})
	}
}

func TestAForeignTransactionTakesTheNonceOfOurs(t *testing.T) {
	t.Parallel()
	l := &lab{c: New(Config{}), keys: map[chain.Address]*ecdsa.PrivateKey{}}
	from := l.Account(t)
	l.c.Mint(from, "", money.MustParse("1000000000000000000"))
	p := &chain.Payment{From: from, To: Address("b"), Amount: money.Units(5)}
	fees, err := l.c.Quote(t.Context(), *p)
	if err != nil {
		t.Fatalf("Quote: %v", err)
	}
	payload, err := l.c.Build(from, chain.Slot{}, fees, *p)
	if err != nil {
		t.Fatalf("Build: %v", err)
	}
	raw, ours := l.Sign(t, from, payload)
	l.c.Send(t.Context(), raw)
	theirs := l.c.SubmitForeign(from, Move{To: Address("thief"), Amount: money.Units(1)})
	l.c.Mine(1)
	if o, err := l.c.Outcome(t.Context(), []chain.TxHash{ours}, *p); err != nil || o != nil {
		t.Errorf("ours: got %+v, %v, want it nowhere", o, err)
	}
	if o, err := l.c.Outcome(t.Context(), []chain.TxHash{theirs}); err != nil || o == nil {
		t.Errorf("theirs: got %+v, %v, want it mined", o, err)
	}
	if a, err := l.c.Account(t.Context(), from); err != nil || a.Latest != 1 {
		t.Errorf("got %+v, %v, want nonce 1", a, err)
	}
}
