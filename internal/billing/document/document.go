// Package document renders an invoice or a credit note from its frozen data: as a page for the screen and for
// printing, as a PDF file, and its lines as a table.
//
// It reads nothing but its arguments and the fonts and words that are compiled in: no clock, no database, no random
// number. The same data gives the same bytes in every process of one build, so a crash leaves nothing behind and
// nothing has to be stored. Names, addresses and symbols come from people: they are text and never markup, and what
// could reorder or cover other text is visible as a replacement character. Nothing here computes an amount: every
// figure is printed as it was frozen.
package document

import (
	"fmt"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// The kinds of a document.
const (
	KindInvoice    = "INVOICE"
	KindCreditNote = "CREDIT_NOTE"
)

// The kinds of a section.
const (
	NetworkFees       = "NETWORK_FEES"
	NetworkFeeCredits = "NETWORK_FEE_CREDITS" // what was prepaid, or became lower: its dollars are below zero
	SwapFees          = "SWAP_FEES"
)

// decimalsMax is above what any token has. It limits the zeros that an amount is printed with.
const decimalsMax = 77

// Invoice is everything that an invoice or a credit note prints. It is frozen as JSON when the document is issued,
// and its hash covers that text: a field that is added later has to be left out of the text while it is empty.
type Invoice struct {
	Number     string    `json:"number"`
	Kind       string    `json:"kind"`     // KindInvoice or KindCreditNote
	Corrects   string    `json:"corrects"` // the number of the invoice that a credit note corrects
	Issued     time.Time `json:"issued"`
	Month      string    `json:"month"` // 2026-01
	Seller     Party     `json:"seller"`
	Buyer      Party     `json:"buyer"`
	Sections   []Section `json:"sections"`
	Subtotal   money.USD `json:"subtotal"` // whole cents, as are Tax and Total
	Tax        money.USD `json:"tax"`
	Total      money.USD `json:"total"`
	TaxRateBps int       `json:"taxRateBps"`
	TaxNote    string    `json:"taxNote"`
	Language   string    `json:"language"` // of the words; an unknown one is English
}

// Party is who issues a document, or to whom it is issued.
type Party struct {
	Name    string   `json:"name"`
	Address []string `json:"address"`
	TaxID   string   `json:"taxId"`
	Email   string   `json:"email"`
}

// Section is the sum of the lines of one kind in one coin.
type Section struct {
	Kind     string       `json:"kind"` // NetworkFees, NetworkFeeCredits or SwapFees
	Chain    string       `json:"chain"`
	Symbol   string       `json:"symbol"`
	Lines    int          `json:"lines"`
	Amount   money.Amount `json:"amount"` // atomic units
	Decimals int          `json:"decimals"`
	USDExact string       `json:"usdExact"`
	USD      string       `json:"usd"` // cents
}

// Line is one fee of a document. Its figures are decimals, with a minus sign where a correction lowers a fee.
type Line struct {
	FeeLineID   string    `json:"feeLineId"`
	Kind        string    `json:"kind"`
	SourceKind  string    `json:"sourceKind"`
	SourceID    string    `json:"sourceId"`
	IncurredAt  time.Time `json:"incurredAt"`
	TxHash      string    `json:"txHash"`
	Chain       string    `json:"chain"`
	Symbol      string    `json:"symbol"`
	Amount      string    `json:"amount"`
	USDExact    string    `json:"usdExact"`
	Price       string    `json:"price"`
	PriceSource string    `json:"priceSource"`
	PricedAt    time.Time `json:"pricedAt"`
}

// check refuses data that no document can be drawn of. Frozen data passes always.
func (i Invoice) check() error {
	problem := ""
	switch {
	case i.Kind != KindInvoice && i.Kind != KindCreditNote:
		problem = fmt.Sprintf("has the unknown kind %q", i.Kind)
	case i.Number == "":
		problem = "has no number"
	case i.Issued.IsZero():
		problem = "has no time of issue"
	case i.Kind == KindCreditNote && i.Corrects == "":
		problem = "names no invoice that it corrects"
	case i.TaxRateBps < 0:
		problem = "has a negative tax rate"
	}
	for _, sum := range []money.USD{i.Subtotal, i.Tax, i.Total} {
		if _, fraction, _ := strings.Cut(sum.String(), "."); len(fraction) > 2 {
			problem = "has a sum that is no whole cents: " + sum.String()
		}
	}
	for _, s := range i.Sections {
		if s.Decimals < 0 || s.Decimals > decimalsMax {
			problem = fmt.Sprintf("has a section of %d decimals", s.Decimals)
		}
	}
	if problem != "" {
		return fmt.Errorf("render document %q: it %s", i.Number, problem)
	}
	return nil
}

// date prints the day of a time in UTC. ISO 8601 reads the same in every language.
func date(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// amount prints the amount of a section with its symbol.
func (s Section) amount() string {
	return strings.TrimSpace(s.Amount.Decimal(s.Decimals) + " " + visible(s.Symbol))
}

// ratePercent prints the tax rate in percent, exactly.
func (i Invoice) ratePercent() string { return money.Units(uint64(i.TaxRateBps)).Decimal(2) }

// title names the document for a window or a list of files.
func (i Invoice) title() string {
	w := findWords(i.Language)
	return strings.TrimSpace(i.heading(w) + " " + visible(i.Number))
}

func (i Invoice) heading(w words) string {
	if i.Kind == KindCreditNote {
		return w.CreditNote
	}
	return w.Invoice
}

func (i Invoice) totalLabel(w words) string {
	if i.Kind == KindCreditNote {
		return w.Credited
	}
	return w.Total
}

func (i Invoice) taxLabel(w words) string {
	return strings.ReplaceAll(w.Tax, "{rate}", i.ratePercent())
}

// fact is a labelled value at the top of a document.
type fact struct {
	Label, Value string
	Time         string // the machine-readable form of a date
}

func (i Invoice) facts(w words) []fact {
	facts := []fact{
		{Label: w.Number, Value: visible(i.Number)},
		{Label: w.Issued, Value: date(i.Issued), Time: date(i.Issued)},
		{Label: w.Month, Value: visible(i.Month), Time: visible(i.Month)},
	}
	if i.Kind == KindCreditNote {
		facts = append(facts, fact{Label: w.Corrects, Value: visible(i.Corrects)})
	}
	return facts
}

// kindText names the kind of a section. A kind of a later version is printed as it is.
func (s Section) kindText(w words) string {
	switch s.Kind {
	case NetworkFees:
		return w.NetworkFees
	case NetworkFeeCredits:
		return w.NetworkFeeCredits
	case SwapFees:
		return w.SwapFees
	}
	return visible(s.Kind)
}

// notes are the sentences below the sums.
func (i Invoice) notes(w words) []string {
	notes := []string{w.Rounding, w.Table}
	if note := visible(i.TaxNote); note != "" {
		notes = append([]string{note}, notes...)
	}
	return notes
}
