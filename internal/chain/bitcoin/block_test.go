package bitcoin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

var local = &chaincfg.RegressionNetParams

// made returns a block with its proof of work: transactions of two inputs and two outputs each, in
// the most frequent forms of the main network.
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
			return append(append([]byte{txscript.OP_DUP, txscript.OP_HASH160, 20}, hash(i)[:20]...),
				txscript.OP_EQUALVERIFY, txscript.OP_CHECKSIG)
		},
		func(i int) []byte {
			return append(append([]byte{txscript.OP_HASH160, 20}, hash(i)[:20]...), txscript.OP_EQUAL)
		},
	}
	coinbase := wire.NewMsgTx(2)
	coinbase.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&chainhash.Hash{}, wire.MaxPrevOutIndex), []byte{3, 1, 2, 3},
		[][]byte{make([]byte, 32)}))
	coinbase.AddTxOut(wire.NewTxOut(50_0000_0000, scripts[0](0)))
	b := wire.NewMsgBlock(&wire.BlockHeader{
		Version: 4, Bits: local.PowLimitBits,
		Timestamp: time.Unix(1_800_000_000, 0),
	})
	txs := []*wire.MsgTx{coinbase}
	witnesses := []chainhash.Hash{{}}
	for i := range payments {
		tx := wire.NewMsgTx(2)
		for k := range 2 {
			before := chainhash.DoubleHashH(hash(2*i + k))
			in := wire.NewTxIn(wire.NewOutPoint(&before, uint32(k)), nil, nil)
			if i%4 == 3 {
				in.SignatureScript = append(append(append([]byte{byte(len(signature))}, signature...), byte(len(key))),
					key...)
			} else {
				in.Witness = wire.TxWitness{signature, key}
			}
			tx.AddTxIn(in)
			tx.AddTxOut(wire.NewTxOut(int64(1000+i), scripts[(i+k)%len(scripts)](2*i+k)))
		}
		txs, witnesses = append(txs, tx), append(witnesses, tx.WitnessHash())
	}
	root, _ := merkleRoot(witnesses)
	commitment := []byte{txscript.OP_RETURN, txscript.OP_DATA_36, 0xaa, 0x21, 0xa9, 0xed}
	coinbase.AddTxOut(wire.NewTxOut(0, append(commitment,
		chainhash.DoubleHashB(append(root[:], make([]byte, 32)...))...)))
	var ids []chainhash.Hash
	for _, tx := range txs {
		if err := b.AddTransaction(tx); err != nil {
			tb.Fatal(err)
		}
		ids = append(ids, tx.TxHash())
	}
	b.Header.MerkleRoot, _ = merkleRoot(ids)
	for hashNumber(b.BlockHash()).Cmp(local.PowLimit) > 0 {
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
	s, err := verifyBlock(local, raw, hash)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.txs) != 8 || len(s.movements) != 14 || len(s.reward) != 1 || s.height != 0x030201 || !s.hasHeight {
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
		if _, err := verifyBlock(local, b, h); err == nil || !strings.Contains(err.Error(), "does not have the work") {
			t.Errorf("%s: got %v, want it refused for its work", name, err)
		}
	}
	if _, err := verifyBlock(&chaincfg.MainNetParams, raw, hash); err == nil ||
		!strings.Contains(err.Error(), "does not have the work") {
		t.Errorf("on the main network: got %v, want it refused for its work", err)
	}
	// The first block of the main network, and its limit.
	genesis := chaincfg.MainNetParams.GenesisBlock
	var b bytes.Buffer
	if err := genesis.Serialize(&b); err != nil {
		t.Fatal(err)
	}
	s, err := verifyBlock(&chaincfg.MainNetParams, b.Bytes(), *chaincfg.MainNetParams.GenesisHash)
	if err != nil || len(s.movements) != 0 || len(s.reward) != 0 {
		t.Errorf("the first block: got %+v, %v, want it read, and a bare key that is no address", s, err)
	}
	for bits, want := range map[uint32]string{
		0x1d00ffff: "ffff" + strings.Repeat("0", 52), 0x01120000: "12",
		0x02123400: "1234", 0x03123456: "123456", 0x04123456: "12345600",
	} {
		if n, ok := new(big.Int).SetString(want, 16); !ok || expandTarget(bits).Cmp(n) != 0 {
			t.Errorf("target(%x): got %x, want %s", bits, expandTarget(bits), want)
		}
	}
}

// Data that the roots do not cover, or would cover twice.
func TestWhatNoNodeWouldHaveIsNoBlock(t *testing.T) {
	t.Parallel()
	raw, hash := made(t, 3)
	for name, c := range map[string]struct {
		change func(b *wire.MsgBlock)
		is     error
	}{
		"no transaction": {func(b *wire.MsgBlock) { b.Transactions = nil }, chain.ErrUndecodable},
		"no coinbase":    {func(b *wire.MsgBlock) { b.Transactions = b.Transactions[1:] }, chain.ErrUndecodable},
		"two coinbases":  {func(b *wire.MsgBlock) { b.Transactions[2] = b.Transactions[0] }, chain.ErrUndecodable},
		"the end twice": {func(b *wire.MsgBlock) {
			b.Transactions = append(b.Transactions, b.Transactions[2:]...)
		}, nil},
		"another order":   {func(b *wire.MsgBlock) { t := b.Transactions; t[1], t[2] = t[2], t[1] }, nil},
		"another output":  {func(b *wire.MsgBlock) { b.Transactions[1].TxOut[0].Value++ }, nil},
		"another input":   {func(b *wire.MsgBlock) { b.Transactions[1].TxIn[1].PreviousOutPoint.Index++ }, nil},
		"another version": {func(b *wire.MsgBlock) { b.Transactions[1].Version++ }, nil},
		"another time":    {func(b *wire.MsgBlock) { b.Transactions[2].LockTime++ }, nil},
		"another order of coins": {func(b *wire.MsgBlock) {
			in := b.Transactions[1].TxIn
			in[0], in[1] = in[1], in[0]
		}, nil},
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
		if _, err := verifyBlock(local, out.Bytes(), hash); err == nil || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: got %v, want an error, %v", name, err, c.is)
		}
	}
	for name, b := range map[string][]byte{
		"nothing": nil, "half a header": raw[:40], "a header": raw[:headerBytes],
		"cut off": raw[:len(raw)-1], "longer": append(bytes.Clone(raw), 0),
	} {
		if _, err := verifyBlock(local, b, hash); !errors.Is(err, chain.ErrUndecodable) {
			t.Errorf("%s: got %v, want ErrUndecodable", name, err)
		}
	}
}

func TestAmountsOfNodesAreReadExactly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{
		"0.00000001": 1, "0.1": 1000_0000, "1": 1_0000_0000,
		"20999999.97690000": 2099999997690000, "0.29999999": 29999999,
	} {
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

// whole reads a block with the library, and returns what seal returns for it.
func whole(raw []byte, want chainhash.Hash) (*verifiedBlock, error) {
	h, err := readHeader(local, raw, want)
	if err != nil {
		return nil, err
	}
	var b wire.MsgBlock
	body := bytes.NewReader(raw)
	if err := b.Deserialize(body); err != nil {
		return nil, err
	}
	var again bytes.Buffer
	if err := b.Serialize(&again); err != nil || body.Len() > 0 || !bytes.Equal(again.Bytes(), raw) ||
		len(b.Transactions) == 0 {
		return nil, errors.New("it is not written as it is read")
	}
	s := &verifiedBlock{hash: want, header: h}
	for i, tx := range b.Transactions {
		if isCoinbaseTx(tx) != (i == 0) {
			return nil, errors.New("a transaction in the wrong place")
		}
		s.ids = append(s.ids, tx.TxHash())
	}
	root, mutated := merkleRoot(slices.Clone(s.ids))
	if root != h.MerkleRoot || mutated {
		return nil, errors.New("another root")
	}
	for i, tx := range b.Transactions {
		for n, out := range tx.TxOut {
			if out.Value < 0 || out.Value > satoshiSupply {
				return nil, errors.New("another amount than there can be")
			}
			to, ok := bitcointx.AddressOf(local, out.PkScript)
			if !ok || out.Value == 0 {
				continue
			}
			moved := chain.Transfer{
				Tx: chain.TxHash(s.ids[i].String()), Kind: chain.Native, Position: strconv.Itoa(n), To: to,
				Amount: money.Units(uint64(out.Value)),
			}
			if i == 0 {
				s.reward = append(s.reward, moved)
			} else {
				s.movements = append(s.movements, moved)
			}
		}
	}
	s.height, s.hasHeight = coinbaseHeight(b.Transactions[0].TxIn[0].SignatureScript)
	return s, nil
}

// same fails if our decoder and the library's read a block differently.
func same(t *testing.T, raw []byte, hash chainhash.Hash) {
	t.Helper()
	got, err := verifyBlock(local, raw, hash)
	want, other := whole(raw, hash)
	if (err == nil) != (other == nil) {
		t.Fatalf("%x: got %v, want %v", raw, err, other)
	}
	if err != nil {
		return
	}
	if got.header != want.header || !slices.Equal(got.ids, want.ids) || !slices.Equal(got.movements, want.movements) ||
		!slices.Equal(got.reward, want.reward) || got.height != want.height || got.hasHeight != want.hasHeight {
		t.Fatalf("%x: got %+v, want %+v", raw, got, want)
	}
	var b wire.MsgBlock
	if err := b.Deserialize(bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	for i, tx := range b.Transactions {
		var spends []wire.OutPoint
		for _, in := range tx.TxIn {
			spends = append(spends, in.PreviousOutPoint)
		}
		if !slices.Equal(got.spentOutpoints(i), spends) {
			t.Fatalf("transaction %d: got %v spent, want %v", i, got.spentOutpoints(i), spends)
		}
		scripts := got.outputScripts(i)
		for n, out := range tx.TxOut {
			if len(scripts) != len(tx.TxOut) || !bytes.Equal(scripts[n], out.PkScript) {
				t.Fatalf("transaction %d: got scripts %x, want %x in place %d", i, scripts, out.PkScript, n)
			}
		}
	}
}

// resealed gives a block the root of its transactions and its proof of work, so that a change in it
// passes the check of the header.
func resealed(raw []byte) ([]byte, chainhash.Hash) {
	raw = bytes.Clone(raw)
	s := &verifiedBlock{raw: raw}
	if len(raw) < headerBytes {
		return raw, chainhash.DoubleHashH(raw)
	}
	binary.LittleEndian.PutUint32(raw[72:], local.PowLimitBits)
	if s.locateTxs() == nil {
		for i := range s.txs {
			s.ids = append(s.ids, s.txID(i, sha256.New()))
		}
		root, _ := merkleRoot(s.ids)
		copy(raw[36:], root[:])
	}
	for n := uint32(0); ; n++ {
		binary.LittleEndian.PutUint32(raw[76:], n)
		if h := chainhash.DoubleHashH(raw[:headerBytes]); hashNumber(h).Cmp(local.PowLimit) <= 0 {
			return raw, h
		}
	}
}

// Our decoder and the library's read every block the same.
func TestABlockIsReadAsTheLibraryReadsIt(t *testing.T) {
	t.Parallel()
	raw, hash := made(t, 600) // several parts
	same(t, raw, hash)
	raw, _ = made(t, 9)
	random := rand.New(rand.NewPCG(1, 2))
	taken := 0
	for range 20_000 {
		b := bytes.Clone(raw)
		for range 1 + random.IntN(3) {
			switch at := headerBytes + random.IntN(len(b)-headerBytes); random.IntN(4) {
			case 0:
				b[at] = byte(random.Uint32())
			case 1:
				b[at] ^= 1 << random.IntN(8)
			case 2:
				b = slices.Insert(b, at, byte(random.Uint32()))
			default:
				b = slices.Delete(b, at, min(at+1+random.IntN(3), len(b)))
			}
		}
		b, hash := resealed(b)
		same(t, b, hash)
		if _, err := verifyBlock(local, b, hash); err == nil {
			taken++
		}
	}
	if taken < 1000 {
		t.Errorf("got %d blocks that both take, want many", taken)
	}
}

// FuzzBlock shows that no node's answer makes the adapter panic, and that it reads every block like
// the library.
func FuzzBlock(f *testing.F) {
	for _, n := range []int{0, 1, 5} {
		raw, _ := made(f, n)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		same(t, raw, chainhash.DoubleHashH(raw[:min(len(raw), headerBytes)]))
		raw, hash := resealed(raw)
		same(t, raw, hash)
	})
}

// BenchmarkBlock measures a block of 3,000 payments from a node's digits to its movements.
func BenchmarkBlock(b *testing.B) {
	raw, hash := made(b, 3000)
	digits := []byte(`"` + hex.EncodeToString(raw) + `"`)
	b.SetBytes(int64(len(raw)))
	metered(b, func() {
		var got rawHex
		if err := decodeResult(digits, &got); err != nil {
			b.Fatal(err)
		}
		s, err := verifyBlock(local, got, hash)
		if err != nil || len(s.movements) != 6000 {
			b.Fatalf("got %v, want 6000 movements", err)
		}
	})
}

// BenchmarkSHA256 measures one hash of the same bytes.
func BenchmarkSHA256(b *testing.B) {
	raw, _ := made(b, 3000)
	b.SetBytes(int64(len(raw)))
	metered(b, func() { sha256.Sum256(raw) })
}

// metered reports the processor time of each round, with the garbage collector's: other processes
// on the machine do not change it.
func metered(b *testing.B, round func()) {
	b.Helper()
	spent := func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			b.Fatal(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
	before := spent()
	for b.Loop() {
		round()
	}
	b.ReportMetric(float64(spent()-before)/float64(b.N), "cpu-ns/op")
}
