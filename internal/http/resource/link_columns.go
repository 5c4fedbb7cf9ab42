package resource

import (
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/webhook"
)

// LinkColumns are the columns of the table of payment links.
var LinkColumns = []kernel.Column[webhook.PaymentLink]{
	{Name: "linkId", Cell: func(l webhook.PaymentLink) string { return l.LinkID }},
	{Name: "createdAt", Cell: func(l webhook.PaymentLink) string { return l.CreatedAt.String() }},
	{Name: "status", Cell: func(l webhook.PaymentLink) string { return l.Status }},
	{Name: "url", Cell: func(l webhook.PaymentLink) string { return TextOrEmpty(l.URL) }},
	{Name: "slug", Cell: func(l webhook.PaymentLink) string { return l.Slug }},
	{Name: "productIds", Cell: func(l webhook.PaymentLink) string { return joinLinkItems(l.LineItems) }},
	{Name: "maxCompleted", Cell: func(l webhook.PaymentLink) string {
		if l.MaxCompleted == nil {
			return ""
		}
		return strconv.Itoa(*l.MaxCompleted)
	}},
	{Name: "completedCount", Cell: func(l webhook.PaymentLink) string { return strconv.Itoa(l.CompletedCount) }},
	{Name: "expiresAt", Cell: func(l webhook.PaymentLink) string { return TimeOrEmpty(l.ExpiresAt) }},
	{Name: "afterText", Cell: func(l webhook.PaymentLink) string { return TextOrEmpty(l.AfterText) }},
	{Name: "successUrl", Cell: func(l webhook.PaymentLink) string { return TextOrEmpty(l.SuccessURL) }},
	{Name: "idempotencyKey", Cell: func(l webhook.PaymentLink) string { return TextOrEmpty(l.IdempotencyKey) }},
	{Name: "updatedAt", Cell: func(l webhook.PaymentLink) string { return l.UpdatedAt.String() }},
	{Name: "endedAt", Cell: func(l webhook.PaymentLink) string { return TimeOrEmpty(l.EndedAt) }},
}

func joinLinkItems(items []webhook.LinkItem) string {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.ProductID
	}
	return strings.Join(ids, " ")
}
