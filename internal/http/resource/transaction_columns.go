package resource

import (
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// DepositColumns are the columns of the table of deposits.
var DepositColumns = []kernel.Column[webhook.Deposit]{
	{Name: "depositId", Cell: func(d webhook.Deposit) string { return d.DepositID }},
	{Name: "createdAt", Cell: func(d webhook.Deposit) string { return d.CreatedAt.String() }},
	{Name: "customerId", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.CustomerID) }},
	{Name: "product", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.Product) }},
	{Name: "customerEmail", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.CustomerEmail) }},
	{Name: "mintId", Cell: func(d webhook.Deposit) string { return NumberOrEmpty(d.MintID) }},
	{Name: "symbol", Cell: func(d webhook.Deposit) string {
		if d.Mint == nil {
			return ""
		}
		return d.Mint.Symbol
	}},
	{Name: "chain", Cell: func(d webhook.Deposit) string { return d.Chain }},
	{Name: "amount", Cell: func(d webhook.Deposit) string { return d.Amount }},
	{Name: "amountDecimal", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.AmountDecimal) }},
	{Name: "usdValue", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.USDValue) }},
	{Name: "status", Cell: func(d webhook.Deposit) string { return d.Status }},
	{Name: "chainStatus", Cell: func(d webhook.Deposit) string { return d.ChainStatus }},
	{Name: "source", Cell: func(d webhook.Deposit) string { return d.Source }},
	{Name: "address", Cell: func(d webhook.Deposit) string { return d.Address }},
	{Name: "fromAddresses", Cell: func(d webhook.Deposit) string { return strings.Join(d.FromAddresses, " ") }},
	{Name: "txHash", Cell: func(d webhook.Deposit) string { return d.TxHash }},
	{Name: "logIndex", Cell: func(d webhook.Deposit) string { return NumberOrEmpty(d.LogIndex) }},
	{Name: "blockNumber", Cell: func(d webhook.Deposit) string { return NumberOrEmpty(d.BlockNumber) }},
	{Name: "isFlagged", Cell: func(d webhook.Deposit) string { return strconv.FormatBool(d.IsFlagged) }},
	{Name: "riskOfFunds", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.RiskOfFunds) }},
	{Name: "sweepTxHash", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.SweepTxHash) }},
	{Name: "confirmedAt", Cell: func(d webhook.Deposit) string { return TimeOrEmpty(d.ConfirmedAt) }},
	{Name: "creditedAt", Cell: func(d webhook.Deposit) string { return TimeOrEmpty(d.CreditedAt) }},
	{Name: "outputIndex", Cell: func(d webhook.Deposit) string { return NumberOrEmpty(d.OutputIndex) }},
	{Name: "memo", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.Memo) }},
	{Name: "checkoutId", Cell: func(d webhook.Deposit) string { return TextOrEmpty(d.CheckoutID) }},
}

// WithdrawalColumns are the columns of the table of withdrawals.
var WithdrawalColumns = []kernel.Column[webhook.Withdrawal]{
	{Name: "withdrawalId", Cell: func(w webhook.Withdrawal) string { return w.WithdrawalID }},
	{Name: "createdAt", Cell: func(w webhook.Withdrawal) string { return w.CreatedAt.String() }},
	{Name: "type", Cell: func(w webhook.Withdrawal) string { return w.Type }},
	{Name: "idempotencyKey", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.IdempotencyKey) }},
	{Name: "reference", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.Reference) }},
	{Name: "customerId", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.CustomerID) }},
	{Name: "product", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.Product) }},
	{
		Name: "whitelistedAddressId",
		Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.WhitelistedAddressID) },
	},
	{Name: "mintId", Cell: func(w webhook.Withdrawal) string { return strconv.Itoa(w.MintID) }},
	{Name: "symbol", Cell: func(w webhook.Withdrawal) string { return w.Mint.Symbol }},
	{Name: "chain", Cell: func(w webhook.Withdrawal) string { return w.Mint.Chain }},
	{Name: "amount", Cell: func(w webhook.Withdrawal) string { return w.Amount }},
	{Name: "amountDecimal", Cell: func(w webhook.Withdrawal) string { return w.AmountDecimal }},
	{Name: "usdValue", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.USDValue) }},
	{Name: "toAddress", Cell: func(w webhook.Withdrawal) string { return w.ToAddress }},
	{Name: "networkFee", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.NetworkFee) }},
	{Name: "networkFeeMintId", Cell: func(w webhook.Withdrawal) string { return NumberOrEmpty(w.NetworkFeeMintID) }},
	{Name: "feeMode", Cell: func(w webhook.Withdrawal) string { return w.FeeMode }},
	{Name: "status", Cell: func(w webhook.Withdrawal) string { return w.Status }},
	{Name: "chainStatus", Cell: func(w webhook.Withdrawal) string { return w.ChainStatus }},
	{
		Name: "requiresApproval",
		Cell: func(w webhook.Withdrawal) string { return strconv.FormatBool(w.RequiresApproval) },
	},
	{Name: "approvalReasons", Cell: func(w webhook.Withdrawal) string { return strings.Join(w.ApprovalReasons, " ") }},
	{Name: "txHash", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.TxHash) }},
	{Name: "failureReason", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.FailureReason) }},
	{Name: "rejectedReason", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.RejectedReason) }},
	{Name: "approvedAt", Cell: func(w webhook.Withdrawal) string { return TimeOrEmpty(w.ApprovedAt) }},
	{Name: "broadcastAt", Cell: func(w webhook.Withdrawal) string { return TimeOrEmpty(w.BroadcastAt) }},
	{Name: "completedAt", Cell: func(w webhook.Withdrawal) string { return TimeOrEmpty(w.CompletedAt) }},
	{Name: "metadata", Cell: func(w webhook.Withdrawal) string { return MetadataJSON(w.Metadata) }},
	{
		Name: "organizationSwapId",
		Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.OrganizationSwapID) },
	},
	{Name: "refundId", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.RefundID) }},
	{Name: "batchPayoutId", Cell: func(w webhook.Withdrawal) string { return TextOrEmpty(w.BatchPayoutID) }},
	{Name: "row", Cell: func(w webhook.Withdrawal) string { return NumberOrEmpty(w.Row) }},
}

// NumberOrEmpty writes a number, and "" for nil.
func NumberOrEmpty[N int | int64](n *N) string {
	if n == nil {
		return ""
	}
	return strconv.FormatInt(int64(*n), 10)
}

// TimeOrEmpty writes a time, and "" for nil.
func TimeOrEmpty(t *webhook.Time) string {
	if t == nil {
		return ""
	}
	return t.String()
}
