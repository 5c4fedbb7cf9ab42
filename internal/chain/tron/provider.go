package tron

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json"
)

const (
	saidBytesMax = 300 // of a provider's error that is passed on
	idleConnsMax = 8
	// greetAgainAfter is how long a provider that did not answer a greeting is left alone.
	// Those who ask meanwhile get the same error at once.
	greetAgainAfter = time.Second
	// pauseMax is the longest pause that a provider may ask for.
	pauseMax = time.Minute
)

// A provider is one node. Every request of it is bounded in time and every answer in
// size.
type provider struct {
	name    string // for errors: its place in the configuration and its host, no secret
	url     string
	genesis string // identifier of the first block of our network; "" takes any
	timeout time.Duration
	max     int64
	client  *http.Client
	pause   atomic.Int64 // until when nothing is asked, in Unix nanoseconds

	greeted  atomic.Bool   // it has shown that it is on our network
	greeting chan struct{} // held by the one who greets, and for the two below
	silent   error         // why the last greeting failed
	silentAt time.Time
}

type wrongNetworkError struct{ provider, got, want string }

func (e *wrongNetworkError) Error() string {
	return fmt.Sprintf("%s is on the network that began with block %s, not %s: give the endpoint of the right network", e.provider, e.got, e.want)
}

func newProvider(cfg Config, i int) (*provider, error) {
	u, err := url.Parse(cfg.Endpoints[i])
	if err != nil {
		return nil, fmt.Errorf("endpoint %d is not a URL", i+1)
	}
	return &provider{
		name: fmt.Sprintf("provider %d (%s)", i+1, u.Host), url: strings.TrimRight(cfg.Endpoints[i], "/"),
		genesis: cfg.Genesis, timeout: cfg.Timeout, max: cfg.AnswerBytesMax,
		greeting: make(chan struct{}, 1),
		client: &http.Client{
			Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: idleConnsMax, IdleConnTimeout: time.Minute},
			// A redirect would carry the request to a host that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// String is its name, which holds no secret.
func (p *provider) String() string { return p.name }

var (
	errAskedToPause = errors.New("asked for a pause that is not over")
	errTooLong      = errors.New("answer is longer than is allowed")
)

// A saidError is what went wrong with a request: short, and without the endpoint's URL,
// which may hold a secret.
type saidError struct {
	provider, method string
	err              error
}

func (e *saidError) Error() string { return e.provider + ": " + e.method + ": " + short(e.err.Error()) }

func (e *saidError) Unwrap() error { return e.err }

// short bounds what strangers say.
func short(s string) string { return strings.ToValidUTF8(s[:min(len(s), saidBytesMax)], "") }

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
	if err != nil {
		return &saidError{p.name, method, err}
	}
	return nil
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
	if time.Now().UnixNano() < p.pause.Load() {
		return nil, errAskedToPause
	}
	if with == nil {
		with = args{}
	}
	with["visible"] = false
	body, err := json.Marshal(with, json.Deterministic(true))
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the endpoint cannot be asked")
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err
		}
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
			p.pause.Store(time.Now().Add(min(time.Duration(s)*time.Second, pauseMax)).UnixNano())
		}
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, p.max+1))
	answer = bytes.TrimSpace(answer)
	switch {
	case err != nil:
		return nil, err
	case int64(len(answer)) > p.max:
		return nil, errTooLong
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("answered %s: %s", resp.Status, short(string(answer)))
	case len(answer) == 0 || answer[0] != '{' && answer[0] != '[':
		return nil, fmt.Errorf("the answer is none: %s", short(string(answer)))
	}
	return answer, nil
}

// greet makes sure, once, that the provider is on our network. Until it has answered,
// nothing else is asked of it.
func (p *provider) greet(ctx context.Context) error {
	if p.greeted.Load() {
		return nil
	}
	select {
	case p.greeting <- struct{}{}:
		defer func() { <-p.greeting }()
	case <-ctx.Done():
		return &saidError{p.name, "getblock", context.Cause(ctx)}
	}
	if p.greeted.Load() {
		return nil
	}
	if p.silent != nil && time.Since(p.silentAt) < greetAgainAfter {
		return p.silent
	}
	if p.silent = p.meet(ctx); p.silent != nil {
		p.silentAt = time.Now()
		return p.silent
	}
	p.greeted.Store(true)
	return nil
}

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
		return &wrongNetworkError{p.name, short(first.ID), p.genesis}
	}
	return nil
}
