package swaps

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/swap"
)

// denied is what the database says of a statement that a role may not run.
const denied = "42501"

// attack runs statements as the service of an organization (app) or as the system, and returns the constraint
// that refuses them, or the SQLSTATE where none is named.
func (e *testEnv) attack(asSystem bool, act func(ctx context.Context, tx pg.Tx) error) string {
	e.Helper()
	var err error
	if asSystem {
		err = e.db.InSystem(e.ctx, act)
	} else {
		err = e.db.InOrg(e.ctx, e.org, act)
	}
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return "nothing"
	case !errors.As(err, &refused):
		return err.Error()
	case refused.Code == denied || refused.ConstraintName == "":
		return refused.Code
	}
	return refused.ConstraintName
}

// statements returns an act that runs statements. $swap stands for the id of the swap.
func (e *testEnv) statements(swapID, sql string) func(context.Context, pg.Tx) error {
	return func(ctx context.Context, tx pg.Tx) error {
		for statement := range strings.SplitSeq(sql, ";") {
			if _, err := tx.Exec(ctx, strings.ReplaceAll(statement, "$swap", "'"+swapID+"'")); err != nil {
				return err
			}
		}
		return nil
	}
}

// The database refuses by itself what no code of the service does.
func TestTheDatabaseKeepsTheRowsOfSwaps(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	newSwap := func(key, amount string) swap.Swap {
		r := request(key)
		r.AmountIn = amount
		w, _, err := e.Swaps.Request(e.ctx, e.org, r)
		e.must(err)
		return w
	}
	failed, done, open := newSwap("failed", "100000000"), newSwap("done", "100000000"), newSwap("open", "100000000")
	e.pay(failed.ID)
	e.pay(done.ID)
	e.pay(open.ID)
	e.refund(failed, 100*million)
	e.deliver(done, 99_500_000)
	e.arrive(open.DeliveryWalletID, dollars, 5)
	e.must(e.Swaps.ResumeProvider(e.ctx, e.desk.name, "test", audit.Operator("op")))
	e.signer.admit = nil
	queued := newSwap("queued", "100000000")
	e.want(failed.ID, swap.FailedStatus, swap.RefundComplete)
	e.want(done.ID, swap.Completed, swap.RefundNone)
	e.want(open.ID, swap.Processing, swap.RefundNone)
	const app, system = false, true
	for name, c := range map[string]struct {
		asSystem bool
		id       string
		sql      string
		want     string
	}{
		"another provider": {
			system, open.ID, `UPDATE swaps SET provider = 'X' WHERE swap_id = $swap`,
			"swaps_terms_fixed",
		},
		"another amount": {
			system, open.ID, `UPDATE swaps SET amount_in = 1 WHERE swap_id = $swap`,
			"swaps_terms_fixed",
		},
		"a lower minimum": {
			system, open.ID, `UPDATE swaps SET min_out = 1 WHERE swap_id = $swap`,
			"swaps_terms_fixed",
		},
		"another customer": {
			system, open.ID, `UPDATE swaps SET customer_id = 'bob' WHERE swap_id = $swap`,
			"swaps_terms_fixed",
		},
		"another address": {system, open.ID, `UPDATE swaps SET deposit_address = 'x'
			WHERE swap_id = $swap`, "swaps_terms_fixed"},
		"another wallet": {system, open.ID, `UPDATE swaps SET delivery_wallet_id = refund_wallet_id
			WHERE swap_id = $swap`, "swaps_terms_fixed"},
		"a lower fee": {system, open.ID, `UPDATE swaps SET fee_amount = 0, fee_bps = 0
			WHERE swap_id = $swap`, "swaps_terms_fixed"},
		"more time": {system, queued.ID, `UPDATE swaps SET pay_by = pay_by + '1 day'
			WHERE swap_id = $swap`, "swaps_terms_fixed"},
		"a restored swap by the app": {
			app, open.ID, `INSERT INTO swaps (swap_id, imported_at, owed)
				SELECT 'cs_y', now(), 1 WHERE $swap <> ''`, denied,
		},
		"terms by the app": {app, open.ID, `UPDATE swaps SET amount_in = 1 WHERE swap_id = $swap`, denied},
		"a status by the app": {
			app, open.ID, `UPDATE swaps SET status = 'FAILED' WHERE swap_id = $swap`,
			denied,
		},
		"a refund by the app": {app, failed.ID, `UPDATE swaps SET refunded = 1 WHERE swap_id = $swap`, denied},
		"back to pending": {
			system, open.ID, `UPDATE swaps SET status = 'PENDING' WHERE swap_id = $swap`,
			"swaps_forward",
		},
		"back from an end": {system, done.ID, `UPDATE swaps SET status = 'PROCESSING'
			WHERE swap_id = $swap`, "swaps_forward"},
		"from one end to the other": {system, failed.ID, `UPDATE swaps SET status = 'COMPLETED'
			WHERE swap_id = $swap`, "swaps_forward"},
		"past the processing": {system, queued.ID, `UPDATE swaps SET status = 'COMPLETED'
			WHERE swap_id = $swap`, "swaps_forward"},
		"less refunded": {
			system, failed.ID, `UPDATE swaps SET refunded = 1 WHERE swap_id = $swap`,
			"swaps_numbers_forward",
		},
		"restored by the app alone": {app, failed.ID, `UPDATE swaps SET restored = refunded, restore_count = 1
			WHERE swap_id = $swap`, "swaps_restored"},
		"restored without a count": {
			app, failed.ID, `UPDATE swaps SET restored = 5 WHERE swap_id = $swap`,
			"swaps_numbers_forward",
		},
		"restored twice over": {app, failed.ID, `UPDATE swaps SET restored = 200000000, restore_count = 1
			WHERE swap_id = $swap`, "swaps_numbers"},
		"restored while open": {app, open.ID, `UPDATE swaps SET restored = 1, restore_count = 1
			WHERE swap_id = $swap`, "swaps_numbers"},
		"short without a posting": {system, failed.ID, `UPDATE swaps SET refunded = refunded, short = 1,
			short_count = 1 WHERE swap_id = $swap`, "swaps_numbers"},
		"refunded without arrival": {
			system, open.ID, `UPDATE swaps SET refunded = 1 WHERE swap_id = $swap`,
			"swaps_refunds",
		},
		"paid without a posting": {
			system, queued.ID, `UPDATE swaps SET paid_at = now() WHERE swap_id = $swap`,
			"swaps_paid",
		},
		"paid again": {
			system, open.ID, `UPDATE swaps SET paid_at = now() WHERE swap_id = $swap`,
			"swaps_written_once",
		},
		"another amount out": {
			system, done.ID, `UPDATE swaps SET amount_out = 1 WHERE swap_id = $swap`,
			"swaps_written_once",
		},
		"another reason": {system, failed.ID, `UPDATE swaps SET failure_reason = 'UNKNOWN'
			WHERE swap_id = $swap`, "swaps_written_once"},
		"a refund of a completed": {
			system, done.ID, `UPDATE swaps SET refunded = 1 WHERE swap_id = $swap`,
			"swaps_written_once",
		},
		"completed without delivery": {system, open.ID, `UPDATE swaps SET status = 'COMPLETED', amount_out = 1,
			destination_tx_hash = 'x', completed_at = now() WHERE swap_id = $swap`, "swaps_settled"},
		"completed without a hash": {system, open.ID, `UPDATE swaps SET status = 'COMPLETED', amount_out = 1,
			completed_at = now() WHERE swap_id = $swap`, "swaps_ended"},
		"failed without a void": {
			system, queued.ID, `UPDATE swaps SET status = 'FAILED', failed_at = now(), failure_reason = 'UNKNOWN',
				refunded = amount_in WHERE swap_id = $swap`,
			"swaps_void_first",
		},
		"failed without a reason": {system, open.ID, `UPDATE swaps SET status = 'FAILED', failed_at = now()
			WHERE swap_id = $swap`, "swaps_ended"},
		"failed with its amount": {system, open.ID, `UPDATE swaps SET status = 'FAILED', failed_at = now(),
			failure_reason = 'UNKNOWN', refunded = amount_in WHERE swap_id = $swap`, "swaps_refunds"},
		"deleted": {system, open.ID, `DELETE FROM swaps WHERE swap_id = $swap`, denied},
		"another offer": {system, open.ID, `UPDATE swap_offers SET signed_quote = ''
			WHERE swap_id = $swap`, denied},
		"another report": {system, open.ID, `UPDATE swap_reports SET word = '' WHERE swap_id = $swap`, denied},
		"an arrival of another": {system, open.ID, `UPDATE swap_arrivals SET role = 'DELIVERY'
			WHERE swap_id = $swap`, denied},
		"a credit that is not posted": {
			system, open.ID, `UPDATE swap_arrivals SET decision = 'CREDITED', note = 'x', decided_by = 'x',
				decided_at = now() WHERE swap_id = $swap`,
			"swap_arrivals_posted",
		},
		"a decision about a delivery": {
			system, done.ID, `UPDATE swap_arrivals SET decision = 'KEPT', note = 'x', decided_by = 'x',
				decided_at = now() WHERE swap_id = $swap`,
			"swap_arrivals_decided",
		},
		"a decision by the app": {
			app, open.ID, `UPDATE swap_arrivals SET decision = 'KEPT' WHERE swap_id = $swap`,
			denied,
		},
		"a provider by the app": {app, open.ID, `UPDATE swap_providers SET state = 'ACTIVE'`, denied},
		"a fee of an open swap": {
			system, open.ID, `INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id,
				amount, fee_bps, incurred_at)
				SELECT 'fee_x', org_id, 'SWAP_FEE', 'SWAP', swap_id, from_mint_id, fee_amount, fee_bps, now()
					FROM swaps WHERE swap_id = $swap`,
			"fee_lines_of_swap",
		},
		"a second fee": {
			system, done.ID, `INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id,
				amount, fee_bps, incurred_at)
				SELECT 'fee_x', org_id, 'SWAP_FEE', 'SWAP', swap_id, from_mint_id, fee_amount, fee_bps, completed_at
					FROM swaps WHERE swap_id = $swap`,
			"fee_lines_source_once",
		},
		"a fee by the app":        {app, open.ID, `INSERT INTO fee_lines (fee_line_id) VALUES ('x')`, denied},
		"a lower fee line":        {system, done.ID, `UPDATE fee_lines SET amount = 0 WHERE source_id = $swap`, denied},
		"a swap that began ended": {system, open.ID, copySwap(`'cs_copy'`, `'PROCESSING'`, `'y'`), "swaps_begin"},
		"a swap with the wallets of another": {
			system, open.ID, copySwap(`'cs_copy'`, `'PENDING'`, `'y'`), "swaps_own_wallets",
		},
		"a swap of a key that has one": {
			app, open.ID, copySwap(`swap_id`, `'PENDING'`, `deposit_address`), "swaps_pkey",
		},
	} {
		if got := e.attack(c.asSystem, e.statements(c.id, c.sql)); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	e.look("the attacks")

	// What moves the money of a swap follows its row.
	account := func(kind ledger.Kind, subject string) ledger.Account {
		return ledger.Account{OrgID: e.org, MintID: dollars, Kind: kind, Subject: subject}
	}
	customer, inSwap, desk := account(ledger.Customer, "ann"), account(ledger.InSwap,
		"ann"), account(ledger.AtProvider, e.desk.name)
	for name, c := range map[string]struct {
		cause         ledger.Cause
		debit, credit ledger.Account
		want          string
	}{
		"a restore that no row has": {
			ledger.Cause{Kind: ledger.SwapRestore, ID: failed.ID + "/1"},
			inSwap,
			customer, "ledger_transfers_of_swap",
		},
		"a restore of an open swap": {
			ledger.Cause{Kind: ledger.SwapRestore, ID: open.ID + "/0"},
			inSwap,
			customer, "ledger_transfers_of_swap",
		},
		"a restore that no row counts": {
			ledger.Cause{Kind: ledger.SwapRestore, ID: failed.ID + "/0"},
			inSwap,
			customer, "ledger_transfers_of_swap",
		},
		"a shortfall that no row counts": {
			ledger.Cause{Kind: ledger.SwapShort, ID: failed.ID + "/0"},
			inSwap, desk,
			"ledger_transfers_of_swap",
		},
		"a second hold": {
			ledger.Cause{Kind: ledger.SwapHold, ID: open.ID},
			customer, inSwap,
			"ledger_transfers_cause_once",
		},
		"a hold of another amount": {
			ledger.Cause{Kind: ledger.SwapHold, ID: "cs_x"},
			customer, inSwap,
			"ledger_transfers_of_swap",
		},
		"an end of an open swap": {
			ledger.Cause{Kind: ledger.SwapEnd, ID: open.ID},
			inSwap, desk,
			"ledger_transfers_of_swap",
		},
		"a payment that was not made": {
			ledger.Cause{Kind: ledger.SwapPaid, ID: queued.ID},
			desk,
			account(ledger.Custody, ""), "ledger_transfers_of_swap",
		},
		"a shortfall that no row has": {
			ledger.Cause{Kind: ledger.SwapShort, ID: failed.ID + "/1"},
			inSwap, desk,
			"ledger_transfers_of_swap",
		},
		"an arrival that no one chose": {ledger.Cause{Kind: ledger.Arrival, ID: "dep_x"}, account(ledger.Suspense,
			""), customer, "ledger_transfers_of_arrival"},
	} {
		amount := units(100 * million)
		if c.cause.Kind == ledger.Arrival {
			amount = units(5)
		}
		got := e.attack(true, func(ctx context.Context, tx pg.Tx) error {
			return ledger.Post(ctx, tx, ledger.Posting{Cause: c.cause, Legs: []ledger.Leg{{
				Debit:  c.debit,
				Credit: c.credit, Amount: amount,
			}}})
		})
		if got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	e.look("the postings")

	// An organization sees its own swaps alone.
	if err := e.db.InOrg(e.ctx, "org_other", func(ctx context.Context, tx pg.Tx) error {
		var n int
		err := tx.QueryRow(ctx, `SELECT (SELECT count(*) FROM swaps) + (SELECT count(*)
			FROM swap_offers) + (SELECT count(*) FROM swap_reports)
			+ (SELECT count(*) FROM swap_arrivals) + (SELECT count(*) FROM fee_lines WHERE kind = 'SWAP_FEE')`).Scan(&n)
		if err == nil && n != 0 {
			t.Errorf("another organization sees %d rows", n)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// copySwap returns a statement that inserts a swap with the wallets of another.
func copySwap(id, status, address string) string {
	return `INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id,
		to_mint_id, from_chain, to_chain,
			amount_in, estimated_out, min_out, provider, deposit_address, delivery_wallet_id, refund_wallet_id,
				pay_by, expires_at, fee_bps, fee_amount,
			status, created_at, updated_at)
		SELECT ` + id + `, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id, to_mint_id,
			from_chain, to_chain,
			amount_in, estimated_out, min_out, provider, ` + address + `, delivery_wallet_id, refund_wallet_id,
				pay_by, expires_at, fee_bps, fee_amount,
			` + status + `, created_at, updated_at FROM swaps WHERE swap_id = $swap`
}
