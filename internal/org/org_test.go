package org_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cofferpay/coffer/internal/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pagination"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/pg/pgtest"
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
	if got, err := org.NewAuthenticator(db).Authenticate(ctx, key.Reveal(), netip.Addr{}); err != nil ||
		got.OrgID != o.ID || got.KeyID != org.MainKeyID || !got.HasScope(org.ScopeMainKey) {
		t.Errorf("got %v %v, want %v", got, err, o.ID)
	}
	rolled, err := org.RollKey(ctx, db, audit.Operator("op"), o.ID)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := org.NewAuthenticator(db).Authenticate(ctx, rolled.Reveal(), netip.Addr{}); err != nil ||
		got.OrgID != o.ID || got.KeyID != org.MainKeyID || !got.HasScope(org.ScopeMainKey) {
		t.Errorf("got %v %v, want %v", got, err, o.ID)
	}
	// Missing, malformed, unknown and rolled are one refusal, word for word.
	var first *fault.Fault
	for _, presented := range []string{
		"",
		"ck_", key.Reveal(), rolled.Reveal() + "\n", " " + rolled.Reveal(), rolled.Reveal()[:45],
		"ck_" + strings.Repeat("A", 43), strings.Repeat("x", 1<<20), "\x00\xff",
	} {
		got, err := org.NewAuthenticator(db).Authenticate(ctx, presented, netip.Addr{})
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
		if _, err := org.NewAuthenticator(db).Authenticate(ctx, key.(string), netip.Addr{}); err == nil {
			live++
		}
	}
	if live != 1 {
		t.Errorf("got %d live keys, want 1 (%d rolls refused)", live, refused.Load())
	}
}

func TestSettingsAreKeptAndAudited(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	limit := money.MustParseUSD("10000.50")
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), o.ID, &limit); err != nil {
			return err
		}
		if err := org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), o.ID, nil); err != nil {
			return err
		}
		if err := org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), o.ID, &limit); err != nil {
			return err
		}
		return org.SetRequireWithdrawIdempotency(ctx, tx, audit.Operator("op"), o.ID, true)
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
		s, err := org.SettingsOf(ctx, tx, o.ID)
		if err != nil {
			return err
		}
		if s.CustomerWithdrawUSDThreshold == nil || *s.CustomerWithdrawUSDThreshold != limit ||
			!s.RequireWithdrawIdempotency {
			t.Errorf("got %+v, want the threshold of 10000.50 and the idempotency", s)
		}
		rows, err := audit.List(ctx, tx, audit.Filter{Action: "settings.changed"}, pagination.Page{})
		if err != nil {
			return err
		}
		if len(rows.Items) != 4 || !strings.Contains(string(rows.Items[1].Detail), `"from": "10000.5"`) {
			t.Errorf("got %+v, want four rows, the second from 10000.5", rows.Items)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return org.SetWithdrawThreshold(ctx, tx, audit.User("usr_1"), "org_none", &limit)
	})
	if !fault.HasCode(err, fault.CodeNotFound) {
		t.Errorf("got %v, want %v", err, fault.CodeNotFound)
	}
}

func TestNoRequestThatStartsAfterARollIsLetIn(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, old, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	door := org.NewAuthenticator(db)
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
