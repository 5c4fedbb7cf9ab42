package apikey_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/apikey"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Rule AUTH-1.
func TestOnlyTheLiveKeyOpens(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, key, err := org.Create(ctx, db, " Acme ")
	if err != nil {
		t.Fatal(err)
	}
	if len(key.Reveal()) != 46 || !strings.HasPrefix(key.Reveal(), "ck_") || o.Name != "Acme" {
		t.Errorf("got %q of %q, want ck_ and 43 characters", key.Reveal(), o.Name)
	}
	if got, err := apikey.NewAuthenticator(db).Authenticate(ctx, key.Reveal(), netip.Addr{}); err != nil ||
		got.OrgID != o.ID || got.KeyID != apikey.MainID || !got.IsAllowed(identity.ManageKeys) {
		t.Errorf("got %v %v, want %v", got, err, o.ID)
	}
	rolled, err := org.RollKey(ctx, db, audit.Operator("op"), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := apikey.NewAuthenticator(db).Authenticate(ctx, rolled.Reveal(), netip.Addr{}); err != nil ||
		got.OrgID != o.ID || got.KeyID != apikey.MainID || !got.IsAllowed(identity.ManageKeys) {
		t.Errorf("got %v %v, want %v", got, err, o.ID)
	}
	// Missing, malformed, unknown and rolled are one refusal, word for word.
	var first *fault.Fault
	for _, presented := range []string{
		"",
		"ck_", key.Reveal(), rolled.Reveal() + "\n", " " + rolled.Reveal(), rolled.Reveal()[:45],
		"ck_" + strings.Repeat("A", 43), strings.Repeat("x", 1<<20), "\x00\xff",
	} {
		got, err := apikey.NewAuthenticator(db).Authenticate(ctx, presented, netip.Addr{})
		f := fault.Find(err)
		if got.OrgID != "" || f == nil || f.Code != fault.CodeUnauthorized {
			t.Errorf("%.50q: got %v %v, want %v", presented, got, err, fault.CodeUnauthorized)
			continue
		}
		if first == nil {
			first = f
		}
		if f.Error() != first.Error() || f.Kind != first.Kind || f.Details != nil || f.Extra != nil {
			t.Errorf("%.50q: got %v, want %v", presented, f, first)
		}
	}
}

func TestAKeyIsNowhereReadable(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	_, key, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(map[string]any{"key": key})
	if err != nil {
		t.Fatal(err)
	}
	shown := fmt.Sprint(key) + fmt.Sprintf("%v %+v %#v %s %q", key, key, key, key, key) + string(encoded)
	if strings.Contains(shown, key.Reveal()) {
		t.Error("the key prints")
	}
	var stored string
	if err := pgtest.OwnerPool(t, db).QueryRow(
		ctx, `SELECT string_agg(k::text, '') || (SELECT string_agg(a::text, '') FROM audit_log a) FROM api_keys k`,
	).Scan(&stored); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(stored, key.Reveal()[3:]) {
		t.Error("the key is in the database")
	}
}

func TestRollsAtOnceLeaveOneKey(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	var keys sync.Map
	var refused atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			key, err := org.RollKey(ctx, db, audit.Operator("op"), o.ID)
			switch {
			case err == nil:
				keys.Store(key.Reveal(), true)
			case fault.HasCode(err, fault.InvalidState):
				refused.Add(1)
			default:
				t.Errorf("got %v, want a key or %v", err, fault.InvalidState)
			}
		})
	}
	wg.Wait()
	live := 0
	for key := range keys.Range {
		if _, err := apikey.NewAuthenticator(db).Authenticate(ctx, key.(string), netip.Addr{}); err == nil {
			live++
		}
	}
	if live != 1 {
		t.Errorf("got %d live keys, want 1 (%d rolls refused)", live, refused.Load())
	}
}

func TestNoRequestThatStartsAfterARollIsLetIn(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, old, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	door := apikey.NewAuthenticator(db)
	var rolled atomic.Bool
	var before, after atomic.Int64
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			started := rolled.Load()
			_, err := door.Authenticate(ctx, old.Reveal(), netip.Addr{})
			switch {
			case err == nil && started:
				t.Error("a request that started after the roll was let in")
			case err == nil:
				before.Add(1)
			case fault.HasCode(err, fault.CodeUnauthorized):
				after.Add(1)
			default:
				t.Error(err)
			}
		})
		if before.Load() >= 100 && !rolled.Load() {
			if _, err := org.RollKey(ctx, db, audit.Operator("op"), o.ID); err != nil {
				t.Fatal(err)
			}
			rolled.Store(true)
		}
	}
	if !rolled.Load() {
		if _, err := org.RollKey(ctx, db, audit.Operator("op"), o.ID); err != nil {
			t.Fatal(err)
		}
		rolled.Store(true)
	}
	wg.Wait()
	if _, err := door.Authenticate(ctx, old.Reveal(), netip.Addr{}); !fault.HasCode(err, fault.CodeUnauthorized) {
		t.Errorf("got %v, want %v (%d were let in before, %d refused)", err, fault.CodeUnauthorized, before.Load(),
			after.Load())
	}
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
	door := apikey.NewAuthenticator(db)
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
		t.Errorf("an unknown organization: got %v, want %v", err, fault.CodeNotFound)
	}
}
