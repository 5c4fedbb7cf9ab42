package crashes

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cofferpay/coffer/webhook"
)

// receiver is the organization's backend: it receives webhooks and remembers them.
type receiver struct {
	server *http.Server
	url    string

	mu      sync.Mutex
	secrets map[string]string   // path -> secret of the endpoint
	fails   map[string]bool     // paths that answer 500
	bodies  map[string][][]byte // path and event id -> bodies that arrived
	wrong   []string
}

func newReceiver() (*receiver, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &receiver{
		url: "http://" + l.Addr().String(), secrets: map[string]string{}, fails: map[string]bool{},
		bodies: map[string][][]byte{},
	}
	r.server = &http.Server{Handler: r, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = r.server.Serve(l) }() // it ends with close
	return r, nil
}

func (r *receiver) closeServer() { _ = r.server.Close() }

// ServeHTTP receives an event. Its signature has to be valid and its body the same as before under
// the same id.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	eventID := req.Header.Get(webhook.HeaderID)
	if err := webhook.Verify(body, req.Header, r.secrets[req.URL.Path], webhook.DefaultTolerance); err != nil {
		r.wrong = append(r.wrong, fmt.Sprintf("webhook %s at %s: %v", eventID, req.URL.Path, err))
	}
	key := req.URL.Path + " " + eventID
	for _, earlier := range r.bodies[key] {
		if !bytes.Equal(earlier, body) {
			r.wrong = append(r.wrong, fmt.Sprintf("webhook %s came with two bodies:\n%s\n%s", eventID, earlier, body))
		}
	}
	r.bodies[key] = append(r.bodies[key], body)
	if r.fails[req.URL.Path] {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// expectPath sets the secret that signs for a path, and whether the path fails.
func (r *receiver) expectPath(path, secret string, fails bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secrets[path], r.fails[path] = secret, fails
}

// receivedBodies returns the bodies that arrived at a path under an event's id.
func (r *receiver) receivedBodies(path, eventID string) [][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bodies[path+" "+eventID]
}

// countPosts counts the posts to a path.
func (r *receiver) countPosts(path string) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, bodies := range r.bodies {
		if len(key) > len(path) && key[:len(path)+1] == path+" " {
			n += len(bodies)
		}
	}
	return n
}

// listComplaints lists what was wrong with the posts.
func (r *receiver) listComplaints() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.wrong
}
