package bitcointx

import (
	"crypto/sha256"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
)

// SpenderOf is the address of the output that an input spends, as far as the input
// itself tells: it shows the key or the script whose hash is in the address. told is
// false where only the output can tell: a taproot key spends with a bare signature, and
// what has an unusual form might be anything.
//
// Whoever gets a miner to take a transaction that no node passes on can make a spend of
// his own look like one of somebody else's key here (a taproot leaf of an unknown
// version). He gains being taken for another sender and loses what is sent back.
func SpenderOf(p *chaincfg.Params, in *wire.TxIn) (a chain.Address, told bool) {
	w := in.Witness
	switch {
	case len(w) == 0:
		return legacySpender(p, in.SignatureScript)
	case len(in.SignatureScript) > 0:
		// SegWit inside P2SH: exactly one push, and it is the script (BIP-141).
		if redeem := pushes(in.SignatureScript); len(redeem) == 1 {
			return destination{p2sh, address.Hash160(redeem[0])}.address(p), true
		}
		return "", false
	case len(w) == 1:
		return "", false
	}
	last := w[len(w)-1]
	switch {
	case len(w) == 2 && isSignature(w[0]) && len(last) == KeyBytes && isKey(last):
		return destination{p2wpkh, address.Hash160(last)}.address(p), true
	case isControl(last):
		return leafSpender(p, w[len(w)-2], last)
	case len(last) > 0 && last[0] != annexTag && !(len(last) >= KeyBytes && (len(last)-KeyBytes)%programBytes == 0):
		sum := sha256.Sum256(last)
		return destination{p2wsh, sum[:]}.address(p), true
	}
	return "", false
}

// annexTag begins the last item of a taproot witness that is neither script nor proof.
const annexTag = 0x50

// legacySpender reads the script of an input from before SegWit.
func legacySpender(p *chaincfg.Params, script []byte) (chain.Address, bool) {
	pushed := pushes(script)
	if len(pushed) < 2 {
		return "", false
	}
	last := pushed[len(pushed)-1]
	switch {
	case len(pushed) == 2 && isSignature(pushed[0]) && isKey(last):
		return destination{p2pkh, address.Hash160(last)}.address(p), true
	case len(last) > 1 && !isSignature(last) && !isKey(last):
		return destination{p2sh, address.Hash160(last)}.address(p), true
	}
	return "", false
}

// leafSpender is the taproot address that a script and its proof lead to.
func leafSpender(p *chaincfg.Params, script, proof []byte) (chain.Address, bool) {
	control, err := txscript.ParseControlBlock(proof)
	if err != nil {
		return "", false
	}
	key := txscript.ComputeTaprootOutputKey(control.InternalKey, control.RootHash(script))
	return destination{p2tr, schnorr.SerializePubKey(key)}.address(p), true
}

// pushes are what a script pushes, or nothing when it does anything else.
func pushes(script []byte) [][]byte {
	var all [][]byte
	t := txscript.MakeScriptTokenizer(0, script)
	for t.Next() {
		if t.Opcode() > txscript.OP_PUSHDATA4 {
			return nil
		}
		all = append(all, t.Data())
	}
	if t.Err() != nil {
		return nil
	}
	return all
}

// isSignature tells whether bytes have the form of an ECDSA signature with its type.
func isSignature(b []byte) bool {
	return len(b) >= 9 && len(b) <= 73 && b[0] == 0x30 && int(b[1]) == len(b)-3
}

// isKey tells whether bytes have the form of a public key.
func isKey(b []byte) bool {
	return len(b) == KeyBytes && (b[0] == 2 || b[0] == 3) || len(b) == 65 && b[0] == 4
}

// isControl tells whether bytes have the form of the proof of a taproot script of the
// only version that is in use.
func isControl(b []byte) bool {
	return len(b) >= txscript.ControlBlockBaseSize && len(b) <= txscript.ControlBlockMaxSize &&
		(len(b)-txscript.ControlBlockBaseSize)%txscript.ControlBlockNodeSize == 0 &&
		b[0]&txscript.TaprootLeafMask == byte(txscript.BaseLeafVersion)
}
