package trontx

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"

	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
)

const (
	signedRaw, signedSignature = 1, 2

	signatureBytes = crypto.SignatureLength
)

// Digest returns the hash of the payload, which the signature covers.
func Digest(payload []byte) [32]byte { return sha256.Sum256(payload) }

// HashOf returns the identifier of the transaction with this payload. The identifier does not cover
// the signature, so a payment has the same one however it is signed.
func HashOf(payload []byte) chain.TxHash {
	sum := Digest(payload)
	return chain.TxHash(hex.EncodeToString(sum[:]))
}

func encodeSigned(payload, signature []byte) []byte {
	return addBytes(addBytes(nil, signedRaw, payload), signedSignature, signature)
}

// AttachSignature adds a signature (r, s, and 0 or 1, 65 bytes) to a payload of Coffer. It returns
// the bytes to send and the transaction's identifier. A signature that is not the owner's over
// exactly these bytes is an error.
func AttachSignature(payload, signature []byte) (raw []byte, hash chain.TxHash, err error) {
	t, err := Decode(payload)
	if err != nil {
		return nil, "", err
	}
	signer, err := recoverSigner(payload, signature)
	if err != nil {
		return nil, "", err
	}
	if signer != t.Owner {
		return nil, "", fmt.Errorf("the signature is by %s, not by %s", signer, t.Owner)
	}
	return encodeSigned(payload, signature), HashOf(payload), nil
}

// DecodeSigned decodes the signed bytes of a transaction of Coffer. It is as strict as Decode.
func DecodeSigned(raw []byte) (t Tx, hash chain.TxHash, err error) {
	if len(raw) > payloadMax+2*signatureBytes {
		return Tx{}, "", fmt.Errorf("a transaction of %d bytes is not one that the service makes", len(raw))
	}
	m, err := parseFields(raw)
	if err != nil {
		return Tx{}, "", err
	}
	payload, signature := m.bytes[signedRaw], m.bytes[signedSignature]
	if t, err = Decode(payload); err != nil {
		return Tx{}, "", err
	}
	encoded, hash, err := AttachSignature(payload, signature)
	if err != nil {
		return Tx{}, "", err
	}
	if !bytes.Equal(encoded, raw) {
		return Tx{}, "", errors.New("the transaction has more content than the service makes, or another encoding")
	}
	return t, hash, nil
}

func recoverSigner(payload, signature []byte) (chain.Address, error) {
	if len(signature) != signatureBytes {
		return "", fmt.Errorf("the signature has %d bytes, not %d", len(signature), signatureBytes)
	}
	r, s := new(uint256.Int).SetBytes(signature[:32]), new(uint256.Int).SetBytes(signature[32:64])
	// The upper half of s is refused: Coffer's signer never produces it.
	if !crypto.ValidateSignatureValues(signature[64], r.ToBig(), s.ToBig(), true) {
		return "", errors.New("the signature is out of range")
	}
	digest := Digest(payload)
	key, err := crypto.Ecrecover(digest[:], signature)
	if err != nil {
		return "", fmt.Errorf("recover who signed: %w", err)
	}
	return KeyAddress([publicBytes]byte(key)), nil
}

// ParsedTx is any transaction of a block: the slot that it takes and the TRX that it moves, as far
// as its own bytes say.
type ParsedTx struct {
	Hash chain.TxHash
	// Owner pays the fee of a transfer or a call. It is "" for any other kind, which moves nothing
	// that Coffer looks for.
	Owner   chain.Address
	SlotKey string // of a transfer or call that refers to a block as Coffer's do, else ""
	// To and NativeAmount are the TRX that a transfer moves or that a call sends along.
	// NativeAmount is zero if it moves none.
	To           chain.Address
	NativeAmount uint64
}

// ParseTx reads the raw data of any transaction. An unknown kind is no error. Error: the data is no
// transaction.
func ParseTx(payload []byte) (ParsedTx, error) {
	s := ParsedTx{Hash: HashOf(payload)}
	raw, err := parseFields(payload)
	if err != nil {
		return s, err
	}
	contract, err := parseFields(raw.bytes[rawContract])
	if err != nil {
		return s, err
	}
	kind := contract.ints[contractType]
	if kind != kindTransfer && kind != kindTrigger {
		return s, nil
	}
	parameter, err := parseFields(contract.bytes[contractParameter])
	if err != nil {
		return s, err
	}
	value, err := parseFields(parameter.bytes[anyValue])
	if err != nil {
		return s, err
	}
	if s.Owner, err = FromBytes(value.bytes[transferOwner]); err != nil {
		return s, fmt.Errorf("owner: %w", err)
	}
	s.NativeAmount = value.ints[transferAmount] // for a call: what it sends along, in a field with the same number
	if s.To, err = FromBytes(value.bytes[transferTo]); err != nil {
		return s, fmt.Errorf("receiver: %w", err)
	}
	if s.NativeAmount > math.MaxInt64 {
		return s, errors.New("it moves a negative amount")
	}
	ref, hash := raw.bytes[rawRef], raw.bytes[rawRefHash]
	if len(ref) == refBytes && len(hash) == refHashBytes {
		s.SlotKey = SlotRef{
			Owner: s.Owner, RefBlockBytes: [refBytes]byte(ref), RefBlockHash: [refHashBytes]byte(hash),
			Timestamp: int64(raw.ints[rawTimestamp]), Expiration: int64(raw.ints[rawExpiration]),
		}.SlotKey()
	}
	return s, nil
}
