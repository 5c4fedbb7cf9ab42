package keys

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/tyler-smith/go-bip39"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/signer"
)

// openChild derives a private child that a public key can follow (BIP-32). Coffer's wallets never
// use it; the standards' vectors end with two such steps.
func openChild(key, code [32]byte, i byte) (childKey, childCode [32]byte) {
	left, childCode := splitKey(hmacSHA512(code[:], secp256k1.PrivKeyFromBytes(key[:]).PubKey().SerializeCompressed(),
		[]byte{0, 0, 0, i}))
	var sum, parent secp256k1.ModNScalar
	sum.SetBytes(&left)
	parent.SetBytes(&key)
	return sum.Add(&parent).Bytes(), childCode
}

// The vectors of BIP-84 and BIP-86: their account key, derived by our hardened steps, and the
// addresses below it.
func TestKeysAreThoseOfBIP84AndBIP86(t *testing.T) {
	t.Parallel()
	master := bip39.NewSeed(strings.Repeat("abandon ", 11)+"about", "")
	for _, v := range []struct {
		purpose         uint32
		account         string
		change, at      byte
		public, address string
	}{
		{
			84,
			"zprvAdG4iTXWBoARxkkzNpNh8r6Qag3irQB8PzEMkAFeTRXxHpbF9z4QgEvBRmfvqWvGp42t42nvgGpNgYSJA9iefm1yYNZKEm7z6qUWCroSQnE",
			0, 0, "0330d54fd0dd420a6e5f8d3624f5f3482cae350f79d5f0753bf5beef9c2d91af3c",
			"bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu",
		},
		{
			84,
			"zprvAdG4iTXWBoARxkkzNpNh8r6Qag3irQB8PzEMkAFeTRXxHpbF9z4QgEvBRmfvqWvGp42t42nvgGpNgYSJA9iefm1yYNZKEm7z6qUWCroSQnE",
			1, 0, "03025324888e429ab8e3dbaf1f7802648b9cd01e9b418485c5fa4c1b9b5700e1a6",
			"bc1q8c6fshw2dlwun7ekn9qwf37cu2rn755upcp6el",
		},
		{
			86,
			"xprv9xgqHN7yz9MwCkxsBPN5qetuNdQSUttZNKw1dcYTV4mkaAFiBVGQziHs3NRSWMkCzvgjEe3n9xV8oYywvM8at9yRqyaZVz6TYYhX98VjsUk",
			0, 0, "cc8a4bc64d897bddc5fbc2f670f7a8ba0b386779106cf1223c6fc5d7cd6fc115",
			"bc1p5cyxnuxmeuwuvkwfem96lqzszd02n6xdcjrs20cac6yqjjwudpxqkedrcr",
		},
		{
			86,
			"xprv9xgqHN7yz9MwCkxsBPN5qetuNdQSUttZNKw1dcYTV4mkaAFiBVGQziHs3NRSWMkCzvgjEe3n9xV8oYywvM8at9yRqyaZVz6TYYhX98VjsUk",
			1, 0, "399f1b2f4393f29a18c937859c5dd8a77350103157eb880f02e8c08214277cef",
			"bc1p3qkhfews2uk44qtvauqyr2ttdsw7svhkl9nkm9s9c3x4ax5h60wqwruhk7",
		},
	} {
		key, code := splitKey(hmacSHA512([]byte("Bitcoin seed"), master))
		for _, i := range []uint32{v.purpose, 0, 0} {
			var err error
			if key, code, err = childSecp(key, code, i); err != nil {
				t.Fatal(err)
			}
		}
		if wantKey, wantCode := xprv(t, v.account); key != wantKey || code != wantCode {
			t.Errorf("m/%d'/0'/0': got %x %x, want %x %x", v.purpose, key, code, wantKey, wantCode)
		}
		key, code = openChild(key, code, v.change)
		key, _ = openChild(key, code, v.at)
		public := [bitcointx.KeyBytes]byte(secp256k1.PrivKeyFromBytes(key[:]).PubKey().SerializeCompressed())
		got, want := hex.EncodeToString(public[:]), v.public
		address, err := bitcointx.KeyAddress(&chaincfg.MainNetParams, public), error(nil)
		if v.purpose == 86 {
			got = got[2:] // BIP-340: only the x coordinate
			address, err = bitcointx.TaprootAddress(&chaincfg.MainNetParams, public)
		}
		if got != want || err != nil || string(address) != v.address {
			t.Errorf("m/%d'/0'/0'/%d/%d: got %s at %s, %v, want %s at %s", v.purpose, v.change, v.at, got, address, err,
				want, v.address)
		}
	}
}

// A change of any of these addresses loses the money of every installation.
func TestBitcoinWalletsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	w := signer.WalletRef{OrgID: "org_1", Family: chain.BitcoinFamily, Purpose: "CUSTOMER_DEPOSIT", Subject: "alice"}
	asTaproot := w
	asTaproot.Form = chain.Taproot
	for _, v := range []struct {
		network                            chain.Network
		path, segwit, taprootPath, taproot string
	}{
		{
			chain.Mainnet, "m/84'/0'/1745023765'/543518224'/1377603941'/211528283'",
			"bc1qzx75saxz2gremj557ekvdlmqen7s6jv6yat7d4", "m/86'/0'/1745023765'/543518224'/1377603941'/211528283'",
			"bc1pju9v57f67dpr3dhq9rk55kk2w5lu6a7g7yne07frhcwtnwhmp3fsprpwpe",
		},
		{
			chain.Testnet, "m/84'/1'/1745023765'/543518224'/1377603941'/211528283'",
			"tb1quxwv7pvchpyryelnmdyywfujny5jjszkw3svgr", "m/86'/1'/1745023765'/543518224'/1377603941'/211528283'",
			"tb1ppz66eeuxhtdkk9yc7djxvcnnjsjdvmqz250rxxsrx09h3x3rnm0qcr6txe",
		},
		{
			chain.Local, "m/84'/1'/1745023765'/543518224'/1377603941'/211528283'",
			"bcrt1quxwv7pvchpyryelnmdyywfujny5jjszkvcfpl2", "m/86'/1'/1745023765'/543518224'/1377603941'/211528283'",
			"bcrt1ppz66eeuxhtdkk9yc7djxvcnnjsjdvmqz250rxxsrx09h3x3rnm0q46sdnr",
		},
	} {
		s := knownSeed(t).ForNetwork(v.network)
		k, err := s.DeriveWallet(w)
		if err != nil || k.Path() != v.path || string(k.Address()) != v.segwit {
			t.Errorf("%s: got %v at %v, %v, want %v at %v", v.network, k.Address(), k.Path(), err, v.segwit, v.path)
		}
		tap, err := s.DeriveWallet(asTaproot)
		if err != nil || tap.Path() != v.taprootPath || string(tap.Address()) != v.taproot {
			t.Errorf("%s, taproot: got %v at %v, %v, want %v at %v", v.network, tap.Address(), tap.Path(), err,
				v.taproot, v.taprootPath)
		}
		for _, a := range []chain.Address{k.Address(), tap.Address()} {
			if again, err := bitcointx.Parse(v.network, string(a)); err != nil || again != a {
				t.Errorf("%s: Parse(%s): got %q, %v, want it unchanged", v.network, a, again, err)
			}
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
			assertSilent(t, fmt.Sprintf(verb, struct {
				S Seed
				T WalletKey
				t *WalletKey
			}{s, tap, &tap}), [][]byte{
				s.secret().entropy[:], s.secret().master[:],
				tap.secpKey().Serialize(),
			}, s.mnemonic())
		}
	}
}

// The signatures of the example in BIP-143, and of the first input of the one in BIP-341.
func TestSignaturesAreThoseOfBIP143AndBIP341(t *testing.T) {
	t.Parallel()
	key := func(text string) func() *secp256k1.PrivateKey {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return func() *secp256k1.PrivateKey { return secp256k1.PrivKeyFromBytes(b) }
	}
	hash := func(text string) [32]byte {
		b, err := hex.DecodeString(text)
		if err != nil {
			t.Fatal(err)
		}
		return [32]byte(b)
	}
	got := WalletKey{secpKey: key("619c335025c7f4012e556c2a58b2506e30b8511b53ade95ea316fd8c3286feb9")}.
		SignHash(hash("c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670"))
	const segwit = "3609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee"
	if hex.EncodeToString(got[:64]) != segwit {
		t.Errorf("got %x, want %s", got, segwit)
	}
	k := WalletKey{taproot: true, secpKey: key("6b973d88838f27366ed61c9ad6367663045cb456e28335c109e30717ae0c6baa")}
	schnorr := k.SignInput(hash("2514a6272f85cfa0f45eb907fcb0d121b808ed37c6ea160a5a9046ed5526d555"))
	const taproot = "ed7c1647cb97379e76892be0cacff57ec4a7102aa24296ca39af7541246d8ff14d38958d4cc1e2e478e4d4a764bbfd835b16d4e314b72937b29833060b87276c"
	if hex.EncodeToString(schnorr) != taproot {
		t.Errorf("got %x, want %s", schnorr, taproot)
	}
}

func TestABitcoinWalletNeedsToKnowItsNetwork(t *testing.T) {
	t.Parallel()
	w := signer.WalletRef{OrgID: "org_1", Family: chain.BitcoinFamily, Purpose: "TREASURY"}
	for _, s := range []Seed{knownSeed(t), knownSeed(t).ForNetwork("MAIN")} {
		if k, err := s.DeriveWallet(w); err == nil {
			t.Errorf("got %s, want an error: it would be an address of some network", k.Address())
		}
		w.Form = chain.Taproot
		if k, err := s.DeriveWallet(w); err == nil {
			t.Errorf("taproot: got %s, want an error: it would be an address of some network", k.Address())
		}
		w.Form = chain.Usual
	}
	for _, no := range []signer.WalletRef{
		{OrgID: "org_1", Family: chain.EVM, Purpose: "TREASURY", Form: chain.Taproot},
		{OrgID: "org_1", Family: chain.SolanaFamily, Purpose: "TREASURY", Form: chain.Taproot},
		{OrgID: "org_1", Family: chain.BitcoinFamily, Purpose: "TREASURY", Form: "WRAPPED"},
	} {
		if k, err := knownSeed(t).ForNetwork(chain.Mainnet).DeriveWallet(no); err == nil {
			t.Errorf("%s of form %s: got %s, want an error", no.Family, no.Form, k.Address())
		}
	}
	w.Family = chain.EVM
	on, err := knownSeed(t).ForNetwork(chain.Testnet).DeriveWallet(w)
	if err != nil {
		t.Fatal(err)
	}
	if off, err := knownSeed(t).DeriveWallet(w); err != nil || off.Address() != on.Address() ||
		off.Path() != on.Path() {
		t.Errorf("an EVM wallet: got %s, %v, want the same on every network: %s", off.Address(), err, on.Address())
	}
}
