package solana

import (
	"bytes"
	"errors"
	"fmt"
	"math/bits"
)

// depthMax is how deep an answer may be nested.
const depthMax = 64

var errJSON = errors.New("not the expected JSON")

// scanner reads JSON from front to back without copying. A block has megabytes and little of it is
// needed: the scanner follows what it skips only to find its end.
//
// The first error persists: everything after it reads as empty, and loops end.
type scanner struct {
	b       []byte
	i       int
	err     error
	escapes bool // there is an escape somewhere
}

func newScanner(b []byte) *scanner { return &scanner{b: b, escapes: bytes.IndexByte(b, '\\') >= 0} }

func (s *scanner) fail(message string) {
	if s.err == nil {
		s.err = fmt.Errorf("%w: %s at byte %d", errJSON, message, s.i)
	}
	s.i = len(s.b)
}

// peekByte returns the next byte that is no space, 0 at the end.
func (s *scanner) peekByte() byte {
	if s.i < len(s.b) && s.b[s.i] > ' ' {
		return s.b[s.i]
	}
	return s.skipSpace()
}

func (s *scanner) skipSpace() byte {
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c > ' ' {
			return c
		}
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			s.fail("a control character")
			return 0
		}
		s.i++
	}
	return 0
}

func (s *scanner) expectByte(c byte) {
	if s.peekByte() != c {
		s.fail("no " + string(rune(c)))
		return
	}
	s.i++
}

// hasNext reports whether an open object or list has another element, and steps to it. n counts the
// elements from 0.
func (s *scanner) hasNext(end byte, n *int) bool {
	// Nodes write no spaces, and after an error nothing is left to read.
	if b := s.b[s.i:]; *n > 0 && len(b) > 1 {
		switch {
		case b[0] == ',' && b[1] > ' ' && b[1] != end:
			s.i++
			*n++
			return true
		case b[0] == end:
			s.i++
			return false
		}
	}
	switch c := s.peekByte(); {
	case s.err != nil:
		return false
	case c == end:
		s.i++
		return false
	case *n > 0 && c != ',':
		s.fail("no comma")
		return false
	case *n > 0:
		s.i++
		if s.peekByte() == end {
			s.fail("a comma at the end")
			return false
		}
	}
	*n++
	return s.err == nil
}

// readWord reads a string without escapes: names of members, addresses, signatures.
func (s *scanner) readWord() []byte {
	if s.peekByte() != '"' {
		s.fail("not a string")
		return nil
	}
	s.i++
	n := bytes.IndexByte(s.b[s.i:], '"')
	if n < 0 {
		s.fail("a string without an end")
		return nil
	}
	w := s.b[s.i : s.i+n : s.i+n]
	if s.escapes && bytes.IndexByte(w, '\\') >= 0 {
		s.fail("an escape")
		return nil
	}
	s.i += n + 1
	return w
}

// readMember reads the name of an object's member.
func (s *scanner) readMember() []byte {
	w := s.readWord()
	if s.i < len(s.b) && s.b[s.i] == ':' {
		s.i++
		return w
	}
	if s.peekByte() != ':' {
		s.fail("no colon")
		return nil
	}
	s.i++
	return w
}

// skipNull skips a null, if it is the next value.
func (s *scanner) skipNull() bool {
	if s.peekByte() != 'n' {
		return false
	}
	s.skipLiteral("null")
	return s.err == nil
}

func (s *scanner) skipLiteral(l string) {
	if !bytes.HasPrefix(s.b[s.i:], []byte(l)) {
		s.fail("neither a value")
		return
	}
	s.i += len(l)
}

// readNumber reads an integer from 0 to 2^64-1, without a sign, a fraction or an exponent.
func (s *scanner) readNumber() uint64 {
	s.peekByte()
	n, used := parseDigits(s.b[s.i:])
	if used == 0 {
		s.fail("not a whole number")
		return 0
	}
	s.i += used
	if s.i < len(s.b) {
		switch s.b[s.i] {
		case '.', 'e', 'E':
			s.fail("not a whole number")
			return 0
		}
	}
	return n
}

// readQuantity reads a string that contains a number.
func (s *scanner) readQuantity() uint64 {
	w := s.readWord()
	n, used := parseDigits(w)
	if s.err == nil && (used == 0 || used != len(w)) {
		s.fail("not a whole number in a string")
	}
	return n
}

// digitsSafe digits of any number fit 64 bits.
const digitsSafe = 19

// parseDigits reads the digits of a number; used is 0 if there is none, or if it is too large or
// has leading zeros.
func parseDigits(b []byte) (n uint64, used int) {
	for used < min(len(b), digitsSafe) && b[used]-'0' <= 9 {
		n = 10*n + uint64(b[used]-'0')
		used++
	}
	for used < len(b) && b[used]-'0' <= 9 {
		hi, lo := bits.Mul64(n, 10)
		sum, carry := bits.Add64(lo, uint64(b[used]-'0'), 0)
		if hi != 0 || carry != 0 {
			return 0, 0
		}
		n = sum
		used++
	}
	if used > 1 && b[0] == '0' {
		return 0, 0
	}
	return n, used
}

// skipValue skips a value and returns it.
func (s *scanner) skipValue() []byte {
	c := s.peekByte()
	start := s.i
	switch c { // most skipped values are scalars
	case '{', '[', '}', ']', ',', ':', 0:
	case '"':
		s.skipString()
		return s.bytesFrom(start)
	default:
		s.skipScalar()
		return s.bytesFrom(start)
	}
	var open uint64 // a bit for each level: 1 for an object
	for depth := 0; ; {
		switch c := s.peekByte(); c {
		case '"':
			s.skipString()
		case '{', '[':
			if depth++; depth >= depthMax {
				s.fail("deeper than is allowed")
				return nil
			}
			open = open<<1 | braceBit(c)
			s.i++
		case '}', ']':
			if depth == 0 || open&1 != braceBit(c) {
				s.fail("an end without a beginning")
				return nil
			}
			open >>= 1
			depth--
			s.i++
		case ',', ':':
			if depth == 0 {
				s.fail("no value")
				return nil
			}
			s.i++
			continue
		case 0:
			s.fail("no value")
			return nil
		default:
			s.skipScalar()
		}
		if s.err != nil {
			return nil
		}
		if depth == 0 {
			return s.b[start:s.i:s.i]
		}
	}
}

// bytesFrom returns the bytes from a position to the present one; nothing after an error.
func (s *scanner) bytesFrom(start int) []byte {
	if s.err != nil {
		return nil
	}
	return s.b[start:s.i:s.i]
}

// braceBit returns 1 for the braces of an object and 0 for the brackets of a list.
func braceBit(c byte) uint64 { return uint64(c >> 5 & 1) }

// skipString skips a string with all its escapes.
func (s *scanner) skipString() {
	for s.i++; ; {
		n := bytes.IndexByte(s.b[s.i:], '"')
		if n < 0 {
			s.fail("a string without an end")
			return
		}
		s.i += n + 1
		if !s.escapes {
			return
		}
		slashes := 0
		for j := s.i - 2; s.b[j] == '\\'; j-- {
			slashes++
		}
		if slashes%2 == 0 {
			return
		}
	}
}

// skipScalar skips a number, true, false or null.
func (s *scanner) skipScalar() {
	start := s.i
	for s.i < len(s.b) {
		c := s.b[s.i]
		if c-'0' > 9 && c|0x20-'a' > 'z'-'a' && c != '-' && c != '+' && c != '.' {
			break
		}
		s.i++
	}
	if s.i == start {
		s.fail("no value")
	}
}

// expectEnd returns an error if anything follows.
func (s *scanner) expectEnd() error {
	if s.err == nil && s.peekByte() != 0 {
		s.fail("more than one value")
	}
	return s.err
}
