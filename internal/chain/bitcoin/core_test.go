package bitcoin_test

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/localworld/btcd"
)

// call is one request of the protocol.
type call struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params []any           `json:"params"`
}

// reply is the answer to a call.
type reply struct {
	Result any             `json:"result"`
	Error  *btcd.RPCError  `json:"error"`
	ID     json.RawMessage `json:"id"`
}

// front is a proxy before a node: change may answer instead, or change the answer.
func front(t *testing.T, n *btcd.Node, change func(call, func() (any, error)) (any, error)) string {
	t.Helper()
	ask := func(c call) reply {
		result, err := change(c, func() (any, error) {
			var raw json.RawMessage
			err := n.CallRPC(t.Context(), &raw, c.Method, c.Params...)
			return raw, err
		})
		r := reply{Result: result, ID: c.ID}
		if err != nil {
			r.Error = asRefusal(err)
		}
		return r
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		var out any
		if strings.HasPrefix(string(body), "[") {
			var calls []call
			if err := json.Unmarshal(body, &calls); err != nil {
				return
			}
			replies := []reply{}
			for _, c := range calls {
				replies = append(replies, ask(c))
			}
			slices.Reverse(replies) // any order will do
			out = replies
		} else {
			var c call
			if err := json.Unmarshal(body, &c); err != nil {
				return
			}
			one := ask(c)
			if one.Error != nil {
				w.WriteHeader(http.StatusInternalServerError) // like bitcoind
			}
			out = one
		}
		json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func asRefusal(err error) *btcd.RPCError {
	for e := err; e != nil; {
		if r, ok := e.(*btcd.RPCError); ok {
			return r
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return &btcd.RPCError{Code: -32603, Message: err.Error()}
}

// core is a btcd that answers like bitcoind: without an index of addresses, with a scan of all
// unspent outputs, and with the outputs that a block spends.
func core(t *testing.T, n *btcd.Node) string {
	t.Helper()
	type out struct {
		wire.TxOut
		height int
		reward bool
	}
	amount := func(satoshi int64) json.RawMessage {
		return json.RawMessage(fmt.Sprintf("%d.%08d", satoshi/1e8, satoshi%1e8))
	}
	// walk passes every transaction of the chain and all outputs before it.
	walk := func(show func(height int, hash chainhash.Hash, b *wire.MsgBlock,
		before map[wire.OutPoint]out),
	) (map[wire.OutPoint]out, int, error) {
		outs := map[wire.OutPoint]out{}
		top, err := n.TipHeight(t.Context())
		if err != nil {
			return nil, 0, err
		}
		for h := 1; h <= top; h++ {
			hash, err := n.BlockHash(t.Context(), h)
			if err != nil {
				return nil, 0, err
			}
			b, err := n.ReadBlock(t.Context(), hash)
			if err != nil {
				return nil, 0, err
			}
			for i, tx := range b.Transactions {
				for k, o := range tx.TxOut {
					outs[wire.OutPoint{Hash: tx.TxHash(), Index: uint32(k)}] = out{*o, h, i == 0}
				}
			}
			if show != nil {
				show(h, hash, b, outs)
			}
			for _, tx := range b.Transactions[1:] {
				for _, in := range tx.TxIn {
					delete(outs, in.PreviousOutPoint)
				}
			}
		}
		return outs, top, nil
	}
	return front(t, n, func(c call, pass func() (any, error)) (any, error) {
		switch {
		case c.Method == "searchrawtransactions":
			return nil, &btcd.RPCError{Code: -32601, Message: "Method not found"}
		case c.Method == "gettxout" && c.Params[2] != any(false):
			// A transaction in the mempool has spent it; btcd looks at blocks alone.
			var waits []string
			if err := n.CallRPC(t.Context(), &waits, "getrawmempool"); err != nil {
				return nil, err
			}
			for _, id := range waits {
				var tx struct {
					In []struct {
						ID string  `json:"txid"`
						N  float64 `json:"vout"`
					} `json:"vin"`
				}
				if err := n.CallRPC(t.Context(), &tx, "getrawtransaction", id, 1); err != nil {
					return nil, err
				}
				for _, in := range tx.In {
					if in.ID == c.Params[0] && in.N == c.Params[1] {
						return nil, nil
					}
				}
			}
			return pass()
		case c.Method == "getblockhash":
			result, err := pass()
			if err != nil {
				err = &btcd.RPCError{Code: -8, Message: "Block height out of range"}
			}
			return result, err
		case c.Method == "scantxoutset":
			outs, top, err := walk(nil)
			if err != nil {
				return nil, err
			}
			best, err := n.BlockHash(t.Context(), top)
			if err != nil {
				return nil, err
			}
			found := []any{}
			for at, o := range outs {
				for _, desc := range c.Params[1].([]any) {
					if desc == "raw("+hex.EncodeToString(o.PkScript)+")" {
						found = append(found, map[string]any{
							"txid": at.Hash.String(), "vout": at.Index, "scriptPubKey": hex.EncodeToString(o.PkScript),
							"amount": amount(o.Value), "coinbase": o.reward, "height": o.height, "desc": desc,
						})
					}
				}
			}
			return map[string]any{"success": true, "height": top, "bestblock": best.String(), "unspents": found}, nil
		case c.Method == "getblock" && c.Params[1] == any(3.0):
			var answer any
			_, _, err := walk(func(h int, hash chainhash.Hash, b *wire.MsgBlock, before map[wire.OutPoint]out) {
				if hash.String() != c.Params[0] {
					return
				}
				var txs []any
				for i, tx := range b.Transactions {
					var ins []any
					for _, in := range tx.TxIn {
						one := map[string]any{
							"txid": in.PreviousOutPoint.Hash.String(),
							"vout": in.PreviousOutPoint.Index,
						}
						if i > 0 {
							o := before[in.PreviousOutPoint]
							one["prevout"] = map[string]any{
								"generated": o.reward, "height": o.height, "value": amount(o.Value),
								"scriptPubKey": map[string]any{"hex": hex.EncodeToString(o.PkScript)},
							}
						} else {
							one = map[string]any{"coinbase": "00"}
						}
						ins = append(ins, one)
					}
					txs = append(txs, map[string]any{"txid": tx.TxHash().String(), "vin": ins})
				}
				answer = map[string]any{
					"hash": hash.String(), "height": h,
					"previousblockhash": b.Header.PrevBlock.String(), "tx": txs,
				}
			})
			return answer, err
		}
		return pass()
	})
}
