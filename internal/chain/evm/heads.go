package evm

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Heads asks all providers at once. The final head is the highest that a quorum of them has
// reached. The latest head is that of the first provider that answers.
func (a *adapter) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := quorum.AgreeOnHeads(ctx, a.providersByTrust(), a.Quorum, a.readHeads)
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", a.Name, err)
	}
	return h, nil
}

func (a *adapter) readHeads(ctx context.Context, p *provider) (chain.Heads, error) {
	if a.Finality.Depth > 0 {
		latest, err := p.readHead(ctx, "latest")
		if err != nil {
			return chain.Heads{}, err
		}
		final, err := p.readHead(ctx, hexutil.EncodeUint64(a.Finality.finalHeight(latest.Height)))
		return chain.Heads{Latest: latest, Final: final}, err
	}
	// In this order, so that a block that is mined meanwhile does not make the provider look
	// inconsistent.
	final, err := p.readHead(ctx, "finalized")
	if err != nil {
		return chain.Heads{}, err
	}
	latest, err := p.readHead(ctx, "latest")
	if err == nil && final.Height > latest.Height {
		err = p.finalAheadError(final.Height, latest.Height)
	}
	return chain.Heads{Latest: latest, Final: final}, err
}

// finalAheadError returns the error for a provider that calls a block final which it does not have.
func (p *provider) finalAheadError(final, latest uint64) error {
	return fmt.Errorf("%s: says that block %d is final, and its newest is %d", p.name, final, latest)
}

// finalHeight returns the final height if latest is the head. The first block is always final.
func (f Finality) finalHeight(latest uint64) uint64 {
	if latest < f.Depth {
		return 0
	}
	return latest - f.Depth
}

// blockTag returns the tag of the block from which a provider's finality is counted.
func (f Finality) blockTag() string {
	if f.Depth > 0 {
		return "latest"
	}
	return "finalized"
}

// readHead returns the block of a tag or number, with its header checked.
func (p *provider) readHead(ctx context.Context, tag string) (chain.Block, error) {
	var raw json.RawMessage
	if err := p.callMethod(ctx, &raw, "eth_getBlockByNumber", tag, false); err != nil {
		return chain.Block{}, err
	}
	if isNull(raw) {
		return chain.Block{}, fmt.Errorf("%s: has no block %s", p.name, tag)
	}
	h, hash, err := p.stack.readHeader(raw)
	if err != nil {
		return chain.Block{}, fmt.Errorf("%s: block %s: %w", p.name, tag, err)
	}
	return block(h, hash), nil
}
