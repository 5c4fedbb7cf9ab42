package evm

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/core/types"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// receipts fetches the receipts of a block and checks them against the root in
// its header. The fields that the root does not cover are taken from what it
// does cover, or filled in here.
func (p *provider) receipts(ctx context.Context, s *sealed) ([]*types.Receipt, error) {
	if len(s.txs) == 0 && s.header.ReceiptHash == types.EmptyReceiptsHash {
		return nil, nil // the header itself says that there are none
	}
	var raw json.RawMessage
	if err := p.call(ctx, &raw, "eth_getBlockReceipts", s.hash); err != nil {
		return nil, err
	}
	at := func(err error) error {
		return fmt.Errorf("%s: receipts of block %d %s: %w", p.name, s.header.Number, s.hash, err)
	}
	if absent(raw) {
		return nil, at(errors.New("there are none"))
	}
	var all []*types.Receipt
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, at(fmt.Errorf("%w: %w", chain.ErrUndecodable, err))
	}
	if len(all) != len(s.txs) {
		return nil, at(fmt.Errorf("got %d for %d transactions", len(all), len(s.txs)))
	}
	for i, r := range all {
		if r == nil {
			return nil, at(fmt.Errorf("number %d is missing", i))
		}
		if r.TxHash != s.txs[i].Hash() {
			return nil, at(fmt.Errorf("number %d is of transaction %s, not %s", i, r.TxHash, s.txs[i].Hash()))
		}
		if slices.Contains(r.Logs, nil) {
			return nil, at(fmt.Errorf("number %d has a log that is missing", i))
		}
	}
	if got := rootOf(types.Receipts(all)); got != s.header.ReceiptHash {
		return nil, at(errors.New("they do not give the root in the header"))
	}
	var gas uint64
	var logs uint
	for i, r := range all {
		if r.CumulativeGasUsed < gas {
			return nil, at(fmt.Errorf("number %d has used less gas than the one before", i))
		}
		r.GasUsed = r.CumulativeGasUsed - gas
		gas = r.CumulativeGasUsed
		for _, l := range r.Logs {
			l.Index = logs
			logs++
		}
	}
	return all, nil
}

// fee is what the i-th transaction cost its sender, whether it succeeded or not.
func (s *sealed) fee(i int) (money.Amount, error) {
	tx, r := s.txs[i], s.receipts[i]
	price := r.EffectiveGasPrice
	if s.header.BaseFee != nil {
		if tip, err := tx.EffectiveGasTip(s.header.BaseFee); err == nil {
			price = tip.Add(tip, s.header.BaseFee)
		}
	}
	if price == nil {
		return money.Zero, fmt.Errorf("transaction %s has no gas price", tx.Hash())
	}
	perGas, err := money.FromBig(price)
	if err != nil {
		return money.Zero, fmt.Errorf("gas price of %s: %w", tx.Hash(), err)
	}
	fee, err := perGas.Mul(r.GasUsed)
	if err != nil || tx.BlobGas() == 0 {
		return fee, err
	}
	// The price of blobs is the provider's word. None of our accounts sends any.
	if r.BlobGasPrice == nil {
		return money.Zero, fmt.Errorf("transaction %s has no blob gas price", tx.Hash())
	}
	perBlobGas, err := money.FromBig(r.BlobGasPrice)
	if err != nil {
		return money.Zero, fmt.Errorf("blob gas price of %s: %w", tx.Hash(), err)
	}
	blobs, err := perBlobGas.Mul(tx.BlobGas())
	if err != nil {
		return money.Zero, fmt.Errorf("blob fee of %s: %w", tx.Hash(), err)
	}
	return fee.Add(blobs)
}
