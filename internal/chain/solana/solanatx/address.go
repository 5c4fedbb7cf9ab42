package solanatx

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"filippo.io/edwards25519"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	keyBytes     = 32
	addressesMax = 44 // characters of 32 bytes in base58, at most
	checkedBytes = 25 // an address of Bitcoin or Tron with its version and checksum
)

const addressHint = "give the address of a Solana wallet, 32 bytes in base58"

// Parse reads the address of a wallet: 32 bytes in base58 that can be a public key. It refuses
// addresses off the curve, from which only a program can send: token accounts, vaults, most of what
// an explorer shows next to a wallet. It also refuses programs, sysvars and the incinerator. There
// is no checksum: half of all mistyped addresses are valid and belong to no one.
func Parse(s string) (chain.Address, error) {
	b, err := decodeAddress(s)
	if err != nil {
		return "", err
	}
	if name, ok := chainAccounts[b]; ok {
		return "", fmt.Errorf("this is the address of %s, which is not a wallet: a payment to it is lost", name)
	}
	if !onCurve(b) {
		return "",
			errors.New(
				"this address can have no key, only a program: it is a token account or a vault; give the address of " +
					"the wallet itself",
			)
	}
	return Canonical(b), nil
}

// ParseMint reads the address of a token's mint, which may lie off the curve.
func ParseMint(s string) (chain.Address, error) {
	b, err := decodeAddress(s)
	if err != nil {
		return "", err
	}
	if name, ok := chainAccounts[b]; ok && b != wrappedSOL && b != wrappedSOL2022 {
		return "", fmt.Errorf("this is the address of %s, which is not a mint", name)
	}
	return Canonical(b), nil
}

// decodeAddress decodes base58 of 32 bytes. Its errors never quote the input: it may be a secret
// that was pasted into the wrong field.
func decodeAddress(s string) ([keyBytes]byte, error) {
	var zero [keyBytes]byte
	if s == "" {
		return zero, errors.New("the address is empty: " + addressHint)
	}
	if prefix, ok := bech32Prefix(s); ok {
		return zero, fmt.Errorf("this is an address of another chain, with its prefix %s: %s", prefix, addressHint)
	}
	switch {
	case strings.HasPrefix(s, "0x"), strings.HasPrefix(s, "0X"):
		return zero, errors.New("the address starts with 0x, as those of EVM chains do: " + addressHint)
	case strings.Contains(s, "."):
		return zero, errors.New("names are not resolved: " + addressHint)
	}
	for i := range len(s) {
		switch c := s[i]; {
		case strings.IndexByte(base58Letters, c) >= 0:
		case strings.IndexByte("0OIl", c) >= 0:
			return zero, fmt.Errorf("character %d is %q: base58 has no 0, O, I and l, which look alike", i+1,
				c)
		default:
			return zero, fmt.Errorf("character %d is not base58, which is digits and letters without 0, O, I and l",
				i+1)
		}
	}
	if len(s) > addressesMax {
		if n := len(s); n == 87 || n == 88 {
			return zero, errors.New("this is as long as a transaction's signature or a secret key: " + addressHint)
		}
		return zero, fmt.Errorf("the address has %d characters: it has to have at most %d", len(s), addressesMax)
	}
	b, err := base58.Decode(s)
	if err != nil {
		return zero, errors.New("the address is not base58: " + addressHint)
	}
	if len(b) != keyBytes {
		if name, ok := checksumOwner(b); ok {
			return zero, fmt.Errorf("this is an address of %s: %s", name, addressHint)
		}
		return zero, fmt.Errorf("the address has %d bytes: it has to have %d", len(b), keyBytes)
	}
	if base58.Encode(b) != s {
		return zero, errors.New("the address is not in its canonical form: " + addressHint)
	}
	return [keyBytes]byte(b), nil
}

const base58Letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"

// checksumOwner returns the chain whose addresses have this version and checksum.
func checksumOwner(b []byte) (string, bool) {
	if len(b) != checkedBytes {
		return "", false
	}
	first := sha256.Sum256(b[:checkedBytes-4])
	second := sha256.Sum256(first[:])
	if [4]byte(second[:4]) != [4]byte(b[checkedBytes-4:]) {
		return "", false
	}
	if b[0] == 0x41 {
		return "Tron", true
	}
	return "Bitcoin or a chain like it", true
}

// bech32Prefix returns the prefix of a bech32 or bech32m address with a correct checksum. Some of
// these are 32 bytes in base58 too, by chance. The reverse has a chance of one in 2^30, among
// addresses without capitals.
func bech32Prefix(s string) (string, bool) {
	const digits = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"
	separator := strings.LastIndexByte(s, '1')
	if separator < 1 || separator+7 > len(s) || len(s) > 90 || s != strings.ToLower(s) && s != strings.ToUpper(s) {
		return "", false
	}
	s = strings.ToLower(s)
	sum := uint32(1)
	addValue := func(v byte) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for i := range separator {
		addValue(s[i] >> 5)
	}
	addValue(0)
	for i := range separator {
		addValue(s[i] & 31)
	}
	for i := separator + 1; i < len(s); i++ {
		v := strings.IndexByte(digits, s[i])
		if v < 0 {
			return "", false
		}
		addValue(byte(v))
	}
	return s[:separator], sum == 1 || sum == 0x2bc830a3
}

// Canonical returns the text form of an address.
func Canonical(b [keyBytes]byte) chain.Address { return chain.Address(base58.Encode(b[:])) }

// Bytes returns the 32 bytes of any account's address, on the curve or off it. A form other than
// the canonical one is an error.
func Bytes(a chain.Address) ([keyBytes]byte, error) {
	b, err := base58.Decode(string(a[:min(len(a), addressesMax+1)]))
	if err != nil || len(b) != keyBytes || Canonical([keyBytes]byte(b)) != a {
		return [keyBytes]byte{}, fmt.Errorf("address %.60q is not 32 bytes in base58", string(a))
	}
	return [keyBytes]byte(b), nil
}

// OnCurve reports whether an address can be a public key. If it cannot, only a program sends from
// it.
func OnCurve(a chain.Address) bool {
	b, err := Bytes(a)
	return err == nil && onCurve(b)
}

// onCurve applies the chain's own rule, which accepts points that are not in their one canonical
// form.
func onCurve(b [keyBytes]byte) bool {
	_, err := new(edwards25519.Point).SetBytes(b[:])
	return err == nil
}

// AddressCodec reads the addresses of Solana. They are the same on each of its networks.
type AddressCodec struct{}

var _ chain.AddressCodec = AddressCodec{}

// Parse calls the function of the same name.
func (AddressCodec) Parse(s string) (chain.Address, error) { return Parse(s) }

// handwrittenSuffix is the end of addresses that were written by hand and not generated.
const handwrittenSuffix = "11111111"

// IsUnspendable reports whether an address has no known key: programs, sysvars, addresses written
// by hand, and points without a key, such as those of small order.
func (AddressCodec) IsUnspendable(a chain.Address) bool {
	b, err := Bytes(a)
	if err != nil {
		return false
	}
	p, err := new(edwards25519.Point).SetBytes(b[:])
	if err != nil {
		return chainAccounts[b] != ""
	}
	small := new(edwards25519.Point).MultByCofactor(p).Equal(edwards25519.NewIdentityPoint()) == 1
	return chainAccounts[b] != "" || small || [keyBytes]byte(p.Bytes()) != b ||
		strings.HasSuffix(string(a), handwrittenSuffix)
}

// SampleAddress implements chain.AddressCodec.
func (AddressCodec) SampleAddress() chain.Address {
	return "1nc1nerator11111111111111111111111111111111"
}

// ParseContract calls ParseMint.
func (AddressCodec) ParseContract(s string) (chain.Address, error) { return ParseMint(s) }

// PaymentURI returns a Solana Pay link.
func (AddressCodec) PaymentURI(a, contract chain.Address) string {
	if contract == "" {
		return fmt.Sprintf("solana:%s", a)
	}
	return fmt.Sprintf("solana:%s?spl-token=%s", a, contract)
}
