package api

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/webhook"
)

// The limits of tables. Each table holds a database connection and a snapshot for as long as its
// reader takes.
const (
	exportTimeout   = 15 * time.Minute // for the whole table
	exportStallMax  = 30 * time.Second // in which the reader takes nothing
	tablesMax       = 6                // at a time, in one process
	tablesPerOrgMax = 2                // at a time, of one organization
)

// column is a column of a table. Its name is that of the JSON field that it shows.
type column[T any] struct {
	name string
	cell func(T) string
}

// csvExport answers with a table of all rows that pass the filters. eachRow passes the rows, as of
// one moment, to its function until that fails. Rules LIST-2 and BAL-3.
func csvExport[T any](
	a *api, c *call, name string, columns []column[T],
	eachRow func(ctx context.Context, desc bool, row func(T) error) error,
) (answer, error) {
	for _, paging := range []string{"limit", "cursor"} {
		if _, present := c.query[paging]; present {
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
	release, err := a.tables.acquireSlot(c.org)
	if err != nil {
		return answer{}, err
	}
	c.header.Set("Content-Disposition", `attachment; filename="`+name+`.csv"`)
	return answer{status: http.StatusOK, kind: "text/csv; charset=utf-8", stream: func(w io.Writer) error {
		defer release()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Context()), exportTimeout)
		defer cancel()
		writer := csv.NewWriter(w)
		line := make([]string, len(columns))
		head := func() error {
			for i, col := range columns {
				line[i] = col.name
			}
			return writer.Write(line)
		}
		headed := false
		err := eachRow(ctx, c.query["order"] != "asc", func(item T) error {
			if !headed {
				headed = true
				if err := head(); err != nil {
					return err
				}
			}
			for i, col := range columns {
				line[i] = escapeFormula(col.cell(item))
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
	}}, nil
}

// snapshotReader turns a reader within a transaction into a reader of rows. Rule LIST-2.
func snapshotReader[T any](
	a *api, c *call, read func(ctx context.Context, tx pg.Tx, desc bool, row func(T) error) error,
) func(context.Context, bool, func(T) error) error {
	return func(ctx context.Context, desc bool, row func(T) error) error {
		return a.conf.DB.SnapshotOrg(ctx, c.org, func(ctx context.Context, tx pg.Tx) error {
			return read(ctx, tx, desc, row)
		})
	}
}

// exportSlots counts the tables that are being written.
type exportSlots struct {
	mu     sync.Mutex
	total  int
	perOrg map[string]int
}

// acquireSlot takes a slot for an organization's table; release gives it back.
func (t *exportSlots) acquireSlot(org string) (release func(), err error) {
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

// streaming is the writer of a body of unknown length. It gives up on a reader that stalls;
// exportTimeout bounds the total time.
type streaming struct {
	http.ResponseWriter
	status int
	begun  bool
}

func (s *streaming) Write(b []byte) (int, error) {
	if !s.begun {
		s.begun = true
		s.WriteHeader(s.status)
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

// escapeFormula keeps a spreadsheet from reading a cell as a formula. Some spreadsheets skip
// leading spaces, and some accept the full-width forms of the signs, so it handles both.
// Rules LIST-2 and BAL-3.
func escapeFormula(cell string) string {
	if cell == "" {
		return cell
	}
	first, _ := utf8.DecodeRuneInString(strings.TrimLeftFunc(cell, unicode.IsSpace))
	if strings.ContainsRune("\t\r\n", rune(cell[0])) || strings.ContainsRune("=+-@＝＋－＠", first) {
		return "'" + cell
	}
	return cell
}

func textOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func numberOrEmpty[N int | int64](n *N) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

func timeOrEmpty(t *webhook.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}

// metadataJSON encodes a caller's own keys and values as JSON, "" for none.
func metadataJSON(m webhook.Metadata) string {
	if len(m) == 0 {
		return ""
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic("api: cannot encode metadata: " + err.Error())
	}
	return string(raw)
}
