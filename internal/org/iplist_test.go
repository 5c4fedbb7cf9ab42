package org_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
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

// Rule AUTH-3.
func TestAListHoldsForTheNextRequest(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, key, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	_, theirs, err := org.Create(ctx, db, "Other")
	if err != nil {
		t.Fatal(err)
	}
	door := org.NewAuthenticator(db)
	set := func(entries ...string) {
		t.Helper()
		list, err := org.ParseIPAllowlist(entries)
		if err != nil {
			t.Fatal(err)
		}
		err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			return org.SetIPAllowlist(ctx, tx, audit.Operator("op"), o.ID, list)
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
			got, err := org.IPAllowlist(ctx, tx, o.ID)
			if !slices.Equal(got, list) {
				t.Errorf("got %v, want %v", got, list)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	admits := func(from string, want bool) {
		t.Helper()
		var at netip.Addr
		if from != "" {
			at = netip.MustParseAddr(from)
		}
		got, err := door.Authenticate(ctx, key.Reveal(), at)
		if want && (err != nil || got.OrgID != o.ID) || !want && !fault.HasCode(err, fault.IPNotAllowed) {
			t.Errorf("%q: got %v, want it let in: %v", from, err, want)
		}
		if _, err := door.Authenticate(ctx, theirs.Reveal(), at); err != nil {
			t.Errorf("%q, of an organization without a list: got %v", from, err)
		}
	}
	admits("203.0.113.7", true)
	admits("", true)
	set("203.0.113.0/24", "2001:db8::1")
	admits("203.0.113.7", true)
	admits("::ffff:203.0.113.7", true)
	admits("2001:db8::1", true)
	admits("2001:db8::2", false)
	admits("203.0.114.7", false)
	admits("", false)
	// A wrong key learns nothing of a list.
	if _, err := door.Authenticate(
		ctx, strings.Repeat("x", 46), netip.MustParseAddr("203.0.114.7"),
	); !fault.HasCode(err, fault.CodeUnauthorized) {
		t.Errorf("a wrong key: got %v, want %v", err, fault.CodeUnauthorized)
	}
	set()
	admits("203.0.114.7", true)
	var changes int
	err = pgtest.OwnerPool(t, db).QueryRow(
		ctx, `SELECT count(*) FROM audit_log WHERE action = 'settings.changed' AND detail->>'setting' = 'ipAllowlist'`,
	).Scan(&changes)
	if err != nil || changes != 2 {
		t.Errorf("audit log: got %d %v, want both changes", changes, err)
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return org.SetIPAllowlist(ctx, tx, audit.Operator("op"), "org_none", nil)
	})
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("nobody's: got %v, want %v", err, fault.CodeNotFound)
	}
}
