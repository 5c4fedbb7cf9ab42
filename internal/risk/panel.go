package risk

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/cofferpay/coffer/internal/chain"
)

// The default limits of asking a provider.
const (
	tryTimeout = 5 * time.Second
	triesMax   = 3
	// For all tries of one provider, pauses included.
	askTimeout = 30 * time.Second
	pauseFirst = 500 * time.Millisecond
)

// Member is one provider of a panel.
type Member struct {
	Screener Screener
	// TTL is how long an answer may be reused; 0 means that it is not.
	TTL time.Duration
	// Limit bounds how often this process asks it; nil sets no limit. A request that would have to
	// wait longer than its time is unavailable.
	Limit *rate.Limiter
}

// Panel asks several providers concurrently. The highest severity wins.
type Panel struct {
	Members []Member
	// Quorum is how many providers must answer; 0 means all that cover the chain.
	Quorum int
	// Answers stores their answers; nil stores and reuses none.
	Answers *AnswerStore
	Clock   func() time.Time // nil means the system's clock
	Log     *slog.Logger     // nil means the default

	// Set by tests; 0 means the constants above.
	tryTimeout, askTimeout, pause time.Duration
}

var _ Screener = (*Panel)(nil)

// Name returns the name that stands for all members where a single name is needed.
func (p *Panel) Name() string { return "PANEL" }

// Covers reports whether enough members cover a chain.
func (p *Panel) Covers(ch chain.Name) bool {
	n := len(p.coveringMembers(ch))
	return n > 0 && n >= p.Quorum
}

// WithoutCache returns a panel of the same members, under the same limits, that reuses no answer.
func (p *Panel) WithoutCache() *Panel {
	out := *p
	out.Members = slices.Clone(p.Members)
	for i := range out.Members {
		out.Members[i].TTL = 0
	}
	return &out
}

func (p *Panel) coveringMembers(ch chain.Name) (members []Member) {
	for _, m := range p.Members {
		if m.Screener.Covers(ch) {
			members = append(members, m)
		}
	}
	return members
}

func (p *Panel) currentTime() time.Time {
	if p.Clock != nil {
		return p.Clock()
	}
	return time.Now()
}

// memberAnswer is the result of asking one member.
type memberAnswer struct {
	verdict Verdict
	err     error
}

// Screen asks all members that cover the chain, and waits for all of them. It returns
// ErrUnavailable if fewer than the quorum answered; the verdict then holds the answers of the
// others.
func (p *Panel) Screen(ctx context.Context, s Subject) (Verdict, error) {
	members := p.coveringMembers(s.Chain)
	needed := p.Quorum
	if needed <= 0 {
		needed = len(members)
	}
	if len(members) == 0 || len(members) < needed {
		return Verdict{}, Unavailable("%d providers that support %s are configured, and %d are required",
			len(members), SanitizeText(string(s.Chain)), max(needed, 1))
	}
	if s.Address == "" {
		return Verdict{}, Unavailable("there is no address to screen")
	}
	start := p.currentTime()
	answers := make(chan int, len(members))
	results := make([]memberAnswer, len(members))
	for i, m := range members {
		go func() {
			results[i].verdict, results[i].err = p.askMember(ctx, m, s)
			answers <- i
		}()
	}
	for range members {
		<-answers
	}
	v, err := combineAnswers(members, results, needed)
	v.Latency = p.currentTime().Sub(start)
	return v, err
}

// combineAnswers combines all answers into one verdict. Rule RISK-8.
func combineAnswers(members []Member, results []memberAnswer, needed int) (Verdict, error) {
	var out Verdict
	var verdicts []Verdict
	var missing []MissingAnswer
	for i, a := range results {
		name := members[i].Screener.Name()
		if a.err != nil {
			missing = append(missing, MissingAnswer{name, SanitizeText(a.err.Error())})
			continue
		}
		verdicts = append(verdicts, a.verdict)
		if len(verdicts) == 1 || isWorse(a.verdict, out) {
			out = a.verdict
		}
	}
	allKnown := !slices.ContainsFunc(verdicts, func(v Verdict) bool { return !v.IsKnown })
	if len(results) > 1 {
		out.Parts = verdicts
	}
	out.IsKnown, out.Missing = allKnown && len(verdicts) > 0, missing
	for _, v := range verdicts { // the oldest answer determines the time of the whole
		if v.GivenAt.Before(out.GivenAt) {
			out.GivenAt = v.GivenAt
		}
		out.Cached = out.Cached || v.Cached
	}
	if len(verdicts) < needed {
		reasons := make([]string, len(missing))
		for i, m := range missing {
			reasons[i] = m.Provider + ": " + m.Reason
		}
		return out, Unavailable("%d of %d providers answered, and %d have to: %s", len(verdicts), len(results), needed,
			strings.Join(reasons, "; "))
	}
	return out, nil
}

// isWorse reports whether a has a higher severity than b; a known severity is worse than an unknown
// one.
func isWorse(a, b Verdict) bool {
	rank := func(v Verdict) int { return slices.Index(Severities, v.Severity) }
	return rank(a) > rank(b)
}

// askMember returns one member's answer: a stored one that is still valid, or a new one.
// Rule RISK-9.
func (p *Panel) askMember(ctx context.Context, m Member, s Subject) (v Verdict, err error) {
	name := m.Screener.Name()
	// An adapter that panics on a provider's input counts as one that did not answer.
	defer func() {
		if r := recover(); r != nil {
			v, err = Verdict{}, Unavailable("could not be understood")
			p.logger().LogAttrs(ctx, slog.LevelError, "a provider's adapter panicked", slog.String("provider", name),
				slog.Any("panic", r))
		}
	}()
	if m.TTL > 0 && p.Answers != nil {
		switch stored, ok, err := p.Answers.findLatest(ctx, name, s, p.currentTime().Add(-m.TTL)); {
		case err != nil: // an unreadable stored answer is requested again
			p.logger().LogAttrs(ctx, slog.LevelWarn, "cannot use a stored answer of a provider",
				slog.String("provider", name), slog.Any("error", err))
		case ok:
			return stored, nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(p.askTimeout, askTimeout))
	defer cancel()
	pause := orDefault(p.pause, pauseFirst)
	for try := 1; ; try++ {
		v, err = p.askOnce(ctx, m, s)
		if err == nil || try == triesMax || errors.Is(err, errNotRetryable) {
			break
		}
		select {
		case <-ctx.Done():
			err = Unavailable("no answer in time: %w", err)
			p.logFailure(name, s, err)
			return Verdict{}, err
		case <-time.After(pause):
			pause *= 4
		}
	}
	if err != nil {
		p.logFailure(name, s, err)
		return Verdict{}, err
	}
	if p.Answers != nil {
		// A decision needs a stored answer that can be shown later.
		if err := p.Answers.storeAnswer(context.WithoutCancel(ctx), s, &v); err != nil {
			return Verdict{}, Unavailable("its answer was not stored: %w", err)
		}
	}
	return v, nil
}

// logFailure logs a provider that gave no answer. The operator should look at it the same day,
// because deposits and withdrawals wait.
func (p *Panel) logFailure(provider string, s Subject, err error) {
	p.logger().LogAttrs(context.Background(), slog.LevelWarn, "a provider gave no answer", slog.String("provider",
		provider),
		slog.String("chain", string(s.Chain)), slog.String("direction", string(s.Direction)), slog.Any("error", err))
}

// askOnce makes one try.
func (p *Panel) askOnce(ctx context.Context, m Member, s Subject) (Verdict, error) {
	if m.Limit != nil {
		if err := m.Limit.Wait(ctx); err != nil {
			return Verdict{}, Unavailable("the rate limit is reached: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, orDefault(p.tryTimeout, tryTimeout))
	defer cancel()
	start := p.currentTime()
	v, err := m.Screener.Screen(ctx, s)
	if err == nil {
		v.normalize()
		v.Cached, v.AnswerID, v.Latency = false, "", p.currentTime().Sub(start)
		err = v.validate()
		if err == nil && v.Provider != m.Screener.Name() {
			err = fmt.Errorf("it answers as %s", v.Provider)
		}
	}
	switch {
	case err == nil:
		return v, nil
	case errors.Is(err, ErrUnavailable):
		return Verdict{}, err
	}
	return Verdict{}, Unavailable("%w", err)
}

// errNotRetryable says that an immediate retry would get the same answer.
var errNotRetryable = errors.New("not asked again")

// NotRetryable returns an ErrUnavailable that is not retried at once, for example a refused key.
func NotRetryable(format string, args ...any) error {
	return fmt.Errorf("%w, %w: %w", ErrUnavailable, errNotRetryable, fmt.Errorf(format, args...))
}

func (p *Panel) logger() *slog.Logger {
	if p.Log != nil {
		return p.Log
	}
	return slog.Default()
}

func orDefault(v, fallback time.Duration) time.Duration {
	if v > 0 {
		return v
	}
	return fallback
}
