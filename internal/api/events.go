package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/platform/pagination"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

// sequenceMax is the largest integer that every JSON reader represents exactly.
const sequenceMax = 1<<53 - 1

var eventTypes = func() []string {
	var names []string
	for _, t := range event.AllTypes() {
		names = append(names, string(t))
	}
	return names
}()

// endpointEvents are the types that an endpoint may name.
var endpointEvents = append([]string{string(event.EveryType)}, eventTypes...)

// encodeFeed copies the bodies byte for byte as they were signed. It builds the JSON by hand,
// because encoding them again could change the bytes.
func encodeFeed(bodies []json.RawMessage, nextCursor *string) []byte {
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
func (c *call) feedScope() []string { return []string{c.org, "events", c.query["types"]} }

func (a *api) listEvents(c *call) (answer, error) {
	afterSeq, limit := int64(0), pagination.LimitDefault
	if n := c.query.numberValue("after"); n != nil {
		afterSeq = int64(*n)
	}
	if text, present := c.query["cursor"]; present {
		cursor, err := pagination.DecodeCursor(text, a.conf.CursorKey, c.feedScope()...)
		if err != nil {
			return answer{}, err
		}
		if afterSeq, err = strconv.ParseInt(cursor.ID, 10, 64); err != nil {
			return answer{}, fmt.Errorf("a cursor that we signed has no sequence: %w", err)
		}
	}
	if n := c.query.numberValue("limit"); n != nil {
		limit = *n
	}
	var types []event.Type
	if text := c.query["types"]; text != "" {
		for name := range strings.SplitSeq(text, ",") {
			types = append(types, event.Type(name))
		}
	}
	var found event.Page
	err := a.conf.DB.ReadOrg(c.Context(), c.org, func(ctx context.Context, tx pg.Tx) (err error) {
		found, err = event.ReadFeed(ctx, tx, c.org, afterSeq, types, limit)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	var nextCursor *string
	if found.HasMore {
		text := pagination.EncodeCursor(pagination.Cursor{ID: strconv.FormatInt(found.NextAfter, 10)}, a.conf.CursorKey,
			c.feedScope()...)
		nextCursor = &text
	}
	return answer{status: http.StatusOK, raw: encodeFeed(found.Bodies, nextCursor)}, nil
}

// WebhookKeys are the public keys that sign webhooks.
type WebhookKeys struct {
	Keys []string `json:"keys"`
}

func (a *api) getWebhookKeys(c *call) (answer, error) {
	keys := a.conf.WebhookKeys
	if keys == nil {
		keys = []string{}
	}
	c.header.Set("Cache-Control", "public, max-age=300")
	return answer{status: http.StatusOK, body: WebhookKeys{Keys: keys}}, nil
}

func (a *api) getOpenAPI(c *call) (answer, error) {
	c.header.Set("Cache-Control", "public, max-age=300")
	return answer{status: http.StatusOK, raw: a.document()}, nil
}
