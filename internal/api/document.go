package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/webhooks/event"
	"github.com/cofferpay/coffer/webhook"
)

// organizationsDocument returns the published description of the organizations' calls.
func organizationsDocument(baseURL string) []byte { return organizations.drawDocument(baseURL) }

// drawDocument draws the published description from the table of routes and from the types that are
// read and answered, so that the two cannot differ. Only the texts come from field_docs.go. The document
// is the same bytes for every caller. Rule REQ-6.
func (s *surface) drawDocument(baseURL string) []byte {
	d := &drawing{surface: s, schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)}
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: s.title, Version: "1",
			Description: s.description,
			License:     &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Servers: []*huma.Server{{URL: baseURL}},
		Paths:   map[string]*huma.PathItem{},
		Components: &huma.Components{
			Schemas: d.schemas,
			SecuritySchemes: map[string]*huma.SecurityScheme{s.credential: {
				Type: "apiKey", In: "header", Name: strings.ToLower(s.header), Description: s.credentialText,
			}},
			Responses: map[string]*huma.Response{},
		},
		Security: []map[string][]string{{s.credential: {}}},
	}
	for _, g := range s.groups {
		doc.Tags = append(doc.Tags, &huma.Tag{Name: g.name, Description: g.text})
	}
	d.drawProblem()
	for _, r := range s.routes {
		op := d.drawOperation(r)
		item := doc.Paths[r.path]
		if item == nil {
			item = &huma.PathItem{}
			doc.Paths[r.path] = item
		}
		switch r.method {
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
			panic("api: the document does not contain " + r.method)
		}
	}
	doc.Webhooks = map[string]*huma.PathItem{}
	for _, t := range s.events {
		doc.Webhooks[string(t)] = &huma.PathItem{Post: d.drawWebhook(t)}
	}
	raw, err := json.MarshalIndent(doc, "", " ")
	if err != nil {
		panic("api: cannot encode the document: " + err.Error())
	}
	return raw
}

type drawing struct {
	surface *surface
	schemas huma.Registry
}

func (d *drawing) drawOperation(r route) *huma.Operation {
	op := &huma.Operation{
		OperationID: r.name, Tags: []string{r.group}, Summary: r.summary, Description: r.text,
		Responses:  map[string]*huma.Response{},
		Extensions: map[string]any{"x-repeat": repeatMode(r)},
	}
	if scope := d.surface.scopeOf(r); scope != "" {
		op.Extensions["x-scope"] = scope
	}
	if r.needsNoKey {
		op.Security = []map[string][]string{{}}
	}
	for part := range strings.SplitSeq(r.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			name = strings.TrimSuffix(name, "}")
			op.Parameters = append(op.Parameters, &huma.Param{
				Name: name, In: "path", Required: true, Description: d.surface.findFieldDoc(nil, name).text,
				Schema: &huma.Schema{Type: "string"},
			})
		}
	}
	for _, p := range r.query {
		op.Parameters = append(op.Parameters, p.drawParam())
	}
	for _, h := range r.headers {
		op.Parameters = append(op.Parameters,
			&huma.Param{Name: h.name, In: "header", Description: h.text, Schema: &huma.Schema{Type: "string"}})
	}
	if r.body != nil {
		op.RequestBody = &huma.RequestBody{Required: !r.optional, Content: map[string]*huma.MediaType{
			"application/json": {
				Schema: d.schemaOf(reflect.TypeOf(r.body), true), Example: d.surface.requestExample(r.name),
			},
		}}
	}
	for _, s := range r.answers {
		op.Responses[strconv.Itoa(s.status)] = d.drawSuccess(s)
		if r.csv {
			op.Responses[strconv.Itoa(s.status)].Content["text/csv"] = &huma.MediaType{
				Schema: &huma.Schema{Type: "string"},
			}
		}
	}
	byStatus := map[int][]fault.Code{}
	for _, code := range d.surface.faultCodes(r) {
		status := httpStatus(&fault.Fault{Kind: d.surface.findProblemDoc(code).kind, Code: code})
		byStatus[status] = append(byStatus[status], code)
	}
	for status, codes := range byStatus {
		op.Responses[strconv.Itoa(status)] = d.drawRefusal(r, codes)
	}
	return op
}

// repeatMode returns when a caller may repeat a request without an answer to the first: always,
// with its idempotencyKey, or never. Clients rely on it.
func repeatMode(r route) string {
	if r.method != http.MethodPost || r.retryable {
		return "ALWAYS"
	}
	if r.body != nil {
		t := reflect.TypeOf(r.body)
		for i := range t.NumField() {
			if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name == "idempotencyKey" {
				return "WITH_KEY"
			}
		}
	}
	return "NEVER"
}

// routeFaultCodes returns all refusals of a call: its own and those of every call.
func routeFaultCodes(r route) []fault.Code {
	codes := append([]fault.Code{fault.InvalidRequest, fault.UnknownField, fault.Internal}, r.faults...)
	if !r.needsNoKey {
		codes = append(codes, fault.CodeUnauthorized, fault.IPNotAllowed, fault.CodeUnavailable, fault.RateLimited)
	}
	if r.jsonOnly() {
		codes = append(codes, fault.NotAcceptable)
	}
	if r.body != nil {
		codes = append(codes, fault.InvalidJSON, fault.UnsupportedMediaType, fault.BodyTooLarge)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// eventDataType returns the type of an event's data.
func eventDataType(t event.Type) reflect.Type {
	switch {
	case t == event.CustomerSwapFailed:
		return reflect.TypeFor[webhook.SwapFailed]()
	case strings.HasPrefix(string(t), "CUSTOMER_DEPOSIT"), strings.HasPrefix(string(t), "ORGANIZATION_DEPOSIT"):
		return reflect.TypeFor[webhook.Deposit]()
	case t == event.TransferCompleted:
		return reflect.TypeFor[webhook.Transfer]()
	case strings.HasPrefix(string(t), "CUSTOMER_WITHDRAW"), strings.HasPrefix(string(t), "ORGANIZATION_WITHDRAW"):
		return reflect.TypeFor[webhook.Withdrawal]()
	}
	panic("api: the document does not know the data of " + string(t))
}

// drawWebhook draws the request that an endpoint receives.
func (d *drawing) drawWebhook(t event.Type) *huma.Operation {
	text := "The service sends this event to each endpoint that names no events, and to each that names this one."
	if event.IsExtension(t) {
		text = "An extension: the service sends this event only to endpoints that name it."
	}
	op := &huma.Operation{
		OperationID: "on_" + string(t), Tags: []string{"Webhooks"}, Summary: string(t),
		Description: text + " Answer 2xx within 15 seconds. The service repeats the delivery after any other answer, " +
			"and 410 disables the endpoint. The same event can arrive more than once, always with the same " +
			"webhook-id and body.",
		Security: []map[string][]string{{}},
		Responses: map[string]*huma.Response{
			"2XX": {Description: "The receiver accepted the event. The service does not read the body."},
			"410": {Description: "The receiver wants no more events: the service disables the endpoint."},
		},
	}
	for _, h := range webhookHeaders {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: h.name, In: "header", Required: true, Description: h.text, Schema: &huma.Schema{Type: "string"},
		})
	}
	op.RequestBody = &huma.RequestBody{
		Required: true,
		Content: map[string]*huma.MediaType{"application/json": {Schema: &huma.Schema{AllOf: []*huma.Schema{
			d.schemaOf(reflect.TypeFor[webhook.Envelope](), false),
			{Type: "object", Properties: map[string]*huma.Schema{
				"type": {Type: "string", Enum: []any{string(t)}}, "data": d.schemaOf(eventDataType(t), false),
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

func (d *drawing) drawSuccess(s success) *huma.Response {
	response := &huma.Response{Description: s.text, Headers: requestIDHeader()}
	for _, h := range s.headers {
		response.Headers[h.name] = &huma.Param{Description: h.text, Schema: &huma.Schema{Type: "string"}}
	}
	if s.body != nil {
		response.Content = map[string]*huma.MediaType{
			"application/json": {Schema: d.schemaOf(reflect.TypeOf(s.body), false), Example: s.example},
		}
	}
	return response
}

func (d *drawing) drawRefusal(r route, codes []fault.Code) *huma.Response {
	response := &huma.Response{Headers: requestIDHeader()}
	var text, names []string
	examples := map[string]*huma.Example{}
	for _, code := range codes {
		p := d.surface.findProblemDoc(code)
		text = append(text, fmt.Sprintf("`%s`: %s", code, p.text))
		names = append(names, string(code))
		f := fault.New(p.kind, code, fault.Stated, "%s", p.example).WithParam(p.param)
		switch {
		case code == fault.Internal:
			f = newInternalFault(r.method, nil, d.surface.retryAdvice(r))
		case code == fault.CodeUnavailable:
			f = newUnavailable(r.method, "The database cannot be reached", d.surface.retryAdvice(r))
		}
		for k, v := range p.extra {
			f.WithExtra(k, v)
		}
		examples[string(code)] = &huma.Example{Summary: p.text, Value: problemBody(f, exampleRequestID)}
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
			"existingId":    text("With IDEMPOTENCY_CONFLICT: the withdrawal or transfer that has the key."),
			"currentStatus": text("With INVALID_STATE: the current status of the resource."),
			"withdrawalId":  text("With WITHDRAWAL_RISK_BLOCKED: the record of the blocked withdrawal."),
		},
	}
}

func (p parameter) drawParam() *huma.Param {
	s := &huma.Schema{Type: "string"}
	switch p.kind {
	case textParameter:
		s.MinLength, s.MaxLength = pointerTo(1), pointerTo(p.max)
	case wordParameter:
		s.Enum = enumValues(p.enum)
	case wordsParameter:
		word := "(" + strings.Join(p.enum, "|") + ")"
		s.Pattern = "^" + word + "(," + word + ")*$"
	case flagParameter:
		s.Type = "boolean"
	case numberParameter:
		s.Type, s.Extensions = "integer", map[string]any{"minimum": p.minNumber(), "maximum": p.max}
	case timeParameter:
		s.Format = "date-time"
	}
	return &huma.Param{Name: p.name, In: "query", Description: p.text, Schema: s}
}

func pointerTo[T any](v T) *T { return &v }

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
	anyType      = reflect.TypeFor[anyValue]()
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
	panic(fmt.Sprintf("api: the document does not contain %v", t))
}

// schemaName returns a type's name in the document. A page of mints is MintPage.
func schemaName(t reflect.Type) string {
	name := t.Name()
	if inner, ok := strings.CutPrefix(name, "Page["); ok {
		inner = strings.TrimSuffix(inner, "]")
		return inner[strings.LastIndex(inner, ".")+1:] + "Page"
	}
	if t.PkgPath() == reflect.TypeFor[webhook.Mint]().PkgPath() && name == "Mint" {
		return "EmbeddedMint"
	}
	return name
}

func (d *drawing) drawObject(t reflect.Type, closed bool) *huma.Schema {
	name := schemaName(t)
	ref := &huma.Schema{Ref: "#/components/schemas/" + name}
	if _, drawn := d.schemas.Map()[name]; drawn {
		return ref
	}
	s := &huma.Schema{
		Type: "object", Description: d.surface.findFieldDoc([]string{name}, "").text,
		Properties: map[string]*huma.Schema{},
	}
	if closed {
		s.AdditionalProperties = false
	}
	d.schemas.Map()[name] = s // before its fields, which may refer to it
	d.drawMembers(s, []string{name}, t, closed)
	return ref
}

// drawMembers draws the fields of a type. An embedded type's fields take their texts from the
// embedded type, unless the outer type has its own.
func (d *drawing) drawMembers(s *huma.Schema, names []string, t reflect.Type, closed bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			d.drawMembers(s, append(slices.Clone(names), schemaName(f.Type)), f.Type, closed)
			continue
		}
		member, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := d.schemaOf(f.Type, closed)
		d.surface.findFieldDoc(names, member).applyTo(p)
		s.Properties[member] = p
		if options != "omitempty" {
			s.Required = append(s.Required, member)
		}
	}
}
