package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/group"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/pg/local"
)

const pageBytes = 8 << 10

// disk writes a page over itself and waits until it is on the disk.
func disk(_ context.Context, w *world) error {
	f, err := os.Create(filepath.Join(w.dir, "page"))
	if err != nil {
		return err
	}
	defer f.Close()
	page := make([]byte, pageBytes)
	var took spent
	for end := time.Now().Add(w.long / 5); time.Now().Before(end); {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		if err := dataSync(f); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	w.table.syncMedian = took.part(0.5)
	w.table.add(row{figure: "fdatasync of one page", here: fmt.Sprintf("p50 %s, p99 %s", short(took.part(0.5)), short(took.part(0.99)))})
	return nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// pgbench runs the benchmark that comes with PostgreSQL, where it is installed.
func pgbench(ctx context.Context, w *world) error {
	program, err := benchProgram()
	if err != nil {
		w.table.add(row{figure: "pgbench, tpcb-like", here: err.Error()})
		return nil
	}
	if err := w.super(ctx, local.Database, `CREATE DATABASE pgbench`); err != nil {
		return err
	}
	url := w.cluster.SuperURL("pgbench")
	if out, err := exec.CommandContext(ctx, program, "-i", "-q", "-s", "20", url).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	for _, clients := range []int{1, 8} {
		args := []string{"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-T", strconv.Itoa(max(1, int(w.long.Seconds()))), url}
		before := w.spentBy()
		out, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, out)
		}
		work := w.spentBy().since(before)
		found := tps.FindSubmatch(out)
		if found == nil {
			return fmt.Errorf("pgbench said %s", out)
		}
		n, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return err
		}
		each := time.Duration(max(1, n*max(1, w.long.Seconds())))
		w.table.add(row{
			figure: fmt.Sprintf("pgbench, tpcb-like, %d clients", clients), here: fmt.Sprintf("%.0f/s", n),
			compared: fmt.Sprintf("CPU each: %s here, %s in the database", short(work.ours/each), short(work.database/each)),
		})
		w.table.tpcb8 = n
	}
	return nil
}

// benchProgram looks beside the server's other programs and then in the path.
func benchProgram() (string, error) {
	if dir, err := local.Binaries(); err == nil {
		if path := filepath.Join(dir, "pgbench"); exec.Command(path, "--version").Run() == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath("pgbench")
	if err != nil {
		return "", errors.New("not installed")
	}
	return path, nil
}

// bare is the least that a writer of transfers can do: one connection, two
// tables, no organization, no key, no event, no HTTP.
func bare(ctx context.Context, w *world) error {
	if err := w.super(ctx, local.Database, `CREATE DATABASE bare`); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, w.cluster.SuperURL("bare"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, fmt.Sprintf(`
		CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric(78,0) NOT NULL CHECK (balance >= 0));
		CREATE TABLE transfers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			debit bigint NOT NULL, credit bigint NOT NULL, amount numeric(78,0) NOT NULL, at timestamptz NOT NULL);
		INSERT INTO accounts SELECT n, %d FROM generate_series(0, %d) n;
		ANALYZE accounts`, each, customers))
	if err != nil {
		return err
	}
	line := group.Line[[2]int64, struct{}]{GroupMax: 256, WaitingMax: 1024, WorkMax: time.Minute}
	line.Work = func(ctx context.Context, asked [][2]int64) []group.Answer[struct{}] {
		out := make([]group.Answer[struct{}], len(asked))
		if err := write(ctx, conn, asked); err != nil {
			for i := range out {
				out[i].Err = err
			}
		}
		return out
	}
	for _, c := range []struct {
		name string
		hot  bool
	}{{"spread", false}, {"on one account", true}} {
		took, n, err := crowd(ctx, connections, w.long, func(ctx context.Context, _ int) error {
			from, to := rand.Int64N(customers), rand.Int64N(customers)
			if c.hot {
				to = customers
			} else if from == to {
				to = (to + 1) % customers
			}
			_, err := line.Ask(ctx, [2]int64{from, to})
			return err
		})
		if err != nil {
			return err
		}
		w.table.add(row{
			figure: "bare group-commit writer, 64 callers, " + c.name, here: fmt.Sprintf("%.0f/s", n),
			compared: fmt.Sprintf("p50 %s, p99 %s", short(took.part(0.5)), short(took.part(0.99))),
		})
		if !c.hot {
			w.table.bare = n
		}
	}
	return nil
}

// write is one transaction of the bare writer.
func write(ctx context.Context, conn *pgx.Conn, asked [][2]int64) error {
	n := len(asked)
	debits, credits, amounts := make([]int64, n), make([]int64, n), make([]money.Amount, n)
	delta := map[int64]int64{}
	for i, a := range asked {
		debits[i], credits[i], amounts[i] = a[0], a[1], money.Units(1)
		delta[a[0]]--
		delta[a[1]]++
	}
	ids, deltas := make([]int64, 0, len(delta)), make([]int64, 0, len(delta))
	for id, d := range delta {
		ids, deltas = append(ids, id), append(deltas, d)
	}
	b := &pgx.Batch{}
	b.Queue(`BEGIN`)
	b.Queue(`SELECT balance FROM accounts WHERE id = ANY ($1) ORDER BY id FOR UPDATE`, ids)
	b.Queue(`INSERT INTO transfers (debit, credit, amount, at) SELECT d, c, a, now() FROM unnest($1::bigint[], $2::bigint[], $3::numeric[]) AS t (d, c, a)`, debits, credits, amounts)
	b.Queue(`UPDATE accounts SET balance = balance + m.d FROM unnest($1::bigint[], $2::bigint[]) AS m (id, d) WHERE accounts.id = m.id`, ids, deltas)
	b.Queue(`COMMIT`)
	return conn.SendBatch(ctx, b).Close()
}
