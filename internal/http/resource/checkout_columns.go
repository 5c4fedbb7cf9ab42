package resource

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// CheckoutColumns are the columns of the table of checkouts. It has no address of a page: the address allows the
// payer's actions.
var CheckoutColumns = []kernel.Column[webhook.Checkout]{
	{Name: "checkoutId", Cell: func(c webhook.Checkout) string { return c.CheckoutID }},
	{Name: "createdAt", Cell: func(c webhook.Checkout) string { return c.CreatedAt.String() }},
	{Name: "status", Cell: func(c webhook.Checkout) string { return c.Status }},
	{Name: "exception", Cell: func(c webhook.Checkout) string { return c.Exception }},
	{Name: "exceptions", Cell: func(c webhook.Checkout) string { return strings.Join(c.Details.Exceptions, " ") }},
	{Name: "currency", Cell: func(c webhook.Checkout) string { return c.Currency }},
	{Name: "amountDue", Cell: func(c webhook.Checkout) string { return c.AmountDue }},
	{Name: "amountPaid", Cell: func(c webhook.Checkout) string { return c.AmountPaid }},
	{Name: "amountRemaining", Cell: func(c webhook.Checkout) string { return c.AmountRemaining }},
	{Name: "amountOverpaid", Cell: func(c webhook.Checkout) string { return c.AmountOverpaid }},
	{Name: "items", Cell: func(c webhook.Checkout) string { return joinItems(c.LineItems) }},
	{Name: "reference", Cell: func(c webhook.Checkout) string { return TextOrEmpty(c.Reference) }},
	{Name: "onePerReference", Cell: func(c webhook.Checkout) string { return strconv.FormatBool(c.OnePerReference) }},
	{Name: "customerId", Cell: func(c webhook.Checkout) string { return TextOrEmpty(c.CustomerID) }},
	{Name: "customerEmail", Cell: func(c webhook.Checkout) string { return TextOrEmpty(c.CustomerEmail) }},
	{Name: "acceptedMintIds", Cell: func(c webhook.Checkout) string { return joinNumbers(c.AcceptedMintIDs) }},
	{Name: "metadata", Cell: func(c webhook.Checkout) string { return MetadataJSON(c.Metadata) }},
	{Name: "idempotencyKey", Cell: func(c webhook.Checkout) string { return TextOrEmpty(c.IdempotencyKey) }},
	{Name: "acceptedBy", Cell: func(c webhook.Checkout) string {
		if c.AcceptedBy == nil {
			return ""
		}
		return c.AcceptedBy.Type + " " + c.AcceptedBy.ID
	}},
	{Name: "acceptReason", Cell: func(c webhook.Checkout) string { return TextOrEmpty(c.AcceptReason) }},
	{Name: "expiresAt", Cell: func(c webhook.Checkout) string { return c.ExpiresAt.String() }},
	{Name: "cancelledAt", Cell: func(c webhook.Checkout) string { return TimeOrEmpty(c.CancelledAt) }},
	{Name: "completedAt", Cell: func(c webhook.Checkout) string { return TimeOrEmpty(c.CompletedAt) }},
	{Name: "updatedAt", Cell: func(c webhook.Checkout) string { return c.UpdatedAt.String() }},
	{Name: "linkId", Cell: func(c webhook.Checkout) string { return TextOrEmpty(c.LinkID) }},
}

// joinItems writes the positions of a checkout into one cell.
func joinItems(items []webhook.LineItem) string {
	words := make([]string, len(items))
	for i, item := range items {
		words[i] = fmt.Sprintf("%d x %s", item.Quantity, item.Name)
	}
	return strings.Join(words, "; ")
}
