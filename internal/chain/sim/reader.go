package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Provider is one way to ask the chain. Its faults stay until they are taken back.
type Provider struct {
	c     *Chain
	index int

	down     error
	lag      uint64
	pinned   *uint64
	other    map[uint64]bool
	empty    map[uint64]bool
	pruned   bool
	swallow  bool
	lose     bool
	refusing string
	discreet bool

	traceless error
	blind     map[chain.TxHash]bool
	heavy     map[chain.TxHash]int
	hidden    map[chain.Address]bool
	invented  map[chain.TxHash][]chain.Transfer
}

func (p *Provider) set(f func()) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	f()
}

// Down makes every question fail with an error; nil brings the provider back.
func (p *Provider) Down(err error) { p.set(func() { p.down = err }) }

// Lag shows a head that many blocks behind the real one.
func (p *Provider) Lag(blocks uint64) { p.set(func() { p.lag = blocks }) }

// PinHead shows this height as the latest, even below one that was shown before.
func (p *Provider) PinHead(height uint64) { p.set(func() { p.pinned = &height }) }

// UnpinHead shows the real head again.
func (p *Provider) UnpinHead() { p.set(func() { p.pinned = nil }) }

// LieHash makes the provider name another hash for the block at a height.
func (p *Provider) LieHash(height uint64, on bool) {
	p.set(func() { p.other = with(p.other, height, on) })
}

// LieEmpty makes the provider leave out all movements of the block at a height.
// Like receipts that are missing, that does not fit the block's header.
func (p *Provider) LieEmpty(height uint64, on bool) {
	p.set(func() { p.empty = with(p.empty, height, on) })
}

// Prune makes the provider forget the state of every block but the latest.
func (p *Provider) Prune(on bool) { p.set(func() { p.pruned = on }) }

// HideSenders makes the provider answer nobody who asks for the senders of what names
// none itself.
func (p *Provider) HideSenders(on bool) { p.set(func() { p.discreet = on }) }

// Swallow makes the provider accept transactions and do nothing with them.
func (p *Provider) Swallow(on bool) { p.set(func() { p.swallow = on }) }

// LoseAnswers makes the provider take transactions and answer with an error.
func (p *Provider) LoseAnswers(on bool) { p.set(func() { p.lose = on }) }

// RefuseSend makes the provider answer every transaction with this sentence and
// not take it; "" takes them again.
func (p *Provider) RefuseSend(sentence string) { p.set(func() { p.refusing = sentence }) }

func with(m map[uint64]bool, height uint64, on bool) map[uint64]bool {
	if m == nil {
		m = map[uint64]bool{}
	}
	m[height] = on
	return m
}

// latest is the height that the provider shows.
func (p *Provider) latest() uint64 {
	h := p.c.tip().Height
	if p.pinned != nil {
		return min(h, *p.pinned)
	}
	return h - min(h, p.lag)
}

func (p *Provider) final() uint64 {
	h := p.latest()
	return h - min(h, p.c.conf.Behind)
}

// at is the block at a height as the provider shows it; the caller has checked
// that the provider has it.
func (p *Provider) at(height uint64) chain.Contents {
	found := p.c.blocks[height].Contents
	found.Transfers = slices.Clone(found.Transfers)
	if p.c.traces() {
		found.Transfers = slices.DeleteFunc(found.Transfers, func(t chain.Transfer) bool { return t.Kind == chain.Internal })
	}
	found.Fees = slices.Clone(found.Fees)
	if p.other[height] {
		found.Hash = digest("lie", found.Hash, uint64(p.index))
	}
	if p.empty[height] {
		found.Transfers, found.Fees = nil, nil
	}
	return found
}

// Heads implements chain.Reader.
func (c *Chain) Heads(ctx context.Context) (chain.Heads, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Heads{}, err
	}
	first := c.providers[c.shows]
	if first.down != nil {
		return chain.Heads{}, fmt.Errorf("ask provider %d for its head: %w", c.shows, first.down)
	}
	var finals []uint64
	for _, p := range c.providers {
		if p.down == nil {
			finals = append(finals, p.final())
		}
	}
	if len(finals) < c.conf.Agree {
		return chain.Heads{}, fmt.Errorf("%d providers answer, %d must: %w", len(finals), c.conf.Agree, chain.ErrNotYet)
	}
	slices.Sort(finals)
	final := finals[len(finals)-c.conf.Agree]
	h := chain.Heads{Latest: first.at(first.latest()).Block}
	for _, p := range c.providers {
		if p.down == nil && p.final() >= final {
			h.Final = p.at(final).Block // one provider's word, as with any head
			break
		}
	}
	return h, nil
}

// Final implements chain.Reader.
func (c *Chain) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Contents{}, err
	}
	shown := map[string]int{}
	has := 0
	for _, p := range c.providers {
		if p.down == nil && p.final() >= height {
			has++
			shown[p.at(height).Hash]++
		}
	}
	if has < c.conf.Agree {
		return chain.Contents{}, fmt.Errorf("%d providers have block %d, %d must: %w", has, height, c.conf.Agree, chain.ErrNotYet)
	}
	for _, p := range c.providers {
		if p.down != nil || p.final() < height {
			continue
		}
		b := p.at(height)
		if shown[b.Hash] < c.conf.Agree {
			continue
		}
		if c.undecodable[height] {
			return chain.Contents{}, fmt.Errorf("block %d: transaction of type 0x7f: %w", height, chain.ErrUndecodable)
		}
		if p.empty[height] && len(c.blocks[height].txs) > 0 {
			continue // its receipts do not fit the header: somebody else's may
		}
		b.Providers = shown[b.Hash]
		if height > 0 {
			b.Depth = c.conf.Behind + 1
		}
		return b, nil
	}
	return chain.Contents{}, fmt.Errorf("block %d: %w", height, chain.ErrDisagreement)
}

// Distrust implements chain.Reader.
func (c *Chain) Distrust() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shows = (c.shows + 1) % len(c.providers)
}

// Recent implements chain.Reader.
func (c *Chain) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Contents{}, err
	}
	p := c.providers[c.shows]
	if p.down != nil {
		return chain.Contents{}, fmt.Errorf("ask provider %d for block %d: %w", c.shows, height, p.down)
	}
	if p.latest() < height {
		return chain.Contents{}, fmt.Errorf("block %d: %w", height, chain.ErrNotYet)
	}
	if c.undecodable[height] {
		return chain.Contents{}, fmt.Errorf("block %d: transaction of type 0x7f: %w", height, chain.ErrUndecodable)
	}
	b := p.at(height)
	b.Providers = 1
	return b, nil
}

// Balances implements chain.Reader.
func (c *Chain) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, ok := c.byHash[at.Hash]
	if !ok || b.Height > c.tip().Height || c.blocks[b.Height] != b {
		return nil, fmt.Errorf("balances in block %s: no provider knows the block", at.Hash)
	}
	var problem error
	for _, p := range c.providers {
		switch {
		case p.down != nil:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, p.down))
		case p.pruned && b != c.tip():
			problem = errors.Join(problem, fmt.Errorf("provider %d: missing trie node: %w", p.index, chain.ErrStateGone))
		default:
			amounts := make([]money.Amount, len(of))
			silent := &chain.SilentError{Reason: "execution reverted"}
			for i, h := range of {
				if c.silent[h.Contract] {
					silent.Of = append(silent.Of, h)
				}
				amounts[i] = b.state.balances[h]
			}
			if len(silent.Of) > 0 {
				return nil, silent
			}
			return amounts, nil
		}
	}
	return nil, fmt.Errorf("balances in block %s: %w", at.Hash, problem)
}

// Senders implements chain.Reader.
func (c *Chain) Senders(ctx context.Context, at chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	all := chain.Senders(of)
	if !slices.ContainsFunc(of, func(t chain.Transfer) bool { return t.From == "" }) {
		return all, nil
	}
	b, ok := c.byHash[at.Hash]
	if !ok {
		return nil, fmt.Errorf("senders in block %s: no provider knows the block", at.Hash)
	}
	if !slices.ContainsFunc(c.providers, func(p *Provider) bool { return p.down == nil && !p.discreet }) {
		return nil, fmt.Errorf("senders in block %s: no provider answers", at.Hash)
	}
	for i, t := range of {
		if t.From == "" {
			all[i] = slices.Clone(b.senders[place{t.Tx, t.Kind, t.Position}])
		}
	}
	return all, nil
}

// Kind implements chain.Reader.
func (c *Chain) Kind(ctx context.Context, at chain.Block, of chain.Address) (chain.AccountKind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b, ok := c.byHash[at.Hash]
	if !ok || b.Height > c.tip().Height || c.blocks[b.Height] != b {
		return "", fmt.Errorf("account in block %s: no provider knows the block", at.Hash)
	}
	var problem error
	n := 0
	for _, p := range c.providers {
		switch {
		case p.down != nil:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, p.down))
		case p.pruned && b != c.tip():
			problem = errors.Join(problem, fmt.Errorf("provider %d: missing trie node: %w", p.index, chain.ErrStateGone))
		case b.state.programs[of]:
			return chain.Programmed, nil
		default:
			n++
		}
	}
	if n < c.conf.Agree {
		return "", fmt.Errorf("account in block %s: %d providers say, %d must: %w", at.Hash, n, c.conf.Agree, problem)
	}
	return chain.Keyed, nil
}
