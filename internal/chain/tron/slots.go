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
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
)

const (
	placesFree  = 8    // that an account is offered at a time; they differ by a millisecond
	takenKept   = 4096 // blocks whose places are remembered
	blockMillis = 3000 // between two blocks, when none is missed
	refPeriod   = 1 << 16
)

// Account offers places that follow from the newest final block alone, so the same until
// that is another, and says of the open ones whether they are used: their transaction is
// in a block, or no further block can have it. A place counts as used when all who answer
// say so, and as many as have to agree did.
//
// The adapter does not know which places were given out. Whoever asks keeps that; all that
// are offered are free by what the chain says.
func (c *Client) Account(ctx context.Context, a chain.Address, open ...chain.Slot) (chain.Account, error) {
	acct, err := c.stands(ctx, a, open)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", a, chain.Tron, err)
	}
	return acct, nil
}

// A standing is what one provider says of places.
type standing struct {
	heads
	used [][2]bool // of each, in the newest block and finally
}

func (c *Client) stands(ctx context.Context, a chain.Address, open []chain.Slot) (chain.Account, error) {
	if _, err := trontx.Bytes(a); err != nil {
		return chain.Account{}, err
	}
	places := make([]trontx.Place, len(open))
	for i, s := range open {
		var err error
		if places[i], err = trontx.ParseLease(s.Lease); err != nil {
			return chain.Account{}, err
		}
		if places[i].Owner != a {
			return chain.Account{}, fmt.Errorf("%v is a place of %s", s, places[i].Owner)
		}
	}
	var views []standing
	var errs []error
	for _, v := range several.Ask(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) (standing, error) {
		return c.standing(ctx, p, places)
	}) {
		if v.Err != nil {
			errs = append(errs, v.Err)
			continue
		}
		views = append(views, v.Value)
	}
	if len(views) < c.Agree {
		return chain.Account{}, errors.Join(errs...)
	}
	acct := chain.Account{Leased: true}
	known := map[string]bool{}
	for i, s := range open {
		latest, final := true, true
		for _, v := range views {
			latest, final = latest && v.used[i][0], final && v.used[i][1]
		}
		known[s.Lease] = true
		switch {
		case !latest:
			acct.Leases = append(acct.Leases, chain.Lease{Latest: s.Lease, Final: s.Lease})
		case !final:
			acct.Leases = append(acct.Leases, chain.Lease{Final: s.Lease})
		}
	}
	tips := make([]heads, len(views))
	for i, v := range views {
		tips[i] = v.heads
	}
	for _, lease := range c.free(a, reached(tips, c.Agree)) {
		if !known[lease] {
			acct.Leases = append(acct.Leases, chain.Lease{Latest: lease, Final: lease})
		}
	}
	return acct, nil
}

// free are the places of an account that refer to a final block.
func (c *Client) free(a chain.Address, ref header) []string {
	all := make([]string, placesFree)
	for i := range all {
		all[i] = trontx.Place{
			Owner: a, Ref: trontx.RefOf(ref.height), RefHash: [8]byte(ref.id[8:16]),
			From: ref.at, Until: ref.at + c.Life.Milliseconds() + int64(i),
		}.Lease()
	}
	return all
}

func (c *Client) standing(ctx context.Context, p *provider, places []trontx.Place) (standing, error) {
	tips, err := p.tips(ctx)
	if err != nil {
		return standing{}, err
	}
	s := standing{heads: tips, used: make([][2]bool, len(places))}
	for i, at := range places {
		for n, from := range []struct {
			view
			header
		}{{newest, tips.latest}, {solid, tips.final}} {
			if s.used[i][n], err = c.used(ctx, p, from.view, from.header, at); err != nil {
				return standing{}, err
			}
		}
	}
	return s, nil
}

// used tells whether a place is used in a block: it or one before has its transaction, or
// it is so late that none on top of it can have it.
func (c *Client) used(ctx context.Context, p *provider, of view, head header, at trontx.Place) (bool, error) {
	if ended(head, at) {
		return true, nil
	}
	return c.has(ctx, p, of, head, at)
}

// ended tells whether no block after this one can have the transaction of a place: a
// block takes what is good for longer than the one before it.
func ended(h header, at trontx.Place) bool { return h.at >= at.Until }

// has tells whether the transaction of a place is in a block or one before it, down to the
// one that the place refers to.
func (c *Client) has(ctx context.Context, p *provider, of view, head header, at trontx.Place) (bool, error) {
	lease := at.Lease()
	id := head.hash()
	for height := head.height; ; height-- {
		b, err := c.block(ctx, p, of, id)
		if err == nil && b.height != height {
			err = fmt.Errorf("%s: block %s is at height %d, not %d", p.name, id, b.height, height)
		}
		if err != nil {
			return false, err
		}
		if b.at <= at.From {
			if !at.Refers(b.height, b.id, b.at) {
				return false, fmt.Errorf("%s: its chain has not the block that the place %s refers to", p.name, lease)
			}
			return false, nil
		}
		if slices.Contains(b.leases, lease) {
			return true, nil
		}
		id = b.block().Parent
	}
}

// A takes is a block with the places that its transactions have.
type takes struct {
	header
	leases []string
}

// taken remembers blocks by their identifiers. What is in a block follows from that, so it
// does not matter who gave it.
type taken struct {
	mu   sync.Mutex
	kept map[string]takes
}

func (c *Client) block(ctx context.Context, p *provider, of view, id string) (takes, error) {
	c.taken.mu.Lock()
	b, known := c.taken.kept[id]
	c.taken.mu.Unlock()
	if known {
		return b, nil
	}
	h, txs, err := p.block(ctx, of, id)
	if err != nil {
		return takes{}, err
	}
	b = takes{header: h}
	for _, t := range txs {
		if t.Lease != "" {
			b.leases = append(b.leases, t.Lease)
		}
	}
	c.taken.mu.Lock()
	defer c.taken.mu.Unlock()
	if c.taken.kept == nil {
		c.taken.kept = map[string]takes{}
	}
	if len(c.taken.kept) >= takenKept { // the lower half goes
		ids := slices.SortedFunc(maps.Keys(c.taken.kept), func(x, y string) int {
			return cmp.Compare(c.taken.kept[x].height, c.taken.kept[y].height)
		})
		for _, old := range ids[:takenKept/2] {
			delete(c.taken.kept, old)
		}
	}
	c.taken.kept[id] = b
	return b, nil
}

// Lapsed proves that a place has ended without a transaction: then nothing that was signed
// in it is mined, ever. As many providers as have to agree show, in final blocks that hang
// together from the one it refers to up to the first that is as late as its expiry, that
// none has it, and they name the same last block; and nobody shows anything else. The block
// is the proof; lapsed is false while that is not so. Error: too few could look.
func (c *Client) Lapsed(ctx context.Context, s chain.Slot) (proof chain.Block, lapsed bool, err error) {
	fail := func(err error) (chain.Block, bool, error) {
		return chain.Block{}, false, fmt.Errorf("whether %v on %s has lapsed: %w", s, chain.Tron, err)
	}
	at, err := trontx.ParseLease(s.Lease)
	if err != nil {
		return fail(err)
	}
	var errs []error
	var votes int
	for _, a := range several.Ask(ctx, c.providers, len(c.providers), func(ctx context.Context, p *provider) (*header, error) {
		return c.lapsed(ctx, p, at)
	}) {
		switch {
		case a.Err != nil:
			errs = append(errs, a.Err)
		case a.Value == nil:
			return chain.Block{}, false, nil // it may be mined yet, or is
		case votes == 0 || a.Value.hash() == proof.Hash:
			proof = a.Value.block()
			votes++
		default:
			return fail(fmt.Errorf("it ends with block %s or with %s: %w", proof.Hash, a.Value.hash(), chain.ErrDisagreement))
		}
	}
	if votes < c.Agree {
		return fail(errors.Join(append(errs, fmt.Errorf("%d of the %d providers that have to agree said", votes, c.Agree))...))
	}
	return proof, true, nil
}

// lapsed is the final block with which a place ended, when none has its transaction.
func (c *Client) lapsed(ctx context.Context, p *provider, at trontx.Place) (*header, error) {
	head, err := p.header(ctx, solid, "")
	if err != nil || !ended(head, at) {
		return nil, err
	}
	low, err := p.refers(ctx, head, at)
	if err != nil {
		return nil, err
	}
	// The first block that is as late as the expiry: the last that can have it.
	last := head
	for lowest, highest := low.height+1, head.height; lowest < highest; {
		middle := lowest + (highest-lowest)/2
		h, err := p.header(ctx, solid, strconv.FormatUint(middle, 10))
		if err != nil {
			return nil, err
		}
		if ended(h, at) {
			highest, last = middle, h
		} else {
			lowest = middle + 1
		}
	}
	has, err := c.has(ctx, p, solid, last, at)
	if err != nil || has {
		return nil, err
	}
	return &last, nil
}

// refers finds the block that a place refers to. A transaction has only the lowest bytes
// of its height, and its time; no more blocks than fit were made since.
func (p *provider) refers(ctx context.Context, head header, at trontx.Place) (header, error) {
	lowest := head.height - min(head.height, uint64(head.at-at.From)/blockMillis)
	first := lowest&^(refPeriod-1) | uint64(at.Ref[0])<<8 | uint64(at.Ref[1])
	if first < lowest {
		first += refPeriod
	}
	for height := first; height <= head.height; height += refPeriod {
		h, err := p.header(ctx, solid, strconv.FormatUint(height, 10))
		if err != nil {
			return header{}, err
		}
		if at.Refers(h.height, h.id, h.at) {
			return h, nil
		}
	}
	return header{}, fmt.Errorf("%s: its chain has not the block that the place %s refers to", p.name, at.Lease())
}
