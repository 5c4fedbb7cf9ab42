package resource

import (
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/http/kernel"
)

// CanonicalHash returns a transaction's hash as it is stored. A hexadecimal hash is the same in
// every letter case; other hashes are not. Rule LIST-3.
func CanonicalHash(s string) string {
	const hexBytes = 66
	if len(s) == hexBytes && strings.HasPrefix(strings.ToLower(s), "0x") &&
		strings.Trim(s[2:], "0123456789abcdefABCDEF") == "" {
		return strings.ToLower(s)
	}
	return s
}

// CanonicalAddress returns an address as it is stored, if a configured chain can parse it.
// Rule LIST-3.
func CanonicalAddress(chains chain.Chains, s string) string {
	for _, name := range kernel.SortedKeys(chains) {
		if parsed, err := chains[name].AddressCodec.Parse(s); err == nil {
			return string(parsed)
		}
	}
	return s
}
