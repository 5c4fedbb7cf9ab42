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

// span is where in the bytes of a block a transaction lies. What its hash names, which
// is all but the witnesses, is its version, what lies from ins to witness, and its end.
type span struct {
	from    int
	ins     int // the number of its inputs, and they
	outs    int // the number of its outputs, and they
	witness int
	to      int
}

const (
	versionBytes  = 4  // at the beginning of a transaction
	markerBytes   = 2  // thereafter, where there are witnesses
	lockTimeBytes = 4  // at its end
	outpointBytes = 36 // at the beginning of an input: a hash and a number
	sequenceBytes = 4  // at its end
	valueBytes    = 8  // at the beginning of an output
)

var errCutOff = errors.New("it ends too early")

// A cursor steps over bytes. The first mistake sticks: everything after it is nothing.
type cursor struct {
	b   []byte
	at  int
	err error
}

// take steps over some bytes, which it gives; none once something was wrong.
func (c *cursor) take(n uint64) []byte {
	if c.err != nil || n > uint64(len(c.b)-c.at) {
		if c.err == nil {
			c.err = errCutOff
		}
		return nil
	}
	from := c.at
	c.at += int(n)
	return c.b[from:c.at:c.at]
}

// number reads a number in as few bytes as hold it; in more it is a mistake.
func (c *cursor) number() uint64 {
	if c.err == nil && c.at < len(c.b) && c.b[c.at] < 0xfd {
		c.at++
		return uint64(c.b[c.at-1])
	}
	first := c.take(1)
	if first == nil {
		return 0
	}
	var n, least uint64
	switch first[0] {
	case 0xfd:
		if b := c.take(2); b != nil {
			n, least = uint64(binary.LittleEndian.Uint16(b)), 0xfd
		}
	case 0xfe:
		if b := c.take(4); b != nil {
			n, least = uint64(binary.LittleEndian.Uint32(b)), 1<<16
		}
	case 0xff:
		if b := c.take(8); b != nil {
			n, least = binary.LittleEndian.Uint64(b), 1<<32
		}
	}
	if c.err == nil && n < least {
		c.err = errors.New("a number is written in more bytes than it takes")
	}
	return n
}

// place finds out where the transactions of a block are.
func (s *sealed) place() error {
	c := cursor{b: s.raw, at: headerBytes}
	count := c.number()
	if c.err == nil && (count == 0 || count > uint64(len(c.b)-c.at)) {
		c.err = fmt.Errorf("it has %d transactions in %d bytes", count, len(c.b)-c.at)
	}
	if c.err != nil {
		return c.err
	}
	s.txs = make([]span, 0, min(count, uint64(len(c.b)/transactionBytes)))
	for i := range count {
		t := c.transaction()
		if c.err != nil {
			return fmt.Errorf("transaction %d: %w", i, c.err)
		}
		s.txs = append(s.txs, t)
	}
	if left := len(c.b) - c.at; left > 0 {
		return fmt.Errorf("%d bytes follow it", left)
	}
	return nil
}

// transactionBytes is about the least that a transaction has.
const transactionBytes = 60

// transaction steps over one.
func (c *cursor) transaction() (t span) {
	t.from = c.at
	c.take(versionBytes)
	marked := c.err == nil && c.at < len(c.b) && c.b[c.at] == 0
	if marked {
		if m := c.take(markerBytes); m == nil || m[1] != byte(wire.WitnessFlag) {
			c.fail("its mark for witnesses is another")
		}
	}
	t.ins = c.at
	inputs := c.number()
	if inputs == 0 {
		c.fail("it spends nothing")
	}
	for i := uint64(0); i < inputs && c.err == nil; i++ {
		c.take(outpointBytes)
		c.take(c.number())
		c.take(sequenceBytes)
	}
	t.outs = c.at
	for i, n := uint64(0), c.number(); i < n && c.err == nil; i++ {
		c.take(valueBytes)
		c.take(c.number())
	}
	t.witness = c.at
	if marked {
		any := false
		for i := uint64(0); i < inputs && c.err == nil; i++ {
			items := c.number()
			any = any || items > 0
			for k := uint64(0); k < items && c.err == nil; k++ {
				c.take(c.number())
			}
		}
		if !any {
			c.fail("it is marked for witnesses and has none")
		}
	}
	c.take(lockTimeBytes)
	t.to = c.at
	return t
}

func (c *cursor) fail(what string) {
	if c.err == nil {
		c.err = errors.New(what)
	}
}

// id is the hash of a transaction without its witnesses, which is its name.
func (s *sealed) id(i int, digest hash.Hash) (id chainhash.Hash) {
	t := s.txs[i]
	digest.Reset()
	digest.Write(s.raw[t.from:][:versionBytes])
	digest.Write(s.raw[t.ins:t.witness])
	digest.Write(s.raw[t.to-lockTimeBytes : t.to])
	digest.Sum(id[:0])
	digest.Reset()
	digest.Write(id[:])
	digest.Sum(id[:0])
	return id
}

// tx reads a whole transaction, for whoever needs more of it than where it lies.
func (s *sealed) tx(i int) (*wire.MsgTx, error) { return readTx(s.raw[s.txs[i].from:s.txs[i].to]) }

// spends are the outputs that a transaction spends.
func (s *sealed) spends(i int) (all []wire.OutPoint) {
	c := cursor{b: s.raw, at: s.txs[i].ins}
	for range c.number() {
		out := c.take(outpointBytes)
		all = append(all, wire.OutPoint{Hash: chainhash.Hash(out[:chainhash.HashSize]), Index: binary.LittleEndian.Uint32(out[chainhash.HashSize:])})
		c.take(c.number())
		c.take(sequenceBytes)
	}
	return all
}

// nowhere is what a coinbase spends.
var nowhere = bytes.Join([][]byte{make([]byte, chainhash.HashSize), {0xff, 0xff, 0xff, 0xff}}, nil)

// isCoinbase tells whether a transaction is the one that makes coins.
func (s *sealed) isCoinbase(i int) bool {
	c := cursor{b: s.raw, at: s.txs[i].ins}
	return c.number() == 1 && bytes.Equal(c.take(outpointBytes), nowhere)
}

// coinbaseScript is what a miner wrote into the input of the first transaction.
func (s *sealed) coinbaseScript() []byte {
	c := cursor{b: s.raw, at: s.txs[0].ins}
	c.number()
	c.take(outpointBytes)
	return c.take(c.number())
}

// scripts are those of the outputs of a transaction, in their order.
func (s *sealed) scripts(i int) (all [][]byte) {
	c := cursor{b: s.raw, at: s.txs[i].outs}
	for range c.number() {
		c.take(valueBytes)
		all = append(all, c.take(c.number()))
	}
	return all
}

// outputs adds what a transaction pays to addresses. Data and scripts that are no form of
// address pay nobody, and an output of nothing moves nothing.
func (s *sealed) outputs(p *chaincfg.Params, i int, moved []chain.Transfer) ([]chain.Transfer, error) {
	c := cursor{b: s.raw, at: s.txs[i].outs}
	var hash chain.TxHash
	for n := range c.number() {
		value := binary.LittleEndian.Uint64(c.take(valueBytes))
		script := c.take(c.number())
		if value > supply {
			return moved, fmt.Errorf("output %d of %s has %d satoshi", n, s.ids[i], int64(value))
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
		moved = append(moved, chain.Transfer{
			Tx: hash, Kind: chain.Native, Position: strconv.FormatUint(n, 10), To: to, Amount: money.Units(value),
		})
	}
	return moved, nil
}
