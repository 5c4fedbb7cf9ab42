package resource

import (
	"strconv"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// RefundColumns are the columns of the table of refunds of checkouts. It has no address of a page: only the answer that
// makes a claim key has it.
var RefundColumns = []kernel.Column[webhook.Refund]{
	{Name: "refundId", Cell: func(r webhook.Refund) string { return r.RefundID }},
	{Name: "createdAt", Cell: func(r webhook.Refund) string { return r.CreatedAt.String() }},
	{Name: "checkoutId", Cell: func(r webhook.Refund) string { return r.CheckoutID }},
	{Name: "status", Cell: func(r webhook.Refund) string { return r.Status }},
	{Name: "kind", Cell: func(r webhook.Refund) string { return r.Kind }},
	{Name: "mintId", Cell: func(r webhook.Refund) string { return strconv.Itoa(r.MintID) }},
	{Name: "symbol", Cell: func(r webhook.Refund) string { return r.Symbol }},
	{Name: "chain", Cell: func(r webhook.Refund) string { return r.Chain }},
	{Name: "amount", Cell: func(r webhook.Refund) string { return r.Amount }},
	{Name: "feeMode", Cell: func(r webhook.Refund) string { return r.FeeMode }},
	{Name: "reason", Cell: func(r webhook.Refund) string { return TextOrEmpty(r.Reason) }},
	{Name: "toAddress", Cell: func(r webhook.Refund) string { return TextOrEmpty(r.ToAddress) }},
	{Name: "addressProven", Cell: func(r webhook.Refund) string { return strconv.FormatBool(r.AddressProven) }},
	{Name: "attempt", Cell: func(r webhook.Refund) string { return strconv.Itoa(r.Attempt) }},
	{Name: "withdrawalId", Cell: func(r webhook.Refund) string { return TextOrEmpty(r.WithdrawalID) }},
	{Name: "txHash", Cell: func(r webhook.Refund) string { return TextOrEmpty(r.TxHash) }},
	{Name: "problem", Cell: func(r webhook.Refund) string { return TextOrEmpty(r.Problem) }},
	{Name: "idempotencyKey", Cell: func(r webhook.Refund) string { return TextOrEmpty(r.IdempotencyKey) }},
	{Name: "expiresAt", Cell: func(r webhook.Refund) string { return r.ExpiresAt.String() }},
	{Name: "completedAt", Cell: func(r webhook.Refund) string { return TimeOrEmpty(r.CompletedAt) }},
	{Name: "updatedAt", Cell: func(r webhook.Refund) string { return r.UpdatedAt.String() }},
}
