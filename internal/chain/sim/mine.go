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

// What a transfer costs in gas.
const (
	nativeGas = 21_000
	tokenGas  = 55_000
)

// tx is a transaction, signed by a key or scripted.
type tx struct {
	hash     chain.TxHash
	from     chain.Address
	nonce    uint64
	place    chain.Address // the nonce account, with the value that it has to have; "" where places are numbered
	value    string
	most     money.Amount // what it may cost there
	moves    []Move
	fails    bool
	scripted bool // pays no fee
	spends   []chain.Coin
	gasLimit uint64
	tip, cap money.Amount
}

func (t *tx) gas() uint64 {
	gas := uint64(0)
	for _, m := range t.moves {
		gas += nativeGas
		if m.Contract != "" {
			gas += tokenGas - nativeGas
		}
	}
	return max(gas, nativeGas)
}

// mine makes a block of those transactions that can run, and takes them, and
// what they replace, out of the pool.
func (c *Chain) mine(candidates []*tx) {
	parent := c.tip()
	b := &block{state: parent.state.copy(), receipts: map[chain.TxHash]*receipt{}, senders: map[place][]chain.Address{}}
	b.Height = parent.Height + 1
	b.Parent = parent.Hash
	b.Time = parent.Time.Add(c.conf.BlockTime)

	// Replacements first, so that the better paid of two in one nonce wins;
	// for the rest the order is the caller's.
	waiting := slices.Clone(candidates)
	slices.SortStableFunc(waiting, func(x, y *tx) int {
		if rivals(x, y) && x.spends == nil {
			return y.cap.Cmp(x.cap)
		}
		return 0
	})
	for progress := true; progress; {
		progress = false
		for i, t := range waiting {
			if t == nil || !c.fits(b.state, t) {
				continue
			}
			b.txs = append(b.txs, t)
			if t.spends != nil {
				c.runCoins(b, t)
			} else {
				c.run(b, t)
			}
			waiting[i] = nil
			progress = true
		}
	}
	words := []any{"block", b.Parent, b.Height, c.forks}
	for _, t := range b.txs {
		words = append(words, string(t.hash))
	}
	b.Hash = digest(words...)
	b.Traced = !c.conf.Untraced
	b.Weighed = c.conf.Coins
	b.Verified = "receipts-root"

	slices.SortFunc(b.Fees, func(x, y chain.Fee) int { return cmp.Compare(x.Payer, y.Payer) })
	c.blocks = append(c.blocks, b)
	c.byHash[b.Hash] = b
	c.pool = slices.DeleteFunc(c.pool, func(t *tx) bool {
		if t.spends != nil {
			return slices.ContainsFunc(t.spends, func(coin chain.Coin) bool { return b.state.spent[coin.Outpoint] })
		}
		return b.state.past(t)
	})
}

// fits tells whether a transaction can run now.
func (c *Chain) fits(s *state, t *tx) bool {
	if t.spends != nil {
		return s.has(t.spends)
	}
	return s.takes(t) && c.canPay(s, t)
}

// canPay tells whether a block takes the transaction at all.
func (c *Chain) canPay(s *state, t *tx) bool {
	if t.scripted {
		return true
	}
	need, err := t.most, error(nil)
	if t.place == "" {
		if t.cap.Less(money.Units(c.baseFee)) {
			return false
		}
		if need, err = t.cap.Mul(t.gasLimit); err != nil {
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

// run executes a transaction on the block's state.
func (c *Chain) run(b *block, t *tx) {
	b.state.advance(t, b.Parent, b.Height, c.forks)
	r := &receipt{fee: money.Zero}
	b.receipts[t.hash] = r
	if !t.scripted {
		price, err := money.Units(c.baseFee).Add(t.tip)
		if err != nil || t.cap.Less(price) {
			price = t.cap
		}
		gas := min(t.gas(), t.gasLimit)
		if r.fee, err = price.Mul(gas); t.place != "" {
			r.fee, err = t.most, nil
		}
		if err != nil {
			panic(fmt.Sprintf("sim: fee of %s: %v", t.hash, err))
		}
		if err := b.state.sub(chain.Holding{Address: t.from}, r.fee); err != nil {
			panic(fmt.Sprintf("sim: fee of %s: %v", t.hash, err))
		}
		b.addFee(t.from, r.fee)
	}

	after := b.state.copy()
	if t.fails || !t.scripted && t.place == "" && t.gas() > t.gasLimit {
		return
	}
	var transfers []chain.Transfer
	senders := map[place][]chain.Address{}
	logs, calls := 0, 0
	for _, m := range t.moves {
		if m.Undone {
			calls++
			continue
		}
		if err := after.apply(m); err != nil {
			return
		}
		moved := chain.Transfer{Tx: t.hash, Kind: m.Kind, Contract: m.Contract, From: m.From, To: m.To, Amount: m.Amount}
		if c.conf.Coins {
			moved.Position = strconv.Itoa(len(transfers))
		}
		switch m.Kind {
		case chain.Token:
			if m.Silent {
				continue
			}
			moved.Position = strconv.Itoa(logs)
			moved.LogIndex = uint64(b.logs() + logs)
			logs++
		case chain.Internal:
			moved.Position = strconv.Itoa(calls)
			calls++
			if c.conf.Untraced {
				continue
			}
		}
		if m.Amount.IsZero() {
			continue
		}
		if m.Several {
			moved.From = ""
			senders[place{moved.Tx, moved.Kind, moved.Position}] = slices.Compact(slices.Sorted(slices.Values(m.Senders)))
		}
		transfers = append(transfers, moved)
	}
	r.succeeded = true
	r.transfers = transfers
	b.Transfers = append(b.Transfers, transfers...)
	maps.Copy(b.senders, senders)
	if c.conf.Coins {
		after.keep(transfers)
	}
	b.state = after
}

func (b *block) logs() int {
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

// apply moves what a movement really moves.
func (s *state) apply(m Move) error {
	to := chain.Holding{Address: m.To, Contract: m.Contract}
	if reason, refused := s.refuses[to]; refused {
		return &chain.RevertedError{Reason: reason}
	}
	amount := m.Amount
	if m.Moves != nil {
		amount = *m.Moves
	}
	if amount.IsZero() {
		return nil
	}
	if err := s.sub(chain.Holding{Address: m.From, Contract: m.Contract}, amount); err != nil {
		return &chain.RevertedError{Reason: "transfer amount exceeds balance", Cause: chain.CauseFunds}
	}
	return s.add(to, amount)
}

// raised is what a node wants of a replacement: a tenth more, rounded up.
func raised(a money.Amount, percent int64) (money.Amount, error) {
	n := new(big.Int).Mul(a.Big(), big.NewInt(100+percent))
	n.Add(n, big.NewInt(99))
	return money.FromBig(n.Div(n, big.NewInt(100)))
}
