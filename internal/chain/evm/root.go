package evm

import (
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// A listRoot computes the root that a header has for a list of transactions or receipts:
// of the Merkle-Patricia trie from each one's index to its encoding. It takes the items
// in the order of the list and holds two of them at most, however long the list is.
//
// go-ethereum's own trie comes with its database and all that it stands on, so the part
// that is needed is here. Its zero value is the empty list.
type listRoot struct {
	trie  sortedTrie
	count uint64
	first []byte // the item at index 0, until its turn comes
}

// keyOfFirst is where the keys of a list are not in the order of its indices: in RLP the
// key of index 0 is 0x80, behind those of 1 to 127.
const keyOfFirst = 0x80

// add takes the next item. The root keeps the slice.
func (l *listRoot) add(item []byte) {
	switch l.count {
	case 0:
		l.first = item
	case keyOfFirst:
		l.flushFirst()
		fallthrough
	default:
		l.trie.add(rlp.AppendUint64(nil, l.count), item)
	}
	l.count++
}

func (l *listRoot) flushFirst() {
	l.trie.add(rlp.AppendUint64(nil, 0), l.first)
	l.first = nil
}

// hash is the root of all items. Nothing is added after it.
func (l *listRoot) hash() common.Hash {
	if l.count == 0 {
		return types.EmptyRootHash
	}
	if l.count <= keyOfFirst {
		l.flushFirst()
	}
	return l.trie.hash()
}

// A sortedTrie takes keys in ascending order, of which none is the beginning of another.
// What no later key can change is hashed at once: it holds the last value, and the
// branches on the way to it.
type sortedTrie struct {
	path  []byte // of the last key, a nibble a byte
	value []byte
	open  []branch // outermost first; all lie on path
}

type branch struct {
	depth    int
	children [17]any // of which the last, a value of the branch itself, is always empty
}

func newBranch(depth int) branch {
	b := branch{depth: depth}
	for i := range b.children {
		b.children[i] = []byte{}
	}
	return b
}

func (t *sortedTrie) add(key, value []byte) {
	path := make([]byte, 0, 2*len(key))
	for _, b := range key {
		path = append(path, b>>4, b&15)
	}
	if t.path != nil {
		fork := 0
		for t.path[fork] == path[fork] {
			fork++
		}
		t.place(fork)
	}
	t.path, t.value = path, value
}

// place puts the last value below the branch where the next key leaves its path, and
// closes all branches below that one.
func (t *sortedTrie) place(fork int) {
	if len(t.open) == 0 || t.open[len(t.open)-1].depth < fork {
		t.open = append(t.open, newBranch(fork))
	}
	t.putLeaf()
	for t.top().depth > fork {
		above := fork
		if len(t.open) > 1 {
			above = max(above, t.open[len(t.open)-2].depth)
		}
		closed := t.closeTop(above)
		if len(t.open) == 0 || t.top().depth < above {
			t.open = append(t.open, newBranch(above))
		}
		t.top().children[t.path[above]] = closed
	}
}

func (t *sortedTrie) top() *branch { return &t.open[len(t.open)-1] }

func (t *sortedTrie) putLeaf() {
	top := t.top()
	top.children[t.path[top.depth]] = reference(t.leaf(top.depth + 1))
}

func (t *sortedTrie) leaf(from int) []byte {
	return encoded([]any{compact(t.path[from:], true), t.value})
}

// closeTop takes the deepest branch away and gives the reference to it from the depth above.
func (t *sortedTrie) closeTop(above int) any {
	return reference(t.closedNode(above + 1))
}

// closedNode takes the deepest branch away and encodes it, behind an extension where it
// is deeper than from.
func (t *sortedTrie) closedNode(from int) []byte {
	top := *t.top()
	t.open = t.open[:len(t.open)-1]
	node := encoded(top.children[:])
	if top.depth > from {
		node = encoded([]any{compact(t.path[from:top.depth], false), reference(node)})
	}
	return node
}

func (t *sortedTrie) hash() common.Hash {
	if len(t.open) == 0 {
		return crypto.Keccak256Hash(t.leaf(0))
	}
	t.putLeaf()
	for len(t.open) > 1 {
		above := t.open[len(t.open)-2].depth
		closed := t.closeTop(above)
		t.top().children[t.path[above]] = closed
	}
	return crypto.Keccak256Hash(t.closedNode(0))
}

// reference is a node inside its parent: itself when it is short, or its hash.
func reference(node []byte) any {
	if len(node) < common.HashLength {
		return rlp.RawValue(node)
	}
	return crypto.Keccak256(node)
}

// compact packs a path into bytes, with a flag for its length being odd and one
// for it ending in a leaf.
func compact(path []byte, ends bool) []byte {
	var flag byte
	if ends {
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

func encoded(items []any) []byte {
	b, err := rlp.EncodeToBytes(items)
	if err != nil {
		panic("evm: byte strings have an encoding: " + err.Error())
	}
	return b
}
