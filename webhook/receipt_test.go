package webhook

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"
)

// vector is a statement and a receipt of a known key. The verifiers in other languages are tested with it.
type vector struct {
	PublicKey string `json:"publicKey"`
	KeyID     string `json:"keyId"`
	Now       Time   `json:"now"`
	Statement string `json:"statement"`
	Receipt   string `json:"receipt"` // the text of the file
}

func vectorKey() Key {
	return PrivateKey(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, ed25519.SeedSize)))
}

func sampleStatement() Statement {
	return Statement{
		Environment: Test, CheckoutID: "co_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		OrganizationID: "org_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		Status:         "COMPLETED", Currency: "USD", AmountDue: "109.97", AmountPaid: "110.2", IssuedAt: At(now),
		ExpiresAt: At(now.Add(15 * time.Minute)),
	}
}

func sampleReceipt() Receipt {
	usdc, par, source, at := "1", "1", "par", At(now.Add(-time.Minute))
	ether, dollar, median := "3010.5", "1", "median of 3"
	return Receipt{
		Environment: Test, CheckoutID: "co_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		OrganizationID: "org_01J9ZW3M8Q4S5T6V7W8X9YZABC",
		Shop:           "Käse & Söhne <Köln>", Currency: "USD", AmountDue: "109.97", AmountPaid: "110.2",
		Items: List[ReceiptItem]{
			{Name: "Gold plan", Quantity: 2, UnitPrice: "49.99"}, {Name: "Mug", Quantity: 1, UnitPrice: "9.99"},
		},
		Payments: List[ReceiptPayment]{
			{
				DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABC", MintID: 1, Symbol: "USDC", Chain: "ETHEREUM",
				Amount: "80095000", Decimals: 6, TxHash: "0xaa", BlockHash: "0xbb", BlockHeight: 21_000_000,
				Price: &usdc, CurrencyPrice: &par, PriceSource: &source, PricedAt: &at,
				Counted: "80.095", CreditedAt: At(now),
			},
			{
				DepositID: "dep_01J9ZW3M8Q4S5T6V7W8X9YZABD", MintID: 2, Symbol: "ETH", Chain: "BASE",
				Amount: "10000000000000000", Decimals: 18, TxHash: "0xcc", BlockHash: "0xdd",
				BlockHeight: 30_000_000, Price: &ether, CurrencyPrice: &dollar, PriceSource: &median,
				PricedAt: &at,
				Counted:  "30.105", CreditedAt: At(now),
			},
		},
		CompletedAt: At(now), EventSequence: 1042, IssuedAt: At(now),
	}
}

func signedSamples(t *testing.T, key Key) (statement string, file []byte) {
	t.Helper()
	statement, err := SignStatement(sampleStatement(), key)
	if err != nil {
		t.Fatal(err)
	}
	if file, err = SignReceipt(sampleReceipt(), key); err != nil {
		t.Fatal(err)
	}
	return statement, file
}

// What is signed today is what payers and shops keep, so its form never changes. Rules CO-71 and CO-72.
func TestStatementsAndReceiptsKeepTheirForm(t *testing.T) {
	t.Parallel()
	const path = "testdata/signed/vector.json"
	key := vectorKey()
	statement, file := signedSamples(t, key)
	fresh, err := json.MarshalIndent(vector{key.Public(), key.ID(), At(now), statement, string(file)}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	fresh = append(fresh, '\n')
	if *update {
		if err := os.WriteFile(path, fresh, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(fresh, kept) {
		t.Errorf("got %s, want %s", fresh, kept)
	}
	var v vector
	if err := json.Unmarshal(kept, &v); err != nil {
		t.Fatal(err)
	}
	s, err := VerifyStatement([]string{v.PublicKey}, v.Statement, now)
	if want := sampleStatement(); err != nil || s.Type != TypeReturn || s.CheckoutID != want.CheckoutID ||
		s.AmountPaid != want.AmountPaid || s.ExpiresAt != want.ExpiresAt {
		t.Errorf("got %+v, %v, want %+v", s, err, want)
	}
	r, by, err := VerifyReceipt([]string{v.PublicKey}, []byte(v.Receipt))
	if err != nil || by != v.PublicKey || r.Shop != sampleReceipt().Shop || len(r.Payments) != 2 ||
		r.EventSequence != 1042 {
		t.Errorf("got %+v by %s, %v", r, by, err)
	}
}

// Rule CO-71.
func TestAStatementIsRefusedForWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	key, other := private(t), private(t)
	statement, file := signedSamples(t, key)
	payload, signature, _ := strings.Cut(statement, ".")
	var f signedFile
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
	// Signed in due form, and no statement.
	signed := func(text string) string {
		return encode([]byte(text)) + "." + encode(ed25519.Sign(key.private, document(TypeReturn, []byte(text))))
	}
	keys := []string{key.Public()}
	for _, c := range []struct {
		name, statement string
		keys            []string
		at              time.Time
		want            error
	}{
		{"as it was signed", statement, keys, now, nil},
		{"at its last moment", statement, keys, now.Add(15*time.Minute - time.Millisecond), nil},
		{"at its end", statement, keys, now.Add(15 * time.Minute), ErrExpired},
		{"a day later", statement, keys, now.AddDate(0, 0, 1), ErrExpired},
		{"by a slow clock", statement, keys, now.Add(-time.Minute), nil},
		{"without an end", signed(`{"type":"RETURN"}`), keys, now, ErrExpired},
		{"empty", "", keys, now, ErrMalformed},
		{"a dot", ".", keys, now, ErrMalformed},
		{"no signature", payload, keys, now, ErrMalformed},
		{"an empty signature", payload + ".", keys, now, ErrMalformed},
		{"an empty payload", "." + signature, keys, now, ErrMalformed},
		{"three parts", statement + "." + signature, keys, now, ErrMalformed},
		{"padding", payload + "=." + signature, keys, now, ErrMalformed},
		{"a line break", payload + "\n." + signature, keys, now, ErrMalformed},
		{"a space", " " + statement, keys, now, ErrMalformed},
		{"half a signature", payload + "." + signature[:43], keys, now, ErrMalformed},
		{"enormous", strings.Repeat("A", 9<<10) + "." + signature, keys, now, ErrMalformed},
		{"no JSON", signed("RETURN"), keys, now, ErrMalformed},
		{"a time in words", signed(`{"type":"RETURN","expiresAt":"soon"}`), keys, now, ErrMalformed},
		{"another type inside", signed(`{"type":"RECEIPT"}`), keys, now, ErrType},
		{"no type inside", signed(`{}`), keys, now, ErrType},
		{"a receipt", f.Receipt + "." + f.Signature, keys, now, ErrType},
		{"the signature of another", payload + "." + f.Signature, keys, now, ErrSignature},
		{"another key", statement, []string{other.Public()}, now, ErrSignature},
		{"among others", statement, []string{other.Public(), "whpk_x", NewSecret(), key.Public()}, now, nil},
		{"no key", statement, nil, now, ErrKey},
		{"a malformed key", statement, []string{"whpk_x"}, now, ErrKey},
		{"a secret", statement, []string{NewSecret()}, now, ErrKey},
	} {
		got, err := VerifyStatement(c.keys, c.statement, c.at)
		if !errors.Is(err, c.want) || err != nil && got != (Statement{}) {
			t.Errorf("%s: got %+v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

// Rules CO-71 and CO-73.
func TestNoByteOfWhatWasSignedCanBeChanged(t *testing.T) {
	t.Parallel()
	key := private(t)
	statement, file := signedSamples(t, key)
	keys := []string{key.Public()}
	for i := range statement {
		for _, c := range []byte{'A', 'Q', '_', '.', '=', statement[i] ^ 1} {
			changed := statement[:i] + string(c) + statement[i+1:]
			if got, err := VerifyStatement(keys, changed, now); err == nil && changed != statement {
				t.Fatalf("byte %d as %q: got %+v, want it refused", i, c, got)
			}
		}
		if got, err := VerifyStatement(keys, statement[:i], now); err == nil {
			t.Fatalf("the first %d bytes: got %+v, want it refused", i, got)
		}
	}
	var f signedFile
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string]*string{"receipt": &f.Receipt, "signature": &f.Signature, "keyId": &f.KeyID} {
		whole := *field
		for i := range whole {
			*field = whole[:i] + string(whole[i]^1) + whole[i+1:]
			changed, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := VerifyReceipt(keys, changed); err == nil {
				t.Fatalf("%s, byte %d: got %+v, want it refused", name, i, got)
			}
		}
		*field = whole
	}
}

// Every field of a statement and of a receipt is covered: one that says something else has another signature.
// Rules CO-71 and CO-73.
func TestNoFieldOfWhatWasSignedCanBeChanged(t *testing.T) {
	t.Parallel()
	key := vectorKey()
	statement, file := signedSamples(t, key)
	var f signedFile
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
	statementPayload, statementSignature, _ := strings.Cut(statement, ".")
	for _, c := range []struct {
		payload string
		verify  func(changed string) error
	}{
		{statementPayload, func(changed string) error {
			_, err := VerifyStatement([]string{key.Public()}, changed+"."+statementSignature, now)
			return err
		}},
		{f.Receipt, func(changed string) error {
			text, err := json.Marshal(signedFile{changed, f.Signature, f.KeyID})
			if err != nil {
				t.Fatal(err)
			}
			_, _, err = VerifyReceipt([]string{key.Public()}, text)
			return err
		}},
	} {
		raw, err := base64.RawURLEncoding.DecodeString(c.payload)
		if err != nil {
			t.Fatal(err)
		}
		var fields map[string]json.RawMessage
		if err := json.Unmarshal(raw, &fields); err != nil {
			t.Fatal(err)
		}
		if err := c.verify(encode(raw)); err != nil {
			t.Fatalf("unchanged: got %v, want it verified", err)
		}
		for name, value := range fields {
			changed := bytes.Replace(raw, append([]byte(`"`+name+`":`), value...), []byte(`"`+name+`":"other"`), 1)
			if err := c.verify(encode(changed)); !errors.Is(err, ErrSignature) {
				t.Errorf("%s: got %v, want %v", name, err, ErrSignature)
			}
			removed := bytes.Replace(raw, append([]byte(`"`+name+`":`), value...), []byte(`"x":0`), 1)
			if err := c.verify(encode(removed)); !errors.Is(err, ErrSignature) {
				t.Errorf("%s left out: got %v, want %v", name, err, ErrSignature)
			}
		}
	}
}

// Rule CO-73.
func TestAReceiptIsRefusedForWhatIsWrongWithIt(t *testing.T) {
	t.Parallel()
	key, other := private(t), private(t)
	statement, file := signedSamples(t, key)
	statementPayload, statementSignature, _ := strings.Cut(statement, ".")
	print := func(f signedFile) []byte {
		b, err := json.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	// Signed in due form by the key, whatever it says.
	signed := func(change func(*Receipt)) []byte {
		r := sampleReceipt()
		r.Type = TypeReceipt
		change(&r)
		payload, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		signature := ed25519.Sign(key.private, document(TypeReceipt, payload))
		return print(signedFile{encode(payload), encode(signature), key.ID()})
	}
	var f signedFile
	if err := json.Unmarshal(file, &f); err != nil {
		t.Fatal(err)
	}
	keys := []string{key.Public()}
	for _, c := range []struct {
		name string
		file []byte
		keys []string
		want error
	}{
		{"as it was signed", file, keys, nil},
		{"with spaces around it", append([]byte(" \n"), append(bytes.Clone(file), ' ')...), keys, nil},
		{"signed again", signed(func(*Receipt) {}), keys, nil},
		{"empty", nil, keys, ErrMalformed},
		{"no JSON", []byte("receipt"), keys, ErrMalformed},
		{"a list", []byte("[]"), keys, ErrMalformed},
		{"null", []byte("null"), keys, ErrMalformed},
		{"twice", append(bytes.Clone(file), file...), keys, ErrMalformed},
		{"without a payload", print(signedFile{"", f.Signature, f.KeyID}), keys, ErrMalformed},
		{"without a signature", print(signedFile{f.Receipt, "", f.KeyID}), keys, ErrMalformed},
		{"without a key", print(signedFile{f.Receipt, f.Signature, ""}), keys, ErrMalformed},
		{"enormous", bytes.Repeat([]byte(" "), 2<<20), keys, ErrMalformed},
		{"a statement", print(signedFile{statementPayload, statementSignature, f.KeyID}), keys, ErrType},
		{"another type inside", signed(func(r *Receipt) { r.Type = TypeReturn }), keys, ErrType},
		{"another key", file, []string{other.Public()}, ErrSignature},
		{
			"named as of another key", print(signedFile{f.Receipt, f.Signature, other.ID()}),
			append(keys, other.Public()), ErrSignature,
		},
		{"among others", file, []string{other.Public(), key.Public()}, nil},
		{"no key", file, nil, ErrKey},
		{"a secret", file, []string{NewSecret()}, ErrKey},
		{"a higher amount due", signed(func(r *Receipt) { r.AmountDue = "109.98" }), keys, ErrSums},
		{"a lower amount due", signed(func(r *Receipt) { r.AmountDue = "109.96" }), keys, ErrSums},
		{"more paid than counted", signed(func(r *Receipt) { r.AmountPaid = "110.200000000000000001" }), keys, ErrSums},
		{"more counted than paid", signed(func(r *Receipt) { r.AmountPaid = "110.19" }), keys, nil},
		{"a payment less", signed(func(r *Receipt) { r.Payments = r.Payments[1:] }), keys, ErrSums},
		{"an item less", signed(func(r *Receipt) { r.Items = r.Items[1:] }), keys, ErrSums},
		{"too much counted", signed(func(r *Receipt) { r.Payments[0].Counted = "80.0950000000000001" }), keys, ErrSums},
		{"a lower price", signed(func(r *Receipt) { *r.Payments[1].Price = "3010.4" }), keys, ErrSums},
		{"a dearer currency", signed(func(r *Receipt) { *r.Payments[0].CurrencyPrice = "1.01" }), keys, ErrSums},
		{"a smaller coin", signed(func(r *Receipt) { r.Payments[0].Decimals = 7 }), keys, ErrSums},
		{"half a price", signed(func(r *Receipt) { r.Payments[0].Price = nil }), keys, ErrMalformed},
		{
			"paid in the currency itself", signed(func(r *Receipt) {
				r.Payments[0].Price, r.Payments[0].CurrencyPrice = nil, nil
			}), keys, nil,
		},
		{"a price in words", signed(func(r *Receipt) { *r.Payments[0].Price = "one" }), keys, ErrMalformed},
		{"an exponent", signed(func(r *Receipt) { r.AmountPaid = "1e2" }), keys, ErrMalformed},
		{"a sign", signed(func(r *Receipt) { r.AmountPaid = "-1" }), keys, ErrMalformed},
		{"a fraction of integers", signed(func(r *Receipt) { r.AmountPaid = "1/2" }), keys, ErrMalformed},
		{"an amount without digits", signed(func(r *Receipt) { r.AmountPaid = "." }), keys, ErrMalformed},
		{"no amount", signed(func(r *Receipt) { r.AmountPaid = "" }), keys, ErrMalformed},
		{"a point at the end", signed(func(r *Receipt) { r.AmountPaid = "1." }), keys, ErrMalformed},
		{"a leading zero", signed(func(r *Receipt) { r.AmountPaid = "01" }), keys, ErrMalformed},
		{"no quantity", signed(func(r *Receipt) { r.Items[0].Quantity = 0 }), keys, ErrMalformed},
		{"a fraction of a unit", signed(func(r *Receipt) { r.Payments[0].Amount = "1.5" }), keys, ErrMalformed},
		{"negative decimals", signed(func(r *Receipt) { r.Payments[0].Decimals = -1 }), keys, ErrMalformed},
	} {
		got, by, err := VerifyReceipt(c.keys, c.file)
		if !errors.Is(err, c.want) || (err == nil) != (by == key.Public()) || err != nil && got.CheckoutID != "" {
			t.Errorf("%s: got %+v by %q, %v, want %v", c.name, got, by, err, c.want)
		}
	}
}

// Rule CO-72.
func TestAReceiptThatDoesNotAddUpIsNotSigned(t *testing.T) {
	t.Parallel()
	key := private(t)
	for name, change := range map[string]func(*Receipt){
		"due":  func(r *Receipt) { r.AmountDue = "1" },
		"paid": func(r *Receipt) { r.AmountPaid = "110.3" },
	} {
		r := sampleReceipt()
		change(&r)
		if got, err := SignReceipt(r, key); !errors.Is(err, ErrSums) {
			t.Errorf("%s: got %s, %v, want %v", name, got, err, ErrSums)
		}
	}
	for _, k := range []Key{{}, parsed(t, NewSecret()), parsed(t, key.Public())} {
		if got, err := SignReceipt(sampleReceipt(), k); !errors.Is(err, ErrKey) {
			t.Errorf("%s: got %s, %v, want %v", k, got, err, ErrKey)
		}
		if got, err := SignStatement(sampleStatement(), k); !errors.Is(err, ErrKey) {
			t.Errorf("%s: got %s, %v, want %v", k, got, err, ErrKey)
		}
	}
}

func parsed(t *testing.T, text string) Key {
	t.Helper()
	k, err := ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The same key signs webhooks, so neither may be taken for the other. Rule CO-71.
func TestNoWebhookIsAStatementAndNoStatementAWebhook(t *testing.T) {
	t.Parallel()
	key := vectorKey()
	statement, _ := signedSamples(t, key)
	payload, signature, err := decodeBoth(strings.Split(statement, ".")[0], strings.Split(statement, ".")[1])
	if err != nil {
		t.Fatal(err)
	}
	// Every way to cut the signed bytes into an id, a time and a body.
	message := document(TypeReturn, payload)
	for i := range message {
		for j := i + 1; j < len(message); j++ {
			if message[i] != '.' || message[j] != '.' {
				continue
			}
			h := headers(string(message[:i]), now, "v1a,"+base64.StdEncoding.EncodeToString(signature))
			h.Set(HeaderTimestamp, string(message[i+1:j]))
			if err := VerifyAt(now, message[j+1:], h, key.Public(), 0); err == nil {
				t.Errorf("got the statement taken for a webhook, cut at %d and %d", i, j)
			}
		}
	}
	if !bytes.HasPrefix(message, []byte("coffer-receipt-1\nRETURN\n{")) {
		t.Errorf("got %q, want a line break, which no header has", message[:30])
	}
	header := sign(t, now, string(payload), key)
	_, encoded, _ := strings.Cut(header.Get(HeaderSignature), ",")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	got, err := VerifyStatement([]string{key.Public()}, encode(payload)+"."+encode(raw), now)
	if !errors.Is(err, ErrSignature) {
		t.Errorf("got %+v, %v, want %v", got, err, ErrSignature)
	}
}

func TestAKeysIDFindsItAndVerifiesNothing(t *testing.T) {
	t.Parallel()
	a, b := private(t), private(t)
	if a.ID() == b.ID() || len(a.ID()) != 16 || parsed(t, a.Public()).ID() != a.ID() {
		t.Errorf("got %q and %q, want 16 digits of each public half", a.ID(), b.ID())
	}
	if got := parsed(t, NewSecret()).ID(); got != "" {
		t.Errorf("got %q, want nothing of a secret", got)
	}
}

// A statement is text of a stranger. Whatever it is, the verifier ends, and accepts only what was signed. Rule CO-71.
func FuzzOnlyASignedStatementIsAccepted(f *testing.F) {
	key := vectorKey()
	statement, err := SignStatement(sampleStatement(), key)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(statement)
	f.Add(statement + "=")
	f.Add(strings.Replace(statement, ".", "\n.", 1))
	f.Add("e30." + strings.Repeat("A", 86))
	f.Add("..")
	f.Fuzz(func(t *testing.T, text string) {
		if got, err := VerifyStatement([]string{key.Public()}, text, now); err == nil && text != statement {
			t.Errorf("%q: got %+v, want it refused", text, got)
		} else if err != nil && got != (Statement{}) {
			t.Errorf("%q: got %+v beside an error", text, got)
		}
	})
}

// Whatever a file is, the verifier ends, and what it accepts has the payload that was signed. Rule CO-73.
func FuzzOnlyASignedReceiptIsAccepted(f *testing.F) {
	key := vectorKey()
	file, err := SignReceipt(sampleReceipt(), key)
	if err != nil {
		f.Fatal(err)
	}
	var signed signedFile
	if err := json.Unmarshal(file, &signed); err != nil {
		f.Fatal(err)
	}
	f.Add(file)
	f.Add([]byte(`{"receipt":"e30","signature":"` + strings.Repeat("A", 86) + `","keyId":"` + key.ID() + `"}`))
	f.Add([]byte(`{"RECEIPT":1}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, _, err := VerifyReceipt([]string{key.Public()}, text)
		if err != nil {
			return
		}
		printed, err := plain(got)
		if err != nil || encode(printed) != signed.Receipt {
			t.Errorf("%q: got %+v, %v, want what was signed", text, got, err)
		}
	})
}
