package arch

import (
	"go/ast"
	"go/token"
	"strings"
	"unicode"
)

// declaredNames returns the names that a node declares: of types, functions, methods, fields,
// parameters, results, constants, variables and locals.
func declaredNames(root ast.Node) []*ast.Ident {
	var names []*ast.Ident
	define := func(tok token.Token, targets ...ast.Expr) {
		for _, target := range targets {
			if name, ok := target.(*ast.Ident); ok && tok == token.DEFINE {
				names = append(names, name)
			}
		}
	}
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			names = append(names, n.Name)
		case *ast.TypeSpec:
			names = append(names, n.Name)
		case *ast.Field:
			names = append(names, n.Names...)
		case *ast.ValueSpec:
			names = append(names, n.Names...)
		case *ast.AssignStmt:
			define(n.Tok, n.Lhs...)
		case *ast.RangeStmt:
			define(n.Tok, n.Key, n.Value)
		}
		return true
	})
	return names
}

// hasCheckedNames reports whether names in the file are checked. Names of tests are sentences, and
// a generator takes its names from elsewhere.
func (s source) hasCheckedNames() bool { return !s.test && !ast.IsGenerated(s.file) }

// splitName returns the words of a camelCase name in lower case.
func splitName(name string) []string {
	letters := []rune(name)
	isUpper := func(i int) bool { return i < len(letters) && unicode.IsUpper(letters[i]) }
	isLower := func(i int) bool { return i < len(letters) && unicode.IsLower(letters[i]) }
	var words []string
	start := 0
	for i := 1; i <= len(letters); i++ {
		if i == len(letters) || letters[i] == '_' || isUpper(i) && (!isUpper(i-1) || isLower(i+1)) {
			words = append(words, strings.ToLower(strings.Trim(string(letters[start:i]), "_")))
			start = i
		}
	}
	return words
}

// smallWords are prepositions, pronouns, auxiliaries, conjunctions, adverbs and the like. As the
// name of a variable, such a word tells a reader nothing. After, before, now and out are names that
// the field uses; from and to are allowed together.
var smallWords = wordSet(`
	about above across again against all along also am among an and another any are around as at
	back be because been behind being below beneath beside between beyond both but by can could
	did do does done down due during each either else every except few for from further gone had
	has have he her here hers him his how if in inside into is it its itself just least less like
	many may me might mine more most much must my near neither never next no none nor not nothing
	of off often on once one only onto or other others our ours outside over own past per rather
	same several shall she should since so some still such than that the their theirs them then
	there these they this those though through till to together too toward two under until up upon
	us very via was we were what when where whether which while who whom whose why will with
	within without would yes yet you your given kept known met said seen told`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// countSmallWords counts by file and name.
func countSmallWords(h tree, _ library) tally {
	found := tally{}
	for _, s := range h.sources {
		if !s.hasCheckedNames() {
			continue
		}
		for _, d := range s.file.Decls {
			names := declaredNames(d)
			declared := map[string]bool{}
			for _, name := range names {
				declared[strings.ToLower(name.Name)] = true
			}
			isPair := declared["from"] && declared["to"]
			for _, name := range names {
				word := strings.ToLower(name.Name)
				if smallWords[word] && !(isPair && (word == "from" || word == "to")) {
					found[s.name+" "+name.Name]++
				}
			}
		}
	}
	return found
}
