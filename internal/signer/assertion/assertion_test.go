package assertion_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/signer/assertion"
)

const (
	rpID   = "approve.example.com"
	origin = "https://approve.example.com"
)

var challenge = assertion.Challenge(sha256.Sum256([]byte("words")))

// authenticator is a passkey of one of the three kinds.
type authenticator struct {
	passkey assertion.Passkey
	sign    func(message []byte) []byte
}

func newAuthenticators(t testing.TB) map[string]authenticator {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	made := map[string]authenticator{}
	add := func(name string, public crypto.PublicKey, sign func([]byte) []byte) {
		pkix, err := x509.MarshalPKIXPublicKey(public)
		must(err)
		made[name] = authenticator{assertion.Passkey{
			CredentialID: []byte(name), PublicKey: pkix, RPID: rpID, Origin: origin,
		}, sign}
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	add("ES256", &curve.PublicKey, func(message []byte) []byte {
		sum := sha256.Sum256(message)
		signature, err := ecdsa.SignASN1(rand.Reader, curve, sum[:])
		must(err)
		return signature
	})
	public, edwards, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	add("EdDSA", public, func(message []byte) []byte { return ed25519.Sign(edwards, message) })
	modulus, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	add("RS256", &modulus.PublicKey, func(message []byte) []byte {
		sum := sha256.Sum256(message)
		signature, err := rsa.SignPKCS1v15(rand.Reader, modulus, crypto.SHA256, sum[:])
		must(err)
		return signature
	})
	return made
}

func clientJSON(challenge assertion.Challenge) string {
	return fmt.Sprintf(`{"type":"webauthn.get","challenge":%q,"origin":%q,"crossOrigin":false}`,
		base64.RawURLEncoding.EncodeToString(challenge[:]), origin)
}

func authenticatorData(flags byte) []byte {
	sum := sha256.Sum256([]byte(rpID))
	return append(sum[:], flags, 0, 0, 0, 7)
}

func (a authenticator) answer(data []byte, client string) assertion.Assertion {
	clientHash := sha256.Sum256([]byte(client))
	return assertion.Assertion{
		CredentialID: a.passkey.CredentialID, AuthenticatorData: data, ClientDataJSON: []byte(client),
		Signature: a.sign(append(append([]byte{}, data...), clientHash[:]...)),
	}
}

// Rule SA-7.
func TestAnAssertionIsValidForItsWordsPasskeyAndPageAlone(t *testing.T) {
	t.Parallel()
	all := newAuthenticators(t)
	for name, a := range all {
		good := a.answer(authenticatorData(1|4), clientJSON(challenge))
		if err := good.Verify(a.passkey, challenge); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
		for change, of := range map[string]func(*assertion.Assertion){
			"signature":        func(x *assertion.Assertion) { x.Signature[len(x.Signature)-1] ^= 1 },
			"counter":          func(x *assertion.Assertion) { x.AuthenticatorData[36] ^= 1 },
			"client data":      func(x *assertion.Assertion) { x.ClientDataJSON = append(x.ClientDataJSON, ' ') },
			"credential":       func(x *assertion.Assertion) { x.CredentialID = []byte("another") },
			"no credential":    func(x *assertion.Assertion) { x.CredentialID = nil },
			"no signature":     func(x *assertion.Assertion) { x.Signature = nil },
			"a long signature": func(x *assertion.Assertion) { x.Signature = append(x.Signature, 0) },
		} {
			changed := a.answer(authenticatorData(1|4), clientJSON(challenge))
			of(&changed)
			if err := changed.Verify(a.passkey, challenge); err == nil {
				t.Errorf("%s: an assertion with another %s is valid", name, change)
			}
		}
		other := assertion.Challenge(sha256.Sum256([]byte("other words")))
		if err := good.Verify(a.passkey, other); err == nil {
			t.Errorf("%s: valid for other words", name)
		}
		for otherName, o := range all {
			if key := a.passkey; otherName != name {
				key.PublicKey = o.passkey.PublicKey
				if err := good.Verify(key, challenge); err == nil {
					t.Errorf("%s: valid for the key of %s", name, otherName)
				}
			}
		}
	}
}

// What a passkey signs is refused if the ceremony was another one, although the signature is right.
func TestAnAssertionOfAnotherCeremonyIsRefused(t *testing.T) {
	t.Parallel()
	a := newAuthenticators(t)["ES256"]
	usual := clientJSON(challenge)
	for name, client := range map[string]string{
		"a creation":             strings.Replace(usual, "webauthn.get", "webauthn.create", 1),
		"another page":           strings.Replace(usual, origin, "https://evil.example.com", 1),
		"a page of http":         strings.Replace(usual, "https://", "http://", 1),
		"another port":           strings.Replace(usual, origin, origin+":8443", 1),
		"inside another page":    strings.Replace(usual, "false", "true", 1),
		"inside a named page":    strings.Replace(usual, `"crossOrigin":false`, `"topOrigin":"https://a.example"`, 1),
		"a member twice":         strings.Replace(usual, `{"type"`, `{"type":"webauthn.get","type"`, 1),
		"a challenge twice":      strings.Replace(usual, `"origin"`, `"challenge":"AA","origin"`, 1),
		"a name in capitals":     strings.Replace(usual, `"type"`, `"Type"`, 1),
		"a padded challenge":     strings.Replace(usual, `","origin"`, `=","origin"`, 1),
		"no JSON":                "words",
		"an array":               "[" + usual + "]",
		"something behind":       usual + "{}",
		"a type that is a list":  strings.Replace(usual, `"webauthn.get"`, `["webauthn.get"]`, 1),
		"crossOrigin as a text":  strings.Replace(usual, "false", `"false"`, 1),
		"nothing":                "",
		"a byte that is no text": strings.Replace(usual, origin, origin+"\xff", 1),
	} {
		if err := a.answer(authenticatorData(1|4), client).Verify(a.passkey, challenge); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
	withMore := strings.Replace(usual, "}", `,"other_keys_can_be_added_here":"as browsers do"}`, 1)
	if err := a.answer(authenticatorData(1|4), withMore).Verify(a.passkey, challenge); err != nil {
		t.Errorf("with a member that a browser added: got %v", err)
	}
	otherSite := sha256.Sum256([]byte("example.com"))
	for name, data := range map[string][]byte{
		"without presence":       authenticatorData(4),
		"without verification":   authenticatorData(1),
		"with a credential":      authenticatorData(1 | 4 | 64),
		"with a reserved flag":   authenticatorData(1 | 4 | 2),
		"with the other flag":    authenticatorData(1 | 4 | 32),
		"backed up, not allowed": authenticatorData(1 | 4 | 16),
		"too long":               append(authenticatorData(1|4), 0),
		"too short":              authenticatorData(1 | 4)[:36],
		"of another site":        append(otherSite[:], 1|4, 0, 0, 0, 0),
		"empty":                  nil,
	} {
		if err := a.answer(data, usual).Verify(a.passkey, challenge); err == nil {
			t.Errorf("%s: valid", name)
		}
	}
	for name, data := range map[string][]byte{
		"a synced passkey":         authenticatorData(1 | 4 | 8 | 16),
		"a passkey that can be":    authenticatorData(1 | 4 | 8),
		"with extensions":          append(authenticatorData(1|4|128), 0xa0),
		"with a counter of zeroes": append(authenticatorData(1 | 4)[:33], 0, 0, 0, 0),
	} {
		if err := a.answer(data, usual).Verify(a.passkey, challenge); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// A passkey is known by its public key, so a key has one encoding.
func TestPublicKeysOfOtherKindsOrEncodingsAreRefused(t *testing.T) {
	t.Parallel()
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	p384, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	good := newAuthenticators(t)
	for name, pkix := range map[string][]byte{
		"none":             nil,
		"noise":            []byte("noise"),
		"P-384":            must(x509.MarshalPKIXPublicKey(&p384.PublicKey)),
		"with bytes after": append(append([]byte{}, good["ES256"].passkey.PublicKey...), 0),
		"too long":         make([]byte, 5000),
	} {
		if _, err := assertion.ParsePublicKey(pkix); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	for name, a := range good {
		if _, err := assertion.ParsePublicKey(a.passkey.PublicKey); err != nil {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// FuzzVerify looks for bytes that are valid without being what the passkey signed.
func FuzzVerify(f *testing.F) {
	a := newAuthenticators(f)["ES256"]
	good := a.answer(authenticatorData(1|4), clientJSON(challenge))
	f.Add(good.AuthenticatorData, good.ClientDataJSON, good.Signature)
	f.Add([]byte{}, []byte("{}"), []byte{0x30, 0})
	f.Fuzz(func(t *testing.T, data, client, signature []byte) {
		changed := assertion.Assertion{
			CredentialID: good.CredentialID, AuthenticatorData: data, ClientDataJSON: client, Signature: signature,
		}
		isSigned := string(data) == string(good.AuthenticatorData) && string(client) == string(good.ClientDataJSON)
		if err := changed.Verify(a.passkey, challenge); err == nil && !isSigned {
			t.Errorf("valid: %x %q", data, client)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	for name, a := range newAuthenticators(b) {
		good := a.answer(authenticatorData(1|4), clientJSON(challenge))
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := good.Verify(a.passkey, challenge); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkBareVerify is the least that BenchmarkVerify can take: one verification of a signature on P-256.
func BenchmarkBareVerify(b *testing.B) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	sum := sha256.Sum256([]byte("words"))
	signature, err := ecdsa.SignASN1(rand.Reader, key, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	b.Run("ES256", func(b *testing.B) {
		for b.Loop() {
			if !ecdsa.VerifyASN1(&key.PublicKey, sum[:], signature) {
				b.Fatal("a signature of the key is not valid")
			}
		}
	})
}

// browsersJSON has answers of real browsers and authenticators that others have published, with where they are from.
// The answers of Chromium are made anew by the tests of the pages.
//
//go:embed testdata/browsers.json
var browsersJSON []byte

// Answers of real browsers are valid as they are, and one changed bit of any part makes them invalid. A passkey that
// only was touched is refused, in the member order of another browser.
func TestAnswersOfRealBrowsersAreValid(t *testing.T) {
	t.Parallel()
	var answers []struct {
		Name, Source, RPID, Origin, ClientDataJSON, Refusal   string
		PublicKey, CredentialID, AuthenticatorData, Signature []byte
	}
	if err := json.Unmarshal(browsersJSON, &answers); err != nil || len(answers) < 7 {
		t.Fatalf("got %d answers and %v", len(answers), err)
	}
	for _, answer := range answers {
		key := assertion.Passkey{
			CredentialID: answer.CredentialID, PublicKey: answer.PublicKey, RPID: answer.RPID, Origin: answer.Origin,
		}
		var client struct{ Challenge string }
		if err := json.Unmarshal([]byte(answer.ClientDataJSON), &client); err != nil {
			t.Fatal(err)
		}
		words, err := base64.RawURLEncoding.DecodeString(client.Challenge)
		if err != nil || len(words) != sha256.Size {
			t.Fatalf("%s: got a challenge of %d bytes and %v", answer.Name, len(words), err)
		}
		verify := func(change func(*assertion.Assertion)) error {
			given := assertion.Assertion{
				CredentialID:      bytes.Clone(answer.CredentialID),
				AuthenticatorData: bytes.Clone(answer.AuthenticatorData),
				ClientDataJSON:    []byte(answer.ClientDataJSON), Signature: bytes.Clone(answer.Signature),
			}
			change(&given)
			return given.Verify(key, assertion.Challenge(words))
		}
		switch err := verify(func(*assertion.Assertion) {}); {
		case answer.Refusal != "" && (err == nil || !strings.Contains(err.Error(), answer.Refusal)):
			t.Errorf("%s (%s): got %v, want it refused: %s", answer.Name, answer.Source, err, answer.Refusal)
		case answer.Refusal == "" && err != nil:
			t.Errorf("%s (%s): got %v", answer.Name, answer.Source, err)
		}
		if answer.Refusal != "" {
			continue
		}
		for part, change := range map[string]func(*assertion.Assertion){
			"its counter":   func(x *assertion.Assertion) { x.AuthenticatorData[len(x.AuthenticatorData)-1] ^= 1 },
			"its signature": func(x *assertion.Assertion) { x.Signature[len(x.Signature)-1] ^= 1 },
			"its client data": func(x *assertion.Assertion) {
				x.ClientDataJSON = append([]byte(`{"added":1,`), x.ClientDataJSON[1:]...)
			},
		} {
			if verify(change) == nil {
				t.Errorf("%s: valid with another of %s", answer.Name, part)
			}
		}
	}
}
