package service

import (
	"crypto/ed25519"
	"log/slog"
	"testing"

	"github.com/cofferpay/coffer/internal/dispatch"
)

func TestEveryKindOfOrderHasItsListeners(t *testing.T) {
	t.Parallel()
	s := New(Config{}, Parts{AttestKey: make([]byte, ed25519.PublicKeySize), Log: slog.New(slog.DiscardHandler)})
	listeners, voids, restores := s.orderListeners(), s.Voider.Listeners, s.newJournalRestorer().Features
	for _, k := range dispatch.Kinds() {
		if listeners[k.Purpose] == nil || restores[k.Purpose] == nil {
			t.Errorf("%s: nothing is notified of the end of its orders, or of restored ones", k.Purpose)
		}
		if _, ok := voids[k.Purpose]; ok != k.NeedsGrant {
			t.Errorf("%s: got a listener of voids: %v, want %v", k.Purpose, ok, k.NeedsGrant)
		}
	}
}
