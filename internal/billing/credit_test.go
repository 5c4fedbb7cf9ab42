package billing_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/billing"
	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
)

// credit issues a credit note of lines of an invoice, under the key that names it.
func (e *testEnv) credit(inv billing.Invoice, key string, lines ...billing.CreditLine) billing.CreditNote {
	e.Helper()
	note, err := e.service().IssueCreditNote(e.Context(), billing.CreditRequest{
		InvoiceID: inv.ID, IdempotencyKey: key, Reason: "A mistake.", Lines: lines,
	}, person)
	if err != nil {
		e.Fatalf("credit note %s: %v", key, err)
	}
	return note
}

// Rule BI-13: an invoice of which everything is given back leaves nothing to pay. The tax on each part is rounded, and
// the last note has what the others left of it.
func TestAnInvoiceThatIsCreditedInPartsLeavesNoTax(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.saveTerms(e.one, 500, "One")
	e.insertMark(sol, "80", day(1, 10))
	for n := range 3 {
		e.insertFee(e.one, sol, "1000000", day(1, 10).Add(time.Duration(n)*time.Second)) // 0.08 dollars
	}
	inv := e.bill(e.one)
	if inv.Subtotal.Cents() != "0.24" || inv.Tax.Cents() != "0.01" {
		t.Fatalf("got %s and a tax of %s, want 0.24 and 0.01", inv.Subtotal.Cents(), inv.Tax.Cents())
	}
	for n := range 3 {
		line := e.text(`SELECT fee_line_id FROM fee_lines ORDER BY incurred_at LIMIT 1 OFFSET $1`, n)
		e.credit(inv, fmt.Sprint("part-", n), billing.CreditLine{FeeLineID: line})
	}
	inv, err := e.service().InvoiceByID(t.Context(), inv.ID)
	e.must(err)
	if inv.Credited.Cents() != "0.25" || inv.Outstanding.Cents() != "0.00" {
		t.Errorf("got %s credited and %s to pay, want 0.25 and nothing", inv.Credited.Cents(), inv.Outstanding.Cents())
	}
}

// Rule BI-13: two coins of a chain may have one symbol, such as a token and its bridged form. What is given back of
// one is bounded by what the invoice has of both, and not by the smaller one.
func TestCoinsWithOneSymbolAreCreditedInFull(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	const large, small = 3, 4
	var tokens []mint.Mint
	for mintID, contract := range map[int]chain.Address{
		large: "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", small: "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359",
	} {
		tokens = append(tokens, mint.Mint{
			ID: mintID, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Token, Contract: contract,
			Symbol: "USDC", Name: "USD Coin", Decimals: 6, DepositEnabled: true, WithdrawEnabled: true,
			MinDeposit: money.Units(1), MinWithdraw: money.Units(1), Finality: "FINALIZED",
		})
	}
	tokens = append(tokens, mint.Mint{
		ID: ether, Chain: chain.Ethereum, Network: chain.Local, Kind: mint.Native, Symbol: "ETH", Name: "ETH",
		Decimals:       18,
		DepositEnabled: true, WithdrawEnabled: true, MinDeposit: money.Units(1), MinWithdraw: money.Units(1),
		Finality: "FINALIZED",
	})
	e.must(mint.Sync(t.Context(), e.db, tokens))
	for mintID, amount := range map[int]string{large: "10000000", small: "1000000"} {
		e.insertMark(mintID, "1", day(1, 10))
		e.post(e.one, mintID, "FEES_DUE", "FEES_BILLED", amount, "NETWORK_FEE", fmt.Sprint("ord_token_", mintID), 1,
			day(1, 10))
	}
	inv := e.bill(e.one)
	for _, c := range []struct {
		mintID int
		want   string
	}{{large, "10.00"}, {small, "1.00"}} {
		line := e.text(`SELECT fee_line_id FROM fee_lines WHERE mint_id = $1`, c.mintID)
		note := e.credit(inv, fmt.Sprint("mint-", c.mintID), billing.CreditLine{FeeLineID: line})
		if note.Subtotal.Cents() != c.want {
			t.Errorf("mint %d: got %s back, want %s", c.mintID, note.Subtotal.Cents(), c.want)
		}
	}
}

// Rule BI-13: a credit note has the tax, the parties and the language of the invoice that it corrects. Terms that were
// saved since are on later invoices.
func TestACreditNoteHasTheTermsOfItsInvoice(t *testing.T) {
	t.Parallel()
	e := newTestEnv(t)
	e.saveTerms(e.one, 1900, "One")
	e.insertMark(sol, "100", day(1, 10))
	e.insertFee(e.one, sol, "1000000000", day(1, 10))
	inv := e.bill(e.one)
	e.saveTerms(e.one, 500, "Two")
	e.saveTerms("", 0, "Buyer of the seller")
	part := billing.CreditLine{
		FeeLineID: e.text(`SELECT fee_line_id FROM fee_lines`), Amount: new(money.Units(500_000_000)),
	}
	note := e.credit(inv, "part", part)
	if note.Tax.Cents() != "9.50" || note.Total.Cents() != "59.50" || note.Document.TaxRateBps != 1900 {
		t.Errorf("got a tax of %s at %d, want 9.50 at 1900", note.Tax.Cents(), note.Document.TaxRateBps)
	}
	if note.Document.Buyer.Name != "One" || note.Document.Seller.Name != "Seller" {
		t.Errorf("got the parties %q and %q", note.Document.Seller.Name, note.Document.Buyer.Name)
	}
}
