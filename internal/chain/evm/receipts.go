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

// A receipt is what is kept of what a transaction came to, with what stacks add. Of its
// logs that is only those that tell of a transfer.
type receipt struct {
	Type              byte
	TxHash            common.Hash
	Status            uint64
	CumulativeGasUsed uint64
	GasUsed           uint64
	EffectiveGasPrice *big.Int
	BlobGasPrice      *big.Int
	beside

	transfers []tokenLog
	logs      uint   // how many there are
	firstLog  uint64 // the index in the block of the first one
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

// receiptJSON is what a provider tells of a receipt beside its logs.
type receiptJSON struct {
	Type              hexutil.Uint64  `json:"type"`
	TxHash            *common.Hash    `json:"transactionHash"`
	PostState         hexutil.Bytes   `json:"root"`
	Status            *hexutil.Uint64 `json:"status"`
	CumulativeGasUsed *hexutil.Uint64 `json:"cumulativeGasUsed"`
	Bloom             *types.Bloom    `json:"logsBloom"`
	BlobGasPrice      *hexutil.Big    `json:"blobGasPrice"`
	beside
}

// receipt reads a receipt and encodes it as the root of the block's receipts has it.
func (r *reader) receipt() (*receipt, []byte, error) {
	if r.kind() == 'n' {
		_, err := r.token()
		return nil, nil, errors.Join(errors.New("it is missing"), err)
	}
	got := &receipt{}
	var logs []byte // encoded one after the other
	listed := false
	document, err := r.members(map[string]func([]byte) error{"logs": func([]byte) error {
		listed = true
		return r.items(func(int) (err error) {
			logs, err = got.addLog(r, logs)
			return err
		})
	}})
	if err != nil {
		return nil, nil, err
	}
	var said receiptJSON
	if err := json.Unmarshal(document, &said); err != nil {
		return nil, nil, err
	}
	if !listed || said.TxHash == nil || said.CumulativeGasUsed == nil || said.Bloom == nil || said.Type > math.MaxUint8 {
		return nil, nil, errors.New("it lacks a field, or has a type that there is not")
	}
	got.Type, got.TxHash, got.CumulativeGasUsed, got.beside = byte(said.Type), *said.TxHash, uint64(*said.CumulativeGasUsed), said.beside
	if said.Status != nil {
		got.Status = uint64(*said.Status)
	}
	got.EffectiveGasPrice, got.BlobGasPrice = (*big.Int)(said.Price), (*big.Int)(said.BlobGasPrice)
	return got, got.encoded(said.PostState, *said.Bloom, logs), nil
}

// addLog reads the next log, keeps it if it tells of a transfer, and appends its encoding.
func (t *receipt) addLog(r *reader, encoded []byte) ([]byte, error) {
	if err := r.begin('{'); err != nil {
		return nil, err
	}
	var l types.Log
	for r.kind() != '}' {
		name, err := r.token()
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
		v, err := r.value()
		if err == nil && field != nil {
			err = json.Unmarshal(v, field)
		}
		if err != nil {
			return nil, err
		}
	}
	if _, err := r.token(); err != nil {
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

// encoded is the receipt as the root of a block has it.
func (t *receipt) encoded(postState []byte, bloom types.Bloom, logs []byte) []byte {
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
	all := buf.List()
	_, _ = buf.Write(logs) // a buffer takes everything
	buf.ListEnd(all)
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

// receipts fetches the receipts of a block and checks them against the root in
// its header. The fields that the root does not cover are taken from what it
// does cover, or filled in here.
func (p *provider) receipts(ctx context.Context, s *sealed) ([]*receipt, error) {
	if len(s.txs) == 0 && s.header.ReceiptHash == types.EmptyReceiptsHash {
		return nil, nil // the header itself says that there are none
	}
	var root listRoot
	all, err := p.receiptsOf(ctx, s, &root)
	if err != nil {
		return nil, err
	}
	if root.hash() != s.header.ReceiptHash {
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

const (
	receiptBytes = 4 << 10 // of a receipt without logs in an answer; two kilobytes are the usual
	bytesPerGas  = 2       // that a log has in an answer, at most; an empty one has 400 characters for 375 gas
)

// receiptsBytesMax is how long an answer with the receipts of a block may be.
func (p *provider) receiptsBytesMax(s *sealed) int64 {
	if s.settles != nil || s.header.GasUsed > uint64(p.blockBytesMax) {
		return p.blockBytesMax // its header has the gas of other blocks
	}
	return min(p.blockBytesMax, p.answerBytesMax+int64(len(s.txs))*receiptBytes+int64(s.header.GasUsed)*bytesPerGas)
}

// receiptsOf fetches the receipts of the transactions of a block and adds them to a root;
// which root that is, is not asked here.
func (p *provider) receiptsOf(ctx context.Context, s *sealed, root *listRoot) ([]*receipt, error) {
	if len(s.txs) == 0 && s.settles != nil {
		return nil, nil
	}
	var all []*receipt
	add := func(i int, r *reader) error {
		got, encoded, err := r.receipt()
		switch {
		case oversized(err):
			return err
		case err != nil:
			return fmt.Errorf("%w: number %d: %w", chain.ErrUndecodable, i, err)
		case i == len(s.txs) && s.stack == bor:
			return nil // it is of what is no transaction of the block
		case i >= len(s.txs):
			return fmt.Errorf("got more than %d for %d transactions", i, len(s.txs))
		case got.TxHash != s.txs[i].hash && s.txs[i].kind != borStateSync:
			return fmt.Errorf("number %d is of transaction %s, not %s", i, got.TxHash, s.txs[i].hash)
		case got.Type != s.txs[i].kind:
			return fmt.Errorf("number %d is of type %#x, not %#x", i, got.Type, s.txs[i].kind)
		}
		root.add(encoded)
		all = append(all, got)
		return nil
	}
	bytesMax := p.receiptsBytesMax(s)
	err := p.stream(ctx, bytesMax, func(r *reader) error {
		return r.items(func(i int) error { return add(i, r) })
	}, "eth_getBlockReceipts", s.hash)
	if oversized(err) && ctx.Err() == nil {
		err = p.pieces(ctx, len(all), len(s.txs), bytesMax, func(i int) piece {
			return piece{"eth_getTransactionReceipt", []any{s.txs[i].hash}}
		}, add)
	}
	switch {
	case errors.Is(err, errAbsent):
		return nil, s.at(p, errors.New("there are none"))
	case err != nil:
		return nil, s.at(p, err)
	case len(all) != len(s.txs):
		return nil, s.at(p, fmt.Errorf("got %d for %d transactions", len(all), len(s.txs)))
	}
	return all, nil
}

// count fills in what follows from the receipts that a root covers.
func (s *sealed) count() error {
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
	tx, r := s.txs[i], s.receipts[i]
	price := r.EffectiveGasPrice
	switch {
	case s.settles != nil:
		if err := s.priced(i, said); err != nil {
			return money.Zero, fmt.Errorf("fee of %s: %w", tx.hash, err)
		}
		price = said.Price.ToInt()
	case s.header.BaseFee != nil && !s.tipped():
		price = s.header.BaseFee
	case s.header.BaseFee != nil:
		if tip, err := tx.signed.tip(s.header.BaseFee); err == nil {
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
	// The price of blobs is the provider's word. None of our accounts sends any.
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
