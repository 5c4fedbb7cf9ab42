package tron

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

// Build encodes the transaction of a payment; it asks nobody. There is no cancel: that is
// chain.ErrExpires.
func (c *Client) Build(account chain.Address, s chain.Slot, fees chain.Fees, ps ...chain.Payment) ([]byte, error) {
	payload, err := c.build(account, s, fees, ps)
	if err != nil {
		return nil, fmt.Errorf("build on %s: %w", chain.Tron, err)
	}
	return payload, nil
}

func (c *Client) build(account chain.Address, s chain.Slot, fees chain.Fees, ps []chain.Payment) ([]byte, error) {
	p, err := chain.Only(ps)
	if err != nil {
		return nil, err
	}
	if p == nil {
		return nil, chain.ErrExpires
	}
	at, err := trontx.ParseLease(s.Lease)
	if err != nil {
		return nil, err
	}
	if at.Owner != account {
		return nil, fmt.Errorf("%v is a place of %s, not of %s", s, at.Owner, account)
	}
	if !fees.FeeCap.IsZero() {
		return nil, fmt.Errorf("a fee cap of %v, and what it may cost stands beside it here", fees.FeeCap)
	}
	price, ok := fees.TipCap.Uint64()
	if !ok || fees.GasLimit > unitsMax || price > c.PriceMax {
		return nil, fmt.Errorf("%d units at %v sun are above what is configured", fees.GasLimit, fees.TipCap)
	}
	limit := uint64(0)
	if p.Contract != "" {
		limit = fees.GasLimit * price // each at most 10^9
	}
	t, err := trontx.Of(*p, at, limit)
	if err != nil {
		return nil, err
	}
	if fees.Beside.Less(money.Units(limit)) || c.CostMax.Less(fees.Beside) {
		return nil, fmt.Errorf("its energy may cost %d sun, the fees allow %v in all and the configuration %v", limit, fees.Beside, c.CostMax)
	}
	return t.Payload()
}

const codeKnown = "DUP_TRANSACTION_ERROR"

// Send gives the bytes to all providers at once. Nothing that one of them says proves that
// the transaction is not out: one that calls it expired may be ahead of the others.
func (c *Client) Send(ctx context.Context, raw []byte) (chain.Answer, string) {
	_, hash, err := trontx.Open(raw)
	if err != nil {
		return chain.Unknown, "not sent, since it is no transaction of ours: " + several.Short(err.Error())
	}
	return several.Send(ctx, c.providers, func(ctx context.Context, p *provider) (chain.Answer, error) {
		return p.send(ctx, raw, hash)
	})
}

func (p *provider) send(ctx context.Context, raw []byte, hash chain.TxHash) (chain.Answer, error) {
	const method = "broadcasthex"
	var got struct {
		OK      bool         `json:"result"`
		Code    string       `json:"code"`
		Message string       `json:"message"`
		Hash    chain.TxHash `json:"txid"`
	}
	if err := p.ask(ctx, &got, newest, method, args{"transaction": hex.EncodeToString(raw)}); err != nil {
		return chain.Unknown, err
	}
	switch {
	case got.Hash != hash:
		return chain.Unknown, p.Said(method, fmt.Errorf("took %s for %.70q", hash, string(got.Hash)))
	case got.OK:
		return chain.Accepted, nil
	}
	err := p.Said(method, fmt.Errorf("%s: %s", got.Code, got.Message))
	if got.Code == codeKnown {
		return chain.Known, err
	}
	return chain.Unknown, err
}
