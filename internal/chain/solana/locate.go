package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
)

var _ chain.TxLocator = (*Client)(nil)

// LocateTx asks one provider after the other until one has the transaction in a slot. The others may not have
// it yet, or not keep it any more.
func (c *Client) LocateTx(ctx context.Context, tx chain.TxHash) (height uint64, isFound bool, err error) {
	var errs []error
	for _, p := range c.providersByTrust() {
		statuses, err := p.readStatuses(ctx, []chain.TxHash{tx})
		switch {
		case err != nil:
			errs = append(errs, err)
		case statuses[0] != nil:
			return statuses[0].Slot, true, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		return 0, false, fmt.Errorf("locate %s on %s: %w", tx, chain.Solana, errors.Join(errs...))
	}
	return 0, false, nil
}
