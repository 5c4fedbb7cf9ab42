package evm

import (
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

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"
)

const (
	batchItemsMax = 100 // requests in one; public providers refuse longer batches
	saidBytesMax  = 300 // of a provider's error that is passed on
	idleConnsMax  = 8
	// greetAgainAfter is how long a provider that did not answer a greeting is
	// left alone. Those who ask meanwhile get the same error at once.
	greetAgainAfter = time.Second
)

// A provider is one JSON-RPC endpoint. Every request of it is bounded in time
// and every answer in size.
type provider struct {
	name    string // for errors: its place in the configuration and its host, no secret
	chainID uint64
	trace   Tracing
	stack   stack
	timeout time.Duration
	client  *rpc.Client

	greeted atomic.Bool // it has shown that it is on our chain
	traces  atomic.Bool // it offers debug_traceBlockByHash

	greeting chan struct{} // held by the one who greets, and for the two below
	silent   error         // why the last greeting failed
	silentAt time.Time
}

// String is the name.
func (p *provider) String() string { return p.name }

type wrongChainError struct {
	provider  string
	got, want uint64
}

func (e *wrongChainError) Error() string {
	return fmt.Sprintf("%s is on chain %d, not %d: give the endpoint of the right network", e.provider, e.got, e.want)
}

func newProvider(cfg Config, i int) (*provider, error) {
	u, err := url.Parse(cfg.all()[i])
	if err != nil {
		return nil, fmt.Errorf("endpoint %d is not a URL", i+1)
	}
	p := &provider{
		name:    fmt.Sprintf("provider %d (%s)", i+1, u.Host),
		chainID: cfg.ChainID, trace: cfg.Trace, stack: stackOf(cfg.Name), timeout: cfg.Timeout,
		greeting: make(chan struct{}, 1),
	}
	transport := &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		MaxIdleConnsPerHost: idleConnsMax,
		IdleConnTimeout:     time.Minute,
	}
	client := &http.Client{
		Transport: bounded{transport, cfg.AnswerBytesMax, new(atomic.Int64)},
		Timeout:   cfg.Timeout,
		// A redirect would carry the request to a host that nobody configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	p.client, err = rpc.DialOptions(context.Background(), cfg.all()[i], rpc.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, plain(err))
	}
	return p, nil
}

// bounded ends an answer that is longer than it may be with an error. The length is
// that of what was unpacked. A provider that asks for a pause is left alone for it.
type bounded struct {
	http.RoundTripper
	max   int64
	pause *atomic.Int64 // until when nothing is asked, in Unix nanoseconds
}

// pauseMax is the longest pause that a provider may ask for.
const pauseMax = time.Minute

var errAskedToPause = errors.New("asked for a pause that is not over")

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if time.Now().UnixNano() < b.pause.Load() {
		return nil, errAskedToPause
	}
	resp, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
			b.pause.Store(time.Now().Add(min(time.Duration(s)*time.Second, pauseMax)).UnixNano())
		}
	}
	resp.Body = &boundedBody{resp.Body, b.max}
	return resp, nil
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

var errTooLong = errors.New("answer is longer than is allowed")

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLong
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	return n, err
}

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

func (p *provider) wrap(method string, err error) error {
	if err == nil {
		return nil
	}
	return &saidError{p.name, method, plain(err)}
}

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

// call makes one request. result is unchanged when the answer is null.
func (p *provider) call(ctx context.Context, result any, method string, args ...any) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	return p.request(ctx, result, method, args...)
}

func (p *provider) request(ctx context.Context, result any, method string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.wrap(method, p.client.CallContext(ctx, result, method, args...))
}

// batch makes several requests at once. It is an error when one of them has one.
func (p *provider) batch(ctx context.Context, elems []rpc.BatchElem) error {
	if err := p.batchEach(ctx, elems); err != nil {
		return err
	}
	for _, e := range elems {
		if e.Error != nil {
			return p.wrap(e.Method, e.Error)
		}
	}
	return nil
}

// batchEach makes several requests at once and leaves to the caller what went
// wrong with each; it is an error when they could not be made at all.
func (p *provider) batchEach(ctx context.Context, elems []rpc.BatchElem) error {
	if err := p.greet(ctx); err != nil {
		return err
	}
	for len(elems) > 0 {
		n := min(len(elems), batchItemsMax)
		if err := p.batchOnce(ctx, elems[:n]); err != nil {
			return err
		}
		elems = elems[n:]
	}
	return nil
}

func (p *provider) batchOnce(ctx context.Context, elems []rpc.BatchElem) error {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	return p.wrap(elems[0].Method, p.client.BatchCallContext(ctx, elems))
}

// greet makes sure, once, that the provider is on our chain, and finds out
// whether it traces. Until it has answered, nothing else is asked of it.
func (p *provider) greet(ctx context.Context) error {
	if p.greeted.Load() {
		return nil
	}
	select {
	case p.greeting <- struct{}{}:
		defer func() { <-p.greeting }()
	case <-ctx.Done():
		return p.wrap("eth_chainId", context.Cause(ctx))
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
	var id hexutil.Uint64
	if err := p.request(ctx, &id, "eth_chainId"); err != nil {
		return err
	}
	if uint64(id) != p.chainID {
		return &wrongChainError{p.name, uint64(id), p.chainID}
	}
	if p.trace == TraceOff {
		return nil
	}
	if p.trace == TraceOn {
		p.traces.Store(true)
		return nil
	}
	able, err := p.offersTraces(ctx)
	p.traces.Store(able)
	return err
}
