// Package binary gives trials the program as a file of their own, linked once per state
// of the sources: go run keeps what it has linked in Go's build cache, go build links
// anew each time, and half a dozen trials in one run of the tests want the same program.
//
// What never happens here: a cache of our own, which somebody else's build could be
// taken from. What a crash leaves: a file, in the folder that the trial throws away.
package binary

import (
	"context"
	"fmt"
	"os/exec"
)

// BuildProgram puts the coffer of the source tree around folder into a file, built with tags
// as in go build -tags, or with none.
func BuildProgram(ctx context.Context, folder, target, tags string) error {
	// What go run has linked is copied instead of run.
	cmd := exec.CommandContext(ctx, "go", "run", "-exec", "cp", "-tags", tags, "github.com/cofferpay/coffer/cmd/coffer", target)
	cmd.Dir = folder
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of %s: %w\n%s", folder, err, output)
	}
	return nil
}
