package pgtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Reads records what the queries of a transaction read.
type Reads struct {
	rows   int
	whole  []string // tables that were read from beginning to end, with how many rows
	plans  []string
	failed error
}

// wholeMax is how many rows a table may have that a query reads from beginning to end.
const wholeMax = 200

// WatchReads returns the transaction with a record of what its queries read. Each query runs twice: the
// first time PostgreSQL explains it with the same arguments and the same policies.
func WatchReads(tx pg.Tx) (pg.Tx, *Reads) {
	reads := &Reads{}
	return pg.Tx{Tx: watchedTx{tx.Tx, reads}, Now: tx.Now}, reads
}

// CheckRows fails the test if the queries read more rows than that, a whole table of more than a few rows, or
// nothing at all.
func (r *Reads) CheckRows(t testing.TB, name string, rowsMax int) {
	t.Helper()
	switch {
	case r.failed != nil:
		t.Errorf("%s: explain: %v", name, r.failed)
	case len(r.plans) == 0:
		t.Errorf("%s: no query ran", name)
	case r.rows > rowsMax || len(r.whole) > 0:
		t.Errorf("%s: read %d rows and the whole of %v, want at most %d rows by indexes:\n%s", name, r.rows, r.whole,
			rowsMax, strings.Join(r.plans, "\n"))
	}
}

// Superuser returns a connection to the database behind db on which no trigger and no foreign key checks
// what is written. It is for tests of reads, which need more rows than the service would write in time.
func Superuser(t testing.TB, db *pg.DB) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), DatabaseOf(t, db).SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	if _, err := conn.Exec(t.Context(), `SET session_replication_role = replica`); err != nil {
		t.Fatal(err)
	}
	return conn
}

type watchedTx struct {
	pgx.Tx
	reads *Reads
}

// Query explains the query and runs it.
func (w watchedTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	w.explain(ctx, sql, args)
	return w.Tx.Query(ctx, sql, args...)
}

// QueryRow explains the query and runs it.
func (w watchedTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	w.explain(ctx, sql, args)
	return w.Tx.QueryRow(ctx, sql, args...)
}

func (w watchedTx) explain(ctx context.Context, sql string, args []any) {
	var text []byte
	err := w.Tx.QueryRow(ctx, "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) "+sql, args...).Scan(&text)
	if err != nil {
		w.reads.failed = errors.Join(w.reads.failed, err)
		return
	}
	var plans []struct{ Plan planNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		w.reads.failed = errors.Join(w.reads.failed, err)
		return
	}
	w.reads.plans = append(w.reads.plans, string(text))
	for _, p := range plans {
		p.Plan.add(w.reads)
	}
}

// planNode is a node of a plan with its figures.
type planNode struct {
	Node    string      `json:"Node Type"`
	Table   string      `json:"Relation Name"`
	Rows    json.Number `json:"Actual Rows"`
	Loops   json.Number `json:"Actual Loops"`
	Removed json.Number `json:"Rows Removed by Filter"`
	Checked json.Number `json:"Rows Removed by Index Recheck"`
	Plans   []planNode
}

// countOf returns a figure of a plan without its decimals, and 0 for one that is not there.
func countOf(figure json.Number) int {
	whole, _, _ := strings.Cut(figure.String(), ".")
	n, err := strconv.Atoi(whole)
	if err != nil {
		return 0
	}
	return n
}

func (p planNode) add(reads *Reads) {
	if p.Table != "" && strings.Contains(p.Node, "Scan") {
		rows := (countOf(p.Rows) + countOf(p.Removed) + countOf(p.Checked)) * countOf(p.Loops)
		reads.rows += rows
		if p.Node == "Seq Scan" && rows > wholeMax {
			reads.whole = append(reads.whole, fmt.Sprintf("%s (%d rows)", p.Table, rows))
		}
	}
	for _, child := range p.Plans {
		child.add(reads)
	}
}
