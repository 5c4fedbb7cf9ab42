package api

import (
	"os"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/contract"
)

// released is the document that clients out there were made for: its facts,
// without words. It changes when somebody approves that, and by nothing else.
const released = "openapi.released.json"

// Clients of yesterday work tomorrow. A change that would break them is named
// here, and stands only after a person said so.
// Rule DOC-1.
func TestNoClientIsBroken(t *testing.T) {
	t.Parallel()
	if os.Getenv("COFFER_APPROVE") == "1" {
		facts, err := contract.Facts(document("/v1"))
		if err == nil {
			err = os.WriteFile(released, facts, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(released)
	if err != nil {
		t.Fatal(err)
	}
	was, err := contract.Read(raw)
	if err != nil {
		t.Fatal(err)
	}
	if broken := contract.Breaking(was, current(t)); len(broken) > 0 {
		t.Errorf("this breaks clients of %s:\n\n  %s\n\nAdd beside instead of changing, or give the change a new version of the interface. "+
			"When nobody can depend on it yet, or a person has decided to break it, approve the document as it is now with make approve, and say in the commit who is affected and how they were told.",
			released, strings.Join(broken, "\n  "))
	}
}
