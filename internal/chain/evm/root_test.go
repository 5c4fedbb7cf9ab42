package evm

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// rootOf returns the root of a list as go-ethereum orders its keys, from a trie that is built at
// once. The tests compare listRoot with it.
func rootOf(list types.DerivableList) common.Hash { return types.DeriveSha(list, new(listTrie)) }

// listTrie collects keys and values; no key is the beginning of another one.
type listTrie struct{ leaves []leaf }

type leaf struct{ path, value []byte } // path: a nibble a byte

// Reset deletes all values.
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

// Hash returns the root.
func (t *listTrie) Hash() common.Hash {
	if len(t.leaves) == 0 {
		return types.EmptyRootHash
	}
	slices.SortFunc(t.leaves, func(a, b leaf) int { return cmp.Compare(string(a.path), string(b.path)) })
	return crypto.Keccak256Hash(node(t.leaves, 0))
}

// node encodes the part of the trie with some leaves, whose paths are equal up to depth.
func node(leaves []leaf, depth int) []byte {
	path := leaves[0].path
	if len(leaves) == 1 {
		return encodeRLP([]any{packPath(path[depth:], true), leaves[0].value})
	}
	last := leaves[len(leaves)-1].path
	fork := depth
	for path[fork] == last[fork] {
		fork++
	}
	if fork > depth {
		return encodeRLP([]any{packPath(path[depth:fork], false), nodeReference(node(leaves, fork))})
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
		branch[nibble] = nodeReference(node(leaves[:n], depth+1))
		leaves = leaves[n:]
	}
	return encodeRLP(branch)
}

// plainList is the list of items of a root.
type plainList [][]byte

// Len returns the number of items.
func (l plainList) Len() int { return len(l) }

// EncodeIndex writes the i-th one.
func (l plainList) EncodeIndex(i int, w *bytes.Buffer) { w.Write(l[i]) }

// plainReceipts encodes receipts as go-ethereum does.
func plainReceipts(raw []byte) (list plainList, err error) {
	var plain []*types.Receipt
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	var more []stackFields
	if err := json.Unmarshal(raw, &more); err != nil {
		return nil, err
	}
	for i, r := range plain {
		if r.Type != opDeposit || more[i].DepositVersion == nil {
			b, err := r.MarshalBinary()
			if err != nil {
				return nil, err
			}
			list = append(list, b)
			continue
		}
		status := []byte{}
		if r.Status == types.ReceiptStatusSuccessful {
			status = []byte{1}
		}
		nonce := uint64(0)
		if more[i].DepositNonce != nil {
			nonce = uint64(*more[i].DepositNonce)
		}
		b, err := rlp.EncodeToBytes([]any{
			status, r.CumulativeGasUsed, r.Bloom, r.Logs, nonce,
			uint64(*more[i].DepositVersion),
		})
		if err != nil {
			return nil, err
		}
		list = append(list, append([]byte{r.Type}, b...))
	}
	return list, nil
}

func TestARootIsComputedItemByItem(t *testing.T) {
	t.Parallel()
	counts := []int{
		0, 1, 2, 3, 15, 16, 17, 126, 127, 128, 129, 130, 255, 256, 257, 300, 511, 512, 4095, 4096, 5000,
		65_535, 65_536, 65_537,
	}
	for _, n := range counts {
		var root listRoot
		list := make(plainList, n)
		for i := range list {
			// Some items are so short that their parent contains them, some are not.
			list[i] = bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 1+i%40)
			root.addItem(list[i])
		}
		if got, want := root.rootHash(), rootOf(list); got != want {
			t.Errorf("%d items: got %s, want %s", n, got, want)
		}
	}
}
