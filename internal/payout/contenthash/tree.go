package contenthash

import (
	"crypto/sha256"
	"slices"
)

// Prefixes of RFC 6962, section 2.1: a leaf never has the hash of a node.
const (
	leafPrefix = 0x00
	nodePrefix = 0x01
)

func hashLeaf(data []byte) Hash { return sha256.Sum256(append([]byte{leafPrefix}, data...)) }

func hashNode(left, right Hash) Hash {
	return sha256.Sum256(slices.Concat([]byte{nodePrefix}, left[:], right[:]))
}

// split returns the largest power of two below n, for n above 1: as many leaves are on the left.
func split(n int) int {
	k := 1
	for 2*k < n {
		k *= 2
	}
	return k
}

// ComputeRoot returns the root over leaves. The root of no leaves is the hash of nothing.
func ComputeRoot(leaves []Hash) Hash {
	switch len(leaves) {
	case 0:
		return sha256.Sum256(nil)
	case 1:
		return leaves[0]
	}
	k := split(len(leaves))
	return hashNode(ComputeRoot(leaves[:k]), ComputeRoot(leaves[k:]))
}

// ComputePath returns the audit path of a leaf, from the bottom to the top. index counts from 0 and is below the number
// of leaves.
func ComputePath(leaves []Hash, index int) []Hash {
	if len(leaves) <= 1 {
		return []Hash{}
	}
	k := split(len(leaves))
	if index < k {
		return append(ComputePath(leaves[:k], index), ComputeRoot(leaves[k:]))
	}
	return append(ComputePath(leaves[k:], index-k), ComputeRoot(leaves[:k]))
}

// ComputeRootFrom returns the root to which an audit path leads from a leaf in a tree of size leaves. It reports false
// for a path that no tree of this size has at this index. RFC 9162, section 2.1.3.2.
func ComputeRootFrom(leaf Hash, index, size int, path []Hash) (Hash, bool) {
	if index < 0 || index >= size {
		return Hash{}, false
	}
	node, last := leaf, size-1
	for _, sibling := range path {
		if last == 0 {
			return Hash{}, false
		}
		if index%2 == 1 || index == last {
			node = hashNode(sibling, node)
			for index%2 == 0 && index != 0 {
				index, last = index/2, last/2
			}
		} else {
			node = hashNode(node, sibling)
		}
		index, last = index/2, last/2
	}
	return node, last == 0
}
