package bitcoin

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

const batchItemsMax = 100 // requests in one batch

// The error numbers of both kinds of node.
const (
	codeNoMethod  = -32601
	codeNotFound  = -5 // no such block, transaction or address
	codeOutOfTip  = -1 // btcd: no block at that height; bitcoind uses it for much
	codeParameter = -8 // bitcoind: no block at that height
)

// provider is one node, or an Esplora server. Every request to it is bounded in time and every
// answer in size.
type provider struct {
	*endpoint.Endpoint
	name        string // of the endpoint
	genesis     string
	network     chain.Network
	params      *chaincfg.Params
	timeout     time.Duration
	scanTimeout time.Duration
	esplora     bool        // it is an Esplora server and no node
	usesScan    atomic.Bool // it reads balances from a scan of all outputs and not from an index
}

func newProvider(cfg Config, params *chaincfg.Params, genesis string, i int) (*provider, error) {
	server, esplora := CutEsploraPrefix(cfg.Endpoints[i])
	e, err := endpoint.New(server, i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	return &provider{
		Endpoint: e, name: e.String(), genesis: genesis, network: cfg.Network, params: params, timeout: cfg.Timeout,
		scanTimeout: cfg.ScanTimeout,
		esplora:     esplora,
	}, nil
}

// nodeError is what a node answers instead of a result.
type nodeError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *nodeError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// hasErrorCode reports whether a node refused with one of these numbers.
func hasErrorCode(err error, codes ...int) bool {
	var r *nodeError
	if !errors.As(err, &r) {
		return false
	}
	for _, c := range codes {
		if r.Code == c {
			return true
		}
	}
	return false
}

// rpcCall is one request with its result.
type rpcCall struct {
	method string
	params []any
	result any   // receives the answer
	err    error // of this request alone
}

func newCall(result any, method string, params ...any) *rpcCall {
	return &rpcCall{method: method, params: params, result: result}
}

// callBatch makes requests together, in any number. Error: they could not be made, or one of them
// failed.
func (p *provider) callBatch(ctx context.Context, calls ...*rpcCall) error {
	if err := p.callBatchEach(ctx, calls...); err != nil {
		return err
	}
	for _, q := range calls {
		if q.err != nil {
			return q.err
		}
	}
	return nil
}

// callBatchEach makes requests and leaves the error of each to the caller. Error: they could not be
// made at all.
func (p *provider) callBatchEach(ctx context.Context, calls ...*rpcCall) error {
	if err := p.ensureHandshake(ctx); err != nil {
		return err
	}
	for len(calls) > 0 {
		n := min(len(calls), batchItemsMax)
		if err := p.sendBatch(ctx, p.timeout, calls[:n]); err != nil {
			return err
		}
		calls = calls[n:]
	}
	return nil
}

type rpcRequest struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type rpcResponse struct {
	ID     *int           `json:"id"`
	Result jsontext.Value `json:"result"`
	Error  *nodeError     `json:"error"`
}

func (p *provider) sendBatch(ctx context.Context, timeout time.Duration, calls []*rpcCall) error {
	if p.esplora {
		return p.callEsplora(ctx, calls)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.WrapError(calls[0].method, p.exchangeBatch(ctx, calls))
}

func (p *provider) exchangeBatch(ctx context.Context, calls []*rpcCall) error {
	requests := make([]rpcRequest, len(calls))
	for i, q := range calls {
		requests[i] = rpcRequest{"2.0", i, q.method, q.params}
		if q.params == nil {
			requests[i].Params = []any{}
		}
	}
	var body any = requests
	if len(requests) == 1 {
		body = requests[0] // some nodes behind a proxy accept no lists
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := p.postCall(ctx, text)
	if err != nil {
		return err
	}
	responses := make([]rpcResponse, 1)
	if len(requests) == 1 {
		err = json.Unmarshal(answer, &responses[0])
	} else {
		err = json.Unmarshal(answer, &responses)
	}
	if err != nil {
		return fmt.Errorf("the answer is not of the protocol: %w", err)
	}
	answered := make([]bool, len(calls))
	for _, r := range responses {
		if r.ID == nil || *r.ID < 0 || *r.ID >= len(calls) || answered[*r.ID] {
			if r.Error != nil {
				return r.Error
			}
			return errors.New("the answer is to another question")
		}
		answered[*r.ID] = true
		q := calls[*r.ID]
		switch {
		case r.Error != nil:
			q.err = p.WrapError(q.method, r.Error)
		case len(r.Result) == 0:
			q.err = p.WrapError(q.method, errors.New("no result"))
		default:
			if err := decodeResult(r.Result, q.result); err != nil {
				q.err = p.WrapError(q.method, err)
			}
		}
	}
	for i, wasAnswered := range answered {
		if !wasAnswered {
			calls[i].err = p.WrapError(calls[i].method, errors.New("was not answered"))
		}
	}
	return nil
}

// rawHex holds bytes that are sent as hexadecimal digits.
type rawHex []byte

// decodeResult decodes a result. It decodes bytes itself, since a block has megabytes of them.
func decodeResult(v jsontext.Value, result any) error {
	raw, ok := result.(*rawHex)
	if !ok {
		return json.Unmarshal(v, result)
	}
	if len(v) < 2 || v[0] != '"' {
		return errors.New("the result is not in hexadecimal")
	}
	digits := v[1 : len(v)-1]
	*raw = make([]byte, hex.DecodedLen(len(digits)))
	if _, err := hex.Decode(*raw, digits); err != nil {
		return errors.New("the result is not in hexadecimal")
	}
	return nil
}

func (p *provider) postCall(ctx context.Context, body []byte) ([]byte, error) {
	answer, err := p.Post(ctx, "", body)
	switch text := answer.Body; {
	case err != nil:
		return nil, err
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return nil, fmt.Errorf("%d %s: give the endpoint with the node's user and password", answer.Status,
			http.StatusText(answer.Status))
	case len(bytes.TrimSpace(text)) == 0 || text[0] != '{' && text[0] != '[':
		// bitcoind answers an error with a status of its own and the protocol's body.
		return nil, answer.UnexpectedError()
	}
	return answer.Body, nil
}

// ensureHandshake makes sure, once, that the node is on the configured network. No other request is
// sent to it before.
func (p *provider) ensureHandshake(ctx context.Context) error {
	return p.Handshake(ctx, "getblockhash", p.checkNetwork)
}

func (p *provider) checkNetwork(ctx context.Context) error {
	var first string
	q := newCall(&first, "getblockhash", 0)
	if err := p.sendBatch(ctx, p.timeout, []*rpcCall{q}); err != nil {
		return err
	}
	if q.err != nil {
		return q.err
	}
	if first != p.genesis {
		return p.WrongNetwork("the network that begins with block "+quorum.TruncateAnswer(first), p.genesis)
	}
	return nil
}

// parseHash decodes a hash as nodes write it.
func parseHash(s string) (chainhash.Hash, error) {
	if len(s) != chainhash.MaxHashStringSize {
		return chainhash.Hash{}, fmt.Errorf("%q is not a hash", quorum.TruncateAnswer(s))
	}
	h, err := chainhash.NewHashFromStr(s)
	if err != nil {
		return chainhash.Hash{}, fmt.Errorf("%q is not a hash", quorum.TruncateAnswer(s))
	}
	return *h, nil
}

// readHeight returns the height of the node's newest block.
func (p *provider) readHeight(ctx context.Context) (n uint64, err error) {
	return n, p.callBatch(ctx, newCall(&n, "getblockcount"))
}

// readHashAt returns the hash of the node's block at a height; ok is false beyond its newest block.
func (p *provider) readHashAt(ctx context.Context, height uint64) (h chainhash.Hash, ok bool, err error) {
	var text string
	err = p.callBatch(ctx, newCall(&text, "getblockhash", height))
	if hasErrorCode(err, codeOutOfTip, codeParameter) {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	if h, err = parseHash(text); err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return h, err == nil, err
}
