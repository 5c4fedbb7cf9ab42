package payerproof

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
)

func addressOfScript(t *testing.T, script ...byte) chain.Address {
	t.Helper()
	params, err := bitcointx.Params(chain.Local)
	if err != nil {
		t.Fatal(err)
	}
	found, ok := bitcointx.AddressOf(params, script)
	if !ok {
		t.Fatalf("no address of %x", script)
	}
	return found
}

// oldAddress returns the address that pays the hash of a key without SegWit.
func oldAddress(t *testing.T, key *btcec.PublicKey) chain.Address {
	t.Helper()
	return addressOfScript(t, append(append([]byte{txscript.OP_DUP, txscript.OP_HASH160, txscript.OP_DATA_20},
		address.Hash160(key.SerializeCompressed())...), txscript.OP_EQUALVERIFY, txscript.OP_CHECKSIG)...)
}

// nestedAddress returns the address that pays the hash of the SegWit script of a key.
func nestedAddress(t *testing.T, key *btcec.PublicKey) chain.Address {
	t.Helper()
	segwit := append([]byte{txscript.OP_0, txscript.OP_DATA_20}, address.Hash160(key.SerializeCompressed())...)
	return addressOfScript(t, append(append([]byte{txscript.OP_HASH160, txscript.OP_DATA_20},
		address.Hash160(segwit)...), txscript.OP_EQUAL)...)
}

// signOldBitcoin signs a text in the compact form, with the header of a compressed key and so much more.
func signOldBitcoin(key *btcec.PrivateKey, text string, headerOffset byte) string {
	signature := ecdsa.SignCompact(key, hashOldMessage(text), true)
	signature[0] += headerOffset
	return base64.StdEncoding.EncodeToString(signature)
}

// The published signatures of Bitcoin Core and of bitcoinjs-message hold for their addresses and texts, and for no
// others. Rule CO-143.
func TestThePublishedCompactSignaturesHold(t *testing.T) {
	t.Parallel()
	const (
		text  = "vires is numeris"
		plain = "G8JawPtQOrybrSP1WHQnQPr67B9S3qrxBrl1mlzoTJOSHEpmnF7D3+t+LX0Xei9J20B5AIdPbeL3AaTBZ4N3bY0="
		short = "H8JawPtQOrybrSP1WHQnQPr67B9S3qrxBrl1mlzoTJOSHEpmnF7D3+t+LX0Xei9J20B5AIdPbeL3AaTBZ4N3bY0="
		// The four headers of one signature.
		asPlain  = "HF8nHqFr3K2UKYahhX3soVeoW8W1ECNbr0wfck7lzyXjCS5Q16Ek45zyBuy1Fiy9sTPKVgsqqOuPvbycuVSSVl8="
		asShort  = "IF8nHqFr3K2UKYahhX3soVeoW8W1ECNbr0wfck7lzyXjCS5Q16Ek45zyBuy1Fiy9sTPKVgsqqOuPvbycuVSSVl8="
		asNested = "JF8nHqFr3K2UKYahhX3soVeoW8W1ECNbr0wfck7lzyXjCS5Q16Ek45zyBuy1Fiy9sTPKVgsqqOuPvbycuVSSVl8="
		asSegwit = "KF8nHqFr3K2UKYahhX3soVeoW8W1ECNbr0wfck7lzyXjCS5Q16Ek45zyBuy1Fiy9sTPKVgsqqOuPvbycuVSSVl8="
		core     = "IPojfrX2dfPnH26UegfbGQQLrdK844DlHq5157/P6h57WyuS/Qsl+h/WSVGDF4MUi4rWSswW38oimDYfNNUBUOk="
		crafted  = "IIcaIENoYW5jZWxsb3Igb24gYnJpbmsgb2Ygc2Vjb25kIGJhaWxvdXQgZm9yIGJhbmtzIAaHRtbCeDZINyavx14="

		plainAddress  = "16UwLL9Risc3QfPqBUvKofHmBQ7wMtjvM"
		shortAddress  = "1PMycacnJaSqwwJqjawXBErnLsZ7RkXUAs"
		keyOneAddress = "1BgGZ9tcN4rm9KBzDn7KprQz87SZ26SAMH" // of the key 1, compressed
		keyOneNested  = "3JvL6Ymt8MVWiCNHC7oWU6nLeHNJKLZGLN"
		keyOneSegwit  = "bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4"
		keyOnePlain   = "1EHNa6Q4Jz2uvNExL497mE43ikXhwF6kZm"
	)
	for _, c := range []struct {
		address         chain.Address
		text, signature string
		want            bool
	}{
		{"15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs", "Trust no one", core, true},
		{"15CRxFdyRpGZLW9w8HnHvVduizdL5jKNbs", "I never signed this", core, false},
		{"11canuhp9X2NocwCq7xNrQYTmUgZAnLK3", "Trust me", crafted, true},
		{plainAddress, text, plain, true},
		{shortAddress, text, short, true},
		{plainAddress, "foobar", plain, false},
		{"1111111111111111111114oLvT2", text, short, false},
		{plainAddress, text, short, false},
		{shortAddress, text, plain, false},
		{keyOnePlain, text, asPlain, true},
		{keyOneAddress, text, asShort, true},
		{keyOneNested, text, asNested, true},
		{keyOneSegwit, text, asSegwit, true},
		// Electrum and others write the header of a compressed key for SegWit too.
		{keyOneNested, text, asShort, true},
		{keyOneSegwit, text, asShort, true},
		// A header of another kind is of another address.
		{keyOneAddress, text, asPlain, false},
		{keyOneAddress, text, asNested, false},
		{keyOneAddress, text, asSegwit, false},
		{keyOneNested, text, asPlain, false},
		{keyOneNested, text, asSegwit, false},
		{keyOneSegwit, text, asPlain, false},
		{keyOneSegwit, text, asNested, false},
		{keyOnePlain, text, asShort, false},
		// An address of several keys has no such signature.
		{"3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", text, asNested, false},
	} {
		err := Verify(chain.Mainnet, chain.Bitcoin, c.address, c.text, c.signature)
		if (err == nil) != c.want || err != nil && !errors.Is(err, ErrSignature) {
			t.Errorf("%s, %q, %.4s: got %v, want it valid: %v", c.address, c.text, c.signature, err, c.want)
		}
	}
	for text, want := range map[string]string{
		"":                 "80e795d4a4caadd7047af389d9f7f220562feb6196032e2131e10563352c4bcc",
		"Vires is Numeris": "f8a5affbef4a3241b19067aa694562f64f513310817297089a8929a930f4f933",
	} {
		if got := hex.EncodeToString(hashOldMessage(text)); got != want {
			t.Errorf("%q: got the hash %s, want %s", text, got, want)
		}
	}
}

// A compact signature has one form: the small s, the length, the headers of BIP-137, and base64 without spare bits.
// Rule CO-143.
func TestACompactSignatureHasOneForm(t *testing.T) {
	t.Parallel()
	key, public := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{7}, 32))
	paid := oldAddress(t, public)
	const text = "text"
	signature := signOldBitcoin(key, text, 0)
	verify := func(raw []byte) error {
		return Verify(chain.Local, chain.Bitcoin, paid, text, base64.StdEncoding.EncodeToString(raw))
	}
	raw, err := base64.StdEncoding.DecodeString(signature)
	if err != nil || verify(raw) != nil {
		t.Fatalf("got %v, %v of its own signature", err, verify(raw))
	}
	large := bytes.Clone(raw)
	s := new(big.Int).SetBytes(raw[33:])
	s.Sub(crypto.S256().Params().N, s).FillBytes(large[33:])
	large[0] = compressedKeyHeader + (1 - (raw[0] - compressedKeyHeader))
	recovered, _, err := ecdsa.RecoverCompact(large, hashOldMessage(text))
	if err != nil || !recovered.IsEqual(public) {
		t.Fatalf("the other form is no signature of the key: %v", err)
	}
	if err := verify(large); !errors.Is(err, ErrSignature) {
		t.Errorf("got %v with the large s", err)
	}
	for header := range 256 {
		other := bytes.Clone(raw)
		if other[0] = byte(header); other[0] == raw[0] {
			continue
		}
		if err := verify(other); !errors.Is(err, ErrSignature) {
			t.Errorf("got %v with the header %d", err, header)
		}
	}
	for name, other := range map[string][]byte{
		"shorter": raw[:64], "longer": append(bytes.Clone(raw), 0), "zeros": make([]byte, 65),
		"no s": append(bytes.Clone(raw[:33]), make([]byte, 32)...),
	} {
		if err := verify(other); !errors.Is(err, ErrSignature) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	// The text of a refund is longer than one byte of length can say.
	long := strings.Repeat("line\n", 100)
	if err := Verify(chain.Local, chain.Bitcoin, paid, long, signOldBitcoin(key, long, 0)); err != nil {
		t.Errorf("a long text: got %v", err)
	}
}

// What a contract is asked has the digest of the text and the bytes of the signature, and a wrapped one of a contract
// that is not there yet is recognized. Rule CO-140.
func TestAContractIsAskedAboutTheTextAndTheSignature(t *testing.T) {
	t.Parallel()
	question, ok := AskContract("text", " 0x0102\n")
	want := crypto.Keccak256([]byte("\x19Ethereum Signed Message:\n4text"))
	if !ok || !bytes.Equal(question.Digest[:], want) || !bytes.Equal(question.Signature, []byte{1, 2}) ||
		question.IsUndeployed {
		t.Errorf("got %+v, %v, want the digest %x and the bytes", question, ok, want)
	}
	if question, ok := AskContract("text", "0x"); !ok || len(question.Signature) != 0 {
		t.Errorf("got %+v, %v, want an empty signature, with which a contract looks at its own list", question, ok)
	}
	wrapped := "0x00" + strings.Repeat("6492", 16)
	if question, ok := AskContract("text", wrapped); !ok || !question.IsUndeployed {
		t.Errorf("got %+v, %v, want a contract that is not there yet", question, ok)
	}
	for _, bad := range []string{"x", "0x0", "IPojfr==", "0x" + strings.Repeat("00", contractBytesMax+1)} {
		if question, ok := AskContract("text", bad); ok {
			t.Errorf("%.20q: got %+v, want no question", bad, question)
		}
	}
}

// A contract of twenty-four owners is asked, whose signatures are longer than that of any key. Rule CO-140.
func TestAContractOfManyOwnersIsAsked(t *testing.T) {
	t.Parallel()
	const owners, signatureBytes = 24, 65
	question, ok := AskContract("text", "0x"+strings.Repeat("ab", owners*signatureBytes))
	if !ok || len(question.Signature) != owners*signatureBytes {
		t.Errorf("got %d bytes, %v, want the signatures of %d owners", len(question.Signature), ok, owners)
	}
}
