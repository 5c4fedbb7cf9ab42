package evm

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// A receipt is what a transaction came to, with what stacks add.
type receipt struct {
	*types.Receipt
	beside
}

// beside is what the OP stack tells of a transaction beside its receipt. The first two
// are part of what the root covers; the others are a provider's word.
type beside struct {
	DepositNonce   *hexutil.Uint64 `json:"depositNonce"`
	DepositVersion *hexutil.Uint64 `json:"depositReceiptVersion"`

	L1Fee            *hexutil.Big    `json:"l1Fee"`
	OperatorScalar   *hexutil.Uint64 `json:"operatorFeeScalar"`
	OperatorConstant *hexutil.Uint64 `json:"operatorFeeConstant"`
	// FootprintScalar came with the fork that changed the operator's fee.
	FootprintScalar *hexutil.Uint64 `json:"daFootprintGasScalar"`

	// Price is what a unit of gas cost. It is looked at where no header has it.
	Price *hexutil.Big `json:"effectiveGasPrice"`
}

const (
	operatorUnit   = 1_000_000 // of the scalar of the operator's fee, before the fork
	operatorFactor = 100       // and since
)

// fee is what a transaction costs beside its gas: for its data on the layer below, and
// for the operator.
func (b beside) fee(gas uint64) (money.Amount, error) {
	total := new(big.Int)
	if b.L1Fee != nil {
		total.Set(b.L1Fee.ToInt())
	}
	if b.OperatorScalar != nil {
		scaled := new(big.Int).Mul(new(big.Int).SetUint64(gas), new(big.Int).SetUint64(uint64(*b.OperatorScalar)))
		if b.FootprintScalar != nil {
			scaled.Mul(scaled, big.NewInt(operatorFactor))
		} else {
			scaled.Div(scaled, big.NewInt(operatorUnit))
		}
		total.Add(total, scaled)
	}
	if b.OperatorConstant != nil {
		total.Add(total, new(big.Int).SetUint64(uint64(*b.OperatorConstant)))
	}
	return money.FromBig(total)
}

// receiptRoot is the list that the root of a block is of.
type receiptRoot []*receipt

// Len is how many there are.
func (l receiptRoot) Len() int { return len(l) }

// EncodeIndex writes the i-th one. What has no encoding gives another root.
func (l receiptRoot) EncodeIndex(i int, w *bytes.Buffer) {
	r := l[i]
	if r.Type != opDeposit || r.DepositVersion == nil {
		if b, err := r.MarshalBinary(); err == nil {
			w.Write(b)
		}
		return
	}
	status := []byte{}
	if r.Status == types.ReceiptStatusSuccessful {
		status = []byte{1}
	}
	nonce := uint64(0)
	if r.DepositNonce != nil {
		nonce = uint64(*r.DepositNonce)
	}
	w.WriteByte(r.Type)
	// A buffer takes everything.
	_ = rlp.Encode(w, []any{status, r.CumulativeGasUsed, r.Bloom, r.Logs, nonce, uint64(*r.DepositVersion)})
}

// receipts fetches the receipts of a block and checks them against the root in
// its header. The fields that the root does not cover are taken from what it
// does cover, or filled in here.
func (p *provider) receipts(ctx context.Context, s *sealed) ([]*receipt, error) {
	if len(s.txs) == 0 && s.header.ReceiptHash == types.EmptyReceiptsHash {
		return nil, nil // the header itself says that there are none
	}
	all, err := p.receiptsOf(ctx, s)
	if err != nil {
		return nil, err
	}
	if got := rootOf(receiptRoot(all)); got != s.header.ReceiptHash {
		return nil, s.at(p, errors.New("they do not give the root in the header"))
	}
	s.receipts = all
	if err := s.count(); err != nil {
		return nil, s.at(p, err)
	}
	return all, nil
}

// at says of which receipts an error is.
func (s *sealed) at(p *provider, err error) error {
	return fmt.Errorf("%s: receipts of block %d %s: %w", p.name, s.header.Number, s.hash, err)
}

// receiptsOf fetches the receipts of the transactions of a block; no root is asked.
func (p *provider) receiptsOf(ctx context.Context, s *sealed) ([]*receipt, error) {
	if len(s.txs) == 0 && s.settles != nil {
		return nil, nil
	}
	var raw json.RawMessage
	if err := p.call(ctx, &raw, "eth_getBlockReceipts", s.hash); err != nil {
		return nil, err
	}
	at := func(err error) error { return s.at(p, err) }
	if absent(raw) {
		return nil, at(errors.New("there are none"))
	}
	all, err := readReceipts(raw)
	if err != nil {
		return nil, at(fmt.Errorf("%w: %w", chain.ErrUndecodable, err))
	}
	if s.stack == bor && len(all) == len(s.txs)+1 {
		all = all[:len(s.txs)] // the last one is of what is no transaction of the block
	}
	if len(all) != len(s.txs) {
		return nil, at(fmt.Errorf("got %d for %d transactions", len(all), len(s.txs)))
	}
	for i, r := range all {
		if r == nil {
			return nil, at(fmt.Errorf("number %d is missing", i))
		}
		if r.TxHash != s.txs[i].hash && s.txs[i].kind != borStateSync {
			return nil, at(fmt.Errorf("number %d is of transaction %s, not %s", i, r.TxHash, s.txs[i].hash))
		}
		if r.Type != s.txs[i].kind {
			return nil, at(fmt.Errorf("number %d is of type %#x, not %#x", i, r.Type, s.txs[i].kind))
		}
		if slices.Contains(r.Logs, nil) {
			return nil, at(fmt.Errorf("number %d has a log that is missing", i))
		}
	}
	return all, nil
}

// count fills in what follows from the receipts that a root covers.
func (s *sealed) count() error {
	var gas uint64
	var logs uint
	for i, r := range s.receipts {
		if r.CumulativeGasUsed < gas {
			return fmt.Errorf("number %d has used less gas than the one before", i)
		}
		r.GasUsed = r.CumulativeGasUsed - gas
		gas = r.CumulativeGasUsed
		for _, l := range r.Logs {
			l.Index = logs
			logs++
		}
	}
	return nil
}

// readReceipts reads a list; nil stands for one that is missing.
func readReceipts(raw json.RawMessage) ([]*receipt, error) {
	var plain []*types.Receipt
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	var more []beside
	if err := json.Unmarshal(raw, &more); err != nil {
		return nil, err
	}
	all := make([]*receipt, len(plain))
	for i, r := range plain {
		if r != nil {
			all[i] = &receipt{r, more[i]}
		}
	}
	return all, nil
}

// fee is what the i-th transaction cost its sender, whether it succeeded or not.
func (s *sealed) fee(i int) (money.Amount, error) { return s.feeWith(i, s.receipts[i].beside) }

// feeWith is fee with what somebody says that it cost beside its gas.
func (s *sealed) feeWith(i int, said beside) (money.Amount, error) {
	if s.txs[i].signed == nil {
		return money.Zero, nil // it was paid for on the layer below
	}
	gas, err := s.gasFee(i, said)
	if err != nil || s.stack != optimism {
		return gas, err
	}
	more, err := said.fee(s.receipts[i].GasUsed)
	if err != nil {
		return money.Zero, fmt.Errorf("fee of %s beside its gas: %w", s.txs[i].hash, err)
	}
	return gas.Add(more)
}

// tipped tells whether tips are paid: on Nitro only when its header says so.
func (s *sealed) tipped() bool {
	if s.stack != arbitrum {
		return true
	}
	const versionAt, flagAt, versionWithTips = 16, 25, 9
	return s.header.MixDigest[flagAt]&1 == 1 || binary.BigEndian.Uint64(s.header.MixDigest[versionAt:]) == versionWithTips
}

// gasFee is what its gas cost.
func (s *sealed) gasFee(i int, said beside) (money.Amount, error) {
	tx, r := s.txs[i].signed, s.receipts[i]
	price := r.EffectiveGasPrice
	switch {
	case s.settles != nil:
		if err := s.priced(i, said); err != nil {
			return money.Zero, fmt.Errorf("fee of %s: %w", tx.Hash(), err)
		}
		price = said.Price.ToInt()
	case s.header.BaseFee != nil && !s.tipped():
		price = s.header.BaseFee
	case s.header.BaseFee != nil:
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
