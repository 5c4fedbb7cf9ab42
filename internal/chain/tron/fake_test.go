package tron_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	solidBehind = 3
	blockTime   = 3000
	genesisTime = 1_700_000_000_000
	energyPrice = 100
	bytePrice   = 1000
	energyUsed  = 30_000
	plenty      = 1_000_000_000_000_000_000
)

// fake is a scripted chain behind the HTTP interface of java-tron, as far as the adapter uses it.
// It follows the published sources, not the adapter: it makes its own bytes, roots and identifiers.
type fake struct {
	t testing.TB

	mu       sync.Mutex
	blocks   []*fakeBlock
	pending  []*fakeTx
	keys     map[chain.Address]*ecdsa.PrivateKey
	count    int
	branch   byte
	gap      int64 // milliseconds by which the next block is later
	token    chain.Address
	router   chain.Address
	stranger chain.Address
}

type fakeState struct {
	coins   map[chain.Address]uint64
	tokens  map[chain.Address]money.Amount
	refused map[chain.Address]bool
}

type fakeTx struct {
	raw, sig []byte
	hash     string
	script   func(s *fakeState, info map[string]any) (result string) // nil: the transaction does what its bytes say
}

type fakeBlock struct {
	id, parent string
	height     uint64
	at         int64
	header     map[string]any
	txs        []map[string]any
	infos      []map[string]any
	plain      []*fakeTx
	after      fakeState
}

func newFake(t testing.TB) *fake {
	f := &fake{t: t, keys: map[chain.Address]*ecdsa.PrivateKey{}}
	f.token, f.router = trontx.FromAccountBytes([20]byte{1, 2, 3}), trontx.FromAccountBytes([20]byte{4, 5, 6})
	f.stranger = f.account()
	f.blocks = []*fakeBlock{f.seal(nil, nil, fakeState{
		coins:   map[chain.Address]uint64{f.stranger: plenty},
		tokens:  map[chain.Address]money.Amount{f.stranger: money.MustParse("1000000000000000000000000000000")},
		refused: map[chain.Address]bool{},
	})}
	f.mine(solidBehind + 1)
	return f
}

func (f *fake) account() chain.Address {
	k, err := crypto.GenerateKey()
	if err != nil {
		f.t.Fatal(err)
	}
	a := trontx.KeyAddress([65]byte(crypto.FromECDSAPub(&k.PublicKey)))
	f.keys[a] = k
	return a
}

func (s fakeState) clone() fakeState {
	return fakeState{maps.Clone(s.coins), maps.Clone(s.tokens), maps.Clone(s.refused)}
}

func bytesField(b []byte, n protowire.Number, v []byte) []byte {
	return append(
		protowire.AppendVarint(append(b, protowire.AppendVarint(nil, uint64(n)<<3|2)...), uint64(len(v))), v...,
	)
}

func intField(b []byte, n protowire.Number, v int64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendVarint(protowire.AppendVarint(b, uint64(n)<<3), uint64(v))
}

func hash256(b []byte) []byte { s := sha256.Sum256(b); return s[:] }

func (f *fake) bytes(a chain.Address) []byte {
	digits, err := trontx.Hex(a)
	if err != nil {
		f.t.Fatal(err)
	}
	b, _ := hex.DecodeString(digits)
	return b
}

// write makes a transaction of an external account, of any kind.
func (f *fake) write(kind int64, name string, value []byte, feeLimit int64) *fakeTx {
	f.count++
	head := f.blocks[len(f.blocks)-1]
	id, _ := hex.DecodeString(head.id)
	parameter := bytesField(bytesField(nil, 1, []byte("type.googleapis.com/protocol."+name)), 2, value)
	contract := bytesField(intField(nil, 1, kind), 2, parameter)
	raw := bytesField(nil, 1, id[6:8])
	raw = bytesField(raw, 4, id[8:16])
	raw = intField(raw, 8, head.at+60_000)
	raw = bytesField(raw, 11, contract)
	raw = intField(raw, 14, head.at+int64(f.count))
	raw = intField(raw, 18, feeLimit)
	return &fakeTx{raw: raw, sig: make([]byte, 65), hash: hex.EncodeToString(hash256(raw))}
}

func (f *fake) transfer(to chain.Address, sun int64) *fakeTx {
	return f.write(
		1, "TransferContract", intField(bytesField(bytesField(nil, 1, f.bytes(f.stranger)), 2, f.bytes(to)), 3, sun), 0,
	)
}

func (f *fake) call(contract chain.Address, data []byte) *fakeTx {
	return f.write(
		31, "TriggerSmartContract",
		bytesField(bytesField(bytesField(nil, 1, f.bytes(f.stranger)), 2, f.bytes(contract)), 4, data), 100_000_000,
	)
}

func (f *fake) tokenTransfer(to chain.Address, amount money.Amount) *fakeTx {
	data := append([]byte{0xa9, 0x05, 0x9c, 0xbb}, make([]byte, 12)...)
	value := amount.Uint256().Bytes32()
	return f.call(f.token, append(append(data, f.bytes(to)[1:]...), value[:]...))
}

func transferLog(f *fake, contract, from, to chain.Address, amount money.Amount) map[string]any {
	word := func(a chain.Address) string { return fmt.Sprintf("%024d%x", 0, f.bytes(a)[1:]) }
	value := amount.Uint256().Bytes32()
	return map[string]any{
		"address": hex.EncodeToString(f.bytes(contract)[1:]),
		"topics":  []string{"ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef", word(from), word(to)},
		"data":    hex.EncodeToString(value[:]),
	}
}

func internalTx(f *fake, from, to chain.Address, sun uint64, rejected bool) map[string]any {
	value := map[string]any{}
	if sun > 0 {
		value["callValue"] = sun
	}
	in := map[string]any{
		"hash": "00", "caller_address": hex.EncodeToString(f.bytes(from)),
		"transferTo_address": hex.EncodeToString(f.bytes(to)),
		"callValueInfo":      []any{value}, "note": "63616c6c",
	}
	if rejected {
		in["rejected"] = true
	}
	return in
}

// run executes a transaction. ok is false if no block contains it.
func (f *fake) run(x *fakeTx, s *fakeState, height uint64, at int64) (result string, info map[string]any, ok bool) {
	info = map[string]any{
		"id": x.hash, "blockNumber": height, "blockTimeStamp": at, "contractResult": []string{""},
		"receipt": map[string]any{},
	}
	seen, err := trontx.ParseTx(x.raw)
	if err != nil {
		f.t.Errorf("the fake has a transaction that cannot be read: %v", err)
		return "", nil, false
	}
	size := uint64(len(x.raw)) + 71 + 64
	fee := size * bytePrice
	result = "SUCCESS"
	spend := func(who chain.Address, sun uint64) bool {
		if s.coins[who] < sun {
			return false
		}
		s.coins[who] -= sun
		return true
	}
	ours, decoded := trontx.Decode(x.raw)
	switch {
	case x.script != nil:
		result = x.script(s, info)
		if seen.Owner != "" && !spend(seen.Owner, fee) {
			return "", nil, false
		}
	case decoded == nil && ours.Contract == "":
		sun, _ := ours.Amount.Uint64()
		if _, there := s.coins[ours.To]; !there {
			fee = 1_100_000
		}
		if s.coins[ours.Owner] < sun+fee {
			return "", nil, false
		}
		s.coins[ours.Owner] -= sun + fee
		s.coins[ours.To] += sun
	case decoded == nil && ours.Contract == f.token:
		burnt := uint64(energyUsed * energyPrice)
		before, left := s.tokens[ours.Owner], money.Zero
		left, err = before.Sub(ours.Amount)
		switch {
		case ours.FeeLimit < burnt:
			result, burnt = "OUT_OF_ENERGY", ours.FeeLimit
		case err != nil || s.refused[ours.To]:
			result = "REVERT"
		default:
			s.tokens[ours.Owner] = left
			s.tokens[ours.To], _ = s.tokens[ours.To].Add(ours.Amount)
			info["log"] = []any{transferLog(f, f.token, ours.Owner, ours.To, ours.Amount)}
		}
		fee += burnt
		info["receipt"] = map[string]any{
			"energy_fee": burnt, "energy_usage_total": energyUsed, "net_fee": size * bytePrice, "result": result,
		}
		if !spend(ours.Owner, fee) {
			return "", nil, false
		}
	case seen.Owner == "" || seen.NativeAmount == 0:
		if seen.Owner != "" && !spend(seen.Owner, fee) {
			return "", nil, false
		}
	default:
		return "", nil, false
	}
	info["fee"] = fee
	if result != "SUCCESS" {
		info["result"], info["resMessage"] = "FAILED", hex.EncodeToString([]byte("REVERT opcode executed"))
		delete(info, "log")
		if r, ok := info["receipt"].(map[string]any); ok && r["result"] != nil {
			r["result"] = result
		}
	}
	return result, info, true
}

var resultNumbers = map[string]int64{"SUCCESS": 1, "REVERT": 2, "OUT_OF_ENERGY": 10}

// seal makes a block of transactions on top of another.
func (f *fake) seal(on *fakeBlock, txs []*fakeTx, after fakeState) *fakeBlock {
	b := &fakeBlock{parent: hex.EncodeToString(make([]byte, 32)), at: genesisTime}
	if on != nil {
		b.parent, b.height, b.at = on.id, on.height+1, on.at+blockTime+f.gap
		f.gap = 0
	}
	var leaves [][]byte
	for _, x := range txs {
		result, info, ok := f.run(x, &after, b.height, b.at)
		if !ok {
			continue
		}
		b.plain = append(b.plain, x)
		b.infos = append(b.infos, info)
		b.txs = append(b.txs, map[string]any{
			"ret": []any{map[string]any{"contractRet": result}}, "signature": []string{hex.EncodeToString(x.sig)},
			"txID":     x.hash,
			"raw_data": map[string]any{"data": "left out"}, "raw_data_hex": hex.EncodeToString(x.raw),
		})
		leaves = append(
			leaves,
			hash256(bytesField(
				bytesField(bytesField(nil, 1, x.raw), 2, x.sig), 5, intField(nil, 3, resultNumbers[result]),
			)),
		)
	}
	root := make([]byte, 32)
	for len(leaves) > 1 {
		var up [][]byte
		for len(leaves) >= 2 {
			up, leaves = append(up, hash256(slices.Concat(leaves[0], leaves[1]))), leaves[2:]
		}
		leaves = append(up, leaves...)
	}
	if len(leaves) == 1 {
		root = leaves[0]
	}
	witness := append([]byte{0x41, f.branch}, make([]byte, 19)...)
	parent, _ := hex.DecodeString(b.parent)
	raw := intField(nil, 1, b.at)
	raw = bytesField(raw, 2, root)
	raw = bytesField(raw, 3, parent)
	raw = intField(raw, 7, int64(b.height))
	raw = bytesField(raw, 9, witness)
	raw = intField(raw, 10, 36)
	id := hash256(raw)
	binary.BigEndian.PutUint64(id, b.height)
	b.id, b.after = hex.EncodeToString(id), after
	header := map[string]any{
		"timestamp": b.at, "txTrieRoot": hex.EncodeToString(root), "parentHash": b.parent,
		"witness_address": hex.EncodeToString(witness), "version": 36,
	}
	if b.height > 0 {
		header["number"] = b.height
	}
	b.header = map[string]any{"raw_data": header, "witness_signature": hex.EncodeToString(make([]byte, 65))}
	return b
}

func (f *fake) head() *fakeBlock { return f.blocks[len(f.blocks)-1] }

// good returns why the next block does not take a transaction, or "": the chain's rules for
// Coffer's transactions, and that no block has it already.
func (f *fake) good(x *fakeTx) string {
	for _, b := range f.blocks {
		if slices.ContainsFunc(b.plain, func(o *fakeTx) bool { return o.hash == x.hash }) {
			return "DUP_TRANSACTION_ERROR"
		}
	}
	ours, err := trontx.Decode(x.raw)
	if err != nil || x.script != nil || ours.Owner == f.stranger {
		return ""
	}
	if f.head().at >= ours.Expiration {
		return "TRANSACTION_EXPIRATION_ERROR"
	}
	for _, b := range f.blocks {
		id, _ := hex.DecodeString(b.id)
		if bytes.Equal(id[6:8], ours.RefBlockBytes[:]) && bytes.Equal(id[8:16], ours.RefBlockHash[:]) {
			return ""
		}
	}
	return "TAPOS_ERROR"
}

func (f *fake) mine(n int) {
	for range n {
		var take []*fakeTx
		for _, x := range f.pending {
			if f.good(x) == "" {
				take = append(take, x)
			}
		}
		f.pending = nil
		on := f.head()
		f.blocks = append(f.blocks, f.seal(on, take, on.after.clone()))
	}
}

func (f *fake) locked(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

// node serves the fake: some blocks behind it, or with answers of its own.
type node struct {
	*fake
	lag int
	// lie changes an answer; it may return another, or nil for none at all.
	lie func(view, method string, asked map[string]any, answer any) any
}

func (n *node) serve(t testing.TB) string {
	s := httptest.NewServer(n)
	t.Cleanup(s.Close)
	return s.URL
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var asked map[string]any
	if err := json.Unmarshal(body, &asked); err != nil || r.Method != http.MethodPost {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	answer := n.say(r.URL.Path[1:], asked)
	if answer == nil {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// say returns a node's answer, changed by its lie.
func (n *node) say(method string, asked map[string]any) any {
	n.mu.Lock()
	defer n.mu.Unlock() // also when the lie fails the test
	view := "wallet"
	if rest, ok := bytes.CutPrefix([]byte(method), []byte("walletsolidity/")); ok {
		view, method = "walletsolidity", string(rest)
	} else {
		method = method[len("wallet/"):]
	}
	answer := n.answer(view, method, asked)
	if n.lie != nil {
		answer = n.lie(view, method, asked, clone(answer))
	}
	return answer
}

// clone copies an answer, so that a lie does not change the chain. Numbers stay exact.
func clone(v any) any {
	b, _ := json.Marshal(v)
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var out any
	_ = d.Decode(&out)
	return out
}

func text(v any) string { s, _ := v.(string); return s }

func (n *node) answer(view, method string, asked map[string]any) any {
	known := n.blocks[:len(n.blocks)-n.lag]
	if view == "walletsolidity" {
		known = known[:max(1, len(known)-solidBehind)]
	}
	last := known[len(known)-1]
	switch method {
	case "getblock":
		b := find(known, text(asked["id_or_num"]))
		if b == nil {
			return map[string]any{}
		}
		out := map[string]any{"blockID": b.id, "block_header": b.header}
		if asked["detail"] == true && len(b.txs) > 0 {
			out["transactions"] = b.txs
		}
		return out
	case "gettransactioninfobyblocknum":
		num, _ := asked["num"].(float64)
		if b := find(known, strconv.FormatUint(uint64(num), 10)); b != nil && len(b.infos) > 0 {
			return b.infos
		}
		return []any{}
	case "gettransactioninfobyid":
		for _, b := range known {
			for _, i := range b.infos {
				if i["id"] == asked["value"] {
					return i
				}
			}
		}
		return map[string]any{}
	case "getaccount":
		a, err := trontx.FromHex(text(asked["address"]))
		coins, there := last.after.coins[a]
		switch {
		case err != nil:
			return map[string]any{"Error": "class org.tron.core.services.http.JsonFormat$ParseException"}
		case a == n.token || a == n.router:
			return map[string]any{"address": asked["address"], "type": "Contract", "balance": last.after.coins[a]}
		case !there:
			return map[string]any{}
		case coins == 0:
			return map[string]any{"address": asked["address"]}
		}
		return map[string]any{"address": asked["address"], "balance": coins, "create_time": last.at}
	case "getcontract":
		if a, _ := trontx.FromHex(text(asked["value"])); a == n.token {
			return map[string]any{"contract_address": asked["value"], "bytecode": "60"}
		}
		return map[string]any{}
	case "getchainparameters":
		return map[string]any{"chainParameter": []any{
			map[string]any{"key": "getMaintenanceTimeInterval", "value": 21_600_000},
			map[string]any{"key": "getEnergyFee", "value": energyPrice},
			map[string]any{"key": "getTransactionFee", "value": bytePrice},
			map[string]any{"key": "getCreateAccountFee", "value": 100_000},
			map[string]any{"key": "getCreateNewAccountFeeInSystemContract", "value": 1_000_000},
			map[string]any{"key": "getAllowCreationOfContracts"},
		}}
	case "triggerconstantcontract":
		return n.try(last.after, asked)
	case "broadcasthex":
		return n.broadcast(text(asked["transaction"]))
	}
	return map[string]any{"Error": "no such method"}
}

func find(known []*fakeBlock, which string) *fakeBlock {
	for _, b := range known {
		if b.id == which || strconv.FormatUint(b.height, 10) == which {
			return b
		}
	}
	if which == "" {
		return known[len(known)-1]
	}
	return nil
}

func (n *node) try(s fakeState, asked map[string]any) any {
	failed := func(code, why string) any {
		return map[string]any{"result": map[string]any{"code": code, "message": hex.EncodeToString([]byte(why))}}
	}
	if a, _ := trontx.FromHex(text(asked["contract_address"])); a != n.token {
		return failed("CONTRACT_VALIDATE_ERROR", "Smart contract is not exist.")
	}
	from, _ := trontx.FromHex(text(asked["owner_address"]))
	words, err := hex.DecodeString(text(asked["parameter"]))
	if err != nil || len(words) < 32 {
		return failed("OTHER_ERROR", "class java.lang.IllegalArgumentException : no words")
	}
	who := trontx.FromAccountBytes([20]byte(words[12:32]))
	word := func(b [32]byte) []string { return []string{hex.EncodeToString(b[:])} }
	switch text(asked["function_selector"]) {
	case "balanceOf(address)":
		return map[string]any{
			"result": map[string]any{"result": true}, "energy_used": 935,
			"constant_result": word(s.tokens[who].Uint256().Bytes32()),
		}
	case "transfer(address,uint256)":
		amount := new(uint256.Int).SetBytes(words[32:64])
		if s.refused[who] || s.tokens[from].Less(money.FromUint256(amount)) {
			return map[string]any{
				"result": map[string]any{
					"result": true, "message": hex.EncodeToString([]byte("REVERT opcode executed")),
				},
				"energy_used": 600, "constant_result": []string{""},
				"transaction": map[string]any{"ret": []any{map[string]any{"ret": "FAILED"}}},
			}
		}
		// It returns false, as that of USDT does.
		return map[string]any{
			"result": map[string]any{"result": true}, "energy_used": energyUsed, "constant_result": word([32]byte{}),
			"transaction": map[string]any{"ret": []any{map[string]any{}}},
		}
	}
	return failed(
		"OTHER_ERROR", "class org.tron.core.vm.program.Program$BadJumpDestinationException : no such function",
	)
}

func (n *node) broadcast(digits string) any {
	raw, err := hex.DecodeString(digits)
	if err != nil {
		return map[string]any{"Error": "class org.bouncycastle.util.encoders.DecoderException"}
	}
	payload, size := protowire.ConsumeBytes(raw[1:])
	if size < 0 {
		return map[string]any{"Error": "class com.google.protobuf.InvalidProtocolBufferException"}
	}
	sig, _ := protowire.ConsumeBytes(raw[2+size:])
	x := &fakeTx{raw: payload, sig: sig, hash: hex.EncodeToString(hash256(payload))}
	answer := func(ok bool, code string) any {
		return map[string]any{"result": ok, "code": code, "message": "", "txid": x.hash, "transaction": "{}"}
	}
	if _, _, err := trontx.DecodeSigned(raw); err != nil {
		return answer(false, "SIGERROR")
	}
	if slices.ContainsFunc(n.pending, func(o *fakeTx) bool { return o.hash == x.hash }) {
		return answer(false, "DUP_TRANSACTION_ERROR")
	}
	if why := n.good(x); why != "" {
		return answer(false, why)
	}
	n.pending = append(n.pending, x)
	return answer(true, "SUCCESS")
}

// open returns an adapter over nodes.
func (f *fake) open(t testing.TB, agree int, change func(*tron.Config), nodes ...*node) *tron.Client {
	t.Helper()
	cfg := tron.Config{Network: chain.Local, Quorum: agree, Internal: true}
	for _, n := range nodes {
		n.fake = f
		cfg.Endpoints = append(cfg.Endpoints, n.serve(t))
	}
	if change != nil {
		change(&cfg)
	}
	c, err := tron.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
