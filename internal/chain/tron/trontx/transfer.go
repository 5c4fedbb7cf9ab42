package trontx

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	wordBytes     = 32
	selectorBytes = 4
	paddingBytes  = wordBytes - accountBytes
	transferBytes = selectorBytes + 2*wordBytes
)

// transferSelector begins every call of transfer(address,uint256).
var transferSelector = []byte{0xa9, 0x05, 0x9c, 0xbb}

// Word returns an address as contracts read it: the 20 bytes after its prefix, in 32.
func Word(a chain.Address) ([wordBytes]byte, error) {
	var w [wordBytes]byte
	raw, err := Bytes(a)
	copy(w[paddingBytes:], raw[1:])
	return w, err
}

// FromWord reads an address from a word. The padding before its 20 bytes has to be zero.
func FromWord(w []byte) (chain.Address, error) {
	if len(w) != wordBytes || !bytes.Equal(w[:paddingBytes], make([]byte, paddingBytes)) {
		return "", errors.New("a word that is not an address")
	}
	return FromAccountBytes([accountBytes]byte(w[paddingBytes:])), nil
}

// TransferData returns the data of a call that moves an amount of a token from the caller to an
// address.
func TransferData(to chain.Address, amount money.Amount) ([]byte, error) {
	receiver, err := Word(to)
	if err != nil {
		return nil, fmt.Errorf("receiver of the token: %w", err)
	}
	value := amount.Uint256().Bytes32()
	data := append(make([]byte, 0, transferBytes), transferSelector...)
	return append(append(data, receiver[:]...), value[:]...), nil
}

// ParseTransfer reads the data of a call of transfer: exactly the selector, the payee with zero
// padding, and the amount.
func ParseTransfer(data []byte) (to chain.Address, amount money.Amount, err error) {
	if len(data) < selectorBytes || !bytes.Equal(data[:selectorBytes], transferSelector) {
		return "", money.Zero, errors.New("the call is not transfer(address,uint256)")
	}
	if len(data) != transferBytes {
		return "", money.Zero, fmt.Errorf("the call of transfer has %d bytes, not %d", len(data), transferBytes)
	}
	to, err = FromWord(data[selectorBytes : selectorBytes+wordBytes])
	return to, money.FromUint256(new(uint256.Int).SetBytes(data[selectorBytes+wordBytes:])), err
}
