package evm

import (
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/cofferpay/coffer/internal/chain"
)

var _ chain.TxLocator = (*adapter)(nil)

// LocateTx asks one provider after the other until one shows the transaction in a block. The others may not
// have it yet, or not keep it any more.
func (a *adapter) LocateTx(ctx context.Context, tx chain.TxHash) (height uint64, isFound bool, err error) {
	const method = "eth_getTransactionByHash"
	hash := common.HexToHash(string(tx))
	var errs []error
	for _, p := range a.providersByTrust() {
		var located *struct {
			Hash   common.Hash     `json:"hash"`
			Height *hexutil.Uint64 `json:"blockNumber"`
		}
		switch err := p.callMethod(ctx, &located, method, hash); {
		case err != nil:
			errs = append(errs, err)
		case located == nil || located.Height == nil:
		case located.Hash != hash:
			errs = append(errs, p.WrapError(method, fmt.Errorf("it answers for %s", located.Hash)))
		default:
			return uint64(*located.Height), true, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) > 0 {
		return 0, false, fmt.Errorf("locate %s on %s: %w", hash, a.Name, errors.Join(errs...))
	}
	return 0, false, nil
}
