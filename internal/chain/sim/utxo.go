package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// With Config.UTXO every transfer of a transaction creates an output. A transaction that this
// package's Sender sends spends the outputs of its slot whole. It needs no signature: SignPayload
// stands in for the signer.

// utxoTx is a transaction of the Sender; its bytes are its JSON.
type utxoTx struct {
	SlotKey  string          `json:"lease"`
	Payments []chain.Payment `json:"pays"`
	Fee      money.Amount    `json:"fee"`
}

// SignPayload returns the bytes of a payload and their hash.
func SignPayload(payload []byte) (raw []byte, hash chain.TxHash) {
	return payload, chain.TxHash(hashWords("coins", string(payload)))
}

// formatSlotKey formats outputs as their outpoint, amount and owner, followed by the address that
// receives the change.
func formatSlotKey(coins []chain.Output, change chain.Address) string {
	var b strings.Builder
	for _, c := range coins {
		fmt.Fprintf(&b, "%s:%v:%s ", c.Outpoint, c.Amount, c.Owner)
	}
	return b.String() + string(change)
}

func parseSlotKey(text string) (coins []chain.Output, change chain.Address, err error) {
	words := strings.Split(text, " ")
	for _, w := range words[:len(words)-1] {
		parts := strings.Split(w, ":")
		if len(parts) != 4 {
			return nil, "", fmt.Errorf("%q is no coin", w)
		}
		amount, err := money.Parse(parts[2])
		if err != nil {
			return nil, "", err
		}
		coins = append(coins, chain.Output{
			Outpoint: parts[0] + ":" + parts[1], Owner: chain.Address(parts[3]), Amount: amount,
		})
	}
	return coins, chain.Address(words[len(words)-1]), nil
}

// utxoModel spends at most so many outputs at once, or any number if inputs is 0.
type utxoModel struct{ inputs int }

// SelectOutputs implements chain.UTXOModel: it takes outputs in their order until they suffice.
func (p utxoModel) SelectOutputs(
	required, available []chain.Output, change chain.Address, price chain.Fees, ps ...chain.Payment,
) (string, chain.Fees, error) {
	need := price.NonGas
	for _, p := range ps {
		var err error
		if need, err = need.Add(p.Amount); err != nil {
			return "", price, err
		}
	}
	chosen, sum := slices.Clone(required), money.Zero
	tooMany := false
	for i, c := range slices.Concat(required, available) {
		if i >= len(required) {
			if !sum.Less(need) {
				break
			}
			if p.inputs > 0 && i >= p.inputs {
				tooMany = true
				break
			}
			chosen = append(chosen, c)
		}
		var err error
		if sum, err = sum.Add(c.Amount); err != nil {
			return "", price, err
		}
	}
	if missing, err := need.Sub(sum); err == nil && !missing.IsZero() {
		return "", price, &chain.InsufficientOutputsError{Missing: missing, TooManyInputs: tooMany}
	}
	return formatSlotKey(chosen, change), price, nil
}

// Inputs implements chain.UTXOModel.
func (utxoModel) Inputs(text string) ([]chain.Output, error) {
	coins, _, err := parseSlotKey(text)
	return coins, err
}

// consolidator implements chain.Consolidator.
type consolidator struct{ *Chain }

func (m consolidator) QuoteConsolidation(ctx context.Context) (chain.Fees, bool, error) {
	price, err := utxoSender(m).TransferFees(ctx)
	return price, !money.Units(m.conf.ConsolidationFeeMax).Less(price.NonGas), err
}

func (m consolidator) ConsolidationRange(price chain.Fees) (amountAbove, amountMax money.Amount) {
	return price.NonGas, money.Units(100)
}

func (m consolidator) InputCounts() (countMin, countMax int) {
	return m.conf.ConsolidationMin, 2 * m.conf.ConsolidationMin
}

func (m consolidator) MaxPaymentInputs() int { return m.conf.InputsMax }

func (m consolidator) Consolidate(
	coins []chain.Output, change chain.Address, price chain.Fees,
) (string, chain.Fees, error) {
	return formatSlotKey(coins, change), price, nil
}

// utxoSender is the chain with Config.UTXO.
type utxoSender struct{ *Chain }

// BatchSize implements chain.Sender: a transaction makes any number of payments.
func (utxoSender) BatchSize(ps []chain.Payment) int { return max(1, len(ps)) }

// Quote implements chain.Sender.
func (s utxoSender) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	s.mu.Lock()
	for _, p := range ps {
		if err := s.checkPayment(p); err != nil {
			s.mu.Unlock()
			return chain.Fees{}, err
		}
	}
	s.mu.Unlock()
	return s.TransferFees(ctx)
}

// TransferFees implements chain.Sender.
func (s utxoSender) TransferFees(ctx context.Context) (chain.Fees, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return chain.Fees{NonGas: money.Units(s.baseFee)}, ctx.Err()
}

// Bump implements chain.Sender.
func (s utxoSender) Bump(ctx context.Context, last chain.Fees) (chain.Fees, bool, error) {
	higher, err := raisePercent(last.NonGas, 13)
	if err != nil {
		return last, false, err
	}
	return chain.Fees{NonGas: higher}, !money.Units(s.conf.FeeCap).Less(higher), ctx.Err()
}

// Build implements chain.Sender.
func (utxoSender) Build(_ chain.Address, slot chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	t := utxoTx{SlotKey: slot.Key, Payments: ps, Fee: fees.NonGas}
	if _, err := t.toTx(""); err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// toTx returns the transaction as the chain runs it: its payments and its change.
func (s utxoTx) toTx(hash chain.TxHash) (*tx, error) {
	coins, change, err := parseSlotKey(s.SlotKey)
	if err != nil {
		return nil, err
	}
	remaining := money.Zero
	t := &tx{hash: hash, inputs: coins, feeCap: s.Fee}
	for i, c := range coins {
		if remaining, err = remaining.Add(c.Amount); err != nil {
			return nil, err
		}
		if i == 0 {
			t.from = c.Owner
		} else if t.from != c.Owner {
			t.from = ""
		}
	}
	addOutput := func(to chain.Address, amount money.Amount) {
		t.moves = append(t.moves, Move{Kind: chain.Native, From: t.from, To: to, Amount: amount})
	}
	for _, payment := range append([]chain.Payment{{Amount: s.Fee}}, s.Payments...) {
		left, err := remaining.Sub(payment.Amount)
		if err != nil {
			return nil, &chain.InsufficientOutputsError{Missing: payment.Amount}
		}
		remaining = left
		if payment.To != "" {
			addOutput(payment.To, payment.Amount)
		}
	}
	if !remaining.IsZero() {
		addOutput(change, remaining)
	}
	return t, nil
}

// Send implements chain.Sender. A transaction that shares an output with a waiting one replaces it
// if it pays more.
func (s utxoSender) Send(_ context.Context, raw []byte) (chain.Answer, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.providers[0]
	if p.downErr != nil {
		return chain.Unknown, p.downErr.Error()
	}
	var decoded utxoTx
	if err := json.Unmarshal(raw, &decoded); err != nil {
		return chain.Unknown, err.Error()
	}
	_, hash := SignPayload(raw)
	t, err := decoded.toTx(hash)
	switch {
	case err != nil:
		return chain.Unknown, err.Error()
	case p.sendRefusal != "":
		return chain.Unknown, p.sendRefusal
	case s.hasTx(hash):
		return chain.Known, "already known"
	case !s.tipBlock().state.hasUnspent(t.inputs):
		return chain.Unknown, "missing inputs"
	}
	for _, w := range s.mempool {
		if w.sharesInput(t) && !w.feeCap.Less(t.feeCap) {
			return chain.Unknown, "insufficient fee"
		}
	}
	s.mempool = slices.DeleteFunc(s.mempool, func(w *tx) bool { return w.sharesInput(t) })
	s.mempool = append(s.mempool, t)
	if p.losesAnswers {
		return chain.Unknown, "unexpected EOF"
	}
	return chain.Accepted, "accepted"
}

// Account implements chain.Sender: it says where the outputs of slots are spent.
func (s utxoSender) Account(ctx context.Context, _ chain.Address, open ...chain.Slot) (chain.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	online, err := s.onlineProviders()
	if err != nil {
		return chain.Account{}, errors.Join(err, ctx.Err())
	}
	acct := chain.Account{KeyedSlots: true}
	for _, slot := range open {
		coins, _, err := parseSlotKey(slot.Key)
		if err != nil {
			return acct, err
		}
		var l chain.SlotState
		if s.blocks[online[0].latestHeight()].state.hasUnspent(coins) {
			l.Latest = slot.Key
		}
		// An output that no final block spends is not finally spent.
		if final := s.blocks[online[0].finalHeight()].state; !slices.ContainsFunc(
			coins, func(c chain.Output) bool { return final.spent[c.Outpoint] },
		) {
			l.Final = slot.Key
		}
		acct.Slots = append(acct.Slots, l)
	}
	return acct, nil
}

// Outcome implements chain.Sender.
func (s utxoSender) Outcome(_ context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		for _, h := range txs {
			if r, ok := b.receipts[h]; ok {
				return &chain.Outcome{
					Tx: h, Block: b.Block, Succeeded: true, Fee: r.fee,
					Paid: chain.MakesPayments(
						r.transfers, ps,
						func(t chain.Transfer, p chain.Payment) bool { return t.To == p.To && t.Amount == p.Amount },
					),
				}, nil
			}
		}
	}
	return nil, nil
}

// StealOutputs spends outputs as a thief with their keys would.
func (c *Chain) StealOutputs(to chain.Address, coins ...chain.Output) chain.TxHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scriptCount++
	t, err := utxoTx{SlotKey: formatSlotKey(coins, to)}.toTx(chain.TxHash(hashWords("stolen", c.scriptCount)))
	if err != nil {
		panic("sim: " + err.Error())
	}
	c.mempool = slices.DeleteFunc(c.mempool, func(w *tx) bool { return w.sharesInput(t) })
	c.mempool = append(c.mempool, t)
	return t.hash
}

func (t *tx) sharesInput(o *tx) bool {
	return slices.ContainsFunc(t.inputs, func(c chain.Output) bool {
		return slices.ContainsFunc(o.inputs, func(d chain.Output) bool { return c.Outpoint == d.Outpoint })
	})
}

// hasUnspent reports whether all outputs exist and are unspent.
func (s *state) hasUnspent(coins []chain.Output) bool {
	return !slices.ContainsFunc(coins, func(c chain.Output) bool { return s.coins[c.Outpoint] != c })
}

// runUTXO executes a transaction that spends outputs.
func (c *Chain) runUTXO(b *block, t *tx) {
	r := &receipt{succeeded: true}
	inputSum, outputSum := money.Zero, money.Zero
	check := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("sim: coins of %s: %v", t.hash, err))
		}
	}
	for _, coin := range t.inputs {
		delete(b.state.coins, coin.Outpoint)
		b.state.spent[coin.Outpoint] = true
		check(b.state.subBalance(chain.Holding{Address: coin.Owner}, coin.Amount))
		var err error
		inputSum, err = inputSum.Add(coin.Amount)
		check(err)
	}
	for i, m := range t.moves {
		check(b.state.addBalance(chain.Holding{Address: m.To}, m.Amount))
		var err error
		outputSum, err = outputSum.Add(m.Amount)
		check(err)
		r.transfers = append(r.transfers, chain.Transfer{
			Tx: t.hash, Kind: chain.Native, Position: fmt.Sprint(i), From: t.from, To: m.To, Amount: m.Amount,
		})
	}
	var err error
	r.fee, err = inputSum.Sub(outputSum)
	check(err)
	b.receipts[t.hash] = r
	b.Transfers = append(b.Transfers, r.transfers...)
	b.state.addOutputs(r.transfers)
}

// addOutputs adds an output for each transfer.
func (s *state) addOutputs(transfers []chain.Transfer) {
	for _, t := range transfers {
		outpoint := string(t.Tx) + ":" + t.Position
		s.coins[outpoint] = chain.Output{Outpoint: outpoint, Owner: t.To, Amount: t.Amount}
	}
}
