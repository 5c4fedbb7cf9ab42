package evmtx

import (
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
)

// AttachSignature adds a signature (r, s, and 0 or 1, 65 bytes) to a payload and returns the bytes
// to broadcast and their hash. A signature that is not from's over these very bytes is an error, so
// a mixed-up key is found here and not by the network.
func AttachSignature(payload, signature []byte, from chain.Address) (raw []byte, hash chain.TxHash, err error) {
	if _, err := Decode(payload); err != nil {
		return nil, "", err
	}
	if len(signature) != crypto.SignatureLength {
		return nil, "", fmt.Errorf("signature has %d bytes, not %d", len(signature), crypto.SignatureLength)
	}
	signer, err := recoverSigner(payload, signature)
	if err != nil {
		return nil, "", err
	}
	if signer != from {
		return nil, "", fmt.Errorf("signature is by %s, not by %s", signer, from)
	}
	var f txFields
	if err := decodeTyped(payload, &f); err != nil {
		return nil, "", err
	}
	r, s := new(uint256.Int).SetBytes(signature[:32]), new(uint256.Int).SetBytes(signature[32:64])
	raw, err = encodeTyped(f.withSignature(uint64(signature[64]), r, s))
	if err != nil {
		return nil, "", err
	}
	return raw, HashOf(raw), nil
}

// DecodeSigned decodes signed bytes: the transaction, its signer, and its hash. It is as strict as
// Decode.
func DecodeSigned(raw []byte) (t Tx, from chain.Address, hash chain.TxHash, err error) {
	var f signedTxFields
	if err := decodeTyped(raw, &f); err != nil {
		return Tx{}, "", "", err
	}
	if f.YParity > 1 {
		return Tx{}, "", "", errors.New("parity of the signature is neither 0 nor 1")
	}
	payload, err := encodeTyped(f.withoutSignature())
	if err != nil {
		return Tx{}, "", "", err
	}
	if t, err = Decode(payload); err != nil {
		return Tx{}, "", "", err
	}
	r, s := f.R.Bytes32(), f.S.Bytes32()
	signature := append(append(r[:], s[:]...), byte(f.YParity))
	if from, err = recoverSigner(payload, signature); err != nil {
		return Tx{}, "", "", err
	}
	return t, from, HashOf(raw), nil
}

func recoverSigner(payload, signature []byte) (chain.Address, error) {
	r, s := new(uint256.Int).SetBytes(signature[:32]), new(uint256.Int).SetBytes(signature[32:64])
	// The upper half of s is refused: with it the same payment has another hash.
	if !crypto.ValidateSignatureValues(signature[64], r.ToBig(), s.ToBig(), true) {
		return "", errors.New("signature is out of range")
	}
	digest := Digest(payload)
	key, err := crypto.SigToPub(digest[:], signature)
	if err != nil {
		return "", fmt.Errorf("recover the signer: %w", err)
	}
	return Canonical(crypto.PubkeyToAddress(*key)), nil
}
