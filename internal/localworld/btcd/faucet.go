package btcd

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/btcsuite/btcd/address/v2/base58"
	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/chaincfg/v2"
	"github.com/btcsuite/btcd/txscript/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
)

// FaucetKey is the private key, in hex, of the native SegWit address that every block of the local
// chain pays.
const FaucetKey = "c0ffe2c0ffe2c0ffe2c0ffe2c0ffe2c0ffe2c0ffe2c0ffe2c0ffe2c0ffe2c0ff"

const (
	// Every payment offers a slightly lower fee than the one before, so that a block contains them
	// in this order. All fees are above what nodes demand.
	feeFirst = 100_000
	feeStep  = 10
	feeLast  = 2_000
	// feeBack is the fee of a transaction that returns an output of a payment to the faucet: more
	// than any of those.
	feeBack = 500_000

	// replaceable says in an input that another transaction that spends it may replace this one.
	replaceable = wire.MaxTxInSequenceNum - 2
)

func faucetKey() *btcec.PrivateKey {
	b, err := hex.DecodeString(FaucetKey)
	if err != nil {
		panic("the faucet's key is not a key: " + err.Error())
	}
	key, _ := btcec.PrivKeyFromBytes(b)
	return key
}

// FaucetWIF returns the faucet's key as wallets import it.
func FaucetWIF() string {
	key := faucetKey().Serialize()
	return base58.CheckEncode(append(key, 1), chaincfg.RegressionNetParams.PrivateKeyID)
}

// FaucetAddress returns the address that every block pays.
func FaucetAddress() chain.Address { return KeyAddress(faucetKey()) }

// NewKey returns a new key, whose address has no outputs.
func NewKey() (*btcec.PrivateKey, error) { return btcec.NewPrivateKey() }

// KeyAddress returns the native SegWit address of a key on the local chain.
func KeyAddress(key *btcec.PrivateKey) chain.Address {
	return bitcointx.KeyAddress(
		&chaincfg.RegressionNetParams, [bitcointx.KeyBytes]byte(key.PubKey().SerializeCompressed()),
	)
}

func faucetScript() []byte { return mustScript(FaucetAddress()) }

func mustScript(a chain.Address) []byte {
	script, err := bitcointx.Script(chain.Local, a)
	if err != nil {
		panic("the script of the faucet: " + err.Error())
	}
	return script
}

// Output is an output that can be spent.
type Output struct {
	wire.OutPoint
	wire.TxOut
}

// faucet knows which of its outputs are in blocks.
type faucet struct {
	paying sync.Mutex // allows one payment at a time, so that no two select the same output

	mu            sync.Mutex
	scannedHeight int // the height up to which blocks were scanned
	outputs       []Output
	count         int64 // of payments and blocks made
	fees          int64 // of payments
	resets        int   // number of calls of resetScan
}

// nextNumber returns a number that it never returned before.
func (f *faucet) nextNumber() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count++
	return f.count
}

// resetScan makes the faucet scan all blocks again.
func (f *faucet) resetScan() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.scannedHeight, f.outputs = 0, nil
	f.resets++
}

func (f *faucet) nextFee() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fees++
	return max(feeFirst-f.fees*feeStep, feeLast)
}

// NewOutput returns an output that pays an amount in satoshi to an address.
func NewOutput(a chain.Address, satoshi int64) (*wire.TxOut, error) {
	script, err := bitcointx.Script(chain.Local, a)
	if err != nil {
		return nil, err
	}
	return wire.NewTxOut(satoshi, script), nil
}

// PayAddress pays an amount in satoshi from the faucet. The transaction waits for the next block;
// it may be replaced until then.
func (n *Node) PayAddress(ctx context.Context, recipient chain.Address, satoshi int64) (*wire.MsgTx, error) {
	txOut, err := NewOutput(recipient, satoshi)
	if err != nil {
		return nil, fmt.Errorf("pay from the faucet: %w", err)
	}
	return n.PayOutputs(ctx, txOut)
}

// PayOutputs is PayAddress for one transaction whose first outputs are these.
func (n *Node) PayOutputs(ctx context.Context, outs ...*wire.TxOut) (*wire.MsgTx, error) {
	n.faucet.paying.Lock()
	defer n.faucet.paying.Unlock()
	var sum int64
	for _, txOut := range outs {
		sum += txOut.Value
	}
	fee := n.faucet.nextFee()
	coins, err := n.selectOutputs(ctx, sum+fee)
	if err != nil {
		return nil, fmt.Errorf("pay from the faucet: %w", err)
	}
	tx, err := n.BuildSpend(faucetKey(), coins, fee, outs...)
	for ; err == nil && hasShortSignature(tx) && fee%feeStep != 1; fee-- {
		tx, err = n.BuildSpend(faucetKey(), coins, fee-1, outs...)
	}
	if err != nil {
		return nil, fmt.Errorf("pay from the faucet: %w", err)
	}
	if err := n.SendTx(ctx, tx); err != nil {
		return nil, fmt.Errorf("pay from the faucet: %w", err)
	}
	return tx, nil
}

// hasShortSignature reports whether a signature is shorter than nearly all. Its transaction is smaller, so it pays
// more for each byte than one with a higher fee, and would be mined before it.
func hasShortSignature(tx *wire.MsgTx) bool {
	const bytesMin = 71 // with the byte of the hash type
	return slices.ContainsFunc(tx.TxIn, func(input *wire.TxIn) bool { return len(input.Witness[0]) < bytesMin })
}

// BuildSpend builds and signs a transaction that spends native SegWit outputs of one key. It pays
// the outputs, and the change after the fee back to the key. It does not send the transaction.
func (n *Node) BuildSpend(key *btcec.PrivateKey, coins []Output, fee int64, outs ...*wire.TxOut) (*wire.MsgTx, error) {
	tx := wire.NewMsgTx(2)
	change := -fee
	previousOutputs := txscript.NewMultiPrevOutFetcher(nil)
	for _, c := range coins {
		input := wire.NewTxIn(&c.OutPoint, nil, nil)
		input.Sequence = replaceable
		tx.AddTxIn(input)
		change += c.Value
		previousOutputs.AddPrevOut(c.OutPoint, &c.TxOut)
	}
	for _, txOut := range outs {
		tx.AddTxOut(txOut)
		change -= txOut.Value
	}
	changeScript := mustScript(KeyAddress(key))
	if change < 0 {
		return nil, fmt.Errorf("the outputs lack %d satoshi", -change)
	}
	if change > 0 {
		tx.AddTxOut(wire.NewTxOut(change, changeScript))
	}
	hashes := txscript.NewTxSigHashes(tx, previousOutputs)
	for i, c := range coins {
		witness, err := txscript.WitnessSignature(tx, hashes, i, c.Value, c.PkScript, txscript.SigHashAll, key, true)
		if err != nil {
			return nil, fmt.Errorf("sign for the local chain: %w", err)
		}
		tx.TxIn[i].Witness = witness
	}
	return tx, nil
}

// ReplacePayment sends another transaction that spends the inputs of a faucet payment, which may
// not be in a block yet. It pays the outputs, and the change back to the faucet.
func (n *Node) ReplacePayment(ctx context.Context, tx *wire.MsgTx, outs ...*wire.TxOut) (*wire.MsgTx, error) {
	coins, err := n.spentOutputs(ctx, tx)
	if err != nil {
		return nil, err
	}
	replacement, err := n.BuildSpend(faucetKey(), coins, feeBack, outs...)
	if err != nil {
		return nil, err
	}
	return replacement, n.SendTx(ctx, replacement)
}

// takeBack returns a transaction that spends a payment's inputs to the faucet itself.
func (n *Node) takeBack(ctx context.Context, tx *wire.MsgTx) (*wire.MsgTx, error) {
	coins, err := n.spentOutputs(ctx, tx)
	if err != nil {
		return nil, err
	}
	return n.BuildSpend(faucetKey(), coins, feeBack)
}

var errNotFaucets = errors.New("a transaction that is not the faucet's cannot be undone")

// spentOutputs returns the outputs that a payment of the faucet spends.
func (n *Node) spentOutputs(ctx context.Context, tx *wire.MsgTx) ([]Output, error) {
	var coins []Output
	for _, input := range tx.TxIn {
		var raw string
		if err := n.CallRPC(ctx, &raw, "getrawtransaction", input.PreviousOutPoint.Hash.String()); err != nil {
			return nil, err
		}
		b, err := hex.DecodeString(raw)
		if err != nil {
			return nil, fmt.Errorf("getrawtransaction: %w", err)
		}
		previousTx, err := readTx(b)
		if err != nil {
			return nil, fmt.Errorf("getrawtransaction: %w", err)
		}
		txOut := previousTx.TxOut[input.PreviousOutPoint.Index]
		if string(txOut.PkScript) != string(faucetScript()) {
			return nil, errNotFaucets
		}
		coins = append(coins, Output{input.PreviousOutPoint, *txOut})
	}
	return coins, nil
}

// selectOutputs selects outputs of the faucet for an amount. No transaction in a block or waiting
// for one spends them.
func (n *Node) selectOutputs(ctx context.Context, satoshi int64) ([]Output, error) {
	if err := n.scanBlocks(ctx); err != nil {
		return nil, err
	}
	var selected []Output
	for satoshi > 0 {
		n.faucet.mu.Lock()
		if len(n.faucet.outputs) == 0 {
			n.faucet.mu.Unlock()
			return nil, fmt.Errorf("the faucet lacks %d satoshi: mine more blocks", satoshi)
		}
		c := n.faucet.outputs[0]
		n.faucet.outputs = n.faucet.outputs[1:]
		n.faucet.mu.Unlock()
		var unspent *struct{}
		if err := n.CallRPC(ctx, &unspent, "gettxout", c.Hash.String(), c.Index, true); err != nil {
			return nil, err
		}
		if unspent == nil {
			continue
		}
		// A waiting transaction may spend an output that counts as unspent: btcd looks at blocks
		// alone.
		var waiting []struct{ SpendingTxid string }
		if err := n.CallRPC(ctx, &waiting, "gettxspendingprevout", []any{map[string]any{
			"txid": c.Hash.String(), "vout": c.Index,
		}}); err != nil {
			return nil, err
		}
		if len(waiting) != 1 || waiting[0].SpendingTxid != "" {
			continue
		}
		selected = append(selected, c)
		satoshi -= c.Value
	}
	return selected, nil
}

// scanBlocks collects the faucet's outputs from the blocks that it has not scanned. A coinbase
// output counts once it may be spent.
func (n *Node) scanBlocks(ctx context.Context) error {
	height, err := n.TipHeight(ctx)
	if err != nil {
		return err
	}
	n.faucet.mu.Lock()
	first, resets := n.faucet.scannedHeight+1, n.faucet.resets
	n.faucet.mu.Unlock()
	script := string(faucetScript())
	var coins []Output
	collect := func(h int, txs func(*wire.MsgBlock) []*wire.MsgTx) error {
		hash, err := n.BlockHash(ctx, h)
		if err != nil {
			return err
		}
		b, err := n.ReadBlock(ctx, hash)
		if err != nil {
			return err
		}
		for _, tx := range txs(b) {
			for i, txOut := range tx.TxOut {
				if string(txOut.PkScript) == script {
					coins = append(coins, Output{wire.OutPoint{Hash: tx.TxHash(), Index: uint32(i)}, *txOut})
				}
			}
		}
		return nil
	}
	for h := first; h <= height; h++ {
		if matured := h + 1 - Maturity; matured > 0 {
			if err := collect(matured, func(b *wire.MsgBlock) []*wire.MsgTx { return b.Transactions[:1] }); err != nil {
				return err
			}
		}
		if err := collect(h, func(b *wire.MsgBlock) []*wire.MsgTx { return b.Transactions[1:] }); err != nil {
			return err
		}
	}
	n.faucet.mu.Lock()
	defer n.faucet.mu.Unlock()
	if n.faucet.resets == resets {
		n.faucet.scannedHeight, n.faucet.outputs = height, append(n.faucet.outputs, coins...)
	}
	return nil
}

func readTx(raw []byte) (*wire.MsgTx, error) {
	tx := new(wire.MsgTx)
	return tx, tx.Deserialize(bytes.NewReader(raw))
}
