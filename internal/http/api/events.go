package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// webhooks returns the events that the document describes.
func webhooks() []kernel.Webhook {
	var events []kernel.Webhook
	for _, t := range event.AllTypes() {
		text := "The service sends this event to each endpoint that names no events, and to each that names this one."
		if event.IsExtension(t) {
			text = "An extension: the service sends this event only to endpoints that name it."
		}
		events = append(events, kernel.Webhook{
			Type: string(t), Data: eventDataType(t),
			Text: text + " Answer 2xx within 15 seconds. The service repeats the delivery after any other answer, " +
				"and " +
				"410 disables the endpoint. The same event can arrive more than once, always with the same " +
				"webhook-id " +
				"and body.",
		})
	}
	return events
}

// eventDataType returns the type of an event's data.
func eventDataType(t event.Type) reflect.Type {
	switch {
	case t == event.CustomerSwapDelayed:
		return reflect.TypeFor[webhook.SwapDelayed]()
	case t == event.CustomerSwapFailed, t == event.CustomerSwapRefunded:
		return reflect.TypeFor[webhook.SwapFailed]()
	case strings.HasPrefix(string(t), "CUSTOMER_DEPOSIT"), strings.HasPrefix(string(t), "ORGANIZATION_DEPOSIT"):
		return reflect.TypeFor[webhook.Deposit]()
	case t == event.OrganizationSwapCompleted, t == event.OrganizationSwapFailed:
		return reflect.TypeFor[webhook.OrganizationSwap]()
	case t == event.TransferCompleted:
		return reflect.TypeFor[webhook.Transfer]()
	case strings.HasPrefix(string(t), "CUSTOMER_WITHDRAW"), strings.HasPrefix(string(t), "ORGANIZATION_WITHDRAW"):
		return reflect.TypeFor[webhook.Withdrawal]()
	case strings.HasPrefix(string(t), "CHECKOUT_"):
		return reflect.TypeFor[webhook.Checkout]()
	case strings.HasPrefix(string(t), "BATCH_PAYOUT_"):
		return reflect.TypeFor[webhook.BatchPayout]()
	case t == event.InvoiceIssued:
		return reflect.TypeFor[webhook.Invoice]()
	case t == event.CreditNoteIssued:
		return reflect.TypeFor[webhook.CreditNote]()
	}
	panic("api: the document does not know the data of " + string(t))
}

// sequenceMax is the largest integer that every JSON reader represents exactly.
const sequenceMax = 1<<53 - 1

// feed is a page of the bodies of webhooks.
type feed = kernel.Raw[kernel.Page[webhook.Envelope]]

// encodeFeed copies the bodies byte for byte as they were signed. It builds the JSON by hand,
// because encoding them again could change the bytes.
func encodeFeed(bodies []json.RawMessage, nextCursor *string) feed {
	var b bytes.Buffer
	b.WriteString(`{"data":[`)
	for i, body := range bodies {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(body)
	}
	b.WriteString(`],"hasMore":` + strconv.FormatBool(nextCursor != nil) + `,"nextCursor":`)
	if nextCursor != nil {
		b.WriteString(`"` + *nextCursor + `"`) // base64
	} else {
		b.WriteString("null")
	}
	b.WriteString("}")
	return b.Bytes()
}

// feedScope is the scope to which a cursor of the feed is bound. It does not include the start of
// the first page, which later pages have behind them.
func feedScope(c *call) []string { return []string{"events", c.Query["types"]} }

func (a *api) listEvents(c *call) (feed, error) {
	afterSeq, limit := int64(0), pagination.LimitDefault
	if n := c.Query.NumberValue("after"); n != nil {
		afterSeq = int64(*n)
	}
	if text, present := c.Query["cursor"]; present {
		cursor, err := c.DecodeCursor(text, feedScope(c)...)
		if err != nil {
			return nil, err
		}
		if afterSeq, err = strconv.ParseInt(cursor.ID, 10, 64); err != nil {
			return nil, fmt.Errorf("a cursor that we signed has no sequence: %w", err)
		}
	}
	if n := c.Query.NumberValue("limit"); n != nil {
		limit = *n
	}
	var types []event.Type
	if text := c.Query["types"]; text != "" {
		for name := range strings.SplitSeq(text, ",") {
			types = append(types, event.Type(name))
		}
	}
	var found event.Page
	err := a.conf.DB.ReadOrg(c.Context(), c.Caller.OrgID, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = event.ReadFeed(ctx, tx, c.Caller.OrgID, afterSeq, types, limit)
		return err
	})
	if err != nil {
		return nil, err
	}
	var nextCursor *string
	if found.HasMore {
		text := c.EncodeCursor(pagination.Cursor{ID: strconv.FormatInt(found.NextAfter, 10)}, feedScope(c)...)
		nextCursor = &text
	}
	return encodeFeed(found.Bodies, nextCursor), nil
}

// WebhookKeys are the public keys that sign webhooks.
type WebhookKeys struct {
	Keys []string `json:"keys" doc:"The keys, newest first."`
}

func (a *api) getWebhookKeys(c *call) (WebhookKeys, error) {
	keys := a.conf.WebhookKeys
	if keys == nil {
		keys = []string{}
	}
	c.AnswerHeader.Set("Cache-Control", "public, max-age=300")
	return WebhookKeys{Keys: keys}, nil
}

// webhookHeaders are the headers of an event.
var webhookHeaders = []kernel.Header{
	{Name: "webhook-id", Text: "The id of the event, which is the same in all attempts. A receiver ignores an event " +
		"that it has " +
		"processed."},
	{Name: "webhook-timestamp", Text: "When this attempt was made, in seconds since 1970. A receiver refuses old " +
		"messages."},
	{
		Name: "webhook-signature",
		Text: "v1 with HMAC-SHA256 and v1a with ed25519, over webhook-id, webhook-timestamp and the raw body, " +
			"joined by " +
			"points. While a secret or key is being replaced, the header also has a signature of each kind by the " +
			"former one: one valid signature is enough.",
	},
	{Name: "webhook-attempt", Text: "1, 2, …: the number of attempts to deliver this event to this endpoint."},
}
