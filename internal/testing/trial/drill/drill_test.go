package drill

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cofferpay/coffer/internal/testing/trial/binary"
)

// Rules WD-7, IDEM-1 and COIN-6. After the signer's journal is lost and rebuilt, and after an old
// backup is restored on a chain with unspent outputs, or while swaps are under way, every payment is
// made once. make drill plays the other drills.
func TestAfterARestoreNothingIsPaidTwice(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "coffer")
	if err := binary.BuildProgram(t.Context(), ".", program, ""); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	failed, err := Run(
		t.Context(), Options{Program: program, Names: []string{"journal", "bitcoin", "swaps"}, Output: &told},
	)
	if err != nil || failed != 0 {
		t.Errorf("got %d failed, %v, want none:\n%s", failed, err, &told)
	}
	t.Logf("\n%s", &told)
}

func TestADrillThatIsNotThereIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Options{Names: []string{"flood"}}); err == nil {
		t.Error("got no error, want one")
	}
}
