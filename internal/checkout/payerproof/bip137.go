package payerproof

import (
	"bytes"
	"encoding/base64"
	"math/big"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"
	"github.com/ethereum/go-ethereum/crypto"
)

// The first byte of a compact signature says how the key is found and of which kind the address is (BIP-137).
const (
	plainKeyHeader      = 27 // a key of 65 bytes, whose hash is paid
	compressedKeyHeader = 31 // a key of 33 bytes
	nestedKeyHeader     = 35 // one whose SegWit script is paid by its hash
	segwitKeyHeader     = 39 // one whose hash is paid by SegWit
	headersOfKind       = 4

	compactBytes = 65
)

const (
	oldKeyHashScriptBytes    = 25
	scriptHashScriptBytes    = 23
	oldKeyHashAt, oldKeyEnds = 3, 23
	scriptHashAt, scriptEnds = 2, 22
)

// isOldKeyHash reports whether a script pays the hash of a key without SegWit.
func isOldKeyHash(script []byte) bool {
	return len(script) == oldKeyHashScriptBytes && script[0] == txscript.OP_DUP && script[1] == txscript.OP_HASH160 &&
		script[2] == txscript.OP_DATA_20 && script[23] == txscript.OP_EQUALVERIFY && script[24] == txscript.OP_CHECKSIG
}

// isScriptHash reports whether a script pays the hash of another script.
func isScriptHash(script []byte) bool {
	return len(script) == scriptHashScriptBytes && script[0] == txscript.OP_HASH160 &&
		script[1] == txscript.OP_DATA_20 && script[22] == txscript.OP_EQUAL
}

// oldMessagePrefix begins every text that wallets sign in this form.
const oldMessagePrefix = "Bitcoin Signed Message:\n"

// hashOldMessage returns the hash that wallets sign for a text in this form.
func hashOldMessage(text string) []byte {
	var b bytes.Buffer
	for _, part := range []string{oldMessagePrefix, text} {
		if err := wire.WriteVarString(&b, 0, part); err != nil {
			panic("payerproof: " + err.Error()) // Memory takes every write.
		}
	}
	return chainhash.DoubleHashB(b.Bytes())
}

// isSignedByOldBitcoin checks a compact signature (BIP-137). Many wallets write the first byte of a compressed key for
// every kind of address, so this byte is accepted for SegWit as well; that of another kind is not. Of the two forms of
// a signature only the one with the small s counts. Rule CO-143.
func isSignedByOldBitcoin(script []byte, text, signature string) bool {
	raw, err := base64.StdEncoding.Strict().DecodeString(signature)
	if err != nil || len(raw) != compactBytes || new(big.Int).SetBytes(raw[1+scalarAt:]).Cmp(halfOrder) > 0 {
		return false
	}
	header := raw[0]
	if header < plainKeyHeader || header >= segwitKeyHeader+headersOfKind {
		return false
	}
	kind := header - (header-plainKeyHeader)%headersOfKind
	// Both chains have one curve.
	key, err := crypto.Ecrecover(hashOldMessage(text), append(bytes.Clone(raw[1:]), header-kind))
	return err == nil && isPaidTo(script, kind, key)
}

// isPaidTo reports whether a script pays a key of 65 bytes in the way of a header.
func isPaidTo(script []byte, kind byte, key []byte) bool {
	if kind == plainKeyHeader {
		return isOldKeyHash(script) &&
			bytes.Equal(script[oldKeyHashAt:oldKeyEnds], address.Hash160(key))
	}
	// The short form has the first coordinate, and of the second one whether it is odd.
	hash := address.Hash160(append([]byte{2 + key[len(key)-1]&1}, key[1:1+scalarAt]...))
	segwit := append([]byte{txscript.OP_0, txscript.OP_DATA_20}, hash...)
	switch {
	case isOldKeyHash(script):
		return kind == compressedKeyHeader && bytes.Equal(script[oldKeyHashAt:oldKeyEnds], hash)
	case isScriptHash(script):
		return (kind == compressedKeyHeader || kind == nestedKeyHeader) &&
			bytes.Equal(script[scriptHashAt:scriptEnds], address.Hash160(segwit))
	case isKeyHash(script):
		return (kind == compressedKeyHeader || kind == segwitKeyHeader) && bytes.Equal(script, segwit)
	}
	return false
}
