package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedHopsMax is how many hops of X-Forwarded-For are looked through.
const forwardedHopsMax = 32

// Proxies are the networks of the proxies before this service, whose word about
// their callers is believed. Nobody else's is.
type Proxies []netip.Prefix

// Trusted tells whether an address is a proxy's.
func (p Proxies) Trusted(a netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(a) })
}

// client is the address that a request came from: the peer's, or, as long as who
// said so is a proxy of ours, the one that it names. What stands left of the first
// address that is not a proxy's was written by a stranger and is not read. It is
// the zero Addr when a proxy names something that is no address, or too many.
func (p Proxies) client(peer string, forwarded []string) netip.Addr {
	at := hop(peer)
	if !at.IsValid() || !p.Trusted(at) {
		return at
	}
	rest, more := strings.Join(forwarded, ","), len(forwarded) > 0
	for range forwardedHopsMax {
		if !more {
			return at
		}
		var last string
		if i := strings.LastIndexByte(rest, ','); i >= 0 {
			rest, last = rest[:i], rest[i+1:]
		} else {
			rest, last, more = "", rest, false
		}
		if at = hop(strings.Trim(last, " \t")); !at.IsValid() || !p.Trusted(at) {
			return at
		}
	}
	return netip.Addr{}
}

// hop reads an address as a socket or a proxy writes it, with a port or without.
// An IPv4 address in an IPv6 one is what it is; a zone means nothing beyond one
// machine.
func hop(text string) netip.Addr {
	if host, port, err := net.SplitHostPort(text); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
		text = host
	} else if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		text = strings.TrimSuffix(inner, "]")
	}
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" {
		return netip.Addr{}
	}
	return a.Unmap()
}

// from is the address that a request came from.
func (a *api) from(r *http.Request) netip.Addr {
	return a.conf.Proxies.client(r.RemoteAddr, r.Header["X-Forwarded-For"])
}

// neighborhoodBits of an IPv6 address are one customer of a provider, who has all
// that follow them.
const neighborhoodBits = 64

// neighborhood names who is counted together: an IPv4 address, the network of an
// IPv6 address, or the peer when the address is not known.
func (a *api) neighborhood(r *http.Request) string {
	at := a.from(r)
	if !at.IsValid() {
		at = hop(r.RemoteAddr)
	}
	if !at.IsValid() {
		return r.RemoteAddr
	}
	if at.Is6() {
		return netip.PrefixFrom(at, neighborhoodBits).Masked().String()
	}
	return at.String()
}
