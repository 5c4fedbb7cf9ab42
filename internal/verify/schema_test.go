package verify

import (
	"bytes"
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The migrations create the list of guards that the checker compares with. make generate writes it
// anew.
func TestTheCheckerKnowsTheDrawnSchema(t *testing.T) {
	t.Parallel()
	var all []guard
	if err := pgtest.New(t).Snapshot(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
		all, err = readGuards(ctx, tx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	text := writeGuards(all)
	if os.Getenv("COFFER_UPDATE") == "1" {
		if err := os.WriteFile("schema.txt", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	lines := func(text string) map[string]bool {
		set := map[string]bool{}
		for line := range strings.Lines(text) {
			set[line] = true
		}
		return set
	}
	has, knows := lines(text), lines(schemaText)
	for _, line := range slices.Sorted(maps.Keys(has)) {
		if !knows[line] {
			t.Errorf(
				"a migration made this, and the checker does not know it. Add the line to internal/verify/schema.txt, or write the file anew with COFFER_UPDATE=1 go test ./internal/verify -run Drawn (make generate does):\n%s",
				line,
			)
		}
	}
	for _, line := range slices.Sorted(maps.Keys(knows)) {
		if !has[line] {
			t.Errorf(
				"no migration makes this any more, and the checker wants it. Was it to go? Then take the line out of internal/verify/schema.txt, or write the file anew with COFFER_UPDATE=1 go test ./internal/verify -run Drawn (make generate does):\n%s",
				line,
			)
		}
	}
	if triggers := strings.Count(schemaText, "\ton: "); triggers < 110 {
		t.Errorf("got %d triggers, want every one there is", triggers)
	}
}

// During a rolling upgrade a newer program's steps may change any definition. They never drop or
// disable a trigger.
func TestOnANewerSchemaTheTriggersStillFireAndThePersonIsTold(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	step := `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, true)`
	for name, c := range map[string]struct {
		sql   string
		sound bool
	}{
		"a function of the newer program": {
			`CREATE OR REPLACE FUNCTION withdrawals_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
			true,
		},
		"a constraint of the newer program": {
			`ALTER TABLE ledger_balances DROP CONSTRAINT ledger_balances_not_overdrawn`, true,
		},
		"a trigger of the newer program": {
			`CREATE TRIGGER more BEFORE UPDATE ON withdrawals FOR EACH ROW EXECUTE FUNCTION withdrawals_keep()`, true,
		},
		"a trigger that is off":  {`ALTER TABLE withdrawals DISABLE TRIGGER withdrawals_keep`, false},
		"a trigger that is gone": {`DROP TRIGGER withdrawals_keep ON withdrawals`, false},
	} {
		r, err := h.runTampered(step, c.sql)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if r.IsIntact() != c.sound {
			t.Errorf("%s: got %+v, want sound=%v", name, r.Breaches, c.sound)
		}
		if i := slices.IndexFunc(
			r.Outcomes, func(o Outcome) bool { return o.ID == "I-02-triggers" },
		); !strings.Contains(r.Outcomes[i].Note, "99999") {
			t.Errorf("%s: got the note %q, want the step that is not known", name, r.Outcomes[i].Note)
		}
	}
	h.exec(step)
	var log bytes.Buffer
	if r, err := CheckAndFreeze(t.Context(), h.db, nil, slog.New(slog.NewTextHandler(&log, nil))); err != nil ||
		!r.IsIntact() || !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "99999") {
		t.Errorf("got %+v, %v and\n%s\nwant a warning alone", r.Breaches, err, log.String())
	}
}

// ALTER ROLE coffer SET session_replication_role switches off every trigger of the service's
// sessions, and none in the catalog.
func TestASessionWithoutTriggersIsABreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	tx := pgtest.BeginOwner(t, h.db)
	if _, err := tx.Exec(
		t.Context(), `SET LOCAL session_replication_role = replica; SET LOCAL ROLE coffer_reader`,
	); err != nil {
		t.Fatal(err)
	}
	r, err := examineSnapshot(t.Context(), pg.Tx{Tx: tx, Now: time.Now()}, checks)
	if err != nil || len(r.Breaches) != 1 || r.Breaches[0].Check != "I-02-triggers" {
		t.Errorf("got %+v, %v, want one breach of I-02-triggers", r.Breaches, err)
	}
}

// Objects that an operator adds are no tampering.
func TestWhatAnOperatorAddsIsNoBreach(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	r, err := h.runTampered(
		`CREATE TABLE report_days (day date PRIMARY KEY); GRANT SELECT ON report_days TO coffer_reader`,
		`CREATE FUNCTION report_days_keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'`,
		`CREATE TRIGGER report_days_keep BEFORE INSERT ON report_days FOR EACH ROW EXECUTE FUNCTION report_days_keep()`,
		`CREATE VIEW report_deposits AS SELECT count(*) FROM deposits`,
		`CREATE INDEX report_by_day ON deposits (created_at)`,
		`CREATE ROLE report_reader; GRANT SELECT ON deposits TO report_reader; GRANT coffer_reader TO report_reader`,
	)
	if err != nil || !r.IsIntact() {
		t.Errorf("got %+v, %v, want no breach", r.Breaches, err)
	}
}
