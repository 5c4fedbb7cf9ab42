package solanatx

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

// meta is an account as an instruction names it.
type meta struct {
	key              [keyBytes]byte
	signer, writable bool
}

func readOnly(k [keyBytes]byte) meta     { return meta{key: k} }
func writableMeta(k [keyBytes]byte) meta { return meta{key: k, writable: true} }

func (m meta) asSigner() meta {
	m.signer = true
	return m
}

type instruction struct {
	program  [keyBytes]byte
	data     []byte
	accounts []meta
}

// compileMessage writes a legacy message. The chain requires that the payer comes first, that
// signers come before the others, and that writable accounts come first among both. In each of the
// four groups, accounts are in the order in which they are first named, programs behind them.
func compileMessage(payer, hash [keyBytes]byte, ins []instruction) ([]byte, error) {
	metas := []meta{writableMeta(payer).asSigner()}
	add := func(m meta) {
		i := slices.IndexFunc(metas, func(o meta) bool { return o.key == m.key })
		if i < 0 {
			metas = append(metas, m)
			return
		}
		metas[i].signer, metas[i].writable = metas[i].signer || m.signer, metas[i].writable || m.writable
	}
	for _, instr := range ins {
		for _, m := range instr.accounts {
			add(m)
		}
	}
	for _, instr := range ins {
		add(readOnly(instr.program))
	}
	rank := func(m meta) int {
		switch {
		case m.signer && m.writable:
			return 0
		case m.signer:
			return 1
		case m.writable:
			return 2
		}
		return 3
	}
	slices.SortStableFunc(metas, func(a, b meta) int { return rank(a) - rank(b) })
	var counts [4]int
	for _, m := range metas {
		counts[rank(m)]++
	}
	if len(metas) > 256 {
		return nil, fmt.Errorf("transaction names too many accounts: %d", len(metas))
	}
	index := func(k [keyBytes]byte) byte {
		return byte(slices.IndexFunc(metas, func(o meta) bool { return o.key == k }))
	}

	out := []byte{byte(counts[0] + counts[1]), byte(counts[1]), byte(counts[3])}
	out = appendCount(out, len(metas))
	for _, m := range metas {
		out = append(out, m.key[:]...)
	}
	out = append(out, hash[:]...)
	out = appendCount(out, len(ins))
	for _, instr := range ins {
		out = appendCount(append(out, index(instr.program)), len(instr.accounts))
		for _, m := range instr.accounts {
			out = append(out, index(m.key))
		}
		out = append(appendCount(out, len(instr.data)), instr.data...)
	}
	if n := wireBytes(counts[0]+counts[1], len(out)); n > wireBytesMax {
		return nil, fmt.Errorf("transaction has %d bytes with its signatures, more than the %d of a packet", n,
			wireBytesMax)
	}
	return out, nil
}

// wireBytes returns the length of a signed message.
func wireBytes(signers, message int) int {
	return len(appendCount(nil, signers)) + signers*signatureBytes + message
}

// appendCount writes a compact-u16: seven bits per byte, the lowest first.
func appendCount(b []byte, n int) []byte {
	for n >= 0x80 {
		b = append(b, byte(n)|0x80)
		n >>= 7
	}
	return append(b, byte(n))
}

// message is a decoded legacy message.
type message struct {
	signers int
	keys    [][keyBytes]byte
	hash    [keyBytes]byte
	ins     []parsedInstruction
}

type parsedInstruction struct {
	program  [keyBytes]byte
	accounts [][keyBytes]byte
	data     []byte
	args     []byte // the data after the prefix that expect requires
}

// expect checks that an instruction is of a program and that its data begins with a prefix. It also
// checks the number of accounts and of bytes behind the prefix.
func (p parsedInstruction) expect(
	program [keyBytes]byte, begins []byte, accounts, argBytes int,
) (parsedInstruction, error) {
	if p.program != program {
		return p, fmt.Errorf("it is one of program %s", Canonical(p.program))
	}
	args, ok := bytes.CutPrefix(p.data, begins)
	if !ok || len(args) != argBytes || len(p.accounts) != accounts {
		return p, errors.New("it is another instruction of its program")
	}
	p.args = args
	return p, nil
}

// cursor reads bytes in sequence. After the first error it reads nothing.
type cursor struct {
	b   []byte
	err error
}

func (c *cursor) takeBytes(n int) []byte {
	if c.err == nil && n > len(c.b) {
		c.err = errors.New("transaction is cut off")
	}
	if c.err != nil {
		return make([]byte, n)
	}
	out := c.b[:n]
	c.b = c.b[n:]
	return out
}

func (c *cursor) takeByte() int { return int(c.takeBytes(1)[0]) }

// takeCount reads a compact-u16 in its shortest form.
func (c *cursor) takeCount() int {
	n := 0
	for shift := 0; c.err == nil; shift += 7 {
		b := c.takeByte()
		n |= b & 0x7f << shift
		if b&0x80 != 0 && shift < 14 {
			continue
		}
		if shift > 0 && b == 0 || n > 0xffff || b&0x80 != 0 {
			c.err = errors.New("a length is not in its shortest form")
		}
		return n
	}
	return 0
}

func parseMessage(payload []byte) (message, error) {
	var m message
	if len(payload) > wireBytesMax {
		return m, fmt.Errorf("transaction has %d bytes, more than a packet", len(payload))
	}
	c := &cursor{b: payload}
	m.signers = c.takeByte()
	if m.signers&0x80 != 0 {
		return m, errors.New("transaction has a version, which the service does not make")
	}
	c.takeBytes(2) // compileMessage writes them again, and Decode compares
	for range c.takeCount() {
		if m.keys = append(m.keys, [keyBytes]byte(c.takeBytes(keyBytes))); c.err != nil {
			break
		}
	}
	m.hash = [keyBytes]byte(c.takeBytes(keyBytes))
	key := func() [keyBytes]byte {
		if i := c.takeByte(); i < len(m.keys) {
			return m.keys[i]
		}
		if c.err == nil {
			c.err = errors.New("it names an account that is not in the transaction")
		}
		return [keyBytes]byte{}
	}
	for range c.takeCount() {
		instr := parsedInstruction{program: key()}
		for range c.takeCount() {
			if instr.accounts = append(instr.accounts, key()); c.err != nil {
				break
			}
		}
		instr.data = c.takeBytes(c.takeCount())
		if m.ins = append(m.ins, instr); c.err != nil {
			break
		}
	}
	switch {
	case c.err != nil:
		return m, c.err
	case len(c.b) != 0:
		return m, fmt.Errorf("transaction has %d bytes too many", len(c.b))
	case m.signers == 0 || m.signers > len(m.keys):
		return m, fmt.Errorf("transaction has %d signers and %d accounts", m.signers, len(m.keys))
	}
	return m, nil
}
