package chaintest

import (
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

var addressPromises = []promise{
	{"AnAddressHasOneForm", func(t *testing.T, b labEnv) {
		g, a := b.Chain().AddressCodec, b.Account(t)
		got, err := g.Parse(string(a))
		if err != nil || got != a {
			t.Fatalf("Parse(%s): got %q, %v, want it unchanged", a, got, err)
		}
		if g.IsUnspendable(a) {
			t.Fatalf("Burns(%s): got true, want false for an address with a key", a)
		}
	}},
	{"WhatIsNoAddressIsRefusedWithASentence", func(t *testing.T, b labEnv) {
		g, a := b.Chain().AddressCodec, string(b.Account(t))
		for _, s := range []string{
			"", " ", "0", a + "0", a[:len(a)-1], " " + a, a + "\n", a + "\x00",
			a + a, strings.Repeat(a, 1000), "someone.eth", "ａ" + a[1:],
		} {
			got, err := g.Parse(s)
			if err == nil {
				t.Errorf("Parse(%q): got %q, want a refusal", s, got)
			} else if len(err.Error()) < 10 || len(err.Error()) > 300 {
				t.Errorf("Parse(%.50q): got %q, want a sentence", s, err)
			}
		}
	}},
	{"ATokensAddressHasOneForm", func(t *testing.T, b labEnv) {
		g := b.Chain().AddressCodec
		if b.hasKind(chain.Token) {
			if got, err := g.ParseContract(string(b.Token())); err != nil || got != b.Token() {
				t.Errorf("ParseContract(%s): got %q, %v, want it unchanged", b.Token(), got, err)
			}
		}
		for _, s := range []string{"", " ", "0", "USDC", strings.Repeat("1", 1000)} {
			if got, err := g.ParseContract(s); err == nil {
				t.Errorf("ParseContract(%q): got %q, want a refusal", s, got)
			}
		}
	}},
	{"APaymentLinkNamesTheAddress", func(t *testing.T, b labEnv) {
		g, a := b.Chain().AddressCodec, b.Account(t)
		if uri := g.PaymentURI(a, ""); !strings.Contains(uri, string(a)) {
			t.Errorf("PaymentURI: got %q, want the address %s in it", uri, a)
		}
	}},
}
