package signedquote

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/swap/signedquote/quotetest"
)

// stagingKey is the key of the provider's staging, with which its published samples are signed.
const stagingKey = "ed25519:5J5tkaxyPoR3Q9S8LXfo5bWnXK5Z2bctJ4mB9gENh7co"

func readSample(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func stagingKeys(t *testing.T) []ed25519.PublicKey {
	t.Helper()
	key, err := ParseOneClickKey(stagingKey)
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	return []ed25519.PublicKey{other, key}
}

// The samples that the provider publishes with its SDK verify: the answer to a request, and the same quote as
// its status has it later, with nulls.
func TestTheProvidersOwnSamplesVerify(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"oneclick-firm", "oneclick-status"} {
		q, err := VerifyOneClick(readSample(t, name), stagingKeys(t))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := Quote{
			Scheme:           OneClickV0,
			DepositAddress:   "bc1q873cxltdc560dth6tpwqpehq9uvhxxcdgwnmnw",
			OriginAsset:      "1cs_v1:btc:native:coin",
			DestinationAsset: "nep141:eth-0xdac17f958d2ee523a2206206994597c13d831ec7.stft.near",
			AmountIn:         money.Units(10_000), MinAmountIn: money.Units(10_000),
			AmountOut: money.Units(5_931_560), MinAmountOut: money.Units(5_872_244),
			Recipient: "0xcac3C41676deF4FE375E57118f3eB83A99105577",
			RefundTo:  []string{"bc1q6mte80265ghwq4vsrpm9lnaz46uvdreu9z8wly"}, RefundFee: money.Units(1900),
			AmountInUSD: money.MustParseUSD("6.2376"), AmountOutUSD: money.MustParseUSD("5.92517170988"),
			SlippageBps: 100, Estimate: 812 * time.Second,
			SignedAt: time.Date(2026, 6, 23, 17, 10, 41, 104_000_000, time.UTC),
			// Not the deadline that was asked for: the provider signs its own.
			Deadline: time.Date(2026, 6, 26, 19, 0, 0, 0, time.UTC),
		}
		if !equalQuotes(q, want) {
			t.Errorf("%s: got %+v, want %+v", name, q, want)
		}
	}
}

// A quote is read without keys as it was verified with them, and what is no quote is not read.
func TestAVerifiedQuoteIsReadAgainWithoutKeys(t *testing.T) {
	t.Parallel()
	raw := readSample(t, "oneclick-firm")
	want, err := VerifyOneClick(raw, stagingKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ReadOneClick(raw); err != nil || !equalQuotes(got, want) {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	if got, err := ReadOneClick(raw[1:]); !errors.Is(err, ErrMalformed) {
		t.Errorf("got %+v %v, want ErrMalformed", got, err)
	}
}

func equalQuotes(a, b Quote) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// Each member of the signed sample is changed. Those that the signature covers are refused; the others change
// nothing that is returned.
func TestNoSignedMemberCanBeChanged(t *testing.T) {
	t.Parallel()
	keys, raw := stagingKeys(t), readSample(t, "oneclick-firm")
	whole, err := VerifyOneClick(raw, keys)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := map[string]bool{
		"correlationId": true, "quoteRequest.depositMode": true, "quoteRequest.confidentiality": true,
		"quoteRequest.appFees": true,
		// The deadline of the quote replaces it in what is signed.
		"quoteRequest.deadline": true,
	}
	seen := 0
	for _, path := range listMembers(t, raw) {
		seen++
		got, err := VerifyOneClick(changeMember(t, raw, path), keys)
		switch {
		case !unsigned[path] && err == nil:
			t.Errorf("%s was changed, and the quote still verifies", path)
		case unsigned[path] && (err != nil || !equalQuotes(got, whole)):
			t.Errorf("%s is not signed: got %+v and %v", path, got, err)
		}
	}
	if seen < 30 {
		t.Errorf("got %d members, want those of the sample", seen)
	}
}

// listMembers lists the members of the answer and of its two objects, as paths.
func listMembers(t *testing.T, raw []byte) (paths []string) {
	t.Helper()
	for name, value := range decodeObject(t, raw) {
		if inner, isObject := value.(map[string]any); isObject {
			for member := range inner {
				paths = append(paths, name+"."+member)
			}
			continue
		}
		paths = append(paths, name)
	}
	return paths
}

func decodeObject(t *testing.T, raw []byte) (object map[string]any) {
	t.Helper()
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	return object
}

func changeMember(t *testing.T, raw []byte, path string) []byte {
	t.Helper()
	object := decodeObject(t, raw)
	part, name := object, path
	if outer, inner, isInner := strings.Cut(path, "."); isInner {
		part, name = object[outer].(map[string]any), inner
	}
	switch value := part[name].(type) {
	case string:
		part[name] = changeLetter(value)
	case bool:
		part[name] = !value
	case float64:
		part[name] = value + 1
	default:
		part[name] = nil
	}
	changed, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// changeLetter changes the last letter or digit, so that the text keeps its form.
func changeLetter(text string) string {
	b := []byte(text)
	for i := len(b) - 1; i >= 0; i-- {
		switch c := b[i]; {
		case c >= '0' && c < '9', c >= 'a' && c < 'z':
			b[i]++
			return string(b)
		case c == '9':
			b[i] = '0'
			return string(b)
		}
	}
	return text + "0"
}

// A genuine quote that asks for more than a plain transfer, or contradicts itself, is refused.
func TestAGenuineQuoteHasToBeAPlainTransfer(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := []ed25519.PublicKey{public}
	change := func(changes ...any) []byte {
		answer := decodeObject(t, readSample(t, "oneclick-firm"))
		for i := 0; i < len(changes); i += 3 {
			answer[changes[i].(string)].(map[string]any)[changes[i+1].(string)] = changes[i+2]
		}
		return quotetest.SignOneClick(t, private, answer)
	}
	if _, err := VerifyOneClick(change(), keys); err != nil {
		t.Fatalf("the sample signed anew: %v", err)
	}
	for name, raw := range map[string][]byte{
		"a message":                  change("quoteRequest", "customRecipientMsg", "call"),
		"a message of the quote":     change("quote", "customRecipientMsg", "call"),
		"a virtual chain":            change("quoteRequest", "virtualChainRecipient", "0x1"),
		"a virtual chain for refund": change("quote", "virtualChainRefundRecipient", "0x1"),
		"an account as recipient":    change("quoteRequest", "recipientType", "INTENTS"),
		"an account that pays":       change("quoteRequest", "depositType", "INTENTS"),
		"an account for the refund":  change("quoteRequest", "refundType", "CONFIDENTIAL_INTENTS"),
		"exact output":               change("quoteRequest", "swapType", "EXACT_OUTPUT"),
		"no deposit address":         change("quote", "depositAddress", ""),
		"no output":                  change("quote", "amountOut", "0"),
		"less than the minimum":      change("quote", "amountOut", "5872243"),
		"another amount than asked":  change("quote", "amountIn", "10001", "quote", "minAmountIn", "10001"),
		"a sign":                     change("quote", "minAmountOut", "-1"),
		"a fraction":                 change("quote", "minAmountOut", "1.5"),
		"an escaped letter":          change("quoteRequest", "referral", "a\\b"),
		"a letter outside of ASCII":  change("quoteRequest", "referral", "ä"),
		"a slippage of a fraction":   change("quoteRequest", "slippageTolerance", 0.5),
		"more slippage than all":     change("quoteRequest", "slippageTolerance", 10_001),
		"a deadline that is no time": change("quote", "deadline", "tomorrow", "quote", "timeWhenInactive", ""),
		"itself as recipient":        change("quote", "depositAddress", "0xcac3C41676deF4FE375E57118f3eB83A99105577"),
	} {
		if _, err := VerifyOneClick(raw, keys); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: got %v, want it refused as malformed", name, err)
		}
	}
	q, err := VerifyOneClick(change("quote", "depositMemo", "tag"), keys)
	if err != nil || q.DepositMemo != "tag" {
		t.Errorf("got the memo %q and %v, want a quote that no caller takes", q.DepositMemo, err)
	}
	early, err := VerifyOneClick(change("quote", "timeWhenInactive", "2026-06-24T01:02:03.000Z"), keys)
	if err != nil || !early.Deadline.Equal(time.Date(2026, 6, 24, 1, 2, 3, 0, time.UTC)) {
		t.Errorf("got the deadline %s and %v, want the time at which the address goes inactive", early.Deadline, err)
	}
	flexible, err := VerifyOneClick(change(
		"quoteRequest", "swapType", "FLEX_INPUT", "quote", "minAmountIn", "9000", "quote", "amountIn", "9900",
	), keys)
	if err != nil || !flexible.IsFlexible || flexible.MinAmountIn != money.Units(9000) {
		t.Errorf("got %+v and %v, want a flexible quote", flexible, err)
	}
}

func TestWhatIsNoAnswerIsMalformedOrUnsigned(t *testing.T) {
	t.Parallel()
	keys, raw := stagingKeys(t), readSample(t, "oneclick-firm")
	for name, test := range map[string]struct {
		raw  []byte
		want error
	}{
		"nothing":               {nil, ErrMalformed},
		"a page":                {[]byte("<html>"), ErrMalformed},
		"half an answer":        {raw[:len(raw)/2], ErrMalformed},
		"two answers":           {slicesRepeat(raw), ErrMalformed},
		"a list":                {[]byte("[]"), ErrMalformed},
		"an empty object":       {[]byte("{}"), ErrMalformed},
		"a text for a number":   {bytes.Replace(raw, []byte(": 812"), []byte(`: "8x"`), 1), ErrMalformed},
		"a number for a text":   {bytes.Replace(raw, []byte(`"5931560"`), []byte("5931560"), 1), ErrMalformed},
		"much":                  {append(raw, bytes.Repeat([]byte(" "), oneClickBytesMax)...), ErrMalformed},
		"a dry quote":           {readSample(t, "oneclick-dry"), ErrMalformed},
		"no signature":          {bytes.Replace(raw, []byte("ed25519:53wc"), []byte(""), 1), ErrUnsigned},
		"another one's":         {bytes.Replace(raw, []byte("ed25519:53wc"), []byte("ed25519:53wd"), 1), ErrUnsigned},
		"a signature too short": {bytes.Replace(raw, []byte("ed25519:53wc"), []byte("ed25519:5"), 1), ErrUnsigned},
	} {
		if _, err := VerifyOneClick(test.raw, keys); !errors.Is(err, test.want) {
			t.Errorf("%s: got %v, want %v", name, err, test.want)
		}
	}
	if _, err := VerifyOneClick(raw, keys[:1]); !errors.Is(err, ErrUnsigned) {
		t.Errorf("got %v with the keys of another provider, want it refused", err)
	}
	if _, err := VerifyOneClick(raw, nil); !errors.Is(err, ErrUnsigned) {
		t.Errorf("got %v without a key, want it refused", err)
	}
	for _, text := range []string{
		"", "ed25519:", stagingKey[8:], stagingKey + "1", "ed25519:0OIl", "secp256k1:" + stagingKey[8:],
	} {
		if _, err := ParseOneClickKey(text); err == nil {
			t.Errorf("got a key from %q", text)
		}
	}
}

func slicesRepeat(raw []byte) []byte { return append(bytes.Clone(raw), raw...) }

// A genuine quote for another recipient is refused by its terms.
func TestAGenuineQuoteWithOtherTermsIsRefused(t *testing.T) {
	t.Parallel()
	q, err := VerifyOneClick(readSample(t, "oneclick-firm"), stagingKeys(t))
	if err != nil {
		t.Fatal(err)
	}
	asked := Terms{
		OriginAsset: q.OriginAsset, DestinationAsset: q.DestinationAsset, AmountIn: money.Units(10_000),
		Recipient: q.Recipient, RefundTo: q.RefundTo[0], SlippageBpsMax: 100,
	}
	if err := q.CheckTerms(asked); err != nil {
		t.Fatalf("the terms of the sample: %v", err)
	}
	for name, change := range map[string]func(*Quote, *Terms){
		"another recipient":         func(_ *Quote, w *Terms) { w.Recipient = w.RefundTo },
		"another case of letters":   func(_ *Quote, w *Terms) { w.Recipient = strings.ToLower(w.Recipient) },
		"another refund address":    func(_ *Quote, w *Terms) { w.RefundTo = "bc1q" },
		"one of two refunds":        func(q *Quote, _ *Terms) { q.RefundTo = append(q.RefundTo, "bc1q") },
		"no refund":                 func(q *Quote, _ *Terms) { q.RefundTo = nil },
		"another amount":            func(_ *Quote, w *Terms) { w.AmountIn = money.Units(9999) },
		"a smaller least amount":    func(q *Quote, _ *Terms) { q.MinAmountIn = money.Units(9999) },
		"another asset in":          func(_ *Quote, w *Terms) { w.OriginAsset = "nep141:btc.omft.near" },
		"another asset out":         func(_ *Quote, w *Terms) { w.DestinationAsset = "nep141:eth.omft.near" },
		"more slippage than asked":  func(_ *Quote, w *Terms) { w.SlippageBpsMax = 99 },
		"a memo":                    func(q *Quote, _ *Terms) { q.DepositMemo = "tag" },
		"flexible where it was not": func(q *Quote, _ *Terms) { q.IsFlexible = true },
	} {
		changed, terms := q, asked
		changed.RefundTo = append([]string(nil), q.RefundTo...)
		change(&changed, &terms)
		if err := changed.CheckTerms(terms); !errors.Is(err, ErrOtherTerms) {
			t.Errorf("%s: got %v, want it refused", name, err)
		}
	}
	flexible, terms := q, asked
	flexible.IsFlexible, terms.IsFlexible, terms.AmountIn = true, true, money.Zero
	if err := flexible.CheckTerms(terms); err != nil {
		t.Errorf("a flexible quote: %v", err)
	}
}

// Verification takes little beside a payment. go test -bench prints how long.
func BenchmarkVerifyOneClick(b *testing.B) {
	raw, err := os.ReadFile("testdata/oneclick-firm.json")
	if err != nil {
		b.Fatal(err)
	}
	key, err := ParseOneClickKey(stagingKey)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := VerifyOneClick(raw, []ed25519.PublicKey{key}); err != nil {
			b.Fatal(err)
		}
	}
}
