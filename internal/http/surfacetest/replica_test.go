package surfacetest

import (
	"context"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/http/api"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/transfer"
	"github.com/cofferpay/coffer/internal/wire"
)

// replicated is the interface on a primary with a streaming replica.
type replicated struct {
	*testEnv
	primary, replica *local.Cluster
	super            *pgx.Conn // of the replica
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	primary := pgtest.StartCluster(t, pgtest.PrimarySettings)
	replica := pgtest.StartReplica(t, primary, nil)
	x := &replicated{primary: primary, replica: replica}
	x.testEnv = newHouseOn(t, pgtest.OpenReplicated(t, primary, replica.URL(""), time.Now))
	super, err := pgx.Connect(t.Context(), replica.SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = super.Close(context.WithoutCancel(t.Context())) })
	x.super = super
	x.call(x.one, "GET", "/mints", nil) // writes the use of the key, so that the next minute writes none
	x.call(x.two, "GET", "/mints", nil)
	x.follow(x.db)
	return x
}

func (x *replicated) follow(db *pg.DB) {
	x.t.Helper()
	pgtest.Eventually(x.t, func() bool {
		state, _ := db.CheckReplica(x.t.Context())
		return state == pg.ReplicaFollows
	}, "the replica follows")
}

func (x *replicated) replay(verb string) {
	x.t.Helper()
	if _, err := x.super.Exec(x.t.Context(), `SELECT pg_wal_replay_`+verb+`()`); err != nil {
		x.t.Fatal(err)
	}
}

// readsOf returns how many reads each server has answered.
func (x *replicated) readsOf(db *pg.DB) (replica, primary int64) {
	stat, _ := db.ReplicaStat()
	for _, n := range stat.Primary {
		primary += n
	}
	return stat.Replica, primary
}

func TestGetsOfAReplicaSeeWhatTheOrganizationWrote(t *testing.T) {
	t.Parallel()
	x := newReplicated(t)
	before, _ := x.readsOf(x.db)
	x.wantStatus(x.call(x.one, "GET", "/transfers", nil), 200)
	if after, _ := x.readsOf(x.db); after == before {
		t.Error("the replica answered no read of a GET")
	}

	// A second process of the installation, which accepts the writes.
	second := *x.testEnv
	second.conf.DB = pgtest.OpenReplicated(t, x.primary, "", time.Now)
	second.conf.Transfers = transfer.New(second.conf.DB, wire.NewRecorder())
	writer := api.New(second.conf)
	first := *x.serves.Load()
	for i := range 3 {
		if i > 0 {
			x.follow(x.db)
		}
		x.replay("pause")
		x.serves.Store(&writer)
		made := x.wantStatus(x.call(x.one, "POST", "/transfers", charge(fmt.Sprint("k", i))), 201).text("transferId")
		x.serves.Store(&first)
		x.wantStatus(x.call(x.one, "GET", "/transfers/"+made, nil), 200)
		list := x.wantStatus(x.call(x.one, "GET", "/transfers", nil), 200)
		if !strings.Contains(string(list.raw), made) {
			t.Errorf("got %s, want %s in it", list.raw, made)
		}
		x.replay("resume")
	}

	// From one page to the next, the list only grows, whichever server answers.
	x.follow(x.db)
	page := x.wantStatus(x.call(x.one, "GET", "/transfers?limit=1", nil), 200)
	x.replay("pause")
	newest := x.wantStatus(x.call(x.one, "POST", "/transfers", charge("later")), 201).text("transferId")
	seen := 1
	for next := page.text("nextCursor"); next != ""; next = page.text("nextCursor") {
		if seen == 2 {
			x.replay("resume")
			x.follow(x.db)
		}
		page = x.wantStatus(x.call(x.one, "GET", "/transfers?limit=1&cursor="+next, nil), 200)
		seen++
	}
	if seen != 3 {
		t.Errorf("got %d pages, want one for each transfer of the first request", seen)
	}
	x.wantStatus(x.call(x.one, "GET", "/transfers/"+newest, nil), 200)
}

func TestRefusalsDoNotWaitForTheReplica(t *testing.T) {
	t.Parallel()
	x := newReplicated(t)
	x.allowKeys(x.one, true)
	reader, readerID := x.key(x.one, identity.ScopeRead)
	x.wantStatus(x.call(reader, "GET", "/transfers", nil), 200)
	x.follow(x.db)
	x.replay("pause")
	x.wantStatus(x.call(reader, "GET", "/transfers", nil), 200)

	x.wantRefusal("a scope", x.call(reader, "POST", "/transfers", charge("k")), 403, "SCOPE_MISSING", "")
	x.wantStatus(x.call(x.one, "DELETE", "/api-keys/"+readerID, nil), 204)
	x.wantRefusal("a deleted key", x.call(reader, "GET", "/transfers", nil), 401, "UNAUTHORIZED", "")

	if err := x.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(ctx, tx, freeze.Freeze{
			Scope: freeze.ScopeOrganization, OrgID: x.one.id, Source: freeze.SourceOperator, Reason: "a test",
			Actor: audit.Operator("op"),
		})
	}); err != nil {
		t.Fatal(err)
	}
	frozen := x.call(x.one, "POST", "/withdraw", payment("idempotencyKey", "k"))
	if frozen.status != http.StatusForbidden {
		t.Errorf("a freeze: got %d %s, want 403", frozen.status, frozen.raw)
	}

	list, err := org.ParseIPAllowlist([]string{"203.0.113.0/24"})
	if err != nil {
		t.Fatal(err)
	}
	if err := x.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
		return org.SetIPAllowlist(ctx, tx, audit.Operator("op"), x.two.id, list)
	}); err != nil {
		t.Fatal(err)
	}
	x.wantRefusal("an address", x.call(x.two, "GET", "/transfers", nil), 403, "IP_NOT_ALLOWED", "")

	rolled, err := org.RollKey(t.Context(), x.db, audit.Operator("op"), x.one.id)
	if err != nil {
		t.Fatal(err)
	}
	x.wantRefusal("a rolled key", x.call(x.one, "GET", "/transfers", nil), 401, "UNAUTHORIZED", "")
	x.wantStatus(x.call(tenant{x.one.id, rolled.Reveal()}, "GET", "/transfers", nil), 200)
}

// askedAt matches the moment of the request in an answer.
var askedAt = regexp.MustCompile(`"usdPriceAt":"[^"]*"`)

// Every GET runs on a server that takes no writes and no locks, and gives the same answer.
func TestEveryGetIsTheSameFromTheReplica(t *testing.T) {
	t.Parallel()
	x := newReplicated(t)
	x.wantStatus(x.call(x.one, "POST", "/transfers", charge("k")), 201)
	x.sequenced()
	x.follow(x.db)
	plain := *x.testEnv
	plain.conf.DB = pgtest.OpenReplicated(t, x.primary, "", time.Now)
	alone, both := api.New(plain.conf), *x.serves.Load()
	var answered []string
	for _, rt := range organizations.Routes {
		if rt.Method != http.MethodGet || rt.NeedsNoKey {
			continue
		}
		path := strings.NewReplacer("{customerId}", alice, "{mintId}", fmt.Sprint(usdc)).Replace(rt.Path)
		x.serves.Store(&alone)
		want := x.call(x.one, "GET", path, nil)
		x.serves.Store(&both)
		var got reply
		var replica, afterReplica int64
		pgtest.Eventually(t, func() bool { // A machine that is busy may be late with a check.
			x.follow(x.db)
			before, primary := x.readsOf(x.db)
			got = x.call(x.one, "GET", path, nil)
			after, afterPrimary := x.readsOf(x.db)
			replica, afterReplica = before, after
			return afterPrimary == primary
		}, "no read of %s is answered by the primary", path)
		if got.status != want.status || got.status < 400 &&
			askedAt.ReplaceAllString(string(got.raw), "") != askedAt.ReplaceAllString(string(want.raw), "") {
			t.Errorf("%s: got %d %s, want %d %s", path, got.status, got.raw, want.status, want.raw)
		}
		if afterReplica > replica {
			answered = append(answered, path)
		}
	}
	for _, path := range []string{"/transfers", "/balances", "/customers", "/events", "/deposits", "/withdrawals"} {
		if !slices.Contains(answered, path) {
			t.Errorf("the replica answered %v, want %s among them", answered, path)
		}
	}
}
