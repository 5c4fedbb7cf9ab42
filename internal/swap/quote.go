package swap

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// QuoteRequest asks what a swap would bring.
type QuoteRequest struct {
	CustomerID  *string // named for the caller's own logs; its balance is not looked at
	FromMintID  int
	ToMintID    int
	AmountIn    string
	SlippageBps *int
}

// Quote is what a swap would bring now. It binds no one.
type Quote struct {
	EstimatedOut     money.Amount
	MinOut           money.Amount
	EstimatedSeconds *int
	FeeAmount        money.Amount // in units of the source mint
	FeeBps           int
	USDValue         *money.USD // of the amount in; nil: no price
	QuotedAt         time.Time
	Provider         string
	Rate             string // whole tokens out for a whole token in
	PriceImpactBps   *int   // below the second price; nil: there is none
}

// Quote returns the best offer. It writes nothing. Errors: the faults of Request that do not depend on
// a balance. Rule SWAP-5.
func (s *Service) Quote(ctx context.Context, orgID string, r QuoteRequest) (Quote, error) {
	customerID := ""
	if r.CustomerID != nil {
		customerID = *r.CustomerID
	}
	var f facts
	err := s.DB.ReadOrgBatch(ctx, orgID, func(b *pgx.Batch) {
		f = queueFacts(b, orgID, customerID, r.FromMintID, r.ToMintID)
	})
	if err != nil {
		return Quote{}, err
	}
	settings, err := f.loadSettings()
	if err != nil {
		return Quote{}, err
	}
	if err := checkEnabled(settings); err != nil {
		return Quote{}, err
	}
	if err := f.checkFrozen(); err != nil {
		return Quote{}, err
	}
	if r.CustomerID != nil {
		if err := checkCustomer(customerID, nil); err != nil {
			return Quote{}, err
		}
	}
	p, err := s.parsePair(r.FromMintID, r.ToMintID, r.AmountIn, nil, r.SlippageBps, *f.mints, settings)
	if err != nil {
		return Quote{}, err
	}
	if err := f.checkStopped(p.from); err != nil {
		return Quote{}, err
	}
	return s.quoteBest(ctx, f.treasuries(), p, settings.SwapFeeBps)
}

// quoteBest returns the best offer for a pair, with the platform's fee.
func (s *Service) quoteBest(
	ctx context.Context, treasuries map[chain.Family]chain.Address, p parsed, feeBps int,
) (Quote, error) {
	offers, err := s.compare(ctx, treasuries, p)
	if err != nil {
		return Quote{}, err
	}
	best := offers[0]
	q := Quote{
		EstimatedOut: best.AmountOut, MinOut: best.MinAmountOut, EstimatedSeconds: estimatedSeconds(best.Estimate),
		FeeBps: feeBps, QuotedAt: s.DB.Clock()().UTC(), Provider: best.Provider,
		Rate: provider.FormatRate(p.amountIn, best.AmountOut, p.from.Decimals, p.to.Decimals),
	}
	if q.FeeAmount, err = p.amountIn.Bps(uint64(feeBps)); err != nil {
		return Quote{}, fmt.Errorf("fee of a swap: %w", err)
	}
	q.USDValue = s.valueIn(ctx, p)
	if best.second.isKnown {
		expected, err := best.second.expected(p.amountIn, p.from, p.to)
		if err != nil {
			return Quote{}, fmt.Errorf("value of a swap: %w", err)
		}
		impact := lossBps(expected, best.AmountOut)
		q.PriceImpactBps = &impact
	}
	return q, nil
}

// valueIn returns what the amount in is worth, for display; nil without a fresh price.
func (s *Service) valueIn(ctx context.Context, p parsed) *money.USD {
	q, err := s.Prices.USD(ctx, p.from.ID)
	if err != nil || price.CheckFresh(q, s.DB.Clock()(), s.priceAge(p.from.ID)) != nil {
		return nil
	}
	value, err := money.ValueOf(p.amountIn, p.from.Decimals, q.Price)
	if err != nil {
		return nil
	}
	return &value
}

func estimatedSeconds(d time.Duration) *int {
	if d <= 0 {
		return nil
	}
	seconds := int((d + time.Second - 1) / time.Second)
	return &seconds
}
