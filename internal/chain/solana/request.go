package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

var _ chain.PaymentRequests = (*Client)(nil)

// requestResult is what a provider says of a requested payment.
type requestResult struct {
	blockhash string
	reverted  *chain.RevertedError
}

// BuildRequest implements chain.PaymentRequests. What one provider says is enough: a false answer makes a transaction
// that fails or expires, and the payer still sees in the wallet what it does. A token account of the payee is never
// created: its rent is four hundred times the fee, and no part of a price.
func (c *Client) BuildRequest(ctx context.Context, r chain.PaymentRequest) ([]byte, error) {
	request := solanatx.Request{
		Payer: r.Payer, Payee: r.Payee, Mint: r.Contract, Amount: r.Amount, Reference: r.Reference,
	}
	if r.Contract != "" {
		m, err := c.configuredMint(r.Contract)
		if err != nil {
			return nil, fmt.Errorf("request a payment on %s: %w", chain.Solana, err)
		}
		request.TokenProgram, request.Decimals = m.Program, m.Decimals
	}
	got, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (result requestResult, err error) {
			result.blockhash, err = c.inspectRequest(ctx, p, r)
			if errors.As(err, &result.reverted) {
				return result, nil // an answer, not a failure to give one
			}
			return result, err
		})
	if err != nil {
		return nil, fmt.Errorf("request a payment on %s: %w", chain.Solana, err)
	}
	if got.reverted != nil {
		return nil, got.reverted
	}
	request.Blockhash = got.blockhash
	raw, err := request.Unsigned()
	if err != nil {
		return nil, fmt.Errorf("request a payment on %s: %w", chain.Solana, err)
	}
	return raw, nil
}

// inspectRequest refuses a payment that cannot succeed now, and returns the hash of a recent block.
func (c *Client) inspectRequest(ctx context.Context, p *provider, r chain.PaymentRequest) (string, error) {
	ps := []chain.Payment{{From: r.Payer, To: r.Payee, Contract: r.Contract, Amount: r.Amount}}
	accounts, err := c.inspectAccounts(ctx, p, ps)
	if err != nil {
		return "", err
	}
	if accounts.createsAccount {
		return "", newRefusal(chain.CausePayee, "%s has no token account of %s yet", r.Payee, r.Contract)
	}
	if err := accounts.checkAffordable(ps, money.Units(solanatx.SignatureFee)); err != nil {
		return "", newRefusal(chain.CauseFunds, "%v", err) // Nothing else in this transaction pays in.
	}
	var newest contextResponse[struct {
		Blockhash string `json:"blockhash"`
	}]
	if err := p.callMethod(ctx, &newest, "getLatestBlockhash", withCommitment(confirmed)); err != nil {
		return "", err
	}
	if _, err := solanatx.Bytes(chain.Address(newest.Value.Blockhash)); err != nil {
		return "", p.WrapError("getLatestBlockhash", err)
	}
	return newest.Value.Blockhash, nil
}
