package contract

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Breaking tells, a sentence each, what of a change of the document would break
// a client that was right before. Additions are none: calls, optional fields of
// requests, fields of answers, events, and codes under the statuses that the
// document has. Values are added to a field only where the document leaves its
// values open.
func Breaking(was, is *Document) []string {
	c := &comparison{was: was, is: is, seen: map[string]bool{}, found: map[string]bool{}}
	for _, op := range was.Operations() {
		now := is.Paths[op.Path][strings.ToLower(op.Method)]
		if now == nil {
			c.say("%s is gone", op.Name())
			continue
		}
		c.operation(op, now)
	}
	for _, name := range sorted(was.Webhooks) {
		now := is.Webhooks[name]["post"]
		if now == nil {
			c.say("the event %s is gone", name)
			continue
		}
		old := was.Webhooks[name]["post"]
		for _, p := range old.Parameters {
			if parameter(now, p.In, p.Name) == nil {
				c.say("the event %s comes without the header %s", name, p.Name)
			}
		}
		c.content("the event "+name, old.RequestBody.Content, now.RequestBody.Content, answered)
	}
	return sorted(c.found)
}

// direction tells who has to understand a value.
type direction string

const (
	asked    direction = "asked"    // clients send it: it must still be taken
	answered direction = "answered" // clients read it: it must still be what they know
)

type comparison struct {
	was, is *Document
	seen    map[string]bool // pairs of named shapes that were compared
	found   map[string]bool
}

func (c *comparison) say(format string, args ...any) { c.found[fmt.Sprintf(format, args...)] = true }

func parameter(op *Operation, in, name string) *Parameter {
	i := slices.IndexFunc(op.Parameters, func(p *Parameter) bool { return p.In == in && p.Name == name })
	if i < 0 {
		return nil
	}
	return op.Parameters[i]
}

func (c *comparison) operation(was, is *Operation) {
	name := was.Name()
	if was.OperationID != is.OperationID {
		c.say("%s is called %s now and was %s: the clients' methods bear that name", name, is.OperationID, was.OperationID)
	}
	if was.Open() && !is.Open() {
		c.say("%s wants a key now", name)
	}
	patience := []string{"NEVER", "WITH_KEY", "ALWAYS"}
	if slices.Index(patience, is.Repeat) < slices.Index(patience, was.Repeat) {
		c.say("%s may be repeated %s and was %s: clients repeat it as they learned", name, is.Repeat, was.Repeat)
	}
	for _, p := range was.Parameters {
		now := parameter(is, p.In, p.Name)
		if now == nil {
			c.say("%s takes no %s parameter %s any more: who sends it is refused", name, p.In, p.Name)
			continue
		}
		if now.Required && !p.Required {
			c.say("%s requires the %s parameter %s now", name, p.In, p.Name)
		}
		c.shape(fmt.Sprintf("%s, %s parameter %s", name, p.In, p.Name), p.Schema, now.Schema, asked)
	}
	for _, p := range is.Parameters {
		if p.Required && parameter(was, p.In, p.Name) == nil {
			c.say("%s requires the new %s parameter %s", name, p.In, p.Name)
		}
	}
	switch {
	case was.RequestBody == nil && is.RequestBody != nil && is.RequestBody.Required:
		c.say("%s requires a body now", name)
	case was.RequestBody != nil && is.RequestBody == nil:
		c.say("%s takes no body any more", name)
	case was.RequestBody != nil:
		if is.RequestBody.Required && !was.RequestBody.Required {
			c.say("%s requires its body now", name)
		}
		c.content(name, was.RequestBody.Content, is.RequestBody.Content, asked)
	}
	c.answers(name, was, is)
}

func (c *comparison) answers(name string, was, is *Operation) {
	success := func(status string) bool { return status < "4" }
	known := map[string]bool{}
	for _, op := range c.was.Operations() {
		for status := range op.Responses {
			known[status] = true
		}
	}
	for _, status := range sorted(was.Responses) {
		old, now := was.Responses[status], is.Responses[status]
		if success(status) {
			if now == nil {
				c.say("%s does not answer %s any more", name, status)
				continue
			}
			for _, h := range sorted(old.Headers) {
				if now.Headers[h] == nil {
					c.say("%s answers %s without the header %s", name, status, h)
				}
			}
			c.content(fmt.Sprintf("%s, answer %s", name, status), old.Content, now.Content, answered)
			continue
		}
		for _, code := range old.codes() {
			for _, other := range sorted(is.Responses) {
				if other != status && slices.Contains(is.Responses[other].codes(), code) {
					c.say("%s answers %s with %s and did with %s", name, code, other, status)
				}
			}
		}
	}
	for _, status := range sorted(is.Responses) {
		if was.Responses[status] == nil && (success(status) || !known[status]) {
			c.say("%s answers %s, which clients do not know", name, status)
		}
	}
}

func (c *comparison) content(where string, was, is map[string]*Content, d direction) {
	for _, kind := range sorted(was) {
		switch {
		case is[kind] == nil && d == asked:
			c.say("%s takes no %s any more", where, kind)
		case is[kind] == nil:
			c.say("%s comes as %s no more", where, kind)
		default:
			c.shape(where, was[kind].Schema, is[kind].Schema, d)
		}
	}
}

// shape compares what a value may be. Shapes that have a name are compared once,
// and named by it, however many calls have them.
func (c *comparison) shape(where string, was, is *Schema, d direction) {
	was, couldBeNull := nullable(was)
	is, canBeNull := nullable(is)
	if canBeNull && !couldBeNull && d == answered {
		c.say("%s may be null now", where)
	}
	if couldBeNull && !canBeNull && d == asked {
		c.say("%s may not be null any more", where)
	}
	wasName, old := c.was.resolve(was)
	isName, now := c.is.resolve(is)
	if wasName != "" && isName != "" {
		pair := wasName + " " + isName + " " + string(d)
		if c.seen[pair] {
			return
		}
		c.seen[pair] = true
		where = wasName
	}
	if !slices.Equal(old.Type, now.Type) {
		c.say("%s is %s and was %s", where, kindName(now), kindName(old))
		return
	}
	c.values(where, old, now, d)
	c.bounds(where, old, now, d)
	if len(old.AllOf) == len(now.AllOf) {
		for i := range old.AllOf {
			c.shape(where, old.AllOf[i], now.AllOf[i], d)
		}
	} else {
		c.say("%s is put together of other parts", where)
	}
	if len(old.OneOf) != len(now.OneOf) {
		c.say("%s has other alternatives", where)
	}
	if old.Items != nil && now.Items != nil {
		c.shape(where+"[]", old.Items, now.Items, d)
	}
	if old.Additional != nil && old.Additional.Schema != nil && now.Additional != nil && now.Additional.Schema != nil {
		c.shape(where+"{}", old.Additional.Schema, now.Additional.Schema, d)
	}
	c.members(where, old, now, d)
}

func kindName(s *Schema) string {
	if len(s.Type) == 0 {
		return "of no single type"
	}
	return strings.Join(s.Type, " or ")
}

func (c *comparison) members(where string, was, is *Schema, d direction) {
	closed := func(s *Schema) bool { return s.Additional != nil && !s.Additional.Any && s.Additional.Schema == nil }
	for _, name := range sorted(was.Properties) {
		field := where + "." + name
		now := is.Properties[name]
		switch {
		case now == nil && d == answered:
			c.say("%s is gone from what is answered", field)
			continue
		case now == nil:
			c.say("%s is not taken any more: who sends it is refused", field)
			continue
		}
		required, before := slices.Contains(is.Required, name), slices.Contains(was.Required, name)
		if d == answered && before && !required {
			c.say("%s may be missing from what is answered", field)
		}
		if d == asked && required && !before {
			c.say("%s is required now", field)
		}
		c.shape(field, was.Properties[name], now, d)
	}
	for _, name := range is.Required {
		if d == asked && was.Properties[name] == nil && len(was.Properties) > 0 {
			c.say("%s.%s is new and required", where, name)
		}
	}
	if d == asked && closed(is) && !closed(was) && len(was.Properties) > 0 {
		c.say("%s takes no other fields any more", where)
	}
}

// values compares closed enumerations. Without one, every value was allowed.
func (c *comparison) values(where string, was, is *Schema, d direction) {
	list := func(s *Schema) (out []string) {
		for _, v := range s.Enum {
			if v != nil {
				out = append(out, *v)
			}
		}
		return append(out, listed(s.Pattern)...)
	}
	old, now := list(was), list(is)
	switch {
	case d == asked && len(now) > 0 && len(old) == 0:
		c.say("%s takes certain values alone now", where)
	case d == asked && len(now) > 0:
		for _, v := range old {
			if !slices.Contains(now, v) {
				c.say("%s does not take %s any more", where, v)
			}
		}
	case d == answered && len(old) > 0 && len(now) == 0:
		c.say("%s may have any value and had certain ones", where)
	case d == answered && len(old) > 0:
		for _, v := range now {
			if !slices.Contains(old, v) {
				c.say("%s may be %s, and its values were closed", where, v)
			}
		}
	}
}

// listed are the words of a parameter that takes some of them, separated by
// commas, which the document draws as the pattern ^(A|B)(,(A|B))*$.
func listed(pattern string) []string {
	one, _, found := strings.Cut(strings.TrimPrefix(pattern, "^("), ")")
	if !found || pattern != "^("+one+")(,("+one+"))*$" {
		return nil
	}
	return strings.Split(one, "|")
}

// bounds compares what else limits a value: tighter breaks who sends it, looser
// who reads it.
func (c *comparison) bounds(where string, was, is *Schema, d direction) {
	if was.Format != is.Format && (d == answered && was.Format != "" || d == asked && is.Format != "") {
		c.say("%s has the format %q and had %q", where, is.Format, was.Format)
	}
	words := listed(was.Pattern) != nil && listed(is.Pattern) != nil // compared as values
	if !words && was.Pattern != is.Pattern && (d == answered && was.Pattern != "" || d == asked && is.Pattern != "") {
		c.say("%s has to fit %q and had %q", where, is.Pattern, was.Pattern)
	}
	for _, b := range []struct {
		name    string
		was, is *json.Number
		lower   bool
	}{
		{"minLength", was.MinLength, is.MinLength, true},
		{"maxLength", was.MaxLength, is.MaxLength, false},
		{"minimum", was.Minimum, is.Minimum, true},
		{"maximum", was.Maximum, is.Maximum, false},
		{"minItems", was.MinItems, is.MinItems, true},
		{"maxItems", was.MaxItems, is.MaxItems, false},
		{"maxProperties", was.MaxProperties, is.MaxProperties, false},
	} {
		tighter := compare(b.was, b.is)
		if b.lower {
			tighter = -tighter
		}
		if b.was == nil && b.is != nil {
			tighter = 1
		}
		if b.was != nil && b.is == nil {
			tighter = -1
		}
		if d == asked && tighter > 0 || d == answered && tighter < 0 {
			c.say("%s has the %s %s and had %s", where, b.name, bound(b.is), bound(b.was))
		}
	}
}

// compare is positive when is is smaller than was.
func compare(was, is *json.Number) int {
	if was == nil || is == nil {
		return 0
	}
	a, okA := new(big.Int).SetString(was.String(), 10)
	b, okB := new(big.Int).SetString(is.String(), 10)
	if !okA || !okB {
		panic("contract: a bound of the document is no whole number: " + was.String() + ", " + is.String())
	}
	return a.Cmp(b)
}

func bound(n *json.Number) string {
	if n == nil {
		return "none"
	}
	return n.String()
}

// Facts is a document without its words and examples: what can break, and
// nothing that a reader of a change would have to look past.
func Facts(raw []byte) ([]byte, error) {
	var d map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	delete(d, "info")
	delete(d, "servers")
	out, err := json.MarshalIndent(bare(d, false), "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	return append(out, '\n'), nil
}

// bare takes descriptions and examples away. The members of properties are names
// of the interface's own, which stay whatever they are called.
func bare(v any, names bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, member := range v {
			if !names && slices.Contains([]string{"description", "summary", "example", "examples"}, k) {
				continue
			}
			out[k] = bare(member, k == "properties" && !names)
		}
		return out
	case []any:
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, bare(item, false))
		}
		return out
	}
	return v
}
