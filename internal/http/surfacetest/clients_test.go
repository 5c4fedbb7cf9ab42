package surfacetest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/contract"
)

const (
	goClient = "../../../client/calls.go"
	tsClient = "../../../clients/typescript/src/api.ts"
)

func current(t *testing.T) *contract.Document {
	t.Helper()
	d, err := contract.ParseDocument(organizations.DrawDocument("/v1"))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drawn compares a file with the text from the document, or writes it.
func drawn(t *testing.T, file string, want []byte) {
	t.Helper()
	if os.Getenv("COFFER_UPDATE") == "1" {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the document says (%v): write it with make generate and commit it", file, err)
	}
}

func TestTheGoClientIsDrawnFromTheDocument(t *testing.T) {
	t.Parallel()
	want, err := contract.GenerateGo(current(t), structs(t, "../../../webhook").names())
	if err != nil {
		t.Fatal(err)
	}
	drawn(t, goClient, want)
}

func TestTheTypeScriptClientIsDrawnFromTheDocument(t *testing.T) {
	t.Parallel()
	drawn(t, tsClient, contract.GenerateTypeScript(current(t)))
}

// fields returns the struct types of some folders, with their JSON names.
type fields map[string]map[string]bool

func (f fields) names() map[string]bool {
	out := map[string]bool{}
	for name := range f {
		out[name] = true
	}
	return out
}

func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), dir+"/"+e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

func structs(t *testing.T, dir string) fields {
	t.Helper()
	out := fields{}
	for _, f := range parse(t, dir) {
		for _, decl := range f.Decls {
			d, ok := decl.(*ast.GenDecl)
			if !ok || d.Tok != token.TYPE {
				continue
			}
			for _, spec := range d.Specs {
				s := spec.(*ast.TypeSpec)
				body, ok := s.Type.(*ast.StructType)
				if !ok || !s.Name.IsExported() {
					continue
				}
				out[s.Name.Name] = map[string]bool{}
				for _, field := range body.Fields.List {
					if field.Tag != nil {
						name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(field.Tag.Value, "`")).Get("json"),
							",")
						out[s.Name.Name][name] = true
					}
				}
			}
		}
	}
	return out
}

// The drawing above could leave something out and still be stable. So what a
// caller finds in the client is compared with the document by other means.
// Rule DOC-2.
func TestTheGoClientHasEveryCallAndEveryField(t *testing.T) {
	t.Parallel()
	d := current(t)
	methods := map[string]string{}
	for _, f := range parse(t, "../../../client") {
		for _, decl := range f.Decls {
			if m, ok := decl.(*ast.FuncDecl); ok && m.Recv != nil {
				methods[m.Name.Name] = m.Doc.Text()
			}
		}
	}
	own, shared := structs(t, "../../../client"), structs(t, "../../../webhook")
	for _, op := range d.Operations() {
		name := strings.ToUpper(op.OperationID[:1]) + op.OperationID[1:]
		if text, ok := methods[name]; !ok || !strings.Contains(text, op.Name()) {
			t.Errorf("%s: got no method %s", op.Name(), name)
		}
		for _, p := range op.Parameters {
			if p.In == "path" || p.Name == "Idempotency-Key" {
				continue
			}
			if !named(t, name+"Params", p.Name) {
				t.Errorf("%s: got no parameter %s", op.Name(), p.Name)
			}
		}
	}
	for name, s := range d.Components.Schemas {
		have := own[name]
		switch {
		case name == "Problem":
			have = own["Error"]
		case name == "EmbeddedMint":
			have = shared["Mint"]
		case have == nil:
			have = shared[name]
		}
		for field := range s.Properties {
			if !have[field] {
				t.Errorf("%s.%s: got no field", name, field)
			}
		}
	}
}

// named tells whether a struct of the client has a field for a parameter. Its
// fields have no tags; the spelling in Go is compared without its capitals.
func named(t *testing.T, name, parameter string) bool {
	t.Helper()
	for _, f := range parse(t, "../../../client") {
		o := f.Scope.Lookup(name)
		if o == nil {
			continue
		}
		for _, field := range o.Decl.(*ast.TypeSpec).Type.(*ast.StructType).Fields.List {
			if strings.EqualFold(field.Names[0].Name, strings.ReplaceAll(parameter, "-", "")) {
				return true
			}
		}
	}
	return false
}
