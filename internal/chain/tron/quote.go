package tron

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// energyUsual is what a transfer of USDT uses when its receiver has none of it yet.
	energyUsual = 131_000
	// energySpare is added, with a quarter of what a trial used, to its energy: what a
	// contract uses differs with what accounts hold, and popular ones cost more by the hour.
	energySpare = 2_000
	// priceLimit is above every price that the chain ever had; one above it is a mistake.
	priceLimit = 1_000_000_000
	// bytesUsual is more than a payment of a token has.
	bytesUsual = 420
)

// prices are what the chain takes now, in sun.
type prices struct{ energy, perByte, account, activation uint64 }

func (p *provider) prices(ctx context.Context) (prices, error) {
	const method = "getchainparameters"
	var got struct {
		All []struct {
			Key   string `json:"key"`
			Value int64  `json:"value"`
		} `json:"chainParameter"`
	}
	if err := p.ask(ctx, &got, newest, method, nil); err != nil {
		return prices{}, err
	}
	var now prices
	into := map[string]*uint64{
		"getEnergyFee": &now.energy, "getTransactionFee": &now.perByte, "getCreateAccountFee": &now.account,
		"getCreateNewAccountFeeInSystemContract": &now.activation,
	}
	for _, a := range got.All {
		if to := into[a.Key]; to != nil && a.Value > 0 && a.Value <= priceLimit {
			*to = uint64(a.Value)
			delete(into, a.Key)
		}
	}
	if len(into) > 0 {
		return prices{}, p.Said(method, fmt.Errorf("%d of the prices are missing", len(into)))
	}
	return now, nil
}

// tried is what came of trying a payment out.
type tried struct {
	fees     chain.Fees
	reverted *chain.RevertedError
}

// Fits is one: a transaction makes one payment.
func (c *Client) Fits([]chain.Payment) int { return 1 }

// Quote looks at the accounts of a payment, has a call of a token tried out, and proposes
// its fees: for a token units of energy (GasLimit) at the chain's price (TipCap), which
// together are the transaction's fee limit; for TRX bytes at theirs. Beside is all that the
// transaction may cost, as if the account had no bandwidth or energy of its own. A new
// account has to be activated, which is more.
//
// What a token's transfer returns is not looked at: that of USDT returns false when it
// succeeds. That it moved something shows in its log and in balances.
func (c *Client) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	if len(ps) != 1 {
		return chain.Fees{}, fmt.Errorf("quote on %s: %d payments, and a transaction makes one", chain.Tron, len(ps))
	}
	got, err := several.First(ctx, c.showing(), func(ctx context.Context, p *provider) (tried, error) {
		fees, err := c.quote(ctx, p, ps[0])
		var reverted *chain.RevertedError
		if errors.As(err, &reverted) {
			return tried{reverted: reverted}, nil // an answer, not a failure to give one
		}
		return tried{fees: fees}, err
	})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", chain.Tron, err)
	}
	if got.reverted != nil {
		return chain.Fees{}, got.reverted
	}
	return got.fees, nil
}

func refuse(cause chain.Cause, format string, args ...any) error {
	return &chain.RevertedError{Reason: fmt.Sprintf(format, args...), Cause: cause}
}

func (c *Client) quote(ctx context.Context, p *provider, pay chain.Payment) (chain.Fees, error) {
	if (trontx.Grammar{}).Burns(pay.To) {
		return chain.Fees{}, refuse(chain.CausePayee, "nobody holds a key of %s: what is sent there is lost", pay.To)
	}
	now, err := p.prices(ctx)
	if err != nil {
		return chain.Fees{}, err
	}
	payer, err := p.account(ctx, newest, pay.From)
	if err != nil {
		return chain.Fees{}, err
	}
	if payer.Address == "" {
		return chain.Fees{}, fmt.Errorf("%s is no account of the chain yet: it has to get TRX first", pay.From)
	}
	var fees chain.Fees
	left := money.Units(uint64(payer.Balance))
	if pay.Contract == "" {
		if left, err = left.Sub(pay.Amount); err != nil {
			return chain.Fees{}, refuse(chain.CauseFunds, "%s has %d sun, less than the amount", pay.From, payer.Balance)
		}
		fees, err = c.coin(ctx, p, pay, now)
	} else {
		fees, err = c.token(ctx, p, pay, now)
	}
	if err != nil {
		return chain.Fees{}, err
	}
	if left.Less(fees.Beside) { // it may get more, so it is no word about the payment
		return chain.Fees{}, fmt.Errorf("%s would have %v sun for a fee of up to %v", pay.From, left, fees.Beside)
	}
	return fees, nil
}

// coin are the fees of a transfer of TRX.
func (c *Client) coin(ctx context.Context, p *provider, pay chain.Payment, now prices) (chain.Fees, error) {
	programmed, err := p.contract(ctx, pay.To)
	if err != nil {
		return chain.Fees{}, err
	}
	if programmed {
		return chain.Fees{}, refuse(chain.CausePayee, "%s is a contract, and the chain makes no plain transfers to those", pay.To)
	}
	to, err := p.account(ctx, newest, pay.To)
	if err != nil {
		return chain.Fees{}, err
	}
	if to.Address == "" {
		return c.fees(bytesUsual, now.perByte, now.account, now.activation)
	}
	return c.fees(bytesUsual, now.perByte)
}

// token are the fees of a call of a token's transfer.
func (c *Client) token(ctx context.Context, p *provider, pay chain.Payment, now prices) (chain.Fees, error) {
	if pay.To == pay.Contract {
		return chain.Fees{}, refuse(chain.CausePayee, "%s is the token's own contract", pay.To)
	}
	held, silent, err := p.tokens(ctx, newest, chain.Holding{Address: pay.From, Contract: pay.Contract})
	switch {
	case err != nil:
		return chain.Fees{}, err
	case silent != "":
		return chain.Fees{}, refuse(chain.CauseAccount, "the token gives no balance: %s", silent)
	case held.Less(pay.Amount):
		return chain.Fees{}, refuse(chain.CauseFunds, "%s has %v of the token, less than the amount", pay.From, held)
	}
	to, err := trontx.Word(pay.To)
	if err != nil {
		return chain.Fees{}, err
	}
	got, err := p.try(ctx, newest, pay.From, pay.Contract, "transfer(address,uint256)", to, pay.Amount.Uint256().Bytes32())
	if err != nil {
		return chain.Fees{}, err
	}
	why, err := got.failed()
	if err != nil {
		return chain.Fees{}, p.Said("transfer", err)
	}
	if why != "" {
		return chain.Fees{}, refuse(chain.CauseUnknown, "%s", why)
	}
	if got.Energy == 0 || got.Energy > unitsMax/2 {
		return chain.Fees{}, p.Said("transfer", fmt.Errorf("a trial that used %d energy", got.Energy))
	}
	return c.fees(got.Energy+got.Energy/4+energySpare, now.energy, bytesUsual*now.perByte)
}

// unitsMax is more energy than a transaction can use.
const unitsMax = 1_000_000_000

// fees are so many units at a price, and what comes on top.
func (c *Client) fees(units, price uint64, top ...uint64) (chain.Fees, error) {
	if price > c.PriceMax {
		return chain.Fees{}, fmt.Errorf("a unit costs %d sun, and no more than %d are paid", price, c.PriceMax)
	}
	cost, err := money.Units(price).Mul(units)
	for _, more := range top {
		if err == nil {
			cost, err = cost.Add(money.Units(more))
		}
	}
	if err != nil {
		return chain.Fees{}, err
	}
	if c.CostMax.Less(cost) {
		return chain.Fees{}, fmt.Errorf("it would cost up to %v sun, and no more than %v are allowed", cost, c.CostMax)
	}
	return chain.Fees{GasLimit: units, TipCap: money.Units(price), Beside: cost}, nil
}

// TransferFees are those of a transfer of a token to somebody who has none of it.
func (c *Client) TransferFees(ctx context.Context) (chain.Fees, error) {
	fees, err := several.First(ctx, c.showing(), func(ctx context.Context, p *provider) (chain.Fees, error) {
		now, err := p.prices(ctx)
		if err != nil {
			return chain.Fees{}, err
		}
		return c.fees(energyUsual, now.energy, bytesUsual*now.perByte)
	})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer on %s: %w", chain.Tron, err)
	}
	return fees, nil
}

// Bump offers nothing: what would replace a transaction would be mined beside it.
func (c *Client) Bump(context.Context, chain.Fees) (chain.Fees, bool, error) {
	return chain.Fees{}, false, nil
}
