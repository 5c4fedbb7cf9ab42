// Package inbound guards the connections of the HTTP listeners below net/http: how many
// there are, that a request has one length, and that its body arrives.
//
// net/http drops a Content-Length that stands beside a Transfer-Encoding and takes equal
// lengths for one, without a word to its handlers. A proxy that decides otherwise sees
// other requests on the connection than this service does. Such requests are refused here.
//
// What never happens here: an answer. A request that is refused reaches net/http with a
// header line that is none, so that net/http answers 400 in its turn and closes. What a
// crash leaves: nothing.
package inbound

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"
)

// Limits bound what one listener takes. A zero member sets no bound.
type Limits struct {
	Connections int // open at once
	PerAddress  int // of them by one IPv4 address or one /64 of IPv6
	// Proxy tells which addresses have callers behind them and are not counted by address.
	Proxy func(netip.Addr) bool
	// BodyWait is how long a body may be waited for in all, beyond what its bytes take at
	// BodyRate, in bytes a second.
	BodyWait time.Duration
	BodyRate int
}

// logInterval is how often the log hears of connections that were turned away.
const logInterval = time.Minute

// GuardListener guards the connections that l accepts. Connections beyond the limits are closed
// at once; the log says so once a minute.
func GuardListener(l net.Listener, limits Limits, log *slog.Logger) net.Listener {
	return &listener{Listener: l, limits: limits, log: log, byPrefix: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	limits Limits
	log    *slog.Logger

	mu       sync.Mutex
	open     int
	byPrefix map[netip.Prefix]int
	loggedAt time.Time // when the log last heard of a connection that was turned away
}

// Accept waits for the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		addr := remoteAddr(inner.RemoteAddr())
		prefix := addressPrefix(addr)
		if !l.admitConn(addr, prefix) {
			_ = inner.Close()
			continue
		}
		return &conn{Conn: inner, limits: l.limits, budget: l.limits.BodyWait, release: sync.OnceFunc(func() { l.releaseConn(prefix) })}, nil
	}
}

func (l *listener) admitConn(addr netip.Addr, prefix netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	isCounted := prefix.IsValid() && (l.limits.Proxy == nil || !l.limits.Proxy(addr))
	if l.limits.Connections > 0 && l.open >= l.limits.Connections || isCounted && l.limits.PerAddress > 0 && l.byPrefix[prefix] >= l.limits.PerAddress {
		if now := time.Now(); now.Sub(l.loggedAt) > logInterval {
			l.loggedAt = now
			l.log.Warn("connections turned away", "listener", l.Addr().String(), "open", l.open, "from", prefix.String(), "fromThere", l.byPrefix[prefix])
		}
		return false
	}
	l.open++
	if prefix.IsValid() {
		l.byPrefix[prefix]++
	}
	return true
}

func (l *listener) releaseConn(prefix netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !prefix.IsValid() {
		return
	}
	if l.byPrefix[prefix]--; l.byPrefix[prefix] == 0 {
		delete(l.byPrefix, prefix)
	}
}

// prefixBitsIPv6 of an IPv6 address are one customer of a provider.
const prefixBitsIPv6 = 64

func addressPrefix(addr netip.Addr) netip.Prefix {
	if !addr.IsValid() {
		return netip.Prefix{}
	}
	bits := addr.BitLen()
	if addr.Is6() && !addr.IsLoopback() {
		bits = prefixBitsIPv6
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

// remoteAddr is who connects; the zero Addr where that is no address of IP.
func remoteAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// conn is a connection whose requests are read along. net/http reads it from one
// goroutine at a time and sets deadlines from others.
type conn struct {
	net.Conn
	limits  Limits
	release func()

	scan    scanner
	refusal []byte        // what net/http still has to be told
	isEnded bool          // nothing more is read
	budget  time.Duration // what is left of BodyWait and of what the body's bytes earned

	mu       sync.Mutex
	deadline time.Time // of net/http
}

// malformedHeader ends a header line and adds one without a colon, which net/http answers with
// 400 and a closed connection, after all answers that are due before it.
const malformedHeader = "\nmalformed\r\n\r\n"

// Read reads what net/http may see.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if len(c.refusal) > 0 {
			n := copy(p, c.refusal)
			c.refusal = c.refusal[n:]
			return n, nil
		}
		if c.isEnded {
			return 0, io.EOF
		}
		n, err := c.readBounded(p)
		visible, verdict := c.scan.scanBytes(p[:n])
		if verdict == verdictPass {
			return n, err
		}
		c.isEnded = true
		if verdict == verdictRefused {
			c.refusal = []byte(malformedHeader)
		}
		if visible > 0 {
			return visible, nil
		}
	}
}

// readBounded reads with the deadline of net/http and, while a body is awaited, with that of
// the body. Only waiting counts against the body: the bytes of a caller who sent them lie
// here for as long as the service has other things to do.
func (c *conn) readBounded(p []byte) (int, error) {
	if !c.scan.isInBody() || c.limits.BodyWait == 0 {
		c.budget = c.limits.BodyWait
		return c.Conn.Read(p)
	}
	if c.budget <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	began := time.Now()
	if err := c.setReadLimit(began.Add(c.budget)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.budget -= time.Since(began)
	if c.limits.BodyRate > 0 {
		c.budget += time.Duration(n) * time.Second / time.Duration(c.limits.BodyRate)
	}
	if err == nil {
		err = c.setReadLimit(time.Time{})
	}
	return n, err
}

// setReadLimit sets a deadline for reading beside that of net/http, of which the earlier counts.
func (c *conn) setReadLimit(limit time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit.IsZero() || !c.deadline.IsZero() && c.deadline.Before(limit) {
		limit = c.deadline
	}
	return c.Conn.SetReadDeadline(limit)
}

// SetReadDeadline is net/http's.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite lets net/http tell the caller that it is done before it closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection and makes room for another one.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
