package soak

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"
)

// counter counts by kind, from any goroutine.
type counter struct {
	mu sync.Mutex
	n  map[string]int
}

func (c *counter) addOne(kind string) { c.addCount(kind, 1) }

func (c *counter) addCount(kind string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n == nil {
		c.n = map[string]int{}
	}
	c.n[kind] += n
}

func (c *counter) cloneCounts() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.n)
}

// statistics counts what happened in a run, or in many.
type statistics struct {
	runs, steps, blocks           int
	deposits, credited            int // movements made, and those that counted in the end
	withdrawals, payments, failed int // accepted, paid on the chain, proven not to pay
	refused, replays              int // requests
	transfers                     int // between customers
	swaps                         int // accepted, of customers
	organizationSwaps             int // accepted
	depositSwaps, flexArrivals    int // accepted, and what was credited or decided of their deliveries
	checkouts, sold               int // made, and completed in the end
	refunds, paidBack             int // made by people, and paid, with those of policies
	payouts, endedSwaps           int // of organization swaps: paid out, and rejected or cancelled
	batchesMade, rowsPaid         int // batch payouts made, and payments of their rows
	batchesPaid, batchesUnpaid    int // that paid some of their rows, and none
	rowsRestored, batchesPaused   int // payments that a backup lacked, and batches that it paused
	blocked                       int // withdrawals that risk screening refused
	held, approved                int // deposits that were flagged, and of them credited in the end
	sentBack, sentElsewhere       int
	stuck                         int // returns that failed on the chain and were sent again
	events, posts                 int
	looks, audits, checks         int // of the oracle; full checks of the books; the single checks in those
	faults                        *counter
}

func newStatistics() statistics { return statistics{faults: &counter{}} }

func (f *statistics) addFigures(o statistics) {
	f.runs += o.runs
	f.steps += o.steps
	f.blocks += o.blocks
	f.deposits += o.deposits
	f.credited += o.credited
	f.withdrawals += o.withdrawals
	f.payments += o.payments
	f.failed += o.failed
	f.refused += o.refused
	f.transfers += o.transfers
	f.swaps += o.swaps
	f.organizationSwaps += o.organizationSwaps
	f.depositSwaps += o.depositSwaps
	f.flexArrivals += o.flexArrivals
	f.checkouts += o.checkouts
	f.sold += o.sold
	f.refunds += o.refunds
	f.paidBack += o.paidBack
	f.payouts += o.payouts
	f.endedSwaps += o.endedSwaps
	f.batchesMade += o.batchesMade
	f.rowsPaid += o.rowsPaid
	f.batchesPaid += o.batchesPaid
	f.batchesUnpaid += o.batchesUnpaid
	f.rowsRestored += o.rowsRestored
	f.batchesPaused += o.batchesPaused
	f.blocked += o.blocked
	f.held += o.held
	f.approved += o.approved
	f.sentBack += o.sentBack
	f.sentElsewhere += o.sentElsewhere
	f.stuck += o.stuck
	f.replays += o.replays
	f.events += o.events
	f.posts += o.posts
	f.looks += o.looks
	f.audits += o.audits
	f.checks += o.checks
	for k, n := range o.faults.cloneCounts() {
		f.faults.addCount(k, n)
	}
}

// writeTable writes the figures for a person.
func (f *statistics) writeTable(w io.Writer, took time.Duration) {
	rate := 0
	if ms := took.Milliseconds(); ms > 0 {
		rate = int(int64(f.runs) * 600_000 / ms)
	}
	fmt.Fprintf(w, "\n%d runs in %v: %d in ten minutes\n\n", f.runs, took.Round(time.Second), rate)
	for _, row := range []struct {
		name string
		n    int
	}{
		{"steps", f.steps},
		{"blocks mined", f.blocks},
		{"movements paid in", f.deposits},
		{"deposits credited", f.credited},
		{"deposits flagged", f.held},
		{"  approved", f.approved},
		{"  sent back", f.sentBack},
		{"  sent elsewhere", f.sentElsewhere},
		{"  returns that failed", f.stuck},
		{"withdrawals accepted", f.withdrawals},
		{"withdrawals blocked", f.blocked},
		{"requests refused", f.refused},
		{"transfers between customers", f.transfers},
		{"swaps accepted", f.swaps},
		{"organization swaps accepted", f.organizationSwaps},
		{"  paid to the whitelist", f.payouts},
		{"  rejected or cancelled", f.endedSwaps},
		{"batch payouts made", f.batchesMade},
		{"  that paid rows", f.batchesPaid},
		{"  that paid none", f.batchesUnpaid},
		{"  rows paid", f.rowsPaid},
		{"  payments that a restored backup lacked", f.rowsRestored},
		{"  paused by a restore", f.batchesPaused},
		{"deposit swaps accepted", f.depositSwaps},
		{"  arrivals for them", f.flexArrivals},
		{"checkouts made", f.checkouts},
		{"  completed", f.sold},
		{"refunds requested", f.refunds},
		{"  paid, with those of policies", f.paidBack},
		{"requests repeated", f.replays},
		{"payments on the chain", f.payments},
		{"withdrawals failed", f.failed},
		{"events", f.events},
		{"webhook posts", f.posts},
		{"checks of chain and rows", f.looks},
		{"full checks of the books", f.audits},
		{"  checks in them", f.checks},
	} {
		fmt.Fprintf(w, "  %-30s %10d\n", row.name, row.n)
	}
	fmt.Fprintf(w, "\n  faults\n")
	counts := f.faults.cloneCounts()
	sum := 0
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		fmt.Fprintf(w, "  %-30s %10d\n", kind, counts[kind])
		sum += counts[kind]
	}
	fmt.Fprintf(w, "  %-30s %10d\n", "in all", sum)
}
