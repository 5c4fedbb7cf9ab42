// Package remote carries the signer's port over a unix socket or, from another host, over mutual
// TLS. One process holds the keys and serves; all others dial.
//
// The wire format is HTTP with a JSON body and one path for each method. Any process that can open
// the socket may ask for everything that the policy allows. The socket's file mode is its only
// authentication, so it is 0600 from the moment that the socket has its name. On the network both
// sides show a certificate, and each client has only the part of the port that it needs.
//
// There is never:
//   - a refusal that the transport invents
//   - an error that is taken for a refusal
//   - a body without a size limit
//   - data on the network outside of TLS
//
// A crash leaves nothing. A caller whose answer was lost does not know the outcome and asks again.
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
	requestBytesMax = 128 << 10 // a Bitcoin slot key names each output that it spends
	answerBytesMax  = 8 << 20
	headerBytesMax  = 8 << 10
	entriesMax      = 500     // in one answer
	entriesBytesMax = 4 << 20 // of their bodies in one answer, unless a single entry has more

	dialMax  = 2 * time.Second
	callMax  = 30 * time.Second // one call of a client, and one answer of the server
	idleMax  = 2 * time.Minute
	closeMax = 5 * time.Second
	connsMax = 32
)

// route is the path of one method of the port.
type route struct{ path string }

var (
	routeIssue   = route{"/issue"}
	routeAdmit   = route{"/admit"}
	routeSign    = route{"/sign"}
	routeEntries = route{"/entries"}
	routeHead    = route{"/head"}
	routeAnchor  = route{"/anchor"}
	routeAnchors = route{"/anchors"}
	routeEndorse = route{"/endorse"}
	routeRevoke  = route{"/revoke"}
	routeVoid    = route{"/void"}
	routeEnrol   = route{"/enrol"}
	routeRetire  = route{"/retire"}
	routeRule    = route{"/rule"}
	routeWording = route{"/wording"}
)

type entriesRequest struct {
	AfterSeq uint64 `json:"after"`
	Limit    int    `json:"limit"`
}

// replyBody is the body of every answer; one field is set.
type replyBody struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Refusal *signer.Refusal `json:"refusal,omitempty"`
	Error   string          `json:"error,omitempty"` // for the log; the caller learns no outcome
}

// ServeSocket serves on a socket until ctx ends, then finishes the calls in progress and removes
// the socket. It takes over a socket that no process serves. A socket that is served is an error.
func ServeSocket(ctx context.Context, socketPath string, s signer.Signer) error {
	listener, err := listenSocket(ctx, socketPath)
	if err != nil {
		return err
	}
	defer os.Remove(socketPath)
	return serveListener(ctx, listener, socketPath, newHandler(s))
}

// serveListener serves on a listener until ctx ends and finishes the calls in progress.
func serveListener(ctx context.Context, listener net.Listener, target string, h http.Handler) error {
	server := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: callMax, ReadTimeout: callMax, WriteTimeout: callMax, IdleTimeout: idleMax,
		MaxHeaderBytes: headerBytesMax,
		ErrorLog:       slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve the signer on %s: %w", target, err)
	case <-ctx.Done():
	}
	patient, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeMax)
	defer cancel()
	if err := server.Shutdown(patient); err != nil {
		err = errors.Join(err, server.Close())
		return fmt.Errorf("stop serving the signer on %s: %w", target, err)
	}
	<-served
	return nil
}

// listenSocket creates the socket under another name in a private directory and renames it once its
// mode is right.
func listenSocket(ctx context.Context, socketPath string) (net.Listener, error) {
	var d net.Dialer
	if conn, err := d.DialContext(ctx, "unix", socketPath); err == nil {
		return nil, errors.Join(fmt.Errorf("serve the signer on %s: another signer answers there", socketPath),
			conn.Close())
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

func newHandler(s signer.Signer) http.Handler {
	mux := http.NewServeMux()
	serve(mux, routeIssue, s.IssueAddress)
	serve(mux, routeAdmit, s.AdmitIntent)
	serve(mux, routeSign, s.Sign)
	serve(mux, routeEntries, func(ctx context.Context, r entriesRequest) ([]signer.Entry, error) {
		if r.Limit <= 0 || r.Limit > entriesMax {
			r.Limit = entriesMax
		}
		return limitBytes(s.EntriesAfter(ctx, r.AfterSeq, r.Limit))
	})
	serve(mux, routeAnchor, s.SignAnchor)
	serve(mux, routeEndorse, s.EndorseAddress)
	serve(mux, routeRevoke, s.RevokeEndorsement)
	serve(mux, routeVoid, s.VoidIntent)
	serve(mux, routeEnrol, s.EnrolKey)
	serve(mux, routeRetire, s.RetireKey)
	serve(mux, routeRule, s.SetRule)
	serve(mux, routeAnchors, func(ctx context.Context, r entriesRequest) ([]signer.Anchor, error) {
		if r.Limit <= 0 || r.Limit > entriesMax {
			r.Limit = entriesMax
		}
		return s.AnchorsAfter(ctx, r.AfterSeq, r.Limit)
	})
	serve(mux, routeWording, func(ctx context.Context, _ struct{}) (signer.Wording, error) { return s.Wording(ctx) })
	serve(mux, routeHead, func(ctx context.Context, _ struct{}) (signer.Head, error) { return s.Head(ctx) })
	return mux
}

// limitBytes drops the last entries of an answer that would be too long. The caller gets them with
// its next request.
func limitBytes(entries []signer.Entry, err error) ([]signer.Entry, error) {
	size := 0
	for i, e := range entries {
		if size += len(e.Body); i > 0 && size > entriesBytesMax {
			return entries[:i], err
		}
	}
	return entries, err
}

func serve[In, Out any](mux *http.ServeMux, c route, method func(context.Context, In) (Out, error)) {
	mux.HandleFunc("POST "+c.path, func(w http.ResponseWriter, r *http.Request) {
		var request In
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, requestBytesMax))
		d.DisallowUnknownFields()
		if err := d.Decode(&request); err != nil {
			writeReply(w, http.StatusBadRequest, replyBody{Error: "read the request: " + err.Error()})
			return
		}
		result, err := method(r.Context(), request)
		var refusal *signer.Refusal
		switch {
		case errors.As(err, &refusal):
			writeReply(w, http.StatusOK, replyBody{Refusal: refusal})
		case err != nil:
			slog.ErrorContext(r.Context(), "signer could not answer", "call", c.path, "err", err)
			status := http.StatusInternalServerError
			if errors.Is(err, signer.ErrUnavailable) {
				status = http.StatusServiceUnavailable
			}
			writeReply(w, status, replyBody{Error: err.Error()})
		default:
			text, err := json.Marshal(result)
			if err != nil {
				writeReply(w, http.StatusInternalServerError, replyBody{Error: "write the answer: " + err.Error()})
				return
			}
			writeReply(w, http.StatusOK, replyBody{Result: text})
		}
	})
}

func writeReply(w http.ResponseWriter, status int, a replyBody) {
	body, err := json.Marshal(a)
	if err != nil {
		panic(fmt.Sprintf("remote: cannot encode an answer: %v", err))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // A caller that is gone asks again.
}

// Client is a signer in another process.
type Client struct {
	target string
	http   *http.Client
	watch  *CertificateWatch // nil without certificates
}

var _ signer.Signer = (*Client)(nil)

// DialSocket returns the signer that serves on a socket. It connects with the first call, and again
// after the other side restarts.
func DialSocket(socketPath string) *Client {
	d := net.Dialer{Timeout: dialMax}
	return newClient(socketPath, func(ctx context.Context) (net.Conn, error) {
		return d.DialContext(ctx, "unix", socketPath)
	})
}

func newClient(target string, connect func(context.Context) (net.Conn, error)) *Client {
	return &Client{target: target, http: &http.Client{
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

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// IssueAddress asks for the address of a wallet.
func (c *Client) IssueAddress(ctx context.Context, w signer.WalletRef) (issued signer.IssuedAddress, err error) {
	if err := c.callSigner(ctx, routeIssue, w, &issued); err != nil {
		return signer.IssuedAddress{}, err
	}
	if issued.WalletRef != w {
		return signer.IssuedAddress{}, fmt.Errorf("ask the signer on %s: it answered for another wallet", c.target)
	}
	return issued, nil
}

// AdmitIntent asks for the admission of an intent.
func (c *Client) AdmitIntent(ctx context.Context, intent signer.Intent) (entry signer.Entry, err error) {
	if err := c.callSigner(ctx, routeAdmit, intent, &entry); err != nil {
		return signer.Entry{}, err
	}
	return entry, verifyEntry(c.target, entry)
}

// Sign asks for a signature.
func (c *Client) Sign(ctx context.Context, r signer.SignRequest) (signed signer.SignedTx, err error) {
	if err := c.callSigner(ctx, routeSign, r, &signed); err != nil {
		return signer.SignedTx{}, err
	}
	if len(signed.Raw) == 0 || signed.Hash == "" {
		return signer.SignedTx{}, fmt.Errorf("ask the signer on %s: it answered without a signature", c.target)
	}
	return signed, verifyEntry(c.target, signed.Entry)
}

// EntriesAfter asks for entries of the journal.
func (c *Client) EntriesAfter(ctx context.Context, afterSeq uint64, limit int) (entries []signer.Entry, err error) {
	err = c.callSigner(ctx, routeEntries, entriesRequest{afterSeq, limit}, &entries)
	return entries, err
}

// Head asks for the position of the journal.
func (c *Client) Head(ctx context.Context) (head signer.Head, err error) {
	if err := c.callSigner(ctx, routeHead, struct{}{}, &head); err != nil {
		return signer.Head{}, err
	}
	if head.JournalID == "" {
		return signer.Head{}, fmt.Errorf("ask the signer on %s: it answered without a journal", c.target)
	}
	return head, nil
}

// EndorseAddress asks for an endorsement.
func (c *Client) EndorseAddress(
	ctx context.Context, e signer.Endorsement,
) (endorsed signer.EndorsedAddress, err error) {
	if err := c.callSigner(ctx, routeEndorse, e, &endorsed); err != nil {
		return signer.EndorsedAddress{}, err
	}
	if !endorsed.HasSameWords(e) || endorsed.UsableFrom == "" || len(endorsed.Proof) == 0 {
		return signer.EndorsedAddress{}, fmt.Errorf("ask the signer on %s: it answered for another address", c.target)
	}
	return endorsed, verifyEntry(c.target, endorsed.Entry)
}

// RevokeEndorsement asks for the revocation of an endorsement.
func (c *Client) RevokeEndorsement(ctx context.Context, r signer.Revocation) (entry signer.Entry, err error) {
	if err := c.callSigner(ctx, routeRevoke, r, &entry); err != nil {
		return signer.Entry{}, err
	}
	return entry, verifyEntry(c.target, entry)
}

// VoidIntent asks for the end of a payment's authority.
func (c *Client) VoidIntent(ctx context.Context, v signer.Void) (entry signer.Entry, err error) {
	if err := c.callSigner(ctx, routeVoid, v, &entry); err != nil {
		return signer.Entry{}, err
	}
	return entry, verifyEntry(c.target, entry)
}

// EnrolKey asks for a passkey to be added.
func (c *Client) EnrolKey(ctx context.Context, e signer.EnrolRequest) (enrolled signer.EnrolledKey, err error) {
	if err := c.callSigner(ctx, routeEnrol, e, &enrolled); err != nil {
		return signer.EnrolledKey{}, err
	}
	if !enrolled.Equal(e.Enrolment) || enrolled.UsableFrom == "" || len(enrolled.Proof) == 0 {
		return signer.EnrolledKey{}, fmt.Errorf("ask the signer on %s: it answered for another passkey", c.target)
	}
	return enrolled, verifyEntry(c.target, enrolled.Entry)
}

// RetireKey asks for the end of a passkey.
func (c *Client) RetireKey(ctx context.Context, r signer.RetireRequest) (entry signer.Entry, err error) {
	if err := c.callSigner(ctx, routeRetire, r, &entry); err != nil {
		return signer.Entry{}, err
	}
	return entry, verifyEntry(c.target, entry)
}

// SetRule asks for the next version of a rule.
func (c *Client) SetRule(ctx context.Context, r signer.RuleRequest) (recorded signer.RecordedRule, err error) {
	if err := c.callSigner(ctx, routeRule, r, &recorded); err != nil {
		return signer.RecordedRule{}, err
	}
	if !recorded.ApprovalRule.Equal(r.ApprovalRule) || recorded.UsableFrom == "" || len(recorded.Proof) == 0 {
		return signer.RecordedRule{}, fmt.Errorf("ask the signer on %s: it answered for another rule", c.target)
	}
	return recorded, verifyEntry(c.target, recorded.Entry)
}

// Wording asks how statements name networks and write amounts.
func (c *Client) Wording(ctx context.Context) (words signer.Wording, err error) {
	err = c.callSigner(ctx, routeWording, struct{}{}, &words)
	return words, err
}

// SignAnchor asks for an anchor of the audit log.
func (c *Client) SignAnchor(ctx context.Context, r signer.AnchorRequest) (anchor signer.Anchor, err error) {
	if err := c.callSigner(ctx, routeAnchor, r, &anchor); err != nil {
		return signer.Anchor{}, err
	}
	if anchor.AuditHead != r.AuditHead || anchor.Number == 0 || len(anchor.Signature) == 0 {
		return signer.Anchor{}, fmt.Errorf("ask the signer on %s: it answered with another anchor", c.target)
	}
	return anchor, nil
}

// AnchorsAfter asks for the anchors of the audit log.
func (c *Client) AnchorsAfter(ctx context.Context, afterNumber uint64, limit int) (anchors []signer.Anchor, err error) {
	err = c.callSigner(ctx, routeAnchors, entriesRequest{afterNumber, limit}, &anchors)
	return anchors, err
}

func verifyEntry(path string, e signer.Entry) error {
	if e.Hash == "" || e.Hash != e.ComputeHash() {
		return fmt.Errorf("ask the signer on %s: it answered with a broken journal entry", path)
	}
	return nil
}

// callSigner makes one call. Only an explicit refusal by the signer is a refusal; every other
// failure leaves the outcome unknown.
func (c *Client) callSigner(ctx context.Context, endpoint route, request, result any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("write a request to the signer: %w", err)
	}
	// JSON silently replaces invalid UTF-8: the signer would answer for other fields.
	decoded := reflect.New(reflect.TypeOf(request))
	if err := json.Unmarshal(body, decoded.Interface()); err != nil ||
		!reflect.DeepEqual(decoded.Elem().Interface(), request) {
		return &signer.Refusal{Code: signer.RefusedMalformed, Message: "a string of the request is not UTF-8"}
	}
	if len(body) > requestBytesMax {
		return &signer.Refusal{
			Code:    signer.RefusedMalformed,
			Message: fmt.Sprintf("the request has more than %d bytes", requestBytesMax),
		}
	}
	httpRequest, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://signer"+endpoint.path,
		bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the signer on %s: %w", c.target, err)
	}
	httpRequest.Header.Set("Content-Type", "application/json")
	httpResponse, err := c.http.Do(httpRequest)
	if err != nil {
		return fmt.Errorf("ask on %s: %w: %w", c.target, signer.ErrUnavailable, err)
	}
	defer httpResponse.Body.Close()
	text, err := io.ReadAll(io.LimitReader(httpResponse.Body, answerBytesMax+1))
	if err != nil {
		return fmt.Errorf("read the answer on %s: %w: %w", c.target, signer.ErrUnavailable, err)
	}
	var a replyBody
	if len(text) > answerBytesMax {
		return fmt.Errorf("read the signer's answer on %s: it has more than %d bytes", c.target, answerBytesMax)
	}
	if err := json.Unmarshal(text, &a); err != nil {
		return fmt.Errorf("read the signer's answer on %s: status %d: %w", c.target, httpResponse.StatusCode, err)
	}
	switch {
	case httpResponse.StatusCode == http.StatusOK && a.Refusal != nil && a.Refusal.Code != "" && a.Result == nil:
		return a.Refusal
	case httpResponse.StatusCode == http.StatusServiceUnavailable:
		return fmt.Errorf("ask on %s: %w: %s", c.target, signer.ErrUnavailable, strings.TrimSpace(a.Error))
	case httpResponse.StatusCode != http.StatusOK || a.Result == nil:
		return fmt.Errorf("ask the signer on %s: status %d: %s", c.target, httpResponse.StatusCode,
			strings.TrimSpace(a.Error))
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("read the signer's answer on %s: %w", c.target, err)
	}
	return nil
}
