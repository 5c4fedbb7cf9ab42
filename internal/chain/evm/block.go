package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
)

// verified is how what is in a block was checked against its header.
const verified = "transactions-root,receipts-root"

// A sealed block is one whose header gives its hash, and whose transactions and
// receipts give the roots in the header. Nothing in it changes any more.
type sealed struct {
	hash     common.Hash
	header   *types.Header
	txs      txs
	receipts []*receipt
	stack    stack
	whole    bool    // the receipts are there and checked
	settles  *uint64 // the newest block whose results its header has; nil: its own
}

func (s *sealed) block() chain.Block { return block(s.header, s.hash) }

// sealed fetches a block by its hash and checks it.
func (a *adapter) sealed(ctx context.Context, p *provider, hash common.Hash) (*sealed, error) {
	if s, ok := a.blocks.Find(hash); ok {
		return s, nil
	}
	var raw json.RawMessage
	if err := p.call(ctx, &raw, "eth_getBlockByHash", hash, true); err != nil {
		return nil, err
	}
	if absent(raw) {
		return nil, fmt.Errorf("%s: has no block %s", p.name, hash)
	}
	return a.seal(ctx, p, raw, hash)
}

// seal checks a block with its transactions that a provider gave, and fetches
// and checks its receipts. A zero hash takes the block's own.
func (a *adapter) seal(ctx context.Context, p *provider, raw json.RawMessage, want common.Hash) (*sealed, error) {
	s, err := a.bare(ctx, p, raw, want)
	if err != nil || s.whole {
		return s, err
	}
	if s.settles != nil {
		err = a.settled(ctx, p, s)
	} else {
		s.receipts, err = p.receipts(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	s.whole = true
	a.blocks.Keep(s.hash, s, blocksKept)
	return s, nil
}

// bare checks a block with its transactions that a provider gave. Its receipts are
// not there, unless it was fetched before.
func (a *adapter) bare(ctx context.Context, p *provider, raw json.RawMessage, want common.Hash) (*sealed, error) {
	h, hash, err := a.stack.header(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if want != (common.Hash{}) && hash != want {
		return nil, fmt.Errorf("%s: gave block %s for %s", p.name, hash, want)
	}
	if s, ok := a.blocks.Find(hash); ok {
		return s, nil
	}
	s := &sealed{hash: hash, header: h, stack: a.stack}
	if a.stack == avalanche {
		if s.settles, err = settles(raw); err != nil {
			return nil, fmt.Errorf("%s: block %d %s: %w", p.name, h.Number, hash, err)
		}
	}
	if s.txs, err = a.transactions(ctx, p, raw, s); err != nil {
		return nil, fmt.Errorf("%s: block %d %s: %w", p.name, h.Number, hash, err)
	}
	return s, nil
}

// transactions reads the transactions of a block and checks them against the
// root in its header.
func (a *adapter) transactions(ctx context.Context, p *provider, raw json.RawMessage, s *sealed) (all txs, err error) {
	var body struct {
		Transactions []json.RawMessage `json:"transactions"`
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return nil, fmt.Errorf("%w: transactions: %w", chain.ErrUndecodable, err)
	}
	for i, raw := range body.Transactions {
		t, err := a.transaction(ctx, p, raw, s.hash, i)
		if err != nil {
			return nil, err
		}
		if t != nil {
			all = append(all, t)
		}
	}
	if got := rootOf(all); got != s.header.TxHash {
		return nil, errors.New("transactions do not give the root in the header")
	}
	return all, nil
}
