package pg_test

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

// A proxy stands between a test and PostgreSQL and misbehaves on demand.
type proxy struct {
	// cutAtCommit closes the connection when a COMMIT passes: 'b' before the server has
	// it, 'a' after the server has answered it.
	cutAtCommit atomic.Int32
	// fakePID answers every login with a process id that is not the backend's, as
	// pooling proxies do.
	fakePID bool

	target string
	conns  sync.WaitGroup
}

// throughProxy starts a proxy in front of the server of databaseURL and returns the URL
// that leads through it.
func throughProxy(t *testing.T, databaseURL string, p *proxy) string {
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

func (p *proxy) serve(client net.Conn) {
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
			if mode := p.cutAtCommit.Load(); mode != 0 && bytes.Contains(chunk, []byte("commit\x00")) {
				cut.Store(true)
				return mode == 'a'
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
			if at := bytes.Index(chunk, []byte{'K', 0, 0, 0, 12}); p.fakePID && at >= 0 {
				binary.BigEndian.PutUint32(chunk[at+5:], 4242)
			}
			return true
		})
	})
	pipes.Wait()
}

func (p *proxy) copy(to io.Writer, from io.Reader, pass func([]byte) bool) {
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
