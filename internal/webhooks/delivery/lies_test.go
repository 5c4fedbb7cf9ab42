package delivery

import (
	"bufio"
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/outbound"
)

// liar answers every connection with the same bytes, independent of the request. It then closes the
// connection, or drips further bytes until the client hangs up.
func liar(t *testing.T, answer, drip string) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				in := bufio.NewReader(conn)
				if r, err := http.ReadRequest(in); err == nil {
					_, _ = in.Discard(int(r.ContentLength))
				}
				if _, err := conn.Write([]byte(answer)); err != nil || drip == "" {
					return
				}
				tick := time.NewTicker(5 * time.Millisecond)
				defer tick.Stop()
				for range tick.C {
					if _, err := conn.Write([]byte(drip)); err != nil {
						return
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// A receiver's answer counts up to its status line, and costs no more than the time and bytes of an
// attempt. Rule EVT-5.
func TestReceiversThatLieCostAnAttemptAtMost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer, drip string
		delivered    bool
		code         int
		says         string
	}{
		"nothing":            {"", "", false, 0, "completed"},
		"no HTTP":            {"HELLO\r\n\r\n", "", false, 0, "completed"},
		"half a status":      {"HTTP/1.1 2", "", false, 0, "completed"},
		"a status of two":    {"HTTP/1.1 20 OK\r\n\r\n", "", false, 0, "completed"},
		"a status of nobody": {"HTTP/1.1 999 Fine\r\nContent-Length: 0\r\n\r\n", "", false, 999, ""},
		"only 1xx":           {strings.Repeat("HTTP/1.1 103 Early\r\n\r\n", 20), "", false, 0, "completed"},
		"endless headers": {
			"HTTP/1.1 200 OK\r\n",
			strings.Repeat("X-More: "+strings.Repeat("a", 1000)+"\r\n", 100), false, 0, "completed",
		},
		"two lengths": {
			"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "", false, 0, "completed",
		},
		"less than it says": {"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nshort", "", true, 200, ""},
		"more than it says": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok, and HTTP/1.1 500", "", true, 200, ""},
		"a body that drips": {"HTTP/1.1 200 OK\r\n\r\n", "x", true, 200, ""},
		"a broken encoding": {"HTTP/1.1 202 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "", true, 202, ""},
		"zero bytes":        {"HTTP/1.1 500 \r\nContent-Length: 3\r\n\r\n\x00\xff\x00", "", false, 500, ""},
		"somebody elses name": {
			"HTTP/1.1 301 Moved\r\nLocation: http://169.254.169.254/\r\nContent-Length: 0\r\n\r\n", "", false, 301, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			w.endpoint(liar(t, c.answer, c.drip))
			w.events("dep_1", 1)
			w.sequence()
			d := w.dispatcher()
			d.answerMax = 500 * time.Millisecond
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if _, err := d.Step(ctx); err != nil {
				t.Fatal(err)
			}
			got := w.deliveries()[0]
			if (got.Status == "DELIVERED") != c.delivered || got.Attempts != 1 || got.Recorded != 1 {
				t.Errorf("got %v after %v attempts, %v recorded, want delivered %v after one", got.Status, got.Attempts,
					got.Recorded, c.delivered)
			}
			code := 0
			if got.Code != nil {
				code = *got.Code
			}
			if code != c.code || (code == 0) != (got.Error != nil) ||
				got.Error != nil && !strings.Contains(*got.Error, c.says) {
				t.Errorf("got %v and the error %v, want %v and %q", code, got.Error, c.code, c.says)
			}
			if got.Error != nil && strings.Contains(*got.Error, "127.0.0.1") {
				t.Errorf("got %q, want no address in it", *got.Error)
			}
		})
	}
}

// Over TLS, only with a certificate that is valid for its name and signed by a known authority.
// Rule EVT-5.
func TestACertificateDecidesWhetherAnythingIsSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		host      string
		trusted   bool
		delivered bool
	}{
		"trusted":         {"127.0.0.1", true, true},
		"of nobody":       {"127.0.0.1", false, false},
		"of another name": {"localhost", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, true)
			var got atomic.Int32
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
				got.Add(1)
			}))
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			e, _ := w.endpoint("http://127.0.0.1:1/")
			_, port, err := net.SplitHostPort(server.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			w.exec(`UPDATE webhook_endpoints SET url = $2 WHERE endpoint_id = $1`, e.ID,
				"https://"+net.JoinHostPort(c.host, port)+"/hook")
			w.events("dep_1", 1)
			w.sequence()
			d := w.dispatcher()
			d.answerMax = 10 * time.Second
			d.ensureOpen()
			// The guard itself has its own tests.
			d.transport.HTTPS = outbound.NewGuarded(outbound.ControlLoopback, outbound.Config{})
			if c.trusted {
				d.transport.HTTPS.TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
			}
			w.step(d)
			one := w.deliveries()[0]
			if (one.Status == "DELIVERED") != c.delivered || (got.Load() == 1) != c.delivered {
				t.Errorf("got %v and %v requests, want delivered %v", one.Status, got.Load(), c.delivered)
			}
			if !c.delivered && (one.Error == nil || !strings.Contains(*one.Error, "certificate")) {
				t.Errorf("got the error %v, want the certificate named", one.Error)
			}
		})
	}
}
