package swap

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/swap/provider"
)

// A provider with a limit gets no new swap that would bring what is with it above the limit. Rule SWAP-40.
//
// Several transactions may write swaps at one moment, and none of them sees the others. Below half of the limit
// small swaps share a gate and are written side by side. Each is at most a hundredth of the limit, so only more
// than fifty of them at one moment exceed it, by a hundredth for each further one. Every other swap of the provider
// is written alone, and exceeds nothing.
const (
	// sharedPercent is up to which part of the limit swaps are written side by side, and smallPercent how much of
	// it one of them may be.
	sharedPercent = 50
	smallPercent  = 1
)

// errLimit says that a swap would bring what is with its provider above the limit. The provider counts as one
// that cannot be asked now.
var errLimit = fmt.Errorf("%w: as much is with it as its limit allows", provider.ErrUnavailable)

// errAlone says that a swap has to be written again, while no other swap of the provider is.
var errAlone = errors.New("what is with the provider came near its limit")

// claim is what is with a provider of one mint, or is about to be paid to it.
type claim struct {
	mintID, decimals int
	amount           money.Amount
	// storedUSD is the value that its swaps had at their creation, and unvalued is how many had none.
	storedUSD money.USD
	unvalued  int
}

// loadClaims returns what is with providers, of the swaps of all organizations. The transaction may be one of a
// single organization.
func loadClaims(ctx context.Context, tx pg.Tx, providers ...string) (map[string][]claim, error) {
	claims := map[string][]claim{}
	rows, err := tx.Query(ctx, `
		SELECT provider, mint_id, decimals, amount, stored_usd, unvalued FROM swap_claims($1)
		ORDER BY provider, mint_id`, providers)
	if err != nil {
		return nil, fmt.Errorf("read what is with the providers of swaps: %w", err)
	}
	var name string
	var c claim
	_, err = pgx.ForEachRow(rows, []any{&name, &c.mintID, &c.decimals, &c.amount, &c.storedUSD, &c.unvalued},
		func() error {
			claims[name] = append(claims[name], c)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read what is with the providers of swaps: %w", err)
	}
	return claims, nil
}

// Exposure is what is with a provider, or is about to be paid to it, in dollars.
type Exposure struct {
	USD      money.USD
	Unvalued int // swaps without any value, which USD does not contain
}

// exceeds reports whether a new swap would bring an exposure above a limit. Swaps without a value, and a new one
// without one, count as too much.
func (x Exposure) exceeds(limit money.USD, value *money.USD) (bool, error) {
	if x.Unvalued > 0 || value == nil {
		return true, nil
	}
	total, err := x.USD.Add(*value)
	if err != nil {
		return true, fmt.Errorf("what would be with a provider: %w", err)
	}
	return limit.Cmp(total) < 0, nil
}

// sumClaims returns what claims are worth at prices. A claim without a price counts with the value that its swaps
// had at their creation, which is of their whole amount.
func sumClaims(claims []claim, prices map[int]money.USD) (x Exposure, err error) {
	for _, c := range claims {
		value := c.storedUSD
		if usd, isKnown := prices[c.mintID]; isKnown {
			if value, err = money.ValueOf(c.amount, c.decimals, usd); err != nil {
				return x, fmt.Errorf("value of what is with a provider of mint %d: %w", c.mintID, err)
			}
		} else {
			x.Unvalued += c.unvalued
		}
		if x.USD, err = x.USD.Add(value); err != nil {
			return x, fmt.Errorf("value of what is with a provider: %w", err)
		}
	}
	return x, nil
}

// loadClaimPrices returns the price of each mint of claims that has a fresh one. A process without a source of
// prices has none.
func (s *Service) loadClaimPrices(ctx context.Context, claims map[string][]claim) map[int]money.USD {
	prices, asked := map[int]money.USD{}, map[int]bool{}
	if s.Prices == nil {
		return prices
	}
	for _, list := range claims {
		for _, c := range list {
			if asked[c.mintID] {
				continue
			}
			asked[c.mintID] = true
			q, err := s.Prices.USD(ctx, c.mintID)
			if err == nil && price.CheckFresh(q, s.DB.Clock()(), s.priceAge(c.mintID)) == nil {
				prices[c.mintID] = q.Price
			}
		}
	}
	return prices
}

// providerLimit is the limit of a provider for one new swap.
type providerLimit struct {
	provider string
	usdMax   money.USD
	value    money.USD         // of the new swap
	prices   map[int]money.USD // of what is with the provider
	isAlone  bool              // no other swap of the provider is written meanwhile
}

// filterByLimit returns the offers whose providers may get a swap for what is paid. refusal is the answer for a
// caller who gets none of these because of limits; it is nil if no limit is reached.
func (s *Service) filterByLimit(
	ctx context.Context, p parsed, offers []judgedOffer,
) (allowed []judgedOffer, refusal, err error) {
	var names []string
	for _, offer := range offers {
		if s.Panel.OutstandingUSDMax(offer.Provider) != nil {
			names = append(names, offer.Provider)
		}
	}
	if len(names) == 0 {
		return offers, nil, nil
	}
	value := s.valueIn(ctx, p)
	var claims map[string][]claim
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		claims, err = loadClaims(ctx, tx, names...)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	prices := s.loadClaimPrices(ctx, claims)
	for _, offer := range offers {
		usdMax := s.Panel.OutstandingUSDMax(offer.Provider)
		if usdMax == nil {
			allowed = append(allowed, offer)
			continue
		}
		x, err := sumClaims(claims[offer.Provider], prices)
		if err != nil {
			return nil, nil, err
		}
		isTooMuch, err := x.exceeds(*usdMax, value)
		if err != nil {
			return nil, nil, err
		}
		if isTooMuch {
			s.warnOfLimit(ctx, offer.Provider, x, *usdMax, value)
			refusal = s.refusalOf(ctx, errLimit)
			continue
		}
		offer.limit = &providerLimit{provider: offer.Provider, usdMax: *usdMax, value: *value, prices: prices}
		if offer.limit.isAlone, err = offer.limit.needsAlone(x); err != nil {
			return nil, nil, err
		}
		allowed = append(allowed, offer)
	}
	return allowed, refusal, nil
}

func (s *Service) warnOfLimit(ctx context.Context, name string, x Exposure, usdMax money.USD, value *money.USD) {
	shown := "unknown"
	if value != nil {
		shown = value.Cents()
	}
	s.Log.WarnContext(ctx, "swap: a provider is at its limit", "provider", name, "outstandingUSD", x.USD.Cents(),
		"withoutValue", x.Unvalued, "limitUSD", usdMax.Cents(), "valueUSD", shown)
}

// needsAlone reports whether a swap has to be written while no other swap of the provider is.
func (l *providerLimit) needsAlone(x Exposure) (bool, error) {
	small, err := percentOf(l.usdMax, smallPercent)
	if err != nil {
		return true, err
	}
	shared, err := percentOf(l.usdMax, sharedPercent)
	if err != nil {
		return true, err
	}
	total, err := x.USD.Add(l.value)
	if err != nil {
		return true, fmt.Errorf("what would be with provider %s: %w", l.provider, err)
	}
	return small.Cmp(l.value) < 0 || shared.Cmp(total) < 0, nil
}

func percentOf(value money.USD, percent uint64) (money.USD, error) {
	part, err := money.ValueOf(money.Units(percent), 2, value)
	if err != nil {
		return part, fmt.Errorf("%d percent of %s dollars: %w", percent, value, err)
	}
	return part, nil
}

// checkInside checks a limit again in the transaction that writes the swap, behind a gate that lasts until it ends. It
// comes before the locks of rows. Errors: errLimit, errAlone.
func (s *Service) checkInside(ctx context.Context, tx pg.Tx, l *providerLimit) error {
	if l == nil {
		return nil
	}
	take := pg.LockShared
	if l.isAlone {
		take = pg.LockExclusive
	}
	if err := take(ctx, tx, "claims on "+l.provider); err != nil {
		return err
	}
	claims, err := loadClaims(ctx, tx, l.provider)
	if err != nil {
		return err
	}
	x, err := sumClaims(claims[l.provider], l.prices)
	if err != nil {
		return err
	}
	isTooMuch, err := x.exceeds(l.usdMax, &l.value)
	switch {
	case err != nil:
		return err
	case isTooMuch:
		s.warnOfLimit(ctx, l.provider, x, l.usdMax, &l.value)
		return errLimit
	case l.isAlone:
		return nil
	}
	needs, err := l.needsAlone(x)
	if err == nil && needs {
		err = errAlone
	}
	return err
}

// writeWithin writes a swap, again if that has to happen alone. write runs checkInside in its transaction.
func writeWithin[T any](l *providerLimit, write func() (T, error)) (T, error) {
	written, err := write()
	if errors.Is(err, errAlone) && l != nil && !l.isAlone {
		l.isAlone = true
		written, err = write()
	}
	return written, err
}
