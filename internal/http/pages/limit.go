package pages

import (
	"cmp"
	"strings"
	"time"

	"github.com/cofferpay/coffer/internal/fault"
	"github.com/cofferpay/coffer/internal/http/kernel"
	"github.com/cofferpay/coffer/internal/identity/session"
)

// personRates count what each person asks for, in this process alone. Rule PAGE-46.
type personRates struct{ reads, writes, tables *kernel.Limiter }

func newPersonRates(l kernel.Limits, clock func() time.Time) personRates {
	return personRates{
		reads: kernel.NewLimiter(l.Reads, clock), writes: kernel.NewLimiter(l.Writes, clock),
		tables: kernel.NewLimiter(l.Exports, clock),
	}
}

// checkRate counts a request of a person, with all sessions of that person together. A refused request did
// nothing, and the answer says when to come back. A visitor without a session has the budgets of sign-in.
func (s *server) checkRate(r *Request) error {
	if r.Session == nil {
		return nil
	}
	counter, advice := s.rates.reads, "Wait %s seconds, then load the page again."
	switch {
	case !isRead(r.Method):
		counter, advice = s.rates.writes, "Wait %s seconds, go back, and send the form again."
	case strings.HasSuffix(r.URL.Path, csvSuffix):
		counter, advice = s.rates.tables, "Wait %s seconds, then download the table again."
	}
	wait := counter.CountRequest(personOf(*r.Session))
	if wait == 0 {
		return nil
	}
	seconds := kernel.FormatWait(wait)
	r.answer.Set("Retry-After", seconds)
	return fault.New(fault.Limited, fault.RateLimited, fault.Unprocessed,
		"You asked for more than a person may ask for at once.").WithAdvice(advice, seconds)
}

// personOf returns who is counted: the account, or what a session without one has.
func personOf(found session.Session) string {
	return cmp.Or(found.Account.ID, found.Member.ID, found.Operator.ID, found.ID)
}
