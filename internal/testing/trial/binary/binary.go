// Package binary links the program into a file for trials, once per state of the sources. go run
// keeps what it links in Go's build cache; go build links anew each time, and half a dozen trials
// in one run of the tests want the same program.
//
// The package has no cache of its own, because that could give out another build's program. A crash
// leaves a file in the folder that the trial deletes.
package binary

import (
	"context"
	"fmt"
	"os"
	"os/exec"
)

// BuildProgram writes the coffer program of the source tree around folder into a file. tags are as
// in go build -tags; empty means none.
func BuildProgram(ctx context.Context, folder, target, tags string) error {
	// Copies what go run has linked instead of running it.
	cmd := exec.CommandContext(
		ctx, "go", "run", "-exec", "cp", "-tags", tags, "github.com/cofferpay/coffer/cmd/coffer", target,
	)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped, see deploy/Containerfile
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the program of %s: %w\n%s", folder, err, output)
	}
	return nil
}
