package main

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/textproto"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/deposit"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/webhooks/delivery"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/wire"
	"github.com/cofferpay/coffer/webhook"
)

const (
	deliveriesTarget = 10_000 // a second
	numberedTarget   = 15_000 // events a second that get their number and their delivery
	deliveriesStock  = 14_000 // events written ahead for each second that is measured
	calmRate         = 200    // events a second while the time from commit to receiver is measured
	calmLanes        = 8
)

// webhookEnv is a receiver that does as little as possible, with an organization's endpoint that
// leads to it and the deliveries in between, wired as in the service.
type webhookEnv struct {
	w          *benchEnv
	org        string
	listener   net.Listener
	sequencer  *event.Sequencer
	dispatcher *delivery.Dispatcher
	received   atomic.Int64
	arrived    atomic.Pointer[func(eventID string)]
	conns      sync.Map
}

// newWebhookEnv creates its own organization, so that figures do not share a feed.
func newWebhookEnv(ctx context.Context, w *benchEnv) (*webhookEnv, error) {
	made, _, err := org.Create(ctx, w.db, "webhooks")
	if err != nil {
		return nil, err
	}
	return newWebhookEnvOf(ctx, w, made.ID)
}

// newWebhookEnvOf gives an organization an endpoint.
func newWebhookEnvOf(ctx context.Context, w *benchEnv, orgID string) (h *webhookEnv, err error) {
	h = &webhookEnv{w: w, org: orgID}
	if h.listener, err = (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	go func() {
		for {
			conn, err := h.listener.Accept()
			if err != nil {
				return
			}
			h.conns.Store(conn, nil)
			go h.answerPosts(conn)
		}
	}()
	file := filepath.Join(w.dir, h.org)
	if err := seal.CreateKeyset(file); err != nil {
		return nil, err
	}
	sealed, err := seal.OpenKeyset(file)
	if err != nil {
		return nil, err
	}
	key, err := delivery.OpenOrCreateKey(file + ".key")
	if err != nil {
		return nil, err
	}
	parts := service.New(service.Config{Environment: webhook.Test, DevelopmentWebhooks: true}, service.Parts{
		DB: w.db, AttestKey: make([]byte, ed25519.PublicKeySize), // it attests no address
		Seal: sealed, WebhookKeys: []webhook.Key{key}, Log: slog.New(slog.DiscardHandler),
	})
	h.dispatcher, h.sequencer = parts.Dispatcher, parts.Sequencer
	return h, w.db.InOrg(ctx, h.org, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := parts.Endpoints.Create(
			ctx, tx, h.org, audit.APIKey(h.org),
			delivery.NewEndpoint{
				URL: "http://" + h.listener.Addr().String() + "/hooks", Events: []event.Type{event.EveryType},
			},
		)
		return err
	})
}

func (h *webhookEnv) closeConns() {
	_ = h.listener.Close()
	h.conns.Range(func(conn, _ any) bool { _ = conn.(net.Conn).Close(); return true })
}

// answerPosts answers 204 to every request.
func (h *webhookEnv) answerPosts(conn net.Conn) {
	defer conn.Close()
	reader := bufio.NewReader(conn)
	headerReader := textproto.NewReader(reader)
	for {
		if _, err := headerReader.ReadLine(); err != nil {
			return
		}
		length, id := 0, ""
		for {
			line, err := headerReader.ReadLine()
			if err != nil {
				return
			}
			if line == "" {
				break
			}
			if value, ok := cutFold(line, "content-length: "); ok {
				if length, err = strconv.Atoi(value); err != nil {
					return
				}
			} else if value, ok := cutFold(line, "webhook-id: "); ok {
				id = value
			}
		}
		if _, err := reader.Discard(length); err != nil {
			return
		}
		h.received.Add(1)
		if f := h.arrived.Load(); f != nil {
			(*f)(id)
		}
		if _, err := conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\n")); err != nil {
			return
		}
	}
}

// writeEvents writes events as Record does, in one statement; a body has about 1.5 kB, as a
// deposit's.
func (h *webhookEnv) writeEvents(ctx context.Context, n int) error {
	for i := 0; i < n; i += 10_000 {
		err := h.w.db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, `
				INSERT INTO events (event_id, org_id, type, resource_kind, resource_id, resource_seq, data, created_at)
				SELECT 'evt_' || right($1, 10) || lpad(n::text, 16, '0'), $1, 'CUSTOMER_DEPOSIT', 'deposit', 'dep_' || right($1, 10) || n, 1,
				       convert_to('{"note":"' || repeat('x', 1300) || '"}', 'UTF8'), $4
				FROM generate_series($2::int, $3::int) n`, h.org, i, min(i+10_000, n)-1, tx.Now)
			return err
		})
		if err != nil {
			return err
		}
	}
	return h.w.execAsSuperuser(ctx, local.Database, `ANALYZE`)
}

// benchWebhooks measures the way of an event from its commit to a receiver on loopback.
func benchWebhooks(ctx context.Context, w *benchEnv) error {
	if err := benchWebhookRate(ctx, w); err != nil {
		return err
	}
	return benchWebhookLatency(ctx, w)
}

// benchWebhookRate measures with more events waiting than can be sent.
func benchWebhookRate(ctx context.Context, w *benchEnv) error {
	h, err := newWebhookEnv(ctx, w)
	if err != nil {
		return err
	}
	defer h.closeConns()
	stock := int((w.duration + w.duration/warmUp).Seconds() * deliveriesStock)
	if err := h.writeEvents(ctx, stock); err != nil {
		return err
	}

	workBefore, began := w.readWork(), time.Now()
	for n := 1; n > 0; {
		if n, err = h.sequencer.Step(ctx); err != nil {
			return err
		}
	}
	took, spent := time.Since(began), w.readWork().subtract(workBefore)
	n := perSecond(stock, took)
	w.table.addRow(row{
		figure:   "Webhooks, events numbered, each with its delivery",
		result:   fmt.Sprintf("%.0f/s", n),
		compared: joinParts(formatRatio(n, w.table.tpcb8, "pgbench at 8 clients"), spent.formatEach(stock)),
		target:   formatTarget(n >= numberedTarget, "15,000/s"),
	})

	running, stop := context.WithCancel(ctx)
	result := make(chan error, 1)
	go func() { result <- h.dispatcher.Run(running) }()
	sleepContext(ctx, w.duration/warmUp)
	workBefore, began = w.readWork(), time.Now()
	first := h.received.Load()
	sleepContext(ctx, w.duration)
	sent := h.received.Load() - first
	took, spent = time.Since(began), w.readWork().subtract(workBefore)
	stop()
	if err := errors.Join(<-result, ctx.Err()); err != nil {
		return err
	}
	var attempts int64
	err = w.db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SELECT count(*) FROM delivery_attempts WHERE org_id = $1`, h.org).Scan(&attempts)
	})
	if err != nil {
		return err
	}
	if receivedCount := h.received.Load(); attempts != receivedCount {
		return fmt.Errorf("%d posts arrived and %d attempts are recorded", receivedCount, attempts)
	}
	n = perSecond(int(sent), took)
	w.table.addRow(row{
		figure: "Webhooks, signed and posted to a receiver that answers at once, every attempt recorded",
		result: fmt.Sprintf("%.0f/s", n),
		compared: joinParts(formatRatio(n, w.table.tpcb8, "pgbench at 8 clients"),
			formatRatio(n, w.table.bareWriter, "the bare writer"), spent.formatEach(int(sent))+", receiver included"),
		target: formatTarget(n >= deliveriesTarget, "10,000/s"),
	})
	return nil
}

// benchWebhookLatency measures events that wait behind no other.
func benchWebhookLatency(ctx context.Context, w *benchEnv) error {
	h, err := newWebhookEnv(ctx, w)
	if err != nil {
		return err
	}
	defer h.closeConns()
	var mu sync.Mutex
	committed, arrived := map[string]time.Time{}, map[string]time.Time{}
	arrive := func(id string) {
		arrivedAt := time.Now()
		mu.Lock()
		defer mu.Unlock()
		if _, repeated := arrived[id]; !repeated {
			arrived[id] = arrivedAt
		}
	}
	h.arrived.Store(&arrive)
	running, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan error, 2)
	go func() { results <- h.sequencer.Run(running) }()
	go func() { results <- h.dispatcher.Run(running) }()

	var lanes sync.WaitGroup
	errs := make([]error, calmLanes)
	for lane := range calmLanes {
		lanes.Go(func() {
			tick := time.NewTicker(time.Second * calmLanes / calmRate)
			defer tick.Stop()
			for end := time.Now().Add(w.duration); time.Now().Before(end); {
				select {
				case <-ctx.Done():
					errs[lane] = ctx.Err()
					return
				case <-tick.C:
				}
				var id string
				errs[lane] = w.db.InOrg(ctx, h.org, func(ctx context.Context, tx pg.Tx) (err error) {
					id, err = wire.NewRecorder().Record(ctx, tx, event.Event{
						OrgID: h.org, Type: event.CustomerDeposit, ResourceKind: "deposit",
						ResourceID: fmt.Sprint("dep_calm_", lane, "_", tx.Now.UnixMicro()),
						Data:       deposit.Deposit{ID: "dep_calm", Amount: money.Units(5000000)},
					})
					return err
				})
				if errs[lane] != nil {
					return
				}
				arrivedAt := time.Now()
				mu.Lock()
				committed[id] = arrivedAt
				mu.Unlock()
			}
		})
	}
	lanes.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for range 100 { // ten seconds for the last of them
		mu.Lock()
		missing := len(committed) - len(arrived)
		mu.Unlock()
		if missing == 0 {
			break
		}
		sleepContext(ctx, 100*time.Millisecond)
	}
	stop()
	if err := errors.Join(<-results, <-results); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	var took durations
	for id, committedAt := range committed {
		arrival, ok := arrived[id]
		if !ok {
			return fmt.Errorf("event %s was committed and never arrived", id)
		}
		took = append(took, max(0, arrival.Sub(committedAt))) // it may arrive before its writer sees the commit
	}
	w.table.addRow(row{
		figure: fmt.Sprintf("Webhooks, from the commit of an event to its arrival, %d events a second", calmRate),
		result: fmt.Sprintf(
			"p50 %s, p99 %s", formatDuration(took.percentile(0.5)), formatDuration(took.percentile(0.99)),
		),
	})
	return nil
}
