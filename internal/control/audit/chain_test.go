package audit_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/audit/audittest"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/internal/signer/local"
	"github.com/cofferpay/coffer/internal/signer/signertest"
)

// desk is an audit log with its sealer and its anchors.
type desk struct {
	t        *testing.T
	db       *pg.DB
	super    *pgxpool.Pool
	sealer   audit.Sealer
	anchorer audit.Anchorer
	signer   *local.Signer
	key      ed25519.PublicKey
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	db := pgtest.New(t)
	s, key := signertest.New(t)
	return &desk{
		t: t, db: db, super: pgtest.OwnerPool(t, db), sealer: audit.Sealer{DB: db}, signer: s, key: key,
		anchorer: audit.Anchorer{DB: db, Signer: s, Key: key},
	}
}

// write records rows, in one transaction.
func (d *desk) write(resources ...string) {
	d.t.Helper()
	err := d.db.InSystem(d.t.Context(), func(ctx context.Context, tx pg.Tx) error {
		var entries []audit.Entry
		for _, r := range resources {
			entries = append(entries, audit.Entry{
				Actor: audit.System("test"), Action: "thing.done", ResourceKind: "THING", ResourceID: r,
				Detail: map[string]any{"of": r, "at": 1},
			})
		}
		return audit.Record(ctx, tx, entries...)
	})
	if err != nil {
		d.t.Fatal(err)
	}
}

// sealed seals all rows that can be sealed and returns how many rows have a position.
func (d *desk) sealed() int {
	d.t.Helper()
	for {
		n, err := d.sealer.Step(d.t.Context())
		if err != nil {
			d.t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	return d.count(countSeals)
}

// countSeals counts the rows that have a position, alone or in a run.
const countSeals = `
	SELECT (SELECT count(*) FROM audit_seal) + (SELECT coalesce(sum(last - first + 1), 0)::bigint FROM audit_runs)`

// sealAlone lets the sealer seal each row by itself, as for a week after an upgrade.
func (d *desk) sealAlone() { d.tamper(`UPDATE audit_chain SET runs_from = 'infinity'`) }

// sealInRuns ends that.
func (d *desk) sealInRuns() { d.tamper(`UPDATE audit_chain SET runs_from = '-infinity'`) }

func (d *desk) count(sql string, args ...any) (n int) {
	d.t.Helper()
	if err := d.super.QueryRow(d.t.Context(), sql, args...).Scan(&n); err != nil {
		d.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

// tamper changes what no role of the program may change.
func (d *desk) tamper(sql ...string) {
	d.t.Helper()
	c, err := d.super.Acquire(d.t.Context())
	if err != nil {
		d.t.Fatal(err)
	}
	defer c.Release()
	for _, one := range append(
		[]string{`SET session_replication_role = replica`}, append(sql, `RESET session_replication_role`)...,
	) {
		if _, err := c.Exec(d.t.Context(), one); err != nil {
			d.t.Fatalf("%s: %v", one, err)
		}
	}
}

func (d *desk) anchor() {
	d.t.Helper()
	if err := d.anchorer.Step(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) anchors() (all []signer.Anchor) {
	d.t.Helper()
	all, err := d.signer.AnchorsAfter(d.t.Context(), 0, 0)
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

// examined exports the log and checks the export, with the anchors of the signer.
func (d *desk) examined() audit.Findings {
	d.t.Helper()
	var export, file bytes.Buffer
	if _, err := audit.Export(d.t.Context(), d.db, &export); err != nil {
		d.t.Fatal(err)
	}
	for _, a := range d.anchors() {
		line, err := json.Marshal(a)
		if err != nil {
			d.t.Fatal(err)
		}
		file.Write(append(line, '\n'))
	}
	anchors, err := audit.ReadAnchors(&file, d.key)
	if err != nil {
		d.t.Fatal(err)
	}
	f, err := audit.CheckExport(&export, anchors, true, d.key)
	if err != nil {
		d.t.Fatal(err)
	}
	return f
}

// Rule AUDIT-1.
func TestEveryRowGetsOnePlaceAfterItsCommit(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	if got := d.sealed(); got != 0 {
		t.Errorf("got %d places in an empty log", got)
	}
	d.write("a", "b", "c")
	if got := d.sealed(); got != 3 {
		t.Errorf("got %d places, want 3", got)
	}
	// A transaction that has its ids and is not committed yet, and one that is rolled back.
	late, err := d.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	given, err := d.super.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const insert = `INSERT INTO audit_log (at, actor_kind, actor_id, action, resource_kind, resource_id) VALUES (now(), 'SYSTEM', 'test', 'thing.done', 'THING', $1)`
	for range 2 {
		if _, err := late.Exec(t.Context(), insert, "late"); err != nil {
			t.Fatal(err)
		}
		if _, err := given.Exec(t.Context(), insert, "given up"); err != nil {
			t.Fatal(err)
		}
	}
	d.write("d", "e")
	for range 3 { // however often it looks
		if got := d.sealed(); got != 5 {
			t.Errorf("got %d places, want 5: what is committed, and not what is not", got)
		}
	}
	if err := given.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := late.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := d.sealed(); got != 7 {
		t.Errorf("got %d places, want 7: those that were committed late, too", got)
	}
	d.sealed()
	// Settled rows are not read again, and no row that may still be committed is settled.
	settled, last := d.count(`SELECT sealed_through FROM audit_chain`), d.count(`SELECT max(audit_id) FROM audit_log`)
	if settled != last {
		t.Errorf("got settled up to %d, want %d", settled, last)
	}
	if f := d.examined(); !f.IsIntact() || f.Rows != 7 || f.Unsealed != 0 {
		t.Errorf("got %+v, want 7 rows, intact", f)
	}
}

// Rule AUDIT-1.
func TestARowStandsBehindWhatWasCommittedBeforeIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	ctx, stop := context.WithCancel(t.Context())
	var running, writing sync.WaitGroup
	for range 3 { // sealers at the same time
		s := &audit.Sealer{DB: d.db}
		s.Hasten(7)
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.Step(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
					return
				}
			}
		})
	}
	const writers, each = 8, 40
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				err := d.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
					if err := audit.Record(ctx, tx, audit.Entry{
						Actor: audit.System("test"), Action: "n", ResourceKind: "W", ResourceID: fmt.Sprint(w),
						Detail: i,
					}); err != nil {
						return err
					}
					if i%9 == 3 {
						_, err := tx.Exec(ctx, `SELECT pg_sleep(0.02)`)
						return err
					}
					if i%11 == 5 {
						return errGivenUp
					}
					return nil
				})
				if err != nil && !errors.Is(err, errGivenUp) {
					t.Error(err)
				}
			}
		})
	}
	writing.Wait()
	pgtest.Eventually(t, func() bool {
		return d.count(countSeals) == d.count(`SELECT count(*) FROM audit_log`)
	}, "every row has its place")
	stop()
	running.Wait()
	if n := d.count(`
		SELECT count(*) FROM (
			SELECT a.resource_id, (a.detail #>> '{}')::int AS nth, lag((a.detail #>> '{}')::int) OVER (PARTITION BY a.resource_id ORDER BY s.position) AS before
			FROM audit_log a JOIN (
				SELECT g.id AS audit_id,
					r.first + row_number() OVER (PARTITION BY r.first ORDER BY g.id) - 1 AS position
				FROM audit_runs r, unnest(r.ids) u, generate_series(lower(u), upper(u) - 1) g (id)) s USING (audit_id)) o
		WHERE before >= nth`); n != 0 {
		t.Errorf("got %d rows before one that was committed before they were written", n)
	}
	if f := d.examined(); !f.IsIntact() || f.Rows != int64(d.count(`SELECT count(*) FROM audit_log`)) {
		t.Errorf("got %+v, want all, intact", f)
	}
}

var errGivenUp = errors.New("given up")

// Rule AUDIT-2.
func TestWhatIsChangedBehindTheServicesBackIsSeen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tamper []string
		want   string // of the export
		live   bool   // Step detects it as well; it reads the last anchor alone
	}{
		"a row deleted": {
			[]string{`DELETE FROM audit_log WHERE audit_id = 4`}, "row 4 (id 4) was deleted", false,
		},
		"a row and its place": {
			[]string{`DELETE FROM audit_log WHERE audit_id = 4`, `DELETE FROM audit_seal WHERE audit_id = 4`},
			"rows 4 to 4 are missing", false,
		},
		"the first row": {
			[]string{`DELETE FROM audit_log WHERE audit_id = 1`, `DELETE FROM audit_seal WHERE audit_id = 1`},
			"rows 1 to 1 are missing", false,
		},
		"a row exchanged": {
			[]string{`UPDATE audit_log SET resource_id = 'x' WHERE audit_id = 4`},
			"row 4 (id 4, thing.done of THING x) was altered", false,
		},
		"its moment": {
			[]string{`UPDATE audit_log SET at = at - interval '1 microsecond' WHERE audit_id = 4`}, "row 4", false,
		},
		"its actor": {
			[]string{`UPDATE audit_log SET actor_kind = 'USER' WHERE audit_id = 4`}, "row 4", false,
		},
		"its actor's name": {
			[]string{`UPDATE audit_log SET actor_id = 'somebody' WHERE audit_id = 4`}, "row 4", false,
		},
		"its act": {
			[]string{`UPDATE audit_log SET action = 'thing.undone' WHERE audit_id = 4`}, "row 4", false,
		},
		"its kind": {
			[]string{`UPDATE audit_log SET resource_kind = 'x' WHERE audit_id = 4`}, "row 4", false,
		},
		"its detail":       {[]string{`UPDATE audit_log SET detail = '{}' WHERE audit_id = 4`}, "row 4", false},
		"its organization": {[]string{`UPDATE audit_log SET org_id = '' WHERE audit_id = 4`}, "row 4", false},
		"its id": {[]string{
			`UPDATE audit_log SET audit_id = DEFAULT WHERE audit_id = 4`,
			`UPDATE audit_seal SET audit_id = 7 WHERE audit_id = 4`,
		}, "row 4", false},
		"two rows exchanged": {[]string{
			`UPDATE audit_log SET resource_id = CASE audit_id WHEN 3 THEN 'e4' ELSE 'e3' END WHERE audit_id IN (3, 4)`,
		}, "row 3", false},
		"two places exchanged": {[]string{
			`UPDATE audit_seal SET audit_id = -audit_id WHERE audit_id IN (3, 4)`,
			`UPDATE audit_seal SET audit_id = CASE audit_id WHEN -3 THEN 4 ELSE 3 END WHERE audit_id < 0`,
		}, "row 3", false},
		"the end cut off": {[]string{
			`DELETE FROM audit_log WHERE audit_id = 6`,
			`DELETE FROM audit_seal WHERE audit_id = 6`,
			`UPDATE audit_chain SET position = 5, hash = (SELECT hash FROM audit_seal WHERE position = 5)`,
		}, "had 6 rows when the signer signed it", true},
		"all cut off": {[]string{
			`DELETE FROM audit_log`,
			`DELETE FROM audit_seal`,
			`UPDATE audit_chain SET position = 0, hash = sha256(convert_to('coffer-audit-1' || chr(10) || chain_id, 'UTF8'))`,
		}, "had 6 rows when the signer signed it", true},
		"the end without its note": {
			[]string{`DELETE FROM audit_log WHERE audit_id = 6`, `DELETE FROM audit_seal WHERE audit_id = 6`},
			"rows at the end were removed", true,
		},
		"the copies as well": {[]string{
			`DELETE FROM audit_log WHERE audit_id = 6`,
			`DELETE FROM audit_seal WHERE audit_id = 6`, `DELETE FROM audit_anchors`,
			`UPDATE audit_chain SET position = 5, hash = (SELECT hash FROM audit_seal WHERE position = 5)`,
		}, "had 6 rows when the signer signed it", true},
		"made anew": {nil, "the chain was built again", true},
	} {
		for alone, kind := range map[int]string{0: "in a run", 3: "in both kinds", 6: "each alone"} {
			t.Run(name+" "+kind, func(t *testing.T) {
				t.Parallel()
				d := newDesk(t)
				d.sealAlone()
				for i := range 6 {
					if i == alone {
						d.sealed()
						d.sealInRuns()
					}
					d.write(fmt.Sprintf("e%d", i+1))
				}
				d.sealed()
				if n := d.count(`SELECT count(*) FROM audit_seal`); n != alone {
					t.Fatalf("got %d rows sealed by themselves, want %d", n, alone)
				}
				d.anchor()
				if f := d.examined(); !f.IsIntact() || f.Anchors != 1 || f.AnchoredRows != 6 {
					t.Fatalf("before: got %+v, want 6 rows, anchored", f)
				}
				if c.tamper != nil {
					d.tamper(audittest.Tamper(c.tamper...)...)
				} else {
					// An attacker who knows this program completely changes a row and rebuilds the
					// chain.
					d.tamper(`UPDATE audit_log SET resource_id = 'x' WHERE audit_id = 2`,
						`DELETE FROM audit_seal`, `DELETE FROM audit_runs`,
						`UPDATE audit_chain SET position = 0, sealed_through = 0,
							hash = sha256(convert_to('coffer-audit-1' || chr(10) || chain_id, 'UTF8'))`)
					d.sealer = audit.Sealer{DB: d.db}
					d.sealed()
				}
				f := d.examined()
				if f.IsIntact() || !strings.Contains(strings.Join(f.Breaks, "\n"), c.want) {
					t.Errorf("got %v, want %q", f.Breaks, c.want)
				}
				err := d.anchorer.Step(t.Context())
				if got := errors.Is(err, audit.ErrContradicted); got != c.live {
					t.Errorf("the next anchor: got %v, want it refused: %v", err, c.live)
				}
				// Later rows do not hide the change.
				d.write("more", "and more")
				d.sealed()
				if err := d.anchorer.Step(t.Context()); c.live && !errors.Is(err, audit.ErrContradicted) {
					t.Errorf("after more rows: got %v, want %v", err, audit.ErrContradicted)
				}
			})
		}
	}
}

// Rule AUDIT-3.
func TestAnAnswerOfTheSignerThatWasLostIsReadAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("a")
	d.sealed()
	d.anchorer.Signer = &forgetful{Signer: d.signer}
	if err := d.anchorer.Step(t.Context()); err == nil {
		t.Fatal("a lost answer is no error")
	}
	d.write("b")
	d.sealed()
	d.anchorer.Signer = d.signer
	d.anchor()
	if got := d.anchors(); len(got) != 2 || got[0].Position != 1 || got[1].Position != 2 {
		t.Errorf("got %+v, want two anchors", got)
	}
	if n := d.count(`SELECT count(*) FROM audit_anchors`); n != 2 {
		t.Errorf("got %d copies, want 2", n)
	}
	d.anchor() // there are no new rows, so nothing is signed
	if got := d.anchors(); len(got) != 2 {
		t.Errorf("got %d anchors, want 2", len(got))
	}
}

// forgetful is a signer whose answers get lost.
type forgetful struct{ signer.Signer }

func (f *forgetful) SignAnchor(ctx context.Context, r signer.AnchorRequest) (signer.Anchor, error) {
	if _, err := f.Signer.SignAnchor(ctx, r); err != nil {
		return signer.Anchor{}, err
	}
	return signer.Anchor{}, errors.New("the line broke")
}

// Rule AUDIT-4.
func TestARestoredBackupIsToldAndBegunAgainByAnOperatorAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("a", "b")
	d.sealed()
	d.anchor()
	backup := pgtest.CopyDatabase(t, pgtest.DatabaseOf(t, d.db))
	d.super.Reset()
	d.write("c", "d")
	d.sealed()
	d.anchor()

	old := pgtest.Open(t, backup, time.Now)
	d.db, d.super = old, pgtest.OwnerPool(t, old)
	d.sealer, d.anchorer.DB = audit.Sealer{DB: old}, old
	err := d.anchorer.Step(t.Context())
	if !errors.Is(err, audit.ErrContradicted) || !strings.Contains(err.Error(), "had 4 rows") ||
		!strings.Contains(err.Error(), "restored from an older backup") {
		t.Fatalf("got %v, want it told that the backup is older", err)
	}
	// The log continues and becomes as long as it was: that is another log.
	d.write("x", "y", "z")
	d.sealed()
	if err := d.anchorer.Step(t.Context()); !errors.Is(err, audit.ErrContradicted) {
		t.Fatalf("got %v, want %v", err, audit.ErrContradicted)
	}
	if f := d.examined(); f.IsIntact() {
		t.Error("an export of it is taken for whole")
	}
	var from signer.AuditHead
	if err := old.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		from, err = audit.LastAgreedMark(ctx, tx, d.anchors())
		return err
	}); err != nil || from.Position != 2 {
		t.Fatalf("got %+v %v, want that it agrees up to 2", from, err)
	}
	wrong := from
	wrong.Position = 5
	if _, err := d.signer.RestartAnchors(wrong, "backup of Monday"); err == nil {
		t.Error("it begins again where nothing was signed")
	}
	if _, err := d.signer.RestartAnchors(from, ""); err == nil {
		t.Error("it begins again and nobody says why")
	}
	if _, err := d.signer.RestartAnchors(from, "backup of Monday"); err != nil {
		t.Fatal(err)
	}
	d.anchor()
	d.write("more")
	d.sealed()
	d.anchor()
	f := d.examined()
	if !f.IsIntact() || len(f.Restarts) != 1 || f.Restarts[0].Reason != "backup of Monday" || f.Anchors != 3 ||
		f.AnchoredRows != 6 {
		t.Errorf("got %+v, want it intact, with who let it begin again", f)
	}
}

func TestAnExportIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	d.write("a", "b", "<&>\u2028\"\\", "d")
	d.sealed()
	d.anchor()
	var export bytes.Buffer
	if _, err := audit.Export(t.Context(), d.db, &export); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(export.String(), "\n"), "\n")
	if len(lines) != 6 {
		t.Fatalf("got %d lines, want 6", len(lines))
	}
	anchors := d.anchors()
	other := slices.Clone(anchors)
	other[0].Chain = "aud_other"
	for name, c := range map[string]struct {
		text    string
		anchors []signer.Anchor
		given   bool
		want    string // "" for intact
	}{
		"whole":                 {export.String(), anchors, true, ""},
		"without anchors":       {export.String(), nil, false, ""},
		"without its last line": {strings.Join(lines[:5], ""), anchors, true, "or was cut"},
		"without its last row": {
			strings.Join(slices.Concat(lines[:4], lines[5:]), ""), nil, false, "rows at the end were removed",
		},
		"without a row": {
			strings.Join(slices.Concat(lines[:2], lines[3:]), ""), nil, false, "rows 2 to 2 are missing",
		},
		"a row twice": {
			strings.Join(slices.Concat(lines[:3], lines[2:]), ""), nil, false, "order was changed",
		},
		"two rows exchanged": {
			lines[0] + lines[2] + lines[1] + strings.Join(lines[3:], ""), nil, false, "rows 1 to 1 are missing",
		},
		"a word changed": {
			strings.Replace(export.String(), `"resourceId":"b"`, `"resourceId":"c"`, 1), nil, false, "row 2",
		},
		"a member added": {
			strings.Replace(export.String(), `"resourceId":"b"`, `"resourceId":"b","note":1`, 1), nil, false,
			"cannot be read",
		},
		"a hash that is none": {
			strings.Replace(export.String(), `{"position":1,"hash":"`, `{"position":1,"hash":"g`, 1), nil, false,
			"is not a hash",
		},
		"something behind it": {export.String() + "{}\n", nil, false, "after the last line"},
		"anchors of another":  {export.String(), other, true, "another database"},
		"another name of the log": {
			strings.Replace(export.String(), `"chain":"aud_`, `"chain":"aud_0`, 1), nil, false, "row 1",
		},
	} {
		f, err := audit.CheckExport(strings.NewReader(c.text), c.anchors, c.given, nil)
		if err != nil {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		if got := strings.Join(f.Breaks, "\n"); f.IsIntact() != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
		var b strings.Builder
		if _, err := f.WriteTo(&b); err != nil || strings.Contains(b.String(), "intact") != (c.want == "") {
			t.Errorf("%s: told %q", name, b.String())
		}
	}
	for _, text := range []string{
		"",
		"\n", "{}\n", "[]\n",
		`{"format":"coffer-audit-export-2","chain":"x","position":0,"hash":"","exportedAt":"2026-01-01T00:00:00Z"}` +
			"\n",
	} {
		if _, err := audit.CheckExport(strings.NewReader(text), nil, false, nil); err == nil {
			t.Errorf("%q: got no error", text)
		}
	}
}

// The hash covers every column of the log, and has to cover a new column, too.
func TestNoColumnOfTheLogIsOutsideOfItsHash(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var names string
	if err := d.super.QueryRow(
		t.Context(),
		`SELECT string_agg(column_name, ' ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = 'audit_log'`,
	).Scan(&names); err != nil {
		t.Fatal(err)
	}
	if want := "audit_id org_id at actor_kind actor_id action resource_kind resource_id detail"; names != want {
		t.Errorf("got %q, want %q: add the column to Line.Encode under another version", names, want)
	}
}

// Two different rows never have the same bytes.
func FuzzNoTwoRowsAreEncodedAlike(f *testing.F) {
	f.Add(int64(1), "o", true, "t", "k", "a", "c", "r", "i", "d", int64(1), "o", true, "t", "k", "a", "c", "r", "id",
		"", "x")
	f.Add(int64(1), "", false, "", "", "", "", "", "", "", int64(1), "", true, "", "", "", "", "", "", "", "")
	// A text that looks like its own end and the beginning of the next.
	f.Add(int64(1), "o", true, "t", "k", "a", "c", "r", "x\x00y", "z", int64(1), "o", true, "t", "k", "a", "c", "r",
		"x", "y\x00z", "")
	f.Fuzz(func(t *testing.T, id1 int64, o1 string, has1 bool, at1, k1, a1, c1, r1, i1, d1 string, id2 int64, o2 string,
		has2 bool, at2, k2, a2, c2, r2, i2, d2, shift string,
	) {
		line := func(id int64, o string, has bool, at, k, a, c, r, i, d string) audit.Line {
			l := audit.Line{
				AuditID: id, RecordedAt: at, ActorKind: k, ActorID: a, Action: c, ResourceKind: r, ResourceID: i,
				Detail: d,
			}
			if has {
				l.OrgID = &o
			}
			return l
		}
		same := func(a, b audit.Line) bool {
			if (a.OrgID == nil) != (b.OrgID == nil) || a.OrgID != nil && *a.OrgID != *b.OrgID {
				return false
			}
			a.OrgID, b.OrgID = nil, nil
			return a == b
		}
		one, two := line(id1, o1, has1, at1, k1, a1, c1, r1, i1, d1), line(id2, o2, has2, at2, k2, a2, c2, r2, i2, d2)
		// A row whose text moves from one column to the next is another row.
		moved := one
		moved.Detail, moved.ResourceID = one.Detail+shift, strings.TrimSuffix(one.ResourceID, shift)
		for _, other := range []audit.Line{two, moved, one} {
			if bytes.Equal(one.Encode(), other.Encode()) != same(one, other) {
				t.Errorf("%+v and %+v: encoded alike is not what they are", one, other)
			}
		}
	})
}

func BenchmarkSealing(b *testing.B) {
	db := pgtest.New(b)
	super := pgtest.OwnerPool(b, db)
	const rows = 20_000
	for b.Loop() {
		b.StopTimer()
		if _, err := super.Exec(b.Context(), `
			INSERT INTO audit_log (at, actor_kind, actor_id, action, resource_kind, resource_id, detail)
			SELECT now(), 'SYSTEM', 'transfer', 'transfer.made', 'TRANSFER', 'tr_' || g, jsonb_build_object('mint', 1, 'amount', '1000000', 'from', 'user_' || g) FROM generate_series(1, $1) g`,
			rows); err != nil {
			b.Fatal(err)
		}
		s := audit.Sealer{DB: db}
		b.StartTimer()
		began := time.Now()
		for {
			n, err := s.Step(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			if n == 0 {
				break
			}
		}
		b.ReportMetric(rows/time.Since(began).Seconds(), "rows/s")
	}
}
