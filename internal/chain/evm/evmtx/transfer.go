package evmtx

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	wordBytes     = 32
	selectorBytes = 4
	paddingBytes  = wordBytes - common.AddressLength
	transferBytes = selectorBytes + 2*wordBytes
)

// transferSelector begins every call of transfer(address,uint256).
var transferSelector = []byte{0xa9, 0x05, 0x9c, 0xbb}

// TransferData returns the data of a call that moves an amount of a token from the caller to an
// address.
func TransferData(to chain.Address, amount money.Amount) ([]byte, error) {
	receiver, err := Bytes(to)
	if err != nil {
		return nil, fmt.Errorf("receiver of the token: %w", err)
	}
	value := amount.Uint256().Bytes32()
	data := make([]byte, selectorBytes+paddingBytes, transferBytes)
	copy(data, transferSelector)
	data = append(data, receiver[:]...)
	return append(data, value[:]...), nil
}

// ParseTransfer decodes the data of a call of transfer: exactly the selector, the receiver with
// zero padding, and the amount.
func ParseTransfer(data []byte) (to chain.Address, amount money.Amount, err error) {
	if len(data) < selectorBytes || !bytes.Equal(data[:selectorBytes], transferSelector) {
		return "", money.Zero, errors.New("call is not transfer(address,uint256)")
	}
	if len(data) != transferBytes {
		return "", money.Zero, fmt.Errorf("call of transfer has %d bytes, not %d", len(data), transferBytes)
	}
	receiver, value := data[selectorBytes:selectorBytes+wordBytes], data[selectorBytes+wordBytes:]
	if !bytes.Equal(receiver[:paddingBytes], make([]byte, paddingBytes)) {
		return "", money.Zero, errors.New("receiver of the token has more than 20 bytes")
	}
	return Canonical(common.BytesToAddress(receiver)), money.FromUint256(new(uint256.Int).SetBytes(value)), nil
}

// ParsePayee returns what a transaction pays: an amount of a contract ("" for the native coin) to
// an address. A transaction that does anything else, or anything in addition, is an error.
func ParsePayee(t Tx) (contract, to chain.Address, amount money.Amount, err error) {
	if len(t.Data) == 0 {
		return "", t.To, t.Value, nil
	}
	if !t.Value.IsZero() {
		return "", "", money.Zero, errors.New("call of a contract sends native coin along")
	}
	to, amount, err = ParseTransfer(t.Data)
	if err != nil {
		return "", "", money.Zero, err
	}
	return t.To, to, amount, nil
}

// NewPaymentTx returns the transaction of a payment. A nil payment is a cancel: a transfer of
// nothing from the account to itself, which uses the nonce.
func NewPaymentTx(chainID uint64, from chain.Address, p *chain.Payment, nonce uint64, fees chain.Fees) (Tx, error) {
	t := Tx{
		ChainID: chainID, Nonce: nonce, To: from,
		Gas: fees.GasLimit, TipCap: fees.TipCap, FeeCap: fees.FeeCap,
	}
	if p == nil {
		return t, nil
	}
	if p.From != from {
		return Tx{}, fmt.Errorf("payment is from %s, not from %s", p.From, from)
	}
	if p.SetsAllowance() {
		return newAllowanceTx(t, *p)
	}
	if p.Contract == "" {
		t.To, t.Value = p.To, p.Amount
		return t, nil
	}
	data, err := TransferData(p.To, p.Amount)
	if err != nil {
		return Tx{}, err
	}
	t.To, t.Data = p.Contract, data
	return t, nil
}
