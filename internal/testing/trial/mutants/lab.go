package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/testing/part"
)

const (
	packageTimeout = 10 * time.Minute // of one package's tests
	pipePatience   = 5 * time.Second  // for the child processes of a killed test program
	spoiledMax     = 3                // tests of a package that may fail without the defect
)

// lab tries defects. It is safe for concurrent use.
type lab struct {
	root, home string
	nearOnly   bool
	findings   map[string]finding // by defect: the test that found it last time

	mu    sync.Mutex
	clean map[string]*cleanTests
}

// cleanTests is a package's test program without a defect.
type cleanTests struct {
	buildOnce sync.Once
	file      string
	err       error

	mu     sync.Mutex
	passed map[string]bool // by the flags that choose tests
}

// result is the result of one defect.
type result struct {
	defect
	finder string // the package and the test that found it
	err    error  // why there is no result
	took   time.Duration

	plantedAt time.Time
}

func (r result) isCaught() bool { return r.err == nil && r.finder != "" }

func (r result) formatVerdict() string {
	switch {
	case r.err != nil:
		return "BROKEN: " + r.err.Error()
	case r.finder == "":
		return "NOT CAUGHT"
	}
	return "caught by " + r.finder
}

func (r result) String() string {
	return fmt.Sprintf("%-36s %-76s %s  %v", r.name, r.breaks, r.formatVerdict(), r.took.Round(time.Second))
}

// tryDefect plants a defect and runs tests until one fails.
func (l *lab) tryDefect(ctx context.Context, d defect) result {
	began := time.Now()
	r := result{defect: d, plantedAt: began}
	r.finder, r.err = l.findTest(ctx, d)
	r.took = time.Since(began)
	return r
}

func (l *lab) findTest(ctx context.Context, d defect) (finder string, err error) {
	dir := filepath.Join(l.home, d.name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	overlay, err := d.plantFiles(l.root, dir)
	if err != nil {
		return "", err
	}
	// Programs that a test builds have the defect too. Databases with changed migrations are cached
	// in the temporary directory, which is deleted.
	env := append(os.Environ(), "GOFLAGS="+strings.TrimSpace(os.Getenv("GOFLAGS")+" -overlay="+overlay))
	if slices.Contains(d.listPackages(), "./migrations") {
		env = append(env, "TMPDIR="+dir)
	}
	// The test that found the defect before runs alone. If it finds nothing any more, all tests
	// run.
	if k, ok := l.findings[d.name]; ok {
		if finder, err := l.testPackage(ctx, env, dir, k.pkg, "-test.run=^"+k.test+"$"); err != nil || finder != "" {
			return finder, err
		}
	}
	tried := map[string]bool{}
	for _, pkg := range d.first {
		tried[pkg] = true
		if finder, err := l.testPackage(ctx, env, dir, pkg); err != nil || finder != "" {
			return finder, err
		}
	}
	if l.nearOnly {
		return "", nil
	}
	rest, err := l.listDependents(ctx, d)
	if err != nil {
		return "", err
	}
	for _, pkg := range rest {
		if tried[pkg] {
			continue
		}
		if finder, err := l.testPackage(ctx, env, dir, pkg); err != nil || finder != "" {
			return finder, err
		}
	}
	return "", nil
}

// testPackage runs a package's tests, those that args choose, with the defect and returns the name
// of the one that fails.
func (l *lab) testPackage(
	ctx context.Context, env []string, dir, pkg string, args ...string,
) (finder string, err error) {
	fmt.Fprintf(os.Stderr, "%s: %s\n", filepath.Base(dir), pkg)
	program := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-")+".test")
	if err := l.buildTests(ctx, env, program, pkg); err != nil {
		return "", err
	}
	if _, err := os.Stat(program); err != nil {
		return "", nil // it has no tests
	}
	defer os.Remove(program)
	// A test that also fails without the defect has found nothing: it is left out, and the other
	// tests may still find the defect.
	var spoiled []string
	for {
		failed, err := l.runTests(ctx, env, program, pkg, append(leaveOut(spoiled), args...)...)
		if err != nil || failed == "" {
			return "", err
		}
		name, _, _ := strings.Cut(failed, "/")
		selection := []string{}
		if testName.MatchString(name) {
			selection = append(selection, "-test.run=^"+name+"$")
		}
		cleanFailure, err := l.runClean(ctx, pkg, selection...)
		switch {
		case err != nil:
			return "", err
		case cleanFailure == "":
			return strings.TrimPrefix(pkg, "./") + " " + failed, nil
		case len(selection) == 0 || len(spoiled) == spoiledMax:
			return "", fmt.Errorf("%s %s fails without the defect too", pkg, cleanFailure)
		}
		fmt.Fprintf(
			os.Stderr, "%s: %s %s fails without the defect too and is left out\n", filepath.Base(dir), pkg,
			cleanFailure,
		)
		spoiled = append(spoiled, name)
	}
}

func leaveOut(tests []string) []string {
	if len(tests) == 0 {
		return nil
	}
	return []string{"-test.skip=^(" + strings.Join(tests, "|") + ")$"}
}

// buildTests does not vet: vet would read every package again that depends on the defect.
func (l *lab) buildTests(ctx context.Context, env []string, program, pkg string) error {
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-o", program, pkg)
	build.Dir, build.Env = l.root, env
	if output, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%s does not compile: %w\n%s", pkg, err, output)
	}
	return nil
}

// runClean runs tests of a package without any defect and names the one that fails. What passed is
// not run again, because the same program is tested whatever the defect.
func (l *lab) runClean(ctx context.Context, pkg string, selection ...string) (failed string, err error) {
	l.mu.Lock()
	c := l.clean[pkg]
	if c == nil {
		name := "clean-" + strings.ReplaceAll(strings.TrimPrefix(pkg, "./"), "/", "-") + ".test"
		c = &cleanTests{file: filepath.Join(l.home, name), passed: map[string]bool{}}
		l.clean[pkg] = c
	}
	l.mu.Unlock()
	c.buildOnce.Do(func() { c.err = l.buildTests(ctx, os.Environ(), c.file, pkg) })
	if c.err != nil {
		return "", c.err
	}
	key := strings.Join(selection, " ")
	c.mu.Lock()
	hasPassed := c.passed[key]
	c.mu.Unlock()
	if hasPassed {
		return "", nil
	}
	if failed, err = l.runTests(ctx, os.Environ(), c.file, pkg, selection...); err != nil || failed != "" {
		return failed, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.passed[key] = true
	return "", nil
}

var (
	testFailed  = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)
	testRunning = regexp.MustCompile(`^\t((?:Test|Fuzz)\w+)\b`)
	testName    = regexp.MustCompile(`^(Test|Fuzz)\w+$`)
	testInTrace = regexp.MustCompile(`\.(Test\w+)\(`)
)

// runTests runs a test program until its first failure and returns that test; "" when all tests
// pass. It kills the program alone: its child processes watch it and end.
func (l *lab) runTests(
	ctx context.Context, env []string, program, pkg string, args ...string,
) (failed string, err error) {
	tests := exec.CommandContext(ctx, program, append([]string{
		"-test.v", "-test.failfast", "-test.paniconexit0", "-test.timeout=" + packageTimeout.String(),
	}, args...)...)
	tests.Dir, tests.WaitDelay = filepath.Join(l.root, pkg), pipePatience
	tests.Env = append(slices.Clip(env), part.AllEnv+"=all") // whatever the day: the case that finds a defect is played
	read, write := io.Pipe()
	var tail bytes.Buffer // the end of the output, for a program that dies without naming a test
	tests.Stdout, tests.Stderr = write, write
	if err := tests.Start(); err != nil {
		return "", fmt.Errorf("run the tests of %s: %w", pkg, err)
	}
	scanned := make(chan struct{})
	go func() {
		defer close(scanned)
		lines := bufio.NewReader(read)
		dying := false
		for {
			line, err := lines.ReadString('\n')
			switch m := testFailed.FindStringSubmatch(line); {
			case failed != "":
			case m != nil:
				failed = m[1]
				_ = tests.Process.Kill()
			case strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: "):
				dying = true
			}
			if dying {
				tail.WriteString(line)
			}
			if err != nil {
				return
			}
		}
	}()
	err = tests.Wait()
	write.Close()
	<-scanned
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case failed != "" || err == nil || errors.Is(err, exec.ErrWaitDelay) && tests.ProcessState.Success():
		return failed, nil
	case errors.As(err, &exit) || errors.Is(err, exec.ErrWaitDelay):
		return nameDeadTest(tail.String()), nil
	}
	return "", fmt.Errorf("run the tests of %s: %w", pkg, err)
}

// nameDeadTest returns the test during which the program ended, if its last output has it.
func nameDeadTest(words string) string {
	for _, pattern := range []*regexp.Regexp{testRunning, testInTrace} {
		for line := range strings.Lines(words) {
			if m := pattern.FindStringSubmatch(line); m != nil {
				return m[1] + " (the program died)"
			}
		}
	}
	return "(the test program died)"
}

// listDependents returns the packages whose tests depend on the files that a defect edits.
func (l *lab) listDependents(ctx context.Context, d defect) ([]string, error) {
	targets := exec.CommandContext(ctx, "go", append([]string{"list"}, d.listPackages()...)...)
	targets.Dir = l.root
	edited, err := targets.Output()
	if err != nil {
		return nil, fmt.Errorf("list what is edited: %w", err)
	}
	list := exec.CommandContext(
		ctx, "go", "list", "-test", "-f", `{{if .ForTest}}{{else}}{{.ImportPath}} {{join .Deps " "}}{{end}}`, "./...",
	)
	list.Dir = l.root
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	module, _, _ := strings.Cut(strings.Fields(string(edited))[0], "/internal/")
	module = strings.TrimSuffix(strings.TrimSuffix(module, "/migrations"), "/webhook")
	var found []string
	for line := range strings.Lines(string(output)) {
		words := strings.Fields(line)
		if len(words) == 0 || !strings.HasSuffix(words[0], ".test") {
			continue
		}
		pkg := strings.TrimSuffix(words[0], ".test")
		for _, target := range strings.Fields(string(edited)) {
			// A package with tests of its own package is recompiled: "path [path.test]".
			if pkg == target || slices.Contains(words, target) || strings.Contains(line, " "+target+" [") {
				found = append(found, "."+strings.TrimPrefix(pkg, module))
				break
			}
		}
	}
	return found, nil
}
