package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

// statusesAtOnce is how many transactions nodes give the status of in one answer.
const statusesAtOnce = 256

// Outcome asks all providers where the transactions are and reads the blocks with the
// decoder that reads all blocks. Nothing proves a block, so as many as have to agree
// have to give the same; where fewer have it so far it is ErrNotYet. Nowhere is only
// said when as many have looked and nobody has it.
//
// A transaction that failed is in its block like any other: it has advanced its nonce
// and paid its fee, and its place is used. One that its nonce did not let in is nowhere.
func (c *Client) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	o, err := several.Outcome(ctx, c.providers, c.Agree, sameOutcome, func(ctx context.Context, from *provider) (*chain.Outcome, error) {
		return from.outcome(ctx, txs, ps)
	})
	if err != nil {
		return nil, fmt.Errorf("outcome of %s on %s: %w", txs[0], chain.Solana, err)
	}
	return o, nil
}

// sameOutcome leaves out the time of the block, which is each provider's own estimate
// while the block is young.
func sameOutcome(a, b *chain.Outcome) bool {
	x, y := *a, *b
	x.Block.Time = y.Block.Time
	return x == y
}

// status is where a provider says that a transaction is.
type status struct {
	Slot uint64 `json:"slot"`
	Sure string `json:"confirmationStatus"`
}

func (p *provider) outcome(ctx context.Context, txs []chain.TxHash, pay []chain.Payment) (*chain.Outcome, error) {
	for part := range slices.Chunk(txs, statusesAtOnce) {
		got, err := p.statuses(ctx, part)
		if err != nil {
			return nil, err
		}
		var early error
		for i, s := range got {
			if s == nil {
				continue
			}
			if s.Sure != confirmed && s.Sure != finalized {
				early = fmt.Errorf("%s: %s is only %.20q: %w", p.name, part[i], s.Sure, chain.ErrNotYet)
				continue
			}
			return p.effects(ctx, s.Slot, part[i], pay)
		}
		if early != nil {
			return nil, early
		}
	}
	return nil, nil
}

// statuses are where a provider has transactions, nil for those that it has not.
func (p *provider) statuses(ctx context.Context, of []chain.TxHash) ([]*status, error) {
	const method = "getSignatureStatuses"
	var got weighed[[]*status]
	if err := p.call(ctx, &got, method, of, options{"searchTransactionHistory": true}); err != nil {
		return nil, err
	}
	if len(got.Value) != len(of) {
		return nil, p.Said(method, fmt.Errorf("%d answers, want %d", len(got.Value), len(of)))
	}
	return got.Value, nil
}

// effects are what a transaction in a block came to.
func (p *provider) effects(ctx context.Context, slot uint64, hash chain.TxHash, pay []chain.Payment) (*chain.Outcome, error) {
	raw, err := p.raw(ctx, slot, "accounts", confirmed)
	if errors.Is(err, errNoBlock) {
		return nil, fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err != nil {
		return nil, err
	}
	var out *chain.Outcome
	h, err := decode(raw, func(t *tx) error {
		if string(t.signature) != string(hash) {
			return nil
		}
		if out != nil {
			return errors.New("it is there twice")
		}
		m := newMovements()
		if err := m.see(t); err != nil {
			return err
		}
		out = &chain.Outcome{Tx: hash, Succeeded: !t.failed}
		for _, f := range m.fees {
			out.Fee = f.Amount
		}
		if len(pay) == 1 && !pay[0].Place && !pay[0].Close {
			out.Rent = t.rent()
		}
		var err error
		if len(pay) > 0 && pay[0].Close {
			out.Paid, err = t.closes(pay)
			out.Paid = out.Paid && out.Succeeded
			return err
		}
		if len(pay) > 1 && out.Succeeded {
			out.Paid, out.Fee, err = t.makes(pay)
			return err
		}
		out.Paid = out.Succeeded && chain.Makes(m.transfers, pay, pays)
		if len(pay) == 1 && pay[0].Place && out.Paid { // what it leaves there is gone for who paid it, as the rent of a token account is
			out.Fee, err = out.Fee.Add(pay[0].Amount)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: block %d: %w", p.name, slot, err)
	}
	if out == nil {
		return nil, fmt.Errorf("%s: %s is not in block %d, where it says", p.name, hash, slot)
	}
	out.Block, err = p.block(ctx, sighting{slot, h})
	return out, err
}

// pays tells whether a movement is exactly a payment.
func pays(tr chain.Transfer, p chain.Payment) bool {
	kind := chain.Native
	if p.Contract != "" {
		kind = chain.Token
	}
	return tr.Kind == kind && tr.Contract == p.Contract && tr.From == p.From && tr.To == p.To && tr.Amount == p.Amount
}

// rent is what a transaction left in token accounts that it made, as far as it came from
// who pays the fee. SOL that is wrapped is a token and no rent.
func (t *tx) rent() money.Amount {
	if t.failed {
		return money.Zero
	}
	var left uint64
	for i := range t.accounts {
		// Something may lie there before it is one: anybody may send it there.
		if !t.isToken[i] || t.post[i] <= t.pre[i] || slices.ContainsFunc(t.preTokens, func(h holding) bool { return h.account == i }) {
			continue
		}
		rent := t.post[i] - t.pre[i]
		for j := range t.postTokens {
			if h := &t.postTokens[j]; h.account == i && isWrapped(h.mint) {
				rent -= min(rent, h.units)
			}
		}
		left += rent
	}
	_, fall := t.rise(0)
	return money.Units(min(left, fall))
}
