package customer_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/testing/trial/population"
)

// A search by the beginning of an id compares bytes, ends at the organization, and has each customer once.
func TestASearchFindsTheIdsThatBeginWithIt(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	var orgs []string
	for range 2 {
		made, _, err := org.Create(t.Context(), db, "Example Marketplace")
		if err != nil {
			t.Fatal(err)
		}
		orgs = append(orgs, made.ID)
	}
	for _, of := range orgs {
		err := db.InOrg(t.Context(), of, func(ctx context.Context, tx pg.Tx) error {
			return customer.EnsureAll(ctx, tx, of, []string{
				"user", "user_1", "user_2", "user_\U0010FFFD", "User_1", "use", "user%", "usfr", of,
			})
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for prefix, want := range map[string][]string{
		"user":   {"user", "user%", "user_1", "user_2", "user_\U0010FFFD"},
		"user_":  {"user_1", "user_2", "user_\U0010FFFD"},
		"user_1": {"user_1"}, "%": nil, "User": {"User_1"}, orgs[1]: nil, orgs[0]: {orgs[0]},
	} {
		var walked, all []string
		err := db.ReadOrg(t.Context(), orgs[0], func(ctx context.Context, tx pg.Tx) error {
			for p := (pagination.Page{Limit: 1}); ; {
				found, err := customer.ListByPrefix(ctx, tx, orgs[0], prefix, p)
				if err != nil {
					return err
				}
				for _, c := range found.Items {
					walked = append(walked, c.ID)
				}
				if p.Cursor = found.NextCursor; p.Cursor == nil {
					break
				}
			}
			return customer.ForEachByPrefix(ctx, tx, orgs[0], prefix, func(c customer.Customer) error {
				all = append(all, c.ID)
				return nil
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(walked, want) || !slices.Equal(all, want) {
			t.Errorf("%s: got the pages %s and the rows %s, want %s", prefix, strings.Join(walked, " "),
				strings.Join(all, " "), strings.Join(want, " "))
		}
	}
}

// A page of a search reads its own rows, however many customers match. Rule PAGE-73.
func TestASearchReadsItsPageAndNotTheCustomers(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	made, _, err := org.Create(t.Context(), db, "Example Marketplace")
	if err != nil {
		t.Fatal(err)
	}
	super := pgtest.Superuser(t, db)
	if err := population.Seed(t.Context(), super, made.ID, 0, 5_000); err != nil {
		t.Fatal(err)
	}
	if _, err := super.Exec(t.Context(), `VACUUM ANALYZE`); err != nil {
		t.Fatal(err)
	}
	for prefix, want := range map[string]int{"": 50, "crowd_": 50, "crowd_4": 50, "crowd_4999": 1, "unknown": 0} {
		p := pagination.Page{Limit: 50, Desc: true}
		for range 2 {
			err := db.ReadOrg(t.Context(), made.ID, func(ctx context.Context, tx pg.Tx) error {
				tx, reads := pgtest.WatchReads(tx)
				found, err := customer.ListByPrefix(ctx, tx, made.ID, prefix, p)
				if len(found.Items) != want {
					t.Errorf("%q: got %d customers, want %d", prefix, len(found.Items), want)
				}
				// Each customer is read with its freeze.
				reads.CheckRows(t, "customers that begin with "+prefix, 3*p.Limit)
				p.Cursor = found.NextCursor
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			if p.Cursor == nil {
				break
			}
		}
	}
}
