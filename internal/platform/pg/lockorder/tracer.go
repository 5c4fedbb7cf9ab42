package lockorder

import (
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
)

// Tracer observes the statements of connections and records the transactions that break an order.
// It is safe for concurrent use.
type Tracer struct {
	order     *Order
	catalogue atomic.Pointer[Catalogue]
	parsed    sync.Map // SQL -> *statement
	records   sync.Map // name of a database -> *Record

	// Both look at the stack; the tests of this package replace them.
	fromTest func() bool
	callers  func() []string
}

// NewTracer returns a tracer that knows no database yet.
func NewTracer(order *Order) *Tracer {
	return &Tracer{order: order, fromTest: fromTest, callers: callers}
}

// SetCatalogue gives the tracer what the databases do by themselves.
func (t *Tracer) SetCatalogue(c *Catalogue) { t.catalogue.Store(c) }

// Watch records the transactions in a database. Statements in other databases are not looked at.
// Databases of one name share a record.
func (t *Tracer) Watch(database string) *Record {
	r, _ := t.records.LoadOrStore(database, &Record{exceptions: map[string]bool{}, reported: map[string]bool{}})
	return r.(*Record)
}

// Record has what the transactions of one database did.
type Record struct {
	mu         sync.Mutex
	violations []string
	reported   map[string]bool // kinds that violations has or had
	exceptions map[string]bool // functions of the exceptions that were needed
}

// Drain returns one text for each kind of transaction that broke the order since the last call.
func (r *Record) Drain() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	violations := r.violations
	r.violations = nil
	return violations
}

// HasUsed reports whether a transaction needed the exception of that function.
func (r *Record) HasUsed(function string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.exceptions[function]
}

func (r *Record) add(key, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.reported[key] {
		r.reported[key] = true
		r.violations = append(r.violations, text)
	}
}

func (r *Record) use(function string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.exceptions[function] = true
}

// statement is a text that was read once.
type statement struct {
	begins, ends bool
	steps        []step
	err          error
}

func (t *Tracer) read(sql string) *statement {
	if s, ok := t.parsed.Load(sql); ok {
		return s.(*statement)
	}
	s := &statement{}
	first := strings.ToLower(strings.TrimSpace(sql))
	// A COMMIT that is sent with other statements is prepared under a name that ends so.
	s.begins = strings.HasPrefix(first, "begin")
	s.ends = first == "rollback" || strings.HasSuffix(first, "commit") && !strings.Contains(first, ";")
	if !s.ends {
		s.steps, s.err = parseSQL(sql)
	}
	t.parsed.Store(sql, s)
	return s
}

// transaction is what a connection holds.
type transaction struct {
	record   *Record // of the connection's database
	open     bool
	ofTest   bool // a test began it
	held     []heldLock
	deferred []request
}

type heldLock struct {
	lock *Lock
	request
}

const dataKey = "coffer lock order"

// TraceQueryStart looks at one statement before it is sent.
func (t *Tracer) TraceQueryStart(ctx context.Context, conn *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	t.observe(conn, q.SQL, q.Args)
	return ctx
}

// TraceQueryEnd does nothing.
func (t *Tracer) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TraceBatchStart looks at the statements of a batch before it is sent.
func (t *Tracer) TraceBatchStart(ctx context.Context, conn *pgx.Conn, b pgx.TraceBatchStartData) context.Context {
	for _, q := range b.Batch.QueuedQueries {
		t.observe(conn, q.SQL, q.Arguments)
	}
	return ctx
}

// TraceBatchQuery does nothing.
func (t *Tracer) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}

// TraceBatchEnd does nothing.
func (t *Tracer) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData) {}

// TraceCopyFromStart records that COPY is not understood. Coffer uses none.
func (t *Tracer) TraceCopyFromStart(
	ctx context.Context, conn *pgx.Conn, d pgx.TraceCopyFromStartData,
) context.Context {
	if r, ok := t.records.Load(conn.Config().Database); ok {
		r.(*Record).add("copy", "the lock order does not understand COPY "+d.TableName.Sanitize())
	}
	return ctx
}

// TraceCopyFromEnd does nothing.
func (t *Tracer) TraceCopyFromEnd(context.Context, *pgx.Conn, pgx.TraceCopyFromEndData) {}

func (t *Tracer) observe(conn *pgx.Conn, sql string, args []any) {
	data := conn.PgConn().CustomData()
	tx, _ := data[dataKey].(*transaction)
	if tx == nil {
		r, ok := t.records.Load(conn.Config().Database) // Config copies much, so once for a connection.
		if !ok {
			return
		}
		tx = &transaction{record: r.(*Record)}
		data[dataKey] = tx
	}
	t.run(tx.record, tx, sql, args)
}

// run takes the locks of one statement.
func (t *Tracer) run(r *Record, tx *transaction, sql string, args []any) {
	s := t.read(sql)
	switch {
	case s.begins:
		*tx = transaction{record: tx.record, open: true}
	case s.ends:
		t.take(r, tx, tx.deferred, "COMMIT")
		*tx = transaction{record: tx.record}
		return
	}
	if s.begins {
		tx.ofTest = t.fromTest()
	}
	if tx.ofTest || s.err == nil && len(s.steps) == 0 || t.fromTest() {
		return
	}
	if s.err != nil {
		r.add(sql, fmt.Sprintf("the lock order does not understand a statement: %v\n%s", s.err, sql))
		return
	}
	now, deferred, err := t.catalogue.Load().expand(s.steps, args)
	if err != nil {
		r.add(sql, fmt.Sprintf("the lock order does not understand a statement: %v\n%s", err, sql))
		return
	}
	t.take(r, tx, now, sql)
	tx.deferred = append(tx.deferred, deferred...)
	if !tx.open {
		t.take(r, tx, tx.deferred, sql)
		*tx = transaction{record: tx.record}
	}
}

// take compares requests with what the transaction holds.
func (t *Tracer) take(r *Record, tx *transaction, requests []request, sql string) {
	for _, q := range requests {
		l := t.order.Find(q.name)
		if l == nil {
			r.add("unknown "+q.name, fmt.Sprintf("the lock order does not have %s:\n%s", q.name, sql))
			continue
		}
		if q.mode == ForUpdate && !l.Strong {
			r.add("strong "+q.name, fmt.Sprintf("a transaction takes %s FOR UPDATE or deletes it, "+
				"and the lock order does not say so:\n%s", q.name, sql))
		}
		if q.adds && l.Fresh != "" || q.mode == ForKeyShare && !l.Strong {
			continue
		}
		if l.group == unlocked {
			r.add("unlocked "+q.name, fmt.Sprintf(
				"a transaction takes %s, which has no place in the lock order:\n%s", q, sql,
			))
			continue
		}
		if !q.tries && !tx.holds(l, q.mode) {
			t.compare(r, tx, l, q, sql)
		}
		tx.held = append(tx.held, heldLock{l, q})
	}
}

// holds reports whether the transaction holds the lock in a mode that is as strong.
func (tx *transaction) holds(l *Lock, mode Mode) bool {
	return slices.ContainsFunc(tx.held, func(h heldLock) bool { return h.lock == l && h.mode >= mode })
}

// compare records a violation where a lock that may wait comes behind one of a later place.
func (t *Tracer) compare(r *Record, tx *transaction, l *Lock, q request, sql string) {
	var stack []string
	compared := map[*Lock]bool{}
	for _, h := range tx.held {
		var reason string
		switch {
		case h.lock == l && conflicts(h.mode, q.mode) && !conflicts(h.mode, h.mode):
			reason = "is stronger than what it has, and two transactions that have that wait for each other"
		case h.lock == l || compared[h.lock]:
			continue
		case h.lock.group != l.group:
			reason = "belongs to another group"
		case h.lock.rank > l.rank:
			reason = "comes before it in the order"
		default:
			continue
		}
		compared[h.lock] = true
		if stack == nil {
			stack = t.callers()
		}
		if e := t.order.allows(h.lock, l, stack); e != nil {
			r.use(e.Function)
			continue
		}
		r.add(h.lock.Name+" "+l.Name+" "+strings.Join(stack, " "), fmt.Sprintf(
			"a transaction that has %s (%s) takes %s (%s), which %s\nin %s\nby %s\nIt took: %s",
			h.lock.Name, h.lock.level, q.show(l), l.level, reason,
			strings.Join(stack, " < "), strings.Join(strings.Fields(sql), " "), tx))
	}
}

// show returns the request without the object that an advisory lock is of.
func (q request) show(l *Lock) string {
	q.name = strings.TrimSpace(l.Name)
	return q.String()
}

func (q request) String() string {
	mode := q.mode.String()
	if q.adds {
		mode = "INSERT"
	}
	if q.tries {
		mode += " without waiting"
	}
	if q.cause != "" {
		mode += " by " + q.cause
	}
	return q.name + " " + mode
}

func (tx *transaction) String() string {
	var b strings.Builder
	last := ""
	for _, h := range tx.held {
		if text := h.request.show(h.lock); text != last {
			if last != "" {
				b.WriteString("; ")
			}
			b.WriteString(text)
			last = text
		}
	}
	return b.String()
}

const (
	callersMax  = 40
	callersNear = 14
)

const module = "github.com/cofferpay/coffer/"

// origin says who wrote the code at a program counter.
type origin int

const (
	originOther   origin = iota // a library, or a package through which every statement goes
	originTest                  // a test, or a package that only tests use
	originProgram               // the other packages of the project
)

// origins keeps the origin of each program counter that was on a stack. Finding the function of one
// costs more than the rest of what happens for a statement.
var origins sync.Map // uintptr -> origin

// fromTest reports whether a test sends the statement itself, or a package that only tests use. What
// a test writes by itself has no order.
func fromTest() bool {
	var pcs [callersMax]uintptr
	// The sender stands among the first callers of most statements, and to read a stack costs by its length.
	for first, end := 0, callersNear; ; first, end = end, callersMax {
		n := runtime.Callers(3+first, pcs[first:end])
		for _, pc := range pcs[first : first+n] {
			cached, ok := origins.Load(pc)
			if !ok {
				cached = findOrigin(pc)
				origins.Store(pc, cached)
			}
			if cached != originOther {
				return cached == originTest
			}
		}
		if first+n < end || end == callersMax {
			break
		}
	}
	return true // such as a test of package pg
}

func findOrigin(pc uintptr) origin {
	frames := runtime.CallersFrames([]uintptr{pc})
	for {
		frame, hasNext := frames.Next()
		if name, ok := strings.CutPrefix(frame.Function, module); ok &&
			!strings.HasPrefix(name, "internal/platform/pg.") &&
			!strings.HasPrefix(name, "internal/platform/pg/lockorder.") {
			pkg, _, _ := strings.Cut(path.Base(name), ".")
			if strings.HasSuffix(frame.File, "_test.go") || strings.HasSuffix(pkg, "test") ||
				strings.HasPrefix(name, "internal/testing/trial/") || strings.HasPrefix(name, "internal/localworld") {
				return originTest
			}
			return originProgram
		}
		if !hasNext {
			return originOther
		}
	}
}

// callers returns the functions of the project on the stack, as package.type.method, the innermost
// first.
func callers() (list []string) {
	pcs := make([]uintptr, callersMax)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	for {
		frame, hasNext := frames.Next()
		if strings.HasPrefix(frame.Function, module) {
			name := strings.NewReplacer("(*", "", ")", "").Replace(path.Base(frame.Function))
			if !strings.HasPrefix(name, "pg.") && !strings.HasPrefix(name, "lockorder.Tracer") {
				list = append(list, name)
			}
		}
		if !hasNext {
			return list
		}
	}
}
