package ops

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

func readiness(t *testing.T, checks map[string]Check) (int, Readiness) {
	t.Helper()
	w := httptest.NewRecorder()
	NewHandler(checks, nil).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
	var got Readiness
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	return w.Code, got
}

// Rule REQ-14.
func TestReadyzWaitsForNoCheck(t *testing.T) {
	t.Parallel()
	code, got := readiness(t, map[string]Check{
		"deaf":  func(context.Context) error { <-time.After(10 * checkMax); return nil },
		"quick": func(context.Context) error { return nil },
		"gone":  func(context.Context) error { return errors.New("gone away") },
	})
	if code != 503 || got.Ready || len(got.Reasons) != 2 || got.Reasons["gone"] != "gone away" ||
		!strings.Contains(got.Reasons["deaf"], "no answer") {
		t.Errorf("got %d %+v, want 503 for deaf and gone", code, got)
	}
}

// ofItsOwn starts a server that only this test disturbs, and returns a check of whether it accepts
// writes.
func ofItsOwn(t *testing.T) (*local.Cluster, map[string]Check) {
	t.Helper()
	cluster := pgtest.StartCluster(t, map[string]string{"wal_level": "replica", "max_wal_senders": "2"})
	db, err := pg.Open(t.Context(), pg.Config{URL: cluster.URL(local.Database)}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	checks := map[string]Check{"database": db.WritableCheck(0)}
	if code, got := readiness(t, checks); code != 200 {
		t.Fatalf("got %d %+v, want a database that takes writes", code, got)
	}
	return cluster, checks
}

// Rule REQ-14.
func TestReadyzSeesAServerThatHangs(t *testing.T) {
	t.Parallel()
	cluster, checks := ofItsOwn(t)
	signalAll := func(s syscall.Signal) {
		entries, err := os.ReadFile(filepath.Join(cluster.Dir(), "data", "postmaster.pid"))
		if err != nil {
			t.Fatal(err)
		}
		postmaster, _, _ := strings.Cut(string(entries), "\n")
		pid, err := strconv.Atoi(postmaster)
		if err != nil {
			t.Fatal(err)
		}
		children, err := os.ReadFile(filepath.Join("/proc", postmaster, "task", postmaster, "children"))
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range strings.Fields(string(children)) {
			n, _ := strconv.Atoi(child)
			_ = syscall.Kill(n, s) // a process that has ended meanwhile is no error
		}
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
	}
	signalAll(syscall.SIGSTOP)
	code, got := readiness(t, checks)
	signalAll(syscall.SIGCONT)
	if code != 503 || got.Reasons["database"] == "" {
		t.Errorf("got %d %+v while the server hangs, want 503 for the database", code, got)
	}
	pgtest.Eventually(t, func() bool { code, _ := readiness(t, checks); return code == 200 }, "ready again")
}

// A COMMIT that waits for a standby is a write that does not succeed.
func TestReadyzSeesThatTheStandbyIsGone(t *testing.T) {
	t.Parallel()
	cluster, checks := ofItsOwn(t)
	super, err := pgx.Connect(t.Context(), cluster.SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	standby := func(name string) {
		if _, err := super.Exec(t.Context(), "ALTER SYSTEM SET synchronous_standby_names = '"+name+"'"); err != nil {
			t.Fatal(err)
		}
		if _, err := super.Exec(t.Context(), `SELECT pg_reload_conf()`); err != nil {
			t.Fatal(err)
		}
	}
	standby("gone")
	pgtest.Eventually(
		t, func() bool { code, got := readiness(t, checks); return code == 503 && got.Reasons["database"] != "" },
		"not ready without the standby",
	)
	standby("")
	pgtest.Eventually(t, func() bool { code, _ := readiness(t, checks); return code == 200 }, "ready again")
}
