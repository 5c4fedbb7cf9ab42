package evm

import (
	"bufio"
	"crypto/ecdsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
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
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/money"
)

// A block of Arbitrum One as one of its nodes returns it.
func TestARealBlockOfArbitrumGivesItsHashAndItsRoot(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("testdata/arbitrum-0x14e8a59a.json")
	if err != nil {
		t.Fatal(err)
	}
	h, hash, err := arbitrum.readHeader(raw)
	if err != nil {
		t.Fatal(err)
	}
	a := &adapter{stack: arbitrum, signer: types.LatestSignerForChainID(big.NewInt(42161))}
	s := &verifiedBlock{hash: hash, header: h, stack: arbitrum}
	b := txReader{a: a, hash: hash}
	if _, err := b.readDocument(t.Context(), newRawReader(raw)); err != nil || len(b.txs) != 4 ||
		b.root.rootHash() != h.TxHash || s.paysTips() {
		t.Fatalf("got %d transactions, tipped %v, %v, want 4 without tips", len(b.txs), s.paysTips(), err)
	}
	s.txs = b.txs
	if s.txs[0].signed != nil || !s.txs[0].hasNoCalls || s.txs[1].signed == nil {
		t.Errorf("got %+v, want the first one to be the chain's own", s.txs[0])
	}
}

// The first part of a block of OP Mainnet, as one of its nodes returns it.
func TestARealDepositTransactionGivesItsHash(t *testing.T) {
	t.Parallel()
	const raw = `{"blockHash":"0x9d86bb313ebeedf4f9f82bf8a19b426be656a365648a7c089b618771311db9f9","blockNumber":"0x798ad0b","hash":"0xbc9329afac05556497441e2b3ee4c5d4da7ca0b2a4c212c212d0739e94a24df9","transactionIndex":"0x0","type":"0x7e","nonce":"0x152ea95","input":"0x440a5e200000146b000f79c50000000000000003000000006725333f000000000141e287000000000000000000000000000000000000000000000000000000012439ee7e0000000000000000000000000000000000000000000000000000000063f363e973e96e7145ff001c81b9562cba7b6104eeb12a2bc4ab9f07c27d45cd81a986620000000000000000000000006887246668a3b87f54deb3b94ba47a6f63f32985","mint":"0x0","sourceHash":"0x04e9a69416471ead93b02f0c279ab11ca0b635db5c1726a56faf22623bafde52","r":"0x0","s":"0x0","v":"0x0","yParity":"0x0","gas":"0xf4240","from":"0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001","to":"0x4200000000000000000000000000000000000015","depositReceiptVersion":"0x1","value":"0x0","gasPrice":"0x0"}`
	var m systemTxJSON
	if err := json.Unmarshal([]byte(raw), &m); err != nil {
		t.Fatal(err)
	}
	if got, _, err := m.readSystemTx(optimism); err != nil || got == nil || got.value.Sign() != 0 || got.signed != nil {
		t.Errorf("got %+v, %v, want the transaction", got, err)
	}
	m.Value = (*hexutil.Big)(big.NewInt(1))
	if got, _, err := m.readSystemTx(optimism); err == nil {
		t.Errorf("with another value: got %+v, want an error", got)
	}
	if got, _, err := m.readSystemTx(arbitrum); err != nil || got != nil {
		t.Errorf("on another stack: got %+v, %v, want nothing of it", got, err)
	}
}

// The first part of block 35535698 of Unichain's test network, an OP stack.
func TestRealReceiptsOfTheOPStackGiveTheirRoot(t *testing.T) {
	t.Parallel()
	bloom := "0x" + strings.Repeat("00", types.BloomByteLength)
	r := newRawReader([]byte(`[
		{"type":"0x7e","status":"0x1","cumulativeGasUsed":"0xb41c","gasUsed":"0xb41c","logs":[],"logsBloom":"` + bloom + `","depositNonce":"0x21e3b52","depositReceiptVersion":"0x1",
		 "transactionHash":"0x613834aaeeb676fb45e312531c0cac40485a2c1b7b8ad8d648e5034dddfb5f03"},
		{"type":"0x2","status":"0x1","cumulativeGasUsed":"0x10994","gasUsed":"0x5578","logs":[],"logsBloom":"` + bloom + `",
		 "transactionHash":"0x89f7852587dca7dd2f31b02f3a93f47669a82784025d607ec7c336b66af84a19"}]`))
	var root listRoot
	if err := r.readItems(func(int) error {
		_, encoded, err := r.readReceipt()
		root.addItem(encoded)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	want := common.HexToHash("0x91d8ad10740ccfc1bd848fba0e02668d95769c08eeea30f10698692ba86c6159")
	if got := root.rootHash(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// scriptedNode is a provider with one block, which it reports as latest and final. The block was
// written by hand in the form of the nodes of its stack.
type scriptedNode struct {
	t        *testing.T
	mu       sync.Mutex
	header   types.Header
	txs      []map[string]any
	list     plainList // the list that the root covers
	receipts []map[string]any
	left     []map[string]any // receipts that no root covers
	answers  map[string]func(params []json.RawMessage) any
	gas      uint64

	// Replacements for lists that are too long for a test.
	txRoot, receiptRoot *common.Hash
	streams             map[string]func(w *bufio.Writer, params []json.RawMessage)
	batchMax            int // how many questions it answers at once; 0: any number
	key                 *ecdsa.PrivateKey
	// refuse answers single questions about a whole block instead.
	refuse map[string]func(w http.ResponseWriter, id json.RawMessage)
}

func newNode(t *testing.T) *scriptedNode {
	return &scriptedNode{t: t, answers: map[string]func([]json.RawMessage) any{}, header: types.Header{
		Number: big.NewInt(7), Difficulty: new(big.Int), BaseFee: big.NewInt(10), Time: 1_700_000_000,
		UncleHash: types.EmptyUncleHash,
	}}
}

const chainIDOfTests = 31337

// add adds a transaction to the block, with the list of fields whose hash it has when no key signed
// it.
func (n *scriptedNode) add(m map[string]any, fields []any, ok bool, gas uint64, logs ...*types.Log) common.Hash {
	kind := byte(hexutil.MustDecodeUint64(m["type"].(string)))
	var raw []byte
	if fields != nil {
		body, err := rlp.EncodeToBytes(fields)
		if err != nil {
			n.t.Fatal(err)
		}
		raw = append([]byte{kind}, body...)
		m["hash"] = crypto.Keccak256Hash(raw).Hex()
	} else {
		raw = hexutil.MustDecode(m["raw"].(string))
	}
	n.txs = append(n.txs, m)
	n.list = append(n.list, raw)
	status := uint64(0)
	if ok {
		status = 1
	}
	n.gas += gas
	if logs == nil {
		logs = []*types.Log{}
	}
	n.receipts = append(n.receipts, map[string]any{
		"type": m["type"], "status": hexutil.Uint64(status), "cumulativeGasUsed": hexutil.Uint64(n.gas),
		"gasUsed": hexutil.Uint64(gas),
		"logs":    logs, "logsBloom": types.Bloom{}, "transactionHash": m["hash"],
		"transactionIndex": hexutil.Uint64(len(n.receipts)),
	})
	return common.HexToHash(m["hash"].(string))
}

// pay adds an ordinary transfer.
func (n *scriptedNode) pay(key *ecdsa.PrivateKey, nonce uint64, to common.Address, value, tip int64) common.Hash {
	signed := types.MustSignNewTx(key, types.LatestSignerForChainID(big.NewInt(chainIDOfTests)), &types.DynamicFeeTx{
		ChainID: big.NewInt(chainIDOfTests), Nonce: nonce, To: &to, Value: big.NewInt(value), Gas: 21_000,
		GasTipCap: big.NewInt(tip), GasFeeCap: big.NewInt(1000),
	})
	b, err := signed.MarshalJSON()
	if err != nil {
		n.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		n.t.Fatal(err)
	}
	raw, err := signed.MarshalBinary()
	if err != nil {
		n.t.Fatal(err)
	}
	m["raw"] = hexutil.Encode(raw)
	return n.add(m, nil, true, 21_000)
}

// serve answers with the present block.
func (n *scriptedNode) serve() string {
	n.t.Helper()
	marshal := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			n.t.Fatal(err)
		}
		return b
	}
	if n.header.TxHash = rootOf(n.list); n.txRoot != nil {
		n.header.TxHash = *n.txRoot
	}
	receipts, err := plainReceipts(marshal(n.receipts))
	if err != nil {
		n.t.Fatal(err)
	}
	if n.header.ReceiptHash = rootOf(receipts); n.receiptRoot != nil {
		n.header.ReceiptHash = *n.receiptRoot
	}
	var block map[string]any
	if err := json.Unmarshal(marshal(&n.header), &block); err != nil {
		n.t.Fatal(err)
	}
	block["hash"], block["transactions"] = n.header.Hash().Hex(), n.txs
	answer := func(method string, params []json.RawMessage) any {
		n.mu.Lock()
		defer n.mu.Unlock()
		if f := n.answers[method]; f != nil {
			return f(params)
		}
		switch method {
		case "eth_chainId":
			return hexutil.Uint64(chainIDOfTests)
		case "eth_getBlockByNumber", "eth_getBlockByHash":
			if len(params) > 1 && string(params[1]) == "false" {
				bare := maps.Clone(block)
				var hashes []any
				for _, r := range n.receipts {
					hashes = append(hashes, r["transactionHash"])
				}
				bare["transactions"] = hashes
				return bare
			}
			return block
		case "eth_getBlockReceipts":
			return append(append([]map[string]any{}, n.receipts...), n.left...)
		case "eth_getTransactionReceipt":
			for _, r := range n.receipts {
				if string(params[0]) == fmt.Sprintf("%q", r["transactionHash"]) {
					r["blockHash"] = block["hash"]
					return r
				}
			}
			return nil
		}
		n.t.Errorf("got a question that is not expected: %s %s", method, params)
		return nil
	}
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
			return map[string]any{"jsonrpc": "2.0", "id": q.ID, "result": answer(q.Method, q.Params)}
		}
		w.Header().Set("Content-Type", "application/json")
		var one question
		var many []question
		var said any
		if json.Unmarshal(body, &many) == nil {
			var list []any
			for _, q := range many {
				if n.batchMax > 0 && len(many) > n.batchMax {
					list = append(list, map[string]any{
						"jsonrpc": "2.0", "id": q.ID,
						"error": map[string]any{"code": -32003, "message": "response too large"},
					})
					continue
				}
				list = append(list, reply(q))
			}
			said = list
		} else if err := json.Unmarshal(body, &one); err == nil {
			whole := len(one.Params) < 2 || string(one.Params[1]) == "true"
			if refuse := n.refuse[one.Method]; refuse != nil && whole {
				refuse(w, one.ID)
				return
			}
			if stream := n.streams[one.Method]; stream != nil {
				out := bufio.NewWriter(w)
				fmt.Fprintf(out, `{"jsonrpc":"2.0","id":%s,"result":`, one.ID)
				stream(out, one.Params)
				_, _ = out.WriteString(`}`)
				_ = out.Flush() // the caller may have disconnected
				return
			}
			said = reply(one)
		}
		_ = json.NewEncoder(w).Encode(said) // the caller may have disconnected
	}))
	n.t.Cleanup(srv.Close)
	return srv.URL
}

func openStack(t *testing.T, name chain.Name, trace Tracing, urls ...string) chain.Chain {
	t.Helper()
	c, err := New(t.Context(), Config{
		Name: name, Network: chain.Local, ChainID: chainIDOfTests, Endpoints: urls, Quorum: len(urls),
		FeeCap: money.Units(1_000_000), TipCap: money.Units(1_000_000), Trace: trace,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	oursOfTests = common.HexToAddress("0x00000000000000000000000000000000000a11CE")
	elsewhere   = common.HexToAddress("0x00000000000000000000000000000000000B0B00")
	requestOf   = common.HexToHash("0x11")
)

func keyOfTests(t *testing.T) (*ecdsa.PrivateKey, common.Address) {
	t.Helper()
	k, err := crypto.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k, crypto.PubkeyToAddress(k.PublicKey)
}

// moved returns the movements of a block, in its order.
func moved(c chain.Contents) (found []string) {
	for _, tr := range c.Transfers {
		found = append(found, fmt.Sprintf("%s %s>%s %v", tr.Kind, short4(tr.From), short4(tr.To), tr.Amount))
	}
	return found
}

func short4(a chain.Address) string { return strings.ToLower(string(a[len(a)-4:])) }

func wantMoved(t *testing.T, c chain.Contents, want ...string) {
	t.Helper()
	if got := moved(c); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// opBlock is a block of the OP stack: its system transaction, a deposit from the layer below to us,
// one that failed, and a payment of ours with a fee for its data.
func opBlock(t *testing.T, key *ecdsa.PrivateKey) (n *scriptedNode, paid common.Hash) {
	n = newNode(t)
	deposit := func(source byte, to common.Address, mint, value int64, system, ok bool) {
		from := common.HexToAddress("0xdeaddeaddeaddeaddeaddeaddeaddeaddead0001")
		m := map[string]any{
			"type": "0x7e", "sourceHash": common.Hash{source}, "from": from, "to": to,
			"value": (*hexutil.Big)(big.NewInt(value)), "gas": "0xf4240",
			"input": "0x01", "nonce": "0x5", "gasPrice": "0x0", "r": "0x0", "s": "0x0", "v": "0x0",
			"depositReceiptVersion": "0x1",
		}
		// As op-geth writes them: left out if empty.
		if mint > 0 {
			m["mint"] = (*hexutil.Big)(big.NewInt(mint))
		}
		if system {
			m["isSystemTx"] = true
		}
		n.add(m, []any{
			common.Hash{source},
			from, to, big.NewInt(mint), big.NewInt(value), uint64(1_000_000), system,
			[]byte{1},
		}, ok, 50_000)
		r := n.receipts[len(n.receipts)-1]
		r["depositNonce"], r["depositReceiptVersion"] = "0x5", "0x1"
	}
	deposit(1, common.HexToAddress("0x4200000000000000000000000000000000000015"), 0, 0, true, true)
	deposit(2, oursOfTests, 500, 500, false, true)
	deposit(3, oursOfTests, 900, 900, false, false)
	paid = n.pay(key, 0, elsewhere, 77, 3)
	r := n.receipts[len(n.receipts)-1]
	r["l1Fee"], r["operatorFeeScalar"], r["operatorFeeConstant"] = "0x3e8", "0x0", "0x2" // 1000 and 2
	return n, paid
}

func TestOnTheOPStackDepositsFromBelowAreCountedAndFeesForDataToo(t *testing.T) {
	t.Parallel()
	key, from := keyOfTests(t)
	n, paid := opBlock(t, key)
	c := openStack(t, chain.Base, TraceOff, n.serve())
	got, err := c.Reader.Final(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	wantMoved(t, got, "NATIVE 0001>11ce 500", "NATIVE "+short4(evmtx.Canonical(from))+">0b00 77")
	want := money.Units(21_000*13 + 1002)
	for _, f := range got.Fees {
		switch {
		case f.Payer == evmtx.Canonical(from) && f.Amount != want:
			t.Errorf("got a fee of %v, want %v: its gas, its data and its operator", f.Amount, want)
		case f.Payer != evmtx.Canonical(from) && !f.Amount.IsZero():
			t.Errorf("got %+v, want deposits to be free here", f)
		}
	}
	o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{txHash(paid)}, chain.Payment{
		From: evmtx.Canonical(from), To: evmtx.Canonical(elsewhere), Amount: money.Units(77),
	})
	if err != nil || o == nil || !o.Paid || o.Fee != want {
		t.Errorf("got %+v, %v, want it paid with a fee of %v", o, err, want)
	}
}

// No root covers what a transaction costs for its data. One provider's word would enter the books.
func TestOneProviderCannotInventTheFeeForData(t *testing.T) {
	t.Parallel()
	key, _ := keyOfTests(t)
	honest, paid := opBlock(t, key)
	liar, _ := opBlock(t, key)
	liar.receipts[3]["l1Fee"] = "0x1"
	third, _ := opBlock(t, key)
	urls := []string{liar.serve(), honest.serve(), third.serve()}
	want := money.Units(21_000*13 + 1002)
	c := openStack(t, chain.Base, TraceOff, urls[:2]...)
	if o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{txHash(paid)}); !errors.Is(err, chain.ErrDisagreement) {
		t.Errorf("one against one: got %+v, %v, want ErrDisagreement", o, err)
	}
	for _, agree := range []int{1, 2} {
		c, err := New(t.Context(), Config{
			Name: chain.Base, Network: chain.Local, ChainID: chainIDOfTests, Endpoints: urls, Quorum: agree,
			FeeCap: money.Units(1_000_000), TipCap: money.Units(1_000_000), Trace: TraceOff,
		})
		if err != nil {
			t.Fatal(err)
		}
		if o, err := c.Sender.Outcome(t.Context(), []chain.TxHash{txHash(paid)}); err != nil || o == nil ||
			o.Fee != want {
			t.Errorf("two against one, %d have to agree: got %+v, %v, want a fee of %v", agree, o, err, want)
		}
	}
}

func TestOnTheOPStackAQuoteHasRoomForTheFeeForData(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	oracle := hexutil.MustDecode("0xf1c7a58b") // getL1FeeUpperBound(uint256)
	n.answers["eth_feeHistory"] = func([]json.RawMessage) any {
		return map[string]any{"baseFeePerGas": []string{"0xa", "0xa"}, "reward": [][]string{{"0x0"}}}
	}
	n.answers["eth_call"] = func(params []json.RawMessage) any {
		var asked struct {
			To   common.Address `json:"to"`
			Data hexutil.Bytes  `json:"data"`
		}
		if err := json.Unmarshal(params[0], &asked); err != nil || asked.To != opGasOracle || len(asked.Data) != 36 {
			t.Errorf("got %s, want the oracle to be asked", params[0])
		}
		price := common.BigToHash(big.NewInt(30))
		if string(asked.Data[:4]) == string(oracle) {
			price = common.BigToHash(big.NewInt(1000))
		}
		return price
	}
	c := openStack(t, chain.Base, TraceOff, n.serve())
	fees, err := c.Sender.TransferFees(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	most, err := fees.Max()
	gas, _ := fees.FeeCap.Mul(fees.GasLimit)
	want, _ := gas.Add(money.Units(2060))
	if err != nil || most != want {
		t.Errorf("got %v, %v, want %v: its gas and twice what the oracle says", most, err, want)
	}
	n.mu.Lock()
	n.answers["eth_call"] = func([]json.RawMessage) any { return "0x" }
	n.mu.Unlock()
	if fees, err := c.Sender.TransferFees(t.Context()); err == nil {
		t.Errorf("without an oracle: got %+v, want an error", fees)
	}
}

func TestOnArbitrumTheChainsOwnTransactionsAreReadAndTipsAreNotPaid(t *testing.T) {
	t.Parallel()
	key, from := keyOfTests(t)
	for _, tips := range []bool{false, true} {
		n := newNode(t)
		n.header.Difficulty, n.header.MixDigest[23] = big.NewInt(1), 40 // the version of its system transaction
		if tips {
			n.header.MixDigest[25] = 1
		}
		id, alias := big.NewInt(chainIDOfTests), common.HexToAddress("0xA1A5")
		common0 := func(kind string, from common.Address, to any, value int64) map[string]any {
			return map[string]any{
				"type": kind, "chainId": (*hexutil.Big)(id), "from": from, "to": to,
				"value": (*hexutil.Big)(big.NewInt(value)),
				"gas":   "0x0", "gasPrice": "0x0", "nonce": "0x0", "input": "0x", "v": "0x0", "r": "0x0", "s": "0x0",
			}
		}
		arbos := common.HexToAddress("0xa4b05")
		internal := common0("0x6a", arbos, arbos, 0)
		internal["input"] = "0x6bf6a42d"
		n.add(internal, []any{id, hexutil.MustDecode("0x6bf6a42d")}, true, 0)

		deposit := common0("0x64", alias, oursOfTests, 700)
		deposit["requestId"] = requestOf
		n.add(deposit, []any{id, requestOf, alias, oursOfTests, big.NewInt(700)}, true, 0)

		submit := common0("0x69", alias, common.HexToAddress("0x6e"), 0)
		for k, v := range map[string]any{
			"requestId": requestOf, "l1BaseFee": "0x9", "depositValue": "0x400", "maxFeePerGas": "0x64",
			"gas": "0x186a0", "retryTo": oursOfTests,
			"retryValue": "0x12c", "beneficiary": alias, "maxSubmissionFee": "0x5", "refundTo": elsewhere,
			"retryData": "0x",
		} {
			submit[k] = v
		}
		n.add(submit, []any{
			id, requestOf, alias, big.NewInt(9), big.NewInt(0x400), big.NewInt(100), uint64(100_000), oursOfTests,
			big.NewInt(300),
			alias, big.NewInt(5), elsewhere,
			[]byte{},
		}, true, 100_000)

		retry := common0("0x68", alias, oursOfTests, 300)
		for k, v := range map[string]any{
			"nonce": "0x1", "maxFeePerGas": "0x64", "gas": "0x186a0", "ticketId": requestOf, "refundTo": elsewhere,
			"maxRefund": "0x7", "submissionFeeRefund": "0x3",
		} {
			retry[k] = v
		}
		n.add(retry, []any{
			id, uint64(1), alias, big.NewInt(100), uint64(100_000), oursOfTests, big.NewInt(300),
			[]byte{},
			requestOf,
			elsewhere, big.NewInt(7), big.NewInt(3),
		}, true, 30_000)

		contract := common0("0x66", alias, oursOfTests, 11)
		contract["requestId"], contract["gasPrice"], contract["gas"] = requestOf, "0x64", "0x186a0"
		n.add(contract, []any{
			id, requestOf, alias, big.NewInt(100), uint64(100_000), oursOfTests, big.NewInt(11),
			[]byte{},
		}, true, 30_000)

		unsigned := common0("0x65", alias, oursOfTests, 13)
		unsigned["nonce"], unsigned["gasPrice"], unsigned["gas"] = "0x2", "0x64", "0x186a0"
		n.add(unsigned, []any{
			id, alias, uint64(2), big.NewInt(100), uint64(100_000), oursOfTests, big.NewInt(13),
			[]byte{},
		}, true, 30_000)
		n.pay(key, 0, elsewhere, 77, 3)

		c := openStack(t, chain.Arbitrum, TraceOff, n.serve())
		got, err := c.Reader.Final(t.Context(), 7)
		if err != nil {
			t.Fatal(err)
		}
		wantMoved(t, got, "NATIVE a1a5>11ce 700", "NATIVE a1a5>11ce 300", "NATIVE a1a5>11ce 11", "NATIVE a1a5>11ce 13",
			"NATIVE "+short4(evmtx.Canonical(from))+">0b00 77")
		price := uint64(10)
		if tips {
			price = 13
		}
		if fee := got.Fees[len(got.Fees)-1]; fee.Payer != evmtx.Canonical(from) ||
			fee.Amount != money.Units(21_000*price) {
			t.Errorf("tips %v: got %+v, want %d for its gas", tips, fee, 21_000*price)
		}
	}
}

// event returns a token's transfer as a log.
func event(token, to common.Address, units int64) *types.Log {
	return &types.Log{
		Address: token, Topics: []common.Hash{
			transferTopic,
			{},
			common.BytesToHash(to[:]),
		}, Data: common.BigToHash(big.NewInt(units)).Bytes(),
	}
}

func TestOnPolygonWhatComesFromBelowIsReadWithItsBlock(t *testing.T) {
	t.Parallel()
	key, from := keyOfTests(t)
	n := newNode(t)
	token := common.HexToAddress("0x7070")
	n.pay(key, 0, elsewhere, 77, 3)
	n.gas = 30_000 // enough gas that a contract may have run
	n.receipts[0]["cumulativeGasUsed"] = hexutil.Uint64(n.gas)
	sync := map[string]any{
		"type": "0x7f", "from": common.Address{}, "to": common.Address{}, "value": "0x0", "gas": "0x0",
		"gasPrice": "0x0", "nonce": "0x0", "input": "0x",
		"v": "0x0", "r": "0x0", "s": "0x0",
	}
	type event1 struct {
		ID       uint64
		Contract common.Address
		Data     []byte
		Tx       common.Hash
	}
	n.add(sync, []any{event1{5, token, []byte{1, 2}, requestOf}}, true, 0, event(token, oursOfTests, 42),
		event(borNativeToken, oursOfTests, 42))
	raw := hexutil.Bytes(n.list[1])
	n.answers["eth_getRawTransactionByBlockHashAndIndex"] = func([]json.RawMessage) any { return raw }
	n.answers["debug_traceBlockByHash"] = func([]json.RawMessage) any {
		return []any{map[string]any{
			"txHash": n.txs[0]["hash"],
			"result": map[string]any{"type": "CALL", "from": from, "to": elsewhere, "value": "0x4d"},
		}}
	}
	c := openStack(t, chain.Polygon, TraceOn, n.serve())
	got, err := c.Reader.Final(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	wantMoved(t, got, "NATIVE "+short4(evmtx.Canonical(from))+">0b00 77", "TOKEN 0000>11ce 42")
	n.mu.Lock()
	n.answers["eth_getRawTransactionByBlockHashAndIndex"] = func([]json.RawMessage) any {
		return append(raw[:len(raw)-1:len(raw)-1], 9)
	}
	n.mu.Unlock()
	if got, err := openStack(t, chain.Polygon, TraceOn, n.serve()).Reader.Final(t.Context(), 7); err == nil {
		t.Errorf("altered: got %+v, want an error", got)
	}
}

// Before blocks contained deposits from the layer below, nodes showed them after the transactions.
// They cannot be checked, so they are not believed.
func TestOnPolygonWhatNoRootCoversIsNotBelieved(t *testing.T) {
	t.Parallel()
	key, from := keyOfTests(t)
	n := newNode(t)
	n.pay(key, 0, elsewhere, 77, 3)
	n.txs = append(n.txs, map[string]any{
		"type": "0x0", "from": common.Address{}, "to": common.Address{}, "hash": requestOf, "value": "0x0",
		"gas": "0x0", "gasPrice": "0x0",
		"nonce": "0x0", "input": "0x", "v": "0x0", "r": "0x0", "s": "0x0",
	})
	n.left = append(n.left, map[string]any{
		"type": "0x0", "status": "0x1", "cumulativeGasUsed": "0x0", "gasUsed": "0x0",
		"logs":      []any{event(common.HexToAddress("0x7070"), oursOfTests, 42)},
		"logsBloom": types.Bloom{}, "transactionHash": requestOf, "transactionIndex": "0x1",
	})
	got, err := openStack(t, chain.Polygon, TraceOff, n.serve()).Reader.Final(t.Context(), 7)
	if err != nil {
		t.Fatal(err)
	}
	wantMoved(t, got, "NATIVE "+short4(evmtx.Canonical(from))+">0b00 77")
}
