//go:build unix

package pg_test

import (
	"net"
	"testing"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The driver reads in the background after a slow write. A look at the connection waits for no such read.
func TestALookAtAConnectionWaitsForNoReader(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if !pg.IsQuiet(client) {
		t.Error("got no quiet connection, want a new one to be quiet")
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = client.Read(make([]byte, 1))
	}()
	looked := make(chan bool)
	for range 20 { // the reader begins at some time
		go func() { looked <- pg.IsQuiet(client) }()
		if !<-looked {
			t.Fatal("got no quiet connection beside a reader, want it quiet")
		}
	}
	if _, err := server.Write([]byte("xx")); err != nil {
		t.Fatal(err)
	}
	<-read
	pgtest.Eventually(t, func() bool { return !pg.IsQuiet(client) }, "what waits to be read is seen")
	if _, err := client.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if !pg.IsQuiet(client) {
		t.Error("got no quiet connection after all was read, want it quiet")
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	pgtest.Eventually(t, func() bool { return !pg.IsQuiet(client) }, "the end is seen")
}
