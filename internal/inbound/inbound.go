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

// tellEvery is how often the log hears of connections that were turned away.
const tellEvery = time.Minute

// Listen guards the connections that l accepts. Connections beyond the limits are closed
// at once; the log says so once a minute.
func Listen(l net.Listener, limits Limits, log *slog.Logger) net.Listener {
	return &listener{Listener: l, limits: limits, log: log, by: map[netip.Prefix]int{}}
}

type listener struct {
	net.Listener
	limits Limits
	log    *slog.Logger

	mu   sync.Mutex
	open int
	by   map[netip.Prefix]int
	told time.Time // when the log last heard of a connection that was turned away
}

// Accept waits for the next connection that is within the limits.
func (l *listener) Accept() (net.Conn, error) {
	for {
		inner, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := neighborhood(inner.RemoteAddr())
		if !l.enter(from) {
			_ = inner.Close()
			continue
		}
		return &conn{Conn: inner, limits: l.limits, budget: l.limits.BodyWait, leave: sync.OnceFunc(func() { l.exit(from) })}, nil
	}
}

func (l *listener) enter(from netip.Prefix) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	counted := from.IsValid() && (l.limits.Proxy == nil || !l.limits.Proxy(from.Addr()))
	if l.limits.Connections > 0 && l.open >= l.limits.Connections || counted && l.limits.PerAddress > 0 && l.by[from] >= l.limits.PerAddress {
		if now := time.Now(); now.Sub(l.told) > tellEvery {
			l.told = now
			l.log.Warn("connections turned away", "listener", l.Addr().String(), "open", l.open, "from", from.String(), "fromThere", l.by[from])
		}
		return false
	}
	l.open++
	if from.IsValid() {
		l.by[from]++
	}
	return true
}

func (l *listener) exit(from netip.Prefix) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if !from.IsValid() {
		return
	}
	if l.by[from]--; l.by[from] == 0 {
		delete(l.by, from)
	}
}

// neighborhoodBits of an IPv6 address are one customer of a provider.
const neighborhoodBits = 64

func neighborhood(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap().WithZone("")
	bits := ip.BitLen()
	if ip.Is6() && !ip.IsLoopback() {
		bits = neighborhoodBits
	}
	return netip.PrefixFrom(ip, bits).Masked()
}

// conn is a connection whose requests are read along. net/http reads it from one
// goroutine at a time and sets deadlines from others.
type conn struct {
	net.Conn
	limits Limits
	leave  func()

	scan    scanner
	refusal []byte        // what net/http still has to be told
	ended   bool          // nothing more is read
	budget  time.Duration // what is left of BodyWait and of what the body's bytes earned

	mu       sync.Mutex
	deadline time.Time // of net/http
}

// malformed ends a header line and adds one without a colon, which net/http answers with
// 400 and a closed connection, after all answers that are due before it.
const malformed = "\nmalformed\r\n\r\n"

// Read reads what net/http may see.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if len(c.refusal) > 0 {
			n := copy(p, c.refusal)
			c.refusal = c.refusal[n:]
			return n, nil
		}
		if c.ended {
			return 0, io.EOF
		}
		n, err := c.receive(p)
		good, verdict := c.scan.feed(p[:n])
		if verdict == sound {
			return n, err
		}
		c.ended = true
		if verdict == refused {
			c.refusal = []byte(malformed)
		}
		if good > 0 {
			return good, nil
		}
	}
}

// receive reads with the deadline of net/http and, while a body is awaited, with that of
// the body. Only waiting counts against the body: the bytes of a caller who sent them lie
// here for as long as the service has other things to do.
func (c *conn) receive(p []byte) (int, error) {
	if !c.scan.inBody() || c.limits.BodyWait == 0 {
		c.budget = c.limits.BodyWait
		return c.Conn.Read(p)
	}
	if c.budget <= 0 {
		return 0, os.ErrDeadlineExceeded
	}
	began := time.Now()
	if err := c.until(began.Add(c.budget)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.budget -= time.Since(began)
	if c.limits.BodyRate > 0 {
		c.budget += time.Duration(n) * time.Second / time.Duration(c.limits.BodyRate)
	}
	if err == nil {
		err = c.until(time.Time{})
	}
	return n, err
}

// until sets a deadline for reading beside that of net/http, of which the earlier counts.
func (c *conn) until(own time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if own.IsZero() || !c.deadline.IsZero() && c.deadline.Before(own) {
		own = c.deadline
	}
	return c.Conn.SetReadDeadline(own)
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
	c.leave()
	return c.Conn.Close()
}
