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

var (
	_ chain.Tracer    = (*Chain)(nil)
	_ chain.TxLocator = (*Chain)(nil)
)

var (
	errAnswerTooLong     = errors.New("answer is longer than is allowed")
	errTraceDisagreement = errors.New("providers do not say the same")
)

// FailTraces makes the provider answer every request for traces with an error; nil ends that.
func (p *Provider) FailTraces(err error) { p.update(func() { p.traceErr = err }) }

// HideChanges makes the provider unable to say which balances a transaction changed.
func (p *Provider) HideChanges(tx chain.TxHash, enabled bool) {
	p.update(func() {
		p.untraceable = maps.Clone(p.untraceable)
		if p.untraceable == nil {
			p.untraceable = map[chain.TxHash]bool{}
		}
		p.untraceable[tx] = enabled
	})
}

// SetTraceAttempts makes the trace of a transaction exceed the size limit for so many attempts.
func (p *Provider) SetTraceAttempts(tx chain.TxHash, attempts int) {
	p.update(func() {
		if p.longTraces == nil {
			p.longTraces = map[chain.TxHash]int{}
		}
		p.longTraces[tx] = attempts
	})
}

// HideAddress makes the provider omit an address from the balance changes that it reports.
func (p *Provider) HideAddress(a chain.Address, enabled bool) {
	p.update(func() {
		if p.hiddenAddresses == nil {
			p.hiddenAddresses = map[chain.Address]bool{}
		}
		p.hiddenAddresses[a] = enabled
	})
}

// InventTransfers makes the provider report these transfers inside a transaction in place of the
// real ones, with the balance changes that belong to them; nil ends that.
func (p *Provider) InventTransfers(tx chain.TxHash, moved []chain.Transfer) {
	p.update(func() {
		if p.invented == nil {
			p.invented = map[chain.TxHash][]chain.Transfer{}
		}
		if p.invented[tx] = moved; moved == nil {
			delete(p.invented, tx)
		}
	})
}

// tracesInternal reports whether only Tracer reports transfers of the kind Internal.
func (c *Chain) tracesInternal() bool { return !c.conf.TracesOff && !c.conf.UTXO && !c.isSolana() }

// requiredAnswers returns how many providers have to answer.
func (c *Chain) requiredAnswers(count chain.ProviderCount) int {
	switch count {
	case chain.FirstProvider:
		return 1
	case chain.QuorumOfProviders:
		return c.conf.Quorum
	}
	return len(c.providers)
}

// BalanceChanges implements chain.Tracer.
func (c *Chain) BalanceChanges(
	ctx context.Context, named chain.Block, count chain.ProviderCount,
) (chain.BalanceChanges, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.namedBlock(ctx, named)
	if err != nil || !c.tracesInternal() {
		return chain.BalanceChanges{}, err
	}
	result := chain.BalanceChanges{Traced: true}
	need, answered := c.requiredAnswers(count), false
	isTold := map[chain.TxHash]bool{}
	type key struct {
		tx chain.TxHash
		a  chain.Address
	}
	merged := map[key]*big.Int{}
	var problem error
	for _, p := range c.providers {
		if need == 0 {
			break
		}
		if cause := cmp.Or(p.downErr, p.traceErr); cause != nil {
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, cause))
			continue
		}
		answered = true
		isComplete := true
		for _, t := range b.txs {
			if !t.runsContract() {
				continue
			}
			if p.untraceable[t.hash] {
				isComplete = false
				continue
			}
			isTold[t.hash] = true
			changes := nativeChanges(t, b.receipts[t.hash])
			for _, m := range p.invented[t.hash] {
				changes[m.To] = nil
			}
			for a, change := range changes {
				if !p.hiddenAddresses[a] {
					merged[key{t.hash, a}] = change
				}
			}
		}
		if isComplete {
			need--
		}
	}
	called := slices.ContainsFunc(b.txs, (*tx).runsContract)
	if called && !answered {
		return chain.BalanceChanges{}, fmt.Errorf("balances that block %d changed: %w", named.Height, problem)
	}
	for _, t := range b.txs {
		if t.runsContract() && !isTold[t.hash] {
			result.Untraceable = append(result.Untraceable, t.hash)
		}
		var changes []chain.BalanceChange
		for k, change := range merged {
			if k.tx == t.hash {
				changes = append(changes, chain.BalanceChange{Tx: k.tx, Address: k.a, Change: change})
			}
		}
		slices.SortFunc(changes, func(a, b chain.BalanceChange) int { return cmp.Compare(a.Address, b.Address) })
		result.Changes = append(result.Changes, changes...)
	}
	return result, nil
}

// runsContract reports whether a contract can have run.
func (t *tx) runsContract() bool {
	return !t.fails && slices.ContainsFunc(t.moves, func(m Move) bool { return m.Kind != chain.Native })
}

// nativeChanges returns the native balances that a transaction changed.
func nativeChanges(t *tx, r *receipt) map[chain.Address]*big.Int {
	deltas := map[chain.Address]*big.Int{}
	change := func(a chain.Address, delta *big.Int) {
		if deltas[a] == nil {
			deltas[a] = new(big.Int)
		}
		deltas[a].Add(deltas[a], delta)
	}
	change(t.from, new(big.Int).Neg(r.fee.Big()))
	for _, m := range r.transfers {
		if m.Contract == "" {
			change(m.From, new(big.Int).Neg(m.Amount.Big()))
			change(m.To, m.Amount.Big())
		}
	}
	maps.DeleteFunc(deltas, func(_ chain.Address, delta *big.Int) bool { return delta.Sign() == 0 })
	return deltas
}

// namedBlock returns the block that a request names.
func (c *Chain) namedBlock(ctx context.Context, named chain.Block) (*block, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, ok := c.byHash[named.Hash]
	if !ok {
		return nil, fmt.Errorf("traces of block %s: no provider knows the block", named.Hash)
	}
	return b, nil
}

// InternalTransfers implements chain.Tracer.
func (c *Chain) InternalTransfers(ctx context.Context, q chain.InternalTransfersQuery) ([]chain.Transfer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.namedBlock(ctx, q.Block)
	if err != nil {
		return nil, err
	}
	matching := func(transfers []chain.Transfer) (matches []chain.Transfer) {
		for _, t := range transfers {
			if t.Tx == q.Tx && t.Kind == chain.Internal && slices.Contains(q.Recipients, t.To) {
				matches = append(matches, t)
			}
		}
		return matches
	}
	need := c.requiredAnswers(q.Providers)
	var answers [][]chain.Transfer
	problem := errTraceDisagreement
	for _, p := range c.providers {
		moved := matching(b.Transfers)
		if lie, ok := p.invented[q.Tx]; ok {
			moved = matching(lie)
		}
		switch cause := cmp.Or(p.downErr, p.traceErr); {
		case cause != nil:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, cause))
			continue
		case p.longTraces[q.Tx] > q.Attempt:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, errAnswerTooLong))
			continue
		}
		if q.Check != nil {
			if err := q.Check(moved); err != nil {
				problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, err))
				continue
			}
		}
		answers = append(answers, moved)
		votes := 0
		for _, s := range answers {
			if slices.Equal(s, moved) {
				votes++
			}
		}
		if votes >= need {
			return moved, nil
		}
	}
	return nil, fmt.Errorf("calls of %s: %w", q.Tx, problem)
}
