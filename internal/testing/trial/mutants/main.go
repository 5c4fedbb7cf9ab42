// Command mutants plants deliberate defects, one at a time, and shows which test
// finds each: the proof that the tests would notice the mistakes that matter.
//
//	make mutants                   all of them
//	make mutants MUTANTS=a,b       these
//	make mutants SAMPLE=40 SEED=7  forty, drawn by the seed
//	make mutants IN=./internal/testing/trial/soak    whether the tests of one package find them
//
// A defect is a few lines of a patch in defects/. An overlay of the go command compiles it in, so
// no planted defect is ever in the sources; see docs/design/operations.md#planted-defects. The test
// that RESULTS.md names runs first, then all tests of the packages that the defect names. When all
// of them pass, the tests of every other package that depends on the edited files run. A test
// counts only if it passes without the defect.
//
// A run that was cut goes on where it stopped: .coffer/trials/COMMIT/mutants.jsonl has what the
// tests of a commit caught, and such a defect is not planted again at that commit. Defects that
// MUTANTS names are always planted.
//
// No file of the module changes, except RESULTS.md, which has the measurements. A crash leaves a
// temporary directory.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	names := flags.String("only", "", "names of defects, separated by commas; all when empty")
	jobs := flags.Int("jobs", 2, "defects that are tried at once")
	list := flags.Bool("list", false, "list the defects and do nothing")
	nearOnly := flags.Bool("near", false, "run only the packages that a defect names, not the rest")
	sample := flags.Int("sample", 0, "number of defects to draw; 0: all")
	seed := flags.Uint64("seed", 0, "seed of the sample; 0: by the clock")
	rerun := flags.Bool("again", false, "plant also what an earlier run of this commit caught")
	packageList := flags.String(
		"in", "", "packages, separated by commas: whether these find the defects; nothing is kept",
	)
	if err := flags.Parse(args); err != nil {
		return err
	}
	defects, err := loadDefects()
	if err != nil {
		return err
	}
	if *names != "" {
		wanted := strings.Split(*names, ",")
		for _, name := range wanted {
			if !slices.ContainsFunc(defects, func(d defect) bool { return d.name == name }) {
				return fmt.Errorf("there is no defect %s; -list shows those there are", name)
			}
		}
		defects = slices.DeleteFunc(defects, func(d defect) bool { return !slices.Contains(wanted, d.name) })
	}
	work := fmt.Sprintf("%d defects", len(defects))
	if *sample > 0 && *sample < len(defects) {
		*seed = cmp.Or(*seed, uint64(time.Now().UnixMilli()))
		work = fmt.Sprintf("%d of %d defects, drawn with seed %d", *sample, len(defects), *seed)
		fmt.Println(work)
		defects = drawSample(defects, *sample, *seed)
	}
	if *packageList != "" {
		for i := range defects {
			defects[i].first = strings.Split(*packageList, ",")
		}
		*nearOnly = true
	}
	if *list {
		for _, d := range defects {
			fmt.Printf("%-36s %s\n", d.name, d.breaks)
		}
		return nil
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "coffer-mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	if err := os.Chmod(home, 0o755); err != nil { // PostgreSQL runs as another user and has to pass through
		return err
	}
	lab := &lab{root: root, home: home, nearOnly: *nearOnly, clean: map[string]*cleanTests{}}
	store := &keptResults{}
	if *packageList == "" {
		if store, err = openKept(ctx, root); err != nil {
			return err
		}
		defer store.close()
		if lab.findings, err = loadFindings(filepath.Join(root, resultsFile)); err != nil {
			return err
		}
	}

	began := time.Now()
	results := make([]result, len(defects))
	slots := make(chan struct{}, max(*jobs, 1))
	var wg sync.WaitGroup
	var finished, earlier int
	var mu sync.Mutex
	var keepFailed error
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for i, d := range defects {
		if r, ok := store.find(d); ok && *names == "" && !*rerun {
			results[i] = r
			mu.Lock()
			finished++
			earlier++
			mu.Unlock()
			continue
		}
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			r := lab.tryDefect(ctx, d)
			if ctx.Err() != nil {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			results[i] = r
			finished++
			fmt.Printf("%4d/%d  %s\n", finished, len(defects), r)
			if err := store.add(ctx, r); err != nil && keepFailed == nil {
				keepFailed = err
				cancel()
			}
		})
	}
	wg.Wait()
	if err := cmp.Or(keepFailed, ctx.Err()); err != nil {
		return err
	}
	caught := 0
	for _, r := range results {
		if r.isCaught() {
			caught++
		}
	}
	fmt.Printf("%d of %d caught in %v, %d of them in an earlier run\n",
		caught, len(results), time.Since(began).Round(time.Second), earlier)
	if *packageList != "" {
		return nil
	}
	if err := saveResults(filepath.Join(root, resultsFile), results); err != nil {
		return err
	}
	fmt.Printf("trial: %s: %d caught, %d not, %d of them planted by an earlier run of this commit\n",
		work, caught, len(results)-caught, earlier)
	if caught < len(results) {
		return errors.New(
			"a defect passes all tests: write the test that finds it, in the package whose promise it breaks",
		)
	}
	return nil
}

// drawSample draws n defects. The same seed draws the same ones from the same list.
func drawSample(defects []defect, n int, seed uint64) []defect {
	drawn := slices.Clone(defects)
	draw := rand.New(rand.NewPCG(seed, 0))
	draw.Shuffle(len(drawn), func(i, j int) { drawn[i], drawn[j] = drawn[j], drawn[i] })
	return drawn[:n]
}

func moduleRoot() (string, error) {
	output, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("look for the module: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(output))), nil
}
