package customer_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// lookAlikes are e-mails that become vip@example.com when folded, or that look like it.
var lookAlikes = []string{
	"\uff56ip@example.com", "v\u0130p@example.com", "vip@exampl\u2110.com", "vip@examp\u2113e.com",
	"v\u2071p@example.com", "\u2174ip@example.com",
	"vip@example\uff0ecom", "vip@example\u2024com", "\U0001d42fip@example.com",
	"vip\u200d@example.com", "vip\u200c@example.com", "v\u034fip@example.com", "vip\ufe0f@example.com",
	"vip@example.com\u2800", "vip\u115f@example.com", "vip@\U000e0069example.com",
}

// Rule CUS-7.
func TestAnEmailThatCouldBeAnotherMailboxIsNotPlain(t *testing.T) {
	t.Parallel()
	for _, email := range lookAlikes {
		if customer.PlainEmail(email) || customer.SameEmail(email, "vip@example.com") {
			t.Errorf(
				"%+q: got it plain %v, the same %v, want neither", email, customer.PlainEmail(email),
				customer.SameEmail(email, "vip@example.com"),
			)
		}
		if err := customer.CheckNewEmail(email); !fault.HasCode(err, fault.InvalidRequest) ||
			fault.Find(err).Param != "customerEmail" {
			t.Errorf("%+q: got %v, want %v", email, err, fault.InvalidRequest)
		}
		if !customer.SameEmail(email, email) {
			t.Errorf("%+q: got it unlike itself", email)
		}
	}
	for _, email := range []string{
		"vip@example.com", "VIP@EXAMPLE.COM", "\u00fc@ex\u00e4mple.de", "\u0432\u0418\u043f@example.com",
		"\u4f60@example.com", "\u03a3\u03c2@example.com", "o'brien+1@example.com",
	} {
		if err := customer.CheckNewEmail(email); err != nil {
			t.Errorf("%+q: got %v, want no refusal", email, err)
		}
	}
}

// The database agrees about every character, except for those that only one of the two knows from a
// newer Unicode version.
func TestTheDatabaseKnowsThePlainEmails(t *testing.T) {
	t.Parallel()
	rows, err := pgtest.OwnerPool(t, pgtest.New(t)).Query(t.Context(), `
		SELECT r FROM generate_series(161, 1114111) r WHERE r NOT BETWEEN 55296 AND 57343 AND NOT email_is_plain('a' || chr(r) || '@example.com')`)
	if err != nil {
		t.Fatal(err)
	}
	refused, err := pgx.CollectRows(rows, pgx.RowTo[rune])
	if err != nil {
		t.Fatal(err)
	}
	not := map[rune]bool{}
	for _, r := range refused {
		not[r] = true
	}
	differ := 0
	for r := rune(161); r <= 1114111; r++ {
		if r >= 0xd800 && r < 0xe000 {
			continue
		}
		if customer.PlainEmail("a"+string(r)+"@example.com") == not[r] {
			if differ++; r < 0xa000 {
				t.Errorf("%U: got plain in Go %v, want what the database says", r, !not[r])
			}
		}
	}
	if differ > 200 || len(refused) < 4000 {
		t.Errorf("got %d characters on which the two differ, and %d refused", differ, len(refused))
	}
}

// Rule CUS-7.
func TestOnlyPlainEmailsAreWrittenAndTrusted(t *testing.T) {
	t.Parallel()
	db, ctx := pgtest.New(t), t.Context()
	o, _, err := org.Create(ctx, db, "Acme")
	if err != nil {
		t.Fatal(err)
	}
	in := func(fn func(context.Context, pg.Tx) error) error { return db.InOrg(ctx, o.ID, fn) }
	ensure := func(id, email string) (c customer.Customer, ignored bool, err error) {
		err = in(func(ctx context.Context, tx pg.Tx) (err error) {
			c, ignored, err = customer.Ensure(ctx, tx, o.ID, id, email)
			return err
		})
		return c, ignored, err
	}
	edit := func(id, email string) (c customer.Customer, err error) {
		err = in(func(ctx context.Context, tx pg.Tx) (err error) {
			c, err = customer.Edit(ctx, tx, o.ID, id, audit.APIKey(o.ID), customer.Change{Email: &email})
			return err
		})
		return c, err
	}
	if _, _, err := ensure("none", ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := ensure("vip", "vip@example.com"); err != nil {
		t.Fatal(err)
	}
	// A row from before the rule about plain e-mails.
	const old = "\uff56ip@example.com"
	super, err := pgx.Connect(ctx, pgtest.DatabaseOf(t, db).SuperURL)
	if err != nil {
		t.Fatal(err)
	}
	defer super.Close(ctx)
	for _, sql := range []string{
		`SET session_replication_role = replica`,
		`INSERT INTO customers (org_id, customer_id, email, created_at, updated_at) SELECT org_id, 'old', U&'\FF56ip@example.com', now() - interval '30 days', now() FROM organizations`,
	} {
		if _, err := super.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, email := range lookAlikes {
		for _, id := range []string{"new", "none"} {
			if _, _, err := ensure(id, email); !fault.HasCode(err, fault.InvalidRequest) {
				t.Errorf("%s with %+q: got %v, want it refused", id, email, err)
			}
		}
		if _, err := edit("vip", email); !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("a change to %+q: got %v, want it refused", email, err)
		}
		for what, sql := range map[string]string{
			"an insert": `INSERT INTO customers (org_id, customer_id, email, created_at, updated_at) VALUES ($1, 'sql', $2, now(), now())`,
			"an update": `UPDATE customers SET email = $2 WHERE org_id = $1 AND customer_id = 'none'`,
		} {
			err := in(func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, sql, o.ID, email)
				return err
			})
			if !pg.ViolatesConstraint(err, "customers_email_plain") {
				t.Errorf("%s of %+q: got %v, want customers_email_plain", what, email, err)
			}
		}
		// A call that would write nothing can be repeated; the e-mail is another mailbox.
		if c, ignored, err := ensure("vip", email); err != nil || !ignored || c.Email != "vip@example.com" {
			t.Errorf("vip with %+q: got %q, ignored %v, %v, want it ignored", email, c.Email, ignored, err)
		}
	}
	if _, _, err := ensure("new", ""); err != nil {
		t.Fatal(err)
	}
	c, ignored, err := ensure("old", old)
	if err != nil || ignored || c.Email != old {
		t.Errorf("the old one again: got %q, ignored %v, %v, want the call to be repeatable", c.Email, ignored, err)
	}
	if got := c.TrustedEmail(time.Now(), customer.CoolingOff); got != "" {
		t.Errorf("got %q trusted, want no rule to trust what is not plain", got)
	}
	if got := c.TrustedEmail(time.Now(), 0); got != "" {
		t.Errorf("got %q trusted without a cooling-off, want no rule to trust what is not plain", got)
	}
	// Another change leaves the old e-mail as it is.
	err = in(func(ctx context.Context, tx pg.Tx) error {
		_, err := customer.Edit(
			ctx, tx, o.ID, "old", audit.APIKey(o.ID), customer.Change{Metadata: map[string]string{"tier": "gold"}},
		)
		return err
	})
	if err != nil {
		t.Errorf("metadata of a row from before: got %v, want it changed", err)
	}
	err = in(func(ctx context.Context, tx pg.Tx) error {
		listed, err := customer.ListNotPlain(ctx, tx, o.ID, 10)
		if len(listed) != 1 || listed[0].ID != "old" {
			t.Errorf("got %v listed, want the old one", listed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	// The plain e-mail is another one and cools off.
	if c, err = edit("old", "vip@example.com"); err != nil || c.Email != "vip@example.com" ||
		c.EmailChangedAt == nil || c.TrustedEmail(time.Now(), customer.CoolingOff) != "" {
		t.Errorf("got %+v and %v, want it changed and not trusted yet", c, err)
	}
}
