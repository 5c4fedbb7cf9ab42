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
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// rollBackMax is the number of slots over which a balance is rolled back. Each is a block to
	// fetch.
	rollBackMax = 512
	// accountsPerCall is how many accounts nodes give in one answer.
	accountsPerCall  = 100
	parallelCallsMax = 4 // at the same time, to one provider
	// A node may name a slot whose block it does not give yet; it is asked this often.
	awaitTries    = 20
	awaitInterval = 100 * time.Millisecond

	tokenOwnerByte, tokenAmountByte, tokenBytes = 32, 64, 72 // of a token account: mint, owner, amount
)

// Balances asks one provider after the other until a quorum gives the same balances.
//
// Nodes report balances as they are now, in a slot that they name. The balances of an earlier block
// are found by fetching all blocks since and undoing them. The cost is that of those blocks: almost
// nothing for a block that became final a moment ago, a hundred megabytes for one that is thirty
// slots old. Beyond rollBackMax slots the error is ErrStateGone.
func (c *Client) Balances(ctx context.Context, block chain.Block, holdings []chain.Holding) ([]money.Amount, error) {
	if len(holdings) == 0 {
		return nil, nil
	}
	amounts, err := quorum.AgreeOnBalances(ctx, c.providers, c.Quorum, holdings,
		func(ctx context.Context, p *provider) ([]money.Amount, error) {
			return p.readBalances(ctx, block, holdings)
		})
	if err != nil {
		return nil, fmt.Errorf("balances in block %d of %s: %w", block.Height, chain.Solana, err)
	}
	return amounts, nil
}

// balanceEntry is the balance of a holding while blocks are undone.
type balanceEntry struct {
	holding     chain.Holding
	owner, mint []byte
	slot        uint64            // of the answer
	units       map[string]uint64 // by account
	silent      string            // why the provider says that the token does not exist
}

// readBalances returns the balances in a block, as one provider says.
func (p *provider) readBalances(
	ctx context.Context, block chain.Block, holdings []chain.Holding,
) ([]money.Amount, error) {
	final, err := p.checkBlock(ctx, block)
	if err != nil {
		return nil, err
	}
	commitment := confirmed
	if final >= block.Height {
		commitment = finalized
	}
	entries := make([]balanceEntry, len(holdings))
	var coins []*balanceEntry
	g, groupCtx := errgroup.WithContext(ctx)
	g.SetLimit(parallelCallsMax)
	for i, h := range holdings {
		w := &entries[i]
		*w = balanceEntry{holding: h, owner: []byte(h.Address), mint: []byte(h.Contract), units: map[string]uint64{}}
		if h.Contract == "" {
			coins = append(coins, w)
			continue
		}
		g.Go(func() error { return p.readTokenUnits(groupCtx, w, block.Height, commitment) })
	}
	for part := range slices.Chunk(coins, accountsPerCall) {
		g.Go(func() error { return p.readLamports(groupCtx, part, block.Height, commitment) })
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	var silent chain.NoBalanceError
	for _, w := range entries {
		if w.silent != "" {
			silent.Holdings, silent.Reason = append(silent.Holdings, w.holding), w.silent
		}
	}
	if len(silent.Holdings) > 0 {
		return nil, fmt.Errorf("%s: %w", p.name, &silent)
	}
	if err := p.rollBack(ctx, block, entries); err != nil {
		return nil, err
	}
	amounts := make([]money.Amount, len(holdings))
	for i, w := range entries {
		for _, units := range w.units {
			if amounts[i], err = amounts[i].Add(money.Units(units)); err != nil {
				return nil, fmt.Errorf("%s: balance of %s in %q: %w", p.name, w.holding.Address, w.holding.Contract,
					err)
			}
		}
	}
	return amounts, nil
}

// checkBlock checks that a provider has a block and returns its newest final slot.
func (p *provider) checkBlock(ctx context.Context, block chain.Block) (final uint64, err error) {
	if final, err = p.newestSlot(ctx, finalized); err != nil {
		return 0, err
	}
	h, err := p.readHeader(ctx, block.Height, confirmed)
	if err == nil && h.hash != block.Hash {
		err = fmt.Errorf("%s: has block %.44q in slot %d, not %s", p.name, h.hash, block.Height, block.Hash)
	}
	return final, err
}

// contextResponse is the form of answers about accounts.
type contextResponse[T any] struct {
	Context struct {
		Slot uint64 `json:"slot"`
	} `json:"context"`
	Value T `json:"value"`
}

type account struct {
	Lamports   *uint64  `json:"lamports"`
	Owner      string   `json:"owner"`
	Executable bool     `json:"executable"`
	Data       []string `json:"data"` // and its encoding
}

func (a *account) decodeData() ([]byte, error) {
	if len(a.Data) != 2 || a.Data[1] != "base64" {
		return nil, errors.New("an account without data in base64")
	}
	return base64.StdEncoding.DecodeString(a.Data[0])
}

// accountOptions requests an account as it is after a slot, with a limited part of its data.
func accountOptions(slot uint64, commitment string, bytes int) options {
	return options{
		"commitment": commitment, "minContextSlot": slot, "encoding": "base64",
		"dataSlice": map[string]int{"offset": 0, "length": bytes},
	}
}

func (p *provider) readLamports(ctx context.Context, entries []*balanceEntry, slot uint64, commitment string) error {
	const method = "getMultipleAccounts"
	var addresses []chain.Address
	for _, w := range entries {
		addresses = append(addresses, w.holding.Address)
	}
	var got contextResponse[[]*account]
	if err := p.callMethod(ctx, &got, method, addresses, accountOptions(slot, commitment, 0)); err != nil {
		return err
	}
	if len(got.Value) != len(entries) || got.Context.Slot < slot {
		return p.WrapError(method, fmt.Errorf("%d accounts in slot %d, want %d in %d or later", len(got.Value),
			got.Context.Slot, len(entries), slot))
	}
	for i, a := range got.Value {
		entries[i].slot = got.Context.Slot
		if a == nil {
			continue
		}
		if a.Lamports == nil {
			return p.WrapError(method, errors.New("an account without lamports"))
		}
		entries[i].units[string(entries[i].holding.Address)] = *a.Lamports
	}
	return nil
}

// readTokenUnits sums all of an owner's accounts of a mint. Tokens usually arrive at the associated
// account, but others are possible.
func (p *provider) readTokenUnits(ctx context.Context, w *balanceEntry, slot uint64, commitment string) error {
	const method = "getTokenAccountsByOwner"
	var got contextResponse[[]struct {
		Pubkey  string   `json:"pubkey"`
		Account *account `json:"account"`
	}]
	err := p.callMethod(ctx, &got, method, w.holding.Address, map[string]chain.Address{"mint": w.holding.Contract},
		accountOptions(slot, commitment, tokenBytes))
	if errorCode(err) == codeInvalidParams {
		w.silent = quorum.TruncateAnswer(err.Error())
		return nil
	}
	if err != nil {
		return err
	}
	if got.Context.Slot < slot {
		return p.WrapError(method, fmt.Errorf("as of slot %d, want %d or later", got.Context.Slot, slot))
	}
	owner, err := solanatx.Bytes(w.holding.Address)
	if err != nil {
		return err
	}
	mint, err := solanatx.Bytes(w.holding.Contract)
	if err != nil {
		return err
	}
	w.slot = got.Context.Slot
	for _, a := range got.Value {
		var data []byte
		if a.Account != nil {
			data, err = a.Account.decodeData()
		}
		if err != nil || len(data) < tokenBytes || !bytes.Equal(data[:tokenOwnerByte], mint[:]) ||
			!bytes.Equal(data[tokenOwnerByte:tokenAmountByte], owner[:]) {
			return p.WrapError(method, errors.Join(errors.New("an account of another mint or owner"), err))
		}
		if _, isDuplicate := w.units[a.Pubkey]; isDuplicate || a.Pubkey == "" {
			return p.WrapError(method, errors.New("an account twice, or without its address"))
		}
		w.units[a.Pubkey] = binary.LittleEndian.Uint64(data[tokenAmountByte:])
	}
	return nil
}

// priorBalance is what an account held before a transaction.
type priorBalance struct {
	entry    *balanceEntry
	account  string
	units    uint64
	belonged bool // the account was the holder's, and of the mint
}

// rollBack undoes the blocks after a block.
func (p *provider) rollBack(ctx context.Context, block chain.Block, entries []balanceEntry) error {
	last := block.Height
	coins, tokens := map[string][]*balanceEntry{}, map[string][]*balanceEntry{}
	for i := range entries {
		w := &entries[i]
		last = max(last, w.slot)
		if w.holding.Contract == "" {
			coins[string(w.owner)] = append(coins[string(w.owner)], w)
		} else {
			tokens[string(w.owner)] = append(tokens[string(w.owner)], w)
		}
	}
	if last == block.Height {
		return nil
	}
	if last-block.Height > rollBackMax {
		return fmt.Errorf("%s: returns balances of slot %d, %d slots later: %w", p.name, last, last-block.Height,
			chain.ErrStateGone)
	}
	slots, err := p.slotsBetween(ctx, block.Height, last)
	if err != nil {
		return err
	}
	var priors []priorBalance
	parent := block.Hash
	for _, slot := range slots {
		raw, err := p.readRawBlock(ctx, slot, "accounts", confirmed)
		if err != nil {
			return err
		}
		h, err := decodeBlock(raw, func(t *tx) error {
			priors = t.appendPriors(priors, slot, coins, tokens)
			return nil
		})
		if err != nil {
			return fmt.Errorf("%s: block %d: %w", p.name, slot, err)
		}
		if h.parent != parent {
			return fmt.Errorf("%s: block %d has the parent %.44q, want %.44q: a block is missing, or there was a fork",
				p.name, slot, h.parent, parent)
		}
		parent = h.hash
	}
	for _, t := range slices.Backward(priors) {
		if t.belonged {
			t.entry.units[t.account] = t.units
		} else {
			delete(t.entry.units, t.account)
		}
	}
	return nil
}

// slotsBetween returns the slots with a block after one slot and up to another, which has one. It
// asks for confirmed slots: final slots are confirmed too, and the hashes have to match.
func (p *provider) slotsBetween(ctx context.Context, after, last uint64) ([]uint64, error) {
	tick := time.NewTicker(awaitInterval)
	defer tick.Stop()
	for range awaitTries {
		slots, err := p.readSlots(ctx, after+1, int(last-after), confirmed)
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
	return nil, fmt.Errorf("%s: returns balances of slot %d and does not have its block", p.name, last)
}

// appendPriors appends the balances that undoing a transaction restores.
func (t *tx) appendPriors(priors []priorBalance, slot uint64, coins, tokens map[string][]*balanceEntry) []priorBalance {
	for i, a := range t.accounts {
		for _, w := range coins[string(a)] {
			if slot <= w.slot {
				priors = append(priors, priorBalance{w, string(a), t.pre[i], true})
			}
		}
	}
	if len(tokens) == 0 {
		return priors
	}
	for _, list := range [2][]holding{t.preTokens, t.postTokens} {
		for i := range list {
			h := &list[i]
			for _, w := range tokens[string(h.owner)] {
				if slot > w.slot || !bytes.Equal(h.mint, w.mint) {
					continue
				}
				units, held := t.priorUnits(h.account, h.mint, h.owner)
				priors = append(priors, priorBalance{w, string(t.accounts[h.account]), units, held})
			}
		}
	}
	return priors
}

// priorUnits returns what an account held before, and whether it was the owner's and of the mint.
func (t *tx) priorUnits(account int, mint, owner []byte) (units uint64, held bool) {
	for i := range t.preTokens {
		if h := &t.preTokens[i]; h.account == account {
			return h.units, bytes.Equal(h.mint, mint) && bytes.Equal(h.owner, owner)
		}
	}
	return 0, false
}
