package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// The commitments that a provider is asked for. No provider gives the contents of blocks that are
// only processed, and they include every fork of the moment. So confirmed, which two thirds have
// voted for, is the newest commitment that the adapter reads.
const (
	finalized = "finalized"
	confirmed = "confirmed"
)

// The error codes that have a meaning here.
const (
	codeInvalidParams   = -32602 // includes: not available yet
	codeNotAvailable    = -32004 // or not yet
	codeSkipped         = -32007 // or lost
	codeSkippedLongAgo  = -32009 // or lost
	codeStatusNotYet    = -32014
	codeUnknownVersion  = -32015
	transactionsVersion = 1 // the newest that decode knows
)

func errorCode(err error) int {
	var e *rpcError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// headLookback is how far behind its newest slot a provider's newest block may be.
const headLookback = 32

type options map[string]any

func withCommitment(commitment string) options { return options{"commitment": commitment} }

// newestSlot returns the newest slot of a provider at a commitment.
func (p *provider) newestSlot(ctx context.Context, commitment string) (slot uint64, err error) {
	raw, err := p.callRaw(ctx, "getSlot", withCommitment(commitment))
	if err != nil {
		return 0, err
	}
	s := newScanner(raw)
	slot = s.readNumber()
	if err := s.expectEnd(); err != nil {
		return 0, p.WrapError("getSlot", err)
	}
	return slot, nil
}

// readSlots returns the slots with a block from one slot on, at most limit of them.
func (p *provider) readSlots(
	ctx context.Context, from uint64, limit int, commitment string,
) (slots []uint64, err error) {
	const method = "getBlocksWithLimit"
	raw, err := p.callRaw(ctx, method, from, limit, withCommitment(commitment))
	if err != nil {
		return nil, err
	}
	s := newScanner(raw)
	last := from
	s.expectByte('[')
	for n := 0; s.hasNext(']', &n); {
		slot := s.readNumber()
		if slot < last || n > limit {
			s.fail("a slot that was not in the question")
		}
		slots, last = append(slots, slot), slot+1
	}
	if err := s.expectEnd(); err != nil {
		return nil, p.WrapError(method, err)
	}
	return slots, nil
}

// errNoBlock says that a provider gives no block for a slot. The slot has none, it is not available
// yet, or it was lost; other queries show which.
var errNoBlock = errors.New("no block in the slot")

// readRawBlock returns a block as a provider gives it, with details as getBlock names them.
func (p *provider) readRawBlock(ctx context.Context, slot uint64, details, commitment string) ([]byte, error) {
	raw, err := p.callRaw(ctx, "getBlock", slot, options{
		"commitment": commitment, "transactionDetails": details, "encoding": "json",
		"maxSupportedTransactionVersion": transactionsVersion, "rewards": false,
	})
	switch errorCode(err) {
	case codeNotAvailable, codeSkipped, codeSkippedLongAgo, codeStatusNotYet:
		return nil, fmt.Errorf("%w: %w", errNoBlock, err)
	case codeUnknownVersion:
		return nil, fmt.Errorf("%w: %w", chain.ErrUndecodable, err)
	}
	if err == nil && string(raw) == "null" {
		err = fmt.Errorf("%s: slot %d: %w", p.name, slot, errNoBlock)
	}
	return raw, err
}

// readHeader returns the header of a block, without its contents.
func (p *provider) readHeader(ctx context.Context, slot uint64, commitment string) (header, error) {
	raw, err := p.readRawBlock(ctx, slot, "none", commitment)
	if err != nil {
		return header{}, err
	}
	h, err := decodeBlock(raw, nil)
	if err != nil {
		return header{}, fmt.Errorf("%s: block %d: %w", p.name, slot, err)
	}
	return h, nil
}

// slotBlock is the first block at or above a slot.
type slotBlock struct {
	slot uint64
	header
}

// vote is what providers have to agree on about a block: its identity and its parent. The time of a
// young block is each provider's own estimate and is left out.
type vote struct {
	slot, parentSlot uint64
	hash, parent     string
}

func (s slotBlock) toVote() vote { return vote{s.slot, s.parentSlot, s.hash, s.parent} }

// String contains providers' texts, so it is bounded.
func (v vote) String() string {
	return fmt.Sprintf("block %.44q in slot %d, on %.44q in %d", v.hash, v.slot, v.parent, v.parentSlot)
}

// firstBlock returns the first block at or above a slot; errNoBlock if there is none yet.
func (p *provider) firstBlock(ctx context.Context, from uint64, commitment string) (slotBlock, error) {
	h, err := p.readHeader(ctx, from, commitment)
	if err == nil {
		return slotBlock{from, h}, nil
	}
	if !errors.Is(err, errNoBlock) {
		return slotBlock{}, err
	}
	slots, slotsErr := p.readSlots(ctx, from, 1, commitment)
	switch {
	case slotsErr != nil:
		return slotBlock{}, slotsErr
	case len(slots) == 0 || slots[0] == from:
		return slotBlock{}, err
	}
	if h, err = p.readHeader(ctx, slots[0], commitment); err != nil {
		return slotBlock{}, fmt.Errorf("%s: names slot %d and does not have its block: %s", p.name, slots[0],
			quorum.TruncateAnswer(err.Error()))
	}
	if h.parentSlot >= from {
		return slotBlock{},
			fmt.Errorf("%s: has block %d for %d and says that its parent is block %d, which it does not have", p.name,
				slots[0], from, h.parentSlot)
	}
	return slotBlock{slots[0], h}, nil
}

// readContents returns the contents of a block, as one provider says.
func (p *provider) readContents(ctx context.Context, wanted vote, commitment string) (chain.Contents, error) {
	raw, err := p.readRawBlock(ctx, wanted.slot, "accounts", commitment)
	if err != nil {
		return chain.Contents{}, err
	}
	m := newMovements()
	h, err := decodeBlock(raw, m.addTx)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("%s: block %d: %w", p.name, wanted.slot, err)
	}
	got := slotBlock{wanted.slot, h}
	if got.toVote() != wanted {
		return chain.Contents{}, fmt.Errorf("%s: gives %v for %v", p.name, got.toVote(), wanted)
	}
	b, err := p.toChainBlock(ctx, got)
	return chain.Contents{
		Block: b, Transfers: m.transfers, Fees: m.fees, Mentioned: m.mentioned, BalancesProven: true,
	}, err
}

// firstBlockTime is the time of the first block of Solana's main network, in Unix seconds.
const firstBlockTime = 1_584_368_940

// toChainBlock converts a block. Its time may be missing or impossible (surfpool 1.5.0 gives a
// thousandth); then it is requested separately.
func (p *provider) toChainBlock(ctx context.Context, found slotBlock) (chain.Block, error) {
	if found.time < firstBlockTime {
		var t *int64
		if err := p.callMethod(ctx, &t, "getBlockTime", found.slot); err != nil {
			return chain.Block{}, err
		}
		if t == nil || *t < firstBlockTime || *t > timeMax {
			return chain.Block{}, fmt.Errorf("%s: block %d has no time", p.name, found.slot)
		}
		found.time = *t
	}
	return chain.Block{
		Height: found.slot, Hash: found.hash, Parent: found.parent,
		Time: time.Unix(found.time, 0).UTC(),
	}, nil
}

// Recent takes the block from the first provider that answers. A reorg between its requests is an
// error: the next call reads the new block as a whole.
func (c *Client) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	got, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (*chain.Contents, error) {
			found, err := p.firstBlock(ctx, height, confirmed)
			if errors.Is(err, errNoBlock) {
				if newest, err := p.newestSlot(ctx, confirmed); err != nil || height > newest {
					return nil, err
				}
			}
			if err != nil {
				return nil, err
			}
			contents, err := p.readContents(ctx, found.toVote(), confirmed)
			return &contents, err
		})
	if err == nil && got == nil {
		err = chain.ErrNotYet
	}
	if err != nil {
		return chain.Contents{}, fmt.Errorf("block %d of %s: %w", height, chain.Solana, err)
	}
	got.Providers, got.Verified = 1, "" // nothing may be credited from it
	return *got, nil
}

// Heads asks all providers at once. The final head is the highest that a quorum of them has
// reached. The latest head is the confirmed one of the first provider that answers.
func (c *Client) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := quorum.AgreeOnHeads(ctx, c.providersByTrust(), c.Quorum,
		func(ctx context.Context, p *provider) (chain.Heads, error) { return p.readHeads(ctx) })
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Solana, err)
	}
	return h, nil
}

func (p *provider) readHeads(ctx context.Context) (chain.Heads, error) {
	// In this order, so that a block that is mined meanwhile does not make the provider look
	// inconsistent.
	final, err := p.newestBlock(ctx, finalized)
	if err != nil {
		return chain.Heads{}, err
	}
	latest, err := p.newestBlock(ctx, confirmed)
	if err == nil && final.Height > latest.Height {
		err = fmt.Errorf("%s: says that block %d is final, and its newest is %d", p.name, final.Height, latest.Height)
	}
	return chain.Heads{Latest: latest, Final: final}, err
}

// newestBlock returns the newest block of a provider at a commitment. A provider may get the
// contents of a block a little later than its slot, so the block before is accepted.
func (p *provider) newestBlock(ctx context.Context, commitment string) (chain.Block, error) {
	newest, err := p.newestSlot(ctx, commitment)
	if err != nil {
		return chain.Block{}, err
	}
	h, err := p.readHeader(ctx, newest, commitment)
	if err == nil {
		return p.toChainBlock(ctx, slotBlock{newest, h})
	}
	if !errors.Is(err, errNoBlock) {
		return chain.Block{}, err
	}
	slots, slotsErr := p.readSlots(ctx, newest-min(newest, headLookback), headLookback, commitment)
	if slotsErr != nil {
		return chain.Block{}, slotsErr
	}
	for _, slot := range slices.Backward(slots) {
		if slot >= newest {
			continue
		}
		if h, err = p.readHeader(ctx, slot, commitment); err != nil {
			return chain.Block{}, err
		}
		return p.toChainBlock(ctx, slotBlock{slot, h})
	}
	return chain.Block{}, err
}
