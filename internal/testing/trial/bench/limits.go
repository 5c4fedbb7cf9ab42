package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/groupcommit"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
)

const pageBytes = 8 << 10

// benchDisk overwrites a page and waits until it is on the disk.
func benchDisk(_ context.Context, w *benchEnv) error {
	f, err := os.Create(filepath.Join(w.dir, "page"))
	if err != nil {
		return err
	}
	defer f.Close()
	page := make([]byte, pageBytes)
	var took durations
	for end := time.Now().Add(w.duration / 5); time.Now().Before(end); {
		began := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return err
		}
		if err := dataSync(f); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	w.table.syncMedian = took.percentile(0.5)
	w.table.addRow(row{
		figure: "fdatasync of one page",
		result: fmt.Sprintf(
			"p50 %s, p99 %s", formatDuration(took.percentile(0.5)), formatDuration(took.percentile(0.99)),
		),
	})
	return nil
}

var tps = regexp.MustCompile(`(?m)^tps = ([0-9.]+)`)

// benchPgbench runs the benchmark that PostgreSQL ships, where it is installed.
func benchPgbench(ctx context.Context, w *benchEnv) error {
	program, err := benchProgram()
	if err != nil {
		w.table.addRow(row{figure: "pgbench, tpcb-like", result: err.Error()})
		return nil
	}
	if err := w.execAsSuperuser(ctx, local.Database, `CREATE DATABASE pgbench`); err != nil {
		return err
	}
	url := w.cluster.SuperURL("pgbench")
	if output, err := exec.CommandContext(ctx, program, "-i", "-q", "-s", "20", url).CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, output)
	}
	for _, clients := range []int{1, 8} {
		args := []string{
			"-c", strconv.Itoa(clients), "-j", strconv.Itoa(min(clients, 2)), "-T",
			strconv.Itoa(max(1, int(w.duration.Seconds()))), url,
		}
		workBefore := w.readWork()
		output, err := exec.CommandContext(ctx, program, args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		spent := w.readWork().subtract(workBefore)
		found := tps.FindSubmatch(output)
		if found == nil {
			return fmt.Errorf("pgbench said %s", output)
		}
		n, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			return err
		}
		w.table.addRow(row{
			figure: fmt.Sprintf("pgbench, tpcb-like, %d clients", clients), result: fmt.Sprintf("%.0f/s", n),
			compared: spent.formatEach(int(n * max(1, w.duration.Seconds()))),
		})
		w.table.tpcb8 = n
	}
	return nil
}

// benchProgram looks for pgbench next to the server's other programs and then in the path.
func benchProgram() (string, error) {
	if dir, err := local.FindBinaries(); err == nil {
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

// bareWriter does the least that a writer of transfers can do: one connection, two tables, no organization, no key and
// no event. It writes the transfers that wait in one transaction.
type bareWriter struct {
	conn    *pgx.Conn
	line    groupcommit.Writer[[2]int64, struct{}]
	server  *http.Server
	address string // where it answers POST like the service
}

// openBareWriter returns the bare writer of this run.
func (w *benchEnv) openBareWriter(ctx context.Context) (*bareWriter, error) {
	if w.bare != nil {
		return w.bare, nil
	}
	if err := w.execAsSuperuser(ctx, local.Database, `CREATE DATABASE bare`); err != nil {
		return nil, err
	}
	conn, err := pgx.Connect(ctx, w.cluster.SuperURL("bare"))
	if err != nil {
		return nil, err
	}
	b := &bareWriter{conn: conn}
	w.bare = b
	_, err = conn.Exec(ctx, fmt.Sprintf(`
		CREATE TABLE accounts (id bigint PRIMARY KEY, balance numeric(78,0) NOT NULL CHECK (balance >= 0));
		CREATE TABLE transfers (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
			debit bigint NOT NULL, credit bigint NOT NULL, amount numeric(78,0) NOT NULL, at timestamptz NOT NULL);
		INSERT INTO accounts SELECT n, %d FROM generate_series(0, %d) n;
		ANALYZE accounts`, customerUnits, customers))
	if err != nil {
		return nil, err
	}
	b.line = groupcommit.Writer[[2]int64, struct{}]{GroupMax: 256, WaitingMax: 1024, WorkMax: time.Minute}
	b.line.ProcessGroup = func(ctx context.Context, asked [][2]int64) []groupcommit.Answer[struct{}] {
		answers := make([]groupcommit.Answer[struct{}], len(asked))
		if err := writeTransfers(ctx, conn, asked); err != nil {
			for i := range answers {
				answers[i].Err = err
			}
		}
		return answers
	}
	return b, b.serve(ctx)
}

// serve answers POST with a JSON body as large as the service's answer, behind the same HTTP server.
func (b *bareWriter) serve(ctx context.Context) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b.address = l.Addr().String()
	b.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(b.answer)}
	go func() {
		if err := b.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			printProgress("the bare writer's listener ended: %v", err)
		}
	}()
	return nil
}

// bareTransfer is the request and, with an id and a time, the answer.
type bareTransfer struct {
	ID             string    `json:"id,omitempty"`
	Status         string    `json:"status,omitempty"`
	IdempotencyKey string    `json:"idempotencyKey"`
	MintID         int       `json:"mintId"`
	Amount         string    `json:"amount"`
	From           party     `json:"from"`
	To             party     `json:"to"`
	CreatedAt      time.Time `json:"createdAt,omitzero"`
}

func (b *bareWriter) answer(rw http.ResponseWriter, r *http.Request) {
	var t bareTransfer
	if err := json.NewDecoder(r.Body).Decode(&t); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	debit, err := t.From.account()
	credit, creditErr := t.To.account()
	if err = errors.Join(err, creditErr); err != nil {
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	if _, err := b.line.SubmitAndWait(r.Context(), [2]int64{debit, credit}); err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	t.ID, t.Status, t.CreatedAt = "tr_01J9ZW3M8Q4S5T6V7W8X9YZABC", "COMPLETED", time.Now()
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(rw).Encode(t)
}

// account returns the number of a party's account: a customer has the one of its name, a product the last.
func (p party) account() (int64, error) {
	if p.Product != "" {
		return customers, nil
	}
	return strconv.ParseInt(strings.TrimPrefix(p.CustomerID, "c"), 10, 64)
}

func (b *bareWriter) close() error {
	if b.server != nil {
		return errors.Join(b.server.Close(), b.conn.Close(context.Background()))
	}
	return b.conn.Close(context.Background())
}

// benchBareWriter measures the bare writer without HTTP.
func benchBareWriter(ctx context.Context, w *benchEnv) error {
	b, err := w.openBareWriter(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name string
		hot  bool
	}{{"spread", false}, {"on one account", true}} {
		took, n, err := runCallers(ctx, connections, w.duration, func(ctx context.Context, _ int) error {
			debit, credit := rand.Int64N(customers), rand.Int64N(customers)
			if c.hot {
				credit = customers
			} else if debit == credit {
				credit = (credit + 1) % customers
			}
			_, err := b.line.SubmitAndWait(ctx, [2]int64{debit, credit})
			return err
		})
		if err != nil {
			return err
		}
		w.table.addRow(row{
			figure: "bare group-commit writer, 64 callers, " + c.name, result: fmt.Sprintf("%.0f/s", n),
			compared: fmt.Sprintf(
				"p50 %s, p99 %s", formatDuration(took.percentile(0.5)), formatDuration(took.percentile(0.99)),
			),
		})
		if !c.hot {
			w.table.bareWriter = n
		}
	}
	return nil
}

// writeTransfers writes one transaction of the bare writer.
func writeTransfers(ctx context.Context, conn *pgx.Conn, asked [][2]int64) error {
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
	b.Queue(
		`INSERT INTO transfers (debit, credit, amount, at) SELECT d, c, a, now() FROM unnest($1::bigint[], $2::bigint[], $3::numeric[]) AS t (d, c, a)`,
		debits, credits, amounts,
	)
	b.Queue(
		`UPDATE accounts SET balance = balance + m.d FROM unnest($1::bigint[], $2::bigint[]) AS m (id, d) WHERE accounts.id = m.id`,
		ids, deltas,
	)
	b.Queue(`COMMIT`)
	return conn.SendBatch(ctx, b).Close()
}
