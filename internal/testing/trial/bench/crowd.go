package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

// crowd is a separate database with the customers of an organization and their history.
type crowd struct {
	dir     string
	cluster *local.Cluster
	db      *pg.DB
	super   *pgx.Conn
	orgID   string
	key     seal.Secret // of the organization
}

// countOfEnv returns the number of customers that the environment asks for.
func countOfEnv(name string, otherwise int) (int, error) {
	text := os.Getenv(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= readersFew {
		return 0, fmt.Errorf("%s: %q is no number of customers above %d", name, text, readersFew)
	}
	return n, nil
}

// newCrowd starts a server of its own and fills it.
func (w *benchEnv) newCrowd(ctx context.Context, name string, customers int) (c *crowd, err error) {
	c = &crowd{dir: filepath.Join(w.dir, name)}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.closeAll(ctx))
		}
	}()
	if c.cluster, err = local.Start(ctx, local.Options{
		Dir: c.dir, Ephemeral: true, TCP: true,
		Settings: map[string]string{
			"shared_preload_libraries": "pg_stat_statements", "pg_stat_statements.track_planning": "on",
			"max_wal_size": "8GB",
		},
	}); err != nil {
		return c, err
	}
	conf := pg.Config{URL: c.cluster.URL(local.Database), OwnerURL: c.cluster.OwnerURL(local.Database)}
	if err := pg.Migrate(ctx, conf); err != nil {
		return c, err
	}
	if c.db, err = pg.Open(ctx, conf, time.Now); err != nil {
		return c, err
	}
	if c.super, err = pgx.Connect(ctx, c.cluster.SuperURL(local.Database)); err != nil {
		return c, err
	}
	token := mint.Mint{
		ID: 1, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: "0x1", Symbol: "USDC",
		Name:     "USD Coin",
		Decimals: 6, DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1),
		MinWithdraw: money.Units(1), Finality: "FINALIZED",
	}
	coin := token
	coin.ID, coin.Kind, coin.Contract, coin.Symbol, coin.Name, coin.Decimals = 2, mint.Native, "", "ETH", "Ether", 18
	if err := mint.Sync(ctx, c.db, []mint.Mint{token, coin}); err != nil {
		return c, err
	}
	made, key, err := org.Create(ctx, c.db, "readers")
	if err != nil {
		return c, err
	}
	c.orgID, c.key = made.ID, key
	return c, c.fill(ctx, customers)
}

// fill adds the customers.
func (c *crowd) fill(ctx context.Context, customers int) error {
	printProgress("      write %d customers", customers)
	// Building an index takes a fraction of the time of its single entries.
	rows, err := c.super.Query(ctx, `
		SELECT pg_get_indexdef(i.indexrelid), 'DROP INDEX ' || i.indexrelid::regclass
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
		WHERE c.relnamespace = 'public'::regnamespace AND c.relname !~ '^(river|goose)' AND NOT i.indisunique`)
	if err != nil {
		return err
	}
	var build, drop, b, d string
	if _, err := pgx.ForEachRow(
		rows, []any{&b, &d}, func() error { build, drop = build+b+";", drop+d+";"; return nil },
	); err != nil {
		return err
	}
	settings := "SET maintenance_work_mem = '512MB'; SET synchronous_commit = off; "
	if _, err := c.super.Exec(ctx, settings+drop); err != nil {
		return err
	}
	active := min(customers, activeMax)
	for from := 0; from < customers; {
		seed, to := population.Seed, min(from+seedChunk, active)
		if from >= active {
			seed, to = population.SeedDormant, min(from+seedChunk, customers)
		}
		if err := seed(ctx, c.super, c.orgID, from, to); err != nil {
			return err
		}
		if from = to; from%1_000_000 == 0 {
			printProgress("      %d of %d written", from, customers)
		}
	}
	printProgress("      index them")
	for _, sql := range []string{build, `VACUUM ANALYZE`} {
		if _, err := c.super.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

func (c *crowd) closeAll(ctx context.Context) (err error) {
	if c.super != nil {
		err = c.super.Close(context.WithoutCancel(ctx))
	}
	if c.db != nil {
		c.db.Close()
	}
	if c.cluster != nil {
		err = errors.Join(err, c.cluster.Stop())
	}
	return err
}
