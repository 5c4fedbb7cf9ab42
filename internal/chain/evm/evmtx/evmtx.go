// Package evmtx encodes and decodes the parts of Coffer's EVM transactions: addresses, the unsigned
// EIP-1559 payload, the call of a token's transfer, and the signed bytes. The adapter builds
// transactions with it, and the signer decodes with it what it is asked to sign.
//
// It is pure: no network, no key, no clock. It knows the transfer of coin, the transfer of a token, a
// call of the payout contract and the allowance of that contract. Everything else is an error: an
// access list, a contract creation, bytes left over, another call, coin sent along with a call. The
// same input gives the same bytes, so a crash leaves nothing to remember.
package evmtx

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// payloadBytesMax is above the size of any of Coffer's transactions, signed or not. The largest makes PaymentsMax
// payments.
const payloadBytesMax = 512 + PaymentsMax*wordBytes

// emptyList is RLP's empty list, the only access list that is accepted.
var emptyList = rlp.RawValue{0xc0}

// Tx is an unsigned EIP-1559 transaction without an access list.
type Tx struct {
	ChainID uint64
	Nonce   uint64
	To      chain.Address
	Value   money.Amount // wei
	Data    []byte
	Gas     uint64       // limit
	TipCap  money.Amount // wei per gas
	FeeCap  money.Amount // wei per gas, tip included
}

// txFields is the order in which a transaction is encoded.
type txFields struct {
	ChainID    uint64
	Nonce      uint64
	TipCap     *uint256.Int
	FeeCap     *uint256.Int
	Gas        uint64
	To         []byte
	Value      *uint256.Int
	Data       []byte
	AccessList rlp.RawValue
}

type signedTxFields struct {
	ChainID    uint64
	Nonce      uint64
	TipCap     *uint256.Int
	FeeCap     *uint256.Int
	Gas        uint64
	To         []byte
	Value      *uint256.Int
	Data       []byte
	AccessList rlp.RawValue
	YParity    uint64
	R, S       *uint256.Int
}

func (f txFields) withSignature(parity uint64, r, s *uint256.Int) signedTxFields {
	return signedTxFields{
		f.ChainID, f.Nonce, f.TipCap, f.FeeCap, f.Gas, f.To, f.Value, f.Data, f.AccessList,
		parity, r, s,
	}
}

func (f signedTxFields) withoutSignature() txFields {
	return txFields{f.ChainID, f.Nonce, f.TipCap, f.FeeCap, f.Gas, f.To, f.Value, f.Data, f.AccessList}
}

// validate checks the rules of every transaction that is encoded or decoded here.
func (t Tx) validate() error {
	switch {
	case t.ChainID == 0:
		return errors.New("transaction without a chain id could be replayed anywhere")
	case t.Nonce == math.MaxUint64:
		return errors.New("nonce is above the highest possible one")
	case t.Gas == 0:
		return errors.New("gas limit is zero")
	case t.FeeCap.Less(t.TipCap):
		return fmt.Errorf("fee cap %v is below the tip %v", t.FeeCap, t.TipCap)
	}
	return nil
}

func (t Tx) toFields() (txFields, error) {
	to, err := Bytes(t.To)
	if err != nil {
		return txFields{}, fmt.Errorf("receiver: %w", err)
	}
	if err := t.validate(); err != nil {
		return txFields{}, err
	}
	return txFields{
		t.ChainID, t.Nonce, t.TipCap.Uint256(), t.FeeCap.Uint256(), t.Gas,
		to.Bytes(), t.Value.Uint256(), t.Data, emptyList,
	}, nil
}

// Payload encodes the transaction as it is hashed for signing: the type byte, then the list of its
// fields.
func (t Tx) Payload() ([]byte, error) {
	f, err := t.toFields()
	if err != nil {
		return nil, err
	}
	return encodeTyped(f)
}

func encodeTyped(list any) ([]byte, error) {
	body, err := rlp.EncodeToBytes(list)
	if err != nil {
		return nil, fmt.Errorf("encode transaction: %w", err)
	}
	if len(body) >= payloadBytesMax {
		return nil, fmt.Errorf("transaction has %d bytes, more than the service makes", len(body)+1)
	}
	return append([]byte{types.DynamicFeeTxType}, body...), nil
}

// Decode decodes a payload. Every payload that it accepts is exactly what Payload writes for the
// result; anything else is an error.
func Decode(payload []byte) (Tx, error) {
	var f txFields
	if err := decodeTyped(payload, &f); err != nil {
		return Tx{}, err
	}
	return f.toTx(payload)
}

func decodeTyped(data []byte, list any) error {
	if len(data) == 0 || data[0] != types.DynamicFeeTxType {
		return errors.New("not a transaction of type 2 (EIP-1559)")
	}
	if len(data) > payloadBytesMax {
		return fmt.Errorf("transaction has %d bytes, more than the service makes", len(data))
	}
	if err := rlp.DecodeBytes(data[1:], list); err != nil {
		return fmt.Errorf("decode transaction: %w", err)
	}
	return nil
}

// toTx makes a transaction of decoded fields and checks that they encode to payload.
func (f txFields) toTx(payload []byte) (Tx, error) {
	if len(f.To) == 0 {
		return Tx{}, errors.New("transaction creates a contract")
	}
	if len(f.To) != common.AddressLength {
		return Tx{}, fmt.Errorf("receiver has %d bytes", len(f.To))
	}
	if !bytes.Equal(f.AccessList, emptyList) {
		return Tx{}, errors.New("transaction has an access list")
	}
	t := Tx{
		ChainID: f.ChainID,
		Nonce:   f.Nonce,
		To:      Canonical(common.BytesToAddress(f.To)),
		Value:   money.FromUint256(f.Value),
		Data:    f.Data,
		Gas:     f.Gas,
		TipCap:  money.FromUint256(f.TipCap),
		FeeCap:  money.FromUint256(f.FeeCap),
	}
	encoded, err := t.Payload()
	if err != nil {
		return Tx{}, err
	}
	if !bytes.Equal(encoded, payload) {
		return Tx{}, errors.New("transaction is not in the canonical encoding")
	}
	return t, nil
}

// Digest returns what a key signs for a payload.
func Digest(payload []byte) [32]byte { return crypto.Keccak256Hash(payload) }

// HashOf returns the hash of signed bytes in canonical text.
func HashOf(raw []byte) chain.TxHash { return chain.TxHash(crypto.Keccak256Hash(raw).Hex()) }
