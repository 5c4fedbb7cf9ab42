package bitcointx

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/cofferpay/coffer/internal/chain"
)

// A block has ten thousand outputs and each is written as an address. So these two functions avoid
// the detours of the library, which makes them forty times as fast. Tests compare their output with
// the library's, one of them a fuzz target.

const (
	bech32Digits   = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	bech32Checksum = 6
	bech32mFinal   = 0x2bc830a3
)

// bech32Steps are the effects on the checksum of each group of five bits that leaves it.
var bech32Steps = func() (all [32]uint32) {
	for top := range all {
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				all[top] ^= g
			}
		}
	}
	return all
}()

// encodeSegwit encodes a witness program by BIP-173 and BIP-350.
func encodeSegwit(prefix string, version byte, program []byte) chain.Address {
	sum := uint32(1)
	feed := func(v byte) {
		sum = (sum&0x1ffffff)<<5 ^ uint32(v) ^ bech32Steps[sum>>25]
	}
	for i := range len(prefix) {
		feed(prefix[i] >> 5)
	}
	feed(0)
	for i := range len(prefix) {
		feed(prefix[i] & 31)
	}
	out := make([]byte, 0, addressBytesMax)
	out = append(append(out, prefix...), '1')
	put := func(v byte) {
		feed(v)
		out = append(out, bech32Digits[v])
	}
	put(version)
	var bits, bitCount uint
	for _, b := range program {
		bits, bitCount = bits<<8|uint(b), bitCount+8
		for ; bitCount >= 5; bitCount -= 5 {
			put(byte(bits >> (bitCount - 5) & 31))
		}
	}
	if bitCount > 0 {
		put(byte(bits << (5 - bitCount) & 31))
	}
	for range bech32Checksum {
		feed(0)
	}
	if version == 0 {
		sum ^= 1
	} else {
		sum ^= bech32mFinal
	}
	for i := range bech32Checksum {
		out = append(out, bech32Digits[sum>>(5*(bech32Checksum-1-i))&31])
	}
	return chain.Address(out)
}

const (
	base58Digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	fiveDigits   = 58 * 58 * 58 * 58 * 58 // as many digits as one division gives
	base58Max    = 35                     // digits of 25 bytes
)

// encodeBase58Check encodes a version and a hash with their checksum.
func encodeBase58Check(version byte, hash [hashBytes]byte) chain.Address {
	var b [28]byte // three leading zeros, so that it consists of whole words
	b[3] = version
	copy(b[4:], hash[:])
	first := sha256.Sum256(b[3:24])
	second := sha256.Sum256(first[:])
	copy(b[24:], second[:4])
	var words [7]uint32
	for i := range words {
		words[i] = binary.BigEndian.Uint32(b[4*i:])
	}
	var digits [base58Max]byte
	for pos := base58Max; pos > 0; {
		var remainder uint64
		for i, w := range words {
			remainder = remainder<<32 | uint64(w)
			words[i] = uint32(remainder / fiveDigits)
			remainder %= fiveDigits
		}
		for range 5 {
			pos--
			digits[pos] = base58Digits[remainder%58]
			remainder /= 58
		}
	}
	// Every leading zero byte is written as one digit, and no more than those.
	zeros := 0
	for zeros < 25 && b[3+zeros] == 0 {
		zeros++
	}
	start := 0
	for start < base58Max && digits[start] == base58Digits[0] {
		start++
	}
	return chain.Address(digits[start-min(start, zeros):])
}
