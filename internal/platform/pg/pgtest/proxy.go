package pgtest

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What a Proxy does to a COMMIT. The caller cannot tell CommitLost from AnswerLost.
const (
	CommitPasses int32 = iota
	CommitLost         // the connection ends before the server has the COMMIT
	AnswerLost         // the connection ends after the server has answered it
	// The connection ends, and the server gets the COMMIT when the test calls Restore; only with
	// LoseNext.
	CommitHeld
	// The client gets the answer and loses nothing; for the effect of KeepDown afterwards.
	AnswerHeard
)

// CommitLosses maps names to the two ways in which the outcome of a COMMIT is unknown.
var CommitLosses = map[string]int32{
	"COMMIT lost on the way there": CommitLost, "answer lost on the way back": AnswerLost,
}

// Proxy stands between a test and PostgreSQL and misbehaves on demand.
type Proxy struct {
	CommitAction atomic.Int32 // what happens to every COMMIT: CommitPasses, CommitLost or AnswerLost
	// FakePID makes the proxy answer every login with a process id that is not the backend's, as
	// pooling proxies do.
	FakePID bool

	databaseURL string
	conns       sync.WaitGroup

	mu     sync.Mutex
	loss   Loss // still to come
	lost   bool
	isDown bool
	open   map[*connPair]bool
	held   *heldCommit
}

// Loss is one COMMIT whose outcome the client never learns, or after which it reaches the server no
// more.
type Loss struct {
	Action   int32 // CommitLost, AnswerLost, CommitHeld or AnswerHeard
	Nth      int   // counts COMMITs: 1 loses the next one
	KeepDown bool  // from then on the server cannot be reached, until Restore
}

// connPair is a client's connection and the one to the server that belongs to it.
type connPair struct{ client, server net.Conn }

func (c *connPair) closeBoth() { c.client.Close(); c.server.Close() }

// heldCommit is a COMMIT that the server does not have yet.
type heldCommit struct{ pass, answered chan struct{} }

// LoseNext arms the loss of one COMMIT.
func (p *Proxy) LoseNext(l Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss, p.lost = l, false
}

// HasLost reports whether the Loss of the last LoseNext has happened.
func (p *Proxy) HasLost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Restore ends a Loss. Afterwards the server can be reached, has a COMMIT that was held, and has
// answered it.
func (p *Proxy) Restore() {
	p.mu.Lock()
	h := p.held
	p.loss, p.isDown, p.held = Loss{}, false, nil
	p.mu.Unlock()
	if h != nil {
		close(h.pass)
		<-h.answered
	}
}

// nextLoss returns the Loss that applies to this COMMIT, or the zero Loss.
func (p *Proxy) nextLoss() (l Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss.Nth--; p.loss.Nth == 0 {
		l, p.lost = p.loss, true
	}
	return l
}

// dropOthers ends every connection but c and refuses new ones.
func (p *Proxy) dropOthers(c *connPair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isDown = true
	for candidate := range p.open {
		if candidate != c {
			candidate.closeBoth()
		}
	}
}

// Start starts the proxy in front of the server of databaseURL and returns the URL that
// leads through it.
func (p *Proxy) Start(t testing.TB, databaseURL string) string {
	t.Helper()
	p.databaseURL, p.open = databaseURL, map[*connPair]bool{}
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.conns.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.conns.Go(func() { p.serveClient(client) })
		}
	})
	t.Cleanup(func() { l.Close(); p.Restore(); p.conns.Wait() })
	proxyURL, err := ThroughProxy(databaseURL, l.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return proxyURL
}

// ThroughProxy returns a database URL that leads through a proxy which listens at an address.
func ThroughProxy(databaseURL string, proxy net.Addr) (string, error) {
	u, err := url.Parse(databaseURL)
	if err != nil {
		return "", err
	}
	u.Host = proxy.String()
	settings := u.Query()
	settings.Del("host") // a socket's folder, which would win
	settings.Del("port")
	settings.Set("sslmode", "disable")
	u.RawQuery = settings.Encode()
	return u.String(), nil
}

// DialServer connects to the server of a database URL, for a proxy in front of it.
func DialServer(databaseURL string) (net.Conn, error) {
	conf, err := pgconn.ParseConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	network, address := pgconn.NetworkAddress(conf.Host, conf.Port)
	return net.Dial(network, address)
}

func (p *Proxy) serveClient(client net.Conn) {
	server, err := DialServer(p.databaseURL)
	if err != nil {
		client.Close()
		return
	}
	c := &connPair{client, server}
	p.mu.Lock()
	refused := p.isDown
	p.open[c] = !refused
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
	}()
	if refused {
		c.closeBoth()
		return
	}
	var cut, falls, last atomic.Bool
	answered := make(chan struct{}) // the server has said something after cut, or is gone
	var pipes sync.WaitGroup
	pipes.Go(func() { // client to server
		defer c.closeBoth()
		p.relayBytes(server, client, func(chunk []byte) bool {
			if last.Load() {
				return false
			}
			// A statement is only prepared if a name and its zero byte precede the text. How often that
			// happens depends on how many connections are opened.
			if !bytes.Contains(chunk, []byte("commit\x00")) || bytes.Contains(chunk, []byte("\x00commit\x00")) {
				return true
			}
			l := Loss{Action: p.CommitAction.Load()}
			if l.Action == CommitPasses {
				l = p.nextLoss()
			}
			switch l.Action {
			case CommitLost:
				cut.Store(true)
				if l.KeepDown {
					p.dropOthers(c)
				}
				return false
			case AnswerLost:
				falls.Store(l.KeepDown)
				cut.Store(true)
			case AnswerHeard:
				falls.Store(l.KeepDown)
				last.Store(l.KeepDown)
			case CommitHeld:
				h := &heldCommit{make(chan struct{}), make(chan struct{})}
				defer close(h.answered)
				p.mu.Lock()
				p.held = h
				p.mu.Unlock()
				cut.Store(true)
				if l.KeepDown {
					p.dropOthers(c)
				}
				client.Close()
				<-h.pass
				_, _ = server.Write(chunk)
				<-answered
				return false
			}
			return true
		})
	})
	pipes.Go(func() { // server to client
		defer c.closeBoth()
		defer close(answered)
		p.relayBytes(client, server, func(chunk []byte) bool {
			if falls.Load() {
				p.dropOthers(c)
			}
			if cut.Load() {
				return false
			}
			if index := bytes.Index(chunk, []byte{'K', 0, 0, 0, 12}); p.FakePID && index >= 0 {
				binary.BigEndian.PutUint32(chunk[index+5:], 4242)
			}
			return true
		})
	})
	pipes.Wait()
}

func (p *Proxy) relayBytes(dst io.Writer, src io.Reader, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			if !pass(buffer[:n]) {
				return
			}
			if _, err := dst.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
