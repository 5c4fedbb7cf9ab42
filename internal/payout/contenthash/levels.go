package contenthash

// Tree holds the hashes of all nodes over a list of leaves. It gives the path of each leaf without hashing again, so
// that the paths of a whole batch cost as much as its root.
type Tree struct{ levels [][]Hash }

// NewTree hashes the tree over leaves. It has the root and the paths of ComputeRoot and ComputePath.
func NewTree(leaves []Hash) Tree {
	t := Tree{levels: [][]Hash{leaves}}
	for level := leaves; len(level) > 1; {
		parents := make([]Hash, 0, (len(level)+1)/2)
		for i := 0; i+1 < len(level); i += 2 {
			parents = append(parents, hashNode(level[i], level[i+1]))
		}
		if len(level)%2 == 1 { // the last node has no sibling, and stands on the next level itself
			parents = append(parents, level[len(level)-1])
		}
		t.levels = append(t.levels, parents)
		level = parents
	}
	return t
}

// Root returns the root of the tree.
func (t Tree) Root() Hash {
	top := t.levels[len(t.levels)-1]
	if len(top) == 0 {
		return ComputeRoot(nil)
	}
	return top[0]
}

// Path returns the audit path of a leaf, from the bottom to the top. index counts from 0 and is below the number of
// leaves.
func (t Tree) Path(index int) []Hash {
	path := []Hash{}
	for _, level := range t.levels[:len(t.levels)-1] {
		if sibling := index ^ 1; sibling < len(level) {
			path = append(path, level[sibling])
		}
		index /= 2
	}
	return path
}
