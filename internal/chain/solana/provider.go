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
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// provider is one JSON-RPC endpoint. Every request to it is bounded in time and every answer in
// size.
type provider struct {
	*endpoint.Endpoint
	name    string // of the endpoint
	genesis string // hash of the configured network's first block; "" accepts any
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

// rpcError is what a provider answers instead of a result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string {
	return strconv.Itoa(e.Code) + ": " + quorum.TruncateAnswer(e.Message)
}

// callRaw makes one request and returns the undecoded result.
func (p *provider) callRaw(ctx context.Context, method string, args ...any) ([]byte, error) {
	if err := p.ensureHandshake(ctx); err != nil {
		return nil, err
	}
	return p.sendCall(ctx, method, args...)
}

// callMethod makes one request and decodes the result. result is unchanged if the answer is null.
func (p *provider) callMethod(ctx context.Context, result any, method string, args ...any) error {
	raw, err := p.callRaw(ctx, method, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return p.WrapError(method, err)
	}
	return nil
}

func (p *provider) sendCall(ctx context.Context, method string, args ...any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	raw, err := p.postCall(ctx, method, args)
	return raw, p.WrapError(method, err)
}

func (p *provider) postCall(ctx context.Context, method string, args []any) ([]byte, error) {
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
		return nil, answer.UnexpectedError()
	}
	return result, err
}

// open extracts the result from an answer. An answer with neither a result nor an error is invalid:
// a missing result must not be taken for an empty one.
func open(answer []byte, id uint64) ([]byte, error) {
	s := newScanner(answer)
	var result, fault, answerID []byte
	s.expectByte('{')
	for n := 0; s.hasNext('}', &n); {
		switch name := string(s.readMember()); name {
		case "result", "error", "id":
			target := map[string]*[]byte{"result": &result, "error": &fault, "id": &answerID}[name]
			if *target != nil {
				s.fail("a field that is there twice")
			}
			*target = s.skipValue()
		default:
			s.skipValue()
		}
	}
	if err := s.expectEnd(); err != nil {
		return nil, err
	}
	if fault != nil && string(fault) != "null" {
		e := &rpcError{}
		if err := json.Unmarshal(fault, e); err != nil {
			return nil, fmt.Errorf("an invalid error: %.100q", fault)
		}
		return nil, e
	}
	if result == nil || string(answerID) != strconv.FormatUint(id, 10) {
		return nil, errors.New("neither a result nor an error, or for another question")
	}
	return result, nil
}

// ensureHandshake makes sure, once, that the provider is on the configured network. No other
// request is sent to it before.
func (p *provider) ensureHandshake(ctx context.Context) error {
	return p.Handshake(ctx, "getGenesisHash", p.checkNetwork)
}

func (p *provider) checkNetwork(ctx context.Context) error {
	raw, err := p.sendCall(ctx, "getGenesisHash")
	if err != nil {
		return err
	}
	var genesis string
	if err := json.Unmarshal(raw, &genesis); err != nil {
		return p.WrapError("getGenesisHash", err)
	}
	if p.genesis != "" && genesis != p.genesis {
		return p.WrongNetwork(fmt.Sprintf("the network that began with %.44q", genesis), p.genesis)
	}
	return nil
}
