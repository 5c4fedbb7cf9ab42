package oracle

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"slices"
)

// Bitcoin is a Bitcoin chain, with its history from one block on. It keeps every output that it has
// read and the address that may spend it, as the node reports it, and reads no script.
type Bitcoin struct {
	History
	first   uint64
	outputs map[Outpoint]Output // with those in blocks that a fork removed
}

// Outpoint names an output: the hash of its transaction, and its number there.
type Outpoint struct {
	Tx string
	N  uint32
}

// String returns the usual text of an outpoint.
func (o Outpoint) String() string { return fmt.Sprintf("%s:%d", o.Tx, o.N) }

// Output is an amount paid to an address, which one transaction spends whole.
type Output struct {
	Outpoint
	Address string // "" if it has none
	Amount  *big.Int
}

// OpenBitcoin prepares to read the Bitcoin chain at a JSON-RPC URL, with the user in it, from a
// block on. It asks the node for earlier outputs and the addresses that spend them.
func OpenBitcoin(url string, first uint64) *Bitcoin {
	return &Bitcoin{
		History{node: node{url}, normalize: func(s string) string { return s }}, first, map[Outpoint]Output{},
	}
}

type bitcoinTx struct {
	TxID string
	Vin  []struct {
		TxID     string
		Vout     uint32
		Coinbase string
	}
	Vout []struct {
		Value        json.Number
		N            uint32
		ScriptPubKey struct {
			Address   string
			Addresses []string
		}
	}
}

// Walk reads up to the newest block, and reads again what a fork has replaced. It returns the
// height that it reached.
func (c *Bitcoin) Walk(ctx context.Context) (height uint64, err error) {
	var newest uint64
	if err := c.callRPC(ctx, &newest, "getblockcount"); err != nil {
		return 0, err
	}
	// From the newest block that was read back to the first that is still on the chain.
	for n := len(c.blocks); n > 0; n-- {
		blockHeight := c.first + uint64(n) - 1
		var hash string
		if blockHeight <= newest {
			if err := c.callRPC(ctx, &hash, "getblockhash", blockHeight); err != nil {
				return 0, err
			}
		}
		if hash == c.blocks[n-1].hash {
			break
		}
		c.blocks = c.blocks[:n-1]
	}
	for blockHeight := c.first + uint64(len(c.blocks)); blockHeight <= newest; blockHeight++ {
		read, err := c.readBlock(ctx, blockHeight)
		if err != nil {
			return 0, fmt.Errorf("block %d: %w", blockHeight, err)
		}
		c.blocks = append(c.blocks, read)
	}
	return newest, nil
}

func (c *Bitcoin) readBlock(ctx context.Context, height uint64) (block, error) {
	var result block
	if err := c.callRPC(ctx, &result.hash, "getblockhash", height); err != nil {
		return result, err
	}
	// With every transaction in full: Bitcoin Core returns them in tx, btcd in rawtx.
	var b struct{ Tx, RawTx json.RawMessage }
	if err := c.callRPC(ctx, &b, "getblock", result.hash, 2); err != nil {
		return result, err
	}
	text := b.RawTx
	if text == nil {
		text = b.Tx
	}
	var txs []bitcoinTx
	if err := json.Unmarshal(text, &txs); err != nil {
		return result, err
	}
	if len(txs) == 0 {
		return result, errors.New("it has no transactions")
	}
	for _, tx := range txs {
		if err := c.keepOutputs(tx); err != nil {
			return result, err
		}
		if tx.Vin[0].Coinbase != "" {
			continue
		}
		s := Sent{Hash: tx.TxID, Block: height, Succeeded: true, Fee: new(big.Int)}
		for _, input := range tx.Vin {
			spent, err := c.findOutput(ctx, input.TxID, input.Vout)
			if err != nil {
				return result, err
			}
			if s.From == "" {
				s.From = spent.Address
			}
			s.Fee.Add(s.Fee, spent.Amount)
		}
		for _, o := range tx.Vout {
			output := c.outputs[Outpoint{tx.TxID, o.N}]
			s.Fee.Sub(s.Fee, output.Amount)
			result.movements = append(result.movements, Movement{
				Tx: tx.TxID, Block: height, From: s.From, To: output.Address, Amount: output.Amount,
			})
		}
		result.sent = append(result.sent, s)
	}
	return result, nil
}

// keepOutputs keeps the outputs of a transaction.
func (c *Bitcoin) keepOutputs(tx bitcoinTx) error {
	if len(tx.Vin) == 0 || len(tx.Vout) == 0 {
		return fmt.Errorf("%s spends %d outputs and makes %d", tx.TxID, len(tx.Vin), len(tx.Vout))
	}
	for _, o := range tx.Vout {
		amount, err := parseSatoshi(o.Value)
		if err != nil {
			return fmt.Errorf("output %d of %s: %w", o.N, tx.TxID, err)
		}
		output := Output{Outpoint: Outpoint{tx.TxID, o.N}, Address: o.ScriptPubKey.Address, Amount: amount}
		if output.Address == "" && len(o.ScriptPubKey.Addresses) == 1 {
			output.Address = o.ScriptPubKey.Addresses[0]
		}
		c.outputs[output.Outpoint] = output
	}
	return nil
}

func (c *Bitcoin) findOutput(ctx context.Context, hash string, n uint32) (Output, error) {
	outpoint := Outpoint{hash, n}
	if output, found := c.outputs[outpoint]; found {
		return output, nil
	}
	var tx bitcoinTx
	err := c.callRPC(ctx, &tx, "getrawtransaction", hash, 1)
	if err == nil {
		err = c.keepOutputs(tx)
	}
	output, found := c.outputs[outpoint]
	if err == nil && !found {
		err = fmt.Errorf("%s has no output %d", hash, n)
	}
	return output, err
}

// parseSatoshi parses an amount in whole bitcoins, which nodes write as a JSON number.
func parseSatoshi(value json.Number) (*big.Int, error) {
	r, ok := new(big.Rat).SetString(value.String())
	if ok {
		r.Mul(r, big.NewRat(100_000_000, 1))
	}
	if !ok || !r.IsInt() || r.Sign() < 0 {
		return nil, fmt.Errorf("%q is no amount", value)
	}
	return r.Num(), nil
}

// UnspentOutputs returns the unspent outputs of the addresses in the blocks that were read, by
// transaction. It asks the chain's state about each of them.
func (c *Bitcoin) UnspentOutputs(ctx context.Context, addresses map[string]bool) ([]Output, error) {
	made := map[string]bool{}
	for _, b := range c.blocks {
		for _, m := range b.movements {
			made[m.Tx] = true
		}
	}
	var outputs []Output
	for outpoint, output := range c.outputs {
		if !addresses[output.Address] || !made[outpoint.Tx] {
			continue
		}
		var unspent struct{ Confirmations int }
		err := c.callRPC(ctx, &unspent, "gettxout", outpoint.Tx, outpoint.N, false)
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		outputs = append(outputs, output)
	}
	slices.SortFunc(outputs, func(a, b Output) int {
		return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.N, b.N))
	})
	return outputs, nil
}

// Holds returns the present balance of an address.
func (c *Bitcoin) Holds(ctx context.Context, holder string) (*big.Int, error) {
	outputs, err := c.UnspentOutputs(ctx, map[string]bool{holder: true})
	if err != nil {
		return nil, err
	}
	sum := new(big.Int)
	for _, output := range outputs {
		sum.Add(sum, output.Amount)
	}
	return sum, nil
}
