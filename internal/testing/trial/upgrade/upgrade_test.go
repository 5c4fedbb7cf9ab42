package upgrade

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/jackc/pgx/v5"
	"github.com/pelletier/go-toml/v2"

	"github.com/cofferpay/coffer/internal/app"
	"github.com/cofferpay/coffer/internal/localworld"
	"github.com/cofferpay/coffer/internal/localworld/anvil"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/testing/trial/binary"
	"github.com/cofferpay/coffer/internal/testing/trial/roles"
	"github.com/cofferpay/coffer/internal/verify"
	"github.com/cofferpay/coffer/migrations"
)

const root = "../../../.."

func waitUntil(ctx context.Context, t *testing.T, what string, is func() (bool, error)) {
	t.Helper()
	var last error
	for {
		ok, err := is()
		if ok && err == nil {
			return
		}
		last = err
		select {
		case <-ctx.Done():
			t.Fatalf("%s: not in time, last %v", what, last)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// newestStep returns the file of the newest migration. ok is false while there are only the first
// two steps, which create the schema of a new database.
func newestStep(t *testing.T) (file string, ok bool) {
	t.Helper()
	if migrations.Latest() < migrations.FirstLater {
		return "", false
	}
	found, err := filepath.Glob(filepath.Join(root, "migrations", fmt.Sprintf("%04d_*", migrations.Latest())))
	if err != nil || len(found) != 1 {
		t.Fatalf("got %v %v, want one file", found, err)
	}
	return filepath.Join("migrations", filepath.Base(found[0])), true
}

// oldConfig writes the old program's configuration for a world with other ports. It lacks the
// settings that only the new program knows.
func oldConfig(t *testing.T, from []byte, conf app.Config, into string) {
	t.Helper()
	var c map[string]any
	if err := toml.Unmarshal(from, &c); err != nil {
		t.Fatal(err)
	}
	at := func(name string) map[string]any { return c[name].(map[string]any) }
	at("database")["url"], at("database")["owner_url"] = conf.Database.URL, conf.Database.OwnerURL
	at("api")["listen"], at("api")["url"], at("ops")["listen"] = conf.API.Listen, conf.API.URL, conf.Ops.Listen
	for name, ch := range conf.Chains {
		at("chains")[string(name)].(map[string]any)["endpoints"] = ch.Endpoints
	}
	b, err := toml.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(into, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// startServing starts a program and waits until it is ready.
func startServing(ctx context.Context, t *testing.T, program, name, file, ops string) *roles.Process {
	t.Helper()
	p, err := roles.Start(program, name, "serve", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.KillProcess(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%s:\n%s", name, p.LogText())
		}
	})
	waitUntil(ctx, t, name+" is ready", func() (bool, error) {
		status, text, err := CallAPI(ctx, http.MethodGet, "http://"+ops+"/readyz", "", nil)
		if err != nil {
			return false, fmt.Errorf("%w\n%s", err, p.LogText())
		}
		if status != http.StatusOK {
			return false, fmt.Errorf("%d %s", status, text)
		}
		return true, nil
	})
	return p
}

// reportFreezes logs what stops payments, as one reason why a load is refused.
func reportFreezes(ctx context.Context, t *testing.T, super *pgx.Conn) {
	t.Helper()
	rows, err := super.Query(ctx,
		`SELECT concat_ws(' ', scope, chain, source, reason) FROM freezes WHERE lifted_at IS NULL`)
	if err != nil {
		t.Error(err)
		return
	}
	reasons, err := pgx.CollectRows(rows, pgx.RowTo[string])
	t.Logf("active freezes: %v, %v", reasons, err)
}

// The program before the migration creates a world and works in it. The schema is migrated while it
// works, and it works on with a newer schema; then this program takes over. Callers only have to
// try again, no statement waits long for a table, and the books and the chain agree in the end.
func TestAnUpgradeUnderLoadLosesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	newest, ok := newestStep(t)
	if !ok {
		t.Log("NOT TRIED: there is no migration after the baseline, so there is no older schema to upgrade from")
		return
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil { // the database's user passes through
		t.Fatal(err)
	}
	sources := t.TempDir()
	commit, ok, err := SourcesBefore(ctx, root, newest, sources)
	if err != nil {
		t.Fatal(err)
	}
	if !ok {
		t.Log("no history here: the version before cannot be had")
		return
	}
	old, new := filepath.Join(dir, "old"), filepath.Join(dir, "new")
	if err := binary.BuildProgram(ctx, sources, old, ""); err != nil {
		t.Fatalf("%s: %v", commit, err)
	}
	if err := binary.BuildProgram(ctx, root, new, ""); err != nil {
		t.Fatal(err)
	}
	node, err := anvil.Find()
	if err != nil {
		t.Fatal(err)
	}

	// The old program's own world, which it creates, funds and leaves.
	keep, place := filepath.Join(dir, "keep"), filepath.Join(dir, "place")
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Fatal(err)
	}
	// One chain is enough for the upgrade, and the old sources have only the local chain that they
	// are told.
	first, err := roles.Start(
		"env", "the old world", "-C", place, "COFFER_ANVIL="+node, old, "local", "--keep", keep, "--chains", "ETHEREUM",
	)
	if err != nil {
		t.Fatal(err)
	}
	var info localworld.Info
	waitUntil(ctx, t, "the old world is up", func() (_ bool, err error) {
		if info, err = localworld.ReadInfo(place); err != nil {
			err = fmt.Errorf("%w\n%s", err, first.LogText())
		}
		return err == nil, err
	})
	// A restarted chain keeps no state of earlier blocks, so the deposits have to be walked before.
	login, err := pgx.Connect(ctx, info.Database.URL)
	if err != nil {
		t.Fatal(err)
	}
	waitUntil(ctx, t, "the treasury's gas is credited", func() (funded bool, err error) {
		_, err = login.Exec(ctx, `SET ROLE coffer_system`)
		if err == nil {
			err = login.QueryRow(ctx, `SELECT EXISTS (SELECT FROM deposits WHERE status = 'CREDITED')`).Scan(&funded)
		}
		return funded, err
	})
	if err := login.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(); err != nil {
		t.Fatal(err)
	}
	wrote, err := os.ReadFile(filepath.Join(keep, "coffer.toml"))
	if err != nil {
		t.Fatal(err)
	}
	w, err := localworld.Start(ctx, localworld.Options{
		Dir: place, StateDir: keep, WithoutService: true, ExistingDatabase: true, BlockTime: 250 * time.Millisecond,
		// The old program may know no swaps, neither in a configuration nor in a policy.
		WithoutSwaps: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	})
	conf, err := app.ReadConfig(w.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(keep, "old.toml")
	oldConfig(t, wrote, conf, file)
	service := startServing(ctx, t, old, "the old service", file, conf.Ops.Listen)

	super, err := pgx.Connect(ctx, w.DatabaseCluster().SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(context.WithoutCancel(ctx))
	version := func() (v int64) {
		if err := super.QueryRow(
			ctx, `SELECT max(version_id) FROM goose_db_version WHERE is_applied`,
		).Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := version(); v >= migrations.Latest() {
		t.Fatalf("the old program left version %d, want one before %d", v, migrations.Latest())
	}
	completed := func() (n int) {
		if err := super.QueryRow(
			ctx, `SELECT count(*) FROM withdrawals WHERE status = 'COMPLETED'`,
		).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}

	// Customers with money.
	usdc := w.Info.Mints[0]
	customers := []string{"user_1", "user_2", "user_3"}
	for _, c := range customers {
		_, text, err := CallAPI(ctx, http.MethodPost, w.Info.BaseURL+"/deposit", w.Info.APIKey, map[string]any{
			"mintId": usdc.ID, "customerId": c,
		})
		var got struct{ Address string }
		if err == nil {
			err = json.Unmarshal([]byte(text), &got)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Info.SendFromFaucet(
			ctx, usdc, common.HexToAddress(got.Address), big.NewInt(250_000_000),
		); err != nil {
			t.Fatal(err)
		}
	}
	waitUntil(ctx, t, "the deposits are credited", func() (bool, error) {
		var n int
		err := super.QueryRow(
			ctx, `SELECT count(*) FROM deposits WHERE status = 'CREDITED' AND purpose = 'CUSTOMER_DEPOSIT'`,
		).Scan(&n)
		return n == len(customers), err
	})
	load := StartLoad(
		ctx, w.Info.BaseURL, w.Info.APIKey, usdc.ID, customers, "0x00000000000000000000000000000000c0ffee07",
	)
	more := func(who string) {
		t.Helper()
		paid, done := completed(), load.Accepted.Load()
		waitUntil(ctx, t, who+" pays", func() (bool, error) {
			if paidNow, doneNow := completed(), load.Accepted.Load(); paidNow < paid+2 || doneNow < done+50 {
				return false, fmt.Errorf("%d completed, %d done", paidNow-paid, doneNow-done)
			}
			return true, nil
		})
	}
	more("the old service")

	// The longest wait for a table while the steps run.
	watching, watched := make(chan struct{}), make(chan time.Duration, 1)
	watcher, err := pgx.Connect(ctx, w.DatabaseCluster().SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer watcher.Close(context.WithoutCancel(ctx))
		most := 0.0
		for {
			var waits float64
			if err := watcher.QueryRow(ctx,
				`SELECT coalesce(max(extract(epoch FROM clock_timestamp() - waitstart)), 0)::float8
				FROM pg_locks WHERE NOT granted AND locktype = 'relation'`).Scan(&waits); err == nil {
				most = max(most, waits)
			}
			select {
			case <-watching:
				watched <- time.Duration(most * float64(time.Second))
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	migrate, err := roles.Start(new, "the migration", "migrate", "--config", w.Info.Config)
	if err != nil {
		t.Fatal(err)
	}
	if err := migrate.WaitEnded(ctx); err != nil {
		t.Fatalf("migrate under load: %v\n%s", err, migrate.LogText())
	}
	close(watching)
	t.Logf("from %s: the longest wait for a table was %v", commit, <-watched)
	if v := version(); v != migrations.Latest() {
		t.Errorf("got version %d, want %d", v, migrations.Latest())
	}

	more("the old service on the new schema")
	if err := service.Stop(); err != nil {
		t.Fatal(err)
	}
	service = startServing(ctx, t, new, "the new service", w.Info.Config, conf.Ops.Listen)
	more("the new service")
	refused := load.Stop()
	for _, wrong := range refused[:min(len(refused), 3)] {
		t.Errorf("the load: got %s and %d more", wrong, len(refused)-1)
	}
	if len(refused) > 0 {
		reportFreezes(ctx, t, super)
	}
	waitUntil(ctx, t, "everything ends", func() (bool, error) {
		var open int
		err := super.QueryRow(ctx, `SELECT count(*) FROM withdrawals WHERE status NOT IN ('COMPLETED')`).Scan(&open)
		return open == 0, err
	})
	if err := service.Stop(); err != nil {
		t.Fatal(err)
	}
	if log := service.LogText(); strings.Contains(log, "deadlock") {
		t.Errorf("got a deadlock:\n%s", log)
	}
	a, err := app.OpenTools(ctx, conf, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	books, err := verify.RunChecks(ctx, a.DB())
	if err != nil || !books.IsIntact() {
		t.Errorf("the books: got %+v %v, want them to add up", books.Breaches, err)
	}
	chains, err := verify.CompareWithChains(ctx, a.DB(), a.Chains)
	if err != nil || !chains.IsIntact() {
		t.Errorf("the chain: got %+v %v, want it to agree", chains.Breaches, err)
	}
}
