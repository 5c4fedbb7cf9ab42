package lockorder

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// newTestTracer returns a tracer of a small order: a gate, parents, orders and funds, and a group
// apart. An INSERT into orders locks its parent by a foreign key and by a trigger.
func newTestTracer(t testing.TB, path ...string) (*Tracer, *Record) {
	t.Helper()
	order := &Order{
		Levels: []Level{
			{"gate", []Lock{{Name: "gate freezes"}, {Name: "gate settings of "}}},
			{"parents", []Lock{{Name: "parents", Strong: true}, {Name: "mints"}}},
			{"orders", []Lock{{Name: "orders", Strong: true, Fresh: "its id is new"}}},
			{"funds", []Lock{{Name: "funds"}}},
		},
		Groups:   []Group{{"apart", []Lock{{Name: "deliveries", Strong: true}}}},
		Unlocked: []Lock{{Name: "events", Fresh: "its id is new"}},
		Exceptions: []Exception{
			{Number: 3, Held: []string{"funds"}, Taken: []string{"orders"}, Function: "sweep.Sweeper.plan"},
		},
	}
	if err := order.index(); err != nil {
		t.Fatal(err)
	}
	body, err := parseBody("plpgsql", `
	DECLARE
	    parted bigint;
	BEGIN
	    IF NEW.status <> 'PAID' THEN
	        RETURN NEW;
	    END IF;
	    SELECT p.parted INTO parted FROM parents p WHERE p.id = NEW.parent FOR KEY SHARE;
	    RETURN NEW;
	END`)
	if err != nil {
		t.Fatal(err)
	}
	catalogue := &Catalogue{
		tables:    map[string]bool{},
		functions: map[string][]step{"orders_check": body, "refuse": nil},
		broken:    map[string]error{"guess": fmt.Errorf("EXECUTE")},
		triggers: map[string][]trigger{"orders": {
			{
				name: "orders_proven", function: "orders_check", row: true, operations: []operation{updateRows},
				columns: []string{"proof"},
			},
		}},
		foreign: map[string][]foreignKey{"orders": {
			{columns: []string{"parent"}, parent: "parents"},
			{
				name: "dispatch_orders_as_accepted", columns: []string{"id"}, sources: []string{"purpose"},
				parent: "parents", deferred: true,
			},
		}},
	}
	for _, table := range []string{"parents", "mints", "orders", "funds", "deliveries", "events", "forgotten"} {
		catalogue.tables[table] = true
	}
	tracer := NewTracer(order)
	tracer.SetCatalogue(catalogue)
	tracer.fromTest = func() bool { return false }
	tracer.callers = func() []string { return path }
	return tracer, tracer.Watch("test")
}

type named string

func (n named) String() string { return string(n) }

const (
	lockOrder  = `SELECT * FROM orders WHERE id = $1 FOR UPDATE`
	moveFunds  = `UPDATE funds SET amount = amount + $1 WHERE wallet = $2`
	shareMints = `SELECT FROM mints WHERE id = ANY ($1) ORDER BY id FOR SHARE`
	tryOrder   = `SELECT id FROM orders LIMIT 1 FOR UPDATE SKIP LOCKED`
	takeGate   = `SELECT pg_advisory_xact_lock($1)`
	insertMany = `INSERT INTO orders (id, parent, purpose) SELECT o.id, nullif(o.parent, ''), o.purpose
		FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS o (id, parent, purpose, nth) ORDER BY o.nth`
	shareGate = `SELECT pg_advisory_xact_lock_shared($1)`
)

func TestATransactionInAnotherOrderIsReported(t *testing.T) {
	t.Parallel()
	freezes, settings := []any{named("gate freezes")}, []any{named("gate settings of org_1")}
	type sent struct {
		sql  string
		args []any
	}
	for name, c := range map[string]struct {
		path       []string
		statements []sent
		want       string // part of the only violation; "" for none
	}{
		"the order": {nil, []sent{
			{shareGate, freezes},
			{shareGate, settings},
			{shareMints, nil},
			{lockOrder, nil},
			{moveFunds, nil},
			{lockOrder, nil},
		}, ""},
		"an earlier level": {nil, []sent{
			{moveFunds, nil}, {lockOrder, nil},
		}, "has funds (level 4) takes orders FOR UPDATE (level 3)"},
		"an earlier lock of a level": {nil, []sent{
			{shareGate, settings}, {takeGate, freezes},
		}, "(level 1) takes gate freezes exclusive"},
		"a stronger mode": {nil, []sent{
			{shareMints, nil}, {`UPDATE mints SET quarantined = true`, nil},
		}, "two transactions that have that wait"},
		"no stronger mode than it has": {nil, []sent{
			{`UPDATE mints SET quarantined = true`, nil}, {shareMints, nil},
		}, ""},
		"without waiting":                   {nil, []sent{{moveFunds, nil}, {tryOrder, nil}}, ""},
		"behind a lock that was only tried": {nil, []sent{{tryOrder, nil}, {shareMints, nil}}, "takes mints FOR SHARE"},
		"another group": {nil, []sent{
			{lockOrder, nil}, {`DELETE FROM deliveries`, nil},
		}, "belongs to another group"},
		"a new row": {nil, []sent{{moveFunds, nil}, {`INSERT INTO orders (id) VALUES ($1)`, nil}}, ""},
		"a row that may be there": {nil, []sent{
			{moveFunds, nil},
			{`INSERT INTO orders (id) VALUES ($1) ON CONFLICT (id) DO UPDATE SET status = 'QUEUED'`, nil},
		}, "takes orders FOR NO KEY UPDATE"},
		"a key of others": {nil, []sent{
			{lockOrder, nil}, {`INSERT INTO mints (id) VALUES ($1) ON CONFLICT DO NOTHING`, nil},
		}, "takes mints INSERT"},
		"a foreign key": {nil, []sent{
			{moveFunds, nil}, {`INSERT INTO orders (id, parent) VALUES ($1, $2)`, []any{"o", "p"}},
		}, "takes parents FOR KEY SHARE by foreign key of orders"},
		"a foreign key, null": {nil, []sent{
			{moveFunds, nil}, {`INSERT INTO orders (id, parent) VALUES ($1, nullif($2, ''))`, []any{"o", ""}},
		}, ""},
		"a foreign key that the database computes": {nil, []sent{
			{moveFunds, nil}, {`INSERT INTO orders (id, purpose) VALUES ($1, $2)`, []any{"o", "PAYMENT"}},
		}, "takes parents FOR KEY SHARE by foreign key of orders"},
		"a foreign key of one of many rows": {nil, []sent{
			{moveFunds, nil}, {insertMany, []any{[]string{"o", "q"}, []string{"", "p"}, []string{"SWEEP", "SWEEP"}}},
		}, "takes parents FOR KEY SHARE by foreign key of orders"},
		"a foreign key, null in all rows": {nil, []sent{
			{moveFunds, nil}, {insertMany, []any{[]string{"o", "q"}, []string{"", ""}, []string{"SWEEP", "SWEEP"}}},
		}, ""},
		"a foreign key that the database computes for one of many rows": {nil, []sent{
			{moveFunds, nil}, {insertMany, []any{[]string{"o", "q"}, []string{"", ""}, []string{"SWEEP", "PAYMENT"}}},
		}, "takes parents FOR KEY SHARE by foreign key of orders"},
		"many rows from elsewhere": {nil, []sent{
			{moveFunds, nil},
			{`INSERT INTO orders (id, purpose) SELECT w.id, w.purpose FROM unnest(ids($1)) AS w (id, purpose)`, nil},
		}, "takes parents FOR KEY SHARE by foreign key of orders"},
		"a foreign key that is computed anew": {nil, []sent{
			{`UPDATE orders SET purpose = 'PAYMENT'`, nil},
		}, "takes parents FOR KEY SHARE by foreign key of orders"},
		"a foreign key that another purpose has": {nil, []sent{
			{moveFunds, nil}, {`INSERT INTO orders (id, purpose) VALUES ($1, $2)`, []any{"o", "SWEEP"}},
		}, ""},
		"a trigger": {nil, []sent{
			{`UPDATE orders SET status = 'PAID', proof = $1`, nil},
		}, "takes parents FOR KEY SHARE by trigger orders_proven"},
		"another column": {nil, []sent{{`UPDATE orders SET status = 'PAID'`, nil}}, ""},
		"a common table expression": {nil, []sent{{`
			WITH moved AS (UPDATE funds SET amount = 0 RETURNING wallet),
				due AS MATERIALIZED (SELECT id FROM orders ORDER BY id FOR UPDATE)
			SELECT count(*) FROM due`, nil}}, "has funds (level 4) takes orders FOR UPDATE"},
		"a subquery comes first": {nil, []sent{{`
			UPDATE funds SET amount = 0 WHERE order_id IN (SELECT id FROM orders ORDER BY id FOR UPDATE)`, nil}}, ""},
		"the path of an exception": {
			[]string{"dispatch.Submit", "sweep.Sweeper.plan.func1", "sweep.Sweeper.Run"},
			[]sent{{moveFunds, nil}, {lockOrder, nil}},
			"",
		},
		"another path": {
			[]string{"dispatch.Submit", "sweep.Sweeper.planning"},
			[]sent{{moveFunds, nil}, {lockOrder, nil}},
			"takes orders",
		},
		"another lock on the path of an exception": {
			[]string{"sweep.Sweeper.plan"}, []sent{{moveFunds, nil}, {shareMints, nil}}, "takes mints FOR SHARE",
		},
		"rows without a place": {nil, []sent{{`UPDATE forgotten SET a = 1`, nil}}, "does not have forgotten"},
		"a gate without a place": {nil, []sent{
			{takeGate, []any{named("gate rates")}},
		}, "does not have gate rates"},
		"an unnamed lock": {nil, []sent{{takeGate, []any{int64(1)}}}, "whose argument has no name"},
		"rows that nothing waits for": {nil, []sent{
			{moveFunds, nil}, {`INSERT INTO events (id) VALUES ($1)`, nil},
		}, ""},
		"a change of such rows":        {nil, []sent{{`UPDATE events SET seen = true`, nil}}, "has no place"},
		"a table that is not there":    {nil, []sent{{`DELETE FROM nothing`, nil}}, "which is no table"},
		"a statement of another kind":  {nil, []sent{{`LOCK TABLE orders`, nil}}, "does not understand"},
		"a function that hides it all": {nil, []sent{{`SELECT guess()`, nil}}, "does not understand"},
		"a delete that is not declared": {
			nil, []sent{{`DELETE FROM funds`, nil}}, "takes funds FOR UPDATE or deletes it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tracer, record := newTestTracer(t, c.path...)
			tx := &transaction{}
			tracer.run(record, tx, "begin isolation level read committed read write; set local role coffer_system", nil)
			for _, s := range c.statements {
				tracer.run(record, tx, s.sql, s.args)
			}
			tracer.run(record, tx, "commit", nil)
			got := record.Drain()
			if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
				t.Errorf("got %q, want one with %q", got, c.want)
			}
			if used := record.HasUsed("sweep.Sweeper.plan"); used != (name == "the path of an exception") {
				t.Errorf("got %v for the use of the exception", used)
			}
			// The next transaction holds nothing of this one.
			tracer.run(record, tx, "begin", nil)
			tracer.run(record, tx, takeGate, freezes)
			if more := record.Drain(); len(more) > 0 {
				t.Errorf("got %q in the next transaction", more)
			}
		})
	}
}

func TestTransactionsOfATestHaveNoOrder(t *testing.T) {
	t.Parallel()
	tracer, record := newTestTracer(t)
	tx, isTest := &transaction{}, true
	tracer.fromTest = func() bool { return isTest }
	tracer.run(record, tx, "begin", nil)
	isTest = false
	tracer.run(record, tx, moveFunds, nil)
	tracer.run(record, tx, lockOrder, nil)
	if got := record.Drain(); len(got) > 0 {
		t.Errorf("got %q, want nothing about a transaction that a test began", got)
	}
}

func TestWhatIsNotUnderstoodIsAnError(t *testing.T) {
	t.Parallel()
	for _, sql := range []string{
		`SELECT * FROM a FOR`, `SELECT * FROM a FOR UPDATE OF b`, `SELECT * FROM a, b FOR UPDATE OF c`,
		`SELECT 1 FOR UPDATE`, `SELECT * FROM (SELECT 1) s FOR UPDATE`, `SELECT * FROM a FOR UPDATE WAIT 5`,
		`MERGE INTO a USING b ON true`, `INSERT INTO a VALUES (1)`, `INSERT INTO a (b) VALUES (1) ON CONFLICT DO`,
		`UPDATE a WHERE b`, `DELETE a`, `UPDATE a SET b`, `TRUNCATE a`, `LOCK a`, `COPY a FROM stdin`, `DO 'x'`,
		`CALL f()`, `EXECUTE p`, `WITH a AS b SELECT 1`, `SELECT pg_advisory_lock(1)`,
		`SELECT pg_advisory_xact_lock(1)`, `SELECT (1`, `SELECT 1)`, `SELECT 'a`, `SELECT "a`, `SELECT $$a`,
		`SELECT E'a\'b'`, `SELECT 1 /* a`,
	} {
		if steps, err := parseSQL(sql); err == nil {
			t.Errorf("got %v for %s, want an error", steps, sql)
		}
	}
	if steps, err := parseBody("plpgsql", `BEGIN EXECUTE 'DELETE FROM a'; END`); err == nil {
		t.Errorf("got %v for EXECUTE, want an error", steps)
	}
}

func TestStatementsAreReadInTheOrderOfTheirParts(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string][]string{
		`SELECT a FROM b WHERE c IS DISTINCT FROM 1`:                                            nil,
		`begin read only; set local role coffer_reader`:                                         nil,
		`SELECT a FROM b AS x JOIN c y ON true LEFT JOIN LATERAL f(1) z ON true FOR SHARE OF y`: {"f()", "c FOR SHARE"},
		"SELECT a FROM ONLY public.b, c WHERE 'FOR UPDATE' = d -- FOR UPDATE\nFOR KEY SHARE": {
			"b FOR KEY SHARE", "c FOR KEY SHARE",
		},
		`(SELECT a FROM b FOR UPDATE) UNION ALL (SELECT a FROM c FOR SHARE)`: {"b FOR UPDATE", "c FOR SHARE"},
		`SELECT a FROM b FOR NO KEY UPDATE OF b SKIP LOCKED`:                 {"b FOR NO KEY UPDATE without waiting"},
		`INSERT INTO a AS t (b, c) SELECT b, c FROM d FOR UPDATE`:            {"d FOR UPDATE", "a INSERT"},
		`WITH x AS (DELETE FROM a RETURNING b) INSERT INTO c (b) SELECT b FROM x
			ON CONFLICT (b) DO UPDATE SET b = excluded.b WHERE c.b <> 1`: {"a DELETE", "c UPSERT"},
		`UPDATE a x SET (b, c) = (SELECT d, e FROM f FOR SHARE), g = h(2) FROM i WHERE x.j = i.j`: {
			"f FOR SHARE", "h()", "a UPDATE",
		},
		`SELECT pg_try_advisory_xact_lock(hashtextextended('coffer/x/' || $1, 0))`: {
			"coffer/x/ exclusive without waiting",
		},
	} {
		steps, err := parseSQL(sql)
		if err != nil {
			t.Errorf("%s: %v", sql, err)
			continue
		}
		var got []string
		for _, s := range steps {
			text := s.name
			switch {
			case s.op == callFunction && len(s.name) > 2:
				continue // such as IN (…), which looks like a call
			case s.op == callFunction:
				text += "()"
			case s.op == lockRows || s.op == lockAdvisory:
				text += " " + s.mode.String()
			case s.op == insertRows && s.upsert:
				text += " UPSERT"
			case s.op == insertRows:
				text += " INSERT"
			case s.op == updateRows:
				text += " UPDATE"
			default:
				text += " DELETE"
			}
			if s.tries {
				text += " without waiting"
			}
			got = append(got, text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q for %s, want %q", got, sql, want)
		}
	}
}

// What the check adds to one statement of a transaction, with the look at the stack.
func BenchmarkStatement(b *testing.B) {
	tracer, record := newTestTracer(b)
	tracer.fromTest = func() bool { fromTest(); return false }
	tx := &transaction{}
	for b.Loop() {
		tracer.run(record, tx, "begin", nil)
		tracer.run(record, tx, lockOrder, nil)
		tracer.run(record, tx, moveFunds, nil)
		tracer.run(record, tx, "commit", nil)
	}
}
