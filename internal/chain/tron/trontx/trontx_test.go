package trontx_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

const usdt = "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Transactions of the public networks, with the values that explorers show.
var public = []struct {
	name, payload, hash, signature string
	from, to                       string
	sun                            uint64
}{
	{
		"transfer on the main network, 2023",
		"0a02fa7322082b2f6684f998649540d0d4d3f9a5315a68080112640a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412330a154179309abcff2cf531070ca9222a1f72c4a5136874121541c6a137bb170cc0dd40fcb83f18b389fa9426ac461880b489137092b9f4f7a531",
		"1abdaae882a5bd80bda189e8722705a4b7d110f580da3ad000d0fe53e61b469f",
		"1ddad0478c0a1c3c12c970cb90ca09446223d634ea5c315768b4c64cf273545a12c186e5de9884117f4933b4635347a38ff8a26d3ab659520adbe60547e071b600",
		"4179309abcff2cf531070ca9222a1f72c4a5136874", "41c6a137bb170cc0dd40fcb83f18b389fa9426ac46", 40_000_000,
	},
	{
		"transfer of a wallet's own tests, 2023",
		"0a020a95220881a16498bf36d55740a8b7aebeb2315a67080112630a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412320a15418d765ef87acee24ad4ff6f5e755f36c1ee5574241215419e9113cb852004f53b25d8d565b6a1c8c310fb6118a08d0670d1e5aabeb231",
		"fe9e81633ce99ef11814b3b836fb2ac8e841ab45fe4e7d68422c2a6b6be7f3c2",
		"091e696dbf120ff0bd235d10681bd2a4040ba47c5135269643b962dd4a2b2285297097962c9feb1204b2f5f4855e517df2b6f96fde14783730b19212937205bb01",
		"418d765ef87acee24ad4ff6f5e755f36c1ee557424", "419e9113cb852004f53b25d8d565b6a1c8c310fb61", 100_000,
	},
	{
		"transfer in block 84940008",
		"0a0214e422087749eb97994e08b340e2e5afbcfb335a65080112610a2d747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e73666572436f6e747261637412300a154199a3cb64a17066fe19bfbce3dc5f0bb1d1220f55121541a61e8fa110c166d65372953c1c43556f56193ccf1808708291acbcfb33",
		"3ec07911c77dcbdf7a75ae0e0486960add2993ac606c6e33fa92011f9f2665cb",
		"9af52264ae240a9e3c3b187c0afe6d713312c4631e4ed23ddf5c72f889cafb6359843081c606cf6cec62a6c77981d1b14a5f838bdc1a03bd88093199f6f5c29101",
		"4199a3cb64a17066fe19bfbce3dc5f0bb1d1220f55", "41a61e8fa110c166d65372953c1c43556f56193ccf", 8,
	},
}

func TestATransferOfThePublicNetworkIsReadAndWrittenTheSame(t *testing.T) {
	t.Parallel()
	for _, v := range public {
		payload := unhex(t, v.payload)
		tx, err := trontx.Decode(payload)
		if err != nil {
			t.Errorf("%s: got %v, want it read", v.name, err)
			continue
		}
		from, _ := trontx.FromHex(v.from)
		to, _ := trontx.FromHex(v.to)
		if err := tx.CheckPayment(chain.Payment{From: from, To: to, Amount: money.Units(v.sun)}); err != nil {
			t.Errorf("%s: got %v, want the payment", v.name, err)
		}
		if got := trontx.HashOf(payload); string(got) != v.hash {
			t.Errorf("%s: got hash %s, want %s", v.name, got, v.hash)
		}
		raw, hash, err := trontx.AttachSignature(payload, unhex(t, v.signature))
		if err != nil || string(hash) != v.hash {
			t.Errorf("%s: got %s, %v, want the owner's signature taken", v.name, hash, err)
			continue
		}
		if again, hash, err := trontx.DecodeSigned(raw); err != nil || again != tx || string(hash) != v.hash {
			t.Errorf("%s: opened: got %+v, %s, %v, want %+v", v.name, again, hash, err, tx)
		}
		seen, err := trontx.ParseTx(payload)
		if err != nil || seen.SlotKey != tx.SlotKey() || seen.Owner != from || seen.To != to ||
			seen.NativeAmount != v.sun || string(seen.Hash) != v.hash {
			t.Errorf("%s: seen: got %+v, %v, want what was decoded", v.name, seen, err)
		}
	}
}

// A call of a contract in block 33801077 of a test network, and a transfer of TRC-10.
func TestWhatIsNoPaymentOfOursIsSeenAndNotDecoded(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]string{
		"a call of something else": "0a02c36222084ddf60f936a910d940f0add4a483315a8e01081f1289010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412540a1541fcf7ab2a2fb29362babd41647a22b223f7fbedec121541c3c5115bd3f5cfe5559c634eeb250f339ae3e29c222437383d0e00000000000000000000000000000000000000000000000000000188349354c970b8e0d0a48331900180a3c347",
		"a transfer of TRC-10":     "0a0214d42208487b929e2595a20c40f8cdafbcfb335a74080212700a32747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e5472616e736665724173736574436f6e7472616374123a0a07313030353132351215418bcb819886ee35957958e6207dc2b1fbc36b02921a1541baa5d183152181460478ba83ad37926600e2190e20d00f70da91acbcfb33",
	} {
		if tx, err := trontx.Decode(unhex(t, payload)); err == nil {
			t.Errorf("%s: got %+v, want an error", name, tx)
		}
		seen, err := trontx.ParseTx(unhex(t, payload))
		if err != nil || seen.NativeAmount != 0 {
			t.Errorf("%s: got %+v, %v, want it seen to move no TRX", name, seen, err)
		}
	}
}

func TestAnAddressIsBase58WithItsChecksum(t *testing.T) {
	t.Parallel()
	for hexed, want := range map[string]chain.Address{
		"41a614f803b6fd780986a42c78ec9c7f77e6ded13c": usdt,
		"410000000000000000000000000000000000000000": "T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb",
		"4177944d19c052b73ee2286823aa83f8138cb7032f": "TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy",
	} {
		a, err := trontx.FromHex(hexed)
		if err != nil || a != want {
			t.Errorf("FromHex(%s): got %s, %v, want %s", hexed, a, err, want)
		}
		if got, err := trontx.Hex(want); err != nil || got != hexed {
			t.Errorf("Hex(%s): got %s, %v, want %s", want, got, err, hexed)
		}
		if got, err := trontx.Parse(string(want)); err != nil || got != want {
			t.Errorf("Parse(%s): got %s, %v, want it unchanged", want, got, err)
		}
	}
	for name, s := range map[string]string{
		"empty": "", "hexadecimal": "41a614f803b6fd780986a42c78ec9c7f77e6ded13c",
		"EVM":      "0xa614f803b6fd780986a42c78ec9c7f77e6ded13c",
		"mistyped": "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6T", "swapped": "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjL6jt",
		"a letter that base58 has not": "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj60",
		"Bitcoin":                      "1A1zP1eP5QGefi2DMPTfTL5SLmv7DivfNa", "a name": "coffer.trx", "with a space": usdt + " ",
		"long": strings.Repeat(usdt, 50), "not ASCII": "Ｔ" + usdt[1:],
	} {
		a, err := trontx.Parse(s)
		switch {
		case err == nil:
			t.Errorf("%s: got %s, want it refused", name, a)
		case len(err.Error()) < 10 || len(err.Error()) > 300 || len(s) > 20 && strings.Contains(err.Error(), s):
			t.Errorf("%s: got %q, want a sentence that does not quote it", name, err)
		}
	}
	g := trontx.AddressCodec{}
	for _, a := range []chain.Address{"T9yD14Nj9j7xAB4dbGeiX9h8unkKHxuWwb", "TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy"} {
		if !g.IsUnspendable(a) {
			t.Errorf("Burns(%s): got false, want true", a)
		}
	}
	if g.IsUnspendable(usdt) || g.PaymentURI(usdt, "") != usdt {
		t.Errorf("got %s taken for one that burns, or another link than itself", usdt)
	}
}

func key(t testing.TB, n byte) (chain.Address, func(payload []byte) []byte) {
	t.Helper()
	k, err := crypto.ToECDSA(bytes.Repeat([]byte{n}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return trontx.KeyAddress([65]byte(crypto.FromECDSAPub(&k.PublicKey))), func(payload []byte) []byte {
		digest := trontx.Digest(payload)
		signature, err := crypto.Sign(digest[:], k)
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
}

func place(t testing.TB) trontx.SlotRef {
	t.Helper()
	owner, _ := key(t, 1)
	return trontx.SlotRef{
		Owner: owner, RefBlockBytes: [2]byte{0xc3, 0x75}, RefBlockHash: [8]byte{1, 2, 3, 4, 5, 6, 7, 8},
		Timestamp: 1_684_509_309_000, Expiration: 1_684_509_909_003,
	}
}

func token(t testing.TB) trontx.Tx {
	t.Helper()
	to, _ := key(t, 2)
	return trontx.Tx{
		SlotRef: place(t), Contract: usdt, To: to, Amount: money.MustParse("1000000"), FeeLimit: 30_000_000,
	}
}

func TestAPaymentOfATokenIsWrittenAndReadTheSame(t *testing.T) {
	t.Parallel()
	tx := token(t)
	tx.Amount = money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")
	payload, err := tx.Payload()
	if err != nil {
		t.Fatal(err)
	}
	again, err := trontx.Decode(payload)
	if err != nil || again != tx {
		t.Errorf("got %+v, %v, want %+v", again, err, tx)
	}
	if at, err := trontx.ParseSlotKey(tx.SlotKey()); err != nil || at != tx.SlotRef {
		t.Errorf("ParseLease(%q): got %+v, %v, want %+v", tx.SlotKey(), at, err, tx.SlotRef)
	}
	if got, want := tx.MaxCost(), money.Units(tx.FeeLimit+trontx.Bandwidth(payload)*trontx.SunPerByte); got != want {
		t.Errorf("MaxCost: got %v, want %v", got, want)
	}
}

// withField appends a field to the payload of a transaction.
func withField(b []byte, n protowire.Number, v []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
}

func TestBytesThatSayMoreThanAPaymentAreRefused(t *testing.T) {
	t.Parallel()
	tx := token(t)
	payload, err := tx.Payload()
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string][]byte{
		"nothing":           nil,
		"cut off":           payload[:len(payload)-1],
		"a memo":            withField(payload, 10, []byte("hello")),
		"an authority":      withField(payload, 9, []byte{1}),
		"a second contract": withField(payload, 11, []byte{8, 1}),
		"a longer number":   append(append([]byte{}, payload[:len(payload)-1]...), payload[len(payload)-1]|0x80, 0),
		"a field twice":     append(append([]byte{}, payload...), payload[:4]...),
		"a field of 32 bit": append(append([]byte{}, payload...), 0x7d, 0, 0, 0, 0),
		"too long":          append(append([]byte{}, payload...), make([]byte, 2000)...),
	}
	// Nested inside the contract: a permission number, which lets other keys sign, and TRX or
	// TRC-10 that the call sends along.
	for name, change := range map[string]func([]byte) []byte{
		"a permission": func(contract []byte) []byte { return append(contract, 0x28, 2) },
		"a provider":   func(contract []byte) []byte { return withField(contract, 3, []byte("x")) },
	} {
		cases[name] = rewritten(t, payload, change)
	}
	for name, b := range cases {
		if got, err := trontx.Decode(b); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

// rewritten changes the contract inside a payload.
func rewritten(t *testing.T, payload []byte, change func([]byte) []byte) []byte {
	t.Helper()
	var out []byte
	for b := payload; len(b) > 0; {
		n, kind, size := protowire.ConsumeField(b)
		if size < 0 {
			t.Fatal("the payload cannot be read")
		}
		if n != 11 || kind != protowire.BytesType {
			out, b = append(out, b[:size]...), b[size:]
			continue
		}
		_, _, tag := protowire.ConsumeTag(b)
		contract, _ := protowire.ConsumeBytes(b[tag:])
		out = withField(out, 11, change(append([]byte{}, contract...)))
		b = b[size:]
	}
	return out
}

func TestWhatTheChainWouldRefuseIsNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*trontx.Tx){
		"nothing is moved":        func(x *trontx.Tx) { x.Amount = money.Zero },
		"to the owner":            func(x *trontx.Tx) { x.To = x.Owner },
		"to the token":            func(x *trontx.Tx) { x.To = x.Contract },
		"no fee limit":            func(x *trontx.Tx) { x.FeeLimit = 0 },
		"a fee limit beyond 2^63": func(x *trontx.Tx) { x.FeeLimit = math.MaxInt64 + 1 },
		"TRX with a fee limit":    func(x *trontx.Tx) { x.Contract = "" },
		"more TRX than 2^63": func(x *trontx.Tx) {
			x.Contract, x.FeeLimit, x.Amount = "", 0, money.Units(math.MaxInt64+1)
		},
		"more TRX than 2^64": func(x *trontx.Tx) {
			x.Contract, x.FeeLimit, x.Amount = "", 0, money.MustParse("18446744073709551617")
		},
		"it ends before it begins": func(x *trontx.Tx) { x.Expiration = x.Timestamp },
		"it is good for two days":  func(x *trontx.Tx) { x.Expiration = x.Timestamp + (48 * time.Hour).Milliseconds() },
		"no owner":                 func(x *trontx.Tx) { x.Owner = "" },
		"no receiver":              func(x *trontx.Tx) { x.To = "T" },
		"no contract":              func(x *trontx.Tx) { x.Contract = "T" },
	} {
		tx := token(t)
		change(&tx)
		if b, err := tx.Payload(); err == nil {
			t.Errorf("%s: got %x, want an error", name, b)
		}
	}
}

func TestASlotHasOneKey(t *testing.T) {
	t.Parallel()
	good := place(t).SlotKey()
	parts := strings.Split(good, " ")
	for name, s := range map[string]string{
		"empty": "", "four parts": strings.Join(parts[:4], " "), "another case": strings.ToUpper(good),
		"two spaces":         strings.Replace(good, " ", "  ", 1),
		"a sign":             strings.Join(append(parts[:4:4], "+"+parts[4]), " "),
		"a zero in front":    strings.Join(append(parts[:4:4], "0"+parts[4]), " "),
		"no time left":       strings.Join(append(parts[:4:4], parts[3]), " "),
		"a longer reference": strings.Replace(good, parts[1], parts[1]+"00", 1),
	} {
		if at, err := trontx.ParseSlotKey(s); err == nil {
			t.Errorf("%s: got %+v, want an error", name, at)
		}
	}
}

func TestASignatureOfAnotherIsRefused(t *testing.T) {
	t.Parallel()
	_, sign := key(t, 1)
	_, other := key(t, 3)
	payload, err := token(t).Payload()
	if err != nil {
		t.Fatal(err)
	}
	mine := sign(payload)
	raw, _, err := trontx.AttachSignature(payload, mine)
	if err != nil {
		t.Fatal(err)
	}
	high := append([]byte{}, mine...)
	high[64] ^= 1
	for name, s := range map[string][]byte{
		"of another": other(payload), "the other parity": high, "short": mine[:64],
		"with 27": append(mine[:64:64], mine[64]+27),
	} {
		if _, _, err := trontx.AttachSignature(payload, s); err == nil {
			t.Errorf("%s: got it taken, want an error", name)
		}
	}
	for name, b := range map[string][]byte{
		"a second signature": withField(raw, 2, mine), "a result": withField(raw, 5, []byte{0x18, 1}),
		"unsigned": payload, "cut off": raw[:len(raw)-1], "nothing": nil,
	} {
		if _, _, err := trontx.DecodeSigned(b); err == nil {
			t.Errorf("%s: got it opened, want an error", name)
		}
	}
}

func TestEveryPaymentComesBackAsItWas(t *testing.T) {
	t.Parallel()
	owner, sign := key(t, 1)
	rapid.Check(t, func(t *rapid.T) {
		account := func(name string) chain.Address {
			return trontx.FromAccountBytes([20]byte(rapid.SliceOfN(rapid.Byte(), 20, 20).Draw(t, name)))
		}
		from := rapid.Int64Range(1, 1<<50).Draw(t, "from")
		tx := trontx.Tx{
			SlotRef: trontx.SlotRef{
				Owner: owner, RefBlockBytes: [2]byte(rapid.SliceOfN(rapid.Byte(), 2, 2).Draw(t, "ref")),
				RefBlockHash: [8]byte(rapid.SliceOfN(rapid.Byte(), 8, 8).Draw(t, "hash")),
				Timestamp:    from,
				Expiration:   from + rapid.Int64Range(1, trontx.LifetimeMax.Milliseconds()).Draw(t, "life"),
			},
			To: account("to"), Amount: money.Units(rapid.Uint64Range(1, math.MaxInt64).Draw(t, "amount")),
		}
		if rapid.Bool().Draw(t, "token") {
			tx.Contract, tx.FeeLimit = account("contract"), rapid.Uint64Range(1, math.MaxInt64).Draw(t, "limit")
		}
		payload, err := tx.Payload()
		if err != nil {
			t.Fatalf("got %v, want a payload", err)
		}
		raw, hash, err := trontx.AttachSignature(payload, sign(payload))
		if err != nil {
			t.Fatalf("got %v, want it signed", err)
		}
		if got, h, err := trontx.DecodeSigned(raw); err != nil || got != tx || h != hash {
			t.Fatalf("got %+v, %s, %v, want %+v, %s", got, h, err, tx, hash)
		}
	})
}

func FuzzDecodeTakesOnlyWhatItWrites(f *testing.F) {
	for _, v := range public {
		f.Add(unhex(f, v.payload))
	}
	payload, err := token(f).Payload()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(payload)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = trontx.ParseTx(b)
		tx, err := trontx.Decode(b)
		if err != nil {
			return
		}
		again, err := tx.Payload()
		if err != nil || !bytes.Equal(again, b) {
			t.Fatalf("got %x, %v, want %x", again, err, b)
		}
		if at, err := trontx.ParseSlotKey(tx.SlotKey()); err != nil || at != tx.SlotRef {
			t.Fatalf("got place %+v, %v, want %+v", at, err, tx.SlotRef)
		}
		seen, err := trontx.ParseTx(b)
		if err != nil || seen.SlotKey != tx.SlotKey() || seen.Owner != tx.Owner {
			t.Fatalf("got %+v, %v, want what was decoded: %+v", seen, err, tx)
		}
	})
}
