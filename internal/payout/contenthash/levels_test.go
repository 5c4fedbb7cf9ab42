package contenthash_test

import (
	"slices"
	"testing"

	"github.com/cofferpay/coffer/internal/payout/contenthash"
)

// The tree that keeps its nodes has the root and the paths of the one that hashes for each path. Rule BP-30.
func TestAKeptTreeHasTheSamePaths(t *testing.T) {
	t.Parallel()
	for size := range 70 {
		leaves := make([]contenthash.Hash, size)
		for i := range leaves {
			leaves[i] = newRow(i + 1).ComputeLeaf()
		}
		tree := contenthash.NewTree(leaves)
		if got, want := tree.Root(), contenthash.ComputeRoot(leaves); got != want {
			t.Fatalf("root of %d: got %v, want %v", size, got, want)
		}
		for i := range leaves {
			if got, want := tree.Path(i), contenthash.ComputePath(leaves, i); !slices.Equal(got, want) {
				t.Fatalf("row %d of %d: got %v, want %v", i, size, got, want)
			}
		}
	}
}
