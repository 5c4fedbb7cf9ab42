package main

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
)

const (
	growingDefault  = 1_000_000
	growingSmall    = 200_000
	growingMonths   = 20
	growingAccounts = 100_000
	growingBatch    = 200 // rows of a statement, as a group of transfers has
)

// growingTables are copies of the table of postings with its keys and indexes, without triggers: one as it is, one
// with few rows, and one with a partition for each month. A unique key of a partitioned table contains the time, so
// there the key by which a cause posts once moves to a table of its own.
const growingTables = `
	CREATE TABLE small (LIKE ledger_transfers INCLUDING ALL);
	CREATE TABLE whole (LIKE ledger_transfers INCLUDING ALL);
	CREATE TABLE causes (cause_kind text NOT NULL, cause_id text COLLATE "C" NOT NULL, leg smallint NOT NULL,
		PRIMARY KEY (cause_kind, cause_id, leg));
	CREATE TABLE parted (LIKE ledger_transfers INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING GENERATED,
		transfer_number bigint GENERATED ALWAYS AS IDENTITY) PARTITION BY RANGE (created_at);
	ALTER TABLE parted DROP COLUMN transfer_id;
	ALTER TABLE parted RENAME transfer_number TO transfer_id`

const growingIndexes = `
	ALTER TABLE parted ADD PRIMARY KEY (transfer_id, created_at);
	CREATE INDEX ON parted (debit_account, created_at, transfer_id);
	CREATE INDEX ON parted (credit_account, created_at, transfer_id);
	CREATE INDEX ON parted (org_id, mint_id, created_at, transfer_id)
		WHERE cause_kind NOT IN ('NETWORK_FEE', 'FEE_CHANGE', 'FEE_PREPAID')`

// growingRows selects the rows from $1 to $2 of $3, over all months, between any two accounts.
var growingRows = fmt.Sprintf(`
	SELECT 'org_01J9ZW3M8Q4S5T6V7W8X9YZABC' AS org_id, 1 AS mint_id, d.debit AS debit_account,
		1 + (d.debit + 1 + (random() * %[1]d)::bigint) %% %[2]d AS credit_account, 1000000::numeric AS amount,
		'TRANSFER' AS cause_kind, 'tr_' || lpad(to_hex(n), 10, '0') || left(md5(n::text), 16) AS cause_id,
		0::smallint AS leg,
		'2025-01-01Z'::timestamptz + interval '%[3]d months' * least(n::float8 / $3, 1) AS created_at
	FROM generate_series($1::bigint, $2::bigint) n
	CROSS JOIN LATERAL (SELECT 1 + ((random() * %[2]d)::bigint + n * 0) %% %[2]d AS debit) d`,
	growingAccounts-3, growingAccounts, growingMonths)

const growingColumns = `org_id, mint_id, debit_account, credit_account, amount, cause_kind, cause_id, leg, created_at`

// benchGrowing measures what another row costs in the table of postings with few rows, with many, and with many in
// partitions by month.
func benchGrowing(ctx context.Context, w *benchEnv) error {
	rows, err := countOfEnv("BENCH_ROWS", growingDefault)
	if err != nil {
		return err
	}
	if err := w.execAsSuperuser(ctx, "", `CREATE DATABASE growing OWNER coffer_owner`); err != nil {
		return err
	}
	conf := pg.Config{URL: w.cluster.URL("growing"), OwnerURL: w.cluster.OwnerURL("growing")}
	if err := pg.Migrate(ctx, conf); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, w.cluster.SuperURL("growing"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if err := fillGrowing(ctx, conn, rows); err != nil {
		return err
	}
	contenders := []struct{ name, sql string }{
		{fmt.Sprintf("with %d rows", growingSmall), `INSERT INTO small (` + growingColumns + `) ` + growingRows},
		{fmt.Sprintf("with %d rows", rows), `INSERT INTO whole (` + growingColumns + `) ` + growingRows},
		{
			fmt.Sprintf("with %d rows in %d partitions, each cause in a table of its own", rows, growingMonths+1),
			`WITH added AS (INSERT INTO parted (` + growingColumns + `) ` + growingRows + `
				RETURNING cause_kind, cause_id, leg)
			INSERT INTO causes SELECT * FROM added`,
		},
	}
	spent := make([]work, len(contenders))
	counts := make([]int, len(contenders))
	lengths := make([]time.Duration, len(contenders))
	written := rows
	for range 2 * turns {
		for i, c := range contenders {
			before, began := w.readWork(), time.Now()
			for time.Since(began) < w.duration/(2*turns) {
				if _, err := conn.Exec(ctx, c.sql, written+1, written+growingBatch, rows); err != nil {
					return fmt.Errorf("%s: %w", c.name, err)
				}
				written, counts[i] = written+growingBatch, counts[i]+growingBatch
			}
			lengths[i] += time.Since(began)
			spent[i] = spent[i].add(w.readWork().subtract(before))
		}
	}
	limit := perSecond(counts[0], lengths[0])
	for i, c := range contenders {
		rate := perSecond(counts[i], lengths[i])
		w.table.addRow(row{
			figure: "another posting without its triggers, " + c.name, result: fmt.Sprintf("%.0f/s", rate),
			compared: joinParts(formatRatio(rate, limit, "the table with few rows"), spent[i].formatEach(counts[i])),
		})
	}
	return nil
}

// fillGrowing writes the rows and then builds the indexes.
func fillGrowing(ctx context.Context, conn *pgx.Conn, rows int) error {
	statements := []string{
		`SET synchronous_commit = off`, `SET maintenance_work_mem = '512MB'`, growingTables,
		fmt.Sprintf(`DO $$ BEGIN FOR m IN 0..%d LOOP
			EXECUTE format('CREATE TABLE parted_%%s PARTITION OF parted FOR VALUES FROM (%%L) TO (%%L)', m,
				'2025-01-01Z'::timestamptz + interval '1 month' * m,
				'2025-01-01Z'::timestamptz + interval '1 month' * (m + 1));
		END LOOP; END $$`, growingMonths),
	}
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	printProgress("      write %d rows", rows)
	_, err := conn.Exec(ctx, `INSERT INTO small (`+growingColumns+`) `+growingRows, 1, growingSmall, growingSmall)
	if err != nil {
		return err
	}
	for from := 1; from <= rows; from += 1_000_000 {
		to := min(from+999_999, rows)
		_, err := conn.Exec(ctx, `INSERT INTO parted (`+growingColumns+`) `+growingRows, from, to, rows)
		if err != nil {
			return err
		}
		printProgress("      %d of %d written", to, rows)
	}
	for _, sql := range []string{
		growingIndexes,
		`INSERT INTO causes SELECT cause_kind, cause_id, leg FROM parted ORDER BY 1, 2, 3`,
		`INSERT INTO whole (` + growingColumns + `) SELECT ` + growingColumns + ` FROM parted ORDER BY created_at`,
		`VACUUM ANALYZE`, `CHECKPOINT`, `SET synchronous_commit = on`,
	} {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}
