package bitcoin_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
)

// page is a server's answer to one request.
type page struct {
	status int
	body   string
}

// explorer answers like electrs, which serves Esplora's interface, from the data of a btcd. It was
// written from the interface's description and the source of electrs.
type explorer struct {
	node *btcd.Node

	mu    sync.Mutex
	chain []*wire.MsgBlock // the first is at height 1
}

// newExplorer serves a node's chain; change may answer instead, or change the answer. nil changes
// nothing.
func newExplorer(t testing.TB, n *btcd.Node, change func(r *http.Request, path string, pass func() page) page) string {
	t.Helper()
	e := &explorer{node: n}
	s := httptest.NewServer(http.StripPrefix("/api", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		pass := func() page { return e.answer(r.Context(), r.Method, r.URL.Path, string(body)) }
		out := page{}
		if change == nil {
			out = pass()
		} else {
			out = change(r, r.URL.Path, pass)
		}
		if out.status == http.StatusTooManyRequests {
			w.Header().Set("Content-Type", "text/html")
		}
		w.WriteHeader(out.status)
		io.WriteString(w, out.body)
	})))
	t.Cleanup(s.Close)
	return "esplora+" + s.URL + "/api"
}

func text(format string, args ...any) page { return page{http.StatusOK, fmt.Sprintf(format, args...)} }

func document(v any) page {
	b, err := json.Marshal(v)
	if err != nil {
		return page{http.StatusInternalServerError, err.Error()}
	}
	return page{http.StatusOK, string(b)}
}

func (e *explorer) answer(ctx context.Context, method, path, body string) page {
	noBlock, noTx := page{http.StatusNotFound, "Block not found"}, page{http.StatusNotFound, "Transaction not found"}
	failed := func(err error) page { return page{http.StatusInternalServerError, err.Error()} }
	part := strings.Split(strings.TrimPrefix(path, "/"), "/")
	is := func(shape string) bool {
		want := strings.Split(shape, "/")
		for i := range want {
			if len(want) != len(part) || want[i] != "*" && want[i] != part[i] {
				return false
			}
		}
		return method == http.MethodGet
	}
	top, err := e.node.TipHeight(ctx)
	if err != nil {
		return failed(err)
	}
	switch {
	case is("blocks/tip/height"):
		return text("%d", top)
	case is("blocks/tip/hash"):
		hash, err := e.node.BlockHash(ctx, top)
		if err != nil {
			return failed(err)
		}
		return text("%s", hash)
	case is("block-height/*"):
		height, err := strconv.Atoi(part[1])
		if err != nil {
			return page{http.StatusBadRequest, "Invalid number"}
		}
		hash, err := e.node.BlockHash(ctx, height)
		if err != nil {
			return noBlock
		}
		return text("%s", hash)
	case is("block/*"):
		height, ok := e.at(ctx, part[1])
		if !ok {
			return noBlock
		}
		return document(map[string]any{
			"id": part[1], "height": height, "timestamp": 1,
			"difficulty": 4.6565423739069247e-10,
		})
	case is("block/*/header"), is("block/*/raw"):
		var digits string
		if err := e.node.CallRPC(ctx, &digits, "getblock", part[1], 0); err != nil {
			return noBlock
		}
		if part[2] == "header" {
			return text("%s", digits[:160])
		}
		raw, err := hex.DecodeString(digits)
		if err != nil {
			return failed(err)
		}
		return page{http.StatusOK, string(raw)}
	case is("tx/*/hex"):
		var digits string
		if err := e.node.CallRPC(ctx, &digits, "getrawtransaction", part[1], 0); err != nil {
			return noTx
		}
		return text("%s", digits)
	case is("tx/*/status"):
		return document(e.status(ctx, part[1]))
	case is("tx/*/outspend/*"):
		n, err := strconv.ParseUint(part[3], 10, 32)
		if err != nil {
			return page{http.StatusBadRequest, "Invalid number"}
		}
		spend, err := e.spend(ctx, top, part[1], uint32(n))
		if err != nil {
			return failed(err)
		}
		return document(spend)
	case is("address/*/txs/chain"), is("address/*/txs/chain/*"):
		all, err := e.history(ctx, top, chain.Address(part[1]))
		if err != nil {
			return failed(err)
		}
		if len(part) == 5 {
			at := slices.IndexFunc(all, func(d map[string]any) bool { return d["txid"] == part[4] })
			if at < 0 {
				at = len(all) - 1
			}
			all = all[at+1:]
		}
		return document(all[:min(len(all), 25)])
	case is("fee-estimates"):
		return text(`{"2":87.882,"3":12.5,"6":1.0270001,"144":1}`)
	case method == http.MethodPost && path == "/tx":
		var hash string
		if err := e.node.CallRPC(ctx, &hash, "sendrawtransaction", body); err != nil {
			r := asRefusal(err)
			return page{http.StatusBadRequest, fmt.Sprintf(`sendrawtransaction RPC error: {"code":%d,"message":%q}`,
				r.Code, r.Message)}
		}
		return text("%s", hash)
	}
	return page{http.StatusNotFound, "endpoint does not exist"}
}

// at returns the height of a block on the chain.
func (e *explorer) at(ctx context.Context, hash string) (int, bool) {
	var h struct {
		Height int `json:"height"`
	}
	if e.node.CallRPC(ctx, &h, "getblockheader", hash, true) != nil {
		return 0, false
	}
	there, err := e.node.BlockHash(ctx, h.Height)
	return h.Height, err == nil && there.String() == hash
}

func (e *explorer) status(ctx context.Context, tx string) map[string]any {
	var is struct {
		Block string `json:"blockhash"`
	}
	if e.node.CallRPC(ctx, &is, "getrawtransaction", tx, 1) == nil && is.Block != "" {
		if height, ok := e.at(ctx, is.Block); ok {
			return map[string]any{"confirmed": true, "block_height": height, "block_hash": is.Block, "block_time": 1}
		}
	}
	return map[string]any{"confirmed": false}
}

// walk passes every transaction of the chain, the oldest first, until show returns false.
func (e *explorer) walk(
	ctx context.Context, top int, show func(height int, hash chainhash.Hash, i int, tx *wire.MsgTx) bool,
) error {
	tip, err := e.node.BlockHash(ctx, top)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	// Down to the block where the chain was left last time.
	kept := e.chain[:min(len(e.chain), top)]
	var fresh []*wire.MsgBlock
	for hash := tip; len(kept)+len(fresh) < top || len(kept) > 0 && kept[len(kept)-1].BlockHash() != hash; {
		if len(kept)+len(fresh) >= top {
			kept = kept[:len(kept)-1]
		}
		b, err := e.node.ReadBlock(ctx, hash)
		if err != nil {
			return err
		}
		fresh, hash = append(fresh, b), b.Header.PrevBlock
	}
	slices.Reverse(fresh)
	e.chain = slices.Concat(kept, fresh)
	for at, b := range e.chain {
		hash := b.BlockHash()
		for i, tx := range b.Transactions {
			if !show(at+1, hash, i, tx) {
				return nil
			}
		}
	}
	return nil
}

func (e *explorer) spend(ctx context.Context, top int, tx string, n uint32) (map[string]any, error) {
	spends := func(by *wire.MsgTx) int {
		return slices.IndexFunc(by.TxIn, func(in *wire.TxIn) bool {
			return in.PreviousOutPoint.Hash.String() == tx && in.PreviousOutPoint.Index == n
		})
	}
	out := map[string]any{"spent": false}
	tell := func(by *wire.MsgTx) bool {
		i := spends(by)
		if i >= 0 {
			id := by.TxHash().String()
			out = map[string]any{"spent": true, "txid": id, "vin": i, "status": e.status(ctx, id)}
		}
		return i < 0
	}
	if err := e.walk(ctx, top, func(_ int, _ chainhash.Hash, _ int, by *wire.MsgTx) bool {
		return tell(by)
	}); err != nil || out["spent"] == true {
		return out, err
	}
	var waits []string
	if err := e.node.CallRPC(ctx, &waits, "getrawmempool"); err != nil {
		return nil, err
	}
	for _, id := range waits {
		var digits string
		if e.node.CallRPC(ctx, &digits, "getrawtransaction", id, 0) != nil {
			continue
		}
		var by wire.MsgTx
		if err := by.Deserialize(hex.NewDecoder(strings.NewReader(digits))); err != nil {
			return nil, err
		}
		tell(&by)
	}
	return out, nil
}

// history returns what blocks did to an address, the newest first.
func (e *explorer) history(ctx context.Context, top int, a chain.Address) ([]map[string]any, error) {
	script, err := bitcointx.Script(chain.Local, a)
	if err != nil {
		return nil, err
	}
	all, mine := []map[string]any{}, map[wire.OutPoint]bool{}
	err = e.walk(ctx, top, func(height int, hash chainhash.Hash, i int, tx *wire.MsgTx) bool {
		touches := false
		var ins, outs []any
		for _, in := range tx.TxIn {
			touches = touches || mine[in.PreviousOutPoint]
			ins = append(ins, map[string]any{
				"txid": in.PreviousOutPoint.Hash.String(),
				"vout": in.PreviousOutPoint.Index, "is_coinbase": i == 0,
			})
		}
		for n, o := range tx.TxOut {
			if string(o.PkScript) == string(script) {
				touches = true
				mine[wire.OutPoint{Hash: tx.TxHash(), Index: uint32(n)}] = true
			}
			outs = append(outs, map[string]any{"scriptpubkey": hex.EncodeToString(o.PkScript), "value": o.Value})
		}
		if touches {
			at := map[string]any{
				"confirmed": true, "block_height": height, "block_hash": hash.String(),
				"block_time": 1,
			}
			all = append(all, map[string]any{
				"txid": tx.TxHash().String(), "vin": ins, "vout": outs, "status": at,
				"fee": 1,
			})
		}
		return true
	})
	slices.Reverse(all)
	return all, err
}
