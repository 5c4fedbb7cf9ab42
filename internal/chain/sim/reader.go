package sim

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
)

// Provider is one way to ask the chain. Its faults last until the script ends them.
type Provider struct {
	c     *Chain
	index int

	downErr      error
	lag          uint64
	pinned       *uint64
	otherHashes  map[uint64]bool
	emptyBlocks  map[uint64]bool
	pruned       bool
	swallow      bool
	losesAnswers bool
	sendRefusal  string
	hidesSenders bool

	traceErr        error
	untraceable     map[chain.TxHash]bool
	longTraces      map[chain.TxHash]int
	hiddenAddresses map[chain.Address]bool
	invented        map[chain.TxHash][]chain.Transfer
}

func (p *Provider) update(f func()) {
	p.c.mu.Lock()
	defer p.c.mu.Unlock()
	f()
}

// SetDown makes every request fail with an error; nil ends that.
func (p *Provider) SetDown(err error) { p.update(func() { p.downErr = err }) }

// SetLag makes the provider show a head so many blocks below the real one.
func (p *Provider) SetLag(blocks uint64) { p.update(func() { p.lag = blocks }) }

// PinHead makes the provider show this height as the latest, even if it showed a higher one before.
func (p *Provider) PinHead(height uint64) { p.update(func() { p.pinned = &height }) }

// UnpinHead makes the provider show the real head again.
func (p *Provider) UnpinHead() { p.update(func() { p.pinned = nil }) }

// LieHash makes the provider return another hash for the block at a height.
func (p *Provider) LieHash(height uint64, enabled bool) {
	p.update(func() { p.otherHashes = withHeight(p.otherHashes, height, enabled) })
}

// LieEmpty makes the provider omit all transfers of the block at a height. Like missing receipts,
// that does not match the block's header.
func (p *Provider) LieEmpty(height uint64, enabled bool) {
	p.update(func() { p.emptyBlocks = withHeight(p.emptyBlocks, height, enabled) })
}

// Prune makes the provider forget the state of every block except the latest.
func (p *Provider) Prune(enabled bool) { p.update(func() { p.pruned = enabled }) }

// HideSenders makes the provider return no senders for transfers that do not name one themselves.
func (p *Provider) HideSenders(enabled bool) { p.update(func() { p.hidesSenders = enabled }) }

// Swallow makes the provider accept transactions and not forward them.
func (p *Provider) Swallow(enabled bool) { p.update(func() { p.swallow = enabled }) }

// LoseAnswers makes the provider accept transactions and answer with an error.
func (p *Provider) LoseAnswers(enabled bool) { p.update(func() { p.losesAnswers = enabled }) }

// RefuseSend makes the provider refuse every transaction with this sentence; "" ends that.
func (p *Provider) RefuseSend(sentence string) { p.update(func() { p.sendRefusal = sentence }) }

func withHeight(m map[uint64]bool, height uint64, enabled bool) map[uint64]bool {
	if m == nil {
		m = map[uint64]bool{}
	}
	m[height] = enabled
	return m
}

// latestHeight returns the height that the provider shows.
func (p *Provider) latestHeight() uint64 {
	h := p.c.tipBlock().Height
	if p.pinned != nil {
		return min(h, *p.pinned)
	}
	return h - min(h, p.lag)
}

func (p *Provider) finalHeight() uint64 {
	h := p.latestHeight()
	return h - min(h, p.c.conf.FinalityDepth)
}

// shownBlock returns the block at a height as the provider shows it. The caller has checked that
// the provider has the block.
func (p *Provider) shownBlock(height uint64) chain.Contents {
	found := p.c.blocks[height].Contents
	found.Transfers = slices.Clone(found.Transfers)
	if p.c.tracesInternal() {
		found.Transfers = slices.DeleteFunc(
			found.Transfers, func(t chain.Transfer) bool { return t.Kind == chain.Internal },
		)
	}
	found.Fees = slices.Clone(found.Fees)
	if p.otherHashes[height] {
		found.Hash = hashWords("lie", found.Hash, uint64(p.index))
	}
	if p.emptyBlocks[height] {
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
	first := c.providers[c.firstProvider]
	if first.downErr != nil {
		return chain.Heads{}, fmt.Errorf("ask provider %d for its head: %w", c.firstProvider, first.downErr)
	}
	var finals []uint64
	for _, p := range c.providers {
		if p.downErr == nil {
			finals = append(finals, p.finalHeight())
		}
	}
	if len(finals) < c.conf.Quorum {
		return chain.Heads{}, fmt.Errorf(
			"%d providers answer, %d must: %w", len(finals), c.conf.Quorum, chain.ErrNotYet,
		)
	}
	slices.Sort(finals)
	final := finals[len(finals)-c.conf.Quorum]
	h := chain.Heads{Latest: first.shownBlock(first.latestHeight()).Block}
	for _, p := range c.providers {
		if p.downErr == nil && p.finalHeight() >= final {
			h.Final = p.shownBlock(final).Block // of one provider, as with any head
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
	available := 0
	for _, p := range c.providers {
		if p.downErr == nil && p.finalHeight() >= height {
			available++
			shown[p.shownBlock(height).Hash]++
		}
	}
	if available < c.conf.Quorum {
		return chain.Contents{}, fmt.Errorf(
			"%d providers have block %d, %d must: %w", available, height, c.conf.Quorum, chain.ErrNotYet,
		)
	}
	for _, p := range c.providers {
		if p.downErr != nil || p.finalHeight() < height {
			continue
		}
		b := p.shownBlock(height)
		if shown[b.Hash] < c.conf.Quorum {
			continue
		}
		if c.undecodable[height] {
			return chain.Contents{}, fmt.Errorf("block %d: transaction of type 0x7f: %w", height, chain.ErrUndecodable)
		}
		if p.emptyBlocks[height] && len(c.blocks[height].txs) > 0 {
			continue // its receipts do not match the header; those of another provider may
		}
		b.Providers = shown[b.Hash]
		if height > 0 {
			b.Depth = c.conf.FinalityDepth + 1
		}
		return b, nil
	}
	return chain.Contents{}, fmt.Errorf("block %d: %w", height, chain.ErrDisagreement)
}

// Demote implements chain.Reader.
func (c *Chain) Demote() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.firstProvider = (c.firstProvider + 1) % len(c.providers)
}

// Recent implements chain.Reader.
func (c *Chain) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return chain.Contents{}, err
	}
	p := c.providers[c.firstProvider]
	if p.downErr != nil {
		return chain.Contents{}, fmt.Errorf("ask provider %d for block %d: %w", c.firstProvider, height, p.downErr)
	}
	if p.latestHeight() < height {
		return chain.Contents{}, fmt.Errorf("block %d: %w", height, chain.ErrNotYet)
	}
	if c.undecodable[height] {
		return chain.Contents{}, fmt.Errorf("block %d: transaction of type 0x7f: %w", height, chain.ErrUndecodable)
	}
	b := p.shownBlock(height)
	b.Providers = 1
	return b, nil
}

// Balances implements chain.Reader.
func (c *Chain) Balances(ctx context.Context, named chain.Block, holdings []chain.Holding) ([]money.Amount, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	b, ok := c.byHash[named.Hash]
	if !ok || b.Height > c.tipBlock().Height || c.blocks[b.Height] != b {
		return nil, fmt.Errorf("balances in block %s: no provider knows the block", named.Hash)
	}
	var problem error
	for _, p := range c.providers {
		switch {
		case p.downErr != nil:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, p.downErr))
		case p.pruned && b != c.tipBlock():
			problem = errors.Join(
				problem, fmt.Errorf("provider %d: missing trie node: %w", p.index, chain.ErrStateGone),
			)
		default:
			amounts := make([]money.Amount, len(holdings))
			silent := &chain.NoBalanceError{Reason: "execution reverted"}
			for i, h := range holdings {
				if c.silent[h.Contract] {
					silent.Holdings = append(silent.Holdings, h)
				}
				amounts[i] = b.state.balances[h]
			}
			if len(silent.Holdings) > 0 {
				return nil, silent
			}
			return amounts, nil
		}
	}
	return nil, fmt.Errorf("balances in block %s: %w", named.Hash, problem)
}

// Senders implements chain.Reader.
func (c *Chain) Senders(ctx context.Context, named chain.Block, transfers []chain.Transfer) ([][]chain.Address, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	senders := chain.Senders(transfers)
	if !slices.ContainsFunc(transfers, func(t chain.Transfer) bool { return t.From == "" }) {
		return senders, nil
	}
	b, ok := c.byHash[named.Hash]
	if !ok {
		return nil, fmt.Errorf("senders in block %s: no provider knows the block", named.Hash)
	}
	if !slices.ContainsFunc(c.providers, func(p *Provider) bool { return p.downErr == nil && !p.hidesSenders }) {
		return nil, fmt.Errorf("senders in block %s: no provider answers", named.Hash)
	}
	for i, t := range transfers {
		if t.From == "" {
			senders[i] = slices.Clone(b.senders[movementKey{t.Tx, t.Kind, t.Position}])
		}
	}
	return senders, nil
}

// LocateTx implements chain.TxLocator.
func (c *Chain) LocateTx(ctx context.Context, hash chain.TxHash) (height uint64, isFound bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	if !slices.ContainsFunc(c.providers, func(p *Provider) bool { return p.downErr == nil }) {
		return 0, false, fmt.Errorf("locate %s: no provider answers", hash)
	}
	for _, b := range c.blocks {
		if slices.ContainsFunc(b.txs, func(t *tx) bool { return t.hash == hash }) {
			return b.Height, true, nil
		}
	}
	return 0, false, nil
}

// Kind implements chain.Reader.
func (c *Chain) Kind(ctx context.Context, named chain.Block, address chain.Address) (chain.AccountKind, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return "", err
	}
	b, ok := c.byHash[named.Hash]
	if !ok || b.Height > c.tipBlock().Height || c.blocks[b.Height] != b {
		return "", fmt.Errorf("account in block %s: no provider knows the block", named.Hash)
	}
	var problem error
	n := 0
	for _, p := range c.providers {
		switch {
		case p.downErr != nil:
			problem = errors.Join(problem, fmt.Errorf("provider %d: %w", p.index, p.downErr))
		case p.pruned && b != c.tipBlock():
			problem = errors.Join(
				problem, fmt.Errorf("provider %d: missing trie node: %w", p.index, chain.ErrStateGone),
			)
		case b.state.programs[address]:
			return chain.ContractAccount, nil
		default:
			n++
		}
	}
	if n < c.conf.Quorum {
		return "", fmt.Errorf(
			"account in block %s: %d providers say, %d must: %w", named.Hash, n, c.conf.Quorum, problem,
		)
	}
	return chain.KeyAccount, nil
}

// IsContractSignature implements chain.SignatureChecker.
func (c *Chain) IsContractSignature(
	ctx context.Context, contract chain.Address, digest [32]byte, signature []byte,
) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	answers := 0
	for _, p := range c.providers {
		if p.downErr == nil {
			answers++
		}
	}
	if answers < c.conf.Quorum {
		return false, fmt.Errorf("signature of contract %s: %d providers answer, %d must", contract, answers,
			c.conf.Quorum)
	}
	accepts := c.signers[contract]
	return accepts != nil && c.tipBlock().state.programs[contract] && accepts(digest, signature), nil
}
