package audit_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func TestWhatWasDoneIsReadInItsOrderAndByItsOwner(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	for _, org := range []string{"org_a", "org_b"} {
		if _, err := pgtest.OwnerPool(t, db).Exec(
			ctx, `INSERT INTO organizations VALUES ($1, $1, now())`, org,
		); err != nil {
			t.Fatal(err)
		}
	}
	do := func(org, action, resource string) audit.Entry {
		return audit.Entry{
			OrgID: org, Actor: audit.User("usr_1"), Action: action, ResourceKind: "THING", ResourceID: resource,
			Detail: map[string]string{"why": action},
		}
	}
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return audit.Record(ctx, tx, do("org_a", "thing.made", "1"), do("org_b", "thing.made", "2"),
			do("org_a", "thing.broken", "1"), do("", "service.started", "x"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var walked []string
	p := pagination.Page{Limit: 1}
	for {
		err := db.ReadOrg(ctx, "org_a", func(ctx context.Context, tx pg.Tx) error {
			r, err := audit.List(ctx, tx, audit.Filter{}, p)
			if err != nil {
				return err
			}
			for _, row := range r.Items {
				walked = append(walked, row.Action)
				if row.Actor != audit.User("usr_1") || !strings.Contains(string(row.Detail), row.Action) ||
					row.OrgID != "org_a" {
					t.Errorf("got %+v, want what was recorded", row)
				}
			}
			p.Cursor = r.NextCursor
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if p.Cursor == nil {
			break
		}
	}
	if got := strings.Join(walked, " "); got != "thing.made thing.broken" {
		t.Errorf("got %v, want org_a's two acts in their order", got)
	}
	err = db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		r, err := audit.List(ctx, tx, audit.Filter{ResourceID: "1", Action: "thing.broken", OrgID: "org_a"},
			pagination.Page{Desc: true})
		if err == nil && len(r.Items) != 1 {
			t.Errorf("got %+v, want one row", r.Items)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestAnActStandsOnlyWithItsChange(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	stopped := errors.New("stopped before the commit")
	err := db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := audit.Record(
			ctx, tx, audit.Entry{Actor: audit.System("test"), Action: "a", ResourceKind: "b", ResourceID: "c"},
		); err != nil {
			return err
		}
		return stopped
	})
	if !errors.Is(err, stopped) {
		t.Errorf("got %v, want %v", err, stopped)
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := audit.Record(
			ctx, tx, audit.Entry{Actor: audit.Actor{Kind: "GHOST"}, Action: "a", ResourceKind: "b", ResourceID: "c"},
		); !pg.ViolatesConstraint(err, "audit_log_actor_known") {
			t.Errorf("got %v, want a refusal of the actor", err)
		}
		return stopped
	})
	if !errors.Is(err, stopped) {
		t.Errorf("got %v, want %v", err, stopped)
	}
	var n int
	if err := pgtest.OwnerPool(t, db).QueryRow(ctx, `SELECT count(*) FROM audit_log`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("got %d rows, want 0", n)
	}
}
