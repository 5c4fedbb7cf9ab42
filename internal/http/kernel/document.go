package kernel

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/webhook"
)

// AnyValue is the value of a setting: text, number, list, flag or null.
type AnyValue struct{ json.RawMessage }

// DrawDocument draws the published description from the table of routes and from the types that are
// read and answered, so that the two cannot differ. The text about a field comes from its tag. The
// document is the same bytes for every caller. Rule REQ-6.
func (s *Surface) DrawDocument(baseURL string) []byte {
	d := &drawing{surface: s, schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: s.Title, Version: "1",
			Description: s.Description,
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: baseURL}},
		Paths:   map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas: d.schemas,
			SecuritySchemes: map[string]*huma.SecurityScheme{s.Credential: {
				Type: "apiKey", In: "header", Name: strings.ToLower(s.Header), Description: s.CredentialText,
			}},
			Responses: map[string]*huma.Response{},
		},
		Security: []map[string][]string{{s.Credential: {}}},
	}
	for _, g := range s.Groups {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: g.Name, Description: g.Text})
	}
	d.drawProblem()
	for _, r := range s.Routes {
		op := d.drawOperation(r)
		item := doc.Paths[r.Path]
		if item == nil {
			item = &huma.PathItem{}
			doc.Paths[r.Path] = item
		}
		switch r.Method {
		case http.MethodGet:
			item.Get = op
		case http.MethodPost:
			item.Post = op
		case http.MethodPatch:
			item.Patch = op
		case http.MethodPut:
			item.Put = op
		case http.MethodDelete:
			item.Delete = op
		default:
			panic("kernel: the document does not contain " + r.Method)
		}
	}
	doc.Webhooks = map[string]*huma.PathItem{}
	for _, w := range s.Webhooks {
		doc.Webhooks[w.Type] = &huma.PathItem{Post: d.drawWebhook(w)}
	}
	raw, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		panic("kernel: cannot encode the document: " + err.Error())
	}
	return raw
}

type drawing struct {
	surface *Surface
	schemas huma.Registry
}

func (d *drawing) drawOperation(r Route) *huma.Operation {
	op := &huma.Operation{
		OperationID: r.Name, Tags: []string{r.Group}, Summary: r.Summary, Description: r.Text,
		Responses:  map[string]*huma.Response{},
		Extensions: map[string]any{"x-repeat": repeatMode(r)},
	}
	if scope := d.surface.ScopeOf(r); scope != "" {
		op.Extensions["x-scope"] = scope
	}
	if r.NeedsNoKey {
		op.Security = []map[string][]string{{}}
	}
	for part := range strings.SplitSeq(r.Path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: name, In: "path", Required: true, Description: d.surface.FieldDocs[name].Text,
				Schema: &huma.Schema{Type: "string"},
			})
		}
	}
	for _, p := range r.Query {
		op.Parameters = append(op.Parameters, p.drawParam())
	}
	for _, h := range r.Headers {
		op.Parameters = append(op.Parameters,
			&huma.Param{Name: h.Name, In: "header", Description: h.Text, Schema: &huma.Schema{Type: "string"}})
	}
	if r.HasBody() {
		op.RequestBody = &huma.RequestBody{Required: !r.Optional, Content: map[string]*huma.MediaType{
			"application/json": {
				Schema: d.schemaOf(r.Handler.request, true), Example: r.RequestExample(),
			},
		}}
		if r.Handler.serveTable != nil {
			op.RequestBody.Content["text/csv"] = &huma.MediaType{Schema: &huma.Schema{Type: "string"}}
		}
	}
	for _, s := range r.Answers {
		op.Responses[strconv.Itoa(s.Status)] = d.drawSuccess(r, s)
		if r.hasTable() {
			op.Responses[strconv.Itoa(s.Status)].Content["text/csv"] = &huma.MediaType{
				Schema: &huma.Schema{Type: "string"},
			}
		}
	}
	byStatus := map[int][]fault.Code{}
	for _, code := range d.surface.FaultCodes(r) {
		status := HTTPStatus(&fault.Fault{Kind: d.surface.Problems[code].Kind, Code: code})
		byStatus[status] = append(byStatus[status], code)
	}
	for status, codes := range byStatus {
		op.Responses[strconv.Itoa(status)] = d.drawRefusal(r, codes)
	}
	return op
}

// repeatMode returns when a caller may repeat a request without an answer to the first: always,
// with its idempotencyKey, or never. Clients rely on it.
func repeatMode(r Route) string {
	if r.Method != http.MethodPost || r.Retryable {
		return "ALWAYS"
	}
	if t := r.Handler.request; t != nil {
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name == "idempotencyKey" {
				return "WITH_KEY"
			}
		}
	}
	return "NEVER"
}

// routeFaultCodes returns all refusals of a call: its own and those of every call.
func routeFaultCodes(r Route) []fault.Code {
	codes := append([]fault.Code{fault.InvalidRequest, fault.UnknownField, fault.Internal}, r.Faults...)
	if !r.NeedsNoKey {
		codes = append(codes, fault.CodeUnauthorized, fault.IPNotAllowed, fault.CodeUnavailable, fault.RateLimited)
	}
	if r.jsonOnly() {
		codes = append(codes, fault.NotAcceptable)
	}
	if r.HasBody() {
		codes = append(codes, fault.InvalidJSON, fault.UnsupportedMediaType, fault.BodyTooLarge)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// drawWebhook draws the request that an endpoint receives.
func (d *drawing) drawWebhook(w Webhook) *huma.Operation {
	op := &huma.Operation{
		OperationID: "on_" + w.Type, Tags: []string{"Webhooks"}, Summary: w.Type, Description: w.Text,
		Security: []map[string][]string{{}},
		Responses: map[string]*huma.Response{
			"2XX": {Description: "The receiver accepted the event. The service does not read the body."},
			"410": {Description: "The receiver wants no more events: the service disables the endpoint."},
		},
	}
	for _, h := range d.surface.WebhookHeaders {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: h.Name, In: "header", Required: true, Description: h.Text, Schema: &huma.Schema{Type: "string"},
		})
	}
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{AllOf: []*huma.Schema{
			d.schemaOf(reflect.TypeFor[webhook.Envelope](), false),
			{Type: "object", Properties: map[string]*huma.Schema{
				"type": {Type: "string", Enum: []any{w.Type}}, "data": d.schemaOf(w.Data, false),
			}},
		}}}},
	}
	return op
}

func requestIDHeader() map[string]*huma.Param {
	return map[string]*huma.Param{"x-request-id": {
		Description: "The id of this request in the service's logs.", Required: true,
		Schema: &huma.Schema{Type: "string", Pattern: "^req_[0-9A-HJKMNP-TV-Z]{26}$"},
	}}
}

func (d *drawing) drawSuccess(r Route, s Success) *huma.Response {
	response := &huma.Response{Description: s.Text, Headers: requestIDHeader()}
	for _, h := range s.Headers {
		response.Headers[h.Name] = &huma.Param{Description: h.Text, Schema: &huma.Schema{Type: "string"}}
	}
	if r.Handler.response != nil && hasBody(s.Status) {
		response.Content = map[string]*huma.MediaType{
			"application/json": {Schema: d.schemaOf(r.Handler.response, false), Example: r.Handler.responseExample},
		}
	}
	return response
}

func (d *drawing) drawRefusal(r Route, codes []fault.Code) *huma.Response {
	response := &huma.Response{Headers: requestIDHeader()}
	var text, names []string
	examples := map[string]*huma.Example{}
	for _, code := range codes {
		p := d.surface.Problems[code]
		text = append(text, fmt.Sprintf("`%s`: %s", code, p.Text))
		names = append(names, string(code))
		f := fault.New(p.Kind, code, fault.Stated, "%s", p.Example).WithParam(p.Param)
		switch {
		case code == fault.Internal:
			f = newInternalFault(r.Method, nil, d.surface.retryAdvice(r))
		case code == fault.CodeUnavailable:
			f = newUnavailable(r.Method, "The database cannot be reached", d.surface.retryAdvice(r))
		}
		for k, v := range p.Extra {
			f.WithExtra(k, v)
		}
		examples[string(code)] = &huma.Example{Summary: p.Text, Value: d.surface.problemBody(f, exampleRequestID)}
	}
	response.Description = strings.Join(text, "\n\n")
	if slices.Contains(codes, fault.RateLimited) {
		response.Headers["Retry-After"] = &huma.Param{
			Description: "Seconds until the service accepts the next request.", Required: true,
			Schema: &huma.Schema{Type: "string", Pattern: "^[0-9]+$"},
		}
	}
	if slices.Contains(codes, fault.CodeUnavailable) {
		response.Headers["Retry-After"] = &huma.Param{
			Description: "Seconds after which to try again.", Required: true,
			Schema: &huma.Schema{Type: "string", Pattern: "^[0-9]+$"},
		}
	}
	response.Content = map[string]*huma.MediaType{"application/json": {
		Schema: &huma.Schema{AllOf: []*huma.Schema{
			{Ref: "#/components/schemas/Problem"},
			// Codes are added under a status without notice, so no enum closes the list.
			{Type: "object", Properties: map[string]*huma.Schema{
				"code": {Type: "string", Extensions: map[string]any{"x-extensible-enum": names}},
			}},
		}},
		Examples: examples,
	}}
	return response
}

// drawProblem draws the shape of every refusal.
func (d *drawing) drawProblem() {
	text := func(s string) *huma.Schema { return &huma.Schema{Type: "string", Description: s} }
	d.schemas.Map()["Problem"] = &huma.Schema{
		Type: "object", Description: "Every answer that is not a success.",
		Required: []string{"error", "code", "requestId", "retryable"},
		Properties: map[string]*huma.Schema{
			"error":     text("A sentence for people: what is wrong, what happened to the money, what to do."),
			"code":      text("The error code, for programs. Codes can be added under the existing statuses."),
			"requestId": text("The id of this request in the service's logs; the header x-request-id has the same."),
			"param":     text("The field or parameter that is wrong, if there is one."),
			"details": {Type: "object", Description: "Further facts, which depend on the " +
				"code.", AdditionalProperties: true},
			"retryable": {
				Type: "boolean",
				Description: "Whether the same request can succeed later without a change. Repeat a payment with its " +
					"idempotencyKey.",
			},
			"existingId": text("With IDEMPOTENCY_CONFLICT: what has the key. With REFERENCE_PAID: the checkout " +
				"of the reference."),
			"currentStatus": text("With INVALID_STATE: the current status of the resource."),
			"withdrawalId":  text("With WITHDRAWAL_RISK_BLOCKED: the record of the blocked withdrawal."),
			"providerMessage": text("With QUOTE_REJECTED: what the swap provider said, where one refused. It is text " +
				"of " +
				"a third party."),
		},
	}
}

func (p Parameter) drawParam() *huma.Param {
	s := &huma.Schema{Type: "string"}
	switch p.Kind {
	case TextParameter:
		s.MinLength, s.MaxLength = new(1), new(p.Max)
	case WordParameter:
		s.Enum = enumValues(p.Enum)
	case WordsParameter:
		word := "(" + strings.Join(p.Enum, "|") + ")"
		s.Pattern = "^" + word + "(," + word + ")*$"
	case FlagParameter:
		s.Type = "boolean"
	case NumberParameter:
		s.Type, s.Extensions = "integer", map[string]any{"minimum": p.minNumber(), "maximum": p.Max}
	case TimeParameter:
		s.Format = "date-time"
	}
	return &huma.Param{Name: p.Name, In: "query", Description: p.Text, Schema: s}
}

func enumValues(list []string) []any {
	values := make([]any, 0, len(list))
	for _, w := range list {
		values = append(values, w)
	}
	return values
}

var (
	timeType     = reflect.TypeFor[webhook.Time]()
	metadataType = reflect.TypeFor[webhook.Metadata]()
	rawType      = reflect.TypeFor[json.RawMessage]()
	anyType      = reflect.TypeFor[AnyValue]()
)

// schemaOf returns the schema of a Go type. closed forbids further members. It is true for requests
// and false for answers, to which fields may be added.
func (d *drawing) schemaOf(t reflect.Type, closed bool) *huma.Schema {
	switch t {
	case timeType:
		return &huma.Schema{
			Type: "string", Format: "date-time", Pattern: `^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$`,
		}
	case metadataType:
		return &huma.Schema{Type: "object", AdditionalProperties: &huma.Schema{Type: "string"}}
	case rawType:
		return &huma.Schema{Type: "object", AdditionalProperties: true}
	case anyType:
		return &huma.Schema{AnyOf: []*huma.Schema{
			{Type: "string"},
			{Type: "integer"},
			{Type: "boolean"},
			{Type: "array", Items: &huma.Schema{}},
			{Type: "object", AdditionalProperties: true},
			{Type: "null"},
		}}
	}
	switch t.Kind() {
	case reflect.Pointer:
		s := d.schemaOf(t.Elem(), closed)
		if s.Ref != "" {
			return &huma.Schema{OneOf: []*huma.Schema{s, {Type: "null"}}}
		}
		s.Nullable = true
		return s
	case reflect.String:
		return &huma.Schema{Type: "string"}
	case reflect.Bool:
		return &huma.Schema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &huma.Schema{Type: "integer"}
	case reflect.Slice:
		return &huma.Schema{Type: "array", Items: d.schemaOf(t.Elem(), closed)}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return &huma.Schema{Type: "object", AdditionalProperties: true}
		}
		return &huma.Schema{Type: "object", AdditionalProperties: d.schemaOf(t.Elem(), closed)}
	case reflect.Struct:
		return d.drawObject(t, closed)
	}
	panic(fmt.Sprintf("kernel: the document does not contain %v", t))
}

// schemaName returns a type's name in the document. A page of mints is MintPage.
func (d *drawing) schemaName(t reflect.Type) string {
	if name, ok := d.surface.SchemaNames[t]; ok {
		return name
	}
	name := t.Name()
	if inner, ok := strings.CutPrefix(name, "Page["); ok {
		inner = strings.TrimSuffix(inner, "]")
		return inner[strings.LastIndex(inner, ".")+1:] + "Page"
	}
	return name
}

func (d *drawing) drawObject(t reflect.Type, closed bool) *huma.Schema {
	name := d.schemaName(t)
	ref := &huma.Schema{Ref: "#/components/schemas/" + name}
	if _, drawn := d.schemas.Map()[name]; drawn {
		return ref
	}
	s := &huma.Schema{
		Type: "object", Description: d.surface.TypeDocs[t], Properties: map[string]*huma.Schema{},
	}
	if closed {
		s.AdditionalProperties = false
	}
	d.schemas.Map()[name] = s // before its fields, which may refer to it
	d.drawMembers(s, []string{name}, t, closed)
	return ref
}

// drawMembers draws the fields of a type. An embedded type's fields take their texts from the
// embedded type, unless the outer type has its own. A later field of the outer type replaces one of the
// same name, as it does in JSON.
func (d *drawing) drawMembers(s *huma.Schema, names []string, t reflect.Type, closed bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			d.drawMembers(s, append(slices.Clone(names), d.schemaName(f.Type)), f.Type, closed)
			continue
		}
		member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := d.schemaOf(f.Type, closed)
		d.surface.describeField(names, member, f).applyTo(p)
		s.Properties[member] = p
		if options != "omitempty" && !slices.Contains(s.Required, member) {
			s.Required = append(s.Required, member)
		}
	}
}

const (
	exampleRequestID = "req_01J9ZW3M8Q4S5T6V7W8X9YZABC"
)

// FieldDoc is the document's text about a field. The tags doc, pattern, format, enum, bounds and
// example hold it beside the field.
type FieldDoc struct {
	Text    string
	Pattern string
	Format  string
	Enum    []string // closed: another value would be a breaking change
	Bounds  map[string]any
	Example any
}

// forms are what fields of the same form share. The tag form names one.
var forms = map[string]FieldDoc{
	"amount":  {Pattern: `^(0|[1-9][0-9]{0,77})$`, Example: "5000000"},
	"decimal": {Pattern: DecimalPattern},
}

// DecimalPattern matches a decimal number without sign and exponent.
const DecimalPattern = `^(0|[1-9][0-9]*)(\.[0-9]+)?$`

// AmountDoc returns the text about an amount.
func AmountDoc(text string) FieldDoc {
	n := forms["amount"]
	n.Text = text
	return n
}

// describeField returns the text about a field of a type. typeNames has the type and the types that
// embed it, the outermost first. The text of an outer type wins over the field's tag, and the tag
// over the text that the name has in every type.
func (s *Surface) describeField(typeNames []string, name string, f reflect.StructField) FieldDoc {
	n := s.FieldDocs[name].refine(readTag(f))
	for _, typeName := range slices.Backward(typeNames) {
		n = n.refine(s.FieldDocs[typeName+"."+name])
	}
	return n
}

// refine returns n with a more precise text. One with a sentence replaces n; one without adds to it.
func (n FieldDoc) refine(precise FieldDoc) FieldDoc {
	if precise.Text != "" {
		return precise
	}
	n.Pattern, n.Format = cmp.Or(precise.Pattern, n.Pattern), cmp.Or(precise.Format, n.Format)
	n.Example = cmp.Or(precise.Example, n.Example)
	if precise.Enum != nil {
		n.Enum = precise.Enum
	}
	if precise.Bounds != nil {
		n.Bounds = precise.Bounds
	}
	return n
}

// readTag reads the tags of a field.
func readTag(f reflect.StructField) FieldDoc {
	n := FieldDoc{Text: f.Tag.Get("doc"), Pattern: f.Tag.Get("pattern"), Format: f.Tag.Get("format")}
	if form, ok := f.Tag.Lookup("form"); ok {
		shared, ok := forms[form]
		if !ok {
			panic(fmt.Sprintf("kernel: field %s has the unknown form %q", f.Name, form))
		}
		n.Pattern, n.Example = shared.Pattern, shared.Example
	}
	if words, ok := f.Tag.Lookup("enum"); ok {
		n.Enum = strings.Split(words, ",")
	}
	if bounds, ok := f.Tag.Lookup("bounds"); ok {
		n.Bounds = map[string]any{}
		for bound := range strings.SplitSeq(bounds, ",") {
			name, value, _ := strings.Cut(bound, "=")
			n.Bounds[name] = readNumber(f, value)
		}
	}
	if example, ok := f.Tag.Lookup("example"); ok {
		n.Example = example
		if t := f.Type; t.Kind() == reflect.Int || t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Int {
			n.Example = readNumber(f, example)
		}
	}
	return n
}

func readNumber(f reflect.StructField, text string) int {
	number, err := strconv.Atoi(text)
	if err != nil {
		panic(fmt.Sprintf("kernel: the tag of field %s: %v", f.Name, err))
	}
	return number
}

func (n FieldDoc) applyTo(s *huma.Schema) {
	if s.Ref != "" || len(s.OneOf) > 0 {
		s.Description = n.Text
		return
	}
	s.Description = n.Text
	if n.Pattern != "" {
		s.Pattern = n.Pattern
	}
	if n.Format != "" {
		s.Format = n.Format
	}
	if len(n.Enum) > 0 {
		switch {
		case s.Items != nil:
			s.Items.Enum = enumValues(n.Enum)
		case s.Nullable:
			s.Enum = append(enumValues(n.Enum), nil)
		default:
			s.Enum = enumValues(n.Enum)
		}
	}
	if len(n.Bounds) > 0 {
		s.Extensions = n.Bounds
	}
	if n.Example != nil {
		s.Examples = []any{n.Example}
	}
}

// ProblemDoc is the document's text about a code.
type ProblemDoc struct {
	Kind    fault.Kind
	Text    string
	Param   string
	Example string
	Extra   map[string]any
}
