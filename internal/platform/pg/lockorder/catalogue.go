package lockorder

import (
	"context"
	"database/sql/driver"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Catalogue is what a database does by itself: its triggers, functions and foreign keys.
type Catalogue struct {
	tables    map[string]bool
	functions map[string][]step
	broken    map[string]error // functions whose text is not understood
	triggers  map[string][]trigger
	foreign   map[string][]foreignKey
}

type trigger struct {
	name       string
	function   string
	before     bool
	row        bool
	deferred   bool
	operations []operation
	columns    []string // of UPDATE OF; empty: all
}

type foreignKey struct {
	name     string
	columns  []string // that a statement writes
	sources  []string // from which the database computes the others
	parent   string
	deferred bool
}

// condition says when a trigger function or a foreign key locks rows. The function's text, or that of
// the column which the database computes for the key, has to contain source, so that a change of it
// is noticed here.
type condition struct {
	source string
	column string
	values []string // the column gets one of them
	// On UPDATE it is enough that one of these columns is written.
	moved []string
}

// conditions of the trigger functions that look before they lock, and of the foreign keys that other
// rows of the table do not have.
var conditions = map[string]condition{
	"dispatch_orders_proof_live": {
		source: "IF NEW.status NOT IN ('PAID', 'FAILED')",
		column: "status", values: []string{"PAID", "FAILED"},
	},
	"deposits_proof_live": {
		source: "SELECT deposit_id, chain, height, proof_id, status FROM was WHERE chain_status = 'FINALIZED'",
		column: "chain_status", values: []string{"FINALIZED"},
		moved: []string{"chain", "height", "proof_id", "status", "chain_status"},
	},
	"dispatch_orders_as_accepted": {source: "WHEN 'PAYMENT'::text", column: "purpose", values: []string{"PAYMENT"}},
	"dispatch_orders_as_decided":  {source: "WHEN 'RETURN'::text", column: "purpose", values: []string{"RETURN"}},
}

const (
	triggerRow      = 1 << 0
	triggerBefore   = 1 << 1
	triggerOnInsert = 1 << 2
	triggerOnDelete = 1 << 3
	triggerOnUpdate = 1 << 4
)

// ReadCatalogue reads the triggers, functions and foreign keys of the schema public.
func ReadCatalogue(ctx context.Context, conn *pgx.Conn) (*Catalogue, error) {
	c := &Catalogue{
		tables: map[string]bool{}, functions: map[string][]step{}, broken: map[string]error{},
		triggers: map[string][]trigger{}, foreign: map[string][]foreignKey{},
	}
	rows, err := conn.Query(ctx, `
		SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')`)
	if err != nil {
		return nil, err
	}
	var name, language, source string
	if _, err := pgx.ForEachRow(rows, []any{&name}, func() error { c.tables[name] = true; return nil }); err != nil {
		return nil, err
	}
	rows, err = conn.Query(ctx, `
		SELECT p.proname, l.lanname, p.prosrc FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang
		WHERE p.pronamespace = 'public'::regnamespace AND p.prokind = 'f'`)
	if err != nil {
		return nil, err
	}
	if _, err := pgx.ForEachRow(rows, []any{&name, &language, &source}, func() error {
		steps, err := parseBody(language, source)
		if err != nil {
			c.broken[name] = fmt.Errorf("function %s: %w", name, err)
			return nil
		}
		c.functions[name] = append(c.functions[name], steps...)
		if condition, ok := conditions[name]; ok && !strings.Contains(source, condition.source) {
			return fmt.Errorf("function %s does not contain %q any more", name, condition.source)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	rows, err = conn.Query(ctx, `
		SELECT c.relname, t.tgname, p.proname, t.tgtype::int, t.tginitdeferred,
			coalesce((SELECT array_agg(a.attname::text) FROM pg_attribute a
				WHERE a.attrelid = t.tgrelid AND a.attnum = ANY (t.tgattr)), '{}')
		FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_proc p ON p.oid = t.tgfoid
		WHERE c.relnamespace = 'public'::regnamespace AND NOT t.tgisinternal ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	var t trigger
	var kind int
	if _, err := pgx.ForEachRow(rows, []any{&name, &t.name, &t.function, &kind, &t.deferred, &t.columns}, func() error {
		t.before, t.row = kind&triggerBefore != 0, kind&triggerRow != 0
		t.operations = nil
		for op, bit := range map[operation]int{
			insertRows: triggerOnInsert, deleteRows: triggerOnDelete, updateRows: triggerOnUpdate,
		} {
			if kind&bit != 0 {
				t.operations = append(t.operations, op)
			}
		}
		c.triggers[name] = append(c.triggers[name], t)
		t.columns = nil
		return nil
	}); err != nil {
		return nil, err
	}
	rows, err = conn.Query(ctx, `
		SELECT child.relname, f.conname, parent.relname, f.condeferred, coalesce(written.columns, '{}'),
			coalesce(computed.sources, '{}'), coalesce(computed.texts, '')
		FROM pg_constraint f
		JOIN pg_class child ON child.oid = f.conrelid JOIN pg_class parent ON parent.oid = f.confrelid
		CROSS JOIN LATERAL (
			SELECT array_agg(a.attname::text) AS columns FROM pg_attribute a
			WHERE a.attrelid = f.conrelid AND a.attnum = ANY (f.conkey) AND a.attgenerated = '') written
		CROSS JOIN LATERAL (
			SELECT array_agg(DISTINCT s.attname::text) AS sources,
				string_agg(DISTINCT pg_get_expr(g.adbin, g.adrelid), ' ') AS texts
			FROM pg_attribute a JOIN pg_attrdef g ON (g.adrelid, g.adnum) = (a.attrelid, a.attnum)
			JOIN pg_depend d ON d.classid = 'pg_attrdef'::regclass AND d.objid = g.oid AND d.refobjid = a.attrelid
			JOIN pg_attribute s ON (s.attrelid, s.attnum) = (d.refobjid, d.refobjsubid) AND s.attnum <> a.attnum
			WHERE a.attrelid = f.conrelid AND a.attnum = ANY (f.conkey) AND a.attgenerated <> '') computed
		WHERE f.contype = 'f' AND child.relnamespace = 'public'::regnamespace ORDER BY 1, f.conname`)
	if err != nil {
		return nil, err
	}
	var key foreignKey
	var texts string
	_, err = pgx.ForEachRow(rows, []any{
		&name, &key.name, &key.parent, &key.deferred, &key.columns, &key.sources, &texts,
	}, func() error {
		c.foreign[name] = append(c.foreign[name], key)
		key.columns, key.sources = nil, nil
		if condition, ok := conditions[key.name]; ok && !strings.Contains(texts, condition.source) {
			return fmt.Errorf("the key %s does not contain %q any more: %s", key.name, condition.source, texts)
		}
		return nil
	})
	return c, err
}

// Tables returns the names of the tables.
func (c *Catalogue) Tables() []string { return slices.Sorted(maps.Keys(c.tables)) }

// Broken returns the functions whose text is not understood, each with the reason.
func (c *Catalogue) Broken() map[string]error { return maps.Clone(c.broken) }

// Locking returns the functions that lock rows or advisory locks, each with the names of these.
func (c *Catalogue) Locking() map[string][]string {
	list := map[string][]string{}
	for name, steps := range c.functions {
		for _, s := range steps {
			if s.op != callFunction && !slices.Contains(list[name], s.name) {
				list[name] = append(list[name], s.name)
			}
		}
	}
	return list
}

// request is one lock that a statement asks for.
type request struct {
	name  string
	mode  Mode
	tries bool
	cause string // the trigger, function or foreign key that asks; "" is the statement itself
	// An INSERT without ON CONFLICT DO UPDATE adds a row; it waits for another one of its key only.
	adds bool
}

// expand returns what a statement asks for, and what its COMMIT asks for.
func (c *Catalogue) expand(steps []step, args []any) (now, deferred []request, err error) {
	e := &expansion{catalogue: c, args: args}
	for _, s := range steps {
		e.step(s, "", 0)
	}
	return e.now, e.deferred, e.err
}

type expansion struct {
	catalogue     *Catalogue
	args          []any
	now, deferred []request
	err           error
}

const nestedMax = 8 // functions and triggers within each other

func (e *expansion) step(s step, cause string, depth int) {
	if depth > nestedMax {
		e.err = fmt.Errorf("functions and triggers call each other more than %d times", nestedMax)
		return
	}
	c := e.catalogue
	r := request{name: s.name, mode: s.mode, tries: s.tries, cause: cause}
	switch s.op {
	case callFunction:
		if err := c.broken[s.name]; err != nil {
			e.err = err
		}
		e.run(s.name, "function "+s.name, depth)
	case lockAdvisory:
		if s.param > 0 {
			named, ok := e.arg(s.param).(fmt.Stringer)
			if !ok {
				e.err = fmt.Errorf("an advisory lock whose argument has no name")
				return
			}
			r.name = named.String()
		}
		e.now = append(e.now, r)
	case lockRows:
		if c.tables[s.name] {
			e.now = append(e.now, r)
		} else {
			e.err = fmt.Errorf("the rows of %s are locked, which is no table", s.name)
		}
	case insertRows, updateRows, deleteRows:
		if !c.tables[s.name] {
			e.err = fmt.Errorf("%s is changed, which is no table", s.name)
			return
		}
		e.change(s, r, depth)
	}
}

// change adds a statement that writes, with its triggers and foreign keys.
func (e *expansion) change(s step, r request, depth int) {
	e.triggers(s, s.op, s.columns, true, false, depth)
	if s.upsert {
		e.triggers(s, updateRows, s.upserted, true, false, depth)
	}
	if s.op == insertRows {
		e.triggers(s, insertRows, s.columns, true, true, depth)
	}
	switch {
	case s.op == deleteRows:
		r.mode = ForUpdate
	default:
		r.mode = ForNoKeyUpdate
		r.adds = s.op == insertRows && !s.upsert
	}
	e.now = append(e.now, r)
	if s.op != insertRows {
		e.triggers(s, s.op, s.columns, true, true, depth)
	}
	if s.upsert {
		e.triggers(s, updateRows, s.upserted, true, true, depth)
	}
	e.references(s.name, s.columns, s.op)
	e.references(s.name, s.upserted, updateRows)
	e.triggers(s, s.op, s.columns, false, false, depth)
	e.triggers(s, s.op, s.columns, false, true, depth)
	if s.upsert {
		e.triggers(s, updateRows, s.upserted, false, false, depth)
		e.triggers(s, updateRows, s.upserted, false, true, depth)
	}
}

func (e *expansion) triggers(s step, op operation, columns []assignment, before, row bool, depth int) {
	for _, t := range e.catalogue.triggers[s.name] {
		if t.before != before || t.row != row || !slices.Contains(t.operations, op) {
			continue
		}
		if op == updateRows && len(t.columns) > 0 && !slices.ContainsFunc(columns, func(a assignment) bool {
			return slices.Contains(t.columns, a.column)
		}) {
			continue
		}
		if err := e.catalogue.broken[t.function]; err != nil {
			e.err = err
			return
		}
		if condition, ok := conditions[t.function]; ok && !e.holds(condition, op, columns) {
			continue
		}
		if !t.deferred {
			e.run(t.function, "trigger "+t.name, depth)
			continue
		}
		saved := e.now
		e.now = nil
		e.run(t.function, "trigger "+t.name, depth)
		e.deferred = append(e.deferred, e.now...)
		e.now = saved
	}
}

// run adds the steps of a function. Its arguments are not those of the statement.
func (e *expansion) run(name, cause string, depth int) {
	outer := e.args
	e.args = nil
	for _, s := range e.catalogue.functions[name] {
		e.step(s, cause, depth+1)
	}
	e.args = outer
}

func (e *expansion) holds(c condition, op operation, columns []assignment) bool {
	if op == updateRows && c.moved != nil {
		return slices.ContainsFunc(columns, func(a assignment) bool { return slices.Contains(c.moved, a.column) })
	}
	for _, a := range columns {
		if a.column != c.column {
			continue
		}
		switch {
		case a.literal != "":
			return slices.Contains(c.values, a.literal)
		case a.isElement && e.arg(a.param) != nil:
			return slices.ContainsFunc(listElements(e.arg(a.param)), func(v any) bool {
				return slices.Contains(c.values, fmt.Sprint(v))
			})
		case a.param > 0 && e.arg(a.param) != nil:
			return slices.Contains(c.values, fmt.Sprint(e.arg(a.param)))
		}
		return true
	}
	return false
}

// references adds the rows that foreign keys lock.
func (e *expansion) references(table string, columns []assignment, op operation) {
	for _, f := range e.catalogue.foreign[table] {
		written, computed := 0, false
		for _, a := range columns {
			if slices.Contains(f.columns, a.column) && !e.isNull(a) {
				written++
			}
			computed = computed || slices.Contains(f.sources, a.column)
		}
		if written == 0 && !computed || op == insertRows && written < len(f.columns) {
			continue
		}
		if condition, ok := conditions[f.name]; ok && !e.holds(condition, op, columns) {
			continue
		}
		r := request{name: f.parent, mode: ForKeyShare, cause: "foreign key of " + table}
		if f.deferred {
			e.deferred = append(e.deferred, r)
		} else {
			e.now = append(e.now, r)
		}
	}
}

// isNull reports whether the column certainly gets NULL.
func (e *expansion) isNull(a assignment) bool {
	if a.param == 0 || e.args == nil {
		return a.null
	}
	value := e.arg(a.param)
	if a.isElement && value != nil {
		return !slices.ContainsFunc(listElements(value), func(v any) bool {
			return v != nil && !(a.emptyIsNull && fmt.Sprint(v) == "")
		})
	}
	return value == nil || a.emptyIsNull && fmt.Sprint(value) == ""
}

// listElements returns the elements of an array, nil for each that is NULL. A value that is no array is its only
// element.
func listElements(array any) (elements []any) {
	list := reflect.ValueOf(array)
	if list.Kind() != reflect.Slice {
		return []any{array}
	}
	for i := range list.Len() {
		v := list.Index(i)
		switch {
		case v.Kind() != reflect.Pointer:
			elements = append(elements, v.Interface())
		case v.IsNil():
			elements = append(elements, nil)
		default:
			elements = append(elements, v.Elem().Interface())
		}
	}
	return elements
}

// arg returns an argument by its number, without the options of the driver before it.
func (e *expansion) arg(number int) any {
	args := e.args
	for len(args) > 0 {
		switch args[0].(type) {
		case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
			args = args[1:]
			continue
		}
		break
	}
	if number > len(args) {
		return nil
	}
	arg := args[number-1]
	if v := reflect.ValueOf(arg); v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return nil
		}
		if _, ok := arg.(fmt.Stringer); !ok {
			return v.Elem().Interface()
		}
	}
	if valuer, ok := arg.(driver.Valuer); ok {
		if value, err := valuer.Value(); err == nil && value == nil {
			return nil
		}
	}
	return arg
}
