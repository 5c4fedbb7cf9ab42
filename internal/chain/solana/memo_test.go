package solana_test

import (
	"crypto/ed25519"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
)

// Rule DEP-54, with an honest provider and a false one asked before it.
func TestAPayersMemoIsReadWhateverOneProviderSays(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	to := l.Account(t)
	pay := func(kind chain.Kind, units uint64, memos ...string) chain.TxHash {
		t.Helper()
		ins := l.moves(kind, to, units)
		for _, m := range memos {
			ins = append(ins, surfpool.Memo(m))
		}
		return l.do(t, ins...)
	}
	coin := pay(chain.Native, 1_000_000, "order 7")
	token := pay(chain.Token, 5, "order 8", "for Ann: ☕")
	silent := pay(chain.Native, 2_000_000)
	table := surfpool.AddressOf(newKey(t))
	if err := l.node.PlaceLookupTable(t.Context(), table, to); err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)
	l.waits.Store(true)
	lookedUp, err := l.node.SendAndCheck(t.Context(), surfpool.Transaction{
		Keys: []ed25519.PrivateKey{l.payer, l.stranger}, LookupTable: table, TableAddresses: []chain.Address{to},
		Instructions: append(l.moves(chain.Native, to, 3_000_000), surfpool.Memo("order 9")),
	})
	if err != nil {
		t.Fatal(err)
	}
	l.Mine(t, 1)

	lies := newProxy(t, l.node.URL, l.settled(t))
	cfg := config(lies.URL, l.front.URL)
	cfg.Timeout = time.Second
	memos := open(t, cfg).Memos
	want := func(what string, tx chain.TxHash, memo string, refusals int) {
		t.Helper()
		got, refused, err := memos.Memo(t.Context(), tx)
		if err != nil || got != memo {
			t.Errorf("%s: got %q, %v, want %q", what, got, err, memo)
		}
		if n := len(lines(refused)); n != refusals {
			t.Errorf("%s: got %v refused, want %d", what, refused, refusals)
		}
	}
	want("a coin", coin, "order 7", 0)
	want("a token", token, "order 8\nfor Ann: ☕", 0)
	want("no memo", silent, "", 0)
	want("version 0", lookedUp, "order 9", 0)
	if n := l.front.CallCount("getTransaction"); n != 0 {
		t.Errorf("got %d requests to a second provider, want none: the first one's answer is proven", n)
	}

	raw := func(tx chain.TxHash) (out []byte) {
		t.Helper()
		var got struct{ Transaction []string }
		if err := l.node.RPC.CallContext(t.Context(), &got, "getTransaction", tx, map[string]any{
			"encoding":                       "base64",
			"maxSupportedTransactionVersion": 1, "commitment": "confirmed",
		}); err != nil {
			t.Fatal(err)
		}
		out, err := base64.StdEncoding.DecodeString(got.Transaction[0])
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	shows := func(b []byte) rule {
		return func(e *exchange) {
			e.EditResult(t, func(m map[string]any) {
				m["transaction"].([]any)[0] = base64.StdEncoding.EncodeToString(b)
			})
		}
	}
	altered := []byte(strings.Replace(string(raw(coin)), "order 7", "order 8", 1))
	lies.SetRule("getTransaction", shows(altered))
	want("an altered memo", coin, "order 7", 1)
	lies.SetRule("getTransaction", shows(raw(token)))
	want("another transaction", coin, "order 7", 1)
	lies.SetRule("getTransaction", shows(nil))
	want("no bytes", coin, "order 7", 1)
	lies.SetRule("getTransaction", func(e *exchange) { e.SetResult("null") })
	want("a provider that has forgotten it", coin, "order 7", 0)
	lies.SetRule("getTransaction", (*exchange).HangUntilCancelled)
	want("a silent provider", coin, "order 7", 0)
	l.front.SetRule("getTransaction", func(e *exchange) { e.SetResult("null") })
	if got, _, err := memos.Memo(t.Context(), coin); err == nil {
		t.Errorf("when no provider shows it: got %q, want an error and not that there is no memo", got)
	}
}

func lines(err error) []string {
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "\n")
}
