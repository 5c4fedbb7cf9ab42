// Command gate runs the tests, says which were slow, and decides: make test, make test-short.
//
// A test runs with the race detector if it starts goroutines, or if its package does or guards memory
// that goroutines share; plan.go lists the packages of which only some tests are raced, with reasons.
// The other tests run without it, on the build that is shipped (no cgo). Each test runs once.
//
// The outcome is read from the events of go test -json and from its exit status. Both must say that
// every package passed. A test of the sources without an outcome, a test that did not end, a skipped
// test, a line that is no event and an unknown event fail the run.
//
// What never happens here: a test that is repeated until it passes, or a failure that is expected.
// What a crash leaves: nothing; the processes of go test end with their signals.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cofferpay/coffer/internal/testing/part"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

// interruptMax is how long go test may take to end its tests after an interrupt.
const interruptMax = 30 * time.Second

func run(ctx context.Context, args []string, out io.Writer) (passed bool, err error) {
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	short := flags.Bool("short", false, "only what needs no chain and no long trial, without the race detector")
	leftOut := flags.String("without", "", "folders of packages that are not tested, separated by commas")
	chosen := flags.String("only", "", "folders of packages, separated by commas; all when empty")
	if err := flags.Parse(args); err != nil {
		return false, err
	}
	if flags.NArg() > 0 {
		return false, fmt.Errorf("what is %q?", flags.Args())
	}
	began := time.Now()
	packages, err := listPackages(ctx)
	if err != nil {
		return false, err
	}
	var facts []packageFacts
	for _, p := range packages {
		f, err := readFacts(p)
		if err != nil {
			return false, err
		}
		facts = append(facts, f)
	}
	opts := options{short: *short, onlyDirs: splitList(*chosen), leftOutDirs: splitList(*leftOut)}
	if later := leftForAnotherDay(); len(opts.onlyDirs) == 0 && !opts.short && len(later) > 0 {
		fmt.Fprintf(out, "left for another day, %s=all runs them too: %s\n", part.AllEnv, strings.Join(later, ", "))
		opts.leftOutDirs = append(opts.leftOutDirs, later...)
	}
	plan, err := newPlan(facts, opts)
	if err != nil {
		return false, err
	}
	tempEnv, removeTemp, err := makeTempDir()
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, removeTemp()) }()
	r := newRecord(out)
	var group sync.WaitGroup
	errs := make([]error, len(plan.lanes))
	for i, lane := range plan.lanes {
		group.Go(func() {
			for _, run := range lane {
				if len(run.packages) > 0 && ctx.Err() == nil {
					errs[i] = errors.Join(errs[i], runTests(ctx, run, tempEnv, r))
				}
			}
		})
	}
	group.Wait()
	if ctx.Err() != nil {
		errs = append(errs, errors.New("interrupted"))
	}
	passed = r.report(out, plan.tests, time.Since(began))
	return passed, errors.Join(errs...)
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// listPackages lists the packages of the module.
func listPackages(ctx context.Context) ([]sourcePackage, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-json=ImportPath,Dir,GoFiles,TestGoFiles,XTestGoFiles", "./...")
	cmd.Env = append(os.Environ(), plainEnv...)
	cmd.Stderr = os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	var packages []sourcePackage
	decoder := json.NewDecoder(strings.NewReader(string(output)))
	for {
		var p sourcePackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the list of packages: %w", err)
		}
		packages = append(packages, p)
	}
}

// memoryBytesMin is the room that the file system in memory has to have. The worlds that run at the
// same time take some hundreds of megabytes.
const memoryBytesMin = 4 << 30

// makeTempDir makes the folder for temporary files of the tests, in memory if there is enough of it:
// a world has thousands of small files, and its processes wait for the disk most of the time. No
// test needs a disk, because none cuts the power: what a killed process wrote is in the kernel. What
// go test builds stays where it was. The environment is empty if there is no such memory. A gate
// that is killed leaves the folder.
func makeTempDir() (env []string, remove func() error, err error) {
	remove = func() error { return nil }
	const memory = "/dev/shm"
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memory, &stat); err != nil || int64(stat.Bavail)*int64(stat.Bsize) < memoryBytesMin {
		return nil, remove, nil
	}
	dir, err := os.MkdirTemp(memory, "coffer-gate-")
	if err != nil {
		return nil, remove, fmt.Errorf("make a folder for temporary files: %w", err)
	}
	remove = func() error { return os.RemoveAll(dir) }
	// The user of PostgreSQL passes through it.
	if err := os.Chmod(dir, 0o755); err != nil {
		return nil, remove, errors.Join(err, remove())
	}
	builds := os.Getenv("GOTMPDIR")
	if builds == "" {
		builds = os.TempDir()
	}
	return []string{"TMPDIR=" + dir, "GOTMPDIR=" + builds}, remove, nil
}

// runTests runs one go test to its end and reads what it says.
func runTests(ctx context.Context, g testRun, tempEnv []string, r *record) error {
	cmd := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-json"}, g.flags, g.packages)...)
	cmd.Env = slices.Concat(os.Environ(), g.env, tempEnv)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = interruptMax
	stream, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}
	readErr := r.readStream(stream, g.race)
	if err := cmd.Wait(); err != nil {
		return errors.Join(readErr, fmt.Errorf("go test of %d packages (race: %t): %w", len(g.packages), g.race, err))
	}
	return readErr
}
