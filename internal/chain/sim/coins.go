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

// With Config.Coins accounts are coins: every movement of a transaction is an output, and
// what is sent with this package's Sender spends the coins of its slot, whole. Nobody has
// to sign: Signed makes of a payload what a signer would.

// spend is a transaction of ours in words; its bytes are these in JSON.
type spend struct {
	Lease string          `json:"lease"`
	Pays  []chain.Payment `json:"pays"`
	Fee   money.Amount    `json:"fee"`
}

// Signed are the bytes of a payload and their hash.
func Signed(payload []byte) (raw []byte, hash chain.TxHash) {
	return payload, chain.TxHash(digest("coins", string(payload)))
}

// lease names coins as their outpoint, amount and holder, and where their rest goes.
func lease(coins []chain.Coin, change chain.Address) string {
	var b strings.Builder
	for _, c := range coins {
		fmt.Fprintf(&b, "%s:%v:%s ", c.Outpoint, c.Amount, c.Holder)
	}
	return b.String() + string(change)
}

func leased(text string) (coins []chain.Coin, change chain.Address, err error) {
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
		coins = append(coins, chain.Coin{Outpoint: parts[0] + ":" + parts[1], Holder: chain.Address(parts[3]), Amount: amount})
	}
	return coins, chain.Address(words[len(words)-1]), nil
}

// pool spends so many coins at once, and any number with 0.
type pool struct{ inputs int }

// Choose implements chain.Pool: coins in their order until they suffice.
func (p pool) Choose(must, from []chain.Coin, change chain.Address, price chain.Fees, ps ...chain.Payment) (string, chain.Fees, error) {
	need := price.Beside
	for _, p := range ps {
		var err error
		if need, err = need.Add(p.Amount); err != nil {
			return "", price, err
		}
	}
	chosen, sum := slices.Clone(must), money.Zero
	more := false
	for i, c := range slices.Concat(must, from) {
		if i >= len(must) {
			if !sum.Less(need) {
				break
			}
			if p.inputs > 0 && i >= p.inputs {
				more = true
				break
			}
			chosen = append(chosen, c)
		}
		var err error
		if sum, err = sum.Add(c.Amount); err != nil {
			return "", price, err
		}
	}
	if short, err := need.Sub(sum); err == nil && !short.IsZero() {
		return "", price, &chain.ShortError{By: short, More: more}
	}
	return lease(chosen, change), price, nil
}

// Spends implements chain.Pool.
func (pool) Spends(text string) ([]chain.Coin, error) {
	coins, _, err := leased(text)
	return coins, err
}

// merges implements chain.Merges.
type merges struct{ *Chain }

func (m merges) Price(ctx context.Context) (chain.Fees, bool, error) {
	price, err := sender(m).TransferFees(ctx)
	return price, !money.Units(m.conf.MergeFee).Less(price.Beside), err
}

func (m merges) Small(price chain.Fees) (over, upto money.Amount) {
	return price.Beside, money.Units(100)
}

func (m merges) Bounds() (least, most int) { return m.conf.MergeFrom, 2 * m.conf.MergeFrom }

func (m merges) Reach() int { return m.conf.Inputs }

func (m merges) Merge(coins []chain.Coin, change chain.Address, price chain.Fees) (string, chain.Fees, error) {
	return lease(coins, change), price, nil
}

// sender is the chain where accounts are coins.
type sender struct{ *Chain }

// Fits implements chain.Sender: a transaction makes any number of payments.
func (sender) Fits(ps []chain.Payment) int { return max(1, len(ps)) }

// Quote implements chain.Sender.
func (s sender) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	s.mu.Lock()
	for _, p := range ps {
		if err := s.payable(p); err != nil {
			s.mu.Unlock()
			return chain.Fees{}, err
		}
	}
	s.mu.Unlock()
	return s.TransferFees(ctx)
}

// TransferFees implements chain.Sender.
func (s sender) TransferFees(ctx context.Context) (chain.Fees, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return chain.Fees{Beside: money.Units(s.baseFee)}, ctx.Err()
}

// Bump implements chain.Sender.
func (s sender) Bump(ctx context.Context, last chain.Fees) (chain.Fees, bool, error) {
	more, err := raised(last.Beside, 13)
	if err != nil {
		return last, false, err
	}
	return chain.Fees{Beside: more}, !money.Units(s.conf.FeeCap).Less(more), ctx.Err()
}

// Build implements chain.Sender.
func (sender) Build(_ chain.Address, at chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	t := spend{Lease: at.Lease, Pays: ps, Fee: fees.Beside}
	if _, err := t.tx(""); err != nil {
		return nil, err
	}
	return json.Marshal(t)
}

// tx is a transaction as the chain runs it: what it pays, and the rest.
func (s spend) tx(hash chain.TxHash) (*tx, error) {
	coins, change, err := leased(s.Lease)
	if err != nil {
		return nil, err
	}
	rest := money.Zero
	t := &tx{hash: hash, spends: coins, cap: s.Fee}
	for i, c := range coins {
		if rest, err = rest.Add(c.Amount); err != nil {
			return nil, err
		}
		if i == 0 {
			t.from = c.Holder
		} else if t.from != c.Holder {
			t.from = ""
		}
	}
	out := func(to chain.Address, amount money.Amount) {
		t.moves = append(t.moves, Move{Kind: chain.Native, From: t.from, To: to, Amount: amount})
	}
	for _, less := range append([]chain.Payment{{Amount: s.Fee}}, s.Pays...) {
		left, err := rest.Sub(less.Amount)
		if err != nil {
			return nil, &chain.ShortError{By: less.Amount}
		}
		rest = left
		if less.To != "" {
			out(less.To, less.Amount)
		}
	}
	if !rest.IsZero() {
		out(change, rest)
	}
	return t, nil
}

// Send implements chain.Sender: one that shares a coin with another that waits takes its
// place when it pays more.
func (s sender) Send(_ context.Context, raw []byte) (chain.Answer, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.providers[0]
	if p.down != nil {
		return chain.Unknown, p.down.Error()
	}
	var said spend
	if err := json.Unmarshal(raw, &said); err != nil {
		return chain.Unknown, err.Error()
	}
	_, hash := Signed(raw)
	t, err := said.tx(hash)
	switch {
	case err != nil:
		return chain.Unknown, err.Error()
	case p.refusing != "":
		return chain.Unknown, p.refusing
	case s.knows(hash):
		return chain.Known, "already known"
	case !s.tip().state.has(t.spends):
		return chain.Unknown, "missing inputs"
	}
	for _, w := range s.pool {
		if w.shares(t) && !w.cap.Less(t.cap) {
			return chain.Unknown, "insufficient fee"
		}
	}
	s.pool = slices.DeleteFunc(s.pool, func(w *tx) bool { return w.shares(t) })
	s.pool = append(s.pool, t)
	if p.lose {
		return chain.Unknown, "unexpected EOF"
	}
	return chain.Accepted, "accepted"
}

// Account implements chain.Sender: where the coins of slots are.
func (s sender) Account(ctx context.Context, _ chain.Address, open ...chain.Slot) (chain.Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	up, err := s.answering()
	if err != nil {
		return chain.Account{}, errors.Join(err, ctx.Err())
	}
	acct := chain.Account{Leased: true}
	for _, at := range open {
		coins, _, err := leased(at.Lease)
		if err != nil {
			return acct, err
		}
		var l chain.Lease
		if s.blocks[up[0].latest()].state.has(coins) {
			l.Latest = at.Lease
		}
		// What is spent in no final block is not spent finally.
		if final := s.blocks[up[0].final()].state; !slices.ContainsFunc(coins, func(c chain.Coin) bool { return final.spent[c.Outpoint] }) {
			l.Final = at.Lease
		}
		acct.Leases = append(acct.Leases, l)
	}
	return acct, nil
}

// Outcome implements chain.Sender.
func (s sender) Outcome(_ context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.blocks {
		for _, h := range txs {
			if r, ok := b.receipts[h]; ok {
				return &chain.Outcome{
					Tx: h, Block: b.Block, Succeeded: true, Fee: r.fee,
					Paid: chain.Makes(r.transfers, ps, func(t chain.Transfer, p chain.Payment) bool { return t.To == p.To && t.Amount == p.Amount }),
				}, nil
			}
		}
	}
	return nil, nil
}

// Steal spends coins as somebody would who has their keys.
func (c *Chain) Steal(to chain.Address, coins ...chain.Coin) chain.TxHash {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripted++
	t, err := spend{Lease: lease(coins, to)}.tx(chain.TxHash(digest("stolen", c.scripted)))
	if err != nil {
		panic("sim: " + err.Error())
	}
	c.pool = slices.DeleteFunc(c.pool, func(w *tx) bool { return w.shares(t) })
	c.pool = append(c.pool, t)
	return t.hash
}

func (t *tx) shares(o *tx) bool {
	return slices.ContainsFunc(t.spends, func(c chain.Coin) bool {
		return slices.ContainsFunc(o.spends, func(d chain.Coin) bool { return c.Outpoint == d.Outpoint })
	})
}

// has tells whether coins are there and not spent.
func (s *state) has(coins []chain.Coin) bool {
	return !slices.ContainsFunc(coins, func(c chain.Coin) bool { return s.coins[c.Outpoint] != c })
}

// runCoins executes a transaction that spends coins.
func (c *Chain) runCoins(b *block, t *tx) {
	r := &receipt{succeeded: true}
	in, out := money.Zero, money.Zero
	must := func(err error) {
		if err != nil {
			panic(fmt.Sprintf("sim: coins of %s: %v", t.hash, err))
		}
	}
	for _, coin := range t.spends {
		delete(b.state.coins, coin.Outpoint)
		b.state.spent[coin.Outpoint] = true
		must(b.state.sub(chain.Holding{Address: coin.Holder}, coin.Amount))
		var err error
		in, err = in.Add(coin.Amount)
		must(err)
	}
	for i, m := range t.moves {
		must(b.state.add(chain.Holding{Address: m.To}, m.Amount))
		var err error
		out, err = out.Add(m.Amount)
		must(err)
		r.transfers = append(r.transfers, chain.Transfer{Tx: t.hash, Kind: chain.Native, Position: fmt.Sprint(i), From: t.from, To: m.To, Amount: m.Amount})
	}
	var err error
	r.fee, err = in.Sub(out)
	must(err)
	b.receipts[t.hash] = r
	b.Transfers = append(b.Transfers, r.transfers...)
	b.state.keep(r.transfers)
}

// keep makes coins of what arrived.
func (s *state) keep(transfers []chain.Transfer) {
	for _, t := range transfers {
		at := string(t.Tx) + ":" + t.Position
		s.coins[at] = chain.Coin{Outpoint: at, Holder: t.To, Amount: t.Amount}
	}
}
