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
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	pageItems = 100
	// rewindMax is how far behind its newest block a node that has no index is asked for
	// a balance: each block on the way is fetched with all that it spends.
	rewindMax = 144
	decimals  = 8 // of a bitcoin, as nodes write amounts
)

// Balances asks one node after the other until as many as have to agree on a final block
// give the same balances. What a coinbase paid counts once it may be spent, as it does
// among the movements.
//
// No node has balances of the past. btcd, with its index of addresses, gives all
// transactions of an address, and those after the block are left out. bitcoind looks
// through all unspent outputs, which takes it a minute however many addresses are
// asked, and from there the blocks are undone one by one: so many at once, and of a
// block that is not far behind the newest. Esplora, as btcd, has what every address did.
func (a *adapter) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	if len(of) == 0 {
		return nil, nil
	}
	hash, err := hashText(at.Hash)
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, chain.Bitcoin, err)
	}
	w := wallets{hash: hash, height: at.Height, at: map[string][]int{}, sums: make([]int64, len(of))}
	for i, h := range of {
		script, err := bitcointx.Script(a.Network, h.Address)
		if err == nil && h.Contract != "" {
			err = fmt.Errorf("there is no token %s", h.Contract)
		}
		if err != nil {
			return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, chain.Bitcoin, err)
		}
		w.at[string(script)] = append(w.at[string(script)], i)
		w.of = append(w.of, h.Address)
	}
	amounts, err := several.Balances(ctx, a.providers, a.Agree, of, func(ctx context.Context, p *provider) ([]money.Amount, error) {
		return p.balances(ctx, w)
	})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, chain.Bitcoin, err)
	}
	return amounts, nil
}

// wallets are the addresses whose balances in a block are asked.
type wallets struct {
	hash   chainhash.Hash
	height uint64
	of     []chain.Address
	at     map[string][]int // by their scripts, the places in what is asked
	sums   []int64          // of each place; a copy for each node
}

func (w *wallets) add(script []byte, satoshi int64) {
	for _, i := range w.at[string(script)] {
		w.sums[i] += satoshi
	}
}

// balances asks a node. The block has to be on its chain before and after, so that what
// came of it is of this block and no other.
func (p *provider) balances(ctx context.Context, w wallets) ([]money.Amount, error) {
	w.sums = make([]int64, len(w.of))
	if err := p.holds(ctx, w); err != nil {
		return nil, err
	}
	err := errNoIndex
	if p.esplora {
		err = p.explored(ctx, &w)
	} else if !p.scans.Load() {
		err = p.indexed(ctx, &w)
	}
	if errors.Is(err, errNoIndex) {
		if err = p.scanned(ctx, &w); err == nil {
			p.scans.Store(true)
		}
	}
	if err == nil {
		err = p.holds(ctx, w)
	}
	if err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(w.sums))
	for i, n := range w.sums {
		if n < 0 || n > supply {
			return nil, fmt.Errorf("%s: the outputs of %s give %d satoshi", p.name, w.of[i], n)
		}
		amounts[i] = money.Units(uint64(n))
	}
	return amounts, nil
}

// holds makes sure that the block is on the node's chain.
func (p *provider) holds(ctx context.Context, w wallets) error {
	got, ok, err := p.hashAt(ctx, w.height)
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

// indexed adds up what the index of a btcd has of each address.
func (p *provider) indexed(ctx context.Context, w *wallets) error {
	heights := map[string]uint64{}
	for _, a := range slices.Compact(slices.Sorted(slices.Values(w.of))) {
		script, err := bitcointx.Script(p.network, a)
		if err != nil {
			return err
		}
		if err := p.history(ctx, w, a, script, heights); err != nil {
			return err
		}
	}
	return nil
}

// found is a transaction as searchrawtransactions has it.
type found struct {
	Hex   string `json:"hex"`
	Block string `json:"blockhash"` // "" while it waits
}

// history adds up all transactions of an address up to the block. Every one that spends
// from it or pays to it is among them, so what it spends was seen before.
func (p *provider) history(ctx context.Context, w *wallets, a chain.Address, script []byte, heights map[string]uint64) error {
	mine := map[wire.OutPoint]int64{}
	spent := map[wire.OutPoint]bool{}
	for skip := 0; ; skip += pageItems {
		var page []found
		err := p.call(ctx, ask(&page, "searchrawtransactions", string(a), 1, skip, pageItems, 0, false))
		switch {
		case refused(err, codeNoMethod):
			return errNoIndex
		case refused(err, codeNotFound):
			page = nil
		case err != nil:
			return fmt.Errorf("%w: btcd has to run with addrindex", err)
		}
		if err := p.heights(ctx, page, heights); err != nil {
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
			for _, in := range tx.TxIn {
				spent[in.PreviousOutPoint] = true
			}
			if makesCoins(tx) && heights[f.Block]+maturity > w.height {
				continue
			}
			id := tx.TxHash()
			for n, out := range tx.TxOut {
				if string(out.PkScript) == string(script) {
					mine[wire.OutPoint{Hash: id, Index: uint32(n)}] = out.Value
				}
			}
		}
		if len(page) < pageItems {
			break
		}
	}
	for out, satoshi := range mine {
		if !spent[out] {
			w.add(script, satoshi)
		}
	}
	return nil
}

// heights finds out at which heights the blocks of a page are.
func (p *provider) heights(ctx context.Context, page []found, heights map[string]uint64) error {
	type header struct {
		Height uint64 `json:"height"`
	}
	headers := map[string]*header{}
	var questions []*question
	for _, f := range page {
		if _, ok := heights[f.Block]; ok || f.Block == "" || headers[f.Block] != nil {
			continue
		}
		headers[f.Block] = new(header)
		questions = append(questions, ask(headers[f.Block], "getblockheader", f.Block, true))
	}
	if err := p.call(ctx, questions...); err != nil {
		return err
	}
	for hash, h := range headers {
		heights[hash] = h.Height
	}
	return nil
}

// unspent is what scantxoutset found.
type unspent struct {
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

// spending is a block as verbosity 3 has it, as far as it is needed to undo it.
type spending struct {
	Hash     string `json:"hash"`
	Previous string `json:"previousblockhash"`
	Height   uint64 `json:"height"`
	Txs      []struct {
		ID string `json:"txid"`
		In []struct {
			ID     string `json:"txid"`
			N      uint32 `json:"vout"`
			Before *struct {
				Made     uint64 `json:"height"`
				Reward   bool   `json:"generated"`
				Amount   btc    `json:"value"`
				Released struct {
					Hex string `json:"hex"`
				} `json:"scriptPubKey"`
			} `json:"prevout"`
		} `json:"vin"`
	} `json:"tx"`
}

// coin is an unspent output of an address that is asked.
type coin struct {
	script  string
	satoshi int64
	reward  bool
	made    uint64 // the height at which it was
}

// scanned has a bitcoind look through all unspent outputs and takes back what came
// after the block: an output that was made later goes, one that was spent later returns.
func (p *provider) scanned(ctx context.Context, w *wallets) error {
	var found unspent
	var scripts []string
	for script := range w.at {
		scripts = append(scripts, "raw("+hex.EncodeToString([]byte(script))+")")
	}
	slices.Sort(scripts)
	q := ask(&found, "scantxoutset", "start", scripts)
	if err := p.request(ctx, p.scan, []*question{q}); err != nil {
		return err
	}
	switch {
	case refused(q.err, codeNoMethod):
		return fmt.Errorf("%w: neither scantxoutset nor an index of addresses tells balances here", q.err)
	case q.err != nil:
		return q.err
	case !found.Success:
		return fmt.Errorf("%s: scantxoutset did not come to its end", p.name)
	case found.Height < w.height:
		return fmt.Errorf("%s: has no block %d: %w", p.name, w.height, chain.ErrNotYet)
	case found.Height-w.height > rewindMax:
		return fmt.Errorf("%s: block %d is %d behind the newest: %w", p.name, w.height, found.Height-w.height, chain.ErrStateGone)
	}
	type place struct {
		id string
		n  uint32
	}
	coins := map[place]coin{}
	for _, u := range found.Unspents {
		script, err := hex.DecodeString(u.Script)
		if err != nil || w.at[string(script)] == nil {
			return fmt.Errorf("%s: scantxoutset found an output of somebody else", p.name)
		}
		if u.Height <= w.height {
			coins[place{u.ID, u.N}] = coin{string(script), int64(u.Amount), u.Coinbase, u.Height}
		}
	}
	best := found.Best
	for height := found.Height; height > w.height; height-- {
		var b spending
		if err := p.call(ctx, ask(&b, "getblock", best, 3)); err != nil {
			return err
		}
		if b.Hash != best || b.Height != height {
			return fmt.Errorf("%s: gave block %s at height %d for %s at %d", p.name, several.Short(b.Hash), b.Height, best, height)
		}
		for i, tx := range b.Txs {
			for _, in := range tx.In {
				if i == 0 {
					continue // a coinbase spends nothing
				}
				if in.Before == nil {
					return fmt.Errorf("%s: block %s comes without what it spends: bitcoind has to be of version 23 or later", p.name, best)
				}
				script, err := hex.DecodeString(in.Before.Released.Hex)
				if err != nil {
					return fmt.Errorf("%s: block %s: a script is not in hexadecimal", p.name, best)
				}
				if w.at[string(script)] != nil && in.Before.Made <= w.height {
					coins[place{in.ID, in.N}] = coin{string(script), int64(in.Before.Amount), in.Before.Reward, in.Before.Made}
				}
			}
		}
		best = b.Previous
	}
	if best != w.hash.String() {
		return fmt.Errorf("%s: has block %s at height %d, not %s", p.name, several.Short(best), w.height, w.hash)
	}
	for _, c := range coins {
		if !c.reward || c.made+maturity <= w.height {
			w.add([]byte(c.script), c.satoshi)
		}
	}
	return nil
}

// btc is an amount of bitcoins as nodes write it, in satoshi. It is never a float.
type btc int64

// UnmarshalJSON reads digits, a point and up to eight more.
func (b *btc) UnmarshalJSON(text []byte) error {
	amount, err := money.ParseDecimal(string(text), decimals)
	if err != nil {
		return fmt.Errorf("amount %s: %w", several.Short(string(text)), err)
	}
	n, ok := amount.Uint64()
	if !ok || n > supply {
		return fmt.Errorf("amount %s is more than there is", several.Short(string(text)))
	}
	*b = btc(n)
	return nil
}
