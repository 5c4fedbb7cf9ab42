package sim

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Gas of a transfer.
const (
	nativeGas = 21_000
	tokenGas  = 55_000
)

// tx is a transaction that a key signed or a script made.
type tx struct {
	hash         chain.TxHash
	from         chain.Address
	nonce        uint64
	nonceAccount chain.Address // its nonce account; "" if slots are numbered
	nonceValue   string
	costMax      money.Amount // the most that it may cost on such a chain
	moves        []Move
	fails        bool
	scripted     bool // pays no fee
	inputs       []chain.Output
	gasLimit     uint64
	tip, feeCap  money.Amount
}

func (t *tx) gasUsed() uint64 {
	gas := uint64(0)
	for _, m := range t.moves {
		gas += nativeGas
		if m.Contract != "" {
			gas += tokenGas - nativeGas
		}
	}
	return max(gas, nativeGas)
}

// mineBlock makes a block of those candidates that can run. It removes them, and the transactions
// that they replace, from the pool.
func (c *Chain) mineBlock(candidates []*tx) {
	parent := c.tipBlock()
	b := &block{
		state: parent.state.cloneState(), receipts: map[chain.TxHash]*receipt{},
		senders: map[movementKey][]chain.Address{},
	}
	b.Height = parent.Height + 1
	b.Parent = parent.Hash
	b.Time = parent.Time.Add(c.conf.BlockTime + c.skipped)
	c.skipped = 0

	// Of two transactions with one nonce, the one with the higher fee comes first and wins. The
	// others keep the caller's order.
	waiting := slices.Clone(candidates)
	slices.SortStableFunc(waiting, func(x, y *tx) int {
		if haveSameSlot(x, y) && x.inputs == nil {
			return y.feeCap.Cmp(x.feeCap)
		}
		return 0
	})
	for progress := true; progress; {
		progress = false
		for i, t := range waiting {
			if t == nil || !c.canRun(b.state, t) {
				continue
			}
			b.txs = append(b.txs, t)
			if t.inputs != nil {
				c.runUTXO(b, t)
			} else {
				c.runTx(b, t)
			}
			waiting[i] = nil
			progress = true
		}
	}
	words := []any{"block", b.Parent, b.Height, c.forks}
	for _, t := range b.txs {
		words = append(words, string(t.hash))
	}
	b.Hash = hashWords(words...)
	b.Traced = !c.conf.TracesOff
	b.BalancesProven = c.conf.UTXO
	b.Verified = "receipts-root"

	slices.SortFunc(b.Fees, func(x, y chain.Fee) int { return cmp.Compare(x.Payer, y.Payer) })
	c.blocks = append(c.blocks, b)
	c.byHash[b.Hash] = b
	c.mempool = slices.DeleteFunc(c.mempool, func(t *tx) bool {
		if t.inputs != nil {
			return slices.ContainsFunc(t.inputs, func(coin chain.Output) bool { return b.state.spent[coin.Outpoint] })
		}
		return b.state.isPast(t)
	})
}

// canRun reports whether a transaction can run now.
func (c *Chain) canRun(s *state, t *tx) bool {
	if t.inputs != nil {
		return s.hasUnspent(t.inputs)
	}
	return s.isNext(t) && c.canPay(s, t)
}

// canPay reports whether the sender can pay for the transaction, so that a block contains it.
func (c *Chain) canPay(s *state, t *tx) bool {
	if t.scripted {
		return true
	}
	need, err := t.costMax, error(nil)
	if t.nonceAccount == "" {
		if t.feeCap.Less(money.Units(c.baseFee)) {
			return false
		}
		if need, err = t.feeCap.Mul(t.gasLimit); err != nil {
			return false
		}
	}
	for _, m := range t.moves {
		if m.Kind == chain.Native && m.From == t.from {
			if need, err = need.Add(m.Amount); err != nil {
				return false
			}
		}
	}
	return !s.balances[chain.Holding{Address: t.from}].Less(need)
}

// runTx executes a transaction on the block's state.
func (c *Chain) runTx(b *block, t *tx) {
	b.state.useSlot(t, b.Parent, b.Height, c.forks)
	r := &receipt{fee: money.Zero}
	b.receipts[t.hash] = r
	if !t.scripted {
		price, err := money.Units(c.baseFee).Add(t.tip)
		if err != nil || t.feeCap.Less(price) {
			price = t.feeCap
		}
		gas := min(t.gasUsed(), t.gasLimit)
		if r.fee, err = price.Mul(gas); t.nonceAccount != "" {
			r.fee, err = t.costMax, nil
		}
		if err != nil {
			panic(fmt.Sprintf("sim: fee of %s: %v", t.hash, err))
		}
		if err := b.state.subBalance(chain.Holding{Address: t.from}, r.fee); err != nil {
			panic(fmt.Sprintf("sim: fee of %s: %v", t.hash, err))
		}
		b.addFee(t.from, r.fee)
	}

	after := b.state.cloneState()
	if t.fails || !t.scripted && t.nonceAccount == "" && t.gasUsed() > t.gasLimit {
		return
	}
	var transfers []chain.Transfer
	senders := map[movementKey][]chain.Address{}
	logs, calls := 0, 0
	for _, m := range t.moves {
		if m.Reverted {
			calls++
			continue
		}
		if err := after.applyMove(m); err != nil {
			return
		}
		moved := chain.Transfer{
			Tx: t.hash, Kind: m.Kind, Contract: m.Contract, From: m.From, To: m.To, Amount: m.Amount,
		}
		if c.conf.UTXO {
			moved.Position = strconv.Itoa(len(transfers))
		}
		switch m.Kind {
		case chain.Token:
			if m.NoEvent {
				continue
			}
			moved.Position = strconv.Itoa(logs)
			moved.LogIndex = uint64(b.countLogs() + logs)
			logs++
		case chain.Internal:
			moved.Position = strconv.Itoa(calls)
			calls++
			if c.conf.TracesOff {
				continue
			}
		}
		if m.Amount.IsZero() {
			continue
		}
		if m.MultiSender {
			moved.From = ""
			senders[movementKey{moved.Tx, moved.Kind, moved.Position}] = slices.Compact(
				slices.Sorted(slices.Values(m.Senders)),
			)
		}
		transfers = append(transfers, moved)
	}
	r.succeeded = true
	r.transfers = transfers
	b.Transfers = append(b.Transfers, transfers...)
	for _, m := range t.moves {
		if len(m.References) > 0 && len(transfers) > 0 {
			if b.Mentioned == nil {
				b.Mentioned = map[chain.TxHash]chain.AddressList{}
			}
			b.Mentioned[t.hash] = chain.NewAddressList(m.References...)
		}
	}
	maps.Copy(b.senders, senders)
	if c.conf.UTXO {
		after.addOutputs(transfers)
	}
	b.state = after
}

func (b *block) countLogs() int {
	n := 0
	for _, t := range b.Transfers {
		if t.Kind == chain.Token {
			n++
		}
	}
	return n
}

func (b *block) addFee(payer chain.Address, fee money.Amount) {
	for i := range b.Fees {
		if b.Fees[i].Payer == payer {
			if sum, err := b.Fees[i].Amount.Add(fee); err == nil {
				b.Fees[i].Amount = sum
			}
			return
		}
	}
	b.Fees = append(b.Fees, chain.Fee{Payer: payer, Amount: fee})
}

// applyMove moves the amount that a movement actually moves.
func (s *state) applyMove(m Move) error {
	payee := chain.Holding{Address: m.To, Contract: m.Contract}
	if reason, refused := s.refusals[payee]; refused {
		return &chain.RevertedError{Reason: reason}
	}
	amount := m.Amount
	if m.ActualAmount != nil {
		amount = *m.ActualAmount
	}
	if amount.IsZero() {
		return nil
	}
	if err := s.subBalance(chain.Holding{Address: m.From, Contract: m.Contract}, amount); err != nil {
		return &chain.RevertedError{Reason: "transfer amount exceeds balance", Cause: chain.CauseFunds}
	}
	return s.addBalance(payee, amount)
}

// raisePercent raises an amount by a percentage, rounded up, as nodes demand for a replacement.
func raisePercent(a money.Amount, percent int64) (money.Amount, error) {
	n := new(big.Int).Mul(a.Big(), big.NewInt(100+percent))
	n.Add(n, big.NewInt(99))
	return money.FromBig(n.Div(n, big.NewInt(100)))
}
