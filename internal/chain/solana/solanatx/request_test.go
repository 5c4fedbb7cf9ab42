package solanatx

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/money"
)

// sampleRequests are requests of every form, by name.
func sampleRequests() map[string]Request {
	reference := sha256.Sum256([]byte("a checkout"))
	coin := Request{
		Payer: alice, Payee: bob, Amount: money.Units(312_100_000), Reference: reference, Blockhash: value,
	}
	dollars := coin
	dollars.Mint, dollars.TokenProgram, dollars.Decimals = usdx, TokenProgram, 6
	newer := dollars
	newer.TokenProgram, newer.Amount = Token2022Program, money.Units(1<<64-1)
	return map[string]Request{"coin": coin, "token": dollars, "token of Token-2022": newer}
}

// A requested payment is one transfer of exactly its amount, signed by its payer alone, with the reference as an
// account that neither signs nor is written. Rule CO-116.
func TestARequestIsOneTransferWithItsReference(t *testing.T) {
	t.Parallel()
	for name, r := range sampleRequests() {
		raw, err := r.Unsigned()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if raw[0] != 1 || !bytes.Equal(raw[1:1+signatureBytes], make([]byte, signatureBytes)) {
			t.Errorf("%s: got %x, want one empty signature", name, raw[:1+signatureBytes])
		}
		m, err := parseMessage(raw[1+signatureBytes:])
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		// The header: one signer, none of them read only, and the last accounts read only.
		header := raw[1+signatureBytes:]
		readOnlyCount := int(header[2])
		position := -1
		for i, key := range m.keys {
			if key == r.Reference {
				position = i
			}
		}
		if header[0] != 1 || header[1] != 0 || position < len(m.keys)-readOnlyCount {
			t.Errorf("%s: got the header %v with the reference at %d of %d, want it read only", name, header[:3],
				position, len(m.keys))
		}
		last := m.ins[0].accounts[len(m.ins[0].accounts)-1]
		if len(m.ins) != 1 || last != r.Reference || Canonical(m.keys[0]) != r.Payer {
			t.Errorf("%s: got %d instructions and the last account %s", name, len(m.ins), Canonical(last))
		}
		got, err := DecodeRequest(raw)
		want := r
		if r.Mint != "" {
			if want.Payee, err = AssociatedAccount(r.Payee, r.Mint, r.TokenProgram); err != nil {
				t.Fatal(err)
			}
		}
		if got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
		// The signer of the service takes it for none of its transactions.
		payload := raw[1+signatureBytes:]
		if _, err := Decode(payload); err == nil {
			t.Errorf("%s: got a payment that the signer would sign", name)
		}
		if _, err := DecodeNonceCreation(payload); err == nil {
			t.Errorf("%s: got a creation that the signer would sign", name)
		}
	}
}

func TestARequestThatCannotBePaidIsNotMade(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Request){
		"nothing":                   func(r *Request) { r.Amount = money.Zero },
		"more than 64 bits":         func(r *Request) { r.Amount = money.MustParse("18446744073709551616") },
		"a payer off the curve":     func(r *Request) { r.Payer = usdx },
		"a program that pays":       func(r *Request) { r.Payer = TokenProgram },
		"the payer itself":          func(r *Request) { r.Payee = r.Payer },
		"a program that is paid":    func(r *Request) { r.Payee = SystemProgram },
		"no block":                  func(r *Request) { r.Blockhash = "" },
		"no address":                func(r *Request) { r.Payer = "x" },
		"another program of tokens": func(r *Request) { r.Mint, r.TokenProgram = usdx, AssociatedProgram },
		"the payer as reference":    func(r *Request) { r.Reference = mustBytes(r.Payer) },
		"the payee as reference":    func(r *Request) { r.Reference = mustBytes(r.Payee) },
		"its program as reference":  func(r *Request) { r.Reference = system },
	} {
		r := sampleRequests()["coin"]
		change(&r)
		if raw, err := r.Unsigned(); err == nil {
			t.Errorf("%s: got %x, want none", name, raw)
		}
	}
}

// What is not exactly a request is not read as one.
func TestOnlyARequestIsReadAsOne(t *testing.T) {
	t.Parallel()
	raw, err := sampleRequests()["token"].Unsigned()
	if err != nil {
		t.Fatal(err)
	}
	signed := bytes.Clone(raw)
	signed[7] = 1
	for name, bad := range map[string][]byte{
		"nothing": nil, "cut off": raw[:len(raw)-1], "longer": append(bytes.Clone(raw), 0), "signed": signed,
		"another payment": append(bytes.Clone(raw[:1+signatureBytes]), payload(t, samples(t)["coin"])...),
		"text":            []byte(strings.Repeat("x", len(raw))),
	} {
		if r, err := DecodeRequest(bad); err == nil {
			t.Errorf("%s: got %+v, want an error", name, r)
		}
	}
}
