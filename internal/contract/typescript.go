package contract

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// TypeScript draws src/api.ts of the TypeScript client: the types, the events
// and a class with a method for every call.
func TypeScript(d *Document) []byte {
	g := &typescript{Document: d}
	g.line("// Drawn from internal/api/openapi.json by make generate. Do not edit.\n")
	g.line("import { type CallOptions, Connection, type Options, each, segment } from \"./http.js\";\n")
	g.codes()
	for _, name := range sorted(d.Components.Schemas) {
		if name != "Problem" {
			g.object(name, d.Components.Schemas[name])
		}
	}
	g.events()
	for _, op := range d.Operations() {
		g.params(op)
	}
	g.line("/** One organization's interface. It may be shared: it has no state but its settings. */\nexport class Coffer {")
	g.line("  readonly #connection: Connection;\n\n  constructor(options: Options) {\n    this.#connection = new Connection(options);\n  }")
	for _, op := range d.Operations() {
		g.operation(op)
	}
	g.line("}")
	return g.out.Bytes()
}

type typescript struct {
	*Document
	out bytes.Buffer
}

func (g *typescript) line(format string, args ...any) { fmt.Fprintf(&g.out, format+"\n", args...) }

func (g *typescript) comment(indent, text string) {
	lines := wrap(strings.ReplaceAll(strings.TrimSpace(text), "*/", "* /"), 96)
	if len(lines) == 1 {
		g.line("%s/** %s */", indent, lines[0])
		return
	}
	g.line("%s/**", indent)
	for _, l := range lines {
		g.line("%s", strings.TrimRight(indent+" * "+l, " "))
	}
	g.line("%s */", indent)
}

func (g *typescript) codes() {
	g.comment("", "The codes of refusals. Codes are added without notice.")
	g.line("export type Code =")
	for _, code := range g.Document.codes() {
		g.line("  | %q", code)
	}
	g.line("  | (string & {});\n")
}

func (g *typescript) object(name string, s *Schema) {
	g.comment("", s.Description)
	g.line("export interface %s {", name)
	for _, field := range sorted(s.Properties) {
		p := s.Properties[field]
		g.comment("  ", p.Description)
		mark := "?"
		if slices.Contains(s.Required, field) {
			mark = ""
		}
		g.line("  %s%s: %s;", field, mark, g.kind(p))
	}
	g.line("}\n")
}

func (g *typescript) kind(s *Schema) string {
	if bare, null := nullable(s); null {
		return g.kind(bare) + " | null"
	}
	if name, _ := g.resolve(s); name != "" {
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
		item := g.kind(s.Items)
		if strings.Contains(item, " ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case slices.Equal(s.Type, Types{"object"}) && s.Additional != nil && s.Additional.Schema != nil:
		return "Record<string, " + g.kind(s.Additional.Schema) + ">"
	case slices.Equal(s.Type, Types{"object"}):
		return "Record<string, unknown>"
	}
	panic(fmt.Sprintf("contract: TypeScript has no type for %+v", s))
}

// events are what a receiver gets: one type for each event, by its type.
func (g *typescript) events() {
	g.comment("", "What each type of event carries.")
	g.line("export interface EventData {")
	for _, name := range sorted(g.Webhooks) {
		data := "Record<string, unknown>"
		for _, part := range g.Webhooks[name]["post"].RequestBody.Content["application/json"].Schema.AllOf {
			if p := part.Properties["data"]; p != nil {
				data = g.kind(p)
			}
		}
		g.line("  %s: %s;", name, data)
	}
	g.line("}\n")
	g.comment("", "An event, as a webhook and GET /events carry it. Its type tells what its data is. Types are added without notice: pass over what you do not know.")
	g.line("export type Event = { [T in keyof EventData]: Omit<Envelope, \"type\" | \"data\"> & { type: T; data: EventData[T] } }[keyof EventData];\n")
}

// given are the parameters that callers give beside those of the path.
func given(op *Operation) []*Parameter {
	return slices.DeleteFunc(slices.Clone(op.Parameters), func(p *Parameter) bool { return p.In == "path" || p.Name == "Idempotency-Key" })
}

// camel is the name of a header as a member.
func camel(name string) string {
	out := goName(name)
	return strings.ToLower(out[:1]) + out[1:]
}

func (g *typescript) params(op *Operation) {
	if len(given(op)) == 0 {
		return
	}
	g.comment("", "The parameters of "+op.OperationID+".")
	g.line("export interface %sParams {", goMethod(op))
	for _, p := range given(op) {
		g.comment("  ", p.Description)
		kind := g.kind(p.Schema)
		name := p.Name
		if p.In == "header" {
			name = camel(p.Name)
		}
		if p.Schema.Format == "date-time" {
			kind = "string | Date"
		}
		g.line("  %s?: %s | undefined;", name, kind)
	}
	g.line("}\n")
}

func (g *typescript) operation(op *Operation) {
	var args, parts []string
	path := op.Path
	for _, p := range op.Parameters {
		if p.In == "path" {
			args = append(args, p.Name+": string")
			path = strings.Replace(path, "{"+p.Name+"}", "${segment(\""+p.Name+"\", "+p.Name+")}", 1)
		}
	}
	parts = append(parts, fmt.Sprintf("method: %q", op.Method), "path: `"+path+"`", fmt.Sprintf("repeat: %q", op.Repeat))
	if op.Open() {
		parts = append(parts, "open: true")
	}
	names := slices.Clone(args)
	for i, a := range names {
		names[i], _, _ = strings.Cut(a, ":")
	}
	if s := g.body(op); s != nil {
		if op.RequestBody.Required {
			args = append(args, "body: "+g.kind(s))
		} else {
			args = append(args, "body: "+g.kind(s)+" = {}")
		}
		parts = append(parts, "body")
		if _, to := g.resolve(s); to.Properties["idempotencyKey"] != nil {
			parts = append(parts, "key: body.idempotencyKey")
		}
	}
	if all := given(op); len(all) > 0 {
		args = append(args, "params: "+goMethod(op)+"Params = {}")
		var query []string
		for _, p := range all {
			if p.In == "query" {
				query = append(query, p.Name+": params."+p.Name)
			} else {
				parts = append(parts, fmt.Sprintf("headers: { %q: params.%s }", strings.ToLower(p.Name), camel(p.Name)))
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
		result = g.kind(c.Schema)
	}
	again := map[string]string{
		"ALWAYS":   "It is repeated when no answer comes.",
		"WITH_KEY": "It is repeated when no answer comes and it has an idempotencyKey; without one it is sent once.",
		"NEVER":    "It is sent once.",
	}[op.Repeat]
	g.line("")
	g.comment("  ", op.Summary+". "+op.Description+"\n\n"+op.Name()+". "+again)
	g.line("  %s(%s): Promise<%s> {", op.OperationID, strings.Join(args, ", "), result)
	g.line("    return this.#connection.call<%s>({ %s }, options);\n  }", result, strings.Join(parts, ", "))
	if item := g.page(op); item != "" {
		name := walker(op)
		g.line("")
		g.comment("  ", "Every item of "+op.OperationID+", page after page.")
		g.line("  %s(%s): AsyncGenerator<%s, void, undefined> {", strings.ToLower(name[:1])+name[1:], strings.Join(args, ", "), item)
		g.line("    return each(params.cursor, (cursor) => this.%s(%s));\n  }", op.OperationID, strings.Join(append(names, "{ ...params, cursor }", "options"), ", "))
	}
	if success.Content["text/csv"] != nil {
		g.line("")
		g.comment("  ", "What "+op.OperationID+" has as one table, without limit and cursor, read while it arrives. An error while reading means that the table is not complete.")
		g.line("  %sCSV(%s): Promise<ReadableStream<Uint8Array>> {", op.OperationID, strings.Join(args, ", "))
		g.line("    return this.#connection.stream({ %s }, options);\n  }", strings.Join(parts, ", "))
	}
}

func (g *typescript) page(op *Operation) string {
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
