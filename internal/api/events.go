package api

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/cofferpay/coffer/internal/event"
	"github.com/cofferpay/coffer/internal/fault"
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

// feed has the bodies byte for byte as they were signed, so it is put together
// by hand: encoding them again could write them otherwise.
func feed(bodies []json.RawMessage, more bool, next int64) []byte {
	var b bytes.Buffer
	b.WriteString(`{"data":[`)
	for i, body := range bodies {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(body)
	}
	b.WriteString(`],"hasMore":` + strconv.FormatBool(more) + `,"nextCursor":`)
	if more {
		b.WriteString(`"` + strconv.FormatInt(next, 10) + `"`)
	} else {
		b.WriteString("null")
	}
	b.WriteString("}")
	return b.Bytes()
}

func (a *api) listEvents(c *call) (answer, error) {
	after, limit := int64(0), page.LimitDefault
	if n := c.query.number("after"); n != nil {
		after = int64(*n)
	}
	// nextCursor is the last sequence of the page before; pages are asked for as
	// with every list, so the cursor goes before the place where the first began.
	if text, given := c.query["cursor"]; given {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != text || n < 0 || n > sequenceMax {
			return answer{}, fault.New(fault.Invalid, fault.InvalidCursor,
				"This cursor does not belong to this list. You only read, so nothing was changed. Send the nextCursor of the page before, or after with the last sequence that you have.").On("cursor")
		}
		after = n
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
	return answer{status: http.StatusOK, raw: feed(found.Bodies, found.HasMore, found.Next)}, nil
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
	return answer{status: http.StatusOK, raw: a.document}, nil
}
