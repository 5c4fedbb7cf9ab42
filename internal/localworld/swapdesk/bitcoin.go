package swapdesk

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/wire/v2"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/localworld/btcd"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// bitcoinConfirmations make a block final for the desk.
	bitcoinConfirmations = 3
	// Fees of a payment in satoshi: several satoshi per byte.
	bitcoinFee         = 2_000
	bitcoinFeePerInput = 500
	// bitcoinChangeMin keeps change above dust.
	bitcoinChangeMin = 1_000
	bitcoinReserve   = 200_000
	bitcoinDust      = 546 // of the largest kind of output
	historyPage      = 100 // transactions that the node returns at once
)

// codeUnknown is the node's error for a transaction or an address that it does not know.
const codeUnknown = -5

// bitcoinChain is the local Bitcoin chain.
type bitcoinChain struct {
	seed Seed
	node *btcd.Node
	key  *btcec.PrivateKey // of the paying wallet
}

// DialBitcoin connects to btcd with wallets from a seed.
func DialBitcoin(url, password string, seed Seed) Chain {
	c := &bitcoinChain{seed: seed, node: btcd.Dial(url, password)}
	c.key = c.walletKey(payingWallet)
	return c
}

func (c *bitcoinChain) walletKey(n uint32) *btcec.PrivateKey {
	secret := c.seed.walletSecret("bitcoin", n)
	key, _ := btcec.PrivKeyFromBytes(secret[:])
	return key
}

func (c *bitcoinChain) Name() chain.Name { return chain.Bitcoin }
func (c *bitcoinChain) CloseClient()     {}

func (c *bitcoinChain) WalletAddress(n uint32) string { return string(btcd.KeyAddress(c.walletKey(n))) }

func (c *bitcoinChain) CheckAddress(text string) error {
	_, err := bitcointx.Parse(chain.Local, text)
	return err
}

func (c *bitcoinChain) FinalHeight(ctx context.Context) (uint64, error) {
	height, err := c.node.TipHeight(ctx)
	return uint64(max(0, height-bitcoinConfirmations+1)), err
}

func (c *bitcoinChain) Arrivals(ctx context.Context, after, end uint64, watches []Watch) ([]Arrival, error) {
	addresses := map[string]string{}
	for _, w := range watches {
		script, err := bitcointx.Script(chain.Local, chain.Address(w.Address))
		if err != nil {
			return nil, err
		}
		addresses[string(script)] = w.Address
	}
	var found []Arrival
	for height := after + 1; height <= end; height++ {
		hash, err := c.node.BlockHash(ctx, int(height))
		if err != nil {
			return nil, err
		}
		block, err := c.node.ReadBlock(ctx, hash)
		if err != nil {
			return nil, err
		}
		for _, tx := range block.Transactions {
			for i, output := range tx.TxOut {
				if address, isWatched := addresses[string(output.PkScript)]; isWatched && output.Value > 0 {
					found = append(found, Arrival{
						Address: address, Hash: tx.TxID(), Index: i, Amount: money.Units(uint64(output.Value)),
						Time: block.Header.Timestamp.UTC(),
					})
				}
			}
		}
	}
	return found, nil
}

func (c *bitcoinChain) FeeReserve() money.Amount       { return money.Units(bitcoinReserve) }
func (c *bitcoinChain) MinPayment(string) money.Amount { return money.Units(bitcoinDust) }

// historyTx is a transaction as searchrawtransactions returns it.
type historyTx struct {
	Hex           string `json:"hex"`
	Confirmations int    `json:"confirmations"`
}

func decodeTx(text string) (*wire.MsgTx, error) {
	raw, err := hex.DecodeString(text)
	if err != nil {
		return nil, err
	}
	tx := new(wire.MsgTx)
	return tx, tx.Deserialize(bytes.NewReader(raw))
}

// outputs returns the confirmed outputs of the paying wallet that no transaction and no pending payment
// spends.
func (c *bitcoinChain) outputs(ctx context.Context, pending []Signed) ([]btcd.Output, error) {
	spent := map[wire.OutPoint]bool{}
	spend := func(tx *wire.MsgTx) {
		for _, input := range tx.TxIn {
			spent[input.PreviousOutPoint] = true
		}
	}
	for _, s := range pending {
		tx, err := decodeTx(hex.EncodeToString(s.Raw))
		if err != nil {
			return nil, err
		}
		spend(tx)
	}
	address := btcd.KeyAddress(c.key)
	script, err := bitcointx.Script(chain.Local, address)
	if err != nil {
		return nil, err
	}
	var confirmed []btcd.Output
	for skip := 0; ; skip += historyPage {
		var page []historyTx
		err := c.node.CallRPC(ctx, &page, "searchrawtransactions", string(address), 1, skip, historyPage)
		if refusal, ok := errors.AsType[*btcd.RPCError](err); ok && refusal.Code == codeUnknown {
			break // no transaction, or none after the last page
		}
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			tx, err := decodeTx(entry.Hex)
			if err != nil {
				return nil, fmt.Errorf("searchrawtransactions: %w", err)
			}
			spend(tx)
			for i, output := range tx.TxOut {
				if entry.Confirmations > 0 && bytes.Equal(output.PkScript, script) {
					confirmed = append(confirmed, btcd.Output{
						OutPoint: wire.OutPoint{Hash: tx.TxHash(), Index: uint32(i)}, TxOut: *output,
					})
				}
			}
		}
		if len(page) < historyPage {
			break
		}
	}
	var unspent []btcd.Output
	for _, output := range confirmed {
		if !spent[output.OutPoint] {
			unspent = append(unspent, output)
		}
	}
	return unspent, nil
}

func (c *bitcoinChain) Balance(ctx context.Context, _ string, pending []Signed) (money.Amount, error) {
	outputs, err := c.outputs(ctx, pending)
	total := money.Zero
	for _, output := range outputs {
		total = sumAmounts(total, money.Units(uint64(output.Value)))
	}
	return total, err
}

func (c *bitcoinChain) SignPayment(ctx context.Context, p Payment, pending []Signed) (Signed, error) {
	satoshi, isSmall := p.Amount.Uint64()
	if !isSmall || satoshi > 1<<62 {
		return Signed{}, errors.New("no amount on Bitcoin has more than 62 bits")
	}
	payee, err := btcd.NewOutput(chain.Address(p.Recipient), int64(satoshi))
	if err != nil {
		return Signed{}, err
	}
	available, err := c.outputs(ctx, pending)
	if err != nil {
		return Signed{}, err
	}
	var selected []btcd.Output
	fee, missing := int64(bitcoinFee), int64(satoshi)+bitcoinFee+bitcoinChangeMin
	for _, output := range available {
		if missing <= 0 {
			break
		}
		selected = append(selected, output)
		fee += bitcoinFeePerInput
		missing += bitcoinFeePerInput - output.Value
	}
	if missing > 0 {
		return Signed{}, fmt.Errorf("the wallet lacks %d satoshi", missing)
	}
	tx, err := c.node.BuildSpend(c.key, selected, fee, payee)
	if err != nil {
		return Signed{}, err
	}
	var raw bytes.Buffer
	err = tx.Serialize(&raw)
	return Signed{Hash: tx.TxID(), Raw: raw.Bytes()}, err
}

func (c *bitcoinChain) SendPayment(ctx context.Context, s Signed) error {
	err := c.node.CallRPC(ctx, nil, "sendrawtransaction", hex.EncodeToString(s.Raw))
	if err == nil {
		return nil
	}
	if _, isKnown, failed := c.confirmations(ctx, s); failed == nil && isKnown {
		return nil // the node refused it because it has it
	}
	return err
}

// confirmations returns how many blocks confirm a payment, and whether the node knows it.
func (c *bitcoinChain) confirmations(ctx context.Context, s Signed) (blocks int, isKnown bool, err error) {
	var got struct {
		Confirmations int `json:"confirmations"`
	}
	err = c.node.CallRPC(ctx, &got, "getrawtransaction", s.Hash, 1)
	if refusal, ok := errors.AsType[*btcd.RPCError](err); ok && refusal.Code == codeUnknown {
		return 0, false, nil
	}
	return got.Confirmations, err == nil, err
}

func (c *bitcoinChain) ReadOutcome(ctx context.Context, s Signed) (Outcome, error) {
	blocks, _, err := c.confirmations(ctx, s)
	if err != nil || blocks < bitcoinConfirmations {
		return Waiting, err
	}
	return Paid, nil
}

// timeOf returns a time of a block.
func timeOf(unix int64) time.Time { return time.Unix(unix, 0).UTC() }
