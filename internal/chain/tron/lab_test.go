package tron_test

import (
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/chaintest"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

// lab is the fake as the suite controls it.
type lab struct {
	*fake
	ch chain.Chain
}

func newLab(t *testing.T) *lab {
	t.Helper()
	f := newFake(t)
	return &lab{f, f.open(t, 1, nil, &node{}).Chain()}
}

func TestTRONKeepsThePromises(t *testing.T) {
	t.Parallel()
	chaintest.Run(t, func(t *testing.T) chaintest.Lab { return newLab(t) })
}

func (l *lab) Chain() chain.Chain            { return l.ch }
func (l *lab) FeeCap() money.Amount          { return money.Units(2000) }
func (l *lab) CanReplace() bool              { return false }
func (l *lab) CanFork() bool                 { return true }
func (l *lab) Token() chain.Address          { return l.token }
func (l *lab) Kinds() []chain.Kind           { return []chain.Kind{chain.Native, chain.Internal, chain.Token} }
func (l *lab) Mine(_ testing.TB, blocks int) { l.locked(func() { l.mine(blocks) }) }
func (l *lab) Finalize(t testing.TB)         { l.Mine(t, solidBehind) }

func (l *lab) Account(testing.TB) (a chain.Address) {
	l.locked(func() { a = l.account() })
	return a
}

func (l *lab) Payer(t testing.TB) chain.Address {
	a := l.Account(t)
	l.Fund(t, a, "", money.Units(1_000_000_000_000))
	return a
}

func (l *lab) Fund(t testing.TB, to, contract chain.Address, amount money.Amount) {
	l.locked(func() {
		if contract != "" {
			l.pending = append(l.pending, l.tokenTransfer(to, amount))
		} else {
			l.pending = append(l.pending, l.transfer(to, sun(t, amount)))
		}
		l.mine(1)
	})
}

func sun(t testing.TB, amount money.Amount) int64 {
	t.Helper()
	n, ok := amount.Uint64()
	if !ok || n > 1<<62 {
		t.Fatalf("%v sun are more than the fake has", amount)
	}
	return int64(n)
}

func (l *lab) Pay(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	return l.pay(t, kind, to, amount, false)
}

func (l *lab) PayReverted(t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount) chain.TxHash {
	return l.pay(t, kind, to, amount, true)
}

func (l *lab) pay(
	t testing.TB, kind chain.Kind, to chain.Address, amount money.Amount, inVain bool,
) (hash chain.TxHash) {
	l.locked(func() {
		var x *fakeTx
		switch kind {
		case chain.Native:
			x = l.transfer(to, sun(t, amount))
			if inVain {
				x.script = func(*fakeState, map[string]any) string { return "REVERT" }
			} else if amount.IsZero() {
				x.script = func(*fakeState, map[string]any) string { return "SUCCESS" }
			}
		case chain.Token:
			x = l.tokenTransfer(to, amount)
			switch {
			case inVain:
				x.script = func(*fakeState, map[string]any) string { return "REVERT" }
			case amount.IsZero():
				x.script = func(_ *fakeState, info map[string]any) string {
					info["log"] = []any{transferLog(l.fake, l.token, l.stranger, to, amount)}
					return "SUCCESS"
				}
			}
		default:
			x = l.call(l.router, l.bytes(to))
			n := uint64(sun(t, amount))
			x.script = func(s *fakeState, info map[string]any) string {
				info["internal_transactions"] = []any{internalTx(l.fake, l.router, to, n, inVain)}
				if !inVain && n > 0 {
					s.coins[to] += n
				}
				return "SUCCESS"
			}
		}
		l.pending = append(l.pending, x)
		hash = chain.TxHash(x.hash)
	})
	return hash
}

func (l *lab) RefusePayments(t testing.TB, to chain.Address) {
	l.locked(func() {
		x := l.call(l.router, []byte("refuse"))
		x.script = func(s *fakeState, _ map[string]any) string {
			s.refused[to] = true
			return "SUCCESS"
		}
		l.pending = append([]*fakeTx{x}, l.pending...)
	})
}

func (l *lab) Sign(t testing.TB, from chain.Address, payload []byte) (raw []byte, tx chain.TxHash) {
	t.Helper()
	digest := trontx.Digest(payload)
	var sig []byte
	var err error
	l.locked(func() { sig, err = crypto.Sign(digest[:], l.keys[from]) })
	if err != nil {
		t.Fatal(err)
	}
	if raw, tx, err = trontx.AttachSignature(payload, sig); err != nil {
		t.Fatal(err)
	}
	return raw, tx
}

func (l *lab) Fork(_ testing.TB, depth int, keep ...chain.TxHash) {
	l.locked(func() {
		var kept []*fakeTx
		at := len(l.blocks) - depth
		for _, b := range l.blocks[at:] {
			for _, x := range b.plain {
				for _, k := range keep {
					if string(k) == x.hash {
						kept = append(kept, x)
					}
				}
			}
		}
		l.blocks, l.pending = l.blocks[:at:at], nil
		l.branch++
		l.mine(depth - 1)
		l.pending = kept
		l.mine(1)
	})
}
