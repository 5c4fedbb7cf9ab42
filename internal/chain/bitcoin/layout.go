package bitcoin

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"strconv"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

// span is the position of a transaction in the bytes of a block. Its hash covers all but the
// witnesses: its version, the bytes from inputs to witness, and its end.
type span struct {
	start   int
	inputs  int // start of the number of inputs and of the inputs
	outputs int // start of the number of outputs and of the outputs
	witness int
	end     int
}

const (
	versionBytes  = 4  // at the beginning of a transaction
	markerBytes   = 2  // after that, where there are witnesses
	lockTimeBytes = 4  // at its end
	outpointBytes = 36 // at the beginning of an input: a hash and a number
	sequenceBytes = 4  // at its end
	valueBytes    = 8  // at the beginning of an output
)

var errCutOff = errors.New("it ends too early")

// cursor steps over bytes. The first error persists: everything after it reads as empty.
type cursor struct {
	b   []byte
	pos int
	err error
}

// takeBytes steps over bytes and returns them; none after an error.
func (c *cursor) takeBytes(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.b)-c.pos) {
		if c.err == nil {
			c.err = errCutOff
		}
		return nil
	}
	start := c.pos
	c.pos += int(n)
	return c.b[start:c.pos:c.pos]
}

// takeVarInt reads a number in the fewest bytes that hold it; a longer form is an error.
func (c *cursor) takeVarInt() uint64 {
	if c.err == nil && c.pos < len(c.b) && c.b[c.pos] < 0xfd {
		c.pos++
		return uint64(c.b[c.pos-1])
	}
	first := c.takeBytes(1)
	if first == nil {
		return 0
	}
	var n, minimum uint64
	switch first[0] {
	case 0xfd:
		if b := c.takeBytes(2); b != nil {
			n, minimum = uint64(binary.LittleEndian.Uint16(b)), 0xfd
		}
	case 0xfe:
		if b := c.takeBytes(4); b != nil {
			n, minimum = uint64(binary.LittleEndian.Uint32(b)), 1<<16
		}
	case 0xff:
		if b := c.takeBytes(8); b != nil {
			n, minimum = binary.LittleEndian.Uint64(b), 1<<32
		}
	}
	if c.err == nil && n < minimum {
		c.err = errors.New("a number has more bytes than it needs")
	}
	return n
}

// locateTxs finds the positions of the transactions in a block.
func (s *verifiedBlock) locateTxs() error {
	c := cursor{b: s.raw, pos: headerBytes}
	count := c.takeVarInt()
	if c.err == nil && (count == 0 || count > uint64(len(c.b)-c.pos)) {
		c.err = fmt.Errorf("it has %d transactions in %d bytes", count, len(c.b)-c.pos)
	}
	if c.err != nil {
		return c.err
	}
	s.txs = make([]span, 0, min(count, uint64(len(c.b)/transactionBytes)))
	for i := range count {
		t := c.takeTx()
		if c.err != nil {
			return fmt.Errorf("transaction %d: %w", i, c.err)
		}
		s.txs = append(s.txs, t)
	}
	if left := len(c.b) - c.pos; left > 0 {
		return fmt.Errorf("%d bytes follow it", left)
	}
	return nil
}

// transactionBytes is about the smallest size of a transaction.
const transactionBytes = 60

// takeTx steps over one transaction.
func (c *cursor) takeTx() (t span) {
	t.start = c.pos
	c.takeBytes(versionBytes)
	marked := c.err == nil && c.pos < len(c.b) && c.b[c.pos] == 0
	if marked {
		if m := c.takeBytes(markerBytes); m == nil || m[1] != byte(wire.WitnessFlag) {
			c.fail("its mark for witnesses is another")
		}
	}
	t.inputs = c.pos
	inputs := c.takeVarInt()
	if inputs == 0 {
		c.fail("it spends nothing")
	}
	for i := uint64(0); i < inputs && c.err == nil; i++ {
		c.takeBytes(outpointBytes)
		c.takeBytes(c.takeVarInt())
		c.takeBytes(sequenceBytes)
	}
	t.outputs = c.pos
	for i, n := uint64(0), c.takeVarInt(); i < n && c.err == nil; i++ {
		c.takeBytes(valueBytes)
		c.takeBytes(c.takeVarInt())
	}
	t.witness = c.pos
	if marked {
		hasWitness := false
		for i := uint64(0); i < inputs && c.err == nil; i++ {
			items := c.takeVarInt()
			hasWitness = hasWitness || items > 0
			for k := uint64(0); k < items && c.err == nil; k++ {
				c.takeBytes(c.takeVarInt())
			}
		}
		if !hasWitness {
			c.fail("it is marked for witnesses and has none")
		}
	}
	c.takeBytes(lockTimeBytes)
	t.end = c.pos
	return t
}

func (c *cursor) fail(message string) {
	if c.err == nil {
		c.err = errors.New(message)
	}
}

// txID returns the hash of a transaction without its witnesses, which is its id.
func (s *verifiedBlock) txID(i int, digest hash.Hash) (id chainhash.Hash) {
	t := s.txs[i]
	digest.Reset()
	digest.Write(s.raw[t.start:][:versionBytes])
	digest.Write(s.raw[t.inputs:t.witness])
	digest.Write(s.raw[t.end-lockTimeBytes : t.end])
	digest.Sum(id[:0])
	digest.Reset()
	digest.Write(id[:])
	digest.Sum(id[:0])
	return id
}

// decodeTx decodes a whole transaction, for callers that need more than its position.
func (s *verifiedBlock) decodeTx(i int) (*wire.MsgTx, error) {
	return readTx(s.raw[s.txs[i].start:s.txs[i].end])
}

// spentOutpoints returns the outpoints that a transaction spends.
func (s *verifiedBlock) spentOutpoints(i int) (outpoints []wire.OutPoint) {
	c := cursor{b: s.raw, pos: s.txs[i].inputs}
	for range c.takeVarInt() {
		out := c.takeBytes(outpointBytes)
		outpoints = append(outpoints, wire.OutPoint{
			Hash:  chainhash.Hash(out[:chainhash.HashSize]),
			Index: binary.LittleEndian.Uint32(out[chainhash.HashSize:]),
		})
		c.takeBytes(c.takeVarInt())
		c.takeBytes(sequenceBytes)
	}
	return outpoints
}

// nullOutpoint is what a coinbase spends.
var nullOutpoint = bytes.Join([][]byte{make([]byte, chainhash.HashSize), {0xff, 0xff, 0xff, 0xff}}, nil)

// isCoinbase reports whether a transaction is a coinbase.
func (s *verifiedBlock) isCoinbase(i int) bool {
	c := cursor{b: s.raw, pos: s.txs[i].inputs}
	return c.takeVarInt() == 1 && bytes.Equal(c.takeBytes(outpointBytes), nullOutpoint)
}

// coinbaseScript returns the script that the miner wrote into the input of the first transaction.
func (s *verifiedBlock) coinbaseScript() []byte {
	c := cursor{b: s.raw, pos: s.txs[0].inputs}
	c.takeVarInt()
	c.takeBytes(outpointBytes)
	return c.takeBytes(c.takeVarInt())
}

// outputScripts returns the scripts of a transaction's outputs, in their order.
func (s *verifiedBlock) outputScripts(i int) (scripts [][]byte) {
	c := cursor{b: s.raw, pos: s.txs[i].outputs}
	for range c.takeVarInt() {
		c.takeBytes(valueBytes)
		scripts = append(scripts, c.takeBytes(c.takeVarInt()))
	}
	return scripts
}

// appendTransfers appends what a transaction pays to addresses. Data and scripts without an address
// pay no one, and an output of zero moves nothing.
func (s *verifiedBlock) appendTransfers(
	p *chaincfg.Params, i int, transfers []chain.Transfer,
) ([]chain.Transfer, error) {
	c := cursor{b: s.raw, pos: s.txs[i].outputs}
	var hash chain.TxHash
	for n := range c.takeVarInt() {
		value := binary.LittleEndian.Uint64(c.takeBytes(valueBytes))
		script := c.takeBytes(c.takeVarInt())
		if value > satoshiSupply {
			return transfers, fmt.Errorf("output %d of %s has %d satoshi", n, s.ids[i], int64(value))
		}
		if value == 0 {
			continue
		}
		to, ok := bitcointx.AddressOf(p, script)
		if !ok {
			continue
		}
		if hash == "" {
			hash = chain.TxHash(s.ids[i].String())
		}
		transfers = append(transfers, chain.Transfer{
			Tx: hash, Kind: chain.Native, Position: strconv.FormatUint(n, 10), To: to, Amount: money.Units(value),
		})
	}
	return transfers, nil
}
