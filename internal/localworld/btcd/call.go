package btcd

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
)

// RPCError is an error that the node returned.
type RPCError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// Error returns the node's message with its code.
func (e *RPCError) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// CallRPC calls a method of the node. result may be nil. Error: *RPCError if the node returned one.
func (n *Node) CallRPC(ctx context.Context, result any, method string, params ...any) error {
	if params == nil {
		params = []any{}
	}
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	req.SetBasicAuth(User, n.Password)
	resp, err := n.client.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer resp.Body.Close()
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *RPCError       `json:"error"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", method, resp.Status, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %w", method, answer.Error)
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(answer.Result, result); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return nil
}

// TipHeight returns the height of the newest block.
func (n *Node) TipHeight(ctx context.Context) (height int, err error) {
	return height, n.CallRPC(ctx, &height, "getblockcount")
}

// BlockHash returns the hash of the block at a height.
func (n *Node) BlockHash(ctx context.Context, height int) (chainhash.Hash, error) {
	var text string
	if err := n.CallRPC(ctx, &text, "getblockhash", height); err != nil {
		return chainhash.Hash{}, err
	}
	h, err := chainhash.NewHashFromStr(text)
	if err != nil {
		return chainhash.Hash{}, fmt.Errorf("getblockhash: %w", err)
	}
	return *h, nil
}

// ReadBlock returns the block with a hash, on the chain or on a fork.
func (n *Node) ReadBlock(ctx context.Context, hash chainhash.Hash) (*wire.MsgBlock, error) {
	var text string
	if err := n.CallRPC(ctx, &text, "getblock", hash.String(), 0); err != nil {
		return nil, err
	}
	b := new(wire.MsgBlock)
	if err := b.Deserialize(hex.NewDecoder(bytes.NewReader([]byte(text)))); err != nil {
		return nil, fmt.Errorf("getblock: %w", err)
	}
	return b, nil
}

// codeUnused is the node's error for an address that no transaction names.
const codeUnused = -5

// IsAddressUsed reports whether a transaction, in a block or waiting for one, pays an address or
// spends an output of it.
func (n *Node) IsAddressUsed(ctx context.Context, a chain.Address) (bool, error) {
	err := n.CallRPC(ctx, nil, "searchrawtransactions", string(a), 0, 0, 1)
	if refused, ok := errors.AsType[*RPCError](err); ok && refused.Code == codeUnused {
		return false, nil
	}
	return err == nil, err
}

// historyMax is how many transactions of an address Balance reads.
const historyMax = 1000

// Balance returns what an address has in satoshi, by all of its transactions in blocks and waiting for one.
func (n *Node) Balance(ctx context.Context, a chain.Address) (satoshi int64, err error) {
	script, err := bitcointx.Script(chain.Local, a)
	if err != nil {
		return 0, err
	}
	var texts []string
	err = n.CallRPC(ctx, &texts, "searchrawtransactions", string(a), 0, 0, historyMax)
	if refused, ok := errors.AsType[*RPCError](err); ok && refused.Code == codeUnused {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var txs []*wire.MsgTx
	values := map[wire.OutPoint]int64{}
	for _, text := range texts {
		raw, err := hex.DecodeString(text)
		if err != nil {
			return 0, fmt.Errorf("searchrawtransactions: %w", err)
		}
		tx, err := readTx(raw)
		if err != nil {
			return 0, fmt.Errorf("searchrawtransactions: %w", err)
		}
		txs = append(txs, tx)
		for i, txOut := range tx.TxOut {
			if bytes.Equal(txOut.PkScript, script) {
				values[wire.OutPoint{Hash: tx.TxHash(), Index: uint32(i)}] = txOut.Value
			}
		}
	}
	for _, tx := range txs {
		for _, input := range tx.TxIn {
			delete(values, input.PreviousOutPoint)
		}
	}
	for _, value := range values {
		satoshi += value
	}
	return satoshi, nil
}

// SendTx sends a transaction to the node, which stores it for the next block.
func (n *Node) SendTx(ctx context.Context, tx *wire.MsgTx) error {
	var raw bytes.Buffer
	if err := tx.Serialize(&raw); err != nil {
		return fmt.Errorf("encode a transaction: %w", err)
	}
	return n.CallRPC(ctx, nil, "sendrawtransaction", hex.EncodeToString(raw.Bytes()))
}
