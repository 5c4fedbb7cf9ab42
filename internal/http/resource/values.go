// Package resource has what several surfaces show and take: bodies of requests and answers, filters,
// examples, and the texts of their documents and refusals. A body that only one surface has is in
// that surface. It decides nothing and writes nothing.
package resource

import (
	"math"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/internal/checkout/outcome"
	"github.com/cofferpay/coffer/internal/depositswap"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/swap"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/internal/withdrawal"
	"github.com/cofferpay/coffer/webhook"
)

var ledgerCauses = []string{
	string(ledger.Deposit), string(ledger.DepositReversal), string(ledger.WithdrawalHold),
	string(ledger.WithdrawalEnd), string(ledger.WithdrawalFee),
	string(ledger.WithdrawalCharge), string(ledger.WithdrawalChargeReturn),
	string(ledger.Transfer), string(ledger.Restore),
}

// TextOrEmpty returns a text, and "" for nil.
func TextOrEmpty(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// EventTypes are the types of events.
var EventTypes = func() []string {
	var names []string
	for _, t := range event.AllTypes() {
		names = append(names, string(t))
	}
	return names
}()

// EndpointEvents are the types that an endpoint may name.
var EndpointEvents = append([]string{string(event.EveryType)}, EventTypes...)

// ChainNames are the chains that the documents name.
var ChainNames = []string{
	string(chain.Ethereum), string(chain.Base), string(chain.Arbitrum), string(chain.Optimism), string(chain.Polygon),
	string(chain.BSC), string(chain.Avalanche), string(chain.Solana), string(chain.Bitcoin), string(chain.Tron),
}

// DepositStatuses are the statuses of a deposit.
var DepositStatuses = []string{
	"DETECTED", "CONFIRMING", "SCREENING", "CREDITED", "FLAGGED", "APPROVING", "REJECTING", "REDIRECTING",
	"RESOLUTION_STUCK", "REJECTED", "REDIRECTED", "ORPHANED", "UNSUPPORTED", "BELOW_MINIMUM",
	"REVERSED",
}

// FlaggedFilter selects deposits that screening flagged.
var FlaggedFilter = kernel.Parameter{
	Name: "isFlagged", Kind: kernel.FlagParameter,
	Text: "true: only deposits that screening flagged, resolved or not. false: only deposits that it did not flag. " +
		"With status CREDITED, REJECTED or REDIRECTED, true lists the resolved ones.",
}

var scopeNames = func() (words []string) {
	for _, s := range identity.Scopes {
		words = append(words, string(s))
	}
	return words
}()

// OptionalText returns nil for "".
func OptionalText(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

var (
	CustomerFilter = kernel.Parameter{
		Name: "customerId", Kind: kernel.TextParameter, Max: 128, Text: "Only of this customer, compared byte for " +
			"byte.",
	}

	MintFilter = kernel.Parameter{
		Name: "mintId", Kind: kernel.NumberParameter, Max: math.MaxInt32,
		Text: "Only of this mint.",
	}

	ChainFilter = kernel.Parameter{
		Name: "chain", Kind: kernel.WordParameter, Enum: ChainNames,
		Text: "Only on this chain.",
	}

	TxHashFilter = kernel.Parameter{Name: "txHash", Kind: kernel.TextParameter, Max: 128, Text: "Only of this " +
		"transaction."}

	AddressFilter = kernel.Parameter{Name: "address", Kind: kernel.TextParameter, Max: 128, Text: "Only of this " +
		"address."}

	TypeFilter = kernel.Parameter{
		Name: "type", Kind: kernel.WordParameter, Enum: withdrawalTypes,
		Text: "Only customers' withdrawals, or only the organization's own.",
	}
)

// Severities are the values of a risk threshold.
var Severities = func() (words []string) {
	for _, s := range org.Severities {
		words = append(words, string(s))
	}
	return words
}()

// WithdrawalStatuses are the statuses of a withdrawal.
var WithdrawalStatuses = []string{
	string(withdrawal.AwaitingApproval), string(withdrawal.Processing), string(withdrawal.Broadcast),
	string(withdrawal.Completed), string(withdrawal.Failed), string(withdrawal.Rejected), string(withdrawal.Cancelled),
	string(withdrawal.Blocked),
}

// SwapStatuses are the statuses of a customer swap.
var SwapStatuses = func() (words []string) {
	for _, s := range swap.Statuses {
		words = append(words, string(s))
	}
	return words
}()

// OrganizationSwapStatuses are the statuses of an organization swap: those of a customer swap, and those of
// its approval.
var OrganizationSwapStatuses = append([]string{
	string(swap.AwaitingApproval), string(swap.Rejected), string(swap.CancelledStatus),
}, SwapStatuses...)

// DepositSwapStatuses are the statuses of a deposit swap.
var DepositSwapStatuses = func() (words []string) {
	for _, s := range depositswap.Statuses {
		words = append(words, string(s))
	}
	return words
}()

// ProductStatuses are the statuses of a product.
var ProductStatuses = func() (words []string) {
	for _, s := range checkout.Statuses {
		words = append(words, string(s))
	}
	return words
}()

// LinkStatuses are the statuses of a payment link.
var LinkStatuses = func() (words []string) {
	for _, s := range checkout.LinkStatuses {
		words = append(words, string(s))
	}
	return words
}()

// CheckoutStatuses are the statuses of a checkout.
var CheckoutStatuses = func() (words []string) {
	for _, s := range outcome.Statuses {
		words = append(words, string(s))
	}
	return words
}()

// CheckoutExceptions are the exceptions that a checkout can have, the most severe first.
var CheckoutExceptions = func() (words []string) {
	for _, e := range outcome.Exceptions {
		if e != outcome.NoException {
			words = append(words, string(e))
		}
	}
	return words
}()

// CheckoutPaymentStatuses are the statuses of a payment of a checkout.
var CheckoutPaymentStatuses = func() (words []string) {
	for _, s := range outcome.PaymentStatuses {
		words = append(words, string(s))
	}
	return words
}()

// CheckoutRefundStatuses are the statuses of a refund of a checkout.
var CheckoutRefundStatuses = func() (words []string) {
	for _, s := range checkout.RefundStatuses {
		words = append(words, string(s))
	}
	return words
}()

// checkoutRefundKinds are the kinds of a refund of a checkout.
var checkoutRefundKinds = []string{
	string(checkout.FullRefund), string(checkout.OverpaidRefund), string(checkout.AmountRefund),
}

// RefundStatuses say how far the refund of a swap has come.
var RefundStatuses = []string{
	string(swap.RefundNone), string(swap.RefundPending), string(swap.RefundPartial), string(swap.RefundComplete),
	string(swap.RefundRestored), string(swap.RefundUnavailable), string(swap.RefundManual),
}

var withdrawalTypes = []string{webhook.OfCustomer, webhook.OfOrganization}
