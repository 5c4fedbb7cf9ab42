package webhook

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	reference "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var now = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func key(t *testing.T, s string) Key {
	t.Helper()
	k, err := ParseKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func private(t *testing.T) Key {
	t.Helper()
	_, k, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return PrivateKey(k)
}

func headers(id string, at time.Time, signature string) http.Header {
	h := http.Header{}
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	h.Set(HeaderSignature, signature)
	return h
}

func sign(t *testing.T, at time.Time, payload string, keys ...Key) http.Header {
	t.Helper()
	signature, err := Sign("evt_1", at, []byte(payload), keys...)
	if err != nil {
		t.Fatal(err)
	}
	return headers("evt_1", at, signature)
}

func TestTheReferenceLibraryVerifiesWhatSignMakes(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{NewSecret(), prefixSecret + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 24)))} {
		wh, err := reference.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		h := sign(t, time.Now(), `{"a":"é"}`, private(t), key(t, secret))
		if err := wh.Verify([]byte(`{"a":"é"}`), h); err != nil {
			t.Errorf("got %v, want it verified", err)
		}
		if err := wh.Verify([]byte(`{"a":"e"}`), h); err == nil {
			t.Errorf("another payload: got %v, want it refused", err)
		}
	}
}

func TestVerifyTakesWhatTheReferenceLibrarySigns(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	wh, err := reference.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Now()
	signature, err := wh.Sign("evt_1", at, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Verify([]byte("{}"), headers("evt_1", at, signature), secret, 0); err != nil {
		t.Errorf("got %v, want it verified", err)
	}
}

// The example of the Standard Webhooks specification.
func TestSignMakesTheSpecificationsSignature(t *testing.T) {
	t.Parallel()
	got, err := Sign("msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`),
		key(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want || err != nil {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestBothKindsOfKeyVerifyOneHeader(t *testing.T) {
	t.Parallel()
	secret, installation := NewSecret(), private(t)
	h := sign(t, now, "{}", key(t, secret), installation)
	for _, k := range []string{secret, installation.Public()} {
		if err := VerifyAt(now, []byte("{}"), h, k, 0); err != nil {
			t.Errorf("%s: got %v, want it verified", k[:6], err)
		}
		if err := VerifyAt(now, []byte("{ }"), h, k, 0); !errors.Is(err, ErrSignature) {
			t.Errorf("%s, another payload: got %v, want %v", k[:6], err, ErrSignature)
		}
		moved := h.Clone()
		moved.Set(HeaderTimestamp, strconv.FormatInt(now.Unix()+1, 10))
		if err := VerifyAt(now, []byte("{}"), moved, k, 0); !errors.Is(err, ErrSignature) {
			t.Errorf("%s, another timestamp: got %v, want %v", k[:6], err, ErrSignature)
		}
		renamed := h.Clone()
		renamed.Set(HeaderID, "evt_2")
		if err := VerifyAt(now, []byte("{}"), renamed, k, 0); !errors.Is(err, ErrSignature) {
			t.Errorf("%s, another id: got %v, want %v", k[:6], err, ErrSignature)
		}
	}
	for _, k := range []string{NewSecret(), private(t).Public()} {
		if err := VerifyAt(now, []byte("{}"), h, k, 0); !errors.Is(err, ErrSignature) {
			t.Errorf("another key: got %v, want %v", err, ErrSignature)
		}
	}
}

func TestEitherSecretVerifiesDuringARotation(t *testing.T) {
	t.Parallel()
	before, after := NewSecret(), NewSecret()
	h := sign(t, now, "{}", key(t, after), key(t, before), private(t))
	for _, secret := range []string{before, after} {
		if err := VerifyAt(now, []byte("{}"), h, secret, 0); err != nil {
			t.Errorf("got %v, want it verified", err)
		}
	}
}

func TestVerifyHoldsTheTimestampToTheTolerance(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	for _, c := range []struct {
		age, tolerance time.Duration
		want           error
	}{
		{0, 0, nil},
		{5 * time.Minute, 0, nil},
		{5*time.Minute + time.Second, 0, ErrTimestamp},
		{-5 * time.Minute, 0, nil},
		{-5*time.Minute - time.Second, 0, ErrTimestamp},
		{11 * time.Second, 10 * time.Second, ErrTimestamp},
		{time.Hour, 2 * time.Hour, nil},
	} {
		h := sign(t, now.Add(-c.age), "{}", key(t, secret))
		if err := VerifyAt(now, []byte("{}"), h, secret, c.tolerance); !errors.Is(err, c.want) {
			t.Errorf("%v old within %v: got %v, want %v", c.age, c.tolerance, err, c.want)
		}
	}
}

func TestVerifySaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	good := sign(t, now, "{}", key(t, secret))
	for _, c := range []struct {
		name, header, value string
		want                error
	}{
		{"no id", HeaderID, "", ErrHeaders},
		{"no timestamp", HeaderTimestamp, "", ErrHeaders},
		{"no signature", HeaderSignature, "", ErrHeaders},
		{"a timestamp in words", HeaderTimestamp, "noon", ErrHeaders},
		{"a timestamp with a sign", HeaderTimestamp, "+" + good.Get(HeaderTimestamp), ErrHeaders},
		{"a timestamp with zeros in front", HeaderTimestamp, "0" + good.Get(HeaderTimestamp), ErrHeaders},
		{"an enormous timestamp", HeaderTimestamp, "9223372036854775807", ErrTimestamp},
		{"an enormous negative timestamp", HeaderTimestamp, "-9223372036854775808", ErrTimestamp},
		{"another version", HeaderSignature, strings.Replace(good.Get(HeaderSignature), "v1,", "v2,", 1), ErrSignature},
		{"no version", HeaderSignature, strings.TrimPrefix(good.Get(HeaderSignature), "v1,"), ErrSignature},
		{"half a signature", HeaderSignature, "v1," + good.Get(HeaderSignature)[3:11], ErrSignature},
		{"an empty signature", HeaderSignature, "v1,", ErrSignature},
		{"spaces", HeaderSignature, "   ", ErrSignature},
		{"too many", HeaderSignature, strings.Repeat("v1,AAAA ", signaturesMax) + good.Get(HeaderSignature), ErrSignature},
	} {
		h := good.Clone()
		h.Set(c.header, c.value)
		if err := VerifyAt(now, []byte("{}"), h, secret, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, err, c.want)
		}
	}
	spaced := good.Clone()
	spaced.Set(HeaderSignature, "v9,x  v1,%% "+good.Get(HeaderSignature))
	if err := VerifyAt(now, []byte("{}"), spaced, secret, 0); err != nil {
		t.Errorf("a good signature after unreadable ones: got %v, want it verified", err)
	}
}

func TestParseKeyRefusesWhatIsNoKey(t *testing.T) {
	t.Parallel()
	b64 := base64.StdEncoding.EncodeToString
	for _, s := range []string{
		"", "whsec", "whsec_", "whsec_%%", "whpk_", "whsk_", "sk_" + b64(make([]byte, 32)),
		"whsec_" + b64(make([]byte, 23)), "whsec_" + b64(make([]byte, 65)),
		"whpk_" + b64(make([]byte, 31)), "whsk_" + b64(make([]byte, 33)),
	} {
		if _, err := ParseKey(s); !errors.Is(err, ErrKey) {
			t.Errorf("%q: got %v, want %v", s, err, ErrKey)
		}
	}
	if err := VerifyAt(now, nil, http.Header{}, "secret", 0); !errors.Is(err, ErrKey) {
		t.Errorf("got %v, want %v", err, ErrKey)
	}
	seed := make([]byte, ed25519.SeedSize)
	whole := ed25519.NewKeyFromSeed(seed)
	if a, b := key(t, "whsk_"+b64(seed)), key(t, "whsk_"+b64(whole)); a.Public() != b.Public() || a.Public() == "" {
		t.Errorf("got %v from the seed and %v from the whole key, want one public key", a, b)
	}
}

func TestSignRefusesWhatVerifiersWouldMisread(t *testing.T) {
	t.Parallel()
	k := key(t, NewSecret())
	for _, id := range []string{"", "evt.1"} {
		if got, err := Sign(id, now, nil, k); err == nil {
			t.Errorf("id %q: got %v, want an error", id, got)
		}
	}
	if got, err := Sign("evt_1", now, nil); err == nil {
		t.Errorf("no key: got %v, want an error", got)
	}
	if got, err := Sign("evt_1", now, nil, key(t, private(t).Public())); err == nil {
		t.Errorf("a public key: got %v, want an error", got)
	}
}

func TestKeysDoNotPrintTheirSecrets(t *testing.T) {
	t.Parallel()
	secret := NewSecret()
	_, raw, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []Key{key(t, secret), PrivateKey(raw)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
			if got := fmt.Sprintf(verb, k); got != fmt.Sprintf(strings.ReplaceAll(verb, "#", ""), k.String()) && got != k.String() {
				t.Errorf("%s: got %v, want only %v", verb, got, k.String())
			}
		}
	}
}

func TestOneKeyOfSeveralIsEnough(t *testing.T) {
	t.Parallel()
	_, former, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, present, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	secret := NewSecret()
	mac, err := ParseKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	now, body := time.Unix(1769860800, 0), []byte(`{"id":"evt_1"}`)
	signature, err := Sign("evt_1", now, body, mac, PrivateKey(present))
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set(HeaderID, "evt_1")
	header.Set(HeaderTimestamp, "1769860800")
	header.Set(HeaderSignature, signature)
	old, fresh := PrivateKey(former).Public(), PrivateKey(present).Public()
	for name, c := range map[string]struct {
		keys []string
		want error
	}{
		"the present one": {[]string{fresh}, nil},
		"published":       {[]string{fresh, old}, nil},
		"other order":     {[]string{old, fresh}, nil},
		"a broken one":    {[]string{"whpk_x", fresh}, nil},
		"mixed":           {[]string{old, secret}, nil},
		"the former one":  {[]string{old}, ErrSignature},
		"another secret":  {[]string{old, NewSecret()}, ErrSignature},
		"none":            {nil, ErrKey},
	} {
		if err := verifyAny(now, body, header, c.keys, 0); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
	if err := verifyAny(now, append(body, ' '), header, []string{old, fresh, secret}, 0); !errors.Is(err, ErrSignature) {
		t.Errorf("another body: got %v, want %v", err, ErrSignature)
	}
	if err := verifyAny(now.Add(time.Hour), body, header, []string{fresh}, 0); !errors.Is(err, ErrTimestamp) {
		t.Errorf("an hour later: got %v, want %v", err, ErrTimestamp)
	}
}
