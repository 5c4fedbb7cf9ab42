package remote

import (
	"crypto/x509"
	"sync"
	"time"
)

// Certificate is one that a process and its signer on the network know each other by.
type Certificate struct {
	Of    string // "server", "client" or "authority"
	Name  string // whose it is: the name that the other side is known by, or its common name
	Until time.Time
}

const (
	// metAgain is how often a client shows and looks at certificates anew at least,
	// while somebody asks: a connection that is always in use would hide a renewed one.
	metAgain = time.Hour
	// metMax is how long ago another side may have been met to be told of: a client
	// that was taken away needs no new certificate.
	metMax = 24 * time.Hour
)

// Watch knows until when the certificates of both sides count. The zero value knows
// none; nil may be told everything. It is safe for concurrent use.
type Watch struct {
	mu    sync.Mutex
	side  string    // "server" or "client": whose own files
	own   *identity // nil before it is told
	peers map[Certificate]met
}

// met is what the other side showed at last. Its key has no Until.
type met struct{ until, at time.Time }

// over says whose files these are.
func (w *Watch) over(side string, own *identity) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.side, w.own = side, own
}

// met keeps what the other side showed, which was accepted.
func (w *Watch) met(of, name string, c *x509.Certificate) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.peers == nil {
		w.peers = map[Certificate]met{}
	}
	w.peers[Certificate{Of: of, Name: name}] = met{c.NotAfter, time.Now()}
}

// Certificates are this side's own and its authority's, as the files are now, and
// those that the other side showed within a day. Where two have one name, as while an
// authority is renewed, the one that counts for longer is told.
func (w *Watch) Certificates() []Certificate { return w.at(time.Now()) }

func (w *Watch) at(now time.Time) []Certificate {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	until := map[Certificate]time.Time{}
	tell := func(of, name string, at time.Time) {
		if key := (Certificate{Of: of, Name: name}); at.After(until[key]) {
			until[key] = at
		}
	}
	if w.own != nil {
		files := w.own.now()
		tell(w.side, files.own.Leaf.Subject.CommonName, files.own.Leaf.NotAfter)
		for _, c := range files.authorities {
			tell("authority", c.Subject.CommonName, c.NotAfter)
		}
	}
	for key, m := range w.peers {
		if now.Sub(m.at) < metMax {
			tell(key.Of, key.Name, m.until)
		}
	}
	all := []Certificate{}
	for key := range until {
		key.Until = until[key]
		all = append(all, key)
	}
	return all
}

// longAgo tells whether nobody was met since metAgain.
func (w *Watch) longAgo(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.peers {
		if now.Sub(m.at) < metAgain {
			return false
		}
	}
	return true
}

// Certificates are those of this client, of its signer and of the authority that
// signed for it; none of a signer at a socket.
func (c *Client) Certificates() []Certificate {
	if c.watch == nil {
		return nil
	}
	if c.watch.longAgo(time.Now()) {
		c.http.CloseIdleConnections() // the next call makes a new one
	}
	return c.watch.Certificates()
}
