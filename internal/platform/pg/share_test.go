package pg_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Every kind of transaction takes its connection out of the share of its context.
func TestACallerHasItsShareOfTheConnectionsAndNoMore(t *testing.T) {
	t.Parallel()
	const conns, share = 6, 2
	db, err := pg.Open(t.Context(), pg.Config{URL: pgtest.NewDatabase(t).URL, MaxConns: conns}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	ways := map[string]func(context.Context) error{
		"run": func(ctx context.Context) error {
			return db.ReadOrg(ctx, "org_a", func(context.Context, pg.Tx) error { return nil })
		},
		"twice": func(ctx context.Context) error {
			return db.InOrgPipelined(ctx, "org_a", func(*pgx.Batch) {}, func(context.Context, pg.Tx, *pgx.Batch) error {
				return nil
			})
		},
		"look": func(ctx context.Context) error { return db.ReadSystemBatch(ctx, func(*pgx.Batch) {}) },
	}
	impatient := func(caller string) context.Context { return db.WithShare(t.Context(), caller, time.Millisecond) }

	late, begun := impatient("a"), impatient("a")
	if err := ways["run"](begun); err != nil {
		t.Fatal(err)
	}
	let, held := make(chan struct{}), make(chan error, share)
	in := make(chan struct{}, share)
	for range share {
		go func() {
			held <- db.InSystem(impatient("a"), func(context.Context, pg.Tx) error {
				in <- struct{}{}
				<-let
				return nil
			})
		}()
	}
	for range share {
		<-in
	}
	waited := make(chan error, len(ways))
	for name, way := range ways {
		if err := way(late); !errors.Is(err, pg.ErrShareExhausted) {
			t.Errorf("%s, one too many: got %v, want ErrNoTurn", name, err)
		}
		for who, ctx := range map[string]context.Context{"another caller": impatient("b"), "no caller": t.Context()} {
			if err := way(ctx); err != nil {
				t.Errorf("%s of %s: got %v, want its turn", name, who, err)
			}
		}
		// A request that has already run statements is not refused in its middle: it waits for its
		// turn, until its context ends.
		left, leave := context.WithCancelCause(begun)
		leave(errEnough)
		if err := way(left); !errors.Is(err, errEnough) {
			t.Errorf("%s, begun and left: got %v, want why it left", name, err)
		}
		go func() { waited <- way(begun) }()
	}
	if got := db.PoolStat().AcquiredConns(); got != share {
		t.Errorf("got %d connections in use, want %d", got, share)
	}
	close(let)
	for range share {
		if err := <-held; err != nil {
			t.Error(err)
		}
	}
	for range ways {
		if err := <-waited; err != nil {
			t.Errorf("begun: got %v, want its turn", err)
		}
	}
	// All slots were returned.
	for range share + 1 {
		for name, way := range ways {
			if err := way(late); err != nil {
				t.Errorf("%s, afterwards: got %v, want its turn", name, err)
			}
		}
	}
}

var errEnough = errors.New("enough")
