package bitcointx

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const local = chain.Local

// keyOf returns the nth key, with its two addresses.
func keyOf(t testing.TB, n byte) (*btcec.PrivateKey, chain.Address, chain.Address) {
	t.Helper()
	k, _ := btcec.PrivKeyFromBytes(bytes.Repeat([]byte{n}, 32))
	public := [KeyBytes]byte(k.PubKey().SerializeCompressed())
	taproot, err := TaprootAddress(&chaincfg.RegressionNetParams, public)
	if err != nil {
		t.Fatal(err)
	}
	return k, KeyAddress(&chaincfg.RegressionNetParams, public), taproot
}

func segwitOf(t testing.TB, n byte) chain.Address { _, a, _ := keyOf(t, n); return a }

// coinOf returns output n of the transaction whose hash repeats a digit.
func coinOf(digit string, n uint32, amount uint64, holder chain.Address) chain.Output {
	return chain.Output{
		Outpoint: FormatOutpoint(chain.TxHash(strings.Repeat(digit, 64)), n), Owner: holder,
		Amount: money.Units(amount),
	}
}

// lease is the slot key of two outputs, of native SegWit and of taproot.
func slotKey(t testing.TB) SlotKey {
	t.Helper()
	_, a, _ := keyOf(t, 1)
	_, _, b := keyOf(t, 2)
	l, err := NewSlotKey(local, []chain.Output{coinOf("b", 0, 70_000, b), coinOf("a", 7, 50_000, a)}, segwitOf(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func pay(to chain.Address, amount uint64) chain.Payment {
	return chain.Payment{To: to, Amount: money.Units(amount)}
}

func feesOf(rate, most uint64) chain.Fees {
	return chain.Fees{TipCap: money.Units(rate), NonGas: money.Units(most)}
}

// built returns the transaction that is built at a rate, with its own fees.
func built(l SlotKey, ps []chain.Payment, rate uint64) (Tx, error) {
	fees, err := FitFees(l.network(), l, ps, feesOf(rate, 0))
	if err != nil {
		return Tx{}, err
	}
	return Build(l.network(), l, ps, fees)
}

func (SlotKey) network() chain.Network { return local }

func TestOneSetOfOutputsHasOneText(t *testing.T) {
	t.Parallel()
	l := slotKey(t)
	text := l.String()
	want := strings.Repeat("a", 64) + ":7:50000:" + string(l.Inputs[0].Owner) + " " + strings.Repeat("b", 64) +
		":0:70000:" + string(l.Inputs[1].Owner) + " " + string(l.Change)
	if text != want || l.Sum() != money.Units(120_000) {
		t.Errorf("got %q of %v, want %q", text, l.Sum(), want)
	}
	again, err := ParseSlotKey(local, text)
	if err != nil || again.String() != text || !slices.Equal(again.Inputs, l.Inputs) || again.Change != l.Change {
		t.Errorf("got %+v, %v, want %+v", again, err, l)
	}
	words := strings.Split(text, " ")
	for name, bad := range map[string]string{
		"nothing":           "",
		"no coin":           words[2],
		"no change":         words[0] + " " + words[1],
		"another order":     words[1] + " " + words[0] + " " + words[2],
		"a coin twice":      words[0] + " " + words[0] + " " + words[2],
		"two spaces":        words[0] + "  " + words[1] + " " + words[2],
		"a space behind":    text + " ",
		"no amount":         strings.Replace(text, ":50000:", ":", 1),
		"zero":              strings.Replace(text, ":50000:", ":0:", 1),
		"a zero in front":   strings.Replace(text, ":50000:", ":050000:", 1),
		"a plus":            strings.Replace(text, ":7:", ":+7:", 1),
		"a long number":     strings.Replace(text, ":7:", ":4294967296:", 1),
		"more than all":     strings.Replace(text, ":50000:", ":2100000000000000:", 1),
		"capitals":          strings.Replace(text, "aaaa", "AAAA", 1),
		"a short hash":      text[1:],
		"capital holder":    strings.ToUpper(text),
		"another network":   strings.ReplaceAll(text, "bcrt1", "bc1"),
		"a hash's holder":   strings.Replace(text, string(l.Inputs[0].Owner), "mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", 1),
		"a script's change": words[0] + " " + words[1] + " 2MzQwSSnBHWHqSAqtTVQ6v47XtaisrJa1Vc",
	} {
		if l, err := ParseSlotKey(local, bad); err == nil {
			t.Errorf("%s: got %+v, want an error", name, l)
		}
	}
	if _, err := ParseSlotKey(chain.Mainnet, text); err == nil {
		t.Error("on the main network: got no error")
	}
	var many []chain.Output
	for i := range uint32(InputsMax + 1) {
		many = append(many, coinOf("a", i, 1000, l.Change))
	}
	if _, err := NewSlotKey(local, many, l.Change); err == nil {
		t.Error("too many coins: got no error")
	}
	most, err := NewSlotKey(local, many[1:], l.Change)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := ParseSlotKey(local, most.String()); err != nil || again.String() != most.String() {
		t.Errorf("as many as there may be: got %v, want them read", err)
	}
}

func TestWhatIsBuiltPaysInOrderAndKeepsTheRest(t *testing.T) {
	t.Parallel()
	l := slotKey(t)
	two := []chain.Payment{pay(segwitOf(t, 9), 40_000), pay("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", 20_000)}
	fit, err := FitFees(local, l, two, feesOf(10_000, 1))
	if err != nil {
		t.Fatal(err)
	}
	tx, err := Build(local, l, two, fit)
	if err != nil {
		t.Fatal(err)
	}
	fee, _ := tx.Fee().Uint64()
	rest, _ := tx.ChangeAmount.Uint64()
	if fee != FeeAtRate(tx.VirtualSize(), 10_000) || rest != 120_000-60_000-fee || tx.CheckPayments(two) != nil {
		t.Errorf("got %+v for %d, want both paid and the rest back", tx, fee)
	}
	if fit.GasLimit != tx.VirtualSize() || fit.NonGas != tx.Fee() || fit.TipCap != money.Units(10_000) {
		t.Errorf("fees: got %+v, want %d bytes for %d", fit, tx.VirtualSize(), fee)
	}
	if tx.CheckPayments(two[:1]) == nil {
		t.Error("got two payments taken for the first of them")
	}
	slices.Reverse(two)
	if tx.CheckPayments(two) == nil || tx.CheckPayments(nil) == nil || tx.CheckCancel() == nil {
		t.Error("got other payments taken for those")
	}
	// The fee is the quoted one, not less than its rate and no satoshi more.
	if more, err := Build(local, l, two, feesOf(10_000, fee+500)); err != nil || more.Fee() != money.Units(fee+500) {
		t.Errorf("got %+v, %v, want a fee of %d", more, err, fee+500)
	}
	if _, err := Build(local, l, two, feesOf(10_000, fee-1)); err == nil {
		t.Error("a fee below its rate: got no error")
	}

	// An amount that would be dust as change goes to the fee: the smallest change, and one satoshi
	// less.
	least, _ := Dust(must(t, l.Change)).Uint64()
	var short *chain.InsufficientOutputsError
	for _, c := range []struct{ more, rest uint64 }{{rest - least, least}, {rest - least + 1, 0}} {
		ps := []chain.Payment{pay(segwitOf(t, 9), 40_000+c.more), two[0]}
		fit, err := FitFees(local, l, ps, feesOf(10_000, 0))
		if err != nil {
			t.Fatal(err)
		}
		tx, err := Build(local, l, ps, fit)
		if err != nil || tx.ChangeAmount != money.Units(c.rest) || tx.Fee() != fit.NonGas {
			t.Errorf("got %v back for %v (%v), want %d for %v", tx.ChangeAmount, tx.Fee(), err, c.rest, fit.NonGas)
		}
		fit.NonGas = money.Units(fee + 1)
		if tx, err := Build(local, l, ps, fit); !errors.As(err, &short) {
			t.Errorf("a fee that leaves dust: got %+v, %v, want what is missing", tx, err)
		}
	}

	cancel, err := built(l, nil, 10_000)
	if err != nil || cancel.CheckCancel() != nil || cancel.ChangeAmount == money.Zero || len(cancel.Payees) != 0 {
		t.Errorf("a cancel: got %+v, %v, want all of it back", cancel, err)
	}
	if _, err := Build(local, l, nil, feesOf(10_000, 120_000)); !errors.As(err, &short) {
		t.Errorf("a cancel that gives nothing back: got %v, want what is missing", err)
	}

	nothing := []chain.Payment{pay(segwitOf(t, 9), 119_999)}
	size := VirtualSize(emptyWeight + keyWeight + taprootWeight + outputWeight(must(t, l.Change)))
	if _, err := FitFees(local, l, nothing, feesOf(10_000, 0)); !errors.As(err, &short) ||
		short.Missing != money.Units(FeeAtRate(size, 10_000)-1) {
		t.Errorf("nothing left for the fee: got %v, want what is missing", err)
	}
	if _, err := built(l, []chain.Payment{pay(segwitOf(t, 9), 130_000)}, 10_000); !errors.As(err, &short) {
		t.Errorf("more than there is: got %v, want what is missing", err)
	}
	for name, bad := range map[string]struct {
		ps []chain.Payment
		f  chain.Fees
	}{
		"dust":          {[]chain.Payment{pay(segwitOf(t, 9), 293)}, feesOf(1000, 10_000)},
		"to the change": {[]chain.Payment{pay(l.Change, 1000)}, feesOf(1000, 10_000)},
		"a token": {
			[]chain.Payment{{To: segwitOf(t, 9), Contract: "x", Amount: money.Units(1000)}},
			feesOf(1000, 10_000),
		},
		"to nobody": {[]chain.Payment{pay("", 1000)}, feesOf(1000, 10_000)},
		"on another network": {
			[]chain.Payment{pay("bc1qw508d6qejxtdg4y5r3zarvary0c5xw7kv8f3t4", 1000)},
			feesOf(1000, 10_000),
		},
		"more than all": {[]chain.Payment{{
			To:     segwitOf(t, 9),
			Amount: money.MustParse("340282366920938463463374607431768211456"),
		}}, feesOf(1000, 10_000)},
		"for nothing": {two, feesOf(0, 10_000)},
		"at no rate":  {two, feesOf(RateMax+1, 10_000)},
		"with two fees": {two, chain.Fees{
			TipCap: money.Units(1000), FeeCap: money.Units(1000),
			NonGas: money.Units(10_000),
		}},
		"too many":             {slices.Repeat(two, PayeesMax), feesOf(1000, 10_000)},
		"a cancel for it all":  {nil, feesOf(RateMax, 1_000_000)},
		"more fee than allows": {two, feesOf(100_000, 1000)},
	} {
		if tx, err := Build(local, l, bad.ps, bad.f); err == nil {
			t.Errorf("%s: got %+v, want an error", name, tx)
		}
	}
}

func must(t testing.TB, a chain.Address) []byte {
	t.Helper()
	s, err := Script(local, a)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestAPayloadSaysAllOfATransaction(t *testing.T) {
	t.Parallel()
	l := slotKey(t)
	for _, ps := range [][]chain.Payment{
		nil,
		{pay(segwitOf(t, 9), 1000)},
		{pay(segwitOf(t, 9), 119_000), pay("mipcBbFg9gMiCh81Kj8tqqdgoZub1ZJRfn", 700)},
	} {
		tx, err := built(l, ps, 1000)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := tx.Payload()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(payload)
		if err != nil || fmt.Sprint(again) != fmt.Sprint(tx) || again.SlotKey.String() != l.String() {
			t.Errorf("got %+v, %v, want %+v", again, err, tx)
		}
		for i := range payload {
			changed := slices.Clone(payload)
			changed[i] ^= 0x40
			if tx, err := Decode(changed); err == nil {
				if again, err := tx.Payload(); err != nil || !bytes.Equal(again, changed) {
					t.Errorf("byte %d changed: got %+v of other bytes", i, tx)
				}
			}
			if _, err := Decode(payload[:i]); err == nil {
				t.Errorf("the first %d bytes: got no error", i)
			}
		}
		if _, err := Decode(append(slices.Clone(payload), 0)); err == nil {
			t.Error("one byte more: got no error")
		}
	}
	// The largest fits where payloads have to fit.
	var coins []chain.Output
	_, _, taproot := keyOf(t, 2)
	for i := range uint32(InputsMax) {
		coins = append(coins, coinOf("a", i, 100_000, taproot))
	}
	most, err := NewSlotKey(local, coins, taproot)
	if err != nil {
		t.Fatal(err)
	}
	tx, err := built(most, slices.Repeat([]chain.Payment{pay("bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080", 1000)},
		PayeesMax), 1000)
	if err != nil {
		t.Fatal(err)
	}
	if payload, err := tx.Payload(); err != nil || len(payload) > PayloadBytesMax {
		t.Errorf("got %d bytes, %v, want at most %d", len(payload), err, PayloadBytesMax)
	}
	if _, err := Decode(make([]byte, PayloadBytesMax+1)); err == nil {
		t.Error("too many bytes: got no error")
	}
}

func FuzzEveryPayloadThatIsReadIsWrittenAgain(f *testing.F) {
	l := slotKey(f)
	for _, ps := range [][]chain.Payment{nil, {pay(segwitOf(f, 9), 1000)}} {
		tx, err := built(l, ps, 1000)
		if err != nil {
			f.Fatal(err)
		}
		payload, err := tx.Payload()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		tx, err := Decode(payload)
		if err != nil {
			return
		}
		again, err := tx.Payload()
		if err != nil || !bytes.Equal(again, payload) {
			t.Fatalf("got %x, %v, want %x", again, err, payload)
		}
		if l, err := ParseSlotKey(tx.Network, tx.SlotKey.String()); err != nil || l.String() != tx.SlotKey.String() {
			t.Fatalf("lease: got %+v, %v, want %+v", l, err, tx.SlotKey)
		}
		if _, spends, err := tx.signingInputs(); err != nil || len(spends) != len(tx.SlotKey.Inputs) {
			t.Fatalf("got %d to sign, %v, want %d", len(spends), err, len(tx.SlotKey.Inputs))
		}
	})
}

// sign signs like the signer's keys.
func sign(k *btcec.PrivateKey, s SigningInput) []byte {
	if s.Taproot {
		signature, err := schnorr.Sign(txscript.TweakTaprootPrivKey(*k, nil), s.Hash[:])
		if err != nil {
			panic(err)
		}
		return signature.Serialize()
	}
	compact := ecdsa.SignCompact(k, s.Hash[:], true)
	return append(compact[1:], compact[0]-compactHead)
}

func TestTheNetworksOwnEngineTakesWhatIsSigned(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		keys := map[chain.Address]*btcec.PrivateKey{}
		var coins []chain.Output
		for i := range 1 + rnd.IntN(6) {
			k, a, b := keyOf(t, byte(1+rnd.IntN(200)))
			if rnd.IntN(2) == 0 {
				a = b
			}
			keys[a] = k
			coins = append(coins, coinOf("c", uint32(i), 10_000+rnd.Uint64N(1e9), a))
		}
		l, err := NewSlotKey(local, coins, segwitOf(t, 250))
		if err != nil {
			t.Fatal(err)
		}
		tx, err := built(l, []chain.Payment{pay(segwitOf(t, 251), 1000)}, 3_333)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := tx.Payload()
		if err != nil {
			t.Fatal(err)
		}
		spends, err := SigningInputs(payload)
		if err != nil {
			t.Fatal(err)
		}
		var signatures [][]byte
		for _, s := range spends {
			signatures = append(signatures, sign(keys[s.Owner], s))
		}
		raw, hash, err := AttachSignatures(payload, signatures...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := HashOf(raw); err != nil || got != hash {
			t.Errorf("got hash %s, %v, want %s", got, err, hash)
		}
		signed := new(wire.MsgTx)
		if err := signed.Deserialize(bytes.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
		_, spent, err := tx.Unsigned()
		if err != nil {
			t.Fatal(err)
		}
		before := txscript.NewMultiPrevOutFetcher(nil)
		for i, in := range signed.TxIn {
			before.AddPrevOut(in.PreviousOutPoint, &spent[i])
			if in.Sequence > 0xffff_fffd {
				t.Errorf("got sequence %x, want one that may be replaced", in.Sequence)
			}
		}
		cache := txscript.NewTxSigHashes(signed, before)
		for i, out := range spent {
			e, err := txscript.NewEngine(out.PkScript, signed, i, txscript.StandardVerifyFlags, nil, cache, out.Value,
				before)
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Execute(); err != nil {
				t.Errorf("input %d: got %v, want it to be spent", i, err)
			}
		}
		size := VirtualSize(3*signed.SerializeSizeStripped() + signed.SerializeSize())
		if size > tx.VirtualSize() || size+uint64(len(spends)) < tx.VirtualSize() {
			t.Errorf("got %d virtual bytes, want %d or a little less", size, tx.VirtualSize())
		}

		// Neither the signature of another key nor of another transaction.
		k, _, _ := keyOf(t, 249)
		for i, s := range spends {
			other := slices.Clone(signatures)
			other[i] = sign(k, s)
			if _, _, err := AttachSignatures(payload, other...); err == nil {
				t.Errorf("input %d signed by another: got no error", i)
			}
			s.Hash[0]++
			other[i] = sign(keys[s.Owner], s)
			if _, _, err := AttachSignatures(payload, other...); err == nil {
				t.Errorf("input %d signed for another: got no error", i)
			}
			other[i] = nil
			if _, _, err := AttachSignatures(payload, other...); err == nil {
				t.Errorf("input %d not signed: got no error", i)
			}
		}
		if _, _, err := AttachSignatures(payload, signatures[1:]...); err == nil {
			t.Error("a signature less: got no error")
		}
	}
	if _, err := HashOf([]byte("no transaction")); err == nil {
		t.Error("got a hash of what is no transaction")
	}
}

// Its examples are those of BIP-143 and BIP-341.
func TestWhatIsSignedIsWhatTheStandardsSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, tx string
		spent    []wire.TxOut
		want     map[int]string
	}{
		{
			"BIP-143",
			"0100000002fff7f7881a8099afa6940d42d1e7f6362bec38171ea3edf433541db4e4ad969f0000000000eeffffffef51e1b804cc89d182d279655c3aa89e815b1b309fe287d9b2b55d57b90ec68a0100000000ffffffff02202cb206000000001976a9148280b37df378db99f66f85c95a783a76ac7a6d5988ac9093510d000000001976a9143bde42dbee7e4dbe6a21b2d50ce2f0167faa815988ac11000000",
			[]wire.TxOut{
				{Value: 625_000_000, PkScript: unhex(t,
					"2103c9f4836b9a4f77fc0d81f7bcb01b7f1b35916864b9476c241ce9fc198bd25432ac")},
				{Value: 600_000_000, PkScript: unhex(t, "00141d0f172a0ecb48aee1be1f2687d2963ae33f71a1")},
			},
			map[int]string{1: "c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670"},
		},
		{
			"BIP-341",
			"02000000097de20cbff686da83a54981d2b9bab3586f4ca7e48f57f5b55963115f3b334e9c010000000000000000d7b7cab57b1393ace2d064f4d4a2cb8af6def61273e127517d44759b6dafdd990000000000fffffffff8e1f583384333689228c5d28eac13366be082dc57441760d957275419a418420000000000fffffffff0689180aa63b30cb162a73c6d2a38b7eeda2a83ece74310fda0843ad604853b0100000000feffffffaa5202bdf6d8ccd2ee0f0202afbbb7461d9264a25e5bfd3c5a52ee1239e0ba6c0000000000feffffff956149bdc66faa968eb2be2d2faa29718acbfe3941215893a2a3446d32acd050000000000000000000e664b9773b88c09c32cb70a2a3e4da0ced63b7ba3b22f848531bbb1d5d5f4c94010000000000000000e9aa6b8e6c9de67619e6a3924ae25696bb7b694bb677a632a74ef7eadfd4eabf0000000000ffffffffa778eb6a263dc090464cd125c466b5a99667720b1c110468831d058aa1b82af10100000000ffffffff0200ca9a3b000000001976a91406afd46bcdfd22ef94ac122aa11f241244a37ecc88ac807840cb0000000020ac9a87f5594be208f8532db38cff670c450ed2fea8fcdefcc9a663f78bab962b0065cd1d",
			[]wire.TxOut{
				{Value: 420_000_000, PkScript: unhex(t,
					"512053a1f6e454df1aa2776a2814a721372d6258050de330b3c6d10ee8f4e0dda343")},
				{Value: 462_000_000, PkScript: unhex(t,
					"5120147c9c57132f6e7ecddba9800bb0c4449251c92a1e60371ee77557b6620f3ea3")},
				{Value: 294_000_000, PkScript: unhex(t, "76a914751e76e8199196d454941c45d1b3a323f1433bd688ac")},
				{Value: 504_000_000, PkScript: unhex(t,
					"5120e4d810fd50586274face62b8a807eb9719cef49c04177cc6b76a9a4251d5450e")},
				{Value: 630_000_000, PkScript: unhex(t,
					"512091b64d5324723a985170e4dc5a0f84c041804f2cd12660fa5dec09fc21783605")},
				{Value: 378_000_000, PkScript: unhex(t, "00147dd65592d0ab2fe0d0257d571abf032cd9db93dc")},
				{Value: 672_000_000, PkScript: unhex(t,
					"512075169f4001aa68f15bbed28b218df1d0a62cbbcf1188c6665110c293c907b831")},
				{Value: 546_000_000, PkScript: unhex(t,
					"5120712447206d7a5238acc7ff53fbe94a3b64539ad291c7cdbc490b7577e4b17df5")},
				{Value: 588_000_000, PkScript: unhex(t,
					"512077e30a5522dd9f894c3f8b8bd4c4b2cf82ca7da8a3ea6a239655c39c050ab220")},
			},
			map[int]string{4: "4f900a0bae3f1446fd48490c2958b5a023228f01661cda3496a11da502a7f7ef"},
		},
	} {
		tx := new(wire.MsgTx)
		if err := tx.DeserializeNoWitness(bytes.NewReader(unhex(t, c.tx))); err != nil {
			t.Fatal(err)
		}
		got, err := inputDigests(tx, c.spent)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range c.want {
			if hash := hex.EncodeToString(got[i][:]); hash != want {
				t.Errorf("%s, input %d: got %s, want %s", c.name, i, hash, want)
			}
		}
	}
	// The signatures of those two inputs, whose keys the standards give, are accepted.
	k, _ := btcec.PrivKeyFromBytes(unhex(t, "619c335025c7f4012e556c2a58b2506e30b8511b53ade95ea316fd8c3286feb9"))
	holder := KeyAddress(&chaincfg.RegressionNetParams, [KeyBytes]byte(k.PubKey().SerializeCompressed()))
	s := SigningInput{
		Owner: holder,
		Hash:  [32]byte(unhex(t, "c37af31116d1b27caf68aae9e3ac82f1477929014d5b917657d0eb49478cb670")),
	}
	witness, err := s.buildWitness(local, sign(k, s))
	const der = "304402203609e17b84f6a7d30c80bfa610b5b4542f32a8a0d5447a12fb1366d7f01cc44a0220573a954c4518331561406f90300e8f3358f51928d43c212a8caed02de67eebee01"
	if err != nil || hex.EncodeToString(witness[0]) != der {
		t.Errorf("got %x, %v, want %s", witness, err, der)
	}
	params := &chaincfg.RegressionNetParams
	s = SigningInput{
		Owner: destination{p2tr, unhex(t,
			"91b64d5324723a985170e4dc5a0f84c041804f2cd12660fa5dec09fc21783605")}.toAddress(params), Taproot: true,
		Hash: [32]byte(unhex(t, "4f900a0bae3f1446fd48490c2958b5a023228f01661cda3496a11da502a7f7ef")),
	}
	if _, err := s.buildWitness(local,
		unhex(t,
			"b4010dd48a617db09926f729e79c33ae0b4e94b79f04a1ae93ede6315eb3669de185a17d2b0ac9ee09fd4c64b678a0b61a0a86fa888a273c8511be83bfd6810f")); err != nil {
		t.Errorf("got %v, want the standard's signature taken", err)
	}
}

// What a payment adds to a transaction falls with the number of payments in it: the inputs, the change and the frame
// are paid once. Rule BP-20.
func TestPaymentsTogetherTakeFewVirtualBytesEach(t *testing.T) {
	t.Parallel()
	l, err := NewSlotKey(
		local, []chain.Output{coinOf("a", 0, 50_000_000, segwitOf(t, 1)), coinOf("b", 1, 50_000_000, segwitOf(t, 2))},
		segwitOf(t, 3),
	)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		payments int
		most     uint64 // virtual bytes for each payment, rounded up
	}{{1, 209}, {2, 120}, {8, 54}, {24, 40}, {PayeesMax, 33}} {
		var ps []chain.Payment
		for i := range c.payments {
			ps = append(ps, pay(segwitOf(t, byte(4+i)), 10_000))
		}
		tx, err := built(l, ps, 1000)
		if err != nil {
			t.Fatal(err)
		}
		each := (tx.VirtualSize() + uint64(c.payments) - 1) / uint64(c.payments)
		t.Logf("%d together: %d virtual bytes, %d each", c.payments, tx.VirtualSize(), each)
		if each > c.most {
			t.Errorf("%d together: got %d virtual bytes each, want at most %d", c.payments, each, c.most)
		}
	}
}
