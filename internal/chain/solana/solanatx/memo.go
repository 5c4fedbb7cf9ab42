package solanatx

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	version0, version1 = 0x80, 0x81
	// signedBytesMax is the greatest length of a transaction of version 1; others fit a packet.
	signedBytesMax = 4096
)

var (
	memoProgram1 = mustBytes("Memo1UhkJRfHyvLMcVucJwxXeuD728EqVDDwQDxFMNo")
	memoProgram2 = mustBytes("MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr")
)

// Memo returns what a signed transaction passes to the Memo program, in either of its versions,
// byte for byte: "" for nothing, and several memos in their order with a newline between.
//
// The transaction's id proves it: the id is the fee payer's signature over the message, and the
// message contains the instructions. Error: the bytes are not those of that transaction, or cannot
// be decoded. Instructions that programs call are in no message and not proven, so they do not
// count.
func Memo(raw []byte, tx chain.TxHash) (string, error) {
	s, err := readSigned(raw)
	if err != nil {
		return "", err
	}
	if id := s.id(); id != tx {
		return "", fmt.Errorf("these are the bytes of transaction %s", id)
	}
	if !ed25519.Verify(s.keys[0][:], s.message, s.signatures[0][:]) {
		return "", errors.New("the transaction's id is not the fee payer's signature over these bytes")
	}
	var memos []string
	for _, in := range s.ins {
		if (in.program == memoProgram1 || in.program == memoProgram2) && len(in.data) > 0 {
			memos = append(memos, string(in.data))
		}
	}
	return strings.Join(memos, "\n"), nil
}

// signed is a transaction with its signatures, of any sender and form.
type signed struct {
	signatures [][signatureBytes]byte // of the first keys, in their order
	message    []byte                 // what is signed
	keys       [][keyBytes]byte       // the keys of the message; the first pays the fee
	ins        []called
}

// id returns the transaction's id, which is the fee payer's signature.
func (s signed) id() chain.TxHash { return hashFrom(s.signatures[0]) }

// called is an instruction of a message. The chain requires its program among the message's keys.
type called struct {
	program [keyBytes]byte
	data    []byte
}

// readSigned decodes a transaction. In version 1 the signatures follow the message, in the others
// they precede it.
func readSigned(raw []byte) (s signed, err error) {
	if len(raw) > signedBytesMax {
		return s, fmt.Errorf("transaction has %d bytes, more than %d", len(raw), signedBytesMax)
	}
	c := &cursor{b: raw}
	var signatures []byte
	if len(raw) > 0 && raw[0] == version1 {
		required := s.readVersion1(c)
		s.message = raw[:len(raw)-len(c.b)]
		signatures = c.takeBytes(required * signatureBytes)
	} else {
		signatures = c.takeBytes(c.takeCount() * signatureBytes)
		s.message = c.b
		s.readVersion0(c)
	}
	switch {
	case c.err != nil:
		return s, c.err
	case len(c.b) != 0:
		return s, fmt.Errorf("transaction has %d bytes too many", len(c.b))
	case len(signatures) == 0 || len(s.keys) == 0:
		return s, errors.New("transaction is not signed")
	}
	for signature := range slices.Chunk(signatures, signatureBytes) {
		s.signatures = append(s.signatures, [signatureBytes]byte(signature))
	}
	return s, nil
}

// readVersion0 reads a message of version 0, or a legacy one, which has no version.
func (s *signed) readVersion0(c *cursor) {
	version := c.takeByte()
	versioned := version&0x80 != 0
	if versioned {
		if version != version0 {
			c.fail(fmt.Sprintf("transaction has version %d, which is not known", version&0x7f))
			return
		}
		c.takeByte()
	}
	c.takeBytes(2)
	s.readKeys(c, c.takeCount())
	c.takeBytes(keyBytes) // the recent blockhash
	for range c.takeCount() {
		program := c.takeByte()
		c.takeBytes(c.takeCount())
		s.call(c, program, c.takeBytes(c.takeCount()))
		if c.err != nil {
			return
		}
	}
	if !versioned {
		return
	}
	for range c.takeCount() { // tables, from which no program may be taken
		c.takeBytes(keyBytes)
		c.takeBytes(c.takeCount())
		c.takeBytes(c.takeCount())
		if c.err != nil {
			return
		}
	}
}

// readVersion1 reads a message of version 1 and returns how many signatures it requires.
func (s *signed) readVersion1(c *cursor) (required int) {
	c.takeByte() // the version
	required = c.takeByte()
	c.takeBytes(2)
	settings := bits.OnesCount32(binary.LittleEndian.Uint32(c.takeBytes(4)))
	c.takeBytes(keyBytes) // the recent blockhash
	instructions, keys := c.takeByte(), c.takeByte()
	s.readKeys(c, keys)
	c.takeBytes(4 * settings)
	heads := c.takeBytes(4 * instructions)
	for i := range instructions {
		head := heads[4*i:]
		c.takeBytes(int(head[1])) // accounts
		s.call(c, int(head[0]), c.takeBytes(int(binary.LittleEndian.Uint16(head[2:]))))
	}
	return required
}

func (s *signed) readKeys(c *cursor, n int) {
	for range n {
		if s.keys = append(s.keys, [keyBytes]byte(c.takeBytes(keyBytes))); c.err != nil {
			return
		}
	}
}

func (s *signed) call(c *cursor, program int, data []byte) {
	if program >= len(s.keys) {
		c.fail("it names a program that is not in the transaction")
		return
	}
	s.ins = append(s.ins, called{s.keys[program], data})
}

// fail sets the first error.
func (c *cursor) fail(why string) {
	if c.err == nil {
		c.err = errors.New(why)
	}
}
