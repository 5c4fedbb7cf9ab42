// Package httpjson sends requests for JSON to third parties over HTTPS: risk providers and price
// sources.
//
// It never accepts an answer that is too long, is not JSON, comes from a host that is not
// configured, or has unknown members. It never puts a key or a URL into an error. It writes
// nothing, so a crash leaves no trace.
package httpjson

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/big"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	bytesMaxDefault = 256 << 10
	timeoutMax      = 30 * time.Second
	digitsMax       = 60 // of a number; also the largest exponent
	messageBytesMax = 120
)

// Client sends requests to one party.
type Client struct {
	Base     string // https://host, with the common path of its requests
	BytesMax int64  // of one answer; 0: 256 KiB
	// Ignore are members of answers that were reviewed and do not matter.
	Ignore []string

	http *http.Client
}

// NewClient makes a client. Error: the base is neither an https URL nor one of this machine.
func NewClient(base string, bytesMax int64, ignore ...string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("is not a URL such as https://api.example.com")
	}
	if u.Scheme != "https" && (u.Scheme != "http" || !isLoopback(u.Hostname())) {
		return nil, errors.New("has to be https: every call sends a key")
	}
	if bytesMax == 0 {
		bytesMax = bytesMaxDefault
	}
	return &Client{Base: strings.TrimSuffix(base, "/"), BytesMax: bytesMax, Ignore: ignore, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 5 * time.Second, ForceAttemptHTTP2: true,
			DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		},
		Timeout: timeoutMax,
		// A redirect would carry the key to a host that is not configured.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func isLoopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// Reply is a JSON answer of any status.
type Reply struct {
	Status int
	Body   jsontext.Value
	ignore []string
}

// SendRequest sends a request and reads the whole answer. Errors: there is no answer, or it is not
// JSON. Errors name the status and never the URL or a header.
func (c *Client) SendRequest(ctx context.Context, method, path string, header http.Header, body []byte) (Reply, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.Base+path, bytes.NewReader(body))
	if err != nil {
		return Reply{}, errors.New("the request cannot be made")
	}
	r.Header = header.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json")
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(r)
	var urlErr *url.Error
	if errors.As(err, &urlErr) {
		err = urlErr.Err // without the URL
	}
	if err != nil {
		return Reply{}, fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return Reply{}, &StatusError{resp.StatusCode, "not JSON but " + truncateText(kind)}
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, c.BytesMax+1))
	if err != nil {
		return Reply{}, fmt.Errorf("the answer broke off: %w", err)
	}
	if int64(len(text)) > c.BytesMax {
		return Reply{}, fmt.Errorf("an answer of more than %d bytes", c.BytesMax)
	}
	reply := Reply{Status: resp.StatusCode, Body: text, ignore: c.Ignore}
	if !reply.Body.IsValid() {
		return Reply{}, &StatusError{resp.StatusCode, "not a JSON document"}
	}
	return reply, nil
}

// StatusError is an answer that refuses the request.
type StatusError struct {
	Status  int
	Message string
}

// Error returns the status and the beginning of the answer.
func (e *StatusError) Error() string { return fmt.Sprintf("status %d: %s", e.Status, e.Message) }

// IsRefused reports whether a repetition would be refused at once: the request, the key or a right
// is wrong, and it is no temporary failure of the party.
func IsRefused(err error) bool {
	var s *StatusError
	return errors.As(err, &s) && s.Status >= 400 && s.Status < 500 && s.Status != http.StatusRequestTimeout &&
		s.Status != http.StatusTooManyRequests
}

// HasStatus reports whether the status is one of these.
func (r Reply) HasStatus(status ...int) bool { return slices.Contains(status, r.Status) }

// UnexpectedStatus returns the error for an answer with an unexpected status.
func (r Reply) UnexpectedStatus() error { return &StatusError{r.Status, truncateText(string(r.Body))} }

// Decode decodes the answer into a struct. Error: a member that the struct lacks and Ignore does
// not name, a value of another type, or a duplicate name. A missing member leaves its field
// unchanged: use pointers.
func (r Reply) Decode(target any) error {
	body := r.Body
	if len(r.ignore) > 0 {
		var err error
		if body, err = dropMembers(body, r.ignore); err != nil {
			return fmt.Errorf("not understood: %w", safeError(err))
		}
	}
	if err := json.Unmarshal(body, target, json.RejectUnknownMembers(true)); err != nil {
		return fmt.Errorf("not understood: %w", safeError(err))
	}
	return nil
}

// dropMembers removes members at every depth. Numbers keep their text.
func dropMembers(v jsontext.Value, names []string) (jsontext.Value, error) {
	switch v.Kind() {
	case '{':
		var members map[string]jsontext.Value
		if err := json.Unmarshal(v, &members); err != nil {
			return nil, err
		}
		for name, member := range members {
			if slices.Contains(names, name) {
				delete(members, name)
				continue
			}
			cleaned, err := dropMembers(member, names)
			if err != nil {
				return nil, err
			}
			members[name] = cleaned
		}
		return json.Marshal(members)
	case '[':
		var items []jsontext.Value
		if err := json.Unmarshal(v, &items); err != nil {
			return nil, err
		}
		for i, item := range items {
			cleaned, err := dropMembers(item, names)
			if err != nil {
				return nil, err
			}
			items[i] = cleaned
		}
		return json.Marshal(items)
	}
	return v, nil
}

// safeError removes the third party's text from an error, except for the name of a member.
func safeError(err error) error { return errors.New(truncateText(err.Error())) }

func truncateText(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	return strings.ToValidUTF8(s[:min(len(s), messageBytesMax)], "")
}

// Number is a JSON number in its original text, so that no digit is lost.
type Number string

// UnmarshalJSON accepts a number, and no string that looks like one.
func (n *Number) UnmarshalJSON(text []byte) error {
	if jsontext.Value(text).Kind() != '0' {
		return errors.New("not a number")
	}
	*n = Number(text)
	return nil
}

// Rat returns the exact value. Error: more digits than any sensible value has.
func (n Number) Rat() (*big.Rat, error) {
	if v := jsontext.Value(n); v.Kind() != '0' || !v.IsValid() {
		return nil, errors.New("not a number")
	}
	digits, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	if len(digits) > digitsMax || len(strings.TrimLeft(exponent, "+-0")) > 2 {
		return nil, errors.New("a number of too many digits")
	}
	v, ok := new(big.Rat).SetString(string(n))
	if !ok {
		return nil, errors.New("not a number")
	}
	return v, nil
}

// Int returns the value if it is a small whole number.
func (n Number) Int() (int, error) {
	v, err := n.Rat()
	if err != nil {
		return 0, err
	}
	if !v.IsInt() || !v.Num().IsInt64() || v.Num().Int64() > 1<<31 || v.Num().Int64() < -1<<31 {
		return 0, errors.New("not a small whole number")
	}
	return int(v.Num().Int64()), nil
}
