package pagematrix

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// Row is what was found of a page.
type Row struct {
	Path            string
	Openers         []string
	Bytes           int
	Looks, Problems int
}

// add adds the row of a page that was looked at, and says so.
func (r *report) add(row *Row) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rows = append(r.rows, row)
	fmt.Printf("  %s: %d of %d, %s, %d looks, %d problems, %v\n", r.house, len(r.rows), r.total, row.Path, row.Looks,
		row.Problems, time.Since(r.began).Round(time.Second))
}

// announce says what is wrong with a page.
func (r *report) announce(problem string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Printf("  %s: %s\n", r.house, problem)
}

// print writes the table of a house and its sum.
func (r *report) print(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.SortFunc(r.rows, func(a, b *Row) int { return strings.Compare(a.Path, b.Path) })
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(w, "Page\tOpened by\tBytes\tLooks\tProblems")
	looks, problems := 0, 0
	for _, row := range r.rows {
		size := ""
		if row.Bytes > 0 {
			size = fmt.Sprint(row.Bytes)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\n", row.Path, strings.Join(row.Openers, ", "), size, row.Looks,
			row.Problems)
		looks, problems = looks+row.Looks, problems+row.Problems
	}
	_ = w.Flush() // It writes to the terminal.
	_, _ = fmt.Fprintf(
		out, "pages: %s: %d pages and states, %d looks, %d problems\n", r.house, len(r.rows), looks, problems,
	)
}
