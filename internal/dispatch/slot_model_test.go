package dispatch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Only the slot models ask what the slots of a chain are made of.
func TestNoStepOfAPaymentBranchesOnTheSlotsOfItsChain(t *testing.T) {
	t.Parallel()
	questions := []string{"UTXO", "IsUTXO", "KeyedSlots", "SlotProver", "NonceAccounts"}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var asking []string
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if name, ok := n.(*ast.Ident); ok && slices.Contains(questions, name.Name) {
				asking = append(asking, file)
			}
			return true
		})
	}
	asking = slices.Compact(asking)
	if want := []string{"durable_nonce.go", "slot_model.go", "utxo.go"}; !slices.Equal(asking, want) {
		t.Errorf("got %v, want %v", asking, want)
	}
}
