package evm

import (
	"context"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/holiman/uint256"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	feeBlocks        = 10     // how many blocks the usual tip is taken from
	tipPercentile    = 50     // of the tips in each of them
	bumpBps          = 11_250 // a replacement offers this share of what it replaces; nodes require 110 %
	tokenTransferGas = 65_000 // the gas of a transfer of a usual token whose receiver had none
)

// tipMin keeps the tip above what nodes treat as zero. 0.001 gwei.
var tipMin = money.Units(1_000_000)

// marketFees returns the present fees within the caps: the usual tip, and room for the base fee to
// double.
func (a *adapter) marketFees(ctx context.Context, p *provider) (chain.Fees, error) {
	var history struct {
		BaseFees []*hexutil.Big   `json:"baseFeePerGas"`
		Tips     [][]*hexutil.Big `json:"reward"`
	}
	if err := p.callMethod(ctx, &history, "eth_feeHistory", hexutil.Uint64(feeBlocks), "latest",
		[]int{tipPercentile}); err != nil {
		return chain.Fees{}, err
	}
	if len(history.BaseFees) == 0 || history.BaseFees[len(history.BaseFees)-1] == nil {
		return chain.Fees{}, fmt.Errorf("%s: eth_feeHistory: no base fee", p.name)
	}
	// The last base fee is of the next block.
	base, err := money.FromBig(history.BaseFees[len(history.BaseFees)-1].ToInt())
	if err != nil {
		return chain.Fees{}, fmt.Errorf("%s: eth_feeHistory: base fee: %w", p.name, err)
	}
	tips := []money.Amount{}
	for _, t := range history.Tips {
		if len(t) != 1 || t[0] == nil {
			continue
		}
		tip, err := money.FromBig(t[0].ToInt())
		if err != nil {
			return chain.Fees{}, fmt.Errorf("%s: eth_feeHistory: tip: %w", p.name, err)
		}
		if !tip.IsZero() { // an empty block gives no information
			tips = append(tips, tip)
		}
	}
	tip := tipMin
	if len(tips) > 0 {
		slices.SortFunc(tips, money.Amount.Cmp)
		tip = maxAmount(tip, tips[len(tips)/2])
	}
	tip = minAmount(tip, a.TipCap)
	feeCap, err := base.Mul(2)
	if err == nil {
		feeCap, err = feeCap.Add(tip)
	}
	if err != nil {
		feeCap = a.FeeCap
	}
	feeCap = minAmount(feeCap, a.FeeCap)
	fees := chain.Fees{TipCap: minAmount(tip, feeCap), FeeCap: feeCap}
	fees.NonGas, err = a.nonGasFee(ctx, p)
	return fees, err
}

// opGasOracle is the contract of the OP stack that prices what is paid in addition to gas.
var opGasOracle = common.HexToAddress("0x420000000000000000000000000000000000000F")

const (
	opDataBytes  = 200 // more than one of Coffer's transactions has before it is signed
	nonGasFactor = 2   // the price on the layer below may double before the transaction is mined
)

// nonGasFee returns the most that a transaction may have to pay in addition to its gas.
func (a *adapter) nonGasFee(ctx context.Context, p *provider) (money.Amount, error) {
	if a.stack != optimism {
		return money.Zero, nil
	}
	readPrice := func(method string, argument uint64) (money.Amount, error) {
		var word hexutil.Bytes
		data := append(crypto.Keccak256([]byte(method))[:4],
			common.BigToHash(new(big.Int).SetUint64(argument)).Bytes()...)
		if err := p.callMethod(ctx, &word, "eth_call", callArgs{To: opGasOracle, Data: data}, "latest"); err != nil {
			return money.Zero, err
		}
		if len(word) != common.HashLength {
			return money.Zero, fmt.Errorf("%s: %s of the gas price oracle: answer of %d bytes is not a price", p.name,
				method, len(word))
		}
		return money.FromUint256(new(uint256.Int).SetBytes(word)), nil
	}
	data, err := readPrice("getL1FeeUpperBound(uint256)", opDataBytes)
	if err != nil {
		return money.Zero, err
	}
	operator, err := readPrice("getOperatorFee(uint256)", tokenTransferGas)
	if isExecutionError(err) {
		operator, err = money.Zero, nil // a chain from before it had an operator fee
	}
	if err != nil {
		return money.Zero, err
	}
	sum, err := data.Add(operator)
	if err != nil {
		return money.Zero, fmt.Errorf("%s: prices of the gas price oracle: %w", p.name, err)
	}
	return sum.Mul(nonGasFactor)
}

// TransferFees returns the market's fees, for the gas of a usual token.
func (a *adapter) TransferFees(ctx context.Context) (chain.Fees, error) {
	fees, err := quorum.FirstAnswer(ctx, a.providers, a.marketFees)
	if err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer on %s: %w", a.Name, err)
	}
	fees.GasLimit = tokenTransferGas
	return fees, nil
}

// Bump proposes an eighth more for both fees, or the market's if they are higher. The tip may then
// exceed the configured one: nodes accept a replacement only if both are raised.
func (a *adapter) Bump(ctx context.Context, last chain.Fees) (chain.Fees, bool, error) {
	tip, err := raiseForBump(last.TipCap)
	if err != nil {
		return chain.Fees{}, false, fmt.Errorf("bump the tip %v on %s: %w", last.TipCap, a.Name, err)
	}
	feeCap, err := raiseForBump(last.FeeCap)
	if err != nil {
		return chain.Fees{}, false, fmt.Errorf("bump the fee %v on %s: %w", last.FeeCap, a.Name, err)
	}
	if a.FeeCap.Less(feeCap) {
		return chain.Fees{}, false, nil
	}
	current, err := quorum.FirstAnswer(ctx, a.providers, a.marketFees)
	if err != nil {
		return chain.Fees{}, false, fmt.Errorf("bump on %s: %w", a.Name, err)
	}
	return chain.Fees{
		GasLimit: last.GasLimit, TipCap: maxAmount(tip, current.TipCap), FeeCap: maxAmount(feeCap,
			current.FeeCap), NonGas: current.NonGas,
	}, true, nil
}

func raiseForBump(a money.Amount) (money.Amount, error) {
	higher, err := a.Bps(bumpBps)
	if err != nil {
		return money.Zero, err
	}
	return higher.Add(money.Units(1)) // Bps rounds down
}

func maxAmount(a, b money.Amount) money.Amount {
	if a.Less(b) {
		return b
	}
	return a
}

func minAmount(a, b money.Amount) money.Amount {
	if a.Less(b) {
		return a
	}
	return b
}
