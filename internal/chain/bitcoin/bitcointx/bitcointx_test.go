package bitcointx

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The valid addresses of BIP-173, BIP-350 and BIP-86 of a form that is in use, and the older ones
// of each network, with their scripts.
var known = []struct {
	network         chain.Network
	address, script string
}{
	{chain.Mainnet, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "0014751e76e8199196d454941c45d1b3a323f1433bd6"},
	{
		chain.Testnet, "tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
		"00201863143c14c5166804bd19203356da136c985678cd4d27a1b8c6329604903262",
	},
	{
		chain.Testnet, "tb1qqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesrxh6hy",
		"0020000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
	},
	{
		chain.Testnet, "tb1pqqqqp399et2xygdj5xreqhjjvcmzhxw4aywxecjdzew6hylgvsesf3hn0c",
		"5120000000c4a5cad46221b2a187905e5266362b99d5e91c6ce24d165dab93e86433",
	},
	{
		chain.Mainnet, "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0",
		"512079be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798",
	},
	{
		chain.Mainnet, "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
		"5120a60869f0dbcf1dc659c9cecbaf8050135ea9e8cdc487053f1dc6880949dc684c",
	},
	{chain.Mainnet, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "76a91462e907b15cbf27d5425399ebf6f0fb50ebb88f1888ac"},
	{chain.Mainnet, "3P14159f73E4gFr7JterCCQh9QjiTjiZrG", "a914e9c3dd0c07aac76179ebc76a6c78d4d67c6c160a87"},
	{chain.Testnet, "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "76a914243f1394f44554f4ce3fd68649c19adc483ce92488ac"},
	{chain.Testnet, "2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc", "a9144e9f39ca4688ff102128ea4ccda34105324305b087"},
	{chain.Local, "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "76a914243f1394f44554f4ce3fd68649c19adc483ce92488ac"},
	{chain.Local, "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", "0014751e76e8199196d454941c45d1b3a323f1433bd6"},
}

func TestAddressesStandForTheirScripts(t *testing.T) {
	t.Parallel()
	for _, k := range known {
		p, err := Params(k.network)
		if err != nil {
			t.Fatal(err)
		}
		forms := []string{k.address}
		if strings.Contains(k.address, p.Bech32HRPSegwit+"1") {
			forms = append(forms, strings.ToUpper(k.address))
		}
		for _, form := range forms {
			if a, err := Parse(k.network, form); err != nil || string(a) != k.address {
				t.Errorf("Parse(%s): got %q, %v, want %s", form, a, err, k.address)
			}
		}
		script, err := Script(k.network, chain.Address(k.address))
		if err != nil || hex.EncodeToString(script) != k.script {
			t.Errorf("Script(%s): got %x, %v, want %s", k.address, script, err, k.script)
		}
		if a, ok := AddressOf(p, unhex(t, k.script)); !ok || string(a) != k.address {
			t.Errorf("AddressOf(%s): got %q, %v, want %s", k.script, a, ok, k.address)
		}
		if _, err := Script(k.network, chain.Address(strings.ToUpper(k.address))); err == nil {
			t.Errorf("Script(%s in capitals): got a script, want it refused: it was not parsed", k.address)
		}
		if got := (AddressCodec{k.network}).PaymentURI(chain.Address(k.address), ""); got != "bitcoin:"+k.address {
			t.Errorf("PaymentURI: got %s, want the link of BIP-21", got)
		}
	}
}

func TestWhatIsNoAddressOfTheNetworkIsRefusedWithItsReason(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ s, says string }{
		{"", "empty"},
		{"bitcoin:bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "payment link"},
		{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4?amount=1", "character 43"},
		{" bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", "character 1"},
		{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3T4", "mixes small and capital"},
		{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t5", "checksum"},
		{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t", "checksum"},
		{"bc1", "checksum"},
		{
			"tb1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3q0sl5k7",
			"address of a test network of Bitcoin and this installation is on the main network",
		},
		{"bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", "regtest"},
		{"mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", "test network"},
		{"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNb", "checksum"},
		{"1a1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "checksum"},
		{"0x5Bbe6a42AA35D8b6C65a5dD6081D2A8957a963eC", "Ethereum"},
		{"LVuDpNCSSj6pQ7t9Pv6d6sUkLKoqDEVUnJ", "Litecoin"},
		{"ltc1qw508d6qejxtdg4y5r3zarvary0c5xw7kgmn4n9", "Litecoin"},
		{base58.CheckEncode(bytes.Repeat([]byte{1}, hashBytes), 0x1e), "Dogecoin"},
		{"TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "TRON"},
		{"bitcoincash:qpm2qsznhks23z7629mms6s4cwef74vcwvy22gdx6a", "Bitcoin Cash"},
		{"EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v", "Solana"},
		{
			"lnbc20m1pvjluezpp5qqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqqqsyqcyq5rqwzqfqypqhp58yjmdan79s6qqdhdzgynm4zwqd5d7xmw5fk98klysy043l2ahrqs",
			"Lightning",
		},
		{
			"xpub661MyMwAqRbcFtXgS5sYJABqqG9YLmC4Q1Rdap9gSE8NqtwybGhePY2gZ29ESFjqJoCu1Rupje8YtGqsefD265TMg7usUDFdp6W1EGMcet8",
			"extended key",
		},
		{"5HueCGU8rMjxEXxiPuD5BDku4MkFqeZyd4dZ1jvhTVqvbTLvyTJ", "private key"},
		{"KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn", "private key"},
		{"satoshi@example.com", "names are not resolved"},
		// The invalid and unused ones of BIP-350.
		{"bc1pw508d6qejxtdg4y5r3zarvary0c5xw7kw508d6qejxtdg4y5r3zarvary0c5xw7kt5nd6y", "version 1 with 40 bytes"},
		{"BC1SW50QGDZ25J", "version 16 with 2 bytes"},
		{"bc1zw508d6qejxtdg4y5r3zarvaryvaxxpcs", "version 2 with 16 bytes"},
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqh2y7hd", "another kind than its witness version 1"},
		{"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kemeawh", "another kind than its witness version 0"},
		{"bc1p38j9r5y49hruaue7wxjce0updqjuyyx0kh56v8s25huc6995vvpql3jow4", "checksum"},
		{"BC130XLXVLHEMJA6C4DQV22UAPCTQUPFHLXM9H8Z3K2E72Q4K9HCZ7VQ7ZWS8R", "wrong length"},
		{"bc1pw5dgrnzv", "wrong length"},
		{"BC1QR508D6QEJXTDG4Y5R3ZARVARYV98GJ9P", "cannot be spent"},
		{"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7v07qwwzcrf", "wrong length"},
		{"bc1gmk9yu", "checksum"},
		{"bc1pfeessrawgf", "version 1 with 2 bytes"}, // pay to anchor
		{strings.Repeat("1", 5000), "5000 characters"},
		{"\xff\xfe", "character 1"},
	} {
		a, err := Parse(chain.Mainnet, c.s)
		if err == nil {
			t.Errorf("Parse(%.80q): got %q, want it refused", c.s, a)
			continue
		}
		if !strings.Contains(err.Error(), c.says) || len(err.Error()) > 300 {
			t.Errorf("Parse(%.80q): got %q, want it to say %q", c.s, err, c.says)
		}
	}
	if _, err := Parse("", known[0].address); err == nil {
		t.Error("on no network: got an address, want an error")
	}
}

// Blocks of the main network have such outputs. None of them is a deposit.
func TestWhatIsNoFormOfAddressHasNone(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"nothing":               "",
		"data":                  "6a24aa21a9ed" + strings.Repeat("00", 32),
		"a bare key":            "2102" + strings.Repeat("11", 32) + "ac",
		"a multisignature":      "5121" + "02" + strings.Repeat("11", 32) + "51ae",
		"pay to anchor":         "51024e73",
		"a later witness":       "5220" + strings.Repeat("11", 32),
		"taproot of 20 bytes":   "5114" + strings.Repeat("11", 20),
		"one byte too many":     "0014" + strings.Repeat("11", 20) + "00",
		"one byte too few":      "0014" + strings.Repeat("11", 19),
		"another push":          "004c14" + strings.Repeat("11", 20),
		"a hash of another end": "76a914" + strings.Repeat("11", 20) + "88ad",
	} {
		if a, ok := AddressOf(&chaincfg.MainNetParams, unhex(t, script)); ok {
			t.Errorf("%s: got %s, want no address", name, a)
		}
	}
}

// The vectors of BIP-84 and BIP-86.
func TestKeysHaveTheAddressesOfTheStandards(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]string{
		"0330d54fd0dd420a6e5f8d3624f5f3482cae350f79d5f0753bf5beef9c2d91af3c": "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
		"03e775fd51f0dfb8cd865d9ff1cca2a158cf651fe997fdc9fee9c1d3b5e995ea77": "bc1qnjg0jd8228aq7egyzacy8cys3knf9xvrerkf9g",
		"03025324888e429ab8e3dbaf1f7802648b9cd01e9b418485c5fa4c1b9b5700e1a6": "bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el",
	} {
		if got := KeyAddress(&chaincfg.MainNetParams, [KeyBytes]byte(unhex(t, key))); string(got) != want {
			t.Errorf("KeyAddress(%s): got %s, want %s", key, got, want)
		}
	}
	for key, want := range map[string]string{
		"02cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115": "bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
		"0283dfe85a3151d2517290da461fe2815591ef69f2b18a2ce63f01697a8b313145": "bc1p4qhjn9zdvkux4e44uhx8tc55attvtyu358kutcqkudyccelu0was9fqzwh",
		"02399f1b2f4393f29a18c937859c5dd8a77350103157eb880f02e8c08214277cef": "bc1p3qkhfews2uk44qtvauqyr2ttdsw7svhkl9nkm9s9c3x4ax5h60wqwruhk7",
	} {
		if got, err := TaprootAddress(&chaincfg.MainNetParams, [KeyBytes]byte(unhex(t, key))); err != nil ||
			string(got) != want {
			t.Errorf("TaprootAddress(%s): got %s, %v, want %s", key, got, err, want)
		}
	}
	if got, err := TaprootAddress(&chaincfg.MainNetParams, [KeyBytes]byte{2}); err == nil {
		t.Errorf("of no key: got %s, want an error", got)
	}
}

func TestDustIsWhatNodesCallDust(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]uint64{
		"1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa":                             546,
		"3P14159f73E4gFr7JterCCQh9QjiTjiZrG":                             540,
		"bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4":                     294,
		"bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3": 330,
		"bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0": 330,
	} {
		script, err := Script(chain.Mainnet, chain.Address(address))
		if err != nil {
			t.Fatal(err)
		}
		if got := Dust(script); got != money.Units(want) {
			t.Errorf("%s: got %v, want %d", address, got, want)
		}
	}
	if got := Dust([]byte{txscript.OP_RETURN, 1, 1}); !got.IsZero() {
		t.Errorf("data: got %v, want nothing", got)
	}
}

func TestAddressesThatNobodyHoldsAreKnown(t *testing.T) {
	t.Parallel()
	const burns, holds = true, false
	for _, c := range []struct {
		network chain.Network
		address string
		want    bool
	}{
		{chain.Mainnet, "1BitcoinEaterAddressDontSendf59kuE", burns},
		{chain.Mainnet, "1CounterpartyXXXXXXXXXXXXXXXUWLpVr", burns},
		{chain.Mainnet, "1111111111111111111114oLvT2", burns},
		{chain.Testnet, "mfWxJ45yp2SFn7UciZyNpvDKrzbhyfKrY8", burns},
		{chain.Mainnet, "bc1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq9e75rs", burns},
		{chain.Mainnet, "bc1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqthqst8", burns},
		{chain.Mainnet, string(destination{p2tr, unspendablePoint}.toAddress(&chaincfg.MainNetParams)), burns},
		{
			chain.Mainnet,
			string(destination{p2tr, bytes.Repeat([]byte{0x11}, 31)}.padded(5).toAddress(&chaincfg.MainNetParams)),
			burns,
		},
		{chain.Mainnet, "bc1p0xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqzk5jj0", holds},
		{chain.Mainnet, "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", holds},
		{chain.Mainnet, "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", holds},
	} {
		a, err := Parse(c.network, c.address)
		if err != nil {
			t.Errorf("Parse(%s): got %v, want an address", c.address, err)
		}
		if got := (AddressCodec{c.network}).IsUnspendable(a); got != c.want {
			t.Errorf("Burns(%s): got %v, want %v", c.address, got, c.want)
		}
	}
}

// padded ends the bytes of a taproot key with the first byte from that on which makes it no point
// of the curve.
func (d destination) padded(from byte) destination {
	for b := from; ; b++ {
		if p := (destination{d.form, append(bytes.Clone(d.hash), b)}); p.isUnspendable() {
			return p
		}
	}
}

// Every parsed address has one form, and the library of Bitcoin's nodes reads the same script from
// it.
func FuzzAddress(f *testing.F) {
	for _, k := range known {
		f.Add(k.address)
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, n := range networks {
			network := map[*chaincfg.Params]chain.Network{
				&chaincfg.MainNetParams: chain.Mainnet, &chaincfg.TestNet3Params: chain.Testnet,
				&chaincfg.RegressionNetParams: chain.Local,
			}[n.params]
			a, err := Parse(network, s)
			if err != nil {
				if len(err.Error()) > 300 {
					t.Errorf("got a refusal of %d characters", len(err.Error()))
				}
				continue
			}
			again, err := Parse(network, string(a))
			if err != nil || again != a {
				t.Fatalf("Parse(%q): got %q, %v, want it unchanged", a, again, err)
			}
			script, err := Script(network, a)
			if err != nil {
				t.Fatal(err)
			}
			theirs, err := address.DecodeAddress(string(a), n.params)
			if err != nil {
				t.Fatal(err)
			}
			if want, err := txscript.PayToAddrScript(theirs); err != nil || !bytes.Equal(script, want) {
				t.Fatalf("Script(%q): got %x, want %x, %v", a, script, want, err)
			}
		}
	})
}

// Every script of a form has the address that the library returns.
func FuzzWritten(f *testing.F) {
	f.Add(make([]byte, programBytes))
	f.Add(append([]byte{0, 0, 0, 1}, make([]byte, programBytes)...))
	f.Add(bytes.Repeat([]byte{0xff}, programBytes))
	f.Add(append(make([]byte, hashBytes-1), 1, 2, 3))
	f.Fuzz(func(t *testing.T, hash []byte) {
		hash = append(hash, make([]byte, programBytes)...)[:programBytes]
		for _, n := range networks {
			for form := p2pkh; form <= p2tr; form++ {
				d := destination{form, hash[:hashBytes]}
				if form == p2wsh || form == p2tr {
					d.hash = hash
				}
				got := d.toAddress(n.params)
				_, theirs, _, err := txscript.ExtractPkScriptAddrs(d.toScript(), n.params)
				if err != nil || len(theirs) != 1 {
					t.Fatalf("%x: got %v, %v, want one address", d.toScript(), theirs, err)
				}
				if want := theirs[0].EncodeAddress(); string(got) != want {
					t.Fatalf("%x: got %s, want %s", d.toScript(), got, want)
				}
			}
		}
	})
}

func BenchmarkAddressOf(b *testing.B) {
	for _, s := range []string{known[0].script, known[4].script, known[6].script} {
		script := unhex(b, s)
		b.Run(s[:6], func(b *testing.B) {
			for b.Loop() {
				AddressOf(&chaincfg.MainNetParams, script)
			}
		})
	}
}
