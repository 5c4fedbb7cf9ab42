package solana

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
)

// blocksMax is how many blocks are searched for the one from which a value follows. Any person may
// name a nonce account in a transaction, for a fee.
const blocksMax = 64

var _ chain.SlotProver = (*Client)(nil)

// ProveSlot finds the block from whose hash the value of a nonce account follows: the one before
// the block in which the account was created or advanced. See
// docs/design/solana.md#proof-of-a-slot.
func (c *Client) ProveSlot(
	ctx context.Context, account chain.Address, slotKey string, candidates ...string,
) (string, error) {
	nonceAccount, value, err := solanatx.ParseSlotKey(slotKey)
	if err == nil {
		err = checkNonceAccount(account, nonceAccount)
	}
	if err != nil {
		return "", fmt.Errorf("proof of a nonce account on %s: %w", chain.Solana, err)
	}
	for _, hash := range candidates {
		if isProvenBy(hash, value) {
			return hash, nil
		}
	}
	var errs []error
	for _, p := range c.providers {
		hash, err := p.findParentHash(ctx, nonceAccount, value)
		if err == nil {
			return hash, nil
		}
		errs = append(errs, err)
	}
	return "",
		fmt.Errorf("no provider of %s has the block from which %s has its value; add one that keeps the history of "+
			"the chain: %w",
			chain.Solana, nonceAccount, errors.Join(errs...))
}

func isProvenBy(hash, value string) bool {
	v, err := solanatx.NonceValueAfter(hash)
	return err == nil && v == value
}

// findParentHash returns the hash of the block before the one in which a nonce account got its
// value. It searches the transactions that name the account, the newest first. It skips blocks that
// a provider has pruned.
func (p *provider) findParentHash(ctx context.Context, nonceAccount chain.Address, value string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout) // for all requests: a slow provider must not delay the others
	defer cancel()
	var listed []struct {
		Slot uint64 `json:"slot"`
	}
	if err := p.callMethod(ctx, &listed, "getSignaturesForAddress", nonceAccount,
		options{"commitment": finalized, "limit": signaturesMax}); err != nil {
		return "", err
	}
	checked := map[uint64]bool{}
	var errs []error
	for _, s := range listed {
		if checked[s.Slot] {
			continue
		}
		if len(checked) == blocksMax {
			break
		}
		checked[s.Slot] = true
		h, err := p.readHeader(ctx, s.Slot, finalized)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if isProvenBy(h.parent, value) {
			return h.parent, nil
		}
	}
	return "", errors.Join(append(errs, fmt.Errorf("%s: its value follows from none of the %d blocks with its "+
		"transactions",
		p.name, len(checked)))...)
}
