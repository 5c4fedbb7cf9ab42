package keys

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
)

// xprv decodes an extended private key as BIP-32 writes it.
func xprv(t *testing.T, s string) (key, code [32]byte) {
	t.Helper()
	n := new(big.Int)
	for _, c := range s {
		i := strings.IndexRune("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz", c)
		n.Add(n.Mul(n, big.NewInt(58)), big.NewInt(int64(i)))
	}
	b := n.FillBytes(make([]byte, 82))
	first := sha256.Sum256(b[:78])
	second := sha256.Sum256(first[:])
	if !bytes.Equal(second[:4], b[78:]) {
		t.Fatalf("%s: checksum does not match", s)
	}
	return [32]byte(b[46:78]), [32]byte(b[13:45])
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The vectors of BIP-32 whose paths are hardened throughout, including those for keys with leading
// zeros.
func TestHardenedChildrenAreThoseOfBIP32(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		seed string
		path []uint32
		want string
	}{
		{
			"000102030405060708090a0b0c0d0e0f", nil,
			"xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5kejMRNNU3TGtRBeJgk33yuGBxrMPHi",
		},
		{
			"000102030405060708090a0b0c0d0e0f",
			[]uint32{0},
			"xprv9uHRZZhk6KAJC1avXpDAp4MDc3sQKNxDiPvvkX8Br5ngLNv1TxvUxt4cV1rGL5hj6KCesnDYUhd7oWgT11eZG7XnxHrnYeSvkzY7d2bhkJ7",
		},
		{
			"3ddd5602285899a946114506157c7997e5444528f3003f6134712147db19b678", nil,
			"xprv9s21ZrQH143K48vGoLGRPxgo2JNkJ3J3fqkirQC2zVdk5Dgd5w14S7fRDyHH4dWNHUgkvsvNDCkvAwcSHNAQwhwgNMgZhLtQC63zxwhQmRv",
		},
		{
			"3ddd5602285899a946114506157c7997e5444528f3003f6134712147db19b678",
			[]uint32{0},
			"xprv9vB7xEWwNp9kh1wQRfCCQMnZUEG21LpbR9NPCNN1dwhiZkjjeGRnaALmPXCX7SgjFTiCTT6bXes17boXtjq3xLpcDjzEuGLQBM5ohqkao9G",
		},
		{
			"3ddd5602285899a946114506157c7997e5444528f3003f6134712147db19b678",
			[]uint32{0, 1},
			"xprv9xJocDuwtYCMNAo3Zw76WENQeAS6WGXQ55RCy7tDJ8oALr4FWkuVoHJeHVAcAqiZLE7Je3vZJHxspZdFHfnBEjHqU5hG1Jaj32dVoS6XLT1",
		},
	} {
		key, code := splitKey(hmacSHA512([]byte("Bitcoin seed"), unhex(t, v.seed)))
		for _, i := range v.path {
			var err error
			if key, code, err = childSecp(key, code, i); err != nil {
				t.Fatal(err)
			}
		}
		wantKey, wantCode := xprv(t, v.want)
		if key != wantKey || code != wantCode {
			t.Errorf("%s %v: got %x %x, want %x %x", v.seed, v.path, key, code, wantKey, wantCode)
		}
	}
}

// The first vector of SLIP-10 for ed25519.
func TestAttestationChildrenAreThoseOfSLIP10(t *testing.T) {
	t.Parallel()
	key, code := splitKey(hmacSHA512([]byte("ed25519 seed"), unhex(t, "000102030405060708090a0b0c0d0e0f")))
	if got, want := hex.EncodeToString(key[:]),
		"2b4be7f19ee27bbf30c667b642d5f4aa69fd169872f8fc3059c08ebae2eb19e7"; got != want {
		t.Errorf("master: got %v, want %v", got, want)
	}
	key, code = childEd25519(key, code, 0)
	if got, want := hex.EncodeToString(key[:]),
		"68e0fe46dfb67e368c75379acec591dad19df3cde26e63b93a8e704f1dade7a3"; got != want {
		t.Errorf("m/0': got %v, want %v", got, want)
	}
	if got, want := hex.EncodeToString(code[:]),
		"8b59aa11380b624e81507a27fedda59fea6d0b779a778918a2fd3590e16e9c69"; got != want {
		t.Errorf("m/0': got chain code %v, want %v", got, want)
	}
	if got, want := hex.EncodeToString(ed25519.NewKeyFromSeed(key[:]).Public().(ed25519.PublicKey)),
		"8c8a13df77a28f3445213a0f432fde644acaa215fc72dcdf300d5efaa85d350c"; got != want {
		t.Errorf("m/0': got public key %v, want %v", got, want)
	}
}

const knownWords = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon art"

func knownSeed(t *testing.T) Seed {
	t.Helper()
	s, err := SeedFromWords(knownWords)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A change of any of these addresses loses the money of every installation.
func TestWalletsStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	s := knownSeed(t)
	if got, want := hex.EncodeToString(s.secret().master[:4]), "408b285c"; got != want {
		t.Errorf("BIP-39: got a master that begins with %v, want %v", got, want)
	}
	for _, v := range []struct {
		ref           signer.WalletRef
		path, address string
	}{
		{
			signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: "TREASURY"},
			"m/44'/60'/1646969524'/390021371'/1492476191'/94700355'", "0x5Bbe6a42AA35D8b6C65a5dD6081D2A8957a963eC",
		},
		{
			signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: "CUSTOMER_DEPOSIT", Subject: "alice"},
			"m/44'/60'/1745023765'/543518224'/1377603941'/211528283'", "0x87b6dF592f1B2FF9722b217Ee2b9FfC544064982",
		},
		// The same letters, split at another position, are another wallet.
		{
			signer.WalletRef{OrgID: "org_1C", Family: chain.EVM, Purpose: "USTOMER_DEPOSIT", Subject: "alice"},
			"m/44'/60'/1360781730'/985658613'/443469717'/794415663'", "0x89276827CcEDEE557Cd7b701960B09200c6b9c96",
		},
	} {
		k, err := s.DeriveWallet(v.ref)
		if err != nil {
			t.Fatal(err)
		}
		if k.Path() != v.path || string(k.Address()) != v.address {
			t.Errorf("%v: got %v at %v, want %v at %v", v.ref, k.Address(), k.Path(), v.address, v.path)
		}
	}
	if got, want := hex.EncodeToString(s.AttestKey().PublicKey()),
		"5a9606dd03f17d7e5c466ae12535dfa5fd111f3964fa72eaaa55d33abb348e4b"; got != want {
		t.Errorf("attestation key: got %v, want %v", got, want)
	}
}

func TestSignaturesAreDeterministicAndRecover(t *testing.T) {
	t.Parallel()
	k, err := knownSeed(t).DeriveWallet(signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: "TREASURY"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		hash := sha256.Sum256([]byte{byte(i)})
		sig := k.SignHash(hash)
		if again := k.SignHash(hash); again != sig {
			t.Fatalf("got %x, want %x again", again, sig)
		}
		// The node library signs by the same RFC 6979.
		private, err := crypto.ToECDSA(k.secpKey().Serialize())
		if err != nil {
			t.Fatal(err)
		}
		want, err := crypto.Sign(hash[:], private)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(sig[:], want) {
			t.Fatalf("got %x, want %x", sig, want)
		}
	}
}

func TestWordsAreCheckedAndNeverQuoted(t *testing.T) {
	t.Parallel()
	for _, words := range []string{
		"", "yellow", strings.Repeat("yellow ", 24),
		strings.Replace(knownWords, "art", "arts", 1),
	} {
		_, err := SeedFromWords(words)
		if err == nil {
			t.Errorf("%q: got no error", words)
		} else if strings.Contains(err.Error(), "yellow") || strings.Contains(err.Error(), "abandon") {
			t.Errorf("got %q, want an error without the words", err)
		}
	}
	s := knownSeed(t)
	if got := s.mnemonic(); got != knownWords {
		t.Errorf("got %q, want %q", got, knownWords)
	}
	if got, err := SeedFromWords(strings.ToUpper(knownWords) + "\n"); err != nil || *got.secret() != *s.secret() {
		t.Errorf("got %v, want the same seed in any casing", err)
	}
}

func TestNoKeyIsDerivedForAFamilyWithoutKeys(t *testing.T) {
	t.Parallel()
	for _, f := range []chain.Family{chain.TronFamily, "MOON", ""} {
		w := signer.WalletRef{OrgID: "org_1", Family: f, Purpose: "TREASURY"}
		if k, err := knownSeed(t).ForNetwork(chain.Mainnet).DeriveWallet(w); err == nil {
			t.Errorf("%q: got %s at %s, want an error", f, k.Address(), k.Path())
		}
	}
}

func TestKeysNeverPrint(t *testing.T) {
	t.Parallel()
	s, err := NewSeed()
	if err != nil {
		t.Fatal(err)
	}
	k, err := s.DeriveWallet(signer.WalletRef{OrgID: "org_1", Family: chain.EVM, Purpose: "TREASURY"})
	if err != nil {
		t.Fatal(err)
	}
	holder := struct {
		s Seed
		a AttestKey
		k WalletKey
		P *Seed
	}{s, s.AttestKey(), k, &s}
	secrets := [][]byte{
		s.secret().entropy[:], s.secret().master[:], k.secpKey().Serialize(),
		s.AttestKey().privateKey(),
	}
	for _, v := range []any{s, &s, s.AttestKey(), k, holder, &holder, []Seed{s}, map[string]any{"k": k}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			got := fmt.Sprintf(verb, v)
			assertSilent(t, got, secrets, s.mnemonic())
		}
		if b, err := json.Marshal(v); err == nil {
			assertSilent(t, string(b), secrets, s.mnemonic())
		}
	}
}

// assertSilent looks for secrets in every form in which an output could contain them.
func assertSilent(t *testing.T, out string, secrets [][]byte, words string) {
	t.Helper()
	if strings.Contains(out, words) {
		t.Errorf("got the words of a seed in %q", out)
	}
	for _, b := range secrets {
		part := b[:8]
		for _, form := range []string{
			string(part), hex.EncodeToString(part), strings.ToUpper(hex.EncodeToString(part)),
			strings.Trim(fmt.Sprint(part), "[]"), strings.Trim(fmt.Sprintf("%#v", part), "[]byte{}"),
		} {
			if strings.Contains(out, form) {
				t.Errorf("got a secret as %q in %q", form, out)
			}
		}
	}
}
