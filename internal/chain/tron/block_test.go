package tron

import (
	"encoding/hex"
	"testing"

	"github.com/go-json-experiment/json"
)

// Blocks of the public networks as nodes returned them: three without transactions, one of them
// from the first day, and one with a single call.
const (
	publicFirst = `{"blockID":"0000000000000a611841e6cd79f99249d7e974e41c0f5b016eb3c64e43fcb01c","block_header":{"raw_data":{"number":2657,
		"txTrieRoot":"0000000000000000000000000000000000000000000000000000000000000000","witness_address":"411661f25387370c9cd3a9a5d97e60ca90f4844e7e",
		"parentHash":"0000000000000a6023d563b1a2e1e0eb49cb40226eb553e6dc006e723395d588","timestamp":1529899509000}}}`
	publicEmpty = `{"blockID":"000000000203c376d3d45ca88309982517d69ff0ec4d9a9f9f25536cebcdd76b","block_header":{"raw_data":{"number":33801078,
		"txTrieRoot":"0000000000000000000000000000000000000000000000000000000000000000","witness_address":"41e61626ef01662b320a8ba38372e9db9cca940a3b",
		"parentHash":"000000000203c375c7521ef953106e9a112e1902664a91becc5f40371a7397d7","version":27,"timestamp":1684509312000}}}`
	publicHeader = `{"blockID":"00000000051014e80dbf5923643f955ca7b09253e84c13b59f19e347fb9ea95e","block_header":{"raw_data":{"timestamp":1785490773000,
		"txTrieRoot":"5360b488069bf1f3643c8d0504052aea2e5f7a71a51901cf69ebe57e950336fa","parentHash":"00000000051014e793a715af1fa52f8e4dfd1bed8aea07f41e11c9e831ef5022",
		"number":84940008,"witness_address":"4114f2c09d3de3fe82a71960da65d4935a30b24e1f","version":36}}}`
	publicCall = `{"blockID":"000000000203c375c7521ef953106e9a112e1902664a91becc5f40371a7397d7","block_header":{"raw_data":{"number":33801077,
		"txTrieRoot":"30fe6502e11e110fa389d5c17e1cf53fa8df93f26297d9f27cd8c07d3558d722","witness_address":"41e71c365c9dbf284ca8c1eed2d7877638941b9011",
		"parentHash":"000000000203c3741f9a08f594934bd26df95cc6c49b475d118e3a87aed5a4a4","version":27,"timestamp":1684509309000}},
		"transactions":[{"ret":[{"contractRet":"SUCCESS"}],
		"signature":["95874b4774ba56125dfd7bf2a99a0652d4abda98c6977e3f417852b7ea6f2b81ff2f260df473d186be9586b6bbeb74b5382d7f058593fd72fb60da5d0f77f77100"],
		"txID":"31370141e3345421bdb92eff72f0d69aba8d04e636317ed52745d3f97e9faabb",
		"raw_data_hex":"0a02c36222084ddf60f936a910d940f0add4a483315a8e01081f1289010a31747970652e676f6f676c65617069732e636f6d2f70726f746f636f6c2e54726967676572536d617274436f6e747261637412540a1541fcf7ab2a2fb29362babd41647a22b223f7fbedec121541c3c5115bd3f5cfe5559c634eeb250f339ae3e29c222437383d0e00000000000000000000000000000000000000000000000000000188349354c970b8e0d0a48331900180a3c347"}]}`
)

func TestABlockOfThePublicNetworkIsWhatItsIdentifierSays(t *testing.T) {
	t.Parallel()
	for _, text := range []string{publicFirst, publicEmpty, publicHeader, publicCall} {
		var g blockJSON
		if err := json.Unmarshal([]byte(text), &g); err != nil {
			t.Fatal(err)
		}
		h, err := g.toHeader()
		if err != nil || h.idText() != g.ID {
			t.Errorf("block %d: got %s, %v, want %s", g.Header.Raw.Number, h.idText(), err, g.ID)
		}
		if text == publicHeader {
			continue // its transactions are not in this file
		}
		txs, err := g.verifyTxs(h.root)
		if err != nil || len(txs) != len(g.Txs) {
			t.Errorf("block %d: got %d transactions, %v, want %d", h.height, len(txs), err, len(g.Txs))
		}
		for _, x := range txs {
			if !x.succeeded || x.Owner == "" {
				t.Errorf("block %d: got %+v, want a call that succeeded", h.height, x)
			}
		}
	}
}

// The same tree computed by hand: a hash without a partner moves up unchanged.
func TestTheRootOfAnOddNumberOfTransactions(t *testing.T) {
	t.Parallel()
	a, b, c := [32]byte{1}, [32]byte{2}, [32]byte{3}
	if got := merkleRoot([][32]byte{a}); got != a {
		t.Errorf("of one: got %x, want itself", got)
	}
	// sha256(sha256(a|b)|c), computed elsewhere.
	const want = "16d2f27b22df2a263d31938f1e9c9351032e751d1f9d2ffec3b73be67a2ceed7"
	if got := merkleRoot([][32]byte{a, b, c}); hex.EncodeToString(got[:]) != want {
		t.Errorf("of three: got %x, want %s", got, want)
	}
}
