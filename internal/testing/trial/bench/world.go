package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/ledger/ledgertest"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/webhook"
)

const (
	usdc          = 1
	customers     = 10_000
	customerUnits = 1_000_000_000_000 // units that each customer has
)

// benchEnv is its own PostgreSQL with the service in front of it.
type benchEnv struct {
	duration time.Duration // of each figure
	table    table
	machine  string
	dir      string
	cluster  *local.Cluster
	db       *pg.DB
	org      string
	key      seal.Secret
	server   *http.Server
	address  string
	made     atomic.Int64 // transfers, by all callers
	bare     *bareWriter  // once a figure needs it
	meter    *pgx.Conn    // reads the position of the write-ahead log; once a figure needs it
}

func newBenchEnv(ctx context.Context, duration time.Duration, settings map[string]string) (w *benchEnv, err error) {
	w = &benchEnv{duration: duration}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.closeAll())
		}
	}()
	printProgress("start PostgreSQL")
	if w.dir, err = os.MkdirTemp("", "coffer-bench-"); err != nil {
		return w, err
	}
	if err := os.Chmod(w.dir, 0o755); err != nil { // the server's user has to pass through
		return w, err
	}
	if w.cluster, err = local.Start(ctx, local.Options{
		Dir: filepath.Join(w.dir, "postgres"), Ephemeral: true, TCP: true, Settings: settings,
	}); err != nil {
		return w, err
	}
	conf := pg.Config{URL: w.cluster.URL(local.Database), OwnerURL: w.cluster.OwnerURL(local.Database)}
	if err := pg.Migrate(ctx, conf); err != nil {
		return w, err
	}
	if w.db, err = pg.Open(ctx, conf, time.Now); err != nil {
		return w, err
	}
	if err := w.createCustomers(ctx); err != nil {
		return w, err
	}
	if err := w.execAsSuperuser(ctx, local.Database, `VACUUM ANALYZE`); err != nil {
		return w, err
	}
	var version string
	err = w.db.Snapshot(ctx, func(ctx context.Context, tx pg.Tx) error {
		return tx.QueryRow(ctx, `SHOW server_version`).Scan(&version)
	})
	if err != nil {
		return w, err
	}
	w.machine = thisMachine(version, settings)
	return w, w.startAPI(ctx)
}

// execAsSuperuser runs a statement as the superuser, outside a transaction.
func (w *benchEnv) execAsSuperuser(ctx context.Context, database, sql string) error {
	conn, err := pgx.Connect(ctx, w.cluster.SuperURL(database))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// createCustomers creates an organization whose customers have money.
func (w *benchEnv) createCustomers(ctx context.Context) error {
	err := mint.Sync(ctx, w.db, []mint.Mint{{
		ID: usdc, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0x1", Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}})
	if err != nil {
		return err
	}
	made, key, err := org.Create(ctx, w.db, "bench")
	if err != nil {
		return err
	}
	w.org, w.key = made.ID, key
	return w.db.InOrg(ctx, w.org, func(ctx context.Context, tx pg.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO customers (org_id, customer_id, created_at, updated_at)
			SELECT $1, 'c' || n, $3, $3 FROM generate_series(0, $2 - 1) n`, w.org, customers, tx.Now)
		if err != nil {
			return err
		}
		var postings []ledger.Posting
		custody := ledger.Account{OrgID: w.org, MintID: usdc, Kind: ledger.Custody}
		for i := range customers {
			postings = append(postings, ledger.Posting{
				Cause: ledger.Cause{Kind: ledger.Deposit, ID: fmt.Sprint("dep_", i)},
				Legs: []ledger.Leg{{
					Debit: custody,
					Credit: ledger.Account{
						OrgID: w.org, MintID: usdc, Kind: ledger.Customer, Subject: fmt.Sprint("c", i),
					},
					Amount: money.Units(customerUnits),
				}},
			})
		}
		return ledgertest.PostWithCauses(ctx, tx, postings...) // the books refuse deposits that do not exist
	})
}

// startAPI serves the whole interface from its own listener.
func (w *benchEnv) startAPI(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	w.address = l.Addr().String()
	parts := service.New(service.Config{Environment: webhook.Test}, service.Parts{
		DB: w.db, AttestKey: make([]byte, ed25519.PublicKeySize), Chains: chain.Chains{}, // it attests no address
		Log: slog.New(slog.DiscardHandler),
	})
	w.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: api.New(api.Config{
		DB: w.db, Chains: parts.Chains, Transfers: parts.Transfers,
		CursorKey: []byte("the key of this run's cursors"),
		BaseURL:   "http://" + w.address + "/v1", Log: slog.New(slog.DiscardHandler),
	})}
	go func() {
		if err := w.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			printProgress("the listener ended: %v", err)
		}
	}()
	return nil
}

func (w *benchEnv) closeAll() error {
	var errs []error
	if w.meter != nil {
		errs = append(errs, w.meter.Close(context.Background()))
	}
	if w.bare != nil {
		errs = append(errs, w.bare.close())
	}
	if w.server != nil {
		errs = append(errs, w.server.Close())
	}
	if w.db != nil {
		w.db.Close()
	}
	if w.cluster != nil {
		errs = append(errs, w.cluster.Stop())
	}
	if w.dir != "" {
		errs = append(errs, os.RemoveAll(w.dir))
	}
	return errors.Join(errs...)
}
