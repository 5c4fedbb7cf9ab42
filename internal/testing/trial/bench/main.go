// Command bench measures the service on this machine and the machine's own limits in the same
// minutes, and prints a Markdown table: make bench.
//
// Absolute figures do not carry to another machine, ratios do. Nothing here is a test and nothing
// is asserted; the row of a figure that misses its target says so.
//
// Environment variables choose what runs:
//   - ONLY=transfers,alone: the figures
//   - FOR=15s: how long each figure is taken
//   - WATCHED: how many addresses are watched, if not ten million
//   - BENCH_CUSTOMERS: with how many customers the reads and the pages are taken, if not a million
//   - BENCH_ROWS: how many rows the table that has grown has, if not a million
//   - PROFILE: a file for the processor profile of the whole run
//   - SETTINGS=shared_buffers=1GB,wal_compression=on: settings of the server, which has its defaults otherwise
//   - BENCH_CHECKOUTS: with how many checkouts the page of a payer is taken, if not a million
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

// figure is one thing that is measured. The table shows a figure without measure as missing.
type figure struct {
	name    string // for ONLY
	title   string
	measure func(ctx context.Context, w *benchEnv) error // adds rows to w.table
}

// figures are in the order in which they are taken: the limits of the machine first, because the
// others are compared with them.
var figures = []figure{
	{"disk", "fdatasync of one page", benchDisk},
	{"pgbench", "pgbench, tpcb-like", benchPgbench},
	{"bare", "a bare group-commit writer", benchBareWriter},
	{"transfers", "POST /transfers from 64 connections", benchTransfers},
	{"alone", "POST /transfers, one caller alone", benchSingleCaller},
	{"deposits", "deposits from block to committed credit", benchDeposits},
	{"reads", "every GET with a thousand and a million customers", reads},
	{"pages", "every page with a million deposits, a thousand streams, a change on the screen", benchPages},
	{"matching", "a block's recipients against ten million addresses", benchMatching},
	{"decode", "blocks of Bitcoin and Solana on one core", benchDecoding},
	{"sweeps", "what a sweep costs on Solana and Ethereum, and what is saved on Bitcoin", benchSweeps},
	{"swaps", "a swap: quote, creation, delivery, signed quote", benchSwaps},
	{"collecting", "what collecting the payment of a checkout costs beside its price", benchCollecting},
	{"checkouts", "checkouts: creation, options, pages with a million of them, live pages", benchCheckouts},
	{"payouts", "batch payouts: 5,000 rows read, checked and expanded, and what payments cost together", benchPayouts},
	{"billing", "an invoice of a hundred thousand lines, its PDF and its table", benchBilling},
	{"webhooks", "webhooks to a fast local receiver", benchWebhooks},
	{"signatures", "what signatures of people cost the signer", benchSignatures},
	{"withdrawals", "POST /withdraw and POST /deposit from 64 connections", benchWithdrawals},
	{"life", "transfers with number, seal and delivery", benchLife},
	{"broadcast", "withdrawals from accepted to broadcast", benchBroadcast},
	{"growing", "another posting in a table that has grown", benchGrowing},
	{"start", "cold start of coffer serve", benchStart},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	duration := 15 * time.Second
	if s := os.Getenv("FOR"); s != "" {
		if duration, err = time.ParseDuration(s); err != nil || duration <= 0 {
			return fmt.Errorf("FOR: %q is no time such as 15s", s)
		}
	}
	names := strings.FieldsFunc(os.Getenv("ONLY"), func(r rune) bool { return r == ',' || r == ' ' })
	for _, name := range names {
		if !slices.ContainsFunc(figures, func(f figure) bool { return f.name == name }) {
			return fmt.Errorf("ONLY: there is no figure %q", name)
		}
	}
	if path := os.Getenv("PROFILE"); path != "" {
		f, err := os.Create(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	settings, err := readSettings(os.Getenv("SETTINGS"))
	if err != nil {
		return err
	}
	began := time.Now()
	w, err := newBenchEnv(ctx, duration, settings)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.closeAll()) }()
	for i, f := range figures {
		if len(names) > 0 && !slices.Contains(names, f.name) {
			continue
		}
		printProgress("%s  %d/%d %s", time.Since(began).Round(time.Second), i+1, len(figures), f.title)
		if f.measure == nil {
			w.table.addMissing(f.title)
			continue
		}
		if err := f.measure(ctx, w); err != nil {
			return fmt.Errorf("%s: %w", f.title, err)
		}
	}
	printProgress("%s  done", time.Since(began).Round(time.Second))
	fmt.Print(w.table.formatMarkdown(w.machine))
	return nil
}

// readSettings reads settings of the server, separated by commas.
func readSettings(text string) (map[string]string, error) {
	settings := map[string]string{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		name, value, ok := strings.Cut(part, "=")
		if !ok {
			return nil, fmt.Errorf("SETTINGS: %q is no setting such as wal_compression=on", part)
		}
		settings[name] = value
	}
	return settings, nil
}

func printProgress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
