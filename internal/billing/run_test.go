package billing_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/identity/changerequest"
	"github.com/cofferpay/coffer/internal/identity/operator"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// Rule BI-24: an organization that fails is named, and the others get their invoices. The run may be repeated.
func TestARunGoesOnAfterAnOrganizationThatFails(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	first := min(e.one, e.other)
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.insertFee(e.other, sol, "2000000000", day(1, 10))
	e.exec(`INSERT INTO invoice_series (series, kind) VALUES ('X', 'CREDIT_NOTE')`)
	e.must(e.trySaveTerms(billing.Terms{OrgID: first, Party: partyOf("First"), InvoiceSeries: new("X")}))
	e.set(day(2, 3))
	r := e.run("2026-01")
	if r.Issued != 1 || len(r.Invoices) != 1 || len(r.Failed) != 1 || r.Failed[0].OrgID != first {
		t.Fatalf("got %+v, want one invoice and one failure", r)
	}
	e.wantCode(r.Failed[0].Err, fault.InvalidState)
	_, err := e.service().IssueInvoices(t.Context(), "2026-01", first, person)
	e.wantCode(err, fault.InvalidState)
	e.must(e.trySaveTerms(billing.Terms{OrgID: first, Party: partyOf("First")}))
	r = e.run("2026-01")
	if r.Issued != 1 || len(r.Invoices) != 2 || len(r.Failed) != 0 {
		t.Errorf("got %+v, want the invoice that was left", r)
	}
}

// Rule BI-7: the month of a fee is the one in UTC in which its transaction was final, to the last microsecond.
func TestTheMonthOfAFeeIsThatOfItsFinalityInUTC(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	end := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC)
	e.insertMark(sol, "100", end.Add(-time.Minute))
	west := time.FixedZone("west", -11*60*60)
	fees := map[string][]string{
		"2026-01": {
			e.insertFee(e.one, sol, "1000000000", end.Add(-time.Microsecond)),
			e.insertFee(e.one, sol, "1000000000", end.Add(-time.Microsecond).In(time.FixedZone("east", 14*60*60))),
		},
		"2026-02": {e.insertFee(e.one, sol, "1000000000", end), e.insertFee(e.one, sol, "1000000000", end.In(west))},
	}
	e.set(day(3, 3))
	for _, month := range []string{"2026-01", "2026-02"} {
		r := e.run(month)
		if len(r.Invoices) != 1 || r.Invoices[0].Total.Cents() != "200.00" {
			t.Fatalf("%s: got %+v, want 200 dollars", month, r)
		}
		got := e.text(`SELECT string_agg(source_id, ' ' ORDER BY source_id) FROM fee_lines WHERE invoice_id = $1`,
			r.Invoices[0].ID)
		if want := fees[month][0] + " " + fees[month][1]; got != want {
			t.Errorf("%s: got the fees of %s, want %s", month, got, want)
		}
	}
}

// insertSwap writes a swap of one sol at a rate, which ended at a moment.
func (e *testEnv) insertSwap(swapID, status string, feeBps int, endedAt time.Time) {
	e.Helper()
	e.exec(`INSERT INTO swaps (swap_id, org_id, customer_id, idempotency_key, key_hash, request_digest, from_mint_id,
			to_mint_id, from_chain, to_chain, amount_in, estimated_out, min_out, provider, deposit_address,
			delivery_wallet_id, refund_wallet_id, pay_by, expires_at, fee_bps, fee_amount, status, paid_at, amount_out,
			origin_tx_hash, destination_tx_hash, completed_at, failed_at, failure_reason, created_at, updated_at)
		SELECT $1, $2, 'c', $1, encode(sha256(convert_to($1, 'UTF8')), 'hex'), '', $5, $6, 'SOLANA', 'ETHEREUM',
			1000000000, 90, 80, 'one', '0x' || $1, 'd' || $1, 'r' || $1, $7, $7, $4, 100000 * $4::int, $3, $7,
			CASE $3 WHEN 'COMPLETED' THEN 85 END, '0xa', '0xb', CASE $3 WHEN 'COMPLETED' THEN $7::timestamptz END,
			CASE $3 WHEN 'FAILED' THEN $7::timestamptz END, CASE $3 WHEN 'FAILED' THEN 'UNKNOWN' END, $7, $7`,
		swapID, e.one, status, feeBps, sol, ether, endedAt)
}

// addSwapLine writes the line of a swap, as the swap's own transaction does.
func (e *testEnv) addSwapLine(swapID string, feeBps int, endedAt time.Time) error {
	return e.db.InSystem(e.Context(), func(ctx context.Context, tx pg.Tx) error {
		return fee.AddLine(ctx, tx, fee.Line{
			OrgID: e.one, Kind: fee.SwapFee, SourceKind: fee.OfSwap, SourceID: swapID, MintID: sol,
			Amount: money.Units(uint64(100_000 * feeBps)), FeeBps: feeBps, IncurredAt: endedAt,
		})
	})
}

// A completed swap is on the invoice of its month with its fee, beside the network fees, and its payment is posted. The
// database refuses the line of a swap that failed, and of one that does not exist.
func TestACompletedSwapIsOnAnInvoiceAndAFailedOneIsNot(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	at := day(1, 10)
	e.insertMark(sol, "150", at)
	e.insertFee(e.one, sol, "1000000000", at)
	e.insertSwap("sw_done", "COMPLETED", 50, at)
	e.insertSwap("sw_failed", "FAILED", 50, at)
	e.must(e.addSwapLine("sw_done", 50, at))
	for _, swapID := range []string{"sw_failed", "sw_none"} {
		if err := e.addSwapLine(swapID, 50, at); !pg.ViolatesConstraint(err, "fee_lines_of_swap") {
			t.Errorf("the line of %s: got %v, want that it is refused", swapID, err)
		}
	}
	inv := e.bill(e.one)
	kinds := map[string]string{}
	for _, x := range inv.Document.Sections {
		kinds[x.Kind] = fmt.Sprint(x.Lines, " ", x.USD)
	}
	if fmt.Sprint(kinds) != "map[NETWORK_FEES:1 150.00 SWAP_FEES:1 0.75]" || inv.Total.Cents() != "150.75" {
		t.Errorf("got the sections %v and a total of %s, want 150.00 and 0.75", kinds, inv.Total.Cents())
	}
	e.verify(inv, "")
	for _, account := range []string{"SWAP_FEES_DUE", "SWAP_FEES_BILLED"} {
		e.exec(`INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, floored, created_at)
			VALUES ($1, $2, $3, '', false, $4) ON CONFLICT DO NOTHING`, e.one, sol, account, at)
	}
	_, err := e.service().MarkPaid(t.Context(), inv.ID, "bank 1", person)
	e.must(err)
	got := e.text(`SELECT sum(amount) FROM ledger_transfers t JOIN ledger_accounts a ON a.account_id = t.credit_account
		WHERE t.cause_kind = 'INVOICE_PAID' AND a.kind = 'SWAP_FEES_DUE'`)
	if got != "5000000" {
		t.Errorf("the payment takes %s off the swap fees that are due, want 5000000", got)
	}
}

// Rule BI-15: where four eyes are required, terms wait for another operator than their author, and are those that were
// shown to both.
func TestTermsWaitForASecondOperatorWhereFourEyesAreRequired(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	makeKey := func(name string) operator.Key {
		key, _, err := operator.CreateKey(t.Context(), e.db, audit.Operator("test"), name)
		e.must(err)
		return key
	}
	ann, ben := makeKey("ann"), makeKey("ben")
	wanted := billing.Terms{OrgID: e.one, Party: partyOf("New name"), TaxRateBps: new(700)}
	request := func(terms billing.Terms) (outcome billing.TermsOutcome, err error) {
		err = e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			outcome, err = e.service().SaveTerms(ctx, tx, ann, changerequest.Rule{Enabled: true}, terms)
			return err
		})
		return outcome, err
	}
	approve := func(key operator.Key, requestID string) error {
		return e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
			_, err := changerequest.Approve(ctx, tx, key, requestID,
				map[changerequest.Kind]func(context.Context, pg.Tx, changerequest.Request) error{
					changerequest.BillingTerms: e.service().ApplyApproved(key),
				})
			return err
		})
	}
	inForce := func(want string) {
		t.Helper()
		terms, err := e.service().TermsByOrg(t.Context(), e.one)
		if err != nil || terms.Party.Name != want {
			t.Errorf("the terms in force are of %q, %v, want %q", terms.Party.Name, err, want)
		}
	}
	outcome, err := request(wanted)
	e.must(err)
	if outcome.PendingChange == nil || outcome.Terms.Party.Name != "One" {
		t.Fatalf("got %+v, want a request and the terms as they were", outcome)
	}
	inForce("One")
	e.wantCode(approve(ann, outcome.PendingChange.ID), fault.ApprovalRefused)
	inForce("One")
	// A second request of the same author was made meanwhile. Only one of both can follow what was in force.
	second, err := request(billing.Terms{OrgID: e.one, Party: partyOf("Other name")})
	e.must(err)
	e.must(approve(ben, outcome.PendingChange.ID))
	inForce("New name")
	e.wantCode(approve(ben, outcome.PendingChange.ID), fault.InvalidState)
	e.wantCode(approve(ben, second.PendingChange.ID), fault.InvalidState)
	inForce("New name")
	if got := e.text(`SELECT changed_by FROM billing_terms WHERE org_id = $1 ORDER BY version DESC LIMIT 1`,
		e.one); got != "OPERATOR "+ben.ID {
		t.Errorf("the terms are changed by %s, want the operator who approved", got)
	}
}

// chainStub says what transactions cost.
type chainStub struct {
	fees   map[string]dispatch.ChainFee // by order
	broken error
}

// ReadFees implements billing.FeeReader.
func (c chainStub) ReadFees(_ context.Context, orderID string) ([]dispatch.ChainFee, error) {
	f, ok := c.fees[orderID]
	if !ok {
		return nil, errors.Join(c.broken, dispatch.ErrInNoBlock)
	}
	return []dispatch.ChainFee{f}, nil
}

// Rule BI-23: an invoice is compared with its chains. The first fee, by time, that a chain tells otherwise is named,
// and so is each that no chain showed.
func TestAnInvoiceIsComparedWithItsChains(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	at := day(1, 10)
	e.insertMark(sol, "150", at)
	const fees = 150 // more than are read at once
	read := map[string]dispatch.ChainFee{}
	var orders []string
	for i := range fees {
		order := e.insertFee(e.one, sol, "1000000000", at.Add(time.Duration(i)*time.Second))
		orders = append(orders, order)
		read[order] = dispatch.ChainFee{
			OrderID: order, Hash: chain.TxHash("0x" + order), Amount: money.Units(1_000_000_000),
		}
	}
	e.post(e.one, sol, "FEES_BILLED", "FEES_DUE", "5", "FEE_PREPAID", orders[0], 0, at)
	inv := e.bill(e.one)
	verify := func() billing.Verification {
		t.Helper()
		s := e.service()
		s.FeeReaders = func(name chain.Name) billing.FeeReader {
			if name != chain.Solana {
				return nil
			}
			return chainStub{fees: read}
		}
		v, err := s.VerifyOnChain(t.Context(), inv.ID)
		e.must(err)
		return v
	}
	if v := verify(); v.Difference != "" || v.ChainFees != fees || len(v.Unread) != 0 || v.Lines != fees+1 {
		t.Errorf("got %+v, want %d fees that the chain confirms", v, fees)
	}
	lineOf := func(order string) string {
		return e.text(`SELECT fee_line_id FROM fee_lines WHERE source_kind = 'NETWORK_FEE' AND source_id = $1`, order)
	}
	unread := []string{orders[3], orders[140]}
	for _, order := range unread {
		delete(read, order)
	}
	v := verify()
	if v.Difference != "" || v.ChainFees != fees-2 || len(v.Unread) != 2 ||
		v.Unread[0].FeeLineID != lineOf(unread[0]) || v.Unread[1].TxHash != "0x"+unread[1] ||
		!contains(v.Unread[1].Reason, dispatch.ErrInNoBlock.Error()) {
		t.Errorf("got %+v, want the two fees that were not shown", v)
	}
	for _, order := range []string{orders[130], orders[100]} {
		f := read[order]
		f.Amount = money.Units(999_999_999)
		read[order] = f
	}
	if v := verify(); !contains(v.Difference, lineOf(orders[100])) || !contains(v.Difference, "999999999") {
		t.Errorf("got the difference %q, want that of the first line, of %s", v.Difference, orders[100])
	}
	other := read[orders[90]]
	other.Hash = "0xother"
	read[orders[90]] = other
	if v := verify(); !contains(v.Difference, lineOf(orders[90])) || !contains(v.Difference, "0xother") {
		t.Errorf("got the difference %q, want the other transaction of %s", v.Difference, orders[90])
	}
	// Without a chain, every fee is named as unread. The ledger comes first: its difference needs no chain.
	v, err := e.service().VerifyOnChain(t.Context(), inv.ID)
	if err != nil || len(v.Unread) != fees || v.ChainFees != 0 ||
		!slices.ContainsFunc(v.Unread, func(u billing.UnreadFee) bool { return contains(u.Reason, "not configured") }) {
		t.Errorf("got %d unread fees, %v", len(v.Unread), err)
	}
	e.exec(`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_id = $1`, orders[7])
	if v := verify(); !contains(v.Difference, "the ledger has 1000000001") {
		t.Errorf("got the difference %q, want that of the ledger", v.Difference)
	}
}

// A line is never written on an invoice, and an invoice takes its lines by one statement: its sections are their sums.
func TestTheSectionsAreWrittenWithTheLines(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	for range 4 {
		e.insertFee(e.one, sol, "1000000000", day(1, 10))
		e.insertFee(e.other, sol, "1000000000", day(1, 10))
	}
	e.collect()
	late := e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.exec(`SET session_replication_role = origin`)
	bind := func(invoiceID, condition string) string {
		return `UPDATE fee_lines SET invoice_id = '` + invoiceID + `' WHERE ` + condition
	}
	one := "org_id = '" + e.one + "'"
	for name, attack := range map[string][]string{
		"lines without an invoice":   {bind("inv_x", one)},
		"lines by two statements":    {bind("inv_x", one+" AND fee_line_id < 'fee_5'"), bind("inv_x", one)},
		"lines of two organizations": {bind("inv_x", "true")},
		"a section beside those of its lines": {
			bind("inv_x", one), `INSERT INTO invoice_sections (invoice_id, kind, mint_id, org_id, lines, amount,
					usd_exact, usd)
				VALUES ('inv_x', 'NETWORK_FEES', 2, '` + e.one + `', 1, 1, 1, 1)`,
		},
		"a new line on an invoice": {`INSERT INTO fee_lines (fee_line_id, org_id, kind, source_kind, source_id, mint_id,
				amount, fee_bps, usd_value, price_mark_id, incurred_at, is_credit, tx_hash, invoice_id)
			SELECT 'fee_x', l.org_id, 'NETWORK_FEE', 'NETWORK_FEE', '` + late + `', l.mint_id, l.amount, 0, l.usd_value,
				l.price_mark_id, l.incurred_at, false, '0x', 'inv_x' FROM fee_lines l WHERE ` + one + ` LIMIT 1`},
	} {
		tx, err := e.owner.Begin(t.Context())
		e.must(err)
		for _, sql := range attack {
			if err == nil {
				_, err = tx.Exec(t.Context(), sql)
			}
		}
		if err == nil {
			err = tx.Commit(t.Context())
		} else {
			e.must(tx.Rollback(t.Context()))
		}
		if err == nil {
			t.Errorf("%s: the database took it", name)
		}
	}
	e.exec(`SET session_replication_role = replica`)
	inv := e.bill(e.one)
	if got := e.text(`SELECT lines || ' ' || amount || ' ' || usd FROM invoice_sections WHERE invoice_id = $1`,
		inv.ID); got != "5 5000000000 750.00" {
		t.Errorf("got the section %s", got)
	}
}
