package identity

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// declaredActions returns the constants of type Action, by name.
func declaredActions(t *testing.T) map[string]Action {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "permission.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	actions := map[string]Action{}
	for _, d := range file.Decls {
		group, ok := d.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, s := range group.Specs {
			v := s.(*ast.ValueSpec)
			if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "Action" {
				actions[v.Names[0].Name] = Action(strings.Trim(v.Values[0].(*ast.BasicLit).Value, `"`))
			}
		}
	}
	return actions
}

// usedNames returns the names of this package that the code of other packages uses, except tests.
func usedNames(t *testing.T) map[string]bool {
	t.Helper()
	used := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			strings.HasPrefix(path, filepath.Join("..", "testing")) {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if p, ok := s.X.(*ast.Ident); ok && p.Name == "identity" {
					used[s.Sel.Name] = true
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// The table has every action once, with a caller who may take it and a rule that says so, and other
// packages ask for each. Rules KEY-2, WD-56, OW-7, DEP-55, OP-9, OP-12.
func TestEveryActionHasOneRowAUseAndARule(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "rules.md"))
	if err != nil {
		t.Fatal(err)
	}
	actions, used, seen := declaredActions(t), usedNames(t), map[Action]bool{}
	for name, action := range actions {
		if seen[action] {
			t.Errorf("%s: another action has the text %q", name, action)
		}
		seen[action] = true
		row, ok := permissions[action]
		if !ok {
			t.Errorf("%s has no row, so no caller may do it", name)
			continue
		}
		if !used[name] {
			t.Errorf("%s: no code asks for it", name)
		}
		if row.Key == "" && len(row.Roles) == 0 && !row.Operator && !row.Terminal {
			t.Errorf("%s: the row lets no caller do it", name)
		}
		if row.Key != "" && row.Key != ScopeMainKey && !slices.Contains(Scopes, row.Key) {
			t.Errorf("%s: %q is the scope of no key", name, row.Key)
		}
		if row.SecondOperator && !row.Operator {
			t.Errorf("%s: a second operator approves what no operator with a key may ask for", name)
		}
		if len(row.Rules) == 0 {
			t.Errorf("%s: the row names no rule", name)
		}
		for _, rule := range row.Rules {
			if !regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(rule) + ` \|`).Match(page) {
				t.Errorf("%s: docs/rules.md does not have the rule %q", name, rule)
			}
		}
	}
	for action := range permissions {
		if !seen[action] {
			t.Errorf("the row %q belongs to no declared action", action)
		}
	}
	if len(actions) == 0 || len(used) == 0 {
		t.Error("found no actions, or no code that asks")
	}
}

// Only dual control of rule OP-7 waits for a second operator, and the terminal without a key takes
// no part in it. Rules OP-7 and OP-9.
func TestDualControlIsForWhatLoosensAControl(t *testing.T) {
	t.Parallel()
	for action, row := range permissions {
		want := action == ChangeSettings || action == AddWhitelistEntry || action == WriteOffSwap ||
			action == ChangeBillingTerms
		if row.SecondOperator != want {
			t.Errorf("%s: got %v, want %v", action, row.SecondOperator, want)
		}
	}
	for _, action := range []Action{RequestChange, ApproveChange, RetractChange} {
		if row := PermissionOf(action); !row.Operator || row.Terminal || row.Key != "" || row.Roles != nil {
			t.Errorf("%s: got %+v, want an operator with a key alone", action, row)
		}
	}
}
