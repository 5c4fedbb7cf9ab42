package billing_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
)

// localService is the service of a local world.
func (e *testEnv) localService() *billing.Service {
	s := e.service()
	s.IsLocal = true
	return s
}

// wantText expects what a statement of the database returns.
func (e *testEnv) wantText(sql, want string) {
	e.Helper()
	if got := e.text(sql); got != want {
		e.Errorf("%s: got %s, want %s", sql, got, want)
	}
}

// Rule BI-25: a local world bills the running month. What becomes due afterwards is on the next invoice, once, and the
// month gets no second invoice, neither early nor when it is over.
func TestALocalWorldBillsTheRunningMonthEarly(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	s := e.localService()
	e.insertMark(sol, "150", day(1, 10))
	first := e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.set(day(1, 20))
	r, err := s.IssueEarly(t.Context(), "", person)
	e.must(err)
	if len(r.Invoices) != 1 || r.Issued != 1 || r.Month != "2026-01" || r.Invoices[0].Total.Cents() != "150.00" {
		t.Fatalf("got %+v, want one invoice of January", r)
	}
	early := r.Invoices[0]
	e.verify(early, "")

	e.insertMark(sol, "200", day(1, 21))
	late := e.insertFee(e.one, sol, "1000000000", day(1, 21))
	e.set(day(1, 22))
	again, err := s.IssueEarly(t.Context(), "", person)
	e.must(err)
	if again.Issued != 0 || len(again.Invoices) != 1 || again.Invoices[0].ID != early.ID {
		t.Errorf("a second run: got %+v, want the invoice that exists", again)
	}
	e.set(day(2, 3))
	if over := e.run("2026-01"); over.Issued != 0 || over.Invoices[0].ID != early.ID {
		t.Errorf("after the month: got %+v, want the invoice that exists", over)
	}
	e.must(s.IssueDue(t.Context()))
	e.wantText(`SELECT count(*) FROM invoices`, "1")

	e.set(day(3, 3))
	next := e.run("2026-02")
	if next.Issued != 1 || next.Invoices[0].Total.Cents() != "200.00" {
		t.Fatalf("the next month: got %+v, want the fee that came after the early invoice", next)
	}
	e.verify(next.Invoices[0], "")
	e.wantText(`SELECT string_agg(l.source_id || ' on ' || i.number, ', ' ORDER BY i.number)
		FROM fee_lines l LEFT JOIN invoices i USING (invoice_id)`, first+" on INV-000001, "+late+" on INV-000002")
	e.wantText(`SELECT next_number FROM invoice_series WHERE series = 'INV'`, "3")
}

// Rule BI-25: where any coin has a value, no month is billed early. The service refuses it without a local network, and
// the database refuses it where a mint is of another one, whatever the service believes.
func TestNoMonthIsBilledEarlyWhereMoneyHasAValue(t *testing.T) {
	t.Parallel()
	for _, network := range []chain.Network{chain.Mainnet, chain.Testnet} {
		e := newTestEnv(t)
		e.insertMark(sol, "150", day(1, 10))
		e.insertFee(e.one, sol, "1000000000", day(1, 10))
		e.set(day(1, 20))
		_, err := e.service().IssueEarly(t.Context(), "", person)
		e.wantCode(err, fault.InvalidState)
		if err == nil || !strings.Contains(err.Error(), "local world") {
			t.Errorf("got %v, want that only a local world has it", err)
		}
		e.must(mint.Sync(t.Context(), e.db, []mint.Mint{{
			ID: 99, Chain: chain.Base, Network: network, Kind: mint.Native, Symbol: "ETH", Name: "Ether", Decimals: 18,
			DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
			Finality: "FINALIZED",
		}}))
		_, err = e.localService().IssueEarly(t.Context(), e.one, person)
		e.wantCode(err, fault.InvalidState)
		e.wantText(`SELECT count(*) FROM invoices`, "0")
		e.wantText(`SELECT count(*) FROM invoice_series`, "0")
		e.wantText(`SELECT count(*) FROM fee_lines WHERE invoice_id IS NOT NULL`, "0")
		e.set(day(2, 3))
		if r := e.run("2026-01"); r.Issued != 1 {
			t.Errorf("on %s, when the month is over: got %+v, want its invoice", network, r)
		}
	}
}

// Early runs at the same time, and fees that come meanwhile: one invoice, no gap, and each line on one invoice at most.
func TestEarlyRunsAtOnceIssueOneInvoice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	for range 20 {
		e.insertFee(e.one, sol, "1000000000", day(1, 10))
	}
	e.set(day(1, 20))
	var wg sync.WaitGroup
	results := make([]billing.RunResult, 6)
	errs := make([]error, len(results))
	for i := range results {
		wg.Go(func() { results[i], errs[i] = e.localService().IssueEarly(t.Context(), e.one, person) })
	}
	wg.Wait()
	issued := 0
	for i, r := range results {
		e.must(errs[i])
		issued += r.Issued
		if len(r.Invoices) != 1 || r.Invoices[0].Number != "INV-000001" {
			t.Errorf("got %+v, want the one invoice", r)
		}
	}
	if issued != 1 {
		t.Errorf("the runs issued %d invoices, want 1", issued)
	}
	e.wantText(`SELECT count(*) FROM fee_lines WHERE invoice_id IS NOT NULL`, "20")
	e.wantText(`SELECT next_number FROM invoice_series WHERE series = 'INV'`, "2")
}

// After an early invoice, the provisional sum is of the month whose invoice will have it.
func TestTheProvisionalSumIsOfTheNextInvoice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.insertMark(sol, "150", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	e.set(day(1, 20))
	e.collect()
	want := func(month, subtotal string) {
		t.Helper()
		var p billing.Provisional
		e.must(e.db.ReadSystem(t.Context(), func(ctx context.Context, tx pg.Tx) (err error) {
			p, err = billing.LoadProvisional(ctx, tx, e.one)
			return err
		}))
		if p.Month.Name != month || p.Subtotal != subtotal {
			t.Errorf("got %s of %s, want %s of %s", p.Subtotal, p.Month.Name, subtotal, month)
		}
	}
	want("2026-01", "150.00")
	_, err := e.localService().IssueEarly(t.Context(), "", person)
	e.must(err)
	want("2026-02", "0.00")
	e.insertMark(sol, "200", time.Date(2026, 1, 20, 13, 0, 0, 0, time.UTC))
	e.insertFee(e.one, sol, "1000000000", time.Date(2026, 1, 20, 13, 0, 0, 0, time.UTC))
	e.set(day(1, 21))
	e.collect()
	want("2026-02", "200.00")
}
