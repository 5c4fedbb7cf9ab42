package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
)

// Account counts a nonce as used if a quorum of providers says so, and more say so than deny it. A
// provider that lags has not seen what the others have, so it denies nothing.
func (a *adapter) Account(ctx context.Context, account chain.Address, _ ...chain.Slot) (chain.Account, error) {
	address, err := evmtx.Bytes(account)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account on %s: %w", a.Name, err)
	}
	answers := quorum.AskAll(ctx, a.providers, a.Quorum,
		func(ctx context.Context, p *provider) (accountNonces, error) {
			return a.readNonces(ctx, p, address)
		})
	var latest, final []nonce
	var errs []error
	for _, n := range answers {
		if n.Err != nil {
			errs = append(errs, n.Err)
			continue
		}
		latest, final = append(latest, n.Value.latest), append(final, n.Value.final)
	}
	if len(latest) < a.Quorum {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", account, a.Name, errors.Join(errs...))
	}
	acct := chain.Account{Latest: agreedNonce(latest, a.Quorum), Final: agreedNonce(final, a.Quorum)}
	acct.Latest = max(acct.Latest, acct.Final) // a final transaction is in the latest block too
	return acct, nil
}

// nonce is the next nonce of an account after the block at a height.
type nonce struct{ value, height uint64 }

// accountNonces are the nonces of an account at one provider.
type accountNonces struct{ latest, final nonce }

// agreedNonce returns the highest nonce that at least quorumSize providers have reached, and that
// more have reached than deny it. A provider denies a nonce that it has not reached at the height
// that quorumSize of them, and half of them, have. So a lagging provider denies nothing, and one
// that claims to be far ahead does not make the others lag. A used nonce is used in later blocks
// too, so those that have reached it may be at any height. It is pure.
func agreedNonce(reports []nonce, quorumSize int) uint64 {
	heights := make([]uint64, len(reports))
	for i, n := range reports {
		heights[i] = n.height
	}
	slices.Sort(heights)
	agreedHeight := heights[len(heights)-max(quorumSize, (len(heights)+1)/2)]
	var highest uint64
	for _, claim := range reports {
		confirm, deny := 0, 0
		for _, n := range reports {
			switch {
			case n.value >= claim.value:
				confirm++
			case n.height >= agreedHeight:
				deny++
			}
		}
		if confirm >= quorumSize && confirm > deny {
			highest = max(highest, claim.value)
		}
	}
	return highest
}

func (a *adapter) readNonces(ctx context.Context, p *provider, address common.Address) (read accountNonces, err error) {
	var latest, final *blockHead
	var atLatest, atFinal *hexutil.Uint64
	count := func(block any, result **hexutil.Uint64) rpc.BatchElem {
		return rpc.BatchElem{Method: "eth_getTransactionCount", Args: []any{address, block}, Result: result}
	}
	head := func(tag string, result **blockHead) rpc.BatchElem {
		return rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{tag, false}, Result: result}
	}
	// The heights come before the nonces: blocks that arrive meanwhile only raise the nonces.
	elems := []rpc.BatchElem{head("latest", &latest)}
	if a.Finality.Depth > 0 {
		err = p.callBatch(ctx, elems)
		if err == nil && latest != nil && latest.Number != nil {
			height := hexutil.Uint64(a.Finality.finalHeight(uint64(*latest.Number)))
			final = &blockHead{Number: &height}
			err = p.callBatch(ctx, []rpc.BatchElem{count(height, &atFinal), count("latest", &atLatest)})
		}
	} else {
		tag := a.Finality.blockTag()
		err = p.callBatch(ctx, append(elems, head(tag, &final), count(tag, &atFinal), count("latest", &atLatest)))
	}
	switch {
	case err != nil:
		return accountNonces{}, err
	case latest == nil || latest.Number == nil || final == nil || final.Number == nil:
		return accountNonces{}, fmt.Errorf("%s: lacks its latest or its final block", p.name)
	case *final.Number > *latest.Number:
		return accountNonces{}, p.finalAheadError(uint64(*final.Number), uint64(*latest.Number))
	case atLatest == nil || atFinal == nil:
		return accountNonces{}, fmt.Errorf("%s: gave no nonce of %s", p.name, address)
	}
	read.latest = nonce{uint64(*atLatest), uint64(*latest.Number)}
	// A reorg between the two answers can leave the final nonce ahead.
	read.final = nonce{min(uint64(*atLatest), uint64(*atFinal)), uint64(*final.Number)}
	return read, nil
}

// delegation begins the code of an account whose key delegates to a contract (EIP-7702); the
// contract's address follows. The key can still move the funds.
var delegation = []byte{0xef, 0x01, 0x00}

// accountKind returns who can send from an address, by its code. It is pure.
func accountKind(code []byte) chain.AccountKind {
	if len(code) == 0 || len(code) == len(delegation)+common.AddressLength && bytes.HasPrefix(code, delegation) {
		return chain.KeyAccount
	}
	return chain.ContractAccount
}

// Senders takes the senders from the transfers, which name them.
func (a *adapter) Senders(_ context.Context, _ chain.Block, transfers []chain.Transfer) ([][]chain.Address, error) {
	return chain.Senders(transfers), nil
}

// Kind reads the code at an address, in a block that is named by its hash. One provider that has
// code there is enough for a contract: the result only makes people check.
func (a *adapter) Kind(ctx context.Context, block chain.Block, account chain.Address) (chain.AccountKind, error) {
	address, err := evmtx.Bytes(account)
	if err != nil {
		return "", fmt.Errorf("account on %s: %w", a.Name, err)
	}
	blockRef := blockByHash{common.HexToHash(block.Hash), true}
	var errs []error
	keyed := 0
	for _, p := range a.withArchives() {
		var code *hexutil.Bytes
		err := p.callMethod(ctx, &code, "eth_getCode", address, blockRef)
		switch {
		case err == nil && code == nil:
			errs = append(errs, fmt.Errorf("%s: gave no code of %s", p.name, address))
		case isStateGone(err):
			errs = append(errs, fmt.Errorf("%w: %w", chain.ErrStateGone, err))
		case err != nil:
			errs = append(errs, err)
		case accountKind(*code) != chain.KeyAccount:
			return chain.ContractAccount, nil
		default:
			if keyed++; keyed >= a.Quorum {
				return chain.KeyAccount, nil
			}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return "", fmt.Errorf("account %s in block %d of %s: %d of the %d providers of the quorum: %w", account,
		block.Height, a.Name, keyed, a.Quorum, errors.Join(errs...))
}
