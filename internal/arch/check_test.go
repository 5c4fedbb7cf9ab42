package arch

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// small builds a house from file texts, on floors of its own.
func small(t *testing.T, files map[string]string) house {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	sources, err := load(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return house{
		places: []place{
			{"internal/money", words, 0},
			{"internal/pg/pgtest", foundations, testOnly},
			{"internal/deposit", features, 0},
			{"internal/sweep", features, 0},
			{"internal/chain/evm", adapters, 0},
			{"internal/signer", core, mayKeys},
			{"internal/app", wiring, 0},
			{"internal/tool", foundations, 0},
		},
		importers: map[string][]string{"internal/tool": {"internal/app"}},
		sources:   sources,
	}
}

func imports(pkg string, paths ...string) string {
	text := "package " + pkg + "\n"
	for _, p := range paths {
		text += "import _ \"" + p + "\"\n"
	}
	return text
}

// The tests above prove nothing if a check sees nothing: each kind of breach
// is planted once here and has to be found, and what is allowed has to pass.
func TestChecksFindWhatIsPlanted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, file, text string
		check            func(house) []string
		want             string // empty: no complaint
	}{
		{"unlisted", "internal/other/a.go", "package other", house.listed, "is not in floors.go"},
		{"up", "internal/money/a.go", imports("money", module+"/internal/deposit"), house.edges, "imports point down"},
		{"up from a test", "internal/money/a_test.go", imports("money", module+"/internal/deposit"), house.edges, "imports point down"},
		{"down", "internal/deposit/a.go", imports("deposit", module+"/internal/money"), house.edges, ""},
		{"sideways", "internal/deposit/a.go", imports("deposit", module+"/internal/sweep"), house.edges, "never meet"},
		{"sideways in a test", "internal/deposit/a_test.go", imports("deposit_test", module+"/internal/sweep"), house.edges, "never meet"},
		{"adapter in code", "internal/deposit/a.go", imports("deposit", module+"/internal/chain/evm"), house.edges, "only app"},
		{"adapter in a test", "internal/deposit/a_test.go", imports("deposit", module+"/internal/chain/evm"), house.edges, ""},
		{"adapter in app", "internal/app/a.go", imports("app", module+"/internal/chain/evm"), house.edges, ""},
		{"test help in code", "internal/deposit/a.go", imports("deposit", module+"/internal/pg/pgtest"), house.edges, "tests only"},
		{"test help in a test", "internal/deposit/a_test.go", imports("deposit", module+"/internal/pg/pgtest"), house.edges, ""},
		{"reserved", "internal/deposit/a.go", imports("deposit", module+"/internal/tool"), house.edges, "only internal/app"},
		{"reserved in app", "internal/app/a.go", imports("app", module+"/internal/tool"), house.edges, ""},

		{"float type", "internal/money/a.go", "package money\ntype t struct{ x float64 }", house.floats, "float64"},
		{"float conversion", "internal/money/a.go", "package money\nvar x = float32(1)", house.floats, "float32"},
		{"float literal", "internal/money/a.go", "package money\nvar x = 1.5", house.floats, "1.5"},
		{"big float", "internal/money/a.go", "package money\nimport \"math/big\"\nvar x big.Float", house.floats, "big.Float"},
		{"parsed float", "internal/money/a.go", "package money\nimport sc \"strconv\"\nvar x, _ = sc.ParseFloat(\"1\", 64)", house.floats, "ParseFloat"},
		{"inferred float", "internal/money/a.go", "package money\nimport \"math\"\nvar x = math.Sqrt(2)", house.floats, "math.Sqrt"},
		{"limit", "internal/money/a.go", "package money\nimport \"math\"\nconst x = math.MaxInt64", house.floats, ""},
		{"whole", "internal/money/a.go", "package money\nvar x = uint64(15)", house.floats, ""},

		{"http", "internal/deposit/a.go", imports("deposit", "net/http"), house.http, "net/http"},
		{"http below", "internal/deposit/a.go", imports("deposit", "net/http/httputil"), house.http, "net/http/httputil"},
		{"http in an adapter", "internal/chain/evm/a.go", imports("evm", "net/http"), house.http, ""},

		{"ecdsa", "internal/deposit/a.go", imports("deposit", "crypto/ecdsa"), house.keys, "crypto/ecdsa"},
		{"seed words", "internal/app/a.go", imports("app", "github.com/tyler-smith/go-bip39/wordlists"), house.keys, "bip39"},
		{"sign", "internal/chain/evm/a.go", "package evm\nimport \"github.com/ethereum/go-ethereum/crypto\"\nvar _ = crypto.Sign", house.keys, "crypto.Sign"},
		{"sign renamed", "internal/chain/evm/a.go", "package evm\nimport c \"github.com/ethereum/go-ethereum/crypto\"\nvar _ = c.HexToECDSA", house.keys, "c.HexToECDSA"},
		{"hash", "internal/chain/evm/a.go", "package evm\nimport \"github.com/ethereum/go-ethereum/crypto\"\nvar _ = crypto.Keccak256", house.keys, ""},
		{"ed25519 of a chain", "internal/chain/evm/a.go", "package evm\nimport \"crypto/ed25519\"\nvar _ = ed25519.Sign", house.keys, "ed25519.Sign"},
		{"ed25519 verified", "internal/chain/evm/a.go", "package evm\nimport \"crypto/ed25519\"\nvar _ = ed25519.Verify", house.keys, ""},
		{"ed25519 of webhooks", "internal/deposit/a.go", "package deposit\nimport \"crypto/ed25519\"\nvar _ = ed25519.Sign", house.keys, ""},
		{"in the signer", "internal/signer/a.go", imports("signer", "crypto/ecdsa"), house.keys, ""},

		{"rand", "internal/deposit/a.go", imports("deposit", "math/rand/v2"), house.random, "math/rand/v2"},
		{"crypto rand", "internal/deposit/a.go", imports("deposit", "crypto/rand"), house.random, ""},

		{"skip", "internal/money/a_test.go", "package money\nfunc f(t T) { t.Skip() }", house.honest, "does not skip"},
		{"sleep", "internal/money/a_test.go", "package money\nimport \"time\"\nfunc f() { time.Sleep(1) }", house.honest, "deadline"},
		{"sleep in code", "internal/money/a.go", "package money\nimport \"time\"\nfunc f() { time.Sleep(1) }", house.honest, ""},

		{"put off", "internal/money/a.go", "package money\n\n// TO" + "DO later.\nvar x = 1", house.unfinished, "finish it"},

		{"no comment", "internal/money/a.go", "package money", house.documented, "no package comment"},
		{"comment", "internal/money/a.go", "// Package money counts.\npackage money", house.documented, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := small(t, map[string]string{c.file: c.text})
			var got []string
			for _, complaint := range c.check(h) {
				if !strings.Contains(complaint, "holds no Go code") {
					got = append(got, complaint)
				}
			}
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("got %q, want no complaint", got)
				}
				return
			}
			if len(got) == 0 || !strings.Contains(got[0], c.want) {
				t.Errorf("got %q, want one that says %q", got, c.want)
			}
		})
	}
}

func TestChecksFindStaleEntries(t *testing.T) {
	t.Parallel()
	h := small(t, map[string]string{
		"internal/money/a.go":   "package money",
		"internal/deposit/a.go": imports("deposit", module+"/internal/sweep"),
	})
	h.planned = []string{"internal/money", "internal/chain/evm", "internal/nowhere"}
	h.doors = []door{
		{"internal/deposit", "internal/sweep", "planted"},
		{"internal/deposit", "internal/app", "stale"},
	}
	got := slices.Concat(h.listed(), h.edges())
	for _, want := range []string{
		"internal/money: exists now",
		"internal/nowhere: is planned but not in floors.go",
		"internal/sweep: stands in floors.go and holds no Go code",
		"door from internal/deposit to internal/app: nothing goes through it",
	} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("got %q, want one that says %q", got, want)
		}
	}
	for _, complaint := range got {
		if strings.Contains(complaint, "chain/evm") || strings.Contains(complaint, "never meet") {
			t.Errorf("got %q, want a planned package and an open door to pass", complaint)
		}
	}
}

func TestDependenciesNeedAReason(t *testing.T) {
	t.Parallel()
	h := small(t, map[string]string{
		"internal/money/a.go": imports("money", "fmt", module+"/internal/fault", "github.com/a/b/v2/c", "example.org/x/y", "github.com/a/bc"),
	})
	got := h.reasons("| Module | Reason |\n|---|---|\n| `a/b`, `example.org/x` | for `a/bc` |\n")
	if len(got) != 1 || !strings.Contains(got[0], "github.com/a/bc has no line") {
		t.Errorf("got %q, want one about github.com/a/bc", got)
	}
}

func TestTablesHaveOneWriter(t *testing.T) {
	t.Parallel()
	h := small(t, map[string]string{
		"internal/deposit/a.go":      "package deposit\nconst a = `INSERT INTO deposits (x)`\nconst b = `SELECT 1 FROM sweeps FOR UPDATE`",
		"internal/sweep/a.go":        "package sweep\nconst a = `update\n\tdeposits SET x = 1`\nconst b = `DELETE FROM sweeps`",
		"internal/deposit/a_test.go": "package deposit\nconst c = `DELETE FROM sweeps`",
	})
	got := h.writers("CREATE TABLE deposits (\n);\nCREATE TABLE sweeps (")
	want := []string{"table deposits: written by internal/deposit and internal/sweep: only the package that owns a table writes it"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCitationsAreCheckedBothWays(t *testing.T) {
	t.Parallel()
	h := small(t, map[string]string{
		"internal/deposit/a.go":      "package deposit\n\n// Rule DEP-1. An ERC-20 token.\nvar x = 1",
		"internal/deposit/a_test.go": "package deposit\n\n// Rules DEP-2 and DEP-9 hold.\nvar y = \"DEP-3\"\n\n// Rule DPE-2.\nvar z = 1",
	})
	got := h.citations("# Rules\n\n## DEP-1 a\n- **DEP-2** b, see DEP-7\n| DEP-3 | c |\n")
	want := []string{
		"docs/rules.md: DEP-1: no test names it",
		"internal/deposit/a_test.go:3: names rule DEP-9, which docs/rules.md does not have",
		"internal/deposit/a_test.go:6: names rule DPE-2, which docs/rules.md does not have",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
