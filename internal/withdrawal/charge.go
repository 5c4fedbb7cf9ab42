package withdrawal

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/org"
	"github.com/cofferpay/coffer/internal/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
	"github.com/cofferpay/coffer/webhook"
)

// charging is what is known of the costs that a request's customer pays.
type charging struct {
	asked  bool // what follows was collected: the organization charged costs a moment ago
	native mint.Mint
	coin   *price.Quote  // of the chain's own coin; nil: none that is fresh
	token  *price.Quote  // of the mint; nil: none that is fresh
	rent   *money.Amount // the most that stays in an account made for the payee; nil: unknown
	fee    *money.Amount // the most that the network takes of a payment that it refuses; nil: the chain does not say

	uncapped bool // it is an estimate of no amount, which a failure could use up

	costs org.ChargedCosts // what the organization charges, as the transaction sees it
	charge
	why string // what a charge that cannot be computed lacks, or ""
}

// charge is what a withdrawal's customer may be charged, by the setting and the prices of
// its request. It is written with the withdrawal and stays.
type charge struct {
	rent       money.Amount  // the most rent that is charged, in units of the chain's own coin
	held       money.Amount  // the same in units of the mint: held beside the amount
	failureMax *money.Amount // the most that a payment which fails is charged, out of what is held; nil: nothing
	coinPrice  *money.USD    // nil, both, where nothing had to be converted
	mintPrice  *money.USD
}

// setting is what the organization charges.
func (c charging) setting() org.ChargedCosts { return cmp.Or(c.costs, org.ChargeNone) }

// weigh computes what a request's customer may be charged.
func (f *facts) weigh() {
	c := &f.charging
	c.charge, c.why = charge{}, ""
	switch {
	case c.setting() == org.ChargeNone || f.owner.customerID == "":
		return
	case !c.asked:
		c.why = "the organization has changed chargeCustomerCosts this moment"
		return
	case c.rent == nil:
		c.why = "the chain does not say what an account for the payee costs"
		return
	}
	failures := c.costs == org.ChargeRentAndFailures && !f.mint.Chain.Pooled() // coins are spent or not: nothing fails there
	if failures && c.fee == nil {
		c.why = "the chain does not say what the network fee would be"
		return
	}
	if f.mint.Kind != mint.Native && (failures || !c.rent.IsZero()) {
		if c.coin == nil || c.token == nil {
			c.why = "the chain's own coin or the token has no fresh price"
			return
		}
		c.coinPrice, c.mintPrice = &c.coin.Price, &c.token.Price
	}
	into := func(cost money.Amount) (money.Amount, error) {
		return c.into(cost, c.native.Decimals, f.mint.Decimals)
	}
	held, err := into(*c.rent)
	if err == nil {
		c.charge.rent, c.held = *c.rent, held
	}
	if err == nil && failures {
		var most, all money.Amount
		if most, err = into(*c.fee); err == nil {
			all, err = f.amount.Add(held)
		}
		if !c.uncapped {
			most = smaller(most, all)
		}
		c.failureMax = &most
	}
	if err != nil {
		c.charge, c.why = charge{}, "it is more than any amount can be, or a price is zero"
	}
}

// into is what a cost in the chain's own coin is in units of the mint, rounded up.
func (c charge) into(cost money.Amount, coinDecimals, decimals int) (money.Amount, error) {
	if c.coinPrice == nil || cost.IsZero() {
		return cost, nil
	}
	return money.Convert(cost, coinDecimals, *c.coinPrice, decimals, *c.mintPrice)
}

func smaller(a, b money.Amount) money.Amount {
	if a.Less(b) {
		return a
	}
	return b
}

// chargeable refuses a request whose costs are its customer's and cannot be computed: it
// would be paid by the organization, or for an amount that was not shown.
func chargeable(f facts) (Step, *fault.Fault) {
	c := f.charging
	s := Step{Gate: GateCustomerCharge, Result: NotConfigured}
	if c.why != "" {
		s.Result, s.Inputs = Refuse, map[string]string{"why": c.why}
		return s, uncharged(c.why)
	}
	if c.setting() == org.ChargeNone {
		return s, nil
	}
	s.Result, s.Inputs = Pass, map[string]string{"rentMax": c.held.String()}
	if c.failureMax != nil {
		s.Inputs["failureMax"] = c.failureMax.String()
	}
	return s, nil
}

func uncharged(why string) *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable,
		"Your organization charges what a withdrawal costs to its customer (chargeCustomerCosts), and it cannot be computed at the moment: %s. Nothing was held and nothing was sent. Repeat the request shortly with the same idempotencyKey; if this stays, ask the operator of this service for a source of the price, or for chargeCustomerCosts NONE.", why)
}

// chargeAsked tells whether an organization charges costs, and in which coin they arise.
func (s *Service) chargeAsked(ctx context.Context, tx pg.Tx, orgID string, f *facts) error {
	if f.owner.customerID == "" || f.costs.known {
		return nil
	}
	settings, err := org.SettingsOf(ctx, tx, orgID)
	if err != nil {
		return fmt.Errorf("settings of %s: %w", orgID, err)
	}
	if f.charging.asked = settings.ChargeCustomerCosts != org.ChargeNone; !f.charging.asked {
		return nil
	}
	var mints mint.Catalogue
	if err := loadMints(ctx, tx, &mints); err != nil {
		return err
	}
	native, ok := mints.Native(f.mint.Chain)
	if f.charging.asked = ok; ok {
		f.charging.native = native
	}
	return nil
}

// chargePrices collects the prices by which costs are converted, and what the chain said of them.
func (s *Service) chargePrices(ctx context.Context, f *facts, q quoted) {
	if !f.charging.asked {
		return
	}
	f.charging.rent = q.account
	if q.most != nil {
		fee := less(*q.most, q.rent) // a payment that is refused makes no account
		f.charging.fee = &fee
	}
	if f.mint.Kind == mint.Native {
		return
	}
	now := s.DB.Clock()()
	price := func(mintID int) *price.Quote {
		p := s.quote(ctx, mintID)
		if p == nil || !fresh(*p, now, s.priceAge(mintID)) {
			return nil
		}
		return p
	}
	f.charging.coin, f.charging.token = price(f.charging.native.ID), price(f.mint.ID)
}

// shownCharge is what a customer may be charged as the interface shows it, or nil where nothing is.
func shownCharge(costs org.ChargedCosts, mintID int, c charge) *webhook.CustomerCharge {
	if costs == org.ChargeNone {
		return nil
	}
	return &webhook.CustomerCharge{Costs: string(costs), MintID: mintID, RentMax: c.held.String(), FailureMax: textOf(c.failureMax)}
}

// ReviewRent implements dispatch.Reviewer. A payee that had its account when the payment was
// requested, and has closed it since, would have it made at the organization's cost. A
// person decides about that, once.
func (*Service) ReviewRent(ctx context.Context, tx pg.Tx, o dispatch.Order, rent money.Amount) (*signer.Refusal, error) {
	var charges, seen bool
	var held money.Amount
	err := tx.QueryRow(ctx, `
		SELECT charge_costs <> 'NONE', charge_rent, EXISTS (
			SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = w.withdrawal_id AND d.act = 'RETURNED'
				AND d.gates @> jsonb_build_array(jsonb_build_object('gate', 'SIGNER', 'inputs', jsonb_build_object('code', $3::text))))
		FROM withdrawals w WHERE org_id = $1 AND withdrawal_id = $2`, o.OrgID, o.ID, dispatch.RentNotHeld).Scan(&charges, &held, &seen)
	if err != nil {
		return nil, fmt.Errorf("what withdrawal %s holds for an account of its payee: %w", o.ID, err)
	}
	if !charges || seen || !held.Less(rent) {
		return nil, nil
	}
	return &signer.Refusal{Code: dispatch.RentNotHeld, Message: fmt.Sprintf(
		"the payee has no account for this token now, which takes %v to make, and %v was held for that when it was requested: who approves it has the organization pay the rest", rent, held)}, nil
}

// chargeOf is what a customer is charged by the end of a payment, and the cost in the chain's
// own coin for which that is. The database computes it again.
func (s *Service) chargeOf(ctx context.Context, tx pg.Tx, r row, e dispatch.End) (charged, cost money.Amount, err error) {
	most := r.charge.held
	cost = e.Rent
	if !e.Paid {
		most, cost = money.Zero, e.Fee
		if e.PayeeFailed && r.charge.failureMax != nil {
			most = *r.charge.failureMax
		}
	}
	if most.IsZero() || cost.IsZero() {
		return money.Zero, money.Zero, nil
	}
	mints, err := mint.All(ctx, tx)
	if err != nil {
		return charged, cost, err
	}
	m, _ := mints.ByID(r.mintID)
	native, ok := mints.Native(r.chain)
	if !ok || m.ID != r.mintID {
		return charged, cost, fmt.Errorf("charge the customer of withdrawal %s: its mint or the coin of %s has left the catalogue", r.id, r.chain)
	}
	charged, err = r.charge.into(cost, native.Decimals, m.Decimals)
	if err != nil {
		charged = most // more than any amount can be, and so more than the most
	}
	return smaller(charged, most), cost, nil
}

// chargePosting gives the organization what its customer is charged; none without a charge.
func chargePosting(orgID string, r row, charged money.Amount) []ledger.Posting {
	if charged.IsZero() {
		return nil
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalCharge, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  r.owner.holds(orgID, r.mintID),
			Credit: ledger.Account{OrgID: orgID, MintID: r.mintID, Kind: ledger.Product, Subject: feeProduct},
			Amount: charged,
		}},
	}}
}

// chargeRest gives back what was held for the rent of a payment that was made and did not
// cost it; none without a rest.
func chargeRest(orgID string, r row, charged money.Amount) []ledger.Posting {
	rest := less(r.charge.held, charged)
	if rest.IsZero() {
		return nil
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalChargeReturn, ID: r.id},
		Legs:  []ledger.Leg{{Debit: r.owner.holds(orgID, r.mintID), Credit: r.owner.spends(orgID, r.mintID), Amount: rest}},
	}}
}
