package surfacetest

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

func Proxies(texts ...string) kernel.Proxies {
	var p kernel.Proxies
	for _, text := range texts {
		p = append(p, netip.MustParsePrefix(text))
	}
	return p
}

// H-34, over HTTP: the test's client is 127.0.0.1.
// Rules AUTH-3, AUTH-4.
func TestAKeyIsTakenFromTheAddressesOfItsListAlone(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.conf.Proxies = Proxies("127.0.0.0/8")
	h.restart()
	allow := func(who tenant, entries ...string) {
		t.Helper()
		list, err := org.ParseIPAllowlist(entries)
		if err != nil {
			t.Fatal(err)
		}
		err = h.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return org.SetIPAllowlist(ctx, tx, audit.Operator("op"), who.id, list)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	h.wantStatus(h.call(h.one, "GET", "/mints", nil), 200)
	allow(h.one, "198.51.100.0/24", "2001:db8::/32", "::ffff:192.0.2.7")
	before := h.rowCounts()
	for name, forwarded := range map[string][]string{
		"none":              nil,
		"another":           {"X-Forwarded-For", "203.0.113.1"},
		"spoofed":           {"X-Forwarded-For", "198.51.100.1, 203.0.113.1"},
		"spoofed in a line": {"X-Forwarded-For", "198.51.100.1", "X-Forwarded-For", "203.0.113.1"},
		"garbage":           {"X-Forwarded-For", "198.51.100.1, garbage"},
		"in headers that the service does not read": {
			"X-Real-IP", "198.51.100.1", "Forwarded", "for=198.51.100.1", "X-Client-IP", "198.51.100.1",
		},
	} {
		h.wantRefusal(name, h.call(h.one, "GET", "/mints", nil, forwarded...), 403, "IP_NOT_ALLOWED", "")
		h.wantRefusal(name, h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k"), forwarded...), 403,
			"IP_NOT_ALLOWED", "")
		h.wantRefusal(name, h.call(h.one, "POST", "/withdraw", "{", forwarded...), 403, "IP_NOT_ALLOWED", "")
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	for _, from := range []string{
		"198.51.100.1",
		"2001:db8::7", "192.0.2.7", "::ffff:198.51.100.1", "203.0.113.1, 198.51.100.1", "198.51.100.1, 127.0.0.1",
	} {
		h.wantStatus(h.call(h.one, "GET", "/mints", nil, "X-Forwarded-For", from), 200)
	}
	// A wrong key learns nothing about a list, and another organization has its own.
	h.wantRefusal("wrong key", h.call(tenant{key: "ck_wrong"}, "GET", "/mints", nil), 401, "UNAUTHORIZED", "")
	h.wantStatus(h.call(h.two, "GET", "/mints", nil), 200)
	h.wantStatus(h.call(tenant{}, "GET", "/openapi.json", nil), 200)
	// It counts from the next request on.
	allow(h.one, "127.0.0.1")
	h.wantStatus(h.call(h.one, "GET", "/mints", nil), 200)
	allow(h.one)
	h.wantStatus(h.call(h.one, "GET", "/mints", nil, "X-Forwarded-For", "203.0.113.1"), 200)
}

// Wrong keys are counted by their sender's address, and an IPv6 network is one sender. Rule LIM-2.
func TestWrongKeysAreCountedBySenderBehindAProxy(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t, kernel.Limits{Failures: kernel.UsualLimits.Failures})
	h.conf.Proxies = Proxies("127.0.0.0/8")
	h.restart()
	wrong := tenant{key: "ck_wrong"}
	for i, from := range []string{"203.0.113.7", "2001:db8::1"} {
		for range kernel.UsualLimits.Failures.Burst {
			h.wantRefusal(from, h.call(wrong, "GET", "/mints", nil, "X-Forwarded-For", from), 401, "UNAUTHORIZED", "")
		}
		beside := []string{"203.0.113.7", "2001:db8::ffff:2"}[i]
		got := h.call(wrong, "GET", "/mints", nil, "X-Forwarded-For", beside)
		h.wantRefusal(beside, got, 429, "RATE_LIMITED", "")
		if got.header.Get("Retry-After") == "" ||
			!strings.Contains(got.text("error"), "says nothing about earlier attempts") {
			t.Errorf("got %v %s, want when to come back and nothing about before", got.header, got.raw)
		}
		// A request with a valid key is admitted from there.
		h.wantStatus(h.call(h.one, "GET", "/mints", nil, "X-Forwarded-For", from), 200)
	}
	h.wantRefusal("elsewhere", h.call(wrong, "GET", "/mints", nil, "X-Forwarded-For", "203.0.113.8"), 401,
		"UNAUTHORIZED", "")
}
