package bitcoin

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"math/big"
	"runtime"
	"slices"
	"sync"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
)

// verified says how the contents of a block were checked against its header.
const verified = "merkle-root"

// headerBytes is the length of a block's header.
const headerBytes = 80

// verifiedBlock is a block whose header gives its hash and shows its work, and whose transactions
// give the root that it commits to. Nothing in it can change.
//
// It is read from its bytes, once: a transaction is a position in them. Witnesses are skipped,
// because no root that matters here covers them and nothing is read from them.
type verifiedBlock struct {
	hash      chainhash.Hash
	header    wire.BlockHeader
	height    uint64 // as its coinbase says
	hasHeight bool   // the coinbase says it
	raw       []byte
	txs       []span
	ids       []chainhash.Hash
	// movements are the outputs with an address and an amount, without those of the coinbase. Their
	// senders are in other blocks: see Senders.
	movements []chain.Transfer
	reward    []chain.Transfer
}

func (s *verifiedBlock) toChainBlock(height uint64) chain.Block {
	return chain.Block{
		Height: height, Hash: s.hash.String(), Parent: s.header.PrevBlock.String(),
		Time: s.header.Timestamp.UTC(),
	}
}

// readHeader reads a header and checks that it has a hash and the work that it claims.
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
	if target := expandTarget(h.Bits); target.Sign() <= 0 || target.Cmp(p.PowLimit) > 0 ||
		hashNumber(hash).Cmp(target) > 0 {
		return h, fmt.Errorf("block %s: its hash does not have the work that it claims", hash)
	}
	return h, nil
}

// expandTarget returns the number below which a hash has to be, from its short form in a header: an
// exponent of 256 and three bytes, of which the highest bit is a sign.
func expandTarget(bits uint32) *big.Int {
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

// hashNumber returns a hash as a number.
func hashNumber(h chainhash.Hash) *big.Int {
	slices.Reverse(h[:])
	return new(big.Int).SetBytes(h[:])
}

// verifyBlock decodes a block and checks it.
func verifyBlock(p *chaincfg.Params, raw []byte, want chainhash.Hash) (*verifiedBlock, error) {
	h, err := readHeader(p, raw, want)
	if err != nil {
		return nil, err
	}
	s := &verifiedBlock{hash: want, header: h, raw: raw}
	undecodable := func(format string, args ...any) (*verifiedBlock, error) {
		return nil, fmt.Errorf("block %s: %w: %w", want, chain.ErrUndecodable, fmt.Errorf(format, args...))
	}
	if err := s.locateTxs(); err != nil {
		return undecodable("%w", err)
	}
	for i := range s.txs {
		if s.isCoinbase(i) != (i == 0) {
			return undecodable("transaction %d is in the wrong position", i)
		}
	}
	s.ids = make([]chainhash.Hash, len(s.txs))
	var transfers [partsMax + 1][]chain.Transfer
	var wrong [partsMax + 1]error
	read := func(part, from, to int) {
		digest := sha256.New()
		for i := from; i < to; i++ {
			s.ids[i] = s.txID(i, digest)
			if wrong[part] == nil {
				transfers[part], wrong[part] = s.appendTransfers(p, i, transfers[part])
			}
		}
	}
	read(partsMax, 0, 1)
	runParallel(len(s.txs)-1, func(part, from, to int) {
		transfers[part] = make([]chain.Transfer, 0, typicalOutputs*(to-from))
		read(part, from+1, to+1)
	})
	root, mutated := merkleRoot(slices.Clone(s.ids))
	if root != h.MerkleRoot || mutated {
		return nil, fmt.Errorf("block %s: its transactions do not have the root in its header", want)
	}
	if err := cmp.Or(wrong[partsMax], cmp.Or(wrong[:partsMax]...)); err != nil {
		return undecodable("%w", err)
	}
	s.height, s.hasHeight = coinbaseHeight(s.coinbaseScript())
	s.reward = transfers[partsMax]
	s.movements = slices.Concat(transfers[:partsMax]...)
	return s, nil
}

const typicalOutputs = 2 // of a transaction, for the initial capacity

// coinbaseHeight returns the height that the script of a coinbase contains (BIP-34).
func coinbaseHeight(script []byte) (uint64, bool) {
	t := txscript.MakeScriptTokenizer(0, script)
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

// merkleRoot reduces hashes, which it overwrites, to their root. mutated says that two neighbours
// are equal: then another list has the same root.
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

// runParallel does work on the numbers below n, in parts at the same time.
func runParallel(n int, work func(part, from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), partsMax, n/partItems+1)
	var wg sync.WaitGroup
	for i := range parts {
		wg.Go(func() { work(i, n*i/parts, n*(i+1)/parts) })
	}
	wg.Wait()
}

const (
	partsMax  = 4
	partItems = 256 // fewer are not worth a part of their own
)

// satoshiSupply is the number of satoshi that can ever exist.
const satoshiSupply = 21_000_000 * 1_0000_0000
