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
	"github.com/cofferpay/coffer/internal/chain/several"
	"github.com/cofferpay/coffer/internal/chain/solana/solanatx"
	"github.com/cofferpay/coffer/internal/money"
)

const (
	priceMinDefault = 10_000
	priceMaxDefault = 5_000_000
	priceLimit      = 1_000_000_000_000 // what costs more a unit is a mistake of the configuration
	costMaxDefault  = 10_000_000
	pricePercentile = 75

	// unitsSpare is added, with a quarter of what a simulation used, to its units: what
	// programs use differs a little with what accounts hold.
	unitsSpare = 5_000
	// unitsToken is what a transfer of a token uses when its receiver's account is there.
	unitsToken = 30_000
	// unitsCancel is more than advancing a nonce uses.
	unitsCancel = 5_000
)

// tried is what came of trying a payment out.
type tried struct {
	fees     chain.Fees
	reverted *chain.RevertedError
}

// Quote looks at the accounts of payments in two requests, tries them out on the newest
// state as one transaction and proposes its fees. They are tried out in a place that the
// payer has, with that nonce's own value, so what is run is what Build makes; a payer
// without one gets an error. Where several are refused because of one of them, the reason
// names that one.
//
// A payment of nothing from an account to itself is a cancel.
func (c *Client) Quote(ctx context.Context, ps ...chain.Payment) (chain.Fees, error) {
	err := c.together(ps)
	if len(ps) == 0 {
		err = errors.New("no payment")
	}
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", chain.Solana, err)
	}
	got, err := several.First(ctx, c.showing(), func(ctx context.Context, from *provider) (tried, error) {
		fees, err := c.quote(ctx, from, ps)
		var reverted *chain.RevertedError
		if errors.As(err, &reverted) {
			return tried{reverted: reverted}, nil // an answer, not a failure to give one
		}
		return tried{fees: fees}, err
	})
	if err != nil {
		return chain.Fees{}, fmt.Errorf("quote on %s: %w", chain.Solana, err)
	}
	if got.reverted != nil {
		return chain.Fees{}, got.reverted
	}
	return got.fees, nil
}

func refuse(cause chain.Cause, format string, args ...any) error {
	return &chain.RevertedError{Reason: fmt.Sprintf(format, args...), Cause: cause}
}

func (c *Client) mint(at chain.Address) (Mint, error) {
	m, ok := c.Mints[at]
	if !ok {
		return Mint{}, fmt.Errorf("token %.60q is none of the configured mints", string(at))
	}
	return m, nil
}

func (c *Client) quote(ctx context.Context, from *provider, ps []chain.Payment) (chain.Fees, error) {
	p := ps[0]
	payer := payerOf(p)
	if p.Place {
		return c.quotePlace(ctx, from, p)
	}
	if len(ps) == 1 && p.Contract == "" && p.Amount.IsZero() && p.From == p.To {
		price, err := c.market(ctx, from, payer)
		if err != nil {
			return chain.Fees{}, err
		}
		return c.fees(solanatx.Tx{Payer: payer, Limit: unitsCancel, Price: price})
	}
	look := c.look
	if p.Close {
		look = c.lookAtClosed
	}
	seen, err := look(ctx, from, ps)
	if err != nil {
		return chain.Fees{}, err
	}
	at, err := nonceAccounts(payer)
	if err != nil {
		return chain.Fees{}, err
	}
	leases, _, err := from.nonces(ctx, payer, at, confirmed)
	if err != nil {
		return chain.Fees{}, err
	}
	var t solanatx.Tx
	why := fmt.Errorf("%s: %s has no nonce account", from.name, payer)
	for _, has := range leases {
		if has.lease == "" {
			continue
		}
		if t, err = c.draft(payer, ps, has.lease); err != nil {
			return chain.Fees{}, err
		}
		if seen.creates {
			if t, err = makes(t, ps); err != nil {
				return chain.Fees{}, err
			}
		}
		// What the payer lacks is asked first: a program would say it in a way that lies with
		// the payee as well.
		if err = seen.affords(ps, t.MaxCost()); err != nil {
			return chain.Fees{}, err
		}
		var used uint64
		if used, why = from.simulate(ctx, t); why == nil {
			t.Limit = uint32(min(used+used/4+unitsSpare, solanatx.LimitMax))
			break
		}
		if !errors.Is(why, errNonceTaken) {
			break
		}
	}
	if why != nil {
		return chain.Fees{}, why
	}
	if t.Price, err = c.market(ctx, from, seen.written...); err != nil {
		return chain.Fees{}, err
	}
	fees, err := c.fees(t)
	if err != nil {
		return chain.Fees{}, err
	}
	return fees, seen.affords(ps, fees.Beside)
}

// fees are those of a transaction, which has to cost no more than is allowed.
func (c *Client) fees(t solanatx.Tx) (chain.Fees, error) {
	cost := t.MaxCost()
	if c.CostMax.Less(cost) {
		return chain.Fees{}, fmt.Errorf("it would cost up to %v lamports, and no more than %v are allowed", cost, c.CostMax)
	}
	return chain.Fees{GasLimit: uint64(t.Limit), TipCap: money.Units(t.Price), Beside: cost, Rent: t.Rent()}, nil
}

// market is what is offered for a unit now: more than most of the latest blocks asked of
// transactions that write the same accounts, within the bounds.
func (c *Client) market(ctx context.Context, p *provider, writes ...chain.Address) (uint64, error) {
	var recent []struct {
		Fee uint64 `json:"prioritizationFee"`
	}
	if writes == nil {
		writes = []chain.Address{}
	}
	if err := p.call(ctx, &recent, "getRecentPrioritizationFees", writes); err != nil {
		return 0, err
	}
	var price uint64
	if len(recent) > 0 {
		all := make([]uint64, len(recent))
		for i, r := range recent {
			all[i] = r.Fee
		}
		slices.Sort(all)
		price = all[(len(all)-1)*pricePercentile/100]
	}
	return min(max(price, c.PriceMin), c.PriceMax), nil
}

// TransferFees are those of a token's transfer to an account that is there, from an
// address whose fee another pays.
func (c *Client) TransferFees(ctx context.Context) (chain.Fees, error) {
	price, err := several.First(ctx, c.showing(), func(ctx context.Context, p *provider) (uint64, error) { return c.market(ctx, p) })
	if err != nil {
		return chain.Fees{}, fmt.Errorf("fees of a transfer on %s: %w", chain.Solana, err)
	}
	const signatures = 2
	return chain.Fees{
		GasLimit: unitsToken, TipCap: money.Units(price),
		Beside: money.Units(unitsCost(unitsToken, price) + signatures*solanatx.SignatureFee),
	}, nil
}

// errNonceTaken says that the nonce that a transaction was tried out with has another
// value now. It says nothing about the payment.
var errNonceTaken = errors.New("its nonce was taken meanwhile")

// simulate tries a transaction out on the newest state, with all the units there are,
// and tells how many it used. *chain.RevertedError is the chain's own no.
func (p *provider) simulate(ctx context.Context, t solanatx.Tx) (used uint64, err error) {
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
	var got weighed[*struct {
		Err   json.RawMessage `json:"err"`
		Logs  []string        `json:"logs"`
		Units *uint64         `json:"unitsConsumed"`
	}]
	if err := p.call(ctx, &got, method, base64.StdEncoding.EncodeToString(raw), options{
		"encoding": "base64", "sigVerify": false, "commitment": confirmed,
	}); err != nil {
		return 0, err
	}
	v := got.Value
	if v == nil || v.Err == nil {
		return 0, p.Said(method, errors.New("neither an error nor none"))
	}
	if string(v.Err) != "null" {
		return 0, blamed(len(t.Moves), culprit(t, signers, v.Err), p.failed(v.Err, v.Logs))
	}
	if v.Units == nil {
		return 0, p.Said(method, errors.New("no units"))
	}
	return *v.Units, nil
}

// failed reads why a simulation failed. What lies with the payer's coin, the nonce or the
// node is no word about the payment.
func (p *provider) failed(why json.RawMessage, logs []string) error {
	var name string
	if json.Unmarshal(why, &name) == nil {
		switch name {
		case "BlockhashNotFound":
			return fmt.Errorf("%s: %w", p.name, errNonceTaken)
		case "InvalidRentPayingAccount", "ProgramAccountNotFound":
			return refuse(chain.CauseUnknown, "the chain would refuse it: %s", several.Short(name))
		}
		return fmt.Errorf("%s: a simulation failed: %s", p.name, several.Short(name))
	}
	var in struct {
		Instruction []json.RawMessage `json:"InstructionError"`
		Rent        json.RawMessage   `json:"InsufficientFundsForRent"`
	}
	if err := json.Unmarshal(why, &in); err != nil || len(in.Instruction) != 2 && in.Rent == nil {
		return fmt.Errorf("%s: a simulation failed: %s", p.name, several.Short(string(why)))
	}
	if in.Rent != nil {
		return refuse(chain.CauseAmount, "an account of it would be left with less than the least that the chain allows")
	}
	if string(in.Instruction[0]) == "0" {
		return fmt.Errorf("%s: %w", p.name, errNonceTaken)
	}
	for _, line := range slices.Backward(logs) {
		if _, said, ok := strings.Cut(line, "Error: "); ok {
			return refuse(chain.CauseUnknown, "%s (%s)", several.Short(said), several.Short(string(in.Instruction[1])))
		}
	}
	return refuse(chain.CauseUnknown, "%s", several.Short(string(in.Instruction[1])))
}
