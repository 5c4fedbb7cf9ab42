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
	slotsOffered = 8    // offered to an account at a time; their expiries differ by a millisecond
	blocksCached = 4096 // blocks whose slots are cached
	blockMillis  = 3000 // between two blocks, if none is missed
	refPeriod    = 1 << 16
)

// Account offers slots that follow from the newest final block alone, so they stay the same until
// another block is final. For each open slot it says whether it is used: its transaction is in a
// block, or no further block can contain it. A slot counts as used if all providers that answer say
// so, and these are at least the quorum.
//
// The adapter does not know which slots were assigned; the caller stores that. All offered slots
// are free as far as the chain shows.
func (c *Client) Account(ctx context.Context, a chain.Address, open ...chain.Slot) (chain.Account, error) {
	acct, err := c.readSlots(ctx, a, open)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", a, chain.Tron, err)
	}
	return acct, nil
}

// slotView is what one provider says about slots.
type slotView struct {
	heads
	used [][2]bool // for each slot: in the newest block, and finally
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
			return chain.Account{}, fmt.Errorf("%v is a slot of %s", s, slotRefs[i].Owner)
		}
	}
	var views []slotView
	var errs []error
	for _, v := range quorum.AskAll(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) (slotView, error) {
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
	for _, slotRef := range c.offerSlots(a, agreedFinal(tips, c.Quorum)) {
		if !isOpen[slotRef] {
			acct.Slots = append(acct.Slots, chain.SlotState{Latest: slotRef, Final: slotRef})
		}
	}
	return acct, nil
}

// offerSlots returns the slots of an account that refer to a final block.
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

// isUsed reports whether a slot is used in a block. The block or an earlier one contains its
// transaction, or the block is so late that none after it can.
func (c *Client) isUsed(
	ctx context.Context, p *provider, state view, head header, slotRef trontx.SlotRef,
) (bool, error) {
	if isExpired(head, slotRef) {
		return true, nil
	}
	return c.hasTx(ctx, p, state, head, slotRef)
}

// isExpired reports whether no block after this one can contain the transaction of a slot. A block
// contains a transaction only if the block before it is older than the expiry.
func isExpired(h header, slotRef trontx.SlotRef) bool { return h.millis >= slotRef.Expiration }

// hasTx reports whether the transaction of a slot is in a block or in an earlier one, down to the
// block that the slot refers to.
func (c *Client) hasTx(
	ctx context.Context, p *provider, state view, head header, slotRef trontx.SlotRef,
) (bool, error) {
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
				return false, fmt.Errorf(
					"%s: its chain does not have the block to which slot %s refers",
					p.name, slotKey,
				)
			}
			return false, nil
		}
		if slices.Contains(b.slotKeys, slotKey) {
			return true, nil
		}
		id = b.toChainBlock().Parent
	}
}

// blockSlots is a block with the slots that its transactions take.
type blockSlots struct {
	header
	slotKeys []string
}

// slotCache caches blocks by their identifiers. The identifier proves the contents of a block, so
// it does not matter which provider returned it.
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
	if len(c.blockCache.blocks) >= blocksCached { // removes the lower half
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

// ProveExpired proves that a slot has ended without a transaction. A transaction that was signed in
// it can then never be mined.
//
// The quorum has to show this in final blocks that form a chain, from the block that the slot
// refers to up to the first that reaches its expiry. None of them has the transaction, all name the
// same last block, and no provider shows anything else. That last block is the proof. Until then
// expired is false. Error: too few providers could look.
func (c *Client) ProveExpired(ctx context.Context, s chain.Slot) (proof chain.Block, expired bool, err error) {
	fail := func(err error) (chain.Block, bool, error) {
		return chain.Block{}, false, fmt.Errorf("whether %v on %s has expired: %w", s, chain.Tron, err)
	}
	slotRef, err := trontx.ParseSlotKey(s.Key)
	if err != nil {
		return fail(err)
	}
	var errs []error
	var votes int
	for _, a := range quorum.AskAll(ctx, c.providers, len(c.providers),
		func(ctx context.Context, p *provider) (*header, error) {
			return c.findExpiry(ctx, p, slotRef)
		}) {
		switch {
		case a.Err != nil:
			errs = append(errs, a.Err)
		case a.Value == nil:
			return chain.Block{}, false, nil // the transaction may still be mined, or is
		case votes == 0 || a.Value.idText() == proof.Hash:
			proof = a.Value.toChainBlock()
			votes++
		default:
			return fail(fmt.Errorf(
				"it ends with block %s or with %s: %w", proof.Hash, a.Value.idText(), chain.ErrDisagreement,
			))
		}
	}
	if votes < c.Quorum {
		return fail(errors.Join(append(
			errs, fmt.Errorf("%d of the %d providers of the quorum answered", votes, c.Quorum),
		)...))
	}
	return proof, true, nil
}

// findExpiry returns the final block with which a slot expired if no block has its transaction.
func (c *Client) findExpiry(ctx context.Context, p *provider, slotRef trontx.SlotRef) (*header, error) {
	head, err := p.readHeader(ctx, solidified, "")
	if err != nil || !isExpired(head, slotRef) {
		return nil, err
	}
	refBlock, err := p.findRefBlock(ctx, head, slotRef)
	if err != nil {
		return nil, err
	}
	// The first block that reaches the expiry is the last that can contain the transaction.
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

// findRefBlock finds the block that a slot refers to. A transaction names only the lowest bytes of
// its height, and its time. The search starts at the height that results if no block was missed
// since that time.
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
	return header{}, fmt.Errorf(
		"%s: its chain does not have the block to which slot %s refers", p.name, slotRef.SlotKey(),
	)
}
