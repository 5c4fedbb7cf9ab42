package billing_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

func contains(text, part string) bool { return strings.Contains(text, part) }

// Rules BI-1, BI-6, BI-9 and BI-16: a month's network fees are an invoice with the next number.
func TestAMonthOfNetworkFeesIsAnInvoice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.saveTerms(e.one, 1900, "One")
	e.insertMark(ether, "3000", day(1, 10))
	e.insertFee(e.one, ether, "1000000000000000", day(1, 10).Add(time.Minute)) // 3 dollars
	order := e.insertFee(e.one, ether, "2000000000000000", day(1, 10).Add(2*time.Minute))
	e.post(e.one, ether, "FEES_BILLED", "FEES_DUE", "500000000000000", "FEE_PREPAID", "wd_1", 0, day(1,
		10).Add(time.Minute))
	inv := e.bill(e.one)
	if inv.Number != "INV-000001" || inv.Subtotal.Cents() != "7.50" || inv.Tax.Cents() != "1.43" ||
		inv.Total.Cents() != "8.93" || inv.Document.Seller.Name != "Seller" || inv.Document.Buyer.Name != "One" {
		t.Errorf("got the invoice %+v", inv)
	}
	if s := inv.Document.Sections; len(s) != 2 || s[0].Kind != "NETWORK_FEES" && s[1].Kind != "NETWORK_FEES" {
		t.Errorf("got the sections %+v", s)
	}
	e.verify(inv, "")
	e.wantDue(e.one, ether, "2500000000000000")
	if got := e.text(`SELECT count(*) FROM events WHERE type = 'INVOICE_ISSUED' AND resource_id = $1`,
		inv.ID); got != "1" {
		t.Errorf("the organization was told %s times", got)
	}
	e.exec(`UPDATE ledger_transfers SET amount = amount + 1 WHERE cause_id = $1`, order)
	e.verify(inv, "the ledger has 2000000000000001")
	_, err := e.service().MarkPaid(t.Context(), inv.ID, "bank 1", person)
	e.must(err)
	e.exec(`UPDATE ledger_transfers SET amount = amount - 1 WHERE cause_id = $1`, order)
	e.wantDue(e.one, ether, "0")
}

// Rule BI-1: a later correction of a fee is a line with its own sign.
func TestACorrectionOfAFeeIsALineWithItsSign(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	at := day(1, 10).Add(time.Minute)
	order := e.insertFee(e.one, sol, "1000000000", at)
	e.post(e.one, sol, "FEES_BILLED", "FEES_DUE", "200000000", "FEE_CHANGE", order+"/1", 1, at)
	e.post(e.one, sol, "FEES_DUE", "FEES_BILLED", "100000000", "FEE_CHANGE", order+"/2", 1, at)
	inv := e.bill(e.one)
	if inv.Total.Cents() != "135.00" {
		t.Errorf("got a total of %s, want 150 - 30 + 15 dollars", inv.Total.Cents())
	}
}

// Rule BI-6: four thousand fees of 0.00075 dollars are three dollars.
func TestOnlyTheSumOfASectionIsRounded(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	at := day(1, 10).Add(time.Minute)
	e.exec(`INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, floored, created_at)
		SELECT $1, 2, k, '', false, $2 FROM unnest(ARRAY['FEES_DUE', 'FEES_BILLED']) k`, e.one, at)
	e.exec(`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind,
		cause_id, leg,
			created_at)
		SELECT $1, 2, d.account_id, c.account_id, 5000, 'NETWORK_FEE', 'ord_' || n, 1, $2
		FROM ledger_accounts d, ledger_accounts c, generate_series(1, 4000) n WHERE d.kind = 'FEES_DUE' AND c.kind =
			'FEES_BILLED'`,
		e.one, at)
	inv := e.bill(e.one)
	if s := inv.Document.Sections[0]; s.Lines != 4000 || s.USDExact != "3" || s.USD != "3.00" ||
		inv.Total.Cents() != "3.00" {
		t.Errorf("got %+v and a total of %s, want 3 dollars", s, inv.Total.Cents())
	}
}

// Rule BI-10: what is less than a cent is not lost: it waits.
func TestLessThanACentWaits(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "5000", day(1, 10).Add(time.Minute))
	e.set(day(2, 3))
	if r := e.run("2026-01"); len(r.Invoices) != 0 || r.Skipped[0].Reason != billing.NothingYet {
		t.Errorf("got %+v", r)
	}
	e.insertMark(sol, "150", day(2, 10))
	e.insertFee(e.one, sol, "1000000000", day(2, 10))
	e.set(day(3, 3))
	r := e.run("2026-02")
	if len(r.Invoices) != 1 || r.Invoices[0].Document.Sections[0].Lines != 2 ||
		r.Invoices[0].Document.Sections[0].USDExact != "150.00075" {
		t.Errorf("got %+v, want both fees", r)
	}
	if got := e.text(`SELECT next_number FROM invoice_series`); got != "2" {
		t.Errorf("the next number is %s, want 2", got)
	}
}

// Rules BI-3, BI-4 and BI-5: a line takes the newest mark of at most a quarter of an hour before it; without
// one it is named and waits, and an operator may state the price of that time.
func TestALineWithoutAPriceWaits(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	at := day(1, 10)
	e.insertMark(ether, "1", at.Add(-15*time.Minute-time.Second))
	e.insertMark(ether, "5", at.Add(time.Second))
	order := e.insertFee(e.one, ether, "1000000000000000000", at)
	e.insertMark(sol, "2", at.Add(-15*time.Minute))
	e.insertMark(sol, "3", at)
	e.insertFee(e.one, sol, "1000000000", at)
	inv := e.bill(e.one)
	if inv.Total.Cents() != "3.00" {
		t.Errorf("got %s, want 3 dollars: by the newest mark, without the line that has none", inv.Total.Cents())
	}
	waiting, err := e.service().UnpricedLines(t.Context(), 10)
	e.must(err)
	if len(waiting) != 1 || waiting[0].SourceID != order {
		t.Fatalf("got %+v, want the line of %s", waiting, order)
	}
	n, err := e.service().AddMark(t.Context(), billing.AddedMark{
		MintID: ether, Price: money.MustParseUSD("4"), Source: "exchange", Moment: at.Add(-time.Minute),
	}, person)
	if err != nil || n != 1 {
		t.Errorf("valued %d lines, %v", n, err)
	}
	e.set(day(3, 3))
	if r := e.run("2026-02"); len(r.Invoices) != 1 || r.Invoices[0].Total.Cents() != "4.00" {
		t.Errorf("got %+v, want the line on the next invoice", r)
	}
}

// Hostile case L1: a price that is absent all month makes no invoice, and no lost line.
func TestAPriceThatIsAbsentAllMonth(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	for i := range 5 {
		e.insertFee(e.one, ether, "1000000000000000000", day(1, 10+i))
	}
	if n, err := e.service().TakeMarks(t.Context()); n != 0 || err == nil {
		t.Errorf("took %d marks without a price, %v", n, err)
	}
	e.set(day(2, 3))
	if r := e.run("2026-01"); len(r.Invoices) != 0 {
		t.Errorf("got %+v", r)
	}
	lines, err := e.service().UnpricedLines(t.Context(), 10)
	if err != nil || len(lines) != 5 {
		t.Errorf("%d lines wait, %v", len(lines), err)
	}
}

// Rule BI-2: a mark is taken every five minutes, also by two processes.
func TestMarksAreTakenEveryFiveMinutes(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.setPrice(ether, "3000")
	e.setPrice(sol, "150")
	take := func(want int64) {
		t.Helper()
		var wg sync.WaitGroup
		counts := make([]int64, 3)
		for i := range counts {
			wg.Go(func() { counts[i], _ = e.service().TakeMarks(t.Context()) })
		}
		wg.Wait()
		if sum := counts[0] + counts[1] + counts[2]; sum != want {
			t.Errorf("three processes took %d marks, want %d", sum, want)
		}
	}
	take(2)
	take(0)
	e.set(day(1, 10).Add(4 * time.Minute))
	take(0)
	e.set(day(1, 10).Add(5 * time.Minute))
	take(2)
	e.set(day(1, 9)) // the clock was set back: marks of the future count for nothing
	take(2)
}

// Rule BI-7: a month that is not over has no invoice.
func TestAMonthThatIsNotOverIsNotBilled(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.set(time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC))
	_, err := e.service().IssueInvoices(t.Context(), "2026-01", "", person)
	e.wantCode(err, fault.InvalidState)
	for _, month := range []string{"", "2026-13", "2026-1", "january", "2026-01-01"} {
		_, err := e.service().IssueInvoices(t.Context(), month, "", person)
		e.wantCode(err, fault.InvalidRequest)
	}
	_, err = e.service().IssueInvoices(t.Context(), "2025-12", "org_none", person)
	e.wantCode(err, fault.CodeNotFound)
}

// Rule BI-8: an invoice is issued by itself on the day of the terms, at six.
func TestAMonthIsBilledByItself(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.must(e.trySaveTerms(billing.Terms{OrgID: e.other, Party: partyOf("Other"), BillingDay: new(5)}))
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.insertFee(e.other, sol, "1000000000", day(1, 10))
	want := func(now time.Time, n string) {
		t.Helper()
		e.set(now)
		e.collect()
		e.must(e.service().IssueDue(t.Context()))
		if got := e.text(`SELECT count(*) FROM invoices`); got != n {
			t.Errorf("at %s there are %s invoices, want %s", now, got, n)
		}
	}
	third := time.Date(2026, 2, 3, 6, 0, 0, 0, time.UTC)
	want(third.Add(-time.Second), "0")
	want(third, "1")
	want(third.AddDate(0, 0, 2).Add(-time.Second), "1")
	want(third.AddDate(0, 0, 2), "2")
	want(third.AddDate(0, 0, 20), "2")
}

// Crash point L03 and the promise of the database: a run twice at once, with lines that come meanwhile, bills
// each line once and leaves no number out.
func TestTwoRunsBillEachLineOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	at := day(1, 10)
	e.insertMark(sol, "150", at)
	for range 40 {
		e.insertFee(e.one, sol, "1000000000", at)
		e.insertFee(e.other, sol, "1000000000", at)
	}
	e.set(day(2, 3))
	errs := make([]error, 6)
	issued := make([]int, len(errs))
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			switch i % 3 {
			case 2:
				_, errs[i] = e.service().CollectLines(t.Context(), time.Time{})
				_, err := e.service().PriceLines(t.Context(), time.Time{})
				errs[i] = errors.Join(errs[i], err)
			default:
				var r billing.RunResult
				r, errs[i] = e.service().IssueInvoices(t.Context(), "2026-01", "", person)
				issued[i] = r.Issued
			}
		})
	}
	wg.Wait()
	e.must(errors.Join(errs...))
	total := 0
	for _, n := range issued {
		total += n
	}
	if total != 2 {
		t.Errorf("the runs issued %d invoices, want 2", total)
	}
	for sql, want := range map[string]string{
		`SELECT count(*) FROM fee_lines WHERE invoice_id IS NOT NULL`: "80",
		`SELECT count(*) FROM fee_lines`:                              "80",
		`SELECT string_agg(number, ' ' ORDER BY number) FROM invoices`: "INV-000001 " +
			"INV-000002",
		`SELECT count(DISTINCT document_hash) FROM invoices`:                                       "2",
		`SELECT string_agg(total::text, ' ') FROM invoices`:                                        "6000.00 6000.00",
		`SELECT count(*) FROM audit_log WHERE action = 'invoice.issued'`:                           "2",
		`SELECT count(*) FROM events WHERE type = 'INVOICE_ISSUED'`:                                "2",
		`SELECT bool_and(i.org_id = l.org_id) FROM fee_lines l JOIN invoices i USING (invoice_id)`: "true",
	} {
		if got := e.text(sql); got != want {
			t.Errorf("%s: got %s, want %s", sql, got, want)
		}
	}
}

// Hostile case L2: a clock that is set back across the end of the month bills nothing twice, and a document is
// never dated before the one with the number before. A late line is on the next invoice.
func TestAClockThatIsSetBack(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	first := e.bill(e.one)
	e.set(day(1, 20))
	e.insertMark(sol, "200", day(1, 20))
	late := e.insertFee(e.one, sol, "1000000000", day(1, 20))
	_, err := e.service().IssueInvoices(t.Context(), "2026-01", "", person)
	e.wantCode(err, fault.InvalidState)
	e.must(e.service().IssueDue(t.Context()))
	// The clock is right again, but slow: the second organization's invoice is not dated before the first one.
	e.set(day(2, 1))
	e.insertFee(e.other, sol, "1000000000", day(1, 10))
	r := e.run("2026-01")
	if r.Issued != 1 || len(r.Invoices) != 2 {
		t.Fatalf("got %+v, want the invoice of the other organization and the known one", r)
	}
	for _, inv := range r.Invoices {
		if inv.OrgID == e.other && inv.IssuedAt.Before(first.IssuedAt) {
			t.Errorf("number %s is dated %s, before number %s of %s", inv.Number, inv.IssuedAt, first.Number,
				first.IssuedAt)
		}
	}
	e.set(day(3, 3))
	r = e.run("2026-02")
	if len(r.Invoices) != 1 || r.Invoices[0].Total.Cents() != "200.00" {
		t.Fatalf("got %+v, want the late line alone", r)
	}
	if got := e.text(`SELECT source_id FROM fee_lines WHERE invoice_id = $1`, r.Invoices[0].ID); got != late {
		t.Errorf("the line is of %s, want %s", got, late)
	}
}

// Rules BI-11 and BI-12: the mark that an invoice is paid is posted once.
func TestAnInvoiceIsPaidOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertMark(ether, "3000", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.post(e.one, ether, "FEES_BILLED", "FEES_DUE", "1000000000000000", "FEE_PREPAID", "wd_1", 0, day(1, 10))
	inv := e.bill(e.one)
	e.wantDue(e.one, ether, "-1000000000000000")
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i := range errs {
		wg.Go(func() { _, errs[i] = e.service().MarkPaid(t.Context(), inv.ID, "bank 1", person) })
	}
	wg.Wait()
	e.must(errors.Join(errs...))
	_, err := e.service().MarkPaid(t.Context(), inv.ID, "bank 2", person)
	e.wantCode(err, fault.InvalidState)
	_, err = e.service().MarkPaid(t.Context(), inv.ID, "", person)
	e.wantCode(err, fault.InvalidRequest)
	_, err = e.service().MarkPaid(t.Context(), "inv_none", "bank 1", person)
	e.wantCode(err, fault.CodeNotFound)
	e.wantDue(e.one, sol, "0")
	e.wantDue(e.one, ether, "0")
	if got := e.text(`SELECT count(*) FROM audit_log WHERE action = 'invoice.paid'`); got != "1" {
		t.Errorf("it was paid %s times", got)
	}
}

// Rules BI-13 and BI-14: credit notes give back parts of lines, and never more than the invoice has.
func TestACreditNoteNeverExceedsItsInvoice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.saveTerms(e.one, 1900, "One")
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.insertFee(e.one, sol, "2000000000", day(1, 10).Add(time.Minute))
	inv := e.bill(e.one)
	line := e.text(`SELECT fee_line_id FROM fee_lines WHERE amount = 1000000000`)
	credit := func(key string, lines ...billing.CreditLine) (billing.CreditNote, error) {
		return e.service().IssueCreditNote(t.Context(), billing.CreditRequest{
			InvoiceID: inv.ID, IdempotencyKey: key, Reason: "A mistake.", Lines: lines,
		}, person)
	}
	_, err := credit("a", billing.CreditLine{FeeLineID: line, Amount: new(money.Units(1_000_000_001))})
	e.wantCode(err, fault.InvalidAmount)
	_, err = credit("a", billing.CreditLine{FeeLineID: "fee_none"})
	e.wantCode(err, fault.InvalidRequest)
	part := billing.CreditLine{FeeLineID: line, Amount: new(money.Units(400_000_000))}
	note, err := credit("a", part)
	e.must(err)
	if note.Number != "CN-000001" || note.Subtotal.Cents() != "60.00" || note.Total.Cents() != "71.40" ||
		note.Document.Corrects != inv.Number {
		t.Errorf("got the note %+v", note)
	}
	again, err := credit("a", part)
	if err != nil || again.ID != note.ID || !again.IsKnown {
		t.Errorf("the same request made %+v, %v", again, err)
	}
	_, err = credit("a", billing.CreditLine{FeeLineID: line})
	e.wantCode(err, fault.IdempotencyConflict)
	_, err = credit("b", billing.CreditLine{FeeLineID: line, Amount: new(money.Units(600_000_001))})
	e.wantCode(err, fault.InvalidAmount)
	e.wantDue(e.one, sol, "2600000000")
	paid, err := e.service().MarkPaid(t.Context(), inv.ID, "bank 1", person)
	e.must(err)
	if paid.Credited.Cents() != "71.40" || paid.Outstanding.Cents() != "0.00" {
		t.Errorf("got %+v", paid)
	}
	e.wantDue(e.one, sol, "0")
	// After the payment a credit note takes nothing off the fees that are due. Without lines it credits the rest.
	rest, err := credit("c")
	e.must(err)
	if rest.Subtotal.Cents() != "390.00" || rest.Number != "CN-000002" {
		t.Errorf("got the note %+v, want the rest", rest)
	}
	e.wantDue(e.one, sol, "0")
	_, err = credit("d", billing.CreditLine{FeeLineID: line})
	e.wantCode(err, fault.InvalidState)
	e.verify(inv, "")
}

// The database refuses to change what was issued to every role.
func TestNoRoleChangesAnIssuedDocument(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	inv := e.bill(e.one)
	_, err := e.service().IssueCreditNote(t.Context(), billing.CreditRequest{
		InvoiceID: inv.ID, IdempotencyKey: "a", Reason: "A mistake.",
		Lines: []billing.CreditLine{{
			FeeLineID: e.text(`SELECT min(fee_line_id) FROM fee_lines`), Amount: new(money.Units(1_000_000)),
		}},
	}, person)
	e.must(err)
	e.insertMark(sol, "150", day(1, 11))
	e.insertFee(e.one, sol, "5", day(1, 11))
	e.collect()
	e.exec(`SET session_replication_role = origin`)
	attacks := []string{
		`UPDATE invoices SET total = 1`, `UPDATE invoices SET document = '{}'`, `UPDATE invoices SET document_hash =
			'\x00'`,
		`UPDATE invoices SET issued_at = now()`, `UPDATE invoices SET org_id = 'x'`, `DELETE FROM invoices`,
		`UPDATE invoices SET paid_reference = 'x'`, `UPDATE invoices SET status = 'ISSUED'`,
		`UPDATE invoice_sections SET usd = 1`, `DELETE FROM invoice_sections`,
		`INSERT INTO invoice_sections SELECT invoice_id, 'SWAP_FEES', mint_id, org_id, 1, 1, 1, 1 FROM
			invoice_sections`,
		`UPDATE credit_notes SET total = 1`, `DELETE FROM credit_notes`, `UPDATE credit_note_lines SET amount = 1`,
		`INSERT INTO credit_note_lines SELECT credit_note_id, l.fee_line_id, c.org_id, 1, 0 FROM credit_note_lines c,
			fee_lines l
			WHERE l.invoice_id IS NULL`,
		`UPDATE fee_lines SET invoice_id = NULL WHERE invoice_id IS NOT NULL`,
		`UPDATE fee_lines SET usd_value = 1 WHERE invoice_id IS NOT NULL`,
		`UPDATE fee_lines SET invoice_id = (SELECT invoice_id FROM invoices) WHERE invoice_id IS NULL`,
		`UPDATE fee_lines SET invoice_id = 'inv_none' WHERE invoice_id IS NULL`,
		`DELETE FROM fee_lines`, `UPDATE fee_lines SET amount = 1`,
		`UPDATE invoice_series SET next_number = next_number + 1, last_issued_at = last_issued_at`,
		`UPDATE invoice_series SET next_number = 1`, `DELETE FROM invoice_series`,
		`UPDATE billing_terms SET legal_name = 'x'`, `DELETE FROM billing_terms`, `UPDATE price_marks SET price = 1`,
	}
	roles := map[string]func(sql string) error{
		"owner": func(sql string) error {
			_, err := e.owner.Exec(t.Context(), sql)
			return err
		},
		"system": func(sql string) error {
			return e.db.InSystem(t.Context(), func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			})
		},
		"app": func(sql string) error {
			return e.db.InOrg(t.Context(), e.one, func(ctx context.Context, tx pg.Tx) error {
				_, err := tx.Exec(ctx, sql)
				return err
			})
		},
	}
	before := e.text(`SELECT md5(string_agg(i::text, '')) FROM invoices i`)
	for name, try := range roles {
		for _, sql := range attacks {
			if err := try(sql); err == nil {
				t.Errorf("%s may run %s", name, sql)
			}
		}
	}
	if after := e.text(`SELECT md5(string_agg(i::text, '')) FROM invoices i`); after != before {
		t.Error("an invoice changed")
	}
}

// Rule BI-20: an organization sees its own documents alone.
func TestAnInvoiceOfAnotherOrganizationDoesNotExist(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	inv := e.bill(e.one)
	for orgID, want := range map[string]int{e.one: 1, e.other: 0} {
		e.must(e.db.ReadOrg(t.Context(), orgID, func(ctx context.Context, tx pg.Tx) error {
			_, err := billing.LoadInvoice(ctx, tx, inv.ID)
			if want == 0 {
				e.wantCode(err, fault.CodeNotFound)
			} else if err != nil {
				t.Error(err)
			}
			page, err := billing.ListInvoices(ctx, tx, billing.InvoiceFilter{OrgID: orgID}, pagination.Page{Limit: 10})
			if len(page.Items) != want {
				t.Errorf("%s sees %d invoices, want %d", orgID, len(page.Items), want)
			}
			return err
		}))
	}
}

// Rule BI-22: the current month has a provisional total, with what waits from before.
func TestTheCurrentMonthHasAProvisionalTotal(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.insertFee(e.one, ether, "1", day(1, 10))
	e.collect()
	e.must(e.db.ReadOrg(t.Context(), e.one, func(ctx context.Context, tx pg.Tx) error {
		p, err := billing.LoadProvisional(ctx, tx, e.one)
		if p.Month.Name != "2026-01" || p.Subtotal != "150.00" || p.Unpriced != 1 || len(p.Sections) != 1 {
			t.Errorf("got %+v", p)
		}
		return err
	}))
}

// Rule BI-15: terms are checked, have versions, and are on what is issued after them alone.
func TestTermsAreOnWhatIsIssuedAfterThem(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	inv := e.bill(e.one)
	e.must(e.trySaveTerms(billing.Terms{OrgID: e.one, Party: partyOf("New name"), InvoiceSeries: new("ACME")}))
	e.insertMark(sol, "150", day(2, 10))
	e.insertFee(e.one, sol, "1000000000", day(2, 10))
	e.set(day(3, 3))
	next := e.run("2026-02").Invoices[0]
	if next.Number != "ACME-000001" || next.Document.Buyer.Name != "New name" {
		t.Errorf("got %+v", next)
	}
	if same, err := e.service().InvoiceByID(t.Context(), inv.ID); err != nil || same.Document.Buyer.Name != "One" {
		t.Errorf("the issued one says %+v, %v", same.Document.Buyer, err)
	}
	for name, change := range map[string]func(*billing.Terms){
		"no name":          func(x *billing.Terms) { x.Party.Name = "" },
		"two lines":        func(x *billing.Terms) { x.Party.Name = "a\nb" },
		"no address":       func(x *billing.Terms) { x.Party.Address = nil },
		"a long address":   func(x *billing.Terms) { x.Party.Address = make([]string, 9) },
		"a tax over all":   func(x *billing.Terms) { x.TaxRateBps = new(10_001) },
		"a tax below zero": func(x *billing.Terms) { x.TaxRateBps = new(-1) },
		"a series":         func(x *billing.Terms) { x.InvoiceSeries = new("a-b") },
		"one series":       func(x *billing.Terms) { x.InvoiceSeries, x.CreditNoteSeries = new("A"), new("A") },
		"a day":            func(x *billing.Terms) { x.BillingDay = new(29) },
		"a language":       func(x *billing.Terms) { x.Language = new("german") },
	} {
		terms := billing.Terms{OrgID: e.one, Party: partyOf("One")}
		change(&terms)
		if err := e.trySaveTerms(terms); !fault.HasCode(err, fault.InvalidRequest) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	e.wantCode(e.trySaveTerms(billing.Terms{OrgID: "org_none", Party: partyOf("x")}), fault.CodeNotFound)
}

// An organization without terms is named, and keeps its lines.
func TestWithoutTermsNothingIsBilled(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.exec(`DELETE FROM billing_terms WHERE org_id = $1`, e.one)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.set(day(2, 3))
	r := e.run("2026-01")
	if len(r.Invoices) != 0 || fmt.Sprint(r.Skipped) != fmt.Sprintf("[{%s %s} {%s %s}]", min(e.one, e.other),
		reasonOf(e, min(e.one, e.other)), max(e.one, e.other), reasonOf(e, max(e.one, e.other))) {
		t.Errorf("got %+v", r)
	}
}

func reasonOf(e *testEnv, orgID string) billing.SkipReason {
	if orgID == e.one {
		return billing.NoTerms
	}
	return billing.NothingYet
}
