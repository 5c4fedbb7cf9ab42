// Package commit names the commit that a trial runs on, and the folder where its results are.
// A result counts for one commit only, so a work tree with other changes has no name.
//
// It never changes the work tree and leaves nothing behind.
package commit

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// written are the files that trials write themselves. No trial tests what they say.
var written = []string{"docs/SAFETY.md", "internal/testing/trial/mutants/RESULTS.md"}

// Find returns the commit of the work tree at root. It fails when the work tree differs from its
// commit in any file but those that trials write.
func Find(ctx context.Context, root string) (string, error) {
	head, err := runGit(ctx, root, "rev-parse", "--verify", "HEAD^{commit}")
	if err != nil {
		return "", err
	}
	status, err := runGit(ctx, root, "status", "--porcelain", "-z", "--no-renames", "--untracked-files=all")
	if err != nil {
		return "", err
	}
	var changed []string
	for entry := range strings.SplitSeq(status, "\x00") {
		if len(entry) > 3 && !slices.Contains(written, entry[3:]) {
			changed = append(changed, entry[3:])
		}
	}
	if len(changed) > 0 {
		return "", fmt.Errorf("the work tree differs from its commit, so a result would be of no commit: %s",
			strings.Join(changed, ", "))
	}
	return strings.TrimSpace(head), nil
}

// Dir is where the results of a commit are. Git ignores the folder.
func Dir(root, commit string) string { return filepath.Join(root, ".coffer", "trials", commit) }

func runGit(ctx context.Context, root string, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, "git", append([]string{"-C", root}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", args[0], err)
	}
	return string(output), nil
}
