// Package crashes plays every point at which a crash must be survived, with every fault, against
// the real program on real chains: anvil, surfpool and btcd. The service, its signer and PostgreSQL
// are processes of their own, with connections between them that the trial can cut. An oracle reads
// the chain with its own code.
//
// A cell of the table is one point with one fault on one chain. It passes when
//   - the point was reached
//   - everything open came to its end within a minute
//   - each payee received its amount once
//   - the books agree with the chain
//   - every event was delivered with one body
//
// A crash of the trial itself leaves no process; its folders are in the system's temporary
// directory.
package crashes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// cellMax bounds one cell. Each wait inside has a bound of its own that a busy machine does not reach:
// a cell fails by what it finds, not by how long it takes.
const cellMax = 20 * time.Minute

// Options say what is played.
type Options struct {
	Program string       // coffer, built with the tag crash
	Points  []string     // empty: all
	Faults  []Fault      // empty: all
	Chains  []chain.Name // empty: all
	Cells   []string     // "W14 kill ETHEREUM": these cells alone; empty: all that the other options leave
	Worlds  int          // at once; 0: one for each core, and one more because they mostly wait
	Output  io.Writer
}

// cell is one point with one fault on one chain, and its result.
type cell struct {
	site  site
	point point
	fault Fault
	took  time.Duration
	err   error
	log   string
}

// Report is the result of a run.
type Report struct {
	Cells  int
	Failed int
	Took   time.Duration

	table, failures string
}

// Failures returns the errors and the ends of the logs of the cells that failed.
func (r Report) Failures() string { return r.failures }

// String returns the table and the verdict.
func (r Report) String() string { return r.table }

// Run plays what the options select. The error is about the trial itself; the report has what the
// trial found.
func Run(ctx context.Context, opts Options) (Report, error) {
	cells, err := chooseCells(opts)
	if err != nil {
		return Report{}, err
	}
	worlds := opts.Worlds
	if worlds == 0 {
		worlds = runtime.NumCPU() + 1
	}
	worlds = min(worlds, len(cells))
	if opts.Output == nil {
		opts.Output = io.Discard
	}
	began := time.Now()
	var (
		mu        sync.Mutex
		nextIndex int
		doneCount int
		wg        sync.WaitGroup
	)
	takeCell := func() *cell {
		mu.Lock()
		defer mu.Unlock()
		if nextIndex == len(cells) || ctx.Err() != nil {
			return nil
		}
		nextIndex++
		return &cells[nextIndex-1]
	}
	reportCell := func(c *cell) {
		mu.Lock()
		defer mu.Unlock()
		doneCount++
		verdict := "ok"
		if c.err != nil {
			verdict = "FAILED: " + c.err.Error()
		}
		fmt.Fprintf(
			opts.Output, "%4d/%d  %6.1fs  %-8s  %-4s %-9s %s\n", doneCount, len(cells), c.took.Seconds(), c.site.chain,
			c.point.name, c.fault, verdict,
		)
		if c.err != nil && c.log != "" {
			fmt.Fprintf(opts.Output, "--- end of the log\n%s---\n", c.log)
		}
	}
	for range worlds {
		wg.Go(func() { runWorker(ctx, opts.Program, takeCell, reportCell) })
	}
	wg.Wait()
	r := Report{Cells: len(cells), Took: time.Since(began)}
	for _, c := range cells {
		if c.err != nil || c.took == 0 {
			r.Failed++
			r.failures += fmt.Sprintf("%s: %v\n%s\n", c.cellName(), c.err, c.log)
		}
	}
	r.table = formatTable(cells, opts, r)
	return r, ctx.Err()
}

// scenarioCellsMax is how many cells a scenario plays. The checks at the end of a cell read the whole
// history of its scenario, so in a long one they would take most of the time.
const scenarioCellsMax = 16

// runWorker plays cells in its own scenario. It starts a new one for another chain and for swaps, after
// scenarioCellsMax cells, and after a failure, so that one failure does not show in two cells.
func runWorker(ctx context.Context, program string, takeCell func() *cell, reportCell func(*cell)) {
	var t *scenario
	for c := takeCell(); c != nil; c = takeCell() {
		began := time.Now()
		isOther := t != nil && (t.site.chain != c.site.chain || t.site.withSwaps != c.site.withSwaps)
		if isOther || t != nil && t.cells == scenarioCellsMax {
			_ = t.stopAll() // its end says nothing about the cell
			t = nil
		}
		if t == nil {
			if t, c.err = newScenario(ctx, program, c.site); c.err != nil {
				c.took = time.Since(began)
				reportCell(c)
				continue
			}
			began = time.Now()
		}
		c.err = t.playPoint(ctx, c.point, c.fault)
		c.took = time.Since(began)
		if c.err != nil {
			c.err = errors.Join(c.err, t.describeOpen(ctx))
			c.log = t.log.String()
			if excess := len(c.log) - logBytesMax; excess > 0 {
				c.log = c.log[excess:]
			}
			_ = t.stopAll() // its end says nothing about the cell
			t = nil
		}
		reportCell(c)
	}
	if t != nil {
		_ = t.stopAll()
	}
}

const logBytesMax = 6 << 10

// playPoint plays one cell.
func (t *scenario) playPoint(ctx context.Context, p point, f Fault) error {
	ctx, cancel := context.WithTimeout(ctx, cellMax)
	defer cancel()
	t.cells++
	s := &cellRun{scenario: t, point: p, fault: f, name: fmt.Sprintf("%s-%s-%d", p.name, f, t.cells)}
	return s.playCell(ctx)
}

// cellName returns the name of a cell in Options.Cells and in failures.
func (c cell) cellName() string { return fmt.Sprintf("%s %s %s", c.point.name, c.fault, c.site.chain) }

// chooseCells lists the cells that the options select, fault by fault of each point, chain by
// chain.
func chooseCells(opts Options) (cells []cell, err error) {
	for _, name := range opts.Points {
		if !slices.ContainsFunc(points, func(p point) bool { return p.name == name }) {
			return nil, fmt.Errorf("no point %q is played", name)
		}
	}
	for _, f := range opts.Faults {
		if !slices.Contains(Faults, f) {
			return nil, fmt.Errorf("no fault is called %q", f)
		}
	}
	for _, name := range opts.Chains {
		if !slices.ContainsFunc(sites, func(s site) bool { return s.chain == name }) {
			return nil, fmt.Errorf("nothing is played on %s", name)
		}
	}
	asked := func(c cell) bool {
		return c.site.playsPoint(c.point) && c.point.acceptsFault(c.fault) &&
			(len(opts.Chains) == 0 || slices.Contains(opts.Chains, c.site.chain)) &&
			(len(opts.Points) == 0 || slices.Contains(opts.Points, c.point.name)) &&
			(len(opts.Faults) == 0 || slices.Contains(opts.Faults, c.fault)) &&
			(len(opts.Cells) == 0 || slices.Contains(opts.Cells, c.cellName()))
	}
	for _, s := range sites {
		for _, p := range points {
			for _, f := range Faults {
				if c := (cell{site: s.forPoint(p), point: s.adaptPoint(p), fault: f}); asked(c) {
					cells = append(cells, c)
				}
			}
		}
	}
	if len(cells) == 0 {
		return nil, fmt.Errorf("nothing is played at these points with these faults")
	}
	// The longest cells start first, so that the run does not end with one worker on a long cell.
	slices.SortStableFunc(cells, func(a, b cell) int {
		long := func(c cell) int {
			if c.point.name == "K08" {
				return 0
			}
			return 1
		}
		return long(a) - long(b)
	})
	return cells, nil
}

// cellsOf returns the results of a point on a chain, fault by fault, and whether it was selected.
func cellsOf(cells []cell, s site, p point) (row string, played bool) {
	for _, f := range Faults {
		text := "-"
		for _, c := range cells {
			if c.site.chain != s.chain || c.point.name != p.name || c.fault != f {
				continue
			}
			played = true
			switch {
			case c.err != nil:
				text = "FAILED"
			case c.took == 0:
				text = "not run"
			default:
				text = fmt.Sprintf("%.1fs", c.took.Seconds())
			}
		}
		row += "\t" + text
	}
	return row, played
}

// formatTable formats the result for a person.
func formatTable(cells []cell, opts Options, r Report) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "chain\tpoint")
	for _, f := range Faults {
		fmt.Fprintf(w, "\t%s", f)
	}
	fmt.Fprintln(w, "\twhat stands there")
	for _, s := range sites {
		for _, p := range points {
			if row, played := cellsOf(cells, s, p); played {
				fmt.Fprintf(w, "%s\t%s%s\t%s\n", s.chain, p.name, row, s.adaptPoint(p).title)
			}
		}
	}
	_ = w.Flush() // into memory
	if len(opts.Points) == 0 {
		b.WriteString("\nnot played:\n")
		for _, u := range unplayed {
			fmt.Fprintf(&b, "%-8s %s\n", u.name, u.why)
		}
		for _, s := range sites {
			for _, name := range slices.Sorted(maps.Keys(s.excluded)) {
				fmt.Fprintf(&b, "%-8s on %s: %s\n", name, s.chain, s.excluded[name])
			}
		}
	}
	verdict := "every crash was survived"
	if r.Failed > 0 {
		verdict = fmt.Sprintf("%d FAILED", r.Failed)
	}
	fmt.Fprintf(&b, "\n%d cells in %s: %s\n", r.Cells, r.Took.Round(time.Second), verdict)
	return b.String()
}
