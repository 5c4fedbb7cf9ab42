package surfacetest

import (
	"os"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/testing/contract"
)

// released are the documents for which existing clients were made: their facts, without texts. They
// change only by an approved change.
var released = map[*kernel.Surface]string{
	organizations: "../api/openapi.released.json", operators: "../operatorapi/openapi.released.json",
}

// Existing clients keep working, and so do the operators' scripts. A change that would break them
// is named here, and needs a person's approval. Rule DOC-1.
func TestNoClientIsBroken(t *testing.T) {
	t.Parallel()
	for face, file := range released {
		t.Run(face.Title, func(t *testing.T) {
			t.Parallel()
			if os.Getenv("COFFER_APPROVE") == "1" {
				facts, err := contract.StripTexts(face.DrawDocument("/v1"))
				if err == nil {
					err = os.WriteFile(file, facts, 0o644)
				}
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			was, err := contract.ParseDocument(raw)
			if err != nil {
				t.Fatal(err)
			}
			is, err := contract.ParseDocument(face.DrawDocument("/v1"))
			if err != nil {
				t.Fatal(err)
			}
			if broken := contract.BreakingChanges(was, is); len(broken) > 0 {
				t.Errorf("this breaks clients of %s:\n\n  %s\n\nAdd beside instead of changing, or give the change a new version of the interface. "+
					"When nobody can depend on it yet, or a person has decided to break it, approve the document as it is now with make approve, and say in the commit who is affected and how they were told.",
					file, strings.Join(broken, "\n  "))
			}
		})
	}
}
