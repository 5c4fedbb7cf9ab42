package evmtx

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
)

const addressDigits = 40

// Parse reads an address in hexadecimal: 0x and 40 digits, in one case or with the EIP-55 checksum,
// and returns it with the checksum. The error says in words what is wrong.
func Parse(s string) (chain.Address, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	switch {
	case s == "":
		return "", errors.New("the address is empty: give 0x and 40 hexadecimal digits")
	case strings.HasPrefix(s, "0X"):
		return "", errors.New("the address starts with 0X: write 0x with a small x")
	case !ok && strings.Contains(s, "."):
		return "", errors.New("names are not resolved: give the address itself, 0x and 40 hexadecimal digits")
	case !ok:
		return "", errors.New("the address does not start with 0x: give 0x and 40 hexadecimal digits")
	case len(digits) != addressDigits:
		return "", fmt.Errorf("the address has %d characters after 0x: it has to have %d", len(digits), addressDigits)
	}
	var lower, upper bool
	for i := range len(digits) {
		switch c := digits[i]; {
		case '0' <= c && c <= '9':
		case 'a' <= c && c <= 'f':
			lower = true
		case 'A' <= c && c <= 'F':
			upper = true
		default:
			return "", fmt.Errorf("character %d after 0x is not a hexadecimal digit", i+1)
		}
	}
	a := Canonical(common.HexToAddress(digits))
	if lower && upper && string(a) != s {
		return "",
			errors.New(
				"the checksum (EIP-55) of the address is wrong: a character was mistyped, or its case was changed",
			)
	}
	return a, nil
}

// Canonical returns the text form of an address.
func Canonical(a common.Address) chain.Address { return chain.Address(a.Hex()) }

// Bytes returns the 20 bytes of an address in its canonical form. Any other form is an error: it
// was not returned by Parse.
func Bytes(a chain.Address) (common.Address, error) {
	canonical, err := Parse(string(a))
	if err != nil {
		return common.Address{}, fmt.Errorf("address %q: %w", string(a), err)
	}
	if canonical != a {
		return common.Address{}, fmt.Errorf("address %q is not in its canonical form %s", string(a), canonical)
	}
	return common.HexToAddress(string(a)), nil
}

// AddressCodec reads the addresses of one EVM chain.
type AddressCodec struct{ ChainID uint64 }

var _ chain.AddressCodec = AddressCodec{}

// Parse calls the function of the same name.
func (AddressCodec) Parse(s string) (chain.Address, error) { return Parse(s) }

// ParseContract calls Parse: a contract's address has no other form.
func (AddressCodec) ParseContract(s string) (chain.Address, error) { return Parse(s) }

// unspendable are addresses that are known to have no key, in addition to those that IsUnspendable
// recognizes by their form.
var unspendable = map[common.Address]bool{
	common.HexToAddress("0xfffffffffffffffffffffffffffffffffffffffe"): true, // the system's own account
	common.HexToAddress("0xffffffffffffffffffffffffffffffffffffffff"): true,
	// The payout contract moves what its caller has, and never what it holds itself.
	payoutcontract.Address: true,
	// The address that many programs write for "the native coin".
	common.HexToAddress("0xeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee"): true,
	common.HexToAddress("0xdeaddeaddeaddeaddeaddeaddeaddeaddeaddead"): true,
	common.HexToAddress("0xdead000000000000000042069420694206942069"): true,
}

// SampleAddress implements chain.AddressCodec.
func (AddressCodec) SampleAddress() chain.Address {
	return "0x000000000000000000000000000000000000dEaD"
}

// IsUnspendable reports whether an address has no known key. The addresses below 0x10000 are the
// zero address, the present and future precompiled contracts of every chain, and 0x…dead.
func (AddressCodec) IsUnspendable(a chain.Address) bool {
	b := common.HexToAddress(string(a))
	low := true
	for _, c := range b[:common.AddressLength-2] {
		low = low && c == 0
	}
	return low || unspendable[b]
}

// PaymentURI returns an EIP-681 link, which names the chain so that a wallet on another network of
// the family does not pay there.
func (g AddressCodec) PaymentURI(a, contract chain.Address) string {
	if contract == "" {
		return fmt.Sprintf("ethereum:%s@%d", a, g.ChainID)
	}
	return fmt.Sprintf("ethereum:%s@%d/transfer?address=%s", contract, g.ChainID, a)
}
