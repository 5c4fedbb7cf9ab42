package bitcoin

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/coinselect"
)

// pool chooses coins. It asks nobody.
type pool struct{ Config }

var _ chain.Pool = pool{}

// NewPool chooses coins by the network, the rates and the costs of a configuration, whose
// nodes are not needed for it.
func NewPool(cfg Config) chain.Pool { return pool{cfg.priced()} }

// Choose picks the coins of payments at the rate of a quote. What has change leaves
// enough of it to raise the rate by half, and what has none pays that at once: a slot
// takes no further coins. Where there is not so much, the rate itself has to do.
func (p pool) Choose(must, from []chain.Coin, change chain.Address, price chain.Fees, ps ...chain.Payment) (string, chain.Fees, error) {
	rate, ok := price.TipCap.Uint64()
	if !ok || rate > p.RateMax {
		return "", chain.Fees{}, fmt.Errorf("choose coins on %s: the rate of %v is above the configured %d", chain.Bitcoin, price.TipCap, p.RateMax)
	}
	o := coinselect.Order{
		Network: p.Network, Payments: ps, Must: must, Change: change,
		Rate: rate, Raised: min(rate+rate/2, p.RateMax), Usual: p.RateUsual,
	}
	c, err := coinselect.Select(o, from)
	if err != nil && o.Raised > rate {
		o.Raised = rate
		c, err = coinselect.Select(o, from)
	}
	if err == nil && p.CostMax.Less(c.Fees.Beside) {
		err = fmt.Errorf("it would cost %v satoshi, and no more than %v are allowed", c.Fees.Beside, p.CostMax)
	}
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("choose coins on %s: %w", chain.Bitcoin, err)
	}
	return c.Lease.String(), c.Fees, nil
}

// Spends are the coins of a lease.
func (p pool) Spends(lease string) ([]chain.Coin, error) {
	l, err := bitcointx.ParseLease(p.Network, lease)
	if err != nil {
		return nil, fmt.Errorf("read a slot of %s: %w", chain.Bitcoin, err)
	}
	return l.Coins, nil
}
