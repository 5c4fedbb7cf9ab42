package keys

import (
	"fmt"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/signer"
)

// The purposes of BIP-84 and BIP-86, which begin the paths of Bitcoin keys.
const (
	purposeSegwit  = 84
	purposeTaproot = 86
)

// bitcoinKey derives the key of a wallet: a native SegWit key at m/84'/coin', a taproot key at
// m/86'/coin', where coin is 0 on the main network and 1 on all others. Each form and each network
// has keys of its own, so no address ever reveals the key of another one.
func (s Seed) bitcoinKey(w signer.WalletRef) (WalletKey, error) {
	purpose := uint32(purposeSegwit)
	if w.Form == chain.Taproot {
		purpose = purposeTaproot
	}
	private, path, p, err := s.bitcoinKeyAt(purpose, w)
	if err != nil {
		return WalletKey{}, err
	}
	key := WalletKey{secpKey: func() *secp256k1.PrivateKey {
		return private
	}, path: path, taproot: w.Form == chain.Taproot}
	public := [bitcointx.KeyBytes]byte(private.PubKey().SerializeCompressed())
	if key.address = bitcointx.KeyAddress(p, public); key.taproot {
		key.address, err = bitcointx.TaprootAddress(p, public)
	}
	return key, err
}

func (s Seed) bitcoinKeyAt(
	purpose uint32, w signer.WalletRef,
) (*secp256k1.PrivateKey, string, *chaincfg.Params, error) {
	p, err := bitcointx.Params(s.network)
	if err != nil {
		return nil, "", nil, fmt.Errorf("derive a wallet of Bitcoin: %w", err)
	}
	private, path, err := s.secp256k1Key(append([]uint32{purpose, bitcointx.CoinType(s.network)}, walletIndexes(w)...))
	return private, path, p, err
}

// SignInput signs the 32-byte hash of an input that spends an output at the key's address. For
// native SegWit it is SignHash. For taproot it is the 64 bytes of BIP-340 by the key that BIP-86
// derives from this one. It adds no randomness, so the same bytes give the same signature.
func (k WalletKey) SignInput(hash [32]byte) []byte {
	if !k.taproot {
		signature := k.SignHash(hash)
		return signature[:]
	}
	signature, err := schnorr.Sign(txscript.TweakTaprootPrivKey(*k.secpKey(), nil), hash[:],
		schnorr.CustomNonce([32]byte{}))
	if err != nil {
		panic("keys: a key that signs nothing: " + err.Error())
	}
	return signature.Serialize()
}
