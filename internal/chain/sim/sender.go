package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// tipPerGas is what a quote offers the block's maker.
const tipPerGas = 1_000_000_000

// Fits implements chain.Sender: as on EVM a transaction makes one payment, unless the
// chain is told otherwise.
func (c *Chain) Fits(ps []chain.Payment) int {
	if c.leased() {
		return c.fitting(ps)
	}
	return 1
}

// Quote implements chain.Sender.
func (c *Chain) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Fees{}, err
	}
	if len(ps) == 0 || len(ps) > max(1, c.fitting(ps)) {
		return chain.Fees{}, fmt.Errorf("quote of %d payments, and a transaction makes %d", len(ps), c.conf.Several)
	}
	if _, err := c.answering(); err != nil {
		return chain.Fees{}, fmt.Errorf("quote a payment of %s: %w", ps[0].From, err)
	}
	var t tx
	after := c.tip().state.copy()
	signers := map[chain.Address]bool{}
	for _, p := range ps {
		m := Move{Kind: chain.Native, Contract: p.Contract, From: p.From, To: p.To, Amount: p.Amount}
		if err := c.payable(p); err != nil {
			return chain.Fees{}, err
		}
		if err := after.apply(m); err != nil {
			return chain.Fees{}, err
		}
		t.moves = append(t.moves, m)
		signers[p.From] = true
		if p.Payer != "" {
			signers[p.Payer] = true
		}
	}
	if c.leased() {
		return offerLeased(len(ps), len(signers)), nil
	}
	return c.offer(t.gas())
}

// Minimum implements chain.Minimums.
func (c *Chain) Minimum(ctx context.Context, to chain.Address) (money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return money.Zero, err
	}
	if _, err := c.answering(); err != nil {
		return money.Zero, fmt.Errorf("smallest payment to %s: %w", to, err)
	}
	return c.minimum(to), nil
}

func (c *Chain) minimum(to chain.Address) money.Amount {
	if c.tip().state.balances[chain.Holding{Address: to}].IsZero() {
		return money.Units(max(1, c.conf.Least))
	}
	return money.Units(1)
}

// payable refuses an amount that does not reach its payee, and what is more or less than its
// token transfers at once, which it says without a cause, as tokens do.
func (c *Chain) payable(p chain.Payment) error {
	if most, limited := c.limits[p.Contract]; limited && most.Less(p.Amount) {
		return &chain.RevertedError{Reason: "more than a transfer may be"}
	}
	if p.Amount.Less(c.floors[p.Contract]) {
		return &chain.RevertedError{Reason: "less than a transfer may be"}
	}
	if c.conf.Least > 0 && p.Contract == "" && p.From != p.To && p.Amount.Less(c.minimum(p.To)) {
		return &chain.RevertedError{Reason: "less than an account may hold", Cause: chain.CauseAmount}
	}
	return nil
}

// Limit has a token refuse what is more, when it is quoted.
func (c *Chain) Limit(contract chain.Address, most money.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limits[contract] = most
}

// Floor has a token refuse what is less, when it is quoted.
func (c *Chain) Floor(contract chain.Address, least money.Amount) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.floors[contract] = least
}

// TransferFees implements chain.Sender.
func (c *Chain) TransferFees(ctx context.Context) (chain.Fees, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Fees{}, err
	}
	if _, err := c.answering(); err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer: %w", err)
	}
	if c.leased() {
		return offerLeased(1, 2), nil
	}
	return c.offer(tokenGas)
}

// offer is fees that the next blocks take, within the cap.
func (c *Chain) offer(gas uint64) (chain.Fees, error) {
	most := money.Units(c.conf.FeeCap)
	tip := money.Units(min(tipPerGas, c.conf.FeeCap))
	perGas, err := money.Units(2 * c.baseFee).Add(tip)
	if err != nil {
		return chain.Fees{}, err
	}
	if most.Less(perGas) {
		perGas = most
	}
	return chain.Fees{GasLimit: gas, TipCap: tip, FeeCap: perGas}, nil
}

// Bump implements chain.Sender.
func (c *Chain) Bump(ctx context.Context, last chain.Fees) (chain.Fees, bool, error) {
	if err := ctx.Err(); err != nil {
		return chain.Fees{}, false, err
	}
	if c.leased() {
		return bumpLeased(last)
	}
	tip, err := raised(last.TipCap, 13)
	if err != nil {
		return chain.Fees{}, false, err
	}
	perGas, err := raised(last.FeeCap, 13)
	if err != nil {
		return chain.Fees{}, false, err
	}
	if money.Units(c.conf.FeeCap).Less(perGas) {
		return chain.Fees{}, false, nil
	}
	return chain.Fees{GasLimit: last.GasLimit, TipCap: tip, FeeCap: perGas}, true, nil
}

// Send implements chain.Sender. The best of the providers' answers counts.
func (c *Chain) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Unknown, err.Error()
	}
	best, said := chain.Unknown, ""
	for _, p := range c.providers {
		answer, words := p.send(raw)
		if said == "" || best == chain.Unknown && answer != chain.Unknown {
			best, said = answer, words
		}
	}
	return best, said
}

func (p *Provider) send(raw []byte) (chain.Answer, string) {
	c := p.c
	if p.down != nil {
		return chain.Unknown, p.down.Error()
	}
	read := func() (*tx, error) { return decode(c.conf.ChainID, raw) }
	if c.leased() {
		read = func() (*tx, error) { return c.decodeLeased(raw) }
	}
	t, err := read()
	if err != nil {
		return chain.Unknown, err.Error()
	}
	switch {
	case p.refusing != "":
		return chain.Unknown, p.refusing
	case p.swallow:
		c.swallowed[t.hash] = t
		return chain.Accepted, "accepted"
	case c.knows(t.hash):
		return chain.Known, "already known"
	}
	if err := c.accept(t); err != nil {
		return chain.Unknown, err.Error()
	}
	if p.lose {
		return chain.Unknown, "unexpected EOF"
	}
	return chain.Accepted, "accepted"
}

func (c *Chain) knows(h chain.TxHash) bool {
	return slices.ContainsFunc(c.pool, func(t *tx) bool { return t.hash == h })
}

// accept puts a transaction into the pool by the rules of real nodes.
func (c *Chain) accept(t *tx) error {
	if t.place != "" {
		switch s := c.tip().state; {
		case !s.takes(t):
			return errors.New("blockhash not found")
		case s.balances[chain.Holding{Address: t.from}].Less(t.most):
			return errors.New("attempt to debit an account but found no record of a prior credit")
		}
		c.pool = append(c.pool, t) // beside others for its place: whichever comes first takes it
		return nil
	}
	if t.nonce < c.tip().state.nonces[t.from] {
		return errors.New("nonce too low")
	}
	for i, waiting := range c.pool {
		if waiting.from != t.from || waiting.nonce != t.nonce {
			continue
		}
		if waiting.hash == t.hash {
			return nil
		}
		tip, err := raised(waiting.tip, 10)
		if err != nil {
			return err
		}
		perGas, err := raised(waiting.cap, 10)
		if err != nil {
			return err
		}
		if t.tip.Less(tip) || t.cap.Less(perGas) {
			return errors.New("replacement transaction underpriced")
		}
		c.pool = slices.Delete(c.pool, i, i+1)
		break
	}
	if kept := slices.DeleteFunc(slices.Clone(c.pool), func(w *tx) bool { return w.from != t.from }); c.conf.PoolSlots > 0 && len(kept) >= c.conf.PoolSlots {
		return errors.New("txpool is full")
	}
	need, err := t.cap.Mul(t.gasLimit)
	if err != nil {
		return err
	}
	if c.tip().state.balances[chain.Holding{Address: t.from}].Less(need) {
		return errors.New("insufficient funds for gas * price + value")
	}
	c.pool = append(c.pool, t)
	return nil
}

// answering is the providers that are up, at least one.
func (c *Chain) answering() ([]*Provider, error) {
	var up []*Provider
	var problem error
	for _, p := range c.providers {
		if p.down != nil {
			problem = errors.Join(problem, p.down)
			continue
		}
		up = append(up, p)
	}
	if len(up) == 0 {
		return nil, problem
	}
	return up, nil
}

// Account implements chain.Sender.
func (c *Chain) Account(ctx context.Context, a chain.Address, _ ...chain.Slot) (chain.Account, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Account{}, err
	}
	up, err := c.answering()
	if err != nil {
		return chain.Account{}, fmt.Errorf("account %s: %w", a, err)
	}
	var acc chain.Account
	for i, p := range up {
		latest, final := c.blocks[p.latest()].state.nonces[a], c.blocks[p.final()].state.nonces[a]
		if i == 0 || latest < acc.Latest {
			acc.Latest = latest
		}
		if i == 0 || final < acc.Final {
			acc.Final = final
		}
	}
	if c.leased() {
		acc = chain.Account{Leased: true}
		acc.Leases, err = c.leases(a, up[0].latest(), up[0].final())
	}
	return acc, err
}

// Outcome implements chain.Sender.
func (c *Chain) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	up, err := c.answering()
	if err != nil {
		return nil, fmt.Errorf("outcome of %v: %w", txs, err)
	}
	seen := uint64(0)
	for _, provider := range up {
		seen = max(seen, provider.latest())
	}
	for _, b := range c.blocks[:seen+1] {
		for _, h := range txs {
			r, ok := b.receipts[h]
			if !ok {
				continue
			}
			o := &chain.Outcome{Tx: h, Block: b.Block, Succeeded: r.succeeded, Fee: r.fee}
			o.Paid = chain.Makes(r.transfers, ps, func(moved chain.Transfer, p chain.Payment) bool {
				return moved.From == p.From && moved.To == p.To && moved.Contract == p.Contract && moved.Amount == p.Amount
			})
			return o, nil
		}
	}
	return nil, nil
}
