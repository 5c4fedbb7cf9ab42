package org_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
)

func TestAnIPListIsReadInOneForm(t *testing.T) {
	t.Parallel()
	got, err := org.ParseIPAllowlist(
		[]string{"2001:DB8::7/32", "203.0.113.7", "::ffff:203.0.113.7", "10.1.2.3/8", "::ffff:198.51.100.9/120", "::1"},
	)
	if want := "[10.0.0.0/8 198.51.100.0/24 203.0.113.7/32 ::1/128 2001:db8::/32]"; err != nil ||
		fmt.Sprint(got) != want {
		t.Errorf("got %v %v, want %v", got, err, want)
	}
	if got, err := org.ParseIPAllowlist(nil); err != nil || len(got) != 0 {
		t.Errorf("nothing: got %v %v, want an empty list", got, err)
	}
	many := make([]string, 257)
	for i := range many {
		many[i] = fmt.Sprintf("10.0.%d.%d", i/256, i%256)
	}
	if _, err := org.ParseIPAllowlist(many); !fault.HasCode(err, fault.InvalidRequest) {
		t.Errorf("257 entries: got %v, want %v", err, fault.InvalidRequest)
	}
	if _, err := org.ParseIPAllowlist(many[:256]); err != nil {
		t.Errorf("256 entries: got %v, want them taken", err)
	}
	for _, bad := range []string{
		"", " 10.0.0.1", "10.0.0.1 ", "10.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "010.0.0.1", "localhost",
		"10.0.0.1:80", "fe80::1%eth0",
		"fe80::%eth0/64", "0.0.0.0/0", "::/0", "::ffff:0.0.0.0/90", "::ffff:1.2.3.4/96", "[::1]", "\u0663.0.0.1",
		strings.Join(many, ","),
	} {
		if _, err := org.ParseIPAllowlist([]string{"10.0.0.0/8", bad}); !fault.HasCode(err, fault.InvalidRequest) ||
			fault.Find(err).Param != "ipAllowlist" {
			t.Errorf("%.60q: got %v, want %v on ipAllowlist", bad, err, fault.InvalidRequest)
		}
	}
}

func FuzzParsePrefix(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "::ffff:1.2.3.4/100", "fe80::1%x", "1.2.3.4/0", "::/128"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := org.ParsePrefix(text)
		if err != nil {
			return
		}
		if again, err := org.ParsePrefix(p.String()); err != nil || again != p || p != p.Masked() ||
			p.Addr().Is4In6() || p.Addr().Zone() != "" {
			t.Errorf("%q: got %v, which is read as %v %v", text, p, again, err)
		}
	})
}
