// Package drill plays the restores of docs/runbooks/restore.md with the real
// program on a real chain: the database goes back to an old backup, the signer's
// journal is lost, a seed comes to an empty machine, the database is swapped under
// a running service. An oracle that reads the chain by its own code, and an
// integrator that keeps books of its own, say whether money was lost or doubled.
//
// What never happens here: a step that the runbook does not tell a person to do.
// What a crash of the trial itself leaves: no process; its folders in the system's
// temporary directory.
package drill

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// drillMax bounds one drill.
const drillMax = 5 * time.Minute

// Drill is one restore.
type Drill struct {
	Name string
	What string
	on   chain.Name // "": Ethereum
	play func(ctx context.Context, h *house) error
}

// Drills are all of them.
var Drills = []Drill{
	{Name: "backup", What: "the database goes back to an older base backup", play: func(ctx context.Context, h *house) error { return oldBackup(ctx, h, baseBackup{}) }},
	{Name: "dump", What: "the database goes back to an older dump, on an empty cluster", play: func(ctx context.Context, h *house) error { return oldBackup(ctx, h, dump{}) }},
	{Name: "solana", What: "the database goes back to an older base backup, with payments on Solana", on: chain.Solana, play: func(ctx context.Context, h *house) error { return oldBackup(ctx, h, baseBackup{}) }},
	{Name: "bitcoin", What: "the database goes back to an older base backup, with payments on Bitcoin", on: chain.Bitcoin, play: func(ctx context.Context, h *house) error { return oldBackup(ctx, h, baseBackup{}) }},
	{Name: "journal", What: "the signer's journal is lost", play: lostJournal},
	{Name: "seed", What: "everything is lost but the seed's backup", play: emptyMachine},
	{Name: "standby", What: "the primary dies under load, and a synchronous standby is promoted", play: standby},
	{Name: "lagging", What: "the primary dies, and an asynchronous standby that lacks the last hour is promoted", play: lagging},
	{Name: "swap", What: "the database goes back to an older base backup under a running service", play: swapped},
}

// Options say what is played.
type Options struct {
	Program string    // the coffer to play with
	Only    []string  // names of drills; empty: all
	Out     io.Writer // is told each step; nil: nobody
}

// Run plays drills one after another, each in a world of its own, and returns how
// many failed. The error is about the choice; what failed is told.
func Run(ctx context.Context, opts Options) (failed int, err error) {
	for _, name := range opts.Only {
		if !slices.ContainsFunc(Drills, func(d Drill) bool { return d.Name == name }) {
			return 0, fmt.Errorf("no drill is called %q", name)
		}
	}
	if opts.Out == nil {
		opts.Out = io.Discard
	}
	type result struct {
		name string
		took time.Duration
		err  error
	}
	var results []result
	for _, d := range Drills {
		if len(opts.Only) > 0 && !slices.Contains(opts.Only, d.Name) {
			continue
		}
		fmt.Fprintf(opts.Out, "%s: %s\n", d.Name, d.What)
		began := time.Now()
		err := play(ctx, opts, d)
		results = append(results, result{d.Name, time.Since(began), err})
		if err != nil {
			failed++
		}
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
	}
	fmt.Fprintln(opts.Out)
	for _, r := range results {
		verdict := "passed"
		if r.err != nil {
			verdict = "FAILED: " + r.err.Error()
		}
		fmt.Fprintf(opts.Out, "%-8s %6.1fs  %s\n", r.name, r.took.Seconds(), verdict)
	}
	return failed, nil
}

func play(ctx context.Context, opts Options, d Drill) (err error) {
	ctx, cancel := context.WithTimeout(ctx, drillMax)
	defer cancel()
	h := &house{program: opts.Program, out: opts.Out, on: cmp.Or(d.on, chain.Ethereum)}
	defer func() {
		if err != nil {
			fmt.Fprintf(opts.Out, "  FAILED  %v\n--- end of the service's log\n%s---\n", err, h.log())
		}
		if stopped := h.stop(); stopped != nil {
			fmt.Fprintf(opts.Out, "  stopping: %v\n", stopped)
		}
	}()
	if err := h.step("a local chain, PostgreSQL and the service are up", func() error { return h.start(ctx) }); err != nil {
		return err
	}
	return d.play(ctx, h)
}
