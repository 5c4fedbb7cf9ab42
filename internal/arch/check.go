package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A house is the tables and the sources that they are compared with. The
// tests of the checks put a small house of their own in its place.
type house struct {
	places    []place
	planned   []string
	doors     []door
	importers map[string][]string
	sources   []source
}

func (h house) place(dir string) (place, bool) {
	i := slices.IndexFunc(h.places, func(p place) bool { return p.dir == dir })
	if i < 0 {
		return place{}, false
	}
	return h.places[i], true
}

// complaints gathers what a check found, each one once.
type complaints map[string]bool

func (c complaints) add(format string, args ...any) { c[fmt.Sprintf(format, args...)] = true }

func (c complaints) list() []string { return slices.Sorted(maps.Keys(c)) }

// listed compares the table with the folders.
func (h house) listed() []string {
	c := complaints{}
	have := dirs(h.sources)
	seen := map[string]bool{}
	for _, p := range h.places {
		if seen[p.dir] {
			c.add("%s: stands twice in floors.go", p.dir)
		}
		seen[p.dir] = true
		exists, planned := slices.Contains(have, p.dir), slices.Contains(h.planned, p.dir)
		if !exists && !planned {
			c.add("%s: stands in floors.go and holds no Go code: take the line out", p.dir)
		}
		if exists && planned {
			c.add("%s: exists now: delete its line in planned.txt", p.dir)
		}
	}
	for _, dir := range have {
		if !seen[dir] {
			c.add("%s: is not in floors.go: add a line that says which floor it stands on", dir)
		}
	}
	for _, dir := range h.planned {
		if !seen[dir] {
			c.add("%s: is planned but not in floors.go", dir)
		}
	}
	return c.list()
}

// edges checks every import between packages of the module.
func (h house) edges() []string {
	c := complaints{}
	used := map[door]bool{}
	for _, s := range h.sources {
		from, ok := h.place(s.dir)
		if !ok {
			continue // listed complains
		}
		for _, imp := range s.imports() {
			if imp.dir == "" || imp.dir == s.dir {
				continue
			}
			to, ok := h.place(imp.dir)
			if !ok {
				continue
			}
			why := h.forbidden(from, to, s.test || from.may&testOnly != 0)
			if why == "" {
				continue
			}
			if i := slices.IndexFunc(h.doors, func(d door) bool { return d.from == from.dir && d.to == to.dir }); i >= 0 {
				used[h.doors[i]] = true
				continue
			}
			c.add("%s: imports %s: %s", s.at(imp.spec), to.dir, why)
		}
	}
	for _, d := range h.doors {
		if !used[d] {
			c.add("door from %s to %s: nothing goes through it: take it out of floors.go", d.from, d.to)
		}
		if d.why == "" {
			c.add("door from %s to %s: give the reason", d.from, d.to)
		}
	}
	return c.list()
}

// forbidden says why code of from may not import to, or nothing when it may.
func (h house) forbidden(from, to place, test bool) string {
	if to.may&testOnly != 0 && !test {
		return "it is for tests only"
	}
	if test && (to.may&testOnly != 0 || to.floor == adapters) {
		return "" // a test plugs in what app would
	}
	if !test {
		if only, ok := h.importers[to.dir]; ok && !slices.Contains(only, from.dir) {
			return "only " + strings.Join(only, ", ") + " may import it"
		}
		if to.floor == adapters && from.floor != wiring {
			return "it is an adapter, which only app plugs in"
		}
	}
	switch {
	case to.floor > from.floor:
		return fmt.Sprintf("imports point down, and %v lies above %v", to.floor, from.floor)
	case to.floor == from.floor && !beside[from.floor]:
		return fmt.Sprintf("two packages of the floor %v never meet: declare a small interface and let app wire it", from.floor)
	}
	return ""
}

// floats finds floating point outside the packages that may show it. A
// literal such as 1.5 counts: its default type is float64.
func (h house) floats() []string {
	c := complaints{}
	for _, s := range h.sources {
		if p, _ := h.place(s.dir); s.test || p.may&mayFloat != 0 {
			continue
		}
		calls := map[string]string{}
		for _, imp := range s.imports() {
			calls[imp.name] = imp.path
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.Ident:
				if n.Name == "float64" || n.Name == "float32" {
					c.add("%s: %s: money is counted in whole atomic units", s.at(n), n.Name)
				}
			case *ast.BasicLit:
				if n.Kind == token.FLOAT {
					c.add("%s: %s is a float: money is counted in whole atomic units", s.at(n), n.Value)
				}
			case *ast.SelectorExpr:
				if x, ok := n.X.(*ast.Ident); ok {
					of := calls[x.Name]
					if floating[of+"."+n.Sel.Name] || of == "math" && !wholeLimit.MatchString(n.Sel.Name) {
						c.add("%s: %s.%s is a float: money is counted in whole atomic units", s.at(n), x.Name, n.Sel.Name)
					}
				}
			}
			return true
		})
	}
	return c.list()
}

// wholeLimit is what the package math has for whole numbers.
var wholeLimit = regexp.MustCompile(`^(Max|Min)U?[Ii]nt(8|16|32|64)?$`)

var floating = map[string]bool{
	"math/big.Float": true, "math/big.NewFloat": true, "math/big.ParseFloat": true,
	"strconv.ParseFloat": true, "strconv.FormatFloat": true, "strconv.AppendFloat": true,
}

// http finds net/http on the floors that are driven by more than one surface.
func (h house) http() []string {
	c := complaints{}
	for _, s := range h.sources {
		p, ok := h.place(s.dir)
		if !ok || s.test || httpFloors[p.floor] || p.may&(mayHTTP|testOnly) != 0 {
			continue
		}
		for _, imp := range s.imports() {
			if imp.path == "net/http" || strings.HasPrefix(imp.path, "net/http/") {
				c.add("%s: %s on the floor %v: surfaces and adapters speak HTTP, nothing else does", s.at(imp.spec), imp.path, p.floor)
			}
		}
	}
	return c.list()
}

// keys finds private key material outside the signer. Tests may make
// throw-away keys.
func (h house) keys() []string {
	c := complaints{}
	for _, s := range h.sources {
		if p, _ := h.place(s.dir); s.test || p.may&mayKeys != 0 {
			continue
		}
		calls := map[string]string{}
		for _, imp := range s.imports() {
			calls[imp.name] = imp.path
			for _, bad := range keyPackages {
				if imp.path == bad || strings.HasPrefix(imp.path, bad+"/") {
					c.add("%s: imports %s: private keys live in internal/signer", s.at(imp.spec), imp.path)
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
				c.add("%s: %s.%s: private keys live in internal/signer", s.at(sel), x.Name, sel.Sel.Name)
			}
			return true
		})
	}
	return c.list()
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

var keyCalls = set("github.com/ethereum/go-ethereum/crypto",
	"Sign", "GenerateKey", "HexToECDSA", "ToECDSA", "ToECDSAUnsafe", "LoadECDSA", "SaveECDSA", "FromECDSA").
	and("github.com/ethereum/go-ethereum/core/types", "SignTx", "SignNewTx", "MustSignNewTx", "SignSetCode").
	and("github.com/btcsuite/btcd/txscript/v2", "SignTxOutput", "SignatureScript", "RawTxInSignature",
		"WitnessSignature", "RawTxInWitnessSignature", "TaprootWitnessSignature", "RawTxInTaprootSignature", "RawTxInTapscriptSignature", "TweakTaprootPrivKey").
	and("github.com/ethereum/go-ethereum/accounts/abi/bind", "NewKeyedTransactor", "NewKeyedTransactorWithChainID").
	and("github.com/ethereum/go-ethereum/accounts/abi/bind/v2", "NewKeyedTransactor")

// chainKeyCalls make or use keys of Solana. Webhooks are signed on the same curve, so
// they are looked for where chains are.
var chainKeyCalls = set("crypto/ed25519", "Sign", "NewKeyFromSeed", "GenerateKey")

type names map[string]bool

func set(pkg string, all ...string) names { return names{}.and(pkg, all...) }

func (n names) and(pkg string, all ...string) names {
	for _, name := range all {
		n[pkg+"."+name] = true
	}
	return n
}

// random finds math/rand, whose numbers can be guessed.
func (h house) random() []string {
	c := complaints{}
	for _, s := range h.sources {
		if p, _ := h.place(s.dir); s.test || p.may&(mayRand|testOnly) != 0 {
			continue
		}
		for _, imp := range s.imports() {
			if imp.path == "math/rand" || imp.path == "math/rand/v2" {
				c.add("%s: %s: ids and secrets come from crypto/rand; for jitter give the package mayRand", s.at(imp.spec), imp.path)
			}
		}
	}
	return c.list()
}

// honest finds tests that may pass without having looked: ones that skip,
// and ones that wait for a time instead of a fact.
func (h house) honest() []string {
	c := complaints{}
	for _, s := range h.sources {
		p, _ := h.place(s.dir)
		if !s.test && p.may&testOnly == 0 {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			switch sel.Sel.Name {
			case "Skip", "Skipf", "SkipNow":
				if x, ok := sel.X.(*ast.Ident); ok && (x.Name == "t" || x.Name == "b" || x.Name == "f" || x.Name == "tb") {
					c.add("%s: a test that can't run fails, it does not skip", s.at(sel))
				}
			case "Sleep":
				if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" {
					c.add("%s: wait for the fact with a deadline, not for a time", s.at(sel))
				}
			}
			return true
		})
	}
	return c.list()
}

// reasons finds imports of modules that the page of dependencies does not
// give a reason for.
func (h house) reasons(page string) []string {
	var known []string
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, m := range quoted.FindAllStringSubmatch(cells[1], -1) {
				known = append(known, m[1])
			}
		}
	}
	c := complaints{}
	for _, s := range h.sources {
		for _, imp := range s.imports() {
			host, _, _ := strings.Cut(imp.path, "/")
			if imp.dir != "" || !strings.Contains(host, ".") {
				continue
			}
			name := strings.TrimPrefix(imp.path, "github.com/")
			if !slices.ContainsFunc(known, func(k string) bool { return name == k || strings.HasPrefix(name, k+"/") }) {
				c.add("%s: %s has no line in docs/adr/0002-dependencies.md: give the reason for it", s.at(imp.spec), imp.path)
			}
		}
	}
	return c.list()
}

var quoted = regexp.MustCompile("`([^`]+)`")

// unfinished finds comments that put work off.
func (h house) unfinished() []string {
	c := complaints{}
	for _, s := range h.sources {
		for _, group := range s.file.Comments {
			for _, comment := range group.List {
				if m := putOff.FindString(comment.Text); m != "" && s.dir != "internal/arch" {
					c.add("%s: %s: finish it, or write an issue", s.at(comment), m)
				}
			}
		}
	}
	return c.list()
}

var putOff = regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`)

// writers finds tables that more than one package writes. The one that owns a
// table keeps its invariants; another that needs a change asks it for a verb.
// Tests may write what they need.
func (h house) writers(migrations string) []string {
	tables := map[string]bool{}
	for _, m := range tableMade.FindAllStringSubmatch(migrations, -1) {
		tables[m[1]] = true
	}
	written := map[string]complaints{} // by table, the folders that write it
	for _, s := range h.sources {
		if p, _ := h.place(s.dir); s.test || p.may&testOnly != 0 || s.dir == "migrations" {
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
						written[table] = complaints{}
					}
					written[table].add("%s", s.dir)
				}
			}
			return true
		})
	}
	c := complaints{}
	for table, dirs := range written {
		if len(dirs) > 1 {
			c.add("table %s: written by %s: only the package that owns a table writes it", table, strings.Join(dirs.list(), " and "))
		}
	}
	return c.list()
}

var (
	tableMade    = regexp.MustCompile(`(?i)\bCREATE TABLE (?:IF NOT EXISTS )?([a-z_]+)`)
	tableWritten = regexp.MustCompile(`(?i)\b(?:INSERT\s+INTO|UPDATE|DELETE\s+FROM|MERGE\s+INTO)\s+(?:ONLY\s+)?([a-z_]+)`)
)

// documented finds packages without a package comment.
func (h house) documented() []string {
	c := complaints{}
	has := map[string]bool{}
	for _, s := range h.sources {
		if !s.test && s.file.Doc != nil {
			has[s.dir] = true
		}
	}
	for _, s := range h.sources {
		if !s.test && !has[s.dir] {
			c.add("%s: has no package comment: what it is, what never happens there, what a crash leaves", s.dir)
		}
	}
	return c.list()
}
