package tron

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// verified is how what is in a block was checked.
const verified = "block-id,transactions-root,results-agreed"

// heads are the tips of a provider.
type heads struct{ latest, final header }

// Heads asks all providers at once. The final head is the highest that Agree of them have
// reached; the latest is of the first one that answers.
func (c *Client) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := quorum.AgreeOnHeads(ctx, c.providersByTrust(), c.Quorum, func(ctx context.Context, p *provider) (chain.Heads, error) {
		h, err := p.readHeads(ctx)
		return chain.Heads{Latest: h.latest.toChainBlock(), Final: h.final.toChainBlock()}, err
	})
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Tron, err)
	}
	return h, nil
}

// agreedFinal is the highest final head that so many have come to.
func agreedFinal(tips []heads, quorumSize int) header {
	tips = slices.Clone(tips)
	slices.SortStableFunc(tips, func(x, y heads) int { return cmp.Compare(y.final.height, x.final.height) })
	return tips[quorumSize-1].final
}

// readHeads asks for the final head first, so that it is never above the newest.
func (p *provider) readHeads(ctx context.Context) (h heads, err error) {
	if h.final, err = p.readHeader(ctx, solidified, ""); err != nil {
		return h, err
	}
	h.latest, err = p.readHeader(ctx, newest, "")
	return h, err
}

// Final finds the identifier that enough providers call final, and takes what is in the
// block from as many of them.
func (c *Client) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	id, voters, err := quorum.AgreeOnHash(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) (quorum.Vote[string], error) {
		return p.readVote(ctx, height)
	})
	var got chain.Contents
	if err == nil {
		got, err = quorum.AgreeOnContents(ctx, c.providers, voters, c.Quorum, func(ctx context.Context, p *provider) (chain.Contents, error) {
			return p.readContents(ctx, solidified, id, c.Internal)
		})
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Tron, err)
	}
	return got, nil
}

// readVote asks a provider for its finality first and then for the block, so that a block
// which it calls final was so when it was given.
func (p *provider) readVote(ctx context.Context, height uint64) (quorum.Vote[string], error) {
	var zero quorum.Vote[string]
	final, err := p.readHeader(ctx, solidified, "")
	if err != nil || height > final.height {
		return zero, err
	}
	h, err := p.readHeader(ctx, solidified, heightText(height))
	if err != nil {
		return zero, err
	}
	return quorum.Vote[string]{Final: true, Hash: h.idText()}, nil
}

// Recent takes the block from the first provider that answers. A fork between its
// requests is an error: the next call sees the new block whole.
func (c *Client) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	isPastTip := false
	got, err := quorum.FirstAnswer(ctx, c.providersByTrust(), func(ctx context.Context, p *provider) (chain.Contents, error) {
		head, err := p.readHeader(ctx, newest, "")
		if err != nil {
			return chain.Contents{}, err
		}
		if isPastTip = height > head.height; isPastTip {
			return chain.Contents{}, nil
		}
		return p.readContents(ctx, newest, heightText(height), c.Internal)
	})
	if err == nil && isPastTip {
		err = chain.ErrNotYet
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, chain.Tron, err)
	}
	return got, nil
}
