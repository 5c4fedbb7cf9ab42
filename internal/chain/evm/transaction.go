package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/cofferpay/coffer/internal/chain"
)

// stack is the software of a chain: which transactions it makes itself, without a signature, and
// what it charges for.
type stack int

const (
	ethereum  stack = iota
	optimism        // the OP stack
	arbitrum        // Nitro
	bor             // Polygon
	avalanche       // Avalanche's C-Chain
)

func stackFor(name chain.Name) stack {
	switch name {
	case chain.Optimism, chain.Base:
		return optimism
	case chain.Arbitrum:
		return arbitrum
	case chain.Polygon:
		return bor
	case chain.Avalanche:
		return avalanche
	}
	return ethereum
}

// The transactions that chains make themselves.
const (
	opDeposit           = 0x7e // from the layer below, and the one that begins every block
	arbitrumDeposit     = 0x64
	arbitrumUnsigned    = 0x65
	arbitrumContract    = 0x66
	arbitrumRetry       = 0x68
	arbitrumSubmitRetry = 0x69
	arbitrumInternal    = 0x6a
	borStateSync        = 0x7f
)

// tx is a transaction of a block.
type tx struct {
	hash   common.Hash
	kind   byte
	from   common.Address
	to     *common.Address // nil creates a contract
	nonce  uint64
	value  *big.Int  // goes from from to to if the transaction succeeds
	signed *feeOffer // nil if the chain made it; it pays no fee then
	// hasNoCalls says that no contract ran for it. It has no calls, so the adapter ignores its
	// trace.
	hasNoCalls bool
}

// txs are the transactions of a block.
type txs []*tx

// feeOffer is what is kept of a signed transaction: what it offers for its gas, and whether it has
// data. The data itself, which may fill a block, is not kept.
type feeOffer struct {
	prices  *types.Transaction
	data    []byte // at most its first byte
	blobGas uint64
}

func newFeeOffer(t *types.Transaction) *feeOffer {
	data := t.Data()
	return &feeOffer{
		prices: types.NewTx(&types.DynamicFeeTx{GasTipCap: t.GasTipCap(), GasFeeCap: t.GasFeeCap()}),
		data:   bytes.Clone(data[:min(1, len(data))]), blobGas: t.BlobGas(),
	}
}

// Data is empty if the transaction has none.
func (o *feeOffer) Data() []byte { return o.data }

// effectiveTip returns what it pays per unit of gas above the base fee. Error: it does not offer
// the base fee.
func (o *feeOffer) effectiveTip(baseFee *big.Int) (*big.Int, error) {
	return o.prices.EffectiveGasTip(baseFee)
}

// systemTxJSON is what nodes report about a transaction that the chain made.
type systemTxJSON struct {
	Type    hexutil.Uint64  `json:"type"`
	Hash    common.Hash     `json:"hash"`
	ChainID *hexutil.Big    `json:"chainId"`
	From    common.Address  `json:"from"`
	To      *common.Address `json:"to"`
	Nonce   hexutil.Uint64  `json:"nonce"`
	Value   *hexutil.Big    `json:"value"`
	Gas     hexutil.Uint64  `json:"gas"`
	Price   *hexutil.Big    `json:"gasPrice"`
	MaxFee  *hexutil.Big    `json:"maxFeePerGas"`
	Input   hexutil.Bytes   `json:"input"`
	R, S    *hexutil.Big

	SourceHash common.Hash  `json:"sourceHash"`
	Mint       *hexutil.Big `json:"mint"`
	System     bool         `json:"isSystemTx"`

	RequestID           common.Hash     `json:"requestId"`
	TicketID            common.Hash     `json:"ticketId"`
	RefundTo            common.Address  `json:"refundTo"`
	MaxRefund           *hexutil.Big    `json:"maxRefund"`
	SubmissionFeeRefund *hexutil.Big    `json:"submissionFeeRefund"`
	L1BaseFee           *hexutil.Big    `json:"l1BaseFee"`
	DepositValue        *hexutil.Big    `json:"depositValue"`
	RetryTo             *common.Address `json:"retryTo"`
	RetryValue          *hexutil.Big    `json:"retryValue"`
	RetryData           hexutil.Bytes   `json:"retryData"`
	Beneficiary         common.Address  `json:"beneficiary"`
	MaxSubmissionFee    *hexutil.Big    `json:"maxSubmissionFee"`
}

// bigOrZero returns a number that a node leaves out if it is zero.
func bigOrZero(b *hexutil.Big) *big.Int {
	if b == nil {
		return new(big.Int)
	}
	return b.ToInt()
}

// receiverBytes encodes the receiver in a list of fields; none creates a contract.
func receiverBytes(a *common.Address) []byte {
	if a == nil {
		return nil
	}
	return a[:]
}

// encodedFields returns the fields in the encoding of a transaction of the stack, in its order; nil
// for a type that the stack does not make.
func (m systemTxJSON) encodedFields(s stack) []any {
	price := bigOrZero(m.MaxFee)
	if m.MaxFee == nil {
		price = bigOrZero(m.Price)
	}
	id, value, gas, nonce := bigOrZero(m.ChainID), bigOrZero(m.Value), uint64(m.Gas), uint64(m.Nonce)
	switch {
	case s == optimism && m.Type == opDeposit:
		return []any{
			m.SourceHash, m.From, receiverBytes(m.To), bigOrZero(m.Mint), value, gas, m.System,
			[]byte(m.Input),
		}
	case s != arbitrum:
		return nil
	}
	switch m.Type {
	case arbitrumDeposit:
		return []any{id, m.RequestID, m.From, receiverBytes(m.To), value}
	case arbitrumUnsigned:
		return []any{id, m.From, nonce, price, gas, receiverBytes(m.To), value, []byte(m.Input)}
	case arbitrumContract:
		return []any{id, m.RequestID, m.From, price, gas, receiverBytes(m.To), value, []byte(m.Input)}
	case arbitrumRetry:
		return []any{
			id, nonce, m.From, price, gas, receiverBytes(m.To), value, []byte(m.Input),
			m.TicketID, m.RefundTo, bigOrZero(m.MaxRefund), bigOrZero(m.SubmissionFeeRefund),
		}
	case arbitrumSubmitRetry:
		// Nodes write the zero address for a retry that creates a contract.
		to := m.RetryTo
		if to != nil && *to == (common.Address{}) {
			to = nil
		}
		return []any{
			id, m.RequestID, m.From, bigOrZero(m.L1BaseFee), bigOrZero(m.DepositValue), price, gas, receiverBytes(to),
			bigOrZero(m.RetryValue), m.Beneficiary, bigOrZero(m.MaxSubmissionFee), m.RefundTo, []byte(m.RetryData),
		}
	case arbitrumInternal:
		return []any{id, []byte(m.Input)}
	}
	return nil
}

// isPseudo reports whether it is what Polygon's nodes show behind the transactions of older blocks
// and no root covers.
func (m systemTxJSON) isPseudo() bool {
	return m.Type == 0 && m.From == (common.Address{}) && m.To != nil && *m.To == (common.Address{}) &&
		m.Gas == 0 && bigOrZero(m.R).Sign() == 0 && bigOrZero(m.S).Sign() == 0
}

// readSystemTx decodes a transaction that the chain made, and encodes it as the root of the block's
// transactions covers it; nil for a signed one.
func (m systemTxJSON) readSystemTx(s stack) (t *tx, encoded []byte, err error) {
	fields := m.encodedFields(s)
	if fields == nil {
		return nil, nil, nil
	}
	body, err := rlp.EncodeToBytes(fields)
	if err != nil {
		return nil, nil, err
	}
	encoded = append([]byte{byte(m.Type)}, body...)
	t = &tx{
		hash: crypto.Keccak256Hash(encoded), kind: byte(m.Type),
		from: m.From, to: m.To, nonce: uint64(m.Nonce), value: bigOrZero(m.Value),
	}
	if t.hash != m.Hash {
		return nil, nil, fmt.Errorf("of type %#x gives the hash %s, not %s", t.kind, t.hash, m.Hash)
	}
	switch t.kind {
	case arbitrumDeposit:
		t.hasNoCalls = true
	case arbitrumSubmitRetry, arbitrumInternal:
		// The amount of a submission is in the retry that follows it.
		t.hasNoCalls, t.value = true, new(big.Int)
	}
	return t, encoded, nil
}

// readTransaction decodes the i-th transaction of a block, and encodes it as the root of the
// block's transactions covers it; nil for an item that is no transaction.
func (a *adapter) readTransaction(
	ctx context.Context, p *provider, raw []byte, block common.Hash, i int,
) (t *tx, encoded []byte, err error) {
	if a.stack != ethereum && a.stack != avalanche {
		var m systemTxJSON
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, nil, fmt.Errorf("%w: transaction %d: %w", chain.ErrUndecodable, i, err)
		}
		switch {
		case a.stack == bor && m.isPseudo():
			return nil, nil, nil
		case a.stack == bor && m.Type == borStateSync:
			return a.readStateSync(ctx, p, block, i)
		}
		t, encoded, err := m.readSystemTx(a.stack)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: transaction %d: %w", chain.ErrUndecodable, i, err)
		}
		if t != nil {
			return t, encoded, nil
		}
	}
	signed := new(types.Transaction)
	if err := json.Unmarshal(raw, signed); err != nil {
		return nil, nil, fmt.Errorf("%w: transaction %d: %w", chain.ErrUndecodable, i, err)
	}
	if encoded, err = signed.MarshalBinary(); err != nil {
		return nil, nil, fmt.Errorf("%w: transaction %d: %w", chain.ErrUndecodable, i, err)
	}
	from, err := types.Sender(a.signer, signed)
	if err != nil {
		return nil, nil, fmt.Errorf("sender of transaction %d: %w: %w", i, chain.ErrUndecodable, err)
	}
	return &tx{
		hash: signed.Hash(), kind: signed.Type(), from: from, to: signed.To(), nonce: signed.Nonce(),
		value: signed.Value(), signed: newFeeOffer(signed),
	}, encoded, nil
}

// readStateSync returns the transaction with which Polygon imports events of the layer below. Nodes
// do not show its contents, so its encoding is fetched.
func (a *adapter) readStateSync(ctx context.Context, p *provider, block common.Hash, i int) (*tx, []byte, error) {
	var raw hexutil.Bytes
	if err := p.callMethod(ctx, &raw, "eth_getRawTransactionByBlockHashAndIndex", block,
		hexutil.Uint64(i)); err != nil {
		return nil, nil, err
	}
	if len(raw) == 0 || raw[0] != borStateSync {
		return nil, nil, errors.New("a transaction that synchronizes state is not given in its encoding")
	}
	return &tx{
		hash: crypto.Keccak256Hash(raw), kind: borStateSync, to: &common.Address{}, value: new(big.Int),
		hasNoCalls: true,
	}, raw, nil
}
