package surfacetest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
)

// The share of one organization in the pool of these tests.
const smallPool, smallShare = 6, 2

// small serves the interface from a small pool, whose statements wait for locks longer than the
// test takes.
func (h *testEnv) small(turn time.Duration) {
	h.t.Helper()
	db, err := pg.Open(h.t.Context(), pg.Config{
		URL: pgtest.LoginURL(h.t, h.db), MaxConns: smallPool, LockTimeout: 5 * time.Minute,
		StatementTimeout: 5 * time.Minute,
	}, h.db.Clock())
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(db.Close)
	h.conf.DB, h.conf.TurnMax = db, turn
	withdrawals := *h.conf.Withdrawals
	withdrawals.DB = db
	h.conf.Withdrawals, h.conf.Transfers = &withdrawals, transfer.New(db, wire.NewRecorder())
	h.restart()
}

// stuck stops all reads of withdrawals until the test releases them: such a request keeps its
// connection for that time. waiting counts those connections. The databases of tests are copies, so
// the same table has the same number in another one.
func (h *testEnv) stuck() (waiting func() int, letGo func()) {
	h.t.Helper()
	hold := pgtest.BeginOwner(h.t, h.db)
	if _, err := hold.Exec(h.t.Context(), `LOCK TABLE withdrawals IN ACCESS EXCLUSIVE MODE`); err != nil {
		h.t.Fatal(err)
	}
	waiting = func() (n int) {
		h.t.Helper()
		err := hold.QueryRow(h.t.Context(), `
			SELECT count(*) FROM pg_locks
			WHERE NOT granted AND relation = 'withdrawals'::regclass
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&n)
		if err != nil {
			h.t.Fatal(err)
		}
		return n
	}
	return waiting, func() {
		h.t.Helper()
		if err := hold.Rollback(h.t.Context()); err != nil && err != pgx.ErrTxClosed {
			h.t.Fatal(err)
		}
	}
}

// An organization that repeats one request as often as it can, without a rate limit, gets its share
// of the connections and no more. Every replay is answered in its turn. Rules LIM-3, IDEM-3.
func TestReplaysOfOneOrganizationLeaveConnectionsToTheOthers(t *testing.T) {
	t.Parallel()
	const replays = 24
	h := newTestEnv(t)
	h.wantStatus(h.call(h.two, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "bob"}), 200)
	first := h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
	var begun atomic.Int64
	h.conf.Observe = func(ctx context.Context) (context.Context, func(string, string, int)) {
		begun.Add(1)
		return ctx, func(string, string, int) {}
	}
	h.small(time.Hour)
	waiting, letGo := h.stuck()

	answers := make(chan reply, replays)
	for range replays {
		go func() { answers <- h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")) }()
	}
	pgtest.Eventually(t, func() bool { return begun.Load() == replays && waiting() >= smallShare },
		"the replays are at work")

	others := make(chan reply)
	go func() {
		others <- h.call(h.two, "GET", "/customers/bob", nil)
		others <- h.call(h.two, "POST", "/deposit", map[string]any{"mintId": usdc, "customerId": "new"})
		others <- h.call(h.two, "GET", "/customers/new", nil)
	}()
	for _, want := range []int{200, 200, 200} {
		var got reply
		pgtest.Eventually(t, func() bool {
			select {
			case got = <-others:
				return true
			default:
				return false
			}
		}, "the other organization is answered while replays have %d of %d connections", waiting(), smallPool)
		h.wantStatus(got, want)
	}
	if n := waiting(); n != smallShare || len(answers) != 0 {
		t.Errorf("got %d replays at work and %d answered, want %d at work", n, len(answers), smallShare)
	}

	letGo()
	for range replays {
		got := h.wantStatus(<-answers, 202)
		if got.text("withdrawalId") != first.text("withdrawalId") || got.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("got %s, want the first withdrawal again", got.raw)
		}
	}
}

// A request whose turn never comes is not refused with a 4xx, which would say that its key has made
// nothing. It has done nothing, and may be repeated. Rule LIM-3.
func TestARequestWhoseTurnDoesNotComeMayBeRepeated(t *testing.T) {
	t.Parallel()
	h := newTestEnv(t)
	h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")), 202)
	before := h.rowCounts()
	h.small(time.Millisecond)
	waiting, letGo := h.stuck()
	answers := make(chan reply, smallShare)
	for i := range smallShare {
		go func() { answers <- h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", "k")) }()
		pgtest.Eventually(t, func() bool { return waiting() == i+1 }, "replay %d is at work", i)
	}
	for _, c := range []struct{ name, method, path, body string }{
		{"a replay", "POST", "/withdraw", marshal(t, payment("idempotencyKey", "k"))},
		{"a new payment", "POST", "/withdraw", marshal(t, payment("idempotencyKey", "l"))},
		{"a read", "GET", "/customers/alice", ""},
		{"an address", "POST", "/deposit", `{"mintId": 1, "customerId": "new"}`},
		{"a table", "GET", "/customers", ""},
	} {
		r, err := http.NewRequestWithContext(t.Context(), c.method, h.server.URL+kernel.PathPrefix+c.path,
			strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(organizations.Header, h.one.key)
		if c.body != "" {
			r.Header.Set("Content-Type", "application/json")
		}
		if c.name == "a table" {
			r.Header.Set("Accept", "text/csv")
		}
		got, err := h.server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(got.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = got.Body.Close()
		var said map[string]any
		if err := json.Unmarshal(raw, &said); err != nil {
			t.Fatalf("%s: got %s: %v", c.name, raw, err)
		}
		words, _ := said["error"].(string)
		if got.StatusCode != 503 || said["code"] != "UNAVAILABLE" || said["retryable"] != true ||
			got.Header.Get("Retry-After") == "" ||
			!strings.Contains(words, "did nothing, which says nothing about earlier attempts") {
			t.Errorf("%s: got %d %v %s, want 503 and to repeat it", c.name, got.StatusCode, got.Header, raw)
		}
	}
	letGo()
	for range smallShare {
		h.wantStatus(<-answers, 202)
	}
	if got := h.rowCounts(); got != before {
		t.Errorf("rows: got %v, want %v", got, before)
	}
	for _, key := range []string{"k", "l"} {
		h.wantStatus(h.call(h.one, "POST", "/withdraw", payment("idempotencyKey", key)), 202)
	}
}

func marshal(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
