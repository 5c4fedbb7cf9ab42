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
	"github.com/cofferpay/coffer/internal/chain/several"
)

// Account counts a nonce as used when as many providers as have to agree say so, and more
// say so than deny it. A provider that is behind has not seen what the others have, so it
// denies nothing.
func (a *adapter) Account(ctx context.Context, of chain.Address, _ ...chain.Slot) (chain.Account, error) {
	who, err := evmtx.Bytes(of)
	if err != nil {
		return chain.Account{}, fmt.Errorf("account on %s: %w", a.Name, err)
	}
	answers := several.Ask(ctx, a.providers, a.Agree, func(ctx context.Context, p *provider) (nonces, error) {
		return a.nonces(ctx, p, who)
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
	if len(latest) < a.Agree {
		return chain.Account{}, fmt.Errorf("account %s on %s: %w", of, a.Name, errors.Join(errs...))
	}
	acct := chain.Account{Latest: reached(latest, a.Agree), Final: reached(final, a.Agree)}
	acct.Latest = max(acct.Latest, acct.Final) // what is final is there
	return acct, nil
}

// A nonce is the next one of an account after the block at a height.
type nonce struct{ next, height uint64 }

// nonces are where one provider has an account.
type nonces struct{ latest, final nonce }

// reached is the highest nonce that at least agree providers have reached, and that more
// have reached than deny it. A provider denies what it has not reached at the height that
// agree of them, and half of them, have: one that is behind denies nothing, and one that
// claims to be far ahead does not make the others be behind. A nonce that is used is used in
// later blocks too, so those that have reached it may be at any height. It is pure.
func reached(said []nonce, agree int) uint64 {
	heights := make([]uint64, len(said))
	for i, n := range said {
		heights[i] = n.height
	}
	slices.Sort(heights)
	agreed := heights[len(heights)-max(agree, (len(heights)+1)/2)]
	var highest uint64
	for _, claim := range said {
		confirm, deny := 0, 0
		for _, n := range said {
			switch {
			case n.next >= claim.next:
				confirm++
			case n.height >= agreed:
				deny++
			}
		}
		if confirm >= agree && confirm > deny {
			highest = max(highest, claim.next)
		}
	}
	return highest
}

func (a *adapter) nonces(ctx context.Context, p *provider, who common.Address) (at nonces, err error) {
	var latest, final *headline
	var atLatest, atFinal *hexutil.Uint64
	count := func(block any, result **hexutil.Uint64) rpc.BatchElem {
		return rpc.BatchElem{Method: "eth_getTransactionCount", Args: []any{who, block}, Result: result}
	}
	head := func(tag string, result **headline) rpc.BatchElem {
		return rpc.BatchElem{Method: "eth_getBlockByNumber", Args: []any{tag, false}, Result: result}
	}
	// The heights come before the nonces: what comes meanwhile only raises these.
	questions := []rpc.BatchElem{head("latest", &latest)}
	if a.Finality.Depth > 0 {
		err = p.batch(ctx, questions)
		if err == nil && latest != nil && latest.Number != nil {
			height := hexutil.Uint64(a.Finality.below(uint64(*latest.Number)))
			final = &headline{Number: &height}
			err = p.batch(ctx, []rpc.BatchElem{count(height, &atFinal), count("latest", &atLatest)})
		}
	} else {
		tag := a.Finality.tag()
		err = p.batch(ctx, append(questions, head(tag, &final), count(tag, &atFinal), count("latest", &atLatest)))
	}
	switch {
	case err != nil:
		return nonces{}, err
	case latest == nil || latest.Number == nil || final == nil || final.Number == nil:
		return nonces{}, fmt.Errorf("%s: lacks its latest or its final block", p.name)
	case *final.Number > *latest.Number:
		return nonces{}, p.beyond(uint64(*final.Number), uint64(*latest.Number))
	case atLatest == nil || atFinal == nil:
		return nonces{}, fmt.Errorf("%s: gave no nonce of %s", p.name, who)
	}
	at.latest = nonce{uint64(*atLatest), uint64(*latest.Number)}
	// A fork between the two answers can leave the final one ahead.
	at.final = nonce{min(uint64(*atLatest), uint64(*atFinal)), uint64(*final.Number)}
	return at, nil
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
