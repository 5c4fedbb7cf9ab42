package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Client calls one organization's interface. It is safe for concurrent use.
type Client struct {
	base     string
	key      string
	http     *http.Client
	attempts int
	each     time.Duration
	pause    func(context.Context, time.Duration) error
}

const (
	attemptsUsual  = 4
	eachUsual      = 30 * time.Second
	pauseFirst     = 250 * time.Millisecond
	pauseMax       = 8 * time.Second
	answerBytesMax = 16 << 20
)

// Option changes how a Client calls.
type Option func(*Client)

// WithHTTPClient makes calls through h, for a proxy or for certificates of one's own. Redirects are
// not followed, whatever h says.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithAttempts sets how often a repeatable call is made at most. The default is 4, and 1 repeats
// nothing.
func WithAttempts(n int) Option { return func(c *Client) { c.attempts = max(n, 1) } }

// WithAttemptTimeout sets how long one attempt waits for its answer. The default is 30 s. The
// context bounds all attempts together.
func WithAttemptTimeout(d time.Duration) Option { return func(c *Client) { c.each = d } }

// New makes a client. The base URL ends with the version, as in https://coffer.internal/v1. Plain
// http is allowed for this machine alone, since the key would travel readable. The key is the
// organization's.
func New(baseURL, apiKey string, opts ...Option) (*Client, error) {
	u, err := url.Parse(strings.TrimRight(baseURL, "/"))
	if err != nil || u.Host == "" || u.RawQuery != "" || u.User != nil {
		return nil, fmt.Errorf(
			"client: %q is not a base URL; a base URL looks like https://coffer.internal/v1",
			baseURL,
		)
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !thisMachine(u.Hostname())) {
		return nil, fmt.Errorf("client: the base URL has to be https, because the key would travel in plain text to "+
			"%s", u.Host)
	}
	if apiKey == "" || strings.ContainsFunc(apiKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("client: the API key is empty or has invalid characters")
	}
	c := &Client{
		base: u.String(), key: apiKey, http: &http.Client{}, attempts: attemptsUsual, each: eachUsual, pause: pause,
	}
	for _, o := range opts {
		o(c)
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c, nil
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// String omits the key, as the other ways of printing do.
func (c *Client) String() string { return "client of " + c.base }

// GoString is String.
func (c *Client) GoString() string { return c.String() }

// LogValue is String.
func (c *Client) LogValue() slog.Value { return slog.StringValue(c.String()) }

// CallOption changes one call.
type CallOption func(*Response)

// Response is a call's last answer without its body.
type Response struct {
	Status    int
	Header    http.Header
	RequestID string // names the request in the service's logs
	Replayed  bool   // the idempotency key was known, so nothing was done again
	Attempts  int    // how often the request was sent
}

// WithResponse fills r when the call returns, also with an error.
func WithResponse(r *Response) CallOption { return func(to *Response) { *r = *to } }

// repeat says when a call may be made again, as the document defines it.
type repeat int

const (
	never   repeat = iota // its effect could happen twice
	withKey               // only with an idempotency key
	always
)

// call is one call of the document.
type call struct {
	method, path string
	query        url.Values
	header       http.Header
	body         any
	repeat       repeat
	key          string // the idempotency key, "" for none
	open         bool   // needs no API key
	csv          bool
}

// Rule DOC-4.
func (k call) mayRepeat() bool { return k.repeat == always || k.repeat == withKey && k.key != "" }

// read reports whether the call changes nothing, whatever its outcome.
func (k call) read() bool { return k.method == http.MethodGet }

// do makes a call until it has a definitive answer, and decodes that.
func (c *Client) do(ctx context.Context, k call, out any, opts []CallOption) error {
	var body []byte
	if k.body != nil {
		var err error
		if body, err = json.Marshal(k.body); err != nil {
			return fmt.Errorf("client: encode %s %s: %w", k.method, k.path, err)
		}
	}
	got, raw, err := c.settle(ctx, k, body)
	for _, o := range opts {
		o(&got)
	}
	if err != nil || out == nil {
		return err
	}
	if text, ok := out.(*[]byte); ok {
		*text = raw
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		// The service accepted the call, but the caller cannot read the result.
		return &NoAnswer{
			Method: k.method, Path: k.path, Err: fmt.Errorf("cannot read the answer %d: %w", got.Status, err),
			unknown: !k.read(),
		}
	}
	return nil
}

// settle sends the same bytes until it has a definitive answer.
func (c *Client) settle(ctx context.Context, k call, body []byte) (got Response, raw []byte, err error) {
	silent, failed := false, false // an earlier attempt had no answer, or a 5xx
	for attempt := 1; ; attempt++ {
		var wait time.Duration
		got, raw, err = c.once(ctx, k, body)
		got.Attempts = attempt
		switch {
		case err != nil:
			silent = silent || !unsent(err)
			err = &NoAnswer{Method: k.method, Path: k.path, Err: err, unknown: (silent || failed) && !k.read()}
		case got.Status/100 == 2:
			return got, raw, nil
		case got.Status == http.StatusNotModified:
			return got, nil, ErrNotModified
		default:
			refused := refusal(k, got, raw)
			wait, err = refused.RetryAfter, refused
			if got.Status == http.StatusNotFound && k.method == http.MethodDelete && (silent || failed) {
				return got, nil, nil // it does not exist any more: an earlier attempt deleted it
			}
			// A refusal because of the rate limit, the key or the caller's network says nothing about
			// the earlier attempts. No refusal says anything about an attempt that may still be at
			// work.
			blind := got.Status == http.StatusTooManyRequests || got.Status == http.StatusUnauthorized ||
				refused.Code == "IP_NOT_ALLOWED"
			failed = failed || got.Status >= 500
			refused.unknown = !k.read() && (got.Status >= 500 || silent || failed && blind)
			if got.Status < 500 && got.Status != http.StatusTooManyRequests {
				return got, nil, err
			}
		}
		if !k.mayRepeat() || attempt >= c.attempts || ctx.Err() != nil {
			return got, nil, err
		}
		if wait == 0 {
			wait = min(pauseFirst<<(attempt-1), pauseMax)
			wait = wait/2 + rand.N(wait/2)
		}
		if deadline, has := ctx.Deadline(); has && time.Until(deadline) < wait {
			return got, nil, err
		}
		if c.pause(ctx, wait) != nil {
			return got, nil, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// once sends a request one time.
func (c *Client) once(ctx context.Context, k call, body []byte) (got Response, raw []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, c.each)
	defer cancel()
	r, err := c.request(ctx, k, body)
	if err != nil {
		return got, nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return got, nil, plain(err)
	}
	defer answer.Body.Close()
	got = Response{
		Status: answer.StatusCode, Header: answer.Header, RequestID: answer.Header.Get("X-Request-Id"),
		Replayed: answer.Header.Get("Idempotent-Replayed") == "true",
	}
	raw, err = io.ReadAll(io.LimitReader(answer.Body, answerBytesMax+1))
	if err != nil {
		return got, nil, fmt.Errorf("read the answer: %w", err)
	}
	if len(raw) > answerBytesMax {
		return got, nil, fmt.Errorf("the answer has more than %d bytes", answerBytesMax)
	}
	return got, raw, nil
}

func (c *Client) request(ctx context.Context, k call, body []byte) (*http.Request, error) {
	target := c.base + k.path
	if len(k.query) > 0 {
		target += "?" + k.query.Encode()
	}
	var from io.Reader
	if body != nil {
		from = bytes.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, k.method, target, from)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Err: err} // nothing was sent
	}
	for name, values := range k.header {
		r.Header[name] = values
	}
	if !k.open {
		r.Header.Set("X-Api-Key", c.key)
	}
	r.Header.Set("User-Agent", "coffer-go/1")
	r.Header.Set("Accept", "application/json")
	if k.csv {
		r.Header.Set("Accept", "text/csv")
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// stream opens an answer that is read while it arrives. It is not repeated, since the part that was
// read cannot be taken back.
func (c *Client) stream(ctx context.Context, k call, opts []CallOption) (io.ReadCloser, error) {
	k.csv = true
	r, err := c.request(ctx, k, nil)
	if err != nil {
		return nil, err
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return nil, &NoAnswer{Method: k.method, Path: k.path, Err: plain(err)}
	}
	got := Response{
		Status: answer.StatusCode, Header: answer.Header, RequestID: answer.Header.Get("X-Request-Id"), Attempts: 1,
	}
	for _, o := range opts {
		o(&got)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, answerBytesMax))
	if err != nil {
		return nil, &NoAnswer{Method: k.method, Path: k.path, Err: err}
	}
	return nil, refusal(k, got, raw)
}

// unsent reports whether a request never left: no connection was made.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// plain removes the URL from an error, since a query may name a customer.
func plain(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// segment returns a value as a part of a path. It refuses a value that would change the path before
// anything is sent.
func segment(name, value string) (string, error) {
	switch value {
	case "":
		return "", fmt.Errorf("client: %s is empty; nothing was sent", name)
	case ".", "..":
		return strings.ReplaceAll(value, ".", "%2E"), nil
	}
	return url.PathEscape(value), nil
}

// params collects a query; zero values are not sent.
type params url.Values

func (p params) text(name, value string) {
	if value != "" {
		p[name] = []string{value}
	}
}

func (p params) number(name string, value int64) {
	if value != 0 {
		p[name] = []string{strconv.FormatInt(value, 10)}
	}
}

func (p params) flag(name string, value *bool) {
	if value != nil {
		p[name] = []string{strconv.FormatBool(*value)}
	}
}

func (p params) time(name string, value time.Time) {
	if !value.IsZero() {
		p[name] = []string{value.UTC().Format(time.RFC3339Nano)}
	}
}

// each walks the pages of a list. A page that fails ends it with the error, and so does a caller
// that stops.
func each[T any](
	ctx context.Context, cursor string, page func(ctx context.Context, cursor string) ([]T, *string, error),
) func(yield func(T, error) bool) {
	return func(yield func(T, error) bool) {
		for {
			items, next, err := page(ctx, cursor)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == nil {
				return
			}
			cursor = *next
		}
	}
}
