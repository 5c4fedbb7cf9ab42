package solanatx

import (
	"crypto/ed25519"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/chain"
)

// memoV0 makes a message of version 0 out of a legacy one, with a lookup table.
func memoV0(legacy []byte) []byte {
	table := mustBytes(usdx)
	return slices.Concat([]byte{version0}, legacy, []byte{1}, table[:], []byte{2, 7, 9}, []byte{1, 3})
}

// memoV1 writes a message of version 1 with one account, two settings and these instructions.
func memoV1(payer [keyBytes]byte, ins ...instruction) []byte {
	b := []byte{version1, 1, 0, byte(len(ins)), 0b101, 0, 0, 0}
	hash := mustBytes(value)
	b = append(b, hash[:]...)
	b = append(b, byte(len(ins)), byte(1+len(ins)))
	b = append(b, payer[:]...)
	for _, in := range ins {
		b = append(b, in.program[:]...)
	}
	b = append(b, 1, 2, 3, 4, 5, 6, 7, 8)
	for i, in := range ins {
		b = append(b, byte(1+i), byte(len(in.accounts)), byte(len(in.data)), byte(len(in.data)>>8))
	}
	for _, in := range ins {
		b = append(append(b, make([]byte, len(in.accounts))...), in.data...)
	}
	return b
}

// sign writes the signatures where a message's version has them.
func sign(message []byte, signatures ...[]byte) []byte {
	all := slices.Concat(signatures...)
	if message[0] == version1 {
		return slices.Concat(message, all)
	}
	return slices.Concat([]byte{byte(len(signatures))}, all, message)
}

func TestAMemoIsReadFromEveryFormOfTransaction(t *testing.T) {
	t.Parallel()
	key, _ := keyOf("alice")
	payer := mustBytes(alice)
	note := func(text string) instruction {
		return instruction{memoProgram2, []byte(text), []meta{readOnly(payer).asSigner()}}
	}
	older := instruction{memoProgram1, []byte("order 7"), nil}
	coin := instruction{
		system, slices.Concat(transferData, make([]byte, 8)),
		[]meta{writableMeta(payer).asSigner(), writableMeta(mustBytes(bob))},
	}
	long := strings.Repeat("m", 900)
	for name, c := range map[string]struct {
		ins  []instruction
		want string
	}{
		"none":                   {[]instruction{coin}, ""},
		"behind the payment":     {[]instruction{coin, note("order 7")}, "order 7"},
		"before it":              {[]instruction{note("order 7"), coin}, "order 7"},
		"of the first program":   {[]instruction{coin, older}, "order 7"},
		"several":                {[]instruction{note("one"), coin, older, note("two")}, "one\norder 7\ntwo"},
		"an empty one":           {[]instruction{note(""), coin}, ""},
		"bytes that are no text": {[]instruction{coin, note("a\xff\x00b")}, "a\xff\x00b"},
		"long":                   {[]instruction{coin, note(long)}, long},
		"another program's data": {[]instruction{{token, []byte("order 7"), nil}, coin}, ""},
		"called by another program": {
			[]instruction{{token, []byte("order 7"), []meta{readOnly(memoProgram2), readOnly(memoProgram1)}}, coin}, "",
		},
	} {
		legacy, err := compileMessage(payer, mustBytes(value), c.ins)
		if err != nil {
			t.Fatal(err)
		}
		for form, message := range map[string][]byte{
			"legacy": legacy, "version 0": memoV0(legacy),
			"version 1": memoV1(payer, c.ins...),
		} {
			signature := ed25519.Sign(key, message)
			got, err := Memo(sign(message, signature), hashFrom([signatureBytes]byte(signature)))
			if err != nil || got != c.want {
				t.Errorf("%s, %s: got %q, %v, want %q", name, form, got, err, c.want)
			}
		}
	}
}

// Rule DEP-54. A provider that returns another memo than the payer's is refused.
func TestAMemoIsProvenByTheTransactionsId(t *testing.T) {
	t.Parallel()
	key, _ := keyOf("alice")
	other, _ := keyOf("bob")
	message := func(text string) []byte {
		b, err := compileMessage(mustBytes(alice), mustBytes(value), []instruction{
			{
				system, slices.Concat(transferData, make([]byte, 8)),
				[]meta{writableMeta(mustBytes(alice)).asSigner(), writableMeta(mustBytes(bob)).asSigner()},
			},
			{memoProgram2, []byte(text), nil},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	paid, forged := message("order 7"), message("order 8")
	first, second := ed25519.Sign(key, paid), ed25519.Sign(other, paid)
	tx := hashFrom([signatureBytes]byte(first))
	if got, err := Memo(sign(paid, first, second), tx); err != nil || got != "order 7" {
		t.Fatalf("got %q, %v, want the payer's memo", got, err)
	}
	again := ed25519.Sign(key, forged)
	byOther := slices.Clone(forged)
	bobs := mustBytes(bob)
	copy(byOther[4:], bobs[:]) // the fee payer
	for name, raw := range map[string][]byte{
		"an altered memo":                     sign(forged, first, second),
		"another transaction of the payer":    sign(forged, again, second),
		"the id behind another signature":     sign(forged, again, first),
		"another fee payer":                   sign(byOther, first, second),
		"without signatures":                  append([]byte{0}, paid...),
		"cut off":                             sign(paid, first, second)[:200],
		"with more behind it":                 append(sign(paid, first, second), 0),
		"nothing":                             nil,
		"too long":                            append(sign(paid, first, second), make([]byte, signedBytesMax)...),
		"a version that is not known":         sign(slices.Concat([]byte{0x82}, paid), first, second),
		"version 0 without its lookup tables": sign(slices.Concat([]byte{version0}, paid), first, second),
	} {
		if got, err := Memo(raw, tx); err == nil {
			t.Errorf("%s: got %q, want it refused", name, got)
		}
	}
}

// A provider may send any bytes: the worst result is an error.
func TestNoBytesOfAProviderStopTheReadingOfMemos(t *testing.T) {
	t.Parallel()
	key, _ := keyOf("alice")
	legacy, err := compileMessage(mustBytes(alice), mustBytes(value),
		[]instruction{{memoProgram2, []byte("order 7"), nil}})
	if err != nil {
		t.Fatal(err)
	}
	forms := [][]byte{legacy, memoV0(legacy), memoV1(mustBytes(alice),
		instruction{memoProgram2, []byte("order 7"), nil})}
	rapid.Check(t, func(t *rapid.T) {
		message := rapid.SampledFrom(forms).Draw(t, "form")
		signature := ed25519.Sign(key, message)
		raw := sign(message, signature)
		for range rapid.IntRange(1, 3).Draw(t, "changes") {
			raw[rapid.IntRange(0, len(raw)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "to")
		}
		raw = raw[:rapid.IntRange(0, len(raw)).Draw(t, "cut")]
		got, err := Memo(raw, hashFrom([signatureBytes]byte(signature)))
		if err == nil && got != "order 7" {
			t.Fatalf("got %q, want the payer's memo or an error", got)
		}
	})
}

// A transaction of another sender, in any form, that names one of our accounts is read.
func TestTheSignerIsFoundInEveryFormOfTransaction(t *testing.T) {
	t.Parallel()
	key, _ := keyOf("alice")
	payer := mustBytes(alice)
	ins := []instruction{{
		system, slices.Concat(transferData, make([]byte, 8)),
		[]meta{writableMeta(payer).asSigner(), writableMeta(mustBytes(bob))},
	}}
	legacy, err := compileMessage(payer, mustBytes(value), ins)
	if err != nil {
		t.Fatal(err)
	}
	for form, message := range map[string][]byte{
		"legacy": legacy, "version 0": memoV0(legacy),
		"version 1": memoV1(payer, ins...),
	} {
		signature := ed25519.Sign(key, message)
		raw, id := sign(message, signature), hashFrom([signatureBytes]byte(signature))
		for who, want := range map[chain.Address]bool{alice: true, bob: false} {
			if tx, got, err := IsSignedBy(raw, who); got != want || tx != id || err != nil {
				t.Errorf("%s: got %v and signed by %s %v (%v), want %v and %v", form, tx, who, got, err, id, want)
			}
		}
	}
}
