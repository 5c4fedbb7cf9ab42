package customer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// Rule CUS-8.
func TestIDsThatCouldBeMistakenAreRefused(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"user_42", "A", "а", "' OR 1=1--", "{{7*7}}", "<script>", "=cmd", "a b", "ünï", "名前",
		strings.Repeat("x", 128), "👩‍💻", "...", ".a", "%2f", "a..", "a/b", "..a/b..", "a/.../b", "%252e%252e",
		"a//b", `a\b`,
	} {
		if err := customer.CheckNewID(good); err != nil {
			t.Errorf("%q: got %v, want no refusal", good, err)
		}
	}
	for _, bad := range []string{
		"",
		" a", "a ", "\u00a0a", "a\n", "a\x00b", "a\u202eb", "a\u2066b", "a\u200fb", "a\u200bb", "\ufeffa", "a\u2028b",
		"e\u0301", "\xff", "a\xc3", strings.Repeat("x", 129), "a\u00adb", "a\u0085b",
		// A URL library would turn this into another call: GET /customers/../balances.
		".", "..", "%2e", "%2E", "%2e%2E", ".%2e", "%2e.",
		// Where slashes stay unescaped, this is the customer bob: x/../bob.
		"x/../bob", "../../x", "x/..", "./x", "x/./y", `x\..\bob`, "x/%2E%2e/bob", "x%2f..%2Fbob", "x%5C..%5cbob", `..\..`, "/..",
	} {
		if err := customer.CheckNewID(bad); !fault.HasCode(err, fault.InvalidRequest) ||
			fault.Find(err).Param != "customerId" {
			t.Errorf("%q: got %v, want %v", bad, err, fault.InvalidRequest)
		}
	}
}

func TestEmailsThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"a@b", "a.b+c@example.com", "ü@exämple.de", "o'brien@example.com"} {
		if err := customer.CheckEmail(good); err != nil {
			t.Errorf("%q: got %v, want no refusal", good, err)
		}
	}
	for _, bad := range []string{
		"", "a", "@b", "a@", "a@b@c", "a b@c", "Ann <a@b>", "a@b\r\nBcc: c@d", "a\u202e@b",
		strings.Repeat("x", 250) + "@b.cd",
	} {
		if err := customer.CheckEmail(bad); !fault.HasCode(err, fault.InvalidRequest) ||
			fault.Find(err).Param != "customerEmail" {
			t.Errorf("%q: got %v, want %v", bad, err, fault.InvalidRequest)
		}
	}
	if !customer.SameEmail("ANN@Example.com", "ann@example.COM") ||
		customer.SameEmail("ann@example.com", "bob@example.com") {
		t.Error("e-mails are not compared as people do")
	}
}

// Rule CUS-2.
func TestAnEmailIsWrittenOnlyWhereNoneWas(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	ensure := func(id, email, wantEmail string, wantIgnored bool) {
		t.Helper()
		err := db.InOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
			c, ignored, err := customer.Ensure(ctx, tx, o.ID, id, email)
			if err == nil && (c.Email != wantEmail || ignored != wantIgnored || c.ID != id || c.Status() != "ACTIVE") {
				t.Errorf(
					"%s with %q: got %+v ignored %v, want %q ignored %v", id, email, c, ignored, wantEmail,
					wantIgnored,
				)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	ensure("ann", "", "", false)
	ensure("ann", "Ann@Example.com", "Ann@Example.com", false)
	ensure("ann", "ann@example.com", "Ann@Example.com", false)
	ensure("ann", "mallory@example.com", "Ann@Example.com", true)
	ensure("ann", "", "Ann@Example.com", false)
	ensure("Ann", "bob@example.com", "bob@example.com", false)

	err = db.InOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
		_, _, err := customer.Ensure(ctx, tx, o.ID, "carl", "not an address")
		return err
	})
	if !fault.HasCode(err, fault.InvalidRequest) {
		t.Errorf("got %v, want %v", err, fault.InvalidRequest)
	}
}

// Rule CUS-1.
func TestCustomersMadeAtOnceAreOne(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			email := ""
			if i%2 == 0 {
				email = fmt.Sprintf("ann%d@example.com", i)
			}
			err := db.InOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
				c, ignored, err := customer.Ensure(ctx, tx, o.ID, "ann", email)
				if err == nil && ignored != (email != "" && c.Email != email) {
					t.Errorf("with %q: got %q ignored %v", email, c.Email, ignored)
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	var made, added int
	err = pgtest.OwnerPool(t, db).QueryRow(ctx, `
		SELECT count(*) FILTER (WHERE action = 'customer.created'), count(*) FILTER (WHERE action = 'customer.email_added') FROM audit_log`).Scan(&made, &added)
	if err != nil {
		t.Fatal(err)
	}
	if made != 1 || added > 1 {
		t.Errorf("got %d made and %d e-mails added, want 1 and at most 1", made, added)
	}
}

// Rule LIST-1.
func TestAListIsWalkedWithoutGapsAndWithoutStrangers(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	db := pgtest.NewWithClock(t, func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	})
	ctx := t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	other, _, err := org.Create(ctx, db, "Other")
	if err != nil {
		t.Fatal(err)
	}
	ids := []string{"Zoe", "ann", "bob", "carl", "ä"}
	for i, id := range ids {
		for _, where := range []string{o.ID, other.ID} {
			err := db.InOrg(ctx, where, func(ctx context.Context, tx pg.Tx) error {
				_, _, err := customer.Ensure(ctx, tx, where, id, "")
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 1 { // two customers of one time differ by their ids
			mu.Lock()
			now = now.Add(time.Second)
			mu.Unlock()
		}
	}
	err = db.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		return freeze.Create(
			ctx, tx,
			freeze.Freeze{
				Scope: freeze.ScopeCustomer, OrgID: o.ID, CustomerID: "bob", Source: freeze.SourceOperator,
				Reason: "test",
			},
		)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, desc := range []bool{false, true} {
		var got []string
		p := pagination.Page{Limit: 2, Desc: desc}
		for {
			err := db.ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
				r, err := customer.List(ctx, tx, o.ID, customer.Filter{}, p)
				if err != nil {
					return err
				}
				for _, c := range r.Items {
					got = append(got, c.ID)
					if c.Frozen != (c.ID == "bob") {
						t.Errorf("%s: got frozen %v", c.ID, c.Frozen)
					}
				}
				p.Cursor = r.NextCursor
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if p.Cursor == nil {
				break
			}
		}
		want := "Zoe ann bob carl ä"
		if desc {
			want = "ä carl bob ann Zoe"
		}
		if strings.Join(got, " ") != want {
			t.Errorf("got %v, want %v", got, want)
		}
	}
	err = db.ReadOrg(ctx, o.ID, func(ctx context.Context, tx pg.Tx) error {
		if _, err := customer.ByID(ctx, tx, other.ID, "ann"); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("got %v, want %v", err, fault.CodeNotFound)
		}
		_, err := customer.ByID(ctx, tx, o.ID, "ann")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
