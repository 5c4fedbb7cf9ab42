package capability_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/capability"
)

// Rule CO-63.
func TestANonceIsOfOneLinkAndOneDay(t *testing.T) {
	t.Parallel()
	derive := func(fill byte) []byte {
		secret, err := capability.DeriveNonceSecret(bytes.Repeat([]byte{fill}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	ours := derive(1)
	issuedAt := time.Unix(1_800_000_000, 0)
	nonce := capability.NewNonce(ours, "plink_1", issuedAt)
	if capability.NewNonce(ours, "plink_1", issuedAt) == nonce {
		t.Error("got the same nonce twice")
	}
	for _, c := range []struct {
		name, linkID, nonce string
		secret              []byte
		after               time.Duration
		want                bool
	}{
		{"at once", "plink_1", nonce, ours, 0, true},
		{"a clock behind", "plink_1", nonce, ours, -30 * time.Second, true},
		{"a day later", "plink_1", nonce, ours, capability.NonceLifetime - time.Second, true},
		{"too old", "plink_1", nonce, ours, capability.NonceLifetime, false},
		{"from the future", "plink_1", nonce, ours, -2 * time.Minute, false},
		{"of another link", "plink_2", nonce, ours, 0, false},
		{"of another installation", "plink_1", nonce, derive(2), 0, false},
		{"none", "plink_1", "", ours, 0, false},
		{"too long", "plink_1", nonce + "A", ours, 0, false},
		{"other random bytes", "plink_1", nonce[:20] + flip(nonce[20:21]) + nonce[21:], ours, 0, false},
		{"another time", "plink_1", flip(nonce[:1]) + nonce[1:], ours, 0, false},
		{"another end", "plink_1", nonce[:len(nonce)-1] + flip(nonce[len(nonce)-1:]), ours, 0, false},
		{"no base64", "plink_1", strings.Repeat("!", len(nonce)), ours, 0, false},
	} {
		if got := capability.CheckNonce(c.secret, c.linkID, c.nonce, issuedAt.Add(c.after)); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
	if _, err := capability.DeriveNonceSecret([]byte("short")); err == nil {
		t.Error("got a secret from a short one")
	}
	page, err := capability.DeriveSecret(bytes.Repeat([]byte{1}, 32))
	if err != nil || bytes.Equal(page, ours) {
		t.Errorf("got the secret of pages for forms: %v", err)
	}
}

// flip returns another character of base64url.
func flip(s string) string {
	if s == "A" {
		return "B"
	}
	return "A"
}
