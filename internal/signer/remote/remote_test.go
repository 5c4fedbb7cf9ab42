package remote_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// socket returns a path that is short enough for a socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "s")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "signer.sock")
}

// serve serves until the test ends or stop is called; stop waits for the end.
func serve(t *testing.T, path string, s signer.Signer) (c *remote.Client, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- remote.ServeSocket(ctx, path, s) }()
	c = remote.DialSocket(path)
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := c.Head(t.Context())
		if err == nil || !strings.Contains(err.Error(), "connect:") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the signer does not answer: %v", err)
		}
		select {
		case err := <-ended:
			t.Fatalf("the signer ended: %v", err)
		case <-time.After(time.Millisecond):
		}
	}
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		c.Close()
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("serve: got %v", err)
		}
	})
	return c, stop
}

func TestRemoteKeepsThePromisesOfASigner(t *testing.T) {
	t.Parallel()
	signertest.RunSuite(t, func(t *testing.T) (signer.Signer, ed25519.PublicKey) {
		s, public := signertest.Open(t, signertest.NewPolicy(), nil)
		c, _ := serve(t, socket(t), s)
		return c, public
	})
}

func TestSocketIsOursAlone(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	path := socket(t)
	c, stop := serve(t, path, s)
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	if err := remote.ServeSocket(t.Context(), path, s); err == nil || !strings.Contains(err.Error(), "another signer") {
		t.Errorf("a second server: got %v, want an error that says so", err)
	}
	if _, err := c.Head(t.Context()); err != nil {
		t.Errorf("after the second server: got %v, want the first still there", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: got %v, want no socket", err)
	}
	if _, err := c.Head(t.Context()); err == nil || refusal(err) {
		t.Errorf("nobody serves: got %v, want an error that is no refusal", err)
	}

	// A killed server leaves its socket. The next server replaces it, and the same client
	// continues.
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	serve(t, path, s)
	if _, err := c.Head(t.Context()); err != nil {
		t.Errorf("after a restart: got %v", err)
	}
	if err := os.WriteFile(path+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("got %v, %v, want nothing left beside the socket", entries, err)
	}
}

func refusal(err error) bool {
	var no *signer.Refusal
	return errors.As(err, &no)
}

// brokenSigner is a signer that fails with errors that are no refusals.
type brokenSigner struct{ signer.Signer }

func (brokenSigner) AdmitIntent(context.Context, signer.Intent) (signer.Entry, error) {
	return signer.Entry{}, errors.New("the disk is gone")
}

func (brokenSigner) Head(context.Context) (signer.Head, error) {
	return signer.Head{}, errors.New("the disk is gone")
}

// refusingSigner is a signer whose journal's disk is full.
type refusingSigner struct{ signer.Signer }

func (refusingSigner) IssueAddress(context.Context, signer.WalletRef) (signer.IssuedAddress, error) {
	return signer.IssuedAddress{}, fmt.Errorf("%w: no space left on device", signer.ErrUnavailable)
}

func (refusingSigner) AdmitIntent(context.Context, signer.Intent) (signer.Entry, error) {
	return signer.Entry{}, errors.New("a mistake of its own")
}

func TestASignerThatCannotWriteIsUnavailable(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, socket(t), refusingSigner{})
	if _, err := c.IssueAddress(t.Context(), signertest.Treasury("org_1")); !errors.Is(err, signer.ErrUnavailable) ||
		!strings.Contains(err.Error(), "no space left") {
		t.Errorf("a full disk: got %v, want ErrUnavailable and why", err)
	}
	if _, err := c.AdmitIntent(t.Context(), signer.Intent{ID: "wd_1"}); err == nil ||
		errors.Is(err, signer.ErrUnavailable) {
		t.Errorf("another error: got %v, want one that is not ErrUnavailable", err)
	}
	if _, err := remote.DialSocket(socket(t)).Head(t.Context()); !errors.Is(err, signer.ErrUnavailable) {
		t.Errorf("no signer: got %v, want ErrUnavailable", err)
	}
}

// longEntrySigner is a signer whose journal has long entries.
type longEntrySigner struct{ signer.Signer }

func (longEntrySigner) EntriesAfter(_ context.Context, after uint64, limit int) ([]signer.Entry, error) {
	var all []signer.Entry
	for n := range uint64(limit) {
		all = append(all, signer.Entry{Seq: after + 1 + n, Body: []byte(`"` + strings.Repeat("a", 60<<10) + `"`)})
	}
	return all, nil
}

// A Bitcoin slot can have two hundred outputs, and its entry names each of them.
func TestLongEntriesComeInSeveralAnswers(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, socket(t), longEntrySigner{})
	first, err := c.EntriesAfter(t.Context(), 0, 500)
	if err != nil || len(first) < 10 || len(first) >= 500 {
		t.Fatalf("got %d entries, %v, want some of them", len(first), err)
	}
	rest, err := c.EntriesAfter(t.Context(), first[len(first)-1].Seq, 1)
	if err != nil || len(rest) != 1 || rest[0].Seq != uint64(len(first)+1) {
		t.Errorf("got %+v, %v, want the one behind them", rest, err)
	}
}

func TestOnlyTheSignersOwnWordIsARefusal(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, socket(t), brokenSigner{})
	if _, err := c.AdmitIntent(t.Context(), signer.Intent{ID: "wd_1"}); err == nil || refusal(err) ||
		!strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("a broken signer: got %v, want an error that is no refusal", err)
	}

	path := socket(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	var status int
	var body string
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	})}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	c = remote.DialSocket(path)
	for name, a := range map[string]struct {
		status int
		body   string
	}{
		"nothing":                      {200, ``},
		"an empty answer":              {200, `{}`},
		"a page":                       {404, `404 page not found`},
		"a refusal that is an error":   {500, `{"refusal":{"code":"POLICY_LIMIT","message":"no"}}`},
		"a refusal without a code":     {200, `{"refusal":{}}`},
		"a refusal and a result":       {200, `{"refusal":{"code":"X","message":"no"},"result":{}}`},
		"a redirection":                {302, `{"result":{}}`},
		"an entry that is not whole":   {200, `{"result":{"journalId":"jrn","seq":1,"prev":"","hash":"00","body":{}}}`},
		"a result of another kind":     {200, `{"result":[1]}`},
		"a result that is cut off":     {200, `{"result":{"jour`},
		"more than anybody would send": {200, `{"result":"` + strings.Repeat("a", 9<<20) + `"}`},
	} {
		status, body = a.status, a.body
		if _, err := c.AdmitIntent(t.Context(), signer.Intent{ID: "wd_1"}); err == nil || refusal(err) {
			t.Errorf("%s: got %v, want an error that is no refusal", name, err)
		}
		if _, err := c.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1"}); err == nil || refusal(err) {
			t.Errorf("%s to Sign: got %v, want an error that is no refusal", name, err)
		}
		if _, err := c.IssueAddress(t.Context(), signertest.Treasury("org_1")); err == nil || refusal(err) {
			t.Errorf("%s to Issue: got %v, want an error that is no refusal", name, err)
		}
	}
	status, body = 200, `{"refusal":{"code":"POLICY_LIMIT","message":"no"}}`
	if _, err := c.AdmitIntent(t.Context(), signer.Intent{ID: "wd_1"}); !refusal(err) {
		t.Errorf("a refusal: got %v, want it", err)
	}
}

func TestServerBoundsWhatItReads(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	path := socket(t)
	c, _ := serve(t, path, s)
	plain := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error,
	) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}}}
	defer plain.CloseIdleConnections()
	for name, body := range map[string]string{
		"too long":          `{"orgId":"` + strings.Repeat("a", 200<<10) + `"}`,
		"an unknown member": `{"orgId":"org_1","note":""}`,
		"no JSON":           `orgId=org_1`,
	} {
		response, err := plain.Post("http://signer/issue", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: got %d, want %d", name, response.StatusCode, http.StatusBadRequest)
		}
	}
	if h, err := c.Head(t.Context()); err != nil || h.Seq != 1 {
		t.Errorf("got %+v, %v, want nothing journaled", h, err)
	}
}
