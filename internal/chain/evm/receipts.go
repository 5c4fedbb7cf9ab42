package evm

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// receipt is what is kept of a transaction's receipt, with the additions of stacks. Of its logs
// only the transfers are kept.
type receipt struct {
	Type              byte
	TxHash            common.Hash
	Status            uint64
	CumulativeGasUsed uint64
	GasUsed           uint64
	EffectiveGasPrice *big.Int
	BlobGasPrice      *big.Int
	stackFields

	transfers []tokenLog
	logs      uint   // number of logs
	firstLog  uint64 // the index in the block of the first log
}

// stackFields is what the OP stack reports in addition to a receipt. The root covers the first two;
// the others are a provider's word.
type stackFields struct {
	DepositNonce   *hexutil.Uint64 `json:"depositNonce"`
	DepositVersion *hexutil.Uint64 `json:"depositReceiptVersion"`

	L1Fee            *hexutil.Big    `json:"l1Fee"`
	OperatorScalar   *hexutil.Uint64 `json:"operatorFeeScalar"`
	OperatorConstant *hexutil.Uint64 `json:"operatorFeeConstant"`
	// FootprintScalar came with the fork that changed the operator's fee.
	FootprintScalar *hexutil.Uint64 `json:"daFootprintGasScalar"`

	// Price is what a unit of gas cost. It is used where no header has it.
	Price *hexutil.Big `json:"effectiveGasPrice"`
}

const (
	operatorUnit   = 1_000_000 // of the scalar of the operator's fee, before the fork
	operatorFactor = 100       // since the fork
)

// nonGasFee returns what a transaction costs in addition to its gas: for its data on the layer
// below, and for the operator.
func (b stackFields) nonGasFee(gas uint64) (money.Amount, error) {
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

// receiptJSON is what a provider reports about a receipt in addition to its logs.
type receiptJSON struct {
	Type              hexutil.Uint64  `json:"type"`
	TxHash            *common.Hash    `json:"transactionHash"`
	PostState         hexutil.Bytes   `json:"root"`
	Status            *hexutil.Uint64 `json:"status"`
	CumulativeGasUsed *hexutil.Uint64 `json:"cumulativeGasUsed"`
	Bloom             *types.Bloom    `json:"logsBloom"`
	BlobGasPrice      *hexutil.Big    `json:"blobGasPrice"`
	stackFields
}

// readReceipt decodes a receipt and encodes it as the root of the block's receipts covers it.
func (r *reader) readReceipt() (*receipt, []byte, error) {
	if r.nextKind() == 'n' {
		_, err := r.nextToken()
		return nil, nil, errors.Join(errors.New("it is missing"), err)
	}
	got := &receipt{}
	var logs []byte // encoded, one after the other
	listed := false
	document, err := r.readMembers(map[string]func([]byte) error{"logs": func([]byte) error {
		listed = true
		return r.readItems(func(int) (err error) {
			logs, err = got.addLog(r, logs)
			return err
		})
	}})
	if err != nil {
		return nil, nil, err
	}
	var fields receiptJSON
	if err := json.Unmarshal(document, &fields); err != nil {
		return nil, nil, err
	}
	if !listed || fields.TxHash == nil || fields.CumulativeGasUsed == nil || fields.Bloom == nil ||
		fields.Type > math.MaxUint8 {
		return nil, nil, errors.New("it lacks a field, or has an unknown type")
	}
	got.Type, got.TxHash, got.CumulativeGasUsed, got.stackFields = byte(fields.Type), *fields.TxHash,
		uint64(*fields.CumulativeGasUsed), fields.stackFields
	if fields.Status != nil {
		got.Status = uint64(*fields.Status)
	}
	got.EffectiveGasPrice, got.BlobGasPrice = (*big.Int)(fields.Price), (*big.Int)(fields.BlobGasPrice)
	return got, got.encodeForRoot(fields.PostState, *fields.Bloom, logs), nil
}

// addLog reads the next log, keeps it if it is a transfer, and appends its encoding.
func (t *receipt) addLog(r *reader, encoded []byte) ([]byte, error) {
	if err := r.expectKind('{'); err != nil {
		return nil, err
	}
	var l types.Log
	for r.nextKind() != '}' {
		name, err := r.nextToken()
		if err != nil {
			return nil, err
		}
		var field any
		switch name.String() {
		case "address":
			field = &l.Address
		case "topics":
			field = &l.Topics
		case "data":
			field = (*hexutil.Bytes)(&l.Data)
		}
		v, err := r.nextValue()
		if err == nil && field != nil {
			err = json.Unmarshal(v, field)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := r.nextToken(); err != nil {
		return nil, err
	}
	if tr, ok := tokenTransfer(&l); ok {
		tr.position = t.logs
		t.transfers = append(t.transfers, tr)
	}
	t.logs++
	buf := rlp.NewEncoderBuffer(nil)
	list := buf.List()
	buf.WriteBytes(l.Address[:])
	topics := buf.List()
	for i := range l.Topics {
		buf.WriteBytes(l.Topics[i][:])
	}
	buf.ListEnd(topics)
	buf.WriteBytes(l.Data)
	buf.ListEnd(list)
	encoded = buf.AppendToBytes(encoded)
	return encoded, buf.Flush()
}

// encodeForRoot encodes the receipt as the root of a block covers it.
func (t *receipt) encodeForRoot(postState []byte, bloom types.Bloom, logs []byte) []byte {
	status := postState
	switch {
	case len(postState) > 0:
	case t.Status == types.ReceiptStatusSuccessful:
		status = []byte{1}
	}
	buf := rlp.NewEncoderBuffer(nil)
	list := buf.List()
	buf.WriteBytes(status)
	buf.WriteUint64(t.CumulativeGasUsed)
	buf.WriteBytes(bloom[:])
	logList := buf.List()
	_, _ = buf.Write(logs) // a buffer accepts every write
	buf.ListEnd(logList)
	if t.Type == opDeposit && t.DepositVersion != nil {
		nonce := uint64(0)
		if t.DepositNonce != nil {
			nonce = uint64(*t.DepositNonce)
		}
		buf.WriteUint64(nonce)
		buf.WriteUint64(uint64(*t.DepositVersion))
	}
	buf.ListEnd(list)
	var out []byte
	if t.Type != types.LegacyTxType {
		out = append(out, t.Type)
	}
	out = buf.AppendToBytes(out)
	_ = buf.Flush() // there is no writer behind it
	return out
}

// fetchReceipts fetches the receipts of a block and checks them against the root in its header. The
// fields that the root does not cover are derived from those that it covers.
func (p *provider) fetchReceipts(ctx context.Context, s *verifiedBlock) ([]*receipt, error) {
	if len(s.txs) == 0 && s.header.ReceiptHash == types.EmptyReceiptsHash {
		return nil, nil // the header itself says that there are none
	}
	var root listRoot
	receipts, err := p.fetchReceiptList(ctx, s, &root)
	if err != nil {
		return nil, err
	}
	if root.rootHash() != s.header.ReceiptHash {
		return nil, s.wrapReceiptError(p, errors.New("they do not have the root in the header"))
	}
	s.receipts = receipts
	if err := s.fillGasAndLogs(); err != nil {
		return nil, s.wrapReceiptError(p, err)
	}
	return receipts, nil
}

// wrapReceiptError adds the block to an error of its receipts.
func (s *verifiedBlock) wrapReceiptError(p *provider, err error) error {
	return fmt.Errorf("%s: receipts of block %d %s: %w", p.name, s.header.Number, s.hash, err)
}

const (
	receiptBytes = 4 << 10 // of a receipt without logs in an answer; two kilobytes are usual
	bytesPerGas  = 2       // of a log in an answer, at most; an empty one has 400 characters for 375 gas
)

// receiptsBytesMax returns how long an answer with the receipts of a block may be.
func (p *provider) receiptsBytesMax(s *verifiedBlock) int64 {
	if s.settlesUpTo != nil || s.header.GasUsed > uint64(p.blockBytesMax) {
		return p.blockBytesMax // its header has the gas of other blocks
	}
	return min(p.blockBytesMax, p.answerBytesMax+int64(len(s.txs))*receiptBytes+int64(s.header.GasUsed)*bytesPerGas)
}

// fetchReceiptList fetches the receipts of a block's transactions and adds them to a root; the
// caller knows which root that is.
func (p *provider) fetchReceiptList(ctx context.Context, s *verifiedBlock, root *listRoot) ([]*receipt, error) {
	if len(s.txs) == 0 && s.settlesUpTo != nil {
		return nil, nil
	}
	var receipts []*receipt
	add := func(i int, r *reader) error {
		got, encoded, err := r.readReceipt()
		switch {
		case isTooLong(err):
			return err
		case err != nil:
			return fmt.Errorf("%w: number %d: %w", chain.ErrUndecodable, i, err)
		case i == len(s.txs) && s.stack == bor:
			return nil // it belongs to an item that is no transaction of the block
		case i >= len(s.txs):
			return fmt.Errorf("got more than %d for %d transactions", i, len(s.txs))
		case got.TxHash != s.txs[i].hash && s.txs[i].kind != borStateSync:
			return fmt.Errorf("number %d is of transaction %s, not %s", i, got.TxHash, s.txs[i].hash)
		case got.Type != s.txs[i].kind:
			return fmt.Errorf("number %d is of type %#x, not %#x", i, got.Type, s.txs[i].kind)
		}
		root.addItem(encoded)
		receipts = append(receipts, got)
		return nil
	}
	bytesMax := p.receiptsBytesMax(s)
	err := p.streamCall(ctx, p.blockLimits(bytesMax), func(r *reader) error {
		return r.readItems(func(i int) error { return add(i, r) })
	}, "eth_getBlockReceipts", s.hash)
	if isTooLong(err) && ctx.Err() == nil {
		err = p.fetchParts(ctx, len(receipts), len(s.txs), bytesMax, func(i int) subrequest {
			return subrequest{"eth_getTransactionReceipt", []any{s.txs[i].hash}}
		}, add)
	}
	switch {
	case errors.Is(err, errAbsent):
		return nil, s.wrapReceiptError(p, errors.New("there are none"))
	case err != nil:
		return nil, s.wrapReceiptError(p, err)
	case len(receipts) != len(s.txs):
		return nil, s.wrapReceiptError(p, fmt.Errorf("got %d for %d transactions", len(receipts), len(s.txs)))
	}
	return receipts, nil
}

// fillGasAndLogs fills in what follows from the receipts that a root covers.
func (s *verifiedBlock) fillGasAndLogs() error {
	var gas, logs uint64
	for i, r := range s.receipts {
		if r.CumulativeGasUsed < gas {
			return fmt.Errorf("number %d has used less gas than the one before", i)
		}
		r.GasUsed = r.CumulativeGasUsed - gas
		gas = r.CumulativeGasUsed
		r.firstLog = logs
		logs += uint64(r.logs)
	}
	return nil
}

// txFee returns what the i-th transaction cost its sender, whether or not it succeeded.
func (s *verifiedBlock) txFee(i int) (money.Amount, error) {
	return s.txFeeWith(i, s.receipts[i].stackFields)
}

// txFeeWith returns txFee with a reported cost in addition to gas.
func (s *verifiedBlock) txFeeWith(i int, reported stackFields) (money.Amount, error) {
	if s.txs[i].signed == nil {
		return money.Zero, nil // it was paid for on the layer below
	}
	gas, err := s.gasFee(i, reported)
	if err != nil || s.stack != optimism {
		return gas, err
	}
	extra, err := reported.nonGasFee(s.receipts[i].GasUsed)
	if err != nil {
		return money.Zero, fmt.Errorf("fee of %s besides its gas: %w", s.txs[i].hash, err)
	}
	return gas.Add(extra)
}

// paysTips reports whether tips are paid: on Nitro only if its header says so.
func (s *verifiedBlock) paysTips() bool {
	if s.stack != arbitrum {
		return true
	}
	const versionAt, flagAt, versionWithTips = 16, 25, 9
	return s.header.MixDigest[flagAt]&1 == 1 ||
		binary.BigEndian.Uint64(s.header.MixDigest[versionAt:]) == versionWithTips
}

// gasFee returns what a transaction's gas cost.
func (s *verifiedBlock) gasFee(i int, reported stackFields) (money.Amount, error) {
	tx, r := s.txs[i], s.receipts[i]
	price := r.EffectiveGasPrice
	switch {
	case s.settlesUpTo != nil:
		if err := s.checkGasPrice(i, reported); err != nil {
			return money.Zero, fmt.Errorf("fee of %s: %w", tx.hash, err)
		}
		price = reported.Price.ToInt()
	case s.header.BaseFee != nil && !s.paysTips():
		price = s.header.BaseFee
	case s.header.BaseFee != nil:
		if tip, err := tx.signed.effectiveTip(s.header.BaseFee); err == nil {
			price = tip.Add(tip, s.header.BaseFee)
		}
	}
	if price == nil {
		return money.Zero, fmt.Errorf("transaction %s has no gas price", tx.hash)
	}
	perGas, err := money.FromBig(price)
	if err != nil {
		return money.Zero, fmt.Errorf("gas price of %s: %w", tx.hash, err)
	}
	fee, err := perGas.Mul(r.GasUsed)
	if err != nil || tx.signed.blobGas == 0 {
		return fee, err
	}
	// The price of blobs is the provider's word. None of Coffer's accounts sends any.
	if r.BlobGasPrice == nil {
		return money.Zero, fmt.Errorf("transaction %s has no blob gas price", tx.hash)
	}
	perBlobGas, err := money.FromBig(r.BlobGasPrice)
	if err != nil {
		return money.Zero, fmt.Errorf("blob gas price of %s: %w", tx.hash, err)
	}
	blobs, err := perBlobGas.Mul(tx.signed.blobGas)
	if err != nil {
		return money.Zero, fmt.Errorf("blob fee of %s: %w", tx.hash, err)
	}
	return fee.Add(blobs)
}
