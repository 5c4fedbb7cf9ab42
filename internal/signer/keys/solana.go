package keys

import (
	"crypto/ed25519"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/signer"
)

// solanaKey derives the key of a wallet at m/44'/501', by SLIP-10: on this curve every path leads
// to a key.
func (s Seed) solanaKey(w signer.WalletRef) WalletKey {
	indexes := append([]uint32{44, 501}, walletIndexes(w)...)
	path := "m"
	for _, i := range indexes {
		path = fmt.Sprintf("%s/%d'", path, i)
	}
	private := s.ed25519Key(indexes)
	address := solanatx.Canonical([ed25519.PublicKeySize]byte(private.Public().(ed25519.PublicKey)))
	return WalletKey{edKey: func() ed25519.PrivateKey { return private }, path: path, address: address}
}

// ed25519Key returns the key at a SLIP-10 path, whose indexes are always hardened.
func (s Seed) ed25519Key(indexes []uint32) ed25519.PrivateKey {
	key, code := splitKey(hmacSHA512([]byte("ed25519 seed"), s.secret().master[:]))
	for _, i := range indexes {
		key, code = childEd25519(key, code, i)
	}
	return ed25519.NewKeyFromSeed(key[:])
}

// SignMessage signs a whole message with the key of a Solana wallet; the same message gives the
// same signature. It panics for every other key: those sign hashes.
func (k WalletKey) SignMessage(message []byte) [ed25519.SignatureSize]byte {
	if k.edKey == nil {
		panic("keys: a key that signs hashes is asked to sign a message")
	}
	return [ed25519.SignatureSize]byte(ed25519.Sign(k.edKey(), message))
}
