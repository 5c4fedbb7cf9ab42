package remote

import (
	"crypto/x509"
	"testing"
	"time"
)

// A client that is gone needs no certificate, and a connection that is always in use hides a
// renewed one.
func TestWhatWasMetLongAgoIsForgottenAndLookedAtAgain(t *testing.T) {
	t.Parallel()
	w := &CertificateWatch{}
	if !w.isSightingDue(time.Now()) {
		t.Error("nobody met: got a moment ago, want long ago")
	}
	w.recordPeer("client", "coffer-api", &x509.Certificate{NotAfter: time.Now().Add(time.Hour)})
	now := time.Now()
	for after, want := range map[time.Duration]struct {
		told int
		long bool
	}{
		0: {1, false}, sightingMaxAge - time.Minute: {1, false}, sightingMaxAge + time.Minute: {1, true},
		sightingRetention + time.Minute: {0, true},
	} {
		if got, long := len(w.certificatesAt(now.Add(after))), w.isSightingDue(now.Add(after)); got != want.told ||
			long != want.long {
			t.Errorf("after %v: got %v told and long ago %v, want %v and %v", after, got, long, want.told, want.long)
		}
	}
}
