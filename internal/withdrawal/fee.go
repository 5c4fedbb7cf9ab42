package withdrawal

import (
	"context"
	"fmt"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/customer"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/identity/org"
	"github.com/cofferpay/coffer/internal/ledger"
	"github.com/cofferpay/coffer/internal/mint"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/request"
)

// estimateTTL is how long an estimate is valid.
const estimateTTL = time.Minute

// Estimate says what a withdrawal would cost, and how much could be withdrawn.
type Estimate struct {
	NetworkFee       money.Amount    // the most, in atomic units of the chain's native coin
	NetworkFeeMintID *int            // the chain's native coin; nil when it is not in the catalogue
	NetworkFeeUSD    *money.USD      // nil without a fresh price
	MaxAmount        *money.Amount   // what the customer may withdraw; nil when no customer was given
	CustomerCharge   *CustomerCharge // what the customer may be charged in addition; nil: nothing
	ExpiresAt        time.Time
}

// EstimateRequest describes a withdrawal that is not requested yet. Everything but the mint may be
// nil.
type EstimateRequest struct {
	MintID     int
	CustomerID *string
	Amount     *string
	UseDecimal bool
	ToAddress  *string
	FeeMode    string // "" means ORGANIZATION

	owner ledger.Owner // a product in place of a customer
}

// Estimate returns what a withdrawal would cost now. It holds nothing and writes nothing. Errors:
//
//   - the faults of Request for malformed fields,
//   - WITHDRAWALS_SUSPENDED for a chain that is not running,
//   - UNAVAILABLE when the chain gives no quote.
func (s *Service) Estimate(ctx context.Context, org string, r EstimateRequest) (Estimate, error) {
	var empty Estimate
	var mints mint.Catalogue
	var payerAddress chain.Address
	err := s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) (err error) {
		if mints, err = mint.LoadCatalogue(ctx, tx); err != nil {
			return err
		}
		if m, ok := mints.ByID(r.MintID); ok {
			payerAddress, err = loadPayerAddress(ctx, tx, org, m.Chain)
		}
		return err
	})
	if err != nil {
		return empty, err
	}
	p, err := parseEstimate(r, mints, s.Chains)
	if err != nil {
		return empty, err
	}
	if _, refusal := checkSuspended(Facts{
		parsed: parsed{mint: mint.Mint{WithdrawEnabled: true}, chainRuns: p.chainRuns},
	}); refusal != nil {
		return empty, refusal
	}
	q := s.quoteCost(
		ctx, chain.Payment{From: payerAddress, To: p.destination, Contract: p.mint.Contract, Amount: p.amount},
		p.mint.Chain,
	)
	fee := q.costMax
	if fee == nil {
		return empty, fault.New(fault.Unavailable, fault.CodeUnavailable, fault.NothingHeld,
			"The chain does not say how high the network fee would be now.").
			WithAdvice("Ask again shortly.")
	}
	e := Estimate{NetworkFee: *fee, ExpiresAt: s.DB.Clock()().Add(estimateTTL)}
	f := Facts{parsed: p}
	f.native, f.hasNative = mints.Native(p.mint.Chain)
	if native := f.native; f.hasNative {
		e.NetworkFeeMintID = &native.ID
		if q, isFresh := s.loadQuote(ctx, native.ID, s.DB.Clock()()); isFresh {
			if v, err := money.ValueOf(*fee, native.Decimals, q.Price); err == nil {
				e.NetworkFeeUSD = &v
			}
		}
	}
	if r.owner.IsOrganization() {
		err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
			balance, err := loadSpendable(ctx, tx, org, r.owner, p.mint.ID)
			maxAmount := maxPayable(balance, p.mint, *fee)
			e.MaxAmount = &maxAmount
			return err
		})
		return e, err
	}
	held, err := s.estimateCharge(ctx, org, f, q, &e)
	if err != nil || r.CustomerID == nil {
		return e, err
	}
	err = s.DB.ReadOrg(ctx, org, func(ctx context.Context, tx pg.Tx) error {
		maxAmount, err := loadSpendable(ctx, tx, org, ledger.CustomerOwner(*r.CustomerID), p.mint.ID)
		maxAmount = money.SubOrZero(maxAmount, held)
		e.MaxAmount = &maxAmount
		return err
	})
	return e, err
}

// estimateCharge sets what a customer may be charged for a withdrawal, and returns how much of that
// is held in addition to the amount. Error: the fault of a request whose charge cannot be computed.
func (s *Service) estimateCharge(
	ctx context.Context, orgID string, f Facts, q costQuote, e *Estimate,
) (held money.Amount, err error) {
	err = s.DB.ReadOrg(ctx, orgID, func(ctx context.Context, tx pg.Tx) error {
		settings, err := org.SettingsOf(ctx, tx, orgID)
		f.charging.costs = settings.ChargeCustomerCosts
		f.charging.isCharged = f.hasNative && f.charging.costs != org.ChargeNone
		return err
	})
	if err != nil {
		return held, fmt.Errorf("what %s charges its customers: %w", orgID, err)
	}
	s.loadChargePrices(ctx, &f, q)
	f.charging.isUncapped = f.noAmount
	f.computeCharge()
	if f.charging.missingReason != "" {
		return held, newUncharged(f.charging.missingReason)
	}
	e.CustomerCharge = newCharge(f.charging.chargedCosts(), f.mint.ID, f.charging.charge)
	return f.charging.held, nil
}

// parseEstimate parses the fields that are given, by the rules of parseRequest.
func parseEstimate(r EstimateRequest, mints mint.Catalogue, chains chain.Chains) (p parsed, err error) {
	if r.CustomerID != nil {
		if err := customer.CheckID(*r.CustomerID); err != nil {
			return p, err
		}
	}
	if p.mint, err = request.ParseMint(r.MintID, mints, fault.NothingHeld); err != nil {
		return p, err
	}
	p.amount, p.noAmount = money.Units(1), true // the cost of a token transfer does not depend on the amount
	if r.Amount != nil {
		p.noAmount = false
		if p.amount, err = request.ParseAmount(*r.Amount, r.UseDecimal, p.mint, fault.NothingHeld); err != nil {
			return p, err
		}
	}
	if p.deductsFee, err = parseFeeMode(r.FeeMode, p.mint); err != nil {
		return p, err
	}
	_, p.chainRuns = chains[p.mint.Chain]
	if r.ToAddress != nil {
		p.destination, p.chainRuns, err = parseAddress(*r.ToAddress, p.mint, chains)
	}
	return p, err
}
