package solanatx

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"github.com/mr-tron/base58"

	"github.com/cofferpay/coffer/internal/chain"
)

const signatureBytes = ed25519.SignatureSize

// signerKeys returns the accounts that have to sign a payload of either form.
func signerKeys(payload []byte) ([][keyBytes]byte, error) {
	m, err := parseMessage(payload)
	if err != nil {
		return nil, err
	}
	if m.isNonceCreation() {
		_, err = DecodeNonceCreation(payload)
	} else {
		_, err = Decode(payload)
	}
	if err != nil {
		return nil, err
	}
	return m.keys[:m.signers], nil
}

// Signers returns the addresses that have to sign a payload, a payment or the creation of a nonce
// account, in the order of their signatures. The payer is first.
func Signers(payload []byte) ([]chain.Address, error) {
	keys, err := signerKeys(payload)
	if err != nil {
		return nil, err
	}
	out := make([]chain.Address, len(keys))
	for i, k := range keys {
		out[i] = Canonical(k)
	}
	return out, nil
}

// AttachSignatures adds the signatures to a payload, in the order of Signers, and returns the bytes
// to broadcast and their hash. A signature that is missing or is not that address's over these very
// bytes is an error, so a mixed-up key is found here and not by the network.
func AttachSignatures(payload []byte, signatures ...[signatureBytes]byte) (raw []byte, hash chain.TxHash, err error) {
	keys, err := signerKeys(payload)
	if err != nil {
		return nil, "", err
	}
	if len(signatures) != len(keys) {
		return nil, "", fmt.Errorf("transaction has %d signatures, not %d", len(signatures), len(keys))
	}
	raw = appendCount(nil, len(signatures))
	for i, s := range signatures {
		if !ed25519.Verify(keys[i][:], payload, s[:]) {
			return nil, "", fmt.Errorf("signature %d is not by %s", i, Canonical(keys[i]))
		}
		raw = append(raw, s[:]...)
	}
	return append(raw, payload...), hashFrom(signatures[0]), nil
}

// VerifySigned decodes signed bytes into what was signed, a payment or the creation of a nonce
// account, and the hash. It is as strict as Decode and verifies every signature.
func VerifySigned(raw []byte) (payload []byte, hash chain.TxHash, err error) {
	if len(raw) > wireBytesMax {
		return nil, "", fmt.Errorf("transaction has %d bytes, more than a packet", len(raw))
	}
	c := &cursor{b: raw}
	var signatures [][signatureBytes]byte
	for range c.takeCount() {
		if signatures = append(signatures, [signatureBytes]byte(c.takeBytes(signatureBytes))); c.err != nil {
			break
		}
	}
	if c.err != nil {
		return nil, "", c.err
	}
	if len(signatures) == 0 {
		return nil, "", errors.New("transaction is not signed")
	}
	_, hash, err = AttachSignatures(c.b, signatures...)
	return c.b, hash, err
}

// DecodeSigned decodes signed bytes of a payment and their hash. It is as strict as Decode and
// verifies every signature.
func DecodeSigned(raw []byte) (Tx, chain.TxHash, error) {
	payload, hash, err := VerifySigned(raw)
	if err != nil {
		return Tx{}, "", err
	}
	t, err := Decode(payload)
	return t, hash, err
}

// IsSignedBy reports whether an account's key has signed a transaction. The signature itself proves
// it, for every form and version of a transaction and every source of the bytes.
func IsSignedBy(raw []byte, account chain.Address) (chain.TxHash, bool, error) {
	key, err := Bytes(account)
	if err != nil {
		return "", false, err
	}
	s, err := readSigned(raw)
	if err != nil {
		return "", false, err
	}
	i := slices.Index(s.keys, key)
	if i < 0 || i >= len(s.signatures) {
		return s.id(), false, nil
	}
	return s.id(), ed25519.Verify(key[:], s.message, s.signatures[i][:]), nil
}

// SlotKeyOf returns the key of the slot that signed bytes of Coffer take, and "" for all others.
func SlotKeyOf(raw []byte) string {
	payload, _, err := VerifySigned(raw)
	if err != nil {
		return ""
	}
	if t, err := Decode(payload); err == nil {
		return t.SlotKey()
	}
	if c, err := DecodeNonceCreation(payload); err == nil {
		return c.SlotKey()
	}
	return ""
}

func hashFrom(first [signatureBytes]byte) chain.TxHash { return chain.TxHash(base58.Encode(first[:])) }
