package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/page"
	"github.com/cofferpay/coffer/internal/pg"
)

// sequenceMax is the largest number that every JSON reader keeps exact.
const sequenceMax = 1<<53 - 1

var eventTypes = func() []string {
	var names []string
	for _, t := range event.Types() {
		names = append(names, string(t))
	}
	return names
}()

// endpointEvents are what an endpoint may name.
var endpointEvents = append([]string{string(event.All)}, eventTypes...)

// feed has the bodies byte for byte as they were signed, so it is put together
// by hand: encoding them again could write them otherwise.
func feed(bodies []json.RawMessage, next *string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"data":[`)
	for i, body := range bodies {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(body)
	}
	b.WriteString(`],"hasMore":` + strconv.FormatBool(next != nil) + `,"nextCursor":`)
	if next != nil {
		b.WriteString(`"` + *next + `"`) // base64
	} else {
		b.WriteString("null")
	}
	b.WriteString("}")
	return b.Bytes()
}

// feedScope is what a cursor of the feed is bound to. Not to the place where the
// first page began, which a later page has behind it.
func (c *call) feedScope() []string { return []string{c.org, "events", c.query["types"]} }

func (a *api) listEvents(c *call) (answer, error) {
	after, limit := int64(0), page.LimitDefault
	if n := c.query.number("after"); n != nil {
		after = int64(*n)
	}
	if text, given := c.query["cursor"]; given {
		at, err := page.Decode(text, a.conf.CursorKey, c.feedScope()...)
		if err != nil {
			return answer{}, err
		}
		if after, err = strconv.ParseInt(at.ID, 10, 64); err != nil {
			return answer{}, fmt.Errorf("a cursor that we signed is no sequence: %w", err)
		}
	}
	if n := c.query.number("limit"); n != nil {
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
		found, err = event.Feed(ctx, tx, c.org, after, types, limit)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	var next *string
	if found.HasMore {
		text := page.Encode(page.Cursor{ID: strconv.FormatInt(found.Next, 10)}, a.conf.CursorKey, c.feedScope()...)
		next = &text
	}
	return answer{status: http.StatusOK, raw: feed(found.Bodies, next)}, nil
}

// WebhookKeys are the public keys that sign webhooks.
type WebhookKeys struct {
	Keys []string `json:"keys"`
}

func (a *api) webhookKeys(c *call) (answer, error) {
	keys := a.conf.WebhookKeys
	if keys == nil {
		keys = []string{}
	}
	c.warn.Set("Cache-Control", "public, max-age=300")
	return answer{status: http.StatusOK, body: WebhookKeys{Keys: keys}}, nil
}

func (a *api) openAPI(c *call) (answer, error) {
	c.warn.Set("Cache-Control", "public, max-age=300")
	return answer{status: http.StatusOK, raw: a.document()}, nil
}
