package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
)

// tree has the tables and the sources that are compared with them. The tests of the checks use a
// small tree of their own.
type tree struct {
	packages   []pkg
	planned    []string
	exceptions []exception
	importers  map[string][]string
	sources    []source
}

// findPackage returns the line of a folder: its own one, or the one of all folders beside it.
func (h tree) findPackage(dir string) (pkg, bool) {
	for _, line := range []string{dir, path.Join(path.Dir(dir), anyName)} {
		if i := slices.IndexFunc(h.packages, func(p pkg) bool { return p.dir == line }); i >= 0 {
			found := h.packages[i]
			found.dir = dir
			return found, true
		}
	}
	return pkg{}, false
}

// violations collects what a check found, each item once.
type violations map[string]bool

func (c violations) addf(format string, args ...any) { c[fmt.Sprintf(format, args...)] = true }

func (c violations) sortedList() []string { return slices.Sorted(maps.Keys(c)) }

// checkListed compares the table with the folders.
func (h tree) checkListed() []string {
	c := violations{}
	existing := sourceDirs(h.sources)
	listed := map[string]bool{}
	for _, p := range h.packages {
		if listed[p.dir] {
			c.addf("%s: stands twice in layers.go", p.dir)
		}
		listed[p.dir] = true
		exists := slices.ContainsFunc(existing, func(dir string) bool {
			return dir == p.dir || path.Join(path.Dir(dir), anyName) == p.dir
		})
		planned := slices.Contains(h.planned, p.dir)
		if !exists && !planned {
			c.addf("%s: stands in layers.go and holds no Go code: take the line out", p.dir)
		}
		if exists && planned {
			c.addf("%s: exists now: delete its line in planned.txt", p.dir)
		}
	}
	for _, dir := range existing {
		if _, ok := h.findPackage(dir); !ok {
			c.addf("%s: is not in layers.go: add a line that names its layer", dir)
		}
	}
	for _, dir := range h.planned {
		if !listed[dir] {
			c.addf("%s: is planned but not in layers.go", dir)
		}
	}
	return c.sortedList()
}

// checkImports checks every import between packages of the module.
func (h tree) checkImports() []string {
	c := violations{}
	used := map[exception]bool{}
	for _, s := range h.sources {
		importer, ok := h.findPackage(s.dir)
		if !ok {
			continue // checkListed reports it
		}
		for _, imp := range s.listImports() {
			if imp.dir == "" || imp.dir == s.dir {
				continue
			}
			target, ok := h.findPackage(imp.dir)
			if !ok {
				continue
			}
			reason := h.explainForbidden(importer, target, s.test || importer.capabilities&testOnly != 0)
			if reason == "" {
				continue
			}
			if i := slices.IndexFunc(
				h.exceptions, func(d exception) bool { return d.from == importer.dir && d.to == target.dir },
			); i >= 0 {
				used[h.exceptions[i]] = true
				continue
			}
			c.addf("%s: imports %s: %s", s.position(imp.spec), target.dir, reason)
		}
	}
	for _, d := range h.exceptions {
		if !used[d] {
			c.addf("exception from %s to %s: no import needs it: take it out of layers.go", d.from, d.to)
		}
		if d.reason == "" {
			c.addf("exception from %s to %s: give the reason", d.from, d.to)
		}
	}
	return c.sortedList()
}

// explainForbidden returns why code of the importer may not import the target, or "" if it may.
func (h tree) explainForbidden(importer, target pkg, test bool) string {
	if target.capabilities&testOnly != 0 && !test {
		return "it is for tests only"
	}
	if test && (target.capabilities&testOnly != 0 || target.layer == adapters || target.dir == "internal/wire") {
		return "" // a test supplies what app and service would
	}
	if !test {
		if allowed, ok := h.importers[target.dir]; ok && !slices.Contains(allowed, importer.dir) {
			return "only " + strings.Join(allowed, ", ") + " may import it"
		}
		if target.layer == adapters && importer.layer != wiring {
			return "it is an adapter, which only app plugs in"
		}
		if target.dir == "webhook" && importer.layer != transport &&
			core <= importer.layer && importer.layer <= reporting {
			return "return a struct of your own: wire turns it into the object that leaves the installation"
		}
	}
	switch {
	case target.layer > importer.layer:
		return fmt.Sprintf("imports point down, and %v lies above %v", target.layer, importer.layer)
	case target.layer == importer.layer && !neighbourImports[importer.layer]:
		return fmt.Sprintf(
			"two packages of the layer %v never meet: declare a small interface and let app wire it", importer.layer,
		)
	}
	return ""
}

// checkFloats finds floating point outside the packages that may use it. A literal such as 1.5
// counts: its default type is float64.
func (h tree) checkFloats() []string {
	c := violations{}
	for _, s := range h.sources {
		if p, _ := h.findPackage(s.dir); s.test || p.capabilities&mayFloat != 0 {
			continue
		}
		calls := map[string]string{}
		for _, imp := range s.listImports() {
			calls[imp.name] = imp.path
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == "float64" || n.Name == "float32" {
					c.addf("%s: %s: money is counted in whole atomic units", s.position(n), n.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT {
					c.addf("%s: %s is a float: money is counted in whole atomic units", s.position(n), n.Value)
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok {
					pkgPath := calls[x.Name]
					if floating[pkgPath+"."+n.Sel.Name] || pkgPath == "math" && !wholeLimit.MatchString(n.Sel.Name) {
						c.addf(
							"%s: %s.%s is a float: money is counted in whole atomic units", s.position(n), x.Name,
							n.Sel.Name,
						)
					}
				}
			}
			return true
		})
	}
	return c.sortedList()
}

// wholeLimit matches the constants of package math for whole numbers.
var wholeLimit = regexp.MustCompile(`^(Max|Min)U?[Ii]nt(8|16|32|64)?$`)

var floating = map[string]bool{
	"math/big.Float": true, "math/big.NewFloat": true, "math/big.ParseFloat": true,
	"strconv.ParseFloat": true, "strconv.FormatFloat": true, "strconv.AppendFloat": true,
}

// checkHTTP finds net/http in the layers that more than one surface uses.
func (h tree) checkHTTP() []string {
	c := violations{}
	for _, s := range h.sources {
		p, ok := h.findPackage(s.dir)
		if !ok || s.test || httpLayers[p.layer] || p.capabilities&(mayHTTP|testOnly) != 0 {
			continue
		}
		for _, imp := range s.listImports() {
			if imp.path == "net/http" || strings.HasPrefix(imp.path, "net/http/") {
				c.addf(
					"%s: %s in the layer %v: surfaces and adapters speak HTTP, nothing else does", s.position(imp.spec),
					imp.path, p.layer,
				)
			}
		}
	}
	return c.sortedList()
}

// surfaceTerm matches what belongs to the words of one surface: calls and headers of the interface,
// commands and flags of the terminal.
var surfaceTerm = regexp.MustCompile(
	`\b(GET|POST|PUT|PATCH|DELETE)\b|\bheader\b|Retry-After|x-[a-z]+-key|coffer [a-z]|--[a-z]`)

// checkFaultTexts finds terms of one surface in the texts of refusals outside the surfaces. A surface
// has its own words for the next step (fault.Words).
func (h tree) checkFaultTexts() []string {
	c := violations{}
	for _, s := range h.sources {
		p, ok := h.findPackage(s.dir)
		if !ok || s.test || httpLayers[p.layer] || p.capabilities&(mayHTTP|testOnly) != 0 {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !isFaultText(call.Fun) {
				return true
			}
			for _, arg := range call.Args {
				ast.Inspect(arg, func(n ast.Node) bool {
					if text, ok := n.(*ast.BasicLit); ok && surfaceTerm.MatchString(text.Value) {
						c.addf("%s: %s has a term of one surface: name the step with WithStep",
							s.position(text), text.Value)
					}
					return true
				})
			}
			return true
		})
	}
	return c.sortedList()
}

// isFaultText reports whether a call takes a text of a refusal.
func isFaultText(fun ast.Expr) bool {
	sel, ok := fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := sel.X.(*ast.Ident)
	return sel.Sel.Name == "WithAdvice" || ok && x.Name == "fault" && sel.Sel.Name == "New"
}

// checkKeys finds private key material outside the signer. Tests may make temporary keys.
func (h tree) checkKeys() []string {
	c := violations{}
	for _, s := range h.sources {
		if p, _ := h.findPackage(s.dir); s.test || p.capabilities&mayKeys != 0 {
			continue
		}
		calls := map[string]string{}
		for _, imp := range s.listImports() {
			calls[imp.name] = imp.path
			for _, bad := range keyPackages {
				if imp.path == bad || strings.HasPrefix(imp.path, bad+"/") {
					c.addf("%s: imports %s: private keys live in internal/signer", s.position(imp.spec), imp.path)
				}
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			x, ok := sel.X.(*ast.Ident)
			if !ok {
				return true
			}
			call := calls[x.Name] + "." + sel.Sel.Name
			if keyCalls[call] || chainKeyCalls[call] && strings.HasPrefix(s.dir, "internal/chain/") {
				c.addf("%s: %s.%s: private keys live in internal/signer", s.position(sel), x.Name, sel.Sel.Name)
			}
			return true
		})
	}
	return c.sortedList()
}

var keyPackages = []string{
	"crypto/ecdsa",
	"github.com/tyler-smith/go-bip39",
	"github.com/btcsuite/btcd/btcutil/hdkeychain",
	"github.com/btcsuite/btcd/btcutil/v2/hdkeychain",
	"github.com/btcsuite/btcutil/hdkeychain",
	"github.com/btcsuite/btcd/btcec",
	"github.com/decred/dcrd/dcrec/secp256k1",
	"github.com/ethereum/go-ethereum/crypto/secp256k1",
	"github.com/ethereum/go-ethereum/accounts/keystore",
}

var keyCalls = newQualifiedNames("github.com/ethereum/go-ethereum/crypto",
	"Sign", "GenerateKey", "HexToECDSA", "ToECDSA", "ToECDSAUnsafe", "LoadECDSA", "SaveECDSA", "FromECDSA").
	addNames("github.com/ethereum/go-ethereum/core/types", "SignTx", "SignNewTx", "MustSignNewTx", "SignSetCode").
	addNames("github.com/btcsuite/btcd/txscript/v2", "SignTxOutput", "SignatureScript", "RawTxInSignature",
		"WitnessSignature", "RawTxInWitnessSignature", "TaprootWitnessSignature", "RawTxInTaprootSignature",
		"RawTxInTapscriptSignature", "TweakTaprootPrivKey").
	addNames(
		"github.com/ethereum/go-ethereum/accounts/abi/bind", "NewKeyedTransactor", "NewKeyedTransactorWithChainID",
	).
	addNames("github.com/ethereum/go-ethereum/accounts/abi/bind/v2", "NewKeyedTransactor")

// chainKeyCalls make or use keys of Solana. Webhooks are signed on the same curve, so the check
// looks for these calls only where chains are.
var chainKeyCalls = newQualifiedNames("crypto/ed25519", "Sign", "NewKeyFromSeed", "GenerateKey")

type qualifiedNames map[string]bool

func newQualifiedNames(pkg string, members ...string) qualifiedNames {
	return qualifiedNames{}.addNames(pkg, members...)
}

func (n qualifiedNames) addNames(pkg string, members ...string) qualifiedNames {
	for _, name := range members {
		n[pkg+"."+name] = true
	}
	return n
}

// checkRandom finds math/rand, whose numbers can be guessed.
func (h tree) checkRandom() []string {
	c := violations{}
	for _, s := range h.sources {
		if p, _ := h.findPackage(s.dir); s.test || p.capabilities&(mayRand|testOnly) != 0 {
			continue
		}
		for _, imp := range s.listImports() {
			if imp.path == "math/rand" || imp.path == "math/rand/v2" {
				c.addf(
					"%s: %s: ids and secrets come from crypto/rand; for jitter give the package mayRand",
					s.position(imp.spec), imp.path,
				)
			}
		}
	}
	return c.sortedList()
}

// checkTests finds tests that may pass without checking anything: tests that skip, and tests that
// wait for a time instead of a condition.
func (h tree) checkTests() []string {
	c := violations{}
	for _, s := range h.sources {
		p, _ := h.findPackage(s.dir)
		if !s.test && p.capabilities&testOnly == 0 {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch sel.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				if x, ok := sel.X.(*ast.Ident); ok &&
					(x.Name == "t" || x.Name == "b" || x.Name == "f" || x.Name == "tb") {
					c.addf("%s: a test that can't run fails, it does not skip", s.position(sel))
				}
			case "Sleep":
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
					c.addf("%s: wait for the fact with a deadline, not for a time", s.position(sel))
				}
			}
			return true
		})
	}
	return c.sortedList()
}

// checkDependencies finds imports of modules for which the page of dependencies gives no reason.
func (h tree) checkDependencies(page string) []string {
	var documented []string
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range backquoted.FindAllStringSubmatch(cells[1], -1) {
				documented = append(documented, m[1])
			}
		}
	}
	c := violations{}
	for _, s := range h.sources {
		for _, imp := range s.listImports() {
			host, _, _ := strings.Cut(imp.path, "/")
			if imp.dir != "" || !strings.Contains(host, ".") {
				continue
			}
			name := strings.TrimPrefix(imp.path, "github.com/")
			if !slices.ContainsFunc(
				documented, func(k string) bool { return name == k || strings.HasPrefix(name, k+"/") },
			) {
				c.addf(
					"%s: %s has no line in docs/adr/0002-dependencies.md: give the reason for it", s.position(imp.spec),
					imp.path,
				)
			}
		}
	}
	return c.sortedList()
}

var backquoted = regexp.MustCompile("`([^`]+)`")

// checkUnfinished finds comments that put work off.
func (h tree) checkUnfinished() []string {
	c := violations{}
	for _, s := range h.sources {
		for _, group := range s.file.Comments {
			for _, comment := range group.List {
				if m := unfinishedMark.FindString(comment.Text); m != "" && s.dir != "internal/testing/arch" {
					c.addf("%s: %s: finish it, or write an issue", s.position(comment), m)
				}
			}
		}
	}
	return c.sortedList()
}

var unfinishedMark = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

// checkTableWriters finds tables that more than one package writes. The one that owns a
// table keeps its invariants; another that needs a change asks it for a verb.
// Tests may write what they need.
func (h tree) checkTableWriters(migrations string) []string {
	tables := map[string]bool{}
	for _, m := range tableMade.FindAllStringSubmatch(migrations, -1) {
		tables[m[1]] = true
	}
	written := map[string]violations{} // by table, the folders that write it
	for _, s := range h.sources {
		if p, _ := h.findPackage(s.dir); s.test || p.capabilities&testOnly != 0 || s.dir == "migrations" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			for _, m := range tableWritten.FindAllStringSubmatch(lit.Value, -1) {
				if table := strings.ToLower(m[1]); tables[table] {
					if written[table] == nil {
						written[table] = violations{}
					}
					written[table].addf("%s", s.dir)
				}
			}
			return true
		})
	}
	c := violations{}
	for table, dirs := range written {
		if len(dirs) > 1 {
			c.addf(
				"table %s: written by %s: only the package that owns a table writes it", table,
				strings.Join(dirs.sortedList(), " and "),
			)
		}
	}
	return c.sortedList()
}

var (
	tableMade    = regexp.MustCompile(`(?i)\bCREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)`)
	tableWritten = regexp.MustCompile(
		`(?i)\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(?:ONLY\s+)?([a-z_]+)`,
	)
)

// checkDocumented finds packages without a package comment.
func (h tree) checkDocumented() []string {
	c := violations{}
	hasDoc := map[string]bool{}
	for _, s := range h.sources {
		if !s.test && s.file.Doc != nil {
			hasDoc[s.dir] = true
		}
	}
	for _, s := range h.sources {
		if !s.test && !hasDoc[s.dir] {
			c.addf("%s: has no package comment: what it is, what never happens there, what a crash leaves", s.dir)
		}
	}
	return c.sortedList()
}
