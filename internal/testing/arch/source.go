package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/cofferpay/coffer"

// source is one parsed Go file. dir is the folder of its package under the module root.
type source struct {
	name string
	dir  string
	test bool
	text string
	fset *token.FileSet
	file *ast.File
}

// position returns the position of node, for a message.
func (s source) position(node ast.Node) string {
	return fmt.Sprintf("%s:%d", s.name, s.fset.Position(node.Pos()).Line)
}

// importSpec is one import line of a source.
type importSpec struct {
	path string // as written
	dir  string // under the module root; "" for a package of another module
	name string // as the file calls it
	spec *ast.ImportSpec
}

func (s source) listImports() []importSpec {
	var found []importSpec
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic("the parser let an unquoted import pass: " + spec.Path.Value)
		}
		i := importSpec{path: p, spec: spec, name: importName(p)}
		if rest, ok := strings.CutPrefix(p, module+"/"); ok {
			i.dir = rest
		}
		if spec.Name != nil {
			i.name = spec.Name.Name
		}
		found = append(found, i)
	}
	return found
}

// importName guesses the name that a package declares from its path. It is
// right for the paths that the checks ask about.
func importName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return strings.TrimPrefix(base, "go-")
}

// loadSources parses every Go file of the module in fsys, regardless of build constraints: a file
// for another system obeys the same rules.
func loadSources(fsys fs.FS) ([]source, error) {
	fset := token.NewFileSet()
	var sources []source
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := path.Base(name)
		if d.IsDir() {
			hidden := name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_"))
			if hidden || base == "node_modules" || base == "testdata" || name == "bin" || name == "tools" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		sources = append(sources, source{
			name: name,
			dir:  path.Dir(name),
			test: strings.HasSuffix(base, "_test.go"),
			text: string(text),
			fset: fset,
			file: file,
		})
		return nil
	})
	return sources, err
}

// sourceDirs lists the folders with Go code, each once, sorted.
func sourceDirs(sources []source) []string {
	var folders []string
	for _, s := range sources {
		folders = append(folders, s.dir)
	}
	slices.Sort(folders)
	return slices.Compact(folders)
}
