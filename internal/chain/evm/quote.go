package evm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/accounts/abi"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rpc"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/evm/evmtx"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	plainTransferGas = 21_000 // a transfer of coin to an account without code
	// gasReserve is added, with a fifth of the estimate, to the gas of a contract call. The
	// receiver may have emptied its balance meanwhile, and a first unit costs 20,000 gas more than
	// another one.
	gasReserve   = 20_000
	gasMax       = 1_000_000 // a call that needs more is no transfer
	codeReverted = 3         // of a JSON-RPC error: the call was run and reverted
)

// The gas that a payee of native coin may use: a contract decides that itself, and does not pay the
// fee. No quote would pass above PayeeGasLimit.
const (
	// Rule WD-52.
	PayeeGasDefault = 100_000
	PayeeGasLimit   = gasMax - plainTransferGas
)

// GasLimitMax is the most gas that a quote ever proposes for a transaction. Times the fee cap it is
// the most that one may cost, replacements included.
const GasLimitMax = gasMax + gasMax/5 + gasReserve

// quoteResult is the result of a simulated payment.
type quoteResult struct {
	fees     chain.Fees
	reverted *chain.RevertedError
}

// BatchSize counts payments of one account in one token, which the payout contract makes. A payment of coin is alone.
func (a *adapter) BatchSize(ps []chain.Payment) int {
	n := min(1, len(ps))
	for n < min(len(ps), evmtx.PaymentsMax) && evmtx.CanShareTx(ps[0]) && evmtx.CanShareTx(ps[n]) &&
		ps[n].Contract == ps[0].Contract && ps[n].From == ps[0].From {
		n++
	}
	return n
}

// Quote simulates payments on the latest state and proposes the fees of their transaction.
func (a *adapter) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	if len(ps) == 0 || len(ps) > a.BatchSize(ps) {
		return chain.Fees{}, fmt.Errorf("quote on %s: %d payments share no transaction", a.Name, len(ps))
	}
	c, err := newCallArgs(ps)
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", a.Name, err)
	}
	fees, err := quorum.FirstAnswer(ctx, a.providers, func(ctx context.Context, node *provider) (quoteResult, error) {
		fees, err := a.quotePayments(ctx, node, ps, c)
		var reverted *chain.RevertedError
		if errors.As(err, &reverted) {
			return quoteResult{reverted: reverted}, nil // an answer, not a failure to give one
		}
		return quoteResult{fees: fees}, err
	})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", a.Name, err)
	}
	if fees.reverted != nil {
		return chain.Fees{}, fees.reverted
	}
	return fees.fees, nil
}

func newCallArgs(ps []chain.Payment) (callArgs, error) {
	from, err := evmtx.Bytes(ps[0].From)
	if err != nil {
		return callArgs{}, err
	}
	// The call is the one that Build encodes.
	tx, err := evmtx.NewPaymentsTx(0, ps[0].From, ps, 0, chain.Fees{})
	if err != nil {
		return callArgs{}, err
	}
	to, err := evmtx.Bytes(tx.To)
	if err != nil {
		return callArgs{}, err
	}
	return callArgs{From: &from, To: to, Value: (*hexutil.Big)(tx.Value.Big()), Data: tx.Data}, nil
}

func (a *adapter) quotePayments(
	ctx context.Context, node *provider, ps []chain.Payment, c callArgs,
) (chain.Fees, error) {
	p := ps[0]
	// Checked first, because nodes report missing coin in different ways.
	held, err := node.readBalances(ctx, "latest", []chain.Holding{{Address: p.From}})
	if err != nil {
		return chain.Fees{}, err
	}
	if p.Contract == "" {
		return a.quoteNative(ctx, node, p, c, held[0])
	}
	simulate := node.simulateToken
	if len(ps) > 1 {
		simulate = node.simulatePayouts
	}
	if err := simulate(ctx, p, c); err != nil {
		return chain.Fees{}, err
	}
	gas, err := node.estimateGas(ctx, c)
	if err != nil {
		return chain.Fees{}, asRevert(err)
	}
	return a.quoteGas(ctx, node, gas)
}

func (p *provider) estimateGas(ctx context.Context, c callArgs) (uint64, error) {
	var gas hexutil.Uint64
	err := p.callMethod(ctx, &gas, "eth_estimateGas", c, "latest")
	return uint64(gas), err
}

// quoteGas returns the market's fees for a call that uses this much gas.
func (a *adapter) quoteGas(ctx context.Context, node *provider, gas uint64) (chain.Fees, error) {
	if gas > gasMax {
		return chain.Fees{}, newGasError(gas, gasMax)
	}
	fees, err := a.marketFees(ctx, node)
	fees.GasLimit = addGasReserve(gas)
	return fees, err
}

// addGasReserve returns the limit for a call that uses this much gas.
func addGasReserve(gas uint64) uint64 {
	if gas > plainTransferGas {
		return gas + gas/5 + gasReserve
	}
	return plainTransferGas
}

func newGasError(gas, limit uint64) error {
	return &chain.RevertedError{Reason: fmt.Sprintf("it would use %d gas, and at most %d are allowed", gas,
		limit)}
}

// quoteNative quotes a payment of native coin. The code at its destination runs with the fees and
// the gas limit of the later transaction, so it cannot tell the simulation by them: code that sees
// a gas price of zero knows that it is simulated. Code does not see the nonce, and there is no
// access list. Rule WD-52.
func (a *adapter) quoteNative(
	ctx context.Context, node *provider, p chain.Payment, c callArgs, held money.Amount,
) (chain.Fees, error) {
	if held.Less(p.Amount) {
		return chain.Fees{}, &chain.RevertedError{Reason: fmt.Sprintf("%s holds %v, less than the amount", p.From,
			held), Cause: chain.CauseFunds}
	}
	var code hexutil.Bytes
	if err := node.callMethod(ctx, &code, "eth_getCode", c.To, "latest"); err != nil {
		return chain.Fees{}, err
	}
	if len(code) == 0 {
		// No code runs, so the fees do not matter. The payer's gas may arrive later.
		gas, err := node.estimateGas(ctx, c)
		if err != nil {
			return chain.Fees{}, asRevert(err)
		}
		return a.quoteGas(ctx, node, gas)
	}
	fees, err := a.marketFees(ctx, node)
	if err != nil {
		return chain.Fees{}, err
	}
	baseGas, err := node.estimateGas(ctx, callArgs{From: c.From, To: *c.From})
	if err != nil {
		return chain.Fees{}, err
	}
	if baseGas > plainTransferGas { // the price of its data may rise before it is mined
		baseGas += baseGas / 5
	}
	fees.GasLimit = min(baseGas+a.PayeeGasMax, GasLimitMax)
	c.FeeCap, c.TipCap = (*hexutil.Big)(fees.FeeCap.Big()), (*hexutil.Big)(fees.TipCap.Big())
	gas, err := node.estimateGas(ctx, c)
	if err != nil {
		return chain.Fees{}, explainRefusal(err, p.Amount, held, fees)
	}
	if gas > fees.GasLimit {
		return chain.Fees{}, newGasError(gas, fees.GasLimit)
	}
	maxFees := fees
	fees.GasLimit = min(addGasReserve(gas), maxFees.GasLimit)
	c.Gas = hexutil.Uint64(fees.GasLimit)
	if err := node.callMethod(ctx, new(hexutil.Bytes), "eth_call", c, "latest"); err != nil {
		return chain.Fees{}, explainRefusal(err, p.Amount, held, maxFees)
	}
	return fees, nil
}

// explainRefusal decodes what a node answered to a native payment that was simulated with its fees.
// Either the payer cannot pay them, or the code at the destination failed, or neither. Nodes use
// the same text for a lack of the payer's coin and of the block's gas.
func explainRefusal(err error, amount, held money.Amount, maxFees chain.Fees) error {
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) {
		return err
	}
	fee, feeErr := maxFees.Max()
	if feeErr != nil {
		return errors.Join(err, feeErr)
	}
	need, feeErr := amount.Add(fee)
	if feeErr != nil {
		return errors.Join(err, feeErr)
	}
	var revert *chain.RevertedError
	switch err := asRevert(err); {
	case errors.As(err, &revert):
		return err
	case held.Less(need):
		return &chain.InsufficientFeeError{Fee: fee}
	case isExecutionError(err), strings.Contains(strings.ToLower(rpcErr.Error()), "exceeds allowance"):
		return &chain.RevertedError{Reason: quorum.TruncateAnswer(rpcErr.Error())}
	default:
		return err
	}
}

// simulateToken returns nil if a token transfer would succeed on the latest state. The operator
// chose the token, and a sweep is quoted before its gas arrives, so it is simulated without fees.
func (p *provider) simulateToken(ctx context.Context, pay chain.Payment, c callArgs) error {
	var code, out hexutil.Bytes
	if err := p.callMethod(ctx, &code, "eth_getCode", c.To, "latest"); err != nil {
		return err
	}
	if len(code) == 0 {
		return &chain.RevertedError{
			Reason: fmt.Sprintf("there is no contract at %s", pay.Contract),
			Cause:  chain.CauseAccount,
		}
	}
	if err := p.callMethod(ctx, &out, "eth_call", c, "latest"); err != nil {
		return p.explainShortfall(ctx, pay, asRevert(err))
	}
	if !returnedTrue(out) {
		return &chain.RevertedError{Reason: "the token answered that it would not transfer"}
	}
	return nil
}

// explainShortfall sets the cause of a token's refusal if the payer shows less than the amount:
// tokens report that in texts of their own, or not at all.
func (p *provider) explainShortfall(ctx context.Context, pay chain.Payment, refused error) error {
	var revert *chain.RevertedError
	if pay.Contract == "" || !errors.As(refused, &revert) {
		return refused
	}
	held, err := p.readBalances(ctx, "latest", []chain.Holding{{Address: pay.From, Contract: pay.Contract}})
	var silent *chain.NoBalanceError
	switch {
	case errors.As(err, &silent):
		return refused
	case err != nil:
		return err
	case held[0].Less(pay.Amount):
		revert.Cause = chain.CauseFunds
	}
	return refused
}

// returnedTrue decodes what transfer returned: true, or nothing at all, as USDT does.
func returnedTrue(out []byte) bool {
	trueWord := common.LeftPadBytes([]byte{1}, common.HashLength)
	return len(out) == 0 || bytes.Equal(out, trueWord)
}

// asRevert converts an error that proves a revert, and returns any other unchanged.
func asRevert(err error) error {
	var rpcErr rpc.Error
	if !errors.As(err, &rpcErr) {
		return err
	}
	text := strings.ToLower(rpcErr.Error())
	if rpcErr.ErrorCode() != codeReverted && !strings.Contains(text, "revert") &&
		!strings.Contains(text, "invalid opcode") {
		return err
	}
	var dataErr rpc.DataError
	if errors.As(err, &dataErr) {
		if data, ok := dataErr.ErrorData().(string); ok {
			if raw, err := hexutil.Decode(data); err == nil {
				if reason, err := abi.UnpackRevert(raw); err == nil && reason != "" {
					return &chain.RevertedError{Reason: quorum.TruncateAnswer(reason)}
				}
			}
		}
	}
	return &chain.RevertedError{Reason: quorum.TruncateAnswer(rpcErr.Error())}
}

// Build encodes the transaction of a payment; it asks no provider.
func (a *adapter) Build(from chain.Address, s chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	if s.Key != "" {
		return nil, fmt.Errorf("build on %s: %v, and its transactions are numbered", a.Name, s)
	}
	if a.FeeCap.Less(fees.FeeCap) {
		return nil, fmt.Errorf("build on %s: fee cap %v is above the configured %v", a.Name, fees.FeeCap, a.FeeCap)
	}
	tx, err := evmtx.NewPaymentsTx(a.ChainID, from, ps, s.Nonce, fees)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", a.Name, err)
	}
	payload, err := tx.Payload()
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", a.Name, err)
	}
	return payload, nil
}
