package resource

import (
	"strconv"
	"strings"

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

// OrganizationSwapColumns are the columns of the table of organization swaps.
var OrganizationSwapColumns = []kernel.Column[webhook.OrganizationSwap]{
	{Name: "swapId", Cell: func(w webhook.OrganizationSwap) string { return w.SwapID }},
	{Name: "createdAt", Cell: func(w webhook.OrganizationSwap) string { return w.CreatedAt.String() }},
	{Name: "idempotencyKey", Cell: func(w webhook.OrganizationSwap) string { return w.IdempotencyKey }},
	{Name: "product", Cell: func(w webhook.OrganizationSwap) string { return w.Product }},
	{Name: "fromMintId", Cell: func(w webhook.OrganizationSwap) string { return strconv.Itoa(w.FromMintID) }},
	{Name: "toMintId", Cell: func(w webhook.OrganizationSwap) string { return strconv.Itoa(w.ToMintID) }},
	{Name: "amountIn", Cell: func(w webhook.OrganizationSwap) string { return w.AmountIn }},
	{Name: "estimatedAmountOut", Cell: func(w webhook.OrganizationSwap) string { return w.EstimatedAmountOut }},
	{Name: "minAmountOut", Cell: func(w webhook.OrganizationSwap) string { return w.MinAmountOut }},
	{Name: "amountOut", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.AmountOut) }},
	{Name: "whitelistedAddressId", Cell: func(w webhook.OrganizationSwap) string { return w.WhitelistedAddressID }},
	{Name: "toAddress", Cell: func(w webhook.OrganizationSwap) string { return w.ToAddress }},
	{Name: "withdrawalId", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.WithdrawalID) }},
	{Name: "status", Cell: func(w webhook.OrganizationSwap) string { return w.Status }},
	{Name: "failureReason", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.FailureReason) }},
	{Name: "rejectedReason", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.RejectedReason) }},
	{Name: "usdValue", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.USDValue) }},
	{Name: "provider", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.Provider) }},
	{Name: "originTxHash", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.OriginTxHash) }},
	{
		Name: "destinationTxHash",
		Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.DestinationTxHash) },
	},
	{Name: "refundStatus", Cell: func(w webhook.OrganizationSwap) string { return w.RefundStatus }},
	{Name: "refundedAmount", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.RefundedAmount) }},
	{Name: "refundTxHash", Cell: func(w webhook.OrganizationSwap) string { return TextOrEmpty(w.RefundTxHash) }},
	{Name: "restoredAt", Cell: func(w webhook.OrganizationSwap) string { return TimeOrEmpty(w.RestoredAt) }},
	{Name: "deliveredAt", Cell: func(w webhook.OrganizationSwap) string { return TimeOrEmpty(w.DeliveredAt) }},
	{Name: "completedAt", Cell: func(w webhook.OrganizationSwap) string { return TimeOrEmpty(w.CompletedAt) }},
}

// DepositSwapColumns are the columns of the table of deposit swaps.
var DepositSwapColumns = []kernel.Column[webhook.DepositSwap]{
	{Name: "depositSwapId", Cell: func(d webhook.DepositSwap) string { return d.DepositSwapID }},
	{Name: "createdAt", Cell: func(d webhook.DepositSwap) string { return d.CreatedAt.String() }},
	{Name: "idempotencyKey", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.IdempotencyKey) }},
	{Name: "customerId", Cell: func(d webhook.DepositSwap) string { return d.CustomerID }},
	{Name: "originTokenId", Cell: func(d webhook.DepositSwap) string { return d.OriginTokenID }},
	{Name: "originChain", Cell: func(d webhook.DepositSwap) string { return d.OriginChain }},
	{Name: "originSymbol", Cell: func(d webhook.DepositSwap) string { return d.OriginSymbol }},
	{Name: "originDecimals", Cell: func(d webhook.DepositSwap) string { return strconv.Itoa(d.OriginDecimals) }},
	{Name: "toMintId", Cell: func(d webhook.DepositSwap) string { return strconv.Itoa(d.ToMintID) }},
	{Name: "depositAddress", Cell: func(d webhook.DepositSwap) string { return d.DepositAddress }},
	{Name: "refundAddress", Cell: func(d webhook.DepositSwap) string { return d.RefundAddress }},
	{Name: "amountIn", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.AmountIn) }},
	{Name: "estimatedAmountOut", Cell: func(d webhook.DepositSwap) string { return d.EstimatedAmountOut }},
	{Name: "minAmountOut", Cell: func(d webhook.DepositSwap) string { return d.MinAmountOut }},
	{Name: "expiresAt", Cell: func(d webhook.DepositSwap) string { return d.ExpiresAt.String() }},
	{Name: "status", Cell: func(d webhook.DepositSwap) string { return d.Status }},
	{Name: "failureReason", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.FailureReason) }},
	{Name: "receivedAmount", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.ReceivedAmount) }},
	{Name: "amountOut", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.AmountOut) }},
	{Name: "refundedAmount", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.RefundedAmount) }},
	{Name: "originTxHash", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.OriginTxHash) }},
	{Name: "destinationTxHash", Cell: func(d webhook.DepositSwap) string { return TextOrEmpty(d.DestinationTxHash) }},
	{Name: "depositIds", Cell: func(d webhook.DepositSwap) string { return strings.Join(d.DepositIDs, " ") }},
	{Name: "provider", Cell: func(d webhook.DepositSwap) string { return d.Provider }},
	{Name: "completedAt", Cell: func(d webhook.DepositSwap) string { return TimeOrEmpty(d.CompletedAt) }},
}
