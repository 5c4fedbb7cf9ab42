// Package outbound reaches addresses that strangers name: the URLs of webhooks, and of images. It looks at the
// address that is really dialled, so no name leads into the network of the installation.
//
// The package rules out:
//   - a connection to an address that is not public
//   - a redirect that is followed
//   - an answer that is read without a bound
//   - an error that tells a stranger an address of this network
//
// It keeps no state but idle connections, so a crash leaves nothing.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	dialTimeout         = 10 * time.Second
	idleTimeout         = 30 * time.Second // below the usual receiver's, so that we close first
	responseHeaderBytes = 64 << 10
	hostConnsDefault    = 4
)

// ErrForbidden says that a URL resolved to an address that is not public. It does not name the address: that
// would tell a stranger about our network.
var ErrForbidden = errors.New("the host leads to an address that is not public")

// ErrTooLarge says that an answer has more bytes than its reader takes.
var ErrTooLarge = errors.New("the answer is too large")

// StatusError is an answer with another status than 200. A redirect is one: it is not followed.
type StatusError struct{ Status int }

// Error names the status.
func (e *StatusError) Error() string { return fmt.Sprintf("the answer has the status %d", e.Status) }

// specialAddresses refuses the addresses of the registries of special-purpose addresses: private,
// loopback, link-local with the metadata services, shared, documentation, multicast, and those that
// embed another address (IPv4-mapped, NAT64, 6to4, Teredo). Two kinds are in no registry and are
// added here: public addresses that a cloud answers only inside its own networks, and a block that
// was returned and is in use on private networks.
var specialAddresses = ssrf.New(ssrf.WithAnyPort(),
	ssrf.WithDeniedV4Prefixes(
		netip.MustParsePrefix("168.63.129.16/32"), // Azure: agents, DNS, health
		netip.MustParsePrefix("161.26.0.0/16"),    // IBM Cloud: services of its infrastructure
		netip.MustParsePrefix("166.8.0.0/14"),     // IBM Cloud: service endpoints
	),
	ssrf.WithDeniedV6Prefixes(netip.MustParsePrefix("3ffe::/16")), // 6bone, returned (RFC 3701)
)

// CheckPublic refuses every address that is not on the public internet.
func CheckPublic(ip netip.Addr) error {
	if specialAddresses.SafeAddr(ip) != nil {
		return ErrForbidden
	}
	// ISATAP (RFC 5214): an interface identifier of 0000:5efe, without its global and group bits,
	// and the IPv4 address to which a router of this network would tunnel.
	if b := ip.As16(); ip.Is6() && b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe &&
		specialAddresses.SafeAddr(netip.AddrFrom4([4]byte(b[12:]))) != nil {
		return ErrForbidden
	}
	return nil
}

// IsLoopbackName reports whether the host of a URL is this machine, by its text alone.
func IsLoopbackName(host string) bool {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.Unmap().IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// ControlPublic checks each address that is about to be dialled, after its name was resolved.
// Earlier or later results of resolving the name therefore do not matter. Rules EVT-6 and PROD-7.
func ControlPublic(network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return ErrForbidden
	}
	return CheckPublic(target.Addr())
}

// ControlLoopback is for http in development mode: it allows only this machine.
func ControlLoopback(network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !target.Addr().Unmap().IsLoopback() {
		return ErrForbidden
	}
	return nil
}

// Config configures a Transport. The zero value reaches the public internet by https.
type Config struct {
	// Development adds http to this machine's loopback addresses.
	Development bool
	Resolver    *net.Resolver // nil: the system's
	// HostConns is how many idle connections to one host stay open; 0 means 4.
	HostConns int
}

// Transport connects only to addresses that it may reach. Https reaches the public internet. Http
// reaches loopback in development mode and nothing otherwise. Rule EVT-6.
type Transport struct {
	HTTPS *http.Transport
	HTTP  *http.Transport // nil without development mode
}

// New returns a transport.
func New(conf Config) *Transport {
	if conf.HostConns == 0 {
		conf.HostConns = hostConnsDefault
	}
	t := &Transport{HTTPS: NewGuarded(ControlPublic, conf)}
	if conf.Development {
		t.HTTP = NewGuarded(ControlLoopback, conf)
	}
	return t
}

// NewGuarded returns a transport of net/http that asks control about each address that it dials.
func NewGuarded(control func(string, string, syscall.RawConn) error, conf Config) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: control, Resolver: conf.Resolver}
	return &http.Transport{
		Proxy:                  nil, // A proxy would dial for us, past the guard.
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           2 * conf.HostConns,
		MaxIdleConnsPerHost:    conf.HostConns,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: responseHeaderBytes,
		// Only a bounded part of an answer is read; nothing should be decompressed.
		DisableCompression: true,
	}
}

// RoundTrip makes Transport an http.RoundTripper.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme == "https":
		return t.HTTPS.RoundTrip(r)
	case r.URL.Scheme == "http" && t.HTTP != nil:
		return t.HTTP.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, fmt.Errorf("%w: the scheme is %q", ErrForbidden, r.URL.Scheme)
}

// CloseIdle closes the connections that no request uses.
func (t *Transport) CloseIdle() {
	t.HTTPS.CloseIdleConnections()
	if t.HTTP != nil {
		t.HTTP.CloseIdleConnections()
	}
}

// NewClient returns a client that does not follow redirects: a 3xx is an answer like any other, and
// a failure. Rule EVT-5.
func (t *Transport) NewClient() *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Get reads the whole answer of a URL. Errors: ErrForbidden, ErrTooLarge, *StatusError; every other error is of the
// network. Rule PROD-7.
func (t *Transport) Get(ctx context.Context, url, accept string, bytesMax int64) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: the URL cannot be read", ErrForbidden)
	}
	r.Header.Set("Accept", accept)
	r.Header.Set("User-Agent", "Coffer/1")
	answer, err := t.NewClient().Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, &StatusError{answer.StatusCode}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, bytesMax+1))
	switch {
	case err != nil:
		return nil, err
	case int64(len(body)) > bytesMax:
		return nil, ErrTooLarge
	}
	return body, nil
}
