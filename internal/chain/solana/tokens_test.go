package solana_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/localworld/surfpool"
)

// Hostile H-64: what a Token-2022 token allows is read from its mint.
func TestATokenThatIsNoMoneyIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	cfg := config(l.node.URL)
	who := l.Account(t)
	address := make([]byte, 32)
	place := func(allow []uint16, extensions ...surfpool.Extension) chain.Address {
		m := surfpool.Mint{
			Address: surfpool.AddressOf(newKey(t)), Program: solanatx.Token2022Program, Decimals: 6,
			Extensions: extensions,
		}
		if err := l.node.PlaceMint(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		cfg.Mints[m.Address] = solana.Mint{Program: m.Program, Decimals: 6, Allow: allow}
		return m.Address
	}
	of := func(kind uint16, bytes int) surfpool.Extension {
		return surfpool.Extension{Type: kind, Data: make([]byte, bytes)}
	}
	want := map[chain.Address]string{
		surfpool.USDC: "", // of the Token program, which has none
		place(nil):    "",
		place(nil, surfpool.Extension{Type: 18, Data: append(address, address...)}): "",
		place(nil, surfpool.TransferFee(0, 0)):                                      "a fee on transfers", // none today
		place(nil,
			of(14, 64)): "a program that each transfer calls",
		place(nil, surfpool.PermanentDelegate(who)): "a permanent delegate",
		place(nil, of(6, 1)):                        "a state that new accounts have",
		place(nil, of(4, 65)):                       "confidential transfers",
		place(nil, of(16, 129)):                     "confidential fees",
		place(nil, of(26, 33)):                      "pause",
		place(nil, of(999, 3)):                      "not known to be harmless",
		// After harmless extensions.
		place(nil, of(18, 64), surfpool.TransferFee(100, 50)):                               "a fee on transfers",
		place([]uint16{12}, surfpool.PermanentDelegate(who)):                                "",
		place([]uint16{12}, surfpool.PermanentDelegate(who), surfpool.TransferFee(100, 50)): "a fee on transfers",
		place([]uint16{3}, surfpool.PermanentDelegate(who)):                                 "a permanent delegate",
	}
	short := place(nil)
	cfg.Mints[short] = solana.Mint{Program: solanatx.Token2022Program, Decimals: 9}
	want[short] = "6 decimals"
	other := place(nil)
	cfg.Mints[other] = solana.Mint{Program: solanatx.TokenProgram, Decimals: 6}
	want[other] = "configured to belong"
	unknown := place(nil, surfpool.TransferFee(100, 50))
	delete(cfg.Mints, unknown)
	want[unknown] = "a fee on transfers"
	want[who] = "is not a token"
	if err := l.node.SetLamports(t.Context(), who, 1_000_000_000); err != nil {
		t.Fatal(err)
	}
	l.Finalize(t)
	tokens := open(t, cfg).Reader.(chain.TokenInspector)
	for token, word := range want {
		if why, err := tokens.InspectToken(t.Context(), token); err != nil || (why == "") != (word == "") ||
			!strings.Contains(why, word) {
			t.Errorf("%s: got %q, %v, want %q", token, why, err, word)
		}
	}
	if why, err := tokens.InspectToken(t.Context(), l.Account(t)); err == nil {
		t.Errorf("nothing there: got %q, want an error: a provider may be behind", why)
	}
	for _, kind := range []uint16{1, 9, 14, 25, 26} {
		bad := config(l.node.URL)
		bad.Mints[surfpool.USDT] = solana.Mint{Program: solanatx.Token2022Program, Decimals: 6, Allow: []uint16{kind}}
		if _, err := solana.New(t.Context(), bad); err == nil || !strings.Contains(err.Error(), "cannot be allowed") {
			t.Errorf("extension %d allowed: got %v, want the configuration refused", kind, err)
		}
	}
}

func TestProvidersAgreeOnWhetherATokenIsMoney(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	honest, second, liar := newProxy(t, l.node.URL, nil), newProxy(t, l.node.URL, nil), newProxy(t, l.node.URL, nil)
	liar.SetRule("getMultipleAccounts", func(e *exchange) {
		e.EditResult(t, func(m map[string]any) {
			m["value"].([]any)[0].(map[string]any)["owner"] = string(solanatx.Token2022Program)
		})
	})
	unsound := func(agree int, of ...*proxy) (string, error) {
		var urls []string
		for _, p := range of {
			urls = append(urls, p.URL)
		}
		cfg := config(urls...)
		cfg.Quorum = agree
		return open(t, cfg).Reader.(chain.TokenInspector).InspectToken(t.Context(), surfpool.USDC)
	}
	if why, err := unsound(2, liar, honest, second); why != "" || err != nil {
		t.Errorf("one of three lies: got %q, %v, want it sound", why, err)
	}
	if why, err := unsound(2, liar, honest); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("one of two lies: got %q, %v, want a disagreement", why, err)
	}
	honest.SetRule("getMultipleAccounts", (*exchange).HangUntilCancelled)
	if why, err := unsound(1, liar); why == "" || err != nil {
		t.Errorf("by one's word: got %q, %v, want it told", why, err)
	}
}

func TestATokenAsideOfItsWalletIsTold(t *testing.T) {
	t.Parallel()
	tokens := chain.TokenInspector(&solana.Client{})
	who, other := surfpool.AddressOf(newKey(t)), surfpool.AddressOf(newKey(t))
	m2022 := surfpool.Mint{Address: usdc.Address, Program: solanatx.Token2022Program}
	for what, c := range map[string]struct {
		t    chain.Transfer
		want bool
	}{
		"the coin": {chain.Transfer{Kind: chain.Native, To: who, Position: string(who)}, false},
		"the associated account": {chain.Transfer{
			Kind: chain.Token, Contract: usdc.Address, To: who,
			Position: string(usdc.AssociatedAccount(who)),
		}, false},
		"that of Token-2022": {chain.Transfer{
			Kind: chain.Token, Contract: usdc.Address, To: who,
			Position: string(m2022.AssociatedAccount(who)),
		}, false},
		"another account": {chain.Transfer{
			Kind: chain.Token, Contract: usdc.Address, To: who,
			Position: string(other),
		}, true},
		"one that was somebody's before": {chain.Transfer{
			Kind: chain.Token, Contract: usdc.Address, To: who,
			Position: string(usdc.AssociatedAccount(other)),
		}, true},
		"that of another mint": {chain.Transfer{
			Kind: chain.Token, Contract: surfpool.USDT, To: who,
			Position: string(usdc.AssociatedAccount(who)),
		}, true},
	} {
		if got := tokens.IsAuxiliaryAccount(c.t); got != c.want {
			t.Errorf("%s: got %v, want %v", what, got, c.want)
		}
	}
}
