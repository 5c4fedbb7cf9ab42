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

// Policy is how an installation screens: its providers, and the operator's settings. Features take
// it as a whole.
type Policy struct {
	// Providers screen deposits above the threshold and every destination; nil if this installation
	// has none.
	Providers Screener
	// Lists screen deposits below the threshold if SanctionsFloor is on; nil if there are none.
	Lists          Screener
	SanctionsFloor bool
	UnknownAs      UnknownTreatment // "" is HOLD
	Grace          time.Duration    // how long a deposit may wait for an answer
}

// GraceDefault is how long a deposit waits for an answer by default.
const GraceDefault = 15 * time.Minute

// Configured reports whether there is a provider.
func (p Policy) Configured() bool { return p.Providers != nil }

// ScreenProviders asks the providers, outside any transaction. It takes up to half a minute.
func (p Policy) ScreenProviders(ctx context.Context, s Subject) *Answer {
	return screenWith(ctx, p.Providers, s)
}

// ScreenLists asks the lists of sanctions, outside any transaction.
func (p Policy) ScreenLists(ctx context.Context, s Subject) *Answer {
	return screenWith(ctx, p.Lists, s)
}

// SendersMax is how many senders of one deposit are screened at most.
const SendersMax = 20

// screenSenders screens the sender of a deposit, or all of several senders concurrently.
// Rule RISK-14.
func (c DepositCase) screenSenders(ask func(Subject) *Answer) *Answer {
	if len(c.Senders) == 0 {
		return ask(c.Subject)
	}
	if len(c.Senders) > SendersMax {
		return NewAnswer(Verdict{}, Unavailable("it has %d senders, and at most %d are screened", len(c.Senders),
			SendersMax))
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

// combineSenders combines the answers about several senders. It takes the highest severity, which
// is known only if all are, and lists every missing answer. It is pure.
func combineSenders(senders []chain.Address, answers []*Answer) *Answer {
	var out Answer
	var missing []string
	var verdicts []Verdict
	for i, a := range answers {
		if !a.IsComplete() {
			missing = append(missing, string(senders[i])+": "+cmp.Or(a.Unavailable, "no usable answer"))
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
				v.GivenAt = o.GivenAt // the oldest answer determines the time of the whole
			}
		}
	}
	if len(missing) > 0 {
		out.Unavailable = SanitizeText(fmt.Sprintf("for %d of %d senders: %s", len(missing), len(senders),
			strings.Join(missing, "; ")))
	}
	return &out
}

func screenWith(ctx context.Context, screener Screener, s Subject) *Answer {
	if screener == nil {
		return NewAnswer(Verdict{}, Unavailable("no provider is configured"))
	}
	if s.Address == "" {
		return NewAnswer(Verdict{}, Unavailable("there is no single sender to screen"))
	}
	return NewAnswer(screener.Screen(ctx, s))
}

// DecideDeposit screens and decides about a deposit until the outcome needs no further screening.
// The returned record has the case with all answers, for storage.
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

// DecideDestination screens and decides about a destination. The returned record has the case with
// all answers, for storage.
func (p Policy) DecideDestination(ctx context.Context, c WithdrawalCase) WithdrawalRecord {
	c.UnknownAs, c.Configured = p.UnknownAs, p.Configured()
	d := DecideWithdrawal(c)
	if d.Outcome == ScreenDestination {
		c.Answer = p.ScreenProviders(ctx, c.Subject)
		d = DecideWithdrawal(c)
	}
	return WithdrawalRecord{c, d}
}

// WithoutCache returns the same policy without reuse of answers. New answers are stored as always.
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
