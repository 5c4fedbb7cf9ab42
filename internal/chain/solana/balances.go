package solana

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// undoMax is how many slots a balance is taken back over. Each is a block to fetch.
	undoMax = 512
	// accountsAtOnce is how many accounts nodes give in one answer.
	accountsAtOnce = 100
	questionsMax   = 4 // at once, to one provider
	// A node may name a slot whose block it does not give yet; it is asked so often.
	awaitTries = 20
	awaitEvery = 100 * time.Millisecond

	tokenOwnerByte, tokenAmountByte, tokenBytes = 32, 64, 72 // of a token account: mint, owner, amount
)

// Balances asks one provider after the other until as many as have to agree on a
// final block give the same balances.
//
// Nodes tell balances as they are now, in a slot that they name. What was in an earlier
// block is found by fetching all blocks since and undoing them, so it costs as much as
// those blocks: next to nothing for a block that became final a moment ago, a hundred
// megabytes for one that is thirty slots old. Over undoMax slots it is ErrStateGone.
func (c *Client) Balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	if len(of) == 0 {
		return nil, nil
	}
	amounts, err := several.Balances(ctx, c.providers, c.Agree, of, func(ctx context.Context, p *provider) ([]money.Amount, error) {
		return p.balances(ctx, at, of)
	})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", at.Height, chain.Solana, err)
	}
	return amounts, nil
}

// A weighing is what somebody holds while blocks are undone.
type weighing struct {
	of          chain.Holding
	owner, mint []byte
	slot        uint64            // of what was answered
	units       map[string]uint64 // by account
	silent      string            // why the provider says that the token is none
}

// balances are what a provider says of one block.
func (p *provider) balances(ctx context.Context, at chain.Block, of []chain.Holding) ([]money.Amount, error) {
	final, err := p.onChain(ctx, at)
	if err != nil {
		return nil, err
	}
	commitment := confirmed
	if final >= at.Height {
		commitment = finalized
	}
	all := make([]weighing, len(of))
	var coins []*weighing
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(questionsMax)
	for i, h := range of {
		w := &all[i]
		*w = weighing{of: h, owner: []byte(h.Address), mint: []byte(h.Contract), units: map[string]uint64{}}
		if h.Contract == "" {
			coins = append(coins, w)
			continue
		}
		g.Go(func() error { return p.weighTokens(each, w, at.Height, commitment) })
	}
	for part := range slices.Chunk(coins, accountsAtOnce) {
		g.Go(func() error { return p.weighCoins(each, part, at.Height, commitment) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var silent chain.SilentError
	for _, w := range all {
		if w.silent != "" {
			silent.Of, silent.Reason = append(silent.Of, w.of), w.silent
		}
	}
	if len(silent.Of) > 0 {
		return nil, fmt.Errorf("%s: %w", p.name, &silent)
	}
	if err := p.undo(ctx, at, all); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(of))
	for i, w := range all {
		for _, units := range w.units {
			if amounts[i], err = amounts[i].Add(money.Units(units)); err != nil {
				return nil, fmt.Errorf("%s: balance of %s in %q: %w", p.name, w.of.Address, w.of.Contract, err)
			}
		}
	}
	return amounts, nil
}

// onChain sees that a provider has a block and tells its newest final slot.
func (p *provider) onChain(ctx context.Context, at chain.Block) (final uint64, err error) {
	if final, err = p.slot(ctx, finalized); err != nil {
		return 0, err
	}
	h, err := p.header(ctx, at.Height, confirmed)
	if err == nil && h.hash != at.Hash {
		err = fmt.Errorf("%s: has block %.44q in slot %d, not %s", p.name, h.hash, at.Height, at.Hash)
	}
	return final, err
}

// weighed is the form of answers about accounts.
type weighed[T any] struct {
	Context struct {
		Slot uint64 `json:"slot"`
	} `json:"context"`
	Value T `json:"value"`
}

type account struct {
	Lamports   *uint64  `json:"lamports"`
	Owner      string   `json:"owner"`
	Executable bool     `json:"executable"`
	Data       []string `json:"data"` // and how it is encoded
}

func (a *account) bytes() ([]byte, error) {
	if len(a.Data) != 2 || a.Data[1] != "base64" {
		return nil, errors.New("an account without data in base64")
	}
	return base64.StdEncoding.DecodeString(a.Data[0])
}

// since asks for an account as it is after a slot, and for so much of its data.
func since(slot uint64, commitment string, bytes int) options {
	return options{
		"commitment": commitment, "minContextSlot": slot, "encoding": "base64",
		"dataSlice": map[string]int{"offset": 0, "length": bytes},
	}
}

func (p *provider) weighCoins(ctx context.Context, of []*weighing, slot uint64, commitment string) error {
	const method = "getMultipleAccounts"
	var addresses []chain.Address
	for _, w := range of {
		addresses = append(addresses, w.of.Address)
	}
	var got weighed[[]*account]
	if err := p.call(ctx, &got, method, addresses, since(slot, commitment, 0)); err != nil {
		return err
	}
	if len(got.Value) != len(of) || got.Context.Slot < slot {
		return p.Said(method, fmt.Errorf("%d accounts in slot %d, want %d in %d or later", len(got.Value), got.Context.Slot, len(of), slot))
	}
	for i, a := range got.Value {
		of[i].slot = got.Context.Slot
		if a == nil {
			continue
		}
		if a.Lamports == nil {
			return p.Said(method, errors.New("an account without lamports"))
		}
		of[i].units[string(of[i].of.Address)] = *a.Lamports
	}
	return nil
}

// weighTokens sums up all of an owner's accounts of a mint: the associated one is where
// tokens usually come, and nothing keeps anybody from another.
func (p *provider) weighTokens(ctx context.Context, w *weighing, slot uint64, commitment string) error {
	const method = "getTokenAccountsByOwner"
	var got weighed[[]struct {
		Pubkey  string   `json:"pubkey"`
		Account *account `json:"account"`
	}]
	err := p.call(ctx, &got, method, w.of.Address, map[string]chain.Address{"mint": w.of.Contract}, since(slot, commitment, tokenBytes))
	if code(err) == codeInvalidParams {
		w.silent = several.Short(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if got.Context.Slot < slot {
		return p.Said(method, fmt.Errorf("as of slot %d, want %d or later", got.Context.Slot, slot))
	}
	owner, err := solanatx.Bytes(w.of.Address)
	if err != nil {
		return err
	}
	mint, err := solanatx.Bytes(w.of.Contract)
	if err != nil {
		return err
	}
	w.slot = got.Context.Slot
	for _, a := range got.Value {
		var data []byte
		if a.Account != nil {
			data, err = a.Account.bytes()
		}
		if err != nil || len(data) < tokenBytes || !bytes.Equal(data[:tokenOwnerByte], mint[:]) || !bytes.Equal(data[tokenOwnerByte:tokenAmountByte], owner[:]) {
			return p.Said(method, errors.Join(errors.New("an account of another mint or owner"), err))
		}
		if _, twice := w.units[a.Pubkey]; twice || a.Pubkey == "" {
			return p.Said(method, errors.New("an account twice, or without its address"))
		}
		w.units[a.Pubkey] = binary.LittleEndian.Uint64(data[tokenAmountByte:])
	}
	return nil
}

// A touch is what an account held before a transaction.
type touch struct {
	of      *weighing
	account string
	units   uint64
	held    bool // it was the holder's, and of the mint
}

// undo takes back what happened after a block.
func (p *provider) undo(ctx context.Context, at chain.Block, all []weighing) error {
	last := at.Height
	coins, tokens := map[string][]*weighing{}, map[string][]*weighing{}
	for i := range all {
		w := &all[i]
		last = max(last, w.slot)
		if w.of.Contract == "" {
			coins[string(w.owner)] = append(coins[string(w.owner)], w)
		} else {
			tokens[string(w.owner)] = append(tokens[string(w.owner)], w)
		}
	}
	if last == at.Height {
		return nil
	}
	if last-at.Height > undoMax {
		return fmt.Errorf("%s: tells balances of slot %d, %d slots later: %w", p.name, last, last-at.Height, chain.ErrStateGone)
	}
	slots, err := p.since(ctx, at.Height, last)
	if err != nil {
		return err
	}
	var touches []touch
	parent := at.Hash
	for _, slot := range slots {
		raw, err := p.raw(ctx, slot, "accounts", confirmed)
		if err != nil {
			return err
		}
		h, err := decode(raw, func(t *tx) error {
			touches = t.touched(touches, slot, coins, tokens)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: block %d: %w", p.name, slot, err)
		}
		if h.parent != parent {
			return fmt.Errorf("%s: block %d stands on %.44q, want %.44q: one between is missing, or there was a fork", p.name, slot, h.parent, parent)
		}
		parent = h.hash
	}
	for _, t := range slices.Backward(touches) {
		if t.held {
			t.of.units[t.account] = t.units
		} else {
			delete(t.of.units, t.account)
		}
	}
	return nil
}

// since are the slots with a block after one and up to another, which has one. They are
// asked for as confirmed: what is final is so too, and the hashes have to fit.
func (p *provider) since(ctx context.Context, after, last uint64) ([]uint64, error) {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for range awaitTries {
		slots, err := p.slots(ctx, after+1, int(last-after), confirmed)
		if err != nil {
			return nil, err
		}
		if i, found := slices.BinarySearch(slots, last); found {
			return slots[:i+1], nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-tick.C:
		}
	}
	return nil, fmt.Errorf("%s: tells balances of slot %d and does not give its block", p.name, last)
}

// touched appends what a transaction in a slot will have undone.
func (t *tx) touched(to []touch, slot uint64, coins, tokens map[string][]*weighing) []touch {
	for i, a := range t.accounts {
		for _, w := range coins[string(a)] {
			if slot <= w.slot {
				to = append(to, touch{w, string(a), t.pre[i], true})
			}
		}
	}
	if len(tokens) == 0 {
		return to
	}
	for _, list := range [2][]holding{t.preTokens, t.postTokens} {
		for i := range list {
			h := &list[i]
			for _, w := range tokens[string(h.owner)] {
				if slot > w.slot || !bytes.Equal(h.mint, w.mint) {
					continue
				}
				units, held := t.held(h.account, h.mint, h.owner)
				to = append(to, touch{w, string(t.accounts[h.account]), units, held})
			}
		}
	}
	return to
}

// held is what an account held before, if it was the owner's and of the mint.
func (t *tx) held(account int, mint, owner []byte) (units uint64, held bool) {
	for i := range t.preTokens {
		if h := &t.preTokens[i]; h.account == account {
			return h.units, bytes.Equal(h.mint, mint) && bytes.Equal(h.owner, owner)
		}
	}
	return 0, false
}
