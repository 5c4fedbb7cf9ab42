package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
)

// verified is how what is in a block was checked against its header.
const verified = "transactions-root,receipts-root"

// A block with so many transactions and token transfers takes megabytes, and so many such
// blocks are kept. Whoever sends transactions can make each block such a one.
const (
	heavy     = 20_000
	heavyKept = 2
)

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
	s, err := a.seal(ctx, p, "eth_getBlockByHash", hash, hash)
	if errors.Is(err, errAbsent) {
		return nil, fmt.Errorf("%s: has no block %s", p.name, hash)
	}
	return s, err
}

// seal fetches a block with its transactions and its receipts and checks them. Errors:
// errAbsent, as of bare.
func (a *adapter) seal(ctx context.Context, p *provider, method string, which any, want common.Hash) (*sealed, error) {
	s, err := a.bare(ctx, p, method, which, want)
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
	most := blocksKept
	if s.size() > heavy {
		most = heavyKept
	}
	a.blocks.Keep(s.hash, s, most)
	return s, nil
}

// size is how many things of a block are in memory.
func (s *sealed) size() int {
	n := len(s.txs)
	for _, r := range s.receipts {
		n += len(r.transfers)
	}
	return n
}

// bare fetches a block with its transactions and checks them. Its receipts are not there,
// unless it was fetched before. method and which name it to the provider; a zero hash
// takes the block's own. Error: errAbsent where the provider has none.
func (a *adapter) bare(ctx context.Context, p *provider, method string, which any, want common.Hash) (*sealed, error) {
	b := body{a: a, p: p, hash: want}
	header, err := b.whole(ctx, method, which)
	if oversized(err) && ctx.Err() == nil {
		header, err = b.inParts(ctx, method, which)
	}
	if err != nil {
		return nil, err
	}
	h, hash, err := a.stack.header(header)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if want != (common.Hash{}) && hash != want {
		return nil, fmt.Errorf("%s: gave block %s for %s", p.name, hash, want)
	}
	if s, ok := a.blocks.Find(hash); ok {
		return s, nil
	}
	s := &sealed{hash: hash, header: h, stack: a.stack, txs: b.txs}
	wrong := func(err error) error { return fmt.Errorf("%s: block %d %s: %w", p.name, h.Number, hash, err) }
	if a.stack == avalanche {
		if s.settles, err = settles(header); err != nil {
			return nil, wrong(err)
		}
	}
	if b.root.hash() != h.TxHash {
		return nil, wrong(errors.New("transactions do not give the root in the header"))
	}
	return s, nil
}

// A body is the transactions of a block while they are read.
type body struct {
	a    *adapter
	p    *provider
	hash common.Hash // of the block; zero until it is known
	txs  txs
	root listRoot
	next int // how many the provider has given, also what is no transaction
}

// whole fetches the block in one answer and gives what it has beside transactions.
func (b *body) whole(ctx context.Context, method string, which any) (header []byte, err error) {
	err = b.p.stream(ctx, b.p.blockBytesMax, func(r *reader) (err error) {
		header, err = b.read(ctx, r)
		return err
	}, method, which, true)
	return header, err
}

func (b *body) read(ctx context.Context, r *reader) (header []byte, err error) {
	return r.members(map[string]func([]byte) error{"transactions": func(before []byte) error {
		if b.hash == (common.Hash{}) {
			var said struct {
				Hash common.Hash `json:"hash"`
			}
			if err := json.Unmarshal(before, &said); err != nil {
				return fmt.Errorf("%w: hash of the header: %w", chain.ErrUndecodable, err)
			}
			b.hash = said.Hash
		}
		return r.items(func(int) error { return b.add(ctx, r) })
	}})
}

// inParts reads the header, which names the transactions, and then those that are not read yet.
func (b *body) inParts(ctx context.Context, method string, which any) (header []byte, err error) {
	var raw json.RawMessage
	if err := b.p.call(ctx, &raw, method, which, false); err != nil {
		return nil, err
	}
	if absent(raw) {
		return nil, errAbsent
	}
	var named struct {
		Hash         common.Hash   `json:"hash"`
		Transactions []common.Hash `json:"transactions"`
	}
	if err := json.Unmarshal(raw, &named); err != nil {
		return nil, fmt.Errorf("%s: %w: transactions: %w", b.p.name, chain.ErrUndecodable, err)
	}
	if b.hash != (common.Hash{}) && named.Hash != b.hash {
		return nil, fmt.Errorf("%s: gave block %s for %s", b.p.name, named.Hash, b.hash)
	}
	b.hash = named.Hash
	err = b.p.pieces(ctx, b.next, len(named.Transactions), b.p.blockBytesMax, func(i int) piece {
		return piece{"eth_getTransactionByBlockHashAndIndex", []any{named.Hash, hexutil.Uint64(i)}}
	}, func(_ int, r *reader) error { return b.add(ctx, r) })
	return raw, err
}

// add reads the next transaction.
func (b *body) add(ctx context.Context, r *reader) error {
	raw, err := r.value()
	if err != nil {
		return err
	}
	t, encoded, err := b.a.transaction(ctx, b.p, raw, b.hash, b.next)
	if err != nil {
		return err
	}
	if b.next++; t != nil {
		b.root.add(encoded)
		b.txs = append(b.txs, t)
	}
	return nil
}
