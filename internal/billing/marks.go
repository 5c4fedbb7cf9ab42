package billing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/cofferpay/coffer/internal/control/audit"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
)

const (
	markInterval = 5 * time.Minute
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
	var wanted []int
	err = s.DB.ReadSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		names := make([]string, len(s.Chains))
		for i, name := range s.Chains {
			names[i] = string(name)
		}
		rows, err := tx.Query(ctx, `
			SELECT m.mint_id FROM mints m
			WHERE (m.kind = 'NATIVE' AND m.chain = ANY ($1)
					OR m.mint_id IN (SELECT l.mint_id FROM fee_lines l WHERE l.kind = 'SWAP_FEE' AND l.incurred_at >
						$2))
				AND NOT EXISTS (SELECT FROM price_marks p
					WHERE p.mint_id = m.mint_id AND p.created_at > $3 AND p.created_at <= $4)
			ORDER BY 1`, names, tx.Now.Add(-swapMintsBack), tx.Now.Add(stepPause-markInterval), tx.Now)
		if err != nil {
			return err
		}
		wanted, err = pgx.CollectRows(rows, pgx.RowTo[int])
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("look for marks that are due: %w", err)
	}
	var marks []fee.MintMark
	var failed []error
	for _, mintID := range wanted {
		q, err := s.Prices.USD(ctx, mintID)
		if err == nil {
			err = price.CheckFresh(q, s.DB.Clock()(), s.priceAge(mintID))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("mark of mint %d: %w", mintID, err))
			continue
		}
		marks = append(marks, fee.MintMark{
			MintID: mintID, Mark: fee.Mark{Price: q.Price, Source: q.Source, QuotedAt: q.QuotedAt},
		})
	}
	if len(marks) == 0 {
		return 0, errors.Join(failed...)
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		if err := pg.LockExclusive(ctx, tx, marksLock); err != nil {
			return err
		}
		taken, err = fee.StoreMarks(ctx, tx, marks, tx.Now, tx.Now.Add(stepPause-markInterval))
		return err
	})
	if err != nil {
		return 0, err
	}
	return taken, errors.Join(failed...)
}

// AddedMark is a price that an operator states for a moment at which no source had one.
type AddedMark struct {
	MintID int
	Price  money.USD
	Source string // where the operator has it from
	Moment time.Time
}

const markSourceMax = 200

// AddMark stores the price that an operator states for a moment, for lines that would wait without end otherwise. It
// returns how many lines it valued. Errors: faults INVALID_REQUEST, MINT_NOT_FOUND. Rule BI-5.
func (s *Service) AddMark(ctx context.Context, m AddedMark, requester audit.Actor) (priced int64, err error) {
	switch {
	case m.Price == money.USD{}:
		return 0, refuse("price", "A price is above zero.")
	case m.Source == "" || len(m.Source) > markSourceMax:
		return 0, refuse("source", "A source of 1 to %d bytes says where the price is from.", markSourceMax)
	}
	err = s.DB.InSystem(ctx, func(ctx context.Context, tx pg.Tx) error {
		m.Moment = m.Moment.UTC().Truncate(time.Microsecond)
		if m.Moment.After(tx.Now) {
			return refuse("at", "The moment of a price is not in the future.")
		}
		if err := pg.LockExclusive(ctx, tx, marksLock); err != nil {
			return err
		}
		mark := fee.MintMark{
			MintID: m.MintID, Mark: fee.Mark{Price: m.Price, Source: "operator: " + m.Source, QuotedAt: m.Moment},
		}
		// No other mark of the mint is between the moment and itself.
		stored, err := fee.StoreMarks(ctx, tx, []fee.MintMark{mark}, m.Moment, m.Moment)
		if err != nil {
			return err
		}
		if stored != 1 {
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
			Detail: map[string]any{"price": m.Price, "source": m.Source, "at": m.Moment, "lines": priced},
		})
	})
	return priced, err
}
