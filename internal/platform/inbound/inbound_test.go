package inbound_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/inbound"
)

// testServer answers every request with its path and body, and records them.
type testServer struct {
	t    *testing.T
	addr string

	mu   sync.Mutex
	seen []string

	reset bool // whether the last connection was closed by a reset
}

func startServer(t *testing.T, limits inbound.Limits) *testServer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &testServer{t: t, addr: l.Addr().String()}
	h := &http.Server{
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelWarn), MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: time.Hour, ReadTimeout: time.Hour, IdleTimeout: time.Hour,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			s.mu.Lock()
			s.seen = append(s.seen, fmt.Sprintf("%s %s", r.URL.Path, body))
			s.mu.Unlock()
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			fmt.Fprintf(w, "%s %s", r.URL.Path, body)
		}),
	}
	t.Cleanup(func() { h.Close() })
	go func() { _ = h.Serve(inbound.GuardListener(l, limits, slog.New(slog.DiscardHandler))) }()
	return s
}

func (s *testServer) dialServer() net.Conn {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		s.t.Fatal(err)
	}
	return c
}

// patience is how long a test waits for a server that should have answered or closed.
const patience = time.Minute

// sendParts writes parts, each in a segment of its own. It reads the answers until the server
// closes, or until it has as many as are wanted. closed reports which.
func (s *testServer) sendParts(want int, parts ...string) (statuses []int, closed bool) {
	s.t.Helper()
	c := s.dialServer()
	for _, part := range parts {
		if _, err := io.WriteString(c, part); err != nil {
			break // the server closed before it received everything
		}
	}
	in := bufio.NewReader(c)
	for {
		if len(statuses) == want {
			// An open connection answers one more request.
			_, _ = io.WriteString(c, "GET /last HTTP/1.1\r\nHost: x\r\n\r\n")
		}
		r, err := http.ReadResponse(in, nil)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			s.t.Fatal("the server neither answers nor closes")
		}
		if err != nil {
			s.reset = errors.Is(err, syscall.ECONNRESET)
			return statuses, true
		}
		body, err := io.ReadAll(r.Body)
		if errors.Is(err, syscall.ECONNRESET) {
			return append(statuses, r.StatusCode), true
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if strings.HasPrefix(string(body), "/last") {
			return statuses, false
		}
		statuses = append(statuses, r.StatusCode)
	}
}

const next = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

func newPost(headers, body string) string {
	return "POST /a HTTP/1.1\r\nHost: x\r\n" + headers + "\r\n" + body
}

// refusedHeads are heads that give the length of a body in two ways, or can be read so.
var refusedHeads = map[string]string{
	"both lengths":              newPost("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
	"both, the other way round": newPost("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
	"both, far apart": newPost(
		"Transfer-Encoding: chunked\r\nA: b\r\nC: d\r\nContent-Length: 5\r\n", "0\r\n\r\n",
	),
	"in other letters":           newPost("cOnTeNt-LeNgTh: 5\r\ntRaNsFeR-eNcOdInG: Chunked\r\n", "0\r\n\r\n"),
	"with tabs":                  newPost("Content-Length:\t5\t\r\nTransfer-Encoding:\tchunked\t\r\n", "0\r\n\r\n"),
	"a space before the colon":   newPost("Content-Length : 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
	"lines without CR":           "POST /a HTTP/1.1\nHost: x\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\r\n\r\n",
	"a length of nothing":        newPost("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
	"two equal lengths":          newPost("Content-Length: 5\r\nContent-Length: 5\r\n", "hello"),
	"two lengths":                newPost("Content-Length: 5\r\nContent-Length: 6\r\n", "hello"),
	"two lengths in one":         newPost("Content-Length: 5, 5\r\n", "hello"),
	"a length that is no number": newPost("Content-Length: +5\r\n", "hello"),
	"a folded length":            newPost("Content-Length:\r\n 5\r\n", "hello"),
	"a folded encoding":          newPost("Content-Length: 5\r\nTransfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n"),
	"a chunked body in 1.0":      "POST /a HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"two encodings":              newPost("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
	"an encoding that is none":   newPost("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"),
	"chunked, and more":          newPost("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"),
	"and awaits a word": newPost(
		"Expect: 100-continue\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n",
	),
}

// splitEvery splits a text into segments of n bytes.
func splitEvery(text string, n int) (parts []string) {
	for part := range slices.Chunk([]byte(text), n) {
		parts = append(parts, string(part))
	}
	return parts
}

// Rule REQ-8.
func TestARequestWithTwoLengthsIsRefusedAndEndsItsConnection(t *testing.T) {
	t.Parallel()
	for name, head := range refusedHeads {
		for how, parts := range map[string][]string{
			"alone":             {head},
			"with a next one":   {head + next},
			"byte by byte":      splitEvery(head+next, 1),
			"in sevens":         splitEvery(head+next, 7),
			"after a sound one": {newPost("Content-Length: 2\r\n", "ok") + head + next},
			"after a chunked":   {newPost("Transfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n") + head + next},
		} {
			s := startServer(t, inbound.Limits{})
			before := 0
			if strings.HasPrefix(how, "after") {
				before = 1
			}
			statuses, closed := s.sendParts(before+1, parts...)
			// A server that closes with unread bytes may discard its answers with a reset.
			reset := closed && len(statuses) <= before && s.reset
			if !reset &&
				(len(statuses) != before+1 || !closed || before == 1 && statuses[0] != 200 || statuses[before] != 400 &&
					statuses[before] != 501) {
				t.Errorf(
					"%s, %s: got %v and closed %v, want 400 and the connection closed", name, how, statuses, closed,
				)
			}
			s.mu.Lock()
			if len(s.seen) != before {
				t.Errorf("%s, %s: got %q let in, want %d", name, how, s.seen, before)
			}
			s.mu.Unlock()
		}
	}
}

func TestASoundRequestIsReadAsItIs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		request string
		want    []string
	}{
		"a length":            {newPost("Content-Length: 5\r\n", "hello"), []string{"/a hello"}},
		"no body":             {"GET /a HTTP/1.1\r\nHost: x\r\n\r\n", []string{"/a "}},
		"a length of nothing": {newPost("Content-Length: 0\r\n", ""), []string{"/a "}},
		"a head in a body": {newPost("Content-Length: 56\r\n",
			"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nxx"), []string{
			"/a Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nxx",
		}},
		"chunked": {
			newPost("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n1;a=b\r\n!\r\n0\r\n\r\n"),
			[]string{"/a hello!"},
		},
		"chunked, in capitals": {
			newPost("TRANSFER-ENCODING: CHUNKED\r\n", "a\r\n0123456789\r\n0\r\n\r\n"),
			[]string{"/a 0123456789"},
		},
		"a head in a chunk": {newPost("Transfer-Encoding: chunked\r\n",
			"1d\r\n\r\nContent-Length: 5\r\nA: bcd\r\n\r\n0\r\n\r\n"), []string{
			"/a \r\nContent-Length: 5\r\nA: bcd\r\n",
		}},
		"a length in 1.0": {
			"POST /a HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
			[]string{"/a ok"},
		},
		"long": {
			newPost("Content-Length: 100000\r\n", long) + next,
			[]string{"/a " + long, "/smuggled "},
		},
		"several": {next + newPost("Content-Length: 2\r\n", "ok") + "\r\n" + next +
			newPost("Transfer-Encoding: chunked\r\n", "0\r\n\r\n") + next, []string{
			"/smuggled ", "/a ok", "/smuggled ", "/a ", "/smuggled ",
		}},
		"a coding after a length": {newPost("Content-Length: 2\r\n", "ok") +
			newPost("Transfer-Encoding: chunked\r\n", "2\r\nok\r\n0\r\n\r\n"), []string{"/a ok", "/a ok"}},
		"headers like the ones": {
			"GET /a HTTP/1.1\r\nHost: x\r\nX-Content-Length: 5\r\nContent-Length-X: 6\r\nTransfer-Encodings: chunked\r\n\r\n",
			[]string{"/a "},
		},
	} {
		for _, n := range []int{1 << 20, 4096, 3, 1} {
			if n < 100 && len(c.request) > 10_000 {
				continue
			}
			s := startServer(t, inbound.Limits{BodyWait: time.Hour, BodyRate: 64 << 10})
			statuses, closed := s.sendParts(len(c.want), splitEvery(c.request, n)...)
			if len(statuses) != len(c.want) || closed || slices.Max(statuses) != 200 {
				t.Errorf(
					"%s by %d: got %v and closed %v, want %d answers 200 and the connection open", name, n,
					statuses, closed, len(c.want),
				)
			}
			s.mu.Lock()
			if got := s.seen[:min(len(s.seen), len(c.want))]; !slices.Equal(got, c.want) {
				t.Errorf("%s by %d: got %.200q, want %.200q", name, n, got, c.want)
			}
			s.mu.Unlock()
		}
	}
}

// The interim answer "100 Continue" comes before the body.
func TestABodyThatAwaitsAWordIsTaken(t *testing.T) {
	t.Parallel()
	s := startServer(t, inbound.Limits{BodyWait: time.Hour})
	c := s.dialServer()
	if _, err := io.WriteString(c, newPost("Expect: 100-continue\r\nContent-Length: 5\r\n", "")); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	line, err := in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("got %q and %v, want 100", line, err)
	}
	if _, err := io.WriteString(c, "hello"); err != nil {
		t.Fatal(err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	r, err := http.ReadResponse(in, nil)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("got %v and %v, want 200", r, err)
	}
	r.Body.Close()
}

// Bytes that the scanner cannot follow end the connection: no later request on it is answered.
func TestWhatCannotBeFollowedEndsTheConnection(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"chunks without CR":  "2\nok\n0\n\n",
		"a chunk too short":  "1\r\nok\r\n0\r\n\r\n",
		"a chunk of no size": "\r\nok\r\n0\r\n\r\n",
		"a size with a sign": "+2\r\nok\r\n0\r\n\r\n",
		"a size in 0x":       "0x2\r\nok\r\n0\r\n\r\n",
		"a size of 64 bits":  "ffffffffffffffff\r\nok\r\n0\r\n\r\n",
		"CR in an extension": "2;a\rb\r\nok\r\n0\r\n\r\n",
		"a trailer":          "0\r\nContent-Length: 5\r\n\r\n",
		"an end without CR":  "0\r\n\n",
	} {
		for _, n := range []int{1 << 20, 1} {
			s := startServer(t, inbound.Limits{})
			statuses, closed := s.sendParts(2, splitEvery(newPost("Transfer-Encoding: chunked\r\n", body)+next, n)...)
			s.mu.Lock()
			smuggled := slices.ContainsFunc(s.seen, func(r string) bool { return strings.HasPrefix(r, "/smuggled") })
			s.mu.Unlock()
			if !closed || smuggled {
				t.Errorf(
					"%s by %d: got %v and closed %v, the next one answered: %v; want the connection closed", name,
					n, statuses, closed, smuggled,
				)
			}
		}
	}
}

// net/http refuses a head that is too long.
func TestALongHeadIsToldThatItIs(t *testing.T) {
	t.Parallel()
	s := startServer(t, inbound.Limits{})
	statuses, closed := s.sendParts(1, "GET /a HTTP/1.1\r\nHost: x\r\nA: "+strings.Repeat("x", 20<<10)+"\r\n\r\n")
	if !slices.Equal(statuses, []int{431}) || !closed {
		t.Errorf("got %v and closed %v, want 431 and the connection closed", statuses, closed)
	}
}

// Rule REQ-9. The server waits for each late part of a body with the rest of the budget, until
// nothing is left.
func TestABodyThatDoesNotArriveIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	s := startServer(t, inbound.Limits{BodyWait: 50 * time.Millisecond, BodyRate: 64 << 10})
	for name, text := range map[string]string{
		"nothing":  newPost("Content-Length: 5\r\n", ""),
		"a part":   newPost("Content-Length: 5\r\n", "he"),
		"a chunk":  newPost("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n"),
		"no trail": newPost("Transfer-Encoding: chunked\r\n", "5\r\nhello\r\n0\r\n"),
	} {
		// The client sends nothing more: only the server can end this.
		if statuses, closed := s.sendParts(2, text); !slices.Equal(statuses, []int{400}) || !closed {
			t.Errorf("%s: got %v and closed %v, want 400 and the connection closed", name, statuses, closed)
		}
	}
	// A byte now and then is not enough: this body would take hours.
	s = startServer(t, inbound.Limits{BodyWait: 2 * time.Second, BodyRate: 64 << 10})
	c := s.dialServer()
	if _, err := io.WriteString(c, newPost("Content-Length: 1000000\r\n", "")); err != nil {
		t.Fatal(err)
	}
	pace := time.NewTicker(20 * time.Millisecond)
	defer pace.Stop()
	go func() {
		for range pace.C {
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}()
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || r.StatusCode != 400 {
		t.Fatalf("got %v and %v, want 400", r, err)
	}
	r.Body.Close()
}

// Rule REQ-9.
func TestConnectionsAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limits inbound.Limits
		want   int
	}{
		{inbound.Limits{Connections: 3, PerAddress: 100}, 3},
		{inbound.Limits{Connections: 100, PerAddress: 2}, 2},
		{inbound.Limits{Connections: 4, PerAddress: 2, Proxy: func(a netip.Addr) bool { return a.IsLoopback() }}, 4},
	} {
		s := startServer(t, c.limits)
		answered := func(conn net.Conn) bool {
			_, _ = io.WriteString(conn, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
			r, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil {
				r.Body.Close()
			}
			return err == nil
		}
		var open []net.Conn
		for range c.want {
			conn := s.dialServer()
			if !answered(conn) {
				t.Fatalf("%+v: got connection %d closed, want it taken", c.limits, len(open)+1)
			}
			open = append(open, conn)
		}
		if answered(s.dialServer()) {
			t.Errorf("%+v: got one more taken, want it closed", c.limits)
		}
		// A connection that ends makes room for another one.
		open[0].Close()
		for !answered(s.dialServer()) {
		}
		if answered(s.dialServer()) {
			t.Errorf("%+v: got one more taken after one ended, want it closed", c.limits)
		}
	}
}

// addrListener accepts one connection from each of these addresses, and then no more.
type addrListener struct {
	net.Listener
	callers []string
}

func (f *addrListener) Accept() (net.Conn, error) {
	if len(f.callers) == 0 {
		return nil, net.ErrClosed
	}
	ours, theirs := net.Pipe()
	theirs.Close()
	at := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.callers[0]))
	f.callers = f.callers[1:]
	return addrConn{ours, at}, nil
}

func (*addrListener) Addr() net.Addr { return &net.TCPAddr{} }

type addrConn struct {
	net.Conn
	at net.Addr
}

func (c addrConn) RemoteAddr() net.Addr { return c.at }

// Rule REQ-9. One customer of a provider has all addresses of a /64.
func TestTheAddressesOfOneNetworkShareTheirConnections(t *testing.T) {
	t.Parallel()
	l := inbound.GuardListener(&addrListener{callers: []string{
		"[2001:db8:0:1::1]:1", "[2001:db8:0:1::2]:1", "[2001:db8:0:1:ffff::3]:1", // the third is one too many
		"[2001:db8:0:2::1]:1",
		"192.0.2.1:1", "[::ffff:192.0.2.1]:2", "192.0.2.1:3", // the third is one too many
		"192.0.2.2:1",
	}}, inbound.Limits{PerAddress: 2}, slog.New(slog.DiscardHandler))
	var got []string
	for {
		c, err := l.Accept()
		if err != nil {
			break
		}
		defer c.Close()
		got = append(got, c.RemoteAddr().String())
	}
	want := []string{
		"[2001:db8:0:1::1]:1", "[2001:db8:0:1::2]:1", "[2001:db8:0:2::1]:1", "192.0.2.1:1", "192.0.2.1:2",
		"192.0.2.2:1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v taken, want %v", got, want)
	}
}
