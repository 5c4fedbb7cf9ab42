package inbound

import (
	"bytes"
	"strconv"
)

// A verdict is what a scanner says of the bytes that it was given.
type verdict int

const (
	verdictPass    verdict = iota
	verdictRefused         // the head of a request says its length in two ways
	verdictLost            // what follows cannot be told apart; net/http refuses it as well, or never reads it
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
	state     state
	line      []byte // the line that has begun, without its end
	headBytes int    // bytes of this head
	remaining int64  // bytes of the body, or of the chunk with its CRLF, that are to come

	version11, lengths, codings int // of this head: its version is HTTP/1.1; how many of these headers
	length                      int64
	isChunked                   bool
	isUnknown                   bool // the head has what net/http answers with an error
}

type state int

const (
	stateHead state = iota
	stateLength
	stateChunkLine
	stateChunk
	stateTrailer
	stateUnknown // nobody knows how long it is
)

// isInBody tells whether bytes of a body are to come.
func (s *scanner) isInBody() bool { return s.state != stateHead }

// scanBytes reads on. Unless all is sound it says how many of the bytes net/http may see.
func (s *scanner) scanBytes(b []byte) (int, verdict) {
	for offset := 0; offset < len(b); {
		switch s.state {
		case stateLength, stateChunk:
			n := min(s.remaining, int64(len(b)-offset))
			if s.state == stateChunk && !s.isChunkEnd(b[offset:offset+int(n)]) {
				return offset, verdictLost
			}
			offset += int(n)
			if s.remaining -= n; s.remaining == 0 {
				if s.state == stateLength {
					s.beginHead()
				} else {
					s.state = stateChunkLine
				}
			}
			continue
		case stateUnknown:
			return offset, verdictLost
		case stateHead, stateChunkLine, stateTrailer:
		}
		end := bytes.IndexByte(b[offset:], '\n')
		part := b[offset:]
		if end >= 0 {
			part = b[offset : offset+end]
		}
		s.line = append(s.line, part...)
		if s.state == stateHead && s.headBytes+len(s.line) > headBytesMax || s.state != stateHead && len(s.line) > chunkLineMax {
			return offset, verdictLost
		}
		if end < 0 {
			return len(b), verdictPass
		}
		verdict := s.endLine()
		if verdict != verdictPass {
			return offset + end, verdict // without the end of the line
		}
		offset += end + 1
		s.headBytes += len(s.line) + 1
		s.line = s.line[:0]
		if s.state != stateHead {
			s.headBytes = 0
		}
	}
	return len(b), verdictPass
}

// isChunkEnd tells whether what there is of the CRLF behind a chunk is that.
func (s *scanner) isChunkEnd(b []byte) bool {
	for i, c := range b {
		switch s.remaining - int64(i) {
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

// endLine reads a line that is whole.
func (s *scanner) endLine() verdict {
	switch s.state {
	case stateChunkLine:
		return s.parseChunkLine()
	case stateTrailer:
		if string(s.line) != "\r" {
			return verdictLost
		}
		s.beginHead()
		return verdictPass
	case stateHead, stateLength, stateChunk, stateUnknown:
	}
	line := bytes.TrimSuffix(s.line, []byte("\r"))
	switch {
	case s.version11 == versionUnread && len(line) == 0: // before a request, which net/http may allow
		return verdictPass
	case s.version11 == versionUnread:
		s.version11 = versionOther
		if bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
			s.version11 = versionHTTP11
		}
		return verdictPass
	case len(line) == 0:
		return s.beginBody()
	case line[0] == ' ' || line[0] == '\t': // folded into the line before, which was read
		return verdictRefused
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.Trim(value, " \t")
	switch string(bytes.ToLower(bytes.Trim(name, " \t\r"))) {
	case headerLengths:
		s.lengths++
		var err error
		if s.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || len(value) > lengthDigits || value[0] < '0' || value[0] > '9' {
			s.isUnknown = true
		}
	case headerCoding:
		s.codings++
		if s.isChunked = bytes.EqualFold(value, []byte("chunked")); !s.isChunked {
			s.isUnknown = true
		}
	}
	if s.lengths > 1 || s.lengths > 0 && s.codings > 0 || s.codings > 0 && s.version11 != versionHTTP11 {
		return verdictRefused
	}
	return verdictPass
}

// The values of version11.
const (
	versionUnread = iota
	versionHTTP11
	versionOther
)

// beginBody is behind a head that is whole.
func (s *scanner) beginBody() verdict {
	switch {
	case s.isUnknown || s.codings > 1:
		// net/http answers with an error of its own. It has to see the end of the head.
		s.state = stateUnknown
	case s.isChunked:
		s.state = stateChunkLine
	case s.length > 0:
		s.state, s.remaining = stateLength, s.length
	default:
		s.beginHead()
	}
	return verdictPass
}

// beginHead waits for the next head.
func (s *scanner) beginHead() { *s = scanner{line: s.line} }

func (s *scanner) parseChunkLine() verdict {
	size, isTerminated := bytes.CutSuffix(s.line, []byte("\r"))
	size, _, _ = bytes.Cut(size, []byte(";"))
	n, err := strconv.ParseUint(string(size), 16, 64)
	if !isTerminated || err != nil || len(size) > chunkHexMax || bytes.IndexByte(s.line, '\r') != len(s.line)-1 {
		return verdictLost
	}
	if n == 0 {
		s.state = stateTrailer
		return verdictPass
	}
	s.state, s.remaining = stateChunk, int64(n)+2
	return verdictPass
}
