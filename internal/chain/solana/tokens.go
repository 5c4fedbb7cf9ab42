package solana

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

var _ chain.TokenInspector = (*Client)(nil)

// IsAuxiliaryAccount reports whether a token arrived at an account of its receiver other than the
// associated one, of either token program. Any person can create any number of accounts that a
// wallet owns. Rule DEP-41.
func (c *Client) IsAuxiliaryAccount(t chain.Transfer) bool {
	if t.Kind != chain.Token {
		return false
	}
	for _, program := range []chain.Address{solanatx.TokenProgram, solanatx.Token2022Program} {
		if a, err := solanatx.AssociatedAccount(t.To, t.Contract, program); err == nil && string(a) == t.Position {
			return false
		}
	}
	return true
}

// InspectToken asks a quorum of providers for the final state of the mint. They have to agree on
// whether there is a problem, and not on the text.
func (c *Client) InspectToken(ctx context.Context, token chain.Address) (reason string, err error) {
	usableVotes, unusableVotes := 0, 0
	var errs []error
	for _, p := range c.providers {
		problem, err := c.findTokenProblem(ctx, p, token)
		switch {
		case err != nil:
			errs = append(errs, err)
		case problem != "":
			reason = problem
			unusableVotes++
		default:
			usableVotes++
		}
		switch {
		case unusableVotes >= c.Quorum:
			return reason, nil
		case usableVotes >= c.Quorum:
			return "", nil
		case ctx.Err() != nil:
			return "", context.Cause(ctx)
		}
	}
	if usableVotes > 0 && unusableVotes > 0 {
		errs = append(errs, chain.ErrDisagreement)
	}
	return "",
		fmt.Errorf("token %s on %s: %d providers find no error in it and %d do, of a quorum of %d: %w",
			token, chain.Solana, usableVotes, unusableVotes, c.Quorum, errors.Join(errs...))
}

func (c *Client) findTokenProblem(ctx context.Context, p *provider, token chain.Address) (string, error) {
	got, err := p.readAccounts(ctx, []chain.Address{token}, finalized)
	if err != nil {
		return "", err
	}
	if got[0] == nil {
		return "", fmt.Errorf("%s: there is no token at %s", p.name, token)
	}
	m, isConfigured := c.Mints[token]
	if !isConfigured { // it is not paid, and only its own data are known
		m.Program = chain.Address(got[0].Owner)
		if !isTokenProgram([]byte(m.Program)) {
			return fmt.Sprintf("%s belongs to program %.44q and is not a token", token, m.Program), nil
		}
		if data, err := got[0].decodeData(); err == nil && len(data) >= mintBytes {
			m.Decimals = data[mintDecimalsByte]
		}
	}
	var reverted *chain.RevertedError
	if err := m.checkMint(token, got[0]); errors.As(err, &reverted) {
		return reverted.Reason, nil
	} else if err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	return "", nil
}

// reviewableExtensions are the extensions that a mint may have after a review. What is paid of it
// is what arrives, in accounts of the usual size, and it is known who else can change something. A
// fee, a program of its own, a pause and scaled amounts are not among them.
var reviewableExtensions = []uint16{3, 4, 6, 10, 12}

// CanAllowExtension reports whether a mint can be allowed to have an extension.
func CanAllowExtension(kind uint16) bool {
	return harmlessExtensions[kind] || slices.Contains(reviewableExtensions, kind)
}

func (m Mint) allowsExtension(kind uint16) bool {
	return harmlessExtensions[kind] || slices.Contains(m.Allow, kind)
}
