package migrations_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

const (
	scalingPage = "../docs/design/scaling.md"
	drawnEnd    = "<!-- end -->\n"
)

func drawnFor(list string) string {
	return "<!-- drawn by migrations/keys_test.go: " + list + " -->\n"
}

// growingTables get a row with each movement, event or act, and lose rows to a cleaner at most.
var growingTables = []string{
	"audit_log", "audit_runs", "audit_seal", "deliveries", "delivery_attempts", "deposits", "dispatch_orders",
	"events", "fee_lines", "ledger_transfers", "signer_journal", "transfers", "withdrawals",
}

// A key is a unique key, an exclusion or a foreign key of a table.
type key struct {
	Table, Name, Kind, Columns, Refers string
	OrgPlace                           string // where the column of the organization is
	IsOrgFirst                         bool
	HasTime                            bool // one of its columns is a time
}

func (k key) definition() string {
	text := k.Kind + " " + k.Columns
	if k.Refers != "" {
		text += " to `" + k.Refers + "`"
	}
	return text
}

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func readKeys(ctx context.Context, q querier) ([]key, error) {
	rows, err := q.Query(ctx, `
		WITH tables AS (
			SELECT oid, relname::text AS name FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')),
		keys AS (
			SELECT o.conrelid AS rel, o.conname::text AS name, o.conindid AS index,
				o.conkey::int2[] AS numbers, o.confrelid AS refers,
				CASE o.contype WHEN 'p' THEN 'primary key' WHEN 'u' THEN 'unique'
					WHEN 'x' THEN 'exclusion' ELSE 'foreign key' END
					|| CASE WHEN o.condeferrable THEN ', deferred,' ELSE '' END AS kind
			FROM pg_constraint o WHERE o.contype IN ('p', 'u', 'x', 'f')
			UNION ALL
			SELECT i.indrelid, c.relname::text, i.indexrelid, (i.indkey::int2[])[0:i.indnkeyatts - 1], 0,
				'unique index' || CASE WHEN i.indpred IS NOT NULL THEN ', partial,' ELSE '' END
			FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
			WHERE i.indisunique AND NOT EXISTS (
				SELECT FROM pg_constraint o WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x'))),
		columns AS (
			SELECT k.rel, k.name,
				string_agg('`+"`"+`' || coalesce(a.attname, pg_get_indexdef(k.index, n.place::int, true)) || '`+"`"+`',
					', ' ORDER BY n.place) AS list,
				bool_or(a.attname = 'org_id') IS TRUE AS has_org,
				bool_or(a.attname = 'org_id' AND n.place = 1) IS TRUE AS org_first,
				bool_or(a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype, 'date'::regtype))
					IS TRUE AS has_time
			FROM keys k, unnest(k.numbers) WITH ORDINALITY n (number, place)
				LEFT JOIN LATERAL (
					SELECT * FROM pg_attribute a
					WHERE a.attrelid = k.rel AND a.attnum = n.number AND n.number > 0) a ON true
			GROUP BY k.rel, k.name)
		SELECT t.name, k.name, k.kind, c.list,
			coalesce((SELECT r.name FROM tables r WHERE r.oid = k.refers), ''),
			CASE WHEN c.has_org THEN 'in the key'
				WHEN EXISTS (
					SELECT FROM pg_attribute a
					WHERE a.attrelid = k.rel AND a.attname = 'org_id' AND NOT a.attisdropped) THEN 'in the row'
				ELSE 'none' END,
			c.org_first, c.has_time
		FROM keys k JOIN tables t ON t.oid = k.rel JOIN columns c ON c.rel = k.rel AND c.name = k.name
		ORDER BY t.name COLLATE "C", k.kind = 'foreign key', k.kind, k.name COLLATE "C"`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[key])
}

// A keyRow is a row of the page. Scope and Reason are written by a person.
type keyRow struct{ Table, Name, Definition, Org, Scope, Reason string }

func parseKeyRows(list string) (rows []keyRow) {
	table := ""
	for line := range strings.Lines(list) {
		if name, isHead := strings.CutPrefix(strings.TrimSpace(line), "#### "); isHead {
			table = name
			continue
		}
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) != 5 || !strings.HasPrefix(line, "| `") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, keyRow{table, strings.Trim(cells[0], "`"), cells[1], cells[2], cells[3], cells[4]})
	}
	return rows
}

// drawKeys lists the keys that do not begin with the organization. A key that is on the page with the
// same definition keeps its scope and its reason.
func drawKeys(all []key, before []keyRow) string {
	var b strings.Builder
	table := ""
	for _, k := range all {
		if k.IsOrgFirst {
			continue
		}
		if k.Table != table {
			table = k.Table
			fmt.Fprintf(&b, "\n#### %s\n\n", table)
			b.WriteString("| Key | Columns | Organization | Scope | Reason |\n|---|---|---|---|---|\n")
		}
		row := keyRow{Table: k.Table, Name: k.Name, Definition: k.definition(), Org: k.OrgPlace}
		for _, r := range before {
			if (keyRow{r.Table, r.Name, r.Definition, r.Org, "", ""}) == row {
				row.Scope, row.Reason = r.Scope, r.Reason
				break
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", row.Name, row.Definition, row.Org, row.Scope, row.Reason)
	}
	b.WriteString("\n")
	return b.String()
}

func drawGrowing(all []key) string {
	var b strings.Builder
	b.WriteString("\n| Table | Unique keys | Time in every key |\n|---|---|---|\n")
	for _, table := range growingTables {
		var list []string
		time := "yes"
		for _, k := range all {
			if k.Table != table || k.Refers != "" {
				continue
			}
			list = append(list, fmt.Sprintf("`%s`: %s", k.Name, k.Columns))
			if !k.HasTime {
				time = "no"
			}
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", table, strings.Join(list, "; "), time)
	}
	b.WriteString("\n")
	return b.String()
}

func drawCounts(ctx context.Context, q querier, all []key) (string, error) {
	rows, err := q.Query(ctx, `
		WITH tables AS (
			SELECT oid, relkind FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')),
		triggers AS (
			SELECT g.tgconstraint <> 0 AS is_constraint, g.tgtype & 1 = 1 AS is_row,
				g.tgnewtable IS NOT NULL OR g.tgoldtable IS NOT NULL AS has_rows
			FROM pg_trigger g JOIN tables t ON t.oid = g.tgrelid WHERE NOT g.tgisinternal),
		columns AS (
			SELECT a.* FROM pg_attribute a JOIN tables t ON t.oid = a.attrelid
			WHERE a.attnum > 0 AND NOT a.attisdropped),
		constraints AS (SELECT o.* FROM pg_constraint o JOIN tables t ON t.oid = o.conrelid),
		indexes AS (
			SELECT m.amname FROM pg_index i JOIN tables t ON t.oid = i.indrelid
				JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am m ON m.oid = c.relam)
		SELECT v.what, v.number FROM (VALUES
			(1, 'tables', (SELECT count(*) FROM tables)),
			(2, 'partitioned tables', (SELECT count(*) FROM tables WHERE relkind = 'p')),
			(3, 'row level security policies',
				(SELECT count(*) FROM pg_policy p JOIN tables t ON t.oid = p.polrelid)),
			(4, 'triggers for each row, not deferred',
				(SELECT count(*) FROM triggers WHERE is_row AND NOT is_constraint)),
			(5, 'constraint triggers, checked at the commit', (SELECT count(*) FROM triggers WHERE is_constraint)),
			(6, 'triggers for each statement, without its rows',
				(SELECT count(*) FROM triggers WHERE NOT is_row AND NOT has_rows)),
			(7, 'triggers for each statement, with its rows (transition tables)',
				(SELECT count(*) FROM triggers WHERE has_rows)),
			(8, 'deferred foreign keys', (SELECT count(*) FROM constraints WHERE contype = 'f' AND condeferrable)),
			(9, 'exclusion constraints', (SELECT count(*) FROM constraints WHERE contype = 'x')),
			(10, 'GiST indexes', (SELECT count(*) FROM indexes WHERE amname = 'gist')),
			(11, 'identity columns', (SELECT count(*) FROM columns WHERE attidentity <> '')),
			(12, 'stored generated columns', (SELECT count(*) FROM columns WHERE attgenerated <> '')),
			(13, 'columns with a transaction id (`+"`xid8`"+`)',
				(SELECT count(*) FROM columns WHERE atttypid = 'xid8'::regtype))
		) v (n, what, number) ORDER BY v.n`)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("\n| What the schema has | Number |\n|---|---|\n")
	var what string
	var number int
	if _, err := pgx.ForEachRow(rows, []any{&what, &number}, func() error {
		fmt.Fprintf(&b, "| %s | %d |\n", what, number)
		return nil
	}); err != nil {
		return "", err
	}
	other := 0
	for _, k := range all {
		if !k.IsOrgFirst {
			other++
		}
	}
	fmt.Fprintf(&b, "| unique keys, exclusions and foreign keys | %d |\n", len(all))
	fmt.Fprintf(&b, "| of them without the organization in front | %d |\n\n", other)
	return b.String(), nil
}

// cutDrawn returns the list between its two marks, and the page around it.
func cutDrawn(t *testing.T, page, list string) (before, drawn, after string) {
	t.Helper()
	before, rest, found := strings.Cut(page, drawnFor(list))
	drawn, after, closed := strings.Cut(rest, drawnEnd)
	if !found || !closed {
		t.Fatalf("%s has no place for %q", scalingPage, list)
	}
	return before, drawn, after
}

func readScalingPage(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(scalingPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// The page about scaling has every key that does not begin with the organization, the unique keys of
// tables that only grow, and what other engines lack. COFFER_UPDATE=1 writes the lists, and a person
// writes the scope and the reason of a new key.
//
// The test is no test of internal/verify, because it would find every planted defect that drops a
// key, and hide that no other test does.
func TestTheKeysOnThePageAboutScalingAreDrawn(t *testing.T) {
	t.Parallel()
	page := readScalingPage(t)
	_, keysOnPage, _ := cutDrawn(t, page, "keys")
	drawn := map[string]string{}
	if err := pgtest.New(t).Snapshot(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		all, err := readKeys(ctx, tx)
		if err != nil {
			return err
		}
		drawn["keys"], drawn["growing"] = drawKeys(all, parseKeyRows(keysOnPage)), drawGrowing(all)
		drawn["counts"], err = drawCounts(ctx, tx, all)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := page
	for list, text := range drawn {
		before, onPage, after := cutDrawn(t, want, list)
		want = before + drawnFor(list) + text + drawnEnd + after
		if os.Getenv("COFFER_UPDATE") == "1" {
			continue
		}
		has, knows := slices.Collect(strings.Lines(text)), slices.Collect(strings.Lines(onPage))
		for _, line := range has {
			if !slices.Contains(knows, line) {
				t.Errorf(
					"%s lacks this line. Write it with COFFER_UPDATE=1 go test ./migrations -run Drawn, "+
						"then fill in scope and reason:\n%s",
					scalingPage, line,
				)
			}
		}
		for _, line := range knows {
			if !slices.Contains(has, line) {
				t.Errorf("no migration makes this any more, and %s has it:\n%s", scalingPage, line)
			}
		}
		if text != onPage && !t.Failed() {
			t.Errorf("%s has the list %q in another order", scalingPage, list)
		}
	}
	if want == page || os.Getenv("COFFER_UPDATE") != "1" {
		return
	}
	if err := os.WriteFile(scalingPage, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Each key on the page has its scope and a reason.
func TestEachKeyOnThePageAboutScalingHasAReason(t *testing.T) {
	t.Parallel()
	_, list, _ := cutDrawn(t, readScalingPage(t), "keys")
	rows := parseKeyRows(list)
	if drawn := strings.Count(list, "\n| `"); len(rows) != drawn || drawn == 0 {
		t.Errorf("got %d rows of %d, want each with five columns", len(rows), drawn)
	}
	for _, row := range rows {
		if err := row.check(); err != nil {
			t.Errorf("%s on %s: %v", row.Name, row.Table, err)
		}
	}
}

func (r keyRow) check() error {
	if r.Scope != "global" && r.Scope != "could" {
		return fmt.Errorf("the scope is %q, want global or could", r.Scope)
	}
	if r.Reason == "" {
		return fmt.Errorf("it has no reason")
	}
	return nil
}

// A migration that adds a key of other columns than the organization fails the test of the page, until
// the key is on the page with a scope and a reason. One that begins with the organization does not.
func TestANewKeyWithoutTheOrganizationInFrontIsAskedFor(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	tx := pgtest.BeginOwner(t, db)
	_, list, _ := cutDrawn(t, readScalingPage(t), "keys")
	before := parseKeyRows(list)
	for _, sql := range []string{
		`ALTER TABLE transfers ADD CONSTRAINT planted_unique UNIQUE (mint_id, org_id)`,
		`ALTER TABLE transfers ADD CONSTRAINT planted_foreign FOREIGN KEY (mint_id) REFERENCES mints DEFERRABLE`,
		`CREATE UNIQUE INDEX planted_index ON transfers (lower(reference), created_at) INCLUDE (org_id)
			WHERE reference IS NOT NULL`,
		`ALTER TABLE transfers ADD CONSTRAINT planted_of_org UNIQUE (org_id, mint_id, transfer_id)`,
		`CREATE TABLE planted (org_id text, number bigint, PRIMARY KEY (number, org_id))`,
		`ALTER TABLE events DROP CONSTRAINT events_resource_order,
			ADD CONSTRAINT events_resource_order UNIQUE (resource_id, resource_seq)`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	all, err := readKeys(t.Context(), tx)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]keyRow{}
	for _, row := range parseKeyRows(drawKeys(all, before)) {
		if row.check() != nil {
			got[row.Table+" "+row.Name] = row
		}
	}
	want := map[string]keyRow{
		"transfers planted_unique":  {Definition: "unique `mint_id`, `org_id`", Org: "in the key"},
		"transfers planted_foreign": {Definition: "foreign key, deferred, `mint_id` to `mints`", Org: "in the row"},
		"transfers planted_index": {
			Definition: "unique index, partial, `lower(reference)`, `created_at`", Org: "in the row",
		},
		"planted planted_pkey": {Definition: "primary key `number`, `org_id`", Org: "in the key"},
		"events events_resource_order": {
			Definition: "unique `resource_id`, `resource_seq`", Org: "in the row",
		},
	}
	for name, w := range want {
		if g := got[name]; g.Definition != w.Definition || g.Org != w.Org || g.Scope != "" || g.Reason != "" {
			t.Errorf("%s: got %+v, want %+v", name, g, w)
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("%s is asked for, and is no new key", name)
	}
}

// What the page says of partitions is what PostgreSQL does with an empty table that has the same
// columns, keys and exclusions.
func TestNoGrowingTableCanBePartitionedByTimeAsItIs(t *testing.T) {
	t.Parallel()
	tx := pgtest.BeginOwner(t, pgtest.New(t))
	isAccepted := func(table, column string) bool {
		_, err := tx.Exec(t.Context(), fmt.Sprintf(`SAVEPOINT planted;
			CREATE TABLE planted (LIKE %s INCLUDING INDEXES) PARTITION BY RANGE (%s)`, table, column))
		if refused := (*pgconn.PgError)(nil); err != nil && (!errors.As(err, &refused) || refused.Code != "0A000") {
			t.Fatalf("%s by %s: %v", table, column, err)
		}
		if _, err := tx.Exec(t.Context(), `ROLLBACK TO SAVEPOINT planted`); err != nil {
			t.Fatal(err)
		}
		return err == nil
	}
	for _, table := range growingTables {
		var columns []string
		if err := tx.QueryRow(t.Context(), `SELECT coalesce(array_agg(attname::text), '{}') FROM pg_attribute
			WHERE attrelid = $1::regclass AND attnum > 0 AND atttypid = 'timestamptz'::regtype AND attnotnull`, table,
		).Scan(&columns); err != nil {
			t.Fatal(err)
		}
		for _, column := range columns {
			if isAccepted(table, column) {
				t.Errorf("PostgreSQL partitions %s by %s, and the page says that it does not", table, column)
			}
		}
	}
	for name, want := range map[string]bool{
		"audit_log audit_id": true, "delivery_attempts delivery_id": true, "signer_journal seq": true,
		"deliveries delivery_id": false, "ledger_transfers transfer_id": false, "audit_runs first": false,
		"audit_seal position": false,
	} {
		table, column, _ := strings.Cut(name, " ")
		if got := isAccepted(table, column); got != want {
			t.Errorf("%s: got accepted %v, want %v, as the page says", name, got, want)
		}
	}
	var partitioned int
	if err := tx.QueryRow(t.Context(), `SELECT count(*) FROM pg_partitioned_table`).Scan(&partitioned); err != nil {
		t.Fatal(err)
	}
	if says := strings.Contains(readScalingPage(t), "**No table is partitioned.**"); says != (partitioned == 0) {
		t.Errorf("got %d partitioned tables, and the page says that there is none: %v", partitioned, says)
	}
}
