package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/wallet"
)

const (
	watchedDefault = 10_000_000
	recipients     = 1_000 // in a block
)

// benchMatching asks which recipients of a block are addresses of Coffer, as the walk does: one
// query, for any number of watched addresses. The table has the rows of a real one, but only the
// index that the query uses. The other indexes would take as long again to build and change nothing
// here.
func benchMatching(ctx context.Context, w *benchEnv) (err error) {
	watched := watchedDefault
	if s := os.Getenv("WATCHED"); s != "" {
		if watched, err = strconv.Atoi(s); err != nil || watched < 2*recipients {
			return fmt.Errorf("WATCHED: %q is no number of addresses", s)
		}
	}
	const name = "matching"
	conf := pg.Config{URL: w.cluster.URL(name), OwnerURL: w.cluster.SuperURL(name)}
	if err := w.createWatchedDatabase(ctx, name, conf, watched); err != nil {
		return err
	}
	db, err := pg.Open(ctx, conf, time.Now)
	if err != nil {
		return err
	}
	defer db.Close()
	var took durations
	heap := newHeapWatch()
	heap.startWatch()
	cpuBefore, asked := w.readCPUTime(), 0
	for end := time.Now().Add(w.duration); time.Now().Before(end); asked++ {
		block := make([]chain.Address, recipients)
		for i := range block {
			n := rand.IntN(watched)
			if i%2 == 0 {
				n += watched // addresses without an owner
			}
			block[i] = chain.Address(watchedAddress(n))
		}
		began := time.Now()
		var wallets map[chain.Address]wallet.Wallet
		err := db.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) (err error) {
			wallets, err = wallet.ByAddresses(ctx, tx, chain.EVM, block)
			return err
		})
		if err != nil {
			return err
		}
		took = append(took, time.Since(began))
		if len(wallets) == 0 || len(wallets) > recipients/2 {
			return fmt.Errorf("%d of %d recipients are ours, want half", len(wallets), recipients)
		}
	}
	used, heapMax, perQuery := w.readCPUTime().subtract(cpuBefore), heap.stopWatch(), time.Duration(max(1, asked))
	w.table.addRow(row{
		figure: fmt.Sprintf("a block's 1,000 recipients, half of them ours, against %d addresses", watched),
		result: fmt.Sprintf(
			"p50 %s, p99 %s; heap at most %d MB", formatDuration(took.percentile(0.5)),
			formatDuration(took.percentile(0.99)), heapMax>>20,
		),
		compared: fmt.Sprintf("CPU each: %s here, %s in the database; nothing is kept in memory for it",
			formatDuration(used.process/perQuery), formatDuration(used.database/perQuery)),
		target: formatTarget(took.percentile(0.5) < 5*time.Millisecond, "at most 5 ms"),
	})
	return nil
}

// watchedAddress returns the address of a number, the same as the statement below.
func watchedAddress(n int) string {
	return fmt.Sprintf("0x%016x%024x", uint64(n)*0x9e3779b97f4a7c15, n)
}

// createWatchedDatabase creates a database with so many watched addresses.
func (w *benchEnv) createWatchedDatabase(ctx context.Context, name string, conf pg.Config, watched int) error {
	if err := w.execAsSuperuser(ctx, "postgres", `CREATE DATABASE `+name); err != nil {
		return err
	}
	if err := pg.Migrate(ctx, conf); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, w.cluster.SuperURL(name))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for _, sql := range []string{
		`ALTER TABLE wallets DROP CONSTRAINT wallets_pkey CASCADE, DROP CONSTRAINT wallets_subject_unique, DROP CONSTRAINT wallets_address_unique,
			DROP CONSTRAINT wallets_of_org CASCADE, DROP CONSTRAINT wallets_of_address CASCADE, DROP CONSTRAINT wallets_org_id_fkey`,
		`DROP INDEX wallets_prefix_suffix`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	printProgress("      write %d addresses", watched)
	_, err = conn.CopyFrom(ctx, pgx.Identifier{"wallets"},
		[]string{"wallet_id", "org_id", "family", "purpose", "subject", "path", "address", "proof", "created_at"},
		&watchedRows{n: -1, count: watched})
	if err != nil {
		return err
	}
	printProgress("      index them")
	for _, sql := range []string{
		`ALTER TABLE wallets ADD CONSTRAINT wallets_address_unique UNIQUE (family, address)`,
		`VACUUM ANALYZE wallets`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// watchedRows produces wallets for COPY.
type watchedRows struct{ n, count int }

func (r *watchedRows) Next() bool { r.n++; return r.n < r.count }

func (r *watchedRows) Err() error { return nil }

func (r *watchedRows) Values() ([]any, error) {
	return []any{
		fmt.Sprintf("adr_%026d", r.n), "org_01J9ZW3M8Q4S5T6V7W8X9YZABC", "EVM", "CUSTOMER_DEPOSIT",
		fmt.Sprint("customer ", r.n),
		"m/44'/60'/1745023765'/543518224'/1377603941'/211528283'", watchedAddress(r.n), make([]byte, 64),
		time.Unix(0, 0).UTC(),
	}, nil
}
