package keys

import (
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/signer"
)

// tronKey derives the key of a wallet at m/44'/195'. Its coin type differs from that of EVM chains,
// so no address of one reveals the key of the other.
func (s Seed) tronKey(w signer.WalletRef) (WalletKey, error) {
	private, path, err := s.secp256k1Key(append([]uint32{44, 195}, walletIndexes(w)...))
	if err != nil {
		return WalletKey{}, err
	}
	address := trontx.KeyAddress([65]byte(private.PubKey().SerializeUncompressed()))
	return WalletKey{secpKey: func() *secp256k1.PrivateKey { return private }, path: path, address: address}, nil
}
