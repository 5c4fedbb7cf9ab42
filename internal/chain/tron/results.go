package tron

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

// transferTopic is the first topic of a token's event Transfer(address,address,uint256).
const transferTopic = "ddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

const (
	transferTopics = 3 // of a token; a log with four topics is of a contract that has no amounts
	accountDigits  = 40
)

// result is the result of a transaction as nodes write it.
type result struct {
	ID      string `json:"id"`
	Fee     int64  `json:"fee"`
	Height  uint64 `json:"blockNumber"`
	Time    int64  `json:"blockTimeStamp"`
	Result  string `json:"result"`
	Receipt struct {
		Result string `json:"result"`
	} `json:"receipt"`
	Logs     []eventLog   `json:"log"`
	Internal []internalTx `json:"internal_transactions"`
}

type eventLog struct {
	Address string   `json:"address"` // 20 bytes, without the prefix
	Topics  []string `json:"topics"`
	Data    string   `json:"data"`
}

type internalTx struct {
	From   string `json:"caller_address"`
	To     string `json:"transferTo_address"`
	Values []struct {
		Sun   int64  `json:"callValue"`
		Token string `json:"tokenId"`
	} `json:"callValueInfo"`
	Rejected bool `json:"rejected"`
}

// txEffects has the fee and the transfers of a transaction in a block.
type txEffects struct {
	tx
	fee       money.Amount
	transfers []chain.Transfer
}

var errNoResults = errors.New("does not return the results of all its transactions")

// readEffects reads the effects of the transactions of a block.
func (p *provider) readEffects(
	ctx context.Context, state view, h header, txs []tx, internals bool,
) ([]txEffects, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	var results []result
	if err := p.callMethod(
		ctx, &results, state, "gettransactioninfobyblocknum", requestParams{"num": h.height},
	); err != nil {
		return nil, err
	}
	fail := func(err error) ([]txEffects, error) {
		return nil, fmt.Errorf("%s: block %d: %w", p.name, h.height, err)
	}
	byID := map[string]*result{}
	for i := range results {
		r := &results[i]
		if byID[r.ID] != nil {
			return fail(fmt.Errorf("the result of %.70q is there twice", r.ID))
		}
		byID[r.ID] = r
	}
	out := make([]txEffects, len(txs))
	logs := uint64(0)
	for i, t := range txs {
		r := byID[string(t.Hash)]
		if r == nil {
			return fail(fmt.Errorf("it %w: %s", errNoResults, t.Hash))
		}
		e, err := r.toEffects(t, h, logs, internals)
		if err != nil {
			return fail(fmt.Errorf("%s: %w", t.Hash, err))
		}
		out[i] = e
		logs += uint64(len(r.Logs))
	}
	if len(results) != len(txs) {
		return fail(fmt.Errorf("it has %d transactions, and there are %d results", len(txs), len(results)))
	}
	return out, nil
}

// toEffects reads what a transaction did. The block states whether it failed; a result that
// contradicts the block is of another transaction, or a lie.
func (r *result) toEffects(t tx, h header, logs uint64, internals bool) (txEffects, error) {
	e := txEffects{tx: t}
	switch {
	case r.Height != h.height || r.Time != h.millis:
		return e, errors.New("its result is of another block")
	case r.Fee < 0:
		return e, errors.New("its fee is below zero")
	case t.succeeded && (r.Result == "FAILED" || r.Receipt.Result != "" && r.Receipt.Result != success):
		return e, errors.New("its result says that it failed, and its block that it did not")
	case !t.succeeded && r.Receipt.Result == success:
		return e, errors.New("its result says that it did not fail, and its block that it did")
	}
	e.fee = money.Units(uint64(r.Fee))
	if !t.succeeded {
		return e, nil
	}
	if t.NativeAmount > 0 {
		e.transfers = append(e.transfers, chain.Transfer{
			Tx: t.Hash, Kind: chain.Native, From: t.Owner, To: t.To, Amount: money.Units(t.NativeAmount),
		})
	}
	for i, l := range r.Logs {
		moved, err := l.toTransfer()
		if err != nil {
			return e, fmt.Errorf("log %d: %w", i, err)
		}
		if moved.Amount.IsZero() {
			continue
		}
		moved.Tx, moved.Position, moved.LogIndex = t.Hash, strconv.Itoa(i), logs+uint64(i)
		e.transfers = append(e.transfers, moved)
	}
	if !internals {
		return e, nil
	}
	for i, call := range r.Internal {
		moved, err := call.toTransfers(strconv.Itoa(i))
		if err != nil {
			return e, fmt.Errorf("internal transaction %d: %w", i, err)
		}
		for _, m := range moved {
			m.Tx = t.Hash
			e.transfers = append(e.transfers, m)
		}
	}
	return e, nil
}

// toTransfer returns the transfer that a log describes, or an empty one. These logs describe none:
// another event, an amount among the topics, more than an address in a word.
func (l eventLog) toTransfer() (chain.Transfer, error) {
	contract, err := hex.DecodeString(l.Address)
	if err != nil || len(l.Address) != accountDigits {
		return chain.Transfer{}, errors.New("it has no contract")
	}
	if len(l.Topics) != transferTopics || l.Topics[0] != transferTopic {
		return chain.Transfer{}, nil
	}
	var words [transferTopics][]byte
	for i, s := range []string{l.Topics[1], l.Topics[2], l.Data} {
		if words[i], err = hex.DecodeString(s); err != nil {
			return chain.Transfer{}, errors.New("it is not in hexadecimal")
		}
	}
	from, errFrom := trontx.FromWord(words[0])
	to, errTo := trontx.FromWord(words[1])
	if errFrom != nil || errTo != nil || len(words[2]) != idBytes {
		return chain.Transfer{}, nil
	}
	return chain.Transfer{
		Kind: chain.Token, Contract: trontx.FromAccountBytes([accountDigits / 2]byte(contract)), From: from, To: to,
		Amount: money.FromUint256(new(uint256.Int).SetBytes(words[2])),
	}, nil
}

// toTransfers returns the TRX that a contract sent.
func (call internalTx) toTransfers(position string) ([]chain.Transfer, error) {
	if call.Rejected {
		return nil, nil
	}
	var out []chain.Transfer
	for n, v := range call.Values {
		switch {
		case v.Sun < 0:
			return nil, errors.New("it moves a negative amount")
		case v.Sun == 0 || v.Token != "": // no amount, or TRC-10
			continue
		}
		from, err := trontx.FromHex(call.From)
		if err != nil {
			return nil, err
		}
		to, err := trontx.FromHex(call.To)
		if err != nil {
			return nil, err
		}
		path := position
		if n > 0 {
			path += "." + strconv.Itoa(n)
		}
		out = append(out, chain.Transfer{
			Kind: chain.Internal, Position: path, From: from, To: to, Amount: money.Units(uint64(v.Sun)),
		})
	}
	return out, nil
}

// newContents collects all transfers of a block. It has the fees of transfers and calls, the only
// kinds of transactions that Coffer makes.
func newContents(h header, effects []txEffects, internals bool) (chain.Contents, error) {
	c := chain.Contents{Block: h.toChainBlock(), Traced: internals, Providers: 1, Verified: verified}
	feeIndex := map[chain.Address]int{}
	for _, e := range effects {
		c.Transfers = append(c.Transfers, e.transfers...)
		if e.Owner == "" || e.fee.IsZero() {
			continue
		}
		i, exists := feeIndex[e.Owner]
		if !exists {
			i, feeIndex[e.Owner] = len(c.Fees), len(c.Fees)
			c.Fees = append(c.Fees, chain.Fee{Payer: e.Owner})
		}
		sum, err := c.Fees[i].Amount.Add(e.fee)
		if err != nil {
			return c, err
		}
		c.Fees[i].Amount = sum
	}
	return c, nil
}

// readContents reads a block with all its transfers from a provider.
func (p *provider) readContents(
	ctx context.Context, state view, blockRef string, internals bool,
) (chain.Contents, error) {
	h, txs, err := p.readBlock(ctx, state, blockRef)
	if err != nil {
		return chain.Contents{}, err
	}
	effects, err := p.readEffects(ctx, state, h, txs, internals)
	if err != nil {
		return chain.Contents{}, err
	}
	return newContents(h, effects, internals)
}
