package bitcoin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
)

var _ chain.TxLocator = (*adapter)(nil)

// LocateTx asks one node after the other until one has the transaction in a block of its chain.
func (a *adapter) LocateTx(ctx context.Context, tx chain.TxHash) (height uint64, isFound bool, err error) {
	var errs []error
	for _, p := range a.providersByTrust() {
		height, isFound, err := p.locateTx(ctx, strings.ToLower(string(tx)))
		if isFound {
			return height, true, nil
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", p.name, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		return 0, false, fmt.Errorf("locate %s on %s: %w", tx, chain.Bitcoin, errors.Join(errs...))
	}
	return 0, false, nil
}

func (p *provider) locateTx(ctx context.Context, tx string) (height uint64, isFound bool, err error) {
	var location txLocation
	call := newCall(&location, "getrawtransaction", tx, 1)
	if err := p.callBatchEach(ctx, call); err != nil {
		return 0, false, err
	}
	switch {
	case hasErrorCode(call.err, codeNotFound):
		return 0, false, nil
	case call.err != nil:
		return 0, false, call.err
	case location.Block == "":
		return 0, false, nil
	}
	hash, err := parseHash(location.Block)
	if err != nil {
		return 0, false, err
	}
	return p.readHeightOf(ctx, hash)
}
