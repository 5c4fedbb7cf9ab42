package bitcoin

import (
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/bitcointx"
	"github.com/cofferpay/coffer/internal/chain/bitcoin/coinselect"
)

// utxoModel selects outputs. It asks no node.
type utxoModel struct{ Config }

var _ chain.UTXOModel = utxoModel{}

// NewUTXOModel returns the coin selection for the network, the rates and the costs of a
// configuration. It does not use the configuration's nodes.
func NewUTXOModel(cfg Config) chain.UTXOModel { return utxoModel{cfg.withDefaults()} }

// SelectOutputs picks the inputs of payments at a quoted rate. A transaction with change keeps
// enough of it to raise the rate by half. One without change pays the raised rate at once, because
// a slot gets no further inputs. If the outputs do not suffice for that, the rate itself applies.
func (p utxoModel) SelectOutputs(
	required, available []chain.Output, change chain.Address, price chain.Fees, ps ...chain.Payment,
) (string, chain.Fees, error) {
	rate, ok := price.TipCap.Uint64()
	if !ok || rate > p.RateMax {
		return "", chain.Fees{}, fmt.Errorf("choose outputs on %s: the rate of %v is above the configured %d",
			chain.Bitcoin, price.TipCap, p.RateMax)
	}
	o := coinselect.Request{
		Network: p.Network, Payments: ps, Required: required, Change: change,
		Rate: rate, RaisedRate: min(rate+rate/2, p.RateMax), UsualRate: p.UsualRate,
	}
	c, err := coinselect.Select(o, available)
	if err != nil && o.RaisedRate > rate {
		o.RaisedRate = rate
		c, err = coinselect.Select(o, available)
	}
	if err == nil && p.CostMax.Less(c.Fees.NonGas) {
		err = fmt.Errorf("it would cost %v satoshi, and at most %v are allowed", c.Fees.NonGas, p.CostMax)
	}
	if err != nil {
		return "", chain.Fees{}, fmt.Errorf("choose outputs on %s: %w", chain.Bitcoin, err)
	}
	return c.SlotKey.String(), c.Fees, nil
}

// Inputs returns the outputs of a slot key.
func (p utxoModel) Inputs(slotKey string) ([]chain.Output, error) {
	l, err := bitcointx.ParseSlotKey(p.Network, slotKey)
	if err != nil {
		return nil, fmt.Errorf("read a slot of %s: %w", chain.Bitcoin, err)
	}
	return l.Inputs, nil
}
