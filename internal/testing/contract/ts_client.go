package contract

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// GenerateTypeScript generates src/api.ts of the TypeScript client: the types, the events and a
// class with a method for every call.
func GenerateTypeScript(d *Document) []byte {
	g := &tsGenerator{Document: d}
	g.writeLine("// Drawn from internal/http/api/openapi.json by make generate. Do not edit.\n")
	g.writeLine("import { type CallOptions, Connection, type Options, each, segment } from \"./http.js\";\n")
	g.writeCodes()
	for _, name := range sortedKeys(d.Components.Schemas) {
		if name != "Problem" {
			g.writeInterface(name, d.Components.Schemas[name])
		}
	}
	g.writeEvents()
	for _, op := range d.Operations() {
		g.writeParams(op)
	}
	g.writeLine(
		"/** One organization's interface. It may be shared: it has no state but its settings. */\nexport class " +
			"Coffer {",
	)
	g.writeLine(
		"  readonly #connection: Connection;\n\n  constructor(options: Options) {\n    this.#connection = new " +
			"Connection(options);\n  }",
	)
	for _, op := range d.Operations() {
		g.writeOperation(op)
	}
	g.writeLine("}")
	return g.out.Bytes()
}

type tsGenerator struct {
	*Document
	out bytes.Buffer
}

func (g *tsGenerator) writeLine(format string, args ...any) {
	fmt.Fprintf(&g.out, format+"\n", args...)
}

func (g *tsGenerator) writeComment(indent, text string) {
	lines := wrapText(strings.ReplaceAll(strings.TrimSpace(text), "*/", "* /"), 96)
	if len(lines) == 1 {
		g.writeLine("%s/** %s */", indent, lines[0])
		return
	}
	g.writeLine("%s/**", indent)
	for _, l := range lines {
		g.writeLine("%s", strings.TrimRight(indent+" * "+l, " "))
	}
	g.writeLine("%s */", indent)
}

func (g *tsGenerator) writeCodes() {
	g.writeComment("", "The codes of refusals. Codes are added without notice.")
	g.writeLine("export type Code =")
	for _, code := range g.Document.refusalCodes() {
		g.writeLine("  | %q", code)
	}
	g.writeLine("  | (string & {});\n")
}

func (g *tsGenerator) writeInterface(name string, s *Schema) {
	g.writeComment("", s.Description)
	g.writeLine("export interface %s {", name)
	for _, field := range sortedKeys(s.Properties) {
		p := s.Properties[field]
		g.writeComment("  ", p.Description)
		mark := "?"
		if slices.Contains(s.Required, field) {
			mark = ""
		}
		g.writeLine("  %s%s: %s;", field, mark, g.tsType(p))
	}
	g.writeLine("}\n")
}

func (g *tsGenerator) tsType(s *Schema) string {
	if inner, isNullable := splitNull(s); isNullable {
		return g.tsType(inner) + " | null"
	}
	if name, _ := g.resolveRef(s); name != "" {
		return name
	}
	switch {
	case len(s.Enum) > 0:
		var values []string
		for _, v := range s.Enum {
			values = append(values, fmt.Sprintf("%q", *v))
		}
		return strings.Join(values, " | ")
	case slices.Equal(s.Type, Types{"string"}):
		return "string"
	case slices.Equal(s.Type, Types{"boolean"}):
		return "boolean"
	case slices.Equal(s.Type, Types{"integer"}):
		return "number"
	case slices.Equal(s.Type, Types{"array"}):
		item := g.tsType(s.Items)
		if strings.Contains(item, " ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case slices.Equal(s.Type, Types{"object"}) && s.Additional != nil && s.Additional.Schema != nil:
		return "Record<string, " + g.tsType(s.Additional.Schema) + ">"
	case slices.Equal(s.Type, Types{"object"}):
		return "Record<string, unknown>"
	}
	panic(fmt.Sprintf("contract: TypeScript has no type for %+v", s))
}

// writeEvents writes the types that a receiver gets: one for the data of each event type.
func (g *tsGenerator) writeEvents() {
	g.writeComment("", "What each type of event carries.")
	g.writeLine("export interface EventData {")
	for _, name := range sortedKeys(g.Webhooks) {
		data := "Record<string, unknown>"
		for _, part := range g.Webhooks[name]["post"].RequestBody.Content["application/json"].Schema.AllOf {
			if p := part.Properties["data"]; p != nil {
				data = g.tsType(p)
			}
		}
		g.writeLine("  %s: %s;", name, data)
	}
	g.writeLine("}\n")
	g.writeComment(
		"",
		"An event, as a webhook and GET /events carry it. Its type says what its data is. Types can be added without "+
			"notice: ignore a type that you do not know.",
	)
	g.writeLine(
		"export type Event = { [T in keyof EventData]: Omit<Envelope, \"type\" | \"data\"> & { type: T; data: " +
			"EventData[T] } }[keyof EventData];\n",
	)
}

// callerParams returns the parameters that callers supply, except those of the path.
func callerParams(op *Operation) []*Parameter {
	return slices.DeleteFunc(
		slices.Clone(op.Parameters), func(p *Parameter) bool { return p.In == "path" || p.Name == "Idempotency-Key" },
	)
}

// camelName returns the name of a header as a member name.
func camelName(name string) string {
	member := goName(name)
	return strings.ToLower(member[:1]) + member[1:]
}

func (g *tsGenerator) writeParams(op *Operation) {
	if len(callerParams(op)) == 0 {
		return
	}
	g.writeComment("", "The parameters of "+op.OperationID+".")
	g.writeLine("export interface %sParams {", goMethod(op))
	for _, p := range callerParams(op) {
		g.writeComment("  ", p.Description)
		kind := g.tsType(p.Schema)
		name := p.Name
		if p.In == "header" {
			name = camelName(p.Name)
		}
		if p.Schema.Format == "date-time" {
			kind = "string | Date"
		}
		g.writeLine("  %s?: %s | undefined;", name, kind)
	}
	g.writeLine("}\n")
}

func (g *tsGenerator) writeOperation(op *Operation) {
	var args, parts []string
	path := op.Path
	for _, p := range op.Parameters {
		if p.In == "path" {
			args = append(args, p.Name+": string")
			path = strings.Replace(path, "{"+p.Name+"}", "${segment(\""+p.Name+"\", "+p.Name+")}", 1)
		}
	}
	parts = append(
		parts, fmt.Sprintf("method: %q", op.Method), "path: `"+path+"`", fmt.Sprintf("repeat: %q", op.Repeat),
	)
	if op.IsOpen() {
		parts = append(parts, "open: true")
	}
	names := slices.Clone(args)
	for i, a := range names {
		names[i], _, _ = strings.Cut(a, ":")
	}
	if s := g.requestBody(op); s != nil {
		if op.RequestBody.Required {
			args = append(args, "body: "+g.tsType(s))
		} else {
			args = append(args, "body: "+g.tsType(s)+" = {}")
		}
		parts = append(parts, "body")
		if _, shape := g.resolveRef(s); shape.Properties["idempotencyKey"] != nil {
			parts = append(parts, "key: body.idempotencyKey")
		}
	}
	if params := callerParams(op); len(params) > 0 {
		args = append(args, "params: "+goMethod(op)+"Params = {}")
		var query []string
		for _, p := range params {
			if p.In == "query" {
				query = append(query, p.Name+": params."+p.Name)
			} else {
				parts = append(
					parts, fmt.Sprintf("headers: { %q: params.%s }", strings.ToLower(p.Name), camelName(p.Name)),
				)
			}
		}
		if len(query) > 0 {
			parts = append(parts, "query: { "+strings.Join(query, ", ")+" }")
		}
	}
	args = append(args, "options: CallOptions = {}")
	_, success := op.Success()
	result := "void"
	if c := success.Content["application/json"]; c != nil {
		result = g.tsType(c.Schema)
	}
	repeatDoc := map[string]string{
		"ALWAYS": "The client repeats the call if no answer comes.",
		"WITH_KEY": "The client repeats the call if no answer comes and it has an idempotencyKey; without one it " +
			"sends the call once.",
		"NEVER": "The client sends the call once.",
	}[op.Repeat]
	g.writeLine("")
	g.writeComment("  ", op.Summary+". "+op.Description+"\n\n"+op.Name()+". "+repeatDoc)
	g.writeLine("  %s(%s): Promise<%s> {", op.OperationID, strings.Join(args, ", "), result)
	g.writeLine("    return this.#connection.call<%s>({ %s }, options);\n  }", result, strings.Join(parts, ", "))
	if item := g.pageItemType(op); item != "" {
		name := walkerName(op)
		g.writeLine("")
		g.writeComment("  ", "Every item of "+op.OperationID+", over all pages.")
		g.writeLine(
			"  %s(%s): AsyncGenerator<%s, void, undefined> {", strings.ToLower(name[:1])+name[1:],
			strings.Join(args, ", "), item,
		)
		g.writeLine(
			"    return each(params.cursor, (cursor) => this.%s(%s));\n  }", op.OperationID,
			strings.Join(append(names, "{ ...params, cursor }", "options"), ", "),
		)
	}
	if success.Content["text/csv"] != nil {
		g.writeLine("")
		g.writeComment(
			"  ",
			"What "+op.OperationID+" has as one table, without limit and cursor. The table is read as it arrives. A "+
				"read error means that the table is not complete.",
		)
		g.writeLine("  %sCSV(%s): Promise<ReadableStream<Uint8Array>> {", op.OperationID, strings.Join(args, ", "))
		g.writeLine("    return this.#connection.stream({ %s }, options);\n  }", strings.Join(parts, ", "))
	}
}

func (g *tsGenerator) pageItemType(op *Operation) string {
	if !slices.ContainsFunc(op.Parameters, func(p *Parameter) bool { return p.Name == "cursor" }) {
		return ""
	}
	_, a := op.Success()
	_, s := g.resolveRef(a.Content["application/json"].Schema)
	if s.Properties["data"] == nil || s.Properties["nextCursor"] == nil {
		return ""
	}
	return g.tsType(s.Properties["data"].Items)
}
