package tron

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// rollBackMax is the most blocks that a balance is rolled back over: ten minutes of the chain.
	rollBackMax = 200
	// stableTries is how often balances are read until no block arrives meanwhile.
	stableTries = 5
)

// Balances asks one provider after the other until the quorum for final blocks gives the same
// balances.
//
// Nodes return current balances and do not name their block. So the adapter reads them between two
// reads of the head that show the same block. That proves nothing behind an endpoint that spreads
// requests over several nodes, and such endpoints must not be configured.
//
// To find the balance in an earlier block, the adapter undoes all later transfers by their own
// results. A token whose balance is then below zero has lied and has no balance. Over more than
// rollBackMax blocks, the error is chain.ErrStateGone.
func (c *Client) Balances(ctx context.Context, block chain.Block, holdings []chain.Holding) ([]money.Amount, error) {
	if len(holdings) == 0 {
		return nil, nil
	}
	amounts, err := quorum.AgreeOnBalances(ctx, c.providers, c.Quorum, holdings,
		func(ctx context.Context, p *provider) ([]money.Amount, error) {
			return p.readBalances(ctx, block, holdings, c.Internal)
		})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", block.Height, chain.Tron, err)
	}
	return amounts, nil
}

// balanceEntry has the current balance of a holding, and what it received and sent since a block.
type balanceEntry struct {
	holding        chain.Holding
	current        money.Amount
	received, sent money.Amount
	silent         string // why the provider says that the token gives no balance
}

func (p *provider) readBalances(
	ctx context.Context, block chain.Block, holdings []chain.Holding, internals bool,
) ([]money.Amount, error) {
	final, err := p.checkBlock(ctx, block)
	if err != nil {
		return nil, err
	}
	state := newest
	if final {
		state = solidified
	}
	entries, head, err := p.readStable(ctx, state, holdings)
	if err != nil {
		return nil, err
	}
	if err := p.rollBack(ctx, state, block, head, entries, internals); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(holdings))
	var silent chain.NoBalanceError
	for i := range entries {
		w := &entries[i]
		if w.silent == "" {
			previous, err := w.current.Add(w.sent)
			if err != nil {
				return nil, fmt.Errorf("%s: %s in %q: %w", p.name, w.holding.Address, w.holding.Contract, err)
			}
			if amounts[i], err = previous.Sub(w.received); err != nil {
				w.silent = fmt.Sprintf(
					"%s has %v of it, after %v in and %v out: its events do not explain its balance",
					w.holding.Address, w.current,
					w.received, w.sent,
				)
			}
		}
		switch {
		case w.silent == "":
		case w.holding.Contract == "":
			return nil, fmt.Errorf("%s: TRX: %s", p.name, w.silent)
		default:
			silent.Holdings, silent.Reason = append(silent.Holdings, w.holding), w.silent
		}
	}
	if len(silent.Holdings) > 0 {
		return nil, fmt.Errorf("%s: %w", p.name, &silent)
	}
	return amounts, nil
}

// readStable reads balances between two reads of the head that show the same block.
func (p *provider) readStable(
	ctx context.Context, state view, holdings []chain.Holding,
) ([]balanceEntry, header, error) {
	before, err := p.readHeader(ctx, state, "")
	if err != nil {
		return nil, header{}, err
	}
	for range stableTries {
		entries := make([]balanceEntry, len(holdings))
		for i, h := range holdings {
			entries[i].holding = h
			if h.Contract == "" {
				a, err := p.readAccount(ctx, state, h.Address)
				if err != nil {
					return nil, header{}, err
				}
				entries[i].current = money.Units(uint64(a.Balance))
				continue
			}
			if entries[i].current, entries[i].silent, err = p.readTokenBalance(ctx, state, h); err != nil {
				return nil, header{}, err
			}
		}
		after, err := p.readHeader(ctx, state, "")
		if err != nil {
			return nil, header{}, err
		}
		if after.id == before.id {
			return entries, after, nil
		}
		before = after
	}
	return nil, header{}, fmt.Errorf("%s: its head moved each time during the question about balances", p.name)
}

// rollBack adds to the entries what happened between a block and the head. It follows the parents
// from the head down.
func (p *provider) rollBack(
	ctx context.Context, state view, block chain.Block, head header, entries []balanceEntry, internals bool,
) error {
	if head.height < block.Height {
		return fmt.Errorf("%s: its head is %d, below block %d: %w", p.name, head.height, block.Height, chain.ErrNotYet)
	}
	if head.height-block.Height > rollBackMax {
		return fmt.Errorf(
			"%s: returns balances of block %d, %d blocks later: %w", p.name, head.height, head.height-block.Height,
			chain.ErrStateGone,
		)
	}
	hash := head.idText()
	for height := head.height; height > block.Height; height-- {
		c, err := p.readContents(ctx, state, hash, internals)
		if err != nil {
			return err
		}
		for i := range entries {
			if err := entries[i].addBlock(c); err != nil {
				return fmt.Errorf("%s: block %d: %w", p.name, c.Height, err)
			}
		}
		hash = c.Parent
	}
	if hash != block.Hash {
		return fmt.Errorf(
			"%s: its head leads to block %s at height %d, not to %s", p.name, hash, block.Height, block.Hash,
		)
	}
	return nil
}

func (w *balanceEntry) addBlock(c chain.Contents) (err error) {
	add := func(total *money.Amount, amount money.Amount) {
		if err == nil {
			*total, err = total.Add(amount)
		}
	}
	for _, t := range c.Transfers {
		if t.Contract != w.holding.Contract {
			continue
		}
		if t.To == w.holding.Address {
			add(&w.received, t.Amount)
		}
		if t.From == w.holding.Address {
			add(&w.sent, t.Amount)
		}
	}
	if w.holding.Contract == "" {
		for _, f := range c.Fees {
			if f.Payer == w.holding.Address {
				add(&w.sent, f.Amount)
			}
		}
	}
	return err
}
