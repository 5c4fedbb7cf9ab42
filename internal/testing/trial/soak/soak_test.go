package soak

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"
)

var (
	seedFlag  = flag.Uint64("soak.seed", 0, "first seed of a long run; 0: by the clock")
	runsFlag  = flag.Int("soak.runs", 0, "seeds of a long run; 0: only the short selection")
	stepsFlag = flag.Int("soak.steps", 220, "steps with faults in each run")
	forFlag   = flag.Duration("soak.for", 0, "no run is begun after this; 0: all are")
)

const shortSteps = 96

// selection are the seeds that every `make test` plays.
var selection = []uint64{1, 2}

func TestRandomDaysLoseAndDoubleNothing(t *testing.T) {
	t.Parallel()
	if *runsFlag > 0 {
		return // the long run below uses the machine
	}
	var mu sync.Mutex
	sum := newStatistics()
	t.Cleanup(func() { // the days have ended
		if !t.Failed() && sum.runs == len(selection) && (sum.batchesMade == 0 || sum.rowsPaid == 0) {
			sum.writeTable(t.Output(), 0)
			t.Error("no batch was made, or none was paid")
		}
	})
	for _, seed := range selection {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			o := playSeed(t, seed, shortSteps)
			if o.broken != "" {
				t.Fatal(o.describeFailure(seed, shortSteps))
			}
			mu.Lock()
			defer mu.Unlock()
			sum.addFigures(o.statistics)
		})
	}
}

func TestTheSameSeedIsTheSameDay(t *testing.T) {
	t.Parallel()
	if *runsFlag > 0 {
		return
	}
	const seed, steps = 4, 60
	one, two := playSeed(t, seed, steps), playSeed(t, seed, steps)
	for _, o := range []outcome{one, two} {
		if o.broken != "" {
			t.Fatal(o.describeFailure(seed, steps))
		}
	}
	for i := range min(len(one.trace), len(two.trace)) {
		if one.trace[i] != two.trace[i] {
			t.Fatalf("line %d: got %q, then %q", i, one.trace[i], two.trace[i])
		}
	}
	if one.digest != two.digest {
		t.Errorf("got %s, then %s", one.digest, two.digest)
	}
}

// TestSoak is the long run of `make soak`; without -soak.runs it is empty.
func TestSoak(t *testing.T) {
	if *runsFlag == 0 {
		return
	}
	first := *seedFlag
	if first == 0 {
		first = uint64(time.Now().UnixMilli())
	}
	fmt.Printf("soak: seeds %d to %d, %d steps each\n", first, first+uint64(*runsFlag)-1, *stepsFlag)
	var (
		mu     sync.Mutex
		sum    = newStatistics()
		broken int
		began  = time.Now()
		said   = began
	)
	t.Run("seeds", func(t *testing.T) {
		for i := range *runsFlag {
			seed := first + uint64(i)
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				if *forFlag > 0 && time.Since(began) > *forFlag {
					return
				}
				o := playSeed(t, seed, *stepsFlag)
				mu.Lock()
				defer mu.Unlock()
				sum.addFigures(o.statistics)
				if o.broken != "" {
					broken++
					fmt.Println(o.describeFailure(seed, *stepsFlag)) // at once: the other runs take long
					t.Errorf("seed %d is broken", seed)
				}
				if time.Since(said) > 5*time.Second {
					said = time.Now()
					fmt.Printf(
						"  %d of %d runs, %d steps, %d payments, %v\n", sum.runs, *runsFlag, sum.steps, sum.payments,
						time.Since(began).Round(time.Second),
					)
				}
			})
		}
	})
	sum.writeTable(os.Stdout, time.Since(began))
	fmt.Printf("trial: %d runs of %d steps: %d steps, %d payments on the chain, "+
		"%d checks of the books, %d runs broken\n",
		sum.runs, *stepsFlag, sum.steps, sum.payments, sum.audits, broken)
}
