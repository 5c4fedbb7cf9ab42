package capability_test

import (
	"bytes"
	"testing"

	"github.com/cofferpay/coffer/internal/checkout/capability"
)

func secret(t *testing.T, fill byte) []byte {
	t.Helper()
	derived, err := capability.DeriveSecret(bytes.Repeat([]byte{fill}, 32))
	if err != nil {
		t.Fatal(err)
	}
	return derived
}

// Rule CO-74.
func TestAPageKeyIsOfOneCheckoutOfOneInstallation(t *testing.T) {
	t.Parallel()
	ours := secret(t, 1)
	key := capability.Key(ours, "co_1")
	// Addresses of pages are stored by shops, so the derivation never changes.
	if want := "Pmxy7jt0nM3xv3XoUoxcnw"; key != want {
		t.Errorf("got %s, want %s", key, want)
	}
	if !capability.Check(ours, "co_1", key) || capability.Key(ours, "co_1") != key {
		t.Error("got the key refused, or another one, want it to stay")
	}
	for name, got := range map[string]bool{
		"another checkout":     capability.Check(ours, "co_2", key),
		"another installation": capability.Check(secret(t, 2), "co_1", key),
		"no key":               capability.Check(ours, "co_1", ""),
		"half a key":           capability.Check(ours, "co_1", key[:11]),
		"a longer key":         capability.Check(ours, "co_1", key+"A"),
	} {
		if got {
			t.Errorf("%s: got it accepted", name)
		}
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range key {
		for _, c := range []byte(alphabet) {
			changed := key[:i] + string(c) + key[i+1:]
			if got := capability.Check(ours, "co_1", changed); got != (changed == key) {
				t.Errorf("%s: got %v, want one text of the key", changed, got)
			}
		}
	}
}

func TestAPageSecretIsNotTheSecretFromWhichItFollows(t *testing.T) {
	t.Parallel()
	installation := bytes.Repeat([]byte{1}, 32)
	if bytes.Equal(secret(t, 1), installation) || len(secret(t, 1)) != 32 {
		t.Error("got the same secret, or one of another length")
	}
	if got, err := capability.DeriveSecret(nil); err == nil {
		t.Errorf("got %x from nothing, want an error", got)
	}
	if got, err := capability.DeriveSecret(installation[:31]); err == nil {
		t.Errorf("got %x from a short secret, want an error", got)
	}
}
