package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/rpc"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Whoever sends transactions decides how long the answers about a whole block are: a gas
// unit buys a byte of log data for eight, and an empty log of some 400 characters for 375.
// Such an answer is read while it arrives, and only what is needed of it is kept. Where a
// provider does not give it whole, its parts are asked for one by one.

const (
	// streamBytesPerSecond is the rate that a provider has to keep up, beyond the time-out
	// that every request has.
	streamBytesPerSecond = 4 << 20
	// pieceBytesMax bounds the answer to several parts asked for at once. Nodes refuse batches
	// above 25 MB.
	pieceBytesMax = 8 << 20
	errorBytesMax = 64 << 10 // of an answer that is an error
)

var (
	errCut     = errors.New("the answer ended before its end")
	errTooSlow = errors.New("the answer came too slowly")
	errAbsent  = errors.New("the answer is null")
)

// A rpcError is the error that a provider answers with. It is an rpc.Error.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string  { return e.Message }
func (e *rpcError) ErrorCode() int { return e.Code }

const (
	codeTooLarge  = -32003 // geth, of a batch
	codeOversized = -32008 // jsonrpsee, which reth and others use
)

// tooLargeWords are how providers say that an answer is longer than they give.
var tooLargeWords = []string{
	"too large", "too big", "too long", "response size", "result size", "max response", "maximum response", "max limit of", "larger than",
}

// oversized tells whether a request failed because of the length of its answer, as far as
// can be told: the provider says so, we do not read that much, or it broke off.
func oversized(err error) bool {
	if errors.Is(err, endpoint.ErrTooLong) || errors.Is(err, errCut) || errors.Is(err, errTooSlow) {
		return true
	}
	var status rpc.HTTPError
	if errors.As(err, &status) && status.StatusCode == http.StatusRequestEntityTooLarge {
		return true
	}
	var said rpc.Error
	if !errors.As(err, &said) && status.StatusCode == 0 {
		return false
	}
	if said != nil && (said.ErrorCode() == codeTooLarge || said.ErrorCode() == codeOversized) {
		return true
	}
	text := strings.ToLower(err.Error())
	return slices.ContainsFunc(tooLargeWords, func(w string) bool { return strings.Contains(text, w) })
}

// A reader reads JSON while it arrives. It never holds more than one value that is asked
// for whole.
type reader struct {
	*jsontext.Decoder
	in *meter
}

// A meter bounds how much is read for one value, and tells of an answer that breaks off
// from one that is wrong.
type meter struct {
	from     io.Reader
	valueMax int64
	left     int64 // of valueMax
	read     int64
	progress func(read int64) // nil: nobody is told
}

func newReader(from io.Reader, valueMax int64, progress func(int64)) *reader {
	in := &meter{from: from, valueMax: valueMax, left: valueMax, progress: progress}
	return &reader{jsontext.NewDecoder(in), in}
}

// readerOf reads what is there already.
func readerOf(raw []byte) *reader { return newReader(bytes.NewReader(raw), int64(len(raw))+1, nil) }

func (m *meter) Read(p []byte) (int, error) {
	if m.left <= 0 {
		return 0, endpoint.ErrTooLong
	}
	n, err := m.from.Read(p[:min(int64(len(p)), m.left)])
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

// value is the next value whole. It holds until the next one is read.
func (r *reader) value() (jsontext.Value, error) {
	r.in.left = r.in.valueMax
	v, err := r.ReadValue()
	return v, broken(err)
}

func (r *reader) token() (jsontext.Token, error) {
	r.in.left = r.in.valueMax
	t, err := r.ReadToken()
	return t, broken(err)
}

// kind is of the next value; 0 where there is none, and reading it says why.
func (r *reader) kind() jsontext.Kind {
	r.in.left = r.in.valueMax
	return r.PeekKind()
}

// broken marks the end of an answer that comes too early.
func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return err
}

// begin reads the beginning of an object or a list.
func (r *reader) begin(want jsontext.Kind) error {
	t, err := r.token()
	if err == nil && t.Kind() != want {
		err = fmt.Errorf("got %s, want %s", t.Kind(), want)
	}
	return err
}

// members reads an object. big names those members that are read while they arrive; it is
// given what came before them. The others are gathered to a document.
func (r *reader) members(big map[string]func(before []byte) error) (document []byte, err error) {
	if err := r.begin('{'); err != nil {
		return nil, err
	}
	document = append(document, '{')
	for r.kind() != '}' {
		t, err := r.token()
		if err != nil {
			return nil, err
		}
		name := t.String()
		if read := big[name]; read != nil {
			if err := read(append(document, '}')); err != nil {
				return nil, err
			}
			continue
		}
		v, err := r.value()
		if err != nil {
			return nil, err
		}
		if int64(len(document)+len(name)+len(v)) > r.in.valueMax {
			return nil, endpoint.ErrTooLong
		}
		if len(document) > 1 {
			document = append(document, ',')
		}
		if document, err = jsontext.AppendQuote(document, name); err != nil {
			return nil, err
		}
		document = append(append(document, ':'), v...)
	}
	if _, err := r.token(); err != nil {
		return nil, err
	}
	return append(document, '}'), nil
}

// items reads a list, one item after the other.
func (r *reader) items(read func(i int) error) error {
	if err := r.begin('['); err != nil {
		return err
	}
	for i := 0; r.kind() != ']'; i++ {
		if err := read(i); err != nil {
			return err
		}
	}
	_, err := r.token()
	return err
}

// stream makes one request and has its result read while it arrives. The answer may have
// so many bytes, and a value in it that is held whole as many as every other answer. Error:
// errAbsent for null.
func (p *provider) stream(ctx context.Context, bytesMax int64, read func(*reader) error, method string, args ...any) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	return p.Said(method, p.streamOnce(ctx, bytesMax, read, method, args))
}

func (p *provider) streamOnce(ctx context.Context, bytesMax int64, read func(*reader) error, method string, args []any) error {
	question, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": args})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(endpoint.WithBytesMax(ctx, bytesMax))
	defer cancel(nil)
	began := time.Now()
	late := time.AfterFunc(p.timeout, func() { cancel(errTooSlow) })
	defer late.Stop()
	status, answer, err := p.Open(ctx, question)
	if err != nil {
		return slow(ctx, err)
	}
	defer answer.Close()
	if status < http.StatusOK || status >= http.StatusMultipleChoices {
		text, _ := io.ReadAll(io.LimitReader(answer, errorBytesMax)) // what there is of it
		return rpc.HTTPError{StatusCode: status, Status: fmt.Sprintf("%d %s", status, http.StatusText(status)), Body: []byte(several.Short(string(text)))}
	}
	r := newReader(answer, p.answerBytesMax, func(read int64) {
		late.Reset(time.Until(began.Add(p.timeout + time.Duration(read)*time.Second/streamBytesPerSecond)))
	})
	return slow(ctx, r.answer(read))
}

// slow says of an error that it came because the time was over.
func slow(ctx context.Context, err error) error {
	if err != nil && errors.Is(context.Cause(ctx), errTooSlow) {
		return fmt.Errorf("%w: %w", errTooSlow, err)
	}
	return err
}

// answer reads what a provider says to one request.
func (r *reader) answer(read func(*reader) error) error {
	said := false
	rest, err := r.members(map[string]func([]byte) error{"result": func([]byte) error {
		if r.kind() == 'n' { // some give it with an error
			_, err := r.token()
			return err
		}
		said = true
		return read(r)
	}})
	if err != nil {
		return err
	}
	var other struct {
		Error *rpcError `json:"error"`
	}
	if err := json.Unmarshal(rest, &other); err != nil {
		return err
	}
	switch {
	case other.Error != nil:
		return other.Error
	case !said:
		return errAbsent
	}
	return nil
}

// A piece is a part of a whole answer: the question that asks for it alone.
type piece struct {
	method string
	args   []any
}

// pieces asks for the parts of an answer with these numbers, in their order: as many at
// once as p gives, and what is too long for that by itself. take reads one of them, which
// may have bytesMax, or as much as every other answer where that is more.
func (p *provider) pieces(ctx context.Context, from, to int, bytesMax int64, of func(i int) piece, take func(i int, r *reader) error) error {
	once := batchItemsMax
	for i := from; i < to; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		n := min(once, to-i)
		if n == 1 {
			q := of(i)
			err := p.stream(ctx, max(bytesMax, p.answerBytesMax), func(r *reader) error { return take(i, r) }, q.method, q.args...)
			if errors.Is(err, errAbsent) {
				return p.Said(q.method, fmt.Errorf("number %d is missing", i))
			}
			if err != nil {
				return err
			}
		} else {
			raws := make([]json.RawMessage, n)
			elems := make([]rpc.BatchElem, n)
			for j := range elems {
				q := of(i + j)
				elems[j] = rpc.BatchElem{Method: q.method, Args: q.args, Result: &raws[j]}
			}
			err := p.batch(endpoint.WithBytesMax(ctx, min(pieceBytesMax, p.answerBytesMax)), elems)
			if oversized(err) {
				once = max(1, n/4)
				continue
			}
			if err != nil {
				return err
			}
			for j, raw := range raws {
				if absent(raw) {
					raw = json.RawMessage("null")
				}
				if err := take(i+j, readerOf(raw)); err != nil {
					return err
				}
			}
		}
		i += n
		once = min(batchItemsMax, 2*once)
	}
	return nil
}
