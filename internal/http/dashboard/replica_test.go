package dashboard

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/http/pages"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/session"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/local"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/transfer"
)

func TestPagesFromAReplicaShowWhatWasWritten(t *testing.T) {
	t.Parallel()
	primary := pgtest.StartCluster(t, pgtest.PrimarySettings)
	replica := pgtest.StartReplica(t, primary, nil)
	h := newTestEnvOn(t, "", func(clock func() time.Time) *pg.DB {
		return pgtest.OpenReplicated(t, primary, replica.URL(""), clock)
	})
	// The session is looked up as package session does it. found runs behind the look-up.
	found := func() {}
	find := h.surface.FindSession
	h.surface.FindSession = func(ctx context.Context, token seal.Secret) (session.Session, error) {
		s, err := find(ctx, token)
		if err != nil {
			return s, err
		}
		err = h.db.ReadSystemBatch(ctx, func(b *pgx.Batch) { h.db.QueuePosition(b, &s.Position) })
		found()
		return s, err
	}
	h.server.Config.Handler = pages.New(h.surface, h.kit)
	h.fund(h.one, "alice", usdc, 1_000_000)
	super, err := pgx.Connect(t.Context(), replica.SuperURL(local.Database))
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(t.Context())
	replay := func(verb string) {
		t.Helper()
		if _, err := super.Exec(t.Context(), `SELECT pg_wal_replay_`+verb+`()`); err != nil {
			t.Fatal(err)
		}
	}
	follow := func() {
		t.Helper()
		pgtest.Eventually(t, func() bool {
			state, _ := h.db.CheckReplica(t.Context())
			return state == pg.ReplicaFollows
		}, "the replica follows")
	}
	charge := func(key string) transfer.Transfer {
		t.Helper()
		alice, product := "alice", "CUSTODIAL"
		made, err := h.transfers.Request(t.Context(), h.one.id, transfer.Request{
			MintID: usdc, Amount: money.Units(5).String(), From: transfer.Party{CustomerID: &alice},
			To: transfer.Party{Product: &product}, IdempotencyKey: key, Actor: audit.APIKey(h.one.id),
		})
		if err != nil {
			t.Fatal(err)
		}
		return made.Transfer
	}
	token := h.signIn(h.one, identity.Owner)
	path := Prefix + "/balances/transfers"

	pgtest.Eventually(t, func() bool { // A machine that is busy may be late with a check.
		follow()
		before, _ := h.db.ReplicaStat()
		h.get(token, path).want(t, http.StatusOK)
		after, _ := h.db.ReplicaStat()
		return after.Replica > before.Replica
	}, "the replica answers reads of a page")

	replay("pause")
	made := charge("k1")
	if page := h.get(token, path); !strings.Contains(page.body, made.ID) {
		t.Errorf("got a page without %s, which was written before it", made.ID)
	}
	replay("resume")

	// The stream of a page goes on from a number that the page includes. A change between the look-up of the
	// session and the read may be missing in the page, so the stream has to tell of it.
	h.startLive()
	follow()
	before := h.changes.Position()
	found = func() {
		found = func() {}
		charge("k2")
		pgtest.Eventually(t, func() bool { return h.changes.Position() > before }, "the follower sees the change")
	}
	stream, err := url.Parse(h.streamOf(token, path))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := strconv.ParseInt(stream.Query().Get("after"), 10, 64); err != nil || n > before {
		t.Errorf("got %s, %v, want a stream that goes on after %d at most", stream, err, before)
	}
}
