package main

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/http/operatorapi"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

const (
	readersFew     = 1_000
	readersDefault = 1_000_000
	readsWarm      = 12 // requests before those that count: the server has cached its plans by then
	readsCounted   = 31
	seedChunk      = 50_000
	// activeMax customers have a history. Those beyond have an address and balances, so that ten
	// million fit on a disk of 60 GB.
	activeMax = 3_000_000
)

// reads measures the time that the database spends on each GET, with a thousand customers and with
// a million, or with BENCH_CUSTOMERS. It is the time in which statements are planned and run,
// without the time on the network.
func reads(ctx context.Context, w *benchEnv) (err error) {
	many, err := countOfEnv("BENCH_CUSTOMERS", readersDefault)
	if err != nil {
		return err
	}
	var took [2]map[string]time.Duration
	var names []string
	var load [2]string
	for i, customers := range []int{readersFew, many} {
		began := time.Now()
		if names, took[i], load[i], err = w.readAll(ctx, customers); err != nil {
			return err
		}
		printProgress("      %d customers: %s, seeding included", customers, time.Since(began).Round(time.Second))
	}
	for _, name := range names {
		small, large := took[0][name], took[1][name]
		w.table.addRow(row{
			figure: fmt.Sprintf("%s, database time with %d and with %d customers", name, readersFew, many),
			result: fmt.Sprintf("%s and %s", formatDuration(small), formatDuration(large)),
			compared: fmt.Sprintf("%.2f times; %.1f times a look-up of one customer by its key, %s",
				float64(large)/float64(small), float64(large)/float64(took[1][lookUp]),
				formatDuration(took[1][lookUp])),
			target: formatTarget(
				large <= small*3/2 || large <= small+100*time.Microsecond, "at most 1.5 times, or 0.1 ms more",
			),
		})
	}
	w.table.addRow(row{
		figure: fmt.Sprintf(
			"GET /balances, %d connections, with %d and with %d customers", connections, readersFew, many,
		),
		result: strings.Join(load[:], " and "), compared: "every answer is 200",
	})
	return nil
}

const lookUp = "a look-up by key"

// readBalancesAtOnce reads the balances of the organization over many connections. Any answer but
// 200 is an error.
func (w *benchEnv) readBalancesAtOnce(ctx context.Context, url, key string) (string, error) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	took, n, err := runCallers(ctx, connections, w.duration, func(ctx context.Context, _ int) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/v1/balances", nil)
		if err != nil {
			return err
		}
		r.Header.Set("x-api-key", key)
		_, err = answered(client, r)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("GET /balances over %d connections: %w", connections, err)
	}
	return fmt.Sprintf(
		"%.0f/s, p50 %s, p99 %s", n, formatDuration(took.percentile(0.5)), formatDuration(took.percentile(0.99)),
	), nil
}

// readAll sends every GET with so many customers. The names are in the order of the documents.
func (w *benchEnv) readAll(
	ctx context.Context, customers int,
) (names []string, took map[string]time.Duration, load string, err error) {
	crowd, err := w.newCrowd(ctx, fmt.Sprint("readers", customers), customers)
	if err != nil {
		return nil, nil, "", err
	}
	defer func() { err = errors.Join(err, crowd.closeAll(ctx)) }()
	db, conn, active := crowd.db, crowd.super, min(customers, activeMax)
	_, operatorKey, err := operator.CreateKey(ctx, db, audit.Operator("bench"), "ann")
	if err != nil {
		return nil, nil, "", err
	}
	if _, err := conn.Exec(ctx, `CREATE EXTENSION pg_stat_statements`); err != nil {
		return nil, nil, "", err
	}
	log := slog.New(slog.DiscardHandler)
	parts := service.New(service.Config{}, service.Parts{
		DB: db, AttestKey: make([]byte, ed25519.PublicKeySize), // it attests no address
		Chains: chain.Chains{}, Log: log,
	})
	took = map[string]time.Duration{}
	measure := func(act func() error) (time.Duration, error) {
		spentBy := func() (ms float64, err error) {
			err = conn.QueryRow(ctx, `
				SELECT coalesce(sum(s.total_plan_time + s.total_exec_time), 0) FROM pg_stat_statements(false) s JOIN pg_roles r ON r.oid = s.userid
				WHERE r.rolname <> 'postgres'`).Scan(&ms)
			return ms, err
		}
		var all durations
		for n := range readsWarm + readsCounted {
			before, err := spentBy()
			if err != nil {
				return 0, err
			}
			if err := act(); err != nil {
				return 0, err
			}
			after, err := spentBy()
			if err != nil {
				return 0, err
			}
			if n >= readsWarm {
				all = append(all, time.Duration((after-before)*float64(time.Millisecond)))
			}
		}
		return all.percentile(0.5), nil
	}
	n := active / 2
	took[lookUp], err = measure(func() error {
		return db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
			var at time.Time
			return tx.QueryRow(
				ctx, `SELECT created_at FROM customers WHERE org_id = $1 AND customer_id = $2`, crowd.orgID,
				population.Customer(n),
			).Scan(&at)
		})
	})
	if err != nil {
		return nil, nil, "", err
	}
	values := map[string]string{
		"mintId": "1", "depositId": population.ID("dep", n), "withdrawalId": population.ID("wd", n),
		"transferId": population.ID("tr", n),
		"customerId": population.Customer(n), "endpointId": population.Endpoint, "organizationId": crowd.orgID,
	}
	for _, side := range []struct {
		name, header, key string
		handler           http.Handler
	}{
		{"", "x-api-key", crowd.key.Reveal(), api.New(api.Config{
			DB: db, Chains: parts.Chains, Withdrawals: parts.Withdrawals, Transfers: parts.Transfers,
			CursorKey: []byte("the key of this run's cursors"), BaseURL: "http://127.0.0.1/v1", Log: log,
		})},
		{"operator: ", "x-operator-key", operatorKey.Reveal(), operatorapi.New(operatorapi.Config{
			DB: db, Chains: parts.Chains, Withdrawals: parts.Withdrawals, Whitelist: parts.Whitelist,
			AllowedPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
			CursorKey:       []byte("the key of this run's cursors"), BaseURL: "http://127.0.0.1/v1", LocalRisk: true,
			Log: log,
		})},
	} {
		server := httptest.NewServer(side.handler)
		defer server.Close()
		get := func(path string) ([]byte, error) {
			r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/v1"+path, nil)
			if err != nil {
				return nil, err
			}
			r.Header.Set(side.header, side.key)
			return answered(http.DefaultClient, r)
		}
		text, err := get("/openapi.json")
		if err != nil {
			return nil, nil, "", err
		}
		paths, err := pathsOf(text, values)
		if err != nil {
			return nil, nil, "", err
		}
		for _, p := range paths {
			name := side.name + "GET " + p.name
			if took[name], err = measure(func() error { _, err := get(p.path); return err }); err != nil {
				return nil, nil, "", fmt.Errorf("%s: %w", name, err)
			}
			names = append(names, name)
		}
		if side.name == "" {
			if load, err = w.readBalancesAtOnce(ctx, server.URL, side.key); err != nil {
				return nil, nil, "", err
			}
		}
	}
	return names, took, load, nil
}

// unread lists reads that touch rows which a bench does not have, or none.
var unread = []string{
	"/webhook-jobs/{jobId}", "/change-requests/{changeRequestId}", "/local-risk/{address}", "/openapi.json",
	"/.well-known/webhook-keys",
}

type namedPath struct{ name, path string }

// answered returns the body of a 200 response.
func answered(client *http.Client, r *http.Request) ([]byte, error) {
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("got %s: %.300s", resp.Status, body)
	}
	return body, err
}

// pathsOf returns the reads of a document, and once more those of one customer with that filter.
func pathsOf(document []byte, values map[string]string) (paths []namedPath, err error) {
	var d struct {
		Paths map[string]struct {
			Get *struct {
				Parameters []struct{ Name, In string }
			}
		}
	}
	if err := json.Unmarshal(document, &d); err != nil {
		return nil, err
	}
	var templates []string
	for template, p := range d.Paths {
		if p.Get != nil && !slices.Contains(unread, template) {
			templates = append(templates, template)
		}
	}
	slices.Sort(templates)
	for _, template := range templates {
		path := regexp.MustCompile(`\{(\w+)\}`).ReplaceAllStringFunc(
			template, func(place string) string { return values[strings.Trim(place, "{}")] },
		)
		if strings.Contains(path, "//") || strings.HasSuffix(path, "/") {
			return nil, fmt.Errorf("GET %s has no value to be read with", template)
		}
		paths = append(paths, namedPath{template, path})
		for _, p := range d.Paths[template].Get.Parameters {
			if p.Name == "customerId" && p.In == "query" {
				paths = append(paths, namedPath{
					template + "?customerId=", path + "?customerId=" + values["customerId"],
				})
			}
		}
	}
	return paths, nil
}
