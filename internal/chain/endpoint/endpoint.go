// Package endpoint sends requests to one provider of a chain at its URL. It holds what the adapters
// have in common below the protocols of their chains:
//   - Every answer is bounded in size.
//   - A provider that asks for a pause gets it.
//   - A provider is identified once before any other request.
//   - Errors are short and do not contain the URL, which may hold a secret.
//
// It trusts nothing and repeats nothing: the caller reads the answer, bounds the time and decides
// what an error means. It keeps no answer, only when and how requests ended, for people; nothing is
// decided by that, and a crash loses it.
package endpoint

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
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

const (
	idleConnsMax = 8
	// handshakeRetryAfter is how long a provider whose handshake failed is not contacted. Callers
	// get the same error at once in the meantime.
	handshakeRetryAfter = time.Second
	// pauseMax is the longest pause that a provider may ask for.
	pauseMax = time.Minute
)

var (
	// ErrTooLong says that an answer has more bytes than allowed.
	ErrTooLong = errors.New("answer is longer than is allowed")

	errPaused = errors.New("the provider asked for a pause that is not over")
)

// Endpoint is one URL.
type Endpoint struct {
	name        string // its position in the configuration and its host; no secret
	url         string
	bytesMax    int64
	client      *http.Client
	pausedUntil atomic.Int64 // no request is sent until then, in Unix nanoseconds

	handshakeDone  atomic.Bool
	handshakeLock  chan struct{} // held during the handshake; protects the two fields below
	handshakeErr   error         // why the last handshake failed
	handshakeErrAt time.Time

	stateLock sync.Mutex
	state     chain.ProviderState // what this process has seen of it; protected by stateLock
}

// New returns the endpoint at a position, from zero, in the configuration. An answer may have at
// most bytesMax bytes, uncompressed. Error: raw is no URL.
func New(raw string, index int, bytesMax int64) (*Endpoint, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("endpoint %d is not a URL", index+1)
	}
	e := &Endpoint{
		name: fmt.Sprintf("provider %d (%s)", index+1, u.Host), url: raw, bytesMax: bytesMax,
		handshakeLock: make(chan struct{}, 1),
	}
	e.client = &http.Client{
		Transport: boundedTransport{e, &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			MaxIdleConnsPerHost: idleConnsMax,
			IdleConnTimeout:     time.Minute,
		}},
		// A redirect would carry the request, and a password in it, to a host that is not
		// configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return e, nil
}

// String returns its name, which holds no secret.
func (e *Endpoint) String() string { return e.name }

// HTTPClient returns the client for callers that make requests of their own. They are bounded like
// all others.
func (e *Endpoint) HTTPClient() *http.Client { return e.client }

// boundedTransport ends an answer that is too long with an error, and stops requests for the pause
// that a provider asks for.
type boundedTransport struct {
	*Endpoint
	transport http.RoundTripper
}

func (b boundedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if time.Now().UnixNano() < b.pausedUntil.Load() {
		return nil, errPaused
	}
	resp, err := b.transport.RoundTrip(r)
	b.recordAnswer(resp, err)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
		if s, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 32); err == nil && s > 0 {
			b.pausedUntil.Store(time.Now().Add(min(time.Duration(s)*time.Second, pauseMax)).UnixNano())
		}
	}
	bytesMax := b.bytesMax
	if n, ok := r.Context().Value(bytesMaxKey{}).(int64); ok {
		bytesMax = n
	}
	resp.Body = &boundedBody{resp.Body, bytesMax}
	return resp, nil
}

type bytesMaxKey struct{}

// WithBytesMax bounds the answers to requests with this context, instead of the bound of New.
func WithBytesMax(ctx context.Context, n int64) context.Context {
	return context.WithValue(ctx, bytesMaxKey{}, n)
}

type boundedBody struct {
	io.ReadCloser
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		b.left = 0
		return 0, ErrTooLong
	}
	return n, err
}

// Answer is what a provider answered, with any status.
type Answer struct {
	Status int
	Body   []byte
}

// UnexpectedError returns the error for an answer of another kind than the protocol's, such as a
// proxy's page.
func (a Answer) UnexpectedError() error {
	return fmt.Errorf("answered %d %s: %s", a.Status, http.StatusText(a.Status), quorum.TruncateAnswer(string(a.Body)))
}

// Post sends a JSON document to a path below the URL, "" for the URL itself, and reads the whole
// answer. Errors do not contain the URL.
func (e *Endpoint) Post(ctx context.Context, path string, document []byte) (Answer, error) {
	return e.sendRequest(ctx, http.MethodPost, path, "application/json", document)
}

// PostText sends a text as Post sends JSON.
func (e *Endpoint) PostText(ctx context.Context, path, text string) (Answer, error) {
	return e.sendRequest(ctx, http.MethodPost, path, "text/plain", []byte(text))
}

// Get requests a path below the URL, with the same result as Post.
func (e *Endpoint) Get(ctx context.Context, path string) (Answer, error) {
	return e.sendRequest(ctx, http.MethodGet, path, "", nil)
}

// PostStream sends a JSON document to the URL itself. The caller reads the answer while it arrives,
// and closes it.
func (e *Endpoint) PostStream(ctx context.Context, document []byte) (status int, answer io.ReadCloser, err error) {
	resp, err := e.openRequest(ctx, http.MethodPost, "", "application/json", document)
	if err != nil {
		return 0, nil, err
	}
	return resp.StatusCode, resp.Body, nil
}

func (e *Endpoint) sendRequest(ctx context.Context, method, path, kind string, body []byte) (Answer, error) {
	resp, err := e.openRequest(ctx, method, path, kind, body)
	if err != nil {
		return Answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Answer{resp.StatusCode, text}, err
}

func (e *Endpoint) openRequest(ctx context.Context, method, path, kind string, body []byte) (*http.Response, error) {
	target := e.url
	if path != "" {
		target = strings.TrimRight(target, "/") + path
	}
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the endpoint cannot be reached")
	}
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	resp, err := e.client.Do(r)
	if err != nil {
		return nil, withoutURL(err)
	}
	return resp, nil
}

// requestError is the error of a request: short, and without the endpoint's URL.
type requestError struct {
	provider, method string
	err              error
}

func (e *requestError) Error() string {
	return e.provider + ": " + e.method + ": " + quorum.TruncateAnswer(e.err.Error())
}

func (e *requestError) Unwrap() error { return e.err }

// WrapError adds the provider and the request to an error; nil stays nil.
func (e *Endpoint) WrapError(method string, err error) error {
	if err == nil {
		return nil
	}
	return &requestError{e.name, method, withoutURL(err)}
}

// withoutURL removes the URL from an error.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Handshake makes sure, once, that a provider is the configured one: check identifies it by calling
// method. No other request may be sent before it succeeds.
func (e *Endpoint) Handshake(ctx context.Context, method string, check func(context.Context) error) error {
	if e.handshakeDone.Load() {
		return nil
	}
	select {
	case e.handshakeLock <- struct{}{}:
		defer func() { <-e.handshakeLock }()
	case <-ctx.Done():
		return e.WrapError(method, context.Cause(ctx))
	}
	if e.handshakeDone.Load() {
		return nil
	}
	if e.handshakeErr != nil && time.Since(e.handshakeErrAt) < handshakeRetryAfter {
		return e.handshakeErr
	}
	if e.handshakeErr = check(ctx); e.handshakeErr != nil {
		e.handshakeErrAt = time.Now()
		e.recordNetwork(e.handshakeErr)
		return e.handshakeErr
	}
	e.handshakeDone.Store(true)
	return nil
}

// WrongNetwork returns the error for a provider of another network. actual is its network, such as
// "chain 5"; want is the configured one.
func (e *Endpoint) WrongNetwork(actual, want string) error {
	return &quorum.WrongNetworkError{Provider: e.name, Actual: actual, Expected: want}
}
