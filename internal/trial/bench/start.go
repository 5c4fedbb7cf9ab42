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
	"github.com/cofferpay/coffer/internal/trial/roles"
)

const (
	starts     = 9
	startGoal  = time.Second
	startLook  = 2 * time.Millisecond
	startWorst = 60 * time.Second
)

// start takes the time from the program's first instruction to its first "ready":
// with a database that is there, one chain, and every role in one process.
func start(ctx context.Context, w *world) (err error) {
	program := filepath.Join(w.dir, "coffer")
	if out, err := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", program, "github.com/cofferpay/coffer/cmd/coffer").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	town, err := localworld.Start(ctx, localworld.Options{Dir: w.dir, Bare: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, town.Stop()) }()
	conf, err := app.ReadConfig(town.Info.Config)
	if err != nil {
		return err
	}
	var took spent
	for range starts {
		one, err := startOnce(ctx, program, town.Info.Config, conf.Ops.Listen)
		if err != nil {
			return err
		}
		took = append(took, one)
	}
	median := took.part(0.5)
	w.table.add(row{
		figure: "cold start of `coffer serve` to ready", here: "median " + short(median) + ", slowest " + short(took.part(1)),
		target: reached(median < startGoal, "< 1 s"),
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
			return 0, fmt.Errorf("the service is not ready: %w\n%s", ctx.Err(), p.Log())
		case <-time.After(startLook):
		}
	}
}
