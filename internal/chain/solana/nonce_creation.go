package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// blockhashLifetime is the number of blocks after a block in which a transaction that names it is
// valid.
const blockhashLifetime = 150

var _ chain.NonceAccounts = (*Client)(nil)

// Creation returns the payment that creates the nth nonce account of a treasury: its amount is the
// rent.
func (c *Client) Creation(treasury chain.Address, n int) (chain.Payment, error) {
	if n < 0 || n >= NonceAccountsMax {
		return chain.Payment{}, fmt.Errorf("nonce account %d of %s: only %d are possible", n, treasury,
			NonceAccountsMax)
	}
	nonceAccount, err := solanatx.NonceAccount(treasury, uint32(n))
	if err != nil {
		return chain.Payment{}, err
	}
	return chain.Payment{
		From: treasury, To: nonceAccount, Amount: money.Units(solanatx.NonceRent),
		CreatesNonceAccount: true,
	}, nil
}

// newCreation returns the transaction that creates a nonce account and names a block.
func newCreation(p chain.Payment, blockhash string) (solanatx.NonceCreation, error) {
	addresses, err := nonceAccounts(p.From)
	if err != nil {
		return solanatx.NonceCreation{}, err
	}
	n := slices.Index(addresses, p.To)
	if n < 0 {
		return solanatx.NonceCreation{}, fmt.Errorf("%s is not a nonce account of %s", p.To, p.From)
	}
	t := solanatx.NonceCreation{Treasury: p.From, N: uint32(n), Blockhash: blockhash}
	return t, t.CheckPayment(p)
}

// quoteCreation checks that the payer can pay the rent, and names a final block. It offers no price
// for compute units: nothing else waits for the creation, and it is built again when it has
// expired.
func (c *Client) quoteCreation(ctx context.Context, node *provider, p chain.Payment) (chain.Fees, error) {
	var s accountsView
	if err := node.callMethod(ctx, &s.rentExemptMin, "getMinimumBalanceForRentExemption", 0); err != nil {
		return chain.Fees{}, err
	}
	var rent uint64
	if err := node.callMethod(ctx, &rent, "getMinimumBalanceForRentExemption", solanatx.NonceBytes); err != nil {
		return chain.Fees{}, err
	}
	if rent > solanatx.NonceRent {
		return chain.Fees{}, fmt.Errorf("%s: a nonce account needs %d lamports, and those of this service have %d",
			node.name, rent, solanatx.NonceRent)
	}
	got, err := node.readAccounts(ctx, []chain.Address{p.From}, confirmed)
	if err != nil {
		return chain.Fees{}, err
	}
	if got[0] != nil {
		s.payerLamports = *got[0].Lamports
	}
	var newest contextResponse[struct {
		Blockhash string `json:"blockhash"`
	}]
	if err := node.callMethod(ctx, &newest, "getLatestBlockhash", withCommitment(finalized)); err != nil {
		return chain.Fees{}, err
	}
	t, err := newCreation(p, newest.Value.Blockhash)
	if err != nil {
		return chain.Fees{}, err
	}
	if _, err := t.Payload(); err != nil {
		return chain.Fees{}, fmt.Errorf("%s: %w", node.name, err)
	}
	lastValid, err := c.lastValidBlock(ctx)
	if err != nil {
		return chain.Fees{}, err
	}
	fees := chain.Fees{NonGas: t.MaxCost(), RecentBlockhash: t.Blockhash, LastValidBlock: lastValid}
	if c.CostMax.Less(fees.NonGas) {
		return chain.Fees{}, fmt.Errorf("it would cost %v lamports, and at most %v are allowed", fees.NonGas,
			c.CostMax)
	}
	p.To = p.From // the amount is part of the cost
	return fees, s.checkAffordable([]chain.Payment{p}, fees.NonGas)
}

// lastValidBlock returns the last block that can contain a transaction which names a block that is
// final now. It asks a quorum of providers and takes the lowest answer: a provider that reports a
// height far ahead must not prevent a creation. A lagging provider lags by fewer blocks than the
// final block is behind the tip.
func (c *Client) lastValidBlock(ctx context.Context) (uint64, error) {
	var heights []uint64
	var errs []error
	for _, a := range quorum.AskAll(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) (uint64, error) {
			return p.readBlockHeight(ctx, confirmed)
		}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		heights = append(heights, a.Value)
	}
	if len(heights) < c.Quorum {
		return 0, fmt.Errorf("read the block height: %w", errors.Join(errs...))
	}
	return slices.Min(heights) + blockhashLifetime, nil
}

// readBlockHeight returns how many blocks a chain has, as a provider says. The validity of
// transactions is counted in blocks and not in slots.
func (p *provider) readBlockHeight(ctx context.Context, commitment string) (height uint64, err error) {
	err = p.callMethod(ctx, &height, "getBlockHeight", withCommitment(commitment))
	return height, err
}

// buildCreation encodes the creation of a nonce account, in the slot whose key is the account's
// address.
func (c *Client) buildCreation(account chain.Address, p chain.Payment, s chain.Slot, fees chain.Fees) ([]byte, error) {
	if feePayer(p) != account {
		return nil, fmt.Errorf("the fee payer of the nonce account is %s, not %s", feePayer(p), account)
	}
	t, err := newCreation(p, fees.RecentBlockhash)
	if err != nil {
		return nil, err
	}
	if s.Key != t.SlotKey() {
		return nil, fmt.Errorf("it uses %q, and its slot is %q", t.SlotKey(), s.Key)
	}
	if cost := t.MaxCost(); fees.NonGas.Less(cost) || c.CostMax.Less(cost) {
		return nil, fmt.Errorf("it costs %v lamports, and the fees allow %v of at most %v", cost, fees.NonGas,
			c.CostMax)
	}
	return t.Payload()
}

// Expired asks each provider how many blocks are final before it asks for the transactions. Before
// that, a transaction that a final block could still contain may be invisible to every provider. A
// quorum has to say that more blocks are final and that it has none of the transactions. A single
// provider that has one is believed.
func (c *Client) Expired(ctx context.Context, txs []chain.TxHash, lastValid uint64) (bool, error) {
	var errs []error
	expired := 0
	for _, a := range quorum.AskAll(ctx, c.providers, len(c.providers),
		func(ctx context.Context, p *provider) (bool, error) {
			final, err := p.readBlockHeight(ctx, finalized)
			if err != nil || final <= lastValid {
				return false, err
			}
			return p.hasNone(ctx, txs)
		}) {
		switch {
		case a.Err != nil:
			errs = append(errs, a.Err)
		case !a.Value:
			return false, nil
		default:
			expired++
		}
	}
	if expired < c.Quorum {
		return false, fmt.Errorf("whether transactions on %s have expired: %w", chain.Solana, errors.Join(errs...))
	}
	return true, nil
}

// hasNone reports whether a provider has none of these transactions, not even an unconfirmed one.
func (p *provider) hasNone(ctx context.Context, txs []chain.TxHash) (bool, error) {
	for part := range slices.Chunk(txs, statusesPerCall) {
		got, err := p.readStatuses(ctx, part)
		if err != nil {
			return false, err
		}
		if slices.ContainsFunc(got, func(s *status) bool { return s != nil }) {
			return false, nil
		}
	}
	return true, nil
}
