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
)

// Commits are the two ways in which the outcome of a COMMIT is unknown, by name.
var Commits = map[string]int32{"COMMIT lost on the way there": CommitLost, "answer lost on the way back": AnswerLost}

// Proxy stands between a test and PostgreSQL and misbehaves on demand.
type Proxy struct {
	AtCommit atomic.Int32 // CommitPasses, CommitLost or AnswerLost
	// FakePID answers every login with a process id that is not the backend's, as
	// pooling proxies do.
	FakePID bool

	target string
	conns  sync.WaitGroup
}

// Start starts the proxy in front of the server of databaseURL and returns the URL that
// leads through it.
func (p *Proxy) Start(t testing.TB, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	p.target = u.Host
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
	t.Cleanup(func() { l.Close(); p.conns.Wait() })
	u.Host = l.Addr().String()
	return u.String()
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp4", p.target)
	if err != nil {
		client.Close()
		return
	}
	both := func() { client.Close(); server.Close() }
	var cut atomic.Bool
	var pipes sync.WaitGroup
	pipes.Go(func() { // client to server
		defer both()
		p.copy(server, client, func(chunk []byte) bool {
			if lost := p.AtCommit.Load(); lost != CommitPasses && bytes.Contains(chunk, []byte("commit\x00")) {
				cut.Store(true)
				return lost == AnswerLost
			}
			return true
		})
	})
	pipes.Go(func() { // server to client
		defer both()
		p.copy(client, server, func(chunk []byte) bool {
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
