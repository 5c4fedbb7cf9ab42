package delivery

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

const (
	dialTimeout         = 10 * time.Second
	idleTimeout         = 30 * time.Second // below the usual receiver's, so that we close first
	responseHeaderBytes = 64 << 10
)

// errForbidden says that an endpoint resolved to an address that is not public. It does not name
// the address: that would tell an organization about our network.
var errForbidden = errors.New("the endpoint leads to an address that is not public")

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

// checkPublic refuses every address that is not on the public internet.
func checkPublic(ip netip.Addr) error {
	if specialAddresses.SafeAddr(ip) != nil {
		return errForbidden
	}
	// ISATAP (RFC 5214): an interface identifier of 0000:5efe, without its global and group bits,
	// and the IPv4 address to which a router of this network would tunnel.
	if b := ip.As16(); ip.Is6() && b[8]&^3 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe &&
		specialAddresses.SafeAddr(netip.AddrFrom4([4]byte(b[12:]))) != nil {
		return errForbidden
	}
	return nil
}

// controlPublic checks each address that is about to be dialled, after its name was resolved.
// Earlier or later results of resolving the name therefore do not matter. Rule EVT-6.
func controlPublic(network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return errForbidden
	}
	return checkPublic(target.Addr())
}

// controlLoopback is for http in development mode: it allows only this machine.
func controlLoopback(network, address string, _ syscall.RawConn) error {
	target, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" || !target.Addr().Unmap().IsLoopback() {
		return errForbidden
	}
	return nil
}

// transport posts only to addresses that it may reach. Https reaches the public internet. Http
// reaches loopback in development mode and nothing otherwise. Rule EVT-6.
type transport struct{ https, http *http.Transport }

func newTransport(development bool, resolver *net.Resolver) *transport {
	t := &transport{https: newGuardedTransport(controlPublic, resolver)}
	if development {
		t.http = newGuardedTransport(controlLoopback, resolver)
	}
	return t
}

func newGuardedTransport(control func(string, string, syscall.RawConn) error, resolver *net.Resolver) *http.Transport {
	dialer := &net.Dialer{Timeout: dialTimeout, Control: control, Resolver: resolver}
	return &http.Transport{
		Proxy:                  nil, // A proxy would dial for us, past the guard.
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConns:           2 * inFlightMax,
		MaxIdleConnsPerHost:    inFlightMax, // several endpoints may share a host
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: responseHeaderBytes,
		// Only the beginning of an answer is read; nothing should be decompressed.
		DisableCompression: true,
	}
}

// RoundTrip makes transport an http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.URL.Scheme == "https":
		return t.https.RoundTrip(r)
	case r.URL.Scheme == "http" && t.http != nil:
		return t.http.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, fmt.Errorf("%w: the scheme is %q", errForbidden, r.URL.Scheme)
}

func (t *transport) closeIdle() {
	t.https.CloseIdleConnections()
	if t.http != nil {
		t.http.CloseIdleConnections()
	}
}

// newClient returns a client that does not follow redirects: a 3xx is an answer like any other, and
// a failure. Rule EVT-5.
func (t *transport) newClient() *http.Client {
	return &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// describeError returns the reason why there was no answer, as one word and as a short text. It
// names no address.
func describeError(err error) (cause, text string) {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.Is(err, errForbidden):
		return "forbidden", errForbidden.Error()
	case errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout():
		return "timeout", fmt.Sprintf("no answer within %v", answerTimeout)
	case errors.As(err, &dns):
		return "name", "the host name could not be resolved"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused", "the connection was refused"
	case errors.Is(err, syscall.ECONNRESET):
		return "reset", "the connection was reset"
	}
	return "other", "the request could not be completed: " + innermostText(err)
}

// innermostText returns the innermost error's text, truncated. The outer errors repeat the URL.
func innermostText(err error) string {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			break
		}
		err = inner
	}
	return truncateText([]byte(err.Error()), errorBytesMax)
}
