package contract

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// Go draws the calls and types of package client. shared are the types of
// package webhook, which the client has in common with it.
func Go(d *Document, shared map[string]bool) ([]byte, error) {
	g := &golang{Document: d, shared: shared}
	g.line("// Code generated from internal/api/openapi.json by make generate. DO NOT EDIT.\n\npackage client\n")
	g.line("import (\n\"context\"\n\"encoding/json\"\n\"errors\"\n\"io\"\n\"iter\"\n\"net/http\"\n\"net/url\"\n\"strconv\"\n\"time\"\n\n\"github.com/cofferpay/coffer/webhook\"\n)\n")
	g.codes()
	g.types()
	for _, op := range d.Operations() {
		if op.OperationID == "getOpenAPI" {
			g.document(op)
			continue
		}
		g.operation(op)
	}
	text := g.out.String()
	for _, imported := range []string{"context", "encoding/json", "errors", "io", "iter", "net/http", "net/url", "strconv", "time"} {
		short := imported[strings.LastIndex(imported, "/")+1:]
		if !strings.Contains(text, short+".") {
			text = strings.Replace(text, "\""+imported+"\"\n", "", 1)
		}
	}
	out, err := format.Source([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("format the Go client: %w", err)
	}
	return out, nil
}

type golang struct {
	*Document
	shared map[string]bool
	out    bytes.Buffer
}

func (g *golang) line(format string, args ...any) { fmt.Fprintf(&g.out, format+"\n", args...) }

// comment writes words as a comment that starts with a name, as Go wants it.
func (g *golang) comment(name, text string) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "`", ""))
	if name != "" {
		text = name + ": " + text
	}
	for _, line := range wrap(text, 84) {
		g.line("// %s", line)
	}
}

func wrap(text string, width int) []string {
	var lines []string
	for paragraph := range strings.SplitSeq(text, "\n") {
		line := ""
		for word := range strings.FieldsSeq(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				lines = append(lines, line)
				line = ""
			}
			if line != "" {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return lines
}

var initialisms = map[string]string{
	"id": "ID", "ids": "IDs", "url": "URL", "uri": "URI", "usd": "USD", "api": "API", "caip": "CAIP", "caip2": "CAIP2", "ip": "IP", "json": "JSON", "csv": "CSV",
}

// goName is the name of a field or code in Go: mintId is MintID, and
// INVALID_JSON is InvalidJSON.
func goName(name string) string {
	var words []string
	if name == strings.ToUpper(name) || strings.ContainsAny(name, "_-") {
		words = strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' })
	} else {
		from := 0
		for i := 1; i < len(name); i++ {
			if name[i] >= 'A' && name[i] <= 'Z' && (name[i-1] < 'A' || name[i-1] > 'Z') {
				words = append(words, strings.ToLower(name[from:i]))
				from = i
			}
		}
		words = append(words, strings.ToLower(name[from:]))
	}
	var out strings.Builder
	for _, w := range words {
		if short, ok := initialisms[w]; ok {
			out.WriteString(short)
		} else {
			out.WriteString(strings.ToUpper(w[:1]) + w[1:])
		}
	}
	return out.String()
}

// goMethod is the name of an operation's method, which keeps its own capitals.
func goMethod(op *Operation) string {
	return strings.ToUpper(op.OperationID[:1]) + op.OperationID[1:]
}

// local is the name of an argument.
func local(p *Parameter) string { return p.Name[:1] + goName(p.Name)[1:] }

func (g *golang) codes() {
	g.line("// The codes of refusals. Codes are added without notice.\nconst (")
	for _, code := range g.Document.codes() {
		g.line("%s Code = %q", goName(code), code)
	}
	g.line(")\n")
}

// own tells the types that are written by hand.
func own(name string) bool { return name == "Problem" }

func (g *golang) types() {
	sent := g.sent()
	var aliases []string
	for _, name := range sorted(g.Components.Schemas) {
		if to := g.sharedAs(name); to != "" {
			aliases = append(aliases, fmt.Sprintf("%s = webhook.%s", name, to))
		}
	}
	g.line("// What webhooks carry too.\ntype (")
	for _, a := range aliases {
		g.line("%s", a)
	}
	g.line(")\n")
	for _, name := range sorted(g.Components.Schemas) {
		s := g.Components.Schemas[name]
		if own(name) {
			continue
		}
		if g.sharedAs(name) == "" {
			patch, request := sent[name]
			g.comment(name, s.Description)
			if len(s.Properties) == 0 {
				g.line("type %s struct{}\n", name)
				continue
			}
			g.line("type %s struct {", name)
			for _, field := range sorted(s.Properties) {
				g.field(s, field, request, patch)
			}
			g.line("}\n")
		}
		if _, request := sent[name]; !request {
			g.values(name, s)
		}
	}
}

// sharedAs is the type of package webhook that a schema is drawn from, or "".
func (g *golang) sharedAs(name string) string {
	switch {
	case name == "EmbeddedMint":
		return "Mint"
	case name != "Mint" && g.shared[name]:
		return name
	}
	return ""
}

func (g *golang) field(s *Schema, field string, request, patch bool) {
	p := s.Properties[field]
	kind, tag := g.kind(p), field
	if !slices.Contains(s.Required, field) {
		switch bare, null := nullable(p); {
		case request && patch:
			tag += ",omitzero"
			kind = pointed(kind)
		case request:
			// What is zero is left out: a caller who wants none says none. Where null
			// is taken and false or 0 differ from it, the three are told apart.
			tag += ",omitzero"
			name, _ := g.resolve(bare)
			counts := null && (slices.Contains(bare.Type, "boolean") || slices.Contains(bare.Type, "integer"))
			if kind = g.kind(bare); name != "" || counts {
				kind = pointed(kind)
			}
		case !null:
			tag += ",omitempty"
			kind = pointed(kind)
		default:
			tag += ",omitempty"
		}
	}
	g.comment("", p.Description)
	g.line("%s %s `json:%q`", goName(field), kind, tag)
}

func pointed(kind string) string {
	if strings.HasPrefix(kind, "*") || strings.HasPrefix(kind, "map[") || strings.HasPrefix(kind, "[]") || kind == "json.RawMessage" {
		return kind
	}
	return "*" + kind
}

// kind is the Go type of a value.
func (g *golang) kind(s *Schema) string {
	if bare, null := nullable(s); null {
		return pointed(g.kind(bare))
	}
	if name, _ := g.resolve(s); name != "" {
		return name
	}
	switch {
	case slices.Equal(s.Type, Types{"string"}) && s.Format == "date-time":
		return "webhook.Time"
	case slices.Equal(s.Type, Types{"string"}):
		return "string"
	case slices.Equal(s.Type, Types{"boolean"}):
		return "bool"
	case slices.Equal(s.Type, Types{"integer"}):
		return "int"
	case slices.Equal(s.Type, Types{"array"}):
		return "[]" + g.kind(s.Items)
	case slices.Equal(s.Type, Types{"object"}) && s.Additional != nil && s.Additional.Schema != nil:
		return "map[string]" + g.kind(s.Additional.Schema)
	case slices.Equal(s.Type, Types{"object"}):
		return "json.RawMessage"
	}
	panic(fmt.Sprintf("contract: Go has no type for %+v", s))
}

// values names the values of closed enumerations of what is answered.
func (g *golang) values(name string, s *Schema) {
	for _, field := range sorted(s.Properties) {
		p, _ := nullable(s.Properties[field])
		if p.Items != nil {
			p = p.Items
		}
		if len(p.Enum) < 2 || strings.HasSuffix(name, "WithSecret") {
			continue
		}
		g.line("// The values of %s.%s.\nconst (", name, goName(field))
		for _, v := range p.Enum {
			if v != nil {
				g.line("%s%s%s = %q", name, goName(field), goName(*v), *v)
			}
		}
		g.line(")\n")
	}
}

// page is the type of a page's items, or "" for what is no page.
func (g *golang) page(op *Operation) string {
	if !slices.ContainsFunc(op.Parameters, func(p *Parameter) bool { return p.Name == "cursor" }) {
		return ""
	}
	_, a := op.Success()
	_, s := g.resolve(a.Content["application/json"].Schema)
	if s.Properties["data"] == nil || s.Properties["nextCursor"] == nil {
		return ""
	}
	return g.kind(s.Properties["data"].Items)
}

// walker is the name of the method that walks all pages: Deposits for listDeposits.
func walker(op *Operation) string {
	if rest, ok := strings.CutPrefix(op.OperationID, "list"); ok {
		return rest
	}
	return "All" + goMethod(op)
}

func (g *golang) operation(op *Operation) {
	method := goMethod(op)
	var inPath, given []*Parameter
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			inPath = append(inPath, p)
		case p.Name != "Idempotency-Key": // its field in the body says the same
			given = append(given, p)
		}
	}
	args, pass := "ctx context.Context", "ctx"
	for _, p := range inPath {
		args += ", " + local(p) + map[bool]string{true: " int", false: " string"}[p.Name == "mintId"]
		pass += ", " + local(p)
	}
	if body := g.body(op); body != nil {
		args += ", body " + g.kind(body)
	}
	if len(given) > 0 {
		g.line("// %sParams are the parameters of %s. What is zero is not sent.\ntype %sParams struct {", method, method, method)
		for _, p := range given {
			g.comment("", p.Description)
			kind := map[string]string{"boolean": "*bool", "integer": "int64", "string": "string"}[p.Schema.Type[0]]
			switch {
			case p.Schema.Format == "date-time":
				kind = "time.Time"
			case p.Name == "mintId" || p.Name == "limit":
				kind = "int"
			}
			g.line("%s %s", goName(p.Name), kind)
		}
		g.line("}\n")
		args += ", p " + method + "Params"
	}

	_, success := op.Success()
	result := ""
	if c := success.Content["application/json"]; c != nil {
		result = g.kind(c.Schema)
	}
	g.words(op, method)
	returns := "error"
	if result != "" {
		returns = fmt.Sprintf("(out %s, err error)", result)
	}
	g.line("func (c *Client) %s(%s, opts ...CallOption) %s {", method, args, returns)
	failure := "return err"
	if result != "" {
		failure = "return out, err"
	}
	g.target(op, inPath, given, failure)
	if result != "" {
		g.line("err = c.do(ctx, k, &out, opts)\nreturn out, err\n}\n")
	} else {
		g.line("return c.do(ctx, k, nil, opts)\n}\n")
	}
	if item := g.page(op); item != "" {
		name := walker(op)
		g.comment(name, fmt.Sprintf("every item of %s, page after page.", method))
		g.line("func (c *Client) %s(%s, opts ...CallOption) iter.Seq2[%s, error] {", name, args, item)
		g.line("return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]%s, *string, error) {\np.Cursor = cursor", item)
		g.line("page, err := c.%s(%s, p, opts...)\nreturn page.Data, page.NextCursor, err\n})\n}\n", method, pass)
	}
	if success.Content["text/csv"] != nil {
		g.comment(method+"CSV", fmt.Sprintf("what %s has as one table, without limit and cursor. It is read while it arrives; the caller closes it. An error while reading means that the table is not complete.", method))
		g.line("func (c *Client) %sCSV(%s, opts ...CallOption) (out io.ReadCloser, err error) {", method, args)
		g.target(op, inPath, given, "return out, err")
		g.line("return c.stream(ctx, k, opts)\n}\n")
	}
}

func (g *golang) words(op *Operation, method string) {
	g.comment(method, op.Summary+". "+op.Description)
	g.line("//")
	again := map[string]string{
		"ALWAYS":   "It is repeated when no answer comes.",
		"WITH_KEY": "It is repeated when no answer comes and it has an IdempotencyKey; without one it is sent once.",
		"NEVER":    "It is sent once.",
	}[op.Repeat]
	if again == "" {
		panic("contract: " + op.Name() + " does not say whether it may be repeated")
	}
	g.line("// %s. %s", op.Name(), again)
}

// target writes how the request is made.
func (g *golang) target(op *Operation, inPath, given []*Parameter, failure string) {
	path := fmt.Sprintf("%q", op.Path)
	for _, p := range inPath {
		part := local(p) + "Part"
		if p.Name == "mintId" {
			part = "strconv.Itoa(mintID)"
		} else {
			g.line("%s, err := segment(%q, %s)\nif err != nil { %s }", part, p.Name, local(p), failure)
		}
		before, after, _ := strings.Cut(path, "{"+p.Name+"}")
		path = before + `" + ` + part + ` + "` + after
	}
	path = strings.TrimSuffix(path, ` + ""`)
	fields := fmt.Sprintf("method: %q, path: %s, repeat: %s", op.Method, path, map[string]string{"ALWAYS": "always", "WITH_KEY": "withKey", "NEVER": "never"}[op.Repeat])
	if op.Open() {
		fields += ", open: true"
	}
	if body := g.body(op); body != nil {
		fields += ", body: body"
		_, s := g.resolve(body)
		if key := s.Properties["idempotencyKey"]; key != nil {
			fields += ", key: body.IdempotencyKey"
		}
	}
	g.line("k := call{%s}", fields)
	if len(given) == 0 {
		return
	}
	g.line("q := params{}")
	for _, p := range given {
		if p.In == "header" {
			g.line("if p.%s != \"\" { k.header = http.Header{%q: {p.%s}} }", goName(p.Name), p.Name, goName(p.Name))
			continue
		}
		how := map[string]string{"boolean": "flag", "integer": "number", "string": "text"}[p.Schema.Type[0]]
		if p.Schema.Format == "date-time" {
			how = "time"
		}
		value := "p." + goName(p.Name)
		if how == "number" {
			value = "int64(" + value + ")"
		}
		g.line("q.%s(%q, %s)", how, p.Name, value)
	}
	g.line("k.query = url.Values(q)")
}

// document writes the one call whose answer is read as it is.
func (g *golang) document(op *Operation) {
	g.words(op, "GetOpenAPI")
	g.line("func (c *Client) GetOpenAPI(ctx context.Context, opts ...CallOption) (out json.RawMessage, err error) {")
	g.target(op, nil, nil, "return out, err")
	g.line("err = c.do(ctx, k, &out, opts)\nreturn out, err\n}\n")
}
