package event

import (
	"context"
	"fmt"
	"testing"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// The newest events come first, page by page and by type, and those of another organization never.
func TestRecentEventsComeNewestFirst(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	seed(t, db, "org_1", "org_2")
	for i := range 5 {
		if err := record(t.Context(), db, "org_1", fmt.Sprint("res_", i), map[string]int{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := record(t.Context(), db, "org_2", "res_0", map[string]int{}); err != nil {
		t.Fatal(err)
	}
	s := &Sequencer{DB: db, Environment: "TEST", Listener: &ear{}}
	for n := 1; n > 0; {
		var err error
		if n, err = s.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	read := func(org string, below int64, wanted Type, limit int) (numbers []int64, hasMore bool) {
		t.Helper()
		err := db.ReadOrg(t.Context(), org, func(ctx context.Context, tx pg.Tx) error {
			found, more, err := ListRecent(ctx, tx, org, below, wanted, limit)
			numbers, hasMore = nil, more
			for _, e := range found {
				numbers = append(numbers, e.Sequence)
				if _, err := LoadRecorded(ctx, tx, org, e.ID); err != nil {
					t.Errorf("event %d by its id: got %v", e.Sequence, err)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return numbers, hasMore
	}
	if got, more := read("org_1", 0, "", 3); fmt.Sprint(got) != "[5 4 3]" || !more {
		t.Errorf("got %v, more %v, want the newest three and more", got, more)
	}
	if got, more := read("org_1", 3, CustomerDeposit, 3); fmt.Sprint(got) != "[2 1]" || more {
		t.Errorf("got %v, more %v, want the last two", got, more)
	}
	if got, _ := read("org_1", 0, CustomerWithdraw, 3); len(got) != 0 {
		t.Errorf("got %v of a type that never happened, want none", got)
	}
	if got, _ := read("org_2", 0, "", 10); fmt.Sprint(got) != "[1]" {
		t.Errorf("got %v of another organization, want its own", got)
	}
	var foreign Recorded
	err := db.ReadOrg(t.Context(), "org_1", func(ctx context.Context, tx pg.Tx) error {
		found, _, err := ListRecent(ctx, tx, "org_1", 0, "", 1)
		foreign = found[0]
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, eventID := range []string{foreign.ID, "evt_x", "evt_\x00"} {
		err := db.ReadOrg(t.Context(), "org_2", func(ctx context.Context, tx pg.Tx) error {
			_, err := LoadRecorded(ctx, tx, "org_2", eventID)
			return err
		})
		if !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%q: got %v, want %s", eventID, err, fault.CodeNotFound)
		}
	}
}
