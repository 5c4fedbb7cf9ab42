package bitcoin

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// ConsolidationRateDefault is a fifth of the usual rate: what is merged at it saves four fifths
	// of what spending it would cost then.
	ConsolidationRateDefault = 2_000
	// ConsolidationMinDefault is as many coins as a payment does not spend unless it has to. A
	// merge shows everybody that they are of one owner, which a few coins are not worth.
	ConsolidationMinDefault = 20

	// ConsolidationMax is how many coins become one: half of what a slot may name, and no reason
	// for more, since another may follow.
	ConsolidationMax = 100

	consolidationTarget = 144 // blocks, a day: nobody waits for it
	// smallOutputFactor is how many times its own spending in usual times a coin is worth that is
	// not small: what takes more than a hundredth of it.
	smallOutputFactor = 100
)

// consolidator makes one coin of small ones.
type consolidator struct{ *adapter }

var _ chain.Consolidator = consolidator{}

// QuoteConsolidation is what nodes estimate for a day, within the bounds of every rate. Where they
// estimate nothing it is not low: the least rate could be far from enough, and what is
// merged is not to be spent until it is mined. A local network has no such days.
func (m consolidator) QuoteConsolidation(ctx context.Context) (chain.Fees, bool, error) {
	estimated, err := m.estimateRate(ctx, consolidationTarget)
	if err != nil {
		return chain.Fees{}, false, fmt.Errorf("price of a merge on %s: %w", chain.Bitcoin, err)
	}
	rate := min(max(estimated, m.RateMin), m.RateMax)
	isCheap := rate <= m.ConsolidationRate && (estimated > 0 || m.Network == chain.Local)
	return chain.Fees{TipCap: money.Units(rate)}, isCheap, nil
}

// ConsolidationRange goes from what spending a coin costs at the price to a hundred times of what it
// costs in usual times.
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

// Consolidate names the slot of coins; all but the fee comes back.
func (m consolidator) Consolidate(
	outputs []chain.Output, change chain.Address, price chain.Fees,
) (string, chain.Fees, error) {
	slotKey, err := bitcointx.NewSlotKey(m.Network, outputs, change)
	var fees chain.Fees
	if err == nil {
		fees, err = bitcointx.FitFees(m.Network, slotKey, nil, price)
	}
	if err == nil && m.CostMax.Less(fees.NonGas) {
		err = fmt.Errorf("it would cost %v satoshi, and no more than %v are allowed", fees.NonGas, m.CostMax)
	}
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("merge coins on %s: %w", chain.Bitcoin, err)
	}
	return slotKey.String(), fees, nil
}
