package evm

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
)

// Final finds the hash that enough providers call final, and then takes the
// block from whichever of them gives all of it.
func (a *adapter) Final(ctx context.Context, height uint64) (chain.Contents, error) {
	hash, by, err := a.agreed(ctx, height)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, a.Name, err)
	}
	s, err := first(ctx, by, func(ctx context.Context, p *provider) (*sealed, error) { return a.sealed(ctx, p, hash) })
	if err != nil {
		return chain.Contents{}, fmt.Errorf("final block %d of %s: %w", height, a.Name, err)
	}
	return a.open(ctx, s, len(by))
}

// open reads all that moved in a block.
func (a *adapter) open(ctx context.Context, s *sealed, providers int) (chain.Contents, error) {
	internal, traced, err := a.internal(ctx, s)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("internal movements in block %d of %s: %w", s.header.Number, a.Name, err)
	}
	return s.contents(internal, traced, providers)
}

// A sighting is what a provider has at a height.
type sighting struct {
	final bool // it calls the height final
	hash  common.Hash
}

type headline struct {
	Number *hexutil.Uint64 `json:"number"`
	Hash   common.Hash     `json:"hash"`
}

// sight asks a provider for its finality first and then for the block, so that
// a block which it calls final was so when it was given.
func (a *adapter) sight(ctx context.Context, p *provider, height uint64) (sighting, error) {
	var head, at, latest *headline
	questions := []rpc.BatchElem{
		{Method: "eth_getBlockByNumber", Args: []any{a.Finality.tag(), false}, Result: &head},
		{Method: "eth_getBlockByNumber", Args: []any{hexutil.Uint64(height), false}, Result: &at},
	}
	if a.Finality.Depth == 0 {
		questions = append(questions, rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{"latest", false}, Result: &latest})
	}
	err := p.batch(ctx, questions)
	if err != nil {
		return sighting{}, err
	}
	if head == nil || head.Number == nil {
		return sighting{}, fmt.Errorf("%s: has no %s block", p.name, a.Finality.tag())
	}
	final := uint64(*head.Number)
	switch {
	case a.Finality.Depth > 0:
		final = a.Finality.below(final)
	case latest == nil || latest.Number == nil:
		return sighting{}, fmt.Errorf("%s: has no latest block", p.name)
	case final > uint64(*latest.Number):
		return sighting{}, p.beyond(final, uint64(*latest.Number))
	}
	if height > final {
		return sighting{}, nil
	}
	if at == nil || at.Number == nil || uint64(*at.Number) != height {
		return sighting{}, fmt.Errorf("%s: calls block %d final and does not have block %d", p.name, final, height)
	}
	return sighting{true, at.Hash}, nil
}

// agreed is the hash at a height that at least Agree providers call final, and
// more than call any other so, with those providers. It does not wait for
// answers that could not change that.
func (a *adapter) agreed(ctx context.Context, height uint64) (common.Hash, []*provider, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answers := make(chan answer[sighting], len(a.providers))
	for _, p := range a.providers {
		go func() {
			s, err := a.sight(ctx, p, height)
			answers <- answer[sighting]{p, s, err}
		}()
	}
	t := tally{votes: map[common.Hash][]*provider{}}
	for open := len(a.providers) - 1; open >= 0; open-- {
		t.add(<-answers)
		if hash, by := t.winner(); len(by) >= a.Agree && len(by) > t.against(by)+open {
			return hash, by, nil
		}
	}
	switch {
	case len(t.votes) > 1:
		return common.Hash{}, nil, fmt.Errorf("%s: %w", t, chain.ErrDisagreement)
	case t.final+len(t.errs) < a.Agree:
		return common.Hash{}, nil, chain.ErrNotYet
	}
	return common.Hash{}, nil, errors.Join(t.errs...)
}

// A tally is how providers voted on a height.
type tally struct {
	votes map[common.Hash][]*provider
	final int // votes in all
	errs  []error
}

func (t *tally) add(a answer[sighting]) {
	switch {
	case a.err != nil:
		t.errs = append(t.errs, a.err)
	case a.value.final:
		t.votes[a.value.hash] = append(t.votes[a.value.hash], a.from)
		t.final++
	}
}

func (t *tally) winner() (hash common.Hash, by []*provider) {
	for h, v := range t.votes {
		if len(v) > len(by) {
			hash, by = h, v
		}
	}
	return hash, by
}

func (t *tally) against(by []*provider) int { return t.final - len(by) }

// String says who voted for what.
func (t tally) String() string {
	var said []string
	for h, v := range t.votes {
		for _, p := range v {
			said = append(said, fmt.Sprintf("%s has %s", p.name, h))
		}
	}
	return strings.Join(said, ", ")
}
