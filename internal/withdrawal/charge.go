package withdrawal

import (
	"cmp"
	"context"
	"fmt"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/signer"
)

// charging holds what is known about the costs that a request's customer pays.
type charging struct {
	// isCharged says that the facts below were loaded: the organization charged costs a moment ago.
	isCharged  bool
	coinQuote  *price.Quote  // of the chain's native coin; nil: no fresh price
	tokenQuote *price.Quote  // of the mint; nil: no fresh price
	rent       *money.Amount // the greatest rent of an account created for the payee; nil: unknown
	// fee is the most that the network takes for a payment that it refuses; nil: unknown.
	fee *money.Amount

	isUncapped bool // estimate without an amount: the amount does not cap failureMax

	costs org.ChargedCosts // what the organization charges, as the transaction sees it
	charge
	missingReason string // why the charge cannot be computed, or ""
}

// charge says what a withdrawal's customer may be charged, by the setting and the prices at the
// request. It is written with the withdrawal and does not change.
type charge struct {
	rent       money.Amount  // the most rent that is charged, in units of the native coin
	held       money.Amount  // the same in units of the mint, held in addition to the amount
	failureMax *money.Amount // the most that a failed payment is charged, out of the hold; nil: nothing
	coinPrice  *money.USD    // coinPrice and mintPrice are nil where no conversion was needed
	mintPrice  *money.USD
}

// chargedCosts returns which costs the organization charges.
func (c charging) chargedCosts() org.ChargedCosts { return cmp.Or(c.costs, org.ChargeNone) }

// computeCharge sets the most that a request's customer may be charged, or missingReason.
// Rules WD-54 and WD-55.
func (f *Facts) computeCharge() {
	c := &f.charging
	c.charge, c.missingReason = charge{}, ""
	switch {
	case c.chargedCosts() == org.ChargeNone || f.owner.IsOrganization():
		return
	case !c.isCharged:
		c.missingReason = "the organization has just changed chargeCustomerCosts"
		return
	case c.rent == nil:
		c.missingReason = "the chain does not say what an account for the payee costs"
		return
	}
	// A UTXO payment cannot fail at a cost: its outputs are spent or not.
	failures := c.costs == org.ChargeRentAndFailures && !f.mint.Chain.IsUTXO()
	if failures && c.fee == nil {
		c.missingReason = "the chain does not say how high the network fee would be"
		return
	}
	if f.mint.Kind != mint.Native && (failures || !c.rent.IsZero()) {
		if c.coinQuote == nil || c.tokenQuote == nil {
			c.missingReason = "the native coin of the chain or the token has no recent price"
			return
		}
		c.coinPrice, c.mintPrice = &c.coinQuote.Price, &c.tokenQuote.Price
	}
	convert := func(cost money.Amount) (money.Amount, error) {
		return c.toMintUnits(cost, f.native.Decimals, f.mint.Decimals)
	}
	held, err := convert(*c.rent)
	if err == nil {
		c.charge.rent, c.held = *c.rent, held
	}
	if err == nil && failures {
		var failureMax, total money.Amount
		if failureMax, err = convert(*c.fee); err == nil {
			total, err = f.amount.Add(held)
		}
		if !c.isUncapped {
			failureMax = minAmount(failureMax, total)
		}
		c.failureMax = &failureMax
	}
	if err != nil {
		c.charge, c.missingReason = charge{}, "the result is larger than the largest possible amount, or a price is "+
			"zero"
	}
}

// toMintUnits converts a cost in the chain's native coin to units of the mint, rounded up.
func (c charge) toMintUnits(cost money.Amount, coinDecimals, decimals int) (money.Amount, error) {
	if c.coinPrice == nil || cost.IsZero() {
		return cost, nil
	}
	return money.Convert(cost, coinDecimals, *c.coinPrice, decimals, *c.mintPrice)
}

func minAmount(a, b money.Amount) money.Amount {
	if a.Less(b) {
		return a
	}
	return b
}

// checkCharge refuses a request whose customer pays the costs, if they cannot be computed.
// Otherwise the organization would pay them, or the customer would pay an amount that was not
// shown. Rule WD-54.
func checkCharge(f Facts) (Step, *fault.Fault) {
	c := f.charging
	s := Step{Gate: GateCustomerCharge, Result: ResultNotConfigured}
	if c.missingReason != "" {
		s.Result, s.Inputs = ResultRefuse, map[string]string{"why": c.missingReason}
		return s, newUncharged(c.missingReason)
	}
	if c.chargedCosts() == org.ChargeNone {
		return s, nil
	}
	s.Result, s.Inputs = ResultPass, map[string]string{"rentMax": c.held.String()}
	if c.failureMax != nil {
		s.Inputs["failureMax"] = c.failureMax.String()
	}
	return s, nil
}

func newUncharged(reason string) *fault.Fault {
	return fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
		"Your organization charges the costs of a withdrawal to its customer (chargeCustomerCosts), "+
			"and the service cannot compute them now: %s.", reason).
		WithAdvice("If the error stays, ask the operator of this service for a source of the price, or for " +
			"chargeCustomerCosts NONE.").
		WithStep(fault.RepeatWithSameKey)
}

// newCharge returns what a customer may be charged; nil: nothing.
func newCharge(costs org.ChargedCosts, mintID int, c charge) *CustomerCharge {
	if costs == org.ChargeNone {
		return nil
	}
	return &CustomerCharge{
		Costs: costs, MintID: mintID, RentMax: c.held, FailureMax: c.failureMax,
	}
}

// ReviewRent implements dispatch.Reviewer. A payee may have closed its token account since the
// request. The payment would then create it at the organization's cost. A person decides about that
// once. Rule WD-54.
func (*Service) ReviewRent(
	ctx context.Context, tx pg.Tx, o dispatch.Order, rent money.Amount,
) (*signer.Refusal, error) {
	var charges, isReviewed bool
	var held money.Amount
	err := tx.QueryRow(ctx, `
		SELECT charge_costs <> 'NONE', charge_rent, EXISTS (
			SELECT FROM withdrawal_decisions d WHERE d.withdrawal_id = w.withdrawal_id AND d.act = 'RETURNED'
				AND d.gates @> jsonb_build_array(jsonb_build_object('gate', 'SIGNER', 'inputs', jsonb_build_object('code', $3::text))))
		FROM withdrawals w WHERE org_id = $1 AND withdrawal_id = $2`,
		o.OrgID, o.ID, dispatch.RentNotHeld).Scan(&charges, &held, &isReviewed)
	if err != nil {
		return nil, fmt.Errorf("what withdrawal %s holds for an account of its payee: %w", o.ID, err)
	}
	if !charges || isReviewed || !held.Less(rent) {
		return nil, nil
	}
	return &signer.Refusal{Code: dispatch.RentNotHeld, Message: fmt.Sprintf(
		"the payee has no account for this token now, an account costs %v, and %v was held for it at the request: "+
			"with an approval the organization pays the difference", rent, held)}, nil
}

// finalCharge returns what the end of a payment charges the customer, and the cost behind it in the
// native coin. The database computes the charge again. Rules WD-54 and WD-55.
func (s *Service) finalCharge(
	ctx context.Context, tx pg.Tx, r storedWithdrawal, e dispatch.End,
) (charged, cost money.Amount, err error) {
	chargeMax := r.charge.held
	cost = e.Rent
	if !e.Paid {
		chargeMax, cost = money.Zero, e.Fee
		if e.PayeeFailed && r.charge.failureMax != nil {
			chargeMax = *r.charge.failureMax
		}
	}
	if chargeMax.IsZero() || cost.IsZero() {
		return money.Zero, money.Zero, nil
	}
	mints, err := mint.LoadCatalogue(ctx, tx)
	if err != nil {
		return charged, cost, err
	}
	m, _ := mints.ByID(r.mintID)
	native, ok := mints.Native(r.chain)
	if !ok || m.ID != r.mintID {
		return charged, cost, fmt.Errorf(
			"charge the customer of withdrawal %s: its mint or the native coin of %s has left the catalogue", r.id,
			r.chain,
		)
	}
	charged, err = r.charge.toMintUnits(cost, native.Decimals, m.Decimals)
	if err != nil {
		charged = chargeMax // beyond the largest amount, and so above chargeMax
	}
	return minAmount(charged, chargeMax), cost, nil
}

// newChargePostings returns the posting that pays the charge to the organization; nil without one.
func newChargePostings(orgID string, r storedWithdrawal, charged money.Amount) []ledger.Posting {
	if charged.IsZero() {
		return nil
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalCharge, ID: r.id},
		Legs: []ledger.Leg{{
			Debit:  r.owner.HeldAccount(orgID, r.mintID),
			Credit: ledger.Account{OrgID: orgID, MintID: r.mintID, Kind: ledger.Product, Subject: feeProduct},
			Amount: charged,
		}},
	}}
}

// newChargeReturnPostings returns the posting that releases what a successful payment did not use
// of the hold for rent; nil if nothing is left.
func newChargeReturnPostings(orgID string, r storedWithdrawal, charged money.Amount) []ledger.Posting {
	remainder := money.SubOrZero(r.charge.held, charged)
	if remainder.IsZero() {
		return nil
	}
	return []ledger.Posting{{
		Cause: ledger.Cause{Kind: ledger.WithdrawalChargeReturn, ID: r.id},
		Legs: []ledger.Leg{{
			Debit: r.owner.HeldAccount(orgID, r.mintID), Credit: r.owner.SpendingAccount(orgID, r.mintID),
			Amount: remainder,
		}},
	}}
}
