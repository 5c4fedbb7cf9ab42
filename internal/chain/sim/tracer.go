package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
)

var _ chain.Tracer = (*Chain)(nil)

var (
	errTooMuch = errors.New("answer is longer than is allowed")
	errNoTrace = errors.New("providers do not say the same")
)

// NoTraces makes the provider answer every question for traces with an error; nil brings them back.
func (p *Provider) NoTraces(err error) { p.set(func() { p.traceless = err }) }

// BlindTo makes the provider unable to tell which balances a transaction changed.
func (p *Provider) BlindTo(tx chain.TxHash, on bool) {
	p.set(func() {
		p.blind = maps.Clone(p.blind)
		if p.blind == nil {
			p.blind = map[chain.TxHash]bool{}
		}
		p.blind[tx] = on
	})
}

// Heavy makes the calls of a transaction longer than is allowed to so many attempts.
func (p *Provider) Heavy(tx chain.TxHash, attempts int) {
	p.set(func() {
		if p.heavy == nil {
			p.heavy = map[chain.TxHash]int{}
		}
		p.heavy[tx] = attempts
	})
}

// HideTouched makes the provider leave out an address where it tells whose balances changed.
func (p *Provider) HideTouched(a chain.Address, on bool) {
	p.set(func() {
		if p.hidden == nil {
			p.hidden = map[chain.Address]bool{}
		}
		p.hidden[a] = on
	})
}

// Invent makes the provider say that these moved inside a transaction, whatever did, and that
// they changed balances; nil takes that back.
func (p *Provider) Invent(tx chain.TxHash, moved []chain.Transfer) {
	p.set(func() {
		if p.invented == nil {
			p.invented = map[chain.TxHash][]chain.Transfer{}
		}
		if p.invented[tx] = moved; moved == nil {
			delete(p.invented, tx)
		}
	})
}

// traces tells whether Internal movements are told by Tracer alone.
func (c *Chain) traces() bool { return !c.conf.Untraced && !c.conf.Coins && !c.leased() }

// opinions are how many providers have to answer.
func (c *Chain) opinions(by chain.Opinions) int {
	switch by {
	case chain.One:
		return 1
	case chain.Enough:
		return c.conf.Agree
	}
	return len(c.providers)
}

// Touched implements chain.Tracer.
func (c *Chain) Touched(ctx context.Context, at chain.Block, by chain.Opinions) (chain.Touched, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.traced(ctx, at)
	if err != nil || !c.traces() {
		return chain.Touched{}, err
	}
	told := chain.Touched{Traced: true}
	need, heard := c.opinions(by), false
	known := map[chain.TxHash]bool{}
	type key struct {
		tx chain.TxHash
		a  chain.Address
	}
	all := map[key]*big.Int{}
	var problem error
	for _, p := range c.providers {
		if need == 0 {
			break
		}
		if why := cmp.Or(p.down, p.traceless); why != nil {
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, why))
			continue
		}
		heard = true
		whole := true
		for _, t := range b.txs {
			if !t.calls() {
				continue
			}
			if p.blind[t.hash] {
				whole = false
				continue
			}
			known[t.hash] = true
			of := changes(t, b.receipts[t.hash])
			for _, m := range p.invented[t.hash] {
				of[m.To] = nil
			}
			for a, change := range of {
				if !p.hidden[a] {
					all[key{t.hash, a}] = change
				}
			}
		}
		if whole {
			need--
		}
	}
	called := slices.ContainsFunc(b.txs, (*tx).calls)
	if called && !heard {
		return chain.Touched{}, fmt.Errorf("balances that block %d changed: %w", at.Height, problem)
	}
	for _, t := range b.txs {
		if t.calls() && !known[t.hash] {
			told.Blind = append(told.Blind, t.hash)
		}
		var of []chain.TouchedBalance
		for k, change := range all {
			if k.tx == t.hash {
				of = append(of, chain.TouchedBalance{Tx: k.tx, Address: k.a, Change: change})
			}
		}
		slices.SortFunc(of, func(a, b chain.TouchedBalance) int { return cmp.Compare(a.Address, b.Address) })
		told.Balances = append(told.Balances, of...)
	}
	return told, nil
}

// calls tells whether a contract can have run.
func (t *tx) calls() bool {
	return !t.fails && slices.ContainsFunc(t.moves, func(m Move) bool { return m.Kind != chain.Native })
}

// changes are the native balances that a transaction changed.
func changes(t *tx, r *receipt) map[chain.Address]*big.Int {
	of := map[chain.Address]*big.Int{}
	change := func(a chain.Address, by *big.Int) {
		if of[a] == nil {
			of[a] = new(big.Int)
		}
		of[a].Add(of[a], by)
	}
	change(t.from, new(big.Int).Neg(r.fee.Big()))
	for _, m := range r.transfers {
		if m.Contract == "" {
			change(m.From, new(big.Int).Neg(m.Amount.Big()))
			change(m.To, m.Amount.Big())
		}
	}
	maps.DeleteFunc(of, func(_ chain.Address, by *big.Int) bool { return by.Sign() == 0 })
	return of
}

// traced is the block of a question.
func (c *Chain) traced(ctx context.Context, at chain.Block) (*block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, ok := c.byHash[at.Hash]
	if !ok {
		return nil, fmt.Errorf("traces of block %s: no provider knows the block", at.Hash)
	}
	return b, nil
}

// Moved implements chain.Tracer.
func (c *Chain) Moved(ctx context.Context, q chain.MovedQuestion) ([]chain.Transfer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.traced(ctx, q.At)
	if err != nil {
		return nil, err
	}
	to := func(all []chain.Transfer) (found []chain.Transfer) {
		for _, t := range all {
			if t.Tx == q.Tx && t.Kind == chain.Internal && slices.Contains(q.To, t.To) {
				found = append(found, t)
			}
		}
		return found
	}
	need := c.opinions(q.By)
	var said [][]chain.Transfer
	problem := errNoTrace
	for _, p := range c.providers {
		moved := to(b.Transfers)
		if lie, ok := p.invented[q.Tx]; ok {
			moved = to(lie)
		}
		switch why := cmp.Or(p.down, p.traceless); {
		case why != nil:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, why))
			continue
		case p.heavy[q.Tx] > q.Attempt:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, errTooMuch))
			continue
		}
		if q.Fits != nil {
			if err := q.Fits(moved); err != nil {
				problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, err))
				continue
			}
		}
		said = append(said, moved)
		same := 0
		for _, s := range said {
			if slices.Equal(s, moved) {
				same++
			}
		}
		if same >= need {
			return moved, nil
		}
	}
	return nil, fmt.Errorf("calls of %s: %w", q.Tx, problem)
}
