package tron

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
)

const (
	slotsOffered = 8    // that an account is offered at a time; they differ by a millisecond
	blocksCached = 4096 // blocks whose places are remembered
	blockMillis  = 3000 // between two blocks, when none is missed
	refPeriod    = 1 << 16
)

// Account offers places that follow from the newest final block alone, so the same until
// that is another, and says of the open ones whether they are used: their transaction is
// in a block, or no further block can have it. A place counts as used when all who answer
// say so, and as many as have to agree did.
//
// The adapter does not know which places were given out. Whoever asks keeps that; all that
// are offered are free by what the chain says.
func (c *Client) Account(ctx context.Context, a chain.Address, open ...chain.Slot) (chain.Account, error) {
	acct, err := c.readSlots(ctx, a, open)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", a, chain.Tron, err)
	}
	return acct, nil
}

// A standing is what one provider says of places.
type slotView struct {
	heads
	used [][2]bool // of each, in the newest block and finally
}

func (c *Client) readSlots(ctx context.Context, a chain.Address, open []chain.Slot) (chain.Account, error) {
	if _, err := trontx.Bytes(a); err != nil {
		return chain.Account{}, err
	}
	slotRefs := make([]trontx.SlotRef, len(open))
	for i, s := range open {
		var err error
		if slotRefs[i], err = trontx.ParseSlotKey(s.Key); err != nil {
			return chain.Account{}, err
		}
		if slotRefs[i].Owner != a {
			return chain.Account{}, fmt.Errorf("%v is a place of %s", s, slotRefs[i].Owner)
		}
	}
	var views []slotView
	var errs []error
	for _, v := range quorum.AskAll(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) (slotView, error) {
		return c.readSlotView(ctx, p, slotRefs)
	}) {
		if v.Err != nil {
			errs = append(errs, v.Err)
			continue
		}
		views = append(views, v.Value)
	}
	if len(views) < c.Quorum {
		return chain.Account{}, errors.Join(errs...)
	}
	acct := chain.Account{KeyedSlots: true}
	isOpen := map[string]bool{}
	for i, s := range open {
		latest, final := true, true
		for _, v := range views {
			latest, final = latest && v.used[i][0], final && v.used[i][1]
		}
		isOpen[s.Key] = true
		switch {
		case !latest:
			acct.Slots = append(acct.Slots, chain.SlotState{Latest: s.Key, Final: s.Key})
		case !final:
			acct.Slots = append(acct.Slots, chain.SlotState{Final: s.Key})
		}
	}
	tips := make([]heads, len(views))
	for i, v := range views {
		tips[i] = v.heads
	}
	for _, lease := range c.offerSlots(a, agreedFinal(tips, c.Quorum)) {
		if !isOpen[lease] {
			acct.Slots = append(acct.Slots, chain.SlotState{Latest: lease, Final: lease})
		}
	}
	return acct, nil
}

// offerSlots are the places of an account that refer to a final block.
func (c *Client) offerSlots(a chain.Address, ref header) []string {
	keys := make([]string, slotsOffered)
	for i := range keys {
		keys[i] = trontx.SlotRef{
			Owner: a, RefBlockBytes: trontx.RefBytesOf(ref.height), RefBlockHash: [8]byte(ref.id[8:16]),
			Timestamp: ref.millis, Expiration: ref.millis + c.TxLifetime.Milliseconds() + int64(i),
		}.SlotKey()
	}
	return keys
}

func (c *Client) readSlotView(ctx context.Context, p *provider, slotRefs []trontx.SlotRef) (slotView, error) {
	tips, err := p.readHeads(ctx)
	if err != nil {
		return slotView{}, err
	}
	s := slotView{heads: tips, used: make([][2]bool, len(slotRefs))}
	for i, slotRef := range slotRefs {
		for n, side := range []struct {
			view
			header
		}{{newest, tips.latest}, {solidified, tips.final}} {
			if s.used[i][n], err = c.isUsed(ctx, p, side.view, side.header, slotRef); err != nil {
				return slotView{}, err
			}
		}
	}
	return s, nil
}

// isUsed tells whether a place is used in a block: it or one before has its transaction, or
// it is so late that none on top of it can have it.
func (c *Client) isUsed(ctx context.Context, p *provider, state view, head header, slotRef trontx.SlotRef) (bool, error) {
	if isExpired(head, slotRef) {
		return true, nil
	}
	return c.hasTx(ctx, p, state, head, slotRef)
}

// isExpired tells whether no block after this one can have the transaction of a place: a
// block takes what is good for longer than the one before it.
func isExpired(h header, slotRef trontx.SlotRef) bool { return h.millis >= slotRef.Expiration }

// hasTx tells whether the transaction of a place is in a block or one before it, down to the
// one that the place refers to.
func (c *Client) hasTx(ctx context.Context, p *provider, state view, head header, slotRef trontx.SlotRef) (bool, error) {
	slotKey := slotRef.SlotKey()
	id := head.idText()
	for height := head.height; ; height-- {
		b, err := c.cachedBlock(ctx, p, state, id)
		if err == nil && b.height != height {
			err = fmt.Errorf("%s: block %s is at height %d, not %d", p.name, id, b.height, height)
		}
		if err != nil {
			return false, err
		}
		if b.millis <= slotRef.Timestamp {
			if !slotRef.RefersTo(b.height, b.id, b.millis) {
				return false, fmt.Errorf("%s: its chain has not the block that the place %s refers to", p.name, slotKey)
			}
			return false, nil
		}
		if slices.Contains(b.slotKeys, slotKey) {
			return true, nil
		}
		id = b.toChainBlock().Parent
	}
}

// A takes is a block with the places that its transactions have.
type blockSlots struct {
	header
	slotKeys []string
}

// slotCache remembers blocks by their identifiers. What is in a block follows from that, so it
// does not matter who gave it.
type slotCache struct {
	mu     sync.Mutex
	blocks map[string]blockSlots
}

func (c *Client) cachedBlock(ctx context.Context, p *provider, state view, id string) (blockSlots, error) {
	c.blockCache.mu.Lock()
	b, isCached := c.blockCache.blocks[id]
	c.blockCache.mu.Unlock()
	if isCached {
		return b, nil
	}
	h, txs, err := p.readBlock(ctx, state, id)
	if err != nil {
		return blockSlots{}, err
	}
	b = blockSlots{header: h}
	for _, t := range txs {
		if t.SlotKey != "" {
			b.slotKeys = append(b.slotKeys, t.SlotKey)
		}
	}
	c.blockCache.mu.Lock()
	defer c.blockCache.mu.Unlock()
	if c.blockCache.blocks == nil {
		c.blockCache.blocks = map[string]blockSlots{}
	}
	if len(c.blockCache.blocks) >= blocksCached { // the lower half goes
		ids := slices.SortedFunc(maps.Keys(c.blockCache.blocks), func(x, y string) int {
			return cmp.Compare(c.blockCache.blocks[x].height, c.blockCache.blocks[y].height)
		})
		for _, old := range ids[:blocksCached/2] {
			delete(c.blockCache.blocks, old)
		}
	}
	c.blockCache.blocks[id] = b
	return b, nil
}

// ProveExpired proves that a place has ended without a transaction: then nothing that was signed
// in it is mined, ever. As many providers as have to agree show, in final blocks that hang
// together from the one it refers to up to the first that is as late as its expiry, that
// none has it, and they name the same last block; and nobody shows anything else. The block
// is the proof; lapsed is false while that is not so. Error: too few could look.
func (c *Client) ProveExpired(ctx context.Context, s chain.Slot) (proof chain.Block, expired bool, err error) {
	fail := func(err error) (chain.Block, bool, error) {
		return chain.Block{}, false, fmt.Errorf("whether %v on %s has lapsed: %w", s, chain.Tron, err)
	}
	slotRef, err := trontx.ParseSlotKey(s.Key)
	if err != nil {
		return fail(err)
	}
	var errs []error
	var votes int
	for _, a := range quorum.AskAll(ctx, c.providers, len(c.providers), func(ctx context.Context, p *provider) (*header, error) {
		return c.findExpiry(ctx, p, slotRef)
	}) {
		switch {
		case a.Err != nil:
			errs = append(errs, a.Err)
		case a.Value == nil:
			return chain.Block{}, false, nil // it may be mined yet, or is
		case votes == 0 || a.Value.idText() == proof.Hash:
			proof = a.Value.toChainBlock()
			votes++
		default:
			return fail(fmt.Errorf("it ends with block %s or with %s: %w", proof.Hash, a.Value.idText(), chain.ErrDisagreement))
		}
	}
	if votes < c.Quorum {
		return fail(errors.Join(append(errs, fmt.Errorf("%d of the %d providers that have to agree said", votes, c.Quorum))...))
	}
	return proof, true, nil
}

// findExpiry is the final block with which a place ended, when none has its transaction.
func (c *Client) findExpiry(ctx context.Context, p *provider, slotRef trontx.SlotRef) (*header, error) {
	head, err := p.readHeader(ctx, solidified, "")
	if err != nil || !isExpired(head, slotRef) {
		return nil, err
	}
	refBlock, err := p.findRefBlock(ctx, head, slotRef)
	if err != nil {
		return nil, err
	}
	// The first block that is as late as the expiry: the last that can have it.
	last := head
	for lowest, highest := refBlock.height+1, head.height; lowest < highest; {
		middle := lowest + (highest-lowest)/2
		h, err := p.readHeader(ctx, solidified, strconv.FormatUint(middle, 10))
		if err != nil {
			return nil, err
		}
		if isExpired(h, slotRef) {
			highest, last = middle, h
		} else {
			lowest = middle + 1
		}
	}
	isMined, err := c.hasTx(ctx, p, solidified, last, slotRef)
	if err != nil || isMined {
		return nil, err
	}
	return &last, nil
}

// findRefBlock finds the block that a place refers to. A transaction has only the lowest bytes
// of its height, and its time; no more blocks than fit were made since.
func (p *provider) findRefBlock(ctx context.Context, head header, slotRef trontx.SlotRef) (header, error) {
	lowest := head.height - min(head.height, uint64(head.millis-slotRef.Timestamp)/blockMillis)
	first := lowest&^(refPeriod-1) | uint64(slotRef.RefBlockBytes[0])<<8 | uint64(slotRef.RefBlockBytes[1])
	if first < lowest {
		first += refPeriod
	}
	for height := first; height <= head.height; height += refPeriod {
		h, err := p.readHeader(ctx, solidified, strconv.FormatUint(height, 10))
		if err != nil {
			return header{}, err
		}
		if slotRef.RefersTo(h.height, h.id, h.millis) {
			return h, nil
		}
	}
	return header{}, fmt.Errorf("%s: its chain has not the block that the place %s refers to", p.name, slotRef.SlotKey())
}
