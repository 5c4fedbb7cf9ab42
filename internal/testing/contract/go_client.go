package contract

import (
	"bytes"
	"fmt"
	"go/format"
	"slices"
	"strings"
)

// GenerateGo generates the calls and types of package client. shared are the types of package
// webhook, which the client uses as well.
func GenerateGo(d *Document, shared map[string]bool) ([]byte, error) {
	g := &goGenerator{Document: d, shared: shared}
	g.writeLine("// Code generated from internal/http/api/openapi.json by make generate. DO NOT EDIT.\n\n" +
		"package client\n")
	g.writeLine(
		"import (\n\"context\"\n\"encoding/json\"\n\"errors\"\n\"io\"\n\"iter\"\n\"net/http\"\n\"net/url\"\n\"strconv\"\n\"time\"\n\n\"github.com/cofferpay/coffer/webhook\"\n)\n",
	)
	g.writeCodes()
	g.writeTypes()
	for _, op := range d.Operations() {
		if op.OperationID == "getOpenAPI" {
			g.writeDocumentCall(op)
			continue
		}
		g.writeOperation(op)
	}
	text := g.out.String()
	for _, imported := range []string{
		"context", "encoding/json", "errors", "io", "iter", "net/http", "net/url", "strconv", "time",
	} {
		short := imported[strings.LastIndex(imported, "/")+1:]
		if !strings.Contains(text, short+".") {
			text = strings.Replace(text, "\""+imported+"\"\n", "", 1)
		}
	}
	formatted, err := format.Source([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("format the Go client: %w", err)
	}
	return formatted, nil
}

type goGenerator struct {
	*Document
	shared map[string]bool
	out    bytes.Buffer
}

func (g *goGenerator) writeLine(format string, args ...any) {
	fmt.Fprintf(&g.out, format+"\n", args...)
}

// writeComment writes a text as a comment that begins with a name, as Go expects.
func (g *goGenerator) writeComment(name, text string) {
	text = strings.TrimSpace(strings.ReplaceAll(text, "`", ""))
	if name != "" {
		text = name + ": " + text
	}
	for _, line := range wrapText(text, 84) {
		g.writeLine("// %s", line)
	}
}

func wrapText(text string, width int) []string {
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
	"id": "ID", "ids": "IDs", "url": "URL", "uri": "URI", "usd": "USD", "api": "API", "caip": "CAIP", "caip2": "CAIP2",
	"ip": "IP", "json": "JSON", "csv": "CSV",
}

// goName returns the name of a field or code in Go: mintId is MintID, and INVALID_JSON is
// InvalidJSON.
func goName(name string) string {
	var words []string
	if name == strings.ToUpper(name) || strings.ContainsAny(name, "_-") {
		words = strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == '_' || r == '-' })
	} else {
		start := 0
		for i := 1; i < len(name); i++ {
			if name[i] >= 'A' && name[i] <= 'Z' && (name[i-1] < 'A' || name[i-1] > 'Z') {
				words = append(words, strings.ToLower(name[start:i]))
				start = i
			}
		}
		words = append(words, strings.ToLower(name[start:]))
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

// goMethod returns the name of an operation's method, which preserves its own capitals.
func goMethod(op *Operation) string {
	return strings.ToUpper(op.OperationID[:1]) + op.OperationID[1:]
}

// argName returns the name of an argument.
func argName(p *Parameter) string { return p.Name[:1] + goName(p.Name)[1:] }

func (g *goGenerator) writeCodes() {
	g.writeLine("// The codes of refusals. Codes are added without notice.\nconst (")
	for _, code := range g.Document.refusalCodes() {
		g.writeLine("%s Code = %q", goName(code), code)
	}
	g.writeLine(")\n")
}

// isHandWritten reports whether a type is written by hand.
func isHandWritten(name string) bool { return name == "Problem" }

func (g *goGenerator) writeTypes() {
	sentSchemas := g.sentSchemas()
	var aliases []string
	for _, name := range sortedKeys(g.Components.Schemas) {
		if typeName := g.sharedType(name); typeName != "" {
			aliases = append(aliases, fmt.Sprintf("%s = webhook.%s", name, typeName))
		}
	}
	g.writeLine("// What webhooks carry too.\ntype (")
	for _, a := range aliases {
		g.writeLine("%s", a)
	}
	g.writeLine(")\n")
	for _, name := range sortedKeys(g.Components.Schemas) {
		s := g.Components.Schemas[name]
		if isHandWritten(name) {
			continue
		}
		if g.sharedType(name) == "" {
			patch, request := sentSchemas[name]
			g.writeComment(name, s.Description)
			if len(s.Properties) == 0 {
				g.writeLine("type %s struct{}\n", name)
				continue
			}
			g.writeLine("type %s struct {", name)
			for _, field := range sortedKeys(s.Properties) {
				g.writeField(s, field, request, patch)
			}
			g.writeLine("}\n")
		}
		if _, request := sentSchemas[name]; !request {
			g.writeValues(name, s)
		}
	}
}

// sharedType returns the type of package webhook from which a schema is generated, or "".
func (g *goGenerator) sharedType(name string) string {
	switch {
	case name == "EmbeddedMint":
		return "Mint"
	case name != "Mint" && g.shared[name]:
		return name
	}
	return ""
}

func (g *goGenerator) writeField(s *Schema, field string, request, patch bool) {
	p := s.Properties[field]
	kind, tag := g.goType(p), field
	if !slices.Contains(s.Required, field) {
		switch inner, isNullable := splitNull(p); {
		case request && patch:
			tag += ",omitzero"
			kind = pointerTo(kind)
		case request:
			// Zero values are omitted: a caller that wants none sends none. Where null is accepted
			// and false or 0 differ from it, the three are distinguished.
			tag += ",omitzero"
			name, _ := g.resolveRef(inner)
			isDistinct := isNullable &&
				(slices.Contains(inner.Type, "boolean") || slices.Contains(inner.Type, "integer"))
			if kind = g.goType(inner); name != "" || isDistinct {
				kind = pointerTo(kind)
			}
		case !isNullable:
			tag += ",omitempty"
			kind = pointerTo(kind)
		default:
			tag += ",omitempty"
		}
	}
	g.writeComment("", p.Description)
	g.writeLine("%s %s `json:%q`", goName(field), kind, tag)
}

func pointerTo(kind string) string {
	if strings.HasPrefix(kind, "*") || strings.HasPrefix(kind, "map[") || strings.HasPrefix(kind, "[]") ||
		kind == "json.RawMessage" {
		return kind
	}
	return "*" + kind
}

// goType returns the Go type of a value.
func (g *goGenerator) goType(s *Schema) string {
	if inner, isNullable := splitNull(s); isNullable {
		return pointerTo(g.goType(inner))
	}
	if name, _ := g.resolveRef(s); name != "" {
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
		return "[]" + g.goType(s.Items)
	case slices.Equal(s.Type, Types{"object"}) && s.Additional != nil && s.Additional.Schema != nil:
		return "map[string]" + g.goType(s.Additional.Schema)
	case slices.Equal(s.Type, Types{"object"}):
		return "json.RawMessage"
	}
	panic(fmt.Sprintf("contract: Go has no type for %+v", s))
}

// writeValues writes names for the values of closed enumerations in answers.
func (g *goGenerator) writeValues(name string, s *Schema) {
	for _, field := range sortedKeys(s.Properties) {
		p, _ := splitNull(s.Properties[field])
		if p.Items != nil {
			p = p.Items
		}
		if len(p.Enum) < 2 || strings.HasSuffix(name, "WithSecret") {
			continue
		}
		g.writeLine("// The values of %s.%s.\nconst (", name, goName(field))
		for _, v := range p.Enum {
			if v != nil {
				g.writeLine("%s%s%s = %q", name, goName(field), goName(*v), *v)
			}
		}
		g.writeLine(")\n")
	}
}

// pageItemType returns the type of a page's items, or "" if the type is no page.
func (g *goGenerator) pageItemType(op *Operation) string {
	if !slices.ContainsFunc(op.Parameters, func(p *Parameter) bool { return p.Name == "cursor" }) {
		return ""
	}
	_, a := op.Success()
	_, s := g.resolveRef(a.Content["application/json"].Schema)
	if s.Properties["data"] == nil || s.Properties["nextCursor"] == nil {
		return ""
	}
	return g.goType(s.Properties["data"].Items)
}

// walkerName returns the name of the method that walks all pages: Deposits for listDeposits.
func walkerName(op *Operation) string {
	if suffix, ok := strings.CutPrefix(op.OperationID, "list"); ok {
		return suffix
	}
	return "All" + goMethod(op)
}

func (g *goGenerator) writeOperation(op *Operation) {
	method := goMethod(op)
	var inPath, params []*Parameter
	for _, p := range op.Parameters {
		switch {
		case p.In == "path":
			inPath = append(inPath, p)
		case p.Name != "Idempotency-Key": // its field in the body says the same
			params = append(params, p)
		}
	}
	args, callArgs := "ctx context.Context", "ctx"
	for _, p := range inPath {
		args += ", " + argName(p) + map[bool]string{true: " int", false: " string"}[p.Name == "mintId"]
		callArgs += ", " + argName(p)
	}
	if body := g.requestBody(op); body != nil {
		args += ", body " + g.goType(body)
	}
	if len(params) > 0 {
		g.writeLine(
			"// %sParams are the parameters of %s. Zero values are not sent.\ntype %sParams struct {", method, method,
			method,
		)
		for _, p := range params {
			g.writeComment("", p.Description)
			kind := map[string]string{"boolean": "*bool", "integer": "int64", "string": "string"}[p.Schema.Type[0]]
			switch {
			case p.Schema.Format == "date-time":
				kind = "time.Time"
			case p.Name == "mintId" || p.Name == "limit":
				kind = "int"
			}
			g.writeLine("%s %s", goName(p.Name), kind)
		}
		g.writeLine("}\n")
		args += ", p " + method + "Params"
	}

	_, success := op.Success()
	result := ""
	if c := success.Content["application/json"]; c != nil {
		result = g.goType(c.Schema)
	}
	g.writeDoc(op, method)
	returns := "error"
	if result != "" {
		returns = fmt.Sprintf("(out %s, err error)", result)
	}
	g.writeLine("func (c *Client) %s(%s, opts ...CallOption) %s {", method, args, returns)
	failure := "return err"
	if result != "" {
		failure = "return out, err"
	}
	g.writeRequest(op, inPath, params, failure)
	if result != "" {
		g.writeLine("err = c.do(ctx, k, &out, opts)\nreturn out, err\n}\n")
	} else {
		g.writeLine("return c.do(ctx, k, nil, opts)\n}\n")
	}
	if item := g.pageItemType(op); item != "" {
		name := walkerName(op)
		g.writeComment(name, fmt.Sprintf("every item of %s, over all pages.", method))
		g.writeLine("func (c *Client) %s(%s, opts ...CallOption) iter.Seq2[%s, error] {", name, args, item)
		g.writeLine(
			"return each(ctx, p.Cursor, func(ctx context.Context, cursor string) ([]%s, *string, error) {\np.Cursor = cursor",
			item,
		)
		g.writeLine(
			"page, err := c.%s(%s, p, opts...)\nreturn page.Data, page.NextCursor, err\n})\n}\n", method, callArgs,
		)
	}
	if success.Content["text/csv"] != nil {
		g.writeComment(
			method+"CSV",
			fmt.Sprintf(
				"everything that %s has as one table, without limit and cursor. The table is read as it arrives; the "+
					"caller closes it. A read error means that the table is not complete.",
				method,
			),
		)
		g.writeLine("func (c *Client) %sCSV(%s, opts ...CallOption) (out io.ReadCloser, err error) {", method, args)
		g.writeRequest(op, inPath, params, "return out, err")
		g.writeLine("return c.stream(ctx, k, opts)\n}\n")
	}
}

func (g *goGenerator) writeDoc(op *Operation, method string) {
	g.writeComment(method, op.Summary+". "+op.Description)
	g.writeLine("//")
	repeatDoc := map[string]string{
		"ALWAYS": "The client repeats the call if no answer comes.",
		"WITH_KEY": "The client repeats the call if no answer comes and it has an IdempotencyKey; without one it " +
			"sends the call once.",
		"NEVER": "The client sends the call once.",
	}[op.Repeat]
	if repeatDoc == "" {
		panic("contract: " + op.Name() + " does not say whether it may be repeated")
	}
	g.writeLine("// %s. %s", op.Name(), repeatDoc)
}

// writeRequest writes the code that makes the request.
func (g *goGenerator) writeRequest(op *Operation, inPath, params []*Parameter, failure string) {
	path := fmt.Sprintf("%q", op.Path)
	for _, p := range inPath {
		part := argName(p) + "Part"
		if p.Name == "mintId" {
			part = "strconv.Itoa(mintID)"
		} else {
			g.writeLine("%s, err := segment(%q, %s)\nif err != nil { %s }", part, p.Name, argName(p), failure)
		}
		before, after, _ := strings.Cut(path, "{"+p.Name+"}")
		path = before + `" + ` + part + ` + "` + after
	}
	path = strings.TrimSuffix(path, ` + ""`)
	fields := fmt.Sprintf(
		"method: %q, path: %s, repeat: %s", op.Method, path,
		map[string]string{"ALWAYS": "always", "WITH_KEY": "withKey", "NEVER": "never"}[op.Repeat],
	)
	if op.IsOpen() {
		fields += ", open: true"
	}
	if body := g.requestBody(op); body != nil {
		fields += ", body: body"
		_, s := g.resolveRef(body)
		if key := s.Properties["idempotencyKey"]; key != nil {
			fields += ", key: body.IdempotencyKey"
		}
	}
	g.writeLine("k := call{%s}", fields)
	if len(params) == 0 {
		return
	}
	g.writeLine("q := params{}")
	for _, p := range params {
		if p.In == "header" {
			g.writeLine(
				"if p.%s != \"\" { k.header = http.Header{%q: {p.%s}} }", goName(p.Name), p.Name, goName(p.Name),
			)
			continue
		}
		setter := map[string]string{"boolean": "flag", "integer": "number", "string": "text"}[p.Schema.Type[0]]
		if p.Schema.Format == "date-time" {
			setter = "time"
		}
		value := "p." + goName(p.Name)
		if setter == "number" {
			value = "int64(" + value + ")"
		}
		g.writeLine("q.%s(%q, %s)", setter, p.Name, value)
	}
	g.writeLine("k.query = url.Values(q)")
}

// writeDocumentCall writes the one call whose answer is returned undecoded.
func (g *goGenerator) writeDocumentCall(op *Operation) {
	g.writeDoc(op, "GetOpenAPI")
	g.writeLine(
		"func (c *Client) GetOpenAPI(ctx context.Context, opts ...CallOption) (out json.RawMessage, err error) {",
	)
	g.writeRequest(op, nil, nil, "return out, err")
	g.writeLine("err = c.do(ctx, k, &out, opts)\nreturn out, err\n}\n")
}
