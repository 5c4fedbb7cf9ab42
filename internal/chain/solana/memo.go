package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

var _ chain.Memos = (*Client)(nil)

// Memo asks one provider after the other for the bytes of a transaction until the transaction's id
// proves them. Blocks are read without those bytes, which would be most of a block. Rule DEP-54.
func (c *Client) Memo(ctx context.Context, tx chain.TxHash) (memo string, refused, err error) {
	memo, err = quorum.FirstAnswer(ctx, c.providersByTrust(), func(ctx context.Context, p *provider) (string, error) {
		raw, err := p.readSigned(ctx, tx, confirmed)
		if err != nil {
			return "", err
		}
		memo, err := solanatx.Memo(raw, tx)
		if err != nil {
			err = p.WrapError("getTransaction", err)
			refused = errors.Join(refused, err)
		}
		return memo, err
	})
	if err != nil {
		return "", refused, fmt.Errorf("memo of %s on %s: %w", tx, chain.Solana, err)
	}
	return memo, refused, nil
}
