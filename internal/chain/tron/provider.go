package tron

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/cofferpay/coffer/internal/chain/endpoint"
	"github.com/cofferpay/coffer/internal/chain/several"
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
	newest view = "/wallet/"
	solid  view = "/walletsolidity/"
)

// Requests of nodes.
type args map[string]any

// ask makes one request and reads the answer.
func (p *provider) ask(ctx context.Context, result any, of view, method string, with args) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	return p.request(ctx, result, of, method, with)
}

func (p *provider) request(ctx context.Context, result any, of view, method string, with args) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	answer, err := p.post(ctx, string(of)+method, with)
	if err == nil {
		err = open(answer, result)
	}
	return p.Said(method, err)
}

// open reads an answer. Nodes say what is wrong in an object with an error, and mostly
// with a status that says that all is well.
func open(answer []byte, result any) error {
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

func (p *provider) post(ctx context.Context, path string, with args) ([]byte, error) {
	if with == nil {
		with = args{}
	}
	with["visible"] = false
	body, err := json.Marshal(with, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	answer, err := p.Post(ctx, path, body)
	if err != nil {
		return nil, err
	}
	text := bytes.TrimSpace(answer.Body)
	if answer.Status != http.StatusOK || len(text) == 0 || text[0] != '{' && text[0] != '[' {
		return nil, answer.Unexpected()
	}
	return text, nil
}

// greet makes sure, once, that the provider is on our network. Until it has answered,
// nothing else is asked of it.
func (p *provider) greet(ctx context.Context) error { return p.Greet(ctx, "getblock", p.meet) }

func (p *provider) meet(ctx context.Context) error {
	if p.genesis == "" {
		return nil
	}
	var first struct {
		ID string `json:"blockID"`
	}
	if err := p.request(ctx, &first, newest, "getblock", args{"id_or_num": "0", "detail": false}); err != nil {
		return err
	}
	if first.ID != p.genesis {
		return p.WrongNetwork("the network that began with block "+several.Short(first.ID), p.genesis)
	}
	return nil
}
