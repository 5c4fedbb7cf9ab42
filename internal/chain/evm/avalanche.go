package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
)

// Avalanche's C-Chain differs in two ways. Its headers have fields of their own. And since the
// upgrade Helicon (ACP-194) a block is accepted before it is executed. Its header has the receipts
// root of the blocks that it settles, some seconds older ones, and a base fee that is an upper
// bound. So the results of a block are known here only once another final block has settled it.

// avalancheFields are the fields of a C-Chain header in addition to Ethereum's.
type avalancheFields struct {
	ExtDataHash         *common.Hash    `json:"extDataHash"` // of transfers between the network's chains
	ExtDataGasUsed      *hexutil.Big    `json:"extDataGasUsed"`
	BlockGasCost        *hexutil.Big    `json:"blockGasCost"`
	Milliseconds        *hexutil.Uint64 `json:"timestampMilliseconds"`
	MinDelayExcess      *hexutil.Uint64 `json:"minDelayExcess"`
	TargetExponent      *hexutil.Uint64 `json:"targetExponent"`
	MinPriceExponent    *hexutil.Uint64 `json:"minPriceExponent"`
	SettledHeight       *hexutil.Uint64 `json:"settledHeight"`
	SettledGasUnix      *hexutil.Uint64 `json:"settledGasUnix"`
	SettledGasNumerator *hexutil.Uint64 `json:"settledGasNumerator"`
	SettledExcess       *hexutil.Uint64 `json:"settledExcess"`
}

func readAvalanche(raw json.RawMessage) (f avalancheFields, err error) {
	if err = json.Unmarshal(raw, &f); err != nil {
		return f, fmt.Errorf("%w: header: %w", chain.ErrUndecodable, err)
	}
	if f.ExtDataHash == nil {
		return f, fmt.Errorf("%w: header without extDataHash", chain.ErrUndecodable)
	}
	return f, nil
}

// computeHash hashes the fields in their order on the C-Chain: fifteen of Ethereum's, the hash of
// the extra data, and then those that came with upgrades. Of the latter the list ends with the last
// present one; a missing one before it is empty.
func (f avalancheFields) computeHash(h *types.Header) (common.Hash, error) {
	list := []any{
		h.ParentHash, h.UncleHash, h.Coinbase, h.Root, h.TxHash, h.ReceiptHash, h.Bloom, h.Difficulty, h.Number,
		h.GasLimit, h.GasUsed, h.Time, h.Extra, h.MixDigest, h.Nonce, *f.ExtDataHash,
	}
	required := len(list)
	addNumber := func(v *hexutil.Uint64) {
		if v == nil {
			list = append(list, nil)
			return
		}
		list = append(list, uint64(*v))
	}
	addBig := func(v *hexutil.Big) {
		if v == nil {
			list = append(list, nil)
			return
		}
		list = append(list, v.ToInt())
	}
	addBig((*hexutil.Big)(h.BaseFee))
	addBig(f.ExtDataGasUsed)
	addBig(f.BlockGasCost)
	addNumber((*hexutil.Uint64)(h.BlobGasUsed))
	addNumber((*hexutil.Uint64)(h.ExcessBlobGas))
	if h.ParentBeaconRoot == nil {
		list = append(list, nil)
	} else {
		list = append(list, *h.ParentBeaconRoot)
	}
	for _, v := range []*hexutil.Uint64{
		f.Milliseconds, f.MinDelayExcess, f.TargetExponent, f.MinPriceExponent,
		f.SettledHeight, f.SettledGasUnix, f.SettledGasNumerator, f.SettledExcess,
	} {
		addNumber(v)
	}
	for len(list) > required && list[len(list)-1] == nil {
		list = list[:len(list)-1]
	}
	for i, v := range list {
		if v == nil {
			list[i] = []byte{}
		}
	}
	raw, err := rlp.EncodeToBytes(list)
	if err != nil {
		return common.Hash{}, fmt.Errorf("%w: header: %w", chain.ErrUndecodable, err)
	}
	return crypto.Keccak256Hash(raw), nil
}

// readSettledHeight returns the newest block whose results a verified header has; nil for headers
// from before Helicon, when each had its own.
func readSettledHeight(raw json.RawMessage) (*uint64, error) {
	f, err := readAvalanche(raw)
	if err != nil {
		return nil, err
	}
	present := 0
	for _, v := range []*hexutil.Uint64{f.SettledHeight, f.SettledGasUnix, f.SettledGasNumerator, f.SettledExcess} {
		if v != nil {
			present++
		}
	}
	switch present {
	case 0:
		return nil, nil
	case 4:
		return (*uint64)(f.SettledHeight), nil
	}
	return nil, fmt.Errorf("%w: header with a part of what it settles", chain.ErrUndecodable)
}

const (
	settleBatch = 8   // headers in one batch
	settleMax   = 512 // most blocks between a block and the one that settles it, or that one block settles
)

// link is a header on the way to the one that settles a block.
type link struct {
	hash    common.Hash
	header  *types.Header
	settled uint64
}

// loadSettledReceipts fetches the receipts of a block whose own header lacks their root, with those
// of all blocks that are settled together with it. It checks them against the settling header. It
// returns chain.ErrNotYet until a quorum calls that header's block final: a single provider could
// invent a following header.
func (a *adapter) loadSettledReceipts(ctx context.Context, p *provider, s *verifiedBlock) error {
	chained, err := a.findSettlingHeaders(ctx, p, s)
	if err != nil {
		return err
	}
	last := chained[len(chained)-1]
	height := last.header.Number.Uint64()
	hash, _, err := a.agreeOnHash(ctx, height)
	if err != nil {
		return fmt.Errorf("block %d, which settles %d: %w", height, s.header.Number, err)
	}
	if hash != last.hash {
		return fmt.Errorf("%s: has %s as block %d, which settles %d, and others %s: %w", p.name, last.hash, height,
			s.header.Number, hash, chain.ErrDisagreement)
	}
	settledBefore := *s.settlesUpTo
	if len(chained) > 1 {
		settledBefore = chained[len(chained)-2].settled
	}
	ownHeight := s.header.Number.Uint64()
	if settledBefore >= ownHeight || last.settled >= height || last.settled-settledBefore > settleMax {
		return fmt.Errorf("%w: block %d settles up to %d and the one before it up to %d", chain.ErrUndecodable, height,
			last.settled, settledBefore)
	}
	blocks, err := a.loadSettledBlocks(ctx, p, s, chained, settledBefore+1, last.settled)
	if err != nil {
		return err
	}
	var root listRoot
	receipts := make([][]*receipt, len(blocks))
	for i, b := range blocks {
		if receipts[i], err = p.fetchReceiptList(ctx, b, &root); err != nil {
			return err
		}
	}
	if root.rootHash() != last.header.ReceiptHash {
		return fmt.Errorf("%s: receipts of blocks %d to %d do not have the root in block %d, which settles them",
			p.name, settledBefore+1, last.settled, height)
	}
	for i, b := range blocks {
		if b.hasReceipts {
			continue // it is in use, and was checked
		}
		b.receipts = receipts[i]
		if err := b.fillGasAndLogs(); err != nil {
			return fmt.Errorf("%s: receipts of block %d %s: %w", p.name, b.header.Number, b.hash, err)
		}
	}
	for _, b := range blocks {
		if b != s && !b.hasReceipts {
			b.hasReceipts = true
			a.blocks.Put(b.hash, b, blocksCached)
		}
	}
	return nil
}

// findSettlingHeaders returns the chain of headers from the block after s to the first that settles
// it.
func (a *adapter) findSettlingHeaders(ctx context.Context, p *provider, s *verifiedBlock) (chained []link, err error) {
	ownHeight, parent := s.header.Number.Uint64(), s.hash
	for len(chained) < settleMax {
		raws := make([]json.RawMessage, settleBatch)
		elems := make([]rpc.BatchElem, settleBatch)
		for i := range elems {
			height := ownHeight + uint64(len(chained)+i+1)
			elems[i] = rpc.BatchElem{
				Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(height), false},
				Result: &raws[i],
			}
		}
		if err := p.callBatch(ctx, elems); err != nil {
			return nil, err
		}
		for _, raw := range raws {
			if isNull(raw) {
				return nil, fmt.Errorf("%s: nothing settles block %d: %w", p.name, ownHeight, chain.ErrNotYet)
			}
			h, hash, err := a.stack.readHeader(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.name, err)
			}
			settledHeight, err := readSettledHeight(raw)
			if err != nil {
				return nil, fmt.Errorf("%s: block %d: %w", p.name, h.Number, err)
			}
			if h.ParentHash != parent || settledHeight == nil {
				return nil, fmt.Errorf("%s: block %d %s does not follow %s", p.name, h.Number, hash, parent)
			}
			chained = append(chained, link{hash, h, *settledHeight})
			if *settledHeight >= ownHeight {
				return chained, nil
			}
			parent = hash
		}
	}
	return nil, fmt.Errorf("%w: %d blocks after block %d none settles it", chain.ErrUndecodable, settleMax, ownHeight)
}

// loadSettledBlocks returns the blocks of a range that contains s, with their transactions, in
// order. Each is named by a hash that the chain of headers leads to. So its number of transactions
// is certain, and with it the receipt of each.
func (a *adapter) loadSettledBlocks(
	ctx context.Context, p *provider, s *verifiedBlock, chained []link, from, to uint64,
) ([]*verifiedBlock, error) {
	ownHeight := s.header.Number.Uint64()
	var blocks []*verifiedBlock
	read := func(hash common.Hash) (*verifiedBlock, error) {
		b, err := a.fetchTransactions(ctx, p, "eth_getBlockByHash", hash, hash)
		if errors.Is(err, errAbsent) {
			return nil, fmt.Errorf("%s: has no block %s", p.name, hash)
		}
		if err == nil && b.settlesUpTo == nil {
			err = fmt.Errorf("%w: block %s has results of its own and is settled by another", chain.ErrUndecodable,
				hash)
		}
		return b, err
	}
	for height, hash := ownHeight, s.header.ParentHash; height > from; height-- {
		b, err := read(hash)
		if err != nil {
			return nil, err
		}
		blocks, hash = append(blocks, b), b.header.ParentHash
	}
	slices.Reverse(blocks)
	blocks = append(blocks, s)
	for _, l := range chained[:to-ownHeight] {
		b, err := read(l.hash)
		if err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// checkGasPrice checks the gas price that the provider of the receipt reports: the header and the
// transaction bound it.
func (s *verifiedBlock) checkGasPrice(i int, reported stackFields) error {
	if reported.Price == nil {
		return errors.New("the receipt has no gas price")
	}
	priceMax, err := s.txs[i].signed.effectiveTip(s.header.BaseFee)
	if err != nil {
		return err
	}
	if priceMax.Add(priceMax, s.header.BaseFee).Cmp(reported.Price.ToInt()) < 0 {
		return fmt.Errorf("%w: a gas price of %v, where the header and the transaction allow %v", chain.ErrUndecodable,
			reported.Price, priceMax)
	}
	return nil
}
