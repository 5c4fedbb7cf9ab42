package evmtx

import (
	"bytes"
	"crypto/ecdsa"
	"math/big"
	"reflect"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	alice = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	token = "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"
)

func TestParseGivesTheOneForm(t *testing.T) {
	t.Parallel()
	for _, in := range []string{alice, strings.ToLower(alice), "0x" + strings.ToUpper(alice[2:])} {
		if got, err := Parse(in); err != nil || got != alice {
			t.Errorf("Parse(%s): got %q, %v, want %s", in, got, err, alice)
		}
	}
	// The vectors of EIP-55.
	for _, in := range []string{
		"0x52908400098527886E0F7030069857D2E4169EE7",
		"0x8617E340B3D01FA5F11F306F4090FD50E238070D",
		"0xde709f2102306220921060314715629080e2fb77",
		"0x27b1fdb04752bbc536007a920d24acb045561c26",
		"0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB",
		"0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb",
	} {
		if got, err := Parse(in); err != nil || string(got) != in {
			t.Errorf("Parse(%s): got %q, %v, want it unchanged", in, got, err)
		}
	}
}

func TestParseRefusesWhatIsNoAddress(t *testing.T) {
	t.Parallel()
	for in, word := range map[string]string{
		"":               "empty",
		"0x":             "has 0 characters",
		alice[2:]:        "does not start with 0x",
		"0X" + alice[2:]: "0X",
		alice[:41]:       "has 39 characters",
		alice + "0":      "has 41 characters",
		" " + alice:      "does not start with 0x",
		alice + " ":      "has 41 characters",
		alice[:41] + "g": "character 40",
		alice[:40] + "ａ": "characters",
		"0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed": "checksum",
		"vitalik.eth":                                "names are not resolved",
		"XE7338O073KYGTWWZN0F2WZ0R8PX5ZPPZS":         "does not start with 0x", // ICAP
		"bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq": "does not start with 0x",
		"0x" + strings.Repeat("0", 1<<20):            "1048576",
	} {
		got, err := Parse(in)
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("Parse(%.60q): got %q, %v, want an error with %q", in, got, err, word)
		}
	}
}

func TestBurnsKnowsAddressesWithoutAKey(t *testing.T) {
	t.Parallel()
	var g AddressCodec
	for _, in := range []string{
		"0x0000000000000000000000000000000000000000",
		"0x0000000000000000000000000000000000000001",
		"0x0000000000000000000000000000000000000011",
		"0x0000000000000000000000000000000000000100",
		"0x000000000000000000000000000000000000dead",
		"0xfffffffffffffffffffffffffffffffffffffffe",
		"0xffffffffffffffffffffffffffffffffffffffff",
		"0xdead000000000000000042069420694206942069",
	} {
		a, err := Parse(in)
		if err != nil || !g.IsUnspendable(a) {
			t.Errorf("Burns(%s): got false, %v, want true", in, err)
		}
	}
	for _, a := range []chain.Address{
		alice, token,
		Canonical(common.HexToAddress("0x0000000000000000000000000000000000010000")),
	} {
		if g.IsUnspendable(a) {
			t.Errorf("Burns(%s): got true, want false", a)
		}
	}
}

func TestPaymentURINamesTheChain(t *testing.T) {
	t.Parallel()
	g := AddressCodec{ChainID: 8453}
	if got, want := g.PaymentURI(alice, ""), "ethereum:"+alice+"@8453"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := g.PaymentURI(alice, token), "ethereum:"+token+"@8453/transfer?address="+alice; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func sample(t testing.TB) Tx {
	t.Helper()
	data, err := TransferData(alice, money.Units(1_000_000))
	if err != nil {
		t.Fatal(err)
	}
	return Tx{
		ChainID: 31337, Nonce: 7, To: token, Data: data, Gas: 90_000,
		TipCap: money.Units(1_000_000_000), FeeCap: money.Units(30_000_000_000),
	}
}

func payload(t testing.TB, tx Tx) []byte {
	t.Helper()
	b, err := tx.Payload()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func key(t testing.TB) (*ecdsa.PrivateKey, chain.Address) {
	t.Helper()
	k, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k, Canonical(crypto.PubkeyToAddress(k.PublicKey))
}

// geth returns the same transaction as the reference library has it.
func geth(tx Tx) *types.Transaction {
	to := common.HexToAddress(string(tx.To))
	return types.NewTx(&types.DynamicFeeTx{
		ChainID: new(big.Int).SetUint64(tx.ChainID), Nonce: tx.Nonce, To: &to, Value: tx.Value.Big(),
		Data: tx.Data, Gas: tx.Gas, GasTipCap: tx.TipCap.Big(), GasFeeCap: tx.FeeCap.Big(),
	})
}

func TestThePayloadIsWhatTheReferenceSigns(t *testing.T) {
	t.Parallel()
	native := Tx{
		ChainID: 1, To: alice, Value: money.MustParse("123456789012345678901234567890"), Gas: 21_000,
		FeeCap: money.Units(1),
	}
	for _, tx := range []Tx{sample(t), native} {
		want := types.LatestSignerForChainID(new(big.Int).SetUint64(tx.ChainID)).Hash(geth(tx))
		if got := Digest(payload(t, tx)); got != want {
			t.Errorf("digest: got %x, want %x", got, want)
		}
		got, err := Decode(payload(t, tx))
		if err != nil {
			t.Fatal(err)
		}
		if got.Data = append([]byte(nil), got.Data...); !reflect.DeepEqual(got, tx) {
			t.Errorf("decoded: got %+v, want %+v", got, tx)
		}
	}
}

func TestAttachedBytesAreWhatTheReferenceSends(t *testing.T) {
	t.Parallel()
	k, from := key(t)
	tx := sample(t)
	p := payload(t, tx)
	digest := Digest(p)
	sig, err := crypto.Sign(digest[:], k)
	if err != nil {
		t.Fatal(err)
	}
	raw, hash, err := AttachSignature(p, sig, from)
	if err != nil {
		t.Fatal(err)
	}
	want := types.MustSignNewTx(k, types.LatestSignerForChainID(big.NewInt(31337)), &types.DynamicFeeTx{
		ChainID: big.NewInt(31337), Nonce: 7, To: geth(tx).To(), Value: new(big.Int), Data: tx.Data,
		Gas: tx.Gas, GasTipCap: tx.TipCap.Big(), GasFeeCap: tx.FeeCap.Big(),
	})
	wantRaw, err := want.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(raw, wantRaw) || string(hash) != want.Hash().Hex() {
		t.Errorf("got %x %s, want %x %s", raw, hash, wantRaw, want.Hash())
	}
	opened, by, openedHash, err := DecodeSigned(raw)
	if err != nil || by != from || openedHash != hash || !bytes.Equal(payload(t, opened), p) {
		t.Errorf("Open: got %+v by %s, %s, %v, want what was signed by %s", opened, by, openedHash, err, from)
	}

	_, other := key(t)
	if _, _, err := AttachSignature(p, sig, other); err == nil {
		t.Error("signature of another key: got no error")
	}
	high := bytes.Clone(sig)
	n := crypto.S256().Params().N
	new(big.Int).Sub(n, new(big.Int).SetBytes(sig[32:64])).FillBytes(high[32:64])
	high[64] ^= 1
	if _, _, err := AttachSignature(p, high, from); err == nil {
		t.Error("signature with the upper s: got no error")
	}
	if _, _, err := AttachSignature(p, sig[:64], from); err == nil {
		t.Error("signature without its last byte: got no error")
	}
	if _, _, _, err := DecodeSigned(append(raw, 0)); err == nil {
		t.Error("signed bytes and one more: got no error")
	}
}

func TestDecodeRefusesEverythingUnusual(t *testing.T) {
	t.Parallel()
	good := sample(t)
	f, err := good.toFields()
	if err != nil {
		t.Fatal(err)
	}
	with := func(change func(*txFields)) []byte {
		g := f
		change(&g)
		body, err := rlp.EncodeToBytes(g)
		if err != nil {
			t.Fatal(err)
		}
		return append([]byte{2}, body...)
	}
	signed, err := encodeTyped(f.withSignature(0, f.FeeCap, f.FeeCap))
	if err != nil {
		t.Fatal(err)
	}
	legacy, err := rlp.EncodeToBytes([]any{uint64(1), f.FeeCap, uint64(21000), f.To, f.Value, []byte{}})
	if err != nil {
		t.Fatal(err)
	}
	ok := payload(t, good)
	list := rlp.RawValue{0xc1, 0xc0}
	for name, in := range map[string][]byte{
		"nothing":           nil,
		"only a type":       {2},
		"another type":      append([]byte{1}, ok[1:]...),
		"legacy":            legacy,
		"a byte too many":   append(bytes.Clone(ok), 0),
		"a byte too few":    ok[:len(ok)-1],
		"signed":            signed,
		"contract creation": with(func(f *txFields) { f.To = nil }),
		"short receiver":    with(func(f *txFields) { f.To = f.To[1:] }),
		"long receiver":     with(func(f *txFields) { f.To = append(bytes.Clone(f.To), 1) }),
		"access list":       with(func(f *txFields) { f.AccessList = list }),
		"list as string":    with(func(f *txFields) { f.AccessList = rlp.RawValue{0x80} }),
		"no chain":          with(func(f *txFields) { f.ChainID = 0 }),
		"no gas":            with(func(f *txFields) { f.Gas = 0 }),
		"tip above the cap": with(func(f *txFields) { f.TipCap, f.FeeCap = f.FeeCap, f.TipCap }),
		"last nonce":        with(func(f *txFields) { f.Nonce = 1<<64 - 1 }),
		"huge":              with(func(f *txFields) { f.Data = make([]byte, 100_000) }),
	} {
		if got, err := Decode(in); err == nil {
			t.Errorf("%s: got %+v, want an error", name, got)
		}
	}
}

func TestPayeeOfKnowsTwoFormsOfPayment(t *testing.T) {
	t.Parallel()
	contract, to, amount, err := ParsePayee(sample(t))
	if err != nil || contract != token || to != alice || amount != money.Units(1_000_000) {
		t.Errorf("token: got %s %s %v %v, want %s to %s", contract, to, amount, err, token, alice)
	}
	contract, to, amount, err = ParsePayee(Tx{To: alice, Value: money.Units(5)})
	if err != nil || contract != "" || to != alice || amount != money.Units(5) {
		t.Errorf("native: got %s %s %v %v, want 5 to %s", contract, to, amount, err, alice)
	}

	data := sample(t).Data
	dirty := bytes.Clone(data)
	dirty[selectorBytes] = 1
	approve := bytes.Clone(data)
	copy(approve, []byte{0x09, 0x5e, 0xa7, 0xb3})
	for name, tx := range map[string]Tx{
		"coin along with a call": {To: token, Value: money.Units(1), Data: data},
		"approve":                {To: token, Data: approve},
		"dirty padding":          {To: token, Data: dirty},
		"a byte too many":        {To: token, Data: append(bytes.Clone(data), 0)},
		"a byte too few":         {To: token, Data: data[:len(data)-1]},
		"only the selector":      {To: token, Data: data[:4]},
		"a memo":                 {To: alice, Data: []byte("hi")},
	} {
		if contract, to, amount, err := ParsePayee(tx); err == nil {
			t.Errorf("%s: got %s %s %v, want an error", name, contract, to, amount)
		}
	}
}

func TestPayBuildsWhatPayeeOfReads(t *testing.T) {
	t.Parallel()
	fees := chain.Fees{GasLimit: 21_000, FeeCap: money.Units(2), TipCap: money.Units(1)}
	for _, contract := range []chain.Address{"", token} {
		p := chain.Payment{From: token, To: alice, Contract: contract, Amount: money.Units(9)}
		tx, err := NewPaymentTx(1, p.From, &p, 4, fees)
		if err != nil {
			t.Fatal(err)
		}
		gotContract, to, amount, err := ParsePayee(tx)
		if err != nil || gotContract != contract || to != alice || amount != p.Amount || tx.Nonce != 4 {
			t.Errorf("got %s %s %v %v, want %+v", gotContract, to, amount, err, p)
		}
	}
	cancel, err := NewPaymentTx(1, alice, nil, 4, fees)
	if err != nil || cancel.To != alice || !cancel.Value.IsZero() || len(cancel.Data) != 0 {
		t.Errorf("cancel: got %+v, %v, want nothing to itself", cancel, err)
	}
	if _, err := NewPaymentTx(1, alice, &chain.Payment{From: token, To: alice}, 4, fees); err == nil {
		t.Error("payment of another account: got no error")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{alice, strings.ToLower(alice), "0x", "", "vitalik.eth", alice + "0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := Parse(s)
		if err != nil {
			return
		}
		if !strings.EqualFold(string(a), s) || len(s) != 42 {
			t.Errorf("Parse(%q): got %s, want the same digits", s, a)
		}
		if again, err := Parse(string(a)); err != nil || again != a {
			t.Errorf("Parse(%s): got %s, %v, want it unchanged", a, again, err)
		}
	})
}

func FuzzDecode(f *testing.F) {
	ok := payload(f, sample(f))
	f.Add(ok)
	f.Add(ok[:len(ok)-1])
	f.Add([]byte{2, 0xc0})
	f.Fuzz(func(t *testing.T, b []byte) {
		tx, err := Decode(b)
		if err != nil {
			return
		}
		if again := payload(t, tx); !bytes.Equal(again, b) {
			t.Errorf("got %x, want %x", again, b)
		}
		if want := types.LatestSignerForChainID(new(big.Int).SetUint64(tx.ChainID)).Hash(geth(tx)); Digest(b) != want {
			t.Errorf("digest: got %x, want the reference's %x", Digest(b), want)
		}
	})
}

func FuzzParseTransfer(f *testing.F) {
	f.Add(sample(f).Data)
	f.Add([]byte{0xa9, 0x05, 0x9c, 0xbb})
	f.Fuzz(func(t *testing.T, b []byte) {
		to, amount, err := ParseTransfer(b)
		if err != nil {
			return
		}
		if again, err := TransferData(to, amount); err != nil || !bytes.Equal(again, b) {
			t.Errorf("got %x, %v, want %x", again, err, b)
		}
	})
}

func FuzzOpen(f *testing.F) {
	k, from := key(f)
	p := payload(f, sample(f))
	digest := Digest(p)
	sig, err := crypto.Sign(digest[:], k)
	if err != nil {
		f.Fatal(err)
	}
	raw, _, err := AttachSignature(p, sig, from)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Add(p)
	f.Fuzz(func(t *testing.T, b []byte) {
		_, from, hash, err := DecodeSigned(b)
		if err != nil {
			return
		}
		var reference types.Transaction
		if err := reference.UnmarshalBinary(b); err != nil {
			t.Fatalf("reference: got %v, want it decoded", err)
		}
		by, err := types.Sender(types.LatestSignerForChainID(reference.ChainId()), &reference)
		if err != nil || Canonical(by) != from || reference.Hash().Hex() != string(hash) {
			t.Errorf("got %s %s, want %s %s, %v", from, hash, by, reference.Hash(), err)
		}
	})
}

// payouts returns payments of alice that may share a transaction.
func payouts(n int) (ps []chain.Payment) {
	for i := range n {
		ps = append(ps, chain.Payment{
			From: alice, To: Canonical(common.BigToAddress(big.NewInt(int64(0xbeef00 + i)))), Contract: token,
			Amount: money.Units(uint64(1000 + i)),
		})
	}
	return ps
}

// Rule BP-23.
func TestPaymentsOfOneTransactionAreReadBackAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	largest := payouts(PaymentsMax)
	for i := range largest {
		largest[i].Amount, _ = money.FromBig(new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 96), big.NewInt(1)))
	}
	fees := chain.Fees{GasLimit: 1_000_000, TipCap: money.Units(1), FeeCap: money.Units(1_000_000_000_000)}
	for _, ps := range [][]chain.Payment{payouts(2), payouts(PaymentsMax), largest} {
		tx, err := NewPaymentsTx(1, alice, ps, 7, fees)
		if err != nil {
			t.Fatal(err)
		}
		payload, err := tx.Payload()
		if err != nil {
			t.Fatal(err)
		}
		read, err := Decode(payload)
		if err != nil || !reflect.DeepEqual(read, tx) {
			t.Fatalf("got %+v, %v, want %+v", read, err, tx)
		}
		if err := CheckPayments(read, ps); err != nil {
			t.Errorf("%d payments: got %v, want them found", len(ps), err)
		}
	}
}

// The signer compares each payment with one that it has admitted. Rule BP-23.
func TestATransactionOfOtherPaymentsIsRecognized(t *testing.T) {
	t.Parallel()
	fees := chain.Fees{GasLimit: 1_000_000, FeeCap: money.Units(1)}
	ps := payouts(3)
	tx, err := NewPaymentsTx(1, alice, ps, 7, fees)
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(t *Tx, ps []chain.Payment) []chain.Payment{
		"another amount":  func(_ *Tx, ps []chain.Payment) []chain.Payment { ps[1].Amount = money.Units(9); return ps },
		"another payee":   func(_ *Tx, ps []chain.Payment) []chain.Payment { ps[1].To = alice; return ps },
		"another token":   func(_ *Tx, ps []chain.Payment) []chain.Payment { ps[1].Contract = alice; return ps },
		"another account": func(_ *Tx, ps []chain.Payment) []chain.Payment { ps[1].From = token; return ps },
		"one less":        func(_ *Tx, ps []chain.Payment) []chain.Payment { return ps[:2] },
		"one alone":       func(_ *Tx, ps []chain.Payment) []chain.Payment { return ps[:1] },
		"none":            func(_ *Tx, ps []chain.Payment) []chain.Payment { return nil },
		"one more":        func(_ *Tx, ps []chain.Payment) []chain.Payment { return append(ps, ps[0]) },
		"another order":   func(_ *Tx, ps []chain.Payment) []chain.Payment { ps[0], ps[1] = ps[1], ps[0]; return ps },
		"another contract": func(t *Tx, ps []chain.Payment) []chain.Payment {
			t.To = alice
			return ps
		},
		"coin along": func(t *Tx, ps []chain.Payment) []chain.Payment { t.Value = money.Units(1); return ps },
		"a byte more": func(t *Tx, ps []chain.Payment) []chain.Payment {
			t.Data = append(bytes.Clone(t.Data), 0)
			return ps
		},
		"a word more": func(t *Tx, ps []chain.Payment) []chain.Payment {
			t.Data = append(bytes.Clone(t.Data), make([]byte, 32)...)
			return ps
		},
		"padding of the token": func(t *Tx, ps []chain.Payment) []chain.Payment {
			t.Data = bytes.Clone(t.Data)
			t.Data[5] = 1
			return ps
		},
		"items elsewhere": func(t *Tx, ps []chain.Payment) []chain.Payment {
			t.Data = bytes.Clone(t.Data)
			t.Data[4+32+31] = 0x60
			return ps
		},
		"an allowance": func(_ *Tx, ps []chain.Payment) []chain.Payment {
			return []chain.Payment{{From: alice, To: PayoutContract, Contract: token, GrantsAllowance: true}}
		},
	} {
		other := tx
		if err := CheckPayments(other, change(&other, payouts(3))); err == nil {
			t.Errorf("%s: got it accepted, want a refusal", name)
		}
	}
}

// The payout contract makes neither a payment of coin, nor one of nothing, nor one above 96 bits, nor more than 24.
// Rule BP-22.
func TestWhatCannotShareATransactionIsRefused(t *testing.T) {
	t.Parallel()
	above, err := money.FromBig(new(big.Int).Lsh(big.NewInt(1), 96))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*chain.Payment){
		"coin":           func(p *chain.Payment) { p.Contract = "" },
		"another token":  func(p *chain.Payment) { p.Contract = alice },
		"nothing":        func(p *chain.Payment) { p.Amount = money.Zero },
		"above 96 bits":  func(p *chain.Payment) { p.Amount = above },
		"of another":     func(p *chain.Payment) { p.From = token },
		"an allowance":   func(p *chain.Payment) { p.GrantsAllowance = true },
		"of a fee payer": func(p *chain.Payment) { p.Payer = token },
	} {
		for n := range 2 {
			ps := payouts(2)
			change(&ps[n])
			if tx, err := NewPaymentsTx(1, ps[0].From, ps, 0, chain.Fees{GasLimit: 1}); err == nil {
				t.Errorf("%s: got %+v, want a refusal", name, tx)
			}
		}
	}
	if tx, err := NewPaymentsTx(1, alice, payouts(PaymentsMax+1), 0, chain.Fees{GasLimit: 1}); err == nil {
		t.Errorf("one too many: got %+v, want a refusal", tx)
	}
}

// An allowance is of the payout contract, all or none, and nothing else has its form. Rule BP-24.
func TestOnlyThePayoutContractIsAllowedAnything(t *testing.T) {
	t.Parallel()
	grant := chain.Payment{From: alice, To: PayoutContract, Contract: token, GrantsAllowance: true}
	revoke := chain.Payment{From: alice, To: PayoutContract, Contract: token, RevokesAllowance: true}
	build := func(p chain.Payment) Tx {
		t.Helper()
		tx, err := NewPaymentTx(1, alice, &p, 1, chain.Fees{GasLimit: 1})
		if err != nil {
			t.Fatal(err)
		}
		return tx
	}
	for _, p := range []chain.Payment{grant, revoke} {
		if err := CheckPayments(build(p), []chain.Payment{p}); err != nil {
			t.Errorf("%+v: got %v, want it found", p, err)
		}
	}
	payment := chain.Payment{From: alice, To: PayoutContract, Contract: token, Amount: money.Units(5)}
	refused := map[string]struct {
		tx Tx
		p  chain.Payment
	}{
		"a revocation as a grant": {build(revoke), grant},
		"a grant as a revocation": {build(grant), revoke},
		"a payment as a grant":    {build(payment), grant},
		"a grant as a payment":    {build(grant), payment},
	}
	other := build(grant)
	other.To = alice
	refused["a grant of another token"] = struct {
		tx Tx
		p  chain.Payment
	}{other, grant}
	data, err := ApproveData(alice, true)
	if err != nil {
		t.Fatal(err)
	}
	foreign := build(grant)
	foreign.Data = data
	refused["an allowance of another address"] = struct {
		tx Tx
		p  chain.Payment
	}{foreign, grant}
	toOther := grant
	toOther.To = alice
	refused["an allowance that was admitted for another address"] = struct {
		tx Tx
		p  chain.Payment
	}{foreign, toOther}
	for name, c := range refused {
		if err := CheckPayments(c.tx, []chain.Payment{c.p}); err == nil {
			t.Errorf("%s: got it accepted, want a refusal", name)
		}
	}
	for name, change := range map[string]func(*chain.Payment){
		"of another address": func(p *chain.Payment) { p.To = alice },
		"of coin":            func(p *chain.Payment) { p.Contract = "" },
		"with an amount":     func(p *chain.Payment) { p.Amount = money.Units(1) },
		"granted, revoked":   func(p *chain.Payment) { p.RevokesAllowance = true },
	} {
		p := grant
		change(&p)
		if tx, err := NewPaymentTx(1, alice, &p, 1, chain.Fees{GasLimit: 1}); err == nil {
			t.Errorf("%s: got %+v, want a refusal", name, tx)
		}
	}
	if !(AddressCodec{}).IsUnspendable(PayoutContract) {
		t.Error("what is paid to the payout contract is lost, and it is taken for an address of a person")
	}
}

// FuzzParsePay proves that a call which is read is the one that is written for what was read.
func FuzzParsePay(f *testing.F) {
	for _, n := range []int{2, 3, PaymentsMax} {
		data, err := PayData(payouts(n))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ps, err := ParsePay(data)
		if err != nil {
			return
		}
		again, err := PayData(ps)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%x: got %+v, which is written as %x, %v", data, ps, again, err)
		}
	})
}
