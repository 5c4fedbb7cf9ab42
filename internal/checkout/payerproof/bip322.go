package payerproof

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"

	"github.com/btcsuite/btcd/chainhash/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
)

const (
	messageTag   = "BIP0322-signed-message"
	simplePrefix = "smp" // that newer wallets write before a simple signature

	keyHashScriptBytes = 22
	taprootScriptBytes = 34
	schnorrBytes       = 64
	witnessItemsMax    = 2
	witnessItemMax     = 80 // bytes: a signature of ECDSA with its hash type is the longest item
)

// isKeyHash reports whether a script pays the hash of a key by SegWit.
func isKeyHash(script []byte) bool {
	return len(script) == keyHashScriptBytes && script[0] == txscript.OP_0 && script[1] == txscript.OP_DATA_20
}

// isTaproot reports whether a script pays a key by taproot.
func isTaproot(script []byte) bool {
	return len(script) == taprootScriptBytes && script[0] == txscript.OP_1 && script[1] == txscript.OP_DATA_32
}

// isSignedByBitcoin checks a signature in one of the forms that wallets know for the kind of an address.
func isSignedByBitcoin(network chain.Network, address chain.Address, text, signature string) bool {
	script, err := bitcointx.Script(network, address)
	if err != nil {
		return false
	}
	if !isTaproot(script) && isSignedByOldBitcoin(script, text, signature) {
		return true
	}
	return (isKeyHash(script) || isTaproot(script)) && isSignedBySegwit(script, text, signature)
}

// isSignedBySegwit checks a simple signature of BIP-322: the witness with which the script would spend a transaction
// that has the text in it.
func isSignedBySegwit(script []byte, text, signature string) bool {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(signature, simplePrefix))
	if err != nil {
		return false
	}
	witness, ok := readWitness(raw)
	if !ok || !hasPlainForm(script, witness) {
		return false
	}
	spent, signed := virtualTransactions(script, text)
	signed.TxIn[0].Witness = witness
	outputs := txscript.NewCannedPrevOutputFetcher(script, spent.TxOut[0].Value)
	engine, err := txscript.NewEngine(script, signed, 0, txscript.StandardVerifyFlags, nil,
		txscript.NewTxSigHashes(signed, outputs), spent.TxOut[0].Value, outputs)
	return err == nil && engine.Execute() == nil
}

// hasPlainForm reports whether a witness is that of one key which signs all of the transaction.
func hasPlainForm(script []byte, witness wire.TxWitness) bool {
	if isTaproot(script) {
		return len(witness) == 1 && (len(witness[0]) == schnorrBytes ||
			len(witness[0]) == schnorrBytes+1 && witness[0][schnorrBytes] == byte(txscript.SigHashAll))
	}
	return len(witness) == witnessItemsMax && len(witness[0]) > 0 &&
		witness[0][len(witness[0])-1] == byte(txscript.SigHashAll)
}

// readWitness reads the items of a witness. It takes every byte, so a signature has one text.
func readWitness(raw []byte) (witness wire.TxWitness, ok bool) {
	if len(raw) == 0 || raw[0] == 0 || raw[0] > witnessItemsMax {
		return nil, false
	}
	rest := raw[1:]
	for range raw[0] {
		if len(rest) == 0 || rest[0] > witnessItemMax || len(rest) <= int(rest[0]) {
			return nil, false
		}
		end := 1 + int(rest[0])
		witness = append(witness, bytes.Clone(rest[1:end]))
		rest = rest[end:]
	}
	return witness, len(rest) == 0
}

// virtualTransactions returns the two transactions of BIP-322, which no network accepts: one that pays nothing to the
// script and has the text in it, and one that spends it.
func virtualTransactions(script []byte, text string) (spent, signed *wire.MsgTx) {
	spent = wire.NewMsgTx(0)
	digest := hashMessage(text)
	spent.AddTxIn(&wire.TxIn{
		PreviousOutPoint: wire.OutPoint{Index: 0xffffffff},
		SignatureScript:  append([]byte{txscript.OP_0, txscript.OP_DATA_32}, digest[:]...),
	})
	spent.AddTxOut(&wire.TxOut{PkScript: script})
	signed = wire.NewMsgTx(0)
	signed.AddTxIn(&wire.TxIn{PreviousOutPoint: wire.OutPoint{Hash: spent.TxHash()}})
	signed.AddTxOut(&wire.TxOut{PkScript: []byte{txscript.OP_RETURN}})
	return spent, signed
}

// hashMessage returns the tagged hash of a text.
func hashMessage(text string) chainhash.Hash {
	tag := sha256.Sum256([]byte(messageTag))
	h := sha256.New()
	h.Write(tag[:])
	h.Write(tag[:])
	h.Write([]byte(text))
	return chainhash.Hash(h.Sum(nil))
}
