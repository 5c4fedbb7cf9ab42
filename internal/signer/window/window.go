// Package window sums amounts over the last 24 hours of the journal's time, for the limits of a day.
//
// A sum is never less than what was added in the window: a clock that is set frees nothing.
package window

import (
	"time"

	"github.com/cofferpay/coffer/internal/money"
)

// Length is the period in which an amount counts against a limit, by the journal's time.
const Length = 24 * time.Hour

// AmountMax is the largest amount: no limit can be above it.
var AmountMax = money.MustParse("115792089237316195423570985008687907853269984665640564039457584007913129639935")

// Totals holds a total for each key that has one.
type Totals[K comparable] map[K]*total

// total holds the amounts in the window, in the order in which they were added.
type total struct {
	times   []time.Time
	amounts []money.Amount
	sum     money.Amount
}

// Add counts an amount, and drops what has left the window by the time of its entry. A sum beyond
// AmountMax counts as AmountMax.
func (t Totals[K]) Add(key K, amount money.Amount, addedAt time.Time) {
	s := t[key]
	if s == nil {
		s = &total{}
		t[key] = s
	}
	n, expired := s.sumExpired(addedAt)
	s.times, s.amounts, s.sum = s.times[n:], s.amounts[n:], Subtract(s.sum, expired)
	if room := Subtract(AmountMax, s.sum); room.Less(amount) {
		amount = room
	}
	s.sum, _ = s.sum.Add(amount)
	s.times, s.amounts = append(s.times, addedAt), append(s.amounts, amount)
}

// SumWithin returns the sum of a key within the window. It drops nothing: a clock that is ahead for
// a moment would otherwise free limits permanently.
func (t Totals[K]) SumWithin(key K, now time.Time) money.Amount {
	s := t[key]
	if s == nil {
		return money.Zero
	}
	_, expired := s.sumExpired(now)
	return Subtract(s.sum, expired)
}

// sumExpired returns how many amounts have left the window, and their sum.
func (s *total) sumExpired(now time.Time) (n int, sum money.Amount) {
	for n < len(s.times) && now.Sub(s.times[n]) >= Length {
		var err error
		if sum, err = sum.Add(s.amounts[n]); err != nil {
			panic("window: a part of a total is too large")
		}
		n++
	}
	return n, sum
}

// Subtract returns what remains of a total without a part of it.
func Subtract(total, part money.Amount) money.Amount {
	remaining, err := total.Sub(part)
	if err != nil {
		panic("window: a total is less than its parts")
	}
	return remaining
}
