// Command trials runs the long trials one after another and writes their table into
// docs/SAFETY.md: make trials.
//
// Results are kept by commit and suite in .coffer/trials/COMMIT/SUITE.json, with the output beside
// them in SUITE.log. A suite that has a result of this commit does not run again, unless the
// options ask for other work or for all suites again. The table has every suite: what has no
// result of the commit is "not run".
//
// What never happens here: a result of a work tree that differs from its commit, or of a suite
// that did not end by itself. What a crash leaves: the results of the suites that ended, an
// unfinished log, and a suite that ends when it writes its next line.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/localworld/tied"
	"github.com/cofferpay/coffer/internal/testing/trial/commit"
)

// stopPatience is how long a suite may take to stop its servers when it is interrupted.
const stopPatience = time.Minute

const safetyPage = "docs/SAFETY.md"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runMain(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "trials:", err)
		os.Exit(1)
	}
}

func runMain(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("trials", flag.ContinueOnError)
	flags.StringVar(&o.selection, "only", "", "suites, separated by commas; all when empty")
	flags.IntVar(&o.sample, "sample", 40, "planted defects to draw")
	flags.StringVar(&o.mutants, "mutants", "", `"all": every planted defect instead of a sample`)
	flags.StringVar(&o.length, "for", "", "length of race and of each fuzz target")
	flags.IntVar(&o.runs, "runs", 300, "runs of soak")
	flags.Uint64Var(&o.seed, "seed", 0, "first seed of soak and of the sample; 0: from the commit")
	flags.BoolVar(&o.rerun, "again", false, "run also suites that have a result of this commit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case o.mutants != "" && o.mutants != allMutants:
		return fmt.Errorf("MUTANTS=%s: a table has a sample or all of the planted defects", o.mutants)
	case o.sample < 1 || o.runs < 1:
		return errors.New("a sample has at least one defect, and soak at least one run")
	}
	root, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	id, err := commit.Find(ctx, root)
	if err != nil {
		return err
	}
	if o.seed == 0 {
		if o.seed, err = strconv.ParseUint(id[:8], 16, 64); err != nil {
			return err
		}
	}
	r := runner{root: root, commit: id, output: os.Stdout, rerun: o.rerun, suites: listSuites(o)}
	if o.selection != "" {
		r.selection = strings.Split(o.selection, ",")
	}
	r.machine, r.versions = describeMachine(), describeVersions(ctx, root)
	return r.run(ctx)
}

// A runner runs suites of one commit.
type runner struct {
	root, commit string
	suites       []suite
	selection    []string // names of the suites to run; empty: all
	rerun        bool
	output       io.Writer

	machine, versions string
}

// run runs the suites that have no result yet and writes the table. The error names the suites
// that did not pass.
func (r runner) run(ctx context.Context) error {
	for _, name := range r.selection {
		if !slices.ContainsFunc(r.suites, func(s suite) bool { return s.name == name }) {
			return fmt.Errorf("there is no suite %q", name)
		}
	}
	dir := commit.Dir(r.root, r.commit)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	fmt.Fprintf(r.output, "trials of commit %s\n", r.commit)
	var wrong []string
	for i, s := range r.suites {
		if len(r.selection) > 0 && !slices.Contains(r.selection, s.name) {
			continue
		}
		position := fmt.Sprintf("[%d/%d] %s", i+1, len(r.suites), s.name)
		earlier, ok, err := loadResult(dir, r.commit, s.name)
		if err != nil {
			return err
		}
		if ok && earlier.answers(s) && !r.rerun {
			fmt.Fprintf(r.output, "%s: %s on %s, not run again: %s\n",
				position, earlier.Outcome, formatDay(earlier.StartedAt), earlier.Summary)
		} else {
			fmt.Fprintf(r.output, "%s: %s\n", position, commandText(s))
			if earlier, err = r.runSuite(ctx, dir, s); err != nil {
				return fmt.Errorf("%s has no result: %w", s.name, err)
			}
			if err := saveResult(dir, earlier); err != nil {
				return err
			}
			fmt.Fprintf(r.output, "%s: %s after %s: %s\n",
				position, earlier.Outcome, formatSeconds(earlier.Seconds), earlier.Summary)
		}
		if earlier.Outcome != passed {
			wrong = append(wrong, s.name)
		}
		if err := r.writeTable(dir); err != nil {
			return err
		}
	}
	if len(wrong) > 0 {
		return fmt.Errorf("not passed: %s", strings.Join(wrong, ", "))
	}
	return nil
}

// runSuite runs a suite to its end. The error says why there is no result of it.
func (r runner) runSuite(ctx context.Context, dir string, s suite) (result, error) {
	log, err := os.Create(filepath.Join(dir, s.name+".log"))
	if err != nil {
		return result{}, err
	}
	defer log.Close()
	began := time.Now()
	last := &summaryFinder{}
	environment := cleanEnvironment(os.Environ())
	if r.rerun {
		environment = append(environment, "AGAIN=1") // mutants keeps results of its own
	}
	exit := runCommand(ctx, r.root, s.command, environment, io.MultiWriter(r.output, log, last))
	took := time.Since(began)
	if ctx.Err() != nil {
		return result{}, fmt.Errorf("interrupted after %s", took.Round(time.Second))
	}
	if now, err := commit.Find(ctx, r.root); err != nil || now != r.commit {
		return result{}, errors.New("the work tree changed while the suite ran")
	}
	res := result{
		Suite: s.name, Commit: r.commit, Command: commandText(s), IsWhole: s.isWhole, Seed: s.seed,
		Summary: last.summary(), StartedAt: began.UTC(), Seconds: int64(took.Round(time.Second) / time.Second),
		Machine: r.machine, Versions: r.versions,
	}
	var exitError *exec.ExitError
	switch {
	case exit != nil && !errors.As(exit, &exitError):
		return result{}, exit // it did not start, or left processes that hold its output
	case res.Summary == "":
		res.Outcome, res.Summary = brokeOff, fmt.Sprintf("ended without a summary (%s)", describeExit(exit))
	case exit != nil:
		res.Outcome = failed
	default:
		res.Outcome = passed
	}
	return res, nil
}

func describeExit(err error) string {
	if err == nil {
		return "exit status 0"
	}
	return err.Error()
}

// runCommand runs a command as a group of processes of its own. When ctx ends, it interrupts the
// group as Ctrl-C does, and kills what is left after stopPatience.
func runCommand(ctx context.Context, root string, command, environment []string, output io.Writer) error {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = root, environment, stopPatience
	cmd.Stdout, cmd.Stderr = output, output
	ended, result, err := tied.Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-ended:
		return result()
	case <-ctx.Done():
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) // the group is gone when it fails
	patience := time.NewTimer(stopPatience)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		<-ended
	}
	return ctx.Err()
}

func commandText(s suite) string { return strings.Join(s.command, " ") }

// lockDir refuses a second run of the same commit.
func lockDir(dir string) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = f.Close() // it was only opened
		return nil, errors.New("another run of this commit goes on")
	}
	return func() {
		// A process that is being started by another goroutine still shares the file.
		_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
		_ = f.Close()
	}, nil
}
