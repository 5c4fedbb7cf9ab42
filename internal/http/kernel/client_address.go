package kernel

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forwardedHopsMax bounds the hops of X-Forwarded-For that are read.
const forwardedHopsMax = 32

// Proxies are the networks of the proxies before this service. Only their statements about callers
// are trusted.
type Proxies []netip.Prefix

// IsTrusted reports whether an address is a proxy's.
func (p Proxies) IsTrusted(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// clientAddr returns the address from which a request came. That is the peer's address; while an
// address is a trusted proxy's, it is the address that this proxy names. Entries left of the first
// address that is not a proxy's were written by an untrusted party and are not read. It returns the
// zero Addr if a proxy names an invalid address, or too many. Rule AUTH-4.
func (p Proxies) clientAddr(peer string, forwarded []string) netip.Addr {
	addr := parseHop(peer)
	if !addr.IsValid() || !p.IsTrusted(addr) {
		return addr
	}
	remaining, hasMore := strings.Join(forwarded, ","), len(forwarded) > 0
	for range forwardedHopsMax {
		if !hasMore {
			return addr
		}
		var hopText string
		if i := strings.LastIndexByte(remaining, ','); i >= 0 {
			remaining, hopText = remaining[:i], remaining[i+1:]
		} else {
			remaining, hopText, hasMore = "", remaining, false
		}
		if addr = parseHop(strings.Trim(hopText, " \t")); !addr.IsValid() || !p.IsTrusted(addr) {
			return addr
		}
	}
	return netip.Addr{}
}

// parseHop reads an address as a socket or a proxy writes it, with or without a port. It converts
// an IPv4-mapped IPv6 address to IPv4, and refuses a zone, which means nothing beyond one machine.
func parseHop(text string) netip.Addr {
	if host, port, err := net.SplitHostPort(text); err == nil && port != "" && strings.Trim(port, "0123456789") == "" {
		text = host
	} else if inner, ok := strings.CutPrefix(text, "["); ok && strings.HasSuffix(inner, "]") {
		text = strings.TrimSuffix(inner, "]")
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}
	}
	return addr.Unmap()
}

// ClientAddr returns the address from which a request came.
func (p Proxies) ClientAddr(r *http.Request) netip.Addr {
	return p.clientAddr(r.RemoteAddr, r.Header["X-Forwarded-For"])
}

// ipv6NetworkBits is the length of the network that a provider gives to one customer, who has all
// addresses in it.
const ipv6NetworkBits = 64

// RateKey returns the key under which requests are counted together: an IPv4 address, the network
// of an IPv6 address, or the peer if the address is unknown. Rule LIM-2.
func (p Proxies) RateKey(r *http.Request) string {
	addr := p.ClientAddr(r)
	if !addr.IsValid() {
		addr = parseHop(r.RemoteAddr)
	}
	if !addr.IsValid() {
		return r.RemoteAddr
	}
	if addr.Is6() {
		return netip.PrefixFrom(addr, ipv6NetworkBits).Masked().String()
	}
	return addr.String()
}
