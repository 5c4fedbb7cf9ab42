package tron

import (
	"context"
	"errors"
	"fmt"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/tron/trontx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	// typicalEnergy is what a transfer of USDT uses when its payee has no USDT yet.
	typicalEnergy = 131_000
	// energyReserve is added to the energy of a trial, together with a quarter of it. A contract's
	// energy depends on what the accounts hold, and popular contracts cost more from hour to hour.
	energyReserve = 2_000
	// priceLimit is above every price that the chain ever had; a configured limit above it is a
	// mistake.
	priceLimit = 1_000_000_000
	// typicalBytes is more than the size of a token payment.
	typicalBytes = 420
)

// prices are the chain's current prices, in sun.
type prices struct{ energy, perByte, account, activation uint64 }

func (p *provider) readPrices(ctx context.Context) (prices, error) {
	const method = "getchainparameters"
	var got struct {
		All []struct {
			Key   string `json:"key"`
			Value int64  `json:"value"`
		} `json:"chainParameter"`
	}
	if err := p.callMethod(ctx, &got, newest, method, nil); err != nil {
		return prices{}, err
	}
	var current prices
	targets := map[string]*uint64{
		"getEnergyFee": &current.energy, "getTransactionFee": &current.perByte, "getCreateAccountFee": &current.account,
		"getCreateNewAccountFeeInSystemContract": &current.activation,
	}
	for _, a := range got.All {
		if target := targets[a.Key]; target != nil && a.Value > 0 && a.Value <= priceLimit {
			*target = uint64(a.Value)
			delete(targets, a.Key)
		}
	}
	if len(targets) > 0 {
		return prices{}, p.WrapError(method, fmt.Errorf("%d of the prices are missing", len(targets)))
	}
	return current, nil
}

// quoteResult is the result of trying a payment out.
type quoteResult struct {
	fees     chain.Fees
	reverted *chain.RevertedError
}

// BatchSize returns one: a transaction makes one payment.
func (c *Client) BatchSize([]chain.Payment) int { return 1 }

// Quote reads the accounts of a payment, tries out the call of a token, and proposes fees:
//
//   - For a token they are units of energy (GasLimit) at the chain's price (TipCap). Their product
//     is the transaction's fee limit.
//   - For TRX they are bytes at the price of a byte.
//   - NonGas is all that the transaction may cost, as if the account had no bandwidth or energy of
//     its own. It includes the activation of a new account.
//
// Quote ignores what a token's transfer returns: that of USDT returns false when it succeeds. The
// log and the balances show whether it moved anything.
func (c *Client) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	if len(ps) != 1 {
		return chain.Fees{}, fmt.Errorf("quote on %s: %d payments, and a transaction makes one", chain.Tron, len(ps))
	}
	got, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (quoteResult, error) {
			fees, err := c.quotePayment(ctx, p, ps[0])
			var reverted *chain.RevertedError
			if errors.As(err, &reverted) {
				return quoteResult{reverted: reverted}, nil // an answer, not a failure to give one
			}
			return quoteResult{fees: fees}, err
		})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", chain.Tron, err)
	}
	if got.reverted != nil {
		return chain.Fees{}, got.reverted
	}
	return got.fees, nil
}

func newRefusal(cause chain.Cause, format string, args ...any) error {
	return &chain.RevertedError{Reason: fmt.Sprintf(format, args...), Cause: cause}
}

func (c *Client) quotePayment(ctx context.Context, p *provider, pay chain.Payment) (chain.Fees, error) {
	if (trontx.AddressCodec{}).IsUnspendable(pay.To) {
		return chain.Fees{}, newRefusal(
			chain.CausePayee, "the key of %s has no holder: a payment to it is lost", pay.To,
		)
	}
	current, err := p.readPrices(ctx)
	if err != nil {
		return chain.Fees{}, err
	}
	payer, err := p.readAccount(ctx, newest, pay.From)
	if err != nil {
		return chain.Fees{}, err
	}
	if payer.Address == "" {
		return chain.Fees{}, fmt.Errorf("%s is not an account of the chain yet: it has to receive TRX first", pay.From)
	}
	var fees chain.Fees
	left := money.Units(uint64(payer.Balance))
	if pay.Contract == "" {
		if left, err = left.Sub(pay.Amount); err != nil {
			return chain.Fees{}, newRefusal(
				chain.CauseFunds, "%s has %d sun, less than the amount", pay.From, payer.Balance,
			)
		}
		fees, err = c.quoteNative(ctx, p, pay, current)
	} else {
		fees, err = c.quoteToken(ctx, p, pay, current)
	}
	if err != nil {
		return chain.Fees{}, err
	}
	if left.Less(fees.NonGas) { // the account may get more, so this does not refuse the payment
		return chain.Fees{}, fmt.Errorf("%s would have %v sun for a fee of up to %v", pay.From, left, fees.NonGas)
	}
	return fees, nil
}

// quoteNative returns the fees of a transfer of TRX.
func (c *Client) quoteNative(ctx context.Context, p *provider, pay chain.Payment, current prices) (chain.Fees, error) {
	isContract, err := p.isContract(ctx, pay.To)
	if err != nil {
		return chain.Fees{}, err
	}
	if isContract {
		return chain.Fees{}, newRefusal(
			chain.CausePayee, "%s is a contract, and the chain makes no plain transfers to contracts", pay.To,
		)
	}
	payee, err := p.readAccount(ctx, newest, pay.To)
	if err != nil {
		return chain.Fees{}, err
	}
	if payee.Address == "" {
		return c.boundedFees(typicalBytes, current.perByte, current.account, current.activation)
	}
	return c.boundedFees(typicalBytes, current.perByte)
}

// quoteToken returns the fees of a call of a token's transfer.
func (c *Client) quoteToken(ctx context.Context, p *provider, pay chain.Payment, current prices) (chain.Fees, error) {
	if pay.To == pay.Contract {
		return chain.Fees{}, newRefusal(chain.CausePayee, "%s is the token's own contract", pay.To)
	}
	held, silent, err := p.readTokenBalance(ctx, newest, chain.Holding{Address: pay.From, Contract: pay.Contract})
	switch {
	case err != nil:
		return chain.Fees{}, err
	case silent != "":
		return chain.Fees{}, newRefusal(chain.CauseAccount, "the token returns no balance: %s", silent)
	case held.Less(pay.Amount):
		return chain.Fees{}, newRefusal(
			chain.CauseFunds, "%s has %v of the token, less than the amount", pay.From, held,
		)
	}
	payeeWord, err := trontx.Word(pay.To)
	if err != nil {
		return chain.Fees{}, err
	}
	got, err := p.tryCall(
		ctx, newest, pay.From, pay.Contract, "transfer(address,uint256)", payeeWord, pay.Amount.Uint256().Bytes32(),
	)
	if err != nil {
		return chain.Fees{}, err
	}
	reason, err := got.explainFailure()
	if err != nil {
		return chain.Fees{}, p.WrapError("transfer", err)
	}
	if reason != "" {
		return chain.Fees{}, newRefusal(chain.CauseUnknown, "%s", reason)
	}
	if got.Energy == 0 || got.Energy > unitsMax/2 {
		return chain.Fees{}, p.WrapError("transfer", fmt.Errorf("a simulation that used %d energy", got.Energy))
	}
	return c.boundedFees(got.Energy+got.Energy/4+energyReserve, current.energy, typicalBytes*current.perByte)
}

// unitsMax is more energy than a transaction can use.
const unitsMax = 1_000_000_000

// boundedFees returns the fees for so many units at a price, with extra costs. Error: they exceed
// the configured limits.
func (c *Client) boundedFees(units, price uint64, extras ...uint64) (chain.Fees, error) {
	if price > c.PriceMax {
		return chain.Fees{}, fmt.Errorf("a unit costs %d sun, and at most %d are paid", price, c.PriceMax)
	}
	cost, err := money.Units(price).Mul(units)
	for _, extra := range extras {
		if err == nil {
			cost, err = cost.Add(money.Units(extra))
		}
	}
	if err != nil {
		return chain.Fees{}, err
	}
	if c.CostMax.Less(cost) {
		return chain.Fees{}, fmt.Errorf("it would cost up to %v sun, and at most %v are allowed", cost, c.CostMax)
	}
	return chain.Fees{GasLimit: units, TipCap: money.Units(price), NonGas: cost}, nil
}

// TransferFees returns the fees of a token transfer to a payee that has none of the token.
func (c *Client) TransferFees(ctx context.Context) (chain.Fees, error) {
	fees, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (chain.Fees, error) {
			current, err := p.readPrices(ctx)
			if err != nil {
				return chain.Fees{}, err
			}
			return c.boundedFees(typicalEnergy, current.energy, typicalBytes*current.perByte)
		})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer on %s: %w", chain.Tron, err)
	}
	return fees, nil
}

// Bump offers nothing: a replacement would be mined in addition to the transaction that it
// replaces.
func (c *Client) Bump(context.Context, chain.Fees) (chain.Fees, bool, error) {
	return chain.Fees{}, false, nil
}
