package surfacetest

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"github.com/cofferpay/coffer/internal/http/kernel"
)

func TestDocumentIsValid(t *testing.T) {
	t.Parallel()
	for face, read := range published {
		if _, err := read(); err != nil {
			t.Errorf("%s: got %v, want it valid", face.Title, err)
		}
	}
}

func TestDocumentIsFrozen(t *testing.T) {
	t.Parallel()
	for face := range published {
		first := face.DrawDocument("http://127.0.0.1/v1")
		for range 5 {
			if !bytes.Equal(first, face.DrawDocument("http://127.0.0.1/v1")) {
				t.Fatalf("%s: got other bytes the second time", face.Title)
			}
		}
	}
}

// A change of the interface shows in the review of the change: a removed field or a stricter check
// needs another version.
func TestDocumentIsTheCommittedOne(t *testing.T) {
	t.Parallel()
	for file, face := range map[string]*kernel.Surface{
		"../api/openapi.json": organizations, "../operatorapi/openapi.json": operators,
	} {
		want := append(face.DrawDocument("/v1"), '\n')
		if os.Getenv("COFFER_UPDATE") == "1" {
			if err := os.WriteFile(file, want, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		got, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf(
				"%s is not what the routes say (%v): look whether clients would break, then write it with COFFER_UPDATE=1 and commit it",
				file, err,
			)
		}
	}
}

func TestDocumentSaysWhatEverythingIs(t *testing.T) {
	t.Parallel()
	for face, read := range published {
		t.Run(face.Title, func(t *testing.T) {
			t.Parallel()
			doc, err := read()
			if err != nil {
				t.Fatal(err)
			}
			saysWhatEverythingIs(t, doc)
		})
	}
}

func saysWhatEverythingIs(t *testing.T, doc *openapi3.T) {
	t.Helper()
	for name, schema := range doc.Components.Schemas {
		if schema.Value.Description == "" {
			t.Errorf("schema %s: got no description", name)
		}
		for field, p := range schema.Value.Properties {
			if p.Value.Description == "" {
				t.Errorf("%s.%s: got no description", name, field)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for _, p := range op.Parameters {
				if p.Value.Description == "" {
					t.Errorf("%s %s, parameter %s: got no description", method, path, p.Value.Name)
				}
			}
			if op.Summary == "" || op.Description == "" || op.OperationID == "" {
				t.Errorf("%s %s: got no words", method, path)
			}
		}
	}
}

// A text by type and name changes nothing if no type of this name has the field.
func TestDocumentUsesEveryText(t *testing.T) {
	t.Parallel()
	used := map[string]bool{}
	for face, read := range published {
		doc, err := read()
		if err != nil {
			t.Fatalf("%s: %v", face.Title, err)
		}
		for name, schema := range doc.Components.Schemas {
			for field := range schema.Value.Properties {
				used[name+"."+field] = true
			}
		}
	}
	for face := range published {
		for key := range face.FieldDocs {
			if strings.Contains(key, ".") && !used[key] {
				t.Errorf("%s: got a text for %s, which no type has", face.Title, key)
			}
		}
	}
}

// An example that does not fit its own schema misleads its readers.
func TestExamplesFit(t *testing.T) {
	t.Parallel()
	for face, read := range published {
		t.Run(face.Title, func(t *testing.T) {
			t.Parallel()
			doc, err := read()
			if err != nil {
				t.Fatal(err)
			}
			examplesFit(t, doc)
		})
	}
}

func examplesFit(t *testing.T, doc *openapi3.T) {
	t.Helper()
	fits := func(where string, m *openapi3.MediaType) {
		if m == nil {
			return
		}
		values := []any{}
		if m.Example != nil {
			values = append(values, m.Example)
		}
		for _, e := range m.Examples {
			values = append(values, e.Value.Value)
		}
		for _, v := range values {
			if err := m.Schema.Value.VisitJSON(v, openapi3.EnableJSONSchema2020()); err != nil {
				t.Errorf("%s: got an example that does not fit: %v", where, err)
			}
		}
	}
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			if op.RequestBody != nil {
				fits(method+" "+path, op.RequestBody.Value.Content["application/json"])
			}
			for status, r := range op.Responses.Map() {
				fits(method+" "+path+" "+status, r.Value.Content["application/json"])
			}
		}
	}
}

// Every code that a route names has its description, and every route its own status.
func TestEveryRefusalIsDescribed(t *testing.T) {
	t.Parallel()
	for face := range published {
		for _, r := range face.Routes {
			for _, code := range face.FaultCodes(r) {
				if p := face.Problems[code]; p.Text == "" || p.Example == "" {
					t.Errorf("%s %s: got no words for %s", r.Method, r.Path, code)
				}
			}
			if len(r.Answers) == 0 || !slices.ContainsFunc(
				face.Groups, func(g kernel.Group) bool { return g.Name == r.Group },
			) {
				t.Errorf("%s %s: got no answer or no group", r.Method, r.Path)
			}
		}
	}
}
