package bitcoin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
)

var local = &chaincfg.RegressionNetParams

// made is a block with its proof of work: transactions of two inputs and two outputs
// each, in the forms that blocks of the main network have most.
func made(tb testing.TB, payments int) ([]byte, chainhash.Hash) {
	tb.Helper()
	key, err := hex.DecodeString("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
	if err != nil {
		tb.Fatal(err)
	}
	signature := append(append([]byte{0x30, 68}, make([]byte, 68)...), 1)
	hash := func(i int) []byte { h := chainhash.DoubleHashH([]byte(fmt.Sprint(i))); return h[:] }
	scripts := []func(i int) []byte{
		func(i int) []byte { return append([]byte{txscript.OP_0, 20}, hash(i)[:20]...) },
		func(i int) []byte { return append([]byte{txscript.OP_1, 32}, hash(i)...) },
		func(i int) []byte {
			return append(append([]byte{txscript.OP_DUP, txscript.OP_HASH160, 20}, hash(i)[:20]...), txscript.OP_EQUALVERIFY, txscript.OP_CHECKSIG)
		},
		func(i int) []byte {
			return append(append([]byte{txscript.OP_HASH160, 20}, hash(i)[:20]...), txscript.OP_EQUAL)
		},
	}
	coinbase := wire.NewMsgTx(2)
	coinbase.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&chainhash.Hash{}, wire.MaxPrevOutIndex), []byte{3, 1, 2, 3}, [][]byte{make([]byte, 32)}))
	coinbase.AddTxOut(wire.NewTxOut(50_0000_0000, scripts[0](0)))
	b := wire.NewMsgBlock(&wire.BlockHeader{Version: 4, Bits: local.PowLimitBits, Timestamp: time.Unix(1_800_000_000, 0)})
	txs := []*wire.MsgTx{coinbase}
	witnesses := []chainhash.Hash{{}}
	for i := range payments {
		tx := wire.NewMsgTx(2)
		for k := range 2 {
			before := chainhash.DoubleHashH(hash(2*i + k))
			in := wire.NewTxIn(wire.NewOutPoint(&before, uint32(k)), nil, nil)
			if i%4 == 3 {
				in.SignatureScript = append(append(append([]byte{byte(len(signature))}, signature...), byte(len(key))), key...)
			} else {
				in.Witness = wire.TxWitness{signature, key}
			}
			tx.AddTxIn(in)
			tx.AddTxOut(wire.NewTxOut(int64(1000+i), scripts[(i+k)%len(scripts)](2*i+k)))
		}
		txs, witnesses = append(txs, tx), append(witnesses, tx.WitnessHash())
	}
	root, _ := merkleRoot(witnesses)
	coinbase.AddTxOut(wire.NewTxOut(0, append(bytes.Clone(commitmentMagic), chainhash.DoubleHashB(append(root[:], make([]byte, 32)...))...)))
	var ids []chainhash.Hash
	for _, tx := range txs {
		if err := b.AddTransaction(tx); err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, tx.TxHash())
	}
	b.Header.MerkleRoot, _ = merkleRoot(ids)
	for number(b.BlockHash()).Cmp(local.PowLimit) > 0 {
		b.Header.Nonce++
	}
	var raw bytes.Buffer
	if err := b.Serialize(&raw); err != nil {
		tb.Fatal(err)
	}
	return raw.Bytes(), b.BlockHash()
}

func TestABlockIsReadWhole(t *testing.T) {
	t.Parallel()
	raw, hash := made(t, 7)
	s, err := seal(local, raw, hash)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.txs) != 8 || len(s.movements) != 14 || len(s.reward) != 1 || s.height != 0x030201 || !s.told {
		t.Errorf("got %d transactions, %d movements and %d of the miner at height %d, want 8, 14 and 1 at %d",
			len(s.txs), len(s.movements), len(s.reward), s.height, 0x030201)
	}
}

func TestWorkIsChecked(t *testing.T) {
	t.Parallel()
	raw, hash := made(t, 1)
	with := func(bits uint32) ([]byte, chainhash.Hash) {
		b := bytes.Clone(raw)
		b[72], b[73], b[74], b[75] = byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24)
		return b, chainhash.DoubleHashH(b[:headerBytes])
	}
	for name, bits := range map[string]uint32{
		"more work than it shows": 0x1d00ffff, "no work": 0x21007fff, "below zero": 0x20ffffff, "nothing": 0,
	} {
		b, h := with(bits)
		if _, err := seal(local, b, h); err == nil || !strings.Contains(err.Error(), "not the work") {
			t.Errorf("%s: got %v, want it refused for its work", name, err)
		}
	}
	if _, err := seal(&chaincfg.MainNetParams, raw, hash); err == nil || !strings.Contains(err.Error(), "not the work") {
		t.Errorf("on the main network: got %v, want it refused for its work", err)
	}
	// The first block of the main network, and its limit.
	genesis := chaincfg.MainNetParams.GenesisBlock
	var b bytes.Buffer
	if err := genesis.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	s, err := seal(&chaincfg.MainNetParams, b.Bytes(), *chaincfg.MainNetParams.GenesisHash)
	if err != nil || len(s.movements) != 0 || len(s.reward) != 0 {
		t.Errorf("the first block: got %+v, %v, want it read, and a bare key that is no address", s, err)
	}
	for bits, want := range map[uint32]string{0x1d00ffff: "ffff" + strings.Repeat("0", 52), 0x01120000: "12", 0x02123400: "1234", 0x03123456: "123456", 0x04123456: "12345600"} {
		if n, ok := new(big.Int).SetString(want, 16); !ok || target(bits).Cmp(n) != 0 {
			t.Errorf("target(%x): got %x, want %s", bits, target(bits), want)
		}
	}
}

// What the roots do not cover, or would cover twice.
func TestWhatNoNodeWouldHaveIsNoBlock(t *testing.T) {
	t.Parallel()
	raw, hash := made(t, 3)
	for name, c := range map[string]struct {
		change func(b *wire.MsgBlock)
		is     error
	}{
		"no transaction":  {func(b *wire.MsgBlock) { b.Transactions = nil }, chain.ErrUndecodable},
		"no coinbase":     {func(b *wire.MsgBlock) { b.Transactions = b.Transactions[1:] }, chain.ErrUndecodable},
		"two coinbases":   {func(b *wire.MsgBlock) { b.Transactions[2] = b.Transactions[0] }, chain.ErrUndecodable},
		"the end twice":   {func(b *wire.MsgBlock) { b.Transactions = append(b.Transactions, b.Transactions[2:]...) }, nil},
		"another order":   {func(b *wire.MsgBlock) { t := b.Transactions; t[1], t[2] = t[2], t[1] }, nil},
		"another witness": {func(b *wire.MsgBlock) { b.Transactions[1].TxIn[0].Witness[0][5]++ }, nil},
		"a witness added": {func(b *wire.MsgBlock) {
			b.Transactions[1].TxIn[1].Witness = append(b.Transactions[1].TxIn[1].Witness, nil)
		}, nil},
		"another salt":        {func(b *wire.MsgBlock) { b.Transactions[0].TxIn[0].Witness[0][0]++ }, nil},
		"a witness taken off": {func(b *wire.MsgBlock) { b.Transactions[1].TxIn[0].Witness = nil }, nil},
	} {
		var b wire.MsgBlock
		if err := b.Deserialize(bytes.NewReader(raw)); err != nil {
			t.Fatal(err)
		}
		c.change(&b)
		var out bytes.Buffer
		if err := b.Serialize(&out); err != nil {
			t.Fatal(err)
		}
		if _, err := seal(local, out.Bytes(), hash); err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want an error, %v", name, err, c.is)
		}
	}
	for name, b := range map[string][]byte{"nothing": nil, "half a header": raw[:40], "a header": raw[:headerBytes], "cut off": raw[:len(raw)-1], "longer": append(bytes.Clone(raw), 0)} {
		if _, err := seal(local, b, hash); !errors.Is(err, chain.ErrUndecodable) {
			t.Errorf("%s: got %v, want ErrUndecodable", name, err)
		}
	}
}

func TestAmountsOfNodesAreReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"0.00000001": 1, "0.1": 1000_0000, "1": 1_0000_0000, "20999999.97690000": 2099999997690000, "0.29999999": 29999999} {
		var got btc
		if err := json.Unmarshal([]byte(text), &got); err != nil || int64(got) != want {
			t.Errorf("%s: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "1e-8", "0.000000001", "21000001", `"1"`, "null", "true"} {
		var got btc
		if err := got.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s: got %d, want an error", text, got)
		}
	}
}

// FuzzBlock shows that no answer of a node makes the adapter fall over, and that what
// it takes for a block is written back as the same bytes.
func FuzzBlock(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		raw, _ := made(f, n)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := seal(local, raw, chainhash.DoubleHashH(raw[:min(len(raw), headerBytes)]))
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := (&wire.MsgBlock{Header: s.header, Transactions: s.txs}).Serialize(&out); err != nil || !bytes.Equal(out.Bytes(), raw) {
			t.Errorf("got %x, %v, want %x", out.Bytes(), err, raw)
		}
	})
}

// BenchmarkBlock is a block of 3,000 payments from a node's digits to its movements.
func BenchmarkBlock(b *testing.B) {
	raw, hash := made(b, 3000)
	digits := []byte(`"` + hex.EncodeToString(raw) + `"`)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		var got rawHex
		if err := into(digits, &got); err != nil {
			b.Fatal(err)
		}
		s, err := seal(local, got, hash)
		if err != nil || len(s.movements) != 6000 {
			b.Fatalf("got %v, want 6000 movements", err)
		}
	}
}
