package audit_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Each list of an organization is read by an index in its order: neither the whole log nor the entries of
// the organization are read for one page.
func TestAListReadsItsPageAndNotTheLog(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org, other := newOrganization(t, db), newOrganization(t, db)
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id)
		SELECT CASE n %% 3 WHEN 0 THEN '%[1]s' ELSE '%[2]s' END, now() + n * interval '1 second',
			CASE n %% 90 WHEN 0 THEN 'USER' ELSE 'API_KEY' END, CASE n %% 90 WHEN 0 THEN 'usr_1' ELSE '%[1]s' END,
			CASE n %% 3000 WHEN 0 THEN 'thing.rare' ELSE 'thing.done' END, 'THING', 'thing_' || n / 6
		FROM generate_series(1, 30000) n`, org, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `ANALYZE audit_log`); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		filter audit.Filter
		index  string
		rows   int
	}{
		"all":                 {audit.Filter{}, "audit_log_of_organization", 51},
		"a frequent action":   {audit.Filter{Action: "thing.done"}, "audit_log_of_", 51},
		"a rare action":       {audit.Filter{Action: "thing.rare"}, "audit_log_of_action", 10},
		"an unknown action":   {audit.Filter{Action: "thing.none"}, "audit_log_of_action", 0},
		"a resource":          {audit.Filter{ResourceID: "thing_500"}, "audit_log_resource", 2},
		"a person":            {audit.Filter{MemberID: "usr_1"}, "audit_log_of_person", 51},
		"an unknown person":   {audit.Filter{MemberID: "usr_2"}, "audit_log_of_person", 0},
		"a person and an act": {audit.Filter{MemberID: "usr_1", Action: "thing.rare"}, "audit_log_of_", 3},
	} {
		c.filter.OrgID = org
		p := pagination.Page{Limit: 50, Desc: true}
		err := db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			sql, args := c.filter.Query().BuildPage(p, "at", "audit_id")
			rows, err := tx.Query(ctx, "EXPLAIN "+sql, pg.Planned(true, args)...)
			if err != nil {
				return err
			}
			plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
			if err != nil {
				return err
			}
			if all := strings.Join(plan, "\n"); !strings.Contains(all, c.index) || strings.Contains(all, "Seq Scan") {
				t.Errorf("%s: got the plan\n%s\nwant it entered by %s", name, all, c.index)
			}
			found, err := audit.List(ctx, tx, c.filter, p)
			if got := len(found.Items); err == nil && got != min(c.rows, p.Limit) {
				t.Errorf("%s: got %d rows, want %d", name, got, min(c.rows, p.Limit))
			}
			if got, want := found.NextCursor != nil, c.rows > p.Limit; err == nil && got != want {
				t.Errorf("%s: got a next page %v, want %v", name, got, want)
			}
			for _, row := range found.Items {
				if row.OrgID != org || c.filter.MemberID != "" && row.Actor != audit.User(c.filter.MemberID) {
					t.Errorf("%s: got %+v, want an entry of the filter", name, row)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A table has every entry of the filter in its order, and those of no other organization.
func TestEachEntryOfAFilterIsReadOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org, other := newOrganization(t, db), newOrganization(t, db)
	recordFor(t, db, org, "a", "b", "c")
	recordFor(t, db, other, "d")
	var got []string
	err := db.SnapshotOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		f := audit.Filter{OrgID: org, Action: "thing.done"}
		return audit.ForEach(ctx, tx, f, true, func(row audit.Row) error {
			got = append(got, row.ResourceID)
			return nil
		})
	})
	if all := strings.Join(got, " "); err != nil || all != "c b a" {
		t.Errorf("got %q and %v, want the entries of the organization, newest first", all, err)
	}
}

// Rule PAGE-12.
func TestTheSealOfAnOrganizationIsThatOfItsOwnEntries(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	org, other := newOrganization(t, d.db), newOrganization(t, d.db)
	entries := func(of string) (ids []int64) {
		err := d.db.ReadOrg(t.Context(), of, func(ctx context.Context, tx pg.Tx) error {
			found, err := audit.List(ctx, tx, audit.Filter{OrgID: of}, pagination.Page{Desc: true, Limit: 50})
			for _, row := range found.Items {
				ids = append(ids, row.ID)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	load := func(of string, ids []int64) audit.OrgSeals {
		seals, err := audit.LoadOrgSeals(t.Context(), d.db, of, ids)
		if err != nil {
			t.Fatal(err)
		}
		return seals
	}
	if got := load(org, entries(org)); got.Hash != "" || !got.SealedThrough.IsZero() || len(got.Sealed) != 0 {
		t.Errorf("got %+v before the sealer ran, want nothing sealed", got)
	}
	recordFor(t, d.db, org, "a")
	d.sealed()
	recordFor(t, d.db, other, "b")
	d.sealed()
	before := load(org, entries(org))
	if before.IsSigned || before.SealedThrough.IsZero() || len(before.Hash) != 64 || !before.Sealed[entries(org)[0]] {
		t.Errorf("got %+v, want the newest entry sealed and not signed", before)
	}
	if want := d.count(`SELECT count(*) FROM audit_runs r JOIN audit_log a ON r.ids @> a.audit_id
		WHERE a.org_id = $1 AND a.resource_id = 'a' AND a.audit_id = upper(r.ids) - 1
			AND encode(substr(r.hashes, length(r.hashes) - 31), 'hex') = $2`, org, before.Hash); want != 1 {
		t.Errorf("got the hash %s, want that of the newest entry of the organization", before.Hash)
	}
	if got := load(org, entries(other)); len(got.Sealed) != 0 {
		t.Errorf("got %v of another organization", got.Sealed)
	}
	d.anchor()
	recordFor(t, d.db, org, "c")
	after := load(org, entries(org))
	if !after.IsSigned || after.Hash != before.Hash || after.Sealed[entries(org)[0]] || !after.Sealed[entries(org)[1]] {
		t.Errorf("got %+v, want the entry from before signed and the newest one not sealed", after)
	}
	d.sealed()
	if got := load(org, entries(org)); got.IsSigned || got.Hash == before.Hash || !got.Sealed[entries(org)[0]] {
		t.Errorf("got %+v, want the newest entry sealed and not signed", got)
	}
}

// The newest entries of all organizations are read by their numbers, page by page, and those of one resource
// by its index. Rule PAGE-73.
func TestTheNewestEntriesAreReadPageByPage(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	org, other := newOrganization(t, db), newOrganization(t, db)
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), fmt.Sprintf(`
		INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id)
		SELECT CASE n %% 3 WHEN 0 THEN '%[1]s' WHEN 1 THEN '%[2]s' END, now(), 'OPERATOR', 'opr_1', 'thing.done',
			'THING',
			CASE n %% 1000 WHEN 0 THEN 'thing_rare' ELSE 'thing_' || n END
		FROM generate_series(1, 20000) n`, org, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := pgtest.OwnerPool(t, db).Exec(t.Context(), `ANALYZE audit_log`); err != nil {
		t.Fatal(err)
	}
	walk := func(resourceID string, limit int) (pages [][]audit.Row) {
		before := int64(0)
		for len(pages) == 0 || len(pages[len(pages)-1]) == limit && len(pages) < 5 {
			err := db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				tx, reads := pgtest.WatchReads(tx)
				found, err := audit.ListNewest(ctx, tx, resourceID, before, limit)
				pages = append(pages, found)
				reads.CheckRows(t, fmt.Sprintf("entries of %q before %d", resourceID, before), limit+5)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if last := pages[len(pages)-1]; len(last) > 0 {
				before = last[len(last)-1].ID
			}
		}
		return pages
	}
	orgs := map[string]bool{}
	last := int64(0)
	for _, page := range walk("", 50) {
		for _, row := range page {
			if last != 0 && row.ID >= last {
				t.Fatalf("got entry %d after %d, want the newest first and each once", row.ID, last)
			}
			last, orgs[row.OrgID] = row.ID, true
		}
	}
	if len(orgs) != 3 || !orgs[""] {
		t.Errorf("got entries of %v, want those of both organizations and of the installation", orgs)
	}
	var rare int
	for _, page := range walk("thing_rare", 15) {
		for _, row := range page {
			if rare++; row.ResourceID != "thing_rare" || row.Actor != audit.Operator("opr_1") ||
				row.Action != "thing.done" {
				t.Errorf("got %+v, want an entry of the resource", row)
			}
		}
	}
	if rare != 20 {
		t.Errorf("got %d entries of the resource, want its 20", rare)
	}
}
