package swap

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

const (
	// strayLeastBps is the least part of a swap's amount, in basis points, that a stray arrival of another mint has to
	// be worth to count against the provider. Anyone can send less to an address that a chain has shown.
	strayLeastBps = 1_000
	// strayPause is how often a process looks for strays to judge.
	strayPause = 5 * time.Second
	// strayJudgedMax is how long after its arrival a stray is judged: processes may stop, and prices be missing.
	strayJudgedMax = time.Hour
)

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

// add keeps a judged stray, and forgets those that no one looks for any more.
func (j *judgedStrays) add(depositID string, arrivedAt, now time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.arrivals == nil {
		j.arrivals = map[string]time.Time{}
	}
	maps.DeleteFunc(j.arrivals, func(_ string, earlier time.Time) bool { return now.Sub(earlier) > strayJudgedMax })
	j.arrivals[depositID] = arrivedAt
}

// otherStray is a stray arrival of another mint at a wallet of a swap that was open.
type otherStray struct {
	depositID, swapID, provider string
	mintID, decimals            int
	amount                      money.Amount
	fromID, fromDecimals        int
	amountIn                    money.Amount
	arrivedAt                   time.Time
}

// JudgeStrays suspends each provider of which a wallet of an open swap got another asset that is worth at least a
// tenth of the swap, by our prices. Less, and what has no price, is a stray arrival and says nothing about the
// provider: anyone can send it. A person who resumed a provider has seen what arrived before. Rule SWAP-28.
func (s *Service) JudgeStrays(ctx context.Context) error {
	strays, err := s.listOtherStrays(ctx)
	if err != nil {
		return fmt.Errorf("look for strays of other assets: %w", err)
	}
	var errs []error
	for _, stray := range strays {
		if s.judged.isJudged(stray.depositID) {
			continue
		}
		isMeant, err := s.isWorthAPart(ctx, stray)
		switch {
		case err != nil:
			s.Log.DebugContext(ctx, "swap: a stray of another asset has no value yet", "swap", stray.swapID,
				"deposit", stray.depositID, "error", err)
		case isMeant:
			errs = append(errs, s.Suspend(ctx, stray.provider, "it sent another asset for swap "+stray.swapID))
		default:
			s.judged.add(stray.depositID, stray.arrivedAt, s.DB.Clock()())
		}
	}
	return errors.Join(errs...)
}

// listOtherStrays returns the strays of other mints that arrived lately, while their swap was open and since its
// provider was resumed. Once a swap has ended, the chain has shown its wallets to everyone.
func (s *Service) listOtherStrays(ctx context.Context) (strays []otherStray, err error) {
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		rows, err := tx.Query(ctx, `
			SELECT a.deposit_id, s.swap_id, s.provider, d.mint_id, m.decimals, d.amount, s.from_mint_id, f.decimals,
				s.amount_in, a.created_at
			FROM swap_arrivals a JOIN deposits d ON d.deposit_id = a.deposit_id JOIN mints m ON m.mint_id = d.mint_id
				JOIN swaps s ON s.swap_id = a.swap_id JOIN mints f ON f.mint_id = s.from_mint_id
				LEFT JOIN swap_providers p ON p.provider = s.provider
			WHERE a.role = 'STRAY' AND a.reason = 'OTHER_ASSET' AND a.created_at > $1
				AND a.created_at <= coalesce(s.delivered_at, s.completed_at, s.failed_at, 'infinity')
				AND (p.provider IS NULL OR p.state = 'ACTIVE' AND a.created_at > p.since)
			ORDER BY a.created_at, a.deposit_id`, tx.Now.Add(-strayJudgedMax))
		if err != nil {
			return err
		}
		strays, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (o otherStray, err error) {
			err = row.Scan(&o.depositID, &o.swapID, &o.provider, &o.mintID, &o.decimals, &o.amount, &o.fromID,
				&o.fromDecimals, &o.amountIn, &o.arrivedAt)
			return o, err
		})
		return err
	})
	return strays, err
}

// isWorthAPart reports whether a stray is worth at least a tenth of its swap. Error: one of both has no price now.
func (s *Service) isWorthAPart(ctx context.Context, o otherStray) (bool, error) {
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
