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

// Bitcoin is a Bitcoin chain, and its history from some block on. It keeps every output
// that it has read and who may spend it, as the node says, and reads no script.
type Bitcoin struct {
	History
	first   uint64
	outputs map[Outpoint]Output // those of blocks that a fork took away too
}

// Outpoint names an output: the hash of its transaction, and its number there.
type Outpoint struct {
	Tx string
	N  uint32
}

// String is it as people write it.
func (o Outpoint) String() string { return fmt.Sprintf("%s:%d", o.Tx, o.N) }

// Output is an amount that an address was paid, and that is spent whole.
type Output struct {
	Outpoint
	Address string // "" when it has none
	Amount  *big.Int
}

// OpenBitcoin prepares to read the Bitcoin chain at a JSON-RPC URL, with the user in it,
// from a block on. What was paid before that, and who spends it, is asked for.
func OpenBitcoin(url string, from uint64) *Bitcoin {
	return &Bitcoin{History{node: node{url}, written: func(s string) string { return s }}, from, map[Outpoint]Output{}}
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

// Walk reads on to the newest block, and reads again what a fork has replaced. It returns
// the height that it stands at.
func (c *Bitcoin) Walk(ctx context.Context) (height uint64, err error) {
	var newest uint64
	if err := c.call(ctx, &newest, "getblockcount"); err != nil {
		return 0, err
	}
	// From the newest that was read back to the first that is still there.
	for n := len(c.blocks); n > 0; n-- {
		at := c.first + uint64(n) - 1
		var hash string
		if at <= newest {
			if err := c.call(ctx, &hash, "getblockhash", at); err != nil {
				return 0, err
			}
		}
		if hash == c.blocks[n-1].hash {
			break
		}
		c.blocks = c.blocks[:n-1]
	}
	for at := c.first + uint64(len(c.blocks)); at <= newest; at++ {
		read, err := c.read(ctx, at)
		if err != nil {
			return 0, fmt.Errorf("block %d: %w", at, err)
		}
		c.blocks = append(c.blocks, read)
	}
	return newest, nil
}

func (c *Bitcoin) read(ctx context.Context, at uint64) (block, error) {
	var out block
	if err := c.call(ctx, &out.hash, "getblockhash", at); err != nil {
		return out, err
	}
	// With all of each transaction: Bitcoin Core has them in tx, btcd in rawtx.
	var b struct{ Tx, RawTx json.RawMessage }
	if err := c.call(ctx, &b, "getblock", out.hash, 2); err != nil {
		return out, err
	}
	text := b.RawTx
	if text == nil {
		text = b.Tx
	}
	var txs []bitcoinTx
	if err := json.Unmarshal(text, &txs); err != nil {
		return out, err
	}
	if len(txs) == 0 {
		return out, errors.New("it has no transactions")
	}
	for _, tx := range txs {
		if err := c.take(tx); err != nil {
			return out, err
		}
		if tx.Vin[0].Coinbase != "" {
			continue
		}
		s := Sent{Hash: tx.TxID, Block: at, Succeeded: true, Fee: new(big.Int)}
		for _, in := range tx.Vin {
			spent, err := c.output(ctx, in.TxID, in.Vout)
			if err != nil {
				return out, err
			}
			if s.From == "" {
				s.From = spent.Address
			}
			s.Fee.Add(s.Fee, spent.Amount)
		}
		for _, o := range tx.Vout {
			is := c.outputs[Outpoint{tx.TxID, o.N}]
			s.Fee.Sub(s.Fee, is.Amount)
			out.movements = append(out.movements, Movement{Tx: tx.TxID, Block: at, From: s.From, To: is.Address, Amount: is.Amount})
		}
		out.sent = append(out.sent, s)
	}
	return out, nil
}

// take keeps the outputs of a transaction.
func (c *Bitcoin) take(tx bitcoinTx) error {
	if len(tx.Vin) == 0 || len(tx.Vout) == 0 {
		return fmt.Errorf("%s spends %d outputs and makes %d", tx.TxID, len(tx.Vin), len(tx.Vout))
	}
	for _, o := range tx.Vout {
		amount, err := satoshi(o.Value)
		if err != nil {
			return fmt.Errorf("output %d of %s: %w", o.N, tx.TxID, err)
		}
		is := Output{Outpoint: Outpoint{tx.TxID, o.N}, Address: o.ScriptPubKey.Address, Amount: amount}
		if is.Address == "" && len(o.ScriptPubKey.Addresses) == 1 {
			is.Address = o.ScriptPubKey.Addresses[0]
		}
		c.outputs[is.Outpoint] = is
	}
	return nil
}

func (c *Bitcoin) output(ctx context.Context, hash string, n uint32) (Output, error) {
	at := Outpoint{hash, n}
	if is, known := c.outputs[at]; known {
		return is, nil
	}
	var tx bitcoinTx
	err := c.call(ctx, &tx, "getrawtransaction", hash, 1)
	if err == nil {
		err = c.take(tx)
	}
	is, known := c.outputs[at]
	if err == nil && !known {
		err = fmt.Errorf("%s has no output %d", hash, n)
	}
	return is, err
}

// satoshi is an amount in whole bitcoins as nodes write it, which is a number of JSON.
func satoshi(value json.Number) (*big.Int, error) {
	r, ok := new(big.Rat).SetString(value.String())
	if ok {
		r.Mul(r, big.NewRat(100_000_000, 1))
	}
	if !ok || !r.IsInt() || r.Sign() < 0 {
		return nil, fmt.Errorf("%q is no amount", value)
	}
	return r.Num(), nil
}

// Unspent are the outputs that any of the addresses was paid in the blocks that were read
// and that no block spends, by transaction, asked of the chain's state one by one.
func (c *Bitcoin) Unspent(ctx context.Context, of map[string]bool) ([]Output, error) {
	made := map[string]bool{}
	for _, b := range c.blocks {
		for _, m := range b.movements {
			made[m.Tx] = true
		}
	}
	var all []Output
	for at, is := range c.outputs {
		if !of[is.Address] || !made[at.Tx] {
			continue
		}
		var there struct{ Confirmations int }
		err := c.call(ctx, &there, "gettxout", at.Tx, at.N, false)
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, is)
	}
	slices.SortFunc(all, func(a, b Output) int {
		return cmp.Or(cmp.Compare(a.Tx, b.Tx), cmp.Compare(a.N, b.N))
	})
	return all, nil
}

// Holds is what an address has now.
func (c *Bitcoin) Holds(ctx context.Context, holder string) (*big.Int, error) {
	all, err := c.Unspent(ctx, map[string]bool{holder: true})
	if err != nil {
		return nil, err
	}
	sum := new(big.Int)
	for _, is := range all {
		sum.Add(sum, is.Amount)
	}
	return sum, nil
}
