package evm

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// listRoot computes the root in a header of a list of transactions or receipts: the root of the
// Merkle-Patricia trie from each one's index to its encoding. It takes the items in the order of
// the list and holds at most two of them, for a list of any length.
//
// go-ethereum's own trie depends on its database and more, so this file has the needed part. The
// zero value is the empty list.
type listRoot struct {
	trie  sortedTrie
	count uint64
	first []byte // the item at index 0, until its turn comes
}

// keyOfFirst is where the keys of a list are not in the order of its indexes: in RLP the key of
// index 0 is 0x80, behind those of 1 to 127.
const keyOfFirst = 0x80

// addItem adds the next item. The root keeps the slice.
func (l *listRoot) addItem(item []byte) {
	switch l.count {
	case 0:
		l.first = item
	case keyOfFirst:
		l.flushFirst()
		fallthrough
	default:
		l.trie.addLeaf(rlp.AppendUint64(nil, l.count), item)
	}
	l.count++
}

func (l *listRoot) flushFirst() {
	l.trie.addLeaf(rlp.AppendUint64(nil, 0), l.first)
	l.first = nil
}

// rootHash returns the root of all items. No item may be added after it.
func (l *listRoot) rootHash() common.Hash {
	if l.count == 0 {
		return types.EmptyRootHash
	}
	if l.count <= keyOfFirst {
		l.flushFirst()
	}
	return l.trie.rootHash()
}

// sortedTrie takes keys in ascending order, none of which is a prefix of another. It hashes at once
// what no later key can change: it holds only the last value, and the branches on the way to it.
type sortedTrie struct {
	path  []byte // of the last key, one nibble per byte
	value []byte
	open  []branch // outermost first; all are on path
}

type branch struct {
	depth    int
	children [17]any // the last one, the branch's own value, is always empty
}

func newBranch(depth int) branch {
	b := branch{depth: depth}
	for i := range b.children {
		b.children[i] = []byte{}
	}
	return b
}

func (t *sortedTrie) addLeaf(key, value []byte) {
	path := make([]byte, 0, 2*len(key))
	for _, b := range key {
		path = append(path, b>>4, b&15)
	}
	if t.path != nil {
		fork := 0
		for t.path[fork] == path[fork] {
			fork++
		}
		t.closeBelow(fork)
	}
	t.path, t.value = path, value
}

// closeBelow puts the last value below the branch where the next key leaves its path, and closes
// all branches below that one.
func (t *sortedTrie) closeBelow(fork int) {
	if len(t.open) == 0 || t.open[len(t.open)-1].depth < fork {
		t.open = append(t.open, newBranch(fork))
	}
	t.putLeaf()
	for t.topBranch().depth > fork {
		parentDepth := fork
		if len(t.open) > 1 {
			parentDepth = max(parentDepth, t.open[len(t.open)-2].depth)
		}
		closed := t.closeTop(parentDepth)
		if len(t.open) == 0 || t.topBranch().depth < parentDepth {
			t.open = append(t.open, newBranch(parentDepth))
		}
		t.topBranch().children[t.path[parentDepth]] = closed
	}
}

func (t *sortedTrie) topBranch() *branch { return &t.open[len(t.open)-1] }

func (t *sortedTrie) putLeaf() {
	top := t.topBranch()
	top.children[t.path[top.depth]] = nodeReference(t.encodeLeaf(top.depth + 1))
}

func (t *sortedTrie) encodeLeaf(depth int) []byte {
	return encodeRLP([]any{packPath(t.path[depth:], true), t.value})
}

// closeTop removes the deepest branch and returns the reference to it from the depth above.
func (t *sortedTrie) closeTop(parentDepth int) any {
	return nodeReference(t.takeTopNode(parentDepth + 1))
}

// takeTopNode removes the deepest branch and encodes it, behind an extension if it is deeper than
// depth.
func (t *sortedTrie) takeTopNode(depth int) []byte {
	top := *t.topBranch()
	t.open = t.open[:len(t.open)-1]
	node := encodeRLP(top.children[:])
	if top.depth > depth {
		node = encodeRLP([]any{packPath(t.path[depth:top.depth], false), nodeReference(node)})
	}
	return node
}

func (t *sortedTrie) rootHash() common.Hash {
	if len(t.open) == 0 {
		return crypto.Keccak256Hash(t.encodeLeaf(0))
	}
	t.putLeaf()
	for len(t.open) > 1 {
		parentDepth := t.open[len(t.open)-2].depth
		closed := t.closeTop(parentDepth)
		t.topBranch().children[t.path[parentDepth]] = closed
	}
	return crypto.Keccak256Hash(t.takeTopNode(0))
}

// nodeReference returns a node as its parent contains it: the node itself if it is short, or its
// hash.
func nodeReference(node []byte) any {
	if len(node) < common.HashLength {
		return rlp.RawValue(node)
	}
	return crypto.Keccak256(node)
}

// packPath packs a path into bytes, with one flag for an odd length and one for a path that ends in
// a leaf.
func packPath(path []byte, isLeaf bool) []byte {
	var flag byte
	if isLeaf {
		flag = 2
	}
	out := []byte{flag << 4}
	if len(path)%2 == 1 {
		out[0] = (flag|1)<<4 | path[0]
		path = path[1:]
	}
	for i := 0; i < len(path); i += 2 {
		out = append(out, path[i]<<4|path[i+1])
	}
	return out
}

func encodeRLP(items []any) []byte {
	b, err := rlp.EncodeToBytes(items)
	if err != nil {
		panic("evm: byte strings have an encoding: " + err.Error())
	}
	return b
}
