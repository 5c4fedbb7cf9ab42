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

// IsTrusted tells whether an address is a proxy's.
func (p Proxies) IsTrusted(addr netip.Addr) bool {
	return slices.ContainsFunc(p, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// clientAddr is the address that a request came from: the peer's, or, as long as who
// said so is a proxy of ours, the one that it names. What stands left of the first
// address that is not a proxy's was written by a stranger and is not read. It is
// the zero Addr when a proxy names something that is no address, or too many.
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

// parseHop reads an address as a socket or a proxy writes it, with a port or without.
// An IPv4 address in an IPv6 one is what it is; a zone means nothing beyond one
// machine.
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

// clientAddr is the address that a request came from.
func (a *api) clientAddr(r *http.Request) netip.Addr {
	return a.conf.Proxies.clientAddr(r.RemoteAddr, r.Header["X-Forwarded-For"])
}

// ipv6NetworkBits of an IPv6 address are one customer of a provider, who has all
// that follow them.
const ipv6NetworkBits = 64

// rateKey names who is counted together: an IPv4 address, the network of an
// IPv6 address, or the peer when the address is not known.
func (a *api) rateKey(r *http.Request) string {
	addr := a.clientAddr(r)
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
