package bitcointx

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
)

// SigningInput is what the key of one input signs.
type SigningInput struct {
	Owner   chain.Address
	Taproot bool // a Schnorr signature of 64 bytes, else one of ECDSA of 65: r, s, and 0 or 1
	Hash    [32]byte
}

// SigningInputs returns what the keys of a payload's inputs sign, in their order: by BIP-143 for
// native SegWit, by BIP-341 for taproot. Every signature covers the whole transaction.
func SigningInputs(payload []byte) ([]SigningInput, error) {
	t, err := Decode(payload)
	if err != nil {
		return nil, err
	}
	_, inputs, err := t.signingInputs()
	return inputs, err
}

func (t Tx) signingInputs() (*wire.MsgTx, []SigningInput, error) {
	tx, spent, err := t.Unsigned()
	if err != nil {
		return nil, nil, err
	}
	hashes, err := inputDigests(tx, spent)
	if err != nil {
		return nil, nil, err
	}
	inputs := make([]SigningInput, len(hashes))
	for i, h := range hashes {
		inputs[i] = SigningInput{t.SlotKey.Inputs[i].Owner, txscript.IsPayToTaproot(spent[i].PkScript), h}
	}
	return tx, inputs, nil
}

// inputDigests returns the digest for each input that spends native SegWit of a key or a taproot
// key; zero for any other.
func inputDigests(tx *wire.MsgTx, spent []wire.TxOut) ([][32]byte, error) {
	prevOuts := txscript.NewMultiPrevOutFetcher(nil)
	for i, input := range tx.TxIn {
		prevOuts.AddPrevOut(input.PreviousOutPoint, &spent[i])
	}
	cache := txscript.NewTxSigHashes(tx, prevOuts)
	out := make([][32]byte, len(spent))
	for i, o := range spent {
		var hash []byte
		var err error
		switch d, _ := parseScript(o.PkScript); {
		case d.form == p2tr:
			hash, err = txscript.CalcTaprootSignatureHash(cache, txscript.SigHashDefault, tx, i, prevOuts)
		case d.form == p2wpkh:
			hash, err = txscript.CalcWitnessSigHash(o.PkScript, cache, txscript.SigHashAll, tx, i, o.Value)
		default:
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("what is signed for input %d: %w", i, err)
		}
		copy(out[i][:], hash)
	}
	return out, nil
}

// compactHead is what the library adds to the last byte of a signature, for a compressed key.
const compactHead = 27 + 4

// AttachSignatures adds signatures to a payload, in the order of SigningInputs, and returns the
// bytes to broadcast and their hash, which no signature changes. A signature that is not by the
// owner's own key over these very bytes is an error, so a mixed-up key is found here and not by the
// network.
func AttachSignatures(payload []byte, signatures ...[]byte) (raw []byte, hash chain.TxHash, err error) {
	t, err := Decode(payload)
	if err != nil {
		return nil, "", err
	}
	tx, spends, err := t.signingInputs()
	if err != nil {
		return nil, "", err
	}
	if len(signatures) != len(spends) {
		return nil, "", fmt.Errorf("transaction has %d signatures, not %d", len(signatures), len(spends))
	}
	for i, s := range spends {
		witness, err := s.buildWitness(t.Network, signatures[i])
		if err != nil {
			return nil, "", fmt.Errorf("signature %d: %w", i, err)
		}
		tx.TxIn[i].Witness = witness
	}
	var b bytes.Buffer
	if err := tx.Serialize(&b); err != nil {
		return nil, "", fmt.Errorf("encode transaction: %w", err)
	}
	return b.Bytes(), chain.TxHash(tx.TxHash().String()), nil
}

// buildWitness returns the witness that the network requires for a signature.
func (s SigningInput) buildWitness(n chain.Network, signature []byte) (wire.TxWitness, error) {
	d, err := destinationOf(n, s.Owner)
	if err != nil {
		return nil, err
	}
	if s.Taproot {
		key, err := schnorr.ParsePubKey(d.hash)
		if err != nil {
			return nil, fmt.Errorf("%s has no key: %w", s.Owner, err)
		}
		parsed, err := schnorr.ParseSignature(signature)
		if err != nil || !parsed.Verify(s.Hash[:], key) {
			return nil, fmt.Errorf("it is not by %s", s.Owner)
		}
		return wire.TxWitness{signature}, nil
	}
	if len(signature) != 65 || signature[64] > 1 {
		return nil, errors.New("it is not r, s and 0 or 1")
	}
	key, _, err := ecdsa.RecoverCompact(append([]byte{compactHead + signature[64]}, signature[:64]...), s.Hash[:])
	if err != nil {
		return nil, fmt.Errorf("recover the signer: %w", err)
	}
	public := key.SerializeCompressed()
	if !bytes.Equal(address.Hash160(public), d.hash) {
		return nil, fmt.Errorf("it is not by %s", s.Owner)
	}
	var r, low btcec.ModNScalar
	if r.SetByteSlice(signature[:32]) || low.SetByteSlice(signature[32:64]) || low.IsOverHalfOrder() {
		return nil, errors.New("it is out of range")
	}
	der := append(ecdsa.NewSignature(&r, &low).Serialize(), byte(txscript.SigHashAll))
	return wire.TxWitness{der, public}, nil
}

// signedBytesMax is above the size of any of Coffer's transactions with signatures.
const signedBytesMax = weightMax

// HashOf returns the hash of signed bytes. Error: they are no transaction, or one that is not
// signed.
func HashOf(raw []byte) (chain.TxHash, error) {
	if len(raw) > signedBytesMax {
		return "", fmt.Errorf("transaction has %d bytes, more than the service makes", len(raw))
	}
	tx := new(wire.MsgTx)
	body := bytes.NewReader(raw)
	if err := tx.Deserialize(body); err != nil {
		return "", fmt.Errorf("decode transaction: %w", err)
	}
	if body.Len() > 0 {
		return "", fmt.Errorf("%d bytes follow the transaction", body.Len())
	}
	for _, input := range tx.TxIn {
		if len(input.Witness) == 0 {
			return "", errors.New("transaction is not signed")
		}
	}
	return chain.TxHash(tx.TxHash().String()), nil
}
