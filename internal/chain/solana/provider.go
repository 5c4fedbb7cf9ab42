package solana

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

const (
	saidBytesMax = 300 // of a provider's error that is passed on
	idleConnsMax = 8
	// greetAgainAfter is how long a provider that did not answer a greeting is
	// left alone. Those who ask meanwhile get the same error at once.
	greetAgainAfter = time.Second
	// pauseMax is the longest pause that a provider may ask for.
	pauseMax = time.Minute
)

// A provider is one JSON-RPC endpoint. Every request of it is bounded in time
// and every answer in size.
type provider struct {
	name    string // for errors: its place in the configuration and its host, no secret
	url     string
	genesis string // hash of the first block of our network; "" takes any
	timeout time.Duration
	max     int64
	client  *http.Client
	pause   atomic.Int64 // until when nothing is asked, in Unix nanoseconds
	ids     atomic.Uint64

	greeted  atomic.Bool   // it has shown that it is on our network
	greeting chan struct{} // held by the one who greets, and for the two below
	silent   error         // why the last greeting failed
	silentAt time.Time
}

type wrongNetworkError struct{ provider, got, want string }

func (e *wrongNetworkError) Error() string {
	return fmt.Sprintf("%s is on the network that began with %.44q, not %s: give the endpoint of the right network", e.provider, e.got, e.want)
}

func newProvider(cfg Config, i int) (*provider, error) {
	u, err := url.Parse(cfg.Endpoints[i])
	if err != nil {
		return nil, fmt.Errorf("endpoint %d is not a URL", i+1)
	}
	return &provider{
		name: fmt.Sprintf("provider %d (%s)", i+1, u.Host), url: cfg.Endpoints[i],
		genesis: cfg.Genesis, timeout: cfg.Timeout, max: cfg.AnswerBytesMax,
		greeting: make(chan struct{}, 1),
		client: &http.Client{
			Transport: &http.Transport{
				Proxy:               http.ProxyFromEnvironment,
				MaxIdleConnsPerHost: idleConnsMax,
				IdleConnTimeout:     time.Minute,
			},
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

// A rpcError is what a provider answers in place of a result.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return strconv.Itoa(e.Code) + ": " + short(e.Message) }

// A saidError is what went wrong with a request: short, and without the
// endpoint's URL, which may hold a secret.
type saidError struct {
	provider, method string
	err              error
}

func (e *saidError) Error() string {
	return e.provider + ": " + e.method + ": " + short(e.err.Error())
}

func (e *saidError) Unwrap() error { return e.err }

func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// short bounds what strangers say.
func short(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), saidBytesMax)], "")
}

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
		return &saidError{p.name, method, err}
	}
	return nil
}

func (p *provider) request(ctx context.Context, method string, args ...any) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	raw, err := p.post(ctx, method, args)
	if err != nil {
		return nil, &saidError{p.name, method, plain(err)}
	}
	return raw, nil
}

func (p *provider) post(ctx context.Context, method string, args []any) ([]byte, error) {
	if time.Now().UnixNano() < p.pause.Load() {
		return nil, errAskedToPause
	}
	id := p.ids.Add(1)
	if args == nil {
		args = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": args})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := p.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
			p.pause.Store(time.Now().Add(min(time.Duration(s)*time.Second, pauseMax)).UnixNano())
		}
	}
	// The length is that of what was unpacked.
	answer, err := io.ReadAll(io.LimitReader(resp.Body, p.max+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(answer)) > p.max:
		return nil, errTooLong
	}
	result, err := open(answer, id)
	if err != nil && resp.StatusCode != http.StatusOK && !errors.As(err, new(*rpcError)) {
		return nil, fmt.Errorf("HTTP %d: %.100q", resp.StatusCode, answer)
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
func (p *provider) greet(ctx context.Context) error {
	if p.greeted.Load() {
		return nil
	}
	select {
	case p.greeting <- struct{}{}:
		defer func() { <-p.greeting }()
	case <-ctx.Done():
		return &saidError{p.name, "getGenesisHash", context.Cause(ctx)}
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
	raw, err := p.request(ctx, "getGenesisHash")
	if err != nil {
		return err
	}
	var genesis string
	if err := json.Unmarshal(raw, &genesis); err != nil {
		return &saidError{p.name, "getGenesisHash", err}
	}
	if p.genesis != "" && genesis != p.genesis {
		return &wrongNetworkError{p.name, genesis, p.genesis}
	}
	return nil
}
