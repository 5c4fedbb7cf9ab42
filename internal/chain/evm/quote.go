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
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	gasPlain = 21_000 // a transfer of coin to an account without code
	// gasSpare is added, with a fifth of the estimate, to what a call of a
	// contract takes: the receiver may have emptied its balance meanwhile, and
	// a first unit costs 20,000 gas more than another one.
	gasSpare = 20_000
	gasMax   = 1_000_000 // what asks for more is no transfer
	codeVM   = 3         // of a JSON-RPC error: the call was run and reverted
)

// What a payee of native coin may use: a contract decides that itself, and the fee is not its
// own. Above PayeeGasLimit no quote would pass anyway.
const (
	PayeeGasDefault = 100_000
	PayeeGasLimit   = gasMax - gasPlain
)

// GasLimitMax is the most gas that a quote ever proposes for a transaction, so
// that times the fee cap is the most that one may cost, replacements included.
const GasLimitMax = gasMax + gasMax/5 + gasSpare

// tried is what came of trying a payment out.
type tried struct {
	fees     chain.Fees
	reverted *chain.RevertedError
}

// Fits is one: a transaction makes one payment.
func (a *adapter) Fits([]chain.Payment) int { return 1 }

// Quote tries the payment out on the latest state and proposes its fees.
func (a *adapter) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	if len(ps) != 1 {
		return chain.Fees{}, fmt.Errorf("quote on %s: %d payments, and a transaction makes one", a.Name, len(ps))
	}
	p := ps[0]
	c, err := callOf(p)
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", a.Name, err)
	}
	fees, err := several.First(ctx, a.providers, func(ctx context.Context, from *provider) (tried, error) {
		fees, err := a.quote(ctx, from, p, c)
		var reverted *chain.RevertedError
		if errors.As(err, &reverted) {
			return tried{reverted: reverted}, nil // an answer, not a failure to give one
		}
		return tried{fees: fees}, err
	})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", a.Name, err)
	}
	if fees.reverted != nil {
		return chain.Fees{}, fees.reverted
	}
	return fees.fees, nil
}

func callOf(p chain.Payment) (call, error) {
	from, err := evmtx.Bytes(p.From)
	if err != nil {
		return call{}, err
	}
	// The call is what Build will sign.
	tx, err := evmtx.Pay(0, p.From, &p, 0, chain.Fees{})
	if err != nil {
		return call{}, err
	}
	to, err := evmtx.Bytes(tx.To)
	if err != nil {
		return call{}, err
	}
	return call{From: &from, To: to, Value: (*hexutil.Big)(tx.Value.Big()), Data: tx.Data}, nil
}

func (a *adapter) quote(ctx context.Context, from *provider, p chain.Payment, c call) (chain.Fees, error) {
	// Asked first, because nodes differ in how they say that coin is missing.
	held, err := from.balances(ctx, "latest", []chain.Holding{{Address: p.From}})
	if err != nil {
		return chain.Fees{}, err
	}
	if p.Contract == "" {
		return a.quoteCoin(ctx, from, p, c, held[0])
	}
	if err := from.simulateToken(ctx, p, c); err != nil {
		return chain.Fees{}, err
	}
	gas, err := from.estimate(ctx, c)
	if err != nil {
		return chain.Fees{}, reverted(err)
	}
	return a.limited(ctx, from, gas)
}

func (p *provider) estimate(ctx context.Context, c call) (uint64, error) {
	var gas hexutil.Uint64
	err := p.call(ctx, &gas, "eth_estimateGas", c, "latest")
	return uint64(gas), err
}

// limited are the market's fees for a call that takes so much gas.
func (a *adapter) limited(ctx context.Context, from *provider, gas uint64) (chain.Fees, error) {
	if gas > gasMax {
		return chain.Fees{}, tooMuch(gas, gasMax)
	}
	fees, err := a.market(ctx, from)
	fees.GasLimit = withSpare(gas)
	return fees, err
}

// withSpare is the limit for a call that takes so much gas.
func withSpare(gas uint64) uint64 {
	if gas > gasPlain {
		return gas + gas/5 + gasSpare
	}
	return gasPlain
}

func tooMuch(gas, most uint64) error {
	return &chain.RevertedError{Reason: fmt.Sprintf("it would take %d gas, and no more than %d may be spent on it", gas, most)}
}

// quoteCoin quotes a payment of native coin. The code at its destination runs with the fees
// and the gas limit that are sent, so that it cannot tell the two apart by them: code that
// sees a gas price of zero knows that it is tried out. No code sees the nonce, and there is
// no access list.
func (a *adapter) quoteCoin(ctx context.Context, from *provider, p chain.Payment, c call, held money.Amount) (chain.Fees, error) {
	if held.Less(p.Amount) {
		return chain.Fees{}, &chain.RevertedError{Reason: fmt.Sprintf("%s holds %v, less than the amount", p.From, held), Cause: chain.CauseFunds}
	}
	var code hexutil.Bytes
	if err := from.call(ctx, &code, "eth_getCode", c.To, "latest"); err != nil {
		return chain.Fees{}, err
	}
	if len(code) == 0 {
		// Nothing runs, whatever is offered. The payer's gas may come later.
		gas, err := from.estimate(ctx, c)
		if err != nil {
			return chain.Fees{}, reverted(err)
		}
		return a.limited(ctx, from, gas)
	}
	fees, err := a.market(ctx, from)
	if err != nil {
		return chain.Fees{}, err
	}
	own, err := from.estimate(ctx, call{From: c.From, To: *c.From})
	if err != nil {
		return chain.Fees{}, err
	}
	if own > gasPlain { // the price of its data may rise until it is mined
		own += own / 5
	}
	fees.GasLimit = min(own+a.PayeeGasMax, GasLimitMax)
	c.FeeCap, c.TipCap = (*hexutil.Big)(fees.FeeCap.Big()), (*hexutil.Big)(fees.TipCap.Big())
	gas, err := from.estimate(ctx, c)
	if err != nil {
		return chain.Fees{}, refused(err, p.Amount, held, fees)
	}
	if gas > fees.GasLimit {
		return chain.Fees{}, tooMuch(gas, fees.GasLimit)
	}
	most := fees
	fees.GasLimit = min(withSpare(gas), most.GasLimit)
	c.Gas = hexutil.Uint64(fees.GasLimit)
	if err := from.call(ctx, new(hexutil.Bytes), "eth_call", c, "latest"); err != nil {
		return chain.Fees{}, refused(err, p.Amount, held, most)
	}
	return fees, nil
}

// refused reads what a node said to a payment of native coin that was tried out with its
// fees: that the payer cannot pay them, that the code at the destination failed, or neither.
// Nodes say in the same words that the payer's coin and that the block's gas does not suffice.
func refused(err error, amount, held money.Amount, most chain.Fees) error {
	var said rpc.Error
	if !errors.As(err, &said) {
		return err
	}
	fee, feeErr := most.Max()
	if feeErr != nil {
		return errors.Join(err, feeErr)
	}
	need, feeErr := amount.Add(fee)
	if feeErr != nil {
		return errors.Join(err, feeErr)
	}
	var is *chain.RevertedError
	switch err := reverted(err); {
	case errors.As(err, &is):
		return err
	case held.Less(need):
		return &chain.FeeShortError{Fee: fee}
	case ran(err), strings.Contains(strings.ToLower(said.Error()), "exceeds allowance"):
		return &chain.RevertedError{Reason: several.Short(said.Error())}
	default:
		return err
	}
}

// simulateToken is nil when a token's transfer would succeed on the latest state. A token is
// one that the operator chose, and a sweep is quoted before its gas is there, so it is tried
// out without fees.
func (p *provider) simulateToken(ctx context.Context, pay chain.Payment, c call) error {
	var code, out hexutil.Bytes
	if err := p.call(ctx, &code, "eth_getCode", c.To, "latest"); err != nil {
		return err
	}
	if len(code) == 0 {
		return &chain.RevertedError{Reason: fmt.Sprintf("there is no contract at %s", pay.Contract), Cause: chain.CauseAccount}
	}
	if err := p.call(ctx, &out, "eth_call", c, "latest"); err != nil {
		return p.short(ctx, pay, reverted(err))
	}
	if !agrees(out) {
		return &chain.RevertedError{Reason: "the token answered that it would not transfer"}
	}
	return nil
}

// short names the cause of a token's refusal where the payer shows less than the amount:
// tokens say that in words of their own, or in none.
func (p *provider) short(ctx context.Context, pay chain.Payment, refused error) error {
	var why *chain.RevertedError
	if pay.Contract == "" || !errors.As(refused, &why) {
		return refused
	}
	held, err := p.balances(ctx, "latest", []chain.Holding{{Address: pay.From, Contract: pay.Contract}})
	var silent *chain.SilentError
	switch {
	case errors.As(err, &silent):
		return refused
	case err != nil:
		return err
	case held[0].Less(pay.Amount):
		why.Cause = chain.CauseFunds
	}
	return refused
}

// agrees reads what transfer returned: true, or nothing at all, as USDT does.
func agrees(out []byte) bool {
	yes := common.LeftPadBytes([]byte{1}, common.HashLength)
	return len(out) == 0 || bytes.Equal(out, yes)
}

// reverted turns an error that proves a revert into that, and leaves any other
// as it is.
func reverted(err error) error {
	var said rpc.Error
	if !errors.As(err, &said) {
		return err
	}
	text := strings.ToLower(said.Error())
	if said.ErrorCode() != codeVM && !strings.Contains(text, "revert") && !strings.Contains(text, "invalid opcode") {
		return err
	}
	var with rpc.DataError
	if errors.As(err, &with) {
		if data, ok := with.ErrorData().(string); ok {
			if raw, err := hexutil.Decode(data); err == nil {
				if reason, err := abi.UnpackRevert(raw); err == nil && reason != "" {
					return &chain.RevertedError{Reason: several.Short(reason)}
				}
			}
		}
	}
	return &chain.RevertedError{Reason: several.Short(said.Error())}
}

// Build encodes the transaction of a payment; it asks nobody.
func (a *adapter) Build(from chain.Address, s chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	p, err := chain.Only(ps)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", a.Name, err)
	}
	if s.Lease != "" {
		return nil, fmt.Errorf("build on %s: %v, and its transactions are numbered", a.Name, s)
	}
	if a.FeeCap.Less(fees.FeeCap) {
		return nil, fmt.Errorf("build on %s: fee cap %v is above the configured %v", a.Name, fees.FeeCap, a.FeeCap)
	}
	tx, err := evmtx.Pay(a.ChainID, from, p, s.Nonce, fees)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", a.Name, err)
	}
	payload, err := tx.Payload()
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", a.Name, err)
	}
	return payload, nil
}
