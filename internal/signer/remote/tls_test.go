package remote_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/remote"
	"github.com/cofferpay/coffer/internal/signer/remote/remotetest"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

var soon = time.Now().Add(time.Hour)

// serveTLS serves on a port of this machine until the test ends, and returns its address.
func serveTLS(t *testing.T, conf remote.ServerConfig, s signer.Signer) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- remote.ServeTLS(ctx, l, conf, s) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve: got %v", err)
		}
	})
	return l.Addr().String()
}

func dialTLS(t *testing.T, address string, conf remote.ClientConfig) *remote.Client {
	t.Helper()
	c, err := remote.DialTLS(address, conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestRemoteOverTLSKeepsThePromisesOfASigner(t *testing.T) {
	t.Parallel()
	ca := remotetest.NewAuthority(t)
	server, client := ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon), ca.IssueLeaf(t,
		"coffer-dispatch", x509.ExtKeyUsageClientAuth, soon)
	signertest.RunSuite(t, func(t *testing.T) (signer.Signer, ed25519.PublicKey) {
		s, public := signertest.Open(t, signertest.NewPolicy(), nil)
		address := serveTLS(t, remote.ServerConfig{
			TLSFiles: server,
			Peers:    []remote.Peer{{Name: "coffer-dispatch", Permission: remote.PermissionPay}},
		}, s)
		return dialTLS(t, address, remote.ClientConfig{TLSFiles: client, Name: "signer.internal"}), public
	})
}

func TestNobodyElseGetsAWordFromTheSigner(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	ca, other := remotetest.NewAuthority(t), remotetest.NewAuthority(t)
	server := ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon)
	pinned := other.IssueLeaf(t, "pinned", x509.ExtKeyUsageClientAuth, soon)
	expiredAndPinned := other.IssueLeaf(t, "late and pinned", x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Minute))
	address := serveTLS(t, remote.ServerConfig{TLSFiles: server, Peers: []remote.Peer{
		{Name: "coffer-dispatch", Permission: remote.PermissionPay},
		{Name: "late", Permission: remote.PermissionPay},
		{Name: "pinned", Pin: remotetest.PinOf(t, pinned), Permission: remote.PermissionPay},
		{Name: "late and pinned", Pin: remotetest.PinOf(t, expiredAndPinned), Permission: remote.PermissionPay},
	}}, s)
	ask := func(f remote.TLSFiles) error {
		f.CA = ca.CertificatePath()
		_, err := dialTLS(t, address, remote.ClientConfig{TLSFiles: f, Name: "signer.internal"}).Head(t.Context())
		return err
	}
	for name, f := range map[string]remote.TLSFiles{
		"a peer":        ca.IssueLeaf(t, "coffer-dispatch", x509.ExtKeyUsageClientAuth, soon),
		"a pinned peer": pinned,
	} {
		if err := ask(f); err != nil {
			t.Errorf("%s: got %v, want an answer", name, err)
		}
	}
	for name, f := range map[string]remote.TLSFiles{
		"another authority":         other.IssueLeaf(t, "coffer-dispatch", x509.ExtKeyUsageClientAuth, soon),
		"a name that is no peer":    ca.IssueLeaf(t, "coffer-web", x509.ExtKeyUsageClientAuth, soon),
		"the name of a pinned peer": ca.IssueLeaf(t, "pinned", x509.ExtKeyUsageClientAuth, soon),
		"a certificate that has run out": ca.IssueLeaf(t, "late", x509.ExtKeyUsageClientAuth,
			time.Now().Add(-time.Minute)),
		"a pinned one that has run out":   expiredAndPinned,
		"the certificate of the signer":   server,
		"a server's with a client's name": ca.IssueLeaf(t, "coffer-dispatch", x509.ExtKeyUsageServerAuth, soon),
	} {
		if err := ask(f); err == nil || refusal(err) {
			t.Errorf("%s: got %v, want an error that is no refusal", name, err)
		}
	}

	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	talk := func(c net.Conn) string {
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(10 * time.Second))
		fmt.Fprintf(c, "POST /head HTTP/1.1\r\nHost: signer\r\nContent-Length: 2\r\n\r\n{}")
		line, _ := bufio.NewReader(io.LimitReader(c, 4096)).ReadString('\n')
		return line
	}
	if c, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, ServerName: "signer.internal"}); err == nil {
		if got := talk(c); got != "" {
			t.Errorf("no certificate: got %q, want nothing", got)
		}
	}
	if c, err := tls.Dial("tcp", address, &tls.Config{
		RootCAs: roots, ServerName: "signer.internal",
		MaxVersion: tls.VersionTLS12,
	}); err == nil {
		t.Error("TLS 1.2: got a connection, want none")
		c.Close()
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if got := talk(c); strings.Contains(got, "200") {
		t.Errorf("without TLS: got %q, want no answer of the signer", got)
	}
	if h, err := s.Head(t.Context()); err != nil || h.Seq != 1 {
		t.Errorf("got %+v, %v, want nothing journaled", h, err)
	}
}

func TestAClientAsksNobodyButItsSigner(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	ca, other := remotetest.NewAuthority(t), remotetest.NewAuthority(t)
	client := ca.IssueLeaf(t, "coffer-dispatch", x509.ExtKeyUsageClientAuth, soon)
	peers := []remote.Peer{{Name: "any", Pin: remotetest.PinOf(t, client), Permission: remote.PermissionPay}}
	right := ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon)
	for name, f := range map[string]remote.TLSFiles{
		"another authority":          other.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon),
		"another name":               ca.IssueLeaf(t, "coffer-web", x509.ExtKeyUsageServerAuth, soon),
		"a client that plays signer": ca.IssueLeaf(t, "player", x509.ExtKeyUsageClientAuth, soon),
		"a signer that has run out": ca.IssueLeaf(t, "late", x509.ExtKeyUsageServerAuth,
			time.Now().Add(-time.Minute)),
		"a certificate without a use": ca.IssueLeaf(t, "emails", x509.ExtKeyUsageEmailProtection, soon),
	} {
		address := serveTLS(t, remote.ServerConfig{TLSFiles: f, Peers: peers}, s)
		asked := strings.TrimSuffix(filepath.Base(f.Certificate), ".pem")
		if name == "another name" {
			asked = "signer.internal"
		}
		if _, err := dialTLS(t, address, remote.ClientConfig{TLSFiles: client, Name: asked}).IssueAddress(t.Context(),
			signertest.Treasury("org_1")); err == nil || refusal(err) {
			t.Errorf("%s: got %v, want an error that is no refusal", name, err)
		}
	}
	address := serveTLS(t, remote.ServerConfig{TLSFiles: right, Peers: peers}, s)
	client.CA = ""
	if _, err := dialTLS(t, address, remote.ClientConfig{
		TLSFiles: client,
		Pin:      remotetest.PinOf(t, client),
	}).Head(t.Context()); err == nil || refusal(err) {
		t.Errorf("another pin: got %v, want an error that is no refusal", err)
	}
	if _, err := dialTLS(t, address, remote.ClientConfig{
		TLSFiles: client,
		Pin:      remotetest.PinOf(t, right),
	}).Head(t.Context()); err != nil {
		t.Errorf("its pin: got %v, want an answer", err)
	}
	if _, err := remote.DialTLS(address, remote.ClientConfig{TLSFiles: client}); err == nil {
		t.Error("neither an authority nor a pin: got a client, want an error")
	}
	if h, err := s.Head(t.Context()); err != nil || h.Seq != 1 {
		t.Errorf("got %+v, %v, want nothing journaled", h, err)
	}
}

func TestAClientHasNoMoreOfTheSignerThanItMay(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	ca := remotetest.NewAuthority(t)
	server := ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon)
	var peers []remote.Peer
	for _, may := range []remote.Permission{remote.PermissionRead, remote.PermissionIssue, remote.PermissionPay} {
		peers = append(peers, remote.Peer{Name: string(may), Permission: may})
	}
	address := serveTLS(t, remote.ServerConfig{TLSFiles: server, Peers: peers}, s)
	for i, p := range peers {
		c := dialTLS(t, address, remote.ClientConfig{TLSFiles: ca.IssueLeaf(t, p.Name, x509.ExtKeyUsageClientAuth,
			soon), Name: "signer.internal"})
		_, headErr := c.Head(t.Context())
		_, entriesErr := c.EntriesAfter(t.Context(), 0, 1)
		_, anchorsErr := c.AnchorsAfter(t.Context(), 0, 1)
		_, anchorErr := c.SignAnchor(t.Context(), signer.AnchorRequest{})
		_, issueErr := c.IssueAddress(t.Context(), signertest.Treasury("org_1"))
		_, endorseErr := c.EndorseAddress(t.Context(), signer.Endorsement{})
		_, revokeErr := c.RevokeEndorsement(t.Context(), signer.Revocation{})
		_, voidErr := c.VoidIntent(t.Context(), signer.Void{OrgID: "org_1", ID: "wd_9"})
		_, admitErr := c.AdmitIntent(t.Context(), signer.Intent{ID: "wd_1"})
		_, signErr := c.Sign(t.Context(), signer.SignRequest{IntentID: "wd_1"})
		for _, call := range []struct {
			name  string
			err   error
			needs int
		}{
			{"Head", headErr, 0},
			{"Entries", entriesErr, 0},
			{"Anchors", anchorsErr, 0},
			{"Anchor", anchorErr, 1},
			{"Issue", issueErr, 1},
			{"Endorse", endorseErr, 1},
			{"Revoke", revokeErr, 1},
			{
				"Void", voidErr,
				1,
			},
			{"Admit", admitErr, 2},
			{"Sign", signErr, 2},
		} {
			if i >= call.needs {
				if call.err != nil && !refusal(call.err) {
					t.Errorf("%s asks %s: got %v, want the signer's answer", p.Permission, call.name, call.err)
				}
			} else if call.err == nil || refusal(call.err) || !strings.Contains(call.err.Error(), "status 403") {
				t.Errorf("%s asks %s: got %v, want an error that is no refusal", p.Permission, call.name, call.err)
			}
		}
	}
}

func TestCertificatesAreRenewedWithoutARestart(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	ca := remotetest.NewAuthority(t)
	server, client := ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon), ca.IssueLeaf(t,
		"coffer-dispatch", x509.ExtKeyUsageClientAuth, soon)
	address := serveTLS(t, remote.ServerConfig{
		TLSFiles: server,
		Peers:    []remote.Peer{{Name: "coffer-dispatch", Permission: remote.PermissionPay}},
	}, s)
	c := dialTLS(t, address, remote.ClientConfig{TLSFiles: client, Name: "signer.internal"})
	if _, err := c.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually := func(what string, is func(error) bool) {
		t.Helper()
		deadline := time.After(20 * time.Second)
		for {
			_, err := c.Head(t.Context())
			if is(err) {
				return
			}
			select {
			case <-deadline:
				t.Fatalf("%s: got %v", what, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	works := func(err error) bool { return err == nil }

	// The file has another authority: a client whose certificate it did not sign is refused, also
	// on an open connection.
	old, err := os.ReadFile(ca.CertificatePath())
	if err != nil {
		t.Fatal(err)
	}
	next := remotetest.NewAuthority(t)
	remotetest.WritePEM(t, ca.CertificatePath(), "CERTIFICATE", next.Certificate.Raw)
	eventually("the authority was replaced: want an error", func(err error) bool { return err != nil && !refusal(err) })
	next.Dir = ca.Dir
	next.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, soon)
	next.IssueLeaf(t, "coffer-dispatch", x509.ExtKeyUsageClientAuth, soon)
	eventually("both have new certificates: want an answer", works)

	// A file that cannot be read changes nothing.
	if err := os.WriteFile(server.Certificate, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(client.Certificate, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	until := time.Now().Add(2500 * time.Millisecond)
	for time.Now().Before(until) {
		c.Close() // makes a new connection
		if _, err := c.Head(t.Context()); err != nil {
			t.Fatalf("broken files: got %v, want an answer with what was read before", err)
		}
	}

	if err := os.Chmod(client.Key, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := remote.DialTLS(address, remote.ClientConfig{TLSFiles: client, Name: "signer.internal"}); err == nil ||
		!strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a key that others may read: got %v, want it refused", err)
	}
}

// Each side knows how long its own certificate, the other side's and the authority's are valid, and
// notices a renewed one without a restart.
func TestBothSidesKnowUntilWhenCertificatesCount(t *testing.T) {
	t.Parallel()
	s, _ := signertest.New(t)
	ca := remotetest.NewAuthority(t)
	authority := ca.Certificate.NotAfter
	first, later := time.Now().Add(30*time.Minute).Truncate(time.Second),
		time.Now().Add(50*time.Minute).Truncate(time.Second)
	server, client := ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, first), ca.IssueLeaf(t,
		"coffer-dispatch", x509.ExtKeyUsageClientAuth, later)
	watch := &remote.CertificateWatch{}
	address := serveTLS(t, remote.ServerConfig{
		TLSFiles: server,
		Peers:    []remote.Peer{{Name: "coffer-dispatch", Permission: remote.PermissionRead}}, CertificateWatch: watch,
	}, s)
	c := dialTLS(t, address, remote.ClientConfig{TLSFiles: client, Name: "signer.internal"})
	text := func(all []remote.Certificate) string {
		var lines []string
		for _, c := range all {
			lines = append(lines, fmt.Sprintf("%s %s %d", c.Role, c.Name, c.NotAfter.Unix()))
		}
		slices.Sort(lines)
		return strings.Join(lines, ", ")
	}
	of := func(server, client time.Time) string {
		return fmt.Sprintf("authority authority %d, client coffer-dispatch %d, server signer.internal %d",
			authority.Unix(), client.Unix(), server.Unix())
	}
	if got, want := text(c.Certificates()), fmt.Sprintf("authority authority %d, client coffer-dispatch %d",
		authority.Unix(), later.Unix()); got != want {
		t.Errorf("before a call: got %s, want %s", got, want)
	}
	if _, err := c.Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	for side, got := range map[string][]remote.Certificate{"client": c.Certificates(), "server": watch.Certificates()} {
		if want := of(first, later); text(got) != want {
			t.Errorf("%s: got %s, want %s", side, text(got), want)
		}
	}
	ca.IssueLeaf(t, "signer.internal", x509.ExtKeyUsageServerAuth, later)
	deadline := time.After(20 * time.Second)
	for text(c.Certificates()) != of(later, later) || text(watch.Certificates()) != of(later, later) {
		c.Close() // makes a new connection
		if _, err := c.Head(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case <-deadline:
			t.Fatalf("renewed: got %s and %s, want %s", text(c.Certificates()), text(watch.Certificates()),
				of(later, later))
		case <-time.After(20 * time.Millisecond):
		}
	}
	if got := remote.DialSocket("nowhere.sock").Certificates(); len(got) != 0 {
		t.Errorf("at a socket: got %v, want none", got)
	}
	if got := (*remote.CertificateWatch)(nil).Certificates(); len(got) != 0 {
		t.Errorf("nobody asks: got %v, want none", got)
	}
}

// The commands of the runbook make certificates that both sides accept.
func TestTheCertificatesOfTheRunbookAreTaken(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("openssl"); err != nil {
		return // the tests above made their own
	}
	text, err := os.ReadFile("../../../docs/runbooks/signer-host.md")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	sh := func(name string) string {
		m := regexp.MustCompile("(?s)\n```sh " + name + "\n(.*?)```\n").FindSubmatch(text)
		if m == nil {
			t.Fatalf("the runbook has no block %s", name)
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-eu")
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(string(m[1]))
		out, err := cmd.Output()
		if failed, ok := errors.AsType[*exec.ExitError](err); ok {
			t.Fatalf("%s: %v\n%s", name, err, failed.Stderr)
		} else if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	sh("certificates")
	files := func(name string) remote.TLSFiles {
		at := func(end string) string { return filepath.Join(dir, name+end) }
		return remote.TLSFiles{Certificate: at(".pem"), Key: at(".key"), CA: filepath.Join(dir, "ca.pem")}
	}
	s, _ := signertest.New(t)
	byName := serveTLS(t, remote.ServerConfig{
		TLSFiles: files("signer.internal"),
		Peers:    []remote.Peer{{Name: "coffer-dispatch", Permission: remote.PermissionPay}},
	}, s)
	if _, err := dialTLS(t, byName, remote.ClientConfig{
		TLSFiles: files("coffer-dispatch"),
		Name:     "signer.internal",
	}).Head(t.Context()); err != nil {
		t.Errorf("by the authority: got %v, want an answer", err)
	}
	if _, err := dialTLS(t, byName, remote.ClientConfig{
		TLSFiles: files("coffer-api"),
		Name:     "signer.internal",
	}).Head(t.Context()); err == nil {
		t.Error("a client that is not listed: got an answer, want an error")
	}
	of := "sha256/" + sh("pin")
	if err := remote.CheckPin(of); err != nil || of != remotetest.PinOf(t, files("coffer-dispatch")) {
		t.Errorf("got the pin %q (%v), want %s", of, err, remotetest.PinOf(t, files("coffer-dispatch")))
	}
}
