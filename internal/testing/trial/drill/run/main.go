// Command run plays the restore drills and prints which passed: make drill.
//
// DRILL=backup,journal chooses.
package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/cofferpay/coffer/internal/testing/trial/drill"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	failed, err := run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "drill:", err)
	}
	if err != nil || failed > 0 {
		os.Exit(1)
	}
}

func run(ctx context.Context) (failed int, err error) {
	dir, err := os.MkdirTemp("", "coffer-drill-bin-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "coffer")
	fmt.Println("building coffer")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "github.com/cofferpay/coffer/cmd/coffer")
	if output, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("build: %w\n%s", err, output)
	}
	names := strings.FieldsFunc(os.Getenv("DRILL"), func(r rune) bool { return r == ',' || r == ' ' })
	return drill.Run(ctx, drill.Options{Program: program, Names: names, Output: os.Stdout})
}
