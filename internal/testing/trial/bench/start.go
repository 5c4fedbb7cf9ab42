package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/testing/trial/roles"
)

const (
	starts            = 9
	startGoal         = time.Second
	startPollInterval = 2 * time.Millisecond
	startWorst        = 60 * time.Second
)

// benchStart measures the time from the program's first instruction to its first "ready": with an
// existing database, one chain, and every role in one process.
func benchStart(ctx context.Context, w *benchEnv) (err error) {
	program := filepath.Join(w.dir, "coffer")
	if output, err := exec.CommandContext(
		ctx, "go", "build", "-trimpath", "-o", program, "github.com/cofferpay/coffer/cmd/coffer",
	).CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, output)
	}
	localWorld, err := localworld.Start(ctx, localworld.Options{
		Dir: w.dir, WithoutService: true, WithoutSwaps: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, localWorld.Stop()) }()
	conf, err := app.ReadConfig(localWorld.Info.Config)
	if err != nil {
		return err
	}
	var took durations
	for range starts {
		duration, err := startOnce(ctx, program, localWorld.Info.Config, conf.Ops.Listen)
		if err != nil {
			return err
		}
		took = append(took, duration)
	}
	median := took.percentile(0.5)
	w.table.addRow(row{
		figure: "cold start of `coffer serve` to ready",
		result: "median " + formatDuration(median) + ", slowest " + formatDuration(took.percentile(1)),
		target: formatTarget(median < startGoal, "< 1 s"),
	})
	return nil
}

func startOnce(ctx context.Context, program, file, ops string) (took time.Duration, err error) {
	began := time.Now()
	p, err := roles.Start(program, "coffer", "serve", "--config", file)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	ctx, cancel := context.WithTimeout(ctx, startWorst)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ops+"/readyz", nil)
		if err != nil {
			return 0, err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return time.Since(began), nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("the service is not ready: %w\n%s", ctx.Err(), p.LogText())
		case <-time.After(startPollInterval):
		}
	}
}
