// Coffer is custodial payments that a company runs itself: see coffer --help.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cofferpay/coffer/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
