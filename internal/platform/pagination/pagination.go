// Package pagination implements pagination. Every list is sorted by (created at, id), which never changes
// for a row. A page starts after a position and not after a count. So rows that are added or
// removed meanwhile neither repeat nor hide a row.
//
// A cursor is opaque to callers. Its MAC covers the position and the list for which it was made.
// The package does no I/O, and it never uses a caller's position without checking it.
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

// Numbers of items of a page.
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

// Cursor is a position in a list: the last row of the last page.
type Cursor struct {
	CreatedAt time.Time // to the microsecond, as PostgreSQL stores it
	ID        string
}

// Page requests the items after a position.
type Page struct {
	Limit  int     // 1 to LimitMax; any other value means LimitDefault
	Cursor *Cursor // nil: from the beginning
	Desc   bool    // newest first
}

// Result is one page. NextCursor is nil if no item follows.
type Result[T any] struct {
	Items      []T
	NextCursor *Cursor
}

// DropImpliedBound clears the bound of a time range that the page's cursor implies: rows after the
// cursor of an ascending list are later than its range's beginning. PostgreSQL 18 begins to read an
// index at the bound instead of the cursor, so a deep page would read all pages before it.
func (p Page) DropImpliedBound(after, before time.Time) (newAfter, newBefore time.Time) {
	switch {
	case p.Cursor == nil:
	case p.Desc && p.Cursor.CreatedAt.Before(before):
		before = time.Time{}
	case !p.Desc && p.Cursor.CreatedAt.After(after):
		after = time.Time{}
	}
	return after, before
}

func (p Page) effectiveLimit() int {
	if p.Limit < 1 || p.Limit > LimitMax {
		return LimitDefault
	}
	return p.Limit
}

// LimitSQL returns the number of rows that a statement reads for the page, as SQL text. It is at
// least one more than the page has, so that CutPage knows whether more follow.
//
// The number is part of the text and not a parameter: for an unknown limit PostgreSQL expects a
// tenth of the list, so it plans the statement again for each request of a long list. The number is
// rounded up to one of a few, so that the limits of callers make few statements.
func (p Page) LimitSQL() string {
	limit := p.effectiveLimit()
	for _, rows := range statementLimits {
		if limit <= rows {
			return strconv.Itoa(rows + 1)
		}
	}
	return strconv.Itoa(LimitMax + 1)
}

var statementLimits = [...]int{10, 25, LimitDefault, 100, LimitMax}

// Query is a SELECT whose WHERE clause grows with the caller's filters. Each ? in its text is a
// parameter; the text never comes from outside.
type Query struct {
	sql    strings.Builder
	args   []any
	filter bool     // whether a condition was added
	either []string // conditions of which a row meets exactly one
	among  string   // the column of Among
	values string

	after, before time.Time // of SetTimeRange
}

// NewQuery begins a query with everything up to its first conditions, such as SELECT … FROM
// deposits WHERE org_id = ?
func NewQuery(sql string, args ...any) *Query {
	q := &Query{}
	q.appendSQL(sql, args)
	return q
}

// Of begins a query whose text has numbered parameters.
func Of(sql string, args []any) *Query {
	q := &Query{args: args}
	q.sql.WriteString(sql)
	return q
}

// AddCondition adds a condition. Rule LIST-3.
func (q *Query) AddCondition(condition string, args ...any) *Query {
	q.filter = true
	q.sql.WriteString(" AND (")
	q.appendSQL(condition, args)
	q.sql.WriteString(")")
	return q
}

// SetTimeRange adds the condition that a row's time is in a range without its ends. A zero time sets
// no end. The column is that of the order.
func (q *Query) SetTimeRange(after, before time.Time) *Query {
	q.filter = q.filter || !after.IsZero() || !before.IsZero()
	q.after, q.before = after, before
	return q
}

func (q *Query) appendTimeRange(column string, after, before time.Time) {
	if !after.IsZero() {
		q.appendSQL(" AND ("+column+" > ?)", []any{after})
	}
	if !before.IsZero() {
		q.appendSQL(" AND ("+column+" < ?)", []any{before})
	}
}

// Filtered reports whether a condition was added. The right index then depends on the values, see
// pg.Planned.
func (q *Query) Filtered() bool { return q.filter }

// Either adds conditions of which a row meets at most one and must meet one. A page reads each of
// them by its own index and merges the results. A condition with OR would read all matching rows,
// or the whole list, and sort them.
func (q *Query) Either(arg any, conditions ...string) *Query {
	q.filter = true
	q.args = append(q.args, arg)
	for _, c := range conditions {
		q.either = append(q.either, strings.ReplaceAll(c, "?", "$"+strconv.Itoa(len(q.args))))
	}
	return q
}

// Among adds the condition that a column has one of the values of an array without duplicates. A
// page reads each value by its own index and merges the results.
func (q *Query) Among(column, array string, arg any) *Query {
	q.filter = true
	q.args = append(q.args, arg)
	q.among, q.values = column, strings.ReplaceAll(array, "?", "$"+strconv.Itoa(len(q.args)))
	return q
}

// BuildPage completes the query with the page's position, order and limit. The arguments after the
// page name the two columns of the order. Rules LIST-1 and LIST-4.
func (q *Query) BuildPage(p Page, timeColumn, idColumn string) (sql string, args []any) {
	operator, order := ">", "ASC"
	if p.Desc {
		operator, order = "<", "DESC"
	}
	after, before := p.DropImpliedBound(q.after, q.before)
	q.appendTimeRange(timeColumn, after, before)
	if p.Cursor != nil {
		// A row comparison lets an index on both columns start at the position.
		q.appendSQL(" AND (("+timeColumn+", "+idColumn+") "+operator+" (?, ?))", []any{p.Cursor.CreatedAt, p.Cursor.ID})
	}
	if q.among == "" && q.either == nil {
		q.appendSQL(" ORDER BY "+timeColumn+" "+order+", "+idColumn+" "+order+" LIMIT "+p.LimitSQL(), nil)
		return q.sql.String(), q.args
	}
	sorted := func(timeColumn, idColumn string) string {
		return " ORDER BY " + timeColumn + " " + order + ", " + idColumn + " " + order + " LIMIT " + p.LimitSQL()
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

// BuildAll completes the query with the order alone. It returns every matching row, for callers
// that stream them. The arguments after desc name the two columns of the order.
func (q *Query) BuildAll(desc bool, timeColumn, idColumn string) (sql string, args []any) {
	order := "ASC"
	if desc {
		order = "DESC"
	}
	q.appendTimeRange(timeColumn, q.after, q.before)
	if q.either != nil {
		q.sql.WriteString(" AND (" + strings.Join(q.either, " OR ") + ")")
	}
	if q.among != "" {
		q.sql.WriteString(" AND " + q.among + " = ANY (" + q.values + ")")
	}
	q.appendSQL(" ORDER BY "+timeColumn+" "+order+", "+idColumn+" "+order, nil)
	return q.sql.String(), q.args
}

// BuildAcrossOrgs completes a query of a position and an id, whose text contains org_id = o.org_id,
// with a page over all organizations or the named one. It reads each organization by its own index
// and merges the results. A row is the organization, the time and the id. The arguments after the
// page name the two columns of the order.
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
	return "SELECT o.org_id, at, id FROM organizations o CROSS JOIN LATERAL " +
		"(" + inner + ") AS found (at, id)" + orgFilter +
		" ORDER BY at " + order + ", id " + order + " LIMIT " + p.LimitSQL(), args
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

// CutPage makes a page of the rows that a query of BuildPage returned; cursorOf returns the
// position of an item.
func CutPage[T any](p Page, rows []T, cursorOf func(T) Cursor) Result[T] {
	if len(rows) <= p.effectiveLimit() {
		return Result[T]{Items: rows}
	}
	rows = rows[:p.effectiveLimit()]
	cursor := cursorOf(rows[len(rows)-1])
	return Result[T]{Items: rows, NextCursor: &cursor}
}

// EncodeCursor encodes a cursor for a caller. The scope names the list: organization, resource,
// order and every filter. So a cursor continues only the list from which it came.
func EncodeCursor(c Cursor, key []byte, scope ...string) string {
	b := make([]byte, headBytes, headBytes+len(c.ID)+macBytes)
	b[0] = version
	binary.BigEndian.PutUint64(b[1:], uint64(c.CreatedAt.UnixMicro()))
	b = append(b, c.ID...)
	return base64.RawURLEncoding.EncodeToString(append(b, computeMAC(b, key, scope)...))
}

// DecodeCursor decodes a cursor that EncodeCursor made with the same key and scope. Everything else
// gets the same refusal, INVALID_CURSOR. Rule LIST-1.
func DecodeCursor(s string, key []byte, scope ...string) (Cursor, error) {
	refused := fault.New(fault.Invalid, fault.InvalidCursor, fault.NothingWritten,
		"This cursor does not belong to this list.").
		WithAdvice("Start again without a cursor, and keep filters and order the same between " +
			"pages.").WithParam("cursor")
	if len(s) > cursorBytesMax {
		return Cursor{}, refused
	}
	b, err := base64.RawURLEncoding.DecodeString(s)
	// The decoder ignores line breaks and unused last bits; a cursor has exactly one text.
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
	// The length precedes every word, so no two scopes have the same bytes.
	for _, s := range scope {
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	fmt.Fprintf(h, "|%d:", len(b))
	h.Write(b)
	return h.Sum(nil)[:macBytes]
}
