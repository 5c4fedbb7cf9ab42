package resource

import (
	"strconv"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// SwapColumns are the columns of the table of customer swaps.
var SwapColumns = []kernel.Column[webhook.CustomerSwap]{
	{Name: "swapId", Cell: func(w webhook.CustomerSwap) string { return w.SwapID }},
	{Name: "createdAt", Cell: func(w webhook.CustomerSwap) string { return w.CreatedAt.String() }},
	{Name: "idempotencyKey", Cell: func(w webhook.CustomerSwap) string { return w.IdempotencyKey }},
	{Name: "customerId", Cell: func(w webhook.CustomerSwap) string { return w.CustomerID }},
	{Name: "fromMintId", Cell: func(w webhook.CustomerSwap) string { return strconv.Itoa(w.FromMintID) }},
	{Name: "toMintId", Cell: func(w webhook.CustomerSwap) string { return strconv.Itoa(w.ToMintID) }},
	{Name: "amountIn", Cell: func(w webhook.CustomerSwap) string { return w.AmountIn }},
	{Name: "estimatedAmountOut", Cell: func(w webhook.CustomerSwap) string { return w.EstimatedAmountOut }},
	{Name: "minAmountOut", Cell: func(w webhook.CustomerSwap) string { return w.MinAmountOut }},
	{Name: "amountOut", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.AmountOut) }},
	{Name: "status", Cell: func(w webhook.CustomerSwap) string { return w.Status }},
	{Name: "failureReason", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.FailureReason) }},
	{Name: "feeAmount", Cell: func(w webhook.CustomerSwap) string { return w.FeeAmount }},
	{Name: "feeBps", Cell: func(w webhook.CustomerSwap) string { return strconv.Itoa(w.FeeBps) }},
	{Name: "usdValue", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.USDValue) }},
	{Name: "provider", Cell: func(w webhook.CustomerSwap) string { return w.Provider }},
	{Name: "originTxHash", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.OriginTxHash) }},
	{Name: "destinationTxHash", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.DestinationTxHash) }},
	{Name: "refundStatus", Cell: func(w webhook.CustomerSwap) string { return w.RefundStatus }},
	{Name: "refundedAmount", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.RefundedAmount) }},
	{Name: "refundTxHash", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.RefundTxHash) }},
	{Name: "restoredAt", Cell: func(w webhook.CustomerSwap) string { return TimeOrEmpty(w.RestoredAt) }},
	{Name: "completedAt", Cell: func(w webhook.CustomerSwap) string { return TimeOrEmpty(w.CompletedAt) }},
	{Name: "depositId", Cell: func(w webhook.CustomerSwap) string { return TextOrEmpty(w.DepositID) }},
	{Name: "metadata", Cell: func(w webhook.CustomerSwap) string { return MetadataJSON(w.Metadata) }},
}
