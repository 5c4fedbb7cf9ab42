package evm

import (
	"bufio"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
)

// heapMax is how much memory more may be in use while an answer of more than
// answerBytesMaxDefault is read.
const heapMax = 32 << 20

// heap watches how much memory is in use. It measures the whole process, so its tests run alone,
// before the parallel ones. It is safe for concurrent use: a repeated request is answered while the
// first answer is still written.
type heap struct {
	base uint64
	mu   sync.Mutex
	peak uint64
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func watchHeap() *heap { return &heap{base: inUse()} }

func (h *heap) look() {
	now := inUse()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.peak = max(h.peak, now)
}

func (h *heap) check(t *testing.T, what string, read int) {
	t.Helper()
	h.look()
	if read <= answerBytesMaxDefault {
		t.Errorf("%s: the answer had %d MB, want more than what is held of one", what, read>>20)
	}
	if more := h.peak - min(h.base, h.peak); more > heapMax {
		t.Errorf("%s: got %d MB in use for an answer of %d MB, want at most %d", what, more>>20, read>>20, heapMax>>20)
	}
}

// signedCall returns a call of a contract by a key, with so much data.
func signedCall(t *testing.T, n *scriptedNode, nonce uint64, data []byte) (m map[string]any, encoded []byte) {
	t.Helper()
	signed := types.MustSignNewTx(n.key, types.LatestSignerForChainID(big.NewInt(chainIDOfTests)), &types.DynamicFeeTx{
		ChainID: big.NewInt(chainIDOfTests), Nonce: nonce, To: &elsewhere, Gas: 1_000_000_000, GasTipCap: big.NewInt(1),
		GasFeeCap: big.NewInt(1000), Data: data,
	})
	text, err := signed.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	if encoded, err = signed.MarshalBinary(); err != nil {
		t.Fatal(err)
	}
	m["raw"] = hexutil.Encode(encoded)
	return m, encoded
}

// A log costs 375 gas and makes an answer some 400 characters longer, so a sender that fills a
// block with logs decides how long its receipts are.
func TestABlockFullOfLogsIsReadInLittleMemory(t *testing.T) {
	const logs = 220_000
	n := newNode(t)
	n.key, _ = keyOfTests(t)
	spam := &types.Log{Address: elsewhere, Topics: []common.Hash{}}
	came := event(common.HexToAddress("0x7070"), oursOfTests, 42)
	all := make([]*types.Log, logs, logs+1)
	for i := range all {
		all[i] = spam
	}
	all = append(all, came)
	m, _ := signedCall(t, n, 0, []byte{1})
	hash := n.add(m, nil, true, logs*400)
	n.header.GasUsed, n.header.GasLimit = n.gas, 400_000_000
	encoded, err := (&types.Receipt{
		Type: types.DynamicFeeTxType, Status: 1, CumulativeGasUsed: n.gas,
		Logs: all,
	}).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	root := rootOf(plainList{encoded})
	n.receiptRoot = &root
	place := fmt.Sprintf(`"blockNumber":"0x7","transactionHash":%q,"transactionIndex":"0x0","blockHash":%q,"blockTimestamp":"0x6553f100","logIndex":"0x2a","removed":false}`,
		hash, common.Hash{1})
	doc := fmt.Sprintf(`{"address":%q,"topics":[],"data":"0x",`, elsewhere) + place
	text, err := json.Marshal(came)
	if err != nil {
		t.Fatal(err)
	}
	watched, wrote := watchHeap(), 0
	n.streams = map[string]func(*bufio.Writer,
		[]json.RawMessage){"eth_getBlockReceipts": func(w *bufio.Writer, _ []json.RawMessage) {
		_, _ = w.WriteString(`[{"logs":[`)
		for i := range logs {
			k, _ := w.WriteString(doc + ",") // the caller may have disconnected
			if wrote += k; i%20_000 == 0 {
				watched.look()
			}
		}
		fmt.Fprintf(w,
			`%s],"type":"0x2","status":"0x1","cumulativeGasUsed":%q,"gasUsed":%q,"logsBloom":"%#x","transactionHash":%q}]`,
			text, hexutil.Uint64(n.gas), hexutil.Uint64(n.gas), types.Bloom{}, hash)
	}}
	c := openStack(t, chain.Ethereum, TraceOff, n.serve())
	got, err := c.Reader.Final(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	wantMoved(t, got, "TOKEN 0000>11ce 42")
	if tr := got.Transfers[0]; tr.LogIndex != logs || tr.Position != fmt.Sprint(logs) ||
		tr.Contract != evmtx.Canonical(came.Address) {
		t.Errorf("got %+v, want the last log", tr)
	}
	watched.check(t, "receipts", wrote)
	runtime.KeepAlive(c)
}

func TestABlockFullOfDataIsReadInLittleMemory(t *testing.T) {
	const calls, bytesOfEach = 300, 128 << 10
	n := newNode(t)
	n.key, _ = keyOfTests(t)
	data := make([]byte, bytesOfEach)
	// The input is the same in all of them, and is inserted where they are written.
	var input any
	bare := make([]map[string]any, calls)
	var root listRoot
	for i := range calls {
		m, encoded := signedCall(t, n, uint64(i), data)
		root.addItem(encoded)
		input = m["input"]
		delete(m, "input")
		bare[i] = maps.Clone(m)
		delete(bare[i], "raw")
		n.add(m, nil, true, 2_000_000)
		delete(m, "raw")
	}
	n.list = nil
	txRoot := root.rootHash()
	n.txRoot = &txRoot
	n.pay(n.key, calls, oursOfTests, 77, 3)
	n.list, n.txs, n.receipts = nil, n.txs[:calls], n.receipts[:calls]
	n.header.GasUsed, n.header.GasLimit = n.gas, 1_000_000_000
	watched := watchHeap()
	var wrote atomic.Int64 // bytes of the last answer
	n.streams = map[string]func(*bufio.Writer,
		[]json.RawMessage){"eth_getBlockByHash": func(w *bufio.Writer, _ []json.RawMessage) {
		head, err := json.Marshal(&n.header)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(head[:len(head)-1]) // the caller may have disconnected
		_, _ = w.WriteString(`,"transactions":[`)
		sent := 0
		for i := range calls {
			m := maps.Clone(bare[i])
			m["input"] = input
			text, err := json.Marshal(m)
			if err != nil {
				t.Error(err)
			}
			if i > 0 {
				_ = w.WriteByte(',')
			}
			k, _ := w.Write(text)
			if sent += k; i%30 == 0 {
				watched.look()
			}
		}
		_, _ = w.WriteString(`]}`)
		wrote.Store(int64(sent))
	}}
	c := openStack(t, chain.Ethereum, TraceOff, n.serve())
	got, err := c.Reader.Final(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Fees) != 1 || len(got.Transfers) != 0 {
		t.Errorf("got %+v, want the calls", got)
	}
	watched.check(t, "transactions", int(wrote.Load()))
	runtime.KeepAlive(c)
}

// partly returns a block of many payments and a call with an event.
func partly(t *testing.T) *scriptedNode {
	n := newNode(t)
	n.key, _ = keyOfTests(t)
	const payments = 205 // two batches and a part of one
	for i := range payments {
		n.pay(n.key, uint64(i), elsewhere, int64(i+1), 3)
	}
	m, _ := signedCall(t, n, payments, []byte{1})
	n.add(m, nil, true, 60_000, event(common.HexToAddress("0x6060"), elsewhere, 41),
		event(common.HexToAddress("0x7070"), oursOfTests, 42))
	n.header.GasUsed = n.gas
	n.answers["eth_getTransactionByBlockHashAndIndex"] = func(params []json.RawMessage) any {
		return n.txs[hexutil.MustDecodeUint64(string(params[1][1:len(params[1])-1]))]
	}
	return n
}

// refusals are the ways in which providers report that an answer is too long, or return a part of
// it.
var refusals = map[string]func(w http.ResponseWriter, id json.RawMessage){
	"geth":    func(w http.ResponseWriter, id json.RawMessage) { refuse(w, id, -32003, "response too large") },
	"reth":    func(w http.ResponseWriter, id json.RawMessage) { refuse(w, id, -32008, "Response is too big") },
	"a proxy": func(w http.ResponseWriter, _ json.RawMessage) { w.WriteHeader(http.StatusRequestEntityTooLarge) },
	"another": func(w http.ResponseWriter, id json.RawMessage) {
		refuse(w, id, -32000, "The response size should not be greater than 150 MB")
	},
	"cut off": func(w http.ResponseWriter, id json.RawMessage) {
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`, id)
		if f, ok := w.(http.Flusher); ok {
			f.Flush()
		}
		panic(http.ErrAbortHandler)
	},
}

func refuse(w http.ResponseWriter, id json.RawMessage, code int, message string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"jsonrpc": "2.0", "id": id,
		"error": map[string]any{"code": code, "message": message},
	})
}

func TestABlockThatIsNotGivenWholeIsReadInParts(t *testing.T) {
	t.Parallel()
	n := partly(t)
	want, err := openStack(t, chain.Ethereum, TraceOff, n.serve()).Reader.Final(t.Context(), 7)
	if err != nil || len(want.Transfers) != 207 {
		t.Fatalf("whole: got %d transfers, %v, want 207", len(want.Transfers), err)
	}
	for name, refusal := range refusals {
		for _, batchMax := range []int{0, 30, 3} {
			n := partly(t)
			n.refuse = map[string]func(http.ResponseWriter,
				json.RawMessage){
				"eth_getBlockByHash": refusal, "eth_getBlockByNumber": refusal,
				"eth_getBlockReceipts": refusal,
			}
			n.batchMax = batchMax
			c := openStack(t, chain.Ethereum, TraceOff, n.serve())
			for what, read := range map[string]func() (chain.Contents, error){
				"final":  func() (chain.Contents, error) { return c.Reader.Final(t.Context(), 7) },
				"recent": func() (chain.Contents, error) { return c.Reader.Recent(t.Context(), 7) },
			} {
				got, err := read()
				if err != nil || len(got.Transfers) != len(want.Transfers) || got.Transfers[206].LogIndex != 1 ||
					got.Transfers[206].Amount != want.Transfers[206].Amount {
					t.Errorf("%s, %d at once, %s: got %d transfers, %v, want %d", name, batchMax, what,
						len(got.Transfers), err, len(want.Transfers))
				}
			}
		}
	}
}

func TestAPartThatIsWrongIsAnError(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(n *scriptedNode){
		"a receipt that failed": func(n *scriptedNode) { n.receipts[9]["status"] = "0x0" },
		"a receipt of another": func(n *scriptedNode) {
			n.receipts[9]["transactionHash"] = n.receipts[10]["transactionHash"]
		},
		"no receipt":          func(n *scriptedNode) { n.receipts[9]["transactionHash"] = common.Hash{1} },
		"another transaction": func(n *scriptedNode) { n.txs[9] = n.txs[10] },
		"no transaction":      func(n *scriptedNode) { n.txs[9] = nil },
	} {
		n := partly(t)
		n.refuse = map[string]func(http.ResponseWriter,
			json.RawMessage){"eth_getBlockByHash": refusals["geth"], "eth_getBlockReceipts": refusals["geth"]}
		c := openStack(t, chain.Ethereum, TraceOff, n.serve())
		change(n)
		if got, err := c.Reader.Final(t.Context(), 7); err == nil {
			t.Errorf("%s: got %d transfers, want an error", name, len(got.Transfers))
		}
	}
}
