package solana

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// namingMax is how many transactions that name a place are looked at at once. Anybody may
// name one, for a fee each.
const namingMax = 1000

// taken is what one provider shows.
type taken struct{ newest, strange chain.TxHash }

// Taken asks for the transactions that name a nonce account. The treasury has to sign what
// advances it, so those that it has not signed, by the signature, are strangers' and say
// nothing.
func (c *Client) Taken(ctx context.Context, treasury chain.Address, lease string, since chain.TxHash, ours func(ctx context.Context, tx chain.TxHash, took string) (bool, error)) (newest, strange chain.TxHash, err error) {
	at, _, _ := strings.Cut(lease, " ")
	if err := owns(treasury, chain.Address(at)); err != nil {
		return "", "", fmt.Errorf("who took a place on %s: %w", chain.Solana, err)
	}
	var errs []error
	said := 0
	for _, a := range several.Ask(ctx, c.providers, c.Agree, func(ctx context.Context, p *provider) (taken, error) {
		return p.taken(ctx, treasury, at, since, ours)
	}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		if said++; newest == "" {
			newest = a.Value.newest
		}
		if a.Value.strange != "" {
			return newest, a.Value.strange, nil
		}
	}
	if said < c.Agree {
		return "", "", fmt.Errorf("who took place %s on %s: %w", at, chain.Solana, errors.Join(errs...))
	}
	return newest, "", nil
}

func (p *provider) taken(ctx context.Context, treasury chain.Address, at string, since chain.TxHash, ours func(ctx context.Context, tx chain.TxHash, took string) (bool, error)) (t taken, err error) {
	how := options{"commitment": finalized, "limit": namingMax}
	if since != "" {
		how["until"] = since
	}
	var all []struct {
		Signature chain.TxHash `json:"signature"`
	}
	if err := p.call(ctx, &all, "getSignaturesForAddress", at, how); err != nil {
		return t, err
	}
	for _, s := range all {
		if s.Signature == since {
			return t, nil
		}
		raw, err := p.signed(ctx, s.Signature, finalized)
		if err != nil {
			return t, err
		}
		hash, signed, err := solanatx.SignedBy(raw, treasury)
		if err != nil {
			return t, p.Said("getTransaction", err)
		}
		if !signed {
			continue
		}
		if t.newest == "" {
			t.newest = hash
		}
		known, err := ours(ctx, hash, solanatx.LeaseOf(raw))
		switch {
		case err != nil:
			return t, err
		case !known:
			t.strange = hash
			return t, nil
		case since == "":
			return t, nil
		}
	}
	if len(all) >= namingMax {
		return t, fmt.Errorf("%s: more than %d transactions name place %s since one of ours", p.name, namingMax, at)
	}
	return t, nil
}

// signed are the bytes of a transaction in a block that a provider is so sure of.
func (p *provider) signed(ctx context.Context, tx chain.TxHash, commitment string) ([]byte, error) {
	const method = "getTransaction"
	var got *struct {
		Transaction []string `json:"transaction"`
	}
	if err := p.call(ctx, &got, method, tx, options{"encoding": "base64", "commitment": commitment, "maxSupportedTransactionVersion": transactionsVersion}); err != nil {
		return nil, err
	}
	if got == nil || len(got.Transaction) != 2 {
		return nil, p.Said(method, fmt.Errorf("no bytes of %.90s", tx))
	}
	raw, err := base64.StdEncoding.DecodeString(got.Transaction[0])
	if err != nil {
		return nil, p.Said(method, err)
	}
	return raw, nil
}
