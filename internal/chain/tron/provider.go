package tron

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// provider is one node. Each of its requests is bounded in time, and each answer in size.
type provider struct {
	*endpoint.Endpoint
	name    string // of the provider
	genesis string // identifier of the network's first block; "" accepts any
	timeout time.Duration
}

func newProvider(cfg Config, i int) (*provider, error) {
	e, err := endpoint.New(cfg.Endpoints[i], i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	return &provider{Endpoint: e, name: e.String(), genesis: cfg.Genesis, timeout: cfg.Timeout}, nil
}

// view names the state that a request reads.
type view string

const (
	newest     view = "/wallet/"
	solidified view = "/walletsolidity/"
)

// requestParams are the parameters of a request to a node.
type requestParams map[string]any

// callMethod sends one request and decodes the answer.
func (p *provider) callMethod(ctx context.Context, result any, state view, method string, params requestParams) error {
	if err := p.ensureHandshake(ctx); err != nil {
		return err
	}
	return p.sendCall(ctx, result, state, method, params)
}

func (p *provider) sendCall(ctx context.Context, result any, state view, method string, params requestParams) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.postCall(ctx, string(state)+method, params)
	if err == nil {
		err = decodeAnswer(answer, result)
	}
	return p.WrapError(method, err)
}

// decodeAnswer decodes an answer. Nodes report an error in an object, mostly with an HTTP status
// that says success.
func decodeAnswer(answer []byte, result any) error {
	if answer[0] == '{' {
		var fault struct {
			Said string `json:"Error"`
		}
		if err := json.Unmarshal(answer, &fault); err != nil {
			return err
		}
		if fault.Said != "" {
			return errors.New(fault.Said)
		}
	}
	return json.Unmarshal(answer, result)
}

func (p *provider) postCall(ctx context.Context, path string, params requestParams) ([]byte, error) {
	if params == nil {
		params = requestParams{}
	}
	params["visible"] = false
	body, err := json.Marshal(params, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	answer, err := p.Post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(answer.Body)
	if answer.Status != http.StatusOK || len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil, answer.UnexpectedError()
	}
	return text, nil
}

// ensureHandshake checks once that the provider is on the configured network. Before it has
// answered, it gets no other request.
func (p *provider) ensureHandshake(ctx context.Context) error {
	return p.Handshake(ctx, "getblock", p.checkNetwork)
}

func (p *provider) checkNetwork(ctx context.Context) error {
	if p.genesis == "" {
		return nil
	}
	var first struct {
		ID string `json:"blockID"`
	}
	if err := p.sendCall(
		ctx, &first, newest, "getblock", requestParams{"id_or_num": "0", "detail": false},
	); err != nil {
		return err
	}
	if first.ID != p.genesis {
		return p.WrongNetwork("the network that began with block "+quorum.TruncateAnswer(first.ID), p.genesis)
	}
	return nil
}
