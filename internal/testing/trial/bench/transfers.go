package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/textproto"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

const (
	connections = 64
	warmUp      = 3 // the part of the time before the count begins
)

// runCallers lets n callers call as often as they can, and counts the answers after a warm-up. do
// gets the number of its caller.
func runCallers(
	ctx context.Context, n int, duration time.Duration, call func(ctx context.Context, caller int) error,
) (durations, float64, error) {
	var counting, finished atomic.Bool
	took := make([]durations, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for !finished.Load() && ctx.Err() == nil {
				began := time.Now()
				if errs[i] = call(ctx, i); errs[i] != nil {
					finished.Store(true)
					return
				}
				if counting.Load() {
					took[i] = append(took[i], time.Since(began))
				}
			}
		})
	}
	sleepContext(ctx, duration/warmUp)
	counting.Store(true)
	began := time.Now()
	sleepContext(ctx, duration)
	counting.Store(false)
	counted := time.Since(began)
	finished.Store(true)
	wg.Wait()
	var samples durations
	for _, s := range took {
		samples = append(samples, s...)
	}
	for _, err := range append(errs, ctx.Err()) {
		if err != nil {
			return nil, 0, err
		}
	}
	return samples, perSecond(len(samples), counted), nil
}

func sleepContext(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// httpCaller is a connection that posts with as little work as possible: the bench measures the service.
type httpCaller struct {
	conn         net.Conn
	reader       *bufio.Reader
	headerReader *textproto.Reader
	key          string
	n            int
	name         string
	made         *atomic.Int64 // by all callers
}

func (w *benchEnv) newCaller(ctx context.Context, name string) (*httpCaller, error) {
	return dialCaller(ctx, w.address, w.key, name, &w.made)
}

// dialCaller opens a connection to an interface for the organization of a key.
func dialCaller(
	ctx context.Context, address string, key seal.Secret, name string, made *atomic.Int64,
) (*httpCaller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	return &httpCaller{
		conn: conn, reader: reader, headerReader: textproto.NewReader(reader), key: key.Reveal(), name: name,
		made: made,
	}, nil
}

type party struct {
	CustomerID string `json:"customerId,omitempty"`
	Product    string `json:"product,omitempty"`
}

// nextKey returns an idempotency key that no caller used.
func (c *httpCaller) nextKey() string {
	c.n++
	return c.name + "-" + strconv.Itoa(c.n)
}

// postTransfer requests one transfer under its own key and reads the answer.
func (c *httpCaller) postTransfer(sender, recipient party) error {
	return c.post("/v1/transfers", map[string]any{
		"idempotencyKey": c.nextKey(), "mintId": usdc, "amount": "1", "from": sender, "to": recipient,
	})
}

// post makes one thing and reads the answer.
func (c *httpCaller) post(path string, content any) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(
		c.conn,
		"POST %s HTTP/1.1\r\nHost: bench\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		path, c.key, len(body), body,
	); err != nil {
		return err
	}
	status, err := c.headerReader.ReadLine()
	if err != nil {
		return err
	}
	length := -1
	for {
		line, err := c.headerReader.ReadLine()
		if err != nil {
			return err
		}
		if line == "" {
			break
		}
		if value, ok := cutFold(line, "content-length: "); ok {
			if length, err = strconv.Atoi(value); err != nil {
				return err
			}
		}
	}
	if length < 0 {
		return errors.New("an answer without a length")
	}
	answer, err := io.ReadAll(io.LimitReader(c.reader, int64(length)))
	if err != nil {
		return err
	}
	if len(status) < 12 || status[9] != '2' {
		return fmt.Errorf("%s: %s", status, answer)
	}
	c.made.Add(1)
	return nil
}

func cutFold(line, prefix string) (string, bool) {
	if len(line) < len(prefix) {
		return "", false
	}
	for i := range len(prefix) {
		if line[i]|0x20 != prefix[i]|0x20 {
			return "", false
		}
	}
	return line[len(prefix):], true
}

// newCallers opens connections to the service whose keys begin with name.
func (w *benchEnv) newCallers(ctx context.Context, n int, name string) ([]*httpCaller, func(), error) {
	return dialCallers(ctx, w.address, w.key, n, name, &w.made)
}

// dialCallers opens connections to an interface whose keys begin with name.
func dialCallers(
	ctx context.Context, address string, key seal.Secret, n int, name string, made *atomic.Int64,
) ([]*httpCaller, func(), error) {
	connected := make([]*httpCaller, n)
	hangUp := func() {
		for _, c := range connected {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}
	for i := range connected {
		var err error
		if connected[i], err = dialCaller(ctx, address, key, fmt.Sprint(name, "-", i), made); err != nil {
			hangUp()
			return nil, nil, err
		}
	}
	return connected, hangUp, nil
}

func randomCustomer() party { return party{CustomerID: fmt.Sprint("c", rand.IntN(customers))} }

// sample is what callers got in some turns.
type sample struct {
	took  durations
	rates []float64 // of each turn
	made  int
	spent work
}

// rate returns the median rate of the turns.
func (s sample) rate() float64 {
	sorted := slices.Sorted(slices.Values(s.rates))
	if len(sorted) == 0 {
		return 0
	}
	return sorted[len(sorted)/2]
}

func (s sample) formatRate() string {
	return fmt.Sprintf("%.0f/s, p50 %s, p99 %s", s.rate(), formatDuration(s.took.percentile(0.5)),
		formatDuration(s.took.percentile(0.99)))
}

// takeTurn lets callers post for one turn and adds what they got.
func (w *benchEnv) takeTurn(
	ctx context.Context, s *sample, callers []*httpCaller, made *atomic.Int64, isHot bool,
) error {
	before, count := w.readWork(), made.Load()
	took, n, err := runCallers(ctx, len(callers), w.duration/turns, func(_ context.Context, i int) error {
		sender, recipient := randomCustomer(), randomCustomer()
		for sender == recipient {
			recipient = randomCustomer()
		}
		if isHot {
			recipient = party{Product: "CUSTODIAL"}
		}
		return callers[i].postTransfer(sender, recipient)
	})
	if err != nil {
		return err
	}
	s.took, s.rates = append(s.took, took...), append(s.rates, n)
	s.made, s.spent = s.made+int(made.Load()-count), s.spent.add(w.readWork().subtract(before))
	return nil
}

const (
	transferCPUGoal  = 140 * time.Microsecond // here and in the database
	transferTailGoal = 20 * time.Millisecond  // p99
	transferWALGoal  = 2_500                  // bytes
)

// benchTransfers measures the whole way of a transfer, from many connections, in turns with the bare writer behind the
// same HTTP.
func benchTransfers(ctx context.Context, w *benchEnv) error {
	bare, err := w.openBareWriter(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		key, name      string
		hot, numbering bool
	}{
		{key: "spread", name: "spread over 10,000 customers"},
		{key: "hot", name: "all to one product", hot: true},
		{key: "numbered", name: "spread, while their events are numbered", numbering: true},
	} {
		served, limit, err := w.compareTransfers(ctx, bare, c.key, c.hot, c.numbering)
		if err != nil {
			return err
		}
		w.table.addRow(row{
			figure: "bare group-commit writer behind HTTP, 64 connections, in turns with the next row",
			result: limit.formatRate(), compared: limit.spent.formatEach(limit.made),
		})
		r := row{
			figure: "POST /transfers, 64 connections, " + c.name, result: served.formatRate(),
			compared: joinParts(formatRatio(served.rate(), limit.rate(), "the bare writer behind HTTP"),
				formatRatio(served.rate(), w.table.bareWriter, "the bare writer"),
				formatRatio(served.rate(), w.table.tpcb8, "pgbench at 8 clients"),
				served.spent.formatEach(served.made)),
		}
		switch {
		case c.numbering:
		case c.hot:
			r.compared = joinParts(r.compared, formatRatio(served.rate(), w.table.spread, "spread"))
			r.target = formatTarget(served.rate() >= 0.9*w.table.spread, "0.9 of spread")
		default:
			w.table.spread = served.rate()
			made := max(1, served.made)
			spent := (served.spent.process + served.spent.database) / time.Duration(made)
			r.target = joinParts(
				formatTarget(served.rate() >= limit.rate()/2, "0.5 of the bare writer behind HTTP"),
				formatTarget(spent <= transferCPUGoal, "140µs of CPU"),
				formatTarget(served.took.percentile(0.99) <= transferTailGoal, "p99 20 ms"),
				formatTarget(served.spent.wal/int64(made) <= transferWALGoal, "2.5 kB of WAL"),
			)
		}
		w.table.addRow(r)
	}
	return nil
}

// compareTransfers measures the service and the bare writer behind HTTP in turns.
func (w *benchEnv) compareTransfers(
	ctx context.Context, bare *bareWriter, name string, isHot, isNumbering bool,
) (served, limit sample, err error) {
	callers, hangUp, err := w.newCallers(ctx, connections, name)
	if err != nil {
		return served, limit, err
	}
	defer hangUp()
	var written atomic.Int64
	bareCallers, hangUpBare, err := dialCallers(ctx, bare.address, w.key, connections, name, &written)
	if err != nil {
		return served, limit, err
	}
	defer hangUpBare()
	for range turns {
		if err := w.takeTurn(ctx, &limit, bareCallers, &written, isHot); err != nil {
			return served, limit, err
		}
		stop := func() error { return nil }
		if isNumbering {
			stop = w.startSequencer(ctx)
		}
		if err := errors.Join(w.takeTurn(ctx, &served, callers, &w.made, isHot), stop()); err != nil {
			return served, limit, err
		}
	}
	return served, limit, nil
}

// startSequencer numbers events, as the service does all the time, until stop is called.
func (w *benchEnv) startSequencer(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	result := make(chan error, 1)
	s := &event.Sequencer{DB: w.db, Environment: webhook.Test, Listener: nopListener{}}
	go func() { result <- s.Run(ctx) }()
	return func() error {
		cancel()
		return <-result
	}
}

type nopListener struct{}

// QueueSequenced does nothing.
func (nopListener) QueueSequenced(context.Context, pg.Tx, *pgx.Batch, []event.Sequenced) error {
	return nil
}

// benchSingleCaller measures how long a transfer takes for a single caller.
func benchSingleCaller(ctx context.Context, w *benchEnv) error {
	callers, hangUp, err := w.newCallers(ctx, 1, "alone")
	if err != nil {
		return err
	}
	defer hangUp()
	workBefore, made := w.readWork(), w.made.Load()
	took, n, err := runCallers(ctx, 1, w.duration, func(context.Context, int) error {
		sender, recipient := randomCustomer(), randomCustomer()
		for sender == recipient {
			recipient = randomCustomer()
		}
		return callers[0].postTransfer(sender, recipient)
	})
	if err != nil {
		return err
	}
	spent := w.readWork().subtract(workBefore)
	median := took.percentile(0.5)
	r := row{
		figure: "POST /transfers, one caller alone",
		result: fmt.Sprintf(
			"p50 %s, p99 %s, %.0f/s", formatDuration(median), formatDuration(took.percentile(0.99)), n,
		),
		compared: spent.formatEach(int(w.made.Load() - made)),
	}
	if w.table.syncMedian > 0 {
		r.compared += fmt.Sprintf("; %.1f times the median fdatasync", median.Seconds()/w.table.syncMedian.Seconds())
		r.target = formatTarget(median <= 11*w.table.syncMedian, "at most 11 times the median fdatasync")
	}
	w.table.addRow(r)
	return nil
}
