package evm

import (
	"testing"

	"github.com/cofferpay/coffer/internal/chain"
)

func TestOneProviderAloneDoesNotSayWhichBlockHasOurTransaction(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]string{"a": "a", "ab": "a", "abb": "b", "bab": "b", "abcb": "b", "abc": "a"} {
		var found []*chain.Outcome
		for _, hash := range said {
			found = append(found, &chain.Outcome{Block: chain.Block{Hash: string(hash)}})
		}
		if got := mostNamed(found); got.Block.Hash != want {
			t.Errorf("%s: got block %s, want %s", said, got.Block.Hash, want)
		}
	}
}
