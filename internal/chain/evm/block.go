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

// verified says how the contents of a block were checked against its header.
const verified = "transactions-root,receipts-root"

// A block with this many transactions and token transfers takes megabytes, so only a few of them
// are cached. Any sender of transactions can make every block such a one.
const (
	heavyItemsMin     = 20_000
	heavyBlocksCached = 2
)

// verifiedBlock is a block whose header gives its hash, and whose transactions and receipts give
// the roots in the header. Nothing in it can change.
type verifiedBlock struct {
	hash        common.Hash
	header      *types.Header
	txs         txs
	receipts    []*receipt
	stack       stack
	hasReceipts bool    // the receipts are present and checked
	settlesUpTo *uint64 // the newest block whose results its header has; nil: its own
}

func (s *verifiedBlock) chainBlock() chain.Block { return block(s.header, s.hash) }

// loadBlock fetches a block by its hash and checks it.
func (a *adapter) loadBlock(ctx context.Context, p *provider, hash common.Hash) (*verifiedBlock, error) {
	if s, ok := a.blocks.Get(hash); ok {
		return s, nil
	}
	s, err := a.fetchBlock(ctx, p, "eth_getBlockByHash", hash, hash)
	if errors.Is(err, errAbsent) {
		return nil, fmt.Errorf("%s: has no block %s", p.name, hash)
	}
	return s, err
}

// fetchBlock fetches a block with its transactions and its receipts and checks them. Error:
// errAbsent, as of fetchTransactions.
func (a *adapter) fetchBlock(
	ctx context.Context, p *provider, method string, blockRef any, want common.Hash,
) (*verifiedBlock, error) {
	s, err := a.fetchTransactions(ctx, p, method, blockRef, want)
	if err != nil || s.hasReceipts {
		return s, err
	}
	if s.settlesUpTo != nil {
		err = a.loadSettledReceipts(ctx, p, s)
	} else {
		s.receipts, err = p.fetchReceipts(ctx, s)
	}
	if err != nil {
		return nil, err
	}
	s.hasReceipts = true
	capacity := blocksCached
	if s.itemCount() > heavyItemsMin {
		capacity = heavyBlocksCached
	}
	a.blocks.Put(s.hash, s, capacity)
	return s, nil
}

// itemCount returns how many items of a block are in memory.
func (s *verifiedBlock) itemCount() int {
	n := len(s.txs)
	for _, r := range s.receipts {
		n += len(r.transfers)
	}
	return n
}

// fetchTransactions fetches a block with its transactions and checks them. The receipts are
// missing, unless the block is cached. method and blockRef name it to the provider; a zero hash
// accepts the block's own. Error: errAbsent if the provider has no such block.
func (a *adapter) fetchTransactions(
	ctx context.Context, p *provider, method string, blockRef any, want common.Hash,
) (*verifiedBlock, error) {
	b := txReader{a: a, p: p, hash: want}
	header, err := b.readWhole(ctx, method, blockRef)
	if isTooLong(err) && ctx.Err() == nil {
		header, err = b.readParts(ctx, method, blockRef)
	}
	if err != nil {
		return nil, err
	}
	h, hash, err := a.stack.readHeader(header)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.name, err)
	}
	if want != (common.Hash{}) && hash != want {
		return nil, fmt.Errorf("%s: gave block %s for %s", p.name, hash, want)
	}
	if s, ok := a.blocks.Get(hash); ok {
		return s, nil
	}
	s := &verifiedBlock{hash: hash, header: h, stack: a.stack, txs: b.txs}
	wrong := func(err error) error { return fmt.Errorf("%s: block %d %s: %w", p.name, h.Number, hash, err) }
	if a.stack == avalanche {
		if s.settlesUpTo, err = readSettledHeight(header); err != nil {
			return nil, wrong(err)
		}
	}
	if b.root.rootHash() != h.TxHash {
		return nil, wrong(errors.New("transactions do not have the root in the header"))
	}
	return s, nil
}

// txReader collects the transactions of a block while they are read.
type txReader struct {
	a         *adapter
	p         *provider
	hash      common.Hash // of the block; zero until it is known
	txs       txs
	root      listRoot
	readCount int // how many items the provider has given, including those that are no transactions
}

// readWhole fetches the block in one answer and returns its fields without the transactions.
func (b *txReader) readWhole(ctx context.Context, method string, blockRef any) (header []byte, err error) {
	err = b.p.streamCall(ctx, b.p.blockLimits(b.p.blockBytesMax), func(r *reader) (err error) {
		header, err = b.readDocument(ctx, r)
		return err
	}, method, blockRef, true)
	return header, err
}

func (b *txReader) readDocument(ctx context.Context, r *reader) (header []byte, err error) {
	return r.readMembers(map[string]func([]byte) error{"transactions": func(document []byte) error {
		if b.hash == (common.Hash{}) {
			var named struct {
				Hash common.Hash `json:"hash"`
			}
			if err := json.Unmarshal(document, &named); err != nil {
				return fmt.Errorf("%w: hash of the header: %w", chain.ErrUndecodable, err)
			}
			b.hash = named.Hash
		}
		return r.readItems(func(int) error { return b.addTransaction(ctx, r) })
	}})
}

// readParts reads the header, which names the transactions, and then those that were not read yet.
func (b *txReader) readParts(ctx context.Context, method string, blockRef any) (header []byte, err error) {
	var raw json.RawMessage
	if err := b.p.callMethod(ctx, &raw, method, blockRef, false); err != nil {
		return nil, err
	}
	if isNull(raw) {
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
	err = b.p.fetchParts(ctx, b.readCount, len(named.Transactions), b.p.blockBytesMax, func(i int) subrequest {
		return subrequest{"eth_getTransactionByBlockHashAndIndex", []any{named.Hash, hexutil.Uint64(i)}}
	}, func(_ int, r *reader) error { return b.addTransaction(ctx, r) })
	return raw, err
}

// addTransaction reads the next transaction.
func (b *txReader) addTransaction(ctx context.Context, r *reader) error {
	raw, err := r.nextValue()
	if err != nil {
		return err
	}
	t, encoded, err := b.a.readTransaction(ctx, b.p, raw, b.hash, b.readCount)
	if err != nil {
		return err
	}
	if b.readCount++; t != nil {
		b.root.addItem(encoded)
		b.txs = append(b.txs, t)
	}
	return nil
}
