package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

const (
	markInterval = 5 * time.Minute
	// markAgeMax is how long before a fee its mark may have been taken.
	markAgeMax = 15 * time.Minute
	// swapMintsBack is since when a mint had a fee of a swap, for its marks to go on.
	swapMintsBack = 30 * 24 * time.Hour
	priceAgeMax   = 5 * time.Minute // the default of PriceAge
	marksLock     = "price marks"
)

func (s *Service) priceAge(mintID int) time.Duration {
	if s.PriceAge != nil {
		return s.PriceAge(mintID)
	}
	return priceAgeMax
}

// TakeMarks stores the price of each coin and of each mint of swap fees that has no mark of the last five minutes. It
// returns how many it stored. A mint without a fresh price gets none, and keeps no other one waiting. Rule BI-2.
func (s *Service) TakeMarks(ctx context.Context) (taken int64, err error) {
	var due []int
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		names := make([]string, len(s.Chains))
		for i, name := range s.Chains {
			names[i] = string(name)
		}
		rows, err := tx.Query(ctx, `
			SELECT m.mint_id FROM mints m
			WHERE (m.kind = 'NATIVE' AND m.chain = ANY ($1)
					OR m.mint_id IN (SELECT l.mint_id FROM fee_lines l WHERE l.kind = 'SWAP_FEE' AND l.incurred_at > $2))
				AND NOT EXISTS (SELECT FROM price_marks p
					WHERE p.mint_id = m.mint_id AND p.created_at > $3 AND p.created_at <= $4)
			ORDER BY 1`, names, tx.Now.Add(-swapMintsBack), tx.Now.Add(stepPause-markInterval), tx.Now)
		if err != nil {
			return err
		}
		due, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for marks that are due: %w", err)
	}
	var mints []int
	var prices []money.USD
	var sources []string
	var times []time.Time
	var failed []error
	for _, mintID := range due {
		q, err := s.Prices.USD(ctx, mintID)
		if err == nil {
			err = price.CheckFresh(q, s.DB.Clock()(), s.priceAge(mintID))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("mark of mint %d: %w", mintID, err))
			continue
		}
		mints, prices = append(mints, mintID), append(prices, q.Price)
		sources, times = append(sources, q.Source), append(times, q.QuotedAt)
	}
	if len(mints) == 0 {
		return 0, errors.Join(failed...)
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := pg.LockExclusive(ctx, tx, marksLock); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
			SELECT q.mint_id, q.price, q.source, q.quoted_at, $5
			FROM unnest($1::int[], $2::numeric[], $3::text[], $4::timestamptz[]) AS q (mint_id, price, source, quoted_at)
			WHERE NOT EXISTS (SELECT FROM price_marks p
				WHERE p.mint_id = q.mint_id AND p.created_at > $6 AND p.created_at <= $5)`,
			mints, prices, sources, times, tx.Now, tx.Now.Add(stepPause-markInterval))
		taken = tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("store %d marks: %w", len(mints), err)
	}
	return taken, errors.Join(failed...)
}

// AddedMark is a price that an operator states for a moment at which no source had one.
type AddedMark struct {
	MintID int
	Price  money.USD
	Source string // where the operator has it from
	At     time.Time
}

const markSourceMax = 200

// AddMark stores the price that an operator states for a moment, for lines that would wait for ever without it. It
// returns how many lines it valued. Errors: faults INVALID_REQUEST, MINT_NOT_FOUND. Rule BI-5.
func (s *Service) AddMark(ctx context.Context, m AddedMark, requester audit.Actor) (priced int64, err error) {
	switch {
	case m.Price == money.USD{}:
		return 0, refuse("price", "A price is above zero.")
	case m.Source == "" || len(m.Source) > markSourceMax:
		return 0, refuse("source", "A source of 1 to %d bytes says where the price is from.", markSourceMax)
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if m.At.After(tx.Now) {
			return refuse("at", "The moment of a price is not in the future.")
		}
		if err := pg.LockExclusive(ctx, tx, marksLock); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
			INSERT INTO price_marks (mint_id, price, source, quoted_at, created_at)
			SELECT mint_id, $2, $3, $4, $4 FROM mints WHERE mint_id = $1`,
			m.MintID, m.Price, "operator: "+m.Source, m.At.UTC().Truncate(time.Microsecond))
		if err != nil {
			return fmt.Errorf("store a mark of mint %d: %w", m.MintID, err)
		}
		if tag.RowsAffected() != 1 {
			return fault.New(fault.NotFound, fault.MintNotFound, fault.NothingWritten, "There is no mint %d.", m.MintID)
		}
		for priced = 0; ; {
			n, err := priceLines(ctx, tx, "", time.Time{})
			if err != nil {
				return err
			}
			if priced += n; n < batchMax {
				break
			}
		}
		return audit.Record(ctx, tx, audit.Entry{
			Actor: requester, Action: "price_mark.added", ResourceKind: "MINT", ResourceID: fmt.Sprint(m.MintID),
			Detail: map[string]any{"price": m.Price, "source": m.Source, "at": m.At.UTC(), "lines": priced},
		})
	})
	return priced, err
}
