package verify

import (
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/testing/part"
)

// writable says for each table which columns may change, in which state, by whom. A person
// writes it: the test shows what differs and never writes the file.
//
//go:embed testdata/columns.txt
var writable string

// The writers are the roles of the program that may write, and the owner, whom only triggers can
// refuse.
//
// The owner comes first. What a trigger refuses the owner it also refuses coffer_system, which sees
// the same rows, so that role is tried with the other columns alone. See blind.
var writers = []string{"owner", "coffer_app", "coffer_system"}

// moving marks a change that the triggers allow only together with a change of the status.
const moving = "+status"

// apart are the tables of libraries: the job queue and the list of migrations.
var apart = regexp.MustCompile(`^(river_|goose_)`)

// forms are states of a row that are in another column than status, or that need more than its
// status.
var forms = map[string]map[string]string{
	"api_keys": {
		"live": "rolled_at = NULL, ends_at = NULL", "rolled": "rolled_at = now(), ends_at = now() + interval '1 hour'",
	},
	"additional_api_keys": {
		"live":    "deleted_at = NULL, rolls = 0, rolled_at = NULL, former_hash = NULL, former_ends_at = NULL",
		"deleted": "deleted_at = now()",
		"rolled":  "deleted_at = NULL, rolls = 1, rolled_at = now(), former_hash = '\\x02', former_ends_at = now() + interval '1 hour'",
	},
	"operator_keys": {"live": "revoked_at = NULL", "revoked": "revoked_at = now()"},
	"account_totps": {
		"waiting": "confirmed_at = NULL, last_step = 0", "confirmed": "confirmed_at = now(), last_step = 1",
	},
	"account_recovery_codes": {"unused": "used_at = NULL", "used": "used_at = now()"},
	"operators":              {"invited": "account_id = NULL, ended_at = NULL"},
	"invitations": {
		"open": "ended_at = NULL, end_reason = NULL", "ended": "ended_at = now(), end_reason = 'ACCEPTED'",
	},
	"sessions": {
		"waiting": "state = 'AWAITING_FACTOR', member_id = NULL, ended_at = NULL, end_reason = NULL",
		"open":    "state = 'OPEN', member_id = NULL, ended_at = NULL, end_reason = NULL",
		"ended":   "state = 'ENDED', ended_at = now(), end_reason = 'IDLE'",
	},
	"freezes": {"set": "lifted_at = NULL, lifted_by = NULL", "lifted": "lifted_at = now(), lifted_by = 'ann'"},
	"utxos":   {"HELD": "order_id = NULL", "FREE": "order_id = NULL"},
	"whitelisted_addresses": {
		"asked":   notRemoved + ", proof = NULL, usable_from = NULL, journal_id = NULL, journal_seq = NULL",
		"listed":  notRemoved,
		"removed": "removed_at = now(), removed_by = 'ann', revoked_seq = NULL",
	},
	"approver_keys": {
		"asked":   keyNotEnded + ", proof = NULL, usable_from = NULL, journal_id = NULL, journal_seq = NULL",
		"retired": "retired_at = now(), retired_by = 'ann', retired_seq = NULL",
	},
	"approval_rules": {
		"proposed": ruleNotAnswered + ", asked_at = NULL, withdrawn_at = NULL",
		"asked":    ruleNotAnswered + ", asked_at = now(), withdrawn_at = NULL",
	},
	"events": {
		"waits":    "sequence = NULL, body = NULL",
		"numbered": "sequence = 7, body = '{}'",
		"expired":  "sequence = 7, body = NULL, data = '', expired_at = now()",
	},
	"fee_lines": {
		"unpriced": "usd_value = NULL, price_mark_id = NULL, invoice_id = NULL",
		"priced":   "usd_value = 1, invoice_id = NULL", "billed": "usd_value = 1, invoice_id = 'inv_1'",
	},
	"invoices": {
		"ISSUED": "paid_at = NULL, paid_reference = NULL, paid_by = NULL",
		"PAID":   "paid_at = now(), paid_reference = 'bank', paid_by = 'OPERATOR x'",
	},
	"swap_arrivals": {
		"expected":  "role = 'DELIVERY', reason = '', " + notDecided,
		"undecided": "role = 'STRAY', reason = 'AFTER_END', " + notDecided,
		"decided":   "role = 'STRAY', decision = 'KEPT', note = 'x', decided_by = 'ann', decided_at = now()",
	},
	"deposits": {
		"FLAGGED": isFlagged, "RESOLUTION_STUCK": isFlagged, "REJECTING": isFlagged, "REDIRECTING": isFlagged,
		"REJECTED": isFlagged, "REDIRECTED": isFlagged,
	},
}

const (
	notRemoved  = "removed_at = NULL, removed_by = NULL, revoked_seq = NULL"
	keyNotEnded = "refusal = NULL, waits_for = NULL, retired_at = NULL, retired_by = NULL, retire_signature = NULL, " +
		"retire_refusal = NULL, retired_seq = NULL"
	ruleNotAnswered = "refusal = NULL, proof = NULL, usable_from = NULL"
	isFlagged       = "is_flagged = true"
	notDecided      = "decision = NULL, note = NULL, decided_by = NULL, decided_at = NULL"
)

// columnOf is a column of a table in the catalog.
type columnOf struct {
	Table, Name, Type string
	Words             []string // other texts that constraints of the table name
	IsGenerated       bool
}

// TestEveryColumnChangesOnlyWhereTheListSaysSo tries to change each column of each table in each
// state, by each writer. Foreign keys, unique keys and constraints over several columns are dropped
// meanwhile, so that only a right or a trigger refuses a value. A value that the column's own
// constraint refuses does not count. A run tries one half of the tables, the next day's the other.
func TestEveryColumnChangesOnlyWhereTheListSaysSo(t *testing.T) {
	t.Parallel()
	want, known, never := readWritable(t)
	all := newTestEnv(t)
	all.blind()
	tables := all.columns()
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		for _, c := range tables[table] {
			if !known[table+"."+c.Name] {
				t.Errorf("%s.%s stands nowhere in testdata/columns.txt. Say there that it never changes, or who may change it and when.",
					table, c.Name)
			}
			delete(known, table+"."+c.Name)
		}
	}
	// The tables with the most columns and states take most of the time, each with its own
	// database.
	groups := map[string][]string{"deposits": nil, "dispatch_orders": nil, "withdrawals": nil, "others": nil}
	played := map[string]bool{}
	for _, table := range part.OfToday(t, slices.Sorted(maps.Keys(tables)), 2) {
		group := "others"
		if _, large := groups[table]; large {
			group = table
		}
		groups[group], played[table] = append(groups[group], table), true
	}
	got := map[string]map[string]bool{} // "table state writer" to the columns that may change
	var mu sync.Mutex
	t.Run("parts", func(t *testing.T) {
		for group, of := range groups {
			if len(of) == 0 {
				continue
			}
			t.Run(group, func(t *testing.T) {
				t.Parallel()
				h := newTestEnv(t)
				h.strangers()
				h.pool(tables)
				found := map[string]map[string]bool{}
				for _, table := range of {
					h.changeable(table, tables[table], found)
				}
				mu.Lock()
				defer mu.Unlock()
				maps.Copy(got, found)
			})
		}
	})
	for name := range known {
		t.Errorf("%s stands in testdata/columns.txt and in no table", name)
	}
	for key, columns := range got {
		table, _, _ := strings.Cut(key, " ")
		for name := range columns {
			if name, _, _ := strings.Cut(strings.TrimSuffix(name, moving), ">"); never[table+"."+name] {
				t.Errorf("%s: %s changes, and the list says that it never does", key, name)
			}
		}
		if len(columns) > 0 && want[key] == nil {
			want[key] = map[string]bool{}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		if table, _, _ := strings.Cut(key, " "); !played[table] {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(got[key])) {
			if !want[key][name] {
				t.Errorf("%s: changes %s, and the list does not allow it", key, name)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want[key])) {
			if !got[key][name] {
				t.Errorf("%s: cannot change %s, and the list says that it may", key, name)
			}
		}
	}
	if t.Failed() {
		t.Logf("what may change now, of the tables of this run:\n%s", drawWritable(tables, got))
	}
}

// strangers are additional rows, so that a reference can be changed to an existing one.
func (h *testEnv) strangers() {
	h.t.Helper()
	h.exec(
		`INSERT INTO organizations SELECT (jsonb_populate_record(o, '{"org_id": "org_other"}')).* FROM organizations o WHERE org_id = $1`,
		h.org,
	)
	h.exec(
		`INSERT INTO customers SELECT (jsonb_populate_record(c, '{"customer_id": "bob"}')).* FROM customers c WHERE customer_id = 'ann'`,
	)
	h.exec(
		`INSERT INTO customers SELECT (jsonb_populate_record(c, '{"org_id": "org_other"}')).* FROM customers c WHERE customer_id = 'ann'`,
	)
	h.exec(`INSERT INTO freezes SELECT (jsonb_populate_record(f, jsonb_build_object('freeze_id', 'frz_ann', 'scope', 'CUSTOMER', 'org_id', $1::text, 'customer_id', 'ann', 'chain', NULL))).*
		FROM freezes f LIMIT 1`, h.org)
	h.exec(`INSERT INTO wallets VALUES ('we_bob', $1, 'EVM', 'CUSTOMER_DEPOSIT', 'bob', 'bob', '0xwe_bob', '', now())`,
		h.org)
}

// blind checks that triggers cannot distinguish coffer_system from the owner: no function and no
// condition of a trigger asks for the writer, and no policy hides a row from the role.
func (h *testEnv) blind() {
	h.t.Helper()
	const asks = `'(current|session)_(user|role)|pg_has_role|has_\w+_privilege|\yuser\y'`
	rows, err := h.owner.Query(h.t.Context(), `
		SELECT 'function ' || p.oid::regprocedure FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.prosrc ~* `+asks+`
		UNION ALL
		SELECT 'trigger ' || g.tgname FROM pg_trigger g WHERE NOT g.tgisinternal AND pg_get_triggerdef(g.oid) ~* `+asks+`
		UNION ALL
		SELECT 'table ' || c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace AND c.relrowsecurity AND NOT EXISTS (
			SELECT FROM pg_policy y WHERE y.polrelid = c.oid AND 'coffer_system'::regrole = ANY (y.polroles)
				AND y.polcmd = '*' AND y.polpermissive AND pg_get_expr(y.polqual, y.polrelid) = 'true')`)
	if err != nil {
		h.t.Fatal(err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.t.Fatal(err)
	}
	for _, what := range found {
		h.t.Errorf("%s makes a difference between writers: try every role with every column here", what)
	}
}

// columns lists every table of the schema with its columns.
func (h *testEnv) columns() map[string][]columnOf {
	h.t.Helper()
	rows, err := h.owner.Query(h.t.Context(), `
		SELECT c.relname, a.attname, format_type(a.atttypid, NULL), coalesce((
			SELECT array_agg(DISTINCT w[1]) FROM pg_constraint o, regexp_matches(pg_get_constraintdef(o.oid), '''([^'']*)''', 'g') w
			WHERE o.conrelid = c.oid AND o.contype = 'c' AND a.attnum = ANY (o.conkey) AND cardinality(o.conkey) <= CASE a.attname WHEN 'status' THEN 1 ELSE 3 END), '{}'),
			a.attgenerated <> ''
		FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind IN ('r', 'p') ORDER BY 1, a.attnum`)
	if err != nil {
		h.t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[columnOf])
	if err != nil {
		h.t.Fatal(err)
	}
	tables := map[string][]columnOf{}
	for _, c := range all {
		if !apart.MatchString(c.Table) {
			tables[c.Table] = append(tables[c.Table], c)
		}
	}
	if len(tables) < 55 {
		h.t.Errorf("got %d tables, want every one there is", len(tables))
	}
	return tables
}

// tryChange reports whether one of several values may be written in a row's column: "yes", "no", or
// what went wrong before a trigger or a right could refuse; and which value was accepted. It undoes
// each attempt.
const tryChange = `
	CREATE FUNCTION tried.change(tbl text, at tid, col text, vals text[], also text, deferred boolean, OUT answer text, OUT nth int) LANGUAGE plpgsql AS $$
	DECLARE
		before text; after text; touched int; state text; words text; broken text;
	BEGIN
		answer := '';
		nth := 0;
		FOR i IN 1 .. cardinality(vals) LOOP
			BEGIN
				EXECUTE format('SELECT %I::text FROM public.%I WHERE ctid = %L', col, tbl, at) INTO before;
				EXECUTE format('UPDATE public.%I SET %I = %s%s WHERE ctid = %L RETURNING %I::text', tbl, col, vals[i], also, at, col) INTO after;
				GET DIAGNOSTICS touched = ROW_COUNT;
				IF NOT deferred THEN
					SET CONSTRAINTS ALL IMMEDIATE;
				END IF;
				RAISE EXCEPTION '%', CASE WHEN touched = 1 AND after IS DISTINCT FROM before THEN 'yes' ELSE 'no' END USING ERRCODE = 'ZZ001';
			EXCEPTION WHEN OTHERS THEN
				GET STACKED DIAGNOSTICS state = RETURNED_SQLSTATE, words = MESSAGE_TEXT, broken = CONSTRAINT_NAME;
				CASE
					WHEN state = 'ZZ001' AND words = 'yes' THEN
						answer := 'yes';
						nth := i;
						RETURN;
					WHEN EXISTS (SELECT FROM pg_constraint o WHERE o.conname = broken AND o.contype <> 't' AND o.conrelid = format('public.%I', tbl)::regclass) OR state = '23502' THEN
						IF answer <> 'no' THEN
							answer := broken || ' ' || words;
						END IF;
					WHEN state IN ('ZZ001', '42501', '23514', '428C9', '23001', '55000') THEN answer := 'no';
					WHEN answer <> 'no' THEN answer := state || ' ' || words;
					ELSE NULL;
				END CASE;
			END;
			IF state = '42501' THEN
				answer := 'no';
				RETURN;
			END IF;
		END LOOP;
	END $$`

// changeable returns what may change in one table.
func (h *testEnv) changeable(table string, columns []columnOf, found map[string]map[string]bool) {
	h.t.Helper()
	ctx := h.t.Context()
	tx, err := h.owner.Begin(ctx)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(ctx) }()
	exec := func(sql string, args ...any) {
		h.t.Helper()
		if _, err := tx.Exec(ctx, sql, args...); err != nil {
			h.t.Fatalf("%s: %.300s: %v", table, sql, err)
		}
	}
	// A table without rows loses all constraints, because its row is made up.
	exec(fmt.Sprintf(`
		DO $do$ DECLARE c record; bare boolean := NOT EXISTS (SELECT FROM public.%[1]s); BEGIN
			FOR c IN SELECT conname FROM pg_constraint WHERE conrelid = 'public.%[1]s'::regclass AND (contype IN ('f', 'u', 'x') OR contype = 'c' AND (bare OR cardinality(conkey) > 1)) LOOP
				EXECUTE format('ALTER TABLE public.%[1]s DROP CONSTRAINT IF EXISTS %%I CASCADE', c.conname);
			END LOOP;
			FOR c IN SELECT indexrelid::regclass::text AS name FROM pg_index WHERE indrelid = 'public.%[1]s'::regclass AND indisunique AND NOT indisprimary LOOP
				EXECUTE 'DROP INDEX ' || c.name;
			END LOOP;
		END $do$`, table))
	exec(`CREATE SCHEMA tried`)
	exec(`GRANT USAGE ON SCHEMA tried TO coffer_app, coffer_system`)
	exec(tryChange)
	exec(`SELECT set_config('app.org', $1, true)`, h.org)

	status := slices.IndexFunc(columns, func(c columnOf) bool { return c.Name == "status" && len(c.Words) > 1 })
	states := map[string]string{}
	if status >= 0 {
		for _, s := range columns[status].Words {
			states[s] = "status = '" + s + "'"
			if more := forms[table][s]; more != "" {
				states[s] += ", " + more
			}
		}
	} else if forms[table] != nil {
		states = forms[table]
	} else {
		states["-"] = ""
	}
	for _, state := range slices.Sorted(maps.Keys(states)) {
		at := h.row(tx, table, columns, state, states[state], status >= 0)
		if at == "" {
			return
		}
		wrote := map[string]string{} // the value that the owner wrote, by what changed
		for _, who := range writers {
			if who != "owner" {
				exec(`SET LOCAL ROLE ` + who)
			}
			key := table + " " + state + " " + who
			found[key] = map[string]bool{}
			try := func(what string, c columnOf, values []string, also string, deferred bool) bool {
				h.t.Helper()
				name := c.Name
				written, ok := wrote[what]
				switch {
				case ok:
					values = append([]string{written}, values...)
				case who == "coffer_system":
					return false
				}
				var answer string
				var nth int
				if err := tx.QueryRow(
					ctx, `SELECT answer, nth FROM tried.change($1, $2::text::tid, $3, $4, $5, $6)`, table, at, name,
					values, also, deferred,
				).Scan(&answer, &nth); err != nil {
					answer = err.Error()
				}
				if answer == "yes" {
					wrote[what] = values[nth-1]
				}
				// For a boolean both values were tried, and its own constraint refuses one.
				if answer != "yes" && answer != "no" && c.Type != "boolean" {
					h.t.Errorf("%s: no value that this test knows for %s meets a guard: %s", key, name, answer)
				}
				return answer == "yes"
			}
			values := map[string][]string{}
			for _, c := range columns {
				values[c.Name] = h.values(tx, c)
				if try(c.Name, c, values[c.Name], "", false) {
					found[key][c.Name] = true
				}
			}
			if status >= 0 {
				var moves []string
				for _, to := range columns[status].Words {
					if to != state && try("status>"+to, columns[status], []string{"'" + to + "'"}, "", true) {
						moves = append(moves, to)
						found[key]["status>"+to] = true
					}
				}
				for _, c := range columns {
					if c.Name == "status" || found[key][c.Name] {
						continue
					}
					for _, to := range moves {
						if try(c.Name+moving, c, values[c.Name], ", status = '"+to+"'", true) {
							found[key][c.Name+moving] = true
							break
						}
					}
				}
			}
			exec(`RESET ROLE`)
		}
	}
}

// row finds a row of a table in a state: one of the database, changed into the state if no row is
// in it, or a made-up row if there is none.
func (h *testEnv) row(tx pgx.Tx, table string, columns []columnOf, state, set string, hasStatus bool) (at string) {
	h.t.Helper()
	ctx := h.t.Context()
	order := ""
	if slices.ContainsFunc(columns, func(c columnOf) bool { return c.Name == "org_id" }) {
		order = "org_id = '" + h.org + "' DESC NULLS LAST, "
	}
	one := func(sql string) error { return tx.QueryRow(ctx, sql).Scan(&at) }
	if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
		h.t.Fatal(err)
	}
	if hasStatus {
		order += "status = '" + state + "' DESC, "
	}
	err := one(fmt.Sprintf(`SELECT ctid::text FROM public.%s r ORDER BY %sto_jsonb(r)::text COLLATE "C" LIMIT 1`, table,
		order))
	if err == pgx.ErrNoRows {
		var names, values []string
		for _, c := range columns {
			if c.IsGenerated {
				continue
			}
			names, values = append(names, `"`+c.Name+`"`),
				append(values, "'"+strings.ReplaceAll(h.madeUp(c), "'", "''")+"'")
		}
		err = one(fmt.Sprintf(`INSERT INTO public.%s (%s) OVERRIDING SYSTEM VALUE VALUES (%s) RETURNING ctid::text`,
			table, strings.Join(names, ", "), strings.Join(values, ", ")))
	}
	if err == nil && set != "" {
		err = one(fmt.Sprintf(`UPDATE public.%s SET %s WHERE ctid = '%s' RETURNING ctid::text`, table, set, at))
	}
	if err != nil {
		h.t.Errorf("a row of %s in %s: %v", table, state, err)
		return ""
	}
	if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = origin`); err != nil {
		h.t.Fatal(err)
	}
	return at
}

// madeUp returns a value for a column of a table without rows.
func (h *testEnv) madeUp(c columnOf) string {
	switch {
	case c.Name == "org_id":
		return h.org
	case c.Name == "customer_id":
		return "ann"
	case c.Name == "chain":
		return "ETHEREUM"
	case c.Type == "text" || c.Type == "character varying":
		return "x"
	case strings.HasSuffix(c.Type, "[]"):
		return "{}"
	}
	switch c.Type {
	case "integer", "bigint", "smallint", "numeric", "xid8":
		return "1"
	case "boolean":
		return "true"
	case "timestamp with time zone":
		return "2026-01-01T00:00:00Z"
	case "bytea":
		return `\x00`
	case "jsonb", "json":
		return "{}"
	case "uuid":
		return "00000000-0000-0000-0000-000000000001"
	case "int8multirange":
		return "{[1,2)}"
	}
	h.t.Errorf("%s.%s: this test knows no value of the type %s", c.Table, c.Name, c.Type)
	return ""
}

// values returns what a column might become: the values in its constraints, values of columns with
// the same name, and the neighbours of its value. NULL comes first, for columns that may be filled
// once.
func (h *testEnv) values(tx pgx.Tx, c columnOf) (all []string) {
	h.t.Helper()
	all = []string{"NULL"}
	column := `"` + c.Name + `"`
	quoted := func(v string) string { return "'" + strings.ReplaceAll(v, "'", "''") + "'" }
	for _, w := range c.Words {
		all = append(all, quoted(w))
	}
	switch c.Type {
	case "text", "character varying":
		all = append(all, "'other'", "''", "coalesce("+column+", '') || 'x'")
	case "integer", "bigint", "smallint", "numeric":
		all = append(all, "coalesce("+column+", 0) + 1", "coalesce("+column+", 0) - 1", "0", "5", "1000000000")
		if c.Type == "smallint" {
			all = all[:len(all)-1]
		}
	case "boolean":
		all = append(all, "NOT coalesce("+column+", false)")
	case "timestamp with time zone":
		all = append(all, "coalesce("+column+", now()) + interval '1 hour'",
			"coalesce("+column+", now()) - interval '1 hour'", "now()")
	case "bytea":
		all = append(all, `'\x01'`, `'\x'`)
	case "xid8":
		all = append(all, "'1'", "'5'")
	case "uuid":
		all = append(all, "'00000000-0000-0000-0000-000000000001'", "'00000000-0000-0000-0000-000000000002'")
	case "jsonb", "json":
		all = append(all, `'{"a": "b"}'`, `'[]'`, `'{}'`)
	case "int8multirange":
		all = append(all, "'{}'", "'{[7,9)}'", column+" + '{[1000000000,1000000001)}'")
	default:
		if !strings.HasSuffix(c.Type, "[]") {
			h.t.Errorf("%s.%s: this test knows no value of the type %s", c.Table, c.Name, c.Type)
			break
		}
		all = append(all, "'{}'", "array_append("+column+", NULL)", "array_cat("+column+", "+column+")")
		for _, w := range c.Words {
			all = append(all, quoted("{"+w+"}"))
		}
	}
	rows, err := tx.Query(
		h.t.Context(),
		`SELECT value FROM tried_pool WHERE $1 = name OR $1 LIKE '%\_' || name ORDER BY value COLLATE "C"`, c.Name,
	)
	if err != nil {
		h.t.Fatal(err)
	}
	held, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		h.t.Fatal(err)
	}
	for _, v := range held {
		all = append(all, quoted(v))
	}
	return all
}

// pool collects the values of references, so that each can be tried with another existing one.
func (h *testEnv) pool(tables map[string][]columnOf) {
	h.t.Helper()
	h.exec(`CREATE TABLE tried_pool (name text, value text)`)
	h.exec(`GRANT SELECT ON tried_pool TO coffer_app, coffer_system`)
	for table, columns := range tables {
		for _, c := range columns {
			if !strings.HasSuffix(c.Name, "_id") && c.Name != "chain" && c.Name != "outpoint" {
				continue
			}
			h.exec(fmt.Sprintf(
				`INSERT INTO tried_pool SELECT DISTINCT '%s', left("%s"::text, 200) FROM public.%s WHERE "%s" IS NOT NULL ORDER BY 2 LIMIT 12`,
				c.Name, c.Name, table, c.Name,
			))
		}
	}
	h.exec(
		`DELETE FROM tried_pool a USING tried_pool b WHERE a.ctid < b.ctid AND (a.name, a.value) = (b.name, b.value)`,
	)
}

// readWritable reads the list. A table alone on a line with a colon begins it; under it are the
// columns that never change and, for states and writers, those that may. known has every named
// column, and never those that never change.
func readWritable(t *testing.T) (want map[string]map[string]bool, known, never map[string]bool) {
	t.Helper()
	want, known, never = map[string]map[string]bool{}, map[string]bool{}, map[string]bool{}
	table := ""
	// A line with a deeper indent continues the one before.
	for line := range strings.Lines(strings.ReplaceAll(writable, "\n      ", " ")) {
		line = strings.TrimSpace(line)
		head, rest, ok := strings.Cut(line, ":")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
			continue
		case !ok || table == "" && strings.TrimSpace(rest) != "":
			t.Fatalf("columns.txt: this line is none: %q", line)
		case strings.TrimSpace(rest) == "":
			table = head
			continue
		}
		note := func(name string) {
			name = strings.TrimSuffix(name, moving)
			if column, _, to := strings.Cut(name, ">"); to {
				name = column
			}
			known[table+"."+name] = true
		}
		if head == "never" {
			for name := range strings.FieldsSeq(rest) {
				note(name)
				never[table+"."+name] = true
			}
			continue
		}
		states, who, ok := strings.Cut(head, " by ")
		if !ok {
			t.Fatalf("columns.txt: %s: this line says not by whom: %q", table, line)
		}
		for state := range strings.FieldsSeq(states) {
			for writer := range strings.FieldsSeq(who) {
				key := table + " " + state + " " + writer
				if want[key] == nil {
					want[key] = map[string]bool{}
				}
				for name := range strings.FieldsSeq(rest) {
					note(name)
					want[key][name] = true
				}
			}
		}
	}
	return want, known, never
}

// drawWritable writes the result in the form of the list.
func drawWritable(tables map[string][]columnOf, found map[string]map[string]bool) string {
	var b strings.Builder
	for _, table := range slices.Sorted(maps.Keys(tables)) {
		fmt.Fprintf(&b, "\n%s:\n", table)
		changes := map[string]bool{}
		lines := map[string][]string{} // "writers: columns" to states
		byState := map[string]map[string][]string{}
		for key, columns := range found {
			word := strings.Fields(key)
			if word[0] != table || len(columns) == 0 {
				continue
			}
			for name := range columns {
				name, _, _ = strings.Cut(strings.TrimSuffix(name, moving), ">")
				changes[name] = true
			}
			set := strings.Join(slices.Sorted(maps.Keys(columns)), " ")
			if byState[word[1]] == nil {
				byState[word[1]] = map[string][]string{}
			}
			byState[word[1]][set] = append(byState[word[1]][set], word[2])
		}
		for state, sets := range byState {
			for set, who := range sets {
				slices.Sort(who)
				line := strings.Join(who, " ") + ": " + set
				lines[line] = append(lines[line], state)
			}
		}
		var never []string
		for _, c := range tables[table] {
			if !changes[c.Name] {
				never = append(never, c.Name)
			}
		}
		if len(never) > 0 {
			fmt.Fprintf(&b, "  never: %s\n", strings.Join(never, " "))
		}
		for _, line := range slices.Sorted(maps.Keys(lines)) {
			slices.Sort(lines[line])
			fmt.Fprintf(&b, "  %s by %s\n", strings.Join(lines[line], " "), line)
		}
	}
	return b.String()
}
