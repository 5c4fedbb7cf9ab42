// Package oracle reads a chain with its own few lines (an EVM chain, Solana or Bitcoin), to say
// what really happened: what every address received, what our addresses sent, and their balances.
// It shares no code with the product, so that a mistake in reading the chain cannot hide itself.
//
// It takes no answer from the service or its database. A crash leaves nothing; it keeps what it
// read in memory.
package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// transferTopic is the first topic of the ERC-20 event Transfer(address,address,uint256).
const transferTopic = "0xddf252ad1be2c89b69c2b068fc378daa952ba7f163c4a11628f55a4df523b3ef"

// Movement is an amount that moved between addresses, in atomic units. An asset is the address of a
// token's contract or mint, or "" for the native coin. Addresses and hashes are lower-case hex on
// EVM chains, and unchanged on Solana.
type Movement struct {
	Tx       string
	Block    uint64
	Asset    string
	From, To string
	Amount   *big.Int
}

// Sent is a transaction in a block.
type Sent struct {
	Hash      string
	Block     uint64
	From, To  string
	Nonce     uint64
	Succeeded bool
	Fee       *big.Int // wei
}

type block struct {
	hash      string
	movements []Movement
	sent      []Sent
}

// History is what was read of a chain so far. It is not safe for concurrent use.
type History struct {
	node
	blocks    []block
	normalize func(string) string // returns an address or a hash in the form of the movements
}

// Chain is an EVM chain, with its history from its first block on.
type Chain struct{ History }

// Open prepares to read the EVM chain at a JSON-RPC URL.
func Open(url string) *Chain { return &Chain{History{node: node{url}, normalize: toLower}} }

type rawBlock struct {
	Number, Hash, ParentHash string
	Transactions             []struct {
		Hash, From, Nonce, Value string
		To                       *string
	}
}

type rawReceipt struct {
	TransactionHash, Status, GasUsed, EffectiveGasPrice string
	Logs                                                []struct {
		Address, Data string
		Topics        []string
	}
}

type rawFrame struct {
	Type, From, To, Value, Error string
	Calls                        []rawFrame
}

// Walk reads up to the newest block, and reads again what a fork has replaced. It returns the
// height that it reached.
func (c *Chain) Walk(ctx context.Context) (height uint64, err error) {
	var head struct{ Number, Hash string }
	if err := c.callRPC(ctx, &head, "eth_getBlockByNumber", "latest", false); err != nil {
		return 0, err
	}
	latest, err := parseNumber(head.Number)
	if err != nil {
		return 0, err
	}
	if uint64(len(c.blocks)) > latest+1 {
		c.blocks = c.blocks[:latest+1]
	}
	for uint64(len(c.blocks)) <= latest {
		blockHeight := uint64(len(c.blocks))
		var b rawBlock
		if err := c.callRPC(ctx, &b, "eth_getBlockByNumber", formatHex(blockHeight), true); err != nil {
			return 0, err
		}
		if blockHeight > 0 && b.ParentHash != c.blocks[blockHeight-1].hash {
			c.blocks = c.blocks[:blockHeight-1] // a fork: one more back
			continue
		}
		read, err := c.readBlock(ctx, blockHeight, b)
		if err != nil {
			return 0, fmt.Errorf("block %d: %w", blockHeight, err)
		}
		c.blocks = append(c.blocks, read)
	}
	if c.blocks[latest].hash != head.Hash {
		c.blocks = c.blocks[:latest]
		return c.Walk(ctx)
	}
	return latest, nil
}

func (c *Chain) readBlock(ctx context.Context, height uint64, b rawBlock) (block, error) {
	result := block{hash: b.Hash}
	if len(b.Transactions) == 0 {
		return result, nil
	}
	var receipts []rawReceipt
	if err := c.callRPC(ctx, &receipts, "eth_getBlockReceipts", formatHex(height)); err != nil {
		return result, err
	}
	if len(receipts) != len(b.Transactions) {
		return result, fmt.Errorf("%d transactions and %d receipts", len(b.Transactions), len(receipts))
	}
	for i, tx := range b.Transactions {
		r := receipts[i]
		if r.TransactionHash != tx.Hash {
			return result, fmt.Errorf("receipt %d is of %s, not of %s", i, r.TransactionHash, tx.Hash)
		}
		nonce, err := parseNumber(tx.Nonce)
		if err != nil {
			return result, err
		}
		used, err := parseInteger(r.GasUsed)
		if err != nil {
			return result, err
		}
		price, err := parseInteger(r.EffectiveGasPrice)
		if err != nil {
			return result, err
		}
		s := Sent{
			Hash: toLower(tx.Hash), Block: height, From: toLower(tx.From), Nonce: nonce, Succeeded: r.Status == "0x1",
			Fee: new(big.Int).Mul(used, price),
		}
		if tx.To != nil {
			s.To = toLower(*tx.To)
		}
		result.sent = append(result.sent, s)
		if !s.Succeeded {
			continue
		}
		tokens, err := tokenMovements(s, r)
		if err != nil {
			return result, err
		}
		result.movements = append(result.movements, tokens...)
		var frame rawFrame
		tracer := map[string]any{"tracer": "callTracer"}
		if err := c.callRPC(ctx, &frame, "debug_traceTransaction", tx.Hash, tracer); err != nil {
			return result, err
		}
		if err := coinMovements(s, frame, &result.movements); err != nil {
			return result, err
		}
	}
	return result, nil
}

func tokenMovements(s Sent, r rawReceipt) (movements []Movement, err error) {
	for _, l := range r.Logs {
		if len(l.Topics) != 3 || l.Topics[0] != transferTopic {
			continue
		}
		amount, err := parseInteger(l.Data)
		if err != nil {
			return nil, err
		}
		movements = append(movements, Movement{
			Tx: s.Hash, Block: s.Block, Asset: toLower(l.Address), From: topicAddress(l.Topics[1]),
			To: topicAddress(l.Topics[2]), Amount: amount,
		})
	}
	return movements, nil
}

// coinMovements adds the native coin that a call and its inner calls moved. A failed call reverts
// everything inside it.
func coinMovements(s Sent, f rawFrame, movements *[]Movement) error {
	if f.Error != "" {
		return nil
	}
	if f.Value != "" && (f.Type == "CALL" || f.Type == "CREATE" || f.Type == "CREATE2" || f.Type == "SELFDESTRUCT") {
		amount, err := parseInteger(f.Value)
		if err != nil {
			return err
		}
		if amount.Sign() > 0 {
			*movements = append(*movements, Movement{
				Tx: s.Hash, Block: s.Block, From: toLower(f.From), To: toLower(f.To), Amount: amount,
			})
		}
	}
	for _, inner := range f.Calls {
		if err := coinMovements(s, inner, movements); err != nil {
			return err
		}
	}
	return nil
}

// ReceivedBy returns what an address received of an asset, in the order of the chain.
func (c *History) ReceivedBy(asset, recipient string) (movements []Movement) {
	for _, b := range c.blocks {
		for _, m := range b.movements {
			if m.Asset == asset && m.To == recipient {
				movements = append(movements, m)
			}
		}
	}
	return movements
}

// SentBy returns the transactions of any of the addresses, in the order of the chain.
func (c *History) SentBy(senders map[string]bool) (transactions []Sent) {
	for _, b := range c.blocks {
		for _, s := range b.sent {
			if senders[s.From] {
				transactions = append(transactions, s)
			}
		}
	}
	return transactions
}

// MovedOut returns what went from any of the addresses to an address that is not one of them.
func (c *History) MovedOut(ownAddresses map[string]bool) (movements []Movement) {
	for _, b := range c.blocks {
		for _, m := range b.movements {
			if ownAddresses[m.From] && !ownAddresses[m.To] {
				movements = append(movements, m)
			}
		}
	}
	return movements
}

// Holds returns the balance of an address in an asset at a height. It asks the chain's state and
// not the movements.
func (c *Chain) Holds(ctx context.Context, asset, holder string, height uint64) (*big.Int, error) {
	var answer string
	if asset == "" {
		if err := c.callRPC(ctx, &answer, "eth_getBalance", holder, formatHex(height)); err != nil {
			return nil, err
		}
		return parseInteger(answer)
	}
	const balanceOf = "0x70a08231000000000000000000000000"
	ask := map[string]string{"to": asset, "data": balanceOf + strings.TrimPrefix(holder, "0x")}
	if err := c.callRPC(ctx, &answer, "eth_call", ask, formatHex(height)); err != nil {
		return nil, err
	}
	return parseInteger(answer)
}

// Claim is the service's statement about a payment to a destination that receives nothing else from
// our addresses.
type Claim struct {
	ID     string
	Asset  string
	To     string
	Amount *big.Int
	Paid   bool
	Tx     string // of the payment, if Paid
}

// Judge compares claims with the chain and returns what is wrong:
//   - a paid destination received exactly the amount, once, in the named transaction
//   - any other destination received nothing
//   - our addresses sent nothing to any other address
func (c *History) Judge(claims []Claim, ownAddresses map[string]bool) (wrong []string) {
	claimed := map[[2]string]bool{}
	for _, claim := range claims {
		recipient := c.normalize(claim.To)
		claimed[[2]string{claim.Asset, recipient}] = true
		got := slices.DeleteFunc(
			c.ReceivedBy(claim.Asset, recipient), func(m Movement) bool { return !ownAddresses[m.From] },
		)
		switch {
		case !claim.Paid && len(got) > 0:
			wrong = append(
				wrong,
				fmt.Sprintf(
					"%s was not paid, says the service, and %s received %s in %s", claim.ID, recipient, got[0].Amount,
					got[0].Tx,
				),
			)
		case claim.Paid && len(got) != 1:
			wrong = append(wrong, fmt.Sprintf("%s: %s was paid %d times, want once", claim.ID, recipient, len(got)))
		case claim.Paid && (got[0].Amount.Cmp(claim.Amount) != 0 || got[0].Tx != c.normalize(claim.Tx)):
			wrong = append(
				wrong,
				fmt.Sprintf(
					"%s: %s received %s in %s from %s, want %s in %s from us", claim.ID, recipient, got[0].Amount,
					got[0].Tx, got[0].From, claim.Amount, claim.Tx,
				),
			)
		}
	}
	for _, m := range c.MovedOut(ownAddresses) {
		if !claimed[[2]string{m.Asset, m.To}] {
			wrong = append(
				wrong,
				fmt.Sprintf(
					"%s of %q went from %s to %s in %s without a request", m.Amount, m.Asset, m.From, m.To, m.Tx,
				),
			)
		}
	}
	return wrong
}

// node is the URL of a chain's node.
type node struct{ url string }

// callRPC makes one JSON-RPC call.
func (c node) callRPC(ctx context.Context, target any, method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", method, answer.Error.Message)
	}
	if len(answer.Result) == 0 || string(answer.Result) == "null" {
		return fmt.Errorf("%s: %w", method, errNothing)
	}
	return json.Unmarshal(answer.Result, target)
}

var errNothing = errors.New("the chain has no answer")

func formatHex(n uint64) string { return "0x" + strconv.FormatUint(n, 16) }

func parseNumber(text string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
}

func parseInteger(text string) (*big.Int, error) {
	n, ok := new(big.Int).SetString(strings.TrimPrefix(text, "0x"), 16)
	if !ok {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// topicAddress returns the address in the last twenty bytes of a topic.
func topicAddress(topic string) string {
	if len(topic) != 66 {
		return topic
	}
	return "0x" + toLower(topic[26:])
}

func toLower(s string) string { return strings.ToLower(s) }
