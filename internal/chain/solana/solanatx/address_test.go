package solanatx

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"

	"github.com/mr-tron/base58"
	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	alice = "FPP21sbqhr2LPjSnJkw5NBetPubeFG4PsQFBxHj8noTq" // keys of sha256(alice) and so on
	bob   = "GwCXyJ8AesaucFMTUSZmiFVMhVngpeBxaBC7mQJiZct3"
	carol = "3c3imtz1kJytsMjCPRz6LsZRaxCm1MNke1V9Ura3NB5f"
	usdx  = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGkZwyTDt1v"  // a mint off the curve, as a program's address is
	usdc  = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v" // the mints of the main network
	usdt  = "Es9vMFrzaCERmJfrF4H2FYD4KCoNkY11McCe8BenwNYB"
)

// keyOf returns the key of a test's person.
func keyOf(name string) (ed25519.PrivateKey, chain.Address) {
	seed := sha256.Sum256([]byte(name))
	k := ed25519.NewKeyFromSeed(seed[:])
	return k, Canonical([keyBytes]byte(k.Public().(ed25519.PublicKey)))
}

func TestParseGivesTheOneForm(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]chain.Address{"alice": alice, "bob": bob, "carol": carol} {
		if _, a := keyOf(name); a != want {
			t.Errorf("%s: got %s, want %s", name, a, want)
		}
		if got, err := Parse(string(want)); err != nil || got != want {
			t.Errorf("Parse(%s): got %q, %v, want it unchanged", want, got, err)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		_, a := keyOf(rapid.String().Draw(t, "name"))
		if got, err := Parse(string(a)); err != nil || got != a {
			t.Errorf("Parse(%s): got %q, %v, want it unchanged", a, got, err)
		}
		if (AddressCodec{}).IsUnspendable(a) || !OnCurve(a) {
			t.Errorf("%s: got an address without a key, want one with", a)
		}
	})
}

func TestParseRefusesWhatIsNoWallet(t *testing.T) {
	t.Parallel()
	of := func(n int) string { return base58.Encode([]byte(strings.Repeat("\xab", n))) }
	for in, word := range map[string]string{
		"":                          "empty",
		" ":                         "character 1 is not base58",
		alice + "\n":                "character 45 is not base58",
		alice + "\x00":              "character 45 is not base58",
		" " + alice:                 "character 1 is not base58",
		"ａ" + alice[1:]:             "character 1 is not base58",
		"0" + alice[1:]:             "character 1 is '0'",
		alice[:20] + "O":            "character 21 is 'O'",
		alice[:20] + "I":            "character 21 is 'I'",
		alice[:20] + "l":            "character 21 is 'l'",
		of(31):                      "has 31 bytes",
		of(33):                      "45 characters",
		"1" + usdx:                  "has 33 bytes",
		of(64):                      "secret key",
		alice + alice:               "as long as a transaction's signature",
		alice + "1":                 "has 45 characters",
		"1" + alice:                 "has 45 characters",
		strings.Repeat(alice, 1000): "44000 characters",
		"vault.sol":                 "names are not resolved",
		"someone.eth":               "names are not resolved",
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed":                     "EVM",
		"0X5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed":                     "EVM",
		"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq":                     "another chain, with its prefix bc:",
		"BC1QAR0SRRR7XFKVY5L643LYDNW9RE59GTZZWF5MDQ":                     "another chain, with its prefix bc:",
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0": "another chain, with its prefix bc:",
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":                             "Bitcoin",
		"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy":                             "Bitcoin",
		"TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t":                             "Tron",
		usdx:                                                             "only a program",
		"BjCJo95E6TEZ9JtvB62TzrNpggL6DEjLFYSXBDTVJdCT":                   "only a program", // alice's account for it
		string(SystemProgram):                                            "the System program",
		string(TokenProgram):                                             "the Token program",
		string(Token2022Program):                                         "the Token-2022 program",
		string(AssociatedProgram):                                        "Associated Token Account program",
		string(budgetProgram):                                            "Compute Budget",
		string(rentSysvar):                                               "a sysvar",
		"SysvarC1ock11111111111111111111111111111111":                    "a sysvar",
		"MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr":                    "the Memo program",
		"1nc1nerator11111111111111111111111111111111":                    "the incinerator",
		"Vote111111111111111111111111111111111111111":                    "the Vote program",
		"Stake11111111111111111111111111111111111111":                    "the Stake program",
		"BPFLoaderUpgradeab1e11111111111111111111111":                    "a loader",
		string(wrappedMint):                                              "wrapped SOL",
		"{\"a\":1}":                                                      "character 1",
	} {
		got, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Parse(%.60q): got %q, %v, want an error with %q", in, got, err, word)
			continue
		}
		if n := len(err.Error()); n > 300 {
			t.Errorf("Parse(%.60q): got %d bytes, want a sentence", in, n)
		}
		if len(in) > 20 && strings.Contains(err.Error(), in) {
			t.Errorf("Parse(%.60q): got %q, want what was given left out", in, err)
		}
	}
}

// By chance these are base58 of 32 bytes on the curve, too. H-42.
func TestAnotherChainsStringIsNoAddressThoughItDecodes(t *testing.T) {
	t.Parallel()
	for _, in := range []string{
		"osmo1dns8hn2v3y75d5vyke64uh4n59wws8dz5xnaaa",
		"kava14v8ctdhtnezs3hmh5c9yx72rus4znrz4y6s7m4",
		"juno1er2f4ys84skx3xzm8fj2ygcvu4445xp3dcpxj4",
	} {
		b, err := base58.Decode(in)
		if err != nil || len(b) != keyBytes || !onCurve([keyBytes]byte(b)) {
			t.Fatalf("%s: got %d bytes, %v, want 32 on the curve", in, len(b), err)
		}
		if got, err := Parse(in); err == nil || !strings.Contains(err.Error(), "another chain") {
			t.Errorf("Parse(%s): got %q, %v, want it refused as another chain's", in, got, err)
		}
		if got, err := ParseMint(in); err == nil {
			t.Errorf("ParseMint(%s): got %q, want it refused", in, got)
		}
	}
}

func TestMintsMayLieOffTheCurve(t *testing.T) {
	t.Parallel()
	for _, in := range []chain.Address{usdc, usdx, usdt, wrappedMint} {
		if got, err := ParseMint(string(in)); err != nil || got != in {
			t.Errorf("ParseMint(%s): got %q, %v, want it unchanged", in, got, err)
		}
	}
	for _, in := range []chain.Address{
		"", SystemProgram, TokenProgram, rentSysvar, chain.Address(usdx[1:]),
		"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
	} {
		if got, err := ParseMint(string(in)); err == nil {
			t.Errorf("ParseMint(%s): got %q, want a refusal", in, got)
		}
	}
}

func TestBytesTakeTheCanonicalFormOnly(t *testing.T) {
	t.Parallel()
	if b, err := Bytes(usdx); err != nil || Canonical(b) != usdx {
		t.Errorf("got %x, %v, want the bytes of %s", b, err, usdx)
	}
	for _, in := range []chain.Address{
		"", chain.Address(alice[:20]), alice + "1", "1" + alice, " " + alice, "0x",
		chain.Address(strings.Repeat("1", 33)),
	} {
		if b, err := Bytes(in); err == nil {
			t.Errorf("Bytes(%q): got %x, want an error", in, b)
		}
	}
}

func TestBurnsKnowsAddressesWithoutAKey(t *testing.T) {
	t.Parallel()
	var g AddressCodec
	for b, name := range chainAccounts {
		if !g.IsUnspendable(Canonical(b)) {
			t.Errorf("Burns(%s), %s: got false, want true", Canonical(b), name)
		}
		if a, err := Parse(string(Canonical(b))); err == nil {
			t.Errorf("Parse(%s), %s: got %s, want a refusal", Canonical(b), name, a)
		}
	}
	point := func(first, last byte, between byte) chain.Address {
		b := [keyBytes]byte{first}
		for i := 1; i < keyBytes-1; i++ {
			b[i] = between
		}
		b[keyBytes-1] = last
		return Canonical(b)
	}
	for name, a := range map[string]chain.Address{
		"nothing":           point(0, 0, 0),
		"the neutral point": point(1, 0, 0),
		"its other form":    point(0xee, 0x7f, 0xff),
		"of order two":      point(0xec, 0x7f, 0xff),
		"of order four":     point(0, 0x80, 0),
		"of order eight": Canonical([keyBytes]byte{
			0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c,
			0x0b, 0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39, 0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77,
			0x92, 0xac, 0x03, 0x7a,
		}),
		"not in its one form": point(0xf0, 0x7f, 0xff),
		"written by somebody": "CofferBurn111111111111111111111111111111111",
	} {
		if !onCurve(mustBytes(a)) {
			continue // it has no key, and Parse says so
		}
		if !g.IsUnspendable(a) {
			t.Errorf("%s, %s: got false, want true", name, a)
		}
	}
	for _, a := range []chain.Address{alice, bob, usdt} {
		if g.IsUnspendable(a) {
			t.Errorf("Burns(%s): got true, want false", a)
		}
	}
}

func TestPaymentURIIsSolanaPay(t *testing.T) {
	t.Parallel()
	var g AddressCodec
	if got, want := g.PaymentURI(alice, ""), "solana:"+alice; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := g.PaymentURI(alice, usdx), "solana:"+alice+"?spl-token="+usdx; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The results of another implementation for the same input, github.com/gagliardetto/solana-go
// v1.14.0: FindAssociatedTokenAddress, FindProgramAddress (which it needs for Token-2022) and
// CreateWithSeed.
func TestDerivedAccountsAreThoseOfAnotherImplementation(t *testing.T) {
	t.Parallel()
	for _, v := range []struct{ owner, usdx, usdt, usdx2022, nonce0, nonce1, nonceLast chain.Address }{
		{
			alice, "BjCJo95E6TEZ9JtvB62TzrNpggL6DEjLFYSXBDTVJdCT", "DLzhbMTRQimePwJaw6AzTgdUzFw1sofPzjVgg2Y6J3hc",
			"7YYehxUAWjNzsY1ssq3xwz72wJstnWBHMMAqwBDfZsyh", "5L6HrS7UGVtD3kkgWtmDb4yb8EFXmFev2QyNt8TrBJjV",
			"4TJwEyes4kKZXLCPuQugkSLUtVvukHBJ4dqQQUfxqePK", "5D1zmf2fiWeTaTzQMCom3WcGLazsrmCAADEeWHD5B8ai",
		},
		{
			bob, "36c596nE32wJFn1owtQkh89dLLG12F6xNqXrVWBxPJAJ", "C3h9adCbG2MTwt2587q49zp1UDWEk8YoPvDMLFrKvs8q",
			"HHN3Kqb1hk95RNdNs7kineu2XaHMD3ZdiXKurapFfBx7", "D5SJ3Kv32tHiRyKniFpucGU8MbQUuW6tjCTJwZnhAErU",
			"7YaQwrRXaietmFQkEyyJmpxBE9WbDEvV5RWZrBJx4v7Q", "CQJxdHK9BjXFhvkkRzzggveNZfTtqjRPG78GaESGVjF2",
		},
		{
			carol, "AYUVdsEsKinpfE6tnFwLU8DTEiKoCQCD2ByEUTWgY13z", "ANr89PgCAcH4A8C1amPJEiWo3VUQhe6J378YfEjLJZm1",
			"5CcviNhChqxQ991G2mb1oozR9gDeCLWrruEE3rKNRFnR", "DpKNXQY4qnyeTFfJvPTF3ysZ77xSwLQ7RXyhXs6EaVkv",
			"59KLpzCoDiDDVheGvjwv8w6hL7zUyBR5Va5Uc8eVcpTu", "5GGiHsZ1sbUE53w11vBVzxEsNaa6xeYSJeHNxoY6gtD1",
		},
	} {
		for _, c := range []struct{ mint, program, want chain.Address }{
			{usdx, TokenProgram, v.usdx}, {usdt, TokenProgram, v.usdt}, {usdx, Token2022Program, v.usdx2022},
		} {
			got, err := AssociatedAccount(v.owner, c.mint, c.program)
			if err != nil || got != c.want || OnCurve(got) {
				t.Errorf("account of %s for %s: got %s, %v, want %s off the curve", v.owner, c.mint, got, err, c.want)
			}
		}
		for n, want := range map[uint32]chain.Address{0: v.nonce0, 1: v.nonce1, 1<<32 - 1: v.nonceLast} {
			if got, err := NonceAccount(v.owner, n); err != nil || got != want {
				t.Errorf("nonce account %d of %s: got %s, %v, want %s", n, v.owner, got, err, want)
			}
		}
	}
	// The curve, by the same implementation: the number of these thousand that are on it.
	n := 0
	for i := range 1000 {
		if onCurve(sha256.Sum256(fmt.Appendf(nil, "point %d", i))) {
			n++
		}
	}
	if n != 497 {
		t.Errorf("points: got %d on the curve, want 497", n)
	}
	if _, err := AssociatedAccount(alice, usdx, SystemProgram); err == nil {
		t.Error("token account of no token program: got no error")
	}
	if _, err := AssociatedAccount("alice", usdx, TokenProgram); err == nil {
		t.Error("token account of nobody: got no error")
	}
	if _, err := NonceAccount("", 0); err == nil {
		t.Error("nonce account of nobody: got no error")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		alice, usdx, "", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", string(SystemProgram),
		alice + "0",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		mint, err := ParseMint(s)
		if err == nil && string(mint) != s {
			t.Errorf("ParseMint(%q): got %s, want it unchanged", s, mint)
		}
		a, err := Parse(s)
		if err != nil {
			return
		}
		if b, err := Bytes(a); string(a) != s || err != nil || !onCurve(b) {
			t.Errorf("Parse(%q): got %s, %v, want the same on the curve", s, a, err)
		}
	})
}
