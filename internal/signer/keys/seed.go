// Package keys makes the one secret of an installation, keeps it in a sealed file and derives every
// key from it: wallet keys by paths that identify the wallet, and the key that attests addresses.
//
// There is never:
//   - a secret in an error, a log or a print
//   - a key at a path that comes from a counter
//   - a file that is overwritten
//
// A crash leaves a complete file or none.
package keys

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/tyler-smith/go-bip39"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/signer"
)

const (
	entropyBytes = 32 // 24 words
	wordCount    = 24
)

// Seed is the secret that every key is derived from. It prints as ***.
//
// The secret is behind a function here and in the keys below. fmt prints unexported fields without
// calling their methods, and follows pointers, but it cannot look into a function.
type Seed struct {
	secret  func() *secret
	network chain.Network // see ForNetwork
}

type secret struct {
	entropy [entropyBytes]byte
	master  [64]byte // BIP-39, with an empty passphrase
}

// NewSeed makes a seed from the system's randomness.
func NewSeed() (Seed, error) {
	var entropy [entropyBytes]byte
	if _, err := rand.Read(entropy[:]); err != nil {
		return Seed{}, fmt.Errorf("ask the system for randomness: %w", err)
	}
	return fromEntropy(entropy)
}

// SeedFromWords reads the 24 words of BIP-39, in any case and spacing.
func SeedFromWords(words string) (Seed, error) {
	fields := strings.Fields(strings.ToLower(words))
	if len(fields) != wordCount {
		return Seed{}, fmt.Errorf("a seed has %d words, these are %d", wordCount, len(fields))
	}
	// The library's errors quote their input.
	b, err := bip39.EntropyFromMnemonic(strings.Join(fields, " "))
	if err != nil || len(b) != entropyBytes {
		return Seed{}, errors.New("these are not the words of a seed: one is mistyped, missing or in the wrong " +
			"position")
	}
	return fromEntropy([entropyBytes]byte(b))
}

func fromEntropy(entropy [entropyBytes]byte) (Seed, error) {
	words, err := bip39.NewMnemonic(entropy[:])
	if err != nil {
		return Seed{}, errors.New("the words of a seed could not be made")
	}
	s := &secret{entropy: entropy, master: [64]byte(bip39.NewSeed(words, ""))}
	return Seed{secret: func() *secret { return s }}, nil
}

// ForNetwork returns the seed of an installation on a network. Families whose addresses show their
// network have no wallets without it; the others have the same wallets on every network.
func (s Seed) ForNetwork(n chain.Network) Seed {
	s.network = n
	return s
}

// mnemonic returns the words of the seed, for paper or an encrypted backup.
func (s Seed) mnemonic() string {
	words, err := bip39.NewMnemonic(s.secret().entropy[:])
	if err != nil {
		panic("keys: a seed without words")
	}
	return words
}

// Format prints *** for every verb.
func (Seed) Format(f fmt.State, _ rune) { io.WriteString(f, "***") }

// MarshalJSON refuses: only CreateSeed and BackupSeed write a seed.
func (Seed) MarshalJSON() ([]byte, error) { return nil, errors.New("a seed is never printed") }

// hardened marks a path index that no public key can derive.
const hardened = 1 << 31

// attestPath is the path of the attestation key: "COFF" in ASCII, which differs from every
// registered purpose.
var attestPath = []uint32{0x434f4646, 0}

// AttestKey derives the key that signs addresses, by SLIP-10 for ed25519.
func (s Seed) AttestKey() AttestKey {
	private := s.ed25519Key(attestPath)
	return AttestKey{func() ed25519.PrivateKey { return private }}
}

// AttestKey signs addresses. It prints as ***.
type AttestKey struct{ privateKey func() ed25519.PrivateKey }

// PublicKey returns the key that proofs are checked with.
func (k AttestKey) PublicKey() ed25519.PublicKey { return k.privateKey().Public().(ed25519.PublicKey) }

// AttestAddress signs that the key of an address is at a path of this seed, and whose wallet it is.
func (k AttestKey) AttestAddress(w signer.WalletRef, path string, address chain.Address) []byte {
	return ed25519.Sign(k.privateKey(), signer.AttestedBytes(w, path, address))
}

// SignAnchor signs an anchor of the audit log.
func (k AttestKey) SignAnchor(anchor signer.Anchor) []byte {
	return ed25519.Sign(k.privateKey(), anchor.SignedBytes())
}

// SignEndorsement signs an endorsement.
func (k AttestKey) SignEndorsement(e signer.EndorseBody) []byte {
	return ed25519.Sign(k.privateKey(), e.SignedBytes())
}

// SignEnrolment signs the enrolment of an approver's passkey.
func (k AttestKey) SignEnrolment(b signer.EnrolBody) []byte {
	return ed25519.Sign(k.privateKey(), b.SignedBytes())
}

// SignRule signs an approval rule.
func (k AttestKey) SignRule(b signer.RuleBody) []byte {
	return ed25519.Sign(k.privateKey(), b.SignedBytes())
}

// Format prints *** for every verb.
func (AttestKey) Format(f fmt.State, _ rune) { io.WriteString(f, "***") }

// WalletKey is the key of one wallet, on the curve of its family. It signs hashes for EVM and
// Bitcoin, and messages for Solana. It prints as ***.
type WalletKey struct {
	secpKey func() *secp256k1.PrivateKey // nil for Solana
	edKey   func() ed25519.PrivateKey    // nil for all others
	taproot bool                         // signs by BIP-340, with the key that BIP-86 derives from this one
	path    string
	address chain.Address
}

// DeriveWallet derives the key of a wallet at one of these paths:
//   - EVM: m/44'/60'
//   - Bitcoin: m/84', or m/86' if its form is taproot
//   - Solana: m/44'/501'
//
// Four times 31 bits of SHA-256 of organization, purpose and subject complete the path. The path
// follows from the wallet's fields alone, so a database that lost its rows cannot give it to
// another wallet. Errors: a family without keys or without that form, or a seed without ForNetwork
// where addresses show the network. A path that leads to no key has a chance of one in 2^127 and no
// remedy: it never happens.
func (s Seed) DeriveWallet(w signer.WalletRef) (WalletKey, error) {
	if w.Form != chain.Usual && (w.Family != chain.BitcoinFamily || w.Form != chain.Taproot) {
		return WalletKey{}, fmt.Errorf("no keys of form %q are derived for family %q", w.Form, w.Family)
	}
	switch w.Family {
	case chain.EVM:
		return s.evmKey(w)
	case chain.BitcoinFamily:
		return s.bitcoinKey(w)
	case chain.SolanaFamily:
		return s.solanaKey(w), nil
	}
	return WalletKey{}, fmt.Errorf("no keys are derived for family %q", w.Family)
}

// DeriveAddress returns the address of a wallet, independently of any database.
func (s Seed) DeriveAddress(w signer.WalletRef) (chain.Address, error) {
	key, err := s.DeriveWallet(w)
	if err != nil {
		return "", err
	}
	return key.Address(), nil
}

func (s Seed) evmKey(w signer.WalletRef) (WalletKey, error) {
	private, path, err := s.secp256k1Key(append([]uint32{44, 60}, walletIndexes(w)...))
	if err != nil {
		return WalletKey{}, err
	}
	public := private.PubKey().SerializeUncompressed()
	address := common.BytesToAddress(crypto.Keccak256(public[1:])[12:])
	return WalletKey{secpKey: func() *secp256k1.PrivateKey {
		return private
	}, path: path, address: chain.Address(address.Hex())}, nil
}

// secp256k1Key returns the key at a BIP-32 path whose indexes are all hardened.
func (s Seed) secp256k1Key(indexes []uint32) (*secp256k1.PrivateKey, string, error) {
	key, code := splitKey(hmacSHA512([]byte("Bitcoin seed"), s.secret().master[:]))
	path := "m"
	for _, i := range indexes {
		var err error
		if key, code, err = childSecp(key, code, i); err != nil {
			return nil, "", err
		}
		path = fmt.Sprintf("%s/%d'", path, i)
	}
	return secp256k1.PrivKeyFromBytes(key[:]), path, nil
}

// walletIndexes returns the wallet's own part of its path.
func walletIndexes(w signer.WalletRef) []uint32 {
	var b []byte
	for _, s := range []string{w.OrgID, w.Purpose, w.Subject} {
		b = fmt.Appendf(b, "%d:%s", len(s), s)
	}
	sum := sha256.Sum256(b)
	indexes := make([]uint32, 4)
	for i := range indexes {
		indexes[i] = binary.BigEndian.Uint32(sum[4*i:]) &^ hardened
	}
	return indexes
}

// Path returns the path of the key, such as m/44'/60'/1'/2'/3'/4'.
func (k WalletKey) Path() string { return k.path }

// Address returns the key's address in canonical form.
func (k WalletKey) Address() chain.Address { return k.address }

// SignHash signs 32 bytes and returns R, S (low) and the recovery id (0 or 1). The nonce follows
// RFC 6979, so the same bytes give the same signature. It panics for the key of a Solana wallet,
// which signs messages, and for the key of a taproot wallet.
func (k WalletKey) SignHash(hash [32]byte) [65]byte {
	if k.secpKey == nil {
		panic("keys: the key of a Solana wallet is asked to sign a hash")
	}
	if k.taproot {
		panic("keys: the key of a taproot wallet is asked for a signature of ECDSA")
	}
	compact := ecdsa.SignCompact(k.secpKey(), hash[:], false)
	var signature [65]byte
	copy(signature[:], compact[1:])
	signature[64] = compact[0] - 27
	return signature
}

// Format prints *** for every verb.
func (WalletKey) Format(f fmt.State, _ rune) { io.WriteString(f, "***") }

func hmacSHA512(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha512.New, key)
	for _, p := range parts {
		h.Write(p)
	}
	return h.Sum(nil)
}

func splitKey(b []byte) (key, code [32]byte) { return [32]byte(b[:32]), [32]byte(b[32:]) }

func hardenedIndex(i uint32) []byte { return binary.BigEndian.AppendUint32(nil, i|hardened) }

// childSecp derives a hardened private child by BIP-32.
func childSecp(key, code [32]byte, i uint32) (childKey, childCode [32]byte, err error) {
	left, childCode := splitKey(hmacSHA512(code[:], []byte{0}, key[:], hardenedIndex(i)))
	var sum, parent secp256k1.ModNScalar
	overflow := sum.SetBytes(&left)
	parent.SetBytes(&key)
	if sum.Add(&parent); overflow != 0 || sum.IsZero() {
		return childKey, childCode, errors.New("a key path leads to no key")
	}
	return sum.Bytes(), childCode, nil
}

// childEd25519 derives a hardened private child on ed25519 by SLIP-10.
func childEd25519(key, code [32]byte, i uint32) (childKey, childCode [32]byte) {
	return splitKey(hmacSHA512(code[:], []byte{0}, key[:], hardenedIndex(i)))
}
