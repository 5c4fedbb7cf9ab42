package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// Senders takes the sender from a transfer that has one. A transfer with several senders, such as a
// sweep of several addresses, was sent by all who have less of the same coin after the transaction.
// The block is read again for these until a quorum says the same. A minted amount has no sender.
func (c *Client) Senders(
	ctx context.Context, block chain.Block, transfers []chain.Transfer,
) ([][]chain.Address, error) {
	if !slices.ContainsFunc(transfers, func(t chain.Transfer) bool { return t.From == "" }) {
		return chain.Senders(transfers), nil
	}
	senders, err := quorum.AgreeOnAnswer(ctx, c.providers, c.Quorum, 1, func(a, b [][]chain.Address) bool {
		return slices.EqualFunc(a, b, slices.Equal[[]chain.Address])
	}, func(ctx context.Context, p *provider) ([][]chain.Address, error) {
		return p.readSenders(ctx, block, transfers)
	})
	if err != nil {
		return nil, fmt.Errorf("senders in block %d of %s: %w", block.Height, chain.Solana, err)
	}
	return senders, nil
}

func (p *provider) readSenders(
	ctx context.Context, block chain.Block, transfers []chain.Transfer,
) ([][]chain.Address, error) {
	raw, err := p.readRawBlock(ctx, block.Height, "accounts", confirmed)
	if err != nil {
		return nil, err
	}
	m := newMovements()
	m.multiSenders = map[movementKey][]chain.Address{}
	h, err := decodeBlock(raw, m.addTx)
	if err != nil {
		return nil, fmt.Errorf("%s: block %d: %w", p.name, block.Height, err)
	}
	if h.hash != block.Hash {
		return nil, fmt.Errorf("%s: gives block %.44q in slot %d, want %.44q", p.name, h.hash, block.Height, block.Hash)
	}
	senders := chain.Senders(transfers)
	for i, t := range transfers {
		if t.From != "" {
			continue
		}
		if !slices.Contains(m.transfers, t) {
			return nil, fmt.Errorf("%s: block %d has no transfer %s of %s", p.name, block.Height, t.Position, t.Tx)
		}
		senders[i] = m.multiSenders[movementKeyOf(t)]
	}
	return senders, nil
}

// Kind asks one provider after the other until a quorum says KeyAccount; the first that says
// ContractAccount decides.
//
// An address off the curve has no key. An address on it is a KeyAccount if only the System program
// owns it and it holds nothing but lamports. What another program owns is decided by others than
// its key, and a nonce account by its authority. The account is read in its present state, by a
// provider that has the block on its chain. An account that was given to a program since then is a
// ContractAccount.
func (c *Client) Kind(ctx context.Context, block chain.Block, address chain.Address) (chain.AccountKind, error) {
	if _, err := solanatx.Bytes(address); err != nil {
		return "", err
	}
	votes := 0
	var errs []error
	for _, p := range c.providers {
		kind, err := p.readKind(ctx, block, address)
		switch {
		case err != nil:
			errs = append(errs, err)
		case kind == chain.ContractAccount:
			return kind, nil
		default:
			if votes++; votes >= c.Quorum {
				return chain.KeyAccount, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("kind of %s in block %d of %s: %d of the %d providers of the quorum answered: %w",
		address, block.Height, chain.Solana, votes, c.Quorum, errors.Join(errs...))
}

func (p *provider) readKind(ctx context.Context, block chain.Block, address chain.Address) (chain.AccountKind, error) {
	if _, err := p.checkBlock(ctx, block); err != nil {
		return "", err
	}
	if !solanatx.OnCurve(address) {
		return chain.ContractAccount, nil
	}
	var got contextResponse[*account]
	if err := p.callMethod(ctx, &got, "getAccountInfo", address,
		accountOptions(block.Height, confirmed, 1)); err != nil {
		return "", err
	}
	if got.Context.Slot < block.Height {
		return "", fmt.Errorf("%s: answers for slot %d, want %d or later", p.name, got.Context.Slot, block.Height)
	}
	a := got.Value
	if a == nil {
		return chain.KeyAccount, nil
	}
	data, err := a.decodeData()
	if err != nil {
		return "", p.WrapError("getAccountInfo", err)
	}
	if a.Owner != string(solanatx.SystemProgram) || a.Executable || len(data) > 0 {
		return chain.ContractAccount, nil
	}
	return chain.KeyAccount, nil
}
