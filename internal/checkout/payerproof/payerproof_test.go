package payerproof

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

func secretOf(t *testing.T, fill byte) []byte {
	t.Helper()
	secret, err := DeriveSecret(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return secret
}

func newChallenge() Challenge {
	return Challenge{
		RefundID: "ref_01J9ZW3M8Q4S5T6V7W8X9YZABC", Version: 3, Shop: "Northwind Coffee", Host: "pay.example",
		CAIP2: "eip155:8453", Address: "0x71C7656EC7ab88b098defB751B7401B5f6d8976F",
		ExpiresAt: time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

// A text names what its signature is for, and each of its parts makes another text. Rule CO-95.
func TestATextNamesEverythingThatItIsFor(t *testing.T) {
	t.Parallel()
	secret := secretOf(t, 1)
	text := newChallenge().Text(secret)
	for _, want := range []string{
		"pay.example asks you", "A refund of Northwind Coffee", "moves no money",
		"\nRefund: ref_01J9ZW3M8Q4S5T6V7W8X9YZABC\n", "\nVersion: 3\n", "\nNetwork: eip155:8453\n",
		"\nAddress: 0x71C7656EC7ab88b098defB751B7401B5f6d8976F\n", "\nExpires: 2027-01-02T03:04:05Z\n", "\nNonce: ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got a text without %q:\n%s", want, text)
		}
	}
	if newChallenge().Text(secret) != text {
		t.Error("got another text of the same challenge")
	}
	seen := map[string]string{text: "the first"}
	for name, change := range map[string]func(*Challenge){
		"another refund":  func(c *Challenge) { c.RefundID = "ref_01J9ZW3M8Q4S5T6V7W8X9YZABD" },
		"another version": func(c *Challenge) { c.Version++ },
		"another shop":    func(c *Challenge) { c.Shop = "Southwind" },
		"another host":    func(c *Challenge) { c.Host = "pay.example.net" },
		"another chain":   func(c *Challenge) { c.CAIP2 = "eip155:1" },
		"another address": func(c *Challenge) { c.Address = "0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913" },
		"another end":     func(c *Challenge) { c.ExpiresAt = c.ExpiresAt.Add(time.Second) },
		"another place":   func(c *Challenge) { c.Shop, c.Host = c.Host, c.Shop },
	} {
		c := newChallenge()
		change(&c)
		if other := seen[c.Text(secret)]; other != "" {
			t.Errorf("%s: got the text of %s", name, other)
		}
		seen[c.Text(secret)] = name
	}
	if newChallenge().Text(secretOf(t, 2)) == text {
		t.Error("got the same text from another installation")
	}
	if _, err := DeriveSecret(make([]byte, 31)); err == nil {
		t.Error("got a secret from a short one")
	}
}

// The name of a shop writes no line of its own, and nothing that hides or turns the others.
func TestANameWritesNoLine(t *testing.T) {
	t.Parallel()
	c := newChallenge()
	c.Shop = "x\nAddress: 0x0\r\n\u2028Refund:\u202e\x00" + strings.Repeat("y", 500)
	text := c.Text(secretOf(t, 1))
	if got := strings.Count(text, "\n"); got != strings.Count(newChallenge().Text(secretOf(t, 1)), "\n") {
		t.Errorf("got %d line breaks:\n%s", got, text)
	}
	if strings.ContainsAny(text, "\r\u2028\u202e\x00") || len(text) > 900 {
		t.Errorf("got %q", text)
	}
}

// A text can be signed until it expires, and no one makes one that is open for longer. Rule CO-95.
func TestATextIsOpenForAShortTime(t *testing.T) {
	t.Parallel()
	now := time.Date(2027, 1, 2, 3, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]bool{
		Lifetime: true, time.Second: true, Lifetime + 30*time.Second: true,
		0: false, -time.Second: false, Lifetime + 2*time.Minute: false,
	} {
		c := Challenge{ExpiresAt: now.Add(after)}
		if got := c.IsOpen(now); got != want {
			t.Errorf("%s before its end: got %v, want %v", after, got, want)
		}
	}
}

const (
	coreAddress = "bc1q9vza2e8x573nczrlzms0wvx3gsqjx7vavgkx0l"
	coreTaproot = "bc1ppv609nr0vr25u07u95waq5lucwfm6tde4nydujnu8npg4q75mr5sxq8lt3"
)

// The signatures that BIP-322 and Bitcoin Core publish hold, and hold for nothing else. Rule CO-96.
func TestThePublishedSignaturesOfBitcoinHold(t *testing.T) {
	t.Parallel()
	const hello = "AkcwRAIgZRfIY3p7/DoVTty6YZbWS71bc5Vct9p9Fia83eRmw2QCICK/ENGfwLtptFluMGs2KsqoNSk89pO7" +
		"F29zJLUx9a/sASECx/EgAxlkQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI="
	const nothing = "AkcwRAIgM2gBAQqvZX15ZiysmKmQpDrG83avLIT492QBzLnQIxYCIBaTpOaD20qRlEylyxFSeEA2ba9YOixp" +
		"X8z46TSDtS40ASECx/EgAxlkQpQ9hYjgGu6EBCPMVPwVIVJqO4XCsMvViHI="
	const taproot = "AUHd69PrJQEv+oKTfZ8l+WROBHuy9HKrbFCJu7U1iK2iiEy1vMU5EfMtjc+VSHM7aU0SDbak5IUZRVno2P5mjSafAQ=="
	for _, c := range []struct {
		name, address, text, signature string
		want                           bool
	}{
		{"a text", coreAddress, "Hello World", hello, true},
		{"with the prefix of newer wallets", coreAddress, "Hello World", "smp" + hello, true},
		{"no text", coreAddress, "", nothing, true},
		{"taproot", coreTaproot, "Hello World", taproot, true},
		{"another text", coreAddress, "Hello World!", hello, false},
		{"another text by taproot", coreTaproot, "Hello World ", taproot, false},
		{"another address", coreTaproot, "Hello World", hello, false},
		{"the address of another", "bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq", "Hello World", hello, false},
		{"cut", coreAddress, "Hello World", hello[:100], false},
		{"longer", coreAddress, "Hello World", strings.TrimRight(hello, "=") + "AA==", false},
		{"none", coreAddress, "Hello World", "", false},
		{"no base64", coreAddress, "Hello World", "!!", false},
	} {
		err := Verify(chain.Mainnet, chain.Bitcoin, chain.Address(c.address), c.text, c.signature)
		if (err == nil) != c.want {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	const wantHash = "f0eb03b1a75ac6d9847f55c624a99169b5dccba2a31f5b23bea77ba270de0a7a"
	message := hashMessage("Hello World")
	if got := hex.EncodeToString(message[:]); got != wantHash {
		t.Errorf("got the hash %s of the message", got)
	}
}

// signBitcoin signs a text as a wallet does.
func signBitcoin(t *testing.T, key *btcec.PrivateKey, address chain.Address, text string) string {
	t.Helper()
	script, err := bitcointx.Script(chain.Local, address)
	if err != nil {
		t.Fatal(err)
	}
	spent, signed := virtualTransactions(script, text)
	outputs := txscript.NewCannedPrevOutputFetcher(script, 0)
	hashes := txscript.NewTxSigHashes(signed, outputs)
	var witness wire.TxWitness
	if isTaproot(script) {
		witness, err = txscript.TaprootWitnessSignature(signed, hashes, 0, spent.TxOut[0].Value, script,
			txscript.SigHashDefault, key)
	} else {
		witness, err = txscript.WitnessSignature(signed, hashes, 0, 0, script, txscript.SigHashAll, key, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte{byte(len(witness))}
	for _, item := range witness {
		raw = append(append(raw, byte(len(item))), item...)
	}
	return base64.StdEncoding.EncodeToString(raw)
}

// account is an address with the way in which its wallet signs.
type account struct {
	name    chain.Name
	address chain.Address
	sign    func(text string) string
}

// accounts returns addresses of every kind that can be proven.
func accounts(t *testing.T, fill byte) []account {
	t.Helper()
	seed := bytes.Repeat([]byte{fill}, 32)
	evmKey, err := crypto.ToECDSA(seed)
	if err != nil {
		t.Fatal(err)
	}
	solanaKey := ed25519.NewKeyFromSeed(seed)
	bitcoinKey, public := btcec.PrivKeyFromBytes(seed)
	params, err := bitcointx.Params(chain.Local)
	if err != nil {
		t.Fatal(err)
	}
	hash := bitcointx.KeyAddress(params, [bitcointx.KeyBytes]byte(public.SerializeCompressed()))
	tap, ok := bitcointx.AddressOf(params, append([]byte{txscript.OP_1, txscript.OP_DATA_32},
		schnorr.SerializePubKey(txscript.ComputeTaprootKeyNoScript(public))...))
	if !ok {
		t.Fatal("no taproot address")
	}
	return []account{
		{chain.Base, evmtx.Canonical(crypto.PubkeyToAddress(evmKey.PublicKey)), func(text string) string {
			digest := crypto.Keccak256(fmt.Appendf(nil, "\x19Ethereum Signed Message:\n%d%s", len(text), text))
			signature, err := crypto.Sign(digest, evmKey)
			if err != nil {
				t.Fatal(err)
			}
			signature[64] += 27
			return "0x" + hex.EncodeToString(signature)
		}},
		{chain.Solana, solanatx.Canonical([32]byte(solanaKey.Public().(ed25519.PublicKey))), func(text string) string {
			return base58.Encode(ed25519.Sign(solanaKey, []byte(text)))
		}},
		{chain.Bitcoin, hash, func(text string) string { return signBitcoin(t, bitcoinKey, hash, text) }},
		{chain.Bitcoin, tap, func(text string) string { return signBitcoin(t, bitcoinKey, tap, text) }},
		{chain.Bitcoin, oldAddress(t, public), func(text string) string { return signOldBitcoin(bitcoinKey, text, 0) }},
		{chain.Bitcoin, nestedAddress(t, public), func(text string) string {
			return signOldBitcoin(bitcoinKey, text, nestedKeyHeader-compressedKeyHeader)
		}},
		{chain.Bitcoin, hash, func(text string) string {
			return signOldBitcoin(bitcoinKey, text, segwitKeyHeader-compressedKeyHeader)
		}},
	}
}

// A signature holds for its text and its address, and for no other one. Rule CO-96.
func TestASignatureHoldsForOneTextAndOneAddress(t *testing.T) {
	t.Parallel()
	secret := secretOf(t, 1)
	others := accounts(t, 9)
	for i, a := range accounts(t, 7) {
		c := newChallenge()
		c.Address = a.address
		text := c.Text(secret)
		signature := a.sign(text)
		if err := Verify(chain.Local, a.name, a.address, text, " "+signature+"\n"); err != nil {
			t.Fatalf("%s: got %v of its own signature %s", a.address, err, signature)
		}
		if !IsProvable(chain.Local, a.name, a.address) {
			t.Errorf("%s: got an address that cannot be proven", a.address)
		}
		for name, change := range map[string]func(*Challenge){
			"another refund":  func(c *Challenge) { c.RefundID = "ref_01J9ZW3M8Q4S5T6V7W8X9YZABD" },
			"another attempt": func(c *Challenge) { c.Version++ },
			"another chain":   func(c *Challenge) { c.CAIP2 = "eip155:1" },
			"another end":     func(c *Challenge) { c.ExpiresAt = c.ExpiresAt.Add(time.Hour) },
			"another address": func(c *Challenge) { c.Address = others[i].address },
		} {
			changed := c
			change(&changed)
			err := Verify(chain.Local, a.name, a.address, changed.Text(secret), signature)
			if !errors.Is(err, ErrSignature) {
				t.Errorf("%s, %s: got %v", a.address, name, err)
			}
		}
		if err := Verify(chain.Local, a.name, others[i].address, text, signature); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: got %v for another address", a.address, err)
		}
		for at := range signature {
			changed := []byte(signature)
			changed[at]++
			if strings.Trim(signature[at:], "=") == "" || at < len("0x") && a.name == chain.Base {
				continue
			}
			if err := Verify(chain.Local, a.name, a.address, text, string(changed)); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: got %v with another character at %d", a.address, err, at)
			}
		}
		for _, bad := range []string{"", "0x", "x", signature + signature, strings.Repeat("A", 5000)} {
			if err := Verify(chain.Local, a.name, a.address, text, bad); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: got %v for %.20q", a.address, err, bad)
			}
		}
	}
}

// The parity of an EVM signature may be written in both ways, and a signature with the large s is none. Rule CO-96.
func TestAnEVMSignatureHasOneForm(t *testing.T) {
	t.Parallel()
	a := accounts(t, 7)[0]
	const text = "text"
	raw, err := hex.DecodeString(a.sign(text)[2:])
	if err != nil {
		t.Fatal(err)
	}
	verify := func(raw []byte) error {
		return Verify(chain.Local, a.name, a.address, text, hex.EncodeToString(raw))
	}
	plain := bytes.Clone(raw)
	plain[64] -= 27
	if err := verify(plain); err != nil {
		t.Errorf("got %v with the bare parity", err)
	}
	for _, parity := range []byte{2, 26, 29, 35, 255} {
		other := bytes.Clone(raw)
		other[64] = parity
		if err := verify(other); err == nil {
			t.Errorf("got a signature with the parity %d accepted", parity)
		}
	}
	large := bytes.Clone(raw)
	s := new(big.Int).SetBytes(raw[32:64])
	s.Sub(crypto.S256().Params().N, s).FillBytes(large[32:64])
	large[64] = 27 + (1 - (raw[64] - 27))
	key, err := crypto.SigToPub(crypto.Keccak256([]byte("\x19Ethereum Signed Message:\n4text")),
		append(bytes.Clone(large[:64]), large[64]-27))
	if err != nil || crypto.PubkeyToAddress(*key).Hex() != string(a.address) {
		t.Fatalf("the other form is no signature of the address: %v", err)
	}
	if err := verify(large); !errors.Is(err, ErrSignature) {
		t.Errorf("got %v with the large s", err)
	}
	for _, zero := range [][]byte{make([]byte, 65), append(bytes.Clone(raw[:32]), make([]byte, 33)...)} {
		if err := verify(zero); !errors.Is(err, ErrSignature) {
			t.Errorf("got %v for a zero", err)
		}
	}
}

// A key of a small order has signatures that no one made, and a script that is not of one key has no signature.
func TestWhatNoOneSignsIsNotProven(t *testing.T) {
	t.Parallel()
	identity := [32]byte{1}
	forged := append(bytes.Clone(identity[:]), make([]byte, 32)...)
	if !ed25519.Verify(identity[:], []byte("text"), forged) {
		t.Fatal("the forged signature does not hold for the key itself")
	}
	err := Verify(chain.Local, chain.Solana, solanatx.Canonical(identity), "text", base58.Encode(forged))
	if !errors.Is(err, ErrSignature) {
		t.Errorf("got %v for the key without an owner", err)
	}
	orderTwo := [32]byte(append(append([]byte{0xec}, bytes.Repeat([]byte{0xff}, 30)...), 0x7f))
	text := "text"
	for !ed25519.Verify(orderTwo[:], []byte(text), forged) { // It holds for every second text.
		text += "."
	}
	err = Verify(chain.Local, chain.Solana, solanatx.Canonical(orderTwo), text, base58.Encode(forged))
	if !errors.Is(err, ErrSignature) {
		t.Errorf("got %v for a key of order two", err)
	}
	const scriptAddress = "bc1qrp33g0q5c5txsp9arysrx4k6zdkfs4nce4xj0gdcccefvpysxf3qccfmv3"
	if err := Verify(chain.Mainnet, chain.Bitcoin, scriptAddress, "text", "AA=="); !errors.Is(err, ErrUnprovable) {
		t.Errorf("%s: got %v, want that it signs no message", scriptAddress, err)
	}
	if err := Verify(chain.Local, chain.Tron, "TXYZ", "text", "00"); !errors.Is(err, ErrUnprovable) {
		t.Errorf("got %v for a family without a check", err)
	}
	// A signature that leaves outputs open signs less than the text.
	for _, a := range accounts(t, 7)[2:4] {
		raw, err := base64.StdEncoding.DecodeString(a.sign("text"))
		if err != nil {
			t.Fatal(err)
		}
		witness, _ := readWitness(raw)
		script, err := bitcointx.Script(chain.Local, a.address)
		if err != nil || !hasPlainForm(script, witness) {
			t.Fatalf("%s: got no plain form: %v", a.address, err)
		}
		if isTaproot(script) { // which leaves the usual type out
			witness[0] = append(witness[0], byte(txscript.SigHashAll))
		}
		for kind, want := range map[txscript.SigHashType]bool{
			txscript.SigHashAll: true, txscript.SigHashNone: false, txscript.SigHashSingle: false,
			txscript.SigHashAll | txscript.SigHashAnyOneCanPay: false,
		} {
			witness[0][len(witness[0])-1] = byte(kind)
			if got := hasPlainForm(script, witness); got != want {
				t.Errorf("%s: a signature of type %d has the plain form %v, want %v", a.address, kind, got, want)
			}
		}
	}
}
