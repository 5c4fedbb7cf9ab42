package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// How sure a provider has to be of what it says. Of blocks that are only processed
// nobody gives the contents, and every fork of the moment is among them; so what is
// confirmed, voted for by two thirds, is the newest that we look at.
const (
	finalized = "finalized"
	confirmed = "confirmed"
)

// The codes of errors that mean something.
const (
	codeInvalidParams   = -32602 // such as a mint that is none
	codeNotAvailable    = -32004 // or not yet
	codeSkipped         = -32007 // or lost
	codeSkippedLongAgo  = -32009 // or lost
	codeStatusNotYet    = -32014
	codeUnknownVersion  = -32015
	transactionsVersion = 1 // the newest that decode knows
)

func code(err error) int {
	var e *rpcError
	if errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// headsBack is how far behind its newest slot a provider's newest block may be.
const headsBack = 32

type options map[string]any

func sure(commitment string) options { return options{"commitment": commitment} }

// slot is the newest slot that a provider is so sure of.
func (p *provider) slot(ctx context.Context, commitment string) (slot uint64, err error) {
	raw, err := p.ask(ctx, "getSlot", sure(commitment))
	if err != nil {
		return 0, err
	}
	s := newScanner(raw)
	slot = s.number()
	if err := s.end(); err != nil {
		return 0, p.Said("getSlot", err)
	}
	return slot, nil
}

// slots are those with a block from one on, as many at most.
func (p *provider) slots(ctx context.Context, from uint64, most int, commitment string) (slots []uint64, err error) {
	const method = "getBlocksWithLimit"
	raw, err := p.ask(ctx, method, from, most, sure(commitment))
	if err != nil {
		return nil, err
	}
	s := newScanner(raw)
	last := from
	s.expect('[')
	for n := 0; s.more(']', &n); {
		slot := s.number()
		if slot < last || n > most {
			s.fail("a slot that was not asked for")
		}
		slots, last = append(slots, slot), slot+1
	}
	if err := s.end(); err != nil {
		return nil, p.Said(method, err)
	}
	return slots, nil
}

// errNoBlock says that a provider has no block in a slot: there is none, or it is
// not there yet, or it was lost. Which of them shows elsewhere.
var errNoBlock = errors.New("no block in the slot")

// raw is a block as a provider gives it, with details as getBlock names them.
func (p *provider) raw(ctx context.Context, slot uint64, details, commitment string) ([]byte, error) {
	raw, err := p.ask(ctx, "getBlock", slot, options{
		"commitment": commitment, "transactionDetails": details, "encoding": "json",
		"maxSupportedTransactionVersion": transactionsVersion, "rewards": false,
	})
	switch code(err) {
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

// header is what a block says of itself, without what is in it.
func (p *provider) header(ctx context.Context, slot uint64, commitment string) (header, error) {
	raw, err := p.raw(ctx, slot, "none", commitment)
	if err != nil {
		return header{}, err
	}
	h, err := decode(raw, nil)
	if err != nil {
		return header{}, fmt.Errorf("%s: block %d: %w", p.name, slot, err)
	}
	return h, nil
}

// A sighting is the first block at or above a slot.
type sighting struct {
	slot uint64
	header
}

// A vote is what providers have to agree on of a block: which it is, and what it stands
// on. Its time is each one's own estimate while the block is young.
type vote struct {
	slot, parentSlot uint64
	hash, parent     string
}

func (s sighting) vote() vote { return vote{s.slot, s.parentSlot, s.hash, s.parent} }

// String is what strangers say, so it is bounded.
func (v vote) String() string {
	return fmt.Sprintf("block %.44q in slot %d, on %.44q in %d", v.hash, v.slot, v.parent, v.parentSlot)
}

// first is the first block at or above a slot; errNoBlock when there is none yet.
func (p *provider) first(ctx context.Context, from uint64, commitment string) (sighting, error) {
	h, err := p.header(ctx, from, commitment)
	if err == nil {
		return sighting{from, h}, nil
	}
	if !errors.Is(err, errNoBlock) {
		return sighting{}, err
	}
	slots, none := p.slots(ctx, from, 1, commitment)
	switch {
	case none != nil:
		return sighting{}, none
	case len(slots) == 0 || slots[0] == from:
		return sighting{}, err
	}
	if h, err = p.header(ctx, slots[0], commitment); err != nil {
		return sighting{}, fmt.Errorf("%s: names slot %d and does not give its block: %s", p.name, slots[0], several.Short(err.Error()))
	}
	if h.parentSlot >= from {
		return sighting{}, fmt.Errorf("%s: gives block %d for %d and says that it stands on block %d, which it does not give", p.name, slots[0], from, h.parentSlot)
	}
	return sighting{slots[0], h}, nil
}

// contents are what is in a block, in one provider's word.
func (p *provider) contents(ctx context.Context, at vote, commitment string) (chain.Contents, error) {
	raw, err := p.raw(ctx, at.slot, "accounts", commitment)
	if err != nil {
		return chain.Contents{}, err
	}
	m := newMovements()
	h, err := decode(raw, m.see)
	if err != nil {
		return chain.Contents{}, fmt.Errorf("%s: block %d: %w", p.name, at.slot, err)
	}
	is := sighting{at.slot, h}
	if is.vote() != at {
		return chain.Contents{}, fmt.Errorf("%s: gives %v for %v", p.name, is.vote(), at)
	}
	b, err := p.block(ctx, is)
	return chain.Contents{Block: b, Transfers: m.transfers, Fees: m.fees, Weighed: true}, err
}

// began is when the first block of Solana's main network was made, in Unix seconds.
const began = 1_584_368_940

// block names a block. Its time may be missing in it, or impossible (surfpool 1.5.0
// gives a thousandth); then it is asked for alone.
func (p *provider) block(ctx context.Context, at sighting) (chain.Block, error) {
	if at.time < began {
		var t *int64
		if err := p.call(ctx, &t, "getBlockTime", at.slot); err != nil {
			return chain.Block{}, err
		}
		if t == nil || *t < began || *t > timeMax {
			return chain.Block{}, fmt.Errorf("%s: block %d has no time", p.name, at.slot)
		}
		at.time = *t
	}
	return chain.Block{Height: at.slot, Hash: at.hash, Parent: at.parent, Time: time.Unix(at.time, 0).UTC()}, nil
}

// Recent takes the block from the first provider that answers. A fork between its
// requests is an error: the next call sees the new block whole.
func (c *Client) Recent(ctx context.Context, height uint64) (chain.Contents, error) {
	got, err := several.First(ctx, c.showing(), func(ctx context.Context, p *provider) (*chain.Contents, error) {
		at, err := p.first(ctx, height, confirmed)
		if errors.Is(err, errNoBlock) {
			if newest, err := p.slot(ctx, confirmed); err != nil || height > newest {
				return nil, err
			}
		}
		if err != nil {
			return nil, err
		}
		contents, err := p.contents(ctx, at.vote(), confirmed)
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

// Heads asks all providers at once. The final head is the highest that Agree
// of them have reached; the latest is of the first one that answers, as it is
// confirmed there.
func (c *Client) Heads(ctx context.Context) (chain.Heads, error) {
	h, err := several.Heads(ctx, c.showing(), c.Agree, func(ctx context.Context, p *provider) (chain.Heads, error) { return p.heads(ctx) })
	if err != nil {
		return chain.Heads{}, fmt.Errorf("heads of %s: %w", chain.Solana, err)
	}
	return h, nil
}

func (p *provider) heads(ctx context.Context) (chain.Heads, error) {
	// In this order, so that a block that comes meanwhile makes no liar of it.
	final, err := p.head(ctx, finalized)
	if err != nil {
		return chain.Heads{}, err
	}
	latest, err := p.head(ctx, confirmed)
	if err == nil && final.Height > latest.Height {
		err = fmt.Errorf("%s: calls block %d final, and its newest is %d", p.name, final.Height, latest.Height)
	}
	return chain.Heads{Latest: latest, Final: final}, err
}

// head is the newest block that a provider is so sure of. Its contents may come to it a
// little later than its slot, so the block before will do.
func (p *provider) head(ctx context.Context, commitment string) (chain.Block, error) {
	newest, err := p.slot(ctx, commitment)
	if err != nil {
		return chain.Block{}, err
	}
	h, err := p.header(ctx, newest, commitment)
	if err == nil {
		return p.block(ctx, sighting{newest, h})
	}
	if !errors.Is(err, errNoBlock) {
		return chain.Block{}, err
	}
	slots, none := p.slots(ctx, newest-min(newest, headsBack), headsBack, commitment)
	if none != nil {
		return chain.Block{}, none
	}
	for _, slot := range slices.Backward(slots) {
		if slot >= newest {
			continue
		}
		if h, err = p.header(ctx, slot, commitment); err != nil {
			return chain.Block{}, err
		}
		return p.block(ctx, sighting{slot, h})
	}
	return chain.Block{}, err
}
