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
	if err := from.simulate(ctx, p, c); err != nil {
		return chain.Fees{}, err
	}
	var gas hexutil.Uint64
	if err := from.call(ctx, &gas, "eth_estimateGas", c, "latest"); err != nil {
		return chain.Fees{}, reverted(err)
	}
	limit := uint64(gas)
	if limit > gasMax {
		return chain.Fees{}, &chain.RevertedError{Reason: fmt.Sprintf("it would take %d gas, which is more than a transfer may", limit)}
	}
	if limit > gasPlain {
		limit += limit/5 + gasSpare
	}
	fees, err := a.market(ctx, from)
	fees.GasLimit = max(limit, gasPlain)
	return fees, err
}

// simulate is nil when the payment would succeed on the latest state.
func (p *provider) simulate(ctx context.Context, pay chain.Payment, c call) error {
	// Asked first, because nodes differ in how they say that coin is missing.
	held, err := p.balances(ctx, "latest", []chain.Holding{{Address: pay.From}})
	if err != nil {
		return err
	}
	if pay.Contract == "" && held[0].Less(pay.Amount) {
		return &chain.RevertedError{Reason: fmt.Sprintf("%s holds %v, less than the amount", pay.From, held[0]), Cause: chain.CauseFunds}
	}
	var code, out hexutil.Bytes
	if pay.Contract != "" {
		if err := p.call(ctx, &code, "eth_getCode", c.To, "latest"); err != nil {
			return err
		}
		if len(code) == 0 {
			return &chain.RevertedError{Reason: fmt.Sprintf("there is no contract at %s", pay.Contract), Cause: chain.CauseAccount}
		}
	}
	if err := p.call(ctx, &out, "eth_call", c, "latest"); err != nil {
		return p.short(ctx, pay, reverted(err))
	}
	if pay.Contract != "" && !agrees(out) {
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
