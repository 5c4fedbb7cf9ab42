// Package pagination walks lists. Every list is sorted by (created at, id), which
// never changes for a row, so a page starts after a place and not after a
// count: what is added or leaves meanwhile neither repeats nor hides a row.
//
// A cursor is opaque to callers and carries a MAC over the place and over the
// list it was made for. What never happens here: I/O, a place taken from a
// caller unchecked.
package pagination

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
)

// How many items a page has.
const (
	LimitDefault = 50
	LimitMax     = 200
)

const (
	version        = 1
	headBytes      = 1 + 8 // version, microseconds since 1970
	macBytes       = 16
	idBytesMax     = 256
	cursorBytesMax = (headBytes + idBytesMax + macBytes + 2) / 3 * 4
)

// Cursor is a place in a list: the row that the last page ended with.
type Cursor struct {
	CreatedAt time.Time // to the microsecond, as PostgreSQL keeps it
	ID        string
}

// Page asks for the items after a place.
type Page struct {
	Limit  int     // 1 to LimitMax; anything else means LimitDefault
	Cursor *Cursor // nil: from the beginning
	Desc   bool    // newest first
}

// Result is one page. Next is nil when nothing follows.
type Result[T any] struct {
	Items      []T
	NextCursor *Cursor
}

func (p Page) effectiveLimit() int {
	if p.Limit < 1 || p.Limit > LimitMax {
		return LimitDefault
	}
	return p.Limit
}

// RowsMax is how many rows a page reads at most: one more than it has, by which Cut knows
// that something follows.
func (p Page) RowsMax() int { return p.effectiveLimit() + 1 }

// Query is a SELECT with its WHERE that grows by the filters a caller gave.
// Each ? in its text is a parameter; text never comes from outside.
type Query struct {
	sql    strings.Builder
	args   []any
	filter bool     // whether a condition was added
	either []string // conditions of which a row meets exactly one
	among  string   // the column of Among, and the array of its values
	values string
}

// NewQuery opens a query with everything up to its first conditions, such as
// SELECT … FROM deposits WHERE org_id = ?
func NewQuery(sql string, args ...any) *Query {
	q := &Query{}
	q.appendSQL(sql, args)
	return q
}

// Of opens a query whose text has its parameters' numbers already.
func Of(sql string, args []any) *Query {
	q := &Query{args: args}
	q.sql.WriteString(sql)
	return q
}

// AddCondition adds a condition.
func (q *Query) AddCondition(condition string, args ...any) *Query {
	q.filter = true
	q.sql.WriteString(" AND (")
	q.appendSQL(condition, args)
	q.sql.WriteString(")")
	return q
}

// Filtered tells whether a condition was added: which index is the right one then depends
// on the values, see pg.Planned.
func (q *Query) Filtered() bool { return q.filter }

// Either adds conditions of which a row meets at most one, and one of which it has to
// meet. A page reads each of them by its own index and merges them: a condition with OR
// would read all rows that meet it, or all of the list, and sort them.
func (q *Query) Either(arg any, conditions ...string) *Query {
	q.filter = true
	q.args = append(q.args, arg)
	for _, c := range conditions {
		q.either = append(q.either, strings.ReplaceAll(c, "?", "$"+strconv.Itoa(len(q.args))))
	}
	return q
}

// Among adds the condition that a column has one of the values of an array, each of which
// is there once. A page reads each value by its own index and merges them.
func (q *Query) Among(column, array string, arg any) *Query {
	q.filter = true
	q.args = append(q.args, arg)
	q.among, q.values = column, strings.ReplaceAll(array, "?", "$"+strconv.Itoa(len(q.args)))
	return q
}

// BuildPage ends the query with the page's place, order and limit. It asks for one
// row more than the page has, by which Cut knows that something follows. The
// arguments after the page name the two columns of the order.
func (q *Query) BuildPage(p Page, timeColumn, idColumn string) (sql string, args []any) {
	operator, order := ">", "ASC"
	if p.Desc {
		operator, order = "<", "DESC"
	}
	if p.Cursor != nil {
		// A row comparison, so that an index on both columns is entered at the place.
		q.appendSQL(" AND (("+timeColumn+", "+idColumn+") "+operator+" (?, ?))", []any{p.Cursor.CreatedAt, p.Cursor.ID})
	}
	if q.among == "" && q.either == nil {
		q.appendSQL(" ORDER BY "+timeColumn+" "+order+", "+idColumn+" "+order+" LIMIT ?", []any{p.RowsMax()})
		return q.sql.String(), q.args
	}
	q.args = append(q.args, p.RowsMax())
	sorted := func(timeColumn, idColumn string) string {
		return " ORDER BY " + timeColumn + " " + order + ", " + idColumn + " " + order + " LIMIT $" + strconv.Itoa(len(q.args))
	}
	conditions := q.either
	if conditions == nil {
		conditions = []string{"true"}
	}
	var parts []string
	for _, condition := range conditions {
		part := q.sql.String() + " AND (" + condition + ")"
		if q.among != "" {
			part += " AND " + q.among + " = chosen.value"
		}
		parts = append(parts, "("+part+sorted(timeColumn, idColumn)+")")
	}
	from := "(" + strings.Join(parts, " UNION ALL ") + ") AS found"
	if q.among != "" {
		from = "unnest(" + q.values + ") AS chosen (value) CROSS JOIN LATERAL " + from
	}
	found := func(column string) string { return "found." + column[strings.LastIndexByte(column, '.')+1:] }
	return "SELECT found.* FROM " + from + sorted(found(timeColumn), found(idColumn)), q.args
}

// BuildAll ends the query with the order alone: every row that its conditions
// leave, for whoever hands them on one by one. The arguments after desc name the
// two columns of the order.
func (q *Query) BuildAll(desc bool, timeColumn, idColumn string) (sql string, args []any) {
	order := "ASC"
	if desc {
		order = "DESC"
	}
	if q.either != nil {
		q.sql.WriteString(" AND (" + strings.Join(q.either, " OR ") + ")")
	}
	if q.among != "" {
		q.sql.WriteString(" AND " + q.among + " = ANY (" + q.values + ")")
	}
	q.appendSQL(" ORDER BY "+timeColumn+" "+order+", "+idColumn+" "+order, nil)
	return q.sql.String(), q.args
}

// BuildAcrossOrgs ends a query of a place and an id, whose text says org_id = o.org_id,
// with a page over all organizations, or over the one that is named: each is
// entered by its own index, and what they give is put together. A row is the
// organization, the time and the id. The arguments after the page name the two
// columns of the order.
func (q *Query) BuildAcrossOrgs(p Page, org, timeColumn, idColumn string) (sql string, args []any) {
	inner, args := q.BuildPage(p, timeColumn, idColumn)
	order := "ASC"
	if p.Desc {
		order = "DESC"
	}
	orgFilter := ""
	if org != "" {
		args = append(args, org)
		orgFilter = " WHERE o.org_id = $" + strconv.Itoa(len(args))
	}
	args = append(args, p.RowsMax())
	return "SELECT o.org_id, at, id FROM organizations o CROSS JOIN LATERAL (" + inner + ") AS found (at, id)" + orgFilter +
		" ORDER BY at " + order + ", id " + order + " LIMIT $" + strconv.Itoa(len(args)), args
}

func (q *Query) appendSQL(sql string, args []any) {
	parts := strings.Split(sql, "?")
	if len(parts)-1 != len(args) {
		panic(fmt.Sprintf("pagination: %q has %d places for %d arguments", sql, len(parts)-1, len(args)))
	}
	for i, part := range parts {
		q.sql.WriteString(part)
		if i < len(args) {
			q.args = append(q.args, args[i])
			q.sql.WriteString("$" + strconv.Itoa(len(q.args)))
		}
	}
}

// CutPage makes a page of the rows that a Sorted query gave; place tells where an
// item stands.
func CutPage[T any](p Page, rows []T, cursorOf func(T) Cursor) Result[T] {
	if len(rows) <= p.effectiveLimit() {
		return Result[T]{Items: rows}
	}
	rows = rows[:p.effectiveLimit()]
	cursor := cursorOf(rows[len(rows)-1])
	return Result[T]{Items: rows, NextCursor: &cursor}
}

// EncodeCursor writes a cursor for a caller. The scope names the list: organization,
// resource, order and every filter, so that a cursor continues only the list it
// came from.
func EncodeCursor(c Cursor, key []byte, scope ...string) string {
	b := make([]byte, headBytes, headBytes+len(c.ID)+macBytes)
	b[0] = version
	binary.BigEndian.PutUint64(b[1:], uint64(c.CreatedAt.UnixMicro()))
	b = append(b, c.ID...)
	return base64.RawURLEncoding.EncodeToString(append(b, computeMAC(b, key, scope)...))
}

// DecodeCursor reads what Encode wrote with the same key and scope. Everything else
// is the same refusal, INVALID_CURSOR.
func DecodeCursor(s string, key []byte, scope ...string) (Cursor, error) {
	refused := fault.New(fault.Invalid, fault.InvalidCursor,
		"This cursor does not belong to this list. Nothing was changed and no money moved. Start again without a cursor, and keep filters and order the same between pages.").WithParam("cursor")
	if len(s) > cursorBytesMax {
		return Cursor{}, refused
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	// The decoder passes over line breaks and loose last bits; a cursor has one spelling.
	if err != nil || base64.RawURLEncoding.EncodeToString(b) != s || len(b) < headBytes+macBytes || b[0] != version {
		return Cursor{}, refused
	}
	b, sum := b[:len(b)-macBytes], b[len(b)-macBytes:]
	if !hmac.Equal(sum, computeMAC(b, key, scope)) {
		return Cursor{}, refused
	}
	return Cursor{
		CreatedAt: time.UnixMicro(int64(binary.BigEndian.Uint64(b[1:headBytes]))).UTC(),
		ID:        string(b[headBytes:]),
	}, nil
}

func computeMAC(b, key []byte, scope []string) []byte {
	if len(key) == 0 {
		panic("pagination: cursors need a key")
	}
	h := hmac.New(sha256.New, key)
	// Every word with its length before it: no two scopes have the same bytes.
	for _, s := range scope {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	fmt.Fprintf(h, "|%d:", len(b))
	h.Write(b)
	return h.Sum(nil)[:macBytes]
}
