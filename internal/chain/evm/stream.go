package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Any sender of transactions decides how long the answers about a whole block are: one byte of log
// data costs eight gas, and an empty log of some 400 characters 375. Such an answer is read as a
// stream, and only the needed parts of it are kept. If a provider does not give it as a whole, its
// parts are requested one by one.

const (
	// streamBytesPerSecond is the rate that a provider has to keep up once the usual time-out is
	// over.
	streamBytesPerSecond = 4 << 20
	// pieceBytesMax bounds the answer to several parts in one batch. Nodes refuse batches above 25
	// MB.
	pieceBytesMax = 8 << 20
	errorBytesMax = 64 << 10 // of an answer that is an error
)

var (
	errAnswer  = errors.New("the answer cannot be used")
	errCut     = errors.New("the answer ended before its end")
	errTooSlow = fmt.Errorf("the answer came too slowly: %w", context.DeadlineExceeded)
	errAbsent  = errors.New("the answer is null")
)

// rpcError is the error that a provider answers with. It is an rpc.Error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string  { return e.Message }
func (e *rpcError) ErrorCode() int { return e.Code }

const (
	codeTooLarge  = -32003 // geth, for a batch
	codeOversized = -32008 // jsonrpsee, which reth and others use
)

// tooLargePhrases are the texts of providers whose answer is longer than they give.
var tooLargePhrases = []string{
	"too large", "too big", "too long", "response size", "result size", "max response", "maximum response",
	"max limit of", "larger than",
}

// isTooLong reports whether a request probably failed because of the length of its answer: the
// provider says so, the adapter does not read that much, or the answer broke off.
func isTooLong(err error) bool {
	if errors.Is(err, endpoint.ErrTooLong) || errors.Is(err, errCut) || errors.Is(err, errTooSlow) {
		return true
	}
	var status rpc.HTTPError
	if errors.As(err, &status) && status.StatusCode == http.StatusRequestEntityTooLarge {
		return true
	}
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) && status.StatusCode == 0 {
		return false
	}
	if rpcErr != nil && (rpcErr.ErrorCode() == codeTooLarge || rpcErr.ErrorCode() == codeOversized) {
		return true
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(tooLargePhrases, func(w string) bool { return strings.Contains(text, w) })
}

// reader reads JSON as a stream. It never holds more than one value that is requested as a whole.
type reader struct {
	*jsontext.Decoder
	meter *meter
}

// meter bounds how much is read for one value, and distinguishes an answer that breaks off from a
// wrong one.
type meter struct {
	source   io.Reader
	valueMax int64
	left     int64 // of valueMax
	read     int64
	progress func(read int64) // called with the progress; may be nil
}

func newReader(source io.Reader, valueMax int64, progress func(int64)) *reader {
	metered := &meter{source: source, valueMax: valueMax, left: valueMax, progress: progress}
	// Some nodes pass on the raw bytes that a contract calls the reason of its failure.
	return &reader{jsontext.NewDecoder(metered, jsontext.AllowInvalidUTF8(true)), metered}
}

// newRawReader reads bytes that are already in memory.
func newRawReader(raw []byte) *reader { return newReader(bytes.NewReader(raw), int64(len(raw))+1, nil) }

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, endpoint.ErrTooLong
	}
	n, err := m.source.Read(p[:min(int64(len(p)), m.left)])
	m.left -= int64(n)
	m.read += int64(n)
	if n > 0 && m.progress != nil {
		m.progress(m.read)
	}
	if err != nil && err != io.EOF && !errors.Is(err, endpoint.ErrTooLong) {
		err = fmt.Errorf("%w: %w", errCut, err)
	}
	return n, err
}

// nextValue returns the next value as a whole. It is valid until the next one is read.
func (r *reader) nextValue() (jsontext.Value, error) {
	r.meter.left = r.meter.valueMax
	v, err := r.ReadValue()
	return v, markCut(err)
}

func (r *reader) nextToken() (jsontext.Token, error) {
	r.meter.left = r.meter.valueMax
	t, err := r.ReadToken()
	return t, markCut(err)
}

// nextKind returns the kind of the next value; 0 if there is none, and reading it returns the
// reason.
func (r *reader) nextKind() jsontext.Kind {
	r.meter.left = r.meter.valueMax
	return r.PeekKind()
}

// markCut marks an answer that ends too early.
func markCut(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return err
}

// expectKind reads the beginning of an object or a list.
func (r *reader) expectKind(want jsontext.Kind) error {
	t, err := r.nextToken()
	if err == nil && t.Kind() != want {
		err = fmt.Errorf("got %s, want %s", t.Kind(), want)
	}
	return err
}

// readObject reads an object. read reads the value of each of its members.
func (r *reader) readObject(read func(name string) error) error {
	if err := r.expectKind('{'); err != nil {
		return err
	}
	for r.nextKind() != '}' {
		t, err := r.nextToken()
		if err != nil {
			return err
		}
		if err := read(t.String()); err != nil {
			return err
		}
	}
	_, err := r.nextToken()
	return err
}

// readMembers reads an object. The members in streamed are read as a stream by their function,
// which gets the members before them. The others are collected in document.
func (r *reader) readMembers(streamed map[string]func(head []byte) error) (document []byte, err error) {
	document = append(document, '{')
	err = r.readObject(func(name string) error {
		if read := streamed[name]; read != nil {
			return read(append(document, '}'))
		}
		v, err := r.nextValue()
		if err != nil {
			return err
		}
		if int64(len(document)+len(name)+len(v)) > r.meter.valueMax {
			return endpoint.ErrTooLong
		}
		if len(document) > 1 {
			document = append(document, ',')
		}
		if document, err = jsontext.AppendQuote(document, name); err != nil {
			return err
		}
		document = append(append(document, ':'), v...)
		return nil
	})
	return append(document, '}'), err
}

// readItems reads a list, one item after the other.
func (r *reader) readItems(read func(i int) error) error {
	if err := r.expectKind('['); err != nil {
		return err
	}
	for i := 0; r.nextKind() != ']'; i++ {
		if err := read(i); err != nil {
			return err
		}
	}
	_, err := r.nextToken()
	return err
}

// skipNext skips the next value and holds at most one string of it.
func (r *reader) skipNext() error {
	for depth := r.StackDepth(); ; {
		if _, err := r.nextToken(); err != nil {
			return err
		}
		if r.StackDepth() <= depth {
			return nil
		}
	}
}

// readNull reads a null, if it is next.
func (r *reader) readNull() (bool, error) {
	if r.nextKind() != 'n' {
		return false, nil
	}
	_, err := r.nextToken()
	return true, err
}

// readText reads a string.
func (r *reader) readText() (string, error) {
	t, err := r.nextToken()
	if err == nil && t.Kind() != '"' {
		err = fmt.Errorf("got %s, want a string", t.Kind())
	}
	if err != nil {
		return "", err
	}
	return t.String(), nil
}

// readErrorFlag reads an error member and reports whether it contains an error.
func (r *reader) readErrorFlag() (bool, error) {
	v, err := r.nextValue()
	return err == nil && v.Kind() != 'n' && string(v) != `""`, err
}

// readAddress reads an address; nil for null.
func (r *reader) readAddress() (*common.Address, error) {
	if wasNull, err := r.readNull(); wasNull || err != nil {
		return nil, err
	}
	word, err := r.readText()
	if err != nil {
		return nil, err
	}
	var a common.Address
	return &a, a.UnmarshalText([]byte(word))
}

// readNumber reads a number in hexadecimal digits; nil for null.
func (r *reader) readNumber() (*big.Int, error) {
	if wasNull, err := r.readNull(); wasNull || err != nil {
		return nil, err
	}
	word, err := r.readText()
	if err != nil {
		return nil, err
	}
	return hexutil.DecodeBig(word)
}

// streamLimits bounds the length and the time of a streamed answer.
type streamLimits struct {
	bytes         int64
	timeout       time.Duration
	extendsAtRate bool // the time extends while the answer arrives at streamBytesPerSecond
}

// blockLimits bounds an answer about a whole block.
func (p *provider) blockLimits(bytes int64) streamLimits { return streamLimits{bytes, p.timeout, true} }

// streamCall makes one request and reads its result as a stream. A value that is held as a whole
// may have as many bytes as every other answer. Errors: errAbsent for null; errAnswer if the answer
// cannot be read.
func (p *provider) streamCall(
	ctx context.Context, limits streamLimits, read func(*reader) error, method string, args ...any,
) error {
	if err := p.ensureHandshake(ctx); err != nil {
		return err
	}
	return p.streamUnchecked(ctx, limits, read, method, args...)
}

// streamUnchecked is streamCall without a handshake.
func (p *provider) streamUnchecked(
	ctx context.Context, limits streamLimits, read func(*reader) error, method string, args ...any,
) error {
	return p.WrapError(method, p.readStream(ctx, limits, read, method, args))
}

func (p *provider) readStream(
	ctx context.Context, limits streamLimits, read func(*reader) error, method string, args []any,
) error {
	question, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": args})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(endpoint.WithBytesMax(ctx, limits.bytes))
	defer cancel(nil)
	began := time.Now()
	timer := time.AfterFunc(limits.timeout, func() { cancel(errTooSlow) })
	defer timer.Stop()
	status, answer, err := p.PostStream(ctx, question)
	if err != nil {
		return wrapTooSlow(ctx, err)
	}
	defer answer.Close()
	if status < http.StatusOK || status >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(answer, errorBytesMax)) // as much of it as arrives
		return rpc.HTTPError{
			StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)),
			Body: []byte(quorum.TruncateAnswer(string(text))),
		}
	}
	r := newReader(answer, p.answerBytesMax, func(read int64) {
		if limits.extendsAtRate {
			timer.Reset(time.Until(began.Add(limits.timeout + time.Duration(read)*time.Second/streamBytesPerSecond)))
		}
	})
	err = wrapTooSlow(ctx, r.readAnswer(read))
	var rpcErr *rpcError
	if err != nil && !errors.As(err, &rpcErr) {
		err = fmt.Errorf("%w: %w", errAnswer, err)
	}
	return err
}

// wrapTooSlow marks an error that came because the time was over.
func wrapTooSlow(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTooSlow) {
		return fmt.Errorf("%w: %w", errTooSlow, err)
	}
	return err
}

// readAnswer reads a provider's answer to one request.
func (r *reader) readAnswer(read func(*reader) error) error {
	hasResult := false
	rest, err := r.readMembers(map[string]func([]byte) error{"result": func([]byte) error {
		if wasNull, err := r.readNull(); wasNull || err != nil { // some give null together with an error
			return err
		}
		hasResult = true
		return read(r)
	}})
	if err != nil {
		return err
	}
	var failure struct {
		Error *rpcError `json:"error"`
	}
	if err := json.Unmarshal(rest, &failure); err != nil {
		return err
	}
	switch {
	case failure.Error != nil:
		return failure.Error
	case !hasResult:
		return errAbsent
	}
	return nil
}

// subrequest is the request for one part of a whole answer.
type subrequest struct {
	method string
	args   []any
}

// fetchParts requests the parts of an answer with these numbers, in their order. It asks for as
// many in one batch as the provider gives, and for a part that is too long for that alone. readPart
// reads one of them, which may have bytesMax, or as much as every other answer if that is more.
func (p *provider) fetchParts(
	ctx context.Context, from, to int, bytesMax int64,
	partAt func(i int) subrequest, readPart func(i int, r *reader) error,
) error {
	batchSize := batchItemsMax
	for i := from; i < to; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(batchSize, to-i)
		if n == 1 {
			q := partAt(i)
			err := p.streamCall(ctx, p.blockLimits(max(bytesMax, p.answerBytesMax)), func(r *reader) error {
				return readPart(i, r)
			}, q.method, q.args...)
			if errors.Is(err, errAbsent) {
				return p.WrapError(q.method, fmt.Errorf("number %d is missing", i))
			}
			if err != nil {
				return err
			}
		} else {
			raws := make([]json.RawMessage, n)
			elems := make([]rpc.BatchElem, n)
			for j := range elems {
				q := partAt(i + j)
				elems[j] = rpc.BatchElem{Method: q.method, Args: q.args, Result: &raws[j]}
			}
			err := p.callBatch(endpoint.WithBytesMax(ctx, min(pieceBytesMax, p.answerBytesMax)), elems)
			if isTooLong(err) {
				batchSize = max(1, n/4)
				continue
			}
			if err != nil {
				return err
			}
			for j, raw := range raws {
				if isNull(raw) {
					raw = json.RawMessage("null")
				}
				if err := readPart(i+j, newRawReader(raw)); err != nil {
					return err
				}
			}
		}
		i += n
		batchSize = min(batchItemsMax, 2*batchSize)
	}
	return nil
}
