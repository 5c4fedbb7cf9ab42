// Package inbound guards the connections of the HTTP listeners below net/http. It bounds their
// number, checks that each request has one length, and bounds the wait for its body.
//
// If a request has both Content-Length and Transfer-Encoding, net/http drops the former. It also
// accepts repeated equal lengths as one. It tells its handlers neither. A proxy that decides
// differently sees other requests on the connection than this service does. This package refuses
// such requests.
//
// The package never answers. For a refused request it passes a malformed header line to net/http,
// so that net/http answers 400 in its turn and closes the connection. A crash leaves nothing.
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

// Limits bounds what one listener accepts. A zero field sets no bound.
type Limits struct {
	Connections int // open at the same time
	PerAddress  int // open at the same time by one IPv4 address or one /64 of IPv6
	// Proxy reports whether an address has callers behind it. Such an address is not limited by
	// PerAddress.
	Proxy func(netip.Addr) bool
	// BodyWait is how long a body may be waited for in total, in addition to the time that its
	// bytes take at BodyRate, in bytes per second.
	BodyWait time.Duration
	BodyRate int
}

// logInterval is the minimum time between two log entries about refused connections.
const logInterval = time.Minute

// GuardListener returns a listener that guards the connections that l accepts. It closes
// connections beyond the limits at once and logs that at most once a minute.
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
	loggedAt time.Time // when a refused connection was last logged
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
		return &conn{
			Conn: inner, limits: l.limits, budget: l.limits.BodyWait,
			release: sync.OnceFunc(func() { l.releaseConn(prefix) }),
		}, nil
	}
}

// Rule REQ-9.
func (l *listener) admitConn(addr netip.Addr, prefix netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	isCounted := prefix.IsValid() && (l.limits.Proxy == nil || !l.limits.Proxy(addr))
	if l.limits.Connections > 0 && l.open >= l.limits.Connections ||
		isCounted && l.limits.PerAddress > 0 && l.byPrefix[prefix] >= l.limits.PerAddress {
		if now := time.Now(); now.Sub(l.loggedAt) > logInterval {
			l.loggedAt = now
			l.log.Warn(
				"connections refused", "listener", l.Addr().String(), "open", l.open, "from", prefix.String(),
				"fromThere", l.byPrefix[prefix],
			)
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

// prefixBitsIPv6 is the length of the IPv6 prefix that a provider gives one customer.
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

// remoteAddr returns the remote IP address, or the zero Addr if there is none.
func remoteAddr(a net.Addr) netip.Addr {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return tcp.AddrPort().Addr().Unmap().WithZone("")
}

// conn is a connection whose requests are scanned while net/http reads them. net/http reads it from
// one goroutine at a time and sets deadlines from others.
type conn struct {
	net.Conn
	limits  Limits
	release func()

	scan    scanner
	refusal []byte        // bytes that net/http still has to read
	isEnded bool          // nothing more is read
	budget  time.Duration // the rest of BodyWait, plus the time that the body's bytes earned

	mu       sync.Mutex
	deadline time.Time // set by net/http
}

// malformedHeader ends a header line and adds one without a colon. net/http answers that with 400
// and closes the connection, after all answers that are due before it.
const malformedHeader = "\nmalformed\r\n\r\n"

// Read reads the bytes that net/http may see.
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

// readBounded reads with the deadline of net/http and, during a body, also with the deadline of the
// body. Only time spent waiting counts against the body. Bytes that the caller has sent already may
// lie in the buffer while the service does other work. Rule REQ-9.
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

// setReadLimit sets a read deadline in addition to that of net/http. The earlier one applies.
func (c *conn) setReadLimit(limit time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if limit.IsZero() || !c.deadline.IsZero() && c.deadline.Before(limit) {
		limit = c.deadline
	}
	return c.Conn.SetReadDeadline(limit)
}

// SetReadDeadline sets the read deadline of net/http.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline sets the read and the write deadline.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// CloseWrite closes the writing side, so that net/http can signal the end of the answer before it
// closes.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Close closes the connection and stops counting it.
func (c *conn) Close() error {
	c.release()
	return c.Conn.Close()
}
