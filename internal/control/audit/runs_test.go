package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// export returns an export without its first line, which has the time.
func (d *desk) export() string {
	d.t.Helper()
	var b bytes.Buffer
	if _, err := audit.Export(d.t.Context(), d.db, &b); err != nil {
		d.t.Fatal(err)
	}
	_, rows, _ := strings.Cut(b.String(), "\n")
	return rows
}

// A run changes nothing of what is signed and exported. Rule AUDIT-1.
func TestRunsGiveTheSamePositionsAndHashesAsSealsOfSingleRows(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var late []func()
	for i := range 40 {
		d.write(fmt.Sprint("a", i), fmt.Sprint("b", i))
		if i%7 == 3 {
			// Rows that are never committed leave gaps in the ids.
			d.count(`SELECT max(nextval('audit_log_audit_id_seq')) FROM generate_series(1, 3)`)
		}
		if i%11 == 5 {
			tx := pgtest.BeginOwner(t, d.db)
			if _, err := tx.Exec(t.Context(), insertRow, fmt.Sprint("late", i)); err != nil {
				t.Fatal(err)
			}
			late = append(late, func() {
				if err := tx.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
	for _, commit := range late[:2] {
		commit()
	}
	d.super.Reset()
	for _, commit := range late[2:] {
		commit()
	}
	twin := d.twin()
	twin.sealAlone()
	want, got := twin.sealed(), d.sealed()
	if n := d.count(`SELECT count(*) FROM audit_seal`); n != 0 || got != want || want != 84 {
		t.Errorf("got %d rows in runs and %d alone, want all 84 in runs", got, n)
	}
	if d.export() != twin.export() {
		t.Errorf("got the export\n%swant that of rows sealed by themselves\n%s", d.export(), twin.export())
	}
}

const insertRow = `
	INSERT INTO audit_log (at, actor_kind, actor_id, action, resource_kind, resource_id)
	VALUES (now(), 'SYSTEM', 'test', 'thing.done', 'THING', $1)`

// twin returns a desk with a copy of the database.
func (d *desk) twin() *desk {
	d.t.Helper()
	d.super.Reset()
	db := pgtest.Open(d.t, pgtest.CopyDatabase(d.t, pgtest.DatabaseOf(d.t, d.db)), time.Now)
	twin := *d
	twin.db, twin.super, twin.sealer = db, pgtest.OwnerPool(d.t, db), audit.Sealer{DB: db}
	twin.anchorer.DB = db
	return &twin
}

// Rows that were sealed before the upgrade, rows that commit late over it, and runs are one chain.
func TestAChainOfBothKindsIsOneChain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	org := newOrganization(t, d.db)
	d.sealAlone()
	recordFor(t, d.db, org, "alone1", "alone2")
	late := pgtest.BeginOwner(t, d.db)
	if _, err := late.Exec(t.Context(), insertRow, "late"); err != nil {
		t.Fatal(err)
	}
	recordFor(t, d.db, org, "alone3")
	alone := d.sealed()
	d.anchor()
	follower := follow(t, d.db)
	watch := follower.StartWatch("", waitKnown(t, follower))
	defer watch.Close()
	if _, err := d.super.Exec(t.Context(), `UPDATE audit_chain SET runs_from = now() + interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	// The follower's own sealer may be at work, so that a step of this one does nothing.
	waitSealed := func(want int) {
		t.Helper()
		pgtest.Eventually(t, func() bool { return d.sealed() == want }, "%d rows are sealed", want)
	}
	recordFor(t, d.db, org, "alone4")
	waitSealed(alone + 1)
	if n := d.count(`SELECT count(*) FROM audit_runs`); n != 0 {
		t.Errorf("got %d runs before their time", n)
	}
	d.sealInRuns()
	recordFor(t, d.db, org, "run1")
	waitSealed(alone + 2)
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	recordFor(t, d.db, org, "run2")
	// Once there are runs, a date does not end them.
	d.sealAlone()
	waitSealed(alone + 4)
	if n := d.count(`SELECT count(*) FROM audit_seal`); n != alone+1 {
		t.Errorf("got %d rows sealed alone, want %d alone and three in runs", n, alone+1)
	}
	if f := d.examined(); !f.IsIntact() || f.Rows != int64(alone+4) || f.Unsealed != 0 ||
		f.AnchoredRows != int64(alone) {
		t.Errorf("got %+v, want one intact chain", f)
	}
	if got, want := waitResources(t, watch, 4), []string{"alone4", "run1", "late", "run2"}; !slices.Equal(got, want) {
		t.Errorf("got %q from the live feed, want %q", got, want)
	}
	var ids []int64
	err := d.db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
		found, err := audit.List(ctx, tx, audit.Filter{OrgID: org}, pagination.Page{Limit: 50})
		for _, row := range found.Items {
			ids = append(ids, row.ID)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	d.anchor()
	seals, err := audit.LoadOrgSeals(t.Context(), d.db, org, ids)
	if err != nil || len(seals.Sealed) != len(ids) || !seals.IsSigned || seals.Hash != d.hashAt(alone+4) {
		t.Errorf("got %+v and %v, want all %d entries sealed and signed", seals, err, len(ids))
	}
	for first := range int64(alone + 4) {
		for _, broken := range d.examineLive(first + 1) {
			t.Errorf("the examination from position %d on found %q", first+1, broken)
		}
	}
}

// hashAt reads the hash at a position.
func (d *desk) hashAt(position int) (hash string) {
	d.t.Helper()
	if err := d.super.QueryRow(
		d.t.Context(), `SELECT encode(`+audit.HashAt("$1::bigint")+`, 'hex')`, position,
	).Scan(&hash); err != nil {
		d.t.Fatal(err)
	}
	return hash
}

// examineLive recomputes the chain from a position on in the database, with its anchors.
func (d *desk) examineLive(first int64) (broken []string) {
	d.t.Helper()
	if err := d.db.ReadSystem(d.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		end, err := audit.LoadEnd(ctx, tx)
		if err != nil {
			return err
		}
		broken, err = audit.ExamineRange(ctx, tx, end.Chain, first, end.Position)
		return err
	}); err != nil {
		d.t.Fatal(err)
	}
	return broken
}

// What only a run has: hashes in one text, and ids in one range. Rule AUDIT-2.
func TestARunThatWasChangedNamesItsRow(t *testing.T) {
	t.Parallel()
	const unguarded = `ALTER TABLE audit_runs DROP CONSTRAINT audit_runs_whole`
	for name, c := range map[string]struct {
		tamper []string
		want   string
	}{
		"a hash": {
			[]string{`UPDATE audit_runs SET hashes = set_byte(hashes, 100, 255 - get_byte(hashes, 100))`},
			"row 4 (id 4",
		},
		"two hashes exchanged": {
			[]string{`UPDATE audit_runs SET hashes =
			substr(hashes, 1, 64) || substr(hashes, 97, 32) || substr(hashes, 65, 32) || substr(hashes, 129)`},
			"row 3 (id 3",
		},
		"an id exchanged": {
			[]string{`UPDATE audit_runs SET ids = '{[1,4),[5,7),[9,10)}'`}, "row 4 (id 5",
		},
		"a place inside": {[]string{
			unguarded,
			`UPDATE audit_runs SET ids = '{[1,4),[5,7)}', hashes = substr(hashes, 1, 96) || substr(hashes, 129)`,
		}, "row 4 (id 5"},
		"a place inside and its count": {[]string{
			unguarded,
			`UPDATE audit_runs SET ids = '{[1,4),[5,7)}', last = 5,
				hashes = substr(hashes, 1, 96) || substr(hashes, 129)`,
		}, "row 4 (id 5"},
		"a place more": {[]string{
			unguarded,
			`INSERT INTO audit_log OVERRIDING SYSTEM VALUE
				SELECT 9, org_id, at, actor_kind, actor_id, action, resource_kind, resource_id, detail
				FROM audit_log WHERE audit_id = 4`,
			`UPDATE audit_runs SET ids = '{[1,7),[9,10)}'`,
		}, "row 7 (id 9)"},
		"hashes cut off": {
			[]string{unguarded, `UPDATE audit_runs SET hashes = substr(hashes, 1, 100)`}, "row 4 (id 4)",
		},
		"a run of no ids": {
			[]string{unguarded, `UPDATE audit_runs SET ids = '{}'`}, "rows at the end were removed",
		},
		"all of the run": {[]string{`DELETE FROM audit_runs`}, "rows at the end were removed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			d.write("e1", "e2", "e3", "e4", "e5", "e6")
			d.sealed()
			if n := d.count(`SELECT count(*) FROM audit_runs WHERE (first, last) = (1, 6)`); n != 1 {
				t.Fatal("the rows are not in one run")
			}
			d.tamper(c.tamper...)
			if f := d.examined(); f.IsIntact() || !strings.Contains(strings.Join(f.Breaks, "\n"), c.want) {
				t.Errorf("got %q, want %q", f.Breaks, c.want)
			}
			if broken := d.examineLive(1); len(broken) == 0 && name != "a place more" {
				t.Error("the examination found nothing")
			}
		})
	}
}

// The database refuses a place that is not the next one, and a row that has one. Rule AUDIT-1.
func TestTheDatabaseTakesNoRowAndNoPositionTwice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		alone      bool // the first rows
		sql        string
		constraint string
	}{
		"a position of a run":   {false, run(4, 5, "{[5,7)}"), "audit_runs_follow"},
		"the positions of all":  {false, run(1, 2, "{[5,7)}"), "audit_runs_follow"},
		"a position of a seal":  {true, run(4, 5, "{[5,7)}"), "audit_runs_follow"},
		"a row of a run":        {false, run(5, 6, "{[4,6)}"), "audit_runs_once"},
		"a row amid a run":      {false, run(5, 6, "{[2,3),[5,6)}"), "audit_runs_once"},
		"a row of a seal":       {true, run(5, 6, "{[1,2),[5,6)}"), "audit_runs_once"},
		"more rows than places": {false, run(5, 6, "{[5,8)}"), "audit_runs_whole"},
		"fewer rows":            {false, run(5, 6, "{[5,6)}"), "audit_runs_whole"},
		"rows without end":      {false, run(5, 6, "{[5,)}"), "audit_runs_whole"},
		"no rows":               {false, run(5, 6, "{}"), "audit_runs_whole"},
		"fewer hashes": {
			false, strings.Replace(run(5, 6, "{[5,7)}"), "repeat('x', 32)", "repeat('x', 0)", 1),
			"audit_runs_whole",
		},
		"an end that the chain does not have": {false, run(5, 7, "{[5,8)}"), "audit_runs_follow"},
		"another hash than the chain's": {
			false, strings.Replace(run(5, 6, "{[5,7)}"), "c.hash", "set_byte(c.hash, 0, 255 - get_byte(c.hash, 0))", 1),
			"audit_runs_follow",
		},
		"a seal behind a run": {
			false, `INSERT INTO audit_seal SELECT 5, 5, hash FROM audit_chain`, "audit_seal_before_runs",
		},
		"a changed run":          {false, `UPDATE audit_runs SET hashes = hashes`, "audit_runs_append_only"},
		"a deleted run":          {false, `DELETE FROM audit_runs`, "audit_runs_append_only"},
		"all right":              {false, run(5, 6, "{[5,7)}"), ""},
		"all right behind seals": {true, run(5, 6, "{[5,6),[9,10)}"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			if c.alone {
				d.sealAlone()
			}
			d.write("a", "b", "c", "d")
			d.sealed()
			d.tamper(`UPDATE audit_chain SET position = 6, hash = sha256(hash)`)
			_, err := d.super.Exec(t.Context(), c.sql)
			if c.constraint == "" {
				if err != nil {
					t.Errorf("got %v, want it taken", err)
				}
			} else if !pg.ViolatesConstraint(err, c.constraint) {
				t.Errorf("got %v, want %s", err, c.constraint)
			}
		})
	}
}

// run returns a statement that writes a run that ends as the chain ends.
func run(first, last int, ids string) string {
	return fmt.Sprintf(`INSERT INTO audit_runs (first, last, ids, hashes)
		SELECT %d, %d, '%s', convert_to(repeat('x', 32), 'UTF8') || repeat('y', 32 * %d)::bytea || c.hash
		FROM audit_chain c`,
		first, last, ids, max(last-first-1, 0))
}

// However long the log is, a look reads few runs.
func TestAPlaceIsFoundByItsIndex(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	org := newOrganization(t, d.db)
	super := pgtest.Superuser(t, d.db)
	if _, err := super.Exec(t.Context(), `
		INSERT INTO audit_log (org_id, at, actor_kind, actor_id, action, resource_kind, resource_id)
		SELECT $1, now(), 'OPERATOR', 'opr_1', 'thing.done', 'THING', 'thing_' || n
		FROM generate_series(1, 20000) n`, org,
	); err != nil {
		t.Fatal(err)
	}
	d.sealer.Hasten(20)
	total := d.sealed()
	if _, err := super.Exec(t.Context(), `VACUUM (ANALYZE) audit_runs, audit_log`); err != nil {
		t.Fatal(err)
	}
	if runs := d.count(`SELECT count(*) FROM audit_runs`); runs < 1000 {
		t.Fatalf("got %d runs, want so many that a whole look is seen", runs)
	}
	for name, sql := range map[string]string{
		"the hash at a position": `SELECT ` + audit.HashAt("$1::bigint"),
		"the place of a row":     `SELECT position, hash FROM ` + audit.SealOf("$1::bigint") + ` p`,
		"the places of a few positions": `SELECT position, audit_id FROM ` +
			audit.SealsBetween("$1::bigint", "$1::bigint + 30") + ` p`,
		"whether a row is sealed": `SELECT ` + audit.IsSealed("$1::bigint"),
		"the oldest unsealed row": audit.OldestUnsealed + ` OFFSET $1::bigint - $1`,
	} {
		err := d.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			tx, reads := pgtest.WatchReads(tx)
			rows, err := tx.Query(ctx, sql, total/2)
			if err != nil {
				return err
			}
			rows.Close()
			reads.CheckRows(t, name, 150)
			return rows.Err()
		})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
