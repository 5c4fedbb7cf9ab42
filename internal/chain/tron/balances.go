package tron

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// undoMax is how many blocks a balance is taken back over, ten minutes of the chain.
	undoMax = 200
	// stillTries is how often balances are asked until no block comes meanwhile.
	stillTries = 5
)

// Balances asks one provider after the other until as many as have to agree on a final
// block give the same balances.
//
// Nodes tell balances as they are now, and not in which block. So they are asked between
// two looks at the head that show the same block; behind an endpoint that spreads
// requests over several nodes that proves nothing, and such endpoints must not be
// configured. What was in an earlier block is found by undoing all since, by their own
// results; a token that then comes out below zero has lied, and gives no balance. Over
// undoMax blocks it is chain.ErrStateGone.
func (c *Client) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	if len(of) == 0 {
		return nil, nil
	}
	amounts, err := several.Balances(ctx, c.providers, c.Agree, of, func(ctx context.Context, p *provider) ([]money.Amount, error) {
		return p.balances(ctx, at, of, c.Internal)
	})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, chain.Tron, err)
	}
	return amounts, nil
}

// A weighing is what somebody holds now, and what came and went since a block.
type weighing struct {
	of      chain.Holding
	now     money.Amount
	in, out money.Amount
	silent  string // why the provider says that the token gives no balance
}

func (p *provider) balances(ctx context.Context, at chain.Block, of []chain.Holding, internals bool) ([]money.Amount, error) {
	final, err := p.onChain(ctx, at)
	if err != nil {
		return nil, err
	}
	state := newest
	if final {
		state = solid
	}
	all, head, err := p.still(ctx, state, of)
	if err != nil {
		return nil, err
	}
	if err := p.undo(ctx, state, at, head, all, internals); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(of))
	var silent chain.SilentError
	for i := range all {
		w := &all[i]
		if w.silent == "" {
			had, err := w.now.Add(w.out)
			if err != nil {
				return nil, fmt.Errorf("%s: %s in %q: %w", p.name, w.of.Address, w.of.Contract, err)
			}
			if amounts[i], err = had.Sub(w.in); err != nil {
				w.silent = fmt.Sprintf("%s has %v of it, after %v in and %v out: its events do not add up", w.of.Address, w.now, w.in, w.out)
			}
		}
		switch {
		case w.silent == "":
		case w.of.Contract == "":
			return nil, fmt.Errorf("%s: TRX: %s", p.name, w.silent)
		default:
			silent.Of, silent.Reason = append(silent.Of, w.of), w.silent
		}
	}
	if len(silent.Of) > 0 {
		return nil, fmt.Errorf("%s: %w", p.name, &silent)
	}
	return amounts, nil
}

// still asks for balances between two looks at the head that show the same block.
func (p *provider) still(ctx context.Context, of view, holdings []chain.Holding) ([]weighing, header, error) {
	before, err := p.header(ctx, of, "")
	if err != nil {
		return nil, header{}, err
	}
	for range stillTries {
		all := make([]weighing, len(holdings))
		for i, h := range holdings {
			all[i].of = h
			if h.Contract == "" {
				a, err := p.account(ctx, of, h.Address)
				if err != nil {
					return nil, header{}, err
				}
				all[i].now = money.Units(uint64(a.Balance))
				continue
			}
			if all[i].now, all[i].silent, err = p.tokens(ctx, of, h); err != nil {
				return nil, header{}, err
			}
		}
		after, err := p.header(ctx, of, "")
		if err != nil {
			return nil, header{}, err
		}
		if after.id == before.id {
			return all, after, nil
		}
		before = after
	}
	return nil, header{}, fmt.Errorf("%s: its head moved on each time while balances were asked", p.name)
}

// undo takes back what happened between a block and the head, from the head down: each
// block names the one before.
func (p *provider) undo(ctx context.Context, of view, at chain.Block, head header, all []weighing, internals bool) error {
	if head.height < at.Height {
		return fmt.Errorf("%s: its head is %d, below block %d: %w", p.name, head.height, at.Height, chain.ErrNotYet)
	}
	if head.height-at.Height > undoMax {
		return fmt.Errorf("%s: tells balances of block %d, %d blocks later: %w", p.name, head.height, head.height-at.Height, chain.ErrStateGone)
	}
	next := head.hash()
	for height := head.height; height > at.Height; height-- {
		c, err := p.contents(ctx, of, next, internals)
		if err != nil {
			return err
		}
		for i := range all {
			if err := all[i].undo(c); err != nil {
				return fmt.Errorf("%s: block %d: %w", p.name, c.Height, err)
			}
		}
		next = c.Parent
	}
	if next != at.Hash {
		return fmt.Errorf("%s: came from its head to block %s at height %d, not to %s", p.name, next, at.Height, at.Hash)
	}
	return nil
}

func (w *weighing) undo(c chain.Contents) (err error) {
	add := func(to *money.Amount, amount money.Amount) {
		if err == nil {
			*to, err = to.Add(amount)
		}
	}
	for _, t := range c.Transfers {
		if t.Contract != w.of.Contract {
			continue
		}
		if t.To == w.of.Address {
			add(&w.in, t.Amount)
		}
		if t.From == w.of.Address {
			add(&w.out, t.Amount)
		}
	}
	if w.of.Contract == "" {
		for _, f := range c.Fees {
			if f.Payer == w.of.Address {
				add(&w.out, f.Amount)
			}
		}
	}
	return err
}
