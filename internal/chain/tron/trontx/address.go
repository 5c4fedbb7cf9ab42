package trontx

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	// prefix is the first byte of every address of TRON.
	prefix = 0x41

	addressBytes  = 21 // the prefix and the last 20 bytes of the key's hash
	accountBytes  = addressBytes - 1
	checkBytes    = 4
	addressChars  = 34 // of every address in base58
	publicBytes   = 65 // of an uncompressed key
	base58Letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
)

const addressHint = "give it in base58: 34 characters that begin with T"

// Parse reads an address in base58 with its checksum. It refuses the hexadecimal form that nodes
// use: that has no checksum, and its last 20 bytes are also an address of EVM chains. The error
// describes the mistake in words and never quotes the input.
func Parse(s string) (chain.Address, error) {
	b, err := decodeAddress(s)
	if err != nil {
		return "", err
	}
	return Canonical(b), nil
}

func decodeAddress(s string) (raw [addressBytes]byte, err error) {
	switch {
	case s == "":
		return raw, errors.New("the address is empty: " + addressHint)
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		return raw, errors.New(
			"the address begins with 0x, as those of EVM chains do: an address of TRON is wanted, " + addressHint,
		)
	case len(s) == 2*addressBytes && isHex(s):
		return raw, errors.New("the address is in hexadecimal, which has no checksum: " + addressHint)
	case strings.Contains(s, "."):
		return raw, errors.New("names are not resolved: " + addressHint)
	}
	for i := range len(s) {
		if strings.IndexByte(base58Letters, s[i]) < 0 {
			return raw, fmt.Errorf(
				"character %d is not base58, which is digits and letters without 0, O, I and l", i+1,
			)
		}
	}
	if len(s) != addressChars {
		return raw, fmt.Errorf("the address has %d characters: an address of TRON has %d", len(s), addressChars)
	}
	b, err := base58.Decode(s)
	if err != nil || len(b) != addressBytes+checkBytes {
		return raw, errors.New("the address is not an address of TRON: " + addressHint)
	}
	copy(raw[:], b)
	if [checkBytes]byte(b[addressBytes:]) != checksum(raw) {
		return raw, errors.New("the checksum of the address is wrong: a character was mistyped or left out")
	}
	if raw[0] != prefix {
		return raw, errors.New("the address is one of another chain: an address of TRON begins with T")
	}
	return raw, nil
}

func checksum(raw [addressBytes]byte) [checkBytes]byte {
	first := sha256.Sum256(raw[:])
	second := sha256.Sum256(first[:])
	return [checkBytes]byte(second[:])
}

func isHex(s string) bool {
	_, err := hex.DecodeString(s)
	return err == nil
}

// Canonical returns the text form of an address: base58 with its checksum.
func Canonical(raw [addressBytes]byte) chain.Address {
	sum := checksum(raw)
	return chain.Address(base58.Encode(append(raw[:], sum[:]...)))
}

// FromAccountBytes returns the address with these 20 bytes, as contracts and their logs write it.
func FromAccountBytes(b [accountBytes]byte) chain.Address {
	raw := [addressBytes]byte{prefix}
	copy(raw[1:], b[:])
	return Canonical(raw)
}

// KeyAddress returns the address of an uncompressed public key.
func KeyAddress(public [publicBytes]byte) chain.Address {
	return FromAccountBytes([accountBytes]byte(crypto.Keccak256(public[1:])[12:]))
}

// Bytes returns the 21 bytes of an address in its canonical form. Any other form is an error: Parse
// did not return it.
func Bytes(a chain.Address) ([addressBytes]byte, error) {
	raw, err := decodeAddress(string(a))
	if err == nil && Canonical(raw) != a {
		err = errors.New("it is not in its canonical form")
	}
	if err != nil {
		return raw, fmt.Errorf("address %.60q: %w", string(a), err)
	}
	return raw, nil
}

// Hex returns an address as nodes write it: 42 hexadecimal digits that begin with 41.
func Hex(a chain.Address) (string, error) {
	raw, err := Bytes(a)
	return hex.EncodeToString(raw[:]), err
}

// FromBytes reads the 21 bytes of an address as transactions contain them.
func FromBytes(b []byte) (chain.Address, error) {
	if len(b) != addressBytes || b[0] != prefix {
		return "", fmt.Errorf(
			"%x is not an address: an address has 21 bytes and begins with 41",
			b[:min(len(b), 2*addressBytes)],
		)
	}
	return Canonical([addressBytes]byte(b)), nil
}

// FromHex reads an address as nodes write it.
func FromHex(s string) (chain.Address, error) {
	b, err := hex.DecodeString(s)
	if err != nil {
		return "", errors.New("an address that is not in hexadecimal")
	}
	return FromBytes(b)
}

// AddressCodec reads the addresses of TRON.
type AddressCodec struct{}

var _ chain.AddressCodec = AddressCodec{}

// Parse calls the function Parse.
func (AddressCodec) Parse(s string) (chain.Address, error) { return Parse(s) }

// ParseContract is Parse: a contract's address has no other form.
func (AddressCodec) ParseContract(s string) (chain.Address, error) { return Parse(s) }

// unspendable has addresses that are known to have no key, beyond those that IsUnspendable finds by
// their form.
var unspendable = map[chain.Address]bool{
	"TLsV52sRDL79HXGGm9yzwKibb6BeruhUzy": true, // where the chain itself sends burnt tokens
}

// IsUnspendable reports whether the key of an address has no holder. The condition covers addresses
// whose first 16 bytes after the prefix are zero: the zero address, the chain's built-in contracts
// and 0x…dead. From 0x01000000 on there are contracts of the chain, too.
func (AddressCodec) IsUnspendable(a chain.Address) bool {
	raw, err := Bytes(a)
	if err != nil {
		return false
	}
	low := true
	for _, c := range raw[1 : addressBytes-4] {
		low = low && c == 0
	}
	return low || unspendable[a]
}

// PaymentURI returns the address alone: no form of link is common among wallets of TRON, and all of
// them read an address.
func (AddressCodec) PaymentURI(a, _ chain.Address) string { return string(a) }
