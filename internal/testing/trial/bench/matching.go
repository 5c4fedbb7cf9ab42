package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"runtime"
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

// benchMatching asks which recipients of a block are addresses of Coffer, as the walk does, for any number of
// watched addresses: of a block without any, and of one where half are. It asks in turns with the filter and
// without it, so that other load affects both. The table has the rows of a real one, but of its indexes only
// those that the queries use. The others would take as long again to build and change nothing here.
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
	log := slog.New(slog.DiscardHandler)
	index, filtered := wallet.NewMatcher(db, log), wallet.NewMatcher(db, log)
	before := readHeap()
	building := newHeapWatch()
	building.startWatch()
	workBefore, began := w.readWork(), time.Now()
	if err := filtered.Refresh(ctx); err != nil {
		return errors.Join(err, fmt.Errorf("heap at most %d MB", building.stopWatch()>>20))
	}
	built, used, buildMax := time.Since(began), w.readWork().subtract(workBefore), building.stopWatch()
	heapGrowth := int64(readHeap()) - int64(before)
	stats, _ := filtered.Stats()
	w.table.addRow(row{
		figure: fmt.Sprintf("the filter of %d addresses", stats.Addresses),
		result: fmt.Sprintf("%.1f MB, %.2f bytes for each; the heap grew by %.1f MB",
			float64(stats.Bytes)/1e6, float64(stats.Bytes)/float64(max(1, stats.Addresses)), float64(heapGrowth)/1e6),
		compared: fmt.Sprintf("built in %s, %s of CPU here and %s in the database; heap at most %d MB meanwhile",
			formatDuration(built), formatDuration(used.process), formatDuration(used.database), buildMax>>20),
		target: formatTarget(stats.Bytes <= filterTarget, "at most 30 MB"),
	})
	for _, c := range []struct {
		figure string
		share  int // of the recipients that are ours
	}{{"none of them ours", 0}, {"half of them ours", recipients / 2}} {
		if err := w.measureMatching(ctx, c.figure, c.share, watched, filtered, index); err != nil {
			return err
		}
	}
	return nil
}

const (
	filterTarget = 30_000_000 // bytes
	noneTarget   = time.Millisecond
	eachTarget   = 10 * time.Microsecond // for each recipient that is ours
	turns        = 3
)

// readHeap returns the bytes in use after a collection.
func readHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// measureMatching matches blocks with that many recipients of ours, in turns by both matchers.
func (w *benchEnv) measureMatching(
	ctx context.Context, figure string, share, watched int, filtered, index *wallet.Matcher,
) error {
	var took [2]durations
	var used [2]work
	for turn := range 2 * turns {
		matcher := filtered
		if turn%2 == 1 {
			matcher = index
		}
		workBefore := w.readWork()
		for end := time.Now().Add(w.duration / (2 * turns)); time.Now().Before(end); {
			block := make([]chain.Address, recipients)
			for i := range block {
				n := rand.IntN(watched)
				if i >= share {
					n += watched // addresses without an owner
				}
				block[i] = chain.Address(watchedAddress(n))
			}
			rand.Shuffle(recipients, func(i, j int) { block[i], block[j] = block[j], block[i] })
			began := time.Now()
			match, err := matcher.Match(ctx, chain.EVM, block)
			if err != nil {
				return err
			}
			took[turn%2] = append(took[turn%2], time.Since(began))
			if len(match.Wallets) > share || len(match.Wallets) < share*9/10 {
				return fmt.Errorf("%d of %d recipients are ours, want %d", len(match.Wallets), recipients, share)
			}
		}
		spent := w.readWork().subtract(workBefore)
		used[turn%2].process += spent.process
		used[turn%2].database += spent.database
	}
	formatCPU := func(n int) string {
		asked := time.Duration(max(1, len(took[n])))
		return fmt.Sprintf("CPU each, with making the block: %s here, %s in the database",
			formatDuration(used[n].process/asked), formatDuration(used[n].database/asked))
	}
	p50, limit := took[0].percentile(0.5), noneTarget+time.Duration(share)*eachTarget
	w.table.addRow(row{
		figure: fmt.Sprintf("a block's 1,000 recipients, %s, against %d addresses", figure, watched),
		result: fmt.Sprintf("p50 %s, p99 %s", formatDuration(p50), formatDuration(took[0].percentile(0.99))),
		compared: fmt.Sprintf("%s; by the index alone p50 %s, p99 %s, %s", formatCPU(0),
			formatDuration(took[1].percentile(0.5)), formatDuration(took[1].percentile(0.99)), formatCPU(1)),
		target: formatTarget(p50 <= limit, "at most "+formatDuration(limit)),
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
