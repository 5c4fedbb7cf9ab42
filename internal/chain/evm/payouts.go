package evm

import (
	"bytes"
	"context"
	"fmt"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

// payoutContract is the payout contract of a chain.
type payoutContract struct{ *adapter }

var _ chain.PayoutContract = payoutContract{}

// Address implements chain.PayoutContract.
func (payoutContract) Address() chain.Address { return evmtx.PayoutContract }

// IsDeployed reads the code at every provider. Other code at the address, which no chain allows, is as none.
// Rule BP-55.
func (c payoutContract) IsDeployed(ctx context.Context) (bool, error) {
	answers := quorum.AskAll(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) (bool, error) {
		return p.hasPayoutContract(ctx)
	})
	deployed, err := collectQuorum(answers, c.Quorum)
	if err != nil {
		return false, fmt.Errorf("payout contract on %s: %w", c.Name, err)
	}
	for _, isDeployed := range deployed {
		if !isDeployed {
			return false, nil
		}
	}
	return true, nil
}

func (p *provider) hasPayoutContract(ctx context.Context) (bool, error) {
	var code *hexutil.Bytes
	if err := p.callMethod(ctx, &code, "eth_getCode", payoutcontract.Address, "latest"); err != nil {
		return false, err
	}
	if code == nil {
		return false, fmt.Errorf("%s: gave no code of %s", p.name, payoutcontract.Address)
	}
	return payoutcontract.IsRuntimeCode(*code), nil
}

// allowanceSelector begins every call of allowance(address,address).
var allowanceSelector = []byte{0xdd, 0x62, 0xed, 0x3e}

// Allowance implements chain.PayoutContract.
func (c payoutContract) Allowance(ctx context.Context, owner, token chain.Address) (money.Amount, error) {
	fail := func(err error) (money.Amount, error) {
		return money.Zero, fmt.Errorf("allowance of %s for %s on %s: %w", owner, token, c.Name, err)
	}
	ownerBytes, err := evmtx.Bytes(owner)
	if err != nil {
		return fail(err)
	}
	contract, err := evmtx.Bytes(token)
	if err != nil {
		return fail(err)
	}
	data := bytes.Join([][]byte{
		allowanceSelector, common.LeftPadBytes(ownerBytes[:], wordBytes),
		common.LeftPadBytes(payoutcontract.Address[:], wordBytes),
	}, nil)
	answers := quorum.AskAll(ctx, c.providers, c.Quorum, func(ctx context.Context, p *provider) (money.Amount, error) {
		var answer hexutil.Bytes
		err := p.callMethod(ctx, &answer, "eth_call", callArgs{To: contract, Data: data}, "latest")
		if err == nil && len(answer) != wordBytes {
			err = fmt.Errorf("%s: the token answered %d bytes", p.name, len(answer))
		}
		return money.FromUint256(new(uint256.Int).SetBytes(answer)), err
	})
	allowances, err := collectQuorum(answers, c.Quorum)
	if err != nil {
		return fail(err)
	}
	lowest := allowances[0] // the others may be behind, or lie
	for _, a := range allowances {
		lowest = minAmount(lowest, a)
	}
	return lowest, nil
}

// simulatePayouts returns nil if a call of the payout contract would succeed on the latest state.
func (p *provider) simulatePayouts(ctx context.Context, _ chain.Payment, c callArgs) error {
	isDeployed, err := p.hasPayoutContract(ctx)
	if err != nil {
		return err
	}
	if !isDeployed {
		return &chain.RevertedError{Reason: fmt.Sprintf("the payout contract is not at %s", evmtx.PayoutContract)}
	}
	if err := p.callMethod(ctx, new(hexutil.Bytes), "eth_call", c, "latest"); err != nil {
		return asRevert(err)
	}
	return nil
}
