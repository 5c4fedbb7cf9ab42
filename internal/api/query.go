package api

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/platform/pagination"
)

// queryBytesMax bounds the query of a request.
const queryBytesMax = 4096

// parameter is a query parameter of a route. It defines the allowed values once, for the check and
// for the document.
type parameter struct {
	name string
	kind parameterKind
	text string
	enum []string
	max  int // largest number, or longest text in bytes
}

type parameterKind int

const (
	textParameter  parameterKind = iota
	wordParameter                // one of enum
	wordsParameter               // some of enum, separated by commas
	flagParameter
	numberParameter
	timeParameter
)

// query holds the parameters that were given and are well-formed.
type query map[string]string

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// Rule REQ-5.
func readQuery(r *http.Request, allowed []parameter) (query, error) {
	if len(r.URL.RawQuery) > queryBytesMax {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.ReadOnly,
			"The query is longer than %d bytes.", queryBytesMax).
			WithAdvice("Shorten the query.")
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The query cannot be parsed.").
			WithAdvice("Escape its values as URLs require.")
	}
	q := query{}
	for _, name := range sortedKeys(values) {
		i := slices.IndexFunc(allowed, func(p parameter) bool { return p.name == name })
		if i < 0 {
			return nil, unknownParameter(name, allowed)
		}
		if len(values[name]) != 1 {
			return nil, allowed[i].newFault("may be given only once")
		}
		if err := allowed[i].checkValue(values[name][0]); err != nil {
			return nil, err
		}
		q[name] = values[name][0]
	}
	return q, nil
}

func unknownParameter(name string, allowed []parameter) *fault.Fault {
	names := make([]string, 0, len(allowed))
	for _, p := range allowed {
		names = append(names, p.name)
	}
	hint := "This call takes no query parameters."
	if len(names) > 0 {
		hint = "The known parameters are " + strings.Join(names, ", ") + "."
	}
	if suggestion := nearestName(name, names); suggestion != "" {
		hint = "Did you mean " + suggestion + "?"
	}
	return fault.New(fault.Invalid, fault.UnknownField, fault.NothingWritten,
		"The query parameter %q is not known here.", clipText(name)).
		WithAdvice("%s", hint).WithParam(clipText(name))
}

func (p parameter) newFault(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"The query parameter %s %s.", p.name, fmt.Sprintf(format, args...)).
		WithAdvice("Correct it or leave it out.").WithParam(p.name)
}

// Rule REQ-7.
func (p parameter) checkValue(v string) error {
	if v == "" || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
		return p.newFault("has to be text without control characters")
	}
	switch p.kind {
	case textParameter:
		if len(v) > p.max {
			return p.newFault("may have at most %d bytes", p.max)
		}
	case wordParameter:
		if !slices.Contains(p.enum, v) {
			return p.newFault("has to be one of %s", strings.Join(p.enum, ", "))
		}
	case wordsParameter:
		for word := range strings.SplitSeq(v, ",") {
			if !slices.Contains(p.enum, word) {
				return p.newFault("has to be a list, separated by commas, of %s", strings.Join(p.enum, ", "))
			}
		}
	case flagParameter:
		if v != "true" && v != "false" {
			return p.newFault("has to be true or false")
		}
	case numberParameter:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != v || n < p.minNumber() || n > int64(p.max) {
			return p.newFault("has to be a whole number from %d to %d", p.minNumber(), p.max)
		}
	case timeParameter:
		// JSON and the database have no time beyond these years.
		if t, err := time.Parse(time.RFC3339Nano, v); err != nil || t.Year() < 1 || t.Year() > 9999 {
			return p.newFault("has to be a time such as 2026-01-31T12:00:00.000Z")
		}
	}
	return nil
}

// minNumber returns the smallest allowed number. "after" may be 0, before the first sequence
// number; all other numbers start at 1.
func (p parameter) minNumber() int64 {
	if p.name == "after" {
		return 0
	}
	return 1
}

func (q query) numberValue(name string) *int {
	v, present := q[name]
	if !present {
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic("api: a checked number is not a number: " + v)
	}
	return &n
}

func (q query) flagValue(name string) *bool {
	v, present := q[name]
	if !present {
		return nil
	}
	set := v == "true"
	return &set
}

func (q query) timeValue(name string) *time.Time {
	v, present := q[name]
	if !present {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		panic("api: a checked time is not a time: " + v)
	}
	return &t
}

// The parameters that lists share.
var (
	limitParameter = parameter{
		name: "limit", kind: numberParameter, max: pagination.LimitMax,
		text: "The number of items on a page; the default is 50.",
	}
	cursorParameter = parameter{
		name: "cursor", kind: textParameter, max: 1024,
		text: "The nextCursor of the previous page, with the same filters and order.",
	}
	orderParameter = parameter{
		name: "order", kind: wordParameter, enum: []string{"desc", "asc"},
		text: "The order by time of creation: desc, the default, is newest first; asc is oldest first.",
	}
	createdAfter = parameter{
		name: "createdAfter", kind: timeParameter, text: "Only items created after this time; the time itself is " +
			"excluded.",
	}
	createdBefore = parameter{
		name: "createdBefore", kind: timeParameter, text: "Only items created before this time; the time itself is " +
			"excluded.",
	}
	customerFilter = parameter{
		name: "customerId", kind: textParameter, max: 128, text: "Only of this customer, compared byte for byte.",
	}
	mintFilter    = parameter{name: "mintId", kind: numberParameter, max: math.MaxInt32, text: "Only of this mint."}
	chainFilter   = parameter{name: "chain", kind: wordParameter, enum: chainNames, text: "Only on this chain."}
	txHashFilter  = parameter{name: "txHash", kind: textParameter, max: 128, text: "Only of this transaction."}
	addressFilter = parameter{name: "address", kind: textParameter, max: 128, text: "Only of this address."}
	typeFilter    = parameter{
		name: "type", kind: wordParameter, enum: withdrawalTypes,
		text: "Only customers' withdrawals, or only the organization's own.",
	}
)

// listParameters returns a list's own filters with the parameters of every list.
func listParameters(filters ...parameter) []parameter {
	return append(filters, createdAfter, createdBefore, orderParameter, limitParameter, cursorParameter)
}

// canonicalHash returns a transaction's hash as it is stored. A hexadecimal hash is the same in
// every letter case; other hashes are not. Rule LIST-3.
func canonicalHash(s string) string {
	const hexBytes = 66
	if len(s) == hexBytes && strings.HasPrefix(strings.ToLower(s), "0x") &&
		strings.Trim(s[2:], "0123456789abcdefABCDEF") == "" {
		return strings.ToLower(s)
	}
	return s
}

// canonicalAddress returns an address as it is stored, if a configured chain can parse it.
// Rule LIST-3.
func (a *api) canonicalAddress(s string) string {
	for _, name := range sortedKeys(a.conf.Chains) {
		if parsed, err := a.conf.Chains[name].AddressCodec.Parse(s); err == nil {
			return string(parsed)
		}
	}
	return s
}

// readPage reads limit, order and cursor. A cursor is bound to the organization,
// the list, the order and every filter.
func (a *api) readPage(c *call, list string) (pagination.Page, error) {
	p := pagination.Page{Desc: c.query["order"] != "asc"}
	if n := c.query.numberValue("limit"); n != nil {
		p.Limit = *n
	}
	text, present := c.query["cursor"]
	if !present {
		return p, nil
	}
	cursor, err := pagination.DecodeCursor(text, a.conf.CursorKey, c.cursorScope(list)...)
	if err != nil {
		return p, err
	}
	p.Cursor = &cursor
	return p, nil
}

func (c *call) cursorScope(list string) []string {
	scope := []string{c.org, list}
	for _, name := range sortedKeys(c.query) {
		if name != "cursor" && name != "limit" {
			scope = append(scope, name, c.query[name])
		}
	}
	return scope
}

// Page is the body of a list.
type Page[T any] struct {
	Data       []T     `json:"data"`
	HasMore    bool    `json:"hasMore"`
	NextCursor *string `json:"nextCursor"`
}

func newPage[T, S any](a *api, c *call, list string, found pagination.Result[S], show func(S) T) Page[T] {
	result := Page[T]{Data: make([]T, 0, len(found.Items))}
	for _, item := range found.Items {
		result.Data = append(result.Data, show(item))
	}
	if found.NextCursor != nil {
		nextCursor := pagination.EncodeCursor(*found.NextCursor, a.conf.CursorKey, c.cursorScope(list)...)
		result.HasMore, result.NextCursor = true, &nextCursor
	}
	return result
}
