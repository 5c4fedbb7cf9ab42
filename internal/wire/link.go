package wire

import (
	"github.com/cofferpay/coffer/internal/checkout"
	"github.com/cofferpay/coffer/webhook"
)

// PaymentLink returns the object of a payment link.
func PaymentLink(l checkout.Link) webhook.PaymentLink {
	o := webhook.PaymentLink{
		LinkID: l.ID, URL: textOrNil(l.URL), Slug: l.Slug, Status: string(l.Status), MaxCompleted: l.MaxCompleted,
		CompletedCount: l.CompletedCount, ExpiresAt: webhook.AtOrNil(l.ExpiresAt), AfterText: l.AfterText,
		SuccessURL: l.SuccessURL, IdempotencyKey: textOrNil(l.IdempotencyKey), CreatedAt: webhook.At(l.CreatedAt),
		UpdatedAt: webhook.At(l.UpdatedAt), EndedAt: webhook.AtOrNil(l.EndedAt),
	}
	for _, item := range l.Items {
		o.LineItems = append(o.LineItems, webhook.LinkItem(item))
	}
	return o
}
