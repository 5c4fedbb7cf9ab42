package solana

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (

	// What a token account says of itself behind its amount.
	tokenDelegateByte = 72
	tokenNativeByte   = 109
	tokenCloserByte   = 129
	isReady           = 1
)

// immutable is what an associated account of Token-2022 has behind the usual: that it is an
// account, and that its owner never changes. One with anything more may not be closed, as
// with a fee that was withheld in it.
var immutable = []byte{2, 7, 0, 0, 0}

var _ chain.Accounts = (*Client)(nil)

// Rent is that of an associated account of the token's program.
func (c *Client) Rent(contract chain.Address) (money.Amount, error) {
	m, err := c.mint(contract)
	if err != nil {
		return money.Zero, fmt.Errorf("rent on %s: %w", chain.Solana, err)
	}
	return solanatx.Tx{Moves: []solanatx.Move{{Owner: "anybody", TokenProgram: m.Program}}}.Rent(), nil
}

// Idle reads the associated accounts as they are finally.
func (c *Client) Idle(ctx context.Context, of []chain.Holding) ([]money.Amount, error) {
	at := make([]chain.Address, len(of))
	for i, h := range of {
		m, err := c.mint(h.Contract)
		if err == nil {
			at[i], err = solanatx.AssociatedAccount(h.Address, h.Contract, m.Program)
		}
		if err != nil {
			return nil, fmt.Errorf("idle accounts on %s: %w", chain.Solana, err)
		}
	}
	var said [][]uint64
	var errs []error
	for _, a := range several.Ask(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) ([]uint64, error) {
		return c.idle(ctx, p, of, at)
	}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		said = append(said, a.Value)
	}
	if len(said) < c.Agree {
		return nil, fmt.Errorf("idle accounts on %s: %w", chain.Solana, errors.Join(errs...))
	}
	all := make([]money.Amount, len(of))
	for i := range of {
		// Whoever has it otherwise is believed: nothing is lost by leaving it.
		least := said[0][i]
		for _, s := range said[1:] {
			least = min(least, s[i])
		}
		all[i] = money.Units(least)
	}
	return all, nil
}

// idle is how much lies in each account that is empty, by one provider.
func (c *Client) idle(ctx context.Context, p *provider, of []chain.Holding, at []chain.Address) ([]uint64, error) {
	lies := make([]uint64, 0, len(of))
	for part := range slices.Chunk(at, accountsAtOnce) {
		got, err := p.accounts(ctx, part, finalized)
		if err != nil {
			return nil, err
		}
		for _, a := range got {
			h := of[len(lies)]
			var lamports uint64
			if a != nil {
				data, err := a.bytes()
				if err != nil {
					return nil, p.Said("getMultipleAccounts", err)
				}
				if a.Owner == string(c.Mints[h.Contract].Program) && isIdle(data, h) {
					lamports = *a.Lamports
				}
			}
			lies = append(lies, lamports)
		}
	}
	return lies, nil
}

// isIdle tells whether the data of an account are those of a holding's associated account
// as the chain makes it, with nothing in it and nobody else who may touch it.
func isIdle(data []byte, h chain.Holding) bool {
	if len(data) < tokenAccountBytes {
		return false
	}
	mint, err := solanatx.Bytes(h.Contract)
	owner, no := solanatx.Bytes(h.Address)
	none := func(from int) bool { return binary.LittleEndian.Uint32(data[from:]) == 0 }
	more := data[tokenAccountBytes:]
	return err == nil && no == nil && bytes.Equal(data[:tokenOwnerByte], mint[:]) && bytes.Equal(data[tokenOwnerByte:tokenAmountByte], owner[:]) &&
		binary.LittleEndian.Uint64(data[tokenAmountByte:]) == 0 && data[tokenStateByte] == isReady &&
		none(tokenDelegateByte) && none(tokenNativeByte) && none(tokenCloserByte) && (len(more) == 0 || bytes.Equal(more, immutable))
}

// lookAtClosed asks what the payer of closes has. Whether they can be made is for the trial.
func (c *Client) lookAtClosed(ctx context.Context, p *provider, ps []chain.Payment) (sight, error) {
	payer := payerOf(ps[0])
	s := sight{written: []chain.Address{payer}}
	for _, pay := range ps {
		m, err := c.mint(pay.Contract)
		if err != nil {
			return sight{}, err
		}
		shut, err := solanatx.CloseOf(pay, m.Program)
		if err != nil {
			return sight{}, err
		}
		s.written = append(s.written, shut.Account)
	}
	if err := p.call(ctx, &s.least, "getMinimumBalanceForRentExemption", 0); err != nil {
		return sight{}, err
	}
	got, err := p.accounts(ctx, []chain.Address{payer}, confirmed)
	if err != nil {
		return sight{}, err
	}
	if got[0] != nil {
		s.payer = *got[0].Lamports
	}
	return s, nil
}

// closes tells whether a transaction closed all these accounts: each held something before
// it and holds nothing after.
func (t *tx) closes(ps []chain.Payment) (bool, error) {
	for _, p := range ps {
		gone := false
		for _, program := range []chain.Address{solanatx.TokenProgram, solanatx.Token2022Program} {
			shut, err := solanatx.CloseOf(p, program)
			if err != nil {
				return false, err
			}
			i := slices.IndexFunc(t.accounts, func(a []byte) bool { return string(a) == string(shut.Account) })
			gone = gone || i >= 0 && t.isToken[i] && t.pre[i] > 0 && t.post[i] == 0
		}
		if !gone {
			return false, nil
		}
	}
	return true, nil
}
