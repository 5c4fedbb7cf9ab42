// Package remote is the signer's port across a unix socket or, from another host,
// across mutual TLS: one process holds the keys and serves, all others dial.
//
// The wire is HTTP with a JSON body, one path a method. Who may open the socket may
// ask for everything that the policy allows: the socket's file mode is the whole of
// the authentication, so it is 0600 from the moment that it has its name. On the
// network both sides show a certificate, and each client has no more of the port than
// it needs.
//
// What never happens here: a refusal that is made up on the way, an error that is
// taken for a refusal, a body without a bound, a word on the network outside of TLS. What a crash leaves: nothing. A caller
// whose answer was lost does not know and asks again.
package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

const (
	requestBytesMax = 128 << 10 // a slot of Bitcoin names each coin that it spends
	answerBytesMax  = 8 << 20
	headerBytesMax  = 8 << 10
	entriesMax      = 500     // in one answer
	entriesBytesMax = 4 << 20 // of their bodies in one answer, so that it is below its bound, unless one alone has more

	dialMax  = 2 * time.Second
	callMax  = 30 * time.Second // one call of a client, and one answer of the server
	idleMax  = 2 * time.Minute
	closeMax = 5 * time.Second
	connsMax = 32
)

// call is a method of the port on the wire.
type call struct{ path string }

var (
	issue   = call{"/issue"}
	admit   = call{"/admit"}
	sign    = call{"/sign"}
	entries = call{"/entries"}
	head    = call{"/head"}
	anchor  = call{"/anchor"}
	anchors = call{"/anchors"}
	endorse = call{"/endorse"}
	revoke  = call{"/revoke"}
	void    = call{"/void"}
)

type entriesRequest struct {
	After uint64 `json:"after"`
	Limit int    `json:"limit"`
}

// answer is the body of every answer: one member is set.
type answer struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Refusal *signer.Refusal `json:"refusal,omitempty"`
	Error   string          `json:"error,omitempty"` // for the log; the caller knows nothing
}

// Serve answers on a socket until ctx ends, then finishes what is under way and
// removes it. A socket that nobody answers on is taken over; one that is served is an
// error.
func Serve(ctx context.Context, socketPath string, s signer.Signer) error {
	listener, err := listen(ctx, socketPath)
	if err != nil {
		return err
	}
	defer os.Remove(socketPath)
	return run(ctx, listener, socketPath, handler(s))
}

// run answers on a listener until ctx ends and finishes what is under way.
func run(ctx context.Context, l net.Listener, where string, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: callMax, ReadTimeout: callMax, WriteTimeout: callMax, IdleTimeout: idleMax,
		MaxHeaderBytes: headerBytesMax,
		ErrorLog:       slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the signer on %s: %w", where, err)
	case <-ctx.Done():
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	if err := server.Shutdown(patient); err != nil {
		err = errors.Join(err, server.Close())
		return fmt.Errorf("stop serving the signer on %s: %w", where, err)
	}
	<-served
	return nil
}

// listen makes the socket under another name in a directory of its own and renames it
// when its mode is right.
func listen(ctx context.Context, socketPath string) (net.Listener, error) {
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", socketPath); err == nil {
		return nil, errors.Join(fmt.Errorf("serve the signer on %s: another signer answers there", socketPath), conn.Close())
	} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ECONNREFUSED) {
		return nil, fmt.Errorf("serve the signer on %s: %w", socketPath, err)
	}
	private, err := os.MkdirTemp(filepath.Dir(socketPath), ".s-") // mode 0700
	if err != nil {
		return nil, fmt.Errorf("serve the signer on %s: %w", socketPath, err)
	}
	defer os.RemoveAll(private)
	fresh := filepath.Join(private, "s")
	var c net.ListenConfig
	l, err := c.Listen(ctx, "unix", fresh)
	if err != nil {
		return nil, fmt.Errorf("serve the signer on %s: %w", socketPath, err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	err = os.Chmod(fresh, 0o600)
	if err == nil {
		err = os.Rename(fresh, socketPath)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve the signer on %s: %w", socketPath, err), l.Close())
	}
	return l, nil
}

func handler(s signer.Signer) http.Handler {
	mux := http.NewServeMux()
	serve(mux, issue, s.Issue)
	serve(mux, admit, s.Admit)
	serve(mux, sign, s.Sign)
	serve(mux, entries, func(ctx context.Context, r entriesRequest) ([]signer.Entry, error) {
		if r.Limit <= 0 || r.Limit > entriesMax {
			r.Limit = entriesMax
		}
		return bounded(s.Entries(ctx, r.After, r.Limit))
	})
	serve(mux, anchor, s.Anchor)
	serve(mux, endorse, s.Endorse)
	serve(mux, revoke, s.Revoke)
	serve(mux, void, s.Void)
	serve(mux, anchors, func(ctx context.Context, r entriesRequest) ([]signer.Anchor, error) {
		if r.Limit <= 0 || r.Limit > entriesMax {
			r.Limit = entriesMax
		}
		return s.Anchors(ctx, r.After, r.Limit)
	})
	serve(mux, head, func(ctx context.Context, _ struct{}) (signer.Head, error) { return s.Head(ctx) })
	return mux
}

// bounded leaves away the last entries of what would be too long an answer. Whoever asks
// gets them when it goes on.
func bounded(all []signer.Entry, err error) ([]signer.Entry, error) {
	size := 0
	for i, e := range all {
		if size += len(e.Body); i > 0 && size > entriesBytesMax {
			return all[:i], err
		}
	}
	return all, err
}

func serve[In, Out any](mux *http.ServeMux, c call, method func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST "+c.path, func(w http.ResponseWriter, r *http.Request) {
		var in In
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestBytesMax))
		d.DisallowUnknownFields()
		if err := d.Decode(&in); err != nil {
			reply(w, http.StatusBadRequest, answer{Error: "read the request: " + err.Error()})
			return
		}
		out, err := method(r.Context(), in)
		var no *signer.Refusal
		switch {
		case errors.As(err, &no):
			reply(w, http.StatusOK, answer{Refusal: no})
		case err != nil:
			slog.ErrorContext(r.Context(), "signer could not answer", "call", c.path, "err", err)
			status := http.StatusInternalServerError
			if errors.Is(err, signer.ErrUnavailable) {
				status = http.StatusServiceUnavailable
			}
			reply(w, status, answer{Error: err.Error()})
		default:
			result, err := json.Marshal(out)
			if err != nil {
				reply(w, http.StatusInternalServerError, answer{Error: "write the answer: " + err.Error()})
				return
			}
			reply(w, http.StatusOK, answer{Result: result})
		}
	})
}

func reply(w http.ResponseWriter, status int, a answer) {
	body, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("remote: an answer that has no JSON: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // A caller that is gone asks again.
}

// Client is a signer in another process.
type Client struct {
	path  string
	http  *http.Client
	watch *Watch // nil without certificates
}

var _ signer.Signer = (*Client)(nil)

// Dial is the signer that serves on a socket. It connects with the first call, and
// again after the other side was started anew.
func Dial(socketPath string) *Client {
	d := net.Dialer{Timeout: dialMax}
	return dial(socketPath, func(ctx context.Context) (net.Conn, error) { return d.DialContext(ctx, "unix", socketPath) })
}

func dial(where string, connect func(context.Context) (net.Conn, error)) *Client {
	return &Client{path: where, http: &http.Client{
		Timeout: callMax,
		Transport: &http.Transport{
			DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return connect(ctx) },
			MaxConnsPerHost:     connsMax,
			MaxIdleConnsPerHost: connsMax,
			IdleConnTimeout:     idleMax / 2,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Issue asks for the address of a wallet.
func (c *Client) Issue(ctx context.Context, w signer.WalletRef) (out signer.Issued, err error) {
	if err := c.ask(ctx, issue, w, &out); err != nil {
		return signer.Issued{}, err
	}
	if out.WalletRef != w {
		return signer.Issued{}, fmt.Errorf("ask the signer on %s: it answered for another wallet", c.path)
	}
	return out, nil
}

// Admit asks the policy.
func (c *Client) Admit(ctx context.Context, i signer.Intent) (out signer.Entry, err error) {
	if err := c.ask(ctx, admit, i, &out); err != nil {
		return signer.Entry{}, err
	}
	return out, whole(c.path, out)
}

// Sign asks for a signature.
func (c *Client) Sign(ctx context.Context, r signer.SignRequest) (out signer.Signed, err error) {
	if err := c.ask(ctx, sign, r, &out); err != nil {
		return signer.Signed{}, err
	}
	if len(out.Raw) == 0 || out.Hash == "" {
		return signer.Signed{}, fmt.Errorf("ask the signer on %s: it answered without a signature", c.path)
	}
	return out, whole(c.path, out.Entry)
}

// Entries asks for the journal.
func (c *Client) Entries(ctx context.Context, after uint64, limit int) (out []signer.Entry, err error) {
	err = c.ask(ctx, entries, entriesRequest{after, limit}, &out)
	return out, err
}

// Head asks where the journal stands.
func (c *Client) Head(ctx context.Context) (out signer.Head, err error) {
	if err := c.ask(ctx, head, struct{}{}, &out); err != nil {
		return signer.Head{}, err
	}
	if out.JournalID == "" {
		return signer.Head{}, fmt.Errorf("ask the signer on %s: it answered without a journal", c.path)
	}
	return out, nil
}

// Endorse asks for an endorsement.
func (c *Client) Endorse(ctx context.Context, e signer.Endorsement) (out signer.Endorsed, err error) {
	if err := c.ask(ctx, endorse, e, &out); err != nil {
		return signer.Endorsed{}, err
	}
	if !out.Same(e) || out.UsableFrom == "" || len(out.Proof) == 0 {
		return signer.Endorsed{}, fmt.Errorf("ask the signer on %s: it answered for another address", c.path)
	}
	return out, whole(c.path, out.Entry)
}

// Revoke asks to take an endorsement back.
func (c *Client) Revoke(ctx context.Context, r signer.Revocation) (out signer.Entry, err error) {
	if err := c.ask(ctx, revoke, r, &out); err != nil {
		return signer.Entry{}, err
	}
	return out, whole(c.path, out)
}

// Void asks to end the authority of a payment.
func (c *Client) Void(ctx context.Context, v signer.Void) (out signer.Entry, err error) {
	if err := c.ask(ctx, void, v, &out); err != nil {
		return signer.Entry{}, err
	}
	return out, whole(c.path, out)
}

// Anchor asks for an anchor of the audit log.
func (c *Client) Anchor(ctx context.Context, r signer.AnchorRequest) (out signer.Anchor, err error) {
	if err := c.ask(ctx, anchor, r, &out); err != nil {
		return signer.Anchor{}, err
	}
	if out.Mark != r.Mark || out.Number == 0 || len(out.Signature) == 0 {
		return signer.Anchor{}, fmt.Errorf("ask the signer on %s: it answered with another anchor", c.path)
	}
	return out, nil
}

// Anchors asks for the anchors of the audit log.
func (c *Client) Anchors(ctx context.Context, after uint64, limit int) (out []signer.Anchor, err error) {
	err = c.ask(ctx, anchors, entriesRequest{after, limit}, &out)
	return out, err
}

func whole(path string, e signer.Entry) error {
	if e.Hash == "" || e.Hash != e.Sum() {
		return fmt.Errorf("ask the signer on %s: it answered with a broken journal entry", path)
	}
	return nil
}

// ask makes one call. What is not a refusal by the signer's own word is unknown.
func (c *Client) ask(ctx context.Context, to call, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("write a request to the signer: %w", err)
	}
	// JSON silently replaces what is not UTF-8: the signer would answer for other words.
	same := reflect.New(reflect.TypeOf(in))
	if err := json.Unmarshal(body, same.Interface()); err != nil || !reflect.DeepEqual(same.Elem().Interface(), in) {
		return &signer.Refusal{Code: signer.RefusedMalformed, Message: "a word of the request is not UTF-8"}
	}
	if len(body) > requestBytesMax {
		return &signer.Refusal{Code: signer.RefusedMalformed, Message: fmt.Sprintf("the request has more than %d bytes", requestBytesMax)}
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://signer"+to.path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the signer on %s: %w", c.path, err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("ask on %s: %w: %w", c.path, signer.ErrUnavailable, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax+1))
	if err != nil {
		return fmt.Errorf("read the answer on %s: %w: %w", c.path, signer.ErrUnavailable, err)
	}
	var a answer
	if len(text) > answerBytesMax {
		return fmt.Errorf("read the signer's answer on %s: it has more than %d bytes", c.path, answerBytesMax)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("read the signer's answer on %s: status %d: %w", c.path, response.StatusCode, err)
	}
	switch {
	case response.StatusCode == http.StatusOK && a.Refusal != nil && a.Refusal.Code != "" && a.Result == nil:
		return a.Refusal
	case response.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("ask on %s: %w: %s", c.path, signer.ErrUnavailable, strings.TrimSpace(a.Error))
	case response.StatusCode != http.StatusOK || a.Result == nil:
		return fmt.Errorf("ask the signer on %s: status %d: %s", c.path, response.StatusCode, strings.TrimSpace(a.Error))
	}
	if err := json.Unmarshal(a.Result, out); err != nil {
		return fmt.Errorf("read the signer's answer on %s: %w", c.path, err)
	}
	return nil
}
