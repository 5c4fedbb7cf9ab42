package bitcoin

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

// verified is how what is in a block was checked against its header.
const verified = "merkle-root"

// headerBytes is the length of a block's header.
const headerBytes = 80

// A sealed block is one whose header gives its hash and shows its work, and whose
// transactions and witnesses give the roots that it commits to. Nothing in it changes
// any more.
type sealed struct {
	hash   chainhash.Hash
	header wire.BlockHeader
	height uint64 // as its coinbase says
	told   bool   // the coinbase says it
	txs    []*wire.MsgTx
	ids    []chainhash.Hash
	// movements are the outputs with an address and an amount, the coinbase's apart. Who
	// sent them stands in other blocks: see Senders.
	movements []chain.Transfer
	reward    []chain.Transfer
}

func (s *sealed) block(height uint64) chain.Block {
	return chain.Block{Height: height, Hash: s.hash.String(), Parent: s.header.PrevBlock.String(), Time: s.header.Timestamp.UTC()}
}

// readHeader reads a header and checks that it has a hash, and the work that it claims.
func readHeader(p *chaincfg.Params, raw []byte, want chainhash.Hash) (wire.BlockHeader, error) {
	var h wire.BlockHeader
	if len(raw) < headerBytes {
		return h, fmt.Errorf("%w: it has %d bytes", chain.ErrUndecodable, len(raw))
	}
	raw = raw[:headerBytes]
	hash := chainhash.DoubleHashH(raw)
	if hash != want {
		return h, fmt.Errorf("gave block %s for %s", hash, want)
	}
	if err := h.Deserialize(bytes.NewReader(raw)); err != nil {
		return h, fmt.Errorf("%w: header: %w", chain.ErrUndecodable, err)
	}
	if target := target(h.Bits); target.Sign() <= 0 || target.Cmp(p.PowLimit) > 0 || number(hash).Cmp(target) > 0 {
		return h, fmt.Errorf("block %s: its hash is not the work that it claims", hash)
	}
	return h, nil
}

// target is the number below which a hash has to lie, from its short form in a header:
// an exponent of 256 and three bytes, of which the highest bit is a sign.
func target(bits uint32) *big.Int {
	t := big.NewInt(int64(bits & 0x7fffff))
	if bits&0x800000 != 0 {
		return t.Neg(t)
	}
	if e := uint(bits >> 24); e <= 3 {
		return t.Rsh(t, 8*(3-e))
	} else {
		return t.Lsh(t, 8*(e-3))
	}
}

// number is a hash as a number.
func number(h chainhash.Hash) *big.Int {
	slices.Reverse(h[:])
	return new(big.Int).SetBytes(h[:])
}

// seal reads a block and checks it.
func seal(p *chaincfg.Params, raw []byte, want chainhash.Hash) (*sealed, error) {
	h, err := readHeader(p, raw, want)
	if err != nil {
		return nil, err
	}
	s := &sealed{hash: want, header: h}
	undecodable := func(format string, args ...any) (*sealed, error) {
		return nil, fmt.Errorf("block %s: %w: %w", want, chain.ErrUndecodable, fmt.Errorf(format, args...))
	}
	places, err := s.readTransactions(raw)
	if err != nil {
		return undecodable("%w", err)
	}
	witness := false
	for i, tx := range s.txs {
		if isCoinbase(tx) != (i == 0) {
			return undecodable("transaction %d is in the wrong place", i)
		}
		witness = witness || tx.HasWitness()
	}
	s.ids = make([]chainhash.Hash, len(s.txs))
	witnesses := make([]chainhash.Hash, len(s.txs))
	moved := make([][]chain.Transfer, len(s.txs))
	wrong := make([]error, len(s.txs))
	spread(len(s.txs), func(from, to int) {
		var stripped []byte
		for i := from; i < to; i++ {
			s.ids[i], witnesses[i], stripped = hashes(s.txs[i], raw[places[i]:places[i+1]], stripped)
			moved[i], wrong[i] = outputs(p, s.ids[i], s.txs[i])
		}
	})
	root, mutated := merkleRoot(slices.Clone(s.ids))
	if root != h.MerkleRoot || mutated {
		return nil, fmt.Errorf("block %s: its transactions do not give the root in its header", want)
	}
	if witness {
		if err := s.checkWitnesses(witnesses); err != nil {
			return nil, fmt.Errorf("block %s: %w", want, err)
		}
	}
	s.height, s.told = heightIn(s.txs[0])
	s.reward = moved[0]
	for i := range s.txs {
		if wrong[i] != nil {
			return undecodable("%w", wrong[i])
		}
		if i > 0 {
			s.movements = append(s.movements, moved[i]...)
		}
	}
	return s, nil
}

// isCoinbase tells whether a transaction is the one that makes coins.
func isCoinbase(tx *wire.MsgTx) bool {
	return len(tx.TxIn) == 1 && tx.TxIn[0].PreviousOutPoint.Index == wire.MaxPrevOutIndex &&
		tx.TxIn[0].PreviousOutPoint.Hash == chainhash.Hash{}
}

// heightIn is the height that a coinbase says it has (BIP-34).
func heightIn(coinbase *wire.MsgTx) (uint64, bool) {
	t := txscript.MakeScriptTokenizer(0, coinbase.TxIn[0].SignatureScript)
	if !t.Next() {
		return 0, false
	}
	if op := t.Opcode(); op == txscript.OP_0 || op >= txscript.OP_1 && op <= txscript.OP_16 {
		return uint64(txscript.AsSmallInt(op)), true
	}
	data := t.Data()
	if len(data) == 0 || len(data) > 5 {
		return 0, false
	}
	n := uint64(0)
	for i, b := range data {
		n |= uint64(b) << (8 * i)
	}
	return n, true
}

// merkleRoot folds hashes, which it overwrites, into their root. mutated says that two
// neighbours are the same: then the same root would stand for another list.
func merkleRoot(level []chainhash.Hash) (root chainhash.Hash, mutated bool) {
	var pair [2 * chainhash.HashSize]byte
	for len(level) > 1 {
		n := 0
		for i := 0; i < len(level); i += 2 {
			left, right := level[i], level[min(i+1, len(level)-1)]
			mutated = mutated || i+1 < len(level) && left == right
			copy(pair[:], left[:])
			copy(pair[chainhash.HashSize:], right[:])
			level[n] = chainhash.DoubleHashH(pair[:])
			n++
		}
		level = level[:n]
	}
	return level[0], mutated
}

// commitmentMagic begins the output of a coinbase that commits to the witnesses.
var commitmentMagic = []byte{txscript.OP_RETURN, txscript.OP_DATA_36, 0xaa, 0x21, 0xa9, 0xed}

// checkWitnesses compares the witnesses with what the coinbase commits to (BIP-141).
// They are no part of a transaction's hash. A block without any has nothing to compare,
// whatever it commits to.
func (s *sealed) checkWitnesses(hashes []chainhash.Hash) error {
	coinbase := s.txs[0]
	var committed []byte
	for _, out := range coinbase.TxOut {
		if len(out.PkScript) >= len(commitmentMagic)+chainhash.HashSize && bytes.HasPrefix(out.PkScript, commitmentMagic) {
			committed = out.PkScript[len(commitmentMagic):][:chainhash.HashSize]
		}
	}
	salt := coinbase.TxIn[0].Witness
	switch {
	case committed == nil:
		return errors.New("it has witnesses, and its coinbase commits to none")
	case len(salt) != 1 || len(salt[0]) != chainhash.HashSize:
		return errors.New("the witness of its coinbase has another form")
	}
	hashes[0] = chainhash.Hash{} // the coinbase cannot commit to itself
	root, _ := merkleRoot(hashes)
	if got := chainhash.DoubleHashB(append(root[:], salt[0]...)); !bytes.Equal(got, committed) {
		return errors.New("its witnesses are not those that its coinbase commits to")
	}
	return nil
}

// readTransactions reads all that follows the header, and where each transaction begins
// and the last one ends.
func (s *sealed) readTransactions(raw []byte) (places []int, err error) {
	body := bytes.NewReader(raw[headerBytes:])
	count, err := wire.ReadVarInt(body, 0)
	if err != nil {
		return nil, err
	}
	if count == 0 || count > uint64(body.Len()) {
		return nil, fmt.Errorf("it has %d transactions in %d bytes", count, body.Len())
	}
	place := func() { places = append(places, len(raw)-body.Len()) }
	place()
	for i := range count {
		tx := new(wire.MsgTx)
		if err := tx.Deserialize(body); err != nil {
			return nil, fmt.Errorf("transaction %d: %w", i, err)
		}
		if flagged(raw[places[i]:]) && !tx.HasWitness() {
			return nil, fmt.Errorf("transaction %d: it is marked for witnesses and has none", i)
		}
		s.txs = append(s.txs, tx)
		place()
	}
	if body.Len() > 0 {
		return nil, fmt.Errorf("%d bytes follow it", body.Len())
	}
	return places, nil
}

const (
	versionBytes  = 4 // at the beginning of a transaction
	markerBytes   = 2 // thereafter, where there are witnesses
	lockTimeBytes = 4 // at its end
)

// flagged tells whether the bytes of a transaction say that witnesses follow.
func flagged(raw []byte) bool { return raw[versionBytes] == 0 }

// hashes are a transaction's name, which leaves the witnesses out, and the hash of all of
// it. They are taken from the bytes that it was read from: writing it anew takes longer
// than hashing. buffer may be used again.
func hashes(tx *wire.MsgTx, raw, buffer []byte) (id, whole chainhash.Hash, _ []byte) {
	whole = chainhash.DoubleHashH(raw)
	if !flagged(raw) {
		return whole, whole, buffer
	}
	middle := tx.SerializeSizeStripped() - versionBytes - lockTimeBytes
	buffer = append(buffer[:0], raw[:versionBytes]...)
	buffer = append(buffer, raw[versionBytes+markerBytes:][:middle]...)
	buffer = append(buffer, raw[len(raw)-lockTimeBytes:]...)
	return chainhash.DoubleHashH(buffer), whole, buffer
}

// spread does work on the numbers below n, in parts at the same time.
func spread(n int, work func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), partsMax, n/partItems+1)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { work(n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
}

const (
	partsMax  = 4
	partItems = 256 // fewer are not worth a part of their own
)

// outputs are what a transaction pays to addresses. Data and scripts that are no form of
// address pay nobody, and an output of nothing moves nothing.
func outputs(p *chaincfg.Params, id chainhash.Hash, tx *wire.MsgTx) ([]chain.Transfer, error) {
	var moved []chain.Transfer
	var hash chain.TxHash
	for n, out := range tx.TxOut {
		if out.Value < 0 || out.Value > supply {
			return nil, fmt.Errorf("output %d of %s has %d satoshi", n, id, out.Value)
		}
		if out.Value == 0 {
			continue
		}
		to, ok := bitcointx.AddressOf(p, out.PkScript)
		if !ok {
			continue
		}
		if hash == "" {
			hash = chain.TxHash(id.String())
		}
		moved = append(moved, chain.Transfer{
			Tx: hash, Kind: chain.Native, Position: strconv.Itoa(n), To: to, Amount: money.Units(uint64(out.Value)),
		})
	}
	return moved, nil
}

// supply is all the satoshi that there will ever be.
const supply = 21_000_000 * 1_0000_0000

const blocksKept = 16

// blocks are the sealed blocks that were fetched last: the head walk and the final walk
// ask for the same ones.
type blocks struct {
	mu   sync.Mutex
	kept []*sealed // oldest first
}

func (b *blocks) find(hash chainhash.Hash) *sealed {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.kept {
		if s.hash == hash {
			return s
		}
	}
	return nil
}

func (b *blocks) keep(s *sealed) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.kept) == blocksKept {
		b.kept = append(b.kept[:0], b.kept[1:]...)
	}
	b.kept = append(b.kept, s)
}
