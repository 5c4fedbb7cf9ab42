package bitcoin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	pageItems = 100
	// rollBackMax is how far behind its newest block a node without an index is asked for a
	// balance: each block on the way is fetched with all that it spends.
	rollBackMax = 144
	decimals    = 8 // of a bitcoin, as nodes write amounts
)

// Balances asks one node after the other until a quorum gives the same balances. A coinbase's
// outputs count once they may be spent, as they do among the transfers.
//
// No node has balances of the past.
//   - btcd, with its index of addresses, gives all transactions of an address, and those after the
//     block are left out.
//   - bitcoind scans all unspent outputs, which takes a minute for any number of addresses. From
//     there the blocks are undone one by one. So many addresses are read at once, and only for a
//     block that is close to the newest.
//   - Esplora, like btcd, has the history of every address.
func (a *adapter) Balances(ctx context.Context, block chain.Block, holdings []chain.Holding) ([]money.Amount, error) {
	if len(holdings) == 0 {
		return nil, nil
	}
	hash, err := parseHash(block.Hash)
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", block.Height, chain.Bitcoin, err)
	}
	w := wallets{hash: hash, height: block.Height, positions: map[string][]int{}, sums: make([]int64, len(holdings))}
	for i, h := range holdings {
		script, err := bitcointx.Script(a.Network, h.Address)
		if err == nil && h.Contract != "" {
			err = fmt.Errorf("there is no token %s", h.Contract)
		}
		if err != nil {
			return nil, fmt.Errorf("balances in block %d of %s: %w", block.Height, chain.Bitcoin, err)
		}
		w.positions[string(script)] = append(w.positions[string(script)], i)
		w.addresses = append(w.addresses, h.Address)
	}
	amounts, err := quorum.AgreeOnBalances(ctx, a.providers, a.Quorum, holdings,
		func(ctx context.Context, p *provider) ([]money.Amount, error) {
			return p.readBalances(ctx, w)
		})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", block.Height, chain.Bitcoin, err)
	}
	return amounts, nil
}

// wallets are the addresses whose balances in a block are requested.
type wallets struct {
	hash      chainhash.Hash
	height    uint64
	addresses []chain.Address
	positions map[string][]int // indexes of the addresses, by script
	sums      []int64          // by index; a copy for each node
}

func (w *wallets) credit(script []byte, satoshi int64) {
	for _, i := range w.positions[string(script)] {
		w.sums[i] += satoshi
	}
}

// readBalances reads balances from a node. The block has to be on its chain before and after, so
// that the result is of this block.
func (p *provider) readBalances(ctx context.Context, w wallets) ([]money.Amount, error) {
	w.sums = make([]int64, len(w.addresses))
	if err := p.checkBlock(ctx, w); err != nil {
		return nil, err
	}
	err := errNoIndex
	if p.esplora {
		err = p.sumEsplora(ctx, &w)
	} else if !p.usesScan.Load() {
		err = p.sumIndex(ctx, &w)
	}
	if errors.Is(err, errNoIndex) {
		if err = p.scanOutputs(ctx, &w); err == nil {
			p.usesScan.Store(true)
		}
	}
	if err == nil {
		err = p.checkBlock(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(w.sums))
	for i, n := range w.sums {
		if n < 0 || n > satoshiSupply {
			return nil, fmt.Errorf("%s: the outputs of %s give %d satoshi", p.name, w.addresses[i], n)
		}
		amounts[i] = money.Units(uint64(n))
	}
	return amounts, nil
}

// checkBlock checks that the block is on the node's chain.
func (p *provider) checkBlock(ctx context.Context, w wallets) error {
	got, ok, err := p.readHashAt(ctx, w.height)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s: has no block %d: %w", p.name, w.height, chain.ErrNotYet)
	case got != w.hash:
		return fmt.Errorf("%s: has block %s at height %d, not %s", p.name, got, w.height, w.hash)
	}
	return nil
}

var errNoIndex = errors.New("the node has no index of addresses")

// sumIndex sums what the index of a btcd has of each address.
func (p *provider) sumIndex(ctx context.Context, w *wallets) error {
	heights := map[string]uint64{}
	for _, a := range slices.Compact(slices.Sorted(slices.Values(w.addresses))) {
		script, err := bitcointx.Script(p.network, a)
		if err != nil {
			return err
		}
		if err := p.sumHistory(ctx, w, a, script, heights); err != nil {
			return err
		}
	}
	return nil
}

// historyTx is a transaction as searchrawtransactions returns it.
type historyTx struct {
	Hex   string `json:"hex"`
	Block string `json:"blockhash"` // "" while it is unconfirmed
}

// sumHistory sums all transactions of an address up to the block. They include every one that
// spends from it or pays to it, so each spent output was seen before.
func (p *provider) sumHistory(
	ctx context.Context, w *wallets, a chain.Address, script []byte, heights map[string]uint64,
) error {
	received := map[wire.OutPoint]int64{}
	spent := map[wire.OutPoint]bool{}
	for skip := 0; ; skip += pageItems {
		var page []historyTx
		err := p.callBatch(ctx, newCall(&page, "searchrawtransactions", string(a), 1, skip, pageItems, 0, false))
		switch {
		case hasErrorCode(err, codeNoMethod):
			return errNoIndex
		case hasErrorCode(err, codeNotFound):
			page = nil
		case err != nil:
			return fmt.Errorf("%w: btcd has to run with addrindex", err)
		}
		if err := p.fillHeights(ctx, page, heights); err != nil {
			return err
		}
		for _, f := range page {
			if f.Block == "" || heights[f.Block] > w.height {
				continue
			}
			raw, err := hex.DecodeString(f.Hex)
			if err != nil {
				return fmt.Errorf("%s: a transaction of %s is not in hexadecimal", p.name, a)
			}
			tx, err := readTx(raw)
			if err != nil {
				return fmt.Errorf("%s: a transaction of %s: %w", p.name, a, err)
			}
			for _, input := range tx.TxIn {
				spent[input.PreviousOutPoint] = true
			}
			if isCoinbaseTx(tx) && heights[f.Block]+coinbaseMaturity > w.height {
				continue
			}
			id := tx.TxHash()
			for n, out := range tx.TxOut {
				if string(out.PkScript) == string(script) {
					received[wire.OutPoint{Hash: id, Index: uint32(n)}] = out.Value
				}
			}
		}
		if len(page) < pageItems {
			break
		}
	}
	for out, satoshi := range received {
		if !spent[out] {
			w.credit(script, satoshi)
		}
	}
	return nil
}

// fillHeights finds the heights of the blocks of a page.
func (p *provider) fillHeights(ctx context.Context, page []historyTx, heights map[string]uint64) error {
	type header struct {
		Height uint64 `json:"height"`
	}
	headers := map[string]*header{}
	var calls []*rpcCall
	for _, f := range page {
		if _, ok := heights[f.Block]; ok || f.Block == "" || headers[f.Block] != nil {
			continue
		}
		headers[f.Block] = new(header)
		calls = append(calls, newCall(headers[f.Block], "getblockheader", f.Block, true))
	}
	if err := p.callBatch(ctx, calls...); err != nil {
		return err
	}
	for hash, h := range headers {
		heights[hash] = h.Height
	}
	return nil
}

// utxoScan is the result of scantxoutset.
type utxoScan struct {
	Success  bool   `json:"success"`
	Height   uint64 `json:"height"`
	Best     string `json:"bestblock"`
	Unspents []struct {
		ID       string `json:"txid"`
		N        uint32 `json:"vout"`
		Script   string `json:"scriptPubKey"`
		Amount   btc    `json:"amount"`
		Coinbase bool   `json:"coinbase"`
		Height   uint64 `json:"height"`
	} `json:"unspents"`
}

// undoBlock is a block with verbosity 3, as far as it is needed to undo it.
type undoBlock struct {
	Hash     string `json:"hash"`
	Previous string `json:"previousblockhash"`
	Height   uint64 `json:"height"`
	Txs      []struct {
		ID     string `json:"txid"`
		Inputs []struct {
			ID      string `json:"txid"`
			N       uint32 `json:"vout"`
			Prevout *struct {
				CreatedHeight uint64 `json:"height"`
				Reward        bool   `json:"generated"`
				Amount        btc    `json:"value"`
				Script        struct {
					Hex string `json:"hex"`
				} `json:"scriptPubKey"`
			} `json:"prevout"`
		} `json:"vin"`
	} `json:"tx"`
}

// coin is an unspent output of a requested address.
type coin struct {
	script        string
	satoshi       int64
	reward        bool
	createdHeight uint64 // the height at which it was created
}

// scanOutputs scans all unspent outputs of a bitcoind and undoes the blocks after the block. It
// removes an output that was created later and restores one that was spent later.
func (p *provider) scanOutputs(ctx context.Context, w *wallets) error {
	var result utxoScan
	var scripts []string
	for script := range w.positions {
		scripts = append(scripts, "raw("+hex.EncodeToString([]byte(script))+")")
	}
	slices.Sort(scripts)
	q := newCall(&result, "scantxoutset", "start", scripts)
	if err := p.sendBatch(ctx, p.scanTimeout, []*rpcCall{q}); err != nil {
		return err
	}
	switch {
	case hasErrorCode(q.err, codeNoMethod):
		return fmt.Errorf("%w: neither scantxoutset nor an index of addresses returns balances here", q.err)
	case q.err != nil:
		return q.err
	case !result.Success:
		return fmt.Errorf("%s: scantxoutset did not finish", p.name)
	case result.Height < w.height:
		return fmt.Errorf("%s: has no block %d: %w", p.name, w.height, chain.ErrNotYet)
	case result.Height-w.height > rollBackMax:
		return fmt.Errorf("%s: block %d is %d blocks behind the newest: %w", p.name, w.height, result.Height-w.height,
			chain.ErrStateGone)
	}
	type outpointKey struct {
		id string
		n  uint32
	}
	coins := map[outpointKey]coin{}
	for _, u := range result.Unspents {
		script, err := hex.DecodeString(u.Script)
		if err != nil || w.positions[string(script)] == nil {
			return fmt.Errorf("%s: scantxoutset found an output of another address", p.name)
		}
		if u.Height <= w.height {
			coins[outpointKey{u.ID, u.N}] = coin{string(script), int64(u.Amount), u.Coinbase, u.Height}
		}
	}
	best := result.Best
	for height := result.Height; height > w.height; height-- {
		var b undoBlock
		if err := p.callBatch(ctx, newCall(&b, "getblock", best, 3)); err != nil {
			return err
		}
		if b.Hash != best || b.Height != height {
			return fmt.Errorf("%s: gave block %s at height %d for %s at %d", p.name, quorum.TruncateAnswer(b.Hash),
				b.Height, best, height)
		}
		for i, tx := range b.Txs {
			for _, input := range tx.Inputs {
				if i == 0 {
					continue // a coinbase spends nothing
				}
				if input.Prevout == nil {
					return fmt.Errorf("%s: block %s comes without its spent outputs: bitcoind has to be of version "+
						"23 or later",
						p.name, best)
				}
				script, err := hex.DecodeString(input.Prevout.Script.Hex)
				if err != nil {
					return fmt.Errorf("%s: block %s: a script is not in hexadecimal", p.name, best)
				}
				if w.positions[string(script)] != nil && input.Prevout.CreatedHeight <= w.height {
					coins[outpointKey{input.ID, input.N}] = coin{
						string(script), int64(input.Prevout.Amount),
						input.Prevout.Reward, input.Prevout.CreatedHeight,
					}
				}
			}
		}
		best = b.Previous
	}
	if best != w.hash.String() {
		return fmt.Errorf("%s: has block %s at height %d, not %s", p.name, quorum.TruncateAnswer(best), w.height,
			w.hash)
	}
	for _, c := range coins {
		if !c.reward || c.createdHeight+coinbaseMaturity <= w.height {
			w.credit([]byte(c.script), c.satoshi)
		}
	}
	return nil
}

// btc is an amount of bitcoins as nodes write it, in satoshi. It is never a float.
type btc int64

// UnmarshalJSON decodes digits, a point and up to eight more digits.
func (b *btc) UnmarshalJSON(text []byte) error {
	amount, err := money.ParseDecimal(string(text), decimals)
	if err != nil {
		return fmt.Errorf("amount %s: %w", quorum.TruncateAnswer(string(text)), err)
	}
	n, ok := amount.Uint64()
	if !ok || n > satoshiSupply {
		return fmt.Errorf("amount %s is larger than the supply", quorum.TruncateAnswer(string(text)))
	}
	*b = btc(n)
	return nil
}
