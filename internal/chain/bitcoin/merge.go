package bitcoin

import (
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// MergeRateDefault is a fifth of the usual rate: what is merged at it saves four fifths
	// of what spending it would cost then.
	MergeRateDefault = 2_000
	// MergeFromDefault is as many coins as a payment does not spend unless it has to. A
	// merge shows everybody that they are of one owner, which a few coins are not worth.
	MergeFromDefault = 20

	// MergeMost is how many coins become one: half of what a slot may name, and no reason
	// for more, since another may follow.
	MergeMost = 100

	mergeTarget = 144 // blocks, a day: nobody waits for it
	// smallTimes is how many times its own spending in usual times a coin is worth that is
	// not small: what takes more than a hundredth of it.
	smallTimes = 100
)

// merges makes one coin of small ones.
type merges struct{ *adapter }

var _ chain.Merges = merges{}

// Price is what nodes estimate for a day, within the bounds of every rate. Where they
// estimate nothing it is not low: the least rate could be far from enough, and what is
// merged is not to be spent until it is mined. A local network has no such days.
func (m merges) Price(ctx context.Context) (chain.Fees, bool, error) {
	known, err := m.estimate(ctx, mergeTarget)
	if err != nil {
		return chain.Fees{}, false, fmt.Errorf("price of a merge on %s: %w", chain.Bitcoin, err)
	}
	rate := min(max(known, m.RateMin), m.RateMax)
	low := rate <= m.MergeRate && (known > 0 || m.Network == chain.Local)
	return chain.Fees{TipCap: money.Units(rate)}, low, nil
}

// Small goes from what spending a coin costs at the price to a hundred times of what it
// costs in usual times.
func (m merges) Small(price chain.Fees) (over, upto money.Amount) {
	size := bitcointx.Size(usualSpend)
	rate, _ := price.TipCap.Uint64()
	return money.Units(bitcointx.FeeOf(size, rate)), money.Units(smallTimes * bitcointx.FeeOf(size, m.RateUsual))
}

// Bounds implements chain.Merges.
func (m merges) Bounds() (least, most int) { return m.MergeFrom, MergeMost }

// Reach implements chain.Merges.
func (merges) Reach() int { return bitcointx.InputsMax }

// Merge names the slot of coins; all but the fee comes back.
func (m merges) Merge(coins []chain.Coin, change chain.Address, price chain.Fees) (string, chain.Fees, error) {
	lease, err := bitcointx.NewLease(m.Network, coins, change)
	var fees chain.Fees
	if err == nil {
		fees, err = bitcointx.Fit(m.Network, lease, nil, price)
	}
	if err == nil && m.CostMax.Less(fees.Beside) {
		err = fmt.Errorf("it would cost %v satoshi, and no more than %v are allowed", fees.Beside, m.CostMax)
	}
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("merge coins on %s: %w", chain.Bitcoin, err)
	}
	return lease.String(), fees, nil
}
