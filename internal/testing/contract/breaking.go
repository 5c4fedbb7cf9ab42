package contract

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// BreakingChanges returns a sentence for each change of the document that would break a client
// which was correct before. These additions break no client: calls, optional fields of requests,
// fields of answers, events, and codes under the statuses that the document has. A new value of a
// field breaks no client only if the document leaves the field's values open.
func BreakingChanges(before, after *Document) []string {
	c := &comparison{before: before, after: after, compared: map[string]bool{}, found: map[string]bool{}}
	for _, op := range before.Operations() {
		current := after.Paths[op.Path][strings.ToLower(op.Method)]
		if current == nil {
			c.addFinding("%s was removed", op.Name())
			continue
		}
		c.compareOperation(op, current)
	}
	for _, name := range sortedKeys(before.Webhooks) {
		current := after.Webhooks[name]["post"]
		if current == nil {
			c.addFinding("the event %s was removed", name)
			continue
		}
		previous := before.Webhooks[name]["post"]
		for _, p := range previous.Parameters {
			if findParameter(current, p.In, p.Name) == nil {
				c.addFinding("the event %s has no header %s any more", name, p.Name)
			}
		}
		c.compareContent("the event "+name, previous.RequestBody.Content, current.RequestBody.Content, inAnswer)
	}
	return sortedKeys(c.found)
}

// direction says which side has to understand a value.
type direction string

const (
	inRequest direction = "asked"    // clients send it: the service must still accept it
	inAnswer  direction = "answered" // clients read it: it must still be what they know
)

type comparison struct {
	before, after *Document
	compared      map[string]bool // pairs of named schemas that were compared
	found         map[string]bool
}

func (c *comparison) addFinding(format string, args ...any) {
	c.found[fmt.Sprintf(format, args...)] = true
}

func findParameter(op *Operation, location, name string) *Parameter {
	i := slices.IndexFunc(op.Parameters, func(p *Parameter) bool { return p.In == location && p.Name == name })
	if i < 0 {
		return nil
	}
	return op.Parameters[i]
}

func (c *comparison) compareOperation(before, after *Operation) {
	name := before.Name()
	if before.OperationID != after.OperationID {
		c.addFinding(
			"%s is named %s now and was %s: the methods of the clients have this name", name, after.OperationID,
			before.OperationID,
		)
	}
	if before.IsOpen() && !after.IsOpen() {
		c.addFinding("%s needs a key now", name)
	}
	repeatOrder := []string{"NEVER", "WITH_KEY", "ALWAYS"}
	if slices.Index(repeatOrder, after.Repeat) < slices.Index(repeatOrder, before.Repeat) {
		c.addFinding(
			"%s may be repeated %s and was %s: clients repeat it as before", name, after.Repeat, before.Repeat,
		)
	}
	for _, p := range before.Parameters {
		current := findParameter(after, p.In, p.Name)
		if current == nil {
			c.addFinding("%s has no %s parameter %s any more: a request with it is refused", name, p.In, p.Name)
			continue
		}
		if current.Required && !p.Required {
			c.addFinding("%s requires the %s parameter %s now", name, p.In, p.Name)
		}
		c.compareShape(fmt.Sprintf("%s, %s parameter %s", name, p.In, p.Name), p.Schema, current.Schema, inRequest)
	}
	for _, p := range after.Parameters {
		if p.Required && findParameter(before, p.In, p.Name) == nil {
			c.addFinding("%s requires the new %s parameter %s", name, p.In, p.Name)
		}
	}
	switch {
	case before.RequestBody == nil && after.RequestBody != nil && after.RequestBody.Required:
		c.addFinding("%s requires a body now", name)
	case before.RequestBody != nil && after.RequestBody == nil:
		c.addFinding("%s has no body any more", name)
	case before.RequestBody != nil:
		if after.RequestBody.Required && !before.RequestBody.Required {
			c.addFinding("%s requires its body now", name)
		}
		c.compareContent(name, before.RequestBody.Content, after.RequestBody.Content, inRequest)
	}
	c.compareAnswers(name, before, after)
}

func (c *comparison) compareAnswers(name string, before, after *Operation) {
	isSuccess := func(status string) bool { return status < "4" }
	knownStatuses := map[string]bool{}
	for _, op := range c.before.Operations() {
		for status := range op.Responses {
			knownStatuses[status] = true
		}
	}
	for _, status := range sortedKeys(before.Responses) {
		previous, current := before.Responses[status], after.Responses[status]
		if isSuccess(status) {
			if current == nil {
				c.addFinding("%s does not answer %s any more", name, status)
				continue
			}
			for _, h := range sortedKeys(previous.Headers) {
				if current.Headers[h] == nil {
					c.addFinding("%s answers %s without the header %s", name, status, h)
				}
			}
			c.compareContent(fmt.Sprintf("%s, answer %s", name, status), previous.Content, current.Content, inAnswer)
			continue
		}
		for _, code := range previous.refusalCodes() {
			for _, otherStatus := range sortedKeys(after.Responses) {
				if otherStatus != status && slices.Contains(after.Responses[otherStatus].refusalCodes(), code) {
					c.addFinding("%s answers %s with %s and did with %s", name, code, otherStatus, status)
				}
			}
		}
	}
	for _, status := range sortedKeys(after.Responses) {
		if before.Responses[status] == nil && (isSuccess(status) || !knownStatuses[status]) {
			c.addFinding("%s answers %s, which clients do not know", name, status)
		}
	}
}

func (c *comparison) compareContent(subject string, before, after map[string]*Content, d direction) {
	for _, kind := range sortedKeys(before) {
		switch {
		case after[kind] == nil && d == inRequest:
			c.addFinding("%s does not accept %s any more", subject, kind)
		case after[kind] == nil:
			c.addFinding("%s does not have the form %s any more", subject, kind)
		default:
			c.compareShape(subject, before[kind].Schema, after[kind].Schema, d)
		}
	}
}

// compareShape compares the allowed values. A named schema is compared once and reported by its
// name, however many calls use it.
func (c *comparison) compareShape(subject string, before, after *Schema, d direction) {
	before, couldBeNull := splitNull(before)
	after, canBeNull := splitNull(after)
	if canBeNull && !couldBeNull && d == inAnswer {
		c.addFinding("%s may be null now", subject)
	}
	if couldBeNull && !canBeNull && d == inRequest {
		c.addFinding("%s may not be null any more", subject)
	}
	wasName, previous := c.before.resolveRef(before)
	isName, current := c.after.resolveRef(after)
	if wasName != "" && isName != "" {
		pair := wasName + " " + isName + " " + string(d)
		if c.compared[pair] {
			return
		}
		c.compared[pair] = true
		subject = wasName
	}
	if !slices.Equal(previous.Type, current.Type) {
		c.addFinding("%s is %s and was %s", subject, typeNames(current), typeNames(previous))
		return
	}
	c.compareValues(subject, previous, current, d)
	c.compareBounds(subject, previous, current, d)
	if len(previous.AllOf) == len(current.AllOf) {
		for i := range previous.AllOf {
			c.compareShape(subject, previous.AllOf[i], current.AllOf[i], d)
		}
	} else {
		c.addFinding("%s consists of other parts", subject)
	}
	if len(previous.OneOf) != len(current.OneOf) {
		c.addFinding("%s has other alternatives", subject)
	}
	if previous.Items != nil && current.Items != nil {
		c.compareShape(subject+"[]", previous.Items, current.Items, d)
	}
	if previous.Additional != nil && previous.Additional.Schema != nil && current.Additional != nil &&
		current.Additional.Schema != nil {
		c.compareShape(subject+"{}", previous.Additional.Schema, current.Additional.Schema, d)
	}
	c.compareMembers(subject, previous, current, d)
}

func typeNames(s *Schema) string {
	if len(s.Type) == 0 {
		return "of several types"
	}
	return strings.Join(s.Type, " or ")
}

func (c *comparison) compareMembers(subject string, before, after *Schema, d direction) {
	isClosed := func(s *Schema) bool {
		return s.Additional != nil && !s.Additional.AllowsAny && s.Additional.Schema == nil
	}
	for _, name := range sortedKeys(before.Properties) {
		field := subject + "." + name
		current := after.Properties[name]
		switch {
		case current == nil && d == inAnswer:
			c.addFinding("%s is missing from the answer now", field)
			continue
		case current == nil:
			c.addFinding("%s is not accepted any more: a request with it is refused", field)
			continue
		}
		required, wasRequired := slices.Contains(after.Required, name), slices.Contains(before.Required, name)
		if d == inAnswer && wasRequired && !required {
			c.addFinding("%s may be missing from the answer now", field)
		}
		if d == inRequest && required && !wasRequired {
			c.addFinding("%s is required now", field)
		}
		c.compareShape(field, before.Properties[name], current, d)
	}
	for _, name := range after.Required {
		if d == inRequest && before.Properties[name] == nil && len(before.Properties) > 0 {
			c.addFinding("%s.%s is new and required", subject, name)
		}
	}
	if d == inRequest && isClosed(after) && !isClosed(before) && len(before.Properties) > 0 {
		c.addFinding("%s accepts no other fields any more", subject)
	}
}

// compareValues compares closed enumerations. Without an enumeration, every value was allowed.
func (c *comparison) compareValues(subject string, before, after *Schema, d direction) {
	allowedValues := func(s *Schema) (values []string) {
		for _, v := range s.Enum {
			if v != nil {
				values = append(values, *v)
			}
		}
		return append(values, listedValues(s.Pattern)...)
	}
	previous, current := allowedValues(before), allowedValues(after)
	switch {
	case d == inRequest && len(current) > 0 && len(previous) == 0:
		c.addFinding("%s accepts only certain values now", subject)
	case d == inRequest && len(current) > 0:
		for _, v := range previous {
			if !slices.Contains(current, v) {
				c.addFinding("%s does not accept %s any more", subject, v)
			}
		}
	case d == inAnswer && len(previous) > 0 && len(current) == 0:
		c.addFinding("%s may have any value now, and had only certain ones", subject)
	case d == inAnswer && len(previous) > 0:
		for _, v := range current {
			if !slices.Contains(previous, v) {
				c.addFinding("%s may be %s now, and its values were closed", subject, v)
			}
		}
	}
}

// listedValues returns the words of a parameter that takes some of them, separated by commas. The
// document writes it as the pattern ^(A|B)(,(A|B))*$.
func listedValues(pattern string) []string {
	alternatives, _, found := strings.Cut(strings.TrimPrefix(pattern, "^("), ")")
	if !found || pattern != "^("+alternatives+")(,("+alternatives+"))*$" {
		return nil
	}
	return strings.Split(alternatives, "|")
}

// compareBounds compares the other limits of a value. A tighter limit breaks clients that send it,
// a looser one clients that read it.
func (c *comparison) compareBounds(subject string, before, after *Schema, d direction) {
	if before.Format != after.Format && (d == inAnswer && before.Format != "" || d == inRequest && after.Format != "") {
		c.addFinding("%s has the format %q and had %q", subject, after.Format, before.Format)
	}
	isList := listedValues(before.Pattern) != nil && listedValues(after.Pattern) != nil // compareValues compares it
	if !isList && before.Pattern != after.Pattern &&
		(d == inAnswer && before.Pattern != "" || d == inRequest && after.Pattern != "") {
		c.addFinding("%s has to fit %q and had %q", subject, after.Pattern, before.Pattern)
	}
	for _, b := range []struct {
		name    string
		was, is *json.Number
		lower   bool
	}{
		{"minLength", before.MinLength, after.MinLength, true},
		{"maxLength", before.MaxLength, after.MaxLength, false},
		{"minimum", before.Minimum, after.Minimum, true},
		{"maximum", before.Maximum, after.Maximum, false},
		{"minItems", before.MinItems, after.MinItems, true},
		{"maxItems", before.MaxItems, after.MaxItems, false},
		{"maxProperties", before.MaxProperties, after.MaxProperties, false},
	} {
		tighter := compareNumbers(b.was, b.is)
		if b.lower {
			tighter = -tighter
		}
		if b.was == nil && b.is != nil {
			tighter = 1
		}
		if b.was != nil && b.is == nil {
			tighter = -1
		}
		if d == inRequest && tighter > 0 || d == inAnswer && tighter < 0 {
			c.addFinding("%s has the %s %s and had %s", subject, b.name, formatBound(b.is), formatBound(b.was))
		}
	}
}

// compareNumbers returns a positive number if after is smaller than before.
func compareNumbers(before, after *json.Number) int {
	if before == nil || after == nil {
		return 0
	}
	a, okA := new(big.Int).SetString(before.String(), 10)
	b, okB := new(big.Int).SetString(after.String(), 10)
	if !okA || !okB {
		panic("contract: a bound of the document is not a whole number: " + before.String() + ", " + after.String())
	}
	return a.Cmp(b)
}

func formatBound(n *json.Number) string {
	if n == nil {
		return "none"
	}
	return n.String()
}

// StripTexts removes the descriptions and examples from a document. The result has everything that
// can break a client, and nothing that would distract a reviewer.
func StripTexts(raw []byte) ([]byte, error) {
	var d map[string]any
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.UseNumber()
	if err := decoder.Decode(&d); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	delete(d, "info")
	delete(d, "servers")
	encoded, err := json.MarshalIndent(withoutTexts(d, false), "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the document: %w", err)
	}
	return append(encoded, '\n'), nil
}

// withoutTexts removes descriptions and examples. The members of properties are names of the
// interface itself, which stay whatever they are called.
func withoutTexts(v any, isProperties bool) any {
	switch v := v.(type) {
	case map[string]any:
		result := map[string]any{}
		for k, member := range v {
			if !isProperties && slices.Contains([]string{"description", "summary", "example", "examples"}, k) {
				continue
			}
			result[k] = withoutTexts(member, k == "properties" && !isProperties)
		}
		return result
	case []any:
		result := make([]any, 0, len(v))
		for _, item := range v {
			result = append(result, withoutTexts(item, false))
		}
		return result
	}
	return v
}
