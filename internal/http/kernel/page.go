package kernel

import (
	"github.com/cofferpay/coffer/internal/platform/pagination"
)

// ExamplePage returns a page with one item, for the document.
func ExamplePage[T any](item T) Page[T] { return Page[T]{Data: []T{item}} }

// ReadPage reads limit, order and cursor. A cursor is bound to the organization,
// the list, the order and every filter.
func (c *Request) ReadPage(list string) (pagination.Page, error) {
	p := pagination.Page{Desc: c.Query["order"] != "asc"}
	if n := c.Query.NumberValue("limit"); n != nil {
		p.Limit = *n
	}
	text, present := c.Query["cursor"]
	if !present {
		return p, nil
	}
	cursor, err := c.DecodeCursor(text, c.cursorScope(list)...)
	if err != nil {
		return p, err
	}
	p.Cursor = &cursor
	return p, nil
}

// DecodeCursor reads a cursor that EncodeCursor made for the same tenant and scope.
func (c *Request) DecodeCursor(text string, scope ...string) (pagination.Cursor, error) {
	return pagination.DecodeCursor(text, c.server.conf.CursorKey, append([]string{c.caller.Tenant()}, scope...)...)
}

// EncodeCursor signs a cursor, which is valid only for this tenant and scope.
func (c *Request) EncodeCursor(cursor pagination.Cursor, scope ...string) string {
	return pagination.EncodeCursor(cursor, c.server.conf.CursorKey, append([]string{c.caller.Tenant()}, scope...)...)
}

func (c *Request) cursorScope(list string) []string {
	scope := []string{list}
	for _, name := range SortedKeys(c.Query) {
		if name != "cursor" && name != "limit" {
			scope = append(scope, name, c.Query[name])
		}
	}
	return scope
}

// Page is the body of a list.
type Page[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"hasMore" doc:"Whether there are more items."`
	NextCursor *string `json:"nextCursor" doc:"The cursor of the next page; null on the last page."`
}

// NewPage makes the body of a list from what a feature has found.
func NewPage[T, S any](c *Request, list string, found pagination.Result[S], show func(S) T) Page[T] {
	result := Page[T]{Data: make([]T, 0, len(found.Items))}
	for _, item := range found.Items {
		result.Data = append(result.Data, show(item))
	}
	if found.NextCursor != nil {
		nextCursor := c.EncodeCursor(*found.NextCursor, c.cursorScope(list)...)
		result.HasMore, result.NextCursor = true, &nextCursor
	}
	return result
}
