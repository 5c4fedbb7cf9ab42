package payouts

import (
	"flag"
	"path/filepath"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/testing/trial/binary"
)

// The whole form is make payouts.
var (
	rowCount  = flag.Int("payouts.rows", 30, "rows of the list")
	killCount = flag.Int("payouts.kills", 1, "how often the service is killed; 0: until the batch has ended")
	seed      = flag.Uint64("payouts.seed", 0, "of the moments at which it is killed; 0: another one each time")
)

// Rule BP-34. Each payee of a list over three chains receives the amount or nothing, once, whenever the service dies.
func TestEachPayeeReceivesTheAmountOrNothingOnce(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "coffer")
	if err := binary.BuildProgram(t.Context(), ".", program, ""); err != nil {
		t.Fatal(err)
	}
	opts := Options{Program: program, Rows: *rowCount, Kills: *killCount, Seed: *seed, Report: t.Logf}
	if opts.Seed == 0 {
		opts.Seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", opts.Seed)
	if err := Run(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
}
