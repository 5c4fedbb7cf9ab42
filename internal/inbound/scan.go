package inbound

import (
	"bytes"
	"strconv"
)

// A verdict is what a scanner says of the bytes that it was given.
type verdict int

const (
	sound   verdict = iota
	refused         // the head of a request says its length in two ways
	lost            // what follows cannot be told apart; net/http refuses it as well, or never reads it
)

const (
	headBytesMax  = 64 << 10 // more than net/http reads of a head
	chunkLineMax  = 4 << 10
	chunkHexMax   = 8
	lengthDigits  = 18 // of a Content-Length, so that it is an int64
	headerLengths = "content-length"
	headerCoding  = "transfer-encoding"
)

// scanner follows the requests of a connection: it reads each head, and skips the body.
// What it takes is a part of what net/http takes: where net/http is lenient, with lines
// that are folded, ends of chunks without CR, or trailers, the scanner gives up.
type scanner struct {
	state state
	line  []byte // the line that has begun, without its end
	head  int    // bytes of this head
	rest  int64  // bytes of the body, or of the chunk with its CRLF, that are to come

	version11, lengths, codings int // of this head: its version is HTTP/1.1; how many of these headers
	length                      int64
	chunked                     bool
	unknown                     bool // the head has what net/http answers with an error
}

type state int

const (
	inHead state = iota
	inLength
	inChunkLine
	inChunk
	inTrailer
	inUnknown // nobody knows how long it is
)

// inBody tells whether bytes of a body are to come.
func (s *scanner) inBody() bool { return s.state != inHead }

// feed reads on. Unless all is sound it says how many of the bytes net/http may see.
func (s *scanner) feed(b []byte) (int, verdict) {
	for at := 0; at < len(b); {
		switch s.state {
		case inLength, inChunk:
			n := min(s.rest, int64(len(b)-at))
			if s.state == inChunk && !s.chunkEnds(b[at:at+int(n)]) {
				return at, lost
			}
			at += int(n)
			if s.rest -= n; s.rest == 0 {
				if s.state == inLength {
					s.begin()
				} else {
					s.state = inChunkLine
				}
			}
			continue
		case inUnknown:
			return at, lost
		case inHead, inChunkLine, inTrailer:
		}
		end := bytes.IndexByte(b[at:], '\n')
		part := b[at:]
		if end >= 0 {
			part = b[at : at+end]
		}
		s.line = append(s.line, part...)
		if s.state == inHead && s.head+len(s.line) > headBytesMax || s.state != inHead && len(s.line) > chunkLineMax {
			return at, lost
		}
		if end < 0 {
			return len(b), sound
		}
		verdict := s.ended()
		if verdict != sound {
			return at + end, verdict // without the end of the line
		}
		at += end + 1
		s.head += len(s.line) + 1
		s.line = s.line[:0]
		if s.state != inHead {
			s.head = 0
		}
	}
	return len(b), sound
}

// chunkEnds tells whether what there is of the CRLF behind a chunk is that.
func (s *scanner) chunkEnds(b []byte) bool {
	for i, c := range b {
		switch s.rest - int64(i) {
		case 2:
			if c != '\r' {
				return false
			}
		case 1:
			if c != '\n' {
				return false
			}
		}
	}
	return true
}

// ended reads a line that is whole.
func (s *scanner) ended() verdict {
	switch s.state {
	case inChunkLine:
		return s.chunkLine()
	case inTrailer:
		if string(s.line) != "\r" {
			return lost
		}
		s.begin()
		return sound
	case inHead, inLength, inChunk, inUnknown:
	}
	line := bytes.TrimSuffix(s.line, []byte("\r"))
	switch {
	case s.version11 == unread && len(line) == 0: // before a request, which net/http may allow
		return sound
	case s.version11 == unread:
		s.version11 = other
		if bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
			s.version11 = is11
		}
		return sound
	case len(line) == 0:
		return s.body()
	case line[0] == ' ' || line[0] == '\t': // folded into the line before, which was read
		return refused
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.Trim(value, " \t")
	switch string(bytes.ToLower(bytes.Trim(name, " \t\r"))) {
	case headerLengths:
		s.lengths++
		var err error
		if s.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || len(value) > lengthDigits || value[0] < '0' || value[0] > '9' {
			s.unknown = true
		}
	case headerCoding:
		s.codings++
		if s.chunked = bytes.EqualFold(value, []byte("chunked")); !s.chunked {
			s.unknown = true
		}
	}
	if s.lengths > 1 || s.lengths > 0 && s.codings > 0 || s.codings > 0 && s.version11 != is11 {
		return refused
	}
	return sound
}

// The values of version11.
const (
	unread = iota
	is11
	other
)

// body is behind a head that is whole.
func (s *scanner) body() verdict {
	switch {
	case s.unknown || s.codings > 1:
		// net/http answers with an error of its own. It has to see the end of the head.
		s.state = inUnknown
	case s.chunked:
		s.state = inChunkLine
	case s.length > 0:
		s.state, s.rest = inLength, s.length
	default:
		s.begin()
	}
	return sound
}

// begin waits for the next head.
func (s *scanner) begin() { *s = scanner{line: s.line} }

func (s *scanner) chunkLine() verdict {
	size, ended := bytes.CutSuffix(s.line, []byte("\r"))
	size, _, _ = bytes.Cut(size, []byte(";"))
	n, err := strconv.ParseUint(string(size), 16, 64)
	if !ended || err != nil || len(size) > chunkHexMax || bytes.IndexByte(s.line, '\r') != len(s.line)-1 {
		return lost
	}
	if n == 0 {
		s.state = inTrailer
		return sound
	}
	s.state, s.rest = inChunk, int64(n)+2
	return sound
}
