package billing_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

// insertFees posts many network fees of one organization at once, each of so many atomic units.
func (e *testEnv) insertFees(orgID string, mintID int, at time.Time, amounts []int64) {
	e.Helper()
	e.exec(`INSERT INTO ledger_accounts (org_id, mint_id, kind, subject, floored, created_at)
		SELECT $1, $2, k, '', false, $3 FROM unnest(ARRAY['FEES_DUE', 'FEES_BILLED']) k ON CONFLICT DO NOTHING`,
		orgID, mintID, at)
	e.exec(`INSERT INTO ledger_transfers (org_id, mint_id, debit_account, credit_account, amount, cause_kind,
		cause_id, leg,
			created_at)
		SELECT $1, $2, d.account_id, c.account_id, x.amount, 'NETWORK_FEE', 'many_' || ($2::int)::text || '_' || x.n,
			1, $3
		FROM ledger_accounts d, ledger_accounts c, unnest($4::bigint[]) WITH ORDINALITY AS x (amount, n)
		WHERE (d.org_id, d.mint_id, d.kind, c.org_id, c.mint_id, c.kind) = ($1, $2, 'FEES_DUE', $1, $2, 'FEES_BILLED')`,
		orgID, mintID, at, amounts)
}

// Rule BI-6: for any fees, each line is its amount at its price rounded down at 18 digits, a section is exactly
// the sum of its lines, and the total is within half a cent for each section of what all lines are worth.
func TestASectionIsTheSumOfItsLines(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	at := day(1, 10)
	random := rand.New(rand.NewPCG(7, 11))
	prices := map[int]string{ether: "3123.456789012345678", sol: "151.999999999999999999"}
	decimals := map[int]int64{ether: 18, sol: 9}
	exact := map[int]*big.Int{ether: new(big.Int), sol: new(big.Int)} // in 10^-18 dollars
	for mintID, dollars := range prices {
		e.insertMark(mintID, dollars, at)
		price, _ := new(big.Rat).SetString(dollars)
		scaled := new(big.Rat).Mul(price, new(big.Rat).SetInt(pow10(18)))
		amounts := make([]int64, 500)
		for i := range amounts {
			amounts[i] = 1 + random.Int64N(1_000_000_000_000)
			worth := new(big.Int).Mul(big.NewInt(amounts[i]), scaled.Num())
			exact[mintID].Add(exact[mintID], worth.Div(worth, pow10(decimals[mintID])))
		}
		e.insertFees(e.one, mintID, at, amounts)
	}
	inv := e.bill(e.one)
	all := new(big.Rat)
	for _, s := range inv.Document.Sections {
		mintID := map[string]int{"ETH": ether, "SOL": sol}[s.Symbol]
		want := new(big.Rat).SetFrac(exact[mintID], pow10(18))
		got, _ := new(big.Rat).SetString(s.USDExact)
		if got.Cmp(want) != 0 {
			t.Errorf("the section of %s is worth %s, and its lines %s", s.Symbol, s.USDExact, want.FloatString(18))
		}
		rounded, _ := new(big.Rat).SetString(s.USD)
		if diff := new(big.Rat).Sub(rounded, want); diff.Abs(diff).Cmp(big.NewRat(5, 1000)) > 0 {
			t.Errorf("%s is not %s in cents", s.USD, s.USDExact)
		}
		all.Add(all, want)
	}
	diff := new(big.Rat).Sub(inv.Subtotal.Rat(), all)
	if most := big.NewRat(5*int64(len(inv.Document.Sections)), 1000); diff.Abs(diff).Cmp(most) > 0 {
		t.Errorf("the subtotal %s is more than half a cent for each section from %s", inv.Subtotal, all.FloatString(18))
	}
	e.verify(inv, "")
}

func pow10(n int64) *big.Int { return new(big.Int).Exp(big.NewInt(10), big.NewInt(n), nil) }

// An invoice of 100,000 lines binds them by one statement.
func BenchmarkInvoiceOf100000Lines(b *testing.B) {
	for range b.N {
		b.StopTimer()
		e := newBenchEnv(b)
		b.StartTimer()
		started := time.Now()
		r, err := e.service().IssueInvoices(b.Context(), "2026-01", e.one, person)
		if err != nil || len(r.Invoices) != 1 || r.Invoices[0].Document.Sections[0].Lines != 100_000 {
			b.Fatalf("got %+v, %v", r, err)
		}
		b.ReportMetric(float64(time.Since(started).Milliseconds()), "ms/invoice")
	}
}

// newBenchEnv is an environment in February with 100,000 valued lines of January.
func newBenchEnv(b *testing.B) *testEnv {
	b.Helper()
	e := newTestEnv(b)
	at := day(1, 10)
	e.insertMark(sol, "150", at)
	amounts := make([]int64, 100_000)
	for i := range amounts {
		amounts[i] = 5000
	}
	e.insertFees(e.one, sol, at, amounts)
	e.collect()
	e.exec(`ANALYZE`)
	e.set(day(2, 3))
	return e
}

// The promise of the database for any interleaving: fees that are posted while invoices are issued are on one
// invoice each.
func TestFeesThatComeWhileAMonthIsBilledAreBilledOnce(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	months := []string{"2026-01", "2026-02", "2026-03"}
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.set(day(4, 3))
	done := make(chan error, len(months))
	for i, month := range months {
		go func() {
			_, err := e.service().IssueInvoices(t.Context(), month, "", person)
			done <- err
		}()
		for n := range 5 {
			e.insertFee(e.one, sol, fmt.Sprint(1_000_000_000+i*10+n), day(1, 10))
		}
	}
	for range months {
		e.must(<-done)
	}
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.set(day(5, 3))
	last := e.run("2026-04")
	if len(last.Invoices) != 1 {
		t.Fatalf("got %+v, want what was left on the next invoice", last)
	}
	for sql, want := range map[string]string{
		`SELECT count(*) FROM fee_lines WHERE invoice_id IS NOT NULL`:                           "17",
		`SELECT count(*) FROM fee_lines`:                                                        "17",
		`SELECT sum(lines) FROM invoice_sections`:                                               "17",
		`SELECT sum(amount) = (SELECT sum(amount) FROM ledger_transfers) FROM invoice_sections`: "true",
		`SELECT max(sequence) = count(*) FROM invoices`:                                         "true",
	} {
		if got := e.text(sql); got != want {
			t.Errorf("%s: got %s, want %s", sql, got, want)
		}
	}
}
