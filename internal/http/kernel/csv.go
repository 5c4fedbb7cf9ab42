package kernel

import (
	"context"
	"encoding/csv"
	"io"
	"mime"
	"net/http"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/csvcell"
)

// The limits of tables. Each table holds a database connection and a snapshot for as long as its
// reader takes.
const (
	exportTimeout   = 15 * time.Minute // for the whole table
	exportStallMax  = 30 * time.Second // in which the reader takes nothing
	tablesMax       = 6                // at a time, in one process
	tablesPerOrgMax = 2                // at a time, of one organization
)

// Column is a column of a table. Its name is that of the JSON field that it shows.
type Column[T any] struct {
	Name string
	Cell func(T) string
}

// Rows passes the rows of a table, as of one moment, to row until that fails.
type Rows[T any] func(ctx context.Context, desc bool, row func(T) error) error

// ExportTable makes a route's Table: all rows that pass the filters of the call, which find reads.
// Rules LIST-2 and BAL-3.
func ExportTable[C Caller, T any](
	name string, columns []Column[T], find func(*Call[C]) (Rows[T], error),
) func(*Request) (answer, error) {
	return func(r *Request) (answer, error) {
		eachRow, err := find(callOf[C](r))
		if err != nil {
			return answer{}, err
		}
		return exportCSV(r, name, columns, eachRow)
	}
}

func exportCSV[T any](c *Request, name string, columns []Column[T], eachRow Rows[T]) (answer, error) {
	for _, paging := range []string{"limit", "cursor"} {
		if _, present := c.Query[paging]; present {
			return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"A table has everything that the filters select, without pages.").
				WithAdvice("Leave %s out, or ask for JSON.", paging).WithParam(paging)
		}
	}
	// In HTTP/1.0 the end of the connection is the end of the answer, so a truncated table would
	// look complete.
	if !c.ProtoAtLeast(1, 1) {
		return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"A table needs HTTP/1.1 or later, so that the client notices when it breaks off.").
			WithAdvice("Use it in the client, and in the proxy in front of this service.")
	}
	release, err := c.server.tables.Acquire(c.caller.Tenant())
	if err != nil {
		return answer{}, err
	}
	c.AnswerHeader.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	return answer{stream: func(w io.Writer) error {
		defer release()
		return WriteTable(c.Context(), w, c.Query["order"] != "asc", columns, eachRow)
	}}, nil
}

// WriteTable writes a table as CSV. An error before the first byte means that nothing was written.
func WriteTable[T any](
	ctx context.Context, w io.Writer, desc bool, columns []Column[T], eachRow Rows[T],
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), exportTimeout)
	defer cancel()
	writer := csv.NewWriter(w)
	line := make([]string, len(columns))
	head := func() error {
		for i, col := range columns {
			line[i] = col.Name
		}
		return writer.Write(line)
	}
	headed := false
	err := eachRow(ctx, desc, func(item T) error {
		if !headed {
			headed = true
			if err := head(); err != nil {
				return err
			}
		}
		for i, col := range columns {
			line[i] = csvcell.EscapeFormula(col.Cell(item))
		}
		return writer.Write(line)
	})
	if err != nil {
		return err
	}
	if !headed {
		if err := head(); err != nil {
			return err
		}
	}
	writer.Flush()
	return writer.Error()
}

// ExportSlots counts the tables that are being written. The zero value is ready for use.
type ExportSlots struct {
	mu     sync.Mutex
	total  int
	perOrg map[string]int
}

// Acquire takes a slot for an organization's table; release gives it back.
func (t *ExportSlots) Acquire(org string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.perOrg[org] >= tablesPerOrgMax || t.total >= tablesMax {
		return nil, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.ReadOnly,
			"The service is writing as many tables as it can at a time.").
			WithAdvice("Ask again when one of your tables is complete, or after the seconds in Retry-After.")
	}
	if t.perOrg == nil {
		t.perOrg = map[string]int{}
	}
	t.total++
	t.perOrg[org]++
	var releaseOnce sync.Once
	return func() {
		releaseOnce.Do(func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.total--
			if t.perOrg[org]--; t.perOrg[org] == 0 {
				delete(t.perOrg, org)
			}
		})
	}, nil
}

// StreamWriter is the writer of a body of unknown length. It gives up on a reader that stalls;
// exportTimeout bounds the total time.
type StreamWriter struct {
	http.ResponseWriter
	Status int
	Begun  bool // whether a byte was written
}

// Write writes the status before the first bytes.
func (s *StreamWriter) Write(b []byte) (int, error) {
	if !s.Begun {
		s.Begun = true
		s.WriteHeader(s.Status)
	}
	// A writer without deadlines belongs to a test, or to a proxy with deadlines of its own.
	_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(exportStallMax))
	return s.ResponseWriter.Write(b)
}

// wantsCSV reports whether a caller asks for a table instead of JSON. Only exactly text/csv counts:
// a browser that accepts any type gets JSON.
func wantsCSV(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Accept"))
	return err == nil && kind == "text/csv"
}
