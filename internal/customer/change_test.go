package customer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/control/freeze"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// testEnv is an organization with the customer ann, and a clock that tests move.
type testEnv struct {
	t   *testing.T
	db  *pg.DB
	org string
	mu  sync.Mutex
	now time.Time
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	d := &testEnv{t: t, now: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
	d.db = pgtest.NewWithClock(t, func() time.Time {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.now
	})
	o, _, err := org.Create(t.Context(), d.db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	d.org = o.ID
	d.mustEnsure("ann", "ann@example.com")
	return d
}

func (d *testEnv) advanceClock(by time.Duration) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.now = d.now.Add(by)
	return d.now
}

func (d *testEnv) inOrg(fn func(context.Context, pg.Tx) (customer.Customer, error)) (c customer.Customer, err error) {
	d.t.Helper()
	err = d.db.InOrg(d.t.Context(), d.org, func(ctx context.Context, tx pg.Tx) (err error) {
		c, err = fn(ctx, tx)
		return err
	})
	return c, err
}

func (d *testEnv) mustEnsure(id, email string) customer.Customer {
	d.t.Helper()
	c, err := d.inOrg(func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		c, _, err := customer.Ensure(ctx, tx, d.org, id, email)
		return c, err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

func (d *testEnv) editCustomer(id string, ch customer.Change) (customer.Customer, error) {
	d.t.Helper()
	return d.inOrg(func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
		return customer.Edit(ctx, tx, d.org, id, audit.APIKey(d.org), ch)
	})
}

func (d *testEnv) countActions() map[string]int {
	d.t.Helper()
	rows, err := pgtest.OwnerPool(d.t, d.db).Query(
		d.t.Context(), `SELECT action, count(*) FROM audit_log GROUP BY action`,
	)
	if err != nil {
		d.t.Fatal(err)
	}
	acts := map[string]int{}
	var action string
	var n int
	if _, err := pgx.ForEachRow(rows, []any{&action, &n}, func() error { acts[action] = n; return nil }); err != nil {
		d.t.Fatal(err)
	}
	return acts
}

func textPointer(s string) *string { return &s }

// Rule CUS-4.
func TestAChangedEmailIsNotTrustedUntilItHasCooledOff(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	ann := d.mustEnsure("ann", "")
	if got := ann.TrustedEmail(d.advanceClock(0), customer.CoolingOff); got != "ann@example.com" {
		t.Errorf("the first e-mail: got %q, want it trusted", got)
	}
	// The same e-mail in another letter case is no change and changes nothing.
	same, err := d.editCustomer("ann", customer.Change{Email: textPointer("ANN@Example.COM")})
	if err != nil || same.Email != "ann@example.com" || same.EmailChangedAt != nil {
		t.Errorf("the same in other letters: got %+v %v, want no change", same, err)
	}
	at := d.advanceClock(time.Hour)
	changed, err := d.editCustomer("ann", customer.Change{Email: textPointer("CFO@Example.com")})
	if err != nil || changed.EmailChangedAt == nil || !changed.EmailChangedAt.Equal(at) ||
		!changed.UpdatedAt.Equal(at) {
		t.Fatalf("got %+v %v, want the moment of the change", changed, err)
	}
	// A later decision reads it again.
	ann = d.mustEnsure("ann", "")
	for after, want := range map[time.Duration]string{
		-time.Hour: "", 0: "", time.Minute: "", customer.CoolingOff - time.Microsecond: "",
		customer.CoolingOff: "cfo@example.com", 48 * time.Hour: "cfo@example.com",
	} {
		if got := ann.TrustedEmail(at.Add(after), customer.CoolingOff); got != want {
			t.Errorf("%v after the change: got %q, want %q", after, got, want)
		}
	}
	if got := ann.TrustedEmail(at, 0); got != "cfo@example.com" {
		t.Errorf("without cooling-off: got %q, want it trusted", got)
	}
	// A return to the old e-mail is another change.
	at = d.advanceClock(time.Hour)
	if back, err := d.editCustomer("ann", customer.Change{Email: textPointer("ann@example.com")}); err != nil ||
		back.TrustedEmail(at.Add(23*time.Hour), customer.CoolingOff) != "" {
		t.Errorf("back again: got %+v %v, want it not trusted", back, err)
	}
	if got := (customer.Customer{}).TrustedEmail(at, customer.CoolingOff); got != "" {
		t.Errorf("no e-mail: got %q, want none", got)
	}
	if got := d.countActions(); got["customer.email_changed"] != 2 || got["customer.email_added"] != 0 {
		t.Errorf("audit log: got %v, want two changes", got)
	}
}

// The transaction that waited for the row began before the change that it then sees.
func TestChangesGoForwardWhateverTheClockSays(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	last := d.advanceClock(0)
	for i, email := range []string{"a@example.com", "b@example.com", "c@example.com"} {
		d.advanceClock(-time.Minute)
		got, err := d.editCustomer("ann", customer.Change{Email: textPointer(email)})
		if err != nil || got.EmailChangedAt == nil || i > 0 && !got.EmailChangedAt.After(last) {
			t.Fatalf("%s: got %+v %v, want a moment after %v", email, got, err, last)
		}
		last = *got.EmailChangedAt
		if read := d.mustEnsure("ann", ""); !read.EmailChangedAt.Equal(last) || !read.UpdatedAt.Equal(got.UpdatedAt) {
			t.Errorf("%s: got %+v, want what the change answered", email, read)
		}
	}
}

// An e-mail that is removed and supplied again would be new without being a change. The program
// removes none; the table enforces it for every role.
func TestAnEmailThatWasTakenAwayIsNoFirstOne(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	owner := pgtest.OwnerPool(t, d.db)
	refused := func(name, sql string, constraints ...string) {
		t.Helper()
		_, err := owner.Exec(t.Context(), `UPDATE customers SET `+sql+` WHERE customer_id = 'ann'`)
		if !slices.ContainsFunc(constraints, func(c string) bool { return pg.ViolatesConstraint(err, c) }) {
			t.Errorf("%s: got %v, want one of %v", name, err, constraints)
		}
	}
	for name, sql := range map[string]string{
		"changed without its moment": `email = 'm@example.com', updated_at = now()`,
		"removed without its moment": `email = NULL`,
		"changed with an older one":  `email = 'm@example.com', email_changed_at = created_at - interval '1 day', updated_at = now()`,
	} {
		refused(name, sql, "customers_email_change_dated")
	}
	refused("given another id", `customer_id = 'bob'`, "customers_identity_fixed", "customers_append_only")
	refused("moved to another house", `org_id = 'org_b'`, "customers_identity_fixed", "customers_append_only")
	refused("made of another day", `created_at = now()`, "customers_identity_fixed")
	if _, err := d.editCustomer("ann", customer.Change{Email: textPointer("b@example.com")}); err != nil {
		t.Fatal(err)
	}
	refused(
		"changed again at the moment of the change before", `email = 'm@example.com'`,
		"customers_email_change_dated",
	)
	refused("forgetting that it changed", `email_changed_at = NULL`, "customers_email_change_kept")
	refused(
		"remembering it as older", `email_changed_at = email_changed_at - interval '1 day'`,
		"customers_email_change_kept",
	)
	if _, err := owner.Exec(
		t.Context(),
		`UPDATE customers SET email = NULL, email_changed_at = $1, updated_at = $1 WHERE customer_id = 'ann'`,
		d.advanceClock(time.Hour),
	); err != nil {
		t.Fatal(err)
	}
	at := d.advanceClock(48 * time.Hour)
	again := d.mustEnsure("ann", "mallory@example.com")
	if again.Email != "mallory@example.com" || again.EmailChangedAt == nil ||
		again.TrustedEmail(at, customer.CoolingOff) != "" {
		t.Errorf("got %+v, want an e-mail that is not trusted yet", again)
	}
	if got := again.TrustedEmail(at.Add(customer.CoolingOff), customer.CoolingOff); got != "mallory@example.com" {
		t.Errorf("later: got %q, want it trusted", got)
	}
}

// Rule CUS-5.
func TestMetadataIsReplacedWholeWithinItsBounds(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	at := d.advanceClock(time.Minute)
	got, err := d.editCustomer(
		"ann", customer.Change{Metadata: map[string]string{"tier": "gold", "ключ": strings.Repeat("ü", 500)}},
	)
	if err != nil || got.Metadata["tier"] != "gold" || len(got.Metadata) != 2 || !got.UpdatedAt.Equal(at) ||
		got.Email != "ann@example.com" || got.EmailChangedAt != nil {
		t.Fatalf("got %+v %v, want the metadata and nothing else changed", got, err)
	}
	d.advanceClock(time.Minute)
	if again, err := d.editCustomer("ann", customer.Change{Metadata: got.Metadata}); err != nil ||
		!again.UpdatedAt.Equal(at) {
		t.Errorf("the same again: got %+v %v, want no change", again, err)
	}
	if again, err := d.editCustomer("ann", customer.Change{}); err != nil || !again.UpdatedAt.Equal(at) {
		t.Errorf("nothing: got %+v %v, want no change", again, err)
	}
	many := map[string]string{}
	for range 21 {
		many[strings.Repeat("k", len(many)+1)] = "v"
	}
	for name, bad := range map[string]map[string]string{
		"many": many, "no key": {"": "v"}, "long key": {strings.Repeat("k", 41): "v"},
		"long value":  {"k": strings.Repeat("v", 501)},
		"a zero byte": {"k": "\x00"}, "no text": {"k": "\xff"},
	} {
		if _, err := d.editCustomer(
			"ann", customer.Change{Metadata: bad, Email: textPointer("b@example.com")},
		); !fault.HasCode(err, fault.InvalidRequest) || fault.Find(err).Param != "metadata" {
			t.Errorf("%s: got %v, want %v on metadata", name, err, fault.InvalidRequest)
		}
	}
	if got, err := d.editCustomer("ann", customer.Change{Metadata: map[string]string{}}); err != nil ||
		len(got.Metadata) != 0 || got.Email != "ann@example.com" {
		t.Errorf("emptied: got %+v %v, want none", got, err)
	}
	if acts := d.countActions(); acts["customer.metadata_changed"] != 2 || acts["customer.email_changed"] != 0 {
		t.Errorf("audit log: got %v, want two changes of metadata", acts)
	}
	for _, id := range []string{"bob", "", "a\x00"} {
		if _, err := d.editCustomer(
			id, customer.Change{Email: textPointer("b@example.com")},
		); !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%q: got %v, want %v", id, err, fault.CodeNotFound)
		}
	}
}

// A first supply and a change run at once: the second one sees the first, so a change is never
// taken for a supply.
func TestAChangeAndASupplyAtOnceAreOneAfterTheOther(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	d.mustEnsure("bob", "")
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			if i%2 == 0 {
				d.mustEnsure("bob", "first@example.com")
				return
			}
			if _, err := d.editCustomer("bob", customer.Change{Email: textPointer("second@example.com")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	bob := d.mustEnsure("bob", "")
	if bob.Email != "second@example.com" {
		t.Errorf("got %q, want the one that was set on purpose", bob.Email)
	}
	// Either the supply came first, and the change is one, or it found an e-mail.
	acts := d.countActions()
	if (bob.EmailChangedAt == nil) != (acts["customer.email_changed"] == 0) || acts["customer.email_added"] != 1 {
		t.Errorf("got %+v with %v, want the moment of every change", bob, acts)
	}
}

// Rule CUS-6.
func TestAnOrganizationLiftsItsOwnFreezeAlone(t *testing.T) {
	t.Parallel()
	d := newTestEnv(t)
	by := audit.APIKey(d.org)
	freezeIt := func() (customer.Customer, error) {
		return d.inOrg(func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
			return customer.Freeze(ctx, tx, d.org, "ann", by, "support called")
		})
	}
	lift := func() (customer.Customer, error) {
		return d.inOrg(func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
			return customer.Unfreeze(ctx, tx, d.org, "ann", by)
		})
	}
	want := func(what string, c customer.Customer, err error, status string) {
		t.Helper()
		if err != nil || c.Status() != status {
			t.Errorf("%s: got %v %v, want %v", what, c.Status(), err, status)
		}
	}
	c, err := lift()
	want("free already", c, err, "ACTIVE")
	for range 2 {
		c, err = freezeIt()
		want("frozen", c, err, "FROZEN")
	}
	for range 2 {
		c, err = lift()
		want("lifted", c, err, "ACTIVE")
	}
	for _, source := range []freeze.Source{freeze.SourceOperator, freeze.SourceFinality} {
		err := d.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			return freeze.Create(
				ctx, tx,
				freeze.Freeze{
					Scope: freeze.ScopeCustomer, OrgID: d.org, CustomerID: "ann", Source: source,
					Reason: "theirs", Actor: audit.Operator("op"),
				},
			)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := lift(); !fault.HasCode(err, fault.OperatorOnly) {
		t.Errorf("another's: got %v, want %v", err, fault.OperatorOnly)
	}
	c, err = freezeIt()
	want("frozen beside another's", c, err, "FROZEN")
	c, err = lift()
	want("lifted beside another's", c, err, "FROZEN")
	if _, err := lift(); !fault.HasCode(err, fault.OperatorOnly) {
		t.Errorf("another's again: got %v, want %v", err, fault.OperatorOnly)
	}

	// The tables refuse what the program does not try.
	err = d.db.InOrg(t.Context(), d.org, func(ctx context.Context, tx pg.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE freezes SET lifted_at = now(), lifted_by = 'me' WHERE lifted_at IS NULL`)
		if err == nil && tag.RowsAffected() != 0 {
			t.Errorf("got %d freezes of others lifted, want none", tag.RowsAffected())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for name, sql := range map[string]string{
		"another reason":  `UPDATE freezes SET reason = 'x'`,
		"another's scope": `UPDATE freezes SET scope = 'ALL'`,
		"the operator's":  `INSERT INTO freezes (freeze_id, scope, org_id, customer_id, source, reason, created_at) SELECT 'frz_x', 'CUSTOMER', org_id, 'bob', 'OPERATOR', 'x', now() FROM organizations`,
		"deleting":        `DELETE FROM freezes`,
	} {
		err := d.db.InOrg(t.Context(), d.org, func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		})
		if err == nil {
			t.Errorf("%s: got no refusal", name)
		}
	}
	for _, id := range []string{"bob", ""} {
		_, err := d.inOrg(func(ctx context.Context, tx pg.Tx) (customer.Customer, error) {
			return customer.Freeze(ctx, tx, d.org, id, by, "")
		})
		if !fault.HasCode(err, fault.CodeNotFound) {
			t.Errorf("%q: got %v, want %v", id, err, fault.CodeNotFound)
		}
	}
	if acts := d.countActions(); acts["freeze.put"] != 4 || acts["freeze.lifted"] != 2 {
		t.Errorf("audit log: got %v, want four put and two lifted", acts)
	}
}
