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
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/webhook"
)

const (
	connections = 64
	warmUp      = 3 // a part of the time before anything counts
)

// crowd lets n callers call as often as they can, and counts what was answered
// after a warm-up. do gets the number of its caller.
func crowd(ctx context.Context, n int, long time.Duration, do func(ctx context.Context, caller int) error) (spent, float64, error) {
	var counting, over atomic.Bool
	took := make([]spent, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				began := time.Now()
				if errs[i] = do(ctx, i); errs[i] != nil {
					over.Store(true)
					return
				}
				if counting.Load() {
					took[i] = append(took[i], time.Since(began))
				}
			}
		})
	}
	wait(ctx, long/warmUp)
	counting.Store(true)
	began := time.Now()
	wait(ctx, long)
	counting.Store(false)
	counted := time.Since(began)
	over.Store(true)
	wg.Wait()
	var all spent
	for _, s := range took {
		all = append(all, s...)
	}
	for _, err := range append(errs, ctx.Err()) {
		if err != nil {
			return nil, 0, err
		}
	}
	return all, perSecond(len(all), counted), nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// caller is a connection that posts transfers, with as little work as one can
// have: what is measured is the service.
type caller struct {
	conn  net.Conn
	in    *bufio.Reader
	heads *textproto.Reader
	key   string
	n     int
	name  string
	made  *atomic.Int64 // by all callers
}

func (w *world) caller(ctx context.Context, name string) (*caller, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", w.address)
	if err != nil {
		return nil, err
	}
	in := bufio.NewReader(conn)
	return &caller{conn: conn, in: in, heads: textproto.NewReader(in), key: w.key.Reveal(), name: name, made: &w.made}, nil
}

type party struct {
	CustomerID string `json:"customerId,omitempty"`
	Product    string `json:"product,omitempty"`
}

// post asks for one transfer under a key of its own and reads the answer.
func (c *caller) post(from, to party) error {
	c.n++
	body, err := json.Marshal(map[string]any{
		"idempotencyKey": c.name + "-" + strconv.Itoa(c.n), "mintId": usdc, "amount": "1", "from": from, "to": to,
	})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(c.conn, "POST /v1/transfers HTTP/1.1\r\nHost: bench\r\nX-Api-Key: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.key, len(body), body); err != nil {
		return err
	}
	status, err := c.heads.ReadLine()
	if err != nil {
		return err
	}
	length := -1
	for {
		line, err := c.heads.ReadLine()
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
	answer, err := io.ReadAll(io.LimitReader(c.in, int64(length)))
	if err != nil {
		return err
	}
	if len(status) < 12 || status[9:12] != "201" {
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

// callers opens connections whose keys begin with name.
func (w *world) callers(ctx context.Context, n int, name string) ([]*caller, func(), error) {
	all := make([]*caller, n)
	hangUp := func() {
		for _, c := range all {
			if c != nil {
				_ = c.conn.Close()
			}
		}
	}
	for i := range all {
		var err error
		if all[i], err = w.caller(ctx, fmt.Sprint(name, "-", i)); err != nil {
			hangUp()
			return nil, nil, err
		}
	}
	return all, hangUp, nil
}

func someone() party { return party{CustomerID: fmt.Sprint("c", rand.IntN(customers))} }

// transfers is the whole way of a transfer, from many connections.
func transfers(ctx context.Context, w *world) error {
	for _, c := range []struct {
		key, name      string
		hot, numbering bool
	}{
		{key: "spread", name: "spread over 10,000 customers"},
		{key: "hot", name: "all to one product", hot: true},
		{key: "numbered", name: "spread, while their events are numbered", numbering: true},
	} {
		callers, hangUp, err := w.callers(ctx, connections, c.key)
		if err != nil {
			return err
		}
		stop := func() error { return nil }
		if c.numbering {
			stop = w.sequence(ctx)
		}
		before, made := w.spentBy(), callers[0].made.Load()
		took, n, err := crowd(ctx, connections, w.long, func(_ context.Context, i int) error {
			from, to := someone(), someone()
			for from == to {
				to = someone()
			}
			if c.hot {
				to = party{Product: "CUSTODIAL"}
			}
			return callers[i].post(from, to)
		})
		work := w.spentBy().since(before)
		each := time.Duration(max(1, callers[0].made.Load()-made))
		hangUp()
		if err = errors.Join(err, stop()); err != nil {
			return err
		}
		r := row{
			figure: "POST /transfers, 64 connections, " + c.name,
			here:   fmt.Sprintf("%.0f/s, p50 %s, p99 %s", n, short(took.part(0.5)), short(took.part(0.99))),
			compared: fmt.Sprintf("%s; %s; CPU each: %s here, %s in the database", times(n, w.table.tpcb8, "pgbench at 8 clients"), times(n, w.table.bare, "the bare writer"),
				short(work.ours/each), short(work.database/each)),
		}
		switch {
		case c.numbering:
		case c.hot:
			r.compared += "; " + times(n, w.table.spread, "spread")
			r.target = reached(n >= 0.9*w.table.spread, "0.9 of spread")
		default:
			w.table.spread = n
			r.target = reached(n >= 0.7*w.table.tpcb8 && took.part(0.99) < 25*time.Millisecond, "0.7 of pgbench, p99 under 25 ms")
		}
		w.table.add(r)
	}
	return nil
}

// sequence numbers events, as the service does all the time, until it is stopped.
func (w *world) sequence(ctx context.Context) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	s := &event.Sequencer{DB: w.db, Environment: webhook.Test, Listener: nobody{}}
	go func() { done <- s.Run(ctx) }()
	return func() error {
		cancel()
		return <-done
	}
}

type nobody struct{}

// Sequenced tells nobody.
func (nobody) Sequenced(context.Context, pg.Tx, []event.Sequenced) error { return nil }

// alone is one caller with nobody beside it: how long a transfer takes.
func alone(ctx context.Context, w *world) error {
	callers, hangUp, err := w.callers(ctx, 1, "alone")
	if err != nil {
		return err
	}
	defer hangUp()
	before, made := w.spentBy(), w.made.Load()
	took, n, err := crowd(ctx, 1, w.long, func(context.Context, int) error {
		from, to := someone(), someone()
		for from == to {
			to = someone()
		}
		return callers[0].post(from, to)
	})
	if err != nil {
		return err
	}
	work := w.spentBy().since(before)
	each := time.Duration(max(1, w.made.Load()-made))
	median := took.part(0.5)
	r := row{
		figure:   "POST /transfers, one caller alone",
		here:     fmt.Sprintf("p50 %s, p99 %s, %.0f/s", short(median), short(took.part(0.99)), n),
		compared: fmt.Sprintf("CPU each: %s here, %s in the database", short(work.ours/each), short(work.database/each)),
	}
	if w.table.syncMedian > 0 {
		r.compared += fmt.Sprintf("; %.1f times the median fdatasync", median.Seconds()/w.table.syncMedian.Seconds())
		r.target = reached(median <= 11*w.table.syncMedian, "at most 11 times the median fdatasync")
	}
	w.table.add(r)
	return nil
}
