package solana

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (

	// The fields of a token account behind its amount.
	tokenDelegateByte       = 72
	tokenNativeByte         = 109
	tokenCloseAuthorityByte = 129
	isInitialized           = 1
)

// immutableOwner is what an associated account of Token-2022 has behind the usual fields: that it
// is an account, and that its owner never changes. One with anything more may not be closed, for
// example with a withheld fee in it.
var immutableOwner = []byte{2, 7, 0, 0, 0}

var _ chain.TokenAccounts = (*Client)(nil)

// Rent returns the rent of an associated account of the token's program.
func (c *Client) Rent(contract chain.Address) (money.Amount, error) {
	m, err := c.configuredMint(contract)
	if err != nil {
		return money.Zero, fmt.Errorf("rent on %s: %w", chain.Solana, err)
	}
	return solanatx.Tx{Moves: []solanatx.Move{{Owner: "anybody", TokenProgram: m.Program}}}.Rent(), nil
}

// accountsOf returns the associated accounts of holdings.
func (c *Client) accountsOf(holdings []chain.Holding) ([]chain.Address, error) {
	accounts := make([]chain.Address, len(holdings))
	for i, h := range holdings {
		m, err := c.configuredMint(h.Contract)
		if err != nil {
			return nil, err
		}
		if accounts[i], err = solanatx.AssociatedAccount(h.Address, h.Contract, m.Program); err != nil {
			return nil, err
		}
	}
	return accounts, nil
}

// ReclaimableRent reads the final state of the associated accounts.
func (c *Client) ReclaimableRent(ctx context.Context, holdings []chain.Holding) ([]money.Amount, error) {
	accounts, err := c.accountsOf(holdings)
	if err != nil {
		return nil, fmt.Errorf("idle accounts on %s: %w", chain.Solana, err)
	}
	var answers [][]uint64
	var errs []error
	for _, a := range quorum.AskAll(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) ([]uint64, error) {
			return c.readReclaimable(ctx, p, holdings, accounts)
		}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		answers = append(answers, a.Value)
	}
	if len(answers) < c.Quorum {
		return nil, fmt.Errorf("idle accounts on %s: %w", chain.Solana, errors.Join(errs...))
	}
	amounts := make([]money.Amount, len(holdings))
	for i := range holdings {
		// A single provider with a lower amount is believed: leaving the account loses nothing.
		lowest := answers[0][i]
		for _, s := range answers[1:] {
			lowest = min(lowest, s[i])
		}
		amounts[i] = money.Units(lowest)
	}
	return amounts, nil
}

// readReclaimable returns the lamports of each account that is empty, as one provider says.
func (c *Client) readReclaimable(
	ctx context.Context, p *provider, holdings []chain.Holding, accounts []chain.Address,
) ([]uint64, error) {
	lamportsOf := make([]uint64, 0, len(holdings))
	for part := range slices.Chunk(accounts, accountsPerCall) {
		got, err := p.readAccounts(ctx, part, finalized)
		if err != nil {
			return nil, err
		}
		for _, a := range got {
			h := holdings[len(lamportsOf)]
			var lamports uint64
			if a != nil {
				data, err := a.decodeData()
				if err != nil {
					return nil, p.WrapError("getMultipleAccounts", err)
				}
				if a.Owner == string(c.Mints[h.Contract].Program) && isReclaimable(data, h) {
					lamports = *a.Lamports
				}
			}
			lamportsOf = append(lamportsOf, lamports)
		}
	}
	return lamportsOf, nil
}

// isReclaimable reports whether the data are those of a holding's associated account as the chain
// creates it, empty, and under the control of its owner alone.
func isReclaimable(data []byte, h chain.Holding) bool {
	if len(data) < tokenAccountBytes {
		return false
	}
	mint, err := solanatx.Bytes(h.Contract)
	owner, ownerErr := solanatx.Bytes(h.Address)
	isUnset := func(from int) bool { return binary.LittleEndian.Uint32(data[from:]) == 0 }
	extra := data[tokenAccountBytes:]
	return err == nil && ownerErr == nil && bytes.Equal(data[:tokenOwnerByte], mint[:]) &&
		bytes.Equal(data[tokenOwnerByte:tokenAmountByte], owner[:]) &&
		binary.LittleEndian.Uint64(data[tokenAmountByte:]) == 0 && data[tokenStateByte] == isInitialized &&
		isUnset(tokenDelegateByte) && isUnset(tokenNativeByte) && isUnset(tokenCloseAuthorityByte) &&
		(len(extra) == 0 || bytes.Equal(extra, immutableOwner))
}

// inspectCloses reads what the payer of closes has. The simulation shows whether they can be made.
func (c *Client) inspectCloses(ctx context.Context, p *provider, ps []chain.Payment) (accountsView, error) {
	payer := feePayer(ps[0])
	s := accountsView{writtenAccounts: []chain.Address{payer}}
	for _, pay := range ps {
		m, err := c.configuredMint(pay.Contract)
		if err != nil {
			return accountsView{}, err
		}
		shut, err := solanatx.NewClose(pay, m.Program)
		if err != nil {
			return accountsView{}, err
		}
		s.writtenAccounts = append(s.writtenAccounts, shut.Account)
	}
	if err := p.callMethod(ctx, &s.rentExemptMin, "getMinimumBalanceForRentExemption", 0); err != nil {
		return accountsView{}, err
	}
	got, err := p.readAccounts(ctx, []chain.Address{payer}, confirmed)
	if err != nil {
		return accountsView{}, err
	}
	if got[0] != nil {
		s.payerLamports = *got[0].Lamports
	}
	return s, nil
}

// closesAll reports whether a transaction closed all these accounts: each held lamports before it
// and holds none after.
func (t *tx) closesAll(ps []chain.Payment) (bool, error) {
	for _, p := range ps {
		isClosed := false
		for _, program := range []chain.Address{solanatx.TokenProgram, solanatx.Token2022Program} {
			shut, err := solanatx.NewClose(p, program)
			if err != nil {
				return false, err
			}
			i := slices.IndexFunc(t.accounts, func(a []byte) bool { return string(a) == string(shut.Account) })
			isClosed = isClosed || i >= 0 && t.isToken[i] && t.pre[i] > 0 && t.post[i] == 0
		}
		if !isClosed {
			return false, nil
		}
	}
	return true, nil
}
