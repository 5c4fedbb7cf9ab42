package remote

import (
	"crypto/x509"
	"sync"
	"time"
)

// Certificate is a certificate by which a process and its signer on the network identify each
// other.
type Certificate struct {
	Role     string // "server", "client" or "authority"
	Name     string // the name by which the other side is known, or its common name
	NotAfter time.Time
}

const (
	// sightingMaxAge is how long a client may go without a new TLS handshake while its certificates
	// are queried. A connection that is always in use would otherwise hide a renewed one.
	sightingMaxAge = time.Hour
	// sightingRetention is how long a peer is reported after its last handshake. A client that was
	// removed needs no new certificate.
	sightingRetention = 24 * time.Hour
)

// CertificateWatch records until when the certificates of both sides are valid. The zero value has
// no certificates; the recording methods accept nil. It is safe for concurrent use.
type CertificateWatch struct {
	mu       sync.Mutex
	side     string       // "server" or "client": the side that owns the files
	identity *tlsIdentity // nil until it is set
	peers    map[Certificate]peerSighting
}

// peerSighting is what a peer showed last. Its key has no NotAfter.
type peerSighting struct{ notAfter, seenAt time.Time }

// setIdentity sets which side owns these files.
func (w *CertificateWatch) setIdentity(side string, identity *tlsIdentity) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.side, w.identity = side, identity
}

// recordPeer records a certificate that the other side showed and that was accepted.
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

// Certificates returns this side's certificate and its authority's, as the files are now, and those
// that the other side showed within a day. Where two have one name, as during the renewal of an
// authority, it returns the one that is valid for longer.
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

// isSightingDue reports whether no peer was seen within sightingMaxAge.
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

// Certificates returns the certificates of this client, of its signer and of the authority that
// signed the signer's. It returns none for a signer on a socket.
func (c *Client) Certificates() []Certificate {
	if c.watch == nil {
		return nil
	}
	if c.watch.isSightingDue(time.Now()) {
		c.http.CloseIdleConnections() // the next call makes a new one
	}
	return c.watch.Certificates()
}
