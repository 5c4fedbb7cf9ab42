package inbound

import (
	"bytes"
	"strconv"
)

// verdict is the result of a scanner for some bytes.
type verdict int

const (
	verdictPass    verdict = iota
	verdictRefused         // the head of a request gives its length in two ways
	verdictLost            // the next requests cannot be told apart; net/http refuses them too, or never reads them
)

const (
	headBytesMax  = 64 << 10 // more than net/http reads of a head
	chunkLineMax  = 4 << 10
	chunkHexMax   = 8
	lengthDigits  = 18 // of a Content-Length, so that it fits an int64
	headerLengths = "content-length"
	headerCoding  = "transfer-encoding"
)

// scanner follows the requests of a connection: it reads each head and skips the body. It accepts a
// subset of what net/http accepts. Where net/http is lenient, the scanner gives up: folded lines,
// ends of chunks without CR, and trailers.
type scanner struct {
	state     state
	line      []byte // the current line, without its end
	headBytes int    // bytes of the current head so far
	remaining int64  // bytes left of the body, or of the chunk with its CRLF

	version11, lengths, codings int // of the current head: its version, and how often it has each header
	length                      int64
	isChunked                   bool
	isUnknown                   bool // the head has something that net/http answers with an error
}

type state int

const (
	stateHead state = iota
	stateLength
	stateChunkLine
	stateChunk
	stateTrailer
	stateUnknown // the length of the body is unknown
)

// isInBody reports whether bytes of a body are still to come.
func (s *scanner) isInBody() bool { return s.state != stateHead }

// scanBytes scans the next bytes. For any verdict but verdictPass it returns how many of the bytes
// net/http may see.
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
		if s.state == stateHead && s.headBytes+len(s.line) > headBytesMax ||
			s.state != stateHead && len(s.line) > chunkLineMax {
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

// isChunkEnd reports whether the part of b that belongs to the CRLF after a chunk is correct.
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

// endLine handles a complete line. Rule REQ-8.
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
	case s.version11 == versionUnread && len(line) == 0: // before a request; net/http may allow it
		return verdictPass
	case s.version11 == versionUnread:
		s.version11 = versionOther
		if bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
			s.version11 = versionHTTP11
		}
		return verdictPass
	case len(line) == 0:
		return s.beginBody()
	case line[0] == ' ' || line[0] == '\t': // folded into the previous line, which was handled already
		return verdictRefused
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.Trim(value, " \t")
	switch string(bytes.ToLower(bytes.Trim(name, " \t\r"))) {
	case headerLengths:
		s.lengths++
		var err error
		if s.length, err = strconv.ParseInt(string(value), 10, 64); err != nil || len(value) > lengthDigits ||
			value[0] < '0' || value[0] > '9' {
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

// These are the values of version11.
const (
	versionUnread = iota
	versionHTTP11
	versionOther
)

// beginBody starts the body after a complete head.
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
