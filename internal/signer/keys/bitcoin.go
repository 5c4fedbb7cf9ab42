package keys

import (
	"fmt"
	"io"

	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/decred/dcrd/dcrec/secp256k1/v4"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/signer"
)

// The purposes of BIP-84 and BIP-86, which begin the paths of Bitcoin's keys.
const (
	purposeSegwit  = 84
	purposeTaproot = 86
)

// bitcoin derives the key of a native SegWit wallet at m/84'/coin', where coin is 0 on
// the main network and 1 on all others. Another purpose than taproot's, and another coin
// on another network, so no address ever shows the key of another one.
func (s Seed) bitcoin(w signer.WalletRef) (WalletKey, error) {
	private, path, p, err := s.bitcoinAt(purposeSegwit, w)
	if err != nil {
		return WalletKey{}, err
	}
	a := bitcointx.KeyAddress(p, [bitcointx.KeyBytes]byte(private.PubKey().SerializeCompressed()))
	return WalletKey{k: func() *secp256k1.PrivateKey { return private }, path: path, address: a}, nil
}

// A TaprootKey is the key of a taproot wallet, which signs otherwise than a WalletKey.
// It prints as ***.
type TaprootKey struct {
	k       func() *secp256k1.PrivateKey // the inner key: BIP-86 tweaks it to sign
	path    string
	address chain.Address
}

// TaprootWallet derives the key of a taproot wallet at m/86'/coin'. A wallet has one
// address for ever, which is Wallet's unless whoever asks has written down beforehand
// that it is this one. Errors: those of Wallet.
func (s Seed) TaprootWallet(w signer.WalletRef) (TaprootKey, error) {
	if w.Family != chain.BitcoinFamily {
		return TaprootKey{}, fmt.Errorf("family %q has no taproot wallets", w.Family)
	}
	private, path, p, err := s.bitcoinAt(purposeTaproot, w)
	if err != nil {
		return TaprootKey{}, err
	}
	a, err := bitcointx.TaprootAddress(p, [bitcointx.KeyBytes]byte(private.PubKey().SerializeCompressed()))
	if err != nil {
		return TaprootKey{}, err
	}
	return TaprootKey{func() *secp256k1.PrivateKey { return private }, path, a}, nil
}

func (s Seed) bitcoinAt(purpose uint32, w signer.WalletRef) (*secp256k1.PrivateKey, string, *chaincfg.Params, error) {
	p, err := bitcointx.Params(s.network)
	if err != nil {
		return nil, "", nil, fmt.Errorf("derive a wallet of Bitcoin: %w", err)
	}
	private, path, err := s.secp(append([]uint32{purpose, bitcointx.CoinType(s.network)}, place(w)...))
	return private, path, p, err
}

// Path is where the key stands, such as m/86'/0'/1'/2'/3'/4'.
func (k TaprootKey) Path() string { return k.path }

// Address is the key's address in canonical form.
func (k TaprootKey) Address() chain.Address { return k.address }

// SignHash signs 32 bytes by BIP-340 with the key that BIP-86 makes of this one. It adds
// no randomness, so the same bytes give the same signature.
func (k TaprootKey) SignHash(hash [32]byte) [64]byte {
	signature, err := schnorr.Sign(txscript.TweakTaprootPrivKey(*k.k(), nil), hash[:], schnorr.CustomNonce([32]byte{}))
	if err != nil {
		panic("keys: a key that signs nothing: " + err.Error())
	}
	return [64]byte(signature.Serialize())
}

// Format prints *** whatever the verb.
func (TaprootKey) Format(f fmt.State, _ rune) { io.WriteString(f, "***") }
