package solana

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

// Existing reads the final state of the associated accounts. A frozen account exists too.
func (c *Client) Existing(ctx context.Context, holdings []chain.Holding) ([]bool, error) {
	accounts, err := c.accountsOf(holdings)
	if err != nil {
		return nil, fmt.Errorf("token accounts on %s: %w", chain.Solana, err)
	}
	exists := slices.Repeat([]bool{true}, len(holdings))
	var errs []error
	answers := 0
	for _, a := range quorum.AskAll(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) ([]bool, error) {
			return c.readExisting(ctx, p, holdings, accounts)
		}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		answers++
		// A single provider that lacks one is believed: a wallet is asked for no payment that fails.
		for i := range exists {
			exists[i] = exists[i] && a.Value[i]
		}
	}
	if answers < c.Quorum {
		return nil, fmt.Errorf("token accounts on %s: %w", chain.Solana, errors.Join(errs...))
	}
	return exists, nil
}

// readExisting returns which of the accounts exist, as one provider says.
func (c *Client) readExisting(
	ctx context.Context, p *provider, holdings []chain.Holding, accounts []chain.Address,
) ([]bool, error) {
	exists := make([]bool, 0, len(holdings))
	for part := range slices.Chunk(accounts, accountsPerCall) {
		got, err := p.readAccounts(ctx, part, finalized)
		if err != nil {
			return nil, err
		}
		for _, a := range got {
			h := holdings[len(exists)]
			doesExist := false
			if a != nil {
				data, err := a.decodeData()
				if err != nil {
					return nil, p.WrapError("getMultipleAccounts", err)
				}
				doesExist = a.Owner == string(c.Mints[h.Contract].Program) && isAccountOf(data, h)
			}
			exists = append(exists, doesExist)
		}
	}
	return exists, nil
}

// isAccountOf reports whether the data are those of a token account of a holding.
func isAccountOf(data []byte, h chain.Holding) bool {
	if len(data) < tokenAccountBytes {
		return false
	}
	mint, err := solanatx.Bytes(h.Contract)
	owner, ownerErr := solanatx.Bytes(h.Address)
	return err == nil && ownerErr == nil && bytes.Equal(data[:tokenOwnerByte], mint[:]) &&
		bytes.Equal(data[tokenOwnerByte:tokenAmountByte], owner[:]) && data[tokenStateByte] != 0
}

// inspectCreation reads what the payer of a creation has, and refuses a mint that differs from its
// configuration. The lack of coin is no refusal, and is reported with what is needed.
func (c *Client) inspectCreation(ctx context.Context, p *provider, ps []chain.Payment) (accountsView, error) {
	pay := ps[0]
	m, err := c.configuredMint(pay.Contract)
	if err != nil {
		return accountsView{}, err
	}
	account, err := solanatx.AssociatedAccount(pay.To, pay.Contract, m.Program)
	if err != nil {
		return accountsView{}, err
	}
	s := accountsView{writtenAccounts: []chain.Address{feePayer(pay), account}}
	if err := p.callMethod(ctx, &s.rentExemptMin, "getMinimumBalanceForRentExemption", 0); err != nil {
		return accountsView{}, err
	}
	got, err := p.readAccounts(ctx, []chain.Address{feePayer(pay), pay.Contract}, confirmed)
	if err != nil {
		return accountsView{}, err
	}
	if got[0] != nil {
		s.payerLamports = *got[0].Lamports
	}
	if err := m.checkMint(pay.Contract, got[1]); err != nil {
		return accountsView{}, err
	}
	cost := solanatx.Tx{Payer: feePayer(pay), Creation: solanatx.NewCreation(pay, m.Program)}.MaxCost()
	if err := s.checkAffordable(ps, cost); err != nil {
		needed, addErr := cost.Add(money.Units(s.rentExemptMin))
		if addErr != nil {
			return accountsView{}, addErr
		}
		return accountsView{}, fmt.Errorf("%w: %w", err, &chain.InsufficientFeeError{Fee: needed})
	}
	return s, nil
}

// hasAccount reports whether a transaction left the token account of a payment.
func (t *tx) hasAccount(p chain.Payment) (bool, error) {
	for _, program := range []chain.Address{solanatx.TokenProgram, solanatx.Token2022Program} {
		account, err := solanatx.AssociatedAccount(p.To, p.Contract, program)
		if err != nil {
			return false, err
		}
		i := slices.IndexFunc(t.accounts, func(a []byte) bool { return string(a) == string(account) })
		if i >= 0 && t.isToken[i] && t.post[i] > 0 {
			return true, nil
		}
	}
	return false, nil
}
