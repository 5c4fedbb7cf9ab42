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
	"github.com/cofferpay/coffer/internal/chain/several"
)

const batchItemsMax = 100 // requests in one

// The numbers by which nodes of both kinds say what is wrong.
const (
	codeNoMethod  = -32601
	codeNotFound  = -5 // no such block, transaction or address
	codeOutOfTip  = -1 // btcd: no block at that height; bitcoind uses it for much
	codeParameter = -8 // bitcoind: no block at that height
)

// A provider is one node, or an Esplora server. Every request of it is bounded in time and every answer in
// size.
type provider struct {
	*endpoint.Endpoint
	name    string // of it
	genesis string
	network chain.Network
	params  *chaincfg.Params
	timeout time.Duration
	scan    time.Duration
	esplora bool        // it is no node
	scans   atomic.Bool // it looks for balances in all outputs and not in an index
}

func newProvider(cfg Config, params *chaincfg.Params, genesis string, i int) (*provider, error) {
	to, esplora := Esplora(cfg.Endpoints[i])
	e, err := endpoint.New(to, i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	return &provider{
		Endpoint: e, name: e.String(), genesis: genesis, network: cfg.Network, params: params, timeout: cfg.Timeout, scan: cfg.ScanTimeout,
		esplora: esplora,
	}, nil
}

// refusal is what a node answers in place of a result.
type refusal struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *refusal) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// refused tells whether a node refused with one of these numbers.
func refused(err error, codes ...int) bool {
	var r *refusal
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

// A question is one request and what came of it.
type question struct {
	method string
	params []any
	result any   // where the answer goes
	err    error // of this one alone
}

func ask(result any, method string, params ...any) *question {
	return &question{method: method, params: params, result: result}
}

// call makes requests at once, as many as there are. Error: they could not be made, or
// one of them has one.
func (p *provider) call(ctx context.Context, all ...*question) error {
	if err := p.callEach(ctx, all...); err != nil {
		return err
	}
	for _, q := range all {
		if q.err != nil {
			return q.err
		}
	}
	return nil
}

// callEach makes requests and leaves to the caller what went wrong with each; it is an
// error when they could not be made at all.
func (p *provider) callEach(ctx context.Context, all ...*question) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	for len(all) > 0 {
		n := min(len(all), batchItemsMax)
		if err := p.request(ctx, p.timeout, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

type response struct {
	ID     *int           `json:"id"`
	Result jsontext.Value `json:"result"`
	Error  *refusal       `json:"error"`
}

func (p *provider) request(ctx context.Context, timeout time.Duration, all []*question) error {
	if p.esplora {
		return p.explore(ctx, all)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.Said(all[0].method, p.exchange(ctx, all))
}

func (p *provider) exchange(ctx context.Context, all []*question) error {
	requests := make([]request, len(all))
	for i, q := range all {
		requests[i] = request{"2.0", i, q.method, q.params}
		if q.params == nil {
			requests[i].Params = []any{}
		}
	}
	var body any = requests
	if len(requests) == 1 {
		body = requests[0] // some nodes behind a proxy take no lists
	}
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := p.post(ctx, text)
	if err != nil {
		return err
	}
	responses := make([]response, 1)
	if len(requests) == 1 {
		err = json.Unmarshal(answer, &responses[0])
	} else {
		err = json.Unmarshal(answer, &responses)
	}
	if err != nil {
		return fmt.Errorf("the answer is not of the protocol: %w", err)
	}
	answered := make([]bool, len(all))
	for _, r := range responses {
		if r.ID == nil || *r.ID < 0 || *r.ID >= len(all) || answered[*r.ID] {
			if r.Error != nil {
				return r.Error
			}
			return errors.New("the answer is to another question")
		}
		answered[*r.ID] = true
		q := all[*r.ID]
		switch {
		case r.Error != nil:
			q.err = p.Said(q.method, r.Error)
		case len(r.Result) == 0:
			q.err = p.Said(q.method, errors.New("no result"))
		default:
			if err := into(r.Result, q.result); err != nil {
				q.err = p.Said(q.method, err)
			}
		}
	}
	for i, is := range answered {
		if !is {
			all[i].err = p.Said(all[i].method, errors.New("was not answered"))
		}
	}
	return nil
}

// rawHex are bytes that come as hexadecimal digits.
type rawHex []byte

// into reads a result. Bytes are read here, since a block has megabytes of them.
func into(v jsontext.Value, result any) error {
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

func (p *provider) post(ctx context.Context, body []byte) ([]byte, error) {
	answer, err := p.Post(ctx, "", body)
	switch text := answer.Body; {
	case err != nil:
		return nil, err
	case answer.Status == http.StatusUnauthorized || answer.Status == http.StatusForbidden:
		return nil, fmt.Errorf("%d %s: give the endpoint with the node's user and password", answer.Status, http.StatusText(answer.Status))
	case len(bytes.TrimSpace(text)) == 0 || text[0] != '{' && text[0] != '[':
		// bitcoind answers an error with a status of its own and the protocol's body.
		return nil, answer.Unexpected()
	}
	return answer.Body, nil
}

// greet makes sure, once, that the node is on our network. Until it has answered,
// nothing else is asked of it.
func (p *provider) greet(ctx context.Context) error { return p.Greet(ctx, "getblockhash", p.meet) }

func (p *provider) meet(ctx context.Context) error {
	var first string
	q := ask(&first, "getblockhash", 0)
	if err := p.request(ctx, p.timeout, []*question{q}); err != nil {
		return err
	}
	if q.err != nil {
		return q.err
	}
	if first != p.genesis {
		return p.WrongNetwork("the network that begins with block "+several.Short(first), p.genesis)
	}
	return nil
}

// hashText is a hash as nodes write it.
func hashText(s string) (chainhash.Hash, error) {
	if len(s) != chainhash.MaxHashStringSize {
		return chainhash.Hash{}, fmt.Errorf("%q is not a hash", several.Short(s))
	}
	h, err := chainhash.NewHashFromStr(s)
	if err != nil {
		return chainhash.Hash{}, fmt.Errorf("%q is not a hash", several.Short(s))
	}
	return *h, nil
}

// height is that of the node's newest block.
func (p *provider) height(ctx context.Context) (n uint64, err error) {
	return n, p.call(ctx, ask(&n, "getblockcount"))
}

// hashAt is the block that the node has at a height; ok is false beyond its newest one.
func (p *provider) hashAt(ctx context.Context, height uint64) (h chainhash.Hash, ok bool, err error) {
	var text string
	err = p.call(ctx, ask(&text, "getblockhash", height))
	if refused(err, codeOutOfTip, codeParameter) {
		return h, false, nil
	}
	if err != nil {
		return h, false, err
	}
	if h, err = hashText(text); err != nil {
		err = fmt.Errorf("%s: %w", p.name, err)
	}
	return h, err == nil, err
}
