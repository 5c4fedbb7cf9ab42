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
	UnknownAs      Treatment     // "" is HOLD
	Grace          time.Duration // how long a deposit may wait for an answer
}

// GraceDefault is how long a deposit waits where nothing else is set.
const GraceDefault = 15 * time.Minute

// Configured tells whether there is anybody to ask.
func (p Policy) Configured() bool { return p.Providers != nil }

// Ask asks the providers, outside any transaction. It takes up to half a minute.
func (p Policy) Ask(ctx context.Context, s Subject) *Answer { return ask(ctx, p.Providers, s) }

// AskLists asks the lists of sanctions, outside any transaction.
func (p Policy) AskLists(ctx context.Context, s Subject) *Answer { return ask(ctx, p.Lists, s) }

// SendersMax is of how many senders of one deposit somebody is asked.
const SendersMax = 20

// senders asks about the sender of a deposit, or at the same time about all of several.
func (c DepositCase) senders(ask func(Subject) *Answer) *Answer {
	if len(c.Senders) == 0 {
		return ask(c.Subject)
	}
	if len(c.Senders) > SendersMax {
		return AnswerOf(Verdict{}, Unavailable("%d have sent it, and %d are asked about at most", len(c.Senders), SendersMax))
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
	return worstOf(c.Senders, answers)
}

// worstOf is what is known of several senders together: the highest severity, known only
// when all of them are, and missing what is missing of any. It is pure.
func worstOf(of []chain.Address, answers []*Answer) *Answer {
	var out Answer
	var missing []string
	var all []Verdict
	for i, a := range answers {
		if !a.Said() {
			missing = append(missing, string(of[i])+": "+cmp.Or(a.Unavailable, "no answer that can be used"))
		}
		if a.Verdict == nil || a.Verdict.check() != nil {
			continue
		}
		v := *a.Verdict
		v.Address = of[i]
		all = append(all, v)
	}
	for _, v := range all {
		if out.Verdict == nil || worse(v, *out.Verdict) {
			worst := v
			out.Verdict = &worst
		}
	}
	if v := out.Verdict; v != nil {
		v.Of, v.Missing = all, nil
		for _, o := range all {
			v.Known = v.Known && o.Known
			v.Cached = v.Cached || o.Cached
			if o.At.Before(v.At) {
				v.At = o.At // an old answer of one makes the whole as old
			}
		}
	}
	if len(missing) > 0 {
		out.Unavailable = Text(fmt.Sprintf("of %d of %d senders: %s", len(missing), len(of), strings.Join(missing, "; ")))
	}
	return &out
}

func ask(ctx context.Context, who Screener, s Subject) *Answer {
	if who == nil {
		return AnswerOf(Verdict{}, Unavailable("no provider is configured"))
	}
	if s.Address == "" {
		return AnswerOf(Verdict{}, Unavailable("there is no one sender to ask about"))
	}
	return AnswerOf(who.Screen(ctx, s))
}

// Decide asks and decides about a deposit until there is an outcome that is not a
// question. What was asked is in the case that comes back, for keeping.
func (p Policy) Decide(ctx context.Context, c DepositCase) DepositRecord {
	c.UnknownAs, c.SanctionsFloor, c.Grace = p.UnknownAs, p.SanctionsFloor, p.Grace
	for {
		d := DecideDeposit(c)
		switch {
		case d.Outcome == Ask && c.Answer == nil:
			c.Answer = c.senders(func(s Subject) *Answer { return p.Ask(ctx, s) })
		case d.Outcome == AskLists && c.Lists == nil:
			c.Lists = c.senders(func(s Subject) *Answer { return p.AskLists(ctx, s) })
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
	if d.Outcome == AskWho {
		c.Answer = p.Ask(ctx, c.Subject)
		d = DecideWithdrawal(c)
	}
	return WithdrawalRecord{c, d}
}

// Anew is the same policy that asks each time and uses no answer again. What it hears
// is kept as always.
func (p Policy) Anew() Policy {
	p.Providers, p.Lists = anew(p.Providers), anew(p.Lists)
	return p
}

func anew(s Screener) Screener {
	if p, ok := s.(*Panel); ok {
		return p.Anew()
	}
	return s
}
