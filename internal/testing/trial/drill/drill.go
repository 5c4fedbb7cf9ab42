// Package drill plays the restores of docs/runbooks/restore.md with the real program on a real
// chain: the database goes back to an old backup, the signer's journal is lost, a seed is restored
// on an empty machine, the database is replaced under a running service. An oracle reads the chain
// with its own code, and an integrator keeps its own books; both say whether money was lost or
// doubled.
//
// Every step is one that the runbook tells a person to do. A crash of the trial itself leaves no
// process; its folders are in the system's temporary directory.
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

// drillMax bounds one drill. A busy machine plays it in minutes.
const drillMax = 40 * time.Minute

// Drill is one restore.
type Drill struct {
	Name      string
	Title     string
	chainName chain.Name // "": Ethereum
	sideChain chain.Name // whose blocks are mined, too; "": none
	play      func(ctx context.Context, h *drillEnv) error
}

// Drills are all drills.
var Drills = []Drill{
	{
		Name: "backup", Title: "the database goes back to an older base backup",
		play: func(ctx context.Context, h *drillEnv) error { return playOldBackup(ctx, h, baseBackup{}) },
	},
	{
		Name: "dump", Title: "the database goes back to an older dump, on an empty cluster",
		play: func(ctx context.Context, h *drillEnv) error { return playOldBackup(ctx, h, dump{}) },
	},
	{
		Name: "solana", Title: "the database goes back to an older base backup, with payments on Solana",
		chainName: chain.Solana,
		play:      func(ctx context.Context, h *drillEnv) error { return playOldBackup(ctx, h, baseBackup{}) },
	},
	{
		Name: "bitcoin", Title: "the database goes back to an older base backup, with payments on Bitcoin",
		chainName: chain.Bitcoin,
		play:      func(ctx context.Context, h *drillEnv) error { return playOldBackup(ctx, h, baseBackup{}) },
	},
	{Name: "journal", Title: "the signer's journal is lost", play: playLostJournal},
	{Name: "seed", Title: "everything is lost but the seed's backup", play: playEmptyMachine},
	{Name: "standby", Title: "the primary dies under load, and a synchronous standby is promoted", play: playStandby},
	{
		Name: "lagging", Title: "the primary dies, and an asynchronous standby that lacks the last hour is promoted",
		play: playLaggingStandby,
	},
	{Name: "swap", Title: "the database goes back to an older base backup under a running service", play: playSwap},
	{
		Name:      "swaps",
		Title:     "the database goes back to an older base backup, with all kinds of swaps",
		sideChain: chain.Solana, play: playSwaps,
	},
	{
		Name:  "checkouts",
		Title: "the database goes back to an older base backup, with checkouts and refunds that were paid meanwhile",
		play:  playCheckouts,
	},
	{
		Name:  "payouts",
		Title: "the database goes back to an older base backup, with half of a batch payout paid meanwhile",
		play:  playPayouts,
	},
}

// Options say what is played.
type Options struct {
	Program string    // path of the coffer program
	Names   []string  // names of drills; empty: all
	Output  io.Writer // receives a line for each step; nil: none
}

// Run plays drills one after another, each in its own world, and returns how many failed. The error
// is about the choice; Output has what failed.
func Run(ctx context.Context, opts Options) (failed int, err error) {
	for _, name := range opts.Names {
		if !slices.ContainsFunc(Drills, func(d Drill) bool { return d.Name == name }) {
			return 0, fmt.Errorf("no drill is called %q", name)
		}
	}
	if opts.Output == nil {
		opts.Output = io.Discard
	}
	type result struct {
		name string
		took time.Duration
		err  error
	}
	var results []result
	for _, d := range Drills {
		if len(opts.Names) > 0 && !slices.Contains(opts.Names, d.Name) {
			continue
		}
		fmt.Fprintf(opts.Output, "%s: %s\n", d.Name, d.Title)
		began := time.Now()
		err := playDrill(ctx, opts, d)
		results = append(results, result{d.Name, time.Since(began), err})
		if err != nil {
			failed++
		}
		if ctx.Err() != nil {
			return failed, ctx.Err()
		}
	}
	fmt.Fprintln(opts.Output)
	for _, r := range results {
		verdict := "passed"
		if r.err != nil {
			verdict = "FAILED: " + r.err.Error()
		}
		fmt.Fprintf(opts.Output, "%-8s %6.1fs  %s\n", r.name, r.took.Seconds(), verdict)
	}
	fmt.Fprintf(opts.Output, "trial: %d drills: %d passed, %d failed\n", len(results), len(results)-failed, failed)
	return failed, nil
}

func playDrill(ctx context.Context, opts Options, d Drill) (err error) {
	ctx, cancel := context.WithTimeout(ctx, drillMax)
	defer cancel()
	h := &drillEnv{
		program: opts.Program, output: opts.Output, chainName: cmp.Or(d.chainName, chain.Ethereum),
		sideChain: d.sideChain,
	}
	defer func() {
		if err != nil {
			fmt.Fprintf(opts.Output, "  FAILED  %v\n--- end of the service's log\n%s---\n", err, h.readLog())
		}
		if stopped := h.stopAll(); stopped != nil {
			fmt.Fprintf(opts.Output, "  stopping: %v\n", stopped)
		}
	}()
	if err := h.playStep(
		"a local chain, PostgreSQL and the service are up", func() error { return h.startWorld(ctx) },
	); err != nil {
		return err
	}
	return d.play(ctx, h)
}
