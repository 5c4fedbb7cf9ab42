// Package bitcointx encodes and decodes the parts of Bitcoin transactions that Coffer needs:
// addresses and their scripts, the addresses of keys, dust limits, and Coffer's transactions (Tx)
// with their slots (SlotKey). The adapter reads blocks and builds transactions with it. The signer
// derives wallet addresses with it and decodes what it is asked to sign.
//
// It is pure: no network, no key, no clock. It knows one form of transaction, which spends outputs
// of native SegWit or taproot keys and pays payees in order and then the change. Everything else is
// an error. An unknown script has no address, and an unknown form of address is refused: any person
// could take a payment to a witness version that is not in use yet. The same input gives the same
// output, so a crash leaves nothing to remember.
package bitcointx

import (
	"bytes"
	"fmt"

	"github.com/btcsuite/btcd/address/v2"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// KeyBytes is the length of a compressed public key, the only form that SegWit accepts.
const KeyBytes = 33

// Params returns the constants of a network. Every test network of Bitcoin has the prefixes of the
// first. Error: an unknown network.
func Params(n chain.Network) (*chaincfg.Params, error) {
	switch n {
	case chain.Mainnet:
		return &chaincfg.MainNetParams, nil
	case chain.Testnet:
		return &chaincfg.TestNet3Params, nil
	case chain.Local:
		return &chaincfg.RegressionNetParams, nil
	}
	return nil, fmt.Errorf("%q is not a network of Bitcoin", n)
}

// CoinType returns Bitcoin's coin type in key paths (SLIP-44): 0 on the main network and 1 on all
// others, so that no test reveals the key of an address with money.
func CoinType(n chain.Network) uint32 {
	if n == chain.Mainnet {
		return 0
	}
	return 1
}

// form says how an output defines who may spend it.
type form int

// The forms that have an address.
const (
	p2pkh  form = iota // the hash of a key
	p2sh               // the hash of a script
	p2wpkh             // SegWit: the hash of a key
	p2wsh              // SegWit: the hash of a script
	p2tr               // taproot: a key
)

const (
	hashBytes    = 20
	programBytes = 32
)

// destination is what an address contains apart from its network.
type destination struct {
	form form
	hash []byte // 20 bytes, or 32 for P2WSH and P2TR
}

// parseScript decodes the script of an output. ok is false for a script without an address.
func parseScript(script []byte) (destination, bool) {
	switch n := len(script); {
	case n == 25 && script[0] == txscript.OP_DUP && script[1] == txscript.OP_HASH160 &&
		script[2] == txscript.OP_DATA_20 &&
		script[23] == txscript.OP_EQUALVERIFY && script[24] == txscript.OP_CHECKSIG:
		return destination{p2pkh, script[3:23]}, true
	case n == 23 && script[0] == txscript.OP_HASH160 && script[1] == txscript.OP_DATA_20 &&
		script[22] == txscript.OP_EQUAL:
		return destination{p2sh, script[2:22]}, true
	case n == 22 && script[0] == txscript.OP_0 && script[1] == txscript.OP_DATA_20:
		return destination{p2wpkh, script[2:]}, true
	case n == 34 && script[0] == txscript.OP_0 && script[1] == txscript.OP_DATA_32:
		return destination{p2wsh, script[2:]}, true
	case n == 34 && script[0] == txscript.OP_1 && script[1] == txscript.OP_DATA_32:
		return destination{p2tr, script[2:]}, true
	}
	return destination{}, false
}

// toScript returns the script of an output that pays to a destination.
func (d destination) toScript() []byte {
	switch d.form {
	case p2pkh:
		return append(append([]byte{txscript.OP_DUP, txscript.OP_HASH160, txscript.OP_DATA_20}, d.hash...),
			txscript.OP_EQUALVERIFY, txscript.OP_CHECKSIG)
	case p2sh:
		return append(append([]byte{txscript.OP_HASH160, txscript.OP_DATA_20}, d.hash...), txscript.OP_EQUAL)
	case p2wpkh:
		return append([]byte{txscript.OP_0, txscript.OP_DATA_20}, d.hash...)
	case p2wsh:
		return append([]byte{txscript.OP_0, txscript.OP_DATA_32}, d.hash...)
	case p2tr:
		return append([]byte{txscript.OP_1, txscript.OP_DATA_32}, d.hash...)
	}
	panic("bitcointx: a form of output without a script")
}

// toAddress encodes a destination as an address of a network.
func (d destination) toAddress(p *chaincfg.Params) chain.Address {
	switch d.form {
	case p2pkh:
		return encodeBase58Check(p.PubKeyHashAddrID, [hashBytes]byte(d.hash))
	case p2sh:
		return encodeBase58Check(p.ScriptHashAddrID, [hashBytes]byte(d.hash))
	case p2wpkh, p2wsh:
		return encodeSegwit(p.Bech32HRPSegwit, 0, d.hash)
	case p2tr:
		return encodeSegwit(p.Bech32HRPSegwit, 1, d.hash)
	}
	panic("bitcointx: a form of output without an address")
}

// AddressOf returns the address that the script of an output pays to, in canonical form. ok is
// false if there is none: data, bare keys and multisignatures, unknown witness versions.
func AddressOf(p *chaincfg.Params, script []byte) (a chain.Address, ok bool) {
	d, ok := parseScript(script)
	if !ok {
		return "", false
	}
	return d.toAddress(p), true
}

// Script returns the script of an output that pays to an address. Error: the address is not one of
// this network in its canonical form, so it was not returned by Parse.
func Script(n chain.Network, a chain.Address) ([]byte, error) {
	d, err := destinationOf(n, a)
	if err != nil {
		return nil, err
	}
	return d.toScript(), nil
}

// destinationOf decodes an address of a network in its canonical form.
func destinationOf(n chain.Network, a chain.Address) (destination, error) {
	p, err := Params(n)
	if err != nil {
		return destination{}, err
	}
	d, err := parseDestination(p, string(a))
	if err != nil {
		return destination{}, fmt.Errorf("address %.100q: %w", string(a), err)
	}
	if canonical := d.toAddress(p); canonical != a {
		return destination{}, fmt.Errorf("address %.100q is not in its canonical form %s", string(a), canonical)
	}
	return d, nil
}

// KeyAddress returns the native SegWit address of a compressed public key (P2WPKH, BIP-84).
func KeyAddress(p *chaincfg.Params, key [KeyBytes]byte) chain.Address {
	return destination{p2wpkh, address.Hash160(key[:])}.toAddress(p)
}

// TaprootAddress returns the address from which this key alone can spend (P2TR without scripts,
// BIP-86). Error: these bytes are no key.
func TaprootAddress(p *chaincfg.Params, key [KeyBytes]byte) (chain.Address, error) {
	public, err := btcec.ParsePubKey(key[:])
	if err != nil {
		return "", fmt.Errorf("the public key of a taproot address: %w", err)
	}
	return destination{p2tr, schnorr.SerializePubKey(txscript.ComputeTaprootKeyNoScript(public))}.toAddress(p), nil
}

const (
	dustRate     = 3   // satoshi per byte at which nodes judge what is worth spending
	spendBytes   = 148 // of an input that spends an output to the hash of a key
	spendWitness = 67  // the same with SegWit, whose witness counts a quarter
	valueBytes   = 8   // what an output has in addition to its script and the script's length
)

// Dust returns the least that an output with this script must hold for nodes to relay its
// transaction, in satoshi. It is the default rule of Bitcoin Core: below it, spending the output
// costs more than a third of its value.
func Dust(script []byte) money.Amount {
	if len(script) > 0 && script[0] == txscript.OP_RETURN {
		return money.Zero
	}
	length := 1
	if len(script) > 0xfc {
		length = 3
	}
	spend := spendBytes
	if txscript.IsWitnessProgram(script) {
		spend = spendWitness
	}
	return money.Units(uint64(dustRate * (valueBytes + length + len(script) + spend)))
}

// isUnspendable reports whether a destination has no known key.
func (d destination) isUnspendable() bool {
	isUniform := true
	for _, b := range d.hash {
		isUniform = isUniform && b == d.hash[0]
	}
	switch {
	case isUniform && (d.hash[0] == 0 || d.hash[0] == 0xff):
		return true
	case d.form == p2tr:
		// Half of all 32-byte values are no point of the curve, and no key signs for those.
		_, err := schnorr.ParsePubKey(d.hash)
		return err != nil || bytes.Equal(d.hash, unspendablePoint)
	case d.form == p2pkh || d.form == p2sh || d.form == p2wpkh:
		return unspendableHashes[[hashBytes]byte(d.hash)]
	}
	return false
}

// unspendablePoint is the point H of BIP-341, which was made without a known key.
var unspendablePoint = []byte{
	0x50, 0x92, 0x9b, 0x74, 0xc1, 0xa0, 0x49, 0x54, 0xb7, 0x8b, 0x4b, 0x60, 0x35, 0xe9, 0x7a, 0x5e,
	0x07, 0x8a, 0x5a, 0x0f, 0x28, 0xec, 0x96, 0xd5, 0x47, 0xbf, 0xee, 0x9a, 0xce, 0x80, 0x3a, 0xc0,
}

// unspendableHashes are the hashes of addresses that were written as words, so that no known key
// gives them.
var unspendableHashes = func() map[[hashBytes]byte]bool {
	all := map[[hashBytes]byte]bool{}
	for _, a := range []string{
		"1BitcoinEaterAddressDontSendf59kuE",
		"1CounterpartyXXXXXXXXXXXXXXXUWLpVr",
	} {
		d, err := parseDestination(&chaincfg.MainNetParams, a)
		if err != nil {
			panic("bitcointx: burn address " + a + ": " + err.Error())
		}
		all[[hashBytes]byte(d.hash)] = true
	}
	return all
}()
