package remote

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/signer"
)

// Permission says which part of the port a client on the network may use.
type Permission string

// The permissions. Each includes those before it.
const (
	PermissionRead  Permission = "READ"  // the journal's position and entries, and the anchors of the audit log
	PermissionIssue Permission = "ISSUE" // addresses, endorsements, voids, and new anchors of the audit log
	PermissionPay   Permission = "PAY"   // payments: AdmitIntent and Sign
)

// IsValid reports whether it is one of the permissions.
func (m Permission) IsValid() bool {
	return m == PermissionRead || m == PermissionIssue || m == PermissionPay
}

var (
	requiredPermissions = map[string]Permission{
		routeHead.path: PermissionRead, routeEntries.path: PermissionRead, routeWording.path: PermissionRead,
		routeAnchors.path: PermissionRead, routeAnchor.path: PermissionIssue, routeIssue.path: PermissionIssue,
		routeEndorse.path: PermissionIssue, routeRevoke.path: PermissionIssue, routeVoid.path: PermissionIssue,
		routeEnrol.path: PermissionIssue, routeRetire.path: PermissionIssue, routeRule.path: PermissionIssue,
		routeAdmit.path: PermissionPay, routeSign.path: PermissionPay,
	}
	permissionRanks = map[Permission]int{PermissionRead: 1, PermissionIssue: 2, PermissionPay: 3}
)

// Peer is a client that a signer on the network serves. With a pin, its certificate is the one with
// that key, independently of who signed it. Without a pin, the authority signed it and Name is its
// common name.
type Peer struct {
	Name       string
	Pin        string // see PinOf
	Permission Permission
}

// TLSFiles name the certificate of one side and the authority of the other side's. They are read
// again while the process runs, so a new certificate needs no restart.
type TLSFiles struct {
	Certificate, Key string // PEM
	CA               string // PEM: the authority that signs the other side's certificate; "" where pins replace it
}

// reloadEvery is how long files are assumed to be unchanged.
const reloadEvery = time.Second

// tlsIdentity holds what the files contained when they were last read.
type tlsIdentity struct {
	files    TLSFiles
	mu       sync.Mutex
	loadedAt time.Time
	loadedFiles
}

// loadedFiles is the contents of the files.
type loadedFiles struct {
	certificate tls.Certificate
	roots       *x509.CertPool // nil without an authority
	authorities []*x509.Certificate
}

func openTLSIdentity(f TLSFiles) (*tlsIdentity, error) {
	loaded, err := f.loadFiles()
	if err != nil {
		return nil, err
	}
	return &tlsIdentity{files: f, loadedFiles: loaded, loadedAt: time.Now()}, nil
}

// current returns the identity at this moment. If the files cannot be read, it keeps the previous
// contents and logs an error: a half-written certificate must not stop payments.
func (i *tlsIdentity) current() loadedFiles {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.loadedAt) >= reloadEvery {
		i.loadedAt = time.Now()
		loaded, err := i.files.loadFiles()
		if err != nil {
			slog.Error("the signer's certificates could not be read again; the earlier ones stay in use", "err",
				err)
		} else {
			i.loadedFiles = loaded
		}
	}
	return i.loadedFiles
}

func (f TLSFiles) loadFiles() (loaded loadedFiles, err error) {
	info, err := os.Stat(f.Key)
	if err != nil {
		return loaded, fmt.Errorf("read the key of the certificate: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return loaded, fmt.Errorf(
			"the key %s has mode %#o, so others can read or write it: chmod 600",
			f.Key, info.Mode().Perm(),
		)
	}
	if loaded.certificate, err = tls.LoadX509KeyPair(f.Certificate, f.Key); err != nil {
		return loaded, fmt.Errorf("read the certificate %s and its key: %w", f.Certificate, err)
	}
	if f.CA == "" {
		return loaded, nil
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return loaded, fmt.Errorf("read the authority's certificate: %w", err)
	}
	loaded.roots = x509.NewCertPool()
	for block, remaining := pem.Decode(text); block != nil; block, remaining = pem.Decode(remaining) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" &&
			len(block.Headers) == 0 {
			loaded.roots.AddCert(c)
			loaded.authorities = append(loaded.authorities, c)
		}
	}
	if len(loaded.authorities) == 0 {
		return loaded, fmt.Errorf("the file %s contains no certificate (PEM)", f.CA)
	}
	return loaded, nil
}

// PinOf returns the pin of a certificate's public key: sha256/ and the base64 of the SHA-256 of its
// SubjectPublicKeyInfo. A certificate that is renewed for the same key keeps it.
func PinOf(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return pinPrefix + base64.StdEncoding.EncodeToString(sum[:])
}

const pinPrefix = "sha256/"

// CheckPin returns an error if the form of a pin is invalid.
func CheckPin(pin string) error {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(pin, pinPrefix))
	if !strings.HasPrefix(pin, pinPrefix) || err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%q is not a pin: %s and the base64 of 32 bytes", pin, pinPrefix)
	}
	return nil
}

// errUnknownPeer says that the other side is none of the configured peers.
var errUnknownPeer = errors.New("the certificate belongs to no known client")

// checkValidity refuses a certificate outside of its validity period, also a pinned one.
func checkValidity(c *x509.Certificate, now time.Time) error {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("the certificate of %s is valid from %s to %s", c.Subject.CommonName,
			c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// verifyChain checks a chain of certificates against an authority.
func verifyChain(
	chain []*x509.Certificate, roots *x509.CertPool, name string, use x509.ExtKeyUsage, now time.Time,
) error {
	intermediates := x509.NewCertPool()
	for _, c := range chain[1:] {
		intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: intermediates, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use},
	})
	return err
}

// ServerConfig configures a signer that serves on the network.
type ServerConfig struct {
	TLSFiles
	Peers            []Peer
	CertificateWatch *CertificateWatch // records the certificates; may be nil
}

// ServeTLS serves on a listener until ctx ends, then finishes the calls in progress and closes it.
// It speaks only TLS 1.3, and only with clients that are among the peers.
func ServeTLS(ctx context.Context, l net.Listener, conf ServerConfig, s signer.Signer) error {
	identity, err := openTLSIdentity(conf.TLSFiles)
	if err != nil {
		return errors.Join(fmt.Errorf("serve the signer on %s: %w", l.Addr(), err), l.Close())
	}
	conf.CertificateWatch.setIdentity("server", identity)
	d := authenticator{identity, conf.Peers}
	outer := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				Certificates: []tls.Certificate{identity.current().certificate},
				ClientAuth:   tls.RequireAnyClientCert, // VerifyConnection identifies the client
				VerifyConnection: func(c tls.ConnectionState) error {
					p, err := d.findPeer(c.PeerCertificates)
					if err == nil {
						conf.CertificateWatch.recordPeer("client", p.Name, c.PeerCertificates[0])
					}
					return err
				},
				SessionTicketsDisabled: true, // every connection shows its certificate
				NextProtos:             []string{"http/1.1"},
			}, nil
		},
	}
	return serveListener(ctx, tls.NewListener(l, outer), l.Addr().String(), d.authorize(newHandler(s)))
}

// authenticator identifies clients.
type authenticator struct {
	identity *tlsIdentity
	peers    []Peer
}

// findPeer returns the peer that these certificates belong to.
func (d authenticator) findPeer(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errUnknownPeer
	}
	now := time.Now()
	if err := checkValidity(chain[0], now); err != nil {
		return Peer{}, err
	}
	pin := PinOf(chain[0])
	for _, p := range d.peers {
		if p.Pin != "" && p.Pin == pin {
			return p, nil
		}
	}
	roots := d.identity.current().roots
	if roots == nil {
		return Peer{}, fmt.Errorf("%w: %s has the pin %s", errUnknownPeer, chain[0].Subject.CommonName, pin)
	}
	if err := verifyChain(chain, roots, "", x509.ExtKeyUsageClientAuth, now); err != nil {
		return Peer{}, err
	}
	for _, p := range d.peers {
		if p.Pin == "" && p.Name == chain[0].Subject.CommonName {
			return p, nil
		}
	}
	return Peer{}, fmt.Errorf("%w: the authority signed it for %s", errUnknownPeer, chain[0].Subject.CommonName)
}

// authorize checks the client again on every call, because a connection may outlive the validity of
// a certificate or an authority.
func (d authenticator) authorize(inner http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			writeReply(w, http.StatusForbidden, replyBody{Error: "this signer accepts TLS only"})
			return
		}
		p, err := d.findPeer(r.TLS.PeerCertificates)
		if err != nil {
			w.Header().Set("Connection", "close") // the next one may show a renewed certificate
			writeReply(w, http.StatusForbidden, replyBody{Error: err.Error()})
			return
		}
		if required := requiredPermissions[r.URL.Path]; permissionRanks[p.Permission] < permissionRanks[required] ||
			required == "" {
			slog.Warn("signer: a client asked for a call that it may not make", "client", p.Name,
				"may", string(p.Permission), "call", r.URL.Path)
			writeReply(w, http.StatusForbidden,
				replyBody{Error: fmt.Sprintf("%s may %s, and %s takes %s", p.Name, p.Permission, r.URL.Path, required)})
			return
		}
		inner.ServeHTTP(w, r)
	})
}

// ClientConfig configures how a signer on the network is reached.
type ClientConfig struct {
	TLSFiles
	Name string // the name in its certificate; "" means the host of the address
	Pin  string // the pin of its certificate, instead of an authority; see PinOf
}

// DialTLS returns the signer that serves at an address with a port. It connects with the first
// call. A server other than the configured one is an error of that call, never an answer.
func DialTLS(address string, conf ClientConfig) (*Client, error) {
	identity, err := openTLSIdentity(conf.TLSFiles)
	if err != nil {
		return nil, err
	}
	if conf.Name == "" {
		if conf.Name, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	if conf.Pin == "" && conf.CA == "" {
		return nil, errors.New("a signer on the network needs a CA or a pin to be recognized")
	}
	watch := &CertificateWatch{}
	watch.setIdentity("client", identity)
	c := newClient(address, func(ctx context.Context) (net.Conn, error) {
		files := identity.current()
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialMax}, Config: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{files.certificate},
			ServerName:   conf.Name,
			NextProtos:   []string{"http/1.1"},
			// VerifyConnection does the whole verification, with the present authority.
			InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				err := conf.verifyServer(c.PeerCertificates, files.roots)
				if err == nil {
					watch.recordPeer("server", conf.Name, c.PeerCertificates[0])
				}
				return err
			},
		}}
		return d.DialContext(ctx, "tcp", address)
	})
	c.watch = watch
	return c, nil
}

// verifyServer checks that the server is the configured signer.
func (c ClientConfig) verifyServer(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errUnknownPeer
	}
	now := time.Now()
	if err := checkValidity(chain[0], now); err != nil {
		return err
	}
	if c.Pin != "" {
		if PinOf(chain[0]) != c.Pin {
			return fmt.Errorf("%w: it has the pin %s", errUnknownPeer, PinOf(chain[0]))
		}
		return nil
	}
	return verifyChain(chain, roots, c.Name, x509.ExtKeyUsageServerAuth, now)
}
