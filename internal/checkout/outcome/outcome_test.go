package outcome

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/cofferpay/coffer/internal/checkout/pricing"
)

var (
	now   = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	later = now.Add(20 * time.Minute)
	past  = now.Add(-20 * time.Minute)
)

func value(text string) pricing.Value { return pricing.MustRead(text) }

func valued(text string) *pricing.Value { return new(value(text)) }

// terms ask for 100, complete at 99.5, and leave time.
func terms(changes ...func(*Terms)) Terms {
	t := Terms{AmountDue: value("100"), Need: value("99.5"), Surplus: value("0.5"), ExpiresAt: later, AcceptsLate: true}
	for _, change := range changes {
		change(&t)
	}
	return t
}

func isOver(t *Terms)      { t.ExpiresAt = past }
func holdsLate(t *Terms)   { t.AcceptsLate = false }
func isDecided(t *Terms)   { t.IsDecided = true }
func isExtended(t *Terms)  { t.IsExtended = true }
func endsNow(t *Terms)     { t.ExpiresAt = now }
func endsEarlier(t *Terms) { t.ExpiresAt = now.Add(-time.Hour) }

// pay is a payment of now, in time and in an accepted coin.
func pay(status PaymentStatus, text string, changes ...func(*Payment)) Payment {
	p := Payment{Status: status, Moment: now, IsAccepted: true, IsInTime: true}
	if text != "" {
		p.Counted = valued(text)
	}
	for _, change := range changes {
		change(&p)
	}
	return p
}

func inOtherCoin(p *Payment) { p.IsAccepted = false }
func late(p *Payment)        { p.IsInTime, p.IsWatched = false, true }
func givenBack(text string) func(*Payment) {
	return func(p *Payment) { p.GivenBack = value(text) }
}
func tenMinutesAgo(p *Payment) { p.Moment = now.Add(-10 * time.Minute) }
func tooLate(p *Payment)       { p.IsInTime, p.IsWatched = false, false }
func atStart(p *Payment)       { p.Moment = now.Add(-time.Hour) }

// assessment is what the table of cases says about a Result.
type assessment struct {
	status     Status
	exceptions []Exception
	remaining  string
	expiresAt  time.Time // zero: that of the terms
}

// The cases of a checkout: what it becomes and what is unusual about it.
func TestEachCaseOfACheckoutHasItsState(t *testing.T) {
	t.Parallel()
	const seen, credited, flagged = PaymentSeen, PaymentCredited, PaymentFlagged
	for _, c := range []struct {
		name     string
		present  Status
		terms    Terms
		payments []Payment
		isBehind bool
		want     assessment
	}{
		{"nothing paid", Open, terms(), nil, false, assessment{Open, nil, "100", time.Time{}}},
		{"nothing paid at the expiry", Open, terms(endsNow), nil, false, assessment{Expired, nil, "100", time.Time{}}},

		{
			"exact, in a block", Open, terms(),
			[]Payment{pay(seen, "100")},
			false,
			assessment{Processing, nil, "0", time.Time{}},
		},
		{
			"exact, credited", Processing, terms(),
			[]Payment{pay(credited, "100")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"exact, credited before it was noticed", Open, terms(),
			[]Payment{pay(credited, "100")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"a part was given back", Open, terms(isExtended),
			[]Payment{pay(credited, "100", givenBack("50")), pay(credited, "49")},
			false,
			assessment{Open, []Exception{Underpaid}, "1", time.Time{}},
		},
		{
			"a part was given back and paid again", Processing, terms(),
			[]Payment{pay(credited, "100", givenBack("50")), pay(credited, "50")},
			false,
			assessment{Completed, []Exception{Overpaid}, "0", time.Time{}},
		},
		{
			"a part is given back after the end", Completed, terms(),
			[]Payment{pay(credited, "100", givenBack("50"))},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"within the tolerance", Open, terms(),
			[]Payment{pay(credited, "99.5")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"the last digit below the tolerance", Open, terms(isExtended),
			[]Payment{pay(credited, "99.499999999999999999")},
			false,
			assessment{Open, []Exception{Underpaid}, "0.500000000000000001", time.Time{}},
		},

		{
			"under: the first part gives 30 minutes", Open, terms(),
			[]Payment{pay(seen, "40")},
			false,
			assessment{Open, []Exception{Underpaid}, "60", now.Add(30 * time.Minute)},
		},
		{
			"under: an expiry in longer than that stays", Open, terms(),
			[]Payment{pay(seen, "40", atStart)},
			false,
			assessment{Open, []Exception{Underpaid}, "60", time.Time{}},
		},
		{
			"under: the earliest part counts", Open, terms(endsNow),
			[]Payment{pay(seen, "40"), pay(seen, "30", tenMinutesAgo), pay(seen, "1")},
			false,
			assessment{Open, []Exception{Underpaid}, "29", now.Add(20 * time.Minute)},
		},
		{
			"under: what is worth nothing is no part", Open, terms(),
			[]Payment{pay(seen, "0")},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},
		{
			"under: a late part gives no time", Open, terms(endsNow),
			[]Payment{pay(seen, "40", late)},
			true,
			assessment{Open, []Exception{PaidLate, Underpaid}, "60", time.Time{}},
		},
		{
			"under: the second part gives no time", Open, terms(isExtended),
			[]Payment{pay(seen, "40"), pay(seen, "30")},
			false,
			assessment{Open, []Exception{Underpaid}, "30", time.Time{}},
		},
		{
			"under: the first part counts in the second of the expiry", Open, terms(endsNow),
			[]Payment{pay(seen, "40")},
			false,
			assessment{Open, []Exception{Underpaid}, "60", now.Add(30 * time.Minute)},
		},
		{
			"under: parts in several coins complete it", Open, terms(isExtended),
			[]Payment{pay(credited, "40"), pay(credited, "59.5")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"under: one part is credited, the other in a block", Open, terms(isExtended),
			[]Payment{pay(credited, "40"), pay(seen, "60")},
			false,
			assessment{Processing, nil, "0", time.Time{}},
		},
		{
			"under at the expiry", Open, terms(isOver, isExtended),
			[]Payment{pay(credited, "40")},
			false,
			assessment{Expired, []Exception{Underpaid}, "60", time.Time{}},
		},
		{
			"under at the expiry: a part is no reason to open it again", Expired, terms(isOver),
			[]Payment{pay(credited, "40")},
			false,
			assessment{Expired, []Exception{Underpaid}, "60", time.Time{}},
		},
		{
			"under, and a person accepts", Expired, terms(isOver, isDecided),
			[]Payment{pay(credited, "40")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"under, and a person accepts before the credit", Expired, terms(isOver, isDecided),
			[]Payment{pay(seen, "40")},
			false,
			assessment{Expired, []Exception{Underpaid}, "60", time.Time{}},
		},

		{
			"over", Open, terms(),
			[]Payment{pay(credited, "100.51")},
			false,
			assessment{Completed, []Exception{Overpaid}, "0", time.Time{}},
		},
		{
			"over within the tolerance", Open, terms(),
			[]Payment{pay(credited, "100.5")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"over, and the surplus is not final", Completed, terms(),
			[]Payment{pay(credited, "100"), pay(seen, "100")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"over before the credit", Open, terms(),
			[]Payment{pay(seen, "150")},
			false,
			assessment{Processing, nil, "0", time.Time{}},
		},

		{
			"late, accepted within the tolerance", Expired, terms(isOver),
			[]Payment{pay(credited, "99.5", late)},
			false,
			assessment{Completed, []Exception{PaidLate}, "0", time.Time{}},
		},
		{
			"late, in a block", Expired, terms(isOver),
			[]Payment{pay(seen, "100", late)},
			false,
			assessment{Processing, []Exception{PaidLate}, "0", time.Time{}},
		},
		{
			"late and less at the market price", Expired, terms(isOver),
			[]Payment{pay(credited, "99", late)},
			false,
			assessment{Expired, []Exception{PaidLate, Underpaid}, "1", time.Time{}},
		},
		{
			"late: the rest of a part", Expired, terms(isOver),
			[]Payment{pay(credited, "60"), pay(seen, "40", late)},
			false,
			assessment{Processing, []Exception{PaidLate}, "0", time.Time{}},
		},
		{
			"late, and the policy holds", Expired, terms(isOver, holdsLate),
			[]Payment{pay(credited, "100", late)},
			false,
			assessment{Expired, []Exception{PaidLate}, "100", time.Time{}},
		},
		{
			"late, held, and a person accepts", Expired, terms(isOver, holdsLate, isDecided),
			[]Payment{pay(credited, "100", late)},
			false,
			assessment{Completed, []Exception{PaidLate}, "0", time.Time{}},
		},
		{
			"late after the watched days", Expired, terms(isOver),
			[]Payment{pay(credited, "100", tooLate)},
			false,
			assessment{Expired, []Exception{PaidLate}, "100", time.Time{}},
		},
		{
			"late after the watched days, and a person accepts", Expired, terms(isOver, isDecided),
			[]Payment{pay(credited, "100", tooLate)},
			false,
			assessment{Completed, []Exception{PaidLate}, "0", time.Time{}},
		},
		{
			"late without a value", Expired, terms(isOver),
			[]Payment{pay(credited, "", late)},
			false,
			assessment{Expired, nil, "100", time.Time{}},
		},
		{
			"late after the completion", Completed, terms(isOver),
			[]Payment{pay(credited, "100"), pay(credited, "5", late)},
			false,
			assessment{Completed, []Exception{Overpaid, PaidLate}, "0", time.Time{}},
		},

		{
			"in time, noticed late", Expired, terms(isOver),
			[]Payment{pay(seen, "100")},
			false,
			assessment{Processing, nil, "0", time.Time{}},
		},
		{
			"in time, noticed late, credited", Expired, terms(isOver),
			[]Payment{pay(credited, "100")},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{"a walk lags at the expiry", Open, terms(isOver), nil, true, assessment{Open, nil, "100", time.Time{}}},
		{
			"a payment waits for its value at the expiry", Open, terms(isOver),
			[]Payment{pay(seen, "")},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},
		{
			"a credited payment waits for its value at the expiry", Open, terms(isOver),
			[]Payment{pay(credited, "")},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},
		{
			"a late payment waits for its value at the expiry", Open, terms(isOver),
			[]Payment{pay(seen, "", late)},
			false,
			assessment{Expired, nil, "100", time.Time{}},
		},

		{
			"another coin", Open, terms(),
			[]Payment{pay(credited, "100", inOtherCoin)},
			false,
			assessment{Open, []Exception{WrongToken}, "100", time.Time{}},
		},
		{
			"another coin without a value at the expiry", Open, terms(isOver),
			[]Payment{pay(credited, "", inOtherCoin)},
			false,
			assessment{Expired, []Exception{WrongToken}, "100", time.Time{}},
		},
		{
			"another coin, and a person accepts", Expired, terms(isOver, isDecided),
			[]Payment{pay(credited, "100", inOtherCoin)},
			false,
			assessment{Completed, []Exception{WrongToken}, "0", time.Time{}},
		},
		{
			"another coin, orphaned", Open, terms(),
			[]Payment{pay(PaymentOrphaned, "100", inOtherCoin)},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},
		{
			"another coin beside the right one", Open, terms(),
			[]Payment{pay(credited, "100"), pay(seen, "", inOtherCoin)},
			false,
			assessment{Completed, []Exception{WrongToken}, "0", time.Time{}},
		},

		{
			"not in the catalogue, or below the minimum", Open, terms(),
			[]Payment{pay(PaymentUnusable, "100")},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},
		{
			"unusable at the expiry", Open, terms(endsNow),
			[]Payment{pay(PaymentUnusable, "")},
			false,
			assessment{Expired, nil, "100", time.Time{}},
		},

		{
			"flagged", Open, terms(),
			[]Payment{pay(flagged, "100")},
			false,
			assessment{Open, []Exception{Flagged}, "100", time.Time{}},
		},
		{
			"flagged at the expiry", Open, terms(isOver),
			[]Payment{pay(flagged, "100")},
			false,
			assessment{Expired, []Exception{Flagged}, "100", time.Time{}},
		},
		{
			"flagged while PROCESSING", Processing, terms(isOver),
			[]Payment{pay(flagged, "100")},
			false,
			assessment{Open, []Exception{Flagged}, "100", now.Add(10 * time.Minute)},
		},
		{
			"approved: it counts with its own moment", Expired, terms(isOver),
			[]Payment{pay(credited, "100", atStart)},
			false,
			assessment{Completed, nil, "0", time.Time{}},
		},
		{
			"rejected: as if it had not been made", Open, terms(),
			[]Payment{pay(PaymentReturned, "100")},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},

		{
			"orphaned before the credit", Processing, terms(),
			[]Payment{pay(PaymentOrphaned, "100")},
			false,
			assessment{Open, nil, "100", time.Time{}},
		},
		{
			"orphaned after the expiry: ten minutes", Processing, terms(endsEarlier),
			[]Payment{pay(PaymentOrphaned, "100")},
			false,
			assessment{Open, nil, "100", now.Add(10 * time.Minute)},
		},
		{
			"a late payment is orphaned: ten minutes, too", Processing, terms(isOver),
			[]Payment{pay(PaymentOrphaned, "100", late)},
			false,
			assessment{Open, nil, "100", now.Add(10 * time.Minute)},
		},
		{
			"one of two parts is orphaned", Processing, terms(isOver),
			[]Payment{pay(seen, "40"), pay(PaymentOrphaned, "60")},
			false,
			assessment{Open, []Exception{Underpaid}, "60", now.Add(30 * time.Minute)},
		},
		{
			"orphaned, and another payment covers the need", Processing, terms(),
			[]Payment{pay(seen, "100"), pay(PaymentOrphaned, "100")},
			false,
			assessment{Processing, nil, "0", time.Time{}},
		},

		{
			"reversed after the credit: the goods may be delivered", Completed, terms(isOver),
			[]Payment{pay(PaymentReversed, "100")},
			false,
			assessment{Completed, []Exception{Reversed}, "0", time.Time{}},
		},
		{
			"a credited part is reversed", Processing, terms(isExtended),
			[]Payment{pay(PaymentReversed, "40"), pay(seen, "60")},
			false,
			assessment{Open, []Exception{Reversed, Underpaid}, "40", time.Time{}},
		},

		{"cancelled", Cancelled, terms(isOver), nil, false, assessment{Cancelled, nil, "100", time.Time{}}},
		{
			"cancelled, then paid", Cancelled, terms(),
			[]Payment{pay(credited, "100", late)},
			false,
			assessment{Cancelled, []Exception{PaidLate}, "100", time.Time{}},
		},
		{
			"cancelled, then paid, and a person accepts", Cancelled, terms(isDecided),
			[]Payment{pay(credited, "100", late)},
			false,
			assessment{Completed, []Exception{PaidLate}, "0", time.Time{}},
		},
		{
			"paid before it was cancelled, noticed later", Cancelled, terms(),
			[]Payment{pay(seen, "100")},
			false,
			assessment{Processing, nil, "0", time.Time{}},
		},
		{
			"a part was paid before it was cancelled", Cancelled, terms(),
			[]Payment{
				pay(credited, "60"),
				pay(credited, "40", late),
			},
			false,
			assessment{Cancelled, []Exception{PaidLate, Underpaid}, "40", time.Time{}},
		},

		{"all exceptions of a completed checkout, by severity", Completed, terms(), []Payment{
			pay(credited, "100"), pay(credited, "5", late), pay(seen, "1", inOtherCoin), pay(PaymentReversed, "1"),
			pay(flagged, "1"), pay(flagged, "2"),
		}, false, assessment{
			Completed,
			[]Exception{Flagged, Reversed, WrongToken, Overpaid, PaidLate},
			"0",
			time.Time{},
		}},
		{"terms without a need", Open, Terms{ExpiresAt: later}, nil, false, assessment{Open, nil, "0", time.Time{}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := Assess(c.present, c.terms, c.payments, now, c.isBehind)
			want := c.want
			if want.expiresAt.IsZero() {
				want.expiresAt = c.terms.ExpiresAt
			}
			got := assessment{r.Status, r.Exceptions, r.Remaining.Text(), r.ExpiresAt}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			severest := NoException
			if len(want.exceptions) > 0 {
				severest = want.exceptions[0]
			}
			if r.Exception != severest {
				t.Errorf("the most severe exception: got %s, want %s", r.Exception, severest)
			}
		})
	}
}

// Sums are of what counts: seen has everything in a block, final only what is credited, and the surplus is final.
func TestTheSumsAreOfWhatCounts(t *testing.T) {
	t.Parallel()
	r := Assess(Open, terms(), []Payment{
		pay(PaymentCredited, "100"), pay(PaymentCredited, "2.5"), pay(PaymentSeen, "7"), pay(PaymentSeen, ""),
		pay(PaymentFlagged, "11"), pay(PaymentOrphaned, "13"), pay(PaymentCredited, "17", inOtherCoin),
	}, now, false)
	got := []string{r.SeenSum.Text(), r.FinalSum.Text(), r.Surplus.Text()}
	if want := []string{"109.5", "102.5", "2.5"}; !slices.Equal(got, want) {
		t.Errorf("seen, final and surplus: got %v, want %v", got, want)
	}
	for name, c := range map[string]struct {
		terms Terms
		want  string
	}{
		"the policy holds":     {terms(holdsLate), "60"},
		"the policy accepts":   {terms(), "62"},
		"a person accepted it": {terms(holdsLate, isDecided), "67"},
	} {
		ps := []Payment{
			pay(PaymentCredited, "60"), pay(PaymentCredited, "2", late), pay(PaymentCredited, "5", tooLate),
		}
		got := Assess(Expired, c.terms, ps, now, false)
		if got.SeenSum.Text() != c.want || got.FinalSum != got.SeenSum {
			t.Errorf("late payments, %s: got %s, want %s", name, got.SeenSum.Text(), c.want)
		}
	}
}

// A duplicate is a payment that covers the need beside others that do; a surplus alone is none.
func TestADuplicateIsASecondWholePayment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		payments []Payment
		want     bool
	}{
		{"paid twice", []Payment{pay(PaymentCredited, "100"), pay(PaymentCredited, "99.5")}, true},
		{"paid in parts, then whole", []Payment{
			pay(PaymentCredited, "60"), pay(PaymentCredited, "40"),
			pay(PaymentCredited, "100"),
		}, true},
		{"a surplus of two payments", []Payment{pay(PaymentCredited, "100"), pay(PaymentCredited, "99.4")}, false},
		{"one double payment", []Payment{pay(PaymentCredited, "200")}, false},
		{"parts that make twice the need", []Payment{
			pay(PaymentCredited, "70"), pay(PaymentCredited, "70"),
			pay(PaymentCredited, "70"),
		}, false},
		{"the second one is not credited", []Payment{pay(PaymentCredited, "100"), pay(PaymentSeen, "100")}, false},
		{"one double payment, and another one that is not credited", []Payment{
			pay(PaymentCredited, "200"),
			pay(PaymentSeen, "100"),
		}, false},
	} {
		if got := Assess(Open, terms(), c.payments, now, false).IsDuplicate; got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// A checkout is cancelled only while it is open and nothing that may count was seen.
func TestOnlyAnUnpaidCheckoutIsCancelled(t *testing.T) {
	t.Parallel()
	prevents := map[PaymentStatus]bool{PaymentSeen: true, PaymentCredited: true, PaymentFlagged: true}
	for _, status := range PaymentStatuses {
		if got := CanCancel(Open, []Payment{pay(status, "")}); got == prevents[status] {
			t.Errorf("with a payment that is %s: got %v", status, got)
		}
	}
	for _, present := range Statuses {
		got := CanCancel(present, nil)
		if got != (present == Open) || got && !IsTransition(present, Cancelled) {
			t.Errorf("%s: got %v", present, got)
		}
	}
}

const trials = 20_000

// situation is one case of the properties.
type situation struct {
	present  Status
	terms    Terms
	payments []Payment
	isBehind bool
}

func chance(r *rand.Rand) bool { return r.IntN(2) == 0 }

func randomPayment(r *rand.Rand, statuses []PaymentStatus) Payment {
	p := Payment{
		Status: statuses[r.IntN(len(statuses))], Moment: now.Add(-time.Duration(r.IntN(90)) * time.Minute),
		IsAccepted: r.IntN(5) > 0, IsInTime: chance(r), IsWatched: chance(r),
	}
	if r.IntN(5) > 0 {
		amounts := []string{"0", "0.3", "40", "59.5", "60", "99.5", "100", "100.6", "250"}
		p.Counted = valued(amounts[r.IntN(len(amounts))])
	}
	return p
}

func randomSituation(r *rand.Rand) situation {
	s := situation{present: Statuses[r.IntN(len(Statuses))], isBehind: r.IntN(4) == 0}
	s.terms = terms(func(t *Terms) {
		t.ExpiresAt = now.Add(time.Duration(r.IntN(120)-60) * time.Minute)
		t.IsExtended, t.AcceptsLate, t.IsDecided = chance(r), chance(r), r.IntN(5) == 0
	})
	for range r.IntN(5) {
		s.payments = append(s.payments, randomPayment(r, PaymentStatuses))
	}
	return s
}

func (s situation) assess() Result { return Assess(s.present, s.terms, s.payments, now, s.isBehind) }

// Every change is in the table, no expiry moves back, and COMPLETED has its reason.
func TestEveryAssessmentKeepsTheTableAndTheReasonOfACompletion(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	reached := map[transition]bool{}
	for range trials {
		s := randomSituation(random)
		r := s.assess()
		if r.Status != s.present {
			reached[transition{From: s.present, To: r.Status}] = true
			if !IsTransition(s.present, r.Status) {
				t.Fatalf("%+v: became %s", s, r.Status)
			}
			isCovered := r.FinalSum.Cmp(s.terms.Need) >= 0
			if r.Status == Completed && !isCovered && !s.terms.IsDecided {
				t.Fatalf("%+v: completed with %s", s, r.FinalSum.Text())
			}
		}
		if r.ExpiresAt.Before(s.terms.ExpiresAt) || s.terms.IsExtended && !r.IsExtended {
			t.Fatalf("%+v: the expiry went back to %v", s, r.ExpiresAt)
		}
		if s.isBehind && r.Status == Expired && s.present != Expired {
			t.Fatalf("%+v: expired while a walk lags", s)
		}
		isSorted := slices.IsSortedFunc(r.Exceptions, func(a, b Exception) int {
			return slices.Index(Exceptions, a) - slices.Index(Exceptions, b)
		})
		if !isSorted || len(slices.Compact(slices.Clone(r.Exceptions))) != len(r.Exceptions) {
			t.Fatalf("%+v: exceptions %v", s, r.Exceptions)
		}
	}
	for _, tr := range transitions {
		isOwn := tr.From == "" || tr.To == Cancelled // a request makes these
		if !isOwn && !reached[transition{From: tr.From, To: tr.To}] {
			t.Errorf("no assessment made %s from %s", tr.To, tr.From)
		}
	}
}

// The assessment of a result, with the same payments and at the same time, is the result.
func TestTheSecondAssessmentChangesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range trials {
		s := randomSituation(random)
		first := s.assess()
		again := s
		again.present = first.Status
		again.terms.ExpiresAt, again.terms.IsExtended = first.ExpiresAt, first.IsExtended
		if second := again.assess(); !reflect.DeepEqual(first, second) {
			t.Fatalf("%+v: first %+v, then %+v", s, first, second)
		}
	}
}

// The order of the payments does not matter.
func TestTheOrderOfPaymentsDoesNotMatter(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 6))
	for range trials {
		s := randomSituation(random)
		want := s.assess()
		mixed := s
		mixed.payments = slices.Clone(s.payments)
		random.Shuffle(len(mixed.payments), func(i, j int) {
			mixed.payments[i], mixed.payments[j] = mixed.payments[j], mixed.payments[i]
		})
		if got := mixed.assess(); !isSameState(got, want) {
			t.Fatalf("%+v: got %+v, want %+v", mixed, got, want)
		}
	}
}

// A payment that is split into parts of the same moment has the effect of the whole one.
func TestTheSplitOfAPaymentDoesNotMatter(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for range trials {
		s := randomSituation(random)
		want := s.assess()
		split := s
		split.payments = nil
		for _, p := range s.payments {
			if p.Counted == nil {
				split.payments = append(split.payments, p)
				continue
			}
			remaining := *p.Counted
			for range random.IntN(3) {
				part := value([]string{"0.000000000000000001", "0.3", "33.333333333333333333"}[random.IntN(3)])
				following, err := remaining.Sub(part)
				if err != nil {
					continue
				}
				remaining = following
				piece := p
				piece.Counted = &part
				split.payments = append(split.payments, piece)
			}
			p.Counted = &remaining
			split.payments = append(split.payments, p)
		}
		got := split.assess()
		got.IsDuplicate = want.IsDuplicate // a duplicate is one payment, so parts are none
		if !isSameState(got, want) {
			t.Fatalf("%+v: whole %+v, in parts %+v", s, want, got)
		}
	}
}

// A payment that counts for nothing changes no status, no sum and no expiry.
func TestAPaymentThatCountsForNothingChangesNothing(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(9, 10))
	nothing := []PaymentStatus{
		PaymentFlagged, PaymentReturned, PaymentOrphaned, PaymentReversed, PaymentUnusable,
	}
	for range trials {
		s := randomSituation(random)
		want := s.assess()
		with := s
		p := randomPayment(random, nothing)
		if !s.terms.IsDecided && chance(random) {
			p = randomPayment(random, []PaymentStatus{PaymentSeen, PaymentCredited})
			if chance(random) {
				p.IsAccepted = false
			} else {
				p.IsInTime, p.IsWatched = false, false
			}
		}
		with.payments = append(slices.Clone(s.payments), p)
		got := with.assess()
		got.Exception, got.Exceptions = want.Exception, want.Exceptions
		if !isSameState(got, want) {
			t.Fatalf("%+v: without %+v, with %+v", with, want, got)
		}
	}
}

// Payments that arrive one by one lead to the state that they have together, whenever each is credited.
func TestTheArrivalOneByOneLeadsToTheSameState(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(11, 12))
	for range trials {
		var ps []Payment
		for range 1 + random.IntN(4) {
			p := randomPayment(random, []PaymentStatus{PaymentSeen})
			p.IsInTime = true
			ps = append(ps, p)
		}
		status, t0 := Open, terms()
		walk := func(now time.Time, payments []Payment) {
			r := Assess(status, t0, payments, now, false)
			status, t0.ExpiresAt, t0.IsExtended = r.Status, r.ExpiresAt, r.IsExtended
		}
		for i := range ps {
			walk(now, ps[:i+1])
			if chance(random) {
				ps[i].Status = PaymentCredited
				walk(now, ps[:i+1])
			}
		}
		for i := range ps {
			ps[i].Status = PaymentCredited
			walk(now, ps)
		}
		if want := Assess(Open, terms(), ps, now, false).Status; status != want {
			t.Fatalf("%+v: one by one %s, together %s", ps, status, want)
		}
	}
}

// isSameState compares results of payments that stand in another order or in other parts.
func isSameState(a, b Result) bool {
	a.Counts, b.Counts = nil, nil
	return reflect.DeepEqual(a, b)
}

func TestAResultSaysWhichPaymentsAreInItsSums(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(7, 8))
	for range trials {
		s := randomSituation(random)
		r := s.assess()
		var seenSum, finalSum pricing.Value
		for i, p := range s.payments {
			if !r.Counts[i] {
				continue
			}
			seenSum = plus(seenSum, *p.Counted)
			if p.Status == PaymentCredited {
				finalSum = plus(finalSum, *p.Counted)
			}
		}
		if len(r.Counts) != len(s.payments) || seenSum != r.SeenSum || finalSum != r.FinalSum {
			t.Fatalf("%+v: got %v with %s and %s, want the sums of %+v", s, r.Counts, seenSum.Text(),
				finalSum.Text(), r)
		}
	}
}
