// Package document is a frozen invoice or credit note: all that is printed of it.
//
// The package is pure: a document is rendered from this struct alone, so that every rendering of it has the same bytes.
package document

import (
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Invoice is a document as it was issued.
type Invoice struct {
	Number     string    `json:"number"`
	Kind       string    `json:"kind"`     // INVOICE or CREDIT_NOTE
	Corrects   string    `json:"corrects"` // of a credit note: the number of its invoice
	Issued     time.Time `json:"issued"`
	Month      string    `json:"month"` // 2026-01
	Seller     Party     `json:"seller"`
	Buyer      Party     `json:"buyer"`
	Sections   []Section `json:"sections"`
	Subtotal   money.USD `json:"subtotal"` // in whole cents, as Tax and Total
	Tax        money.USD `json:"tax"`
	Total      money.USD `json:"total"`
	TaxRateBps int       `json:"taxRateBps"`
	TaxNote    string    `json:"taxNote"`
	Language   string    `json:"language"`
}

// Party is one of the two parties.
type Party struct {
	Name    string   `json:"name"`
	Address []string `json:"address"`
	TaxID   string   `json:"taxId"`
	Email   string   `json:"email"`
}

// Section is the sum of the lines of a kind in one mint.
type Section struct {
	Kind     string       `json:"kind"` // NETWORK_FEES, NETWORK_FEE_CREDITS or SWAP_FEES
	Chain    string       `json:"chain"`
	Symbol   string       `json:"symbol"`
	Lines    int          `json:"lines"`
	Amount   money.Amount `json:"amount"`
	Decimals int          `json:"decimals"`
	USDExact string       `json:"usdExact"` // below zero for credits
	USD      string       `json:"usd"`      // USDExact in cents, rounded half up
}

// Line is one fee of a document.
type Line struct {
	FeeLineID   string    `json:"feeLineId"`
	Kind        string    `json:"kind"`
	SourceKind  string    `json:"sourceKind"`
	SourceID    string    `json:"sourceId"`
	IncurredAt  time.Time `json:"incurredAt"`
	TxHash      string    `json:"txHash"`
	Chain       string    `json:"chain"`
	Symbol      string    `json:"symbol"`
	Amount      string    `json:"amount"` // whole tokens, below zero for credits
	USDExact    string    `json:"usdExact"`
	Price       string    `json:"price"`
	PriceSource string    `json:"priceSource"`
	PricedAt    time.Time `json:"pricedAt"`
}
