package verify

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/migrations"
)

// schemaText is what the migrations make: a line for each object that guards money. A test
// compares it with a database that was just migrated, and make generate writes it anew.
//
//go:embed schema.txt
var schemaText string

// The kinds of objects, which are the first word of a line.
const (
	kindTrigger    = "trigger" // triggers, the functions and views of the schema, rewrite rules
	kindConstraint = "constraint"
	kindPolicy     = "policy" // row level security
	kindPrivilege  = "right"  // of the program's roles
)

// guard is an object of the schema, as the catalog of PostgreSQL describes it.
type guard struct {
	Kind, Name, Definition string
}

// objectKey returns the name of an object, independent of its definition.
func (g guard) objectKey() string { return g.Kind + " " + g.Name }

// sameDefinition compares definitions without blanks and parentheses. The versions of PostgreSQL
// differ only in these when they print an expression.
func (g guard) sameDefinition(expected guard) bool {
	return stripDefinition(g.Definition) == stripDefinition(expected.Definition)
}

// definitionPadding is what versions of PostgreSQL add to a definition or leave out.
var definitionPadding = strings.NewReplacer(" ", "", "\n", "", "\t", "", "(", "", ")", "")

func stripDefinition(definition string) string {
	return definitionPadding.Replace(definition)
}

// disabledPrefix is the first word of the definition of an object that exists but is disabled.
const disabledPrefix = "off"

// selectGuards lists every guard with the search path set to pg_catalog, so that each name has its
// schema. Objects of an extension belong to the operator.
//
// Foreign keys are enforced by PostgreSQL's own triggers, which their owner can disable as well. A
// setting of the login role can disable all triggers of a session.
//
// From version 16 on PostgreSQL names no table before the columns of a view that reads one table,
// so none is compared there. The schema of a table, unless it is public, is removed with it and
// then differs.
const selectGuards = `
	WITH tables AS (SELECT oid, relname::text AS name, relrowsecurity, relforcerowsecurity, pg_get_userbyid(relowner) AS owner FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')),
		views AS (SELECT oid, relname::text AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('v', 'm')),
		roles AS (SELECT oid, rolname::text AS name FROM pg_roles WHERE rolname IN ('coffer_app', 'coffer_system', 'coffer_reader')),
		functions AS (SELECT p.*, format('%s(%s)', p.proname, pg_get_function_identity_arguments(p.oid)) AS name FROM pg_proc p
			WHERE p.pronamespace = 'public'::regnamespace
				AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.deptype = 'e'))
	SELECT 'trigger' AS kind, format('%s on %s', g.tgname, t.name) AS name,
		CASE WHEN g.tgenabled IN ('O', 'A') THEN 'on: ' ELSE 'off: ' END || pg_get_triggerdef(g.oid) AS definition
	FROM pg_trigger g JOIN tables t ON t.oid = g.tgrelid WHERE NOT g.tgisinternal
	UNION ALL
	SELECT 'trigger', 'function ' || f.name,
		concat_ws(' ', l.lanname, f.prorettype::regtype, f.provolatile, CASE WHEN f.prosecdef THEN 'security definer' END, CASE WHEN f.proisstrict THEN 'strict' END,
			array_to_string(f.proconfig, ' '), 'sha256 ' || encode(sha256(convert_to(coalesce(pg_get_function_sqlbody(f.oid), f.prosrc), 'UTF8')), 'hex'))
	FROM functions f JOIN pg_language l ON l.oid = f.prolang
	UNION ALL
	SELECT 'trigger', 'view ' || v.name, regexp_replace(regexp_replace(pg_get_viewdef(v.oid), '\s+', ' ', 'g'), '\m(?!public\.)\w+\.', '', 'g') FROM views v
	UNION ALL
	SELECT 'trigger', format('rule %s on %s', r.rulename, c.name), pg_get_ruledef(r.oid)
	FROM pg_rewrite r JOIN (TABLE views UNION ALL SELECT oid, name FROM tables) c ON c.oid = r.ev_class WHERE r.rulename <> '_RETURN'
	UNION ALL
	SELECT 'trigger', 'setting session_replication_role', current_setting('session_replication_role')
	UNION ALL
	SELECT 'constraint', format('%s on %s', o.conname, t.name),
		CASE WHEN EXISTS (SELECT FROM pg_trigger g WHERE g.tgconstraint = o.oid AND g.tgenabled NOT IN ('O', 'A')) THEN 'off: ' ELSE '' END
			|| regexp_replace(pg_get_constraintdef(o.oid), '\s+', ' ', 'g')
	FROM pg_constraint o JOIN tables t ON t.oid = o.conrelid WHERE o.contype IN ('c', 'f', 'p', 'u', 'x')
	UNION ALL
	SELECT 'constraint', format('index %s on %s', c.relname, t.name), CASE WHEN i.indisvalid THEN '' ELSE 'invalid: ' END || pg_get_indexdef(i.indexrelid)
	FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid JOIN tables t ON t.oid = i.indrelid
	WHERE i.indisunique AND NOT EXISTS (SELECT FROM pg_constraint o WHERE o.conindid = i.indexrelid AND o.contype IN ('p', 'u', 'x'))
	UNION ALL
	SELECT 'constraint', 'not null on ' || t.name, string_agg(a.attname, ' ' ORDER BY a.attname)
	FROM pg_attribute a JOIN tables t ON t.oid = a.attrelid WHERE a.attnum > 0 AND a.attnotnull AND NOT a.attisdropped GROUP BY t.name
	UNION ALL
	SELECT 'constraint', format('computed column %s of %s', a.attname, t.name),
		regexp_replace(pg_get_expr(g.adbin, g.adrelid), '\s+', ' ', 'g')
	FROM pg_attribute a JOIN tables t ON t.oid = a.attrelid
	JOIN pg_attrdef g ON (g.adrelid, g.adnum) = (a.attrelid, a.attnum) WHERE a.attgenerated <> ''
	UNION ALL
	SELECT 'policy', 'row level security on ' || t.name,
		CASE WHEN t.relrowsecurity THEN 'enabled' ELSE 'disabled' END || CASE WHEN t.relforcerowsecurity THEN ', forced' ELSE '' END
	FROM tables t
	UNION ALL
	SELECT 'policy', format('%s on %s', p.policyname, p.tablename), concat_ws(' ', p.permissive, p.cmd, 'to', array_to_string(array_replace(p.roles, t.owner, 'its owner'), ', '),
		'using ' || p.qual, 'with check ' || p.with_check)
	FROM pg_policies p JOIN tables t ON t.name = p.tablename WHERE p.schemaname = 'public'
	UNION ALL
	SELECT 'right', format('%s on %s', r.name, c.name), string_agg(h.may, ', ' ORDER BY h.may)
	FROM roles r CROSS JOIN (SELECT oid, name FROM tables UNION ALL TABLE views) c
	CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'REFERENCES', 'DELETE', 'TRUNCATE', 'TRIGGER']) AS act
	CROSS JOIN LATERAL (SELECT CASE
		WHEN has_table_privilege(r.oid, c.oid, act) THEN act
		WHEN act IN ('SELECT', 'INSERT', 'UPDATE', 'REFERENCES') THEN (
			SELECT format('%s (%s)', act, string_agg(a.attname, ', ' ORDER BY a.attname)) FROM pg_attribute a
			WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND has_column_privilege(r.oid, c.oid, a.attnum, act) HAVING count(*) > 0) END AS may) h
	WHERE h.may IS NOT NULL GROUP BY r.name, c.name
	UNION ALL
	SELECT 'right', format('%s on function %s', r.name, f.name), 'EXECUTE' FROM roles r CROSS JOIN functions f
	WHERE f.prosecdef AND has_function_privilege(r.oid, f.oid, 'EXECUTE')
	UNION ALL
	SELECT 'right', 'member ' || r.name, 'of ' || coalesce((SELECT string_agg(g.rolname, ', ' ORDER BY g.rolname)
		FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid WHERE m.member = r.oid), 'no role')
	FROM roles r`

// readGuards lists the guards of the database, in the order of the text.
func readGuards(ctx context.Context, tx pg.Tx) (guards []guard, err error) {
	var path string
	if err := tx.QueryRow(ctx, `SELECT current_setting('search_path')`).Scan(&path); err != nil {
		return nil, err
	}
	setPath := func(searchPath string) error {
		_, err := tx.Exec(ctx, `SELECT set_config('search_path', $1, true)`, searchPath)
		return err
	}
	if err := setPath("pg_catalog"); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, selectGuards)
	if err != nil {
		return nil, err
	}
	if guards, err = pgx.CollectRows(rows, pgx.RowToStructByPos[guard]); err != nil {
		return nil, err
	}
	slices.SortFunc(guards, func(a, b guard) int { return cmp.Compare(a.objectKey(), b.objectKey()) })
	return guards, setPath(path)
}

// writeGuards formats a list as schemaText.
func writeGuards(guards []guard) string {
	var b strings.Builder
	for _, g := range guards {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", g.Kind, g.Name, g.Definition)
	}
	return b.String()
}

// knownGuards parses schemaText.
func knownGuards() (guards []guard) {
	for line := range strings.Lines(schemaText) {
		word := strings.SplitN(strings.TrimSuffix(line, "\n"), "\t", 3)
		if len(word) != 3 {
			panic("verify: schema.txt has a line that is not three words: " + line)
		}
		guards = append(guards, guard{word[0], word[1], word[2]})
	}
	return guards
}

// schema is the schema of a database, to be compared with the one that this program knows.
type schema struct {
	guards map[string]guard
	// The steps that a newer program applied, as during a rolling upgrade. Their changes cannot be
	// distinguished from tampering.
	unknownSteps []int64
}

func readSchema(ctx context.Context, tx pg.Tx) (s schema, err error) {
	guards, err := readGuards(ctx, tx)
	if err != nil {
		return s, fmt.Errorf("read the schema: %w", err)
	}
	s.guards = map[string]guard{}
	for _, g := range guards {
		s.guards[g.objectKey()] = g
	}
	err = tx.QueryRow(ctx,
		`SELECT coalesce(array_agg(DISTINCT version_id ORDER BY version_id), '{}') FROM goose_db_version
		WHERE is_applied AND version_id > 0 AND version_id <> ALL ($1)`, migrations.Versions()).Scan(&s.unknownSteps)
	if err != nil {
		return s, fmt.Errorf("read the schema's version: %w", err)
	}
	return s, nil
}

// compareGuards finds objects that differ from the migrations' result. On a newer schema it only
// checks that the triggers that this program knows exist and are enabled.
func (s schema) compareGuards(kind string) (found []Breach) {
	ownObjects := map[string]bool{} // names of tables and functions that carry guards
	expectedKeys := map[string]bool{}
	for _, want := range knownGuards() {
		expectedKeys[want.objectKey()] = true
		ownObjects[guardedObject(want)] = true
		if want.Kind != kind {
			continue
		}
		actual, exists := s.guards[want.objectKey()]
		fires := !strings.HasPrefix(actual.Definition, disabledPrefix+": ")
		switch {
		case len(s.unknownSteps) > 0 && (kind != kindTrigger || !isTrigger(want) || exists && fires):
		case !exists:
			found = append(found, Breach{Subject: want.objectKey(), Detail: "is missing"})
		case !fires:
			found = append(found, Breach{Subject: want.objectKey(), Detail: "is switched off"})
		case !actual.sameDefinition(want):
			found = append(found, Breach{
				Subject: want.objectKey(),
				Detail:  fmt.Sprintf("is %q, and the migrations made %q", actual.Definition, want.Definition),
			})
		}
	}
	if len(s.unknownSteps) > 0 || kind == kindConstraint { // an additional constraint only refuses more
		return found
	}
	for _, actual := range s.guards {
		if actual.Kind == kind && !expectedKeys[actual.objectKey()] && ownObjects[guardedObject(actual)] {
			found = append(found, Breach{
				Subject: actual.objectKey(), Detail: fmt.Sprintf("is %q, and no migration made it", actual.Definition),
			})
		}
	}
	slices.SortFunc(found, func(a, b Breach) int { return cmp.Compare(a.Subject, b.Subject) })
	return found
}

func isTrigger(g guard) bool {
	return strings.HasPrefix(g.Definition, "on: ") || strings.HasPrefix(g.Definition, disabledPrefix+": ")
}

// guardedObject returns the object that carries a guard: its table, or the name of its function.
// Guards on a table, or overloads of a function, that belong to the operator are ignored.
func guardedObject(g guard) string {
	name := g.Name
	if _, table, ok := strings.Cut(name, " on "); ok {
		name = table
	}
	name, _, _ = strings.Cut(name, "(")
	return name
}
