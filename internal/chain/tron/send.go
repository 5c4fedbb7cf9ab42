package tron

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

// Build encodes the transaction of a payment without a request to a node. A cancel transaction does
// not exist: the error is chain.ErrExpires.
func (c *Client) Build(account chain.Address, s chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	payload, err := c.buildPayload(account, s, fees, ps)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", chain.Tron, err)
	}
	return payload, nil
}

func (c *Client) buildPayload(
	account chain.Address, s chain.Slot, fees chain.Fees, ps []chain.Payment,
) ([]byte, error) {
	p, err := chain.SinglePayment(ps)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, chain.ErrExpires
	}
	slotRef, err := trontx.ParseSlotKey(s.Key)
	if err != nil {
		return nil, err
	}
	if slotRef.Owner != account {
		return nil, fmt.Errorf("%v is a slot of %s, not of %s", s, slotRef.Owner, account)
	}
	if !fees.FeeCap.IsZero() {
		return nil, fmt.Errorf("a fee cap of %v, although the cost is separate here", fees.FeeCap)
	}
	price, ok := fees.TipCap.Uint64()
	if !ok || fees.GasLimit > unitsMax || price > c.PriceMax {
		return nil, fmt.Errorf("%d units at %v sun are above the configuration", fees.GasLimit, fees.TipCap)
	}
	limit := uint64(0)
	if p.Contract != "" {
		limit = fees.GasLimit * price // each at most 10^9
	}
	t, err := trontx.NewTx(*p, slotRef, limit)
	if err != nil {
		return nil, err
	}
	if fees.NonGas.Less(money.Units(limit)) || c.CostMax.Less(fees.NonGas) {
		return nil, fmt.Errorf(
			"its energy can cost %d sun, the fees allow %v in all and the configuration %v", limit, fees.NonGas,
			c.CostMax,
		)
	}
	return t.Payload()
}

const codeKnown = "DUP_TRANSACTION_ERROR"

// Send sends the bytes to all providers at once. No answer of one provider proves that the
// transaction is not on its way: a provider that calls it expired may be ahead of the others.
func (c *Client) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	_, hash, err := trontx.DecodeSigned(raw)
	if err != nil {
		return chain.Unknown, "not sent, because it is not a transaction of this service: " +
			"" + quorum.TruncateAnswer(err.Error())
	}
	return quorum.SendToAll(ctx, c.providers, func(ctx context.Context, p *provider) (chain.Answer, error) {
		return p.sendTx(ctx, raw, hash)
	})
}

func (p *provider) sendTx(ctx context.Context, raw []byte, hash chain.TxHash) (chain.Answer, error) {
	const method = "broadcasthex"
	var got struct {
		OK      bool         `json:"result"`
		Code    string       `json:"code"`
		Message string       `json:"message"`
		Hash    chain.TxHash `json:"txid"`
	}
	if err := p.callMethod(
		ctx, &got, newest, method, requestParams{"transaction": hex.EncodeToString(raw)},
	); err != nil {
		return chain.Unknown, err
	}
	switch {
	case got.Hash != hash:
		return chain.Unknown, p.WrapError(method, fmt.Errorf("accepted %s for %.70q", hash, string(got.Hash)))
	case got.OK:
		return chain.Accepted, nil
	}
	err := p.WrapError(method, fmt.Errorf("%s: %s", got.Code, got.Message))
	if got.Code == codeKnown {
		return chain.Known, err
	}
	return chain.Unknown, err
}
