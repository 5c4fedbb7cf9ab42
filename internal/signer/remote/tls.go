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

// May is how much of the port a client on the network has.
type May string

// What a client may ask for, each with all before it.
const (
	MayRead  May = "READ"  // where the journal stands, its entries, and the anchors of the audit log
	MayIssue May = "ISSUE" // addresses, endorsements, voids, and anchors of the audit log
	MayPay   May = "PAY"   // payments: Admit and Sign
)

// Valid tells whether it is one of them.
func (m May) Valid() bool { return m == MayRead || m == MayIssue || m == MayPay }

var (
	calls = map[string]May{head.path: MayRead, entries.path: MayRead, anchors.path: MayRead, anchor.path: MayIssue, issue.path: MayIssue, endorse.path: MayIssue, revoke.path: MayIssue, void.path: MayIssue, admit.path: MayPay, sign.path: MayPay}
	ranks = map[May]int{MayRead: 1, MayIssue: 2, MayPay: 3}
)

// Peer is a client that a signer on the network answers. With a pin, its
// certificate is the one with that key, whoever signed it; without, it is signed by
// the authority and Name is its common name.
type Peer struct {
	Name string
	Pin  string // see Pin
	May  May
}

// Files are the certificate of one side and what the other side's is checked by.
// They are read again while the process runs, so a new certificate needs no restart.
type Files struct {
	Certificate, Key string // PEM
	CA               string // PEM: the authority that signs the other side's; "" where pins do
}

// reloadEvery is how long files are taken for unchanged.
const reloadEvery = time.Second

// identity is what the files held when they were last read.
type identity struct {
	files Files
	mu    sync.Mutex
	read  time.Time
	held
}

// held is what files held.
type held struct {
	own         tls.Certificate
	roots       *x509.CertPool // nil without an authority
	authorities []*x509.Certificate
}

func openIdentity(f Files) (*identity, error) {
	now, err := f.load()
	if err != nil {
		return nil, err
	}
	return &identity{files: f, held: now, read: time.Now()}, nil
}

// now is the identity of this moment. Files that cannot be read leave what was:
// a half-written certificate must not stop payments, and it is told.
func (i *identity) now() held {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.read) >= reloadEvery {
		i.read = time.Now()
		now, err := i.files.load()
		if err != nil {
			slog.Error("the signer's certificates could not be read again; those that were read before stay", "err", err)
		} else {
			i.held = now
		}
	}
	return i.held
}

func (f Files) load() (h held, err error) {
	info, err := os.Stat(f.Key)
	if err != nil {
		return h, fmt.Errorf("read the key of the certificate: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return h, fmt.Errorf("the key %s has mode %#o and others may use it: chmod 600", f.Key, info.Mode().Perm())
	}
	if h.own, err = tls.LoadX509KeyPair(f.Certificate, f.Key); err != nil {
		return h, fmt.Errorf("read the certificate %s and its key: %w", f.Certificate, err)
	}
	if f.CA == "" {
		return h, nil
	}
	text, err := os.ReadFile(f.CA)
	if err != nil {
		return h, fmt.Errorf("read the authority's certificate: %w", err)
	}
	h.roots = x509.NewCertPool()
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if c, err := x509.ParseCertificate(block.Bytes); err == nil && block.Type == "CERTIFICATE" && len(block.Headers) == 0 {
			h.roots.AddCert(c)
			h.authorities = append(h.authorities, c)
		}
	}
	if len(h.authorities) == 0 {
		return h, fmt.Errorf("the file %s holds no certificate (PEM)", f.CA)
	}
	return h, nil
}

// Pin names a certificate by its public key: sha256/ and the base64 of the SHA-256
// of its SubjectPublicKeyInfo. A certificate that is renewed for the same key keeps it.
func Pin(c *x509.Certificate) string {
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return pinPrefix + base64.StdEncoding.EncodeToString(sum[:])
}

const pinPrefix = "sha256/"

// CheckPin tells what is wrong with the form of a pin.
func CheckPin(pin string) error {
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(pin, pinPrefix))
	if !strings.HasPrefix(pin, pinPrefix) || err != nil || len(sum) != sha256.Size {
		return fmt.Errorf("%q is no pin: %s and the base64 of 32 bytes", pin, pinPrefix)
	}
	return nil
}

// errPeer says that the other side is not who it has to be.
var errPeer = errors.New("the certificate is of nobody that is known here")

// inTime refuses a certificate outside of its time; a pin does not make it timeless.
func inTime(c *x509.Certificate, now time.Time) error {
	if now.Before(c.NotBefore) || now.After(c.NotAfter) {
		return fmt.Errorf("the certificate of %s counts from %s to %s", c.Subject.CommonName, c.NotBefore.UTC().Format(time.RFC3339), c.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}

// signed checks a chain of certificates against an authority.
func signed(chain []*x509.Certificate, roots *x509.CertPool, name string, use x509.ExtKeyUsage, now time.Time) error {
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots: roots, Intermediates: between, DNSName: name, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{use},
	})
	return err
}

// ServerConfig is a signer that answers on the network.
type ServerConfig struct {
	Files
	Peers []Peer
	Watch *Watch // is told the certificates; nil: nobody asks
}

// ServeTLS answers on a listener until ctx ends, then finishes what is under way and
// closes it. It speaks TLS 1.3 with clients that are among the peers, and nothing else.
func ServeTLS(ctx context.Context, l net.Listener, conf ServerConfig, s signer.Signer) error {
	own, err := openIdentity(conf.Files)
	if err != nil {
		return errors.Join(fmt.Errorf("serve the signer on %s: %w", l.Addr(), err), l.Close())
	}
	conf.Watch.over("server", own)
	d := door{own, conf.Peers}
	outer := &tls.Config{
		MinVersion: tls.VersionTLS13,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			return &tls.Config{
				MinVersion:   tls.VersionTLS13,
				Certificates: []tls.Certificate{own.now().own},
				ClientAuth:   tls.RequireAnyClientCert, // whose it is says the next line
				VerifyConnection: func(c tls.ConnectionState) error {
					p, err := d.peer(c.PeerCertificates)
					if err == nil {
						conf.Watch.met("client", p.Name, c.PeerCertificates[0])
					}
					return err
				},
				SessionTicketsDisabled: true, // every connection shows its certificate
				NextProtos:             []string{"http/1.1"},
			}, nil
		},
	}
	return run(ctx, tls.NewListener(l, outer), l.Addr().String(), d.guard(handler(s)))
}

// door knows who may come in.
type door struct {
	own   *identity
	peers []Peer
}

// peer finds whose certificates these are.
func (d door) peer(chain []*x509.Certificate) (Peer, error) {
	if len(chain) == 0 {
		return Peer{}, errPeer
	}
	now := time.Now()
	if err := inTime(chain[0], now); err != nil {
		return Peer{}, err
	}
	pin := Pin(chain[0])
	for _, p := range d.peers {
		if p.Pin != "" && p.Pin == pin {
			return p, nil
		}
	}
	roots := d.own.now().roots
	if roots == nil {
		return Peer{}, fmt.Errorf("%w: %s has the pin %s", errPeer, chain[0].Subject.CommonName, pin)
	}
	if err := signed(chain, roots, "", x509.ExtKeyUsageClientAuth, now); err != nil {
		return Peer{}, err
	}
	for _, p := range d.peers {
		if p.Pin == "" && p.Name == chain[0].Subject.CommonName {
			return p, nil
		}
	}
	return Peer{}, fmt.Errorf("%w: the authority signed it for %s", errPeer, chain[0].Subject.CommonName)
}

// guard asks again with every call, because a connection lives longer than the time
// of a certificate or an authority may.
func (d door) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil {
			reply(w, http.StatusForbidden, answer{Error: "this signer speaks TLS alone"})
			return
		}
		p, err := d.peer(r.TLS.PeerCertificates)
		if err != nil {
			w.Header().Set("Connection", "close") // the next one may show a renewed certificate
			reply(w, http.StatusForbidden, answer{Error: err.Error()})
			return
		}
		if needs := calls[r.URL.Path]; ranks[p.May] < ranks[needs] || needs == "" {
			slog.Warn("signer: a client asked for what it may not", "client", p.Name, "may", string(p.May), "call", r.URL.Path)
			reply(w, http.StatusForbidden, answer{Error: fmt.Sprintf("%s may %s, and %s takes %s", p.Name, p.May, r.URL.Path, needs)})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ClientConfig is how a signer on the network is reached.
type ClientConfig struct {
	Files
	Name string // that its certificate is for; "" is the host of the address
	Pin  string // of its certificate, instead of an authority; see Pin
}

// DialTLS is the signer that answers at an address with a port. It connects with the
// first call; a server that is another than the one configured is an error of that
// call, never an answer.
func DialTLS(address string, conf ClientConfig) (*Client, error) {
	own, err := openIdentity(conf.Files)
	if err != nil {
		return nil, err
	}
	if conf.Name == "" {
		if conf.Name, _, err = net.SplitHostPort(address); err != nil {
			return nil, err
		}
	}
	if conf.Pin == "" && conf.CA == "" {
		return nil, errors.New("a signer on the network needs an authority or a pin to be known by")
	}
	watch := &Watch{}
	watch.over("client", own)
	c := dial(address, func(ctx context.Context) (net.Conn, error) {
		files := own.now()
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: dialMax}, Config: &tls.Config{
			MinVersion:   tls.VersionTLS13,
			Certificates: []tls.Certificate{files.own},
			ServerName:   conf.Name,
			NextProtos:   []string{"http/1.1"},
			// VerifyConnection does all of it, with the authority of this moment.
			InsecureSkipVerify: true,
			VerifyConnection: func(c tls.ConnectionState) error {
				err := conf.known(c.PeerCertificates, files.roots)
				if err == nil {
					watch.met("server", conf.Name, c.PeerCertificates[0])
				}
				return err
			},
		}}
		return d.DialContext(ctx, "tcp", address)
	})
	c.watch = watch
	return c, nil
}

// known tells whether the server is the signer.
func (c ClientConfig) known(chain []*x509.Certificate, roots *x509.CertPool) error {
	if len(chain) == 0 {
		return errPeer
	}
	now := time.Now()
	if err := inTime(chain[0], now); err != nil {
		return err
	}
	if c.Pin != "" {
		if Pin(chain[0]) != c.Pin {
			return fmt.Errorf("%w: it has the pin %s", errPeer, Pin(chain[0]))
		}
		return nil
	}
	return signed(chain, roots, c.Name, x509.ExtKeyUsageServerAuth, now)
}
