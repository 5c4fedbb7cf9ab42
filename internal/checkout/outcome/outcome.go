// Package outcome decides the state of a checkout from its terms and its payments.
//
// Invariants:
//
//   - A checkout is completed only when credited payments cover its need, or when a person accepted what is credited.
//     What goes back to its payer covers nothing.
//   - Once completed it stays so: the goods may be delivered. A reversal is an exception of it.
//   - The order of the payments and their split do not matter, and the second assessment of the same facts changes
//     nothing.
//   - A payment that counts for nothing changes no status and moves no expiry.
//
// The package is pure: the caller gives it the time, and stores the result. It posts nothing.
package outcome

import (
	"slices"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/pricing"
)

const (
	// Extension is the time from the first part for the payment of what remains.
	Extension    = 30 * time.Minute
	reopenedTime = 10 * time.Minute // for another payment, after one is gone
)

// Terms are what a checkout asks for, as it is now.
type Terms struct {
	AmountDue pricing.Value
	Need      pricing.Value // the sum that completes it, at most AmountDue
	Surplus   pricing.Value // a credited surplus above it is OVERPAID
	ExpiresAt time.Time
	// IsExtended: a first part moved ExpiresAt, which happens once.
	IsExtended bool
	// AcceptsLate: late payments count without a person.
	AcceptsLate bool
	// IsDecided: a person accepted the checkout. Late payments and other coins count, and what is credited completes
	// it.
	IsDecided bool
	// IsRefunded: everything that was credited went back to its payers.
	IsRefunded bool
}

// Payment is a payment of a checkout.
type Payment struct {
	Status     PaymentStatus
	Counted    *pricing.Value // its value in the currency of the amount due; nil: not yet valued
	GivenBack  pricing.Value  // the part of that value that refunds take
	Moment     time.Time      // by which it is judged
	IsAccepted bool           // the checkout accepts its coin
	IsInTime   bool           // Moment is not after the expiry, and not after a cancellation
	IsWatched  bool           // late, and Moment is within the days in which policies apply
}

// isAlive reports whether a payment is on its chain, and neither flagged nor unusable.
func (p Payment) isAlive() bool { return p.Status == PaymentSeen || p.Status == PaymentCredited }

// isValued reports whether a payment is alive and has a value.
func (p Payment) isValued() bool { return p.isAlive() && p.Counted != nil }

// Result is the state of a checkout.
type Result struct {
	Status     Status
	Exception  Exception     // the most severe one, or NoException
	Exceptions []Exception   // all of them, the most severe first
	SeenSum    pricing.Value // what counts, in blocks or credited
	FinalSum   pricing.Value // what counts and is credited
	Remaining  pricing.Value // what is still to be paid; zero once the need is covered
	Surplus    pricing.Value // what is credited above the amount due
	// IsDuplicate: one credited payment covers the need, and the others cover it without that one.
	IsDuplicate bool
	Counts      []bool    // by payment, in their order: whether it is in the sums
	ExpiresAt   time.Time // never before that of the terms
	IsExtended  bool
}

// Assess returns the state of a checkout that has the given status. isLagging says that a walk of its chains does not
// keep up, so a payment in time may be unseen.
func Assess(present Status, t Terms, ps []Payment, now time.Time, isLagging bool) Result {
	// A late payment never brings back a cancelled checkout. Once payments in time brought it back, late ones count
	// as they do for every other.
	isLateCounted := t.AcceptsLate && present != Cancelled
	s := sum(t, ps, isLateCounted)
	r := settle(present, t, s, ps, now, isLagging)
	if t.AcceptsLate && present == Cancelled && r.Status != Cancelled {
		s = sum(t, ps, true)
		r = settle(present, t, s, ps, now, isLagging)
	}
	r.SeenSum, r.FinalSum, r.Counts = s.seenSum, s.finalSum, s.counts
	r.Surplus = pricing.SubOrZero(s.finalSum, t.AmountDue)
	if r.Status != Completed && !t.isCovered(s.subtractRefunds(s.seenSum)) {
		r.Remaining = pricing.SubOrZero(t.AmountDue, s.subtractRefunds(s.seenSum))
	}
	r.IsDuplicate = r.Status == Completed && slices.ContainsFunc(s.counting, func(p Payment) bool {
		return p.Status == PaymentCredited && t.isCovered(*p.Counted) &&
			t.isCovered(pricing.SubOrZero(s.finalSum, *p.Counted))
	})
	r.Exceptions = listExceptions(r, t, s, ps)
	r.Exception = NoException
	if len(r.Exceptions) > 0 {
		r.Exception = r.Exceptions[0]
	}
	return r
}

// isCovered reports whether a sum completes the checkout. Terms without a need are completed by nothing.
func (t Terms) isCovered(s pricing.Value) bool { return !t.Need.IsZero() && s.Cmp(t.Need) >= 0 }

type sums struct {
	counting          []Payment
	counts            []bool // by payment
	seenSum, finalSum pricing.Value
	givenBack         pricing.Value // of both
	firstPart         time.Time     // the earliest moment of those in time; zero without one
}

// subtractRefunds returns what of a sum does not go back to its payers.
func (s sums) subtractRefunds(sum pricing.Value) pricing.Value {
	return pricing.SubOrZero(sum, s.givenBack)
}

// sum adds the payments that count: those in time and in an accepted coin, late ones that a policy accepts, and all of
// them once a person accepted the checkout.
func sum(t Terms, ps []Payment, isLateCounted bool) sums {
	s := sums{counts: make([]bool, len(ps))}
	for i, p := range ps {
		s.counts[i] = p.isValued() &&
			(t.IsDecided || p.IsAccepted && (p.IsInTime || isLateCounted && p.IsWatched))
		if !s.counts[i] {
			continue
		}
		s.counting = append(s.counting, p)
		s.seenSum, s.givenBack = plus(s.seenSum, *p.Counted), plus(s.givenBack, p.GivenBack)
		if p.Status == PaymentCredited {
			s.finalSum = plus(s.finalSum, *p.Counted)
		}
		if p.IsInTime && p.IsAccepted && !p.Counted.IsZero() && (s.firstPart.IsZero() || p.Moment.Before(s.firstPart)) {
			s.firstPart = p.Moment
		}
	}
	return s
}

// plus adds, and stays at the greatest value that can be stored: a sum that large covers every need.
func plus(a, b pricing.Value) pricing.Value {
	s, err := a.Add(b)
	if err != nil {
		return pricing.ValueMax
	}
	return s
}

// settle decides the status and the expiry.
func settle(present Status, t Terms, s sums, ps []Payment, now time.Time, isLagging bool) Result {
	r := Result{Status: present, ExpiresAt: t.ExpiresAt, IsExtended: t.IsExtended}
	isCredited := func(p Payment) bool { return p.Status == PaymentCredited }
	switch {
	case present == Completed:
		return r
	case t.isCovered(s.subtractRefunds(s.finalSum)), t.IsDecided && slices.ContainsFunc(ps, isCredited):
		r.Status = Completed
		return r
	case t.isCovered(s.subtractRefunds(s.seenSum)):
		r.Status = Processing
		return r
	case present == Expired, present == Cancelled:
		return r
	case present == Processing:
		r.Status = Open
		r.extendTo(now.Add(reopenedTime))
	}
	if !r.IsExtended && !s.firstPart.IsZero() {
		r.IsExtended = true
		r.extendTo(s.firstPart.Add(Extension))
	}
	// A payment that has no value yet may still cover the need. A flagged one counts for nothing: if it is approved,
	// it counts with its own moment, so its checkout loses nothing by expiring.
	isWaiting := func(p Payment) bool { return p.isAlive() && p.IsAccepted && p.IsInTime && p.Counted == nil }
	if !now.Before(r.ExpiresAt) && !isLagging && !slices.ContainsFunc(ps, isWaiting) {
		r.Status = Expired
	}
	return r
}

func (r *Result) extendTo(t time.Time) {
	if t.After(r.ExpiresAt) {
		r.ExpiresAt = t
	}
}

// listExceptions returns the exceptions, the most severe first.
func listExceptions(r Result, t Terms, s sums, ps []Payment) []Exception {
	net := s.subtractRefunds(s.seenSum)
	isShort := !t.isCovered(s.seenSum) || !t.isCovered(net) && !net.IsZero()
	hasPayment := func(matches func(p Payment) bool) bool { return slices.ContainsFunc(ps, matches) }
	isPresent := map[Exception]bool{
		Flagged:    hasPayment(func(p Payment) bool { return p.Status == PaymentFlagged }),
		Reversed:   hasPayment(func(p Payment) bool { return p.Status == PaymentReversed }),
		WrongToken: hasPayment(func(p Payment) bool { return p.isAlive() && !p.IsAccepted }),
		Overpaid:   r.Status == Completed && r.Surplus.Cmp(t.Surplus) > 0,
		PaidLate:   hasPayment(func(p Payment) bool { return p.isValued() && p.IsAccepted && !p.IsInTime }),
		Underpaid:  r.Status != Completed && !r.SeenSum.IsZero() && isShort,
		Refunded:   t.IsRefunded,
	}
	var listed []Exception
	for _, e := range Exceptions {
		if isPresent[e] {
			listed = append(listed, e)
		}
	}
	return listed
}

// CanCancel reports whether the organization may cancel a checkout: it is open, and no payment that may count was
// seen. What cannot be used does not prevent it, or a stranger's dust would.
func CanCancel(present Status, ps []Payment) bool {
	return present == Open && !slices.ContainsFunc(ps, func(p Payment) bool {
		return p.isAlive() || p.Status == PaymentFlagged
	})
}
