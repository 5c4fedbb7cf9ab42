package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// statusesPerCall is the number of transactions whose status nodes give in one answer.
const statusesPerCall = 256

// Outcome asks all providers where the transactions are and reads the blocks with the decoder of
// all blocks. Nothing proves a block, so a quorum has to give the same outcome; while fewer have it
// the error is ErrNotYet. The answer "in no block" needs a quorum that has searched, and no
// provider that has one.
//
// A failed transaction is in its block like any other: it has advanced its nonce, paid its fee and
// used its slot. A transaction whose nonce did not match is in no block.
func (c *Client) Outcome(ctx context.Context, txs []chain.TxHash, ps ...chain.Payment) (*chain.Outcome, error) {
	if len(txs) == 0 {
		return nil, nil
	}
	o, err := quorum.AgreeOnOutcome(ctx, c.providers, c.Quorum, sameOutcome,
		func(ctx context.Context, node *provider) (*chain.Outcome, error) {
			return node.readOutcome(ctx, txs, ps)
		})
	if err != nil {
		return nil, fmt.Errorf("outcome of %s on %s: %w", txs[0], chain.Solana, err)
	}
	return o, nil
}

// sameOutcome ignores the time of the block, which is each provider's own estimate while the block
// is young.
func sameOutcome(a, b *chain.Outcome) bool {
	x, y := *a, *b
	x.Block.Time = y.Block.Time
	return x == y
}

// status is where a provider says that a transaction is.
type status struct {
	Slot       uint64 `json:"slot"`
	Commitment string `json:"confirmationStatus"`
}

func (p *provider) readOutcome(ctx context.Context, txs []chain.TxHash, pay []chain.Payment) (*chain.Outcome, error) {
	for part := range slices.Chunk(txs, statusesPerCall) {
		got, err := p.readStatuses(ctx, part)
		if err != nil {
			return nil, err
		}
		var notYet error
		for i, s := range got {
			if s == nil {
				continue
			}
			if s.Commitment != confirmed && s.Commitment != finalized {
				notYet = fmt.Errorf("%s: %s is only %.20q: %w", p.name, part[i], s.Commitment, chain.ErrNotYet)
				continue
			}
			return p.readEffects(ctx, s.Slot, part[i], pay)
		}
		if notYet != nil {
			return nil, notYet
		}
	}
	return nil, nil
}

// readStatuses returns where a provider has transactions, nil for those that it lacks.
func (p *provider) readStatuses(ctx context.Context, hashes []chain.TxHash) ([]*status, error) {
	const method = "getSignatureStatuses"
	var got contextResponse[[]*status]
	if err := p.callMethod(ctx, &got, method, hashes, options{"searchTransactionHistory": true}); err != nil {
		return nil, err
	}
	if len(got.Value) != len(hashes) {
		return nil, p.WrapError(method, fmt.Errorf("%d answers, want %d", len(got.Value), len(hashes)))
	}
	return got.Value, nil
}

// readEffects returns the result of a transaction in a block.
func (p *provider) readEffects(
	ctx context.Context, slot uint64, hash chain.TxHash, pay []chain.Payment,
) (*chain.Outcome, error) {
	raw, err := p.readRawBlock(ctx, slot, "accounts", confirmed)
	if errors.Is(err, errNoBlock) {
		return nil, fmt.Errorf("%w: %w", chain.ErrNotYet, err)
	}
	if err != nil {
		return nil, err
	}
	var out *chain.Outcome
	h, err := decodeBlock(raw, func(t *tx) error {
		if string(t.signature) != string(hash) {
			return nil
		}
		if out != nil {
			return errors.New("it is there twice")
		}
		m := newMovements()
		if err := m.addTx(t); err != nil {
			return err
		}
		out = &chain.Outcome{Tx: hash, Succeeded: !t.failed}
		for _, f := range m.fees {
			out.Fee = f.Amount
		}
		if len(pay) == 1 && !pay[0].CreatesNonceAccount && !pay[0].ClosesTokenAccount {
			out.Rent = t.accountRent()
		}
		var err error
		if len(pay) > 0 && pay[0].ClosesTokenAccount {
			out.Paid, err = t.closesAll(pay)
			out.Paid = out.Paid && out.Succeeded
			return err
		}
		if len(pay) > 1 && out.Succeeded {
			out.Paid, out.Fee, err = t.makesAll(pay)
			return err
		}
		if len(pay) == 1 && pay[0].CreatesTokenAccount {
			out.Paid, err = t.hasAccount(pay[0])
			out.Paid = out.Paid && out.Succeeded
			return err
		}
		out.Paid = out.Succeeded && chain.MakesPayments(m.transfers, pay, isPayment)
		// The rent of a nonce account is spent for its payer, like that of a token account.
		if len(pay) == 1 && pay[0].CreatesNonceAccount && out.Paid {
			out.Fee, err = out.Fee.Add(pay[0].Amount)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: block %d: %w", p.name, slot, err)
	}
	if out == nil {
		return nil, fmt.Errorf("%s: %s is not in block %d, although it says so", p.name, hash, slot)
	}
	out.Block, err = p.toChainBlock(ctx, slotBlock{slot, h})
	return out, err
}

// isPayment reports whether a transfer is exactly a payment.
func isPayment(tr chain.Transfer, p chain.Payment) bool {
	kind := chain.Native
	if p.Contract != "" {
		kind = chain.Token
	}
	return tr.Kind == kind && tr.Contract == p.Contract && tr.From == p.From && tr.To == p.To && tr.Amount == p.Amount
}

// accountRent returns what a transaction left in token accounts that it created, as far as the fee
// payer had less for it. Wrapped SOL is a token and no rent.
func (t *tx) accountRent() money.Amount {
	if t.failed {
		return money.Zero
	}
	var left uint64
	for i := range t.accounts {
		// There may be lamports before it is a token account: any person may send them.
		if !t.isToken[i] || t.post[i] <= t.pre[i] ||
			slices.ContainsFunc(t.preTokens, func(h holding) bool { return h.account == i }) {
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
	_, fall := t.lamportChange(0)
	return money.Units(min(left, fall))
}
