package solana

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// A provider is one JSON-RPC endpoint. Every request of it is bounded in time
// and every answer in size.
type provider struct {
	*endpoint.Endpoint
	name    string // of it
	genesis string // hash of the first block of our network; "" takes any
	timeout time.Duration
	ids     atomic.Uint64
}

func newProvider(cfg Config, i int) (*provider, error) {
	e, err := endpoint.New(cfg.Endpoints[i], i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	return &provider{Endpoint: e, name: e.String(), genesis: cfg.Genesis, timeout: cfg.Timeout}, nil
}

// A rpcError is what a provider answers in place of a result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return strconv.Itoa(e.Code) + ": " + several.Short(e.Message) }

// ask makes one request and gives the result as it came.
func (p *provider) ask(ctx context.Context, method string, args ...any) ([]byte, error) {
	if err := p.greet(ctx); err != nil {
		return nil, err
	}
	return p.request(ctx, method, args...)
}

// call makes one request and reads the result. result is unchanged when it is null.
func (p *provider) call(ctx context.Context, result any, method string, args ...any) error {
	raw, err := p.ask(ctx, method, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return p.Said(method, err)
	}
	return nil
}

func (p *provider) request(ctx context.Context, method string, args ...any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	raw, err := p.post(ctx, method, args)
	return raw, p.Said(method, err)
}

func (p *provider) post(ctx context.Context, method string, args []any) ([]byte, error) {
	id := p.ids.Add(1)
	if args == nil {
		args = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": args})
	if err != nil {
		return nil, err
	}
	answer, err := p.Post(ctx, "", body)
	if err != nil {
		return nil, err
	}
	result, err := open(answer.Body, id)
	if err != nil && answer.Status != http.StatusOK && !errors.As(err, new(*rpcError)) {
		return nil, answer.Unexpected()
	}
	return result, err
}

// open takes the result out of an answer. One without a result and without an error is
// none: what is not there must not be taken for nothing.
func open(answer []byte, id uint64) ([]byte, error) {
	s := newScanner(answer)
	var result, fault, of []byte
	s.expect('{')
	for n := 0; s.more('}', &n); {
		switch name := string(s.member()); name {
		case "result", "error", "id":
			into := map[string]*[]byte{"result": &result, "error": &fault, "id": &of}[name]
			if *into != nil {
				s.fail("a member that is there twice")
			}
			*into = s.skip()
		default:
			s.skip()
		}
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	if fault != nil && string(fault) != "null" {
		e := &rpcError{}
		if err := json.Unmarshal(fault, e); err != nil {
			return nil, fmt.Errorf("an error that is none: %.100q", fault)
		}
		return nil, e
	}
	if result == nil || string(of) != strconv.FormatUint(id, 10) {
		return nil, errors.New("neither a result nor an error, or of another question")
	}
	return result, nil
}

// greet makes sure, once, that the provider is on our network. Until it has answered,
// nothing else is asked of it.
func (p *provider) greet(ctx context.Context) error { return p.Greet(ctx, "getGenesisHash", p.meet) }

func (p *provider) meet(ctx context.Context) error {
	raw, err := p.request(ctx, "getGenesisHash")
	if err != nil {
		return err
	}
	var genesis string
	if err := json.Unmarshal(raw, &genesis); err != nil {
		return p.Said("getGenesisHash", err)
	}
	if p.genesis != "" && genesis != p.genesis {
		return p.WrongNetwork(fmt.Sprintf("the network that began with %.44q", genesis), p.genesis)
	}
	return nil
}
