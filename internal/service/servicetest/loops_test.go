package servicetest

import (
	"crypto/ed25519"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/sim"
	"github.com/cofferpay/coffer/internal/platform/pg/pgtest"
	"github.com/cofferpay/coffer/internal/platform/seal"
	"github.com/cofferpay/coffer/internal/service"
	"github.com/cofferpay/coffer/webhook"
)

const internalPath = "github.com/cofferpay/coffer/internal/"

// allLoops returns every loop of a service on one chain.
func allLoops(t *testing.T) []service.Loop {
	t.Helper()
	ch := sim.New(sim.Config{}).ToChain()
	s := service.New(service.Config{}, service.Parts{
		DB: pgtest.New(t), AttestKey: make([]byte, ed25519.PublicKeySize), Chains: chain.Chains{ch.Name: ch},
		Seal: &seal.Keyset{}, WebhookKeys: []webhook.Key{{}}, Log: slog.New(slog.DiscardHandler),
	})
	return slices.Concat(s.ScanLoops(), s.DispatchLoops(), s.WorkerLoops(), []service.Loop{s.JournalLoop()})
}

// runMethod returns the method that a loop runs, such as sweep.(*Sweeper).Run, with the folder of
// its package under internal.
func runMethod(l service.Loop) (dir, method string) {
	name := runtime.FuncForPC(reflect.ValueOf(l.Run).Pointer()).Name()
	name = strings.TrimSuffix(strings.TrimPrefix(name, internalPath), "-fm")
	dir, _, _ = strings.Cut(name, ".(")
	return dir, name
}

// parseDir parses the Go files of a folder under internal, without tests.
func parseDir(t *testing.T, dir string) (files []*ast.File) {
	t.Helper()
	names, err := fs.Glob(os.DirFS("../.."), path.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), "../../"+name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// mentions reports whether a package selects a name, as in ch.Consolidator or chain.Tracer.
func mentions(t *testing.T, dir, name string) (found bool) {
	t.Helper()
	for _, f := range parseDir(t, dir) {
		ast.Inspect(f, func(n ast.Node) bool {
			s, ok := n.(*ast.SelectorExpr)
			found = found || ok && s.Sel.Name == name
			return true
		})
	}
	return found
}

// A capability that no line names would be offered, and no test would ask for its loop.
func TestEveryCapabilityOfAChainIsListed(t *testing.T) {
	t.Parallel()
	listed := func(name string) bool {
		return slices.ContainsFunc(Capabilities, func(c Capability) bool { return c.Name == name })
	}
	required := []string{"Reader", "Sender", "AddressCodec"}
	fields := map[string]string{} // name of the field's type -> field
	for f := range reflect.TypeFor[chain.Chain]().Fields() {
		if kind := f.Type.Kind(); kind != reflect.Interface && kind != reflect.Slice {
			continue
		}
		fields[f.Type.Name()] = f.Name
		if !slices.Contains(required, f.Name) && !listed(f.Name) {
			t.Errorf("chain.Chain.%s: got no line, want it in Capabilities with the loops that use it", f.Name)
		}
	}
	for _, file := range parseDir(t, "chain") {
		for name, object := range file.Scope.Objects {
			spec, ok := object.Decl.(*ast.TypeSpec)
			if !ok || fields[name] != "" {
				continue
			}
			if _, ok := spec.Type.(*ast.InterfaceType); ok && !listed(name) {
				t.Errorf("chain.%s: got no line, want it in Capabilities with the loops that use it", name)
			}
		}
	}
}

// The lines name loops of the service, and every package of a loop that mentions a capability has a
// loop in its line.
func TestTheLoopsUseTheCapabilitiesOfTheirLines(t *testing.T) {
	t.Parallel()
	packages := map[string][]string{} // loop -> the packages that work in it
	for _, l := range allLoops(t) {
		dir, _ := runMethod(l)
		packages[l.Name] = append(packages[l.Name], dir)
	}
	packages["scan"] = append(packages["scan"], "deposit") // which listens to the walks
	for _, c := range Capabilities {
		working := map[string]bool{}
		for _, loop := range c.Loops {
			if packages[loop] == nil {
				t.Errorf("%s: got the loop %q, which the service does not have", c.Name, loop)
			}
			used := false
			for _, dir := range packages[loop] {
				working[dir] = true
				used = used || mentions(t, dir, c.Name)
			}
			if !used {
				t.Errorf("%s: got the loop %q, whose packages %v do not mention it", c.Name, loop, packages[loop])
			}
		}
		for _, dir := range []string{"scan", "dispatch", "deposit", "sweep"} {
			if mentions(t, dir, c.Name) && !working[dir] {
				t.Errorf("%s: got the loops %q, want one of %s, which uses it", c.Name, c.Loops, dir)
			}
		}
	}
}

// runByApp names the loops that serve pages, which a service without pages does not have. Their calls
// stand in the file of app.
var runByApp = map[string]string{"control/audit.(*Follower).Run": "../../app/dashboard.go"}

// Every method that runs until its context ends is a loop of the service, or of app.
func TestTheServiceHasEveryLoopOfTheCode(t *testing.T) {
	t.Parallel()
	var built []string
	for _, l := range allLoops(t) {
		_, method := runMethod(l)
		built = append(built, method)
	}
	found := 0
	for _, dir := range []string{
		"control/audit", "control/whitelist", "deposit", "dispatch", "journal", "ledger", "platform/jobs", "risk",
		"scan", "sweep", "transfer", "verify", "wallet", "webhooks/delivery", "webhooks/event", "withdrawal",
	} {
		for _, f := range parseDir(t, dir) {
			for _, d := range f.Decls {
				method := loopMethod(d)
				if method == "" {
					continue
				}
				found++
				full := dir + "." + method
				if file := runByApp[full]; file != "" {
					source, err := os.ReadFile(file)
					if err != nil || !strings.Contains(string(source), "service.Loop{") {
						t.Errorf("%s: got no loop in %s (%v), want it run there", full, file, err)
					}
					continue
				}
				if !slices.Contains(built, full) {
					t.Errorf("%s: got it in no loop of the service, want it in internal/service/loops.go", full)
				}
			}
		}
	}
	if found < 12 {
		t.Errorf("got %d methods, want the loops of the service among them", found)
	}
}

// loopMethod returns the name of a method that takes a context alone, returns an error alone and is
// named Run; else "". RunPass does one pass of a loop.
func loopMethod(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil || !strings.HasPrefix(f.Name.Name, "Run") || f.Name.Name == "RunPass" ||
		len(f.Type.Params.List) != 1 || len(f.Type.Results.List) != 1 {
		return ""
	}
	if result, ok := f.Type.Results.List[0].Type.(*ast.Ident); !ok || result.Name != "error" {
		return ""
	}
	receiver, ok := f.Recv.List[0].Type.(*ast.StarExpr)
	if !ok {
		return ""
	}
	return "(*" + receiver.X.(*ast.Ident).Name + ")." + f.Name.Name
}
