package risk

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cofferpay/coffer/internal/chain"
)

// Policy is how an installation screens: whom it asks, and what the operator set.
// Features take it whole.
type Policy struct {
	// Providers are asked about deposits above the threshold and about every
	// destination; nil: this installation has none.
	Providers Screener
	// Lists are asked below the threshold where SanctionsFloor is on; nil: none.
	Lists          Screener
	SanctionsFloor bool
	UnknownAs      UnknownTreatment // "" is HOLD
	Grace          time.Duration    // how long a deposit may wait for an answer
}

// GraceDefault is how long a deposit waits where nothing else is set.
const GraceDefault = 15 * time.Minute

// Configured tells whether there is anybody to ask.
func (p Policy) Configured() bool { return p.Providers != nil }

// ScreenProviders asks the providers, outside any transaction. It takes up to half a minute.
func (p Policy) ScreenProviders(ctx context.Context, s Subject) *Answer {
	return screenWith(ctx, p.Providers, s)
}

// ScreenLists asks the lists of sanctions, outside any transaction.
func (p Policy) ScreenLists(ctx context.Context, s Subject) *Answer {
	return screenWith(ctx, p.Lists, s)
}

// SendersMax is of how many senders of one deposit somebody is asked.
const SendersMax = 20

// screenSenders asks about the sender of a deposit, or at the same time about all of several.
func (c DepositCase) screenSenders(ask func(Subject) *Answer) *Answer {
	if len(c.Senders) == 0 {
		return ask(c.Subject)
	}
	if len(c.Senders) > SendersMax {
		return NewAnswer(Verdict{}, Unavailable("%d have sent it, and %d are asked about at most", len(c.Senders), SendersMax))
	}
	answers := make([]*Answer, len(c.Senders))
	var asking sync.WaitGroup
	for i, a := range c.Senders {
		asking.Go(func() {
			s := c.Subject
			s.Address = a
			answers[i] = ask(s)
		})
	}
	asking.Wait()
	return combineSenders(c.Senders, answers)
}

// combineSenders is what is known of several senders together: the highest severity, known only
// when all of them are, and missing what is missing of any. It is pure.
func combineSenders(senders []chain.Address, answers []*Answer) *Answer {
	var out Answer
	var missing []string
	var verdicts []Verdict
	for i, a := range answers {
		if !a.IsComplete() {
			missing = append(missing, string(senders[i])+": "+cmp.Or(a.Unavailable, "no answer that can be used"))
		}
		if a.Verdict == nil || a.Verdict.validate() != nil {
			continue
		}
		v := *a.Verdict
		v.Address = senders[i]
		verdicts = append(verdicts, v)
	}
	for _, v := range verdicts {
		if out.Verdict == nil || isWorse(v, *out.Verdict) {
			worst := v
			out.Verdict = &worst
		}
	}
	if v := out.Verdict; v != nil {
		v.Parts, v.Missing = verdicts, nil
		for _, o := range verdicts {
			v.IsKnown = v.IsKnown && o.IsKnown
			v.Cached = v.Cached || o.Cached
			if o.GivenAt.Before(v.GivenAt) {
				v.GivenAt = o.GivenAt // an old answer of one makes the whole as old
			}
		}
	}
	if len(missing) > 0 {
		out.Unavailable = SanitizeText(fmt.Sprintf("of %d of %d senders: %s", len(missing), len(senders), strings.Join(missing, "; ")))
	}
	return &out
}

func screenWith(ctx context.Context, screener Screener, s Subject) *Answer {
	if screener == nil {
		return NewAnswer(Verdict{}, Unavailable("no provider is configured"))
	}
	if s.Address == "" {
		return NewAnswer(Verdict{}, Unavailable("there is no one sender to ask about"))
	}
	return NewAnswer(screener.Screen(ctx, s))
}

// DecideDeposit asks and decides about a deposit until there is an outcome that is not a
// question. What was asked is in the case that comes back, for keeping.
func (p Policy) DecideDeposit(ctx context.Context, c DepositCase) DepositRecord {
	c.UnknownAs, c.SanctionsFloor, c.Grace = p.UnknownAs, p.SanctionsFloor, p.Grace
	for {
		d := DecideDeposit(c)
		switch {
		case d.Outcome == ScreenProviders && c.Answer == nil:
			c.Answer = c.screenSenders(func(s Subject) *Answer { return p.ScreenProviders(ctx, s) })
		case d.Outcome == ScreenLists && c.Lists == nil:
			c.Lists = c.screenSenders(func(s Subject) *Answer { return p.ScreenLists(ctx, s) })
		default:
			return DepositRecord{c, d}
		}
	}
}

// DecideDestination asks and decides about a destination. What was asked is in the
// case that comes back, for keeping.
func (p Policy) DecideDestination(ctx context.Context, c WithdrawalCase) WithdrawalRecord {
	c.UnknownAs, c.Configured = p.UnknownAs, p.Configured()
	d := DecideWithdrawal(c)
	if d.Outcome == ScreenDestination {
		c.Answer = p.ScreenProviders(ctx, c.Subject)
		d = DecideWithdrawal(c)
	}
	return WithdrawalRecord{c, d}
}

// WithoutCache is the same policy that asks each time and uses no answer again. What it hears
// is kept as always.
func (p Policy) WithoutCache() Policy {
	p.Providers, p.Lists = withoutCache(p.Providers), withoutCache(p.Lists)
	return p
}

func withoutCache(s Screener) Screener {
	if p, ok := s.(*Panel); ok {
		return p.WithoutCache()
	}
	return s
}
