package evm

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
)

const (
	streamBuffer = 32 << 10
	wordBytesMax = 512 // of a string that is read and not passed over; also of a key
)

// A stream reads a JSON document while it arrives. It holds what its caller asks for and
// passes over the rest, however long a string or deep a nesting is.
type stream struct{ r *bufio.Reader }

func newStream(r io.Reader) *stream { return &stream{bufio.NewReaderSize(r, streamBuffer)} }

// next is the first byte of the next value or sign, which stays unread.
func (s *stream) next() (byte, error) {
	for {
		c, err := s.r.ReadByte()
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		switch c {
		case ' ', '\t', '\n', '\r':
		default:
			return c, s.r.UnreadByte()
		}
	}
}

// sign reads one of the bytes given.
func (s *stream) sign(of string) (byte, error) {
	c, err := s.next()
	if err != nil {
		return 0, err
	}
	if bytes.IndexByte([]byte(of), c) < 0 {
		return 0, fmt.Errorf("got %q, want one of %q", c, of)
	}
	_, err = s.r.Discard(1)
	return c, err
}

// object reads an object. value reads the value of each key.
func (s *stream) object(value func(key string) error) error {
	if _, err := s.sign("{"); err != nil {
		return err
	}
	if c, err := s.next(); err != nil || c == '}' {
		_, _ = s.r.Discard(1)
		return err
	}
	for {
		key, err := s.text()
		if err != nil {
			return err
		}
		if _, err := s.sign(":"); err != nil {
			return err
		}
		if err := value(key); err != nil {
			return err
		}
		if c, err := s.sign(",}"); err != nil || c == '}' {
			return err
		}
	}
}

// array reads a list. item reads each of its items.
func (s *stream) array(item func(i int) error) error {
	if _, err := s.sign("["); err != nil {
		return err
	}
	if c, err := s.next(); err != nil || c == ']' {
		_, _ = s.r.Discard(1)
		return err
	}
	for i := 0; ; i++ {
		if err := item(i); err != nil {
			return err
		}
		if c, err := s.sign(",]"); err != nil || c == ']' {
			return err
		}
	}
}

// null reads a null, if there is one.
func (s *stream) null() (bool, error) {
	c, err := s.next()
	if err != nil || c != 'n' {
		return false, err
	}
	return true, s.skip()
}

// text reads a short string.
func (s *stream) text() (string, error) {
	if _, err := s.sign(`"`); err != nil {
		return "", err
	}
	raw := []byte{'"'}
	for escaped := false; ; {
		c, err := s.r.ReadByte()
		if err != nil {
			return "", err
		}
		raw = append(raw, c)
		if c == '"' && !escaped {
			break
		}
		escaped = c == '\\' && !escaped
		if len(raw) > wordBytesMax {
			return "", errors.New("a word is too long")
		}
	}
	var word string
	err := json.Unmarshal(raw, &word)
	return word, err
}

// begun reads a string of any length and gives its beginning; "" for null.
func (s *stream) begun() (string, error) {
	c, err := s.next()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", s.skip()
	}
	start, _ := s.r.Peek(wordBytesMax) // less than that where the document ends before
	word := bytes.Clone(start[1:])
	if i := bytes.IndexByte(word, '"'); i >= 0 {
		word = word[:i]
	}
	return string(bytes.ToValidUTF8(word, nil)), s.skip()
}

// skip passes over a value and holds nothing of it.
func (s *stream) skip() error {
	for depth := 0; ; {
		c, err := s.next()
		if err != nil {
			return err
		}
		switch c {
		case '"':
			if _, err := s.r.Discard(1); err != nil {
				return err
			}
			if err := s.skipText(); err != nil {
				return err
			}
		case '{', '[':
			depth++
			_, _ = s.r.Discard(1)
		case '}', ']':
			depth--
			_, _ = s.r.Discard(1)
		case ',', ':':
			_, _ = s.r.Discard(1)
			if depth == 0 {
				return errors.New("a value is missing")
			}
			continue
		default:
			if err := s.skipWord(); err != nil {
				return err
			}
		}
		if depth < 0 {
			return errors.New("a value is missing")
		}
		if depth == 0 {
			return nil
		}
	}
}

// skipText passes over the rest of a string.
func (s *stream) skipText() error {
	for slashes := 0; ; {
		part, err := s.r.ReadSlice('"')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
		body := part
		if err == nil {
			body = part[:len(part)-1]
		}
		rest := bytes.TrimRight(body, `\`)
		if len(rest) > 0 {
			slashes = 0
		}
		slashes += len(body) - len(rest)
		if err == nil {
			if slashes%2 == 0 {
				return nil
			}
			slashes = 0
		}
	}
}

// skipWord passes over a number, true, false or null.
func (s *stream) skipWord() error {
	for n := 0; ; n++ {
		c, err := s.r.ReadByte()
		if err == io.EOF && n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c == '+', c == '-', c == '.':
		case n == 0:
			return fmt.Errorf("got %q, want a value", c)
		default:
			return s.r.UnreadByte()
		}
	}
}

// address reads an address; nil for null.
func (s *stream) address() (*common.Address, error) {
	if none, err := s.null(); none || err != nil {
		return nil, err
	}
	word, err := s.text()
	if err != nil {
		return nil, err
	}
	var a common.Address
	return &a, a.UnmarshalText([]byte(word))
}

// number reads a number in hexadecimal digits; nil for null.
func (s *stream) number() (*big.Int, error) {
	if none, err := s.null(); none || err != nil {
		return nil, err
	}
	word, err := s.text()
	if err != nil {
		return nil, err
	}
	return hexutil.DecodeBig(word)
}

// integer reads a number in decimal digits.
func (s *stream) integer() (json.Number, error) {
	word, err := s.r.Peek(20)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	n := 0
	for n < len(word) && (word[n] == '-' || word[n] >= '0' && word[n] <= '9') {
		n++
	}
	number := json.Number(word[:n])
	return number, s.skip()
}
