package swap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

const (
	// strayLeastBps is the least part of a swap's amount, in basis points, that the strays of another mint at its
	// wallets have to be worth together to count against the provider. Anyone can send less to an address that a
	// chain has shown.
	strayLeastBps = 1_000
	// strayPause is how often a process looks for strays to judge.
	strayPause = 5 * time.Second
	// strayJudgedMax is how long after its arrival a stray is judged: processes may stop, and prices be missing.
	strayJudgedMax = time.Hour
	// strayListMax is how many strays of that time are looked at, the newest first, and strayOfSwapMax how many of one
	// swap are added up. More may come from anyone, and each look would read them again. People see the strays.
	strayListMax   = 1_000
	strayOfSwapMax = 1_000
)

// strayLeastUSD is the least value of the strays of another mint at the wallets of a swap that counts against the
// provider. A suspension stops the swaps of every organization, so it has to cost a stranger more than a tenth of a
// swap that the stranger made tiny. Below it no provider is suspended: people see the alert of strays.
var strayLeastUSD = money.MustParseUSD("100")

// judgedStrays are the strays of another mint that this process has found to be too little. It is safe for concurrent
// use.
type judgedStrays struct {
	mu       sync.Mutex
	arrivals map[string]time.Time // by deposit
}

// isJudged reports whether a stray was judged.
func (j *judgedStrays) isJudged(depositID string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, isKnown := j.arrivals[depositID]
	return isKnown
}

// add keeps judged strays, and forgets those that no one looks for any more.
func (j *judgedStrays) add(strays []stray, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.arrivals == nil {
		j.arrivals = map[string]time.Time{}
	}
	maps.DeleteFunc(j.arrivals, func(_ string, earlier time.Time) bool { return now.Sub(earlier) > strayJudgedMax })
	for _, arrival := range strays {
		j.arrivals[arrival.depositID] = arrival.arrivedAt
	}
}

// stray is a stray arrival of another mint at a wallet of a swap that was open.
type stray struct {
	depositID string
	arrivedAt time.Time
	strayKind
}

// strayKind is what strays are added up by.
type strayKind struct {
	swapID string
	mintID int
}

// straySum is what strays of another mint at the wallets of a swap are together.
type straySum struct {
	strayKind
	provider     string
	decimals     int
	amount       money.Amount
	fromID       int
	fromDecimals int
	amountIn     money.Amount
}

// JudgeStrays suspends each provider of which the wallets of an open swap got another asset that is worth at least a
// tenth of the swap and at least a hundred dollars together, by our prices. Less, and what has no price, is a stray
// arrival and says nothing about the provider: anyone can send it. A person who resumed a provider has seen what
// arrived before. Rule SWAP-28.
func (s *Service) JudgeStrays(ctx context.Context) error {
	strays, err := s.listStraysToJudge(ctx)
	if err != nil {
		return fmt.Errorf("look for strays of other assets: %w", err)
	}
	arrivals, swapIDs := map[strayKind][]stray{}, map[string]bool{}
	for _, arrival := range strays {
		if !s.judged.isJudged(arrival.depositID) {
			arrivals[arrival.strayKind] = append(arrivals[arrival.strayKind], arrival)
			swapIDs[arrival.swapID] = true
		}
	}
	if len(swapIDs) == 0 {
		return nil
	}
	sums, err := s.sumStrays(ctx, slices.Sorted(maps.Keys(swapIDs)))
	if err != nil {
		return fmt.Errorf("add up the strays of other assets: %w", err)
	}
	var errs []error
	for _, sum := range sums {
		isMeant, err := s.isWorthAPart(ctx, sum)
		switch {
		case err != nil:
			s.Log.DebugContext(ctx, "swap: strays of another asset have no value yet", "swap", sum.swapID,
				"mint", sum.mintID, "error", err)
		case isMeant:
			errs = append(errs, s.Suspend(ctx, sum.provider, "it sent another asset for swap "+sum.swapID))
		default:
			s.judged.add(arrivals[sum.strayKind], s.DB.Clock()())
		}
	}
	return errors.Join(errs...)
}

// ofOtherStrays narrows strays of other mints (a) to those that arrived while their swap was open and since its
// provider was resumed. Once a swap has ended, the chain has shown its wallets to everyone. An order of Relay may
// refund on both chains, so what it was to deliver may come back to the refund wallet, as it signed.
const ofOtherStrays = `
	JOIN deposits d ON d.deposit_id = a.deposit_id JOIN mints m ON m.mint_id = d.mint_id
	JOIN swaps s ON s.swap_id = a.swap_id JOIN mints f ON f.mint_id = s.from_mint_id
	LEFT JOIN swap_providers p ON p.provider = s.provider
	WHERE a.created_at <= coalesce(s.delivered_at, s.completed_at, s.failed_at, 'infinity')
		AND (p.provider IS NULL OR p.state = 'ACTIVE' AND a.created_at > p.since)
		AND NOT (d.wallet_id = s.refund_wallet_id AND d.mint_id = s.to_mint_id
			AND EXISTS (SELECT FROM swap_offers o WHERE o.swap_id = s.swap_id AND o.scheme = 'RELAY_ORDER_V1'))`

// listStraysToJudge returns the newest strays of other mints that arrived lately.
func (s *Service) listStraysToJudge(ctx context.Context) (strays []stray, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.deposit_id, a.created_at, a.swap_id, d.mint_id
			FROM (SELECT deposit_id, swap_id, created_at FROM swap_arrivals
				WHERE role = 'STRAY' AND reason = 'OTHER_ASSET' AND created_at > $1
				ORDER BY created_at DESC, deposit_id DESC LIMIT $2) a`+ofOtherStrays,
			tx.Now.Add(-strayJudgedMax), strayListMax)
		if err != nil {
			return err
		}
		strays, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (a stray, err error) {
			err = row.Scan(&a.depositID, &a.arrivedAt, &a.swapID, &a.mintID)
			return a, err
		})
		return err
	})
	return strays, err
}

// sumStrays adds up the strays of other mints that the wallets of swaps got since their provider was resumed.
func (s *Service) sumStrays(ctx context.Context, swapIDs []string) (sums []straySum, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT s.swap_id, m.mint_id, s.provider, m.decimals, sum(d.amount), f.mint_id, f.decimals, s.amount_in
			FROM unnest($1::text[]) AS w (swap_id) CROSS JOIN LATERAL (
				SELECT deposit_id, swap_id, created_at FROM swap_arrivals
				WHERE swap_id = w.swap_id AND role = 'STRAY' AND reason = 'OTHER_ASSET'
				ORDER BY created_at DESC LIMIT $2) a`+ofOtherStrays+`
			GROUP BY s.swap_id, m.mint_id, f.mint_id ORDER BY s.swap_id, m.mint_id`, swapIDs, strayOfSwapMax)
		if err != nil {
			return err
		}
		sums, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o straySum, err error) {
			err = row.Scan(&o.swapID, &o.mintID, &o.provider, &o.decimals, &o.amount, &o.fromID, &o.fromDecimals,
				&o.amountIn)
			return o, err
		})
		return err
	})
	return sums, err
}

// isWorthAPart reports whether strays are worth a hundred dollars and a tenth of their swap. Error: one of both has no
// price now.
func (s *Service) isWorthAPart(ctx context.Context, o straySum) (bool, error) {
	now := s.DB.Clock()()
	find := func(mintID int) (price.Quote, error) {
		q, err := s.Prices.USD(ctx, mintID)
		if err == nil {
			err = price.CheckFresh(q, now, s.priceAge(mintID))
		}
		return q, err
	}
	strayQuote, err := find(o.mintID)
	if err != nil {
		return false, err
	}
	value, err := money.ValueOf(o.amount, o.decimals, strayQuote.Price)
	switch {
	case err != nil && !errors.Is(err, money.ErrRange): // out of range: more than any value
		return false, err
	case err == nil && value.Cmp(strayLeastUSD) < 0:
		return false, nil
	}
	paidQuote, err := find(o.fromID)
	if err != nil {
		return false, err
	}
	leastWorth, err := o.amountIn.Bps(strayLeastBps)
	if err != nil {
		return false, err
	}
	worth, err := money.Convert(o.amount, o.decimals, strayQuote.Price, o.fromDecimals, paidQuote.Price)
	if errors.Is(err, money.ErrRange) {
		return true, nil // more than any amount
	}
	return err == nil && !worth.Less(leastWorth), err
}
