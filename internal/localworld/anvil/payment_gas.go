package anvil

import (
	"context"
	"fmt"
	"math/big"

	"github.com/ethereum/go-ethereum/common"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/evm/payoutcontract"
	"github.com/cofferpay/coffer/internal/localworld/evmtoken"
	"github.com/cofferpay/coffer/internal/money"
)

// PaymentGas is the gas of each of several payments that share a transaction.
type PaymentGas struct {
	Token      string
	Payments   int // of a transaction; 1: a transfer of its own, without the payout contract
	NewPayee   uint64
	KnownPayee uint64 // has the token already
}

// The tokens of MeasurePayments.
const (
	ProxiedToken = "USDC behind a proxy"
	PlainToken   = "a plain token"
)

// MeasurePayments pays tokens of the faucet with the transactions that the service builds, of these numbers of
// payments, and returns what the receipts say. It deploys the payout contract.
func (n *Node) MeasurePayments(ctx context.Context, counts ...int) (measured []PaymentGas, err error) {
	if _, err := n.SendAndWait(ctx, payoutcontract.Deployer, nil, payoutcontract.DeploymentData()); err != nil {
		return nil, fmt.Errorf("deploy the payout contract: %w", err)
	}
	tokens, err := n.DeployTokens(ctx)
	if err != nil {
		return nil, err
	}
	plain, err := n.DeployContract(ctx, evmtoken.Tether, "Some Token", "SOME", uint8(6))
	if err != nil {
		return nil, err
	}
	mint := evmtoken.Tether.CallData("mint", n.FaucetAddress(), big.NewInt(1_000_000_000))
	if _, err := n.SendAndWait(ctx, plain, nil, mint); err != nil {
		return nil, fmt.Errorf("mint: %w", err)
	}
	allow, err := evmtx.ApproveData(evmtx.PayoutContract, true)
	if err != nil {
		return nil, err
	}
	payer := evmtx.Canonical(n.FaucetAddress())
	nextPayee := int64(0xc0ffee0000)
	for _, token := range []struct {
		name    string
		address common.Address
	}{{ProxiedToken, tokens.USDC.Address}, {PlainToken, plain}} {
		if _, err := n.SendAndWait(ctx, token.address, nil, allow); err != nil {
			return nil, fmt.Errorf("allow the payout contract %s: %w", token.name, err)
		}
		for _, count := range counts {
			payments := make([]chain.Payment, count)
			for i := range payments {
				nextPayee++
				payments[i] = chain.Payment{
					From: payer, To: evmtx.Canonical(common.BigToAddress(big.NewInt(nextPayee))),
					Contract: evmtx.Canonical(token.address), Amount: money.Units(1_000_000 + uint64(i)),
				}
			}
			tx, err := evmtx.NewPaymentsTx(1, payer, payments, 0, chain.Fees{})
			if err != nil {
				return nil, err
			}
			callee, err := evmtx.Bytes(tx.To)
			if err != nil {
				return nil, err
			}
			var gas [2]uint64
			for i := range gas {
				receipt, err := n.SendAndWait(ctx, callee, nil, tx.Data)
				if err != nil {
					return nil, fmt.Errorf("%s, %d payments: %w", token.name, count, err)
				}
				gas[i] = receipt.GasUsed / uint64(count)
			}
			measured = append(measured, PaymentGas{token.name, count, gas[0], gas[1]})
		}
	}
	return measured, nil
}
