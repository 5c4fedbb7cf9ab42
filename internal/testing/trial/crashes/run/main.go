// Command run plays the failpoints and prints the table: make crash.
//
// POINTS=W11,W14, FAULTS=kill,cut and CHAINS=solana choose, WORLDS says how many at once.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/testing/trial/crashes"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "crash trial:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(ctx context.Context) (ok bool, err error) {
	dir, err := os.MkdirTemp("", "coffer-crash-bin-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	opts := crashes.Options{Program: filepath.Join(dir, "coffer"), Points: splitVariable("POINTS"), Output: os.Stdout}
	for _, f := range splitVariable("FAULTS") {
		opts.Faults = append(opts.Faults, crashes.Fault(f))
	}
	for _, name := range splitVariable("CHAINS") {
		opts.Chains = append(opts.Chains, chain.Name(strings.ToUpper(name)))
	}
	if n := os.Getenv("WORLDS"); n != "" {
		if opts.Worlds, err = strconv.Atoi(n); err != nil {
			return false, fmt.Errorf("WORLDS: %w", err)
		}
	}
	fmt.Println("building coffer with its crash points armed")
	build := exec.CommandContext(
		ctx, "go", "build", "-tags", "crash", "-o", opts.Program, "github.com/cofferpay/coffer/cmd/coffer",
	)
	if output, err := build.CombinedOutput(); err != nil {
		return false, fmt.Errorf("build: %w\n%s", err, output)
	}
	report, err := crashes.Run(ctx, opts)
	fmt.Println(report)
	if err == nil {
		fmt.Printf("trial: %d cells: %d survived, %d failed\n", report.Cells, report.Cells-report.Failed, report.Failed)
	}
	return report.Failed == 0, err
}

func splitVariable(variable string) []string {
	return strings.FieldsFunc(os.Getenv(variable), func(r rune) bool { return r == ',' || r == ' ' })
}
