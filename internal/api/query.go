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
	"github.com/cofferpay/coffer/internal/page"
)

// queryBytesMax bounds the query of a request.
const queryBytesMax = 4096

// parameter is a query parameter of a route. What a value may be is said once,
// here, for the check and for the document.
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

// query are the parameters that were given and are well-formed.
type query map[string]string

func sortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func readQuery(r *http.Request, known []parameter) (query, error) {
	if len(r.URL.RawQuery) > queryBytesMax {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "The query has at most %d bytes. You only read, so nothing was changed. Shorten it.", queryBytesMax)
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, fault.New(fault.Invalid, fault.InvalidRequest, "The query cannot be read."+untouched+" Escape its values as URLs want it.")
	}
	q := query{}
	for _, name := range sortedKeys(values) {
		i := slices.IndexFunc(known, func(p parameter) bool { return p.name == name })
		if i < 0 {
			return nil, unknownParameter(name, known)
		}
		if len(values[name]) != 1 {
			return nil, known[i].refuse("may be given once")
		}
		if err := known[i].check(values[name][0]); err != nil {
			return nil, err
		}
		q[name] = values[name][0]
	}
	return q, nil
}

func unknownParameter(name string, known []parameter) *fault.Fault {
	names := make([]string, 0, len(known))
	for _, p := range known {
		names = append(names, p.name)
	}
	hint := "This call takes no query parameters."
	if len(names) > 0 {
		hint = "Known are " + strings.Join(names, ", ") + "."
	}
	if near := nearest(name, names); near != "" {
		hint = "Did you mean " + near + "?"
	}
	return fault.New(fault.Invalid, fault.UnknownField, "There is no query parameter %q here."+untouched+" %s", clip(name), hint).On(clip(name))
}

func (p parameter) refuse(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, "The query parameter %s %s."+untouched+" Correct it or leave it out.",
		p.name, fmt.Sprintf(format, args...)).On(p.name)
}

func (p parameter) check(v string) error {
	if v == "" || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
		return p.refuse("has to be text without control characters")
	}
	switch p.kind {
	case textParameter:
		if len(v) > p.max {
			return p.refuse("has at most %d bytes", p.max)
		}
	case wordParameter:
		if !slices.Contains(p.enum, v) {
			return p.refuse("is one of %s", strings.Join(p.enum, ", "))
		}
	case wordsParameter:
		for word := range strings.SplitSeq(v, ",") {
			if !slices.Contains(p.enum, word) {
				return p.refuse("is a list, separated by commas, of %s", strings.Join(p.enum, ", "))
			}
		}
	case flagParameter:
		if v != "true" && v != "false" {
			return p.refuse("is true or false")
		}
	case numberParameter:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != v || n < p.min() || n > int64(p.max) {
			return p.refuse("is a whole number from %d to %d", p.min(), p.max)
		}
	case timeParameter:
		// Beyond these years neither JSON nor the database has a time.
		if t, err := time.Parse(time.RFC3339Nano, v); err != nil || t.Year() < 1 || t.Year() > 9999 {
			return p.refuse("is a time such as 2026-01-31T12:00:00.000Z")
		}
	}
	return nil
}

// min is the smallest number: a sequence may be asked for from before its
// first, everything else counts from 1.
func (p parameter) min() int64 {
	if p.name == "after" {
		return 0
	}
	return 1
}

func (q query) number(name string) *int {
	v, given := q[name]
	if !given {
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic("api: a number that was checked is none: " + v)
	}
	return &n
}

func (q query) flag(name string) *bool {
	v, given := q[name]
	if !given {
		return nil
	}
	set := v == "true"
	return &set
}

func (q query) time(name string) *time.Time {
	v, given := q[name]
	if !given {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		panic("api: a time that was checked is none: " + v)
	}
	return &t
}

// Parameters that lists share.
var (
	limitParameter  = parameter{name: "limit", kind: numberParameter, max: page.LimitMax, text: "How many items a page has; 50 unless given."}
	cursorParameter = parameter{name: "cursor", kind: textParameter, max: 1024, text: "Where to continue: the nextCursor of the page before, with the same filters and order."}
	orderParameter  = parameter{name: "order", kind: wordParameter, enum: []string{"desc", "asc"}, text: "By time of creation: newest first (desc, unless given) or oldest first."}
	createdAfter    = parameter{name: "createdAfter", kind: timeParameter, text: "Only what was created after this time, which is excluded."}
	createdBefore   = parameter{name: "createdBefore", kind: timeParameter, text: "Only what was created before this time, which is excluded."}
	customerFilter  = parameter{name: "customerId", kind: textParameter, max: 128, text: "Only of this customer, compared byte for byte."}
	mintFilter      = parameter{name: "mintId", kind: numberParameter, max: math.MaxInt32, text: "Only of this mint."}
	chainFilter     = parameter{name: "chain", kind: wordParameter, enum: chainNames, text: "Only on this chain."}
	txHashFilter    = parameter{name: "txHash", kind: textParameter, max: 128, text: "Only of this transaction."}
	addressFilter   = parameter{name: "address", kind: textParameter, max: 128, text: "Only of this address."}
	typeFilter      = parameter{name: "type", kind: wordParameter, enum: withdrawalTypes, text: "Only customers' withdrawals, or only the organization's own."}
)

// listParameters are a list's own filters with the ones that every list has.
func listParameters(filters ...parameter) []parameter {
	return append(filters, createdAfter, createdBefore, orderParameter, limitParameter, cursorParameter)
}

// sameHash spells a transaction's hash as it is kept: one in hexadecimal is the
// same in every letter case, and the others are not.
func sameHash(s string) string {
	const hexBytes = 66
	if len(s) == hexBytes && strings.HasPrefix(strings.ToLower(s), "0x") && strings.Trim(s[2:], "0123456789abcdefABCDEF") == "" {
		return strings.ToLower(s)
	}
	return s
}

// sameAddress spells an address as it is kept, if any chain of ours has it.
func (a *api) sameAddress(s string) string {
	for _, name := range sortedKeys(a.conf.Chains) {
		if parsed, err := a.conf.Chains[name].Grammar.Parse(s); err == nil {
			return string(parsed)
		}
	}
	return s
}

// place reads limit, order and cursor. A cursor is bound to the organization,
// the list, the order and every filter.
func (a *api) place(c *call, list string) (page.Page, error) {
	p := page.Page{Desc: c.query["order"] != "asc"}
	if n := c.query.number("limit"); n != nil {
		p.Limit = *n
	}
	text, given := c.query["cursor"]
	if !given {
		return p, nil
	}
	at, err := page.Decode(text, a.conf.CursorKey, c.scope(list)...)
	if err != nil {
		return p, err
	}
	p.Cursor = &at
	return p, nil
}

func (c *call) scope(list string) []string {
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

func listed[T, S any](a *api, c *call, list string, found page.Result[S], show func(S) T) Page[T] {
	out := Page[T]{Data: make([]T, 0, len(found.Items))}
	for _, item := range found.Items {
		out.Data = append(out.Data, show(item))
	}
	if found.Next != nil {
		next := page.Encode(*found.Next, a.conf.CursorKey, c.scope(list)...)
		out.HasMore, out.NextCursor = true, &next
	}
	return out
}
