package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Account takes the lowest of what the providers say, of which at least Agree
// have to answer: a nonce is used up only when all who answer have seen it.
func (a *adapter) Account(ctx context.Context, of chain.Address, _ ...chain.Slot) (chain.Account, error) {
	who, err := evmtx.Bytes(of)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account on %s: %w", a.Name, err)
	}
	answers := several.Ask(ctx, a.providers, a.Agree, func(ctx context.Context, p *provider) (chain.Account, error) {
		return a.nonces(ctx, p, who)
	})
	var lowest chain.Account
	var errs []error
	count := 0
	for _, n := range answers {
		if n.Err != nil {
			errs = append(errs, n.Err)
			continue
		}
		if count++; count == 1 {
			lowest = n.Value
		}
		lowest.Latest = min(lowest.Latest, n.Value.Latest)
		lowest.Final = min(lowest.Final, n.Value.Final)
	}
	if count < a.Agree {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", of, a.Name, errors.Join(errs...))
	}
	return lowest, nil
}

func (a *adapter) nonces(ctx context.Context, p *provider, who common.Address) (chain.Account, error) {
	final := a.Finality.tag()
	if a.Finality.Depth > 0 {
		head, err := p.head(ctx, "latest")
		if err != nil {
			return chain.Account{}, err
		}
		final = hexutil.EncodeUint64(a.Finality.below(head.Height))
	}
	var atLatest, atFinal *hexutil.Uint64
	err := p.batch(ctx, []rpc.BatchElem{
		{Method: "eth_getTransactionCount", Args: []any{who, final}, Result: &atFinal},
		{Method: "eth_getTransactionCount", Args: []any{who, "latest"}, Result: &atLatest},
	})
	if err != nil {
		return chain.Account{}, err
	}
	if atLatest == nil || atFinal == nil {
		return chain.Account{}, fmt.Errorf("%s: gave no nonce of %s", p.name, who)
	}
	// A fork between the two answers can leave the final one ahead.
	latest := uint64(*atLatest)
	return chain.Account{Latest: latest, Final: min(latest, uint64(*atFinal))}, nil
}

// delegation begins the code of an account whose key lends it to a contract (EIP-7702);
// the contract's address follows. The key still moves what is there.
var delegation = []byte{0xef, 0x01, 0x00}

// kindOf tells who can send from an address by its code. It is pure.
func kindOf(code []byte) chain.AccountKind {
	if len(code) == 0 || len(code) == len(delegation)+common.AddressLength && bytes.HasPrefix(code, delegation) {
		return chain.Keyed
	}
	return chain.Programmed
}

// Senders answers from the movements: the account that sent each is part of it.
func (a *adapter) Senders(_ context.Context, _ chain.Block, of []chain.Transfer) ([][]chain.Address, error) {
	return chain.Senders(of), nil
}

// Kind asks for the code at an address, in a block that is named by its hash. One
// provider that has code there is enough for a contract: it only makes people look.
func (a *adapter) Kind(ctx context.Context, at chain.Block, of chain.Address) (chain.AccountKind, error) {
	who, err := evmtx.Bytes(of)
	if err != nil {
		return "", fmt.Errorf("account on %s: %w", a.Name, err)
	}
	where := inBlock{common.HexToHash(at.Hash), true}
	var errs []error
	keyed := 0
	for _, p := range a.withArchives() {
		var code *hexutil.Bytes
		err := p.call(ctx, &code, "eth_getCode", who, where)
		switch {
		case err == nil && code == nil:
			errs = append(errs, fmt.Errorf("%s: gave no code of %s", p.name, who))
		case gone(err):
			errs = append(errs, fmt.Errorf("%w: %w", chain.ErrStateGone, err))
		case err != nil:
			errs = append(errs, err)
		case kindOf(*code) != chain.Keyed:
			return chain.Programmed, nil
		default:
			if keyed++; keyed >= a.Agree {
				return chain.Keyed, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("account %s in block %d of %s: %d of the %d providers that have to agree: %w", of, at.Height, a.Name, keyed, a.Agree, errors.Join(errs...))
}
