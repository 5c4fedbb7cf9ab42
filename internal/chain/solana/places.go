package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// goodBlocks is in how many blocks after one a transaction can be that names it.
const goodBlocks = 150

var _ chain.Places = (*Client)(nil)

// Place is the payment that makes the nth nonce account of a treasury: the rent is its
// amount.
func (c *Client) Place(treasury chain.Address, n int) (chain.Payment, error) {
	if n < 0 || n >= NonceAccountsMax {
		return chain.Payment{}, fmt.Errorf("nonce account %d of %s: only %d are looked for", n, treasury, NonceAccountsMax)
	}
	at, err := solanatx.NonceAccount(treasury, uint32(n))
	if err != nil {
		return chain.Payment{}, err
	}
	return chain.Payment{From: treasury, To: at, Amount: money.Units(solanatx.NonceRent), Place: true}, nil
}

// creation is the transaction that makes a place, naming a block.
func creation(p chain.Payment, recent string) (solanatx.NonceCreation, error) {
	of, err := nonceAccounts(p.From)
	if err != nil {
		return solanatx.NonceCreation{}, err
	}
	n := slices.Index(of, p.To)
	if n < 0 {
		return solanatx.NonceCreation{}, fmt.Errorf("%s is no nonce account of %s", p.To, p.From)
	}
	t := solanatx.NonceCreation{Treasury: p.From, N: uint32(n), Blockhash: recent}
	return t, t.Pays(p)
}

// quotePlace looks what is there to pay the rent with, and names a final block. There is
// no price for units: nothing waits for it, and it is made again when it has lapsed.
func (c *Client) quotePlace(ctx context.Context, from *provider, p chain.Payment) (chain.Fees, error) {
	var s sight
	if err := from.call(ctx, &s.least, "getMinimumBalanceForRentExemption", 0); err != nil {
		return chain.Fees{}, err
	}
	var rent uint64
	if err := from.call(ctx, &rent, "getMinimumBalanceForRentExemption", solanatx.NonceBytes); err != nil {
		return chain.Fees{}, err
	}
	if rent > solanatx.NonceRent {
		return chain.Fees{}, fmt.Errorf("%s: a nonce account has to hold %d lamports, and ours hold %d", from.name, rent, solanatx.NonceRent)
	}
	got, err := from.accounts(ctx, []chain.Address{p.From}, confirmed)
	if err != nil {
		return chain.Fees{}, err
	}
	if got[0] != nil {
		s.payer = *got[0].Lamports
	}
	var newest weighed[struct {
		Blockhash string `json:"blockhash"`
	}]
	if err := from.call(ctx, &newest, "getLatestBlockhash", sure(finalized)); err != nil {
		return chain.Fees{}, err
	}
	t, err := creation(p, newest.Value.Blockhash)
	if err != nil {
		return chain.Fees{}, err
	}
	if _, err := t.Payload(); err != nil {
		return chain.Fees{}, fmt.Errorf("%s: %w", from.name, err)
	}
	until, err := c.until(ctx)
	if err != nil {
		return chain.Fees{}, err
	}
	fees := chain.Fees{Beside: t.MaxCost(), Recent: t.Blockhash, Until: until}
	if c.CostMax.Less(fees.Beside) {
		return chain.Fees{}, fmt.Errorf("it would cost %v lamports, and no more than %v are allowed", fees.Beside, c.CostMax)
	}
	p.To = p.From // the amount is in the cost
	return fees, s.affords([]chain.Payment{p}, fees.Beside)
}

// until is the last block that a transaction can be in which names one that is final now.
// It asks as many providers as have to agree and takes the lowest: who tells of a height
// that is far ahead must not keep a place from being made. Who is behind is so by fewer
// blocks than there are behind a final one.
func (c *Client) until(ctx context.Context) (uint64, error) {
	var heights []uint64
	var errs []error
	for _, a := range several.Ask(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) (uint64, error) {
		return p.height(ctx, confirmed)
	}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		heights = append(heights, a.Value)
	}
	if len(heights) < c.Agree {
		return 0, fmt.Errorf("how many blocks there are: %w", errors.Join(errs...))
	}
	return slices.Min(heights) + goodBlocks, nil
}

// height is how many blocks a chain has, by a provider: what transactions are good for is
// counted by these and not by slots.
func (p *provider) height(ctx context.Context, commitment string) (height uint64, err error) {
	err = p.call(ctx, &height, "getBlockHeight", sure(commitment))
	return height, err
}

// buildPlace encodes what makes a place in the slot that is called after it.
func (c *Client) buildPlace(account chain.Address, p chain.Payment, s chain.Slot, fees chain.Fees) ([]byte, error) {
	if payerOf(p) != account {
		return nil, fmt.Errorf("%s pays for the place, not %s", payerOf(p), account)
	}
	t, err := creation(p, fees.Recent)
	if err != nil {
		return nil, err
	}
	if s.Lease != t.Lease() {
		return nil, fmt.Errorf("it takes %q, and its slot is %q", t.Lease(), s.Lease)
	}
	if cost := t.MaxCost(); fees.Beside.Less(cost) || c.CostMax.Less(cost) {
		return nil, fmt.Errorf("it costs %v lamports, and the fees allow %v of at most %v", cost, fees.Beside, c.CostMax)
	}
	return t.Payload()
}

// Lapsed asks each provider how many blocks are final before it asks for the
// transactions: one that a final block could still take may be seen by nobody yet. As
// many as have to agree say that there are more and that they have none; whoever has one
// is believed.
func (c *Client) Lapsed(ctx context.Context, txs []chain.TxHash, until uint64) (bool, error) {
	var errs []error
	gone := 0
	for _, a := range several.Ask(ctx, c.providers, len(c.providers), func(ctx context.Context, p *provider) (bool, error) {
		final, err := p.height(ctx, finalized)
		if err != nil || final <= until {
			return false, err
		}
		return p.none(ctx, txs)
	}) {
		switch {
		case a.Err != nil:
			errs = append(errs, a.Err)
		case !a.Value:
			return false, nil
		default:
			gone++
		}
	}
	if gone < c.Agree {
		return false, fmt.Errorf("whether transactions on %s have lapsed: %w", chain.Solana, errors.Join(errs...))
	}
	return true, nil
}

// none tells whether a provider has none of these transactions, however unsure.
func (p *provider) none(ctx context.Context, txs []chain.TxHash) (bool, error) {
	for part := range slices.Chunk(txs, statusesAtOnce) {
		got, err := p.statuses(ctx, part)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(got, func(s *status) bool { return s != nil }) {
			return false, nil
		}
	}
	return true, nil
}
