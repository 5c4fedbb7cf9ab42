package evm

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// rootOf is the root that a header has for a list of transactions or receipts:
// of the Merkle-Patricia trie from each one's place to its encoding.
//
// go-ethereum's own trie comes with its database and all that it stands on, so
// the part that is needed, a trie that is built at once and never read, is here.
func rootOf(list types.DerivableList) common.Hash { return types.DeriveSha(list, new(listTrie)) }

// A listTrie gathers keys and values; no key is the beginning of another one.
type listTrie struct{ leaves []leaf }

type leaf struct{ path, value []byte } // path: a nibble a byte

// Reset forgets everything.
func (t *listTrie) Reset() { t.leaves = nil }

// Update adds a value.
func (t *listTrie) Update(key, value []byte) error {
	path := make([]byte, 0, 2*len(key))
	for _, b := range key {
		path = append(path, b>>4, b&15)
	}
	t.leaves = append(t.leaves, leaf{path, bytes.Clone(value)})
	return nil
}

// Hash is the root.
func (t *listTrie) Hash() common.Hash {
	if len(t.leaves) == 0 {
		return types.EmptyRootHash
	}
	slices.SortFunc(t.leaves, func(a, b leaf) int { return cmp.Compare(string(a.path), string(b.path)) })
	return crypto.Keccak256Hash(node(t.leaves, 0))
}

// node encodes the part of the trie with some leaves, whose paths are the same
// up to depth.
func node(leaves []leaf, depth int) []byte {
	path := leaves[0].path
	if len(leaves) == 1 {
		return encoded([]any{compact(path[depth:], true), leaves[0].value})
	}
	last := leaves[len(leaves)-1].path
	fork := depth
	for path[fork] == last[fork] {
		fork++
	}
	if fork > depth {
		return encoded([]any{compact(path[depth:fork], false), reference(node(leaves, fork))})
	}
	branch := make([]any, 17)
	for i := range branch {
		branch[i] = []byte{}
	}
	for len(leaves) > 0 {
		nibble := leaves[0].path[depth]
		n := slices.IndexFunc(leaves, func(l leaf) bool { return l.path[depth] != nibble })
		if n < 0 {
			n = len(leaves)
		}
		branch[nibble] = reference(node(leaves[:n], depth+1))
		leaves = leaves[n:]
	}
	return encoded(branch)
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
