package resource

import (
	"strconv"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// FeeLine is a fee that an organization owes: of a completed swap, or of a network.
type FeeLine struct {
	Kind        string        `json:"kind" doc:"What the fee is for. Kinds may be added without notice." example:"SWAP_FEE"`
	SwapID      string        `json:"swapId" doc:"The swap; empty for a network fee." example:"cs_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	FromMintID  int           `json:"fromMintId" doc:"The mint of feeAmount: the source mint of the swap, or the coin of the network." example:"7"`
	FeeAmount   string        `json:"feeAmount" doc:"The fee in atomic units of that mint. No balance pays it." form:"amount" example:"2500000"`
	FeeBps      int           `json:"feeBps" doc:"The rate of feeAmount, in basis points of the amount that was swapped; 0 for a network fee." example:"25"`
	USDValue    *string       `json:"usdValue" doc:"The value of feeAmount in dollars by price; null without a price." form:"decimal" example:"0.3745"`
	Price       *string       `json:"price" doc:"The price of a whole token in dollars, close to the completion; null until it is read, and for good if none was known within a quarter of an hour." form:"decimal" example:"149.80"`
	PriceSource *string       `json:"priceSource" doc:"Where the price is from; null without a price." example:"COINGECKO"`
	PricedAt    *webhook.Time `json:"pricedAt" doc:"The time of the price, by its source; null without a price."`
	CompletedAt webhook.Time  `json:"completedAt" doc:"When the swap was completed, or the network fee was posted, which made the fee due."`
	FeeLineID   string        `json:"feeLineId" doc:"The id of the fee." example:"fee_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	SourceKind  string        `json:"sourceKind" doc:"What sourceId names. SWAP: the swap. NETWORK_FEE: the order whose transaction cost it. FEE_CHANGE: that order and, after a slash, which later change of its cost it is. FEE_PREPAID: the withdrawal that paid its fee itself. Kinds may be added without notice." example:"SWAP"`
	SourceID    string        `json:"sourceId" doc:"What the fee is of." example:"cs_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
	IsCredit    bool          `json:"isCredit" doc:"Whether feeAmount is taken off what you owe: a fee that was prepaid, or became lower."`
	FeeTxHash   *string       `json:"feeTxHash" doc:"The transaction that a network fee paid for; null for a swap." example:"0x9fc76417374aa880d4449a1f7f31ec597f00b1f6f3dd2d66f4c9c6c445836d8b"`
	InvoiceID   *string       `json:"invoiceId" doc:"The invoice that bills it; null until one does." example:"inv_01J9ZW3M8Q4S5T6V7W8X9YZABC"`
}

// ShowFee returns a fee as both interfaces show it.
func ShowFee(l fee.Line) FeeLine {
	shown := FeeLine{
		Kind: string(l.Kind), SwapID: l.SourceID, FromMintID: l.MintID, FeeAmount: l.Amount.String(), FeeBps: l.FeeBps,
		CompletedAt: webhook.At(l.IncurredAt), FeeLineID: l.ID, SourceKind: string(l.SourceKind), SourceID: l.SourceID,
		IsCredit: l.IsCredit, FeeTxHash: OptionalText(l.TxHash), InvoiceID: OptionalText(l.InvoiceID),
	}
	if l.SourceKind != fee.OfSwap {
		shown.SwapID = ""
	}
	if l.USDValue != nil {
		shown.USDValue = new(l.USDValue.String())
	}
	if l.Price != nil {
		shown.Price, shown.PriceSource = new(l.Price.Price.String()), new(l.Price.Source)
		shown.PricedAt = new(webhook.At(l.Price.QuotedAt))
	}
	return shown
}

// FeeColumns are the columns of the table of fees.
var FeeColumns = []kernel.Column[FeeLine]{
	{Name: "kind", Cell: func(l FeeLine) string { return l.Kind }},
	{Name: "swapId", Cell: func(l FeeLine) string { return l.SwapID }},
	{Name: "completedAt", Cell: func(l FeeLine) string { return l.CompletedAt.String() }},
	{Name: "fromMintId", Cell: func(l FeeLine) string { return strconv.Itoa(l.FromMintID) }},
	{Name: "feeAmount", Cell: func(l FeeLine) string { return l.FeeAmount }},
	{Name: "feeBps", Cell: func(l FeeLine) string { return strconv.Itoa(l.FeeBps) }},
	{Name: "usdValue", Cell: func(l FeeLine) string { return TextOrEmpty(l.USDValue) }},
	{Name: "price", Cell: func(l FeeLine) string { return TextOrEmpty(l.Price) }},
	{Name: "priceSource", Cell: func(l FeeLine) string { return TextOrEmpty(l.PriceSource) }},
	{Name: "pricedAt", Cell: func(l FeeLine) string { return TimeOrEmpty(l.PricedAt) }},
	{Name: "feeLineId", Cell: func(l FeeLine) string { return l.FeeLineID }},
	{Name: "sourceKind", Cell: func(l FeeLine) string { return l.SourceKind }},
	{Name: "sourceId", Cell: func(l FeeLine) string { return l.SourceID }},
	{Name: "isCredit", Cell: func(l FeeLine) string { return strconv.FormatBool(l.IsCredit) }},
	{Name: "feeTxHash", Cell: func(l FeeLine) string { return TextOrEmpty(l.FeeTxHash) }},
	{Name: "invoiceId", Cell: func(l FeeLine) string { return TextOrEmpty(l.InvoiceID) }},
}

// FeeParameters are the parameters of a list of fees.
func FeeParameters(filters ...kernel.Parameter) []kernel.Parameter {
	return append([]kernel.Parameter{{
		Name: "month", Kind: kernel.TextParameter, Max: len(fee.MonthLayout),
		Text: "Only fees of this month in UTC, such as 2026-01. All fees without it.",
	}}, append(filters, kernel.OrderParameter, kernel.LimitParameter, kernel.CursorParameter)...)
}

// ReadFeeFilter returns the filter of a call that lists fees. Error: fault INVALID_REQUEST.
func ReadFeeFilter(q kernel.Query, orgID string) (fee.Filter, error) {
	f := fee.Filter{OrgID: orgID}
	month, isGiven := q["month"]
	if !isGiven {
		return f, nil
	}
	if !f.SetMonth(month) {
		return f, fault.New(fault.Invalid, fault.InvalidRequest, fault.ReadOnly,
			"month has to be a month such as %s.", time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Format(fee.MonthLayout)).
			WithAdvice("Correct it.").WithParam("month")
	}
	return f, nil
}

// ExampleFee is a fee of the document.
var ExampleFee = FeeLine{
	Kind: "SWAP_FEE", SwapID: ExampleSwapID, FromMintID: 7, FeeAmount: "2500000", FeeBps: 25, USDValue: new("0.3745"),
	Price: new("149.8"), PriceSource: new("COINGECKO"), PricedAt: &ExampleAt, CompletedAt: ExampleAt,
	FeeLineID: "fee_01J9ZW3M8Q4S5T6V7W8X9YZABC", SourceKind: "SWAP", SourceID: ExampleSwapID,
}
