package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"time"
)

// decoding is a block of a chain from a node's answer to its movements, on one core. The
// packages measure it themselves; here it stands beside the least that could be done with
// the same bytes, in the same run. Both are processor time, which is what they take where
// nothing else runs.
type decoding struct {
	what, dir   string
	ours, least string // benchmarks of the package
	leastIs     string
	goal        time.Duration
}

const (
	decodeTurns = "5" // the quickest of them counts
	decodeFor   = "50x"
)

func decode(ctx context.Context, w *world) error {
	for _, d := range []decoding{
		{
			what: "decode of a Bitcoin block of 3,000 transactions, one core", dir: "./internal/chain/bitcoin", ours: "BenchmarkBlock",
			least: "BenchmarkSHA256", leastIs: "one SHA-256 over the same bytes", goal: 20 * time.Millisecond,
		},
		{
			what: "decode of a Solana block of 2,000 transactions, one core", dir: "./internal/chain/solana", ours: "BenchmarkDecode2000",
			least: "BenchmarkScan2000", leastIs: "a look whether the same bytes are JSON", goal: 30 * time.Millisecond,
		},
	} {
		cpu, clock, size, err := d.take(ctx)
		if err != nil {
			return err
		}
		took, least := cpu[d.ours].part(0), cpu[d.least].part(0)
		w.table.add(row{
			figure:   d.what,
			here:     fmt.Sprintf("%s of CPU for %.1f MB; by the clock %s", short(took), size/1e6, short(clock[d.ours].part(0))),
			compared: fmt.Sprintf("%.1f times %s, %s", float64(took)/float64(least), d.leastIs, short(least)),
			target:   reached(took < d.goal, "< "+d.goal.String()),
		})
	}
	return nil
}

// measured is a line of go test -bench: the name, nanoseconds of each, megabytes a second,
// and nanoseconds of the processor.
var measured = regexp.MustCompile(`(?m)^(Benchmark\w+)\s+\d+\s+([0-9.]+) ns/op\s+([0-9.]+) MB/s\s+([0-9.]+) cpu-ns/op`)

func (d decoding) take(ctx context.Context) (cpu, clock map[string]spent, size float64, err error) {
	out, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", "^("+d.ours+"|"+d.least+")$",
		"-cpu", "1", "-count", decodeTurns, "-benchtime", decodeFor, d.dir).CombinedOutput()
	if err != nil {
		return nil, nil, 0, fmt.Errorf("go test -bench in %s: %w\n%s", d.dir, err, out)
	}
	cpu, clock = map[string]spent{}, map[string]spent{}
	for _, m := range measured.FindAllStringSubmatch(string(out), -1) {
		var each, speed, processor float64
		if _, err := fmt.Sscan(m[2]+" "+m[3]+" "+m[4], &each, &speed, &processor); err != nil {
			return nil, nil, 0, fmt.Errorf("go test -bench in %s says %q", d.dir, m[0])
		}
		cpu[m[1]], clock[m[1]] = append(cpu[m[1]], time.Duration(processor)), append(clock[m[1]], time.Duration(each))
		size = each * speed / 1e3 // nanoseconds by megabytes a second
	}
	if len(cpu[d.ours]) == 0 || len(cpu[d.least]) == 0 {
		return nil, nil, 0, fmt.Errorf("go test -bench in %s says nothing of both:\n%s", d.dir, out)
	}
	return cpu, clock, size, nil
}
