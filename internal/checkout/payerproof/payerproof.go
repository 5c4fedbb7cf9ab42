// Package payerproof proves that a payer holds the key of an address: it writes the text that the payer's wallet
// signs, and checks the signature. It is pure.
//
// A refund to the address that a payment came from is lost if that is the shared wallet of an exchange. An exchange
// signs nothing for its customers, so a signature of the address shows that the payer holds it.
//
// The text names everything that a signature is for. Its last line is a MAC over all other lines with a secret of the
// installation, so only this installation makes such a text, and none has to be stored. The version of the refund is in
// it, and a claim changes that, so a signature counts once.
package payerproof

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
	"unicode"

	"filippo.io/edwards25519"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

const (
	domain   = "coffer-payer-proof-1"
	macBytes = 16

	// Lifetime is how long a text can be signed.
	Lifetime = 15 * time.Minute

	shopRunesMax = 120
)

// DeriveSecret returns the secret of proofs, which follows from another secret of the installation as that of pages
// does. A replacement of that one ends the texts that are being signed: their payers get new ones.
func DeriveSecret(installationSecret []byte) ([]byte, error) {
	if len(installationSecret) < sha256.Size {
		return nil, fmt.Errorf("derive the secret of proofs: it has to follow from %d bytes or more", sha256.Size)
	}
	return hkdf.Key(sha256.New, installationSecret, nil, domain, sha256.Size)
}

// Challenge is what a signature is for.
type Challenge struct {
	RefundID string
	Version  int64  // of the refund
	Shop     string // its name
	Host     string // of the page, as the payer sees it in the browser
	CAIP2    string // the chain, such as eip155:8453
	Address  chain.Address
	// ExpiresAt is when the text can be signed no more, in whole seconds.
	ExpiresAt time.Time
}

// IsOpen reports whether the text may be signed at a moment.
func (c Challenge) IsOpen(now time.Time) bool {
	// The clock of the process that wrote the text may be ahead of this one.
	return now.Before(c.ExpiresAt) && !c.ExpiresAt.After(now.Add(Lifetime+time.Minute))
}

// Text returns the text that a wallet shows and signs. The same challenge has the same text. Rule CO-95.
func (c Challenge) Text(secret []byte) string {
	text := c.lines()
	if len(secret) < sha256.Size {
		panic("payerproof: texts need a secret")
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(domain + "\n" + text)) // A domain has a fixed length, so no two texts have the same bytes.
	return text + "\nNonce: " + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:macBytes])
}

// lines returns the text without its MAC. No value has a line break, so no value can write a line of its own.
func (c Challenge) lines() string {
	return strings.Join([]string{
		oneLine(c.Host) + " asks you to show that this address is yours.",
		"",
		"A refund of " + oneLine(c.Shop) + " is then sent to it. Signing this moves no money and allows no payment.",
		"",
		"Refund: " + oneLine(c.RefundID),
		fmt.Sprintf("Version: %d", c.Version),
		"Network: " + oneLine(c.CAIP2),
		"Address: " + oneLine(string(c.Address)),
		"Expires: " + c.ExpiresAt.UTC().Format(time.RFC3339),
	}, "\n")
}

// oneLine writes a value without what breaks, hides or turns a line.
func oneLine(text string) string {
	count := 0
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if count++; count > shopRunesMax || r == unicode.ReplacementChar || unicode.In(r, unicode.Cf, unicode.Cc) {
			return -1
		}
		if unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, text))
}

// Errors of Verify.
var (
	// ErrUnprovable says that an address is of a kind that this package knows no signature of.
	ErrUnprovable = errors.New("addresses of this kind sign no message")
	// ErrSignature says that a signature is not one of this address over this text.
	ErrSignature = errors.New("the signature is not one of this address over this text")
)

// signatureCharsMax is longer than every signature that is accepted.
const signatureCharsMax = 600

// IsProvable reports whether Verify knows signatures of an address. The hash of a script says not of which kind the
// script is: one of several keys signs nothing here, which its signature shows.
func IsProvable(network chain.Network, name chain.Name, address chain.Address) bool {
	switch name.Family() {
	case chain.EVM, chain.SolanaFamily:
		return true
	case chain.BitcoinFamily:
		script, err := bitcointx.Script(network, address)
		return err == nil && (isKeyHash(script) || isTaproot(script) || isOldKeyHash(script) || isScriptHash(script))
	}
	return false
}

// Verify checks that the key of an address in its canonical form signed a text: by EIP-191 on EVM chains, with Ed25519
// on Solana, and by BIP-322 or BIP-137 on Bitcoin. What it refuses on an EVM chain may still be the signature of a
// contract, which the chain is asked about (AskContract). Errors: ErrUnprovable, ErrSignature. Rule CO-96.
func Verify(network chain.Network, name chain.Name, address chain.Address, text, signature string) error {
	if !IsProvable(network, name, address) {
		return ErrUnprovable
	}
	signature = strings.TrimSpace(signature)
	if len(signature) > signatureCharsMax {
		return ErrSignature
	}
	isValid := false
	switch name.Family() {
	case chain.EVM:
		isValid = isSignedByEVM(address, text, signature)
	case chain.SolanaFamily:
		isValid = isSignedBySolana(address, text, signature)
	case chain.BitcoinFamily:
		isValid = isSignedByBitcoin(network, address, text, signature)
	}
	if !isValid {
		return ErrSignature
	}
	return nil
}

const (
	ecdsaBytes = 65
	scalarAt   = 32 // where s begins
	parityAt   = 64
	parityBase = 27 // what most wallets add to the parity
)

var halfOrder = new(big.Int).Rsh(crypto.S256().Params().N, 1)

// isSignedByEVM checks a signature of personal_sign: 65 bytes in hexadecimal. Of the two forms of one signature only
// the one with the small s counts, so a signature has one text.
func isSignedByEVM(address chain.Address, text, signature string) bool {
	wanted, err := evmtx.Bytes(address)
	if err != nil {
		return false
	}
	raw, err := hex.DecodeString(strings.TrimPrefix(signature, "0x"))
	if err != nil || len(raw) != ecdsaBytes {
		return false
	}
	if raw[parityAt] >= parityBase {
		raw[parityAt] -= parityBase
	}
	if raw[parityAt] > 1 || new(big.Int).SetBytes(raw[scalarAt:parityAt]).Cmp(halfOrder) > 0 {
		return false
	}
	key, err := crypto.SigToPub(digestEVM(text), raw)
	return err == nil && crypto.PubkeyToAddress(*key) == wanted
}

// isSignedBySolana checks a signature of signMessage: 64 bytes in base58, as wallets show them, or in base64. A key of
// a small order is refused: it has signatures that no one made.
func isSignedBySolana(address chain.Address, text, signature string) bool {
	key, err := solanatx.Bytes(address)
	if err != nil {
		return false
	}
	point, err := new(edwards25519.Point).SetBytes(key[:])
	if err != nil || new(edwards25519.Point).MultByCofactor(point).Equal(edwards25519.NewIdentityPoint()) == 1 {
		return false
	}
	for _, decode := range []func(string) ([]byte, error){base58.Decode, base64.StdEncoding.DecodeString} {
		raw, err := decode(signature)
		if err == nil && len(raw) == ed25519.SignatureSize && ed25519.Verify(key[:], []byte(text), raw) {
			return true
		}
	}
	return false
}
