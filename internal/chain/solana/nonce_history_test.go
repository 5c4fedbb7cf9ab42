package solana_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
	"github.com/cofferpay/coffer/internal/money"
)

func TestWhoSignedForANonceAccountIsFoundThoughOneProviderHidesIt(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	from := l.Payer(t)
	slotKey := l.slot(t, from, 0).Key
	at, _, err := solanatx.ParseSlotKey(slotKey)
	if err != nil {
		t.Fatal(err)
	}
	pay := func() chain.TxHash {
		t.Helper()
		p := chain.Payment{From: from, To: l.Account(t), Amount: money.Units(1_000_000)}
		raw, hash := l.signed(t, &p, from, l.slot(t, from, 0), l.quote(t, p))
		l.take(t, raw)
		l.Mine(t, 1)
		l.Finalize(t)
		return hash
	}
	l.do(t, surfpool.TransferLamports(surfpool.AddressOf(l.stranger), at, 1)) // names it, and does not use it
	one := pay()
	two := pay()
	hides := newProxy(t, l.node.URL, l.settled(t))
	cfg := config(l.front.URL, hides.URL)
	c := open(t, cfg)
	hides.SetRule("getSignaturesForAddress", func(e *exchange) { e.Result = []byte("[]") })
	var mu sync.Mutex // several providers are asked at once
	var asked []chain.TxHash
	knows := func(known ...chain.TxHash) func(context.Context, chain.TxHash, string) (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = nil
		return func(_ context.Context, tx chain.TxHash, took string) (bool, error) {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, tx)
			if a, _, err := solanatx.ParseSlotKey(took); err != nil || a != at {
				t.Errorf("%s took %q, want a value of %s", tx, took, at)
			}
			return slices.Contains(known, tx), nil
		}
	}
	for what, tt := range map[string]struct {
		since, newest, strange chain.TxHash
		known                  []chain.TxHash
	}{
		"both ours":            {newest: two, known: []chain.TxHash{one, two}},
		"the newest is not":    {newest: two, strange: two, known: []chain.TxHash{one}},
		"nothing since":        {since: two},
		"one since, not ours":  {since: one, newest: two, strange: two, known: []chain.TxHash{one}},
		"one since, and ours":  {since: one, newest: two, known: []chain.TxHash{two}},
		"the older is no news": {newest: two, known: []chain.TxHash{two}},
	} {
		newest, strange, err := c.NonceAccounts.FindUnknownUse(t.Context(), from, slotKey, tt.since, knows(tt.known...))
		if err != nil || newest != tt.newest || strange != tt.strange {
			t.Errorf("%s: got %q, %q, %v, want %q, %q", what, newest, strange, err, tt.newest, tt.strange)
		}
		mu.Lock()
		again := slices.Contains(asked, one)
		mu.Unlock()
		if again {
			t.Errorf("%s: got asked about %q, want it left where it was looked at", what, asked)
		}
	}
	unsure := errors.New("nobody knows")
	if _, _, err := c.NonceAccounts.FindUnknownUse(t.Context(), from, slotKey, "",
		func(context.Context, chain.TxHash, string) (bool, error) { return false, unsure }); !errors.Is(err, unsure) {
		t.Errorf("got %v, want %v", err, unsure)
	}
	hides.SetRule("getSignaturesForAddress", (*exchange).HangUntilCancelled)
	if _, _, err := c.NonceAccounts.FindUnknownUse(t.Context(), l.Account(t), slotKey, "", knows()); err == nil {
		t.Error("a place of somebody else: got no error")
	}
	// A transaction that another key has signed is not the treasury's, in spite of any provider's
	// answer.
	l.front.SetRule("getTransaction", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			of := m["transaction"].([]any)
			raw, err := base64.StdEncoding.DecodeString(of[0].(string))
			if err != nil || len(raw) < 64 {
				t.Errorf("got %d bytes, %v, want a transaction", len(raw), err)
				return
			}
			raw[10] ^= 1 // of the signature
			of[0] = base64.StdEncoding.EncodeToString(raw)
		})
	})
	hides.SetRule("getSignaturesForAddress", nil)
	newest, strange, err := open(t, config(l.front.URL)).NonceAccounts.FindUnknownUse(t.Context(), from, slotKey, "",
		knows())
	if err != nil || newest != "" || strange != "" {
		t.Errorf("with signatures that are none: got %q, %q, %v, want nothing", newest, strange, err)
	}
}
