// Package billing tells organizations what they owe the operator, month by month: it writes a line for each
// network fee in the ledger, values lines by prices that it keeps, and issues invoices and credit notes.
//
// The package rules out:
//   - a fee that is on two invoices, or is lost (a line per fee, and the database binds it once)
//   - a number that is missing in a series, or comes twice (the number and its document are one transaction)
//   - an issued document that changes (no role may change it, and a hash shows it)
//   - a month that is billed twice, or before it is over (but for a local network)
//
// A crash leaves a whole document or none. Lines without a document are on the next invoice.
package billing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/fee"
	"github.com/cofferpay/coffer/internal/money"
	"github.com/cofferpay/coffer/internal/platform/pg"
	"github.com/cofferpay/coffer/internal/price"
	"github.com/cofferpay/coffer/internal/webhooks/event"
)

const (
	stepPause = 30 * time.Second
	issueStep = 10 * time.Minute // between two looks for months that are due
	// collectBack is how far back a step looks for fees without a line. An invoice looks at all.
	collectBack = 72 * time.Hour
	batchMax    = 5000
	issueHour   = 6 // in UTC, on the day of the terms
)

// Service bills. Its methods are safe for concurrent use, by any number of processes.
type Service struct {
	DB     *pg.DB
	Prices price.Source
	// PriceAge returns the greatest age of a price; nil: five minutes.
	PriceAge func(mintID int) time.Duration
	Chains   []chain.Name // the enabled ones, whose coins have marks
	Events   event.Recorder
	// FeeReaders returns what reads the fees of a chain, nil for a chain that is not configured. VerifyOnChain alone
	// needs it.
	FeeReaders func(name chain.Name) FeeReader
	IsLocal    bool // a local network, where IssueEarly works
	Log        *slog.Logger
}

func (s *Service) log() *slog.Logger {
	if s.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return s.Log
}

// Run keeps marks, lines and their values, and issues what is due, until ctx ends. It returns nil.
func (s *Service) Run(ctx context.Context) error {
	var collectedAll bool
	var lookedAt time.Time
	for {
		start := s.DB.Clock()().Add(-collectBack)
		if !collectedAll {
			start = time.Time{} // a process may have slept for long
		}
		err := s.Step(ctx, start)
		if err == nil {
			collectedAll = true
		}
		if now := s.DB.Clock()(); now.Sub(lookedAt) >= issueStep || now.Before(lookedAt) {
			lookedAt = now
			err = errors.Join(err, s.IssueDue(ctx))
		}
		if err != nil && ctx.Err() == nil {
			s.log().WarnContext(ctx, "billing: a step is not whole", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(stepPause):
		}
	}
}

// Step takes the marks that are due, writes the lines of fees since a moment, and values lines.
func (s *Service) Step(ctx context.Context, start time.Time) error {
	_, errMarks := s.TakeMarks(ctx)
	_, errLines := s.CollectLines(ctx, start)
	_, errValues := s.PriceLines(ctx, start)
	return errors.Join(errMarks, errLines, errValues)
}

// Month is a month in UTC.
type Month struct {
	Name       string    // 2026-01
	Start, End time.Time // the first inclusive, the second exclusive
}

// ParseMonth parses a month such as 2026-01. Error: fault INVALID_REQUEST.
func ParseMonth(text string) (Month, error) {
	var f fee.Filter
	if !f.SetMonth(text) {
		return Month{}, refuse("month", "month has to be a month such as 2026-01.")
	}
	return Month{text, f.Start, f.End}, nil
}

// monthOf returns the month of a moment.
func monthOf(moment time.Time) Month {
	start := time.Date(moment.UTC().Year(), moment.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	return Month{start.Format(fee.MonthLayout), start, start.AddDate(0, 1, 0)}
}

// previous returns the month before.
func (m Month) previous() Month { return monthOf(m.Start.AddDate(0, -1, 0)) }

// dueAt returns when the month is billed by itself. Rule BI-8.
func (m Month) dueAt(day int) time.Time {
	return m.End.AddDate(0, 0, day-1).Add(issueHour * time.Hour)
}

// lastDue returns the newest month that is due on a day of the month after.
func lastDue(now time.Time, day int) Month {
	m := monthOf(now).previous()
	if now.Before(m.dueAt(day)) {
		m = m.previous()
	}
	return m
}

func refuse(param, reason string, args ...any) *fault.Fault {
	return fault.New(fault.Invalid, fault.InvalidRequest, fault.NothingWritten, reason, args...).
		WithAdvice("Correct it.").WithParam(param)
}

func refuseState(reason string, args ...any) *fault.Fault {
	return fault.New(fault.Conflict, fault.InvalidState, fault.NothingWritten, reason, args...)
}

var hundred = big.NewInt(100)

// parseCents returns the cents of dollars with at most two digits after the point, such as -12.30.
func parseCents(text string) (*big.Int, error) {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, fmt.Errorf("read the dollars %q", text)
	}
	r.Mul(r, new(big.Rat).SetInt(hundred))
	if !r.IsInt() {
		return nil, fmt.Errorf("read the dollars %q: they have no whole cents", text)
	}
	return new(big.Int).Set(r.Num()), nil
}

// formatCents formats cents as dollars with two digits after the point.
func formatCents(cents *big.Int) string {
	whole, rest := new(big.Int).QuoRem(new(big.Int).Abs(cents), hundred, new(big.Int))
	sign := ""
	if cents.Sign() < 0 {
		sign = "-"
	}
	return fmt.Sprintf("%s%s.%02d", sign, whole, rest.Int64())
}

// centsToUSD returns cents that are not below zero as dollars.
func centsToUSD(cents *big.Int) (money.USD, error) { return money.ParseUSD(formatCents(cents)) }

// usdToCents returns whole cents of dollars, rounded half up.
func usdToCents(dollars money.USD) *big.Int {
	cents, err := parseCents(dollars.Cents())
	if err != nil {
		panic("billing: " + err.Error())
	}
	return cents
}

// taxOn returns the tax on cents at a rate, rounded half up.
func taxOn(cents *big.Int, rateBps int) *big.Int {
	n := new(big.Int).Mul(cents, big.NewInt(2*int64(rateBps)))
	n.Add(n, big.NewInt(10_000))
	return n.Div(n, big.NewInt(20_000))
}

func signed(isCredit bool, text string) string {
	if isCredit {
		return "-" + text
	}
	return text
}
