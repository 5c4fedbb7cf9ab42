package kernel

import (
	"net/netip"
	"strings"
	"testing"
)

func proxies(texts ...string) Proxies {
	var p Proxies
	for _, text := range texts {
		p = append(p, netip.MustParsePrefix(text))
	}
	return p
}

// H-34.
// Rule AUTH-4.
func TestWhoCallsIsWhoTheLastTrustedProxySays(t *testing.T) {
	t.Parallel()
	ours := proxies("10.0.0.0/8", "fd00::/8")
	for name, c := range map[string]struct {
		peer      string
		forwarded []string
		want      string // "" for unknown
	}{
		"no proxy":                     {"203.0.113.9:4000", nil, "203.0.113.9"},
		"a stranger's word":            {"203.0.113.9:4000", []string{"198.51.100.1"}, "203.0.113.9"},
		"a stranger who names a proxy": {"203.0.113.9:4000", []string{"198.51.100.1, 10.0.0.1"}, "203.0.113.9"},
		"a proxy":                      {"10.0.0.1:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy without a word":       {"10.0.0.1:4000", nil, "10.0.0.1"},
		"two proxies":                  {"10.0.0.1:4000", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		"spoofed on the left":          {"10.0.0.1:4000", []string{"192.0.2.1, 198.51.100.1"}, "198.51.100.1"},
		"spoofed with a proxy's address": {
			"10.0.0.1:4000", []string{"192.0.2.1, 10.0.0.2, 198.51.100.1"}, "198.51.100.1",
		},
		"spoofed in a line of its own": {"10.0.0.1:4000", []string{"192.0.2.1", "198.51.100.1"}, "198.51.100.1"},
		"garbage on the left":          {"10.0.0.1:4000", []string{"<script>,, 198.51.100.1"}, "198.51.100.1"},
		"garbage of a proxy":           {"10.0.0.1:4000", []string{"192.0.2.1, unknown"}, ""},
		"nothing of a proxy":           {"10.0.0.1:4000", []string{""}, ""},
		"an empty place":               {"10.0.0.1:4000", []string{"192.0.2.1, "}, ""},
		"leading zeros":                {"10.0.0.1:4000", []string{"192.000.002.001"}, ""},
		"a number":                     {"10.0.0.1:4000", []string{"3221225985"}, ""},
		"a network":                    {"10.0.0.1:4000", []string{"192.0.2.0/24"}, ""},
		"a zone":                       {"10.0.0.1:4000", []string{"fe80::1%eth0"}, ""},
		"a name":                       {"10.0.0.1:4000", []string{"localhost"}, ""},
		"all are proxies":              {"10.0.0.1:4000", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		"with a port":                  {"10.0.0.1:4000", []string{"198.51.100.1:33000"}, "198.51.100.1"},
		"IPv6":                         {"10.0.0.1:4000", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv6 with a port":             {"10.0.0.1:4000", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		"IPv6 in brackets":             {"10.0.0.1:4000", []string{"[2001:db8::1]"}, "2001:db8::1"},
		"IPv4 in IPv6":                 {"10.0.0.1:4000", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		"a peer that is IPv4 in IPv6":  {"[::ffff:10.0.0.1]:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"a proxy with IPv6":            {"[fd00::1]:4000", []string{"198.51.100.1"}, "198.51.100.1"},
		"a peer that is none":          {"@", []string{"198.51.100.1"}, ""},
		"many hops": {
			"10.0.0.1:4000", []string{"198.51.100.1" + strings.Repeat(", 10.0.0.2", 50)}, "",
		},
		"many unread hops": {
			"10.0.0.1:4000", []string{strings.Repeat("192.0.2.1, ", 50) + "198.51.100.1"}, "198.51.100.1",
		},
		"a stranger inside the list behind": {
			"10.0.0.1:4000", []string{"192.0.2.1, 198.51.100.1, 10.0.0.2"}, "198.51.100.1",
		},
	} {
		got := ours.clientAddr(c.peer, c.forwarded)
		if got.IsValid() != (c.want != "") || c.want != "" && got.String() != c.want {
			t.Errorf("%s: got %v, want %q", name, got, c.want)
		}
		if alone := Proxies(nil).clientAddr(c.peer, c.forwarded); alone != parseHop(c.peer) {
			t.Errorf("%s, without proxies: got %v, want the peer", name, alone)
		}
	}
}

// FuzzForwarded promises that the part of the header that a stranger wrote never counts, and that
// no header makes the parser panic.
func FuzzForwarded(f *testing.F) {
	for _, seed := range []string{
		"",
		"10.0.0.1", "192.0.2.1, ", "[::1]:80", ",,,", "::ffff:10.0.0.1", "10.0.0.1:99999", "fe80::1%x",
		"1.2.3.4, 10.0.0.2",
	} {
		f.Add(seed)
	}
	ours := proxies("10.0.0.0/8")
	stranger := netip.MustParseAddr("198.51.100.1")
	f.Fuzz(func(t *testing.T, text string) {
		for _, lines := range [][]string{
			{text + ", 198.51.100.1"}, {text, "198.51.100.1"}, {text + ",198.51.100.1, 10.0.0.9"},
		} {
			if got := ours.clientAddr("10.0.0.1:4000", lines); got != stranger {
				t.Errorf("%q: got %v, want %v", lines, got, stranger)
			}
		}
		if got := ours.clientAddr("203.0.113.9:1", []string{text}); got.String() != "203.0.113.9" {
			t.Errorf("%q of a stranger: got %v, want the peer", text, got)
		}
		if got := ours.clientAddr("10.0.0.1:4000", []string{text}); got.IsValid() &&
			(got.Is4In6() || got.Zone() != "") {
			t.Errorf("%q: got %v, want it normalized", text, got)
		}
	})
}
