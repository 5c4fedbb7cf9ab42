package checkouts

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
)

// attackEnv has a checkout in each state, by name.
type attackEnv struct {
	*testEnv
	open, part, processing, done, expired, cancelled, theirs string
}

func newAttackEnv(t *testing.T) *attackEnv {
	t.Helper()
	e := &attackEnv{testEnv: newTestEnv(t)}
	productID := e.product()
	once := e.product(oncePerReference)
	keys := 0
	begin := func(productID string, mintIDs ...int) string {
		keys++
		return e.checkout(request(productID, func(r *checkout.CheckoutRequest) {
			r.IdempotencyKey, r.Reference = new(fmt.Sprint("key-", keys)), new(fmt.Sprint("order-", keys))
		}), mintIDs...)
	}
	e.expired = begin(productID, dollars)
	e.pass(32 * time.Minute)
	e.open, e.part, e.done = begin(once, dollars, solanaDollars), begin(productID, dollars), begin(productID, dollars)
	e.cancelled, e.processing = begin(productID, dollars), begin(productID, dollars)
	e.pay(e.part, dollars, 40*million)
	e.paid(e.done, dollars, 100*million)
	e.seen(e.processing, dollars, 100*million)
	_, err := e.Checkouts.CancelCheckout(e.ctx, e.org, e.cancelled, audit.Operator("ann"))
	e.must(err)
	for id, status := range map[string]outcome.Status{
		e.open: outcome.Open, e.part: outcome.Open, e.processing: outcome.Processing, e.done: outcome.Completed,
		e.expired: outcome.Expired, e.cancelled: outcome.Cancelled,
	} {
		if c := e.load(id); c.Status != status {
			t.Fatalf("got a checkout that is %s, want %s", c.Status, status)
		}
	}
	p, _, err := e.Checkouts.Create(e.ctx, e.other, checkout.Request{Draft: func() checkout.Draft {
		d := checkout.NewDraft()
		d.Name, d.PriceType, d.Price, d.AcceptedMintIDs = "Silver", checkout.FixedPrice, new("90"), []int{dollars}
		return d
	}(), Actor: audit.APIKey("key")})
	e.must(err)
	c, _, err := e.Checkouts.CreateCheckout(e.ctx, e.other, request(p.ID))
	e.must(err)
	e.theirs = c.ID
	_, err = e.Checkouts.OpenOption(e.ctx, e.other, e.theirs, dollars)
	e.must(err)
	return e
}

// The tables refuse what the program does not try, also to their owner. Rules CO-2, CO-4 and CO-10.
func TestTheTablesKeepTheRulesOfCheckouts(t *testing.T) {
	t.Parallel()
	e := newAttackEnv(t)
	owner := pgtest.OwnerPool(t, e.db)
	before := e.snapshot()
	set := func(what string) string {
		return `UPDATE checkouts SET version = version + 1, ` + what + ` WHERE checkout_id = $1`
	}
	fresh := func(members string) string {
		return `INSERT INTO checkouts SELECT (jsonb_populate_record(c, '{"checkout_id": "co_x", "version": 1,
			"idempotency_key": null, "key_hash": null` + members + `}')).* FROM checkouts c WHERE checkout_id = $1`
	}
	option := func(members string) string {
		return `INSERT INTO checkout_options SELECT (jsonb_populate_record(o, '{"mint_id": 2` + members +
			`}')).* FROM checkout_options o WHERE checkout_id = $1 AND mint_id = 1`
	}
	quote := func(members string) string {
		return `INSERT INTO checkout_quotes SELECT (jsonb_populate_record(q, '{"seq": 9` + members +
			`}')).* FROM checkout_quotes q WHERE checkout_id = $1 AND mint_id = 1`
	}
	payment := func(what string) string { return `UPDATE checkout_payments SET ` + what + ` WHERE checkout_id = $1` }
	const completed = `status = 'COMPLETED', completed_at = now(), `
	for _, c := range []struct{ name, constraint, id, sql string }{
		{"another amount due", "checkouts_terms_fixed", e.open, set(`due = 1, need = 1`)},
		{"a lower need", "checkouts_terms_fixed", e.open, set(`need = 95`)},
		{"other items", "checkouts_terms_fixed", e.open, set(`line_items = '[1]'`)},
		{"another currency", "checkouts_terms_fixed", e.open, set(`currency = 'ETH'`)},
		{"other mints", "checkouts_terms_fixed", e.open, set(`accepted_mint_ids = '{4}'`)},
		{"another tolerance", "checkouts_terms_fixed", e.open, set(`under_bps = 1000`)},
		{"another policy", "checkouts_terms_fixed", e.open, set(`late_policy = 'HOLD'`)},
		{"another way back", "checkouts_terms_fixed", e.open, set(`success_url = 'https://evil.example/'`)},
		{"another reference", "checkouts_terms_fixed", e.open, set(`reference = 'order-9'`)},
		{"other metadata", "checkouts_terms_fixed", e.open, set(`metadata = '{}'`)},
		{"another organization", "checkouts_terms_fixed", e.open, set(`org_id = '` + e.other + `'`)},
		{"another key", "checkouts_terms_fixed", e.open, set(`idempotency_key = 'k'`)},
		{"another day", "checkouts_terms_fixed", e.open, set(`created_at = created_at - interval '1 s'`)},
		{
			"a change that does not count", "checkouts_version_forward", e.open,
			`UPDATE checkouts SET is_extended = true WHERE checkout_id = $1`,
		},
		{"an earlier change", "checkouts_version_forward", e.open, set(`updated_at = created_at - interval '1 d'`)},
		{
			"completed without a payment", "checkouts_completed_by_payments", e.open,
			set(completed + `completed_with = 100`),
		},
		{"completed with nothing", "checkouts_completed_by_payments", e.open, set(completed + `completed_with = 0`)},
		{
			"a person completes what is not paid", "checkouts_completed_by_payments", e.open,
			set(completed + `completed_with = 0, decided_by = 'x', decided_reason = 'y'`),
		},
		{
			"completed before the credit", "checkouts_completed_by_payments", e.processing,
			set(completed + `completed_with = 100`),
		},
		{"completed with more", "checkouts_completed_by_payments", e.part, set(completed + `completed_with = 100`)},
		{"completed with a part", "checkouts_paid", e.part, set(completed + `completed_with = 40`)},
		{
			"completed without a sum", "checkouts_completed_by_payments", e.part,
			set(`status = 'COMPLETED', completed_at = now()`),
		},
		{"completed again", "checkouts_completed_once", e.done, set(`completed_at = now()`)},
		{"completed with another sum", "checkouts_completed_once", e.done, set(`completed_with = 99.9`)},
		{
			"not completed any more", "checkouts_completed_once", e.done,
			set(`status = 'OPEN', completed_at = NULL, completed_with = NULL`),
		},
		{"decided afterwards", "checkouts_completed_once", e.done, set(`decided_by = 'x', decided_reason = 'y'`)},
		{"decided and open", "checkouts_decided_once", e.open, set(`decided_by = 'x', decided_reason = 'y'`)},
		{"expired and open again", "checkouts_transition_known", e.expired, set(`status = 'OPEN'`)},
		{
			"expired and cancelled", "checkouts_transition_known", e.expired,
			set(`status = 'CANCELLED', cancelled_at = now()`),
		},
		{"cancelled and open again", "checkouts_transition_known", e.cancelled, set(`status = 'OPEN'`)},
		{
			"cancelled while it is paid", "checkouts_transition_known", e.processing,
			set(`status = 'CANCELLED', cancelled_at = now()`),
		},
		{"expired while it is paid", "checkouts_transition_known", e.processing, set(`status = 'EXPIRED'`)},
		{"another status", "checkouts_transition_known", e.open, set(`status = 'PAID'`)},
		{"cancelled at no moment", "checkouts_cancelled", e.open, set(`status = 'CANCELLED'`)},
		{"cancelled at another moment", "checkouts_cancelled_once", e.cancelled, set(`cancelled_at = now()`)},
		{"never cancelled", "checkouts_cancelled_once", e.cancelled, set(`cancelled_at = NULL`)},
		{"cancelled and open", "checkouts_cancelled_once", e.open, set(`cancelled_at = now()`)},
		{"an earlier end", "checkouts_end_forward", e.open, set(`expires_at = expires_at - interval '1 s'`)},
		{"extended again", "checkouts_end_forward", e.part, set(`is_extended = false`)},
		{"more credited than seen", "checkouts_amounts", e.open, set(`counted = 1`)},
		{"another exception", "checkouts_exceptions_known", e.open, set(`exceptions = '{FINE}'`)},
		{"deleted", "checkouts_append_only", e.open, `DELETE FROM checkouts WHERE checkout_id = $1`},
		{"a second one of its reference", "checkouts_reference_once", e.open, fresh(``)},
		{"begins completed", "checkouts_begin", e.open, fresh(`, "status": "COMPLETED"`)},
		{"begins cancelled", "checkouts_begin", e.open, fresh(`, "cancelled_at": "2026-01-01"`)},
		{"begins with payments", "checkouts_begin", e.open, fresh(`, "seen": 100`)},
		{"begins later", "checkouts_begin", e.open, fresh(`, "version": 2`)},
		{"gives away more than a tenth", "checkouts_due", e.open, fresh(`, "reference": "r", "need": 89.99`)},
		{"costs nothing", "checkouts_due", e.open, fresh(`, "reference": "r", "due": 0, "need": 0`)},
		{"needs more than it costs", "checkouts_due", e.open, fresh(`, "reference": "r", "need": 100.01`)},
		{
			"accepts a mint twice", "checkouts_mints_known", e.open,
			fresh(`, "reference": "r", "accepted_mint_ids": [1, 1]`),
		},
		{
			"accepts an absent mint", "checkouts_mints_known", e.open,
			fresh(`, "reference": "r", "accepted_mint_ids": [99]`),
		},
		{"accepts nothing", "checkouts_mints_bounded", e.open, fresh(`, "reference": "r", "accepted_mint_ids": []`)},
		{"sells nothing", "checkouts_items_list", e.open, fresh(`, "reference": "r", "line_items": []`)},
		{"leads to a script", "checkouts_urls_web", e.open, fresh(`, "reference": "r", "success_url": "javascript:x"`)},
		{
			"has a key without its hash", "checkouts_key_hashed", e.open,
			fresh(`, "reference": "r", "idempotency_key": "k"`),
		},
		{"is the only one of no reference", "checkouts_reference_named", e.open, fresh(`, "reference": null`)},

		{"an option at another checkout's wallet", "checkout_options_own_wallet", e.open, option(`, "wallet_id": "` +
			e.walletOf(e.part) + `"`)},
		{
			"an option at another organization's wallet", "checkout_options_own_wallet", e.open,
			option(`, "wallet_id": "` + e.walletOf(e.theirs) + `"`),
		},
		{
			"an option at the treasury", "checkout_options_own_wallet", e.open,
			option(`, "wallet_id": "` + e.texts(`SELECT wallet_id FROM wallets
				WHERE purpose = 'TREASURY' AND family = 'EVM' AND org_id = $1`, e.org)[0] + `"`),
		},
		{"an option that shares its own wallet", "checkout_options_own_wallet", e.open, option(`, "reference": "\\x` +
			fmt.Sprintf("%064x", 1) + `", "shared_wallet_id": "` + e.walletOf(e.open) + `"`)},
		{"an option in a mint that is not accepted", "checkout_options_accepted", e.open, option(`, "mint_id": 4`)},
		{
			"a reference without the shared wallet", "checkout_options_reference_whole", e.open,
			option(`, "reference": "\\x` + fmt.Sprintf("%064x", 1) + `"`),
		},
		{"another organization's option", "checkout_options_checkout", e.open, option(`, "org_id": "` + e.other + `"`)},
		{
			"another wallet later", "checkout_options_append_only", e.open,
			`UPDATE checkout_options SET wallet_id = wallet_id WHERE checkout_id = $1`,
		},
		{
			"no option any more", "checkout_options_append_only", e.open,
			`DELETE FROM checkout_options WHERE checkout_id = $1`,
		},

		{"a quote of nothing", "checkout_quotes_positive", e.open, quote(`, "amount": 0`)},
		{"a quote without a price", "checkout_quotes_positive", e.open, quote(`, "price": 0`)},
		{"a quote that ends first", "checkout_quotes_positive", e.open, quote(`, "expires_at": "2020-01-01"`)},
		{"a quote of an option that is not opened", "checkout_quotes_option", e.open, quote(`, "mint_id": 2`)},
		{"another organization's quote", "checkout_quotes_checkout", e.open, quote(`, "org_id": "` + e.other + `"`)},
		{
			"a better quote later", "checkout_quotes_append_only", e.open,
			`UPDATE checkout_quotes SET price = 9 WHERE checkout_id = $1`,
		},
		{
			"no quote any more", "checkout_quotes_append_only", e.open,
			`DELETE FROM checkout_quotes WHERE checkout_id = $1`,
		},

		{"another value", "checkout_payments_valued_once", e.part, payment(`counted = 100`)},
		{"another price", "checkout_payments_valued_once", e.part, payment(`price = 2`)},
		{"another quote", "checkout_payments_valued_once", e.part, payment(`quote_seq = NULL`)},
		{"another moment", "checkout_payments_valued_once", e.part, payment(`moment = now()`)},
		{"late after all", "checkout_payments_valued_once", e.part, payment(`in_time = false`)},
		{"no value any more", "checkout_payments_valued_once", e.part, payment(`price = NULL, currency_price = NULL,
			price_source = NULL, priced_at = NULL, counted = NULL, quote_seq = NULL, counts = false`)},
		{"another amount", "checkout_payments_amount_fixed", e.part, payment(`amount = 100`)},
		{"another amount with its value", "checkout_payments_amount_fixed", e.processing, payment(`amount = 1`)},
		{"another status", "checkout_payments_status_known", e.part, payment(`status = 'PAID'`)},
		{
			"another checkout's payment", "checkout_payments_append_only", e.part,
			payment(`checkout_id = '` + e.open + `'`),
		},
		{"another sight", "checkout_payments_append_only", e.part, payment(`seen_at = now()`)},
		{
			"no payment any more", "checkout_payments_append_only", e.part,
			`DELETE FROM checkout_payments WHERE checkout_id = $1`,
		},
		{
			"a payment without a deposit", "checkout_payments_deposit", e.part,
			`INSERT INTO checkout_payments SELECT (jsonb_populate_record(p, '{"deposit_id": "dep_x"}')).*
			FROM checkout_payments p WHERE checkout_id = $1`,
		},
		{
			"a deposit without a payment", "deposits_of_checkouts", e.part,
			`INSERT INTO deposits SELECT (jsonb_populate_record(d, '{"deposit_id": "dep_x", "tx_hash": "x",
				"proof_id": null, "status": "CONFIRMING", "chain_status": "INCLUDED",
				"credited_at": null, "confirmed_at": null}')).*
			FROM deposits d WHERE checkout_id = $1`,
		},
		{
			"an unmatched deposit without a deposit", "checkout_unmatched_deposit", e.part,
			`INSERT INTO checkout_unmatched (deposit_id, org_id, amount, reason, seen_at)
			SELECT 'dep_x', org_id, 1, 'NO_REFERENCE', now() FROM checkouts WHERE checkout_id = $1`,
		},
		{
			"an unmatched deposit for another reason", "checkout_unmatched_reason_known", e.part,
			`INSERT INTO checkout_unmatched (deposit_id, org_id, amount, reason, seen_at)
			SELECT 'dep_x', org_id, 1, 'NO_CHECKOUT', now() FROM checkouts WHERE checkout_id = $1`,
		},
		{
			"settings that give away everything", "checkout_settings_bounded", e.part,
			`INSERT INTO checkout_settings (org_id, version, under_usd, cost_max_bps, updated_at, updated_by)
			SELECT org_id, 1, 1001, 300, now(), 'x' FROM checkouts WHERE checkout_id = $1`,
		},
		{
			"a script as the way to the shop", "checkout_settings_words", e.part,
			`INSERT INTO checkout_settings (org_id, version, support_url, under_usd, cost_max_bps, updated_at,
				updated_by)
			SELECT org_id, 1, 'javascript:x', 0, 300, now(), 'x' FROM checkouts WHERE checkout_id = $1`,
		},
	} {
		if _, err := owner.Exec(t.Context(), c.sql, c.id); !pg.ViolatesConstraint(err, c.constraint) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.constraint)
		}
	}
	if after := e.snapshot(); after != before {
		t.Errorf("the attacks changed%s", compare(before, after))
	}
}

// walletOf returns the id of the wallet of a checkout.
func (e *testEnv) walletOf(checkoutID string) string {
	e.Helper()
	return e.texts(`SELECT wallet_id FROM wallets WHERE purpose = 'CHECKOUT' AND subject = $1 AND family = $2`,
		checkoutID, string(chain.EVM))[0]
}

// The roles of the program write only what their part of the program writes, and see no other organization.
// Rules CO-10 and CO-27.
func TestTheRolesWriteOnlyTheirPartOfCheckouts(t *testing.T) {
	t.Parallel()
	e := newAttackEnv(t)
	before := e.snapshot()
	inOrg := func(fn func(context.Context, pg.Tx) error) error { return e.db.InOrg(e.ctx, e.org, fn) }
	inOther := func(fn func(context.Context, pg.Tx) error) error { return e.db.InOrg(e.ctx, e.other, fn) }
	inSystem := func(fn func(context.Context, pg.Tx) error) error { return e.db.InSystem(e.ctx, fn) }
	for _, c := range []struct {
		name string
		as   func(func(context.Context, pg.Tx) error) error
		sql  string
	}{
		{"the terms", inOrg, `UPDATE checkouts SET due = due`},
		{"the reference", inOrg, `UPDATE checkouts SET reference = reference`},
		{"deleting", inOrg, `DELETE FROM checkouts`},
		{"an option", inOrg, `UPDATE checkout_options SET wallet_id = wallet_id`},
		{"a quote", inOrg, `UPDATE checkout_quotes SET price = price`},
		{"a payment", inOrg, `INSERT INTO checkout_payments SELECT * FROM checkout_payments`},
		{"the status of a payment", inOrg, `UPDATE checkout_payments SET status = 'CREDITED'`},
		{"the value of a payment", inOrg, `UPDATE checkout_payments SET counted = counted`},
		{"the moment of a payment", inOrg, `UPDATE checkout_payments SET moment = moment`},
		{"what is unmatched", inOrg, `INSERT INTO checkout_unmatched SELECT * FROM checkout_unmatched`},
		{
			"a checkout of another organization", inOther,
			`INSERT INTO checkout_settings (org_id, version, under_usd, cost_max_bps, updated_at, updated_by)
			VALUES ('` + e.org + `', 1, 0, 300, now(), 'x')`,
		},
		{
			"an option of another organization", inOther,
			`INSERT INTO checkout_options (checkout_id, mint_id, org_id, wallet_id, opened_at)
			VALUES ('` + e.open + `', 2, '` + e.org + `', '` + e.walletOf(e.open) + `', now())`,
		},
		{"a checkout by the system", inSystem, `INSERT INTO checkouts SELECT * FROM checkouts`},
		{"a cancellation by the system", inSystem, `UPDATE checkouts SET cancelled_at = cancelled_at`},
		{"an option by the system", inSystem, `INSERT INTO checkout_options SELECT * FROM checkout_options`},
		{"a quote by the system", inSystem, `INSERT INTO checkout_quotes SELECT * FROM checkout_quotes`},
		{"the terms by the system", inSystem, `UPDATE checkouts SET need = need`},
		{"the sight by the system", inSystem, `UPDATE checkout_payments SET seen_at = seen_at`},
		{"the checkout of a payment", inSystem, `UPDATE checkout_payments SET checkout_id = checkout_id`},
		{"settings by the system", inSystem, `UPDATE checkout_settings SET under_usd = 1`},
	} {
		err := c.as(func(ctx context.Context, tx pg.Tx) error {
			_, err := tx.Exec(ctx, c.sql)
			return err
		})
		var refused *pgconn.PgError
		// A trigger that does not see the other organization's wallet refuses before the policy of the table does.
		isRefused := errors.As(err, &refused) && refused.Code == "42501" ||
			pg.ViolatesConstraint(err, "checkout_options_own_wallet")
		if !isRefused {
			t.Errorf("%s: got %v, want no permission", c.name, err)
		}
	}
	for _, sql := range []string{
		`UPDATE checkouts SET version = version + 1 WHERE org_id = '` + e.org + `'`,
		`UPDATE checkout_payments SET counts = false`,
		`SELECT FROM checkouts WHERE org_id = '` + e.org + `'`,
		`SELECT FROM checkout_options WHERE org_id = '` + e.org + `'`,
		`SELECT FROM checkout_quotes WHERE org_id = '` + e.org + `'`,
		`SELECT FROM checkout_payments`,
	} {
		e.must(inOther(func(ctx context.Context, tx pg.Tx) error {
			tag, err := tx.Exec(ctx, sql)
			if err == nil && tag.RowsAffected() != 0 {
				t.Errorf("%s: got %d rows of another organization, want none", sql, tag.RowsAffected())
			}
			return err
		}))
	}
	for name, call := range map[string]func() error{
		"read": func() error { _, err := e.Checkouts.CheckoutByID(e.ctx, e.other, e.open); return err },
		"open": func() error { _, err := e.Checkouts.OpenOption(e.ctx, e.other, e.open, ether); return err },
		"cancel": func() error {
			_, err := e.Checkouts.CancelCheckout(e.ctx, e.other, e.open, audit.APIKey("x"))
			return err
		},
		"accept": func() error {
			_, err := e.Checkouts.AcceptCheckout(e.ctx, e.other, e.part, "mine", audit.APIKey("x"))
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s a checkout of another organization: got no refusal", name)
		} else {
			e.wantFault(err, "NOT_FOUND")
		}
	}
	if after := e.snapshot(); after != before {
		t.Errorf("the attacks changed%s", compare(before, after))
	}
}
