package solana

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// signaturesMax is how many transactions that name a nonce account are read at once. Any person may
// name one, for a fee each.
const signaturesMax = 1000

// unknownUse is what one provider shows.
type unknownUse struct{ newest, foreign chain.TxHash }

// FindUnknownUse reads the transactions that name a nonce account. The treasury has to sign a
// transaction that advances it. Those without its signature are of others and prove nothing.
func (c *Client) FindUnknownUse(
	ctx context.Context, treasury chain.Address, slotKey string, lastKnown chain.TxHash,
	isOwnTx func(ctx context.Context, tx chain.TxHash, took string) (bool, error),
) (newest, foreign chain.TxHash, err error) {
	nonceAccount, _, _ := strings.Cut(slotKey, " ")
	if err := checkNonceAccount(treasury, chain.Address(nonceAccount)); err != nil {
		return "", "", fmt.Errorf("who used a nonce account on %s: %w", chain.Solana, err)
	}
	var errs []error
	answered := 0
	for _, a := range quorum.AskAll(ctx, c.providers, c.Quorum,
		func(ctx context.Context, p *provider) (unknownUse, error) {
			return p.findUnknownUse(ctx, treasury, nonceAccount, lastKnown, isOwnTx)
		}) {
		if a.Err != nil {
			errs = append(errs, a.Err)
			continue
		}
		if answered++; newest == "" {
			newest = a.Value.newest
		}
		if a.Value.foreign != "" {
			return newest, a.Value.foreign, nil
		}
	}
	if answered < c.Quorum {
		return "", "", fmt.Errorf(
			"who used nonce account %s on %s: %w",
			nonceAccount, chain.Solana, errors.Join(errs...),
		)
	}
	return newest, "", nil
}

func (p *provider) findUnknownUse(
	ctx context.Context, treasury chain.Address, nonceAccount string, lastKnown chain.TxHash,
	isOwnTx func(ctx context.Context, tx chain.TxHash, took string) (bool, error),
) (t unknownUse, err error) {
	opts := options{"commitment": finalized, "limit": signaturesMax}
	if lastKnown != "" {
		opts["until"] = lastKnown
	}
	var listed []struct {
		Signature chain.TxHash `json:"signature"`
	}
	if err := p.callMethod(ctx, &listed, "getSignaturesForAddress", nonceAccount, opts); err != nil {
		return t, err
	}
	for _, s := range listed {
		if s.Signature == lastKnown {
			return t, nil
		}
		raw, err := p.readSigned(ctx, s.Signature, finalized)
		if err != nil {
			return t, err
		}
		hash, signed, err := solanatx.IsSignedBy(raw, treasury)
		if err != nil {
			return t, p.WrapError("getTransaction", err)
		}
		if !signed {
			continue
		}
		if t.newest == "" {
			t.newest = hash
		}
		isOwn, err := isOwnTx(ctx, hash, solanatx.SlotKeyOf(raw))
		switch {
		case err != nil:
			return t, err
		case !isOwn:
			t.foreign = hash
			return t, nil
		case lastKnown == "":
			return t, nil
		}
	}
	if len(listed) >= signaturesMax {
		return t, fmt.Errorf("%s: more than %d transactions name nonce account %s since the last one of this service",
			p.name, signaturesMax, nonceAccount)
	}
	return t, nil
}

// readSigned returns the bytes of a transaction in a block at a commitment.
func (p *provider) readSigned(ctx context.Context, tx chain.TxHash, commitment string) ([]byte, error) {
	const method = "getTransaction"
	var got *struct {
		Transaction []string `json:"transaction"`
	}
	if err := p.callMethod(ctx, &got, method, tx, options{
		"encoding": "base64", "commitment": commitment,
		"maxSupportedTransactionVersion": transactionsVersion,
	}); err != nil {
		return nil, err
	}
	if got == nil || len(got.Transaction) != 2 {
		return nil, p.WrapError(method, fmt.Errorf("no bytes of %.90s", tx))
	}
	raw, err := base64.StdEncoding.DecodeString(got.Transaction[0])
	if err != nil {
		return nil, p.WrapError(method, err)
	}
	return raw, nil
}
