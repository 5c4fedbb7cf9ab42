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
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

// Bounds of a table. Each one holds a connection to the database, and a moment of
// its past, for as long as its reader takes.
const (
	exportTimeout   = 15 * time.Minute // whole
	exportStallMax  = 30 * time.Second // in which a reader takes nothing
	tablesMax       = 6                // at a moment, in one process
	tablesPerOrgMax = 2                // of one organization
)

// A column of a table has the name of the JSON field that it shows.
type column[T any] struct {
	name string
	cell func(T) string
}

// csvExport answers with a table of everything that the filters leave. each hands
// on the rows, as of one moment, until its function fails.
func csvExport[T any](a *api, c *call, name string, columns []column[T], eachRow func(ctx context.Context, desc bool, row func(T) error) error) (answer, error) {
	for _, paging := range []string{"limit", "cursor"} {
		if _, present := c.query[paging]; present {
			return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, "A table has everything that the filters leave, in one piece."+nothingWritten+" Leave %s out, or ask for JSON.", paging).WithParam(paging)
		}
	}
	// In the older protocol the end of the connection is the end of the answer:
	// a table that was cut off would look whole.
	if !c.ProtoAtLeast(1, 1) {
		return answer{}, fault.New(fault.Invalid, fault.InvalidRequest, "A table needs HTTP/1.1 or later, so that one that breaks off is seen to."+nothingWritten+" Let the client or the proxy before this service speak it.")
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

// snapshotReader makes a reader of rows of one that reads in a transaction.
func snapshotReader[T any](a *api, c *call, read func(ctx context.Context, tx pg.Tx, desc bool, row func(T) error) error) func(context.Context, bool, func(T) error) error {
	return func(ctx context.Context, desc bool, row func(T) error) error {
		return a.conf.DB.SnapshotOrg(ctx, c.org, func(ctx context.Context, tx pg.Tx) error { return read(ctx, tx, desc, row) })
	}
}

// exportSlots counts those that are being written.
type exportSlots struct {
	mu     sync.Mutex
	total  int
	perOrg map[string]int
}

// acquireSlot takes a place for an organization's table; done gives it back.
func (t *exportSlots) acquireSlot(org string) (release func(), err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.perOrg[org] >= tablesPerOrgMax || t.total >= tablesMax {
		return nil, fault.New(fault.Unavailable, fault.CodeUnavailable,
			"As many tables are being written as can be at a time. You only read, so nothing was changed. Ask again when one of yours is done, or after the seconds that Retry-After names.")
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

// streaming is the writer of a body of unknown length. Whoever stops taking it is
// let go of; how long it takes in all is bounded elsewhere.
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
	// A writer that has no deadlines belongs to a test, or to a proxy with its own.
	_ = http.NewResponseController(s.ResponseWriter).SetWriteDeadline(time.Now().Add(exportStallMax))
	return s.ResponseWriter.Write(b)
}

// wantsCSV tells whether a caller asks for a table in place of JSON. Only a
// plain wish counts: a browser that takes anything gets JSON.
func wantsCSV(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Accept"))
	return err == nil && kind == "text/csv"
}

// escapeFormula keeps a cell from being a formula where a table is opened by a
// spreadsheet. Some pass over spaces before they look, and some read the wide
// forms of the signs, so those count as well.
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

// metadataJSON shows a caller's own keys and values as JSON, nothing for none.
func metadataJSON(m webhook.Metadata) string {
	if len(m) == 0 {
		return ""
	}
	raw, err := json.Marshal(m)
	if err != nil {
		panic("api: metadata that cannot be encoded: " + err.Error())
	}
	return string(raw)
}
