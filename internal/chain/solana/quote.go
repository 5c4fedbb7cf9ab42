package solana

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/chain/quorum"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	priceMinDefault = 10_000
	priceMaxDefault = 5_000_000
	priceLimit      = 1_000_000_000_000 // a higher price per unit is a mistake of the configuration
	costMaxDefault  = 10_000_000
	pricePercentile = 75

	// unitsReserve is added to the units of a simulation, with a quarter of them: what programs use
	// differs a little with what accounts hold.
	unitsReserve = 5_000
	// unitsToken is what a token transfer uses if its receiver's account exists.
	unitsToken = 30_000
	// unitsCancel is more than an advance of a nonce uses.
	unitsCancel = 5_000
)

// quoteResult is the result of a simulated payment.
type quoteResult struct {
	fees     chain.Fees
	reverted *chain.RevertedError
}

// Quote reads the accounts of payments in two requests, simulates the payments on the newest state
// as one transaction, and proposes its fees. The simulation uses a nonce account of the payer with
// its own value, so it runs what Build makes. A payer without a nonce account gets an error. If
// several payments are refused because of one of them, the reason names that one.
//
// A payment of nothing from an account to itself is a cancel.
func (c *Client) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	err := c.checkBatch(ps)
	if len(ps) == 0 {
		err = errors.New("no payment")
	}
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", chain.Solana, err)
	}
	got, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, node *provider) (quoteResult, error) {
			fees, err := c.quotePayments(ctx, node, ps)
			var reverted *chain.RevertedError
			if errors.As(err, &reverted) {
				return quoteResult{reverted: reverted}, nil // an answer, not a failure to give one
			}
			return quoteResult{fees: fees}, err
		})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", chain.Solana, err)
	}
	if got.reverted != nil {
		return chain.Fees{}, got.reverted
	}
	return got.fees, nil
}

func newRefusal(cause chain.Cause, format string, args ...any) error {
	return &chain.RevertedError{Reason: fmt.Sprintf(format, args...), Cause: cause}
}

func (c *Client) configuredMint(address chain.Address) (Mint, error) {
	m, ok := c.Mints[address]
	if !ok {
		return Mint{}, fmt.Errorf("token %.60q is not one of the configured mints", string(address))
	}
	return m, nil
}

func (c *Client) quotePayments(ctx context.Context, node *provider, ps []chain.Payment) (chain.Fees, error) {
	p := ps[0]
	payer := feePayer(p)
	if p.CreatesNonceAccount {
		return c.quoteCreation(ctx, node, p)
	}
	if len(ps) == 1 && p.Contract == "" && p.Amount.IsZero() && p.From == p.To {
		price, err := c.marketPrice(ctx, node, payer)
		if err != nil {
			return chain.Fees{}, err
		}
		return c.boundedFees(solanatx.Tx{Payer: payer, Limit: unitsCancel, Price: price})
	}
	inspect := c.inspectAccounts
	switch {
	case p.ClosesTokenAccount:
		inspect = c.inspectCloses
	case p.CreatesTokenAccount:
		inspect = c.inspectCreation
	}
	accounts, err := inspect(ctx, node, ps)
	if err != nil {
		return chain.Fees{}, err
	}
	addresses, err := nonceAccounts(payer)
	if err != nil {
		return chain.Fees{}, err
	}
	states, _, err := node.readNonces(ctx, payer, addresses, confirmed)
	if err != nil {
		return chain.Fees{}, err
	}
	var t solanatx.Tx
	simulateErr := fmt.Errorf("%s: %s has no nonce account", node.name, payer)
	for _, state := range states {
		if state.slotKey == "" {
			continue
		}
		if t, err = c.draftTx(payer, ps, state.slotKey); err != nil {
			return chain.Fees{}, err
		}
		if accounts.createsAccount {
			if t, err = withTokenAccounts(t, ps); err != nil {
				return chain.Fees{}, err
			}
		}
		// The payer's funds are checked first: a program would report their lack in a way that may
		// as well be about the payee.
		if err = accounts.checkAffordable(ps, t.MaxCost()); err != nil {
			return chain.Fees{}, err
		}
		var used uint64
		if used, simulateErr = node.simulateTx(ctx, t); simulateErr == nil {
			t.Limit = uint32(min(used+used/4+unitsReserve, solanatx.LimitMax))
			break
		}
		if !errors.Is(simulateErr, errNonceTaken) {
			break
		}
	}
	if simulateErr != nil {
		return chain.Fees{}, simulateErr
	}
	if t.Price, err = c.marketPrice(ctx, node, accounts.writtenAccounts...); err != nil {
		return chain.Fees{}, err
	}
	fees, err := c.boundedFees(t)
	if err != nil {
		return chain.Fees{}, err
	}
	return fees, accounts.checkAffordable(ps, fees.NonGas)
}

// boundedFees returns the fees of a transaction. Error: it costs more than is allowed.
func (c *Client) boundedFees(t solanatx.Tx) (chain.Fees, error) {
	cost := t.MaxCost()
	if c.CostMax.Less(cost) {
		return chain.Fees{}, fmt.Errorf("it would cost up to %v lamports, and at most %v are allowed", cost,
			c.CostMax)
	}
	return chain.Fees{GasLimit: uint64(t.Limit), TipCap: money.Units(t.Price), NonGas: cost, Rent: t.Rent()}, nil
}

// marketPrice returns the price that is offered for a unit now, within the bounds: more than most
// of the latest blocks required of transactions that write the same accounts.
func (c *Client) marketPrice(ctx context.Context, p *provider, writes ...chain.Address) (uint64, error) {
	var recent []struct {
		Fee uint64 `json:"prioritizationFee"`
	}
	if writes == nil {
		writes = []chain.Address{}
	}
	if err := p.callMethod(ctx, &recent, "getRecentPrioritizationFees", writes); err != nil {
		return 0, err
	}
	var price uint64
	if len(recent) > 0 {
		prices := make([]uint64, len(recent))
		for i, r := range recent {
			prices[i] = r.Fee
		}
		slices.Sort(prices)
		price = prices[(len(prices)-1)*pricePercentile/100]
	}
	return min(max(price, c.PriceMin), c.PriceMax), nil
}

// TransferFees returns the fees of a token transfer to an existing account, from an address whose
// fee another account pays.
func (c *Client) TransferFees(ctx context.Context) (chain.Fees, error) {
	price, err := quorum.FirstAnswer(ctx, c.providersByTrust(),
		func(ctx context.Context, p *provider) (uint64, error) {
			return c.marketPrice(ctx, p)
		})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer on %s: %w", chain.Solana, err)
	}
	const signatures = 2
	return chain.Fees{
		GasLimit: unitsToken, TipCap: money.Units(price),
		NonGas: money.Units(unitsCost(unitsToken, price) + signatures*solanatx.SignatureFee),
	}, nil
}

// errNonceTaken says that the nonce with which a transaction was simulated has another value now.
// It says nothing about the payment.
var errNonceTaken = errors.New("its nonce was used in the meantime")

// simulateTx simulates a transaction on the newest state, with the maximum of units, and returns
// how many it used. *chain.RevertedError is the chain's own refusal.
func (p *provider) simulateTx(ctx context.Context, t solanatx.Tx) (used uint64, err error) {
	const method = "simulateTransaction"
	t.Limit, t.Price = solanatx.LimitMax, 0
	payload, err := t.Payload()
	if err != nil {
		return 0, err
	}
	signers, err := solanatx.Signers(payload)
	if err != nil {
		return 0, err
	}
	raw := append([]byte{byte(len(signers))}, make([]byte, 64*len(signers))...)
	raw = append(raw, payload...)
	var got contextResponse[*struct {
		Err   json.RawMessage `json:"err"`
		Logs  []string        `json:"logs"`
		Units *uint64         `json:"unitsConsumed"`
	}]
	if err := p.callMethod(ctx, &got, method, base64.StdEncoding.EncodeToString(raw), options{
		"encoding": "base64", "sigVerify": false, "commitment": confirmed,
	}); err != nil {
		return 0, err
	}
	v := got.Value
	if v == nil || v.Err == nil {
		return 0, p.WrapError(method, errors.New("neither an error nor a success"))
	}
	if string(v.Err) != "null" {
		return 0, namePayment(len(t.Moves), failedMove(t, signers, v.Err), p.explainFailure(v.Err, v.Logs))
	}
	if v.Units == nil {
		return 0, p.WrapError(method, errors.New("no units"))
	}
	return *v.Units, nil
}

// explainFailure decodes why a simulation failed. A failure because of the payer's coin, the nonce
// or the node is no refusal of the payment.
func (p *provider) explainFailure(failure json.RawMessage, logs []string) error {
	var name string
	if json.Unmarshal(failure, &name) == nil {
		switch name {
		case "BlockhashNotFound":
			return fmt.Errorf("%s: %w", p.name, errNonceTaken)
		case "InvalidRentPayingAccount", "ProgramAccountNotFound":
			return newRefusal(chain.CauseUnknown, "the chain would refuse it: %s", quorum.TruncateAnswer(name))
		}
		return fmt.Errorf("%s: a simulation failed: %s", p.name, quorum.TruncateAnswer(name))
	}
	var detail struct {
		Instruction []json.RawMessage `json:"InstructionError"`
		Rent        json.RawMessage   `json:"InsufficientFundsForRent"`
	}
	if err := json.Unmarshal(failure, &detail); err != nil || len(detail.Instruction) != 2 && detail.Rent == nil {
		return fmt.Errorf("%s: a simulation failed: %s", p.name, quorum.TruncateAnswer(string(failure)))
	}
	if detail.Rent != nil {
		return newRefusal(chain.CauseAmount,
			"one of its accounts would keep less than its minimum balance")
	}
	if string(detail.Instruction[0]) == "0" {
		return fmt.Errorf("%s: %w", p.name, errNonceTaken)
	}
	for _, line := range slices.Backward(logs) {
		if _, message, ok := strings.Cut(line, "Error: "); ok {
			return newRefusal(chain.CauseUnknown, "%s (%s)", quorum.TruncateAnswer(message),
				quorum.TruncateAnswer(string(detail.Instruction[1])))
		}
	}
	return newRefusal(chain.CauseUnknown, "%s", quorum.TruncateAnswer(string(detail.Instruction[1])))
}
