// Package contract reads the published document of the REST interface. It generates the clients
// from it, in Go and in TypeScript, and says which changes of it would break an existing client.
//
// The package adds no fact about the interface. A client is right because the document is, and the
// interface's tests check the document. A crash leaves no trace: a person writes the files with
// `make generate`.
package contract

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Document is the part of an OpenAPI document that matters to a client.
type Document struct {
	Paths      map[string]map[string]*Operation `json:"paths"`
	Webhooks   map[string]map[string]*Operation `json:"webhooks"`
	Components struct {
		Schemas map[string]*Schema `json:"schemas"`
	} `json:"components"`
	Tags []struct {
		Name string `json:"name"`
	} `json:"tags"`
}

// Operation is one call, or one webhook.
type Operation struct {
	Method      string                 `json:"-"`
	Path        string                 `json:"-"`
	OperationID string                 `json:"operationId"`
	Tags        []string               `json:"tags"`
	Summary     string                 `json:"summary"`
	Description string                 `json:"description"`
	Parameters  []*Parameter           `json:"parameters"`
	RequestBody *Body                  `json:"requestBody"`
	Responses   map[string]*Answer     `json:"responses"`
	Security    *[]map[string][]string `json:"security"`
	Repeat      string                 `json:"x-repeat"` // ALWAYS, WITH_KEY or NEVER
}

// Parameter is a parameter of a call.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required"`
	Description string  `json:"description"`
	Schema      *Schema `json:"schema"`
}

// Body is the body of a request, by media type.
type Body struct {
	Required bool                `json:"required"`
	Content  map[string]*Content `json:"content"`
}

// Content is a body in one media type.
type Content struct {
	Schema *Schema `json:"schema"`
}

// Answer is the answer of a call with one status.
type Answer struct {
	Description string                `json:"description"`
	Headers     map[string]*Parameter `json:"headers"`
	Content     map[string]*Content   `json:"content"`
}

// Schema is the schema of a value. The document uses a part of JSON Schema. Only that part is read,
// and a test checks that no other keyword appears.
type Schema struct {
	Ref            string             `json:"$ref"`
	Type           Types              `json:"type"`
	Format         string             `json:"format"`
	Description    string             `json:"description"`
	Enum           []*string          `json:"enum"` // nil stands for null
	ExtensibleEnum []string           `json:"x-extensible-enum"`
	Pattern        string             `json:"pattern"`
	MinLength      *json.Number       `json:"minLength"`
	MaxLength      *json.Number       `json:"maxLength"`
	Minimum        *json.Number       `json:"minimum"`
	Maximum        *json.Number       `json:"maximum"`
	MinItems       *json.Number       `json:"minItems"`
	MaxItems       *json.Number       `json:"maxItems"`
	MaxProperties  *json.Number       `json:"maxProperties"`
	Properties     map[string]*Schema `json:"properties"`
	Required       []string           `json:"required"`
	Additional     *Additional        `json:"additionalProperties"`
	Items          *Schema            `json:"items"`
	OneOf          []*Schema          `json:"oneOf"`
	AllOf          []*Schema          `json:"allOf"`
}

// Types are the JSON types of a value, sorted.
type Types []string

// UnmarshalJSON parses one type or a list of them.
func (t *Types) UnmarshalJSON(raw []byte) error {
	var single string
	if json.Unmarshal(raw, &single) == nil {
		*t = Types{single}
		return nil
	}
	var list []string
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	slices.Sort(list)
	*t = list
	return nil
}

// Additional says what an object may have in addition to its properties.
type Additional struct {
	AllowsAny bool
	Schema    *Schema
}

// UnmarshalJSON parses a boolean or a schema.
func (a *Additional) UnmarshalJSON(raw []byte) error {
	if json.Unmarshal(raw, &a.AllowsAny) == nil {
		return nil
	}
	return json.Unmarshal(raw, &a.Schema)
}

// ParseDocument parses a document.
func ParseDocument(raw []byte) (*Document, error) {
	d := &Document{}
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, fmt.Errorf("read the document: %w", err)
	}
	for path, item := range d.Paths {
		for method, op := range item {
			op.Method, op.Path = strings.ToUpper(method), path
		}
	}
	for name, item := range d.Webhooks {
		for _, op := range item {
			op.Method, op.Path = "webhook", name
		}
	}
	return d, nil
}

// Operations returns the calls, by their groups and then in alphabetical order.
func (d *Document) Operations() []*Operation {
	group := map[string]int{}
	for i, t := range d.Tags {
		group[t.Name] = i
	}
	var operations []*Operation
	for _, item := range d.Paths {
		for _, op := range item {
			operations = append(operations, op)
		}
	}
	slices.SortFunc(operations, func(a, b *Operation) int {
		if a.Tags[0] != b.Tags[0] {
			return group[a.Tags[0]] - group[b.Tags[0]]
		}
		return strings.Compare(a.OperationID, b.OperationID)
	})
	return operations
}

// Name returns the method and path of the operation.
func (o *Operation) Name() string { return o.Method + " " + o.Path }

// Success returns the successful answer that has a body, and its status. If none has a body, it
// returns the first one.
func (o *Operation) Success() (string, *Answer) {
	first := ""
	for _, status := range sortedKeys(o.Responses) {
		if !strings.HasPrefix(status, "2") {
			continue
		}
		if len(o.Responses[status].Content) > 0 {
			return status, o.Responses[status]
		}
		if first == "" {
			first = status
		}
	}
	return first, o.Responses[first]
}

// requestBody returns the schema of the request's body, or nil for a call without a body or with an
// empty one.
func (d *Document) requestBody(o *Operation) *Schema {
	if o.RequestBody == nil {
		return nil
	}
	s := o.RequestBody.Content["application/json"].Schema
	if _, shape := d.resolveRef(s); len(shape.Properties) == 0 && !o.RequestBody.Required {
		return nil
	}
	return s
}

// IsOpen reports whether the call needs no key.
func (o *Operation) IsOpen() bool {
	return o.Security != nil &&
		slices.ContainsFunc(*o.Security, func(s map[string][]string) bool { return len(s) == 0 })
}

// resolveRef follows a reference. The name is "" for a schema without one.
func (d *Document) resolveRef(s *Schema) (string, *Schema) {
	if s == nil || s.Ref == "" {
		return "", s
	}
	name := strings.TrimPrefix(s.Ref, "#/components/schemas/")
	shape := d.Components.Schemas[name]
	if shape == nil {
		panic("contract: the document has no " + s.Ref)
	}
	return name, shape
}

// splitNull separates null from a schema: a list of types with null, or one of a reference and
// null.
func splitNull(s *Schema) (*Schema, bool) {
	if len(s.OneOf) == 2 && slices.Equal(s.OneOf[1].Type, Types{"null"}) {
		return s.OneOf[0], true
	}
	if i := slices.Index(s.Type, "null"); i >= 0 && len(s.Type) > 1 {
		stripped := *s
		stripped.Type = slices.Delete(slices.Clone(s.Type), i, i+1)
		stripped.Enum = slices.DeleteFunc(slices.Clone(s.Enum), func(v *string) bool { return v == nil })
		return &stripped, true
	}
	return s, false
}

// sentSchemas returns the names of the schemas that callers send, and whether a PATCH sends them:
// there an omitted field differs from an empty one.
func (d *Document) sentSchemas() map[string]bool {
	schemas := map[string]bool{}
	var walk func(s *Schema, patch bool)
	walk = func(s *Schema, patch bool) {
		if s == nil {
			return
		}
		name, shape := d.resolveRef(s)
		if name != "" {
			if wasPatch, isVisited := schemas[name]; isVisited && (wasPatch || !patch) {
				return
			}
			schemas[name] = patch
		}
		for _, p := range shape.Properties {
			walk(p, patch)
		}
		walk(shape.Items, patch)
		for _, part := range slices.Concat(shape.OneOf, shape.AllOf) {
			walk(part, patch)
		}
	}
	for _, op := range d.Operations() {
		if op.RequestBody != nil {
			walk(op.RequestBody.Content["application/json"].Schema, op.Method == "PATCH")
		}
	}
	return schemas
}

// refusalCodes returns the codes of all refusals.
func (d *Document) refusalCodes() []string {
	codes := map[string]bool{}
	for _, op := range d.Operations() {
		for _, a := range op.Responses {
			for _, code := range a.refusalCodes() {
				codes[code] = true
			}
		}
	}
	return sortedKeys(codes)
}

// refusalCodes are the codes of a refusal.
func (a *Answer) refusalCodes() []string {
	c := a.Content["application/json"]
	if c == nil {
		return nil
	}
	for _, part := range c.Schema.AllOf {
		if code := part.Properties["code"]; code != nil {
			return code.ExtensibleEnum
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
