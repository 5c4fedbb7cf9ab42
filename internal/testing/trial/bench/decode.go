package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"time"
)

// decodeBench measures a block of a chain from a node's answer to its movements, on one core. The
// packages measure it themselves. The bench compares it with the least that could be done with the
// same bytes, in the same run. Both are processor time, which is what they take on an otherwise
// idle machine.
type decodeBench struct {
	title, dir                 string
	ownBenchmark, minBenchmark string // benchmarks of the package
	minTitle                   string
	goal                       time.Duration
}

const (
	decodeRepeats    = "5" // the quickest of them counts
	decodeIterations = "50x"
)

func benchDecoding(ctx context.Context, w *benchEnv) error {
	for _, d := range []decodeBench{
		{
			title: "decode of a Bitcoin block of 3,000 transactions, one core", dir: "./internal/chain/bitcoin",
			ownBenchmark: "BenchmarkBlock",
			minBenchmark: "BenchmarkSHA256", minTitle: "one SHA-256 over the same bytes", goal: 20 * time.Millisecond,
		},
		{
			title: "decode of a Solana block of 2,000 transactions, one core", dir: "./internal/chain/solana",
			ownBenchmark: "BenchmarkDecode2000",
			minBenchmark: "BenchmarkScan2000", minTitle: "a look whether the same bytes are JSON",
			goal: 30 * time.Millisecond,
		},
	} {
		cpu, clock, size, err := d.runBenchmarks(ctx)
		if err != nil {
			return err
		}
		took, minTime := cpu[d.ownBenchmark].percentile(0), cpu[d.minBenchmark].percentile(0)
		w.table.addRow(row{
			figure: d.title,
			result: fmt.Sprintf(
				"%s of CPU for %.1f MB; by the clock %s", formatDuration(took), size/1e6,
				formatDuration(clock[d.ownBenchmark].percentile(0)),
			),
			compared: fmt.Sprintf(
				"%.1f times %s, %s", float64(took)/float64(minTime), d.minTitle, formatDuration(minTime),
			),
			target: formatTarget(took < d.goal, "< "+d.goal.String()),
		})
	}
	return nil
}

// benchLine matches a line of go test -bench: the name, nanoseconds per operation, megabytes a
// second, and nanoseconds of processor time.
var benchLine = regexp.MustCompile(`(?m)^(Benchmark\w+)\s+\d+\s+([0-9.]+) ns/op\s+([0-9.]+) MB/s\s+([0-9.]+) cpu-ns/op`)

func (d decodeBench) runBenchmarks(ctx context.Context) (cpu, clock map[string]durations, size float64, err error) {
	output, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench",
		"^("+d.ownBenchmark+"|"+d.minBenchmark+")$",
		"-cpu", "1", "-count", decodeRepeats, "-benchtime", decodeIterations, d.dir).CombinedOutput()
	if err != nil {
		return nil, nil, 0, fmt.Errorf("go test -bench in %s: %w\n%s", d.dir, err, output)
	}
	cpu, clock = map[string]durations{}, map[string]durations{}
	for _, m := range benchLine.FindAllStringSubmatch(string(output), -1) {
		var nanoseconds, speed, processor float64
		if _, err := fmt.Sscan(m[2]+" "+m[3]+" "+m[4], &nanoseconds, &speed, &processor); err != nil {
			return nil, nil, 0, fmt.Errorf("go test -bench in %s says %q", d.dir, m[0])
		}
		cpu[m[1]], clock[m[1]] = append(cpu[m[1]], time.Duration(processor)), append(
			clock[m[1]], time.Duration(nanoseconds),
		)
		size = nanoseconds * speed / 1e3 // nanoseconds times megabytes a second
	}
	if len(cpu[d.ownBenchmark]) == 0 || len(cpu[d.minBenchmark]) == 0 {
		return nil, nil, 0, fmt.Errorf("go test -bench in %s says nothing of both:\n%s", d.dir, output)
	}
	return cpu, clock, size, nil
}
