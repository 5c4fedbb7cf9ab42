package bitcoin

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// ConsolidationRateDefault is a fifth of the usual rate: a consolidation at it saves four
	// fifths of what spending the outputs would cost then.
	ConsolidationRateDefault = 2_000
	// ConsolidationMinDefault is more outputs than a payment spends unless it has to. A
	// consolidation reveals that they have one owner, which is not worth it for a few outputs.
	ConsolidationMinDefault = 20

	// ConsolidationMax is how many outputs are consolidated into one: half of what a slot key may
	// name. There is no reason for more, since another consolidation may follow.
	ConsolidationMax = 100

	consolidationTarget = 144 // blocks, a day: a consolidation is not urgent
	// smallOutputFactor defines a small output: spending it in usual times costs more than a
	// hundredth of its value.
	smallOutputFactor = 100
)

// consolidator makes one output of small ones.
type consolidator struct{ *adapter }

var _ chain.Consolidator = consolidator{}

// QuoteConsolidation returns the nodes' estimate for a day, within the bounds of all rates. Without
// an estimate the rate is not low: the least rate could be far too low, and the outputs of an
// unconfirmed consolidation cannot be spent. A local network needs no estimate.
func (m consolidator) QuoteConsolidation(ctx context.Context) (chain.Fees, bool, error) {
	estimated, err := m.estimateRate(ctx, consolidationTarget)
	if err != nil {
		return chain.Fees{}, false, fmt.Errorf("price of a consolidation on %s: %w", chain.Bitcoin, err)
	}
	rate := min(max(estimated, m.RateMin), m.RateMax)
	isCheap := rate <= m.ConsolidationRate && (estimated > 0 || m.Network == chain.Local)
	return chain.Fees{TipCap: money.Units(rate)}, isCheap, nil
}

// ConsolidationRange returns the range from the cost of spending an output at this rate to a
// hundred times that cost in usual times.
func (m consolidator) ConsolidationRange(price chain.Fees) (amountAbove, amountMax money.Amount) {
	size := bitcointx.VirtualSize(typicalInputWeight)
	rate, _ := price.TipCap.Uint64()
	return money.Units(bitcointx.FeeAtRate(size, rate)),
		money.Units(smallOutputFactor * bitcointx.FeeAtRate(size, m.UsualRate))
}

// InputCounts implements chain.Consolidator.
func (m consolidator) InputCounts() (countMin, countMax int) {
	return m.ConsolidationMin, ConsolidationMax
}

// MaxPaymentInputs implements chain.Consolidator.
func (consolidator) MaxPaymentInputs() int { return bitcointx.InputsMax }

// Consolidate returns the slot key of outputs and the fees; all but the fee comes back.
func (m consolidator) Consolidate(
	outputs []chain.Output, change chain.Address, price chain.Fees,
) (string, chain.Fees, error) {
	slotKey, err := bitcointx.NewSlotKey(m.Network, outputs, change)
	var fees chain.Fees
	if err == nil {
		fees, err = bitcointx.FitFees(m.Network, slotKey, nil, price)
	}
	if err == nil && m.CostMax.Less(fees.NonGas) {
		err = fmt.Errorf("it would cost %v satoshi, and at most %v are allowed", fees.NonGas, m.CostMax)
	}
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("consolidate outputs on %s: %w", chain.Bitcoin, err)
	}
	return slotKey.String(), fees, nil
}
