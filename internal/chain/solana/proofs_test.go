package solana_test

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// proves asks for the proof of a nonce account and checks it.
func proves(t *testing.T, c chain.Chain, treasury chain.Address, slotKey string, known ...string) string {
	t.Helper()
	proof, err := c.SlotProver.ProveSlot(t.Context(), treasury, slotKey, known...)
	if err != nil {
		t.Fatalf("Proof(%s): got %v, want one", slotKey, err)
	}
	_, value, err := solanatx.ParseSlotKey(slotKey)
	if err != nil {
		t.Fatal(err)
	}
	if v, err := solanatx.NonceValueAfter(proof); err != nil || v != value {
		t.Fatalf("got block %s (%v), from which %s follows, want %s", proof, err, v, value)
	}
	return proof
}

// The proof of a nonce account is the block before the one that created it, or before its last use,
// by any user and in spite of other transactions that name it.
func TestANonceIsProvenByTheBlockBefore(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	at := l.slot(t, from, 0)
	account, _, err := solanatx.ParseSlotKey(at.Key)
	if err != nil {
		t.Fatal(err)
	}
	made := proves(t, l.chain, from, at.Key)

	p := chain.Payment{From: from, To: l.Account(t), Amount: money.Units(1_000_000)}
	fees := l.quote(t, p)
	raw, _ := l.signed(t, &p, from, at, fees)
	l.take(t, raw)
	l.Mine(t, 1)
	l.Finalize(t)
	next := l.slot(t, from, 0)
	if next.Key == at.Key {
		t.Fatal("got the same nonce, want it used")
	}
	for range 3 { // other transactions name it
		l.Pay(t, chain.Native, account, money.Units(1))
		l.Mine(t, 1)
	}
	l.Finalize(t)
	used := proves(t, l.chain, from, next.Key)
	if used == made {
		t.Error("got one block for two values, want two")
	}
	if got := proves(t, l.chain, from, at.Key); got != made {
		t.Errorf("what it was before: got %s, want %s", got, made)
	}

	// The caller's own proof is compared first, and no provider is asked.
	before := l.front.CallCount("getSignaturesForAddress")
	if got := proves(t, l.chain, from, next.Key, "", made, "no hash", used); got != used ||
		l.front.CallCount("getSignaturesForAddress") != before {
		t.Errorf("got %s and providers asked, want %s and none", got, used)
	}

	for what, slotKey := range map[string]string{
		"a recent block":  solanatx.SlotKey(account, used),
		"another account": solanatx.SlotKey(l.Account(t), strings.Fields(next.Key)[1]),
		"a site":          string(account),
	} {
		if proof, err := l.chain.SlotProver.ProveSlot(t.Context(), from, slotKey, used, made); err == nil {
			t.Errorf("%s: got proof %s, want an error", what, proof)
		}
	}
}

// A proof cannot be forged, so one provider that has it is enough, and any number of false or
// forgetful providers do no harm.
func TestAProofIsFoundWhereSomebodyHasIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	slotKey := l.slot(t, from, 0).Key
	want := proves(t, l.chain, from, slotKey)
	for what, lie := range map[string]func(*proxy){
		"another parent": func(p *proxy) {
			p.SetRule("getBlock", func(e *exchange) {
				e.EditResult(t, func(m map[string]any) { m["previousBlockhash"] = m["blockhash"] })
			})
		},
		"no parent": func(p *proxy) {
			p.SetRule("getBlock", func(e *exchange) {
				e.EditResult(t, func(m map[string]any) {
					delete(m, "previousBlockhash")
				})
			})
		},
		"the block is gone": func(p *proxy) {
			p.SetRule("getBlock", func(e *exchange) { e.SetError(`{"code":-32001,"message":"Block cleaned up"}`) })
		},
		"the history is gone": func(p *proxy) {
			p.SetRule("getSignaturesForAddress", func(e *exchange) {
				e.SetResult(`[]`)
			})
		},
		"there is no history": func(p *proxy) {
			p.SetRule("getSignaturesForAddress", func(e *exchange) {
				e.SetError(`{"code":-32011,"message":"Transaction history is not available from this node"}`)
			})
		},
		"another block": func(p *proxy) {
			p.SetRule("getSignaturesForAddress", func(e *exchange) {
				e.EditList(t, func(all []map[string]any) []map[string]any {
					for i := range all {
						all[i]["slot"] = l.node.CurrentSlot() - 1
					}
					return all
				})
			})
		},
	} {
		liar := newProxy(t, l.node.URL, l.settled(t))
		lie(liar)
		if proof, err := open(t, config(liar.URL)).SlotProver.ProveSlot(t.Context(), from, slotKey); err == nil {
			t.Errorf("%s: got proof %s, want an error", what, proof)
		}
		if got := proves(t, open(t, config(liar.URL, l.front.URL)), from, slotKey); got != want {
			t.Errorf("%s, and somebody who knows: got %s, want %s", what, got, want)
		}
	}
}
