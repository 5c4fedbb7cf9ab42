package tron

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// verified names how the contents of a block were checked.
const verified = "block-id,transactions-root,results-agreed"

// heads has the newest and the final header of a provider.
type heads struct{ latest, final header }

// Heads asks all providers at once. The final head is the highest that the quorum has reached. The
// latest head is that of the first provider that answers.
func (c *Client) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := quorum.AgreeOnHeads(ctx, c.providersByTrust(), c.Quorum,
		func(ctx context.Context, p *provider) (chain.Heads, error) {
			h, err := p.readHeads(ctx)
			return chain.Heads{Latest: h.latest.toChainBlock(), Final: h.final.toChainBlock()}, err
		})
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Tron, err)
	}
	return h, nil
}

// agreedFinal returns the highest final head that so many providers have reached.
func agreedFinal(tips []heads, quorumSize int) header {
	tips = slices.Clone(tips)
	slices.SortStableFunc(tips, func(x, y heads) int { return cmp.Compare(y.final.height, x.final.height) })
	return tips[quorumSize-1].final
}

// readHeads reads the final head first, so that it is never above the newest one.
func (p *provider) readHeads(ctx context.Context) (h heads, err error) {
	if h.final, err = p.readHeader(ctx, solidified, ""); err != nil {
		return h, err
	}
	h.latest, err = p.readHeader(ctx, newest, "")
	return h, err
}

// Final finds the identifier that the quorum calls final, and reads the block's contents from as
// many of these providers.
func (c *Client) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	id, voters, err := quorum.AgreeOnHash(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) (quorum.Vote[string], error) {
			return p.readVote(ctx, height)
		})
	var got chain.Contents
	if err == nil {
		got, err = quorum.AgreeOnContents(ctx, c.providers, voters, c.Quorum,
			func(ctx context.Context, p *provider) (chain.Contents, error) {
				return p.readContents(ctx, solidified, id, c.Internal)
			})
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, chain.Tron, err)
	}
	return got, nil
}

// readVote asks a provider for its final head first and then for the block. So a block that it
// calls final was final when it returned it.
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

// Recent reads the block from the first provider that answers. A fork between its requests is an
// error; the next call reads the new block as a whole.
func (c *Client) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	isPastTip := false
	got, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (chain.Contents, error) {
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
