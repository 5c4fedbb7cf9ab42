package arch

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// newSmallTree builds a tree from file texts, with layers of its own.
func newSmallTree(t *testing.T, files map[string]string) tree {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	sources, err := loadSources(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tree{
		packages: []pkg{
			{"internal/money", words, 0},
			{"internal/platform/pg/pgtest", foundations, testOnly},
			{"webhook", public, 0},
			{"internal/deposit", features, 0},
			{"internal/sweep", features, 0},
			{"internal/chain/evm", adapters, 0},
			{"internal/price/" + anyName, adapters, 0},
			{"internal/price/pricetest", adapters, testOnly},
			{"internal/signer", core, mayKeys},
			{"internal/wire", reporting, 0},
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
		check            func(tree) []string
		want             string // empty: no complaint
	}{
		{"unlisted", "internal/other/a.go", "package other", tree.checkListed, "is not in layers.go"},
		{"unlisted beside others", "internal/price/a.go", "package price", tree.checkListed, "is not in layers.go"},
		{"unlisted below others", "internal/price/a/b/a.go", "package b", tree.checkListed, "is not in layers.go"},
		{"one of many", "internal/price/a/a.go", "package a", tree.checkListed, ""},
		{
			"one of many in code", "internal/deposit/a.go", imports("deposit", module+"/internal/price/a"),
			tree.checkImports, "only app",
		},
		{"one of many in app", "internal/app/a.go", imports("app", module+"/internal/price/a"), tree.checkImports, ""},
		{
			"its own line first", "internal/app/a.go", imports("app", module+"/internal/price/pricetest"),
			tree.checkImports, "tests only",
		},
		{"up", "internal/money/a.go", imports("money", module+"/internal/deposit"), tree.checkImports, "imports point down"},
		{"up from a test", "internal/money/a_test.go", imports("money", module+"/internal/deposit"), tree.checkImports, "imports point down"},
		{"down", "internal/deposit/a.go", imports("deposit", module+"/internal/money"), tree.checkImports, ""},
		{"sideways", "internal/deposit/a.go", imports("deposit", module+"/internal/sweep"), tree.checkImports, "never meet"},
		{"sideways in a test", "internal/deposit/a_test.go", imports("deposit_test", module+"/internal/sweep"), tree.checkImports, "never meet"},
		{"adapter in code", "internal/deposit/a.go", imports("deposit", module+"/internal/chain/evm"), tree.checkImports, "only app"},
		{"adapter in a test", "internal/deposit/a_test.go", imports("deposit", module+"/internal/chain/evm"), tree.checkImports, ""},
		{"adapter in app", "internal/app/a.go", imports("app", module+"/internal/chain/evm"), tree.checkImports, ""},
		{"test help in code", "internal/deposit/a.go", imports("deposit", module+"/internal/platform/pg/pgtest"), tree.checkImports, "tests only"},
		{"test help in a test", "internal/deposit/a_test.go", imports("deposit", module+"/internal/platform/pg/pgtest"), tree.checkImports, ""},
		{
			"objects in a feature", "internal/deposit/a.go", imports("deposit", module+"/webhook"),
			tree.checkImports, "wire turns it",
		},
		{
			"objects in a test", "internal/deposit/a_test.go", imports("deposit", module+"/webhook"),
			tree.checkImports, "",
		},
		{
			"encoders in a feature", "internal/deposit/a.go", imports("deposit", module+"/internal/wire"),
			tree.checkImports, "imports point down",
		},
		{
			"encoders in a test", "internal/deposit/a_test.go", imports("deposit", module+"/internal/wire"),
			tree.checkImports, "",
		},
		{"objects in app", "internal/app/a.go", imports("app", module+"/webhook"), tree.checkImports, ""},
		{"reserved", "internal/deposit/a.go", imports("deposit", module+"/internal/tool"), tree.checkImports, "only internal/app"},
		{"reserved in app", "internal/app/a.go", imports("app", module+"/internal/tool"), tree.checkImports, ""},

		{"float type", "internal/money/a.go", "package money\ntype t struct{ x float64 }", tree.checkFloats, "float64"},
		{"float conversion", "internal/money/a.go", "package money\nvar x = float32(1)", tree.checkFloats, "float32"},
		{"float literal", "internal/money/a.go", "package money\nvar x = 1.5", tree.checkFloats, "1.5"},
		{"big float", "internal/money/a.go", "package money\nimport \"math/big\"\nvar x big.Float", tree.checkFloats, "big.Float"},
		{"parsed float", "internal/money/a.go", "package money\nimport sc \"strconv\"\nvar x, _ = sc.ParseFloat(\"1\", 64)", tree.checkFloats, "ParseFloat"},
		{"inferred float", "internal/money/a.go", "package money\nimport \"math\"\nvar x = math.Sqrt(2)", tree.checkFloats, "math.Sqrt"},
		{"limit", "internal/money/a.go", "package money\nimport \"math\"\nconst x = math.MaxInt64", tree.checkFloats, ""},
		{"whole", "internal/money/a.go", "package money\nvar x = uint64(15)", tree.checkFloats, ""},

		{
			"a call in a fault", "internal/deposit/a.go",
			"package deposit\nvar x = fault.New(1, \"C\", 1, \"It is late. GET /deposits lists them.\")",
			tree.checkFaultTexts, "name the step",
		},
		{
			"a command in advice", "internal/deposit/a.go",
			"package deposit\nvar x = f().WithAdvice(\"Run `coffer deposits list`.\")",
			tree.checkFaultTexts, "name the step",
		},
		{
			"a call in the words of a surface", "internal/http/api/a.go",
			"package api\nvar x = f().WithAdvice(\"GET /deposits lists them.\")", tree.checkFaultTexts, "",
		},
		{
			"a fault of the domain", "internal/deposit/a.go",
			"package deposit\nvar x = fault.New(1, \"C\", 1, \"It is late.\").WithAdvice(\"Wait.\")",
			tree.checkFaultTexts, "",
		},
		{"http", "internal/deposit/a.go", imports("deposit", "net/http"), tree.checkHTTP, "net/http"},
		{"http below", "internal/deposit/a.go", imports("deposit", "net/http/httputil"), tree.checkHTTP, "net/http/httputil"},
		{"http in an adapter", "internal/chain/evm/a.go", imports("evm", "net/http"), tree.checkHTTP, ""},

		{"ecdsa", "internal/deposit/a.go", imports("deposit", "crypto/ecdsa"), tree.checkKeys, "crypto/ecdsa"},
		{"seed words", "internal/app/a.go", imports("app", "github.com/tyler-smith/go-bip39/wordlists"), tree.checkKeys, "bip39"},
		{"sign", "internal/chain/evm/a.go", "package evm\nimport \"github.com/ethereum/go-ethereum/crypto\"\nvar _ = crypto.Sign", tree.checkKeys, "crypto.Sign"},
		{"sign renamed", "internal/chain/evm/a.go", "package evm\nimport c \"github.com/ethereum/go-ethereum/crypto\"\nvar _ = c.HexToECDSA", tree.checkKeys, "c.HexToECDSA"},
		{"hash", "internal/chain/evm/a.go", "package evm\nimport \"github.com/ethereum/go-ethereum/crypto\"\nvar _ = crypto.Keccak256", tree.checkKeys, ""},
		{"ed25519 of a chain", "internal/chain/evm/a.go", "package evm\nimport \"crypto/ed25519\"\nvar _ = ed25519.Sign", tree.checkKeys, "ed25519.Sign"},
		{"ed25519 verified", "internal/chain/evm/a.go", "package evm\nimport \"crypto/ed25519\"\nvar _ = ed25519.Verify", tree.checkKeys, ""},
		{"ed25519 of webhooks", "internal/deposit/a.go", "package deposit\nimport \"crypto/ed25519\"\nvar _ = ed25519.Sign", tree.checkKeys, ""},
		{"in the signer", "internal/signer/a.go", imports("signer", "crypto/ecdsa"), tree.checkKeys, ""},

		{"rand", "internal/deposit/a.go", imports("deposit", "math/rand/v2"), tree.checkRandom, "math/rand/v2"},
		{"crypto rand", "internal/deposit/a.go", imports("deposit", "crypto/rand"), tree.checkRandom, ""},

		{"skip", "internal/money/a_test.go", "package money\nfunc f(t T) { t.Skip() }", tree.checkTests, "does not skip"},
		{"sleep", "internal/money/a_test.go", "package money\nimport \"time\"\nfunc f() { time.Sleep(1) }", tree.checkTests, "deadline"},
		{"sleep in code", "internal/money/a.go", "package money\nimport \"time\"\nfunc f() { time.Sleep(1) }", tree.checkTests, ""},

		{"put off", "internal/money/a.go", "package money\n\n// TO" + "DO later.\nvar x = 1", tree.checkUnfinished, "finish it"},

		{"no comment", "internal/money/a.go", "package money", tree.checkDocumented, "no package comment"},
		{"comment", "internal/money/a.go", "// Package money counts.\npackage money", tree.checkDocumented, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newSmallTree(t, map[string]string{c.file: c.text})
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
	h := newSmallTree(t, map[string]string{
		"internal/money/a.go":   "package money",
		"internal/deposit/a.go": imports("deposit", module+"/internal/sweep"),
	})
	h.planned = []string{"internal/money", "internal/chain/evm", "internal/nowhere"}
	h.exceptions = []exception{
		{"internal/deposit", "internal/sweep", "planted"},
		{"internal/deposit", "internal/app", "stale"},
	}
	got := slices.Concat(h.checkListed(), h.checkImports())
	for _, want := range []string{
		"internal/money: exists now",
		"internal/nowhere: is planned but not in layers.go",
		"internal/sweep: stands in layers.go and holds no Go code",
		"exception from internal/deposit to internal/app: no import needs it",
	} {
		if !slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("got %q, want one that says %q", got, want)
		}
	}
	for _, complaint := range got {
		if strings.Contains(complaint, "chain/evm") || strings.Contains(complaint, "never meet") {
			t.Errorf("got %q, want a planned package and an exception to pass", complaint)
		}
	}
}

func TestDependenciesNeedAReason(t *testing.T) {
	t.Parallel()
	h := newSmallTree(t, map[string]string{
		"internal/money/a.go": imports("money", "fmt", module+"/internal/fault", "github.com/a/b/v2/c", "example.org/x/y", "github.com/a/bc"),
	})
	got := h.checkDependencies("| Module | Reason |\n|---|---|\n| `a/b`, `example.org/x` | for `a/bc` |\n")
	if len(got) != 1 || !strings.Contains(got[0], "github.com/a/bc has no line") {
		t.Errorf("got %q, want one about github.com/a/bc", got)
	}
}

func TestTablesHaveOneWriter(t *testing.T) {
	t.Parallel()
	h := newSmallTree(t, map[string]string{
		"internal/deposit/a.go":      "package deposit\nconst a = `INSERT INTO deposits (x)`\nconst b = `SELECT 1 FROM sweeps FOR UPDATE`",
		"internal/sweep/a.go":        "package sweep\nconst a = `update\n\tdeposits SET x = 1`\nconst b = `DELETE FROM sweeps`",
		"internal/deposit/a_test.go": "package deposit\nconst c = `DELETE FROM sweeps`",
	})
	got := h.checkTableWriters("CREATE TABLE deposits (\n);\nCREATE TABLE sweeps (")
	want := []string{"table deposits: written by internal/deposit and internal/sweep: only the package that owns a table writes it"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCitationsAreCheckedBothWays(t *testing.T) {
	t.Parallel()
	h := newSmallTree(t, map[string]string{
		"internal/deposit/a.go": "package deposit\n\n// Rule DEP-1. An ERC-20 token, AGE-DEP-2.\n" +
			"const x = \"DEP-4 is no comment\"\n\n// DEP-8\nvar v = 1",
		"internal/platform/pg/pgtest/a.go": "package pgtest\n\n// Rule DEP-4.\nvar y = 1",
		"internal/deposit/a_test.go": "package deposit\n\n// Rules DEP-2, DEP-4 and DEP-9 hold.\nvar y = \"DEP-3\"\n" +
			"\n// Rule DPE-2.\nvar z = 1",
	})
	schema := map[string]string{"schema/a.sql": "SELECT 'DEP-4';\n-- Rule DEP-3, and DEP-7.\n"}
	uncited := []uncitedRule{
		{"DEP-1", "it is cited"}, {"DEP-2", "a page keeps it"}, {"DEP-6", "it is gone"}, {"DEP-5", ""},
	}
	page := "# Rules\n\n## DEP-1 a\n- **DEP-2** b, see DEP-7\n| DEP-3 | c |\n| DEP-4 | d |\n| DEP-5 | e |\n"
	got := h.checkRules(page, schema, uncited)
	want := []string{
		"docs/rules.md: DEP-1: no test names it",
		"docs/rules.md: DEP-4: no code cites it where it is kept",
		"docs/rules.md: DEP-5: no test names it",
		"internal/deposit/a.go:6: names rule DEP-8, which docs/rules.md does not have",
		"internal/deposit/a_test.go:3: names rule DEP-9, which docs/rules.md does not have",
		"internal/deposit/a_test.go:6: names rule DPE-2, which docs/rules.md does not have",
		"schema/a.sql:2: names rule DEP-7, which docs/rules.md does not have",
		"uncitedRules: DEP-5: give the reason",
		"uncitedRules: DEP-6 is not in docs/rules.md: take it out",
		"uncitedRules: code cites DEP-1: take it out",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := h.checkRules("", nil, nil); !slices.Contains(got, "docs/rules.md: defines no rule") {
		t.Errorf("got %q, want the complaint about an empty page", got)
	}
}

// spell writes "decision" for "@" and "docs/" for "~", so that the tests of the repository do
// not find what is planted here.
func spell(text string) string {
	return strings.NewReplacer("@", "decision", "~", "docs/").Replace(text)
}

func spellAll(texts []string) []string {
	for i, text := range texts {
		texts[i] = spell(text)
	}
	return texts
}

// shelf builds a library from file names and texts that spell has to write out.
func shelf(t *testing.T, files map[string]string) library {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[spell(name)] = &fstest.MapFile{Data: []byte(spell(text))}
	}
	l, err := loadTexts(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCitedDecisionsAreComparedWithTheTable(t *testing.T) {
	t.Parallel()
	l := shelf(t, map[string]string{
		"~design/README.md": "| Number | Page |\n|---|---|\n" +
			"| 0002 | [a](../adr/0002-a.md) |\n| 0003 | [b](b.md#c), [b](b.md) |\n| 0001 | [b](b.md#c) |\n| 0004 | gone |\n",
		"a.go":              "package a\n\n// As @ 0001 says. And @\n// 0005 does.\n",
		"b.sql":             "-- @s 0002, 0006 and\n-- 0007\n",
		"c.toml":            "# see ~@s/0002-a.md; see Decision 0008\n",
		"d.md":              "[0003](../@s/0003-b.md), 0009\n",
		"node_modules/e.md": "@ 0010\n",
		"internal/x.bin":    "@ 0011\x00",
		"testdata/f.txt":    "12 @s 00012, @ 0001\n",
		"~runbooks/g.txt":   "@ 0013",
		"~@s/0014-h.md":     "# H\n",
	})
	got := l.citedDecisions()
	want := spellAll([]string{
		"a.go:3: cites @ 0005, which is not in the table of ~design/README.md",
		"b.sql:1: cites @ 0006, which is not in the table of ~design/README.md",
		"b.sql:1: cites @ 0007, which is not in the table of ~design/README.md",
		"c.toml:1: cites @ 0008, which is not in the table of ~design/README.md",
		"c.toml:1: ~@s is no page any more: name the page in ~design or ~adr, or cite the number",
		"d.md:1: ](../@s/0003-b.md) is no page any more: name the page in ~design or ~adr, or cite the number",
		"~@s/0014-h.md: @s stand in ~design and ~adr",
		"~design/README.md:4: 0003 names b.md without a heading",
		"~design/README.md:5: 0001 does not follow 0003: the table is sorted, and each number is in it once",
		"~design/README.md:6: 0004 names no page",
		"~runbooks/g.txt:1: cites @ 0013, which is not in the table of ~design/README.md",
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (library{}).citedDecisions(); len(got) != 1 || !strings.Contains(got[0], "has no table") {
		t.Errorf("without a table: got %q, want a complaint about it", got)
	}
}

func TestLinksAreFollowed(t *testing.T) {
	t.Parallel()
	l := shelf(t, map[string]string{
		"~design/README.md": "[a](a.md)\n",
		"~design/a.md":      "# Who `pays`, and when?\n\n## Twice\n\n## Twice\n\n```sh\n# no heading\n```\n[x](#twice-1) [y](#twice-2) [z](https://example.org/a.md) [in](../../internal)\n",
		"~design/b.md":      "[a](a.md#who-pays-and-when) [b](a.md#no-heading) [c](../adr/c.md) [d](../../gone)\n",
		"~adr/README.md":    "none\n",
		"~adr/c.md":         "# C\n",
		"internal/a.go":     "package a\n\n// See ~design/a.md#twice, ~design/a.md#thrice and ~howto/z.md.\n",
		"~design/note.txt":  "[no](link.md)\n",
	})
	got := l.links()
	want := spellAll([]string{
		"~adr/c.md: is not linked in ~adr/README.md",
		"~design/a.md:10: #twice-2 leads nowhere: ~design/a.md has no heading twice-2",
		"~design/b.md: is not linked in ~design/README.md",
		"~design/b.md:1: ../../gone leads nowhere: there is no gone",
		"~design/b.md:1: a.md#no-heading leads nowhere: ~design/a.md has no heading no-heading",
		"internal/a.go:3: ~design/a.md#thrice leads nowhere: ~design/a.md has no heading thrice",
		"internal/a.go:3: ~howto/z.md leads nowhere: there is no ~howto/z.md",
	})
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNamesWithRetiredWordsAreFound(t *testing.T) {
	t.Parallel()
	h := newSmallTree(t, map[string]string{
		"internal/money/a.go": `package money

type Rest struct{ RestWallet, restore, inRest, unrest int }

func (rest Rest) Pay(restOf int) (HTTPRest, fillSlot, slotFill int) {
	for lastREST := range 3 {
		rest2, rest := lastREST, 1
	}
}`,
		"internal/money/a_test.go": "package money\nvar rest = 1",
		"internal/money/made.go":   "// Code generated by a tool. DO NOT EDIT.\npackage money\nvar rest = 1",
	})
	page := "# Glossary\n\n## Chains\n\n**Change.** What the inputs have\nabove the payments. " +
		"*Source:* Bitcoin\nCore. *Avoid:* rest, fill slot.\n"
	got := h.checkGlossary(page, []allowedWord{
		{"rest", "internal/money", "rest", "the remainder"},
		{"rest", "internal/deposit", "", "stale"},
		{"rest", "", "inRest", ""},
	})
	want := []string{
		`"rest" in  inRest: give the reason`,
		`"rest" in internal/deposit : no name needs it: remove it from allowedWords`,
	}
	for _, name := range []string{"3: Rest", "3: RestWallet", "5: HTTPRest", "5: restOf", "6: lastREST"} {
		want = append(want, "internal/money/a.go:"+name+`: the glossary retires "rest": the term is Change`)
	}
	want = append(want, `internal/money/a.go:5: fillSlot: the glossary retires "fill slot": the term is Change`)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTheGlossaryIsInForm(t *testing.T) {
	t.Parallel()
	_, got := parseGlossary(strings.Join([]string{
		"## A",
		"**Slot.** It is one. *Source:* own term. *Avoid:* nonce.",
		"**Nonce.** It counts. *Source:* Ethereum.",
		"## B",
		"**Anchor.** It holds.",
		"**Nonce.** It is. It counts. *Source:* Solana.",
		"**nonce.** It counts. *Source:* Solana.",
	}, "\n\n"))
	want := []string{
		`docs/glossary.md: "**Anchor.** It holds." is no term with a sentence and its source`,
		`docs/glossary.md: "**Nonce.** It is. It counts. *Source:* Solana." is no term with a sentence and its source`,
		"docs/glossary.md: Nonce stands after slot: the terms of a section are sorted",
		"docs/glossary.md: Slot retires nonce, which is a term",
		"docs/glossary.md: nonce is defined twice",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, got := parseGlossary("# Glossary\n"); len(got) != 1 || !strings.Contains(got[0], "defines no term") {
		t.Errorf("without a term: got %q, want a complaint about it", got)
	}
}

func TestRatchetsCountWhatIsPlanted(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", 115)
	h := newSmallTree(t, map[string]string{
		"internal/money/a.go": `package money

type Of interface{ At(until int) }

func (i item) pay(a, from, of int, now, before, after, out int) (ok bool) {
	of, is := 1, 2
	is = 3
	for again, why := range of {
		var during int
	}
}

func move(from, to int) {}

var into, office = 1, 2`,
		"internal/money/b.go": "package money\n//\t" + long[2:] + "\n//\t" + long + "\n",
		"internal/money/c_test.go": "package money\n\nvar of = 1 // Nobody waits for\n// ever, " + long +
			" whoever asks\nvar nobodys = `somebody`\n",
		"internal/money/made.go": "// Code generated by a tool. DO NOT EDIT.\npackage money\nvar of = 1 // " + long,
		"internal/money/tag.go": "package money\n\ntype coin struct {\n\tA int `json:\"a\" doc:\"" + long + "\"`\n" +
			"\tB int `json:\"b\"` // " + long + "\n}\n\nvar C = `" + long + "\"`\n",
		"internal/testing/arch/a.go": "package arch // nobody",
	})
	l := shelf(t, map[string]string{
		"schema/a.sql": "-- anybody; for ever\n-- forever, a body\n",
		"schema/b.sql": "-- somebody\n",
		"~c.md":        "nobody\n",
	})
	want := map[string]tally{
		"small_words.txt": {
			"internal/money/a.go Of": 1, "internal/money/a.go At": 1, "internal/money/a.go until": 1,
			"internal/money/a.go from": 1, "internal/money/a.go of": 2, "internal/money/a.go is": 1,
			"internal/money/a.go again": 1, "internal/money/a.go why": 1, "internal/money/a.go during": 1,
			"internal/money/a.go into": 1,
		},
		"long_lines.txt": {
			"internal/money/b.go": 1, "internal/money/c_test.go": 1, "internal/money/tag.go": 2,
		},
		"vague_words.txt": {"internal/money": 4, "schema": 3},
	}
	for _, r := range ratchets {
		if got := r.count(h, l); !maps.Equal(got, want[r.name]) {
			t.Errorf("%s: got %v, want %v", r.name, got, want[r.name])
		}
	}
}

func TestRatchetsOnlyAllowWhatIsListed(t *testing.T) {
	t.Parallel()
	listed, err := parseTally(tally{"same": 2, "grown": 1, "fallen": 3, "gone with words": 1}.format())
	if err != nil {
		t.Fatal(err)
	}
	r := ratchet{name: "x.txt", rule: "do better"}
	got := r.compare(listed, tally{"same": 2, "grown": 2, "fallen": 1, "new": 1})
	want := []string{
		"fallen: got 1, testdata/x.txt lists 3: lower the number",
		"gone with words: got none, testdata/x.txt lists 1: remove the line",
		"grown: got 2, testdata/x.txt allows 1: do better",
		"new: got 1, testdata/x.txt allows 0: do better",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, line := range []string{"alone", "a b", "a 1x"} {
		if _, err := parseTally(line); err == nil {
			t.Errorf("%q: got no error, want one", line)
		}
	}
}
