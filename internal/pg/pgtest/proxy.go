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
)

// What a Proxy takes away of a COMMIT. The caller cannot tell one from the other.
const (
	CommitPasses int32 = iota
	CommitLost         // the connection ends before the server has the COMMIT
	AnswerLost         // the connection ends after the server has answered it
	CommitHeld         // the connection ends, and the server has the COMMIT when the test calls Up; with Lose alone
	AnswerHeard        // the client has the answer, and loses nothing; for what Down does afterwards
)

// Commits are the two ways in which the outcome of a COMMIT is unknown, by name.
var Commits = map[string]int32{"COMMIT lost on the way there": CommitLost, "answer lost on the way back": AnswerLost}

// Proxy stands between a test and PostgreSQL and misbehaves on demand.
type Proxy struct {
	AtCommit atomic.Int32 // what becomes of every COMMIT: CommitPasses, CommitLost or AnswerLost
	// FakePID answers every login with a process id that is not the backend's, as
	// pooling proxies do.
	FakePID bool

	target string
	conns  sync.WaitGroup

	mu   sync.Mutex
	loss Loss // still to come
	lost bool
	down bool
	open map[*pair]bool
	held *held
}

// Loss is one COMMIT whose outcome the client never hears, or after which it hears no more.
type Loss struct {
	At   int32 // CommitLost, AnswerLost, CommitHeld or AnswerHeard
	Nth  int   // how many COMMITs it takes: 1 loses the next one
	Down bool  // from then on the server cannot be reached, until Up
}

// pair is a client's connection and the one to the server that belongs to it.
type pair struct{ client, server net.Conn }

func (c *pair) close() { c.client.Close(); c.server.Close() }

// held is a COMMIT that the server does not have yet.
type held struct{ pass, answered chan struct{} }

// Lose lets one COMMIT come to nothing that the client hears of.
func (p *Proxy) Lose(l Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.loss, p.lost = l, false
}

// Lost tells whether the Loss of the last Lose has happened.
func (p *Proxy) Lost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// Up ends what Lose began: the server can be reached, has a COMMIT that was held, and has
// answered it.
func (p *Proxy) Up() {
	p.mu.Lock()
	h := p.held
	p.loss, p.down, p.held = Loss{}, false, nil
	p.mu.Unlock()
	if h != nil {
		close(h.pass)
		<-h.answered
	}
}

// lose decides about a COMMIT.
func (p *Proxy) lose() (l Loss) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loss.Nth--; p.loss.Nth == 0 {
		l, p.lost = p.loss, true
	}
	return l
}

// fall ends every connection but that of c, and lets no other begin.
func (p *Proxy) fall(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for other := range p.open {
		if other != c {
			other.close()
		}
	}
}

// Start starts the proxy in front of the server of databaseURL and returns the URL that
// leads through it.
func (p *Proxy) Start(t testing.TB, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p.target, p.open = u.Host, map[*pair]bool{}
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
			p.conns.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() { l.Close(); p.Up(); p.conns.Wait() })
	u.Host = l.Addr().String()
	return u.String()
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp4", p.target)
	if err != nil {
		client.Close()
		return
	}
	c := &pair{client, server}
	p.mu.Lock()
	down := p.down
	p.open[c] = !down
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.open, c)
	}()
	if down {
		c.close()
		return
	}
	var cut, falls, last atomic.Bool
	answered := make(chan struct{}) // the server has said something after cut, or is gone
	var pipes sync.WaitGroup
	pipes.Go(func() { // client to server
		defer c.close()
		p.copy(server, client, func(chunk []byte) bool {
			if last.Load() {
				return false
			}
			if !bytes.Contains(chunk, []byte("commit\x00")) || bytes.Contains(chunk, []byte("commit\x00commit\x00")) { // it is only prepared
				return true
			}
			l := Loss{At: p.AtCommit.Load()}
			if l.At == CommitPasses {
				l = p.lose()
			}
			switch l.At {
			case CommitLost:
				cut.Store(true)
				if l.Down {
					p.fall(c)
				}
				return false
			case AnswerLost:
				falls.Store(l.Down)
				cut.Store(true)
			case AnswerHeard:
				falls.Store(l.Down)
				last.Store(l.Down)
			case CommitHeld:
				h := &held{make(chan struct{}), make(chan struct{})}
				defer close(h.answered)
				p.mu.Lock()
				p.held = h
				p.mu.Unlock()
				cut.Store(true)
				if l.Down {
					p.fall(c)
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
		defer c.close()
		defer close(answered)
		p.copy(client, server, func(chunk []byte) bool {
			if falls.Load() {
				p.fall(c)
			}
			if cut.Load() {
				return false
			}
			if at := bytes.Index(chunk, []byte{'K', 0, 0, 0, 12}); p.FakePID && at >= 0 {
				binary.BigEndian.PutUint32(chunk[at+5:], 4242)
			}
			return true
		})
	})
	pipes.Wait()
}

func (p *Proxy) copy(to io.Writer, from io.Reader, pass func([]byte) bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			if !pass(buffer[:n]) {
				return
			}
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
