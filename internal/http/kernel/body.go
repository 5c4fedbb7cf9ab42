package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/cofferpay/coffer/internal/fault"
)

// BodyBytesMax bounds the body of a request whose route names no other bound.
const BodyBytesMax = 64 << 10

// readBody reads a complete body of a type that the route takes, or refuses it by its type or size. If the body
// is optional, an empty one counts as an object without members. Rule REQ-7.
func (rt Route) readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	typed := rt.takesType(r)
	if !typed && !rt.Optional {
		return nil, rt.newUnsupportedBody()
	}
	body, err := rt.readBytes(w, r)
	switch {
	case err != nil:
		return nil, err
	case rt.Optional && len(body) == 0:
		return []byte("{}"), nil
	case !typed:
		return nil, rt.newUnsupportedBody()
	}
	return body, nil
}

// readBytes reads a complete body of any type, or refuses it by its size.
func (rt Route) readBytes(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	bytesMax := cmp.Or(rt.BodyBytesMax, BodyBytesMax)
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(bytesMax)))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, fault.New(fault.Invalid, fault.BodyTooLarge, fault.NothingWritten,
			"The body is larger than %d bytes.", bytesMax).
			WithAdvice("Send a smaller body.")
	case err != nil:
		return nil, fault.New(fault.Invalid, fault.InvalidJSON, fault.NothingWritten,
			"The body did not arrive completely.").
			WithAdvice("Send it again.")
	}
	return body, nil
}

// takesType reports whether a request declares its body as one of the types that the route takes.
func (rt Route) takesType(r *http.Request) bool {
	return hasType(r, "application/json") || rt.Handler.serveTable != nil && hasTableType(r)
}

// hasTableType reports whether a request declares its body as a table.
func hasTableType(r *http.Request) bool { return hasType(r, "text/csv") }

// hasType reports whether a request declares its body as that type, in UTF-8 and without an encoding.
func hasType(r *http.Request, want string) bool {
	types := r.Header.Values("Content-Type")
	if len(types) != 1 || r.Header.Get("Content-Encoding") != "" {
		return false
	}
	kind, params, err := mime.ParseMediaType(types[0])
	charset, named := params["charset"]
	return err == nil && kind == want && (!named || strings.EqualFold(charset, "utf-8"))
}

func (rt Route) newUnsupportedBody() error {
	if rt.Handler.serveTable != nil {
		return fault.New(fault.Invalid, fault.UnsupportedMediaType, fault.NothingWritten,
			"The body has to be JSON or CSV, both in UTF-8. It has to have exactly one header Content-Type: "+
				"application/json or text/csv, and no Content-Encoding.").
			WithAdvice("Send it in one of these forms.")
	}
	return fault.New(fault.Invalid, fault.UnsupportedMediaType, fault.NothingWritten,
		"The body has to be JSON. It has to have exactly one header Content-Type: application/json, "+
			"and no Content-Encoding.").
		WithAdvice("Send it in this form.")
}

// decodeBody reads a JSON object into a struct whose fields all have a json tag.
//
// It accepts only one spelling: every name at most once and in its exact casing, no unknown name,
// valid UTF-8, one document. A value must have the type of its field; numbers and strings are not
// converted into each other. A field is required unless it is tagged omitempty, and null counts as
// absent only for a pointer. Rules REQ-1 and REQ-2.
func decodeBody(body []byte, target any) error {
	var raw map[string]jsontext.Value
	if err := json.Unmarshal(body, &raw); err != nil {
		return newInvalidJSON(err)
	}
	if raw == nil {
		return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
			"The body has to be a JSON object, and it is null.").
			WithAdvice("Send an object.")
	}
	return fillStruct(raw, reflect.ValueOf(target).Elem(), "")
}

// DecodeBody reads the body strictly, as the handler of a route does.
func (c *Request) DecodeBody(target any) error { return decodeBody(c.Body, target) }

// TextMember returns a text of the body by its name, whatever else the body has; "" if the body is no
// JSON object or has no such text.
func (c *Request) TextMember(name string) string {
	var raw map[string]jsontext.Value
	err := json.Unmarshal(c.Body, &raw, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if err != nil || raw[name].Kind() != '"' {
		return ""
	}
	text, err := jsontext.AppendUnquote(nil, raw[name])
	if err != nil {
		return ""
	}
	return string(text)
}

// HasMember reports whether the body has a member of that name. It returns false for an unreadable
// body, which decodeBody refuses.
func (c *Request) HasMember(name string) bool {
	var raw map[string]jsontext.Value
	if err := json.Unmarshal(c.Body, &raw); err != nil {
		return false
	}
	_, ok := raw[name]
	return ok
}

func fillStruct(raw map[string]jsontext.Value, target reflect.Value, path string) error {
	fields := bodyFieldsOf(target.Type())
	knownCount := 0
	for _, f := range fields {
		if _, present := raw[f.name]; present {
			knownCount++
		}
	}
	if knownCount < len(raw) {
		return refuseUnexpected(raw, fields, path)
	}
	for i, f := range fields {
		value, present := raw[f.name]
		if !present {
			if f.optional {
				continue
			}
			return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
				"The field %s is missing.", path+f.name).
				WithAdvice("Add it.").WithParam(path + f.name)
		}
		if err := fillField(value, target.Field(i), path+f.name); err != nil {
			return err
		}
	}
	return nil
}

// bodyField is a field of a body's struct, as its tag describes it.
type bodyField struct {
	name     string
	optional bool
}

// bodyFieldCache caches the members of a type, because every request of a route has the same type.
var bodyFieldCache sync.Map

func bodyFieldsOf(t reflect.Type) []bodyField {
	if cached, ok := bodyFieldCache.Load(t); ok {
		return cached.([]bodyField)
	}
	fields := make([]bodyField, t.NumField())
	for i := range fields {
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		fields[i] = bodyField{name, options == "omitempty"}
	}
	bodyFieldCache.Store(t, fields)
	return fields
}

// refuseUnexpected refuses a name that no member has. It checks the names in sorted order, so that
// the same body always gets the same answer.
func refuseUnexpected(raw map[string]jsontext.Value, fields []bodyField, path string) error {
	knownNames := map[string]bool{}
	for _, f := range fields {
		knownNames[f.name] = true
	}
	for _, name := range SortedKeys(raw) {
		if !knownNames[name] {
			return newUnknownField(path, name, SortedKeys(knownNames))
		}
	}
	panic("kernel: a body has more fields than its type")
}

func fillField(value jsontext.Value, destination reflect.Value, name string) error {
	if value.Kind() == 'n' {
		if destination.Kind() == reflect.Pointer {
			return nil
		}
		return newWrongType(name, destination.Type())
	}
	target := destination
	if destination.Kind() == reflect.Pointer {
		target = reflect.New(destination.Type().Elem()).Elem()
		defer func() { destination.Set(target.Addr()) }()
	}
	if target.Kind() == reflect.Struct {
		var raw map[string]jsontext.Value
		if err := json.Unmarshal(value, &raw); err != nil {
			return newWrongType(name, destination.Type())
		}
		return fillStruct(raw, target, name+".")
	}
	if target.Type() == rawType {
		// Any object is accepted; its consumer limits it.
		if value.Kind() != '{' {
			return newWrongType(name, destination.Type())
		}
		target.SetBytes(slices.Clone(value))
		return nil
	}
	if target.Kind() == reflect.Slice && target.Type().Elem().Kind() == reflect.Struct {
		var raw []jsontext.Value
		if value.Kind() != '[' || json.Unmarshal(value, &raw) != nil {
			return newWrongType(name, destination.Type())
		}
		target.Set(reflect.MakeSlice(target.Type(), len(raw), len(raw)))
		for i, item := range raw {
			if err := fillField(item, target.Index(i), fmt.Sprintf("%s[%d]", name, i)); err != nil {
				return err
			}
		}
		return nil
	}
	// A null inside a list or an object would be decoded as an empty string.
	if kind := target.Kind(); kind == reflect.Map || kind == reflect.Slice {
		if slices.ContainsFunc(elementsOf(value), func(v jsontext.Value) bool { return v.Kind() == 'n' }) {
			return newWrongType(name, destination.Type())
		}
	}
	if target.Kind() == reflect.String && value.Kind() == '"' && target.Type().PkgPath() == "" {
		// The same as below, without checking the syntax again, which was checked before.
		text, err := jsontext.AppendUnquote(nil, value)
		if err != nil {
			return newWrongType(name, destination.Type())
		}
		target.SetString(string(text))
		return nil
	}
	if err := json.Unmarshal(value, target.Addr().Interface()); err != nil {
		return newWrongType(name, destination.Type())
	}
	return nil
}

func elementsOf(value jsontext.Value) []jsontext.Value {
	var list []jsontext.Value
	if json.Unmarshal(value, &list) == nil {
		return list
	}
	var members map[string]jsontext.Value
	if json.Unmarshal(value, &members) == nil {
		for _, v := range members {
			list = append(list, v)
		}
	}
	return list
}

// amountFields are refused with INVALID_AMOUNT if their type is wrong.
var amountFields = map[string]bool{
	"amount": true, "maxNetworkFee": true, "amountIn": true, "minAmountOut": true, "price": true, "minPrice": true,
	"maxPrice": true,
}

func newWrongType(name string, want reflect.Type) *fault.Fault {
	code := fault.InvalidRequest
	if amountFields[name] {
		code = fault.InvalidAmount
	}
	return fault.New(fault.Invalid, code, fault.NothingWritten,
		"The field %s has to be %s; the service never converts values.", name, describeType(want)).
		WithAdvice("Send this type.").WithParam(name)
}

func describeType(t reflect.Type) string {
	if t == rawType {
		return "an object"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describeType(t.Elem()) + ", or null"
	case reflect.String:
		return "a JSON string"
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole JSON number without decimal point or exponent"
	case reflect.Slice:
		switch t.Elem().Kind() {
		case reflect.Struct:
			return "a list of objects"
		case reflect.Int:
			return "a list of whole numbers"
		}
		return "a list of strings"
	case reflect.Map:
		return "an object whose values are strings"
	case reflect.Struct:
		return "an object"
	}
	panic(fmt.Sprintf("kernel: no request has a field of type %v", t))
}

func newInvalidJSON(err error) *fault.Fault {
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			name := syntax.JSONPointer.LastToken()
			return fault.New(fault.Invalid, fault.InvalidJSON, fault.NothingWritten,
				"The body contains %q twice, so it is not clear which one counts.", ClipText(name)).
				WithAdvice("Send each field once.").WithParam(ClipText(name))
		}
		return fault.New(fault.Invalid, fault.InvalidJSON, fault.NothingWritten,
			"The body is not one JSON document in UTF-8: there is an error at byte %d.", syntax.ByteOffset).
			WithAdvice("Correct it.")
	}
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten,
		"The body has to be a JSON object.").
		WithAdvice("Send an object.")
}

func newUnknownField(path, name string, knownNames []string) *fault.Fault {
	hint := "The known fields are " + strings.Join(knownNames, ", ") + "."
	if len(knownNames) == 0 {
		hint = "This body has no fields: leave it out."
	}
	if suggestion := nearestName(name, knownNames); suggestion != "" {
		hint = "Did you mean " + path + suggestion + "?"
	}
	return fault.New(fault.Invalid, fault.UnknownField, fault.NothingWritten,
		"The field %q is not known here.", ClipText(path+name)).
		WithAdvice("%s", hint).WithParam(ClipText(path + name))
}

// ClipText truncates a caller's text for an answer.
func ClipText(s string) string {
	const runesMax = 64
	if r := []rune(s); len(r) > runesMax {
		return string(r[:runesMax]) + "…"
	}
	return s
}

// nearestName returns the known name that was probably meant.
func nearestName(name string, names []string) string {
	const wordBytesMax = 64
	if len(name) > wordBytesMax {
		return ""
	}
	best, bestDistance := "", 1+max(2, len(name)/3)
	for _, k := range names {
		if d := editDistance(strings.ToLower(name), strings.ToLower(k)); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	return best
}

// editDistance returns the number of letters to insert, remove or replace to get from a to b.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := last
			if a[i] != b[j] {
				cost++
			}
			last = row[j+1]
			row[j+1] = min(cost, row[j]+1, last+1)
		}
	}
	return row[len(b)]
}
