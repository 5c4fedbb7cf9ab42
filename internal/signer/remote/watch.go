package remote

import (
	"crypto/x509"
	"sync"
	"time"
)

// Certificate is one that a process and its signer on the network know each other by.
type Certificate struct {
	Role     string // "server", "client" or "authority"
	Name     string // whose it is: the name that the other side is known by, or its common name
	NotAfter time.Time
}

const (
	// sightingMaxAge is how often a client shows and looks at certificates anew at least,
	// while somebody asks: a connection that is always in use would hide a renewed one.
	sightingMaxAge = time.Hour
	// sightingRetention is how long ago another side may have been met to be told of: a client
	// that was taken away needs no new certificate.
	sightingRetention = 24 * time.Hour
)

// CertificateWatch knows until when the certificates of both sides count. The zero value knows
// none; nil may be told everything. It is safe for concurrent use.
type CertificateWatch struct {
	mu       sync.Mutex
	side     string       // "server" or "client": whose own files
	identity *tlsIdentity // nil before it is told
	peers    map[Certificate]peerSighting
}

// peerSighting is what the other side showed at last. Its key has no Until.
type peerSighting struct{ notAfter, seenAt time.Time }

// setIdentity says whose files these are.
func (w *CertificateWatch) setIdentity(side string, identity *tlsIdentity) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.side, w.identity = side, identity
}

// recordPeer keeps what the other side showed, which was accepted.
func (w *CertificateWatch) recordPeer(role, name string, c *x509.Certificate) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.peers == nil {
		w.peers = map[Certificate]peerSighting{}
	}
	w.peers[Certificate{Role: role, Name: name}] = peerSighting{c.NotAfter, time.Now()}
}

// Certificates are this side's own and its authority's, as the files are now, and
// those that the other side showed within a day. Where two have one name, as while an
// authority is renewed, the one that counts for longer is told.
func (w *CertificateWatch) Certificates() []Certificate { return w.certificatesAt(time.Now()) }

func (w *CertificateWatch) certificatesAt(now time.Time) []Certificate {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	latest := map[Certificate]time.Time{}
	addCertificate := func(role, name string, notAfter time.Time) {
		if key := (Certificate{Role: role, Name: name}); notAfter.After(latest[key]) {
			latest[key] = notAfter
		}
	}
	if w.identity != nil {
		files := w.identity.current()
		addCertificate(w.side, files.certificate.Leaf.Subject.CommonName, files.certificate.Leaf.NotAfter)
		for _, c := range files.authorities {
			addCertificate("authority", c.Subject.CommonName, c.NotAfter)
		}
	}
	for key, m := range w.peers {
		if now.Sub(m.seenAt) < sightingRetention {
			addCertificate(key.Role, key.Name, m.notAfter)
		}
	}
	certificates := []Certificate{}
	for key := range latest {
		key.NotAfter = latest[key]
		certificates = append(certificates, key)
	}
	return certificates
}

// isSightingDue tells whether nobody was met since sightingMaxAge.
func (w *CertificateWatch) isSightingDue(now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.peers {
		if now.Sub(m.seenAt) < sightingMaxAge {
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
	if c.watch.isSightingDue(time.Now()) {
		c.http.CloseIdleConnections() // the next call makes a new one
	}
	return c.watch.Certificates()
}
