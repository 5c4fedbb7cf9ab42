package evm

import (
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// A header of Avalanche's test network as a node returned it on 2026-10-01, after Helicon.
func TestARealHeaderOfAvalancheGivesItsHash(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/avalanche-fuji-0x3830386.json")
	if err != nil {
		t.Fatal(err)
	}
	h, hash, err := avalanche.readHeader(raw)
	if err != nil || hash != common.HexToHash("0xfe8e5ce3dc0cde645aa8f857b0471596705d39792ea0146f892759638d4c4197") {
		t.Fatalf("got %s, %v, want its hash", hash, err)
	}
	up, err := readSettledHeight(raw)
	if err != nil || up == nil || *up != h.Number.Uint64()-3 {
		t.Errorf("got %v, %v, want it to settle three blocks before it", up, err)
	}
	if _, _, err := ethereum.readHeader(raw); !errors.Is(err, chain.ErrUndecodable) {
		t.Errorf("as Ethereum's: got %v, want it refused", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		t.Fatal(err)
	}
	// A change of any of its fields gives another header.
	for name, was := range fields {
		if name == "blockExtraData" || name == "size" || name == "totalDifficulty" || name == "uncles" {
			continue // of the block, and in no header
		}
		changed := map[string]any{}
		for k, v := range fields {
			changed[k] = v
		}
		text := was.(string)
		end := byte('1')
		if text[len(text)-1] == '1' {
			end = '2'
		}
		changed[name] = text[:len(text)-1] + string(end)
		if b, err := json.Marshal(changed); err != nil {
			t.Fatal(err)
		} else if _, _, err := avalanche.readHeader(b); !errors.Is(err, chain.ErrUndecodable) {
			t.Errorf("another %s: got %v, want it refused", name, err)
		}
		delete(changed, name) // nothing is encoded as zero is
		if b, err := json.Marshal(changed); err != nil {
			t.Fatal(err)
		} else if _, _, err := avalanche.readHeader(b); text != "0x0" && name != "mixHash" && name != "nonce" &&
			!errors.Is(err, chain.ErrUndecodable) {
			t.Errorf("without %s: got %v, want it refused", name, err)
		}
	}
}

// lateSettlingNode is a node of a chain that accepts blocks before it executes them. Its blocks
// begin at the first one that has its own results.
type lateSettlingNode struct {
	t      *testing.T
	mu     sync.Mutex
	key    *ecdsa.PrivateKey
	nonce  uint64
	blocks []*lateSettledBlock
	final  uint64
}

// lateSettledBlock is a block whose results are in another block.
type lateSettledBlock struct {
	head     types.Header
	fields   avalancheFields
	hash     common.Hash
	txs      []map[string]any
	receipts []map[string]any
}

const (
	firstLater = 10 // height of the block with results of its own
	baseMost   = 30 // the base fee in the headers
	baseTaken  = 12 // and the actual base fee
)

func (n *lateSettlingNode) at(height uint64) *lateSettledBlock {
	if height < firstLater || height >= firstLater+uint64(len(n.blocks)) {
		return nil
	}
	return n.blocks[height-firstLater]
}

// add appends a block with payments of these amounts to ours, which settles up to a
// height; 0 for one with results of its own.
func (n *lateSettlingNode) add(settles uint64, amounts ...int64) {
	n.t.Helper()
	b := &lateSettledBlock{fields: avalancheFields{
		ExtDataHash: &common.Hash{1}, ExtDataGasUsed: new(hexutil.Big), BlockGasCost: new(hexutil.Big),
		Milliseconds: new(hexutil.Uint64),
	}}
	b.head = types.Header{
		Number: big.NewInt(int64(firstLater + len(n.blocks))), Difficulty: big.NewInt(1), BaseFee: big.NewInt(baseMost),
		UncleHash:   types.EmptyUncleHash,
		BlobGasUsed: new(uint64), ExcessBlobGas: new(uint64), ParentBeaconRoot: new(common.Hash), Time: 1_790_000_000,
	}
	before := uint64(firstLater - 1)
	if len(n.blocks) > 0 {
		last := n.blocks[len(n.blocks)-1]
		b.head.ParentHash = last.hash
		before = last.head.Number.Uint64()
		if last.fields.SettledHeight != nil {
			before = uint64(*last.fields.SettledHeight)
		}
	}
	var list plainList
	var gas uint64
	for _, amount := range amounts {
		signed := types.MustSignNewTx(n.key, types.LatestSignerForChainID(big.NewInt(chainIDOfTests)),
			&types.DynamicFeeTx{
				ChainID: big.NewInt(chainIDOfTests), Nonce: n.nonce, To: &oursOfTests, Value: big.NewInt(amount),
				Gas: 21_000, GasTipCap: big.NewInt(2), GasFeeCap: big.NewInt(1000),
			})
		n.nonce++
		text, err := signed.MarshalJSON()
		if err != nil {
			n.t.Fatal(err)
		}
		var m map[string]any
		if err := json.Unmarshal(text, &m); err != nil {
			n.t.Fatal(err)
		}
		raw, err := signed.MarshalBinary()
		if err != nil {
			n.t.Fatal(err)
		}
		b.txs, list = append(b.txs, m), append(list, raw)
		gas += 21_000
		b.receipts = append(b.receipts, map[string]any{
			"type": "0x2", "status": "0x1", "cumulativeGasUsed": hexutil.Uint64(gas), "gasUsed": "0x5208",
			"logs": []any{}, "logsBloom": types.Bloom{},
			"transactionHash": signed.Hash().Hex(), "effectiveGasPrice": hexutil.Uint64(baseTaken + 2),
		})
	}
	b.head.TxHash = rootOf(list)
	n.blocks = append(n.blocks, b)
	results := []*lateSettledBlock{b}
	if settles > 0 {
		results = nil
		height := hexutil.Uint64(settles)
		b.fields.SettledHeight, b.fields.SettledGasUnix, b.fields.SettledGasNumerator, b.fields.SettledExcess = &height,
			&height, new(hexutil.Uint64), &height
		for at := before + 1; at <= settles; at++ {
			results = append(results, n.at(at))
		}
	}
	var all plainList
	for _, r := range results {
		text, err := json.Marshal(r.receipts)
		if err != nil {
			n.t.Fatal(err)
		}
		some, err := plainReceipts(text)
		if err != nil {
			n.t.Fatal(err)
		}
		all = append(all, some...)
	}
	b.head.ReceiptHash = rootOf(all)
	var err error
	if b.hash, err = b.fields.computeHash(&b.head); err != nil {
		n.t.Fatal(err)
	}
}

func (b *lateSettledBlock) shown(full bool) map[string]any {
	out := map[string]any{}
	for _, part := range []any{&b.head, b.fields} {
		text, err := json.Marshal(part)
		if err != nil {
			panic(err)
		}
		if err := json.Unmarshal(text, &out); err != nil {
			panic(err)
		}
	}
	out["hash"], out["transactions"] = b.hash.Hex(), []any{}
	if full {
		out["transactions"] = append([]map[string]any{}, b.txs...)
	}
	return out
}

func (n *lateSettlingNode) answer(method string, params []json.RawMessage) any {
	n.mu.Lock()
	defer n.mu.Unlock()
	word := func(i int) string { return strings.Trim(string(params[i]), `"`) }
	by := func(hash string) *lateSettledBlock {
		for _, b := range n.blocks {
			if b.hash.Hex() == hash {
				return b
			}
		}
		return nil
	}
	switch method {
	case "eth_chainId":
		return hexutil.Uint64(chainIDOfTests)
	case "eth_getBlockByNumber", "eth_getBlockByHash":
		var b *lateSettledBlock
		switch w := word(0); {
		case method == "eth_getBlockByHash":
			b = by(w)
		case w == "latest":
			b = n.blocks[len(n.blocks)-1]
		case w == "finalized":
			b = n.at(n.final)
		default:
			b = n.at(hexutil.MustDecodeUint64(w))
		}
		if b == nil {
			return nil
		}
		return b.shown(string(params[1]) == "true")
	case "eth_getBlockReceipts":
		if b := by(word(0)); b != nil {
			return b.receipts
		}
	case "eth_getTransactionReceipt":
		for _, b := range n.blocks {
			for _, r := range b.receipts {
				if r["transactionHash"] == word(0) {
					out := map[string]any{"blockHash": b.hash.Hex()}
					for k, v := range r {
						out[k] = v
					}
					return out
				}
			}
		}
	}
	return nil
}

func (n *lateSettlingNode) serve() string {
	type question struct {
		ID     json.RawMessage   `json:"id"`
		Method string            `json:"method"`
		Params []json.RawMessage `json:"params"`
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body json.RawMessage
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			n.t.Error(err)
		}
		reply := func(q question) map[string]any {
			return map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": n.answer(q.Method, q.Params)}
		}
		w.Header().Set("Content-Type", "application/json")
		var one question
		var many []question
		if json.Unmarshal(body, &many) == nil {
			list := []any{}
			for _, q := range many {
				list = append(list, reply(q))
			}
			_ = json.NewEncoder(w).Encode(list)
		} else if json.Unmarshal(body, &one) == nil {
			_ = json.NewEncoder(w).Encode(reply(one))
		}
	}))
	n.t.Cleanup(srv.Close)
	return srv.URL
}

// newLagging creates a node with blocks 10 to 17; final is 16. Block 14 settles 12 and 13, which
// have payments, and 16 settles 14.
func newLagging(t *testing.T, key *ecdsa.PrivateKey) *lateSettlingNode {
	t.Helper()
	n := &lateSettlingNode{t: t, key: key, final: 16}
	n.add(0, 1)
	n.add(10)
	n.add(11, 100, 200)
	n.add(11, 300)
	n.add(13, 400)
	n.add(13)
	n.add(14, 500)
	n.add(15)
	return n
}

func openLagging(t *testing.T, nodes ...*lateSettlingNode) chain.Chain {
	t.Helper()
	var urls []string
	for _, n := range nodes {
		urls = append(urls, n.serve())
	}
	return openStack(t, chain.Avalanche, TraceOff, urls...)
}

func arrived(c chain.Contents) string {
	var all []string
	for _, tr := range c.Transfers {
		all = append(all, tr.Amount.String())
	}
	return strings.Join(all, " ")
}

// The result of a block is in the header of the block that settles it, together with others, and is
// returned once that block is final too.
func TestABlockOfAvalancheIsReadWhenOneThatSettlesItIsFinal(t *testing.T) {
	t.Parallel()
	key, _ := keyOfTests(t)
	n := newLagging(t, key)
	c := openLagging(t, n, newLaggingAs(t, n))
	for height, want := range map[uint64]string{10: "1", 11: "", 12: "100 200", 13: "300", 14: "400"} {
		got, err := c.Reader.Final(t.Context(), height)
		if err != nil || arrived(got) != want || got.Providers != 2 {
			t.Errorf("block %d: got %q of %d, %v, want %q of 2", height, arrived(got), got.Providers, err, want)
		}
	}
	for _, height := range []uint64{15, 16, 17} {
		if got, err := c.Reader.Final(t.Context(), height); !errors.Is(err, chain.ErrNotYet) {
			t.Errorf("block %d: got %q, %v, want not yet", height, arrived(got), err)
		}
		if got, err := c.Reader.Recent(t.Context(), height); !errors.Is(err, chain.ErrNotYet) {
			t.Errorf("recent block %d: got %q, %v, want not yet", height, arrived(got), err)
		}
	}
	if got, err := c.Reader.Recent(t.Context(), 13); err != nil || arrived(got) != "300" {
		t.Errorf("recent block 13: got %q, %v, want what it came to", arrived(got), err)
	}
	heads, err := c.Reader.Heads(t.Context())
	if err != nil || heads.Final.Height != 16 || heads.Latest.Height != 17 {
		t.Errorf("got %+v, %v, want 16 and 17", heads, err)
	}
}

// newLaggingAs creates another node with the same blocks.
func newLaggingAs(t *testing.T, n *lateSettlingNode) *lateSettlingNode {
	t.Helper()
	other := &lateSettlingNode{t: t, key: n.key, nonce: n.nonce, final: n.final}
	for _, b := range n.blocks {
		c := *b
		c.receipts = nil
		for _, r := range b.receipts {
			copied := map[string]any{}
			for k, v := range r {
				copied[k] = v
			}
			c.receipts = append(c.receipts, copied)
		}
		c.txs = append([]map[string]any{}, b.txs...)
		other.blocks = append(other.blocks, &c)
	}
	return other
}

// One node can neither change a result nor move it to another transaction, nor invent the settling
// block.
func TestResultsOfAvalancheCannotBeMadeUp(t *testing.T) {
	t.Parallel()
	key, _ := keyOfTests(t)
	for name, lie := range map[string]func(n *lateSettlingNode){
		"a failure for a success":   func(n *lateSettlingNode) { n.at(12).receipts[0]["status"] = "0x0" },
		"of a block settled beside": func(n *lateSettlingNode) { n.at(13).receipts[0]["status"] = "0x0" },
		"a receipt moved on": func(n *lateSettlingNode) {
			moved := n.at(12).receipts[1]
			n.at(12).receipts = n.at(12).receipts[:1]
			n.at(13).receipts = append([]map[string]any{moved}, n.at(13).receipts...)
		},
		"a transaction moved on": func(n *lateSettlingNode) {
			n.at(13).txs = append(n.at(12).txs[1:], n.at(13).txs...)
			n.at(12).txs, n.at(12).receipts = n.at(12).txs[:1], n.at(12).receipts[:1]
		},
		"a block that settles": func(n *lateSettlingNode) {
			n.at(12).receipts[0]["status"] = "0x0"
			was := n.blocks
			n.blocks = n.blocks[:4]
			n.add(13)
			n.blocks = append(n.blocks, was[5:]...)
		},
		"a part of what is settled": func(n *lateSettlingNode) { n.at(14).fields.SettledExcess = nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newLagging(t, key)
			liar := newLaggingAs(t, n)
			lie(liar)
			if got, err := openLagging(t, liar).Reader.Final(t.Context(), 12); err == nil &&
				name != "a block that settles" {
				t.Errorf("alone: got %q, want an error", arrived(got))
			}
			if got, err := openLagging(t, liar, n).Reader.Final(t.Context(), 12); err == nil &&
				arrived(got) != "100 200" {
				t.Errorf("beside an honest one: got %q, want what happened or an error", arrived(got))
			}
			if got, err := openLagging(t, n, liar, newLaggingAs(t, n)).Reader.Final(t.Context(), 12); err == nil &&
				arrived(got) != "100 200" {
				t.Errorf("the second of three: got %q, want what happened", arrived(got))
			}
		})
	}
}

// Two of three are enough, and the third, which has invented the settling block, is asked first.
func TestTheBlockThatSettlesIsAgreedUpon(t *testing.T) {
	t.Parallel()
	key, _ := keyOfTests(t)
	n := newLagging(t, key)
	liar := newLaggingAs(t, n)
	liar.at(12).receipts[0]["status"] = "0x0"
	was := liar.blocks
	liar.blocks = liar.blocks[:4]
	liar.add(13)
	liar.blocks = append(liar.blocks, was[5:]...)
	urls := []string{liar.serve(), n.serve(), newLaggingAs(t, n).serve()}
	// For recent blocks the first provider is asked first, for final ones those that agreed.
	for name, read := range map[string]func(chain.Reader) (chain.Contents, error){
		"recent": func(r chain.Reader) (chain.Contents, error) { return r.Recent(t.Context(), 12) },
		"final":  func(r chain.Reader) (chain.Contents, error) { return r.Final(t.Context(), 12) },
	} {
		c, err := New(t.Context(), Config{
			Name: chain.Avalanche, Network: chain.Local, ChainID: chainIDOfTests, Endpoints: urls, Quorum: 2,
			FeeCap: money.Units(1_000_000), TipCap: money.Units(1_000_000), Trace: TraceOff,
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := read(c.Reader); err != nil || arrived(got) != "100 200" {
			t.Errorf("%s: got %q, %v, want what happened", name, arrived(got), err)
		}
	}
}

// No header has the cost of gas, so as many providers have to report the same, and it is never more
// than the header and the transaction allow.
func TestAFeeOfAvalancheIsWhatEnoughProvidersSay(t *testing.T) {
	t.Parallel()
	key, _ := keyOfTests(t)
	n := newLagging(t, key)
	hash := chain.TxHash(n.at(12).txs[0]["hash"].(string))
	got, err := openLagging(t, n, newLaggingAs(t, n)).Sender.Outcome(t.Context(), []chain.TxHash{hash})
	if want := money.Units(21_000 * (baseTaken + 2)); err != nil || got == nil || got.Fee != want || !got.Succeeded ||
		got.Block.Height != 12 {
		t.Fatalf("got %+v, %v, want a fee of %v in block 12", got, err, want)
	}
	for price, want := range map[uint64]error{
		baseTaken + 3: chain.ErrDisagreement,
		baseMost + 3:  chain.ErrUndecodable,
	} {
		other := newLaggingAs(t, n)
		other.at(12).receipts[0]["effectiveGasPrice"] = hexutil.Uint64(price)
		got, err := openLagging(t, n, other).Sender.Outcome(t.Context(), []chain.TxHash{hash})
		if err == nil || !errors.Is(err, chain.ErrDisagreement) && !errors.Is(err, want) {
			t.Errorf("a price of %d: got %s, %v, want %v", price, fmt.Sprint(got), err, want)
		}
	}
	// A lagging provider, with neither the block nor the settling one, changes nothing.
	behind := newLaggingAs(t, n)
	behind.blocks = behind.blocks[:3]
	behind.final = 11
	if got, err := openLagging(t, n, behind).Sender.Outcome(t.Context(), []chain.TxHash{hash}); got != nil ||
		!errors.Is(err, chain.ErrNotYet) {
		t.Errorf("one lags: got %+v, %v, want not yet", got, err)
	}
	behind.blocks = behind.blocks[:2]
	late := chain.TxHash(n.at(16).txs[0]["hash"].(string))
	if got, err := openLagging(t, n, behind).Sender.Outcome(t.Context(), []chain.TxHash{late}); got != nil ||
		err == nil {
		t.Errorf("nowhere with one, not settled with the other: got %+v, %v, want an error", got, err)
	}
	if got, err := openLagging(t, n).Sender.Outcome(t.Context(), []chain.TxHash{late}); got != nil ||
		!errors.Is(err, chain.ErrNotYet) {
		t.Errorf("not settled: got %+v, %v, want not yet", got, err)
	}
}
