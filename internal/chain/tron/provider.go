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

// A provider is one node. Every request of it is bounded in time and every answer in
// size.
type provider struct {
	*endpoint.Endpoint
	name    string // of it
	genesis string // identifier of the first block of our network; "" takes any
	timeout time.Duration
}

func newProvider(cfg Config, i int) (*provider, error) {
	e, err := endpoint.New(cfg.Endpoints[i], i, cfg.AnswerBytesMax)
	if err != nil {
		return nil, err
	}
	return &provider{Endpoint: e, name: e.String(), genesis: cfg.Genesis, timeout: cfg.Timeout}, nil
}

// A view is which state a question is about.
type view string

const (
	newest     view = "/wallet/"
	solidified view = "/walletsolidity/"
)

// Requests of nodes.
type requestParams map[string]any

// callMethod makes one request and reads the answer.
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

// decodeAnswer reads an answer. Nodes say what is wrong in an object with an error, and mostly
// with a status that says that all is well.
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

// ensureHandshake makes sure, once, that the provider is on our network. Until it has answered,
// nothing else is asked of it.
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
	if err := p.sendCall(ctx, &first, newest, "getblock", requestParams{"id_or_num": "0", "detail": false}); err != nil {
		return err
	}
	if first.ID != p.genesis {
		return p.WrongNetwork("the network that began with block "+quorum.TruncateAnswer(first.ID), p.genesis)
	}
	return nil
}
