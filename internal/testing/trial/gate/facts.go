package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// sourcePackage is a package of the module as go list describes it.
type sourcePackage struct {
	ImportPath   string
	Dir          string
	GoFiles      []string
	TestGoFiles  []string
	XTestGoFiles []string
}

// packageFacts is what the sources of a package say about goroutines and chains.
type packageFacts struct {
	dir string // under the root of the module
	// sharesMemory is true if the package, tests aside, starts goroutines or guards memory that
	// several goroutines share.
	sharesMemory bool
	hasTestFiles bool
	tests        map[string]testFacts
}

// testFacts is what a test does, by itself or by a function of its package's test files.
type testFacts struct{ startsGoroutines, needsChain bool }

// readFacts reads the sources of a package.
func readFacts(p sourcePackage) (packageFacts, error) {
	fset := token.NewFileSet()
	facts := packageFacts{
		dir: shortName(p.ImportPath), hasTestFiles: len(p.TestGoFiles)+len(p.XTestGoFiles) > 0,
	}
	for _, name := range p.GoFiles {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return facts, fmt.Errorf("read the sources of %s: %w", p.ImportPath, err)
		}
		facts.sharesMemory = facts.sharesMemory || sharesMemory(file)
	}
	var files []*ast.File
	for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
		file, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return facts, fmt.Errorf("read the tests of %s: %w", p.ImportPath, err)
		}
		files = append(files, file)
	}
	facts.tests = findTests(files)
	return facts, nil
}

var sharingImports = map[string]bool{"sync": true, "sync/atomic": true, "golang.org/x/sync/errgroup": true}

// sharesMemory reports whether a file starts goroutines, has channels, or imports what guards shared
// memory.
func sharesMemory(file *ast.File) bool {
	for _, spec := range file.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && sharingImports[path] {
			return true
		}
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		found = found || startsGoroutine(n)
		if _, ok := n.(*ast.ChanType); ok {
			found = true
		}
		return !found
	})
	return found
}

// concurrentHelpers are functions of other packages that call what a test gives them at the same
// time.
var concurrentHelpers = map[string]bool{"RaceBehindLock": true, "RunSuite": true}

// startsGoroutine reports whether a node is a go statement, a method Go, as groups have it, or one of
// the concurrentHelpers.
func startsGoroutine(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.GoStmt:
		return true
	case *ast.SelectorExpr:
		return n.Sel.Name == "Go" || concurrentHelpers[n.Sel.Name]
	}
	return false
}

// chainImports are the folders of packages that start a chain, a whole world or the built program.
var chainImports = []string{"internal/localworld", "internal/testing/trial/binary"}

// chainNames returns the names by which a file calls the packages of chainImports.
func chainNames(file *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		for _, dir := range chainImports {
			if imported == modulePath+dir || strings.HasPrefix(imported, modulePath+dir+"/") {
				name := path.Base(imported)
				if spec.Name != nil {
					name = spec.Name.Name
				}
				names[name] = true
			}
		}
	}
	return names
}

var testName = regexp.MustCompile(`^(Test|Fuzz)([^a-z].*)?$`)

// findTests finds the tests in the test files of a package. What a test does is what it does itself
// and what the functions of these files do that it names, and so on. Functions of the same name count
// as one, so a test may be said to do more than it does.
func findTests(files []*ast.File) map[string]testFacts {
	named := map[string]map[string]bool{} // function -> what it names
	facts := map[string]testFacts{}
	tests := map[string]testFacts{}
	for _, file := range files {
		chains := chainNames(file)
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := function.Name.Name
			if function.Recv == nil && testName.MatchString(name) && name != "TestMain" {
				tests[name] = testFacts{}
			}
			if named[name] == nil {
				named[name] = map[string]bool{}
			}
			found := facts[name]
			ast.Inspect(function, func(n ast.Node) bool {
				if ident, ok := n.(*ast.Ident); ok {
					named[name][ident.Name] = true
					found.needsChain = found.needsChain || chains[ident.Name]
				}
				found.startsGoroutines = found.startsGoroutines || startsGoroutine(n)
				return true
			})
			facts[name] = found
		}
	}
	for changed := true; changed; {
		changed = false
		for name, names := range named {
			found := facts[name]
			for callee := range names {
				found.startsGoroutines = found.startsGoroutines || facts[callee].startsGoroutines
				found.needsChain = found.needsChain || facts[callee].needsChain
			}
			if found != facts[name] {
				facts[name], changed = found, true
			}
		}
	}
	for name := range tests {
		tests[name] = facts[name]
	}
	return tests
}
