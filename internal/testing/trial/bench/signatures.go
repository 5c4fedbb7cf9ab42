package main

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"time"
)

const (
	signatureGoal      = 300 * time.Microsecond
	verifyIterations   = "2000x"
	admitIterations    = "300x"
	signatureRepeats   = "5" // the quickest of them counts
	assertionPackage   = "./internal/signer/assertion"
	localSignerPackage = "./internal/signer/local"
)

// benchSignatures measures on one core what the signatures of people cost the signer. The packages measure it
// themselves, and each figure is compared with another one of the same run.
func benchSignatures(ctx context.Context, w *benchEnv) error {
	const verify, bare = "BenchmarkVerify/ES256", "BenchmarkBareVerify/ES256"
	took, err := runSignatureBenchmarks(ctx, assertionPackage, "^(BenchmarkVerify|BenchmarkBareVerify)$/^ES256$",
		verifyIterations, verify, bare)
	if err != nil {
		return err
	}
	w.table.addRow(row{
		figure: "verification of a passkey's signature in the signer, one core",
		result: formatDuration(took[verify].percentile(0)),
		compared: fmt.Sprintf("%.2f times one bare verification on P-256, %s",
			float64(took[verify].percentile(0))/float64(took[bare].percentile(0)),
			formatDuration(took[bare].percentile(0))),
		target: formatTarget(took[verify].percentile(0) < signatureGoal, "< 0.3 ms"),
	})
	const signed, plain = "BenchmarkAdmitWithTwoSignatures", "BenchmarkAdmitWithoutPeople"
	took, err = runSignatureBenchmarks(ctx, localSignerPackage, "^("+signed+"|"+plain+")$", admitIterations, signed,
		plain)
	if err != nil {
		return err
	}
	w.table.addRow(row{
		figure: "admission of a payment with two signatures of people, one core",
		result: formatDuration(took[signed].percentile(0)) + ", on disk",
		compared: fmt.Sprintf("%.2f times one without, %s",
			float64(took[signed].percentile(0))/float64(took[plain].percentile(0)),
			formatDuration(took[plain].percentile(0))),
	})
	return nil
}

// opLine matches a line of go test -bench: the name and nanoseconds per operation.
var opLine = regexp.MustCompile(`(?m)^(Benchmark[\w/]+)\s+\d+\s+([0-9.]+) ns/op`)

// runSignatureBenchmarks returns the times of an operation by the names of benchmarks, which it wants all.
func runSignatureBenchmarks(
	ctx context.Context, dir, pattern, iterations string, names ...string,
) (map[string]durations, error) {
	output, err := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", pattern, "-cpu", "1",
		"-count", signatureRepeats, "-benchtime", iterations, dir).CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("go test -bench in %s: %w\n%s", dir, err, output)
	}
	took := map[string]durations{}
	for _, m := range opLine.FindAllStringSubmatch(string(output), -1) {
		var nanoseconds float64
		if _, err := fmt.Sscan(m[2], &nanoseconds); err != nil {
			return nil, fmt.Errorf("go test -bench in %s says %q", dir, m[0])
		}
		took[m[1]] = append(took[m[1]], time.Duration(nanoseconds))
	}
	for _, name := range names {
		if len(took[name]) == 0 {
			return nil, fmt.Errorf("go test -bench in %s says nothing of %s:\n%s", dir, name, output)
		}
	}
	return took, nil
}
