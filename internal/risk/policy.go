package risk

import (
	"context"
	"time"
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
			c.Answer = p.Ask(ctx, c.Subject)
		case d.Outcome == AskLists && c.Lists == nil:
			c.Lists = p.AskLists(ctx, c.Subject)
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
