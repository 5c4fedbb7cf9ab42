package withdrawal

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/dispatch"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

// costDay is the period over which the costs of a customer's withdrawals are added up.
const costDay = 24 * time.Hour

// costs holds what the network takes for a customer's withdrawals. The organization bears these
// costs, and its customers cause them.
type costs struct {
	isCounted  bool         // a customer's withdrawal, and the native coin has a price source
	isKnown    bool         // costMax was set at the request and is not quoted again
	excludedID string       // the withdrawal itself, if it exists
	decimals   int          // decimals of the native coin
	quote      *price.Quote // price of the native coin; nil: no fresh price

	costMax *money.Amount // the most that this withdrawal may cost; nil: unknown
	rent    money.Amount  // the part of costMax that stays in an account created for the payee
	limit   *money.USD    // for one day; nil: the organization has set none
	spent   *money.USD    // cost of the customer's other withdrawals of the day; nil: it overflows
}

// recordedPrice returns the coin price to record, or nil.
func (c costs) recordedPrice() *money.USD {
	if c.quote == nil {
		return nil
	}
	return &c.quote.Price
}

// recordedRent returns the rent to record with costMax, or nil.
func (c costs) recordedRent() *money.Amount {
	if c.costMax == nil {
		return nil
	}
	return &c.rent
}

// usdCost returns the dollar value of what this withdrawal may cost; nil: it has no value.
func (c costs) usdCost() *money.USD {
	if c.quote == nil {
		return nil
	}
	cost := money.Zero
	if c.costMax != nil {
		cost = *c.costMax // else dispatch counts what it reserves: see checkDayLimit
	}
	v, err := money.ValueOf(cost, c.decimals, c.quote.Price)
	if err != nil {
		return nil
	}
	return &v
}

// checkCustomerCosts holds a withdrawal that would raise the costs of a customer's day above the
// organization's limit. The approval allowlist does not skip this gate. A cost without a value
// counts as above the limit. Rule WD-53.
func checkCustomerCosts(f Facts) (Step, *fault.Fault) {
	c := f.costs
	s := Step{Gate: GateCustomerCosts, Result: ResultNotConfigured}
	if !c.isCounted || c.limit == nil {
		return s, nil
	}
	s.Result, s.Reason, s.Inputs = ResultHold, ReasonPolicyLimit, map[string]string{"threshold": formatUSD(*c.limit)}
	if c.quote != nil {
		s.Inputs["price"], s.Inputs["priceSource"] = formatUSD(c.quote.Price), c.quote.Source
	}
	value := c.usdCost()
	if value == nil || c.spent == nil {
		s.Inputs["why"] = "The network fee has no value in dollars: the native coin of the chain has no recent price."
		return s, nil
	}
	s.Inputs["usdValue"], s.Inputs["costsUsd"] = formatUSD(*value), formatUSD(*c.spent)
	sum, err := c.spent.Add(*value)
	if err == nil && sum.Cmp(*c.limit) <= 0 {
		s.Result, s.Reason = ResultPass, ""
	}
	return s, nil
}

// costLockName names the advisory lock under which a customer's costs are added up: of two
// concurrent requests the second sees what the first may cost. The lock comes after the lock of the
// settings and before any row lock. Rule WD-53.
func costLockName(org, customerID string) string { return "costs of " + org + " " + customerID }

// sumDayCosts returns the dollar cost of a customer's withdrawals that were let go within the day;
// nil: it overflows. A withdrawal that ended counts with what the network took, another one with
// the most that it may take. Rent for a payee's account counts in full, also where several payments
// share a transaction and its fee. Each cost is valued at the price at which its withdrawal was let
// go.
func sumDayCosts(ctx context.Context, tx pg.Tx, orgID, customerID, excludedID string) (*money.USD, error) {
	rows, err := tx.Query(ctx, `
		SELECT n.decimals, w.cost_price, sum(CASE
			WHEN w.network_fee IS NOT NULL THEN greatest(w.network_fee, w.cost_rent)
			ELSE coalesce(w.cost_max, (
				-- Under the policies of an organization, coalesce in place of CASE would read all slots.
				SELECT ceil(s.gas_reserved / s.orders) FROM dispatch_orders o JOIN dispatch_slots s
					ON s.order_id = CASE WHEN o.tx_lead_id IS NULL THEN o.order_id ELSE o.tx_lead_id END
				WHERE o.order_id = w.withdrawal_id), 0) END)
		FROM withdrawals w JOIN mints n ON n.chain = w.chain AND n.kind = 'NATIVE'
		WHERE w.org_id = $1 AND w.customer_id = $2 AND w.withdrawal_id <> $3 AND (w.created_at > $4 OR w.approved_at > $4)
			AND coalesce(w.approved_at, w.created_at) > $4 AND w.status IN ('PROCESSING', 'BROADCAST', 'COMPLETED', 'FAILED')
			AND w.cost_price IS NOT NULL
		GROUP BY 1, 2`, orgID, customerID, excludedID, tx.Now.Add(-costDay))
	if err != nil {
		return nil, fmt.Errorf("sum up the costs of a customer of %s: %w", orgID, err)
	}
	var sum money.USD
	var decimals int
	var coinPrice money.USD
	var units money.Amount
	isOverflow := false
	_, err = pgx.ForEachRow(rows, []any{&decimals, &coinPrice, &units}, func() error {
		v, err := money.ValueOf(units, decimals, coinPrice)
		if err == nil {
			sum, err = sum.Add(v)
		}
		isOverflow = isOverflow || err != nil
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("sum up the costs of a customer of %s: %w", orgID, err)
	}
	if isOverflow {
		return nil, nil
	}
	return &sum, nil
}

// checkDayLimit returns why an order has to be returned for approval because of its customer's
// costs, or "". It covers withdrawals whose costs were unknown at the request: the chain did not
// quote them, or the process that accepted the request has no endpoint of the chain. Rule WD-53.
func (*Service) checkDayLimit(ctx context.Context, tx pg.Tx, o dispatch.Order) (reason string, err error) {
	var isUncounted bool
	var reasons []Reason
	err = tx.QueryRow(ctx, `
		SELECT customer_id IS NOT NULL AND cost_max IS NULL AND cost_price IS NOT NULL, approval_reasons FROM withdrawals WHERE org_id = $1 AND withdrawal_id = $2`,
		o.OrgID, o.ID).Scan(&isUncounted, &reasons)
	if err != nil {
		return "", fmt.Errorf("what withdrawal %s may cost: %w", o.ID, err)
	}
	if !isUncounted || slices.Contains(reasons, ReasonPolicyLimit) { // an approver has seen the reason
		return "", nil
	}
	settings, err := org.SettingsOf(ctx, tx, o.OrgID)
	if err != nil || settings.CustomerFeeDayUSD == nil {
		return "", err
	}
	sum, err := sumDayCosts(ctx, tx, o.OrgID, o.CustomerID, o.ID)
	if err != nil || sum != nil && sum.Cmp(*settings.CustomerFeeDayUSD) < 0 {
		return "", err
	}
	return fmt.Sprintf(
		"the network fees of this customer's withdrawals have reached customerFeeDayUsd, %s, within 24 hours",
		formatUSD(*settings.CustomerFeeDayUSD),
	), nil
}
