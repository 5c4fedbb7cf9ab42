package kernel

import (
	"fmt"
	"maps"
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

// Parameter is a query parameter of a route. It defines the allowed values once, for the check and
// for the document.
type Parameter struct {
	Name string
	Kind parameterKind
	Text string
	Enum []string
	Max  int // largest number, or longest text in bytes
}

type parameterKind int

const (
	TextParameter  parameterKind = iota
	WordParameter                // one of enum
	WordsParameter               // some of enum, separated by commas
	FlagParameter
	NumberParameter
	TimeParameter
)

// Query holds the parameters that were given and are well-formed.
type Query map[string]string

// SortedKeys returns the keys of a map in order.
func SortedKeys[K ~string, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

// ReadQuery reads the query of a request. It refuses a parameter that is unknown, repeated or
// malformed. Rule REQ-5.
func ReadQuery(r *http.Request, allowed []Parameter) (Query, error) {
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
	q := Query{}
	for _, name := range SortedKeys(values) {
		i := slices.IndexFunc(allowed, func(p Parameter) bool { return p.Name == name })
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

func unknownParameter(name string, allowed []Parameter) *fault.Fault {
	names := make([]string, 0, len(allowed))
	for _, p := range allowed {
		names = append(names, p.Name)
	}
	hint := "This call takes no query parameters."
	if len(names) > 0 {
		hint = "The known parameters are " + strings.Join(names, ", ") + "."
	}
	if suggestion := nearestName(name, names); suggestion != "" {
		hint = "Did you mean " + suggestion + "?"
	}
	return fault.New(fault.Invalid, fault.UnknownField, fault.NothingWritten,
		"The query parameter %q is not known here.", ClipText(name)).
		WithAdvice("%s", hint).WithParam(ClipText(name))
}

func (p Parameter) newFault(format string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"The query parameter %s %s.", p.Name, fmt.Sprintf(format, args...)).
		WithAdvice("Correct it or leave it out.").WithParam(p.Name)
}

// Rule REQ-7.
func (p Parameter) checkValue(v string) error {
	if v == "" || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
		return p.newFault("has to be text without control characters")
	}
	switch p.Kind {
	case TextParameter:
		if len(v) > p.Max {
			return p.newFault("may have at most %d bytes", p.Max)
		}
	case WordParameter:
		if !slices.Contains(p.Enum, v) {
			return p.newFault("has to be one of %s", strings.Join(p.Enum, ", "))
		}
	case WordsParameter:
		for word := range strings.SplitSeq(v, ",") {
			if !slices.Contains(p.Enum, word) {
				return p.newFault("has to be a list, separated by commas, of %s", strings.Join(p.Enum, ", "))
			}
		}
	case FlagParameter:
		if v != "true" && v != "false" {
			return p.newFault("has to be true or false")
		}
	case NumberParameter:
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || strconv.FormatInt(n, 10) != v || n < p.minNumber() || n > int64(p.Max) {
			return p.newFault("has to be a whole number from %d to %d", p.minNumber(), p.Max)
		}
	case TimeParameter:
		// JSON and the database have no time beyond these years.
		if t, err := time.Parse(time.RFC3339Nano, v); err != nil || t.Year() < 1 || t.Year() > 9999 {
			return p.newFault("has to be a time such as 2026-01-31T12:00:00.000Z")
		}
	}
	return nil
}

// minNumber returns the smallest allowed number. "after" may be 0, before the first sequence
// number; all other numbers start at 1.
func (p Parameter) minNumber() int64 {
	if p.Name == "after" {
		return 0
	}
	return 1
}

// NumberValue returns a number, and nil if it was not given.
func (q Query) NumberValue(name string) *int {
	v, present := q[name]
	if !present {
		return nil
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		panic("kernel: a checked number is not a number: " + v)
	}
	return &n
}

// FlagValue returns a flag, and nil if it was not given.
func (q Query) FlagValue(name string) *bool {
	v, present := q[name]
	if !present {
		return nil
	}
	set := v == "true"
	return &set
}

// TimeValue returns a time, and nil if it was not given.
func (q Query) TimeValue(name string) *time.Time {
	v, present := q[name]
	if !present {
		return nil
	}
	t, err := time.Parse(time.RFC3339Nano, v)
	if err != nil {
		panic("kernel: a checked time is not a time: " + v)
	}
	return &t
}

// TimeOrZero returns a time, and the zero time if it was not given.
func (q Query) TimeOrZero(name string) time.Time {
	if t := q.TimeValue(name); t != nil {
		return *t
	}
	return time.Time{}
}

// The parameters that lists share.
var (
	LimitParameter = Parameter{
		Name: "limit", Kind: NumberParameter, Max: pagination.LimitMax,
		Text: "The number of items on a page; the default is 50.",
	}
	CursorParameter = Parameter{
		Name: "cursor", Kind: TextParameter, Max: 1024,
		Text: "The nextCursor of the previous page, with the same filters and order.",
	}
	OrderParameter = Parameter{
		Name: "order", Kind: WordParameter, Enum: []string{"desc", "asc"},
		Text: "The order by time of creation: desc, the default, is newest first; asc is oldest first.",
	}
	createdAfter = Parameter{
		Name: "createdAfter", Kind: TimeParameter, Text: "Only items created after this time; the time itself is " +
			"excluded.",
	}
	createdBefore = Parameter{
		Name: "createdBefore", Kind: TimeParameter, Text: "Only items created before this time; the time itself is " +
			"excluded.",
	}
)

// ListParameters returns a list's own filters with the parameters of every list.
func ListParameters(filters ...Parameter) []Parameter {
	return append(filters, createdAfter, createdBefore, OrderParameter, LimitParameter, CursorParameter)
}
