package dispatch_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Only the slot models ask whether slots are made of outputs.
func TestNoStepOfAPaymentBranchesOnTheOutputsOfItsChain(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var asking []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), ".chain.UTXO") {
			asking = append(asking, file)
		}
	}
	if want := []string{"utxo.go"}; !slices.Equal(asking, want) {
		t.Errorf("got %v, want %v", asking, want)
	}
}
