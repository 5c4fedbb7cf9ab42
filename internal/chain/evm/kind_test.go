package evm_test

import (
	"bytes"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
)

func TestWhoLendsAKeyToAProgramStillHasIt(t *testing.T) {
	t.Parallel()
	s := newProxiedLab(t, 2)
	c := s.open(t, 2, nil)
	h, err := c.Reader.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kind := func() (chain.AccountKind, error) { return c.Reader.Kind(t.Context(), h.Latest, s.to) }
	target := bytes.Repeat([]byte{0x11}, common.AddressLength)
	delegated := append([]byte{0xef, 0x01, 0x00}, target...)
	for name, of := range map[string]struct {
		code []byte
		want chain.AccountKind
	}{
		"nothing":                       {nil, chain.KeyAccount},
		"a delegation":                  {delegated, chain.KeyAccount},
		"a delegation and something":    {append(bytes.Clone(delegated), 0), chain.ContractAccount},
		"a delegation that is cut off":  {delegated[:22], chain.ContractAccount},
		"another version of delegation": {append([]byte{0xef, 0x01, 0x01}, target...), chain.ContractAccount},
		"one byte":                      {[]byte{0}, chain.ContractAccount},
	} {
		for _, p := range s.proxies { // anvil itself cannot have some of these
			p.SetRule("eth_getCode", func(e *exchange) { e.SetResult(`"` + hexutil.Encode(of.code) + `"`) })
		}
		if got, err := kind(); err != nil || got != of.want {
			t.Errorf("%s: got %q, %v, want %s", name, got, err, of.want)
		}
	}
	for _, p := range s.proxies {
		p.SetRule("eth_getCode", nil)
	}
	if got, err := kind(); err != nil || got != chain.KeyAccount {
		t.Errorf("both answer: got %q, %v, want KEYED", got, err)
	}
	for name, fault := range map[string]func(*exchange){
		"one is gone":         func(e *exchange) { e.DropConnection() },
		"one has pruned it":   func(e *exchange) { e.SetError(`{"code":-32000,"message":"missing trie node"}`) },
		"one says nothing":    func(e *exchange) { e.SetResult(`null`) },
		"one says no code":    func(e *exchange) { e.SetResult(`"hello"`) },
		"one says a contract": func(e *exchange) { e.SetResult(`"0x6000"`) },
	} {
		s.proxies[1].SetRule("eth_getCode", fault)
		if got, err := kind(); got == chain.KeyAccount {
			t.Errorf("%s: got %q, %v, want nobody taken for one who has a key", name, got, err)
		}
	}
}
